/* SPDX-License-Identifier: BSD-3-Clause */

/* Processes are killed at random times, in the middle of everything: the others notice within a
 * second and end by themselves, and nothing of ours is left on the node: no file in /dev/shm, no
 * socket, no process.
 *
 *      killed [ROUNDS [SEED]]
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"

#define MEMBERS 4

/* What the members tell the test, in memory that both see. */
struct told {
    _Atomic uint64_t identity[MEMBERS];     /* of each; in the names of its sockets */
    _Atomic int pid[MEMBERS];
    _Atomic int64_t killed_at;              /* monotonic ns, 0: nobody yet */
    _Atomic int64_t slowest;                /* to notice it */
};

/* ---- members: do everything until somebody dies ---- */

static int work_once(struct world *w, unsigned round)
{
    unsigned char bytes[2000] = { 1 };
    int to = (int)((unsigned)w->me + 1 + round) % w->n, status;
    struct loci_mem mine;
    uint64_t old;

    status = loci_fetch_add(w->rt, &w->pools[to], 0, 1, &old, NULL);
    if (status == LOCO_OK)
        status = loci_write(w->rt, &w->users[to], 0, bytes, sizeof bytes, NULL);
    if (status == LOCO_OK)
        status = w->me == to ? LOCO_OK
                 : w->rt->ops->control_send(w->rt->fabric, loci_peer(w->rt, w->pools[to].peer),
                                            bytes, 100);
    if (status == LOCO_OK && round % 16 == 0)
        status = loci_alloc(w->rt, (size_t)3 << 20, 0, &mine);
    if (status == LOCO_OK && round % 16 == 0)
        loci_free(w->rt, &mine);
    return status;
}

#define FILES 256

/* What was open before the runtime was is not its own: the test's output, say. */
static void note_inherited(bool *inherited)
{
    for (int fd = 0; fd < FILES; fd++)
        inherited[fd] = fcntl(fd, F_GETFD) != -1;
}

/* Files that would outlive us: mapped ones, open ones. */
static bool uses_files(const bool *inherited)
{
    char line[512], path[64];
    FILE *maps = fopen("/proc/self/maps", "re");
    bool found = maps == NULL;

    while (!found && fgets(line, sizeof line, maps) != NULL)
        found = strstr(line, "/dev/shm/") != NULL;
    if (maps != NULL)
        fclose(maps);
    for (int fd = 0; fd < FILES && !found; fd++) {
        ssize_t n;

        if (inherited[fd])
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, line, sizeof line - 1);
        line[n > 0 ? n : 0] = '\0';
        found = strncmp(line, "/dev/shm/", 9) == 0 || strncmp(line, "/tmp/", 5) == 0;
        if (found)
            printf("# a member has %s open\n", line);
    }
    return found;
}

static bool all_alive(const struct world *w)
{
    for (int i = 0; i < w->n; i++)
        if (!loci_peer_alive(w->rt, w->pools[i].peer))
            return false;
    return true;
}

static void raise_to(_Atomic int64_t *word, int64_t value)
{
    int64_t old = atomic_load(word);

    while (old < value && !atomic_compare_exchange_weak(word, &old, value))
        ;
}

static int works(const struct loco_bootstrap *boot, void *arg)
{
    struct told *told = arg;
    struct world w;
    unsigned round = 0;
    int status = LOCO_OK;
    bool inherited[FILES];
    int64_t killed_at;

    note_inherited(inherited);
    atomic_store(&told->identity[boot->exchange.rank], boot->identity);
    atomic_store(&told->pid[boot->exchange.rank], getpid());
    status = enter(&w, boot, 1 << 16);
    while (status == LOCO_OK && all_alive(&w)) {
        status = work_once(&w, round++);
        if (round == 20)
            NEED(!uses_files(inherited));
        if (round % 64 == 0 && status == LOCO_OK)
            status = together(&w);
    }
    killed_at = atomic_load(&told->killed_at);
    if (w.rt != NULL && killed_at != 0)
        raise_to(&told->slowest, loci_now(w.rt) - killed_at);
    if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD)
        fprintf(stderr, "member %d: %s\n", boot->exchange.rank, loco_strerror(status));
    NEED(status == LOCO_OK || status == LOCO_ERR_PEER_DEAD);
    NEED(killed_at != 0);
    loco_runtime_close(w.rt);
    free(w.memory);
    return 0;
}

/* ---- what is left ---- */

static bool socket_is_left(uint64_t identity)
{
    char line[512], name[64];
    FILE *f = fopen("/proc/net/unix", "re");
    bool left = false;

    snprintf(name, sizeof name, "@loco.%016llx", (unsigned long long)identity);
    while (f != NULL && !left && fgets(line, sizeof line, f) != NULL)
        left = strstr(line, name) != NULL;
    if (f != NULL)
        fclose(f);
    if (left)
        printf("# left: socket %s", line);
    return left;
}

/* Others may make files there meanwhile, so only names tell; that members have none open of any
 * name they see themselves. */
static bool file_is_left(void)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    bool left = false;

    while (dir != NULL && !left && (entry = readdir(dir)) != NULL) {
        left = strstr(entry->d_name, "loco") != NULL;
        if (left)
            printf("# left: /dev/shm/%s\n", entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    return left;
}

static bool nothing_is_left(const struct told *told)
{
    bool left = file_is_left();

    for (int i = 0; i < MEMBERS; i++) {
        int pid = atomic_load(&told->pid[i]);

        if (pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH)) {
            printf("# left: process %d\n", pid);
            left = true;
        }
        left |= atomic_load(&told->identity[i]) != 0
                && socket_is_left(atomic_load(&told->identity[i]));
    }
    return !left;
}

/* ---- rounds ---- */

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Early deaths, while runtimes open, and later ones. */
static void pause_randomly(unsigned *seed)
{
    unsigned most = rand_r(seed) % 2 ? 3000 : 100000;

    usleep((unsigned)rand_r(seed) % most);
}

static bool kill_one(struct told *told, unsigned *seed)
{
    int victim = rand_r(seed) % MEMBERS, statuses[MEMBERS];
    loco_fork_t *job;
    bool good = true;

    memset(told, 0, sizeof *told);
    if (loco_fork_start(MEMBERS, works, told, &job) != LOCO_OK)
        return false;
    pause_randomly(seed);
    atomic_store(&told->killed_at, now());
    kill(loco_fork_pid(job, victim), SIGKILL);
    loco_fork_wait(job, statuses);
    for (int i = 0; i < MEMBERS; i++)
        if (statuses[i] != (i == victim ? -SIGKILL : 0)) {
            printf("# victim %d, but member %d ended with %d\n", victim, i, statuses[i]);
            good = false;
        }
    return good && nothing_is_left(told);
}

static bool kill_all(struct told *told, unsigned *seed)
{
    loco_fork_t *job;

    memset(told, 0, sizeof *told);
    if (loco_fork_start(MEMBERS, works, told, &job) != LOCO_OK)
        return false;
    pause_randomly(seed);
    atomic_store(&told->killed_at, now());
    for (int i = 0; i < MEMBERS; i++)
        kill(loco_fork_pid(job, i), SIGKILL);
    loco_fork_wait(job, NULL);
    return nothing_is_left(told);
}

/* The parent of the members is killed: they end with it. */
static bool kill_parent(struct told *told, unsigned *seed)
{
    pid_t parent;

    memset(told, 0, sizeof *told);
    fflush(stdout);
    parent = fork();
    if (parent == 0) {
        loco_fork_run(MEMBERS, works, told, NULL);
        _exit(0);
    }
    pause_randomly(seed);
    atomic_store(&told->killed_at, now());
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    while (waitpid(-1, NULL, 0) > 0)    /* its orphans are ours: we are their subreaper */
        ;
    return nothing_is_left(told);
}

static int rounds_of(struct tap *tap, const char *what, bool (*round)(struct told *, unsigned *),
                     struct told *told, int rounds, unsigned seed)
{
    unsigned state = seed;
    int bad = 0;

    for (int i = 0; i < rounds; i++)
        bad += !round(told, &state);
    return tap_ok(tap, bad == 0, "%s, %d times, seed %u: nothing is left", what, rounds, seed);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 40;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)now();
    struct told *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t slowest = 0;
    struct tap tap = { 0, 0 };
    unsigned state = seed;
    int bad = 0;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < rounds; i++) {
        bad += !kill_one(told, &state);
        raise_to(&told->slowest, slowest);
        slowest = atomic_load(&told->slowest);
    }
    tap_ok(&tap, bad == 0, "one of %d members killed, %d times, seed %u: the others end by "
           "themselves, nothing is left", MEMBERS, rounds, seed);
    tap_ok(&tap, slowest > 0 && slowest < 1000000000, "noticed after %.1f ms at most",
           (double)slowest / 1e6);
    rounds_of(&tap, "all members killed", kill_all, told, rounds, seed);
    rounds_of(&tap, "their parent killed", kill_parent, told, rounds, seed);
    return tap_end(&tap);
}

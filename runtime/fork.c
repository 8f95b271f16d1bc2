/* SPDX-License-Identifier: BSD-3-Clause */

/* Forked processes, and the exchange among them that a runtime is opened with.
 *
 * The hub is shared memory from before the forks. A member writes its pieces of an allgather into
 * its two buffers in turn and then, with release, counts `round` up; the others wait for that
 * (acquire) and read. A buffer is written again two rounds later, when all have counted the round
 * between and so have read it. Who writes what: a member its `round` and buffers, the parent `pid`
 * and `ended`. A pid is that member's as long as `ended` is not set: the parent sets it before it
 * lets the pid go. A member that stops, stops only those that wait for its next round, and they
 * look whether it still lives. */

#include "config.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <loco/fork.h>

#include "observe/mistake.h"

#define MEMBERS_MAX 4096
#define PIECE 4096                  /* bytes that a member gives per round */
#define LOOK_EVERY 256              /* rounds of waiting between looks at a member's life */
#define YIELDS 1000                 /* before the waiting sleeps */

struct member {
    _Atomic uint64_t round;
    _Atomic int pid;                /* 0: not forked yet */
    _Atomic int ended;
    unsigned char buffer[2][PIECE];
};

struct hub {
    uint64_t job;                   /* upper bits of the members' identities */
    int n;
    struct member member[];
};

/* A member's place in the exchange. */
struct place {
    struct hub *hub;
    int rank;
    uint64_t round;                 /* that it has counted */
};

struct loco_fork {
    struct hub *hub;
    size_t len;                     /* bytes of the hub */
};

/* ---- members: the exchange ---- */

/* Ended, but not yet waited for: fields 3 and 20 of /proc/PID/stat. A process whose first thread
 * has gone looks the same, but has threads besides that one. */
static bool is_zombie(int pid)
{
    char path[32], line[512], *after = NULL, state = ' ';
    long threads = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fgets(line, sizeof line, f) != NULL)
        after = strrchr(line, ')');
    fclose(f);
    return after != NULL
           && sscanf(after + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                     "%*s %ld", &state, &threads) == 2
           && (state == 'X' || (state == 'Z' && threads < 2));
}

static bool has_ended(struct member *m)
{
    int pid = atomic_load_explicit(&m->pid, memory_order_acquire);

    if (atomic_load_explicit(&m->ended, memory_order_acquire))
        return true;
    return pid != 0 && ((kill(pid, 0) != 0 && errno == ESRCH) || is_zombie(pid));
}

static bool has_counted(struct member *m, uint64_t round)
{
    return atomic_load_explicit(&m->round, memory_order_acquire) >= round;
}

/* Who is late is so for long, as a rule: the machine is left to it. */
static void wait_a_little(unsigned times)
{
    const struct timespec pause = { .tv_nsec = 100000 };

    if (times < YIELDS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static int wait_for_round(struct member *m, uint64_t round)
{
    for (unsigned i = 1; !has_counted(m, round); i++) {
        /* It may have counted and then ended: that is not too early. */
        if (i % LOOK_EVERY == 0 && has_ended(m) && !has_counted(m, round))
            return LOCO_ERR_PEER_DEAD;
        wait_a_little(i);
    }
    return LOCO_OK;
}

/* All give `len` bytes, at most a piece; member i's go to all + i * stride. */
static int exchange_piece(struct place *place, const unsigned char *mine, size_t len,
                          unsigned char *all, size_t stride)
{
    struct hub *hub = place->hub;
    uint64_t round = ++place->round;

    if (len > 0)
        memcpy(hub->member[place->rank].buffer[round % 2], mine, len);
    atomic_store_explicit(&hub->member[place->rank].round, round, memory_order_release);
    for (int i = 0; i < hub->n; i++) {
        int status = wait_for_round(&hub->member[i], round);

        if (status != LOCO_OK)
            return status;
        if (len > 0)
            memcpy(all + (size_t)i * stride, hub->member[i].buffer[round % 2], len);
    }
    return LOCO_OK;
}

static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    const unsigned char *from = mine;
    unsigned char *to = all;
    size_t at = 0;

    do {    /* once for nothing, too: it is a barrier */
        size_t piece = len - at < PIECE ? len - at : PIECE;
        int status = exchange_piece(ctx, from + at, piece, to + at, len);

        if (status != LOCO_OK)
            return status;
        at += piece;
    } while (at < len);
    return LOCO_OK;
}

_Noreturn static void be_member(struct hub *hub, int rank, loco_fork_fn *fn, void *arg,
                                pid_t parent)
{
    struct place place = { .hub = hub, .rank = rank };
    const struct loco_bootstrap boot = {
        .identity = hub->job | (uint64_t)rank,
        .exchange = { .ctx = &place, .rank = rank, .size = hub->n, .allgather = allgather },
    };
    int code;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);           /* it ended before we asked */
    code = fn(&boot, arg);
    fflush(stdout);
    fflush(stderr);
    _exit(code & 0xff);
}

/* ---- the parent ---- */

static struct hub *make_hub(int n, size_t len)
{
    struct hub *hub = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t job = 0;

    if (hub == MAP_FAILED)
        return NULL;
    if (getrandom(&job, sizeof job, GRND_NONBLOCK) != (ssize_t)sizeof job)
        job = (uint64_t)getpid() << 32;
    hub->job = job & ~(uint64_t)(MEMBERS_MAX - 1);
    hub->n = n;
    return hub;
}

static int exit_status(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? info->si_status : -info->si_status;
}

/* Wait for one member; its pid is let go only after the others can know. */
static int reap(struct member *m)
{
    pid_t pid = atomic_load_explicit(&m->pid, memory_order_relaxed);
    siginfo_t info = { .si_code = 0 };

    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    atomic_store_explicit(&m->ended, 1, memory_order_release);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return exit_status(&info);
}

static void kill_members(struct hub *hub, int n)
{
    for (int i = 0; i < n; i++)
        kill(atomic_load_explicit(&hub->member[i].pid, memory_order_relaxed), SIGKILL);
    for (int i = 0; i < n; i++)
        reap(&hub->member[i]);
}

static int fork_members(struct hub *hub, loco_fork_fn *fn, void *arg)
{
    pid_t parent = getpid();

    fflush(NULL);           /* or what is buffered would be written by each member */
    for (int i = 0; i < hub->n; i++) {
        pid_t pid = fork();

        if (pid == 0)
            be_member(hub, i, fn, arg, parent);
        if (pid < 0) {
            kill_members(hub, i);
            return LOCO_ERR_SYSTEM;
        }
        atomic_store_explicit(&hub->member[i].pid, pid, memory_order_release);
    }
    return LOCO_OK;
}

int loco_fork_start(int n, loco_fork_fn *fn, void *arg, loco_fork_t **out)
{
    loco_fork_t *job;
    int status;

    if (n < 1 || n > MEMBERS_MAX)
        return loci_bad_arg(NULL, "loco_fork_start", NULL, "n", n, "1 to %d", MEMBERS_MAX);
    if (fn == NULL)
        return loci_null_arg(NULL, "loco_fork_start", NULL, "fn");
    job = malloc(sizeof *job);
    if (job == NULL)
        return LOCO_ERR_NO_MEMORY;
    job->len = sizeof *job->hub + (size_t)n * sizeof job->hub->member[0];
    job->hub = make_hub(n, job->len);
    status = job->hub == NULL ? LOCO_ERR_NO_MEMORY : fork_members(job->hub, fn, arg);
    if (status == LOCO_OK) {
        *out = job;
        return LOCO_OK;
    }
    if (job->hub != NULL)
        munmap(job->hub, job->len);
    free(job);
    return status;
}

pid_t loco_fork_pid(const loco_fork_t *job, int rank)
{
    if (rank < 0 || rank >= job->hub->n)
        return -1;
    return atomic_load_explicit(&job->hub->member[rank].pid, memory_order_relaxed);
}

/* In rank order: a member that ended is a zombie until its turn, which the others can see. */
int loco_fork_wait(loco_fork_t *job, int *statuses)
{
    int result = LOCO_OK, n = job->hub->n;

    for (int i = 0; i < n; i++) {
        int status = reap(&job->hub->member[i]);

        if (statuses != NULL)
            statuses[i] = status;
        if (status != 0)
            result = LOCO_ERR_PEER_DEAD;
    }
    munmap(job->hub, job->len);
    free(job);
    return result;
}

int loco_fork_run(int n, loco_fork_fn *fn, void *arg, int *statuses)
{
    loco_fork_t *job;
    int status = loco_fork_start(n, fn, arg, &job);

    return status == LOCO_OK ? loco_fork_wait(job, statuses) : status;
}

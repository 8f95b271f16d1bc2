/* SPDX-License-Identifier: BSD-3-Clause */

/* deaths HOW [KIND]: three members use a channel without a pause, each on a machine of its own, and
 * the last one is lost: HOW is
 *
 *   killed    by SIGKILL                    told to the others within 2 s
 *   stopped   by SIGSTOP, for ever          within LOCO_PEER_TIMEOUT and 2 s
 *   cut       its machine's link goes down  so are both sides
 *   vanished  the same, and it is killed; a second later the link is there again. The same limit
 *   paused    by SIGSTOP, for a third of LOCO_PEER_TIMEOUT: nobody is told anything
 *
 * Told is a call that ends with LOCO_ERR_PEER_DEAD, or the group's word for who does not need the
 * lost one; nobody hangs. Each kind of channel, or KIND alone, then calls that only the lost one
 * could end (deaths_waits.c). Speaks TAP. */

#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "../machine/machine.h"
#include "deaths.h"

enum { MEMBERS = 3, LOST = MEMBERS - 1 };
enum how { KILLED, STOPPED, CUT, VANISHED, PAUSED, WAYS };
static const char *const ways[WAYS] = { "killed", "stopped", "cut", "vanished", "paused" };

#define SECOND INT64_C(1000000000)
#define TIMEOUT (3 * SECOND)            /* LOCO_PEER_TIMEOUT, which main() sets */

/* Shared by all processes; times of the monotonic clock. */
static struct shared {
    _Atomic int64_t gone;               /* since when the last member is lost */
    _Atomic int64_t told[MEMBERS];
    _Atomic int ready, ended[MEMBERS];
    _Atomic int began;                  /* the last member's first call is over */
} *shared;

struct round {
    enum how how;
    const struct kind *kind;
};

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void nap(int64_t ns)
{
    const struct timespec pause = { ns / SECOND, ns % SECOND };

    nanosleep(&pause, NULL);
}

static double scale(void)
{
    const char *text = getenv("TEST_SCALE");

    return text == NULL || atof(text) < 1 ? 1 : atof(text);
}

/* How long after the loss who waits for the lost one must have been told; a busy machine takes its
 * time. */
static int64_t limit_of(enum how how)
{
    return (int64_t)((double)(how == KILLED ? 2 * SECOND : TIMEOUT + 2 * SECOND) * scale());
}

static void quiet(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* Before the last member is lost, and before others make a second call, which may be for what it
 * takes: on a machine under load it is not so by itself. Its own first call may be one
 * that needs their second, so not for ever. */
static void await_first_call(void)
{
    int64_t begin = now();

    while (!atomic_load(&shared->began) && now() - begin < 5 * SECOND)
        nap(SECOND / 1000);
}

/* ---- the last member ---- */

static void *lose_self(void *how)
{
    await_first_call();
    nap(SECOND / 5);
    atomic_store(&shared->gone, now());
    switch (*(const enum how *)how) {
    case KILLED:
        kill(getpid(), SIGKILL);
        break;
    case CUT:
    case VANISHED:
        if (system("ip link set eth0 down") != 0)
            abort();
        if (*(const enum how *)how == VANISHED)
            kill(getpid(), SIGKILL);
        break;
    default:
        kill(getpid(), SIGSTOP);
        break;
    }
    return NULL;
}

/* ---- all members ---- */

static bool sees_a_death(const struct member *m)
{
    for (int i = 0; i < m->n; i++)
        if (loco_group_alive(m->all, i) != LOCO_OK)
            return true;
    return false;
}

/* A while after the pause it is over, for all at the same call: they agree now and then. */
static bool is_over(const struct member *m, const struct round *r, int calls)
{
    int64_t gone = atomic_load(&shared->gone);
    unsigned char late = gone != 0 && now() - gone > 2 * TIMEOUT, all[MEMBERS];

    if (r->how != PAUSED || calls % 64 != 0
        || m->exchange->allgather(m->exchange->ctx, &late, 1, all) != LOCO_OK)
        return false;
    return all[0] != 0 && all[1] != 0 && all[2] != 0;
}

/* Until there is word of a death. */
static int use(struct member *m, const struct round *r, void *made)
{
    for (int calls = 1; !is_over(m, r, calls); calls++) {
        int status = r->kind->use(m, made);

        if (m->me == LOST)
            atomic_store(&shared->began, 1);
        else if (calls == 1)
            await_first_call();
        if (status == LOCO_ERR_PEER_DEAD || sees_a_death(m)) {
            atomic_store(&shared->told[m->me], now());
            return LOCO_OK;
        }
        if (status != LOCO_OK) {
            fprintf(stderr, "member %d: %s: %s\n", m->me, r->kind->name,
                    loco_strerror(status));
            return status;
        }
    }
    return LOCO_OK;
}

static int live(const struct loco_bootstrap *boot, void *arg)
{
    const struct round *r = arg;
    struct loco_bootstrap mine = *boot;
    struct member m = { .exchange = &boot->exchange, .me = boot->exchange.rank, .n = MEMBERS };
    pthread_t loser;
    void *made;
    int status;

    mine.log = quiet;
    m.seed = (unsigned)m.me;
    NEED(loco_runtime_open(&mine, &m.rt) == LOCO_OK);
    m.all = loco_everyone(m.rt);
    NEED(r->kind->make(&m, "it", &made) == LOCO_OK);
    NEED(loco_runtime_wait_ready(m.rt, LOCO_FOREVER) == LOCO_OK);
    NEED(boot->exchange.allgather(boot->exchange.ctx, NULL, 0, &(unsigned char){ 0 }) == LOCO_OK);
    if (m.me == LOST)
        NEED(pthread_create(&loser, NULL, lose_self, (void *)&r->how) == 0);
    status = use(&m, r, made);
    atomic_store(&shared->ended[m.me], 1);
    r->kind->destroy(made);
    loco_runtime_close(m.rt);
    return status != LOCO_OK;
}

/* ---- the parent ---- */

static bool all_ended(int members)
{
    for (int i = 0; i < members; i++)
        if (!atomic_load(&shared->ended[i]))
            return false;
    return true;
}

/* Down, a link loses its address of version 6. */
static void restore_link(void)
{
    if (system("on 3 sh -c 'ip link set eth0 up; ip addr add fd00:91::3/64 dev eth0 nodad' "
               "2>/dev/null") < 0)
        perror("system");
    nap(SECOND / 5);
}

/* Wakes who is paused, ends who is stopped, and whatever hangs. */
static void watch(loco_fork_t *job, enum how how)
{
    int64_t begin = now(), gone;

    while ((gone = atomic_load(&shared->gone)) == 0 && now() - begin < 30 * SECOND)
        nap(SECOND / 1000);
    if (how == PAUSED) {
        nap(TIMEOUT / 3);
        kill(loco_fork_pid(job, LOST), SIGCONT);
    }
    if (how == VANISHED) {
        nap(SECOND);
        restore_link();
    }
    while (!all_ended(how == CUT || how == PAUSED ? MEMBERS : LOST)
           && now() - gone < 2 * TIMEOUT + limit_of(how) + 20 * SECOND)
        nap(SECOND / 1000);
    if (how == STOPPED)
        kill(loco_fork_pid(job, LOST), SIGKILL);
    if (all_ended(how == CUT || how == PAUSED ? MEMBERS : LOST))
        return;
    printf("# somebody hangs: ended are %d %d %d\n", shared->ended[0], shared->ended[1],
           shared->ended[2]);
    for (int i = 0; i < MEMBERS; i++)
        kill(loco_fork_pid(job, i), SIGKILL);
}

static double seconds(int64_t ns)
{
    return (double)ns / (double)SECOND;
}

/* Who has to be told is told in time, and not before anything has happened. */
static bool told_in_time(enum how how)
{
    int members = how == CUT || how == PAUSED ? MEMBERS : LOST;
    bool good = true;

    if (how == PAUSED && shared->told[0] == 0 && shared->told[1] == 0 && shared->told[2] == 0)
        return true;
    printf("# told after");
    for (int i = 0; i < members; i++) {
        int64_t told = shared->told[i], after = told - shared->gone;

        printf(" %.2f s%s", told == 0 ? -1 : seconds(after), i == members - 1 ? "\n" : ",");
        good = good && told != 0 && after > 0 && after <= limit_of(how) && how != PAUSED;
    }
    return good;
}

static bool ended_well(enum how how, const int *status)
{
    for (int i = 0; i < MEMBERS; i++)
        if (status[i] != (i == LOST && how != CUT && how != PAUSED ? -SIGKILL : 0)) {
            printf("# member %d ended with %d\n", i, status[i]);
            return false;
        }
    return true;
}

static void one_kind(struct tap *tap, enum how how, const struct kind *kind)
{
    struct round r = { how, kind };
    int status[MEMBERS] = { 0 };
    loco_fork_t *job;
    bool good;

    memset(shared, 0, sizeof *shared);
    if (loco_fork_start(MEMBERS, live, &r, &job) != LOCO_OK) {
        tap_ok(tap, false, "%s: no processes", kind->name);
        return;
    }
    watch(job, how);
    loco_fork_wait(job, status);
    good = ended_well(how, status);
    good = told_in_time(how) && good;
    tap_ok(tap, good, how == PAUSED ? "%s: nobody minds that a member is %s"
           : "%s: a member is %s, and the others are told in time", kind->name, ways[how]);
    if (how == CUT)
        restore_link();
}

int main(int argc, char **argv)
{
    struct tap tap = { 0 };
    int how = 0;

    while (how < WAYS && (argc < 2 || strcmp(argv[1], ways[how]) != 0))
        how++;
    if (how == WAYS)
        return 2;
    setenv("LOCO_PEER_TIMEOUT", "3s", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    for (int i = 0; i < KINDS + (how == PAUSED ? 0 : WAITS); i++) {
        const struct kind *kind = i < KINDS ? &kinds[i] : &waits[i - KINDS];

        /* More is sent into the ring than read from it, so that members cannot be at the same
         * call for long. */
        if (how == PAUSED && strcmp(kind->name, "ring") == 0)
            continue;
        if (argc < 3 || strcmp(argv[2], kind->name) == 0)
            one_kind(&tap, (enum how)how, kind);
    }
    return tap_end(&tap);
}

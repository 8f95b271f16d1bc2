/* SPDX-License-Identifier: BSD-3-Clause */

/* channels KIND|runtime|all WHO WHAT [once|ever [FIRST [STEP]]]: three members make a channel of
 * that kind, use it and destroy it, again and again. In round n, the n-th call that asks for WHAT
 * (memory, mappings, descriptors, threads) fails at member WHO (with `ever`, all from the n-th on),
 * until a round has fewer calls. The channel is made at all or by all with an error, a call that
 * fails can be called again, nobody waits for ever, and nothing is left over. Run with libscarce.so
 * preloaded. It prints what it has counted; a round that hangs is named and ends it.
 *
 * A channel of a name is made by each member for itself: where one cannot, the program tells the
 * others, as here, by its own means. */

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <loco/fork.h>

#include "kinds.h"
#include "scarce.h"

#define MEMBERS 3
#define SECONDS 30                  /* for a round: more is a hang */
#define ROUNDS_MOST 2000
#define SKIP 77

static struct {
    scarce_arm_fn *arm;
    scarce_disarm_fn *disarm;
    scarce_live_fn *live;
    const char *kind;
    int who, ever;
    unsigned what;
    long first, step;
    /* For the message of a round that hangs. */
    const char *now;
    long round;
    int rank;
} run = { .who = 1, .what = SCARCE_MEMORY, .first = 1, .step = 1 };

/* What the members count, for the parent. */
struct counts {
    _Atomic long rounds, refused, failed_calls, hangs, wrong;
};
static struct counts *counts;       /* of a kind */
static struct { long rounds, refused, failed_calls, hangs, wrong; } sums;

static void stuck(int signal_number)
{
    char text[160];
    int len = snprintf(text, sizeof text, "HANG: %s, round %ld, member %d, in %s\n", run.kind,
                       run.round, run.rank, run.now);

    (void)signal_number;
    atomic_fetch_add(&counts->hangs, 1);
    (void)!write(STDOUT_FILENO, text, (size_t)len);
    _exit(9);
}

static void crashed(int signal_number)
{
    char text[160];
    int len = snprintf(text, sizeof text, "CRASH: %s, round %ld, member %d, in %s, signal %d\n",
                       run.kind, run.round, run.rank, run.now, signal_number);

    (void)!write(STDOUT_FILENO, text, (size_t)len);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void is_wrong(const char *what, long a, long b)
{
    printf("WRONG: %s, round %ld, member %d, in %s: %s (%ld, %ld)\n", run.kind, run.round, run.rank,
           run.now, what, a, b);
    fflush(stdout);
    atomic_fetch_add(&counts->wrong, 1);
}

/* ---- what members tell each other ---- */

/* The least of all members' values. */
static long least(const struct loco_exchange *exchange, long mine)
{
    long all[MEMBERS], found = mine;

    if (exchange->allgather(exchange->ctx, &mine, sizeof mine, all) != LOCO_OK)
        _exit(8);               /* another one has said why */
    for (int i = 0; i < exchange->size; i++)
        found = all[i] < found ? all[i] : found;
    return found;
}

static void arm(void)
{
    if (run.rank == run.who)
        run.arm(run.round, run.ever, run.what);
}

/* ---- a round ---- */

/* Members may learn of it in different calls, but what one makes alone must not count as made. */
static int create(const struct kind *kind, const struct member *m, void **channel)
{
    int status, worst;

    run.now = "create";
    status = kind->create(m, channel);
    worst = (int)least(m->exchange, status);
    if (kind->collective && *channel == NULL && status == LOCO_OK)
        is_wrong("made, and nothing there", status, worst);
    if (worst == LOCO_OK) {
        run.now = "wait_ready";
        status = loco_runtime_wait_ready(m->rt, PATIENCE);
        if (status == LOCO_ERR_TIMEOUT)
            is_wrong("wait_ready waits for ever", status, 0);
        worst = (int)least(m->exchange, status);
    }
    return worst;
}

static void use(const struct kind *kind, const struct member *m, void *channel)
{
    int status;

    run.now = "use";
    status = kind->use(m, channel);
    if (status < 0) {
        atomic_fetch_add(&counts->failed_calls, 1);
        run.now = "use again";
        run.disarm();
        status = kind->use(m, channel);
    }
    if (status != LOCO_OK)
        is_wrong("it does not serve", status, 0);
    run.now = "after use";
    (void)least(m->exchange, 0);
}

/* How many calls there were. */
static long round_of(const struct kind *kind, struct member *m)
{
    void *channel = NULL;
    int status;

    snprintf(m->name, sizeof m->name, "%s%ld.%d", kind->name, run.round, run.ever);
    (void)least(m->exchange, 0);
    alarm(SECONDS);
    arm();
    status = create(kind, m, &channel);
    if (status == LOCO_OK)
        use(kind, m, channel);
    else if (run.rank == 0)
        atomic_fetch_add(&counts->refused, 1);
    run.now = "destroy";
    if (channel != NULL)
        kind->destroy(channel);
    alarm(0);
    return run.rank == run.who ? run.disarm() : LONG_MAX;
}

/* Without failures, all is as ever. */
static void check_sound(const struct kind *kind, struct member *m)
{
    const struct timespec moment = { .tv_nsec = 30000000 };
    void *channel = NULL;

    run.now = "a sound round";
    nanosleep(&moment, NULL);       /* what could not be mapped is tried again */
    snprintf(m->name, sizeof m->name, "sound%ld", run.round);
    (void)least(m->exchange, 0);
    if (create(kind, m, &channel) == LOCO_OK)
        use(kind, m, channel);
    else
        is_wrong("nothing fails, and it cannot be made", 0, 0);
    run.now = "destroy sound";
    if (channel != NULL)
        kind->destroy(channel);
}

static void count_round(void)
{
    if (run.rank == 0)
        atomic_fetch_add(&counts->rounds, 1);
}

static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Every few rounds a runtime of its own, which has mapped nothing yet, and leaves nothing. */
static bool open_anew(const struct loco_bootstrap *boot, struct member *m)
{
    *m = (struct member){ .exchange = &boot->exchange, .rank = run.rank, .size = MEMBERS };
    run.now = "open";
    if (least(m->exchange, loco_runtime_open(boot, &m->rt)) == LOCO_OK)
        return true;
    is_wrong("nothing fails, and it cannot be opened", 0, 0);
    return false;
}

static void close_it(const struct kind *kind, struct member *m)
{
    check_sound(kind, m);
    run.now = "close";
    alarm(SECONDS);
    loco_runtime_close(m->rt);
    alarm(0);
}

static int one_kind(const struct loco_bootstrap *boot, const struct kind *kind)
{
    long before = run.live(), calls = LONG_MAX;
    int descriptors = open_descriptors(), without = 0;
    struct member m = { .rt = NULL };

    for (run.round = run.first; without < 2 && run.round < ROUNDS_MOST; run.round += run.step) {
        if (m.rt == NULL && !open_anew(boot, &m))
            return 1;
        calls = least(m.exchange, round_of(kind, &m));
        without = calls < run.round ? without + 1 : 0;
        count_round();
        if (run.round % 3 != 0)
            continue;
        close_it(kind, &m);
        m.rt = NULL;
    }
    if (m.rt != NULL)
        close_it(kind, &m);
    if (run.live() != before)
        is_wrong("memory is left", before, run.live());
    if (open_descriptors() != descriptors)
        is_wrong("descriptors are left", descriptors, open_descriptors());
    return 0;
}

/* ---- opening itself ---- */

static void open_round(const struct loco_bootstrap *boot, long *calls)
{
    struct member m = { .exchange = &boot->exchange, .rank = boot->exchange.rank, .size = MEMBERS };
    int status, worst;

    run.now = "open";
    (void)least(m.exchange, 0);
    alarm(SECONDS);
    arm();
    status = loco_runtime_open(boot, &m.rt);
    *calls = run.rank == run.who ? run.disarm() : LONG_MAX;
    worst = (int)least(m.exchange, status);
    if (worst != LOCO_OK && status == LOCO_OK)
        is_wrong("open here alone", status, worst);
    if (worst != LOCO_OK && run.rank == 0)
        atomic_fetch_add(&counts->refused, 1);
    if (worst == LOCO_OK)
        check_sound(&kinds[1], &m);
    run.now = "close";
    if (status == LOCO_OK)
        loco_runtime_close(m.rt);
    alarm(0);
}

static int opening(const struct loco_bootstrap *boot)
{
    int without = 0, descriptors = open_descriptors();
    long before = run.live();

    for (run.round = run.first; without < 2 && run.round < ROUNDS_MOST; run.round += run.step) {
        long calls;

        open_round(boot, &calls);
        without = least(&boot->exchange, calls) < run.round ? without + 1 : 0;
        count_round();
        if (run.live() != before || open_descriptors() != descriptors)
            is_wrong("memory or descriptors are left", run.live() - before,
                     open_descriptors() - descriptors);
        before = run.live();
        descriptors = open_descriptors();
    }
    return 0;
}

/* ---- the parent ---- */

static void log_line(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (getenv("SCARCE_LOG") != NULL)
        fprintf(stderr, "member %d, round %ld, level %d: %s\n", run.rank, run.round, level, text);
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct loco_bootstrap mine = *boot;

    run.rank = boot->exchange.rank;
    signal(SIGALRM, stuck);
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGABRT, crashed);
    run.arm(0, 0, 0);
    mine.log = log_line;
    return arg == NULL ? opening(&mine) : one_kind(&mine, arg);
}

static bool try_kind(const char *name, const struct kind *kind)
{
    int statuses[MEMBERS], bad = 0;

    *counts = (struct counts){ 0 };
    run.kind = name;
    if (loco_fork_run(MEMBERS, member, (void *)(uintptr_t)kind, statuses) != LOCO_OK)
        bad = 1;
    printf("%s: %ld rounds, %ld refused by all, %ld calls failed and were made again, hangs: %ld, "
           "wrong: %ld%s\n", name, counts->rounds, counts->refused, counts->failed_calls,
           counts->hangs, counts->wrong, bad ? ", members ended early" : "");
    fflush(stdout);
    sums.rounds += counts->rounds;
    sums.refused += counts->refused;
    sums.failed_calls += counts->failed_calls;
    sums.hangs += counts->hangs;
    sums.wrong += counts->wrong + bad;
    return bad == 0 && counts->hangs == 0 && counts->wrong == 0;
}

static bool find_preloaded(void)
{
    run.arm = (scarce_arm_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, SCARCE_ARM);
    run.disarm = (scarce_disarm_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, SCARCE_DISARM);
    run.live = (scarce_live_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, SCARCE_LIVE);
    return run.arm != NULL && run.disarm != NULL && run.live != NULL;
}

int main(int argc, char **argv)
{
    bool all, fine = true;

    if (!find_preloaded()) {
        puts("libscarce.so is not preloaded");
        return SKIP;
    }
    if (argc < 4)
        return 2;
    all = strcmp(argv[1], "all") == 0;
    run.who = atoi(argv[2]);
    run.what = scarce_kind_of(argv[3]);
    run.ever = argc > 4 && strcmp(argv[4], "ever") == 0;
    run.first = argc > 5 ? atol(argv[5]) : 1;
    run.step = argc > 6 ? atol(argv[6]) : 1;
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 1;
    if (all || strcmp(argv[1], "runtime") == 0)
        fine = try_kind("runtime", NULL);
    for (const struct kind *kind = kinds; kind->name != NULL; kind++)
        if (all || strcmp(argv[1], kind->name) == 0)
            fine = try_kind(kind->name, kind) && fine;
    printf("%ld rounds, %ld refused by all, %ld calls failed and were made again, %ld hangs, "
           "%ld wrong\n", sums.rounds, sums.refused, sums.failed_calls, sums.hangs, sums.wrong);
    return fine ? 0 : 1;
}

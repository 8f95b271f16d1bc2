/* SPDX-License-Identifier: BSD-3-Clause */

/* What multicasts that nobody uses cost the one that is used. All have handlers, so the poller of
 * each process serves them. By turns, round by round: the rate of one multicast alone, then of the
 * same among others, each of which has had one message before; and the CPU time of a process in a
 * second in which none is used. No MPI.
 *
 *     multicast_groups [--members N] [--groups N] [--bytes B] [--slots N] [--seconds S]
 *                      [--rounds N] [--gate]
 *
 * Prints a line for each round, in millions of messages a second that each member gets, then the
 * medians. --gate: exit with 1 if the rate among others is less than half of that alone, or an idle
 * process uses more than 1 % of a core. */

#include <getopt.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#define MEMBERS_MAX 8
#define GROUPS_MAX 1000
#define ROUNDS_MAX 99
#define SHARE 0.5
#define IDLE 0.01

struct options {
    int members, groups, slots, rounds;
    size_t bytes;
    double seconds;
    bool gate;
};

struct shared {
    _Atomic int arrived;
    uint64_t count;
    double idle[MEMBERS_MAX];           /* of a round, by rank */
};

struct bench {
    const struct options *o;
    struct shared *s;
    loco_runtime_t *rt;
    loco_multicast_t *used, *other[GROUPS_MAX];
    _Atomic uint64_t got, got_of_others;
    unsigned char *message;
    int rank, meetings;
    double alone[ROUNDS_MAX], among[ROUNDS_MAX], share[ROUNDS_MAX], idle[ROUNDS_MAX];
};

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "multicast_groups: %s: %s\n", what, loco_strerror(status));
    _Exit(1);
}

static void meet(struct bench *b)
{
    int all = ++b->meetings * b->o->members;

    atomic_fetch_add(&b->s->arrived, 1);
    while (atomic_load(&b->s->arrived) < all)
        sched_yield();
}

static void count(void *arg, const loco_delivery_t *messages, int n)
{
    (void)messages;
    atomic_fetch_add_explicit((_Atomic uint64_t *)arg, (uint64_t)n, memory_order_relaxed);
}

static void wait_until(const _Atomic uint64_t *got, uint64_t number)
{
    while (atomic_load_explicit(got, memory_order_relaxed) < number)
        sched_yield();
}

/* ---- one multicast, and others ---- */

static loco_multicast_t *make(struct bench *b, const char *name, _Atomic uint64_t *got)
{
    const loco_multicast_options_t o = { .slots = b->o->slots, .slot_bytes = b->o->bytes,
                                         .handler = count, .arg = (void *)got };
    loco_multicast_t *m;

    need(loco_multicast_create(b->rt, NULL, name, loco_everyone(b->rt), &o, &m), "create");
    return m;
}

static void make_others(struct bench *b)
{
    uint64_t all = (uint64_t)(b->o->groups - 1) * (uint64_t)b->o->members;
    char name[16];

    atomic_store(&b->got_of_others, 0);
    for (int i = 0; i < b->o->groups - 1; i++) {
        snprintf(name, sizeof name, "other%d", i);
        b->other[i] = make(b, name, &b->got_of_others);
    }
    need(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "ready");
    for (int i = 0; i < b->o->groups - 1; i++)
        need(loco_multicast_post(b->other[i], b->message, b->o->bytes, NULL), "post");
    wait_until(&b->got_of_others, all);
    meet(b);
}

static void destroy_others(struct bench *b)
{
    meet(b);
    for (int i = 0; i < b->o->groups - 1; i++)
        loco_multicast_destroy(b->other[i]);
    meet(b);
}

/* ---- what is measured ---- */

/* All send so many each. */
static double rate(struct bench *b, uint64_t messages)
{
    uint64_t all = messages * (uint64_t)b->o->members;
    uint64_t end = atomic_load(&b->got) + all;
    double start;

    meet(b);
    start = now(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < messages; i++)
        need(loco_multicast_post(b->used, b->message, b->o->bytes, NULL), "post");
    wait_until(&b->got, end);
    meet(b);
    return (double)all / (now(CLOCK_MONOTONIC) - start) / 1e6;
}

/* Of a core, in a second: the most of all processes. */
static double idle_use(struct bench *b)
{
    double before, most = 0;

    meet(b);
    usleep(50000);
    before = now(CLOCK_PROCESS_CPUTIME_ID);
    sleep(1);
    b->s->idle[b->rank] = now(CLOCK_PROCESS_CPUTIME_ID) - before;
    meet(b);
    for (int i = 0; i < b->o->members; i++)
        most = b->s->idle[i] > most ? b->s->idle[i] : most;
    return most;
}

static void run(struct bench *b)
{
    double first = rate(b, 20000);

    if (b->rank == 0)
        b->s->count = (uint64_t)(first * 1e6 * b->o->seconds / b->o->members) + 1000;
    meet(b);
    for (int i = 0; i < b->o->rounds; i++) {
        b->alone[i] = rate(b, b->s->count);
        make_others(b);
        b->among[i] = rate(b, b->s->count);
        b->idle[i] = idle_use(b);
        destroy_others(b);
        b->share[i] = b->among[i] / b->alone[i];
        if (b->rank == 0)
            printf("round %d  alone %.3f M/s, among %d %.3f M/s: %.2f; idle %.2f ms in a second\n",
                   i, b->alone[i], b->o->groups, b->among[i], b->share[i], b->idle[i] * 1000);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *of, int n)
{
    qsort(of, (size_t)n, sizeof *of, by_value);
    return of[n / 2];
}

static int summary(struct bench *b)
{
    int n = b->o->rounds;
    double share = median(b->share, n), idle = median(b->idle, n);

    printf("median   alone %.3f M/s, among %d %.3f M/s: %.2f; idle %.2f ms in a second\n",
           median(b->alone, n), b->o->groups, median(b->among, n), share, idle * 1000);
    return b->o->gate && (share < SHARE || idle > IDLE);
}

static int body(const struct loco_bootstrap *boot, void *arg)
{
    struct bench *b = arg;
    int failed = 0;

    b->rank = boot->exchange.rank;
    b->message = calloc(1, b->o->bytes);
    need(loco_runtime_open(boot, &b->rt), "open");
    b->used = make(b, "used", &b->got);
    need(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "ready");
    run(b);
    if (b->rank == 0)
        failed = summary(b);
    loco_multicast_destroy(b->used);
    loco_runtime_close(b->rt);
    free(b->message);
    return failed;
}

static void read_options(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        { "members", required_argument, NULL, 'm' }, { "groups", required_argument, NULL, 'g' },
        { "bytes", required_argument, NULL, 'b' }, { "slots", required_argument, NULL, 's' },
        { "seconds", required_argument, NULL, 't' }, { "rounds", required_argument, NULL, 'r' },
        { "gate", no_argument, NULL, 'G' }, { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'm': o->members = atoi(optarg); break;
        case 'g': o->groups = atoi(optarg); break;
        case 'b': o->bytes = (size_t)atol(optarg); break;
        case 's': o->slots = atoi(optarg); break;
        case 't': o->seconds = atof(optarg); break;
        case 'r': o->rounds = atoi(optarg); break;
        case 'G': o->gate = true; break;
        default: exit(2);
        }
    if (o->members >= 1 && o->members <= MEMBERS_MAX && o->groups >= 1 && o->groups <= GROUPS_MAX
        && o->bytes >= 1 && o->slots >= 1 && o->seconds > 0 && o->rounds >= 1
        && o->rounds <= ROUNDS_MAX)
        return;
    fprintf(stderr, "multicast_groups: 1 to %d members, 1 to %d groups, 1 byte or more, 1 slot or "
            "more, 1 to %d rounds\n", MEMBERS_MAX, GROUPS_MAX, ROUNDS_MAX);
    exit(2);
}

int main(int argc, char **argv)
{
    struct options o = { .members = 2, .groups = 50, .slots = 100, .rounds = 5, .bytes = 100,
                         .seconds = 0.2 };
    static struct bench b;
    int statuses[MEMBERS_MAX], failed = 0;

    read_options(argc, argv, &o);
    setvbuf(stdout, NULL, _IOLBF, 0);
    b.o = &o;
    b.s = mmap(NULL, sizeof *b.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.s == MAP_FAILED)
        return 1;
    loco_fork_run(o.members, body, &b, statuses);
    for (int i = 0; i < o.members; i++)
        failed |= statuses[i] != 0;
    return failed;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages of all members, or of one, to all in one order, beside what limits them on one node: a
 * ring of each sender in shared memory, with a flag in each slot, that all read in turn. In turns,
 * round by round. Each member is one thread, which sends when there is room, and reads what has
 * come. No MPI. "One of all": one sends, and all might.
 *
 *     multicast_bench [--members N] [--bytes B] [--slots N] [--seconds S] [--rounds N]
 *
 * Prints a line for each round and way: millions of messages a second that each member gets, of the
 * floor and of a multicast that is polled, and their ratio; then the medians. */

#include <getopt.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <loco/loco.h>

#define MEMBERS_MAX 8
#define ROUNDS_MAX 99
#define BATCH 64
#define LINE 128

enum way { FLOOR_ALL, OURS_ALL, FLOOR_ONE, OURS_ONE, OURS_DECLARED, WAYS };
static const char *const names[WAYS] = { "floor, all send", "multicast, all send",
                                         "floor, one sends", "multicast, one sends",
                                         "multicast, one of all" };

struct options {
    int members, slots, rounds;
    size_t bytes;
    double seconds;
};

/* In memory that all share. Rings follow: a slot is a flag, and a message. */
struct shared {
    struct { _Alignas(LINE) _Atomic uint64_t read; } of[MEMBERS_MAX];   /* rounds of the order */
    _Alignas(LINE) _Atomic int arrived;
    uint64_t count[WAYS];
    double rate[WAYS][ROUNDS_MAX];
};

struct bench {
    const struct options *o;
    struct shared *s;
    unsigned char *rings;
    size_t stride;
    loco_multicast_t *m[2];             /* of all, of one */
    unsigned char *message;
    uint64_t sent, got, sum, limit;     /* limit: sent at most, as last looked at */
    int rank, meetings;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "multicast_bench: %s: %s\n", what, loco_strerror(status));
    _Exit(1);
}

/* Each member has a core of its own, as far as there are any: two on one would hand no line of a
 * cache to each other, and where they run decides more than anything else. */
static void keep_to_a_core(int rank)
{
    cpu_set_t allowed, mine;
    int left;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    left = rank % CPU_COUNT(&allowed);
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && left-- == 0)
            CPU_SET(cpu, &mine);
    (void)sched_setaffinity(0, sizeof mine, &mine);
}

static void meet(struct bench *b)
{
    int all = ++b->meetings * b->o->members;

    atomic_fetch_add(&b->s->arrived, 1);
    while (atomic_load(&b->s->arrived) < all)
        sched_yield();
}

static void look(struct bench *b, const unsigned char *message)
{
    b->sum += *(const uint64_t *)message + message[b->o->bytes - 1];
    b->got++;
}

/* ---- the floor ---- */

static unsigned char *slot(const struct bench *b, int sender, uint64_t k)
{
    return b->rings + ((size_t)sender * (size_t)b->o->slots + k % (uint64_t)b->o->slots)
                      * b->stride;
}

static void look_at_readers(struct bench *b)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < b->o->members; i++) {
        uint64_t read = atomic_load_explicit(&b->s->of[i].read, memory_order_acquire);

        least = read < least ? read : least;
    }
    b->limit = least + (uint64_t)b->o->slots;
}

static bool floor_send(struct bench *b, uint64_t base, uint64_t k)
{
    unsigned char *at = slot(b, b->rank, base + k);

    if (base + k >= b->limit)
        look_at_readers(b);
    if (base + k >= b->limit)
        return false;
    memcpy(at + 8, b->message, b->o->bytes);
    atomic_store_explicit((_Atomic uint64_t *)(void *)at, base + k + 1, memory_order_release);
    return true;
}

/* Messages base to base + count of each sender, in the order of all. */
static void floor_run(struct bench *b, int senders, uint64_t base, uint64_t count)
{
    uint64_t round = base;
    int turn = 0;

    b->sent = 0;
    b->limit = 0;
    while (round < base + count || (b->rank < senders && b->sent < count)) {
        bool some = false;

        for (int i = 0; i < BATCH && b->rank < senders && b->sent < count; i++) {
            if (!floor_send(b, base, b->sent))
                break;
            b->sent++;
            some = true;
        }
        for (int i = 0; i < BATCH && round < base + count; i++) {
            const unsigned char *at = slot(b, turn, round);

            if (atomic_load_explicit((const _Atomic uint64_t *)(const void *)at,
                                     memory_order_acquire) != round + 1)
                break;
            look(b, at + 8);
            some = true;
            if (++turn == senders) {
                turn = 0;
                round++;
            }
        }
        atomic_store_explicit(&b->s->of[b->rank].read, round, memory_order_release);
        if (!some)
            sched_yield();
    }
}

/* ---- ours ---- */

static void ours_run(struct bench *b, loco_multicast_t *m, int senders, uint64_t count)
{
    uint64_t end = b->got + count * (uint64_t)senders;
    loco_delivery_t got[BATCH];
    int n, status = LOCO_OK;

    b->sent = 0;
    while (b->got < end || (b->rank < senders && b->sent < count)) {
        for (int i = 0; i < BATCH && b->rank < senders && b->sent < count; i++) {
            status = loco_multicast_try_post(m, b->message, b->o->bytes, NULL);
            if (status == LOCO_ERR_AGAIN)
                break;
            need(status, "post");
            b->sent++;
        }
        status = loco_multicast_poll(m, got, BATCH, &n);
        if (status == LOCO_ERR_AGAIN)
            continue;
        need(status, "poll");
        for (int i = 0; i < n; i++)
            look(b, got[i].data);
    }
    /* What was shown last is delivered. */
    if (loco_multicast_poll(m, got, BATCH, &n) != LOCO_ERR_AGAIN)
        need(LOCO_ERR_STATE, "a message too many");
}

/* ---- rounds ---- */

static double measure(struct bench *b, enum way way, uint64_t base, uint64_t count)
{
    int senders = way == FLOOR_ALL || way == OURS_ALL ? b->o->members : 1;
    double start;

    meet(b);
    start = now();
    if (way == FLOOR_ALL || way == FLOOR_ONE)
        floor_run(b, senders, base, count);
    else
        ours_run(b, b->m[way == OURS_ONE], senders, count);
    meet(b);
    return (double)count * senders / (now() - start) / 1e6;
}

/* As many messages as take about `seconds`. The flags of the floor go on from round to round. */
static void run_way(struct bench *b, enum way way, int round, uint64_t *base)
{
    bool is_floor = way == FLOOR_ALL || way == FLOOR_ONE;
    double rate;

    if (round < 0)
        b->s->count[way] = 20000;
    meet(b);
    rate = measure(b, way, *base, b->s->count[way]);
    *base += is_floor ? b->s->count[way] : 0;
    meet(b);
    if (b->rank != 0)
        return;
    if (round < 0) {
        int senders = way == FLOOR_ALL || way == OURS_ALL ? b->o->members : 1;

        b->s->count[way] = (uint64_t)(rate * 1e6 * b->o->seconds / senders) + 1000;
        return;
    }
    b->s->rate[way][round] = rate;
    printf("round %d  %-22s %8.3f M/s\n", round, names[way], rate);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void summary(struct bench *b)
{
    double median[WAYS];

    for (int way = 0; way < WAYS; way++) {
        qsort(b->s->rate[way], (size_t)b->o->rounds, sizeof(double), by_value);
        median[way] = b->s->rate[way][b->o->rounds / 2];
        printf("median   %-22s %8.3f M/s\n", names[way], median[way]);
    }
    printf("of the floor: all send %.2f, one sends %.2f\n", median[OURS_ALL] / median[FLOOR_ALL],
           median[OURS_ONE] / median[FLOOR_ONE]);
    printf("one of all that may, of one that alone may: %.2f\n",
           median[OURS_DECLARED] / median[OURS_ONE]);
}

static int body(const struct loco_bootstrap *boot, void *arg)
{
    struct bench *b = arg;
    const loco_multicast_options_t all = { .slots = b->o->slots, .slot_bytes = b->o->bytes };
    loco_multicast_options_t one = all;
    uint64_t base = 0;
    loco_runtime_t *rt;

    b->rank = boot->exchange.rank;
    keep_to_a_core(b->rank);
    b->message = calloc(1, b->o->bytes);
    one.senders = (int[]){ 0 };
    one.nsenders = 1;
    need(loco_runtime_open(boot, &rt), "open");
    need(loco_multicast_create(rt, NULL, "all", loco_everyone(rt), &all, &b->m[0]), "create");
    need(loco_multicast_create(rt, NULL, "one", loco_everyone(rt), &one, &b->m[1]), "create");
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER), "ready");
    for (int round = -1; round < b->o->rounds; round++)
        for (enum way way = 0; way < WAYS; way++)
            run_way(b, way, round, &base);
    if (b->rank == 0)
        summary(b);
    meet(b);
    loco_multicast_destroy(b->m[1]);
    loco_multicast_destroy(b->m[0]);
    loco_runtime_close(rt);
    free(b->message);
    return 0;
}

static void read_options(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        { "members", required_argument, NULL, 'm' }, { "bytes", required_argument, NULL, 'b' },
        { "slots", required_argument, NULL, 's' }, { "seconds", required_argument, NULL, 't' },
        { "rounds", required_argument, NULL, 'r' }, { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'm': o->members = atoi(optarg); break;
        case 'b': o->bytes = (size_t)atol(optarg); break;
        case 's': o->slots = atoi(optarg); break;
        case 't': o->seconds = atof(optarg); break;
        case 'r': o->rounds = atoi(optarg); break;
        default: exit(2);
        }
    if (o->members < 1 || o->members > MEMBERS_MAX || o->bytes < 8 || o->slots < 1
        || o->seconds <= 0 || o->rounds < 1 || o->rounds > ROUNDS_MAX) {
        fprintf(stderr, "multicast_bench: 1 to %d members, 8 bytes or more, 1 slot or more, "
                "1 to %d rounds\n", MEMBERS_MAX, ROUNDS_MAX);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = { .members = 2, .slots = 100, .rounds = 5, .bytes = 100, .seconds = 0.2 };
    struct bench b = { .o = &o };
    size_t rings;
    int statuses[MEMBERS_MAX], failed = 0;

    read_options(argc, argv, &o);
    setvbuf(stdout, NULL, _IOLBF, 0);
    b.stride = (8 + o.bytes + 63) / 64 * 64;
    rings = (size_t)o.members * (size_t)o.slots * b.stride;
    b.s = mmap(NULL, sizeof *b.s + rings + LINE, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.s == MAP_FAILED)
        return 1;
    b.rings = (unsigned char *)b.s + (sizeof *b.s + LINE - 1) / LINE * LINE;
    loco_fork_run(o.members, body, &b, statuses);
    for (int i = 0; i < o.members; i++)
        failed |= statuses[i] != 0;
    return failed;
}

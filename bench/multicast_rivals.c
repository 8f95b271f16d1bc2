/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of all ranks, or of rank 0, to all, in one of several ways:
 *
 *     mpirun -np N multicast_rivals --way W [--senders all|one] [--bytes B] [--slots N]
 *                                   [--seconds S] [--folder DIR]
 *
 * A short run says how many messages take the time. Prints one line: the way and millions of
 * messages a second that each rank gets, or with --help the ways that this build has. The first
 * word of a message is its sender's rank, so 1 byte is sent as 8 by all alike.
 */
#include "multicast_rivals.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include <loco/loco.h>
#include <loco/mpi.h>

#define BATCH 64
#define LINE 128

static const struct way *const ways[] = {
    &way_floor, &way_loco, &way_mpi, &way_bcast,
#ifdef LOCO_HAVE_ZMQ
    &way_zmq, &way_zmq_order,
#endif
#ifdef LOCO_HAVE_ICEORYX
    &way_iceoryx,
#endif
#ifdef LOCO_HAVE_CPG
    &way_cpg,
#endif
};
enum { WAYS = sizeof ways / sizeof ways[0] };

_Noreturn void rivals_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("multicast_rivals: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void rivals_meet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

void *rivals_memory(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);

    if (p == NULL)
        rivals_die("no memory for %zu times %zu bytes", n, bytes);
    return p;
}

/* ---- the floor: a ring of each sender in shared memory, a flag in each slot ---- */

static struct {
    MPI_Win win;
    unsigned char *base;            /* a line of each rank, then the rings */
    size_t stride;
    uint64_t round, limit, base_round;
    int turn;
} ring;

static _Atomic uint64_t *read_by(int rank)
{
    return (_Atomic uint64_t *)(void *)(ring.base + (size_t)rank * LINE);
}

static unsigned char *ring_slot(const struct job *j, int sender, uint64_t k)
{
    return ring.base + (size_t)j->size * LINE
           + ((size_t)sender * j->slots + k % j->slots) * ring.stride;
}

static void open_floor(struct job *j)
{
    MPI_Aint bytes;
    int unit;

    ring.stride = (8 + j->bytes + 63) / 64 * 64;
    bytes = (MPI_Aint)((size_t)j->size * (LINE + j->slots * ring.stride));
    MPI_Win_allocate_shared(j->rank == 0 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &ring.base,
                            &ring.win);
    MPI_Win_shared_query(ring.win, 0, &bytes, &unit, &ring.base);
    if (j->rank == 0)
        memset(ring.base, 0, (size_t)bytes);
    ring.limit = j->slots;
    rivals_meet();
}

static bool send_floor(struct job *j)
{
    unsigned char *at = ring_slot(j, j->rank, j->sent);

    if (j->sent >= ring.limit) {
        uint64_t least = UINT64_MAX;

        for (int i = 0; i < j->size; i++) {
            uint64_t read = atomic_load_explicit(read_by(i), memory_order_acquire);

            least = read < least ? read : least;
        }
        ring.limit = least + j->slots;
        if (j->sent >= ring.limit)
            return false;
    }
    memcpy(at + 8, j->message, j->bytes);
    atomic_store_explicit((_Atomic uint64_t *)(void *)at, j->sent + 1, memory_order_release);
    return true;
}

static bool receive_floor(struct job *j)
{
    int n = 0;

    for (; n < BATCH; n++) {
        const unsigned char *at = ring_slot(j, ring.turn, ring.round);

        if (atomic_load_explicit((const _Atomic uint64_t *)(const void *)at, memory_order_acquire)
            != ring.round + 1)
            break;
        job_got(j, at + 8);
        if (++ring.turn == j->senders) {
            ring.turn = 0;
            ring.round++;
        }
    }
    atomic_store_explicit(read_by(j->rank), ring.round, memory_order_release);
    return n > 0;
}

static void close_floor(struct job *j)
{
    (void)j;
    MPI_Win_free(&ring.win);
}

const struct way way_floor = {
    .name = "floor", .text = "a ring of each sender in shared memory, with flags",
    .ordered = true, .one_thread = true, .open = open_floor, .send = send_floor,
    .receive = receive_floor, .close = close_floor,
};

/* ---- ours ---- */

static loco_runtime_t *rt;
static loco_multicast_t *multicast;

static void need(int status, const char *what)
{
    if (status != LOCO_OK)
        rivals_die("%s: %s", what, loco_strerror(status));
}

static void open_loco(struct job *j)
{
    int one[] = { 0 };
    const loco_multicast_options_t options = {
        .senders = j->senders == 1 ? one : NULL, .nsenders = 1, .slots = (int)j->slots,
        .slot_bytes = j->bytes,
    };

    need(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt), "loco_runtime_open_mpi");
    need(loco_multicast_create(rt, NULL, "m", loco_everyone(rt), &options, &multicast), "create");
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER), "wait_ready");
    rivals_meet();
}

static bool send_loco(struct job *j)
{
    int status = loco_multicast_try_post(multicast, j->message, j->bytes, NULL);

    if (status != LOCO_ERR_AGAIN)
        need(status, "post");
    return status == LOCO_OK;
}

static bool receive_loco(struct job *j)
{
    loco_delivery_t got[BATCH];
    int n, status = loco_multicast_poll(multicast, got, BATCH, &n);

    if (status == LOCO_ERR_AGAIN)
        return false;
    need(status, "poll");
    for (int i = 0; i < n; i++)
        job_got(j, got[i].data);
    return true;
}

static void close_loco(struct job *j)
{
    receive_loco(j);                /* what was shown last is delivered */
    rivals_meet();
    loco_multicast_destroy(multicast);
    loco_runtime_close_mpi(rt);
}

const struct way way_loco = {
    .name = "loco", .text = "loco_multicast, polled", .ordered = true, .one_thread = true,
    .open = open_loco, .send = send_loco, .receive = receive_loco, .close = close_loco,
};

/* ---- what all do ---- */

static void keep_to_a_core(const struct job *j)
{
    cpu_set_t allowed, mine;
    int left;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    left = j->rank % CPU_COUNT(&allowed);
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && left-- == 0)
            CPU_SET(cpu, &mine);
    (void)sched_setaffinity(0, sizeof mine, &mine);
}

static void exchange(struct job *j, const struct way *way, uint64_t count)
{
    uint64_t end = j->got + count * (uint64_t)j->senders, last = j->sent + count;
    bool sends = j->rank < j->senders;

    while (j->got < end || (sends && j->sent < last)) {
        bool some = false;

        for (int i = 0; i < BATCH && sends && j->sent < last && way->send(j); i++) {
            j->sent++;
            some = true;
        }
        for (int i = 0; i < BATCH && way->receive(j); i++)
            some = true;
        if (!some)
            sched_yield();
    }
}

/* Millions of messages a second; all ranks have the same. */
static double measure(struct job *j, const struct way *way, uint64_t count)
{
    double start, rate;
    MPI_Request all;
    int done = 0;

    rivals_meet();
    start = MPI_Wtime();
    if (way->run != NULL)
        way->run(j, count);
    else
        exchange(j, way, count);
    /* What ranks do for others, as a sequencer does, they do until all have got everything. */
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (!done) {
        MPI_Test(&all, &done, MPI_STATUS_IGNORE);
        if (way->run == NULL && !done && !way->receive(j))
            sched_yield();
    }
    rate = (double)count * j->senders / (MPI_Wtime() - start) / 1e6;
    MPI_Bcast(&rate, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return rate;
}

static void check_order(const struct job *j, const struct way *way)
{
    uint64_t first = j->order;

    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (way->ordered && first != j->order)
        rivals_die("%s: rank %d got another order than rank 0", way->name, j->rank);
}

static void run(struct job *j, const struct way *way, double seconds)
{
    uint64_t count = 200;
    double rate;

    j->message = rivals_memory(1, j->bytes);
    memcpy(j->message, &(uint64_t){ (uint64_t)j->rank }, sizeof(uint64_t));
    if (way->one_thread)
        keep_to_a_core(j);
    if (way->open != NULL)
        way->open(j);
    for (int trial = 0; trial < 2; trial++) {
        rate = measure(j, way, count);
        count = (uint64_t)(rate * 1e6 * (trial == 0 ? seconds / 10 : seconds) / j->senders) + 100;
    }
    rate = measure(j, way, count);
    check_order(j, way);
    if (way->close != NULL)
        way->close(j);
    if (j->rank == 0)
        printf("%s %.6f\n", way->name, rate);
}

static const struct way *find(const char *name)
{
    for (int i = 0; i < WAYS; i++)
        if (strcmp(ways[i]->name, name) == 0)
            return ways[i];
    rivals_die("no way '%s' in this build; --help has those that there are", name);
}

static void help(void)
{
    for (int i = 0; i < WAYS; i++)
        printf("  %-10s %s\n", ways[i]->name, ways[i]->text);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "way", required_argument, NULL, 'w' }, { "senders", required_argument, NULL, 'n' },
        { "bytes", required_argument, NULL, 'b' }, { "slots", required_argument, NULL, 's' },
        { "seconds", required_argument, NULL, 't' }, { "folder", required_argument, NULL, 'f' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    struct job j = { .bytes = 100, .slots = 100, .folder = "/tmp" };
    const struct way *way = &way_loco;
    double seconds = 0.2;
    bool one = false;
    int c;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'w': way = find(optarg); break;
        case 'n': one = strcmp(optarg, "one") == 0; break;
        case 'b': j.bytes = (size_t)atol(optarg); break;
        case 's': j.slots = (uint64_t)atol(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'f': j.folder = optarg; break;
        case 'h': way = NULL; break;
        default: MPI_Abort(MPI_COMM_WORLD, 2);
        }
    j.senders = one ? 1 : j.size;
    j.bytes = j.bytes < 8 ? 8 : j.bytes;
    if (j.slots < 1 || j.bytes > 1 << 20 || seconds <= 0)
        rivals_die("1 slot or more, 1 MiB at most, more than 0 seconds");
    if (way != NULL)
        run(&j, way, seconds);
    else if (j.rank == 0)
        help();
    MPI_Finalize();
    return 0;
}

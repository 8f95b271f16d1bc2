/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages of one process to another, by size: through a mailbox that copies them, through one from
 * which the receiver reads them straight, and through a local socket (SOCK_SEQPACKET), which is
 * what the system has for it. By turns, round by round. No MPI.
 *
 *     mailbox_bench [--sizes LIST] [--seconds S] [--rounds N] [--apart]
 *
 * --apart: each process counts as a machine of its own (LOCO_FABRIC says by what it reaches the
 * other). Prints a line for each size: microseconds a message, medians of the rounds, and how many
 * times faster straight is than a copy, the median of the rounds' ratios. */

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#define SIZES_MAX 32
#define ROUNDS_MAX 99
#define MOST ((size_t)1 << 20)

enum way { COPIED, STRAIGHT, SOCKET, WAYS };

struct options {
    size_t size[SIZES_MAX];
    int sizes, rounds;
    double seconds;
    bool apart;
};

struct shared {
    _Atomic int arrived;
    double us[WAYS][ROUNDS_MAX];
};

struct bench {
    const struct options *o;
    struct shared *s;
    loco_mailbox_t *box[2];             /* COPIED, STRAIGHT */
    int socket[2];                      /* by rank */
    unsigned char *message;
    int rank, meetings;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "mailbox_bench: %s failed\n", what);
    _Exit(1);
}

static void meet(struct bench *b)
{
    int all = ++b->meetings * 2;

    atomic_fetch_add(&b->s->arrived, 1);
    while (atomic_load(&b->s->arrived) < all)
        sched_yield();
}

static void send_one(struct bench *b, enum way way, size_t bytes)
{
    if (way == SOCKET)
        need(write(b->socket[b->rank], b->message, bytes) == (ssize_t)bytes, "write");
    else
        need(loco_mailbox_send(b->box[way], b->message, bytes) == LOCO_OK, "send");
}

static void receive_one(struct bench *b, enum way way, size_t bytes)
{
    size_t n = 0;

    if (way == SOCKET)
        n = (size_t)read(b->socket[b->rank], b->message, MOST);
    else
        need(loco_mailbox_receive(b->box[way], LOCO_FOREVER, b->message, MOST, NULL, &n)
             == LOCO_OK, "receive");
    need(n == bytes, "a whole message");
}

/* Microseconds a message. */
static double measure(struct bench *b, enum way way, size_t bytes, int count)
{
    double start;

    meet(b);
    start = now();
    for (int i = 0; i < count; i++)
        if (b->rank == 1)
            send_one(b, way, bytes);
        else
            receive_one(b, way, bytes);
    meet(b);
    return (now() - start) / count * 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void run_size(struct bench *b, size_t bytes)
{
    int count[WAYS], rounds = b->o->rounds;
    double ratio[ROUNDS_MAX];

    for (int way = 0; way < WAYS; way++) {
        double us = measure(b, way, bytes, 200);

        /* Rank 0's count is both's. */
        b->s->us[way][0] = b->rank == 0 ? us : b->s->us[way][0];
        meet(b);
        count[way] = (int)(b->o->seconds * 1e6 / b->s->us[way][0]) + 20;
        meet(b);
    }
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) {
            double us = measure(b, way, bytes, count[way]);

            if (b->rank == 0)
                b->s->us[way][round] = us;
        }
    if (b->rank != 0)
        return;
    for (int round = 0; round < rounds; round++)
        ratio[round] = b->s->us[COPIED][round] / b->s->us[STRAIGHT][round];
    printf("%8zu %10.2f %10.2f %10.2f %10.2f\n", bytes, median(b->s->us[COPIED], rounds),
           median(b->s->us[STRAIGHT], rounds), median(b->s->us[SOCKET], rounds),
           median(ratio, rounds));
}

static int body(const struct loco_bootstrap *boot, void *arg)
{
    const loco_mailbox_options_t copied = { .ring_bytes = 4 * MOST,
                                            .straight = LOCO_MAILBOX_COPY_ALL };
    const loco_mailbox_options_t straight = { .straight = 1 };
    struct bench *b = arg;
    loco_runtime_t *rt = NULL;

    b->rank = boot->exchange.rank;
    if (b->o->apart)
        setenv("LOCO_NODE", b->rank == 0 ? "a" : "b", 1);
    b->message = calloc(1, MOST);
    need(b->message != NULL && loco_runtime_open(boot, &rt) == LOCO_OK, "open");
    need(loco_mailbox_create(rt, NULL, "copied", loco_everyone(rt), 0, &copied, &b->box[COPIED])
         == LOCO_OK, "create");
    need(loco_mailbox_create(rt, NULL, "straight", loco_everyone(rt), 0, &straight,
                             &b->box[STRAIGHT]) == LOCO_OK, "create");
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK, "ready");
    if (b->rank == 0)
        printf("%8s %10s %10s %10s %10s\n", "bytes", "copied us", "straight", "socket",
               "straight x");
    for (int i = 0; i < b->o->sizes; i++)
        run_size(b, b->o->size[i]);
    meet(b);
    loco_mailbox_destroy(b->box[STRAIGHT]);
    loco_mailbox_destroy(b->box[COPIED]);
    loco_runtime_close(rt);
    free(b->message);
    return 0;
}

static void read_sizes(struct options *o, char *list)
{
    o->sizes = 0;
    for (char *at = strtok(list, ","); at != NULL && o->sizes < SIZES_MAX; at = strtok(NULL, ",")) {
        o->size[o->sizes] = (size_t)atol(at);
        need(o->size[o->sizes] >= 1 && o->size[o->sizes] <= MOST, "a size of 1 to 1048576 bytes");
        o->sizes++;
    }
}

static void read_options(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        { "sizes", required_argument, NULL, 'b' }, { "seconds", required_argument, NULL, 't' },
        { "rounds", required_argument, NULL, 'r' }, { "apart", no_argument, NULL, 'a' },
        { NULL, 0, NULL, 0 },
    };
    int c;

    for (size_t bytes = 8; bytes <= MOST; bytes *= bytes < 1024 ? 8 : 2)
        o->size[o->sizes++] = bytes;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'b': read_sizes(o, optarg); break;
        case 't': o->seconds = atof(optarg); break;
        case 'r': o->rounds = atoi(optarg); break;
        case 'a': o->apart = true; break;
        default: exit(2);
        }
    if (o->sizes < 1 || o->seconds <= 0 || o->rounds < 1 || o->rounds > ROUNDS_MAX) {
        fprintf(stderr, "mailbox_bench: sizes, seconds, and 1 to %d rounds\n", ROUNDS_MAX);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = { .rounds = 5, .seconds = 0.05 };
    struct bench b = { .o = &o };
    int statuses[2], room = 8 * (int)MOST;

    read_options(argc, argv, &o);
    setvbuf(stdout, NULL, _IOLBF, 0);
    b.s = mmap(NULL, sizeof *b.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(b.s != MAP_FAILED && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, b.socket) == 0, "memory");
    /* As root: a message has to fit. */
    (void)setsockopt(b.socket[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    loco_fork_run(2, body, &b, statuses);
    return statuses[0] != 0 || statuses[1] != 0;
}

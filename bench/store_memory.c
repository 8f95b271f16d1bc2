/* SPDX-License-Identifier: BSD-3-Clause */

/* What a store takes of memory: processes of this node make many small objects, look at themselves,
 * read all of them back, and change them many times, looking at themselves again. No MPI.
 *
 *     store_memory [--objects N] [--bytes N] [--processes N] [--updates N]
 */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <loco/loco.h>

#include "resident.h"

enum { AT_ONCE = 64, SAMPLES = 4, HEADER = 32, UNIT = 64 };

struct options {
    uint64_t objects, updates;
    size_t bytes;
    int processes;
};

struct member {
    const struct options *o;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_barrier_t *barrier;
    int rank;
    uint64_t mine, at;          /* objects of this process; the first of a transaction's */
    loco_object_t *object;
    unsigned char *values;
    uint64_t random;
};

static uint64_t below(uint64_t *state, uint64_t n)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 32) * n >> 32;
}

static size_t some(const struct member *m)
{
    return m->mine - m->at < AT_ONCE ? (size_t)(m->mine - m->at) : AT_ONCE;
}

/* What the object of that number begins with. */
static void value_of(const struct member *m, uint64_t i, uint64_t version, unsigned char *value)
{
    uint64_t word = (i * (uint64_t)m->o->processes + (uint64_t)m->rank) << 8 | (version & 0xff);

    memset(value, 0, m->o->bytes);
    memcpy(value, &word, m->o->bytes < 8 ? m->o->bytes : 8);
}

/* ---- transactions ---- */

static int make_some(loco_tx_t *tx, void *arg)
{
    struct member *m = arg;
    int status = LOCO_OK;

    for (size_t i = 0, n = some(m); i < n && status == LOCO_OK; i++) {
        value_of(m, m->at + i, 0, m->values);
        status = loco_tx_new(tx, m->rank, m->values, m->o->bytes, &m->object[m->at + i]);
    }
    return status;
}

static int read_some(loco_tx_t *tx, void *arg)
{
    struct member *m = arg;
    int statuses[AT_ONCE];

    return loco_tx_read_many(tx, some(m), m->object + m->at, m->values, m->o->bytes, statuses);
}

static int change_one(loco_tx_t *tx, void *arg)
{
    struct member *m = arg;
    uint64_t i = below(&m->random, m->mine);

    value_of(m, i, 1, m->values);
    return loco_tx_write(tx, m->object[i], m->values, m->o->bytes);
}

/* ---- the parts ---- */

static void make_all(struct member *m)
{
    for (m->at = 0; m->at < m->mine; m->at += AT_ONCE)
        must(loco_tx_run(m->tx, make_some, m), "making objects");
}

/* Whatever was updated has its own number still. */
static void read_all(struct member *m)
{
    unsigned char *wanted = malloc(m->o->bytes);

    for (m->at = 0; m->at < m->mine; m->at += AT_ONCE) {
        must(loco_tx_run(m->tx, read_some, m), "reading them");
        for (size_t i = 0; i < some(m); i++) {
            unsigned char *value = m->values + i * m->o->bytes;

            value[0] = 0;       /* the version */
            value_of(m, m->at + i, 0, wanted);
            if (memcmp(value, wanted, m->o->bytes) != 0) {
                fprintf(stderr, "store_memory: object %" PRIu64 " is wrong\n", m->at + i);
                _Exit(1);
            }
        }
    }
    free(wanted);
}

static void say(const struct member *m, const char *what, double took, uint64_t n, uint64_t before)
{
    uint64_t bytes = resident() - before;

    if (m->rank == 0)
        printf("%-10s %12" PRIu64 " in %8.1f s %9.2f M/s %10.1f MiB resident, grown by %6.1f bytes "
               "per object\n", what, n, took, (double)n / took / 1e6,
               (double)(bytes + before) / (1 << 20), (double)bytes / (double)m->mine);
    fflush(stdout);
}

/* All processes come to the same place; the time since the last one. */
static double step(struct member *m, double *since)
{
    double now, took;

    must(loco_barrier_wait(m->barrier), "meeting");
    now = seconds();
    took = now - *since;
    *since = now;
    return took;
}

static void update(struct member *m, uint64_t before)
{
    double since = seconds();
    uint64_t each = m->o->updates / (uint64_t)m->o->processes / SAMPLES;

    for (int sample = 0; sample < SAMPLES && each > 0; sample++) {
        for (uint64_t i = 0; i < each; i++)
            must(loco_tx_run(m->tx, change_one, m), "changing one");
        say(m, "changed", step(m, &since), each * (uint64_t)m->o->processes, before);
    }
}

static void use(struct member *m, uint64_t before)
{
    loco_store_scavenged_t found;
    double since;

    must(loco_barrier_wait(m->barrier), "meeting");
    since = seconds();
    make_all(m);
    say(m, "made", step(m, &since), m->o->objects, before);
    read_all(m);
    say(m, "read back", step(m, &since), m->o->objects, before);
    update(m, before);
    if (m->o->updates > 0)
        read_all(m);
    step(m, &since);
    if (m->rank == 0) {
        must(loco_store_scavenge(m->store, &found), "scavenging");
        printf("scavenged: %" PRIu64 " objects, %" PRIu64 " lost blocks, %" PRIu64 " lost places, "
               "in %.1f s\n", found.objects, found.blocks, found.cells, seconds() - since);
        fflush(stdout);
    }
    step(m, &since);
}

static uint64_t block_bytes(size_t bytes)
{
    return (HEADER + (bytes + 7) / 8 * 8 + UNIT - 1) / UNIT * UNIT;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    const struct options *o = arg;
    struct member m = { .o = o, .rank = boot->exchange.rank,
                        .mine = o->objects / (uint64_t)o->processes,
                        .random = (uint64_t)boot->exchange.rank + 1 };
    loco_store_options_t options = { .threads = 1, .objects = m.mine + 4096, .roots = 1 };
    uint64_t before = resident();

    /* An eighth more than its class needs where it is no multiple of 64; and what handles keep. */
    options.bytes = m.mine * (block_bytes(o->bytes) + block_bytes(o->bytes) / 2 * (o->bytes > 352))
                    + (UINT64_C(8) << 20);
    m.object = calloc(m.mine, sizeof *m.object);
    m.values = calloc(AT_ONCE, o->bytes);
    if (m.object == NULL || m.values == NULL)
        return 1;
    memset(m.object, 1, m.mine * sizeof *m.object);
    before = resident();
    must(loco_runtime_open(boot, &m.rt), "opening the runtime");
    must(loco_store_create(m.rt, NULL, "store", loco_everyone(m.rt), &options, &m.store),
         "the store");
    must(loco_barrier_create(m.rt, NULL, "barrier", loco_everyone(m.rt), &m.barrier), "a barrier");
    must(loco_runtime_wait_ready(m.rt, LOCO_FOREVER), "getting ready");
    must(loco_tx_open(m.store, &m.tx), "a handle");
    use(&m, before);
    loco_tx_close(m.tx);
    loco_store_destroy(m.store);
    loco_barrier_destroy(m.barrier);
    loco_runtime_close(m.rt);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: store_memory [--objects N] [--bytes N] [--processes N] "
            "[--updates N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "objects", required_argument, NULL, 'o' }, { "bytes", required_argument, NULL, 'b' },
        { "processes", required_argument, NULL, 'p' }, { "updates", required_argument, NULL, 'u' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { 10000000, 0, 8, 2 };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        unsigned long long n = optarg == NULL ? 0 : strtoull(optarg, NULL, 10);

        if (c == 'o' && n > 0)
            o.objects = n;
        else if (c == 'b' && n > 0 && n <= LOCO_STORE_VALUE_MAX)
            o.bytes = (size_t)n;
        else if (c == 'p' && n > 0)
            o.processes = (int)n;
        else if (c == 'u')
            o.updates = n;
        else
            return usage();
    }
    if (optind < argc || o.objects < (uint64_t)o.processes)
        return usage();
    return loco_fork_run(o.processes, member, &o, NULL) == LOCO_OK ? 0 : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* What an index takes of memory: processes of this node insert keys in random order, look at
 * themselves, read all keys back, and change values, looking at themselves again. No MPI.
 *
 *     index_memory [--keys N] [--key-bytes N] [--value-bytes N] [--processes N] [--updates N]
 */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <loco/loco.h>

#include "resident.h"

enum { KEY_MOST = 256, VALUE_MOST = 4096, PROCESSES_MOST = 64, NUMBER = 8 };

struct options {
    uint64_t keys, updates, bytes;
    size_t key_bytes, value_bytes;
    int processes;
    uint64_t *grown;            /* by each process; shared by all */
};

struct member {
    const struct options *o;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
    loco_barrier_t *barrier;
    int rank;
    uint64_t mine;              /* keys that this process inserts */
    unsigned char key[KEY_MOST], value[VALUE_MOST], found[VALUE_MOST];
};

/* One to one on 64 bits. */
static uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Key number `i` of all: what is longer than a number has it at its end. */
static loco_bytes_t key_of(struct member *m, uint64_t i)
{
    memset(m->key, 'k', m->o->key_bytes);
    loco_key64(mixed(i), m->key + m->o->key_bytes - NUMBER);
    return loco_bytes(m->key, m->o->key_bytes);
}

static loco_bytes_t value_of(struct member *m, uint64_t i)
{
    memset(m->value, (int)(i & 0xff), m->o->value_bytes);
    memcpy(m->value, &i, m->o->value_bytes < sizeof i ? m->o->value_bytes : sizeof i);
    return loco_bytes(m->value, m->o->value_bytes);
}

/* ---- the parts ---- */

/* Those of all processes lie among each other. */
static uint64_t number_of(const struct member *m, uint64_t i)
{
    return i * (uint64_t)m->o->processes + (uint64_t)m->rank;
}

static void insert_all(struct member *m)
{
    for (uint64_t i = 0; i < m->mine; i++)
        must(loco_tree_insert(m->tree, key_of(m, number_of(m, i)), value_of(m, number_of(m, i))),
             "inserting");
}

static void read_all(struct member *m)
{
    for (uint64_t i = 0; i < m->mine; i++) {
        size_t len;

        must(loco_tree_get(m->tree, key_of(m, number_of(m, i)), m->found, sizeof m->found, &len),
             "reading");
        if (len != m->o->value_bytes
            || memcmp(m->found, value_of(m, number_of(m, i)).data, len) != 0) {
            fprintf(stderr, "index_memory: value %" PRIu64 " is wrong\n", number_of(m, i));
            _Exit(1);
        }
    }
}

static void update_some(struct member *m)
{
    uint64_t each = m->o->updates / (uint64_t)m->o->processes;

    for (uint64_t i = 0; i < each; i++) {
        uint64_t n = number_of(m, mixed(i) % m->mine);

        must(loco_tree_update(m->tree, key_of(m, n), value_of(m, n)), "changing");
    }
}

/* All processes come to the same place; then rank 0 says what they have grown by. */
static void say(struct member *m, const char *what, double *since, uint64_t n, uint64_t before)
{
    uint64_t all = 0, most = 0;
    double took;

    must(loco_barrier_wait(m->barrier), "meeting");
    took = seconds() - *since;
    m->o->grown[m->rank] = resident() - before;
    must(loco_barrier_wait(m->barrier), "meeting");
    for (int i = 0; i < m->o->processes; i++) {
        all += m->o->grown[i];
        most = m->o->grown[i] > most ? m->o->grown[i] : most;
    }
    if (m->rank == 0)
        printf("%-10s %10" PRIu64 " in %7.1f s %7.2f M/s; grown by %9.1f MiB, one of %d by %8.1f "
               "at most; %6.1f bytes per key, times its payload %.2f\n", what, n, took,
               (double)n / took / 1e6, (double)all / (1 << 20), m->o->processes,
               (double)most / (1 << 20), (double)all / (double)m->o->keys, (double)all
               / (double)m->o->keys / (double)(m->o->key_bytes + m->o->value_bytes));
    fflush(stdout);
    must(loco_barrier_wait(m->barrier), "meeting");
    *since = seconds();
}

static void use(struct member *m, uint64_t before)
{
    double since;

    must(loco_barrier_wait(m->barrier), "meeting");
    since = seconds();
    insert_all(m);
    say(m, "inserted", &since, m->o->keys, before);
    read_all(m);
    say(m, "read back", &since, m->o->keys, before);
    if (m->o->updates == 0)
        return;
    update_some(m);
    say(m, "changed", &since, m->o->updates, before);
    read_all(m);
    say(m, "read back", &since, m->o->keys, before);
}

static void open_all(struct member *m, const struct loco_bootstrap *boot)
{
    loco_store_options_t options = { .threads = 1, .roots = 1 };

    options.bytes = m->o->bytes / (uint64_t)m->o->processes + (UINT64_C(16) << 20);
    must(loco_runtime_open(boot, &m->rt), "opening the runtime");
    must(loco_store_create(m->rt, NULL, "store", loco_everyone(m->rt), &options, &m->store),
         "the store");
    must(loco_barrier_create(m->rt, NULL, "barrier", loco_everyone(m->rt), &m->barrier),
         "a barrier");
    must(loco_runtime_wait_ready(m->rt, LOCO_FOREVER), "getting ready");
    must(loco_tx_open(m->store, &m->tx), "a handle");
    must(loco_tree_open(m->tx, loco_store_root(m->store, 0), NULL, &m->tree), "the tree");
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    const struct options *o = arg;
    struct member m = { .o = o, .rank = boot->exchange.rank };
    uint64_t before = resident();

    m.mine = o->keys / (uint64_t)o->processes;
    open_all(&m, boot);
    use(&m, before);
    must(loco_barrier_wait(m.barrier), "meeting");
    loco_tree_close(m.tree);
    loco_tx_close(m.tx);
    loco_store_destroy(m.store);
    loco_barrier_destroy(m.barrier);
    loco_runtime_close(m.rt);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: index_memory [--keys N] [--key-bytes 8-%d] [--value-bytes 0-%d]\n"
            "           [--processes 1-%d] [--updates N] [--bytes N]\n"
            "--bytes: of all hosts, for the tree (4 times its keys and values, and 64 for each)\n",
            KEY_MOST, VALUE_MOST, PROCESSES_MOST);
    return 2;
}

static bool set(int option, uint64_t n, struct options *o)
{
    switch (option) {
    case 'k': o->keys = n; return n > 0;
    case 'K': o->key_bytes = (size_t)n; return n >= NUMBER && n <= KEY_MOST;
    case 'v': o->value_bytes = (size_t)n; return n <= VALUE_MOST;
    case 'p': o->processes = (int)n; return n > 0 && n <= PROCESSES_MOST;
    case 'u': o->updates = n; return true;
    case 'b': o->bytes = n; return n > 0;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "keys", required_argument, NULL, 'k' }, { "key-bytes", required_argument, NULL, 'K' },
        { "value-bytes", required_argument, NULL, 'v' },
        { "processes", required_argument, NULL, 'p' }, { "updates", required_argument, NULL, 'u' },
        { "bytes", required_argument, NULL, 'b' }, { NULL, 0, NULL, 0 },
    };
    struct options o = { .keys = 10000000, .key_bytes = 8, .value_bytes = 100, .processes = 2 };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        if (c == '?' || !set(c, strtoull(optarg, NULL, 10), &o))
            return usage();
    if (optind < argc)
        return usage();
    o.keys -= o.keys % (uint64_t)o.processes;
    if (o.bytes == 0)
        o.bytes = o.keys * (4 * (o.key_bytes + o.value_bytes) + 64);
    o.grown = mmap(NULL, PROCESSES_MOST * sizeof o.grown[0], PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o.grown == MAP_FAILED || o.keys == 0)
        return usage();
    return loco_fork_run(o.processes, member, &o, NULL) == LOCO_OK ? 0 : 1;
}

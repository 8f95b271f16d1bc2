/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one get of loco_kvstore takes, beside one lookup and copy in a hash table of the process's
 * own (kv_private.c), in nanoseconds: every rank fills both, and then all look up the same keys in
 * one and the other by turns. A turn is so short that what else the machine does disturbs few of
 * them; a figure is the median over the turns, and the median of the ratios within a round.
 */
#include "kv_rivals.h"

#include <loco/kvstore.h>
#include <loco/mpi.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N kv_get [OPTION]...\n"
    "The time of one get of a key-value store beside that of a private hash table.\n"
    "\n"
    "  --records N      keys, over all ranks (1m)\n"
    "  --value BYTES    size of every value, 8 to 65536 (100)\n"
    "  --dist uniform|zipf  which keys (zipf)\n"
    "  --gets N         to a turn (2000)\n"
    "  --rounds N       (1000)\n"
    "  --help           this text\n"
    "\n"
    "Prints a line of JSON for each kind of get.\n";

enum { MOST_ROUNDS = 100000, LOADED_AT_ONCE = 128, KINDS = 5, MANY = 128 };

struct bench {
    struct kv_options o;
    int64_t gets, rounds;
    loco_runtime_t *rt;
    loco_kvstore_t *kv;
    loco_kvstore_window_t *window;
    void *table;
    struct kv_tape tape;
    uint64_t *keys;           /* of a turn */
    unsigned char *values;    /* MANY of them */
    int statuses[MANY];
    double *ns[KINDS];        /* per round */
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static bool parse_one(int c, void *options)
{
    struct bench *b = options;

    switch (c) {
    case 'n': return ex_number(optarg, 1, KV_MOST_RECORDS, &b->o.records);
    case 'v': return ex_number(optarg, KV_LEAST_VALUE, KV_MOST_VALUE, &b->o.value_bytes);
    case 'g': return ex_number(optarg, MANY, KV_MOST_STEPS, &b->gets);
    case 'r': return ex_number(optarg, 1, MOST_ROUNDS, &b->rounds);
    case 'd':
        b->o.distribution = strcmp(optarg, "uniform") == 0 ? KV_UNIFORM : KV_ZIPF;
        return strcmp(optarg, kv_distribution_names[b->o.distribution]) == 0;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct bench *b)
{
    static const struct option names[] = {
        { "records", required_argument, NULL, 'n' }, { "value", required_argument, NULL, 'v' },
        { "dist", required_argument, NULL, 'd' },    { "gets", required_argument, NULL, 'g' },
        { "rounds", required_argument, NULL, 'r' },  { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    b->o = (struct kv_options){ .distribution = KV_ZIPF, .records = 1000000, .value_bytes = 100,
                                .threads = 1 };
    b->gets = 2000;
    b->rounds = 1000;
    ex_only_options(argc, argv, names, help, parse_one, b);
    b->gets -= b->gets % MANY;
}

static void *memory(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (p == NULL)
        ex_abort("no memory for %zu times %zu bytes", count, size);
    return p;
}

static void open_stores(struct bench *b)
{
    uint64_t records = (uint64_t)b->o.records, each = records / (uint64_t)ex_size() + 1;
    loco_kvstore_options_t options = { .value_bytes = (size_t)b->o.value_bytes,
                                       .capacity = each };
    struct kv_zipf zipf;

    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &b->rt), "loco_runtime_open_mpi");
    check(loco_kvstore_create(b->rt, "kv_get", "store", loco_everyone(b->rt), &options, &b->kv),
          "loco_kvstore_create");
    check(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    check(loco_kvstore_window_open(b->kv, MANY, &b->window), "loco_kvstore_window_open");
    b->table = kv_private.open(&b->o, records, records);
    b->keys = memory((size_t)b->gets, sizeof(*b->keys));
    b->values = memory(MANY, (size_t)b->o.value_bytes);
    for (int i = 0; i < KINDS; i++)
        b->ns[i] = memory((size_t)b->rounds, sizeof(**b->ns));
    kv_zipf_init(&zipf, records, KV_ZIPF_THETA);
    if (!kv_tape_make(&b->tape, KV_MOST_STEPS, kv_mix_find('c'), b->o.distribution, &zipf, records,
                      (uint64_t)ex_rank()))
        ex_abort("no memory for the keys");
}

static void close_stores(struct bench *b)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_kvstore_window_close(b->window);
    loco_kvstore_destroy(b->kv);
    loco_runtime_close_mpi(b->rt);
    kv_private.close(b->table);
    kv_tape_free(&b->tape);
    free(b->keys);
    free(b->values);
    for (int i = 0; i < KINDS; i++)
        free(b->ns[i]);
}

/* All records into the own table; one's share of them into the store. */
static void load(struct bench *b)
{
    size_t len = (size_t)b->o.value_bytes, waiting = 0;
    uint64_t keys[LOADED_AT_ONCE];

    for (uint64_t i = 0; i < (uint64_t)b->o.records; i++) {
        struct kv_op op = { .kind = KV_INSERT, .key = kv_key(i),
                            .value = b->values + waiting * len };

        kv_value_make(op.value, len, op.key, (struct kv_stamp){ 0, 0 });
        kv_private.start(b->table, &op);
        if (i % (uint64_t)ex_size() == (uint64_t)ex_rank())
            keys[waiting++] = op.key;
        if (waiting < LOADED_AT_ONCE && i + 1 < (uint64_t)b->o.records)
            continue;
        if (waiting > 0)
            check(loco_kvstore_insert_many(b->kv, waiting, keys, b->values, len, b->statuses),
                  "loco_kvstore_insert_many");
        waiting = 0;
    }
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

/* ---- Turns: all keys of a round, in one way ---- */

static void by_hash(struct bench *b)
{
    for (int64_t i = 0; i < b->gets; i++) {
        if (!kv_private_get(b->table, b->keys[i], b->values))
            ex_abort("a key is missing in the private table");
    }
}

static void one_by_one(struct bench *b)
{
    for (int64_t i = 0; i < b->gets; i++)
        check(loco_kvstore_get(b->kv, b->keys[i], b->values, (size_t)b->o.value_bytes),
              "loco_kvstore_get");
}

static void in_a_window(struct bench *b)
{
    size_t len = (size_t)b->o.value_bytes;

    for (int64_t i = 0; i < b->gets; i++)
        check(loco_kvstore_get_ack(b->window, b->keys[i], b->values + (size_t)(i % MANY) * len,
                                   len, &b->statuses[i % MANY]), "loco_kvstore_get_ack");
    check(loco_kvstore_window_wait(b->window), "loco_kvstore_window_wait");
}

static void many(struct bench *b, int n)
{
    for (int64_t i = 0; i < b->gets; i += n) {
        int some = b->gets - i < n ? (int)(b->gets - i) : n;

        check(loco_kvstore_get_many(b->kv, (size_t)some, b->keys + i, b->values,
                                    (size_t)b->o.value_bytes, b->statuses),
              "loco_kvstore_get_many");
    }
}

static void three_at_once(struct bench *b)
{
    many(b, 3);
}

static void many_at_once(struct bench *b)
{
    many(b, MANY);
}

static const struct {
    const char *name;
    void (*turn)(struct bench *b);
} kinds[KINDS] = {
    { "hash", by_hash },
    { "loco", one_by_one },
    { "loco, window", in_a_window },
    { "loco, 3 many", three_at_once },
    { "loco, 128 many", many_at_once },
};

/* Each turn has keys of its own, which the one before has not brought into the caches; every other
 * round goes backwards. */
static void measure(struct bench *b)
{
    uint64_t step = 0;

    for (int64_t round = 0; round < b->rounds; round++) {
        for (int i = 0; i < KINDS; i++) {
            int kind = round % 2 == 0 ? i : KINDS - 1 - i;
            double start;

            for (int64_t k = 0; k < b->gets; k++)
                b->keys[k] = kv_key(kv_tape_at(&b->tape, step++));
            start = MPI_Wtime();
            kinds[kind].turn(b);
            b->ns[kind][round] = (MPI_Wtime() - start) * 1e9 / (double)b->gets;
            /* The last ones': was the key there, or is the figure one of something else? */
            for (int k = 0; k < MANY; k++)
                check(b->statuses[k], "a key of the store");
        }
    }
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

/* Nobody changes a value, so one look at all of them is enough. */
static void check_values(struct bench *b)
{
    for (uint64_t i = 0; i < (uint64_t)b->o.records; i++) {
        struct kv_stamp stamp;

        check(loco_kvstore_get(b->kv, kv_key(i), b->values, (size_t)b->o.value_bytes),
              "loco_kvstore_get");
        if (!kv_value_check(b->values, (size_t)b->o.value_bytes, kv_key(i), &stamp))
            ex_abort("a value that nobody wrote");
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof(*v), compare);
    return n % 2 != 0 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Of the rank that was worst off. */
static void report(struct bench *b)
{
    double *ratios = memory((size_t)b->rounds, sizeof(*ratios)), mine[KINDS][2], all[KINDS][2];

    for (int kind = KINDS - 1; kind >= 0; kind--) {
        for (int64_t r = 0; r < b->rounds; r++)
            ratios[r] = b->ns[kind][r] / b->ns[0][r];
        mine[kind][1] = median(ratios, b->rounds);
    }
    for (int kind = 0; kind < KINDS; kind++)
        mine[kind][0] = median(b->ns[kind], b->rounds);
    free(ratios);
    ex_check(MPI_Reduce(mine, all, KINDS * 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD),
             "MPI_Reduce");
    for (int kind = 0; ex_rank() == 0 && kind < KINDS; kind++)
        printf("{\"benchmark\": \"kv_get\", \"ranks\": %d, \"records\": %" PRId64
               ", \"value\": %" PRId64 ", \"dist\": \"%s\", \"get\": \"%s\", \"ns\": %.2f, "
               "\"x_limit\": %.4f}\n", ex_size(), b->o.records, b->o.value_bytes,
               kv_distribution_names[b->o.distribution], kinds[kind].name, all[kind][0],
               all[kind][1]);
}

int main(int argc, char **argv)
{
    struct bench b = { 0 };

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &b);
    open_stores(&b);
    load(&b);
    check_values(&b);
    measure(&b);
    report(&b);
    close_stores(&b);
    return ex_finish(0);
}

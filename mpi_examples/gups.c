/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random 8-byte updates of a table that is spread over all ranks, by the rules of the HPC
 * Challenge's RandomAccess: a table of 2^n words, 4 * 2^n updates "table[a & (2^n - 1)] ^= a" with
 * a from a fixed pseudo-random sequence, at most 1024 updates looked ahead per rank. Every rank
 * makes its share of the updates, each to any rank's memory.
 *
 * --update accumulate  MPI_Accumulate with MPI_BXOR, which is atomic: no update is lost
 * --update getput      MPI_Get, then MPI_Put: the rules allow 1 % of the words to be wrong, as two
 *                      ranks (or one look-ahead) may update a word at the same time
 *
 * The check is made without MPI: each rank goes through the whole sequence and undoes what belongs
 * in its own part; then word i must be i.
 */
#include "common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N gups [OPTION]...\n"
    "Random 8-byte updates of a table over all ranks (HPC Challenge RandomAccess).\n"
    "\n"
    "  --size n        2^n words over all ranks, 3 (getput: 12) to 36 (20)\n"
    "  --update accumulate|getput  how a word is updated (accumulate)\n"
    "  --lookahead L   updates in flight per rank, 1 to 1024 (1024; getput: fewer where the table\n"
    "                  is small, as updates of one word that are in flight together are lost)\n"
    "  --flavor " EX_FLAVORS "  kind of MPI window (allocate)\n"
    "  --no-check      do not verify the table\n"
    "  --json          print the results as JSON\n"
    "  --progress      show progress on stderr (otherwise only on a terminal)\n"
    "  --help          this text\n"
    "\n"
    "Exit status: 0, 1 if too many words are wrong (getput: over 1 %; accumulate: any) or a call\n"
    "failed, 2 on wrong use.\n";

enum { MOST_LOOKAHEAD = 1024, UPDATES_PER_WORD = 4 };

static const uint64_t polynomial = 7; /* x^63 + x^2 + x + 1, as the rules have it */

struct options {
    int64_t log_size;
    int64_t lookahead;
    enum ex_flavor flavor;
    bool getput;
    bool check;
    bool json;
    bool progress;
};

struct gups {
    struct ex_window w;
    uint64_t words;      /* in the whole table: a power of two */
    uint64_t per_rank;   /* the last ranks may have fewer, or none */
    uint64_t first;      /* of this rank's part */
    uint64_t mine;       /* words in this rank's part */
    uint64_t seed;       /* the number before this rank's first */
    uint64_t updates;    /* this rank's */
};

/* Without atomic updates, one word in 32768 in flight leaves the errors well below 1 %: the
 * sequence meets the same word within a few hundred updates more often than chance has it. */
static int64_t usual_lookahead(const struct options *o)
{
    int64_t few = (INT64_C(1) << o->log_size) / 32768 / ex_size();

    if (!o->getput || few > MOST_LOOKAHEAD)
        return MOST_LOOKAHEAD;
    return few > 0 ? few : 1;
}

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 's': return ex_number(optarg, 3, 36, &o->log_size);
    case 'u':
        o->getput = strcmp(optarg, "getput") == 0;
        return o->getput || strcmp(optarg, "accumulate") == 0;
    case 'l': return ex_number(optarg, 1, MOST_LOOKAHEAD, &o->lookahead);
    case 'f': return ex_flavor_parse(optarg, &o->flavor);
    case 'n': o->check = false; return true;
    case 'j': o->json = true; return true;
    case 'p': o->progress = true; return true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "size", required_argument, NULL, 's' },   { "update", required_argument, NULL, 'u' },
        { "lookahead", required_argument, NULL, 'l' }, { "flavor", required_argument, NULL, 'f' },
        { "no-check", no_argument, NULL, 'n' },     { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },     { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .log_size = 20, .check = true };
    ex_only_options(argc, argv, names, help, parse_one, o);
    if (o->getput && o->log_size < 12)
        ex_usage_error(argv[0], "--update getput needs --size 12 or more: 1 %% of less is nothing");
    if (o->lookahead == 0)
        o->lookahead = usual_lookahead(o);
}

static uint64_t next_number(uint64_t a)
{
    return (a << 1) ^ ((int64_t)a < 0 ? polynomial : 0);
}

/* The product of two polynomials over GF(2), modulo x^64 + x^2 + x + 1. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (; b != 0; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = next_number(a);
    }
    return product;
}

/* The n-th number of the sequence, which begins with 1 for n = 0: x to the power of n. */
static uint64_t number_at(uint64_t n)
{
    uint64_t power = 2, number = 1;

    for (; n != 0; n >>= 1) {
        if (n & 1)
            number = multiply(number, power);
        power = multiply(power, power);
    }
    return number;
}

static void set_up(struct gups *g, const struct options *o)
{
    uint64_t size = (uint64_t)ex_size(), rank = (uint64_t)ex_rank();
    uint64_t all = UPDATES_PER_WORD << o->log_size, start, end;
    uint64_t *table;

    g->words = UINT64_C(1) << o->log_size;
    g->per_rank = (g->words + size - 1) / size;
    g->first = g->per_rank * rank < g->words ? g->per_rank * rank : g->words;
    g->mine = g->words - g->first < g->per_rank ? g->words - g->first : g->per_rank;
    start = all / size * rank;
    end = rank + 1 == size ? all : all / size * (rank + 1);
    g->seed = number_at(start);
    g->updates = end - start;

    ex_window_create(&g->w, o->flavor, g->mine * sizeof(uint64_t));
    table = g->w.base;
    ex_check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, ex_rank(), 0, g->w.win), "MPI_Win_lock");
    for (uint64_t i = 0; i < g->mine; i++)
        table[i] = g->first + i;
    ex_check(MPI_Win_unlock(ex_rank(), g->w.win), "MPI_Win_unlock");
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

static int owner_of(const struct gups *g, uint64_t a, MPI_Aint *at)
{
    uint64_t word = a & (g->words - 1);
    int owner = (int)(word / g->per_rank);

    *at = ex_at(&g->w, owner, word % g->per_rank * sizeof(uint64_t));
    return owner;
}

static void accumulate_all(struct gups *g, const uint64_t *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        MPI_Aint at;
        int owner = owner_of(g, numbers[i], &at);

        MPI_Accumulate(&numbers[i], 1, MPI_UINT64_T, owner, at, 1, MPI_UINT64_T, MPI_BXOR,
                       g->w.win);
    }
    MPI_Win_flush_all(g->w.win);
}

static void get_and_put_all(struct gups *g, const uint64_t *numbers, int count)
{
    uint64_t values[MOST_LOOKAHEAD];
    MPI_Aint at;

    for (int i = 0; i < count; i++) {
        int owner = owner_of(g, numbers[i], &at);

        MPI_Get(&values[i], 1, MPI_UINT64_T, owner, at, 1, MPI_UINT64_T, g->w.win);
    }
    MPI_Win_flush_all(g->w.win);
    for (int i = 0; i < count; i++) {
        int owner = owner_of(g, numbers[i], &at);

        values[i] ^= numbers[i];
        MPI_Put(&values[i], 1, MPI_UINT64_T, owner, at, 1, MPI_UINT64_T, g->w.win);
    }
    MPI_Win_flush_all(g->w.win);
}

/* Returns the seconds from the first update of any rank to the last. */
static double update(struct gups *g, const struct options *o)
{
    uint64_t numbers[MOST_LOOKAHEAD], a = g->seed;
    struct ex_progress progress;
    double start;

    ex_progress_init(&progress, o->progress);
    ex_check(MPI_Win_lock_all(0, g->w.win), "MPI_Win_lock_all");
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    start = MPI_Wtime();
    for (uint64_t done = 0; done < g->updates;) {
        uint64_t left = g->updates - done;
        int count = (int)(left < (uint64_t)o->lookahead ? left : (uint64_t)o->lookahead);

        for (int i = 0; i < count; i++)
            numbers[i] = a = next_number(a);
        if (o->getput)
            get_and_put_all(g, numbers, count);
        else
            accumulate_all(g, numbers, count);
        done += (uint64_t)count;
        ex_progress_say(&progress, "%.1f of %.1f million updates on rank 0", (double)done / 1e6,
                        (double)g->updates / 1e6);
    }
    ex_check(MPI_Win_unlock_all(g->w.win), "MPI_Win_unlock_all");
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    ex_progress_end(&progress);
    return MPI_Wtime() - start;
}

/* The number of words, over all ranks, that are not what all updates together make of them. */
static uint64_t count_errors(struct gups *g)
{
    uint64_t *table = g->w.base, a = 1, wrong = 0, all;

    ex_check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, ex_rank(), 0, g->w.win), "MPI_Win_lock");
    for (uint64_t i = 0; i < UPDATES_PER_WORD * g->words; i++) {
        uint64_t word;

        a = next_number(a);
        word = (a & (g->words - 1)) - g->first;
        if (word < g->mine)
            table[word] ^= a;
    }
    for (uint64_t i = 0; i < g->mine; i++)
        wrong += table[i] != g->first + i;
    ex_check(MPI_Win_unlock(ex_rank(), g->w.win), "MPI_Win_unlock");
    ex_check(MPI_Allreduce(&wrong, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    return all;
}

static void report(const struct options *o, const struct gups *g, double seconds, uint64_t errors,
                   bool good)
{
    uint64_t updates = UPDATES_PER_WORD * g->words;
    double rate = (double)updates / seconds / 1e9;
    const char *way = o->getput ? "getput" : "accumulate";
    const char *check = !o->check ? "not made" : good ? "passed" : "FAILED";

    if (o->json) {
        printf("{\"example\": \"gups\", \"ranks\": %d, \"flavor\": \"%s\", \"update\": \"%s\", "
               "\"words\": %" PRIu64 ", \"updates\": %" PRIu64 ", \"lookahead\": %" PRId64
               ", \"seconds\": %.6f, \"gups\": %.9f, \"errors\": %" PRIu64 ", \"check\": \"%s\"}\n",
               ex_size(), ex_flavor_name(o->flavor), way, g->words, updates, o->lookahead, seconds,
               rate, errors, check);
        return;
    }
    printf("%-12s %d\n", "ranks", ex_size());
    printf("%-12s %s\n", "flavor", ex_flavor_name(o->flavor));
    printf("%-12s %s, lookahead %" PRId64 "\n", "update", way, o->lookahead);
    printf("%-12s %" PRIu64 "\n", "words", g->words);
    printf("%-12s %" PRIu64 "\n", "updates", updates);
    printf("%-12s %.3f\n", "seconds", seconds);
    printf("%-12s %.6f\n", "GUPS", rate);
    printf("%-12s %s", "check", check);
    if (o->check)
        printf(" (%" PRIu64 " words wrong, %.4f %%)", errors,
               100.0 * (double)errors / (double)g->words);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct options o;
    struct gups g = { 0 };
    uint64_t errors = 0;
    double seconds;
    bool good;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    set_up(&g, &o);
    seconds = update(&g, &o);
    if (o.check)
        errors = count_errors(&g);
    good = errors <= (o.getput ? g.words / 100 : 0);
    if (ex_rank() == 0) {
        report(&o, &g, seconds, errors, good);
        if (!good)
            fprintf(stderr, "gups: too many words are wrong\n");
    }
    ex_window_free(&g.w);
    return ex_finish(good ? 0 : EX_WRONG);
}

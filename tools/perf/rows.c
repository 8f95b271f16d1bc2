/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: what calls cost over a fabric, beside the raw operation of the same device or memory.
 *
 * Rank 0 measures; rank 1 does what it is told: each batch begins with an allgather in which rank 0
 * says which side, row and number. The sides take turns within each round, and a figure is the
 * median of the rounds, a ratio the median of the rounds' ratios. */
#include "config.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <loco/loco.h>

#include "perf.h"

#define SIDES 2
#define END (-1)

const struct perf_row_name perf_rows[PERF_ROWS] = {
    [PERF_PUT] = { "put", "8 bytes and a flush" },
    [PERF_GET] = { "get", "8 bytes and a flush" },
    [PERF_FETCH_ADD] = { "fetch_add", "fetch_and_op of 8 bytes and a flush" },
    [PERF_COMPARE_SWAP] = { "compare_swap", "of 8 bytes, and a flush" },
    [PERF_FENCE] = { "fence", "8 bytes, and a fence of the process to everybody" },
    [PERF_PUT_RATE] = { "put_rate", "8 bytes; a flush after each 64" },
    [PERF_PUT_LARGE] = { "put_64KiB", "a flush after each 16" },
    [PERF_GET_LARGE] = { "get_64KiB", "a flush after each 16" },
    [PERF_HAND_OVER] = { "hand_over", "of a lock that both want; raw: of a word by one write" },
};

struct command {
    int32_t side, row;
    uint64_t n;
};

struct bench {
    const struct perf_options *o;
    struct perf_member m;
    const struct perf_side *side[SIDES];
    void *state[SIDES];
};

double perf_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- both processes ---- */

#define SPIN 100
#define LOOK 1024               /* rounds between two looks at the clock */

int perf_wait_turn(const _Atomic uint64_t *word, uint64_t mine)
{
    double begin = 0;

    for (uint64_t rounds = 1; atomic_load_explicit(word, memory_order_acquire) != mine; rounds++) {
        if (rounds % SPIN == 0)
            sched_yield();
        if (rounds % LOOK != 0)
            continue;
        if (begin == 0)
            begin = perf_now();
        if (perf_now() - begin > PERF_PATIENCE) {
            fputs("loco-perf: raw: the other process does not answer\n", stderr);
            return 1;
        }
    }
    return 0;
}

static int agree(struct bench *b, struct command *c)
{
    const struct loco_exchange *x = &b->m.boot->exchange;
    struct command all[2];

    if (x->allgather(x->ctx, c, sizeof *c, all) != LOCO_OK)
        return 1;
    *c = all[0];
    return 0;
}

static int serve(struct bench *b)
{
    struct command c = { 0 };

    while (agree(b, &c) == 0) {
        if (c.side == END)
            return 0;
        if (c.row == PERF_HAND_OVER
            && b->side[c.side]->run(b->state[c.side], PERF_HAND_OVER, c.n) != 0)
            return 1;
    }
    return 1;
}

/* ---- rank 0 ---- */

/* Seconds that n operations take; negative: it failed. */
static double batch(struct bench *b, int side, enum perf_row row, uint64_t n)
{
    struct command c = { side, (int32_t)row, n };
    double begin;

    if (agree(b, &c) != 0)
        return -1;
    begin = perf_now();
    if (b->side[side]->run(b->state[side], row, n) != 0)
        return -1;
    return perf_now() - begin;
}

/* How many fill the time of a round. 0: it failed. */
static uint64_t calibrate(struct bench *b, int side, enum perf_row row)
{
    uint64_t unit = perf_batch(row), n = unit;
    double took;

    while ((took = batch(b, side, row, n)) < b->o->seconds / 4) {
        if (took < 0)
            return 0;
        n *= 4;
    }
    return (uint64_t)((double)n * b->o->seconds / took) / unit * unit + unit;
}

int perf_by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, perf_by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print_row(const struct perf_options *o, enum perf_row row, double mine, double raw,
                      double ratio)
{
    if (o->json)
        printf("{\"row\": \"%s\", \"libloco_us\": %.4f, \"raw_us\": %.4f, \"ratio\": %.3f}\n",
               perf_rows[row].name, mine * 1e6, raw * 1e6, ratio);
    else
        printf("%-13s %12.3f %12.3f %8.2f   %s\n", perf_rows[row].name, mine * 1e6, raw * 1e6,
               ratio, perf_rows[row].what);
    fflush(stdout);
}

/* 0; 1: above the gate; negative: it failed. */
static int measure(struct bench *b, enum perf_row row)
{
    double took[SIDES][PERF_ROUNDS_MAX], ratios[PERF_ROUNDS_MAX], ratio;
    uint64_t n[SIDES];

    for (int side = 0; side < SIDES; side++)
        if ((n[side] = calibrate(b, side, row)) == 0)
            return -1;
    for (int round = 0; round < b->o->rounds; round++) {
        for (int i = 0; i < SIDES; i++) {
            int side = (i + round) % SIDES;
            double t = batch(b, side, row, n[side]);

            if (t < 0)
                return -1;
            took[side][round] = t / (double)n[side] / (row == PERF_HAND_OVER ? 2 : 1);
        }
        ratios[round] = took[0][round] / took[1][round];
    }
    ratio = median(ratios, b->o->rounds);
    print_row(b->o, row, median(took[0], b->o->rounds), median(took[1], b->o->rounds), ratio);
    return b->o->gate > 0 && ratio > b->o->gate;
}

static int measure_all(struct bench *b)
{
    struct command end = { END, 0, 0 };
    int above = 0;

    if (!b->o->json)
        printf("%-13s %12s %12s %8s\n", "", "libloco, us", "raw, us", "ratio");
    for (int row = 0; row < PERF_ROWS; row++) {
        int result = b->o->wanted[row] ? measure(b, (enum perf_row)row) : 0;

        if (result < 0)
            return 2;
        above |= result;
    }
    return agree(b, &end) != 0 ? 2 : above;
}

/* ---- both ---- */

bool perf_over_device(void)
{
    const char *fabric = getenv("LOCO_FABRIC");

    return fabric != NULL && strcmp(fabric, "verbs") == 0;
}

int perf_rows_member(const struct loco_bootstrap *boot, void *arg)
{
    const struct perf_options *o = arg;
    struct bench b = {
        .o = o, .m = { boot, boot->exchange.rank, o->shared },
        .side = { &perf_libloco, &perf_memory },
    };
    int result = 2, opened = 0;

#ifdef LOCO_HAVE_VERBS
    if (perf_over_device())
        b.side[1] = &perf_verbs;
#endif
    while (opened < SIDES && b.side[opened]->open(&b.m, &b.state[opened]) == 0)
        opened++;
    if (opened == SIDES)
        result = b.m.rank == 0 ? measure_all(&b) : serve(&b);
    while (opened-- > 0)
        b.side[opened]->close(b.state[opened]);
    return result;
}

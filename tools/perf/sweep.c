/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: one operation by size, as perftest shows it: how long one alone takes, and how many go
 * through where some are outstanding. Rank 1 has memory, and waits. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "observe/log.h"
#include "perf.h"

#define SAMPLES_MOST (1 << 20)      /* of each size; the time is over earlier, as a rule */
#define SAMPLES_LEAST 20

const char *const perf_op_names[PERF_OPS] = { "put", "get", "fetch_add", "compare_swap" };

struct sweep {
    const struct perf_options *o;
    const struct loco_exchange *x;
    loco_runtime_t *rt;
    loco_region_t *region;
    unsigned char *local;           /* of the longest operation */
    uint64_t old[PERF_OUTSTANDING_MAX], swapped;
    double *took;                   /* SAMPLES_MOST seconds */
};

static int told(const char *what, int status)
{
    if (status != LOCO_OK)
        fprintf(stderr, "loco-perf: %s: %s\n", what, loco_strerror(status));
    return status;
}

static bool is_atomic(int op)
{
    return op == PERF_OP_FETCH_ADD || op == PERF_OP_COMPARE_SWAP;
}

/* ---- operations ---- */

/* All of it, until a put is placed. */
static int one(struct sweep *s, uint64_t len)
{
    int status;

    switch (s->o->op) {
    case PERF_OP_GET: return loco_region_read(s->region, 1, 0, s->local, len);
    case PERF_OP_FETCH_ADD: return loco_region_fetch_add(s->region, 1, 0, 1, s->old);
    case PERF_OP_COMPARE_SWAP:
        status = loco_region_compare_swap(s->region, 1, 0, s->swapped, s->swapped + 1, s->old);
        s->swapped = s->old[0] == s->swapped ? s->swapped + 1 : s->old[0];
        return status;
    default:
        status = loco_region_write(s->region, 1, 0, s->local, len);
        return status != LOCO_OK ? status : loco_fence(s->rt, LOCO_FENCE_THREAD, 1);
    }
}

static int begin_one(struct sweep *s, uint64_t len, int slot, loco_ack_t *ack)
{
    switch (s->o->op) {
    case PERF_OP_GET: return loco_region_read_ack(s->region, 1, 0, s->local, len, ack);
    case PERF_OP_FETCH_ADD:
        return loco_region_fetch_add_ack(s->region, 1, 0, 1, &s->old[slot], ack);
    case PERF_OP_COMPARE_SWAP:
        return loco_region_compare_swap_ack(s->region, 1, 0, 0, 0, &s->old[slot], ack);
    default: return loco_region_write_ack(s->region, 1, 0, s->local, len, ack);
    }
}

/* `n` of them, so many outstanding, and a fence for all puts. */
static int stream(struct sweep *s, uint64_t len, uint64_t n)
{
    loco_ack_t acks[PERF_OUTSTANDING_MAX];
    int k = s->o->outstanding, status = LOCO_OK;

    for (int i = 0; i < k; i++)
        acks[i] = (loco_ack_t)LOCO_ACK_INIT;
    for (uint64_t i = 0; i < n + (uint64_t)k && status == LOCO_OK; i++) {
        int slot = (int)(i % (uint64_t)k);

        status = loco_ack_wait(s->rt, &acks[slot]);
        acks[slot] = (loco_ack_t)LOCO_ACK_INIT;
        if (status == LOCO_OK && i < n)
            status = begin_one(s, len, slot, &acks[slot]);
    }
    if (status == LOCO_OK && s->o->op == PERF_OP_PUT)
        status = loco_fence(s->rt, LOCO_FENCE_THREAD, 1);
    return status;
}

/* ---- figures ---- */

/* Operations a second; negative: it failed. */
static double rate(struct sweep *s, uint64_t len)
{
    uint64_t n = (uint64_t)s->o->outstanding;
    double begin, took;

    for (;; n *= 4) {
        begin = perf_now();
        if (told(perf_op_names[s->o->op], stream(s, len, n)) != LOCO_OK)
            return -1;
        took = perf_now() - begin;
        if (took >= s->o->seconds / 4)
            break;
    }
    if (took < s->o->seconds) {
        n = (uint64_t)((double)n * s->o->seconds / took) + 1;
        begin = perf_now();
        if (told(perf_op_names[s->o->op], stream(s, len, n)) != LOCO_OK)
            return -1;
        took = perf_now() - begin;
    }
    return (double)n / took;
}

/* How many samples there are in s->took, sorted; negative: it failed. */
static int latency(struct sweep *s, uint64_t len)
{
    double begin, end, last;
    int n = 0;

    if (told(perf_op_names[s->o->op], one(s, len)) != LOCO_OK)
        return -1;
    begin = last = perf_now();
    end = begin + s->o->seconds;
    while (n < SAMPLES_MOST && (n < SAMPLES_LEAST || last < end)) {
        int status = one(s, len);
        double now = perf_now();

        if (told(perf_op_names[s->o->op], status) != LOCO_OK)
            return -1;
        s->took[n++] = now - last;
        last = now;
    }
    qsort(s->took, (size_t)n, sizeof *s->took, perf_by_size);
    return n;
}

/* The least time within which so many of a thousand are done; us. */
static double within(const struct sweep *s, int n, int permille)
{
    return s->took[((long)n * permille + 999) / 1000 - 1] * 1e6;
}

static int measure(struct sweep *s, uint64_t len)
{
    double per_second = rate(s, len), mb, m;
    int n = per_second < 0 ? -1 : latency(s, len);

    if (n < 0)
        return 1;
    mb = per_second * (double)len / 1e6;
    m = per_second / 1e6;
    printf(s->o->json
           ? "{\"op\": \"%s\", \"bytes\": %llu, \"outstanding\": %d, \"MB_s\": %.3f, "
             "\"M_s\": %.6f, \"min_us\": %.3f, \"median_us\": %.3f, \"p99_us\": %.3f, "
             "\"p99_9_us\": %.3f, \"max_us\": %.3f, \"samples\": %d}\n"
           : "%-12s %10llu %5d %12.2f %10.4f %10.2f %10.2f %10.2f %10.2f %10.2f %9d\n",
           perf_op_names[s->o->op], (unsigned long long)len, s->o->outstanding, mb, m,
           s->took[0] * 1e6, within(s, n, 500), within(s, n, 990), within(s, n, 999),
           s->took[n - 1] * 1e6, n);
    fflush(stdout);
    return 0;
}

static int measure_all(struct sweep *s)
{
    uint64_t most = is_atomic(s->o->op) ? sizeof(uint64_t) : s->o->most;

    if (!s->o->json)
        printf("%-12s %10s %5s %12s %10s %10s %10s %10s %10s %10s %9s\n", "", "bytes", "out",
               "MB/s", "million/s", "min, us", "median", "99 %", "99.9 %", "max", "samples");
    for (uint64_t len = is_atomic(s->o->op) ? most : s->o->least; len <= most; len *= 2)
        if (measure(s, len) != 0)
            return 2;
    return 0;
}

/* ---- both processes ---- */

/* A barrier; what rank 0 gives is everybody's. */
static int agree(struct sweep *s, uint64_t *value)
{
    uint64_t all[2];
    int status = s->x->allgather(s->x->ctx, value, sizeof *value, all);

    if (status == LOCO_OK)
        *value = all[0];
    return told("the other process", status);
}

static int open_all(struct sweep *s, const struct loco_bootstrap *from)
{
    uint64_t len = s->o->most > 64 ? s->o->most : 64;
    struct loco_bootstrap boot = *from;
    int status = agree(s, &len);

    if (status != LOCO_OK)
        return status;
    boot.log = loci_log_stderr;
    s->took = calloc(SAMPLES_MOST, sizeof *s->took);
    s->local = calloc(1, len);
    status = s->took == NULL || s->local == NULL ? LOCO_ERR_NO_MEMORY
                                                 : loco_runtime_open(&boot, &s->rt);
    if (status == LOCO_OK)
        status = loco_region_create(s->rt, NULL, "perf", loco_everyone(s->rt), len, &s->region);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(s->rt, LOCO_FOREVER);
    return told("opening", status);
}

int perf_sweep_member(const struct loco_bootstrap *boot, void *arg)
{
    struct sweep s = { .o = arg, .x = &boot->exchange };
    uint64_t status = 2;
    int result = 2;

    if (open_all(&s, boot) == LOCO_OK && agree(&s, &status) == LOCO_OK) {
        status = s.x->rank == 0 ? (uint64_t)measure_all(&s) : 0;
        if (agree(&s, &status) == LOCO_OK)
            result = (int)status;
    }
    loco_region_destroy(s.region);
    loco_runtime_close(s.rt);
    free(s.local);
    free(s.took);
    return result;
}

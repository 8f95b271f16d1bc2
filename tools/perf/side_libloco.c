/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: the rows through libloco, by whatever fabric the environment chooses. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "observe/log.h"
#include "perf.h"

struct side {
    loco_runtime_t *rt;
    loco_ticket_lock_t *lock;
    loco_window_t *win;
    void *large;
    int other;
};

static int told(const char *what, int status)
{
    if (status != LOCO_OK)
        fprintf(stderr, "loco-perf: libloco: %s: %s\n", what, loco_strerror(status));
    return status != LOCO_OK;
}

static void side_close(void *state)
{
    struct side *s = state;

    if (s->win != NULL) {
        (void)loco_window_unlock_all(s->win);
        (void)loco_window_destroy(s->win);
    }
    loco_ticket_lock_destroy(s->lock);
    if (s->rt != NULL)
        loco_runtime_close(s->rt);
    free(s->large);
    free(s);
}

static int side_open(const struct perf_member *m, void **state)
{
    static const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_ALLOCATE, .size = PERF_LARGE, .disp_unit = 1, .one_thread = true,
    };
    struct loco_bootstrap boot = *m->boot;
    struct side *s = calloc(1, sizeof *s);
    int status;

    if (s == NULL || (s->large = calloc(1, PERF_LARGE)) == NULL) {
        free(s);
        return told("memory", LOCO_ERR_NO_MEMORY);
    }
    s->other = 1 - m->rank;
    boot.log = loci_log_stderr;
    status = loco_runtime_open(&boot, &s->rt);
    if (status == LOCO_OK)
        status = loco_ticket_lock_create(s->rt, NULL, "lock", loco_everyone(s->rt), 0, &s->lock);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(s->rt, LOCO_FOREVER);
    if (status == LOCO_OK)
        status = loco_window_create(s->rt, &m->boot->exchange, &spec, &s->win);
    if (status == LOCO_OK)
        status = loco_window_lock_all(s->win, 0);
    if (told("opening", status)) {
        side_close(s);
        return 1;
    }
    *state = s;
    return 0;
}

static int hand_over(struct side *s)
{
    int status = loco_ticket_lock_acquire(s->lock);

    return status != LOCO_OK ? status
           : loco_ticket_lock_release(s->lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static int fetch_add(struct side *s)
{
    const struct loco_span span = { NULL, 0, 8 };
    uint64_t operand = 1, old;
    const struct loco_accumulate acc = {
        .op = LOCO_OP_SUM, .type = LOCO_TYPE_U64, .operand = &operand, .result = &old,
        .spans = &span, .nspans = 1,
    };
    int status = loco_window_accumulate(s->win, s->other, &acc, NULL);

    return status != LOCO_OK ? status : loco_window_flush(s->win, s->other);
}

static int compare_swap(struct side *s, uint64_t i)
{
    uint64_t desired = i + 1, old;
    int status = loco_window_compare_swap(s->win, s->other, LOCO_TYPE_U64, 64, &i, &desired, &old);

    return status != LOCO_OK ? status : loco_window_flush(s->win, s->other);
}

static int fenced_put(struct side *s, const struct loco_span *span)
{
    int status = loco_window_put(s->win, s->other, span, 1, NULL);

    return status != LOCO_OK ? status : loco_fence(s->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

/* `n` transfers, a flush after each `batch`. */
static int move(struct side *s, bool get, void *local, uint64_t len, uint64_t n, uint64_t batch)
{
    const struct loco_span span = { local, 0, len };
    int status = LOCO_OK;

    for (uint64_t i = 0; i < n && status == LOCO_OK; i += batch) {
        for (uint64_t k = 0; k < batch && status == LOCO_OK; k++)
            status = get ? loco_window_get(s->win, s->other, &span, 1, NULL)
                         : loco_window_put(s->win, s->other, &span, 1, NULL);
        if (status == LOCO_OK)
            status = loco_window_flush(s->win, s->other);
    }
    return status;
}

static int side_run(void *state, enum perf_row row, uint64_t n)
{
    struct side *s = state;
    uint64_t word = 0;
    const struct loco_span span = { &word, 0, sizeof word };
    int status = LOCO_OK;

    switch (row) {
    case PERF_PUT: case PERF_PUT_RATE:
        return told("put", move(s, false, &word, sizeof word, n, perf_batch(row)));
    case PERF_GET: return told("get", move(s, true, &word, sizeof word, n, 1));
    case PERF_PUT_LARGE:
        return told("put", move(s, false, s->large, PERF_LARGE, n, perf_batch(row)));
    case PERF_GET_LARGE:
        return told("get", move(s, true, s->large, PERF_LARGE, n, perf_batch(row)));
    default: break;
    }
    for (uint64_t i = 0; i < n && status == LOCO_OK; i++)
        status = row == PERF_HAND_OVER ? hand_over(s)
                 : row == PERF_FETCH_ADD ? fetch_add(s)
                 : row == PERF_COMPARE_SWAP ? compare_swap(s, i) : fenced_put(s, &span);
    return told("a call", status);
}

const struct perf_side perf_libloco = { side_open, side_run, side_close };

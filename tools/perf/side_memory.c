/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: the raw operations on memory that two processes share. */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

struct side {
    _Atomic uint64_t *word, *turn;
    unsigned char *shared;
    unsigned char *large;
    uint64_t handed;
    int rank;
};

static int side_open(const struct perf_member *m, void **state)
{
    struct side *s = calloc(1, sizeof *s);

    if (s == NULL || (s->large = calloc(1, PERF_LARGE)) == NULL) {
        free(s);
        perror("loco-perf: raw: memory");
        return 1;
    }
    s->shared = (unsigned char *)m->shared + PERF_LARGE;
    s->word = m->shared;
    s->turn = s->word + 16;
    s->rank = m->rank;
    *state = s;
    return 0;
}

static void side_close(void *state)
{
    struct side *s = state;

    free(s->large);
    free(s);
}

/* The word goes back and forth; each process's turn comes n times. */
static int hand_over(struct side *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++, s->handed++) {
        uint64_t mine = 2 * s->handed + (uint64_t)s->rank;

        if (perf_wait_turn(s->turn, mine) != 0)
            return 1;
        atomic_store_explicit(s->turn, mine + 1, memory_order_release);
    }
    return 0;
}

/* The compiler must not think that a copy has no effect, or move it. */
static void barrier(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    __asm__ volatile("" ::: "memory");
}

static int side_run(void *state, enum perf_row row, uint64_t n)
{
    struct side *s = state;
    uint64_t expected;

    if (row == PERF_HAND_OVER)
        return hand_over(s, n);
    for (uint64_t i = 0; i < n; i++) {
        switch (row) {
        case PERF_GET: (void)atomic_load_explicit(s->word, memory_order_acquire); break;
        case PERF_FETCH_ADD: atomic_fetch_add(s->word, 1); break;
        case PERF_COMPARE_SWAP:
            expected = i;
            atomic_compare_exchange_strong(s->word + 8, &expected, i + 1);
            break;
        case PERF_FENCE: atomic_store(s->word, i); break;
        case PERF_PUT_LARGE: memcpy(s->shared, s->large, PERF_LARGE); break;
        case PERF_GET_LARGE: memcpy(s->large, s->shared, PERF_LARGE); break;
        default: atomic_store_explicit(s->word, i, memory_order_release); break;
        }
        barrier();
    }
    return 0;
}

const struct perf_side perf_memory = { side_open, side_run, side_close };

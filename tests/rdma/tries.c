/* SPDX-License-Identifier: BSD-3-Clause */

/* Case of `contract`, by name: many threads of one member change one word of another's by swaps,
 * each from what it last saw, and pause after those that fail (backoff.h) unless TRIES_PAUSES=none.
 * It says how many swaps a change takes. */

#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "world.h"

enum { THREADS = 16, EACH = 12, AT = 256 };

struct changer {
    struct world *w;
    pthread_barrier_t *begin;
    bool pauses;
    uint64_t swaps, reads;
    int status;
};

static int change(struct changer *c, struct loci_mem *mem)
{
    uint64_t seen, old;
    struct loci_backoff b;
    int status = loci_read64(c->w->rt, mem, AT, &seen, NULL);

    c->reads++;
    for (loci_backoff_begin(&b, c->w->rt, mem); status == LOCO_OK;) {
        status = loci_compare_swap(c->w->rt, mem, AT, seen, seen + 1, &old, NULL);
        c->swaps++;
        if (status != LOCO_OK || old == seen)
            break;
        seen = old;
        if (c->pauses) {
            loci_backoff_pause(&b);
            status = loci_read64(c->w->rt, mem, AT, &seen, NULL);
            c->reads++;
        }
    }
    return status;
}

static void *change_many(void *arg)
{
    struct changer *c = arg;
    struct loci_mem *mem = &c->w->pools[next_of(c->w)];

    pthread_barrier_wait(c->begin);
    for (int i = 0; i < EACH && c->status == LOCO_OK; i++)
        c->status = change(c, mem);
    return NULL;
}

static int change_all(struct world *w)
{
    const char *pauses = getenv("TRIES_PAUSES");
    pthread_barrier_t begin;
    pthread_t thread[THREADS];
    struct changer c[THREADS];
    uint64_t swaps = 0, reads = 0, value;

    pthread_barrier_init(&begin, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct changer){
            .w = w, .begin = &begin, .pauses = pauses == NULL || strcmp(pauses, "none") != 0,
        };
        CHECK(pthread_create(&thread[i], NULL, change_many, &c[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CHECK_OK(c[i].status);
        swaps += c[i].swaps;
        reads += c[i].reads;
    }
    pthread_barrier_destroy(&begin);
    CHECK_OK(loci_read64(w->rt, &w->pools[next_of(w)], AT, &value, NULL));
    CHECK_EQ(value, THREADS * EACH);
    printf("# %.2f swaps and %.2f reads for a change\n", (double)swaps / (THREADS * EACH),
           (double)reads / (THREADS * EACH));
    return 0;
}

int tries(struct member *m)
{
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank == 0)
        memset((unsigned char *)loci_mem_ptr(&w.pool) + AT, 0, sizeof(uint64_t));
    CHECK_OK(together(&w));
    if (m->rank == 1)
        CHECK(change_all(&w) == 0);
    CHECK_OK(together(&w));
    return leave(&w);
}

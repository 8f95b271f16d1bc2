/* SPDX-License-Identifier: BSD-3-Clause */

/* Case of `contract`, by name: threads of one member, or of both (TRIES_OF=1 or 2), 16 in all,
 * change one word by swaps, each from what it last saw, and pause after those that fail (backoff.h)
 * unless TRIES_PAUSES=none. It says how many swaps and reads a change takes, and fails where swaps
 * are more than TRIES_MOST hundredths of the changes. */

#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "world.h"

enum { THREADS = 16, EACH = 12, WORD = 256, SWAPS = 264, READS = 272 };

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
    int status = loci_read64(c->w->rt, mem, WORD, &seen, NULL);

    c->reads++;
    for (loci_backoff_begin(&b, c->w->rt, mem); status == LOCO_OK;) {
        status = loci_compare_swap(c->w->rt, mem, WORD, seen, seen + 1, &old, NULL);
        c->swaps++;
        if (status != LOCO_OK || old == seen)
            break;
        seen = old;
        if (c->pauses) {
            loci_backoff_pause(&b);
            status = loci_read64(c->w->rt, mem, WORD, &seen, NULL);
            c->reads++;
        }
    }
    return status;
}

static void *change_many(void *arg)
{
    struct changer *c = arg;
    uint64_t old;

    pthread_barrier_wait(c->begin);
    for (int i = 0; i < EACH && c->status == LOCO_OK; i++)
        c->status = change(c, &c->w->pools[0]);
    if (c->status == LOCO_OK)
        c->status = loci_fetch_add(c->w->rt, &c->w->pools[0], SWAPS, c->swaps, &old, NULL);
    if (c->status == LOCO_OK)
        c->status = loci_fetch_add(c->w->rt, &c->w->pools[0], READS, c->reads, &old, NULL);
    return NULL;
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? atoi(text) : otherwise;
}

static int change_all(struct world *w, int threads)
{
    const char *pauses = getenv("TRIES_PAUSES");
    pthread_barrier_t begin;
    pthread_t thread[THREADS];
    struct changer c[THREADS];

    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        c[i] = (struct changer){
            .w = w, .begin = &begin, .pauses = pauses == NULL || strcmp(pauses, "none") != 0,
        };
        CHECK(pthread_create(&thread[i], NULL, change_many, &c[i]) == 0);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        CHECK_OK(c[i].status);
    }
    pthread_barrier_destroy(&begin);
    return 0;
}

static int tell(struct world *w)
{
    const unsigned char *mine = loci_mem_ptr(&w->pool);
    uint64_t changes = THREADS * EACH, swaps = loci_load64(mine + SWAPS);
    uint64_t reads = loci_load64(mine + READS);

    CHECK_EQ(loci_load64(mine + WORD), changes);
    printf("# %.2f swaps and %.2f reads for a change\n", (double)swaps / (double)changes,
           (double)reads / (double)changes);
    CHECK(swaps * 100 <= (uint64_t)setting("TRIES_MOST", 100 * THREADS) * changes);
    return 0;
}

int tries(struct member *m)
{
    struct world w;
    int of = setting("TRIES_OF", 1);

    CHECK(m->n == 2 && (of == 1 || of == 2));
    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank == 0)
        memset((unsigned char *)loci_mem_ptr(&w.pool) + WORD, 0, 3 * sizeof(uint64_t));
    CHECK_OK(together(&w));
    if (m->rank == 1 || of == 2)
        CHECK(change_all(&w, THREADS / of) == 0);
    CHECK_OK(together(&w));
    if (m->rank == 0)
        CHECK(tell(&w) == 0);
    return leave(&w);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* A case of `contract`: a peer's address is not found for seconds (tests/rdma/late_address.c). Who
 * connects to this process by it waits; messages to it, by which channels are made, do not. */

#include "config.h"

#include <loco/barrier.h>
#include <stdio.h>

#include "world.h"

enum { CONNECTS, TALKS };

#define AT_LEAST INT64_C(2000000000)    /* ns: the answers that are lost */
#define MEANWHILE 6                     /* channels, which take a tenth of a second each here */

struct strangers {
    struct world *w;
    _Atomic int connected;
    int64_t took, longest;
    int made;                   /* while somebody was still connecting */
};

/* The first that this thread writes to the next member. */
static int connects(struct strangers *s)
{
    struct world *w = s->w;
    int64_t begin = run_now();

    CHECK_OK(loci_write64(w->rt, &w->pools[next_of(w)], 8, 7, NULL));
    s->took = run_now() - begin;
    CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_THREAD, w->pools[next_of(w)].peer));
    atomic_store(&s->connected, 1);
    return 0;
}

/* Channels of all, which take messages both ways and no data. */
static int talks(struct strangers *s)
{
    loco_runtime_t *rt = s->w->rt;
    bool all = false;

    while (!all) {
        int64_t begin = run_now(), took;
        loco_barrier_t *barrier;
        int connected = atomic_load(&s->connected), each[PEERS];

        CHECK_OK(loco_barrier_create(rt, NULL, "talk", loco_everyone(rt), &barrier));
        CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
        took = run_now() - begin;
        s->longest = took > s->longest ? took : s->longest;
        CHECK_OK(s->w->m->exchange.allgather(s->w->m->exchange.ctx, &connected, sizeof connected,
                                             each));
        loco_barrier_destroy(barrier);
        all = true;
        for (int i = 0; i < s->w->m->n; i++)
            all = all && each[i] != 0;
        s->made += !all;
    }
    return 0;
}

static int part(void *arg, int thread)
{
    return thread == CONNECTS ? connects(arg) : talks(arg);
}

int strangers(struct member *m)
{
    struct world w;
    struct strangers s = { .w = &w };

    CHECK(enter(&w, m, LEN) == 0);
    CHECK(run_threads(2, part, &s) == 0);
    printf("# connected after %.2f s; meanwhile %d channels, the slowest in %.3f s\n",
           (double)s.took / 1e9, s.made, (double)s.longest / 1e9);
    if (!w.rt->ops->synchronous) {
        CHECK(s.took > AT_LEAST);
        CHECK(s.made >= MEANWHILE);
    }
    return leave(&w);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* A case of `contract`: what a peer's device refuses, which only a device does, fails, is told to
 * who has to know, and all goes on. */

#include "config.h"

#include <string.h>

#include "world.h"
#ifdef LOCO_HAVE_VERBS
#include "fabric/verbs/verbs.h"
#endif

#define BESIDE 2                /* threads: one is refused things, one is not */

struct mended {
    struct world *w;
    _Atomic int over;
};

/* What no device of that peer knows. */
static struct loci_mem forge(const struct loci_mem *mem)
{
    struct loci_mem forged = *mem;

    forged.key.device ^= 0x5a00;
    return forged;
}

/* Queue pairs of this process that answer others. */
static int ends(const struct world *w)
{
    int n = 0;

#ifdef LOCO_HAVE_VERBS
    if (w->rt->ops == &loci_fabric_verbs || w->rt->ops == &loci_fabric_verbs_and_shm) {
        struct verbs_fabric *f = verbs_of(w->rt->fabric);

        pthread_mutex_lock(&f->lock);
        for (const struct verbs_end *end = f->ends; end != NULL; end = end->next)
            n++;
        pthread_mutex_unlock(&f->lock);
    }
#else
    (void)w;
#endif
    return n;
}

/* A read loses nothing: the next operation is done. */
static int refuse_read(struct world *w, uint64_t i)
{
    struct loci_mem *to = &w->users[next_of(w)], forged = forge(to);
    uint64_t word = 77;

    CHECK_EQ(loci_read64(w->rt, &forged, 64, &word, NULL), LOCO_ERR_RANGE);
    CHECK_EQ(word, 77);
    CHECK_OK(loci_write64(w->rt, to, 64, i, NULL));
    CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_THREAD, to->peer));
    CHECK_OK(loci_read64(w->rt, to, 64, &word, NULL));
    CHECK_EQ(word, i);
    return 0;
}

/* Nobody waits for a write: what is lost with it, a fence says. What was before it is there, what
 * came behind it is not. Until the fence has spoken nothing is done. */
static int refuse_write(struct world *w, uint64_t i)
{
    struct loci_mem *to = &w->users[next_of(w)], forged = forge(to);
    uint64_t word = 0;
    int status;

    CHECK_OK(loci_write64(w->rt, to, 128, i, NULL));
    CHECK_OK(loci_write64(w->rt, &forged, 192, i, NULL));
    for (int behind = 0; behind < 3; behind++) {
        status = loci_write64(w->rt, to, 192, i, NULL);
        CHECK(status == LOCO_OK || status == LOCO_ERR_RANGE);
    }
    CHECK_EQ(loci_read64(w->rt, to, 128, &word, NULL), LOCO_ERR_RANGE);
    CHECK_EQ(loci_read64(w->rt, to, 128, &word, NULL), LOCO_ERR_RANGE);
    CHECK_EQ(loci_fence_peer(w->rt, LOCO_FENCE_PAIR, to->peer), LOCO_ERR_RANGE);
    CHECK_OK(loci_read64(w->rt, to, 128, &word, NULL));
    CHECK_EQ(word, i);
    CHECK_OK(loci_read64(w->rt, to, 192, &word, NULL));
    CHECK_EQ(word, 0);
    CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_PAIR, to->peer));
    return 0;
}

/* No slot remembers what another operation has failed at in it. */
static int use_all_slots(struct world *w)
{
    struct loci_mem *to = &w->users[next_of(w)];
    uint64_t word;

    for (int i = 0; i < LOCI_SLOTS; i++)
        CHECK_OK(loci_read64(w->rt, to, 128, &word, NULL));
    return 0;
}

/* Through a lane of its own, which has nothing to do with the other; but it fences for both. */
static int go_on(struct world *w, _Atomic int *over)
{
    struct loci_mem *to = &w->users[next_of(w)];
    uint64_t word;
    int status;

    for (uint64_t i = 1; atomic_load(over) == 0 || i < 10; i++) {
        CHECK_OK(loci_write64(w->rt, to, 256, i, NULL));
        status = loci_fence_peer(w->rt, LOCO_FENCE_PROCESS, to->peer);
        CHECK(status == LOCO_OK || status == LOCO_ERR_RANGE);
        CHECK_OK(loci_read64(w->rt, to, 256, &word, NULL));
        CHECK_EQ(word, i);
    }
    return 0;
}

static int one_of_two(void *arg, int thread)
{
    struct mended *t = arg;
    int failed = 0;

    if (thread == 1)
        return go_on(t->w, &t->over);
    for (uint64_t i = 1; failed == 0 && i <= (uint64_t)run_rounds(30); i++)
        failed = refuse_read(t->w, i) != 0 || refuse_write(t->w, i) != 0;
    atomic_store(&t->over, 1);
    return failed == 0 ? use_all_slots(t->w) : failed;
}

int mended(struct member *m)
{
    struct world w;
    struct mended t = { .w = &w };
    int before;

    CHECK(enter(&w, m, LEN) == 0);
    if (w.rt->ops->lane_mend == NULL)
        return leave(&w);
    CHECK(refuse_read(&w, 1000) == 0);
    CHECK(refuse_write(&w, 1000) == 0);
    CHECK_OK(together(&w));
    before = ends(&w);
    CHECK(run_threads(BESIDE, one_of_two, &t) == 0);
    CHECK_OK(together(&w));
    /* Of either kind of queue pair a lane may have: those of the two threads. */
    CHECK(ends(&w) <= before * (1 + BESIDE));
    return leave(&w);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Cases of `contract`: what a peer's device refuses, or one's own, which only a device does, fails,
 * is told to who has to know, and all goes on. */

#include "config.h"

#include <string.h>

#include "world.h"

#define BESIDE 2                /* threads: one is refused things, one is not */

struct mended {
    struct world *w;
    _Atomic int over, refused;
};

/* A read loses nothing, and what was written before it is there; so is what comes behind it, once
 * its failure is known. */
static int refuse_read(struct world *w, uint64_t i)
{
    struct loci_mem *to = &w->users[next_of(w)], forged = forge(to);
    uint64_t word = 77;

    CHECK_OK(loci_write64(w->rt, to, 64, i, NULL));
    CHECK_EQ(loci_read64(w->rt, &forged, 64, &word, NULL), LOCO_ERR_RANGE);
    CHECK_EQ(word, 77);
    if (i % 2 == 0)
        CHECK_OK(loci_write64(w->rt, to, 128, i, NULL));
    CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_THREAD, to->peer));
    CHECK_OK(loci_read64(w->rt, to, 64, &word, NULL));
    CHECK_EQ(word, i);
    CHECK_OK(loci_read64(w->rt, to, 128, &word, NULL));
    CHECK_EQ(word, i - i % 2);
    return 0;
}

/* An atomic, and a read behind it, which places as well. It fails, too, unless the other's failure
 * is known before it is posted. */
static int refuse_atomic(struct world *w, uint64_t i)
{
    struct loci_mem *to = &w->users[next_of(w)], forged = forge(to);
    loco_ack_t first = LOCO_ACK_INIT, second = LOCO_ACK_INIT;
    uint64_t word, old = 77;
    int status;

    CHECK_OK(loci_write64(w->rt, to, 192, i, NULL));
    CHECK(loci_fetch_add(w->rt, &forged, 64, 1, &old, &first) >= 0);
    status = loci_read64(w->rt, to, 192, &word, &second);
    CHECK_EQ(loco_ack_wait(w->rt, &first), LOCO_ERR_RANGE);
    if (status >= 0)
        status = loco_ack_wait(w->rt, &second);
    CHECK(status == LOCO_ERR_RANGE || (status == LOCO_OK && word == i));
    CHECK_EQ(old, 77);
    CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_PAIR, to->peer));
    CHECK_OK(loci_read64(w->rt, to, 192, &word, NULL));
    CHECK_EQ(word, i);
    return 0;
}

/* Nobody waits for a write: what is lost with it the next fence says, and until then nothing is
 * done any more. What was before it is there, what came behind it is not. */
static int refuse_write(struct world *w)
{
    struct loci_mem *to = &w->users[next_of(w)], forged = forge(to);
    uint64_t word = 0;
    int status;

    CHECK_OK(loci_write64(w->rt, to, 320, 1, NULL));
    CHECK_OK(loci_write64(w->rt, &forged, 384, 1, NULL));
    for (int behind = 0; behind < 3; behind++) {
        status = loci_write64(w->rt, to, 384, 1, NULL);
        CHECK(status == LOCO_OK || status == LOCO_ERR_RANGE);
    }
    if (status == LOCO_ERR_RANGE) {
        CHECK_EQ(loci_read64(w->rt, to, 320, &word, NULL), LOCO_ERR_RANGE);
        CHECK_EQ(loci_write64(w->rt, to, 384, 2, NULL), LOCO_ERR_RANGE);
    }
    CHECK_EQ(loci_fence_peer(w->rt, LOCO_FENCE_PAIR, to->peer), LOCO_ERR_RANGE);
    CHECK_OK(loci_read64(w->rt, to, 320, &word, NULL));
    CHECK_EQ(word, 1);
    CHECK_OK(loci_read64(w->rt, to, 384, &word, NULL));
    CHECK_EQ(word, 0);
    CHECK_OK(loci_write64(w->rt, to, 320, 2, NULL));
    CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_PROCESS, to->peer));
    CHECK_OK(together(w));
    CHECK_EQ(loci_load64(loci_mem_ptr(&w->user) + 320), 2);
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

/* What has failed is told, though another operation has had the slot since, and failed, too. */
static int fail_twice(struct world *w)
{
    struct loci_mem *to = &w->users[next_of(w)], forged = forge(to);
    struct loci_thread *self = loci_self(w->rt);
    loco_ack_t first = LOCO_ACK_INIT;
    uint64_t word, not_read = 77;
    unsigned slot;

    CHECK_OK(loci_read64(w->rt, to, 128, &word, NULL));
    CHECK(loci_read64(w->rt, &forged, 64, &not_read, &first) >= 0);
    slot = (self->next_slot + LOCI_SLOTS - 1) % LOCI_SLOTS;
    while (atomic_load(&self->slot[slot].seq) != 0)
        CHECK(loci_lane_poll(self->slot[slot].lane) >= 0);
    do
        CHECK_OK(loci_read64(w->rt, to, 128, &word, NULL));
    while (self->next_slot % LOCI_SLOTS != slot);
    CHECK_EQ(loci_read64(w->rt, &forged, 64, &word, NULL), LOCO_ERR_RANGE);
    CHECK_EQ(loco_ack_wait(w->rt, &first), LOCO_ERR_RANGE);
    CHECK_EQ(not_read, 77);
    return 0;
}

/* A thread that has been refused a read does nothing more: others fence for it. */
static int refuse_and_rest(void *arg, int thread)
{
    struct mended *t = arg;
    struct loci_mem *to = &t->w->users[next_of(t->w)], forged = forge(to);
    uint64_t word = 77;

    if (thread == 1) {
        CHECK_OK(loci_write64(t->w->rt, to, 448, 5, NULL));
        CHECK_EQ(loci_read64(t->w->rt, &forged, 64, &word, NULL), LOCO_ERR_RANGE);
        atomic_store(&t->refused, 1);
        return run_await(&t->over, 1);
    }
    CHECK_OK(run_await(&t->refused, 1));
    for (int i = 0; i < 3; i++)
        CHECK_OK(loci_fence_peer(t->w->rt, LOCO_FENCE_PROCESS, to->peer));
    CHECK_OK(loci_read64(t->w->rt, to, 448, &word, NULL));
    CHECK_EQ(word, 5);
    atomic_store(&t->over, 1);
    return 0;
}

/* Through a lane of its own, which has nothing to do with the other; but it fences for both, and
 * may be told that the other's has failed. */
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
        failed = refuse_read(t->w, i) != 0 || refuse_atomic(t->w, i) != 0;
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
    CHECK(refuse_read(&w, 1) == 0);
    CHECK(refuse_atomic(&w, 1) == 0);
    CHECK(fail_twice(&w) == 0);
    CHECK_OK(together(&w));
    before = ends_held(&w);
    CHECK(run_threads(BESIDE, one_of_two, &t) == 0);
    CHECK_OK(together(&w));
    /* Of either kind of queue pair a lane may have: those of the two threads. */
    CHECK(ends_held(&w) <= before * (1 + BESIDE));
    atomic_store(&t.over, 0);
    CHECK(run_threads(BESIDE, refuse_and_rest, &t) == 0);
    CHECK_OK(together(&w));
    for (int i = 0; i < 3; i++) {
        CHECK(refuse_write(&w) == 0);
        CHECK_OK(loci_write64(w.rt, &w.users[next_of(&w)], 384, 0, NULL));
        CHECK_OK(together(&w));
    }
    return leave(&w);
}

/* A device that takes no long write, and does not say that it has not begun: its poster is told,
 * and so is its fence, for writes are lost. Others go on. (That the registration goes once,
 * no more, only a checked allocator would show.) */
int unnamed(struct member *m)
{
    uint64_t value = 1;
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank == 0) {
        const void *data = (const void *)(uintptr_t)w.user.key.base;

        CHECK_EQ(loci_write(w.rt, &w.users[1], 0, data, LEN, NULL), LOCO_ERR_SYSTEM);
        CHECK_EQ(loci_write(w.rt, &w.users[1], 0, data, LEN, NULL), LOCO_ERR_SYSTEM);
        CHECK_EQ(loci_fence_peer(w.rt, LOCO_FENCE_PAIR, w.users[1].peer), LOCO_ERR_SYSTEM);
    }
    CHECK_OK(together(&w));
    if (m->rank == 1) {
        CHECK_OK(loci_read64(w.rt, &w.users[0], 0, &value, NULL));
        CHECK_EQ(value, 0);
    }
    return leave(&w);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Case of `contract`: what places writes. By acknowledgements their own completions do, however
 * long they are and however they are posted, and a fence posts nothing; else nothing does before
 * the fence's read. */

#include "config.h"

#include <string.h>

#include "runtime.h"
#include "world.h"

static uint64_t now(const _Atomic uint64_t *count)
{
    return atomic_load(count);
}

/* Where memory is mapped there are no writes to count. */
static int fence_places(struct world *w, int peer, bool by_themselves)
{
    struct loci_lane *lane;
    int status = LOCO_OK;

    if (!w->rt->ops->synchronous) {
        lane = loci_lane(loci_self(w->rt), peer, &status);
        CHECK(lane != NULL);
        CHECK(now(&lane->placing) <= now(&lane->written));
        CHECK(now(&lane->placed) <= now(&lane->placing));
        CHECK_EQ(now(&lane->placing) == now(&lane->written), by_themselves);
        CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_PAIR, peer));
        CHECK_EQ(now(&lane->placed), now(&lane->written));
    }
    return 0;
}

int placed(struct member *m)
{
    static const size_t sizes[] = { 8, 220, 1000, 40000 };    /* inline, buffered, long */
    static unsigned char data[40000], back[40000];
    bool by_acks;
    struct loci_op ops[3];
    struct loci_mem *to;
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    to = &w.users[next_of(&w)];
    by_acks = w.rt->tunables.rdma_place == LOCI_RDMA_PLACE_ACK;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(data, (int)i + 1, sizes[i]);
        CHECK_OK(loci_write(w.rt, to, 0, data, sizes[i], NULL));
        CHECK(fence_places(&w, to->peer, by_acks) == 0);
        CHECK_OK(loci_read(w.rt, to, 0, back, sizes[i], NULL));
        CHECK(memcmp(data, back, sizes[i]) == 0);
    }
    for (int i = 0; i < 3; i++)
        ops[i] = (struct loci_op){ .kind = LOCI_WRITE, .mem = to, .offset = 64 * (uint64_t)i,
                                   .local = data, .len = 8 };
    CHECK_OK(loci_post_spans(w.rt, ops, 3, NULL));
    CHECK(fence_places(&w, to->peer, by_acks) == 0);
    ops[2].len = 0;             /* has no completion */
    CHECK_OK(loci_post_spans(w.rt, ops, 3, NULL));
    CHECK(fence_places(&w, to->peer, false) == 0);
    CHECK_OK(together(&w));
    return leave(&w);
}

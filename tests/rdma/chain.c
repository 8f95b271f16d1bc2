/* SPDX-License-Identifier: BSD-3-Clause */

/* Cases of `contract`: chains, which are many operations handed over at once. */

#include "config.h"

#include <string.h>

#include "world.h"

static struct loci_op move_op(enum loci_op_kind kind, struct loci_mem *mem, uint64_t offset,
                              void *local, size_t len)
{
    return (struct loci_op){ .kind = kind, .mem = mem, .offset = offset, .local = local,
                             .len = len };
}

static struct loci_op add_op(struct loci_mem *mem, uint64_t offset, uint64_t add, uint64_t *old)
{
    return (struct loci_op){ .kind = LOCI_FETCH_ADD, .mem = mem, .offset = offset, .len = 8,
                             .operand = add, .result = old };
}

static struct loci_op swap_op(struct loci_mem *mem, uint64_t offset, uint64_t expected,
                              uint64_t desired, uint64_t *old)
{
    return (struct loci_op){ .kind = LOCI_COMPARE_SWAP, .mem = mem, .offset = offset, .len = 8,
                             .compare = expected, .operand = desired, .result = old };
}

#define LINKS 600               /* more than there are slots, or requests of a lane */

/* Longer than all room there is: short writes, some through buffers, then as many reads. */
static int long_chain(struct world *w)
{
    static unsigned char data[LINKS][16], back[LINKS][16], block[8][1000];
    static struct loci_op ops[LINKS];
    struct loci_mem *to = &w->users[next_of(w)];
    loco_ack_t ack = LOCO_ACK_INIT;

    for (int i = 0; i < 8; i++)
        memset(block[i], 100 + i, sizeof block[i]);
    for (size_t i = 0; i < LINKS; i++) {
        memset(data[i], (int)(i * 3 + (size_t)w->m->rank), sizeof data[i]);
        ops[i] = i % 7 == 3 ? move_op(LOCI_WRITE, to, 32768 + i % 8 * 1000, block[i % 8], 1000)
                            : move_op(LOCI_WRITE, to, i * 16, data[i], 16);
    }
    CHECK_OK(loci_post_spans(w->rt, ops, LINKS, &ack));
    CHECK_OK(loco_ack_wait(w->rt, &ack));
    for (size_t i = 0; i < LINKS; i++)
        ops[i] = move_op(LOCI_READ, to, i * 16, back[i], 16);
    CHECK_OK(loci_post_spans(w->rt, ops, LINKS, NULL));
    for (size_t i = 0; i < LINKS; i++)
        for (size_t j = 0; j < 16; j++)
            CHECK_EQ(back[i][j], i % 7 == 3 ? 0 : data[i][j]);
    CHECK_OK(loci_read(w->rt, to, 32768, back, 8000, NULL));
    CHECK(memcmp(back, block, 8000) == 0);
    return together(w);
}

/* Everything there is in one chain: short and long, some of it nothing at all. What comes later
 * finds what came before, by the rules of a queue pair: reads and atomics what was written,
 * atomics what atomics did. */
static int mixed_chain(struct world *w, uint64_t round)
{
    static unsigned char large[40000], back[40000], little[300], block[300];
    struct loci_mem *pool = &w->pools[next_of(w)], *user = &w->users[next_of(w)];
    uint64_t at = 1024 + 64 * round, base = round << 8, last = 0, word = 0, none = 0, old[4];
    struct loci_op ops[] = {
        move_op(LOCI_WRITE, user, at, &base, 8), move_op(LOCI_WRITE, pool, at, &base, 8),
        add_op(pool, at, 3, &old[0]), move_op(LOCI_WRITE, user, 20000, large, sizeof large),
        add_op(pool, at, 4, &old[1]), move_op(LOCI_WRITE, user, 16, &none, 0),
        swap_op(pool, at, base + 7, base + 9, &old[2]), move_op(LOCI_READ, user, 16, &none, 0),
        swap_op(pool, at, base + 7, base + 11, &old[3]), move_op(LOCI_READ, pool, at, &last, 8),
        move_op(LOCI_READ, user, 20000, back, sizeof back),
        move_op(LOCI_WRITE, user, 16384, block, sizeof block),
        { .kind = LOCI_PLACE, .mem = user }, move_op(LOCI_READ, user, at, &word, 8),
        move_op(LOCI_READ, user, 16384, little, sizeof little),
    };

    for (size_t i = 0; i < sizeof large; i++)
        large[i] = pattern(i, (int)round);
    memset(block, (int)round + 1, sizeof block);
    CHECK_OK(loci_post_spans(w->rt, ops, sizeof ops / sizeof ops[0], NULL));
    CHECK_EQ(old[0], base);
    CHECK_EQ(old[1], base + 3);
    CHECK_EQ(old[2], base + 7);
    CHECK_EQ(old[3], base + 9);
    CHECK_EQ(last, base + 9);
    CHECK_EQ(word, base);
    CHECK(memcmp(back, large, sizeof large) == 0 && memcmp(little, block, sizeof block) == 0);
    return 0;
}

/* Atomics of all members on the same words. */
static int chain_of_atomics(struct world *w)
{
    struct loci_op ops[LINKS / 4];
    uint64_t old[LINKS / 4], sum;
    const int n = (int)(sizeof ops / sizeof ops[0]), rounds = run_rounds(20);

    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < n; i++)
            ops[i] = add_op(&w->pools[0], 49152 + (uint64_t)i % 50 * 8, 1, &old[i]);
        CHECK_OK(loci_post_spans(w->rt, ops, n, NULL));
        for (int i = 50; i < n; i++)
            CHECK(old[i] > old[i - 50]);
    }
    CHECK_OK(together(w));
    for (uint64_t i = 0; i < 50; i++) {
        CHECK_OK(loci_read64(w->rt, &w->pools[0], 49152 + i * 8, &sum, NULL));
        CHECK_EQ(sum, rounds * w->m->n * (n / 50));
    }
    return 0;
}

int chains(struct member *m)
{
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    CHECK(long_chain(&w) == 0);
    for (uint64_t i = 0; i < (uint64_t)run_rounds(20); i++)
        CHECK(mixed_chain(&w, i) == 0);
    CHECK(chain_of_atomics(&w) == 0);
    return leave(&w);
}

/* An operation in the middle that cannot be posted: what comes behind it is not done, what comes
 * before it is where the fabric takes them one by one, and all goes on. */
int chain_broken(struct member *m)
{
    struct world w;
    struct loci_mem nowhere, *to;
    uint64_t value[40], word;
    struct loci_op ops[40];

    CHECK(enter(&w, m, LEN) == 0);
    if (!w.rt->ops->synchronous && !by_device(&w))
        return leave(&w);       /* all can be posted; what is refused later: below */
    to = &w.users[next_of(&w)];
    nowhere = *to;
    nowhere.key.base = 4096;
    nowhere.key.device = 0;
    for (uint64_t i = 0; i < 40; i++) {
        value[i] = i + 1;
        ops[i] = move_op(LOCI_WRITE, i == 25 ? &nowhere : to, 8 * i, &value[i], 8);
    }
    CHECK(loci_post_spans(w.rt, ops, 40, NULL) < 0);
    CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_PAIR, to->peer));
    CHECK_OK(together(&w));
    for (uint64_t i = 0; i < 40; i++) {
        word = loci_load64(loci_mem_ptr(&w.user) + 8 * i);
        CHECK(i < 25 ? word == i + 1 || w.rt->ops->synchronous : word == 0);
    }
    CHECK_OK(together(&w));
    CHECK_OK(loci_post_spans(w.rt, ops, 25, NULL));
    CHECK_OK(loci_read64(w.rt, to, 8 * 24, &word, NULL));
    CHECK_EQ(word, 25);
    return leave(&w);
}

/* One in the middle that the peer's device refuses, which only a device does: those before it are
 * done, those behind it fail, and each is told once. What is posted after that is done. */
int chain_refused(struct member *m)
{
    struct world w;
    struct loci_mem forged;
    struct loci_op ops[20];
    uint64_t old[20];

    CHECK(enter(&w, m, LEN) == 0);
    if (w.rt->ops->synchronous)
        return leave(&w);
    forged = forge(&w.pools[next_of(&w)]);
    for (int i = 0; i < 20; i++) {
        old[i] = 77;
        ops[i] = add_op(i == 8 ? &forged : &w.pools[next_of(&w)], 64, 1, &old[i]);
    }
    CHECK_EQ(loci_post_spans(w.rt, ops, 16, NULL), LOCO_ERR_RANGE);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(old[i], i < 8 ? i : 77);
    CHECK_OK(loci_post_spans(w.rt, ops + 16, 4, NULL));
    for (int i = 16; i < 20; i++)
        CHECK_EQ(old[i], i - 8);
    CHECK_OK(together(&w));
    CHECK_EQ(loci_load64(loci_mem_ptr(&w.pool) + 64), 12);
    for (int i = 0; i < LOCI_SLOTS; i++)
        CHECK_EQ(atomic_load(&loci_self(w.rt)->slot[i].seq), 0);
    return leave(&w);
}

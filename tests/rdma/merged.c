/* SPDX-License-Identifier: BSD-3-Clause */

/* Case of `contract`: writes that merge. Everybody merges into the same words of the first member,
 * beside atomics of all, the owner's own too, and none is lost; a later atomic of the lane comes
 * behind them; a fence places them. A fabric that does not take them says so of all memory. */

#include "config.h"

#include <string.h>

#include "runtime.h"
#include "world.h"

#define MERGES run_rounds(600)
#define HOW_ADD 1u
#define HOW_XOR 2u
enum { SHARED = 0, MIXED = 1024, OWN = 4096 };      /* offsets: vectors; a word; one for each */

static bool merge_words(uint32_t how, void *words, const void *operands, size_t n)
{
    _Atomic uint64_t *to = words;
    const unsigned char *from = operands;

    for (size_t i = 0; i < n; i++) {
        uint64_t operand;

        memcpy(&operand, from + 8 * i, sizeof operand);
        if (how == HOW_ADD)
            atomic_fetch_add(&to[i], operand);
        else
            atomic_fetch_xor(&to[i], operand);
    }
    return how == HOW_ADD || how == HOW_XOR;
}

/* By the CPU where that is who does it. */
static int merge(struct world *w, struct loci_mem *mem, uint64_t at, uint32_t how,
                 const uint64_t *operands, size_t n)
{
    unsigned char *word = loci_mem_map(w->rt, mem) != NULL ? loci_mem_word(mem) : NULL;

    if (word == NULL)
        return loci_merge(w->rt, mem, at, how, operands, n, NULL);
    return merge_words(how, word + at, operands, n) ? LOCO_OK : LOCO_ERR_ARG;
}

static int merge_all(struct world *w, struct loci_mem *mem)
{
    const uint64_t one = 1, high = UINT64_C(1) << 32, own = OWN + 8 * (uint64_t)w->m->rank;
    uint64_t operands[LOCI_MERGE_WORDS], old;

    for (size_t i = 0; i < LOCI_MERGE_WORDS; i++)
        operands[i] = i;
    for (uint64_t i = 0; i < (uint64_t)MERGES; i++) {
        size_t n = 1 + (size_t)i % LOCI_MERGE_WORDS;

        CHECK_OK(merge(w, mem, SHARED, HOW_ADD, operands, n));
        CHECK_OK(merge(w, mem, MIXED, HOW_ADD, &one, 1));
        if (i % 4 == 0)
            CHECK_OK(loci_fetch_add(w->rt, mem, MIXED, high, &old, NULL));
        CHECK_OK(merge(w, mem, own, HOW_ADD, &one, 1));
        CHECK_OK(merge(w, mem, own, HOW_XOR, &high, 1));
        if (i % 7 == 0) {
            CHECK_OK(loci_fetch_add(w->rt, mem, own, 0, &old, NULL));
            CHECK_EQ(old, i + 1 + (i % 2 == 0 ? high : 0));
        }
    }
    return 0;
}

static int check_all(struct world *w, struct loci_mem *mem, uint64_t n)
{
    const uint64_t merges = (uint64_t)MERGES;
    uint64_t word;

    CHECK_OK(loci_read64(w->rt, mem, MIXED, &word, NULL));
    CHECK_EQ(word & UINT32_MAX, n * merges);
    CHECK_EQ(word >> 32, n * ((merges + 3) / 4));
    for (uint64_t i = 0; i < LOCI_MERGE_WORDS; i++) {
        uint64_t times = 0;

        for (uint64_t k = 0; k < merges; k++)
            times += k % LOCI_MERGE_WORDS >= i;
        CHECK_OK(loci_read64(w->rt, mem, SHARED + 8 * i, &word, NULL));
        CHECK_EQ(word, n * times * i);
    }
    return 0;
}

/* Somebody else's memory takes them only if the fabric does. */
static bool is_taken(struct world *w)
{
    for (int i = 0; i < w->m->n; i++)
        if (loci_merges(w->rt, &w->pools[i]) && !w->rt->ops->merges)
            return false;
    return !w->rt->ops->merges || !loci_merges(w->rt, &w->pools[w->m->rank]);
}

/* How many members can do it to that memory, this one's being one of them or not. */
static int count(struct world *w, bool mine, int *n)
{
    bool all[PEERS];

    *n = 0;
    CHECK_OK(w->m->exchange.allgather(w->m->exchange.ctx, &mine, sizeof mine, all));
    for (int i = 0; i < w->m->n; i++)
        *n += all[i];
    return 0;
}

/* A process of the first member's node has its pool memory mapped, and its user memory not. */
int merged(struct member *m)
{
    struct world w;
    bool user;
    int n;

    CHECK(enter(&w, m, LEN) == 0);
    atomic_store(&w.rt->merge, merge_words);
    CHECK(is_taken(&w));
    user = m->rank == 0 || loci_merges(w.rt, &w.users[0]);
    CHECK(count(&w, user, &n) == 0);
    if (w.rt->ops->merges) {
        CHECK(merge_all(&w, &w.pools[0]) == 0);
        if (user)
            CHECK(merge_all(&w, &w.users[0]) == 0);
        CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_PROCESS, -1));
        CHECK_OK(together(&w));
        CHECK(check_all(&w, &w.pools[0], (uint64_t)m->n) == 0);
        CHECK(check_all(&w, &w.users[0], (uint64_t)n) == 0);
    }
    return leave(&w);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The inbox: which parts are asked for which bits, with more parts than bits. */

#include <criterion/criterion.h>

#include "inbox.h"
#include "memory/memory.h"
#include "run.h"

enum { BITS = LOCI_INBOX_BITS, PARTS = 3 * BITS };

struct part {
    struct loci_inbox_part inbox;
    int asked;
    bool left;                  /* what it says: not all could be done */
};

static struct part parts[PARTS];

static bool serve(struct loci_inbox_part *inbox)
{
    struct part *part = (struct part *)(void *)inbox;

    part->asked++;
    return part->left;
}

/* Whether just those of `bits` that are in were asked, once, since the last call. */
static int check_asked(uint64_t bits, const bool *in)
{
    for (int i = 0; i < PARTS; i++) {
        CHECK_EQ(parts[i].asked, in[i] && (bits >> i % BITS & 1) != 0);
        parts[i].asked = 0;
    }
    return 0;
}

static int knock(loco_runtime_t *rt, uint64_t bits, const bool *in)
{
    loci_cpu_fetch_or(atomic_load(&rt->inbox.word), bits);
    CHECK_EQ(loci_inbox_look(rt), 1);
    CHECK_EQ(check_asked(bits, in), 0);
    CHECK_EQ(loci_inbox_look(rt), 0);
    return 0;
}

static int add_all(loco_runtime_t *rt, bool *in)
{
    struct loci_memkey key;

    for (int i = 0; i < PARTS; i++) {
        parts[i].inbox.serve = serve;
        CHECK_OK(loci_inbox_prepare(rt, &parts[i].inbox, &key));
        CHECK_EQ(parts[i].inbox.bit, UINT64_C(1) << i % BITS);
        CHECK(key.kind == LOCI_MEM_POOL && key.len >= sizeof(uint64_t));
        loci_inbox_add(rt, &parts[i].inbox);
        in[i] = true;
    }
    /* Each is asked once when it was added. */
    CHECK_EQ(loci_inbox_look(rt), 1);
    CHECK_EQ(check_asked(UINT64_MAX, in), 0);
    return 0;
}

/* Out of the middle, the beginning and the end of their lists, in any order, and in again. */
static int change(loco_runtime_t *rt, bool *in, uint64_t *random)
{
    int i = (int)(run_random(random) % PARTS);

    if (in[i]) {
        loci_inbox_remove(rt, &parts[i].inbox);
    } else {
        loci_inbox_add(rt, &parts[i].inbox);
        CHECK_EQ(loci_inbox_look(rt), 1);
    }
    in[i] = !in[i];
    return in[i] ? check_asked(parts[i].inbox.bit, in) : 0;
}

/* What one part could not do is asked for again, of all that have its bit, until it is done. */
static int asks_again(loco_runtime_t *rt, const bool *in)
{
    parts[BITS + 5].left = true;
    loci_cpu_fetch_or(atomic_load(&rt->inbox.word), UINT64_C(3) << 5);
    CHECK_EQ(loci_inbox_look(rt), 1);
    CHECK_EQ(check_asked(UINT64_C(3) << 5, in), 0);
    CHECK_EQ(loci_inbox_look(rt), 1);
    CHECK_EQ(check_asked(UINT64_C(1) << 5, in), 0);
    parts[BITS + 5].left = false;
    CHECK_EQ(loci_inbox_look(rt), 1);
    CHECK_EQ(check_asked(UINT64_C(1) << 5, in), 0);
    CHECK_EQ(loci_inbox_look(rt), 0);
    return 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t random = 20261129;
    bool in[PARTS];

    (void)rank;
    (void)arg;
    CHECK_EQ(loci_inbox_look(rt), 0);
    CHECK_EQ(add_all(rt, in), 0);
    for (int i = 0; i < BITS; i++)
        CHECK_EQ(knock(rt, UINT64_C(1) << i, in), 0);
    CHECK_EQ(asks_again(rt, in), 0);
    for (int i = 0; i < 5000; i++) {
        CHECK_EQ(change(rt, in, &random), 0);
        CHECK_EQ(knock(rt, run_random(&random) | 1, in), 0);
    }
    for (int i = 0; i < PARTS; i++)
        if (in[i])
            loci_inbox_remove(rt, &parts[i].inbox);
    return 0;
}

Test(inbox, asks_who_has_the_bits, .timeout = 60)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 0, NULL, body, NULL), 0);
}

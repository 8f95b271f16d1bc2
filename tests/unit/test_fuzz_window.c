/* SPDX-License-Identifier: BSD-3-Clause */

/* Random words where members of a window tell each other things: requests for accumulates that the
 * holder of a lock does for the others, and the tree of attached regions. The one who reads them
 * stays within the memory of the window, comes to an end, and goes on when they make sense again;
 * also while a thread changes what it looks at. FUZZ_ROUNDS says how many. */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "member.h"
#include "window/acc/window_flat.h"
#include "window/window.h"
#include "window/window_tree.h"

#define ROUNDS 50000
#define AREA 8192                   /* bytes of the window, between two guards of this size */
#define GUARD 0xa5

TestSuite(fuzz_window, .timeout = 6000);

static unsigned char *new_guarded(void)
{
    unsigned char *all = malloc(3 * AREA);

    if (all != NULL)
        memset(all, GUARD, 3 * AREA);
    return all;
}

static int guards_are_whole(const unsigned char *all)
{
    for (size_t i = 0; i < AREA; i++)
        CHECK(all[i] == GUARD && all[2 * AREA + i] == GUARD);
    return 0;
}

static int meet(struct member *m)
{
    unsigned char nothing[1];

    return m->exchange.allgather(m->exchange.ctx, NULL, 0, nothing);
}

/* ---- words that change ---- */

struct change {
    _Atomic uint64_t *words;
    uint64_t n;
    uint64_t (*value)(uint64_t old, uint64_t random);
    bool back;                      /* each is put back at once */
    _Atomic bool stop;
    pthread_t thread;
};

static void *change_words(void *arg)
{
    struct change *c = arg;
    uint64_t random = 4711;

    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        _Atomic uint64_t *word = &c->words[run_random(&random) % c->n];
        uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
        uint64_t other = c->value(old, run_random(&random));

        atomic_store_explicit(word, other, memory_order_relaxed);
        if (c->back)
            atomic_compare_exchange_strong(word, &other, old);
    }
    return NULL;
}

static int begin_change(struct change *c)
{
    return pthread_create(&c->thread, NULL, change_words, c);
}

static void end_change(struct change *c)
{
    atomic_store(&c->stop, true);
    pthread_join(c->thread, NULL);
}

/* ---- requests for accumulates ---- */

enum { STATE = 0, NEXT = 8, WHAT = 16, OFFSET = 24, LEN = 32, STATUS = 40, DATA = 64 };
enum { ASKED = 1, DONE };           /* window_flat.c */
#define ASKING 3                    /* members of which there are requests; rank 0 does them */

static uint64_t some_offset(uint64_t random)
{
    switch (random % 8) {
    case 0: return random;
    case 1: return AREA - random / 8 % 64;
    case 2: return UINT64_MAX - random / 8 % 64;
    default: return random / 8 % (AREA - LOCI_FLAT_BYTES) & ~UINT64_C(7);
    }
}

static uint64_t some_len(uint64_t random)
{
    switch (random % 8) {
    case 0: return random;
    case 1: return LOCI_FLAT_BYTES - 16 + random / 8 % 32;
    case 2: return AREA - random / 8 % 16;
    default: return 8 * (random / 8 % 16);
    }
}

static unsigned char *request_of(loco_window_t *win, int rank)
{
    return (unsigned char *)loci_mem_ptr(&win->control[rank]) + win->request_at;
}

static void make_request(loco_window_t *win, int rank, uint64_t *random)
{
    unsigned char *request = request_of(win, rank);
    uint64_t how = run_random(random);

    loci_store64(request + NEXT, how % 8 == 0 ? run_random(random) : how / 8 % (ASKING + 3));
    loci_store64(request + WHAT, how / 256 % 8 == 0 ? run_random(random)
                 : (how % 2 == 0 ? LOCO_TYPE_U64 : run_random(random) % LOCO_TYPE_COUNT)
                   | (how % 3 == 0 ? LOCO_OP_SUM : run_random(random) % (LOCO_OP_COUNT + 1)) << 8
                   | run_random(random) % 2 << 16);
    loci_store64(request + OFFSET, some_offset(run_random(random)));
    loci_store64(request + LEN, some_len(run_random(random)));
    loci_store64(request + DATA, run_random(random));
    loci_store64(request + STATE, how / 4096 % 8 == 0 ? run_random(random) % 4 : ASKED);
}

/* Into the requests: links, and what else is looked at. */
static uint64_t any_value(uint64_t old, uint64_t random)
{
    switch (random % 4) {
    case 0: return old ^ UINT64_C(1) << random / 4 % 64;
    case 1: return random / 4 % (ASKING + 4);
    case 2: return some_len(random / 4);
    default: return some_offset(random / 4);
    }
}

/* With the lock, as rank 0 has it of its own part. */
static int serve(loco_window_t *win, const unsigned char *all, int rounds, uint64_t *random,
                 int *done)
{
    unsigned char *stack = loci_mem_word(&win->control[0]) + LOCI_WINDOW_ASKED;

    for (int i = 0; i < rounds; i++) {
        for (int rank = 1; rank < ASKING; rank++)
            make_request(win, rank, random);
        loci_store64(stack, run_random(random) % 16 == 0 ? run_random(random)
                     : 1 + run_random(random) % (ASKING + 1));
        loci_flat_serve_slow(win, 0);
        for (int rank = 1; rank < ASKING; rank++)
            *done += loci_load64(request_of(win, rank) + STATE) == DONE
                     && loci_load64(request_of(win, rank) + STATUS) == 0;
        if (i % 64 == 0 && guards_are_whole(all) != 0)
            return 1;
    }
    return guards_are_whole(all);
}

/* While n words from `at` on of one request change. */
static int serve_changing(loco_window_t *win, const unsigned char *all, uint64_t at, uint64_t n,
                          int rounds, uint64_t *random)
{
    struct change change = {
        .words = (_Atomic uint64_t *)(void *)(request_of(win, 1) + at), .n = n, .value = any_value,
    };
    int failed, done = 0;

    CHECK_EQ(begin_change(&change), 0);
    failed = serve(win, all, rounds, random, &done);
    end_change(&change);
    return failed;
}

/* A right one. */
static int still_serves(loco_window_t *win, const unsigned char *all)
{
    unsigned char *request = request_of(win, 1);
    uint64_t got;

    loci_store64(request + NEXT, 0);
    loci_store64(request + WHAT, (uint64_t)LOCO_TYPE_U64 | (uint64_t)LOCO_OP_REPLACE << 8);
    loci_store64(request + OFFSET, 16);
    loci_store64(request + LEN, 8);
    loci_store64(request + DATA, 77);
    loci_store64(request + STATE, ASKED);
    loci_store64(loci_mem_word(&win->control[0]) + LOCI_WINDOW_ASKED, 2);
    loci_flat_serve_slow(win, 0);
    memcpy(&got, all + AREA + 16, sizeof got);
    CHECK_EQ(got, 77);
    CHECK_EQ(loci_load64(request + STATE), DONE);
    loci_store64(request + STATE, 0);
    return 0;
}

static int requests_body(struct member *m)
{
    unsigned char *all = new_guarded();
    int rounds = run_fuzz_rounds(ROUNDS), failed, done = 0;
    uint64_t random = 20261129;
    loco_window_t *win;

    CHECK(all != NULL);
    CHECK_OK(member_window(m, LOCO_WINDOW_CREATE, all + AREA, AREA, &win));
    CHECK(loci_flat_is_for(win));
    CHECK_OK(meet(m));
    if (m->rank == 0) {
        failed = serve(win, all, rounds, &random, &done);
        CHECK(failed != 0 || done > rounds / 10);
        failed |= serve_changing(win, all, NEXT, 1, rounds, &random);
        failed |= serve_changing(win, all, STATE, STATUS / 8, rounds, &random);
        CHECK_EQ(failed, 0);
        CHECK_EQ(still_serves(win, all), 0);
    }
    CHECK_OK(meet(m));
    CHECK_OK(loco_window_destroy(win));
    free(all);
    return 0;
}

Test(fuzz_window, requests)
{
    cr_assert_eq(member_run(RUN_SHM, ASKING, requests_body, NULL, NULL), 0);
}

/* ---- the tree of attached regions ---- */

#define CELLS 512                   /* regions, of 32 bytes each, at multiples of 64 */
#define CELL 64
#define REGION 32

/* What is really attached. */
struct regions {
    unsigned char *memory;
    bool attached[CELLS];
};

static int attach_or_detach(loco_window_t *win, struct regions *r, uint64_t random)
{
    uint64_t cell = random % CELLS;
    unsigned char *at = r->memory + cell * CELL;

    if (r->attached[cell]) {
        CHECK_EQ(loco_window_attach(win, at + REGION - 1, 2), LOCO_ERR_ATTACH);
        CHECK_OK(loco_window_detach(win, at));
    } else {
        CHECK_EQ(loco_window_detach(win, at), LOCO_ERR_ATTACH);
        CHECK_OK(loco_window_attach(win, at, REGION));
    }
    r->attached[cell] = !r->attached[cell];
    return 0;
}

/* Of its own tree a process believes what it knows itself: each call is answered as if nobody wrote
 * there. */
static int own_access(loco_window_t *win, struct regions *r, int rank, uint64_t random)
{
    uint64_t cell = random % CELLS, at = (uintptr_t)r->memory + cell * CELL;
    uint64_t value = random, back = 0;

    if (!r->attached[cell]) {
        CHECK_EQ(member_put(win, rank, at, &value, 8), LOCO_ERR_RANGE);
        return 0;
    }
    CHECK_OK(member_put(win, rank, at, &value, 8));
    CHECK_OK(member_get(win, rank, at, &back, 8));
    CHECK(back == value);
    CHECK_EQ(member_get(win, rank, at + REGION - 4, &back, 8), LOCO_ERR_RANGE);
    return 0;
}

/* One bit, or all: of stamps, counts, levels, references, keys. */
static uint64_t another_word(uint64_t old, uint64_t random)
{
    return random % 4 == 0 ? random : random % 4 == 1 ? old + random / 4 % 64 - 32
           : old ^ UINT64_C(1) << random / 4 % 64;
}

/* Any words in the first chunk of nodes or entries, the directory, or the head. */
static void aim(struct change *c, loco_window_t *win, int which)
{
    const struct loci_tree *tree = win->tree;
    const struct loci_mem *mem = which == 0 ? &tree->store[LOCI_TREE_NODES].chunk[0]
                                 : which == 1 ? &tree->store[LOCI_TREE_ENTRIES].chunk[0]
                                              : &tree->directory;

    if (which == 3) {
        c->words = (_Atomic uint64_t *)(void *)tree->head;
        c->n = sizeof *tree->head / 8;
    } else {
        c->words = (_Atomic uint64_t *)(void *)loci_mem_ptr((struct loci_mem *)mem);
        c->n = mem->key.len / 8;
    }
}

static int own_body(struct member *m)
{
    struct regions r = { .memory = calloc(CELLS, CELL) };
    int rounds = run_fuzz_rounds(ROUNDS);
    bool races = run_may_race("words of a tree that change while its owner uses it");
    uint64_t random = 20261129;
    loco_window_t *win;

    CHECK(r.memory != NULL);
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < CELLS / 2; i++)
        CHECK_EQ(attach_or_detach(win, &r, run_random(&random)), 0);
    for (int which = 0; which < 4; which++) {
        struct change change = { .value = another_word };

        aim(&change, win, which);
        if (races)
            CHECK_EQ(begin_change(&change), 0);
        for (int i = 0; i < rounds / 4; i++)
            if (attach_or_detach(win, &r, run_random(&random)) != 0
                || own_access(win, &r, m->rank, run_random(&random)) != 0)
                return 1;
        if (races)
            end_change(&change);
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_destroy(win));
    free(r.memory);
    return 0;
}

Test(fuzz_window, own_regions)
{
    cr_assert_eq(member_run(RUN_SHM, 1, own_body, NULL, NULL), 0);
}

/* Others search the tree while its owner's words change for moments: they find what is attached, or
 * an error, and never touch memory of theirs that they were not given. */
static int search(struct member *m, loco_window_t *win, const struct regions *r, int rounds,
                  uint64_t *random)
{
    uint64_t guarded[3] = { 1, 2, 3 };
    int found = 0;

    for (int i = 0; i < rounds; i++) {
        uint64_t cell = run_random(random) % CELLS, base = (uintptr_t)r->memory + cell * CELL;
        struct loci_mem mem;
        size_t len = 8;
        int status = loci_regions_find(win, 0, base, &len, false, &mem);

        CHECK(status <= LOCO_OK && len >= 1 && len <= 8);
        found += status == LOCO_OK;
        if (i % 16 == 0)
            (void)member_get(win, 0, base, &guarded[1], 8);
        CHECK(guarded[0] == 1 && guarded[2] == 3);
    }
    (void)m;
    CHECK(found > rounds / 100);
    return 0;
}

static int others_body(struct member *m)
{
    struct regions r = { .memory = m->arg };
    int rounds = run_fuzz_rounds(ROUNDS), failed = 0;
    uint64_t random = 20261129 + (uint64_t)m->rank;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    for (int i = 0; m->rank == 0 && i < CELLS / 2; i++)
        CHECK_EQ(attach_or_detach(win, &r, run_random(&random)), 0);
    CHECK_OK(meet(m));
    for (int which = 0; which < 4; which++) {
        struct change change = { .value = another_word, .back = true };

        if (m->rank == 0) {
            aim(&change, win, which);
            CHECK_EQ(begin_change(&change), 0);
        }
        CHECK_OK(meet(m));
        CHECK_OK(loco_window_lock_all(win, 0));
        if (m->rank != 0)
            failed |= search(m, win, &r, rounds / 4, &random);
        CHECK_OK(loco_window_unlock_all(win));
        CHECK_OK(meet(m));
        if (m->rank == 0)
            end_change(&change);
    }
    CHECK_EQ(failed, 0);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(fuzz_window, regions_of_others)
{
    unsigned char *memory = calloc(CELLS, CELL);

    cr_assert(memory != NULL);
    cr_assert_eq(member_run(RUN_SHM, 2, others_body, memory, NULL), 0);
    free(memory);
}

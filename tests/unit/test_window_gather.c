/* SPDX-License-Identifier: BSD-3-Clause */

/* Windows: accumulates that are gathered, applied by their target or their origin. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inbox.h"
#include "memory/memory.h"
#include "member.h"
#include "wait.h"
#include "window/acc/window_acc.h"
#include "window/gather/gather.h"

enum { CELLS = 100, MEMBERS = 4, CALLS = 6000 };

/* ---- what comes of them ---- */

/* Each member has cells of its own at each target, and there is a sum for all. */
struct part {
    uint64_t sum, cell[MEMBERS][CELLS];
};

/* How the model and the window change a cell: none commutes with the next. */
static int change(struct member *m, loco_window_t *win, int rank, struct part *model)
{
    uint64_t k = (uint64_t)rand_r(&m->seed) % CELLS, x = (uint64_t)rand_r(&m->seed) * 2 + 1;
    uint64_t at = offsetof(struct part, cell) + 8 * ((uint64_t)m->rank * CELLS + k), one = 1;
    uint64_t *cell = &model->cell[m->rank][k];
    uint32_t half = (uint32_t)x;

    model->sum++;
    CHECK_OK(member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_SUM, 0, &one, NULL, 1));
    switch (rand_r(&m->seed) % 6) {
    case 0:
        *cell = x;
        return member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_REPLACE, at, &x, NULL, 1);
    case 1:
        *cell *= x;
        return member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_PROD, at, &x, NULL, 1);
    case 2:
        memcpy(cell, &half, 4);
        return member_accumulate(win, rank, LOCO_TYPE_U32, LOCO_OP_REPLACE, at, &half, NULL, 1);
    case 3:
        *cell = x << 20;
        x = *cell;
        /* Between nodes nothing orders a put with accumulates. */
        return run_shares() ? member_put(win, rank, at, &x, 8)
               : member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_REPLACE, at, &x, NULL, 1);
    default:
        *cell += x;
        return member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_SUM, at, &x, NULL, 1);
    }
}

/* As it left it, in one of the ways that do not gather. */
static int look(struct member *m, loco_window_t *win, int rank, const struct part *model)
{
    uint64_t k = (uint64_t)rand_r(&m->seed) % CELLS, x = 0;
    uint64_t at = offsetof(struct part, cell) + 8 * ((uint64_t)m->rank * CELLS + k);

    if (rand_r(&m->seed) % 2 == 0)
        CHECK_OK(member_get(win, rank, at, &x, 8));
    else
        CHECK_OK(member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_NO_OP, at, NULL, &x, 1));
    CHECK_EQ(x, model->cell[m->rank][k]);
    return 0;
}

/* `idle`: this one does not call, and waits for the others. */
static int many_calls(struct member *m, loco_window_t *win, struct part *model, bool idle)
{
    for (int i = 0; i < CALLS && !idle; i++) {
        int rank = rand_r(&m->seed) % m->n;

        CHECK_OK(change(m, win, rank, &model[rank]));
        if (i % 1000 == 999)
            CHECK_EQ(look(m, win, rank, &model[rank]), 0);
        if (i % 1500 == 1499 && (loci_window_epoch(win, rank) & LOCI_EPOCH_PASSIVE) != 0)
            CHECK_OK(i % 1000 == 499 ? loco_window_flush(win, rank)
                                     : loco_window_flush_local_all(win));
    }
    return 0;
}

/* What all members say that they made of this member's part. */
static int check_parts(struct member *m, loco_window_t *win, struct part *model)
{
    const struct part *own = loco_window_base(win);
    struct part all[MEMBERS];

    for (int rank = 0; rank < m->n; rank++) {
        uint64_t sum = 0;

        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &model[rank], sizeof all[0], all));
        for (int i = 0; i < m->n; i++)
            sum += all[i].sum;
        for (int i = 0; rank == m->rank && i < m->n; i++)
            CHECK_EQ(memcmp(own->cell[i], all[i].cell[i], sizeof own->cell[i]), 0);
        CHECK(rank != m->rank || own->sum == sum);
    }
    return 0;
}

static int calls_body(struct member *m)
{
    bool idle = *(const bool *)m->arg && m->rank != 0;
    struct part *memory = calloc(1, sizeof *memory), *model = calloc((size_t)m->n, sizeof *model);
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = sizeof *memory, .one_thread = true,
    };
    char mine = 0, all[MEMBERS];
    loco_window_t *win;

    CHECK(memory != NULL && model != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_EQ(win->gathers, m->n > 1);
    for (int round = 0; round < 4; round++) {
        CHECK_OK(round % 2 == 0 ? loco_window_lock_all(win, 0) : loco_window_fence(win, 0));
        CHECK_EQ(many_calls(m, win, model, idle), 0);
        CHECK_OK(round % 2 == 0 ? loco_window_unlock_all(win)
                                : loco_window_fence(win, LOCO_ASSERT_NOSUCCEED));
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
        CHECK_EQ(check_parts(m, win, model), 0);
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    }
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    free(model);
    return 0;
}

Test(window_gather, all_are_done_once_and_in_order, .timeout = RUN_SECONDS)
{
    bool idle[] = { false, true };

    for (int i = 0; i < 2; i++)
        for (int n = 1; n <= MEMBERS; n++)
            cr_assert_eq(member_run(RUN_SHM, n, calls_body, &idle[i], NULL), 0, "%d members", n);
}

/* ---- one node, and a device ---- */

/* Members that map each other's memory, in a job whose data goes through a device. */
static loco_runtime_t *members[MEMBERS];
static _Thread_local loco_runtime_t *own_rt;

static unsigned char *map(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    uint64_t identity = loci_peer(own_rt, mem->peer)->address.identity;
    const struct loci_extent *extent;
    int i = 0;

    (void)fabric;
    while (members[i]->address.identity != identity)
        i++;
    pthread_mutex_lock(&members[i]->memory_lock);
    extent = members[i]->extents;
    while (extent != NULL && extent->number != mem->key.extent)
        extent = extent->next;
    pthread_mutex_unlock(&members[i]->memory_lock);
    return extent != NULL ? extent->base + mem->key.base : NULL;
}

static int device_body(struct member *m)
{
    struct loci_fabric_ops ops = *m->rt->ops;
    const struct loci_fabric_ops *before = m->rt->ops;
    char byte = 0, all[MEMBERS];
    int status;

    own_rt = members[m->rank] = m->rt;
    ops.maps = true;
    ops.map = map;
    m->rt->ops = &ops;
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &byte, 1, all));
    status = calls_body(m);
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &byte, 1, all));
    m->rt->ops = before;
    return status;
}

Test(window_gather, goes_through_a_device_on_one_node, .timeout = RUN_SECONDS)
{
    bool idle = false;

    for (uint64_t seed = 1; seed <= 3; seed++)
        cr_assert_eq(member_run_seed(RUN_WEAK, 3, seed, device_body, &idle, NULL), 0);
}

/* ---- nobody needs the target ---- */

/* It computes all the time, and polls what comes last. */
static int polled_body(struct member *m)
{
    enum { WORDS = 3000 };
    _Atomic uint64_t *memory = calloc(WORDS, 8);
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = 8 * WORDS, .one_thread = true,
    };
    loco_window_t *win;
    uint64_t one = 1;
    int64_t begin;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    begin = run_now();
    if (m->rank == 1) {
        while (atomic_load(&memory[WORDS - 1]) == 0)
            CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
        for (int i = 0; i < WORDS; i++)
            CHECK_EQ(atomic_load(&memory[i]), 1);
    } else {
        for (uint64_t i = 0; i < WORDS; i++)
            CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_BOR, 8 * i, &one, NULL, 1));
        CHECK_OK(loco_window_flush_local(win, 1));
        CHECK_EQ(win->gathering, 0);
        CHECK_OK(run_await(m->arg, 1));
    }
    atomic_fetch_add((_Atomic int *)m->arg, 1);
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_destroy(win));
    free((void *)memory);
    return 0;
}

Test(window_gather, a_target_that_computes_has_all)
{
    cr_assert_eq(member_run(RUN_SHM, 2, polled_body, run_counter(), NULL), 0);
}

/* ---- the end of an epoch without a call of the library's ---- */

/* The inline unlocks and flush leave it to the functions. */
static int inline_body(struct member *m)
{
    uint64_t memory[2] = { 0, 0 }, one = 1;
    char mine = 0, all[2];
    loco_window_t *win;

    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = sizeof memory, .one_thread = true,
    };

    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    for (int way = 0; way < 3 && m->rank == 0; way++) {
        uint64_t there = 0;

        CHECK_OK(way == 0 ? loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, 1, 0)
                          : loco_window_lock_all(win, 0));
        for (int i = 0; i < 10; i++)
            CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1));
        CHECK(win->gathering != 0);
        CHECK(way == 0 ? !loci_window_unlock_now(win, 1)
              : way == 1 ? !loci_window_unlock_all_now(win) : !loci_window_flush_now(win, 1));
        CHECK_OK(way == 0 ? loco_window_unlock(win, 1) : loco_window_unlock_all(win));
        CHECK_EQ(win->gathering, 0);
        CHECK_OK(loco_window_lock_all(win, 0));
        CHECK_OK(member_get(win, 1, 8, &there, 8));
        CHECK_EQ(there, 10 * ((uint64_t)way + 1));
        CHECK_OK(loco_window_unlock_all(win));
    }
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_gather, no_epoch_ends_before_it)
{
    cr_assert_eq(member_run(RUN_SHM, 2, inline_body, NULL, NULL), 0);
}

/* ---- errors ---- */

/* Rank 0's flush, while rank 1 waits, so that it applies what there is. */
static int flush_with_help(struct member *m, loco_window_t *win, _Atomic int *flushed, int times)
{
    int64_t begin = run_now();
    int status = LOCO_OK;

    if (m->rank == 0) {
        status = loco_window_flush(win, 1);
        atomic_fetch_add(flushed, 1);
    }
    while (atomic_load(flushed) < times) {
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
        loci_help(m->rt, true);
    }
    return status;
}

struct errors {
    bool dynamic;
    _Atomic int *flushed;
};

/* At the call: bounds, and what is not attached. At the synchronization: what was detached since,
 * or cannot be written; all else is done. */
static int errors_body(struct member *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t at = (uintptr_t)memory, all[2], one = 1;
    const struct errors *errors = m->arg;
    bool dynamic = errors->dynamic;
    const struct loco_window_spec spec = {
        .kind = dynamic ? LOCO_WINDOW_DYNAMIC : LOCO_WINDOW_CREATE, .base = memory,
        .size = 3 * page, .one_thread = true,
    };
    loco_window_t *win;
    int status;

    CHECK(memory != MAP_FAILED);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    for (size_t i = 0; dynamic && i < 3; i++)
        CHECK_OK(loco_window_attach(win, memory + i * page, page));
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &at, 8, all));
    at = dynamic ? all[1] : 0;
    CHECK_OK(loco_window_lock_all(win, 0));
    if (m->rank == 0) {
        for (uint64_t i = 0; i < 3 * page / 8; i++)
            CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, at + 8 * i, &one, NULL,
                                       1));
        CHECK_EQ(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, at + 3 * page, &one, NULL,
                                   1), LOCO_ERR_RANGE);
        CHECK_EQ(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_MINLOC, at, &one, NULL, 1),
                 LOCO_ERR_ARG);
        CHECK_OK(loco_window_flush(win, 1));
    }
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &one, 8, all));
    CHECK(m->rank == 0 || *(uint64_t *)(void *)(memory + page) == 1);
    one = 1;
    for (uint64_t i = 0; m->rank == 0 && i < 50; i++)
        CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM,
                                   at + i % 3 * page + 8 * (i / 3), &one, NULL, 1));
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &one, 8, all));
    if (m->rank == 1 && dynamic)
        CHECK_OK(loco_window_detach(win, memory + page));
    if (m->rank == 1 && !dynamic)
        CHECK_EQ(mprotect(memory + page, page, PROT_READ), 0);
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &one, 8, all));
    status = flush_with_help(m, win, errors->flushed, 1);
    if (m->rank == 0) {
        /* The target may have waited in the exchange before. */
        CHECK(status == (dynamic ? LOCO_ERR_RANGE : LOCO_ERR_SYSTEM) || status == LOCO_OK);
        CHECK_OK(loco_window_flush(win, 1));
    }
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &one, 8, all));
    for (uint64_t i = 0; m->rank == 1 && i < 16; i++) {
        CHECK_EQ(((uint64_t *)(void *)memory)[i], 2);
        CHECK_EQ(((uint64_t *)(void *)(memory + 2 * page))[i], 2);
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_destroy(win));
    munmap(memory, 3 * page);
    return 0;
}

Test(window_gather, errors_are_told)
{
    for (int i = 0; i < 2; i++) {
        struct errors errors = { i == 1, run_counter() };

        cr_assert_eq(member_run(RUN_SHM, 2, errors_body, &errors, NULL), 0);
    }
}

/* Pages that nobody accumulates to: one cannot be touched, and one is not there yet. */
static int between_body(struct member *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, 5 * page, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), there[5];
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = 5 * page, .one_thread = true,
    };
    uint64_t one = 1;
    char mine = 0, all[2];
    loco_window_t *win;

    CHECK(memory != MAP_FAILED);
    CHECK_EQ(mprotect(memory + 3 * page, page, PROT_NONE), 0);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (uint64_t i = 0; m->rank == 0 && i < 1500; i++)
        CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM,
                                   i % 3 * 2 * page + 8 * (i / 3 % 10), &one, NULL, 1));
    CHECK_EQ(flush_with_help(m, win, m->arg, 1), LOCO_OK);
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    for (size_t i = 0; m->rank == 1 && i < 30; i++)
        CHECK_EQ(((uint64_t *)(void *)(memory + i % 3 * 2 * page))[i / 3], 50);
    CHECK_EQ(mincore(memory, 5 * page, there), 0);
    CHECK_EQ(there[1] & 1, 0);
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_destroy(win));
    munmap(memory, 5 * page);
    return 0;
}

Test(window_gather, pages_between_are_left_alone)
{
    cr_assert_eq(member_run(RUN_SHM, 2, between_body, run_counter(), NULL), 0);
}

/* ---- death ---- */

/* Rank 1 dies with batches of rank 0 outstanding, and its own. */
static int death_body(struct member *m)
{
    uint64_t *memory = calloc(CELLS, 8), one = 1;
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = 8 * CELLS, .one_thread = true,
    };
    int status = LOCO_OK;
    loco_window_t *win;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < 5000 && m->rank < 2; i++)
        CHECK_OK(member_accumulate(win, 1 - m->rank, LOCO_TYPE_U64, LOCO_OP_SUM,
                                   8 * ((uint64_t)i % CELLS), &one, NULL, 1));
    atomic_fetch_add((_Atomic int *)m->arg, 1);
    CHECK_OK(run_await(m->arg, 3));
    if (m->rank == 1)
        _exit(99);
    for (int64_t begin = run_now(); status == LOCO_OK;) {
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
        status = member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1);
        status = status == LOCO_OK ? loco_window_flush(win, 1) : status;
    }
    CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
    CHECK_OK(member_accumulate(win, 2 - m->rank, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1));
    status = loco_window_unlock_all(win);
    CHECK(status == LOCO_OK || status == LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_PEER_DEAD);
    free(memory);
    return 0;
}

Test(window_gather, a_member_dies)
{
    int statuses[3];

    member_run(RUN_SHM, 3, death_body, run_counter(), statuses);
    cr_assert(statuses[0] == 0 && statuses[1] == 99 && statuses[2] == 0);
}

/* ---- a lock that nobody gives back ---- */

/* Whether memory that is asked for now comes in the place of that. */
static int is_kept(struct member *m, const struct loci_memkey *kept)
{
    enum { TRIES = 64 };
    struct loci_mem mem[TRIES];

    for (int i = 0; i < TRIES; i++) {
        CHECK_OK(loci_alloc(m->rt, LOCI_GATHER_BATCH, 0, &mem[i]));
        CHECK(mem[i].key.extent != kept->extent || mem[i].key.base + mem[i].key.len <= kept->base
              || mem[i].key.base >= kept->base + kept->len);
    }
    for (int i = 0; i < TRIES; i++)
        loci_free(m->rt, &mem[i]);
    return 0;
}

/* Rank 2 has the lock of rank 1's accumulates, and dies. What rank 0 has gathered is lost; rank 1
 * does not look for it any more, and finds in its place what it has been. */
static int lock_body(struct member *m)
{
    uint64_t *memory = calloc(CELLS, 8), one = 1;
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = 8 * CELLS, .one_thread = true,
    };
    struct loci_memkey ring = { .len = 0 };
    struct loci_rw lock;
    loco_window_t *win;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    lock = loci_window_acc_lock(win, 1);
    CHECK_OK(loco_window_lock_all(win, 0));
    CHECK_OK(run_meet_alive(m->rt, m->arg));
    if (m->rank == 2)
        CHECK_OK(loci_rw_acquire(m->rt, &lock, LOCI_RW_EXCLUSIVE, 0));
    if (m->rank == 2)
        _exit(99);
    while (loci_peer_alive(m->rt, win->group.peer[2]))
        usleep(1000);
    for (int i = 0; i < 3 && m->rank == 0; i++)
        (void)member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1);
    if (m->rank == 0) {
        CHECK_EQ(loco_window_flush(win, 1), LOCO_ERR_PEER_DEAD);
        loci_copy_once(&ring, loci_gather_row(win->target[1].control, win, 0) + LOCI_GATHER_RING,
                       sizeof ring);
        CHECK(ring.kind == LOCI_MEM_POOL && ring.len >= LOCI_GATHER_BATCH);
        atomic_store((_Atomic int *)m->arg, 10);
    }
    CHECK_OK(run_await(m->arg, 10));
    for (int i = 0; i < 10 && loci_inbox_look(m->rt) != 0; i++)
        CHECK(i < 9);
    (void)loco_window_unlock_all(win);
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_PEER_DEAD);
    CHECK(ring.len == 0 || is_kept(m, &ring) == 0);
    if (m->rank == 0)
        atomic_store((_Atomic int *)m->arg, 20);
    CHECK_OK(run_await(m->arg, 20));        /* so long nobody has gone */
    free(memory);
    return 0;
}

Test(window_gather, who_has_the_lock_dies, .timeout = 60)
{
    int statuses[3];

    if (!run_shares())
        cr_skip_test("only members of a node have a ring");
    member_run(RUN_SHM, 3, lock_body, run_counter(), statuses);
    cr_assert(statuses[0] == 0 && statuses[1] == 0 && statuses[2] == 99);
}

/* ---- a target's words that make no sense ---- */

/* What a target says of what it has applied, or of why not, is not passed on as it is. */
static int words_body(struct member *m)
{
    static const int64_t said[] = {
        LOCO_ERR_AGAIN, LOCO_IN_PROGRESS, LOCO_ERR_PROTOCOL - 1, INT64_MIN, LOCO_ERR_RANGE,
    };
    uint64_t *memory = calloc(CELLS, 8), one = 1;
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = 8 * CELLS, .one_thread = true,
    };
    unsigned char *row;
    loco_window_t *win;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    row = loci_gather_row(win->target[1].control, win, 0);
    for (size_t i = 0; i <= sizeof said / sizeof said[0] && m->rank == 0; i++) {
        bool last = i == sizeof said / sizeof said[0];

        for (int k = 0; k < 3; k++)
            CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1));
        loci_store64(row + (last ? LOCI_GATHER_APPLIED : LOCI_GATHER_STATUS),
                     last ? 1000000 : (uint64_t)said[i]);
        CHECK_EQ(loco_window_flush(win, 1), !last && said[i] == LOCO_ERR_RANGE
                                            ? LOCO_ERR_RANGE : LOCO_ERR_PROTOCOL);
    }
    CHECK_OK(run_meet(m->rt));
    (void)loco_window_unlock_all(win);
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_gather, a_target_talks_nonsense, .timeout = 60)
{
    if (!run_shares())
        cr_skip_test("only members of a node have a ring");
    cr_assert_eq(member_run(RUN_SHM, 2, words_body, NULL, NULL), 0);
}

/* ---- no memory ---- */

static void count_errors(void *ctx, int level, const char *text)
{
    (void)text;
    if (level == LOCO_LOG_ERROR)
        atomic_fetch_add((_Atomic int *)ctx, 1);
}

/* A ring that cannot grow is not asked for again each time that it is full. */
static int refused_body(struct member *m)
{
    enum { TAKEN = 100000, RINGS = 20 };
    uint64_t *memory = calloc(CELLS, 8), one = 1;
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = 8 * CELLS, .one_thread = true,
    };
    static struct loci_mem taken[TAKEN];
    _Atomic int errors = 0;
    loco_window_t *win;
    int n = 0;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    if (m->rank == 0) {
        for (int k = 0; k < 3; k++)
            CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1));
        CHECK_OK(loco_window_flush(win, 1));
        m->rt->log = (struct loci_log){ count_errors, &errors, LOCO_LOG_ERROR };
        m->rt->tunables.mem_limit = (int64_t)m->rt->memory_used;
        while (n < TAKEN && loci_alloc(m->rt, LOCI_GATHER_BATCH, 0, &taken[n]) == LOCO_OK)
            n++;
        CHECK(n < TAKEN);
        atomic_store(&errors, 0);
        for (int i = 0; i < RINGS * 4 * (int)(LOCI_GATHER_BATCH / 24); i++)
            CHECK_OK(member_accumulate(win, 1, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &one, NULL, 1));
        CHECK_OK(loco_window_flush(win, 1));
        CHECK_EQ(atomic_load(&errors), 1);
        while (n > 0)
            loci_free(m->rt, &taken[--n]);
        atomic_store((_Atomic int *)m->arg, 1);
    }
    CHECK_OK(run_await(m->arg, 1));         /* not at the library's: the target does not apply it */
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(run_meet(m->rt));
    CHECK(m->rank == 0 || memory[1] == 3 + 20 * 4 * (uint64_t)(LOCI_GATHER_BATCH / 24));
    m->rt->log = (struct loci_log){ .fn = NULL };
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_gather, a_ring_that_cannot_grow, .timeout = 60)
{
    if (!run_shares())
        cr_skip_test("only members of a node have a ring");
    cr_assert_eq(member_run(RUN_SHM, 2, refused_body, run_counter(), NULL), 0);
}

/* ---- batches that make no sense ---- */

/* Where the words of a batch say that elements are; the memory is guarded. */
struct guarded {
    unsigned char before[256], memory[1024], after[256];
};

static struct guarded guarded;

static int locate(const struct loci_gather_way *way, uint64_t offset, size_t len, uint64_t *at)
{
    (void)way;
    if (offset > sizeof guarded.memory || len > sizeof guarded.memory - offset)
        return LOCO_ERR_RANGE;
    *at = (uintptr_t)guarded.memory + offset;
    return LOCO_OK;
}

static int move(const struct loci_gather_way *way, enum loci_op_kind kind,
                const struct loci_piece *pieces, int n, unsigned char *packed)
{
    cr_assert(n >= 1 && n <= LOCI_GATHER_CHUNK);
    for (int i = 0; i < n; i++) {
        unsigned char *p = (unsigned char *)(uintptr_t)pieces[i].at;

        cr_assert(p >= guarded.memory && pieces[i].len <= LOCI_GATHER_MOST
                  && p + pieces[i].len <= guarded.after);
        cr_assert(packed >= way->room
                  && packed + pieces[i].len <= way->room + LOCI_GATHER_ROOM);
        memcpy(kind == LOCI_WRITE ? p : packed, kind == LOCI_WRITE ? packed : p, pieces[i].len);
        packed += pieces[i].len;
    }
    return LOCO_OK;
}

static uint64_t batch[LOCI_GATHER_BATCH / 8], changes = 20261130;

/* The origin may change a batch that was looked at. */
static bool reach(const struct loci_gather_way *way, const struct loci_piece *pieces, int n)
{
    uintptr_t first = (uintptr_t)guarded.memory, last = first + sizeof guarded.memory - 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)way;
    for (int i = 0; i < n; i++)
        cr_assert(pieces[i].at % page == 0 && pieces[i].len > 0 && pieces[i].len % page == 0
                  && pieces[i].at <= last && pieces[i].at + pieces[i].len > first);
    if (run_random(&changes) % 4 == 0)
        return false;
    for (size_t k = 1; k + 2 < sizeof batch / sizeof batch[0]; k += 3)
        if (run_random(&changes) % 1000 == 0) {
            batch[k] += run_random(&changes) % 4096 - 2048;
            batch[k + 1] += UINT64_C(8) << 16;
        }
    return true;
}

static void reached(const struct loci_gather_way *way)
{
    (void)way;
}

static uint64_t a_word(uint64_t *random, uint64_t what)
{
    switch (what % 8) {
    case 0: return run_random(random);
    case 1: return run_random(random) % 64 << 16 | run_random(random) % 0x1000;
    default:
        return UINT64_C(8) << (run_random(random) % 4) << 16
               | run_random(random) % LOCO_OP_COUNT << 8 | run_random(random) % LOCO_TYPE_COUNT;
    }
}

Test(window_gather, batches_that_make_no_sense)
{
    static uint64_t room[LOCI_GATHER_ROOM / 8];
    struct loci_gather_way way = {
        .room = (unsigned char *)room, .chunk = malloc(loci_gather_chunk_size()),
        .locate = locate, .move = move, .reach = reach, .reached = reached,
    };
    int rounds = run_fuzz_rounds(2000), good = 0;
    uint64_t random = 20261129;

    cr_assert(way.chunk != NULL);
    for (int i = 0; i < rounds; i++) {
        for (size_t k = 1; k < sizeof batch / sizeof batch[0]; k++)
            batch[k] = run_random(&random) % 4 == 0 ? run_random(&random) % 1100
                       : a_word(&random, k + (uint64_t)i);
        for (size_t k = 1; k + 2 < sizeof batch / sizeof batch[0]; k += 3) {
            batch[k] = run_random(&random) % (i % 2 == 0 ? 1000 : 1040);
            batch[k + 1] = UINT64_C(8) << 16 | (uint64_t)(i % 4 == 0 ? LOCO_OP_SUM : k % 14) << 8
                           | LOCO_TYPE_U64;
            if (run_random(&random) % 500 == 0)
                batch[k + 1] = a_word(&random, k);
        }
        batch[0] = i % 5 == 0 ? run_random(&random) : (uint64_t)(i % 400) * 24;
        loci_gather_apply_begin(&way);
        loci_gather_apply(&way, (unsigned char *)batch);
        good += loci_gather_apply_end(&way) == LOCO_OK;
    }
    cr_assert(good > rounds / 20 && good < rounds, "%d of %d", good, rounds);
    for (size_t i = 0; i < sizeof guarded.before; i++)
        cr_assert(guarded.before[i] == 0 && guarded.after[i] == 0);
    free(way.chunk);
}

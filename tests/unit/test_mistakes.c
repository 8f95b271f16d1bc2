/* SPDX-License-Identifier: BSD-3-Clause */

/* The caller's mistakes: each call that makes something, with each argument wrong in turn, returns
 * the status and says which argument of which call it is, and what it had to be; members that
 * differ hear in what. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "member.h"
#include "run.h"
#include "weak.h"

#define SECOND INT64_C(1000000000)

/* What calls that must not succeed would write. */
static _Thread_local union {
    loco_region_t *region;
    loco_owned_var_t *owned;
    loco_atomic_var_t *word;
    loco_atomic_array_t *words;
    loco_sst_t *sst;
    loco_barrier_t *barrier;
    loco_ticket_lock_t *ticket;
    loco_ticket_array_t *tickets;
    loco_rw_lock_t *rw;
    loco_rw_group_t *rws;
    loco_ringbuffer_t *ring;
    loco_queue_t *queue;
    loco_kvstore_t *kv;
    loco_group_t *group;
    loco_fork_t *job;
} out;

static int kv(loco_runtime_t *rt, size_t value_bytes, uint64_t capacity, int locks, size_t tracker)
{
    const loco_kvstore_options_t o = { value_bytes, capacity, locks, tracker };

    return loco_kvstore_create(rt, NULL, "c", loco_everyone(rt), &o, &out.kv);
}

static int subset(loco_runtime_t *rt, int n, int first, int second)
{
    const int ranks[] = { first, second };

    return loco_group_subset(loco_everyone(rt), n, ranks, &out.group);
}

/* 130 letters. */
#define LONG10 "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"
#define LONG LONG10 LONG10 LONG10 "eeeeeeeeee"
#define ALL loco_everyone(rt)

/* name, the call, its status, what the log says. Two processes, of which this is rank 0. */
#define MISTAKES(X)                                                                               \
    X(region_group, loco_region_create(rt, NULL, "c", NULL, 8, &out.region), ARG,                 \
      "loco_region_create(c): group is NULL")                                                     \
    X(empty_name, loco_region_create(rt, NULL, "", ALL, 8, &out.region), NAME,                    \
      "a channel of type region has an empty name")                                               \
    X(empty_parent, loco_region_create(rt, "", "c", ALL, 8, &out.region), NAME,                   \
      "a channel of type region has an empty name of its parent")                                 \
    X(long_name, loco_region_create(rt, NULL, LONG, ALL, 8, &out.region), NAME,                   \
      "the name has 130 bytes; allowed is 1 to 127")                                              \
    X(owned_group, loco_owned_var_create(rt, NULL, "c", NULL, 0, 8, 0, &out.owned), ARG,          \
      "loco_owned_var_create(c): group is NULL")                                                  \
    X(owned_owner, loco_owned_var_create(rt, NULL, "c", ALL, 2, 8, 0, &out.owned), ARG,           \
      "loco_owned_var_create(c): owner is 2; allowed is 0 to 1")                                  \
    X(owned_size, loco_owned_var_create(rt, NULL, "c", ALL, 0, 0, 0, &out.owned), ARG,            \
      "loco_owned_var_create(c): size is 0; allowed is 1 to ")                                    \
    X(owned_mode, loco_owned_var_create(rt, NULL, "c", ALL, 0, 8, 2, &out.owned), ARG,            \
      "loco_owned_var_create(c): mode is 2; allowed is LOCO_OWNED_PUSH or LOCO_OWNED_PULL")       \
    X(word_group, loco_atomic_var_create(rt, NULL, "c", NULL, 0, &out.word), ARG,                 \
      "loco_atomic_var_create(c): group is NULL")                                                 \
    X(word_host, loco_atomic_var_create(rt, NULL, "c", ALL, -1, &out.word), ARG,                  \
      "loco_atomic_var_create(c): host is -1; allowed is 0 to 1")                                 \
    X(words_group, loco_atomic_array_create(rt, NULL, "c", NULL, 8, 0, &out.words), ARG,          \
      "loco_atomic_array_create(c): group is NULL")                                               \
    X(words_count, loco_atomic_array_create(rt, NULL, "c", ALL, 0, 0, &out.words), ARG,           \
      "loco_atomic_array_create(c): count is 0; allowed is 1 to ")                                \
    X(words_host, loco_atomic_array_create(rt, NULL, "c", ALL, 8, -2, &out.words), ARG,           \
      "loco_atomic_array_create(c): host is -2; allowed is 0 to 1, or LOCO_ATOMIC_STRIPED")       \
    X(sst_group, loco_sst_create(rt, NULL, "c", NULL, 1, 0, &out.sst), ARG,                       \
      "loco_sst_create(c): group is NULL")                                                        \
    X(sst_columns, loco_sst_create(rt, NULL, "c", ALL, 0, 0, &out.sst), ARG,                      \
      "loco_sst_create(c): columns is 0; allowed is at least 1")                                  \
    X(sst_flags, loco_sst_create(rt, NULL, "c", ALL, 1, 2, &out.sst), ARG,                        \
      "loco_sst_create(c): flags is 2; allowed is LOCO_SST_COLUMNS or LOCO_SST_ROWS")             \
    X(barrier_group, loco_barrier_create(rt, NULL, "c", NULL, &out.barrier), ARG,                 \
      "loco_barrier_create(c): group is NULL")                                                    \
    X(ticket_group, loco_ticket_lock_create(rt, NULL, "c", NULL, 0, &out.ticket), ARG,            \
      "loco_ticket_lock_create(c): group is NULL")                                                \
    X(ticket_host, loco_ticket_lock_create(rt, NULL, "c", ALL, 2, &out.ticket), ARG,              \
      "loco_ticket_lock_create(c): host is 2; allowed is 0 to 1")                                 \
    X(tickets_count, loco_ticket_array_create(rt, NULL, "c", ALL, 0, &out.tickets), ARG,          \
      "loco_ticket_array_create(c): count is 0; allowed is at least 1")                           \
    X(rw_group, loco_rw_lock_create(rt, NULL, "c", NULL, 0, &out.rw), ARG,                        \
      "loco_rw_lock_create(c): group is NULL")                                                    \
    X(rw_host, loco_rw_lock_create(rt, NULL, "c", ALL, -1, &out.rw), ARG,                         \
      "loco_rw_lock_create(c): host is -1; allowed is 0 to 1")                                    \
    X(rws_group, loco_rw_group_create(rt, NULL, "c", NULL, 1, &out.rws), ARG,                     \
      "loco_rw_group_create(c): group is NULL")                                                   \
    X(rws_count, loco_rw_group_create(rt, NULL, "c", ALL, 0, &out.rws), ARG,                      \
      "loco_rw_group_create(c): count is 0; allowed is at least 1")                               \
    X(ring_group, loco_ringbuffer_create(rt, NULL, "c", NULL, 0, 64, 0, &out.ring), ARG,          \
      "loco_ringbuffer_create(c): group is NULL")                                                 \
    X(ring_writer, loco_ringbuffer_create(rt, NULL, "c", ALL, 2, 64, 0, &out.ring), ARG,          \
      "loco_ringbuffer_create(c): writer is 2; allowed is 0 to 1")                                \
    X(ring_capacity, loco_ringbuffer_create(rt, NULL, "c", ALL, 0, 0, 0, &out.ring), ARG,         \
      "loco_ringbuffer_create(c): capacity is 0; allowed is 1 to 1073741824")                     \
    X(ring_flags, loco_ringbuffer_create(rt, NULL, "c", ALL, 0, 64, 4, &out.ring), ARG,           \
      "loco_ringbuffer_create(c): flags is 4; allowed is LOCO_RINGBUFFER_SLEEP or ")              \
    X(queue_group, loco_queue_create(rt, NULL, "c", NULL, 8, 1, 0, &out.queue), ARG,              \
      "loco_queue_create(c): group is NULL")                                                      \
    X(queue_entry, loco_queue_create(rt, NULL, "c", ALL, 0, 1, 0, &out.queue), ARG,               \
      "loco_queue_create(c): entry_bytes is 0; allowed is 1 to ")                                 \
    X(queue_capacity, loco_queue_create(rt, NULL, "c", ALL, 8, 0, 0, &out.queue), ARG,            \
      "loco_queue_create(c): capacity is 0; allowed is 1 to ")                                    \
    X(queue_flags, loco_queue_create(rt, NULL, "c", ALL, 8, 1, 2, &out.queue), ARG,               \
      "loco_queue_create(c): flags is 2; allowed is 0 or LOCO_QUEUE_FENCE")                       \
    X(kv_options, loco_kvstore_create(rt, NULL, "c", ALL, NULL, &out.kv), ARG,                    \
      "loco_kvstore_create(c): options is NULL")                                                  \
    X(kv_value, kv(rt, 0, 1, 0, 0), ARG,                                                          \
      "loco_kvstore_create(c): value_bytes is 0; allowed is 1 to 65536")                          \
    X(kv_capacity, kv(rt, 8, 0, 0, 0), ARG,                                                       \
      "loco_kvstore_create(c): capacity is 0; allowed is 1 to 549755813888")                      \
    X(kv_locks, kv(rt, 8, 1, -1, 0), ARG,                                                         \
      "loco_kvstore_create(c): locks is -1; allowed is 1 to 1048576, or 0 for 256")               \
    X(kv_tracker, kv(rt, 8, 1, 0, 4095), ARG,                                                     \
      "loco_kvstore_create(c): tracker_bytes is 4095; allowed is at least 4096, or 0 for 16384")  \
    X(subset_n, subset(rt, 3, 0, 1), ARG, "loco_group_subset: n is 3; allowed is 1 to 2")         \
    X(subset_rank, subset(rt, 2, 0, 2), ARG,                                                      \
      "loco_group_subset: a rank is 2; allowed is 0 to 1")                                        \
    X(subset_twice, subset(rt, 2, 1, 1), ARG, "loco_group_subset: rank 1 is there twice")         \
    X(alive_rank, loco_group_alive(ALL, 2), ARG,                                                  \
      "loco_group_alive: rank is 2; allowed is 0 to 1")                                           \
    X(ready_timeout, loco_runtime_wait_ready(rt, -2), ARG,                                        \
      "loco_runtime_wait_ready: timeout_ns is -2; allowed is 0 or more, or LOCO_FOREVER")         \
    X(fence_scope, loco_fence(rt, 5, LOCO_ALL_PEERS), ARG,                                        \
      "loco_fence: scope is 5; allowed is 0 (LOCO_FENCE_NONE) to 4 (LOCO_FENCE_PROCESS)")         \
    X(fence_no_scope, loco_fence(rt, -1, 0), ARG, "loco_fence: scope is ")                        \
    X(fence_peer, loco_fence(rt, LOCO_FENCE_THREAD, 2), ARG,                                      \
      "loco_fence: peer is 2; allowed is 0 to 1, or LOCO_ALL_PEERS")                              \
    X(fence_pair, loco_fence(rt, LOCO_FENCE_PAIR, LOCO_ALL_PEERS), ARG,                           \
      "loco_fence: peer is -1; allowed is 0 to 1 with LOCO_FENCE_PAIR")

#define FUNCTION(name, call, status, said)                                                        \
    static int name(loco_runtime_t *rt)                                                           \
    {                                                                                             \
        return call;                                                                              \
    }
MISTAKES(FUNCTION)

static const struct mistake {
    int (*make)(loco_runtime_t *rt);
    int status;
    const char *name, *said;
} mistakes[] = {
#define ROW(name, call, status, said) { name, LOCO_ERR_##status, #name, said },
    MISTAKES(ROW)
};

static int mistakes_body(loco_runtime_t *rt, int rank, void *arg)
{
    (void)arg;
    if (rank != 0)
        return 0;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        int before = weak_logged(rt, mistakes[i].said), status;

        memset(&out, 0, sizeof out);
        status = mistakes[i].make(rt);
        if (status != mistakes[i].status || weak_logged(rt, mistakes[i].said) != before + 1
            || out.region != NULL) {
            fprintf(stderr, "%s: %s, not \"%s\"\n", mistakes[i].name, loco_strerror(status),
                    mistakes[i].said);
            return 1;
        }
    }
    return 0;
}

Test(mistakes, the_call_and_its_argument_are_named)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, mistakes_body, NULL), 0);
}

/* ---- what is done with what was made ---- */

static int release_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_rw_group_t *rws;

    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "t", ALL, 0, &ticket));
    CHECK_OK(loco_rw_lock_create(rt, NULL, "r", ALL, 0, &rw));
    CHECK_OK(loco_rw_group_create(rt, NULL, "g", ALL, 2, &rws));
    CHECK_OK(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)));
    CHECK_EQ(loco_ticket_lock_release(ticket, 0, 0), LOCO_ERR_STATE);
    CHECK_OK(loco_ticket_lock_acquire(ticket));
    CHECK_EQ(loco_ticket_lock_acquire(ticket), LOCO_ERR_STATE);
    CHECK_EQ(loco_ticket_lock_release(ticket, 5, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_ticket_lock_release(ticket, LOCO_FENCE_THREAD, 2), LOCO_ERR_ARG);
    CHECK_EQ(loco_ticket_lock_release(ticket, LOCO_FENCE_PAIR, LOCO_ALL_PEERS), LOCO_ERR_ARG);
    /* It was held all the time. */
    CHECK_OK(loco_ticket_lock_release(ticket, LOCO_FENCE_NONE, 0));
    CHECK_EQ(loco_rw_lock_release_shared(rw, 0, 0), LOCO_ERR_STATE);
    CHECK_OK(loco_rw_lock_acquire_exclusive(rw));
    CHECK_EQ(loco_rw_lock_release_exclusive(rw, 5, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_rw_lock_release_exclusive(rw, LOCO_FENCE_PROCESS, -2), LOCO_ERR_ARG);
    CHECK_OK(loco_rw_lock_release_exclusive(rw, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    CHECK_EQ(loco_rw_group_acquire_shared(rws, 2, false), LOCO_ERR_ARG);
    CHECK_EQ(loco_rw_group_acquire_exclusive(rws, -1, false), LOCO_ERR_ARG);
    CHECK_OK(loco_rw_group_acquire_shared(rws, 1, false));
    CHECK_EQ(loco_rw_group_release_shared(rws, 2, 0, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_rw_group_release_shared(rws, 1, 9, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_rw_group_release_exclusive(rws, 1, 0, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_rw_group_release_all(rws, LOCO_ORDER, LOCO_ALL_PEERS), LOCO_ERR_STATE);
    CHECK_OK(loco_rw_group_release_shared(rws, 1, LOCO_ORDER, LOCO_ALL_PEERS));
    CHECK_OK(run_meet(rt));
    CHECK(weak_logged(rt, "loco_ticket_lock_release(t): this thread does not hold it") > 0);
    CHECK(weak_logged(rt, "loco_ticket_lock_acquire(t): this thread holds it already") > 0);
    CHECK(weak_logged(rt, "loco_ticket_lock_release(t): scope is 5; allowed is 0 (LOCO") > 0);
    CHECK(weak_logged(rt, "loco_rw_lock_release_exclusive(r): peer is -2; allowed is 0 to 1") > 0);
    CHECK(weak_logged(rt, "loco_rw_group_acquire_shared(g): member is 2; allowed is 0 to 1") > 0);
    CHECK(weak_logged(rt, "loco_rw_group_release_all(g): this process does not hold it so") > 0);
    CHECK(rank < 2);
    CHECK_OK(run_meet(rt));
    loco_rw_group_destroy(rws);
    loco_rw_lock_destroy(rw);
    loco_ticket_lock_destroy(ticket);
    return 0;
}

Test(mistakes, a_release_with_a_wrong_scope_does_nothing)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, release_body, NULL), 0);
}

/* ---- windows ---- */

static char memory[64];

static const struct wrong_window {
    struct loco_window_spec spec;
    const char *said;
} wrong_windows[] = {
    { { .kind = 4, .size = 8 },
      "loco_window_create: kind is 4; allowed is 0 (LOCO_WINDOW_ALLOCATE) to 3 (LOCO" },
    { { .size = 8, .align = 3 }, "loco_window_create: align is 3; allowed is 0 or a power of two" },
    { { .kind = LOCO_WINDOW_CREATE, .size = 8 }, "loco_window_create: base is NULL" },
    { { .size = 8, .disp_unit = (size_t)1 << 32 },
      "loco_window_create: disp_unit is 4294967296; allowed is 0 to 4294967295" },
};

static int wrong_windows_body(struct member *m)
{
    for (size_t i = 0; i < sizeof wrong_windows / sizeof wrong_windows[0]; i++) {
        const struct loco_window_spec right = { .size = 8 };
        loco_window_t *win = NULL;

        /* One alone is wrong: all fail. */
        CHECK_EQ(loco_window_create(m->rt, &m->exchange, m->rank == 1 ? &wrong_windows[i].spec
                                                                       : &right, &win),
                 LOCO_ERR_ARG);
        CHECK(win == NULL);
        CHECK(m->rank != 1 || weak_logged(m->rt, wrong_windows[i].said) == 1);
    }
    return 0;
}

Test(mistakes, of_windows)
{
    cr_assert_eq(member_run(RUN_WEAK, 3, wrong_windows_body, NULL, NULL), 0);
}

/* Every pair of kinds, and each other property, differing at the last member alone. */
static int differing_body(struct member *m)
{
    const struct loco_window_spec specs[] = {
        { .kind = LOCO_WINDOW_ALLOCATE, .size = 64 },
        { .kind = LOCO_WINDOW_SHARED, .size = 64 },
        { .kind = LOCO_WINDOW_CREATE, .size = 64, .base = memory },
        { .kind = LOCO_WINDOW_DYNAMIC },
        { .kind = LOCO_WINDOW_SHARED, .size = 64, .noncontiguous = true },
        { .kind = LOCO_WINDOW_ALLOCATE, .size = 64, .no_locks = true },
        { .kind = LOCO_WINDOW_ALLOCATE, .size = 64, .bulk_accumulate = true },
    };
    const int n = (int)(sizeof specs / sizeof specs[0]);
    loco_window_t *win;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (i == j)
                continue;
            CHECK_EQ(loco_window_create(m->rt, &m->exchange,
                                        &specs[m->rank == m->n - 1 ? j : i], &win),
                     LOCO_ERR_MISMATCH);
        }
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &specs[0], &win));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(mistakes, members_that_give_different_windows_all_hear_of_it)
{
    ON_EACH_FABRIC(2, differing_body, NULL);
    ON_EACH_FABRIC(3, differing_body, NULL);
}

static int told_body(struct member *m)
{
    const struct loco_window_spec mine = {
        .kind = m->rank == 2 ? LOCO_WINDOW_DYNAMIC : LOCO_WINDOW_ALLOCATE,
    };
    loco_window_t *win;

    CHECK_EQ(loco_window_create(m->rt, &m->exchange, &mine, &win), LOCO_ERR_MISMATCH);
    CHECK_EQ(weak_logged(m->rt, "members of a window differ: kind is LOCO_WINDOW_"), 3);
    CHECK_EQ(weak_logged(m->rt, "kind is LOCO_WINDOW_DYNAMIC at rank 2 (here) and "
                                "LOCO_WINDOW_ALLOCATE at rank 0"), 1);
    CHECK_EQ(weak_logged(m->rt, "(here) and LOCO_WINDOW_DYNAMIC at rank 2"), 2);
    return 0;
}

Test(mistakes, both_sides_name_both_kinds)
{
    cr_assert_eq(member_run(RUN_WEAK, 3, told_body, NULL, NULL), 0);
}

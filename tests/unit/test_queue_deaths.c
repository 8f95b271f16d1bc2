/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"
#include "streams/queue.h"

/* A process dies somewhere in a call; the others use the queue on. */

#define SECOND INT64_C(1000000000)
#define CAPACITY 8
#define MEMBERS 4
#define VICTIM 2
#define ROUNDS 40

enum role {
    DIES_ASIDE, DIES_WAITING, DIES_WITH_PUSH_TICKET, DIES_WRITING, DIES_WITH_POP_TICKET,
    DIES_TAKING, DIES_CLOSING, DIES_WHILE_ONE_IS_LATE
};

struct scene {
    enum role role;
    enum run_fabric fabric;
    _Atomic int *met, *done;        /* who has met the others; who needs them no more */
};

/* Killed when its name is in the slot: with its ticket alone an entry would be lost. */
static int wait_or_kill(void *arg, int thread)
{
    loco_queue_t *q = arg;
    struct loci_queue_turn first;
    uint64_t entry, word = 0;

    if (thread == 0) {
        loco_queue_pop(q, &entry);
        return 0;
    }
    loci_queue_turn_begin(&first, q, false, 0);
    while (loci_queue_who(word) == 0) {
        usleep(1000);
        CHECK_OK(loci_read64(q->rt, first.mem, first.offset, &word, NULL));
    }
    kill(getpid(), SIGKILL);
    return 0;
}

/* What the victim did last. */
static int begin_a_call(loco_queue_t *q, enum role role)
{
    struct loci_queue_turn turn;
    uint64_t ticket = 0;

    switch (role) {
    case DIES_WAITING:
        return run_threads(2, wait_or_kill, q);
    case DIES_WITH_PUSH_TICKET:
    case DIES_WRITING:
        CHECK_OK(loco_atomic_var_fetch_add(q->tail, 1, &ticket));
        loci_queue_turn_begin(&turn, q, true, ticket);
        return role == DIES_WRITING ? loci_queue_claim(&turn) : 0;
    case DIES_WITH_POP_TICKET:
    case DIES_TAKING:
        CHECK_OK(loco_queue_push(q, &ticket));
        CHECK_OK(loco_atomic_var_fetch_add(q->head, 1, &ticket));
        loci_queue_turn_begin(&turn, q, false, ticket);
        return role == DIES_TAKING ? loci_queue_claim(&turn) : 0;
    case DIES_CLOSING:
        return loco_atomic_var_fetch_add(q->tail, LOCI_QUEUE_CLOSED, NULL);
    default:
        return 0;
    }
}

static int in_time(int status, int64_t start)
{
    if (run_too_long(start, 5 * SECOND)) {
        fprintf(stderr, "a call took %lld ms\n", (long long)((run_now() - start) / 1000000));
        return 1;
    }
    return status;
}

/* Nothing of the living is lost, and it stays in order. */
static int use_on(loco_queue_t *q)
{
    uint64_t got, lost = 0, expected = 0;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        CHECK_OK(in_time(loco_queue_push(q, &i), run_now()));
        if (i % 2 == 0)
            continue;
        for (int k = 0; k < 2; k++) {
            CHECK_OK(in_time(loco_queue_pop(q, &got), run_now()));
            CHECK(got >= expected);
            lost += got - expected;
            expected = got + 1;
        }
    }
    CHECK_EQ(lost, 0);
    CHECK_EQ(in_time(loco_queue_try_pop(q, &got), run_now()), LOCO_ERR_AGAIN);
    return 0;
}

/* A pop that lives, but has its ticket so long that its place is given up: it gets its entry. */
static int come_late(loco_queue_t *q)
{
    uint64_t got = 1, ticket, word;
    struct loci_queue_turn turn;
    loco_ack_t ack = LOCO_ACK_INIT;

    CHECK_OK(loco_queue_push(q, &(uint64_t){ 0 }));
    CHECK_OK(loco_atomic_var_fetch_add(q->head, 1, &ticket));
    loci_queue_turn_begin(&turn, q, false, ticket);
    do {
        usleep(1000);
        CHECK_OK(loci_read64(q->rt, turn.mem, turn.offset, &word, NULL));
    } while (loci_queue_state(word) == LOCI_QUEUE_FULL);
    CHECK_OK(loci_queue_claim(&turn));
    CHECK_OK(loci_read(q->rt, turn.mem, turn.offset + LOCI_QUEUE_ENTRY_AT, &got, sizeof got,
                       NULL));
    CHECK_EQ(got, 0);
    CHECK_OK(loci_queue_release(&turn, &ack));
    for (uint64_t i = 1; i <= CAPACITY; i++) {
        CHECK_OK(in_time(loco_queue_pop(q, &got), run_now()));
        CHECK_EQ(got, i);
    }
    return use_on(q);
}

/* The other one, who wants the place for its last entry. */
static int push_past(loco_queue_t *q)
{
    uint64_t head = 0;

    while (head == 0) {
        usleep(1000);
        CHECK_OK(loco_atomic_var_load(q->head, &head));
    }
    for (uint64_t i = 1; i <= CAPACITY; i++)
        CHECK_OK(in_time(loco_queue_push(q, &i), run_now()));
    return 0;
}

static int survive(loco_queue_t *q, const loco_group_t *all, int rank, enum role role)
{
    int64_t start = run_now();
    uint64_t entry;

    if (role == DIES_CLOSING) {
        CHECK_EQ(in_time(loco_queue_pop(q, &entry), start), LOCO_ERR_CLOSED);
        CHECK_EQ(in_time(loco_queue_push(q, &entry), run_now()), LOCO_ERR_CLOSED);
        return 0;
    }
    while (loco_group_alive(all, VICTIM) == LOCO_OK)
        usleep(1000);
    if (role == DIES_WHILE_ONE_IS_LATE)
        return rank == 1 ? come_late(q) : rank == 3 ? push_past(q) : 0;
    return rank == 1 ? use_on(q) : 0;
}

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct scene *s = arg;
    const loco_group_t *all = loco_everyone(rt);
    loco_queue_t *q;
    int result = 0;

    CHECK_OK(loco_queue_create(rt, NULL, "q", all, 8, CAPACITY, 0, &q));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    atomic_fetch_add(s->met, 1);
    if (rank == VICTIM) {
        CHECK_OK(run_await(s->met, MEMBERS));       /* who dies lets them leave the meeting */
        usleep(20000);
        CHECK_OK(begin_a_call(q, s->role));
        if (s->fabric == RUN_WEAK)
            weak_die(rt);
        else
            kill(getpid(), SIGKILL);
    } else {
        result = survive(q, all, rank, s->role);
        /* Nobody goes while others may need it. */
        atomic_fetch_add(s->done, 1);
        CHECK_OK(run_await(s->done, MEMBERS - 1));
    }
    loco_queue_destroy(q);
    return result;
}

static void die_on(enum run_fabric fabric, enum role role)
{
    struct scene s = {
        .role = role, .fabric = fabric, .met = run_counter(), .done = run_counter()
    };

    cr_assert_eq(run_on(fabric, MEMBERS, (uint64_t)role, NULL, death_body, &s), 0, "role %d",
                 role);
}

static void die_as(enum role role)
{
    die_on(RUN_SHM, role);
    die_on(RUN_WEAK, role);
}

Test(queue_deaths, go_on_without_the_dead, .timeout = RUN_SECONDS)
{
    die_as(DIES_ASIDE);
}

Test(queue_deaths, who_waited_takes_no_entry, .timeout = RUN_SECONDS)
{
    die_on(RUN_SHM, DIES_WAITING);
}

Test(queue_deaths, a_push_without_its_entry_is_passed_over, .timeout = RUN_SECONDS)
{
    die_as(DIES_WITH_PUSH_TICKET);
}

Test(queue_deaths, a_place_half_written_is_given_up, .timeout = RUN_SECONDS)
{
    die_as(DIES_WRITING);
}

Test(queue_deaths, a_place_that_nobody_empties_is_given_up, .timeout = RUN_SECONDS)
{
    die_as(DIES_WITH_POP_TICKET);
}

Test(queue_deaths, a_place_half_emptied_is_used_again, .timeout = RUN_SECONDS)
{
    die_as(DIES_TAKING);
}

Test(queue_deaths, the_end_is_found_without_the_closer, .timeout = RUN_SECONDS)
{
    die_as(DIES_CLOSING);
}

Test(queue_deaths, who_is_late_loses_nothing, .timeout = RUN_SECONDS)
{
    die_as(DIES_WHILE_ONE_IS_LATE);
}

/* ---- nobody is left, or not who is needed ---- */

static int alone_body(loco_runtime_t *rt, int rank, void *arg)
{
    int victim = *(int *)arg;
    const loco_group_t *all = loco_everyone(rt);
    uint64_t entry = 0;
    loco_queue_t *q;

    CHECK_OK(loco_queue_create(rt, NULL, "q", all, 8, 4, 0, &q));
    CHECK_OK(run_meet(rt));
    if (rank == victim) {
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    CHECK_EQ(in_time(loco_queue_pop(q, &entry), run_now()), LOCO_ERR_PEER_DEAD);
    if (victim == 0) {
        CHECK_EQ(in_time(loco_queue_push(q, &entry), run_now()), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(in_time(loco_queue_try_push(q, &entry), run_now()), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(in_time(loco_queue_try_pop(q, &entry), run_now()), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(in_time(loco_queue_close(q), run_now()), LOCO_ERR_PEER_DEAD);
    } else {
        CHECK_OK(use_on(q));        /* between its own threads it works on */
        while (loco_queue_try_push(q, &entry) == LOCO_OK)
            ;
        CHECK_EQ(in_time(loco_queue_push(q, &entry), run_now()), LOCO_ERR_PEER_DEAD);
    }
    loco_queue_destroy(q);
    return 0;
}

Test(queue_deaths, tells_when_nobody_is_left, .timeout = RUN_SECONDS)
{
    int victim = 1;

    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, alone_body, &victim), 0);
}

Test(queue_deaths, tells_when_head_and_tail_are_gone, .timeout = RUN_SECONDS)
{
    int victim = 0;

    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, alone_body, &victim), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, alone_body, &victim), 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

enum { MOST = 64 };

/* What a member of a test was given and told. */
struct seen {
    loco_view_t *view;
    loco_multicast_t *m;
    _Atomic int messages, ended, changes, members;
    _Atomic uint64_t number;
    uint64_t word[MOST], in_view[MOST];
};

static void take(void *arg, const loco_delivery_t *messages, int n)
{
    struct seen *s = arg;

    for (int i = 0; i < n; i++) {
        int at = s->messages;

        memcpy(&s->word[at], messages[i].data, 8);
        s->in_view[at] = loco_view_of(s->view, s->m, messages[i].number);
        s->messages = at + 1;
    }
    s->ended += n == 0;
}

static void changed(void *arg, uint64_t number, const int *members, int n)
{
    struct seen *s = arg;

    (void)members;
    s->number = number;
    s->members = n;
    s->changes++;
}

static int open_view(loco_runtime_t *rt, int flags, bool polls, struct seen *s)
{
    const loco_view_options_t options = { .flags = flags, .changed = changed, .arg = s };
    const loco_multicast_options_t o = { .slots = 4, .slot_bytes = 64,
                                         .handler = polls ? NULL : take, .arg = s };

    memset(s, 0, sizeof *s);
    CHECK_OK(loco_view_create(rt, NULL, "v", loco_everyone(rt), &options, &s->view));
    CHECK_OK(loco_view_multicast(s->view, "m", &o, &s->m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    return 0;
}

static int post(struct seen *s, uint64_t word, uint64_t *number)
{
    CHECK_OK(loco_multicast_post(s->m, &word, 8, number));
    return 0;
}

static int await(const struct seen *s, int messages)
{
    int64_t start = run_now();

    while (s->messages < messages)
        if (usleep(100), run_too_long(start, RUN_PATIENCE))
            return fprintf(stderr, "%d messages of %d\n", s->messages, messages), 1;
    return 0;
}

/* ---- what it refuses, and what it says ---- */

static int told_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_multicast_options_t o = { .slots = 1, .slot_bytes = 8 };
    int members[3] = { 9, 9, 9 }, n = 0;
    loco_multicast_t *m, *other;
    uint64_t number = 9;
    loco_view_t *v;

    (void)arg;
    (void)rank;
    CHECK_EQ(loco_view_create(rt, NULL, "v", NULL, NULL, &v), LOCO_ERR_ARG);
    CHECK_EQ(loco_view_create(rt, NULL, "v", all, &(loco_view_options_t){ .flags = 3 }, &v),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_view_create(rt, NULL, "v", all, &(loco_view_options_t){ .multicasts = 65 }, &v),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_view_create(rt, NULL, "v", all, &(loco_view_options_t){ .outside = 7 }, &v),
             LOCO_ERR_ARG);
    CHECK_OK(loco_view_create(rt, NULL, "v", all, &(loco_view_options_t){ .multicasts = 1 }, &v));
    CHECK_EQ(loco_view_create(rt, NULL, "v", all, NULL, &v), LOCO_ERR_NAME);
    o.flags = LOCO_MULTICAST_UNORDERED;
    CHECK_EQ(loco_view_multicast(v, "m", &o, &m), LOCO_ERR_ARG);
    o.flags = 0;
    CHECK_OK(loco_view_multicast(v, "m", &o, &m));
    CHECK_EQ(loco_view_multicast(v, "n", &o, &other), LOCO_ERR_FULL);
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    loco_multicast_destroy(m);      /* is the view's to do */
    CHECK_OK(loco_view_members(v, &number, members, &n));
    CHECK(number == 0 && n == 3 && members[0] == 0 && members[2] == 2);
    CHECK_OK(loco_view_members(v, NULL, NULL, NULL));
    CHECK_OK(loco_view_wait(v, 0, LOCO_FOREVER));
    CHECK_EQ(loco_view_wait(v, 1, 1000), LOCO_ERR_TIMEOUT);
    CHECK_EQ(loco_view_wait(v, 1, -7), LOCO_ERR_ARG);
    CHECK_EQ(loco_view_of(v, m, 12), 0);
    CHECK_OK(run_meet(rt));
    loco_view_destroy(v);
    loco_view_destroy(NULL);
    return 0;
}

Test(view, says_what_it_refuses, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, told_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, told_body, NULL), 0);
}

/* ---- a member dies ---- */

/* The last rank dies behind its message. What was under way, what a slot was reserved for before
 * and what is sent afterwards, all comes, by the same handle. */
static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    int victim = loco_group_size(loco_everyone(rt)) - 1, members[4], n;
    bool polls = *(bool *)arg;
    uint64_t number, delivered;
    loco_delivery_t got[4];
    struct seen s;
    void *slot;

    CHECK_EQ(open_view(rt, 0, polls, &s), 0);
    CHECK_EQ(post(&s, (uint64_t)rank, &number), 0);
    CHECK_OK(loco_multicast_reserve(s.m, &slot));
    while (polls && s.messages <= victim) {
        CHECK_OK(loco_multicast_next(s.m, LOCO_FOREVER, got, 4, &n));
        take(&s, got, n);
    }
    CHECK_EQ(await(&s, victim + 1), 0);
    CHECK_OK(run_meet(rt));
    if (rank == victim)
        kill(getpid(), SIGKILL);
    CHECK_OK(loco_view_wait(s.view, 1, LOCO_FOREVER));
    CHECK_OK(loco_view_members(s.view, &number, members, &n));
    CHECK(number == 1 && n == victim && members[victim - 1] == victim - 1);
    memcpy(slot, &(uint64_t){ 10 }, 8);
    CHECK_OK(loco_multicast_send(s.m, slot, 8, &number));
    CHECK_EQ(number, 2);
    while (polls && s.messages < 2 * victim + 1) {
        CHECK_OK(loco_multicast_next(s.m, LOCO_FOREVER, got, 4, &n));
        take(&s, got, n);
    }
    CHECK_EQ(await(&s, 2 * victim + 1), 0);
    CHECK(polls || (s.changes == 1 && s.number == 1 && s.members == victim));
    for (int i = 0; i < s.messages; i++)
        CHECK(s.in_view[i] == (i > victim) && (s.word[i] == 10) == (i > victim));
    CHECK_EQ(loco_multicast_delivered_by(s.m, victim, 0, &delivered), LOCO_ERR_PEER_DEAD);
    CHECK_OK(loco_multicast_delivered_by(s.m, 0, 0, &delivered));
    if (!polls)
        CHECK_OK(loco_multicast_wait_delivered(s.m, 2));
    usleep(20000);
    loco_view_destroy(s.view);
    return 0;
}

Test(view, goes_on_without_the_dead, .timeout = RUN_SECONDS)
{
    bool polls = false;

    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, death_body, &polls), 0);
    polls = true;
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, death_body, &polls), 0);
}

/* ---- callbacks that would wait for themselves ---- */

struct inside {
    loco_runtime_t *rt;
    loco_view_t *view;
    loco_multicast_t *m;
    _Atomic int handled, changed;       /* 1: as it should be; 2: not */
};

static int wait_in_changed(struct inside *in)
{
    uint64_t number = 0;
    int status;

    /* Two slots; the first message's may be free by now, or not. */
    while ((status = loco_multicast_post(in->m, "y", 1, &number)) == LOCO_OK)
        CHECK(number <= 3);
    CHECK_EQ(status, LOCO_ERR_AGAIN);
    CHECK(number >= 2);
    CHECK_EQ(loco_multicast_wait_delivered(in->m, number), LOCO_ERR_AGAIN);
    CHECK_OK(loco_view_wait(in->view, 1, LOCO_FOREVER));
    CHECK_EQ(loco_view_wait(in->view, 2, LOCO_FOREVER), LOCO_ERR_AGAIN);
    loco_view_destroy(in->view);
    return 0;
}

static void change_inside(void *arg, uint64_t number, const int *members, int n)
{
    struct inside *in = arg;

    (void)number;
    (void)members;
    if (n > 0)
        in->changed = 1 + wait_in_changed(in);
}

static int wait_in_handler(struct inside *in)
{
    loco_multicast_t *m;
    loco_view_t *v;

    CHECK_EQ(loco_view_wait(in->view, 1, LOCO_FOREVER), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_view_create(in->rt, NULL, "v", loco_everyone(in->rt), NULL, &v), LOCO_ERR_STATE);
    CHECK_EQ(loco_multicast_create(in->rt, NULL, "w", loco_everyone(in->rt), NULL, &m),
             LOCO_ERR_STATE);
    loco_view_destroy(in->view);
    return 0;
}

static void handle_inside(void *arg, const loco_delivery_t *messages, int n)
{
    struct inside *in = arg;

    (void)messages;
    if (n > 0 && in->handled == 0)
        in->handled = 1 + wait_in_handler(in);
}

static int await_it(const _Atomic int *what)
{
    int64_t start = run_now();

    while (atomic_load(what) == 0 && !run_too_long(start, RUN_PATIENCE))
        usleep(100);
    CHECK_EQ(atomic_load(what), 1);
    return 0;
}

static int inside_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct inside in = { .rt = rt };
    loco_multicast_t *late;
    const loco_view_options_t options = { .changed = change_inside, .arg = &in };
    const loco_multicast_options_t o = { .slots = 2, .slot_bytes = 8, .handler = handle_inside,
                                         .arg = &in };

    (void)arg;
    CHECK_OK(loco_view_create(rt, NULL, "v", loco_everyone(rt), &options, &in.view));
    CHECK_OK(loco_view_multicast(in.view, "m", &o, &in.m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0)
        CHECK_OK(loco_multicast_post(in.m, "x", 1, NULL));
    CHECK_EQ(await_it(&in.handled), 0);
    CHECK_OK(run_meet(rt));
    if (rank == 1)
        kill(getpid(), SIGKILL);
    CHECK_EQ(await_it(&in.changed), 0);
    CHECK_EQ(loco_view_multicast(in.view, "late", &o, &late), LOCO_ERR_PEER_DEAD);
    CHECK_OK(loco_view_wait(in.view, 1, LOCO_FOREVER));     /* which goes on */
    loco_view_destroy(in.view);
    return 0;
}

Test(view, waits_for_no_callback_of_its_own, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, inside_body, NULL), 0);
}

/* ---- a member leaves ---- */

static int leave_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seen s;
    uint64_t number;

    (void)arg;
    CHECK_EQ(open_view(rt, LOCO_VIEW_MAJORITY, false, &s), 0);
    CHECK_EQ(post(&s, (uint64_t)rank, NULL), 0);
    CHECK_EQ(await(&s, 3), 0);
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        loco_view_destroy(s.view);
    else
        CHECK_OK(loco_view_wait(s.view, 1, LOCO_FOREVER));
    /* One of the two that are left goes: who says that it goes is not one that a majority lacks. */
    CHECK_OK(run_meet(rt));
    if (rank == 1)
        loco_view_destroy(s.view);
    if (rank == 2) {
        CHECK_OK(loco_view_wait(s.view, 2, LOCO_FOREVER));
        CHECK_EQ(post(&s, 7, &number), 0);
        CHECK_OK(loco_multicast_wait_delivered(s.m, number));
        loco_view_destroy(s.view);
        CHECK_EQ(s.messages, 4);
    }
    CHECK_OK(run_meet(rt));
    return 0;
}

Test(view, goes_on_without_who_leaves, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, leave_body, NULL), 0);
    for (uint64_t seed = 1; seed <= 5; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, leave_body, NULL), 0);
}

/* ---- no majority ---- */

static int minority_body(loco_runtime_t *rt, int rank, void *arg)
{
    int64_t start;
    struct seen s;
    void *slot;

    (void)arg;
    CHECK_EQ(open_view(rt, LOCO_VIEW_MAJORITY, false, &s), 0);
    CHECK_OK(run_meet(rt));
    if (rank == 1)
        kill(getpid(), SIGKILL);
    CHECK_EQ(loco_view_wait(s.view, 1, LOCO_FOREVER), LOCO_ERR_PARTITIONED);
    CHECK_EQ(loco_view_members(s.view, NULL, NULL, NULL), LOCO_ERR_PARTITIONED);
    CHECK_EQ(loco_multicast_post(s.m, "x", 1, NULL), LOCO_ERR_PARTITIONED);
    CHECK_EQ(loco_multicast_reserve(s.m, &slot), LOCO_ERR_PARTITIONED);
    for (start = run_now(); s.ended == 0 || s.changes == 0;)
        CHECK(!run_too_long(start, RUN_PATIENCE));
    CHECK(s.changes == 1 && s.members == 0 && s.ended == 1);
    loco_view_destroy(s.view);
    return 0;
}

Test(view, ends_without_a_majority_if_asked, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, minority_body, NULL), 0);
}

/* ---- who comes ---- */

enum { COMERS = 3, STATE = 1 << 20 };       /* bytes of state behind its two words */

/* The state is how many messages there were, and their sum. */
struct comer {
    struct seen s;
    _Atomic uint64_t count, sum;
    _Atomic int saved, loaded, wrong;
    unsigned char bytes[16 + STATE];
};

static void add(void *arg, const loco_delivery_t *messages, int n)
{
    struct comer *c = arg;

    for (int i = 0; i < n; i++) {
        uint64_t word;

        memcpy(&word, messages[i].data, 8);
        c->sum += word;
        c->count++;         /* last: who sees it sees the sum */
    }
    c->s.messages += n;
}

static size_t save(void *arg, uint64_t at, void *chunk, size_t room)
{
    struct comer *c = arg;
    size_t n = sizeof c->bytes - (size_t)at;

    if (at == 0) {
        memcpy(c->bytes, (uint64_t[]){ c->count, c->sum }, 16);
        for (size_t i = 0; i < STATE; i++)
            c->bytes[16 + i] = (unsigned char)(i * 7);
    }
    n = n < room ? n : room;
    memcpy(chunk, c->bytes + at, n);
    c->saved += n == 0;
    return n;
}

static void load(void *arg, uint64_t at, const void *chunk, size_t bytes)
{
    struct comer *c = arg;
    uint64_t words[2];

    if (at + bytes > sizeof c->bytes) {
        c->wrong++;
        return;
    }
    memcpy(c->bytes + at, chunk, bytes);
    if (bytes > 0)
        return;
    c->wrong += at != sizeof c->bytes;
    memcpy(words, c->bytes, sizeof words);
    c->sum = words[1];
    c->count = words[0];
    for (size_t i = 0; i < STATE; i++)
        c->wrong += c->bytes[16 + i] != (unsigned char)(i * 7);
    c->loaded++;
}

static int await_count(struct comer *c, uint64_t count, uint64_t sum)
{
    int64_t start = run_now();

    while (c->count < count)
        if (usleep(100), run_too_long(start, RUN_PATIENCE))
            return fprintf(stderr, "%d messages of %d\n", (int)c->count, (int)count), 1;
    CHECK(c->count == count && c->sum == sum && c->wrong == 0);
    return 0;
}

/* The last comes with the state of three messages, the first goes out and comes again with that of
 * seven; what it sent while it was out waits. */
static int come_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct comer *c = calloc(1, sizeof *c);
    const loco_view_options_t options = { .changed = changed, .arg = c, .outside = 4,
                                          .save = save, .load = load, .chunk = 10000 };
    const loco_multicast_options_t o = { .slots = 4, .slot_bytes = 64, .handler = add, .arg = c };
    int members[COMERS], n;
    uint64_t number;

    (void)arg;
    CHECK(c != NULL);
    CHECK_OK(loco_view_create(rt, NULL, "v", loco_everyone(rt), &options, &c->s.view));
    CHECK_OK(loco_view_multicast(c->s.view, "m", &o, &c->s.m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_view_members(c->s.view, &number, members, &n));
    CHECK(number == 0 && n == 2 && members[1] == 1);
    if (rank == 2)
        CHECK_EQ(loco_view_leave(c->s.view, 0), LOCO_OK);       /* it is so */
    for (uint64_t i = 1; i <= 3 && rank == 0; i++)
        CHECK_EQ(post(&c->s, i, NULL), 0);
    if (rank < 2)
        CHECK_EQ(await_count(c, 3, 6), 0);
    CHECK_OK(run_meet(rt));
    CHECK_EQ(post(&c->s, 10, NULL), 0);
    if (rank == 2)
        CHECK_OK(loco_view_join(c->s.view, LOCO_FOREVER));
    CHECK_OK(loco_view_wait(c->s.view, 1, LOCO_FOREVER));
    CHECK_EQ(await_count(c, 6, 36), 0);
    CHECK(c->loaded == (rank == 2) && c->s.members == 3);
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_OK(loco_view_leave(c->s.view, LOCO_FOREVER));
    CHECK_OK(loco_view_wait(c->s.view, 2, LOCO_FOREVER));
    CHECK_OK(loco_view_members(c->s.view, &number, members, &n));
    CHECK(number == 2 && n == 2 && members[0] == 1);
    if (rank == 1)
        CHECK_EQ(post(&c->s, 100, NULL), 0);
    if (rank > 0)
        CHECK_EQ(await_count(c, 7, 136), 0);
    CHECK_OK(run_meet(rt));
    CHECK_EQ(post(&c->s, 1000, NULL), 0);
    if (rank == 0)
        CHECK_OK(loco_view_join(c->s.view, LOCO_FOREVER));
    CHECK_EQ(await_count(c, 10, 3136), 0);
    CHECK(c->loaded == (rank != 1));
    CHECK_OK(run_meet(rt));
    loco_view_destroy(c->s.view);
    free(c);
    return 0;
}

Test(view, takes_in_who_comes_with_the_state, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, COMERS, 1, NULL, come_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, COMERS, 1, NULL, come_body, NULL), 0);
}

/* ---- asleep ---- */

#define IDLE_US 300000

static int64_t used_us(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * INT64_C(1000000) + r.ru_utime.tv_usec
           + r.ru_stime.tv_usec;
}

/* Its thread uses nobody's core while nothing changes, also after a change. */
static int idle_body(loco_runtime_t *rt, int rank, void *arg)
{
    int64_t least = INT64_MAX;
    struct seen s;

    (void)arg;
    CHECK_EQ(open_view(rt, 0, false, &s), 0);
    CHECK_OK(run_meet(rt));
    if (rank == 2)
        kill(getpid(), SIGKILL);
    CHECK_OK(loco_view_wait(s.view, 1, LOCO_FOREVER));
    for (int i = 0; i < 3; i++) {
        int64_t us;

        usleep(50000);
        us = used_us();
        usleep(IDLE_US);
        us = used_us() - us;
        least = us < least ? us : least;
    }
    CHECK(least * 1000 < run_limit(IDLE_US * INT64_C(1000) / 100));
    loco_view_destroy(s.view);
    return 0;
}

Test(view, sleeps_while_nothing_changes, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, idle_body, NULL), 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <loco/loco.h>

#include "multicast/multicast_parts.h"
#include "run.h"

#define BATCH 16

static int open_one(loco_runtime_t *rt, const loco_multicast_options_t *o, uint64_t first,
                    loco_multicast_t **m)
{
    const struct loci_multicast_tuning tuning = { .first = first };

    CHECK_OK(loci_multicast_create(rt, NULL, "m", loco_everyone(rt), o, &tuning, m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    return 0;
}

/* ---- one message after the other, polled ---- */

static int told_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_multicast_options_t o = {
        .senders = (int[]){ 1 }, .nsenders = 1, .slots = 3, .slot_bytes = 40,
        .flags = *(int *)arg,
    };
    loco_delivery_t got[4];
    loco_multicast_t *m;
    uint64_t first = 0, last = 0;
    int n = -1, total = 0, senders, slots;
    size_t bytes;
    void *slot[4];

    CHECK_EQ(open_one(rt, &o, 0, &m), 0);
    loco_multicast_sizes(m, &senders, &slots, &bytes);
    CHECK(senders == 1 && slots == 3 && bytes == 40);
    CHECK_EQ(loco_multicast_poll(m, got, 4, &n), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_multicast_next(m, 1000, got, 4, &n), LOCO_ERR_TIMEOUT);
    CHECK_EQ(loco_multicast_poll(m, got, 0, &n), LOCO_ERR_ARG);
    CHECK_EQ(loco_multicast_next(m, -7, got, 4, &n), LOCO_ERR_ARG);
    CHECK_EQ(n, -1);
    CHECK_OK(run_meet(rt));
    if (rank == 1) {
        CHECK_OK(loco_multicast_is_delivered(m, 0));
        CHECK_EQ(loco_multicast_is_delivered(m, 1), LOCO_ERR_ARG);
        CHECK_EQ(loco_multicast_post(m, "x", 41, NULL), LOCO_ERR_ARG);
        CHECK_OK(loco_multicast_post(m, "one", 4, &first));
        CHECK_OK(loco_multicast_try_post(m, NULL, 0, NULL));
        CHECK_OK(loco_multicast_reserve(m, &slot[0]));
        CHECK_EQ((uintptr_t)slot[0] % 16, 0);
        CHECK_EQ(loco_multicast_try_reserve(m, &slot[1]), LOCO_ERR_AGAIN);
        strcpy(slot[0], "three");
        CHECK_EQ(loco_multicast_send(m, slot[0], 41, NULL), LOCO_ERR_ARG);
        CHECK_EQ(loco_multicast_send(m, (char *)slot[0] + 1, 1, NULL), LOCO_ERR_ARG);
        CHECK_OK(loco_multicast_send(m, slot[0], 6, &last));
        CHECK_EQ(loco_multicast_send(m, slot[0], 6, &last), LOCO_ERR_STATE);
        CHECK(first == 1 && last == 3);
        CHECK_EQ(loco_multicast_is_delivered(m, first), LOCO_IN_PROGRESS);
    } else {
        CHECK_EQ(loco_multicast_post(m, "x", 1, NULL), LOCO_ERR_STATE);
        CHECK_EQ(loco_multicast_reserve(m, &slot[0]), LOCO_ERR_STATE);
        CHECK_EQ(loco_multicast_is_delivered(m, 0), LOCO_ERR_STATE);
    }
    for (; total < 3; total += n) {
        static const char *const texts[] = { "one", "", "three" };

        CHECK_OK(loco_multicast_next(m, LOCO_FOREVER, got, 2, &n));
        CHECK(n >= 1 && n <= 2);
        for (int i = 0; i < n; i++) {
            CHECK_EQ(got[i].sender, 1);
            CHECK_EQ(got[i].number, (uint64_t)(total + i));
            CHECK_EQ((uintptr_t)got[i].data % 16, 0);
            CHECK(got[i].bytes == (total + i == 1 ? 0 : strlen(texts[total + i]) + 1));
            CHECK(memcmp(got[i].data, texts[total + i], got[i].bytes) == 0);
        }
    }
    /* Only now are the last ones delivered here. */
    CHECK_EQ(loco_multicast_poll(m, got, 4, &n), LOCO_ERR_AGAIN);
    if (rank == 1)
        CHECK_OK(loco_multicast_wait_delivered(m, last));
    CHECK_OK(loco_multicast_delivered_by(m, rank, 0, &first));
    CHECK_EQ(first, 3);
    CHECK_EQ(loco_multicast_delivered_by(m, 9, 0, &first), LOCO_ERR_ARG);
    CHECK_OK(run_meet(rt));
    loco_multicast_destroy(m);
    return 0;
}

Test(multicast, tells_all_members, .timeout = RUN_SECONDS)
{
    for (int flags = 0; flags < 4; flags++) {
        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, told_body, &flags), 0);
        cr_assert_eq(run_on(RUN_WEAK, 4, 2, NULL, told_body, &flags), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 2, NULL, told_body, &flags), 0);
    }
}

/* ---- many, from all, to handlers ---- */

struct stream {
    loco_runtime_t *rt;
    loco_multicast_t *m;
    int rank, threads, rounds, senders, slots, flags, polls;
    uint64_t first, last;               /* numbers */
    _Atomic uint64_t hash, sum[8];      /* of all messages; each rank's hash, when it has all */
    _Atomic int received, sums, wrong, ended;
};

#define SUM 0xffffffffu                 /* a message that tells a hash */

static uint64_t mix(uint64_t a)
{
    a = (a ^ a >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return a ^ a >> 27;
}

/* Words that follow from the first. */
static size_t make(uint64_t *to, int rank, int thread, int i)
{
    size_t n;

    to[0] = (uint64_t)rank << 48 | (uint64_t)thread << 32 | (uint64_t)(unsigned)i;
    n = 1 + mix(to[0]) % 7;
    for (size_t k = 1; k < n; k++)
        to[k] = mix(to[0] + k);
    return 8 * n;
}

static void take(void *arg, const loco_delivery_t *messages, int n)
{
    struct stream *s = arg;

    if (n == 0)
        atomic_store(&s->ended, 1);
    /* Of their slots enough are left to go on with. */
    if (s->slots > 0 && !s->polls && (s->flags & LOCO_MULTICAST_COPY) == 0
        && n > (s->slots * s->senders < 4 ? 1 : s->slots * s->senders / 4))
        atomic_fetch_add(&s->wrong, 1);
    for (int i = 0; i < n; i++) {
        const uint64_t *words = messages[i].data;
        size_t bytes = messages[i].bytes;

        if ((unsigned)words[0] == SUM) {
            atomic_store(&s->sum[messages[i].sender], words[1]);
            atomic_fetch_add(&s->sums, 1);
            continue;
        }
        for (size_t k = 1; k < bytes / 8; k++)
            if (words[k] != mix(words[0] + k))
                atomic_fetch_add(&s->wrong, 1);
        if ((int)(words[0] >> 48) != messages[i].sender
            || (atomic_load(&s->received) > 0 && messages[i].number <= s->last
                && (s->flags & LOCO_MULTICAST_UNORDERED) == 0))
            atomic_fetch_add(&s->wrong, 1);
        s->last = messages[i].number;
        atomic_store(&s->hash, mix(atomic_load(&s->hash) + words[0]));
        atomic_fetch_add(&s->received, 1);
    }
}

static int poll_some(struct stream *s)
{
    loco_delivery_t got[BATCH];
    int n, status = loco_multicast_poll(s->m, got, BATCH, &n);

    if (status == LOCO_ERR_AGAIN)
        return 0;
    CHECK_OK(status);
    take(s, got, n);
    return 0;
}

/* What has to wait for this thread's own polling. */
#define UNTIL_DONE(s, call)                                                                       \
    do {                                                                                          \
        int done_;                                                                                \
        while ((done_ = (call)) == LOCO_ERR_AGAIN)                                                \
            CHECK_EQ((s)->polls ? poll_some(s) : sched_yield(), 0);                               \
        CHECK_OK(done_);                                                                          \
    } while (0)

static int send_some(void *arg, int thread)
{
    struct stream *s = arg;
    uint64_t words[8], number = 0, last = 0;
    void *slot;

    for (int i = 0; i < s->rounds; i++) {
        size_t bytes;

        if (i % 3 == 0) {
            UNTIL_DONE(s, loco_multicast_reserve(s->m, &slot));
            bytes = make(slot, s->rank, thread, i);
            CHECK_OK(loco_multicast_send(s->m, slot, bytes, &number));
        } else {
            bytes = make(words, s->rank, thread, i);
            UNTIL_DONE(s, loco_multicast_post(s->m, words, bytes, &number));
        }
        CHECK(number > last);
        last = number;
        if (i % 50 == 49)
            UNTIL_DONE(s, loco_multicast_wait_delivered(s->m, number));
    }
    return 0;
}

/* All have all, in one order: their hashes are the same. */
static int compare(struct stream *s)
{
    int total = s->senders * s->threads * s->rounds;
    uint64_t sum[2] = { SUM, 0 };

    while (atomic_load(&s->received) < total)
        CHECK_EQ(s->polls ? poll_some(s) : sched_yield(), 0);
    /* What was shown last is delivered now: others may wait for that. */
    CHECK_EQ(s->polls ? poll_some(s) : 0, 0);
    sum[1] = atomic_load(&s->hash);
    CHECK_EQ(atomic_load(&s->received), total);
    CHECK_OK(run_meet(s->rt));
    if (s->rank < s->senders)
        UNTIL_DONE(s, loco_multicast_post(s->m, sum, sizeof sum, NULL));
    while (atomic_load(&s->sums) < s->senders)
        CHECK_EQ(s->polls ? poll_some(s) : sched_yield(), 0);
    for (int i = 0; i < s->senders; i++)
        CHECK((s->flags & LOCO_MULTICAST_UNORDERED) != 0 || atomic_load(&s->sum[i]) == sum[1]);
    CHECK_EQ(atomic_load(&s->wrong), 0);
    CHECK_EQ(atomic_load(&s->ended), 0);
    return 0;
}

static int stream_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct stream s = *(struct stream *)arg;
    const loco_multicast_options_t o = {
        .senders = (int[]){ 0, 1, 2, 3 }, .nsenders = s.senders, .slots = s.slots,
        .slot_bytes = 64, .flags = s.flags, .handler = s.polls ? NULL : take, .arg = &s,
    };
    loco_multicast_stats_t stats;

    s.rt = rt;
    s.rank = rank;
    CHECK_EQ(open_one(rt, &o, s.first, &s.m), 0);
    if (rank < s.senders)
        CHECK_OK(run_threads(s.threads, send_some, &s));
    CHECK_EQ(compare(&s), 0);
    loco_multicast_stats(s.m, &stats);
    CHECK_EQ(stats.delivered, (uint64_t)(s.senders * (s.threads * s.rounds + 1)));
    CHECK_EQ(stats.sent, rank < s.senders ? (uint64_t)(s.threads * s.rounds + 1) : 0);
    CHECK(s.senders > 1 || stats.nulls == 0);
    if (s.polls)
        CHECK_EQ(poll_some(&s), 0);     /* what was shown last is delivered then */
    CHECK_OK(run_meet(rt));
    loco_multicast_destroy(s.m);
    return 0;
}

Test(multicast, all_get_the_same_in_the_same_order, .timeout = RUN_SECONDS)
{
    struct stream s = { .rounds = run_rounds(200), .threads = 1, .senders = 3, .slots = 20 };

    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, stream_body, &s), 0);
    s.first = (UINT64_C(1) << 32) - 30;
    s.threads = 2;
    cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, stream_body, &s), 0);
    s.rounds = run_rounds(2000);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, stream_body, &s), 0);
    s.senders = 1;
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stream_body, &s), 0);
    s.senders = 2;
    s.flags = LOCO_MULTICAST_COPY;
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stream_body, &s), 0);
    s.flags = LOCO_MULTICAST_UNORDERED;
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, stream_body, &s), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 3, NULL, stream_body, &s), 0);
}

Test(multicast, members_may_poll, .timeout = RUN_SECONDS)
{
    struct stream s = { .rounds = run_rounds(200), .threads = 1, .senders = 3, .slots = 5,
                        .polls = 1 };

    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, stream_body, &s), 0);
    s.rounds = run_rounds(2000);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, stream_body, &s), 0);
    s.slots = 1;
    s.senders = 2;
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, stream_body, &s), 0);
    s.senders = 1;
    s.flags = LOCO_MULTICAST_COPY;
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, stream_body, &s), 0);
}

/* ---- handlers that send ---- */

struct echo {
    loco_multicast_t *m;
    int rank;
    _Atomic int received, refused;
};

/* Each message of rank 0 is answered by all others, who have room for that. */
static void answer(void *arg, const loco_delivery_t *messages, int n)
{
    struct echo *e = arg;

    for (int i = 0; i < n; i++) {
        if (messages[i].sender == 0 && e->rank != 0
            && loco_multicast_post(e->m, messages[i].data, messages[i].bytes, NULL) != LOCO_OK)
            atomic_fetch_add(&e->refused, 1);
        atomic_fetch_add(&e->received, 1);
    }
}

static int echo_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct echo e = { .rank = rank };
    const loco_multicast_options_t o = { .slots = 64, .slot_bytes = 8, .handler = answer,
                                         .arg = &e };
    int members = loco_group_size(loco_everyone(rt));
    loco_delivery_t got;

    (void)arg;
    CHECK_EQ(open_one(rt, &o, 0, &e.m), 0);
    CHECK_EQ(loco_multicast_poll(e.m, &got, 1, &(int){ 0 }), LOCO_ERR_STATE);
    for (int i = 0; i < 64 && rank == 0; i++)
        CHECK_OK(loco_multicast_post(e.m, &i, sizeof i, NULL));
    while (atomic_load(&e.received) < 64 * members)
        sched_yield();
    CHECK_OK(run_meet(rt));
    CHECK(atomic_load(&e.received) == 64 * members && atomic_load(&e.refused) == 0);
    loco_multicast_destroy(e.m);
    return 0;
}

Test(multicast, handlers_may_send, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, echo_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, echo_body, NULL), 0);
}

/* ---- mistakes ---- */

static int mistakes_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_multicast_t *m = NULL;

    (void)rank;
    (void)arg;
#define REFUSED(...)                                                                              \
    CHECK_EQ(loco_multicast_create(rt, NULL, "m", all, &(loco_multicast_options_t){ __VA_ARGS__ },\
                                   &m), LOCO_ERR_ARG)
    REFUSED(.senders = (int[]){ 0, 2 }, .nsenders = 2);
    REFUSED(.senders = (int[]){ 1, 1 }, .nsenders = 2);
    REFUSED(.senders = (int[]){ 0 }, .nsenders = 0);
    REFUSED(.senders = (int[]){ 0, 1, 1 }, .nsenders = 3);
    REFUSED(.slots = -1);
    REFUSED(.slots = (1 << 20) + 1);
    REFUSED(.slot_bytes = ((size_t)1 << 30) + 1);
    REFUSED(.flags = 4);
    CHECK_EQ(loco_multicast_create(rt, NULL, "m", NULL, NULL, &m), LOCO_ERR_ARG);
    CHECK(m == NULL);
    loco_multicast_destroy(NULL);
    return 0;
}

Test(multicast, refuses_bad_options)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, mistakes_body, NULL), 0);
}

/* Members differ in what they make: all are told. */
static int differ_body(loco_runtime_t *rt, int rank, void *arg)
{
    int which = *(int *)arg;
    const loco_multicast_options_t o = {
        .senders = (int[]){ rank == 0 && which == 0, 1 - (rank == 0 && which == 0) },
        .nsenders = 2, .slots = 10 + (rank == 0 && which == 1), .slot_bytes = 100,
        .flags = rank == 0 && which == 2 ? LOCO_MULTICAST_UNORDERED : 0,
    };
    loco_multicast_t *m;

    CHECK_OK(loco_multicast_create(rt, NULL, "m", loco_everyone(rt), &o, &m));
    CHECK_EQ(loco_runtime_wait_ready(rt, LOCO_FOREVER), LOCO_ERR_MISMATCH);
    loco_multicast_destroy(m);
    return 0;
}

Test(multicast, members_must_agree)
{
    for (int which = 0; which < 3; which++)
        cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, differ_body, &which), 0);
}

/* ---- death, sleep ---- */

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct stream s = { .rt = rt, .rank = rank, .senders = 3, .polls = rank == 1 };
    const loco_multicast_options_t o = {
        .slots = 4, .slot_bytes = 64, .handler = s.polls ? NULL : take, .arg = &s,
    };
    uint64_t words[8], number = 0, known;
    loco_delivery_t got[BATCH];
    int n, status;

    CHECK_EQ(open_one(rt, &o, 0, &s.m), 0);
    CHECK_OK(loco_multicast_post(s.m, words, make(words, rank, 0, 0), &number));
    while (atomic_load(&s.received) < 3)
        CHECK_EQ(s.polls ? poll_some(&s) : sched_yield(), 0);
    CHECK_EQ(s.polls ? poll_some(&s) : 0, 0);
    CHECK_EQ(run_meet_alive(rt, arg), 0);
    if (rank == 2)
        kill(getpid(), SIGKILL);
    if (s.polls) {
        do
            status = loco_multicast_next(s.m, LOCO_FOREVER, got, BATCH, &n);
        while (status == LOCO_OK);
    } else {
        do
            status = loco_multicast_post(s.m, words, make(words, rank, 0, 1), &number);
        while (status == LOCO_OK);
        while (atomic_load(&s.ended) == 0)
            sched_yield();
    }
    CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_multicast_post(s.m, words, 8, NULL), LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_multicast_wait_delivered(s.m, number), number == 1 ? LOCO_OK
                                                                     : LOCO_ERR_PEER_DEAD);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(loco_multicast_delivered_by(s.m, i, 0, &known));
        CHECK(i != rank || known >= 3);
    }
    loco_multicast_destroy(s.m);
    return 0;
}

Test(multicast, a_death_ends_it_at_all, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, death_body, run_counter()), 0);
}

#define IDLE_US 1000000
#define IDLE_MULTICASTS 50

/* CPU time of this process. */
static int64_t used_us(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * INT64_C(1000000) + r.ru_utime.tv_usec
           + r.ru_stime.tv_usec;
}

static int make_idle(loco_runtime_t *rt, int rank, struct stream *s)
{
    char name[16];

    for (int i = 0; i < IDLE_MULTICASTS; i++) {
        const loco_multicast_options_t o = { .slots = 4, .slot_bytes = 64, .handler = take,
                                             .arg = &s[i] };

        s[i] = (struct stream){ .rt = rt, .rank = rank, .senders = 2 };
        snprintf(name, sizeof name, "m%d", i);
        CHECK_OK(loco_multicast_create(rt, NULL, name, loco_everyone(rt), &o, &s[i].m));
    }
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    return 0;
}

/* Nobody's core is used while nothing comes, whatever the number of multicasts: at most 1 % of it.
 * Then a message arrives at each all the same. */
static int idle_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct stream s[IDLE_MULTICASTS];
    uint64_t words[8];
    int64_t least = INT64_MAX;

    (void)arg;
    CHECK_EQ(make_idle(rt, rank, s), 0);
    for (int i = 0; i < 3; i++) {
        int64_t us;

        usleep(50000);
        us = used_us();
        usleep(IDLE_US);
        us = used_us() - us;
        least = us < least ? us : least;
        for (int k = 0; k < IDLE_MULTICASTS; k++)
            CHECK_OK(loco_multicast_post(s[k].m, words, make(words, rank, 0, i), NULL));
        for (int k = 0; k < IDLE_MULTICASTS; k++)
            while (atomic_load(&s[k].received) < 2 * (i + 1))
                sched_yield();
    }
    CHECK(least * 1000 < run_limit(IDLE_US * INT64_C(1000) / 100));
    CHECK_OK(run_meet(rt));
    for (int k = IDLE_MULTICASTS; k-- > 0;)
        loco_multicast_destroy(s[k].m);
    return 0;
}

Test(multicast, sleeps_while_nothing_comes, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, idle_body, NULL), 0);
}

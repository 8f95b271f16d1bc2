/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

static int open_ring(loco_runtime_t *rt, int writer, size_t capacity, int flags,
                     loco_ringbuffer_t **rb)
{
    CHECK_OK(loco_ringbuffer_create(rt, NULL, "r", loco_everyone(rt), writer, capacity, flags,
                                    rb));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    return 0;
}

/* ---- one message after the other ---- */

static int told_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t first = 0, second = 0;
    loco_ringbuffer_part_t some[4];
    loco_ringbuffer_t *rb;
    const void *message;
    char buffer[8];
    size_t bytes;
    int n = -1;

    CHECK_OK(open_ring(rt, 1, 100, *(int *)arg, &rb));
    CHECK_EQ(loco_ringbuffer_capacity(rb), 100);
    CHECK_EQ(loco_ringbuffer_writer(rb), 1);
    if (rank == 1) {
        CHECK_OK(run_meet(rt));
        CHECK_OK(loco_ringbuffer_acknowledged(rb, 0));
        CHECK_EQ(loco_ringbuffer_acknowledged(rb, 1), LOCO_ERR_ARG);
        CHECK_OK(loco_ringbuffer_send(rb, "one", 4, &first));
        CHECK_OK(loco_ringbuffer_send(rb, NULL, 0, NULL));
        CHECK_OK(loco_ringbuffer_try_send(rb, "three!!!", 9, &second));
        CHECK(second > first);
        CHECK_EQ(loco_ringbuffer_acknowledged(rb, second), LOCO_IN_PROGRESS);
        CHECK_OK(run_meet(rt));
        CHECK_OK(loco_ringbuffer_wait_acknowledged(rb, second));
        CHECK_OK(loco_ringbuffer_acknowledged(rb, first));
    } else {
        CHECK_EQ(loco_ringbuffer_peek(rb, &message, &bytes), LOCO_ERR_AGAIN);
        CHECK_EQ(loco_ringbuffer_next(rb, 1000, &message, &bytes), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_ringbuffer_receive(rb, 0, buffer, 8, NULL), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_ringbuffer_release(rb, 1), LOCO_ERR_STATE);
        CHECK_OK(run_meet(rt));
        CHECK_OK(run_meet(rt));
        CHECK_OK(loco_ringbuffer_next(rb, LOCO_FOREVER, &message, &bytes));
        CHECK_EQ(bytes, 4);
        CHECK(strcmp(message, "one") == 0 && (uintptr_t)message % 8 == 0);
        CHECK_OK(loco_ringbuffer_peek_many(rb, some, 4, &n));
        while (n < 3)
            CHECK_OK(loco_ringbuffer_peek_many(rb, some, 4, &n));
        CHECK_EQ(n, 3);
        CHECK_EQ(some[1].bytes, 0);
        CHECK(some[2].bytes == 9 && strcmp(some[2].data, "three!!!") == 0);
        CHECK_OK(loco_ringbuffer_release(rb, 1));
        CHECK_OK(loco_ringbuffer_receive(rb, 0, NULL, 0, &bytes));
        CHECK_EQ(bytes, 0);
        CHECK_EQ(loco_ringbuffer_release(rb, 2), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_receive(rb, 0, buffer, 8, &bytes), LOCO_ERR_RANGE);
        CHECK_OK(loco_ringbuffer_release(rb, 1));
        CHECK_EQ(loco_ringbuffer_peek(rb, &message, &bytes), LOCO_ERR_AGAIN);
    }
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, tells_all_readers)
{
    for (int flags = 0; flags < 2; flags++) {
        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, told_body, &flags), 0);
        cr_assert_eq(run_on(RUN_WEAK, 4, 2, NULL, told_body, &flags), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 2, NULL, told_body, &flags), 0);
    }
}

/* ---- many, of all sizes, by several threads ---- */

#define CAPACITY 700

struct stream {
    loco_runtime_t *rt;
    loco_ringbuffer_t *rb;
    int rank, rounds, senders, receivers, flags;
    _Atomic int received, seen[4];      /* in all; the last of each sender */
};

static unsigned mix(unsigned a)
{
    a = (a ^ a >> 16) * 0x45d9f3bu;
    return (a ^ a >> 16) * 0x45d9f3bu;
}

/* Message i of a sender: its words, then bytes that follow from them. */
static size_t make(unsigned char *to, int sender, int i)
{
    unsigned key = mix((unsigned)(sender * 1000003 + i));
    size_t bytes = 8 + (key % 16 == 0 ? CAPACITY - 8 : key % 64);

    memcpy(to, &(int[]){ sender, i }, 8);
    for (size_t k = 8; k < bytes; k++)
        to[k] = (unsigned char)(key >> k % 24);
    return bytes;
}

static int check(struct stream *s, const unsigned char *message, size_t bytes, bool in_order)
{
    unsigned char expected[CAPACITY];
    int head[2];

    CHECK(bytes >= 8);
    memcpy(head, message, 8);
    CHECK(head[0] >= 0 && head[0] < s->senders);
    CHECK_EQ(make(expected, head[0], head[1]), bytes);
    CHECK(memcmp(message, expected, bytes) == 0);
    if (in_order)
        CHECK_EQ(atomic_exchange(&s->seen[head[0]], head[1] + 1), head[1]);
    atomic_fetch_add(&s->received, 1);
    return 0;
}

static int send_some(void *arg, int sender)
{
    struct stream *s = arg;
    unsigned char message[5][CAPACITY];
    loco_ringbuffer_part_t parts[5];
    uint64_t number = 0, last = 0;

    for (int i = 0; i < s->rounds;) {
        int n = (int)(mix((unsigned)i) % 5) + 1, status;

        n = n > s->rounds - i ? s->rounds - i : n;
        for (int k = 0; k < n; k++)
            parts[k] = (loco_ringbuffer_part_t){ message[k], make(message[k], sender, i + k) };
        if (n > 1) {
            CHECK_OK(loco_ringbuffer_send_many(s->rb, parts, n, &number));
        } else if (i % 2 == 0) {
            CHECK_OK(loco_ringbuffer_send(s->rb, message[0], parts[0].bytes, &number));
        } else {
            while ((status = loco_ringbuffer_try_send(s->rb, message[0], parts[0].bytes,
                                                      &number)) == LOCO_ERR_AGAIN)
                sched_yield();
            CHECK_OK(status);
        }
        CHECK(number > last);
        last = number;
        i += n;
        if (i % 7 == 0)
            CHECK_OK(loco_ringbuffer_wait_acknowledged(s->rb, number));
    }
    return 0;
}

static int receive_some(void *arg, int thread)
{
    struct stream *s = arg;
    unsigned char message[CAPACITY];
    size_t bytes;

    (void)thread;
    while (atomic_load(&s->received) < s->senders * s->rounds) {
        int status = loco_ringbuffer_receive(s->rb, 2000000, message, sizeof message, &bytes);

        if (status != LOCO_ERR_TIMEOUT) {
            CHECK_OK(status);
            CHECK_OK(check(s, message, bytes, s->receivers == 1));
        }
    }
    return 0;
}

static int read_in_place(struct stream *s)
{
    loco_ringbuffer_part_t some[3];

    while (atomic_load(&s->received) < s->senders * s->rounds) {
        const void *message;
        size_t bytes;
        int n, which = -1;

        CHECK_OK(loco_ringbuffer_wait_any(&s->rb, 1, LOCO_FOREVER, &which));
        CHECK_EQ(which, 0);
        CHECK_OK(loco_ringbuffer_next(s->rb, LOCO_FOREVER, &message, &bytes));
        CHECK_OK(loco_ringbuffer_peek_many(s->rb, some, 3, &n));
        CHECK(some[0].data == message && some[0].bytes == bytes);
        for (int i = 0; i < n; i++)
            CHECK_OK(check(s, some[i].data, some[i].bytes, true));
        CHECK_OK(loco_ringbuffer_release(s->rb, n));
    }
    return 0;
}

static int stream_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct stream s = *(struct stream *)arg;

    s.rt = rt;
    CHECK_OK(open_ring(rt, 0, CAPACITY, s.flags, &s.rb));
    if (rank == 0)
        CHECK_OK(run_threads(s.senders, send_some, &s));
    else if (rank % 2 == 0)
        CHECK_OK(read_in_place(&s));
    else
        CHECK_OK(run_threads(s.receivers, receive_some, &s));
    CHECK(rank == 0 || atomic_load(&s.received) == s.senders * s.rounds);
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(s.rb);
    return 0;
}

Test(ringbuffer, loses_doubles_and_tears_nothing, .timeout = RUN_SECONDS)
{
    for (int flags = 0; flags < 2; flags++) {
        struct stream s = { .rounds = run_rounds(250), .senders = 1, .receivers = 1,
                            .flags = flags };

        cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, stream_body, &s), 0);
        s.senders = 2;
        cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, stream_body, &s), 0);
        s.rounds = run_rounds(1500);
        cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, stream_body, &s), 0);
        s.senders = 3;
        s.receivers = 3;
        cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stream_body, &s), 0);
    }
}

/* ---- room ---- */

/* With the buffer empty, a message of any size goes, wherever the last one ended. */
static int room_body(loco_runtime_t *rt, int rank, void *arg)
{
    char message[333] = { 0 };
    loco_ringbuffer_t *rb;
    size_t bytes;

    (void)arg;
    CHECK_OK(open_ring(rt, 0, sizeof message, LOCO_RINGBUFFER_AWAKE, &rb));
    for (size_t i = 0; i < 400; i++) {
        if (rank == 0) {
            uint64_t number;

            CHECK_OK(loco_ringbuffer_try_send(rb, message, i * 37 % 333, NULL));
            CHECK_OK(loco_ringbuffer_try_send(rb, message, 333 - i * 37 % 333, &number));
            CHECK_OK(loco_ringbuffer_wait_acknowledged(rb, number));
            CHECK_OK(loco_ringbuffer_try_send(rb, message, 333, &number));
            CHECK_OK(loco_ringbuffer_wait_acknowledged(rb, number));
        } else {
            for (int k = 0; k < 3; k++)
                CHECK_OK(loco_ringbuffer_receive(rb, LOCO_FOREVER, message, 333, &bytes));
            CHECK_EQ(bytes, 333);
        }
    }
    /* Full: a try fails, and succeeds again after a release. */
    if (rank == 0) {
        int sent = 0, status;

        while ((status = loco_ringbuffer_try_send(rb, message, 333, NULL)) == LOCO_OK)
            sent++;
        CHECK_EQ(status, LOCO_ERR_AGAIN);
        CHECK(sent >= 1 && sent <= 3);
        CHECK_OK(run_meet(rt));
        CHECK_OK(run_meet(rt));
        CHECK_OK(loco_ringbuffer_try_send(rb, message, 333, NULL));
    } else {
        CHECK_OK(run_meet(rt));
        while (loco_ringbuffer_receive(rb, 0, message, 333, &bytes) == LOCO_OK)
            CHECK_EQ(bytes, 333);
        CHECK_OK(run_meet(rt));
    }
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, has_room_for_what_it_promises)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, room_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, room_body, NULL), 0);
}

/* ---- several ring buffers ---- */

static int several_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt)), sum = 0, which = -1;
    loco_ringbuffer_t *all[4], *theirs[4];
    char name[16];

    (void)arg;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "r%d", i);
        CHECK_OK(loco_ringbuffer_create(rt, "rings", name, loco_everyone(rt), i, 64,
                                        LOCO_RINGBUFFER_SLEEP, &all[i]));
    }
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 0, k = 0; i < n; i++)
        if (i != rank)
            theirs[k++] = all[i];
    CHECK_EQ(loco_ringbuffer_wait_any(theirs, n - 1, 1000, &(int){ n - 1 }), LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_wait_any(all, n, 1000, &which), LOCO_ERR_STATE);
    CHECK_EQ(loco_ringbuffer_wait_any(theirs, n - 1, 1000, &which), LOCO_ERR_TIMEOUT);
    CHECK_EQ(which, -1);
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 10; i++)
        CHECK_OK(loco_ringbuffer_send(all[rank], &(int){ i + 1 }, sizeof(int), NULL));
    for (int i = 0; i < 10 * (n - 1); i++) {
        int got;

        CHECK_OK(loco_ringbuffer_wait_any(theirs, n - 1, LOCO_FOREVER, &which));
        CHECK_OK(loco_ringbuffer_receive(theirs[which], 0, &got, sizeof got, NULL));
        sum += got;
    }
    CHECK_EQ(sum, 55 * (n - 1));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < n; i++)
        loco_ringbuffer_destroy(all[i]);
    return 0;
}

Test(ringbuffer, one_thread_reads_several)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, several_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, several_body, NULL), 0);
}

/* ---- sleep ---- */

static int64_t cpu_time(void)
{
    struct rusage used;

    getrusage(RUSAGE_THREAD, &used);
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000
           + (int64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

#define NAPS 5
#define NAP_US 100000
#define ROUNDS 3

/* What a round of naps and messages costs this thread. */
static int nap(loco_ringbuffer_t *rb, int rank, int64_t *cost)
{
    int64_t before = cpu_time();
    int got, which = -1;

    for (int i = 0; i < NAPS; i++) {
        if (rank == 0) {
            usleep(NAP_US);
            CHECK_OK(loco_ringbuffer_send(rb, &i, sizeof i, NULL));
            continue;
        }
        if (i % 2 == 0)
            CHECK_OK(loco_ringbuffer_wait_any(&rb, 1, LOCO_FOREVER, &which));
        CHECK_OK(loco_ringbuffer_receive(rb, LOCO_FOREVER, &got, sizeof got, NULL));
        CHECK_EQ(got, i);
    }
    *cost = cpu_time() - before;
    return 0;
}

/* Whoever waits for long costs next to nothing, and is woken by each message, and by a death. Who
 * is on a core while a virtual machine stands still seems to have run then: not in each round. */
static int sleep_body(loco_runtime_t *rt, int rank, void *arg)
{
    int64_t cost, least = INT64_MAX;
    loco_ringbuffer_t *rb;
    int got;

    (void)arg;
    CHECK_OK(open_ring(rt, 0, 64, LOCO_RINGBUFFER_SLEEP, &rb));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(nap(rb, rank, &cost), 0);
        least = cost < least ? cost : least;
    }
    usleep(rank == 0 ? NAP_US : 0);
    if (rank == 0)
        kill(getpid(), SIGKILL);
    CHECK_EQ(loco_ringbuffer_receive(rb, LOCO_FOREVER, &got, sizeof got, NULL),
             LOCO_ERR_PEER_DEAD);
    CHECK(least < run_limit(NAPS * NAP_US * INT64_C(1000) / 10));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, readers_sleep_and_are_woken)
{
    const char *const no_page[] = { "LOCO_OFFERS=never", NULL };

    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, sleep_body, NULL), 0);
    /* The bell is in no memory that others reach. */
    cr_assert_eq(run_on(RUN_SHM, 3, 1, no_page, sleep_body, NULL), 0);
}

static int timeout_body(loco_runtime_t *rt, int rank, void *arg)
{
    int64_t start = run_now(), before;
    loco_ringbuffer_t *rb;
    int got;

    (void)arg;
    CHECK_OK(open_ring(rt, 0, 64, LOCO_RINGBUFFER_SLEEP, &rb));
    before = cpu_time();
    if (rank != 0)
        CHECK_EQ(loco_ringbuffer_receive(rb, 300000000, &got, sizeof got, NULL),
                 LOCO_ERR_TIMEOUT);
    CHECK(rank == 0 || run_now() - start >= 300000000);
    CHECK(cpu_time() - before < run_limit(30000000));
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, a_sleep_ends_in_time)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, timeout_body, NULL), 0);
}

/* Messages of which each is sent when its reader may be about to sleep: by pauses of all lengths
 * about LOCO_SLEEP_AFTER. One that is missed would end this by its time limit. */
static int drowsy_body(loco_runtime_t *rt, int rank, void *arg)
{
    int rounds = *(int *)arg, got;
    loco_ringbuffer_t *there, *back;

    CHECK_OK(loco_ringbuffer_create(rt, NULL, "there", loco_everyone(rt), 0, 64, 0, &there));
    CHECK_OK(loco_ringbuffer_create(rt, NULL, "back", loco_everyone(rt), 1, 64, 0, &back));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 0; i < rounds; i++) {
        int64_t start = run_now();

        if (rank == 0)
            CHECK_OK(loco_ringbuffer_send(there, &i, sizeof i, NULL));
        CHECK_OK(loco_ringbuffer_receive(rank == 0 ? back : there, LOCO_FOREVER, &got,
                                         sizeof got, NULL));
        CHECK_EQ(got, i);
        while (run_now() - start < i % 40 * 100)
            ;
        if (rank == 1)
            CHECK_OK(loco_ringbuffer_send(back, &i, sizeof i, NULL));
    }
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(there);
    loco_ringbuffer_destroy(back);
    return 0;
}

Test(ringbuffer, wakes_the_drowsy, .timeout = RUN_SECONDS)
{
    const char *const soon[] = { "LOCO_SLEEP_AFTER=1us", "LOCO_SPIN=10", NULL };
    const char *const by_message[] = { "LOCO_SLEEP_AFTER=1us", "LOCO_OFFERS=never", NULL };
    int rounds = run_rounds(3000);

    cr_assert_eq(run_on(RUN_SHM, 2, 1, soon, drowsy_body, &rounds), 0);
    rounds = run_rounds(500);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, by_message, drowsy_body, &rounds), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, soon, drowsy_body, &rounds), 0);
}

/* ---- deaths ---- */

/* Of three readers, one dies at once, one having read two messages; the third reads all. */
static int readers_die_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ringbuffer_t *rb;
    char message[64] = { 0 };
    uint64_t number;
    int status;

    CHECK_OK(open_ring(rt, 0, sizeof message, LOCO_RINGBUFFER_SLEEP, &rb));
    CHECK_OK(run_meet(rt));
    atomic_fetch_add((_Atomic int *)arg, 1);
    CHECK_OK(run_await(arg, 4));            /* all are out of it */
    if (rank == 1)
        kill(getpid(), SIGKILL);
    if (rank == 0) {
        for (int i = 0; i < 100; i++)
            CHECK_OK(loco_ringbuffer_send(rb, message, sizeof message, &number));
        CHECK_EQ(loco_ringbuffer_wait_acknowledged(rb, number), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_ringbuffer_acknowledged(rb, number), LOCO_ERR_PEER_DEAD);
        /* The last one ends after the message that says so. */
        CHECK_OK(loco_ringbuffer_send(rb, "end", 4, NULL));
        do
            status = loco_ringbuffer_send(rb, message, sizeof message, NULL);
        while (status == LOCO_OK);
        CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_ringbuffer_try_send(rb, message, 1, NULL), LOCO_ERR_PEER_DEAD);
        loco_ringbuffer_destroy(rb);
        return 0;
    }
    for (int i = 0; strcmp(message, "end") != 0; i++) {
        CHECK_OK(loco_ringbuffer_receive(rb, LOCO_FOREVER, message, sizeof message, NULL));
        if (rank == 2 && i == 1)
            kill(getpid(), SIGKILL);
        CHECK(i <= 100);
    }
    kill(getpid(), SIGKILL);
    return 1;
}

static int writer_dies_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ringbuffer_t *rb;
    const void *message;
    size_t bytes;
    int got, which = -1;

    CHECK_OK(open_ring(rt, 0, 64, LOCO_RINGBUFFER_SLEEP, &rb));
    CHECK_OK(run_meet(rt));
    atomic_fetch_add((_Atomic int *)arg, 1);
    if (rank == 0) {
        for (int i = 0; i < 5; i++)
            CHECK_OK(loco_ringbuffer_send(rb, &i, sizeof i, NULL));
        CHECK_OK(run_await(arg, 3));
        kill(getpid(), SIGKILL);
    }
    usleep(rank == 1 ? 100000 : 0);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(loco_ringbuffer_receive(rb, LOCO_FOREVER, &got, sizeof got, NULL));
        CHECK_EQ(got, i);
    }
    CHECK_OK(loco_ringbuffer_wait_any(&rb, 1, LOCO_FOREVER, &which));
    CHECK_EQ(loco_ringbuffer_receive(rb, LOCO_FOREVER, &got, sizeof got, NULL),
             LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_ringbuffer_peek(rb, &message, &bytes), LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_ringbuffer_next(rb, LOCO_FOREVER, &message, &bytes), LOCO_ERR_PEER_DEAD);
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, dead_readers_hold_up_nobody, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, readers_die_body, run_counter()), 0);
}

Test(ringbuffer, a_dead_writer_is_told_after_its_messages, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, writer_dies_body, run_counter()), 0);
}

/* ---- wrong use ---- */

static int refused_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_ringbuffer_part_t two[2] = { { "a", 1 }, { "b", 65 } };
    loco_ringbuffer_t *rb;
    const void *message;
    size_t bytes;
    int n;

    (void)arg;
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "r", NULL, 0, 64, 0, &rb), LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "r", all, 2, 64, 0, &rb), LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "r", all, -1, 64, 0, &rb), LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "r", all, 0, 0, 0, &rb), LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "r", all, 0, ((size_t)1 << 30) + 1, 0, &rb),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "r", all, 0, 64, 2, &rb), LOCO_ERR_ARG);
    CHECK_EQ(loco_ringbuffer_create(rt, NULL, "", all, 0, 64, 0, &rb), LOCO_ERR_NAME);
    CHECK_OK(open_ring(rt, 0, 64, 0, &rb));
    if (rank == 0) {
        CHECK_EQ(loco_ringbuffer_send(rb, "", 65, NULL), LOCO_ERR_ARG);
        CHECK_EQ(loco_ringbuffer_send_many(rb, two, 2, NULL), LOCO_ERR_ARG);
        CHECK_EQ(loco_ringbuffer_send_many(rb, two, -1, NULL), LOCO_ERR_ARG);
        CHECK_OK(loco_ringbuffer_send_many(rb, two, 0, NULL));
        CHECK_EQ(loco_ringbuffer_peek(rb, &message, &bytes), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_next(rb, 0, &message, &bytes), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_receive(rb, 0, two, 1, &bytes), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_release(rb, 0), LOCO_ERR_STATE);
    } else {
        CHECK_EQ(loco_ringbuffer_peek_many(rb, two, 0, &n), LOCO_ERR_ARG);
        CHECK_EQ(loco_ringbuffer_release(rb, -1), LOCO_ERR_ARG);
        CHECK_OK(loco_ringbuffer_release(rb, 0));
        CHECK_EQ(loco_ringbuffer_peek(rb, &message, &bytes), LOCO_ERR_AGAIN);
        CHECK_EQ(loco_ringbuffer_send(rb, "", 0, NULL), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_try_send(rb, "", 0, NULL), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_acknowledged(rb, 0), LOCO_ERR_STATE);
        CHECK_EQ(loco_ringbuffer_wait_acknowledged(rb, 0), LOCO_ERR_STATE);
    }
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, wrong_use_is_refused)
{
    loco_ringbuffer_destroy(NULL);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, refused_body, NULL), 0);
}

/* Who writes alone waits for nobody. */
static int alone_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ringbuffer_t *rb;
    char message[64] = { 0 };
    uint64_t number;

    (void)rank;
    (void)arg;
    CHECK_OK(open_ring(rt, 0, 64, 0, &rb));
    for (int i = 0; i < 100; i++)
        CHECK_OK(loco_ringbuffer_send(rb, message, 64, &number));
    CHECK_OK(loco_ringbuffer_wait_acknowledged(rb, number));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(ringbuffer, needs_no_readers)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, alone_body, NULL), 0);
}

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
#include "streams/mailbox.h"

#define LONG ((size_t)300000)

static int open_box(loco_runtime_t *rt, int receiver, const loco_mailbox_options_t *options,
                    loco_mailbox_t **box)
{
    CHECK_OK(loco_mailbox_create(rt, NULL, "box", loco_everyone(rt), receiver, options, box));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    return 0;
}

static void fill(unsigned char *to, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

static bool is_filled(const unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (unsigned char)(seed + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* ---- one message after the other ---- */

static int send_some(loco_mailbox_t *box, unsigned char *big)
{
    loco_mailbox_stats_t stats;

    CHECK_OK(loco_mailbox_send(box, "one", 4));
    CHECK_OK(loco_mailbox_send(box, NULL, 0));
    CHECK_OK(loco_mailbox_try_send(box, "three", 6));
    CHECK_EQ(loco_mailbox_send(box, NULL, 3), LOCO_ERR_ARG);
    CHECK_EQ(loco_mailbox_send(box, big, ((size_t)1 << 56) + 5), LOCO_ERR_ARG);
    fill(big, LONG, 9);
    CHECK_EQ(loco_mailbox_try_send(box, big, LONG), LOCO_ERR_RANGE);
    CHECK_OK(loco_mailbox_send(box, big, LONG));
    memset(big, 0, LONG);           /* it has been read */
    CHECK_EQ(loco_mailbox_receive(box, 0, big, LONG, NULL, NULL), LOCO_ERR_STATE);
    loco_mailbox_stats(box, &stats);
    CHECK_EQ(stats.sent, 4);
    CHECK_EQ(stats.told, 1);
    return 0;
}

static int receive_some(loco_mailbox_t *box, unsigned char *big)
{
    loco_mailbox_stats_t stats;
    size_t bytes = 99;
    int from = -1;

    CHECK_OK(loco_mailbox_receive(box, LOCO_FOREVER, big, LONG, &from, &bytes));
    CHECK(from == 1 && bytes == 4 && strcmp((char *)big, "one") == 0);
    CHECK_OK(loco_mailbox_receive(box, LOCO_FOREVER, NULL, 0, &from, &bytes));
    CHECK_EQ(bytes, 0);
    while (loco_mailbox_try_receive(box, big, 2, &from, &bytes) == LOCO_ERR_AGAIN)
        ;
    CHECK_EQ(loco_mailbox_receive(box, 0, big, 2, &from, &bytes), LOCO_ERR_RANGE);
    CHECK_EQ(bytes, 6);
    CHECK_OK(loco_mailbox_receive(box, 0, big, 6, NULL, NULL));
    CHECK(strcmp((char *)big, "three") == 0);
    CHECK_OK(loco_mailbox_receive(box, LOCO_FOREVER, big, LONG, &from, &bytes));
    CHECK(bytes == LONG && is_filled(big, LONG, 9));
    CHECK_EQ(loco_mailbox_try_receive(box, big, LONG, NULL, NULL), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_mailbox_receive(box, 1000, big, LONG, NULL, NULL), LOCO_ERR_TIMEOUT);
    CHECK_EQ(loco_mailbox_receive(box, 0, NULL, 1, NULL, NULL), LOCO_ERR_ARG);
    loco_mailbox_stats(box, &stats);
    CHECK_EQ(stats.received, 4);
    CHECK_EQ(stats.read, 1);
    /* To itself: copies alone. */
    CHECK_OK(loco_mailbox_send(box, "me", 3));
    CHECK_EQ(loco_mailbox_send(box, big, LONG), LOCO_ERR_RANGE);
    CHECK_OK(loco_mailbox_receive(box, 0, big, 3, &from, NULL));
    CHECK(from == 0 && strcmp((char *)big, "me") == 0);
    return 0;
}

static int some_body(loco_runtime_t *rt, int rank, void *arg)
{
    unsigned char *big = malloc(LONG);
    loco_mailbox_t *box;
    int failed = 0;

    (void)arg;
    CHECK(big != NULL);
    CHECK_EQ(open_box(rt, 0, NULL, &box), 0);
    if (rank < 2)
        failed = rank == 0 ? receive_some(box, big) : send_some(box, big);
    CHECK_OK(run_meet(rt));
    loco_mailbox_destroy(box);
    free(big);
    return failed;
}

Test(mailbox, one_message_after_the_other)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, some_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, some_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, some_body, NULL), 0);
}

/* One that is too long for the buffer is met by the next call, though others have come since. */
static int again_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_mailbox_t *box;
    char buffer[8];
    size_t bytes;
    int from;

    (void)arg;
    CHECK_EQ(open_box(rt, 0, NULL, &box), 0);
    if (rank == 2)
        CHECK_OK(loco_mailbox_send(box, "two", 4));
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_EQ(loco_mailbox_receive(box, 0, buffer, 1, &from, &bytes), LOCO_ERR_RANGE);
    CHECK_OK(run_meet(rt));
    if (rank == 1)
        CHECK_OK(loco_mailbox_send(box, "one", 4));
    CHECK_OK(run_meet(rt));
    for (int expected = 2; rank == 0 && expected > 0; expected--) {
        CHECK_OK(loco_mailbox_receive(box, 0, buffer, sizeof buffer, &from, &bytes));
        CHECK_EQ(from, expected);
    }
    CHECK_OK(run_meet(rt));
    loco_mailbox_destroy(box);
    return 0;
}

Test(mailbox, too_long_a_message_is_met_again)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, again_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, again_body, NULL), 0);
}

/* ---- memory that no sender writes so ---- */

static void write_record(loco_mailbox_t *box, uint64_t word, uint64_t tail)
{
    unsigned char *p = loci_mem_ptr(loci_mail_mem(box));

    loci_store64(p + loci_mail_place(box, 1, 0), word);
    loci_store64(p + loci_mail_place(box, 1, 8), loci_mail_record_check(word, 0));
    loci_store64(p + loci_mail_line(1) + LOCI_MAIL_TAIL, tail);
}

/* A record that is not whole counts as none, for as long as the caller says and no longer. One that
 * is the first piece of what needs no pieces is an error. */
static int astray_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_mailbox_t *box;
    char buffer[8];

    (void)arg;
    CHECK_EQ(open_box(rt, 0, NULL, &box), 0);
    if (rank == 0) {
        write_record(box, loci_mail_kind_word(LOCI_MAIL_COPIED, 100), LOCI_MAIL_HEADER);
        CHECK_EQ(loco_mailbox_try_receive(box, buffer, 8, NULL, NULL), LOCO_ERR_AGAIN);
        CHECK_EQ(loco_mailbox_receive(box, 1000000, buffer, 8, NULL, NULL), LOCO_ERR_TIMEOUT);
        write_record(box, loci_mail_kind_word(LOCI_MAIL_FIRST, 5),
                     loci_mail_space(loci_mail_most(box)));
        CHECK_EQ(loco_mailbox_receive(box, 0, buffer, 8, NULL, NULL), LOCO_ERR_PROTOCOL);
    }
    CHECK_OK(run_meet(rt));
    loco_mailbox_destroy(box);
    return 0;
}

Test(mailbox, records_that_no_sender_writes)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, astray_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, astray_body, NULL), 0);
}

/* ---- bad arguments ---- */

static int mistakes_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_mailbox_options_t odd = { .ring_bytes = 1000 }, small = { .ring_bytes = 256 };
    loco_mailbox_t *box;

    (void)rank;
    (void)arg;
    CHECK_EQ(loco_mailbox_create(rt, NULL, "box", all, 2, NULL, &box), LOCO_ERR_ARG);
    CHECK_EQ(loco_mailbox_create(rt, NULL, "box", all, 0, &odd, &box), LOCO_ERR_ARG);
    CHECK_EQ(loco_mailbox_create(rt, NULL, "box", all, 0, &small, &box), LOCO_ERR_ARG);
    CHECK_EQ(loco_mailbox_create(rt, NULL, "", all, 0, NULL, &box), LOCO_ERR_NAME);
    CHECK_EQ(loco_mailbox_create(rt, NULL, "box", NULL, 0, NULL, &box), LOCO_ERR_ARG);
    loco_mailbox_destroy(NULL);
    return 0;
}

Test(mailbox, mistakes_are_refused)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, mistakes_body, NULL), 0);
}

static int alone_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_mailbox_t *box;

    (void)rank;
    (void)arg;
    CHECK_EQ(loco_mailbox_create(rt, NULL, "box", loco_everyone(rt), 0, NULL, &box),
             LOCO_ERR_ARG);
    return 0;
}

Test(mailbox, needs_two_members)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, alone_body, NULL), 0);
}

/* A ring that is full, and one that has room again. */
static int full_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_mailbox_options_t options = { .ring_bytes = 1024,
                                             .straight = LOCO_MAILBOX_COPY_ALL };
    unsigned char message[600];
    loco_mailbox_t *box;
    int sent = 0;

    (void)arg;
    CHECK_EQ(open_box(rt, 0, &options, &box), 0);
    if (rank == 1) {
        CHECK_EQ(loco_mailbox_try_send(box, message, 512 - 16 + 1), LOCO_ERR_RANGE);
        fill(message, 112, 0);
        while (loco_mailbox_try_send(box, message, 112) == LOCO_OK)
            sent++;
        CHECK_EQ(sent, 8);
        CHECK_EQ(loco_mailbox_try_send(box, message, 0), LOCO_ERR_AGAIN);
        CHECK_OK(run_meet(rt));
        CHECK_OK(run_meet(rt));
        fill(message, 240, 1);
        CHECK_OK(loco_mailbox_try_send(box, message, 240));
    } else {
        CHECK_OK(run_meet(rt));
        for (int i = 0; i < 2; i++)
            CHECK_OK(loco_mailbox_receive(box, 0, message, 112, NULL, NULL));
        CHECK(is_filled(message, 112, 0));
        CHECK_OK(run_meet(rt));
    }
    CHECK_OK(run_meet(rt));
    for (int i = 0; rank == 0 && i < 7; i++)
        CHECK_OK(loco_mailbox_receive(box, 0, message, sizeof message, NULL, NULL));
    if (rank == 0)
        CHECK(is_filled(message, 240, 1));
    CHECK_OK(run_meet(rt));
    loco_mailbox_destroy(box);
    return 0;
}

Test(mailbox, says_when_it_is_full)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, full_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, full_body, NULL), 0);
}

/* ---- many, of all sizes, by several threads ---- */

#define THREADS 2
#define MOST 40000

struct stream {
    loco_runtime_t *rt;
    loco_mailbox_t *box;
    int rank, size, rounds;
    _Atomic int received;
    uint64_t seen[8][THREADS][4];       /* a bit for each message */
};

static unsigned mix(unsigned a)
{
    a = (a ^ a >> 16) * 0x45d9f3bu;
    return (a ^ a >> 16) * 0x45d9f3bu;
}

/* Message i: who, which, and bytes that follow from that. */
static size_t make(unsigned char *to, int rank, int thread, int i)
{
    unsigned key = mix((unsigned)((rank * THREADS + thread) * 1000 + i));
    size_t bytes = 12 + (key % 8 == 0 ? key % (MOST - 12) : key % 200);

    memcpy(to, (int[]){ rank, thread, i }, 12);
    fill(to + 12, bytes - 12, key);
    return bytes;
}

static int send_stream(void *arg, int thread)
{
    struct stream *s = arg;
    unsigned char *message = malloc(MOST);

    CHECK(message != NULL);
    for (int i = 0; i < s->rounds; i++) {
        size_t bytes = make(message, s->rank, thread, i);

        CHECK_OK(loco_mailbox_send(s->box, message, bytes));
        memset(message, 0xee, bytes);
    }
    free(message);
    return 0;
}

static int check(struct stream *s, const unsigned char *message, size_t bytes, int from)
{
    unsigned char *expected = malloc(MOST);
    int who[3];
    bool same;

    CHECK(expected != NULL && bytes >= 12);
    memcpy(who, message, 12);
    CHECK(who[0] == from && who[1] >= 0 && who[1] < THREADS && who[2] >= 0
          && who[2] < s->rounds);
    same = make(expected, who[0], who[1], who[2]) == bytes
           && memcmp(expected, message, bytes) == 0;
    free(expected);
    CHECK(same);
    CHECK((s->seen[from][who[1]][who[2] / 64] >> who[2] % 64 & 1) == 0);
    s->seen[from][who[1]][who[2] / 64] |= UINT64_C(1) << who[2] % 64;
    /* In its order. */
    CHECK(who[2] == 0
          || (s->seen[from][who[1]][(who[2] - 1) / 64] >> (who[2] - 1) % 64 & 1) == 1);
    return 0;
}

static int stream_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_mailbox_options_t *options = arg;
    struct stream s = { .rt = rt, .rank = rank, .size = loco_group_size(loco_everyone(rt)),
                        .rounds = 200 };
    unsigned char *message = malloc(MOST);
    size_t bytes;
    int from;

    CHECK(message != NULL);
    CHECK_EQ(open_box(rt, 1, options, &s.box), 0);
    if (rank != 1) {
        CHECK_EQ(run_threads(THREADS, send_stream, &s), 0);
    } else {
        for (int i = 0; i < (s.size - 1) * THREADS * s.rounds; i++) {
            CHECK_OK(loco_mailbox_receive(s.box, LOCO_FOREVER, message, MOST, &from, &bytes));
            CHECK_EQ(check(&s, message, bytes, from), 0);
        }
        CHECK_EQ(loco_mailbox_try_receive(s.box, message, MOST, NULL, NULL), LOCO_ERR_AGAIN);
    }
    CHECK_OK(run_meet(rt));
    loco_mailbox_destroy(s.box);
    free(message);
    return 0;
}

Test(mailbox, many_by_several_threads)
{
    loco_mailbox_options_t small = { .ring_bytes = 1024, .straight = 100 };
    loco_mailbox_options_t copies = { .ring_bytes = 128 << 10, .straight = LOCO_MAILBOX_COPY_ALL };
    loco_mailbox_options_t pieces = { .ring_bytes = 4096, .straight = LOCO_MAILBOX_COPY_ALL };

    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stream_body, &small), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, stream_body, &copies), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stream_body, &pieces), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, stream_body, &small), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, stream_body, &pieces), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 2, NULL, stream_body, &copies), 0);
}

/* ---- deaths ---- */

/* A sender dies: what it has sent is there; then nobody is left. */
static int sender_dies_body(loco_runtime_t *rt, int rank, void *arg)
{
    _Atomic int *met = arg;
    char buffer[16];
    loco_mailbox_t *box;
    int from;

    CHECK_EQ(open_box(rt, 0, NULL, &box), 0);
    CHECK_EQ(run_meet_alive(rt, met), 0);
    if (rank != 0) {
        for (int i = 0; i < 100; i++)
            CHECK_OK(loco_mailbox_send(box, &i, sizeof i));
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 100; i++) {
        CHECK_OK(loco_mailbox_receive(box, LOCO_FOREVER, buffer, sizeof buffer, &from, NULL));
        CHECK(from == 1 && memcmp(buffer, &i, sizeof i) == 0);
    }
    CHECK_EQ(loco_mailbox_receive(box, LOCO_FOREVER, buffer, sizeof buffer, NULL, NULL),
             LOCO_ERR_PEER_DEAD);
    loco_mailbox_destroy(box);
    return 0;
}

/* The receiver dies, with a long message told of, and with no room. */
static int receiver_dies_body(loco_runtime_t *rt, int rank, void *arg)
{
    _Atomic int *met = arg;
    unsigned char *big = calloc(1, LONG);
    loco_mailbox_t *box;
    int status = LOCO_OK;

    CHECK(big != NULL);
    CHECK_EQ(open_box(rt, 0, NULL, &box), 0);
    CHECK_EQ(run_meet_alive(rt, met), 0);
    if (rank == 0) {
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    while (status == LOCO_OK)
        status = loco_mailbox_send(box, big, rank == 1 ? LONG : 1000);
    CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
    loco_mailbox_destroy(box);
    free(big);
    return 0;
}

Test(mailbox, ends_with_its_members)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, sender_dies_body, run_counter()), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, receiver_dies_body, run_counter()), 0);
}

/* ---- sleep ---- */

#define NAPS 5
#define NAP_US 100000
#define ROUNDS 3

static int64_t cpu_time(void)
{
    struct rusage used;

    getrusage(RUSAGE_THREAD, &used);
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000
           + (int64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

/* Whoever waits for long costs next to nothing, and is woken: the receiver by each message, a
 * sender when its message has been read. Not in each round: who is on a core while a virtual
 * machine stands still seems to have run then. */
static int sleep_body(loco_runtime_t *rt, int rank, void *arg)
{
    unsigned char *big = calloc(1, LONG);
    int64_t cost, least = INT64_MAX;
    loco_mailbox_t *box;

    (void)arg;
    CHECK(big != NULL);
    CHECK_EQ(open_box(rt, 0, NULL, &box), 0);
    CHECK_OK(run_meet(rt));
    for (int round = 0; round < ROUNDS; round++) {
        cost = cpu_time();
        for (int i = 0; i < NAPS; i++) {
            if (rank == i % 2)
                usleep(NAP_US);
            if (rank == 0)
                CHECK_OK(loco_mailbox_receive(box, LOCO_FOREVER, big, LONG, NULL, NULL));
            else
                CHECK_OK(loco_mailbox_send(box, big, i == NAPS - 1 ? 8 : LONG));
        }
        cost = cpu_time() - cost;
        least = cost < least ? cost : least;
    }
    CHECK(least < run_limit(NAPS * NAP_US * INT64_C(1000) / 10));
    CHECK_OK(run_meet(rt));
    loco_mailbox_destroy(box);
    free(big);
    return 0;
}

Test(mailbox, who_waits_sleeps_and_is_woken)
{
    const char *const no_page[] = { "LOCO_OFFERS=never", NULL };

    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, sleep_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, no_page, sleep_body, NULL), 0);
}

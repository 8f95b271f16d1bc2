/* SPDX-License-Identifier: BSD-3-Clause */

/* Ring buffers: everybody tells everybody, in messages that show whether they are whole and next;
 * then some are killed in the middle of it. */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

#define CAPACITY 3000
#define MEMBERS 8

struct talk {
    loco_runtime_t *rt;
    loco_ringbuffer_t *mine, *others[MEMBERS];
    int rank, n;
    int64_t start;
    uint64_t read;              /* messages, by the thread that reads */
};

static uint32_t mix(uint64_t a)
{
    a = (a ^ a >> 29) * UINT64_C(0x9fb21c651e98df25);
    return (uint32_t)(a >> 32);
}

/* Message i of a rank: i, then bytes that follow from both. Most are short. */
static size_t make(unsigned char *to, int rank, uint64_t i)
{
    uint32_t key = mix(i * 64 + (uint64_t)rank);
    size_t bytes = 8 + (key % 32 == 0 ? key % (CAPACITY - 7) : key % 100);

    memcpy(to, &i, 8);
    memset(to + 8, (int)(key >> 8 & 0xff), bytes - 8);
    return bytes;
}

static int is_message(const void *message, size_t bytes, int rank, uint64_t i)
{
    unsigned char expected[CAPACITY];

    CHECK_EQ(bytes, make(expected, rank, i));
    CHECK(memcmp(message, expected, bytes) == 0);
    return 0;
}

/* Until the time is over; the last message is empty. */
static int speak(struct talk *t)
{
    unsigned char message[4][CAPACITY];
    loco_ringbuffer_part_t parts[4];
    uint64_t i = 0, number;

    while (stress_goes_on(t->start)) {
        int n = 1 + (int)(mix(i) % 4);

        for (int k = 0; k < n; k++)
            parts[k] = (loco_ringbuffer_part_t){ message[k],
                                                 make(message[k], t->rank, i + (uint64_t)k) };
        if (n == 1)
            CHECK_OK(loco_ringbuffer_send(t->mine, message[0], parts[0].bytes, &number));
        else
            CHECK_OK(loco_ringbuffer_send_many(t->mine, parts, n, &number));
        i += (uint64_t)n;
        if (mix(i) % 64 == 0)
            CHECK_OK(loco_ringbuffer_wait_acknowledged(t->mine, number));
        if (mix(i) % 256 == 0)
            usleep(200);        /* readers may fall asleep */
    }
    CHECK_OK(loco_ringbuffer_send(t->mine, "", 0, &number));
    CHECK_OK(loco_ringbuffer_wait_acknowledged(t->mine, number));
    return 0;
}

static int listen_to_all(struct talk *t)
{
    uint64_t next[MEMBERS] = { 0 };
    loco_ringbuffer_t *open[MEMBERS];
    int n = t->n - 1, which = -1;

    memcpy(open, t->others, sizeof open);
    while (n > 0) {
        const void *message;
        size_t bytes;
        int writer;

        CHECK_OK(loco_ringbuffer_wait_any(open, n, LOCO_FOREVER, &which));
        CHECK_OK(loco_ringbuffer_peek(open[which], &message, &bytes));
        writer = loco_ringbuffer_writer(open[which]);
        if (bytes != 0)
            CHECK_OK(is_message(message, bytes, writer, next[writer]++));
        CHECK_OK(loco_ringbuffer_release(open[which], 1));
        t->read++;
        if (bytes == 0) {
            open[which] = open[--n];
            which = -1;
        }
    }
    return 0;
}

static int speak_or_listen(void *arg, int thread)
{
    return thread == 0 ? speak(arg) : listen_to_all(arg);
}

static int talk_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct talk t = { .rt = rt, .rank = rank, .n = loco_group_size(loco_everyone(rt)) };
    int others = 0, result;

    for (int i = 0; i < t.n; i++) {
        loco_ringbuffer_t *rb;
        char name[16];

        snprintf(name, sizeof name, "of%d", i);
        CHECK_OK(loco_ringbuffer_create(rt, "talk", name, loco_everyone(rt), i, CAPACITY,
                                        *(int *)arg, &rb));
        if (i == rank)
            t.mine = rb;
        else
            t.others[others++] = rb;
    }
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    t.start = run_now();
    result = run_threads(2, speak_or_listen, &t);
    CHECK(result != 0 || t.read > (uint64_t)t.n);
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(t.mine);
    for (int i = 0; i < others; i++)
        loco_ringbuffer_destroy(t.others[i]);
    return result;
}

/* ---- kills ---- */

static void *kill_later(void *arg)
{
    usleep(*(useconds_t *)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

static int die_in(useconds_t *us)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, kill_later, us), 0);
    return 0;
}

static int write_to_the_end(loco_ringbuffer_t *rb, int64_t start, bool to_the_end)
{
    unsigned char message[CAPACITY];
    uint64_t number = 0;
    int status;

    for (uint64_t i = 0; !to_the_end || stress_goes_on(start); i++)
        CHECK_OK(loco_ringbuffer_send(rb, message, make(message, 0, i), &number));
    CHECK_OK(loco_ringbuffer_send(rb, "", 0, &number));
    /* On a busy machine the victim may have read it all. */
    status = loco_ringbuffer_wait_acknowledged(rb, number);
    CHECK(status == LOCO_ERR_PEER_DEAD || status == LOCO_OK);
    return 0;
}

/* All that came came whole; then the end, or the death. */
static int read_to_the_end(loco_ringbuffer_t *rb, bool dies)
{
    const void *message;
    size_t bytes = 1;

    for (uint64_t i = 0; bytes != 0; i++) {
        int status = loco_ringbuffer_next(rb, LOCO_FOREVER, &message, &bytes);

        if (dies && status == LOCO_ERR_PEER_DEAD)
            return 0;
        CHECK_OK(status);
        if (bytes != 0)
            CHECK_OK(is_message(message, bytes, 0, i));
        CHECK_OK(loco_ringbuffer_release(rb, 1));
    }
    return dies;
}

/* The members that are past their meeting, by who is killed. */
static _Atomic int *met[2];

/* arg: the rank that is killed. */
static int kill_body(loco_runtime_t *rt, int rank, void *arg)
{
    useconds_t us = 20000 + mix((uint64_t)getpid()) % 300000;
    int victim = *(int *)arg;
    loco_ringbuffer_t *rb;

    CHECK_OK(loco_ringbuffer_create(rt, NULL, "r", loco_everyone(rt), 0, CAPACITY,
                                    LOCO_RINGBUFFER_SLEEP, &rb));
    CHECK(run_meet_alive(rt, met[victim]) == 0);
    if (rank == victim)
        CHECK_OK(die_in(&us));
    if (rank == 0)
        CHECK_OK(write_to_the_end(rb, run_now(), victim != 0));
    else
        CHECK_OK(read_to_the_end(rb, victim == 0));
    if (rank == victim)         /* not yet */
        pause();
    loco_ringbuffer_destroy(rb);
    return 0;
}

int main(void)
{
    static const struct stress_case cases[] = {
        { "everybody tells everybody", 2, talk_body, LOCO_RINGBUFFER_SLEEP },
        { "everybody tells everybody", MEMBERS, talk_body, LOCO_RINGBUFFER_SLEEP },
        { "the same, awake", 4, talk_body, LOCO_RINGBUFFER_AWAKE },
        { "a reader is killed", 4, kill_body, 1 },
        { "the writer is killed", 4, kill_body, 0 },
    };

    for (int victim = 0; victim < 2; victim++)
        met[victim] = run_counter();
    return stress_run(cases, sizeof cases / sizeof cases[0]);
}

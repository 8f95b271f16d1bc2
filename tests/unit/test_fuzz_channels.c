/* SPDX-License-Identifier: BSD-3-Clause */

/* Random words where a member's writers put messages: headers of a ring buffer, messages of a
 * store's tracker, records of a lock. Those who read them stay within their memory, come to an end,
 * and go on once what is there makes sense again; also while a thread changes the words that they
 * look at. A reader maps its writer's ring, so it writes there what a writer that has lost its way
 * would. FUZZ_ROUNDS says how many. */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "kvstore/kv_value.h"
#include "locks/ticket_lock.h"
#include "run.h"
#include "streams/ringbuffer.h"

#define ROUNDS 30000
#define CAPACITY 1000               /* of the ring buffer's messages */
#define LOOK_EVERY 256              /* rounds between looks at the index */
#define PLACES 64                   /* of the store, at each member */
#define WRITER 0
#define READER 1

TestSuite(fuzz_channels, .timeout = 6000);

/* ---- words that change ---- */

struct change {
    unsigned char *ring;            /* of this reader: words change where it looks next */
    const loco_ringbuffer_t *rb;
    uint64_t (*value)(uint64_t random);
    _Atomic bool stop;
    pthread_t thread;
};

static void *change_words(void *arg)
{
    struct change *c = arg;
    uint64_t random = 4711;

    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        uint64_t at = atomic_load_explicit(&c->rb->released, memory_order_relaxed)
                      + 8 * (run_random(&random) % 16);

        loci_store64(c->ring + loci_ring_place(c->rb, at), c->value(run_random(&random)));
    }
    return NULL;
}

static int begin_change(struct change *c, const loco_ringbuffer_t *rb, unsigned char *ring,
                        uint64_t (*value)(uint64_t))
{
    *c = (struct change){ .rb = rb, .ring = ring, .value = value };
    return pthread_create(&c->thread, NULL, change_words, c);
}

static void end_change(struct change *c)
{
    atomic_store(&c->stop, true);
    pthread_join(c->thread, NULL);
}

/* ---- ring buffers: the reader ---- */

/* What could be a header, of a message that is too long or not, there or elsewhere. */
static uint64_t some_header(uint64_t position, uint64_t *random)
{
    uint64_t value = run_random(random);
    uint64_t header = loci_ring_header(position, value % (CAPACITY + 1));

    switch (run_random(random) % 8) {
    case 0: return value;
    case 1: return loci_ring_header(position, 0) | LOCI_RING_PADDING;
    case 2: return header ^ UINT64_C(1) << value % 64;
    case 3: return loci_ring_header(position, UINT32_MAX - value % 64);
    case 4: return loci_ring_header(value, value % CAPACITY);
    default: return header;
    }
}

/* All that a reader may call where nobody may wait. */
static int read_something(loco_ringbuffer_t *rb, uint64_t *random, uint64_t *sum)
{
    loco_ringbuffer_part_t parts[5];
    unsigned char buffer[CAPACITY];
    const void *message;
    size_t bytes;
    int n = 0, status;

    switch (run_random(random) % 4) {
    case 0:
        status = loco_ringbuffer_peek(rb, &message, &bytes);
        if (status == LOCO_OK)
            parts[n++] = (loco_ringbuffer_part_t){ .data = message, .bytes = bytes };
        break;
    case 1: status = loco_ringbuffer_peek_many(rb, parts, 5, &n); break;
    case 2: status = loco_ringbuffer_next(rb, 0, &message, &bytes); break;
    default:
        status = loco_ringbuffer_receive(rb, 0, buffer, run_random(random) % sizeof buffer, &bytes);
        break;
    }
    CHECK(status <= LOCO_OK);
    /* The program looks at all that it was given. */
    for (int i = 0; status == LOCO_OK && i < n; i++) {
        CHECK(parts[i].bytes <= CAPACITY);
        CHECK((const unsigned char *)parts[i].data >= atomic_load(&rb->source));
        CHECK((const unsigned char *)parts[i].data + parts[i].bytes
              <= atomic_load(&rb->source) + rb->len);
        for (size_t k = 0; k < parts[i].bytes; k++)
            *sum += ((const unsigned char *)parts[i].data)[k];
    }
    status = loco_ringbuffer_release(rb, (int)(run_random(random) % 4));
    CHECK(status <= LOCO_OK);
    return 0;
}

static uint64_t any_value(uint64_t random)
{
    return random % 3 == 0 ? random : loci_ring_header((random >> 20) % 8192 * 8, random % 2000);
}

static int read_nonsense(loco_ringbuffer_t *rb, unsigned char *ring, int rounds, uint64_t *random)
{
    uint64_t sum = 0;

    for (int i = 0; i < rounds; i++) {
        uint64_t at = atomic_load(&rb->released);

        for (unsigned k = 0; k < 4; k++, at += loci_ring_space(run_random(random) % 200))
            loci_store64(ring + loci_ring_place(rb, at), some_header(at, random));
        if (read_something(rb, random, &sum) != 0)
            return 1;
    }
    return 0;
}

/* Where the reader is now, there comes a message as its writer would put it. */
static int still_reads(loco_ringbuffer_t *rb, unsigned char *ring)
{
    uint64_t at = atomic_load(&rb->released), left = rb->len - loci_ring_place(rb, at);
    char got[8] = "";
    size_t bytes = 0;

    memset(ring, 0, rb->len);
    if (left < loci_ring_space(6)) {
        loci_store64(ring + loci_ring_place(rb, at), loci_ring_header(at, 0) | LOCI_RING_PADDING);
        at += left;
    }
    memcpy(ring + loci_ring_place(rb, at) + LOCI_RING_HEADER, "right", 6);
    loci_store64(ring + loci_ring_place(rb, at), loci_ring_header(at, 6));
    CHECK_OK(loco_ringbuffer_receive(rb, 0, got, sizeof got, &bytes));
    CHECK(bytes == 6 && strcmp(got, "right") == 0);
    CHECK_EQ(loco_ringbuffer_receive(rb, 0, got, sizeof got, &bytes), LOCO_ERR_TIMEOUT);
    return 0;
}

static int ring_body(loco_runtime_t *rt, int rank, void *arg)
{
    int rounds = run_fuzz_rounds(ROUNDS), failed = 0;
    uint64_t random = 20261129;
    struct change change;
    loco_ringbuffer_t *rb;
    unsigned char *ring;

    (void)arg;
    CHECK_OK(loco_ringbuffer_create(rt, NULL, "r", loco_everyone(rt), WRITER, CAPACITY, 0, &rb));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    if (rank == READER) {
        ring = loci_mem_map(rt, loci_ring_bytes(rb, WRITER));
        CHECK(ring != NULL);
        failed = read_nonsense(rb, ring, rounds, &random);
        if (run_may_race("headers that change while they are read")) {
            CHECK_EQ(begin_change(&change, rb, ring, any_value), 0);
            failed |= read_nonsense(rb, ring, rounds, &random);
            end_change(&change);
        }
        CHECK_EQ(failed, 0);
        CHECK_EQ(still_reads(rb, ring), 0);
    }
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(fuzz_channels, ring_headers)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, ring_body, NULL), 0);
}

/* ---- ring buffers: the writer ---- */

/* What readers say of themselves: how far they are, that they sleep. Sending never goes beyond the
 * ring, and what is not acknowledged does not hang a look at it. */
static int claims_body(loco_runtime_t *rt, int rank, void *arg)
{
    int rounds = run_fuzz_rounds(ROUNDS);
    unsigned char message[CAPACITY] = { 0 };
    uint64_t random = 20261129, number = 0;
    loco_ringbuffer_t *rb;

    (void)arg;
    CHECK_OK(loco_ringbuffer_create(rt, NULL, "r", loco_everyone(rt), WRITER, CAPACITY, 0, &rb));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    for (int i = 0; rank == WRITER && i < rounds; i++) {
        unsigned char *words = loci_mem_map(rt, loci_ring_state(rb, READER));
        uint64_t claim = run_random(&random), word = run_random(&random);
        int status;

        CHECK(words != NULL);
        if (claim % 2 == 0)
            claim = number + claim % 4096 - 2048;
        loci_store64(words + (word % 3 == 0 ? LOCI_RING_ASLEEP : word % 3 == 1 ? LOCI_RING_WANTED
                              : LOCI_RING_PROGRESS), loci_ring_progress(claim));
        status = loco_ringbuffer_try_send(rb, message, word % (CAPACITY + 2), &number);
        CHECK(status <= LOCO_OK);
        status = loco_ringbuffer_acknowledged(rb, number);
        CHECK(status <= LOCO_OK || status == LOCO_IN_PROGRESS);
    }
    CHECK_OK(run_meet(rt));
    loco_ringbuffer_destroy(rb);
    return 0;
}

Test(fuzz_channels, claims_of_readers)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, claims_body, NULL), 0);
}

/* ---- the record of a lock ---- */

/* A word with few tickets out, and slots with names, of members or not; or anything. */
static void write_record(const loco_ticket_lock_t *lock, unsigned char *record, uint64_t *random)
{
    uint64_t how = run_random(random), serving = how % 65536, names = how >> 32;
    uint64_t next = (serving + (how >> 16) % 5) & 0xffff;

    if (how % 4 != 0)
        names %= 6;
    loci_store64(record + LOCI_TICKET_WORD, how % 16 == 1 ? run_random(random)
                 : next << LOCI_TICKET_NEXT_SHIFT | serving << LOCI_TICKET_SERVING_SHIFT | names);
    for (unsigned i = 0; i < lock->array->slots; i++) {
        uint64_t slot = run_random(random);

        loci_store64(record + LOCI_TICKET_SLOTS + 8 * i,
                     slot % 8 == 0 ? slot : slot % 8 == 1 ? slot << 32 : slot / 8 % 4);
    }
}

/* Whoever asks who holds it hears of a member, of nobody, or of an error. */
static int ask_for_holders(loco_ticket_lock_t *lock, unsigned char *record, int rounds)
{
    uint64_t random = 20261129;
    int named = 0, astray = 0;

    for (int i = 0; i < rounds; i++) {
        int holder = -2, status;

        write_record(lock, record, &random);
        status = loco_ticket_lock_holder(lock, &holder);
        CHECK(status <= LOCO_OK);
        CHECK(status != LOCO_OK || (holder >= -1 && holder < 2));
        named += status == LOCO_OK && holder >= 0;
        astray += status == LOCO_ERR_PROTOCOL;
    }
    CHECK(named > rounds / 100 && astray > rounds / 100);
    return 0;
}

static int lock_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ticket_lock_t *lock;
    unsigned char *record;

    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", loco_everyone(rt), WRITER, &lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    if (rank == READER) {
        CHECK(loci_mem_map(rt, lock->mem) != NULL);
        record = loci_mem_ptr(lock->mem) + lock->record;
        CHECK_EQ(ask_for_holders(lock, record, run_fuzz_rounds(ROUNDS)), 0);
        for (unsigned at = 0; at < LOCI_TICKET_SLOTS + 8 * lock->array->slots; at += 8)
            loci_store64(record + at, 0);
        /* The next ticket is out, and its owner has a name that nobody has. */
        CHECK_OK(loco_ticket_lock_acquire(lock));
        loci_store64(record + loci_ticket_slot(lock, 1) - lock->record, 77);
        loci_store64(record, loci_load64(record) + (UINT64_C(1) << LOCI_TICKET_NEXT_SHIFT));
        CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_PROTOCOL);
    }
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(lock);
    return 0;
}

Test(fuzz_channels, records_of_a_lock)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, lock_body, NULL), 0);
}

/* ---- the tracker of a store ---- */

static struct loco_kvstore *fuzzed_store;       /* for some_word(): set before the thread begins */

/* A word of the store that may be right, or anything. */
static uint64_t some_word(uint64_t random)
{
    const struct loco_kvstore *kv = fuzzed_store;
    uint64_t rank = random % 5 % 3, place = (random >> 8) % (PLACES + PLACES / 8);

    if (random % 16 == 0)
        return random;
    return (rank << kv->rank_shift | place) << kv->word_shift | (random >> 32 & 0xff)
           | (random % 32 != 1 ? LOCI_KV_VALID : 0);
}

static size_t make_message(struct loci_kv_message *m, uint64_t *random)
{
    uint64_t how = run_random(random);
    size_t bytes;

    m->kind = how % 8 == 0 ? (uint32_t)run_random(random) : (uint32_t)(1 + how / 8 % 3);
    m->n = how / 64 % 8 == 0 ? (uint32_t)run_random(random) : (uint32_t)(how / 512 % 6);
    for (int i = 0; i < 6; i++)
        m->record[i] = (struct loci_kv_record){ run_random(random) % 100,
                                                some_word(run_random(random)) };
    bytes = LOCI_KV_HEADER + (size_t)(m->n % 256) * sizeof m->record[0];
    return how / 4096 % 8 == 0 ? run_random(random) % sizeof *m : bytes;
}

/* A message where the reader looks next, which this thread then reads; the tracker may help. One
 * that makes no sense ends the reading of that ring: it goes on where it was. */
static void read_message(loco_kvstore_t *kv, unsigned char *ring, const struct loci_kv_message *m,
                         size_t bytes)
{
    loco_ringbuffer_t *rb = kv->readers[0];
    uint64_t at = atomic_load(&rb->released), left = rb->len - loci_ring_place(rb, at);

    if (left < loci_ring_space(bytes)) {
        loci_store64(ring + loci_ring_place(rb, at), loci_ring_header(at, 0) | LOCI_RING_PADDING);
        at += left;
    }
    memcpy(ring + loci_ring_place(rb, at) + LOCI_RING_HEADER, m,
           bytes < sizeof *m ? bytes : sizeof *m);
    loci_store64(ring + loci_ring_place(rb, at + loci_ring_space(bytes)), 0);
    loci_store64(ring + loci_ring_place(rb, at), loci_ring_header(at, bytes));
    for (int i = 0; i < 1000 && loci_load64(ring + loci_ring_place(rb, at)) != 0
         && atomic_load(&rb->released) <= at && !atomic_load(&kv->ended[0]); i++)
        loci_kv_read_passing(kv);
    atomic_store(&kv->ended[0], false);
}

/* Nothing but words of places that there are; they are removed, so that others come. */
static int index_is_sound(loco_kvstore_t *kv)
{
    for (uint64_t at = 0; at < kv->index.cells; at++)
        for (uint64_t word; (word = atomic_load(&kv->index.cell[at].word)) != 0;) {
            CHECK(loci_kv_rank(kv, word) < 2 && loci_kv_place(kv, word) < PLACES);
            loci_kv_index_remove(&kv->index, atomic_load(&kv->index.cell[at].key), word);
        }
    return 0;
}

/* Each free place is given once, and there are no others. */
static int places_are_sound(loco_kvstore_t *kv)
{
    bool had[PLACES] = { false };
    uint64_t place;
    int n = 0, status;

    while ((status = loci_kv_take_place(kv, &place)) == LOCO_OK) {
        CHECK(place < PLACES && !had[place] && n++ < PLACES);
        had[place] = true;
    }
    CHECK_EQ(status, LOCO_ERR_FULL);
    CHECK_EQ(kv->kept, PLACES);
    for (place = 0; place < PLACES; place++)
        loci_kv_give_place(kv, place);
    return 0;
}

static int send_nonsense(loco_kvstore_t *kv, unsigned char *ring, int rounds, uint64_t *random)
{
    static struct loci_kv_message m;
    int taken = 0;

    for (int i = 0; i < rounds; i++) {
        uint64_t place, key, before = atomic_load(&kv->readers[0]->released);

        read_message(kv, ring, &m, make_message(&m, random));
        taken += atomic_load(&kv->readers[0]->released) != before;
        if (run_random(random) % 2 == 0 && loci_kv_take_place(kv, &place) == LOCO_OK) {
            CHECK(place < PLACES);
            /* What others may do to a place that is free. */
            memset((unsigned char *)loci_mem_ptr(loci_endpoint_mem(kv->ep, READER, 0))
                   + place * kv->stride, (int)run_random(random), kv->stride);
        }
        if (i % LOOK_EVERY == 0)
            CHECK_EQ(index_is_sound(kv), 0);
        key = run_random(random) % 100;
        if (loci_kv_index_find(&kv->index, key) != 0 && run_random(random) % 4 == 0)
            loci_kv_index_remove(&kv->index, key, loci_kv_index_find(&kv->index, key));
    }
    CHECK_EQ(index_is_sound(kv), 0);
    CHECK(taken > rounds / 50 && taken < rounds - rounds / 50);
    return 0;
}

/* Kinds and numbers, or words. */
static uint64_t some_of_message(uint64_t random)
{
    if (random % 4 == 0)
        return (1 + random / 4 % 3)
               | (random / 16 % 2 == 0 ? random >> 32 : random / 32 % 300) << 32;
    return some_word(random);
}

static int tracker_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_kvstore_options_t options = { .value_bytes = 24, .capacity = PLACES };
    uint64_t random = 20261129, key = 1000000;
    int rounds = run_fuzz_rounds(ROUNDS), failed;
    unsigned char value[24] = "value", *ring;
    struct change change;
    loco_kvstore_t *kv;

    (void)arg;
    CHECK_OK(loco_kvstore_create(rt, NULL, "kv", loco_everyone(rt), &options, &kv));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    if (rank == READER) {
        fuzzed_store = kv;
        CHECK(loci_ringbuffer_has_news(kv->readers[0]) || true);
        ring = loci_mem_map(rt, loci_ring_bytes(kv->readers[0], WRITER));
        CHECK(ring != NULL);
        failed = send_nonsense(kv, ring, rounds, &random);
        if (run_may_race("messages that change while they are read")) {
            CHECK_EQ(begin_change(&change, kv->readers[0], ring, some_of_message), 0);
            failed |= send_nonsense(kv, ring, rounds, &random);
            end_change(&change);
        }
        CHECK_EQ(failed, 0);
        CHECK_EQ(places_are_sound(kv), 0);
        CHECK_OK(loco_kvstore_insert(kv, key, value, sizeof value));
        CHECK_OK(loco_kvstore_get(kv, key, value, sizeof value));
        CHECK_EQ(strcmp((char *)value, "value"), 0);
    }
    CHECK_OK(run_meet(rt));
    loco_kvstore_destroy(kv);
    return 0;
}

Test(fuzz_channels, messages_of_a_tracker)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, tracker_body, NULL), 0);
}

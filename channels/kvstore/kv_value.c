/* SPDX-License-Identifier: BSD-3-Clause */

/* Values in their places (kvstore.h): reading, writing, giving and taking places. Why this is right
 * is told in kvstore.c. */

#include "config.h"

#include <string.h>

#include "base/sum.h"
#include "kv_value.h"

#define LOOK_EVERY INT64_C(20000000)    /* ns between looks at the lock once a member is dead */

/* ---- bytes and words ---- */

/* Word i of a value, whose last one may be short. */
static inline uint64_t word_of(const struct loco_kvstore *kv, const void *value, size_t i)
{
    size_t at = 8 * i, left = kv->value_bytes - at;
    uint64_t word = 0;

    memcpy(&word, (const unsigned char *)value + at, left < 8 ? left : 8);
    return word;
}

static inline void put_word(const struct loco_kvstore *kv, void *value, size_t i, uint64_t word)
{
    size_t at = 8 * i, left = kv->value_bytes - at;

    memcpy((unsigned char *)value + at, &word, left < 8 ? left : 8);
}

/* ---- reading ---- */

static int judge(uint64_t meta, uint64_t word)
{
    return meta == word ? LOCO_OK : LOCO_ERR_NOT_FOUND;
}

int loci_kv_copy_by_sum(const struct loco_kvstore *kv, const unsigned char *place, uint64_t word,
                        void *value)
{
    const unsigned char *from = place + 16;
    uint64_t stored, meta;
    struct loci_sum sum;

    loci_sum_begin(&sum, word);
    for (size_t i = 0; i < kv->words; i++) {
        uint64_t one = loci_load64(from + 8 * i);

        loci_sum_add(&sum, i, one);
        put_word(kv, value, i, one);
    }
    stored = loci_load64(from + 8 * kv->words);
    meta = loci_load64(place + 8);
    if (meta != word)
        return LOCO_ERR_NOT_FOUND;
    return stored == loci_sum_end(&sum) ? LOCO_OK : LOCI_KV_TORN;
}

int loci_kv_parse_image(const struct loco_kvstore *kv, const uint64_t *image, uint64_t word,
                        void *value)
{
    struct loci_sum sum;

    if (judge(image[0], word) != LOCO_OK)
        return LOCO_ERR_NOT_FOUND;
    loci_sum_begin(&sum, word);
    for (size_t i = 0; i < kv->words; i++)
        loci_sum_add(&sum, i, image[1 + i]);
    if (image[1 + kv->words] != loci_sum_end(&sum))
        return LOCI_KV_TORN;
    memcpy(value, image + 1, kv->value_bytes);
    return LOCO_OK;
}

int loci_kv_read_image(struct loco_kvstore *kv, uint64_t word, uint64_t *image, loco_ack_t *ack)
{
    return loci_read(kv->rt, loci_kv_mem(kv, word),
                     loci_kv_offset(kv, word) + loci_kv_meta_at(kv), image,
                     loci_kv_image_bytes(kv), ack);
}

static int read_once(struct loco_kvstore *kv, uint64_t word, void *value)
{
    struct loci_kv_scratch scratch;
    const unsigned char *mapped;
    int status;

    if (loci_kv_is_lost(kv, word))
        return LOCO_ERR_PEER_DEAD;
    mapped = loci_kv_mapped(kv, word);
    if (mapped != NULL)
        return loci_kv_copy_value(kv, mapped, word, value);
    status = loci_kv_scratch_open(&scratch, loci_kv_image_bytes(kv));
    if (status != LOCO_OK)
        return status;
    status = loci_kv_read_image(kv, word, scratch.words, NULL);
    if (status == LOCO_OK)
        status = loci_kv_parse_image(kv, scratch.words, word, value);
    loci_kv_scratch_close(&scratch);
    return status;
}

/* A value is torn, and somebody is dead: is it who writes it? Whoever writes has its lock. */
struct torn {
    struct loco_kvstore *kv;
    uint64_t key, word;
    void *value;
    int64_t next_look, unclear_since;
};

static int look_at_writer(struct torn *torn)
{
    struct loco_kvstore *kv = torn->kv;
    int64_t now = loci_now(kv->rt);
    loco_ticket_lock_t *lock;
    int holder = -1, status;

    if (now < torn->next_look)
        return LOCO_OK;
    torn->next_look = now + LOOK_EVERY;
    lock = loco_ticket_array_at(kv->locks, loci_kv_lock_of(kv, torn->key));
    status = loco_ticket_lock_holder(lock, &holder);
    if (status == LOCO_OK && holder >= 0) {
        torn->unclear_since = 0;
        return loci_peer_alive(kv->rt, kv->ep->group.peer[holder]) ? LOCO_OK
               : LOCO_ERR_PEER_DEAD;
    }
    if (torn->unclear_since == 0)
        torn->unclear_since = now;
    /* A value that stays torn with nobody at its lock. */
    return now - torn->unclear_since > loci_grace(kv->rt) ? LOCO_ERR_PEER_DEAD : LOCO_OK;
}

static int is_read(void *arg)
{
    struct torn *torn = arg;
    struct loco_kvstore *kv = torn->kv;
    int status = read_once(kv, torn->word, torn->value);

    if (status != LOCI_KV_TORN)
        return status == LOCO_OK ? 1 : status;
    atomic_fetch_add_explicit(&kv->retries, 1, memory_order_relaxed);
    return atomic_load_explicit(&kv->rt->deaths, memory_order_relaxed) == 0 ? 0
           : look_at_writer(torn);
}

int loci_kv_read_value(struct loco_kvstore *kv, uint64_t key, uint64_t word, void *value)
{
    struct torn torn = { kv, key, word, value, 0, 0 };
    int status = read_once(kv, word, value);

    if (status == LOCI_KV_TORN) {
        const struct loci_torn whole = { "key", key };
        const struct loci_reason why = {
            .what = kv->ep->name, .at = loci_kv_mem(kv, word), .peer = -1,
            .timeout_ns = LOCO_FOREVER, .torn = &whole, .what_for = LOCI_FOR_KVSTORE,
        };

        atomic_fetch_add_explicit(&kv->retries, 1, memory_order_relaxed);
        status = loci_wait(kv->rt, &why, is_read, &torn);
    }
    return status;
}

/* ---- writing ---- */

/* No two are the same, so that who finds one twice knows that nobody wrote in between. */
static uint64_t new_version(struct loco_kvstore *kv)
{
    uint64_t n = atomic_fetch_add_explicit(&kv->versions_given, 1, memory_order_relaxed) + 1;

    return (uint64_t)(kv->ep->group.rank + 1) << 48 | (n << 1 & UINT64_C(0xfffffffffffe));
}

/* Into memory that is mapped here. The stores are releases: who sees a word sees the busy version
 * before it. */
static void store_words(const struct loco_kvstore *kv, unsigned char *to, uint64_t word,
                        const void *value)
{
    struct loci_sum sum;

    loci_sum_begin(&sum, word);
    for (size_t i = 0; i < kv->words; i++) {
        uint64_t one = word_of(kv, value, i);

        loci_sum_add(&sum, i, one);
        loci_store64(to + 8 * i, one);
    }
    loci_store64(to + 8 * kv->words, loci_sum_end(&sum));
}

static void store_value(struct loco_kvstore *kv, unsigned char *place, uint64_t word,
                        const void *value)
{
    uint64_t version = kv->versions ? new_version(kv) : 0;

    if (kv->versions)
        loci_store64(place, version | LOCI_KV_BUSY);
    store_words(kv, place + loci_kv_value_at(kv), word, value);
    if (kv->versions)
        loci_store64(place, version);
}

/* Over a lane, which places them in this order: busy, value and sum, no longer busy. */
static int post_value(struct loco_kvstore *kv, uint64_t word, const uint64_t *words)
{
    struct loci_mem *mem = loci_kv_mem(kv, word);
    uint64_t at = loci_kv_offset(kv, word), version = kv->versions ? new_version(kv) : 0;
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, done;

    if (kv->versions)
        status = loci_write64(kv->rt, mem, at, version | LOCI_KV_BUSY, &ack);
    if (status == LOCO_OK)
        status = loci_write(kv->rt, mem, at + loci_kv_value_at(kv), words,
                            (kv->words + 1) * sizeof words[0], &ack);
    if (kv->versions && status == LOCO_OK)
        status = loci_write64(kv->rt, mem, at, version, &ack);
    /* Whatever became of it: the source goes. */
    done = loco_ack_wait(kv->rt, &ack);
    return status != LOCO_OK ? status : done;
}

int loci_kv_write_value(struct loco_kvstore *kv, uint64_t word, const void *value)
{
    struct loci_kv_scratch scratch;
    unsigned char *mapped;
    struct loci_sum sum;
    int status;

    if (loci_kv_is_lost(kv, word))
        return LOCO_ERR_PEER_DEAD;
    mapped = loci_kv_mapped(kv, word);
    if (mapped != NULL) {
        store_value(kv, mapped, word, value);
        return LOCO_OK;
    }
    status = loci_kv_scratch_open(&scratch, (kv->words + 1) * sizeof(uint64_t));
    if (status != LOCO_OK)
        return status;
    loci_sum_begin(&sum, word);
    for (size_t i = 0; i < kv->words; i++) {
        scratch.words[i] = word_of(kv, value, i);
        loci_sum_add(&sum, i, scratch.words[i]);
    }
    scratch.words[kv->words] = loci_sum_end(&sum);
    status = post_value(kv, word, scratch.words);
    loci_kv_scratch_close(&scratch);
    return status;
}

void loci_kv_set_valid(struct loco_kvstore *kv, uint64_t word)
{
    unsigned char *base = loci_mem_ptr(loci_kv_mem(kv, word));

    loci_store64(base + loci_kv_offset(kv, word) + loci_kv_meta_at(kv), word);
}

int loci_kv_set_invalid(struct loco_kvstore *kv, uint64_t word)
{
    struct loci_mem *mem = loci_kv_mem(kv, word);
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    if (loci_kv_is_lost(kv, word))
        return LOCO_ERR_PEER_DEAD;
    status = loci_write64(kv->rt, mem, loci_kv_offset(kv, word) + loci_kv_meta_at(kv),
                          word ^ LOCI_KV_VALID, &ack);
    return status == LOCO_OK ? loci_fence_peer(kv->rt, LOCO_FENCE_PAIR, mem->peer) : status;
}

/* ---- places of our own ---- */

static unsigned char *own_place(struct loco_kvstore *kv, uint64_t place)
{
    return loci_mem_ptr(loci_endpoint_mem(kv->ep, kv->ep->group.rank, 0)) + place * kv->stride;
}

uint64_t loci_kv_fill_place(struct loco_kvstore *kv, uint64_t place, const void *value)
{
    unsigned char *at = own_place(kv, place);
    uint64_t old = loci_load64(at + loci_kv_meta_at(kv)) | LOCI_KV_VALID;
    uint64_t counter = (old + 2 * LOCI_KV_VALID) & ((UINT64_C(1) << kv->word_shift) - 1);
    uint64_t where = (uint64_t)kv->ep->group.rank << kv->rank_shift | place;
    uint64_t word = where << kv->word_shift | counter;

    /* Whoever had the place before, or wrote there by mistake, may have left it busy for ever. */
    if (kv->versions)
        loci_store64(at, new_version(kv));
    store_words(kv, at + loci_kv_value_at(kv), word, value);
    loci_store64(at + loci_kv_meta_at(kv), word ^ LOCI_KV_VALID);
    return word;
}

int loci_kv_take_place(struct loco_kvstore *kv, uint64_t *place)
{
    int status = LOCO_OK;

    pthread_mutex_lock(&kv->free_lock);
    if (kv->free_first != 0) {
        *place = kv->free_first - 1;
        kv->free_first = kv->free_next[*place];
    } else if (kv->fresh < kv->capacity) {
        *place = kv->fresh++;
    } else {
        status = LOCO_ERR_FULL;
    }
    if (status == LOCO_OK) {
        kv->free_next[*place] = LOCI_KV_IN_USE;
        kv->kept++;
    }
    pthread_mutex_unlock(&kv->free_lock);
    return status;
}

/* Others say so; one that is free already stays where it is in the list. */
void loci_kv_give_place(struct loco_kvstore *kv, uint64_t place)
{
    pthread_mutex_lock(&kv->free_lock);
    if (kv->free_next[place] == LOCI_KV_IN_USE) {
        kv->free_next[place] = kv->free_first;
        kv->free_first = place + 1;
        kv->kept--;
    }
    pthread_mutex_unlock(&kv->free_lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* See owned.h. Words are moved one by one through loci_load64 and loci_store64: on the usual
 * machines that costs no more than a copy, and what races here is then an atomic access. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "owned.h"
#include "wait.h"

#define SUM_START UINT64_C(0x243f6a8885a308d3)

/* Checksum, a word at a time. Each step is a bijection of the sum for any word and depends on
 * all words before, so a single wrong word always shows, and others but once in 2^64. */
static inline uint64_t sum_add(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0x9fb21c651e98df25);
    return sum ^ sum >> 32;
}

static uint64_t sum_of_zero(size_t words)
{
    uint64_t sum = SUM_START;

    for (size_t i = 0; i < words + 1; i++)
        sum = sum_add(sum, 0);
    return sum;
}

static unsigned char *copy_at(const struct loci_owned *o, int rank)
{
    unsigned char *p = loci_mem_ptr(loci_endpoint_mem(o->ep, rank, o->region));

    return p == NULL ? NULL : p + o->offset;
}

static unsigned char *own_copy(const struct loci_owned *o)
{
    return copy_at(o, o->ep->group.rank);
}

int loci_owned_open(struct loci_owned *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->zero = o->checked ? sum_of_zero(o->words) : 0;
    o->pusher = NULL;
    o->pushes = (loco_ack_t)LOCO_ACK_INIT;
    o->pulled = NULL;
    if (o->ep->group.rank == o->owner)
        return LOCO_OK;
    o->pulled = malloc(loci_owned_size(o->words, o->checked));
    return o->pulled == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

void loci_owned_close(struct loci_owned *o)
{
    loco_ack_wait(o->ep->rt, &o->pushes);
    free(o->pulled);
    pthread_mutex_destroy(&o->lock);
}

/* ---- the owner ---- */

/* Sequence number, then value, then sum: as a reader reads them. */
static void seal(struct loci_owned *o)
{
    unsigned char *copy = own_copy(o);
    uint64_t sum = sum_add(SUM_START, ++o->seq);

    loci_store64(copy, o->seq);
    for (size_t i = 1; i <= o->words; i++)
        sum = sum_add(sum, loci_load64(copy + 8 * i));
    loci_store64(copy + 8 * (o->words + 1), sum ^ o->zero);
}

/* Under the lock: pushes in flight have read their source. */
static int finish_pushes(struct loci_owned *o)
{
    int status = loco_ack_wait(o->ep->rt, &o->pushes);

    o->pushes = (loco_ack_t)LOCO_ACK_INIT;
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* Under the lock, before this thread pushes: another's pushes are placed, for lanes have no order
 * among them. */
static int become_pusher(struct loci_owned *o)
{
    struct loci_thread *self = loci_self(o->ep->rt);
    int status = LOCO_OK;

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (o->pusher == self)
        return LOCO_OK;
    if (o->pusher != NULL) {
        status = finish_pushes(o);
        /* Who is dead needs no pushes in order. */
        loci_fence_peer(o->ep->rt, LOCO_FENCE_PROCESS, -1);
    }
    o->pusher = self;
    return status;
}

int loci_owned_store(struct loci_owned *o, size_t first, size_t n, const uint64_t *values)
{
    unsigned char *copy = own_copy(o) + (o->checked ? 8 : 0);
    int status;

    pthread_mutex_lock(&o->lock);
    status = finish_pushes(o);
    if (status == LOCO_OK) {
        for (size_t i = 0; i < n; i++)
            loci_store64(copy + 8 * (first + i), values[i]);
        if (o->checked)
            seal(o);
    }
    pthread_mutex_unlock(&o->lock);
    return status;
}

static int push_to(struct loci_owned *o, int rank, size_t first, size_t n, loco_ack_t *ack)
{
    struct loci_mem *theirs = loci_endpoint_mem(o->ep, rank, o->region);
    unsigned char *from = own_copy(o) + 8 * first, *to = copy_at(o, rank);
    uint64_t offset = o->offset + 8 * first;

    if (n == 1 && !o->rings)
        return loci_write64(o->ep->rt, theirs, offset, loci_load64(from), ack);
    if (n == 1)
        return loci_write64_signalled(o->ep->rt, theirs, offset, loci_load64(from), ack,
                                      LOCI_BELL_SST);
    if (to == NULL && loci_mem_map(o->ep->rt, theirs) != NULL)
        to = copy_at(o, rank);
    if (to == NULL)
        return loci_write(o->ep->rt, theirs, offset, from, 8 * n, ack);
    LOCI_COUNT_MEM(o->ep->rt, writes, theirs);
    for (size_t i = 0; i < n; i++)
        loci_store64(to + 8 * (first + i), loci_load64(from + 8 * i));
    return LOCO_OK;
}

static int push_locked(struct loci_owned *o, size_t first, size_t n, const int *ranks, int nranks)
{
    int status = become_pusher(o), all = ranks == NULL ? o->ep->group.size : nranks;

    /* One that is dead keeps nothing from the others. */
    for (int i = 0; i < all; i++) {
        int rank = ranks == NULL ? i : ranks[i], one = LOCO_OK;

        if (rank == o->owner)
            continue;
        one = push_to(o, rank, first, n, &o->pushes);
        if (n != 1 && o->rings)
            loci_signal(o->ep->rt, o->ep->group.peer[rank], LOCI_BELL_SST);
        status = status == LOCO_OK ? one : status;
    }
    return status;
}

int loci_owned_push(struct loci_owned *o, size_t first, size_t n, const int *ranks, int nranks,
                    loco_ack_t *ack)
{
    loco_ack_t pushes;
    int status;

    if (o->checked) {
        first = 0;
        n = o->words + 2;
    }
    pthread_mutex_lock(&o->lock);
    status = push_locked(o, first, n, ranks, nranks);
    pushes = o->pushes;
    pthread_mutex_unlock(&o->lock);
    if (ack != NULL)
        loco_ack_join(ack, &pushes);
    else if (status == LOCO_OK)
        status = loco_ack_wait(o->ep->rt, &pushes);
    return status;
}

/* ---- readers ---- */

/* A word of the value into the caller's bytes, which may end inside it. */
static inline void put_bytes(void *value, size_t len, size_t word, uint64_t bytes)
{
    size_t at = 8 * word;

    if (at < len)
        memcpy((unsigned char *)value + at, &bytes, len - at < 8 ? len - at : 8);
}

/* Copy the value out of a copy. False: it was torn. */
static bool read_copy(struct loci_owned *o, const unsigned char *copy, void *value, size_t len)
{
    uint64_t sum, word;

    if (!o->checked) {
        for (size_t i = 0; i < o->words; i++)
            put_bytes(value, len, i, loci_load64(copy + 8 * i));
        return true;
    }
    sum = sum_add(SUM_START, loci_load64(copy));
    for (size_t i = 0; i < o->words; i++) {
        word = loci_load64(copy + 8 * (i + 1));
        sum = sum_add(sum, word);
        put_bytes(value, len, i, word);
    }
    if ((loci_load64(copy + 8 * (o->words + 1)) ^ o->zero) == sum)
        return true;
    atomic_fetch_add_explicit(&o->retries, 1, memory_order_relaxed);
    return false;
}

struct read_wait {
    struct loci_owned *o;
    const unsigned char *copy;
    void *value;
    size_t len;
};

static int is_whole(void *arg)
{
    struct read_wait *wait = arg;

    return read_copy(wait->o, wait->copy, wait->value, wait->len);
}

/* A torn copy becomes whole by a writer that is on its way, unless that is dead. */
static int read_until_whole(struct loci_owned *o, const unsigned char *copy, void *value,
                            size_t len)
{
    const struct loci_torn whole = { "value of member", (uint64_t)o->owner };
    const struct loci_reason why = {
        .what = o->ep->name, .peer = o->ep->group.peer[o->owner], .timeout_ns = LOCO_FOREVER,
        .torn = &whole, .what_for = LOCI_FOR_CHANNEL,
    };
    struct read_wait wait = { o, copy, value, len };

    if (read_copy(o, copy, value, len))
        return LOCO_OK;
    return loci_wait(o->ep->rt, &why, is_whole, &wait);
}

int loci_owned_load(struct loci_owned *o, void *value, size_t len)
{
    return read_until_whole(o, own_copy(o), value, len);
}

/* What was pulled becomes this process's copy, unless that is newer. */
static void keep_pulled(struct loci_owned *o, const uint64_t *words)
{
    unsigned char *copy = own_copy(o);
    size_t n = loci_owned_size(o->words, o->checked) / 8;

    if (o->checked && words[0] <= o->seq)
        return;
    for (size_t i = 0; i < n; i++)
        loci_store64(copy + 8 * i, words[i]);
    if (o->checked)
        o->seq = words[0];
}

/* The owner's copy into o->pulled: 1 if it is whole. */
static int is_pulled(void *arg)
{
    struct read_wait *wait = arg;
    struct loci_owned *o = wait->o;
    struct loci_mem *theirs = loci_endpoint_mem(o->ep, o->owner, o->region);
    size_t size = loci_owned_size(o->words, o->checked);
    const unsigned char *copy = copy_at(o, o->owner);
    int status = LOCO_OK;

    if (copy == NULL)
        status = loci_read(o->ep->rt, theirs, o->offset, o->pulled, size, NULL);
    else
        LOCI_COUNT_MEM(o->ep->rt, reads, theirs);
    if (copy != NULL)
        for (size_t i = 0; i < size / 8; i++)
            o->pulled[i] = loci_load64(copy + 8 * i);
    return status != LOCO_OK ? status
           : read_copy(o, (const unsigned char *)o->pulled, wait->value, wait->len);
}

/* Under the lock. */
static int pull_locked(struct loci_owned *o, void *value, size_t len)
{
    const struct loci_torn whole = { "value of member", (uint64_t)o->owner };
    const struct loci_reason why = {
        .what = o->ep->name, .peer = o->ep->group.peer[o->owner], .timeout_ns = LOCO_FOREVER,
        .torn = &whole, .what_for = LOCI_FOR_CHANNEL,
    };
    struct read_wait wait = { o, NULL, value, len };

    return loci_wait(o->ep->rt, &why, is_pulled, &wait);
}

int loci_owned_pull(struct loci_owned *o, void *value, size_t len, bool keep)
{
    int status;

    if (o->ep->group.rank == o->owner)
        return loci_owned_load(o, value, len);
    pthread_mutex_lock(&o->lock);
    status = pull_locked(o, value, len);
    if (status == LOCO_OK && keep)
        keep_pulled(o, o->pulled);
    pthread_mutex_unlock(&o->lock);
    return status;
}

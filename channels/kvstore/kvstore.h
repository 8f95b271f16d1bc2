/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_KVSTORE_H
#define LOCI_KVSTORE_H

/* Shared by kvstore.c (how it works; insert, update, delete), kv_life.c (create and destroy),
 * kv_value.c (values in their places), kv_tracker.c (messages about keys) and kv_window.c (many
 * lookups at once). */

#include <loco/kvstore.h>
#include <loco/ringbuffer.h>
#include <loco/ticket_lock.h>

#include "kv_index.h"
#include "move/rma.h"
#include "names/endpoint.h"
#include "threads/poller.h"
#include "wait.h"

/* A word: where a value is, which of the values that were there, whether it is valid. From the
 * top: rank, place in that rank's region, counter, bit 0. In the index it is always valid. */
#define LOCI_KV_VALID UINT64_C(1)
/* A version: of a value that is being written. */
#define LOCI_KV_BUSY UINT64_C(1)

/* A place that is not in the list of free ones, nor was never used. */
#define LOCI_KV_IN_USE UINT64_MAX

#define LOCI_KV_BATCH 250       /* keys in one message */
#define LOCI_KV_LOOKS 4         /* rings that one who passes by looks at */
#define LOCI_KV_TURN 64u         /* records of a ring, after which others have their turn */
#define LOCI_KV_HEADER 8        /* bytes of a message before its records */
#define LOCI_KV_MESSAGE (LOCI_KV_HEADER + LOCI_KV_BATCH * sizeof(struct loci_kv_record))

enum loci_kv_kind { LOCI_KV_INSERT = 1, LOCI_KV_DELETE, LOCI_KV_FREE };

struct loci_kv_record {
    uint64_t key, word;
};

struct loci_kv_message {
    uint32_t kind;              /* enum loci_kv_kind */
    uint32_t n;
    struct loci_kv_record record[LOCI_KV_BATCH];
};

struct loco_kvstore {
    /* What a lookup needs, and nobody changes. */
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    struct loci_kv_index index;
    size_t value_bytes, words;          /* of a value; the same in words */
    size_t stride;                      /* bytes of a place */
    bool small;                         /* one word: no version */
    bool versions;                      /* who maps a place reads by its version */
    unsigned word_shift;                /* below it are counter and valid bit */
    unsigned rank_shift;                /* of what is above: rank | place */
    uint64_t place_mask;

    loco_ticket_array_t *locks;
    int nlocks;
    uint64_t capacity;
    _Atomic uint64_t retries;
    _Atomic uint64_t versions_given;
    _Atomic(loco_kvstore_window_t *) spare;     /* of a _get_many */

    /* Free places of our own: given back, and linked; or never used. The links are not in the
     * places, where the others may write. */
    pthread_mutex_t free_lock;
    uint64_t *free_next;                /* by place: place + 1 of the next, 0, or LOCI_KV_IN_USE */
    uint64_t free_first;                /* place + 1, or 0 */
    uint64_t fresh;                     /* from here on */
    uint64_t kept;

    /* The tracker. */
    loco_ringbuffer_t **ring;           /* by rank of the writer; none in a group of one */
    loco_ringbuffer_t **readers;        /* those of others */
    _Atomic bool *ended;                /* of them: nothing will come any more */
    _Atomic(const unsigned char *) *next;   /* where the next message will be; NULL: not to be
                                             * read by who passes by */
    int nreaders;
    struct loci_polled *polled;         /* its place at the poller; who reads them has claimed it */
    _Atomic int visitors;               /* threads that iterate, with the index's lock */
    _Atomic bool kept_out;              /* the poller, by them, from messages that have come */
    _Atomic unsigned looks;             /* so many looks were taken by who passed by */
};

/* ---- words ---- */

static inline int loci_kv_rank(const struct loco_kvstore *kv, uint64_t word)
{
    return (int)(word >> kv->word_shift >> kv->rank_shift);
}

static inline uint64_t loci_kv_place(const struct loco_kvstore *kv, uint64_t word)
{
    return word >> kv->word_shift & kv->place_mask;
}

/* ---- places ----
 *
 *              one word                more
 *      +0      meta                    version
 *      +8      value                   meta
 *      +16     sum                     value...
 *                                      sum
 */

static inline size_t loci_kv_meta_at(const struct loco_kvstore *kv)
{
    return kv->small ? 0 : 8;
}

static inline size_t loci_kv_value_at(const struct loco_kvstore *kv)
{
    return kv->small ? 8 : 16;
}

static inline struct loci_mem *loci_kv_mem(const struct loco_kvstore *kv, uint64_t word)
{
    return loci_endpoint_mem(kv->ep, loci_kv_rank(kv, word), 0);
}

/* Offset of a place in its region. */
static inline uint64_t loci_kv_offset(const struct loco_kvstore *kv, uint64_t word)
{
    return loci_kv_place(kv, word) * kv->stride;
}

/* Whether the member that keeps this value is known to be dead. */
static inline bool loci_kv_is_lost(const struct loco_kvstore *kv, uint64_t word)
{
    return atomic_load_explicit(&kv->rt->deaths, memory_order_relaxed) != 0
           && !loci_peer_alive(kv->rt, loci_kv_mem(kv, word)->peer);
}

static inline int loci_kv_lock_of(const struct loco_kvstore *kv, uint64_t key)
{
    return (int)(key % (uint64_t)kv->nlocks);
}

/* ---- kv_tracker.c ---- */

int loci_kv_tracker_open(struct loco_kvstore *kv, const loco_group_t *group, size_t bytes);
void loci_kv_tracker_close(struct loco_kvstore *kv);
/* Read a part of what has come; by who has claimed the store's place at the poller. */
enum loci_served loci_kv_read_rings(struct loco_kvstore *kv);
/* The same, if nobody does. */
void loci_kv_read_passing(struct loco_kvstore *kv);

/* For threads that are at the store: if something has come, that. In the way of each get, so it is
 * a load or two for each of a few rings, of which there may be many. Threads may overwrite each
 * other's count: each ring has its turn all the same. */
static inline void loci_kv_help(struct loco_kvstore *kv)
{
    int n = kv->nreaders, at = 0;

    if (n > LOCI_KV_LOOKS) {
        unsigned turn = atomic_load_explicit(&kv->looks, memory_order_relaxed);

        atomic_store_explicit(&kv->looks, turn + LOCI_KV_LOOKS, memory_order_relaxed);
        at = (int)(turn % (unsigned)n);
    }
    for (int i = 0; i < n && i < LOCI_KV_LOOKS; i++, at = at + 1 < n ? at + 1 : 0) {
        const unsigned char *next = atomic_load_explicit(&kv->next[at], memory_order_relaxed);

        if (next != NULL && loci_load64(next) != 0) {
            loci_kv_read_passing(kv);
            return;
        }
    }
}

/* From the one to the other nobody helps: who has the index's lock may get, and must not wait for
 * it then; nor must others who get. */
void loci_kv_visit(struct loco_kvstore *kv);
void loci_kv_visited(struct loco_kvstore *kv);
/* Tell all others; `wait`: until all who live have done it. */
int loci_kv_tell(struct loco_kvstore *kv, struct loci_kv_message *message, bool wait);

#endif

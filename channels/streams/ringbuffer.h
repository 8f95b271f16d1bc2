/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RINGBUFFER_H
#define LOCI_RINGBUFFER_H

#include <endian.h>

#include <loco/ringbuffer.h>

#include "base/sst.h"
#include "move/rma.h"
#include "names/endpoint.h"
#include "take_turns.h"

/* Shared by ringbuffer.c (life, and how it works), ringbuffer_write.c and ringbuffer_read.c. */

/* A message's header: present | padding | position / 8 | bytes. Never 0, which is "none yet". What
 * a reader meets where it looks next is one or the other; the position is for seeing that nobody
 * has done something else to the memory. */
#define LOCI_RING_PRESENT (UINT64_C(1) << 63)
#define LOCI_RING_PADDING (UINT64_C(1) << 62)
#define LOCI_RING_HEADER sizeof(uint64_t)

/* Words of each reader, on cache lines of their own (two: lines are fetched in pairs). */
enum {
    LOCI_RING_ASLEEP = 0,       /* by the reader: how many of its threads sleep, or are about to;
                                   in the upper half what to ring with (loci_ring_for) */
    LOCI_RING_WANTED = 128,     /* by the writer: it waits for the release of all before that */
    LOCI_RING_PROGRESS = 256,   /* by the reader: all before that is released (_progress) */
    LOCI_RING_WORDS = 384
};
enum { LOCI_RING_BYTES, LOCI_RING_STATE };              /* regions */
enum { LOCI_RING_RELEASED, LOCI_RING_IN_PLACE, LOCI_RING_COLUMNS };    /* of the SST */

/* A reader, as the writer sees it. */
struct loci_ring_reader {
    _Atomic uint64_t known;             /* released, as far as we know */
    bool in_place;                      /* it reads the writer's ring */
    uint64_t answer;                    /* what was read of its words */
};

struct loco_ringbuffer {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    loco_sst_t *acks;
    int writer, rank, size;             /* ranks; of the group */
    size_t capacity;
    uint64_t len;                       /* of the ring in bytes: a power of two */
    bool awake;                         /* nobody sleeps */
    bool wakes_later;                   /* sending wakes nobody: loci_ringbuffer_wake does */

    /* The writer's. */
    unsigned char *own;                 /* its ring */
    struct loci_turns turns;            /* threads take turns to send */
    uint64_t head;                      /* where the next message goes; of whose turn it is */
    uint64_t limit;                     /* up to here there was room; the same */
    _Atomic uint64_t sent;              /* head, for the others */
    unsigned deaths;                    /* those of the runtime when last looked at; the same */
    int failed;                         /* a batch was posted in part: no more; the same */
    struct loci_ring_reader *reader;    /* by rank */
    pthread_mutex_t lock;               /* what follows, and posting */
    struct loci_thread *poster;         /* whose operations are in `posts` */
    loco_ack_t posts;
    uint64_t asked;                     /* the last value of WANTED */

    /* A reader's. */
    _Atomic(unsigned char *) source;    /* the ring that it reads, NULL before the first look */
    pthread_mutex_t reading;            /* _receive's; and setting `source` */
    _Atomic uint64_t released;          /* position */
    uint64_t shown;                     /* up to here messages have been shown */
    uint64_t told;                      /* as far as the writer was told, */
    loco_ack_t telling;                 /* which may be under way */
    _Atomic bool ended;                 /* the writer is dead, and this has been said */
};

/* Bytes that a message takes. */
static inline uint64_t loci_ring_space(size_t bytes)
{
    return LOCI_RING_HEADER + ((uint64_t)bytes + 7) / 8 * 8;
}

static inline uint64_t loci_ring_header(uint64_t position, size_t bytes)
{
    return LOCI_RING_PRESENT | ((position >> 3) & 0x3fffffff) << 32 | (uint64_t)bytes;
}

/* Whether all of it has come: its last byte is not 0 then. A network that copies byte by byte, the
 * lower addresses first, may bring the others before (loci_sim_config's torn_words). */
static inline bool loci_ring_has_come(uint64_t header)
{
    return header >> 56 != 0;
}

/* What PROGRESS holds of a position, and back (ringbuffer.c, of torn words). */
static inline uint64_t loci_ring_progress(uint64_t position)
{
    return htobe64(position);
}

/* Where in a ring a position is. */
static inline uint64_t loci_ring_place(const struct loco_ringbuffer *rb, uint64_t position)
{
    return position & (rb->len - 1);
}

static inline struct loci_mem *loci_ring_bytes(struct loco_ringbuffer *rb, int rank)
{
    return loci_endpoint_mem(rb->ep, rank, LOCI_RING_BYTES);
}

static inline struct loci_mem *loci_ring_state(struct loco_ringbuffer *rb, int rank)
{
    return loci_endpoint_mem(rb->ep, rank, LOCI_RING_STATE);
}

/* A reader's: whether it may look yet. For who does not wait for the runtime to be ready. */
static inline bool loci_ringbuffer_is_connected(const struct loco_ringbuffer *rb)
{
    return loci_endpoint_knows(rb->ep, rb->writer) && loci_sst_knows(rb->acks, rb->writer);
}

/* A reader's part of struct loci_reason's `announce`, for who waits for rings and other things. */
void loci_ringbuffer_announce(struct loco_ringbuffer *rb, int change);

/* A reader's, before it announces anything: those who wake it ring with that number. */
void loci_ringbuffer_ring_with(struct loco_ringbuffer *rb, uint32_t number);
/* A reader's: whether releasing a message would wait for nothing. Over lanes it tells the writer,
 * by this thread's, of which it leaves the others room. */
bool loci_ringbuffer_may_release(struct loco_ringbuffer *rb);

/* Whether a look has something to say; from any thread. */
bool loci_ringbuffer_has_news(struct loco_ringbuffer *rb);
/* A reader's, with nobody else reading: where the next message begins, a word that is 0 until it
 * has come. NULL before the first look. */
static inline const unsigned char *loci_ringbuffer_next(const struct loco_ringbuffer *rb)
{
    const unsigned char *source = atomic_load_explicit(&rb->source, memory_order_acquire);
    uint64_t released = atomic_load_explicit(&rb->released, memory_order_relaxed);

    return source == NULL ? NULL : source + loci_ring_place(rb, released);
}

/* The writer's: from now on sending wakes nobody; wake those who sleep. */
void loci_ringbuffer_wake_later(struct loco_ringbuffer *rb);
int loci_ringbuffer_wake(struct loco_ringbuffer *rb);

static inline bool loci_ring_alive(const struct loco_ringbuffer *rb, int rank)
{
    return loci_peer_alive(rb->rt, rb->ep->group.peer[rank]);
}

#endif

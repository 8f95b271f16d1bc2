/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MULTICAST_H
#define LOCI_MULTICAST_H

/* Shared by the files of this folder. multicast.c says how a multicast works: memory, counters,
 * order, sleep. */

#include <loco/multicast.h>

#include "move/asymmetric.h"
#include "move/rma.h"
#include "multicast_epoch.h"
#include "multicast_parts.h"
#include "names/endpoint.h"
#include "observe/counters.h"
#include "threads/poller.h"

/* Words of a row, by their index. Written by the member whose row it is. */
enum {
    LOCI_MC_COMMITTED,      /* numbers that it has given: messages and nulls */
    LOCI_MC_LAST,           /* the number after its last message's */
    LOCI_MC_RECEIVED,       /* places of the total order before this one have been received */
    LOCI_MC_DELIVERED,      /* the same, delivered; unordered: a word for each sender, numbers */
    LOCI_MC_WORDS           /* of an ordered multicast */
};

/* A status: of a view whose members are about to change, nothing is given or seen meanwhile
 * (multicast_epoch.c). No call returns it. */
#define LOCI_MC_WEDGED 1

enum { LOCI_MC_ROWS, LOCI_MC_RING };        /* regions */

#define LOCI_MC_LINE ((size_t)128)          /* lines are fetched in pairs */
#define LOCI_MC_HEADER ((size_t)16)         /* of a slot */
#define LOCI_MC_IMAGES 8                    /* rows under way at a time */
#define LOCI_MC_CHAIN 16                    /* writes that are handed over at a time */
/* A member's word of sleep: what to ring with, below whether it sleeps. The lower half never
 * changes once it is not 0: so it is there when the upper one is, also where words come in parts.
 */
#define LOCI_MC_SLEEPS (UINT64_C(1) << 56)
/* It makes all fence before it sleeps. Set from the beginning, where it can; in place. */
#define LOCI_MC_FENCES (UINT64_C(1) << 57)
#define LOCI_MC_AT_ONCE ((size_t)16 << 10)  /* bytes that are copied under the lock, at most */
#define LOCI_MC_BATCH 128           /* messages that a handler is given at a time, at most */

/* A sender, as its messages are read here. Of whoever delivers, but `ring`. */
struct loci_mc_sender {
    int rank;
    const unsigned char *ring;
    uint64_t at;                    /* the slot of its next message */
    _Atomic uint64_t next;          /* unordered: the number of that */
};

/* What is posted and may not be complete yet: up to these counts. */
struct loci_mc_posts {
    loco_ack_t ack;
    uint64_t messages, images;
};

/* Words that one other member writes in a row, as they are here. */
struct loci_mc_area {
    int rank, words;
    uint64_t theirs;                /* where that member has them itself */
    uint64_t at;                    /* where they are here, unless all is in place */
    const unsigned char *_Atomic here;  /* changes once if that member comes later */
    uint64_t *snapshot;             /* as that member had them */
};

static inline const unsigned char *loci_mc_here(const struct loci_mc_area *area)
{
    /* Acquire: pairs with the release of who has mapped that memory. */
    return atomic_load_explicit(&area->here, memory_order_acquire);
}

/* A word of an area that this member looks at. */
struct loci_mc_source {
    int area, word;                 /* there */
    int seen;                       /* what is kept of it: an index of `seen` */
    bool committed;                 /* it is a COMMITTED */
};

#define LOCI_MC_MANY ((struct loci_thread *)1)      /* `only`, once a second thread has come; */
#define LOCI_MC_ENDING ((struct loci_thread *)2)    /* and until the first knows */

struct loci_mc_relay;               /* multicast_relay.c */
struct loci_mc_epochs;              /* multicast_epoch.c */

/* What this process did. Each is written by one thread at a time. */
struct loci_mc_counts {
    loci_counter passes;            /* that changed something */
    loci_counter sent, send_batches, nulls, null_batches;
    loci_counter receive_batches;   /* passes that received something */
    loci_counter delivered, deliver_batches;
    loci_counter pushes, full;
    loci_counter posts;             /* chains: to one member in one pass */
};

struct loco_multicast {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int size, rank;
    int nsenders, mine;             /* mine: index of this process among the senders, or -1 */
    uint64_t slots;
    size_t slot_bytes, stride;      /* of what a message has, and of a slot */
    int flags;
    bool in_place;                  /* all members map all memory */
    bool fences;                    /* and this process can make all of them fence */
    bool *is_sender;                /* by rank */
    uint64_t first;                 /* number of each sender's first message: 0, but for tests, */
    uint64_t base;                  /* and of its first in this epoch: the same, but for views */
    uint64_t images_most;           /* LOCI_MC_IMAGES, but for tests */
    int words;                      /* of a row */
    loco_multicast_handler_t *handler;
    void *handler_arg;
    struct loci_polled *polled;     /* with a handler, or relays: the poller passes */
    uint32_t polled_number;
    struct loci_mc_sender *sender;
    struct loci_mc_area *area;
    struct loci_mc_source *source;
    int areas, sources;
    int *tells;                     /* ranks of those that this member writes to, */
    int ntells;                     /* so many */
    struct loci_mc_relay *relay;    /* NULL: every member writes to all others */
    struct loci_mc_epochs *epochs;  /* NULL: it is no view's, and ends with a member */
    _Atomic bool started;           /* all members are known, and what can be mapped is */
    _Atomic int failed;             /* a status: it has ended; or LOCI_MC_WEDGED */

    /* Threads that send. */
    unsigned char *own;             /* this process's ring */
    _Atomic uint64_t *ready;        /* by slot: {which message is ready; bytes} */
    _Alignas(128) _Atomic uint64_t reserved;    /* messages that have a slot */
    _Alignas(128) _Atomic uint64_t limit;       /* that may have */
    _Atomic uint64_t stable;        /* that all members have delivered */
    _Atomic uint64_t committed;     /* that have a number */

    /* A pass; under the lock. */
    _Alignas(128) _Atomic uint64_t locked;
    _Atomic uint64_t inside;        /* the only thread has the lock */
    _Atomic(struct loci_thread *) only;     /* the one that has come; NULL: none; _MANY, _ENDING */
    bool by_only;                   /* who has the lock has it by `inside` */
    _Atomic bool half;              /* messages were committed without a pass */
    /* [rank * words + word]: the rows, as of the last pass; those of rank `size` are the least of
     * all, where relays bring that. */
    _Atomic uint64_t *seen;
    int begin;                      /* without LOCI_MC_RECEIVE: who is looked at first, about */
    uint64_t given, last;           /* COMMITTED and LAST of this process, to be pushed */
    uint64_t committed_at;          /* the slot of the next message */
    uint64_t target;                /* numbers that it has to give, by nulls if need be, */
    uint64_t planned;               /* as of the last message of the others with this number */
    bool silent;                    /* the last number given was a null, or none was */
    uint64_t *made;                 /* the own row, as it is to be */
    _Atomic unsigned deaths;        /* those of the runtime when last looked at */
    struct loci_thread *poster;     /* whose operations are in `posts` */
    struct loci_mc_posts posts[2];  /* older and newer ones */
    uint64_t done, images_done;     /* complete: of messages, of rows */
    uint64_t posted, images;        /* posted: the same */
    _Atomic bool nothing;           /* of who needs a fence alone */
    int sleepers;                   /* threads that have announced that they sleep */

    /* Whoever delivers: the poller, or the thread that polls. */
    _Alignas(128) _Atomic uint64_t deliverable;     /* by a pass: places before this one */
    _Atomic uint64_t shown;         /* the next place, */
    uint64_t round;                 /* the number that is there, */
    int turn;                       /* of that sender */
    _Atomic uint64_t shown_end;     /* the place after the last message that was handed out */
    _Atomic(struct loci_thread *) polls;    /* without a handler: the last thread that did */
    _Atomic uint64_t *delivered;    /* DELIVERED: one, or unordered one for each sender */
    unsigned char *copies;          /* LOCO_MULTICAST_COPY: of so many messages */
    int copied;
    bool told;                      /* the handler has been told of the end */

    _Atomic int waiters;            /* threads of this process that sleep until something changes */
    _Atomic bool dozes;             /* the poller does, and is to be called */
    _Atomic bool unsure;            /* nobody may ring for what is to come: multicast_sleep.c */
    struct loci_mc_counts counts;
    loci_counter *slowest;          /* by rank: slots were awaited that it had not delivered */
};

static inline void loci_mc_count(loci_counter *counter, uint64_t n)
{
#ifdef LOCO_SIM
    *counter += n;
#else
    atomic_store_explicit(counter, LOCI_COUNTED(*counter) + n, memory_order_relaxed);
#endif
}

static inline bool loci_mc_is_ordered(const struct loco_multicast *m)
{
    return (m->flags & LOCO_MULTICAST_UNORDERED) == 0;
}

static inline uint64_t loci_mc_seen(const struct loco_multicast *m, int rank, int word)
{
    return atomic_load_explicit(&m->seen[rank * m->words + word], memory_order_relaxed);
}

static inline int loci_mc_status(const struct loco_multicast *m)
{
    return atomic_load_explicit(&m->failed, memory_order_acquire);
}

/* Why it has ended, if it has. */
static inline int loci_mc_error(const struct loco_multicast *m)
{
    int status = loci_mc_status(m);

    return status < 0 ? status : LOCO_OK;
}

/* ---- memory ---- */

/* Bytes of a row of so many words. */
static inline uint64_t loci_mc_bytes(int words)
{
    return ((uint64_t)words * 8 + LOCI_MC_LINE - 1) / LOCI_MC_LINE * LOCI_MC_LINE;
}

/* Of all rows, and of one's own as an image: multicast_relay.c has others. */
uint64_t loci_mc_relay_rows(const struct loci_mc_relay *relay);
uint64_t loci_mc_relay_image(const struct loci_mc_relay *relay);

/* Offsets in the region of rows. Whether a member sleeps is on a line of its own: those who send
 * look at it each time, and it hardly ever changes. */
static inline uint64_t loci_mc_row_at(const struct loco_multicast *m, int rank)
{
    return (uint64_t)rank * loci_mc_bytes(m->words);
}

static inline uint64_t loci_mc_image_bytes(const struct loco_multicast *m)
{
    return m->relay == NULL ? loci_mc_bytes(m->words) : loci_mc_relay_image(m->relay);
}

static inline uint64_t loci_mc_asleep_at(const struct loco_multicast *m, int rank)
{
    uint64_t rows = m->relay == NULL ? loci_mc_row_at(m, m->size) : loci_mc_relay_rows(m->relay);

    return rows + (uint64_t)rank * LOCI_MC_LINE;
}

static inline uint64_t loci_mc_image_at(const struct loco_multicast *m, uint64_t image)
{
    return loci_mc_asleep_at(m, m->size) + image % m->images_most * loci_mc_image_bytes(m);
}

static inline uint64_t loci_mc_ring_bytes(const struct loco_multicast *m)
{
    return m->slots * m->stride;
}

/* Where not all is in place: behind all that, a ring for each sender. */
static inline uint64_t loci_mc_ring_at(const struct loco_multicast *m, int sender)
{
    return loci_mc_asleep_at(m, m->size) + m->images_most * loci_mc_image_bytes(m)
           + (uint64_t)sender * loci_mc_ring_bytes(m);
}

static inline struct loci_mem *loci_mc_rows(struct loco_multicast *m, int rank)
{
    return loci_endpoint_mem(m->ep, rank, LOCI_MC_ROWS);
}

/* ---- slots ---- */

static inline uint64_t loci_mc_slot_after(const struct loco_multicast *m, uint64_t at)
{
    return at + 1 == m->slots ? 0 : at + 1;
}

/* A slot begins with two words: {the message's number + 1} and {bytes, a check of the former}. */
static inline uint64_t loci_mc_check(uint64_t stamp)
{
    stamp = (stamp ^ stamp >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return stamp >> 32 << 32;
}

/* Whether message `number` is in this slot, which is looked at only if that number was given. What
 * is there may be changing, to a later message. */
static inline bool loci_mc_slot_has(const unsigned char *slot, uint64_t number, uint64_t *bytes)
{
    uint64_t word;

    if (loci_load64(slot) != number + 1)
        return false;
    word = loci_load64(slot + 8);
    *bytes = word & 0xffffffff;
    return (word & ~UINT64_C(0xffffffff)) == loci_mc_check(number + 1);
}

/* What says that message `count` is ready: in the upper half of its slot's word in `ready`. */
static inline uint64_t loci_mc_ready(uint64_t count)
{
    return UINT64_C(1) << 63 | (count & 0x7fffffff) << 32;
}

static inline uint64_t loci_mc_ready_of(uint64_t word)
{
    return word & ~UINT64_C(0xffffffff);
}

/* ---- multicast_pass.c ---- */

/* See what the others have done, give numbers to what is ready, and nulls, and tell the others;
 * unless another thread is at it, who then does so for what was ready before the call, too. `wait`:
 * for the network to take what is posted, if need be. */
enum loci_mc_passed { LOCI_MC_NOTHING, LOCI_MC_BUSY, LOCI_MC_SOME, LOCI_MC_PUSHED };
enum loci_mc_passed loci_mc_advance(struct loco_multicast *m, bool wait);
/* Whether what this process pushes need not be followed by a fence: who sleeps makes it fence. */
static inline bool loci_mc_is_light(const struct loco_multicast *m)
{
    return m->fences && atomic_load_explicit(&m->rt->asymmetric, memory_order_acquire)
                        == LOCI_ASYMMETRIC_READY;
}

/* The store that makes what was stored before visible. */
static inline void loci_mc_store_last(const struct loco_multicast *m, void *word, uint64_t value)
{
    if (loci_mc_is_light(m))
        loci_release_light(word, value);
    else
        loci_store64(word, value);
}

/* Post in one go, where all is in place and nobody else is at it: reserve, fill, number and show.
 * False: nothing was done; the usual way then looks at what others found the lock taken for. */
bool loci_mc_post_at_once(struct loco_multicast *m, const void *data, size_t bytes,
                          uint64_t *number);
/* Have what is ready sent: a pass, or where all is in place the part of it that does so. */
void loci_mc_commit(struct loco_multicast *m);
/* Whether a pass has something to do; from any thread. */
bool loci_mc_has_news(const struct loco_multicast *m);
/* Whether this process has delivered what it has not told; from any thread. */
bool loci_mc_has_delivered(const struct loco_multicast *m);
/* Have told what threads of this process brought about while they found the lock taken. */
void loci_mc_tell(struct loco_multicast *m);

/* ---- multicast_lock.c ---- */

/* This thread uses the multicast. True: it is the only one that has so far, and may take the lock
 * by stores. */
bool loci_mc_come(struct loco_multicast *m);
/* The lock of a pass: if nobody has it; after some looks, at the last of which whoever gives it
 * back sees what this thread has brought about; and for other things, by waiting. */
bool loci_mc_take_if_free(struct loco_multicast *m);
bool loci_mc_try_lock(struct loco_multicast *m);
void loci_mc_lock(struct loco_multicast *m);
/* Give it back; loci_mc_tell() then. */
void loci_mc_unlock(struct loco_multicast *m);
/* Threads of any process that push, and do not fence, do so: what they pushed is seen from here on,
 * or they see what this thread has stored. */
void loci_mc_make_all_fence(struct loco_multicast *m);

/* ---- multicast_look.c ---- */

/* What this member looks at: tables, in the beginning; and where it is, once all are known. */
int loci_mc_look_open(struct loco_multicast *m);
void loci_mc_look_start(struct loco_multicast *m);
void loci_mc_look_close(struct loco_multicast *m);
/* Keep what has come; whether anything has, and numbers of others. Under the lock. */
bool loci_mc_see_rows(struct loco_multicast *m, bool *numbers);
/* Whether there is something that has not been kept; from any thread. */
bool loci_mc_has_new_rows(const struct loco_multicast *m);
/* For multicast_relay.c: another area, whose index it returns; another source; another member to
 * write to. */
int loci_mc_add_area(struct loco_multicast *m, struct loci_mc_area area);
void loci_mc_add_source(struct loco_multicast *m, int area, int at, int rank, int word);
void loci_mc_add_told(struct loco_multicast *m, int rank);

/* ---- multicast_relay.c ---- */

int loci_mc_relay_open(struct loco_multicast *m);
void loci_mc_relay_close(struct loco_multicast *m);
/* All areas and sources. */
void loci_mc_relay_look(struct loco_multicast *m);
/* Under the lock: what is to be told, from the own row as it is to be; whether that is news; tell
 * it; what was posted is posts[1]'s. */
bool loci_mc_relay_make(struct loco_multicast *m);
int loci_mc_relay_push(struct loco_multicast *m);
/* As posts[1] becomes posts[0], which is complete. */
void loci_mc_relay_turn(struct loco_multicast *m);
/* Whether what this member has delivered is not told yet, for posts are under way. */
bool loci_mc_relay_holds(const struct loco_multicast *m);

/* ---- multicast_pass.c, again ---- */

static inline void loci_mc_see(struct loco_multicast *m, int rank, int word, uint64_t value)
{
    atomic_store_explicit(&m->seen[rank * m->words + word], value, memory_order_relaxed);
}

/* All members are known: map what can be mapped. False: not yet. Under the lock. */
bool loci_mc_start(struct loco_multicast *m);
bool loci_mc_map_member(struct loco_multicast *m, int rank);
bool loci_mc_knows_all(const struct loco_multicast *m);
/* Where the messages of a sender, by its index, are read here. */
const unsigned char *loci_mc_ring_of(struct loco_multicast *m, int i);

/* ---- multicast_push.c; under the lock ---- */

/* Whether the own row may be pushed: an image of it is free. LOCO_ERR_AGAIN: not yet; or what
 * became of what was posted. */
int loci_mc_may_push(struct loco_multicast *m, bool wait);
/* Nothing of what was posted is under way any more. */
int loci_mc_finish(struct loco_multicast *m);
/* Messages up to m->committed, then the row, to all: one chain each. */
int loci_mc_push(struct loco_multicast *m, const uint64_t *row);
/* Writes to one member that are handed over together, and placed in this order; where its memory is
 * mapped they are done at once. */
struct loci_mc_chain {
    struct loci_mem *theirs;
    struct loci_op op[LOCI_MC_CHAIN];
    int n;
};
int loci_mc_chain_write(struct loco_multicast *m, struct loci_mc_chain *c, uint64_t offset,
                        unsigned char *source, size_t len);
int loci_mc_chain_post(struct loco_multicast *m, struct loci_mc_chain *c);
/* Words that change one by one. */
int loci_mc_chain_words(struct loco_multicast *m, struct loci_mc_chain *c, uint64_t offset,
                        unsigned char *image, int words);
/* `n` messages of a sender, by its index, as they are in the ring here, from slot `at` on. */
int loci_mc_chain_slots(struct loco_multicast *m, struct loci_mc_chain *c, int sender, uint64_t at,
                        uint64_t n);
/* Words to memory here, the first last. */
void loci_mc_store_words(unsigned char *to, const uint64_t *words, int n);
/* This thread posts from now on. */
int loci_mc_take_posting(struct loco_multicast *m);
/* Wake those who said that they sleep, for what was pushed. */
void loci_mc_ring_all(struct loco_multicast *m);

/* ---- multicast_deliver.c ---- */

/* Of an ordered one: up to that place. The next message of a sender, if it has that number. */
int loci_mc_collect_range(struct loco_multicast *m, uint64_t end, loco_delivery_t *messages,
                          int max);
bool loci_mc_take(struct loco_multicast *m, struct loci_mc_sender *s, uint64_t number,
                  loco_delivery_t *message);
/* Up to `max` messages, in order, from where the last call ended. */
int loci_mc_collect(struct loco_multicast *m, loco_delivery_t *messages, int max);
/* What was handed out is delivered. */
void loci_mc_release(struct loco_multicast *m);
/* Whether this process has something to deliver, or to release; from any thread. */
bool loci_mc_is_behind(const struct loco_multicast *m);
extern const struct loci_polled_ops loci_mc_polled_ops;

/* ---- multicast_epoch.c ---- */

/* The ring of those who are gone. */
extern const unsigned char loci_mc_no_ring[LOCI_MC_HEADER];
int loci_mc_epochs_open(struct loco_multicast *m, const struct loci_multicast_tuning *tuning);
void loci_mc_epochs_close(struct loco_multicast *m);
/* Whether that member is in no epoch from now on, until it comes again; and whether its memory is
 * not known, for it was dead when all was mapped, which is noted then. */
bool loci_mc_is_out(const struct loco_multicast *m, int rank);
bool loci_mc_is_late(const struct loco_multicast *m);
bool loci_mc_is_unknown(const struct loco_multicast *m, int rank);
void loci_mc_note_unknown(struct loco_multicast *m);
/* As loci_mc_collect(). */
int loci_mc_collect_epochs(struct loco_multicast *m, loco_delivery_t *messages, int max);
/* The view has a look. */
void loci_mc_tell_view(struct loco_multicast *m);
/* The handler has returned from all that it was given. */
void loci_mc_note_handled(struct loco_multicast *m);
/* Of a wait, whose argument begins with the multicast: why it cannot go on. */
int loci_mc_broken(void *arg);
/* What a wait needs alive: the group; of a view whatever it says. */
static inline const struct loco_group *loci_mc_needs(const struct loco_multicast *m)
{
    return m->epochs == NULL ? &m->ep->group : NULL;
}

static inline bool loci_mc_is_lost(const struct loco_multicast *m, int rank)
{
    return m->epochs != NULL && loci_mc_is_unknown(m, rank);
}

static inline bool loci_mc_is_gone(const struct loco_multicast *m, int rank)
{
    return m->epochs != NULL && loci_mc_is_out(m, rank);
}

/* ---- multicast_sleep.c ---- */

/* A thread of this process that waits for what others do (struct loci_reason, `announce`). */
void loci_mc_announce(struct loco_multicast *m, int change);
/* Without a handler, or by the poller: those who push are to ring. */
void loci_mc_announce_to_all(struct loco_multicast *m, int change);
/* Something has changed here: threads of this process that wait for it look. */
void loci_mc_wake_waiters(struct loco_multicast *m);
/* The same, for the poller alone. */
void loci_mc_wake_poller(struct loco_multicast *m);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TICKET_LOCK_H
#define LOCI_TICKET_LOCK_H

#include <loco/ticket_lock.h>

#include "move/rma.h"
#include "names/endpoint.h"

/* Shared by ticket_lock.c (the protocol, described there) and ticket_state.c (who holds it, and
 * whether somebody in the way is dead). */

/* The host's record of a lock: the word, the lost mark, then the slots. */
#define LOCI_TICKET_WORD 0
#define LOCI_TICKET_LOST 8
#define LOCI_TICKET_SLOTS 16

/* The word: next ticket, ticket now served, sum of the names of who has an outstanding ticket. A
 * name is a rank + 1. */
#define LOCI_TICKET_NEXT_SHIFT 48
#define LOCI_TICKET_SERVING_SHIFT 32
#define LOCI_TICKET_NAMES UINT64_C(0xffffffff)
#define LOCI_TICKET_MEMBERS_MAX 65535       /* the sum of so many names fits its field */

#define LOCI_TICKET_PASSED UINT64_MAX       /* in a slot: granted before its owner asked */
#define LOCI_TICKET_LEFT (UINT64_C(1) << 32)        /* with a name: its owner no longer waits */
#define LOCI_TICKET_TAKEN (UINT64_C(1) << 33)       /* with another: who passed the turn has it */
#define LOCI_TICKET_IS_LOST (UINT64_C(1) << 16)     /* in the lost mark, with a ticket */

struct loco_ticket_lock {
    struct loco_runtime *rt;
    struct loci_mem *mem;               /* host's region */
    uint64_t record;                    /* offset of this lock's record */
    struct loco_ticket_array *array;
    int host;                           /* index of the host's peer */
    _Atomic uint32_t without;           /* threads here that wait, but not in line (below) */
    uint64_t grant;                     /* offset of this lock's grant word, at every process */

    /* Threads of this process: a ticket lock of their own. */
    _Atomic uint32_t next, serving;
    _Atomic(void *) owner;              /* the thread that holds it */
    /* Of the holder. */
    bool ours;                          /* the process has it: no need to ask the host */
    bool slot_used;                     /* our reset of the slot may not be placed yet */
    unsigned ticket;
    bool left;                          /* that one is out, and nobody waits with it, */
    bool back;                          /* or does again */
    int64_t handovers;
    int lost;                           /* LOCO_ERR_PEER_DEAD for ever, or LOCO_OK */
};

struct loco_ticket_array {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    unsigned slots;                     /* per lock: a power of two, at least the group's size */
    uint64_t name;                      /* ours */
    int count;
    struct loco_ticket_lock *lock;
};

enum { LOCI_TICKET_RECORDS, LOCI_TICKET_GRANTS };   /* regions */

static inline unsigned loci_ticket_next(uint64_t word)
{
    return (unsigned)(word >> LOCI_TICKET_NEXT_SHIFT) & 0xffff;
}

static inline unsigned loci_ticket_serving(uint64_t word)
{
    return (unsigned)(word >> LOCI_TICKET_SERVING_SHIFT) & 0xffff;
}

static inline uint64_t loci_ticket_slot(const struct loco_ticket_lock *lock, unsigned ticket)
{
    return lock->record + LOCI_TICKET_SLOTS + (ticket & (lock->array->slots - 1)) * 8;
}

/* For a waiter with that ticket, once a member is dead: LOCO_OK while its turn may still come,
 * or LOCO_ERR_PEER_DEAD; in that case whoever is behind has been told. `*still_since` (0 at
 * first) and `*still` belong to the caller's wait. */
int loci_ticket_check(struct loco_ticket_lock *lock, unsigned ticket, int64_t *still_since,
                      uint64_t *still);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MAILBOX_H
#define LOCI_MAILBOX_H

/* Shared by mailbox.c (life, and how it works), mailbox_send.c and mailbox_receive.c. */

#include <endian.h>

#include <loco/mailbox.h>

#include "move/rma.h"
#include "names/endpoint.h"
#include "observe/counters.h"
#include "take_turns.h"

/* A record: {kind, bytes}, {check}, and the message, or for a long one where it is. Records begin
 * at multiples of their header's length, so that no header is cut by the ring's end. */
#define LOCI_MAIL_HEADER ((size_t)16)
enum { LOCI_MAIL_COPIED = 1, LOCI_MAIL_TOLD = 2 };

/* In the mailbox's memory: the word of sleep, then for each member two lines, then the rings. */
enum {
    LOCI_MAIL_ASLEEP = 0,       /* by the receiver: threads of it that sleep, or are about to */
    LOCI_MAIL_LINES = 128,
    LOCI_MAIL_TAIL = 0,         /* by the sender: where its next record goes */
    LOCI_MAIL_WANTED = 8,       /* by the sender: it waits, or has waited, until HEAD is there */
    LOCI_MAIL_HEAD = 128,       /* by the receiver: where its next one is (_head) */
    LOCI_MAIL_LINE = 256
};

struct loci_mail_count {
    loci_counter sent, told, full, received, read, lost;
};

struct loco_mailbox {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int size, rank, receiver;
    uint64_t ring;                      /* bytes: a power of two */
    uint64_t straight;

    struct loci_turns sending;          /* what follows: of whose turn it is */
    uint64_t tail;                      /* positions: bytes since the beginning */
    uint64_t head;                      /* as last seen */
    int failed;                         /* a record was written in part: no more */

    struct loci_turns receiving;        /* the receiver's; likewise */
    _Atomic uint64_t *from;             /* by rank: where the next record is */
    int next;                           /* who is looked at first */

    struct loci_mail_count count;
};

static inline struct loci_mem *loci_mail_mem(const struct loco_mailbox *box)
{
    return loci_endpoint_mem(box->ep, box->receiver, 0);
}

static inline uint64_t loci_mail_line(int rank)
{
    return LOCI_MAIL_LINES + (uint64_t)rank * LOCI_MAIL_LINE;
}

/* Where in the memory a position of a sender's ring is. */
static inline uint64_t loci_mail_place(const struct loco_mailbox *box, int rank, uint64_t position)
{
    return loci_mail_line(box->size) + (uint64_t)rank * box->ring + (position & (box->ring - 1));
}

/* What a record takes, by the bytes behind its header. */
static inline uint64_t loci_mail_space(uint64_t bytes)
{
    return LOCI_MAIL_HEADER + (bytes + LOCI_MAIL_HEADER - 1) / LOCI_MAIL_HEADER * LOCI_MAIL_HEADER;
}

/* What HEAD holds of a position, and back (mailbox.c, of torn words). */
static inline uint64_t loci_mail_head(uint64_t position)
{
    return htobe64(position);
}

static inline uint64_t loci_mail_kind_word(int kind, uint64_t bytes)
{
    return (uint64_t)kind << 56 | bytes;
}

static inline uint64_t loci_mail_record_check(uint64_t word, uint64_t position)
{
    return (word ^ position << 20) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

#endif

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

/* A record: {kind, bytes}, {check}, and a message; or for a long one where it is; or a piece of it.
 * Records begin at multiples of their header's length, so that no header is cut by the ring's
 * end. */
#define LOCI_MAIL_HEADER ((size_t)16)
enum loci_mail_kind {
    LOCI_MAIL_COPIED = 1,
    LOCI_MAIL_TOLD,
    LOCI_MAIL_FIRST,            /* a piece of the largest length; `bytes` is of the message */
    LOCI_MAIL_NEXT,             /* another one */
    LOCI_MAIL_ASSEMBLED         /* no record: all pieces are here */
};

/* Bytes of a message, at most: what the kind leaves of its word. */
#define LOCI_MAIL_LONGEST ((UINT64_C(1) << 56) - 1)

/* In the mailbox's memory: the word of sleep, then for each member two lines, then the rings. */
enum {
    LOCI_MAIL_ASLEEP = 0,       /* by the receiver: threads of it that sleep, or are about to */
    LOCI_MAIL_RECEIVER = 64,    /* of a hosted one: rank + 1 of who receives; 0: nobody does */
    LOCI_MAIL_LINES = 128,
    LOCI_MAIL_TAIL = 0,         /* by the sender: where its next record goes */
    LOCI_MAIL_WANTED = 8,       /* by the sender: it waits, or has waited, until HEAD is there */
    LOCI_MAIL_HEAD = 128,       /* by the receiver: where its next one is (_head) */
    LOCI_MAIL_LINE = 256
};

struct loci_mail_count {
    loci_counter sent, told, full, received, read, lost;
};

/* Pieces of a sender's message. */
struct loci_mail_pieces {
    unsigned char *bytes;               /* NULL: there are none */
    uint64_t len, have;
};

/* How the members get to know the memory: they meet, and it is the receiver's; or it is a host's
 * that neither sends nor receives (names/hosted.h), which this process is or is not. */
enum loci_mailbox_way { LOCI_MAILBOX_MET, LOCI_MAILBOX_HOST, LOCI_MAILBOX_USE };

struct loco_mailbox {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int size, rank;
    int host;                           /* rank of whose memory it is */
    int receiver;                       /* a rank; of a hosted one -1, unless it is this process */
    bool hosted;
    void (*gone)(void *ctx);            /* nullable: it is destroyed */
    void *gone_ctx;
    uint64_t ring;                      /* bytes: a power of two */
    uint64_t straight;

    struct loci_turns sending;          /* what follows: of whose turn it is */
    uint64_t tail;                      /* positions: bytes since the beginning */
    uint64_t head;                      /* as last seen */
    int failed;                         /* a record was written in part: no more */

    struct loci_turns receiving;        /* the receiver's; likewise */
    _Atomic uint64_t *from;             /* by rank: where the next record is */
    int next;                           /* who is looked at first */
    struct loci_mail_pieces *pieces;    /* by rank */
    _Atomic int assembled;              /* messages of which all pieces are here */

    struct loci_mail_count count;
};

static inline struct loci_mem *loci_mail_mem(const struct loco_mailbox *box)
{
    return loci_endpoint_mem(box->ep, box->host, 0);
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

/* What a message that is copied whole may have: it leaves room for the next one. Pieces are so
 * long. */
static inline uint64_t loci_mail_most(const struct loco_mailbox *box)
{
    return box->ring / 2 - LOCI_MAIL_HEADER;
}

/* Whether whoever has the memory lives. */
static inline bool loci_mail_host_lives(const struct loco_mailbox *box)
{
    return loci_peer_alive(box->rt, box->ep->group.peer[box->host]);
}

/* What one takes at its host. */
uint64_t loci_mailbox_hosted_bytes(uint64_t ring, int members);
/* `options` with defaults put in. LOCO_ERR_ARG; the log says why. */
int loci_mailbox_complete(loco_runtime_t *rt, const char *call, const char *name,
                          const loco_mailbox_options_t *options,
                          loco_mailbox_options_t *completed);
/* The options are complete. `receiver`: of one that is met. Of a hosted one rank 0 is the host; a
 * user imports the host's key into its endpoint, and then starts. */
int loci_mailbox_make(loco_runtime_t *rt, enum loci_mailbox_way way, const char *parent,
                      const char *name, const loco_group_t *group, int receiver,
                      const loco_mailbox_options_t *options, enum loci_domain domain,
                      loco_mailbox_t **box);
/* A user's: go on where who had its rank has stopped. LOCO_ERR_STATE: another one receives;
 * LOCO_ERR_UNSUPPORTED: who receives has to have the memory mapped. The log says so. */
int loci_mailbox_start(loco_mailbox_t *box, bool receives);
/* At the host: the process of that rank, which is this peer, has gone. LOCO_OK: another may come to
 * the rank. LOCO_ERR_AGAIN: not yet. */
int loci_mailbox_vacate(loco_mailbox_t *box, int rank, int peer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_H
#define LOCI_GATHER_H

/* Accumulates without a result, and puts beside them, into memory that the members of one node
 * brought: gathered in batches, which are applied by the target where it waits or comes by, else by
 * the origin.
 *
 * Such memory is not mapped, and for every element, however short, the system takes as long as for
 * a page. The target reaches its own memory at the speed of a loop. So the first accumulate to a
 * target after a synchronization goes at once, and those behind it are copied to a batch in pool
 * memory, which the target maps. A batch that is full is handed over, and the origin goes on with
 * the next of a ring; at the next synchronization all are, and waited for. A ring that is full
 * becomes a larger one, when all in it are applied: with more ranks than cores, the target may not
 * come before this process gives its core away.
 *
 * In every control block, of windows that may gather (offset gather_at):
 *
 *   inbox, bit   which inbox to knock at for this member (inbox.h), and with what; this member
 *   a row of each origin
 *     handed     batches handed over so far                          that origin
 *     applied    of those, how many were applied                     who has the lock
 *     status     the first of what could not be done                 the same; the origin clears it
 *     ring       key of some batches; number b is at b modulo how many there are; that origin
 *
 * Whoever has the lock of the target's accumulates may apply what was handed over and not applied:
 * the target, of all origins, or an origin, its own. It looks at `applied` under the lock, and
 * writes it before it gives the lock back; so each batch is applied once, in the order of the
 * origin's calls, and no other accumulate comes between two elements of a chunk.
 *
 * The target applies what it finds when it waits (loci_help), and when it gathers itself, so that
 * members which all accumulate serve each other. Where it does not come soon, its service thread is
 * rung for. Nobody needs either: the origin waits about as long as doing it alone would take,
 * helping others meanwhile, and then takes the lock. Where it has waited in vain it leaves that out
 * some times.
 *
 * What a batch says is checked by who applies it, each word as it was loaded once: bounds, or that
 * the memory is attached, then, too; type, operation and length. The target touches its memory in
 * place, if that is safe (gather_in_place.h), else by way of the system (fabric.h, `touch`). What
 * cannot be done is told at the synchronization. What can be told at the call is: epoch, bounds,
 * operation.
 *
 * Order. Everything else that goes to that target (gets, long puts, accumulates with a result or of
 * many elements, compare_swap) waits until what was gathered is applied. Operands are copied.
 *
 * Death. An origin's batches that were handed over may be applied or not; its memory stays mapped.
 * Who dies while it applies one leaves its name in the lock, as everywhere. A dead target's are
 * dropped, and the origin is told at the synchronization. */

#include "gather_apply.h"
#include "inbox.h"

/* In a control block, behind gather_at. */
enum { LOCI_GATHER_INBOX = 0, LOCI_GATHER_BIT = 40, LOCI_GATHER_ROWS = LOCI_CACHE_LINE };
/* In a row. */
enum { LOCI_GATHER_HANDED = 0, LOCI_GATHER_APPLIED = 8, LOCI_GATHER_STATUS = 16,
       LOCI_GATHER_RING = 24 };
_Static_assert(LOCI_GATHER_RING + sizeof(struct loci_memkey) == LOCI_CACHE_LINE, "a row is a line");

struct loci_outbox;

/* Of a window. */
struct loci_gather {
    struct loco_window *win;
    /* Origin. */
    struct loci_outbox **out;       /* by rank; made on first use */
    unsigned char *work;            /* to apply batches here; the same */
    int *open, nopen;               /* ranks whose outbox has been in use since the last
                                       synchronization */
    /* Target; by the thread that serves the inbox. */
    struct loci_inbox_part part;
    bool added;
    struct loci_memkey attached;    /* DYNAMIC: the last region of this call; len 0: none */
    struct loci_mem *ring;          /* by rank, as last seen; kind NONE: not seen yet */
};

/* Bytes of a control block for it, behind the others, of a window of n members. */
size_t loci_gather_room(int members);
/* While the control block is not known to others; win->gather_at is set. Without memory for it the
 * window does not gather to this member, nor from it. Then, once it is whole. */
void loci_gather_prepare(struct loco_window *win);
void loci_gather_open(struct loco_window *win);
/* Nobody hands over any more. */
void loci_gather_close(struct loco_window *win);

static inline unsigned char *loci_gather_row(unsigned char *control, const struct loco_window *win,
                                             int origin)
{
    return control + win->gather_at + LOCI_GATHER_ROWS + (size_t)LOCI_CACHE_LINE * (size_t)origin;
}

/* Whether what goes to memory that the members brought, or to any of other nodes, goes through a
 * device: gather_far.h. */
static inline bool loci_gathers_far(const struct loco_window *win)
{
    return win->domain != LOCI_DOMAIN_CPU
           || (!win->synchronous && win->kind >= LOCO_WINDOW_CREATE);
}

/* ---- origin; only where win->gathers ---- */

/* An accumulate without result, or a put (LOCO_OP_REPLACE of LOCO_TYPE_BYTE), of one span, to which
 * nothing objects. LOCO_OK: it is gathered. LOCO_ERR_AGAIN: it is not to be, and nothing is in its
 * way. Or an error, maybe of those before it. */
int loci_gather_accumulate(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                           uint64_t offset, const void *operand, size_t len);
int loci_gather_put(struct loco_window *win, int rank, uint64_t offset, const void *from,
                    size_t len);

/* The window goes: give back what is kept for that target. */
void loci_outbox_free(struct loco_window *win, int rank);

/* Something else goes to that target: what was gathered for it is applied when this returns. */
int loci_gather_drain_slow(struct loco_window *win, int rank);
static inline int loci_gather_drain(struct loco_window *win, int rank)
{
    return win->gathering == 0 ? LOCO_OK : loci_gather_drain_slow(win, rank);
}

/* Elements of 8 bytes go to that target, that nothing else is to wait for: what was gathered that
 * has bytes of them is applied when this returns. Of gather_far.h. */
int loci_gather_before_slow(struct loco_window *win, int rank, uint64_t offset, size_t len);
static inline int loci_gather_before(struct loco_window *win, int rank, uint64_t offset,
                                     size_t len)
{
    return win->gathering == 0 ? LOCO_OK : loci_gather_before_slow(win, rank, offset, len);
}

/* ---- target ---- */

bool loci_gather_serve(struct loci_inbox_part *part);

/* Apply what was handed over by a row, from this ring of `depth` batches; under the lock. What
 * cannot be done of it is told in the row. LOCO_ERR_PROTOCOL: the row makes no sense, and nothing
 * was done. */
int loci_gather_apply_row(const struct loci_gather_way *way, unsigned char *row,
                           const unsigned char *ring, uint64_t depth);
static inline uint64_t loci_gather_depth(const struct loci_mem *ring)
{
    return ring->key.len / LOCI_GATHER_BATCH;
}

#endif

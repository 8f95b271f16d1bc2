/* SPDX-License-Identifier: BSD-3-Clause */

/* Large copies of the user's memory that origin and target do at the same time.
 *
 * The system copies between processes with the CPU of whoever asks. If the target happens to be
 * waiting, its CPU can do a part: the origin offers a slot (offer.c) that names both places and a
 * counter of pieces, and starts to copy. A target that waits takes the slot. Both take the next
 * piece off the counter and copy it, the origin with process_vm_writev, say, and the target with
 * process_vm_readv, until there is none. Then the origin takes the slot back, or, where it was
 * taken, waits for the target's last piece. Nobody needs the target: alone the origin copies all.
 *
 * What the target says it could not copy, the origin copies again: all pieces but its own. The
 * target writes to its own registered memory only and under its fabric's lock, as with other
 * offers; from the counter on nothing in the slot is read twice.
 *
 * One offer is of at most PIECES pieces, so that the target's lock is held for well under a
 * millisecond; the rest of the copy is offered next. */

#include "config.h"

#include <string.h>
#include <sys/uio.h>

#include "move/access.h"
#include "offer.h"

#define SHARE_MIN ((size_t)512 * 1024)  /* bytes; below that one is as fast alone */
#define PIECE ((size_t)256 * 1024)      /* a system call each: as long as 10 to 40 KiB take */
#define PIECES 16

struct share {
    struct shm_span span;       /* the target's */
    uint64_t local;             /* address of the origin's */
    _Atomic uint64_t next;      /* piece that nobody has taken */
};

struct piece {
    size_t at, len;
};

static struct share *share_in(struct shm_slot *slot)
{
    return (struct share *)(void *)slot->body;
}

/* The next piece of a copy of `len` bytes; false: none is left. */
static bool next_piece(struct share *share, size_t len, struct piece *piece, unsigned *number)
{
    uint64_t next = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);

    if (next >= (len + PIECE - 1) / PIECE)
        return false;
    *number = (unsigned)next;
    piece->at = next * PIECE;
    piece->len = len - piece->at < PIECE ? len - piece->at : PIECE;
    return true;
}

static bool copy_piece(struct shm_peer *p, bool to_peer, uint64_t mine, uint64_t its,
                       const struct piece *piece)
{
    size_t done = 0;

    while (done < piece->len) {
        struct iovec local = { (void *)(uintptr_t)(mine + piece->at + done), piece->len - done };
        struct iovec remote = { (void *)(uintptr_t)(its + piece->at + done), piece->len - done };
        ssize_t got = loci_shm_vm_copy(p, to_peer, &local, &remote, 1);

        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* ---- origin ---- */

/* Pieces until there is none; a bit in *mine for each that is copied. False: the system refused
 * one, and whoever has the reason told should do it in the ordinary way. */
static bool copy_own(struct shm_peer *p, const struct loci_op *op, struct share *share,
                     uint64_t *mine)
{
    struct piece piece;
    unsigned number;

    while (next_piece(share, share->span.len, &piece, &number)) {
        if (!copy_piece(p, op->kind == LOCI_WRITE, share->local, share->span.at, &piece))
            return false;
        *mine |= UINT64_C(1) << number;
    }
    return true;
}

/* All but the pieces of *mine, once more. */
static bool copy_others(struct shm_peer *p, const struct loci_op *op, const struct share *share,
                        uint64_t mine)
{
    struct share again = { .span = share->span, .local = share->local };
    struct piece piece;
    unsigned number;

    while (next_piece(&again, again.span.len, &piece, &number))
        if ((mine >> number & 1) == 0
            && !copy_piece(p, op->kind == LOCI_WRITE, again.local, again.span.at, &piece))
            return false;
    return true;
}

int loci_shm_share(struct shm_peer *p, const struct loci_op *op, size_t skip, size_t *bytes,
                   unsigned *by_peer)
{
    size_t len = op->len - skip < PIECES * PIECE ? op->len - skip : PIECES * PIECE;
    uint64_t mine = 0, pieces = (len + PIECE - 1) / PIECE;
    struct shm_slot *slot;
    struct share *share;
    unsigned at;
    bool copied;
    int status;

    *by_peer = 0;
    if (len < SHARE_MIN || (slot = loci_shm_slot_claim(p, &at)) == NULL)
        return LOCO_ERR_AGAIN;
    slot->number = op->mem->key.extent;
    slot->op = (uint16_t)op->kind;
    slot->nspans = 0;
    share = share_in(slot);
    share->span = (struct shm_span){ op->mem->key.base + op->offset + skip, len };
    share->local = (uint64_t)(uintptr_t)op->local + skip;
    atomic_store_explicit(&share->next, 0, memory_order_relaxed);
    loci_shm_slot_ring(p, slot, at);
    copied = copy_own(p, op, share, &mine);
    status = loci_shm_slot_settle(p, slot);
    if (status == LOCO_OK) {
        *by_peer = (unsigned)(pieces - (uint64_t)__builtin_popcountll(mine));
        if (copied && slot->status != LOCO_OK)
            copied = copy_others(p, op, share, mine);
        loci_shm_slot_free(slot);
    } else if (status != LOCO_ERR_AGAIN) {
        return status;
    }
    *bytes = len;
    return copied ? LOCO_OK : LOCO_ERR_AGAIN;
}

/* ---- target ---- */

/* Who has that label; under fabric->lock. */
static struct shm_peer *peer_of(const struct shm_fabric *f, uint64_t label)
{
    struct shm_peer *p = f->peers;

    while (p != NULL && loci_shm_slot_label(&p->peer->address) != label)
        p = p->next;
    return p;
}

int loci_shm_share_help(struct shm_fabric *f, const struct shm_user *user,
                        const struct shm_wish *wish, struct shm_slot *slot, uint64_t label)
{
    struct shm_peer *p = peer_of(f, label);
    struct share *share = share_in(slot);
    bool to_peer = wish->op == LOCI_READ;
    struct shm_span span;
    struct piece piece;
    unsigned number;
    uint64_t its;

    loci_copy_once(&span, &share->span, sizeof span);
    loci_copy_once(&its, &share->local, sizeof its);
    if (p == NULL || (wish->op != LOCI_READ && wish->op != LOCI_WRITE)
        || span.len > PIECES * PIECE || span.at < user->base || span.at - user->base > user->len
        || span.len > user->len - (span.at - user->base))
        return LOCO_ERR_RANGE;
    while (next_piece(share, span.len, &piece, &number))
        if (!copy_piece(p, to_peer, span.at, its, &piece))
            return LOCO_ERR_SYSTEM;
    return LOCO_OK;
}

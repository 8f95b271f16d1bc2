/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SHM_OFFER_H
#define LOCI_SHM_OFFER_H

#include "shm.h"

/* Small copies of the user's memory that a peer does if it happens to be waiting; offer.c. */

#define SHM_OFFERS_EXTENT LOCI_MEMKEY_MOST /* number of the page of slots among mappings */

/* A place for one copy in the page of its target. Its fields are the origin's until it rings, and
 * then again when the copy was done or taken back. */
struct shm_slot {
    _Atomic uint64_t state;             /* label of the origin, enum offer_state */
    uint64_t number;                    /* of the user's memory */
    uint16_t op;                        /* enum loci_op_kind */
    uint16_t nspans;                    /* 0: a large copy that is shared out; share.c */
    int32_t status;
    uint32_t what;                      /* SHM_COMBINE */
    uint32_t unused;
    unsigned char body[];               /* spans, then data; or what share.c or an atomic puts */
};

/* What a slot asks for, as the target has read it, once: a peer may change the slot at any time,
 * and only what was checked is used. */
struct shm_wish {
    uint64_t number;
    uint32_t what;
    uint16_t op, nspans;
};
static inline struct shm_wish loci_shm_wish(const struct shm_slot *slot)
{
    const struct shm_wish wish = {
        .number = slot->number, .what = slot->what, .op = slot->op, .nspans = slot->nspans,
    };

    atomic_signal_fence(memory_order_seq_cst);      /* as in loci_copy_once() */
    return wish;
}

#define SHM_SLOT_BODY (LOCI_STRIDED_STRIPS * sizeof(struct loci_strip) + LOCI_STRIDED_BYTES + 32)
#define SHM_SLOTS 16
#define SHM_SLOT_BYTES (sizeof(struct shm_slot) + SHM_SLOT_BODY)

/* The page that a process's peers map. */
struct shm_offers {
    _Alignas(128) _Atomic uint64_t bell;
    _Alignas(128) struct loci_bells bells;      /* the runtime's: bell.h */
    _Alignas(128) unsigned char slots[SHM_SLOTS * SHM_SLOT_BYTES];
};

#define SHM_STRIDED 0x100               /* a flag of op: `nspans` strips, packed data; strided.c */
#define SHM_COMBINE 0x200               /* with it, in place of a kind: `what` */

/* A free slot of that peer's page, to fill; NULL where it has none, or for the service thread. */
struct shm_slot *loci_shm_slot_claim(struct shm_peer *p, unsigned *at);
/* Offer it. */
void loci_shm_slot_ring(struct shm_peer *p, struct shm_slot *slot, unsigned at);
/* Look for so long whether it is taken, at least for a moment; yields if that is more. */
void loci_shm_slot_look(struct shm_peer *p, const struct shm_slot *slot, int64_t ns);
/* LOCO_OK: it was taken, and is done; slot->status says how, and the slot is the caller's to free.
 * LOCO_ERR_AGAIN: taken back and free. LOCO_ERR_PEER_DEAD. */
int loci_shm_slot_settle(struct shm_peer *p, struct shm_slot *slot);
void loci_shm_slot_free(struct shm_slot *slot);
/* Whether an offer to that peer may be taken this time; whether the last was, soon enough. By what
 * the backoff falls and rises, and how far: of offers in vain one in 2^most is made. */
struct shm_odds {
    unsigned good, vain, most;
};
bool loci_shm_is_promising(struct shm_guess *guess);
void loci_shm_learn(struct shm_guess *guess, bool good, const struct shm_odds *odds);
/* What names a process in the states of slots. */
uint64_t loci_shm_slot_label(const struct loci_address *origin);

/* The page that peers offer in; none where that is not wanted or not possible. */
void loci_shm_offers_open(struct shm_fabric *f, struct loci_address *mine);
void loci_shm_offers_close(struct shm_fabric *f);

/* Offer the run of reads or writes at the start of the chain. LOCO_OK: the peer has done the
 * first *done ops. LOCO_ERR_AGAIN: it has done nothing, do it yourself. LOCO_ERR_PEER_DEAD. */
int loci_shm_offer(struct shm_peer *p, const struct loci_op *ops, int n, int *done);

/* The same for one fetch-and-add or compare-and-swap of op->len bytes, under the caller's lock. */
int loci_shm_update(struct loci_fabric *fabric, struct loci_peer *peer, const struct loci_op *op);

/* Any thread that waits: do what peers have offered to this process. One load where that is
 * nothing. Returns whether there was something. */
int loci_shm_help(struct loci_fabric *fabric, bool spins);
/* fabric.h's `ring`: by the page, if the peer has one. */
int loci_shm_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number);
/* Whether that peer and this process ring each other's bells (fabric.h). */
bool loci_shm_rings(struct shm_peer *p);
struct loci_bells *loci_shm_bells(struct loci_fabric *fabric, struct loci_peer *peer);

/* A part of a large read or write, from its byte `skip` on: *bytes of it are done, by this process
 * and, where it happens to be waiting, by the peer at the same time; *by_peer counts the pieces
 * that it has done. LOCO_ERR_AGAIN: nothing is done, do it yourself. LOCO_ERR_PEER_DEAD. */
int loci_shm_share(struct shm_peer *p, const struct loci_op *op, size_t skip, size_t *bytes,
                   unsigned *by_peer);
/* The target's side, under fabric->lock: a status. */
int loci_shm_share_help(struct shm_fabric *f, const struct shm_user *user,
                        const struct shm_wish *wish, struct shm_slot *slot, uint64_t label);

/* strided.c: the fabric's `strided` and `combine`; and the target's side, under fabric->lock. */
int loci_shm_strided(struct loci_fabric *fabric, struct loci_peer *peer,
                     const struct loci_strided *op);
int loci_shm_combine(struct loci_fabric *fabric, struct loci_peer *peer,
                     const struct loci_strided *op);
int loci_shm_strided_help(struct shm_fabric *f, const struct shm_user *user,
                          const struct shm_wish *wish, struct shm_slot *slot);

/* Slots of this process's page that are not free. */
unsigned loci_shm_offers_in_use(const struct shm_fabric *f);

/* Service thread: a peer has ended; what it had claimed is free. */
void loci_shm_offers_reclaim(struct shm_peer *p);

#endif

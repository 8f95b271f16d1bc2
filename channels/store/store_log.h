/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_LOG_H
#define LOCI_STORE_LOG_H

/* Log slots: one for each client (a transaction handle) at each host, written by that client. */

#include "store.h"

/* What is known of the transaction that owns a cell. */
struct loci_owner {
    enum loci_tx_state state;
    uint64_t status;                    /* as it was read: what a swap of it expects */
    uint64_t heartbeat;
    uint64_t old, new;                  /* plain words of the cell */
};

/* Of the owned `word` of that object's cell. LOCO_OK; LOCO_ERR_AGAIN: the cell has changed since,
 * or will in a moment; LOCO_ERR_PEER_DEAD: the log is gone. */
int loci_log_read_owner(struct loco_store *s, loco_object_t object, uint64_t word,
                        struct loci_owner *owner);

/* Fill in a slot's image for transaction `seq`, all but its status. */
void loci_log_fill(struct loci_log_slot *image, uint64_t seq);
/* Write its entries; the status is to be swapped behind it on the same lane, and that awaited,
 * before any cell names it. */
int loci_log_write(struct loco_store *s, uint64_t slot, const struct loci_log_slot *image,
                   loco_ack_t *ack);
/* From one status to another; *old is what was there. With `ack` it is on its way. */
int loci_log_swap(struct loco_store *s, uint64_t slot, uint64_t from, uint64_t to, uint64_t *old,
                  loco_ack_t *ack);
/* Its heartbeat word: where suspicion begins anew. Nobody waits for it but who waits for `ack`. */
int loci_log_beat(struct loco_store *s, uint64_t slot, uint64_t heartbeat, loco_ack_t *ack);
int loci_log_status(struct loco_store *s, uint64_t slot, uint64_t *status);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_TX_HISTORY_H
#define SIM_TX_HISTORY_H

/* What transactions read and wrote, and whether that is strictly serializable and opaque.
 *
 * Each version of an object has a number that no other version of any object has; 0 is the
 * version before the first. A transaction writes only what it has read, so the versions of each
 * object are a chain, and a history is strictly serializable if and only if the graph of these
 * edges has no cycle (Adya, "Weak consistency", 1999; real time: Papadimitriou 1979):
 *
 *   who wrote a version      -> who read it
 *   who wrote a version      -> who replaced it
 *   who read a version       -> who replaced it
 *   who ended before another -> that one
 *
 * Opaque (Guerraoui and Kapalka 2008): the reads of those that failed are in that graph as well, as
 * transactions that only read and ended with their last read. Stamps are as those of history.h. */

#include "history.h"

enum sim_tx_outcome {
    SIM_TX_OPEN,                /* has not asked to be committed: none of its values is seen */
    SIM_TX_ASKED,               /* has, and was not told: committed if one of them is seen */
    SIM_TX_COMMITTED,
    SIM_TX_FAILED               /* conflict, or given up */
};

struct sim_tx_access {
    uint64_t object;
    uint64_t read, written;     /* versions; written 0: it was not */
};

struct sim_tx {
    int client;                 /* loci_history_client() */
    bool opaque;                /* what it read is of one instant, whatever became of it */
    enum sim_tx_outcome outcome;
    uint64_t begin, last, end;  /* stamps; last: of the latest read; end: LOCI_NEVER unless it was
                                   told that it was committed */
    struct sim_tx_access *access;
    size_t naccess, room;
};

struct sim_tx_history {
    struct sim_tx *tx;
    size_t ntx, room;
    uint64_t stamp;
};

void sim_tx_history_fini(struct sim_tx_history *h);

/* The index of a transaction that begins. */
size_t sim_tx_begins(struct sim_tx_history *h, int client, bool opaque);
/* It was given that version; of one object once. */
void sim_tx_reads(struct sim_tx_history *h, size_t tx, uint64_t object, uint64_t version);
/* The version it will be, of an object that it has read. Again: the later one counts. Objects
 * that are made are read before, as version 0; those that are removed get a version that nobody
 * reads. */
void sim_tx_writes(struct sim_tx_history *h, size_t tx, uint64_t object, uint64_t version);
void sim_tx_asks(struct sim_tx_history *h, size_t tx);
/* What it is told, COMMITTED or FAILED; nothing: not called. */
void sim_tx_ends(struct sim_tx_history *h, size_t tx, enum sim_tx_outcome outcome);

/* True, or why not goes to `text`. */
bool sim_tx_check(const struct sim_tx_history *h, char *text, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the backends on a store of LOCO have in common: tx_loco.c, whose rows are objects, and
 * tx_index.c, which finds them by their keys. */
#ifndef MPI_EXAMPLES_TX_LOCO_H
#define MPI_EXAMPLES_TX_LOCO_H

#include "tx_example.h"

#include <loco/hash.h>
#include <loco/mpi.h>
#include <loco/tree.h>

struct tx_loco {
    loco_runtime_t *rt;
    loco_store_t *store;
    const struct tx_backend *backend;
    const struct tx_workload *workload;
    uint64_t first[TX_MOST_TABLES];         /* root of each table's first row, or of its index */
};

struct tx_loco_session {
    const struct tx_loco *in;
    loco_tx_t *tx;
    loco_tree_t *tree[TX_MOST_TABLES];
    loco_hash_t *hash[TX_MOST_TABLES];
};

void tx_loco_check(int status, const char *what);

/* Collective. `options->threads` is set here. */
struct tx_loco *tx_loco_open(const struct tx_options *o, const struct tx_workload *w,
                             loco_store_options_t *options);
void tx_loco_close(void *store);

int64_t tx_loco_undone(void *store);
void *tx_loco_attach(void *store);
void tx_loco_detach(void *session);
uint64_t tx_loco_run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call);

/* Of a call of the library; ends the program where that failed. */
int tx_loco_outcome(int status, const char *what);

#endif

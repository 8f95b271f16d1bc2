/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs smallbank and tatp have in common (tx_workload.h has what their transactions
 * are). tx_example.c loads the rows, has every client of every rank call transactions, and adds up
 * at the end: the sums over all rows must be what they were plus what committed transactions have
 * added.
 */
#ifndef MPI_EXAMPLES_TX_EXAMPLE_H
#define MPI_EXAMPLES_TX_EXAMPLE_H

#include "common.h"
#include "tx_workload.h"

/* What there is to choose from with --store; the first is the default. Ends with NULL. */
extern const struct tx_backend *const tx_backends[];

extern const struct tx_backend tx_loco, tx_tree, tx_hash;

/* main() of a workload. */
int tx_example(int argc, char **argv, const struct tx_workload *w);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores that smallbank and tatp are measured beside. Those whose libraries were not there for
 * ./configure are left out. None of them waits for a disk. */
#ifndef BENCH_TX_RIVALS_H
#define BENCH_TX_RIVALS_H

#include "config.h"

#include "../mpi_examples/tx_example.h"

extern const struct tx_backend tx_lmdb, tx_redis, tx_rocksdb, tx_wiredtiger;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_examples/smallbank and mpi_examples/tatp with the stores that they are measured beside. */
#include "tx_rivals.h"

const struct tx_backend *const tx_backends[] = {
    &tx_redis,
#ifdef LOCO_HAVE_LMDB
    &tx_lmdb,
#endif
#ifdef LOCO_HAVE_ROCKSDB
    &tx_rocksdb,
#endif
#ifdef LOCO_HAVE_WIREDTIGER
    &tx_wiredtiger,
#endif
    NULL,
};

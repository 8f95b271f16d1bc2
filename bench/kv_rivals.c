/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_examples/kv_ycsb with the stores that it is measured beside. */
#include "kv_rivals.h"

const struct kv_backend *const kv_backends[] = {
    &kv_loco, &kv_mpi, &kv_tree, &kv_hash, &kv_redis, &kv_redis_sorted, &kv_memcached,
#ifdef LOCO_HAVE_LMDB
    &kv_lmdb,
#endif
#ifdef LOCO_HAVE_ROCKSDB
    &kv_rocksdb,
#endif
#ifdef LOCO_HAVE_WIREDTIGER
    &kv_wiredtiger,
#endif
    &kv_private, &kv_btree, NULL,
};

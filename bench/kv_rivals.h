/* SPDX-License-Identifier: BSD-3-Clause */
/* The stores that mpi_examples/kv_ycsb is measured beside. */
#ifndef BENCH_KV_RIVALS_H
#define BENCH_KV_RIVALS_H

#include "config.h"

#include "../mpi_examples/kv_ycsb.h"

/* Those whose libraries were not there for ./configure are left out. */
extern const struct kv_backend kv_btree, kv_lmdb, kv_memcached, kv_private, kv_redis;
extern const struct kv_backend kv_redis_sorted, kv_rocksdb, kv_wiredtiger;

/* What store private does for a read, with what it has opened: false where the key is missing. */
bool kv_private_get(const void *table, uint64_t key, void *value);

#endif

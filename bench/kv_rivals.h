/* SPDX-License-Identifier: BSD-3-Clause */
/* The stores that mpi_examples/kv_ycsb is measured beside. */
#ifndef BENCH_KV_RIVALS_H
#define BENCH_KV_RIVALS_H

#include "../mpi_examples/kv_ycsb.h"

extern const struct kv_backend kv_btree, kv_memcached, kv_private, kv_redis;

/* What store private does for a read, with what it has opened: false where the key is missing. */
bool kv_private_get(const void *table, uint64_t key, void *value);

#endif

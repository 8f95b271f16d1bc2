/* SPDX-License-Identifier: BSD-3-Clause */

/* See kv_keeper.h. */

#include "config.h"

#include "kv_keeper.h"

#include "kvstore/kvstore.h"

int sim_kv_keeper(const loco_kvstore_t *kv, uint64_t key)
{
    uint64_t word = loci_kv_index_find(&kv->index, key);

    return word == 0 ? -1 : loci_kv_rank(kv, word);
}

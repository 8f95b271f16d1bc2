/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_KV_KEEPER_H
#define SIM_KV_KEEPER_H

#include <loco/kvstore.h>

/* The rank that keeps a key's value, as the index of this process says; -1: there is none. (The
 * store's own header and those of histories do not go together.) */
int sim_kv_keeper(const loco_kvstore_t *kv, uint64_t key);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_HOSTED_STORE_H
#define SIM_HOSTED_STORE_H

/* A hosted store of one host, as a pool will make it, for scenario_hosted.c. Apart from that, since
 * it needs the store's own headers. Process 0 is the host; place i is rank i + 1. */

#include <stdbool.h>

#include <loco/store.h>

struct sim_hosted_keys {
    uint64_t word[64];                  /* what the host tells of its memory */
};

/* The host's, with place -1, or that of who has the place. */
int sim_hosted_make(loco_runtime_t *rt, bool one_node, int places, int place,
                    const loco_store_options_t *options, loco_store_t **store);
void sim_hosted_tell(loco_store_t *store, struct sim_hosted_keys *keys);
int sim_hosted_learn(loco_store_t *store, const struct sim_hosted_keys *keys);
/* Host: that process has left the place. As loci_store_vacate(). */
int sim_hosted_vacate(loco_store_t *store, int place, int process);
/* Before that, of all of whom it is known. As loci_store_gone(). */
void sim_hosted_gone(loco_store_t *store, int place, int process);

#endif

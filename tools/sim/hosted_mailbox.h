/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_HOSTED_MAILBOX_H
#define SIM_HOSTED_MAILBOX_H

/* A hosted mailbox, as a pool makes it, for scenario_hosted_mailbox.c. Apart from that, since it
 * needs the mailbox's own headers. Process 0 is the host; place i is rank i + 1. */

#include <stdbool.h>

#include <loco/mailbox.h>

struct sim_mailbox_key {
    uint64_t word[16];                  /* what the host tells of its memory */
};

/* The host's. */
int sim_hosted_mailbox_host(loco_runtime_t *rt, bool one_node, int places,
                            const loco_mailbox_options_t *options, struct sim_mailbox_key *key,
                            loco_mailbox_t **box);
/* That of who has the place, which may be the host's process. */
int sim_hosted_mailbox_use(loco_runtime_t *rt, bool one_node, int places, int place,
                           const loco_mailbox_options_t *options,
                           const struct sim_mailbox_key *key, bool receives, loco_mailbox_t **box);
/* The host's: that process has left the place. As loci_mailbox_vacate(). */
int sim_hosted_mailbox_vacate(loco_mailbox_t *box, int place, int process);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */

/* See hosted_mailbox.h. */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "hosted_mailbox.h"
#include "names/hosted.h"
#include "runtime.h"
#include "streams/mailbox.h"

#define PLACES_MOST 16

_Static_assert(sizeof(struct sim_mailbox_key) >= sizeof(struct loci_memkey), "there is room");

static int make(loco_runtime_t *rt, enum loci_mailbox_way way, bool one_node, int places,
                int place, const loco_mailbox_options_t *options, loco_mailbox_t **box)
{
    int peer[1 + PLACES_MOST];
    struct loco_group group = { .rt = rt, .size = 1 + places, .rank = place + 1, .peer = peer };
    loco_mailbox_options_t o;
    int status = loci_mailbox_complete(rt, "make", "box", options, &o);

    for (int i = 0; i <= places; i++)
        peer[i] = LOCI_VACANT;
    peer[0] = rt->everyone->peer[0];
    peer[place + 1] = LOCI_SELF;
    return status != LOCO_OK ? status
           : loci_mailbox_make(rt, way, NULL, "box", &group, -1, &o,
                               one_node ? LOCI_DOMAIN_CPU : LOCI_DOMAIN_NIC, box);
}

int sim_hosted_mailbox_host(loco_runtime_t *rt, bool one_node, int places,
                            const loco_mailbox_options_t *options, struct sim_mailbox_key *key,
                            loco_mailbox_t **box)
{
    int status = make(rt, LOCI_MAILBOX_HOST, one_node, places, -1, options, box);
    struct loci_memkey mine;

    if (status != LOCO_OK)
        return status;
    loci_hosted_keys((*box)->ep, &mine);
    memcpy(key, &mine, sizeof mine);
    return LOCO_OK;
}

int sim_hosted_mailbox_use(loco_runtime_t *rt, bool one_node, int places, int place,
                           const loco_mailbox_options_t *options,
                           const struct sim_mailbox_key *key, bool receives, loco_mailbox_t **box)
{
    struct loci_memkey theirs;
    int status = make(rt, LOCI_MAILBOX_USE, one_node, places, place, options, box);

    if (status != LOCO_OK)
        return status;
    memcpy(&theirs, key, sizeof theirs);
    status = loci_hosted_import((*box)->ep, 0, &theirs);
    if (status == LOCO_OK)
        status = loci_mailbox_start(*box, receives);
    if (status != LOCO_OK) {
        loco_mailbox_destroy(*box);
        *box = NULL;
    }
    return status;
}

int sim_hosted_mailbox_vacate(loco_mailbox_t *box, int place, int process)
{
    return loci_mailbox_vacate(box, place + 1, box->rt->everyone->peer[process]);
}

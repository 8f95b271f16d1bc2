/* SPDX-License-Identifier: BSD-3-Clause */

/* Bells beside a device: peers whose memory is mapped are rung through it, others are not. */

#include "config.h"

#include "fabric/shm/offer.h"
#include "fabric/verbs/verbs.h"
#include "move/bell.h"
#include "shm_world.h"

/* Each rings the next: by the fabric of devices, on top of the runtime's own shm. */
static int rings(const struct loco_bootstrap *boot, void *arg)
{
    struct verbs_fabric f = { .beside_shm = true };
    struct loci_fabric *fabric = (struct loci_fabric *)&f;
    const struct loci_fabric_ops *ops = &loci_fabric_verbs_and_shm;
    struct loci_bells *bells;
    struct loci_peer *next;
    struct loci_bell *mine;
    struct world w;
    uint32_t any, poller;
    uint64_t marks = 0;
    int64_t start;

    NEED(enter(&w, boot, arg) == 0);
    f.rt = w.rt;
    f.shm = (struct shm_fabric *)w.rt->fabric;
    next = loci_peer(w.rt, w.rt->everyone->peer[(w.me + 1) % w.n]);
    mine = w.rt->bells->bell;
    any = atomic_load(&mine[LOCI_BELL_ANY].rings);
    poller = atomic_load(&mine[LOCI_BELL_POLLER].rings);
    NEED(together(&w) == LOCO_OK);
    for (start = run_now(); (bells = ops->bells(fabric, next)) == NULL; usleep(1000))
        NEED(run_now() - start < run_limit(RUN_PATIENCE));
    NEED(bells == loci_shm_bells(w.rt->fabric, next) && bells != w.rt->bells);
    NEED(ops->ring(fabric, next, 0) == LOCO_OK);
    NEED(ops->ring(fabric, next, 7) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    NEED(atomic_load(&mine[LOCI_BELL_ANY].rings) == any + 1);
    NEED(atomic_load(&mine[LOCI_BELL_POLLER].rings) == poller + 1);
    for (unsigned i = 0; i < LOCI_RUNG_WORDS; i++)
        marks |= loci_rung_take(&w.rt->bells->rung, i);
    NEED(marks == UINT64_C(1) << 7);
    return leave(&w);
}

Test(verbs_bells, of_the_same_node_are_rung_by_memory, .timeout = 60)
{
    run(2, rings, &plain);
}

/* They get messages. */
static int does_not(const struct loco_bootstrap *boot, void *arg)
{
    struct verbs_fabric f = { .beside_shm = true };
    struct loci_fabric *fabric = (struct loci_fabric *)&f;
    const struct loci_fabric_ops *ops = &loci_fabric_verbs_and_shm;
    struct loci_peer *next;
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    f.rt = w.rt;
    f.shm = (struct shm_fabric *)w.rt->fabric;
    next = loci_peer(w.rt, w.rt->everyone->peer[(w.me + 1) % w.n]);
    next->address.node ^= 1;            /* of this kernel, and another node by LOCO_NODE */
    NEED(ops->bells(fabric, next) == NULL);
    NEED(ops->ring(fabric, next, 7) == LOCO_ERR_AGAIN);
    next->address.node ^= 1;
    f.beside_shm = false;               /* all goes by the device */
    NEED(loci_fabric_verbs.bells(fabric, next) == NULL);
    NEED(loci_fabric_verbs.ring(fabric, next, 7) == LOCO_ERR_AGAIN);
    NEED(together(&w) == LOCO_OK);
    return leave(&w);
}

Test(verbs_bells, of_others_are_not, .timeout = 60)
{
    run(2, does_not, &plain);
}

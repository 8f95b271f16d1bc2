/* SPDX-License-Identifier: BSD-3-Clause */

/* Open groups: those with vacant ranks, for processes that come later. Example: a view of 8 members
 * that begins with 5; one of them dies, and its successor gets rank 5.
 *
 * A vacant rank has a peer like any other, `nobody`: a place in the table of peers that is dead
 * from the beginning. So whoever goes through a group passes over it as over those who have died.
 * When somebody is seated there the rank gets that peer's index instead, once: nobody leaves a
 * rank. An endpoint of such a group is ready without those ranks, and stays ready. Who comes knows
 * fewer members than others, or more; so the group's hash is not compared, but each pair of members
 * still compares all else.
 *
 * Who comes may ask before it is seated: it is not answered then, and asks again. Who seats it
 * asks, too, so mostly nobody waits for that. */

#include "config.h"

#include <stdlib.h>

#include "names.h"

/* Never in the hash, never forgotten, never introduced to a fabric. Under peers_lock. */
static struct loci_peer *make_nobody(struct loco_runtime *rt)
{
    struct loci_peer *peer = loci_peer_take_place(rt);

    if (peer == NULL)
        return NULL;
    peer->address = rt->address;
    peer->address.identity = 0;
    peer->address.pid = 0;
    atomic_store_explicit(&peer->silent, true, memory_order_relaxed);
    atomic_store_explicit(&peer->reachable, true, memory_order_relaxed);
    atomic_store_explicit(&peer->introduced, LOCO_OK, memory_order_relaxed);
    atomic_store_explicit(&peer->bells, &rt->no_bells, memory_order_relaxed);
    atomic_store_explicit(&peer->state, LOCI_PEER_DEAD, memory_order_release);
    return peer;
}

static struct loci_peer *nobody(struct loco_runtime *rt)
{
    struct loci_peer *peer;

    pthread_mutex_lock(&rt->peers_lock);
    if (rt->nobody == NULL)
        rt->nobody = make_nobody(rt);
    peer = rt->nobody;
    pthread_mutex_unlock(&rt->peers_lock);
    return peer;
}

int loci_group_open(struct loco_runtime *rt, int size, int n, const int *peers,
                    struct loco_group **group)
{
    const struct loci_peer *vacant = nobody(rt);
    int *all = malloc((size_t)size * sizeof all[0]), status = LOCO_ERR_NO_MEMORY;

    for (int rank = 0; all != NULL && vacant != NULL && rank < size; rank++)
        all[rank] = rank < n && peers[rank] >= 0 ? peers[rank] : vacant->index;
    if (all != NULL && vacant != NULL)
        status = loci_group_of(rt, size, all, group);
    if (status == LOCO_OK)
        (*group)->open = true;
    free(all);
    return status;
}

bool loci_group_is_vacant(const struct loco_group *group, int rank)
{
    return group->open && loci_peer(group->rt, loci_group_peer(group, rank)) == group->rt->nobody;
}

int loci_entry_expects(struct loci_entry *e)
{
    int expected = 0;

    for (int rank = 0; rank < e->ep.group.size; rank++) {
        e->member[rank].knows = rank == e->ep.group.rank
                                || loci_group_is_vacant(&e->ep.group, rank);
        expected += !e->member[rank].knows;
    }
    return expected;
}

void loci_endpoint_seat(struct loci_endpoint *ep, int rank, int peer)
{
    struct loci_entry *e = loci_entry_of(ep);
    struct loci_names *names = ep->rt->names;
    struct loci_control m;
    int nobody = loci_group_peer(&ep->group, rank);

    loci_peers_use(ep->rt, &peer, 1);
    pthread_mutex_lock(&names->lock);
    e->member[rank].late = true;
    __atomic_store_n(&ep->group.peer[rank], peer, __ATOMIC_RELEASE);
    loci_control_describe(e, LOCI_CONTROL_JOIN, 0, &m);
    pthread_mutex_unlock(&names->lock);
    loci_peers_end_use(ep->rt, &nobody, 1);
    if (loci_peer_alive(ep->rt, peer))
        loci_names_send(ep->rt, peer, &m);
}

void loci_endpoint_give_up(struct loci_endpoint *ep, int rank)
{
    struct loci_entry *e = loci_entry_of(ep);
    struct loci_names *names = ep->rt->names;

    pthread_mutex_lock(&names->lock);
    loci_entry_knows(e, rank);
    loci_names_settle(names, e);
    pthread_mutex_unlock(&names->lock);
}

void loci_endpoint_abandon(struct loci_endpoint *ep, int status)
{
    struct loci_entry *e = loci_entry_of(ep);
    struct loci_names *names = ep->rt->names;

    pthread_mutex_lock(&names->lock);
    e->closed = true;
    if (ep->spec.late && atomic_load_explicit(&ep->missing, memory_order_relaxed) > 0)
        loci_entry_fail(e, status);
    loci_names_settle(names, e);
    pthread_mutex_unlock(&names->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The end of an endpoint: when its memory is given back.
 *
 * Members destroy theirs in any order and at any distance in time: whoever is first has memory that
 * the others still read, by threads of the library (a store's tracker) or because they do not know
 * of a death yet that made it destroy. So the memory of an endpoint that was destroyed is kept
 * until each member that was sent its keys has said that it has left, or has gone and is silent:
 * what it had posted before may arrive for a while, until the fabric has cut it off.
 *
 *   at A, from B                    A
 *   connect, connected (keys)       notes that B's keys were offered to it; in destroy it says
 *                                   leave to B, behind its last operation
 *   the same, for an earlier        says leave at once: nobody here has these keys
 *   endpoint of A
 *   leave                           B uses A's keys no more: those of this endpoint and of
 *                                   earlier ones
 *
 * Who writes what, under the table's lock: `told`, the youngest endpoint of a member that the keys
 * were sent to, by whoever sends them, before it does; `left`, the youngest that has left, when a
 * leave comes. A member may use the keys while told > left. Each message with keys arrives while
 * its endpoint is there, and is noted, or later, and is answered: so each is followed by a leave,
 * of that number or a higher one, or by the end of its process. Numbers make doubled and overtaken
 * messages harmless: a leave never counts for an endpoint that was told later. One that is lost
 * costs the memory until the member or this runtime closes.
 *
 * An endpoint that was destroyed is in `leaving`, by its number, while members are owed to it. */

#include "config.h"

#include <stdlib.h>

#include "names.h"
#include "wait.h"

static struct loci_entry **place_of(struct loci_names *names, uint64_t number)
{
    return &names->leaving[number % LOCI_NAMES_BUCKETS];
}

static bool may_use(const struct loci_entry *e, int rank)
{
    const struct loci_member *member = &e->member[rank];
    const struct loci_peer *peer = loci_peer(e->ep.rt, loci_group_peer(&e->ep.group, rank));

    /* Acquire: pairs with the exchange in loci_peer_silent(), which then looks, under the lock, for
     * what has not seen it. */
    return member->told > member->left
           && !atomic_load_explicit(&peer->silent, memory_order_acquire);
}

static size_t bytes_of(const struct loci_entry *e)
{
    const struct loci_endpoint *ep = &e->ep;
    size_t bytes = 0;

    for (int i = 0; i < ep->spec.nregions; i++)
        bytes += ep->mem[ep->group.rank * ep->spec.nregions + i].key.len;
    return bytes;
}

/* Under the lock: it is owed nothing, or not any more. */
static void take_out(struct loci_names *names, struct loci_entry *e)
{
    struct loci_entry **at = place_of(names, e->number);

    while (*at != e)
        at = &(*at)->next_leaving;
    *at = e->next_leaving;
}

/* Under the lock: this member will not use the keys any more. True: nobody will, and the entry is
 * the caller's to free. */
static bool settle(struct loci_names *names, struct loci_entry *e, int rank, uint64_t number)
{
    struct loci_member *member = &e->member[rank];
    bool owed = e->owed > 0 && member->owed;

    if (number > member->left)
        member->left = number;
    if (!owed || member->told > member->left)
        return false;
    member->owed = false;
    if (--e->owed > 0)
        return false;
    take_out(names, e);
    return true;
}

/* ---- destroying one ---- */

void loci_entry_leave(struct loci_names *names, struct loci_entry *e)
{
    struct loci_entry **at = place_of(names, e->number);

    e->owed = 1;            /* to the thread that destroys it */
    e->next_leaving = *at;
    *at = e;
}

/* Under the lock: nothing is told any more. */
static void count_owed(struct loci_entry *e)
{
    for (int rank = 0; rank < e->ep.group.size; rank++) {
        e->member[rank].owed = may_use(e, rank);
        e->owed += e->member[rank].owed;
    }
}

static void say_leave(const struct loci_entry *e, int rank)
{
    struct loci_control m;

    loci_control_describe(e, LOCI_CONTROL_LEAVE, e->member[rank].offered, &m);
    loci_names_send(e->ep.rt, loci_group_peer(&e->ep.group, rank), &m);
}

void loci_entry_left(struct loci_entry *e)
{
    struct loci_names *names = e->ep.rt->names;
    bool last;

    loci_entry_let_go(e);
    for (int rank = 0; rank < e->ep.group.size; rank++)
        if (e->member[rank].offered != 0
            && loci_peer_alive(e->ep.rt, loci_group_peer(&e->ep.group, rank)))
            say_leave(e, rank);
    pthread_mutex_lock(&names->lock);
    count_owed(e);
    last = --e->owed == 0;
    if (last)
        take_out(names, e);
    else
        loci_memory_is_owed(e->ep.rt, bytes_of(e));
    pthread_mutex_unlock(&names->lock);
    if (last)
        loci_entry_free(e);
}

static void give_back(struct loci_entry *e)
{
    struct loco_runtime *rt = e->ep.rt;
    size_t bytes = bytes_of(e);

    loci_entry_free(e);
    loci_memory_was_owed(rt, bytes);
}

/* ---- from the service thread ---- */

void loci_names_member_left(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    struct loci_names *names = rt->names;
    struct loci_entry *e;
    bool last = false;
    int rank;

    pthread_mutex_lock(&names->lock);
    e = loci_names_find(names, m->name);
    if (e == NULL || e->number != m->to)
        for (e = *place_of(names, m->to); e != NULL && e->number != m->to; e = e->next_leaving)
            ;
    rank = e == NULL ? -1 : loci_entry_rank_of(e, peer, m->rank);
    if (rank >= 0 && !e->leaving && e->ep.spec.on_absent != NULL)
        e->ep.spec.on_absent(&e->ep, rank, e->ep.spec.ctx);
    if (rank >= 0)
        last = settle(names, e, rank, m->from);
    pthread_mutex_unlock(&names->lock);
    if (last)
        give_back(e);
}

/* Under the lock: of one place, those that only this peer was owed to. */
static void settle_all(struct loci_names *names, struct loci_entry *e, int peer,
                       struct loci_entry **done)
{
    while (e != NULL) {
        struct loci_entry *next = e->next_leaving;
        int rank = loci_entry_rank_of(e, peer, 0);

        if (rank >= 0 && settle(names, e, rank, e->member[rank].told)) {
            e->next_leaving = *done;
            *done = e;
        }
        e = next;
    }
}

/* Under the lock: endpoints that want to know. */
static void tell_silent(struct loci_names *names, int peer)
{
    for (size_t b = 0; b < names->buckets; b++)
        for (struct loci_endpoint *ep = names->bucket[b]; ep != NULL; ep = ep->next) {
            int rank = ep->spec.on_silent == NULL ? -1
                       : loci_entry_rank_of(loci_entry_of(ep), peer, 0);

            if (rank >= 0)
                ep->spec.on_silent(ep, rank, ep->spec.ctx);
        }
}

void loci_names_left_by(struct loco_runtime *rt, int peer)
{
    struct loci_names *names = rt->names;
    struct loci_entry *done = NULL;

    pthread_mutex_lock(&names->lock);
    for (int b = 0; b < LOCI_NAMES_BUCKETS; b++)
        settle_all(names, names->leaving[b], peer, &done);
    tell_silent(names, peer);
    pthread_mutex_unlock(&names->lock);
    while (done != NULL) {
        struct loci_entry *e = done;

        done = e->next_leaving;
        give_back(e);
    }
}

/* Behind the goodbyes: peers keep what they have mapped. */
void loci_names_forget_leaving(struct loco_runtime *rt)
{
    struct loci_names *names = rt->names;

    for (int b = 0; b < LOCI_NAMES_BUCKETS; b++)
        for (;;) {
            struct loci_entry *e;

            pthread_mutex_lock(&names->lock);
            e = names->leaving[b];
            if (e != NULL)
                names->leaving[b] = e->next_leaving;
            pthread_mutex_unlock(&names->lock);
            if (e == NULL)
                break;
            give_back(e);
        }
}

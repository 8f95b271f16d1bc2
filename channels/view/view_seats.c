/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: processes that come later. See view.c and view_join.c.
 *
 * A view may have more ranks than the group that it is made of: seats. A process that did not exist
 * then, or one that was cut off and has opened another runtime, gets the next one. Ranks are given
 * out once each, in their order, so each word about a rank still only grows.
 *
 *   admit    a member sends the address of who comes by a multicast that each view with seats has:
 *            so all members see the same ones in the same order, and the n-th gets the n-th seat.
 *            Addresses are kept in a region of each member
 *   learn    who is outside is not sent these. Each member tells how many it has (SEATED), and who
 *            has fewer reads the rest there. What somebody has is decided: it was delivered, or
 *            read from where it was. A process that comes in has read all that were given out
 *            before its first view, before it begins, so that those it is sent then are the next
 *   seat     the rank of this endpoint, and of those of the multicasts, is that process
 *            (names/seats.c)
 *   meet     its endpoints are connected, and all its memory is mapped: told as MET
 *   join     as any other process that is outside (view_join.c). But nobody wedges for it, and no
 *            leader takes it in, before all who would be in with it have met it, and it has met all
 *            of them, also those that are dead and not suspected yet: on one node members read what
 *            the dead have left, so all must have mapped it
 *
 * Its ticket says what it needs to begin: the view's properties, who has which rank, who is dead,
 * and who has made its endpoints. With these it connects before it is ready; all others it seats
 * like everybody else. What happens to it until it joins is no business of the members': they do
 * not wait for it. A seat whose process dies stays empty.
 *
 * Who waits to be connected to a member that leaves just then is not told by it, for that one does
 * not know it yet. Such a process asks in a way that is answered also where the endpoint has been
 * destroyed (names/ask.c), and who was connected too late to be told hears that the endpoint is
 * (LEAVE): it suspects that member (note_absent() in view.c). When the view has ended for it, it
 * waits for nobody any more.
 *
 * Nothing here takes a multicast's lock: its poller may have that as long as others do not push,
 * who may be waiting for this process to wedge. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "move/bell.h"
#include "multicast/multicast_parts.h"
#include "observe/log.h"
#include "view.h"
#include "wait.h"

#define SLOTS 4

/* ---- addresses of who has a rank; under the lock, but for the view's own thread ---- */

static uint64_t address_at(int rank)
{
    return (uint64_t)rank * sizeof(struct loci_address);
}

static unsigned char *own_table(const struct loco_view *v)
{
    return loci_mem_ptr(loci_view_mem(v, v->rank, v->seats.region));
}

int loci_view_taken(const struct loco_view *v)
{
    return atomic_load_explicit(&v->seats.taken, memory_order_acquire);
}

void loci_view_address(const struct loco_view *v, int rank, struct loci_address *address)
{
    loci_copy_out(address, own_table(v) + address_at(rank), sizeof *address);
}

static void add(struct loco_view *v, const struct loci_address *address)
{
    int rank = loci_view_taken(v);

    loci_copy_in(own_table(v) + address_at(rank), address, sizeof *address);
    /* Release: who finds the rank taken finds its address. */
    atomic_store_explicit(&v->seats.taken, rank + 1, memory_order_release);
}

int loci_view_rank_of(const struct loco_view *v, const struct loci_address *address)
{
    struct loci_address of;

    for (int rank = 0; rank < loci_view_taken(v); rank++) {
        loci_view_address(v, rank, &of);
        if (of.identity == address->identity && of.label == address->label)
            return rank;
    }
    return -1;
}

void loci_view_add_seats(struct loco_view *v, struct loci_region_spec *region)
{
    *region = (struct loci_region_spec){
        "seats", (uint64_t)v->size * sizeof(struct loci_address), 0, LOCI_FROM_ALL };
}

/* ---- the multicast ---- */

static void on_admission(void *arg, const loco_delivery_t *messages, int n)
{
    struct loco_view *v = arg;
    struct loci_address address;

    pthread_mutex_lock(&v->lock);
    for (int i = 0; i < n; i++) {
        if (messages[i].bytes != sizeof address)
            continue;
        memcpy(&address, messages[i].data, sizeof address);
        if (loci_view_rank_of(v, &address) < 0 && loci_view_taken(v) < v->size)
            add(v, &address);
    }
    pthread_mutex_unlock(&v->lock);
    loci_ring_self(v->rt);
}

int loci_view_open_seats(struct loco_view *v, const struct loci_view_ticket *ticket)
{
    const loco_multicast_options_t o = {
        .slots = SLOTS, .slot_bytes = sizeof(struct loci_address), .handler = on_admission,
        .arg = v,
    };
    int n = ticket != NULL ? ticket->taken : v->seats.founders;

    for (int rank = 0; rank < n; rank++)
        add(v, ticket != NULL ? &ticket->address[rank]
            : &loci_peer(v->rt, loci_group_peer(&v->ep->group, rank))->address);
    v->own[LOCI_VIEW_MET] = loci_view_bit(v->rank);
    atomic_store_explicit(&v->seats.met, v->own[LOCI_VIEW_MET], memory_order_relaxed);
    return loci_view_add_multicast(v, "+seats", &o);
}

/* ---- who can come ---- */

static bool have_met(const struct loco_view *v, int a, int b)
{
    return a == b || (loci_view_has(loci_view_see(v, a, LOCI_VIEW_MET), b)
                      && loci_view_has(loci_view_see(v, b, LOCI_VIEW_MET), a));
}

static bool can_come(const struct loco_view *v, int who, uint64_t in)
{
    uint64_t ready = loci_view_see(v, who, LOCI_VIEW_READY);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(in, rank)
            && (!have_met(v, who, rank)
                || (loci_view_see(v, rank, LOCI_VIEW_READY) & ~ready) != 0))
            return false;
    return true;
}

uint64_t loci_view_can_come(const struct loco_view *v, uint64_t wished)
{
    uint64_t in = wished & v->members;

    for (int rank = 0; rank < v->size && v->seats.open; rank++)
        if (loci_view_has(wished & ~v->members, rank) && can_come(v, rank, in))
            in |= loci_view_bit(rank);
    return v->seats.open ? in : wished;
}

/* ---- learn ---- */

/* Who knows more than this process, and can be asked; or -1. */
static int teacher(const struct loco_view *v)
{
    uint64_t of = v->known & ~v->own[LOCI_VIEW_SUSPECTED] & ~v->seats.unread;

    for (int rank = 0; rank < v->size; rank++)
        if (rank != v->rank && loci_view_has(of, rank)
            && loci_view_see(v, rank, LOCI_VIEW_SEATED) > (uint64_t)loci_view_taken(v))
            return rank;
    return -1;
}

bool loci_view_learn_holds(struct loco_view *v)
{
    return v->seats.open && teacher(v) >= 0;
}

/* What cannot be read is of who is dead. */
void loci_view_learn(struct loco_view *v)
{
    struct loci_address of[LOCI_VIEW_MEMBERS];
    int from = teacher(v), begin = loci_view_taken(v), n;
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    if (from < 0)
        return;                 /* it was sent them meanwhile */
    n = (int)loci_view_see(v, from, LOCI_VIEW_SEATED) - begin;
    if (n > v->size - begin)
        n = v->size - begin;
    status = loci_read(v->rt, loci_view_mem(v, from, v->seats.region), address_at(begin), of,
                       (size_t)n * sizeof of[0], &ack);
    if (loco_ack_wait(v->rt, &ack) != LOCO_OK || status != LOCO_OK) {
        v->seats.unread |= loci_view_bit(from);
        return;
    }
    pthread_mutex_lock(&v->lock);
    for (int i = loci_view_taken(v) - begin; i < n; i++)      /* some may have come meanwhile */
        add(v, &of[i]);
    pthread_mutex_unlock(&v->lock);
}

/* ---- seat ---- */

static uint64_t to_be_seated(const struct loco_view *v)
{
    return loci_view_below(loci_view_taken(v)) & ~loci_view_all(v);
}

bool loci_view_seat_holds(struct loco_view *v)
{
    return v->seats.open && (to_be_seated(v) != 0
                             || v->own[LOCI_VIEW_SEATED] < (uint64_t)loci_view_taken(v));
}

/* -1: it cannot be met. */
static int meet_peer(struct loco_view *v, int rank)
{
    struct loci_address address;
    int peer, status;

    loci_view_address(v, rank, &address);
    if (address.identity == 0)
        return -1;
    status = loci_peer_meet(v->rt, &address, &peer);
    if (status == LOCO_OK)
        return peer;
    LOCI_LOG(v->rt, LOCO_LOG_ERROR, "view %s: process %016llx, that is to have rank %d, cannot be "
             "met: %s", v->ep->name, (unsigned long long)address.identity, rank,
             loco_strerror(status));
    return -1;
}

/* Who cannot be met is as good as dead: it stays nobody, and is suspected next; as is who is
 * suspected already. */
static void seat(struct loco_view *v, int rank)
{
    bool gone = loci_view_has(v->own[LOCI_VIEW_SUSPECTED], rank);
    int peer = gone ? -1 : meet_peer(v, rank);

    pthread_mutex_lock(&v->lock);
    if (gone && v->seats.late)
        v->gone |= loci_view_bit(rank);
    if (peer >= 0) {
        loci_endpoint_seat(v->ep, rank, peer);
        for (int k = 0; k < loci_view_multicasts(v); k++)
            loci_mc_seat(v->multicast[k].m, rank, peer);
    }
    v->filled |= loci_view_bit(rank);
    pthread_mutex_unlock(&v->lock);
    if (peer >= 0)
        loci_peers_let_go(v->rt, &peer, 1);
}

void loci_view_seat(struct loco_view *v)
{
    uint64_t seats = to_be_seated(v);
    int n = loci_view_taken(v);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(seats, rank))
            seat(v, rank);
    loci_view_tell(v, LOCI_VIEW_SEATED, (uint64_t)n);
    loci_view_wake(v);
}

/* ---- meet ---- */

static bool is_met(const struct loco_view *v, int rank)
{
    if (!loci_view_has(v->known, rank))
        return false;
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (!loci_mc_meet(v->multicast[k].m, rank))
            return false;
    return true;
}

static uint64_t met(const struct loco_view *v)
{
    uint64_t found = v->own[LOCI_VIEW_MET];
    uint64_t strangers = loci_view_all(v) & ~found & ~v->own[LOCI_VIEW_SUSPECTED];

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(strangers, rank) && is_met(v, rank))
            found |= loci_view_bit(rank);
    return found;
}

bool loci_view_meet_holds(struct loco_view *v)
{
    return v->seats.open && met(v) != v->own[LOCI_VIEW_MET];
}

void loci_view_meet(struct loco_view *v)
{
    uint64_t found = met(v);

    loci_view_tell(v, LOCI_VIEW_MET, found);
    atomic_store_explicit(&v->seats.met, found, memory_order_relaxed);
}

/* ---- who came late ---- */

void loci_view_start_late(struct loco_view *v, const struct loci_view_ticket *ticket)
{
    v->seats.founders = ticket->founders;
    v->filled = loci_view_old(ticket) | ticket->gone | loci_view_bit(v->rank);
    v->first = ticket->first;
    v->view = v->number = ticket->view;
    v->members = v->present = ticket->members;
    v->gone = ticket->gone;
    v->out = ~v->members;
    v->stage = LOCI_VIEW_OUT;
}

void loci_view_give_up(struct loco_view *v, uint64_t gone)
{
    pthread_mutex_lock(&v->lock);
    v->gone |= gone;
    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(gone, rank))
            loci_endpoint_give_up(v->ep, rank);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        loci_mc_lose(v->multicast[k].m, gone);
    pthread_mutex_unlock(&v->lock);
}

/* None is made after that: there is a status. */
void loci_view_abandon(struct loco_view *v, int status)
{
    loci_endpoint_abandon(v->ep, status);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        loci_mc_abandon(v->multicast[k].m, status);
}

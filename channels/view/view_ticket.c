/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: addresses and tickets, which programs pass on from process to process. What becomes of
 * them: view_seats.c. */

#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "multicast/multicast_parts.h"
#include "observe/mistake.h"
#include "threads/poller.h"
#include "view.h"
#include "wait.h"

#define RETRY INT64_C(1000000)      /* ns between looks for a slot */

/* An address as programs pass it on. */
struct address {
    char magic[8];
    struct loci_address of;
};

static const char address_magic[8] = "locoaddr", ticket_magic[8] = "locoview";

_Static_assert(sizeof(struct address) <= LOCO_ADDRESS_MAX, "it fits");
_Static_assert(sizeof(struct loci_view_ticket) + LOCI_VIEW_MEMBERS * sizeof(struct loci_address)
               <= LOCO_VIEW_TICKET_MAX, "it fits");

/* ---- addresses ---- */

int loco_runtime_address(loco_runtime_t *rt, void *address, size_t *bytes)
{
    struct address a;

    if (*bytes < sizeof a) {
        *bytes = sizeof a;
        return LOCO_ERR_SIZE;
    }
    memset(&a, 0, sizeof a);
    memcpy(a.magic, address_magic, sizeof a.magic);
    a.of = rt->address;
    memcpy(address, &a, sizeof a);
    *bytes = sizeof a;
    return LOCO_OK;
}

/* Who may be asked for a ticket now. */
static int refuse_admit(struct loco_view *v, const void *address, size_t bytes,
                        const size_t *ticket_bytes)
{
    static const char admit[] = "loco_view_admit";

    if (!v->seats.open)
        return loci_mistake(v->rt, LOCO_ERR_STATE, admit, v->ep->name, "the view was created "
                            "without seats for other processes");
    if (bytes != sizeof(struct address) || memcmp(address, address_magic, 8) != 0)
        return loci_mistake(v->rt, LOCO_ERR_ARG, admit, v->ep->name, "what it was given is no "
                            "address of loco_runtime_address() of the same version");
    if (*ticket_bytes < LOCO_VIEW_TICKET_MAX)
        return loci_bad_arg(v->rt, admit, v->ep->name, "ticket_bytes", (long long)*ticket_bytes,
                            "at least LOCO_VIEW_TICKET_MAX");
    if (loci_view_is_self(v) || loci_poller_is_self(v->rt))
        return LOCO_ERR_AGAIN;
    return LOCO_OK;
}

struct admission {
    struct loco_view *v;
    struct loci_address address;
    int rank;
};

/* It has a seat, and this process would answer it; 1, 0 or a status. */
static int is_seated(void *arg)
{
    struct admission *a = arg;
    struct loco_view *v = a->v;
    int status;

    pthread_mutex_lock(&v->lock);
    status = v->status;
    a->rank = loci_view_rank_of(v, &a->address);
    if (status == LOCO_OK && a->rank >= 0)
        status = loci_view_has(v->filled, a->rank);
    else if (status == LOCO_OK && loci_view_taken(v) == v->size)
        status = LOCO_ERR_FULL;
    pthread_mutex_unlock(&v->lock);
    return status;
}

/* Under the lock. Who is not reached any more has no address. */
static void write_ticket(struct loco_view *v, int rank, struct loci_view_ticket *t)
{
    memcpy(t->magic, ticket_magic, sizeof t->magic);
    t->version = v->rt->address.version;
    t->machines = v->rt->ops->spans;
    t->seats = v->size;
    t->founders = v->seats.founders;
    t->rank = rank;
    t->taken = loci_view_taken(v);
    t->flags = v->flags;
    t->multicasts = v->most - 1;
    t->outside = loci_view_below(t->founders) & ~v->first;
    t->chunk = v->chunk;
    t->first = v->first;
    t->view = v->number;
    t->members = v->present;
    t->gone = v->gone;
    t->connected = atomic_load_explicit(&v->seats.met, memory_order_relaxed);
    memcpy(t->name, v->ep->name, sizeof t->name);
    t->bytes = (uint32_t)(sizeof *t + (size_t)t->taken * sizeof t->address[0]);
    for (int i = 0; i < t->taken; i++) {
        loci_view_address(v, i, &t->address[i]);
        if (i != rank && loci_view_has(v->filled, i)
            && !loci_peer_alive(v->rt, loci_group_peer(&v->ep->group, i)))
            t->gone |= loci_view_bit(i);
        if (loci_view_has(t->gone, i))
            t->address[i].identity = 0;
    }
}

/* What is left of a timeout since then. */
static int64_t left_of(struct loco_runtime *rt, int64_t start, int64_t timeout_ns)
{
    int64_t past = loci_now(rt) - start;

    if (timeout_ns == LOCO_FOREVER)
        return LOCO_FOREVER;
    return timeout_ns > past ? timeout_ns - past : 0;
}

/* Sends one message. Where all slots are in use, since members are slow, it is tried again;
 * meanwhile the seat may come by another member's message. */
static int ask_for_seat(struct admission *a, int64_t start, int64_t timeout_ns)
{
    int status;

    do {
        status = loco_multicast_try_post(a->v->multicast[0].m, &a->address, sizeof a->address,
                                         NULL);
        if (status != LOCO_ERR_AGAIN)
            return status;
        status = loci_view_wait_until(a->v, is_seated, a, RETRY);
    } while (status == LOCO_ERR_TIMEOUT && left_of(a->v->rt, start, timeout_ns) != 0);
    return status;
}

static int give_ticket(const struct admission *a, void *ticket, size_t *bytes)
{
    struct loci_view_ticket *t = calloc(1, LOCO_VIEW_TICKET_MAX);

    if (t == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_lock(&a->v->lock);
    write_ticket(a->v, a->rank, t);
    pthread_mutex_unlock(&a->v->lock);
    memcpy(ticket, t, t->bytes);
    *bytes = t->bytes;
    free(t);
    return LOCO_OK;
}

int loco_view_admit(loco_view_t *v, const void *address, size_t bytes, void *ticket,
                    size_t *ticket_bytes, int64_t timeout_ns)
{
    struct admission a = { .v = v };
    int64_t start = loci_now(v->rt);
    int status = refuse_admit(v, address, bytes, ticket_bytes);

    if (status == LOCO_OK)
        status = loci_check_timeout(v->rt, "loco_view_admit", v->ep->name, timeout_ns);
    if (status != LOCO_OK)
        return status;
    memcpy(&a.address, (const unsigned char *)address + offsetof(struct address, of),
           sizeof a.address);
    if (is_seated(&a) == 0 && a.rank < 0)
        status = ask_for_seat(&a, start, timeout_ns);
    if (status == LOCO_OK)
        status = loci_view_wait_until(v, is_seated, &a, left_of(v->rt, start, timeout_ns));
    if (status != LOCO_OK)
        return status;
    return give_ticket(&a, ticket, ticket_bytes);
}

/* ---- entering ---- */

static const char enter[] = "loco_view_enter";

static bool makes_sense(const struct loci_view_ticket *t, size_t bytes)
{
    return bytes >= sizeof *t && memcmp(t->magic, ticket_magic, sizeof t->magic) == 0
           && t->bytes <= bytes && t->seats >= 2 && t->seats <= LOCI_VIEW_MEMBERS
           && t->taken >= 2 && t->taken <= t->seats && t->founders >= 1
           && t->founders < t->taken && t->rank >= t->founders && t->rank < t->taken
           && t->multicasts >= 1 && t->multicasts < LOCI_VIEW_MEMBERS
           && t->bytes == sizeof *t + (size_t)t->taken * sizeof t->address[0]
           && memchr(t->name, 0, sizeof t->name) != NULL;
}

static int refuse_ticket(struct loco_runtime *rt, const struct loci_view_ticket *t, size_t bytes)
{
    if (!makes_sense(t, bytes))
        return loci_mistake(rt, LOCO_ERR_ARG, enter, NULL, "what it was given is no ticket of "
                            "loco_view_admit()");
    if (t->version != rt->address.version)
        return loci_mistake(rt, LOCO_ERR_PROTOCOL, enter, t->name, "the ticket is of version %u of "
                            "the protocol, this process has %u: run the same libloco everywhere",
                            t->version, rt->address.version);
    if (t->address[t->rank].identity != rt->address.identity
        || t->address[t->rank].label != rt->address.label)
        return loci_mistake(rt, LOCO_ERR_ARG, enter, t->name, "the ticket is for another process, "
                            "or for an earlier runtime of this one");
    if ((t->machines != 0) != rt->ops->spans)
        return loci_mistake(rt, LOCO_ERR_MISMATCH, enter, t->name, "the view is one %s, and this "
                            "runtime %s: other_machines of the bootstrap, or LOCO_FABRIC, has to "
                            "be the same",
                            t->machines != 0 ? "between machines" : "of one machine alone",
                            t->machines != 0 ? "is for one alone" : "for several");
    return LOCO_OK;
}

static bool differs(long long mine, long long theirs)
{
    return mine != 0 && mine != theirs;
}

/* Callbacks are this process's, the rest is the view's. */
static int complete(struct loco_runtime *rt, const struct loci_view_ticket *t,
                    loco_view_options_t *o)
{
    if (differs(o->flags, t->flags) || differs(o->multicasts, t->multicasts)
        || differs((long long)o->outside, (long long)t->outside) || differs(o->seats, t->seats)
        || (t->chunk != 0 && differs((long long)o->chunk, (long long)t->chunk)))
        return loci_mistake(rt, LOCO_ERR_MISMATCH, enter, t->name, "an option differs from that of "
                            "the members: leave all but the callbacks 0");
    if ((o->save != NULL) != (t->chunk != 0) || (o->load != NULL) != (t->chunk != 0))
        return loci_mistake(rt, LOCO_ERR_MISMATCH, enter, t->name, "members have %s of save and "
                            "load", t->chunk != 0 ? "both" : "none");
    o->flags = t->flags;
    o->multicasts = t->multicasts;
    o->outside = t->outside;
    o->seats = t->seats;
    o->chunk = t->chunk;
    return LOCO_OK;
}

static int meet_members(struct loco_runtime *rt, const struct loci_view_ticket *t, int *peers)
{
    int status = LOCO_OK;

    for (int rank = 0; rank < t->seats; rank++)
        peers[rank] = rank == t->rank ? LOCI_SELF : -1;
    for (int rank = 0; rank < t->taken && status == LOCO_OK; rank++)
        if (rank != t->rank && loci_view_has(loci_view_old(t), rank))
            status = loci_peer_meet(rt, &t->address[rank], &peers[rank]);
    return status;
}

static int make(struct loco_runtime *rt, struct loci_view_plan *plan, struct loco_view **v)
{
    const struct loci_view_ticket *t = plan->ticket;
    struct loco_group *group = NULL;
    int peers[LOCI_VIEW_MEMBERS], status = meet_members(rt, t, peers);

    if (status == LOCO_OK)
        status = loci_group_open(rt, t->seats, t->seats, peers, &group);
    plan->group = group;
    if (status == LOCO_OK)
        status = loci_view_make(rt, plan, v);
    loco_group_destroy(group);
    for (int rank = 0; rank < t->seats; rank++)
        if (peers[rank] >= 0)
            loci_peers_let_go(rt, &peers[rank], 1);
    return status;
}

static int enter_view(struct loco_runtime *rt, const struct loci_view_ticket *t, size_t bytes,
                      const loco_view_options_t *options, struct loco_view **view)
{
    struct loci_view_plan plan = { .name = t->name, .ticket = t };
    struct loco_view *v;
    int status = refuse_ticket(rt, t, bytes);

    if (options != NULL)
        plan.options = *options;
    if (status == LOCO_OK)
        status = loci_poller_refuse_self(rt, enter, t->name);
    if (status == LOCO_OK)
        status = complete(rt, t, &plan.options);
    if (status == LOCO_OK)
        status = make(rt, &plan, &v);
    if (status != LOCO_OK)
        return status;
    status = loci_view_start(v);
    if (status == LOCO_OK)
        *view = v;
    else
        loco_view_destroy(v);
    return status;
}

int loco_view_enter(loco_runtime_t *rt, const void *ticket, size_t bytes,
                    const loco_view_options_t *options, loco_view_t **view)
{
    struct loci_view_ticket *t;
    int status;

    if (bytes > LOCO_VIEW_TICKET_MAX)
        return loci_bad_arg(rt, enter, NULL, "bytes", (long long)bytes, "at most "
                            "LOCO_VIEW_TICKET_MAX");
    t = calloc(1, LOCO_VIEW_TICKET_MAX);
    if (t == NULL)
        return LOCO_ERR_NO_MEMORY;
    memcpy(t, ticket, bytes);
    status = enter_view(rt, t, bytes, options, view);
    free(t);
    return status;
}

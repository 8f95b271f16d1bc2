/* SPDX-License-Identifier: BSD-3-Clause */

/* How endpoints of one name connect: what messages lead to.
 *
 * Who writes what: names.h. Users of an endpoint read mem[] of a member after its `connected`
 * flag (acquire) or after a wait for ready.
 *
 * For each pair of members A, B, each with one message of a kind to the other:
 *   A's join finds no endpoint at B      dropped; B's own join will come
 *   A's join finds B's                   B answers connect (its keys)
 *   A's connect finds B's, which has     B sends its connect
 *   not sent its keys to A
 *   A's join finds B's differs           B answers reject; both have failed
 *   A's join finds B's connected with    B's is on its way out: dropped; B's next endpoint joins
 *   an earlier endpoint of A
 *   A's join is the first from there to   if A's differs, B answers reject, else it is dropped:
 *   find B's, which has failed            B's next endpoint joins
 * A join is the first message of its endpoint. An answer names the endpoint that it is for: what
 * arrives for one that has gone is dropped. A member that leaves fails what still misses it; one
 * that dies fails whatever still misses anybody: who else has missed it will not answer any more.
 *
 * An endpoint misses a member until it has that member's keys and has sent its own; and fails
 * only after its reject was sent. Messages of one pair keep their order, so whoever is ready, or
 * has failed, may destroy its endpoint and make another: nothing is on its way any more that the
 * new one could take for its own. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "names.h"

/* A peer that cannot be reached any more is loci_names_peer_gone's business. */
static void send(struct loco_runtime *rt, int peer, struct loci_control *m)
{
    int status;

    loci_control_seal(m);
    status = rt->ops->control_send(rt->fabric, loci_peer(rt, peer), m, m->len);
    if (status < 0 && status != LOCO_ERR_PEER_DEAD)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "endpoint %s: no message to process %llx: %s", m->name,
                 (unsigned long long)loci_peer(rt, peer)->address.identity,
                 loco_strerror(status));
}

void loci_entry_fail(struct loci_entry *e, int status)
{
    int none = LOCO_OK;

    /* The first cause is kept. */
    atomic_compare_exchange_strong(&e->ep.failed, &none, status);
}

static void log_mismatch(const struct loci_entry *e, const char *text)
{
    LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s does not fit: %s", e->ep.name, text);
}

/* ---- connecting ---- */

static bool is_connected(const struct loci_entry *e, int rank)
{
    return atomic_load_explicit(&e->ep.connected[rank], memory_order_acquire) != 0;
}

static bool misses(const struct loci_entry *e, int rank)
{
    return !is_connected(e, rank) || e->member[rank].given != e->member[rank].number;
}

/* The keys of a connect, into mem[] of that rank. */
static int import(struct loci_entry *e, int peer, const struct loci_control *m)
{
    for (int i = 0; i < e->ep.spec.nregions; i++) {
        struct loci_mem *mem = loci_endpoint_mem(&e->ep, m->rank, i);
        int status;

        if (!loci_region_from(&e->ep.spec.region[i], m->rank))
            continue;
        if (m->region[i].key.len < e->ep.spec.region[i].len)
            return LOCO_ERR_PROTOCOL;
        status = loci_mem_import(e->ep.rt, peer, &m->region[i].key, mem);
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(mem, e->ep.domain);
    }
    return LOCO_OK;
}

/* What a message leads to; done after the table's lock is released, as sends may block. */
struct reaction {
    enum loci_control_type answer;      /* or 0 */
    bool joined, connected;             /* callbacks to run */
    int fails;                          /* status of the endpoint from then on, or LOCO_OK */
};

/* A member may be met by its join, or, where that came too early, by its connect. */
static void has_joined(struct loci_entry *e, int rank, struct reaction *r)
{
    r->joined = !e->member[rank].joined;
    e->member[rank].joined = true;
}

static void on_join(struct loci_entry *e, int peer, const struct loci_control *m,
                    struct reaction *r)
{
    char text[512];

    if (loci_control_differs(e, peer, m, text, sizeof text)) {
        log_mismatch(e, text);
        r->answer = LOCI_CONTROL_REJECT;
        r->fails = LOCO_ERR_MISMATCH;
        return;
    }
    r->answer = LOCI_CONTROL_CONNECT;
    has_joined(e, m->rank, r);
}

static void on_connect(struct loci_entry *e, int peer, const struct loci_control *m,
                       struct reaction *r)
{
    char text[512];
    int status;

    if (loci_control_differs(e, peer, m, text, sizeof text)) {
        log_mismatch(e, text);
        r->fails = LOCO_ERR_MISMATCH;
        return;
    }
    if (is_connected(e, m->rank))
        return;
    status = import(e, peer, m);
    if (status != LOCO_OK) {
        LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s: rank %d sent keys that make no sense",
                 e->ep.name, m->rank);
        r->fails = status;
        return;
    }
    e->member[m->rank].number = m->from;
    /* Release: mem[] before the flag that readers look at. */
    atomic_store_explicit(&e->ep.connected[m->rank], 1, memory_order_release);
    if (e->member[m->rank].given != m->from)
        r->answer = LOCI_CONTROL_CONNECT;
    has_joined(e, m->rank, r);
    r->connected = true;
}

static void on_reject(struct loci_entry *e, int peer, const struct loci_control *m,
                      struct reaction *r)
{
    char text[512];

    if (!loci_control_differs(e, peer, m, text, sizeof text))
        snprintf(text, sizeof text, "rank %d says so", m->rank);
    log_mismatch(e, text);
    r->fails = LOCO_ERR_MISMATCH;
}

/* An endpoint that an earlier one of the sender is connected to is on its way out. */
static bool is_stale(const struct loci_entry *e, const struct loci_control *m)
{
    return m->type == LOCI_CONTROL_JOIN && m->rank < e->ep.group.size && is_connected(e, m->rank)
           && e->member[m->rank].number != m->from;
}

/* A join, and nothing has come from there before. */
static bool is_first(struct loci_entry *e, const struct loci_control *m)
{
    bool first;

    if (m->rank >= e->ep.group.size)
        return false;
    first = m->type == LOCI_CONTROL_JOIN && !e->member[m->rank].heard;
    e->member[m->rank].heard = true;
    return first;
}

/* This endpoint has failed, and leaves its members to the next of its name. But who differs from it
 * as well, and has not heard of that, may be told by nobody else. */
static void react_failed(const struct loci_entry *e, int peer, const struct loci_control *m,
                         bool first, struct reaction *r)
{
    char text[512];

    if (!first || !loci_control_differs(e, peer, m, text, sizeof text))
        return;
    log_mismatch(e, text);
    r->answer = LOCI_CONTROL_REJECT;
}

static void react(struct loci_entry *e, int peer, const struct loci_control *m, struct reaction *r)
{
    bool first;

    if (m->type != LOCI_CONTROL_JOIN && m->to != e->number)
        return;
    first = is_first(e, m);
    if (atomic_load_explicit(&e->ep.failed, memory_order_relaxed) != LOCO_OK) {
        react_failed(e, peer, m, first, r);
        return;
    }
    if (is_stale(e, m))
        return;
    switch (m->type) {
    case LOCI_CONTROL_JOIN:
        on_join(e, peer, m, r);
        break;
    case LOCI_CONTROL_CONNECT:
        on_connect(e, peer, m, r);
        break;
    default:
        on_reject(e, peer, m, r);
        break;
    }
}

/* Under the table's lock, once the answer is on its way. Release: mem[] before the count. */
static void settle(struct loci_entry *e, const struct loci_control *m, const struct reaction *r,
                   bool missed)
{
    if (r->fails != LOCO_OK)
        loci_entry_fail(e, r->fails);
    if (r->answer == LOCI_CONTROL_CONNECT)
        e->member[m->rank].given = m->from;
    if (missed && r->fails == LOCO_OK && !misses(e, m->rank))
        atomic_fetch_sub_explicit(&e->ep.missing, 1, memory_order_release);
}

/* Handle one message; the entry is busy, the table locked (not all the time). */
static void handle(struct loci_names *names, struct loci_entry *e, int peer,
                   const struct loci_control *m)
{
    struct reaction r = { 0 };
    struct loci_control answer;
    bool missed = m->rank < e->ep.group.size && misses(e, m->rank);

    react(e, peer, m, &r);
    if (r.answer != 0)
        loci_control_describe(e, r.answer, m->from, &answer);
    pthread_mutex_unlock(&names->lock);
    if (r.answer != 0)
        send(e->ep.rt, peer, &answer);
    if (r.joined && e->ep.spec.on_join != NULL)
        e->ep.spec.on_join(&e->ep, m->rank, e->ep.spec.ctx);
    if (r.connected && e->ep.spec.on_connect != NULL)
        e->ep.spec.on_connect(&e->ep, m->rank, e->ep.spec.ctx);
    pthread_mutex_lock(&names->lock);
    settle(e, m, &r, missed);
}

static void peer_gone(struct loci_entry *e, int peer)
{
    bool dead = atomic_load_explicit(&loci_peer(e->ep.rt, peer)->state, memory_order_acquire)
                == LOCI_PEER_DEAD;
    bool opening = atomic_load_explicit(&e->ep.missing, memory_order_relaxed) > 0;

    for (int rank = 0; rank < e->ep.group.size; rank++)
        if (e->ep.group.peer[rank] == peer && (misses(e, rank) || (dead && opening)))
            loci_entry_fail(e, LOCO_ERR_PEER_DEAD);
}

/* `m` NULL: the peer has gone. Its messages from before come first. */
static void keep(struct loci_entry *e, int peer, const struct loci_control *m)
{
    struct loci_letter *letter = calloc(1, sizeof *letter);

    if (letter == NULL) {
        LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s: out of memory", e->ep.name);
        loci_entry_fail(e, LOCO_ERR_NO_MEMORY);
        return;
    }
    letter->peer = peer;
    letter->gone = m == NULL;
    if (m != NULL)
        letter->message = *m;
    *e->last_letter = letter;
    e->last_letter = &letter->next;
}

void loci_names_receive(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    struct loci_names *names = rt->names;
    struct loci_entry *e;

    pthread_mutex_lock(&names->lock);
    e = loci_names_find(names, m->name);
    if (e != NULL && e->opening) {
        keep(e, peer, m);
    } else if (e != NULL) {
        e->busy++;
        handle(names, e, peer, m);
        if (--e->busy == 0)
            pthread_cond_broadcast(&names->calm);
    }
    pthread_mutex_unlock(&names->lock);
}

void loci_names_peer_gone(struct loco_runtime *rt, int peer)
{
    struct loci_names *names = rt->names;

    if (names == NULL)
        return;
    pthread_mutex_lock(&names->lock);
    for (int b = 0; b < LOCI_NAMES_BUCKETS; b++)
        for (struct loci_endpoint *ep = names->bucket[b]; ep != NULL; ep = ep->next)
            if (loci_entry_of(ep)->opening)
                keep(loci_entry_of(ep), peer, NULL);
            else
                peer_gone(loci_entry_of(ep), peer);
    pthread_mutex_unlock(&names->lock);
}

/* ---- opening ---- */

/* Entered first, joined after: who dies in between is found by one of peer_gone and this. */
static void join_all(struct loci_entry *e)
{
    struct loco_runtime *rt = e->ep.rt;
    struct loci_control m;

    loci_control_describe(e, LOCI_CONTROL_JOIN, 0, &m);
    for (int rank = 0; rank < e->ep.group.size; rank++) {
        int peer = e->ep.group.peer[rank];

        if (rank == e->ep.group.rank)
            continue;
        if (!loci_peer_alive(rt, peer))
            loci_entry_fail(e, LOCO_ERR_PEER_DEAD);
        else
            send(rt, peer, &m);
    }
}

/* The joins are sent: handle what came in the meantime, then let the service thread do it. */
static void opened(struct loci_names *names, struct loci_entry *e)
{
    pthread_mutex_lock(&names->lock);
    while (e->letters != NULL) {
        struct loci_letter *letter = e->letters;

        e->letters = letter->next;
        if (e->letters == NULL)
            e->last_letter = &e->letters;
        if (letter->gone)
            peer_gone(e, letter->peer);
        else
            handle(names, e, letter->peer, &letter->message);
        free(letter);
    }
    e->opening = false;
    pthread_mutex_unlock(&names->lock);
}

void loci_entry_open(struct loci_entry *e)
{
    join_all(e);
    opened(e->ep.rt->names, e);
}

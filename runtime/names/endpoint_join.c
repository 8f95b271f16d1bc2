/* SPDX-License-Identifier: BSD-3-Clause */

/* How endpoints of one name connect: what messages lead to.
 *
 * Who writes what: names.h. Users of an endpoint read mem[] of a member after its `connected`
 * flag (acquire) or after a wait for ready.
 *
 * A message may be lost, come twice, or overtake another. Each names the endpoint it comes from
 * and, but for a first join, the one it is for; numbers of endpoints grow, so a process knows of
 * each of its own whether it is here or gone, without a record of those that have gone.
 *
 *   at B, from A's endpoint         B answers
 *   join      none of that name     nothing: B's own join will come
 *             it fits               connect, or connected if B has A's keys
 *   connect   (keys)                connected: B has A's keys, and A now gets B's
 *   connected (keys; A has B's)     connected, if B did not have A's keys
 *   each of these: it differs       reject, even where B's has failed
 *   reject                          gone; both differ
 *   join, reject  for an earlier    gone
 *             endpoint of B
 *   connect,  for an earlier        leave (endpoint_leave.c)
 *   connected endpoint of B
 *   gone                            nothing
 *
 * and where A is no member of B's group
 *   join, connect, connected        reject: only A's endpoint can fail by it
 *   reject, gone                    gone, nothing
 *
 * A member is missed until both have the other's keys and know it; and an endpoint that differs
 * fails once all who differ from it know that. So whoever is ready or has failed may destroy its
 * endpoint and make another: no member needs the old one. If the last word to a member is lost,
 * its question is answered with gone, and it has all else.
 *
 * Only a connect is believed to come from an endpoint that is there: it answers ours. A join may
 * have been overtaken, by its sender's next life even: what was met before (names.h) is past.
 *
 * Who waits (ready.c, ask.c) sends its join again to members that do not know it, whatever else
 * they do: what is missing comes as the answer. The other side need not wait. After a second it
 * seeks: a seek is a join that a member without an endpoint of the name answers, too
 * (similar.c). */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "names.h"
#include "wait.h"

/* A peer that cannot be reached any more is loci_names_peer_gone's business. */
void loci_names_send(struct loco_runtime *rt, int peer, struct loci_control *m)
{
    int status;

    loci_control_seal(m);
    LOCI_COUNT_SIMPLE(rt, messages);
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

/* ---- members ---- */

int loci_entry_rank_of(const struct loci_entry *e, int peer, int hint)
{
    const struct loco_group *group = &e->ep.group;

    if (hint < group->size && loci_group_peer(group, hint) == peer)
        return hint;
    return loci_group_rank_of(group, peer);
}

static bool is_connected(const struct loci_entry *e, int rank)
{
    return atomic_load_explicit(&e->ep.connected[rank], memory_order_acquire) != 0;
}

static bool has_failed(const struct loci_entry *e)
{
    return atomic_load_explicit(&e->ep.failed, memory_order_relaxed) != LOCO_OK;
}

void loci_entry_knows(struct loci_entry *e, int rank)
{
    if (e->member[rank].knows)
        return;
    e->member[rank].knows = true;
    if (e->member[rank].differs)
        e->untold--;
    else        /* release: mem[] before the count */
        atomic_fetch_sub_explicit(&e->ep.missing, 1, memory_order_release);
}

/* A member knows what it has to, or has gone and needs it no more. */
static void set_knows(struct loci_entry *e, int rank)
{
    if (e->member[rank].number != 0)
        loci_entry_knows(e, rank);
}

static void settle_mismatch(struct loci_entry *e)
{
    if (e->mismatch && e->untold == 0)
        loci_entry_fail(e, LOCO_ERR_MISMATCH);
}

/* ---- what a message leads to ---- */

/* Done after the table's lock is released, as sends may block; `knows` and `mismatch` after that,
 * so that nobody is ready, or has failed, before the answer is on its way. */
struct reaction {
    enum loci_control_type answer;      /* or 0 */
    bool joined, connected;             /* callbacks to run */
    bool knows;
    bool mismatch;
    bool leave;                         /* it sent keys that nobody here will use */
};

/* A member may be met by its join, or, where that came too early, by its connect. */
static void has_joined(struct loci_entry *e, int rank, struct reaction *r)
{
    r->joined = !e->member[rank].joined;
    e->member[rank].joined = true;
}

/* The keys of a connect, into mem[] of that rank. */
static int import(struct loci_entry *e, int peer, const struct loci_control *m)
{
    for (int i = 0; i < e->ep.spec.nregions; i++) {
        struct loci_mem *mem = loci_endpoint_mem(&e->ep, m->rank, i);
        int status;

        if (!loci_region_from(&e->ep.spec, i, m->rank))
            continue;
        status = loci_mem_import(e->ep.rt, peer, &m->region[i].key, mem);
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(mem, e->ep.domain);
    }
    return LOCO_OK;
}

/* A member's endpoint differs from ours. */
static void meet_differing(struct loci_entry *e, int rank, const struct loci_control *m,
                           const char *text)
{
    if (e->member[rank].number != m->from)
        log_mismatch(e, text);
    if (e->member[rank].number == 0) {
        e->member[rank].number = m->from;
        e->member[rank].differs = true;
        e->untold++;
    }
}

/* A process that is no member of ours, or came late, says something of an endpoint of its own. Our
 * members do not wait for it, and it can neither connect to this endpoint nor fail it: they stay as
 * they are, ready or not. It is told that it differs each time that it asks: nothing of it is kept
 * here. */
static void refuse_stranger(const struct loci_entry *e, int peer, const struct loci_control *m,
                            struct reaction *r)
{
    char text[512];

    if (m->type == LOCI_CONTROL_GONE)
        return;
    r->answer = m->type == LOCI_CONTROL_REJECT ? LOCI_CONTROL_GONE : LOCI_CONTROL_REJECT;
    if (r->answer == LOCI_CONTROL_REJECT
        && loci_control_differs(e, peer, m, text, sizeof text))
        LOCI_LOG(e->ep.rt, LOCO_LOG_INFO, "endpoint %s: process %llx is no member of its group "
                 "and is refused: %s", e->ep.name,
                 (unsigned long long)loci_peer(e->ep.rt, peer)->address.identity, text);
}

static bool differs(struct loci_entry *e, int peer, int rank, const struct loci_control *m,
                    struct reaction *r)
{
    char text[512];

    if (!loci_control_differs(e, peer, m, text, sizeof text))
        return false;
    if (e->member[rank].late) {
        refuse_stranger(e, peer, m, r);
        return true;
    }
    meet_differing(e, rank, m, text);
    r->answer = LOCI_CONTROL_REJECT;
    r->mismatch = true;
    return true;
}

/* One that has failed connects to nobody any more. */
static bool is_left_to_next(const struct loci_entry *e, int rank)
{
    return has_failed(e) && !is_connected(e, rank);
}

static void on_join(struct loci_entry *e, int peer, int rank, const struct loci_control *m,
                    struct reaction *r)
{
    if (differs(e, peer, rank, m, r) || is_left_to_next(e, rank))
        return;
    r->answer = is_connected(e, rank) ? LOCI_CONTROL_CONNECTED : LOCI_CONTROL_CONNECT;
    r->knows = m->to == e->number;
    has_joined(e, rank, r);
}

static void on_connect(struct loci_entry *e, int peer, int rank, const struct loci_control *m,
                       struct reaction *r)
{
    if (differs(e, peer, rank, m, r) || is_left_to_next(e, rank))
        return;
    if (!is_connected(e, rank)) {
        if (import(e, peer, m) != LOCO_OK) {
            LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s: keys of rank %d make no sense: "
                     "dropped", e->ep.name, rank);
            return;
        }
        e->member[rank].number = m->from;
        /* Release: mem[] before the flag that readers look at. */
        atomic_store_explicit(&e->ep.connected[rank], 1, memory_order_release);
        has_joined(e, rank, r);
        r->connected = true;
    }
    if (r->connected || m->type == LOCI_CONTROL_CONNECT)
        r->answer = LOCI_CONTROL_CONNECTED;
    r->knows = m->type == LOCI_CONTROL_CONNECTED;
}

static void on_reject(struct loci_entry *e, int peer, int rank, const struct loci_control *m,
                      struct reaction *r)
{
    char text[512];

    r->answer = LOCI_CONTROL_GONE;
    if (is_connected(e, rank) || e->member[rank].late)
        return;                         /* it said before that it fits; or fails alone */
    if (!loci_control_differs(e, peer, m, text, sizeof text))
        snprintf(text, sizeof text, "rank %d says so", m->rank);
    meet_differing(e, rank, m, text);
    r->knows = r->mismatch = true;
}

/* Whether that message comes from an endpoint that has gone, or of the time after ours: the one
 * that we have met there has gone then, so ours is on its way out, and leaves its members to the
 * next of its name. */
static bool is_of_other_time(const struct loci_entry *e, int peer, int rank,
                             const struct loci_control *m, struct reaction *r)
{
    uint64_t met = e->member[rank].number;

    if (met == 0)
        return m->from <= loci_names_past(e->ep.rt->names, e->ep.name,
                                          loci_peer(e->ep.rt, peer));
    r->knows = m->from > met;
    return m->from != met;
}

/* One that has failed answers rejects, and of each member the first endpoint that it hears of: who
 * differs from it as well may be told by nobody else. The others are for the next of its name. */
static bool is_answered(struct loci_entry *e, int rank, const struct loci_control *m)
{
    struct loci_member *member = &e->member[rank];

    if (!has_failed(e) || member->heard == 0)
        member->heard = m->from;
    return !has_failed(e) || m->type == LOCI_CONTROL_REJECT || member->heard == m->from;
}

static bool is_question(const struct loci_control *m)
{
    return m->type == LOCI_CONTROL_JOIN || m->type == LOCI_CONTROL_SEEK
           || m->type == LOCI_CONTROL_REJECT;
}

/* Of an endpoint that has gone. */
static bool wants_answer(const struct loci_control *m)
{
    return is_question(m) || loci_control_has_keys(m->type);
}

/* Of an open group it may become a member: it asks again until then. */
static void meet_stranger(const struct loci_entry *e, int peer, const struct loci_control *m,
                          struct reaction *r)
{
    if (!e->ep.group.open)
        refuse_stranger(e, peer, m, r);
}

static void react(struct loci_entry *e, int peer, int rank, const struct loci_control *m,
                  struct reaction *r)
{
    if (m->to != 0 && m->to != e->number) {
        if (wants_answer(m) && m->to < e->number)
            r->answer = LOCI_CONTROL_GONE;
        return;
    }
    if (rank < 0) {
        meet_stranger(e, peer, m, r);
        return;
    }
    if (is_of_other_time(e, peer, rank, m, r) || !is_answered(e, rank, m))
        return;
    switch (m->type) {
    case LOCI_CONTROL_JOIN:
    case LOCI_CONTROL_SEEK:
        on_join(e, peer, rank, m, r);
        break;
    case LOCI_CONTROL_CONNECT:
    case LOCI_CONTROL_CONNECTED:
        on_connect(e, peer, rank, m, r);
        break;
    case LOCI_CONTROL_REJECT:
        on_reject(e, peer, rank, m, r);
        break;
    default:
        r->knows = true;
        break;
    }
}

/* Whose keys came here, and whom ours go to: endpoint_leave.c. */
static void note_keys(struct loci_entry *e, int rank, const struct loci_control *m,
                      struct reaction *r)
{
    r->leave = rank < 0 && loci_control_has_keys(m->type);
    if (rank < 0)
        return;
    if (loci_control_has_keys(m->type) && m->to == e->number && m->from > e->member[rank].offered)
        e->member[rank].offered = m->from;
    if (loci_control_has_keys(r->answer) && m->from > e->member[rank].told)
        e->member[rank].told = m->from;
}

/* Handle one message; the entry is busy or opening, the table locked (not all the time). */
static void handle(struct loci_names *names, struct loci_entry *e, int peer,
                   const struct loci_control *m)
{
    int rank = loci_entry_rank_of(e, peer, m->rank);
    struct reaction r = { 0 };
    struct loci_control answer;

    react(e, peer, rank, m, &r);
    note_keys(e, rank, m, &r);
    if (r.answer == LOCI_CONTROL_GONE)
        loci_control_gone(m, &answer);
    else if (r.answer != 0)
        loci_control_describe(e, r.answer, m->from, &answer);
    pthread_mutex_unlock(&names->lock);
    if (r.answer != 0)
        loci_names_send(e->ep.rt, peer, &answer);
    if (r.leave) {
        loci_control_describe(e, LOCI_CONTROL_LEAVE, m->from, &answer);
        loci_names_send(e->ep.rt, peer, &answer);
    }
    if (r.joined && e->ep.spec.on_join != NULL)
        e->ep.spec.on_join(&e->ep, rank, e->ep.spec.ctx);
    if (r.connected && e->ep.spec.on_connect != NULL)
        e->ep.spec.on_connect(&e->ep, rank, e->ep.spec.ctx);
    pthread_mutex_lock(&names->lock);
    e->mismatch |= r.mismatch;
    if (r.knows)
        set_knows(e, rank);
    settle_mismatch(e);
    loci_names_settle(names, e);
}

/* A member that leaves fails what still misses it, unless we have its keys: it was ready then, or
 * has given up. One that dies fails whatever still misses anybody: who else has missed it will not
 * answer any more. */
static void peer_gone(struct loci_names *names, struct loci_entry *e, int peer)
{
    int rank = loci_entry_rank_of(e, peer, 0);
    bool dead = atomic_load_explicit(&loci_peer(e->ep.rt, peer)->state, memory_order_acquire)
                == LOCI_PEER_DEAD;
    bool missing = atomic_load_explicit(&e->ep.missing, memory_order_relaxed) > 0;

    if (rank < 0 || e->member[rank].late)
        return;
    if (e->ep.spec.late)
        loci_entry_knows(e, rank);      /* others will answer */
    else if (e->member[rank].differs || (is_connected(e, rank) && !dead))
        set_knows(e, rank);
    settle_mismatch(e);
    if (!e->mismatch && !e->ep.spec.late && (dead ? missing : !e->member[rank].knows))
        loci_entry_fail(e, LOCO_ERR_PEER_DEAD);
    loci_names_settle(names, e);
}

/* ---- letters, under the lock ---- */

static struct loci_letter *new_letter(struct loci_names *names)
{
    struct loci_letter *letter = malloc(sizeof *letter);

    for (unsigned i = 0; letter == NULL && i < LOCI_NAMES_SPARE; i++)
        if ((names->spare_used >> i & 1) == 0) {
            names->spare_used |= 1u << i;
            letter = &names->spare[i];
        }
    return letter;
}

static void free_letter(struct loci_names *names, struct loci_letter *letter)
{
    if (letter >= names->spare && letter < names->spare + LOCI_NAMES_SPARE)
        names->spare_used &= ~(1u << (letter - names->spare));
    else
        free(letter);
}

/* Where the spare ones are used, too, the message is lost, as any may be: its sender waits, and
 * asks again. */
static void keep(struct loci_names *names, struct loci_entry *e, int peer,
                 const struct loci_control *m)
{
    struct loci_letter *letter = new_letter(names);

    if (letter == NULL) {
        LOCI_LOG(e->ep.rt, LOCO_LOG_DEBUG, "endpoint %s: no memory for a message of process %llx, "
                 "which will ask again", e->ep.name,
                 (unsigned long long)loci_peer(e->ep.rt, peer)->address.identity);
        return;
    }
    letter->next = NULL;
    letter->peer = peer;
    loci_peers_use(e->ep.rt, &peer, 1);     /* it need not be a member's */
    letter->message = *m;
    *e->last_letter = letter;
    e->last_letter = &letter->next;
}

/* ---- from the service thread ---- */

/* Under the lock: the message is for that entry. */
static void deliver(struct loci_names *names, struct loci_entry *e, int peer,
                    const struct loci_control *m)
{
    if (e->opening) {
        keep(names, e, peer, m);
        return;
    }
    e->busy++;
    handle(names, e, peer, m);
    if (--e->busy == 0)
        pthread_cond_broadcast(&names->calm);
}

void loci_names_receive(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    struct loci_names *names = rt->names;
    struct loci_control answer;
    struct loci_entry *e;
    bool was_here;

    if (m->type == LOCI_CONTROL_LEAVE) {
        loci_names_member_left(rt, peer, m);
        return;
    }
    if (m->type == LOCI_CONTROL_SIMILAR) {
        loci_names_found(rt, peer, m);
        return;
    }
    pthread_mutex_lock(&names->lock);
    loci_names_heard(loci_peer(rt, peer));
    e = loci_names_find(names, m->name);
    if (e != NULL && e->closed && loci_entry_rank_of(e, peer, m->rank) < 0)
        e = NULL;
    was_here = e == NULL && wants_answer(m) && m->to != 0 && m->to <= names->numbers;
    if (e != NULL)
        deliver(names, e, peer, m);
    pthread_mutex_unlock(&names->lock);
    if (was_here) {
        loci_control_gone(m, &answer);
        loci_names_send(rt, peer, &answer);
    } else if (e == NULL && m->type == LOCI_CONTROL_SEEK) {
        loci_names_sought(rt, peer, m);
    }
}

/* What is ready does not miss it; what has failed stays so. */
void loci_names_peer_gone(struct loco_runtime *rt, int peer)
{
    struct loci_names *names = rt->names;

    if (names == NULL)
        return;
    pthread_mutex_lock(&names->lock);
    for (struct loci_entry *e = names->open.first, *after; e != NULL; e = after) {
        after = e->after;
        if (e->opening)
            e->lost_peer = true;        /* its messages from before come first */
        else
            peer_gone(names, e, peer);
    }
    pthread_mutex_unlock(&names->lock);
}

static void handle_first_letter(struct loci_names *names, struct loci_entry *e)
{
    struct loci_letter *letter = e->letters;

    e->letters = letter->next;
    if (e->letters == NULL)
        e->last_letter = &e->letters;
    handle(names, e, letter->peer, &letter->message);
    loci_peers_end_use(e->ep.rt, &letter->peer, 1);
    free_letter(names, letter);
}

/* A peer that has gone sends nothing any more: what it sent has been handled. */
static void see_to_lost_peers(struct loci_names *names, struct loci_entry *e)
{
    e->lost_peer = false;
    for (int rank = 0; rank < e->ep.group.size; rank++)
        if (!loci_group_is_vacant(&e->ep.group, rank)
            && !loci_peer_alive(e->ep.rt, loci_group_peer(&e->ep.group, rank)))
            peer_gone(names, e, loci_group_peer(&e->ep.group, rank));
}

void loci_entry_opened(struct loci_names *names, struct loci_entry *e)
{
    while (e->letters != NULL || e->lost_peer)
        if (e->letters != NULL)
            handle_first_letter(names, e);
        else
            see_to_lost_peers(names, e);
    loci_names_settle(names, e);
    e->opening = false;
    pthread_cond_broadcast(&names->calm);
}

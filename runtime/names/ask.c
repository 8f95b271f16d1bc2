/* SPDX-License-Identifier: BSD-3-Clause */

/* Asking members of an endpoint to join: all of them when it is made, and again those that do not
 * answer.
 *
 * A question is asked again for one reason, that it or its answer may be lost. A member that has
 * no endpoint of the name does not answer, and may not for hours; and where many channels are made
 * at once, answers take long because there are many. So the times to ask are a peer's, not an
 * endpoint's:
 *
 *   - from a peer that has said nothing for ASK_AFTER, ASK_MANY questions are asked again, and
 *     then as many after twice the time each time, up to ASK_AT_MOST;
 *   - a peer from which something came in the meantime is busy with the others; it is asked after
 *     another ASK_AFTER without a word, or when ASK_AT_MOST is over, since what it said may have
 *     nothing to do with what was lost.
 *
 * Each round goes on in the list of open endpoints where the last one ended, so each of them has
 * its turn, and the number of questions grows with the time that somebody waits, not with the
 * number of channels. Any wait asks for all: which thread comes first does not matter then.
 *
 * Who writes what: all under the table's lock, a peer's struct loci_asking too; but while an entry
 * is opening, the thread that made it so reads its members without. */

#include "config.h"

#include "names.h"
#include "wait.h"

#define ASK_AFTER INT64_C(100000000)        /* ns without an answer; twice as long each time... */
#define ASK_AT_MOST INT64_C(3200000000)     /* ...up to this */
#define ASK_MANY 16                         /* of a peer, in one round */

/* ---- one endpoint ---- */

static bool is_missed(const struct loci_entry *e, int rank)
{
    return !e->member[rank].knows;
}

/* The entry is opening: nobody else changes its members. */
static void ask_one(struct loci_entry *e, int rank, enum loci_control_type type)
{
    struct loci_control m;

    loci_control_describe(e, type, e->member[rank].number, &m);
    loci_names_send(e->ep.rt, loci_group_peer(&e->ep.group, rank), &m);
}

/* Answers are kept while the questions are sent, so that no question comes after the answer to
 * what came meanwhile: it might meet the member's next endpoint. */
void loci_entry_ask(struct loci_names *names, struct loci_entry *e, enum loci_control_type type)
{
    e->opening = true;
    pthread_mutex_unlock(&names->lock);
    for (int rank = 0; rank < e->ep.group.size; rank++) {
        if (e->member[rank].ask)
            ask_one(e, rank, type);
        e->member[rank].ask = false;
    }
    pthread_mutex_lock(&names->lock);
    loci_entry_opened(names, e);
}

/* Under the lock. That peer is asked again no later than ASK_AFTER from now. */
static void expect_answer(struct loci_names *names, struct loci_asking *asking, int64_t now)
{
    if (asking->at <= now) {            /* nobody has waited for it of late */
        asking->after = ASK_AFTER;
        asking->asked = now;
        asking->heard = false;
        asking->at = now + ASK_AFTER;
    } else if (asking->at > now + ASK_AFTER) {
        asking->at = now + ASK_AFTER;
    }
    if (names->ask_at > asking->at)
        names->ask_at = asking->at;
}

/* Entered first, joined after: who dies in between is found by one of peer_gone and this. */
void loci_entry_open(struct loci_entry *e)
{
    struct loco_runtime *rt = e->ep.rt;
    struct loci_names *names = rt->names;
    const struct loco_group *group = &e->ep.group;
    int64_t now = loci_now(rt);
    bool dead = false;

    for (int rank = 0; rank < group->size; rank++)
        if (!loci_peer_alive(rt, loci_group_peer(group, rank)))
            dead = dead || !loci_group_is_vacant(group, rank);
        else if (rank != group->rank)
            ask_one(e, rank, LOCI_CONTROL_JOIN);
    pthread_mutex_lock(&names->lock);
    if (dead && !e->ep.spec.late)
        loci_entry_fail(e, LOCO_ERR_PEER_DEAD);
    e->lost_peer = e->lost_peer || (dead && e->ep.spec.late);
    for (int rank = 0; rank < group->size; rank++)
        if (rank != group->rank)
            expect_answer(names, &loci_peer(rt, loci_group_peer(group, rank))->asking, now);
    loci_entry_opened(names, e);
    pthread_mutex_unlock(&names->lock);
}

/* ---- rounds ---- */

void loci_names_heard(struct loci_peer *peer)
{
    peer->asking.heard = true;
    peer->asking.words++;
}

/* How many questions it may be asked now. */
static int begin_round(struct loci_asking *asking, int64_t now)
{
    bool busy = asking->heard && now - asking->asked < ASK_AT_MOST;

    asking->left = 0;
    if (now < asking->at)
        return 0;
    asking->heard = false;
    if (busy) {
        asking->after = ASK_AFTER;
        asking->at = now + ASK_AFTER;
        return 0;
    }
    asking->after = 2 * asking->after < ASK_AT_MOST ? 2 * asking->after : ASK_AT_MOST;
    asking->asked = now;
    asking->at = now + asking->after;
    asking->left = ASK_MANY;
    return ASK_MANY;
}

static void begin_rounds(struct loco_runtime *rt, int64_t now)
{
    struct loci_names *names = rt->names;
    int peers = atomic_load_explicit(&rt->peer_count, memory_order_acquire);

    names->ask_at = INT64_MAX;
    names->ask_left = 0;
    for (int i = 0; i < peers; i++) {
        struct loci_asking *asking = &loci_peer(rt, i)->asking;

        if (i == LOCI_SELF || !loci_peer_alive(rt, i))
            continue;
        names->ask_left += begin_round(asking, now);
        if (asking->at < names->ask_at)
            names->ask_at = asking->at;
    }
}

/* Which of its members may be asked in this round. */
static bool choose(struct loci_names *names, struct loci_entry *e)
{
    struct loco_runtime *rt = e->ep.rt;
    bool any = false;

    for (int rank = 0; rank < e->ep.group.size; rank++) {
        struct loci_peer *peer = loci_peer(rt, loci_group_peer(&e->ep.group, rank));

        if (!is_missed(e, rank) || peer->asking.left == 0
            || !loci_peer_alive(rt, peer->index))
            continue;
        peer->asking.left--;
        names->ask_left--;
        e->member[rank].ask = any = true;
    }
    return any;
}

/* The lock is released in between: an entry that goes takes `ask_next` on (names.c). */
void loci_names_ask(struct loco_runtime *rt, int64_t now)
{
    struct loci_names *names = rt->names;

    if (now < names->ask_at)
        return;
    begin_rounds(rt, now);
    for (size_t n = names->open.count; n > 0 && names->ask_left > 0; n--) {
        struct loci_entry *e = names->ask_next != NULL ? names->ask_next : names->open.first;

        if (e == NULL)
            break;
        names->ask_next = e->after;
        /* Who came late asks in a way that a member that has left answers, too. */
        if (!e->opening && e->busy == 0 && choose(names, e))
            loci_entry_ask(names, e, e->ep.spec.late ? LOCI_CONTROL_SEEK : LOCI_CONTROL_JOIN);
    }
}

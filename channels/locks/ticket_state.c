/* SPDX-License-Identifier: BSD-3-Clause */

/* Who holds a ticket lock, and whether somebody in the way is dead.
 *
 * Outstanding are the tickets from `serving` to `next` - 1. The slots of all but the first hold
 * the names of their owners, once these have written them; the sum of all names is in the word;
 * so the first one's, the holder's, is what remains. Read as word, slots, word: equal words mean
 * that nobody came or went in between.
 *
 * A process that dies between its fetch_add and its swap leaves a slot empty; one that dies
 * between its release and the pass leaves a turn that nobody grants. Both are a few instructions
 * wide, and are told by time: loci_grace() without any change of the word once a member is dead.
 *
 * A ticket that its owner has left is nobody's until it is taken over, so a dead owner of one is in
 * nobody's way. Where who passes turns dies before it has taken such a ticket over, its slot says
 * so: LEFT, or TAKEN, and served; told by time, too.
 *
 * Who finds its way blocked marks the ticket where it is, and leaves with its own ticket
 * outstanding. All behind the mark leave, too; those before it are served. */

#include "config.h"

#include "ticket_lock.h"
#include "wait.h"

#define TRIES 16

struct queue {
    uint64_t word;
    unsigned serving, length;           /* first outstanding ticket, and how many are */
    unsigned holder;                    /* name of the holder, or, with empty slots, a sum */
    unsigned empty;                     /* distance from serving of the first empty slot, or 0 */
    unsigned dead;                      /* distance + 1 of the first dead owner, or 0 */
    bool nobodys;                       /* the first one was left, and is being taken over */
};

static bool name_is_dead(const struct loco_ticket_lock *lock, uint64_t name)
{
    const struct loco_group *group = &lock->array->ep->group;

    return name >= 1 && name <= (uint64_t)group->size
           && !loci_peer_alive(lock->rt, group->peer[name - 1]);
}

static int read_word(struct loco_ticket_lock *lock, uint64_t offset, uint64_t *value)
{
    return loci_read64(lock->rt, lock->mem, lock->record + offset, value, NULL);
}

/* The names of all but the holder. While the slot of the ticket that is served says that it was
 * left, the sum has the name of who left it in the place of the holder's. */
static int read_slots(struct loco_ticket_lock *lock, struct queue *q)
{
    for (unsigned i = 0; i < q->length; i++) {
        uint64_t name;
        int status = loci_read64(lock->rt, lock->mem, loci_ticket_slot(lock, q->serving + i),
                                 &name, NULL);

        if (status != LOCO_OK)
            return status;
        if (i == 0) {
            q->nobodys = name != LOCI_TICKET_PASSED
                         && (name & (LOCI_TICKET_LEFT | LOCI_TICKET_TAKEN)) != 0;
            continue;
        }
        if (name == 0 || name == LOCI_TICKET_PASSED) {
            q->empty = q->empty == 0 ? i : q->empty;
            continue;
        }
        q->holder -= (unsigned)(name & LOCI_TICKET_NAMES);
        if (q->dead == 0 && name_is_dead(lock, name))
            q->dead = i + 1;
    }
    return LOCO_OK;
}

/* A consistent picture, or LOCO_ERR_AGAIN. */
static int read_queue(struct loco_ticket_lock *lock, struct queue *q)
{
    uint64_t again;
    int status = read_word(lock, LOCI_TICKET_WORD, &q->word);

    if (status != LOCO_OK)
        return status;
    q->serving = loci_ticket_serving(q->word);
    q->length = (loci_ticket_next(q->word) - q->serving) & 0xffff;
    q->holder = (unsigned)(q->word & LOCI_TICKET_NAMES);
    q->empty = q->dead = 0;
    q->nobodys = false;
    status = read_slots(lock, q);
    if (status == LOCO_OK)
        status = read_word(lock, LOCI_TICKET_WORD, &again);
    if (status != LOCO_OK)
        return status;
    return again == q->word ? LOCO_OK : LOCO_ERR_AGAIN;
}

int loco_ticket_lock_holder(loco_ticket_lock_t *lock, int *rank)
{
    struct queue q;

    for (int i = 0; i < TRIES; i++) {
        int status = read_queue(lock, &q);

        if (status == LOCO_OK && q.length == 0) {
            *rank = -1;
            return LOCO_OK;
        }
        if (status == LOCO_OK && q.empty == 0 && !q.nobodys) {
            if (q.holder < 1 || q.holder > (unsigned)lock->array->ep->group.size)
                return LOCO_ERR_PROTOCOL;       /* somebody has written over the record */
            *rank = (int)q.holder - 1;
            return LOCO_OK;
        }
        if (status != LOCO_OK && status != LOCO_ERR_AGAIN)
            return status;
    }
    return LOCO_ERR_AGAIN;
}

/* ---- for waiters ---- */

static int lose(struct loco_ticket_lock *lock, unsigned ticket)
{
    uint64_t old;

    /* The first mark stays: all behind it are told by it, and others find their own cause. */
    loci_compare_swap(lock->rt, lock->mem, lock->record + LOCI_TICKET_LOST, 0,
                      LOCI_TICKET_IS_LOST | ticket, &old, NULL);
    LOCI_LOG(lock->rt, LOCO_LOG_ERROR, "lock %s is lost: a process with ticket %u is dead",
             lock->array->ep->name, ticket);
    return LOCO_ERR_PEER_DEAD;
}

/* Whether the mark is before our ticket (distances from `serving`, which is at most both). */
static bool is_behind_mark(const struct queue *q, uint64_t mark, unsigned ticket)
{
    unsigned at = ((unsigned)mark - q->serving) & 0xffff;

    return (mark & LOCI_TICKET_IS_LOST) != 0 && at <= ((ticket - q->serving) & 0xffff);
}

static bool is_still(struct loco_ticket_lock *lock, const struct queue *q, int64_t *since,
                     uint64_t *still)
{
    int64_t now = loci_now(lock->rt);

    if (*since == 0 || *still != q->word) {
        *since = now;
        *still = q->word;
    }
    return now - *since > loci_grace(lock->rt);
}

static bool any_member_dead(const struct loco_ticket_lock *lock)
{
    for (int i = 1; i <= lock->array->ep->group.size; i++)
        if (name_is_dead(lock, (uint64_t)i))
            return true;
    return false;
}

int loci_ticket_check(struct loco_ticket_lock *lock, unsigned ticket, int64_t *still_since,
                      uint64_t *still)
{
    struct queue q;
    uint64_t mark;
    unsigned mine;
    int status;

    if (!any_member_dead(lock))
        return LOCO_OK;
    if (!loci_peer_alive(lock->rt, lock->host))
        return LOCO_ERR_PEER_DEAD;
    status = read_queue(lock, &q);
    if (status != LOCO_OK)
        return status == LOCO_ERR_AGAIN ? LOCO_OK : status;
    status = read_word(lock, LOCI_TICKET_LOST, &mark);
    if (status != LOCO_OK)
        return status;
    mine = (ticket - q.serving) & 0xffff;
    if (mine >= q.length)
        return LOCO_OK;
    if (is_behind_mark(&q, mark, ticket))
        return LOCO_ERR_PEER_DEAD;
    if (q.empty == 0 && mine > 0 && !q.nobodys && name_is_dead(lock, q.holder))
        return lose(lock, q.serving);
    if (q.dead != 0 && q.dead - 1 < mine)
        return lose(lock, (q.serving + q.dead - 1) & 0xffff);
    if (!is_still(lock, &q, still_since, still))
        return LOCO_OK;
    if (mine == 0)      /* passed to us by one that died before it told us */
        return lose(lock, ticket);
    if (q.nobodys)      /* who passed the turn died before it took it over */
        return lose(lock, q.serving);
    if (q.empty != 0)   /* somebody died while it took a ticket: it, or the holder, blocks us */
        return lose(lock, (q.serving + (q.empty < mine ? q.empty : 0)) & 0xffff);
    return LOCO_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Scavenging: what the dead had is free memory again. Nobody says what they had; it is what is left
 * when all else is taken away: what cells name, what pools have, what the stocks of the living have
 * (store_memory.c).
 *
 * It is found while the living go on, so nothing is read at one instant. For each that is left:
 *   a. note its mark (the stamp of a block, the link and word of a cell), and that there is no
 *      object in it
 *   b. it is in no pool; and then: in no stock of a client that lives, each read in order, that is
 *      while its turn is even
 *   c. its mark is the same, and no object is in it.
 * Between a and c it was never an object's: a block can only be that version of that object which
 * it says, and versions do not come twice; a cell has had the same word. Nor was it written to, nor
 * put into a pool, for both change the mark. So whoever lives and has it at c has had it before a,
 * or has taken it from a pool meanwhile; it was in that pool when the pools were looked at, or in
 * his stock when that was looked at, later. Who is in the middle of something has an odd turn.
 *
 * A page whose class nobody has written is that of one who died before he could: likewise, and
 * whoever is about to write it has an odd turn.
 *
 * What the dead have posted may still be on its way, and would land in what somebody else has by
 * then. So a host is left out until its own process says that nothing of theirs arrives any more
 * (loci_gone_at). One process at a time is at a host, for two would find the same. */

#include "config.h"

#include <stdlib.h>

#include "observe/mistake.h"
#include "store_life.h"
#include "store_survey.h"
#include "store_trace.h"

#define SILENCE INT64_C(2000000000)     /* ns that a host may take to cut the dead off */

struct scavenger {
    struct loco_store *s;
    struct loci_client *client;         /* for its stamps */
    loco_store_scavenged_t *found;
    int host;
};

/* ---- one at a time ---- */

static int claim(struct loco_store *s, int host)
{
    uint64_t mine = (uint64_t)s->ep->group.rank + 1, old = 0, seen = 0;
    struct loci_mem *head = loci_store_mem(s, host, LOCI_STORE_HEAD);

    for (;;) {
        int status = loci_compare_swap(s->rt, head, LOCI_STORE_SCAVENGER, seen, mine, &old, NULL);

        if (status != LOCO_OK || old == seen)
            return status;
        if (old > (uint64_t)s->ep->group.size || !loci_rank_is_dead(s, (int)old - 1))
            return LOCO_ERR_AGAIN;
        seen = old;
    }
}

static void release(struct loco_store *s, int host)
{
    uint64_t mine = (uint64_t)s->ep->group.rank + 1, old;

    (void)loci_compare_swap(s->rt, loci_store_mem(s, host, LOCI_STORE_HEAD), LOCI_STORE_SCAVENGER,
                            mine, 0, &old, NULL);
}

/* ---- nothing of the dead arrives any more ---- */

static int is_silent(void *arg)
{
    struct scavenger *a = arg;
    struct loco_store *s = a->s;

    for (int rank = 0; rank < s->ep->group.size; rank++) {
        uint64_t gone = 1;
        int status = LOCO_OK;

        if (loci_rank_is_dead(s, rank) && s->hosted)    /* the host itself is who scavenges */
            gone = loci_peer_is_silent(s->rt, s->ep->group.peer[rank]);
        else if (loci_rank_is_dead(s, rank) && rank != s->host[a->host])
            status = loci_read64(s->rt, loci_store_mem(s, a->host, LOCI_STORE_HEAD),
                                 loci_gone_at(s, s->ep->group.size, rank), &gone, NULL);
        if (status != LOCO_OK)
            return status;
        if (gone == 0)
            return 0;
    }
    return 1;
}

/* On one node whoever is dead has no process any more. */
static int wait_for_silence(struct scavenger *a)
{
    const struct loci_reason why = {
        .what = a->s->ep->name, .at = loci_store_mem(a->s, a->host, LOCI_STORE_HEAD), .peer = -1,
        .timeout_ns = SILENCE, .what_for = LOCI_FOR_DEAD_CLIENT,
    };

    return a->s->sums ? loci_wait(a->s->rt, &why, is_silent, a) : LOCO_OK;
}

/* ---- transactions of the dead ---- */

/* Those whose log is at this host are decided. */
static int undo_slots(struct scavenger *a)
{
    struct loco_store *s = a->s;

    for (int client = 0; client < s->ep->group.size * s->threads; client++) {
        uint64_t slot = loci_slot_of(s, client, a->host), status, old;
        int result;

        if (!loci_rank_is_dead(s, client / s->threads))
            continue;
        result = loci_log_status(s, slot, &status);
        while (result == LOCO_OK && loci_status_state(status) != LOCI_TX_ABORTED
               && loci_status_state(status) != LOCI_TX_COMMITTED) {
            result = loci_log_swap(s, slot, status,
                                   loci_status(loci_status_seq(status), LOCI_TX_ABORTED), &old,
                                   NULL);
            a->found->undone += result == LOCO_OK && old == status;
            if (old == status)
                break;
            status = old;
        }
        if (result != LOCO_OK)
            return result;
    }
    return LOCO_OK;
}

/* Cells at this host that a transaction of the dead owns: what they are is decided by now, if the
 * host of its log lives. */
static int put_right(struct scavenger *a, struct loci_survey *v)
{
    struct loco_store *s = a->s;

    for (uint64_t cell = 0; cell < v->cells; cell++) {
        loco_object_t object = loci_object(a->host, cell);
        uint64_t word;
        int status = loci_cell_load(s, object, &word), rank;

        if (status != LOCO_OK)
            return status;
        if (!loci_cell_is_owned(word))
            continue;
        rank = loci_slot_rank(s, loci_cell_slot(word));
        if (rank < s->ep->group.size && loci_rank_is_dead(s, rank))
            status = loci_cell_settle(s, object, LOCI_SETTLE_OWN, &v->asker, &word);
        if (status != LOCO_OK && !loci_host_is_lost(s, loci_slot_host(s, loci_cell_slot(word))))
            return status;
    }
    return LOCO_OK;
}

/* ---- what is nobody's ---- */

static int give_page(struct scavenger *a, uint64_t page)
{
    uint64_t per_page = LOCI_STORE_PAGE / LOCI_STORE_UNIT;
    int status = loci_pages_say_class(a->s, a->host, page, 1, 0);

    for (uint64_t i = 0; i < per_page && status == LOCO_OK; i++)
        status = loci_pool_push(a->client, a->host, 0, 1 + page * per_page + i);
    if (status == LOCO_OK)
        a->found->bytes += LOCI_STORE_PAGE;
    a->found->blocks += status == LOCO_OK ? per_page : 0;
    return status;
}

static int give_away(struct scavenger *a, const struct loci_stray *stray)
{
    bool cell = stray->class == (int)LOCI_STORE_CLASSES;
    int status;

    if (stray->class == (int)LOCI_STRAY_PAGE)
        return give_page(a, stray->number);
    status = loci_pool_push(a->client, a->host, stray->class, stray->number + cell);
    if (status != LOCO_OK)
        return status;
    if (cell) {
        a->found->cells++;
    } else {
        a->found->blocks++;
        a->found->bytes += loci_class_bytes(stray->class);
    }
    return LOCO_OK;
}

static int survey(struct scavenger *a, struct loci_survey *v)
{
    size_t n;
    int status = put_right(a, v);

    if (status == LOCO_OK)
        status = loci_survey_scan(v);
    /* Most are in stocks: so the careful part is about few. */
    if (status == LOCO_OK)
        status = loci_survey_leave_owned(v);
    if (status == LOCO_OK)
        status = loci_survey_look_again(v, true);
    if (status == LOCO_OK)
        status = loci_survey_leave_owned(v);
    n = v->n;
    if (status == LOCO_OK)
        status = loci_survey_look_again(v, false);
    a->found->objects += v->objects;
    a->found->left += v->unsure ? n : n - v->n;
    for (size_t i = 0; i < v->n && !v->unsure && status == LOCO_OK; i++)
        status = give_away(a, &v->stray[i]);
    return status;
}

static int at_host(struct scavenger *a)
{
    struct loci_survey v;
    int status = claim(a->s, a->host);

    if (status != LOCO_OK)
        return status;
    status = wait_for_silence(a);
    if (status == LOCO_ERR_TIMEOUT) {
        a->found->left++;
        status = LOCO_OK;
    } else if (status == LOCO_OK) {
        status = loci_survey_open(&v, a->s, a->host);
        if (status == LOCO_OK)
            status = survey(a, &v);
        loci_survey_close(&v);
    }
    release(a->s, a->host);
    return status;
}

static int all_hosts(struct scavenger *a)
{
    int status = LOCO_OK;

    /* All logs first: cells at one host may be owned by what is logged at another. */
    for (a->host = 0; a->host < a->s->nhosts && status == LOCO_OK; a->host++) {
        status = loci_store_map(a->s, a->host);
        if (status == LOCO_OK && !loci_host_is_lost(a->s, a->host))
            status = undo_slots(a);
    }
    for (a->host = 0; a->host < a->s->nhosts && status == LOCO_OK; a->host++)
        if (!loci_host_is_lost(a->s, a->host))
            status = at_host(a);
    return status;
}

/* For who counts and traces. */
static void tell(struct loco_store *s, const loco_store_scavenged_t *found, int status, bool traced)
{
    loci_stat(s->rt, LOCI_STAT_STORE + LOCI_STATS_SCAVENGED_UNDONE, found->undone);
    loci_stat(s->rt, LOCI_STAT_STORE + LOCI_STATS_SCAVENGED_BLOCKS, found->blocks);
    loci_stat(s->rt, LOCI_STAT_STORE + LOCI_STATS_SCAVENGED_BYTES, found->bytes);
    loci_stat(s->rt, LOCI_STAT_STORE + LOCI_STATS_SCAVENGED_CELLS, found->cells);
    if (traced && status == LOCO_OK)
        loci_store_trace_scavenged(s, found);
    else if (traced)
        loci_store_trace_end(s, status);
}

int loco_store_scavenge(loco_store_t *s, loco_store_scavenged_t *found)
{
    loco_store_scavenged_t here = { 0 };
    struct scavenger a = { .s = s, .found = &here };
    bool traced = loci_store_trace_scavenge(s);
    int status = LOCO_ERR_NO_MEMORY;

    pthread_mutex_lock(&s->scavenging);
    if (s->scavenger == NULL)
        (void)loci_client_open(s, -1, &s->scavenger);
    a.client = s->scavenger;
    if (a.client != NULL)
        status = all_hosts(&a);
    pthread_mutex_unlock(&s->scavenging);
    tell(s, &here, status, traced);
    if (status == LOCO_OK && found != NULL)
        *found = here;
    return status;
}

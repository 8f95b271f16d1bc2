/* SPDX-License-Identifier: BSD-3-Clause */

/* The origin's side of gathering: batches for each target, handed over, waited for, or applied here.
 * By the one thread that calls. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "gather.h"
#include "wait.h"
#include "window/acc/window_acc.h"

#define RECORD_NS 150           /* half of what it takes to apply a record here, more or less */
#define CALL_NS 1500            /* the least time that a target is given */
#define TURN_NS 500             /* a round of waiting in which others have this core, counts as */
#define OTHERS_NS 20000000      /* that they may have it meanwhile */
#define FULL (LOCI_GATHER_BATCH / LOCI_GATHER_RECORD(8))    /* records of a batch, about */
#define BACKOFF 5               /* of targets in vain one in 2^BACKOFF is given time, at least */

/* What goes to one target. */
struct loci_outbox {
    bool in_use;                /* something has gone there since the last synchronization; */
    bool open;                  /* it is in the list of those, and maybe not in use any more */
    bool lost;                  /* what was handed over will not be applied */
    unsigned to_skip, backoff;  /* as of an offer (fabric/shm/offer.c) */
    struct loci_mem ring;       /* of this process; kind NONE: not used yet */
    struct loci_mem inbox;      /* of the target; kind NONE: it has none */
    uint64_t bit;
    unsigned char *row;         /* in the target's control block */
    uint64_t handed;            /* batches; the next one is being filled */
    uint64_t applied;           /* as last seen */
    size_t bytes;               /* of records in that one */
    int64_t records;            /* since the last synchronization */
};

static unsigned char *batch_of(const struct loci_outbox *o)
{
    return loci_mem_ptr(&o->ring) + (o->handed + 1) % LOCI_GATHER_DEPTH * LOCI_GATHER_BATCH;
}

/* ---- life ---- */

void loci_outbox_free(struct loco_window *win, int rank)
{
    struct loci_outbox *o = win->gather->out[rank];

    if (o == NULL)
        return;
    if (o->ring.key.kind != LOCI_MEM_NONE)
        loci_free(win->rt, &o->ring);
    if (o->inbox.key.kind != LOCI_MEM_NONE)
        loci_mem_drop(win->rt, &o->inbox);
    free(o);
    win->gather->out[rank] = NULL;
}

/* Without an inbox to knock at, the target is not waited for: all is done here. */
static void find_inbox(struct loco_window *win, int rank, struct loci_outbox *o)
{
    const unsigned char *at = win->target[rank].control + win->gather_at;
    struct loci_memkey key;

    loci_copy_once(&key, at + LOCI_GATHER_INBOX, sizeof key);
    o->bit = loci_load64(at + LOCI_GATHER_BIT);
    if (key.kind != LOCI_MEM_POOL || key.len < sizeof(uint64_t) || key.base % 8 != 0
        || loci_mem_import(win->rt, win->group.peer[rank], &key, &o->inbox) != LOCO_OK) {
        o->inbox.key.kind = LOCI_MEM_NONE;
        return;
    }
    loci_mem_set_domain(&o->inbox, LOCI_DOMAIN_CPU);
    loci_mem_map(win->rt, &o->inbox);
}

static int begin(struct loco_window *win, int rank, struct loci_outbox *o)
{
    int status = loci_alloc(win->rt, (size_t)LOCI_GATHER_DEPTH * LOCI_GATHER_BATCH, 0, &o->ring);

    if (status != LOCO_OK) {
        o->ring.key.kind = LOCI_MEM_NONE;
        return status;
    }
    o->row = loci_gather_row(win->target[rank].control, win, win->group.rank);
    loci_copy_in(o->row + LOCI_GATHER_RING, &o->ring.key, sizeof o->ring.key);
    find_inbox(win, rank, o);
    return LOCO_OK;
}

static struct loci_outbox *outbox_of(struct loco_window *win, int rank)
{
    struct loci_outbox **o = &win->gather->out[rank];

    if (*o == NULL)
        *o = calloc(1, sizeof **o);
    return *o;
}

/* ---- handing over ---- */

static void hand_over(struct loci_outbox *o)
{
    unsigned char *inbox = loci_mem_word(&o->inbox);

    if (o->bytes == 0)
        return;
    loci_store64(batch_of(o), o->bytes);
    o->bytes = 0;
    /* Release: the batch. */
    loci_store64(o->row + LOCI_GATHER_HANDED, ++o->handed);
    if (inbox != NULL)
        loci_cpu_fetch_or(inbox, o->bit);
}

/* ---- applying here ---- */

static int locate_far(const struct loci_gather_way *way, uint64_t offset, size_t len, uint64_t *at)
{
    const struct loco_span span = { NULL, offset, len };

    *at = offset;
    return loci_window_check_spans(way->win, way->rank, &span, 1);
}

static int move_far(const struct loci_gather_way *way, enum loci_op_kind kind,
                    const struct loci_piece *pieces, int n, unsigned char *packed)
{
    struct loco_span span[LOCI_GATHER_CHUNK];

    for (int i = 0; i < n; i++) {
        span[i] = (struct loco_span){ packed, pieces[i].at, pieces[i].len };
        packed += pieces[i].len;
    }
    return loci_window_move(way->win, way->rank, kind, span, (size_t)n, NULL);
}

/* All that was handed over to that target and not applied. Where the lock's holder is dead nobody
 * will ever apply it. */
static int apply_here(struct loco_window *win, int rank, struct loci_outbox *o)
{
    unsigned char room[LOCI_GATHER_ROOM];
    const struct loci_gather_way way = {
        .win = win, .rank = rank, .room = room, .locate = locate_far, .move = move_far,
    };
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    int status = loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, LOCI_RW_ACCUMULATES);

    if (status != LOCO_OK) {
        o->lost = true;
        return status;
    }
    loci_gather_apply_row(&way, o->row, loci_mem_ptr(&o->ring));
    o->applied = loci_load64(o->row + LOCI_GATHER_APPLIED);
    return loci_acc_leave(win, rank, true);
}

/* ---- waiting for the target ---- */

/* Whether all but `most` of what was handed over is applied. */
static bool is_applied(struct loci_outbox *o, uint64_t most)
{
    /* Acquire: what was done. */
    o->applied = loci_load64(o->row + LOCI_GATHER_APPLIED);
    return o->handed - o->applied <= most;
}

/* For how long the target is given time for so many records; 0: it has not come too often. */
static int64_t patience(struct loci_outbox *o, int64_t records)
{
    if (loci_mem_word(&o->inbox) == NULL)
        return 0;
    if (o->to_skip > 0) {
        o->to_skip--;
        return 0;
    }
    return CALL_NS + records * RECORD_NS;
}

static void learn(struct loci_outbox *o, bool good)
{
    if (good) {
        o->backoff = o->backoff > 0 ? o->backoff - 1 : 0;
        return;
    }
    o->to_skip = 1u << o->backoff;
    o->backoff = o->backoff < BACKOFF ? o->backoff + 1 : BACKOFF;
}

/* Give the target time to apply all but `most`; whoever waits yields, for the target may be waiting
 * for this core. While others have it, no time of ours is lost. */
static void give_time(struct loco_window *win, int rank, struct loci_outbox *o, uint64_t most)
{
    const int64_t outstanding = (int64_t)(o->handed - o->applied - most) * FULL;
    int64_t left = patience(o, outstanding < o->records ? outstanding : o->records);
    int64_t start, last, now;
    unsigned rounds = 0;

    if (left == 0)
        return;
    start = last = loci_now(win->rt);
    while (!is_applied(o, most) && loci_peer_alive(win->rt, win->group.peer[rank])) {
        loci_wait_round(win->rt, &rounds);
        now = loci_now(win->rt);
        left -= now - last < TURN_NS ? now - last : TURN_NS;
        last = now;
        if (left <= 0 || now - start > OTHERS_NS)
            break;
    }
    learn(o, is_applied(o, most));
}

/* Until all but `most` of what was handed over is applied. */
static int wait_for(struct loco_window *win, int rank, struct loci_outbox *o, uint64_t most)
{
    if (o->lost)
        return LOCO_ERR_PEER_DEAD;
    if (is_applied(o, most))
        return LOCO_OK;
    give_time(win, rank, o, most);
    if (is_applied(o, most))
        return LOCO_OK;
    if (!loci_peer_alive(win->rt, win->group.peer[rank])) {
        o->lost = true;
        return LOCO_ERR_PEER_DEAD;
    }
    return apply_here(win, rank, o);
}

/* What could not be done is told once. */
static int told(struct loci_outbox *o)
{
    uint64_t status = loci_load64(o->row + LOCI_GATHER_STATUS);

    if (status == 0)
        return LOCO_OK;
    loci_store64(o->row + LOCI_GATHER_STATUS, 0);
    return (int)(int64_t)status;
}

static int finish(struct loco_window *win, int rank, struct loci_outbox *o)
{
    int status = LOCO_OK;

    if (o->records > 0) {
        hand_over(o);
        status = wait_for(win, rank, o, 0);
        if (status == LOCO_OK)
            status = told(o);
        o->records = 0;
    }
    o->in_use = false;
    return status;
}

/* All are handed over before one is waited for. */
int loci_gather_settle_slow(struct loco_window *win)
{
    struct loci_gather *g = win->gather;
    int status = LOCO_OK, n = g->nopen;

    win->gathering = 0;
    g->nopen = 0;
    for (int i = 0; i < n; i++)
        hand_over(g->out[g->open[i]]);
    for (int i = 0; i < n; i++) {
        struct loci_outbox *o = g->out[g->open[i]];
        int one = finish(win, g->open[i], o);

        o->open = false;
        status = status == LOCO_OK ? one : status;
    }
    return status;
}

int loci_gather_drain_slow(struct loco_window *win, int rank)
{
    struct loci_outbox *o = win->gather->out[rank];

    return o != NULL && o->in_use ? finish(win, rank, o) : LOCO_OK;
}

/* ---- gathering ---- */

/* The first since the last synchronization, or since something else went there, goes at once. */
static void use(struct loco_window *win, int rank, struct loci_outbox *o)
{
    struct loci_gather *g = win->gather;

    o->in_use = true;
    if (o->open)
        return;
    o->open = true;
    g->open[g->nopen++] = rank;
    win->gathering = g->nopen;
}

/* Room for one more of `size` bytes. */
static int make_room(struct loco_window *win, int rank, struct loci_outbox *o, size_t size)
{
    if (o->lost)
        return LOCO_ERR_PEER_DEAD;
    if (8 + o->bytes + size > LOCI_GATHER_BATCH)
        hand_over(o);
    if (o->bytes > 0 || o->handed - o->applied < LOCI_GATHER_DEPTH)
        return LOCO_OK;
    return wait_for(win, rank, o, LOCI_GATHER_DEPTH - 1);
}

static void add(struct loci_outbox *o, enum loco_type type, enum loco_op op, uint64_t offset,
                const void *operand, size_t len)
{
    unsigned char *record = batch_of(o) + 8 + o->bytes;

    loci_store64(record, offset);
    loci_store64(record + 8, (uint64_t)type | (uint64_t)op << 8 | (uint64_t)len << 16);
    if (len == 8)
        loci_copy_in(record + 16, operand, 8);
    else
        loci_copy_in(record + 16, operand, len);
    o->bytes += LOCI_GATHER_RECORD(len);
    o->records++;
}

static int gather(struct loco_window *win, int rank, struct loci_outbox *o, enum loco_type type,
                  enum loco_op op, uint64_t offset, const void *operand, size_t len)
{
    int status = loci_window_send(win);

    if (status != LOCO_OK)
        return status;
    if (o->ring.key.kind == LOCI_MEM_NONE && begin(win, rank, o) != LOCO_OK)
        return LOCO_ERR_AGAIN;
    status = make_room(win, rank, o, LOCI_GATHER_RECORD(len));
    if (status != LOCO_OK)
        return status;
    add(o, type, op, offset, operand, len);
    loci_inbox_look(win->rt);
    return LOCO_OK;
}

/* Not to be gathered, and behind what was. */
static int pass_by(struct loco_window *win, int rank)
{
    int status = loci_gather_drain(win, rank);

    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

int loci_gather_accumulate(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                           uint64_t offset, const void *operand, size_t len)
{
    struct loci_outbox *o;

    if (len > LOCI_GATHER_MOST || op == LOCO_OP_NO_OP || !loci_type(type)->plain
        || rank == win->group.rank)
        return pass_by(win, rank);
    o = outbox_of(win, rank);
    if (o == NULL)
        return LOCO_ERR_AGAIN;
    if (!o->in_use) {
        use(win, rank, o);
        return LOCO_ERR_AGAIN;
    }
    return gather(win, rank, o, type, op, offset, operand, len);
}

int loci_gather_put(struct loco_window *win, int rank, uint64_t offset, const void *from,
                    size_t len)
{
    struct loci_outbox *o = win->gather->out[rank];

    if (o == NULL || !o->in_use || len > LOCI_GATHER_MOST || len == 0)
        return LOCO_ERR_AGAIN;
    return gather(win, rank, o, LOCO_TYPE_BYTE, LOCO_OP_REPLACE, offset, from, len);
}

int loci_window_gather(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                       uint64_t offset, const void *operand, size_t len)
{
    const struct loco_span span = { NULL, offset, len };
    struct loci_outbox *o;
    int status;

    if (!loci_window_has(win, rank) || len == 0 || len > LOCI_GATHER_MOST
        || loci_reduce(op, type) == NULL || op == LOCO_OP_NO_OP || !loci_type(type)->plain)
        return LOCO_ERR_AGAIN;
    o = win->gather->out[rank];
    if (o == NULL || !o->in_use)
        return LOCO_ERR_AGAIN;
    status = loci_window_check(win, rank);
    if (status == LOCO_OK)
        status = loci_window_check_spans(win, rank, &span, 1);
    return status == LOCO_OK ? gather(win, rank, o, type, op, offset, operand, len) : status;
}

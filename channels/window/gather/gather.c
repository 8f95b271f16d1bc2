/* SPDX-License-Identifier: BSD-3-Clause */

/* The origin's side of gathering: batches for each target, handed over, waited for, or applied
 * here. By the one thread that calls. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "gather.h"
#include "gather_far.h"
#include "names/control.h"
#include "wait.h"
#include "window/acc/window_acc.h"

#define RECORD_NS 300           /* about what it takes to apply a record here */
#define CALL_NS 1500            /* the least time that a target is given */
#define SOON_NS 100             /* for a record, in which a target that is there has applied it */
#define WORTH_RINGING 64        /* records, for which the target is rung, */
#define RUNG_NS 100000          /* and has some time to wake up */
#define RING_NS 200000          /* after which the target is rung for, if others have this core */
#define TURN_NS 500             /* a round of waiting in which others have this core, counts as */
#define OTHERS_NS 4000000       /* that they may have it meanwhile; */
#define FULL_OTHERS_NS 12000000 /* and where many batches are handed over: a turn of each of them */
#define MEETING_NS 1000000      /* more, where the target will be waited for anyway; */
#define MEETING_OTHERS_NS 200000000 /* and that others may have it then */
#define FULL (LOCI_GATHER_BATCH / LOCI_GATHER_RECORD(8))    /* records of a batch, about */
#ifdef LOCO_SIM
#define FIRST_DEPTH 1
#define MOST_DEPTH 4
#else
#define FIRST_DEPTH 4           /* batches of a ring at first, */
#define MOST_DEPTH 64           /* at last, */
#endif
#define ALL_DEPTH 512           /* and of all rings of a window */
#define BACKOFF 2               /* at most 2^BACKOFF are left out after one that came in vain */

/* What goes to one target. */
struct loci_outbox {
    bool in_use;                /* something has gone there since the last synchronization; */
    bool open;                  /* it is in the list of those, and maybe not in use any more */
    int lost;                   /* LOCO_OK, or why what was handed over will not be applied */
    uint64_t most;              /* batches of a ring */
    unsigned to_skip, backoff;  /* as of an offer (fabric/shm/offer.c) */
    struct loci_mem ring;       /* of this process; kind NONE: not used yet */
    struct loci_mem inbox;      /* of the target; kind NONE: it has none */
    uint64_t bit;
    unsigned char *row;         /* in the target's control block */
    uint64_t handed;            /* batches; the next one is being filled */
    uint64_t applied;           /* as last seen */
    size_t bytes;               /* of records in that one */
    int64_t records;            /* since the last synchronization */
    struct loci_far *far;       /* with several nodes all that there is; NULL: not used yet */
};

static unsigned char *batch_of(const struct loci_outbox *o)
{
    uint64_t slot = (o->handed + 1) % loci_gather_depth(&o->ring);

    return loci_mem_ptr(&o->ring) + slot * LOCI_GATHER_BATCH;
}

/* ---- life ---- */

/* Whether nobody reads the ring any more. Of what was lost somebody at a living target may be at a
 * batch, and apply whatever comes into its place. Then it stays until the runtime closes. The
 * target's row may have gone: what was last seen of it counts. */
static bool is_done_with(struct loco_window *win, int rank, const struct loci_outbox *o)
{
    return o->applied == o->handed
           || !loci_peer_alive(win->rt, win->group.peer[rank]);
}

void loci_outbox_free(struct loco_window *win, int rank)
{
    struct loci_outbox *o = win->gather->out[rank];

    if (o == NULL)
        return;
    if (o->ring.key.kind != LOCI_MEM_NONE && is_done_with(win, rank, o))
        loci_free(win->rt, &o->ring);
    if (o->inbox.key.kind != LOCI_MEM_NONE)
        loci_mem_drop(win->rt, &o->inbox);
    free(o->far);
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

/* A ring of `depth` batches in the place of the last one, of which all are applied. */
static int take_ring(struct loco_window *win, struct loci_outbox *o, uint64_t depth)
{
    struct loci_mem ring;
    int status = loci_alloc(win->rt, depth * LOCI_GATHER_BATCH, 0, &ring);

    if (status != LOCO_OK)
        return status;
    if (o->ring.key.kind != LOCI_MEM_NONE)
        loci_free(win->rt, &o->ring);
    o->ring = ring;
    loci_copy_in(o->row + LOCI_GATHER_RING, &ring.key, sizeof ring.key);
    return LOCO_OK;
}

static uint64_t most_depth(const struct loco_window *win)
{
    uint64_t share = ALL_DEPTH / (uint64_t)win->group.size;

    return share < FIRST_DEPTH ? FIRST_DEPTH : share < MOST_DEPTH ? share : MOST_DEPTH;
}

static int begin(struct loco_window *win, int rank, struct loci_outbox *o)
{
    if (win->gather->work == NULL)
        win->gather->work = malloc(loci_gather_chunk_size() + LOCI_GATHER_ROOM);
    if (win->gather->work == NULL)
        return LOCO_ERR_NO_MEMORY;
    o->most = most_depth(win);
    o->row = loci_gather_row(win->target[rank].control, win, win->group.rank);
    if (o->inbox.key.kind == LOCI_MEM_NONE)
        find_inbox(win, rank, o);
    return take_ring(win, o, FIRST_DEPTH);
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

static int move_there(const struct loci_gather_way *way, enum loci_op_kind kind,
                      const struct loci_piece *pieces, int n, unsigned char *packed)
{
    struct loco_span span[LOCI_GATHER_CHUNK];

    loci_gather_spans(pieces, n, packed, span);
    return loci_window_move(way->win, way->rank, kind, span, (size_t)n, NULL);
}

/* All that was handed over to that target and not applied. Where the lock's holder is dead, or the
 * row was spoilt, nobody will ever apply it. */
static int apply_here(struct loco_window *win, int rank, struct loci_outbox *o)
{
    unsigned char *work = win->gather->work;
    const struct loci_gather_way way = {
        .win = win, .rank = rank, .room = work + loci_gather_chunk_size(), .chunk = (void *)work,
        .locate = loci_gather_locate_there, .move = move_there,
    };
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    int status = loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, LOCI_RW_ACCUMULATES), left;

    if (status != LOCO_OK)
        return o->lost = status;
    status = loci_gather_apply_row(&way, o->row, loci_mem_ptr(&o->ring),
                                   loci_gather_depth(&o->ring));
    o->applied = loci_load64(o->row + LOCI_GATHER_APPLIED);
    o->lost = status;
    left = loci_acc_leave(win, rank, true);
    return status == LOCO_OK ? left : status;
}

/* ---- waiting for the target ---- */

/* Whether all but `most` of what was handed over is applied. */
static bool is_applied(struct loci_outbox *o, uint64_t most)
{
    /* Acquire: what was done. */
    o->applied = loci_load64(o->row + LOCI_GATHER_APPLIED);
    return o->handed - o->applied <= most;
}

/* For how long a target is given time, of ours and of others: as long as it takes to do it here, so
 * that whoever waits in vain has lost no more than that. Where all of the window will meet, in a
 * fence, the origin would wait for the target all the same. */
enum occasion { FULL_RING, MEETING, FLUSH };

struct patience {
    int64_t own, others;
};

static struct patience patience(enum occasion occasion, int64_t records)
{
    static const struct patience more[] = {
        [FULL_RING] = { CALL_NS, FULL_OTHERS_NS }, [MEETING] = { MEETING_NS, MEETING_OTHERS_NS },
        [FLUSH] = { CALL_NS, OTHERS_NS },
    };

    return (struct patience){
        more[occasion].own + records * RECORD_NS + (records < WORTH_RINGING ? 0 : RUNG_NS),
        more[occasion].others,
    };
}

/* Whether that target is worth waiting for this time: it came the last time, or some times ago. */
static bool is_promising(struct loci_outbox *o, enum occasion occasion)
{
    if (loci_mem_word(&o->inbox) == NULL)
        return false;
    if (o->to_skip == 0 || occasion == MEETING)
        return true;
    o->to_skip--;
    return false;
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

/* Give the target time to apply all but `most` of what was handed over, `records` of them. Whoever
 * waits yields, for the target may be waiting for this core: while others have it no time of ours
 * is lost, and if that was all, the target may come the next time. One that does not come soon,
 * because it computes or has no core, has its service thread do it, if that is worth a message: the
 * system lets a thread that has slept run before others. */
static void give_time(struct loco_window *win, int rank, struct loci_outbox *o, uint64_t most,
                      struct patience left, int64_t records)
{
    const int64_t ring_at = left.own - CALL_NS - records * SOON_NS;
    int64_t start = loci_now(win->rt), last = start, now;
    bool rung = records < WORTH_RINGING;
    unsigned rounds = 0;

    while (!is_applied(o, most)) {
        if (left.own <= 0) {
            learn(o, false);
            return;
        }
        if (last - start > left.others || !loci_peer_alive(win->rt, win->group.peer[rank]))
            return;
        if (!rung && (left.own < ring_at || last - start > RING_NS)) {
            rung = true;
            loci_control_ring(win->rt, win->group.peer[rank], 0);
        }
        loci_wait_round(win->rt, &rounds);
        now = loci_now(win->rt);
        left.own -= now - last < TURN_NS ? now - last : TURN_NS;
        last = now;
    }
    learn(o, true);
}

/* Until all but `most` of what was handed over is applied. */
static int wait_for(struct loco_window *win, int rank, struct loci_outbox *o, uint64_t most,
                    enum occasion occasion)
{
    int64_t records;

    if (o->lost != LOCO_OK)
        return o->lost;
    if (is_applied(o, most))
        return LOCO_OK;
    records = (int64_t)(o->handed - o->applied - most) * FULL;
    records = records < o->records ? records : o->records;
    if (is_promising(o, occasion))
        give_time(win, rank, o, most, patience(occasion, records), records);
    if (is_applied(o, most))
        return LOCO_OK;
    if (!loci_peer_alive(win->rt, win->group.peer[rank]))
        return o->lost = LOCO_ERR_PEER_DEAD;
    return apply_here(win, rank, o);
}

/* What could not be done is told once. A peer has written it, and what it may say is an error of
 * the program's or the machine's. */
static int told(struct loci_outbox *o)
{
    int64_t status = (int64_t)loci_load64(o->row + LOCI_GATHER_STATUS);

    if (status == LOCO_OK)
        return LOCO_OK;
    loci_store64(o->row + LOCI_GATHER_STATUS, 0);
    return status < LOCO_OK && status >= LOCO_ERR_PROTOCOL && status != LOCO_ERR_AGAIN
           ? (int)status : LOCO_ERR_PROTOCOL;
}

static int finish(struct loco_window *win, int rank, struct loci_outbox *o, enum occasion occasion)
{
    int status = o->far != NULL ? loci_far_send(win, rank, o->far) : LOCO_OK;

    if (o->records > 0) {
        hand_over(o);
        status = wait_for(win, rank, o, 0, occasion);
        if (status == LOCO_OK)
            status = told(o);
        o->records = 0;
    }
    o->in_use = false;
    return status;
}

/* All are handed over before one is waited for. */
int loci_gather_settle_slow(struct loco_window *win, bool meeting)
{
    struct loci_gather *g = win->gather;
    int status = LOCO_OK, n = g->nopen;

    win->gathering = 0;
    g->nopen = 0;
    for (int i = 0; i < n; i++)
        hand_over(g->out[g->open[i]]);
    for (int i = 0; i < n; i++) {
        struct loci_outbox *o = g->out[g->open[i]];
        int one = finish(win, g->open[i], o, meeting ? MEETING : FLUSH);

        o->open = false;
        status = status == LOCO_OK ? one : status;
    }
    return status;
}

int loci_gather_drain_slow(struct loco_window *win, int rank)
{
    struct loci_outbox *o = win->gather->out[rank];

    return o != NULL && o->in_use ? finish(win, rank, o, FLUSH) : LOCO_OK;
}

int loci_gather_before_slow(struct loco_window *win, int rank, uint64_t offset, size_t len)
{
    struct loci_outbox *o = win->gather->out[rank];

    return o != NULL && o->in_use && o->far != NULL
           ? loci_far_send_before(win, rank, o->far, offset, len) : LOCO_OK;
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

/* All batches are handed over: wait for the target, and have more of them from then on, unless that
 * was refused before. */
static int make_batch(struct loco_window *win, int rank, struct loci_outbox *o)
{
    uint64_t depth = loci_gather_depth(&o->ring);
    bool grows = 2 * depth <= o->most;
    int status = wait_for(win, rank, o, grows ? 0 : depth - 1, FULL_RING);

    if (status == LOCO_OK && grows && take_ring(win, o, 2 * depth) != LOCO_OK)
        o->most = depth;
    return status;
}

/* Room for one more of `size` bytes. */
static int make_room(struct loco_window *win, int rank, struct loci_outbox *o, size_t size)
{
    if (o->lost != LOCO_OK)
        return o->lost;
    if (8 + o->bytes + size > LOCI_GATHER_BATCH)
        hand_over(o);
    if (o->bytes > 0 || o->handed - o->applied < loci_gather_depth(&o->ring)
        || is_applied(o, loci_gather_depth(&o->ring) - 1))
        return LOCO_OK;
    return make_batch(win, rank, o);
}

static void add(struct loci_outbox *o, enum loco_type type, enum loco_op op, uint64_t offset,
                const void *operand, size_t len)
{
    loci_gather_record(batch_of(o) + 8 + o->bytes, type, op, offset, operand, len);
    o->bytes += LOCI_GATHER_RECORD(len);
    o->records++;
}

static int gather_far(struct loco_window *win, int rank, struct loci_outbox *o,
                      enum loco_type type, enum loco_op op, uint64_t offset, const void *operand,
                      size_t len)
{
    if (o->far == NULL)
        o->far = loci_far_new();
    /* Later such an error is one of those before it, which are lost. */
    return o->far == NULL ? LOCO_ERR_AGAIN
                          : loci_far_add(win, rank, o->far, type, op, offset, operand, len);
}

static int gather(struct loco_window *win, int rank, struct loci_outbox *o, enum loco_type type,
                  enum loco_op op, uint64_t offset, const void *operand, size_t len)
{
    int status;

    if (loci_gathers_far(win))
        return gather_far(win, rank, o, type, op, offset, operand, len);
    status = loci_window_send(win);
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

    if (len == 0 || len > LOCI_GATHER_MOST || op == LOCO_OP_NO_OP || !loci_type(type)->plain
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

    if (o == NULL || !o->in_use || len > LOCI_GATHER_MOST || len == 0
        || loci_gathers_far(win))
        return LOCO_ERR_AGAIN;
    return gather(win, rank, o, LOCO_TYPE_BYTE, LOCO_OP_REPLACE, offset, from, len);
}

static int check_place(struct loco_window *win, int rank, uint64_t offset, size_t len)
{
    const struct loco_span span = { NULL, offset, len };

    if (win->kind == LOCO_WINDOW_DYNAMIC && loci_regions_is_last(win, rank, offset, len))
        return LOCO_OK;
    return loci_window_check_spans(win, rank, &span, 1);
}

int loci_window_gather(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                       uint64_t offset, const void *operand, size_t len)
{
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
        status = check_place(win, rank, offset, len);
    return status == LOCO_OK ? gather(win, rank, o, type, op, offset, operand, len) : status;
}

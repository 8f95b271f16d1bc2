/* SPDX-License-Identifier: BSD-3-Clause */

/* Leases of keys: see lease.h. */

#include "config.h"

#include <stdlib.h>

#include "lease.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "wait.h"

/* The board: revision, then a word for each record, then a line for each holder. */
static uint64_t record_at(uint32_t record)
{
    return LOCI_CACHE_LINE + 8 * (uint64_t)record;
}

static uint64_t seen_at(uint32_t records, int holder)
{
    uint64_t end = record_at(records);

    return (end + LOCI_CACHE_LINE - 1) / LOCI_CACHE_LINE * LOCI_CACHE_LINE
           + LOCI_CACHE_LINE * (uint64_t)holder;
}

/* ---- the owner ---- */

struct record {
    uint64_t ended;                 /* the revision that withdraws it; 0: it is lent, or free */
    int64_t since;
    bool lent;
};

struct holder {
    bool here;
    int peer;
};

struct loci_leases {
    struct loco_runtime *rt;
    struct loci_mem mem;
    unsigned char *board;
    uint32_t records;
    int holders;
    uint64_t revision, version;     /* the last ones */
    struct record *record;
    struct holder *holder;
};

void loci_leases_close(struct loci_leases *l)
{
    if (l == NULL)
        return;
    if (l->board != NULL)
        loci_free(l->rt, &l->mem);
    free(l->record);
    free(l->holder);
    free(l);
}

int loci_leases_open(struct loco_runtime *rt, int records, int holders, struct loci_leases **out)
{
    struct loci_leases *l = calloc(1, sizeof *l);
    int status;

    if (l == NULL)
        return LOCO_ERR_NO_MEMORY;
    *l = (struct loci_leases){ .rt = rt, .records = (uint32_t)records, .holders = holders,
                               .record = calloc((size_t)records, sizeof l->record[0]),
                               .holder = calloc((size_t)holders, sizeof l->holder[0]) };
    status = l->record == NULL || l->holder == NULL ? LOCO_ERR_NO_MEMORY
             : loci_alloc(rt, seen_at(l->records, holders), LOCI_CACHE_LINE, &l->mem);
    if (status != LOCO_OK) {
        loci_leases_close(l);
        return status;
    }
    l->board = loci_mem_ptr(&l->mem);
    l->revision = 1;                /* 0 in `seen` says that nothing is held */
    loci_store64(l->board, l->revision);
    *out = l;
    return LOCO_OK;
}

uint64_t loci_lease_line(const struct loci_lease_board *board, int holder)
{
    return seen_at(board->records, holder);
}

void loci_leases_board(const struct loci_leases *l, struct loci_lease_board *board)
{
    *board = (struct loci_lease_board){ l->mem.key, l->records, (uint32_t)l->holders };
}

void loci_leases_admit(struct loci_leases *l, int holder, int peer)
{
    loci_store64(l->board + seen_at(l->records, holder), 0);
    l->holder[holder] = (struct holder){ true, peer };
}

/* Nothing that it had posted arrives any more. */
static bool is_silent(const struct loci_leases *l, const struct holder *h)
{
    const struct loci_peer *peer = loci_peer(l->rt, h->peer);

    /* Acquire: pairs with the exchange in loci_peer_silent(). */
    return !loci_peer_alive(l->rt, h->peer)
           && atomic_load_explicit(&peer->silent, memory_order_acquire);
}

int loci_leases_dismiss(struct loci_leases *l, int holder)
{
    struct holder *h = &l->holder[holder];
    bool released = loci_load64_total(l->board + seen_at(l->records, holder)) == 0;

    /* One that has gone had maybe begun to take it again. */
    if (!is_silent(l, h) && (!released || !loci_peer_alive(l->rt, h->peer)))
        return LOCO_ERR_AGAIN;
    h->here = false;
    return LOCO_OK;
}

int loci_leases_lend(struct loci_leases *l, uint32_t *record, uint64_t *version)
{
    uint32_t i = 0;

    while (i < l->records && l->record[i].lent)
        i++;
    if (i == l->records)
        return LOCO_ERR_FULL;
    l->record[i] = (struct record){ .lent = true };
    *record = i;
    *version = ++l->version;
    loci_store64(l->board + record_at(i), *version);
    /* A holder that has read before has no such version: it reads again, as after a withdrawal. */
    (void)loci_cpu_exchange(l->board, ++l->revision);
    return LOCO_OK;
}

void loci_leases_end(struct loci_leases *l, uint32_t record)
{
    struct record *r = &l->record[record];

    loci_store64(l->board + record_at(record), 0);
    (void)loci_cpu_exchange(l->board, ++l->revision);
    r->ended = l->revision;
    r->since = loci_now(l->rt);
}

/* Whether it may still use what was withdrawn then. */
static bool may_use(const struct loci_leases *l, int holder, uint64_t ended)
{
    uint64_t seen = loci_load64_total(l->board + seen_at(l->records, holder));

    return l->holder[holder].here && seen != 0 && seen < ended
           && !is_silent(l, &l->holder[holder]);
}

static bool cut_off(const struct loci_leases *l, int holder)
{
    loci_peer_cut(l->rt, l->holder[holder].peer);
    return false;
}

int loci_leases_reclaim(struct loci_leases *l, uint32_t record, loci_leases_late_fn *late_one,
                        void *ctx)
{
    struct record *r = &l->record[record];
    bool late = loci_now(l->rt) - r->since > 2 * l->rt->tunables.key_lease, free = true;

    for (int i = 0; i < l->holders; i++)
        if (may_use(l, i, r->ended))
            free &= late && (late_one == NULL ? cut_off(l, i)
                                              : late_one(ctx, i, l->holder[i].peer));
    if (!free)
        return LOCO_ERR_AGAIN;
    *r = (struct record){ .lent = false };
    return LOCO_OK;
}

/* ---- a holder ---- */

int loci_lease_init(struct loco_runtime *rt, int owner, const struct loci_lease_board *board,
                    int holder, int (*settle)(void *arg), void *arg, struct loci_lease *out)
{
    struct loci_mem mem;
    int status;

    if (holder < 0 || (uint32_t)holder >= board->holders
        || board->key.len < seen_at(board->records, (int)board->holders))
        return LOCO_ERR_PROTOCOL;
    status = loci_mem_import(rt, owner, &board->key, &mem);
    if (status != LOCO_OK)
        return status;
    *out = (struct loci_lease){ .rt = rt, .board = mem, .records = board->records,
                                .holder = holder, .settle = settle, .arg = arg,
                                .version = calloc(board->records, sizeof out->version[0]) };
    if (out->version != NULL)
        return LOCO_OK;
    loci_mem_drop(rt, &out->board);
    return LOCO_ERR_NO_MEMORY;
}

void loci_lease_fini(struct loci_lease *l)
{
    loci_mem_drop(l->rt, &l->board);
    free(l->version);
}

bool loci_lease_has(const struct loci_lease *l, uint32_t record, uint64_t version)
{
    return record < l->records && l->version[record] == version;
}

int loci_lease_check(const struct loci_lease *l, uint32_t record, uint64_t version)
{
    if (!loci_peer_alive(l->rt, l->board.peer) || loci_now(l->rt) >= l->until)
        return LOCO_ERR_AGAIN;
    return loci_lease_has(l, record, version) ? LOCO_OK : LOCO_ERR_STATE;
}

/* Placed before what is read next on this thread's lane is read; where the word is mapped, a
 * store before the loads. */
static int say_seen(struct loci_lease *l, uint64_t revision)
{
    int status = loci_write64(l->rt, &l->board, seen_at(l->records, l->holder), revision, NULL);

    atomic_thread_fence(memory_order_seq_cst);
    if (status == LOCO_OK)
        l->revision = revision;
    return status;
}

/* Records are read after the revision, so they are no older: one read of both could have taken a
 * new revision with a record from before. */
static int read_records(struct loci_lease *l)
{
    return loci_read(l->rt, &l->board, record_at(0), l->version,
                     l->records * sizeof l->version[0], NULL);
}

/* What is withdrawn up to that revision is not used any more. */
static int go_on(struct loci_lease *l, uint64_t revision)
{
    int status = read_records(l);

    if (status == LOCO_OK)
        status = l->settle(l->arg);
    return status == LOCO_OK ? say_seen(l, revision) : status;
}

/* From the beginning: the owner waits for this holder before records are read. It says a revision
 * of now, since who says an old one looks as if it had stood still since then. */
static int take(struct loci_lease *l)
{
    uint64_t revision;
    int status = loci_read64(l->rt, &l->board, 0, &revision, NULL);

    if (status == LOCO_OK)
        status = say_seen(l, revision);
    if (status == LOCO_OK)
        status = loci_read64(l->rt, &l->board, 0, &revision, NULL);
    return status == LOCO_OK ? go_on(l, revision) : status;
}

static int read_again(struct loci_lease *l)
{
    uint64_t revision;
    int status = loci_read64(l->rt, &l->board, 0, &revision, NULL);

    return status != LOCO_OK || revision == l->revision ? status : go_on(l, revision);
}

int loci_lease_renew(struct loci_lease *l)
{
    int64_t began = loci_now(l->rt);
    int status;

    l->until = 0;
    status = l->revision == 0 ? take(l) : read_again(l);
    /* What it says is placed before another thread, which has a lane of its own, says more. */
    if (status == LOCO_OK)
        status = loci_fence_peer(l->rt, LOCO_FENCE_PAIR, l->board.peer);
    if (status == LOCO_OK)
        l->until = began + l->rt->tunables.key_lease;
    return status;
}

int loci_lease_release(struct loci_lease *l)
{
    int status = LOCO_OK;

    l->until = 0;
    if (l->revision != 0)
        status = l->settle(l->arg);
    if (status == LOCO_OK && l->revision != 0)
        status = say_seen(l, 0);
    return status == LOCO_OK ? loci_fence_peer(l->rt, LOCO_FENCE_PAIR, l->board.peer) : status;
}

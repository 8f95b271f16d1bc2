/* SPDX-License-Identifier: BSD-3-Clause */

/* Strips of the user's memory: a column of a matrix, a face of a block.
 *
 * process_vm_* take about as long for each block, however short, as a copy of a few kilobytes: the
 * page of each is looked up and pinned. The target reaches its own memory at the speed of a loop.
 * So the packed bytes and the strips are offered to it in one slot (offer.c), for as long as about
 * half of what the blocks would take one by one: so if it does not come, no more than that is
 * lost, and after some times in vain it is offered only now and then. Nobody needs the target.
 * The origin yields meanwhile: with more ranks than cores, the target is often one that waits for
 * the origin's core, in MPI or with an offer of its own.
 *
 * Reads need not touch the blocks alone: where these lie close to each other, the whole of a strip
 * is read and the blocks are picked out of it here. What lies between them may be changing; it is
 * thrown away. Writes must not: another origin may write there.
 *
 * The target's side is as with all offers: the strips are copied before they are checked, so that
 * what is checked is what is used, under fabric->lock, which keeps the memory registered, and by
 * way of the system, so that a fault is a status (own.c). */

#include "config.h"

#include <string.h>

#include "move/strip.h"
#include "offer.h"
#include "own.h"
#include "service.h"
#include "wait.h"

#define BLOCK_NS 160            /* about what process_vm_* take for a block */
#define CALL_NS 400             /* and for a call */
#define FEW 4                   /* blocks that are not worth an offer */
#define DENSE 1024              /* bytes from block to block that are read faster than skipped */
#define DENSE_BYTES_PER_NS 8
#define BOUNCE 32768
#define COMBINED_IN_PART LOCO_ERR_SYSTEM    /* of a slot: by the target, who could write no more */
_Static_assert(SHM_SLOT_BODY <= SHM_SCRATCH, "what is combined fits");

/* ---- origin, alone ---- */

/* How many blocks of the strip are read at once with all that lies between them; 0: singly. */
static uint64_t dense_blocks(const struct loci_strip *s)
{
    if (s->blocks < FEW || s->stride <= 0 || s->stride > DENSE || s->len > (uint64_t)s->stride)
        return 0;
    return (BOUNCE - s->len) / (uint64_t)s->stride + 1;
}

static int read_dense(struct shm_peer *p, const struct loci_strip *s, uint64_t at,
                      unsigned char *packed)
{
    unsigned char bounce[BOUNCE];
    struct loci_strip part = *s;

    for (uint64_t done = 0; done < s->blocks; done += part.blocks) {
        uint64_t most = dense_blocks(s), left = s->blocks - done;
        uint64_t stride = (uint64_t)s->stride;
        int status;

        part.blocks = left < most ? left : most;
        status = loci_shm_copy_run(p, LOCI_READ, at + done * stride, bounce,
                                   (part.blocks - 1) * stride + s->len);
        if (status != LOCO_OK)
            return status;
        packed = loci_strip_copy(&part, bounce, packed, false);
    }
    return LOCO_OK;
}

static bool is_dense(const struct loci_strided *op)
{
    for (int i = 0; i < op->n; i++)
        if (dense_blocks(&op->strips[i]) == 0)
            return false;
    return op->kind == LOCI_READ;
}

static int move_alone(struct shm_peer *p, const struct loci_strided *op)
{
    unsigned char *packed = op->packed;
    int status = LOCO_OK;

    if (!is_dense(op))
        return loci_shm_copy_strips(p, op);
    for (int i = 0; status == LOCO_OK && i < op->n; i++) {
        const struct loci_strip *s = &op->strips[i];

        status = read_dense(p, s, s->at + op->shift, packed);
        packed += s->len * s->blocks;
    }
    return status;
}

/* ---- origin, with the target ---- */

/* What it takes alone, and of how many blocks it is. */
static int64_t alone_ns(const struct loci_strided *op, uint64_t *blocks)
{
    bool dense = is_dense(op);
    int64_t ns = CALL_NS;

    *blocks = 0;
    for (int i = 0; i < op->n; i++) {
        const struct loci_strip *s = &op->strips[i];

        *blocks += s->blocks;
        ns += (int64_t)s->blocks * (dense ? s->stride / DENSE_BYTES_PER_NS : BLOCK_NS);
    }
    return ns;
}

static void fill(struct shm_slot *slot, const struct loci_strided *op, bool combine)
{
    unsigned char *at = slot->body;

    slot->number = op->mem->key.extent;
    slot->op = (uint16_t)((combine ? SHM_COMBINE : (int)op->kind) | SHM_STRIDED);
    slot->what = op->what;
    slot->nspans = (uint16_t)op->n;
    for (int i = 0; i < op->n; i++, at += sizeof *op->strips) {
        struct loci_strip strip = op->strips[i];

        strip.at += op->shift;
        memcpy(at, &strip, sizeof strip);
    }
    if (combine || op->kind == LOCI_WRITE)
        memcpy(at, op->packed, op->bytes);
}

/* Few blocks are offered as small copies are: for a moment, without giving the core away. */
static int offer(struct shm_peer *p, const struct loci_strided *op, bool combine)
{
    static const struct shm_odds small = { .good = 1, .vain = 2, .most = 10 };
    static const struct shm_odds large = { .good = 2, .vain = 1, .most = 3 };
    unsigned char *to = combine ? op->old : op->kind == LOCI_READ ? op->packed : NULL;
    int64_t start = loci_now(p->fabric->rt), ns;
    struct shm_guess *guess;
    struct shm_slot *slot;
    uint64_t blocks;
    bool few, late;
    unsigned at;
    int status;

    /* Where all put and nobody waits, each does what it is offered between two of its own: else
     * all would offer in vain, give it up, and never be there for the others. */
    loci_shm_help((struct loci_fabric *)p->fabric, true);
    ns = alone_ns(op, &blocks);
    few = blocks < FEW;
    guess = few ? &p->offers_guess : &p->strided_guess;
    if ((few && !combine) || !loci_shm_is_promising(guess)
        || (slot = loci_shm_slot_claim(p, &at)) == NULL)
        return LOCO_ERR_AGAIN;
    fill(slot, op, combine);
    loci_shm_slot_ring(p, slot, at);
    loci_shm_slot_look(p, slot, ns / 2);
    status = loci_shm_slot_settle(p, slot);
    /* Of many, done is good, however late: where a yield took long, others had the core. */
    late = few && loci_now(p->fabric->rt) - start > 2 * ns + CALL_NS;
    if (status == LOCO_OK || status == LOCO_ERR_AGAIN)
        loci_shm_learn(guess, status == LOCO_OK && !late, few ? &small : &large);
    if (status != LOCO_OK)
        return status;
    /* What the target refuses, the system may still do, or say why not. */
    status = slot->status;
    if (status != LOCO_OK && (!combine || status != COMBINED_IN_PART))
        status = LOCO_ERR_AGAIN;
    if (status == LOCO_OK && to != NULL)
        memcpy(to, slot->body + (size_t)op->n * sizeof *op->strips, op->bytes);
    loci_shm_slot_free(slot);
    return status;
}

int loci_shm_combine(struct loci_fabric *fabric, struct loci_peer *peer,
                     const struct loci_strided *op)
{
    struct shm_peer *p = peer->fabric_data;

    (void)fabric;
    return p == NULL || loci_service_is_self(p->fabric->rt) ? LOCO_ERR_AGAIN : offer(p, op, true);
}

int loci_shm_strided(struct loci_fabric *fabric, struct loci_peer *peer,
                     const struct loci_strided *op)
{
    struct shm_peer *p = peer->fabric_data;
    int status;

    (void)fabric;
    if (p == NULL || loci_service_is_self(p->fabric->rt))
        return LOCO_ERR_AGAIN;
    status = offer(p, op, false);
    if (status != LOCO_ERR_AGAIN)
        return status;
    return move_alone(p, op);
}

/* ---- target ---- */

/* The strips of a slot, and whether all lie in that memory and their bytes in the slot. */
static bool take_strips(const struct shm_slot *slot, const struct shm_user *user,
                        struct loci_strip *strips, unsigned n)
{
    uint64_t room = SHM_SLOT_BODY - n * sizeof *strips;

    loci_copy_once(strips, slot->body, n * sizeof *strips);
    for (unsigned i = 0; i < n; i++) {
        uint64_t low, high, bytes;

        if (!loci_strip_extent(&strips[i], &low, &high) || low < user->base
            || high - user->base > user->len
            || __builtin_mul_overflow(strips[i].len, strips[i].blocks, &bytes) || bytes > room)
            return false;
        room -= bytes;
    }
    return true;
}

static int copy_strips(const struct shm_fabric *f, const struct loci_strip *strips, unsigned n,
                       bool writes, const unsigned char *packed)
{
    struct shm_own own;

    loci_shm_own_begin(&own, f, writes, packed);
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = strips[i].at;

        for (uint64_t k = 0; k < strips[i].blocks; k++, at += (uint64_t)strips[i].stride)
            loci_shm_own_add(&own, at, strips[i].len);
    }
    return loci_shm_own_end(&own);
}

/* Combined in a copy, under the origin's lock. All strips are as they should be, or nothing is
 * done; what cannot be read is what the origin will be told of, too. But once some may be written,
 * nobody may do it again: COMBINED_IN_PART is the end of it. */
static int combine(struct shm_fabric *f, uint32_t what, const struct loci_strip *strips,
                   unsigned n, unsigned char *data)
{
    /* Acquire: pairs with the release of whoever made the first window. */
    loci_combine_fn *fn = atomic_load_explicit(&f->rt->combine, memory_order_acquire);
    unsigned char *copy = loci_shm_scratch(f), *at = copy;
    int status;

    for (unsigned i = 0; i < n; i++)
        if (fn == NULL || !fn(what, NULL, NULL, strips[i].len))
            return LOCO_ERR_UNSUPPORTED;
    status = copy == NULL ? LOCO_ERR_NO_MEMORY : copy_strips(f, strips, n, false, copy);
    if (status != LOCO_OK)
        return status;
    for (unsigned i = 0; i < n; i++)
        for (uint64_t k = 0; k < strips[i].blocks; k++) {
            fn(what, at, data, strips[i].len);
            at += strips[i].len;
            data += strips[i].len;
        }
    return copy_strips(f, strips, n, true, copy) == LOCO_OK ? LOCO_OK : COMBINED_IN_PART;
}

int loci_shm_strided_help(struct shm_fabric *f, const struct shm_user *user,
                          const struct shm_wish *wish, struct shm_slot *slot)
{
    const unsigned n = wish->nspans;
    const uint16_t op = wish->op;
    unsigned char *data = slot->body + n * sizeof(struct loci_strip);
    struct loci_strip strips[LOCI_STRIDED_STRIPS];

    if (n > LOCI_STRIDED_STRIPS || !take_strips(slot, user, strips, n))
        return LOCO_ERR_RANGE;
    if (op == (SHM_COMBINE | SHM_STRIDED))
        return combine(f, wish->what, strips, n, data);
    if (op != (LOCI_WRITE | SHM_STRIDED) && op != (LOCI_READ | SHM_STRIDED))
        return LOCO_ERR_PROTOCOL;
    return copy_strips(f, strips, n, op == (LOCI_WRITE | SHM_STRIDED), data);
}

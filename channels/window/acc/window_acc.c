/* SPDX-License-Identifier: BSD-3-Clause */

/* Accumulates and compare_swap (window_swap.c): atomic per element with each other.
 *
 * Which of three ways an element takes depends on the window, the type and the element's address,
 * which all processes see alike:
 *
 *   atomics   pool memory that all members have mapped, type of 1, 2, 4 or 8 bytes without
 *             padding, element at a multiple of its size: an atomic of the CPU each
 *   device    members on several nodes (the nic or the owner domain), type of 8 bytes without
 *             padding, element at a multiple of 8: an atomic of the fabric each, on memory of every
 *             kind, one's own too; in the owner domain one of the CPU where the memory is mapped
 *             (window_acc_run.c), and one without an answer where nobody asks what was there
 *             (window_acc_merge.c)
 *   lock      everything else, and every element where the window was made for bulk_accumulate:
 *             the lock of the target's accumulates (rw_word.h, EXCLUSIVE, in its control block)
 *             around a read and a write of exactly the element's bytes; the owner, too
 *
 * Atomics are the faster way for few elements, the lock for many. So elements that may be atomics
 * of the CPU take, at each member, the one that the program's accumulates there ask for, and never
 * both at once: window_acc_way.h.
 *
 * In place of the device's atomics there is a second lock of each member, LOCI_WINDOW_VECTORS, by
 * the same reasons: window_acc_right.h. It is not the lock of the elements that never are atomics.
 *
 * Lock and atomics are left out where the target is locked exclusively by this process, which has
 * one thread: nobody else can be there. (Of a single element the device's atomic stays: it is one
 * round trip, where a read and a write would be two.)
 *
 * All ways are done when the call returns, or go by one lane and are placed in order, so that what
 * one origin does to one place happens in order. Accumulates without a result on memory that the
 * members brought may be gathered instead (gather/gather.h): they keep that order, and all else
 * that goes to their target waits for them.
 *
 * A process that stops inside the lock leaves its name there: who wants it gets
 * LOCO_ERR_PEER_DEAD, for the element may be half written. */

#include "config.h"

#include <string.h>

#include "window/gather/gather.h"
#include "window/window.h"
#include "window_acc.h"
#include "window_acc_chain.h"
#include "window_acc_copy.h"
#include "window_acc_merge.h"
#include "window_acc_right.h"
#include "window_acc_run.h"
#include "window_acc_way.h"

/* ---- the lock ---- */

bool loci_acc_needs_lock(const struct loco_window *win, int rank)
{
    uint32_t epoch = atomic_load_explicit(&win->target[rank].epoch, memory_order_relaxed);

    return !win->one_thread || (win->group.size > 1 && (epoch & LOCI_EPOCH_EXCLUSIVE) == 0);
}

bool loci_acc_may_chain(const struct loco_window *win, int rank, const struct loci_rw *lock)
{
    return loci_acc_is_far(lock) && loci_acc_needs_lock(win, rank);
}

int loci_acc_enter(struct loco_window *win, int rank, bool *locked)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);

    *locked = loci_acc_needs_lock(win, rank);
    return *locked ? loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, LOCI_RW_ACCUMULATES)
                   : LOCO_OK;
}

/* Give it back: what was written is visible to whoever has it next. Where that is an atomic of the
 * fabric, it goes by the lane that the writes took, and is executed after them (LOCO_ORDER). */
int loci_acc_give_back(struct loco_window *win, int rank, const struct loci_rw *lock)
{
    int status = LOCO_OK, released;

    if (loci_mem_is_posted_to(lock->mem))
        atomic_thread_fence(memory_order_seq_cst);
    else if (!win->synchronous)
        status = loci_fence_peer(win->rt, LOCO_FENCE_PAIR, win->group.peer[rank]);
    released = loci_rw_release(win->rt, lock, LOCI_RW_EXCLUSIVE);
    return status == LOCO_OK ? released : status;
}

int loci_acc_leave(struct loco_window *win, int rank, bool locked)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);

    if (!locked)
        return LOCO_OK;
    loci_flat_serve(win, rank);
    return loci_acc_give_back(win, rank, &lock);
}

/* The same as loci_acc_enter(), or it is done by who has the lock: *done. */
int loci_acc_enter_or_ask(struct loco_window *win, int rank, const struct loci_flat *op,
                          bool *locked, bool *done)
{
    *done = false;
    if (!loci_acc_needs_lock(win, rank) || !loci_flat_is_for(win))
        return loci_acc_enter(win, rank, locked);
    *locked = true;
    return loci_flat_enter(win, rank, op, done);
}

/* ---- the lock's way, by the target if it happens to be waiting ---- */

int loci_acc_update_by_target(struct loco_window *win, int rank, uint64_t offset, size_t size,
                            struct loci_op *op, uint64_t *old)
{
    struct loci_mem room, *mem;
    int status = loci_window_send(win);

    if (status != LOCO_OK)
        return status;
    op->len = size;
    op->result = old;
    status = loci_window_locate(win, rank, offset, &op->len, &mem, &op->offset, &room);
    if (status != LOCO_OK || op->len != size)
        return LOCO_ERR_AGAIN;
    op->mem = mem;
    return loci_try_update(win->rt, op);
}

/* Sums of one integer: the common counter. */
static bool is_counter(const struct loco_accumulate *acc)
{
    return acc->op == LOCO_OP_SUM && acc->type <= LOCO_TYPE_U64 && acc->nspans == 1
           && acc->spans->len == loci_type(acc->type)->extent;
}

static int add_by_target(struct loco_window *win, int rank, const struct loco_accumulate *acc)
{
    size_t size = loci_type(acc->type)->extent;
    struct loci_op op = { .kind = LOCI_FETCH_ADD };
    uint64_t old;
    int status;

    op.operand = loci_acc_to_word(acc->operand, size);
    status = loci_acc_update_by_target(win, rank, acc->spans->offset, size, &op, &old);
    if (status == LOCO_OK && acc->result != NULL)
        loci_acc_from_word(acc->result, size, old);
    return status;
}

/* ---- mapped memory ---- */

/* Nobody else is there. */
static void combine_in_place(struct loco_window *win, const struct loco_accumulate *acc,
                             unsigned char *p, const unsigned char *operand,
                             unsigned char *result, size_t n)
{
    const struct loci_type *type = loci_type(acc->type);

    if (result != NULL)
        loci_type_copy(type, result, p, n);
    loci_window_reduce(loci_reduce(acc->op, acc->type), type->extent, p, operand, n);
    loci_window_stored(win);
}

static void combine_atomically(struct loco_window *win, const struct loco_accumulate *acc,
                               unsigned char *p, const unsigned char *operand,
                               unsigned char *result, size_t n)
{
    loci_atomic_table[acc->type][acc->op](p, operand, result, n);
    loci_window_updated(win);
}

typedef void combine_fn(struct loco_window *win, const struct loco_accumulate *acc,
                        unsigned char *p, const unsigned char *operand, unsigned char *result,
                        size_t n);

static void combine_spans(struct loco_window *win, const struct loco_accumulate *acc,
                          unsigned char *base, combine_fn *combine)
{
    const unsigned char *operand = acc->operand;
    unsigned char *result = acc->result;
    size_t extent = loci_type(acc->type)->extent;

    for (size_t i = 0; i < acc->nspans; i++) {
        const struct loco_span *span = &acc->spans[i];

        combine(win, acc, base + span->offset, operand, result, span->len / extent);
        operand = acc->op != LOCO_OP_NO_OP ? operand + span->len : NULL;
        result = result != NULL ? result + span->len : NULL;
    }
}

static int combine_with_lock(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                             unsigned char *base)
{
    bool locked;
    int status = loci_acc_enter(win, rank, &locked);

    if (status != LOCO_OK)
        return status;
    combine_spans(win, acc, base, combine_in_place);
    return loci_acc_leave(win, rank, locked);
}

/* All elements could be atomics. */
static int combine_either_way(struct loco_window *win, int rank,
                              const struct loco_accumulate *acc, unsigned char *base)
{
    struct loci_acc_way way;
    size_t bytes = 0;
    int status;

    for (size_t i = 0; i < acc->nspans; i++)
        bytes += acc->spans[i].len;
    status = loci_acc_way_enter(win, rank, bytes / loci_type(acc->type)->extent, &way);
    if (status != LOCO_OK)
        return status;
    if (way.atomics)
        LOCI_COUNT(win->rt, atomics, rank == win->group.rank);
    combine_spans(win, acc, base, way.atomics ? combine_atomically : combine_in_place);
    return loci_acc_way_leave(win, rank, &way);
}

/* Some elements have the lock for their way, whatever the others have. */
static int combine_both_ways(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                             unsigned char *base)
{
    struct loco_accumulate part = *acc;
    const struct loci_type *type = loci_type(acc->type);
    int status = LOCO_OK;

    part.nspans = 1;
    for (size_t i = 0; status == LOCO_OK && i < acc->nspans; i++) {
        const struct loco_span *span = part.spans = &acc->spans[i];

        status = loci_window_is_atomic(win, type, (uintptr_t)(base + span->offset))
                 ? combine_either_way(win, rank, &part, base)
                 : combine_with_lock(win, rank, &part, base);
        if (acc->op != LOCO_OP_NO_OP)
            part.operand = (const unsigned char *)part.operand + span->len;
        if (acc->result != NULL)
            part.result = (unsigned char *)part.result + span->len;
    }
    return status;
}

static int combine_mapped(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                          unsigned char *base)
{
    size_t atomic = 0;

    for (size_t i = 0; i < acc->nspans; i++)
        atomic += loci_window_is_atomic(win, loci_type(acc->type),
                                        (uintptr_t)(base + acc->spans[i].offset));
    if (atomic == 0)
        return combine_with_lock(win, rank, acc, base);
    return atomic == acc->nspans ? combine_either_way(win, rank, acc, base)
                                 : combine_both_ways(win, rank, acc, base);
}

/* ---- the calls ---- */

bool loci_acc_is_alone(const struct loco_window *win, int rank)
{
    const struct loco_runtime *rt = win->rt;
    const struct loci_peer *peer = loci_peer(rt, win->group.peer[rank]);
    bool near = rt->ops->maps && peer->address.node == rt->address.node;
    bool read_by_cpu = near && rank != win->group.rank && win->domain == LOCI_DOMAIN_NIC;

    return !read_by_cpu && !loci_acc_needs_lock(win, rank);
}

/* So several elements are read and written together: an atomic each would take as many round trips
 * of the device. */
static bool is_alone_with(const struct loco_window *win, int rank,
                          const struct loco_accumulate *acc)
{
    return loci_acc_is_alone(win, rank)
           && (acc->nspans > 1 || (acc->nspans == 1 && acc->spans->len > 8));
}

static int check_accumulate(struct loco_window *win, int rank, const struct loco_accumulate *acc)
{
    const struct loci_type *type = loci_type(acc->type);
    int status;

    for (size_t i = 0; i < acc->nspans; i++)
        if (acc->spans[i].len % type->extent != 0)
            return LOCO_ERR_ARG;
    status = loci_window_check(win, rank);
    if (loci_acc_padding(type) == 0)
        return status == LOCO_OK ? loci_window_check_spans(win, rank, acc->spans, acc->nspans)
                                 : status;
    for (size_t i = 0; i < acc->nspans && status == LOCO_OK; i++) {
        struct loco_span touched = acc->spans[i];

        touched.len -= touched.len > 0 ? loci_acc_padding(type) : 0;
        status = loci_window_check_spans(win, rank, &touched, 1);
    }
    return status;
}

/* On memory that is not mapped. */
static int enter_with(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                      bool *locked, bool *done)
{
    const struct loci_flat op = {
        .type = acc->type, .op = acc->op, .offset = acc->nspans == 1 ? acc->spans->offset : 0,
        .len = acc->nspans == 1 ? acc->spans->len : 0, .operand = acc->operand,
        .result = acc->result,
    };

    *done = false;
    return op.len > 0 && op.len <= LOCI_FLAT_BYTES && loci_type(acc->type)->plain
           ? loci_acc_enter_or_ask(win, rank, &op, locked, done)
           : loci_acc_enter(win, rank, locked);
}

/* Under the lock, through a copy. */
static int accumulate_locked(struct loco_window *win, int rank, const struct loco_accumulate *acc)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    int status = loci_acc_may_chain(win, rank, &lock)
                 ? loci_acc_by_chain(win, rank, acc, &lock, NULL) : LOCO_ERR_AGAIN;
    bool locked, done = false;
    int left;

    if (status != LOCO_ERR_AGAIN)
        return status;
    status = enter_with(win, rank, acc, &locked, &done);
    if (status != LOCO_OK || done)
        return status;
    status = is_counter(acc) ? add_by_target(win, rank, acc)
                             : loci_window_combine_by_target(win, rank, acc);
    if (status == LOCO_ERR_AGAIN)
        status = loci_acc_by_copy(win, rank, acc);
    left = loci_acc_leave(win, rank, locked);
    return status == LOCO_OK ? left : status;
}

/* What a call has still to do by the device: the rest of the operands and results, which lie
 * packed, and some of the elements gathered in a run. */
struct by_device {
    struct loco_window *win;
    int rank;
    const struct loco_accumulate *acc;
    const unsigned char *operand;
    unsigned char *result;
    struct loci_acc_run run;
};

static void by_device_done(struct by_device *d, size_t bytes)
{
    d->operand = d->acc->op != LOCO_OP_NO_OP ? d->operand + bytes : NULL;
    d->result = d->result != NULL ? d->result + bytes : NULL;
}

static int by_device_run(struct by_device *d)
{
    size_t bytes = 8 * d->run.n;
    int status = bytes > 0 ? loci_acc_run_combine(&d->run, d->acc, d->operand, d->result) : LOCO_OK;

    by_device_done(d, bytes);
    return status;
}

static int by_device_locked(struct by_device *d, const struct loco_span *piece)
{
    const struct loco_accumulate part = {
        d->acc->type, d->acc->op, d->operand, d->result, piece, 1
    };
    int status = accumulate_locked(d->win, d->rank, &part);

    by_device_done(d, piece->len);
    return status;
}

/* Add a span's elements; a run that is full, or that the next is not for, is done. */
static int by_device_span(struct by_device *d, const struct loco_span *span)
{
    size_t at = 0;
    int status = LOCO_OK;

    while (status == LOCO_OK && at < span->len) {
        struct loco_span piece = { NULL, span->offset + at, span->len - at };
        int found = loci_acc_run_add(d->win, d->rank, piece.offset, &piece.len, &d->run);

        if (found != 1 && d->run.n > 0 && (found == 0 || found == LOCO_ERR_AGAIN)) {
            status = by_device_run(d);
            continue;
        }
        if (found != 1)
            status = found == 0 ? by_device_locked(d, &piece) : found;
        at += piece.len;
    }
    return status;
}

static int accumulate_by_device(struct loco_window *win, int rank,
                                const struct loco_accumulate *acc)
{
    struct by_device d;
    int status = LOCO_OK, done;

    d.win = win;
    d.rank = rank;
    d.acc = acc;
    d.operand = acc->operand;
    d.result = acc->result;
    loci_acc_run_open(win, &d.run);
    for (size_t i = 0; status == LOCO_OK && i < acc->nspans; i++)
        status = by_device_span(&d, &acc->spans[i]);
    if (status == LOCO_OK)
        status = by_device_run(&d);
    done = loci_acc_run_close(&d.run);
    return status == LOCO_OK ? done : status;
}

/* How many elements the lock would be for that excludes the device's atomics: all of them are at
 * multiples of 8, and none is for the other lock. Else 0. */
static size_t words_of(const struct loco_window *win, int rank, const struct loco_accumulate *acc)
{
    uint64_t base = win->target[rank].mem.key.base;
    size_t bytes = 0;

    if (win->kind == LOCO_WINDOW_DYNAMIC)
        return 0;
    for (size_t i = 0; i < acc->nspans; i++) {
        if (((base + acc->spans[i].offset) & 7) != 0)
            return 0;
        bytes += acc->spans[i].len;
    }
    return bytes / 8;
}

/* By that lock, *done; or it has become the right to the device's atomics. */
static int combine_words(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                         size_t n, bool *done)
{
    struct loci_rw lock = loci_acc_vectors_lock(win, rank);
    enum loci_rw_mode held;
    int status = loci_acc_is_far(&lock) ? loci_acc_by_chain(win, rank, acc, &lock, &held)
                                        : LOCO_ERR_AGAIN;
    bool by_chain = status == LOCO_OK;
    int left;

    if (status == LOCO_ERR_AGAIN)
        status = loci_rw_acquire_either(win->rt, &lock, LOCI_RW_ACCUMULATES, &held);
    if (status != LOCO_OK)
        return status;
    if (held != LOCI_RW_EXCLUSIVE)
        return loci_acc_right_keep(win, rank, n);
    *done = true;
    loci_acc_right_locked(win, rank, n);
    if (by_chain)
        return LOCO_OK;
    status = loci_acc_by_copy(win, rank, acc);
    left = loci_acc_give_back(win, rank, &lock);
    return status == LOCO_OK ? left : status;
}

/* Elements of 8 bytes where members are on several nodes. */
static int accumulate_words(struct loco_window *win, int rank, const struct loco_accumulate *acc)
{
    size_t n = words_of(win, rank, acc);
    int status = loci_window_send(win);
    bool locks, done = false;
    int ended;

    if (status == LOCO_OK)
        status = loci_acc_right_begin(win, rank, n, &locks);
    if (status == LOCO_ERR_AGAIN)
        status = locks && n > 0 ? combine_words(win, rank, acc, n, &done)
                                : loci_acc_right_take(win, rank);
    if (status != LOCO_OK || done)
        return status;
    status = accumulate_by_device(win, rank, acc);
    ended = loci_acc_right_end(win, rank);
    return status == LOCO_OK ? ended : status;
}

/* LOCO_ERR_AGAIN: it goes at once, behind what was gathered, and puts that waited. */
static int gather(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                  const loco_ack_t *ack)
{
    int status = loci_window_send(win);

    if (status != LOCO_OK)
        return status;
    if (acc->nspans == 1 && acc->result == NULL && (ack == NULL || ack == LOCO_UNTIL_FLUSH))
        return loci_gather_accumulate(win, rank, acc->type, acc->op, acc->spans->offset,
                                      acc->operand, acc->spans->len);
    status = loci_gather_drain(win, rank);
    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

static int accumulate(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                      const loco_ack_t *ack)
{
    unsigned char *base = NULL;
    int status = check_accumulate(win, rank, acc);

    if (status != LOCO_OK)
        return status;
    if (win->gathers) {
        status = gather(win, rank, acc, ack);
        if (status != LOCO_ERR_AGAIN)
            return status;
    }
    if (loci_acc_is_for_device(win, loci_type(acc->type)))
        return is_alone_with(win, rank, acc) ? accumulate_locked(win, rank, acc)
                                             : accumulate_words(win, rank, acc);
    if (win->mapped_by_all)
        base = loci_mem_map(win->rt, &win->target[rank].mem);
    if (base != NULL)
        return combine_mapped(win, rank, acc, base);
    if (!win->atomics)
        return accumulate_locked(win, rank, acc);
    /* Others take atomics here: what cannot be mapped must not be written by a copy. */
    return win->target[rank].mem.key.len == 0 ? LOCO_OK : LOCO_ERR_UNSUPPORTED;
}

static inline bool merges(const struct loco_window *win, const struct loco_accumulate *acc,
                          const struct loci_type *type)
{
    return win->merges && acc->nspans == 1 && acc->result == NULL
           && loci_acc_is_for_device(win, type) && acc->spans->len > 0 && acc->spans->len % 8 == 0;
}

int loco_window_accumulate(loco_window_t *win, int rank, const struct loco_accumulate *acc,
                           loco_ack_t *ack)
{
    const struct loci_type *type = loci_type(acc->type);
    int status;

    if (loci_reduce(acc->op, acc->type) == NULL)
        return LOCO_ERR_ARG;
    status = loci_acc_merged(win);
    if (status != LOCO_OK)
        return status;
    if (merges(win, acc, type)) {
        status = loci_acc_merge(win, rank, acc->type, acc->op, acc->spans, acc->operand);

        if (status != LOCO_ERR_AGAIN)
            return status;
    }
    if (acc->nspans == 1) {
        size_t len = acc->spans->len;
        unsigned char *p = loci_window_direct(win, rank, acc->spans->offset, len), *base;
        bool whole = p != NULL && (len & (type->extent - 1u)) == 0;

        base = whole ? p - acc->spans->offset : NULL;
        if (whole && loci_window_is_atomic(win, type, (uintptr_t)p))
            return combine_either_way(win, rank, acc, base);
        if (whole && win->mapped_by_all && !loci_acc_is_for_device(win, type))
            return combine_with_lock(win, rank, acc, base);
    }
    return accumulate(win, rank, acc, ack);
}

int loci_window_accumulate_run(struct loco_window *win, int rank, enum loco_type type_id,
                               enum loco_op op, uint64_t offset, size_t n, const void *operand,
                               void *result)
{
    const struct loci_type *type = &loci_type_table[type_id];
    loci_reduce_fn *reduce = loci_reduce_table[type_id][op];
    unsigned char *p = loci_window_direct(win, rank, offset, n << type->shift), *word;
    _Atomic uint64_t *inside;
    bool single;

    if (p == NULL || reduce == NULL || n == 0 || !win->mapped_by_all)
        return LOCO_ERR_AGAIN;
    single = loci_window_is_atomic(win, type, (uintptr_t)p);
    if (single && n < LOCI_WINDOW_LONG && loci_window_atomics_begin(win, rank, &inside)) {
        LOCI_COUNT(win->rt, atomics, rank == win->group.rank);
        loci_atomic_table[type_id][op](p, operand, result, n);
        loci_window_atomics_end(inside);
        loci_window_updated(win);
        return LOCO_OK;
    }
    if (!win->one_thread || !loci_window_combine_begin(win, rank, single, n, &word))
        return LOCO_ERR_AGAIN;
    if (result != NULL)
        loci_type_copy(type, result, p, n);
    loci_window_reduce(reduce, type->extent, p, operand, n);
    loci_window_combine_end(win, rank, word);
    return LOCO_OK;
}

bool loci_window_combine_open(const struct loco_window *win, enum loco_type type_id,
                              enum loco_op op, struct loci_combine *how)
{
    const struct loci_type *type = &loci_type_table[type_id];
    loci_reduce_fn *reduce = loci_reduce_table[type_id][op];

    if (reduce == NULL || !win->one_thread || !win->mapped_by_all)
        return false;
    loci_reduce_open(op, type_id, how->reduce);
    how->atomic = loci_window_is_atomic(win, type, 0) ? loci_atomic_table[type_id][op] : NULL;
    how->shift = type->shift;
    how->counts = op == LOCO_OP_SUM && (type_id == LOCO_TYPE_I64 || type_id == LOCO_TYPE_U64);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Flat combining (Hendler, Incze, Shavit, Tzafrir, "Flat combining and the synchronization-
 * parallelism tradeoff", SPAA 2010) of accumulates on memory that the members brought.
 *
 * Such memory is read and written by a system call each, under the lock of the target's
 * accumulates, so that of ranks that are all at one target one works, and the others wait for two
 * calls of the system each. Here whoever finds the lock taken leaves what it wants where the holder
 * finds it; the holder does it with its own, all in one read and one write, before it gives the
 * lock back.
 *
 * In the target's control block LOCI_WINDOW_ASKED is a stack of those who ask, by rank + 1; in the
 * control block of each who asks, one request:
 *
 *   state      IDLE, ASKED, DONE
 *   next       in the stack, rank + 1
 *   what       type, operation, whether the old value is wanted
 *   offset, len
 *   status     of DONE
 *   data       operand, and what a swap expects; then the old value
 *
 * Who asks writes the request, pushes it by compare-and-swap, and waits until it is DONE or the
 * lock is its own, in which case it does all that is asked for, its own too. It takes no ticket of
 * the lock, since who has a turn does its work for it. The holder alone takes requests off the
 * stack: all at once, so that a push between its look at the top and its swap makes the swap fail,
 * and nothing is taken twice. From then on the request is the holder's until it says DONE.
 *
 * Who asks is not forgotten: as long as its request is on the stack it looks at the lock itself,
 * and the lock becomes free or its holder dies. A request that was taken off is done before the
 * lock is given back. So who has the lock finds its own request done, or on the stack.
 *
 * Where others asked lately the holder takes its own for one of the batch, and looks once more
 * between the read and the write: who has asked since then for elements that were read needs no
 * calls of his own.
 *
 * Requests that are on the stack together are concurrent, save that each origin has one at a time:
 * any order is right. Each is done by itself in a copy of the elements; those on the same elements
 * share a copy. Runs that overlap in part are not put into one batch.
 *
 * If a process dies: who has asked is served, in its own memory, which stays. Who had the lock
 * leaves its name there, and who waits gets LOCO_ERR_PEER_DEAD, for the elements may be half
 * written; its request may still be on a stack, and is not used any more. */

#include "config.h"

#include <string.h>

#include "window_flat.h"
#include "wait.h"

#define MOST 16                 /* in one read and write */
#define LOOKS 4                 /* for those who ask while that is done, before the lock goes on */
#define CROWDED 32              /* accumulates that nobody asks beside, until that is unlikely */

enum { STATE = 0, NEXT = 8, WHAT = 16, OFFSET = 24, LEN = 32, STATUS = 40, DATA = 64 };
enum { IDLE, ASKED, DONE };
#define WANTS_RESULT UINT64_C(0x10000)

size_t loci_flat_room(void)
{
    return DATA + LOCI_FLAT_BYTES;
}

static unsigned char *request_of(const struct loco_window *win, int rank)
{
    return loci_mem_ptr(&win->control[rank]) + win->request_at;
}

static unsigned char *stack_of(const struct loco_window *win, int rank)
{
    return loci_mem_word(&win->control[rank]) + LOCI_WINDOW_ASKED;
}

/* ---- the holder: what is asked for ---- */

struct item {
    unsigned char *request;         /* NULL: the holder's own */
    struct loci_flat op;            /* without pointers where it is a request */
    bool wants_result;
    int run;
};

/* A link of a list of requests: rank + 1, or 0. They lie where others may write: none leads out of
 * the group, and whatever they say a list has an end, which *left counts down to. What a wrong link
 * has cut off is not done, and who asked for it is told (answer()). */
static uint64_t link_at(const struct loco_window *win, const unsigned char *word, int *left)
{
    uint64_t link = loci_load64(word);

    return link <= (uint64_t)win->group.size && (*left)-- > 0 ? link : 0;
}

/* All of the stack, the oldest first; its rank + 1, or 0. */
static uint64_t take_all(struct loco_window *win, int rank)
{
    uint64_t top = loci_load64(stack_of(win, rank)), seen, oldest = 0;
    int left = win->group.size;

    while ((seen = loci_cpu_compare_swap(stack_of(win, rank), top, 0)) != top)
        top = seen;
    while (top != 0 && top <= (uint64_t)win->group.size) {
        unsigned char *request = request_of(win, (int)top - 1);
        uint64_t next = link_at(win, request + NEXT, &left);

        loci_store64(request + NEXT, oldest);
        oldest = top;
        top = next;
    }
    return oldest;
}

/* Who did its last one said DONE, maybe another thread of this process with another lock: that was
 * before it asked again, and so is seen here. */
static bool read_request(unsigned char *request, struct item *item)
{
    uint64_t state = loci_load64(request + STATE), what = loci_load64(request + WHAT);
    struct loci_flat *op = &item->op;
    const struct loci_type *type = loci_type((enum loco_type)(what & 0xff));

    *item = (struct item){ .request = request, .wants_result = (what & WANTS_RESULT) != 0 };
    op->type = (enum loco_type)(what & 0xff);
    op->op = (enum loco_op)(what >> 8 & 0xff);
    op->offset = loci_load64(request + OFFSET);
    op->len = (size_t)loci_load64(request + LEN);
    if (state != ASKED || type == NULL || !type->plain || op->len == 0
        || op->len % type->extent != 0)
        return false;
    if (op->op == LOCI_FLAT_SWAP)
        return op->len <= sizeof(uint64_t);
    return op->len <= LOCI_FLAT_BYTES && loci_reduce(op->op, op->type) != NULL;
}

/* ---- the holder: what is done together ---- */

struct batch {
    struct loco_window *win;
    int rank;
    int n, runs;
    int looks;                      /* for who asks while it is being read, that are left */
    uint64_t late;                  /* of those the ones for another batch, as of take_all() */
    int own_status;                 /* of the holder's own */
    bool written[MOST];
    int status[MOST];               /* of runs */
    struct item item[MOST];
    struct loco_span run[MOST];
    unsigned char data[MOST][LOCI_FLAT_BYTES];
};

/* The run of just those elements, or -1. */
static int same_run(const struct batch *b, uint64_t offset, size_t len)
{
    for (int i = 0; i < b->runs; i++)
        if (b->run[i].offset == offset && b->run[i].len == len)
            return i;
    return -1;
}

/* The same, a new one if need be; -1: there is no room for it, or it overlaps another in part. */
static int run_of(struct batch *b, uint64_t offset, size_t len)
{
    int same = same_run(b, offset, len);

    if (same >= 0)
        return same;
    for (int i = 0; i < b->runs; i++) {
        const struct loco_span *run = &b->run[i];

        if (offset < run->offset + run->len && run->offset < offset + len)
            return -1;
    }
    if (b->runs == MOST)
        return -1;
    b->run[b->runs] = (struct loco_span){ b->data[b->runs], offset, len };
    b->written[b->runs] = false;
    return b->runs++;
}

/* What it is combined with. Of a request that is copied, with what a swap expects right behind. */
static const unsigned char *operand_of(const struct item *item, unsigned char *room)
{
    const struct loci_flat *op = &item->op;

    if (item->request == NULL)
        return op->operand;
    if (op->op != LOCO_OP_NO_OP)
        loci_copy_out(room, item->request + DATA,
                      op->op == LOCI_FLAT_SWAP ? 2 * op->len : op->len);
    return room;
}

/* Whether it changes the copy. */
static bool change(const struct item *item, unsigned char *data)
{
    unsigned char room[LOCI_FLAT_BYTES];
    const unsigned char *operand = operand_of(item, room);
    const struct loci_flat *op = &item->op;

    if (op->op == LOCO_OP_NO_OP)
        return false;
    if (op->op != LOCI_FLAT_SWAP) {
        loci_reduce(op->op, op->type)(data, operand, op->len / loci_type(op->type)->extent);
        return true;
    }
    if (memcmp(data, item->request == NULL ? op->expected : room + op->len, op->len) != 0)
        return false;
    memcpy(data, operand, op->len);
    return true;
}

/* On the copy. */
static void combine(struct batch *b, const struct item *item)
{
    unsigned char old[LOCI_FLAT_BYTES], *data = b->data[item->run];
    size_t len = item->op.len;

    if (item->wants_result)
        memcpy(old, data, len);
    if (change(item, data))
        b->written[item->run] = true;
    if (item->wants_result && item->request != NULL)
        loci_copy_in(item->request + DATA, old, len);
    else if (item->wants_result)
        memcpy(item->op.result, old, len);
}

/* What was combined goes back; where one write of all fails, each by itself, which may write again
 * what is there already. */
static void write_back(struct batch *b)
{
    struct loco_span spans[MOST];
    size_t n = 0;
    int status;

    for (int i = 0; i < b->runs; i++) {
        b->status[i] = LOCO_OK;
        if (b->written[i])
            spans[n++] = b->run[i];
    }
    status = n > 0 ? loci_window_move(b->win, b->rank, LOCI_WRITE, spans, n, NULL) : LOCO_OK;
    for (int i = 0; status != LOCO_OK && i < b->runs; i++)
        if (b->written[i])
            b->status[i] = loci_window_move(b->win, b->rank, LOCI_WRITE, &b->run[i], 1, NULL);
}

static void finish(struct batch *b, const struct item *item, int status)
{
    if (item->request == NULL) {
        b->own_status = status;
        return;
    }
    loci_store64(item->request + STATUS, (uint64_t)(int64_t)status);
    loci_store64(item->request + STATE, DONE);
}

/* Those who asked while the runs were read, for just such runs. They need no other read: nobody has
 * been told of what was asked for these elements before, so what changes them now other than by
 * accumulates conflicts with that. */
static void look_again(struct batch *b)
{
    uint64_t next = take_all(b->win, b->rank);
    int left = b->win->group.size;

    while (next != 0) {
        unsigned char *request = request_of(b->win, (int)next - 1);
        uint64_t after = link_at(b->win, request + NEXT, &left);
        struct item item;

        item.run = b->n < MOST && read_request(request, &item)
                   ? same_run(b, item.op.offset, item.op.len) : -1;
        if (item.run >= 0) {
            combine(b, &item);
            b->item[b->n++] = item;
        } else {
            loci_store64(request + NEXT, b->late);
            b->late = next;
        }
        next = after;
    }
}

/* LOCO_OK: they are finished, each with its own status. Else they cannot be read, and nothing was
 * done. */
static int do_items(struct batch *b, int first, int n)
{
    int status = loci_window_move(b->win, b->rank, LOCI_READ, b->run, (size_t)b->runs, NULL);

    if (status != LOCO_OK)
        return status;
    for (int i = first; i < first + n; i++)
        combine(b, &b->item[i]);
    if (b->looks > 0 && loci_flat_is_asked(b->win, b->rank)) {
        b->looks--;
        look_again(b);
        n = b->n;
    }
    write_back(b);
    for (int i = first; i < first + n; i++)
        finish(b, &b->item[i], b->status[b->item[i].run]);
    return LOCO_OK;
}

/* By itself, so that what is wrong with one is its own affair. */
static void do_alone(struct batch *b, int i)
{
    struct item *item = &b->item[i];
    int status;

    b->runs = 0;
    item->run = run_of(b, item->op.offset, item->op.len);
    status = do_items(b, i, 1);
    if (status != LOCO_OK)
        finish(b, item, status);
}

static void do_batch(struct batch *b)
{
    if (b->n > 0 && do_items(b, 0, b->n) != LOCO_OK) {
        b->looks = 0;           /* none joins what is done one by one */
        for (int i = 0; i < b->n; i++)
            do_alone(b, i);
    }
    b->n = b->runs = 0;
}

static void add(struct batch *b, struct item *item)
{
    if (b->n == MOST)
        do_batch(b);
    item->run = run_of(b, item->op.offset, item->op.len);
    if (item->run < 0) {
        do_batch(b);
        item->run = run_of(b, item->op.offset, item->op.len);
    }
    b->item[b->n++] = *item;
}

/* A list as of take_all(). */
static void add_all(struct batch *b, uint64_t next)
{
    int left = b->win->group.size;

    while (next != 0) {
        unsigned char *request = request_of(b->win, (int)next - 1);
        struct item item;

        next = link_at(b->win, request + NEXT, &left);      /* before it is done */
        if (read_request(request, &item))
            add(b, &item);
        else
            finish(b, &item, LOCO_ERR_PROTOCOL);
    }
}

/* `own`: the holder's, or NULL. Its status. */
static int serve(struct loco_window *win, int rank, const struct loci_flat *own)
{
    struct batch b;
    uint64_t next = take_all(win, rank);

    b.win = win;
    b.rank = rank;
    b.n = b.runs = 0;
    b.looks = LOOKS;
    b.late = 0;
    b.own_status = LOCO_OK;
    if (own != NULL) {
        struct item item = { .op = *own, .wants_result = own->result != NULL };

        add(&b, &item);
    }
    do {
        add_all(&b, next);
        do_batch(&b);
        next = b.late;
        b.late = 0;
    } while (next != 0);
    return b.own_status;
}

void loci_flat_serve_slow(struct loco_window *win, int rank)
{
    serve(win, rank, NULL);
}

/* ---- who asks ---- */

static void ask(struct loco_window *win, int rank, const struct loci_flat *op)
{
    unsigned char *request = request_of(win, win->group.rank), *stack = stack_of(win, rank);
    uint64_t top = loci_load64(stack), seen;

    loci_store64(request + WHAT, (uint64_t)op->type | (uint64_t)op->op << 8
                                 | (op->result != NULL ? WANTS_RESULT : 0));
    loci_store64(request + OFFSET, op->offset);
    loci_store64(request + LEN, op->len);
    if (op->op != LOCO_OP_NO_OP)
        loci_copy_in(request + DATA, op->operand, op->len);
    if (op->op == LOCI_FLAT_SWAP)
        loci_copy_in(request + DATA + op->len, op->expected, op->len);
    loci_store64(request + STATE, ASKED);
    for (;;) {
        loci_store64(request + NEXT, top);
        seen = loci_cpu_compare_swap(stack, top, (uint64_t)win->group.rank + 1);
        if (seen == top)
            return;
        top = seen;
    }
}

static int is_done(void *request)
{
    return loci_load64((unsigned char *)request + STATE) == DONE;
}

/* Of a request that is done, or that nobody can do any more. */
static int answer(struct loco_window *win, const struct loci_flat *op)
{
    unsigned char *request = request_of(win, win->group.rank);
    int status;

    if (!is_done(request))
        return LOCO_ERR_PROTOCOL;
    status = (int)(int64_t)loci_load64(request + STATUS);
    if (status == LOCO_OK && op->result != NULL)
        loci_copy_out(op->result, request + DATA, op->len);
    loci_store64(request + STATE, IDLE);
    atomic_store_explicit(&win->asking, false, memory_order_release);
    return status;
}

/* Others ask beside this process. */
static void expect_others(struct loco_window *win)
{
    atomic_store_explicit(&win->crowded, CROWDED, memory_order_relaxed);
}

/* Whether some are likely to, while the lock is held. */
static bool others_expected(struct loco_window *win)
{
    int left = atomic_load_explicit(&win->crowded, memory_order_relaxed);

    if (left > 0)
        atomic_store_explicit(&win->crowded, left - 1, memory_order_relaxed);
    return left > 0;
}

int loci_flat_enter(struct loco_window *win, int rank, const struct loci_flat *op, bool *done)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    unsigned char *word = loci_mem_word(lock.mem) + lock.offset;
    int status, released = LOCO_OK;
    bool served;

    *done = false;
    if (loci_rw_take_mapped(win->rt, word, &lock, LOCI_RW_EXCLUSIVE)) {
        if (loci_flat_is_asked(win, rank))
            expect_others(win);
        if (!others_expected(win))
            return LOCO_OK;
        *done = true;
        status = serve(win, rank, op);
        released = loci_rw_release(win->rt, &lock, LOCI_RW_EXCLUSIVE);
        return status == LOCO_OK ? released : status;
    }
    /* One thread of a process asks at a time. */
    if (atomic_exchange_explicit(&win->asking, true, memory_order_acquire))
        return loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, LOCI_RW_ACCUMULATES);
    ask(win, rank, op);
    status = loci_rw_acquire_unless(win->rt, &lock, LOCI_RW_ACCUMULATES, is_done,
                                    request_of(win, win->group.rank), &served);
    if (status != LOCO_OK)
        return status;
    *done = true;
    expect_others(win);
    if (!served) {
        serve(win, rank, NULL);
        released = loci_rw_release(win->rt, &lock, LOCI_RW_EXCLUSIVE);
    }
    status = answer(win, op);
    return status == LOCO_OK ? released : status;
}

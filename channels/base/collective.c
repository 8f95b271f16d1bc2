/* SPDX-License-Identifier: BSD-3-Clause */

/* Broadcasts and reductions over binomial trees.
 *
 * The tree. With root R and n members, the member of rank r is node v = (r - R) mod n. The parent
 * of v > 0 is v without its lowest bit 2^k; so a child of v is v + 2^k for each k below v's lowest
 * bit (of the root: each k), as far as that is below n. Depth and children: log2 n at most.
 * Whatever the root, a child that is 2^k further on is the rank 2^k further on, mod n. So a member
 * has, for each k, four neighbours' ends that never change: it gets data that go down from r - 2^k
 * and sends such to r + 2^k; it gets data that go up from r + 2^k and sends such to r - 2^k. These
 * are its pipes, numbered 2 k + direction.
 *
 * A pipe has one writer, one reader and two slots. Message m of a pipe, counted from 1, is in slot
 * m mod 2. In the memory of the reader:
 *     slot       a check of the call, and the data             the writer
 *     full       of the slot: m                                the writer, after that
 * in that of the writer:
 *     taken      of the slot: m                                the reader, when it has copied them
 *
 * The writer waits until `taken` of the slot is m - 2 (at first 0), then writes the data and `full`
 * on one lane, which places them in this order. So a slot is not written before what was in it has
 * been copied, and not read before all of it is there. Each word is written again only when the
 * answer to the last write of it has come, so calls of different threads, on different lanes, do
 * not overtake each other. Where the reader's memory is not mapped, what is sent is copied to the
 * sender's own memory first, two slots for each pipe: the same answer says that these bytes have
 * been read.
 *
 * No deadlock. All members make the same calls in one order, each a sequence of messages along the
 * edges of one tree. A member that waits for data waits for one that is in the same call or an
 * earlier one, nearer to where the data come from; one that waits for room waits for the reader to
 * take a message that has been sent, two before, which it does unless it waits for data itself. Of
 * those who wait take the one whose call and piece are the earliest: what it needs has been, or
 * can be, sent or taken, since within a call all waits lead in one direction (reduce: to the
 * leaves; broadcast: to the root; allreduce: one after the other), and room is wanted only for
 * pieces two later than what the reader is at.
 *
 * A call that ran out of time, or of memory, is continued: it consists of numbered actions (a
 * message sent, one received and combined...), `done` says how many of them are over, and those are
 * skipped when it is made again. The actions of a call follow from its arguments alone.
 *
 * Members that differ in their arguments see that by the check, if messages meet.
 *
 * If a member stops, all others hear of its death, and every wait ends by that, whether it needs
 * the dead or not: for who it needs may have given up. A member that has left its last call may
 * close its runtime: it has been sent and has sent all that it had to, so only who waits for a
 * message of the one that is gone gives up.
 *
 * Who gives up for good, for either reason, writes `broken` to each of its neighbours. Their waits
 * end by that, and they pass it on. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <loco/collective.h>

#include "move/bell.h"
#include "move/rma.h"
#include "names/endpoint.h"
#include "observe/mistake.h"
#include "reduce.h"
#include "runtime.h"
#include "wait.h"

#define PIECE_MAX ((size_t)16 << 20)
#define SLOTS 2
#define HEADER 64               /* bytes of a slot before its data */

enum direction { DOWN, UP };
enum call { BROADCAST, REDUCE, ALLREDUCE };

/* In the memory of a member. */
enum {
    BROKEN = 0,                 /* not 0: a neighbour has failed; 1: because members differ */
    PIPES = 64,                 /* then, of each pipe, a line of these; then slots, of what comes */
    FULL = 0,                   /* of slot 0 and 1 */
    TAKEN = 32,
    PIPE_LINE = 64
};

struct loco_collective {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int size, rank, pipes;
    size_t piece;
    unsigned char *mine;        /* own memory */
    unsigned char *work, *come; /* a piece each: a partial result; what was received */
    uint64_t *sent, *got;       /* of each pipe: messages */
    int failed;                 /* LOCO_OK, or for good */
    uint64_t check;             /* of the call that is unfinished */
    uint64_t done, at;          /* its actions that are over; the one that comes next */
    atomic_flag busy;
};

/* One call's part of a tree. */
struct tree {
    struct loco_collective *c;
    int root, node;
    uint64_t check;
    int64_t deadline;
};

/* ---- where things are ---- */

static size_t line_of(int pipe)
{
    return PIPES + (size_t)pipe * PIPE_LINE;
}

/* Of what comes by that pipe; `out`: the copies of what goes. */
static size_t slot_of(const struct loco_collective *c, bool out, int pipe, uint64_t m)
{
    size_t slots = (size_t)c->pipes * SLOTS;

    return line_of(c->pipes)
           + ((out ? slots : 0) + (size_t)pipe * SLOTS + m % SLOTS) * (HEADER + c->piece);
}

static size_t bytes_of(const struct loco_collective *c)
{
    return slot_of(c, true, c->pipes, 0);
}

static int pipe_of(int k, enum direction direction)
{
    return 2 * k + (int)direction;
}

/* The rank at the other end: `further` 2^k on, else 2^k back. */
static int neighbour(const struct loco_collective *c, int k, bool further)
{
    int far = 1 << k;

    return (c->rank + (further ? far : c->size - far)) % c->size;
}

static struct loci_mem *memory_of(const struct loco_collective *c, int rank)
{
    return loci_endpoint_mem(c->ep, rank, 0);
}

/* ---- waiting ---- */

struct await {
    struct loco_collective *c;
    int rank;                   /* who is waited for */
    const unsigned char *word;
    uint64_t number;
};

static int has_come(void *arg)
{
    const struct await *a = arg;

    /* Acquire: the data were placed before it. A word that is torn is none of these numbers. */
    if (loci_load64(a->word) == a->number)
        return 1;
    switch (loci_load64(a->c->mine + BROKEN)) {
    case 0: return 0;
    case 1: return LOCO_ERR_MISMATCH;
    default: return LOCO_ERR_PEER_DEAD;
    }
}

static bool is_dead(const struct loco_collective *c, int rank)
{
    const struct loci_peer *peer = loci_peer(c->rt, c->ep->group.peer[rank]);

    return atomic_load_explicit(&peer->state, memory_order_acquire) == LOCI_PEER_DEAD;
}

static int may_come(void *arg)
{
    const struct await *a = arg;

    if (!loci_peer_alive(a->c->rt, a->c->ep->group.peer[a->rank]) && has_come(arg) == 0)
        return LOCO_ERR_PEER_DEAD;
    for (int i = 0; i < a->c->size; i++)
        if (is_dead(a->c, i))
            return LOCO_ERR_PEER_DEAD;
    return LOCO_OK;
}

static int await(struct tree *t, int rank, const unsigned char *word, uint64_t number)
{
    struct await a = { t->c, rank, word, number };
    const struct loci_reason why = {
        .what = t->c->ep->name, .at = memory_of(t->c, rank), .peer = -1, .broken = may_come,
        .timeout_ns = loci_time_left(t->c->rt, t->deadline), .kind = LOCI_WAIT_SYNC,
        .bell = LOCI_BELL_SST,
    };
    int status = loci_wait(t->c->rt, &why, has_come, &a);
    unsigned rounds = 0;

    /* What this thread has posted goes on, even where no call has the time to wait. */
    if (status == LOCO_ERR_TIMEOUT)
        loci_wait_round(t->c->rt, &rounds);
    return status;
}

/* ---- messages ---- */

/* The next action: false if it is over since an earlier try. */
static bool is_next(struct loco_collective *c)
{
    return c->at++ == c->done;
}

/* Where the memory is mapped they go there, else by way of a copy, in one piece. */
static int write_slot(const struct tree *t, struct loci_mem *mem, int pipe, uint64_t m,
                      const void *data, size_t len)
{
    struct loco_collective *c = t->c;
    size_t slot = slot_of(c, false, pipe, m);
    unsigned char *p = loci_mem_ptr(mem), *to;
    loco_ack_t ack = LOCO_ACK_INIT;

    to = p != NULL ? p + slot : c->mine + slot_of(c, true, pipe, m);
    loci_store64(to + HEADER - 8, t->check);
    loci_copy_in(to + HEADER, data, len);
    return p != NULL ? LOCO_OK : loci_write(c->rt, mem, slot + HEADER - 8, to + HEADER - 8,
                                            len + 8, &ack);
}

static int send(struct tree *t, int k, enum direction direction, const void *data, size_t len)
{
    struct loco_collective *c = t->c;
    int pipe = pipe_of(k, direction), to = neighbour(c, k, direction == DOWN);
    uint64_t m = c->sent[pipe] + 1, slot = 8 * (m % SLOTS);
    struct loci_mem *mem = memory_of(c, to);
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    if (!is_next(c))
        return LOCO_OK;
    status = await(t, to, c->mine + line_of(pipe) + TAKEN + slot, m > SLOTS ? m - SLOTS : 0);
    if (status == LOCO_OK)
        status = write_slot(t, mem, pipe, m, data, len);
    if (status == LOCO_OK)
        status = loci_write64_signalled(c->rt, mem, line_of(pipe) + FULL + slot, m, &ack,
                                        LOCI_BELL_SST);
    if (status != LOCO_OK)
        return status;
    c->sent[pipe] = m;
    c->done++;
    return LOCO_OK;
}

static int differs(const struct loco_collective *c, int from)
{
    return loci_mistake(c->rt, LOCO_ERR_MISMATCH, "loco_collective", c->ep->name, "rank %d has "
                        "called with other arguments, or in another order", from);
}

/* To `data`; the slot is free again. */
static int receive(struct tree *t, int k, enum direction direction, void *data, size_t len)
{
    struct loco_collective *c = t->c;
    int pipe = pipe_of(k, direction), from = neighbour(c, k, direction == UP), status;
    uint64_t m = c->got[pipe] + 1, slot = 8 * (m % SLOTS);
    const unsigned char *come = c->mine + slot_of(c, false, pipe, m);
    loco_ack_t ack = LOCO_ACK_INIT;

    status = await(t, from, c->mine + line_of(pipe) + FULL + slot, m);
    if (status == LOCO_OK && loci_load64(come + HEADER - 8) != t->check)
        status = differs(c, from);
    if (status != LOCO_OK)
        return status;
    loci_copy_out(data, come + HEADER, len);
    status = loci_write64_signalled(c->rt, memory_of(c, from), line_of(pipe) + TAKEN + slot,
                                    m, &ack, LOCI_BELL_SST);
    /* Who has left needs no room any more. */
    if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD)
        return status;
    c->got[pipe] = m;
    return LOCO_OK;
}

/* ---- trees ---- */

/* The step to the parent, which the root has not: as many as there are. */
static int step_to_parent(const struct tree *t)
{
    return t->node > 0 ? __builtin_ctz((unsigned)t->node) : t->c->pipes / 2;
}

static bool has_child(const struct tree *t, int k)
{
    return k < step_to_parent(t) && (1 << k) < t->c->size - t->node;
}

/* A piece goes down, the largest part of the tree first. */
static int pass_down(struct tree *t, void *data, size_t len)
{
    int status = LOCO_OK, up = step_to_parent(t);

    if (t->node > 0 && is_next(t->c)) {
        status = receive(t, up, DOWN, data, len);
        t->c->done += status == LOCO_OK;
    }
    for (int k = up - 1; status == LOCO_OK && k >= 0; k--)
        if (has_child(t, k))
            status = send(t, k, DOWN, data, len);
    return status;
}

/* What a child has for this piece. */
static int add_child(struct tree *t, int k, loci_reduce_fn *reduce, void *sum, size_t len,
                     size_t count)
{
    struct loco_collective *c = t->c;
    int status;

    if (!is_next(c))
        return LOCO_OK;
    status = receive(t, k, UP, c->come, len);
    if (status != LOCO_OK)
        return status;
    reduce(sum, c->come, count);
    c->done++;
    return LOCO_OK;
}

/* A piece goes up: to `result` at the root. */
static int pass_up(struct tree *t, loci_reduce_fn *reduce, const void *operand, void *result,
                   size_t len, size_t count)
{
    struct loco_collective *c = t->c;
    void *sum = t->node == 0 ? result : c->work;
    int status = LOCO_OK, up = step_to_parent(t);

    if (is_next(c)) {
        memmove(sum, operand, len);
        c->done++;
    }
    for (int k = 0; status == LOCO_OK && k < up; k++)
        if (has_child(t, k))
            status = add_child(t, k, reduce, sum, len, count);
    return status == LOCO_OK && t->node > 0 ? send(t, up, UP, sum, len) : status;
}

static int broadcast(struct tree *t, void *data, size_t len)
{
    int status = LOCO_OK;

    for (size_t at = 0; status == LOCO_OK && at < len; at += t->c->piece)
        status = pass_down(t, (unsigned char *)data + at,
                           len - at < t->c->piece ? len - at : t->c->piece);
    return status;
}

static int reduce(struct tree *t, enum loco_op op, enum loco_type type, const void *operand,
                  void *result, size_t count)
{
    loci_reduce_fn *fn = loci_reduce(op, type);
    size_t extent = loci_type(type)->extent, some = t->c->piece / extent;
    int status = LOCO_OK;

    for (size_t i = 0; status == LOCO_OK && i < count; i += some) {
        size_t n = count - i < some ? count - i : some;

        status = pass_up(t, fn, (const unsigned char *)operand + i * extent,
                         t->node == 0 ? (unsigned char *)result + i * extent : NULL, n * extent,
                         n);
    }
    return status;
}

/* ---- calls ---- */

struct arguments {
    enum call call;
    int root;
    enum loco_op op;
    enum loco_type type;
    const void *operand;
    void *result;               /* of a broadcast: the data */
    size_t count;               /* of a broadcast: bytes */
};

static const char *const call_names[] = {
    "loco_collective_broadcast", "loco_collective_reduce", "loco_collective_allreduce",
};

/* Of what must be the same everywhere. */
static uint64_t check_of(const struct arguments *a)
{
    uint64_t kind = (uint64_t)a->call << 48 | (uint64_t)a->root << 16 | (uint64_t)a->op << 8
                    | (uint64_t)a->type;

    return (uint64_t)a->count * UINT64_C(0x9e3779b97f4a7c15) ^ kind;
}

static int check_arguments(const struct loco_collective *c, const struct arguments *a)
{
    const char *call = call_names[a->call];
    int status = loci_check_rank(c->rt, call, c->ep->name, "root", a->root, c->size);

    if (status == LOCO_OK && a->call != BROADCAST
        && (loci_reduce(a->op, a->type) == NULL || a->op >= LOCO_OP_REPLACE))
        status = loci_mistake(c->rt, LOCO_ERR_ARG, call, c->ep->name, "operation %d does not "
                              "reduce elements of type %d: see loco_op_allowed", (int)a->op,
                              (int)a->type);
    return status;
}

/* All who may wait for this one. */
static void tell_neighbours(struct loco_collective *c)
{
    uint64_t why = c->failed == LOCO_ERR_MISMATCH ? 1 : 2;

    for (int k = 0; k < c->pipes; k++) {
        loco_ack_t ack = LOCO_ACK_INIT;

        loci_write64_signalled(c->rt, memory_of(c, neighbour(c, k / 2, k % 2 == 0)), BROKEN, why,
                               &ack, LOCI_BELL_SST);
    }
}

static int run(struct loco_collective *c, const struct arguments *a, int64_t deadline)
{
    struct tree t = {
        c, a->root, (c->rank - a->root + c->size) % c->size, check_of(a), deadline,
    };
    int status = LOCO_OK;

    c->at = 0;
    if (a->call != BROADCAST)
        status = reduce(&t, a->op, a->type, a->operand, a->result, a->count);
    if (status == LOCO_OK && a->call != REDUCE)
        status = broadcast(&t, a->result,
                           a->call == BROADCAST ? a->count
                           : a->count * loci_type(a->type)->extent);
    return status;
}

/* One at a time in this process. */
static int call_once(struct loco_collective *c, const struct arguments *a, int64_t deadline)
{
    uint64_t check = check_of(a);
    int status;

    if (c->failed != LOCO_OK)
        return c->failed;
    if (c->done > 0 && c->check != check)
        return loci_mistake(c->rt, LOCO_ERR_STATE, call_names[a->call], c->ep->name,
                            "the last call is unfinished: repeat that first");
    c->check = check;
    status = run(c, a, deadline);
    if (status == LOCO_OK) {
        c->done = 0;
    } else if (status == LOCO_ERR_PEER_DEAD || status == LOCO_ERR_MISMATCH) {
        c->failed = status;
        tell_neighbours(c);
    }
    return status;
}

static int call(struct loco_collective *c, const struct arguments *a, int64_t timeout_ns)
{
    const char *name = call_names[a->call];
    int status = check_arguments(c, a);

    if (status == LOCO_OK)
        status = loci_check_timeout(c->rt, name, c->ep->name, timeout_ns);
    if (status != LOCO_OK || a->count == 0)
        return status;
    if (atomic_flag_test_and_set_explicit(&c->busy, memory_order_acquire))
        return loci_mistake(c->rt, LOCO_ERR_STATE, name, c->ep->name,
                            "another thread of this process is in a call");
    status = call_once(c, a, loci_deadline(c->rt, timeout_ns));
    atomic_flag_clear_explicit(&c->busy, memory_order_release);
    return status;
}

int loco_collective_broadcast_timed(loco_collective_t *c, int root, void *data, size_t len,
                                    int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(c->ep->calls, LOCI_CALL_BROADCAST, len);

    return loci_call_end(self, call(c, &(struct arguments){ .call = BROADCAST, .root = root,
                                    .result = data, .count = len }, timeout_ns));
}

int loco_collective_reduce_timed(loco_collective_t *c, int root, enum loco_op op,
                                 enum loco_type type, const void *operand, void *result,
                                 size_t count, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(c->ep->calls, LOCI_CALL_REDUCE,
                                               count * loco_type_extent(type));

    return loci_call_end(self, call(c, &(struct arguments){ REDUCE, root, op, type, operand,
                                    result, count }, timeout_ns));
}

int loco_collective_allreduce_timed(loco_collective_t *c, enum loco_op op, enum loco_type type,
                                    const void *operand, void *result, size_t count,
                                    int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(c->ep->calls, LOCI_CALL_ALLREDUCE,
                                               count * loco_type_extent(type));

    return loci_call_end(self, call(c, &(struct arguments){ ALLREDUCE, 0, op, type, operand,
                                    result, count }, timeout_ns));
}

int loco_collective_broadcast(loco_collective_t *c, int root, void *data, size_t len)
{
    return loco_collective_broadcast_timed(c, root, data, len, LOCO_FOREVER);
}

int loco_collective_reduce(loco_collective_t *c, int root, enum loco_op op, enum loco_type type,
                           const void *operand, void *result, size_t count)
{
    return loco_collective_reduce_timed(c, root, op, type, operand, result, count, LOCO_FOREVER);
}

int loco_collective_allreduce(loco_collective_t *c, enum loco_op op, enum loco_type type,
                              const void *operand, void *result, size_t count)
{
    return loco_collective_allreduce_timed(c, op, type, operand, result, count, LOCO_FOREVER);
}

/* ---- life ---- */

static int steps_for(int size)
{
    int steps = 0;

    while (1 << steps < size)
        steps++;
    return steps;
}

static void destroy_forgotten(void *collective)
{
    loco_collective_destroy(collective);
}

static int make(struct loco_collective *c, const char *parent, const char *name,
                const loco_group_t *group)
{
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group, .type = "collective",
        .property = { { "piece_bytes", c->piece } }, .nregions = 1,
        .region = { { "pipes", bytes_of(c), 0, LOCI_FROM_ALL } },
    };
    int status = loci_endpoint_create(c->rt, &spec, &c->ep);

    if (status != LOCO_OK)
        return status;
    loci_endpoint_is_of(c->ep, destroy_forgotten, c);
    c->mine = loci_mem_ptr(memory_of(c, c->rank));
    return LOCO_OK;
}

int loco_collective_create(loco_runtime_t *rt, const char *parent, const char *name,
                           const loco_group_t *group, size_t piece_bytes, loco_collective_t **out)
{
    const char *call = "loco_collective_create";
    size_t piece = piece_bytes == 0 ? LOCO_COLLECTIVE_PIECE : (piece_bytes + 63) / 64 * 64;
    int status = loci_check_group(rt, call, name, group);
    loco_collective_t *c;

    if (status == LOCO_OK && piece_bytes > PIECE_MAX)
        status = loci_bad_arg(rt, call, name, "piece_bytes", (long long)piece_bytes, "0 to %zu",
                              PIECE_MAX);
    if (status != LOCO_OK)
        return status;
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return LOCO_ERR_NO_MEMORY;
    c->rt = rt;
    c->size = group->size;
    c->rank = group->rank;
    c->pipes = 2 * steps_for(group->size);
    c->piece = piece;
    atomic_flag_clear(&c->busy);
    c->work = malloc(2 * piece);
    c->sent = calloc(2 * (size_t)c->pipes + 1, sizeof c->sent[0]);
    status = c->work == NULL || c->sent == NULL ? LOCO_ERR_NO_MEMORY
             : make(c, parent, name, group);
    if (status != LOCO_OK) {
        loco_collective_destroy(c);
        return status;
    }
    c->come = c->work + piece;
    c->got = c->sent + c->pipes;
    *out = c;
    return LOCO_OK;
}

void loco_collective_destroy(loco_collective_t *c)
{
    if (c == NULL)
        return;
    if (c->ep != NULL)
        loci_endpoint_destroy(c->ep);
    free(c->sent);
    free(c->work);
    free(c);
}

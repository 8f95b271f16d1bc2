/* SPDX-License-Identifier: BSD-3-Clause */

/* The objects that linear.h lists, as sequential specifications. */

#include <string.h>

#include "linear_impl.h"

bool loci_linear_same(const struct loci_op *a, const struct loci_op *b)
{
    if (a->op != b->op || a->arg != b->arg || a->arg2 != b->arg2)
        return false;
    return !loci_op_returned(a) || (!a->status == !b->status && a->result == b->result);
}

/* What the client was told, if anything, is this. */
static bool told(const struct loci_op *op, bool status)
{
    return !loci_op_returned(op) || !op->status == !status;
}

static bool told_result(const struct loci_op *op, uint64_t result)
{
    return !loci_op_returned(op) || op->result == result;
}

static bool said_no(const struct loci_op *op)
{
    return loci_op_returned(op) && !op->status;
}

/* ---- register ---- */

static bool register_apply(void *state, const struct loci_op *op)
{
    uint64_t *value = state;

    if (op->op != LINEAR_WRITE && !told_result(op, *value))
        return false;
    switch (op->op) {
    case LINEAR_READ: return true;
    case LINEAR_WRITE:
    case LINEAR_EXCHANGE: *value = op->arg; return true;
    case LINEAR_FETCH_ADD: *value += op->arg; return true;
    case LINEAR_CAS:
        if (*value == op->arg)
            *value = op->arg2;
        return true;
    default: return false;
    }
}

static bool register_reads(const struct loci_op *op)
{
    switch (op->op) {
    case LINEAR_READ: return true;
    case LINEAR_FETCH_ADD: return op->arg == 0;
    case LINEAR_CAS: return op->arg == op->arg2 || (loci_op_returned(op) && op->result != op->arg);
    case LINEAR_EXCHANGE: return loci_op_returned(op) && op->result == op->arg;
    default: return false;
    }
}

static bool register_overwrites(const struct loci_op *op)
{
    return op->op == LINEAR_WRITE || (op->op == LINEAR_EXCHANGE && !loci_op_returned(op));
}

static const struct loci_op_form register_forms[] = {
    [LINEAR_READ] = { "read()", "%r" },
    [LINEAR_WRITE] = { "write(%a)", NULL },
    [LINEAR_CAS] = { "cas(%a, %b)", "%r" },
    [LINEAR_FETCH_ADD] = { "fetch_add(%a)", "%r" },
    [LINEAR_EXCHANGE] = { "exchange(%a)", "%r" },
    { NULL, NULL }
};

/* ---- locks ---- */

struct lock_state {
    uint64_t holder;            /* exclusive: 1 + client; 0: none */
    uint64_t sharers;
};

/* Sharers are only counted: a release by a client that is none goes unseen while there is one. In
 * return the readers that are under way are alike, which keeps the search short. */
static bool lock_apply(void *state, const struct loci_op *op)
{
    struct lock_state *lock = state;
    uint64_t me = 1 + (uint64_t)op->client;
    bool is_free = lock->holder == 0 && lock->sharers == 0;

    switch (op->op) {
    case LINEAR_ACQUIRE:
    case LINEAR_TRY:
        if (op->op == LINEAR_TRY ? !told(op, is_free) : !is_free)
            return false;
        if (is_free)
            lock->holder = me;
        return true;
    case LINEAR_RELEASE:
        if (lock->holder != me)
            return false;
        lock->holder = 0;
        return true;
    case LINEAR_ACQUIRE_SHARED:
    case LINEAR_TRY_SHARED:
        if (op->op == LINEAR_TRY_SHARED ? !told(op, lock->holder == 0) : lock->holder != 0)
            return false;
        lock->sharers += lock->holder == 0;
        return true;
    case LINEAR_RELEASE_SHARED:
        if (lock->sharers == 0)
            return false;
        lock->sharers--;
        return true;
    default: return false;
    }
}

static bool lock_reads(const struct loci_op *op)
{
    return (op->op == LINEAR_TRY || op->op == LINEAR_TRY_SHARED) && said_no(op);
}

/* An exclusive hold remembers its client. */
static bool lock_same(const struct loci_op *a, const struct loci_op *b)
{
    return loci_linear_same(a, b)
           && (a->client == b->client || a->op == LINEAR_ACQUIRE_SHARED
               || a->op == LINEAR_RELEASE_SHARED || a->op == LINEAR_TRY_SHARED);
}

static const struct loci_op_form lock_forms[] = {
    [LINEAR_ACQUIRE] = { "acquire(%k)", NULL },
    [LINEAR_RELEASE] = { "release(%k)", NULL },
    [LINEAR_TRY] = { "try(%k)", "%s" },
    [LINEAR_ACQUIRE_SHARED] = { "acquire_shared(%k)", NULL },
    [LINEAR_RELEASE_SHARED] = { "release_shared(%k)", NULL },
    [LINEAR_TRY_SHARED] = { "try_shared(%k)", "%s" },
    { NULL, NULL }
};

/* ---- counter ---- */

static bool counter_apply(void *state, const struct loci_op *op)
{
    uint64_t *count = state;

    if (op->op != LINEAR_ADD && !told_result(op, *count))
        return false;
    if (op->op != LINEAR_GET)
        *count += op->arg;
    return true;
}

static bool counter_reads(const struct loci_op *op)
{
    return op->op == LINEAR_GET || op->arg == 0;
}

static const struct loci_op_form counter_forms[] = {
    [LINEAR_GET] = { "get()", "%r" },
    [LINEAR_ADD] = { "add(%a)", NULL },
    [LINEAR_GET_ADD] = { "get_add(%a)", "%r" },
    { NULL, NULL }
};

/* ---- queue ---- */

struct queue_state {
    uint64_t n;
    uint64_t values[];          /* the oldest first: equal queues are equal bytes */
};

static bool queue_apply(void *state, const struct loci_op *op)
{
    struct queue_state *queue = state;

    if (op->op == LINEAR_PUSH) {
        if (!said_no(op))
            queue->values[queue->n++] = op->arg;
        return true;
    }
    if (!told(op, queue->n > 0) || (queue->n > 0 && !told_result(op, queue->values[0])))
        return false;
    if (queue->n > 0) {
        queue->n--;
        memmove(queue->values, queue->values + 1, queue->n * sizeof queue->values[0]);
    }
    return true;
}

static size_t queue_used(const void *state)
{
    return sizeof(struct queue_state) + ((const struct queue_state *)state)->n * sizeof(uint64_t);
}

static const struct loci_op_form queue_forms[] = {
    [LINEAR_PUSH] = { "push(%a)", "%s" },
    [LINEAR_POP] = { "pop()", "%o" },
    { NULL, NULL }
};

/* ---- map, one key of it ---- */

struct entry_state {
    uint64_t present;
    uint64_t value;             /* 0 if not */
};

static bool map_apply(void *state, const struct loci_op *op)
{
    struct entry_state *entry = state;
    bool changes = op->op == LINEAR_INSERT ? !entry->present
                   : op->op == LINEAR_PUT || entry->present != 0;

    if (op->op == LINEAR_COMPARE_SET)
        changes = changes && entry->value == op->arg;
    if (!told(op, changes))
        return false;
    switch (op->op) {
    case LINEAR_INSERT:
    case LINEAR_PUT:
    case LINEAR_UPDATE:
        if (changes)
            *entry = (struct entry_state){ 1, op->arg };
        return true;
    case LINEAR_DELETE: *entry = (struct entry_state){ 0, 0 }; return true;
    case LINEAR_LOOKUP: return !entry->present || told_result(op, entry->value);
    case LINEAR_COMPARE_SET:
        if (!changes)
            return told_result(op, entry->value);
        entry->value = op->arg2;
        return true;
    default: return false;
    }
}

static bool map_reads(const struct loci_op *op)
{
    return op->op == LINEAR_LOOKUP || said_no(op);
}

static const struct loci_op_form map_forms[] = {
    [LINEAR_INSERT] = { "insert(k=%k, v=%a)", "%s" },
    [LINEAR_UPDATE] = { "update(k=%k, v=%a)", "%s" },
    [LINEAR_DELETE] = { "delete(k=%k)", "%s" },
    [LINEAR_LOOKUP] = { "lookup(k=%k)", "%o" },
    [LINEAR_COMPARE_SET] = { "compare_set(k=%k, %a, %b)", "%s" },
    [LINEAR_PUT] = { "put(k=%k, v=%a)", NULL },
    { NULL, NULL }
};

static const struct loci_linear_spec specs[LINEAR_KINDS] = {
    [LINEAR_REGISTER] = { .name = "register", .forms = register_forms,
                          .state_size = sizeof(uint64_t), .apply = register_apply,
                          .reads = register_reads, .overwrites = register_overwrites,
                          .same = loci_linear_same },
    [LINEAR_LOCK] = { .name = "lock", .forms = lock_forms,
                      .state_size = sizeof(struct lock_state), .apply = lock_apply,
                      .reads = lock_reads, .same = lock_same },
    [LINEAR_RWLOCK] = { .name = "rwlock", .forms = lock_forms,
                        .state_size = sizeof(struct lock_state), .apply = lock_apply,
                        .reads = lock_reads, .same = lock_same },
    [LINEAR_COUNTER] = { .name = "counter", .forms = counter_forms,
                         .state_size = sizeof(uint64_t), .apply = counter_apply,
                         .reads = counter_reads, .same = loci_linear_same },
    [LINEAR_QUEUE] = { .name = "queue", .forms = queue_forms,
                       .state_size = sizeof(struct queue_state),
                       .state_per_op = sizeof(uint64_t), .apply = queue_apply,
                       .used = queue_used, .reads = said_no, .same = loci_linear_same },
    [LINEAR_MAP] = { .name = "map", .forms = map_forms,
                     .state_size = sizeof(struct entry_state), .apply = map_apply,
                     .reads = map_reads, .same = loci_linear_same },
};

const struct loci_linear_spec *loci_linear_spec(enum loci_linear_kind kind)
{
    return &specs[kind];
}

const struct loci_op_form *loci_linear_forms(enum loci_linear_kind kind)
{
    return specs[kind].forms;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The linearizability checker of tools/sim, against histories whose answer is known: by hand, by
 * trying all orders, or because a sequential object made them.
 *
 * The objects below are written anew, as things that do what they are asked; the checker's own
 * specifications say whether an answer was right. Where the two differ, a test fails. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "linear.h"
#include "run.h"

#define CLIENTS 16
#define MANY 10000
#define MANY_KEYS 300
#define DISTINCT 0              /* values: never twice the same */

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

/* ---- objects that work ---- */

struct object {
    uint64_t value;
    bool present;
    int holder;                 /* client + 1 */
    int sharers;
    uint64_t *queue;            /* not copied */
    size_t head, tail;
};

/* What the operation does and answers; false: it has to wait. */
static bool lock_do(struct object *o, const struct loci_op *op, int *status)
{
    bool shared = op->op >= LINEAR_ACQUIRE_SHARED;
    bool grant = o->holder == 0 && (shared || o->sharers == 0);

    *status = 0;
    if (op->op == LINEAR_RELEASE || op->op == LINEAR_RELEASE_SHARED) {
        if (shared ? o->sharers == 0 : o->holder != op->client + 1)
            return false;
        if (shared)
            o->sharers--;
        else
            o->holder = 0;
        return true;
    }
    if (!grant)
        return op->op == LINEAR_TRY || op->op == LINEAR_TRY_SHARED;
    if (shared)
        o->sharers++;
    else
        o->holder = op->client + 1;
    *status = op->op == LINEAR_TRY || op->op == LINEAR_TRY_SHARED;
    return true;
}

static void register_do(struct object *o, const struct loci_op *op, uint64_t *result)
{
    if (op->op != LINEAR_WRITE)
        *result = o->value;
    if (op->op == LINEAR_WRITE || op->op == LINEAR_EXCHANGE
        || (op->op == LINEAR_CAS && o->value == op->arg))
        o->value = op->op == LINEAR_CAS ? op->arg2 : op->arg;
    if (op->op == LINEAR_FETCH_ADD)
        o->value += op->arg;
}

static void queue_do(struct object *o, const struct loci_op *op, int *status, uint64_t *result)
{
    *status = op->op == LINEAR_PUSH || o->head < o->tail;
    if (op->op == LINEAR_PUSH)
        o->queue[o->tail++] = op->arg;
    else if (o->head < o->tail)
        *result = o->queue[o->head++];
}

static void map_do(struct object *o, const struct loci_op *op, int *status, uint64_t *result)
{
    *status = op->op == LINEAR_INSERT ? !o->present : o->present;
    if (op->op == LINEAR_COMPARE_SET) {
        *status = o->present && o->value == op->arg;
        *result = *status || !o->present ? 0 : o->value;
    }
    if (!*status)
        return;
    if (op->op == LINEAR_LOOKUP)
        *result = o->value;
    else if (op->op == LINEAR_COMPARE_SET)
        o->value = op->arg2;
    else if (op->op != LINEAR_DELETE)
        o->value = op->arg;
    o->present = op->op != LINEAR_DELETE;
}

static bool object_do(enum loci_linear_kind kind, struct object *o, const struct loci_op *op,
                      int *status, uint64_t *result)
{
    *status = 0;
    *result = 0;
    switch (kind) {
    case LINEAR_LOCK:
    case LINEAR_RWLOCK: return lock_do(o, op, status);
    case LINEAR_REGISTER: register_do(o, op, result); return true;
    case LINEAR_QUEUE: queue_do(o, op, status, result); return true;
    case LINEAR_MAP: map_do(o, op, status, result); return true;
    default:
        *result = op->op == LINEAR_ADD ? 0 : o->value;
        o->value += op->op == LINEAR_GET ? 0 : op->arg;
        return true;
    }
}

/* ---- all orders ---- */

struct trial {
    enum loci_linear_kind kind;
    const struct loci_op *ops;
    size_t nops;
    uint64_t stamp;             /* nothing later is known */
};

static bool returned(const struct trial *t, size_t i)
{
    return t->ops[i].ret <= t->stamp;
}

static bool can_be_next(const struct trial *t, unsigned done, size_t i)
{
    for (size_t j = 0; j < t->nops; j++)
        if (!(done >> j & 1) && t->ops[j].ret < t->ops[i].call)
            return false;
    return !(done >> i & 1) && t->ops[i].call <= t->stamp;
}

static bool try_orders(const struct trial *t, unsigned done, const struct object *o)
{
    bool all = true;

    for (size_t i = 0; i < t->nops; i++)
        all = all && (done >> i & 1 || !returned(t, i));
    if (all)
        return true;
    for (size_t i = 0; i < t->nops; i++) {
        struct object next = *o;
        uint64_t result;
        int status;

        if (!can_be_next(t, done, i) || !object_do(t->kind, &next, &t->ops[i], &status, &result))
            continue;
        if (returned(t, i) && (status != t->ops[i].status || result != t->ops[i].result))
            continue;
        if (try_orders(t, done | 1u << i, &next))
            return true;
    }
    return false;
}

/* The first stamp at which the history is wrong; 0: none. One object. */
static uint64_t wrong_at(enum loci_linear_kind kind, const struct loci_history *h)
{
    uint64_t queue[32];
    struct object o = { .queue = queue };
    struct trial t = { kind, h->ops, h->nops, h->stamp };

    if (try_orders(&t, 0, &o))
        return 0;
    for (t.stamp = 1; try_orders(&t, 0, &o); t.stamp++)
        ;
    return t.stamp;
}

/* ---- histories ---- */

struct making {
    enum loci_linear_kind kind;
    int clients, keys;
    size_t nops;
    uint64_t values;            /* written are 1 to this, or DISTINCT */
    int deaths;
    int blind;                  /* percent of register operations that are plain writes */
    struct loci_history *h;
    struct object *objects;
    struct client {
        int id, held;           /* held: the operation that gives it back, or 0 */
        int now;                /* index of its operation, or -1 */
        bool done;
        int status;
        uint64_t result;
    } client[CLIENTS];
};

static uint64_t new_value(struct making *m)
{
    return m->values == DISTINCT ? 1000 + m->h->nops : 1 + draw(m->values);
}

static int pick_lock_op(const struct making *m, const struct client *c)
{
    if (c->held != 0)
        return c->held;
    if (m->kind == LINEAR_RWLOCK && draw(3) > 0)
        return draw(2) ? LINEAR_TRY_SHARED : LINEAR_ACQUIRE_SHARED;
    return draw(2) ? LINEAR_TRY : LINEAR_ACQUIRE;
}

static void call_one(struct making *m, struct client *c)
{
    static const int kinds_ops[LINEAR_KINDS] = {
        [LINEAR_REGISTER] = 5, [LINEAR_COUNTER] = 3, [LINEAR_QUEUE] = 2, [LINEAR_MAP] = 5
    };
    bool lock = m->kind == LINEAR_LOCK || m->kind == LINEAR_RWLOCK;
    int op = lock ? pick_lock_op(m, c) : (int)draw((uint64_t)kinds_ops[m->kind]);
    uint64_t key = draw((uint64_t)m->keys), arg = new_value(m), arg2 = 0;

    if (m->kind == LINEAR_REGISTER) {
        op = (int)draw(100) < m->blind ? LINEAR_WRITE : op;
        if (op == LINEAR_FETCH_ADD && m->values == DISTINCT)
            op = LINEAR_READ;
        if (op == LINEAR_CAS) {
            arg2 = arg;
            arg = draw(4) ? m->objects[key].value : new_value(m);
        }
    } else if (m->kind == LINEAR_MAP && op == LINEAR_COMPARE_SET) {
        arg2 = arg;
        arg = draw(4) && m->objects[key].present ? m->objects[key].value : new_value(m);
    }
    c->now = loci_history_call(m->h, c->id, op, key, arg, arg2);
    c->done = false;
}

static void return_one(struct making *m, struct client *c)
{
    int op = m->h->ops[c->now].op;
    bool try = op == LINEAR_TRY || op == LINEAR_TRY_SHARED;

    if (op == LINEAR_RELEASE || op == LINEAR_RELEASE_SHARED)
        c->held = 0;
    else if (!try || c->status)
        c->held = op >= LINEAR_ACQUIRE_SHARED ? LINEAR_RELEASE_SHARED : LINEAR_RELEASE;
    if (m->deaths > 0 && draw(m->nops) < 2) {
        m->deaths--;            /* in the middle of a call; another takes its place */
        c->id += CLIENTS;
        c->held = 0;
    } else {
        loci_history_return(m->h, c->now, c->status, c->result);
    }
    c->now = -1;
}

static void step(struct making *m, struct client *c)
{
    if (c->now < 0) {
        if (m->h->nops < m->nops)
            call_one(m, c);
    } else if (!c->done) {
        const struct loci_op *op = &m->h->ops[c->now];

        c->done = object_do(m->kind, &m->objects[op->key], op, &c->status, &c->result);
    } else {
        return_one(m, c);
    }
}

/* A linearizable history. Where dead clients leave a lock held, the rest is left waiting. */
static void make(struct making m, struct loci_history *h)
{
    m.h = h;
    m.objects = calloc((size_t)m.keys, sizeof *m.objects);
    for (int i = 0; i < m.keys; i++)
        m.objects[i].queue = m.kind == LINEAR_QUEUE ? calloc(m.nops, 8) : NULL;
    for (int i = 0; i < m.clients; i++)
        m.client[i] = (struct client){ .id = loci_history_client(i / 4, i % 4), .now = -1 };
    loci_history_clear(h);
    h->forms = loci_linear_forms(m.kind);
    for (size_t i = 0; i < 20 * m.nops; i++)
        step(&m, &m.client[draw((uint64_t)m.clients)]);
    for (int i = 0; i < m.keys; i++)
        free(m.objects[i].queue);
    free(m.objects);
}

static struct making many(enum loci_linear_kind kind)
{
    return (struct making){ .kind = kind, .clients = CLIENTS, .nops = MANY, .deaths = 3,
                            .keys = kind == LINEAR_MAP ? MANY_KEYS : 1, .blind = 10 };
}

static void set_up(void)
{
    seed = 88172645463325252u;
}

TestSuite(linear, .init = set_up);

/* ---- by hand ---- */

static struct loci_history hand;

static void begin(enum loci_linear_kind kind)
{
    loci_history_fini(&hand);
    loci_history_init(&hand, loci_linear_forms(kind));
}

/* Called and returned before anything else is. */
static void one(int client, int op, uint64_t arg, int status, uint64_t result)
{
    loci_history_return(&hand, loci_history_call(&hand, client, op, 0, arg, 0), status, result);
}

static int called(int client, int op, uint64_t arg)
{
    return loci_history_call(&hand, client, op, 0, arg, 0);
}

static int verdict(enum loci_linear_kind kind)
{
    struct loci_linear_report special, general;
    uint64_t wrong = wrong_at(kind, &hand);

    loci_linear_check(&hand, kind, &special);
    loci_linear_check_spec(&hand, loci_linear_spec(kind), 0, &general);
    loci_linear_print(stdout, &hand, &special);
    cr_assert_eq(special.verdict, general.verdict);
    cr_assert_eq(special.verdict, wrong ? LINEAR_NOT : LINEAR_OK);
    cr_assert_eq(special.stamp, wrong);
    cr_assert_eq(general.stamp, wrong);
    return special.verdict;
}

Test(linear, a_register_keeps_what_was_written)
{
    int w;

    begin(LINEAR_REGISTER);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_OK);
    one(0, LINEAR_READ, 0, 0, 0);
    w = called(0, LINEAR_WRITE, 7);
    one(1, LINEAR_READ, 0, 0, 0);
    one(1, LINEAR_READ, 0, 0, 7);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_OK);     /* the writer may be dead */
    one(2, LINEAR_READ, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_NOT);    /* new, then old */
    loci_history_return(&hand, w, 0, 0);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_NOT);

    begin(LINEAR_REGISTER);
    one(0, LINEAR_WRITE, 7, 0, 0);
    one(1, LINEAR_READ, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_NOT);    /* stale */
}

Test(linear, a_register_changes_once_per_change)
{
    int a, b;

    begin(LINEAR_REGISTER);
    a = called(0, LINEAR_FETCH_ADD, 1);
    b = called(1, LINEAR_FETCH_ADD, 1);
    loci_history_return(&hand, b, 0, 0);
    loci_history_return(&hand, a, 0, 1);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_OK);
    hand.ops[a].result = 0;
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_NOT);    /* lost update */

    begin(LINEAR_REGISTER);
    a = loci_history_call(&hand, 0, LINEAR_CAS, 0, 0, 5);
    b = loci_history_call(&hand, 1, LINEAR_CAS, 0, 0, 6);
    loci_history_return(&hand, a, 0, 0);
    loci_history_return(&hand, b, 0, 5);
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_OK);
    hand.ops[b].result = 0;
    cr_expect_eq(verdict(LINEAR_REGISTER), LINEAR_NOT);    /* both won */
}

Test(linear, a_lock_has_one_holder)
{
    int a;

    begin(LINEAR_LOCK);
    a = called(0, LINEAR_ACQUIRE, 0);
    one(1, LINEAR_TRY, 0, 0, 0);
    one(1, LINEAR_TRY, 0, 0, 0);
    loci_history_return(&hand, a, 0, 0);
    cr_expect_eq(verdict(LINEAR_LOCK), LINEAR_OK);
    a = called(1, LINEAR_ACQUIRE, 0);
    cr_expect_eq(verdict(LINEAR_LOCK), LINEAR_OK);
    one(0, LINEAR_RELEASE, 0, 0, 0);
    loci_history_return(&hand, a, 0, 0);
    cr_expect_eq(verdict(LINEAR_LOCK), LINEAR_OK);
    one(0, LINEAR_ACQUIRE, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_LOCK), LINEAR_NOT);        /* two at once */

    begin(LINEAR_LOCK);
    one(0, LINEAR_ACQUIRE, 0, 0, 0);
    one(1, LINEAR_RELEASE, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_LOCK), LINEAR_NOT);        /* not its own */

    begin(LINEAR_LOCK);
    one(0, LINEAR_TRY, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_LOCK), LINEAR_NOT);        /* nobody had it */
}

Test(linear, a_rw_lock_is_shared_or_exclusive)
{
    int a;

    begin(LINEAR_RWLOCK);
    one(0, LINEAR_ACQUIRE_SHARED, 0, 0, 0);
    one(1, LINEAR_TRY_SHARED, 0, 1, 0);
    one(2, LINEAR_TRY, 0, 0, 0);
    a = called(2, LINEAR_ACQUIRE, 0);
    one(0, LINEAR_RELEASE_SHARED, 0, 0, 0);
    one(1, LINEAR_RELEASE_SHARED, 0, 0, 0);
    one(1, LINEAR_TRY_SHARED, 0, 0, 0);
    loci_history_return(&hand, a, 0, 0);
    cr_expect_eq(verdict(LINEAR_RWLOCK), LINEAR_OK);
    one(3, LINEAR_ACQUIRE_SHARED, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_RWLOCK), LINEAR_NOT);

    begin(LINEAR_RWLOCK);
    one(0, LINEAR_ACQUIRE_SHARED, 0, 0, 0);
    one(1, LINEAR_TRY_SHARED, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_RWLOCK), LINEAR_NOT);
}

Test(linear, a_counter_counts_all)
{
    int a, b;

    begin(LINEAR_COUNTER);
    a = called(0, LINEAR_ADD, 2);
    b = called(1, LINEAR_ADD, 3);
    one(2, LINEAR_GET, 0, 0, 3);
    loci_history_return(&hand, a, 0, 0);
    one(2, LINEAR_GET_ADD, 1, 0, 5);
    cr_expect_eq(verdict(LINEAR_COUNTER), LINEAR_OK);
    one(2, LINEAR_GET, 0, 0, 5);
    cr_expect_eq(verdict(LINEAR_COUNTER), LINEAR_NOT);
    (void)b;
}

Test(linear, a_queue_keeps_its_order)
{
    int a, b;

    begin(LINEAR_QUEUE);
    a = called(0, LINEAR_PUSH, 1);
    b = called(1, LINEAR_PUSH, 2);
    loci_history_return(&hand, a, 1, 0);
    loci_history_return(&hand, b, 1, 0);
    one(2, LINEAR_POP, 0, 1, 2);
    one(2, LINEAR_POP, 0, 1, 1);
    one(2, LINEAR_POP, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_QUEUE), LINEAR_OK);

    begin(LINEAR_QUEUE);
    one(0, LINEAR_PUSH, 1, 1, 0);
    one(0, LINEAR_PUSH, 2, 1, 0);
    one(2, LINEAR_POP, 0, 1, 2);
    cr_expect_eq(verdict(LINEAR_QUEUE), LINEAR_NOT);       /* the other is still there */

    begin(LINEAR_QUEUE);
    called(1, LINEAR_POP, 0);
    one(0, LINEAR_PUSH, 1, 1, 0);
    one(0, LINEAR_PUSH, 2, 1, 0);
    one(2, LINEAR_POP, 0, 1, 2);
    cr_expect_eq(verdict(LINEAR_QUEUE), LINEAR_OK);        /* the dead one had it */
}

Test(linear, a_queue_is_empty_only_when_it_is)
{
    int p;

    begin(LINEAR_QUEUE);
    one(0, LINEAR_PUSH, 1, 1, 0);
    p = called(1, LINEAR_POP, 0);
    one(0, LINEAR_PUSH, 2, 1, 0);
    one(2, LINEAR_POP, 0, 1, 1);
    loci_history_return(&hand, p, 0, 0);
    cr_expect_eq(verdict(LINEAR_QUEUE), LINEAR_NOT);       /* 1 or 2 was there */

    begin(LINEAR_QUEUE);
    one(0, LINEAR_PUSH, 1, 1, 0);
    one(2, LINEAR_POP, 0, 1, 1);
    one(2, LINEAR_POP, 0, 1, 1);
    cr_expect_eq(verdict(LINEAR_QUEUE), LINEAR_NOT);       /* twice */

    begin(LINEAR_QUEUE);
    called(0, LINEAR_PUSH, 1);
    one(2, LINEAR_POP, 0, 0, 0);
    one(2, LINEAR_POP, 0, 1, 1);
    one(2, LINEAR_POP, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_QUEUE), LINEAR_OK);
}

Test(linear, a_map_has_its_keys)
{
    struct loci_linear_report report;
    int d;

    begin(LINEAR_MAP);
    one(0, LINEAR_UPDATE, 1, 0, 0);
    one(0, LINEAR_INSERT, 1, 1, 0);
    one(1, LINEAR_INSERT, 2, 0, 0);
    d = called(1, LINEAR_DELETE, 0);
    one(2, LINEAR_LOOKUP, 0, 1, 1);
    one(2, LINEAR_LOOKUP, 0, 0, 0);
    cr_expect_eq(verdict(LINEAR_MAP), LINEAR_OK);
    hand.ops[d].key = 9;
    cr_expect_eq(loci_linear_check(&hand, LINEAR_MAP, &report), LINEAR_NOT);
    cr_expect_eq(report.key, 0);
    cr_expect_eq(report.stamp, hand.stamp);
    cr_expect(report.smallest);
    cr_expect_eq(report.ops[0], 5);
    cr_expect_eq(hand.ops[5].ret, report.stamp);
}

/* ---- other objects ---- */

enum { ARRIVE, LEAVE };

struct barrier {
    uint64_t parties, arrived, left;
};

static void barrier_init(void *state, const void *param)
{
    ((struct barrier *)state)->parties = *(const uint64_t *)param;
}

static bool barrier_apply(void *state, const struct loci_op *op)
{
    struct barrier *b = state;

    if (op->op == LEAVE && b->left >= b->arrived / b->parties * b->parties)
        return false;
    if (op->op == LEAVE)
        b->left++;
    else
        b->arrived++;
    return true;
}

Test(linear, other_objects_can_be_told)
{
    static const uint64_t parties = 3;
    static const struct loci_linear_spec spec = {
        .name = "barrier", .param = &parties, .state_size = sizeof(struct barrier),
        .init = barrier_init, .apply = barrier_apply, .same = loci_linear_same,
    };
    struct loci_linear_report report;
    int early;

    begin(LINEAR_LOCK);
    one(0, ARRIVE, 0, 0, 0);
    early = called(0, LEAVE, 0);
    one(1, ARRIVE, 0, 0, 0);
    one(2, ARRIVE, 0, 0, 0);
    one(1, LEAVE, 0, 0, 0);
    loci_history_return(&hand, early, 0, 0);
    cr_expect_eq(loci_linear_check_spec(&hand, &spec, 0, &report), LINEAR_OK);
    begin(LINEAR_LOCK);
    one(0, ARRIVE, 0, 0, 0);
    one(1, ARRIVE, 0, 0, 0);
    one(1, LEAVE, 0, 0, 0);                 /* without the third */
    one(2, ARRIVE, 0, 0, 0);
    cr_expect_eq(loci_linear_check_spec(&hand, &spec, 0, &report), LINEAR_NOT);
    cr_expect_eq(report.stamp, 6);
}

/* ---- against all orders ---- */

/* Of what a client is told, only what there is. */
static void clean(enum loci_linear_kind kind, struct loci_op *op)
{
    bool try = op->op == LINEAR_TRY || op->op == LINEAR_TRY_SHARED;

    if (kind == LINEAR_REGISTER || kind == LINEAR_COUNTER
        || ((kind == LINEAR_LOCK || kind == LINEAR_RWLOCK) && !try))
        op->status = 0;
    else if (kind == LINEAR_QUEUE && op->op == LINEAR_PUSH)
        op->status = 1;
    if ((kind == LINEAR_REGISTER && op->op == LINEAR_WRITE)
        || (kind == LINEAR_COUNTER && op->op == LINEAR_ADD)
        || (kind == LINEAR_QUEUE && (op->op == LINEAR_PUSH || !op->status))
        || (kind == LINEAR_MAP && (op->op == LINEAR_COMPARE_SET ? op->status
                                   : op->op != LINEAR_LOOKUP || !op->status))
        || kind == LINEAR_LOCK || kind == LINEAR_RWLOCK)
        op->result = 0;
}

static void spoil(enum loci_linear_kind kind, struct loci_history *h)
{
    struct loci_op *op = &h->ops[draw(h->nops)], *other = &h->ops[draw(h->nops)];

    if (!loci_op_returned(op) || !loci_op_returned(other))
        return;
    if (op->op == other->op && draw(2)) {
        uint64_t result = op->result;
        int status = op->status;

        op->result = other->result;
        op->status = other->status;
        other->result = result;
        other->status = status;
    } else if (draw(2)) {
        op->result = other->result;
    } else {
        op->status = !op->status;
    }
    clean(kind, op);
    clean(kind, other);
}

static void show_and_fail(const struct loci_history *h, uint64_t wrong,
                          const struct loci_linear_report *report)
{
    loci_history_print(stdout, h);
    loci_linear_print(stdout, h, report);
    cr_assert_fail("wrong at %d, and the checker says %d at %d", (int)wrong, report->verdict,
                   (int)report->stamp);
}

static void compare_with_all_orders(enum loci_linear_kind kind, uint64_t values, int rounds)
{
    struct loci_history h;
    int nwrong = 0;

    loci_history_init(&h, NULL);
    for (int i = 0; i < rounds; i++) {
        struct loci_linear_report special, general;
        uint64_t wrong;

        make((struct making){ .kind = kind, .clients = 2 + (int)draw(3), .keys = 1,
                              .nops = 4 + draw(5), .values = values, .deaths = (int)draw(3),
                              .blind = 30 }, &h);
        for (uint64_t n = draw(5); n > 0; n--)
            spoil(kind, &h);
        wrong = wrong_at(kind, &h);
        nwrong += wrong != 0;
        loci_linear_check(&h, kind, &special);
        loci_linear_check_spec(&h, loci_linear_spec(kind), 0, &general);
        if (special.stamp != wrong || (special.verdict == LINEAR_NOT) != (wrong != 0)
            || special.smallest != (wrong != 0))
            show_and_fail(&h, wrong, &special);
        if (general.stamp != wrong || (general.verdict == LINEAR_NOT) != (wrong != 0))
            show_and_fail(&h, wrong, &general);
    }
    printf("%d of %d histories were wrong\n", nwrong, rounds);
    cr_expect_gt(nwrong, rounds / 20);
    cr_expect_lt(nwrong, rounds - rounds / 20);
    loci_history_fini(&h);
}

Test(linear, agrees_with_all_orders)
{
    for (int kind = 0; kind < LINEAR_KINDS; kind++) {
        compare_with_all_orders((enum loci_linear_kind)kind, DISTINCT, run_rounds(4000));
        compare_with_all_orders((enum loci_linear_kind)kind, 2, run_rounds(4000));
    }
}

/* Too large to try all orders: the search, and the special methods. */
Test(linear, methods_agree)
{
    static const enum loci_linear_kind kinds[] = { LINEAR_QUEUE, LINEAR_REGISTER };
    int rounds = run_rounds(4000), nwrong = 0, nright = 0, nlong = 0;
    struct loci_history h;

    if (rounds < 400)                   /* of fewer nothing is sure to be some part */
        rounds = 400;
    loci_history_init(&h, NULL);
    for (int i = 0; i < rounds; i++) {
        enum loci_linear_kind kind = kinds[i % 2];
        struct loci_linear_report special, general;

        make((struct making){ .kind = kind, .clients = 2 + (int)draw(5), .keys = 1,
                              .nops = 10 + draw(20), .deaths = (int)draw(3), .blind = 30 }, &h);
        for (uint64_t n = draw(3); n > 0; n--)
            spoil(kind, &h);
        loci_linear_check(&h, kind, &special);
        loci_linear_check_spec(&h, loci_linear_spec(kind), 20000, &general);
        cr_assert_eq(special.states, 0);
        if (general.verdict == LINEAR_GAVE_UP || (general.stamp > 0 && !general.smallest))
            nlong++;
        else if (special.verdict != general.verdict || special.stamp != general.stamp)
            show_and_fail(&h, general.stamp, &special);
        nwrong += special.verdict == LINEAR_NOT;
        nright += special.verdict == LINEAR_OK;
    }
    printf("%d were right, %d wrong; %d took too long to search\n", nright, nwrong, nlong);
    cr_expect_lt(nlong, rounds / 20);
    cr_expect_gt(nwrong, nright / 4);
    cr_expect_gt(nright, nwrong / 4);
    loci_history_fini(&h);
}

/* ---- large ---- */

static const char *const kind_names[LINEAR_KINDS] = {
    "register", "lock", "rwlock", "counter", "queue", "map"
};

/* The verdict, in good time. */
static int judge(const struct loci_history *h, const char *what, enum loci_linear_kind kind,
                 struct loci_linear_report *report)
{
    int64_t ns = run_now();

    loci_linear_check(h, kind, report);
    ns = run_now() - ns;
    printf("%s, %s, %zu operations: verdict %d in %.0f ms, %llu states\n", kind_names[kind], what,
           h->nops, report->verdict, 1e-6 * (double)ns, (unsigned long long)report->states);
    cr_expect_lt(ns, run_limit(10 * INT64_C(1000000000)));
    return report->verdict;
}

static void accept_many(struct making m, struct loci_history *h)
{
    struct loci_linear_report report;

    make(m, h);
    if (judge(h, "right", m.kind, &report) != LINEAR_OK)
        show_and_fail(h, 0, &report);
}

/* An operation of this sort that returned, with a status of its own, from the middle on. */
static struct loci_op *later(struct loci_history *h, int op, int status, size_t from)
{
    for (size_t i = from; i < h->nops; i++)
        if (h->ops[i].op == op && loci_op_returned(&h->ops[i]) && h->ops[i].status == status)
            return &h->ops[i];
    cr_assert_fail("no such operation");
    return NULL;
}

static void reject(struct loci_history *h, enum loci_linear_kind kind, const struct loci_op *bad)
{
    struct loci_linear_report report;

    cr_expect_eq(judge(h, "one is wrong", kind, &report), LINEAR_NOT);
    cr_expect(report.smallest);
    cr_expect_eq(report.key, bad->key);
    cr_expect_leq(report.stamp, bad->ret);
}

Test(linear, many_register_operations)
{
    struct making m = many(LINEAR_REGISTER);
    struct loci_history h;
    struct loci_op *read;

    loci_history_init(&h, NULL);
    for (int blind = 10; blind <= 90; blind += 40) {
        m.blind = blind;
        accept_many(m, &h);
        read = later(&h, LINEAR_READ, 0, MANY / 2);
        read->result = later(&h, LINEAR_READ, 0, MANY / 4)->result;
        reject(&h, LINEAR_REGISTER, read);
    }
    m.values = 50;              /* by search */
    m.blind = 20;
    accept_many(m, &h);
    later(&h, LINEAR_READ, 0, MANY / 2)->result = 12345;
    cr_expect_neq(judge(&h, "one is wrong", LINEAR_REGISTER, &(struct loci_linear_report){ 0 }),
                  LINEAR_OK);
    loci_history_fini(&h);
}

Test(linear, many_lock_operations)
{
    struct loci_history h;

    loci_history_init(&h, NULL);
    for (int kind = LINEAR_LOCK; kind <= LINEAR_RWLOCK; kind++) {
        struct making m = many((enum loci_linear_kind)kind);
        struct loci_op *try;

        m.deaths = 0;
        accept_many(m, &h);
        try = later(&h, LINEAR_TRY, 0, MANY / 2);
        try->status = 1;
        cr_expect_eq(judge(&h, "one is wrong", m.kind, &(struct loci_linear_report){ 0 }),
                     LINEAR_NOT);
    }
    loci_history_fini(&h);
}

Test(linear, many_counter_operations)
{
    struct making m = many(LINEAR_COUNTER);
    struct loci_history h;
    struct loci_op *get;

    loci_history_init(&h, NULL);
    m.values = 1;
    accept_many(m, &h);
    get = later(&h, LINEAR_GET, 0, MANY / 2);
    get->result += CLIENTS + 4;
    reject(&h, LINEAR_COUNTER, get);
    loci_history_fini(&h);
}

Test(linear, many_queue_operations)
{
    struct making m = many(LINEAR_QUEUE);
    struct loci_history h;
    struct loci_op *a, *b;
    uint64_t result;

    loci_history_init(&h, NULL);
    accept_many(m, &h);
    a = later(&h, LINEAR_POP, 1, MANY / 2);
    b = later(&h, LINEAR_POP, 1, MANY / 2 + 200);
    result = a->result;
    a->result = b->result;
    b->result = result;
    reject(&h, LINEAR_QUEUE, a);

    accept_many(m, &h);
    a = later(&h, LINEAR_PUSH, 1, MANY / 4);        /* nobody ever gets it */
    for (size_t i = 0; i < h.nops; i++)
        if (h.ops[i].op == LINEAR_POP && h.ops[i].result == a->arg)
            h.ops[i].result = UINT64_C(1) << 40;
    cr_expect_eq(judge(&h, "one is wrong", LINEAR_QUEUE, &(struct loci_linear_report){ 0 }),
                 LINEAR_NOT);
    loci_history_fini(&h);
}

Test(linear, many_map_operations)
{
    struct loci_history h;

    loci_history_init(&h, NULL);
    for (int keys = MANY_KEYS; keys > 0; keys /= 17) {      /* 300, 17, 1 */
        struct making m = many(LINEAR_MAP);
        struct loci_op *lookup;

        m.keys = keys;
        accept_many(m, &h);
        lookup = later(&h, LINEAR_LOOKUP, 1, MANY / 2);
        lookup->result = 17;    /* never written */
        reject(&h, LINEAR_MAP, lookup);
    }
    loci_history_fini(&h);
}

Test(linear, gives_up_in_the_end)
{
    struct loci_linear_report report;
    struct loci_history h;

    loci_history_init(&h, NULL);
    make(many(LINEAR_QUEUE), &h);
    later(&h, LINEAR_POP, 1, MANY / 2)->result = 1;
    cr_expect_eq(loci_linear_check_spec(&h, loci_linear_spec(LINEAR_QUEUE), 20000, &report),
                 LINEAR_GAVE_UP);
    cr_expect_leq(report.states, 20000);
    loci_history_fini(&h);
}

/* ---- shown ---- */

Test(linear, operations_are_shown)
{
    int client = loci_history_client(2, 1), i;
    char line[80], small[8];

    begin(LINEAR_MAP);
    i = loci_history_call(&hand, client, LINEAR_INSERT, 5, 12, 0);
    loci_op_print(line, sizeof line, &hand.ops[i], hand.forms, LOCI_NEVER);
    cr_expect_str_eq(line, "p2.t1 [1..] insert(k=5, v=12) -> ?");
    loci_history_return(&hand, i, 1, 0);
    cr_expect_eq(loci_op_print(line, sizeof line, &hand.ops[i], hand.forms, LOCI_NEVER),
                 (int)strlen(line));
    cr_expect_str_eq(line, "p2.t1 [1..2] insert(k=5, v=12) -> true");
    loci_op_print(line, sizeof line, &hand.ops[i], hand.forms, 1);
    cr_expect_str_eq(line, "p2.t1 [1..] insert(k=5, v=12) -> ?");
    i = loci_history_call(&hand, client, LINEAR_LOOKUP, UINT64_C(1) << 32, 0, 0);
    loci_history_return(&hand, i, 0, 0);
    loci_op_print(line, sizeof line, &hand.ops[i], hand.forms, LOCI_NEVER);
    cr_expect_str_eq(line, "p2.t1 [3..4] lookup(k=0x100000000) -> none");
    loci_op_print(line, sizeof line, &hand.ops[i], NULL, LOCI_NEVER);
    cr_expect_str_eq(line, "p2.t1 [3..4] (key=0x100000000, 0, 0) -> false, 0");
    cr_expect_gt(loci_op_print(small, sizeof small, &hand.ops[i], NULL, LOCI_NEVER), 8);
    cr_expect_str_eq(small, "p2.t1 [");
}

Test(linear, what_is_wrong_is_shown)
{
    struct loci_linear_report report;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    begin(LINEAR_QUEUE);
    one(0, LINEAR_PUSH, 1, 1, 0);
    one(0, LINEAR_PUSH, 2, 1, 0);
    called(1, LINEAR_PUSH, 3);
    one(2, LINEAR_POP, 0, 1, 2);
    one(2, LINEAR_POP, 0, 1, 1);
    cr_assert_eq(loci_linear_check(&hand, LINEAR_QUEUE, &report), LINEAR_NOT);
    loci_linear_print(f, &hand, &report);
    fclose(f);
    cr_expect_str_eq(text,
                     "not linearizable at stamp 7, object 0: popped out of order\n"
                     "    p0.t0 [1..2] push(1) -> true\n"
                     "    p0.t0 [3..4] push(2) -> true\n"
                     "    p0.t2 [6..7] pop() -> 2\n"
                     "  the latest of that object until then:\n"
                     "    p0.t0 [1..2] push(1) -> true\n"
                     "    p0.t0 [3..4] push(2) -> true\n"
                     "    p0.t1 [5..] push(3) -> ?\n"
                     "    p0.t2 [6..7] pop() -> 2\n");
    free(text);
}

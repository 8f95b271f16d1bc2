/* SPDX-License-Identifier: BSD-3-Clause */

/* All threads of all processes, the host's too, use a few atomic variables in every way; each
 * variable's history is that of a register. */

#include "config.h"

#include "scenario_util.h"

#include "linear.h"

#define VARIABLES 2

struct state {
    struct sim_state common;
    bool drawn, array;
    int host;
    struct loci_history history;
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_atomic_var_t *var;     /* or */
    loco_atomic_array_t *array;
    int rank;
};

struct call {
    int op;                     /* LINEAR_READ... */
    bool ack;
    bool general;               /* exchange, fetch_add: by fetch_op */
    uint64_t key, arg, arg2, result;
};

/* ---- one call ---- */

static int general_var(struct user *u, struct call *c, enum loco_op op)
{
    return loco_atomic_var_fetch_op(u->var, op, LOCO_TYPE_U64, &c->arg, &c->result);
}

static int general_array(struct user *u, struct call *c, enum loco_op op)
{
    return loco_atomic_array_fetch_op(u->array, c->key, op, LOCO_TYPE_U64, &c->arg, &c->result);
}

static int call_var(struct user *u, struct call *c, loco_ack_t *ack)
{
    switch (c->op) {
    case LINEAR_READ:
        return c->ack ? loco_atomic_var_load_ack(u->var, &c->result, ack)
               : loco_atomic_var_load(u->var, &c->result);
    case LINEAR_WRITE:
        return loco_atomic_var_store(u->var, c->arg);
    case LINEAR_CAS:
        return c->ack ? loco_atomic_var_compare_swap_ack(u->var, c->arg, c->arg2, &c->result, ack)
               : loco_atomic_var_compare_swap(u->var, c->arg, c->arg2, &c->result);
    case LINEAR_FETCH_ADD:
        return c->general ? general_var(u, c, LOCO_OP_SUM)
               : c->ack ? loco_atomic_var_fetch_add_ack(u->var, c->arg, &c->result, ack)
               : loco_atomic_var_fetch_add(u->var, c->arg, &c->result);
    default:
        return c->general ? general_var(u, c, LOCO_OP_REPLACE)
               : loco_atomic_var_exchange(u->var, c->arg, &c->result);
    }
}

static int call_array(struct user *u, struct call *c, loco_ack_t *ack)
{
    loco_atomic_array_t *a = u->array;

    switch (c->op) {
    case LINEAR_READ:
        return c->ack ? loco_atomic_array_load_ack(a, c->key, &c->result, ack)
               : loco_atomic_array_load(a, c->key, &c->result);
    case LINEAR_WRITE:
        return loco_atomic_array_store(a, c->key, c->arg);
    case LINEAR_CAS:
        return c->ack ? loco_atomic_array_compare_swap_ack(a, c->key, c->arg, c->arg2, &c->result,
                                                           ack)
               : loco_atomic_array_compare_swap(a, c->key, c->arg, c->arg2, &c->result);
    case LINEAR_FETCH_ADD:
        return c->general ? general_array(u, c, LOCO_OP_SUM)
               : c->ack ? loco_atomic_array_fetch_add_ack(a, c->key, c->arg, &c->result, ack)
               : loco_atomic_array_fetch_add(a, c->key, c->arg, &c->result);
    default:
        return c->general ? general_array(u, c, LOCO_OP_REPLACE)
               : loco_atomic_array_exchange(a, c->key, c->arg, &c->result);
    }
}

/* What returned an error may have happened or not: it never returns in the history. */
static int one_call(struct user *u, int thread, struct call *c)
{
    struct loci_history *h = &u->s->history;
    int at = loci_history_call(h, loci_history_client(u->rank, thread), c->op, c->key, c->arg,
                               c->arg2);
    loco_ack_t ack = LOCO_ACK_INIT;

    TRY(u->run, u->s->array ? call_array(u, c, &ack) : call_var(u, c, &ack));
    TRY(u->run, loco_ack_wait(u->rt, &ack));
    loci_history_return(h, at, 1, c->result);
    return SIM_FINE;
}

/* ---- the body ---- */

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;
    uint64_t seen[VARIABLES] = { 0 };

    for (int i = 1; i <= u->run->rounds; i++) {
        struct call c = { .op = (int)loci_sim_draw(5), .ack = loci_sim_draw(2) == 0 };

        c.general = loci_sim_draw(2) == 0;
        c.key = u->s->array ? loci_sim_draw(VARIABLES) : 0;
        c.arg = (uint64_t)(1 + i + 100 * (thread + 64 * u->rank));
        if (c.op == LINEAR_CAS) {
            c.arg2 = c.arg;
            c.arg = seen[c.key];
        } else if (c.op == LINEAR_READ) {
            c.arg = 0;
        }
        PASS(one_call(u, thread, &c));
        seen[c.key] = c.op == LINEAR_WRITE ? c.arg : c.result;
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    uint64_t value;

    PASS(sim_ready(u->run, seat));
    if (u->s->array)
        WANT(loco_atomic_array_load(u->array, VARIABLES, &value) == LOCO_ERR_RANGE,
             "a variable that is not there is read");
    return sim_threads(u->rt, u->run->threads, thread_main, u);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *all = loco_everyone(rt);
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->array = loci_sim_draw(2) == 0;
        s->host = (int)loci_sim_draw((uint32_t)run->processes);
    }
    if (s->array)
        TRY(run, loco_atomic_array_create(rt, NULL, "var", all, VARIABLES, LOCO_ATOMIC_STRIPED,
                                          &u.array));
    else
        TRY(run, loco_atomic_var_create(rt, NULL, "var", all, s->host, &u.var));
    result = sim_part(&seat, use(&u, &seat));
    loco_atomic_var_destroy(u.var);
    loco_atomic_array_destroy(u.array);
    return result;
}

static int begin(struct sim_run *run)
{
    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    loci_history_init(&((struct state *)run->state)->history,
                      loci_linear_forms(LINEAR_REGISTER));
    return 0;
}

static int end(struct sim_run *run)
{
    return sim_check_register(&((struct state *)run->state)->history);
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL)
        loci_history_fini(&s->history);
    sim_state_free(run);
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_atomic_var_t *var;

    (void)rank;
    (void)processes;
    return loco_atomic_var_create(rt, NULL, "var", loco_everyone(rt), 0, &var) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? var : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    (void)rt;
    (void)rank;
    (void)round;
    return loco_atomic_var_fetch_add(channel, 1, NULL);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_atomic_var_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_atomic_var;
const struct sim_scenario sim_scenario_atomic_var = {
    .name = "atomic_var",
    .about = "loads, stores, fetch_add, compare_swap, exchange and fetch_op by all, the host too: "
             "each variable is linearizable",
    .processes = 3, .threads = 2, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "1 atomic per process",
};

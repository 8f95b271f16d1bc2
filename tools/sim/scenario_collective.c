/* SPDX-License-Identifier: BSD-3-Clause */

/* Broadcasts and reductions in an order that is drawn for all, of a few pieces each, by different
 * threads: what each member gets is what the others have put in. Some calls run out of time and
 * are made again. */

#include "config.h"

#include "scenario_util.h"

#define PIECE 64                        /* bytes: 8 words */
#define WORDS_MOST 20

enum { BROADCAST, REDUCE, ALLREDUCE, KINDS };

struct call {
    int kind, root;
    enum loco_op op;
    size_t words;
};

struct state {
    struct sim_state common;
    bool drawn;
    struct call call[64];               /* by round */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_collective_t *c;
    int rank, round;
    uint64_t operand[WORDS_MOST], result[WORDS_MOST];
};

static void draw_calls(struct state *s, const struct sim_run *run)
{
    static const enum loco_op ops[] = { LOCO_OP_SUM, LOCO_OP_MAX, LOCO_OP_BXOR };

    for (int i = 0; i < run->rounds && i < 64; i++) {
        struct call *c = &s->call[i];

        c->kind = (int)loci_sim_draw(KINDS);
        c->root = c->kind == ALLREDUCE ? 0 : (int)loci_sim_draw((uint32_t)run->processes);
        c->op = ops[loci_sim_draw(3)];
        c->words = 1 + loci_sim_draw(loci_sim_draw(2) == 0 ? 3 : WORDS_MOST);
    }
    s->drawn = true;
}

/* What member `rank` has in word i in that round: no two alike. */
static uint64_t word_of(int rank, int round, size_t i)
{
    return (uint64_t)(1 + round) * 1000000 + (uint64_t)rank * 1000 + i;
}

static uint64_t combined(const struct user *u, const struct call *call, size_t i)
{
    uint64_t value = word_of(0, u->round, i);

    for (int rank = 1; rank < u->run->processes; rank++) {
        uint64_t one = word_of(rank, u->round, i);

        value = call->op == LOCO_OP_SUM ? value + one
                : call->op == LOCO_OP_MAX ? (value > one ? value : one) : value ^ one;
    }
    return value;
}

static int call_once(struct user *u, const struct call *call, int64_t limit)
{
    enum loco_type type = LOCO_TYPE_U64;

    switch (call->kind) {
    case BROADCAST:
        return loco_collective_broadcast_timed(u->c, call->root, u->result, 8 * call->words, limit);
    case REDUCE:
        return loco_collective_reduce_timed(u->c, call->root, call->op, type, u->operand,
                                            u->rank == call->root ? u->result : NULL, call->words,
                                            limit);
    default:
        return loco_collective_allreduce_timed(u->c, call->op, type, u->operand, u->result,
                                               call->words, limit);
    }
}

static int check(const struct user *u, const struct call *call)
{
    for (size_t i = 0; i < call->words; i++) {
        uint64_t want = call->kind == BROADCAST ? word_of(call->root, u->round, i)
                        : combined(u, call, i);

        WANT(u->result[i] == want, "p%d has %llu in word %zu of %zu after call %d, of kind %d with "
             "root %d; %llu is right", u->rank, (unsigned long long)u->result[i], i, call->words,
             u->round, call->kind, call->root, (unsigned long long)want);
    }
    return SIM_FINE;
}

static int one_call(struct user *u)
{
    const struct call *call = &u->s->call[u->round];
    int status = LOCO_ERR_TIMEOUT;

    for (size_t i = 0; i < call->words; i++) {
        u->operand[i] = word_of(u->rank, u->round, i);
        u->result[i] = call->kind == BROADCAST && u->rank == call->root ? u->operand[i] : 7;
    }
    for (uint32_t limits = loci_sim_draw(3); limits > 0 && status == LOCO_ERR_TIMEOUT; limits--)
        status = call_once(u, call, loci_sim_draw(10000));
    if (status == LOCO_ERR_TIMEOUT)
        status = call_once(u, call, LOCO_FOREVER);
    TRY(u->run, status);
    /* What was sent is the caller's again. */
    memset(u->operand, 0xee, sizeof u->operand);
    return call->kind != REDUCE || u->rank == call->root ? check(u, call) : SIM_FINE;
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;

    return thread == u->round % u->run->threads ? one_call(u) : SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    for (u->round = 0; u->round < u->run->rounds && u->round < 64; u->round++)
        PASS(sim_threads(u->rt, u->run->threads, thread_main, u));
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    if (!s->drawn)
        draw_calls(s, run);
    TRY(run, loco_collective_create(rt, NULL, "collective", loco_everyone(rt), PIECE, &u.c));
    result = sim_part(&seat, use(&u, &seat));
    loco_collective_destroy(u.c);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_collective_t *c;

    (void)rank;
    (void)processes;
    return loco_collective_create(rt, NULL, "collective", loco_everyone(rt), 0, &c) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? c : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    uint64_t one = (uint64_t)round, sum;

    (void)rt;
    (void)rank;
    return loco_collective_allreduce(channel, LOCO_OP_SUM, LOCO_TYPE_U64, &one, &sum, 1);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_collective_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_collective;
const struct sim_scenario sim_scenario_collective = {
    .name = "collective",
    .about = "broadcasts, reduces and allreduces of some pieces, from any root, by any thread, "
             "with limits of time: each gives what the members have put in",
    .processes = 4, .threads = 2, .rounds = 6, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "allreduce: 2 (N - 1) messages of 3 writes, in 2 ceil(log2 N) steps",
};

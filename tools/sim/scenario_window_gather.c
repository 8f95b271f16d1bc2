/* SPDX-License-Identifier: BSD-3-Clause */

/* Accumulates and puts of single elements by processes of one thread, which are gathered: those of
 * one origin to one target happen in the order of its calls, each once, among other accumulates;
 * what an origin does there next sees them, and what it has synchronized, everybody does. */

#include "config.h"

#include "scenario_util.h"
#include "window/window.h"

/* Of each target's part: a word for all, then one of each origin. */
enum { SUM = 0, WORDS = 16 };
#define SIZE(run) (WORDS + 8 * (uint64_t)(run)->processes)
#define CALLS 400               /* of one origin, at most */

/* What an origin has done to its word at one target: value[i] was there after i calls. */
struct past {
    int begun, flushed;         /* calls */
    uint64_t value[CALLS + 1];
};

struct state {
    struct sim_state common;
    bool drawn, fences;
    bool threads;               /* calls are of several in turn */
    enum loco_type sum;         /* of the word for all: the device's atomics do one of them */
    enum loco_window_kind kind;
    uint64_t cut;               /* DYNAMIC: where two regions adjoin in each part; 0: it is one */
    unsigned char *memory;      /* of all */
    struct past *past;          /* by origin and target */
    uint64_t *added, *settled;  /* by target: to its sum, begun and synchronized */
    uint64_t *mine;             /* by origin and target: of `added`, not synchronized yet */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_window_t *win;
    int rank;
};

static struct past *past_of(const struct user *u, int origin, int target)
{
    return &u->s->past[origin * u->run->processes + target];
}

static unsigned char *base_of(const struct user *u, int rank)
{
    return u->s->memory + (size_t)rank * SIZE(u->run);
}

/* An offset in the target's part as the window wants it. */
static uint64_t at(const struct user *u, int target, uint64_t offset)
{
    return u->s->kind == LOCO_WINDOW_DYNAMIC ? (uintptr_t)base_of(u, target) + offset : offset;
}

static uint64_t word_of(const struct user *u, int origin, int target)
{
    return at(u, target, WORDS + 8 * (uint64_t)origin);
}

/* ---- calls ---- */

static int accumulate(struct user *u, int target, enum loco_type type, enum loco_op op,
                      uint64_t offset, const void *operand)
{
    return sim_accumulate(u->win, target, type, op, offset, operand, NULL, 1);
}

/* One call on the origin's own word: none commutes with the others. Puts have no order with
 * accumulates but where these are gathered. */
static int change(struct user *u, int target)
{
    struct past *past = past_of(u, u->rank, target);
    uint64_t value = past->value[past->begun], at64 = word_of(u, u->rank, target);
    uint64_t x = 2 * (uint64_t)(past->begun + 100 * u->rank) + 3, operand = x;
    uint32_t half = (uint32_t)x * 7 + 1, how = loci_sim_draw(4);
    int status;

    switch (how) {
    case 0: value += x; break;
    case 1: value *= x; break;
    case 2: value = x << 33 | value >> 40; operand = value; break;
    default: memcpy(&value, &half, 4); break;
    }
    past->value[++past->begun] = value;
    switch (how) {
    case 0: status = accumulate(u, target, LOCO_TYPE_U64, LOCO_OP_SUM, at64, &operand); break;
    case 1: status = accumulate(u, target, LOCO_TYPE_U64, LOCO_OP_PROD, at64, &operand); break;
    case 2:
        status = u->win->domain == LOCI_DOMAIN_CPU ? sim_put(u->win, target, at64, &operand, 8)
                 : accumulate(u, target, LOCO_TYPE_U64, LOCO_OP_REPLACE, at64, &operand);
        break;
    default:
        status = accumulate(u, target, LOCO_TYPE_U32, LOCO_OP_REPLACE, at64, &half);
    }
    operand = 0;
    half = 0;
    TRY(u->run, status);
    return SIM_FINE;
}

static int add(struct user *u, int target)
{
    union { uint64_t wide; uint32_t narrow; } one = { 0 };

    if (u->s->sum == LOCO_TYPE_U64)
        one.wide = 1;
    else
        one.narrow = 1;
    u->s->added[target]++;
    u->s->mine[u->rank * u->run->processes + target]++;
    TRY(u->run, accumulate(u, target, u->s->sum, LOCO_OP_SUM, at(u, target, SUM), &one));
    return SIM_FINE;
}

/* Its own word as it left it, whichever way it looks; but a get has no order with what another
 * thread has merged. */
static int see(struct user *u, int target)
{
    const struct past *past = past_of(u, u->rank, target);
    uint64_t value = 0, wanted = past->value[past->begun], at64 = word_of(u, u->rank, target);

    switch (u->s->threads && u->win->merges ? 1 + loci_sim_draw(2) : loci_sim_draw(3)) {
    case 0: TRY(u->run, sim_get(u->win, target, at64, &value, 8)); break;
    case 1:
        TRY(u->run, sim_accumulate(u->win, target, LOCO_TYPE_U64, LOCO_OP_NO_OP, at64, NULL, &value,
                                   1));
        break;
    default:
        TRY(u->run, loco_window_compare_swap(u->win, target, LOCO_TYPE_U64, at64, &wanted, &wanted,
                                             &value));
    }
    WANT(value == wanted, "p%d sees %llx at p%d in its word, which it made %llx", u->rank,
         (unsigned long long)value, target, (unsigned long long)wanted);
    return SIM_FINE;
}

/* Some state of the word since the last synchronization of its origin. */
static int check_word(const struct user *u, int origin, int target, uint64_t value, int from)
{
    const struct past *past = past_of(u, origin, target);

    for (int i = from; i <= past->begun; i++)
        if (past->value[i] == value)
            return SIM_FINE;
    return loci_sim_fail("p%d finds %llx at p%d in the word of p%d, which has synchronized %d "
                         "calls and made %d", u->rank, (unsigned long long)value, target, origin,
                         from, past->begun);
}

/* Two regions share the word of that origin: it is written in two pieces. */
static bool is_cut(const struct user *u, int origin)
{
    uint64_t word = WORDS + 8 * (uint64_t)origin;

    return u->s->kind == LOCO_WINDOW_DYNAMIC && u->s->cut > word && u->s->cut < word + 8;
}

/* A get reads a word at once. A cut one it may find half written: nothing but another accumulate is
 * atomic to that. */
static int look(struct user *u, int origin, int target)
{
    int from = past_of(u, origin, target)->flushed;
    uint64_t value = 0;

    if (is_cut(u, origin))
        TRY(u->run, sim_accumulate(u->win, target, LOCO_TYPE_U64, LOCO_OP_NO_OP,
                                   word_of(u, origin, target), NULL, &value, 1));
    else
        TRY(u->run, sim_get(u->win, target, word_of(u, origin, target), &value, 8));
    return check_word(u, origin, target, value, from);
}

/* All that this process has called until now to that target is done. */
static void settled_at(struct user *u, int target)
{
    struct past *past = past_of(u, u->rank, target);
    uint64_t *mine = &u->s->mine[u->rank * u->run->processes + target];

    past->flushed = past->begun;
    u->s->settled[target] += *mine;
    *mine = 0;
}

static void settled(struct user *u)
{
    for (int i = 0; i < u->run->processes; i++)
        settled_at(u, i);
}

/* Each does all that was gathered, whoever it is for; but writes that merge are under way already,
 * and are done where it says. */
static int synchronize(struct user *u, int target)
{
    enum { FLUSH, LOCAL, ALL, LOCAL_ALL, SYNC } how = loci_sim_draw(5);
    int status;

    switch (how) {
    case FLUSH: status = loco_window_flush(u->win, target); break;
    case LOCAL: status = loco_window_flush_local(u->win, target); break;
    case ALL: status = loco_window_flush_all(u->win); break;
    case LOCAL_ALL: status = loco_window_flush_local_all(u->win); break;
    default: status = loco_window_sync(u->win); break;
    }
    TRY(u->run, status);
    if (!u->win->merges || how == ALL || how == LOCAL_ALL)
        settled(u);
    else if (how != SYNC)
        settled_at(u, target);
    return SIM_FINE;
}

static int one_call(struct user *u, bool passive)
{
    int n = u->run->processes, target = (int)loci_sim_draw((uint32_t)n);

    switch (loci_sim_draw(16)) {
    case 0: return see(u, target);
    case 1: return look(u, (int)loci_sim_draw((uint32_t)n), target);
    case 2: return passive ? synchronize(u, target) : SIM_FINE;
    case 3: case 4: case 5: case 6: return add(u, target);
    default: return change(u, target);
    }
}

/* A call of another thread, while this one makes none. */
struct call {
    struct user *u;
    bool passive;
};

static int call_in_thread(void *arg, int thread)
{
    struct call *call = arg;

    return thread == 1 ? one_call(call->u, call->passive) : SIM_FINE;
}

static int any_call(struct user *u, bool passive)
{
    struct call call = { u, passive };

    return u->s->threads && loci_sim_draw(6) == 0 ? sim_threads(u->rt, 2, call_in_thread, &call)
                                                  : one_call(u, passive);
}

/* ---- epochs ---- */

/* What all have synchronized, in the own part; by plain loads, when all have met. */
static int check_own(struct user *u)
{
    for (int i = 0; i < u->run->processes; i++) {
        const struct past *past = past_of(u, i, u->rank);
        uint64_t value = sim_peek(base_of(u, u->rank) + WORDS + 8 * i);

        PASS(check_word(u, i, u->rank, value, past->flushed));
    }
    WANT(sim_peek(base_of(u, u->rank) + SUM) >= u->s->settled[u->rank]
         && sim_peek(base_of(u, u->rank) + SUM) <= u->s->added[u->rank],
         "the sum at p%d is %llu; %llu were added and synchronized, %llu in all", u->rank,
         (unsigned long long)sim_peek(base_of(u, u->rank) + SUM),
         (unsigned long long)u->s->settled[u->rank], (unsigned long long)u->s->added[u->rank]);
    return SIM_FINE;
}

static int epoch(struct user *u, struct sim_seat *seat)
{
    int result = SIM_FINE, status;
    bool all = loci_sim_draw(2) == 0;
    int target = (int)loci_sim_draw((uint32_t)u->run->processes);

    if (u->s->fences)
        status = LOCO_OK;
    else
        status = all ? loco_window_lock_all(u->win, 0)
                     : loco_window_lock(u->win, LOCO_LOCK_SHARED, target, 0);
    TRY(u->run, status);
    for (int i = 0; result == SIM_FINE && i < 6 * u->run->rounds; i++)
        result = u->s->fences || all ? any_call(u, !u->s->fences) : change(u, target);
    if (u->s->fences)
        status = loco_window_fence(u->win, 0);
    else
        status = all ? loco_window_unlock_all(u->win) : loco_window_unlock(u->win, target);
    PASS(sim_first(result, sim_check(u->run, status, "the end of the epoch")));
    settled(u);
    if (u->s->fences) {
        /* Nobody goes on before all have looked: after the fence nothing else may be there. */
        result = check_own(u);
        TRY(u->run, sim_meet(seat));
        return result;
    }
    TRY(u->run, sim_meet(seat));
    PASS(check_own(u));
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    int result = SIM_FINE, status;

    if (u->s->fences)
        TRY(u->run, loco_window_fence(u->win, LOCO_ASSERT_NOPRECEDE));
    for (int i = 0; i < 3 && result == SIM_FINE; i++)
        result = epoch(u, seat);
    if (!u->s->fences)
        return result;
    status = loco_window_fence(u->win, LOCO_ASSERT_NOSUCCEED);
    return sim_first(result, sim_check(u->run, status, "the last fence"));
}

/* ---- the scenario ---- */

static void choose(struct state *s)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->kind = loci_sim_draw(3) == 0 ? LOCO_WINDOW_DYNAMIC : LOCO_WINDOW_CREATE;
    s->cut = loci_sim_draw(2) == 0 ? 0 : 4 + 8 * loci_sim_draw(3);
    s->fences = loci_sim_draw(2) == 0;
    s->threads = loci_sim_draw(3) == 0;
    s->sum = loci_sim_draw(2) == 0 ? LOCO_TYPE_U64 : LOCO_TYPE_U32;
}

/* In regions that adjoin in the middle of the sum, or beside it, or of the word of one origin. */
static int attach(struct user *u)
{
    uint64_t cut = u->s->cut;

    if (cut > 0)
        TRY(u->run, loco_window_attach(u->win, base_of(u, u->rank), cut));
    TRY(u->run, loco_window_attach(u->win, base_of(u, u->rank) + cut, SIZE(u->run) - cut));
    return SIM_FINE;
}

static int make(struct user *u, struct sim_seat *seat)
{
    struct loco_exchange exchange = sim_exchange(seat);
    struct loco_window_spec spec = {
        .kind = u->s->kind, .base = base_of(u, u->rank), .size = SIZE(u->run), .disp_unit = 1,
        .one_thread = true,
    };

    TRY(u->run, loco_window_create(u->rt, &exchange, &spec, &u->win));
    if (u->s->kind == LOCO_WINDOW_DYNAMIC)
        PASS(attach(u));
    TRY(u->run, sim_meet(seat));
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct user u = { .run = run, .s = run->state, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(u.s->common.place, rt, rank);
    int result;

    choose(u.s);
    result = make(&u, &seat);
    if (result == SIM_FINE)
        result = use(&u, &seat);
    result = sim_part(&seat, result);
    if (u.win != NULL && result == 0)
        result = sim_check(run, loco_window_destroy(u.win), "destroy") == SIM_WRONG;
    return result;
}

static int begin(struct sim_run *run)
{
    size_t n = (size_t)run->processes;
    struct state *s;

    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    s->memory = calloc(n, SIZE(run));
    s->past = calloc(n * n, sizeof s->past[0]);
    s->added = calloc(n * (n + 2), sizeof s->added[0]);
    if (s->memory == NULL || s->past == NULL || s->added == NULL)
        return -1;
    s->settled = s->added + n;
    s->mine = s->settled + n;
    return 18 * run->rounds <= CALLS ? 0 : -1;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        free(s->memory);
        free(s->past);
        free(s->added);
    }
    sim_state_free(run);
}

/* As good as no patience: tickets of the locks are passed and skipped all the time. */
static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=3us",
                                        "LOCO_LOCK_PASS=2us", NULL };

extern const struct sim_scenario sim_scenario_window_gather;
const struct sim_scenario sim_scenario_window_gather = {
    .name = "window_gather",
    .about = "accumulates and puts that are gathered: one origin's happen once each and in order, "
             "it sees them at once, and all others when it has synchronized",
    .processes = 3, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};

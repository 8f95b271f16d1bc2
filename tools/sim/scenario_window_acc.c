/* SPDX-License-Identifier: BSD-3-Clause */

/* Accumulates of all sizes on one target, in a window of any kind: nothing is lost or torn,
 * overlapping ones of one origin stay in order, and the word of 8 bytes is a register. */

#include "config.h"

#include <complex.h>

#include "scenario_util.h"

#include "linear.h"

/* Where what is: one element of each size, not all aligned. */
enum {
    WORD = 0, SUM16 = 10, SUM8 = 13, SUM32 = 16, SUM_ODD = 21, PAIR = 32, VECTOR = 48,
    SWAPPED = 112, BITS = 120, ORDERED = 128
};
#define VECTOR_LEN 8            /* of 8 bytes: as many as take the lock, at first */
#define MANY 17                 /* single bytes with one between: more than one chain takes */
#define MANY_AT(run) (ORDERED + 8 * (uint64_t)((run)->processes * (run)->threads))
#define SIZE(run) (MANY_AT(run) + 2 * MANY)

enum what { DO_WORD, DO_SUM, DO_PAIR, DO_VECTOR, DO_SWAP, DO_BITS, DO_MANY, DO_ORDER, DO_COUNT };

struct state {
    struct sim_state common;
    bool drawn;
    enum loco_window_kind kind;
    bool bulk, one_thread, vectors_mostly;
    int target;
    unsigned char *memory;      /* for a window on the user's memory */
    struct loci_history history;
    uint64_t sums, pairs, vectors, swaps, many;       /* done by all */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_window_t *win;
    int rank;
};

static int accumulate(struct user *u, enum loco_type type, enum loco_op op, uint64_t offset,
                      const void *operand, void *result, size_t n)
{
    return sim_accumulate(u->win, u->s->target, type, op, offset, operand, result, n);
}

/* ---- one of each ---- */

static int do_word(struct user *u, int thread, uint64_t number)
{
    static const enum loco_op ops[] = {
        [LINEAR_READ] = LOCO_OP_NO_OP, [LINEAR_WRITE] = LOCO_OP_REPLACE,
        [LINEAR_FETCH_ADD] = LOCO_OP_SUM, [LINEAR_EXCHANGE] = LOCO_OP_REPLACE,
    };
    int op = (int)loci_sim_draw(5), at;
    uint64_t arg = op == LINEAR_READ ? 0 : number, expected = loci_sim_draw(3), result = 0;

    at = loci_history_call(&u->s->history, loci_history_client(u->rank, thread), op, 0,
                           op == LINEAR_CAS ? expected : arg, arg);
    if (op == LINEAR_CAS)
        TRY(u->run, loco_window_compare_swap(u->win, u->s->target, LOCO_TYPE_U64, WORD, &expected,
                                             &arg, &result));
    else
        TRY(u->run, accumulate(u, LOCO_TYPE_U64, ops[op], WORD, &arg,
                               op == LINEAR_WRITE ? NULL : &result, 1));
    /* Without a result it may not have been applied. */
    if (op == LINEAR_WRITE)
        TRY(u->run, loco_window_flush(u->win, u->s->target));
    loci_history_return(&u->s->history, at, 1, result);
    return SIM_FINE;
}

/* One more in each size; one of them across words. */
static int do_sum(struct user *u)
{
    uint8_t one8 = 1;
    uint16_t one16 = 1;
    uint32_t one32 = 1;

    TRY(u->run, accumulate(u, LOCO_TYPE_U8, LOCO_OP_SUM, SUM8, &one8, NULL, 1));
    TRY(u->run, accumulate(u, LOCO_TYPE_U16, LOCO_OP_SUM, SUM16, &one16, NULL, 1));
    TRY(u->run, accumulate(u, LOCO_TYPE_U32, LOCO_OP_SUM, SUM32, &one32, NULL, 1));
    TRY(u->run, accumulate(u, LOCO_TYPE_U32, LOCO_OP_SUM, SUM_ODD, &one32, NULL, 1));
    u->s->sums++;
    return SIM_FINE;
}

static int do_pair(struct user *u)
{
    double complex one = 1 + 1 * I, old = 0;

    TRY(u->run, accumulate(u, LOCO_TYPE_C64, LOCO_OP_SUM, PAIR, &one, &old, 1));
    WANT(creal(old) == cimag(old), "p%d: an element of 16 bytes is torn: %g and %g", u->rank,
         creal(old), cimag(old));
    u->s->pairs++;
    return SIM_FINE;
}

/* Whole, as two spans, or half of it by itself and then the other. */
static int do_vector(struct user *u)
{
    const int64_t one[VECTOR_LEN] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const size_t half = VECTOR_LEN / 2, bytes = 8 * half;
    const struct loco_span spans[] = { { NULL, VECTOR, bytes }, { NULL, VECTOR + bytes, bytes } };
    int64_t old[VECTOR_LEN] = { 0 };
    const struct loco_accumulate both = {
        .type = LOCO_TYPE_I64, .op = LOCO_OP_SUM, .operand = one, .result = old, .spans = spans,
        .nspans = 2,
    };
    uint32_t how = loci_sim_draw(u->s->vectors_mostly ? 8 : 3);

    if (how == 0) {
        TRY(u->run, accumulate(u, LOCO_TYPE_I64, LOCO_OP_SUM, VECTOR, one, old, half));
        TRY(u->run, accumulate(u, LOCO_TYPE_I64, LOCO_OP_SUM, VECTOR + bytes, one, NULL, half));
    } else if (how == 1) {
        TRY(u->run, loco_window_accumulate(u->win, u->s->target, &both, NULL));
    } else {
        TRY(u->run, accumulate(u, LOCO_TYPE_I64, LOCO_OP_SUM, VECTOR, one, old, VECTOR_LEN));
    }
    u->s->vectors++;
    return SIM_FINE;
}

static int do_many(struct user *u)
{
    struct loco_span spans[MANY];
    uint8_t one[MANY], old[MANY];
    const struct loco_accumulate all = {
        .type = LOCO_TYPE_U8, .op = LOCO_OP_SUM, .operand = one, .result = old, .spans = spans,
        .nspans = MANY,
    };

    for (size_t i = 0; i < MANY; i++) {
        spans[i] = (struct loco_span){ NULL, MANY_AT(u->run) + 2 * i, 1 };
        one[i] = 1;
    }
    TRY(u->run, loco_window_accumulate(u->win, u->s->target, &all, NULL));
    u->s->many++;
    return SIM_FINE;
}

static int do_swap(struct user *u)
{
    int32_t seen = 0, next, old = 0;

    for (;;) {
        next = seen + 1;
        TRY(u->run, loco_window_compare_swap(u->win, u->s->target, LOCO_TYPE_I32, SWAPPED, &seen,
                                             &next, &old));
        if (old == seen)
            break;
        seen = old;
    }
    u->s->swaps++;
    return SIM_FINE;
}

/* Its own bit of a byte is as each left it. */
static int do_bits(struct user *u, int thread)
{
    uint8_t mine = (uint8_t)(1u << (u->rank * u->run->threads + thread) % 8), old = 0;

    if (u->run->processes * u->run->threads > 8)
        return SIM_FINE;
    TRY(u->run, accumulate(u, LOCO_TYPE_U8, LOCO_OP_BOR, BITS, &mine, &old, 1));
    WANT((old & mine) == 0, "p%d: its bit is set, and was cleared", u->rank);
    TRY(u->run, accumulate(u, LOCO_TYPE_BYTE, LOCO_OP_BXOR, BITS, &mine, &old, 1));
    WANT((old & mine) != 0, "p%d: its bit is cleared, and was set", u->rank);
    return SIM_FINE;
}

/* Overlapping ones of one origin: both halves, then all, then the halves are what the last made
 * them. Only this thread writes there. */
static int do_order(struct user *u, int thread, uint32_t number)
{
    uint64_t at = ORDERED + 8 * (uint64_t)(u->rank * u->run->threads + thread);
    uint32_t half[2] = { number, number + 1 }, old[2] = { 0 };
    uint64_t whole = (uint64_t)(number + 3) << 32 | (number + 2), before = 0;

    TRY(u->run, accumulate(u, LOCO_TYPE_U32, LOCO_OP_REPLACE, at, half, NULL, 2));
    TRY(u->run, accumulate(u, LOCO_TYPE_U64, LOCO_OP_REPLACE, at, &whole, &before, 1));
    TRY(u->run, accumulate(u, LOCO_TYPE_U32, LOCO_OP_NO_OP, at, NULL, old, 2));
    WANT(memcmp(&before, half, 8) == 0 && memcmp(old, &whole, 8) == 0,
         "p%d: its accumulates are out of order: %llx, then %x %x", u->rank,
         (unsigned long long)before, old[0], old[1]);
    return SIM_FINE;
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;

    for (int i = 1; i <= u->run->rounds; i++) {
        uint64_t number = (uint64_t)(i + 100 * (thread + 64 * u->rank));

        bool vector = u->s->vectors_mostly && loci_sim_draw(4) > 0;

        switch (vector ? DO_VECTOR : (enum what)loci_sim_draw(DO_COUNT)) {
        case DO_SUM: PASS(do_sum(u)); break;
        case DO_PAIR: PASS(do_pair(u)); break;
        case DO_VECTOR: PASS(do_vector(u)); break;
        case DO_SWAP: PASS(do_swap(u)); break;
        case DO_BITS: PASS(do_bits(u, thread)); break;
        case DO_MANY: PASS(do_many(u)); break;
        case DO_ORDER: PASS(do_order(u, thread, (uint32_t)number)); break;
        default: PASS(do_word(u, thread, number));
        }
    }
    return SIM_FINE;
}

/* ---- the end ---- */

/* At the target, once nobody writes any more. */
static int check_memory(struct user *u)
{
    const unsigned char *p = loco_window_base(u->win);
    struct state *s = u->s;
    uint32_t sum32 = 0, odd = 0;
    uint16_t sum16 = 0;
    double pair[2];
    int64_t vector[VECTOR_LEN];
    int32_t swapped = 0;

    memcpy(&sum16, p + SUM16, 2);
    memcpy(&sum32, p + SUM32, 4);
    memcpy(&odd, p + SUM_ODD, 4);
    memcpy(pair, p + PAIR, 16);
    memcpy(vector, p + VECTOR, sizeof vector);
    memcpy(&swapped, p + SWAPPED, 4);
    WANT(p[SUM8] == (uint8_t)s->sums && sum16 == s->sums && sum32 == s->sums && odd == s->sums,
         "after %llu additions the sums are %u (1 byte), %u (2), %u (4), %u (4, not aligned)",
         (unsigned long long)s->sums, p[SUM8], sum16, sum32, odd);
    WANT(pair[0] == (double)s->pairs && pair[1] == (double)s->pairs,
         "after %llu additions the pair is %g, %g", (unsigned long long)s->pairs, pair[0], pair[1]);
    for (int i = 0; i < VECTOR_LEN; i++)
        WANT(vector[i] == (int64_t)s->vectors, "after %llu additions element %d is %lld",
             (unsigned long long)s->vectors, i, (long long)vector[i]);
    WANT(swapped == (int32_t)s->swaps, "after %llu swaps it is %d", (unsigned long long)s->swaps,
         swapped);
    for (int i = 0; i < MANY; i++)
        WANT(p[MANY_AT(u->run) + 2 * (uint64_t)i] == (uint8_t)s->many,
             "after %llu additions to single bytes one is %u", (unsigned long long)s->many,
             p[MANY_AT(u->run) + 2 * (uint64_t)i]);
    WANT(p[BITS] == 0 && p[8] == 0 && p[14] == 0 && p[20] == 0 && p[25] == 0,
         "bytes that nobody left set are: %d %d %d %d %d", p[BITS], p[8], p[14], p[20], p[25]);
    return SIM_FINE;
}

static int use(struct user *u, loco_runtime_t *rt, struct sim_seat *seat)
{
    int result, status;

    TRY(u->run, loco_window_lock_all(u->win, 0));
    result = u->s->one_thread ? thread_main(u, 0)
             : sim_threads(rt, u->run->threads, thread_main, u);
    status = loco_window_unlock_all(u->win);
    PASS(sim_first(result, sim_check(u->run, status, "unlock_all")));
    TRY(u->run, sim_meet(seat));
    return u->rank == u->s->target ? check_memory(u) : SIM_FINE;
}

static void choose(struct state *s, int n)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->kind = loci_sim_draw(2) == 0 ? LOCO_WINDOW_ALLOCATE : LOCO_WINDOW_CREATE;
    s->bulk = loci_sim_draw(3) == 0;
    s->one_thread = loci_sim_draw(3) == 0;
    s->vectors_mostly = loci_sim_draw(2) == 0;
    s->target = (int)loci_sim_draw((uint32_t)n);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct loco_exchange exchange = sim_exchange(&seat);
    struct loco_window_spec spec = { .size = SIZE(run), .disp_unit = 1 };
    int result;

    choose(s, run->processes);
    spec.kind = s->kind;
    spec.base = s->memory + (size_t)rank * spec.size;
    spec.bulk_accumulate = s->bulk;
    spec.one_thread = s->one_thread;
    result = sim_check(run, loco_window_create(rt, &exchange, &spec, &u.win), "create");
    if (result == SIM_FINE)
        result = use(&u, rt, &seat);
    result = sim_part(&seat, result);
    if (u.win != NULL && result == 0)
        result = sim_check(run, loco_window_destroy(u.win), "destroy") == SIM_WRONG;
    return result;
}

static int begin(struct sim_run *run)
{
    struct state *s;

    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    loci_history_init(&s->history, loci_linear_forms(LINEAR_REGISTER));
    s->memory = calloc((size_t)run->processes, SIZE(run));
    return s->memory == NULL ? -1 : 0;
}

static int end(struct sim_run *run)
{
    return sim_check_register(&((struct state *)run->state)->history);
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        loci_history_fini(&s->history);
        free(s->memory);
    }
    sim_state_free(run);
}

/* As good as no patience: tickets of its locks are passed and skipped all the time. */
static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=3us",
                                        "LOCO_LOCK_PASS=2us", "LOCO_ACC_SINGLES=2",
                                        "LOCO_ACC_VECTORS=9", NULL };

extern const struct sim_scenario sim_scenario_window_acc;
const struct sim_scenario sim_scenario_window_acc = {
    .name = "window_acc",
    .about = "elements of 1, 2, 4, 8 and 16 bytes, vectors and compare_swap, in every discipline: "
             "sums and bits are exact, one origin's are in order, a word is linearizable",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = drop,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Single elements and vectors come in bursts to the same elements, so that accumulates there change
 * between the lock and atomics all the time, in both directions: nothing is lost, and no two are
 * told the same old value. */

#include "config.h"

#include "scenario_util.h"
#include "window/window.h"

enum { ELEMENTS = LOCI_WINDOW_LONG, MOST = 512 };

struct element {
    uint64_t begun, done;           /* additions of 1 */
    unsigned char told[MOST];       /* how often it was told as the old value */
};

struct state {
    struct sim_state common;
    bool drawn;
    int targets;
    bool several;                   /* threads in some processes */
    struct element *element;        /* [targets][ELEMENTS] */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_window_t *win;
    int rank;
};

static struct element *element_of(struct user *u, int target, int k)
{
    return &u->s->element[target * ELEMENTS + k];
}

/* n elements from the k-th on. */
static void begin_adding(struct user *u, int target, int k, int n)
{
    for (int i = k; i < k + n; i++)
        element_of(u, target, i)->begun++;
}

static int end_adding(struct user *u, int target, int k, int n, const uint64_t *old)
{
    for (int i = k; i < k + n; i++) {
        struct element *e = element_of(u, target, i);

        e->done++;
        WANT(old == NULL || old[i - k] < e->begun, "p%d is told %llu of an element that was added "
             "to %llu times", u->rank, (unsigned long long)old[i - k],
             (unsigned long long)e->begun);
        WANT(old == NULL || old[i - k] >= MOST || e->told[old[i - k]]++ == 0,
             "p%d is told %llu, as another was", u->rank, (unsigned long long)old[i - k]);
    }
    return SIM_FINE;
}

/* By the inline paths, as the component does; false: the window's function is to do it. */
static bool add_inline(struct user *u, int target, int k, int n, const uint64_t *one,
                       uint64_t *old)
{
    uint64_t offset = 8 * (uint64_t)k;
    struct loci_combine how;

    if (loci_sim_draw(2) == 0)
        return loci_window_accumulate_run(u->win, target, LOCO_TYPE_U64, LOCO_OP_SUM, offset,
                                          (size_t)n, one, old) == LOCO_OK;
    if (n == 1 && old != NULL)
        return loci_window_fetch_word(u->win, target, LOCO_OP_SUM, offset, one, old);
    return old == NULL
           && loci_window_combine_open(u->win, LOCO_TYPE_U64, LOCO_OP_SUM, &how)
           && loci_window_combine(u->win, target, &how, offset, (size_t)n, one);
}

static int add(struct user *u, int target, int k, int n)
{
    uint64_t one[ELEMENTS], old[ELEMENTS];
    bool wants = loci_sim_draw(2) == 0;

    for (int i = 0; i < n; i++)
        one[i] = 1;
    begin_adding(u, target, k, n);
    if (loci_sim_draw(2) == 0 || !add_inline(u, target, k, n, one, wants ? old : NULL))
        TRY(u->run, sim_accumulate(u->win, target, LOCO_TYPE_U64, LOCO_OP_SUM, 8 * (uint64_t)k,
                                   one, wants ? old : NULL, (size_t)n));
    return end_adding(u, target, k, n, wants ? old : NULL);
}

static int add_by_swap(struct user *u, int target, int k)
{
    uint64_t offset = 8 * (uint64_t)k, seen = 0, next, old = 0;

    begin_adding(u, target, k, 1);
    for (;;) {
        next = seen + 1;
        if (loci_sim_draw(2) == 0
            || !loci_window_swap_word(u->win, target, offset, &seen, &next, &old))
            TRY(u->run, loco_window_compare_swap(u->win, target, LOCO_TYPE_U64, offset, &seen,
                                                 &next, &old));
        if (old == seen)
            return end_adding(u, target, k, 1, &old);
        seen = old;
    }
}

static int burst(struct user *u, int target)
{
    int n = 1 + (int)loci_sim_draw(4), k = (int)loci_sim_draw(ELEMENTS);
    uint32_t what = loci_sim_draw(5);

    for (int i = 0; i < n; i++) {
        if (what < 2)
            PASS(add(u, target, 0, ELEMENTS));
        else if (what == 2)
            PASS(add_by_swap(u, target, k));
        else
            PASS(add(u, target, k, 1));
    }
    return SIM_FINE;
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++)
        PASS(burst(u, (int)loci_sim_draw((uint32_t)u->s->targets)));
    return SIM_FINE;
}

/* Now and then alone, where neither lock nor atomics are needed. */
static int round_alone(struct user *u)
{
    enum loco_lock_kind kind = loci_sim_draw(2) == 0 ? LOCO_LOCK_EXCLUSIVE : LOCO_LOCK_SHARED;
    int target = (int)loci_sim_draw((uint32_t)u->s->targets), result, status;

    TRY(u->run, loco_window_lock(u->win, kind, target, 0));
    result = burst(u, target);
    status = loco_window_unlock(u->win, target);
    return sim_first(result, sim_check(u->run, status, "unlock"));
}

static int use(struct user *u, loco_runtime_t *rt, bool several)
{
    int result, status;

    for (int i = 0; i < 2 && !several; i++)
        PASS(round_alone(u));
    TRY(u->run, loco_window_lock_all(u->win, 0));
    result = several ? sim_threads(rt, 2, thread_main, u) : thread_main(u, 0);
    status = loco_window_unlock_all(u->win);
    return sim_first(result, sim_check(u->run, status, "unlock_all"));
}

/* At the target, once nobody writes any more. */
static int check_memory(struct user *u)
{
    const uint64_t *p = loco_window_base(u->win);

    for (int k = 0; u->rank < u->s->targets && k < ELEMENTS; k++) {
        const struct element *e = element_of(u, u->rank, k);

        WANT(p[k] >= e->done && p[k] <= e->begun, "after %llu additions, of %llu that began, "
             "element %d of p%d is %llu", (unsigned long long)e->done,
             (unsigned long long)e->begun, k, u->rank, (unsigned long long)p[k]);
    }
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct loco_exchange exchange = sim_exchange(&seat);
    struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_ALLOCATE, .size = 8 * ELEMENTS, .disp_unit = 1, .one_thread = true,
    };
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->targets = 1 + (int)loci_sim_draw(run->processes > 1 ? 2 : 1);
        s->several = loci_sim_draw(6) == 0;
    }
    if (s->several && loci_sim_draw(3) == 0)
        spec.one_thread = false;
    result = sim_check(run, loco_window_create(rt, &exchange, &spec, &u.win), "create");
    if (result == SIM_FINE)
        result = use(&u, rt, !spec.one_thread);
    if (result == SIM_FINE)
        result = sim_check(run, sim_meet(&seat), "meet");
    if (result == SIM_FINE)
        result = check_memory(&u);
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
    s->element = calloc((size_t)run->processes * ELEMENTS, sizeof s->element[0]);
    return s->element == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL)
        free(s->element);
    sim_state_free(run);
}

/* Every other burst changes the way, until changes do not pay. */
static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=3us",
                                        "LOCO_LOCK_PASS=2us", "LOCO_ACC_SINGLES=2",
                                        "LOCO_ACC_VECTORS=4", NULL };

extern const struct sim_scenario sim_scenario_window_ways;
const struct sim_scenario sim_scenario_window_ways = {
    .name = "window_ways",
    .about = "bursts of single elements, vectors and compare_swap on the same elements, which go "
             "between lock and atomics: sums are exact, and each old value is told once",
    .processes = 3, .threads = 1, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers are child processes that share one block of memory. Each takes chunks of items (a number,
 * or a number with a stop) from a counter, and notes in its own slot at which item it is; where it
 * crashes or hangs, the item there is a finding, and a new child goes on behind it. A child also
 * ends by itself now and then, so that what runs leave behind does not pile up. */
#include "config.h"

#include "crew.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "distinct.h"

#define CHILD_RUNS 2000
#define CHILD_KIB (512 << 10)   /* of resident memory, and a child is done */
#define MOST_CHUNK 64
#define UNKNOWN_COUNT 4000000   /* of schedules, to be expected where only the time is limited */

/* Written by its worker alone, but for what its child left undone. */
struct slot {
    _Atomic uint64_t at, end;   /* the item that runs; behind the last of the chunk */
    _Atomic uint64_t steps, choices;
    _Atomic uint64_t verdict[SIM_VERDICTS];
};

struct shared {
    _Atomic uint64_t next;      /* the first item that nobody has taken */
    _Atomic uint64_t until;     /* items from here on are of no interest any more */
    _Atomic bool stop;
    _Atomic uint64_t failures;
    struct sim_finding finding[SIM_FINDINGS];
    struct slot slot[];
};

struct crew {
    const struct sim_work *work;
    struct shared *shared;
    size_t shared_len;
    struct sim_distinct *distinct;
    uint64_t *steps;            /* stop_every: of each process in each number's calm run, later: the
                                   items before these stops; shared */
    size_t steps_len;
    bool stops;                 /* items are stops now, not numbers */
    uint64_t count;             /* items, or UINT64_MAX */
    uint64_t chunk;
    uint64_t before;            /* items done before the stops began */
    double begin;
    pid_t *child;               /* by slot; 0: done */
};

static atomic_bool interrupted;         /* a signal has no other place to leave it */

bool sim_interrupted(void)
{
    return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

static void on_signal(int number)
{
    (void)number;
    atomic_store_explicit(&interrupted, true, memory_order_relaxed);
}

void sim_catch_interrupts(void)
{
    struct sigaction action = { .sa_handler = on_signal };

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- items ---- */

/* The last place of the table whose stops begin at or before this item. */
static size_t place_of_stop(const struct crew *crew, uint64_t item)
{
    size_t low = 0, high = (size_t)crew->work->count * (size_t)crew->work->base.processes;

    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;

        if (crew->steps[middle] <= item)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void case_of(const struct crew *crew, uint64_t item, struct sim_case *c)
{
    size_t place, processes = (size_t)crew->work->base.processes;

    *c = crew->work->base;
    c->number = crew->work->first + item;
    if (!crew->stops)
        return;
    place = place_of_stop(crew, item);
    c->number = crew->work->first + place / processes;
    c->stop_process = (int)(place % processes);
    c->stop_step = 1 + item - crew->steps[place];
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* By a worker, or by the parent in the name of one that crashed. */
static void report(struct crew *crew, struct slot *slot, uint64_t item, int verdict,
                   const char *text)
{
    struct shared *shared = crew->shared;
    uint64_t n, until = get(&shared->until);

    add(&slot->verdict[verdict], 1);
    if (verdict == LOCI_SIM_PASSED)
        return;
    n = atomic_fetch_add_explicit(&shared->failures, 1, memory_order_relaxed);
    if (n < SIM_FINDINGS) {
        struct sim_finding *f = &shared->finding[n];

        case_of(crew, item, &f->c);
        f->item = crew->before + item;
        f->verdict = verdict;
        snprintf(f->text, sizeof f->text, "%s", text);
    }
    /* What is before it still runs, so that the first failure is always the same one. */
    while (!crew->work->keep_going && item < until
           && !atomic_compare_exchange_weak_explicit(&shared->until, &until, item,
                                                     memory_order_relaxed, memory_order_relaxed))
        ;
}

static void run_item(struct crew *crew, struct slot *slot, uint64_t item)
{
    struct loci_sim_faults faults;
    struct loci_sim_result r;
    uint64_t *steps = NULL;
    struct sim_case c;

    case_of(crew, item, &c);
    if (crew->steps != NULL && !crew->stops)
        steps = &crew->steps[(size_t)item * (size_t)c.processes];
    sim_child_limit(crew->work->limit);
    if (sim_case_faults(&c, &faults, &r)) {
        add(&slot->steps, r.steps);
        free(r.decisions);
        sim_case_run(&c, &faults, NULL, steps, &r);
    }
    add(&slot->steps, r.steps);
    add(&slot->choices, r.choices);
    sim_distinct_add(crew->distinct, r.schedule);
    report(crew, slot, item, (int)r.verdict, r.text);
    free(r.decisions);
}

/* ---- a child ---- */

static bool take_item(struct crew *crew, struct slot *slot)
{
    struct shared *shared = crew->shared;
    uint64_t at = get(&slot->at), end;

    if (at == get(&slot->end)) {
        at = atomic_fetch_add_explicit(&shared->next, crew->chunk, memory_order_relaxed);
        if (at >= crew->count)
            return false;
        end = crew->count - at < crew->chunk ? crew->count : at + crew->chunk;
        atomic_store_explicit(&slot->at, at, memory_order_relaxed);
        atomic_store_explicit(&slot->end, end, memory_order_relaxed);
    }
    return at < get(&shared->until);
}

static bool is_large(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > CHILD_KIB;
}

static void child_main(struct crew *crew, struct slot *slot) __attribute__((noreturn));

static void child_main(struct crew *crew, struct slot *slot)
{
    for (int n = 0; n < CHILD_RUNS && !is_large(); n++) {
        if (atomic_load_explicit(&crew->shared->stop, memory_order_relaxed)
            || !take_item(crew, slot))
            _exit(SIM_CHILD_GOOD);
        run_item(crew, slot, get(&slot->at));
        add(&slot->at, 1);
    }
    _exit(SIM_CHILD_BAD);
}

/* ---- the parent ---- */

static bool start(struct crew *crew, int i)
{
    fflush(NULL);
    crew->child[i] = sim_child_fork();
    if (crew->child[i] == 0)
        child_main(crew, &crew->shared->slot[i]);
    if (crew->child[i] > 0)
        return true;
    fprintf(stderr, "loco-sim: no child process: %s\n", strerror(errno));
    crew->child[i] = 0;
    atomic_store_explicit(&crew->shared->stop, true, memory_order_relaxed);
    return false;
}

/* One of ours has ended: done, or to be followed by another. */
static bool ended(struct crew *crew, int i, int status)
{
    struct slot *slot = &crew->shared->slot[i];
    char text[200];
    int verdict = sim_child_verdict(status, text, sizeof text);

    crew->child[i] = 0;
    if (verdict == LOCI_SIM_PASSED)
        return WEXITSTATUS(status) == SIM_CHILD_GOOD || start(crew, i);
    if (get(&slot->at) == get(&slot->end)) {
        fprintf(stderr, "loco-sim: a worker itself has ended: %s\n", text);
        return false;
    }
    report(crew, slot, get(&slot->at), verdict, text);
    add(&slot->at, 1);
    return start(crew, i);
}

/* False: something failed here. *left: those that still work. */
static bool reap(struct crew *crew, int *left)
{
    bool good = true;

    *left = 0;
    for (int i = 0; i < crew->work->jobs; i++) {
        int status;

        if (crew->child[i] > 0 && waitpid(crew->child[i], &status, WNOHANG) == crew->child[i])
            good = ended(crew, i, status) && good;
        *left += crew->child[i] > 0;
    }
    return good;
}

static uint64_t runs(const struct crew *crew)
{
    uint64_t n = 0;

    for (int i = 0; i < crew->work->jobs; i++)
        for (int v = 0; v < SIM_VERDICTS; v++)
            n += get(&crew->shared->slot[i].verdict[v]);
    return n;
}

static void look(struct crew *crew)
{
    const struct sim_work *work = crew->work;
    struct sim_state_of_work state = {
        .name = work->base.scenario->name, .unit = crew->stops ? "stops" : "seeds",
        .done = runs(crew) - crew->before, .count = crew->count == UINT64_MAX ? 0 : crew->count,
        .elapsed = sim_now() - crew->begin, .seconds = work->seconds,
        .failures = get(&crew->shared->failures),
    };

    if (sim_interrupted() || (work->seconds > 0 && state.elapsed >= work->seconds))
        atomic_store_explicit(&crew->shared->stop, true, memory_order_relaxed);
    sim_progress_show(work->progress, &state);
}

/* All items, by all workers. */
static bool run_items(struct crew *crew, uint64_t count)
{
    const struct sim_work *work = crew->work;
    struct timespec nap = { 0, 1000000 };
    uint64_t share = count / (uint64_t)(8 * work->jobs);
    bool good = true;
    int left = work->jobs;

    crew->count = count;
    crew->chunk = share < 1 ? 1 : share > MOST_CHUNK ? MOST_CHUNK : share;
    atomic_store_explicit(&crew->shared->next, 0, memory_order_relaxed);
    for (int i = 0; i < work->jobs; i++) {
        atomic_store_explicit(&crew->shared->slot[i].at, 0, memory_order_relaxed);
        atomic_store_explicit(&crew->shared->slot[i].end, 0, memory_order_relaxed);
        good = start(crew, i) && good;
    }
    while (left > 0) {
        nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec < 50000000 ? nap.tv_nsec * 2 : nap.tv_nsec;
        good = reap(crew, &left) && good;
        look(crew);
    }
    return good;
}

/* The table of steps becomes one of the items before each place; returns all of them. */
static uint64_t sum_steps(struct crew *crew)
{
    size_t n = (size_t)crew->work->count * (size_t)crew->work->base.processes;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t steps = crew->steps[i];

        crew->steps[i] = sum;
        sum += steps;
    }
    return sum;
}

static bool run_stops(struct crew *crew)
{
    struct shared *shared = crew->shared;

    if (atomic_load_explicit(&shared->stop, memory_order_relaxed)
        || get(&shared->until) != UINT64_MAX)
        return true;
    crew->before = runs(crew);
    crew->stops = true;
    return run_items(crew, sum_steps(crew));
}

/* ---- begin and end ---- */

static void *share(size_t len)
{
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static bool open_crew(struct crew *crew, const struct sim_work *work)
{
    uint64_t expected = work->count > 0 ? work->count : UNKNOWN_COUNT;

    *crew = (struct crew){ .work = work, .begin = sim_now() };
    crew->shared_len = sizeof *crew->shared + (size_t)work->jobs * sizeof crew->shared->slot[0];
    crew->shared = share(crew->shared_len);
    crew->child = calloc((size_t)work->jobs, sizeof crew->child[0]);
    crew->distinct = sim_distinct_create(work->stop_every ? UNKNOWN_COUNT : expected);
    if (crew->shared == NULL || crew->child == NULL || crew->distinct == NULL)
        return false;
    atomic_store_explicit(&crew->shared->until, UINT64_MAX, memory_order_relaxed);
    if (!work->stop_every)
        return true;
    crew->steps_len = (size_t)work->count * (size_t)work->base.processes * sizeof crew->steps[0];
    crew->steps = share(crew->steps_len);
    return crew->steps != NULL;
}

static void close_crew(struct crew *crew)
{
    if (crew->shared != NULL)
        munmap(crew->shared, crew->shared_len);
    if (crew->steps != NULL)
        munmap(crew->steps, crew->steps_len);
    sim_distinct_destroy(crew->distinct);
    free(crew->child);
}

static int by_item(const void *a, const void *b)
{
    const struct sim_finding *one = a, *other = b;

    return one->item < other->item ? -1 : one->item > other->item;
}

static void sum_up(const struct crew *crew, struct sim_tally *tally)
{
    memset(tally, 0, sizeof *tally);
    for (int i = 0; i < crew->work->jobs; i++) {
        const struct slot *slot = &crew->shared->slot[i];

        tally->steps += get(&slot->steps);
        tally->choices += get(&slot->choices);
        for (int v = 0; v < SIM_VERDICTS; v++)
            tally->verdict[v] += get(&slot->verdict[v]);
    }
    tally->seeds = runs(crew);
    tally->distinct = sim_distinct_count(crew->distinct);
    tally->distinct_more = sim_distinct_full(crew->distinct);
    tally->seconds = sim_now() - crew->begin;
    tally->failures = get(&crew->shared->failures);
    tally->findings = tally->failures < SIM_FINDINGS ? (int)tally->failures : SIM_FINDINGS;
    memcpy(tally->finding, crew->shared->finding, sizeof tally->finding);
    qsort(tally->finding, (size_t)tally->findings, sizeof tally->finding[0], by_item);
}

int sim_crew_run(const struct sim_work *work, struct sim_tally *tally)
{
    struct crew crew;
    bool good = open_crew(&crew, work);

    memset(tally, 0, sizeof *tally);
    if (!good)
        fprintf(stderr, "loco-sim: no memory to explore %s: %s\n", work->base.scenario->name,
                strerror(errno));
    else {
        good = run_items(&crew, work->count > 0 ? work->count : UINT64_MAX);
        if (good && work->stop_every)
            good = run_stops(&crew);
        sum_up(&crew, tally);
    }
    sim_progress_clear(work->progress);
    close_crew(&crew);
    return good ? 0 : -1;
}

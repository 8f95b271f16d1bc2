/* SPDX-License-Identifier: BSD-3-Clause */

/* One point: all processes make the channel, use it once to open their lanes, then so many rounds
 * that begin for all at the same time. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/loco.h>

#include "child.h"
#include "progress.h"
#include "scale.h"

#define FIRST_NAP INT64_C(10000)        /* ns */
#define LONGEST_NAP INT64_C(10000000)

const char *const sim_count_names[SIM_COUNTS] = {
    "writes", "reads", "atomics", "places", "bytes",
};

struct measure {
    const struct sim_scenario *scenario;
    int processes, rounds;
    int arrived, generation;
    int64_t start;                      /* of this round */
    int64_t *begin, *end;               /* [round * processes + rank] */
    uint64_t *count;                    /* [rank * SIM_COUNTS + which], over all rounds */
};

static void counts_of(loco_runtime_t *rt, uint64_t *count)
{
    const struct loci_sim_counts c = loci_sim_counts(rt);

    count[SIM_WRITES] = c.writes;
    count[SIM_READS] = c.reads;
    count[SIM_ATOMICS] = c.atomics;
    count[SIM_PLACES] = c.places;
    count[SIM_BYTES] = c.bytes;
}

/* All begin at a time when each has looked whether all are there. They sleep meanwhile: what waits
 * otherwise would be counted. */
static void line_up(struct measure *m)
{
    int generation = m->generation;
    int64_t nap = FIRST_NAP;

    if (++m->arrived == m->processes) {
        m->arrived = 0;
        m->start = loci_sim_time() + 2 * LONGEST_NAP;
        m->generation++;
    }
    while (m->generation == generation) {
        loci_sim_sleep(nap);
        nap = 2 * nap < LONGEST_NAP ? 2 * nap : LONGEST_NAP;
    }
    loci_sim_sleep(m->start - loci_sim_time());
}

static int measure_rounds(struct measure *m, loco_runtime_t *rt, int rank, void *channel)
{
    uint64_t before[SIM_COUNTS], after[SIM_COUNTS];

    for (int round = -1; round < m->rounds; round++) {
        int64_t *at = NULL;
        int status;

        line_up(m);
        if (round == 0)
            counts_of(rt, before);
        if (round >= 0) {
            at = &m->begin[round * m->processes + rank];
            *at = loci_sim_time();
        }
        status = m->scenario->scale_once(rt, channel, rank, round + 1);
        if (status != LOCO_OK)
            return loci_sim_fail("p%d, round %d: %s", rank, round, loco_strerror(status));
        if (round >= 0)
            m->end[round * m->processes + rank] = loci_sim_time();
    }
    counts_of(rt, after);
    for (int i = 0; i < SIM_COUNTS; i++)
        m->count[rank * SIM_COUNTS + i] = after[i] - before[i];
    line_up(m);
    return 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct measure *m = arg;
    void *channel = m->scenario->scale_setup(rt, rank, m->processes);
    int result;

    if (channel == NULL)
        return loci_sim_fail("p%d: the channel cannot be made", rank);
    result = measure_rounds(m, rt, rank, channel);
    m->scenario->scale_done(rt, channel);
    return result;
}

/* ---- what it comes to ---- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void times(const struct measure *m, struct sim_scale_point *point)
{
    int64_t sum = 0, all = 0;
    int calls = m->processes * m->rounds;

    for (int round = 0; round < m->rounds; round++) {
        int64_t first = INT64_MAX, last = 0;

        for (int i = round * m->processes; i < (round + 1) * m->processes; i++) {
            first = m->begin[i] < first ? m->begin[i] : first;
            last = m->end[i] > last ? m->end[i] : last;
        }
        all += last - first;
    }
    for (int i = 0; i < calls; i++) {
        m->end[i] -= m->begin[i];
        sum += m->end[i];
    }
    qsort(m->end, (size_t)calls, sizeof m->end[0], compare);
    point->median_ns = m->end[calls / 2];
    point->max_ns = m->end[calls - 1];
    point->mean_ns = sum / calls;
    point->all_ns = all / m->rounds;
}

static void counts(const struct measure *m, struct sim_scale_point *point)
{
    for (int which = 0; which < SIM_COUNTS; which++) {
        uint64_t sum = 0, max = 0;

        for (int rank = 0; rank < m->processes; rank++) {
            uint64_t one = m->count[rank * SIM_COUNTS + which];

            sum += one;
            max = one > max ? one : max;
        }
        point->mean[which] = (double)sum / m->rounds / m->processes;
        point->max[which] = (double)max / m->rounds;
    }
}

static void run(struct measure *m, const struct loci_sim_cost *cost,
                struct sim_scale_point *point)
{
    const struct loci_sim_config config = {
        .processes = m->processes, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = m->scenario->settings,
        .step_limit = UINT64_MAX, .cost = cost,
    };
    struct loci_sim_result result;

    loci_sim_run(&config, body, m, &result);
    free(result.decisions);
    point->steps = result.steps;
    point->failed = result.verdict != LOCI_SIM_PASSED;
    snprintf(point->text, sizeof point->text, "%s", result.text);
    if (!point->failed) {
        times(m, point);
        counts(m, point);
    }
}

static void measure(const struct sim_scenario *scenario, const struct loci_sim_cost *cost,
                    int processes, int rounds, struct sim_scale_point *point)
{
    size_t n = (size_t)processes, calls = n * (size_t)rounds;
    struct measure m = { .scenario = scenario, .processes = processes, .rounds = rounds };
    double begin = sim_now();

    m.begin = calloc(calls, sizeof m.begin[0]);
    m.end = calloc(calls, sizeof m.end[0]);
    m.count = calloc(n * SIM_COUNTS, sizeof m.count[0]);
    if (m.begin == NULL || m.end == NULL || m.count == NULL) {
        point->failed = true;
        snprintf(point->text, sizeof point->text, "out of memory");
    } else {
        run(&m, cost, point);
    }
    point->real = sim_now() - begin;
    free(m.begin);
    free(m.end);
    free(m.count);
}

void sim_scale_measure(const struct sim_scenario *scenario, const struct loci_sim_cost *cost,
                       int processes, int rounds, struct sim_scale_point *point)
{
    struct sim_scale_point got = { .processes = processes };
    int ends[2], status = 0;
    pid_t child;

    *point = got;
    point->failed = true;
    snprintf(point->text, sizeof point->text, "no process");
    if (pipe(ends) != 0)
        return;
    fflush(NULL);
    child = sim_child_fork();
    if (child == 0) {
        measure(scenario, cost, processes, rounds, &got);
        _exit(write(ends[1], &got, sizeof got) == (ssize_t)sizeof got ? SIM_CHILD_GOOD
                                                                     : SIM_CHILD_BAD);
    }
    close(ends[1]);
    if (child > 0) {
        bool whole = read(ends[0], &got, sizeof got) == (ssize_t)sizeof got;

        waitpid(child, &status, 0);
        if (whole)
            *point = got;
        else
            sim_child_verdict(status, point->text, sizeof point->text);
    }
    close(ends[0]);
}

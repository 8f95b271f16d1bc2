/* SPDX-License-Identifier: BSD-3-Clause */
/* Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
 * 2002) on a list of decisions: first its end is cut, then blocks of the decisions that are not 0
 * are set to 0, half as large each time. What is kept is the list that the run itself reports,
 * which is as it was understood. */
#include "config.h"

#include "shrink.h"

#include <stdlib.h>
#include <string.h>

#define MOST_RUNS 2000
#define MOST_STEPS 20000000u

struct search {
    const struct sim_case *c;
    const struct loci_sim_faults *faults;
    enum loci_sim_verdict verdict;
    uint32_t *best, *candidate;
    size_t count;               /* of best */
    unsigned runs;
    uint64_t steps;
};

static size_t trimmed(const uint32_t *decisions, size_t count)
{
    while (count > 0 && decisions[count - 1] == 0)
        count--;
    return count;
}

static size_t changed(const uint32_t *decisions, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += decisions[i] != 0;
    return n;
}

static bool over(const struct search *s)
{
    return s->runs >= MOST_RUNS || s->steps >= MOST_STEPS;
}

/* The candidate's first `count`: kept if the run fails in the same way, and nothing was added. */
static bool try(struct search *s, size_t count)
{
    struct sim_watch watch = { .decisions = s->candidate, .decision_count = count,
                               .follow = true };
    struct loci_sim_result result;
    size_t n;
    bool same;

    sim_case_run(s->c, s->faults, &watch, NULL, &result);
    s->runs++;
    s->steps += result.steps;
    n = trimmed(result.decisions, result.decision_count);
    same = result.verdict == s->verdict && n <= count;
    if (same) {
        memcpy(s->best, result.decisions, n * sizeof s->best[0]);
        s->count = n;
    }
    free(result.decisions);
    return same;
}

/* The shortest beginning that does: by halves, though nobody says that longer ones do, too. */
static void cut_end(struct search *s)
{
    size_t fails = s->count, passes = 0;

    memcpy(s->candidate, s->best, s->count * sizeof s->best[0]);
    if (try(s, 0))
        return;
    while (passes + 1 < fails && !over(s)) {
        size_t middle = passes + (fails - passes) / 2;

        if (try(s, middle))
            fails = s->count < middle ? s->count : middle;
        else
            passes = middle;
    }
}

/* Set decisions number `from` to `from + len`, of those that are not 0, to 0. */
static bool zero_block(struct search *s, size_t from, size_t len)
{
    size_t number = 0;

    memcpy(s->candidate, s->best, s->count * sizeof s->best[0]);
    for (size_t i = 0; i < s->count; i++)
        if (s->best[i] != 0 && number++ >= from && number <= from + len)
            s->candidate[i] = 0;
    return try(s, s->count);
}

/* From the end: what comes last matters least. */
static bool zero_blocks(struct search *s, size_t len)
{
    size_t at = changed(s->best, s->count);
    bool any = false;

    while (at > 0 && !over(s)) {
        size_t left, n = at < len ? at : len;

        at -= n;
        any = zero_block(s, at, n) || any;
        left = changed(s->best, s->count);
        at = at < left ? at : left;
    }
    return any;
}

static void minimize(struct search *s)
{
    size_t len = changed(s->best, s->count);

    while (len > 0 && !over(s)) {
        bool any = zero_blocks(s, len);

        if (len > 1)
            len /= 2;
        else if (!any)
            return;
    }
}

void sim_shrink(const struct sim_case *c, const struct loci_sim_faults *faults,
                const struct loci_sim_result *failed, struct sim_shrunk *shrunk)
{
    struct search s = { .c = c, .faults = faults, .verdict = failed->verdict };
    size_t count = trimmed(failed->decisions, failed->decision_count);
    size_t bytes = (count + 1) * sizeof(uint32_t);

    memset(shrunk, 0, sizeof *shrunk);
    s.best = malloc(bytes);
    s.candidate = malloc(bytes);
    if (s.best != NULL && s.candidate != NULL) {
        if (count > 0)
            memcpy(s.candidate, failed->decisions, count * sizeof(uint32_t));
        shrunk->first_count = count;
        shrunk->first_changed = changed(failed->decisions, count);
        shrunk->repeats = try(&s, count);
        if (shrunk->repeats) {
            cut_end(&s);
            minimize(&s);
        }
        shrunk->changed = changed(s.best, s.count);
    }
    free(s.candidate);
    shrunk->decisions = s.best;
    shrunk->count = s.count;
    shrunk->runs = s.runs;
}

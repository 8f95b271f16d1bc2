/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of one atomic variable by many processes at once, in virtual time: how long each takes
 * where others are ahead of it again and again, and that each value is got once. One that swaps
 * what it saw before its pause comes through only when all others have ended. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "runtime.h"

enum { PROCESSES = 17, EACH = 64, MOST = 3 /* times a read and a swap alone */ };

struct run {
    uint64_t atomics, reads;
    uint64_t put, got;          /* sums of values */
    int finished;
    int64_t begin, end, longest;        /* when; the longest exchange */
};

static int exchange_many(loco_runtime_t *rt, loco_atomic_var_t *var, int rank, struct run *r)
{
    uint64_t atomics = rt->counters.atomics[0], reads = rt->counters.reads[0], old;

    for (int i = 0; i < EACH; i++) {
        uint64_t value = (uint64_t)(rank * EACH + i);
        int64_t began = loci_sim_time(), took;

        r->begin = r->begin == 0 ? began : r->begin;
        if (loco_atomic_var_exchange(var, value, &old) != LOCO_OK)
            return 1;
        took = loci_sim_time() - began;
        r->longest = took > r->longest ? took : r->longest;
        r->end = loci_sim_time();
        r->put += value;
        r->got += old;
    }
    r->atomics += rt->counters.atomics[0] - atomics;
    r->reads += rt->counters.reads[0] - reads;
    return 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct run *r = arg;
    loco_atomic_var_t *var;
    uint64_t last;
    int result = 0;

    if (loco_atomic_var_create(rt, NULL, "contended", loco_everyone(rt), 0, &var) != LOCO_OK
        || loco_runtime_wait_ready(rt, LOCO_FOREVER) != LOCO_OK)
        return 1;
    if (rank > 0)
        result = exchange_many(rt, var, rank, r);
    r->finished += rank > 0;
    while (r->finished < PROCESSES - 1)
        loci_sim_sleep(1000);
    if (rank == 0 && loco_atomic_var_load(var, &last) == LOCO_OK)
        r->got += last;
    loco_atomic_var_destroy(var);
    return result;
}

static void say(bool ok, int number, const char *what)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", number, what);
}

int main(void)
{
    const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=inf", NULL };
    const struct loci_sim_config config = {
        .processes = PROCESSES, .seed = 1, .strategy = LOCI_SIM_TIMED, .settings = settings,
        .faults = LOCI_SIM_NO_FAULTS, .step_limit = UINT64_MAX, .look_every = 1000,
        .cost = loci_sim_cost_named("ib100"),
    };
    const uint64_t exchanges = (PROCESSES - 1) * EACH;
    struct loci_sim_result result;
    struct run r = { 0 };
    int64_t alone = loci_sim_cost_read(config.cost, 8) + loci_sim_cost_atomic(config.cost);
    int64_t each;
    bool passed, once, soon;

    loci_sim_run(&config, body, &r, &result);
    free(result.decisions);
    passed = result.verdict == LOCI_SIM_PASSED;
    once = passed && r.put == r.got;
    each = (r.end - r.begin) / (int64_t)exchanges;
    soon = passed && each <= MOST * alone;
    say(passed, 1, "exchanges of one variable by 16 processes");
    if (!passed)
        printf("# %s\n", result.text);
    say(once, 2, "each value is got once");
    say(soon, 3, "what is swapped after a pause is what is there then");
    printf("# %.2f atomics and %.2f reads for an exchange; %.2f us each, %.2f alone, the longest "
           "%.2f\n1..3\n",
           (double)r.atomics / (double)exchanges, (double)r.reads / (double)exchanges,
           (double)each / 1e3, (double)alone / 1e3, (double)r.longest / 1e3);
    return passed && once && soon ? 0 : 1;
}

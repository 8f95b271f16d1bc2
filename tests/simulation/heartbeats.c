/* SPDX-License-Identifier: BSD-3-Clause */
/* Commits that take longer than LOCO_TX_PATIENCE, of a process that runs: nobody suspects it. It
 * and the host of some objects, to which they are near, change these all the time, over networks by
 * whose times its commits last: for their latency, or for long values to another host. Counts are
 * exact, as time is simulated. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"

enum { HOST, FAR_HOST, WRITER, PROCESSES };

#define FEW 3                           /* objects that both change, at the host */

struct run {
    const struct loci_sim_cost *cost;
    int long_values;                    /* that the writer changes besides, at the other host */
    int commits;                        /* of the writer */
    uint32_t pause;                     /* of the host, ns, at most */
    bool ended;
    loco_store_stats_t all;
};

struct client {
    struct run *run;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_region_t *region;
    int rank;
    unsigned char *value;
};

static int change(loco_tx_t *tx, void *arg)
{
    const struct client *c = arg;
    uint64_t word = 0;
    int status = LOCO_OK, n = c->rank == WRITER ? c->run->long_values : 0;

    /* Roots are at the two hosts by turns. */
    for (uint64_t i = 0; i < FEW && status == LOCO_OK; i++)
        status = loco_tx_write(tx, loco_store_root(c->store, 2 * i), &word, sizeof word);
    for (int i = 0; i < n && status == LOCO_OK; i++)
        status = loco_tx_write(tx, loco_store_root(c->store, 2 * (uint64_t)i + 1), c->value,
                               LOCO_STORE_VALUE_MAX);
    return status;
}

static int work(struct client *c)
{
    struct run *r = c->run;
    loco_store_stats_t s;

    if (loco_tx_open(c->store, &c->tx) != LOCO_OK)
        return loci_sim_fail("no handle");
    for (int i = 0; c->rank == WRITER ? i < r->commits : !r->ended; i++) {
        if (loco_tx_run(c->tx, change, c) != LOCO_OK)
            return loci_sim_fail("a transaction fails");
        if (c->rank == HOST)
            loci_sim_sleep(loci_sim_draw(r->pause));
    }
    r->ended = r->ended || c->rank == WRITER;
    loco_store_stats(c->store, &s);
    r->all.commits += s.commits;
    r->all.conflicts += s.conflicts;
    r->all.suspected += s.suspected;
    r->all.aborted_by_others += s.aborted_by_others;
    loco_tx_close(c->tx);
    return 0;
}

/* Threads that wait look at the clock when something changes in their process: something does. */
static int thread_main(void *arg, int thread)
{
    struct client *c = arg;

    if (thread == 0)
        return work(c);
    while (!c->run->ended) {
        loci_sim_sleep(20000);
        if (loco_region_write64(c->region, c->rank, 0, 1) != LOCO_OK)
            return loci_sim_fail("a write fails");
    }
    return 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int hosts[] = { HOST, FAR_HOST };
    const loco_store_options_t options = { .bytes = 24 << 20, .objects = 256, .roots = 128,
                                           .hosts = hosts, .nhosts = 2, .threads = 1 };
    struct client c = { .run = arg, .rank = rank, .value = calloc(1, LOCO_STORE_VALUE_MAX) };
    int result = c.value == NULL;

    if (loco_store_create(rt, NULL, "store", loco_everyone(rt), &options, &c.store) != LOCO_OK
        || loco_region_create(rt, NULL, "clock", loco_everyone(rt), 64, &c.region) != LOCO_OK
        || loco_runtime_wait_ready(rt, LOCO_FOREVER) != LOCO_OK)
        return loci_sim_fail("no store");
    if (result == 0 && (rank == WRITER || rank == HOST))
        result = loci_sim_threads(rt, 2, thread_main, &c);
    while (!c.run->ended && result == 0)
        loci_sim_sleep(100000);
    loci_sim_sleep(100000000);          /* nobody takes its memory away too early */
    loco_region_destroy(c.region);
    loco_store_destroy(c.store);
    free(c.value);
    return result;
}

/* ---- what is wanted of it ---- */

static int tests, failures;

static void say(bool ok, const char *what)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++tests, what);
    failures += !ok;
}

static void play(struct run *r, const char *patience, const char *what, bool suspects)
{
    const char *const settings[] = { "LOCO_SPIN=0", patience, NULL };
    const struct loci_sim_config config = {
        .processes = PROCESSES, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = 400000000,
        .cost = r->cost,
    };
    struct loci_sim_result result;

    r->ended = false;
    memset(&r->all, 0, sizeof r->all);
    loci_sim_run(&config, body, r, &result);
    say(result.verdict == LOCI_SIM_PASSED && r->all.commits > (uint64_t)r->commits
        && (r->all.suspected > 0) == suspects, what);
    printf("# %s: %llu commits, %llu conflicts, %llu suspected, %llu undone, in %.1f ms %s\n",
           patience, (unsigned long long)r->all.commits, (unsigned long long)r->all.conflicts,
           (unsigned long long)r->all.suspected, (unsigned long long)r->all.aborted_by_others,
           (double)result.time / 1e6, result.verdict == LOCI_SIM_PASSED ? "" : result.text);
    free(result.decisions);
}

int main(void)
{
    struct loci_sim_cost slow = *loci_sim_cost_named("roce25");
    struct run latency = { .cost = &slow, .commits = 100, .pause = 15000000 };
    struct run long_values = { .cost = loci_sim_cost_named("roce25"), .long_values = 60,
                               .commits = 10, .pause = 5000000 };

    slow.wire = 700000;                 /* one way: there and back others lose patience */
    play(&latency, "LOCO_TX_PATIENCE=1ms", "who is far away is not suspected", false);
    play(&latency, "LOCO_TX_PATIENCE=0", "unless nobody has any patience", true);
    play(&long_values, "LOCO_TX_PATIENCE=1ms", "who writes long values is not suspected", false);
    printf("1..%d\n", tests);
    return failures != 0;
}

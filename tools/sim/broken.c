/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "broken.h"

#include <stdlib.h>

#include <loco/loco.h>

/* Readers add one to a word without a lock: a count gets lost when two of them meet. */

struct counters {
    loco_runtime_t *rt;
    loco_region_t *region;
    int rounds;
};

static int count(void *arg, int thread)
{
    struct counters *c = arg;
    uint64_t value;

    (void)thread;
    for (int i = 0; i < c->rounds; i++) {
        if (loco_region_read64(c->region, 0, 0, &value) != LOCO_OK
            || loco_region_write64(c->region, 0, 0, value + 1) != LOCO_OK)
            return loci_sim_fail("the counter cannot be reached");
    }
    return 0;
}

static int look(struct counters *c, const struct sim_run *run)
{
    uint64_t value, wanted = (uint64_t)(run->processes * run->threads * run->rounds);

    if (loco_region_read64(c->region, 0, 0, &value) != LOCO_OK)
        return loci_sim_fail("the counter cannot be read");
    if (value != wanted)
        return loci_sim_fail("the counter is %llu, not %llu", (unsigned long long)value,
                             (unsigned long long)wanted);
    return 0;
}

static int counter_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct sim_run *run = arg;
    struct counters c = { rt, NULL, run->rounds };
    const loco_group_t *all = loco_everyone(rt);
    loco_barrier_t *barrier = NULL;
    int result = 1;

    (void)rank;
    if (loco_region_create(rt, NULL, "counter", all, 8, &c.region) == LOCO_OK
        && loco_barrier_create(rt, NULL, "counted", all, &barrier) == LOCO_OK
        && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK) {
        result = loci_sim_threads(rt, run->threads, count, &c);
        if (result == 0 && loco_barrier_wait(barrier) == LOCO_OK)
            result = look(&c, run);
        if (result == 0)
            loco_barrier_wait(barrier);
    }
    loco_barrier_destroy(barrier);
    loco_region_destroy(c.region);
    return result;
}

static int crash_body(loco_runtime_t *rt, int rank, void *arg)
{
    (void)rt;
    (void)rank;
    (void)arg;
    if (loci_sim_draw(20) == 0)
        abort();
    return 0;
}

static int hang_body(loco_runtime_t *rt, int rank, void *arg)
{
    (void)rt;
    (void)rank;
    (void)arg;
    /* The empty statement keeps the compiler from taking the loop for one that must end. */
    if (loci_sim_draw(20) == 0)
        for (;;)
            __asm__ volatile("");
    return 0;
}

static const struct sim_scenario counter = {
    .name = "broken_counter", .about = "wrong: a remote word is read, then written, unlocked",
    .processes = 2, .threads = 1, .rounds = 2, .processes_min = 1, .body = counter_body,
};
static const struct sim_scenario crash = {
    .name = "broken_crash", .about = "wrong: some runs abort",
    .processes = 2, .threads = 1, .rounds = 1, .processes_min = 1, .body = crash_body,
};
static const struct sim_scenario hang = {
    .name = "broken_hang", .about = "wrong: some runs never come back to the scheduler",
    .processes = 2, .threads = 1, .rounds = 1, .processes_min = 1, .body = hang_body,
};

const struct sim_scenario *const sim_broken[] = {
    &counter, &crash, &hang, &sim_broken_unlogged, &sim_broken_in_place, NULL
};

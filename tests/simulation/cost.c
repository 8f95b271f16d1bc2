/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost model comes to what was published; and a run in time takes what its costs come to,
 * alone and where a device or a port is what all wait for. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"

#define MANY 16
#define LONG_WRITE ((size_t)64 << 10)
#define OWN_STEPS 120       /* ns: what the runtime itself does for an operation, of 1 ns each */

static int tests, failures;

static void say(bool ok, const char *what, const char *profile)
{
    printf("%sok %d - %s: %s\n", ok ? "" : "not ", ++tests, profile, what);
    failures += !ok;
}

static void near(int64_t got, int64_t wanted, int percent, const char *what, const char *profile)
{
    int64_t off = got > wanted ? got - wanted : wanted - got;

    say(off * 100 <= wanted * percent, what, profile);
    printf("# %lld ns, published %lld ns\n", (long long)got, (long long)wanted);
}

/* ---- against what was published ---- */

static void published(void)
{
    const struct loci_sim_cost *c = loci_sim_cost_named("ib100");

    near(loci_sim_cost_read(c, 8), 2150, 3, "a read of 8 bytes (KRCore, figure 10a)", c->name);
    near(loci_sim_cost_write(c, 1), 1730, 3, "a write of 1 byte (Spindle, figure 1)", c->name);
    near(loci_sim_cost_write(c, 4096), 2460, 3, "a write of 4 KiB (Spindle, figure 1)", c->name);
    near(loci_sim_cost_atomic(c), loci_sim_cost_read(c, 8), 5, "an atomic alone is a read (rTX)",
         c->name);
    near(1000000000 / c->device_in, 142000000, 5, "operations served in a second (KRCore)",
         c->name);
    near(1000000000 / c->device, 110000000, 5, "operations sent in a second (SMART)", c->name);
}

/* ---- runs ---- */

struct run {
    const struct loci_sim_cost *cost;
    int64_t write, read, atomic;        /* of one process alone */
    int64_t begin, last_write, last_atomic;
    unsigned char data[LONG_WRITE];
};

static int alone(struct run *r, loco_region_t *region)
{
    uint64_t old;
    int64_t begin;

    /* The first one opens the lane. */
    if (loco_region_write64(region, 0, 0, 1) != LOCO_OK)
        return 1;
    begin = loci_sim_time();
    if (loco_region_write64(region, 0, 0, 1) != LOCO_OK)
        return 1;
    r->write = loci_sim_time() - begin;
    loci_sim_sleep(10000);
    begin = loci_sim_time();
    if (loco_region_read64(region, 0, 0, &old) != LOCO_OK)
        return 1;
    r->read = loci_sim_time() - begin;
    begin = loci_sim_time();
    if (loco_region_fetch_add(region, 0, 0, 1, &old) != LOCO_OK)
        return 1;
    r->atomic = loci_sim_time() - begin;
    return 0;
}

static void wait_until(int64_t time)
{
    loci_sim_sleep(time - loci_sim_time());
}

static int together(struct run *r, loco_region_t *region)
{
    uint64_t old;
    int status;

    wait_until(r->begin);
    status = loco_region_fetch_add(region, 0, 0, 1, &old);
    r->last_atomic = loci_sim_time() > r->last_atomic ? loci_sim_time() : r->last_atomic;
    wait_until(2 * r->begin);
    if (status == LOCO_OK)
        status = loco_region_write(region, 0, 64, r->data, sizeof r->data);
    r->last_write = loci_sim_time() > r->last_write ? loci_sim_time() : r->last_write;
    return status != LOCO_OK;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct run *r = arg;
    loco_region_t *region;
    int result = 0;

    if (loco_region_create(rt, NULL, "data", loco_everyone(rt), 64 + LONG_WRITE, &region)
        != LOCO_OK || loco_runtime_wait_ready(rt, LOCO_FOREVER) != LOCO_OK)
        return 1;
    if (rank == 1)
        result = alone(r, region);
    if (rank > 0)
        result = result != 0 ? result : together(r, region);
    wait_until(10 * r->begin);
    loco_region_destroy(region);
    return result;
}

static void measured(const struct loci_sim_cost *c)
{
    const struct loci_sim_config config = {
        .processes = MANY + 1, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .step_limit = UINT64_MAX, .cost = c,
    };
    struct run *r = calloc(1, sizeof *r);
    int64_t wire = loci_sim_cost_wire(c, LONG_WRITE), took;
    struct loci_sim_result result;

    if (r == NULL)
        exit(1);
    r->cost = c;
    r->begin = 100000000;
    loci_sim_run(&config, body, r, &result);
    free(result.decisions);
    say(result.verdict == LOCI_SIM_PASSED, "a run in time", c->name);
    if (result.verdict != LOCI_SIM_PASSED)
        printf("# %s\n", result.text);
    took = r->write - loci_sim_cost_write(c, 8);
    say(took >= 0 && took <= OWN_STEPS, "a write takes its costs", c->name);
    took = r->read - loci_sim_cost_read(c, 8);
    say(took >= 0 && took <= OWN_STEPS, "a read takes its costs", c->name);
    took = r->atomic - loci_sim_cost_atomic(c);
    say(took >= 0 && took <= OWN_STEPS, "an atomic takes its costs", c->name);
    took = r->last_atomic - r->begin - loci_sim_cost_atomic(c) - (MANY - 1) * c->atomic;
    say(took >= 0 && took <= 2 * OWN_STEPS, "atomics of one device wait for each other", c->name);
    took = r->last_write - 2 * r->begin - loci_sim_cost_write(c, LONG_WRITE) - (MANY - 1) * wire;
    say(took >= 0 && took <= 2 * OWN_STEPS, "writes to one port share its bandwidth", c->name);
    printf("# write %lld, read %lld, atomic %lld ns; the last of the writes %lld too late\n",
           (long long)r->write, (long long)r->read, (long long)r->atomic, (long long)took);
    free(r);
}

int main(void)
{
    published();
    for (const struct loci_sim_cost *c = loci_sim_costs; c->name != NULL; c++)
        measured(c);
    printf("1..%d\n", tests);
    return failures != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* How often transactions wait for the network, one after the other: what they take in virtual time,
 * in round trips, where a trip is all that takes time. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"

#define OBJECTS 4
#define HOST 0
#define TRIP INT64_C(1000000)      /* ns, one way: beside it nothing counts */

static int tests, failures;

struct run {
    loco_store_t *store;
    loco_tx_t *tx;
    loco_object_t object[OBJECTS];
    int64_t trip;
};

static void waits(const struct run *r, int64_t began, int wanted, const char *what)
{
    int64_t took = loci_sim_time() - began;
    bool ok = took > (2 * wanted - 1) * r->trip / 2 && took < (2 * wanted + 1) * r->trip / 2;

    printf("%sok %d - %s: %d wait%s\n", ok ? "" : "not ", ++tests, what, wanted,
           wanted == 1 ? "" : "s");
    if (!ok)
        printf("# it took %lld ns, and a trip takes %lld\n", (long long)took, (long long)r->trip);
    failures += !ok;
}

static int read_each(struct run *r, int n)
{
    int status = loco_tx_begin(r->tx);

    for (int i = 0; i < n && status == LOCO_OK; i++) {
        uint64_t value;

        status = loco_tx_read(r->tx, r->object[i], &value, sizeof value);
    }
    return status == LOCO_OK ? loco_tx_commit(r->tx) : status;
}

static int read_together(struct run *r)
{
    uint64_t value[OBJECTS];
    int statuses[OBJECTS], status = loco_tx_begin(r->tx);

    if (status == LOCO_OK)
        status = loco_tx_read_many(r->tx, OBJECTS, r->object, value, sizeof *value, statuses);
    return status == LOCO_OK ? loco_tx_commit(r->tx) : status;
}

static int read_and_write(struct run *r, int n)
{
    uint64_t value;
    int status = loco_tx_begin(r->tx);

    for (int i = 0; i < n && status == LOCO_OK; i++) {
        status = loco_tx_read(r->tx, r->object[i], &value, sizeof value);
        if (status == LOCO_OK)
            status = loco_tx_write(r->tx, r->object[i], &value, sizeof value);
    }
    return status;
}

/* Of a handle that has seen nothing yet, then of one that has. */
static int reads(struct run *r)
{
    int64_t began = loci_sim_time();
    int status = read_each(r, 1);

    waits(r, began, 2, "a read of an object that was never seen");
    began = loci_sim_time();
    status = status != LOCO_OK ? status : read_each(r, 1);
    waits(r, began, 1, "a read of one that was");
    loco_tx_close(r->tx);
    r->tx = NULL;
    status = status != LOCO_OK ? status : loco_tx_open(r->store, &r->tx);
    began = loci_sim_time();
    status = status != LOCO_OK ? status : read_together(r);
    waits(r, began, 2, "four together that were never seen");
    began = loci_sim_time();
    status = status != LOCO_OK ? status : read_together(r);
    waits(r, began, 1, "four together that were");
    began = loci_sim_time();
    status = status != LOCO_OK ? status : read_each(r, OBJECTS);
    waits(r, began, OBJECTS, "four of them one by one");
    return status;
}

static int commits(struct run *r)
{
    int status = read_and_write(r, 1);
    int64_t began = loci_sim_time();

    status = status != LOCO_OK ? status : loco_tx_commit(r->tx);
    waits(r, began, 1, "the commit of an object");
    began = loci_sim_time();
    status = status != LOCO_OK ? status : read_each(r, 1);
    waits(r, began, 1, "a read of what this handle has written");
    status = status != LOCO_OK ? status : read_and_write(r, OBJECTS);
    began = loci_sim_time();
    status = status != LOCO_OK ? status : loco_tx_commit(r->tx);
    waits(r, began, 2, "the commit of four objects of one host");
    return status;
}

/* What is written the first time is written by the host. */
static int fill(struct run *r)
{
    int status = loco_tx_begin(r->tx);

    for (uint64_t i = 0; i < OBJECTS && status == LOCO_OK; i++)
        status = loco_tx_write(r->tx, r->object[i], &i, sizeof i);
    return status == LOCO_OK ? loco_tx_commit(r->tx) : status;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int hosts[] = { HOST };
    const loco_store_options_t options = {
        .bytes = 65536, .roots = OBJECTS, .hosts = hosts, .nhosts = 1, .threads = 1,
    };
    struct run r = *(const struct run *)arg;
    int64_t turn = INT64_C(100000000);
    int status = loco_store_create(rt, NULL, "objects", loco_everyone(rt), &options, &r.store);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    for (uint64_t i = 0; i < OBJECTS && status == LOCO_OK; i++)
        r.object[i] = loco_store_root(r.store, i);
    if (status == LOCO_OK)
        status = loco_tx_open(r.store, &r.tx);
    if (rank != HOST)
        loci_sim_sleep(turn - loci_sim_time());
    if (status == LOCO_OK)
        status = fill(&r);          /* a client's first commit also finds out what its slot holds */
    loci_sim_sleep((1 + rank) * turn - loci_sim_time());
    loco_tx_close(r.tx);
    r.tx = NULL;
    if (status == LOCO_OK)
        status = loco_tx_open(r.store, &r.tx);
    if (rank != HOST && status == LOCO_OK)
        status = reads(&r);
    if (rank != HOST && status == LOCO_OK)
        status = commits(&r);
    loci_sim_sleep(3 * turn - loci_sim_time());
    loco_tx_close(r.tx);
    loco_store_destroy(r.store);
    return status != LOCO_OK;
}

int main(void)
{
    struct loci_sim_cost cost = *loci_sim_cost_named("ib100");
    const struct loci_sim_config config = {
        .processes = 2, .seed = 1, .strategy = LOCI_SIM_TIMED, .faults = LOCI_SIM_NO_FAULTS,
        .step_limit = UINT64_MAX, .cost = &cost,
    };
    struct run run = { .trip = 2 * TRIP };
    struct loci_sim_result result;

    cost.wire = TRIP;
    loci_sim_run(&config, body, &run, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        printf("# %s\n", result.text);
    printf("%sok %d - all of it\n", result.verdict == LOCI_SIM_PASSED ? "" : "not ", ++tests);
    failures += result.verdict != LOCI_SIM_PASSED;
    printf("1..%d\n", tests);
    return failures != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A commit whose log's host dies in its last swap, while another has undone it and has changed one
 * of its objects: all of the rest stay as they were, too. Many runs, in which that host stops at
 * one step or another. TAP.
 *
 * The mover adds one to all objects at once. The adder adds one to an object of the host that
 * lives, once. So in the end that object has as much more than its neighbour. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "fabric/sim/sim.h"

enum { DYING, LIVING, MOVER, ADDER, PROCESSES };

#define RUNS 3000u
#define MOVES 12
#define OBJECTS 4               /* by turns of both hosts; as many at each, so the log is at the
                                   first one, which dies. Those of the other: */
#define FIRST 1
#define SECOND 3
#define DELAY 20000u            /* ns, at most, until the adder begins */
#define PAUSE 200               /* ns that the first host sleeps for at a time, */
#define STOP_FROM 120u          /* and its steps in which it stops: as all others are at work */
#define STOP_STEPS 160u

struct run {
    int ended;                  /* processes: of their work; then of all */
    int added;
    bool told;                  /* the mover, of the death */
};

static int value_of(loco_tx_t *tx, loco_object_t object, uint64_t *value)
{
    int status = loco_tx_read(tx, object, value, sizeof *value);

    if (status == LOCO_ERR_NOT_FOUND)
        *value = 0;
    return status == LOCO_ERR_NOT_FOUND ? LOCO_OK : status;
}

static int add(loco_store_t *store, loco_tx_t *tx, int object)
{
    loco_object_t root = loco_store_root(store, (uint64_t)object);
    uint64_t value;
    int status = value_of(tx, root, &value);

    value++;
    return status == LOCO_OK ? loco_tx_write(tx, root, &value, sizeof value) : status;
}

/* One more in objects from `first` on, up to `last`. */
static int change(loco_store_t *store, loco_tx_t *tx, int first, int last)
{
    int status;

    do {
        status = loco_tx_begin(tx);
        for (int i = first; i <= last && status == LOCO_OK; i++)
            status = add(store, tx, i);
        if (status == LOCO_OK)
            status = loco_tx_commit(tx);
        loco_tx_abort(tx);
    } while (status == LOCO_ERR_CONFLICT);
    return status;
}

static void move(struct run *r, loco_store_t *store, loco_tx_t *tx)
{
    int status = LOCO_OK;

    for (int i = 0; i < MOVES && status == LOCO_OK; i++)
        status = change(store, tx, 0, OBJECTS - 1);
    r->told = status == LOCO_ERR_PEER_DEAD;
}

static int look(const struct run *r, loco_store_t *store, loco_tx_t *tx)
{
    uint64_t first = 0, second = 0;
    int status;

    do {
        status = loco_tx_begin(tx);
        if (status == LOCO_OK)
            status = value_of(tx, loco_store_root(store, FIRST), &first);
        if (status == LOCO_OK)
            status = value_of(tx, loco_store_root(store, SECOND), &second);
        if (status == LOCO_OK)
            status = loco_tx_commit(tx);
        loco_tx_abort(tx);
    } while (status == LOCO_ERR_CONFLICT);
    /* An object that nobody can put right is told as such. */
    if (status == LOCO_ERR_PEER_DEAD)
        return 0;
    if (status != LOCO_OK)
        return loci_sim_fail("a look: %s", loco_strerror(status));
    return first == second + (uint64_t)r->added ? 0
           : loci_sim_fail("moved %llu and %llu times, %d added", (unsigned long long)first,
                           (unsigned long long)second, r->added);
}

static int act(struct run *r, loco_store_t *store, int rank)
{
    loco_tx_t *tx;
    int status = loco_tx_open(store, &tx);

    if (status == LOCO_OK && rank == MOVER) {
        move(r, store, tx);
    } else if (status == LOCO_OK && rank == ADDER) {
        loci_sim_sleep(1 + (int64_t)loci_sim_draw(DELAY));
        r->added = change(store, tx, FIRST, FIRST) == LOCO_OK;
    }
    r->ended++;
    while (r->ended < PROCESSES - 1)
        loci_sim_sleep(PAUSE);
    status = rank == ADDER && status == LOCO_OK ? look(r, store, tx) : 0;
    loco_tx_close(tx);
    r->ended++;
    return status;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_store_options_t options = {
        .bytes = 1 << 16, .roots = OBJECTS, .hosts = (int[]){ DYING, LIVING }, .nhosts = 2,
        .threads = 1,
    };
    struct run *r = arg;
    loco_store_t *store;
    int status = loco_store_create(rt, NULL, "objects", loco_everyone(rt), &options, &store);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status == LOCO_ERR_PEER_DEAD) {         /* it has died too early: the others end, too */
        r->ended = 2 * PROCESSES;
        return 0;
    }
    if (status != LOCO_OK)
        return loci_sim_fail("a store: %s", loco_strerror(status));
    if (rank != DYING)
        status = act(r, store, rank);
    while (r->ended < 2 * (PROCESSES - 1))
        loci_sim_sleep(PAUSE);
    loco_store_destroy(store);
    return status;
}

/* By priorities, for what is on its way has to stay there while others go on. */
static void try(uint64_t seed, struct run *r, struct loci_sim_result *result)
{
    /* Everybody takes everybody else for dead at once. */
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_TX_PATIENCE=0", NULL };
    struct loci_sim_config config = {
        .processes = PROCESSES, .seed = seed, .strategy = LOCI_SIM_PRIORITY, .settings = settings,
        .faults = LOCI_SIM_NO_FAULTS,
    };

    config.faults.stop_process = DYING;
    config.faults.stop_step = STOP_FROM + seed * 7919 % STOP_STEPS;
    *r = (struct run){ 0 };
    loci_sim_run(&config, body, r, result);
    free(result->decisions);
}

int main(void)
{
    struct loci_sim_result result = { .verdict = LOCI_SIM_PASSED };
    unsigned told = 0;
    uint64_t seed = 0;
    bool passed = true;

    while (passed && seed < RUNS) {
        struct run r;

        try(++seed, &r, &result);
        told += r.told && r.added;
        passed = result.verdict == LOCI_SIM_PASSED;
    }
    if (passed)
        printf("ok 1 - who was undone has changed nothing\n");
    else
        printf("not ok 1 - who was undone has changed nothing\n# seed %llu: %s\n",
               (unsigned long long)seed, result.text);
    printf("%sok 2 - there were such deaths: in %u runs\n", told > 0 ? "" : "not ", told);
    printf("1..2\n");
    return !passed || told == 0;
}

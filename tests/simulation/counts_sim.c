/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of counts_calls.c in the simulation: on one node, on several, and on several whose CPUs
 * do the atomics. A line for each, and for what the simulated network itself carried. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "counts.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"

#define RECORD 512

/* Where the processes meet: the simulation's observer's memory. */
struct place {
    struct counts_row row[COUNTS_PROCESSES * COUNTS_ROWS];
    int arrived, generation;
    unsigned char given[2][COUNTS_PROCESSES][RECORD];
};

struct seat {
    struct place *place;
    int rank;
};

static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    struct seat *seat = ctx;
    struct place *p = seat->place;
    int generation = p->generation;

    if (len > 0)
        memcpy(p->given[generation % 2][seat->rank], mine, len);
    if (++p->arrived == COUNTS_PROCESSES) {
        p->arrived = 0;
        p->generation++;
    }
    while (p->generation == generation)
        loci_sim_sleep(100000);
    for (size_t i = 0; i < COUNTS_PROCESSES && len > 0; i++)
        memcpy((unsigned char *)all + i * len, p->given[generation % 2][i], len);
    return LOCO_OK;
}

static void meet(struct counts_member *m)
{
    allgather(m->exchange->ctx, NULL, 0, NULL);
}

static void carried(struct counts_member *m, unsigned long long *n)
{
    const struct loci_sim_counts c = loci_sim_counts(m->rt);

    n[COUNTS_WRITES] = c.writes;
    n[COUNTS_READS] = c.reads;
    n[COUNTS_ATOMICS] = c.atomics;
    n[COUNTS_PLACES] = c.places;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct place *place = arg;
    struct seat seat = { place, rank };
    const struct loco_exchange exchange = { &seat, rank, COUNTS_PROCESSES, allgather };
    struct counts_member m = {
        .rt = rt, .rank = rank, .row = &place->row[rank * COUNTS_ROWS], .meet = meet,
        .carried = carried, .exchange = &exchange,
    };

    return counts_calls(&m);
}

static int run(bool one_node, bool owner_atomics, const char *name)
{
    static const char *const settings[] = { "LOCO_SPIN=0", NULL };
    const struct loci_sim_config config = {
        .processes = COUNTS_PROCESSES, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .one_node = one_node, .owner_atomics = owner_atomics, .faults = LOCI_SIM_NO_FAULTS,
        .settings = settings, .cost = &loci_sim_costs[0],
    };
    struct place *place = calloc(1, sizeof *place);
    struct loci_sim_result result;

    if (place == NULL)
        return 1;
    loci_sim_run(&config, body, place, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        printf("# %s: %s\n%s", name, result.text, result.detail);
    for (int i = 0; i < COUNTS_PROCESSES * COUNTS_ROWS; i++) {
        const struct counts_row *r = &place->row[i];

        if (r->name == NULL)
            continue;
        printf("%s|%s|%d|%llu|%llu|%llu|%llu|%llu\n", name, r->name, i / COUNTS_ROWS,
               r->n[COUNTS_WRITES], r->n[COUNTS_READS], r->n[COUNTS_ATOMICS],
               r->n[COUNTS_OWN_ATOMICS], r->n[COUNTS_PLACES]);
        printf("%s waits|%s|%d|%llu\n", name, r->name, i / COUNTS_ROWS, r->waits);
        printf("%s carried|%s|%d|%llu|%llu|%llu|0|%llu\n", name, r->name, i / COUNTS_ROWS,
               r->carried[COUNTS_WRITES], r->carried[COUNTS_READS], r->carried[COUNTS_ATOMICS],
               r->carried[COUNTS_PLACES]);
    }
    free(place);
    return result.verdict != LOCI_SIM_PASSED;
}

int main(void)
{
    int one = run(true, false, "node"), several = run(false, false, "nodes");
    int owners = run(false, true, "owners");

    return one != 0 || several != 0 || owners != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* What the algorithms cost, as their sources say it. The counts are exact or bounds; the times are
 * those of an idle network, the longest chain of what waits for what. */

#include "config.h"

#include <string.h>

#include <loco/barrier.h>

#include "scale.h"

static int log2_up(int n)
{
    int steps = 0;

    while (1 << steps < n)
        steps++;
    return steps;
}

/* Of operations posted one behind the other to different peers, the last completion. */
static double together(const struct loci_sim_cost *c, double n, double one)
{
    return n < 1 ? 0 : (n - 1) * (double)(c->post + c->poll) + one;
}

/* barrier.c: the fence has to place what the round before wrote; then the counts go out. A step of
 * dissemination waits for its write's completion, and its partner's has come by then. */
static void barrier(const struct loci_sim_cost *c, int n, struct sim_theory *t)
{
    bool direct = n <= LOCO_BARRIER_DIRECT;
    int sent = direct ? n - 1 : log2_up(n);
    double write = (double)loci_sim_cost_write(c, 8), place = (double)loci_sim_cost_read(c, 0)
                                                              - (double)c->fetch;

    t->mean[SIM_WRITES] = t->mean[SIM_PLACES] = sent;
    t->ns = together(c, sent, place) + (direct ? together(c, sent, write) : sent * write);
}

/* sst.c: a write to each other. */
static void sst(const struct loci_sim_cost *c, int n, struct sim_theory *t)
{
    t->mean[SIM_WRITES] = n - 1;
    t->ns = together(c, n - 1, (double)loci_sim_cost_write(c, 8));
}

/* ticket_lock.c, all at once: an add to take a ticket (all), a swap to wait (all but the first), a
 * write to give the slot back (the same), a place for that; an add to release, a swap to pass on
 * (all but the last), a write of the grant (the same), a place for that. What comes before somebody
 * waits needs less. A turn: place, add, swap, grant, and the same again. */
static void ticket_lock(const struct loci_sim_cost *c, int n, struct sim_theory *t)
{
    double atomic = (double)loci_sim_cost_atomic(c), place = (double)loci_sim_cost_read(c, 0)
                                                             - (double)c->fetch;
    double grant = (double)(c->post + c->doorbell + c->wire + c->place);

    t->at_most = true;
    t->mean[SIM_ATOMICS] = 4 - 2.0 / n;
    t->mean[SIM_WRITES] = 2 - 2.0 / n;
    t->mean[SIM_PLACES] = 2 - 2.0 / n;
    t->ns = 2 * atomic + (n - 1) * (place + 2 * atomic + grant);
}

static const struct {
    const char *name;
    void (*of)(const struct loci_sim_cost *cost, int processes, struct sim_theory *theory);
} known[] = {
    { "barrier", barrier }, { "barrier_many", barrier }, { "sst", sst },
    { "ticket_lock", ticket_lock },
};

bool sim_theory_of(const struct sim_scenario *scenario, const struct loci_sim_cost *cost,
                   int processes, struct sim_theory *theory)
{
    memset(theory, 0, sizeof *theory);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, scenario->name) == 0) {
            known[i].of(cost, processes, theory);
            return true;
        }
    return false;
}

bool sim_theory_holds(const struct sim_theory *theory, const struct sim_scale_point *point)
{
    for (int i = 0; i < SIM_BYTES; i++) {
        double more = point->mean[i] - theory->mean[i];

        if (more > 1e-6 || (!theory->at_most && more < -1e-6))
            return false;
    }
    return true;
}

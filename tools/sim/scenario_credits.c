/* SPDX-License-Identifier: BSD-3-Clause */

/* Few credits for many threads: each has more under way than it may have outstanding, to all
 * peers; fences of the process post on lanes whose threads have gone, with nothing taken yet. */

#include "config.h"

#include "runtime.h"
#include "scenario_util.h"

#define OPS 6                   /* that a thread begins before it waits */
#define BOUND 3

struct state {
    struct sim_state common;
    uint64_t *added;            /* to each process's word, by all */
};

struct user {
    struct sim_run *run;
    loco_runtime_t *rt;
    loco_region_t *region;      /* the word that all add to, then one for each thread */
    int rank;
};

/* Each thread that begins divides anew, while the others still have what was theirs: so all but
 * the first have one at most. But one may see an older share for a moment, where two begin at
 * once. */
static int look(const struct user *u)
{
    /* The main thread fences; it has one, too. */
    uint32_t held = 0, most = BOUND + (uint32_t)u->run->threads + BOUND - 1;

    for (const struct loci_thread *t = u->rt->threads; t != NULL; t = t->next)
        held += t->credit.held;
    WANT(held <= most, "p%d has %u requests outstanding, %u at most", u->rank, held, most);
    return SIM_FINE;
}

static int begin_one(struct user *u, int thread, uint64_t *old, loco_ack_t *ack)
{
    struct state *s = u->run->state;
    int to = (int)loci_sim_draw((uint32_t)u->run->processes);
    uint64_t own = 8 * (1 + (uint64_t)(u->rank * u->run->threads + thread));

    switch (loci_sim_draw(3)) {
    case 0:
        s->added[to]++;
        TRY(u->run, loco_region_fetch_add_ack(u->region, to, 0, 1, old, ack));
        break;
    case 1: TRY(u->run, loco_region_read64_ack(u->region, to, 0, old, ack)); break;
    default: TRY(u->run, loco_region_write64_ack(u->region, to, own, 1, ack)); break;
    }
    return look(u);
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;

    for (int i = 0; i < u->run->rounds; i++) {
        loco_ack_t ack = LOCO_ACK_INIT;
        int result = SIM_FINE, fenced = LOCO_OK, done;
        uint64_t old[OPS];

        for (int k = 0; k < OPS && result == SIM_FINE; k++)
            result = begin_one(u, thread, &old[k], &ack);
        if (loci_sim_draw(4) == 0)
            fenced = loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
        done = loco_ack_wait(u->rt, &ack);      /* the results are in this frame */
        PASS(result);
        TRY(u->run, fenced);
        TRY(u->run, done);
    }
    return SIM_FINE;
}

/* Nobody waits for these, and their threads go. */
static int write_and_go(void *arg, int thread)
{
    struct user *u = arg;
    uint64_t own = 8 * (1 + (uint64_t)(u->rank * u->run->threads + thread));

    for (int to = 0; to < u->run->processes; to++) {
        loco_ack_t ack = LOCO_ACK_INIT;

        TRY(u->run, loco_region_write64_ack(u->region, to, own, 2, &ack));
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    const struct state *s = u->run->state;
    int n = u->run->processes, before = (u->rank + n - 1) % n;
    uint64_t word = 0;

    PASS(sim_ready(u->run, seat));
    PASS(sim_threads(u->rt, u->run->threads, thread_main, u));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    PASS(sim_threads(u->rt, u->run->threads, write_and_go, u));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    TRY(u->run, sim_meet(seat));
    TRY(u->run, loco_region_fetch_add(u->region, u->rank, 0, 0, &word));
    WANT(word == s->added[u->rank], "p%d was added to %llu times, not %llu", u->rank,
         (unsigned long long)s->added[u->rank], (unsigned long long)word);
    for (int t = 0; t < u->run->threads; t++) {
        TRY(u->run, loco_region_read64(u->region, u->rank,
                                       8 * (1 + (uint64_t)(before * u->run->threads + t)),
                                       &word));
        WANT(word == 2, "p%d.t%d wrote 2 and p%d reads %llu", before, t, u->rank,
             (unsigned long long)word);
    }
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    TRY(run, loco_region_create(rt, NULL, "data", loco_everyone(rt),
                                8 * (1 + (size_t)(run->processes * run->threads)), &u.region));
    result = sim_part(&seat, use(&u, &seat));
    loco_region_destroy(u.region);
    return result;
}

static int begin(struct sim_run *run)
{
    struct state *s;

    if (sim_state_begin(run, sizeof *s) != 0)
        return -1;
    s = run->state;
    s->added = calloc((size_t)run->processes, sizeof s->added[0]);
    return s->added == NULL ? -1 : 0;
}

static void end(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL)
        free(s->added);
    sim_state_free(run);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_RDMA_OUTSTANDING=3", NULL };

extern const struct sim_scenario sim_scenario_credits;
const struct sim_scenario sim_scenario_credits = {
    .name = "credits",
    .about = "threads that have more under way than they may have outstanding: the bound holds, "
             "and nobody waits for ever, fences of other threads neither",
    .processes = 3, .threads = 3, .rounds = 2, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = end,
};

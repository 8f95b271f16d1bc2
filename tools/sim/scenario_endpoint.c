/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints of several names are made in any order at any time, destroyed and made again, by all
 * and by parts of the processes; what one writes into the others' is there. One that differs is
 * told to both sides. */

#include "config.h"

#include "scenario_util.h"

#define NAMES 2

struct state {
    struct sim_state common;
    bool drawn, mismatch;
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    int rank;
};

static const char *const names[NAMES] = { "a", "b" };

static void dawdle(void)
{
    if (loci_sim_draw(3) == 0)
        loci_sim_sleep(1 + (int64_t)loci_sim_draw(5000));
}

/* ---- made again, and again ---- */

/* Nobody writes there, so each destroys its own when it likes. */
static int again(struct user *u, int round)
{
    loco_region_t *region;
    int status;

    dawdle();
    TRY(u->run, loco_region_create(u->rt, NULL, "again", loco_everyone(u->rt),
                                   64 * (size_t)(1 + round % 3), &region));
    status = loco_runtime_wait_ready(u->rt, sim_patience(u->run));
    loco_region_destroy(region);
    TRY(u->run, status);
    return SIM_FINE;
}

/* ---- several ---- */

static int write_all(struct user *u, loco_region_t *region, uint64_t number)
{
    for (int i = 0; i < u->run->processes; i++)
        TRY(u->run, loco_region_write64(region, i, 8 * (uint64_t)u->rank, number));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    return SIM_FINE;
}

static int check_all(struct user *u, loco_region_t *region, uint64_t number)
{
    const uint64_t *mine = loco_region_local(region);

    for (int i = 0; i < u->run->processes; i++) {
        uint64_t value = sim_peek(&mine[i]);

        WANT(value == number + (uint64_t)i * 100, "p%d finds %llu of p%d", u->rank,
             (unsigned long long)value, i);
    }
    return SIM_FINE;
}

static int use_all(struct user *u, struct sim_seat *seat, loco_region_t *const *region)
{
    TRY(u->run, loco_runtime_wait_ready(u->rt, sim_patience(u->run)));
    for (int i = 0; i < NAMES; i++)
        PASS(write_all(u, region[i], (uint64_t)(7 + i + 100 * u->rank)));
    TRY(u->run, sim_meet(seat));
    for (int i = 0; i < NAMES; i++)
        PASS(check_all(u, region[i], (uint64_t)(7 + i)));
    return SIM_FINE;
}

/* In the order that each likes; all meet before the first is destroyed. */
static int several(struct user *u, struct sim_seat *seat)
{
    loco_region_t *region[NAMES] = { NULL }, *twice = NULL;
    int first = (int)loci_sim_draw(NAMES), result;

    for (int i = 0; i < NAMES; i++) {
        int which = (first + i) % NAMES;

        dawdle();
        TRY(u->run, loco_region_create(u->rt, "parent", names[which], loco_everyone(u->rt),
                                       8 * (size_t)u->run->processes, &region[which]));
    }
    WANT(loco_region_create(u->rt, "parent", names[0], loco_everyone(u->rt), 64, &twice)
         == LOCO_ERR_NAME, "p%d makes one name twice", u->rank);
    result = use_all(u, seat, region);
    if (result == SIM_FINE)
        result = sim_check(u->run, sim_meet(seat), "meeting");
    for (int i = 0; i < NAMES; i++)
        loco_region_destroy(region[i]);
    return result;
}

/* ---- parts of the processes ---- */

/* Neighbours share a name with others: 0 and 1, 2 and 3... */
static int halves(struct user *u)
{
    int n = u->run->processes, first = u->rank / 2 * 2, ranks[2] = { first, first + 1 };
    int size = first + 1 < n ? 2 : 1, status;
    loco_region_t *region;
    loco_group_t *group;

    TRY(u->run, loco_group_subset(loco_everyone(u->rt), size, ranks, &group));
    status = loco_region_create(u->rt, NULL, "half", group, 64, &region);
    if (status == LOCO_OK) {
        status = loco_runtime_wait_ready(u->rt, sim_patience(u->run));
        loco_region_destroy(region);
    }
    loco_group_destroy(group);
    TRY(u->run, status);
    return SIM_FINE;
}

/* ---- one that does not fit ---- */

static int mismatch(struct user *u, struct sim_seat *seat)
{
    int odd = u->run->processes - 1, status, met;
    loco_region_t *region;

    dawdle();
    TRY(u->run, loco_region_create(u->rt, NULL, "odd", loco_everyone(u->rt),
                                   u->rank == odd ? 128 : 64, &region));
    status = loco_runtime_wait_ready(u->rt, sim_patience(u->run));
    met = sim_meet(seat);       /* nobody destroys what others have not been told of */
    loco_region_destroy(region);
    if (status != LOCO_ERR_PEER_DEAD && status != LOCO_ERR_TIMEOUT)
        WANT(status == LOCO_ERR_MISMATCH, "p%d: p%d's differs, and it is told: %s", u->rank, odd,
             loco_strerror(status));
    else
        TRY(u->run, status);
    TRY(u->run, met);
    /* The name is as good as before; unless a join from then may come a second time. */
    if (u->run->fault.twice > 0)
        return SIM_FINE;
    TRY(u->run, loco_region_create(u->rt, NULL, "odd", loco_everyone(u->rt), 64, &region));
    status = loco_runtime_wait_ready(u->rt, sim_patience(u->run));
    loco_region_destroy(region);
    TRY(u->run, status);
    return SIM_FINE;
}

/* ---- the body ---- */

static int use(struct user *u, struct sim_seat *seat)
{
    int result = SIM_FINE;

    for (int i = 0; i < u->run->rounds && result == SIM_FINE; i++)
        result = again(u, i);
    if (result != SIM_WRONG)        /* a death elsewhere is no hindrance */
        result = sim_first(halves(u), result);
    PASS(result);
    PASS(several(u, seat));
    if (u->s->mismatch && u->run->processes > 1)
        PASS(mismatch(u, seat));
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);

    if (!s->drawn) {
        s->drawn = true;
        s->mismatch = loci_sim_draw(3) == 0;
    }
    return sim_part(&seat, use(&u, &seat));
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_endpoint;
const struct sim_scenario sim_scenario_endpoint = {
    .name = "endpoint",
    .about = "names made in any order, destroyed and made again, by all and by some: all connect, "
             "to the right memory; a mismatch is told to both sides",
    .processes = 3, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints of several names are made in any order at any time, destroyed and made again, by all
 * and by parts of the processes; what one writes into the others' is there. One that differs is
 * told to both sides; one of a process that is no member is told to that process alone. Who waits
 * below a name waits for no other. */

#include "config.h"

#include "scenario_util.h"

#define NAMES 2
#define MEMBERS_MOST 64

enum { NOTHING, BELOW, NEWCOMER, MISMATCH, PARTS };

struct state {
    struct sim_state common;
    bool drawn;
    int part;                   /* what comes last, the same at all */
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

/* ---- below a name ---- */

/* Process 0 makes the other library's early, all others when they have used this one's. */
static int below(struct user *u, struct sim_seat *seat)
{
    loco_region_t *other = NULL, *mine;
    int result;

    if (u->rank == 0)
        TRY(u->run, loco_region_create(u->rt, "other", "late", loco_everyone(u->rt), 64, &other));
    dawdle();
    TRY(u->run, loco_region_create(u->rt, "mine", "early", loco_everyone(u->rt),
                                   8 * (size_t)u->run->processes, &mine));
    result = sim_check(u->run, loco_runtime_wait_ready_below(u->rt, "mine", sim_patience(u->run)),
                       "wait below");
    if (result == SIM_FINE)
        result = write_all(u, mine, (uint64_t)(5 + 100 * u->rank));
    if (result == SIM_FINE)
        result = sim_check(u->run, sim_meet(seat), "meeting");
    if (result == SIM_FINE)
        result = check_all(u, mine, 5);
    if (result == SIM_FINE && u->rank != 0)
        result = sim_check(u->run, loco_region_create(u->rt, "other", "late",
                                                      loco_everyone(u->rt), 64, &other), "other");
    if (result == SIM_FINE)
        result = sim_check(u->run, loco_runtime_wait_ready_below(u->rt, "other",
                                                                 sim_patience(u->run)), "other");
    if (result == SIM_FINE)
        result = sim_check(u->run, sim_meet(seat), "meeting");
    loco_region_destroy(other);
    loco_region_destroy(mine);
    return result;
}

/* ---- one that is no member ---- */

static bool is_told_of_faults(int status)
{
    return status == LOCO_ERR_PEER_DEAD || status == LOCO_ERR_TIMEOUT;
}

/* The last process makes it over all, the others over themselves: it alone is told, and they are
 * ready, before and after. */
static int newcomer(struct user *u, struct sim_seat *seat)
{
    int last = u->run->processes - 1, ranks[MEMBERS_MOST], status, met;
    bool comes = u->rank == last;
    loco_region_t *region;
    loco_group_t *members;

    for (int i = 0; i < last; i++)
        ranks[i] = i;
    TRY(u->run, loco_group_subset(loco_everyone(u->rt), last, ranks, &members));
    dawdle();
    status = loco_region_create(u->rt, NULL, "club", comes ? loco_everyone(u->rt) : members, 64,
                                &region);
    loco_group_destroy(members);
    TRY(u->run, status);
    status = loco_runtime_wait_ready_below(u->rt, "club", sim_patience(u->run));
    met = sim_meet(seat);       /* the newcomer may ask for the last time now */
    if (status == LOCO_OK && met == LOCO_OK && !comes)
        status = loco_runtime_wait_ready_below(u->rt, "club", 0);
    loco_region_destroy(region);
    if (is_told_of_faults(status))
        TRY(u->run, status);
    WANT(is_told_of_faults(status) || status == (comes ? LOCO_ERR_MISMATCH : LOCO_OK),
         "p%d is told of a newcomer's: %s", u->rank, loco_strerror(status));
    TRY(u->run, met);
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
    if (u->s->part == BELOW)
        PASS(below(u, seat));
    if (u->s->part == NEWCOMER && u->run->processes > 2 && u->run->processes <= MEMBERS_MOST)
        PASS(newcomer(u, seat));
    if (u->s->part == MISMATCH && u->run->processes > 1)
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
        s->part = (int)loci_sim_draw(PARTS);
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
             "to the right memory; a mismatch is told to both sides, a newcomer's to it alone",
    .processes = 3, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

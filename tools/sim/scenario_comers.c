/* SPDX-License-Identifier: BSD-3-Clause */

/* Processes come and go while others stay. In each round all meet in a group, make a region over it
 * and write to each other; then the comers destroy theirs, close their runtimes, and come again as
 * others, in whose place of the table nobody may find the ones before. Who stays keeps some groups
 * and regions of earlier rounds: those who have left stay gone there, and nothing can be read of
 * them. Meanwhile those who stay use a region of their own. */

#include "config.h"

#include "runtime.h"
#include "scenario_util.h"

#define ROUNDS_MOST 16
#define MEMBERS_MOST 16

struct state {
    struct sim_state common;
};

struct user {
    struct sim_run *run;
    loco_runtime_t *rt;
    struct sim_seat seat;
    int rank, stay;                     /* so many of the first stay */
    loco_group_t *stayers;
    loco_region_t *own;                 /* of those who stay */
    loco_group_t *group[ROUNDS_MOST];   /* kept; of each round, or NULL */
    loco_region_t *region[ROUNDS_MOST];
};

static int write_all(struct user *u, loco_region_t *region, int n, uint64_t number)
{
    for (int i = 0; i < n; i++)
        TRY(u->run, loco_region_write64(region, i, 8 * (uint64_t)u->rank, number));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    return SIM_FINE;
}

static int check_all(struct user *u, loco_region_t *region, int n, uint64_t number)
{
    const uint64_t *mine = loco_region_local(region);

    for (int i = 0; i < n; i++) {
        uint64_t value = sim_peek(&mine[i]);

        WANT(value == number + (uint64_t)i * 100, "p%d finds %llu of p%d", u->rank,
             (unsigned long long)value, i);
    }
    return SIM_FINE;
}

/* ---- who has left ---- */

/* Of an earlier round: comers of then are gone, whoever has come since. */
static int check_gone(struct user *u, int round)
{
    uint64_t word = 0;

    for (int i = 0; i < u->run->processes; i++) {
        bool stays = i < u->stay;

        if (u->group[round] != NULL && !stays)
            WANT(loco_group_alive(u->group[round], i) == LOCO_ERR_PEER_DEAD,
                 "p%d: p%d of round %d is back", u->rank, i, round);
        /* What is mapped is there still. */
        if (u->region[round] != NULL && !stays && !u->rt->ops->maps)
            WANT(loco_region_write64(u->region[round], i, 8, 1) != LOCO_OK
                 || loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS) != LOCO_OK
                 || loco_region_read64(u->region[round], i, 8, &word) == LOCO_ERR_PEER_DEAD,
                 "p%d writes to p%d of round %d", u->rank, i, round);
    }
    return SIM_FINE;
}

/* Until it is known here that the comers have gone: all of them but those that stopped. */
static int all_have_gone(void *arg)
{
    const struct user *u = arg;
    const loco_group_t *group = NULL;

    for (int i = 0; i < ROUNDS_MOST; i++)
        if (u->group[i] != NULL)
            group = u->group[i];
    for (int i = u->stay; group != NULL && i < u->run->processes; i++)
        if (loco_group_alive(group, i) == LOCO_OK)
            return 0;
    return 1;
}

/* ---- a round ---- */

/* A third of the groups, a third of the regions: each keeps its places in its own way. */
static void keep_some(struct user *u, int round)
{
    uint32_t which = loci_sim_draw(3);

    if (which != 1) {
        loco_region_destroy(u->region[round]);
        u->region[round] = NULL;
    }
    if (which != 0) {
        loco_group_destroy(u->group[round]);
        u->group[round] = NULL;
    }
}

static void drop(struct user *u, int round)
{
    loco_region_destroy(u->region[round]);
    loco_group_destroy(u->group[round]);
    u->region[round] = NULL;
    u->group[round] = NULL;
}

static int use(struct user *u, int round)
{
    const struct loco_exchange exchange = sim_exchange(&u->seat);
    uint64_t number = 7 + (uint64_t)round;
    int n = u->run->processes;
    char name[8];

    snprintf(name, sizeof name, "with%d", round % 2);
    /* One that is kept has the name still, and would refuse the comers. */
    if (round >= 2) {
        loco_region_destroy(u->region[round - 2]);
        u->region[round - 2] = NULL;
    }
    TRY(u->run, loco_group_meet(u->rt, &exchange, &u->group[round]));
    TRY(u->run, loco_region_create(u->rt, NULL, name, u->group[round], 8 * (size_t)n,
                                   &u->region[round]));
    PASS(sim_ready(u->run, &u->seat));
    PASS(write_all(u, u->region[round], n, number + 100 * (uint64_t)u->rank));
    for (int i = 0; i < round && u->rank < u->stay; i++)
        PASS(check_gone(u, i));
    TRY(u->run, sim_meet(&u->seat));
    return check_all(u, u->region[round], n, number);
}

static int come_again(struct user *u, int round)
{
    int status;

    drop(u, round);
    status = loci_sim_again(&u->rt);
    u->seat.rt = u->rt;
    return sim_check(u->run, status, "a runtime again");
}

static int stay_on(struct user *u, int round)
{
    PASS(write_all(u, u->own, u->stay, (uint64_t)(round + 100 * u->rank)));
    sim_wait(u->rt, all_have_gone, u);
    for (int i = 0; i <= round; i++)
        PASS(check_gone(u, i));
    keep_some(u, round);
    return SIM_FINE;
}

static int all_rounds(struct user *u)
{
    int rounds = u->run->rounds < ROUNDS_MOST ? u->run->rounds : ROUNDS_MOST;

    for (int round = 0; round < rounds; round++) {
        PASS(use(u, round));
        TRY(u->run, sim_meet(&u->seat));        /* nobody leaves before all have looked */
        PASS(u->rank < u->stay ? stay_on(u, round) : come_again(u, round));
    }
    return SIM_FINE;
}

static int open_own(struct user *u)
{
    int ranks[MEMBERS_MOST];

    for (int i = 0; i < u->stay; i++)
        ranks[i] = i;
    TRY(u->run, loco_group_subset(loco_everyone(u->rt), u->stay, ranks, &u->stayers));
    if (u->rank < u->stay)
        TRY(u->run, loco_region_create(u->rt, NULL, "own", u->stayers, 8 * (size_t)u->stay,
                                       &u->own));
    return sim_ready(u->run, &u->seat);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = {
        .run = run, .rt = rt, .rank = rank, .stay = run->processes > 2 ? 2 : 1,
        .seat = sim_seat(s->common.place, rt, rank),
    };
    int result = open_own(&u);

    loco_group_destroy(u.stayers);
    if (result == SIM_FINE)
        result = all_rounds(&u);
    result = sim_part(&u.seat, result);
    for (int i = 0; i < ROUNDS_MOST; i++)
        drop(&u, i);
    loco_region_destroy(u.own);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_comers;
const struct sim_scenario sim_scenario_comers = {
    .name = "comers",
    .about = "processes leave and others come in their places, while some stay: all connect; who "
             "has left stays gone, whatever is kept of it",
    .processes = 3, .threads = 1, .rounds = 4, .processes_min = 2,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

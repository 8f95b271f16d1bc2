/* SPDX-License-Identifier: BSD-3-Clause */

/* Two processes meet while each holds a lock of a group that the other may hold, too; those who
 * want what excludes both come in between. Nobody may be kept out by the line of those who wait
 * (rw_word.h: passing), and a line that somebody has left goes on (skipping): every run ends. */

#include "config.h"

#include "scenario_util.h"

#define MEMBERS 2

/* How the two meet, and what the others do. */
enum way {
    BOTH_SHARED,        /* one member shared, by both; the others take it exclusive */
    CROSSWISE,          /* both members shared, in either order; the others take one exclusive */
    BOTH_ALL,           /* all; the others take a member exclusive */
    BOTH_EXCLUSIVE,     /* a member each, exclusive; the others take all */
    WAYS
};

struct state {
    struct sim_state common;
    bool drawn;
    enum way way;
    int shared[MEMBERS], exclusive[MEMBERS];    /* who has it, by what its calls returned */
    int met[2];                                 /* of the two, by rank: meetings it has come to */
    bool left[2];                               /* and comes to no more */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_rw_group_t *locks;
    int rank, round;
};

/* ---- the books ---- */

static int enter(struct user *u, int member, bool exclusive)
{
    struct state *s = u->s;

    WANT(s->exclusive[member] == 0 && (!exclusive || s->shared[member] == 0),
         "p%d has member %d %s, %d have it shared and %d exclusive", u->rank, member,
         exclusive ? "exclusive" : "shared", s->shared[member], s->exclusive[member]);
    (exclusive ? s->exclusive : s->shared)[member]++;
    return SIM_FINE;
}

static void leave(struct user *u, int member, bool exclusive)
{
    (exclusive ? u->s->exclusive : u->s->shared)[member]--;
}

/* ---- a lock, and something under it ---- */

static int meet(struct user *u);
static int nothing(struct user *u)
{
    (void)u;
    return SIM_FINE;
}

static int with_shared(struct user *u, int member, bool nested, int (*under)(struct user *))
{
    int result, status;

    TRY(u->run, loco_rw_group_acquire_shared(u->locks, member, nested));
    PASS(enter(u, member, false));
    result = under(u);
    leave(u, member, false);
    status = loco_rw_group_release_shared(u->locks, member, LOCO_FENCE_NONE, 0);
    return sim_first(result, sim_check(u->run, status, "release shared"));
}

static int with_exclusive(struct user *u, int member, int (*under)(struct user *))
{
    int result, status;

    TRY(u->run, loco_rw_group_acquire_exclusive(u->locks, member, false));
    PASS(enter(u, member, true));
    result = under(u);
    leave(u, member, true);
    status = loco_rw_group_release_exclusive(u->locks, member, LOCO_FENCE_NONE, 0);
    return sim_first(result, sim_check(u->run, status, "release exclusive"));
}

static int with_all(struct user *u, int (*under)(struct user *))
{
    int result, status;

    TRY(u->run, loco_rw_group_acquire_all(u->locks, false));
    for (int i = 0; i < MEMBERS; i++)
        PASS(enter(u, i, false));
    result = under(u);
    for (int i = 0; i < MEMBERS; i++)
        leave(u, i, false);
    status = loco_rw_group_release_all(u->locks, LOCO_FENCE_NONE, 0);
    return sim_first(result, sim_check(u->run, status, "release all"));
}

static int has_met(void *arg)
{
    struct user *u = arg;
    int other = 1 - u->rank;

    return u->s->met[other] > u->round || u->s->left[other] || loci_sim_is_stopped(other);
}

static int meet(struct user *u)
{
    u->s->met[u->rank] = u->round + 1;
    TRY(u->run, sim_wait(u->rt, has_met, u));
    return SIM_FINE;
}

static int meet_across(struct user *u)
{
    PASS(meet(u));
    return with_shared(u, 1 - u->rank, true, nothing);
}

/* ---- turns ---- */

static int one_of_two(struct user *u)
{
    switch (u->s->way) {
    case BOTH_SHARED: return with_shared(u, 0, false, meet);
    case CROSSWISE: return with_shared(u, u->rank, false, meet_across);
    case BOTH_ALL: return with_all(u, meet);
    default: return with_exclusive(u, u->rank, meet);
    }
}

static int one_of_others(struct user *u)
{
    if (u->s->way == BOTH_EXCLUSIVE)
        return with_all(u, nothing);
    return with_exclusive(u, u->s->way == BOTH_SHARED ? 0 : (int)loci_sim_draw(MEMBERS), nothing);
}

static int turns(struct user *u)
{
    for (u->round = 0; u->round < u->run->rounds; u->round++)
        PASS(u->rank < 2 ? one_of_two(u) : one_of_others(u));
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->way = (enum way)loci_sim_draw(WAYS);
    }
    TRY(run, loco_rw_group_create(rt, NULL, "locks", loco_everyone(rt), MEMBERS, &u.locks));
    result = sim_ready(run, &seat);
    if (result == SIM_FINE)
        result = turns(&u);
    if (rank < 2)
        s->left[rank] = true;
    result = sim_part(&seat, result);
    loco_rw_group_destroy(u.locks);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=500ns",
                                        "LOCO_LOCK_PASS=2ms", NULL };

extern const struct sim_scenario sim_scenario_rw_meet;
const struct sim_scenario sim_scenario_rw_meet = {
    .name = "rw_meet",
    .about = "two processes meet while both hold locks that do not exclude each other, and others "
             "wait for what excludes them: the line keeps nobody from the meeting",
    .processes = 4, .threads = 1, .rounds = 3, .processes_min = 3,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

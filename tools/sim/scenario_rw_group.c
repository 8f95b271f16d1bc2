/* SPDX-License-Identifier: BSD-3-Clause */

/* Members of a group of locks, one by one and all at once; each guards a pair of words. */

#include "config.h"

#include "scenario_util.h"

#define MEMBERS 3

struct member {
    int readers, writers;       /* who has it, by what its calls returned; all counts as a reader */
    uint64_t count;             /* what its words are */
    bool broken;                /* who wrote it was told of a death in the middle, and gave up */
};

struct state {
    struct sim_state common;
    bool drawn, ordered;        /* words lie at their lock's host, whose release is their fence */
    struct member member[MEMBERS];
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_rw_group_t *locks;
    loco_region_t *region;      /* a pair of words per member */
    int rank;
};

static int place_of(const struct user *u, int member)
{
    return (member + !u->s->ordered) % u->run->processes;
}

static int read_pair(struct user *u, int member)
{
    uint64_t pair[2], count = u->s->member[member].count;

    TRY(u->run, loco_region_read(u->region, place_of(u, member), 16 * (uint64_t)member, pair,
                                 sizeof pair));
    WANT(u->s->member[member].broken || (pair[0] == count && pair[1] == count),
         "p%d holds member %d and reads %llu and %llu; both are %llu", u->rank, member,
         (unsigned long long)pair[0], (unsigned long long)pair[1], (unsigned long long)count);
    return SIM_FINE;
}

static int enter_shared(struct user *u, int member)
{
    WANT(u->s->member[member].writers == 0, "p%d has member %d shared, another exclusive", u->rank,
         member);
    u->s->member[member].readers++;
    return SIM_FINE;
}

static int write_pair(struct user *u, int member)
{
    struct member *m = &u->s->member[member];
    loco_ack_t ack = LOCO_ACK_INIT;

    PASS(read_pair(u, member));
    for (uint64_t i = 0; i < 2; i++)
        TRY(u->run, loco_region_write64_ack(u->region, place_of(u, member),
                                            16 * (uint64_t)member + 8 * i, m->count + 1, &ack));
    m->count++;
    return SIM_FINE;
}

static int exclusive(struct user *u, int member, bool nested)
{
    struct member *m = &u->s->member[member];
    bool pair = loci_sim_draw(2) == 0;
    enum loco_fence_scope scope = u->s->ordered ? LOCO_ORDER
                                  : pair ? LOCO_FENCE_PAIR : LOCO_FENCE_PROCESS;
    int result, status;

    TRY(u->run, loco_rw_group_acquire_exclusive(u->locks, member, nested));
    WANT(m->writers == 0, "p%d has member %d exclusive, another, too", u->rank, member);
    WANT(m->readers == 0, "p%d has member %d exclusive, %d have it shared or all", u->rank, member,
         m->readers);
    m->writers = 1;
    result = write_pair(u, member);
    m->broken |= result != SIM_FINE;
    /* A second one, upwards. */
    if (result == SIM_FINE && !nested && member + 1 < MEMBERS && loci_sim_draw(2) == 0)
        result = exclusive(u, member + 1, true);
    m->writers = 0;
    status = loco_rw_group_release_exclusive(u->locks, member, scope,
                                             pair ? place_of(u, member) : LOCO_ALL_PEERS);
    return sim_first(result, sim_check(u->run, status, "release exclusive"));
}

static int shared(struct user *u, int member)
{
    int result, status;

    TRY(u->run, loco_rw_group_acquire_shared(u->locks, member, false));
    PASS(enter_shared(u, member));
    result = read_pair(u, member);
    u->s->member[member].readers--;
    status = loco_rw_group_release_shared(u->locks, member, LOCO_FENCE_NONE, 0);
    return sim_first(result, sim_check(u->run, status, "release shared"));
}

static int all(struct user *u)
{
    int result = SIM_FINE, status;

    TRY(u->run, loco_rw_group_acquire_all(u->locks, false));
    for (int i = 0; i < MEMBERS; i++)
        PASS(enter_shared(u, i));
    for (int i = 0; result == SIM_FINE && i < MEMBERS; i++)
        result = read_pair(u, i);
    for (int i = 0; i < MEMBERS; i++)
        u->s->member[i].readers--;
    status = loco_rw_group_release_all(u->locks, LOCO_FENCE_NONE, 0);
    return sim_first(result, sim_check(u->run, status, "release all"));
}

static int turns(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++) {
        /* That of the group's host at times: both words, and what they guard, are there. */
        int member = (int)(loci_sim_draw(2) == 0 ? 0 : loci_sim_draw(MEMBERS));

        switch (loci_sim_draw(3)) {
        case 0: PASS(all(u)); break;
        case 1: PASS(shared(u, member)); break;
        default: PASS(exclusive(u, member, false));
        }
    }
    return SIM_FINE;
}

static int use(struct user *u, loco_runtime_t *rt, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    WANT(loco_rw_group_acquire_shared(u->locks, MEMBERS, false) == LOCO_ERR_ARG,
         "a member that is not there is locked");
    WANT(loco_rw_group_release_all(u->locks, LOCO_FENCE_NONE, 0) == LOCO_ERR_STATE,
         "p%d releases what it does not hold", u->rank);
    return sim_threads(rt, u->run->threads, turns, u);
}

static void choose(struct state *s)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->ordered = loci_sim_draw(2) == 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *everyone = loco_everyone(rt);
    int result;

    choose(s);
    TRY(run, loco_rw_group_create(rt, NULL, "locks", everyone, MEMBERS, &u.locks));
    TRY(run, loco_region_create(rt, NULL, "data", everyone, 16 * MEMBERS, &u.region));
    result = sim_part(&seat, use(&u, rt, &seat));
    loco_rw_group_destroy(u.locks);
    loco_region_destroy(u.region);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

/* Those who wait for each other's tickets pass them before a run has too many steps. */
static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=500ns",
                                        "LOCO_LOCK_PASS=5ms", NULL };

extern const struct sim_scenario sim_scenario_rw_group;
const struct sim_scenario sim_scenario_rw_group = {
    .name = "rw_group",
    .about = "members locked shared, exclusive, two at a time, and all at once: whoever may be "
             "together is, nobody else; pairs of words under each",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

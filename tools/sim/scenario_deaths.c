/* SPDX-License-Identifier: BSD-3-Clause */

/* After a death survivors do not hurt each other. All use a channel; one may stop at any step. Who
 * hears of it, by what a call returns or by looking, destroys its channel at once or a while later,
 * makes another one whose memory may be the same, and closes its runtime, while others that have
 * not heard yet go on. Without a death all end their use together, and then destroy when they like.
 * What is wrong: memory that was given back is touched, by whomever (fabric/sim/poison.c); a call
 * returns what is neither a result nor LOCO_ERR_PEER_DEAD; somebody hangs. */

#include "config.h"

#include "scenario_deaths.h"

#define LONGEST_PAUSE 60000                     /* ns */

struct state {
    struct sim_state common;
    int host;                                   /* + 1; 0: not drawn yet */
    bool wrong;
};

struct body {
    struct sim_death_user user;
    const struct sim_death_kind *kind;
    bool told;
};

static const struct sim_death_kind *kind_of(const struct sim_run *run)
{
    const char *name = run->scenario->name + strlen("deaths_");
    int i = 0;

    while (strcmp(sim_death_kinds[i].name, name) != 0)
        i++;
    return &sim_death_kinds[i];
}

static bool sees_a_death(const struct sim_death_user *u)
{
    for (int i = 0; i < u->n; i++)
        if (loco_group_alive(loco_everyone(u->rt), i) != LOCO_OK)
            return true;
    return false;
}

static void dawdle(void)
{
    if (loci_sim_draw(2) == 0)
        loci_sim_sleep(1 + (int64_t)loci_sim_draw(1 + loci_sim_draw(LONGEST_PAUSE)));
}

static int use_thread(void *arg, int thread)
{
    struct body *b = arg;

    for (int round = 0; round < b->user.run->rounds && !b->told; round++) {
        int status = b->kind->use(&b->user, thread, round);

        switch (sim_check(b->user.run, status, b->kind->name)) {
        case SIM_WRONG: return SIM_WRONG;
        case SIM_TOLD: b->told = true; break;
        default:
            if (loci_sim_draw(3) == 0 && sees_a_death(&b->user))
                b->told = true;
        }
    }
    return SIM_FINE;
}

/* Its memory may be what the channel had. */
static int take_its_place(struct body *b)
{
    struct sim_death_user *u = &b->user;
    loco_region_t *region;
    loco_group_t *self;
    unsigned char junk[512];
    int result;

    memset(junk, 0xaa, sizeof junk);
    TRY(u->run, loco_group_subset(loco_everyone(u->rt), 1, &u->rank, &self));
    result = sim_check(u->run, loco_region_create(u->rt, NULL, "place", self, sizeof junk,
                                                  &region), "region");
    if (result == SIM_FINE)
        result = sim_check(u->run, loco_region_write(region, 0, 0, junk, sizeof junk),
                           "write");
    dawdle();
    if (result == SIM_FINE)
        loco_region_destroy(region);
    loco_group_destroy(self);
    return result;
}

static int live(struct body *b)
{
    struct sim_death_user *u = &b->user;
    int result;

    TRY(u->run, b->kind->make(u));
    result = sim_ready(u->run, u->seat);
    if (result == SIM_FINE)
        result = sim_threads(u->rt, u->run->threads, use_thread, b);
    /* Nobody leaves before the others have ended their use, unless for a death. */
    if (result == SIM_FINE && !b->told)
        result = sim_check(u->run, sim_meet(u->seat), "meeting");
    if (result == SIM_WRONG)
        return result;
    sim_leave(u->seat);
    dawdle();
    b->kind->destroy(u->made);
    if (result == SIM_FINE)
        result = take_its_place(b);
    dawdle();
    return result;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct body b = { .kind = kind_of(run) };

    if (s->host == 0)
        s->host = 1 + (int)loci_sim_draw((uint32_t)run->processes);
    b.user = (struct sim_death_user){ .run = run, .rt = rt, .seat = &seat, .rank = rank,
                                      .n = run->processes, .host = s->host - 1 };
    if (live(&b) == SIM_WRONG)
        return 1;
    loco_runtime_close(rt);
    return 0;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

#define SCENARIO(kind)                                                                            \
    extern const struct sim_scenario sim_scenario_deaths_##kind;                                  \
    const struct sim_scenario sim_scenario_deaths_##kind = {                                      \
        .name = "deaths_" #kind,                                                                  \
        .about = "a member stops; the others destroy, take the memory anew and close at any "     \
                 "time: what was given back nobody touches",                                      \
        .processes = 3, .threads = 1, .rounds = 4, .processes_min = 1, .settings = settings,      \
        .begin = begin, .body = body, .free = sim_state_free,                                     \
    };
SCENARIO(region) SCENARIO(owned_var) SCENARIO(atomic_var) SCENARIO(sst) SCENARIO(barrier)
SCENARIO(ticket_lock) SCENARIO(rw_lock) SCENARIO(rw_group) SCENARIO(ringbuffer) SCENARIO(queue)
SCENARIO(collective) SCENARIO(kvstore) SCENARIO(window) SCENARIO(window_fence)

/* SPDX-License-Identifier: BSD-3-Clause */

/* Regions come and go beside one that stays. The one that stays is always reached; another exactly
 * while it is attached, whichever table of keys the origin remembers. */

#include "config.h"

#include "scenario_util.h"

#define CELLS 5                 /* of each process; the middle one stays attached */
#define STAYS 2

struct cell {
    uint64_t value;
    uint64_t gap;               /* regions do not adjoin */
};

/* A cell's history in changes: even while it is one thing, odd while it changes. */
struct region {
    unsigned changes;
    bool attached;
};

struct state {
    struct sim_state common;
    struct cell *cell;          /* [process][CELLS] */
    struct region *region;
    uint64_t *added;            /* by process: to what stays */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_window_t *win;
    int rank;
};

static int index_of(int rank, int cell)
{
    return rank * CELLS + cell;
}

/* ---- the owner ---- */

static int change(struct user *u, int cell)
{
    struct region *r = &u->s->region[index_of(u->rank, cell)];
    struct cell *c = &u->s->cell[index_of(u->rank, cell)];

    WANT(loco_window_detach(u->win, &c->gap) == LOCO_ERR_ATTACH,
         "p%d detaches what is not attached", u->rank);
    r->changes++;
    if (r->attached)
        TRY(u->run, loco_window_detach(u->win, &c->value));
    else
        TRY(u->run, loco_window_attach(u->win, &c->value, sizeof c->value));
    r->attached = !r->attached;
    r->changes++;
    return SIM_FINE;
}

/* ---- the others ---- */

static int add_to_stable(struct user *u, int rank)
{
    uint64_t at = (uintptr_t)&u->s->cell[index_of(rank, STAYS)].value, one = 1, old = 0;
    uint64_t least = u->s->added[rank];

    TRY(u->run, sim_accumulate(u->win, rank, LOCO_TYPE_U64, LOCO_OP_SUM, at, &one, &old, 1));
    u->s->added[rank]++;
    WANT(old >= least, "p%d adds to %llu at p%d, where %llu was", u->rank,
         (unsigned long long)old, rank, (unsigned long long)least);
    return SIM_FINE;
}

static int call_one(struct user *u, int rank, uint64_t at)
{
    uint64_t value = 77;

    switch (loci_sim_draw(3)) {
    case 0:
        return sim_put(u->win, rank, at, &value, 8);
    case 1:
        return sim_get(u->win, rank, at, &value, 8);
    default:
        return sim_accumulate(u->win, rank, LOCO_TYPE_U64, LOCO_OP_SUM, at, &value, NULL, 1);
    }
}

/* While nothing changed during the call, it must say what is so. */
static int access_one(struct user *u, int rank, int cell)
{
    struct region *r = &u->s->region[index_of(rank, cell)];
    struct region before = *r;
    int status = call_one(u, rank, (uintptr_t)&u->s->cell[index_of(rank, cell)].value);
    bool stable = before.changes == r->changes && r->changes % 2 == 0;

    if (status != LOCO_ERR_RANGE)
        TRY(u->run, status);
    WANT(!stable || (status == LOCO_OK) == r->attached,
         "p%d reaches region %d of p%d, which is %s: %s", u->rank, cell, rank,
         r->attached ? "attached" : "detached", loco_strerror(status));
    if (status == LOCO_OK)      /* it is over when its region is detached: no program's error */
        TRY(u->run, loco_window_flush(u->win, rank));
    return SIM_FINE;
}

/* ---- the body ---- */

static int in_epoch(struct user *u)
{
    uint32_t n = (uint32_t)u->run->processes;

    for (int i = 0; i < u->run->rounds; i++) {
        int rank = (int)loci_sim_draw(n), cell = (int)loci_sim_draw(CELLS - 1);

        cell += cell >= STAYS;
        if (loci_sim_draw(2) == 0)
            PASS(change(u, cell));
        PASS(loci_sim_draw(3) == 0 ? add_to_stable(u, rank) : access_one(u, rank, cell));
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    struct cell *stays = &u->s->cell[index_of(u->rank, STAYS)];
    int result, status;

    TRY(u->run, loco_window_attach(u->win, &stays->value, sizeof stays->value));
    WANT(loco_window_attach(u->win, &stays->value, 1) == LOCO_ERR_ATTACH,
         "p%d attaches the same twice", u->rank);
    TRY(u->run, sim_meet(seat));
    TRY(u->run, loco_window_lock_all(u->win, 0));
    result = in_epoch(u);
    status = loco_window_unlock_all(u->win);
    PASS(sim_first(result, sim_check(u->run, status, "unlock_all")));
    TRY(u->run, sim_meet(seat));
    WANT(stays->value == u->s->added[u->rank],
         "p%d's region that stays is %llu after %llu additions", u->rank,
         (unsigned long long)stays->value, (unsigned long long)u->s->added[u->rank]);
    for (int i = 0; i < CELLS; i++)
        WANT(u->s->cell[index_of(u->rank, i)].gap == 0, "p%d: bytes beside region %d are written",
             u->rank, i);
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct loco_exchange exchange = sim_exchange(&seat);
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_DYNAMIC, .disp_unit = 1 };
    int result = sim_check(run, loco_window_create(rt, &exchange, &spec, &u.win), "create");

    if (result == SIM_FINE)
        result = use(&u, &seat);
    result = sim_part(&seat, result);
    if (u.win != NULL && result == 0)
        result = sim_check(run, loco_window_destroy(u.win), "destroy") == SIM_WRONG;
    return result;
}

static int begin(struct sim_run *run)
{
    size_t n = (size_t)run->processes;
    struct state *s;

    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    s->cell = calloc(n * CELLS, sizeof s->cell[0]);
    s->region = calloc(n * CELLS, sizeof s->region[0]);
    s->added = calloc(n, sizeof s->added[0]);
    return s->cell == NULL || s->region == NULL || s->added == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        free(s->cell);
        free(s->region);
        free(s->added);
    }
    sim_state_free(run);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_window_dynamic;
const struct sim_scenario sim_scenario_window_dynamic = {
    .name = "window_dynamic",
    .about = "a region is reached exactly while it is attached, one that stays always, whatever "
             "is attached and detached beside it; no stale key is used",
    .processes = 3, .threads = 1, .rounds = 6, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};

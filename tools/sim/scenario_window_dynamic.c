/* SPDX-License-Identifier: BSD-3-Clause */

/* Regions of one to three cells come and go beside one that stays, enough of them for a tree of
 * some levels. The one that stays is always reached; any other cell exactly while it is attached,
 * whatever its region, and whichever regions an origin remembers. */

#include "config.h"

#include "scenario_util.h"

#define CELLS 14                /* of each process; one in the middle stays attached */
#define STAYS 6
#define LONGEST 3

/* A cell's history in changes: even while it is one thing, odd while it changes. */
struct history {
    unsigned changes;
    int len;                    /* cells of the region that begins here; 0: none */
    bool attached;
};

struct state {
    struct sim_state common;
    uint64_t *cell;             /* [process][CELLS + 1]; the last one is never attached */
    struct history *history;    /* [process][CELLS] */
    uint64_t *added;            /* by process: to what stays */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_window_t *win;
    int rank;
};

static uint64_t *cell_of(const struct user *u, int rank, int cell)
{
    return &u->s->cell[rank * (CELLS + 1) + cell];
}

static struct history *history_of(const struct user *u, int rank, int cell)
{
    return &u->s->history[rank * CELLS + cell];
}

/* ---- the owner ---- */

static void changing(const struct user *u, int cell, int len)
{
    for (int i = 0; i < len; i++)
        history_of(u, u->rank, cell + i)->changes++;
}

/* Cells from there on that are detached, and that nobody changes. */
static int free_cells(const struct user *u, int cell)
{
    int n = 0;

    while (n < LONGEST && cell + n < CELLS && cell + n != STAYS
           && !history_of(u, u->rank, cell + n)->attached
           && history_of(u, u->rank, cell + n)->changes % 2 == 0)
        n++;
    return n;
}

static int attach(struct user *u, int cell)
{
    int room = free_cells(u, cell), len;

    if (room == 0)
        return SIM_FINE;
    len = 1 + (int)loci_sim_draw((uint32_t)room);
    changing(u, cell, len);
    TRY(u->run, loco_window_attach(u->win, cell_of(u, u->rank, cell), (size_t)len * 8));
    for (int i = 0; i < len; i++)
        history_of(u, u->rank, cell + i)->attached = true;
    history_of(u, u->rank, cell)->len = len;
    changing(u, cell, len);
    return SIM_FINE;
}

static int detach(struct user *u, int cell)
{
    struct history *h = history_of(u, u->rank, cell);
    int len = h->len;

    changing(u, cell, len);
    h->len = 0;
    TRY(u->run, loco_window_detach(u->win, cell_of(u, u->rank, cell)));
    for (int i = 0; i < len; i++)
        history_of(u, u->rank, cell + i)->attached = false;
    changing(u, cell, len);
    return SIM_FINE;
}

static int change(struct user *u)
{
    int cell = (int)loci_sim_draw(CELLS);
    struct history *h = history_of(u, u->rank, cell);

    if (cell == STAYS || h->changes % 2 != 0)
        return SIM_FINE;
    if (!h->attached)
        return attach(u, cell);
    WANT(u->run->threads > 1
         || loco_window_attach(u->win, cell_of(u, u->rank, cell), 8) == LOCO_ERR_ATTACH,
         "p%d attaches cell %d, which is attached", u->rank, cell);
    if (h->len > 0)
        return detach(u, cell);
    WANT(u->run->threads > 1
         || loco_window_detach(u->win, cell_of(u, u->rank, cell)) == LOCO_ERR_ATTACH,
         "p%d detaches from the middle of a region, cell %d", u->rank, cell);
    return SIM_FINE;
}

/* ---- the others ---- */

static int add_to_stable(struct user *u, int rank)
{
    uint64_t at = (uintptr_t)cell_of(u, rank, STAYS), one = 1, old = 0;
    uint64_t least = u->s->added[rank];

    TRY(u->run, sim_accumulate(u->win, rank, LOCO_TYPE_U64, LOCO_OP_SUM, at, &one, &old, 1));
    u->s->added[rank]++;
    WANT(u->run->threads > 1 || old >= least, "p%d adds to %llu at p%d, where %llu was", u->rank,
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

/* While nothing changed during the call, it must say what is so. While it did, it may also have
 * used the key of a region that was detached meanwhile, which the simulated device refuses. */
static int access_one(struct user *u, int rank, int cell)
{
    struct history *h = history_of(u, rank, cell);
    struct history before = *h;
    int status = call_one(u, rank, (uintptr_t)cell_of(u, rank, cell));
    bool stable = before.changes == h->changes && h->changes % 2 == 0;

    WANT(!stable || status != LOCO_ERR_PROTOCOL,
         "p%d uses a key that has outlived its region: cell %d of p%d, which is %s", u->rank, cell,
         rank, h->attached ? "attached" : "detached");
    if (status != LOCO_ERR_RANGE && status != LOCO_ERR_PROTOCOL)
        TRY(u->run, status);
    WANT(!stable || (status == LOCO_OK) == h->attached,
         "p%d reaches cell %d of p%d, which is %s: %s", u->rank, cell, rank,
         h->attached ? "attached" : "detached", loco_strerror(status));
    if (status == LOCO_OK)      /* it is over when its region is detached: no program's error */
        TRY(u->run, loco_window_flush(u->win, rank));
    return SIM_FINE;
}

/* ---- the body ---- */

static int in_epoch(void *arg, int thread)
{
    struct user *u = arg;
    uint32_t n = (uint32_t)u->run->processes;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++) {
        int rank = (int)loci_sim_draw(n), cell = (int)loci_sim_draw(CELLS);

        while (loci_sim_draw(3) == 0)
            PASS(change(u));
        PASS(cell == STAYS ? add_to_stable(u, rank) : access_one(u, rank, cell));
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    uint64_t *stays = cell_of(u, u->rank, STAYS);
    int result, status;

    TRY(u->run, loco_window_attach(u->win, stays, sizeof *stays));
    for (int i = 0; i < CELLS / 2; i++)
        PASS(change(u));
    TRY(u->run, sim_meet(seat));
    TRY(u->run, loco_window_lock_all(u->win, 0));
    result = sim_threads(seat->rt, u->run->threads, in_epoch, u);
    status = loco_window_unlock_all(u->win);
    PASS(sim_first(result, sim_check(u->run, status, "unlock_all")));
    TRY(u->run, sim_meet(seat));
    WANT(*stays == u->s->added[u->rank],
         "p%d's region that stays is %llu after %llu additions", u->rank,
         (unsigned long long)*stays, (unsigned long long)u->s->added[u->rank]);
    WANT(*cell_of(u, u->rank, CELLS) == 0, "p%d: bytes beside all regions are written", u->rank);
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
    s->cell = calloc(n * (CELLS + 1), sizeof s->cell[0]);
    s->history = calloc(n * CELLS, sizeof s->history[0]);
    s->added = calloc(n, sizeof s->added[0]);
    return s->cell == NULL || s->history == NULL || s->added == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        free(s->cell);
        free(s->history);
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
    .processes = 3, .threads = 1, .rounds = 10, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};

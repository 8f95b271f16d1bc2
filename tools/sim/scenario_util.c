/* SPDX-License-Identifier: BSD-3-Clause */

/* See scenario_util.h. Who waits here does so through the runtime, as for anything else: the
 * simulator then knows that it waits, and finds that it does so for ever. */

#include "config.h"

#include "scenario_util.h"

#include "wait.h"

#define RECORD_MAX 512

/* ---- checks ---- */

bool sim_any_stopped(const struct sim_run *run)
{
    for (int i = 0; i < run->processes; i++)
        if (loci_sim_is_stopped(i))
            return true;
    return false;
}

/* Control messages may not arrive. */
static bool is_lossy(const struct sim_run *run)
{
    return run->faults && (run->fault.lose > 0 || run->fault.garble > 0);
}

int sim_check(const struct sim_run *run, int status, const char *call)
{
    if (status == LOCO_OK)
        return SIM_FINE;
    if (status == LOCO_ERR_PEER_DEAD && run->faults && sim_any_stopped(run))
        return SIM_TOLD;
    if ((status == LOCO_ERR_TIMEOUT || status == LOCO_ERR_MISMATCH
         || status == LOCO_ERR_PEER_DEAD) && is_lossy(run))
        return SIM_TOLD;        /* that of a meeting, which another has left */
    return loci_sim_fail("%s: %s", call, loco_strerror(status));
}

uint64_t sim_peek(const void *word)
{
    uint64_t value;

    memcpy(&value, word, sizeof value);
    return value;
}

int sim_threads(loco_runtime_t *rt, int n, int (*fn)(void *arg, int thread), void *arg)
{
    return n == 1 ? fn(arg, 0) : loci_sim_threads(rt, n, fn, arg);
}

static int whoever_dies(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

int sim_wait(loco_runtime_t *rt, int (*ready)(void *arg), void *arg)
{
    const struct loci_reason why = {
        .what = "the others, outside the network", .peer = -1, .broken = whoever_dies,
        .timeout_ns = LOCO_FOREVER,
    };

    return loci_wait(rt, &why, ready, arg);
}

/* ---- meeting ---- */

/* What they give goes into one of two rows of cells, by turns: the slowest still reads one while
 * the fastest writes the other. */
struct sim_place {
    int n;
    unsigned *round;            /* of each: meetings that it has come to */
    bool *left;
    bool unconnected;           /* somebody's endpoints were not connected in time */
    unsigned char *cell[2];
};

struct sim_place *sim_place_make(int processes)
{
    size_t n = (size_t)processes;
    struct sim_place *place = calloc(1, sizeof *place);

    if (place == NULL)
        return NULL;
    place->n = processes;
    place->round = calloc(n, sizeof place->round[0]);
    place->left = calloc(n, sizeof place->left[0]);
    for (int i = 0; i < 2; i++)
        place->cell[i] = malloc(n * RECORD_MAX);
    if (place->round == NULL || place->left == NULL || place->cell[0] == NULL
        || place->cell[1] == NULL) {
        sim_place_free(place);
        return NULL;
    }
    return place;
}

void sim_place_free(struct sim_place *place)
{
    if (place == NULL)
        return;
    free(place->round);
    free(place->left);
    free(place->cell[0]);
    free(place->cell[1]);
    free(place);
}

struct sim_seat sim_seat(struct sim_place *place, loco_runtime_t *rt, int rank)
{
    return (struct sim_seat){ place, rt, rank };
}

struct meeting {
    const struct sim_place *place;
    unsigned round;
    bool missing;
};

static int all_came(void *arg)
{
    struct meeting *m = arg;

    m->missing = false;
    for (int i = 0; i < m->place->n; i++) {
        if (m->place->round[i] >= m->round)
            continue;
        if (!m->place->left[i] && !loci_sim_is_stopped(i))
            return 0;
        m->missing = true;
    }
    return 1;
}

static int all_left(void *arg)
{
    const struct meeting *m = arg;

    for (int i = 0; i < m->place->n; i++)
        if (!m->place->left[i] && !loci_sim_is_stopped(i))
            return 0;
    return 1;
}


static int gather(void *ctx, const void *mine, size_t len, void *all)
{
    struct sim_seat *seat = ctx;
    struct sim_place *place = seat->place;
    struct meeting m = { place, place->round[seat->rank] + 1, false };
    unsigned char *cell = place->cell[m.round % 2];
    int status;

    if (len > RECORD_MAX)
        return LOCO_ERR_ARG;
    if (len > 0)
        memcpy(cell + (size_t)seat->rank * RECORD_MAX, mine, len);
    place->round[seat->rank] = m.round;
    status = sim_wait(seat->rt, all_came, &m);
    if (status != LOCO_OK || m.missing)
        return status != LOCO_OK ? status : LOCO_ERR_PEER_DEAD;
    for (int i = 0; len > 0 && i < place->n; i++)
        memcpy((unsigned char *)all + (size_t)i * len, cell + (size_t)i * RECORD_MAX, len);
    return LOCO_OK;
}

int sim_meet(struct sim_seat *seat)
{
    return gather(seat, NULL, 0, NULL);
}

struct loco_exchange sim_exchange(struct sim_seat *seat)
{
    return (struct loco_exchange){ seat, seat->rank, seat->place->n, gather };
}

int64_t sim_patience(const struct sim_run *run)
{
    return is_lossy(run) ? INT64_C(50000000) : LOCO_FOREVER;
}

int sim_ready(const struct sim_run *run, struct sim_seat *seat)
{
    return sim_ready_below(run, seat, NULL);
}

int sim_ready_below(const struct sim_run *run, struct sim_seat *seat, const char *name)
{
    int status = name == NULL ? loco_runtime_wait_ready(seat->rt, sim_patience(run))
                 : loco_runtime_wait_ready_below(seat->rt, name, sim_patience(run));

    if (!is_lossy(run))
        return sim_check(run, status, "wait_ready");
    if (status != LOCO_OK)
        seat->place->unconnected = true;
    PASS(sim_check(run, sim_meet(seat), "meeting"));
    PASS(sim_check(run, status, "wait_ready"));
    return seat->place->unconnected ? SIM_TOLD : SIM_FINE;
}

int sim_part(struct sim_seat *seat, int result)
{
    struct meeting m = { seat->place, 0, false };

    if (result == SIM_WRONG)
        return 1;
    loco_fence(seat->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
    seat->place->left[seat->rank] = true;
    sim_wait(seat->rt, all_left, &m);
    return 0;
}

void sim_leave(struct sim_seat *seat)
{
    seat->place->left[seat->rank] = true;
}

/* ---- windows ---- */

int sim_put(loco_window_t *win, int rank, uint64_t offset, const void *from, size_t len)
{
    const struct loco_span span = { (void *)from, offset, len };

    return loco_window_put(win, rank, &span, 1, NULL);
}

int sim_get(loco_window_t *win, int rank, uint64_t offset, void *to, size_t len)
{
    const struct loco_span span = { to, offset, len };

    return loco_window_get(win, rank, &span, 1, NULL);
}

int sim_accumulate(loco_window_t *win, int rank, enum loco_type type, enum loco_op op,
                   uint64_t offset, const void *operand, void *result, size_t n)
{
    const struct loco_span span = { NULL, offset, n * loco_type_extent(type) };
    const struct loco_accumulate acc = { type, op, operand, result, &span, 1 };

    return loco_window_accumulate(win, rank, &acc, NULL);
}

/* ---- states ---- */

int sim_state_begin(struct sim_run *run, size_t size)
{
    struct sim_state *state = calloc(1, size);

    if (state == NULL)
        return -1;
    state->place = sim_place_make(run->processes);
    run->state = state;
    return state->place == NULL ? -1 : 0;
}

void sim_state_free(struct sim_run *run)
{
    struct sim_state *state = run->state;

    if (state == NULL)
        return;
    sim_place_free(state->place);
    free(state);
    run->state = NULL;
}

/* ---- for `scale` ---- */

/* A world is in one OS thread; the first to come makes the place, the last to leave frees it. */
static _Thread_local struct sim_place *scale_place;
static _Thread_local int scale_seats;

struct loco_exchange sim_scale_exchange(loco_runtime_t *rt, int rank, int processes,
                                        struct sim_seat *seat)
{
    if (scale_seats++ == 0)
        scale_place = sim_place_make(processes);
    if (scale_place == NULL)
        abort();
    *seat = sim_seat(scale_place, rt, rank);
    return sim_exchange(seat);
}

void sim_scale_leave(struct sim_seat *seat)
{
    (void)seat;
    if (--scale_seats == 0) {
        sim_place_free(scale_place);
        scale_place = NULL;
    }
}

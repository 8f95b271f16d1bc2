/* SPDX-License-Identifier: BSD-3-Clause */

/* Each process counts in its row and publishes data by a column, as sst.h says: data, fence, set,
 * push. Rows that are atomic are whole; columns and rows only grow. */

#include "config.h"

#include "scenario_util.h"

#define COLUMNS 3

struct state {
    struct sim_state common;
    bool drawn;
    int flags;
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_sst_t *sst;
    loco_region_t *data;        /* a word of each process, at its neighbour */
    int rank;
};

static int data_at(const struct user *u, int rank)
{
    return (rank + 1) % u->run->processes;
}

static int push(struct user *u)
{
    int n = u->run->processes;
    loco_ack_t ack = LOCO_ACK_INIT;

    switch (loci_sim_draw(4)) {
    case 0:
        for (int i = n - 1; i >= 0; i--)
            TRY(u->run, loco_sst_push_some(u->sst, 0, COLUMNS, &i, 1));
        return SIM_FINE;
    case 1:
        TRY(u->run, loco_sst_push_all_ack(u->sst, 0, COLUMNS, &ack));
        return SIM_FINE;
    case 2:
        TRY(u->run, loco_sst_push(u->sst, 0, COLUMNS, (int)loci_sim_draw((uint32_t)n)));
        return SIM_FINE;
    default:
        TRY(u->run, loco_sst_push_all(u->sst, 0, COLUMNS));
        return SIM_FINE;
    }
}

static int publish(struct user *u, uint64_t number)
{
    const uint64_t row[COLUMNS] = { number, number, number };

    TRY(u->run, loco_region_write64(u->data, data_at(u, u->rank), 8 * (uint64_t)u->rank, number));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PAIR, data_at(u, u->rank)));
    if (loci_sim_draw(2) == 0)
        TRY(u->run, loco_sst_set_range(u->sst, 0, COLUMNS, row));
    else
        for (int i = 0; i < COLUMNS; i++)
            TRY(u->run, loco_sst_set(u->sst, i, number));
    return push(u);
}

static int writer(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 1; i <= u->run->rounds; i++)
        PASS(publish(u, (uint64_t)i));
    return SIM_FINE;
}

static int look(struct user *u, int of, uint64_t *last)
{
    uint64_t row[COLUMNS], column, data = 0;

    TRY(u->run, loco_sst_get(u->sst, of, 1, &column));
    TRY(u->run, loco_sst_row(u->sst, of, row));
    WANT(row[1] >= column && column >= last[1], "p%d reads a column of p%d as %llu, %llu, %llu",
         u->rank, of, (unsigned long long)last[1], (unsigned long long)column,
         (unsigned long long)row[1]);
    for (int i = 0; i < COLUMNS; i++) {
        WANT(row[i] >= last[i] && row[i] <= (uint64_t)u->run->rounds,
             "p%d reads column %d of p%d as %llu after %llu", u->rank, i, of,
             (unsigned long long)row[i], (unsigned long long)last[i]);
        /* Where columns are set one by one, a row between two of them may be pushed, too. */
        WANT((u->s->flags & LOCO_SST_ROWS) == 0 || row[i] + 1 >= row[0],
             "p%d reads a row of p%d torn: %llu and %llu", u->rank, of,
             (unsigned long long)row[0], (unsigned long long)row[i]);
        last[i] = row[i];
    }
    TRY(u->run, loco_region_read64(u->data, data_at(u, of), 8 * (uint64_t)of, &data));
    WANT(data >= row[0], "p%d sees number %llu of p%d published, and data %llu", u->rank,
         (unsigned long long)row[0], of, (unsigned long long)data);
    return SIM_FINE;
}

static int reader(void *arg, int thread)
{
    struct user *u = arg;
    int n = u->run->processes, of = (u->rank + thread) % n;
    uint64_t last[COLUMNS] = { 0 };

    for (int i = 0; i < u->run->rounds; i++)
        PASS(look(u, of, last));
    return SIM_FINE;
}

static int either(void *arg, int thread)
{
    return thread == 0 ? writer(arg, thread) : reader(arg, thread);
}

static int use(struct user *u, struct sim_seat *seat)
{
    int n = u->run->processes;
    uint64_t row[COLUMNS];

    PASS(sim_ready(u->run, seat));
    PASS(sim_threads(u->rt, u->run->threads, either, u));
    TRY(u->run, loco_sst_push_all(u->sst, 0, COLUMNS));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    TRY(u->run, sim_meet(seat));
    for (int i = 0; i < n; i++) {
        TRY(u->run, loco_sst_row(u->sst, i, row));
        for (int k = 0; k < COLUMNS; k++)
            WANT(row[k] == (uint64_t)u->run->rounds, "p%d reads column %d of p%d as %llu at last",
                 u->rank, k, i, (unsigned long long)row[k]);
    }
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *all = loco_everyone(rt);
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->flags = loci_sim_draw(2) == 0 ? LOCO_SST_ROWS : LOCO_SST_COLUMNS;
    }
    TRY(run, loco_sst_create(rt, NULL, "table", all, COLUMNS, s->flags, &u.sst));
    TRY(run, loco_region_create(rt, NULL, "data", all, 8 * (size_t)run->processes, &u.data));
    result = sim_part(&seat, use(&u, &seat));
    loco_sst_destroy(u.sst);
    loco_region_destroy(u.data);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_sst_t *sst;

    (void)rank;
    (void)processes;
    return loco_sst_create(rt, NULL, "table", loco_everyone(rt), 1, LOCO_SST_COLUMNS, &sst)
           == LOCO_OK && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? sst : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    int status = loco_sst_set(channel, 0, (uint64_t)round + 1);

    (void)rt;
    (void)rank;
    return status != LOCO_OK ? status : loco_sst_push_all(channel, 0, 1);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_sst_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_sst;
const struct sim_scenario sim_scenario_sst = {
    .name = "sst",
    .about = "columns, and rows where they are atomic, only grow and are whole; what was fenced "
             "before a push is there when the push is seen",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "N-1 writes per process",
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* A hosted store: process 0 keeps it, and the others come and go. Each comer takes a place that is
 * vacant, does some of what scenario_store.c does, and leaves, or stops somewhere in the middle.
 * There are fewer places than processes, so that most come into a place that somebody has had; the
 * host gives it to them once it has cleaned up. All together is strictly serializable, and at the
 * end all memory is there. On one node, or with the host on another one than the others. */

#include "config.h"

#include "hosted_store.h"
#include "scenario_store.h"

#define PLACES_MOST 3
#define PAUSE 20000                     /* ns */
#define TRIES 1000

enum place_state { VACANT, TAKEN, LEFT };

struct place {
    enum place_state state;
    int process;                        /* that has taken it */
};

struct hosted_state {
    struct store_state store;           /* first */
    struct sim_hosted_keys keys;
    int places;
    struct place place[PLACES_MOST];
    bool ended[STORE_PROCESSES_MAX];    /* a process: it comes no more */
};

struct comer {
    struct store_user u;
    struct hosted_state *h;
    int place;
    uint64_t made;                      /* numbers so far, over all its visits */
};

extern const struct sim_scenario sim_scenario_hosted;

static int make_store(struct store_user *u, const struct hosted_state *h, int place)
{
    TRY(u->run, sim_hosted_make(u->rt, u->run->one_node, h->places, place, &h->store.options,
                                &u->store));
    return SIM_FINE;
}

/* ---- the host ---- */

static bool is_over(const struct hosted_state *h, int process)
{
    return h->ended[process] || loci_sim_is_stopped(process);
}

static bool has_gone(const struct store_user *u, const struct place *p)
{
    return p->state == LEFT
           || (p->state == TAKEN
               && loco_group_alive(loco_everyone(u->rt), p->process) != LOCO_OK);
}

static bool all_over(const struct store_user *u, const struct hosted_state *h)
{
    for (int i = 1; i < u->run->processes; i++)
        if (!is_over(h, i))
            return false;
    for (int i = 0; i < h->places; i++)
        if (h->place[i].state != VACANT)
            return false;
    return true;
}

struct host {
    struct store_user *u;
    struct hosted_state *h;
};

static int has_work(void *arg)
{
    const struct host *host = arg;

    for (int i = 0; i < host->h->places; i++)
        if (has_gone(host->u, &host->h->place[i]))
            return 1;
    return all_over(host->u, host->h);
}

static int vacate(struct store_user *u, struct hosted_state *h, int place)
{
    struct place *p = &h->place[place];
    int status = sim_hosted_vacate(u->store, place, p->process);

    if (status == LOCO_ERR_AGAIN)
        return SIM_FINE;                /* somebody else is in a transaction */
    TRY(u->run, status);
    p->state = VACANT;
    return SIM_FINE;
}

static int look_after(struct store_user *u, struct hosted_state *h)
{
    struct host host = { u, h };

    for (int tries = 0; tries < TRIES; tries++) {
        sim_wait(u->rt, has_work, &host);
        if (all_over(u, h))
            return SIM_FINE;
        for (int i = 0; i < h->places; i++)
            if (has_gone(u, &h->place[i]))
                sim_hosted_gone(u->store, i, h->place[i].process);
        for (int i = 0; i < h->places; i++)
            if (has_gone(u, &h->place[i]))
                PASS(vacate(u, h, i));
        loci_sim_sleep(PAUSE);
    }
    return loci_sim_fail("a place is not vacant after %d tries", TRIES);
}

/* Where nobody has stopped, all that is no object's is in pools and stocks. */
static int nothing_lost(struct store_user *u)
{
    loco_store_scavenged_t found;

    if (sim_any_stopped(u->run))
        return SIM_FINE;
    TRY(u->run, loco_store_scavenge(u->store, &found));
    WANT(found.blocks + found.cells + found.left == 0,
         "all have left in order, and %llu blocks and %llu places are nobody's",
         (unsigned long long)(found.blocks + found.left), (unsigned long long)found.cells);
    return SIM_FINE;
}

static int serve(struct store_user *u, struct hosted_state *h)
{
    struct store_client c;
    int result;

    PASS(make_store(u, h, -1));
    sim_hosted_tell(u->store, &h->keys);
    PASS(store_open(u, 0, &c));
    result = store_make_accounts(&c);
    if (result == SIM_FINE)
        result = look_after(u, h);
    if (result == SIM_FINE)
        result = nothing_lost(u);
    loco_tx_close(c.tx);
    return result == SIM_FINE ? store_end(u) : result;
}

/* ---- those who come ---- */

static int take_place(struct comer *m)
{
    struct hosted_state *h = m->h;

    for (int i = 0; i < h->places; i++)
        if (h->place[i].state == VACANT) {
            h->place[i] = (struct place){ TAKEN, m->u.rank };
            m->place = i;
            return 1;
        }
    return 0;
}

static int may_come(void *arg)
{
    struct comer *m = arg;

    if (loci_sim_is_stopped(0))
        return 1;
    return m->h->store.set_up && take_place(m);
}

static int work(void *arg, int thread)
{
    struct comer *m = arg;
    struct store_client c;
    int result;

    PASS(store_open(&m->u, thread, &c));
    c.made = m->made;
    for (int i = 0; i < 2; i++) {
        result = store_one_round(&c);
        if (result == SIM_WRONG)
            return result;
    }
    if (m->made < c.made)
        m->made = c.made;
    loco_tx_close(c.tx);
    return SIM_FINE;
}

static int visit(struct comer *m)
{
    int result = make_store(&m->u, m->h, m->place);

    if (result == SIM_FINE)
        result = sim_check(m->u.run, sim_hosted_learn(m->u.store, &m->h->keys), "import");
    if (result == SIM_FINE)
        result = sim_threads(m->u.rt, m->u.run->threads, work, m);
    loco_store_destroy(m->u.store);
    m->u.store = NULL;
    m->h->place[m->place].state = LEFT;
    return result;
}

static int come_and_go(struct comer *m)
{
    for (int i = 0; i < m->u.run->rounds; i++) {
        sim_wait(m->u.rt, may_come, m);
        if (m->place < 0)
            return SIM_TOLD;            /* the host has stopped */
        PASS(visit(m));
        m->place = -1;
    }
    return SIM_FINE;
}

/* ---- the body ---- */

static void choose(struct hosted_state *h, const struct sim_run *run)
{
    struct store_state *s = &h->store;

    if (s->drawn)
        return;
    store_choose(s, run);
    s->hosted = true;
    s->tight = false;
    s->first = 0;
    s->options.bytes = 524288;
    s->options.objects = 96;
    s->host[0] = 0;
    s->options.hosts = s->host;
    s->options.nhosts = 1;
    h->places = 1 + (int)loci_sim_draw(PLACES_MOST);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct hosted_state *h = run->state;
    struct comer m = {
        .u = { .run = run, .s = &h->store, .rt = rt, .rank = rank }, .h = h, .place = -1,
    };
    struct sim_seat seat = sim_seat(h->store.common.place, rt, rank);
    int result;

    choose(h, run);
    result = rank == 0 ? serve(&m.u, h) : come_and_go(&m);
    h->ended[rank] = true;
    result = sim_part(&seat, result);
    loco_store_destroy(m.u.store);
    return result;
}

static int begin(struct sim_run *run)
{
    return run->processes > STORE_PROCESSES_MAX || run->threads > STORE_THREADS_MAX
           ? -1 : sim_state_begin(run, sizeof(struct hosted_state));
}

static int end(struct sim_run *run)
{
    struct hosted_state *h = run->state;
    char text[480];

    return sim_tx_check(&h->store.history, text, sizeof text) ? 0 : loci_sim_fail("%s", text);
}

static void drop(struct sim_run *run)
{
    struct hosted_state *h = run->state;

    if (h != NULL)
        sim_tx_history_fini(&h->store.history);
    sim_state_free(run);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

const struct sim_scenario sim_scenario_hosted = {
    .name = "hosted",
    .about = "a store that one process keeps while others come, take the places of those before "
             "them, and leave or stop: it is strictly serializable, and no memory is lost",
    .processes = 4, .threads = 1, .rounds = 3, .processes_min = 2,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = drop,
};

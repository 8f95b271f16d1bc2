/* SPDX-License-Identifier: BSD-3-Clause */

/* A hosted store: process 0 keeps it, and the others come and go. Each comer takes a place that is
 * vacant, does some of what scenario_store.c does, and leaves, or stops somewhere in the middle.
 * There are fewer places than processes, so that most come into a place that somebody has had; the
 * host gives it to them once it has cleaned up. All together is strictly serializable, and at the
 * end all memory is there. On one node, or with the host on another one than the others; or by the
 * ports of an agent of theirs, process 1, from which they move over to connections of their own now
 * and then. Then what somebody who dies has posted is under way for as long as the agent says. */

#include "config.h"

#include "hosted_ports.h"
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
    bool by_port;
    struct sim_goer goer[STORE_PROCESSES_MAX];
};

struct comer {
    struct store_user u;
    struct hosted_state *h;
    int place;
    uint64_t made;                      /* numbers so far, over all its visits */
};

extern const struct sim_scenario sim_scenario_hosted, sim_scenario_hosted_ports;

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

static bool agent_has_stopped(const struct hosted_state *h)
{
    return h->by_port && loci_sim_is_stopped(SIM_HOSTED_AGENT);
}

static bool has_gone(const struct store_user *u, const struct hosted_state *h, int place)
{
    const struct place *p = &h->place[place];

    return p->state == LEFT
           || (p->state == TAKEN
               && loco_group_alive(loco_everyone(u->rt), p->process) != LOCO_OK
               && (!h->by_port || h->goer[p->process].seen_off));
}

static bool all_over(const struct store_user *u, const struct hosted_state *h)
{
    for (int i = 1; i < u->run->processes; i++)
        if (!is_over(h, i))
            return false;
    for (int i = 0; i < h->places && !agent_has_stopped(h); i++)
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
        if (has_gone(host->u, host->h, i))
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

/* Where the agent has stopped, the last writes of those who went by it are lost: a place that was
 * left in the middle of a turn is vacant only when its process has ended, which is after this. So
 * tries do not count then. */
static int look_after(struct store_user *u, struct hosted_state *h)
{
    struct host host = { u, h };

    for (int tries = 0; tries < TRIES; tries += !agent_has_stopped(h)) {
        sim_wait(u->rt, has_work, &host);
        if (all_over(u, h))
            return SIM_FINE;
        for (int i = 0; i < h->places; i++)
            if (has_gone(u, h, i))
                sim_hosted_gone(u->store, i, h->place[i].process);
        for (int i = 0; i < h->places; i++)
            if (has_gone(u, h, i))
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

/* ---- the agent ---- */

struct agent {
    struct store_user *u;
    struct hosted_state *h;
    struct sim_agent *agent;
    int goes;                           /* whose requests it waits for */
};

static bool goes(const struct hosted_state *h, int process)
{
    return h->goer[process].state == SIM_GOER_LEFT
           || (h->goer[process].state == SIM_GOER_GIVEN && loci_sim_is_stopped(process));
}

static bool all_goers_over(const struct agent *a)
{
    for (int i = SIM_HOSTED_AGENT + 1; i < a->u->run->processes; i++)
        if (!is_over(a->h, i) || (a->h->goer[i].state != SIM_GOER_NONE && !a->h->goer[i].seen_off))
            return false;
    return true;
}

static int agent_has_work(void *arg)
{
    const struct agent *a = arg;

    for (int i = SIM_HOSTED_AGENT + 1; i < a->u->run->processes; i++) {
        struct sim_goer *g = &a->h->goer[i];

        if (g->state == SIM_GOER_ASKS && loci_sim_is_stopped(i))
            g->state = SIM_GOER_NONE;
        if (g->state == SIM_GOER_ASKS || (goes(a->h, i) && !g->seen_off))
            return 1;
    }
    return all_goers_over(a);
}

static int goer_is_free(void *arg)
{
    const struct agent *a = arg;

    return sim_agent_is_free(a->agent, &a->h->goer[a->goes]);
}

static int see_off(struct agent *a, int process)
{
    struct sim_goer *g = &a->h->goer[process];

    sim_agent_leave(a->agent, g);
    a->goes = process;
    sim_wait(a->u->rt, goer_is_free, a);
    g->seen_off = true;
    return SIM_FINE;
}

static int look_after_goers(struct agent *a)
{
    for (;;) {
        sim_wait(a->u->rt, agent_has_work, a);
        if (all_goers_over(a))
            return SIM_FINE;
        for (int i = SIM_HOSTED_AGENT + 1; i < a->u->run->processes; i++) {
            struct sim_goer *g = &a->h->goer[i];

            if (g->state == SIM_GOER_ASKS) {
                TRY(a->u->run, sim_agent_let_in(a->agent, i, &a->h->keys, g));
                g->state = SIM_GOER_GIVEN;
            } else if (goes(a->h, i) && !g->seen_off) {
                PASS(see_off(a, i));
            }
        }
    }
}

static int is_set_up(void *arg)
{
    const struct agent *a = arg;

    return a->h->store.set_up || loci_sim_is_stopped(0) || a->h->ended[0];
}

static int be_agent(struct store_user *u, struct hosted_state *h)
{
    struct agent a = { .u = u, .h = h };
    int result;

    sim_wait(u->rt, is_set_up, &a);
    if (!h->store.set_up)
        return SIM_TOLD;
    TRY(u->run, sim_agent_open(u->rt, u->run->processes, u->run->threads, &a.agent));
    result = look_after_goers(&a);
    sim_agent_close(a.agent);
    return result;
}

/* ---- those who come ---- */

static int is_let_in(void *arg)
{
    const struct comer *m = arg;

    return m->h->goer[m->u.rank].state == SIM_GOER_GIVEN || agent_has_stopped(m->h)
           || m->h->ended[SIM_HOSTED_AGENT];
}

static int go_by_ports(struct comer *m)
{
    struct sim_goer *g = &m->h->goer[m->u.rank];
    struct agent as = { .u = &m->u, .h = m->h };

    sim_wait(m->u.rt, is_set_up, &as);
    if (!m->h->store.set_up)
        return SIM_TOLD;
    g->state = SIM_GOER_ASKS;
    sim_wait(m->u.rt, is_let_in, m);
    if (g->state != SIM_GOER_GIVEN)
        return SIM_TOLD;
    TRY(m->u.run, sim_goer_attach(m->u.rt, &m->h->keys, g));
    return SIM_FINE;
}

static void go_no_more(struct comer *m)
{
    struct sim_goer *g = &m->h->goer[m->u.rank];

    if (g->state != SIM_GOER_GIVEN)
        return;
    sim_goer_detach(m->u.rt);
    g->state = SIM_GOER_LEFT;
}

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

    if (loci_sim_is_stopped(0) || agent_has_stopped(m->h))
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
            return SIM_TOLD;            /* the host has stopped, or the agent */
        PASS(visit(m));
        m->place = -1;
        if (m->h->by_port && loci_sim_draw(4) == 0)
            (void)sim_goer_move(m->u.rt);
    }
    return SIM_FINE;
}

static int be_comer(struct comer *m)
{
    int result = m->h->by_port ? go_by_ports(m) : SIM_FINE;

    if (result == SIM_FINE)
        result = come_and_go(m);
    if (m->h->by_port)
        go_no_more(m);
    return result;
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
    h->by_port = run->scenario == &sim_scenario_hosted_ports;
    h->store.agent = h->by_port ? SIM_HOSTED_AGENT : 0;
    if (h->by_port && run->one_node)
        return loci_sim_fail("the host is on another node: explore without --one-node");
    result = rank == 0 ? serve(&m.u, h)
             : h->by_port && rank == SIM_HOSTED_AGENT ? be_agent(&m.u, h) : be_comer(&m);
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

static int node_of(int rank, int processes)
{
    (void)processes;
    return rank == 0 ? 1 : 2;
}

const struct sim_scenario sim_scenario_hosted_ports = {
    .name = "hosted_ports",
    .about = "the same, where all but the host are on another node and go by their agent's ports, "
             "or move over to connections of their own",
    .processes = 5, .threads = 1, .rounds = 3, .processes_min = 3,
    .settings = settings, .node_of = node_of,
    .begin = begin, .body = body, .end = end, .free = drop,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Ports: an agent, clients of its node that come, work, and leave or stop at any step, and targets
 * on other nodes. Each client's threads write, read and do atomics on memory of the targets by way
 * of the agent, and see in it what a lane of their own would have let them see. Some visits post
 * forged requests instead, past the lane: each is done if it was granted, and else refused, changes
 * nothing, and does nobody else harm. */

#include "config.h"

#include "runtime.h"
#include "scenario_ports.h"
#include "wait.h"

/* ---- deaths ---- */

int ports_check(const struct ports_user *u, int target, int status, const char *call)
{
    if (status == LOCO_OK)
        return SIM_FINE;
    if (status == LOCO_ERR_PEER_DEAD
        && (loci_sim_is_stopped(0) || (target > 0 && loci_sim_is_stopped(target))))
        return SIM_TOLD;
    return loci_sim_fail("p%d: %s by way of the agent to p%d: %s", u->rank, call, target,
                         loco_strerror(status));
}

static bool is_over(const struct ports_state *s, int rank)
{
    return s->ended[rank] || loci_sim_is_stopped(rank);
}

/* ---- the agent ---- */

struct agent {
    struct ports_user *u;
    struct loci_ports *ports;
    int most;                   /* clients at once */
};

static bool has_gone(const struct agent *a, int rank)
{
    const struct ports_client *c = &a->u->s->client[rank];

    return c->state == PORTS_LEFT
           || (c->state == PORTS_GIVEN && !loci_peer_alive(a->u->rt, c->peer));
}

static bool all_over(const struct agent *a)
{
    for (int i = 1; i <= a->u->s->clients; i++)
        if (!is_over(a->u->s, i) || a->u->s->client[i].state == PORTS_GIVEN
            || a->u->s->client[i].state == PORTS_LEFT)
            return false;
    return true;
}

/* Who asks has to wait for one that leaves. */
static bool is_full(const struct agent *a)
{
    struct loci_port_stats stats;

    loci_ports_stats(a->ports, &stats);
    return stats.clients + stats.leaving >= (uint64_t)a->most;
}

static int has_work(void *arg)
{
    const struct agent *a = arg;
    bool full = is_full(a);

    for (int i = 1; i <= a->u->s->clients; i++)
        if ((a->u->s->client[i].state == PORTS_ASKS && !loci_sim_is_stopped(i) && !full)
            || has_gone(a, i))
            return 1;
    return all_over(a);
}

static void choose_windows(const struct ports_user *u, int client, struct ports_window *w)
{
    const struct ports_state *s = u->s;

    w[WINDOW_PART] = (struct ports_window){ ports_part(u->run, client, 0),
                                            PART * (uint64_t)u->run->threads,
                                            LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE
                                            | LOCI_PORT_MAY_ATOMIC, 0 };
    w[WINDOW_COUNTER] = (struct ports_window){ ports_counter(u->run, s), 8,
                                               LOCI_PORT_MAY_ATOMIC, 0 };
    w[WINDOW_FORGED] = (struct ports_window){ ports_forged(u->run, s), FORGED_BYTES,
                                              LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE, 0 };
    w[WINDOW_FORGED_WORDS] = (struct ports_window){ ports_forged(u->run, s) + FORGED_BYTES,
                                                    FORGED - FORGED_BYTES, LOCI_PORT_MAY_ATOMIC,
                                                    0 };
    w[WINDOW_GUARD] = (struct ports_window){ 0, GUARD, LOCI_PORT_MAY_READ, 0 };
}

static int grant_all(const struct agent *a, struct ports_client *c, int rank)
{
    const struct ports_user *u = a->u;

    for (int t = ports_first_target(u->s); t < u->run->processes; t++) {
        struct ports_window *w = c->window[t];

        choose_windows(u, rank, w);
        for (int i = 0; i < WINDOWS; i++)
            TRY(u->run, loci_ports_grant(a->ports, c->number, u->target[t], &u->s->key[t],
                                         w[i].base, w[i].len, w[i].may, &w[i].grant));
    }
    return SIM_FINE;
}

static int let_in(const struct agent *a, int rank)
{
    struct ports_client *c = &a->u->s->client[rank];
    int status = loci_peer_meet(a->u->rt, &c->address, &c->peer);

    if (status == LOCO_OK)
        status = loci_ports_enter(a->ports, c->peer, &c->number, &c->welcome);
    if (status == LOCO_ERR_FULL)
        return SIM_FINE;            /* those before are not finished yet */
    TRY(a->u->run, status);
    PASS(grant_all(a, c, rank));
    c->state = PORTS_GIVEN;
    return SIM_FINE;
}

static int look_after(struct agent *a)
{
    while (!all_over(a)) {
        sim_wait(a->u->rt, has_work, a);
        for (int i = 1; i <= a->u->s->clients; i++) {
            struct ports_client *c = &a->u->s->client[i];

            if (has_gone(a, i)) {
                loci_ports_leave(a->ports, c->number);
                c->state = 0;
            } else if (c->state == PORTS_ASKS && !loci_sim_is_stopped(i)) {
                PASS(let_in(a, i));
            }
        }
        loci_sim_pause();
    }
    return SIM_FINE;
}

/* The fabric never has to refuse what was checked. */
static int check_stats(const struct agent *a)
{
    struct loci_port_stats stats;

    loci_ports_stats(a->ports, &stats);
    WANT(stats.clients == 0, "%d clients are counted, and none is there", (int)stats.clients);
    WANT(stats.failed == 0 || sim_any_stopped(a->u->run),
         "%d requests passed the agent's checks, and the fabric has refused them",
         (int)stats.failed);
    WANT(stats.misused == 0 || a->u->s->forged, "a port was taken away from who did no wrong");
    return SIM_FINE;
}

static int all_are_ready(void *arg)
{
    const struct ports_user *u = arg;

    for (int t = ports_first_target(u->s); t < u->run->processes; t++)
        if (!u->s->ready[t] && !loci_sim_is_stopped(t))
            return 0;
    return 1;
}

static int serve(struct ports_user *u)
{
    const struct loci_port_options options = {
        .clients = 1 + u->s->clients / 2, .ports = (uint32_t)(u->run->threads * u->s->targets),
        .depth = 4, .arena = 256, .room = 1 + loci_sim_draw(6),
    };
    struct agent a = { u, NULL, options.clients };
    int result;

    sim_wait(u->rt, all_are_ready, u);
    for (int t = ports_first_target(u->s); t < u->run->processes; t++)
        if (!u->s->ready[t])
            return SIM_TOLD;
    for (int t = ports_first_target(u->s); t < u->run->processes; t++) {
        TRY(u->run, loci_peer_meet(u->rt, &u->s->address[t], &u->target[t]));
        loci_peers_use(u->rt, &u->target[t], 1);
    }
    TRY(u->run, loci_ports_open(u->rt, &options, &a.ports));
    u->s->ready[0] = true;
    result = look_after(&a);
    if (result == SIM_FINE)
        result = check_stats(&a);
    loci_ports_close(a.ports);
    return result;
}

/* ---- targets ---- */

static int others_are_over(void *arg)
{
    const struct ports_user *u = arg;

    for (int i = 0; i <= u->s->clients; i++)
        if (!is_over(u->s, i))
            return 0;
    return 1;
}

static int check_guards(const struct ports_user *u, const unsigned char *m, uint64_t at)
{
    for (uint64_t i = at; i < at + GUARD; i++)
        WANT(m[i] == GUARD_BYTE, "p%d: byte %d, which was granted to nobody, has changed", u->rank,
             (int)i);
    return SIM_FINE;
}

static int check_forged(const struct ports_user *u, const unsigned char *m)
{
    for (int i = 0; i < FORGED_BYTES; i++)
        WANT(m[i] == 0 || m[i] == FORGED_BYTE || m[i] == GUARD_BYTE || sim_any_stopped(u->run),
             "p%d: %02x was written by a request that had no such byte", u->rank, m[i]);
    return SIM_FINE;
}

static int check_counter(const struct ports_user *u, uint64_t counter)
{
    uint64_t counted = 0, unsure = 0;

    for (int c = 1; c <= u->s->clients; c++)
        for (int t = 0; t < u->run->threads; t++) {
            counted += u->s->model[c][t][u->rank].counted;
            unsure += u->s->model[c][t][u->rank].unsure;
        }
    WANT(counter >= counted && counter <= counted + unsure,
         "p%d: %d was counted, by %d additions that are done and %d that may be", u->rank,
         (int)counter, (int)counted, (int)unsure);
    return SIM_FINE;
}

static int check_memory(const struct ports_user *u, const unsigned char *m)
{
    PASS(check_guards(u, m, 0));
    PASS(check_guards(u, m, ports_bytes(u->run, u->s) - GUARD));
    PASS(check_forged(u, m + ports_forged(u->run, u->s)));
    return check_counter(u, sim_peek(m + ports_counter(u->run, u->s)));
}

static int be_target(struct ports_user *u)
{
    struct ports_state *s = u->s;
    struct loci_mem mine;
    unsigned char *m;
    int result;

    TRY(u->run, loci_alloc(u->rt, ports_bytes(u->run, s), 0, &mine));
    loci_mem_set_domain(&mine, LOCI_DOMAIN_OWNER);
    m = loci_sim_memory(u->rt, &mine);
    memset(m, GUARD_BYTE, GUARD);
    memset(m + ports_bytes(u->run, s) - GUARD, GUARD_BYTE, GUARD);
    s->key[u->rank] = mine.key;
    s->memory[u->rank] = m;
    s->ready[u->rank] = true;
    sim_wait(u->rt, others_are_over, u);
    result = check_memory(u, m);
    s->ended[u->rank] = true;
    result = sim_part(&u->seat, result);
    loci_free(u->rt, &mine);
    return result;
}

/* ---- clients ---- */

static int is_given(void *arg)
{
    const struct ports_user *u = arg;

    return loci_sim_is_stopped(0) || u->s->ended[0]
           || u->s->client[u->rank].state == PORTS_GIVEN;
}

static int attach(struct ports_user *u, const struct ports_client *c)
{
    TRY(u->run, loci_peer_meet(u->rt, &u->s->address[0], &u->agent));
    PASS(ports_check(u, 0, loci_port_attach(u->rt, u->agent, &c->welcome), "attach"));
    for (int t = ports_first_target(u->s); t < u->run->processes; t++) {
        TRY(u->run, loci_peer_meet(u->rt, &u->s->address[t], &u->target[t]));
        loci_peers_use(u->rt, &u->target[t], 1);
        TRY(u->run, loci_mem_import(u->rt, u->target[t], &u->s->key[t], &u->mem[t]));
        loci_mem_set_domain(&u->mem[t], LOCI_DOMAIN_OWNER);
        for (int i = 0; i < WINDOWS; i++)
            TRY(u->run, loci_port_granted(u->rt, u->target[t], &u->s->key[t], c->window[t][i].base,
                                          c->window[t][i].len, c->window[t][i].grant));
    }
    return SIM_FINE;
}

/* The agent has taken down what this client had before. */
static int may_ask(void *arg)
{
    const struct ports_user *u = arg;

    return loci_sim_is_stopped(0) || u->s->ended[0] || u->s->client[u->rank].state == 0;
}

static int visit(struct ports_user *u)
{
    struct ports_client *c = &u->s->client[u->rank];
    int result;

    sim_wait(u->rt, may_ask, u);
    if (c->state != 0)
        return SIM_TOLD;
    c->address = u->rt->address;
    c->state = PORTS_ASKS;
    sim_wait(u->rt, is_given, u);
    if (c->state != PORTS_GIVEN)
        return SIM_TOLD;
    PASS(attach(u, c));
    result = !u->moves && loci_sim_draw(4) == 0 ? ports_forge(u) : ports_use(u);
    /* A connection of its own and the agent's keep no order between them. */
    if (u->moves && result != SIM_WRONG)
        (void)loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
    return result;
}

/* Who comes again leaves without a fence: what is under way then may come to be, or not. */
static int come_and_go(struct ports_user *u)
{
    int result = SIM_FINE;

    for (int i = 0; i < u->run->rounds && result == SIM_FINE; i++) {
        bool again = i + 1 < u->run->rounds;
        int status = LOCO_OK;

        result = visit(u);
        if (result == SIM_WRONG)
            break;
        if (again && result == SIM_FINE)
            status = loci_sim_again(&u->rt);
        else
            (void)loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
        if (u->rt != NULL)
            loci_port_detach(u->rt);
        if (u->s->client[u->rank].state == PORTS_GIVEN)
            u->s->client[u->rank].state = PORTS_LEFT;
        u->seat.rt = u->rt;
        TRY(u->run, status);
    }
    return result;
}

/* ---- the body ---- */

extern const struct sim_scenario sim_scenario_ports, sim_scenario_ports_move;

static int node_of(int rank, int processes)
{
    return rank < processes - (processes - 1) / 2 ? 1 : 1 + rank;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct ports_state *s = run->state;
    struct ports_user u = { .run = run, .s = s, .rt = rt, .rank = rank,
                            .seat = sim_seat(s->common.place, rt, rank),
                            .moves = run->scenario == &sim_scenario_ports_move };
    int result;

    if (run->one_node)
        return loci_sim_fail("targets are on other nodes than clients: explore without --one-node");
    s->address[rank] = rt->address;
    s->targets = (run->processes - 1) / 2;
    s->clients = run->processes - 1 - s->targets;
    if (rank > s->clients)
        return be_target(&u);
    result = rank == 0 ? serve(&u) : come_and_go(&u);
    s->ended[rank] = true;
    return sim_part(&u.seat, result);
}

static int begin(struct sim_run *run)
{
    return run->processes > PORTS_PROCESSES || run->threads > PORTS_THREADS
           ? -1 : sim_state_begin(run, sizeof(struct ports_state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

const struct sim_scenario sim_scenario_ports = {
    .name = "ports",
    .about = "clients that come and go reach other nodes by way of their agent: their lanes keep "
             "the contract, and forged requests do no harm",
    .processes = 5, .threads = 2, .rounds = 3, .processes_min = 4,
    .settings = settings, .long_runs = true, .node_of = node_of,
    .begin = begin, .body = body, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_ports_move = {
    .name = "ports_move",
    .about = "the same while lanes move from their ports to connections of the client's own, and "
             "back: nothing is lost, doubled or reordered",
    .processes = 4, .threads = 2, .rounds = 2, .processes_min = 4,
    .settings = settings, .long_runs = true, .node_of = node_of,
    .begin = begin, .body = body, .free = sim_state_free,
};

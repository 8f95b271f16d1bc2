/* SPDX-License-Identifier: BSD-3-Clause */

/* Ports over TCP: member 0 is the agent, the last one a process of another machine, as LOCO_NODE
 * has it, and those between are clients, which reach it by way of the agent alone. */

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "fabric/port/port.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "observe/observe.h"
#include "run.h"
#include "wait.h"

#define BYTES ((uint64_t)1 << 20)
#define GRANTED (BYTES / 2)             /* from the beginning on */
#define CLIENTS_MOST 8

/* What all members tell each other. */
struct told {
    struct loci_memkey key;
    struct loci_port_welcome welcome[CLIENTS_MOST];
    uint32_t grant[CLIENTS_MOST];
    int pid;
};

struct world {
    loco_runtime_t *rt;
    const struct loco_exchange *exchange;
    const struct plan *plan;
    int me, n, target;
    struct told mine, all[2 + CLIENTS_MOST];
    struct loci_mem mem;                /* the target's */
    struct loci_ports *ports;           /* the agent's */
    int number[CLIENTS_MOST];
};

typedef int role_fn(struct world *w);

struct plan {
    role_fn *client, *agent, *target;   /* agent: beside serving; the last two are nullable */
    struct loci_port_options options;
};

/* ---- the world ---- */

static int together(struct world *w)
{
    return w->exchange->allgather(w->exchange->ctx, NULL, 0, w->all);
}

static int tell(struct world *w)
{
    return w->exchange->allgather(w->exchange->ctx, &w->mine, sizeof w->mine, w->all);
}

static int peer(const struct world *w, int rank)
{
    return w->rt->everyone->peer[rank];
}

static int open_world(struct world *w, const struct loco_bootstrap *boot)
{
    static char node[32];
    const char *settings[] = { "LOCO_FABRIC=tcp", node, NULL };
    struct loco_bootstrap own = *boot;

    w->exchange = &boot->exchange;
    w->me = boot->exchange.rank;
    w->n = boot->exchange.size;
    w->target = w->n - 1;
    snprintf(node, sizeof node, "LOCO_NODE=port%d", w->me == w->target);
    own.settings = settings;
    CHECK(loco_runtime_open(&own, &w->rt) == LOCO_OK);
    loci_peers_use(w->rt, w->rt->everyone->peer, w->n);
    w->mine.pid = (int)getpid();
    if (w->me == w->target)
        CHECK(loci_alloc(w->rt, BYTES, 0, &w->mem) == LOCO_OK);
    w->mine.key = w->mem.key;
    CHECK(tell(w) == LOCO_OK);
    if (w->me != w->target)
        CHECK(loci_mem_import(w->rt, peer(w, w->target), &w->all[w->target].key, &w->mem)
              == LOCO_OK);
    loci_mem_set_domain(&w->mem, LOCI_DOMAIN_OWNER);
    return 0;
}

/* Each client may reach the first half. */
static int let_in(struct world *w)
{
    const unsigned all = LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE | LOCI_PORT_MAY_ATOMIC;

    CHECK(loci_ports_open(w->rt, &w->plan->options, &w->ports) == LOCO_OK);
    for (int i = 1; i < w->target; i++) {
        CHECK(loci_ports_enter(w->ports, peer(w, i), &w->number[i], &w->mine.welcome[i])
              == LOCO_OK);
        CHECK(loci_ports_grant(w->ports, w->number[i], peer(w, w->target), &w->mem.key, 0, GRANTED,
                               all, &w->mine.grant[i]) == LOCO_OK);
    }
    return 0;
}

static int attach(struct world *w)
{
    CHECK(loci_port_attach(w->rt, peer(w, 0), &w->all[0].welcome[w->me]) == LOCO_OK);
    CHECK(loci_port_granted(w->rt, peer(w, w->target), &w->mem.key, 0, GRANTED,
                            w->all[0].grant[w->me]) == LOCO_OK);
    return 0;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    static struct world w;
    int result;

    w.plan = arg;
    result = open_world(&w, boot);
    if (result == 0 && w.me == 0)
        result = let_in(&w);
    if (result != 0 || tell(&w) != LOCO_OK)
        return 1;
    if (w.me > 0 && w.me < w.target)
        result = attach(&w) != 0 || w.plan->client(&w) != 0;
    else if (w.me == 0 && w.plan->agent != NULL)
        result = w.plan->agent(&w);
    else if (w.me == w.target && w.plan->target != NULL)
        result = w.plan->target(&w);
    (void)together(&w);                 /* one of them may be dead */
    if (w.ports != NULL)
        loci_ports_close(w.ports);
    loco_runtime_close(w.rt);
    return result;
}

/* killed: a member that somebody kills, or -1. */
static void run(const struct plan *plan, int clients, int killed)
{
    int statuses[2 + CLIENTS_MOST];

    (void)loco_fork_run(2 + clients, member, (void *)(uintptr_t)plan, statuses);
    for (int i = 0; i < 2 + clients; i++)
        cr_assert_eq(statuses[i], i == killed ? -SIGKILL : 0, "member %d of %d: %d", i,
                     2 + clients, statuses[i]);
}

#define SHAPE(clients_, ports_, depth_, arena_)                                                   \
    { .clients = clients_, .ports = ports_, .depth = depth_, .arena = arena_, .room = 64 }

/* ---- a lane ---- */

static int fence(struct world *w)
{
    return loci_fence_peer(w->rt, LOCO_FENCE_PAIR, peer(w, w->target));
}

static bool is_by_port(struct world *w)
{
    const struct loci_lane *lane = atomic_load(&loci_self(w->rt)->lanes[peer(w, w->target)]);

    return lane != NULL && loci_lane_way(lane)->ops == &loci_fabric_port;
}

/* Of any length: in the request, in the arena, and in pieces. */
static int lengths(struct world *w)
{
    static const size_t lens[] = { 1, 7, 8, 9, 100, 4096, 70000, 200000 };
    static unsigned char out[200000], back[200000];
    uint64_t at = (uint64_t)(w->me - 1) * 200704, old = 1;

    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        for (size_t j = 0; j < lens[i]; j++)
            out[j] = (unsigned char)(w->me + (int)(i * 31 + j * 7));
        CHECK(loci_write(w->rt, &w->mem, at, out, lens[i], NULL) == LOCO_OK);
        CHECK(loci_read(w->rt, &w->mem, at, back, lens[i], NULL) == LOCO_OK);
        CHECK(memcmp(out, back, lens[i]) == 0);
    }
    CHECK(is_by_port(w));
    CHECK(loci_write64(w->rt, &w->mem, at, 5, NULL) == LOCO_OK);
    CHECK(loci_fetch_add(w->rt, &w->mem, at, 3, &old, NULL) == LOCO_OK && old == 5);
    CHECK(loci_compare_swap(w->rt, &w->mem, at, 8, 20, &old, NULL) == LOCO_OK && old == 8);
    CHECK(loci_compare_swap(w->rt, &w->mem, at, 8, 30, &old, NULL) == LOCO_OK && old == 20);
    CHECK(fence(w) == LOCO_OK);
    return 0;
}

Test(port, a_lane_by_way_of_the_agent)
{
    static const struct plan plan = { .client = lengths, .options = SHAPE(2, 2, 16, 65536) };

    run(&plan, 2, -1);
}

/* ---- what was not granted ---- */

static int refused(struct world *w)
{
    uint64_t old, value = 0;

    for (int i = 0; i < 50; i++) {
        /* Told by the fence, or by what is waited for: what is behind it is not done. */
        CHECK(loci_write64(w->rt, &w->mem, GRANTED, 7, NULL) == LOCO_OK);
        CHECK(loci_write64(w->rt, &w->mem, 64, 7, NULL) == LOCO_OK);
        CHECK(i % 2 == 0 || loci_fetch_add(w->rt, &w->mem, 64, 0, &old, NULL) == LOCO_ERR_RANGE);
        CHECK(fence(w) == LOCO_ERR_RANGE);
        CHECK(loci_write64(w->rt, &w->mem, 128, (uint64_t)i, NULL) == LOCO_OK);
        CHECK(fence(w) == LOCO_OK);
        CHECK(loci_read64(w->rt, &w->mem, 128, &value, NULL) == LOCO_OK && value == (uint64_t)i);
        CHECK(loci_read64(w->rt, &w->mem, 64, &value, NULL) == LOCO_OK && value == 0);
    }
    return 0;
}

static int wait_for_them(struct world *w)
{
    return together(w) != LOCO_OK;
}

static int none_failed(struct world *w)
{
    struct loci_port_stats stats;

    CHECK(together(w) == LOCO_OK);
    loci_ports_stats(w->ports, &stats);
    CHECK(stats.failed == 0 && stats.refused >= 50);
    return 0;
}

static int refused_and_together(struct world *w)
{
    return refused(w) != 0 || together(w) != LOCO_OK;
}

Test(port, what_was_not_granted_is_refused_and_the_lane_goes_on)
{
    static const struct plan plan = { .client = refused_and_together, .agent = none_failed,
                                      .target = wait_for_them,
                                      .options = SHAPE(1, 2, 16, 4096) };

    run(&plan, 1, -1);
}

/* ---- what was granted before ---- */

/* The agent has revoked the grant, and then given its place to one of other memory: who says the
 * old number reaches neither. */
static int stale(struct world *w)
{
    uint64_t old;
    int status;

    CHECK(loci_write64(w->rt, &w->mem, 64, 7, NULL) == LOCO_OK);
    CHECK(fence(w) == LOCO_OK);
    CHECK(together(w) == LOCO_OK);              /* it is revoked, */
    CHECK(together(w) == LOCO_OK);
    CHECK(loci_fetch_add(w->rt, &w->mem, 64, 1, &old, NULL) == LOCO_ERR_STATE);
    CHECK(together(w) == LOCO_OK);              /* and given anew */
    CHECK(together(w) == LOCO_OK);
    for (int i = 0; i < 10; i++) {
        CHECK(loci_fetch_add(w->rt, &w->mem, 64, 1, &old, NULL) == LOCO_ERR_STATE);
        status = loci_write64(w->rt, &w->mem, 64, 8, NULL);
        CHECK((status == LOCO_OK ? fence(w) : status) == LOCO_ERR_STATE);
    }
    CHECK(together(w) == LOCO_OK);
    return 0;
}

static int give_anew(struct world *w)
{
    uint32_t grant;

    CHECK(together(w) == LOCO_OK);
    CHECK(loci_ports_revoke(w->ports, w->number[1], w->mine.grant[1]) == LOCO_OK);
    CHECK(loci_ports_revoke(w->ports, w->number[1], w->mine.grant[1]) == LOCO_ERR_RANGE);
    CHECK(together(w) == LOCO_OK);
    CHECK(together(w) == LOCO_OK);
    CHECK(loci_ports_grant(w->ports, w->number[1], peer(w, w->target), &w->mem.key, 0, GRANTED,
                           LOCI_PORT_MAY_WRITE | LOCI_PORT_MAY_ATOMIC, &grant) == LOCO_OK);
    CHECK(grant != w->mine.grant[1]);
    CHECK(loci_ports_revoke(w->ports, w->number[1], w->mine.grant[1]) == LOCO_ERR_RANGE);
    CHECK(together(w) == LOCO_OK);
    return together(w) != LOCO_OK;
}

static int is_unchanged(struct world *w)
{
    for (int i = 0; i < 5; i++)
        CHECK(together(w) == LOCO_OK);
    CHECK(loci_load64((unsigned char *)loci_mem_ptr(&w->mem) + 64) == 7);
    return 0;
}

Test(port, an_old_grant_reaches_nothing_that_is_granted_since)
{
    static const struct plan plan = { .client = stale, .agent = give_anew, .target = is_unchanged,
                                      .options = SHAPE(1, 2, 16, 4096) };

    run(&plan, 1, -1);
}

/* ---- what arrives late ---- */

static _Atomic int *step;

static int write_once(struct world *w)
{
    CHECK(run_await(step, 1) == 0);
    CHECK(loci_write64(w->rt, &w->mem, 64, 7, NULL) == LOCO_OK);
    atomic_store(step, 2);
    return run_await(step, 3);
}

/* The target is stopped, so what the agent has sent is not there, though it counts as done. */
static int revoke_early(struct world *w)
{
    struct loci_port_stats stats = { .posted = 0 };
    int64_t begin = run_now();

    CHECK(kill(w->all[w->target].pid, SIGSTOP) == 0);
    atomic_store(step, 1);
    while (stats.posted == 0) {
        loci_ports_stats(w->ports, &stats);
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    }
    for (int i = 0; i < 20; i++) {
        CHECK(loci_ports_revoke(w->ports, w->number[1], w->mine.grant[1]) == LOCO_ERR_AGAIN);
        usleep(1000);
    }
    CHECK(kill(w->all[w->target].pid, SIGCONT) == 0);
    while (loci_ports_revoke(w->ports, w->number[1], w->mine.grant[1]) == LOCO_ERR_AGAIN)
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    atomic_store(step, 3);
    return 0;
}

Test(port, what_was_written_has_arrived_when_its_grant_is_revoked)
{
    static const struct plan plan = { .client = write_once, .agent = revoke_early,
                                      .options = SHAPE(1, 2, 16, 4096) };

    step = run_counter();
    run(&plan, 1, -1);
}

/* ---- many requests ---- */

#define THREADS 16
#define EACH 256

static void *many(void *arg)
{
    struct world *w = arg;
    static _Thread_local uint64_t old[EACH];
    loco_ack_t ack = LOCO_ACK_INIT;

    for (int i = 0; i < EACH; i++)
        if (loci_fetch_add(w->rt, &w->mem, 0, 1, &old[i], &ack) != LOCO_OK)
            return w;
    for (int i = 1; loco_ack_wait(w->rt, &ack) == LOCO_OK && i < EACH; i++)
        if (old[i] <= old[i - 1])
            return w;
    return loco_ack_wait(w->rt, &ack) == LOCO_OK && is_by_port(w) ? NULL : w;
}

static int from_threads(struct world *w)
{
    pthread_t thread[THREADS];
    uint64_t sum = 0;
    void *wrong = NULL, *one;

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, many, w) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &one);
        wrong = wrong != NULL ? wrong : one;
    }
    CHECK(wrong == NULL);
    CHECK(together(w) == LOCO_OK);
    CHECK(loci_read64(w->rt, &w->mem, 0, &sum, NULL) == LOCO_OK);
    CHECK(sum == (uint64_t)(w->target - 1) * THREADS * EACH);
    return 0;
}

/* 64 ports of 256 requests each, of which 64 are under way at once. */
Test(port, more_requests_than_there_is_room_for)
{
    static const struct plan plan = { .client = from_threads, .agent = wait_for_them,
                                      .target = wait_for_them,
                                      .options = SHAPE(4, THREADS + 1, EACH, 4096) };

    run(&plan, 4, -1);
}

/* ---- deaths ---- */

#define DONE (GRANTED - 8)              /* a word: the client that goes on is done */

static int one_round(struct world *w, uint64_t number)
{
    unsigned char out[3000], back[3000];
    uint64_t at = (uint64_t)w->me * 4096;

    memset(out, (int)number, sizeof out);
    if (loci_write(w->rt, &w->mem, at, out, sizeof out, NULL) != LOCO_OK)
        return LOCO_ERR_PEER_DEAD;
    if (loci_read(w->rt, &w->mem, at, back, sizeof back, NULL) != LOCO_OK)
        return LOCO_ERR_PEER_DEAD;
    return memcmp(out, back, sizeof out) == 0 ? LOCO_OK : LOCO_ERR_STATE;
}

/* The first is killed. */
static int one_goes_on(struct world *w)
{
    for (uint64_t i = 0; w->me == 1 || i < 2000; i++)
        CHECK(one_round(w, i) == LOCO_OK);
    CHECK(loci_write64(w->rt, &w->mem, DONE, 1, NULL) == LOCO_OK);
    CHECK(fence(w) == LOCO_OK);
    return 0;
}

static int kill_client(struct world *w)
{
    struct loci_port_stats stats = { .leaving = 1 };
    struct loci_port_welcome welcome;
    int64_t begin = run_now();
    uint64_t done = 0;
    int again;

    usleep(30000);
    CHECK(kill(w->all[1].pid, SIGKILL) == 0);
    while (loci_peer_alive(w->rt, peer(w, 1)))
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    loci_ports_leave(w->ports, w->number[1]);
    while (stats.leaving > 0) {
        loci_ports_stats(w->ports, &stats);
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    }
    CHECK(loci_ports_enter(w->ports, peer(w, 2), &again, &welcome) == LOCO_OK);
    CHECK(again == w->number[1]);
    while (done == 0) {
        CHECK(loci_read64(w->rt, &w->mem, DONE, &done, NULL) == LOCO_OK);
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
        usleep(1000);
    }
    return 0;
}

static int until_done(struct world *w)
{
    const unsigned char *mine = loci_mem_ptr(&w->mem);

    while (loci_load64(mine + DONE) == 0 && loci_peer_alive(w->rt, peer(w, 0)))
        usleep(1000);
    while (loci_peer_alive(w->rt, peer(w, 0)))
        usleep(1000);
    return 0;
}

Test(port, a_client_is_killed_and_the_other_goes_on)
{
    static const struct plan plan = { .client = one_goes_on, .agent = kill_client,
                                      .target = until_done, .options = SHAPE(2, 2, 16, 16384) };

    run(&plan, 2, 1);
}

static int be_killed(struct world *w)
{
    (void)w;
    usleep(50000);
    raise(SIGKILL);
    return 0;
}

/* What is written is known to be placed, or its fence tells that it may not be: the last read
 * places the write before it, and a write that is refused was never one. */
static int until_told(struct world *w)
{
    unsigned char out[3000] = { 1 }, back[3000];
    const uint64_t at = (uint64_t)w->me * 4096;
    int64_t begin = run_now();
    int wrote = LOCO_OK, read = LOCO_OK;

    while (wrote == LOCO_OK && read == LOCO_OK) {
        wrote = loci_write(w->rt, &w->mem, at, out, sizeof out, NULL);
        if (wrote == LOCO_OK)
            read = loci_read(w->rt, &w->mem, at, back, sizeof back, NULL);
    }
    CHECK(wrote == LOCO_ERR_PEER_DEAD || read == LOCO_ERR_PEER_DEAD);
    CHECK(loci_peer_alive(w->rt, peer(w, w->target)));
    CHECK(fence(w) == LOCO_ERR_PEER_DEAD || wrote != LOCO_OK);
    CHECK(loci_write64(w->rt, &w->mem, at, 1, NULL) == LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    return 0;
}

static int until_client_ends(struct world *w)
{
    while (loci_peer_alive(w->rt, peer(w, 1)))
        usleep(1000);
    return 0;
}

Test(port, the_agent_is_killed_and_its_clients_are_told)
{
    static const struct plan plan = { .client = until_told, .agent = be_killed,
                                      .target = until_client_ends,
                                      .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, 0);
}

static int kill_agent(struct world *w)
{
    int64_t begin = run_now();

    CHECK(loci_write64(w->rt, &w->mem, 0, 1, NULL) == LOCO_OK);
    CHECK(kill(w->all[0].pid, SIGKILL) == 0);
    while (loci_peer_alive(w->rt, peer(w, 0)))
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    CHECK(fence(w) == LOCO_ERR_PEER_DEAD);
    CHECK(loci_peer_alive(w->rt, peer(w, w->target)));
    return 0;
}

static int until_killed(struct world *w)
{
    (void)w;
    while (pause() != 0)
        ;
    return 0;
}

/* Nobody knows whether the agent has posted it. */
Test(port, a_write_before_the_agents_death_is_told_by_its_fence)
{
    static const struct plan plan = { .client = kill_agent, .agent = until_killed,
                                      .target = until_client_ends,
                                      .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, 0);
}

/* ---- moving over ---- */

struct mover {
    struct world *w;
    struct loci_lane *lane;
    _Atomic bool stops;
    _Atomic int moved, rounds;
};

/* Who moves without a pause leaves no time for what it is to move under. */
static void let_go_on(const struct mover *m, int rounds)
{
    while (m->rounds == rounds && !m->stops)
        usleep(20);
}

static void *move_to_and_fro(void *arg)
{
    struct mover *m = arg;
    struct loco_runtime *rt = m->w->rt;

    while (!atomic_load(&m->stops)) {
        bool own = loci_lane_way(m->lane) == &rt->way;
        int rounds = m->rounds;

        if (loci_lane_move(m->lane, own ? &atomic_load(&rt->detour)->way : &rt->way) == LOCO_OK)
            m->moved++;
        else
            return m;
        let_go_on(m, rounds);
    }
    return NULL;
}

/* Additions in flight all the time: each is done once, and in order. */
static int under_traffic(struct world *w)
{
    struct mover m = { .w = w };
    static uint64_t old[8];
    uint64_t next = 0;
    pthread_t thread;
    void *wrong;

    CHECK(one_round(w, 1) == LOCO_OK);
    m.lane = atomic_load(&loci_self(w->rt)->lanes[peer(w, w->target)]);
    CHECK(pthread_create(&thread, NULL, move_to_and_fro, &m) == 0);
    for (int i = 0; i < run_rounds(2000) || m.moved < run_rounds(200); i++) {
        loco_ack_t ack = LOCO_ACK_INIT;

        for (int j = 0; j < 8; j++)
            CHECK(loci_fetch_add(w->rt, &w->mem, 0, 1, &old[j], &ack) == LOCO_OK);
        CHECK(loco_ack_wait(w->rt, &ack) == LOCO_OK);
        for (int j = 0; j < 8; j++)
            CHECK(old[j] == next++);
        CHECK(one_round(w, (uint64_t)i) == LOCO_OK);
        m.rounds++;
    }
    atomic_store(&m.stops, true);
    pthread_join(thread, &wrong);
    CHECK(wrong == NULL);
    return 0;
}

static struct loci_lane *lane_of(struct world *w)
{
    return atomic_load(&loci_self(w->rt)->lanes[peer(w, w->target)]);
}

/* What the runtime's own fabric gives back, when a peer goes, is none of a lane that goes by a
 * port, though there was a connection: that has its port still, for detach to give. */
static int target_dies(struct world *w)
{
    const struct loci_peer *target = loci_peer(w->rt, peer(w, w->target));
    int64_t begin = run_now();

    CHECK(one_round(w, 1) == LOCO_OK && is_by_port(w));
    CHECK(loci_lane_move(lane_of(w), &w->rt->way) == LOCO_OK);
    CHECK(one_round(w, 2) == LOCO_OK && !is_by_port(w));
    CHECK(loci_lane_move(lane_of(w), &atomic_load(&w->rt->detour)->way) == LOCO_OK);
    CHECK(one_round(w, 3) == LOCO_OK && is_by_port(w));
    CHECK(kill(w->all[w->target].pid, SIGKILL) == 0);
    while (!atomic_load(&target->silent))
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    CHECK(is_by_port(w) && lane_of(w)->fabric_data != NULL);
    CHECK(loci_write64(w->rt, &w->mem, 0, 1, NULL) == LOCO_ERR_PEER_DEAD);
    loci_port_detach(w->rt);
    CHECK(lane_of(w)->fabric_data == NULL);
    return 0;
}

Test(port, a_lane_that_has_moved_keeps_its_port_when_its_peer_dies)
{
    static const struct plan plan = { .client = target_dies, .target = until_killed,
                                      .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, 2);
}

/* Who goes on moves over, who does little does not; then it is its own way. */
static int move_over(struct world *w)
{
    CHECK(one_round(w, 1) == LOCO_OK);
    CHECK(loci_port_move_over(w->rt, 100) == 0 && is_by_port(w));
    for (uint64_t i = 0; i < 60; i++)
        CHECK(one_round(w, i) == LOCO_OK);
    CHECK(loci_port_move_over(w->rt, 100) == 1 && !is_by_port(w));
    CHECK(one_round(w, 2) == LOCO_OK);
    CHECK(loci_port_move_over(w->rt, 0) == 0);
    return 0;
}

Test(port, who_goes_on_gets_a_connection_of_its_own)
{
    static const struct plan plan = { .client = move_over, .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, -1);
}

/* Who opens lanes by the runtime's own fabric, in that order. */
static struct loci_fabric_ops slow_ops;
static struct loci_thread *_Atomic opens[4];
static _Atomic int nopens, nlocked;

/* As that of a device, which waits for the peer and has to poll meanwhile: so under no lock. */
static int open_slowly(struct loci_fabric *fabric, struct loci_lane *lane)
{
    int n = atomic_fetch_add(&nopens, 1);

    nlocked += atomic_load(&lane->thread->lock.word) != 0;
    if (n < 4)
        opens[n] = lane->thread;
    return loci_fabric_tcp.lane_open(fabric, lane);
}

static void *leave_peer(void *arg)
{
    struct mover *m = arg;

    m->moved = loci_port_leave_peer(m->w->rt, peer(m->w, m->w->target));
    m->lane = atomic_load(&loci_self(m->w->rt)->lanes[peer(m->w, m->w->target)]);
    return m->lane != NULL && opens[0] == loci_self(m->w->rt) ? NULL : m;
}

static uint64_t counted(const struct world *w, enum loci_stats_port which)
{
    return loci_stats_get(w->rt->stats, LOCI_STAT_PORT + (int)which);
}

/* Another thread has all lanes move: it connects before any of them is halted. */
static int move_all(struct world *w)
{
    struct mover m = { .w = w };
    pthread_t thread;
    void *wrong;

    loci_observe_stats(w->rt, true);
    CHECK(one_round(w, 1) == LOCO_OK && is_by_port(w));
    CHECK(counted(w, LOCI_STATS_PORT_REQUESTS) > 0 && counted(w, LOCI_STATS_PORT_MOVED) == 0);
    slow_ops = *w->rt->way.ops;
    slow_ops.lane_open = open_slowly;
    w->rt->way.ops = &slow_ops;
    CHECK(pthread_create(&thread, NULL, leave_peer, &m) == 0);
    pthread_join(thread, &wrong);
    CHECK(wrong == NULL && m.moved == 1 && nopens == 2 && opens[1] == loci_self(w->rt));
    CHECK(nlocked == 0);
    CHECK(!is_by_port(w) && loci_lane_way(m.lane) == &w->rt->way);
    CHECK(counted(w, LOCI_STATS_PORT_MOVED) == 1 && counted(w, LOCI_STATS_PORT_REFUSED) == 0);
    CHECK(one_round(w, 2) == LOCO_OK);
    CHECK(loci_port_leave_peer(w->rt, peer(w, w->target)) == 0);
    return 0;
}

Test(port, all_lanes_to_one_peer_move_behind_a_first_connection)
{
    static const struct plan plan = { .client = move_all, .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, -1);
}

/* A detached client's lanes are closed, and the agent may give the slab away. */
static int detached(struct world *w)
{
    CHECK(one_round(w, 1) == LOCO_OK);
    CHECK(fence(w) == LOCO_OK);
    loci_port_detach(w->rt);
    CHECK(loci_write64(w->rt, &w->mem, 0, 1, NULL) == LOCO_ERR_STATE);
    loci_port_detach(w->rt);
    return together(w) != LOCO_OK;
}

static int give_it_away(struct world *w)
{
    struct loci_port_stats stats = { .leaving = 1 };
    struct loci_port_welcome welcome;
    int again;

    CHECK(together(w) == LOCO_OK);
    loci_ports_leave(w->ports, w->number[1]);
    for (int64_t begin = run_now(); stats.leaving > 0;) {
        loci_ports_stats(w->ports, &stats);
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    }
    CHECK(stats.clients == 0);
    CHECK(loci_ports_enter(w->ports, peer(w, 1), &again, &welcome) == LOCO_OK);
    return again != w->number[1];
}

Test(port, who_detaches_leaves_nothing_under_way)
{
    static const struct plan plan = { .client = detached, .agent = give_it_away,
                                      .target = wait_for_them, .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, -1);
}

Test(port, a_lane_moves_under_traffic)
{
    static const struct plan plan = { .client = under_traffic, .options = SHAPE(1, 2, 16, 16384) };

    run(&plan, 1, -1);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports in virtual time: 64 of them with 256 requests each over one queue pair of depth 64; and
 * what others lose to a client that posts nothing but what is refused. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/port/port.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "wait.h"

#define CLIENTS 4
#define TARGET (CLIENTS + 1)
#define PROCESSES (CLIENTS + 2)
#define DEPTH 256
#define QUEUE 64                /* requests that the agent's queue pair takes */
#define THREADS 16
#define READS 3000
#define CALL_EVERY 20000        /* ns */
#define CALL_MOST 12000         /* ns that the agent's own call waits for its poller */
#define FORGED 100000

static int tests, failures;

struct world {
    bool many;                  /* all add; else they read one by one, */
    bool forges;                /* and the first one forges */
    struct loci_memkey key;
    struct loci_port_welcome welcome[CLIENTS + 1];
    uint32_t grant[CLIENTS + 1];
    struct loci_address address[PROCESSES];
    bool given;
    int ended;                  /* clients */
    uint64_t sum, forged;
    int64_t took;               /* the last of those who read */
    int64_t longest;            /* of the agent's own calls meanwhile */
    struct loci_port_stats stats;
};

struct user {
    struct world *w;
    loco_runtime_t *rt;
    int rank, agent, target;
    struct loci_mem mem;
};

static int node_of(int rank, int processes)
{
    return rank < processes - 1 ? 1 : 2;
}

static void ok(bool good, const char *what)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, what);
    failures += !good;
}

static int wait_until(loco_runtime_t *rt, int (*ready)(void *arg), void *arg)
{
    const struct loci_reason why = { .what = "others", .peer = -1, .timeout_ns = LOCO_FOREVER };

    return loci_wait(rt, &why, ready, arg);
}

/* ---- the agent, and the target ---- */

static int all_ended(void *arg)
{
    const struct user *u = arg;

    return u->w->ended == CLIENTS;
}

/* The target's memory, and where each process is. */
static int are_there(void *arg)
{
    const struct user *u = arg;

    for (int i = 0; i < PROCESSES; i++)
        if (u->w->address[i].version == 0)
            return 0;
    return u->w->key.len != 0;
}

/* As whoever comes, or leaves, has it done. */
static void call_often(struct user *u, struct loci_ports *ports)
{
    while (!all_ended(u)) {
        int64_t began = loci_sim_time();

        loci_ports_stats(ports, &u->w->stats);
        if (loci_sim_time() - began > u->w->longest)
            u->w->longest = loci_sim_time() - began;
        loci_sim_sleep(CALL_EVERY);
    }
}

static int be_agent(struct user *u)
{
    const struct loci_port_options options = { .clients = CLIENTS, .ports = THREADS + 1,
                                               .depth = DEPTH, .arena = 4096, .room = QUEUE };
    struct loci_ports *ports;
    int peer, number, status;

    wait_until(u->rt, are_there, u);
    status = loci_ports_open(u->rt, &options, &ports);
    for (int i = 1; i <= CLIENTS && status == LOCO_OK; i++) {
        status = loci_peer_meet(u->rt, &u->w->address[i], &peer);
        if (status == LOCO_OK)
            status = loci_ports_enter(ports, peer, &number, &u->w->welcome[i]);
        if (status == LOCO_OK)
            status = loci_peer_meet(u->rt, &u->w->address[TARGET], &peer);
        if (status == LOCO_OK)
            status = loci_ports_grant(ports, number, peer, &u->w->key, 0, u->w->key.len,
                                      LOCI_PORT_MAY_READ | LOCI_PORT_MAY_ATOMIC,
                                      &u->w->grant[i]);
    }
    if (status != LOCO_OK)
        return loci_sim_fail("agent: %s", loco_strerror(status));
    u->w->given = true;
    if (u->w->many)
        call_often(u, ports);
    wait_until(u->rt, all_ended, u);
    loci_ports_stats(ports, &u->w->stats);
    loci_ports_close(ports);
    return 0;
}

static int be_target(struct user *u)
{
    struct loci_mem mine;

    if (loci_alloc(u->rt, 4096, 0, &mine) != LOCO_OK)
        return 1;
    loci_mem_set_domain(&mine, LOCI_DOMAIN_OWNER);
    u->w->key = mine.key;
    wait_until(u->rt, all_ended, u);
    memcpy(&u->w->sum, loci_sim_memory(u->rt, &mine), sizeof u->w->sum);
    return 0;
}

/* ---- clients ---- */

static int add_many(void *arg, int thread)
{
    struct user *u = arg;
    uint64_t *old = calloc(DEPTH, sizeof *old);
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = old != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;

    (void)thread;
    for (int i = 0; i < DEPTH && status == LOCO_OK; i++)
        status = loci_fetch_add(u->rt, &u->mem, 0, 1, &old[i], &ack);
    if (status == LOCO_OK)
        status = loco_ack_wait(u->rt, &ack);
    for (int i = 1; i < DEPTH && status == LOCO_OK; i++)
        if (old[i] <= old[i - 1])
            status = LOCO_ERR_STATE;
    free(old);
    return status == LOCO_OK ? 0 : loci_sim_fail("p%d: %s", u->rank, loco_strerror(status));
}

static int read_often(struct user *u)
{
    int64_t began = loci_sim_time();
    unsigned char bytes[64];
    int status = LOCO_OK;

    for (int i = 0; i < READS && status == LOCO_OK; i++)
        status = loci_read(u->rt, &u->mem, 64, bytes, sizeof bytes, NULL);
    if (loci_sim_time() - began > u->w->took)
        u->w->took = loci_sim_time() - began;
    return status == LOCO_OK ? 0 : loci_sim_fail("p%d: %s", u->rank, loco_strerror(status));
}

struct ring {
    struct loci_port_at at;
    uint64_t posted;
};

static int has_room(void *arg)
{
    const struct ring *r = arg;

    return r->posted - loci_load64(&r->at.words->finished) < DEPTH;
}

static int is_empty(void *arg)
{
    const struct ring *r = arg;

    return r->posted == loci_load64(&r->at.words->finished);
}

/* As many as there is room for; none of them may be done. */
static int forge(struct user *u)
{
    const struct loci_port_welcome *w = &u->w->welcome[u->rank];
    struct loci_mem slab;
    struct ring r;
    unsigned char *base;

    if (loci_mem_import(u->rt, u->agent, &w->slab, &slab) != LOCO_OK
        || (base = loci_mem_map(u->rt, &slab)) == NULL)
        return loci_sim_fail("no slab");
    r = (struct ring){ .at = loci_port_at(w, base, 0) };
    loci_store64(&((struct loci_port_header *)(void *)base)->opened, 1);
    for (uint32_t i = 0; i < FORGED; i++) {
        struct loci_port_request q = { .kind = (uint8_t)(i % 7), .epoch = (uint16_t)i,
                                       .grant = i % 3 == 0 ? 77 : u->w->grant[u->rank],
                                       .offset = UINT64_MAX - i, .len = 8 * (i % 5) };

        if (q.kind == LOCI_PLACE)
            q.grant = 78;
        wait_until(u->rt, has_room, &r);
        loci_copy_in(&r.at.request[r.posted % DEPTH], &q, sizeof q);
        (void)loci_cpu_exchange(&r.at.words->posted, ++r.posted);
        if (loci_load64_total(&((struct loci_port_header *)(void *)base)->asleep) != 0)
            (void)loci_ring_for(u->rt, u->agent, w->number);
    }
    wait_until(u->rt, is_empty, &r);
    u->w->forged = r.posted;
    loci_mem_drop(u->rt, &slab);
    return 0;
}

static int is_given(void *arg)
{
    const struct user *u = arg;

    return u->w->given;
}

static int be_client(struct user *u)
{
    int status, result;

    wait_until(u->rt, is_given, u);
    status = loci_peer_meet(u->rt, &u->w->address[0], &u->agent);
    if (status == LOCO_OK)
        status = loci_port_attach(u->rt, u->agent, &u->w->welcome[u->rank]);
    if (status == LOCO_OK)
        status = loci_peer_meet(u->rt, &u->w->address[TARGET], &u->target);
    if (status == LOCO_OK)
        status = loci_mem_import(u->rt, u->target, &u->w->key, &u->mem);
    if (status == LOCO_OK)
        status = loci_port_granted(u->rt, u->target, &u->w->key, 0, u->w->key.len,
                                   u->w->grant[u->rank]);
    if (status != LOCO_OK)
        return loci_sim_fail("p%d: %s", u->rank, loco_strerror(status));
    loci_mem_set_domain(&u->mem, LOCI_DOMAIN_OWNER);
    if (u->w->many)
        result = loci_sim_threads(u->rt, THREADS, add_many, u);
    else
        result = u->rank > 1 ? read_often(u) : u->w->forges ? forge(u) : 0;
    u->w->ended++;
    return result;
}

/* ---- runs ---- */

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct user u = { .w = arg, .rt = rt, .rank = rank };

    u.w->address[rank] = rt->address;
    return rank == 0 ? be_agent(&u) : rank == TARGET ? be_target(&u) : be_client(&u);
}

static bool run(struct world *w)
{
    static const char *const settings[] = { "LOCO_SPIN=0", NULL };
    struct loci_sim_cost cost = *loci_sim_cost_named("ib100");
    const struct loci_sim_config config = {
        .processes = PROCESSES, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .step_limit = UINT64_MAX, .cost = &cost,
        .owner_atomics = true, .node_of = node_of, .machines = w->many, .settings = settings,
    };
    struct loci_sim_result result;

    cost.room = QUEUE;
    loci_sim_run(&config, body, w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        printf("# %s\n# %s\n", result.text, result.detail);
    return result.verdict == LOCI_SIM_PASSED;
}

int main(void)
{
    struct world many = { .many = true }, calm = { .many = false }, forged = { .forges = true };
    bool passed = run(&many);

    printf("# %d ports of %d requests, queue %d: %llu are done\n", CLIENTS * THREADS, DEPTH, QUEUE,
           (unsigned long long)many.sum);
    ok(passed && many.sum == (uint64_t)CLIENTS * THREADS * DEPTH,
       "64 ports with 256 requests each over a queue pair of depth 64: each is done once");
    printf("# calls of the agent's own meanwhile: %lld ns at most\n", (long long)many.longest);
    ok(passed && many.longest > 0 && many.longest <= CALL_MOST,
       "none of the agent's own calls waits for a whole turn of its poller");
    passed = run(&calm) && run(&forged);
    printf("# %d reads each: %lld ns, and %lld ns beside %llu forged requests\n", READS,
           (long long)calm.took, (long long)forged.took, (unsigned long long)forged.forged);
    ok(passed && forged.stats.refused == FORGED && forged.stats.failed == 0,
       "100,000 forged requests are refused, and the fabric sees none of them");
    ok(passed && forged.took * 100 <= calm.took * 105,
       "others lose at most 5 % by them");
    printf("1..%d\n", tests);
    return failures != 0;
}

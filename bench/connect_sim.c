/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that come and connect, in the virtual time of a simulated network
 * (docs/loco-sim-model.md): how long it takes until they are connected and at work. Each has
 * connections of its own (verbs), or goes by the agent of its machine (ports,
 * runtime/fabric/port/port.h), which has connected to the other machines before.
 *
 * Each machine has an agent and some of the workers. An agent has a directory of all boards
 * (channels/pool/catalog.h), as pool_directory.c publishes it, and a board: memory for whoever is
 * on its machine. With verbs a worker's row of a board is memory of its own.
 *
 *   mesh     each worker connects to all others, tells each of them by a word that it is there, and
 *            waits until all have told it
 *   one      all connect to the agent of the first machine, and read a word there
 *   look-up  connections are there. All look up a board, again and again, in the directory of the
 *            first machine: by reads, or (--ask) by a message that a thread of that agent answers
 *   join     workers read from the boards of the servers; then others are forked one after the
 *            other, connect to all servers, and read, too
 */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/port/port.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "pool/catalog.h"
#include "sim_times.h"
#include "wait.h"

enum { WORKERS_MOST = 480, MACHINES_MOST = 10, LINE = 64, BINS_MOST = 400 };

enum work { MESH, ONE, LOOK_UP, JOIN };
static const char *const work_names[] = { "mesh", "one", "look-up", "join" };

struct options {
    enum work work;
    bool ports, once, ask, asleep, json, move;
    int machines, servers, workers, old, fork_us, think_us, bin_ms;
    double pair_us, milliseconds;
    const char *profile;
    struct loci_sim_setup setup;
};

/* ---- what is told in other ways than measured: by --join, or by who forks ---- */

struct row {
    struct loci_memkey key;             /* verbs: of its own memory; len 0: not there yet */
    uint64_t at;                        /* where its words are in that key's memory */
};

struct seat {                           /* a worker, and its agent's answer */
    _Atomic int state;                  /* 0, ASKS, GIVEN, LEFT */
    int64_t arrives;
    struct loci_port_welcome welcome;
    uint32_t grant[MACHINES_MOST];
    int number;
    struct row row;
    int64_t attached, connected, told, heard, first;     /* 0: never */
};
enum { ASKS = 1, GIVEN, LEFT };

struct world {
    const struct options *o;
    int64_t begin, end;
    struct loci_address address[MACHINES_MOST + WORKERS_MOST];
    struct loci_memkey board[MACHINES_MOST], table[MACHINES_MOST], inbox;
    bool ready[MACHINES_MOST], alone[MACHINES_MOST];
    uint64_t at[MACHINES_MOST];         /* of the records in a directory */
    struct loci_memkey reply[WORKERS_MOST];
    struct seat seat[WORKERS_MOST];
    int over;                           /* workers */
    struct sim_times look_ups, gets;
    uint64_t bin[BINS_MOST];
};

struct user {
    struct world *w;
    const struct options *o;
    loco_runtime_t *rt;
    int rank, machine, worker;          /* worker: -1 for an agent */
    int agent[MACHINES_MOST];           /* indices of peers */
    struct loci_mem board[MACHINES_MOST];
    bool knows[MACHINES_MOST];
    struct loci_mem table, own;
    unsigned char *mine;                /* a worker's row; an agent's board */
    int heard_next;
    _Atomic bool stops;
};

static int failed(const struct user *u, const char *what, int status)
{
    return loci_sim_fail("p%d: %s: %s", u->rank, what, loco_strerror(status));
}

#define TRY(u, call)                                                                              \
    do {                                                                                          \
        int try_status = (call);                                                                  \
        if (try_status < 0)                                                                       \
            return failed((u), #call, try_status);                                                \
    } while (0)

static void wait_for(loco_runtime_t *rt, int (*ready)(void *arg), void *arg)
{
    const struct loci_reason why = { .what = "others", .peer = -1, .timeout_ns = LOCO_FOREVER };

    (void)loci_wait(rt, &why, ready, arg);
}

static void sleep_until(int64_t at)
{
    if (at > loci_sim_time())
        loci_sim_sleep(at - loci_sim_time());
}

/* ---- who is where ---- */

static int is_there(const struct options *o, int worker)
{
    int first = o->work == MESH ? 0 : o->work == JOIN ? o->servers : 1;

    return first + worker % (o->machines - first);
}

static _Thread_local const struct options *placed;

static int node_of(int rank, int processes)
{
    (void)processes;
    return 1 + (rank < placed->machines ? rank : is_there(placed, rank - placed->machines));
}

static int workers_of(const struct options *o, int machine)
{
    int n = 0;

    for (int i = 0; i < o->workers; i++)
        n += is_there(o, i) == machine;
    return n;
}

/* A row has a word from each worker, or what is read. */
static uint64_t row_bytes(const struct options *o)
{
    uint64_t n = (uint64_t)o->workers * 8;

    return (n < 4 * LINE ? 4 * LINE : n + LINE - 1) / LINE * LINE;
}

static void name_of(int machine, char name[LOCI_CATALOG_NAME])
{
    snprintf(name, LOCI_CATALOG_NAME, "board-%d", machine);
}

/* ---- an agent ---- */

/* As place_of() of pool_directory.c has it. */
static void publish(const struct user *u, unsigned char *table, int machine)
{
    struct loci_record record = { .number = 1, .host = u->w->address[machine].identity,
                                  .key = { u->w->board[machine] } };
    uint64_t at;

    name_of(machine, record.name);
    at = loci_catalog_hash(record.name);
    while (loci_load64(table + loci_catalog_store_at(at)) != 0)
        at++;
    record.at = at % LOCI_CATALOG_RECORDS;
    record.version = 1;
    u->w->at[machine] = record.at;
    (void)loci_publish(table + loci_catalog_store_at(at), &record, sizeof record);
}

/* The simulator's table has few places, and more than half of them are used; that of an agent is
 * mostly empty. So only such names are looked up of which one place is looked at there. */
static void find_alone(const struct user *u, const unsigned char *table)
{
    for (int m = 0; m < u->o->machines; m++) {
        char name[LOCI_CATALOG_NAME];
        uint64_t at;

        name_of(m, name);
        at = loci_catalog_hash(name);
        u->w->alone[m] = u->w->at[m] == at
                         && loci_load64(table + loci_catalog_store_at(at + 1)) == 0;
    }
}

static int all_ready(void *arg)
{
    const struct user *u = arg;

    for (int i = 0; i < u->o->machines; i++)
        if (!u->w->ready[i])
            return 0;
    return 1;
}

static int meet_agents(struct user *u)
{
    for (int m = 0; m < u->o->machines; m++) {
        TRY(u, loci_peer_meet(u->rt, &u->w->address[m], &u->agent[m]));
        loci_peers_use(u->rt, &u->agent[m], 1);
    }
    return 0;
}

/* A socket's worth: accept, receive, send, and the wait for the next. */
static int let_in(const struct user *u, struct loci_ports *ports, int worker)
{
    struct seat *seat = &u->w->seat[worker];
    int peer;

    sleep_until(seat->arrives);
    loci_sim_work(4 * u->o->setup.call);
    TRY(u, loci_peer_meet(u->rt, &u->w->address[u->o->machines + worker], &peer));
    TRY(u, loci_ports_enter(ports, peer, &seat->number, &seat->welcome));
    for (int m = 0; m < u->o->machines; m++)
        if (m != u->machine)
            TRY(u, loci_ports_grant(ports, seat->number, u->agent[m], &u->w->board[m], 0,
                                    u->w->board[m].len, LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE,
                                    &seat->grant[m]));
    atomic_store(&seat->state, GIVEN);
    loci_sim_tell(u->o->machines + worker);
    return 0;
}

static int next_in_state(const struct user *u, int state)
{
    int next = -1;

    for (int i = 0; i < u->o->workers; i++) {
        struct seat *seat = &u->w->seat[i];

        if (is_there(u->o, i) == u->machine
            && atomic_load_explicit(&seat->state, memory_order_relaxed) == state
            && (next < 0 || seat->arrives < u->w->seat[next].arrives))
            next = i;
    }
    return next;
}

static int has_work(void *arg)
{
    const struct user *u = arg;

    return u->w->over == u->o->workers || next_in_state(u, ASKS) >= 0
           || next_in_state(u, LEFT) >= 0;
}

static int serve_ports(struct user *u)
{
    const struct loci_port_options options = {
        .clients = workers_of(u->o, u->machine) + 1,
        .ports = (uint32_t)(u->o->machines * (u->o->move ? 2 : 1)),     /* of each thread */
        .depth = u->o->work == MESH ? 64 : 16, .arena = 2048, .room = 64,
    };
    struct loci_ports *ports;
    int result = 0, worker;

    TRY(u, loci_ports_open(u->rt, &options, &ports));
    for (int m = 0; m < u->o->machines; m++)
        if (m != u->machine)
            TRY(u, loci_ports_reach(ports, u->agent[m]));
    while (u->w->over < u->o->workers && result == 0) {
        wait_for(u->rt, has_work, u);
        worker = next_in_state(u, ASKS);
        if (worker >= 0)
            result = let_in(u, ports, worker);
        worker = next_in_state(u, LEFT);
        if (worker >= 0) {
            loci_ports_leave(ports, u->w->seat[worker].number);
            atomic_store(&u->w->seat[worker].state, 0);
        }
    }
    loci_ports_close(ports);
    return result;
}

struct desk {
    struct user *u;
    const unsigned char *inbox;
    uint64_t seen[WORKERS_MOST];
    struct loci_mem reply[WORKERS_MOST];
    unsigned char record[WORKERS_MOST][LINE];
    loco_ack_t ack[WORKERS_MOST];       /* of the answer that may be under way */
};

static int is_asked(void *arg)
{
    const struct desk *d = arg;

    if (d->u->w->over == d->u->o->workers)
        return 1;
    for (int i = 0; i < d->u->o->workers; i++)
        if (loci_load64(d->inbox + 8 * (size_t)i) != d->seen[i])
            return 1;
    return 0;
}

static int answer_one(struct desk *d, int worker, uint64_t asked)
{
    const struct user *u = d->u;
    int peer;

    if (d->seen[worker] == 0) {
        d->ack[worker] = (loco_ack_t)LOCO_ACK_INIT;
        TRY(u, loci_peer_meet(u->rt, &u->w->address[u->o->machines + worker], &peer));
        TRY(u, loci_mem_import(u->rt, peer, &u->w->reply[worker], &d->reply[worker]));
    }
    d->seen[worker] = asked;
    loci_sim_work(u->o->setup.handle);
    TRY(u, loco_ack_wait(u->rt, &d->ack[worker]));
    d->ack[worker] = (loco_ack_t)LOCO_ACK_INIT;
    memcpy(d->record[worker], &asked, sizeof asked);
    TRY(u, loci_write(u->rt, &d->reply[worker], 0, d->record[worker], LINE, &d->ack[worker]));
    return 0;
}

/* Answers questions: whose word has grown is told what it has asked for. `handle` stands for all
 * that a kernel's thread does for one, but for the post of the answer. */
static int answer(struct user *u, const unsigned char *inbox)
{
    struct desk *d = calloc(1, sizeof *d);
    int result = 0;

    if (d == NULL)
        return failed(u, "answer", LOCO_ERR_NO_MEMORY);
    d->u = u;
    d->inbox = inbox;
    while (u->w->over < u->o->workers && result == 0) {
        wait_for(u->rt, is_asked, d);
        for (int i = 0; i < u->o->workers && result == 0; i++) {
            uint64_t asked = loci_load64(inbox + 8 * (size_t)i);

            if (asked != d->seen[i])
                result = answer_one(d, i, asked);
        }
    }
    free(d);
    return result;
}

static int workers_are_over(void *arg)
{
    const struct user *u = arg;

    return u->w->over == u->o->workers;
}

static int be_agent(struct user *u)
{
    struct loci_mem board, table, inbox;

    TRY(u, loci_alloc(u->rt, row_bytes(u->o) * (uint64_t)(u->o->workers + 1), 0, &board));
    TRY(u, loci_alloc(u->rt, LOCI_CATALOG_BYTES, 0, &table));
    u->w->board[u->rank] = board.key;
    u->w->table[u->rank] = table.key;
    if (u->rank == 0 && u->o->ask) {
        TRY(u, loci_alloc(u->rt, 8 * (uint64_t)u->o->workers, 0, &inbox));
        u->w->inbox = inbox.key;
    }
    u->w->ready[u->rank] = true;
    wait_for(u->rt, all_ready, u);
    if (meet_agents(u) != 0)
        return 1;
    for (int m = 0; m < u->o->machines; m++)
        publish(u, loci_sim_memory(u->rt, &table), m);
    find_alone(u, loci_sim_memory(u->rt, &table));
    if (u->o->ports)
        return serve_ports(u);
    if (u->rank == 0 && u->o->ask)
        return answer(u, loci_sim_memory(u->rt, &inbox));
    wait_for(u->rt, workers_are_over, u);
    return 0;
}

/* ---- a worker: its ways ---- */

static int is_given(void *arg)
{
    return atomic_load((_Atomic int *)arg) == GIVEN;
}

/* A socket to the agent: made, connected, a message sent; later one received. */
static int attach(struct user *u)
{
    struct seat *seat = &u->w->seat[u->worker];
    const struct loci_sim_setup *setup = &u->o->setup;

    TRY(u, loci_peer_meet(u->rt, &u->w->address[u->machine], &u->agent[u->machine]));
    loci_peers_use(u->rt, &u->agent[u->machine], 1);
    loci_sim_work(3 * setup->call);
    seat->arrives = loci_sim_time() + setup->wake;
    atomic_store(&seat->state, ASKS);
    loci_sim_tell(u->machine);
    wait_for(u->rt, is_given, &seat->state);
    loci_sim_work(setup->wake + setup->call);
    TRY(u, loci_port_attach(u->rt, u->agent[u->machine], &seat->welcome));
    TRY(u, loci_mem_import(u->rt, u->agent[u->machine], &u->w->table[u->machine], &u->table));
    if (loci_mem_map(u->rt, &u->table) == NULL)
        return failed(u, "map the directory", LOCO_ERR_SHARED);
    seat->attached = loci_sim_time();
    return 0;
}

static int open_lane(const struct user *u, int peer)
{
    int status = LOCO_OK;

    if (loci_lane(loci_self(u->rt), peer, &status) == NULL)
        return failed(u, "open a lane", status);
    return 0;
}

/* By name, in the directory of its own machine's agent. */
static int find_board(struct user *u, int machine)
{
    struct loci_record record;
    char name[LOCI_CATALOG_NAME];
    int host = 0;

    name_of(machine, name);
    TRY(u, loci_catalog_find(u->rt, &u->table, name, &record));
    while (u->w->address[host].identity != record.host)
        host++;
    TRY(u, loci_peer_meet(u->rt, &u->w->address[host], &u->agent[machine]));
    loci_peers_use(u->rt, &u->agent[machine], 1);
    TRY(u, loci_mem_import(u->rt, u->agent[machine], &record.key[0], &u->board[machine]));
    if (machine != u->machine)
        TRY(u, loci_port_granted(u->rt, u->agent[machine], &record.key[0], 0, record.key[0].len,
                                 u->w->seat[u->worker].grant[machine]));
    else if (loci_mem_map(u->rt, &u->board[machine]) == NULL)
        return failed(u, "map the board", LOCO_ERR_SHARED);
    u->knows[machine] = true;
    return machine != u->machine ? open_lane(u, u->agent[machine]) : 0;
}

/* With a connection of its own. */
static int use_board(struct user *u, int machine)
{
    TRY(u, loci_peer_meet(u->rt, &u->w->address[machine], &u->agent[machine]));
    loci_peers_use(u->rt, &u->agent[machine], 1);
    TRY(u, loci_mem_import(u->rt, u->agent[machine], &u->w->board[machine], &u->board[machine]));
    u->knows[machine] = true;
    return open_lane(u, u->agent[machine]);
}

/* The machine's memory by whatever way; the first time it connects. */
static int reach(struct user *u, int machine)
{
    return u->knows[machine] ? 0 : u->o->ports ? find_board(u, machine) : use_board(u, machine);
}

static uint64_t row_at(const struct user *u, int worker)
{
    return row_bytes(u->o) * (uint64_t)(worker + 1);
}

/* ---- all to all ---- */

static int row_is_there(void *arg)
{
    return ((const struct row *)arg)->key.len != 0;
}

static int heard_all(void *arg)
{
    struct user *u = arg;

    while (u->heard_next < u->o->workers
           && (u->heard_next == u->worker
               || loci_load64(u->mine + 8 * (size_t)u->heard_next) != 0))
        u->heard_next++;
    return u->heard_next == u->o->workers;
}

static int tell(struct user *u, struct loci_mem *mem, uint64_t at)
{
    unsigned char *there = loci_mem_ptr(mem);

    at += 8 * (uint64_t)u->worker;
    if (there != NULL)
        loci_store64(there + at, 1);
    else
        TRY(u, loci_write64(u->rt, mem, at, 1, NULL));
    return 0;
}

static int mesh_by_ports(struct user *u)
{
    struct seat *seat = &u->w->seat[u->worker];

    if (attach(u) != 0 || reach(u, u->machine) != 0)
        return 1;
    u->mine = (unsigned char *)loci_mem_ptr(&u->board[u->machine]) + row_at(u, u->worker);
    for (int i = 1; i < u->o->workers; i++)
        if (reach(u, is_there(u->o, (u->worker + i) % u->o->workers)) != 0)
            return 1;
    seat->connected = loci_sim_time();
    for (int i = 1; i < u->o->workers; i++) {
        int to = (u->worker + i) % u->o->workers;

        if (tell(u, &u->board[is_there(u->o, to)], row_at(u, to)) != 0)
            return 1;
    }
    return 0;
}

static int mesh_by_verbs(struct user *u)
{
    struct seat *seat = &u->w->seat[u->worker];
    struct loci_mem *mem = calloc((size_t)u->o->workers, sizeof *mem);

    if (mem == NULL)
        return failed(u, "mesh", LOCO_ERR_NO_MEMORY);
    TRY(u, loci_alloc(u->rt, row_bytes(u->o), 0, &u->own));
    u->mine = loci_sim_memory(u->rt, &u->own);
    seat->row = (struct row){ u->own.key, 0 };
    for (int i = 1; i < u->o->workers; i++) {
        int to = (u->worker + i) % u->o->workers, peer;

        wait_for(u->rt, row_is_there, &u->w->seat[to].row);
        TRY(u, loci_peer_meet(u->rt, &u->w->address[u->o->machines + to], &peer));
        TRY(u, loci_mem_import(u->rt, peer, &u->w->seat[to].row.key, &mem[to]));
        if (loci_mem_map(u->rt, &mem[to]) != NULL || (u->o->once && to < u->worker))
            continue;
        if (open_lane(u, peer) != 0)
            return 1;
    }
    seat->connected = loci_sim_time();
    for (int i = 1; i < u->o->workers && !u->o->once; i++) {
        int to = (u->worker + i) % u->o->workers;

        if (tell(u, &mem[to], 0) != 0)
            return 1;
    }
    free(mem);
    return 0;
}

static int mesh(struct user *u)
{
    struct seat *seat = &u->w->seat[u->worker];

    if ((u->o->ports ? mesh_by_ports(u) : mesh_by_verbs(u)) != 0)
        return 1;
    if (u->o->once)
        return 0;
    TRY(u, loco_fence(u->rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    seat->told = loci_sim_time();
    wait_for(u->rt, heard_all, u);
    seat->heard = loci_sim_time();
    return 0;
}

/* ---- to one ---- */

static int one(struct user *u)
{
    struct seat *seat = &u->w->seat[u->worker];
    uint64_t word;

    if ((u->o->ports && attach(u) != 0) || reach(u, 0) != 0)
        return 1;
    seat->connected = loci_sim_time();
    TRY(u, loci_read64(u->rt, &u->board[0], 0, &word, NULL));
    seat->first = loci_sim_time();
    return 0;
}

/* ---- looking up ---- */

struct asked {
    const unsigned char *reply;
    uint64_t number;
};

static int is_answered(void *arg)
{
    const struct asked *a = arg;

    return loci_load64(a->reply) == a->number;
}

static int ask(struct user *u, struct loci_mem *inbox, uint64_t number)
{
    struct asked a = { u->mine, number };

    TRY(u, loci_write64(u->rt, inbox, 8 * (uint64_t)u->worker, number, NULL));
    wait_for(u->rt, is_answered, &a);
    return 0;
}

static int look_up_one(struct user *u, struct loci_mem *table, struct loci_mem *inbox,
                       uint64_t number)
{
    struct loci_record record;
    char name[LOCI_CATALOG_NAME];

    if (u->o->ask)
        return ask(u, inbox, number);
    while (!u->w->alone[number % (uint64_t)u->o->machines])
        number++;
    name_of((int)(number % (uint64_t)u->o->machines), name);
    TRY(u, loci_catalog_find(u->rt, table, name, &record));
    return 0;
}

static int look_up(struct user *u)
{
    struct loci_mem table, inbox;
    int64_t from = u->w->begin + 1000000, began;
    int peer;

    TRY(u, loci_alloc(u->rt, LINE, 0, &u->own));
    u->mine = loci_sim_memory(u->rt, &u->own);
    u->w->reply[u->worker] = u->own.key;
    TRY(u, loci_peer_meet(u->rt, &u->w->address[0], &peer));
    loci_peers_use(u->rt, &peer, 1);
    TRY(u, loci_mem_import(u->rt, peer, &u->w->table[0], &table));
    if (u->o->ask)
        TRY(u, loci_mem_import(u->rt, peer, &u->w->inbox, &inbox));
    if (look_up_one(u, &table, &inbox, 1) != 0)
        return 1;
    /* As all have, and the other way round, too. */
    sleep_until(from);
    for (uint64_t n = 2; (began = loci_sim_time()) < u->w->end; n++) {
        if (look_up_one(u, &table, &inbox, n) != 0)
            return 1;
        if (loci_sim_time() <= u->w->end)
            sim_times_add(&u->w->look_ups, loci_sim_time() - began);
    }
    return 0;
}

/* ---- joining those that work ---- */

/* Two buckets at once, then what is in one of them: as a look-up in RACE. */
static int get(struct user *u)
{
    struct loci_mem *mem = &u->board[loci_sim_draw((uint32_t)u->o->servers)];
    unsigned char bucket[2][LINE], block[LINE];
    loco_ack_t ack = LOCO_ACK_INIT;

    for (int i = 0; i < 2; i++)
        TRY(u, loci_read(u->rt, mem, LINE * loci_sim_draw(3), bucket[i], LINE, &ack));
    TRY(u, loco_ack_wait(u->rt, &ack));
    TRY(u, loci_read(u->rt, mem, LINE * loci_sim_draw(3), block, LINE, NULL));
    return 0;
}

static void note_get(struct world *w, int64_t began)
{
    int64_t bin = (loci_sim_time() - w->begin) / (w->o->bin_ms * INT64_C(1000000));

    if (bin >= 0 && bin < BINS_MOST)
        w->bin[bin]++;
    if (began >= w->begin)
        sim_times_add(&w->gets, loci_sim_time() - began);
}

/* Beside one that works: those lanes that are used get connections of their own. */
static int work_or_move(void *arg, int thread)
{
    struct user *u = arg;
    struct seat *seat = &u->w->seat[u->worker];

    while (thread == 1 && !atomic_load(&u->stops) && loci_sim_time() < u->w->end) {
        loci_sim_sleep(10000000);
        (void)loci_port_move_over(u->rt, 2);
    }
    while (thread == 0 && loci_sim_time() < u->w->end) {
        int64_t began = loci_sim_time();

        if (get(u) != 0)
            return 1;
        note_get(u->w, began);
        if (seat->first == 0)
            seat->first = loci_sim_time();
        loci_sim_sleep(u->o->think_us * INT64_C(1000) / 2
                       + loci_sim_draw((uint32_t)u->o->think_us * 1000));
    }
    if (thread == 0)
        atomic_store(&u->stops, true);
    return 0;
}

static int join(struct user *u)
{
    int newcomer = u->worker - u->o->old;

    if (newcomer >= 0)          /* who forks does one after the other */
        sleep_until(u->w->begin + (newcomer + 1) * (int64_t)u->o->fork_us * 1000);
    if (u->o->ports && attach(u) != 0)
        return 1;
    for (int m = 0; m < u->o->servers; m++)
        if (reach(u, m) != 0)
            return 1;
    u->w->seat[u->worker].connected = loci_sim_time();
    return u->o->move && u->o->ports ? loci_sim_threads(u->rt, 2, work_or_move, u)
           : work_or_move(u, 0);
}

/* ---- a process ---- */

static int be_worker(struct user *u)
{
    struct seat *seat = &u->w->seat[u->worker];
    int result;

    wait_for(u->rt, all_ready, u);
    /* Those that are there already come before. */
    if (u->o->work != LOOK_UP && !(u->o->work == JOIN && u->worker < u->o->old))
        sleep_until(u->w->begin);
    result = u->o->work == MESH ? mesh(u) : u->o->work == ONE ? one(u)
             : u->o->work == LOOK_UP ? look_up(u) : join(u);
    if (u->o->ports)
        loci_port_detach(u->rt);
    if (atomic_load(&seat->state) == GIVEN)
        atomic_store(&seat->state, LEFT);
    u->w->over++;
    for (int i = 0; i < u->o->machines; i++)
        loci_sim_tell(i);
    wait_for(u->rt, workers_are_over, u);
    return result;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct world *w = arg;
    const struct options *o = w->o;
    struct user *u = calloc(1, sizeof *u);
    int result;

    if (u == NULL)
        return 1;
    *u = (struct user){ .w = w, .o = o, .rt = rt, .rank = rank,
                        .machine = rank < o->machines ? rank : is_there(o, rank - o->machines),
                        .worker = rank - o->machines };
    w->address[rank] = rt->address;
    result = rank < o->machines ? be_agent(u) : be_worker(u);
    free(u);
    return result;
}

/* ---- what it comes to ---- */

/* Of all workers, from the beginning, in microseconds; those that come later from their own. */
static void times_of(const struct world *w, size_t field, struct sim_times *t)
{
    for (int i = w->o->work == JOIN ? w->o->old : 0; i < w->o->workers; i++) {
        int64_t at;

        memcpy(&at, (const unsigned char *)&w->seat[i] + field, sizeof at);
        if (at != 0)
            sim_times_add(t, at - w->begin);
    }
    sim_times_sort(t);
}

static void report_times(const struct world *w, const char *name, size_t field)
{
    struct sim_times t = { .count = 0 };

    times_of(w, field, &t);
    if (t.count > 0 && w->o->json)
        printf(", \"%s_first_us\": %.2f, \"%s_median_us\": %.2f, \"%s_us\": %.2f", name,
               sim_times_us(&t, 0), name, sim_times_us(&t, 0.5), name, sim_times_us(&t, 1));
    else if (t.count > 0)
        printf("; %s after %.2f us, the first, %.2f, the median, and %.2f, the last", name,
               sim_times_us(&t, 0), sim_times_us(&t, 0.5), sim_times_us(&t, 1));
    free(t.ns);
}

static void report_rate(const struct world *w, const char *name, struct sim_times *t,
                        double milliseconds)
{
    double rate = (double)t->count / milliseconds / 1000;

    sim_times_sort(t);
    printf(w->o->json ? ", \"%s\": %zu, \"rate\": %.4f, \"median_us\": %.3f, \"late_us\": %.3f"
           : "; %s: %zu, %.4f million a second, each in %.3f us in the middle, %.3f for 99 of 100",
           name, t->count, rate, sim_times_us(t, 0.5), sim_times_us(t, 0.99));
}

static void report_bins(const struct world *w)
{
    int last = (int)(w->o->milliseconds / w->o->bin_ms);

    printf(w->o->json ? ", \"timeline\": [" : "; gets in each %d ms:", w->o->bin_ms);
    for (int i = 0; i < last && i < BINS_MOST; i++)
        printf("%s%llu", i == 0 || !w->o->json ? i == 0 ? "" : " " : ", ",
               (unsigned long long)w->bin[i]);
    printf("%s", w->o->json ? "]" : "");
}

static void report(struct world *w)
{
    const struct options *o = w->o;

    printf(o->json ? "{\"work\": \"%s\", \"way\": \"%s\", \"workers\": %d" : "%s by %s, %d workers",
           work_names[o->work], o->ports ? "ports" : "verbs", o->workers);
    report_times(w, "attached", offsetof(struct seat, attached));
    report_times(w, "connected", offsetof(struct seat, connected));
    report_times(w, "told", offsetof(struct seat, told));
    report_times(w, "heard", offsetof(struct seat, heard));
    report_times(w, "first", offsetof(struct seat, first));
    if (o->work == LOOK_UP)
        report_rate(w, "look_ups", &w->look_ups, o->milliseconds - 1);
    if (o->work == JOIN) {
        report_rate(w, "gets", &w->gets, o->milliseconds);
        report_bins(w);
    }
    printf(o->json ? "}\n" : "\n");
}

static int run(const struct options *o)
{
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_EXTENT_MIN=2M", NULL };
    const struct loci_sim_config config = {
        .processes = o->machines + o->workers, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named(o->profile), .setup = &o->setup, .owner_atomics = true,
        .node_of = node_of, .machines = true, .asleep = o->asleep,
    };
    struct world *w = calloc(1, sizeof *w);
    struct loci_sim_result result;

    if (w == NULL)
        return 1;
    w->o = placed = o;
    /* By then agents have their connections, and workers that are there already theirs. */
    w->begin = o->old > 0 || o->work == LOOK_UP ? 2000000000 : 100000000;
    w->end = w->begin + (int64_t)(o->milliseconds * 1e6);
    loci_sim_run(&config, body, w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        fprintf(stderr, "connect_sim: %s\n%s", result.text, result.detail);
    else
        report(w);
    free(w->look_ups.ns);
    free(w->gets.ns);
    free(w);
    return result.verdict != LOCI_SIM_PASSED || ferror(stdout);
}

/* ---- the command line ---- */

static const char help[] =
    "usage: connect_sim [OPTION]...\n"
    "Workers that come and connect, over a simulated network, in virtual time. Deterministic.\n\n"
    "  --work WHAT       mesh: each to all others; one: all to one; look-up: all look up where\n"
    "                    something is, at one; join: those that work are joined by others (mesh)\n"
    "  --ports           by the agents of their machines, instead of connections of their own\n"
    "  --move            join: meanwhile, those that are used get connections of their own\n"
    "  --once            mesh: one connection for each two workers, and no word sent\n"
    "  --ask             look-up: by messages to a thread, instead of reads\n"
    "  --asleep          who waits sleeps, and is woken\n"
    "  --workers N       (24); of which so many of join are there before:\n"
    "  --old N           (0)\n"
    "  --machines N      at most 10 (10); of which so many of join keep what is read:\n"
    "  --servers N       (8)\n"
    "  --fork-us N       join: a worker is forked each so many microseconds (1356)\n"
    "  --think-us N      join: a worker reads each so often (500)\n"
    "  --time MS         of virtual time, of look-up and join (2)\n"
    "  --bin-ms N        join: a point of the time line for each (50)\n"
    "  --setup NAME      what connections cost (krcore)\n"
    "  --pair-us N       of which each end's device takes so much, one after the other\n"
    "  --profile NAME    the network (ib100)\n"
    "  --json            print the results as JSON\n";

static bool parse_work(const char *text, enum work *work)
{
    for (int i = MESH; i <= JOIN; i++)
        if (strcmp(text, work_names[i]) == 0) {
            *work = (enum work)i;
            return true;
        }
    return false;
}

static bool parse_setup(const char *text, struct options *o)
{
    const struct loci_sim_setup *setup = loci_sim_setup_named(text);

    if (setup != NULL)
        o->setup = *setup;
    return setup != NULL;
}

static bool parse_one(int option, struct options *o)
{
    switch (option) {
    case 'w': return parse_work(optarg, &o->work);
    case 'p': return o->ports = true;
    case 'M': return o->move = true;
    case '1': return o->once = true;
    case 'a': return o->ask = true;
    case 's': return o->asleep = true;
    case 'n': return sim_number(optarg, 1, WORKERS_MOST, &o->workers);
    case 'o': return sim_number(optarg, 0, WORKERS_MOST, &o->old);
    case 'm': return sim_number(optarg, 2, MACHINES_MOST, &o->machines);
    case 'S': return sim_number(optarg, 1, MACHINES_MOST - 1, &o->servers);
    case 'F': return sim_number(optarg, 0, 1000000, &o->fork_us);
    case 't': return sim_number(optarg, 1, 1000000, &o->think_us);
    case 'T': return sim_real(optarg, 1e6, &o->milliseconds);
    case 'b': return sim_number(optarg, 1, 1000000, &o->bin_ms);
    case 'u': return parse_setup(optarg, o);
    case 'P': return sim_real(optarg, 1e6, &o->pair_us);
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'j': return o->json = true;
    default: return false;
    }
}

/* NULL, or what does not go together. */
static const char *check(struct options *o)
{
    if (o->pair_us > 0)
        o->setup.pair_device = (int64_t)(o->pair_us * 1000);
    if (o->setup.pair_device > o->setup.pair - o->setup.handshake)
        return "--pair-us is more than a connection takes";
    if (o->work == JOIN && (o->old > o->workers || o->servers >= o->machines))
        return "there is no worker, or no machine for them";
    if (o->work == LOOK_UP && o->milliseconds <= 1)
        return "look-up takes 1 ms to begin: more --time";
    if ((o->work != MESH && o->once) || (o->work != LOOK_UP && o->ask)
        || (o->work == LOOK_UP && o->ports) || (o->work != JOIN && o->move))
        return "an option is not of that work";
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "work", required_argument, NULL, 'w' }, { "ports", no_argument, NULL, 'p' },
        { "move", no_argument, NULL, 'M' }, { "once", no_argument, NULL, '1' },
        { "ask", no_argument, NULL, 'a' }, { "asleep", no_argument, NULL, 's' },
        { "workers", required_argument, NULL, 'n' }, { "old", required_argument, NULL, 'o' },
        { "machines", required_argument, NULL, 'm' },
        { "servers", required_argument, NULL, 'S' }, { "fork-us", required_argument, NULL, 'F' },
        { "think-us", required_argument, NULL, 't' }, { "time", required_argument, NULL, 'T' },
        { "bin-ms", required_argument, NULL, 'b' }, { "setup", required_argument, NULL, 'u' },
        { "pair-us", required_argument, NULL, 'P' }, { "profile", required_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .work = MESH, .workers = 24, .machines = 10, .servers = 8,
                         .fork_us = 1356, .think_us = 500, .milliseconds = 2, .bin_ms = 50,
                         .profile = "ib100", .setup = *loci_sim_setup_named("krcore") };
    const char *wrong;
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "connect_sim: not a value that this option takes: %s (--help)\n",
                    optarg);
            return 2;
        }
    }
    wrong = optind < argc ? "no such argument" : check(&o);
    if (wrong != NULL) {
        fprintf(stderr, "connect_sim: %s (--help)\n", wrong);
        return 2;
    }
    return run(&o);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The directory of a pool (channels/pool/pool_directory.h). Some processes are agents: they claim
 * names of stores, make and remove these, break their links and mend them, and end and are started
 * anew, at another address; one may stop. An agent dials the first of those that run, as --join has
 * it, and others where its directory says that they are. The other processes read the agents'
 * tables.
 * Checked is
 *
 *   - what is read is a record that some agent has published, whole. On one node nobody who reads
 *     waits for an agent that has stopped at any step
 *   - a record is current, by its own agent's table, if and only if that store is there
 *   - as long as all agents reach each other, no two of them have stores of one name
 *   - what an agent hears of others never leads it back to an earlier address of theirs
 *   - when all is quiet, every agent's table says what the agents that live have, and that of
 *     those that have stopped as lost; and each of that is found by its name */

#include "config.h"

#include <stdio.h>

#include "move/rma.h"
#include "pool/pool_directory.h"
#include "runtime.h"
#include "scenario_util.h"
#include "wait.h"

#define AGENTS_MOST 4
#define NAMES 3
#define STORES_MOST 256             /* over a run */
#define PAUSE 20000                 /* ns */
#define LIVES 3                     /* of an agent's machine: so often at most is one started */

enum kind { LINK_UP, LINK_DOWN, NEWS };

struct message {
    struct message *next;
    enum kind kind;
    unsigned epoch;                 /* of the link */
    struct loci_news news;
};

/* A link as one of its ends has it. */
struct side {
    bool up;
    unsigned epoch;
    int peer;                       /* the other end's place in the directory */
};

/* A store that was made, by the number that is in its record. */
struct truth {
    int host, name;
    uint64_t identity;              /* the host's at the time */
    bool there, leaving, gone;      /* gone: its removal is over */
};

struct directory_state {
    struct sim_state common;
    bool drawn;
    bool cuts;                      /* links break in this run, and are not there at first */
    int agents;
    bool ready[AGENTS_MOST];
    bool done[AGENTS_MOST];         /* it does nothing more of itself, */
    bool over[AGENTS_MOST];         /* and has seen that nobody does */
    int life[AGENTS_MOST];          /* agents of its machine that have ended */
    int busy[AGENTS_MOST];          /* what is begun: claims, and a step of its work */
    struct loci_memkey key[AGENTS_MOST];
    struct message *queue[AGENTS_MOST][AGENTS_MOST];    /* from, to; the oldest first */
    struct side side[AGENTS_MOST][AGENTS_MOST];
    struct truth store[STORES_MOST];
    int stores;
    int readers;                    /* that are not over */
};

struct wish {
    uint64_t claim;
    int name;
    enum { NO_WISH, ASKED, WON } state;
};

struct agent {
    struct sim_run *run;
    struct directory_state *s;
    loco_runtime_t *rt;
    int rank, acts;
    struct loci_mem mem[LIVES];     /* of its lives: who reads may still look at an earlier one's */
    int known[AGENTS_MOST];         /* by rank: the latest life that the directory spoke of */
    struct loci_directory d;
    struct wish wish[NAMES];
};

static void name_of(int i, char name[LOCI_CATALOG_NAME])
{
    snprintf(name, LOCI_CATALOG_NAME, "n%d", i);
}

static uint64_t identity_of(const struct directory_state *s, int rank)
{
    /* The order of agents is another one after each start. */
    return 100 + (uint64_t)((rank + s->life[rank]) % AGENTS_MOST + AGENTS_MOST * s->life[rank]);
}

/* An agent as it says of itself. It listens at another port in each life. */
static struct loci_agent_record record_of(const struct directory_state *s, int rank)
{
    return (struct loci_agent_record){
        .identity = identity_of(s, rank), .node = (uint64_t)rank + 1,
        .born = (uint64_t)s->life[rank] + 1,
        .place = { { .port = (uint16_t)(s->life[rank] + 1) } },
    };
}

/* ---- links ---- */

static struct message *push(struct directory_state *s, int from, int to, enum kind kind,
                            unsigned epoch)
{
    struct message **at = &s->queue[from][to], *m = calloc(1, sizeof *m);

    if (m == NULL)
        abort();
    m->kind = kind;
    m->epoch = epoch;
    while (*at != NULL)
        at = &(*at)->next;
    return *at = m;
}

/* What is on its way when a link breaks arrives in part. */
static void lose_some(struct directory_state *s, int from, int to)
{
    struct message **at = &s->queue[from][to], *m;

    while (*at != NULL && ((*at)->kind != NEWS || loci_sim_draw(2) != 0))
        at = &(*at)->next;
    while ((m = *at) != NULL) {
        if (m->kind != NEWS) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        free(m);
    }
}

static void send(void *ctx, int to, const struct loci_news *news)
{
    struct agent *a = ctx;
    struct directory_state *s = a->s;

    for (int i = 0; i < s->agents; i++)
        if (s->side[a->rank][i].up && s->side[a->rank][i].peer == to)
            push(s, a->rank, i, NEWS, s->side[a->rank][i].epoch)->news = *news;
}

/* The other end has said who it is. */
static int come_up(struct agent *a, int other, const struct loci_agent_record *record)
{
    struct side *side = &a->s->side[a->rank][other];

    side->peer = loci_directory_meet(&a->d, record);
    WANT(side->peer >= 0, "p%d does not meet p%d: %d", a->rank, other, side->peer);
    a->known[other] = record->place[0].port - 1;
    loci_directory_up(&a->d, side->peer);
    return SIM_FINE;
}

static void go_down(struct agent *a, int other)
{
    a->s->side[a->rank][other].up = false;
    loci_directory_down(&a->d, a->s->side[a->rank][other].peer);
}

static unsigned latest_epoch(const struct directory_state *s, int i, int k)
{
    unsigned mine = s->side[i][k].epoch, theirs = s->side[k][i].epoch;

    return mine > theirs ? mine : theirs;
}

/* Who dials is told who answers before anything else. */
static int connect_to(struct agent *a, int other)
{
    struct directory_state *s = a->s;
    struct side *mine = &s->side[a->rank][other];
    struct loci_agent_record record = record_of(s, other);

    mine->epoch = 1 + latest_epoch(s, a->rank, other);
    mine->up = true;
    mine->peer = -1;                    /* nothing is sent there yet */
    push(s, a->rank, other, LINK_UP, mine->epoch)->news.agent = record_of(s, a->rank);
    return come_up(a, other, &record);
}

static void cut(struct agent *a, int other)
{
    lose_some(a->s, a->rank, other);
    push(a->s, a->rank, other, LINK_DOWN, a->s->side[a->rank][other].epoch);
    go_down(a, other);
}

static int come_up_again(struct agent *a, int from, const struct message *m)
{
    struct side *side = &a->s->side[a->rank][from];

    if (side->up && m->epoch < side->epoch)
        return SIM_FINE;                /* the last words of an agent that has ended since */
    if (side->up)                       /* the other end has seen that it had broken */
        go_down(a, from);
    side->epoch = m->epoch;
    side->up = true;
    side->peer = -1;
    return come_up(a, from, &m->news.agent);
}

/* Hearsay never leads back to the address of an earlier agent. */
static int check_addresses(struct agent *a)
{
    for (int i = 0; i < a->s->agents; i++) {
        int life = -1;

        for (int k = 1; k < LOCI_AGENTS_MAX; k++)
            if (a->d.agent[k].state != LOCI_AGENT_NONE && a->d.agent[k].node == (uint64_t)i + 1)
                life = a->d.heard[k].place[0].port - 1;
        WANT(life < 0 || life >= a->known[i], "p%d goes back to life %d of p%d, from %d", a->rank,
             life, i, a->known[i]);
        a->known[i] = life < 0 ? 0 : life;
    }
    return SIM_FINE;
}

static int hear(struct agent *a, int from)
{
    struct message *m = a->s->queue[from][a->rank];
    struct side *side = &a->s->side[a->rank][from];
    int status = LOCO_OK, result = SIM_FINE;

    a->s->queue[from][a->rank] = m->next;
    if (m->kind == LINK_UP) {
        result = come_up_again(a, from, m);
    } else if (side->up && side->epoch == m->epoch) {
        if (m->kind == LINK_DOWN)
            go_down(a, from);
        else
            status = loci_directory_hear(&a->d, side->peer, &m->news);
        side->up = side->up && m->news.type != LOCI_NEWS_LEAVE;
    }
    free(m);
    TRY(a->run, status);
    PASS(result);
    return check_addresses(a);
}

/* ---- stores ---- */

static void fill(struct loci_record *r, int store)
{
    uint64_t n = (uint64_t)store + 1;

    r->bytes = n;
    r->objects = 3 * n;
    r->roots = 5 * n;
    r->threads = 7 * n;
    for (int i = 0; i < LOCI_REGIONS_MAX; i++) {
        r->key[i].base = 11 * n + (uint64_t)i;
        r->key[i].len = 13 * n + (uint64_t)i;
    }
}

/* Whose record that is; -1: of none, or it is not whole. */
static int store_of(const struct directory_state *s, const struct loci_record *r)
{
    struct loci_record right = *r;
    char name[LOCI_CATALOG_NAME];
    int store = (int)r->bytes - 1;

    if (store < 0 || store >= s->stores)
        return -1;
    fill(&right, store);
    name_of(s->store[store].name, name);
    return memcmp(&right, r, sizeof right) == 0 && strcmp(name, r->name) == 0
           && r->host == s->store[store].identity ? store : -1;
}

static void claimed(void *ctx, uint64_t claim, int status)
{
    struct agent *a = ctx;

    for (int i = 0; i < NAMES; i++)
        if (a->wish[i].state == ASKED && a->wish[i].claim == claim) {
            a->wish[i].state = status == LOCO_OK ? WON : NO_WISH;
            a->s->busy[a->rank] -= status != LOCO_OK;
        }
}

static const struct loci_directory_ops ops = { .send = send, .claimed = claimed };

static void wish_for(struct agent *a, int i)
{
    struct wish *w = &a->wish[i];
    char name[LOCI_CATALOG_NAME];

    if (w->state != NO_WISH || a->s->stores >= STORES_MOST / 2)
        return;
    name_of(i, name);
    w->state = ASKED;
    a->s->busy[a->rank]++;
    if (loci_directory_claim(&a->d, name, &w->claim) != LOCO_OK) {
        w->state = NO_WISH;
        a->s->busy[a->rank]--;
    }
}

static int other_has(const struct directory_state *s, int host, int name)
{
    for (int i = 0; i < s->stores; i++)
        if (s->store[i].there && !s->store[i].leaving && s->store[i].name == name
            && s->store[i].host != host && !loci_sim_is_stopped(s->store[i].host))
            return s->store[i].host;
    return -1;
}

static int make(struct agent *a, int i)
{
    struct directory_state *s = a->s;
    struct loci_record record = { .number = 0 };
    int store = s->stores++, other = other_has(s, a->rank, i), status;

    a->wish[i].state = NO_WISH;
    WANT(other < 0 || s->cuts, "p%d makes store n%d, which p%d has", a->rank, i, other);
    fill(&record, store);
    name_of(i, record.name);
    /* Known to the observer before anybody can read it. */
    s->store[store] = (struct truth){ .host = a->rank, .name = i, .there = true,
                                      .identity = identity_of(s, a->rank) };
    status = loci_directory_made(&a->d, a->wish[i].claim, &record);
    s->store[store].there = status == LOCO_OK;
    s->busy[a->rank]--;
    if (status != LOCO_ERR_FULL)
        TRY(a->run, status);
    return SIM_FINE;
}

static int remove_one(struct agent *a, int i)
{
    struct directory_state *s = a->s;
    char name[LOCI_CATALOG_NAME];
    int store = s->stores - 1;

    while (store >= 0 && !(s->store[store].host == a->rank && s->store[store].name == i
                           && s->store[store].there))
        store--;
    if (store < 0)
        return SIM_FINE;
    name_of(i, name);
    s->store[store].leaving = true;
    TRY(a->run, loci_directory_remove(&a->d, name));
    s->store[store].gone = true;
    s->store[store].there = false;
    return SIM_FINE;
}

static void forget_one(struct agent *a, int i)
{
    char name[LOCI_CATALOG_NAME];

    name_of(i, name);
    if (!a->s->cuts)
        return;                     /* else whoever reads may find what has stopped, or not */
    (void)loci_directory_forget(&a->d, name);
}

/* ---- an agent ---- */

static int begin_life(struct agent *a)
{
    struct directory_state *s = a->s;
    struct loci_agent_record self = record_of(s, a->rank);
    struct loci_mem *mem = &a->mem[s->life[a->rank]];

    TRY(a->run, loci_alloc(a->rt, LOCI_CATALOG_BYTES, 0, mem));
    loci_directory_open(&a->d, a->rt, loci_mem_ptr(mem), &self, &ops, a);
    s->key[a->rank] = mem->key;
    s->ready[a->rank] = true;
    return SIM_FINE;
}

/* Its process has gone, with its stores and all that it was to hear. */
static void end_life(struct agent *a)
{
    struct directory_state *s = a->s;
    struct message *m;

    s->ready[a->rank] = false;
    for (int i = 0; i < s->stores; i++)
        if (s->store[i].host == a->rank) {
            s->store[i].there = false;
            s->store[i].leaving = s->store[i].gone = true;
        }
    for (int i = 0; i < s->agents; i++) {
        while ((m = s->queue[i][a->rank]) != NULL) {
            s->queue[i][a->rank] = m->next;
            free(m);
        }
        if (i != a->rank)
            push(s, a->rank, i, LINK_DOWN, latest_epoch(s, a->rank, i));
        s->side[a->rank][i].up = false;
    }
    for (int i = 0; i < NAMES; i++) {
        s->busy[a->rank] -= a->wish[i].state != NO_WISH;
        a->wish[i].state = NO_WISH;
    }
    memset(a->known, 0, sizeof a->known);
    s->life[a->rank]++;
}

/* It ends, by itself or killed, and another one is started on its machine. */
static int start_anew(struct agent *a)
{
    struct directory_state *s = a->s;

    if (!s->cuts || s->life[a->rank] == LIVES - 1)
        return SIM_FINE;
    if (loci_sim_draw(2) != 0)
        loci_directory_leave(&a->d);
    else
        for (int i = 0; i < s->agents; i++)
            lose_some(s, a->rank, i);
    end_life(a);
    loci_directory_close(&a->d);
    return begin_life(a);
}

static int act(struct agent *a)
{
    int i = (int)loci_sim_draw(NAMES), other = (int)loci_sim_draw((uint32_t)a->s->agents);

    a->acts--;
    switch (loci_sim_draw(11)) {
    case 0: case 1:
        return remove_one(a, i);
    case 4:
        return start_anew(a);
    case 5:
        if (a->s->cuts)
            loci_directory_doubt(&a->d, (uint64_t)loci_now(a->rt));
        return check_addresses(a);
    case 2:
        if (a->s->cuts && other != a->rank && a->s->side[a->rank][other].up)
            cut(a, other);
        return SIM_FINE;
    case 3:
        forget_one(a, i);
        return SIM_FINE;
    case 6:
        loci_directory_remind(&a->d);
        return SIM_FINE;
    default:
        wish_for(a, i);
        return SIM_FINE;
    }
}

static bool is_live(int rank)
{
    return !loci_sim_is_stopped(rank);
}

static bool has_lost(const struct agent *a, int other)
{
    return other != a->rank && a->s->side[a->rank][other].up && !is_live(other);
}

/* Whom all are told to join. */
static int first_live(const struct directory_state *s)
{
    int i = 0;

    while (i < s->agents && !is_live(i))
        i++;
    return i;
}

/* Whether its directory says where that one is. */
static bool may_dial(const struct agent *a, int other)
{
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (a->d.agent[i].state != LOCI_AGENT_NONE && a->d.agent[i].node == (uint64_t)other + 1)
            return a->d.heard[i].place[0].port == a->s->life[other] + 1;
    return false;
}

static bool may_connect(const struct agent *a, int other)
{
    const struct directory_state *s = a->s;

    return other != a->rank && s->ready[other] && is_live(other) && !s->side[a->rank][other].up
           && !s->side[other][a->rank].up && s->queue[a->rank][other] == NULL
           && (other == first_live(s) || (a->rank < other && may_dial(a, other)));
}

static bool all_linked(const struct directory_state *s)
{
    for (int i = 0; i < s->agents; i++)
        for (int k = 0; k < s->agents; k++)
            if (i != k && is_live(i) && is_live(k)
                && (!s->side[i][k].up || s->side[i][k].epoch != s->side[k][i].epoch))
                return false;
    return true;
}

static bool is_quiet(const struct directory_state *s)
{
    for (int i = 0; i < s->agents; i++) {
        if (!is_live(i) || s->over[i])
            continue;
        if (!s->done[i] || s->busy[i] != 0)
            return false;
        for (int k = 0; k < s->agents; k++) {
            if (k != i && is_live(k) && s->queue[i][k] != NULL)
                return false;
            if (k != i && !is_live(k) && (s->side[i][k].up || s->queue[k][i] != NULL))
                return false;
        }
    }
    return all_linked(s);
}

/* There is somebody to be told of somebody, and all that was said before was heard. */
static bool may_remind(const struct agent *a)
{
    for (int i = 0; i < a->s->agents; i++)
        if (a->s->queue[a->rank][i] != NULL)
            return false;
    return !all_linked(a->s) && (a->d.up & (a->d.up - 1)) != 0;
}

/* Names are given once where nobody asks for one before it reaches all others. */
static bool may_act(const struct agent *a)
{
    const struct directory_state *s = a->s;

    for (int i = 0; i < s->agents && !s->cuts; i++)
        for (int k = 0; k < s->agents; k++)
            if (i != k && is_live(i) && is_live(k) && s->side[i][k].epoch == 0)
                return false;
    return a->acts > 0;
}

/* What there is to do for an agent: a number to draw from. */
static uint32_t work_of(const struct agent *a)
{
    const struct directory_state *s = a->s;
    uint32_t n = may_act(a) + may_remind(a);

    for (int i = 0; i < s->agents; i++)
        n += (s->queue[i][a->rank] != NULL) + has_lost(a, i) + may_connect(a, i);
    for (int i = 0; i < NAMES; i++)
        n += a->wish[i].state == WON;
    return n;
}

static int has_work(void *arg)
{
    const struct agent *a = arg;

    return work_of(a) > 0 || is_quiet(a->s);
}

/* The w-th of it. */
static int do_work(struct agent *a, uint32_t w)
{
    struct directory_state *s = a->s;

    for (int i = 0; i < s->agents; i++) {
        if (s->queue[i][a->rank] != NULL && w-- == 0)
            return hear(a, i);
        if (has_lost(a, i) && w-- == 0) {
            go_down(a, i);
            return SIM_FINE;
        }
        if (may_connect(a, i) && w-- == 0)
            return connect_to(a, i);
    }
    for (int i = 0; i < NAMES; i++)
        if (a->wish[i].state == WON && w-- == 0)
            return make(a, i);
    if (may_remind(a) && w-- == 0) {
        loci_directory_remind(&a->d);
        return SIM_FINE;
    }
    return act(a);
}

static bool has_lost_host(const struct agent *a, int host)
{
    return host != a->rank && !a->s->side[a->rank][host].up;
}

/* The last look: at its own table, as anybody reads it. */
/* Whoever looks for its name finds it, or one that is before it. */
static int check_found(struct agent *a, struct loci_mem *table, const struct loci_record *r)
{
    struct loci_record found;
    int status = loci_catalog_find(a->rt, table, r->name, &found);

    WANT(status == LOCO_OK && !loci_catalog_is_before(r, &found),
         "p%d does not find %s of p%d by its name", a->rank, r->name, (int)r->host);
    return SIM_FINE;
}

static int check_table(struct agent *a)
{
    struct directory_state *s = a->s;
    int found[STORES_MOST] = { 0 };

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        struct loci_record r;
        int status = loci_catalog_read(a->rt, &a->mem[s->life[a->rank]], i, &r), store;

        if (status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_RANGE)
            continue;
        TRY(a->run, status);
        store = store_of(s, &r);
        WANT(store >= 0, "p%d has a record of no store at the end", a->rank);
        PASS(check_found(a, &a->mem[s->life[a->rank]], &r));
        WANT((r.lost != 0) == has_lost_host(a, s->store[store].host),
             "p%d has store %d of p%d as %s", a->rank, store, s->store[store].host,
             r.lost != 0 ? "lost" : "there");
        found[store]++;
    }
    for (int i = 0; i < s->stores; i++)
        if (is_live(s->store[i].host))
            WANT(found[i] == s->store[i].there, "p%d has %d records of store %d, n%d of p%d, %s",
                 a->rank, found[i], i, s->store[i].name, s->store[i].host,
                 s->store[i].there ? "which is there" : "which is not");
    return SIM_FINE;
}

static int serve(struct agent *a)
{
    struct directory_state *s = a->s;

    PASS(begin_life(a));
    while (true) {
        uint32_t work;

        sim_wait(a->rt, has_work, a);
        work = work_of(a);
        if (work == 0)
            break;
        /* What was heard is off its queue before what it brings about is sent. */
        s->busy[a->rank]++;
        PASS(do_work(a, loci_sim_draw(work)));
        s->busy[a->rank]--;
        s->done[a->rank] = a->acts == 0;
        loci_sim_pause();           /* who waits for what this has changed looks again */
    }
    s->over[a->rank] = true;
    loci_sim_pause();
    return check_table(a);
}

/* ---- who reads ---- */

struct reader {
    struct sim_run *run;
    struct directory_state *s;
    loco_runtime_t *rt;
    int rank;
    struct loci_mem table[AGENTS_MOST];
    int life[AGENTS_MOST];              /* whose that is */
};

struct awaited {
    const struct directory_state *s;
    int agent;
};

static int is_ready(void *arg)
{
    const struct awaited *w = arg;

    return w->s->ready[w->agent] || loci_sim_is_stopped(w->agent);
}

static int learn(struct reader *r, int agent)
{
    struct awaited w = { r->s, agent };
    struct loci_memkey key;

    sim_wait(r->rt, is_ready, &w);
    if (!r->s->ready[agent])
        return SIM_TOLD;
    r->life[agent] = r->s->life[agent];
    key = r->s->key[agent];
    loci_mem_drop(r->rt, &r->table[agent]);
    TRY(r->run, loci_mem_import(r->rt, r->rt->everyone->peer[agent], &key, &r->table[agent]));
    if (r->run->one_node)
        WANT(loci_mem_map(r->rt, &r->table[agent]) != NULL, "a table is not mapped");
    return SIM_FINE;
}

/* Where it can be read at all, a table is read whatever its agent has come to. */
static int find(struct reader *r, int agent, const char *name, struct loci_record *record)
{
    int status = loci_catalog_find(r->rt, &r->table[agent], name, record);

    if (status == LOCO_ERR_PEER_DEAD && r->run->one_node)
        return loci_sim_fail("p%d does not read the table of p%d, which has stopped", r->rank,
                             agent);
    if (status == LOCO_ERR_NOT_FOUND)
        return SIM_FINE;
    TRY(r->run, status);
    return SIM_FINE;
}

static int check_current(struct reader *r, const struct loci_record *record, int store)
{
    const struct truth *t = &r->s->store[store];
    bool gone = t->gone;
    int current;

    /* In production the table of an agent that has ended is not read as that of the next one: the
     * peer is another one. */
    if (t->identity != identity_of(r->s, t->host))
        return SIM_FINE;
    if (r->life[t->host] != r->s->life[t->host])
        PASS(learn(r, t->host));
    current = loci_catalog_is_current(r->rt, &r->table[t->host], record);

    if (current < 0)
        return sim_check(r->run, current, "is_current");
    if (r->life[t->host] != r->s->life[t->host])
        return SIM_FINE;
    WANT(!(current && gone), "p%d finds store %d current, which is removed", r->rank, store);
    WANT(current || t->leaving, "p%d finds store %d not current, which is there", r->rank, store);
    return SIM_FINE;
}

static int look_up(struct reader *r)
{
    int agent = (int)loci_sim_draw((uint32_t)r->s->agents), store;
    struct loci_record record = { .number = 0 };
    char name[LOCI_CATALOG_NAME];

    if (r->life[agent] != r->s->life[agent])
        PASS(learn(r, agent));
    name_of((int)loci_sim_draw(NAMES), name);
    PASS(find(r, agent, name, &record));
    if (record.number == 0)
        return SIM_FINE;
    store = store_of(r->s, &record);
    WANT(store >= 0 && strcmp(record.name, name) == 0, "p%d reads a record that nobody wrote",
         r->rank);
    return check_current(r, &record, store);
}

static int read_all(struct reader *r)
{
    for (int i = 0; i < r->s->agents; i++)
        PASS(learn(r, i));
    for (int i = 0; i < 4 * r->run->rounds; i++) {
        PASS(look_up(r));
        loci_sim_sleep(PAUSE);
    }
    return SIM_FINE;
}

/* ---- the body ---- */

static void choose(struct directory_state *s, const struct sim_run *run)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->agents = 2 + (run->processes > 3 ? (int)loci_sim_draw((uint32_t)run->processes - 2) : 0);
    s->agents = s->agents > AGENTS_MOST ? AGENTS_MOST : s->agents;
    s->cuts = loci_sim_draw(2) != 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct directory_state *s = run->state;
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct reader reader = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct agent *agent = calloc(1, sizeof *agent);
    int result;

    if (agent == NULL)
        return -1;
    choose(s, run);
    *agent = (struct agent){ .run = run, .s = s, .rt = rt, .rank = rank, .acts = 2 * run->rounds };
    result = rank < s->agents ? serve(agent) : read_all(&reader);
    result = sim_part(&seat, result);
    for (int i = 0; i < s->agents; i++)
        loci_mem_drop(rt, &reader.table[i]);
    loci_directory_close(&agent->d);
    for (int i = 0; i < LIVES; i++)
        if (agent->mem[i].key.kind != LOCI_MEM_NONE)
            loci_free(rt, &agent->mem[i]);
    free(agent);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct directory_state));
}

static void drop(struct sim_run *run)
{
    struct directory_state *s = run->state;
    struct message *m;

    for (int i = 0; s != NULL && i < AGENTS_MOST; i++)
        for (int k = 0; k < AGENTS_MOST; k++)
            while ((m = s->queue[i][k]) != NULL) {
                s->queue[i][k] = m->next;
                free(m);
            }
    sim_state_free(run);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_directory;
const struct sim_scenario sim_scenario_directory = {
    .name = "directory",
    .about = "agents keep a pool's directory, lose each other, are started anew and stop, while "
             "others read it: what is read is whole, names are given once, and all tables come to "
             "say the same",
    .processes = 4, .threads = 1, .rounds = 4, .processes_min = 2,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Several stores of the same processes, which one thread of each serves
 * (runtime/threads/poller.h). Thread t of each process uses store t, and at some time destroys
 * it and makes another one of its name, whatever the others are about. Now and then it visits
 * the keys of its store, and while a visitor of store 0 stays there, store 1 has to get on. What
 * is wrong: a key whose insert has returned is not found by somebody; one whose delete has
 * returned is; memory that was given back is touched; somebody waits for ever. */

#include "config.h"

#include "scenario_util.h"

#include <loco/kvstore.h>

#define STORES_MAX 4
#define PROCESSES_MAX 8
#define LIVES 2
#define LONGEST_PAUSE 20000             /* ns */

/* What is known of a key, which one process inserts and deletes, by turns. */
enum known { ABSENT, UNCLEAR, PRESENT };

struct key {
    enum known known;
    unsigned changes;                   /* of that */
};

struct store {
    struct sim_place *place;
    struct key key[PROCESSES_MAX];      /* by who inserts it */
    unsigned inserts;                   /* that have returned */
    int over;                           /* threads that will not insert any more */
};

struct state {
    struct sim_state common;
    struct store store[STORES_MAX];
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    int rank;
};

struct client {
    const struct user *u;
    struct store *store;                /* as the observer sees it */
    int number;
    loco_kvstore_t *kv;
    struct sim_seat seat;
    char name[4];
};

static void set_known(struct key *key, enum known known)
{
    key->known = known;
    key->changes++;
}

/* ---- calls ---- */

static int put(struct client *c)
{
    uint64_t key = (uint64_t)c->u->rank, value = key + 1000;
    struct key *mine = &c->store->key[key];

    set_known(mine, UNCLEAR);
    TRY(c->u->run, loco_kvstore_insert(c->kv, key, &value, sizeof value));
    set_known(mine, PRESENT);
    c->store->inserts++;
    return SIM_FINE;
}

/* Half of the time another process does that, in whose memory it is not: that one is told of the
 * place by a message that nobody waits for. */
static int erase(struct client *c, uint64_t key)
{
    set_known(&c->store->key[key], UNCLEAR);
    TRY(c->u->run, loco_kvstore_delete(c->kv, key));
    set_known(&c->store->key[key], ABSENT);
    return SIM_FINE;
}

static int get(struct client *c)
{
    uint64_t key = loci_sim_draw((uint32_t)c->u->run->processes), value = 0;
    const struct key *k = &c->store->key[key];
    struct key before = *k;
    int status = loco_kvstore_get(c->kv, key, &value, sizeof value);

    if (status != LOCO_ERR_NOT_FOUND)
        TRY(c->u->run, status);
    if (k->changes != before.changes || before.known == UNCLEAR)
        return SIM_FINE;
    WANT((status == LOCO_OK) == (before.known == PRESENT), "p%d: key %llu of store %d is %s",
         c->u->rank, (unsigned long long)key, c->number,
         status == LOCO_OK ? "there, and was deleted" : "not there, and was inserted");
    WANT(status != LOCO_OK || value == key + 1000, "p%d: key %llu of store %d is %llu", c->u->rank,
         (unsigned long long)key, c->number, (unsigned long long)value);
    return SIM_FINE;
}

/* ---- visits ---- */

struct stay {
    struct client *c;
    const struct store *other;          /* that has to get on meanwhile, or NULL */
    unsigned inserts;
};

static int has_got_on(void *arg)
{
    const struct stay *stay = arg;
    const struct sim_run *run = stay->c->u->run;

    return stay->other->inserts != stay->inserts || stay->other->over == run->processes
           || (run->faults && sim_any_stopped(run));
}

static int visit_one(void *ctx, uint64_t key)
{
    struct stay *stay = ctx;
    uint64_t value;

    (void)loco_kvstore_get(stay->c->kv, key, &value, sizeof value);
    loci_sim_sleep(1 + (int64_t)loci_sim_draw(LONGEST_PAUSE));
    if (stay->other != NULL)
        sim_wait(stay->c->u->rt, has_got_on, stay);
    return 0;
}

static int visit(struct client *c)
{
    struct stay stay = { .c = c };

    if (c->number == 0 && c->u->run->threads > 1)
        stay.other = &c->u->s->store[1];
    if (stay.other != NULL)
        stay.inserts = stay.other->inserts;
    loco_kvstore_iterate(c->kv, visit_one, &stay);
    return SIM_FINE;
}

/* ---- a life ---- */

static void dawdle(void)
{
    if (loci_sim_draw(3) == 0)
        loci_sim_sleep(1 + (int64_t)loci_sim_draw(1 + loci_sim_draw(LONGEST_PAUSE)));
}

static int one_call(struct client *c)
{
    uint64_t mine = (uint64_t)c->u->rank;

    dawdle();
    switch (loci_sim_draw(6)) {
    case 0: case 1: case 2:
        return c->store->key[mine].known == ABSENT ? put(c) : erase(c, mine);
    case 3: return visit(c);
    default: return get(c);
    }
}

/* The neighbour's, which has ended its own calls. */
static int clean(struct client *c)
{
    uint64_t theirs = (uint64_t)(c->u->rank + 1) % (uint64_t)c->u->run->processes;

    return c->store->key[theirs].known == PRESENT ? erase(c, theirs) : SIM_FINE;
}

static int live(struct client *c)
{
    const struct sim_run *run = c->u->run;

    PASS(sim_ready_below(run, &c->seat, c->name));
    TRY(run, sim_meet(&c->seat));
    for (int i = 0; i < run->rounds; i++)
        PASS(one_call(c));
    TRY(run, sim_meet(&c->seat));
    PASS(clean(c));
    TRY(run, sim_meet(&c->seat));
    return SIM_FINE;
}

static int make(struct client *c)
{
    const loco_kvstore_options_t o = { .value_bytes = 8, .capacity = 2, .locks = 2,
                                       .tracker_bytes = 4096 };

    TRY(c->u->run, loco_kvstore_create(c->u->rt, NULL, c->name, loco_everyone(c->u->rt), &o,
                                       &c->kv));
    return SIM_FINE;
}

static int thread_main(void *arg, int thread)
{
    const struct user *u = arg;
    struct store *store = &u->s->store[thread];
    struct client c = { .u = u, .store = store, .number = thread,
                        .seat = sim_seat(store->place, u->rt, u->rank) };
    int result = SIM_FINE;

    snprintf(c.name, sizeof c.name, "s%d", thread);
    for (int life = 0; life < LIVES && result == SIM_FINE; life++) {
        result = make(&c);
        if (result == SIM_FINE)
            result = live(&c);
        if (result == SIM_WRONG)
            return result;
        if (life + 1 == LIVES)
            store->over++;
        if (result == SIM_TOLD) {
            store->over = u->run->processes;
            sim_part(&c.seat, result);
        }
        dawdle();
        loco_kvstore_destroy(c.kv);
    }
    return SIM_FINE;
}

/* ---- the body ---- */

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result = sim_threads(rt, run->threads, thread_main, &u);

    return sim_part(&seat, result);
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    for (int i = 0; s != NULL && i < STORES_MAX; i++)
        sim_place_free(s->store[i].place);
    sim_state_free(run);
}

static int begin(struct sim_run *run)
{
    struct state *s;

    if (run->threads > STORES_MAX || run->processes > PROCESSES_MAX
        || sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    for (int i = 0; i < STORES_MAX; i++) {
        s->store[i].place = sim_place_make(run->processes);
        if (s->store[i].place == NULL)
            return -1;
    }
    return 0;
}

/* Asleep soon, so that they are woken often. */
static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_SLEEP_AFTER=2us", NULL };

extern const struct sim_scenario sim_scenario_stores;
const struct sim_scenario sim_scenario_stores = {
    .name = "stores",
    .about = "several key-value stores, served by one thread, are used, visited and destroyed at "
             "any time: none waits for another",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};

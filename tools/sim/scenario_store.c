/* SPDX-License-Identifier: BSD-3-Clause */

/* Threads of all processes do all that transactions can do with a few accounts: change one, move
 * money between several, read some and write others, read all, make and free objects, give up.
 * Their history is strictly serializable (tx_history.h). The accounts hold the same together
 * whenever a transaction has read them all. A process that stops leaves nothing half done, and
 * nothing that stops others. At the end all memory is there (scenario_store_end.c). */

#include "config.h"

#include "broken.h"
#include "scenario_store.h"
#include "store/tx_parts.h"

#define BYTES 524288
#define BYTES_TIGHT 65536
#define OBJECTS 96
#define OBJECTS_TIGHT 256       /* more than bytes for them */
#define SCALE_BYTES 65536

/* What a transaction does. */
enum {
    SET_UP,             /* make the accounts, unless they are there */
    CHANGE,             /* one account gets another value of the same balance */
    MOVE,               /* from one to another */
    SHARE_OUT,          /* among several */
    SKEW,               /* read several, write one of them */
    LOOK,               /* at all */
    LOOK_AT_SOME,
    LOOK_MANY,          /* the same by loco_tx_read_many */
    GIVE_UP,            /* a move that is aborted */
    REPLACE,            /* the object of an account by another one */
    KINDS
};

static void choose_hosts(struct store_state *s, int processes)
{
    int n = (int)loci_sim_draw(3);

    if (n == 0 || n > processes)
        return;
    s->host[0] = (int)loci_sim_draw((uint32_t)processes);
    if (n == 2)
        s->host[1] = (s->host[0] + 1 + (int)loci_sim_draw((uint32_t)processes - 1)) % processes;
    s->options.hosts = s->host;
    s->options.nhosts = n;
}

void store_choose(struct store_state *s, const struct sim_run *run)
{
    bool named = false;

    if (s->drawn)
        return;
    s->drawn = true;
    s->first = (int)loci_sim_draw((uint32_t)run->processes);
    s->slots = 2 + (int)loci_sim_draw(STORE_SLOTS_MAX - 1);
    for (int i = 0; i < s->slots; i++) {
        s->indirect[i] = loci_sim_draw(3) == 0;
        named = named || s->indirect[i];
    }
    /* Filling takes many operations, and slow ones would take all steps of a run. */
    s->tight = loci_sim_draw(12) == 0 && run->fault.slow_link < 0 && run->fault.slow_process < 0;
    if (s->tight || loci_sim_draw(3) == 0)
        s->len = (named ? 32 : 8) + loci_sim_draw(STORE_VALUE_MAX - 32);
    if (s->tight)
        s->len = 260 + loci_sim_draw(41);
    if (!loci_tx_has(LOCI_TX_COPY) && s->len == 0)
        s->len = STORE_VALUE_MAX;
    s->options = (loco_store_options_t){ .bytes = s->tight ? BYTES_TIGHT : BYTES,
                                         .objects = s->tight ? OBJECTS_TIGHT : OBJECTS,
                                         .roots = (uint64_t)s->slots, .threads = run->threads };
    choose_hosts(s, run->processes);
}

/* ---- what transactions do ---- */

static int some_slot(const struct store_client *c)
{
    return (int)loci_sim_draw((uint32_t)c->u->s->slots);
}

static int replace_or_write(struct store_client *c, int slot)
{
    if (c->u->s->indirect[slot] && loci_sim_draw(4) == 0)
        return store_replace(c, slot);
    return store_write(c, slot, c->view[slot].account.balance);
}

static int change(struct store_client *c)
{
    int slot = some_slot(c);

    PASS(store_read(c, slot));
    return store_write(c, slot, c->view[slot].account.balance);
}

static int move(struct store_client *c)
{
    int from = some_slot(c), to = (from + 1 + (int)loci_sim_draw((uint32_t)c->u->s->slots - 1))
                                  % c->u->s->slots;
    uint64_t amount = 1 + loci_sim_draw(STORE_START / 4);

    PASS(store_read(c, from));
    PASS(store_read(c, to));
    if (c->view[from].account.balance < amount)
        return SIM_FINE;
    PASS(store_write(c, from, c->view[from].account.balance - amount));
    return store_write(c, to, c->view[to].account.balance + amount);
}

/* Some accounts in a row, from any one on. */
static int read_some(struct store_client *c, int first, int n)
{
    for (int i = 0; i < n; i++)
        PASS(store_read(c, (first + i) % c->u->s->slots));
    return SIM_FINE;
}

static int share_out(struct store_client *c)
{
    int slots = c->u->s->slots, first = some_slot(c);
    int n = 2 + (int)loci_sim_draw((uint32_t)slots - 1);
    uint64_t each, all = 0;

    PASS(read_some(c, first, n));
    for (int i = 0; i < n; i++)
        all += c->view[(first + i) % slots].account.balance;
    each = all / (uint64_t)n;
    for (int i = 0; i < n; i++, all -= each)
        PASS(store_write(c, (first + i) % slots, i < n - 1 ? each : all));
    return SIM_FINE;
}

static int skew(struct store_client *c)
{
    int slots = c->u->s->slots, first = some_slot(c);
    int n = 2 + (int)loci_sim_draw((uint32_t)slots - 1);

    PASS(read_some(c, first, n));
    return replace_or_write(c, (first + (int)loci_sim_draw((uint32_t)n)) % slots);
}

static int look(struct store_client *c, int n)
{
    PASS(read_some(c, some_slot(c), n));
    return loci_sim_draw(3) == 0 ? store_validate(c) : SIM_FINE;
}

static int replace(struct store_client *c)
{
    int slot = some_slot(c);

    PASS(store_read(c, slot));
    return c->u->s->indirect[slot] ? store_replace(c, slot) : replace_or_write(c, slot);
}

static int work(struct store_client *c)
{
    switch (c->kind) {
    case SET_UP: return store_set_up(c);
    case CHANGE: return change(c);
    case SHARE_OUT: return share_out(c);
    case SKEW: return skew(c);
    case LOOK: return look(c, c->u->s->slots);
    case LOOK_AT_SOME: return look(c, 1 + some_slot(c));
    case LOOK_MANY: return store_read_many(c);
    case REPLACE: return replace(c);
    default: return move(c);
    }
}

/* ---- how they are run ---- */

static int by_hand(struct store_client *c, bool relaxed)
{
    int result;

    PASS(store_begin(c, relaxed));
    result = work(c);
    if (result == SIM_WRONG)
        return result;
    if (result == SIM_FINE && c->kind != GIVE_UP)
        return store_commit(c);
    /* After a conflict the next may begin at once. */
    if (result != STORE_AGAIN || loci_sim_draw(2) == 0)
        store_abort(c);
    return result;
}

enum { WRONG = 1, GIVEN_UP };           /* what a body returns */

static int run_body(loco_tx_t *tx, void *arg)
{
    struct store_client *c = arg;

    (void)tx;
    store_begins(c, false);
    switch (work(c)) {
    case SIM_FINE:
        if (c->kind == GIVE_UP)
            return GIVEN_UP;
        sim_tx_asks(&c->u->s->history, c->at);
        return LOCO_OK;
    case STORE_AGAIN: return LOCO_ERR_CONFLICT;
    case SIM_TOLD: return LOCO_ERR_PEER_DEAD;
    default: return WRONG;
    }
}

static int by_run(struct store_client *c)
{
    int status = loco_tx_run(c->tx, run_body, c);

    if (status == WRONG)
        return SIM_WRONG;
    WANT(status != GIVEN_UP || c->kind == GIVE_UP, "run returns what no body did");
    WANT(status != LOCO_ERR_CONFLICT, "run returns a conflict");
    if (status == GIVEN_UP) {
        store_abort(c);
        return SIM_FINE;
    }
    return store_ended(c, status);
}

/* Of a hosted store its host scavenges, and nobody else. */
static int scavenge(struct store_client *c)
{
    int status = loco_store_scavenge(c->u->store, NULL);

    return status == LOCO_ERR_AGAIN ? SIM_FINE : store_told(c, status, "scavenge");
}

/* A conflict ends it, and the death of a host; the next may do better. */
int store_one_round(struct store_client *c)
{
    int result;

    if (loci_sim_draw(16) == 0)
        PASS(store_reopen(c));
    if (!c->u->s->hosted && loci_sim_draw(32) == 0 && scavenge(c) == SIM_WRONG)
        return SIM_WRONG;
    c->kind = CHANGE + (int)loci_sim_draw(KINDS - CHANGE);
    result = loci_sim_draw(3) == 0 ? by_run(c) : by_hand(c, loci_sim_draw(3) == 0);
    return result == SIM_WRONG ? result : SIM_FINE;
}

static int can_begin(void *arg)
{
    const struct store_state *s = arg;

    return s->set_up || s->gave_up || loci_sim_is_stopped(s->first);
}

int store_make_accounts(struct store_client *c)
{
    int result;

    c->kind = SET_UP;
    result = by_run(c);
    if (result == SIM_FINE)
        c->u->s->set_up = true;
    return result;
}

/* One thread makes them, and where it stops all do. */
static int set_up(struct store_client *c, int thread)
{
    struct store_user *u = c->u;

    if (u->rank != u->s->first || thread != 0)
        sim_wait(u->rt, can_begin, u->s);
    return store_make_accounts(c);
}

static int thread_main(void *arg, int thread)
{
    struct store_user *u = arg;
    struct store_client c;
    int result;

    PASS(store_open(u, thread, &c));
    result = set_up(&c, thread);
    if (u->rank == u->s->first && thread == 0)
        u->s->gave_up = true;
    /* Nobody can make them where the host of a root has died. */
    for (int i = 0; i < u->run->rounds && u->s->set_up && result != SIM_WRONG; i++)
        result = store_one_round(&c);
    if (result == SIM_WRONG)
        return result;
    loco_tx_close(c.tx);
    return SIM_FINE;
}

/* ---- the body ---- */

static bool is_first_alive(const struct store_user *u)
{
    for (int i = 0; i < u->rank; i++)
        if (u->s->ready[i] && !loci_sim_is_stopped(i))
            return false;
    return true;
}

static int use(struct store_user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    u->s->ready[u->rank] = true;
    PASS(sim_threads(u->rt, u->run->threads, thread_main, u));
    if (sim_check(u->run, sim_meet(seat), "meeting") == SIM_WRONG)
        return SIM_WRONG;
    return is_first_alive(u) ? store_end(u) : SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct store_state *s = run->state;
    struct store_user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    store_choose(s, run);
    TRY(run, loco_store_create(rt, NULL, "store", loco_everyone(rt), &s->options, &u.store));
    result = use(&u, &seat);
    s->gave_up = s->gave_up || rank == s->first;
    result = sim_part(&seat, result);
    loco_store_destroy(u.store);
    return result;
}

static int begin(struct sim_run *run)
{
    return run->processes > STORE_PROCESSES_MAX || run->threads > STORE_THREADS_MAX
           ? -1 : sim_state_begin(run, sizeof(struct store_state));
}

static int end(struct sim_run *run)
{
    struct store_state *s = run->state;
    char text[480];

    return sim_tx_check(&s->history, text, sizeof text) ? 0 : loci_sim_fail("%s", text);
}

static void drop(struct sim_run *run)
{
    struct store_state *s = run->state;

    if (s != NULL)
        sim_tx_history_fini(&s->history);
    sim_state_free(run);
}

/* ---- without parts of transactions ---- */

static int begin_unlogged(struct sim_run *run)
{
    loci_tx_parts = LOCI_TX_ALL & ~(unsigned)LOCI_TX_LOG;
    return begin(run);
}

static int begin_in_place(struct sim_run *run)
{
    loci_tx_parts = LOCI_TX_CHECK | LOCI_TX_CHAINS;
    return begin(run);
}

static void drop_whole(struct sim_run *run)
{
    loci_tx_parts = LOCI_TX_ALL;
    drop(run);
}

/* ---- for `scale` ---- */

struct scaled {
    loco_store_t *store;
    loco_tx_t *tx;
};

static int scale_open(loco_runtime_t *rt, int rank, int processes, struct scaled *s)
{
    const loco_store_options_t options = { .bytes = SCALE_BYTES, .roots = (uint64_t)processes,
                                           .threads = 1 };
    uint64_t value = (uint64_t)rank;
    int status = loco_store_create(rt, NULL, "store", loco_everyone(rt), &options, &s->store);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status == LOCO_OK)
        status = loco_tx_open(s->store, &s->tx);
    if (status == LOCO_OK)
        status = loco_tx_begin(s->tx);
    if (status == LOCO_OK)
        status = loco_tx_write(s->tx, loco_store_root(s->store, value), &value, sizeof value);
    return status == LOCO_OK ? loco_tx_commit(s->tx) : status;
}

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    struct scaled *s = calloc(1, sizeof *s);

    return s != NULL && scale_open(rt, rank, processes, s) == LOCO_OK ? s : NULL;
}

/* An object at the neighbour that nobody else changes. */
static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    struct scaled *s = channel;
    int processes = loco_group_size(loco_everyone(rt));
    loco_object_t object = loco_store_root(s->store, (uint64_t)((rank + 1) % processes));
    uint64_t value = 0;
    int status = loco_tx_begin(s->tx);

    (void)round;
    if (status == LOCO_OK)
        status = loco_tx_read(s->tx, object, &value, sizeof value);
    value++;
    if (status == LOCO_OK)
        status = loco_tx_write(s->tx, object, &value, sizeof value);
    return status == LOCO_OK ? loco_tx_commit(s->tx) : status;
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    struct scaled *s = channel;

    (void)rt;
    loco_tx_close(s->tx);
    loco_store_destroy(s->store);
    free(s);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };
/* Everybody takes everybody else for dead at once. */
static const char *const hasty[] = { "LOCO_SPIN=0", "LOCO_TX_PATIENCE=0", NULL };

extern const struct sim_scenario sim_scenario_store, sim_scenario_store_hasty;
const struct sim_scenario sim_scenario_store = {
    .name = "store",
    .about = "transactions on a few objects that are read, changed, made and freed: they are "
             "strictly serializable, and who stops in one leaves nothing half done",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "an update of one object: 2 reads, a write and a compare-and-swap",
};

const struct sim_scenario sim_scenario_store_hasty = {
    .name = "store_hasty",
    .about = "the same where everybody undoes whatever transaction is in the way",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = hasty,
    .begin = begin, .body = body, .end = end, .free = drop,
};

const struct sim_scenario sim_broken_unlogged = {
    .name = "broken_unlogged",
    .about = "wrong: the same without logs, where nobody can put right what one that stops "
             "has left",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin_unlogged, .body = body, .end = end, .free = drop_whole,
};

const struct sim_scenario sim_broken_in_place = {
    .name = "broken_in_place",
    .about = "wrong: the same with values that are overwritten under their cells as locks",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin_in_place, .body = body, .end = end, .free = drop_whole,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* A tree and a hash table of one store, between which transactions move keys: whoever looks at both
 * in a transaction finds each key in one of them, and never in the other. A move adds one to the
 * key's value, so at the end that is how often the key was moved; of a commit that was told of a
 * death it is not known whether it happened. */

#include "config.h"

#include "scenario_util.h"

#include <loco/hash.h>
#include <loco/tree.h>

#define KEYS 12u
#define PROCESSES_MAX 16
#define VALUE_BYTES 160u

struct both_state {
    struct sim_state common;
    bool drawn;
    int host;
    loco_store_options_t options;
    loco_tree_options_t tree;
    loco_hash_options_t hash;
    bool there[KEYS];                   /* a move has returned: from now on it is somewhere */
    uint64_t moved[KEYS], doubtful[KEYS];       /* how often; and how often perhaps, besides */
};

struct user {
    struct sim_run *run;
    struct both_state *s;
    loco_runtime_t *rt;
    loco_store_t *store;
    int rank;
};

struct client {
    struct user *u;
    loco_tx_t *tx;
    loco_tree_t *tree;
    loco_hash_t *hash;
    bool relaxed;                       /* the transaction at hand */
};

/* Beside SIM_FINE and so on. */
enum { CONFLICT = SIM_TOLD + 1 };

/* ---- keys and values ---- */

static loco_bytes_t key_of(uint64_t key, unsigned char bytes[8])
{
    return loco_key64(key * 3, bytes);
}

/* Of three one is long. */
static loco_bytes_t value_of(uint64_t number, unsigned char bytes[VALUE_BYTES])
{
    memset(bytes, (int)number, VALUE_BYTES);
    memcpy(bytes, &number, sizeof number);
    return loco_bytes(bytes, number % 3 == 0 ? VALUE_BYTES : sizeof number);
}

/* ---- statuses ---- */

static bool host_died(const struct user *u)
{
    if (u->run->one_node)
        return false;
    return u->s->host >= 0 ? loci_sim_is_stopped(u->s->host) : sim_any_stopped(u->run);
}

static int told(const struct client *c, int status, const char *call)
{
    if (status == LOCO_OK)
        return SIM_FINE;
    /* What a relaxed one has read need not fit together: then it cannot commit. */
    if (status == LOCO_ERR_CONFLICT
        || (c->relaxed && (status == LOCO_ERR_EXISTS || status == LOCO_ERR_NOT_FOUND)))
        return CONFLICT;
    if (status == LOCO_ERR_PEER_DEAD && c->u->run->faults && host_died(c->u))
        return SIM_TOLD;
    return loci_sim_fail("p%d: %s: %s", c->u->rank, call, loco_strerror(status));
}

/* ---- a transaction ---- */

/* What a key has: 0 in an index where it is not. */
struct found {
    uint64_t tree, hash;
};

static int get_number(struct client *c, int status, const unsigned char *value, uint64_t *number)
{
    *number = 0;
    if (status == LOCO_OK)
        memcpy(number, value, sizeof *number);
    return status == LOCO_ERR_NOT_FOUND ? SIM_FINE : told(c, status, "get");
}

/* In any order. What a relaxed one finds is of one instant only if it commits. */
static int find(struct client *c, uint64_t key, struct found *f)
{
    unsigned char k[8], value[VALUE_BYTES];
    bool tree_first = loci_sim_draw(2) == 0;
    size_t len;

    for (int turn = 0; turn < 2; turn++)
        if (tree_first == (turn == 0))
            PASS(get_number(c, loco_tree_get(c->tree, key_of(key, k), value, sizeof value, &len),
                            value, &f->tree));
        else
            PASS(get_number(c, loco_hash_get(c->hash, key_of(key, k), value, sizeof value, &len),
                            value, &f->hash));
    return SIM_FINE;
}

static int check(const struct client *c, uint64_t key, const struct found *f, bool was_there)
{
    WANT(f->tree == 0 || f->hash == 0, "p%d finds key %llu in both, with %llu and %llu", c->u->rank,
         (unsigned long long)key, (unsigned long long)f->tree, (unsigned long long)f->hash);
    WANT(f->tree != 0 || f->hash != 0 || !was_there, "p%d finds key %llu in neither", c->u->rank,
         (unsigned long long)key);
    return SIM_FINE;
}

static int begin_tx(struct client *c)
{
    c->relaxed = loci_sim_draw(4) == 0;
    return told(c, loco_tx_begin_as(c->tx, c->relaxed ? LOCO_TX_RELAXED : 0), "begin");
}

/* To the other one; a key that is nowhere comes to the tree. */
static int move_in(struct client *c, uint64_t key, const struct found *f)
{
    unsigned char k[8], value[VALUE_BYTES];
    loco_bytes_t is = key_of(key, k), next = value_of(f->tree + f->hash + 1, value);

    if (f->tree != 0) {
        PASS(told(c, loco_tree_delete(c->tree, is), "delete from the tree"));
        return told(c, loco_hash_insert(c->hash, is, next), "insert into the table");
    }
    if (f->hash != 0)
        PASS(told(c, loco_hash_delete(c->hash, is), "delete from the table"));
    return told(c, loco_tree_insert(c->tree, is, next), "insert into the tree");
}

static int try_move(struct client *c, uint64_t key)
{
    struct both_state *s = c->u->s;
    struct found f = { 0 };
    bool was_there = s->there[key];
    int result;

    PASS(begin_tx(c));
    result = find(c, key, &f);
    if (result == SIM_FINE && !c->relaxed)
        PASS(check(c, key, &f, was_there));
    /* Where a relaxed one has found what cannot be, it is not to change anything for that. */
    if (result == SIM_FINE && c->relaxed && f.tree != 0 && f.hash != 0)
        result = CONFLICT;
    if (result == SIM_FINE)
        result = move_in(c, key, &f);
    if (result != SIM_FINE) {
        loco_tx_abort(c->tx);
        return result;
    }
    s->doubtful[key]++;
    result = told(c, loco_tx_commit(c->tx), "commit");
    if (result == SIM_TOLD)
        return result;
    s->doubtful[key]--;
    if (result == SIM_FINE) {
        s->moved[key]++;
        s->there[key] = true;
        PASS(check(c, key, &f, was_there));
    }
    return result;
}

/* ---- looking ---- */

static int look_at_one(struct client *c, uint64_t key)
{
    bool was_there = c->u->s->there[key];
    struct found f = { 0 };
    int result;

    PASS(begin_tx(c));
    result = find(c, key, &f);
    if (result == SIM_FINE)
        result = told(c, loco_tx_commit(c->tx), "commit");
    loco_tx_abort(c->tx);
    return result != SIM_FINE ? result : check(c, key, &f, was_there);
}

struct survey {
    struct client *c;
    struct found found[KEYS];
    bool hashed;
};

static int visit(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct survey *v = ctx;
    unsigned char bytes[8];

    for (uint64_t i = 0; i < KEYS; i++)
        if (key.len == 8 && memcmp(key.data, key_of(i, bytes).data, 8) == 0) {
            memcpy(v->hashed ? &v->found[i].hash : &v->found[i].tree, value.data, 8);
            return 0;
        }
    return loci_sim_fail("p%d scans a key that nobody has inserted", v->c->u->rank);
}

static int look_at_all(struct client *c)
{
    struct survey v = { .c = c };
    bool was_there[KEYS];
    int result, status;

    memcpy(was_there, c->u->s->there, sizeof was_there);
    PASS(begin_tx(c));
    status = loco_tree_scan(c->tree, NULL, NULL, 0, visit, &v);
    v.hashed = true;
    if (status == LOCO_OK)
        status = loco_hash_scan(c->hash, visit, &v);
    result = status > 0 ? SIM_WRONG : told(c, status, "scan");
    if (result == SIM_FINE)
        result = told(c, loco_tx_commit(c->tx), "commit");
    loco_tx_abort(c->tx);
    for (uint64_t i = 0; i < KEYS && result == SIM_FINE; i++)
        result = check(c, i, &v.found[i], was_there[i]);
    return result;
}

/* ---- what threads do ---- */

static int open_all(struct user *u, struct client *c)
{
    *c = (struct client){ .u = u };
    PASS(told(c, loco_tx_open(u->store, &c->tx), "open a handle"));
    PASS(told(c, loco_tree_open(c->tx, loco_store_root(u->store, 1), &u->s->tree, &c->tree),
              "open the tree"));
    return told(c, loco_hash_open(c->tx, loco_store_root(u->store, 2), &u->s->hash, &c->hash),
                "open the table");
}

static void close_all(struct client *c)
{
    loco_hash_close(c->hash);
    loco_tree_close(c->tree);
    loco_tx_close(c->tx);
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;
    struct client c;
    int result = open_all(u, &c);

    (void)thread;
    for (int i = 0; i < u->run->rounds && (result == SIM_FINE || result == CONFLICT); i++) {
        uint64_t key = loci_sim_draw(KEYS);

        switch (loci_sim_draw(5)) {
        case 0: result = look_at_one(&c, key); break;
        case 1: result = look_at_all(&c); break;
        default: result = try_move(&c, key);
        }
    }
    if (result == SIM_WRONG)
        return result;
    close_all(&c);
    return SIM_FINE;
}

/* ---- the end ---- */

/* By one that lives. */
static int look_last(struct user *u)
{
    const struct both_state *s = u->s;
    struct client c;
    int result = open_all(u, &c);

    for (uint64_t key = 0; key < KEYS && result == SIM_FINE; key++) {
        struct found f = { 0 };

        do {
            PASS(begin_tx(&c));
            result = find(&c, key, &f);
            if (result == SIM_FINE)
                result = told(&c, loco_tx_commit(c.tx), "commit");
            loco_tx_abort(c.tx);
        } while (result == CONFLICT);
        if (result != SIM_FINE)
            break;
        PASS(check(&c, key, &f, s->there[key]));
        WANT(f.tree + f.hash >= s->moved[key]
             && f.tree + f.hash <= s->moved[key] + s->doubtful[key],
             "key %llu has been moved %llu times, and %llu perhaps, and its value is %llu",
             (unsigned long long)key, (unsigned long long)s->moved[key],
             (unsigned long long)s->doubtful[key], (unsigned long long)(f.tree + f.hash));
    }
    close_all(&c);
    return result == SIM_WRONG ? result : SIM_FINE;
}

static bool is_first_alive(const struct user *u)
{
    for (int i = 0; i < u->rank; i++)
        if (!loci_sim_is_stopped(i))
            return false;
    return true;
}

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    PASS(sim_threads(u->rt, u->run->threads, thread_main, u));
    if (sim_check(u->run, sim_meet(seat), "meeting") == SIM_WRONG)
        return SIM_WRONG;
    return is_first_alive(u) ? look_last(u) : SIM_FINE;
}

static void choose(struct both_state *s, const struct sim_run *run)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->host = loci_sim_draw(2) == 0 ? -1 : (int)loci_sim_draw((uint32_t)run->processes);
    s->options = (loco_store_options_t){ .bytes = 1 << 20, .objects = 1024, .roots = 3,
                                         .threads = run->threads };
    if (s->host >= 0) {
        s->options.hosts = &s->host;
        s->options.nhosts = 1;
    }
    s->tree = (loco_tree_options_t){ .leaf_bytes = 64 + 16 * loci_sim_draw(4),
                                     .inner_bytes = 64 + 16 * loci_sim_draw(4) };
    s->hash = (loco_hash_options_t){ .leaf_bytes = 64 + 16 * loci_sim_draw(4) };
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct both_state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    choose(s, run);
    TRY(run, loco_store_create(rt, NULL, "store", loco_everyone(rt), &s->options, &u.store));
    result = sim_part(&seat, use(&u, &seat));
    loco_store_destroy(u.store);
    return result;
}

static int begin(struct sim_run *run)
{
    return run->processes > PROCESSES_MAX ? -1 : sim_state_begin(run, sizeof(struct both_state));
}

extern const struct sim_scenario sim_scenario_indexes;
const struct sim_scenario sim_scenario_indexes = {
    .name = "indexes",
    .about = "transactions move keys between a tree and a hash table: each key is in one of them, "
             "and its value is how often it was moved",
    .processes = 3, .threads = 2, .rounds = 6, .processes_min = 1,
    .begin = begin, .body = body, .free = sim_state_free,
};

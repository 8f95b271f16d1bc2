/* SPDX-License-Identifier: BSD-3-Clause */

/* Threads of all processes do all that can be done with the keys of a tree, or of a hash table,
 * whose nodes are so small that they are split and taken out all the time. Each key's history is
 * that of a key in a map, scans included: a scan looks up all keys that it passes. Transactions
 * find twins equal. A process that stops leaves a whole tree.
 *
 * The hashes of a table are whole at times; at others only some of their bits are not zero, so that
 * keys meet, or their leaves differ in bits that the directory has not. */

#include "config.h"

#include "scenario_tree.h"

#include "hash_survey.h"

static void choose_hosts(struct tree_state *s, int processes)
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

#define HASH_PLAIN_MAX 16u

static void choose_hash(struct tree_state *s)
{
    static const uint64_t masks[] = { UINT64_MAX, UINT64_MAX, UINT64_C(3) << 62, UINT64_C(7) << 57,
                                      5, UINT64_C(0x9000000000000003) };

    /* Few, for where their hashes meet a look-up goes along all leaves. */
    s->plain = s->plain < HASH_PLAIN_MAX ? s->plain : HASH_PLAIN_MAX;
    s->hash = (loco_hash_options_t){ .leaf_bytes = s->tree.leaf_bytes, .cached = s->tree.cached };
    s->grows = loci_sim_draw(4) == 0;
    sim_hash_mask(masks[loci_sim_draw(sizeof masks / sizeof masks[0])]);
}

static void choose(struct tree_state *s, const struct sim_run *run)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->plain = 6 + loci_sim_draw(TREE_PLAIN_MAX - 5);
    s->options = (loco_store_options_t){ .bytes = 1 << 20, .objects = 1024, .roots = 2,
                                         .threads = run->threads };
    s->tree = (loco_tree_options_t){ .leaf_bytes = 64 + 16 * loci_sim_draw(6),
                                     .inner_bytes = 64 + 16 * loci_sim_draw(6),
                                     .cached = 1 + loci_sim_draw(3) * 8 };
    choose_hosts(s, run->processes);
    if (s->hashed)
        choose_hash(s);
}

/* ---- what threads do ---- */

static uint64_t some_key(const struct tree_client *c)
{
    return loci_sim_draw((uint32_t)c->u->s->plain);
}

/* Some keys in a row: leaves fill, or become empty. */
static int in_a_row(struct tree_client *c, int (*call)(struct tree_client *, uint64_t))
{
    uint64_t first = some_key(c), n = 2 + loci_sim_draw(4);

    for (uint64_t key = first; key < first + n && key < c->u->s->plain; key++)
        PASS(call(c, key));
    return SIM_FINE;
}

/* A queue: the upper levels come and go, too. */
static int queue(struct tree_client *c)
{
    uint64_t n = c->u->s->plain;

    for (uint64_t key = n / 2; key < n; key++)
        PASS(tree_insert(c, key));
    for (uint64_t key = n / 3; key < n; key++)
        PASS(tree_delete(c, key));
    return SIM_FINE;
}

static int some_scan(struct tree_client *c)
{
    uint64_t keys = tree_keys(c->u->s), from = loci_sim_draw((uint32_t)keys), to;

    if (c->u->s->hashed || loci_sim_draw(2) == 0)
        return tree_scan(c, 0, keys, 0);
    /* Not within the call: compilers differ in which argument is drawn first. */
    to = from + loci_sim_draw((uint32_t)(keys - from + 1));
    return tree_scan(c, from, to, loci_sim_draw(3) == 0 ? 1 + loci_sim_draw(4) : 0);
}

static int one_call(struct tree_client *c)
{
    switch (loci_sim_draw(23)) {
    case 0: case 1: return tree_insert(c, some_key(c));
    case 2: case 3: return tree_put(c, some_key(c));
    case 4: return tree_update(c, some_key(c));
    case 5: case 6: return tree_delete(c, some_key(c));
    case 7: return tree_compare_set(c, some_key(c));
    case 8: case 9: return tree_get(c, some_key(c));
    case 10: case 11: case 12: return in_a_row(c, loci_sim_draw(2) == 0 ? tree_insert : tree_put);
    case 13: case 14: return in_a_row(c, tree_delete);
    case 15: case 16: return some_scan(c);
    case 17: return tree_tx_look(c);
    case 18: return tree_tx_many(c);
    case 19: return tree_get_many(c);
    case 20: return tree_put_many(c);
    case 21: return loci_sim_draw(2) == 0 ? queue(c) : tree_get(c, some_key(c));
    default: return tree_tx_twins(c);
    }
}

static int thread_main(void *arg, int thread)
{
    struct tree_user *u = arg;
    struct tree_client c;
    int result;

    PASS(tree_open(u, thread, &c));
    u->s->opened = true;
    result = loci_sim_draw(2) == 0 ? in_a_row(&c, tree_insert) : SIM_FINE;
    for (int i = 0; i < u->run->rounds && result == SIM_FINE; i++)
        result = one_call(&c);
    if (result != SIM_WRONG)
        tree_close(&c);
    return result;
}

/* ---- the body ---- */

static bool is_first_alive(const struct tree_user *u)
{
    for (int i = 0; i < u->rank; i++)
        if (u->s->ready[i] && !loci_sim_is_stopped(i))
            return false;
    return true;
}

static int use(struct tree_user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    u->s->ready[u->rank] = true;
    PASS(sim_threads(u->rt, u->run->threads, thread_main, u));
    if (sim_check(u->run, sim_meet(seat), "meeting") == SIM_WRONG)
        return SIM_WRONG;
    return is_first_alive(u) && u->s->opened ? tree_end(u) : SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct tree_state *s = run->state;
    struct tree_user u = { .run = run, .s = s, .rt = rt, .rank = rank };
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
    if (run->processes > TREE_PROCESSES_MAX || run->threads > TREE_THREADS_MAX
        || sim_state_begin(run, sizeof(struct tree_state)) != 0)
        return -1;
    loci_history_init(&((struct tree_state *)run->state)->history, loci_linear_forms(LINEAR_MAP));
    return 0;
}

static int begin_hash(struct sim_run *run)
{
    int status = begin(run);

    if (status == 0)
        ((struct tree_state *)run->state)->hashed = true;
    return status;
}

static int end(struct sim_run *run)
{
    return sim_check_history(&((struct tree_state *)run->state)->history, LINEAR_MAP);
}

static void drop(struct sim_run *run)
{
    struct tree_state *s = run->state;

    if (s != NULL)
        loci_history_fini(&s->history);
    sim_state_free(run);
}

/* ---- for `scale` ---- */

struct tree_scale {
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
};

static void scale_done(loco_runtime_t *rt, void *channel)
{
    struct tree_scale *t = channel;

    (void)rt;
    loco_tree_close(t->tree);
    loco_tx_close(t->tx);
    loco_store_destroy(t->store);
    free(t);
}

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    const loco_store_options_t options = { .bytes = 1 << 16, .nhosts = 1, .hosts = (int[]){ 0 },
                                           .roots = 1, .threads = 1 };
    struct tree_scale *t = calloc(1, sizeof *t);
    unsigned char bytes[8];

    (void)processes;
    if (t != NULL && loco_store_create(rt, NULL, "store", loco_everyone(rt), &options, &t->store)
        == LOCO_OK && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK
        && loco_tx_open(t->store, &t->tx) == LOCO_OK
        && loco_tree_open(t->tx, loco_store_root(t->store, 0), NULL, &t->tree) == LOCO_OK
        && loco_tree_put(t->tree, loco_key64((uint64_t)rank, bytes), loco_text("value"))
           == LOCO_OK)
        return t;
    if (t != NULL)
        scale_done(rt, t);
    return NULL;
}

/* The neighbour's value. */
static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    struct tree_scale *t = channel;
    unsigned char bytes[8], value[8];
    size_t len;
    int status = loco_tree_get(t->tree, loco_key64((uint64_t)rank ^ 1, bytes), value, sizeof value,
                               &len);

    (void)rt;
    (void)round;
    return status == LOCO_ERR_NOT_FOUND ? LOCO_OK : status;
}

extern const struct sim_scenario sim_scenario_tree;
const struct sim_scenario sim_scenario_tree = {
    .name = "tree",
    .about = "changes, lookups, scans and transactions of keys in a tree of very small nodes: each "
             "key is linearizable, twins are equal, the tree is whole",
    .processes = 3, .threads = 2, .rounds = 6, .processes_min = 1,
    .begin = begin, .body = body, .end = end, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "2 reads per process",
};

extern const struct sim_scenario sim_scenario_hash;
const struct sim_scenario sim_scenario_hash = {
    .name = "hash",
    .about = "changes, lookups, scans and transactions of keys in a hash table of very small "
             "leaves: each key is linearizable, twins are equal, leaves and directory are whole",
    .processes = 3, .threads = 2, .rounds = 5, .processes_min = 1,
    .begin = begin_hash, .body = body, .end = end, .free = drop,
};

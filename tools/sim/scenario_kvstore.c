/* SPDX-License-Identifier: BSD-3-Clause */

/* Threads of all processes do all that can be done with a few keys of a store that is so small that
 * its places are used again soon; each key's history is that of a key in a map. */

#include "config.h"

#include "scenario_util.h"

#include <loco/kvstore.h>

#include "kv_keeper.h"
#include "linear.h"

#define KEYS_MAX 4
#define WORDS_MAX 4             /* of a value */

struct state {
    struct sim_state common;
    bool drawn;
    bool reuse;                 /* one place is used again and again, and looked at meanwhile */
    loco_kvstore_options_t options;
    uint64_t keys;
    struct loci_history history;
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_kvstore_t *kv;
    int rank;
};

struct client {
    struct user *u;
    int name;                   /* in the history */
    uint64_t made;              /* values so far */
    uint64_t seen[KEYS_MAX];    /* that a key had when it was looked at last */
    loco_kvstore_window_t *window;
};

static void choose(struct state *s, bool torn_words)
{
    if (s->drawn)
        return;
    s->drawn = true;
    s->options = (loco_kvstore_options_t){
        .value_bytes = loci_sim_draw(2) == 0 && !torn_words ? 8 : 8 * WORDS_MAX - 4,
        .capacity = 1 + loci_sim_draw(2), .locks = 1 + (int)loci_sim_draw(3),
        .tracker_bytes = 4096,
    };
    s->keys = 2 + loci_sim_draw(KEYS_MAX - 1);
    s->reuse = loci_sim_draw(4) == 0;
    if (s->reuse) {
        s->options.capacity = 1;
        s->keys = 2;
    }
}

/* ---- values: one number, as often as it goes in ---- */

struct value {
    uint64_t word[WORDS_MAX];
};

static struct value value_of(uint64_t number)
{
    struct value value;

    for (int i = 0; i < WORDS_MAX; i++)
        value.word[i] = number;
    return value;
}

/* Half a number in the last word of the larger ones. */
static int number_of(const struct user *u, const struct value *value, uint64_t *number)
{
    struct value whole = value_of(value->word[0]);

    *number = value->word[0];
    WANT(memcmp(value, &whole, u->s->options.value_bytes) == 0,
         "p%d reads a torn value: %llu, %llu, %llu", u->rank, (unsigned long long)value->word[0],
         (unsigned long long)value->word[1], (unsigned long long)value->word[2]);
    return SIM_FINE;
}

/* ---- calls, as the history has them ---- */

static int called(const struct client *c, int op, uint64_t key, uint64_t arg, uint64_t arg2)
{
    return loci_history_call(&c->u->s->history, c->name, op, key, arg, arg2);
}

/* It has no effect, and nobody was told anything: as a lookup that never returned. */
static void forget(const struct client *c, int at)
{
    c->u->s->history.ops[at].op = LINEAR_LOOKUP;
}

/* Its keeper may be another one than when the call began. */
static bool inserted_since(const struct loci_history *h, const struct loci_op *call)
{
    for (size_t i = 0; i < h->nops; i++)
        if (h->ops[i].op == LINEAR_INSERT && h->ops[i].key == call->key
            && (h->ops[i].ret == LOCI_NEVER
                || (h->ops[i].ret > call->call && h->ops[i].status != 0)))
            return true;
    return false;
}

/* That a call needs the dead is no end; but a value of one's own can be read. */
static int told_of_death(const struct client *c, const struct loci_op *call, const char *name)
{
    const struct user *u = c->u;
    const uint64_t key = call->key;
    int told = sim_check(u->run, LOCO_ERR_PEER_DEAD, name), keeper;

    if (told != SIM_TOLD)
        return told;
    keeper = sim_kv_keeper(u->kv, key);
    /* Larger ones may have been left torn; and over a lane any, for the sum is a second word. */
    WANT(call->op != LINEAR_LOOKUP || u->s->options.value_bytes > 8 || keeper != u->rank
         || inserted_since(&u->s->history, call),
         "p%d cannot read key %llu, which it keeps itself, for a death", u->rank,
         (unsigned long long)key);
    return SIM_FINE;
}

/* What a call that says yes or no came to. */
static int returned(struct client *c, int at, int status, int no, uint64_t result,
                    const char *name)
{
    struct loci_history *h = &c->u->s->history;

    if (status == LOCO_ERR_PEER_DEAD)
        return told_of_death(c, &h->ops[at], name);
    if (status == no)
        loci_history_return(h, at, false, 0);
    else if (status == LOCO_ERR_FULL && h->ops[at].op == LINEAR_INSERT)
        forget(c, at);
    else if (status == LOCO_OK)
        loci_history_return(h, at, true, result);
    else
        return sim_check(c->u->run, status, name);
    return SIM_FINE;
}

static uint64_t new_number(struct client *c)
{
    return (uint64_t)(c->name + 1) << 8 | ++c->made;
}

static int insert(struct client *c, uint64_t key)
{
    uint64_t number = new_number(c);
    struct value value = value_of(number);
    int at = called(c, LINEAR_INSERT, key, number, 0);
    int status = loco_kvstore_insert(c->u->kv, key, &value, c->u->s->options.value_bytes);

    return returned(c, at, status, LOCO_ERR_EXISTS, 0, "insert");
}

/* Two keys at once: two calls that begin and end together. */
static int insert_two(struct client *c, uint64_t key)
{
    uint64_t keys[2] = { key, (key + 1) % c->u->s->keys };
    size_t len = c->u->s->options.value_bytes;
    unsigned char values[2 * sizeof(struct value)];
    int at[2], status[2], all;

    for (int i = 0; i < 2; i++) {
        uint64_t number = new_number(c);
        struct value value = value_of(number);

        memcpy(values + (size_t)i * len, &value, len);
        at[i] = called(c, LINEAR_INSERT, keys[i], number, 0);
    }
    all = loco_kvstore_insert_many(c->u->kv, 2, keys, values, len, status);
    for (int i = 0; i < 2; i++)
        PASS(returned(c, at[i], status[i], LOCO_ERR_EXISTS, 0, "insert_many"));
    WANT(all == LOCO_OK || all == status[0] || all == status[1], "insert_many returns %d", all);
    return SIM_FINE;
}

static int update(struct client *c, uint64_t key)
{
    uint64_t number = new_number(c);
    struct value value = value_of(number);
    int at = called(c, LINEAR_UPDATE, key, number, 0);
    int status = loco_kvstore_update(c->u->kv, key, &value, c->u->s->options.value_bytes);

    return returned(c, at, status, LOCO_ERR_NOT_FOUND, 0, "update");
}

static int erase(struct client *c, uint64_t key)
{
    int at = called(c, LINEAR_DELETE, key, 0, 0);

    return returned(c, at, loco_kvstore_delete(c->u->kv, key), LOCO_ERR_NOT_FOUND, 0, "delete");
}

static int compare_set(struct client *c, uint64_t key)
{
    uint64_t number = new_number(c), found = 0;
    struct value expected = value_of(c->seen[key]), desired = value_of(number), was;
    int at = called(c, LINEAR_COMPARE_SET, key, c->seen[key], number);
    int status = loco_kvstore_compare_set(c->u->kv, key, &expected, &desired,
                                          c->u->s->options.value_bytes, &was);

    if (status == LOCO_OK || status == LOCO_ERR_DIFFERS)
        PASS(number_of(c->u, &was, &found));
    if (status == LOCO_ERR_DIFFERS) {
        WANT(found != c->seen[key], "compare_set says that %llu differs from itself",
             (unsigned long long)found);
        loci_history_return(&c->u->s->history, at, false, found);
        return SIM_FINE;
    }
    return returned(c, at, status, LOCO_ERR_NOT_FOUND, 0, "compare_set");
}

static int looked_up(struct client *c, int at, int status, const struct value *value,
                     const char *name)
{
    uint64_t number = 0;

    if (status == LOCO_OK) {
        PASS(number_of(c->u, value, &number));
        c->seen[c->u->s->history.ops[at].key] = number;
    }
    return returned(c, at, status, LOCO_ERR_NOT_FOUND, number, name);
}

static int get(struct client *c, uint64_t key)
{
    int at = called(c, LINEAR_LOOKUP, key, 0, 0), status;
    struct value value;

    status = loco_kvstore_get(c->u->kv, key, &value, c->u->s->options.value_bytes);
    return looked_up(c, at, status, &value, "get");
}

/* All keys, by one call or a window: as many lookups that begin and end together. */
static int get_all(struct client *c, bool by_window)
{
    uint64_t n = c->u->s->keys, keys[KEYS_MAX];
    size_t len = c->u->s->options.value_bytes;
    unsigned char values[KEYS_MAX * sizeof(struct value)];
    int at[KEYS_MAX], status[KEYS_MAX];
    struct value value;

    for (uint64_t i = 0; i < n; i++) {
        keys[i] = i;
        at[i] = called(c, LINEAR_LOOKUP, i, 0, 0);
    }
    for (uint64_t i = 0; i < n && by_window; i++)
        TRY(c->u->run, loco_kvstore_get_ack(c->window, i, values + i * len, len, &status[i]));
    if (by_window)
        TRY(c->u->run, loco_kvstore_window_wait(c->window));
    else
        loco_kvstore_get_many(c->u->kv, n, keys, values, len, status);
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&value, values + i * len, len);
        PASS(looked_up(c, at[i], status[i], &value, "many gets"));
    }
    return SIM_FINE;
}

static int one_call(struct client *c)
{
    uint64_t key = loci_sim_draw((uint32_t)c->u->s->keys);

    switch (loci_sim_draw(16)) {
    case 0: case 1: case 2: return insert(c, key);
    case 3: return insert_two(c, key);
    case 4: case 5: return update(c, key);
    case 6: case 7: case 8: return erase(c, key);
    case 9: return compare_set(c, key);
    case 10: return get_all(c, false);
    case 11: return get_all(c, true);
    default: return get(c, key);
    }
}

/* Two keys by turns in one place, by one thread; the others look. */
static int one_of_reuse(struct client *c, bool writes, int i)
{
    uint64_t key = (uint64_t)i % 2;

    if (!writes)
        return get(c, loci_sim_draw(2));
    PASS(insert(c, key));
    return erase(c, key);
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;
    struct client c = { .u = u, .name = loci_history_client(u->rank, thread) };
    int result = SIM_FINE;

    TRY(u->run, loco_kvstore_window_open(u->kv, 2, &c.window));
    for (int i = 0; i < u->run->rounds && result == SIM_FINE; i++)
        result = u->s->reuse ? one_of_reuse(&c, u->rank == 0 && thread == 0, i) : one_call(&c);
    if (result != SIM_WRONG)
        loco_kvstore_window_close(c.window);
    return result;
}

/* ---- the body ---- */

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    TRY(u->run, sim_meet(seat));
    return sim_threads(u->rt, u->run->threads, thread_main, u);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    choose(s, run->torn_words);
    TRY(run, loco_kvstore_create(rt, NULL, "kv", loco_everyone(rt), &s->options, &u.kv));
    result = sim_part(&seat, use(&u, &seat));
    loco_kvstore_destroy(u.kv);
    return result;
}

static int begin(struct sim_run *run)
{
    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    loci_history_init(&((struct state *)run->state)->history, loci_linear_forms(LINEAR_MAP));
    return 0;
}

static int end(struct sim_run *run)
{
    return sim_check_history(&((struct state *)run->state)->history, LINEAR_MAP);
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL)
        loci_history_fini(&s->history);
    sim_state_free(run);
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    const loco_kvstore_options_t options = { .value_bytes = 8, .capacity = 64,
                                             .tracker_bytes = 4096 };
    uint64_t key = (uint64_t)rank;
    loco_kvstore_t *kv;

    (void)processes;
    return loco_kvstore_create(rt, NULL, "kv", loco_everyone(rt), &options, &kv) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK
           && loco_kvstore_insert(kv, key, &key, sizeof key) == LOCO_OK ? kv : NULL;
}

/* The neighbour's value. */
static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    uint64_t key = (uint64_t)rank ^ 1, value;
    int status = loco_kvstore_get(channel, key, &value, sizeof value);

    (void)rt;
    (void)round;
    return status == LOCO_ERR_NOT_FOUND ? LOCO_OK : status;
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_kvstore_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_HANDOVERS=1", NULL };

extern const struct sim_scenario sim_scenario_kvstore;
const struct sim_scenario sim_scenario_kvstore = {
    .name = "kvstore",
    .about = "inserts, updates, deletes, compare_set and lookups, alone and many at once, of a few "
             "keys: each key is linearizable",
    .processes = 3, .threads = 2, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "1 read per process",
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* One of the processes: it inserts, changes and deletes its keys, which lie between those of the
 * others, until the parent says that it is enough. The first of those that live looks at all keys
 * and at all nodes. */

#include "trees.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "tree_survey.h"

#define LONG_VALUE 200u                 /* bytes: it is in an object of its own */

struct client {
    struct wood *wood;
    struct wood_member *me;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
    int rank, hosts, schedstat;
    uint64_t random, made;
};

/* ---- changes ---- */

static loco_bytes_t key_of(int rank, unsigned i, unsigned char bytes[8])
{
    return loco_key64((uint64_t)i * WOOD_PROCESSES + (uint64_t)rank, bytes);
}

static loco_bytes_t value_of(uint64_t number, unsigned char bytes[LONG_VALUE])
{
    memset(bytes, 0, LONG_VALUE);
    memcpy(bytes, &number, sizeof number);
    return loco_bytes(bytes, number % 8 == 0 ? LONG_VALUE : sizeof number);
}

/* From none to some value, from that to another or to none. */
static int change(struct client *c, unsigned i)
{
    unsigned char bytes[8], value[LONG_VALUE];
    struct wood_key *k = &c->me->key[i];
    loco_bytes_t key = key_of(c->rank, i, bytes);
    uint64_t is = atomic_load(&k->is), next = ++c->made;

    if (is != 0 && run_random(&c->random) % 3 != 0)
        next = 0;
    atomic_store(&k->next, next);
    atomic_store(&k->under_way, true);
    if (next == 0)
        CHECK_OK(loco_tree_delete(c->tree, key));
    else if (is == 0)
        CHECK_OK(loco_tree_insert(c->tree, key, value_of(next, value)));
    else
        CHECK_OK(loco_tree_update(c->tree, key, value_of(next, value)));
    atomic_store(&k->is, next);
    atomic_store(&k->under_way, false);
    return 0;
}

/* Here and there, or some in a row, so that leaves become empty, too. */
static int some_changes(struct client *c)
{
    unsigned first = (unsigned)(run_random(&c->random) % WOOD_KEYS);
    unsigned n = run_random(&c->random) % 4 == 0 ? 20 : 1;

    for (unsigned i = first; i < first + n && i < WOOD_KEYS; i++)
        CHECK_EQ(change(c, i), 0);
    return 0;
}

/* What this thread has waited for a CPU, as the kernel says; 0: it does not. */
static int64_t queued(const struct client *c)
{
    long long wait = 0;
    char text[64];
    ssize_t n = c->schedstat < 0 ? -1 : pread(c->schedstat, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*d %lld", &wait) == 1 ? wait : 0;
}

struct stamp {
    int64_t now, queued;
};

static void note_pause(struct client *c, struct stamp *last)
{
    struct stamp here = { run_now(), queued(c) };
    int64_t moment = atomic_load(&c->wood->moment), took = here.now - last->now;
    struct wood_pause *p = &c->me->pause[moment != 0 && here.now > moment];

    p->longest = took > p->longest ? took : p->longest;
    took -= here.queued - last->queued;
    p->awake = took > p->awake ? took : p->awake;
    *last = here;
}

static int work(struct client *c)
{
    struct stamp last;
    int64_t until;

    c->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(run_await(&c->wood->go, 1), 0);
    last = (struct stamp){ run_now(), queued(c) };
    do {
        CHECK_EQ(some_changes(c), 0);
        c->me->calls++;
        note_pause(c, &last);
        until = atomic_load(&c->wood->until);
    } while (until == 0 || last.now < until);
    close(c->schedstat);
    return 0;
}

/* ---- what is left ---- */

static int look_at_key(struct client *c, int rank, unsigned i)
{
    struct wood *w = c->wood;
    struct wood_key *k = &w->member[rank].key[i];
    unsigned char bytes[8], value[LONG_VALUE];
    uint64_t number = 0, is = atomic_load(&k->is), next = atomic_load(&k->next);
    bool in_doubt = rank == w->victim && atomic_load(&k->under_way);
    size_t len;
    int status = loco_tree_get(c->tree, key_of(rank, i, bytes), value, sizeof value, &len);

    if (status != LOCO_ERR_NOT_FOUND) {
        CHECK_OK(status);
        memcpy(&number, value, sizeof number);
        CHECK_EQ(len, number % 8 == 0 ? LONG_VALUE : sizeof number);
    }
    CHECK(number == is || (in_doubt && number == next));
    if (in_doubt)
        w->in_doubt = number == is ? 1 : 2;
    w->found += number != 0;
    return 0;
}

static int count(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    (void)key;
    (void)value;
    ++*(uint64_t *)ctx;
    return 0;
}

/* Keys, nodes, and that there are no objects but those of the tree. */
static int look(struct client *c)
{
    loco_store_scavenged_t found = { 0 };
    char why[SIM_TREE_WHY];
    uint64_t n = 0;

    for (int rank = 0; rank < WOOD_PROCESSES; rank++)
        for (unsigned i = 0; i < WOOD_KEYS; i++)
            CHECK_EQ(look_at_key(c, rank, i), 0);
    CHECK_OK(loco_tree_scan(c->tree, NULL, NULL, 0, count, &n));
    CHECK_EQ(n, c->wood->found);
    CHECK_OK(loco_store_scavenge(c->store, &found));
    CHECK_OK(sim_tree_survey(c->tree, &c->wood->objects, why));
    if (why[0] != '\0')
        fprintf(stderr, "the tree is not whole: %s\n", why);
    CHECK(why[0] == '\0');
    CHECK_EQ(found.objects, c->wood->objects);
    return 0;
}

/* All others have ended what they do. */
static int look_in_turn(struct client *c)
{
    struct wood *w = c->wood;
    int64_t start = run_now();

    while (loco_group_alive(loco_everyone(c->rt), w->victim) == LOCO_OK) {
        CHECK(!run_too_long(start, RUN_PATIENCE));
        usleep(100);
    }
    atomic_fetch_add(&w->ended, 1);
    CHECK_EQ(run_await(&w->ended, WOOD_PROCESSES - 1), 0);
    if (c->rank == (w->victim == 0 ? 1 : 0)) {
        CHECK_EQ(look(c), 0);
        atomic_store(&w->looked, 1);
    }
    return run_await(&w->looked, 1);
}

/* ---- the process ---- */

static int open_tree(struct client *c, const struct loco_bootstrap *boot)
{
    static const int hosts[WOOD_PROCESSES] = { 0, 1, 2 };
    const loco_store_options_t options = { .bytes = 1 << 20, .objects = 4096, .roots = 1,
                                           .hosts = hosts, .nhosts = c->hosts };
    const loco_tree_options_t small = { .leaf_bytes = 128, .inner_bytes = 256 };
    struct loco_bootstrap mine = *boot;

    mine.log = mine.log == NULL ? run_log : mine.log;
    run_on_node(c->rank);
    CHECK_OK(loco_runtime_open(&mine, &c->rt));
    CHECK_OK(loco_store_create(c->rt, NULL, "wood", loco_everyone(c->rt), &options, &c->store));
    CHECK_OK(loco_runtime_wait_ready(c->rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(c->store, &c->tx));
    CHECK_OK(loco_tree_open(c->tx, loco_store_root(c->store, 0), &small, &c->tree));
    return 0;
}

int wood_member(const struct loco_bootstrap *boot, void *arg)
{
    struct wood *w = arg;
    int rank = boot->exchange.rank;
    struct client c = { .wood = w, .me = &w->member[rank], .rank = rank,
                        .hosts = run_shares() ? WOOD_PROCESSES : WOOD_PROCESSES - 1,
                        .random = (w->seed + (uint64_t)rank * 1000003) | 1 };

    CHECK_EQ(open_tree(&c, boot), 0);
    CHECK_OK(run_meet(c.rt));
    atomic_fetch_add(&w->ready, 1);
    CHECK_EQ(work(&c), 0);
    CHECK_EQ(look_in_turn(&c), 0);
    loco_tree_close(c.tree);
    loco_tx_close(c.tx);
    loco_store_destroy(c.store);
    loco_runtime_close(c.rt);
    return 0;
}

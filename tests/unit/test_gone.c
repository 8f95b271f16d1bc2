/* SPDX-License-Identifier: BSD-3-Clause */

/* What is kept of processes that have gone: places in the table of peers. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"
#include "runtime.h"
#include "service.h"
#include "shm_world.h"

static int in_table(struct loco_runtime *rt)
{
    int n = 0;

    pthread_mutex_lock(&rt->peers_lock);
    for (int i = 0; i < atomic_load(&rt->peer_count); i++)
        n += rt->peers[i]->in_table;
    pthread_mutex_unlock(&rt->peers_lock);
    return n;
}

/* Whether so many are left, in time. */
static bool are_left(struct loco_runtime *rt, int n)
{
    int64_t begin = run_now();

    while (in_table(rt) != n && run_now() - begin < run_limit(RUN_PATIENCE))
        usleep(1000);
    return in_table(rt) == n;
}

/* ---- addresses of nobody ---- */

static int gather_one(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static loco_runtime_t *open_alone(void)
{
    const struct loco_bootstrap boot = {
        .identity = 42, .exchange = { .rank = 0, .size = 1, .allgather = gather_one },
    };
    loco_runtime_t *rt = NULL;

    cr_assert_eq(loco_runtime_open(&boot, &rt), LOCO_OK);
    return rt;
}

/* Of another machine: no fabric reaches it. */
static struct loci_address stranger(const struct loco_runtime *rt, uint64_t identity)
{
    struct loci_address a = rt->address;

    a.identity = identity;
    a.label = identity * 3;
    a.node++;
    a.kernel++;
    memset(a.link, 0, sizeof a.link);
    return a;
}

/* The table is full of what the service thread is about to forget: a moment later it is not. */
static int meet_patiently(struct loco_runtime *rt, uint64_t identity, int *index)
{
    struct loci_address a = stranger(rt, identity);
    int status, tries = 0;

    while ((status = loci_peer_meet(rt, &a, index)) == LOCO_ERR_NO_MEMORY && tries++ < 5000)
        usleep(1000);
    return status;
}

Test(gone, more_processes_are_met_than_there_are_places, .timeout = 60)
{
    loco_runtime_t *rt = open_alone();
    int index, kept;

    cr_assert_eq(meet_patiently(rt, 1000, &kept), LOCO_OK);
    for (uint64_t i = 1; i <= 3 * LOCI_MAX_PEERS / 2; i++) {
        cr_assert_eq(meet_patiently(rt, 1000 + i, &index), LOCO_OK);
        cr_assert_neq(index, kept);
        loci_peers_let_go(rt, &index, 1);
    }
    cr_expect_eq(loci_peer(rt, kept)->address.identity, 1000);
    cr_expect_eq(loci_peer_find(rt, 1000), kept);
    cr_expect(are_left(rt, 2));
    loco_runtime_close(rt);
}

/* Whoever is held is found, and nobody else, whatever has left the table in between. */
Test(gone, the_held_are_found_by_their_identity, .timeout = 60)
{
    enum { MANY = LOCI_MAX_PEERS * 2 / 3, STEPS = 200000 };     /* so many meet in the hash */
    loco_runtime_t *rt = open_alone();
    static int place[MANY];
    int held = 0;
    unsigned seed = 5;

    memset(place, -1, sizeof place);
    for (int step = 0; step < STEPS; step++) {
        int at = rand_r(&seed) % MANY;

        if (place[at] < 0) {
            cr_assert_eq(meet_patiently(rt, 1000 + (uint64_t)at, &place[at]), LOCO_OK);
            held++;
        } else {
            loci_peers_let_go(rt, &place[at], 1);
            place[at] = -1;
            held--;
        }
        if (step % 40000 != 39999)
            continue;
        cr_assert(are_left(rt, 1 + held));
        for (int i = 0; i < MANY; i++)
            cr_assert_eq(loci_peer_find(rt, 1000 + (uint64_t)i), place[i]);
    }
    loco_runtime_close(rt);
}

/* A group outlives its runtime; and a place is held as often as it is in groups. */
Test(gone, groups_hold_places)
{
    loco_runtime_t *rt = open_alone();
    loco_group_t *one, *two, *half;
    int index, twice[2];

    cr_assert_eq(meet_patiently(rt, 7, &index), LOCO_OK);
    twice[0] = LOCI_SELF;
    twice[1] = index;
    cr_assert_eq(loci_group_of(rt, 2, twice, &one), LOCO_OK);
    cr_assert_eq(loci_group_of(rt, 2, twice, &two), LOCO_OK);
    loci_peers_let_go(rt, &index, 1);
    cr_assert_eq(loco_group_subset(one, 1, (const int[]){ 1 }, &half), LOCO_OK);
    loco_group_destroy(one);
    loco_group_destroy(two);
    usleep(50000);
    cr_expect_eq(in_table(rt), 2);
    loco_group_destroy(half);
    cr_expect(are_left(rt, 1));
    cr_assert_eq(loci_group_of(rt, 1, twice, &one), LOCO_OK);
    loco_runtime_close(rt);
    loco_group_destroy(one);
}

/* Another thread mends a lane to it: what that works on is not given back under its hands. */
Test(gone, a_lane_that_is_mended_is_not_retired)
{
    loco_runtime_t *rt = open_alone();
    struct loci_thread *self = loci_self(rt);
    struct loci_lane *lane;
    int index, status;

    cr_assert_eq(meet_patiently(rt, 7, &index), LOCO_OK);
    lane = loci_lane(self, index, &status);
    cr_assert_not_null(lane);
    atomic_store(&lane->mending, true);
    loci_peers_let_go(rt, &index, 1);
    usleep(50000);
    cr_expect_eq(in_table(rt), 2);
    cr_expect_eq(atomic_load(&self->lanes[index]), lane);
    atomic_store(&lane->mending, false);
    loci_service_tidy(rt);
    cr_expect(are_left(rt, 1));
    cr_expect_null(atomic_load(&self->lanes[index]));
    cr_expect_not(atomic_load(&lane->mending));
    loco_runtime_close(rt);
}

/* ---- processes ---- */

enum { LIVES = 60, KEPT = 3 };

static int meet(const struct loco_bootstrap *boot)
{
    unsigned char nothing[1];

    return boot->exchange.allgather(boot->exchange.ctx, NULL, 0, nothing);
}

struct kept {
    loco_group_t *group;
    uint64_t label[2];
};

static int live(loco_runtime_t *rt, const struct loco_bootstrap *boot, int life,
                struct kept *kept)
{
    loco_region_t *region;
    loco_group_t *group;
    uint64_t word = 0;

    NEED(loco_group_meet(rt, &boot->exchange, &group) == LOCO_OK);
    NEED(loco_region_create(rt, NULL, "again", group, 4096, &region) == LOCO_OK);
    NEED(loco_runtime_wait_ready(rt, RUN_PATIENCE) == LOCO_OK);
    for (int i = 0; i < group->size; i++)
        NEED(loco_region_write64(region, i, 8 * (uint64_t)group->rank, (uint64_t)life)
             == LOCO_OK);
    NEED(meet(boot) == LOCO_OK);
    for (int i = 0; i < group->size; i++)
        NEED(loco_region_read64(region, group->rank, 8 * (uint64_t)i, &word) == LOCO_OK
             && word == (uint64_t)life);
    loco_region_destroy(region);
    if (life != KEPT || group->rank != 0) {
        loco_group_destroy(group);
        return 0;
    }
    kept->group = group;
    for (int i = 0; i < 2; i++)
        kept->label[i] = loci_peer(rt, group->peer[1 + i])->address.label;
    return 0;
}

/* In the places of a group that is there still, nobody else comes. */
static int look_at_kept(loco_runtime_t *rt, const struct kept *kept)
{
    for (int i = 0; kept->group != NULL && i < 2; i++) {
        for (int t = 0; t < 5000 && loco_group_alive(kept->group, 1 + i) == LOCO_OK; t++)
            usleep(1000);
        NEED(loco_group_alive(kept->group, 1 + i) == LOCO_ERR_PEER_DEAD);
        NEED(loci_peer(rt, kept->group->peer[1 + i])->address.label == kept->label[i]);
    }
    return 0;
}

/* Member 0 stays; the others close their runtimes and come again, as others. */
static int comes_and_goes(const struct loco_bootstrap *boot, void *arg)
{
    struct loco_bootstrap alone = *boot;
    struct kept kept = { .group = NULL };
    loco_runtime_t *rt = NULL;

    (void)arg;
    alone.exchange.size = 1;
    alone.exchange.rank = 0;
    for (int life = 0; life < LIVES; life++) {
        if (rt == NULL)
            NEED(loco_runtime_open(&alone, &rt) == LOCO_OK);
        NEED(live(rt, boot, life, &kept) == 0);
        if (boot->exchange.rank != 0) {
            loco_runtime_close(rt);
            rt = NULL;
        } else {
            NEED(are_left(rt, life < KEPT ? 1 : 3));
            NEED(look_at_kept(rt, &kept) == 0);
        }
        NEED(meet(boot) == LOCO_OK);
    }
    if (rt != NULL) {
        NEED(atomic_load(&rt->peer_count) <= 5);
        loco_group_destroy(kept.group);
        NEED(are_left(rt, 1));
    }
    loco_runtime_close(rt);
    NEED(LEAKS() == 0);
    return 0;
}

Test(gone, places_of_the_gone_are_the_next_ones, .timeout = 120)
{
    run(3, comes_and_goes, &plain);
}

/* Whether the fabric has something for it. The service thread takes it back under the lock. */
static bool is_mapped(struct loco_runtime *rt, int peer)
{
    bool mapped;

    pthread_mutex_lock(&rt->peers_lock);
    mapped = loci_peer(rt, peer)->fabric_data != NULL;
    pthread_mutex_unlock(&rt->peers_lock);
    return mapped;
}

/* Its runtime has gone, a region of then is still used: what is mapped stays, and comes back. */
static int is_used_by_region(const struct loco_bootstrap *boot, void *arg)
{
    loco_region_t *region;
    loco_runtime_t *rt;
    uint64_t word;
    int mine;

    (void)arg;
    NEED(loco_runtime_open(boot, &rt) == LOCO_OK);
    NEED(loco_region_create(rt, NULL, "used", loco_everyone(rt), 40 << 20, &region) == LOCO_OK);
    NEED(loco_runtime_wait_ready(rt, RUN_PATIENCE) == LOCO_OK);
    NEED(loco_region_read64(region, 1 - boot->exchange.rank, 8, &word) == LOCO_OK);
    NEED(meet(boot) == LOCO_OK);
    if (boot->exchange.rank == 0) {
        const int other = loco_everyone(rt)->peer[1];

        while (loci_peer_alive(rt, other))
            usleep(1000);
        usleep(50000);
        NEED(is_mapped(rt, other));
        loco_region_read64(region, 1, 8, &word);
        loco_region_destroy(region);
        for (mine = 0; is_mapped(rt, other) && mine < 5000; mine++)
            usleep(1000);
        NEED(!is_mapped(rt, other) && in_table(rt) == 2);
        NEED(loco_group_alive(loco_everyone(rt), 1) == LOCO_ERR_PEER_DEAD);
    } else {
        loco_region_destroy(region);
    }
    loco_runtime_close(rt);
    NEED(LEAKS() == 0);
    return 0;
}

Test(gone, what_is_used_is_kept, .timeout = 60)
{
    run(2, is_used_by_region, &plain);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* ended_early region|queue|store: rank 2 is killed. Rank 1 hears of it in a barrier, destroys its
 * channels and closes its runtime, as it should. Rank 0, which has had no error yet, goes on to use
 * its channel: it gets what is there, zeros or an error, and no signal. */

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "case.h"

#define ENTRY 65536

struct channels {
    loco_barrier_t *barrier;
    loco_region_t *region;
    loco_queue_t *queue;
    loco_kvstore_t *store;
};

static void make(loco_runtime_t *rt, const char *kind, struct channels *c)
{
    const loco_kvstore_options_t o = { .value_bytes = 64, .capacity = 100000 };
    const loco_group_t *all = loco_everyone(rt);

    MUST(loco_barrier_create(rt, NULL, "barrier", all, &c->barrier) == LOCO_OK);
    if (strcmp(kind, "region") == 0)
        MUST(loco_region_create(rt, NULL, "region", all, 8 << 20, &c->region) == LOCO_OK);
    else if (strcmp(kind, "queue") == 0)
        MUST(loco_queue_create(rt, NULL, "queue", all, ENTRY, 300, 0, &c->queue) == LOCO_OK);
    else
        MUST(loco_kvstore_create(rt, NULL, "store", all, &o, &c->store) == LOCO_OK);
    MUST(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
}

static void end(loco_runtime_t *rt, struct channels *c)
{
    loco_region_destroy(c->region);
    loco_queue_destroy(c->queue);
    loco_kvstore_destroy(c->store);
    loco_barrier_destroy(c->barrier);
    loco_runtime_close(rt);
}

static int use(struct channels *c, unsigned i)
{
    static char entry[ENTRY];
    uint64_t word;

    if (c->region != NULL)
        return i % 2 == 0 ? loco_region_write64(c->region, 1, 8, i)
                          : loco_region_read64(c->region, 1, 4 << 20, &word);
    if (c->queue != NULL)
        return i % 2 == 0 ? loco_queue_try_push(c->queue, entry)
                          : loco_queue_try_pop(c->queue, entry);
    return loco_kvstore_get(c->store, 1000 + i % 100, entry, 64);
}

static int member(const struct loco_bootstrap *boot, void *kind)
{
    /* Small extents, so that what is freed goes back to the system. */
    const char *const settings[] = { "LOCO_EXTENT_MIN=2M", NULL };
    struct loco_bootstrap mine = *boot;
    struct channels c = { .barrier = NULL };
    loco_runtime_t *rt;
    char value[64] = "x";
    double until;

    mine.settings = settings;
    MUST(loco_runtime_open(&mine, &rt) == LOCO_OK);
    make(rt, kind, &c);
    for (unsigned i = 0; i < 100 && c.store != NULL && boot->exchange.rank == 1; i++)
        MUST(loco_kvstore_insert(c.store, 1000 + i, value, sizeof value) == LOCO_OK);
    MUST(loco_barrier_wait(c.barrier) == LOCO_OK);
    if (boot->exchange.rank == 2)
        kill(getpid(), SIGKILL);
    if (boot->exchange.rank == 1)
        MUST(loco_barrier_wait(c.barrier) == LOCO_ERR_PEER_DEAD);
    until = case_now() + 1;
    for (unsigned i = 0; boot->exchange.rank == 0 && case_now() < until; i++)
        if (use(&c, i) == LOCO_ERR_PEER_DEAD)
            break;
    end(rt, &c);
    return 0;
}

int main(int argc, char **argv)
{
    int statuses[3];

    MUST(argc == 2);
    loco_fork_run(3, member, argv[1], statuses);
    MUST(statuses[0] == 0 && statuses[1] == 0 && statuses[2] == -SIGKILL);
    return 0;
}

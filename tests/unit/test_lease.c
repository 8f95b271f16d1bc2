/* SPDX-License-Identifier: BSD-3-Clause */

/* Leases of keys over TCP: member 0 owns memory, member 1, of another machine as LOCO_NODE has it,
 * writes there while it holds a lease. */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "fabric/port/lease.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "run.h"

/* What both tell each other. */
struct told {
    struct loci_memkey key;
    struct loci_lease_board board;
    uint32_t record;
    uint64_t version;
    int pid;
};

struct world {
    loco_runtime_t *rt;
    const struct loco_exchange *exchange;
    struct told mine, all[2];
    int peer;                       /* the other one */
    struct loci_mem mem;
    struct loci_leases *leases;
    struct loci_lease lease;
};

typedef int role_fn(struct world *w);

struct plan {
    role_fn *owner, *holder;
};

static int tell(struct world *w)
{
    return w->exchange->allgather(w->exchange->ctx, &w->mine, sizeof w->mine, w->all);
}

static int settle(void *arg)
{
    struct world *w = arg;

    return loci_fence_peer(w->rt, LOCO_FENCE_PAIR, w->peer);
}

static int open_world(struct world *w, const struct loco_bootstrap *boot)
{
    static char node[32];
    const char *settings[] = { "LOCO_FABRIC=tcp", "LOCO_KEY_LEASE=300ms", node, NULL };
    struct loco_bootstrap own = *boot;

    w->exchange = &boot->exchange;
    snprintf(node, sizeof node, "LOCO_NODE=lease%d", boot->exchange.rank);
    own.settings = settings;
    CHECK(loco_runtime_open(&own, &w->rt) == LOCO_OK);
    loci_peers_use(w->rt, w->rt->everyone->peer, 2);
    w->peer = w->rt->everyone->peer[1 - boot->exchange.rank];
    w->mine.pid = (int)getpid();
    if (boot->exchange.rank == 0) {
        CHECK(loci_alloc(w->rt, 8, 0, &w->mem) == LOCO_OK);
        CHECK(loci_leases_open(w->rt, 4, 2, &w->leases) == LOCO_OK);
        loci_leases_admit(w->leases, 0, w->peer);
        CHECK(loci_leases_lend(w->leases, &w->mine.record, &w->mine.version) == LOCO_OK);
        w->mine.key = w->mem.key;
        loci_leases_board(w->leases, &w->mine.board);
    }
    CHECK(tell(w) == LOCO_OK);
    if (boot->exchange.rank == 0)
        return 0;
    CHECK(loci_mem_import(w->rt, w->peer, &w->all[0].key, &w->mem) == LOCO_OK);
    CHECK(loci_lease_init(w->rt, w->peer, &w->all[0].board, 0, settle, w, &w->lease) == LOCO_OK);
    CHECK(loci_lease_check(&w->lease, w->all[0].record, w->all[0].version) == LOCO_ERR_AGAIN);
    CHECK(loci_lease_renew(&w->lease) == LOCO_OK);
    return 0;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    static struct world w;
    const struct plan *plan = arg;
    int result = open_world(&w, boot);

    if (result != 0 || tell(&w) != LOCO_OK)
        return 1;
    result = boot->exchange.rank == 0 ? plan->owner(&w) : plan->holder(&w);
    (void)tell(&w);
    if (w.lease.version != NULL)
        loci_lease_fini(&w.lease);
    loci_leases_close(w.leases);
    loco_runtime_close(w.rt);
    return result;
}

static void run(const struct plan *plan)
{
    int statuses[2];

    (void)loco_fork_run(2, member, (void *)(uintptr_t)plan, statuses);
    cr_assert(statuses[0] == 0 && statuses[1] == 0, "owner %d, holder %d", statuses[0],
              statuses[1]);
}

/* ---- what owners do ---- */

static int take_back(struct world *w, int64_t *took)
{
    int64_t began = run_now();
    int status;

    loci_leases_end(w->leases, w->mine.record);
    while ((status = loci_leases_reclaim(w->leases, w->mine.record, NULL, NULL))
           == LOCO_ERR_AGAIN) {
        CHECK(run_now() - began < run_limit(RUN_PATIENCE));
        usleep(1000);
    }
    *took = run_now() - began;
    return status != LOCO_OK;
}

/* For as long as a holder that uses it still would take to show. */
static int stays_zero(const struct world *w)
{
    loci_store64(loci_mem_ptr(&w->mem), 0);
    for (int i = 0; i < 300; i++) {
        CHECK(loci_load64(loci_mem_ptr(&w->mem)) == 0);
        usleep(1000);
    }
    return 0;
}

static int until_written(const struct world *w)
{
    int64_t began = run_now();

    while (loci_load64(loci_mem_ptr(&w->mem)) == 0)
        CHECK(run_now() - began < run_limit(RUN_PATIENCE));
    return 0;
}

static int withdraw(struct world *w)
{
    int64_t took;

    CHECK(until_written(w) == 0);
    CHECK(take_back(w, &took) == 0);
    CHECK(loci_peer_alive(w->rt, w->peer));
    return stays_zero(w);
}

/* What it had posted is over when it is cut off, and what it posts later does not arrive. */
static int withdraw_from_a_stopped_one(struct world *w)
{
    int64_t took;

    CHECK(until_written(w) == 0);
    CHECK(kill(w->all[1].pid, SIGSTOP) == 0);
    CHECK(take_back(w, &took) == 0);
    CHECK(!loci_peer_alive(w->rt, w->peer));
    loci_store64(loci_mem_ptr(&w->mem), 0);
    CHECK(kill(w->all[1].pid, SIGCONT) == 0);
    return stays_zero(w);
}

/* ---- what holders do ---- */

/* Write for as long as it may, and say what ended that. */
static int write_on(struct world *w)
{
    int status = LOCO_OK;

    for (uint64_t i = 1; status == LOCO_OK; i++) {
        status = loci_lease_check(&w->lease, w->all[0].record, w->all[0].version);
        if (status == LOCO_ERR_AGAIN)
            status = loci_lease_renew(&w->lease);
        else if (status == LOCO_OK)
            status = loci_write64(w->rt, &w->mem, 0, i, NULL);
    }
    return status;
}

static int until_withdrawn(struct world *w)
{
    CHECK(write_on(w) == LOCO_ERR_STATE);
    CHECK(loci_lease_renew(&w->lease) == LOCO_OK);
    return loci_lease_release(&w->lease) != LOCO_OK;
}

static int until_cut_off(struct world *w)
{
    CHECK(write_on(w) == LOCO_ERR_PEER_DEAD);
    CHECK(loci_lease_check(&w->lease, w->all[0].record, w->all[0].version) == LOCO_ERR_AGAIN);
    CHECK(loci_lease_renew(&w->lease) == LOCO_ERR_PEER_DEAD);
    return 0;
}

Test(lease, is_withdrawn_from_one_who_renews)
{
    static const struct plan plan = { withdraw, until_withdrawn };

    run(&plan);
}

Test(lease, who_is_stopped_for_longer_is_cut_off_and_told)
{
    static const struct plan plan = { withdraw_from_a_stopped_one, until_cut_off };

    run(&plan);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What passing on a lock costs that others wait for: 2, 4 and 8 forked processes take one ticket
 * lock in turn, over the fabric that the environment says. A line for each number of processes,
 * of the dearest release that was seen:
 *
 *     contended|PROCESSES|ATOMICS|WRITES|READS
 *
 * without the places of its fence, which depend on what the holder has written. Turns are taken
 * until somebody has waited: a process that comes late finds the others gone after any number. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "runtime.h"
#include "wait.h"

#define TURNS 40        /* of each process, at least */
#define MOST 8
#define PATIENCE_NS (30 * INT64_C(1000000000))

struct price {
    unsigned long long atomics, writes, reads;
};

/* What the processes share. */
struct seen {
    struct price dearest[MOST];
    _Atomic bool passed_on;     /* a lock, to somebody who waited for it */
};

static struct price now(loco_runtime_t *rt)
{
    const struct loci_counters *k = &rt->counters;

    return (struct price){ k->atomics[0] + k->atomics[1], k->writes[0] + k->writes[1],
                           k->reads[0] + k->reads[1] };
}

static unsigned long long sum(struct price p)
{
    return p.atomics + p.writes + p.reads;
}

/* Held for long enough that others come and wait. */
static int take_turns(loco_runtime_t *rt, loco_ticket_lock_t *lock, struct seen *seen,
                      struct price *dearest)
{
    const struct timespec held = { 0, 100000 };
    const int64_t end = loci_now(rt) + PATIENCE_NS;

    for (int i = 0; i < TURNS || (!seen->passed_on && loci_now(rt) < end); i++) {
        struct price before, after, here;
        int status = loco_ticket_lock_acquire(lock);

        if (status != LOCO_OK)
            return status;
        nanosleep(&held, NULL);
        before = now(rt);
        status = loco_ticket_lock_release(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
        if (status != LOCO_OK)
            return status;
        after = now(rt);
        here = (struct price){ after.atomics - before.atomics, after.writes - before.writes,
                               after.reads - before.reads };
        if (sum(here) > sum(*dearest))
            *dearest = here;
        if (here.writes > 0)
            seen->passed_on = true;
    }
    return LOCO_OK;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct seen *seen = arg;
    struct price *dearest = &seen->dearest[boot->exchange.rank];
    loco_ticket_lock_t *lock = NULL;
    loco_runtime_t *rt;
    int status = loco_runtime_open(boot, &rt);

    if (status != LOCO_OK)
        return 1;
    status = loco_ticket_lock_create(rt, NULL, "contended", loco_everyone(rt), 0, &lock);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status == LOCO_OK)
        status = take_turns(rt, lock, seen, dearest);
    if (status != LOCO_OK)
        printf("# rank %d: %s\n", boot->exchange.rank, loco_strerror(status));
    boot->exchange.allgather(boot->exchange.ctx, NULL, 0, (unsigned char[1]){ 0 });
    loco_ticket_lock_destroy(lock);
    loco_runtime_close(rt);
    return status != LOCO_OK;
}

int main(void)
{
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (seen == MAP_FAILED)
        return 1;
    for (int n = 2; n <= MOST; n *= 2) {
        struct price dearest = { 0 };

        memset(seen, 0, sizeof *seen);
        if (loco_fork_run(n, member, seen, NULL) != LOCO_OK)
            return 1;
        for (int i = 0; i < n; i++)
            if (sum(seen->dearest[i]) > sum(dearest))
                dearest = seen->dearest[i];
        printf("contended|%d|%llu|%llu|%llu\n", n, dearest.atomics, dearest.writes,
               dearest.reads);
    }
    return 0;
}

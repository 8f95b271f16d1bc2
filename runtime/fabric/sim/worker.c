/* SPDX-License-Identifier: BSD-3-Clause */

/* Workers as fibers. */

#include "config.h"

#include <stdlib.h>

#include "threads/worker.h"
#include "world.h"

#define WORKER_THREAD 59        /* in traces: not one of a scenario's own */

struct loci_worker {
    struct sim_fiber *fiber;
    void (*fn)(void *arg);
    void *arg;
};

static void run(void *arg)
{
    struct sim_fiber *f = arg;
    struct loci_worker *worker = f->arg;

    worker->fn(worker->arg);
    if (f->context != NULL)
        atomic_store_explicit(&f->context->in_use, false, memory_order_release);
    sim_changed(f->process);
    loci_sim_block(SIM_DONE);
}

int loci_worker_start(struct loco_runtime *rt, const char *name, void (*fn)(void *arg), void *arg,
                      struct loci_worker **out)
{
    struct sim_process *p = rt->host.ctx;
    struct loci_worker *worker = malloc(sizeof *worker);

    (void)name;
    if (worker == NULL)
        return LOCO_ERR_NO_MEMORY;
    worker->fn = fn;
    worker->arg = arg;
    worker->fiber = loci_sim_start(p, WORKER_THREAD, run);
    worker->fiber->arg = worker;
    *out = worker;
    return LOCO_OK;
}

void loci_worker_join(struct loci_worker *worker)
{
    if (worker == NULL)
        return;
    while (worker->fiber->state != SIM_DONE)
        loci_sim_block(SIM_IDLE);
    free(worker);
}

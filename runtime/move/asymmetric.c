/* SPDX-License-Identifier: BSD-3-Clause */

/* Asymmetric fences by the system. `state` goes UNTRIED, TRYING, READY or REFUSED; who swaps
 * TRYING in starts the thread, and that one sets the rest. */

#include "config.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "asymmetric.h"
#include "threads/worker.h"

#ifdef SYS_membarrier
#include <linux/membarrier.h>

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static bool is_offered(void)
{
    const int needed = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    long commands = membarrier(MEMBARRIER_CMD_QUERY);

    return commands >= 0 && (commands & needed) == needed;
}

static bool enroll(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

bool loci_fence_heavy(struct loco_runtime *rt)
{
    (void)rt;
    return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}
#else
static bool is_offered(void)
{
    return false;
}

static bool enroll(void)
{
    return false;
}

bool loci_fence_heavy(struct loco_runtime *rt)
{
    (void)rt;
    return false;
}
#endif

static void enroll_main(void *arg)
{
    struct loco_runtime *rt = arg;

    atomic_store_explicit(&rt->asymmetric,
                          enroll() ? LOCI_ASYMMETRIC_READY : LOCI_ASYMMETRIC_REFUSED,
                          memory_order_release);
}

static void begin(struct loco_runtime *rt)
{
    if (!is_offered())
        atomic_store_explicit(&rt->asymmetric, LOCI_ASYMMETRIC_REFUSED, memory_order_release);
    else if (loci_worker_start(rt, "loco-enroll", enroll_main, rt, &rt->enroller) != LOCO_OK)
        enroll_main(rt);
}

enum loci_asymmetric loci_asymmetric_state(struct loco_runtime *rt)
{
    int state = atomic_load_explicit(&rt->asymmetric, memory_order_acquire);

    if (state == LOCI_ASYMMETRIC_UNTRIED
        && atomic_compare_exchange_strong_explicit(&rt->asymmetric, &state, LOCI_ASYMMETRIC_TRYING,
                                                   memory_order_acq_rel, memory_order_acquire)) {
        begin(rt);
        state = atomic_load_explicit(&rt->asymmetric, memory_order_acquire);
    }
    return (enum loci_asymmetric)state;
}

void loci_asymmetric_close(struct loco_runtime *rt)
{
    loci_worker_join(rt->enroller);
    rt->enroller = NULL;
}

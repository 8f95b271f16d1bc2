/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OSC_LOCO_COMPAT_THREADS_PTHREADS_THREADS_H
#define OSC_LOCO_COMPAT_THREADS_PTHREADS_THREADS_H

/* See threads_pthreads_mutex.h. Yielding is the caller's business here: sched_yield. */

#include <pthread.h>
#include <sched.h>

#include "opal/mca/threads/threads.h"

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif

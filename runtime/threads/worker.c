/* SPDX-License-Identifier: BSD-3-Clause */

/* Workers as threads of the system. */

#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker.h"

#define STACK_BYTES ((size_t)256 << 10)

struct loci_worker {
    pthread_t thread;
    void (*fn)(void *arg);
    void *arg;
    char name[16];
};

static void *run(void *arg)
{
    struct loci_worker *worker = arg;

    pthread_setname_np(pthread_self(), worker->name);       /* by itself: less for the kernel */
    worker->fn(worker->arg);
    return NULL;
}

/* Signals are the program's: none is delivered here. */
static int start_thread(struct loci_worker *worker)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&worker->thread, &attr, run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

int loci_worker_start(struct loco_runtime *rt, const char *name, void (*fn)(void *arg), void *arg,
                      struct loci_worker **out)
{
    struct loci_worker *worker = malloc(sizeof *worker);
    int error;

    if (worker == NULL)
        return LOCO_ERR_NO_MEMORY;
    worker->fn = fn;
    worker->arg = arg;
    snprintf(worker->name, sizeof worker->name, "%s", name);
    error = start_thread(worker);
    if (error != 0) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "no thread %s: error %d", name, error);
        free(worker);
        return LOCO_ERR_SYSTEM;
    }
    *out = worker;
    return LOCO_OK;
}

void loci_worker_join(struct loci_worker *worker)
{
    if (worker == NULL)
        return;
    pthread_join(worker->thread, NULL);
    free(worker);
}

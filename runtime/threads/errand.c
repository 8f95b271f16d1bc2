/* SPDX-License-Identifier: BSD-3-Clause */

/* See errand.h. */

#include "config.h"

#include <time.h>

#include "errand.h"

#define A_MOMENT INT64_C(5000000)       /* ns */

/* ---- the list, under the lock ---- */

static void put_last(struct loci_errands *errands, struct loci_errand *e)
{
    e->next = NULL;
    *errands->last = e;
    errands->last = &e->next;
}

static struct loci_errand *take_first(struct loci_errands *errands)
{
    struct loci_errand *e = errands->first;

    errands->first = e->next;
    if (errands->first == NULL)
        errands->last = &errands->first;
    return e;
}

/* ---- the thread ---- */

/* Until there is something new, or a moment has passed. */
static void rest(struct loci_errands *errands)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += A_MOMENT;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&errands->news, &errands->lock, &until);
}

/* Whether it is over; without the lock meanwhile. */
static bool run(struct loci_errands *errands, struct loci_errand *e)
{
    bool over;

    pthread_mutex_unlock(&errands->lock);
    over = e->step(e);
    if (over)
        e->end(e);
    pthread_mutex_lock(&errands->lock);
    if (!over)
        put_last(errands, e);
    return over;
}

static void work(void *arg)
{
    struct loci_errands *errands = arg;
    const struct loci_errand *in_vain = NULL;   /* the first since one was over */

    pthread_mutex_lock(&errands->lock);
    while (!errands->stops) {
        if (errands->first == NULL) {
            pthread_cond_wait(&errands->news, &errands->lock);
        } else if (errands->first == in_vain) {
            rest(errands);
            in_vain = NULL;
        } else {
            struct loci_errand *e = take_first(errands);

            if (run(errands, e))
                in_vain = NULL;
            else if (in_vain == NULL)
                in_vain = e;
        }
    }
    pthread_mutex_unlock(&errands->lock);
}

/* ---- for others ---- */

static void run_here(struct loci_errand *e)
{
    const struct timespec a_moment = { .tv_nsec = A_MOMENT };

    while (!e->step(e))
        nanosleep(&a_moment, NULL);
    e->end(e);
}

void loci_errands_send(struct loci_errands *errands, struct loci_errand *e)
{
    bool stops, listed = false;

    pthread_mutex_lock(&errands->lock);
    stops = errands->stops;
    if (!stops)
        listed = errands->worker != NULL
                 || loci_worker_start(errands->rt, errands->name, work, errands, &errands->worker)
                    == LOCO_OK;
    if (listed) {
        put_last(errands, e);
        pthread_cond_signal(&errands->news);
    }
    pthread_mutex_unlock(&errands->lock);
    if (stops)
        e->end(e);
    else if (!listed)
        run_here(e);
}

void loci_errands_open(struct loci_errands *errands, struct loco_runtime *rt, const char *name)
{
    pthread_condattr_t attr;

    *errands = (struct loci_errands){ .rt = rt, .name = name };
    errands->last = &errands->first;
    pthread_mutex_init(&errands->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&errands->news, &attr);
    pthread_condattr_destroy(&attr);
}

void loci_errands_stop(struct loci_errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    errands->stops = true;
    pthread_cond_signal(&errands->news);
    pthread_mutex_unlock(&errands->lock);
    loci_worker_join(errands->worker);
    errands->worker = NULL;
    while (errands->first != NULL) {
        struct loci_errand *e = take_first(errands);

        e->end(e);
    }
}

void loci_errands_close(struct loci_errands *errands)
{
    loci_errands_stop(errands);
    pthread_cond_destroy(&errands->news);
    pthread_mutex_destroy(&errands->lock);
}

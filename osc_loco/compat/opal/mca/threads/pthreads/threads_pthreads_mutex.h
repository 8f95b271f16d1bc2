/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OSC_LOCO_COMPAT_THREADS_PTHREADS_MUTEX_H
#define OSC_LOCO_COMPAT_THREADS_PTHREADS_MUTEX_H

/* Open MPI 5.0 configured for POSIX threads includes a header of this name from its mutex.h, and
 * installs none. What it must give are names for pthread's mutexes and condition variables. */

#include <pthread.h>
#include <stdbool.h>

#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline int opal_thread_internal_mutex_init(pthread_mutex_t *mutex, bool recursive)
{
    pthread_mutexattr_t attributes;
    int error;

    if (pthread_mutexattr_init(&attributes) != 0)
        return OPAL_ERR_IN_ERRNO;
    if (recursive)
        (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    error = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error == 0 ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_mutex_destroy(pthread_mutex_t *mutex)
{
    pthread_mutex_destroy(mutex);
}

static inline void opal_thread_internal_mutex_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

/* 0: locked, 1: not. */
static inline int opal_thread_internal_mutex_trylock(pthread_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex) != 0;
}

static inline void opal_thread_internal_mutex_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

static inline int opal_thread_internal_cond_init(pthread_cond_t *condition)
{
    return pthread_cond_init(condition, NULL) == 0 ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_cond_destroy(pthread_cond_t *condition)
{
    pthread_cond_destroy(condition);
}

static inline void opal_thread_internal_cond_wait(pthread_cond_t *condition,
                                                  pthread_mutex_t *mutex)
{
    pthread_cond_wait(condition, mutex);
}

static inline void opal_thread_internal_cond_signal(pthread_cond_t *condition)
{
    pthread_cond_signal(condition);
}

static inline void opal_thread_internal_cond_broadcast(pthread_cond_t *condition)
{
    pthread_cond_broadcast(condition);
}

#endif

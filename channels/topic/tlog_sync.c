/* SPDX-License-Identifier: BSD-3-Clause */

/* Syncs a log in a thread of its own, so that whoever delivers never waits for a disk. The thread
 * takes the number up to which records are written, syncs, and only then says that it is done up to
 * that number: a record that is written meanwhile may be on the disk, and waits for the next sync.
 *
 * After a sync that failed nobody knows what is on the disk: the kernel reports an error once, and
 * may have dropped the pages. So the log has failed for good. */

#include "config.h"

#include "tlog_sync.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <loco/runtime.h>
#include <loco/status.h>

#define SECOND INT64_C(1000000000)
#define STACK_BYTES ((size_t)256 << 10)

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

/* Until `when`; INT64_MAX: without limit. */
static int wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t when)
{
    const struct timespec t = { .tv_sec = when / SECOND, .tv_nsec = when % SECOND };

    return when == INT64_MAX ? pthread_cond_wait(condition, lock)
                             : pthread_cond_timedwait(condition, lock, &t);
}

/* When the next sync is due: INT64_MAX, not now that it is known of. */
static int64_t due(const struct loci_tlog_syncer *s)
{
    if (s->written <= loci_tlog_syncer_done(s))
        return INT64_MAX;
    return s->mode == LOCI_TLOG_SYNC_BATCH || s->hurry || s->stop ? 0 : s->last + SECOND;
}

/* Once; the lock is held before and after. */
static void sync_once(struct loci_tlog_syncer *s)
{
    uint64_t number = s->written;
    int error = 0;

    s->hurry = false;
    s->last = now();
    pthread_mutex_unlock(&s->lock);
    while (fdatasync(s->fd) != 0) {
        error = errno;
        if (error != EINTR)
            break;
        error = 0;
    }
    if (error != 0) {
        errno = error;
        loci_log(s->say, LOCO_LOG_ERROR, "log %s cannot be synced: %m; records after number %llu "
                 "may be lost, and nothing more is logged", s->path,
                 (unsigned long long)loci_tlog_syncer_done(s));
    }
    pthread_mutex_lock(&s->lock);
    if (error != 0)
        atomic_store_explicit(&s->failed, LOCO_ERR_SYSTEM, memory_order_release);
    else
        atomic_store_explicit(&s->done, number, memory_order_release);
    pthread_cond_broadcast(&s->progress);
}

static void *run(void *arg)
{
    struct loci_tlog_syncer *s = arg;

    pthread_mutex_lock(&s->lock);
    while (loci_tlog_syncer_status(s) == LOCO_OK) {
        int64_t when = due(s);

        if (when <= now())
            sync_once(s);
        else if (s->stop)
            break;
        else
            wait_until(&s->work, &s->lock, when);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Signals are the program's: none is delivered here. */
static int start(struct loci_tlog_syncer *s)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&s->thread, &attr, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (error != 0) {
        errno = error;
        loci_log(s->say, LOCO_LOG_ERROR, "log %s: no thread that syncs it: %m", s->path);
        return LOCO_ERR_SYSTEM;
    }
    pthread_setname_np(s->thread, "loco-log");
    s->running = true;
    return LOCO_OK;
}

int loci_tlog_syncer_open(struct loci_tlog_syncer *s, enum loci_tlog_sync mode, int fd,
                          const char *path, const struct loci_log *say, uint64_t done)
{
    pthread_condattr_t attr;

    s->mode = mode;
    s->fd = fd;
    s->path = path;
    s->say = say;
    s->written = done;
    s->last = now();
    atomic_init(&s->done, done);
    atomic_init(&s->failed, LOCO_OK);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &attr);
    pthread_cond_init(&s->progress, &attr);
    pthread_condattr_destroy(&attr);
    return mode == LOCI_TLOG_SYNC_NEVER ? LOCO_OK : start(s);
}

void loci_tlog_syncer_close(struct loci_tlog_syncer *s)
{
    if (s->running) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    pthread_cond_destroy(&s->progress);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
}

void loci_tlog_syncer_wrote(struct loci_tlog_syncer *s, uint64_t number)
{
    if (s->mode == LOCI_TLOG_SYNC_NEVER)
        return;
    pthread_mutex_lock(&s->lock);
    s->written = number;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void loci_tlog_syncer_fail(struct loci_tlog_syncer *s, int status)
{
    pthread_mutex_lock(&s->lock);
    atomic_store_explicit(&s->failed, status, memory_order_release);
    pthread_cond_signal(&s->work);
    pthread_cond_broadcast(&s->progress);
    pthread_mutex_unlock(&s->lock);
}

int loci_tlog_syncer_wait(struct loci_tlog_syncer *s, uint64_t number, int64_t timeout_ns)
{
    int64_t start = now(), end;
    int status = LOCO_OK;

    if (loci_tlog_syncer_done(s) >= number)
        return LOCO_OK;
    if (s->mode == LOCI_TLOG_SYNC_NEVER)
        return LOCO_ERR_STATE;
    end = timeout_ns == LOCO_FOREVER || timeout_ns > INT64_MAX - start ? INT64_MAX
                                                                       : start + timeout_ns;
    pthread_mutex_lock(&s->lock);
    while (loci_tlog_syncer_done(s) < number && status == LOCO_OK) {
        status = loci_tlog_syncer_status(s);
        if (status != LOCO_OK)
            break;
        s->hurry = true;
        pthread_cond_signal(&s->work);
        if (wait_until(&s->progress, &s->lock, end) == ETIMEDOUT)
            status = LOCO_ERR_TIMEOUT;
    }
    if (loci_tlog_syncer_done(s) >= number)
        status = LOCO_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

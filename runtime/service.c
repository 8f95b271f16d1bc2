/* SPDX-License-Identifier: BSD-3-Clause */

/* The service thread: asleep in epoll until a watched descriptor has something.
 *
 * Each watch is a slot of a table; epoll is told the slot and how often that slot was used before,
 * so an event that was under way when its watch ended meets nobody. One event is taken at a time:
 * a handler may then end any watch, its own too. `running` is the slot whose handler runs, and
 * who ends a watch from another thread waits until it is another one. */

#include "config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor.h"
#include "service.h"

#define STACK_BYTES ((size_t)512 << 10)
#define NEWS UINT64_MAX                 /* what epoll says of our own eventfd */

struct watch {
    int fd;                             /* -1: a free slot */
    uint32_t used;                      /* how often: in the upper half of epoll's data */
    loci_service_fn *fn;
    void *ctx;
};

struct loci_service {
    struct loco_runtime *rt;
    pthread_t thread;
    int epoll_fd;
    int news_fd;
    _Atomic bool stops, tidies;         /* what its news are; release before it is written to */
    pthread_mutex_t lock;               /* what follows */
    pthread_cond_t ended;               /* the running handler has returned, or the thread runs */
    int32_t tid;                        /* 0 until it does */
    struct watch *watches;
    uint32_t nwatches;
    int64_t running;                    /* slot, or -1 */
};

/* ---- the thread ---- */

static void handle(struct loci_service *s, const struct epoll_event *event)
{
    uint32_t slot = (uint32_t)event->data.u64;
    struct watch watch = { .fd = -1 };

    pthread_mutex_lock(&s->lock);
    if (slot < s->nwatches && s->watches[slot].used == (uint32_t)(event->data.u64 >> 32)) {
        watch = s->watches[slot];
        s->running = slot;
    }
    pthread_mutex_unlock(&s->lock);
    if (watch.fd < 0)
        return;
    watch.fn(s->rt, watch.ctx, watch.fd, event->events);
    pthread_mutex_lock(&s->lock);
    s->running = -1;
    pthread_cond_broadcast(&s->ended);
    pthread_mutex_unlock(&s->lock);
}

/* Whether it is to end. */
static bool hear_news(struct loci_service *s)
{
    uint64_t times;

    (void)!read(s->news_fd, &times, sizeof times);
    if (atomic_load_explicit(&s->stops, memory_order_acquire))
        return true;
    if (atomic_exchange_explicit(&s->tidies, false, memory_order_acquire))
        loci_peers_tidy(s->rt);
    return false;
}

static void *serve(void *arg)
{
    struct loci_service *s = arg;
    struct epoll_event event;

    pthread_setname_np(pthread_self(), "loco-service");     /* by itself: less for the kernel */
    pthread_mutex_lock(&s->lock);
    s->tid = (int32_t)syscall(SYS_gettid);
    pthread_cond_broadcast(&s->ended);
    pthread_mutex_unlock(&s->lock);
    for (;;) {
        int n = epoll_wait(s->epoll_fd, &event, 1, -1);

        if (n < 0 && errno != EINTR) {
            LOCI_LOG(s->rt, LOCO_LOG_ERROR, "the service thread ends: epoll_wait: %m");
            return NULL;
        }
        if (n == 1 && event.data.u64 != NEWS)
            handle(s, &event);
        else if (n == 1 && hear_news(s))
            return NULL;
    }
}

int32_t loci_service_tid(struct loco_runtime *rt)
{
    struct loci_service *s = rt->service;
    int32_t tid;

    pthread_mutex_lock(&s->lock);
    while (s->tid == 0)
        pthread_cond_wait(&s->ended, &s->lock);
    tid = s->tid;
    pthread_mutex_unlock(&s->lock);
    return tid;
}

bool loci_service_is_self(struct loco_runtime *rt)
{
    return rt->service != NULL && pthread_equal(rt->service->thread, pthread_self());
}

/* ---- life ---- */

/* Signals are the program's: none is delivered here. */
static int start_thread(struct loci_service *s)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&s->thread, &attr, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static int open_descriptors(struct loci_service *s)
{
    struct epoll_event news = { .events = EPOLLIN, .data.u64 = NEWS };

    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll_fd < 0 || s->news_fd < 0)
        return -1;
    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->news_fd, &news);
}

static void free_service(struct loci_service *s)
{
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    if (s->news_fd >= 0)
        close(s->news_fd);
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    free(s->watches);
    free(s);
}

int loci_service_open(struct loco_runtime *rt)
{
    struct loci_service *s = calloc(1, sizeof *s);

    if (s == NULL)
        return LOCO_ERR_NO_MEMORY;
    s->rt = rt;
    s->running = -1;
    s->epoll_fd = s->news_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->ended, NULL);
    if (open_descriptors(s) != 0) {
        loci_descriptor_missing(rt, "no descriptors for the service thread");
        free_service(s);
        return LOCO_ERR_SYSTEM;
    }
    rt->service = s;
    errno = start_thread(s);
    if (errno != 0) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "no service thread: %m");
        rt->service = NULL;
        free_service(s);
        return LOCO_ERR_SYSTEM;
    }
    return LOCO_OK;
}

static void tell(struct loci_service *s, _Atomic bool *what)
{
    const uint64_t one = 1;

    atomic_store_explicit(what, true, memory_order_release);
    while (write(s->news_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void loci_service_tidy(struct loco_runtime *rt)
{
    if (rt->service != NULL)
        tell(rt->service, &rt->service->tidies);
}

void loci_service_close(struct loco_runtime *rt)
{
    struct loci_service *s = rt->service;

    if (s == NULL)
        return;
    tell(s, &s->stops);
    pthread_join(s->thread, NULL);
    rt->service = NULL;
    free_service(s);
}

/* ---- watches ---- */

/* Under the lock. */
static struct watch *watch_of(struct loci_service *s, int fd)
{
    for (uint32_t i = 0; i < s->nwatches; i++)
        if (s->watches[i].fd == fd)
            return &s->watches[i];
    return NULL;
}

static struct watch *new_watch(struct loci_service *s)
{
    struct watch *free_one = watch_of(s, -1), *more;
    uint32_t n = s->nwatches;

    if (free_one != NULL)
        return free_one;
    more = realloc(s->watches, (n + 16) * sizeof *more);
    if (more == NULL)
        return NULL;
    s->watches = more;
    s->nwatches = n + 16;
    for (uint32_t i = n; i < s->nwatches; i++)
        more[i] = (struct watch){ .fd = -1 };
    return &more[n];
}

/* Under the lock. */
static int watch_locked(struct loci_service *s, int fd, uint32_t events, loci_service_fn *fn,
                        void *ctx)
{
    struct watch *watch = watch_of(s, fd);
    int what = watch != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct epoll_event event = { .events = events };

    if (watch == NULL)
        watch = new_watch(s);
    if (watch == NULL)
        return LOCO_ERR_NO_MEMORY;
    event.data.u64 = (uint64_t)watch->used << 32 | (uint64_t)(watch - s->watches);
    if (epoll_ctl(s->epoll_fd, what, fd, &event) != 0) {
        LOCI_LOG(s->rt, LOCO_LOG_ERROR, "descriptor %d cannot be watched: %m", fd);
        return LOCO_ERR_SYSTEM;
    }
    watch->fd = fd;
    watch->fn = fn;
    watch->ctx = ctx;
    return LOCO_OK;
}

int loci_service_watch(struct loco_runtime *rt, int fd, uint32_t events, loci_service_fn *fn,
                       void *ctx)
{
    struct loci_service *s = rt->service;
    int status;

    pthread_mutex_lock(&s->lock);
    status = watch_locked(s, fd, events, fn, ctx);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void loci_service_mute(struct loco_runtime *rt, int fd, uint32_t events, bool muted)
{
    struct loci_service *s = rt->service;
    struct epoll_event event = { .events = muted ? 0 : events };
    struct watch *watch;

    pthread_mutex_lock(&s->lock);
    watch = watch_of(s, fd);
    if (watch != NULL) {
        event.data.u64 = (uint64_t)watch->used << 32 | (uint64_t)(watch - s->watches);
        epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    }
    pthread_mutex_unlock(&s->lock);
}

void loci_service_unwatch(struct loco_runtime *rt, int fd)
{
    struct loci_service *s = rt->service;
    struct watch *watch;
    int64_t slot;

    pthread_mutex_lock(&s->lock);
    watch = watch_of(s, fd);
    if (watch != NULL) {
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        watch->fd = -1;
        watch->used++;
        slot = watch - s->watches;
        while (s->running == slot && !pthread_equal(s->thread, pthread_self()))
            pthread_cond_wait(&s->ended, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The service thread, on a runtime that is nothing else. */

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "service.h"

struct seen {
    _Atomic int calls;
    _Atomic int inside;             /* a handler is running */
    _Atomic int is_service;
    _Atomic int signals_blocked;
    int delay_ms;
    int unwatch_fd;                 /* ended by the handler itself, or -1 */
    char name[16];
};

static void pause_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

    nanosleep(&t, NULL);
}

static void handler(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct seen *seen = ctx;
    uint64_t value;
    sigset_t set;

    atomic_store(&seen->inside, 1);
    if ((events & EPOLLIN) && read(fd, &value, sizeof value) < 0)
        atomic_store(&seen->calls, -1000);
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    atomic_store(&seen->signals_blocked, sigismember(&set, SIGUSR1) && sigismember(&set, SIGINT));
    atomic_store(&seen->is_service, loci_service_is_self(rt));
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    pause_ms(seen->delay_ms);
    if (seen->unwatch_fd >= 0)
        loci_service_unwatch(rt, seen->unwatch_fd);
    atomic_store(&seen->inside, 0);
    atomic_fetch_add(&seen->calls, 1);
}

static bool within(int ms, const struct seen *seen, int calls)
{
    for (int i = 0; i < ms; i++) {
        if (atomic_load(&seen->calls) >= calls)
            return true;
        pause_ms(1);
    }
    return false;
}

static void ring(int fd)
{
    const uint64_t one = 1;

    cr_assert_eq(write(fd, &one, sizeof one), (ssize_t)sizeof one);
}

static void open_service(struct loco_runtime *rt)
{
    memset(rt, 0, sizeof *rt);
    cr_assert_eq(loci_service_open(rt), LOCO_OK);
}

Test(service, calls_in_its_own_thread)
{
    struct loco_runtime rt;
    struct seen seen = { .unwatch_fd = -1 };
    int fd = eventfd(0, EFD_CLOEXEC);

    open_service(&rt);
    cr_assert(!loci_service_is_self(&rt));
    cr_assert_eq(loci_service_watch(&rt, fd, EPOLLIN, handler, &seen), LOCO_OK);
    ring(fd);
    cr_assert(within(2000, &seen, 1));
    loci_service_close(&rt);
    cr_assert_eq(seen.calls, 1);
    cr_assert(seen.is_service);
    cr_assert(seen.signals_blocked);
    cr_assert_str_eq(seen.name, "loco-service");
    close(fd);
}

Test(service, closes_with_watches_left)
{
    struct loco_runtime rt;
    struct seen seen = { .unwatch_fd = -1 };
    int fd = eventfd(1, EFD_CLOEXEC);

    open_service(&rt);
    loci_service_close(&rt);
    cr_assert(rt.service == NULL);
    loci_service_close(&rt);
    open_service(&rt);
    loci_service_watch(&rt, fd, EPOLLIN, handler, &seen);
    loci_service_close(&rt);
    close(fd);
}

Test(service, unwatch_waits_for_the_handler)
{
    struct loco_runtime rt;
    struct seen seen = { .unwatch_fd = -1, .delay_ms = 2 };
    int fd = eventfd(0, EFD_CLOEXEC);

    open_service(&rt);
    for (int i = 0; i < 200; i++) {
        loci_service_watch(&rt, fd, EPOLLIN, handler, &seen);
        ring(fd);
        pause_ms(i % 4);
        loci_service_unwatch(&rt, fd);
        cr_assert_eq(atomic_load(&seen.inside), 0, "round %d", i);
    }
    loci_service_close(&rt);
    close(fd);
}

Test(service, handler_may_unwatch_itself)
{
    struct loco_runtime rt;
    struct seen seen = { .unwatch_fd = eventfd(0, EFD_CLOEXEC) };

    open_service(&rt);
    loci_service_watch(&rt, seen.unwatch_fd, EPOLLIN, handler, &seen);
    ring(seen.unwatch_fd);
    cr_assert(within(2000, &seen, 1));
    ring(seen.unwatch_fd);
    cr_assert(!within(20, &seen, 2));
    loci_service_watch(&rt, seen.unwatch_fd, EPOLLIN, handler, &seen);
    cr_assert(within(2000, &seen, 2));
    loci_service_close(&rt);
    close(seen.unwatch_fd);
}

Test(service, watching_again_replaces)
{
    struct loco_runtime rt;
    struct seen first = { .unwatch_fd = -1 }, second = { .unwatch_fd = -1 };
    int fd = eventfd(0, EFD_CLOEXEC);

    open_service(&rt);
    loci_service_watch(&rt, fd, 0, handler, &first);
    ring(fd);
    cr_assert(!within(20, &first, 1), "no event was asked for");
    loci_service_watch(&rt, fd, EPOLLIN, handler, &second);
    cr_assert(within(2000, &second, 1));
    loci_service_close(&rt);
    cr_assert_eq(first.calls, 0);
    close(fd);
}

Test(service, many_watches)
{
    enum { MANY = 300 };
    struct loco_runtime rt;
    static struct seen seen[MANY];
    int fds[MANY];

    open_service(&rt);
    for (int i = 0; i < MANY; i++) {
        seen[i].unwatch_fd = -1;
        fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        cr_assert_eq(loci_service_watch(&rt, fds[i], EPOLLIN, handler, &seen[i]), LOCO_OK);
    }
    for (int i = 0; i < MANY; i += 2)
        loci_service_unwatch(&rt, fds[i]);
    for (int i = 0; i < MANY; i++)
        ring(fds[i]);
    for (int i = 1; i < MANY; i += 2)
        cr_assert(within(2000, &seen[i], 1), "watch %d", i);
    for (int i = 0; i < MANY; i += 2)
        cr_assert_eq(atomic_load(&seen[i].calls), 0);
    loci_service_close(&rt);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

Test(service, bad_descriptor_is_an_error)
{
    struct loco_runtime rt;
    struct seen seen = { .unwatch_fd = -1 };

    open_service(&rt);
    cr_assert_eq(loci_service_watch(&rt, 9999, EPOLLIN, handler, &seen), LOCO_ERR_SYSTEM);
    loci_service_unwatch(&rt, 9999);
    loci_service_close(&rt);
}

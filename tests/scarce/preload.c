/* SPDX-License-Identifier: BSD-3-Clause */

/* Lets the n-th call fail by which our libraries ask for something: see scarce.h.
 *
 * A call is ours if it returns into one of our libraries. Those that are loaded later count from
 * the next scarce_arm on. Allocations of ours are kept in a table, from which any free() takes them
 * out, so that what was not given back can be counted. With SCARCE_TRACE in the environment each
 * call that fails says where it was made. */

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "scarce.h"

#define LIBRARIES 8
#define LIVE_ROOM (1u << 18)        /* a power of two */
#define FROM_HERE __builtin_return_address(0)

scarce_arm_fn scarce_arm;
scarce_disarm_fn scarce_disarm;
scarce_live_fn scarce_live;

static struct {
    uintptr_t from[LIBRARIES], to[LIBRARIES];
    _Atomic int libraries;
    _Atomic long at, seen;          /* at 0: nothing fails */
    _Atomic bool ever;
    _Atomic unsigned kinds;
    atomic_flag lock;               /* of what follows */
    uintptr_t live[LIVE_ROOM];
    long lives;
} all = { .lock = ATOMIC_FLAG_INIT };

/* ---- whose call it is ---- */

static int note_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    int n = atomic_load(&all.libraries);

    (void)size;
    (void)unused;
    if (info->dlpi_name == NULL || n == LIBRARIES
        || (strstr(info->dlpi_name, "/libloco") == NULL
            && strstr(info->dlpi_name, "/mca_osc_loco") == NULL))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type != PT_LOAD)
            continue;
        from = info->dlpi_addr + part->p_vaddr < from ? info->dlpi_addr + part->p_vaddr : from;
        if (info->dlpi_addr + part->p_vaddr + part->p_memsz > to)
            to = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    for (int i = 0; i < n; i++)
        if (all.from[i] == from)
            return 0;
    all.from[n] = from;
    all.to[n] = to;
    atomic_store(&all.libraries, n + 1);
    return 0;
}

static bool is_ours(const void *caller)
{
    int n = atomic_load(&all.libraries);

    for (int i = 0; i < n; i++)
        if ((uintptr_t)caller >= all.from[i] && (uintptr_t)caller < all.to[i])
            return true;
    return false;
}

/* ---- what fails ---- */

static void trace(void)
{
    static _Thread_local bool tracing;
    void *frame[16];

    if (tracing || getenv("SCARCE_TRACE") == NULL)
        return;
    tracing = true;
    backtrace_symbols_fd(frame, backtrace(frame, 16), STDERR_FILENO);
    tracing = false;
}

static bool fails(const void *caller, unsigned kind)
{
    long at = atomic_load(&all.at), seen;

    if (at == 0 || (atomic_load(&all.kinds) & kind) == 0 || !is_ours(caller))
        return false;
    seen = atomic_fetch_add(&all.seen, 1) + 1;
    if (seen != at && !(atomic_load(&all.ever) && seen > at))
        return false;
    trace();
    errno = kind == SCARCE_DESCRIPTORS ? EMFILE : kind == SCARCE_THREADS ? EAGAIN : ENOMEM;
    return true;
}

void scarce_arm(long at, int ever, unsigned kinds)
{
    dl_iterate_phdr(note_library, NULL);
    atomic_store(&all.seen, 0);
    atomic_store(&all.ever, ever != 0);
    atomic_store(&all.kinds, kinds);
    atomic_store(&all.at, at);
}

long scarce_disarm(void)
{
    atomic_store(&all.at, 0);
    return atomic_load(&all.seen);
}

/* ---- what is live ---- */

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&all.lock, memory_order_acquire))
        ;
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&all.lock, memory_order_release);
}

static unsigned place_of(uintptr_t p)
{
    return (unsigned)(((uint64_t)p * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % LIVE_ROOM;
}

static void *born(void *p, const void *caller)
{
    unsigned at = place_of((uintptr_t)p);

    if (p == NULL || !is_ours(caller))
        return p;
    lock();
    if (all.lives < LIVE_ROOM / 2) {
        while (all.live[at] != 0)
            at = (at + 1) % LIVE_ROOM;
        all.live[at] = (uintptr_t)p;
        all.lives++;
    }
    unlock();
    return p;
}

/* Those behind it that would not be found any more move up. */
static void close_gap(unsigned gap)
{
    for (unsigned at = (gap + 1) % LIVE_ROOM; all.live[at] != 0; at = (at + 1) % LIVE_ROOM) {
        unsigned wanted = place_of(all.live[at]);

        if ((at - wanted) % LIVE_ROOM < (at - gap) % LIVE_ROOM)
            continue;
        all.live[gap] = all.live[at];
        gap = at;
    }
    all.live[gap] = 0;
}

static void dies(void *p)
{
    unsigned at = place_of((uintptr_t)p);

    if (p == NULL)
        return;
    lock();
    while (all.live[at] != 0 && all.live[at] != (uintptr_t)p)
        at = (at + 1) % LIVE_ROOM;
    if (all.live[at] != 0) {
        close_gap(at);
        all.lives--;
    }
    unlock();
}

long scarce_live(void)
{
    long lives;

    lock();
    lives = all.lives;
    unlock();
    return lives;
}

/* ---- memory ---- */

void *__libc_malloc(size_t bytes);                      /* NOLINT: glibc's own names */
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *p);

void *malloc(size_t bytes)
{
    return fails(FROM_HERE, SCARCE_MEMORY) ? NULL : born(__libc_malloc(bytes), FROM_HERE);
}

void *calloc(size_t n, size_t bytes)
{
    return fails(FROM_HERE, SCARCE_MEMORY) ? NULL : born(__libc_calloc(n, bytes), FROM_HERE);
}

void *realloc(void *old, size_t bytes)
{
    void *p;

    if (fails(FROM_HERE, SCARCE_MEMORY))
        return NULL;
    dies(old);
    p = __libc_realloc(old, bytes);
    return born(p, FROM_HERE);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return fails(FROM_HERE, SCARCE_MEMORY) ? NULL : born(__libc_memalign(align, bytes), FROM_HERE);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *p = fails(FROM_HERE, SCARCE_MEMORY) ? NULL : __libc_memalign(align, bytes);

    if (p == NULL)
        return ENOMEM;
    *out = born(p, FROM_HERE);
    return 0;
}

void free(void *p)
{
    dies(p);
    __libc_free(p);
}

/* ---- mappings, threads ---- */

#define REAL(name) ((__typeof__(&name))(uintptr_t)real(#name))

static void *real(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);

    if (p == NULL)
        abort();
    return p;
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (fails(FROM_HERE, SCARCE_MAPPINGS))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    if (fails(FROM_HERE, SCARCE_THREADS))
        return EAGAIN;
    return REAL(pthread_create)(thread, attr, fn, arg);
}

/* ---- descriptors ---- */

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list more;

    if (fails(FROM_HERE, SCARCE_DESCRIPTORS))
        return -1;
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? NULL : REAL(fopen)(path, mode);
}

int memfd_create(const char *name, unsigned flags)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

int eventfd(unsigned value, int flags)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? -1 : REAL(eventfd)(value, flags);
}

int timerfd_create(int clock, int flags)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? -1 : REAL(timerfd_create)(clock, flags);
}

int epoll_create1(int flags)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? -1 : REAL(epoll_create1)(flags);
}

/* Not a descriptor, but memory of the system's: it fails as that does. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (op == EPOLL_CTL_ADD && fails(FROM_HERE, SCARCE_MAPPINGS))
        return -1;
    return REAL(epoll_ctl)(epoll, op, fd, event);
}

int socket(int domain, int type, int protocol)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? -1 : REAL(socket)(domain, type, protocol);
}

int accept4(int fd, struct sockaddr *name, socklen_t *len, int flags)
{
    return fails(FROM_HERE, SCARCE_DESCRIPTORS) ? -1 : REAL(accept4)(fd, name, len, flags);
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    long arg;

    va_start(more, command);
    arg = va_arg(more, long);
    va_end(more);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        && fails(FROM_HERE, SCARCE_DESCRIPTORS))
        return -1;
    return ((int (*)(int, int, ...))(uintptr_t)real("fcntl"))(fd, command, arg);
}

/* A descriptor that finds no room in the table is lost, and the rest of the message is not. */
ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    ssize_t n = REAL(recvmsg)(fd, m, flags);

    for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        int brought;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS
            || !fails(FROM_HERE, SCARCE_DESCRIPTORS))
            continue;
        memcpy(&brought, CMSG_DATA(c), sizeof brought);
        close(brought);
        c->cmsg_type = 0;       /* of no kind that there is */
        m->msg_flags |= MSG_CTRUNC;
    }
    return n;
}

long syscall(long number, ...)
{
    long a[6];
    va_list more;

    va_start(more, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_pidfd_open && fails(FROM_HERE, SCARCE_DESCRIPTORS))
        return -1;
    return ((long (*)(long, ...))(uintptr_t)real("syscall"))(number, a[0], a[1], a[2], a[3], a[4],
                                                             a[5]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "raw.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TRIES_BEFORE_YIELD = 200 };

/* Rank 0 makes the file, the others open it through /proc while it is kept open. */
static int shared_file(struct raw *r)
{
    long where[2] = { -1, -1 };
    char path[64];
    int fd = -1;

    if (r->rank == 0) {
        fd = memfd_create("rma_bench", MFD_CLOEXEC);
        if (fd >= 0 && ftruncate(fd, (off_t)r->mapped) == 0) {
            where[0] = getpid();
            where[1] = fd;
        }
    }
    MPI_Bcast(where, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    if (where[0] < 0)
        return -1;
    if (r->rank != 0) {
        snprintf(path, sizeof(path), "/proc/%ld/fd/%ld", where[0], where[1]);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    return fd;
}

static bool everyone(bool good)
{
    int mine = good, all;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

static bool map_shared(struct raw *r)
{
    int fd = shared_file(r);
    void *p = MAP_FAILED;

    if (fd >= 0)
        p = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!everyone(p != MAP_FAILED))
        return false;
    close(fd);
    r->shared = p;
    return true;
}

static bool find_peers(struct raw *r)
{
    size_t all = (size_t)r->size * sizeof(*r->peers);
    struct raw_peer mine;

    r->own = aligned_alloc(RAW_PAGE, (r->bytes + 2 * RAW_PAGE - 1) / RAW_PAGE * RAW_PAGE);
    r->peers = malloc(all);
    if (!everyone(r->own != NULL && r->peers != NULL))
        return false;
    memset(r->own, 0, r->bytes + RAW_PAGE);
#ifdef PR_SET_PTRACER
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
    mine.process = (uint64_t)getpid();
    mine.word = (uint64_t)(uintptr_t)r->own;
    mine.bytes = mine.word + RAW_PAGE;
    MPI_Allgather(&mine, 3, MPI_UINT64_T, r->peers, 3, MPI_UINT64_T, MPI_COMM_WORLD);
    return true;
}

void raw_aim(struct raw *r, int target)
{
    uint64_t probe;

    r->target = target;
    if (r->shared == NULL)
        return;
    r->word = &r->shared->word[target].value;
    r->far = r->shared->bytes + (size_t)target * r->bytes;
    r->peer = (pid_t)r->peers[target].process;
    r->peer_word = r->peers[target].word;
    r->peer_bytes = r->peers[target].bytes;
    if (!raw_kernel_read(r, &probe, r->peer_word, sizeof(probe)))
        r->peer = 0;
}

const char *raw_open(struct raw *r, size_t bytes)
{
    memset(r, 0, sizeof(*r));
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->size);
    if (r->size > RAW_MOST_RANKS)
        return "too many ranks";
    r->bytes = bytes;
    r->mapped = sizeof(struct raw_shared) + bytes * (size_t)r->size;
    if (!map_shared(r))
        return "no memory that all ranks map (are they on one node?)";
    if (!find_peers(r))
        return "no memory";
    raw_aim(r, (r->rank + 1) % r->size);
    return NULL;
}

void raw_close(struct raw *r)
{
    if (r->shared == NULL)
        return;
    munmap(r->shared, r->mapped);
    free(r->own);
    free(r->peers);
}

void raw_relax(unsigned *tries)
{
    if (++*tries > TRIES_BEFORE_YIELD)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    else
        __builtin_ia32_pause();
#endif
}

void raw_lock(struct raw *r)
{
    _Atomic uint64_t *lock = &r->shared->lock.value;
    unsigned tries = 0;

    while (atomic_load_explicit(lock, memory_order_relaxed) != 0 ||
           atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0)
        raw_relax(&tries);
}

void raw_unlock(struct raw *r)
{
    atomic_store_explicit(&r->shared->lock.value, 0, memory_order_release);
}

static void wait_for(const _Atomic uint64_t *word, uint64_t least)
{
    unsigned tries = 0;

    while (atomic_load_explicit(word, memory_order_acquire) < least)
        raw_relax(&tries);
}

void raw_barrier(struct raw *r)
{
    _Atomic uint64_t *arrived = &r->shared->arrived.value;

    r->rounds++;
    atomic_fetch_add_explicit(arrived, 1, memory_order_acq_rel);
    wait_for(arrived, r->rounds * (uint64_t)r->size);
}

void raw_exchange(struct raw *r, int peer)
{
    struct raw_shared *s = r->shared;

    r->exchanges++;
    atomic_store_explicit(&s->posted[r->rank].value, r->exchanges, memory_order_release);
    wait_for(&s->posted[peer].value, r->exchanges);
    atomic_store_explicit(&s->completed[r->rank].value, r->exchanges, memory_order_release);
    wait_for(&s->completed[peer].value, r->exchanges);
}

void raw_make_memory(size_t bytes)
{
    int fd = memfd_create("rma_bench", MFD_CLOEXEC);
    void *p;

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        munmap(p, bytes);
    close(fd);
}

bool raw_kernel_write(const struct raw *r, const void *from, uint64_t to, size_t bytes)
{
    struct iovec local = { .iov_base = (void *)(uintptr_t)from, .iov_len = bytes };
    struct iovec remote = { .iov_base = (void *)(uintptr_t)to, .iov_len = bytes };

    return process_vm_writev(r->peer, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

bool raw_kernel_read(const struct raw *r, void *to, uint64_t from, size_t bytes)
{
    struct iovec local = { .iov_base = to, .iov_len = bytes };
    struct iovec remote = { .iov_base = (void *)(uintptr_t)from, .iov_len = bytes };

    return process_vm_readv(r->peer, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

static ssize_t move_list(const struct raw *r, bool writes, void *local, ptrdiff_t local_step,
                         uint64_t remote, ptrdiff_t remote_step, size_t count)
{
    struct iovec here[RAW_MOST_LIST], there[RAW_MOST_LIST];

    for (size_t i = 0; i < count; i++) {
        here[i] = (struct iovec){ (unsigned char *)local + (ptrdiff_t)i * local_step, 8 };
        there[i] = (struct iovec){
            (void *)(uintptr_t)(remote + (uint64_t)((ptrdiff_t)i * remote_step)), 8 };
    }
    return writes ? process_vm_writev(r->peer, here, count, there, count, 0)
                  : process_vm_readv(r->peer, here, count, there, count, 0);
}

bool raw_kernel_move(const struct raw *r, bool writes, void *local, ptrdiff_t local_step,
                     uint64_t remote, ptrdiff_t remote_step, size_t count)
{
    size_t now;

    for (; count > 0; count -= now) {
        now = count < RAW_MOST_LIST ? count : RAW_MOST_LIST;
        if (move_list(r, writes, local, local_step, remote, remote_step, now)
            != (ssize_t)(8 * now))
            return false;
        local = (unsigned char *)local + (ptrdiff_t)now * local_step;
        remote += (uint64_t)((ptrdiff_t)now * remote_step);
    }
    return true;
}

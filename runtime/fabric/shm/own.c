/* SPDX-License-Identifier: BSD-3-Clause */

/* This process's own memory, touched for its peers.
 *
 * A window may be over anything: memory for reading only, the whole address space with its holes, a
 * file that somebody else has truncated. What a peer may not write is its mistake, so it gets an
 * error; a store of ours would be a signal here instead, at times, whenever this process happens to
 * do the copy in place of the peer. Nor is a look at the protection beforehand enough: another
 * thread may change it before the copy.
 *
 * So the system does these copies, which knows what to do about a fault. What peers read and write
 * lies in memory files of ours, the page of offers (offer.c) or a scratch. A preadv from such a
 * file stores into the spans, a pwritev to it loads from them, and either is cut short where a span
 * cannot be touched. These are ordinary accesses of this process to its own addresses. So they
 * serve what the system refuses to copy for another process, too: memfd_secret, mappings of
 * devices. That is why a peer whose own copy fails asks the owner before it believes that the
 * memory is bad.
 *
 * Single elements are too short for that. What channels do to many of them in few pages, they do
 * by loads and stores, just after the system has made these pages writable for us, or has said why
 * not (`reach`). So what is not there, or may not be written, is a status here, too. What remains
 * is a program that unmaps or protects memory, or truncates its file, in the moment in which what
 * peers do to that very page is applied. No correct one does: the memory of a window stays until
 * the window is freed, or it is detached, which waits for whoever applies something to it; and
 * whoever protects it first synchronizes with all who write there, so that the next check comes
 * after that. A peer's mistake alone is never a signal: what it may not write fails the check.
 *
 * A copy costs a system call, 0.2 to 0.3 us on a core of 2023, for up to SHM_OWN_SPANS spans, about
 * a third of what process_vm_writev takes in the peer, and 8 ns a span beyond the first. To make
 * sure of eight pages costs 0.8 us.
 *
 * Several threads may help peers: fabric->lock, which keeps the memory registered meanwhile, keeps
 * the scratch theirs, too. What channels touch so (fabric.h, `touch`) goes through a file of its
 * own, by one thread at a time; that the memory is there is their affair. */

#include "config.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor.h"
#include "memory/memfile.h"
#include "offer.h"
#include "own.h"

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#define THIS_PROCESS (-10001)   /* PIDFD_SELF_THREAD_GROUP, Linux 6.14 */
#define FEW 8                   /* calls of the system that are worth while in place of one */

static bool is_in(const struct shm_scratch *file, const unsigned char *p)
{
    return file->base != NULL && p >= file->base && p - file->base < (ptrdiff_t)file->len;
}

void loci_shm_own_begin(struct shm_own *own, const struct shm_fabric *f, bool writes,
                        const unsigned char *packed)
{
    const struct shm_scratch *file = is_in(&f->room, packed) ? &f->room : &f->scratch;
    bool found = file == &f->room || is_in(file, packed);

    own->writes = writes;
    own->fd = found ? file->fd : f->offers_fd;
    own->at = packed - (found ? file->base : (const unsigned char *)f->offers);
    own->n = 0;
    own->bytes = 0;
    own->status = LOCO_OK;
}

/* Not by the C library, whose calls are points of cancellation: a thread that the program cancels
 * would end here, with locks, and once there are several threads each call costs more. The offset
 * goes in two halves, of which a kernel of 64 bits ignores the upper one. */
static void copy(struct shm_own *own)
{
    long got;

    loci_shm_as_another_process(true);
    got = syscall(own->writes ? SYS_preadv : SYS_pwritev, own->fd, own->iov, (long)own->n,
                  (long)own->at, (long)((uint64_t)own->at >> 32));
    loci_shm_as_another_process(false);
    if (got < 0 || (size_t)got != own->bytes)
        own->status = LOCO_ERR_SYSTEM;
    own->at += (off_t)own->bytes;
    own->n = 0;
    own->bytes = 0;
}

void loci_shm_own_add(struct shm_own *own, uint64_t at, size_t len)
{
    struct iovec *last = own->n > 0 ? &own->iov[own->n - 1] : NULL;

    if (len == 0)
        return;
    if (last != NULL && (uint64_t)(uintptr_t)last->iov_base + last->iov_len == at) {
        last->iov_len += len;
    } else {
        if (own->n == SHM_OWN_SPANS && own->status == LOCO_OK)
            copy(own);
        if (own->status != LOCO_OK)
            return;
        own->iov[own->n++] = (struct iovec){ (void *)(uintptr_t)at, len };
    }
    own->bytes += len;
}

int loci_shm_own_end(struct shm_own *own)
{
    if (own->n > 0 && own->status == LOCO_OK)
        copy(own);
    return own->status;
}

/* The system adds 0 to it, atomically: where it cannot, for whatever reason, that is a status. It
 * refuses no page that a store of ours could reach, as MADV_POPULATE_WRITE does. Who changes the
 * protection before the update that follows is not kept from it. */
bool loci_shm_is_writable(const void *word)
{
    const int nothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    uint32_t nobody = 0;            /* whom it wakes */

    return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, NULL, word, nothing)
           >= 0 || errno != EFAULT;
}

/* Made on first use; NULL: there is no memory. */
static unsigned char *open_file(struct shm_fabric *f, struct shm_scratch *file, size_t len)
{
    void *base = MAP_FAILED;
    int fd;

    if (file->base != NULL)
        return file->base;
    fd = loci_memfile("loco-scratch", len, false);
    if (fd >= 0)
        base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        loci_descriptor_missing(f->rt, "no memory to copy for a peer");
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    *file = (struct shm_scratch){ base, fd, len };
    return file->base;
}

unsigned char *loci_shm_scratch(struct shm_fabric *f)
{
    return open_file(f, &f->scratch, SHM_SCRATCH);
}

static void close_file(struct shm_scratch *file)
{
    if (file->base == NULL)
        return;
    munmap(file->base, file->len);
    close(file->fd);
    file->base = NULL;
}

void loci_shm_scratch_close(struct shm_fabric *f)
{
    close_file(&f->scratch);
    close_file(&f->room);
}

/* ---- for channels ---- */

unsigned char *loci_shm_touch_room(struct loci_fabric *fabric, size_t len)
{
    struct shm_fabric *f = shm_of(fabric);

    return f->room.base == NULL || f->room.len >= len ? open_file(f, &f->room, len) : NULL;
}

int loci_shm_touch(struct loci_fabric *fabric, bool writes, const struct loci_piece *pieces, int n,
                   unsigned char *packed)
{
    struct shm_own own;

    loci_shm_own_begin(&own, shm_of(fabric), writes, packed);
    for (int i = 0; i < n; i++)
        loci_shm_own_add(&own, pieces[i].at, pieces[i].len);
    return loci_shm_own_end(&own);
}

static bool reach_each(const struct loci_piece *pieces, int n)
{
    for (int i = 0; i < n; i++)
        if (madvise((void *)(uintptr_t)pieces[i].at, pieces[i].len, MADV_POPULATE_WRITE) != 0)
            return false;
    return true;
}

static bool reach_all(const struct loci_piece *pieces, int n)
{
    struct iovec iov[SHM_OWN_SPANS];
    size_t bytes = 0;

    if (n > SHM_OWN_SPANS)
        return false;
    for (int i = 0; i < n; i++) {
        iov[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].at, pieces[i].len };
        bytes += pieces[i].len;
    }
    return syscall(SYS_process_madvise, THIS_PROCESS, iov, n, MADV_POPULATE_WRITE, 0)
           == (long)bytes;
}

/* Unlike a look at the protection this also breaks sharing with children, fills holes of files and
 * finds that there is no more memory, each as the store would. Memory of devices, secret memory and
 * kernels before 5.14 are refused. */
bool loci_shm_reach(struct loci_fabric *fabric, const struct loci_piece *pieces, int n)
{
    (void)fabric;
    if (!(n > 1 && reach_all(pieces, n)) && !(n <= FEW && reach_each(pieces, n)))
        return false;
    loci_shm_as_another_process(true);
    return true;
}

void loci_shm_reached(struct loci_fabric *fabric)
{
    (void)fabric;
    loci_shm_as_another_process(false);
}

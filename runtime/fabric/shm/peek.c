/* SPDX-License-Identifier: BSD-3-Clause */

/* Short copies from and to a peer's user memory, through its /proc/PID/mem.
 *
 * process_vm_readv and _writev find the process and ask whether we may look at it in each call; a
 * descriptor has that behind it, so a word is read a sixth sooner and written a tenth. The system
 * copies through a page of its own, though, so that from a few kilobytes on it is the slower way;
 * writes sooner. The calls are not those of the C library, which are points of cancellation: where
 * there are several threads, as here, that costs a twentieth of a short one.
 *
 * As debuggers want it, this way writes to memory that is mapped for reading only, too, where
 * process_vm_writev refuses. So before it is used to write somewhere, the system is asked what the
 * peer's mapping there is, and one answer is remembered for all that lies in the same mapping: who
 * protects memory that he has put into a window finds it written all the same. Kernels before 6.11
 * cannot be asked so; there, writes are process_vm_writev's.
 *
 * The descriptor belongs to the memory, not to the pid: of a process that has ended it reads and
 * writes nothing, whoever has its pid then. That it is the right process's is made sure when it is
 * opened: the pid was that process's afterwards. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor.h"
#include "wait.h"
#include "shm.h"

#define PEEK_MAX 4096           /* bytes; with more, process_vm_* are as fast */
#define POKE_MAX 2048           /* the same of a write */
#define MEM_FDS 32              /* peers whose memory is open, at most: the first ones */
#define AGAIN_AFTER INT64_C(1000000000) /* ns until a file that could not be had is tried again */
#define WRITES_TO_ASK 256       /* outside of what is known to be writable, from answer to answer */

/* What the system says of a mapping; linux/fs.h has it from 6.11 on. */
struct mapping_query {
    uint64_t size, flags, address;
    uint64_t start, end, permissions, page_bytes, offset, inode;
    uint32_t major, minor, name_bytes, build_id_bytes;
    uint64_t name, build_id;
};
#define QUERY_MAPPING _IOWR('f', 17, struct mapping_query)
#define WRITABLE 2u             /* of flags: those alone; of permissions */

/* It only makes things faster, so there are few, and only while descriptors are plenty. `*later`:
 * there may be one another time. */
static int open_memory(struct shm_peer *p, bool *later)
{
    struct shm_fabric *f = p->fabric;
    int fd = -1;

    *later = true;
    if (atomic_fetch_add_explicit(&f->mem_fds, 1, memory_order_relaxed) < MEM_FDS) {
        fd = loci_shm_open_of(p, "mem", O_RDWR);
        *later = fd >= 0 || errno == EMFILE || errno == ENFILE;
    }
    if (fd >= 0 && !loci_descriptor_is_spare(fd, LOCI_SPARE_HALF)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        atomic_fetch_sub_explicit(&f->mem_fds, 1, memory_order_relaxed);
    return fd;
}

static bool may_open(struct shm_peer *p, int state)
{
    int64_t again = atomic_load_explicit(&p->mem_again, memory_order_relaxed);

    return state == SHM_MEM_UNOPENED || (again != INT64_MAX && loci_now(p->fabric->rt) >= again);
}

/* The descriptor, opened on first use; below 0: there is none to be had, for now or for good.
 * Acquire and release: who reads through it comes after its opening. */
static int memory_of(struct shm_peer *p)
{
    int state = atomic_load_explicit(&p->mem_fd, memory_order_acquire), fd;
    bool later;

    if (state >= 0 || !may_open(p, state))
        return state;
    fd = open_memory(p, &later);
    if (fd < 0)
        atomic_store_explicit(&p->mem_again, later ? loci_now(p->fabric->rt) + AGAIN_AFTER
                                                   : INT64_MAX, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&p->mem_fd, &state, fd < 0 ? SHM_MEM_NONE : fd,
                                                memory_order_acq_rel, memory_order_acquire))
        return fd;
    if (fd >= 0) {          /* another thread was first */
        close(fd);
        atomic_fetch_sub_explicit(&p->fabric->mem_fds, 1, memory_order_relaxed);
    }
    return state;
}

bool loci_shm_peek(struct shm_peer *p, uint64_t at, void *local, size_t len)
{
    int fd;

    if (len > PEEK_MAX || (fd = memory_of(p)) < 0)
        return false;
    return syscall(SYS_pread64, fd, local, len, (off_t)at) == (long)len;
}

/* ---- writing ---- */

static bool is_writable(const struct shm_writable *w, uint64_t at, size_t len)
{
    unsigned turn = atomic_load_explicit(&w->turn, memory_order_acquire);
    uint64_t from = atomic_load_explicit(&w->from, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(&w->to, memory_order_relaxed);

    /* Acquire: what is read above is not younger than the second look at the turn. */
    atomic_thread_fence(memory_order_acquire);
    return turn % 2 == 0 && atomic_load_explicit(&w->turn, memory_order_relaxed) == turn
           && at >= from && at < to && len <= to - at;
}

/* Which mapping `at` is in, if it can be written. False: the system cannot be asked. */
static bool ask(struct shm_peer *p, uint64_t at, uint64_t *from, uint64_t *to)
{
    struct mapping_query query = { .size = sizeof query, .flags = WRITABLE, .address = at };
    int fd = loci_shm_open_of(p, "maps", O_RDONLY), error;

    *from = *to = 0;
    if (fd < 0)
        return false;
    error = ioctl(fd, QUERY_MAPPING, &query) != 0 ? errno : 0;
    close(fd);
    if (error == 0 && (query.permissions & WRITABLE) != 0) {
        *from = query.start;
        *to = query.end;
    }
    return error == 0 || error == ENOENT;
}

/* Now and then, for the mapping that is written to then: its turn is odd while it changes. */
static void learn_writable(struct shm_peer *p, uint64_t at)
{
    struct shm_writable *w = &p->writable;
    unsigned turn = atomic_load_explicit(&w->turn, memory_order_relaxed);
    uint64_t from, to;

    if (turn % 2 != 0)
        return;
    if ((atomic_fetch_add_explicit(&w->strange, 1, memory_order_relaxed) + 1) % WRITES_TO_ASK != 0
        || !atomic_compare_exchange_strong_explicit(&w->turn, &turn, turn + 1,
                                                    memory_order_acquire, memory_order_relaxed))
        return;
    if (!ask(p, at, &from, &to))
        return;             /* and never again */
    /* Release: who reads a new bound sees the odd turn at its second look. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&w->from, from, memory_order_relaxed);
    atomic_store_explicit(&w->to, to, memory_order_relaxed);
    atomic_store_explicit(&w->turn, turn + 2, memory_order_release);
}

bool loci_shm_poke(struct shm_peer *p, uint64_t at, const void *local, size_t len)
{
    int fd;

    if (len > POKE_MAX)
        return false;
    if (!is_writable(&p->writable, at, len)) {
        learn_writable(p, at);
        return false;
    }
    fd = memory_of(p);
    return fd >= 0 && syscall(SYS_pwrite64, fd, local, len, (off_t)at) == (long)len;
}

void loci_shm_peek_close(struct shm_peer *p)
{
    int fd = atomic_load_explicit(&p->mem_fd, memory_order_acquire);

    if (fd < 0)
        return;
    close(fd);
    atomic_fetch_sub_explicit(&p->fabric->mem_fds, 1, memory_order_relaxed);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Ways to a peer's process in the kernel: copies of its memory, files of its /proc/PID.
 *
 * A pid is also the number of the process's first thread, and what these calls look for is a
 * thread. A program may let its first thread go (pthread_exit in main) and live on in others; then
 * its pid leads to a thread that has no memory and no files any more. So `task` is the pid until a
 * call fails as it does for such a thread. From then on it is the peer's service thread, which
 * lives as long as its runtime. Before that number is used, the thread's start time is compared: it
 * may belong to another thread by now. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm.h"

static bool surely_alive(struct shm_peer *p)
{
    bool alive;

    pthread_mutex_lock(&p->lock);
    alive = loci_shm_surely_alive(p);
    pthread_mutex_unlock(&p->lock);
    return alive;
}

/* After the pid has led nowhere: whether there is another thread to try. Keeps errno. */
static bool other_task(struct shm_peer *p, int32_t failed)
{
    const struct loci_address *a = &p->peer->address;
    int error = errno;
    uint64_t start;
    bool is_its;

    if (failed != a->pid || a->service == 0)
        return false;
    start = loci_shm_start_time(a->service);
    is_its = start == a->service_start || (start == 0 && surely_alive(p));
    if (is_its)
        atomic_store_explicit(&p->task, a->service, memory_order_relaxed);
    errno = error;
    return is_its;
}

ssize_t loci_shm_vm_copy(struct shm_peer *p, bool write, const struct iovec *local,
                         const struct iovec *remote, size_t n)
{
    int32_t task;
    ssize_t got;

    do {
        task = atomic_load_explicit(&p->task, memory_order_relaxed);
        got = write ? process_vm_writev(task, local, n, remote, n, 0)
                    : process_vm_readv(task, local, n, remote, n, 0);
    } while (got < 0 && errno == ESRCH && other_task(p, task));
    return got;
}

/* Whether that is the first thread, and has gone: field 3 of /proc/PID/stat. */
static bool is_left(const struct shm_peer *p, int32_t task)
{
    char path[32], line[1024], *after = NULL;
    FILE *f;

    if (task != p->peer->address.pid)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", task);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fgets(line, sizeof line, f) != NULL)
        after = strrchr(line, ')');
    fclose(f);
    return after != NULL && after[1] == ' ' && after[2] == 'Z';
}

/* -1, also where the process is another one by now, or no descriptor is left to see that by. Nobody
 * else has had the pid up to now where the pidfd, which was compared, says that it lives. */
static int open_once(struct shm_peer *p, int32_t task, const char *file, int flags)
{
    const struct loci_address *a = &p->peer->address;
    uint64_t start = task == a->pid ? a->start_time : a->service_start;
    char path[64];
    int fd, error;

    snprintf(path, sizeof path, "/proc/%d/%s", task, file);
    fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (task == a->pid && surely_alive(p))
        return fd;
    errno = 0;
    if (loci_shm_start_time(task) == start)
        return fd;
    error = errno == EMFILE || errno == ENFILE ? errno : ESRCH;
    close(fd);
    errno = error;
    return -1;
}

int loci_shm_open_of(struct shm_peer *p, const char *file, int flags)
{
    int32_t task;
    int fd;

    do {
        task = atomic_load_explicit(&p->task, memory_order_relaxed);
        fd = open_once(p, task, file, flags);
    } while (fd < 0 && errno != EMFILE && errno != ENFILE && is_left(p, task)
             && other_task(p, task));
    return fd;
}

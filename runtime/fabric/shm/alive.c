/* SPDX-License-Identifier: BSD-3-Clause */

/* Who is alive. A pidfd becomes readable when its process ends, by whatever. Where the pid says
 * nothing here (another pid namespace, an old kernel), a connection that we hold hangs up.
 *
 * What a process sent before it ended counts: its messages are taken before its end is told, and
 * a goodbye among them makes the difference between left and dead. */

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "service.h"
#include "offer.h"
#include "shm.h"

uint64_t loci_shm_start_time(int32_t pid)
{
    unsigned long long start = 0;
    char path[32], line[1024], *after;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fgets(line, sizeof line, f) != NULL && (after = strrchr(line, ')')) != NULL
        && sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                  "%*d %*d %*d %llu", &start) != 1)
        start = 0;
    fclose(f);
    return start;
}

static void pid_ended(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    (void)events;
    loci_service_unwatch(rt, fd);
    loci_shm_ended(ctx, "its process has ended");
}

/* A pidfd of exactly that process: its start time is looked at while the pidfd holds it. */
static int open_pid(struct shm_peer *p)
{
    const struct loci_address *a = &p->peer->address;
    int fd;

    if (p->fabric->pid_space == 0 || a->fabric[0] != p->fabric->pid_space)
        return -1;
    fd = (int)syscall(SYS_pidfd_open, a->pid, 0);
    if (fd >= 0 && loci_shm_start_time(a->pid) != a->start_time) {
        close(fd);
        errno = ESRCH;
        fd = -1;
    }
    return fd;
}

int loci_shm_watch_life(struct shm_peer *p)
{
    struct loco_runtime *rt = p->fabric->rt;

    p->pid_fd = open_pid(p);
    if (p->pid_fd >= 0
        && loci_service_watch(rt, p->pid_fd, EPOLLIN, pid_ended, p) == LOCO_OK)
        return LOCO_OK;
    if (p->pid_fd >= 0)
        close(p->pid_fd);
    p->pid_fd = -1;
    return loci_shm_connect(p);
}

void loci_shm_ended(struct shm_peer *p, const char *how)
{
    if (p->gone || atomic_load_explicit(&p->parted, memory_order_relaxed))
        return;
    loci_shm_drain(p);
    if (p->gone)
        return;
    p->gone = true;
    loci_shm_area_close(p);
    loci_shm_offers_reclaim(p);
    loci_peer_gone(p->fabric->rt, p->peer, p->goodbye ? LOCI_PEER_LEFT : LOCI_PEER_DEAD, how);
}

void loci_shm_alive_close(struct shm_peer *p)
{
    if (p->pid_fd < 0)
        return;
    loci_service_unwatch(p->fabric->rt, p->pid_fd);
    close(p->pid_fd);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Who is alive. A pidfd becomes readable when its process ends, by whatever: the last of its
 * threads, that is; the first one may have gone before. That is one descriptor per peer, closed
 * when it has ended. There is none where the pid says nothing here (another pid namespace, an old
 * kernel), and where the few descriptors that are left are needed for something else. The service
 * thread asks by the clock then: the name of the peer's socket has no owner once the process, or
 * its runtime, has ended; and where a child inherited the socket, no process has that pid.
 *
 * Another user may take the name of a dead process's socket, and so make it look alive. The socket
 * itself has an inode, which its owner has told its peers: once a second the system is asked
 * whether it is still there, where it can say so (CONFIG_UNIX_DIAG).
 *
 * A runtime may go without a word while its process lives on: by an exec, or because it closed
 * while this process was stopped and its queue full of others' goodbyes. So those with a pidfd are
 * asked for in the same way, every ten seconds.
 *
 * What a process sent before it ended counts: its messages are taken before its end is told, and
 * a goodbye among them makes the difference between left and dead. */

#include "config.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor.h"
#include "service.h"
#include "wait.h"
#include "offer.h"
#include "shm.h"

#define OWNERS_NS INT64_C(1000000000)       /* from one look at the sockets' inodes to the next */

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
    (void)rt;
    (void)fd;
    (void)events;
    loci_shm_ended(ctx, "its process has ended");
}

static bool shows_pid(const struct shm_peer *p)
{
    return p->fabric->pid_space != 0 && p->peer->address.fabric[0] == p->fabric->pid_space;
}

/* A pidfd of exactly that process: its start time is looked at while the pidfd holds it. */
static int open_pid(const struct shm_peer *p)
{
    const struct loci_address *a = &p->peer->address;
    int fd;

    if (!shows_pid(p))
        return -1;
    fd = (int)syscall(SYS_pidfd_open, a->pid, 0);
    if (fd >= 0 && loci_descriptor_is_spare(fd, LOCI_SPARE_MOST)
        && loci_shm_start_time(a->pid) == a->start_time)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool loci_shm_surely_alive(const struct shm_peer *p)
{
    struct pollfd end = { .fd = p->pid_fd, .events = POLLIN };

    return p->pid_fd >= 0 && poll(&end, 1, 0) == 0;
}

/* ---- asking ---- */

static int probe_later(struct shm_peer *p)
{
    struct shm_fabric *f = p->fabric;

    if (f->probe_fd < 0)
        f->probe_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (f->probe_fd < 0) {
        loci_descriptor_missing(f->rt, "no socket to see by who is alive");
        return LOCO_ERR_SYSTEM;
    }
    p->polled = true;
    atomic_fetch_add(&f->polled, 1);
    loci_shm_timer_soon(f);
    return LOCO_OK;
}

/* 1: the system knows a local socket of that inode; 0: it knows none; -1: it does not say. It
 * answers before send returns. */
static int ask_system(int fd, uint64_t inode)
{
    const struct {
        struct nlmsghdr head;
        struct unix_diag_req ask;
    } request = {
        { .nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
          .nlmsg_flags = NLM_F_REQUEST },
        { .sdiag_family = AF_UNIX, .udiag_states = UINT32_MAX, .udiag_ino = (uint32_t)inode,
          .udiag_cookie = { UINT32_MAX, UINT32_MAX } },
    };
    union {
        struct nlmsghdr head;
        unsigned char bytes[1024];
    } answer;
    const struct nlmsgerr *error = NLMSG_DATA(&answer.head);

    if (send(fd, &request, sizeof request, 0) != sizeof request
        || recv(fd, &answer, sizeof answer, MSG_DONTWAIT)
           < (ssize_t)(NLMSG_HDRLEN + sizeof error->error))
        return -1;
    if (answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY)
        return 1;
    return answer.head.nlmsg_type == NLMSG_ERROR && error->error == -ENOENT ? 0 : -1;
}

/* A system that cannot tell says that there is no such socket: so it is asked for ours first. */
bool loci_shm_socket_is_gone(const struct shm_peer *p)
{
    uint64_t ours = p->fabric->rt->address.socket, its = p->peer->address.socket;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool gone = fd >= 0 && ours != 0 && its != 0 && ask_system(fd, ours) == 1
                && ask_system(fd, its) == 0;

    if (fd >= 0)
        close(fd);
    return gone;
}

/* Connecting asks for the owner of a name, and tells it nothing. */
static bool is_there(const struct shm_peer *p, int probe_fd)
{
    if (connect(probe_fd, (const struct sockaddr *)&p->name, p->name_len) != 0
        && errno == ECONNREFUSED)
        return false;
    return !shows_pid(p) || kill(p->peer->address.pid, 0) == 0 || errno != ESRCH;
}

void loci_shm_probe_polled(struct shm_fabric *f)
{
    const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    bool owners = loci_now(f->rt) >= f->owners_at;

    if (owners)
        f->owners_at = loci_now(f->rt) + OWNERS_NS;
    for (struct shm_peer *p = loci_shm_first_peer(f); p != NULL; p = p->next)
        if (p->polled
            && (!is_there(p, f->probe_fd) || (owners && loci_shm_socket_is_gone(p))))
            loci_shm_ended(p, "its control socket is gone");
    connect(f->probe_fd, &nobody, sizeof nobody);
}

void loci_shm_probe_watched(struct shm_fabric *f)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return;         /* next time */
    for (struct shm_peer *p = loci_shm_first_peer(f); p != NULL; p = p->next)
        if (p->pid_fd >= 0 && (!is_there(p, fd) || loci_shm_socket_is_gone(p)))
            loci_shm_ended(p, "its control socket is gone");
    close(fd);
}

/* ---- life ---- */

int loci_shm_watch_life(struct shm_peer *p)
{
    struct loco_runtime *rt = p->fabric->rt;

    p->pid_fd = open_pid(p);
    if (p->pid_fd < 0)
        return probe_later(p);
    /* Counted first: its end may be told at once. */
    if (atomic_fetch_add(&p->fabric->watched, 1) == 0)
        loci_shm_timer_soon(p->fabric);
    if (loci_service_watch(rt, p->pid_fd, EPOLLIN, pid_ended, p) == LOCO_OK)
        return LOCO_OK;
    atomic_fetch_sub(&p->fabric->watched, 1);
    close(p->pid_fd);
    p->pid_fd = -1;
    return probe_later(p);
}

void loci_shm_stop_watching(struct shm_peer *p)
{
    if (p->polled)
        atomic_fetch_sub(&p->fabric->polled, 1);
    p->polled = false;
    loci_shm_alive_close(p);
}

void loci_shm_ended(struct shm_peer *p, const char *how)
{
    loci_shm_stop_watching(p);
    if (p->gone || atomic_load_explicit(&p->parted, memory_order_relaxed))
        return;
    loci_shm_drain(p->fabric);
    loci_shm_unpark(p);
    loci_shm_link_close(p);
    if (p->gone)
        return;
    p->gone = true;
    loci_shm_area_close(p);
    loci_shm_offers_reclaim(p);
    loci_peer_gone(p->fabric->rt, p->peer, p->goodbye ? LOCI_PEER_LEFT : LOCI_PEER_DEAD, how);
    loci_shm_unmap_unused(p);
}

void loci_shm_alive_close(struct shm_peer *p)
{
    int fd;

    pthread_mutex_lock(&p->lock);
    fd = p->pid_fd;
    p->pid_fd = -1;
    pthread_mutex_unlock(&p->lock);
    if (fd < 0)
        return;
    atomic_fetch_sub(&p->fabric->watched, 1);
    loci_service_unwatch(p->fabric->rt, fd);
    close(fd);
}

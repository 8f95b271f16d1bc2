/* SPDX-License-Identifier: BSD-3-Clause */

/* One at a time of a node's processes asks for memory, and is done before the next one looks at
 * what is left. Else several that ask at once could each find enough, and together take too much.
 *
 * It is a flock on an inode that is always there, so the kernel releases it whatever its holder
 * dies of, and nobody can leave a lock file behind. But everybody can open that inode: another
 * user may hold the lock for as long as they like. (What only this user can open is not on all
 * machines, or somebody has to make and remove it.) The system tells who holds a lock: a process of
 * this user is waited for until it is done, unless it takes very long, since it may be stopped. For
 * anybody else there is a quarter of a second a minute, of all calls together. Who goes without the
 * turn looks at what is left more often (extent.c). */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime.h"
#include "turn.h"
#include "wait.h"

#define PATIENCE INT64_C(30000000000)       /* ns, for processes of this user, */
#define PATIENCE_STRANGERS INT64_C(250000000)   /* and of others, in */
#define MINUTE INT64_C(60000000000)
#define SLICE INT64_C(20000000)             /* then it is looked who holds it */
#define LOCKS_BYTES 65536                   /* of the system's table, which strangers may fill */

int loci_turn_open(void)
{
    /* The network namespace is what our sockets share, so all peers see this inode. */
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

    return fd >= 0 ? fd : open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* LOCO_OK; LOCO_ERR_AGAIN: another one has it. */
static int try_lock(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return LOCO_OK;
    return errno == EWOULDBLOCK || errno == EINTR ? LOCO_ERR_AGAIN : LOCO_ERR_SYSTEM;
}

/* ---- who holds it ---- */

/* The pid in the line of /proc/locks for a flock on that inode, else 0:
 * "1: FLOCK  ADVISORY  WRITE 4711 00:04:4026531840 0 EOF". */
static long holder_in(const char *line, unsigned long long inode)
{
    unsigned long long at;
    long pid;

    if (sscanf(line, "%*d: FLOCK %*s %*s %ld %*x:%*x:%llu", &pid, &at) != 2 || at != inode)
        return 0;
    return pid;
}

/* Of this user: nobody else can make a process look so. */
static bool is_ours(long pid)
{
    struct stat process;
    char path[32];

    snprintf(path, sizeof path, "/proc/%ld", pid);
    return pid > 0 && stat(path, &process) == 0 && process.st_uid == geteuid();
}

static bool holder_is_ours(int fd)
{
    FILE *locks = fopen("/proc/locks", "re");
    struct stat file;
    char line[256];
    size_t bytes = 0;
    long pid = 0;

    if (locks != NULL && fstat(fd, &file) == 0)
        while (pid == 0 && bytes < LOCKS_BYTES && fgets(line, sizeof line, locks) != NULL) {
            bytes += strlen(line);
            pid = holder_in(line, (unsigned long long)file.st_ino);
        }
    if (locks != NULL)
        fclose(locks);
    return is_ours(pid);
}

/* ---- waiting ---- */

/* What strangers may still cost in this minute. */
static int64_t patience_left(struct loco_runtime *rt, struct loci_turn *turn)
{
    int64_t now = loci_now(rt), since = atomic_load(&turn->since);

    if (since == 0 || now - since >= MINUTE) {
        atomic_store(&turn->since, now);
        atomic_store(&turn->waited, 0);
    }
    return PATIENCE_STRANGERS - atomic_load(&turn->waited);
}

static void tell_without(struct loco_runtime *rt, struct loci_turn *turn, const char *why)
{
    int64_t now = loci_now(rt), until = atomic_load(&turn->quiet_until);

    if (now >= until && atomic_compare_exchange_strong(&turn->quiet_until, &until, now + MINUTE))
        LOCI_LOG(rt, LOCO_LOG_INFO, "asking for memory without the node's lock: %s", why);
}

/* Another one has it: wait for a slice, or what is left of our patience. LOCO_ERR_AGAIN: not yet,
 * LOCO_ERR_TIMEOUT: that is over. The clock is read in each round: on a busy machine a round may
 * take as long as a slice. */
static int wait_some(struct loco_runtime *rt, struct loci_turn *turn, int fd, int64_t *ours)
{
    bool mine = holder_is_ours(fd);
    int64_t start = loci_now(rt), left = mine ? PATIENCE - *ours : patience_left(rt, turn), took;
    int status = LOCO_ERR_AGAIN;
    unsigned rounds = 0;

    if (left <= 0)
        return LOCO_ERR_TIMEOUT;
    do {
        loci_wait_round(rt, &rounds);
        status = try_lock(fd);
        took = loci_now(rt) - start;
    } while (status == LOCO_ERR_AGAIN && took < SLICE && took < left);
    if (mine)
        *ours += took;
    else
        atomic_fetch_add(&turn->waited, took);
    return status;
}

int loci_turn_take(struct loco_runtime *rt, struct loci_turn *turn)
{
    int fd = loci_turn_open(), status = fd < 0 ? LOCO_ERR_SYSTEM : try_lock(fd);
    int64_t ours = 0;

    while (status == LOCO_ERR_AGAIN)
        status = wait_some(rt, turn, fd, &ours);
    if (status == LOCO_OK)
        return fd;
    tell_without(rt, turn, status == LOCO_ERR_TIMEOUT
                 ? "another process holds it for too long; /proc/locks tells which"
                 : strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

void loci_turn_give(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* workers N: a process that stays, and N workers, one after the other, each a program of its own.
 * They meet, share a region and a queue, write to each other, and part; every other worker is
 * killed in the middle of it. In the end the one that stays holds what it held after the first
 * ten. */

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <loco/loco.h>

#include "held.h"

#define FIRST 10                /* workers before anything is counted */
#define PART 100000             /* bytes of the region, for each */
#define RSS_KIB 1024            /* that it may grow by in all */

extern char **environ;

/* Of a socket; its rank is that of a member. */
struct end {
    int fd, rank;
};

/* An allgather of the two. */
static int swap(void *ctx, const void *mine, size_t len, void *all)
{
    const struct end *end = ctx;
    unsigned char *theirs = (unsigned char *)all + (size_t)(1 - end->rank) * len;

    memcpy((unsigned char *)all + (size_t)end->rank * len, mine, len);
    if (len == 0)
        return LOCO_OK;
    if (send(end->fd, mine, len, MSG_NOSIGNAL) != (ssize_t)len)
        return LOCO_ERR_SYSTEM;
    return recv(end->fd, theirs, len, MSG_WAITALL) == (ssize_t)len ? LOCO_OK : LOCO_ERR_SYSTEM;
}

static loco_runtime_t *open_alone(uint64_t identity)
{
    struct end end = { -1, 0 };
    const struct loco_bootstrap boot = {
        .identity = identity, .exchange = { &end, 0, 1, swap },
    };
    loco_runtime_t *rt;

    MUST(loco_runtime_open(&boot, &rt) == LOCO_OK);
    return rt;
}

/* What one of the two does. */
static void meet(loco_runtime_t *rt, int fd, int rank, bool dies)
{
    struct end end = { fd, rank };
    const struct loco_exchange exchange = { &end, rank, 2, swap };
    loco_group_t *both;
    loco_region_t *region;
    loco_queue_t *queue;
    uint64_t word = 0;

    MUST(loco_group_meet(rt, &exchange, &both) == LOCO_OK);
    MUST(loco_region_create(rt, NULL, "shared", both, PART, &region) == LOCO_OK);
    MUST(loco_queue_create(rt, NULL, "jobs", both, 8, 16, 0, &queue) == LOCO_OK);
    MUST(loco_runtime_wait_ready(rt, 20 * INT64_C(1000000000)) == LOCO_OK);
    MUST(loco_region_write64(region, 1 - rank, 8, 7) == LOCO_OK);
    if (rank == 0) {
        MUST(loco_queue_push(queue, &word) == LOCO_OK);
    } else {
        MUST(loco_queue_pop(queue, &word) == LOCO_OK);
        if (dies)
            kill(getpid(), SIGKILL);
    }
    loco_queue_destroy(queue);
    loco_region_destroy(region);
    loco_group_destroy(both);
}

static void run_worker(loco_runtime_t *rt, char *program, int n)
{
    char role[] = "worker", fd[16], number[16];
    char *const argv[] = { program, role, fd, number, NULL };
    int pair[2], ended;
    pid_t pid;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    snprintf(fd, sizeof fd, "%d", pair[1]);
    snprintf(number, sizeof number, "%d", n);
    MUST(posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0);
    close(pair[1]);
    meet(rt, pair[0], 0, false);
    close(pair[0]);
    MUST(waitpid(pid, &ended, 0) == pid);
    MUST(n % 2 == 1 ? WIFSIGNALED(ended) : WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

int main(int argc, char **argv)
{
    loco_runtime_t *rt;
    struct held before, now;
    int n = argc > 1 ? atoi(argv[1]) : 20;

    if (argc == 4) {
        rt = open_alone(UINT64_C(0x3000000) + (unsigned)atoi(argv[3]));
        meet(rt, atoi(argv[2]), 1, atoi(argv[3]) % 2 == 1);
        loco_runtime_close(rt);
        return 0;
    }
    rt = open_alone(UINT64_C(0x2000000));
    for (int i = 0; i < FIRST; i++)
        run_worker(rt, argv[0], i);
    usleep(200000);
    before = held_now();
    held_tell("after the first", &before);
    for (int i = 0; i < n; i++)
        run_worker(rt, argv[0], FIRST + i);
    held_becomes(&before, RSS_KIB, &now);
    held_tell("after all", &now);
    MUST(held_is_as(&before, &now, RSS_KIB));
    loco_runtime_close(rt);
    return 0;
}

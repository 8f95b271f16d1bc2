/* SPDX-License-Identifier: BSD-3-Clause */

/* elastic WORKERS: two members stay; workers, one after the other, meet them, write to both and are
 * written to, and leave; every other one is killed. What the devices hold for them is given back:
 * as many queue pairs as before, by the kernel's count (`rdma resource`). Speaks TAP. */

#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

enum { MEMBERS = 2, ALL = 3, PIECE = 4096, SECONDS = 250 };

/* Shared by all processes: the exchange of a group of n. */
struct hub {
    pthread_barrier_t meet;
    int n;
    unsigned char piece[ALL][PIECE];
};

struct seat {
    struct hub *hub;
    int rank;
};

static struct shared {
    struct hub two, three;
    _Atomic int failed;
} *shared;

static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    const struct seat *s = ctx;

    memcpy(s->hub->piece[s->rank], mine, len);
    pthread_barrier_wait(&s->hub->meet);
    for (int i = 0; i < s->hub->n; i++)
        memcpy((unsigned char *)all + (size_t)i * len, s->hub->piece[i], len);
    pthread_barrier_wait(&s->hub->meet);
    return LOCO_OK;
}

static void open_hub(struct hub *hub, int n)
{
    pthread_barrierattr_t attr;

    hub->n = n;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&hub->meet, &attr, (unsigned)n);
}

/* "0: rxe0: pd 2 cq 4 qp 3 cm_id 0 mr 1 ctx 1 srq 0", for each device. */
static int queue_pairs(void)
{
    FILE *said = popen("rdma resource show", "r");
    char line[512];
    int n = 0;

    while (said != NULL && fgets(line, sizeof line, said) != NULL) {
        const char *at = strstr(line, " qp ");

        n += at != NULL ? atoi(at + 4) : 0;
    }
    if (said != NULL)
        pclose(said);
    return n;
}

/* All of them write to all. */
static int write_to_all(loco_runtime_t *rt, const struct seat *seat, int w, loco_group_t **group,
                        loco_region_t **region)
{
    const struct loco_exchange exchange = { (void *)seat, seat->rank, seat->hub->n, allgather };
    char name[16];

    snprintf(name, sizeof name, "with%d", w);
    CHECK_OK(loco_group_meet(rt, &exchange, group));
    CHECK_OK(loco_region_create(rt, NULL, name, *group, PIECE, region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 0; i < seat->hub->n; i++)
        CHECK_OK(loco_region_write64(*region, i, 8 * (uint64_t)seat->rank, 1));
    CHECK_OK(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    return 0;
}

static int open_runtime(struct seat *seat, uint64_t identity, int size, loco_runtime_t **rt)
{
    const struct loco_bootstrap boot = {
        .identity = identity, .exchange = { seat, seat->rank, size, allgather },
    };

    return loco_runtime_open(&boot, rt);
}

static int goes_back_to(int before)
{
    int64_t begin = run_now();
    int now;

    while ((now = queue_pairs()) != before && run_now() - begin < run_limit(RUN_PATIENCE))
        usleep(100000);
    printf("# %d queue pairs, %d before\n", now, before);
    return now == before ? 0 : 1;
}

/* With worker number w. Member 0 counts. */
static int meet_worker(loco_runtime_t *rt, int rank, int w, int before)
{
    struct seat seat = { &shared->three, rank };
    loco_region_t *region;
    loco_group_t *group;

    CHECK(write_to_all(rt, &seat, w, &group, &region) == 0);
    pthread_barrier_wait(&shared->three.meet);      /* it goes now */
    while (loco_group_alive(group, MEMBERS) == LOCO_OK)
        usleep(1000);
    pthread_barrier_wait(&shared->two.meet);
    if (rank == 0) {
        bool back = goes_back_to(before) == 0;

        printf("%sok %d - a worker that %s leaves no queue pair behind\n", back ? "" : "not ",
               w + 1, w % 2 == 0 ? "has closed its runtime" : "is killed");
        shared->failed += !back;
    }
    pthread_barrier_wait(&shared->two.meet);
    loco_region_destroy(region);
    loco_group_destroy(group);
    return 0;
}

static int member(int rank, int workers)
{
    struct seat seat = { &shared->two, rank };
    loco_runtime_t *rt;
    loco_region_t *region;
    loco_group_t *group;
    int before;

    CHECK_OK(open_runtime(&seat, UINT64_C(0x7e00000) + (unsigned)rank, MEMBERS, &rt));
    CHECK(write_to_all(rt, &seat, -1, &group, &region) == 0);
    pthread_barrier_wait(&shared->two.meet);
    before = queue_pairs();
    pthread_barrier_wait(&shared->two.meet);
    pthread_barrier_wait(&shared->three.meet);      /* workers may open now */
    for (int w = 0; w < workers; w++)
        CHECK(meet_worker(rt, rank, w, before) == 0);
    pthread_barrier_wait(&shared->two.meet);
    loco_region_destroy(region);
    loco_group_destroy(group);
    loco_runtime_close(rt);
    return 0;
}

static int worker(int w)
{
    struct seat alone = { NULL, 0 }, seat = { &shared->three, MEMBERS };
    loco_runtime_t *rt;
    loco_region_t *region;
    loco_group_t *group;

    if (w == 0)
        pthread_barrier_wait(&shared->three.meet);
    CHECK_OK(open_runtime(&alone, UINT64_C(0x7e00100) + (unsigned)w, 1, &rt));
    CHECK(write_to_all(rt, &seat, w, &group, &region) == 0);
    pthread_barrier_wait(&shared->three.meet);
    if (w % 2 == 1)
        kill(getpid(), SIGKILL);
    loco_region_destroy(region);
    loco_group_destroy(group);
    loco_runtime_close(rt);
    return 0;
}

int main(int argc, char **argv)
{
    int workers = argc > 1 ? atoi(argv[1]) : 4, status, failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    open_hub(&shared->two, MEMBERS);
    open_hub(&shared->three, ALL);
    for (int i = 0; i < MEMBERS; i++)
        if (fork() == 0) {
            alarm(SECONDS);
            _exit(member(i, workers));
        }
    for (int w = 0; w < workers; w++) {
        pid_t pid = fork();

        if (pid == 0) {
            alarm(SECONDS);
            _exit(worker(w));
        }
        waitpid(pid, &status, 0);
    }
    while (wait(&status) > 0)
        failed += status != 0;
    printf("1..%d\n", workers);
    return failed + shared->failed > 0;
}

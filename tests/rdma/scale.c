/* SPDX-License-Identifier: BSD-3-Clause */

/* What RDMA connections cost, by count: processes whose every thread writes to every other process.
 *
 *   scale PROCESSES THREADS
 *
 * prints
 *
 *   scale|PROCESSES|THREADS|QPS|CQS|MRS|RSS|PINNED
 *
 * the queue pairs, completion queues and memory regions of all processes together, as the kernel
 * counts them (`rdma resource`), and what memory of rank 0 is resident and pinned, in KiB. */

#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "member.h"

enum { QPS, CQS, MRS, KINDS };

static int threads;
static pthread_barrier_t all_spoke;
static int before[KINDS];

/* The sum over all devices. "0: rxe0: pd 2 cq 4 qp 3 cm_id 0 mr 1 ctx 1 srq 0" */
static void resources(int *n)
{
    static const char *const names[KINDS] = { " qp ", " cq ", " mr " };
    FILE *said = popen("rdma resource show", "r");
    char line[512];

    memset(n, 0, KINDS * sizeof *n);
    while (said != NULL && fgets(line, sizeof line, said) != NULL)
        for (int k = 0; k < KINDS; k++) {
            const char *at = strstr(line, names[k]);

            n[k] += at != NULL ? atoi(at + strlen(names[k])) : 0;
        }
    if (said != NULL)
        pclose(said);
}

/* KiB of a line of /proc/self/status. */
static long status_of(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kib = atol(line + strlen(name) + 1);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* All at once: the lanes of a thread that has ended are the next one's. */
static int speak(void *arg, int thread)
{
    (void)thread;
    CHECK_OK(loco_sst_push_all(arg, 0, 1));
    pthread_barrier_wait(&all_spoke);
    return 0;
}

static int member(struct member *m)
{
    const loco_group_t *all = loco_everyone(m->rt);
    loco_sst_t *sst;
    int n[KINDS];

    CHECK_OK(loco_sst_create(m->rt, NULL, "scale", all, 1, 0, &sst));
    CHECK_OK(loco_runtime_wait_ready(m->rt, LOCO_FOREVER));
    CHECK_OK(loco_sst_set(sst, 0, 1));
    pthread_barrier_init(&all_spoke, NULL, (unsigned)threads);
    CHECK(run_threads(threads, speak, sst) == 0);
    pthread_barrier_destroy(&all_spoke);
    CHECK_OK(loco_fence(m->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, NULL, 0, NULL));
    if (m->rank == 0) {
        resources(n);
        printf("scale|%d|%d|%d|%d|%d|%ld|%ld\n", m->n, threads, n[QPS] - before[QPS],
               n[CQS] - before[CQS], n[MRS] - before[MRS], status_of("VmRSS"),
               status_of("VmPin"));
    }
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, NULL, 0, NULL));
    loco_sst_destroy(sst);
    return 0;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;

    threads = argc > 2 ? atoi(argv[2]) : 1;
    if (n < 2 || threads < 1)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(300);
    resources(before);
    return member_run(RUN_SHM, n, member, NULL, NULL);
}

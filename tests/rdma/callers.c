/* SPDX-License-Identifier: BSD-3-Clause */

/* callers CALLS: a process that is not of the job calls the ports that two members listen on for
 * other machines, so many times, and says anything. Each call is refused, and meanwhile the members
 * go on writing to each other and making channels. To be run with own_kernel.c preloaded. Speaks
 * TAP. */

#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/loco.h>
#include <rdma/rdma_cma.h>

#include "run.h"
#include "runtime.h"
#include "wait.h"

enum { MEMBERS = 2, SAYS = 56, PATIENCE_MS = 3000, SECONDS = 900 };

static struct shared {
    uint64_t link[MEMBERS][3];
    _Atomic int ready, over;
    _Atomic int refused, other, rounds, lines;
} *shared;

/* ---- who calls ---- */

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
                                        enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(channel, &event) != 0)
        return NULL;
    if (event->event == wanted)
        return event;
    fprintf(stderr, "# %s instead of %s\n", rdma_event_str(event->event), rdma_event_str(wanted));
    rdma_ack_cm_event(event);
    return NULL;
}

static bool comes(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *event = next_event(channel, wanted);

    if (event == NULL)
        return false;
    rdma_ack_cm_event(event);
    return true;
}

static bool call(struct rdma_event_channel *channel, struct rdma_cm_id *id, const uint64_t link[3],
                 unsigned *seed)
{
    unsigned char says[SAYS];
    struct rdma_conn_param param = {
        .private_data = says, .private_data_len = (uint8_t)((unsigned)rand_r(seed) % (SAYS + 1)),
        .qp_num = 0x100, .retry_count = 1,
    };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = (in_port_t)link[2] };

    memcpy(&to.sin_addr, (const unsigned char *)link + 12, 4);
    for (int i = 0; i < SAYS; i++)
        says[i] = (unsigned char)rand_r(seed);
    return rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, PATIENCE_MS) == 0
           && comes(channel, RDMA_CM_EVENT_ADDR_RESOLVED)
           && rdma_resolve_route(id, PATIENCE_MS) == 0
           && comes(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) && rdma_connect(id, &param) == 0
           && comes(channel, RDMA_CM_EVENT_REJECTED);
}

static int caller(int calls)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    unsigned seed = 1;

    while (atomic_load(&shared->ready) < MEMBERS)
        usleep(1000);
    for (int i = 0; i < calls && channel != NULL; i++) {
        if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
            break;
        atomic_fetch_add(call(channel, id, shared->link[i % MEMBERS], &seed) ? &shared->refused
                         : &shared->other, 1);
        rdma_destroy_id(id);
    }
    atomic_store(&shared->over, 1);
    return channel == NULL;
}

/* ---- members ---- */

static void count_lines(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    atomic_fetch_add(&shared->lines, strstr(text, "a stranger's call is refused") != NULL);
}

static int round_of(loco_runtime_t *rt, int rank, int i, int *over)
{
    loco_region_t *region;
    char name[32];
    uint64_t word;

    snprintf(name, sizeof name, "round%d", i);
    CHECK_OK(loco_region_create(rt, NULL, name, loco_everyone(rt), 64, &region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    /* Member 0 says to both whether this is the last. */
    if (rank == 0)
        for (int to = 0; to < MEMBERS; to++)
            CHECK_OK(loco_region_write64(region, to, 0,
                                         1 + (uint64_t)atomic_load(&shared->over)));
    CHECK_OK(loco_fence(rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    do
        CHECK_OK(loco_region_read64(region, rank, 0, &word));
    while (word == 0);
    *over = word == 2;
    CHECK(run_meet(rt) == 0);
    loco_region_destroy(region);
    return 0;
}

static int member(loco_runtime_t *rt, int rank, void *arg)
{
    int over = 0;

    (void)arg;
    rt->log.fn = count_lines;
    memcpy(shared->link[rank], rt->address.link, sizeof shared->link[rank]);
    CHECK(rt->address.link[2] != 0);
    CHECK(round_of(rt, rank, 0, &over) == 0);
    atomic_fetch_add(&shared->ready, 1);
    for (int i = 1; !over; i++) {
        CHECK(round_of(rt, rank, i, &over) == 0);
        atomic_fetch_add(&shared->rounds, rank == 0);
    }
    return 0;
}

static int result(int number, bool good, const char *text)
{
    printf("%sok %d - %s\n", good ? "" : "not ", number, text);
    return !good;
}

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 300, status, failed;
    int64_t begin = run_now();
    double took;

    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (fork() == 0) {
        alarm(SECONDS);
        _exit(caller(calls));
    }
    failed = result(1, run_on(RUN_SHM, MEMBERS, 0, NULL, member, NULL) == 0,
                    "members go on while strangers call");
    wait(&status);
    took = (double)(run_now() - begin) / 1e9;
    printf("# %d calls refused, %d not, %d rounds, %d lines, %.1f s\n", shared->refused,
           shared->other, shared->rounds, shared->lines, took);
    failed += result(2, shared->refused == calls, "each call is refused");
    failed += result(3, shared->lines > 0 && shared->lines <= MEMBERS * (2 + (int)took),
                     "which is said once a second");
    printf("1..3\n");
    return failed > 0;
}

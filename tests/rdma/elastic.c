/* SPDX-License-Identifier: BSD-3-Clause */

/* elastic WORKERS: two members stay; workers, one after the other, meet them, write to both and are
 * written to by two threads of each, and leave; every other one is killed. What is held for them is
 * given back: after each the devices hold what they did before, by the kernel's count (`rdma
 * resource`), and so do the members, by their own. The first few are not counted, so that what is
 * made once, for all that come, is there. Speaks TAP. */

#include "config.h"

#include <dirent.h>
#include <malloc.h>
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
#include "runtime.h"

enum { MEMBERS = 2, ALL = 3, THREADS = 2, FIRST = 4, PIECE = 4096, SECONDS = 1500 };
/* Arenas and caches of threads, what is allocated ahead, and pages that were not touched before:
 * more than these would be of each worker. */
enum { MAPPINGS = 4, KIB = 4096, KIB_A_WORKER = 8, BYTES = 32768, BYTES_A_WORKER = 256 };

/* Of all devices together, and of one member. */
enum { KINDS = 7 };
static const char *const kinds[KINDS] = { "pd", "cq", "qp", "cm_id", "mr", "ctx", "srq" };
struct held {
    int of[KINDS];
};
struct own {
    int descriptors, threads, mappings, peers;
    long kib, bytes;            /* in memory; of allocations */
};

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
    struct own own[MEMBERS];
    _Atomic int failed, tests;
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

/* ---- counts ---- */

/* "0: rxe0: pd 2 cq 4 qp 3 cm_id 0 mr 1 ctx 1 srq 0", for each device. */
static struct held held_by_devices(void)
{
    FILE *said = popen("rdma resource show", "r");
    struct held held = { { 0 } };
    char line[512], name[16];

    while (said != NULL && fgets(line, sizeof line, said) != NULL)
        for (int i = 0; i < KINDS; i++) {
            const char *at;

            snprintf(name, sizeof name, " %s ", kinds[i]);
            at = strstr(line, name);
            held.of[i] += at != NULL ? atoi(at + strlen(name)) : 0;
        }
    if (said != NULL)
        pclose(said);
    return held;
}

static int entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static struct own held_by_self(const loco_runtime_t *rt)
{
    struct own own = {
        .descriptors = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task"),
        .peers = atomic_load(&rt->peer_count), .bytes = (long)mallinfo2().uordblks,
    };
    FILE *f = fopen("/proc/self/maps", "re");
    char line[1024];

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        own.mappings++;
    if (f != NULL)
        fclose(f);
    f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            own.kib = atol(line + 6);
    if (f != NULL)
        fclose(f);
    return own;
}

static void show(const char *what, const struct held *h)
{
    printf("# %s:", what);
    for (int i = 0; i < KINDS; i++)
        printf(" %s %d", kinds[i], h->of[i]);
    for (int i = 0; i < MEMBERS; i++)
        printf("; member %d: %d descriptors, %d threads, %d mappings, %d peers, %ld KiB, "
               "%ld bytes allocated", i, shared->own[i].descriptors, shared->own[i].threads,
               shared->own[i].mappings, shared->own[i].peers, shared->own[i].kib,
               shared->own[i].bytes);
    printf("\n");
}

static bool devices_are_back(const struct held *before)
{
    struct held now = held_by_devices();
    int64_t begin = run_now();

    while (memcmp(&now, before, sizeof now) != 0 && run_now() - begin < run_limit(RUN_PATIENCE)) {
        usleep(100000);
        now = held_by_devices();
    }
    if (memcmp(&now, before, sizeof now) == 0)
        return true;
    show("held", &now);
    return false;
}

static bool is_back(const loco_runtime_t *rt, const struct own *before, int workers)
{
    struct own now = held_by_self(rt);
    int64_t begin = run_now();

    while ((now.descriptors > before->descriptors || now.threads > before->threads)
           && run_now() - begin < run_limit(RUN_PATIENCE)) {
        usleep(100000);
        now = held_by_self(rt);
    }
    return now.descriptors <= before->descriptors && now.threads <= before->threads
           && now.mappings <= before->mappings + MAPPINGS && now.peers <= before->peers
           && now.kib <= before->kib + KIB + KIB_A_WORKER * (long)workers
           && now.bytes <= before->bytes + BYTES + BYTES_A_WORKER * (long)workers;
}

/* ---- members and workers ---- */

struct writing {
    loco_runtime_t *rt;
    loco_region_t *region;
    const struct seat *seat;
};

static int writes(void *arg, int thread)
{
    const struct writing *w = arg;
    uint64_t at = 8 * (uint64_t)(THREADS * w->seat->rank + thread);

    for (int i = 0; i < w->seat->hub->n; i++)
        CHECK_OK(loco_region_write64(w->region, i, at, 1));
    CHECK_OK(loco_fence(w->rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    return 0;
}

/* All of them write to all, by threads that end then. */
static int write_to_all(loco_runtime_t *rt, const struct seat *seat, int w, loco_group_t **group,
                        loco_region_t **region)
{
    const struct loco_exchange exchange = { (void *)seat, seat->rank, seat->hub->n, allgather };
    struct writing writing = { rt, NULL, seat };
    char name[16];

    snprintf(name, sizeof name, "with%d", w);
    CHECK_OK(loco_group_meet(rt, &exchange, group));
    CHECK_OK(loco_region_create(rt, NULL, name, *group, PIECE, region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    writing.region = *region;
    return run_threads(THREADS, writes, &writing);
}

static int open_runtime(struct seat *seat, uint64_t identity, int size, loco_runtime_t **rt)
{
    const struct loco_bootstrap boot = {
        .identity = identity, .exchange = { seat, seat->rank, size, allgather },
    };

    return loco_runtime_open(&boot, rt);
}

static void result(bool good, const char *text)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++shared->tests, text);
    shared->failed += !good;
}

/* What each has, told to member 0, which says it. */
static void count(const loco_runtime_t *rt, int rank, struct held *held, const char *what)
{
    pthread_barrier_wait(&shared->two.meet);
    shared->own[rank] = held_by_self(rt);
    pthread_barrier_wait(&shared->two.meet);
    *held = held_by_devices();
    if (rank == 0)
        show(what, held);
    pthread_barrier_wait(&shared->two.meet);
}

/* Worker number w comes and goes. */
static int meet_worker(loco_runtime_t *rt, int rank, int w)
{
    struct seat seat = { &shared->three, rank };
    loco_region_t *region;
    loco_group_t *group;

    pthread_barrier_wait(&shared->three.meet);      /* it may open its runtime now */
    CHECK(write_to_all(rt, &seat, w, &group, &region) == 0);
    pthread_barrier_wait(&shared->three.meet);      /* it goes now */
    while (loco_group_alive(group, MEMBERS) == LOCO_OK)
        usleep(1000);
    loco_region_destroy(region);
    loco_group_destroy(group);
    return 0;
}

/* Member 0 says what is left on the devices when worker w has gone. */
static void look(int rank, int w, const struct held *before)
{
    pthread_barrier_wait(&shared->two.meet);
    if (rank == 0)
        result(devices_are_back(before), w % 2 == 0
               ? "a worker that has closed its runtime leaves nothing on the devices"
               : "a worker that is killed leaves nothing on the devices");
    pthread_barrier_wait(&shared->two.meet);
}

static int meet_all(loco_runtime_t *rt, int rank, int workers)
{
    struct held before, after;
    struct own own;
    bool good;

    for (int w = 0; w < FIRST; w++)
        CHECK(meet_worker(rt, rank, w) == 0);
    count(rt, rank, &before, "before");
    own = shared->own[rank];
    for (int w = FIRST; w < FIRST + workers; w++) {
        CHECK(meet_worker(rt, rank, w) == 0);
        look(rank, w, &before);
    }
    good = is_back(rt, &own, workers);
    count(rt, rank, &after, "after");
    for (int i = 0; i < MEMBERS; i++) {
        pthread_barrier_wait(&shared->two.meet);
        if (i == rank)
            result(good, "a member holds what it did before");
    }
    return 0;
}

static int member(int rank, int workers)
{
    struct seat seat = { &shared->two, rank };
    loco_runtime_t *rt;
    loco_region_t *region;
    loco_group_t *group;

    CHECK_OK(open_runtime(&seat, UINT64_C(0x7e00000) + (unsigned)rank, MEMBERS, &rt));
    CHECK(write_to_all(rt, &seat, -1, &group, &region) == 0);
    CHECK(meet_all(rt, rank, workers) == 0);
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

static int one_worker(int w)
{
    pid_t pid = fork();
    int status = 1;

    if (pid == 0) {
        alarm(SECONDS);
        _exit(worker(w));
    }
    waitpid(pid, &status, 0);
    if (w % 2 == 1)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1;
    return status != 0;
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
    for (int w = 0; w < FIRST + workers; w++)
        failed += one_worker(w);
    while (wait(&status) > 0)
        failed += status != 0;
    printf("1..%d\n", workers + MEMBERS);
    return failed + shared->failed > 0;
}

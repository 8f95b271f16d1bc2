/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <loco/barrier.h>
#include <loco/fork.h>

#define RUN_MOST 128            /* processes */

struct job {
    const char *const *settings;
    weak_fn *fn;
    void *arg;
};

void run_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level <= LOCO_LOG_ERROR && getenv("TEST_VERBOSE") != NULL)
        fprintf(stderr, "%s\n", text);
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    const struct job *job = arg;
    struct loco_bootstrap mine = *boot;
    loco_runtime_t *rt;
    int status;

    mine.settings = job->settings;
    if (mine.log == NULL)
        mine.log = run_log;
    run_on_node(boot->exchange.rank);
    status = loco_runtime_open(&mine, &rt);
    if (status != LOCO_OK) {
        fprintf(stderr, "rank %d: no runtime: %s\n", boot->exchange.rank, loco_strerror(status));
        return 99;
    }
    status = job->fn(rt, boot->exchange.rank, job->arg);
    loco_runtime_close(rt);
    return status & 0xff;
}

static int run_forked(int n, const char *const *settings, weak_fn *fn, void *arg)
{
    struct job job = { settings, fn, arg };
    int statuses[RUN_MOST] = { 0 }, result = loco_fork_run(n, member, &job, statuses);

    for (int i = 0; i < n; i++)
        if (statuses[i] != 0 && statuses[i] != RUN_KILLED) {
            fprintf(stderr, "forked: rank %d ended with %d\n", i, statuses[i]);
            return statuses[i];
        }
    return result == LOCO_ERR_PEER_DEAD ? 0 : result;
}

int run_on(enum run_fabric fabric, int n, uint64_t seed, const char *const *settings, weak_fn *fn,
           void *arg)
{
    if (fabric == RUN_WEAK)
        return weak_run(n, seed, settings, fn, arg);
    return run_forked(n, settings, fn, arg);
}

int run_meet(loco_runtime_t *rt)
{
    loco_barrier_t *barrier;
    int status = loco_barrier_create(rt, "test", "meet", loco_everyone(rt), &barrier);

    if (status != LOCO_OK)
        return status;
    status = loco_runtime_wait_ready(rt, LOCO_FOREVER);     /* the test has a limit of its own */
    if (status == LOCO_OK)
        status = loco_barrier_wait(barrier);
    loco_barrier_destroy(barrier);
    return status;
}

_Atomic int *run_counter(void)
{
    void *page = mmap(NULL, sizeof(_Atomic int), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    return page;
}

int run_await(_Atomic int *counter, int n)
{
    int64_t until = run_now() + run_limit(RUN_PATIENCE);

    while (atomic_load(counter) < n) {
        if (run_now() > until) {
            fprintf(stderr, "%d of %d have come\n", atomic_load(counter), n);
            return 1;
        }
        usleep(1000);
    }
    return 0;
}

int run_meet_alive(loco_runtime_t *rt, _Atomic int *met)
{
    int status = run_meet(rt);

    if (status != LOCO_OK) {
        fprintf(stderr, "meeting: %s\n", loco_strerror(status));
        return 1;
    }
    atomic_fetch_add(met, 1);
    return run_await(met, loco_group_size(loco_everyone(rt)));
}

struct one_thread {
    run_thread_fn *fn;
    void *arg;
    int number, result;
};

static void *thread_main(void *arg)
{
    struct one_thread *t = arg;

    t->result = t->fn(t->arg, t->number);
    return NULL;
}

int run_threads(int n, run_thread_fn *fn, void *arg)
{
    struct one_thread one[64];
    pthread_t thread[64];
    int result = 0;

    for (int i = 0; i < n; i++) {
        one[i] = (struct one_thread){ fn, arg, i, 0 };
        if (pthread_create(&thread[i], NULL, thread_main, &one[i]) != 0)
            abort();
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        result = result == 0 ? one[i].result : result;
    }
    return result;
}

static double scale_of_time(void)
{
    const char *scale = getenv("TEST_SCALE");
    double times = scale == NULL ? 1.0 : atof(scale);

    return times > 0 ? times : 1.0;
}

int64_t run_limit(int64_t ns)
{
    return (int64_t)((double)ns * scale_of_time());
}

/* Adds what the kernel says of one thread: nanoseconds on a CPU, then in a queue for one. */
static void add_thread(const char *id, double *ran, double *queued)
{
    unsigned long long run, wait;
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", id);
    f = fopen(path, "r");
    if (f == NULL)
        return;
    if (fscanf(f, "%llu %llu", &run, &wait) == 2) {
        *ran += (double)run;
        *queued += (double)wait;
    }
    fclose(f);
}

/* Of the time that threads of this process could run, the part that they did. 1 if that is not
 * told. */
static double part_that_ran(void)
{
    DIR *tasks = opendir("/proc/self/task");
    double ran = 0, queued = 0;

    for (struct dirent *e; tasks != NULL && (e = readdir(tasks)) != NULL;)
        if (e->d_name[0] != '.')
            add_thread(e->d_name, &ran, &queued);
    if (tasks != NULL)
        closedir(tasks);
    return ran > 0 ? ran / (ran + queued) : 1;
}

bool run_too_long(int64_t start, int64_t ns)
{
    int64_t took = run_now() - start;

    return took > run_limit(ns) && (double)took * part_that_ran() > (double)run_limit(ns);
}

void run_on_node(int rank)
{
    const char *nodes = getenv("TEST_NODES");
    char node[16];

    if (nodes == NULL || atoi(nodes) < 1)
        return;
    snprintf(node, sizeof node, "test%d", rank % atoi(nodes));
    setenv("LOCO_NODE", node, 1);
}

bool run_shares(void)
{
    const char *fabric = getenv("LOCO_FABRIC");

    return fabric == NULL || (strcmp(fabric, "verbs") != 0 && strcmp(fabric, "tcp") != 0);
}

int run_rounds(int normal)
{
    double rounds = normal / scale_of_time();

    return rounds < 1 ? 1 : (int)rounds;
}

int run_fuzz_rounds(int normal)
{
    const char *rounds = getenv("FUZZ_ROUNDS");

    return rounds != NULL && atoi(rounds) > 0 ? atoi(rounds) : run_rounds(normal);
}

bool run_may_race(const char *part)
{
#ifdef __SANITIZE_THREAD__
    printf("# left out under the thread sanitizer: %s\n", part);
    fflush(stdout);
    return false;
#else
    (void)part;
    return true;
#endif
}

uint64_t run_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t run_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

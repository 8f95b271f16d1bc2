/* SPDX-License-Identifier: BSD-3-Clause */

/* A pool whose clients are killed, come and go by the hundred, and lose their agent. TAP.
 *
 *     pools [--kill N] [--churn N] [--seed N]
 *
 * So many workers are killed, 100 if nothing is said, and so many come and go, 300. */

#include "config.h"

#include "pools.h"

#include <dirent.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

#define AT_ONCE 64
#define SECOND INT64_C(1000000000)

static struct pools_shared *shared;
static pid_t agent_pid;
static int tests;

static int ok(bool fine, const char *what)
{
    printf("%sok %d - %s\n", fine ? "" : "not ", ++tests, what);
    fflush(stdout);
    return fine ? 0 : 1;
}

/* A child that runs fn(shared, arg). */
static pid_t begin(int (*fn)(struct pools_shared *s, int arg), int arg)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(shared, arg));
    if (pid < 0)
        perror("pools: fork");
    return pid;
}

static int end_of(pid_t pid)
{
    int status = 0;

    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int agent(struct pools_shared *s, int arg)
{
    (void)arg;
    return pools_agent(s);
}

static int check(struct pools_shared *s, int arg)
{
    (void)arg;
    return pools_check(s);
}

static int fill(struct pools_shared *s, int arg)
{
    (void)arg;
    return pools_fill(s);
}

static int wait_for_death(struct pools_shared *s, int arg)
{
    (void)arg;
    return pools_wait_for_death(s);
}

static void rest(int64_t ns)
{
    const struct timespec t = { .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };

    nanosleep(&t, NULL);
}

static int start_agent(void)
{
    int64_t begun = run_now();

    atomic_store(&shared->agent_pid, 0);
    agent_pid = begin(agent, 0);
    while (atomic_load(&shared->agent_pid) == 0 && run_now() - begun < RUN_PATIENCE)
        rest(SECOND / 1000);
    return atomic_load(&shared->agent_pid) == 0;
}

/* Until the agent says that nobody is in the pool and no place is being cleaned. */
static bool is_empty(void)
{
    int64_t begun = run_now();
    uint64_t looks = atomic_load(&shared->looks);

    while (run_now() - begun < RUN_PATIENCE) {
        if (atomic_load(&shared->looks) > looks + 2 && shared->stats.clients == 0
            && shared->stats.leaving == 0)
            return true;
        rest(SECOND / 1000);
    }
    return false;
}

/* ---- kills ---- */

static int kill_workers(int kills, uint64_t *random)
{
    pid_t worker[POOLS_WORKERS];
    uint64_t room, calls = 0, cleaned;
    int wrong = 0;

    wrong += end_of(begin(fill, 0)) != 0;
    room = shared->room;
    for (int i = 0; i < POOLS_WORKERS; i++)
        worker[i] = begin(pools_work, i);
    for (int k = 0; k < kills; k++) {
        int which = (int)(run_random(random) % POOLS_WORKERS);
        int status;

        rest((int64_t)(run_random(random) % (uint64_t)(SECOND / 50)));
        kill(worker[which], SIGKILL);
        status = end_of(worker[which]);
        wrong += status != -SIGKILL;    /* it had ended, which none should */
        worker[which] = begin(pools_work, which);
    }
    atomic_store(&shared->stop, 1);
    for (int i = 0; i < POOLS_WORKERS; i++)
        wrong += end_of(worker[i]) != 0;
    for (int i = 0; i < POOLS_WORKERS; i++)
        calls += atomic_load(&shared->calls[i]);
    wrong += ok(wrong == 0 && atomic_load(&shared->failed) == 0, "no call of those who live fails");
    wrong += end_of(begin(check, 0)) != 0;
    wrong += ok(shared->lost == 0 && shared->back == 0 && shared->found > 0,
                "what a killed worker's calls had done is there");
    printf("# %d kills; %llu calls, %llu keys at the end, %llu lost, %llu back\n", kills,
           (unsigned long long)calls, (unsigned long long)shared->found,
           (unsigned long long)shared->lost, (unsigned long long)shared->back);
    wrong += ok(is_empty(), "all places are vacant");
    cleaned = shared->stats.cleaned;
    printf("# %llu processes came, %llu died, %llu of them in the middle of something\n",
           (unsigned long long)shared->stats.attached, (unsigned long long)shared->stats.died,
           (unsigned long long)cleaned);
    wrong += end_of(begin(fill, 0)) != 0;
    printf("# room for %llu objects before, for %llu now\n", (unsigned long long)room,
           (unsigned long long)shared->room);
    wrong += ok(shared->room >= room, "a store has as much room as before");
    return wrong;
}

/* ---- churn ---- */

static int count_entries(const char *folder)
{
    char path[64];
    DIR *dir;
    int n = 0;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)agent_pid, folder);
    dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* Its service thread gives them back when it comes to it. */
static bool has_descriptors(int fds)
{
    int64_t begun = run_now();

    while (count_entries("fd") > fds && run_now() - begun < RUN_PATIENCE)
        rest(SECOND / 1000);
    return count_entries("fd") <= fds;
}

static long agent_kib(const char *field)
{
    char path[64], line[256];
    long kib = -1;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)agent_pid);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtol(line + strlen(field) + 1, NULL, 10);
    if (f != NULL)
        fclose(f);
    return kib;
}

static int visit_many(int n, int at_once)
{
    pid_t pid[AT_ONCE];
    int wrong = 0;

    for (int i = 0; i < n; i += at_once) {
        for (int k = 0; k < at_once; k++)
            pid[k] = begin(pools_visit, i + k);
        for (int k = 0; k < at_once; k++)
            wrong += end_of(pid[k]) != 0;
    }
    return wrong;
}

static int churn(int visitors)
{
    int fds, wrong = 0;
    long rss, grown;
    uint64_t calls;
    pid_t old;

    atomic_store(&shared->stop, 0);
    wrong += visit_many(AT_ONCE, AT_ONCE);      /* what is held once is held */
    wrong += !is_empty();
    fds = count_entries("fd");
    rss = agent_kib("VmRSS:");
    old = begin(pools_work, 0);
    calls = atomic_load(&shared->calls[0]);
    for (int i = 0; i < visitors; i += 50) {
        wrong += visit_many(visitors - i < 50 ? visitors - i : 50, 1);
        kill(old, SIGKILL);             /* so that others come while a place is cleaned up */
        wrong += end_of(old) != -SIGKILL;
        old = begin(pools_work, 0);
    }
    wrong += visit_many(AT_ONCE, AT_ONCE);
    calls = atomic_load(&shared->calls[0]) - calls;
    atomic_store(&shared->stop, 1);
    wrong += end_of(old) != 0;
    wrong += ok(wrong == 0 && atomic_load(&shared->failed) == 0,
                "some come one after the other and many at once, and no call fails");
    wrong += ok(is_empty() && has_descriptors(fds), "the agent has no more descriptors");
    grown = agent_kib("VmRSS:") - rss;
    wrong += ok(grown < 16384, "nor more memory than what was put there");
    printf("# %d visitors; %d descriptors, and %ld KiB more; %llu calls of an old worker\n",
           visitors + AT_ONCE, fds, grown, (unsigned long long)calls);
    return wrong;
}

/* ---- the agent dies ---- */

static int agent_dies(void)
{
    int64_t killed;
    pid_t client;
    int wrong;

    atomic_store(&shared->told, 0);
    client = begin(wait_for_death, 0);
    while (atomic_load(&shared->told) == 0)
        rest(SECOND / 1000);
    rest(SECOND / 10);
    killed = run_now();
    kill(agent_pid, SIGKILL);
    (void)end_of(agent_pid);
    wrong = end_of(client) != 0;
    printf("# a client heard of it after %.1f ms\n",
           (double)(atomic_load(&shared->told_at) - killed) / 1e6);
    wrong += ok(wrong == 0 && atomic_load(&shared->told_at) - killed < run_limit(2 * SECOND),
                "when the agent is killed, clients are told soon");
    wrong += ok(start_agent() == 0, "another one can be started in its place");
    atomic_store(&shared->agent_stops, 1);
    wrong += ok(end_of(agent_pid) == 0, "and ends in order");
    return wrong;
}

/* ---- main ---- */

static int usage(void)
{
    fprintf(stderr, "usage: pools [--kill N] [--churn N] [--seed N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = { { "kill", required_argument, NULL, 'k' },
                                           { "churn", required_argument, NULL, 'c' },
                                           { "seed", required_argument, NULL, 's' },
                                           { NULL, 0, NULL, 0 } };
    int kills = run_rounds(100), visitors = run_rounds(300), option, wrong = 0;
    uint64_t seed = (uint64_t)run_now() | 1;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'k': kills = atoi(optarg); break;
        case 'c': visitors = atoi(optarg); break;
        case 's': seed = strtoull(optarg, NULL, 10) | 1; break;
        default: return usage();
        }
    }
    if (optind != argc)
        return usage();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    snprintf(shared->pool, sizeof shared->pool, "stress-%d", (int)getpid());
    printf("# seed %llu\n", (unsigned long long)seed);
    wrong += ok(start_agent() == 0, "an agent keeps a pool");
    if (wrong == 0) {
        wrong += kill_workers(kills, &seed);
        wrong += churn(visitors);
        wrong += agent_dies();
    }
    printf("1..%d\n", tests);
    return wrong == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* A pool whose clients are killed, come and go by the hundred, and lose their agent. TAP.
 *
 *     pools [--kill N] [--churn N] [--come N] [--seed N]
 *
 * So many workers are killed, 100 if nothing is said, and so many come and go, 300. Then so many
 * come and go, 64 at a time, while some stay, 200: at the agent and at those there is as much
 * afterwards as before, and those get on. */

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

static int entries_of(pid_t pid, const char *folder)
{
    char path[64];
    DIR *dir;
    int n = 0;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, folder);
    dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int count_entries(const char *folder)
{
    return entries_of(agent_pid, folder);
}

/* Its service thread gives them back when it comes to it. */
static bool has_descriptors(int fds)
{
    int64_t begun = run_now();

    while (count_entries("fd") > fds && run_now() - begun < RUN_PATIENCE)
        rest(SECOND / 1000);
    return count_entries("fd") <= fds;
}

static long kib_of(pid_t pid, const char *field)
{
    char path[64], line[256];
    long kib = -1;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
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
    rss = kib_of(agent_pid, "VmRSS:");
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
    grown = kib_of(agent_pid, "VmRSS:") - rss;
    wrong += ok(grown < 16384, "nor more memory than what was put there");
    printf("# %d visitors; %d descriptors, and %ld KiB more; %llu calls of an old worker\n",
           visitors + AT_ONCE, fds, grown, (unsigned long long)calls);
    return wrong;
}

/* ---- many come while some stay ---- */

#define STAYERS 2
#define ALONE (2 * SECOND)              /* as long as those are measured without others */

struct held {
    int fds[1 + STAYERS], peers[1 + STAYERS];       /* the agent's, and of those that stay */
    long kib[1 + STAYERS];
};

static struct held held_by(const pid_t *stayer)
{
    struct held h;

    for (int i = 0; i <= STAYERS; i++) {
        pid_t pid = i == 0 ? agent_pid : stayer[i - 1];

        h.fds[i] = entries_of(pid, "fd");
        h.peers[i] = i == 0 ? atomic_load(&shared->agent_peers)
                     : atomic_load(&shared->member_peers[i - 1]);
        h.kib[i] = kib_of(pid, "VmRSS:");
    }
    return h;
}

static bool has_peers(int peers)
{
    int64_t begun = run_now();

    while (atomic_load(&shared->agent_peers) > peers && run_now() - begun < RUN_PATIENCE)
        rest(SECOND / 1000);
    return atomic_load(&shared->agent_peers) <= peers;
}

/* Calls of those that stay, and what they took of the processors. */
struct pace {
    uint64_t calls;
    int64_t busy, at;
};

static struct pace pace_now(void)
{
    struct pace p = { .at = run_now() };

    for (int i = 0; i < STAYERS; i++) {
        p.calls += atomic_load(&shared->calls[i]);
        p.busy += atomic_load(&shared->busy[i]);
    }
    return p;
}

/* By the processors' time, since all share few; *wall by the clock; *share of all processors. */
static double pace_since(struct pace begun, double *wall, double *share)
{
    struct pace now = pace_now();
    double all = (double)(now.at - begun.at) * (double)sysconf(_SC_NPROCESSORS_ONLN);

    *share = (double)(now.busy - begun.busy) / all;

    *wall = (double)(now.calls - begun.calls) * 1e9 / (double)(now.at - begun.at);
    return (double)(now.calls - begun.calls) * 1e9 / (double)(now.busy - begun.busy);
}

/* Until n have come and gone, at most so many are there at a time. */
static int keep_coming(int n, int at_once)
{
    pid_t pid[AT_ONCE];
    int wrong = 0, running = 0, begun = 0;

    while (begun < n || running > 0) {
        int status = 0, k = 0;
        pid_t gone;

        while (running < at_once && begun < n)
            pid[running++] = begin(pools_visit, 1000000 + begun++);
        gone = waitpid(-1, &status, 0);
        while (k < running && pid[k] != gone)
            k++;
        if (gone < 0 || k == running)
            return wrong + 1;               /* one that was to stay has ended, or the agent */
        pid[k] = pid[--running];
        wrong += status != 0;
    }
    return wrong;
}

static bool is_as_before(const struct held *before, const struct held *after)
{
    bool same = true;

    for (int i = 0; i <= STAYERS; i++) {
        printf("# %s: %d descriptors, %d peers, %ld KiB; then %d, %d, %ld\n",
               i == 0 ? "the agent" : "one that stays", before->fds[i], before->peers[i],
               before->kib[i], after->fds[i], after->peers[i], after->kib[i]);
        same = same && after->fds[i] <= before->fds[i] && after->peers[i] <= before->peers[i]
               && after->kib[i] < before->kib[i] + 4096;
    }
    return same;
}

static int many_come(int visitors)
{
    double alone_wall, alone, wall, pace, share;
    struct held before, after;
    pid_t stayer[STAYERS];
    struct pace begun;
    int64_t came;
    int wrong = 0;

    atomic_store(&shared->stop, 0);
    for (int i = 0; i < STAYERS; i++)
        stayer[i] = begin(pools_stay, i);
    rest(SECOND / 2);
    wrong += keep_coming(2 * AT_ONCE, AT_ONCE);         /* what is held once is held */
    rest(SECOND / 2);
    (void)has_peers(1 + STAYERS);
    before = held_by(stayer);
    begun = pace_now();
    rest(ALONE);
    alone = pace_since(begun, &alone_wall, &share);
    begun = pace_now();
    came = run_now();
    wrong += keep_coming(visitors, AT_ONCE);
    pace = pace_since(begun, &wall, &share);
    came = run_now() - came;
    rest(SECOND / 2);
    (void)has_descriptors(before.fds[0]);
    (void)has_peers(before.peers[0]);
    after = held_by(stayer);
    atomic_store(&shared->stop, 1);
    for (int i = 0; i < STAYERS; i++)
        wrong += end_of(stayer[i]) != 0;
    printf("# %d visitors in %.1f s, %d at a time; calls of %d that stay, a second of the "
           "processors: %.0f alone, %.0f then (%.0f %%); a second of the clock: %.0f, %.0f\n",
           visitors, (double)came / 1e9, AT_ONCE, STAYERS, alone, pace, 100 * pace / alone,
           alone_wall, wall);
    printf("# they had %.1f %% of the processors then; %d of %d processes by turns have %.1f %%\n",
           100 * share, STAYERS, STAYERS + 1 + AT_ONCE,
           100.0 * STAYERS / (STAYERS + 1 + AT_ONCE));
    wrong += ok(wrong == 0 && atomic_load(&shared->failed) == 0,
                "many come while some stay, and no call of anybody fails");
    wrong += ok(is_as_before(&before, &after) && is_empty(),
                "descriptors, peers and memory are as before, at the agent and at those that stay");
    wrong += ok(pace > 0.8 * alone || visitors < 1000, "those that stay are as fast as before");
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
    fprintf(stderr, "usage: pools [--kill N] [--churn N] [--come N] [--seed N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = { { "kill", required_argument, NULL, 'k' },
                                           { "churn", required_argument, NULL, 'c' },
                                           { "come", required_argument, NULL, 'm' },
                                           { "seed", required_argument, NULL, 's' },
                                           { NULL, 0, NULL, 0 } };
    int kills = run_rounds(100), visitors = run_rounds(300), many = run_rounds(200), option;
    int wrong = 0;
    uint64_t seed = (uint64_t)run_now() | 1;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'k': kills = atoi(optarg); break;
        case 'c': visitors = atoi(optarg); break;
        case 'm': many = atoi(optarg); break;
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
        wrong += many_come(many);
        wrong += agent_dies();
    }
    printf("1..%d\n", tests);
    return wrong == 0 ? 0 : 1;
}

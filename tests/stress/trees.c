/* SPDX-License-Identifier: BSD-3-Clause */

/* Three processes insert, change and delete keys of one tree, and at a random moment one of them is
 * killed. The others go on; every change whose call had returned is there; the tree is whole, and
 * no object is there that it does not name. TAP.
 *
 *     trees [--kill N] [--seed N] [--pause MS]
 *
 * So many rounds, 20 if nothing is said. No survivor that has a CPU may pause for longer than MS
 * milliseconds after the death; 200 if nothing is said, for a machine that does other things. */

#include "trees.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "run.h"

#define SECOND INT64_C(1000000000)
#define SPREAD (SECOND / 25)            /* within which the moment is anywhere */
#define AFTER (SECOND / 25)             /* as long the others go on */
#define PAUSE 200                       /* ms: of a survivor that has a CPU, at most */

struct asked {
    int rounds, pause_ms;
    uint64_t seed;
};

struct totals {
    int64_t limit;                      /* ns, of a pause */
    int rounds, went_on, in_doubt, changed;
    struct wood_pause pause[2];
    uint64_t calls, keys;
};

static void sleep_until(int64_t time)
{
    const struct timespec at = { .tv_sec = time / SECOND, .tv_nsec = time % SECOND };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

static int play(struct wood *w, loco_fork_t *job, uint64_t *random)
{
    int64_t moment;

    if (run_await(&w->ready, WOOD_PROCESSES) != 0)
        return 1;
    atomic_store(&w->go, 1);
    sleep_until(run_now() + (int64_t)(run_random(random) % SPREAD));
    moment = run_now();
    atomic_store(&w->moment, moment);
    kill(loco_fork_pid(job, w->victim), SIGKILL);
    atomic_store(&w->until, moment + AFTER);
    return 0;
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_up(const struct wood *w, struct totals *t)
{
    bool went_on = true;

    for (int rank = 0; rank < WOOD_PROCESSES; rank++) {
        const struct wood_member *m = &w->member[rank];

        t->calls += m->calls;
        for (int i = 0; i < 2 && rank != w->victim; i++) {
            t->pause[i].longest = longer(t->pause[i].longest, m->pause[i].longest);
            t->pause[i].awake = longer(t->pause[i].awake, m->pause[i].awake);
        }
        went_on = went_on && (rank == w->victim || m->pause[1].awake <= t->limit);
    }
    t->rounds++;
    t->went_on += went_on;
    t->in_doubt += w->in_doubt > 0;
    t->changed += w->in_doubt == 2;
    t->keys += w->found;
}

static int one_round(struct wood *w, struct totals *t, uint64_t *random)
{
    int statuses[WOOD_PROCESSES], played;
    loco_fork_t *job;

    memset(w, 0, sizeof *w);
    w->seed = run_random(random);
    w->victim = run_shares() ? (int)((run_random(random) >> 32) % WOOD_PROCESSES)
                             : WOOD_PROCESSES - 1;      /* no host: of those memory is lost */
    CHECK_OK(loco_fork_start(WOOD_PROCESSES, wood_member, w, &job));
    played = play(w, job, random);
    (void)loco_fork_wait(job, statuses);
    for (int i = 0; i < WOOD_PROCESSES; i++)
        CHECK_EQ(statuses[i], i == w->victim ? -SIGKILL : 0);
    CHECK_EQ(played, 0);
    add_up(w, t);
    return 0;
}

static void conclude(const struct totals *t, int rounds)
{
    printf("%sok 1 - %d times one of those who change a tree is killed: it is whole\n",
           t->rounds == rounds ? "" : "not ", rounds);
    printf("# %llu calls; %llu keys at the end; %d times a call was under way, %d of these had "
           "been done\n", (unsigned long long)t->calls, (unsigned long long)t->keys, t->in_doubt,
           t->changed);
    printf("%sok 2 - the others go on\n", t->went_on == rounds ? "" : "not ");
    printf("# in %d rounds of %d no pause was over %.0f ms\n", t->went_on, t->rounds,
           (double)t->limit / 1e6);
    for (int i = 1; i >= 0; i--)
        printf("# the longest pause of one %s the death was %.1f ms; %.1f ms not counting what it "
               "waited for a CPU\n", i == 1 ? "after" : "before",
               (double)t->pause[i].longest / 1e6, (double)t->pause[i].awake / 1e6);
    printf("1..2\n");
}

static bool parse(int argc, char **argv, struct asked *a)
{
    static const struct option names[] = {
        { "kill", required_argument, NULL, 'k' }, { "seed", required_argument, NULL, 's' },
        { "pause", required_argument, NULL, 'p' }, { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 'k': a->rounds = atoi(optarg); break;
        case 's': a->seed = strtoull(optarg, NULL, 10); break;
        case 'p': a->pause_ms = atoi(optarg); break;
        default: return false;
        }
    return optind == argc && a->rounds > 0 && a->pause_ms > 0;
}

int main(int argc, char **argv)
{
    struct asked asked = { .rounds = 20, .pause_ms = PAUSE, .seed = (uint64_t)run_now() };
    uint64_t random;
    struct totals t = { 0 };
    struct wood *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                          0);

    if (!parse(argc, argv, &asked)) {
        fprintf(stderr, "usage: trees [--kill N] [--seed N] [--pause MS]\n");
        return 2;
    }
    if (w == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("# seed %llu\n", (unsigned long long)asked.seed);
    random = asked.seed | 1;
    t.limit = run_limit(asked.pause_ms * (SECOND / 1000));
    while (t.rounds < asked.rounds && one_round(w, &t, &random) == 0)
        ;
    conclude(&t, asked.rounds);
    return t.rounds == asked.rounds && t.went_on == asked.rounds ? 0 : 1;
}

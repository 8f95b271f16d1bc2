/* SPDX-License-Identifier: BSD-3-Clause */

/* Four processes make SmallBank's transactions on a store, and at a random moment one of them is
 * killed, or stopped for a second. The others go on, all money is there, and so is all memory.
 * TAP.
 *
 *     smallbank [--kill N] [--stop N] [--leave N] [--seed N] [--rounds FILE] [--timeline FILE]
 *
 * So many rounds of each, by turns. In a round of --leave the process makes no more transactions
 * from that moment on, and nothing else happens: what the others do then is what they do by
 * themselves, on this machine, under its load. The files, for bench/deaths_plot: a line for each
 * round, and one for each millisecond before and after the moment. */

#include "smallbank.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "run.h"

#define SECOND INT64_C(1000000000)
#define SPREAD (SECOND / 20)            /* within which the moment is anywhere */
#define GOES_ON SECOND                  /* in which the others must go on, on any machine */

static const char *const event_names[BANK_EVENTS] = { "killed", "stopped", "left" };

struct options {
    int rounds[BANK_EVENTS];
    uint64_t seed;
    const char *rounds_file, *timeline_file;
};

struct totals {
    int rounds, goes_on, adds_up, has_memory, in_doubt, found_undone;
    int64_t latest;                     /* until all others had gone on */
    uint64_t suspected, helped, undone, blocks;
};

struct run {
    const struct options *options;
    struct bank *bank;
    FILE *rounds;
    struct bank_line line[BANK_EVENTS];
    struct totals totals[BANK_EVENTS];
    uint64_t random;
};

/* ---- a round ---- */

static void sleep_until(int64_t time)
{
    const struct timespec at = { .tv_sec = time / SECOND, .tv_nsec = time % SECOND };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

/* Does it, and returns when: nanoseconds of run_now(), before anything has happened. */
static int64_t happens(struct bank *b, pid_t victim)
{
    int64_t now = run_now();

    if (b->event == BANK_KILLED)
        kill(victim, SIGKILL);
    else if (b->event == BANK_STOPPED)
        kill(victim, SIGSTOP);
    else
        atomic_store(&b->leave, now);
    return now;
}

/* From the start of the processes to their end. Returns the moment, in ns after the start of their
 * transactions; -1: one of them has failed. */
static int64_t play(struct run *r, loco_fork_t *job)
{
    struct bank *b = r->bank;
    pid_t victim = loco_fork_pid(job, b->victim);
    int64_t moment, until;

    if (run_await(&b->ready, BANK_PROCESSES) != 0)
        return -1;
    atomic_store(&b->start, run_now());
    atomic_store(&b->go, 1);
    sleep_until(b->start + BANK_WINDOW + (int64_t)(run_random(&r->random) % SPREAD));
    moment = happens(b, victim);
    until = moment + BANK_WINDOW;
    if (b->event == BANK_STOPPED) {
        sleep_until(moment + SECOND);
        kill(victim, SIGCONT);
        until += SECOND;
    }
    atomic_store(&b->until, until);
    return moment - b->start;
}

static bool ended_well(const struct bank *b, const int *statuses)
{
    for (int i = 0; i < BANK_PROCESSES; i++) {
        int wanted = b->event == BANK_KILLED && i == b->victim ? -SIGKILL : 0;

        if (statuses[i] != wanted) {
            fprintf(stderr, "rank %d ended with %d\n", i, statuses[i]);
            return false;
        }
    }
    return true;
}

/* What the victim was about to commit has been, or not. */
static bool adds_up(const struct bank *b, bool *in_doubt)
{
    int64_t sum = b->at_first, adding = b->member[b->victim].adding;

    for (int i = 0; i < BANK_PROCESSES; i++)
        sum += b->member[i].added;
    *in_doubt = adding != 0 && b->found == sum + adding;
    return b->found == sum || (b->event == BANK_KILLED && *in_doubt);
}

static bool has_memory(const struct bank *b)
{
    uint64_t objects = b->first.objects;

    for (int i = 0; i < BANK_PROCESSES; i++)
        objects += b->member[i].filled;
    if (objects != b->blocks)
        fprintf(stderr, "%llu objects fill a store of %llu\n", (unsigned long long)objects,
                (unsigned long long)b->blocks);
    return objects == b->blocks && b->first.left == 0 && b->again.blocks == 0
           && b->again.cells == 0 && b->again.left == 0 && b->again.undone == 0;
}

static void write_round(struct run *r, int64_t moment, const struct bank_times *t, bool in_doubt)
{
    const struct bank *b = r->bank;
    loco_store_stats_t s = { 0 };

    for (int i = 0; i < BANK_PROCESSES; i++) {
        s.suspected += b->member[i].stats.suspected;
        s.helped += b->member[i].stats.helped;
        s.aborted_by_others += b->member[i].stats.aborted_by_others;
        s.conflicts += b->member[i].stats.conflicts;
    }
    r->totals[b->event].suspected += s.suspected;
    r->totals[b->event].helped += s.helped;
    if (r->rounds == NULL)
        return;
    fprintf(r->rounds, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%llu\t%llu"
            "\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%d\n", event_names[b->event], b->victim,
            (double)moment / 1e3, (double)t->first_any / 1e3, (double)t->first_all / 1e3,
            (double)t->gap_any[0] / 1e3, (double)t->gap_any[1] / 1e3, (double)t->gap_one[0] / 1e3,
            (double)t->gap_one[1] / 1e3, t->empty[0], t->empty[1],
            (unsigned long long)t->commits[0], (unsigned long long)t->commits[1],
            (unsigned long long)s.suspected, (unsigned long long)s.helped,
            (unsigned long long)s.aborted_by_others, (unsigned long long)s.conflicts,
            (unsigned long long)b->first.undone, (unsigned long long)b->first.blocks,
            (unsigned long long)b->first.cells, in_doubt);
    fflush(r->rounds);
}

static void add_up(struct run *r, int64_t moment)
{
    struct bank *b = r->bank;
    struct totals *t = &r->totals[b->event];
    struct bank_times times;
    bool in_doubt;

    bank_look(b, moment, &times, &r->line[b->event]);
    t->rounds++;
    t->goes_on += times.first_all <= run_limit(GOES_ON);
    t->latest = times.first_all > t->latest ? times.first_all : t->latest;
    t->adds_up += adds_up(b, &in_doubt);
    t->has_memory += has_memory(b);
    t->in_doubt += in_doubt;
    t->found_undone += b->first.undone > 0;
    t->blocks += b->first.blocks;
    write_round(r, moment, &times, in_doubt);
}

static int one_round(struct run *r, enum bank_event event)
{
    struct bank *b = r->bank;
    int statuses[BANK_PROCESSES];
    loco_fork_t *job;
    int64_t moment;

    memset(b, 0, offsetof(struct bank, member));
    for (int i = 0; i < BANK_PROCESSES; i++)
        memset(&b->member[i], 0, offsetof(struct bank_member, stamp));
    b->event = event;
    b->seed = run_random(&r->random);
    b->victim = (int)(run_random(&r->random) >> 32) & 3;
    if (!run_shares())
        b->victim = BANK_PROCESSES - 1;         /* no host: of those memory is lost */
    CHECK_OK(loco_fork_start(BANK_PROCESSES, bank_member, b, &job));
    moment = play(r, job);
    (void)loco_fork_wait(job, statuses);
    CHECK(ended_well(b, statuses) && moment >= 0);
    add_up(r, moment);
    return 0;
}

static int all_rounds(struct run *r)
{
    for (int i = 0, more = 1; more; i++) {
        more = 0;
        for (int e = 0; e < BANK_EVENTS; e++) {
            if (i >= r->options->rounds[e])
                continue;
            more = 1;
            if (one_round(r, (enum bank_event)e) != 0) {
                printf("# round %d, %s\n", i + 1, event_names[e]);
                return 1;
            }
        }
    }
    return 0;
}

/* ---- what it comes to ---- */

static int said;

static bool say(bool ok, const char *event, int rounds, const char *what)
{
    printf("%sok %d - %d times one is %s: %s\n", ok ? "" : "not ", ++said, rounds, event, what);
    return ok;
}

static bool conclude(const struct run *r, enum bank_event e)
{
    const struct totals *t = &r->totals[e];
    int n = r->options->rounds[e];
    bool ok;

    if (n == 0)
        return true;
    ok = say(t->rounds == n && t->goes_on == n, event_names[e], n, "the others go on");
    printf("# the last of them after %.1f ms at most; %llu transactions undone, %llu words of "
           "others put right; %d times it had been decided, %d times it was undone by scavenging\n",
           (double)t->latest / 1e6, (unsigned long long)t->suspected,
           (unsigned long long)t->helped, t->in_doubt, t->found_undone);
    ok = say(t->adds_up == n, event_names[e], n, "all money is there") && ok;
    ok = say(t->has_memory == n, event_names[e], n, "all memory is there") && ok;
    printf("# %llu blocks were found\n", (unsigned long long)t->blocks);
    return ok;
}

static int write_timeline(const struct run *r, const char *name)
{
    FILE *f = fopen(name, "w");

    if (f == NULL) {
        perror(name);
        return 1;
    }
    for (int e = 0; e < BANK_EVENTS; e++) {
        const struct bank_line *l = &r->line[e];

        for (int b = 0; b < (int)(2 * BANK_WINDOW / BANK_BIN) && l->rounds > 0; b++)
            fprintf(f, "%s\t%d\t%d\t%d\t%.2f\n", event_names[e],
                    b - (int)(BANK_WINDOW / BANK_BIN), l->rounds, l->empty[b],
                    (double)l->commits[b] / l->rounds);
    }
    return fclose(f);
}

/* ---- the command line ---- */

static int usage(void)
{
    fprintf(stderr, "usage: smallbank [--kill N] [--stop N] [--leave N] [--seed N] [--rounds FILE] "
            "[--timeline FILE]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "kill", required_argument, NULL, 'k' }, { "stop", required_argument, NULL, 's' },
        { "leave", required_argument, NULL, 'l' }, { "seed", required_argument, NULL, 'd' },
        { "rounds", required_argument, NULL, 'r' }, { "timeline", required_argument, NULL, 't' },
        { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 'k': o->rounds[BANK_KILLED] = atoi(optarg); break;
        case 's': o->rounds[BANK_STOPPED] = atoi(optarg); break;
        case 'l': o->rounds[BANK_LEFT] = atoi(optarg); break;
        case 'd': o->seed = strtoull(optarg, NULL, 10); break;
        case 'r': o->rounds_file = optarg; break;
        case 't': o->timeline_file = optarg; break;
        default: return false;
        }
    return optind == argc;
}

int main(int argc, char **argv)
{
    struct options o = { .rounds = { 8, 2, 0 }, .seed = (uint64_t)run_now() };
    static struct run r;
    bool ok = true;

    if (!parse(argc, argv, &o))
        return usage();
    r.options = &o;
    r.random = o.seed | 1;
    r.bank = mmap(NULL, sizeof *r.bank, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.bank == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    if (o.rounds_file != NULL && (r.rounds = fopen(o.rounds_file, "w")) == NULL) {
        perror(o.rounds_file);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("# seed %llu\n", (unsigned long long)o.seed);
    ok = all_rounds(&r) == 0;
    for (int e = 0; e < BANK_EVENTS; e++)
        ok = conclude(&r, (enum bank_event)e) && ok;
    printf("1..%d\n", said);
    if (o.timeline_file != NULL)
        ok = write_timeline(&r, o.timeline_file) == 0 && ok;
    return ok ? 0 : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Random MPI RMA programs until the time is over; what fails is shrunk, printed and kept. */
#include "emit.h"
#include "generate.h"
#include "shrink.h"

#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 200, FAILURES_MAX = 5, LINE_SECONDS = 10 };

struct options {
    double minutes;
    long programs;              /* 0: as many as there is time for */
    int ranks_low, ranks_high, threads, patience, failures;
    uint64_t seed;
    const char *component, *keep, *replay, *emit;
    bool print, no_shrink;
};

struct totals {
    long programs, operations, statements, jobs, failures;
    double begin, told;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int usage(void)
{
    fputs("usage: soak [--minutes M | --programs N] [--seed S] [--ranks A[..B]] [--threads T]\n"
          "            [--component C] [--keep DIR] [--failures N] [--patience SECONDS]\n"
          "            [--no-shrink]\n"
          "       soak --replay FILE [--component C] [--no-shrink]   programs of a file again\n"
          "       soak --print --seed S --ranks N [--threads T]      a program as text\n"
          "       soak --emit FILE                                   one as a C program\n"
          "Programs that fail are kept in DIR (soak-failures). --threads 1: none with threads.\n",
          stderr);
    return 2;
}

static bool parse_ranks(const char *text, struct options *o)
{
    char *end;

    o->ranks_low = o->ranks_high = (int)strtol(text, &end, 10);
    if (strncmp(end, "..", 2) == 0)
        o->ranks_high = (int)strtol(end + 2, &end, 10);
    return *end == '\0' && o->ranks_low >= 1 && o->ranks_high >= o->ranks_low &&
           o->ranks_high <= SOAK_RANKS;
}

static bool take_option(const char *name, const char *value, struct options *o)
{
    if (strcmp(name, "--minutes") == 0)
        return (o->minutes = strtod(value, NULL)) > 0;
    if (strcmp(name, "--programs") == 0)
        return (o->programs = strtol(value, NULL, 10)) > 0;
    if (strcmp(name, "--seed") == 0)
        o->seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--ranks") == 0)
        return parse_ranks(value, o);
    else if (strcmp(name, "--threads") == 0)
        return (o->threads = atoi(value)) >= 1 && o->threads <= SOAK_THREADS;
    else if (strcmp(name, "--patience") == 0)
        return (o->patience = atoi(value)) > 0;
    else if (strcmp(name, "--failures") == 0)
        return (o->failures = atoi(value)) > 0;
    else if (strcmp(name, "--component") == 0)
        o->component = value;
    else if (strcmp(name, "--keep") == 0)
        o->keep = value;
    else if (strcmp(name, "--replay") == 0)
        o->replay = value;
    else if (strcmp(name, "--emit") == 0)
        o->emit = value;
    else
        return false;
    return true;
}

static bool parse_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--print") == 0)
            o->print = true;
        else if (strcmp(argv[i], "--no-shrink") == 0)
            o->no_shrink = true;
        else if (i + 1 == argc || !take_option(argv[i], argv[i + 1], o))
            return false;
        else
            i++;
    }
    return true;
}

/* ---- failures ---- */

static void save(const struct options *o, const struct program *p, const char *name,
                 const char *suffix, bool as_c)
{
    char path[4096];
    FILE *f;

    mkdir(o->keep, 0777);
    snprintf(path, sizeof path, "%s/%s%s", o->keep, name, suffix);
    f = fopen(path, "w");
    if (f == NULL) {
        fprintf(stderr, "soak: %s: %s\n", path, strerror(errno));
        return;
    }
    if (as_c)
        emit(p, f);
    else
        program_print(p, f);
    fclose(f);
    printf("kept: %s\n", path);
}

static void report(const struct options *o, const struct job *job, const char *text,
                   const struct failure *failure)
{
    struct program p;
    char why[700], name[100];
    double begin = now();

    printf("FAILED: %s: %s\n", end_name(failure->end), failure->why);
    if (text == NULL || !program_parse(&p, text, why, sizeof why)) {
        printf("and its program is not known\n");
        return;
    }
    snprintf(name, sizeof name, "seed-%llu-ranks-%d-threads-%d", (unsigned long long)p.seed,
             job->ranks, job->threads);
    save(o, &p, name, ".soak", false);
    if (o->no_shrink || failure->end == E_INVALID) {
        program_free(&p);
        return;
    }
    if (!shrink(&p, job, why, sizeof why)) {
        printf("it does not fail when it is run again, 111 times\n");
    } else {
        printf("shrunk to %d statements in %.0f s: %s\n", p.n, now() - begin, why);
        program_print(&p, stdout);
        save(o, &p, name, ".min.soak", false);
        save(o, &p, name, ".min.c", true);
    }
    program_free(&p);
    fflush(stdout);
}

static char *text_of_seed(uint64_t seed, int ranks, int threads)
{
    struct program p;
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    model_free(generate(&p, seed, ranks, threads));
    program_print(&p, f);
    fclose(f);
    program_free(&p);
    return text;
}

/* ---- many ---- */

/* Each job has another number of ranks, threads or none, and ways of loco that are rare. */
static struct job plan(const struct options *o, const char *folder, long number, uint64_t seed)
{
    static const int order[7] = {2, 4, 3, 8, 5, 1, 6};
    int span = o->ranks_high - o->ranks_low + 1;
    struct job job = {.component = o->component, .folder = folder, .seed = seed, .count = BATCH,
                      .repeat = 1, .patience = o->patience};

    job.ranks = o->ranks_low + (int)(number % span);
    if (o->ranks_low == 1 && o->ranks_high == SOAK_RANKS)
        job.ranks = order[number % 7];
    job.threads = number % 3 == 2 ? o->threads : 1;
    job.late_requests = number % 5 == 3 && strcmp(o->component, "loco") == 0;
    job.no_cma = number % 8 == 6 && strcmp(o->component, "loco") == 0;
    return job;
}

static void progress(struct totals *t, uint64_t seed, bool last)
{
    double seconds = now() - t->begin;

    if (!last && now() - t->told < LINE_SECONDS)
        return;
    t->told = now();
    printf("%s%ld programs, %ld operations, %ld statements, %ld jobs, %ld failures, %.0f s, "
           "seeds to %llu\n", last ? "sum: " : "", t->programs, t->operations, t->statements,
           t->jobs, t->failures, seconds, (unsigned long long)(seed - 1));
    fflush(stdout);
}

/* One job; returns how many programs of it are done with, failed ones included. */
static int run_job(const struct options *o, struct job *job, struct totals *t)
{
    struct result r;
    int done = job->count;

    if (!launch(job, &r)) {
        printf("FAILED: the job does not begin: %s\n", r.failures > 0 ? r.failure[0].why : "?");
        printf("its output is in %s/output\n", job->folder);
        t->failures = o->failures;
        result_free(&r);
        return done;
    }
    t->jobs++;
    t->programs += r.programs;
    t->operations += r.operations;
    t->statements += r.statements;
    for (int i = 0; i < r.failures && t->failures < o->failures; i++) {
        char *text = text_of_seed(job->seed + (uint64_t)r.failure[i].number, job->ranks,
                                  job->threads);
        t->failures++;
        report(o, job, text, &r.failure[i]);
        free(text);
    }
    if (!r.ended)
        done = r.failure[r.failures - 1].number + 1;
    result_free(&r);
    return done;
}

static int soak(const struct options *o, const char *folder)
{
    struct totals t = {.begin = now(), .told = now()};
    uint64_t seed = o->seed;

    for (long number = 0; t.failures < o->failures; number++) {
        struct job job = plan(o, folder, number, seed);
        if (o->programs > 0 && o->programs - t.programs < BATCH)
            job.count = (int)(o->programs - t.programs);
        if (o->programs > 0 ? t.programs >= o->programs : now() - t.begin > 60 * o->minutes)
            break;
        if (o->programs > 0 && o->programs < 5 * BATCH && job.count > 60)
            job.count = 60;
        seed += (uint64_t)run_job(o, &job, &t);
        progress(&t, seed, false);
    }
    progress(&t, seed, true);
    return t.failures > 0;
}

/* ---- one ---- */

static int replay(const struct options *o, const char *folder)
{
    char *text = slurp(o->replay), why[300];
    struct program p;
    struct result r;
    struct job job = {.component = o->component, .folder = folder, .file = o->replay,
                      .repeat = 1, .patience = o->patience};

    if (text == NULL || !program_parse(&p, text, why, sizeof why)) {
        fprintf(stderr, "soak: %s: %s\n", o->replay, text == NULL ? strerror(errno) : why);
        return 2;
    }
    job.ranks = p.ranks;
    job.threads = p.threads;
    program_free(&p);
    launch(&job, &r);
    printf("%d programs, %ld operations, %d failures\n", r.programs, r.operations, r.failures);
    for (int i = 0; i < r.failures; i++)
        report(o, &job, r.current != NULL ? r.current : text, &r.failure[i]);
    free(text);
    result_free(&r);
    return r.failures > 0;
}

static int emit_file(const char *path)
{
    char *text = slurp(path), why[300];
    struct program p;

    if (text == NULL || !program_parse(&p, text, why, sizeof why)) {
        fprintf(stderr, "soak: %s: %s\n", path, text == NULL ? strerror(errno) : why);
        return 2;
    }
    emit(&p, stdout);
    program_free(&p);
    free(text);
    return 0;
}

static void remove_folder(const char *folder)
{
    static const char *const names[5] = {"status", "current", "places", "output", "cuts"};
    char path[4200];

    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

int main(int argc, char **argv)
{
    struct options o = {.minutes = 1, .ranks_low = 1, .ranks_high = SOAK_RANKS, .seed = 1,
                        .threads = SOAK_THREADS, .component = "loco", .keep = "soak-failures",
                        .patience = 60, .failures = FAILURES_MAX};
    const char *tmp = getenv("TMPDIR"), *scale = getenv("TEST_SCALE");
    char folder[4096];
    int status;

    if (!parse_options(argc, argv, &o))
        return usage();
    if (o.emit != NULL)
        return emit_file(o.emit);
    if (o.print) {
        char *text = text_of_seed(o.seed, o.ranks_low, o.threads);
        fputs(text, stdout);
        free(text);
        return 0;
    }
    if (scale != NULL && atoi(scale) > 1)
        o.patience *= atoi(scale);
    snprintf(folder, sizeof folder, "%s/loco-soak.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "soak: %s: %s\n", folder, strerror(errno));
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    status = o.replay != NULL ? replay(&o, folder) : soak(&o, folder);
    if (status == 0)
        remove_folder(folder);
    return status;
}

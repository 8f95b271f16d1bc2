/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that come and go: processes without MPI, each with a runtime of its own. */
#include "elastic_kv.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { TICK_NS = 100000000 };

/* Shared with the workers. Each writes its own line. */
struct board {
    struct line {
        _Alignas(64) _Atomic uint64_t done;
        _Atomic int stop;               /* by the parent */
    } line[ELASTIC_WORKERS];
    _Atomic int64_t slowest;            /* ns from fork to the first answer, since the last look */
    _Atomic int wrong;                  /* status of a call that failed, or of a wrong value */
};

struct serve {
    const struct elastic_options *o;
    struct board *board;
    pid_t pid[ELASTIC_WORKERS];
    int workers;
    int64_t begun;
    uint64_t seen, most;
};

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool elastic_is_serving(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--serve", 7) == 0)
            return true;
    return false;
}

/* ---- a worker ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void tell_first(struct board *board, int64_t began)
{
    int64_t took = now() - began, slowest = atomic_load(&board->slowest);

    while (took > slowest && !atomic_compare_exchange_weak(&board->slowest, &slowest, took))
        ;
}

static int use(struct serve *s, struct elastic_table *t, struct line *line, int64_t began)
{
    uint64_t random = (uint64_t)began * 2 + 1;
    int status = LOCO_OK;

    while (status == LOCO_OK && !atomic_load(&line->stop)) {
        uint64_t key = next_random(&random) % s->o->keys;
        bool update = (double)(next_random(&random) % 10000) < 100 * s->o->updates;

        status = update ? elastic_put(t, s->o, key, random) : elastic_check(t, s->o, key);
        if (status == LOCO_ERR_NOT_FOUND)
            fprintf(stderr, "elastic_kv: key %" PRIu64 " is not there: --load first, with the same "
                    "--keys\n", key);
        if (atomic_fetch_add(&line->done, 1) == 0 && status == LOCO_OK)
            tell_first(s->board, began);
    }
    return status;
}

static int work(struct serve *s, int number, int64_t began)
{
    struct line *line = &s->board->line[number];
    struct elastic_table t;
    loco_runtime_t *rt;
    int status = loco_runtime_attach(s->o->pool, NULL, &rt);

    if (status == LOCO_OK) {
        status = elastic_open(rt, s->o, &t);
        if (status == LOCO_OK) {
            status = use(s, &t, line, began);
            elastic_close(&t);
        }
        loco_runtime_close(rt);
    }
    if (status != LOCO_OK)
        atomic_store(&s->board->wrong, status);
    return status == LOCO_OK ? 0 : EX_WRONG;
}

/* ---- the parent, which has no runtime ---- */

static bool add_worker(struct serve *s)
{
    int number = s->workers;
    int64_t began = now();

    s->seen -= atomic_exchange(&s->board->line[number].done, 0);
    atomic_store(&s->board->line[number].stop, 0);
    s->pid[number] = fork();
    if (s->pid[number] == 0)
        _exit(work(s, number, began));
    if (s->pid[number] < 0) {
        perror("elastic_kv: fork");
        return false;
    }
    s->workers++;
    return true;
}

static void take_workers(struct serve *s, int wanted)
{
    for (int i = wanted; i < s->workers; i++) {
        atomic_store(&s->board->line[i].stop, 1);
        if (s->o->kill)
            kill(s->pid[i], SIGKILL);
    }
    for (int i = wanted; i < s->workers; i++)
        waitpid(s->pid[i], NULL, 0);
    s->workers = wanted < s->workers ? wanted : s->workers;
}

static bool have(struct serve *s, int wanted)
{
    take_workers(s, wanted);
    while (s->workers < wanted)
        if (!add_worker(s))
            return false;
    return true;
}

static void print_tick(struct serve *s)
{
    uint64_t all = 0;
    int64_t slowest = atomic_exchange(&s->board->slowest, 0);
    double rate;

    for (int i = 0; i < ELASTIC_WORKERS; i++)
        all += atomic_load(&s->board->line[i].done);
    rate = (double)(all - s->seen) / ((double)TICK_NS / 1e9);
    s->seen = all;
    s->most = (uint64_t)rate > s->most ? (uint64_t)rate : s->most;
    if (!s->o->json)
        printf("%7.2f %4d %12.0f %10.2f\n", (double)(now() - s->begun) / 1e9, s->workers, rate,
               (double)slowest / 1e6);
    fflush(stdout);
}

static bool all_phases(struct serve *s)
{
    const struct timespec tick = { .tv_nsec = TICK_NS };

    for (int i = 0; i < s->o->phases && atomic_load(&s->board->wrong) == 0; i++) {
        int64_t end = now() + (int64_t)(s->o->phase * 1e9);

        if (!have(s, s->o->workers[i]))
            return false;
        while (now() < end) {
            nanosleep(&tick, NULL);
            print_tick(s);
        }
    }
    take_workers(s, 0);
    return true;
}

static int serve(const struct elastic_options *o)
{
    struct serve s = { .o = o, .begun = now() };
    int wrong;
    bool fine;

    s.board = mmap(NULL, sizeof *s.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    if (s.board == MAP_FAILED) {
        perror("elastic_kv: mmap");
        return EX_WRONG;
    }
    if (!o->json)
        printf("#  time workers      per second  first, ms\n");
    fine = all_phases(&s);
    wrong = atomic_load(&s.board->wrong);
    if (o->json)
        printf("{\"phases\": %d, \"most_per_second\": %" PRIu64 ", \"check\": \"%s\"}\n",
               o->phases, s.most, fine && wrong == 0 ? "passed" : "failed");
    if (wrong != 0)
        fprintf(stderr, "elastic_kv: a worker: %s\n", loco_strerror(wrong));
    return fine && wrong == 0 ? 0 : EX_WRONG;
}

/* The command line as the MPI jobs have it, without MPI. */
int elastic_serve_main(int argc, char **argv, const struct option *names, const char *help,
                       bool (*parse)(int option, void *options), struct elastic_options *o)
{
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (!parse(c, o)) {
            fprintf(stderr, "elastic_kv: wrong option or value; --help says what there is\n");
            return EX_USAGE;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "elastic_kv: unexpected argument %s\n", argv[optind]);
        return EX_USAGE;
    }
    return serve(o);
}

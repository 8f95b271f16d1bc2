/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A round: the other process prepares and says so; the waiter says that it begins, and waits; the
 * other ends the wait a while after that, and notes when. Meanwhile it sleeps, so that both of two
 * cores are free. What the two tell each other goes through flags of their own.
 */
#include "blocked.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 1000

struct blocked_shared {
    _Atomic int prepared, begun, over;      /* rounds */
    _Atomic int64_t ended;                  /* ns: when the other one began to end the wait */
};

static const double waits_ms[] = { 0.1, 1, 10, 100 };
enum { WAITS = sizeof waits_ms / sizeof waits_ms[0] };

size_t blocked_bytes(void)
{
    return sizeof(struct blocked_shared);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ns(int64_t ns)
{
    struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    nanosleep(&t, NULL);
}

static void await(_Atomic int *flag, int round)
{
    while (atomic_load_explicit(flag, memory_order_acquire) < round)
        pause_ns(20000);
}

static void call(void (*function)(void *arg), void *arg)
{
    if (function != NULL)
        function(arg);
}

/* Nanoseconds from the end's beginning to the waiter's return, and of the waiter's CPU time. */
struct sample {
    int64_t latency, cpu;
};

static void as_waiter(struct blocked_shared *s, const struct blocked_kind *kind, void *arg,
                      int round, struct sample *sample)
{
    int64_t cpu;

    await(&s->prepared, round);
    atomic_store_explicit(&s->begun, round, memory_order_release);
    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    call(kind->wait, arg);
    sample->latency = clock_ns(CLOCK_MONOTONIC);
    sample->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    call(kind->tidy_waiter, arg);
    atomic_store_explicit(&s->over, round, memory_order_release);
    sample->latency -= atomic_load_explicit(&s->ended, memory_order_relaxed);
}

static void as_other(struct blocked_shared *s, const struct blocked_kind *kind, void *arg,
                     int round, int64_t ns)
{
    call(kind->prepare, arg);
    atomic_store_explicit(&s->prepared, round, memory_order_release);
    await(&s->begun, round);
    pause_ns(ns);
    atomic_store_explicit(&s->ended, clock_ns(CLOCK_MONOTONIC), memory_order_relaxed);
    call(kind->end, arg);
    await(&s->over, round);
    call(kind->tidy_other, arg);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void print_latencies(int64_t *ns, int n)
{
    qsort(ns, (size_t)n, sizeof ns[0], by_value);
    printf(" | %8.1f %8.1f", (double)ns[n / 2] / 1e3, (double)ns[n - 1 - n / 10] / 1e3);
}

static void run_kind(struct blocked_shared *s, bool is_waiter, const struct blocked_options *o,
                     const struct blocked_kind *kind, void *arg, int *round)
{
    int64_t latency[ROUNDS_MAX];
    struct sample sample;

    if (is_waiter)
        printf("%-16s", kind->name);
    for (int w = 0; w < WAITS; w++) {
        for (int i = 0; i < o->rounds; i++) {
            ++*round;
            if (is_waiter)
                as_waiter(s, kind, arg, *round, &sample);
            else
                as_other(s, kind, arg, *round, (int64_t)(waits_ms[w] * 1e6));
            latency[i] = sample.latency;
        }
        if (is_waiter)
            print_latencies(latency, o->rounds);
    }
    ++*round;
    if (is_waiter)
        as_waiter(s, kind, arg, *round, &sample);
    else
        as_other(s, kind, arg, *round, (int64_t)(o->seconds * 1e9));
    if (is_waiter)
        printf(" | %6.2f %%\n", (double)sample.cpu / o->seconds / 1e7);
    fflush(stdout);
}

void blocked_run(struct blocked_shared *shared, bool is_waiter, const struct blocked_options *o,
                 const struct blocked_kind *kinds, size_t n, void *arg)
{
    int round = 0;

    if (is_waiter) {
        printf("us from its cause to the end of a wait of... (median, 90 of 100), and CPU time of "
               "one of %g s\n%-16s", o->seconds, "");
        for (int w = 0; w < WAITS; w++)
            printf(" | %14g ms", waits_ms[w]);
        printf("\n");
    }
    for (size_t i = 0; i < n; i++)
        if (o->only == NULL || strstr(kinds[i].name, o->only) != NULL)
            run_kind(shared, is_waiter, o, &kinds[i], arg, &round);
}

bool blocked_parse(int argc, char **argv, struct blocked_options *options)
{
    static const struct option names[] = {
        { "kind", required_argument, NULL, 'k' }, { "rounds", required_argument, NULL, 'r' },
        { "seconds", required_argument, NULL, 's' }, { NULL, 0, NULL, 0 }
    };
    int option;

    *options = (struct blocked_options){ .rounds = 11, .seconds = 2 };
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'k': options->only = optarg; break;
        case 'r': options->rounds = atoi(optarg); break;
        case 's': options->seconds = atof(optarg); break;
        default: return false;
        }
    }
    return optind == argc && options->rounds >= 1 && options->rounds <= ROUNDS_MAX
           && options->seconds > 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BAR 24

double sim_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double period(const struct sim_progress *p)
{
    return p->terminal ? 0.2 : 10.0;
}

void sim_progress_init(struct sim_progress *p)
{
    *p = (struct sim_progress){ .terminal = isatty(STDERR_FILENO) == 1 };
    p->next = sim_now() + period(p);
}

/* By what comes to its end first. */
static double part(const struct sim_state_of_work *s)
{
    double by_count = s->count > 0 ? (double)s->done / (double)s->count : 0;
    double by_time = s->seconds > 0 ? s->elapsed / s->seconds : 0;
    double most = by_count > by_time ? by_count : by_time;

    return most > 1 ? 1 : most;
}

static void show_bar(double done)
{
    fputs("\r\033[K[", stderr);
    for (int i = 0; i < BAR; i++)
        fputc((i + 0.5) / BAR <= done ? '#' : '-', stderr);
    fputs("] ", stderr);
}

void sim_progress_show(struct sim_progress *p, const struct sim_state_of_work *s)
{
    double now = sim_now(), done = part(s);
    double rate = s->elapsed > 0 ? (double)s->done / s->elapsed : 0;

    if (now < p->next)
        return;
    p->next = now + period(p);
    if (p->terminal)
        show_bar(done);
    fprintf(stderr, "%3.0f%% %s: %llu %s, %.0f/s, %llu failures", 100 * done, s->name,
            (unsigned long long)s->done, s->unit, rate, (unsigned long long)s->failures);
    if (done > 0 && done < 1)
        fprintf(stderr, ", %.0f s left", s->elapsed / done * (1 - done));
    if (!p->terminal)
        fputc('\n', stderr);
    p->shown = p->terminal;
    fflush(stderr);
}

void sim_progress_clear(struct sim_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

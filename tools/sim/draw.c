/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "draw.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "case.h"

#define NETWORK 1000            /* the network's thread in the drawing: below all others */

/* An operation that is drawn: from when to when, and where it began. */
struct span {
    uint64_t first, last;
    int process;
    char name[64];
};

struct sim_draw {
    FILE *to;
    bool any;                           /* an event is written: the next needs a comma */
    uint64_t order;                     /* events of one step follow each other */
    uint64_t step;
    struct span *span;                  /* by number of the operation */
    size_t spans;
    unsigned char seen[SIM_MAX_PROCESSES][SIM_MAX_THREADS / 8 + 1];
};

/* ---- JSON ---- */

void sim_json_string(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20)
            fprintf(to, "\\u%04x", c);
        else
            putc(c, to);
    }
    putc('"', to);
}

static void begin_event(struct sim_draw *d, const char *name, const char *phase, int process,
                        int thread, uint64_t at)
{
    fputs(d->any ? ",\n{\"name\":" : "\n{\"name\":", d->to);
    d->any = true;
    sim_json_string(d->to, name);
    fprintf(d->to, ",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%llu.%03llu", phase, process,
            thread, (unsigned long long)(at / 1000), (unsigned long long)(at % 1000));
}

static void name_track(struct sim_draw *d, const char *kind, int process, int thread,
                       const char *name)
{
    begin_event(d, kind, "M", process, thread, 0);
    fputs(",\"args\":{\"name\":", d->to);
    sim_json_string(d->to, name);
    fputs("}}", d->to);
}

/* ---- tracks ---- */

static int track_of(const struct loci_sim_event *e)
{
    return e->thread < 0 ? NETWORK : e->thread;
}

/* Each track is named when it is first seen. */
static void meet_track(struct sim_draw *d, const struct loci_sim_event *e)
{
    int thread = e->thread < 0 ? SIM_MAX_THREADS : e->thread;
    unsigned char *seen, bit = (unsigned char)(1 << thread % 8);
    char name[40];

    if (e->process < 0 || e->process >= SIM_MAX_PROCESSES || thread > SIM_MAX_THREADS)
        return;
    seen = &d->seen[e->process][thread / 8];
    if ((*seen & bit) != 0)
        return;
    *seen |= bit;
    snprintf(name, sizeof name, "process %d", e->process);
    name_track(d, "process_name", e->process, 0, name);
    snprintf(name, sizeof name, e->thread < 0 ? "network" : "thread %d", e->thread);
    name_track(d, "thread_name", e->process, track_of(e), name);
}

/* ---- operations ---- */

static void follow_operation(struct sim_draw *d, const struct loci_sim_event *e, uint64_t at)
{
    struct span *span;

    if (e->op >= d->spans) {
        size_t n = (size_t)e->op * 2 + 64;

        span = realloc(d->span, n * sizeof *span);
        if (span == NULL)
            return;
        memset(span + d->spans, 0, (n - d->spans) * sizeof *span);
        d->span = span;
        d->spans = n;
    }
    span = &d->span[e->op];
    if (span->last == 0) {
        span->first = at;
        span->process = e->process;
        snprintf(span->name, sizeof span->name, "op %llu: %s", (unsigned long long)e->op, e->what);
    }
    span->last = at + 1000;
}

static void draw_operation(struct sim_draw *d, size_t op)
{
    const struct span *span = &d->span[op];

    if (span->last == 0)
        return;
    begin_event(d, span->name, "b", span->process, NETWORK, span->first);
    fprintf(d->to, ",\"cat\":\"operation\",\"id\":%zu}", op);
    begin_event(d, span->name, "e", span->process, NETWORK, span->last);
    fprintf(d->to, ",\"cat\":\"operation\",\"id\":%zu}", op);
}

/* ---- a drawing ---- */

struct sim_draw *sim_draw_begin(FILE *to)
{
    struct sim_draw *d = calloc(1, sizeof *d);

    if (d == NULL)
        return NULL;
    d->to = to;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", to);
    return d;
}

void sim_draw_event(void *draw, const struct loci_sim_event *e)
{
    struct sim_draw *d = draw;
    uint64_t at;

    d->order = e->step == d->step ? d->order + 1 : 0;
    d->step = e->step;
    /* In thousandths of the microsecond that the step is. */
    at = e->step * 1000 + (d->order < 999 ? d->order : 999);
    meet_track(d, e);
    begin_event(d, e->what, "X", e->process, track_of(e), at);
    fprintf(d->to, ",\"dur\":0.9,\"args\":{\"step\":%llu,\"virtual ns\":%lld",
            (unsigned long long)e->step, (long long)e->time);
    if (e->op != 0)
        fprintf(d->to, ",\"operation\":%llu", (unsigned long long)e->op);
    if (e->peer >= 0)
        fprintf(d->to, ",\"peer\":%d", e->peer);
    if (e->text != NULL && e->text[0] != '\0') {
        fputs(",\"text\":", d->to);
        sim_json_string(d->to, e->text);
    }
    fputs("}}", d->to);
    if (e->op != 0)
        follow_operation(d, e, at);
}

void sim_draw_end(struct sim_draw *d)
{
    for (size_t op = 1; op < d->spans; op++)
        draw_operation(d, op);
    fputs("\n]}\n", d->to);
    free(d->span);
    free(d);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* What a run says of itself: events as lines, who waits for what, whose memory an address is.
 * Nothing here depends on where memory lies: the text is the same on every machine. */

#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "names/names.h"
#include "world.h"

/* ---- whose memory ---- */

static bool in_extents(const struct sim_process *p, const unsigned char *at)
{
    for (int i = 0; i < p->extent_count; i++)
        if (at >= p->extents[i].base && at < p->extents[i].base + p->extents[i].len)
            return true;
    return false;
}

bool loci_sim_is_network(struct sim_world *w, const void *at)
{
    for (int i = 0; i < w->count; i++)
        if (in_extents(&w->process[i], at))
            return true;
    return false;
}

/* In a region of this endpoint that its own process provides. */
static bool region_of(const struct sim_process *p, struct loci_endpoint *ep,
                      const unsigned char *at, char *text, size_t len)
{
    for (int i = 0; i < ep->spec.nregions; i++) {
        const struct loci_mem *mem = loci_endpoint_mem(ep, ep->group.rank, i);
        const unsigned char *base = SIM_LOAD(&mem->ptr, __ATOMIC_RELAXED);

        if (mem->key.kind != LOCI_MEM_NONE && base != NULL && at >= base
            && at < base + mem->key.len) {
            snprintf(text, len, "p%d %s.%s+%zu", p->rank, ep->name, ep->spec.region[i].name,
                     (size_t)(at - base));
            return true;
        }
    }
    return false;
}

static bool region_at(const struct sim_process *p, const unsigned char *at, char *text, size_t len)
{
    const struct loci_names *names = p->rt->names;

    for (size_t i = 0; i < names->buckets; i++)
        for (struct loci_endpoint *ep = names->bucket[i]; ep != NULL; ep = ep->next)
            if (region_of(p, ep, at, text, len))
                return true;
    return false;
}

bool loci_sim_place_of(struct sim_world *w, const void *address, char *text, size_t len)
{
    const unsigned char *at = address;

    for (int i = 0; i < w->count; i++) {
        struct sim_process *p = &w->process[i];

        for (int j = 0; j < p->extent_count; j++) {
            const struct sim_extent *e = &p->extents[j];

            if (at < e->base || at >= e->base + e->len)
                continue;
            if (p->rt == NULL || p->rt->names == NULL || !region_at(p, at, text, len))
                snprintf(text, len, "p%d extent %llu+%zu", p->rank, (unsigned long long)e->number,
                         (size_t)(at - e->base));
            return true;
        }
    }
    snprintf(text, len, "memory of the program");
    return false;
}

/* ---- lines ---- */

void loci_sim_trace_line(struct sim_world *w, int process, int thread, const char *what,
                         uint64_t op, int peer, const char *format, ...)
{
    struct loci_sim_event event = {
        .time = loci_sim_clock(w), .step = w->steps, .process = process, .thread = thread,
        .what = what,
        .op = op, .peer = peer,
    };
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    event.text = text;
    if (w->config->event != NULL)
        w->config->event(w->config->event_ctx, &event);
    if (w->config->trace == NULL)
        return;
    fprintf(w->config->trace, "%8llu %10lld ns  p%d.%-3s %-22s %s\n",
            (unsigned long long)w->steps, (long long)event.time, process,
            thread < 0 ? "net" : (char[]){ 't', (char)('0' + thread % 10), '\0' }, what, text);
}

void loci_sim_trace_access(struct sim_world *w, enum loci_sim_access kind, const void *at,
                           size_t len)
{
    static const char *const names[] = { "load", "store", "atomic" };
    struct sim_fiber *f = w->current;
    char where[160];

    if (!loci_sim_is_network(w, at))
        return;
    loci_sim_place_of(w, at, where, sizeof where);
    loci_sim_trace_line(w, f->process->rank, f->thread, names[kind], 0, -1, "%s, %zu bytes",
                        where, len);
    if (kind != LOCI_SIM_STORE)
        loci_sim_hazards(w, at, len);
}

void loci_sim_note(const char *format, ...)
{
    struct sim_world *w = loci_sim_world;
    char text[400];
    va_list args;

    if (w == NULL || w->current == NULL || !sim_traced(w))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    loci_sim_trace_line(w, w->current->process->rank, w->current->thread, "note", 0, -1, "%s",
                        text);
}

/* ---- who waits for what ---- */

static const char *state_name(const struct sim_fiber *f)
{
    switch (f->state) {
    case SIM_READY: return "runs";
    case SIM_IDLE: return "waits for";
    case SIM_MUTEX: return "waits for a mutex";
    case SIM_COND: return "waits for a condition";
    case SIM_JOIN: return "waits for its threads";
    case SIM_MAIL: return "has no messages";
    case SIM_ASLEEP: return "sleeps";
    case SIM_FUTEX: return "sleeps in a wait for";
    default: return "has ended";
    }
}

static bool is_in_wait(const struct sim_fiber *f)
{
    return f->state == SIM_IDLE || f->state == SIM_FUTEX;
}

void loci_sim_stuck_text(struct sim_world *w)
{
    struct loci_sim_result *r = w->result;
    size_t at = 0;
    const char *first = NULL;
    int who = -1;

    for (int i = 0; i < w->fiber_count && at < sizeof r->detail; i++) {
        const struct sim_fiber *f = w->fibers[i];

        if (f->state == SIM_DONE || f->state == SIM_MAIL)
            continue;
        at += (size_t)snprintf(r->detail + at, sizeof r->detail - at, "p%d.%s%d %s %s%s\n",
                               f->process->rank, f->thread < 0 ? "service" : "t",
                               f->thread < 0 ? 0 : f->thread, state_name(f),
                               is_in_wait(f) && f->waits_for != NULL ? f->waits_for : "",
                               f->process->stopped ? " (stopped by the fault)" : "");
        if (first == NULL && is_in_wait(f) && !f->process->stopped) {
            first = f->waits_for;
            who = f->process->rank;
        }
    }
    for (int i = 0; i < w->lane_count && at < sizeof r->detail; i++)
        for (struct sim_op *p = w->lanes[i]->first; p != NULL && at < sizeof r->detail;
             p = p->next) {
            char text[256];

            loci_sim_op_text(w->lanes[i], p, text, sizeof text);
            at += (size_t)snprintf(r->detail + at, sizeof r->detail - at, "in flight: %s\n", text);
        }
    snprintf(r->text, sizeof r->text, "%s: p%d waits for %s",
             r->verdict == LOCI_SIM_STUCK ? "stuck" : "no end", who,
             first != NULL ? first : "something");
}

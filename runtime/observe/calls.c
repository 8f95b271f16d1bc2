/* SPDX-License-Identifier: BSD-3-Clause */

/* The list of channels only grows, under a lock; whoever has an entry needs none. An
 * entry gets room for its numbers with the first call: most endpoints are parts of other channels,
 * which no program calls. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "names/endpoint.h"
#include "observe.h"
#include "wait.h"

#define LINE_ROOM (LOCI_NAME_MAX + 128)     /* bytes of a line of the table, at most */

static const char *const kind_names[LOCI_CALL_KINDS] = {
    "read", "write", "atomic", "load", "store", "push", "pull", "pop", "send", "receive", "wait",
    "acquire", "release", "broadcast", "reduce", "allreduce", "get", "put", "insert", "update",
    "delete", "compare_set", "add", "scan", "commit", "join", "leave",
};

struct numbers {
    loci_counter calls, failed, bytes, ns, waits, wait_ns;
};

struct loci_calls {
    struct loco_runtime *rt;
    struct loci_calls *next;            /* a younger one */
    _Atomic(struct numbers *) numbers;  /* by kind; NULL: there was no call */
    char type[LOCI_TYPE_NAME], name[LOCI_NAME_MAX];
};

/* ---- channels ---- */

static struct loci_calls *find(struct loco_runtime *rt, const char *type, const char *name)
{
    struct loci_calls *c = rt->calls;

    while (c != NULL && (strcmp(c->name, name) != 0 || strcmp(c->type, type) != 0))
        c = c->next;
    return c;
}

static struct loci_calls *add(struct loco_runtime *rt, const char *type, const char *name)
{
    struct loci_calls *c = calloc(1, sizeof *c), **last = &rt->calls;

    if (c == NULL)
        return NULL;
    while (*last != NULL)
        last = &(*last)->next;
    *last = c;
    c->rt = rt;
    snprintf(c->type, sizeof c->type, "%s", type);
    snprintf(c->name, sizeof c->name, "%s", name);
    rt->calls_made++;
    return c;
}

struct loci_calls *loci_calls_of(struct loco_runtime *rt, const char *type, const char *name)
{
    struct loci_calls *c;

    if (loci_observed(rt) == 0)
        return NULL;
    pthread_mutex_lock(&rt->calls_lock);
    c = find(rt, type, name);
    if (c == NULL && rt->calls_made >= LOCI_CALLS_NAMES) {
        type = "channels";
        name = "others";
        c = find(rt, type, name);
    }
    if (c == NULL)
        c = add(rt, type, name);
    pthread_mutex_unlock(&rt->calls_lock);
    return c;
}

void loci_calls_free(struct loco_runtime *rt)
{
    while (rt->calls != NULL) {
        struct loci_calls *c = rt->calls;

        rt->calls = c->next;
        free(atomic_load_explicit(&c->numbers, memory_order_relaxed));
        free(c);
    }
}

/* ---- calls ---- */

static struct numbers *numbers_of(struct loci_calls *c)
{
    /* Acquire: pairs with the exchange, after which others see zeros. */
    struct numbers *n = atomic_load_explicit(&c->numbers, memory_order_acquire), *made;

    if (n != NULL)
        return n;
    made = calloc(LOCI_CALL_KINDS, sizeof *made);
    if (made == NULL)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&c->numbers, &n, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    free(made);
    return n;
}

/* A commit has an event already, with what it did (store_trace.c). */
static bool trace_begin(const struct loci_call *call)
{
    const struct loci_trace_arg args[] = {
        { .key = "channel", .text = call->of->name },
        { .key = "bytes", .value = (int64_t)call->bytes },
    };

    return call->kind != LOCI_CALL_COMMIT
           && loci_trace_begin(call->of->rt, call->of->type, kind_names[call->kind], args,
                               call->bytes > 0 ? 2 : 1);
}

struct loci_thread *loci_call_observed_begin(struct loci_calls *calls, enum loci_call_kind kind,
                                             size_t bytes)
{
    struct loco_runtime *rt = calls->rt;
    struct loci_thread *self = loci_self(rt);
    unsigned observed = loci_observed(rt);

    if (observed == 0 || self == NULL || self->call.of != NULL)
        return NULL;
    self->call = (struct loci_call){ .of = calls, .kind = kind, .bytes = bytes };
    self->call.counted = (observed & LOCI_OBSERVE_STATS) != 0;
    self->call.traced = (observed & LOCI_OBSERVE_TRACE) != 0 && trace_begin(&self->call);
    self->call.start = loci_now(rt);
    return self;
}

static void count(const struct loci_call *call, int status)
{
    struct numbers *n = numbers_of(call->of);

    if (n == NULL)
        return;
    n += call->kind;
    LOCI_COUNT_ONE(n->calls);
    if (status < 0)
        LOCI_COUNT_ONE(n->failed);
    else
        LOCI_COUNT_MANY(n->bytes, call->bytes);
    LOCI_COUNT_MANY(n->ns, (uint64_t)(loci_now(call->of->rt) - call->start));
    LOCI_COUNT_MANY(n->waits, call->waits);
    LOCI_COUNT_MANY(n->wait_ns, call->wait_ns);
}

void loci_call_observed_end(struct loci_thread *self, int status)
{
    const struct loci_trace_arg arg = { .key = "status", .value = status };

    if (self->call.counted)
        count(&self->call, status);
    if (self->call.traced)
        loci_trace_end(self->rt, &arg, status < 0 ? 1 : 0);
    self->call.of = NULL;
}

void loci_call_waited(struct loco_runtime *rt, int64_t ns)
{
    struct loci_thread *self = loci_self(rt);

    if (self == NULL || self->call.of == NULL)
        return;
    self->call.waits++;
    self->call.wait_ns += (uint64_t)ns;
}

/* ---- the table ---- */

static size_t line_of(const struct numbers *n, const char *name, char *buf, size_t size)
{
    unsigned long long calls = LOCI_COUNTED(n->calls), failed = LOCI_COUNTED(n->failed);
    char more[40] = "";

    if (calls == 0)
        return 0;
    if (failed > 0)
        snprintf(more, sizeof more, "  (%llu failed)", failed);
    return (size_t)snprintf(buf, size, "      %-12s %12llu %16llu %14.6f %10llu %14.6f%s\n", name,
                            calls, (unsigned long long)LOCI_COUNTED(n->bytes),
                            (double)LOCI_COUNTED(n->ns) / 1e9,
                            (unsigned long long)LOCI_COUNTED(n->waits),
                            (double)LOCI_COUNTED(n->wait_ns) / 1e9, more);
}

static size_t channel(const struct loci_calls *c, char *buf, size_t size)
{
    const struct numbers *n = atomic_load_explicit(&c->numbers, memory_order_acquire);
    size_t len;

    if (n == NULL)
        return 0;
    len = (size_t)snprintf(buf, size, "    %s \"%s\"\n", c->type, c->name);
    for (int i = 0; i < LOCI_CALL_KINDS && len < size; i++)
        len += line_of(&n[i], kind_names[i], buf + len, size - len);
    return len;
}

size_t loci_calls_room(struct loco_runtime *rt)
{
    size_t lines = 2;

    pthread_mutex_lock(&rt->calls_lock);
    for (const struct loci_calls *c = rt->calls; c != NULL; c = c->next)
        if (atomic_load_explicit(&c->numbers, memory_order_relaxed) != NULL)
            lines += 1 + LOCI_CALL_KINDS;
    pthread_mutex_unlock(&rt->calls_lock);
    return lines * LINE_ROOM;
}

size_t loci_calls_text(struct loco_runtime *rt, char *buf, size_t size)
{
    size_t head = (size_t)snprintf(buf, size, "  %-16s %12s %16s %14s %10s %14s\n",
                                   "calls of channels", "calls", "bytes", "seconds", "waits",
                                   "seconds of it");
    size_t len = 0;

    pthread_mutex_lock(&rt->calls_lock);
    for (const struct loci_calls *c = rt->calls; c != NULL && head + len < size; c = c->next)
        len += channel(c, buf + head + len, size - head - len);
    pthread_mutex_unlock(&rt->calls_lock);
    if (len == 0)
        buf[0] = '\0';
    return len == 0 ? 0 : head + len < size ? head + len : size - 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* What LOCO_STATS prints, and where. */

#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "file.h"
#include "observe.h"
#include "wait.h"

#define TEXT_MAX 11776          /* bytes of the table; each line is some 70 */
#define NAME_MAX_LEN 4096       /* bytes of a file name */

const char *const loci_stats_op_names[LOCI_STATS_OPS] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap", "rput",
    "rget", "raccumulate", "rget_accumulate",
};
const char *const loci_stats_sync_names[LOCI_STATS_SYNCS] = {
    "fence", "start", "complete", "post", "wait", "test", "lock_shared", "lock_exclusive",
    "lock_all", "lock_nocheck", "unlock", "unlock_all", "flush", "flush_all", "flush_local",
    "flush_local_all", "sync", "attach", "detach",
};
const char *const loci_stats_path_names[LOCI_STATS_PATHS] = {
    "put", "get", "accumulate", "compare_and_swap",
};
const char *const loci_wait_kind_names[LOCI_WAIT_KINDS] = {
    "other", "lock", "accumulate", "sync", "fence", "copy", "transaction",
    "retry", "room",
};
const char *const loci_stats_fence_names[LOCI_STATS_FENCES] = { "nothing", "ack", "place" };

static const char *const outstanding_names[LOCI_STATS_OUTSTANDINGS] = {
    "bound", "waited for others", "bounds tried",
};

static const char *const tcp_names[LOCI_STATS_TCPS] = {
    "connections made", "bytes sent", "bytes received", "requests served",
    "of these, by the service thread",
};

static const char *const store_names[LOCI_STATS_STORES] = {
    "committed", "of one object, with no log", "that wrote nothing", "conflicts",
    "undone by others", "words put right for others", "undone of others", "values read again",
    "undone by scavenging", "blocks scavenged", "bytes scavenged", "places scavenged",
};

static const char *const index_names[LOCI_STATS_INDEXES] = {
    "leaves looked up", "by a hint that led nowhere", "steps to the right", "leaves read ahead",
    "nodes split", "nodes taken out", "hot entries moved",
};

static const char *const port_names[LOCI_STATS_PORTS] = {
    "requests", "of these, refused", "rings of the agent", "look-ups at other agents",
    "lanes moved over", "served for clients", "of these, refused to them",
};

static const char *const multicast_names[LOCI_STATS_MULTICASTS] = {
    "messages sent", "in batches", "nulls", "in batches", "looks that received",
    "messages delivered", "in batches", "pushes", "times no slot was free",
};

uint64_t loci_stats_path_calls(const loci_counter *stats, enum loci_stats_path path)
{
    static const unsigned char path_of[LOCI_STATS_OPS] = {
        [LOCI_STATS_PUT] = LOCI_STATS_PATH_PUT, [LOCI_STATS_RPUT] = LOCI_STATS_PATH_PUT,
        [LOCI_STATS_GET] = LOCI_STATS_PATH_GET, [LOCI_STATS_RGET] = LOCI_STATS_PATH_GET,
        [LOCI_STATS_ACCUMULATE] = LOCI_STATS_PATH_ACCUMULATE,
        [LOCI_STATS_GET_ACCUMULATE] = LOCI_STATS_PATH_ACCUMULATE,
        [LOCI_STATS_FETCH_AND_OP] = LOCI_STATS_PATH_ACCUMULATE,
        [LOCI_STATS_RACCUMULATE] = LOCI_STATS_PATH_ACCUMULATE,
        [LOCI_STATS_RGET_ACCUMULATE] = LOCI_STATS_PATH_ACCUMULATE,
        [LOCI_STATS_COMPARE_AND_SWAP] = LOCI_STATS_PATH_SWAP,
    };
    uint64_t calls = 0;

    for (int i = 0; i < LOCI_STATS_OPS; i++)
        if (path_of[i] == path)
            calls += loci_stats_get(stats, LOCI_STAT_CALLS + i);
    return calls;
}

/* ---- the table ---- */

struct text {
    char *buf;
    size_t len, size;
};

__attribute__((format(printf, 2, 3)))
static void say(struct text *t, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, args);
    va_end(args);
    t->len += (size_t)n < t->size - t->len ? (size_t)n : t->size - t->len - 1;
}

static unsigned long long number(const struct loco_runtime *rt, int which)
{
    return loci_stats_get(rt->stats, which);
}

static void say_operations(struct text *t, const struct loco_runtime *rt)
{
    unsigned long long calls = 0, out = 0, in = 0;

    say(t, "  %-28s %14s %16s %16s\n", "operations", "calls", "bytes out", "bytes in");
    for (int i = 0; i < LOCI_STATS_OPS; i++) {
        unsigned long long c = number(rt, LOCI_STAT_CALLS + i);
        unsigned long long o = number(rt, LOCI_STAT_BYTES_OUT + i);
        unsigned long long n = number(rt, LOCI_STAT_BYTES_IN + i);

        if (c > 0)
            say(t, "    %-26s %14llu %16llu %16llu\n", loci_stats_op_names[i], c, o, n);
        calls += c;
        out += o;
        in += n;
    }
    say(t, "    %-26s %14llu %16llu %16llu\n", "total", calls, out, in);
    if (number(rt, LOCI_STAT_ERRORS) > 0)
        say(t, "    %-26s %14llu\n", "calls that failed", number(rt, LOCI_STAT_ERRORS));
}

static void say_paths(struct text *t, const struct loco_runtime *rt)
{
    say(t, "  %-28s %14s %16s\n", "ways of operations", "fast", "slow");
    for (int i = 0; i < LOCI_STATS_PATHS; i++) {
        uint64_t calls = loci_stats_path_calls(rt->stats, (enum loci_stats_path)i);
        uint64_t slow = number(rt, LOCI_STAT_SLOW + i);

        if (calls > 0)
            say(t, "    %-26s %14llu %16llu\n", loci_stats_path_names[i],
                (unsigned long long)(calls > slow ? calls - slow : 0), (unsigned long long)slow);
    }
}

/* A block of numbers that have names, without those that are 0; `column` says of what they are. */
static void say_block(struct text *t, const struct loco_runtime *rt, const char *title,
                      const char *column, const char *const *names, int first, int n)
{
    bool any = false;

    for (int i = 0; i < n; i++) {
        if (number(rt, first + i) == 0)
            continue;
        if (!any)
            say(t, "  %-28s %14s\n", title, column);
        any = true;
        say(t, "    %-26s %14llu\n", names[i], number(rt, first + i));
    }
}

static void say_waits(struct text *t, const struct loco_runtime *rt)
{
    unsigned long long count = 0, ns = 0;

    for (int i = 0; i < LOCI_WAIT_KINDS; i++) {
        unsigned long long n = number(rt, LOCI_STAT_WAITS + i);
        unsigned long long time = number(rt, LOCI_STAT_WAIT_NS + i);

        if (n == 0)
            continue;
        if (count == 0)
            say(t, "  %-28s %14s %16s %16s\n", "waits for", "times", "seconds", "us each");
        say(t, "    %-26s %14llu %16.6f %16.3f\n", loci_wait_kind_names[i], n, (double)time / 1e9,
            (double)time / 1e3 / (double)n);
        count += n;
        ns += time;
    }
    if (count > 0)
        say(t, "    %-26s %14llu %16.6f %16.3f\n", "total", count, (double)ns / 1e9,
            (double)ns / 1e3 / (double)count);
}

static void say_posted(struct text *t, const struct loco_runtime *rt)
{
    static const char *const names[LOCI_STATS_POSTS] = { "writes", "reads", "atomics" };
    bool any = false;

    for (int i = 0; i < LOCI_STATS_POSTS; i++) {
        if (number(rt, LOCI_STAT_POSTED + i) == 0)
            continue;
        if (!any)
            say(t, "  %-28s %14s %16s\n", "given to the fabric", "operations", "bytes");
        any = true;
        say(t, "    %-26s %14llu %16llu\n", names[i], number(rt, LOCI_STAT_POSTED + i),
            number(rt, LOCI_STAT_POSTED_BYTES + i));
    }
}

#ifdef LOCO_COUNTERS
static void say_counters(struct text *t, const struct loco_runtime *rt)
{
    const struct loci_counters *c = &rt->counters;
    static const char *const whose[2] = { "of peers", "own" };

    say(t, "  %-28s %14s %16s %16s\n", "network operations", "writes", "reads", "atomics");
    for (int i = 0; i < 2; i++)
        say(t, "    %-26s %14llu %16llu %16llu\n", whose[i],
            (unsigned long long)LOCI_COUNTED(c->writes[i]),
            (unsigned long long)LOCI_COUNTED(c->reads[i]),
            (unsigned long long)LOCI_COUNTED(c->atomics[i]));
    say(t, "    places %llu, messages of control %llu\n",
        (unsigned long long)LOCI_COUNTED(c->places), (unsigned long long)LOCI_COUNTED(c->messages));
}
#endif

size_t loci_stats_text(const struct loco_runtime *rt, char *buf, size_t size)
{
    struct text t = { buf, 0, size };
    unsigned long long made = number(rt, LOCI_STAT_WINDOWS_MADE);
    unsigned long long freed = number(rt, LOCI_STAT_WINDOWS_FREED);

    say(&t, "osc_loco statistics of rank %u, process %ld\n", loci_rank(rt),
        (long)rt->address.pid);
    say_operations(&t, rt);
    say_paths(&t, rt);
    say_block(&t, rt, "synchronisation", "calls", loci_stats_sync_names, LOCI_STAT_SYNC,
              LOCI_STATS_SYNCS);
    say_waits(&t, rt);
    say_block(&t, rt, "fences of the runtime, by what they did", "calls", loci_stats_fence_names,
              LOCI_STAT_FENCES, LOCI_STATS_FENCES);
    say_block(&t, rt, "transactions on stores", "number", store_names, LOCI_STAT_STORE,
              LOCI_STATS_STORES);
    say_block(&t, rt, "indexes on stores", "number", index_names, LOCI_STAT_INDEX,
              LOCI_STATS_INDEXES);
    say_block(&t, rt, "multicasts", "number", multicast_names, LOCI_STAT_MULTICAST,
              LOCI_STATS_MULTICASTS);
    say_posted(&t, rt);
    say_block(&t, rt, "outstanding at the device", "requests", outstanding_names,
              LOCI_STAT_OUTSTANDING, LOCI_STATS_OUTSTANDINGS);
#ifdef LOCO_COUNTERS
    say_counters(&t, rt);
#endif
    say_block(&t, rt, "by ports", "number", port_names, LOCI_STAT_PORT, LOCI_STATS_PORTS);
    say_block(&t, rt, "over TCP", "number", tcp_names, LOCI_STAT_TCP, LOCI_STATS_TCPS);
    if (number(rt, LOCI_STAT_REGISTRATIONS) > 0)
        say(&t, "  %-28s %14llu, %llu times still there\n", "registrations with a device",
            number(rt, LOCI_STAT_REGISTRATIONS), number(rt, LOCI_STAT_REGISTRATIONS_KEPT));
    say(&t, "  %-28s %14llu\n", "windows made", made);
    say(&t, "  %-28s %14llu\n", "windows not freed", made - freed);
    say(&t, "  %-28s %14zu\n", "bytes of network memory", rt->memory_used);
    return t.len;
}

/* ---- where it goes ---- */

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words != NULL && strcasecmp(text, *words) != 0)
        words++;
    return *words != NULL;
}

static bool is_off(const char *text)
{
    static const char *const words[] = { "no", "off", "false", "0", NULL };

    return is_one_of(text, words);
}

static bool is_stderr(const char *text)
{
    static const char *const words[] = { "yes", "on", "true", "1", "stderr", NULL };

    return is_one_of(text, words);
}

unsigned loci_rank(const struct loco_runtime *rt)
{
    uint32_t low = (uint32_t)rt->address.identity;

    if (rt->everyone != NULL && rt->everyone->size > 1)
        return (unsigned)rt->everyone->rank;
    return low < LOCI_MAX_PEERS ? low : 0;      /* of MPI's processes it is the rank */
}

/* The pattern with ".%r" in it. False: no room. */
static bool with_rank(const char *pattern, char *out, size_t size)
{
    const char *slash = strrchr(pattern, '/'), *dot = strrchr(pattern, '.');
    const char *name = slash != NULL ? slash + 1 : pattern;
    size_t stem = dot != NULL && dot > name ? (size_t)(dot - pattern) : strlen(pattern);

    return (size_t)snprintf(out, size, "%.*s.%%r%s", (int)stem, pattern, pattern + stem) < size;
}

static bool expand(const struct loco_runtime *rt, const char *pattern, char *name, size_t size)
{
    size_t len = 0;

    for (; *pattern != '\0'; pattern++) {
        int n;

        if (*pattern != '%')
            n = snprintf(name + len, size - len, "%c", *pattern);
        else if (*++pattern == 'r')
            n = snprintf(name + len, size - len, "%u", loci_rank(rt));
        else if (*pattern == 'p')
            n = snprintf(name + len, size - len, "%ld", (long)getpid());
        else if (*pattern == '%')
            n = snprintf(name + len, size - len, "%%");
        else
            return false;
        len += (size_t)n;
        if (len >= size)
            return false;
    }
    return true;
}

bool loci_file_name(const struct loco_runtime *rt, const char *pattern, char *name, size_t size)
{
    char ranked[2 * LOCI_TUNABLE_TEXT];

    if (strstr(pattern, "%r") == NULL && strstr(pattern, "%p") == NULL) {
        if (!with_rank(pattern, ranked, sizeof ranked))
            return false;
        pattern = ranked;
    }
    return expand(rt, pattern, name, size);
}

void loci_stats_open(struct loco_runtime *rt)
{
    const char *where = rt->tunables.stats;
    char name[NAME_MAX_LEN];

    if (is_off(where))
        return;
    if (!is_stderr(where) && !loci_file_name(rt, where, name, sizeof name)) {
        loci_file_warn(rt, "LOCO_STATS=%s: allowed is no, yes, or the name of a file, as "
                       "osc_loco(7) says; nothing is counted", where);
        return;
    }
    loci_observe_stats(rt, true);
}

/* False: it was not possible, or not all of it, and that was told. */
static bool report_to_file(struct loco_runtime *rt, const char *text, size_t len)
{
    char name[NAME_MAX_LEN], why[256];
    int error = 0, fd;

    if (!loci_file_name(rt, rt->tunables.stats, name, sizeof name))
        return true;                        /* told when it was opened */
    fd = loci_file_open(name, sizeof name, &error);
    if (fd >= 0) {
        if (loci_file_write(fd, text, len, 0) < len)
            error = errno;
        close(fd);
    }
    if (error == 0)
        return true;
    loci_file_warn(rt, "LOCO_STATS: %s cannot be written, so here it is: %s", name,
                   loci_file_trouble(error, why, sizeof why));
    return false;
}

static void report(struct loco_runtime *rt, const char *text, size_t len)
{
    /* In one piece: ranks write at the same time. */
    if (is_stderr(rt->tunables.stats) || !report_to_file(rt, text, len))
        (void)loci_file_write(STDERR_FILENO, text, len, -1);
}

/* With the calls of channels, of which there may be many; without memory for them, without. */
void loci_stats_report(struct loco_runtime *rt)
{
    char few[TEXT_MAX], *text;
    size_t size = TEXT_MAX + loci_calls_room(rt), len;

    if (is_off(rt->tunables.stats))
        return;
    text = malloc(size);
    if (text == NULL) {
        report(rt, few, loci_stats_text(rt, few, sizeof few));
        return;
    }
    len = loci_stats_text(rt, text, TEXT_MAX);
    len += loci_calls_text(rt, text + len, size - len);
    report(rt, text, len);
    free(text);
}

void loci_observe_stats(struct loco_runtime *rt, bool on)
{
    if (on)
        atomic_fetch_or_explicit(&rt->observed, LOCI_OBSERVE_STATS, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&rt->observed, ~(unsigned)LOCI_OBSERVE_STATS,
                                  memory_order_relaxed);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The file is always [ events, the tail that closes the array ]. Each line is made on its thread's
 * stack and copied, under the lock, into a buffer of this process; whoever finds the buffer full,
 * or the service thread LAG_NS after the first line went into it, writes it over the tail, with the
 * tail behind it, in one write. What is wrong with the file is met there, under the lock, told
 * once, and ends the trace, or begins it anew where somebody else has cut the file. `stopped` is
 * set once, and with it `observed` loses its bit: threads that saw the bit before come here and
 * drop their lines. A forked child has a copy of all this, and of its parent's file: it writes
 * nothing. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "file.h"
#include "observe.h"
#include "service.h"
#include "wait.h"

#define BUFFER ((size_t)1 << 16)    /* bytes of lines that wait to be written */
#define LAG_NS 50000000             /* for so long, at most */
#define RESERVE ((size_t)1 << 14)   /* of the limit: for the ends of what has begun */
#define LINE_MAX_LEN 640            /* bytes of an event */
#define TEXT_MAX_LEN 80             /* bytes of a name or a text in it */
#define ENDS_MAX 256                /* bytes of the beginning, and of the tail */

struct loci_trace {
    struct loco_runtime *rt;
    pthread_mutex_t lock;           /* of all below */
    int fd, timer_fd;
    long pid;
    off_t at;                       /* in the file: the tail, behind what was written */
    size_t used;                    /* in the buffer */
    off_t limit;
    bool timed;                     /* the timer runs */
    bool full, stopped;
    uint64_t dropped;
    char head[ENDS_MAX], tail[ENDS_MAX];
    size_t head_len, tail_len;
    char name[2 * LOCI_TUNABLE_TEXT];
    char whose[48];                 /* of each event, never changed: this process, a thread... */
    size_t whose_len;
    char buffer[BUFFER + ENDS_MAX];
};

/* ---- a line of text ---- */

struct line {
    char text[LINE_MAX_LEN];
    size_t len;
};

static inline void put_bytes(struct line *l, const char *bytes, size_t n)
{
    if (n > sizeof l->text - l->len)
        n = sizeof l->text - l->len;
    memcpy(l->text + l->len, bytes, n);
    l->len += n;
}

/* Inline, so that a literal's length is known. */
static inline void put_text(struct line *l, const char *text)
{
    put_bytes(l, text, strlen(text));
}

/* As a JSON string, cut to TEXT_MAX_LEN. Names are the program's: anything may be in them. */
static void put_string(struct line *l, const char *text)
{
    char out[2 * TEXT_MAX_LEN + 2];
    size_t n = 0;

    out[n++] = '"';
    for (size_t i = 0; i < TEXT_MAX_LEN && text[i] != '\0'; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '"' || c == '\\')
            out[n++] = '\\';
        out[n++] = c < 0x20 || c > 0x7e ? '?' : (char)c;
    }
    out[n++] = '"';
    put_bytes(l, out, n);
}

static void put_number(struct line *l, int64_t value)
{
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char digits[24];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0)
        digits[--at] = '-';
    put_bytes(l, digits + at, sizeof digits - at);
}

/* Microseconds, with nanoseconds behind the dot. */
static void put_time(struct line *l, int64_t ns)
{
    const char rest[4] = { '.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                           (char)('0' + ns % 10) };

    put_number(l, ns / 1000);
    put_bytes(l, rest, sizeof rest);
}

static void put_args(struct line *l, const struct loci_trace_arg *args, int n)
{
    if (n == 0)
        return;
    put_text(l, ",\"args\":{");
    for (int i = 0; i < n; i++) {
        if (i > 0)
            put_text(l, ",");
        put_string(l, args[i].key);
        put_text(l, ":");
        if (args[i].text != NULL)
            put_string(l, args[i].text);
        else
            put_number(l, args[i].value);
    }
    put_text(l, "}");
}

/* ---- the file, under the lock ---- */

/* The trace ends here, as the file stands. */
static void stop(struct loci_trace *t, int error)
{
    char why[256];

    t->stopped = true;
    atomic_fetch_and_explicit(&t->rt->observed, ~(unsigned)LOCI_OBSERVE_TRACE,
                              memory_order_relaxed);
    close(t->fd);                   /* of a removed file its space goes with it */
    t->fd = -1;
    loci_file_warn(t->rt, "LOCO_TRACE: %s ends here, and the program goes on: %s", t->name,
                   loci_file_trouble(error, why, sizeof why));
}

/* Of a write that stopped after n bytes: the lines of the buffer that are whole, with the tail
 * behind them. That takes no space which the file does not have. */
static void mend(struct loci_trace *t, size_t n)
{
    size_t keep = n > t->tail_len ? n - t->tail_len : 0;

    while (keep > 0 && t->buffer[keep] != '\n')
        keep--;
    t->at += (off_t)keep;
    (void)loci_file_write(t->fd, t->tail, t->tail_len, t->at);
    (void)!ftruncate(t->fd, t->at + (off_t)t->tail_len);
}

/* An array without events, its tail to be written. 0 or an errno. */
static int begin_array(struct loci_trace *t)
{
    if (ftruncate(t->fd, 0) != 0
        || loci_file_write(t->fd, t->head, t->head_len, 0) < t->head_len)
        return errno;
    t->at = (off_t)t->head_len;
    return 0;
}

/* Who cuts a file that is written wants its past away, as a rule; a hole of zeros before what comes
 * next would be valid for nobody. (If it is cut after this look there is one: too bad.) 0 or an
 * errno. */
static int look_at_file(struct loci_trace *t)
{
    struct stat is;

    if (fstat(t->fd, &is) != 0)
        return errno;
    if (is.st_nlink == 0)
        return LOCI_FILE_REMOVED;
    if (is.st_size >= t->at + (off_t)t->tail_len)
        return 0;
    loci_file_warn(t->rt, "LOCO_TRACE: %s was cut by somebody else while it was written; it begins "
                   "anew with the events from now on", t->name);
    return begin_array(t);
}

static void flush(struct loci_trace *t)
{
    size_t len = t->used + t->tail_len, n;
    int error;

    if (getpid() != t->pid)
        t->stopped = true;          /* this copy of it */
    if (t->stopped)
        return;
    error = look_at_file(t);
    if (error == 0) {
        memcpy(t->buffer + t->used, t->tail, t->tail_len);
        n = loci_file_write(t->fd, t->buffer, len, t->at);
        if (n < len) {
            error = errno;
            mend(t, n);
        }
    }
    if (error != 0)
        stop(t, error);
    else
        t->at += (off_t)t->used;
    t->used = 0;
}

/* Whether the limit has room for a line. `end`: of what has begun. */
static bool has_room(struct loci_trace *t, size_t len, bool end)
{
    off_t after = t->at + (off_t)(t->used + len + t->tail_len);

    if (!end && after + (off_t)RESERVE > t->limit)
        t->full = true;
    return end ? after <= t->limit : !t->full;
}

static void start_timer(struct loci_trace *t)
{
    const struct itimerspec lag = { .it_value = { .tv_nsec = LAG_NS } };

    t->timed = timerfd_settime(t->timer_fd, 0, &lag, NULL) == 0;
}

static void keep_line(struct loci_trace *t, const struct line *l)
{
    if (t->used + l->len > BUFFER)
        flush(t);
    if (t->stopped)
        return;
    memcpy(t->buffer + t->used, l->text, l->len);
    t->used += l->len;
    if (!t->timed)
        start_timer(t);
}

static bool append(struct loci_trace *t, const struct line *l, bool end)
{
    bool fits = false;

    pthread_mutex_lock(&t->lock);
    if (!t->stopped) {
        fits = (end || !t->full) && has_room(t, l->len, end);
        if (fits)
            keep_line(t, l);
        else
            t->dropped++;
    }
    pthread_mutex_unlock(&t->lock);
    return fits;
}

/* In the service thread: some lines have waited for LAG_NS. */
static void timer_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct loci_trace *t = ctx;
    uint64_t times;

    (void)rt;
    (void)events;
    (void)!read(fd, &times, sizeof times);
    pthread_mutex_lock(&t->lock);
    t->timed = false;
    flush(t);
    pthread_mutex_unlock(&t->lock);
}

/* ---- events ---- */

/* What each line has. Each begins with its newline, which is where mend() may cut. */
static void begin_line(const struct loco_runtime *rt, struct line *l, const char *phase,
                       int64_t now, const struct loci_thread *self)
{
    l->len = 0;
    put_text(l, "\n{\"ph\":\"");
    put_text(l, phase);
    put_text(l, "\",\"ts\":");
    put_time(l, now);
    put_bytes(l, rt->trace->whose, rt->trace->whose_len);
    put_number(l, self != NULL ? self->number : 0);
}

static void put_name(struct line *l, const char *category, const char *name)
{
    put_text(l, ",\"cat\":");
    put_string(l, category);
    put_text(l, ",\"name\":");
    put_string(l, name);
}

bool loci_trace_begin(struct loco_runtime *rt, const char *category, const char *name,
                      const struct loci_trace_arg *args, int n)
{
    struct line l;

    begin_line(rt, &l, "B", loci_now(rt), loci_self(rt));
    put_name(&l, category, name);
    put_args(&l, args, n);
    put_text(&l, "},");
    return append(rt->trace, &l, false);
}

void loci_trace_end(struct loco_runtime *rt, const struct loci_trace_arg *args, int n)
{
    struct line l;

    begin_line(rt, &l, "E", loci_now(rt), loci_self(rt));
    put_args(&l, args, n);
    put_text(&l, "},");
    (void)append(rt->trace, &l, true);
}

void loci_trace_mark(struct loco_runtime *rt, const char *category, const char *name,
                     const struct loci_trace_arg *args, int n)
{
    struct line l;

    begin_line(rt, &l, "i", loci_now(rt), loci_self(rt));
    put_name(&l, category, name);
    put_text(&l, ",\"s\":\"t\"");
    put_args(&l, args, n);
    put_text(&l, "},");
    (void)append(rt->trace, &l, false);
}

/* ---- life ---- */

/* Metadata: what the viewer calls this process. The last one, which closes the array, sorts it. */
static void make_ends(const struct loco_runtime *rt, struct loci_trace *t)
{
    unsigned rank = loci_rank(rt);

    t->head_len = (size_t)snprintf(t->head, sizeof t->head, "[\n{\"ph\":\"M\",\"pid\":%ld,"
                                   "\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
                                   "\"rank %u (process %ld)\"}},", t->pid, rank, t->pid);
    t->tail_len = (size_t)snprintf(t->tail, sizeof t->tail, "\n{\"ph\":\"M\",\"pid\":%ld,"
                                   "\"tid\":0,\"name\":\"process_sort_index\",\"args\":{"
                                   "\"sort_index\":%u}}\n]\n", t->pid, rank);
    t->whose_len = (size_t)snprintf(t->whose, sizeof t->whose, ",\"pid\":%ld,\"tid\":", t->pid);
}

/* 0, or why there is no timer. */
static int open_timer(struct loco_runtime *rt, struct loci_trace *t)
{
    t->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (t->timer_fd < 0)
        return errno;
    if (loci_service_watch(rt, t->timer_fd, EPOLLIN, timer_event, t) == LOCO_OK)
        return 0;
    close(t->timer_fd);
    t->timer_fd = -1;
    return ENOMEM;
}

/* 0, or why there is no file. The timer comes first: without it a file is not even emptied. */
static int open_all(struct loco_runtime *rt, struct loci_trace *t)
{
    int error = open_timer(rt, t);

    if (error != 0)
        return error;
    t->fd = loci_file_open(t->name, sizeof t->name, &error);
    if (t->fd < 0)
        return error;
    error = begin_array(t);
    if (error == 0 && loci_file_write(t->fd, t->tail, t->tail_len, t->at) < t->tail_len)
        error = errno;
    return error;
}

static void free_trace(struct loco_runtime *rt, struct loci_trace *t)
{
    if (t->timer_fd >= 0) {
        loci_service_unwatch(rt, t->timer_fd);
        close(t->timer_fd);
    }
    if (t->fd >= 0)
        close(t->fd);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static bool start(struct loco_runtime *rt, struct loci_trace *t)
{
    char why[256];
    int error;

    if (!loci_file_name(rt, rt->tunables.trace, t->name, sizeof t->name)) {
        loci_file_warn(rt, "LOCO_TRACE=%s: allowed is no, or the name of a file, as osc_loco(7) "
                       "says; nothing is traced", rt->tunables.trace);
        return false;
    }
    t->pid = (long)getpid();
    t->limit = rt->tunables.trace_limit > INT64_MAX / 2 ? INT64_MAX / 2
                                                        : (off_t)rt->tunables.trace_limit;
    make_ends(rt, t);
    error = open_all(rt, t);
    if (error != 0)
        loci_file_warn(rt, "LOCO_TRACE: %s cannot be written, so nothing is traced: %s", t->name,
                       loci_file_trouble(error, why, sizeof why));
    return error == 0;
}

void loci_trace_open(struct loco_runtime *rt)
{
    struct loci_trace *t;

    if (strcmp(rt->tunables.trace, "no") == 0)
        return;
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        loci_file_warn(rt, "LOCO_TRACE: no memory, so nothing is traced");
        return;
    }
    t->rt = rt;
    t->fd = t->timer_fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    if (!start(rt, t)) {
        free_trace(rt, t);
        return;
    }
    rt->trace = t;
    atomic_fetch_or_explicit(&rt->observed, LOCI_OBSERVE_TRACE, memory_order_release);
}

static void keep_dropped(struct loco_runtime *rt, struct loci_trace *t)
{
    struct loci_trace_arg arg = { .key = "events", .value = (int64_t)t->dropped };
    struct line l;

    begin_line(rt, &l, "i", loci_now(rt), NULL);
    put_name(&l, "trace", "dropped");
    put_text(&l, ",\"s\":\"p\"");
    put_args(&l, &arg, 1);
    put_text(&l, "},");
    (void)append(t, &l, true);
    loci_file_warn(rt, "LOCO_TRACE: %s is full: %llu later events were dropped; LOCO_TRACE_LIMIT "
                   "is %lld bytes", t->name, (unsigned long long)t->dropped,
                   (long long)rt->tunables.trace_limit);
}

void loci_trace_close(struct loco_runtime *rt)
{
    struct loci_trace *t = rt->trace;

    if (t == NULL)
        return;
    if (t->dropped > 0)
        keep_dropped(rt, t);
    pthread_mutex_lock(&t->lock);
    flush(t);
    pthread_mutex_unlock(&t->lock);
    rt->trace = NULL;
    free_trace(rt, t);
}

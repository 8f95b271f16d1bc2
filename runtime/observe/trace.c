/* SPDX-License-Identifier: BSD-3-Clause */

/* Who writes what: each line is made on its thread's stack and copied into the mapped piece of the
 * file under the lock. A piece of the file is always a beginning of events, blanks, and the tail
 * that closes the array; the next piece gets its tail before the last one loses it. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "observe.h"
#include "wait.h"

#define PIECE ((size_t)1 << 18)     /* bytes of the file that are mapped */
#define RESERVE ((size_t)1 << 14)   /* of the last piece: for the ends of what has begun */
#define LINE_MAX_LEN 640            /* bytes of an event */
#define TEXT_MAX_LEN 80             /* bytes of a name or a text in it */
#define TAIL_MAX 256

struct loci_trace {
    pthread_mutex_t lock;           /* of all below */
    int fd;
    long pid;
    char *piece;                    /* mapped: bytes at..at + PIECE of the file */
    size_t used;
    off_t at, limit;
    bool full;
    uint64_t dropped;
    char tail[TAIL_MAX];
    size_t tail_len;
    char name[2 * LOCI_TUNABLE_TEXT];
    char whose[48];                 /* of each event, never changed: this process, a thread... */
    size_t whose_len;
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

/* ---- the file ---- */

/* The next piece, mapped, blank, with its tail; NULL with errno. */
static char *make_piece(struct loci_trace *t, off_t at)
{
    int error = posix_fallocate(t->fd, at, (off_t)PIECE);
    char *piece = MAP_FAILED;

    if (error == 0)
        piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, t->fd,
                     at);
    if (piece == MAP_FAILED) {
        errno = error != 0 ? error : errno;
        return NULL;
    }
    memset(piece, ' ', PIECE - t->tail_len);
    memcpy(piece + PIECE - t->tail_len, t->tail, t->tail_len);
    return piece;
}

static bool next_piece(struct loci_trace *t)
{
    char *piece = make_piece(t, t->at + (off_t)PIECE);

    if (piece == NULL)
        return false;
    memset(t->piece + PIECE - t->tail_len, ' ', t->tail_len);
    munmap(t->piece, PIECE);
    t->piece = piece;
    t->at += (off_t)PIECE;
    t->used = 0;
    return true;
}

static bool is_last_piece(const struct loci_trace *t)
{
    return t->at + 2 * (off_t)PIECE > t->limit;
}

/* Whether there is room for a line, in the next piece if need be. `end`: of what has begun. */
static bool make_room(struct loci_trace *t, size_t len, bool end)
{
    size_t room = PIECE - t->tail_len - t->used;

    if (!is_last_piece(t) && !t->full) {
        if (len + RESERVE <= room || next_piece(t))
            return true;
        t->full = true;             /* the disk is: this piece is the last one */
    }
    if (!end && len + RESERVE > room)
        t->full = true;
    return end ? len <= room : !t->full;
}

static bool append(struct loci_trace *t, const struct line *l, bool end)
{
    bool fits;

    pthread_mutex_lock(&t->lock);
    fits = (end || !t->full) && make_room(t, l->len, end);
    if (fits) {
        memcpy(t->piece + t->used, l->text, l->len);
        t->used += l->len;
    } else {
        t->dropped++;
    }
    pthread_mutex_unlock(&t->lock);
    return fits;
}

/* ---- events ---- */

/* What each line has. Each begins with its newline, so that one whose process was killed in the
 * middle of the copy does not run into the next. */
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
static void write_names(const struct loco_runtime *rt, struct loci_trace *t)
{
    unsigned rank = loci_rank(rt);
    struct line l = { .len = 0 };
    char name[64];

    t->tail_len = (size_t)snprintf(t->tail, sizeof t->tail, "\n{\"ph\":\"M\",\"pid\":%ld,"
                                   "\"tid\":0,\"name\":\"process_sort_index\",\"args\":{"
                                   "\"sort_index\":%u}}\n]\n", t->pid, rank);
    t->whose_len = (size_t)snprintf(t->whose, sizeof t->whose, ",\"pid\":%ld,\"tid\":", t->pid);
    snprintf(name, sizeof name, "rank %u (process %ld)", rank, t->pid);
    put_text(&l, "[\n{\"ph\":\"M\",\"pid\":");
    put_number(&l, t->pid);
    put_text(&l, ",\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":");
    put_string(&l, name);
    put_text(&l, "}},");
    t->piece = make_piece(t, 0);
    if (t->piece == NULL)
        return;
    memcpy(t->piece, l.text, l.len);
    t->used = l.len;
}

/* Where another live process has the file of that name (a spawned one of the same rank), this one
 * takes a name of its own. -1 with errno. */
static int open_file(struct loci_trace *t)
{
    int fd = open(t->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    size_t len = strlen(t->name);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return fd;
    close(fd);
    snprintf(t->name + len, sizeof t->name - len, ".%ld", t->pid);
    return open(t->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

static int start(struct loco_runtime *rt, struct loci_trace *t)
{
    if (!loci_file_name(rt, rt->tunables.trace, t->name, sizeof t->name)) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_TRACE=%s: allowed is no, or the name of a file, as "
                 "osc_loco(7) says", rt->tunables.trace);
        return LOCO_ERR_ARG;
    }
    t->pid = (long)getpid();
    t->limit = rt->tunables.trace_limit > INT64_MAX / 2 ? INT64_MAX / 2
                                                        : (off_t)rt->tunables.trace_limit;
    t->fd = open_file(t);
    if (t->fd >= 0 && ftruncate(t->fd, 0) == 0)
        write_names(rt, t);
    if (t->piece != NULL)
        return LOCO_OK;
    LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_TRACE: %s cannot be written: %m", t->name);
    if (t->fd >= 0)
        close(t->fd);
    return LOCO_ERR_SYSTEM;
}

int loci_trace_open(struct loco_runtime *rt)
{
    struct loci_trace *t;
    int status;

    if (strcmp(rt->tunables.trace, "no") == 0)
        return LOCO_OK;
    t = calloc(1, sizeof *t);
    if (t == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_init(&t->lock, NULL);
    status = start(rt, t);
    if (status != LOCO_OK) {
        free(t);
        return status;
    }
    rt->trace = t;
    atomic_fetch_or_explicit(&rt->observed, LOCI_OBSERVE_TRACE, memory_order_release);
    return LOCO_OK;
}

static void tell_dropped(struct loco_runtime *rt, const struct loci_trace *t)
{
    char text[256 + sizeof t->name];

    if (t->dropped == 0)
        return;
    snprintf(text, sizeof text, "LOCO_TRACE: %s is full: %llu later events were dropped; "
             "LOCO_TRACE_LIMIT is %lld bytes", t->name, (unsigned long long)t->dropped,
             (long long)rt->tunables.trace_limit);
    loci_log_stderr(NULL, LOCO_LOG_WARN, text);
}

/* The last piece ends behind its events. */
void loci_trace_close(struct loco_runtime *rt)
{
    struct loci_trace *t = rt->trace;
    struct loci_trace_arg arg = { .key = "events" };

    if (t == NULL)
        return;
    if (t->dropped > 0) {
        struct line l;

        arg.value = (int64_t)t->dropped;
        begin_line(rt, &l, "i", loci_now(rt), NULL);
        put_name(&l, "trace", "dropped");
        put_text(&l, ",\"s\":\"p\"");
        put_args(&l, &arg, 1);
        put_text(&l, "},");
        (void)append(t, &l, true);
    }
    memcpy(t->piece + t->used, t->tail, t->tail_len);
    munmap(t->piece, PIECE);
    if (ftruncate(t->fd, t->at + (off_t)(t->used + t->tail_len)) != 0)
        LOCI_LOG(rt, LOCO_LOG_WARN, "LOCO_TRACE: %s keeps blanks at its end: %m", t->name);
    close(t->fd);
    tell_dropped(rt, t);
    pthread_mutex_destroy(&t->lock);
    rt->trace = NULL;
    free(t);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TLOG_WORLD_H
#define TESTS_TLOG_WORLD_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <loco/runtime.h>
#include <loco/status.h>

#include "topic/tlog.h"
#include "topic/tlog_read.h"

/* Log files of topics in a folder of their own, and what is said of them. */

struct tlog_world {
    char folder[64], path[96];
    char said[2048];            /* the last line of each level, one after the other */
    int lines;
    struct loci_log say;
};

static inline void tlog_hear(void *ctx, int level, const char *text)
{
    struct tlog_world *w = ctx;

    (void)level;
    snprintf(w->said, sizeof w->said, "%s", text);
    w->lines++;
}

static inline void tlog_enter(struct tlog_world *w)
{
    const char *tmp = getenv("TMPDIR");

    memset(w, 0, sizeof *w);
    w->say = (struct loci_log){ .fn = tlog_hear, .ctx = w, .level = LOCO_LOG_WARN };
    snprintf(w->folder, sizeof w->folder, "%s/loco-tlog.XXXXXX",
             tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    cr_assert(mkdtemp(w->folder) != NULL);
    snprintf(w->path, sizeof w->path, "%s/log", w->folder);
}

static inline void tlog_leave(struct tlog_world *w)
{
    unlink(w->path);
    cr_assert_eq(rmdir(w->folder), 0);
}

/* The file as it is. */
static inline size_t tlog_bytes(const char *path, unsigned char *to, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    cr_assert(fd >= 0);
    n = read(fd, to, room);
    cr_assert(n >= 0 && (size_t)n < room);
    close(fd);
    return (size_t)n;
}

static inline void tlog_make(const char *path, const unsigned char *from, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, from, bytes), (ssize_t)bytes);
    close(fd);
}

/* What record `number` of these tests has: of 0 bytes and more, each byte by its number and place.
 */
static inline size_t tlog_sample(uint64_t number, unsigned char *to, size_t most)
{
    size_t bytes = (size_t)(number * 37 % 61) % (most + 1);

    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number * 131 + i * 7);
    return bytes;
}

/* Append records up to number `last`, in batches of up to `batch`. */
static inline int tlog_append(struct loci_tlog *log, uint64_t last, int batch, size_t most)
{
    static unsigned char data[64][64];
    struct loci_tlog_entry entries[64];
    int status = LOCO_OK;

    while (loci_tlog_written(log) < last && status == LOCO_OK) {
        uint64_t next = loci_tlog_written(log) + 1;
        int n = 0;

        for (; n < batch && next <= last; n++, next++)
            entries[n] = (struct loci_tlog_entry){
                .data = data[n], .bytes = (uint32_t)tlog_sample(next, data[n], most),
                .sender = (uint32_t)(next % 5), .time = (int64_t)next * 1000,
            };
        status = loci_tlog_append(log, entries, n, NULL);
    }
    return status;
}

/* Whether this is what tlog_append() gave. */
static inline bool tlog_is_right(const struct loci_tlog_item *item, size_t most)
{
    unsigned char data[64];
    const struct loci_tlog_record *r = &item->record;
    size_t bytes = tlog_sample(r->number, data, most);

    return r->bytes == bytes && memcmp(item->data, data, bytes) == 0 && r->sender == r->number % 5
           && r->time == (int64_t)r->number * 1000;
}

/* Records that are there from number 1 on, each right; what follows them is in *end. */
static inline uint64_t tlog_count(const char *path, const struct loci_log *say, size_t most,
                                  struct loci_tlog_item *end)
{
    struct loci_tlog_reader *r;
    uint64_t n = 0;

    cr_assert_eq(loci_tlog_reader_open(path, say, &r), LOCO_OK);
    for (;;) {
        cr_assert_eq(loci_tlog_reader_next(r, end), LOCO_OK);
        if (end->found != LOCI_TLOG_FOUND_RECORD)
            break;
        n++;
        cr_assert_eq(end->record.number, n);
        cr_assert(tlog_is_right(end, most), "record %d", (int)n);
    }
    loci_tlog_reader_close(r);
    return n;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */

/* A topic's log, as it is read. A record counts if both its checksums are right and it has the
 * number after the last one's. Where there is no such record, the rest of the file is searched,
 * byte by byte, for one with that number or a later one: if there is none, a record was being
 * written when its writer ended. A record with an earlier number proves nothing: a sample may hold
 * a copy of this log. */

#include "config.h"

#include "tlog_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <loco/status.h>

#define CHUNK ((size_t)256 << 10)       /* that is read at a time, at least */

struct loci_tlog_reader {
    const struct loci_log *say;
    char *path;
    int fd;
    bool mine;                  /* fd is closed with it */
    int status;
    struct loci_crc32c crc;
    struct loci_tlog_head head;
    uint64_t size, at, expect;
    unsigned char *buffer;      /* what the file has from `begin` on, */
    size_t capacity, have;      /* so many bytes */
    uint64_t begin;
};

/* ---- bytes ---- */

static bool make_room(struct loci_tlog_reader *r, size_t bytes)
{
    unsigned char *buffer;

    if (bytes <= r->capacity)
        return true;
    buffer = malloc(bytes);
    if (buffer == NULL) {
        loci_log(r->say, LOCO_LOG_ERROR, "log %s: no memory for %zu bytes of it", r->path, bytes);
        r->status = LOCO_ERR_NO_MEMORY;
        return false;
    }
    free(r->buffer);
    r->buffer = buffer;
    r->capacity = bytes;
    r->have = 0;
    return true;
}

static bool fill(struct loci_tlog_reader *r, uint64_t offset, size_t bytes)
{
    r->begin = offset;
    for (r->have = 0; r->have < bytes;) {
        ssize_t n = pread(r->fd, r->buffer + r->have, bytes - r->have,
                          (off_t)(offset + r->have));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            loci_log(r->say, LOCO_LOG_ERROR, "log %s cannot be read at offset %llu: %m", r->path,
                     (unsigned long long)offset);
            r->status = LOCO_ERR_SYSTEM;
            return false;
        }
        if (n == 0) {           /* it has become shorter */
            r->size = offset + r->have;
            break;
        }
        r->have += (size_t)n;
    }
    return true;
}

/* These bytes of the file, until the next call; NULL: it has not so many. */
static const unsigned char *view(struct loci_tlog_reader *r, uint64_t offset, uint64_t bytes)
{
    size_t wanted;

    if (offset > r->size || bytes > r->size - offset)
        return NULL;
    if (offset < r->begin || offset + bytes > r->begin + r->have) {
        wanted = bytes > CHUNK ? (size_t)bytes : CHUNK;
        if (wanted > r->size - offset)
            wanted = (size_t)(r->size - offset);
        if (!make_room(r, wanted) || !fill(r, offset, wanted) || r->have < bytes)
            return NULL;
    }
    return r->buffer + (offset - r->begin);
}

/* ---- records ---- */

/* A whole record at this offset, whatever its number. */
static bool is_record(struct loci_tlog_reader *r, uint64_t offset, struct loci_tlog_record *record,
                      const unsigned char **data)
{
    const unsigned char *at = view(r, offset, LOCI_TLOG_RECORD);

    if (at == NULL || !loci_tlog_get_record(&r->crc, r->head.id, at, record))
        return false;
    at = view(r, offset, loci_tlog_length(record->bytes));
    if (at == NULL)
        return false;
    *data = at + LOCI_TLOG_RECORD;
    return loci_tlog_has(&r->crc, r->head.id, record, *data);
}

/* The next marker from *offset on. */
static bool find_marker(struct loci_tlog_reader *r, uint64_t *offset)
{
    const uint32_t marker = LOCI_TLOG_MARKER;
    unsigned char bytes[sizeof marker];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(marker >> 8 * i);
    while (*offset < r->size && r->size - *offset >= LOCI_TLOG_RECORD) {
        uint64_t n = r->size - *offset < CHUNK ? r->size - *offset : CHUNK;
        const unsigned char *at = view(r, *offset, n), *found;

        if (at == NULL)
            return false;
        found = memmem(at, n, bytes, sizeof bytes);
        if (found != NULL) {
            *offset += (uint64_t)(found - at);
            return true;
        }
        *offset += n - (sizeof bytes - 1);
    }
    return false;
}

static bool find_later(struct loci_tlog_reader *r, uint64_t *offset,
                       struct loci_tlog_record *record)
{
    const unsigned char *data;

    for (; r->status == LOCO_OK && find_marker(r, offset); ++*offset)
        if (is_record(r, *offset, record, &data) && record->number >= r->expect)
            return true;
    return false;
}

static void note_damage(struct loci_tlog_reader *r, struct loci_tlog_item *item, bool torn)
{
    uint64_t offset = r->at;

    item->found = torn ? LOCI_TLOG_FOUND_TORN : LOCI_TLOG_FOUND_DAMAGE;
    if (find_later(r, &offset, &item->record)) {
        item->found = LOCI_TLOG_FOUND_DAMAGE;
        item->next = item->record.number;
        item->to = offset;
        r->at = offset;
        r->expect = item->next;
    } else {
        item->to = r->size > item->from ? r->size : item->from;
        r->at = item->to;
    }
}

int loci_tlog_reader_next(struct loci_tlog_reader *r, struct loci_tlog_item *item)
{
    bool whole;

    *item = (struct loci_tlog_item){ .found = LOCI_TLOG_FOUND_END, .from = r->at, .to = r->at,
                                     .expected = r->expect };
    if (r->status != LOCO_OK || r->at >= r->size)
        return r->status;
    whole = is_record(r, r->at, &item->record, &item->data);
    if (whole && item->record.number == r->expect) {
        item->found = LOCI_TLOG_FOUND_RECORD;
        r->at = item->to = r->at + loci_tlog_length(item->record.bytes);
        r->expect++;
    } else if (r->status == LOCO_OK) {
        note_damage(r, item, !whole);
    }
    return r->status;
}

/* ---- the beginning and the end ---- */

static int refuse_head(struct loci_tlog_reader *r, enum loci_tlog_heads why)
{
    switch (why) {
    case LOCI_TLOG_HEAD: return LOCO_OK;
    case LOCI_TLOG_UNFINISHED: return LOCO_ERR_AGAIN;
    case LOCI_TLOG_NEWER:
        loci_log(r->say, LOCO_LOG_ERROR, "log %s is of format %u, and this libloco knows formats "
                 "up to %u", r->path, r->head.version, LOCI_TLOG_VERSION);
        return LOCO_ERR_UNSUPPORTED;
    case LOCI_TLOG_BROKEN:
        loci_log(r->say, LOCO_LOG_ERROR, "log %s: its first bytes, which say of which topic it is, "
                 "are damaged: none of it can be trusted", r->path);
        return LOCO_ERR_DAMAGED;
    case LOCI_TLOG_STRANGE: break;
    }
    loci_log(r->say, LOCO_LOG_ERROR, "%s is not the log of a topic: it begins with something else",
             r->path);
    return LOCO_ERR_ARG;
}

static int begin(struct loci_tlog_reader *r)
{
    struct stat stat;
    const unsigned char *at;
    size_t have;

    if (fstat(r->fd, &stat) != 0) {
        loci_log(r->say, LOCO_LOG_ERROR, "log %s: fstat: %m", r->path);
        return LOCO_ERR_SYSTEM;
    }
    if (!S_ISREG(stat.st_mode)) {
        loci_log(r->say, LOCO_LOG_ERROR, "log %s is not a regular file", r->path);
        return LOCO_ERR_ARG;
    }
    r->size = (uint64_t)stat.st_size;
    have = r->size < LOCI_TLOG_HEAD_MOST ? (size_t)r->size : LOCI_TLOG_HEAD_MOST;
    if (have == 0)
        return LOCO_ERR_AGAIN;
    at = view(r, 0, have);
    if (at == NULL)
        return r->status == LOCO_OK ? LOCO_ERR_AGAIN : r->status;
    r->status = refuse_head(r, loci_tlog_get_head(&r->crc, at, have, &r->head));
    r->at = r->head.bytes;
    r->expect = r->head.first;
    return r->status;
}

int loci_tlog_reader_of(int fd, const char *path, const struct loci_log *say,
                        struct loci_tlog_reader **reader)
{
    struct loci_tlog_reader *r = calloc(1, sizeof *r);
    int status;

    if (r == NULL)
        return LOCO_ERR_NO_MEMORY;
    r->say = say;
    r->fd = fd;
    r->path = strdup(path);
    loci_crc32c_open(&r->crc);
    status = r->path == NULL ? LOCO_ERR_NO_MEMORY : begin(r);
    if (status != LOCO_OK) {
        loci_tlog_reader_close(r);
        return status;
    }
    *reader = r;
    return LOCO_OK;
}

int loci_tlog_reader_open(const char *path, const struct loci_log *say,
                          struct loci_tlog_reader **reader)
{
    /* Not to wait for a writer, if it is a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), status;

    if (fd < 0) {
        loci_log(say, LOCO_LOG_ERROR, "log %s cannot be opened: %m", path);
        return LOCO_ERR_SYSTEM;
    }
    status = loci_tlog_reader_of(fd, path, say, reader);
    if (status == LOCO_OK)
        (*reader)->mine = true;
    else
        close(fd);
    return status;
}

void loci_tlog_reader_close(struct loci_tlog_reader *r)
{
    if (r == NULL)
        return;
    if (r->mine)
        close(r->fd);
    free(r->buffer);
    free(r->path);
    free(r);
}

const struct loci_tlog_head *loci_tlog_reader_head(const struct loci_tlog_reader *r)
{
    return &r->head;
}

uint64_t loci_tlog_reader_size(const struct loci_tlog_reader *r)
{
    return r->size;
}

bool loci_tlog_reader_in_use(const struct loci_tlog_reader *r)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(r->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

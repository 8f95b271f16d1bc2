/* SPDX-License-Identifier: BSD-3-Clause */

/* A topic's log, as it is written.
 *
 * One process writes, and has the file locked. Records are appended by pwritev at the end that it
 * knows, so that what another program does to the file is noticed rather than followed.
 *
 * Crashes. A process that is killed leaves a prefix of what it has written, perhaps with a part of
 * a record at its end. A machine that stops leaves all that was synced, and of the rest what it
 * likes. At the next start the file is read through. What is after the last whole record is cut
 * off, if no whole record follows: it was being written, and nobody was told that it was there. If
 * whole records follow, something else has damaged the file, or a machine stopped before a sync and
 * had written later pages first: that is for a person to decide, and the file is left as it is.
 *
 * Errors. After a write that failed, the part of it that is there is cut off, and nothing more is
 * written: a log has no gaps. */

#include "config.h"

#include "tlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <loco/status.h>

#include "tlog_read.h"

typedef unsigned long long ull;

/* ---- opening ---- */

/* A lock of the open file, not of the process: another thread's counts, and no other descriptor's
 * closing gives it back. */
static int lock_file(const struct loci_tlog *log)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    if (fcntl(log->fd, F_OFD_SETLK, &lock) == 0)
        return LOCO_OK;
    if (errno == EAGAIN || errno == EACCES) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s is in use: a file is of one subscriber of one "
                 "topic", log->path);
        return LOCO_ERR_STATE;
    }
    loci_log(log->say, LOCO_LOG_ERROR, "log %s cannot be locked: %m", log->path);
    return LOCO_ERR_SYSTEM;
}

static int open_file(struct loci_tlog *log)
{
    struct stat stat;

    log->fd = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (log->fd < 0 || fstat(log->fd, &stat) != 0) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s cannot be opened: %m", log->path);
        return LOCO_ERR_SYSTEM;
    }
    if (!S_ISREG(stat.st_mode)) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s is not a regular file", log->path);
        return LOCO_ERR_ARG;
    }
    return lock_file(log);
}

static uint64_t new_id(void)
{
    struct timespec t;
    uint64_t id;

    if (getrandom(&id, sizeof id, GRND_NONBLOCK) == sizeof id)
        return id;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec)
           ^ (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15);
}

static int64_t real_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* That the file is there is written in its folder. Some file systems cannot sync one, and need not.
 */
static void sync_folder(const struct loci_tlog *log)
{
    char *folder = strdup(log->path), *slash;
    int fd;

    if (folder == NULL)
        return;
    slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
    free(folder);
}

static bool write_all(int fd, const unsigned char *at, size_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t n = pwrite(fd, at, bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* A new log, in a file that is empty or has a part of a head. The head is on the disk before
 * the first record can be. */
static int make_head(struct loci_tlog *log, const char *topic, enum loci_tlog_sync sync)
{
    unsigned char bytes[LOCI_TLOG_HEAD_MOST];

    log->head = (struct loci_tlog_head){ .id = new_id(), .first = 1, .made = real_time() };
    memcpy(log->head.topic, topic, strlen(topic) + 1);
    loci_tlog_put_head(&log->crc, &log->head, bytes);
    if (ftruncate(log->fd, 0) != 0 || !write_all(log->fd, bytes, log->head.bytes, 0)
        || (sync != LOCI_TLOG_SYNC_NEVER && fsync(log->fd) != 0)) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s cannot be begun: %m", log->path);
        (void)!ftruncate(log->fd, 0);
        return LOCO_ERR_SYSTEM;
    }
    if (sync != LOCI_TLOG_SYNC_NEVER)
        sync_folder(log);
    log->end = log->head.bytes;
    atomic_init(&log->written, log->head.first - 1);
    return LOCO_OK;
}

/* A process died while it made the log. */
static void tell_unfinished(const struct loci_tlog *log)
{
    struct stat stat;

    if (fstat(log->fd, &stat) == 0 && stat.st_size > 0)
        loci_log(log->say, LOCO_LOG_WARN, "log %s: %llu bytes of its beginning, and no records, "
                 "are there; it is begun anew", log->path, (ull)stat.st_size);
}

/* ---- what is there ---- */

static int refuse_damage(const struct loci_tlog *log, const struct loci_tlog_item *item)
{
    if (item->next != 0)
        loci_log(log->say, LOCO_LOG_ERROR, "log %s is damaged at offset %llu, where record %llu "
                 "should be; whole ones follow from offset %llu on, number %llu. loco-log dump "
                 "shows them, loco-log cut --damaged removes all from offset %llu on", log->path,
                 (ull)item->from, (ull)item->expected, (ull)item->to, (ull)item->next,
                 (ull)item->from);
    else
        loci_log(log->say, LOCO_LOG_ERROR, "log %s is damaged at offset %llu, where record %llu "
                 "should be and number %llu is. loco-log cut --damaged removes all from there on",
                 log->path, (ull)item->from, (ull)item->expected, (ull)item->record.number);
    return LOCO_ERR_DAMAGED;
}

static int cut_tail(const struct loci_tlog *log, const struct loci_tlog_item *item,
                    enum loci_tlog_sync sync)
{
    if (ftruncate(log->fd, (off_t)item->from) != 0
        || (sync != LOCI_TLOG_SYNC_NEVER && fsync(log->fd) != 0)) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s: its end, which was not written whole, cannot "
                 "be cut off: %m", log->path);
        return LOCO_ERR_SYSTEM;
    }
    loci_log(log->say, LOCO_LOG_WARN, "log %s: its last %llu bytes, of record %llu, were not "
             "written whole, and are cut off; all before is there", log->path,
             (ull)(item->to - item->from), (ull)item->expected);
    return LOCO_OK;
}

/* Go through the whole file. */
static int scan(struct loci_tlog *log, struct loci_tlog_reader *r, enum loci_tlog_sync sync)
{
    struct loci_tlog_item item;
    int status;

    do {
        status = loci_tlog_reader_next(r, &item);
        if (status == LOCO_OK && item.found == LOCI_TLOG_FOUND_DAMAGE)
            status = refuse_damage(log, &item);
    } while (status == LOCO_OK && item.found == LOCI_TLOG_FOUND_RECORD);
    if (status == LOCO_OK && item.found == LOCI_TLOG_FOUND_TORN)
        status = cut_tail(log, &item, sync);
    log->end = item.from;
    atomic_init(&log->written, item.expected - 1);
    return status;
}

static int check_topic(const struct loci_tlog *log, const char *topic)
{
    if (strcmp(log->head.topic, topic) == 0)
        return LOCO_OK;
    loci_log(log->say, LOCO_LOG_ERROR, "log %s is of topic %s, not of %s", log->path,
             log->head.topic, topic);
    return LOCO_ERR_MISMATCH;
}

static int take_up(struct loci_tlog *log, const char *topic, enum loci_tlog_sync sync)
{
    struct loci_tlog_reader *r;
    int status = loci_tlog_reader_of(log->fd, log->path, log->say, &r);

    if (status == LOCO_ERR_AGAIN) {
        tell_unfinished(log);
        return make_head(log, topic, sync);
    }
    if (status != LOCO_OK)
        return status;
    log->head = *loci_tlog_reader_head(r);
    status = check_topic(log, topic);
    if (status == LOCO_OK)
        status = scan(log, r, sync);
    loci_tlog_reader_close(r);
    /* What a killed process wrote may not be on the disk. */
    if (status == LOCO_OK && sync != LOCI_TLOG_SYNC_NEVER && fdatasync(log->fd) != 0) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s cannot be synced: %m", log->path);
        status = LOCO_ERR_SYSTEM;
    }
    return status;
}

int loci_tlog_open(const char *path, const char *topic, enum loci_tlog_sync sync,
                   const struct loci_log *say, struct loci_tlog **out)
{
    struct loci_tlog *log;
    int status = LOCO_ERR_NO_MEMORY;

    if (strlen(topic) > LOCI_TLOG_NAME)
        return LOCO_ERR_NAME;
    log = calloc(1, sizeof *log);
    if (log == NULL)
        return status;
    log->say = say;
    log->fd = -1;
    log->path = strdup(path);
    loci_crc32c_open(&log->crc);
    if (log->path != NULL)
        status = open_file(log);
    if (status == LOCO_OK)
        status = take_up(log, topic, sync);
    if (status == LOCO_OK) {
        status = loci_tlog_syncer_open(&log->syncer, sync, log->fd, log->path, say,
                                       loci_tlog_written(log));
        if (status == LOCO_OK) {
            *out = log;
            return LOCO_OK;
        }
        loci_tlog_syncer_close(&log->syncer);
    }
    if (log->fd >= 0)
        close(log->fd);
    free(log->path);
    free(log);
    return status;
}

void loci_tlog_close(struct loci_tlog *log)
{
    if (log == NULL)
        return;
    loci_tlog_syncer_close(&log->syncer);
    close(log->fd);
    free(log->path);
    free(log);
}

/* ---- appending ---- */

static void fail(struct loci_tlog *log)
{
    loci_tlog_syncer_fail(&log->syncer, LOCO_ERR_SYSTEM);
}

/* Whether the file is as this process left it. */
static bool is_intact(struct loci_tlog *log, ull next)
{
    struct stat stat;

    if (fstat(log->fd, &stat) != 0) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s: fstat: %m; nothing is logged from record %llu "
                 "on", log->path, next);
        return false;
    }
    if ((uint64_t)stat.st_size != log->end) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s has %llu bytes, and %llu were written: another "
                 "program has changed it; nothing is logged from record %llu on", log->path,
                 (ull)stat.st_size, (ull)log->end, next);
        return false;
    }
    if (stat.st_nlink == 0) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s has been removed; nothing is logged from record "
                 "%llu on", log->path, next);
        return false;
    }
    return true;
}

/* All of these parts; errno says why not. */
static bool write_parts(const struct loci_tlog *log, struct iovec *part, int n, uint64_t offset)
{
    while (n > 0) {
        ssize_t done = pwritev(log->fd, part, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        if (done == 0) {
            errno = ENOSPC;
            return false;
        }
        offset += (uint64_t)done;
        for (; n > 0 && (size_t)done >= part->iov_len; part++, n--)
            done -= (ssize_t)part->iov_len;
        if (n > 0) {
            part->iov_base = (char *)part->iov_base + done;
            part->iov_len -= (size_t)done;
        }
    }
    return true;
}

/* Up to LOCI_TLOG_BATCH records, as parts of a write; their bytes. */
static uint64_t collect(struct loci_tlog *log, const struct loci_tlog_entry *entries, int n,
                        uint64_t number, int *parts)
{
    static const unsigned char zeros[8];
    uint64_t bytes = 0;

    *parts = 0;
    for (int i = 0; i < n; i++) {
        const struct loci_tlog_entry *e = &entries[i];
        const struct loci_tlog_record record = {
            .number = number + (uint64_t)i, .time = e->time, .sender = e->sender,
            .bytes = e->bytes, .sum = loci_tlog_sum(&log->crc, log->head.id, e->data, e->bytes),
        };
        size_t fill = (size_t)(loci_tlog_filled(e->bytes) - e->bytes);

        loci_tlog_put_record(&log->crc, log->head.id, &record, log->start[i]);
        log->part[(*parts)++] = (struct iovec){ log->start[i], LOCI_TLOG_RECORD };
        if (e->bytes > 0)
            log->part[(*parts)++] = (struct iovec){ (void *)(uintptr_t)e->data, e->bytes };
        if (fill > 0)
            log->part[(*parts)++] = (struct iovec){ (void *)(uintptr_t)zeros, fill };
        bytes += loci_tlog_length(e->bytes);
    }
    return bytes;
}

static int append_batch(struct loci_tlog *log, const struct loci_tlog_entry *entries, int n)
{
    uint64_t number = atomic_load_explicit(&log->written, memory_order_relaxed), bytes;
    int parts, status = loci_tlog_syncer_status(&log->syncer);

    if (status != LOCO_OK)
        return status;
    if (!is_intact(log, number + 1)) {
        fail(log);
        return LOCO_ERR_SYSTEM;
    }
    bytes = collect(log, entries, n, number + 1, &parts);
    if (!write_parts(log, log->part, parts, log->end)) {
        loci_log(log->say, LOCO_LOG_ERROR, "log %s cannot be written: %m; nothing is logged from "
                 "record %llu on", log->path, (ull)number + 1);
        (void)!ftruncate(log->fd, (off_t)log->end);     /* else the next start does it */
        fail(log);
        return LOCO_ERR_SYSTEM;
    }
    log->end += bytes;
    number += (uint64_t)n;
    /* Release: pairs with loci_tlog_written(). */
    atomic_store_explicit(&log->written, number, memory_order_release);
    loci_tlog_syncer_wrote(&log->syncer, number);
    return LOCO_OK;
}

int loci_tlog_append(struct loci_tlog *log, const struct loci_tlog_entry *entries, int n,
                     uint64_t *number)
{
    int status = loci_tlog_syncer_status(&log->syncer);

    for (int i = 0; i < n && status == LOCO_OK; i += LOCI_TLOG_BATCH)
        status = append_batch(log, entries + i, n - i < LOCI_TLOG_BATCH ? n - i : LOCI_TLOG_BATCH);
    if (status == LOCO_OK && number != NULL)
        *number = loci_tlog_written(log);
    return status;
}

int loci_tlog_wait_synced(struct loci_tlog *log, uint64_t number, int64_t timeout_ns)
{
    if (number > loci_tlog_written(log))
        return LOCO_ERR_ARG;
    return loci_tlog_syncer_wait(&log->syncer, number, timeout_ns);
}

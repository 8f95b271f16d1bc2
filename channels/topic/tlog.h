/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TLOG_H
#define LOCI_TLOG_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "tlog_format.h"
#include "tlog_sync.h"

/* A topic's log: a file that records are appended to, each with a number, checksums, sender and
 * time (tlog_format.h). tlog.c says what holds after a crash.
 *
 * | call         | concurrent                        | blocks |
 * |--------------|-----------------------------------|--------|
 * | open, close  | with nothing                      | while the file is read; until it is synced |
 * | append       | not with itself                   | for write(2), never for the disk's cache |
 * | written, synced, wait_synced | yes               | wait_synced: until then |
 */

struct loci_tlog_entry {
    const void *data;
    uint32_t bytes, sender;
    int64_t time;               /* nanoseconds since 1970 */
};

#define LOCI_TLOG_BATCH 128     /* records in a write, at most */

struct loci_tlog {
    const struct loci_log *say;
    char *path;
    int fd;
    struct loci_crc32c crc;
    struct loci_tlog_head head;
    uint64_t end;                       /* bytes of the file */
    _Atomic uint64_t written;           /* the last record's number */
    unsigned char start[LOCI_TLOG_BATCH][LOCI_TLOG_RECORD];
    struct iovec part[3 * LOCI_TLOG_BATCH];
    struct loci_tlog_syncer syncer;     /* and whether the log has failed */
};

/* Open the log of this topic, or make it: as file `path`, which no other process may have open for
 * that. What a crash left of a record at its end is cut off, and `say`, which lives as long as
 * the log, is told. Errors, each of which `say` is told: LOCO_ERR_SYSTEM, LOCO_ERR_NO_MEMORY,
 * LOCO_ERR_STATE (in use), LOCO_ERR_MISMATCH (of another topic), LOCO_ERR_ARG (no log),
 * LOCO_ERR_UNSUPPORTED (of a later version), LOCO_ERR_DAMAGED (nothing was changed). */
int loci_tlog_open(const char *path, const char *topic, enum loci_tlog_sync sync,
                   const struct loci_log *say, struct loci_tlog **log);

/* Sync what is to be synced, and close. NULL is allowed. */
void loci_tlog_close(struct loci_tlog *log);

/* Append n records, by one write for each LOCI_TLOG_BATCH of them; *number, unless NULL, becomes
 * the last one's. After an error, LOCO_ERR_SYSTEM, of which `say` was told, the log has ended: all
 * later calls return it, so that no record is missing before another. */
int loci_tlog_append(struct loci_tlog *log, const struct loci_tlog_entry *entries, int n,
                     uint64_t *number);

static inline uint64_t loci_tlog_written(const struct loci_tlog *log)
{
    return atomic_load_explicit(&log->written, memory_order_acquire);
}

/* The last number up to which all records are on the disk. */
static inline uint64_t loci_tlog_synced(const struct loci_tlog *log)
{
    return loci_tlog_syncer_done(&log->syncer);
}

/* Wait until record `number` is on the disk: LOCO_OK, LOCO_ERR_TIMEOUT, LOCO_ERR_SYSTEM (it has
 * failed), LOCO_ERR_ARG (not written yet), LOCO_ERR_STATE (nothing is synced). */
int loci_tlog_wait_synced(struct loci_tlog *log, uint64_t number, int64_t timeout_ns);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TLOG_READ_H
#define LOCI_TLOG_READ_H

#include "observe/log.h"
#include "tlog_format.h"

/* Reads a topic's log from its beginning: whole records, and what is between them. The file may
 * have any contents, and another process may append to it or cut it off meanwhile: it is read by
 * read(2), never mapped. Whoever has a reader uses it alone. */

enum loci_tlog_found {
    LOCI_TLOG_FOUND_RECORD,
    LOCI_TLOG_FOUND_DAMAGE,     /* no whole record with the next number; */
    LOCI_TLOG_FOUND_TORN,       /* the same, and none follows: the end of what was being written */
    LOCI_TLOG_FOUND_END
};

struct loci_tlog_item {
    enum loci_tlog_found found;
    uint64_t from, to;          /* offsets; of damage up to the next whole record or the end */
    struct loci_tlog_record record;
    const unsigned char *data;  /* of a record; until the next call */
    uint64_t expected;          /* the number that should be there */
    uint64_t next;              /* damage: the number of the record at `to`, or 0: none follows */
};

struct loci_tlog_reader;

/* Open a log to be read; `say` is told what is wrong with it. Not for longer than the reader lives.
 * LOCO_ERR_SYSTEM, _NO_MEMORY, LOCO_ERR_ARG (it is none), LOCO_ERR_UNSUPPORTED (of a later
 * version), LOCO_ERR_DAMAGED (its head), LOCO_ERR_AGAIN (no record can be there yet: the head is
 * not finished; nothing is said). */
int loci_tlog_reader_open(const char *path, const struct loci_log *say,
                          struct loci_tlog_reader **reader);
/* The same of an open file, which stays open when the reader is closed; `path` is its name. */
int loci_tlog_reader_of(int fd, const char *path, const struct loci_log *say,
                        struct loci_tlog_reader **reader);
void loci_tlog_reader_close(struct loci_tlog_reader *r);

const struct loci_tlog_head *loci_tlog_reader_head(const struct loci_tlog_reader *r);
/* Bytes that the file had when it was opened, or has left since. */
uint64_t loci_tlog_reader_size(const struct loci_tlog_reader *r);
/* Whether a process has it open to append to it. */
bool loci_tlog_reader_in_use(const struct loci_tlog_reader *r);

/* The next record, damage, or end. LOCO_ERR_SYSTEM and _NO_MEMORY: `say` was told. */
int loci_tlog_reader_next(struct loci_tlog_reader *r, struct loci_tlog_item *item);

#endif

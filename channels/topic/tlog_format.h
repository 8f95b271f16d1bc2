/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TLOG_FORMAT_H
#define LOCI_TLOG_FORMAT_H

#include <stdbool.h>

#include "crc32c.h"

/* What a topic's log file consists of: a head, then records. All numbers are little-endian; both
 * begin at multiples of 8.
 *
 * Head                                    Record
 *  0  "locolog" and a zero                 0  marker
 *  8  version, 4 bytes                     4  checksum of bytes 8 to 39, 4 bytes
 * 12  bytes of the head, 4 bytes           8  number, 8 bytes
 * 16  id of this file, 8 bytes            16  time, ns since 1970, 8 bytes
 * 24  number of its first record          24  bytes of the sample, 4 bytes
 * 32  time it was made, as a record's     28  rank of the sender, 4 bytes
 * 40  bytes of the topic's name, 4 bytes  32  checksum of all from byte 40 on, 4 bytes
 * 44  checksum of all the rest            36  zero, 4 bytes
 * 48  the topic's name, and zeros         40  the sample, and zeros up to a multiple of 8
 *
 * Every byte is covered by a checksum. A record's checksums begin with the file's id, so that a
 * record of another file is none of this one; and numbers are consecutive, so that none is missing,
 * doubled or moved without being noticed. */

#define LOCI_TLOG_VERSION 1u
#define LOCI_TLOG_MARKER UINT32_C(0x6a7dc0f1)
#define LOCI_TLOG_RECORD ((size_t)40)       /* bytes before a sample */
#define LOCI_TLOG_FIXED ((size_t)48)        /* bytes of a head before the name */
#define LOCI_TLOG_NAME 255                  /* bytes of a name, at most */
#define LOCI_TLOG_HEAD_MOST (LOCI_TLOG_FIXED + 256)
#define LOCI_TLOG_SAMPLE_MOST (UINT32_C(1) << 30)

struct loci_tlog_head {
    uint64_t id, first;
    int64_t made;
    uint32_t version, bytes;
    char topic[LOCI_TLOG_NAME + 1];
};

struct loci_tlog_record {
    uint64_t number;
    int64_t time;
    uint32_t sender, bytes;
    uint32_t sum;                           /* of the sample and what fills it up */
};

static inline uint64_t loci_tlog_filled(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* Bytes of a record with a sample of so many. */
static inline uint64_t loci_tlog_length(uint64_t bytes)
{
    return LOCI_TLOG_RECORD + loci_tlog_filled(bytes);
}

/* A head at `to`, of LOCI_TLOG_HEAD_MOST bytes; `bytes` and `version` of `head` are filled in. */
void loci_tlog_put_head(const struct loci_crc32c *c, struct loci_tlog_head *head,
                        unsigned char *to);

/* A head, from the first `have` bytes of a file. */
enum loci_tlog_heads { LOCI_TLOG_HEAD, LOCI_TLOG_UNFINISHED, LOCI_TLOG_STRANGE, LOCI_TLOG_NEWER,
                       LOCI_TLOG_BROKEN };
enum loci_tlog_heads loci_tlog_get_head(const struct loci_crc32c *c, const unsigned char *from,
                                        size_t have, struct loci_tlog_head *head);

/* The checksum of a sample. */
uint32_t loci_tlog_sum(const struct loci_crc32c *c, uint64_t id, const void *data, size_t bytes);

/* The part of a record before its sample. */
void loci_tlog_put_record(const struct loci_crc32c *c, uint64_t id,
                          const struct loci_tlog_record *record, unsigned char *to);
/* Whether that is at `from`, whole. Its sample is yet to be looked at: loci_tlog_has(). */
bool loci_tlog_get_record(const struct loci_crc32c *c, uint64_t id, const unsigned char *from,
                          struct loci_tlog_record *record);
/* Whether this is its sample, with what fills it up. */
bool loci_tlog_has(const struct loci_crc32c *c, uint64_t id, const struct loci_tlog_record *record,
                   const unsigned char *sample);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */

/* A topic's log: how its head and records are written and recognised. Memory alone, no file. */

#include "config.h"

#include "tlog_format.h"

#include <endian.h>
#include <string.h>

static const char magic[8] = "locolog";

static void put32(unsigned char *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put64(unsigned char *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static uint32_t get32(const unsigned char *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const unsigned char *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

/* What each checksum of a record begins with. */
static uint32_t seed(const struct loci_crc32c *c, uint64_t id)
{
    unsigned char bytes[8];

    put64(bytes, id);
    return loci_crc32c(c, 0, bytes, sizeof bytes);
}

/* ---- the head ---- */

static uint32_t head_sum(const struct loci_crc32c *c, const unsigned char *head, size_t bytes)
{
    uint32_t sum = loci_crc32c(c, 0, head, 44);

    return loci_crc32c(c, sum, head + LOCI_TLOG_FIXED, bytes - LOCI_TLOG_FIXED);
}

void loci_tlog_put_head(const struct loci_crc32c *c, struct loci_tlog_head *head,
                        unsigned char *to)
{
    size_t name = strlen(head->topic);

    head->version = LOCI_TLOG_VERSION;
    head->bytes = (uint32_t)(LOCI_TLOG_FIXED + loci_tlog_filled(name));
    memset(to, 0, LOCI_TLOG_HEAD_MOST);
    memcpy(to, magic, sizeof magic);
    put32(to + 8, head->version);
    put32(to + 12, head->bytes);
    put64(to + 16, head->id);
    put64(to + 24, head->first);
    put64(to + 32, (uint64_t)head->made);
    put32(to + 40, (uint32_t)name);
    memcpy(to + LOCI_TLOG_FIXED, head->topic, name);
    put32(to + 44, head_sum(c, to, head->bytes));
}

static bool is_zero(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Whether the lengths of a head and of its name agree. */
static bool has_length(const unsigned char *from)
{
    uint32_t name = get32(from + 40);

    return name <= LOCI_TLOG_NAME && get32(from + 12) == LOCI_TLOG_FIXED + loci_tlog_filled(name);
}

/* Of a file that ends before its head does: the process that made it died, or the machine did, with
 * the length on its disk and not the contents. */
static bool is_unfinished(const unsigned char *from, size_t have)
{
    size_t n = have < sizeof magic ? have : sizeof magic;

    return have < LOCI_TLOG_HEAD_MOST
           && (is_zero(from, have)
               || (memcmp(from, magic, n) == 0
                   && (have < LOCI_TLOG_FIXED
                       || (get32(from + 8) == LOCI_TLOG_VERSION && has_length(from)
                           && get32(from + 12) > have))));
}

enum loci_tlog_heads loci_tlog_get_head(const struct loci_crc32c *c, const unsigned char *from,
                                        size_t have, struct loci_tlog_head *head)
{
    uint32_t name;

    if (is_unfinished(from, have))
        return LOCI_TLOG_UNFINISHED;
    if (have < LOCI_TLOG_FIXED || memcmp(from, magic, sizeof magic) != 0)
        return LOCI_TLOG_STRANGE;
    *head = (struct loci_tlog_head){
        .version = get32(from + 8), .bytes = get32(from + 12), .id = get64(from + 16),
        .first = get64(from + 24), .made = (int64_t)get64(from + 32),
    };
    if (head->version > LOCI_TLOG_VERSION)
        return LOCI_TLOG_NEWER;
    name = get32(from + 40);
    if (!has_length(from) || head->bytes > have
        || get32(from + 44) != head_sum(c, from, head->bytes)
        || memchr(from + LOCI_TLOG_FIXED, '\0', name) != NULL)
        return LOCI_TLOG_BROKEN;
    memcpy(head->topic, from + LOCI_TLOG_FIXED, name);
    return LOCI_TLOG_HEAD;
}

/* ---- records ---- */

uint32_t loci_tlog_sum(const struct loci_crc32c *c, uint64_t id, const void *data, size_t bytes)
{
    static const unsigned char zeros[8];
    uint32_t sum = loci_crc32c(c, seed(c, id), data, bytes);

    return loci_crc32c(c, sum, zeros, loci_tlog_filled(bytes) - bytes);
}

void loci_tlog_put_record(const struct loci_crc32c *c, uint64_t id,
                          const struct loci_tlog_record *record, unsigned char *to)
{
    put32(to, LOCI_TLOG_MARKER);
    put64(to + 8, record->number);
    put64(to + 16, (uint64_t)record->time);
    put32(to + 24, record->bytes);
    put32(to + 28, record->sender);
    put32(to + 32, record->sum);
    put32(to + 36, 0);
    put32(to + 4, loci_crc32c(c, seed(c, id), to + 8, LOCI_TLOG_RECORD - 8));
}

bool loci_tlog_get_record(const struct loci_crc32c *c, uint64_t id, const unsigned char *from,
                          struct loci_tlog_record *record)
{
    if (get32(from) != LOCI_TLOG_MARKER
        || get32(from + 4) != loci_crc32c(c, seed(c, id), from + 8, LOCI_TLOG_RECORD - 8))
        return false;
    *record = (struct loci_tlog_record){
        .number = get64(from + 8), .time = (int64_t)get64(from + 16), .bytes = get32(from + 24),
        .sender = get32(from + 28), .sum = get32(from + 32),
    };
    return record->bytes <= LOCI_TLOG_SAMPLE_MOST;
}

bool loci_tlog_has(const struct loci_crc32c *c, uint64_t id, const struct loci_tlog_record *record,
                   const unsigned char *sample)
{
    return record->sum == loci_crc32c(c, seed(c, id), sample, loci_tlog_filled(record->bytes));
}

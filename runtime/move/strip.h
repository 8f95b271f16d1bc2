/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STRIP_H
#define LOCI_STRIP_H

/* Strips of network memory: where they lie, and copies between them and packed bytes. */

#include "access.h"
#include "fabric/fabric.h"

/* First byte touched and the one behind the last. False: 64 bits do not hold them, or it has no
 * bytes. Strips may come from another process: every value is possible. */
static inline bool loci_strip_extent(const struct loci_strip *s, uint64_t *low, uint64_t *high)
{
    int64_t rest;
    uint64_t last;

    if (s->len == 0 || s->blocks == 0 || s->blocks - 1 > INT64_MAX
        || __builtin_mul_overflow((int64_t)(s->blocks - 1), s->stride, &rest)
        || __builtin_add_overflow(s->at, rest, &last))
        return false;
    *low = rest < 0 ? last : s->at;
    return !__builtin_add_overflow(rest < 0 ? s->at : last, s->len, high);
}

/* Short blocks are moved by one load and one store: a call of memcpy takes longer. */
#define LOCI_STRIP_COPY(size)                                                               \
    for (uint64_t i = 0; i < n; i++, p += step, packed += len) {                            \
        if (writes)                                                                         \
            loci_copy_in(p, packed, (size));                                                \
        else                                                                                \
            loci_copy_out(packed, p, (size));                                               \
    }                                                                                       \
    break

/* Between the strip whose first block is at p and packed bytes; returns where these end. */
static inline unsigned char *loci_strip_copy(const struct loci_strip *s, unsigned char *p,
                                             unsigned char *packed, bool writes)
{
    const size_t len = s->len;
    const ptrdiff_t step = s->stride;
    const uint64_t n = s->blocks;

    switch (len) {
    case 1: LOCI_STRIP_COPY(1);
    case 2: LOCI_STRIP_COPY(2);
    case 4: LOCI_STRIP_COPY(4);
    case 8: LOCI_STRIP_COPY(8);
    case 16: LOCI_STRIP_COPY(16);
    case 24: LOCI_STRIP_COPY(24);
    case 32: LOCI_STRIP_COPY(32);
    default: LOCI_STRIP_COPY(len);
    }
    return packed;
}

#endif

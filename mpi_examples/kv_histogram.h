/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of latencies in buckets that grow with the value, as HdrHistogram's do: each power of two
 * is divided into KV_HISTOGRAM_PARTS, so a percentile is right to 1 part in KV_HISTOGRAM_PARTS
 * whatever its size. All buckets are numbers of one array, which is how histograms of several
 * processes are added up.
 */
#ifndef MPI_EXAMPLES_KV_HISTOGRAM_H
#define MPI_EXAMPLES_KV_HISTOGRAM_H

#include <stdint.h>

enum {
    KV_HISTOGRAM_BITS = 5,
    KV_HISTOGRAM_PARTS = 1 << KV_HISTOGRAM_BITS,
    KV_HISTOGRAM_BUCKETS = (64 - KV_HISTOGRAM_BITS + 1) * KV_HISTOGRAM_PARTS,
};

struct kv_histogram {
    uint64_t counts[KV_HISTOGRAM_BUCKETS];
    uint64_t most; /* the largest value, exactly */
};

/* Values below two times the parts have a bucket each; above, the highest bits name it. */
static inline unsigned kv_histogram_bucket(uint64_t value)
{
    unsigned shift;

    if (value < 2 * KV_HISTOGRAM_PARTS)
        return (unsigned)value;
    shift = 63 - KV_HISTOGRAM_BITS - (unsigned)__builtin_clzll(value);
    return shift * KV_HISTOGRAM_PARTS + (unsigned)(value >> shift);
}

static inline void kv_histogram_add(struct kv_histogram *h, uint64_t value)
{
    h->counts[kv_histogram_bucket(value)]++;
    if (value > h->most)
        h->most = value;
}

/* All that `from` has counted, too. */
void kv_histogram_merge(struct kv_histogram *h, const struct kv_histogram *from);

uint64_t kv_histogram_total(const struct kv_histogram *h);

/* The value that so many of a hundred do not exceed: the upper end of its bucket, but no more than
 * the largest value. 0 where nothing was counted. */
uint64_t kv_histogram_percentile(const struct kv_histogram *h, double percent);

#endif

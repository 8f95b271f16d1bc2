/* SPDX-License-Identifier: BSD-3-Clause */
#include "kv_histogram.h"

#include <math.h>

/* The largest value of a bucket. */
static uint64_t upper_end(unsigned bucket)
{
    unsigned shift;

    if (bucket < 2 * KV_HISTOGRAM_PARTS)
        return bucket;
    shift = bucket / KV_HISTOGRAM_PARTS - 1;
    /* Wraps to the largest number of all for the last bucket. */
    return ((uint64_t)(bucket - shift * KV_HISTOGRAM_PARTS + 1) << shift) - 1;
}

void kv_histogram_merge(struct kv_histogram *h, const struct kv_histogram *from)
{
    for (unsigned i = 0; i < KV_HISTOGRAM_BUCKETS; i++)
        h->counts[i] += from->counts[i];
    if (from->most > h->most)
        h->most = from->most;
}

uint64_t kv_histogram_total(const struct kv_histogram *h)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < KV_HISTOGRAM_BUCKETS; i++)
        total += h->counts[i];
    return total;
}

uint64_t kv_histogram_percentile(const struct kv_histogram *h, double percent)
{
    double wanted = ceil((double)kv_histogram_total(h) * percent / 100);
    uint64_t seen = 0, end;

    for (unsigned i = 0; i < KV_HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (h->counts[i] == 0 || (double)seen < wanted)
            continue;
        end = upper_end(i);
        return end < h->most ? end : h->most;
    }
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SUM_H
#define LOCI_SUM_H

/* Checksums of values that may be read while they are being written: four sums side by side, each a
 * word at a time. A step is a bijection of its sum for any word, and depends on all words before.
 * What the value belongs to comes first, so that no other value has its sum. */

#include <stddef.h>
#include <stdint.h>

struct loci_sum {
    uint64_t lane[4];
};

static inline void loci_sum_begin(struct loci_sum *sum, uint64_t of)
{
    for (uint64_t i = 0; i < 4; i++)
        sum->lane[i] = (of + i) * UINT64_C(0x9fb21c651e98df25);
}

/* Word number i of the value. */
static inline void loci_sum_add(struct loci_sum *sum, size_t i, uint64_t word)
{
    uint64_t *lane = &sum->lane[i % 4];

    *lane = (*lane ^ word) * UINT64_C(0x9fb21c651e98df25);
    *lane ^= *lane >> 32;
}

static inline uint64_t loci_sum_end(const struct loci_sum *sum)
{
    uint64_t all = UINT64_C(0x243f6a8885a308d3);

    for (int i = 0; i < 4; i++) {
        all = (all ^ sum->lane[i]) * UINT64_C(0xd6e8feb86659fd93);
        all ^= all >> 32;
    }
    return all;
}

#endif

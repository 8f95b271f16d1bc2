/* SPDX-License-Identifier: BSD-3-Clause */

/* Case of `contract`: 8 aligned bytes are never seen torn: not by their owner while they are
 * written from elsewhere, nor from elsewhere while their owner stores them. All bytes of a value
 * are the same one, so that part of two values shows. */

#include "config.h"

#include <stdio.h>

#include "world.h"

#define SAME(byte) (UINT64_C(0x0101010101010101) * (uint64_t)((byte) & 0xff))
#define LOOKS 400       /* at the own word for each write of the other's */
#define WRITES 32       /* for each read */

enum { WRITTEN = 64, STORED = 128 };        /* words of each member's */

static bool is_whole(uint64_t value)
{
    return value == SAME(value);
}

int whole(struct member *m)
{
    struct world w;
    uint64_t rounds = (uint64_t)run_rounds(20000), torn = 0, seen = 0, torn_reads = 0;
    unsigned char *mine;

    CHECK(enter(&w, m, LEN) == 0);
    mine = loci_mem_ptr(&w.pool);
    CHECK_OK(together(&w));
    for (uint64_t i = 1; i <= rounds; i++) {
        uint64_t value = 0, last = loci_load64(mine + WRITTEN);

        CHECK_OK(loci_write64(w.rt, &w.pools[next_of(&w)], WRITTEN, SAME(i), NULL));
        for (int k = 0; k < LOOKS; k++) {
            uint64_t now = loci_load64(mine + WRITTEN);

            torn += !is_whole(now);
            seen += now != last;
            last = now;
            loci_store64(mine + STORED, SAME(k));
        }
        if (i % WRITES == 0) {
            CHECK_OK(loci_read64(w.rt, &w.pools[next_of(&w)], STORED, &value, NULL));
            torn_reads += !is_whole(value);
        }
    }
    printf("# %llu looks, %llu found another value, %llu torn; %llu reads, %llu torn\n",
           (unsigned long long)(rounds * LOOKS), (unsigned long long)seen,
           (unsigned long long)torn, (unsigned long long)rounds / WRITES,
           (unsigned long long)torn_reads);
    CHECK_OK(together(&w));
    CHECK_EQ(torn, 0);
    CHECK_EQ(torn_reads, 0);
    return leave(&w);
}

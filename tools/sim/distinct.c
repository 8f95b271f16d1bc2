/* SPDX-License-Identifier: BSD-3-Clause */
/* Open addressing with linear probing in shared memory. A slot is 0 until one process puts its hash
 * there, by compare and swap, and then never changes; so whoever stops in between harms nobody. */
#include "config.h"

#include "distinct.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

struct sim_distinct {
    uint64_t slots;             /* a power of 2 */
    _Atomic uint64_t count;
    _Atomic uint64_t slot[];
};

static size_t bytes_of(uint64_t slots)
{
    return sizeof(struct sim_distinct) + slots * sizeof(uint64_t);
}

struct sim_distinct *sim_distinct_create(uint64_t expected)
{
    struct sim_distinct *set;
    uint64_t slots = 1024;

    while (slots < SIM_DISTINCT_MAX && slots < 2 * expected)
        slots *= 2;
    /* Pages that nobody touches cost nothing. */
    set = mmap(NULL, bytes_of(slots), PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (set == MAP_FAILED)
        return NULL;
    set->slots = slots;
    return set;
}

void sim_distinct_destroy(struct sim_distinct *set)
{
    if (set != NULL)
        munmap(set, bytes_of(set->slots));
}

void sim_distinct_add(struct sim_distinct *set, uint64_t hash)
{
    uint64_t at = hash;

    hash += hash == 0;
    while (!sim_distinct_full(set)) {
        uint64_t there = 0;

        at &= set->slots - 1;
        if (atomic_compare_exchange_strong_explicit(&set->slot[at], &there, hash,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            atomic_fetch_add_explicit(&set->count, 1, memory_order_relaxed);
            return;
        }
        if (there == hash)
            return;
        at++;
    }
}

uint64_t sim_distinct_count(const struct sim_distinct *set)
{
    return atomic_load_explicit(&set->count, memory_order_relaxed);
}

/* Long probes from here on, and no end of them in a set without a free slot. */
bool sim_distinct_full(const struct sim_distinct *set)
{
    return sim_distinct_count(set) >= set->slots / 8 * 7;
}

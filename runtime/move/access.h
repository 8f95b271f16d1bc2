/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_ACCESS_H
#define LOCI_ACCESS_H

/* Every touch of network memory by the CPU, one's own part included, goes through here: a plain
 * C11 access in production, a step of the scheduler in simulation, which could not see a plain
 * load. Words are 8 bytes and aligned; flags are polled with acquire, set with release.
 *
 * `loci_cpu_*` are the atomics of the cpu and the owner domain (DESIGN 7), through the mapping. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t loci_load64(const void *word)
{
    return atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire);
}

/* In one order with the atomics below and others of its kind: for who writes one word, reads
 * another and must not miss who does it the other way round. */
static inline uint64_t loci_load64_total(const void *word)
{
    return atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_seq_cst);
}

static inline void loci_store64(void *word, uint64_t value)
{
    atomic_store_explicit((_Atomic uint64_t *)word, value, memory_order_release);
}

/* Whether any atomic of this CPU that reads and writes is a full fence, as the lock prefix is. */
#if defined(__x86_64__) || defined(__i386__)
#define LOCI_ATOMICS_FENCE true
#else
#define LOCI_ATOMICS_FENCE false
#endif

/* A full fence that also clears a flag of this process. Where atomics are fences this is one: GCC
 * fences by an atomic on the top of the stack, which has to wait for what a call has just stored
 * there. */
static inline void loci_fence_and_clear(_Atomic bool *flag)
{
    if (LOCI_ATOMICS_FENCE) {
        (void)atomic_exchange_explicit(flag, false, memory_order_seq_cst);
    } else {
        atomic_store_explicit(flag, false, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

/* C libraries change to a slower way of copying, or past the caches, which the reader of the copy
 * is then without, from a length on that depends on the machine: 1 MiB with glibc on AMD, less on
 * some. So what is long goes in pieces that are shorter, but for what is longer than caches are. */
#define LOCI_COPY_PIECE ((size_t)512 * 1024)
#define LOCI_COPY_CACHED ((size_t)32 * 1024 * 1024)

void loci_copy_pieces(void *to, const void *from, size_t len);     /* rma.c */

static inline void loci_copy_plain(void *to, const void *from, size_t len)
{
    if (len > LOCI_COPY_PIECE && len <= LOCI_COPY_CACHED)
        loci_copy_pieces(to, from, len);
    else
        memcpy(to, from, len);
}

/* Copies of any length, torn as the hardware likes. */
static inline void loci_copy_out(void *to, const void *network, size_t len)
{
#ifdef LOCO_SIM
    loci_sim_copy(to, network, len, 0);
#else
    loci_copy_plain(to, network, len);
#endif
}

/* The same of words that others may be storing meanwhile, for a reader who loads a word afterwards
 * that tells it so and then throws the copy away: a store that the copy has something of is seen
 * by that load, if those who store change the word first. */
static inline void loci_copy_out_raced(void *to, const void *network, size_t len)
{
#ifdef __SANITIZE_THREAD__
    /* It takes a copy for a race, whatever becomes of it. */
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = loci_load64((const unsigned char *)network + at);

        memcpy((unsigned char *)to + at, &word, len - at < 8 ? len - at : 8);
    }
#else
    loci_copy_out(to, network, len);
    /* Pairs with the release of what was stored. */
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* A few bytes of a value that is read in place, up to eight, wherever they lie: as above, others
 * may be storing meanwhile, and once all is read loci_looked() comes, and then the word that tells.
 * Each is loaded once: what is checked of it holds for what is used. */
static inline void loci_look(void *to, const void *network, size_t len)
{
#ifdef __SANITIZE_THREAD__
    uintptr_t first = (uintptr_t)network / 8 * 8, end = (uintptr_t)network + len;
    uint64_t words[2] = { loci_load64((const void *)first),
                          end > first + 8 ? loci_load64((const void *)(first + 8)) : 0 };

    memcpy(to, (const unsigned char *)words + ((uintptr_t)network - first), len);
#elif defined LOCO_SIM
    loci_sim_copy(to, network, len, 0);
#else
    memcpy(to, network, len);
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static inline void loci_looked(void)
{
    /* Pairs with the release of what was stored. */
    atomic_thread_fence(memory_order_acquire);
}

/* A copy of what is checked and then used, of words that a peer may change at any time: from here
 * on the copy is what counts. The fence is for the compiler, which may otherwise load from there
 * again what it takes to be unchanged. */
static inline void loci_copy_once(void *to, const void *network, size_t len)
{
    loci_copy_out(to, network, len);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void loci_copy_in(void *network, const void *from, size_t len)
{
#ifdef LOCO_SIM
    loci_sim_copy(network, from, len, 1);
#else
    loci_copy_plain(network, from, len);
#endif
}

/* The same where others may be reading meanwhile, and will throw away what they have read. Whole,
 * aligned words. */
static inline void loci_copy_in_raced(void *network, const void *from, size_t len)
{
#ifdef __SANITIZE_THREAD__
    /* It takes a copy for a race, whatever becomes of it. */
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word;

        memcpy(&word, (const unsigned char *)from + at, 8);
        loci_store64((unsigned char *)network + at, word);
    }
#else
    loci_copy_in(network, from, len);
#endif
}

static inline uint64_t loci_cpu_fetch_add(void *word, uint64_t add)
{
    return atomic_fetch_add_explicit((_Atomic uint64_t *)word, add, memory_order_seq_cst);
}

static inline uint64_t loci_cpu_fetch_or(void *word, uint64_t bits)
{
    return atomic_fetch_or_explicit((_Atomic uint64_t *)word, bits, memory_order_seq_cst);
}

static inline uint64_t loci_cpu_exchange(void *word, uint64_t value)
{
    return atomic_exchange_explicit((_Atomic uint64_t *)word, value, memory_order_seq_cst);
}

/* A quarter of a word, bits `shift` to `shift` + 15, that who has swapped it in alone changes,
 * while others update the rest by atomics on the whole. */
static inline _Atomic uint16_t *loci_quarter(const void *word, unsigned shift)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    size_t at = shift / 8;
#else
    size_t at = 6 - shift / 8;
#endif

    return (_Atomic uint16_t *)(uintptr_t)((const unsigned char *)word + at);
}

/* In one order with the atomics of whole words, as loci_load64_total() is. */
static inline uint16_t loci_load_quarter(const void *word, unsigned shift)
{
#ifdef __SANITIZE_THREAD__
    return (uint16_t)(loci_load64_total(word) >> shift);
#else
    return atomic_load_explicit(loci_quarter(word, shift), memory_order_seq_cst);
#endif
}

/* Whether it was `expected`, and is `desired` now; in that order, too. */
static inline bool loci_cpu_swap_quarter(void *word, unsigned shift, uint16_t expected,
                                         uint16_t desired)
{
#ifdef __SANITIZE_THREAD__
    /* It pairs atomics of the same address and length only, so the whole word is changed for it. */
    uint64_t old = atomic_load_explicit((_Atomic uint64_t *)word, memory_order_relaxed);

    do {
        if ((uint16_t)(old >> shift) != expected)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
                 (_Atomic uint64_t *)word, &old,
                 (old & ~(UINT64_C(0xffff) << shift)) | (uint64_t)desired << shift,
                 memory_order_seq_cst, memory_order_relaxed));
    return true;
#else
    return atomic_compare_exchange_strong_explicit(loci_quarter(word, shift), &expected, desired,
                                                   memory_order_seq_cst, memory_order_relaxed);
#endif
}

/* By who alone changes it now. Release order; no fence. */
static inline void loci_cpu_store_quarter(void *word, unsigned shift, uint16_t value)
{
#ifdef __SANITIZE_THREAD__
    (void)loci_cpu_swap_quarter(word, shift, loci_load_quarter(word, shift), value);
#else
    atomic_store_explicit(loci_quarter(word, shift), value, memory_order_release);
#endif
}

/* Returns the old value, which is `expected` where the swap was done. */
static inline uint64_t loci_cpu_compare_swap(void *word, uint64_t expected, uint64_t desired)
{
    atomic_compare_exchange_strong_explicit((_Atomic uint64_t *)word, &expected, desired,
                                            memory_order_seq_cst, memory_order_seq_cst);
    return expected;
}

#endif

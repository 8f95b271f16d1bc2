/* SPDX-License-Identifier: BSD-3-Clause */

/* The hash of a key: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012),
 * with a key of 128 bits that the creator of a table has drawn. Why this one: the leaves are in the
 * order of hashes, so each leading bit has to be a fair one for keys that are as regular as keys
 * are (numbers in a row, texts that differ at the end); and who chooses keys, and not the table's
 * seed, cannot make many of them meet. Functions that are faster, by products of words, have known
 * keys that meet whatever the seed is. A key of 8 bytes takes two rounds and three. */

#include "config.h"

#include <string.h>

#include "directory.h"

#ifdef LOCO_SIM
uint64_t loci_hash_mask = UINT64_MAX;
unsigned loci_hash_bits[3] = { 2, 2, 3 };
#define MASK loci_hash_mask
#else
#define MASK UINT64_MAX
#endif

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t turn(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void mix(struct sip *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = turn(s->b, 13) ^ s->a;
    s->d = turn(s->d, 16) ^ s->c;
    s->a = turn(s->a, 32) + s->d;
    s->c += s->b;
    s->d = turn(s->d, 21) ^ s->a;
    s->b = turn(s->b, 17) ^ s->c;
    s->c = turn(s->c, 32);
}

static inline void take(struct sip *s, uint64_t word)
{
    s->d ^= word;
    mix(s);
    s->a ^= word;
}

/* Up to 8 bytes, the lowest first, whatever the processor's order is. */
static inline uint64_t load(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;

    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

uint64_t loci_hash_of(const uint64_t seed[2], loco_bytes_t key)
{
    struct sip s = {
        seed[0] ^ UINT64_C(0x736f6d6570736575), seed[1] ^ UINT64_C(0x646f72616e646f6d),
        seed[0] ^ UINT64_C(0x6c7967656e657261), seed[1] ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *bytes = key.data;
    size_t whole = key.len / 8 * 8;

    for (size_t i = 0; i < whole; i += 8)
        take(&s, load(bytes + i, 8));
    take(&s, load(bytes + whole, key.len - whole) | (uint64_t)key.len << 56);
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(&s);
    return (s.a ^ s.b ^ s.c ^ s.d) & MASK;
}

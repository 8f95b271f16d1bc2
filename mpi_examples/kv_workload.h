/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of kv_ycsb: which keys, in which mix, and what the values are. After the workloads
 * of the Yahoo! Cloud Serving Benchmark (Cooper and others, SoCC 2010); knows no store and no MPI.
 *
 * Records have an index, from 0; their keys are the indexes, shuffled. A worker draws its
 * operations before the clock runs, on a tape that it then plays round and round: so the figures
 * are of the store, not of the random numbers, and what was written last can be found again by
 * playing the tape once more.
 */
#ifndef MPI_EXAMPLES_KV_WORKLOAD_H
#define MPI_EXAMPLES_KV_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Random numbers ---- */

/* The finalizer of splitmix64 (Steele and others, OOPSLA 2014): one to one on 64 bits. */
static inline uint64_t kv_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t kv_random(uint64_t *state)
{
    return kv_mix64(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 to below 1. */
static inline double kv_random_real(uint64_t *state)
{
    return (double)(kv_random(state) >> 11) * 0x1p-53;
}

/* ---- Keys ---- */

/* Never 0, and never the same for two indexes. */
static inline uint64_t kv_key(uint64_t index)
{
    return kv_mix64(index + 1);
}

/*
 * A key as bytes, for stores that take such: its 8 bytes, the highest first, or "user" and hex
 * digits, as many as there is room for. Both are in the order of the numbers.
 */
enum { KV_NUMBER_KEY = 8, KV_LEAST_TEXT_KEY = 20, KV_MOST_KEY = 250 };

void kv_key_make(unsigned char *to, size_t bytes, uint64_t key);

/* False where they are no such key. */
bool kv_key_read(const void *from, size_t bytes, uint64_t *key);

/* ---- Values ---- */

enum {
    KV_LEAST_VALUE = 8,
    KV_MOST_VALUE = 65536,
    KV_WRITER_BITS = 10,
    KV_NUMBER_BITS = 26,
    KV_MOST_WRITERS = (1 << KV_WRITER_BITS) - 1,
};

#define KV_NUMBER_MASK ((UINT32_C(1) << KV_NUMBER_BITS) - 1)

/*
 * Who wrote a value: 0 at the loading, else a worker's number plus one; and which of its operations
 * it was. A value's first word is this and a check of it with the key; each later word follows
 * from the first, so that a value made of two is seen whatever its size.
 */
struct kv_stamp {
    uint32_t writer;
    uint32_t number; /* its low KV_NUMBER_BITS are kept */
};

void kv_value_make(void *value, size_t bytes, uint64_t key, struct kv_stamp stamp);

/* False where it is no value that anybody wrote for the key. */
bool kv_value_check(const void *value, size_t bytes, uint64_t key, struct kv_stamp *stamp);

/* ---- Zipf ---- */

/*
 * Ranks 0 to items - 1, rank r as often as 1 / (r + 1)^theta, by the method of Gray and others
 * ("Quickly generating billion-record synthetic databases", SIGMOD 1994), which YCSB uses: exact
 * for the first two ranks, close for the others.
 */
struct kv_zipf {
    uint64_t items;
    double theta, alpha, zetan, eta, second;
};

#define KV_ZIPF_THETA 0.99

/* The sum of 1 / r^theta for r = 1 to n; summed up to a few thousand, from there by the formula of
 * Euler and Maclaurin. */
double kv_zeta(uint64_t n, double theta);

/* 0 < theta < 1. */
void kv_zipf_init(struct kv_zipf *z, uint64_t items, double theta);

uint64_t kv_zipf_draw(const struct kv_zipf *z, uint64_t *random);

/* ---- Mixes ---- */

enum kv_kind {
    KV_READ,
    KV_UPDATE,
    KV_INSERT,
    KV_SCAN,    /* entries from a key on, in the order of keys */
    KV_MODIFY   /* a read, and then an update of the same record */
};
enum { KV_KINDS = KV_MODIFY + 1 };

enum kv_distribution {
    KV_UNIFORM,
    KV_ZIPF,    /* scrambled: the popular records are anywhere */
    KV_LATEST,  /* the newest are the most popular: the draw is an age */
    KV_DISTRIBUTIONS
};

struct kv_mix {
    char name;
    int percent;         /* of the operations are of the usual kind, */
    enum kv_kind usual;
    enum kv_kind other;  /* and all others of this one */
    enum kv_distribution distribution;
    const char *text;
};

/* YCSB's A to F, as its workload files have them, by the letter in lower case; NULL where there is
 * none. */
const struct kv_mix *kv_mix_find(char name);

enum { KV_MOST_SCANNED = 100 };

/* Entries that the scan of that number asks for: 1 to KV_MOST_SCANNED, each as often. */
static inline uint64_t kv_scan_length(uint64_t seed, uint64_t number)
{
    return 1 + ((kv_mix64(seed ^ kv_mix64(number + 1)) >> 32) * KV_MOST_SCANNED >> 32);
}

extern const char *const kv_distribution_names[KV_DISTRIBUTIONS];

/* ---- The tape ---- */

/* One operation: the index of a record, or its age, and whether it is the mix's other kind. */
#define KV_STEP_OTHER (UINT32_C(1) << 31)
#define KV_STEP_VALUE (KV_STEP_OTHER - 1)

enum { KV_MOST_RECORDS = 2000000000, KV_MOST_STEPS = 1 << 22 };

struct kv_tape {
    uint32_t *steps;
    size_t count; /* a power of two */
};

/* At least one step, rounded up to a power of two up to KV_MOST_STEPS. False where there is no
 * memory. */
bool kv_tape_make(struct kv_tape *t, size_t count, const struct kv_mix *mix,
                  enum kv_distribution distribution, const struct kv_zipf *zipf,
                  uint64_t records, uint64_t seed);
void kv_tape_free(struct kv_tape *t);

static inline uint32_t kv_tape_at(const struct kv_tape *t, uint64_t number)
{
    return t->steps[number & (t->count - 1)];
}

/* ---- The newest records ---- */

/* Worker w's n-th new record, n from 0. */
static inline uint64_t kv_new_index(uint64_t records, uint64_t workers, uint64_t w, uint64_t n)
{
    return records + n * workers + w;
}

/*
 * The record of an age, where each worker is known to have put in so many. Ages go round the
 * workers, beginning with number `turn`; a worker whose new records are all younger stands for
 * those that were loaded, the last one first.
 */
uint64_t kv_latest_index(uint64_t age, uint64_t turn, uint64_t records, uint64_t workers,
                         const uint64_t *inserted);

#endif

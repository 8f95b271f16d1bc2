/* SPDX-License-Identifier: BSD-3-Clause */

/* The directory of hash tables, beside a plain array of what each first part of a hash leads to;
 * random bytes in its place; and the hash of keys. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "index/hash/directory.h"
#include "run.h"

#define ID 4711

static union loci_root_buffer root;
static union loci_segment_buffer one, two;

/* ---- the hash ---- */

/* What Python 3.11 says of b"", b"\0", b"\0\1", ... with PYTHONHASHSEED=0; but of the first, which
 * it defines otherwise. */
Test(hash_directory, hash_is_siphash)
{
    static const struct { size_t len; uint64_t hash; } known[] = {
        { 1, UINT64_C(0x68a914128e01e473) }, { 7, UINT64_C(0x2f098ab0c751325a) },
        { 8, UINT64_C(0xead411e67ebe2eea) }, { 9, UINT64_C(0x75927f9d95124362) },
        { 15, UINT64_C(0xf30eb725bb91c9ea) }, { 16, UINT64_C(0x8972188433a5c5b7) },
        { 63, UINT64_C(0x385d3e39e5f37359) },
    };
    unsigned char bytes[64];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        cr_assert_eq(loci_hash_of((uint64_t[]){ 0, 0 }, loco_bytes(bytes, known[i].len)),
                     known[i].hash, "%zu bytes", known[i].len);
    cr_assert_neq(loci_hash_of((uint64_t[]){ 1, 0 }, loco_text("key")),
                  loci_hash_of((uint64_t[]){ 0, 0 }, loco_text("key")));
    cr_assert_neq(loci_hash_of((uint64_t[]){ 0, 1 }, loco_text("key")),
                  loci_hash_of((uint64_t[]){ 0, 0 }, loco_text("key")));
}

/* Numbers in a row: 256 parts by the first bits, each of 250 keys, more or less. */
Test(hash_directory, regular_keys_are_spread)
{
    unsigned n[256] = { 0 };

    for (uint64_t i = 0; i < 64000; i++) {
        unsigned char bytes[8];

        n[loci_hash_of((uint64_t[]){ 3, 5 }, loco_key64(i, bytes)) >> 56]++;
    }
    for (int i = 0; i < 256; i++)
        cr_assert(n[i] > 160 && n[i] < 340, "part %d has %u keys", i, n[i]);
}

/* ---- ranges ---- */

static struct loci_range range_of(const char *low, size_t low_len, const char *high,
                                  size_t high_len)
{
    static union loci_node_buffer leaf;
    loco_bytes_t end = loco_bytes(high, high_len);

    loci_node_make(&leaf.node, ID, 0, loco_bytes(low, low_len), high == NULL ? NULL : &end, 0);
    return loci_range_of(&leaf.node);
}

Test(hash_directory, ranges)
{
    struct loci_range r = range_of("", 0, NULL, 0);

    cr_assert(!r.none && r.first == 0 && r.last == UINT64_MAX && r.bits == 0);
    r = range_of("\x80", 1, "\xa0", 1);
    cr_assert(!r.none && r.first == UINT64_C(1) << 63 && r.last == (UINT64_C(0xa0) << 56) - 1);
    cr_assert_eq(r.bits, 1);
    r = range_of("\x81", 1, "\x81\x80", 2);
    cr_assert(r.bits == 8 && r.last == (UINT64_C(0x8180) << 48) - 1);
    r = range_of("\x80\0\0\0\0\0\0\0a", 9, NULL, 0);
    cr_assert(!r.none && r.first == (UINT64_C(1) << 63) + 1 && r.bits == 65);
    r = range_of("\x80\0\0\0\0\0\0\0a", 9, "\x80\0\0\0\0\0\0\0b", 9);
    cr_assert(r.none, "within one hash");
    r = range_of("\x40", 1, "\x80\0\0\0\0\0\0\0b", 9);
    cr_assert(!r.none && r.last == UINT64_C(1) << 63, "the least key of that hash is its own");
    r = range_of("\xff\xff\xff\xff\xff\xff\xff\xff" "a", 9, NULL, 0);
    cr_assert(r.none);
}

/* A slot is of the leaf that has its begin: not of one that begins within it. */
Test(hash_directory, slots_of_a_range)
{
    struct loci_range deep = { .first = UINT64_C(0x5000000000000001), .last = UINT64_C(0x9) << 60,
                               .bits = 64 };
    const struct loci_range half = { .first = UINT64_C(1) << 63, .last = UINT64_MAX, .bits = 1 };

    loci_segment_make(&one.segment, ID, 7);
    loci_segment_grow(&one.segment, &(struct loci_range){ .first = UINT64_C(3) << 62, .bits = 2,
                                                          .last = UINT64_MAX });
    cr_assert_eq(one.segment.bits, 2);
    cr_assert(!loci_segment_lacks(&one.segment, &half, 7), "it has that");
    cr_assert(loci_segment_lacks(&one.segment, &deep, 8));
    cr_assert(loci_segment_set(&one.segment, &deep, 8));
    cr_assert(one.segment.leaf[1] == 7 && one.segment.leaf[2] == 8 && one.segment.leaf[3] == 7);
    cr_assert(!loci_segment_set(&one.segment, &deep, 8));
    loci_segment_grow(&one.segment, &deep);
    cr_assert_eq(one.segment.bits, 2, "there are no slots for so many bits");
    deep.none = true;
    cr_assert(!loci_segment_lacks(&one.segment, &deep, 9));
}

/* ---- beside an array ---- */

#define BITS 14u                        /* that leaves here are told apart by, at most */
#define PARTS ((size_t)1 << BITS)

static uint64_t *leaf_of;                       /* by the first bits of a hash */
static struct loci_segment *segment_of[128];    /* by handle; 0 is none */
static unsigned segments;

static struct loci_segment *segment_for(uint64_t hash)
{
    return segment_of[loci_root_segment(&root.root, hash)];
}

static struct loci_segment *new_segment(const struct loci_segment *from, uint64_t *handle)
{
    struct loci_segment *s = malloc(sizeof(union loci_segment_buffer));

    cr_assert(s != NULL && segments < 127);
    memcpy(s, from, loci_segment_bytes(from));
    segment_of[*handle = ++segments] = s;
    return s;
}

static void check_hash(uint64_t hash)
{
    const struct loci_segment *s = segment_for(hash);
    size_t slot = loci_segment_slot(s, hash);
    unsigned depth = loci_segment_depth(s);
    uint64_t start = depth == 0 ? 0 : hash >> (64 - depth) << (64 - depth);

    cr_assert(loci_segment_is(s, loci_segment_bytes(s), ID) && loci_segment_has(s, hash));
    cr_assert(loci_root_is(&root.root, loci_root_bytes(&root.root)));
    cr_assert_eq(s->leaf[slot], leaf_of[start >> (64 - BITS)], "slot %zu of %u bits", slot, depth);
}

/* What all do together who come across a leaf. */
static struct loci_segment *make_slots(uint64_t hash, const struct loci_range *range)
{
    struct loci_segment *s = segment_for(hash);
    uint64_t handle;

    for (loci_segment_grow(s, range); loci_segment_is_full(s, range);
         loci_segment_grow(s = segment_for(hash), range)) {
        loci_segment_divide(s, &two.segment);
        new_segment(&two.segment, &handle);
        loci_root_enter(&root.root, &two.segment, handle);
    }
    return s;
}

static void tell(const struct loci_range *range, uint64_t leaf)
{
    uint64_t hash = range->first, end;

    do {
        struct loci_segment *s = make_slots(hash, range);

        loci_segment_set(s, range, leaf);
        cr_assert(!loci_segment_lacks(s, range, leaf));
        end = s->skip == 0 ? UINT64_MAX : s->prefix | UINT64_MAX >> s->skip;
        hash = end + 1;
    } while (end < range->last);
}

/* A leaf has part `first` to `last`, from its first hash to its last. */
static void enter(size_t first, size_t last, uint64_t leaf)
{
    struct loci_range range = { .first = (uint64_t)first << (64 - BITS) };

    range.last = (((uint64_t)last + 1) << (64 - BITS)) - 1;
    range.bits = first == 0 ? 0 : 64 - (unsigned)__builtin_ctzll(range.first);
    for (size_t i = first; i <= last; i++)
        leaf_of[i] = leaf;
    tell(&range, leaf);
}

/* Leaves are split, at few bits and at many: the right part is a new one. */
Test(hash_directory, does_as_an_array_does, .timeout = 600)
{
    uint64_t random = 7, handle;

    leaf_of = calloc(PARTS, sizeof *leaf_of);
    loci_segment_make(&one.segment, ID, 1);
    new_segment(&one.segment, &handle);
    loci_root_make(&root.root, ID, (uint64_t[]){ 1, 2 }, 1, handle);
    enter(0, PARTS - 1, 1);
    for (uint64_t leaf = 2; leaf < 2000; leaf++) {
        unsigned bits = 1 + (unsigned)(run_random(&random) % 11);
        size_t first = (size_t)(run_random(&random) % ((uint64_t)1 << bits)) << (BITS - bits);
        size_t last = first;

        if (leaf % 100 == 0)
            first = last = first | 1;           /* a deep one */
        while (last + 1 < PARTS && leaf_of[last + 1] == leaf_of[first])
            last++;
        enter(first, last, leaf);
        for (int i = 0; i < 50; i++)
            check_hash(run_random(&random));
        check_hash((uint64_t)first << (64 - BITS));
        check_hash(((uint64_t)last << (64 - BITS)) + 1);
    }
    cr_assert_gt(segments, 4);
    cr_assert_gt(root.root.bits, 2);
    for (unsigned i = 1; i <= segments; i++)
        free(segment_of[i]);
    free(leaf_of);
}

/* ---- what is none ---- */

static unsigned use(struct loci_segment *s, uint64_t *random)
{
    uint64_t hash = run_random(random);
    struct loci_range r = { .first = hash, .last = hash + run_random(random) % 1000,
                            .bits = (unsigned)(run_random(random) % 66) };
    unsigned sum = loci_segment_has(s, hash) + (unsigned)s->leaf[loci_segment_slot(s, hash)];

    r.last = r.last < r.first ? UINT64_MAX : r.last;
    sum += loci_segment_lacks(s, &r, 5) + loci_segment_set(s, &r, 5);
    memcpy(&one, s, loci_segment_bytes(s));
    loci_segment_grow(&one.segment, &r);
    if (loci_segment_is_full(&one.segment, &r)) {
        loci_segment_divide(&one.segment, &two.segment);
        loci_root_enter(&root.root, &two.segment, 9);
    }
    return sum;
}

static size_t some_segment(uint64_t *random)
{
    loci_segment_make(&one.segment, ID, 3);
    one.segment.bits = (uint16_t)(run_random(random) % 10);
    one.segment.skip = (uint16_t)(run_random(random) % (LOCI_ROOT_BITS_MAX + 1));
    one.segment.prefix = one.segment.skip == 0 ? 0
                         : run_random(random) >> (64 - one.segment.skip)
                           << (64 - one.segment.skip);
    return loci_segment_bytes(&one.segment);
}

/* A segment in which some bytes are others, in memory of exactly its size; a root as well. */
Test(hash_directory, random_bytes_are_no_segment, .timeout = 6000)
{
    uint64_t random = 3;
    unsigned sum = 0;
    int whole = 0;

    for (int round = 0; round < run_fuzz_rounds(20000); round++) {
        size_t len = some_segment(&random);
        unsigned char *bytes = malloc(len);

        cr_assert_not_null(bytes);
        memcpy(bytes, &one, len);
        for (unsigned i = (unsigned)(run_random(&random) % 3); i > 0; i--)
            bytes[8 + run_random(&random) % 16] = (unsigned char)(run_random(&random) % 16);
        loci_root_make(&root.root, ID, (uint64_t[]){ 1, 2 }, 1, 2);
        if (loci_segment_is((struct loci_segment *)(void *)bytes, len, ID)) {
            whole++;
            sum += use((struct loci_segment *)(void *)bytes, &random);
        }
        root.bytes[40 + run_random(&random) % 8] = (unsigned char)run_random(&random);
        len = sizeof root.root + run_random(&random) % 4096;
        if (loci_root_is(&root.root, len))
            cr_assert(root.root.bits <= LOCI_ROOT_BITS_MAX && loci_root_bytes(&root.root) == len);
        free(bytes);
    }
    cr_assert_gt(whole, 10, "%u", sum);
}

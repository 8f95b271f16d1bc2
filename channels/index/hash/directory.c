/* SPDX-License-Identifier: BSD-3-Clause */

/* See directory.h. */

#include "config.h"

#include "directory.h"

bool loci_root_is(const struct loci_hash_root *root, size_t len)
{
    return len >= sizeof *root && root->magic == LOCI_ROOT_MAGIC
           && root->bits <= LOCI_ROOT_BITS_MAX && len == loci_root_bytes(root);
}

bool loci_segment_is(const struct loci_segment *segment, size_t len, uint64_t id)
{
    return len >= sizeof *segment && segment->magic == LOCI_SEGMENT_MAGIC && segment->id == id
           && segment->skip <= LOCI_ROOT_BITS_MAX && segment->bits <= LOCI_SEGMENT_BITS_MAX
           && len == loci_segment_bytes(segment)
           && segment->prefix << segment->skip == 0;
}

/* ---- leaves ---- */

uint64_t loci_hash_number(loco_bytes_t key)
{
    const unsigned char *bytes = key.data;
    uint64_t number = 0;

    for (size_t i = 0; i < 8; i++)
        number = number << 8 | (i < key.len ? bytes[i] : 0);
    return number;
}

/* The bits of a number before the zeros at its end. */
static unsigned bits_of(uint64_t number)
{
    return number == 0 ? 0 : 64 - (unsigned)__builtin_ctzll(number);
}

/* A fence in the middle of a hash: the least key of that one lies left of it. */
struct loci_range loci_range_of(const struct loci_node *leaf)
{
    loco_bytes_t low = loci_node_low(leaf);
    struct loci_range r = { .first = loci_hash_number(low), .last = UINT64_MAX };

    r.bits = low.len > 8 ? 65 : bits_of(r.first);
    r.none = low.len > 8 && r.first == UINT64_MAX;
    if (low.len > 8)
        r.first++;
    if (loci_node_has_high(leaf)) {
        loco_bytes_t high = loci_node_high(leaf);

        r.last = loci_hash_number(high);
        r.none = r.none || (high.len <= 8 && r.last == 0);
        if (high.len <= 8)
            r.last--;
    }
    r.none = r.none || r.first > r.last;
    return r;
}

/* ---- slots ---- */

static uint64_t last_hash(const struct loci_segment *s)
{
    return s->skip == 0 ? UINT64_MAX : s->prefix | UINT64_MAX >> s->skip;
}

/* The slots that begin in that range, from *from to below the result. */
static size_t slots_of(const struct loci_segment *s, const struct loci_range *range, size_t *from)
{
    uint64_t first = range->first > s->prefix ? range->first : s->prefix;
    uint64_t last = range->last < last_hash(s) ? range->last : last_hash(s);

    *from = 0;
    if (range->none || first > last)
        return 0;
    *from = loci_segment_slot(s, first);
    if (bits_of(first) > loci_segment_depth(s))
        ++*from;
    return loci_segment_slot(s, last) + 1;
}

/* Whether the range begins within a slot, and need not. */
static bool wants_slots(const struct loci_segment *s, const struct loci_range *range)
{
    return !range->none && loci_segment_has(s, range->first)
           && range->bits > loci_segment_depth(s) && range->bits <= LOCI_DIRECTORY_BITS_MAX;
}

bool loci_segment_lacks(const struct loci_segment *s, const struct loci_range *range,
                        uint64_t leaf)
{
    size_t i, end = slots_of(s, range, &i);

    for (; i < end; i++)
        if (s->leaf[i] != leaf)
            return true;
    return wants_slots(s, range);
}

bool loci_segment_set(struct loci_segment *s, const struct loci_range *range, uint64_t leaf)
{
    size_t i, end = slots_of(s, range, &i);
    bool changed = false;

    for (; i < end; i++) {
        changed = changed || s->leaf[i] != leaf;
        s->leaf[i] = leaf;
    }
    return changed;
}

/* ---- growing ---- */

void loci_root_make(struct loci_hash_root *root, uint64_t id, const uint64_t seed[2],
                    uint64_t first, uint64_t segment)
{
    *root = (struct loci_hash_root){ .id = id, .seed = { seed[0], seed[1] }, .first = first,
                                     .magic = LOCI_ROOT_MAGIC };
    root->segment[0] = segment;
}

void loci_segment_make(struct loci_segment *segment, uint64_t id, uint64_t leaf)
{
    *segment = (struct loci_segment){ .id = id, .magic = LOCI_SEGMENT_MAGIC };
    segment->leaf[0] = leaf;
}

/* Each entry twice. */
static void double_all(uint64_t *entry, size_t n)
{
    for (size_t i = n; i-- > 0;)
        entry[2 * i] = entry[2 * i + 1] = entry[i];
}

void loci_segment_grow(struct loci_segment *s, const struct loci_range *range)
{
    unsigned most = s->skip < LOCI_ROOT_BITS_MAX ? LOCI_SEGMENT_BITS : LOCI_SEGMENT_BITS_MAX;

    for (; wants_slots(s, range) && s->bits < most; s->bits++)
        double_all(s->leaf, (size_t)1 << s->bits);
}

bool loci_segment_is_full(const struct loci_segment *s, const struct loci_range *range)
{
    return wants_slots(s, range) && s->skip < LOCI_ROOT_BITS_MAX && s->bits >= LOCI_SEGMENT_BITS;
}

void loci_segment_divide(struct loci_segment *s, struct loci_segment *upper)
{
    size_t half = (size_t)1 << (s->bits - 1);

    s->bits--;
    s->skip++;
    *upper = *s;
    upper->prefix |= UINT64_C(1) << (64 - s->skip);
    memcpy(upper->leaf, s->leaf + half, half * sizeof s->leaf[0]);
}

void loci_root_enter(struct loci_hash_root *root, const struct loci_segment *segment,
                     uint64_t object)
{
    size_t first, n;

    for (; root->bits < segment->skip; root->bits++)
        double_all(root->segment, (size_t)1 << root->bits);
    first = loci_first_bits(segment->prefix, root->bits);
    n = (size_t)1 << (root->bits - segment->skip);
    for (size_t i = first; i < first + n; i++)
        root->segment[i] = object;
}

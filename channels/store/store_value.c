/* SPDX-License-Identifier: BSD-3-Clause */

/* Values in blocks. A block is written whole, before any cell names it, and not touched while one
 * does; then by whoever has it, at any time. So a reader may be overtaken: he takes what he has
 * read only if the block says before and after that it is that version of that object. The one who
 * writes says what it will be before he touches the rest. (A stamp alone would not do: he who reads
 * it as it is already, and the rest as it still was, finds it unchanged at the end.) Where a
 * network may write to blocks, in any order, there is a sum over all of it instead.
 *
 * A block of this version of this object that the cell named is that value, whenever it is read. */

#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/sum.h"
#include "store_value.h"

#define ASKED_MOST 1024u        /* bytes of a value that may be longer than it turns out to be */

/* ---- classes ---- */

/* Units; the last has room for the longest value. */
static const uint16_t class_units[LOCI_STORE_CLASSES] = {
    1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1025
};
_Static_assert(1025 * LOCI_STORE_UNIT >= LOCI_IMAGE_MAX, "the longest value has a class");

size_t loci_class_bytes(int class)
{
    return (size_t)class_units[class] * LOCI_STORE_UNIT;
}

int loci_class_for(size_t len)
{
    size_t units = (loci_image_len(len) + LOCI_STORE_UNIT - 1) / LOCI_STORE_UNIT;
    int class = 0;

    while (class_units[class] < units)
        class++;
    return class;
}

/* ---- images ---- */

static uint64_t word_of(const struct loci_block_header *image, size_t i)
{
    uint64_t word;

    memcpy(&word, (const unsigned char *)image + 8 * i, sizeof word);
    return word;
}

static uint64_t sum_of(const struct loci_block_header *image, size_t len)
{
    size_t words = loci_image_len(len) / 8, header = LOCI_STORE_HEADER / 8;
    struct loci_sum sum;

    loci_sum_begin(&sum, image->stamp);
    loci_sum_add(&sum, 0, image->object);
    loci_sum_add(&sum, 1, image->what);
    for (size_t i = header; i < words; i++)
        loci_sum_add(&sum, i, word_of(image, i));
    return loci_sum_end(&sum);
}

void loci_image_seal(const struct loco_store *s, struct loci_block_header *image, uint64_t stamp,
                     loco_object_t object, uint64_t word, size_t len)
{
    image->stamp = stamp;
    image->object = object;
    image->what = loci_cell_version(word) << 32 | len;
    image->sum = s->sums ? sum_of(image, len) : 0;
}

int loci_image_write(struct loco_store *s, const struct loci_block_header *image,
                     loco_object_t object, uint64_t word, loco_ack_t *ack)
{
    struct loci_mem *mem = loci_store_mem(s, loci_object_host(object), LOCI_STORE_BLOCKS);
    uint64_t at = loci_block_at(loci_cell_block(word));
    size_t len = loci_image_len(image->what & UINT32_MAX);
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_post_write(s->rt, mem, at, image, len, ack);
    LOCI_COUNT_MEM(s->rt, writes, mem);
    loci_store64(p + at, image->stamp);
    loci_store64(p + at + offsetof(struct loci_block_header, object), image->object);
    loci_store64(p + at + offsetof(struct loci_block_header, what), image->what);
    /* These before the rest: pairs with the fence in loci_copy_out_raced(). */
    atomic_thread_fence(memory_order_release);
    loci_copy_in_raced(p + at + offsetof(struct loci_block_header, sum), &image->sum,
                       len - offsetof(struct loci_block_header, sum));
    return LOCO_OK;
}

int loci_image_read(struct loco_store *s, loco_object_t object, uint64_t word, size_t len,
                    struct loci_block_header *image, loco_ack_t *ack)
{
    struct loci_mem *mem = loci_store_mem(s, loci_object_host(object), LOCI_STORE_BLOCKS);
    uint64_t at = loci_block_at(loci_cell_block(word)), most = mem->key.len - at;
    size_t bytes = loci_image_len(len);
    unsigned char *p = loci_mem_ptr(mem);

    bytes = bytes < most ? bytes : most;
    if (p == NULL)
        return loci_post_read(s->rt, mem, at, image, bytes, ack);
    LOCI_COUNT_MEM(s->rt, reads, mem);
    loci_copy_out_raced(image, p + at, bytes);
    return LOCO_OK;
}

int loci_image_check(const struct loco_store *s, loco_object_t object, uint64_t word,
                     const struct loci_block_header *image, size_t read, size_t *len)
{
    size_t says = image->what & UINT32_MAX;

    if (image->object != object || image->what >> 32 != loci_cell_version(word)
        || says > LOCO_STORE_VALUE_MAX || !loci_block_is(s, word, loci_image_len(says)))
        return LOCO_ERR_AGAIN;
    *len = says;
    if (loci_image_len(says) > loci_image_len(read))
        return LOCO_IN_PROGRESS;
    return image->sum == sum_of(image, says) ? LOCO_OK : LOCO_ERR_AGAIN;
}

static bool is_still(const unsigned char *p, loco_object_t object, uint64_t what)
{
    return loci_load64(p + offsetof(struct loci_block_header, object)) == object
           && loci_load64(p + offsetof(struct loci_block_header, what)) == what;
}

bool loci_block_glance(const struct loco_store *s, const unsigned char *blocks,
                       loco_object_t object, uint64_t word, struct loci_glance *g)
{
    const unsigned char *p = blocks + loci_block_at(loci_cell_block(word));
    uint64_t what;
    size_t n;

    what = loci_load64(p + offsetof(struct loci_block_header, what));
    n = what & UINT32_MAX;
    if (!is_still(p, object, what) || what >> 32 != loci_cell_version(word)
        || n > LOCO_STORE_VALUE_MAX || !loci_block_is(s, word, loci_image_len(n)))
        return false;
    *g = (struct loci_glance){ p, p + LOCI_STORE_HEADER, n, object, what };
    return true;
}

bool loci_glance_holds(const struct loci_glance *g)
{
    loci_looked();
    return is_still(g->block, g->object, g->what);
}

int loci_block_copy(const struct loco_store *s, const unsigned char *blocks, loco_object_t object,
                    uint64_t word, void *value, size_t room, size_t *len)
{
    struct loci_glance g;

    loci_block_expect(blocks, loci_cell_block(word), room < ASKED_MOST ? room : ASKED_MOST);
    if (!loci_block_glance(s, blocks, object, word, &g))
        return LOCO_ERR_AGAIN;
    *len = g.len;
    loci_copy_out_raced(value, g.value, g.len < room ? g.len : room);
    return loci_glance_holds(&g) ? LOCO_OK : LOCO_ERR_AGAIN;
}

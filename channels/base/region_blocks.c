/* SPDX-License-Identifier: BSD-3-Clause */

/* Blocks at regular distances, between this process's memory and a part of a region.
 *
 * Memory that is mapped is copied here and now. Elsewhere each block is an operation of a chain,
 * with two exceptions. What is contiguous on both sides is one operation. And short blocks go by
 * way of a buffer, many to an operation, where the call waits anyhow: what is written if it is
 * contiguous there, what is read with the gaps between. Gaps are never written: others may be
 * writing there. */

#include "config.h"

#include <loco/region.h>

#include "move/rma.h"
#include "move/strip.h"
#include "region.h"

#define CHAIN 32                        /* operations that are posted together */
#define BUFFER ((size_t)8192)           /* bytes */
/* Bytes of a block, and of a gap, at most, for the buffer: what a network moves in the time that an
 * operation more takes. */
#define SHORT ((size_t)512)

struct move {
    struct loco_runtime *rt;
    struct loci_mem *mem;
    enum loci_op_kind kind;
    uint64_t offset;                    /* of the next block */
    unsigned char *local;
    loco_blocks_t left;
};

/* The same blocks from the last to the first. */
static void turn(struct move *m)
{
    int64_t last = (int64_t)m->left.count - 1;

    m->offset += (uint64_t)(last * m->left.stride);
    m->local += last * m->left.local_stride;
    m->left.stride = -m->left.stride;
    m->left.local_stride = -m->left.local_stride;
}

static void step(struct move *m, size_t blocks)
{
    m->offset += (uint64_t)((int64_t)blocks * m->left.stride);
    m->local += (int64_t)blocks * m->left.local_stride;
    m->left.count -= blocks;
}

/* ---- mapped ---- */

/* Between n blocks from p on, `stride` apart, and this process's. */
static void copy(const struct move *m, unsigned char *p, int64_t stride, size_t n)
{
    const loco_blocks_t *b = &m->left;
    const struct loci_strip strip = { .len = b->len, .stride = stride, .blocks = n };
    unsigned char *local = m->local;

    if (b->local_stride == (int64_t)b->len) {
        loci_strip_copy(&strip, p, local, m->kind == LOCI_WRITE);
        return;
    }
    for (size_t i = 0; i < n; i++, p += stride, local += b->local_stride) {
        if (m->kind == LOCI_WRITE)
            loci_copy_in(p, local, b->len);
        else
            loci_copy_out(local, p, b->len);
    }
}

static int move_mapped(struct move *m, unsigned char *p)
{
    if (m->kind == LOCI_WRITE)
        LOCI_COUNT_MEM(m->rt, writes, m->mem);
    else
        LOCI_COUNT_MEM(m->rt, reads, m->mem);
    copy(m, p + m->offset, m->left.stride, m->left.count);
    return LOCO_OK;
}

/* ---- by way of a buffer ---- */

static bool suits_buffer(const struct move *m)
{
    const loco_blocks_t *b = &m->left;
    uint64_t gap = (uint64_t)b->stride - b->len;

    if (b->count == 1 || b->len > SHORT || b->stride < (int64_t)b->len)
        return false;
    return m->kind == LOCI_WRITE ? gap == 0 : gap <= SHORT;
}

static void copy_plain(unsigned char *to, int64_t to_stride, const unsigned char *from,
                       int64_t from_stride, size_t len, size_t n)
{
    for (size_t i = 0; i < n; i++, to += to_stride, from += from_stride)
        memcpy(to, from, len);
}

static int move_buffered(struct move *m)
{
    const loco_blocks_t *b = &m->left;
    size_t most = (BUFFER - b->len) / (size_t)b->stride + 1;
    unsigned char buffer[BUFFER];
    int status = LOCO_OK;

    while (status == LOCO_OK && b->count > 0) {
        size_t n = b->count < most ? b->count : most;
        size_t len = (n - 1) * (size_t)b->stride + b->len;

        if (m->kind == LOCI_WRITE) {
            copy_plain(buffer, b->stride, m->local, b->local_stride, b->len, n);
            status = loci_write(m->rt, m->mem, m->offset, buffer, len, NULL);
        } else {
            status = loci_read(m->rt, m->mem, m->offset, buffer, len, NULL);
            if (status == LOCO_OK)
                copy_plain(m->local, b->local_stride, buffer, b->stride, b->len, n);
        }
        step(m, n);
    }
    return status;
}

/* ---- chains ---- */

static int post_some(struct move *m, loco_ack_t *ack)
{
    struct loci_op op[CHAIN];
    int n = m->left.count < CHAIN ? (int)m->left.count : CHAIN;

    for (int i = 0; i < n; i++) {
        op[i] = (struct loci_op){
            .kind = m->kind, .mem = m->mem, .offset = m->offset, .local = m->local,
            .len = m->left.len,
        };
        step(m, 1);
    }
    return loci_post_spans(m->rt, op, n, ack);
}

static int move_in_chains(struct move *m, loco_ack_t *ack)
{
    loco_ack_t own = LOCO_ACK_INIT;
    int status = LOCO_OK, done;

    while (status == LOCO_OK && m->left.count > 0)
        status = post_some(m, ack != NULL ? ack : &own);
    done = ack == NULL ? loco_ack_wait(m->rt, &own) : LOCO_OK;
    return status == LOCO_OK ? done : status;
}

/* ---- calls ---- */

static int move_far(struct move *m, loco_ack_t *ack)
{
    const loco_blocks_t *b = &m->left;

    if (!loci_peer_alive(m->rt, m->mem->peer))
        return LOCO_ERR_PEER_DEAD;
    if (b->stride < 0)
        turn(m);
    if (b->count == 1 || (b->stride == (int64_t)b->len && b->local_stride == b->stride)) {
        size_t len = b->count * b->len;

        return m->kind == LOCI_WRITE ? loci_write(m->rt, m->mem, m->offset, m->local, len, ack)
                                     : loci_read(m->rt, m->mem, m->offset, m->local, len, ack);
    }
    return ack == NULL && suits_buffer(m) ? move_buffered(m) : move_in_chains(m, ack);
}

static int move_blocks(loco_region_t *region, int rank, enum loci_op_kind kind, uint64_t offset,
                       void *local, const loco_blocks_t *blocks, loco_ack_t *ack)
{
    const struct loci_strip strip = { offset, blocks->len, blocks->stride, blocks->count };
    bool some = blocks->count > 0 && blocks->len > 0;
    uint64_t low = offset, high = offset;
    struct move m = {
        .rt = loci_region_runtime(region), .kind = kind, .offset = offset, .local = local,
        .left = *blocks,
    };
    unsigned char *p;
    int status;

    if (some && !loci_strip_extent(&strip, &low, &high))
        return LOCO_ERR_RANGE;
    status = loci_region_check(region, rank, low, high - low);
    if (status != LOCO_OK || !some)
        return status;
    m.mem = loci_region_mem(region, rank);
    if (m.mem->key.kind == LOCI_MEM_NONE)
        return loci_not_ready(m.rt);
    p = loci_mem_ptr(m.mem);
    if (p == NULL)
        p = loci_mem_map(m.rt, m.mem);
    return p != NULL ? move_mapped(&m, p) : move_far(&m, ack);
}

int loco_region_write_blocks_ack(loco_region_t *region, int rank, uint64_t offset,
                                 const void *source, const loco_blocks_t *blocks,
                                 loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(loci_region_calls(region), LOCI_CALL_WRITE,
                                               blocks->count * blocks->len);

    return loci_call_end(self, move_blocks(region, rank, LOCI_WRITE, offset, (void *)source,
                                           blocks, ack));
}

int loco_region_read_blocks_ack(loco_region_t *region, int rank, uint64_t offset, void *result,
                                const loco_blocks_t *blocks, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(loci_region_calls(region), LOCI_CALL_READ,
                                               blocks->count * blocks->len);

    return loci_call_end(self, move_blocks(region, rank, LOCI_READ, offset, result, blocks, ack));
}

int loco_region_write_blocks(loco_region_t *region, int rank, uint64_t offset, const void *source,
                             const loco_blocks_t *blocks)
{
    return loco_region_write_blocks_ack(region, rank, offset, source, blocks, NULL);
}

int loco_region_read_blocks(loco_region_t *region, int rank, uint64_t offset, void *result,
                            const loco_blocks_t *blocks)
{
    return loco_region_read_blocks_ack(region, rank, offset, result, blocks, NULL);
}

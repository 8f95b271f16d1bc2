/* SPDX-License-Identifier: BSD-3-Clause */

/* Short-lived buffers of network memory, from a pool of blocks per thread (LOCO paper, appendix
 * A.2). Blocks are carved from slabs that stay until the runtime closes; a block goes back to the
 * pool of the thread that returns it. */

#include "config.h"

#include <stdlib.h>

#include "memory.h"

#define BLOCK ((size_t)4096)
#define SLAB_BLOCKS 16

struct loci_block {
    struct loci_mem mem;
    struct loci_block *next;
};

static int add_slab(struct loco_runtime *rt, struct loci_thread *self)
{
    struct loci_mem slab;
    int status = loci_alloc(rt, SLAB_BLOCKS * BLOCK, BLOCK, &slab);

    for (size_t i = 0; status == LOCO_OK && i < SLAB_BLOCKS; i++) {
        struct loci_block *block = malloc(sizeof *block);

        if (block == NULL && i > 0)
            return LOCO_OK;
        if (block == NULL) {
            loci_free(rt, &slab);
            return LOCO_ERR_NO_MEMORY;
        }
        block->mem.peer = LOCI_SELF;
        loci_mem_set_domain(&block->mem, LOCI_DOMAIN_NONE);
        block->mem.key = slab.key;
        block->mem.key.base += i * BLOCK;
        block->mem.key.len = BLOCK;
        atomic_init(&block->mem.ptr, atomic_load(&slab.ptr) + i * BLOCK);
        block->next = self->blocks;
        self->blocks = block;
    }
    return status;
}

int loci_memref_get(struct loco_runtime *rt, size_t len, struct loco_memref *ref)
{
    struct loci_thread *self = loci_self(rt);
    struct loci_block *block;
    int status = LOCO_OK;

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    ref->len = len;
    ref->block = NULL;
    if (len > BLOCK)
        return loci_alloc(rt, len, 0, &ref->mem);
    if (self->blocks == NULL)
        status = add_slab(rt, self);
    if (status != LOCO_OK)
        return status;
    block = self->blocks;
    self->blocks = block->next;
    ref->block = block;
    ref->mem.peer = block->mem.peer;
    loci_mem_set_domain(&ref->mem, LOCI_DOMAIN_NONE);
    ref->mem.key = block->mem.key;
    atomic_init(&ref->mem.ptr, atomic_load_explicit(&block->mem.ptr, memory_order_relaxed));
    return LOCO_OK;
}

void loci_memref_put(struct loco_runtime *rt, struct loco_memref *ref)
{
    struct loci_thread *self;

    if (ref->block == NULL) {
        loci_free(rt, &ref->mem);
        return;
    }
    self = loci_self(rt);
    if (self == NULL)
        return;         /* memory is exhausted: the block is lost, nothing else */
    ref->block->next = self->blocks;
    self->blocks = ref->block;
}

void loci_memref_close(struct loci_thread *thread)
{
    while (thread->blocks != NULL) {
        struct loci_block *block = thread->blocks;

        thread->blocks = block->next;
        free(block);
    }
}

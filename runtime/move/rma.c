/* SPDX-License-Identifier: BSD-3-Clause */

/* The slow paths of rma.h: memory that is not mapped yet, or that cannot be; and long copies. */

#include "config.h"

#include <string.h>

#include "observe/observe.h"
#include "rma.h"

/* AMD's family 19h (Zen 4) copies by string instructions, as C libraries do what is shorter, slower
 * by 4 % than by their loops where the two ends lie differently in their cache lines. */
#ifdef __x86_64__
#define IS_SLOW_BY_STRINGS(to, from) \
    (((uintptr_t)(to) - (uintptr_t)(from)) % 64 != 0 && __builtin_cpu_is("amdfam19h"))
#else
#define IS_SLOW_BY_STRINGS(to, from) false
#endif
#define LOOPS_MOST ((size_t)4 * 1024 * 1024)    /* beyond, memory decides */

void loci_copy_pieces(void *to, const void *from, size_t len)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    if (len <= LOOPS_MOST && IS_SLOW_BY_STRINGS(to, from)) {
        memcpy(to, from, len);
        return;
    }
    for (; len > LOCI_COPY_PIECE; len -= LOCI_COPY_PIECE) {
        memcpy(t, f, LOCI_COPY_PIECE);
        t += LOCI_COPY_PIECE;
        f += LOCI_COPY_PIECE;
    }
    memcpy(t, f, len);
}

static void count(struct loco_runtime *rt, const struct loci_op *op)
{
    int kind = op->kind == LOCI_WRITE ? LOCI_STATS_WRITES
               : op->kind == LOCI_READ ? LOCI_STATS_READS : LOCI_STATS_ATOMICS;

    loci_stat(rt, LOCI_STAT_POSTED + kind, 1);
    loci_stat(rt, LOCI_STAT_POSTED_BYTES + kind, op->len);
    switch (op->kind) {
    case LOCI_WRITE: LOCI_COUNT_MEM(rt, writes, op->mem); break;
    case LOCI_READ: LOCI_COUNT_MEM(rt, reads, op->mem); break;
    default: LOCI_COUNT_MEM(rt, atomics, op->mem); break;
    }
}

int loci_not_ready(struct loco_runtime *rt)
{
    LOCI_LOG(rt, LOCO_LOG_ERROR, "a channel is used before all its members have it: "
             "loco_runtime_wait_ready comes first");
    return LOCO_ERR_STATE;
}

/* Post on this thread's lane to the owner; with `ack` NULL, wait. */
static int post(struct loco_runtime *rt, struct loci_op *op, loco_ack_t *ack)
{
    struct loci_thread *self = loci_self(rt);
    loco_ack_t own = LOCO_ACK_INIT;
    struct loci_lane *lane;
    int status = LOCO_ERR_NO_MEMORY;

    if (op->mem->key.kind == LOCI_MEM_NONE && op->len > 0)
        return loci_not_ready(rt);
    if (self == NULL)
        return status;
    if (!loci_peer_alive(rt, op->mem->peer))
        return LOCO_ERR_PEER_DEAD;
    lane = loci_lane(self, op->mem->peer, &status);
    if (lane == NULL)
        return status;
    count(rt, op);
    if (rt->ops->synchronous || lane->synchronous) {
        int posted;

        return rt->ops->post(rt->fabric, lane, op, 1, &posted);
    }
    status = op->kind == LOCI_WRITE ? loci_lane_write(lane, op) : LOCO_ERR_AGAIN;
    if (status == LOCO_ERR_AGAIN)
        status = loci_lane_post(lane, op, &own);
    if (status != LOCO_IN_PROGRESS)
        return status;
    if (ack == NULL)
        return loco_ack_wait(rt, &own);
    loco_ack_join(ack, &own);
    return LOCO_OK;
}

/* Memory of the same node is mapped on first use; from then on the inline path takes it. */
static bool now_mapped(struct loco_runtime *rt, struct loci_mem *mem)
{
    return loci_mem_ptr(mem) != NULL || loci_mem_map(rt, mem) != NULL;
}

/* The same for atomics. In the nic domain even what is mapped is not for the CPU. */
static bool now_a_word(struct loco_runtime *rt, struct loci_mem *mem)
{
    return loci_domain_is_cpus(mem->domain) && loci_mem_map(rt, mem) != NULL;
}

/* Nobody said whose atomics these words take: whichever it were, some member would do the other. */
static int post_atomic(struct loco_runtime *rt, struct loci_op *op, loco_ack_t *ack)
{
    if (op->mem->key.kind == LOCI_MEM_NONE)
        return loci_not_ready(rt);
    LOCO_ASSERT(op->mem->domain != LOCI_DOMAIN_NONE);
    return op->mem->domain == LOCI_DOMAIN_NONE ? LOCO_ERR_STATE : post(rt, op, ack);
}

int loci_post_write(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                    const void *source, size_t len, loco_ack_t *ack)
{
    struct loci_op op = {
        .kind = LOCI_WRITE, .mem = mem, .offset = offset, .local = (void *)source, .len = len,
    };

    if (now_mapped(rt, mem))
        return loci_write(rt, mem, offset, source, len, ack);
    return post(rt, &op, ack);
}

int loci_post_write64(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                      uint64_t value, loco_ack_t *ack)
{
    if (now_mapped(rt, mem))
        return loci_write64(rt, mem, offset, value, ack);
    /* The source is a variable of this call, so it must be reusable when the call returns:
     * inline where the fabric can, else through a memref that lives until then. Fabrics take a
     * word by value (they copy it when posted). */
    return post(rt, &(struct loci_op){ .kind = LOCI_WRITE, .mem = mem, .offset = offset,
                                       .local = &value, .len = sizeof value,
                                       .by_value = true }, ack);
}

int loci_post_read(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, void *result,
                   size_t len, loco_ack_t *ack)
{
    struct loci_op op = {
        .kind = LOCI_READ, .mem = mem, .offset = offset, .local = result, .len = len,
    };

    if (now_mapped(rt, mem)) {
        const unsigned char *from = loci_mem_ptr(mem) + offset;

        if (len != sizeof(uint64_t) || (uintptr_t)from % sizeof(uint64_t) != 0)
            return loci_read(rt, mem, offset, result, len, ack);
        /* The first loci_read64 of this memory came here: a word, never torn. */
        LOCI_COUNT_MEM(rt, reads, mem);
        memcpy(result, &(uint64_t){ loci_load64(from) }, sizeof(uint64_t));
        return LOCO_OK;
    }
    return post(rt, &op, ack);
}

static int post_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t add,
                    uint64_t *old, bool unwanted, loco_ack_t *ack)
{
    struct loci_op op = {
        .kind = LOCI_FETCH_ADD, .mem = mem, .offset = offset, .len = 8, .operand = add,
        .result = old, .unwanted = unwanted,
    };

    if (now_a_word(rt, mem))
        return loci_fetch_add(rt, mem, offset, add, old, ack);
    return post_atomic(rt, &op, ack);
}

int loci_post_fetch_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                        uint64_t add, uint64_t *old, loco_ack_t *ack)
{
    return post_add(rt, mem, offset, add, old, false, ack);
}

int loci_post_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t add,
                  uint64_t *room, loco_ack_t *ack)
{
    return post_add(rt, mem, offset, add, room, true, ack);
}

int loci_add_again(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t add,
                   uint64_t *old, int status, int *lost)
{
    /* Of nothing behind a refusal anything is done; of other failures that is not known. */
    if (status != LOCO_ERR_RANGE)
        return status;
    *lost = status;
    loci_fence_peer(rt, LOCO_FENCE_THREAD, mem->peer);
    return loci_fetch_add(rt, mem, offset, add, old, NULL);
}

int loci_post_compare_swap(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                           uint64_t expected, uint64_t desired, uint64_t *old, loco_ack_t *ack)
{
    struct loci_op op = {
        .kind = LOCI_COMPARE_SWAP, .mem = mem, .offset = offset, .len = 8, .operand = desired,
        .compare = expected, .result = old,
    };

    if (now_a_word(rt, mem))
        return loci_compare_swap(rt, mem, offset, expected, desired, old, ack);
    return post_atomic(rt, &op, ack);
}

int loci_post_swap_unwaited(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                            uint64_t expected, uint64_t desired, loco_ack_t *ack)
{
    struct loci_thread *self = loci_self(rt);
    struct loci_op op = {
        .kind = LOCI_COMPARE_SWAP, .mem = mem, .offset = offset, .len = 8, .operand = desired,
        .compare = expected, .awaited = true,
    };

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    op.result = &self->nowhere;
    return post_atomic(rt, &op, ack);
}

int loci_merge(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint32_t how,
               const void *operands, size_t n, loco_ack_t *ack)
{
    LOCO_ASSERT(loci_mem_is_posted_to(mem) && n <= LOCI_MERGE_WORDS);
    return post_atomic(rt, &(struct loci_op){ .kind = LOCI_WRITE, .mem = mem, .offset = offset,
                                              .local = (void *)operands, .len = 8 * n,
                                              .by_value = true, .merge = how }, ack);
}

bool loci_merges(struct loco_runtime *rt, const struct loci_mem *mem)
{
    struct loci_thread *self = rt->ops->merges ? loci_self(rt) : NULL;
    const struct loci_lane *lane;
    int status;

    if (self == NULL || mem->domain != LOCI_DOMAIN_OWNER || loci_mem_word(mem) != NULL)
        return false;
    lane = loci_lane(self, mem->peer, &status);
    return lane != NULL && loci_lane_way(lane)->ops->merges && !lane->synchronous;
}

/* Chains. Without an ack the caller's memory is its own again even where not all was posted. */
static int post_chain(struct loco_runtime *rt, struct loci_lane *lane, struct loci_op *ops, int n,
                      loco_ack_t *ack)
{
    loco_ack_t own = LOCO_ACK_INIT;
    int status = loci_lane_post_chain(lane, ops, n, ack != NULL ? ack : &own), done;

    if (ack != NULL)
        return status;
    done = loco_ack_wait(rt, &own);
    return status == LOCO_OK ? done : status;
}

int loci_post_spans(struct loco_runtime *rt, struct loci_op *ops, int n, loco_ack_t *ack)
{
    struct loci_thread *self = loci_self(rt);
    struct loci_lane *lane;
    int status = LOCO_ERR_NO_MEMORY, posted = 0;

    if (self == NULL || n == 0)
        return n == 0 ? LOCO_OK : status;
    lane = loci_lane(self, ops[0].mem->peer, &status);
    if (lane == NULL)
        return status;
    for (int i = 0; i < n; i++)
        count(rt, &ops[i]);
    if (rt->ops->synchronous || lane->synchronous)
        return loci_peer_alive(rt, lane->peer->index)
               ? rt->ops->post(rt->fabric, lane, ops, n, &posted) : LOCO_ERR_PEER_DEAD;
    status = n == 1 && ops->kind == LOCI_WRITE ? loci_lane_write(lane, ops) : LOCO_ERR_AGAIN;
    return status == LOCO_ERR_AGAIN ? post_chain(rt, lane, ops, n, ack) : status;
}

int loci_try_update(struct loco_runtime *rt, const struct loci_op *op)
{
    if (rt->ops->update == NULL || op->mem->key.kind != LOCI_MEM_USER
        || !loci_peer_alive(rt, op->mem->peer))
        return LOCO_ERR_AGAIN;
    return rt->ops->update(rt->fabric, loci_peer(rt, op->mem->peer), op);
}

int loci_try_strided(struct loco_runtime *rt, const struct loci_strided *op)
{
    const struct loci_op whole = { .kind = op->kind, .mem = op->mem, .len = op->bytes };
    int status;

    if (rt->ops->strided == NULL || op->mem->key.kind != LOCI_MEM_USER)
        return LOCO_ERR_AGAIN;
    if (!loci_peer_alive(rt, op->mem->peer))
        return LOCO_ERR_PEER_DEAD;
    status = rt->ops->strided(rt->fabric, loci_peer(rt, op->mem->peer), op);
    if (status == LOCO_OK)
        count(rt, &whole);
    return status;
}

int loci_try_combine(struct loco_runtime *rt, const struct loci_strided *op)
{
    if (rt->ops->combine == NULL || op->mem->key.kind != LOCI_MEM_USER
        || !loci_peer_alive(rt, op->mem->peer))
        return LOCO_ERR_AGAIN;
    return rt->ops->combine(rt->fabric, loci_peer(rt, op->mem->peer), op);
}

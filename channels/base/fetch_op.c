/* SPDX-License-Identifier: BSD-3-Clause */

/* The protocol is told in fetch_op.h. */

#include "config.h"

#include <string.h>

#include "backoff.h"
#include "fetch_op.h"
#include "observe/mistake.h"

bool loci_fetch_op_allowed(enum loco_op op, enum loco_type type_id)
{
    const struct loci_type *type = loci_type(type_id);

    return type != NULL && type->extent == sizeof(uint64_t) && type->plain
           && loci_reduce(op, type_id) != NULL;
}

int loci_no_word_op(const struct loco_runtime *rt, const char *call, const char *name,
                    enum loco_op op, enum loco_type type)
{
    if (loci_reduce(op, type) != NULL)
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "type %d has not 8 bytes without "
                            "padding: LOCO_TYPE_U64, _I64 and _F64 have", (int)type);
    return loci_mistake(rt, LOCO_ERR_ARG, call, name, "operation %d is not defined on type %d: see "
                        "loco_op_allowed", (int)op, (int)type);
}

/* Where the CPU's atomics change this word, mapped now if it was not; else NULL. */
static unsigned char *cpu_word(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset)
{
    unsigned char *p = loci_mem_word(mem);

    if (p == NULL && mem->key.kind != LOCI_MEM_NONE && loci_domain_is_cpus(mem->domain)
        && loci_mem_map(rt, mem) != NULL)
        p = loci_mem_word(mem);
    return p != NULL ? p + offset : NULL;
}

static bool is_integer_sum(enum loco_op op, enum loco_type type)
{
    return op == LOCO_OP_SUM && (type == LOCO_TYPE_I64 || type == LOCO_TYPE_U64);
}

static int swap_until_done(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                           loci_reduce_fn *reduce, const void *operand, uint64_t *old)
{
    uint64_t guess, seen;
    int status = loci_read64(rt, mem, offset, &guess, NULL);
    struct loci_backoff b;

    loci_backoff_begin(&b, rt, mem);
    while (status == LOCO_OK) {
        uint64_t value = guess;

        reduce(&value, operand, 1);
        if (value == guess)
            break;
        status = loci_compare_swap(rt, mem, offset, guess, value, &seen, NULL);
        if (status != LOCO_OK || seen == guess)
            break;
        /* After the pause what was seen is old, too. */
        loci_backoff_pause(&b);
        status = loci_read64(rt, mem, offset, &guess, NULL);
    }
    if (status == LOCO_OK)
        *old = guess;
    return status;
}

int loci_fetch_op(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, enum loco_op op,
                  enum loco_type type, const void *operand, void *old)
{
    unsigned char *p = cpu_word(rt, mem, offset);
    uint64_t word = 0;
    int status = LOCO_OK;

    if (p != NULL) {
        LOCI_COUNT_MEM(rt, atomics, mem);
        loci_atomic_table[type][op](p, operand, &word, 1);
    } else if (is_integer_sum(op, type)) {
        uint64_t add;

        memcpy(&add, operand, sizeof add);
        status = loci_fetch_add(rt, mem, offset, add, &word, NULL);
    } else {
        status = swap_until_done(rt, mem, offset, loci_reduce(op, type), operand, &word);
    }
    if (status == LOCO_OK)
        memcpy(old, &word, sizeof word);
    return status;
}

int loci_exchange(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t value,
                  uint64_t *old)
{
    unsigned char *p = cpu_word(rt, mem, offset);

    if (p == NULL)
        return swap_until_done(rt, mem, offset, loci_reduce(LOCO_OP_REPLACE, LOCO_TYPE_U64),
                               &value, old);
    LOCI_COUNT_MEM(rt, atomics, mem);
    *old = loci_cpu_exchange(p, value);
    return LOCO_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Atomic variables, alone and many. A variable is a word of an endpoint's region; all changes are
 * atomics, stores too unless the CPU's atomics are used: a plain write may fall between the read
 * and the write of a device's atomic and be lost, the host's own as well. */

#include "config.h"

#include <stdlib.h>

#include <loco/atomic_var.h>

#include "fetch_op.h"
#include "move/rma.h"
#include "names/endpoint.h"
#include "observe/mistake.h"

/* One word, wherever it is. */
struct place {
    struct loci_mem *mem;
    uint64_t offset;
};

static int store(struct loco_runtime *rt, struct place at, uint64_t value)
{
    uint64_t old;

    if (loci_mem_word(at.mem) != NULL)
        return loci_write64(rt, at.mem, at.offset, value, NULL);
    return loci_exchange(rt, at.mem, at.offset, value, &old);
}

/* ---- one ---- */

struct loco_atomic_var {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    struct place at;
    _Atomic uint64_t cached;
};

static void destroy_forgotten(void *var)
{
    loco_atomic_var_destroy(var);
}

int loco_atomic_var_create(loco_runtime_t *rt, const char *parent, const char *name,
                           const loco_group_t *group, int host, loco_atomic_var_t **out)
{
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "atomic_var", .property = { { "host", (uint64_t)host } }, .nregions = 1,
        .region = { { "value", sizeof(uint64_t), 0, host } },
    };
    loco_atomic_var_t *var;
    int status;

    status = loci_check_group(rt, "loco_atomic_var_create", name, group);
    if (status == LOCO_OK)
        status = loci_check_rank(rt, "loco_atomic_var_create", name, "host", host, group->size);
    if (status != LOCO_OK)
        return status;
    var = calloc(1, sizeof *var);
    if (var == NULL)
        return LOCO_ERR_NO_MEMORY;
    var->rt = rt;
    status = loci_endpoint_create(rt, &spec, &var->ep);
    if (status != LOCO_OK) {
        free(var);
        return status;
    }
    loci_endpoint_is_of(var->ep, destroy_forgotten, var);
    var->at.mem = loci_endpoint_mem(var->ep, host, 0);
    *out = var;
    return LOCO_OK;
}

void loco_atomic_var_destroy(loco_atomic_var_t *var)
{
    if (var == NULL)
        return;
    loci_endpoint_destroy(var->ep);
    free(var);
}

int loco_atomic_var_load_ack(loco_atomic_var_t *var, uint64_t *value, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(var->ep->calls, LOCI_CALL_LOAD, 8);

    return loci_call_end(self, loci_read64(var->rt, var->at.mem, var->at.offset, value, ack));
}

int loco_atomic_var_load(loco_atomic_var_t *var, uint64_t *value)
{
    return loco_atomic_var_load_ack(var, value, NULL);
}

int loco_atomic_var_store(loco_atomic_var_t *var, uint64_t value)
{
    struct loci_thread *self = loci_call_begin(var->ep->calls, LOCI_CALL_STORE, 8);

    return loci_call_end(self, store(var->rt, var->at, value));
}

int loco_atomic_var_fetch_add_ack(loco_atomic_var_t *var, uint64_t add, uint64_t *old,
                                  loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(var->ep->calls, LOCI_CALL_ATOMIC, 8);

    return loci_call_end(self, loci_fetch_add(var->rt, var->at.mem, var->at.offset, add, old,
                                              ack));
}

int loco_atomic_var_fetch_add(loco_atomic_var_t *var, uint64_t add, uint64_t *old)
{
    uint64_t unused;

    return loco_atomic_var_fetch_add_ack(var, add, old == NULL ? &unused : old, NULL);
}

int loco_atomic_var_exchange(loco_atomic_var_t *var, uint64_t value, uint64_t *old)
{
    uint64_t unused;
    struct loci_thread *self = loci_call_begin(var->ep->calls, LOCI_CALL_ATOMIC, 8);

    return loci_call_end(self, loci_exchange(var->rt, var->at.mem, var->at.offset, value,
                                             old == NULL ? &unused : old));
}

int loco_atomic_var_compare_swap_ack(loco_atomic_var_t *var, uint64_t expected, uint64_t desired,
                                     uint64_t *old, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(var->ep->calls, LOCI_CALL_ATOMIC, 8);

    return loci_call_end(self, loci_compare_swap(var->rt, var->at.mem, var->at.offset, expected,
                                                 desired, old, ack));
}

int loco_atomic_var_compare_swap(loco_atomic_var_t *var, uint64_t expected, uint64_t desired,
                                 uint64_t *old)
{
    uint64_t unused;

    return loco_atomic_var_compare_swap_ack(var, expected, desired, old == NULL ? &unused : old,
                                            NULL);
}

int loco_atomic_var_fetch_op(loco_atomic_var_t *var, enum loco_op op, enum loco_type type,
                             const void *operand, void *old)
{
    uint64_t unused;
    struct loci_thread *self;

    if (!loci_fetch_op_allowed(op, type))
        return loci_no_word_op(var->rt, "loco_atomic_var_fetch_op", var->ep->name, op, type);
    self = loci_call_begin(var->ep->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_fetch_op(var->rt, var->at.mem, var->at.offset, op, type,
                                             operand, old == NULL ? &unused : old));
}

uint64_t loco_atomic_var_cached(loco_atomic_var_t *var)
{
    return atomic_load_explicit(&var->cached, memory_order_acquire);
}

int loco_atomic_var_refresh(loco_atomic_var_t *var)
{
    uint64_t value;
    int status = loco_atomic_var_load(var, &value);

    if (status == LOCO_OK)
        atomic_store_explicit(&var->cached, value, memory_order_release);
    return status;
}

/* ---- many ---- */

struct loco_atomic_array {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    uint64_t count;
    int host;                   /* or LOCO_ATOMIC_STRIPED */
    uint64_t size;              /* of the group */
    int shift;                  /* size is 1 << shift, or -1: divide */
};

static int power_of_two(uint64_t size)
{
    return (size & (size - 1)) == 0 ? __builtin_ctzll(size) : -1;
}

static int check_array(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                       uint64_t count, int host)
{
    const char *call = "loco_atomic_array_create";
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK && (host < LOCO_ATOMIC_STRIPED || host >= group->size))
        status = loci_bad_arg(rt, call, name, "host", host, "0 to %d, or LOCO_ATOMIC_STRIPED",
                              group->size - 1);
    if (status == LOCO_OK && (count < 1 || count > SIZE_MAX / 16))
        status = loci_bad_arg(rt, call, name, "count", (long long)count, "1 to %zu",
                              SIZE_MAX / 16);
    return status;
}

static void destroy_forgotten_array(void *array)
{
    loco_atomic_array_destroy(array);
}

int loco_atomic_array_create(loco_runtime_t *rt, const char *parent, const char *name,
                             const loco_group_t *group, uint64_t count, int host,
                             loco_atomic_array_t **out)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "atomic_array", .nregions = 1,
        .property = { { "count", count }, { "host", (uint64_t)host } },
    };
    loco_atomic_array_t *array;
    uint64_t size;
    int status;

    status = check_array(rt, name, group, count, host);
    if (status != LOCO_OK)
        return status;
    size = (uint64_t)loco_group_size(group);
    spec.region[0] = (struct loci_region_spec){
        "values", (host < 0 ? (count + size - 1) / size : count) * sizeof(uint64_t), 0,
        host < 0 ? LOCI_FROM_ALL : host
    };
    array = calloc(1, sizeof *array);
    if (array == NULL)
        return LOCO_ERR_NO_MEMORY;
    *array = (struct loco_atomic_array){
        .rt = rt, .count = count, .host = host, .size = size, .shift = power_of_two(size),
    };
    status = loci_endpoint_create(rt, &spec, &array->ep);
    if (status != LOCO_OK) {
        free(array);
        return status;
    }
    loci_endpoint_is_of(array->ep, destroy_forgotten_array, array);
    *out = array;
    return LOCO_OK;
}

void loco_atomic_array_destroy(loco_atomic_array_t *array)
{
    if (array == NULL)
        return;
    loci_endpoint_destroy(array->ep);
    free(array);
}

uint64_t loco_atomic_array_count(const loco_atomic_array_t *array)
{
    return array->count;
}

static inline uint64_t row_of(const loco_atomic_array_t *array, uint64_t i)
{
    return array->shift >= 0 ? i >> array->shift : i / array->size;
}

static inline struct place place_of(const loco_atomic_array_t *array, uint64_t i)
{
    uint64_t row;

    if (array->host >= 0)
        return (struct place){ loci_endpoint_mem(array->ep, array->host, 0), i * 8 };
    row = row_of(array, i);
    return (struct place){ loci_endpoint_mem(array->ep, (int)(i - row * array->size), 0),
                           row * 8 };
}

int loco_atomic_array_host(const loco_atomic_array_t *array, uint64_t i)
{
    if (i >= array->count)
        return LOCO_ERR_RANGE;
    return array->host >= 0 ? array->host : (int)(i - row_of(array, i) * array->size);
}

int loco_atomic_array_load_ack(loco_atomic_array_t *array, uint64_t i, uint64_t *value,
                               loco_ack_t *ack)
{
    struct place at;
    struct loci_thread *self;

    if (i >= array->count)
        return LOCO_ERR_RANGE;
    at = place_of(array, i);
    self = loci_call_begin(array->ep->calls, LOCI_CALL_LOAD, 8);
    return loci_call_end(self, loci_read64(array->rt, at.mem, at.offset, value, ack));
}

int loco_atomic_array_load(loco_atomic_array_t *array, uint64_t i, uint64_t *value)
{
    return loco_atomic_array_load_ack(array, i, value, NULL);
}

int loco_atomic_array_store(loco_atomic_array_t *array, uint64_t i, uint64_t value)
{
    struct loci_thread *self;

    if (i >= array->count)
        return LOCO_ERR_RANGE;
    self = loci_call_begin(array->ep->calls, LOCI_CALL_STORE, 8);
    return loci_call_end(self, store(array->rt, place_of(array, i), value));
}

int loco_atomic_array_fetch_add_ack(loco_atomic_array_t *array, uint64_t i, uint64_t add,
                                    uint64_t *old, loco_ack_t *ack)
{
    struct place at;
    struct loci_thread *self;

    if (i >= array->count)
        return LOCO_ERR_RANGE;
    at = place_of(array, i);
    self = loci_call_begin(array->ep->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_fetch_add(array->rt, at.mem, at.offset, add, old, ack));
}

int loco_atomic_array_fetch_add(loco_atomic_array_t *array, uint64_t i, uint64_t add,
                                uint64_t *old)
{
    uint64_t unused;

    return loco_atomic_array_fetch_add_ack(array, i, add, old == NULL ? &unused : old, NULL);
}

int loco_atomic_array_exchange(loco_atomic_array_t *array, uint64_t i, uint64_t value,
                               uint64_t *old)
{
    uint64_t unused;
    struct place at;
    struct loci_thread *self;

    if (i >= array->count)
        return LOCO_ERR_RANGE;
    at = place_of(array, i);
    self = loci_call_begin(array->ep->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_exchange(array->rt, at.mem, at.offset, value,
                                             old == NULL ? &unused : old));
}

int loco_atomic_array_compare_swap_ack(loco_atomic_array_t *array, uint64_t i, uint64_t expected,
                                       uint64_t desired, uint64_t *old, loco_ack_t *ack)
{
    struct place at;
    struct loci_thread *self;

    if (i >= array->count)
        return LOCO_ERR_RANGE;
    at = place_of(array, i);
    self = loci_call_begin(array->ep->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_compare_swap(array->rt, at.mem, at.offset, expected, desired,
                                                 old, ack));
}

int loco_atomic_array_compare_swap(loco_atomic_array_t *array, uint64_t i, uint64_t expected,
                                   uint64_t desired, uint64_t *old)
{
    uint64_t unused;

    return loco_atomic_array_compare_swap_ack(array, i, expected, desired,
                                              old == NULL ? &unused : old, NULL);
}

int loco_atomic_array_fetch_op(loco_atomic_array_t *array, uint64_t i, enum loco_op op,
                               enum loco_type type, const void *operand, void *old)
{
    uint64_t unused;
    struct place at;
    struct loci_thread *self;

    if (!loci_fetch_op_allowed(op, type))
        return loci_no_word_op(array->rt, "loco_atomic_array_fetch_op", array->ep->name, op,
                               type);
    if (i >= array->count)
        return LOCO_ERR_RANGE;
    at = place_of(array, i);
    self = loci_call_begin(array->ep->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_fetch_op(array->rt, at.mem, at.offset, op, type, operand,
                                             old == NULL ? &unused : old));
}

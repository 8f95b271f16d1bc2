/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_ATOMIC_VAR_H
#define LOCO_ATOMIC_VAR_H

#include <loco/ack.h>
#include <loco/op.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup atomic_var Atomic variables
 *
 * An atomic variable is an 8-byte word, initially zero, that any thread of any process of a group
 * reads and changes atomically. Use it as a counter, a flag, or the index of the next work item.
 *
 *     loco_atomic_var_create(rt, NULL, "next", loco_everyone(rt), 0, &next);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     while (loco_atomic_var_fetch_add(next, 1, &i) == LOCO_OK && i < items)
 *         work_on(i);
 *
 * The authoritative copy is in the memory of its host. A process may also keep a cached copy of a
 * single variable, which it refreshes explicitly.
 *
 * Cost: one operation at the host; all processes that change a variable contend there.
 *
 * | call                                  | concurrent | blocks | when it returns LOCO_OK |
 * |---------------------------------------|------------|--------|--------------------------|
 * | _load                                 | yes        | 1 operation | value local |
 * | _store                                | yes        | 1 operation, more under contention | done at the host |
 * | _fetch_add, _compare_swap             | yes        | 1 operation | done at the host, old value local |
 * | _exchange                             | yes        | 1 operation, more under contention | the same |
 * | _fetch_op                             | yes        | 1 or 2 operations, more under contention | the same |
 * | _load_ack, _fetch_add_ack, _compare_swap_ack | yes | no     | posted; complete as above |
 * | _cached                               | yes        | no     | the value of the last _refresh here |
 * | _refresh                              | yes        | 1 operation | cached copy as new as the call |
 *
 * Order: an operation, when complete, has placed this thread's earlier writes to the host. (For
 * other processes use a fence.) All processes see the operations on one variable in the same
 * order.
 * Errors: LOCO_ERR_PEER_DEAD (the host is dead), LOCO_ERR_RANGE (no such index).
 * Source: LOCO paper, section 5.1.1.
 *
 * \see loco_op(3), loco_owned_var(3), loco_region(3)
 * @{ */
typedef struct loco_atomic_var loco_atomic_var_t;

/** Create one variable, in the memory of rank `host` of `group`. All members of `group` call it
 * with the same arguments (`parent` and `name`: loco(3)). The call is local, and the variable is
 * usable once the runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (no such host),
 * LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member uses it any more; NULL is allowed.
 */
int loco_atomic_var_create(loco_runtime_t *rt, const char *parent, const char *name,
                           const loco_group_t *group, int host, loco_atomic_var_t **var);
void loco_atomic_var_destroy(loco_atomic_var_t *var);

/** Read the variable at its host, or write it there. */
int loco_atomic_var_load(loco_atomic_var_t *var, uint64_t *value);
int loco_atomic_var_store(loco_atomic_var_t *var, uint64_t value);

/** Add to the variable (modulo 2^64), or replace its value. The old value goes to `*old`, unless
 * that is NULL. */
int loco_atomic_var_fetch_add(loco_atomic_var_t *var, uint64_t add, uint64_t *old);
int loco_atomic_var_exchange(loco_atomic_var_t *var, uint64_t value, uint64_t *old);

/** Replace the value v by "v op operand", with any operation that is defined on a type of 8 bytes
 * without padding (op.h): bitwise, minimum, maximum, logical and products on LOCO_TYPE_U64 and
 * _I64, sums, products, minimum and maximum on LOCO_TYPE_F64, MINLOC and MAXLOC on
 * LOCO_TYPE_I32_INT and _F32_INT. `operand` points to one element of the type (it is not read by
 * LOCO_OP_NO_OP); the old element goes to `*old`, unless that is NULL. All calls see the same 8
 * bytes: a variable that holds a double is set by LOCO_OP_REPLACE and read by LOCO_OP_NO_OP.
 *
 *     uint64_t bit = UINT64_C(1) << rank;
 *     loco_atomic_var_fetch_op(arrived, LOCO_OP_BOR, LOCO_TYPE_U64, &bit, NULL);
 *
 * Cost: 1 atomic where the CPU changes the variable, which is so between processes of one node.
 * Elsewhere an integer sum is 1 operation (a fetch_add). Any other operation is a read, which
 * suffices if the value would not change (a maximum that is not exceeded), and otherwise a
 * compare_swap. If another process changes the variable between the two, they are repeated after a
 * pause that doubles each time; one of the processes that try always succeeds. LOCO_ERR_ARG: the
 * operation is not defined on the type, or the type has another size; nothing was done. */
int loco_atomic_var_fetch_op(loco_atomic_var_t *var, enum loco_op op, enum loco_type type,
                             const void *operand, void *old);

/** Replace the value by `desired` if and only if it is `expected`. LOCO_OK means that the operation
 * was done. `*old`, the old value (NULL: not wanted), shows whether it has replaced the value. */
int loco_atomic_var_compare_swap(loco_atomic_var_t *var, uint64_t expected, uint64_t desired,
                                 uint64_t *old);

/** The same calls without waiting: the operation is added to `*ack` (ack.h). `value` and `old`,
 * which may not be NULL, belong to the operation until the ack is complete. */
int loco_atomic_var_load_ack(loco_atomic_var_t *var, uint64_t *value, loco_ack_t *ack);
int loco_atomic_var_fetch_add_ack(loco_atomic_var_t *var, uint64_t add, uint64_t *old,
                                  loco_ack_t *ack);
int loco_atomic_var_compare_swap_ack(loco_atomic_var_t *var, uint64_t expected, uint64_t desired,
                                     uint64_t *old, loco_ack_t *ack);

/** The value that this process's last loco_atomic_var_refresh found, 0 before the first one. It
 * accesses no network and cannot fail. */
uint64_t loco_atomic_var_cached(loco_atomic_var_t *var);

/** Read the variable at its host into this process's cached copy. */
int loco_atomic_var_refresh(loco_atomic_var_t *var);

/** Many variables under one name, such as the accounts of a bank. Each takes 8 bytes, and nothing
 * else. */
typedef struct loco_atomic_array loco_atomic_array_t;

#define LOCO_ATOMIC_STRIPED (-1)    /**< as host: over all members */

/** Create `count` variables (at least 1): all in the memory of rank `host` or, with
 * LOCO_ATOMIC_STRIPED, variable i in that of rank i % size. All members create the array, with the
 * same arguments; see loco_atomic_var_create. */
int loco_atomic_array_create(loco_runtime_t *rt, const char *parent, const char *name,
                             const loco_group_t *group, uint64_t count, int host,
                             loco_atomic_array_t **array);
void loco_atomic_array_destroy(loco_atomic_array_t *array);

/** The number of variables; the rank that hosts variable i, or LOCO_ERR_RANGE. Local. */
uint64_t loco_atomic_array_count(const loco_atomic_array_t *array);
int loco_atomic_array_host(const loco_atomic_array_t *array, uint64_t i);

/** Like loco_atomic_var_load and the other calls on one variable, for variable i. LOCO_ERR_RANGE:
 * there is no variable i, and nothing was done. */
int loco_atomic_array_load(loco_atomic_array_t *array, uint64_t i, uint64_t *value);
int loco_atomic_array_store(loco_atomic_array_t *array, uint64_t i, uint64_t value);
int loco_atomic_array_fetch_add(loco_atomic_array_t *array, uint64_t i, uint64_t add,
                                uint64_t *old);
int loco_atomic_array_exchange(loco_atomic_array_t *array, uint64_t i, uint64_t value,
                               uint64_t *old);
int loco_atomic_array_fetch_op(loco_atomic_array_t *array, uint64_t i, enum loco_op op,
                               enum loco_type type, const void *operand, void *old);
int loco_atomic_array_compare_swap(loco_atomic_array_t *array, uint64_t i, uint64_t expected,
                                   uint64_t desired, uint64_t *old);

/** Like loco_atomic_var_load_ack and the other calls without waiting, for variable i. */
int loco_atomic_array_load_ack(loco_atomic_array_t *array, uint64_t i, uint64_t *value,
                               loco_ack_t *ack);
int loco_atomic_array_fetch_add_ack(loco_atomic_array_t *array, uint64_t i, uint64_t add,
                                    uint64_t *old, loco_ack_t *ack);
int loco_atomic_array_compare_swap_ack(loco_atomic_array_t *array, uint64_t i, uint64_t expected,
                                       uint64_t desired, uint64_t *old, loco_ack_t *ack);
/** @} */

#ifdef __cplusplus
}
#endif
#endif

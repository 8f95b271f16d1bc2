/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_OWNED_VAR_H
#define LOCO_OWNED_VAR_H

#include <loco/ack.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup owned_var Owned variables: one writer, many readers
 *
 * An owned variable is a value of any size, initially zero, that one process writes and all others
 * read. Use it for values that are read often: a load accesses local memory only.
 *
 *     loco_owned_var_create(rt, NULL, "config", loco_everyone(rt), 0, sizeof config,
 *                           LOCO_OWNED_PUSH, &var);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     if (rank == 0) {
 *         loco_owned_var_store(var, &config);
 *         status = loco_owned_var_push_all(var);
 *     } else
 *         status = loco_owned_var_load(var, &config);
 *
 * The owner's copy is authoritative. Every other process of the group has a cached copy. Either
 * the owner pushes its value to the cached copies, or their processes pull it, as chosen at
 * creation. A value is never seen torn: values of up to 8 bytes are written at once, and longer
 * ones have a checksum with which readers detect a torn value and retry.
 *
 * Cost: a load accesses no network, a push is 1 write to each reader, and a pull is 1 read.
 *
 * | call            | by whom | concurrent                 | blocks | when it returns LOCO_OK |
 * |-----------------|---------|----------------------------|--------|--------------------------|
 * | _store          | owner   | yes, in turn | while pushes read the value | in the owner's copy |
 * | _push, _push_all| owner   | yes, in turn | until the source is read | on its way, not placed |
 * | _push_ack       | owner   | yes                        | no     | posted; complete: as above |
 * | _load           | all     | yes                        | while it is torn | from the process's own copy, no network |
 * | _pull           | all     | yes, in turn | 1 read, more while it is torn | the owner's value at some time during the call |
 * | _create,_destroy| all     | of other names; with nothing | no   | |
 *
 * Order: a reader sees values in the order of the owner's stores, but not necessarily all of them.
 * A push is visible at its readers after a fence that covers it. It orders nothing else: to
 * publish other data with it, fence between the data and the push.
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_STATE | store or push by a process that is not the owner, or push of a variable that was created to be pulled |
 * | LOCO_ERR_ARG | an argument is invalid |
 * | LOCO_ERR_PEER_DEAD | a copy stays torn because its owner died during a push; for push and pull also: that process is dead |
 *
 * Source: LOCO paper, section 5.1.1; the checksum is our own (channels/base/owned.c).
 *
 * \see loco_atomic_var(3), loco_sst(3)
 * @{ */
typedef struct loco_owned_var loco_owned_var_t;

enum loco_owned_mode {
    LOCO_OWNED_PUSH,    /**< cached copies change by the owner's pushes; pull reads past them */
    LOCO_OWNED_PULL     /**< cached copies change by their own process's pulls */
};

/** Create a variable of `size` bytes (at least 1) that rank `owner` of `group` writes. All members
 * of `group` call it with the same arguments (`parent` and `name`: loco(3)). The call is local,
 * and the variable is usable once the runtime is ready (loco_runtime_wait_ready). Errors:
 * LOCO_ERR_ARG (no such owner, size or mode), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when
 * no member uses it any more; NULL is allowed. */
int loco_owned_var_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, int owner, size_t size,
                          enum loco_owned_mode mode, loco_owned_var_t **var);
void loco_owned_var_destroy(loco_owned_var_t *var);

/** The size of the variable in bytes. Local. */
size_t loco_owned_var_size(const loco_owned_var_t *var);

/** Owner: copy `size` bytes from `value` into its own copy. Other processes see the value after a
 * push, or when they pull. */
int loco_owned_var_store(loco_owned_var_t *var, const void *value);

/** Owner: write its copy into the cached copies of one rank; of the `n` ranks in `ranks`; of all.
 */
int loco_owned_var_push(loco_owned_var_t *var, int rank);
int loco_owned_var_push_some(loco_owned_var_t *var, const int *ranks, int n);
int loco_owned_var_push_all(loco_owned_var_t *var);

/** The same calls without waiting: the push is added to `*ack` (ack.h). It is complete when the
 * value has been read from the owner's copy; the next store waits for that. */
int loco_owned_var_push_ack(loco_owned_var_t *var, int rank, loco_ack_t *ack);
int loco_owned_var_push_all_ack(loco_owned_var_t *var, loco_ack_t *ack);

/** Copy the value of this process's own copy, which was pushed or pulled last, to `value` (`size`
 * bytes). */
int loco_owned_var_load(loco_owned_var_t *var, void *value);

/** Read the owner's copy over the network to `value`. With LOCO_OWNED_PULL this also updates the
 * cached copy. */
int loco_owned_var_pull(loco_owned_var_t *var, void *value);

/** How often this process has read a torn value so far, and read it again. Local. */
uint64_t loco_owned_var_retries(const loco_owned_var_t *var);
/** @} */

#ifdef __cplusplus
}
#endif
#endif

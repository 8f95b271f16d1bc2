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
 * A value of any size, zero at first. Its owner's copy counts; every other process of the group
 * has a cached copy, which either the owner pushes to it or it pulls itself, as chosen when the
 * variable is made. A value is never seen torn: up to 8 bytes by its size, above by a checksum
 * with which readers notice, and try again.
 *
 * | call            | by whom | concurrent                 | blocks | when it returns LOCO_OK |
 * |-----------------|---------|----------------------------|--------|--------------------------|
 * | _store          | owner   | yes (threads take turns)   | while pushes read the value | in the owner's copy |
 * | _push, _push_all| owner   | yes (threads take turns)   | until the source is read | on its way, not placed |
 * | _push_ack       | owner   | yes                        | no     | posted; complete: as above |
 * | _load           | all     | yes                        | while it is torn | from one's own copy, no network |
 * | _pull           | all     | yes (threads take turns)   | 1 read, more while it is torn | the owner's value at some time during the call |
 * | _create,_destroy| all     | of other names; with nothing | no   | |
 *
 * Order: a reader sees values in the order of the owner's stores; not necessarily each. A push is
 * visible at its readers after a fence that covers it. It orders nothing else: to publish data
 * with it, fence between data and push.
 * Errors: LOCO_ERR_STATE: store or push by another than the owner, or push of a variable made to
 * be pulled; LOCO_ERR_ARG; LOCO_ERR_PEER_DEAD: a copy stays torn since its owner died in the
 * middle, or, of push and pull, that process is dead.
 * Source: LOCO paper, section 5.1.1; the checksum is our own (channels/base/owned.c).
 * @{ */
typedef struct loco_owned_var loco_owned_var_t;

enum loco_owned_mode {
    LOCO_OWNED_PUSH,    /**< cached copies change by the owner's pushes; pull reads past them */
    LOCO_OWNED_PULL     /**< cached copies change by their own process's pulls */
};

/** Make a variable of `size` bytes (at least 1) that rank `owner` of `group` writes. All members
 * make it, with the same arguments (`parent` and `name`: loco(3)). Local; usable once the runtime
 * is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (no such owner, size or mode),
 * LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member uses it any more; NULL is
 * allowed. */
int loco_owned_var_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, int owner, size_t size,
                          enum loco_owned_mode mode, loco_owned_var_t **var);
void loco_owned_var_destroy(loco_owned_var_t *var);

/** Its size in bytes. Local. */
size_t loco_owned_var_size(const loco_owned_var_t *var);

/** The owner: copy `size` bytes from `value` into its own copy. Others see it when it is pushed, or
 * when they pull. */
int loco_owned_var_store(loco_owned_var_t *var, const void *value);

/** The owner: write its copy into the cached ones of one rank; of the `n` in `ranks`; of all. */
int loco_owned_var_push(loco_owned_var_t *var, int rank);
int loco_owned_var_push_some(loco_owned_var_t *var, const int *ranks, int n);
int loco_owned_var_push_all(loco_owned_var_t *var);

/** The same without waiting: added to `*ack` (ack.h), complete when the value has been read from
 * the owner's copy, which the next store waits for. */
int loco_owned_var_push_ack(loco_owned_var_t *var, int rank, loco_ack_t *ack);
int loco_owned_var_push_all_ack(loco_owned_var_t *var, loco_ack_t *ack);

/** Copy the value of this process's own copy to `value` (`size` bytes): what was pushed or pulled
 * last. */
int loco_owned_var_load(loco_owned_var_t *var, void *value);

/** Read the owner's copy, over the network, to `value`. With LOCO_OWNED_PULL the cached copy
 * becomes it, too. */
int loco_owned_var_pull(loco_owned_var_t *var, void *value);

/** How often this process has met a torn value so far, and looked again. Local. */
uint64_t loco_owned_var_retries(const loco_owned_var_t *var);
/** @} */

#ifdef __cplusplus
}
#endif
#endif

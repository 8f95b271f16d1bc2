/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_SST_H
#define LOCO_SST_H

#include <loco/ack.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup sst Shared state tables
 *
 * A shared state table has one row per process of a group, with `columns` words of 8 bytes,
 * initially zero. Use it to publish the state of each process, such as its progress, to all
 * others.
 *
 *     loco_sst_create(rt, NULL, "progress", loco_everyone(rt), 1, LOCO_SST_COLUMNS, &sst);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_sst_set(sst, 0, steps_done);
 *     loco_sst_push_all(sst, 0, 1);
 *     status = loco_sst_get(sst, other, 0, &steps_of_other);
 *
 * Each process writes its own row, and pushes ranges of its columns to one, some or all processes.
 * It reads all rows from its own memory. Each column is atomic. With LOCO_SST_ROWS each row is
 * atomic: a push then writes the whole row, with a checksum that lets readers retry if they see it
 * half written.
 *
 * Cost: a get accesses no network; a push is 1 write to each process.
 *
 * | call                | concurrent                 | blocks | when it returns LOCO_OK |
 * |---------------------|----------------------------|--------|--------------------------|
 * | _set, _set_range    | yes, in turn | while pushes read the row | in this process's copy |
 * | _push, _push_all... | yes, in turn | until the source is read | on its way, not placed |
 * | _push*_ack          | yes                        | no     | posted; complete: as above |
 * | _get                | yes                        | no (rows: while torn) | from this process's copy, no network |
 * | _row                | yes                        | the same | the same; with LOCO_SST_ROWS all of one push |
 * | _create, _destroy   | of other names; with nothing | no   | |
 *
 * Order: a reader sees the values of a column (with LOCO_SST_ROWS, of a row) in the order of their
 * pushes. Without LOCO_SST_ROWS it may see different columns in any order. A push is visible at
 * its readers after a fence that covers it. To publish data by a column: write the data, fence,
 * set, push.
 * Errors: LOCO_ERR_ARG, LOCO_ERR_RANGE (columns), LOCO_ERR_PEER_DEAD (as for owned variables).
 * Source: Jha and others, "Derecho", 2019, as in the LOCO paper, section 5.1.2. One endpoint holds
 * all rows, which are the owned variables of channels/base/owned.h.
 *
 * \see loco_barrier(3), loco_owned_var(3)
 * @{ */
typedef struct loco_sst loco_sst_t;

enum loco_sst_flags {
    LOCO_SST_COLUMNS = 0,
    LOCO_SST_ROWS = 1       /**< whole rows are atomic */
};

/** Create a table with a row of `columns` words (at least 1) for each process of `group`; `flags`
 * is one of enum loco_sst_flags. All members of `group` call it with the same arguments (`parent`
 * and `name`: loco(3)). The call is local, and the table is usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG, LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it
 * when no member uses it any more; NULL is allowed. */
int loco_sst_create(loco_runtime_t *rt, const char *parent, const char *name,
                    const loco_group_t *group, int columns, int flags, loco_sst_t **sst);
void loco_sst_destroy(loco_sst_t *sst);

/** The number of rows (processes), and of columns. Local. */
int loco_sst_rows(const loco_sst_t *sst);
int loco_sst_columns(const loco_sst_t *sst);

/** Set one column, or columns [first, first + n), of this process's row, in its own copy. Other
 * processes see them after a push. LOCO_ERR_RANGE: there is no such column. */
int loco_sst_set(loco_sst_t *sst, int column, uint64_t value);
int loco_sst_set_range(loco_sst_t *sst, int first, int n, const uint64_t *values);

/** Write columns [first, first + n) of this process's row (with LOCO_SST_ROWS: the whole row) into
 * the tables of one rank; of the `nranks` ranks in `ranks`; of all. */
int loco_sst_push(loco_sst_t *sst, int first, int n, int rank);
int loco_sst_push_some(loco_sst_t *sst, int first, int n, const int *ranks, int nranks);
int loco_sst_push_all(loco_sst_t *sst, int first, int n);

/** The same calls without waiting: the push is added to `*ack` (ack.h). It is complete when the row
 * has been read; the next set waits for that. */
int loco_sst_push_ack(loco_sst_t *sst, int first, int n, int rank, loco_ack_t *ack);
int loco_sst_push_all_ack(loco_sst_t *sst, int first, int n, loco_ack_t *ack);

/** Read one column of `rank`'s row, as it was last pushed here, to `*value`; or all columns of the
 * row to `values`. */
int loco_sst_get(loco_sst_t *sst, int rank, int column, uint64_t *value);
int loco_sst_row(loco_sst_t *sst, int rank, uint64_t *values);
/** @} */

#ifdef __cplusplus
}
#endif
#endif

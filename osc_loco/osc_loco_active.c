/* SPDX-License-Identifier: BSD-3-Clause */

/* Active target: fence, post/start/complete/wait (MPI 3.1, sections 11.5.1 and 11.5.2). */

#include "osc_loco.h"

#include <stdlib.h>

static int asserts_of(int asserts)
{
    static const struct {
        int mpi, loco;
    } map[] = {
        { MPI_MODE_NOCHECK, LOCO_ASSERT_NOCHECK },
        { MPI_MODE_NOSTORE, LOCO_ASSERT_NOSTORE },
        { MPI_MODE_NOPUT, LOCO_ASSERT_NOPUT },
        { MPI_MODE_NOPRECEDE, LOCO_ASSERT_NOPRECEDE },
        { MPI_MODE_NOSUCCEED, LOCO_ASSERT_NOSUCCEED },
    };
    int flags = 0;

    if (asserts == 0)
        return 0;
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (asserts & map[i].mpi)
            flags |= map[i].loco;
    return flags;
}

/* The window's ranks of a group's members; MPI_ERR_GROUP if one is not in the window. The array
 * is the caller's to free. */
static int ranks_of_group(struct ompi_group_t *group, struct ompi_win_t *win, int *n, int **ranks)
{
    int *mine, rc = MPI_SUCCESS;

    if (group == MPI_GROUP_NULL)        /* an object like others to the core */
        return MPI_ERR_GROUP;
    *n = ompi_group_size(group);
    *ranks = malloc(2 * ((size_t)*n + 1) * sizeof mine[0]);
    if (*ranks == NULL)
        return MPI_ERR_NO_MEM;
    mine = *ranks + *n;
    for (int i = 0; i < *n; i++)
        mine[i] = i;
    if (*n > 0)
        rc = ompi_group_translate_ranks(group, *n, mine, win->w_group, *ranks);
    for (int i = 0; i < *n && rc == MPI_SUCCESS; i++)
        if ((*ranks)[i] < 0)
            rc = MPI_ERR_GROUP;
    if (rc != MPI_SUCCESS)
        free(*ranks);
    return rc;
}

typedef int open_epoch_fn(loco_window_t *window, int n, const int *ranks, int asserts);

static int open_epoch(open_epoch_fn *open, struct ompi_group_t *group, int asserts,
                      struct ompi_win_t *win, const char *call, const char *rule)
{
    int n, *ranks, status;
    int rc = ranks_of_group(group, win, &n, &ranks);

    if (rc == MPI_ERR_GROUP)
        return ompi_osc_loco_tell(win, rc, call, OMPI_OSC_LOCO_NO_TARGET,
                                  "a member of the group has no part in the window");
    if (rc != MPI_SUCCESS)
        return rc;
    ompi_osc_loco_enter();
    status = open(ompi_osc_loco_window(win), n, ranks, asserts_of(asserts));
    free(ranks);
    return ompi_osc_loco_leave_sync(win, status, call, OMPI_OSC_LOCO_NO_TARGET, rule);
}

int ompi_osc_loco_fence(int asserts, struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_fence(ompi_osc_loco_window(win),
                                                           asserts_of(asserts)),
                                    "MPI_Win_fence", OMPI_OSC_LOCO_NO_TARGET,
                                    "no epoch of locks, of MPI_Win_start or MPI_Win_post may be "
                                    "open");
}

int ompi_osc_loco_start(struct ompi_group_t *group, int asserts, struct ompi_win_t *win)
{
    return open_epoch(loco_window_start, group, asserts, win, "MPI_Win_start",
                      "no access epoch may be open: " OMPI_OSC_LOCO_ENDS_ACCESS);
}

int ompi_osc_loco_post(struct ompi_group_t *group, int asserts, struct ompi_win_t *win)
{
    return open_epoch(loco_window_post, group, asserts, win, "MPI_Win_post",
                      "no exposure epoch may be open (MPI_Win_wait ends it), nor one of "
                      "MPI_Win_lock_all, nor of MPI_Win_fence with operations in it (MPI_Win_fence "
                      "with MPI_MODE_NOSUCCEED ends it)");
}

int ompi_osc_loco_complete(struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_complete(ompi_osc_loco_window(win)),
                                    "MPI_Win_complete", OMPI_OSC_LOCO_NO_TARGET,
                                    "MPI_Win_start comes first");
}

int ompi_osc_loco_wait(struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_wait(ompi_osc_loco_window(win)),
                                    "MPI_Win_wait", OMPI_OSC_LOCO_NO_TARGET,
                                    "MPI_Win_post comes first");
}

/* A program may poll this; what it waits for may depend on MPI's own progress. */
int ompi_osc_loco_test(struct ompi_win_t *win, int *flag)
{
    bool done = false;
    int status;

    ompi_osc_loco_enter();
    status = loco_window_test(ompi_osc_loco_window(win), &done);
    if (status == LOCO_OK && !done)
        opal_progress();
    if (status == LOCO_OK)
        *flag = done;
    return ompi_osc_loco_leave_sync(win, status, "MPI_Win_test", OMPI_OSC_LOCO_NO_TARGET,
                                    "MPI_Win_post comes first");
}

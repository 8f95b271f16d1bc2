/* SPDX-License-Identifier: BSD-3-Clause */

/* Passive target: locks, flushes, sync (MPI 3.1, section 11.5.3 and 11.5.4). */

#include "osc_loco.h"

#define MAY_FLUSH "it belongs in one of MPI_Win_lock or MPI_Win_lock_all"

static int asserts_of(int asserts)
{
    return (asserts & MPI_MODE_NOCHECK) ? LOCO_ASSERT_NOCHECK : 0;
}

/* What takes more than a look at the window and an atomic is not in the functions that MPI calls,
 * so that those need not keep their arguments for it. */

static __attribute__((noinline)) int lock(int kind, int target, int asserts,
                                          struct ompi_win_t *win)
{
    enum loco_lock_kind mode = kind == MPI_LOCK_EXCLUSIVE ? LOCO_LOCK_EXCLUSIVE
                                                          : LOCO_LOCK_SHARED;

    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_lock(ompi_osc_loco_window(win), mode, target,
                                                          asserts_of(asserts)),
                                    "MPI_Win_lock", target,
                                    "no access epoch may be open, but for locks of other ranks: "
                                    OMPI_OSC_LOCO_ENDS_ACCESS);
}

int ompi_osc_loco_lock(int kind, int target, int asserts, struct ompi_win_t *win)
{
    if (kind == MPI_LOCK_EXCLUSIVE && asserts == 0
        && loci_window_lock_now(ompi_osc_loco_window(win), target))
        return MPI_SUCCESS;
    return lock(kind, target, asserts, win);
}

static __attribute__((noinline)) int unlock(int target, struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_unlock(ompi_osc_loco_window(win), target),
                                    "MPI_Win_unlock", target,
                                    "this process has to hold the lock of that rank by "
                                    "MPI_Win_lock");
}

int ompi_osc_loco_unlock(int target, struct ompi_win_t *win)
{
    if (loci_window_unlock_now(ompi_osc_loco_window(win), target))
        return MPI_SUCCESS;
    return unlock(target, win);
}

static __attribute__((noinline)) int lock_all(int asserts, struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_lock_all(ompi_osc_loco_window(win),
                                                              asserts_of(asserts)),
                                    "MPI_Win_lock_all", OMPI_OSC_LOCO_NO_TARGET,
                                    "no access epoch may be open: " OMPI_OSC_LOCO_ENDS_ACCESS);
}

int ompi_osc_loco_lock_all(int asserts, struct ompi_win_t *win)
{
    if (asserts == 0 && loci_window_lock_all_now(ompi_osc_loco_window(win)))
        return MPI_SUCCESS;
    return lock_all(asserts, win);
}

static __attribute__((noinline)) int unlock_all(struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_unlock_all(ompi_osc_loco_window(win)),
                                    "MPI_Win_unlock_all", OMPI_OSC_LOCO_NO_TARGET,
                                    "this process has to hold the locks by MPI_Win_lock_all");
}

int ompi_osc_loco_unlock_all(struct ompi_win_t *win)
{
    if (loci_window_unlock_all_now(ompi_osc_loco_window(win)))
        return MPI_SUCCESS;
    return unlock_all(win);
}

int ompi_osc_loco_sync(struct ompi_win_t *win)
{
    return ompi_osc_loco_class(loco_window_sync(ompi_osc_loco_window(win)));
}

/* The core has not looked at the rank of a flush. */
static int flushed(const struct ompi_win_t *win, int status, const char *call, int target)
{
    if (status != LOCO_ERR_ARG)
        return ompi_osc_loco_leave_sync(win, status, call, target, MAY_FLUSH);
    (void)ompi_osc_loco_leave(LOCO_OK);
    return target == MPI_PROC_NULL ? MPI_SUCCESS
           : ompi_osc_loco_tell(win, MPI_ERR_RANK, call, target, "the window has no such rank");
}

static __attribute__((noinline)) int flush(int target, struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return flushed(win, loco_window_flush(ompi_osc_loco_window(win), target), "MPI_Win_flush",
                   target);
}

int ompi_osc_loco_flush(int target, struct ompi_win_t *win)
{
    return loci_window_flush_now(ompi_osc_loco_window(win), target) ? MPI_SUCCESS
                                                                    : flush(target, win);
}

int ompi_osc_loco_flush_all(struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_flush_all(ompi_osc_loco_window(win)),
                                    "MPI_Win_flush_all", OMPI_OSC_LOCO_NO_TARGET, MAY_FLUSH);
}

int ompi_osc_loco_flush_local(int target, struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return flushed(win, loco_window_flush_local(ompi_osc_loco_window(win), target),
                   "MPI_Win_flush_local", target);
}

int ompi_osc_loco_flush_local_all(struct ompi_win_t *win)
{
    ompi_osc_loco_enter();
    return ompi_osc_loco_leave_sync(win, loco_window_flush_local_all(ompi_osc_loco_window(win)),
                                    "MPI_Win_flush_local_all", OMPI_OSC_LOCO_NO_TARGET, MAY_FLUSH);
}

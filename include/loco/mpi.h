/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_MPI_H
#define LOCO_MPI_H

#include <mpi.h>

#include <loco/region.h>
#include <loco/runtime.h>
#include <loco/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup mpi Channels in an MPI program
 *
 * These calls give an MPI program its runtime, which windows of `--mca osc loco` and native
 * channels share.
 *
 *     loco_runtime_open_mpi(MPI_COMM_WORLD, &rt);
 *     loco_barrier_create(rt, NULL, "step", loco_everyone(rt), &barrier);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *
 * Compile with `pkg-config --cflags --libs loco-mpi`. A thread that may call MPI at that moment
 * (MPI_Init_thread's level) makes all of these calls between MPI_Init and MPI_Finalize.
 *
 * While a thread waits in a channel, MPI makes progress if the thread level lets this thread call
 * MPI: any thread with MPI_THREAD_MULTIPLE, the one that opened the runtime with MPI_THREAD_SINGLE
 * or FUNNELED. With MPI_THREAD_SERIALIZED only MPI's own calls make progress.
 *
 * | call                              | with itself, other threads | with close |
 * |-----------------------------------|----------------------------|------------|
 * | loco_runtime_open_mpi             | yes, on different communicators | no    |
 * | loco_exchange_mpi                 | yes                        | yes        |
 * | loco_win_window, loco_win_region  | yes                        | no         |
 * | loco_runtime_close_mpi            | no                         | no         |
 *
 * \see loco_runtime(3), loco_window(3)
 * @{ */

/** Open this process's runtime, or use the one that is open. The call is collective over `comm`,
 * whose members meet. The first call makes them, in rank order, loco_everyone(). Later calls, and
 * windows, add peers and do not change loco_everyone(). Each successful call needs one
 * loco_runtime_close_mpi. Errors, the same at all members of `comm` as long as the members can
 * communicate: those of loco_runtime_open; LOCO_ERR_ARG (MPI is not initialized, `comm` is null or
 * has two groups); LOCO_ERR_UNSUPPORTED (the log names a member that no fabric reaches). */
int loco_runtime_open_mpi(MPI_Comm comm, loco_runtime_t **rt);

/** End one loco_runtime_open_mpi, before MPI_Finalize. Not collective. The runtime closes when
 * every open has its close and no window uses it. It then destroys the remaining channels of the
 * caller, with a warning. NULL is allowed. */
void loco_runtime_close_mpi(loco_runtime_t *rt);

/** Fill in an exchange over `comm` for loco_group_meet and loco_window_create. Local. It is valid
 * as long as `comm` exists; no communicator is created. LOCO_ERR_ARG: not an intra-communicator. */
int loco_exchange_mpi(MPI_Comm comm, struct loco_exchange *exchange);

/** The loco window behind an MPI window of the loco component, for native calls on its memory. It
 * exists as long as the MPI window. LOCO_ERR_UNSUPPORTED: another component serves `win`. */
int loco_win_window(MPI_Win win, loco_window_t **window);

/** A region over the window's memory, with one part per member in rank order. Offsets are bytes,
 * and each part is as long as its member made it (loco_region_len: that of this process). It needs
 * no epoch. On memory of MPI_Win_allocate and MPI_Win_allocate_shared, atomics through it and
 * accumulates through MPI on words of 8 bytes are atomic to each other, unless loco_accumulate is
 * bulk. Local. Destroy it (loco_region_destroy) before the window is freed. Errors: those of
 * loco_win_window, and LOCO_ERR_ARG for a dynamic window, which has no memory of its own. */
int loco_win_region(MPI_Win win, loco_region_t **region);
/** @} */

#ifdef __cplusplus
}
#endif
#endif

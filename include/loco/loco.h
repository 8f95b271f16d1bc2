/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_LOCO_H
#define LOCO_LOCO_H

/** \defgroup loco Concurrent objects in network memory
 *
 * A channel is a concurrent object (a lock, a barrier, a table) whose state is distributed over
 * the memory of a group of processes. A small MPI program that uses one:
 *
 *     MPI_Init(&argc, &argv);
 *     loco_runtime_open_mpi(MPI_COMM_WORLD, &rt);
 *     loco_barrier_create(rt, NULL, "step", loco_everyone(rt), &barrier);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_barrier_wait(barrier);
 *     loco_barrier_destroy(barrier);
 *     loco_runtime_close_mpi(rt);
 *     MPI_Finalize();
 *
 * Each process of the group creates its endpoint of the channel, in any order and at any time,
 * with the same name and the same arguments. loco_runtime_wait_ready waits until all endpoints
 * have found each other. From then on calls access memory only: no call needs another process to
 * be inside a call.
 *
 * Names: a channel is named by `name`, or, if `parent` is not NULL, by "parent/name". The whole
 * name has at most 127 bytes, and one process has one endpoint of a name at a time. LOCO_ERR_NAME
 * means that the name is in use in this process, empty or too long. LOCO_ERR_MISMATCH, from
 * loco_runtime_wait_ready, means that the arguments differ between members.
 *
 * Every header has a table of the calls that may run concurrently, whether they block, and what
 * their return means. In these tables a name that begins with _ is the end of a name: _wait of
 * loco_barrier is loco_barrier_wait. "Concurrent: yes" means with itself and the other calls of
 * that channel, from any threads of any processes.
 *
 * Completion and visibility differ. A write has completed when its source may be changed. It is
 * placed, and visible to others, after a fence that covers it (loco_fence), or where a call says
 * so.
 *
 * All functions that can fail return an int: LOCO_OK (0), or a negative enum loco_status for an
 * error. Some also return a positive number, where they say so (loco_status(3)). Outputs are
 * written on success only. Pointers must not be NULL unless a call says that they may. When a
 * process dies, calls that need it return LOCO_ERR_PEER_DEAD: no call waits for ever for a dead
 * process.
 *
 * Compile an MPI program with `pkg-config --cflags --libs loco-mpi`; it includes <loco/mpi.h>,
 * which <loco/loco.h> does not include. A program without MPI uses `pkg-config --cflags --libs
 * loco`.
 *
 * \see loco_runtime(3), loco_region(3), loco_mpi(3), loco_status(3)
 * @{ */
/** @} */

#include <loco/ack.h>
#include <loco/atomic_var.h>
#include <loco/barrier.h>
#include <loco/bytes.h>
#include <loco/collective.h>
#include <loco/fence.h>
#include <loco/fork.h>
#include <loco/hash.h>
#include <loco/kvstore.h>
#include <loco/log.h>
#include <loco/mailbox.h>
#include <loco/multicast.h>
#include <loco/op.h>
#include <loco/owned_var.h>
#include <loco/pool.h>
#include <loco/queue.h>
#include <loco/region.h>
#include <loco/ringbuffer.h>
#include <loco/runtime.h>
#include <loco/rw_lock.h>
#include <loco/sst.h>
#include <loco/status.h>
#include <loco/store.h>
#include <loco/ticket_lock.h>
#include <loco/topic.h>
#include <loco/tree.h>
#include <loco/tx.h>
#include <loco/view.h>
#include <loco/window.h>

#endif

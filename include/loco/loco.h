/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_LOCO_H
#define LOCO_LOCO_H

/** \defgroup loco Concurrent objects in network memory
 *
 * A channel is a concurrent object (a lock, a barrier, a table) whose state is spread over the
 * memory of its group of processes. Each of them makes its endpoint of the channel, in any order
 * and at any time, with the same name and the same arguments; loco_runtime_wait_ready waits until
 * all have found each other. From then on the calls work on memory alone: no process need be in
 * any call for another's to go on.
 *
 * Names: a channel is named by `name`, or, if `parent` is not NULL, by "parent/name". The whole is
 * at most 127 bytes, and one process has one endpoint of a name at a time. LOCO_ERR_NAME says that
 * the name is in use here, empty or too long; LOCO_ERR_MISMATCH, from loco_runtime_wait_ready, that
 * the arguments differ between members.
 *
 * Every header has a table that says which calls may run at the same time, whether they block, and
 * what their return means. There a name that begins with _ is the end of a name: _wait of
 * loco_barrier is loco_barrier_wait. "Concurrent: yes" is with itself and the other calls of that
 * channel, from any threads of any processes.
 *
 * Completion and visibility are two things. A write has completed when its source may be changed;
 * it is placed, and visible to others, after a fence that covers it (loco_fence), or where a call
 * says so.
 *
 * All functions that can fail return an int: LOCO_OK (0) or a negative enum loco_status; outputs
 * are written on success only. No pointer may be NULL where a call does not say that it may. When
 * a process dies, calls that need it return LOCO_ERR_PEER_DEAD; none waits for ever.
 *
 * Compile with `pkg-config --cflags --libs loco`; an MPI program links -lloco_mpi, too, and
 * includes <loco/mpi.h>, which <loco/loco.h> leaves out.
 * @{ */
/** @} */

#include <loco/ack.h>
#include <loco/atomic_var.h>
#include <loco/barrier.h>
#include <loco/bytes.h>
#include <loco/fence.h>
#include <loco/fork.h>
#include <loco/hash.h>
#include <loco/kvstore.h>
#include <loco/log.h>
#include <loco/mailbox.h>
#include <loco/multicast.h>
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

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_LOCO_H
#define LOCO_LOCO_H

/** All of the native interface but MPI's way in (mpi.h). */

#include <loco/ack.h>
#include <loco/atomic_var.h>
#include <loco/barrier.h>
#include <loco/fence.h>
#include <loco/fork.h>
#include <loco/log.h>
#include <loco/owned_var.h>
#include <loco/region.h>
#include <loco/runtime.h>
#include <loco/rw_lock.h>
#include <loco/sst.h>
#include <loco/status.h>
#include <loco/ticket_lock.h>
#include <loco/window.h>

#endif

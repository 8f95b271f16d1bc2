/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_MPI_HPP
#define LOCO_MPI_HPP

/** \file
 * <loco/loco.hpp> in an MPI program: what <loco/mpi.h> has. */

#include <loco/loco.hpp>
#include <loco/mpi.h>

namespace loco {

/** The runtime of this process, from a communicator; collective over it. Its end is one
 * loco_runtime_close_mpi, before MPI_Finalize. */
inline runtime open_mpi(MPI_Comm comm)
{
    loco_runtime_t *rt;

    check(loco_runtime_open_mpi(comm, &rt), "loco_runtime_open_mpi");
    return runtime(rt, loco_runtime_close_mpi);
}

/** The group of a communicator's members; collective over it. */
inline group meet(loco_runtime_t *rt, MPI_Comm comm)
{
    loco_exchange exchange;
    loco_group_t *made;

    check(loco_exchange_mpi(comm, &exchange), "loco_exchange_mpi");
    check(loco_group_meet(rt, &exchange, &made), "loco_group_meet");
    return group(made);
}

/** A region over a window of the loco component; destroyed before the window is freed. */
inline region region_of(MPI_Win win)
{
    loco_region_t *made;

    check(loco_win_region(win, &made), "loco_win_region");
    return region(made);
}

} /* namespace loco */

#endif

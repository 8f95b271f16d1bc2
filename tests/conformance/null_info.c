/* SPDX-License-Identifier: BSD-3-Clause */

/* Loaded before NetPIPE's one-sided module, which gives MPI_Win_create a null pointer for its info:
 * no handle in Open MPI, which refuses it whatever the component. */
#include <mpi.h>
#include <stddef.h>

int MPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    return PMPI_Win_create(base, size, unit, info == NULL ? MPI_INFO_NULL : info, comm, win);
}

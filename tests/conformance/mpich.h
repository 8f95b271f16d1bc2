/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before each source of MPICH's tests: some use names of MPI-1 that MPI 3.0 removed and
 * that Open MPI declares no more. Each has a successor of the same signature.
 */
#include <mpi.h>

#undef MPI_Address
#undef MPI_Type_hindexed
#undef MPI_Type_hvector
#undef MPI_Type_struct
#define MPI_Address MPI_Get_address
#define MPI_Type_hindexed MPI_Type_create_hindexed
#define MPI_Type_hvector MPI_Type_create_hvector
#define MPI_Type_struct MPI_Type_create_struct

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OSC_LOCO_COMPAT_FINT_2_INT_H
#define OSC_LOCO_COMPAT_FINT_2_INT_H

/* Open MPI's op.h includes a header of this name, which no package installs, for these two
 * conversions; MPI_Fint is an int wherever Fortran's INTEGER is (all that we build on). */
#define OMPI_FINT_2_INT(a) ((int)(a))
#define OMPI_INT_2_FINT(a) ((MPI_Fint)(a))

#endif

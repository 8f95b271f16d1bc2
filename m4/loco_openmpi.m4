# SPDX-License-Identifier: BSD-3-Clause

# LOCO_OPENMPI: where Open MPI's headers, libraries and component directory are.
# Sets MPI_CPPFLAGS (mpi.h), MPI_COMPONENT_CPPFLAGS (the headers components are built with),
# MPI_LIBS, MPI_COMPONENT_LIBS, MPI_VERSION, MPI_BINDIR, MPI_SYSCONFDIR (of its parameter file), MCA_DIR and
# PMIX_COMPONENTS.
AC_DEFUN([LOCO_OPENMPI], [
    AC_ARG_VAR([MPICC], [Open MPI's compiler wrapper, asked for paths only])
    AC_PATH_PROG([MPICC], [mpicc])
    MPI_CPPFLAGS= MPI_COMPONENT_CPPFLAGS= MPI_LIBS= MPI_COMPONENT_LIBS= MPI_BINDIR=
    AS_IF([test -z "$MPICC"],
          [LOCO_MISSING([Open MPI (mpicc)], [openmpi-bin])
           LOCO_MISSING([Open MPI's headers], [libopenmpi-dev])],
          [LOCO_OPENMPI_PATHS
           LOCO_OPENMPI_TRY
           LOCO_OPENMPI_DIR])
    AC_SUBST([MPI_CPPFLAGS])
    AC_SUBST([MPI_COMPONENT_CPPFLAGS])
    AC_SUBST([MPI_LIBS])
    AC_SUBST([MPI_COMPONENT_LIBS])
    AC_SUBST([MPI_BINDIR])
    AC_SUBST([MPI_VERSION])
    AC_SUBST([MPI_SYSCONFDIR])
    AC_SUBST([MCA_DIR])
    AC_SUBST([PMIX_COMPONENTS])
])

# Component headers are in "openmpi/" beside mpi.h, or where a developer's install put them.
AC_DEFUN([LOCO_OPENMPI_PATHS], [
    loco_incdirs=`$MPICC --showme:incdirs 2>/dev/null`
    loco_libdirs=`$MPICC --showme:libdirs 2>/dev/null`
    AS_IF([test -z "$loco_incdirs"],
          [AC_MSG_ERROR([$MPICC does not answer --showme:incdirs, so it is not Open MPI's;
set MPICC to Open MPI's wrapper (mpicc.openmpi on Debian)])])
    MPI_VERSION=`$MPICC --showme:version 2>&1 | sed 's/.*Open MPI \(@<:@^ @:>@*\).*/\1/'`
    MPI_BINDIR=`AS_DIRNAME(["$MPICC"])`
    loco_have_osc=no PMIX_COMPONENTS=
    for loco_dir in $loco_incdirs; do
        MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem $loco_dir"
        AS_IF([test -f "$loco_dir/openmpi/ompi/mca/osc/osc.h"],
              [MPI_COMPONENT_CPPFLAGS="$MPI_COMPONENT_CPPFLAGS -isystem $loco_dir/openmpi"
               loco_have_osc=yes
               # Open MPI 5.0 keeps PMIx's headers in a directory of their own.
               for loco_pmix in "$loco_dir/../../pmix2/include" "$loco_dir/../pmix2/include"; do
                   AS_IF([test -d "$loco_pmix"],
                         [MPI_COMPONENT_CPPFLAGS="$MPI_COMPONENT_CPPFLAGS -isystem $loco_pmix"])
                   AS_IF([test -d "$loco_pmix/../lib/pmix"],
                         [PMIX_COMPONENTS=`cd "$loco_pmix/../lib/pmix" && pwd`])
               done],
              [test -f "$loco_dir/ompi/mca/osc/osc.h"], [loco_have_osc=yes])
    done
    MPI_COMPONENT_CPPFLAGS="$MPI_CPPFLAGS $MPI_COMPONENT_CPPFLAGS"
    for loco_dir in $loco_libdirs; do
        MPI_LIBS="$MPI_LIBS -L$loco_dir"
    done
    MPI_COMPONENT_LIBS="$MPI_LIBS -lmpi -lopen-pal"
    MPI_LIBS="$MPI_LIBS -lmpi"
    AS_IF([test $loco_have_osc = no],
          [LOCO_MISSING([Open MPI's component headers (ompi/mca/osc/osc.h; an Open MPI of your
    own must be configured --with-devel-headers)], [libopenmpi-dev])])
])

# The headers exist: do they compile, and do the libraries link?
AC_DEFUN([LOCO_OPENMPI_TRY], [
    loco_save_cppflags=$CPPFLAGS
    loco_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS -I$srcdir/osc_loco/compat $MPI_COMPONENT_CPPFLAGS"
    AS_IF([test $loco_have_osc = yes], [
        LOCO_OPENMPI_RELEASE
        AC_MSG_CHECKING([whether Open MPI's component headers compile])
        AC_COMPILE_IFELSE(
            [AC_LANG_PROGRAM([[#include "ompi_config.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/communicator/communicator.h"
#include "ompi/op/op.h"]], [])],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([Open MPI's component headers do not compile; config.log names the
header. This Open MPI's headers may be incomplete: 4.1 and 5.0 as Debian ships them are known to
work. --without-mpi builds libloco alone.])])
        LIBS="$LIBS $MPI_COMPONENT_LIBS"
        AC_MSG_CHECKING([whether -lmpi -lopen-pal link])
        AC_LINK_IFELSE(
            [AC_LANG_PROGRAM([[#include <mpi.h>
extern void opal_progress(void);]], [[opal_progress(); return MPI_Finalize();]])],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             LOCO_MISSING([Open MPI's libraries], [libopenmpi-dev])])
    ])
    # 4.1 keeps the process's own name in a third library; 5.0 has none.
    LIBS="$loco_save_libs $MPI_LIBS"
    AC_CHECK_LIB([open-rte], [orte_process_info],
        [MPI_COMPONENT_LIBS="$MPI_COMPONENT_LIBS -lopen-rte"], [])
    CPPFLAGS=$loco_save_cppflags
    LIBS=$loco_save_libs
])

# The interface of components is the same in all releases of a series; 6.0 has counts of size_t in it.
AC_DEFUN([LOCO_OPENMPI_RELEASE], [
    AC_MSG_CHECKING([whether components of this Open MPI ($MPI_VERSION) are known])
    AC_COMPILE_IFELSE(
        [AC_LANG_PROGRAM([[#include "ompi_config.h"
#include "ompi/version.h"
#if !(OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION == 1) \
    && !(OMPI_MAJOR_VERSION == 5 && OMPI_MINOR_VERSION == 0)
#error unknown
#endif]], [])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([$MPICC is of Open MPI $MPI_VERSION; osc_loco knows the components of
the series 4.1 and 5.0 alone. Set MPICC to the wrapper of one of these (such as
MPICC=/usr/bin/mpicc.openmpi), or build libloco alone: --without-mpi.])])
])

AC_DEFUN([LOCO_OPENMPI_DIR], [
    AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$MPI_BINDIR$PATH_SEPARATOR$PATH])
    MPI_SYSCONFDIR=
    AS_IF([test -n "$OMPI_INFO"],
          [MPI_SYSCONFDIR=`$OMPI_INFO --path sysconfdir --parsable 2>/dev/null | sed -n 's/^path:sysconfdir://p'`])
    AC_DEFINE_UNQUOTED([LOCO_OPENMPI_VERSION], ["$MPI_VERSION"], [Open MPI that this is built for])
    AC_ARG_WITH([mca-dir],
        [AS_HELP_STRING([--with-mca-dir=DIR],
            [install the component here @<:@Open MPI's own component directory@:>@])],
        [MCA_DIR=$withval],
        [MCA_DIR=
         AS_IF([test -n "$OMPI_INFO"],
               [MCA_DIR=`$OMPI_INFO --path pkglibdir --parsable | sed 's/^path:pkglibdir://'`])])
    AC_MSG_CHECKING([where Open MPI keeps its components])
    AC_MSG_RESULT([$MCA_DIR])
    AS_CASE([$MCA_DIR], [''|/*|'$'*], [],
        [AC_MSG_ERROR([--with-mca-dir=$MCA_DIR is not an absolute path])])
    AS_IF([test -z "$MCA_DIR"], [LOCO_MISSING([ompi_info], [openmpi-bin])])
])

# SPDX-License-Identifier: BSD-3-Clause

# LOCO_MISSING(WHAT, PACKAGE): remember that WHAT was not found and which Debian package has it.
# LOCO_REPORT_MISSING names all of it at once, so that one round of installing is enough.
AC_DEFUN([LOCO_MISSING], [
    loco_missing="${loco_missing}
  $1: package $2"
    loco_missing_packages="${loco_missing_packages} $2"
])

AC_DEFUN([LOCO_REPORT_MISSING], [
    AS_IF([test -n "$loco_missing"], [
        AC_MSG_ERROR([not found (the package names are Debian's):$loco_missing
Install them: apt-get install$loco_missing_packages
or do without: see ./configure --help for --without-... switches.])])
])

# LOCO_TRY_CFLAGS(VARIABLE, FLAGS...): append to VARIABLE each flag that the compiler takes.
AC_DEFUN([LOCO_TRY_CFLAGS], [
    loco_save_cflags=$CFLAGS
    for loco_flag in $2; do
        AC_MSG_CHECKING([whether $CC takes $loco_flag])
        CFLAGS="$loco_save_cflags -Werror $loco_flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
            [AC_MSG_RESULT([yes])
             $1="${$1} $loco_flag"],
            [AC_MSG_RESULT([no])])
    done
    CFLAGS=$loco_save_cflags
])

# LOCO_TRY_LDFLAGS(VARIABLE, FLAGS...): the same for the linker.
AC_DEFUN([LOCO_TRY_LDFLAGS], [
    loco_save_ldflags=$LDFLAGS
    for loco_flag in $2; do
        AC_MSG_CHECKING([whether the linker takes $loco_flag])
        LDFLAGS="$loco_save_ldflags $loco_flag"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
            [AC_MSG_RESULT([yes])
             $1="${$1} $loco_flag"],
            [AC_MSG_RESULT([no])])
    done
    LDFLAGS=$loco_save_ldflags
])

# LOCO_PKG(VARIABLE, MODULE, WHAT, PACKAGE): a pkg-config module that must be there.
AC_DEFUN([LOCO_PKG], [
    PKG_CHECK_MODULES([$1], [$2], [], [LOCO_MISSING([$3], [$4])])
])

# LOCO_LIBDIR: does the loader search libdir by itself? LIBDIR_IS_SEARCHED is yes or no; where it does
# not, programs that are linked by what pkg-config says are told by LOCO_RPATH where the library is.
# /usr/local/lib is as good as unknown: it is known after the next ldconfig.
AC_DEFUN([LOCO_LIBDIR], [
    loco_libdir=`prefix=$prefix exec_prefix=$exec_prefix
        test "$prefix" != NONE || prefix=$ac_default_prefix
        test "$exec_prefix" != NONE || exec_prefix=$prefix
        eval "AS_ECHO([\"$libdir\"])"`
    AS_CASE([$loco_libdir],
        [/lib|/lib64|/usr/lib|/usr/lib64|/lib/*-linux-*|/usr/lib/*-linux-*],
        [LIBDIR_IS_SEARCHED=yes LOCO_RPATH=],
        [LIBDIR_IS_SEARCHED=no LOCO_RPATH='-Wl,-rpath,${libdir}'])
    AC_SUBST([LIBDIR_IS_SEARCHED])
    AC_SUBST([LOCO_RPATH])
])

dnl LOCO_RIVAL(NAME, header, library, function, package, script, LIBS): a library that a benchmark
dnl measures beside ours, whose programs take $(LIBS); where it is not there, the script bench/...
dnl does without and says so.
AC_DEFUN([LOCO_RIVAL], [
    m4_pushdef([rival], m4_tolower([$1]))dnl
    with_[]rival="no (package $5; bench/$6 does without)"
    AC_CHECK_HEADER([$2],
        [AC_CHECK_LIB([$3], [$4],
            [with_[]rival=yes
             $7="$$7 -l$3"
             AC_DEFINE([LOCO_HAVE_$1], [1], [$3 is there, for bench/$6])])])
    m4_popdef([rival])dnl
])

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the shared libraries export is what libloco.sym lists: every function of the public headers,
# and of the loci_ ones just those that the component, libloco_mpi and the tools need.
set -u
: "${srcdir:=.}" "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-exports.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
n=0
failed=0

# check TITLE FILE: passes if FILE, a list of what is wrong, is empty.
check() {
    n=$((n + 1))
    if [ -s "$2" ]; then
        echo "not ok $n - $1: $(tr '\n' ' ' <"$2")"
        failed=1
    else
        echo "ok $n - $1"
    fi
}

exported() { nm -D --defined-only "$1" | sed -n 's/^.* [TDBR] \([^@]*\).*$/\1/p' | sort -u; }
needed() { nm -D --undefined-only "$1" | sed -n 's/^ *U \(loci_[^@]*\).*$/\1/p'; }

# Prototypes begin in the first column of a header; typedefs and inline functions do not count.
declared() {
    sed -n -e '/^ *\*/d' -e '/^typedef/d' -e '/^static/d' \
        -e 's/^[a-z].*[ *]\(loco_[a-z0-9_]*\)(.*/\1/p' "$@" | sort -u
}

lib=$builddir/.libs/libloco.so
mpi=$builddir/osc_loco/.libs/libloco_mpi.so
component=$builddir/osc_loco/.libs/mca_osc_loco.so
[ -e "$lib" ] || { echo "no $lib"; exit 1; }

exported "$lib" >"$work/lib"
sed '/^#/d; /^$/d' "$srcdir/libloco.sym" | sort -u >"$work/listed"
headers=$(ls "$srcdir"/include/loco/*.h | grep -v '/mpi\.h$')
# shellcheck disable=SC2086
declared $headers >"$work/declared"
[ -s "$work/declared" ] || { echo "found no prototypes"; exit 1; }

comm -23 "$work/declared" "$work/lib" >"$work/bad"
check "public functions are exported" "$work/bad"
comm -3 "$work/listed" "$work/lib" | tr -d '\t' >"$work/bad"
check "exported is what libloco.sym lists" "$work/bad"
grep '^loco_' "$work/lib" | comm -13 "$work/declared" - >"$work/bad"
check "exported loco_ functions are declared in a public header" "$work/bad"

# Which release brought a function: Debian's packages of programs depend on that one or a later one.
in_table() { sed -n 's/^ \(loco_[a-z0-9_]*\)@.*/\1/p' "$srcdir/packaging/debian/$1" | sort; }
grep '^loco_' "$work/lib" >"$work/public"
in_table libloco0.symbols | comm -3 "$work/public" - | tr -d '\t' >"$work/bad"
check "packaging/debian/libloco0.symbols lists the same public functions" "$work/bad"

if [ -e "$component" ]; then
    for file in "$mpi" "$component" "$builddir/tools/.libs/"loco-[ailp]* \
                "$builddir/mpi_examples/.libs/"* "$builddir/bench/.libs/"*; do
        [ ! -f "$file" ] || needed "$file"
    done | sort -u >"$work/needed"
    exported "$mpi" >"$work/mpi"
    cat "$work/lib" "$work/mpi" | sort -u | comm -23 "$work/needed" - >"$work/bad"
    check "internal functions that others need are exported" "$work/bad"
    grep '^loci_' "$work/lib" | comm -13 "$work/needed" - >"$work/bad"
    check "no internal function is exported that nobody needs" "$work/bad"
    declared "$srcdir/include/loco/mpi.h" | comm -23 - "$work/mpi" >"$work/bad"
    check "libloco_mpi exports <loco/mpi.h>" "$work/bad"
    in_table libloco-mpi0.symbols >"$work/in_table"
    grep '^loco_' "$work/mpi" | comm -3 - "$work/in_table" | tr -d '\t' >"$work/bad"
    check "packaging/debian/libloco-mpi0.symbols lists the same functions" "$work/bad"
    exported "$component" | grep -v '^mca_osc_loco_component$' >"$work/bad"
    check "the component exports its table alone" "$work/bad"
fi
echo "1..$n"
exit $failed

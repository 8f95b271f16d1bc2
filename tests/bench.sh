#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Benchmarks that check what they measure: tiny runs, for the results alone. Not how fast anything
# is.
set -u
: "${srcdir:=.}" "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
n=0
failed=0

# status WANTED TITLE WORDS COMMAND...: it ends so, and says these words.
status() {
    wanted=$1 title=$2 words=$3
    shift 3
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    n=$((n + 1))
    if [ $got -eq "$wanted" ] && cat "$work/out" "$work/err" | grep -q -e "$words"; then
        echo "ok $n - $title"
    else
        sed 's/^/# /' "$work/out" "$work/err" | tail -n 20
        echo "not ok $n - $title: status $got, not $wanted"
        failed=1
    fi
}


search() {
    "$srcdir/bench/bfs_one_sided" --build "$builddir" --rivals '' --rate-rivals '' --rounds 1 "$@"
}

status 0 "a breadth-first search, checked against a serial one" '^search *3 *[0-9.]*[1-9]' \
    search --gate --parts search --ranks 3 --scale 7 --roots 2
status 1 "a search that lost an accumulate" '"check": "failed"' \
    "$builddir/tools/with-loco" mpirun --mca osc loco -np 2 "$builddir/bench/bfs" --scale 7 \
    --roots 1 --spoil
status 0 "single accumulates on memory of the program" '^create *3 *[0-9.]*[1-9]' \
    search --gate --parts rate --rate-ranks 3 --count 3000 --flavors create
status 0 "the same on attached memory" '^dynamic *2 *[0-9.]*[1-9]' \
    search --gate --parts rate --rate-ranks 2 --count 3000 --flavors dynamic
status 0 "windows made, touched, used and freed" '^3x8192 *3 *loco *[0-9.]*[1-9]' \
    "$srcdir/bench/build_phase" --build "$builddir" --rivals '' --rounds 1 --ranks 3 --sets 3x8192
status 0 "the same on memory that nobody touched" '^3x8192 *2 *loco *[0-9.]*[1-9]' \
    "$srcdir/bench/build_phase" --build "$builddir" --rivals '' --rounds 1 --ranks 2 --sets 3x8192 \
    --untouched
status 0 "accumulates of one element and of many in phases" '^vector ' \
    "$srcdir/bench/acc_phases_compare" --build "$builddir" --rivals sm --rounds 1 --repeat 2 --calls 300
status 2 "no such part" "no such part" search --parts walk
echo "1..$n"
exit $failed

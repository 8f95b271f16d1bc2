#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# loco-perf: it measures each row on both sides, and says what is wrong. Not how fast anything is.
set -u
: "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-perf.XXXXXX") || exit 1
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

perf=$builddir/tools/loco-perf
quick="--seconds 0.002 --rounds 1"
# shellcheck disable=SC2086
status 0 "all rows" '"row": "hand_over"' "$perf" $quick --json
n=$((n + 1))
if [ "$(grep -c '_us": 0\.0*[1-9]\|_us": [1-9]' "$work/out")" -eq 9 ]; then
    echo "ok $n - nine rows, which took time"
else
    sed 's/^/# /' "$work/out"
    echo "not ok $n - nine rows, which took time"
    failed=1
fi
# shellcheck disable=SC2086
status 1 "a row above the gate" put_rate "$perf" $quick --rows put_rate --gate 0.01
status 2 "no such row" "'put,gut' will not do" "$perf" --rows put,gut
status 2 "no such number" "'0' will not do" "$perf" --rounds 0
status 2 "no such device" "no RDMA device can be used\|without-verbs" \
    env LOCO_FABRIC=verbs LOCO_DEVICE=none7 "$perf" --rows put
echo "1..$n"
exit $failed

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# loco-perf: it measures each row on both sides, and operations by size, here and with who is called; and it
# says what is wrong. Not how fast anything is.
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

# ---- by size ----

# verdict TITLE COMMAND...: passed if it is true.
verdict() {
    title=$1
    shift
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $title"
    else
        sed 's/^/# /' "$work/out" "$work/err" | tail -n 20
        echo "not ok $n - $title"
        failed=1
    fi
}

# sound FIRST LAST OUTSTANDING: a line for each size between these; times that grow from the least on, MB/s that go
# with the number of operations, and no more samples a second than operations alone allow.
sound() {
    sed 's/[{}",:]/ /g' "$work/out" | awk -v next_size="$1" -v last="$2" -v out="$3" '
        { for (i = 1; i < NF; i += 2) v[$i] = $(i + 1) }
        v["bytes"] != next_size || v["outstanding"] != out { print "# sizes"; bad = 1 }
        v["min_us"] <= 0 || v["min_us"] > v["median_us"] || v["median_us"] > v["p99_us"] ||
            v["p99_us"] > v["p99_9_us"] || v["p99_9_us"] > v["max_us"] { print "# times"; bad = 1 }
        v["MB_s"] < v["M_s"] * v["bytes"] * .99 - .001 || v["MB_s"] > v["M_s"] * v["bytes"] * 1.01 + .001 ||
            v["M_s"] <= 0 || v["samples"] < 20 { print "# rates"; bad = 1 }
        { next_size *= 2 }
        END { exit bad || next_size != 2 * last }'
}

for op in put get; do
    # shellcheck disable=SC2086
    status 0 "$op by size" "\"op\": \"$op\"" "$perf" $quick --op $op --sizes 64-4K --outstanding 7 --json
    verdict "its figures" sound 64 4096 7
done
for op in fetch_add compare_swap; do
    # shellcheck disable=SC2086
    status 0 "$op, of a word" "\"op\": \"$op\"" "$perf" $quick --op $op --json
    verdict "its figures" sound 8 8 64
done
# shellcheck disable=SC2086
status 0 "a table" 'MB/s' "$perf" $quick --op get --sizes 3
status 2 "no such operation" "'pat' will not do" "$perf" --op pat
for sizes in 0 9-8 8-2G 8x -8 8-; do
    status 2 "no such sizes, $sizes" "will not do" "$perf" --op put "--sizes=$sizes"
done
status 2 "rows of another machine" "processes of this machine" "$perf" --rows put localhost
status 2 "a listener that measures" "usage:" "$perf" --listen --op put
status 2 "nobody listens" "is loco-perf --listen running there" "$perf" localhost --port 1

# together WANTED TITLE WORDS OPTION...: the same with a listener, which ends with the same status.
together() {
    wanted=$1 title=$2 words=$3
    shift 3
    for port in $(seq $(($$ % 10000 + 20000)) $(($$ % 10000 + 20009))); do
        timeout 60 "$perf" --listen --port "$port" 2>"$work/listener" </dev/null &
        listener=$!
        for _ in $(seq 100); do
            grep -q . "$work/listener" && break
            sleep 0.1
        done
        grep -q 'listening on port' "$work/listener" && break
        wait $listener
    done
    [ -z "${stranger-}" ] || { command -v bash >/dev/null && bash -c "echo hello >/dev/tcp/localhost/$port"; }
    # shellcheck disable=SC2086
    status "$wanted" "$title" "$words" timeout 60 "$perf" $quick --json --port "$port" localhost "$@"
    wait $listener
    got=$?
    cp "$work/listener" "$work/err"
    verdict "$title: the listener ends" [ $got -eq "$wanted" ]
}

for fabric in shm tcp; do
    export LOCO_FABRIC=$fabric
    together 0 "another process, over $fabric" '"op": "get"' --op get --sizes 8-16K --outstanding 5
    verdict "its figures" sound 8 16384 5
done
stranger=yes
together 0 "after a stranger" '"op": "put"' --sizes 8
verdict "who is said" grep -q 'a caller: it is no loco-perf' "$work/listener"
unset LOCO_FABRIC
echo "1..$n"
exit $failed

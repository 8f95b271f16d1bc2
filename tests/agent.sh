#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# loco-agent: start, status and stop; what is wrong use; what a pool in the background keeps of its caller's.
# Speaks TAP.
set -u
: "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-agent.XXXXXX") || exit 1
tool=$builddir/tools/loco-agent
pool=agent-test-$$
trap '"$tool" stop --pool "$pool" >/dev/null 2>&1; rm -rf "$work"' EXIT
export XDG_RUNTIME_DIR="$work" LC_ALL=C
n=0
failed=0

# status WANTED TITLE PATTERN COMMAND...: it ends so, and a line of what it prints matches (grep -E).
status() {
    wanted=$1 title=$2 pattern=$3
    shift 3
    timeout -k 5 $((30 * ${TEST_SCALE:-1})) "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    n=$((n + 1))
    if [ $got -eq "$wanted" ] && { [ -z "$pattern" ] || grep -q -E -e "$pattern" "$work/out"; }; then
        echo "ok $n - $title"
    else
        sed 's/^/# /' "$work/out" | tail -n 20
        echo "not ok $n - $title: status $got, not $wanted"
        failed=1
    fi
}

status 1 "a pool that is not there has no status" "$pool" "$tool" status --pool "$pool"
status 2 "wrong use is an error" usage "$tool" begin --pool "$pool"
# The caller has a lock, and a pipe that somebody reads to its end.
exec 8>"$work/lock"
flock 8
{ "$tool" start --pool "$pool" --memory 64M >"$work/started" 2>&1; } 7>"$work/seven"
status 0 "it starts in the background" "pool $pool is there" cat "$work/started"
status 0 "its status" "$pool" "$tool" status --pool "$pool"
flock -u 8
exec 8>&-
status 0 "it keeps no lock of its caller's" got flock -n "$work/lock" echo got
pid=$(sed -n 's/.*(pid \([0-9]*\)).*/\1/p' "$work/started")
kept() { find "/proc/$pid/fd" -lname "$work/lock" -o -lname "$work/seven" | grep . || echo nothing; }
kept >"$work/kept"
status 0 "and nothing that was open" '^nothing$' cat "$work/kept"
status 1 "a second one of that name is an error" "$pool" "$tool" start --pool "$pool" --memory 64M
kill -STOP "$pid"
status 124 "who waits for a stopped one is told so" "is it stopped" timeout 5 "$tool" status --pool "$pool"
kill -CONT "$pid"
status 0 "it stops" '' "$tool" stop --pool "$pool"
status 1 "and then is not there" "$pool" "$tool" status --pool "$pool"
# Each agent is born later than the one before, wherever the clock has gone since: the lock's file tells when,
# here some 30 years ahead of now.
lock=$(find "$work" -name "$pool.lock")
printf '\001\002\003\004\005\006\007\040' | dd of="$lock" conv=notrunc 2>/dev/null
before=$(od -A n -t u8 -N 8 "$lock" | tr -d ' ')
status 0 "another one starts" '' "$tool" start --pool "$pool" --memory 64M
born=$(od -A n -t u8 -N 8 "$lock" | tr -d ' ')
status 0 "and is younger than the one before" '^yes$' sh -c '[ "$1" -gt "$2" ] && echo yes' sh "$born" "$before"
status 0 "it stops, too" '' "$tool" stop --pool "$pool"
echo "1..$n"
exit $failed

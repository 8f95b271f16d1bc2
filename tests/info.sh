#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# loco-info: what it says of TCP follows LOCO_TCP_IF and LOCO_TCP_PORTS, as text and as JSON; and why there is
# none. Speaks TAP.
set -u
: "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-info.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
for name in $(env | sed -n 's/^\(LOCO_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
n=0
failed=0

# says TITLE PATTERN SETTING...: with these settings a line matches (grep -E).
says() {
    title=$1 pattern=$2
    shift 2
    env "$@" "$builddir/tools/loco-info" >"$work/out" 2>&1 </dev/null
    n=$((n + 1))
    if grep -q -E -e "$pattern" "$work/out"; then
        echo "ok $n - $title"
    else
        grep 'tcp' "$work/out" | sed 's/^/# /'
        echo "not ok $n - $title"
        failed=1
    fi
}

any=LOCO_TCP_IF=auto
says "tcp is a fabric" '^  tcp +available  \(for jobs on several machines without RDMA devices, or with LOCO_FABRIC=tcp\)' \
    $any
says "its addresses" '^  tcp: address 1 +[0-9a-f.:]+  \(.+\)' $any
says "any port" '^  tcp: ports +any  \(the system chooses; LOCO_TCP_PORTS\)' $any
says "an interface that is named" '^  tcp: address 1 +127\.0\.0\.1  \(lo, which leads to this machine alone\)' \
    LOCO_TCP_IF=lo
says "a network that is named" '^  tcp: address 1 +127\.0\.0\.1  \(lo,' LOCO_TCP_IF=127.0.0.0/8
says "ports that are named" '^  tcp: ports +7000-7063  \(one for each process of this machine; LOCO_TCP_PORTS\)' \
    LOCO_TCP_PORTS=7000-7063
says "no such interface" '^  tcp +not available  \(no network interface .* LOCO_TCP_IF=none7 allows\)' \
    LOCO_TCP_IF=none7
says "no such network" '^  tcp +not available  \(LOCO_TCP_IF: "10\.0\.0\.0/99" does not begin with' \
    LOCO_TCP_IF=10.0.0.0/99
says "no such ports" '^  tcp +not available  \(LOCO_TCP_PORTS=9-8: allowed is auto, or FIRST-LAST' \
    LOCO_TCP_PORTS=9-8

LOCO_TCP_IF=lo "$builddir/tools/loco-info" --json >"$work/out"
n=$((n + 1))
if grep -q '"tcp: address 1": { "value": "127.0.0.1", "note": "lo, which leads to this machine alone" }' "$work/out"; then
    echo "ok $n - the same as JSON"
else
    grep tcp "$work/out" | sed 's/^/# /'
    echo "not ok $n - the same as JSON"
    failed=1
fi
echo "1..$n"
exit $failed

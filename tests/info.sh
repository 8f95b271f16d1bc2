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
if grep -q '"tcp_address_1": { "value": "127.0.0.1", "note": "lo, which leads to this machine alone" }' "$work/out"; then
    echo "ok $n - the same as JSON"
else
    grep tcp "$work/out" | sed 's/^/# /'
    echo "not ok $n - the same as JSON"
    failed=1
fi

LOCO_TCP_IF=auto
export LOCO_TCP_IF
# is TITLE CONDITION...: of what loco-info with the words in $words says, in out and err, and its status.
is() {
    title=$1
    shift
    # shellcheck disable=SC2086
    "$builddir/tools/loco-info" $words >"$work/out" 2>"$work/err" </dev/null
    status=$?
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $title"
    else
        sed 's/^/# /' "$work/out" "$work/err" | head -n 20
        echo "not ok $n - $title: status $status"
        failed=1
    fi
}
tcp_alone() {
    grep -q '^  LOCO_TCP_PORTS' "$work/out" && grep -q '^  tcp ' "$work/out" \
        && ! grep '^  [A-Za-z]' "$work/out" | grep -v -i -q tcp
}
section_alone() { grep -q '^versions$' "$work/out" && ! grep -q '^node$' "$work/out"; }
plain_keys() {
    python3 -c 'import json, re, sys
def once(pairs):
    keys = [key for key, value in pairs]
    assert len(set(keys)) == len(keys), keys
    return dict(pairs)
keys = [k for s in json.load(open(sys.argv[1]), object_pairs_hook=once).values() for k in s]
assert len(keys) > 40 and all(re.fullmatch("[A-Za-z0-9_]+", k) for k in keys), keys' "$work/out"
}
names_it() { [ $status -eq 2 ] && grep -q 'called "tpc"' "$work/err" && ! grep -q . "$work/out"; }
words=TCP
is "a word chooses lines of all sections" tcp_alone
words=versions
is "the name of a section chooses it" section_alone
words="--json"
is "keys of the JSON are plain words, and no two lines have the same" plain_keys
words="tcp tpc"
is "a word that is about nothing is an error" names_it
echo "1..$n"
exit $failed

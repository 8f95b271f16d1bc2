# SPDX-License-Identifier: BSD-3-Clause
# What tools/demo and tools/check share; sourced by bash, in the top folder of the tree.

started=$SECONDS
logs=                                   # folder of the logs of steps, set by prepare_place
jobs=$(nproc 2>/dev/null || echo 2)

step_pid=
stop_step() { [ -z "$step_pid" ] || kill "$step_pid" 2>/dev/null || true; }
trap stop_step EXIT

say() { printf '%s\n' "$*"; }
section() { printf '\n[%3d s] == %s\n' $((SECONDS - started)) "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# last_news LOG: the test that is running, or the last line of the log.
last_news() {
    if [ "$LOCO_TEST_NOW" -nt "$1" ]; then
        echo "running $(cat "$LOCO_TEST_NOW")"
    else
        tail -c 400 "$1" | tr -d '\r' | grep -v '^ *$' | tail -n 1
    fi
}

# step LIMIT LOG COMMAND...: run it with stdin closed, output into a log, at most LIMIT seconds; a
# line of progress each 15 seconds; on failure the end of the log. Returns the command's status.
# What does not end when told to is killed after $grace seconds (10).
step() {
    local limit=$1 log="$logs/$2.log" begin=$SECONDS rc=0 shown=$SECONDS
    shift 2
    timeout -k "${grace:-10}" "$limit" "$@" </dev/null >"$log" 2>&1 &
    step_pid=$!
    while kill -0 "$step_pid" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - shown)) -ge 15 ]; then
            shown=$SECONDS
            printf '         %d s: %.90s\n' $((SECONDS - begin)) "$(last_news "$log")"
        fi
    done
    wait "$step_pid" || rc=$?
    step_pid=
    if [ $rc -ne 0 ]; then
        [ $rc -ne 124 ] || say "         stopped after $limit s"
        say "         failed with status $rc: $*"
        say "         the end of $log:"
        tail -n 25 "$log" | sed 's/^/         | /'
    fi
    return $rc
}

# packages GROUP...: names from tools/packages.
packages() {
    local group
    for group in "$@"; do
        sed -n "s/^$group  *//p" tools/packages
    done
}

# need_packages GROUP...: install what is missing; an ordinary user is told the command.
need_packages() {
    local name missing=()
    if ! command -v dpkg-query >/dev/null; then
        say "Not a Debian: configure will say what is missing."
        return
    fi
    for name in $(packages "$@"); do
        dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed' \
            || missing+=("$name")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        say "All packages are there."
        return
    fi
    say "Missing: ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        die "please have root run: apt-get install --no-install-recommends ${missing[*]}"
    fi
    export DEBIAN_FRONTEND=noninteractive
    say "Asking the package archive (apt-get update)"
    step 300 apt-update apt-get update
    say "Installing (apt-get install)"
    step 1200 apt-install apt-get install -y --no-install-recommends "${missing[@]}"
}

# prepare_place: logs, and where this user may not write into the tree a copy of it elsewhere.
prepare_place() {
    local copy odd
    odd=$(find . -maxdepth 1 \( -name . -o -name 'build*' -o -name configure \) ! -writable)
    if [ -n "$odd" ]; then
        copy=${TMPDIR:-/tmp}/osc_loco-$(id -u)
        say "You may not write into this tree; working in a copy of it, $copy"
        mkdir -p "$copy"
        tar -cf - --exclude='./build*' --exclude=./.git --exclude=./configure \
            --exclude=./autom4te.cache --exclude=./aclocal.m4 --exclude=./config.h.in . \
            | tar -xf - -C "$copy"
        cd "$copy"
    fi
    logs=$PWD/build-logs
    mkdir -p "$logs"
    export LOCO_TEST_NOW=$logs/now
    rm -f "$LOCO_TEST_NOW"
}

need_configure() {
    if [ ! -x configure ] || [ ! -f build-aux/ltmain.sh ] || [ configure.ac -nt configure ]; then
        say "Making ./configure (autogen.sh)"
        step 300 autogen ./autogen.sh
    fi
}

# build FOLDER LOG CONFIGURE_OPTION...: configure (once) and make $build_what (all) there, each in
# $build_limit seconds (300, 900).
build() {
    local folder=$1 log=$2
    shift 2
    mkdir -p "$folder"
    if [ ! -f "$folder/Makefile" ]; then
        say "Configuring in $folder ${*:+($*)}"
        step "${build_limit:-300}" "$log-configure" env -C "$folder" ../configure "$@" || return 1
    fi
    say "Building in $folder"
    step "${build_limit:-900}" "$log-make" make -C "$folder" -j"$jobs" "${build_what:-all}"
}

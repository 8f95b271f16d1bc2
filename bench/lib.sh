# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What the scripts beside it share. Bash and awk, nothing else.

# Where the build is: --build, else build/ beside bench/, else the folder that make is used in.
build=
work=

die() { echo "$name: $*" >&2; exit 2; }

# Every number that an option takes.
need_number() { # OPTION VALUE PATTERN
    [[ ${2-} =~ ^$3$ ]] || die "$1 takes a number, not '${2-}'"
}

find_build() { # PROGRAM...
    local here program
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    if [ -z "$build" ]; then
        for build in "$here/build" "$here" "$PWD" "$PWD/.."; do
            [ ! -x "$build/$1" ] || break
        done
    fi
    for program; do
        [ -x "$build/$program" ] || die "no $program in $build; build first, or say --build DIR"
    done
    build=$(cd "$build" && pwd)
}

# A folder of our own, and no process left behind when we are interrupted.
make_work() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
}

# mpi LIMIT COMPONENT RANKS PROGRAM...: the component may be one of ours or Open MPI's. Naming one
# overrides the list of those that Debian's system file excludes. In the foreground: what ends the
# script's process group, a Ctrl-C for one, ends mpirun too, which would go on in a group of its own.
# `rank_command`: what runs each rank's program.
rank_command=()
mpi() {
    local limit=$1 component=$2 ranks=$3 with=()
    shift 3
    [ ! -x "$build/tools/with-loco" ] || with=("$build/tools/with-loco")
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    timeout --foreground -k 5 "$limit" "${with[@]}" mpirun --mca osc "$component" --oversubscribe \
        -np "$ranks" "${rank_command[@]}" "$@" </dev/null
}

# Ranks whose data goes through these RDMA devices. Open MPI itself keeps to shared memory and the loopback
# interface.
over_wire() { # DEVICES
    rank_command=(bash "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/on_wire" "$1")
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo
}

# Progress on stderr: over itself on a terminal, line by line elsewhere.
say() {
    if [ -t 2 ]; then
        printf '\r\033[K%s' "$*" >&2
    else
        printf '%s\n' "$*" >&2
    fi
}

said() { [ ! -t 2 ] || printf '\r\033[K' >&2; }

# For awk: the median of the numbers in v[1..n], which are sorted on the way.
awk_median='
function median(v, n,    i, k, x) {
    for (i = 2; i <= n; i++) {
        x = v[i]
        for (k = i - 1; k > 0 && v[k] > x; k--)
            v[k + 1] = v[k]
        v[k + 1] = x
    }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}'

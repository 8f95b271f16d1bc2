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
    reasons=$work/reasons
    : >"$reasons"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
}

# mpi LIMIT COMPONENT RANKS PROGRAM...: the component may be one of ours or Open MPI's. Naming one
# overrides the list of those that Debian's system file excludes. In the foreground: what ends the
# script's process group, a Ctrl-C for one, ends mpirun too, which would go on in a group of its own.
# `rank_command`: what runs each rank's program. `launch_command` runs mpirun, with `launch_options`;
# prepare_launch may set them for the component and the number of ranks.
rank_command=()
launch_command=()
launch_options=()
prepare_launch() { :; } # COMPONENT RANKS
mpi() {
    local limit=$1 component=$2 ranks=$3 with=()
    shift 3
    [ ! -x "$build/tools/with-loco" ] || with=("$build/tools/with-loco")
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    prepare_launch "$component" "$ranks"
    timeout --foreground -k 5 "$limit" "${with[@]}" "${launch_command[@]}" \
        mpirun --mca osc "$component" --oversubscribe "${launch_options[@]}" -np "$ranks" \
        "${rank_command[@]}" "$@" </dev/null
}

# Ranks whose data goes through these RDMA devices. Open MPI itself keeps to shared memory and the loopback
# interface.
over_wire() { # DEVICES
    rank_command=(bash "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/on_wire" "$1")
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo
}

# What runs rma_bench for several components in turn. The script has `rows` and `patience`, sets
# `bench_options`, and has take_figures OUTPUT ROUND COMPONENT. Reasons: component, flavor, row, ranks, why
# there is no figure.
bench_options=()
reasons=
declare -A skip

# Rows that the component refused are not asked for again.
take_refusals() { # OUTPUT COMPONENT RANKS
    local row flavor why
    while IFS=$'\t' read -r row flavor why; do
        echo "$2 $flavor $row $3 refused: $why" >>"$reasons"
        skip[$2-$3]+=",$row.$flavor"
    done < <(awk -F'"' '/"refused"/ { printf "%s\t%s\t%s\n", $4, $8, $(NF - 1) }' "$1")
}

# The row that had begun and did not end.
unfinished() { # OUTPUT
    awk -F'"' '/^\{"begin"/ { open = $4 } /^\{"row"/ { open = "" } END { print open }' "$1"
}

# One component on some ranks. A row in which it crashes or hangs is left out from then on, and the
# rows behind it are tried again without it.
run_one() { # ROUND COMPONENT RANKS
    local round=$1 component=$2 n=$3 out=$work/out rc open done_rows= row flavor why
    local args=("${bench_options[@]}")
    [ -z "$rows" ] || args+=(--rows "$rows")
    while :; do
        rc=0
        mpi "$patience" "$component" "$n" "$build/bench/rma_bench" "${args[@]}" \
            --skip "${skip[$component-$n]-}$done_rows" >"$out" 2>"$work/err" || rc=$?
        take_figures "$out" "$round" "$component"
        take_refusals "$out" "$component" "$n"
        [ $rc -ne 0 ] || return 0
        why="crashed"
        [ $rc -ne 124 ] && [ $rc -ne 137 ] || why="hung"
        open=$(unfinished "$out")
        if [ -z "$open" ]; then
            echo "$component all all $n does not run: $(grep -v '^[- ]*$' "$work/err" |
                head -n 1 | cut -c 1-100 | tr -d '"\\')" >>"$reasons"
            skip[$component-$n]=all
            return 0
        fi
        row=${open%.*} flavor=${open#*.}
        echo "$component $flavor $row $n $why" >>"$reasons"
        skip[$component-$n]+=",$open"
        done_rows=$(awk -F'"' '/^\{"row"/ { printf ",%s.%s", $4, $8 }' "$out")$done_rows
    done
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

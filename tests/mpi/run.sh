#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh [-e] [-l LIST] [PROGRAM [ARGUMENTS...]]: run the MPI tests with one OSC component;
# speaks TAP.
#
#   PROGRAM     a built test (a path), or its name; with ARGUMENTS only that run, else all its
#               lines of `testlist`. Without PROGRAM: the whole list. With loco, `windows` also
#               asserts that loco is selected for each flavor.
#   -e          each case under an mpirun of its own: a crash or hang costs one case only
#   -l LIST     another list
#
# Environment:
#   OSC         the component: loco (default), rdma, sm, ucx, pt2pt, or "default" for stock's choice
#   BIN         where the programs are; those that are missing are built there (default: a
#               temporary folder)
#   TL_RANKS    this many ranks instead of the list's, and then each line but once: those that differ
#               in their ranks alone, or pick a flavor of what another runs whole, are one
#   MPIRUN_ARGS more arguments for mpirun
#   RANK_COMMAND  what runs each rank's program: a command that its name and arguments follow
#   RUN_LIMIT   seconds for one mpirun (600)
# and the tests' own: TL_SECONDS (limit of one case), TL_TIMEOUT_SCALE, TL_ONE_OF, TL_HANG_ABORTS.
set -u
here=$(cd "$(dirname "$0")" && pwd)
list=$here/testlist
each=no
while getopts el: option; do
    case $option in
    e) each=yes ;;
    l) list=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

OSC=${OSC:-loco}
CFLAGS=${CFLAGS:--std=gnu11 -Wall -Wextra -O1 -g -pthread}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI 5.0 connects spawned processes to their parents by TCP, and finds a way from this machine
# to itself by this interface alone; all tests are of one machine.
export OMPI_MCA_btl_tcp_if_include="${OMPI_MCA_btl_tcp_if_include:-lo}"
if [ "$OSC" != loco ]; then
    # Stock components refuse some windows, and promise no progress without the target.
    export TL_REFUSED_IS_SKIP=1
    [ "$OSC" = sm ] || export TL_NO_PROGRESS=1
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-mpi-tests.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
BIN=${BIN:-$work}
number=0
passed=0
failed=0
skipped=0

ok() {
    number=$((number + 1))
    passed=$((passed + 1))
    echo "ok $number - $1"
}

not_ok() {
    number=$((number + 1))
    failed=$((failed + 1))
    echo "not ok $number - $1"
}

skip() {
    number=$((number + 1))
    skipped=$((skipped + 1))
    echo "ok $number - $1 # SKIP $2"
}

run_mpi() {
    ranks=$1
    shift
    case $OSC in
    default) set -- ${RANK_COMMAND:-} "$@" ;;
    *) set -- --mca osc "$OSC" ${RANK_COMMAND:-} "$@" ;;
    esac
    # shellcheck disable=SC2086
    timeout -k 5 "${RUN_LIMIT:-600}" mpirun --oversubscribe -np "$ranks" ${MPIRUN_ARGS:-} "$@"
}

# The path of a program; builds it if it is not there.
find_program() {
    case $1 in
    */*) echo "$1"; return ;;
    esac
    if [ ! -x "$BIN/$1" ]; then
        # shellcheck disable=SC2086
        mpicc $CFLAGS -o "$BIN/$1" "$here/$1.c" "$here/testlib.c" "$here/elems.c" \
            "$here/typemap.c" >&2 || return 1
    fi
    echo "$BIN/$1"
}

# Turns the lines of one run into TAP; a run that fails without saying why is a failure.
report() {
    what=$1
    status=$2
    before=$failed
    while IFS= read -r line; do
        case $line in
        "PASS "*) ok "${line#PASS } $what" ;;
        "FAIL "*) not_ok "${line#FAIL } $what" ;;
        "SKIP "*) name=${line#SKIP }; skip "${name%%: *} $what" "${name#*: }" ;;
        *" passed, "*) ;;
        *) echo "# $line" ;;
        esac
    done <"$work/out"
    if [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ]; then
        not_ok "$what: exit status $status, though no case failed"
    elif [ "$status" -eq 0 ] && ! grep -q ' passed, ' "$work/out"; then
        not_ok "$what: ended without a summary"
    fi
}

run_one() {
    program=$1
    ranks=${TL_RANKS:-$2}
    shift 2
    tries=1
    while :; do
        run_mpi "$ranks" "$program" "$@" >"$work/out" 2>&1
        status=$?
        # Open MPI 4.1's own MPI_Comm_spawn hangs now and then, whatever the component.
        if [ $tries -eq 6 ] ||
            ! grep -q "hung in MPI_\(Comm_\|Intercomm_merge\)" "$work/out"; then
            break
        fi
        echo "# Open MPI hung in making or leaving spawned processes: try $((tries += 1))"
    done
    report "($(basename "$program") $* on $OSC, $ranks ranks)" $status
}

run_each() {
    each_program=$1
    each_ranks=$2
    shift 2
    "$each_program" --list >"$work/cases" || return
    while read -r case_name flavors; do
        if [ "$flavors" = flavors ] && { [ $# -eq 0 ] || [ "$*" = --fitting ]; }; then
            for flavor in allocate shared create dynamic; do
                run_one "$each_program" "$each_ranks" --only "$case_name" --flavor "$flavor" \
                    "$@" </dev/null
            done
        else
            run_one "$each_program" "$each_ranks" --only "$case_name" "$@" </dev/null
        fi
    done <"$work/cases"
}

run_line() {
    name=$1
    shift
    found=$(find_program "$name") || { not_ok "$name: does not build"; return; }
    if [ "$each" = yes ]; then
        run_each "$found" "$@"
    else
        run_one "$found" "$@"
    fi
}

# repeats NAME [ARGUMENTS]: with the same ranks for all lines, has one before done what this one does?
# The lines that have been run are in $lines_run, `/`-separated.
repeats() {
    [ -n "${TL_RANKS-}" ] || return 1
    case $lines_run in *"/$*/"*) return 0 ;; esac
    case $2 in
    --fitting) return 0 ;;      # another line of the program has all cases, as is checked below
    --flavor\ *) case $lines_run in *"/$1 /"*) return 0 ;; esac ;;
    esac
    return 1
}

run_list() {
    wanted=$1
    found_any=no
    lines_run=/
    while read -r line_name line_ranks line_arguments; do
        case $line_name in
        '' | '#'*) continue ;;
        esac
        if [ -z "$wanted" ] || [ "$line_name" = "$(basename "$wanted")" ]; then
            found_any=yes
            repeats "$line_name" "$line_arguments" && continue
            lines_run="$lines_run$line_name $line_arguments/"
            # shellcheck disable=SC2086
            run_line "${wanted:-$line_name}" "$line_ranks" $line_arguments </dev/null
        fi
    done <"$list"
    [ $found_any = yes ] || not_ok "$wanted: no line in $list"
    # What does not fit one line has to be run, or skipped with its reason, by another.
    for lone in $(awk '/^#/ || NF == 0 { next }
            { all[$1]; if ($0 !~ / --fitting/) whole[$1] }
            END { for (name in all) if (!(name in whole)) print name }' "$list"); do
        not_ok "$lone: all of its lines in $list are --fitting"
    done
}

# Is it loco that serves each flavor? Open MPI itself does not say which component it selected;
# loco does, once on each rank.
selection() {
    found=$(find_program windows) || { not_ok "windows: does not build"; return; }
    for flavor in allocate shared create dynamic; do
        MPIRUN_ARGS="${MPIRUN_ARGS:-} --mca osc_base_verbose 100" \
            run_mpi 2 "$found" --only group --flavor "$flavor" >"$work/out" 2>&1
        said=$(grep -c "osc loco: selected for a window" "$work/out")
        if [ "$flavor" = shared ] && [ -n "${TL_REFUSED_IS_SKIP:-}" ] && grep -q "^SKIP" "$work/out"; then
            skip "selection[$flavor]" "refused"
        elif ! grep -q "^PASS" "$work/out"; then
            not_ok "selection[$flavor]: the window was not made"
        elif [ "$said" -eq 2 ]; then
            ok "selection[$flavor]: loco is selected"
        else
            not_ok "selection[$flavor]: $said of 2 ranks say that loco is selected"
        fi
    done
}

# A component that is there, and that nobody asks for, serves no window: not even those that all others
# decline, as some do of one process.
unasked() {
    found=$(find_program windows) || { not_ok "windows: does not build"; return; }
    for asked in "" "--mca osc ^ucx" "--mca osc ^rdma,ucx,pt2pt" \
        "--mca osc ^rdma,ucx,pt2pt --mca osc_loco_priority 5" "--mca osc sm,loco"; do
        # shellcheck disable=SC2086
        OSC=default MPIRUN_ARGS="${MPIRUN_ARGS:-} $asked --mca osc_base_verbose 100" TL_REFUSED_IS_SKIP=1 \
            run_mpi 1 "$found" --only group --flavor create >"$work/out" 2>&1
        said=$(grep -c "osc loco: selected for a window" "$work/out")
        case $asked:$said in
        *loco*:0) not_ok "unasked[$asked]: loco does not serve what the others decline" ;;
        *loco*:* | *:0) ok "unasked[$asked]: loco is selected $said times" ;;
        *) not_ok "unasked[$asked]: loco is selected $said times" ;;
        esac
    done
}

if [ $# -gt 1 ]; then
    program=$1
    shift
    run_line "$program" "${TL_RANKS:-4}" "$@"
elif [ $# -eq 1 ]; then
    run_list "$1"
    [ "$(basename "$1")" != windows ] || [ "$OSC" != loco ] || { selection; unasked; }
else
    run_list ""
    [ "$OSC" != loco ] || { selection; unasked; }
fi
echo "1..$number"
echo "# $passed passed, $failed failed, $skipped skipped with OSC $OSC"
[ "$failed" -eq 0 ]

# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Machines for the scripts beside it: namespaces of this one, of tests/machines. Sourced after lib.sh, whose
# mpi() then deals ranks out to the machines in turn.

# Without machines the script starts itself anew on the first of N of them. Where there can be none, it ends
# with 77 and says why.
need_machines() { # N SCRIPT ARGUMENTS...
    local tools n=$1
    shift
    [ -z "${MACHINES-}" ] || return 0
    tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/machines" && pwd)
    exec "$tools/machines" -n "$n" -t 14400 -- bash "$@"
}

# What goes from machine 1 to machine 2 in plain sockets: raw_tcp's line.
raw_between() { # OPTION...
    local port
    coproc RAW { on 2 "$build/bench/raw_tcp" serve; }
    read -r port <&"${RAW[0]}"
    "$build/bench/raw_tcp" ask "$(cut -d ' ' -f 2 <<<"$MACHINES")" "$port" "$@"
    eval "exec ${RAW[1]}>&-"
    wait "$RAW_PID" || true
}

# What a user would take who has no RDMA device, the first before the others.
stock_components() {
    case $(mpirun --version 2>/dev/null) in
    *' 4.'*) echo pt2pt,ucx ;;
    *) echo rdma,ucx ;;
    esac
}

# Where ranks outnumber the processors, those that wait yield: without it stock components, whose waiters
# spin, take hundreds of times as long. UCX takes TCP only if told to.
prepare_launch() { # COMPONENT RANKS
    local hosts='' k count
    count=$(wc -w <<<"$MACHINES")
    for ((k = 1; k <= count; k++)); do
        hosts+=${hosts:+,}machine$k:64
    done
    export LOCO_FABRIC=${LOCO_FABRIC-tcp}
    export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
    launch_options=(--host "$hosts" --map-by node --mca pml ob1)
    if [ "$1" = ucx ]; then
        launch_options+=(--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any
                         -x UCX_TLS=tcp,self -x UCX_NET_DEVICES=eth0)
    fi
    [ "$2" -le "$(nproc)" ] || launch_options+=(--mca mpi_yield_when_idle 1)
}

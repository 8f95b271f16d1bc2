# SPDX-License-Identifier: BSD-3-Clause
#
# parts.sh PART: one part of the tests over several machines, on the first of `machines`; speaks TAP.
# $srcdir, $builddir; LOCO_FABRIC is tcp unless it is set.
set -u
number=0
here=$srcdir/tests/machines
export LOCO_FABRIC=${LOCO_FABRIC-tcp}
read -ra machine <<<"$MACHINES"

# wired WHAT: how many packets were sent, lost, reordered or duplicated by --netem's network.
wired() {
    [ -n "${MACHINE_WIRE-}" ] || { echo 0; return; }
    sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$MACHINE_WIRE" | head -n 1
}

# check NAME LIMIT COMMAND...: a test is passed if the command ends well within LIMIT seconds. What was counted or
# measured is shown; of one that failed, how it ended.
check() {
    local name=$1 limit=$(($2 * ${TEST_SCALE:-1})) status=0 lost said=$TMPDIR/said
    shift 2
    lost=$(wired lost) SECONDS=0
    timeout -k 5 "$limit" "$@" >"$said" 2>&1 </dev/null || status=$?
    grep -a -E '^#.* passed, | at most |^right: |told after|MiB/s|torn|closed,|gone on' "$said" | tail -n 40 | sed 's/^#* */# /'
    echo "# $SECONDS s"
    [ -z "${MACHINE_WIRE-}" ] || echo "# $(($(wired lost) - lost)) packets lost"
    number=$((number + 1))
    case $status in
    0) echo "ok $number - $name" ;;
    77) echo "ok $number - $name # SKIP $(tail -n 1 "$said")" ;;
    *)
        { grep -a '^not ok' "$said"; grep -a -v '^\(not \)\{0,1\}ok ' "$said" | tail -n 60 | cut -c -300; } \
            | sed 's/^#* */# /'
        [ $status -ne 124 ] || echo "# the limit of $limit s is over"
        echo "not ok $number - $name, exit status $status" ;;
    esac
}
skip() { # NAME WHY
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}
# Functions are commands of a shell of their own, so that they have a limit, too.
check_function() { local name=$1 limit=$2; shift 2; check "$name" "$limit" bash -c "$*"; }

# has_lost PERMILLE: so many of all packets at least, or this part was one without loss.
has_lost() {
    cat "$MACHINE_WIRE"
    [ "$(wired lost)" -gt 100 ] && [ $(($(wired lost) * 1000)) -ge $(($(wired sent) * $1)) ]
}
export -f wired has_lost

# ---- MPI ----

# Machines share processors, so nobody is bound to one, and who waits lets others run. UCX would look for
# ways of its own.
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp

# hosts MACHINES RANKS: for mpirun, so many ranks on each; asked to oversubscribe, 5.0 would put all on the first.
hosts() {
    local i list=
    for i in $(seq "$1"); do list=$list,machine$i:$2; done
    echo "--host ${list#,} --map-by node"
}
export -f hosts

# mpi MACHINES RANKS_A_MACHINE PROGRAM [ARGUMENTS...]: an MPI test. Windows that share memory are refused
# between machines; no others are. What a test spawns has to find room.
mpi() {
    local machines=$1 ranks=$2 program=$3 where
    shift 3
    where=$(hosts "$machines" "$ranks")
    if [ "$program" = spawn ]; then
        where=$(hosts "$machines" 8)
        # Without any window: the merge ends in "unable to reach each other", or never.
        case $(mpirun --version) in *' 5.'*)
            skip "MPI: spawn, $machines machines" "Open MPI 5.0 does not merge with children of another machine"
            return ;;
        esac
    fi
    # Of a test that fails because a process is taken for dead, its output says why.
    check "MPI: $program $*, $machines machines, $ranks ranks on each" 1800 env \
        LOCO_LOG="${LOCO_LOG:-warn}" TL_RANKS="$((machines * ranks))" TL_REFUSED_IS_SKIP=shared \
        TL_TIMEOUT_SCALE="${TL_TIMEOUT_SCALE:-$((2 * ${TEST_SCALE:-1}))}" RUN_LIMIT="${RUN_LIMIT:-1700}" \
        BIN="$builddir/tests/mpi" MPIRUN_ARGS="$where" \
        "$builddir/tools/with-loco" "$srcdir/tests/mpi/run.sh" "$builddir/tests/mpi/$program" "$@"
}

# All that are in the list, or the ones in TESTS.
mpi_programs=$(awk '!/^#/ && NF > 0 && !seen[$1]++ { print $1 }' "$srcdir/tests/mpi/testlist")
mpi_all() { # MACHINES RANKS_A_MACHINE
    local program
    for program in ${TESTS:-$mpi_programs}; do mpi "$1" "$2" "$program"; done
}

part_mpi() {
    mpi_all 2 1
    export TL_ONE_OF="${TL_ONE_OF-3}"
    mpi_all 4 1
}

# Within a machine data goes through shared memory: both ways in one window.
part_mpi_two() {
    export TL_ONE_OF="${TL_ONE_OF-3}"
    mpi_all 2 2
}

# example MACHINES RANKS_A_MACHINE PROGRAM [ARGUMENTS...]: an example, which checks its own result.
example() {
    local machines=$1 ranks=$2 program=$3
    shift 3
    case " ${TESTS:-$program} " in *" $program "*) ;; *) return ;; esac
    check "example: $program $*, $machines machines, $ranks ranks on each" 300 \
        "$builddir/tools/with-loco" mpirun --mca osc "${OSC:-loco}" --oversubscribe \
        $(hosts "$machines" "$ranks") -np "$((machines * ranks))" "$builddir/mpi_examples/$program" "$@"
}

part_examples() {
    local placed flavor store held
    for placed in '2 1' '4 1' '2 2'; do
        example $placed barrier_latency --rounds 2k --warmup 200
        for flavor in allocate dynamic; do
            example $placed wordcount --flavor $flavor --buckets 512 "$srcdir/LICENSE" "$srcdir/README.md"
            example $placed gups --flavor $flavor --size 14
        done
        example $placed gups --flavor create --size 14 --update getput
        example $placed graph_bfs --scale 10 --roots 3
        example $placed bank --flavor create --accounts 1k --windows 10 --ops 500 --threads 2
        for held in array kvstore; do
            example $placed bank --api loco --held-in $held --accounts 200 --windows 10 --ops 500 --threads 2
        done
        for store in loco mpi; do
            example $placed kv_ycsb --store $store --mix a --records 1k --ops 1k --threads 2 --window 4
            example $placed kv_ycsb --store $store --mix d --records 1k --ops 1k --room 1k
        done
        for store in loco tree hash; do
            example $placed smallbank --store $store --accounts 1k --ops 500 --clients 2
            example $placed tatp --store $store --subscribers 100 --ops 500 --clients 2
        done
        example $placed tpcc --items 100 --customers 30 --warehouses 3 --ops 100 --clients 2
        example $placed word_index --check --prefix licens "$srcdir/LICENSE" "$srcdir/docs"
        example $placed replicated_log --ops 300 --singles 20 --accounts 50
        example $placed task_queue --root 400 --threads 2 --capacity 16
        example $placed power_controller --pace steps --periods 20us,40us --time 2ms
        example $placed power_controller --periods 40us --time 1ms --slowdown 1000
    done
}

# ---- the native API ----

# apart MACHINES COMMAND...: the processes that it forks are on so many machines in turn.
apart() {
    local machines=$1
    shift
    IN_MACHINES=$machines LD_PRELOAD=$builddir/tests/machines/.libs/in_machines.so "$@"
}

# during SECONDS FUNCTION: the contract's case, with this done so many seconds after its begin.
during() {
    local case=$1 seconds=$2 pid
    shift 2
    apart 2 "$builddir/tests/rdma/contract" 2 "$case" &
    pid=$!
    sleep "$seconds"
    "$@" || { echo "$*: failed"; wait $pid; return 1; }
    wait $pid
}
plugged() { on 2 ip link set eth0 "$1"; }
briefly() { plugged down && sleep 1 && plugged up; }
export -f apart during plugged briefly

# contract PROCESSES MACHINES [CASE...]
contract() {
    local processes=$1 machines=$2 case
    shift 2
    for case in "${@:-}"; do
        check_function "the contract, $processes processes on $machines machines${case:+: $case}" 600 \
            "apart $machines '$builddir/tests/rdma/contract' $processes $case"
    done
}

part_contract() {
    contract 2 2
    contract 4 4
    contract 4 2
    contract 8 8 moves atomics order fenced death
    check_function 'a link that is down for a moment' 60 'during held_up 3 briefly'
    check_function 'a link that is down for good' 120 'export LOCO_PEER_TIMEOUT=5s; during cut_off 3 plugged down; s=$?; plugged up; exit $s'
}

# TESTS picks some by their names, as "test_queue locks".
channel_tests="unit/test_atomic_var unit/test_barrier unit/test_endpoint unit/test_kvstore unit/test_multicast
    unit/test_owned_var unit/test_queue unit/test_queue_deaths unit/test_reduce unit/test_region
    unit/test_ringbuffer unit/test_rw_lock unit/test_sst unit/test_ticket_lock unit/test_window unit/test_window_acc
    unit/test_window_active unit/test_window_deferred unit/test_window_dynamic unit/test_window_gather
    unit/test_window_lock stress/locks stress/values stress/messages stress/queues stress/kvstore stress/deaths
    stress/sleepers machine/endings machine/survivors"
part_channels() {
    local test options
    for test in $channel_tests; do
        case " ${TESTS-${test##*/}} " in *" ${test##*/} "*) ;; *) continue ;; esac
        options=
        case $test in unit/*) options='--verbose=0 -j1 --timeout=300' ;; esac
        check_function "${test##*/}" 900 "apart 8 '$builddir/tests/$test' $options"
    done
    check_function 'workers that come and go leave nothing behind' 300 "apart 8 '$builddir/tests/rdma/elastic' 4"
}

# loses HOW CALL: rank 0 is told in time that the other machine's rank is gone. mpirun, which has lost a
# process or a daemon, ends as it will, or is made to.
loses() {
    local mpirun seconds
    : >"$TMPDIR/lost"
    "$builddir/tools/with-loco" mpirun --mca osc loco $(hosts 2 1) -np 2 --enable-recovery \
        -x LOCO_PEER_TIMEOUT "$builddir/tests/rdma/lost_peer" "$@" >>"$TMPDIR/lost" 2>&1 &
    mpirun=$!
    for seconds in $(seq 60); do
        grep -q '^lost after\|hangs' "$TMPDIR/lost" && break
        kill -0 $mpirun 2>/dev/null || break
        sleep 0.5
    done
    plugged up
    kill $mpirun
    for seconds in $(seq 20); do
        kill -0 $mpirun 2>/dev/null || break
        sleep 0.5
    done
    kill -KILL $mpirun 2>/dev/null
    cat "$TMPDIR/lost"
    grep -q '^lost after' "$TMPDIR/lost"
}
export -f loses

part_deaths() {
    local how call
    export LOCO_PEER_TIMEOUT=3s
    for how in killed stopped cut vanished paused; do
        check_function "a member is $how, in each kind of call" 600 \
            "apart 3 '$builddir/tests/machines/deaths' $how ${TESTS-}"
    done
    for how in killed stopped cut_off; do
        for call in puts gets adds waits locks completes waits_epoch accumulates; do
            check_function "MPI: the other rank is $how while this one $call" 90 "loses $how $call 10"
        done
    done
}

part_views() {
    local how
    export LOCO_PEER_TIMEOUT=3s
    for how in killed cut mended stopped split minority between too_many paused; do
        check_function "views: $how" 60 "apart 5 '$builddir/tests/machines/views' $how"
    done
    check_function 'views: cut off, mended, and back in' 120 "apart 5 '$builddir/tests/machines/views_back'"
    check_function 'members of views are killed, a machine for each' 120 \
        "apart 8 '$builddir/tests/stress/views' --rounds 20"
    check_function 'members of views come, go and are killed, a machine for each' 180 \
        "apart 8 '$builddir/tests/stress/views_join' --rounds 20"
}

part_both_ways() {
    check_function 'two processes write and read 1 GiB to each other at once' 550 \
        "apart 2 '$builddir/tests/machines/both_ways' ${MIB-}"
}

# In short packets of an odd length, so that what is sent is cut often, and anywhere: in full ones hardly a
# word is, and a fabric that lands bytes as they come is not found.
cut_short() {
    local i
    for i in 1 2; do on $i ip link set eth0 mtu 577 gso_max_size 577 gso_max_segs 1 || return; done
}
export -f cut_short

part_words() {
    check_function 'packets are short' 20 cut_short
    check_function 'words are whole' 1100 "apart 2 '$builddir/tests/machines/words' ${LOADS-}"
}

# Members are on two machines, who calls them on the third.
part_strangers() {
    check_function 'strangers that call are refused, and all goes on' 550 \
        "apart 3 '$builddir/tests/machines/strangers' ${CALLS-}"
}

# all_to_all MACHINES RANKS: how many connections each machine has meanwhile is shown.
all_to_all() {
    local job status i n most=0
    "$builddir/tools/with-loco" mpirun --mca osc "${OSC:-loco}" --oversubscribe $(hosts "$1" "$2") \
        -np "$(($1 * $2))" "$builddir/tests/machines/many" ${ROUNDS-10} &
    job=$!
    while kill -0 $job 2>/dev/null; do
        for i in $(seq "$1"); do
            n=$(on "$i" ss -Htn state established | wc -l)
            [ "$n" -le $most ] || most=$n
        done
        sleep 1
    done
    wait $job
    status=$?
    echo "# at most $most connections of a machine, Open MPI's among them"
    return $status
}
export -f all_to_all

part_many() {
    check_function '64 ranks on 8 machines, all to all' 600 'all_to_all 8 8'
}

# A bounded part of the tests, of each kind one.
part_netem() {
    export TL_ONE_OF="${TL_ONE_OF-64}" TL_TIMEOUT_SCALE="${TL_TIMEOUT_SCALE:-20}" TEST_SCALE="${TEST_SCALE:-10}"
    local program
    contract 2 2 moves large flood atomics chains order threads fenced last_words left killed death
    for program in ${TESTS:-putget accumulate atomic active passive dynamic gets batch threads windows}; do
        mpi 2 1 "$program"
    done
    mpi 4 1 atomic --only tickets --flavor allocate
    mpi 4 1 passive --only exclusive_counter --flavor create
    mpi 4 1 passive --only message_passing --flavor dynamic
}
part_netem_loss() {
    part_netem
    check_function 'packets were lost' 20 has_lost 5
}
# A call takes 50 ms here, whatever it does: fewer of them.
part_netem_delay() { TL_ONE_OF="${TL_ONE_OF-1024}" part_netem; }
part_netem_reorder() {
    part_netem
    check_function 'packets were out of order' 20 'cat "$MACHINE_WIRE"; [ "$(wired reordered)" -gt 100 ]'
}

part_conformance() {
    local keep=$builddir/tests/machines/mpich file
    "$srcdir/tests/conformance/mpich" --tap --machines "${#machine[@]}" --jobs 1 --build "$builddir" \
        --keep "$keep" --filter "${TESTS:-.}" | tee "$TMPDIR/lines" | grep -v '^1\.\.'
    for file in $(grep -L -E '^(passed|not run)' "$keep"/results/loco/*.verdict); do
        sed "s|^|# ${file##*/}: |" "${file%.verdict}.out" | tail -n 30
    done
    number=$((number + $(grep -c -E '^(not )?ok ' "$TMPDIR/lines")))
    grep -q '^1\.\.' "$TMPDIR/lines" || echo "not ok $((number += 1)) - not all tests were run"
}

# ---- pools ----

# client MACHINE ARGUMENTS...: tests/machines/pools there. agent MACHINE COMMAND OPTIONS...: loco-agent.
client() { local at=$1; shift; on "$at" timeout 60 "$builddir/tests/machines/pools" "$@"; }
agent() { local at=$1 what=$2; shift 2; on "$at" timeout 60 "$builddir/tools/loco-agent" "$what" --pool p "$@"; }
begin_agent() { # MACHINE SECRET
    agent "$1" start --memory 512M --join machine1 --secret "$2" --log "$pools/log.$1"
}
# says MACHINE WORDS SECONDS: its status has these words by then.
says() {
    local i
    for i in $(seq $(($3 * 10))); do
        agent "$1" status --json | grep -q "$2" && return
        sleep 0.1
    done
    agent "$1" status
    echo "machine $1 does not say $2"
    return 1
}
reaches() { says "$1" "\(\"reached\": true.*\)\{$2\}" 15; } # MACHINE AGENTS
is_empty() { says "$1" '"clients": 0,.*"leaving": 0,.*"ports": 0,' 30; }
number_of() { agent "$1" status --json | sed "s/.*\"$2\": \([0-9]*\).*/\1/"; } # MACHINE WHAT
# connections PID: of TCP, that this process has.
connections() {
    local inode
    for inode in $(ls -l "/proc/$1/fd" | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p'); do
        awk -v inode="$inode" '$10 == inode && $4 != "0A"' "/proc/$1/net/tcp" "/proc/$1/net/tcp6"
    done
}
two_meet() {
    begin_agent 1 "$pools/secret" && begin_agent 2 "$pools/secret" && reaches 1 2 && reaches 2 2 || return
    client 1 put p early machine1 100 && client 2 check p early 100 && client 2 put p there machine1 50 \
        && client 1 check p there 50 && [ "$(stat -c %a "$pools/secret")" = 600 ]
}
third_joins() {
    local i
    begin_agent 3 "$pools/secret" || return
    for i in 1 2 3; do reaches $i 3 || return; done
    client 3 check p early 100 && client 3 check p there 50
}
other_secret() {
    echo 00112233445566778899aabbccddeeff >"$pools/wrong"
    chmod 600 "$pools/wrong"
    agent 3 stop && reaches 1 2 || return
    begin_agent 3 "$pools/wrong" >"$pools/said" 2>&1 && { echo 'it joins with a wrong secret'; return 1; }
    cat "$pools/said" "$pools/log.1"
    grep -q 'another secret' "$pools/said" && grep -q 'another secret' "$pools/log.1" || return
    chmod 644 "$pools/secret"
    begin_agent 3 "$pools/secret" && { echo 'a secret that others may read is taken'; return 1; }
    chmod 600 "$pools/secret"
    begin_agent 3 "$pools/secret" && reaches 3 3
}
by_name() {
    client 1 put p one machine1 1000 && client 2 check p one 1000 && client 3 check p one 1000 \
        && client 3 put p two machine2 500 && client 2 check p two 500 && client 1 check p two 500 \
        && agent 2 status | grep '^agent .*machine2.* 1 stores' || return
    client 2 remove p two && ! client 1 check p two 1 && client 1 put p two machine3 10 && client 2 check p two 10
}
# says_in FILE PID: the program that writes there has begun.
says_in() { until grep -q in "$1"; do sleep 0.05; kill -0 "$2" || return; done; }
# A worker reaches another machine, and neither calls it nor is called.
by_ports() {
    local stays pid before after way result=0
    client 2 visit p one 1 && is_empty 2 || return
    before=$(number_of 2 port_requests)
    for way in yes no; do
        LOCO_PORTS=$way on 2 timeout 60 "$builddir/tests/machines/pools" stay p one 2 >"$pools/stays" &
        stays=$!
        says_in "$pools/stays" $stays || return
        pid=$(sed -n 's/^in //p' "$pools/stays")
        echo "right: ports $way, $(connections "$pid" | wc -l) connections, $(number_of 2 ports) with ports"
        [ $way = no ] || [ "$(connections "$pid" | wc -l)" -eq 0 ] || result=1
        [ $way = no ] || [ "$(number_of 2 ports)" -eq 1 ] || result=1
        [ $way = yes ] || [ "$(connections "$pid" | wc -l)" -gt 0 ] || result=1
        wait $stays || result=1
        sed 's/^/right: /' "$pools/stays"
        after=$(number_of 2 port_requests)
        echo "right: $((after - before)) requests by ports"
        [ $way = no ] || [ $((after - before)) -gt 100 ] || result=1
        [ $way = yes ] || [ "$after" -eq "$before" ] || result=1
        before=$after
    done
    is_empty 1 && is_empty 2 && [ $result -eq 0 ]
}
# The agent by whose ports it goes is killed, or stopped: it is told, and the other agent gives its place away.
own_agent_ends() {
    local how held pid status
    for how in STOP KILL; do
        on 2 "$builddir/tests/machines/pools" hold p one 60 >"$pools/held" &
        held=$!
        says_in "$pools/held" $held || return
        pid=$(pid_of 2)
        kill -$how "$pid"
        wait $held
        status=$?
        cat "$pools/held"
        [ $how = KILL ] || kill -CONT "$pid"
        [ $status -eq 0 ] || return
        [ $how = STOP ] || begin_agent 2 "$pools/secret" || return
        reaches 1 3 && reaches 2 3 && is_empty 1 && is_empty 2 && client 2 check p one 1000 || return
    done
}
come_and_go() {
    local i fds
    client 2 visit p one 1 && is_empty 1 || return
    fds=$(ls "/proc/$(pid_of 1)/fd" | wc -l)
    for i in $(seq "${VISITS-200}"); do client $((i % 2 + 1)) visit p one $i || return; done
    is_empty 1 && is_empty 2 && client 3 check p one 1000 || return
    sleep 2
    [ "$(ls "/proc/$(pid_of 1)/fd" | wc -l)" -le $((fds + 2)) ]
}
many_at_once() {
    local i k fds pid pids stays result=0
    client 2 visit p one 1 && client 2 stay p one 2 && is_empty 1 || return
    fds=$(ls "/proc/$(pid_of 1)/fd" | wc -l)
    on 2 timeout 60 "$builddir/tests/machines/pools" stay p one 8 >"$pools/stays" &
    stays=$!
    until grep -q in "$pools/stays"; do sleep 0.05; kill -0 $stays || return; done
    for i in $(seq "${ROUNDS-16}"); do
        pids=
        for k in $(seq 8); do
            client $((k % 2 + 1)) visit p one $((1000 * i + k)) &
            pids="$pids $!"
        done
        for pid in $pids; do wait "$pid" || result=1; done
    done
    wait $stays || result=1
    cat "$pools/stays"
    is_empty 1 && is_empty 2 && client 1 check p one 1000 || return
    sleep 2
    echo "descriptors of the agent: $fds, then $(ls "/proc/$(pid_of 1)/fd" | wc -l)"
    [ $result -eq 0 ] && [ "$(ls "/proc/$(pid_of 1)/fd" | wc -l)" -le $((fds + 2)) ]
}
mailboxes() {
    local k letters pid pids result=0
    on 1 timeout 100 "$builddir/tests/machines/pools" letters p box 8 200 >"$pools/letters" &
    letters=$!
    until grep -q in "$pools/letters"; do sleep 0.05; kill -0 $letters || return; done
    client 2 letters p box 1 1 && { echo 'two receive'; return 1; }
    pids=
    for k in $(seq 8); do
        client $((k % 3 + 1)) mail p box 200 &
        pids="$pids $!"
    done
    for pid in $pids; do wait "$pid" || result=1; done
    wait $letters || result=1
    cat "$pools/letters"
    [ $result -eq 0 ] && client 1 mail p box 5 && client 2 mail p box 5 && client 1 letters p box 2 5
}
killed_clients() {
    local i k pids
    for i in $(seq "${KILLS-15}"); do
        pids=
        for k in 1 2; do
            on $k "$builddir/tests/machines/pools" hold p one 60 >"$pools/held.$k" &
            pids="$pids $!"
        done
        until grep -q in "$pools/held.1" && grep -q in "$pools/held.2"; do sleep 0.05; done
        sleep 0.0$((RANDOM % 10))
        kill -KILL $pids
        wait $pids 2>/dev/null
    done
    is_empty 1 && is_empty 2 && client 2 check p one 1000
}
killed_comers() {
    local i pid
    for i in $(seq "${KILLS-15}") $(seq "${KILLS-15}") $(seq "${KILLS-15}"); do
        on 2 "$builddir/tests/machines/pools" visit p one "$i" &
        pid=$!
        sleep 0.0$((RANDOM % 6))$((RANDOM % 10))
        kill -KILL $pid
        wait $pid 2>/dev/null
    done
    is_empty 1 && is_empty 2 && client 2 check p one 1000
}
pid_of() { agent "$1" status | sed -n 's/.*pid //p' | head -n 1; }
stopped_agent() {
    local looks held pid status
    LOCO_PORTS=no on 2 "$builddir/tests/machines/pools" look p one 8 >"$pools/looks" &
    looks=$!
    until grep -q in "$pools/looks"; do sleep 0.05; kill -0 $looks || return; done
    pid=$(pid_of 2)
    kill -STOP "$pid"
    client 1 check p one 1000 && wait $looks
    status=$?
    kill -CONT "$pid"
    cat "$pools/looks"
    [ $status -eq 0 ] && reaches 1 3 && reaches 2 3 || return
    on 2 "$builddir/tests/machines/pools" hold p two 60 >"$pools/held" &
    held=$!
    until grep -q in "$pools/held"; do sleep 0.05; kill -0 $held || return; done
    pid=$(pid_of 3)
    kill -STOP "$pid"
    wait $held
    status=$?
    kill -CONT "$pid"
    cat "$pools/held"
    [ $status -eq 0 ] && reaches 1 3 && reaches 2 3 && reaches 3 3 && client 2 check p two 10
}
killed_agent() {
    local held status
    on 2 "$builddir/tests/machines/pools" hold p two 60 >"$pools/held" &
    held=$!
    until grep -q in "$pools/held"; do sleep 0.05; kill -0 $held || return; done
    kill -KILL "$(pid_of 3)"
    wait $held
    status=$?
    cat "$pools/held"
    [ $status -eq 0 ] && reaches 1 2 || return
    agent 1 status | grep 'machine3.*OUT OF REACH' && ! client 1 check p two 1 && client 2 check p one 1000 || return
    begin_agent 3 "$pools/secret" && reaches 1 3 && client 3 put p two machine3 20 && client 1 check p two 20
}
cut_off_agent() {
    on 2 ip link set eth0 down
    says 1 '"reached": false' 20 && says 2 '"reached": false.*"reached": false' 20 || return
    client 2 put p three machine2 5 || return
    on 2 ip link set eth0 up
    reaches 1 3 && reaches 2 3 && client 1 check p three 5 && client 2 check p one 1000
}
# row NAME LIMIT FUNCTION: unless $ROWS names others.
row() { case " ${ROWS:-$3} " in *" $3 "*) check_function "$@" ;; esac; }
part_pools() {
    export LOCO_PEER_TIMEOUT=3s XDG_RUNTIME_DIR=/dev/shm/tmp pools
    pools=$(mktemp -d "$builddir/tests/machines/pools.XXXXXX")
    export -f client agent begin_agent says reaches is_empty number_of connections says_in by_ports own_agent_ends two_meet third_joins other_secret by_name \
        come_and_go many_at_once mailboxes killed_clients killed_comers pid_of stopped_agent killed_agent cut_off_agent
    check_function 'agents of two machines meet, and share what they keep' 60 two_meet
    check_function 'a third joins later, and all find each other by one of them' 60 third_joins
    row 'an agent with another secret is refused, and both say so' 90 other_secret
    check_function 'what one machine puts into a store the others find by its name' 120 by_name
    row 'a worker reaches another machine by its agent, without a connection' 60 by_ports
    row 'clients of two machines come and go, and leave nothing behind' 300 come_and_go
    row 'many come at once while one stays, and no call fails' 120 many_at_once
    row 'eight processes of three machines send to one' 120 mailboxes
    row 'clients of two machines are killed' 200 killed_clients
    row 'clients are killed while they come' 120 killed_comers
    row 'an agent is stopped: its machine looks up, who needs it is told, and it is back' 120 \
        stopped_agent
    row 'an agent is killed: its clients are told, the others go on, another one comes' 120 killed_agent
    row 'the agent by whose ports a client goes is stopped, and killed: it is told, and its place is given away' 120 \
        own_agent_ends
    row 'an agent is cut off, goes on alone, and is back' 120 cut_off_agent
    cat "$pools"/log.* | cut -c -200 | tail -n 30 | sed 's/^/# /'
    for i in 1 2 3; do agent $i stop >/dev/null; done
    rm -rf "$pools"
}

# ---- what the machines are ----

differ() { # FILE
    local i
    for i in $(seq "${#machine[@]}"); do on "$i" cat "$1"; done | sort | uniq -d | grep . && return 1
    on machine2 cat "$1" >/dev/null
}
# A line from each machine to each other, by both kinds of address.
serves='import socket
s = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
while True: s.accept()[0].sendall(b"here\n")'
hears() { # FROM ADDRESS
    on "$1" timeout 5 bash -c 'until exec 3<>/dev/tcp/$0/7; do sleep 0.1; done && read -r line <&3 && [ "$line" = here ]' \
        "$2" 2>/dev/null || { echo "machine $1 does not reach $2"; return 1; }
}
reach() {
    local from to bad=0
    for to in 1 2 3; do on $to python3 -c "$serves" & done
    for from in 1 2 3; do
        for to in 1 2 3; do
            hears $from "10.91.0.$to" && hears $from "fd00:91::$to" || bad=1
        done
    done
    kill $(jobs -p)
    return $bad
}
own_files() {
    on 2 touch /dev/shm/mine && [ ! -e /dev/shm/mine ] && on 2 sh -c 'touch "$TMPDIR/mine"' \
        && on fd00:91::2 test -e /dev/shm/tmp/mine && on 10.91.0.3 test ! -e /dev/shm/tmp/mine
}
starts_ranks() {
    local said
    said=$(mpirun $(hosts 3 1) -np 3 hostname) || return
    echo "$said"
    [ "$(echo "$said" | sort | xargs)" = 'machine1 machine2 machine3' ]
}
# Where a process of each machine would listen.
says_where() {
    local i
    for i in 1 2 3; do
        on $i "$builddir/tools/loco-info" | grep -E "tcp: address [12] +(10\\.91\\.0\\.$i|fd00:91::$i)  \\(eth0" || return
    done
}
export serves
export -f differ hears reach own_files starts_ranks says_where

part_smoke() {
    check_function 'machines reach each other' 60 reach
    check_function 'each has its own name' 20 'read -ra machine <<<"$MACHINES"; differ /proc/sys/kernel/hostname'
    check_function 'and is another kernel, by its boot id' 20 \
        'read -ra machine <<<"$MACHINES"; differ /proc/sys/kernel/random/boot_id'
    check_function 'each has its own /dev/shm and TMPDIR' 20 own_files
    check_function 'mpirun starts ranks on each' 60 starts_ranks
    check_function 'loco-info shows the addresses of each' 60 says_where
}

"part_$1"
echo "1..$number"

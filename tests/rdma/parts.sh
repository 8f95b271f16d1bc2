# SPDX-License-Identifier: BSD-3-Clause
#
# parts.sh PART: one part of the tests over RDMA, in the test machine; speaks TAP. $srcdir, $builddir.
set -u
number=0

# sent, lost: how many packets the ends of the wire were given, and how many of them it has lost.
on_wire() {
    local i
    for i in 0 1; do tc -s qdisc show dev veth$i; done 2>/dev/null | tr -d '(,' | awk -v what="$1" '
        $1 == "Sent" { passed += $4; lost += $7 }
        END { print what == "lost" ? lost + 0 : passed + lost }'
}
sent() { on_wire sent; }
lost() { on_wire lost; }

# has_lost PERMILLE: so many of all packets at least, or this part was one without loss.
has_lost() {
    echo "$(lost) of $(sent) packets lost"
    [ "$(lost)" -gt 100 ] && [ $(($(lost) * 1000)) -ge $(($(sent) * $1)) ]
}

# What is lost is sent again after this time, 7 times at most before the peer counts as lost: of 10 million
# requests on a wire that loses 5 % each way, one is lost so often. With more time all takes longer; with
# less a machine that stands still is a peer that is lost.
lossy() { export LOCO_RDMA_TIMEOUT=134ms; }

# check NAME LIMIT COMMAND...: a test is passed if the command ends well within LIMIT seconds. With
# beside=N so many run at once, and `settle` says how they ended.
beside=1
check() {
    number=$((number + 1))
    if [ $beside -eq 1 ]; then
        check_here $number "$@"
    else
        while [ "$(jobs -rp | wc -l)" -ge $beside ]; do wait -n; done
        beside_others $number "$@" &
    fi
}

# beside_others NUMBER NAME LIMIT COMMAND...: what it says is kept, for the numbers of tests go up; that it
# has ended is told at once, for the part may take hours.
beside_others() {
    check_here "$@" >"/tmp/said.$1"
    grep -E '^(not )?ok' "/tmp/said.$1" | sed "s/^/# $SECONDS s: /"
}

# check_here NUMBER NAME LIMIT COMMAND...
check_here() {
    local number=$1 name=$2 limit=$3 status=0 sent_before lost_before out=/tmp/out.$1
    shift 3
    sent_before=$(sent) lost_before=$(lost) SECONDS=0
    timeout -k 5 "$limit" "$@" >"$out" 2>&1 </dev/null || status=$?
    echo "# $SECONDS s"
    [ "$(lost)" -eq 0 ] \
        || echo "# $(($(lost) - lost_before)) of $(($(sent) - sent_before)) packets lost"
    if [ $status -eq 0 ]; then
        echo "ok $number - $name"
    else
        { grep '^not ok' "$out"; tail -n 60 "$out"; } | sed 's/^/# /'
        echo "not ok $number - $name, exit status $status"
    fi
    rm -f "$out"
}

# settle: all checks that run beside each other have ended; what each said, in their order. From here on
# they run alone.
settle() {
    local i
    wait
    for i in $(seq "$number"); do
        [ ! -f "/tmp/said.$i" ] || cat "/tmp/said.$i"
    done
    rm -f /tmp/said.*
    beside=1
}

pings() {
    rping -s -a 10.77.0.1 -C 5 &
    sleep 1
    rping -c -a 10.77.0.1 -I 10.77.0.2 -v -C 5 && wait $!
}

# What the tests stand on: both devices are up, and there is a wire between them.
crosses_the_wire() {
    local before after
    before=$(cat /sys/class/net/veth1/statistics/tx_packets)
    ib_write_bw -d rxe0 -x 1 -s 65536 -n 20 >/tmp/server 2>&1 &
    sleep 2
    ib_write_bw -d rxe1 -x 1 -s 65536 -n 20 10.77.0.1 || return
    wait $! || return
    after=$(cat /sys/class/net/veth1/statistics/tx_packets)
    echo "$((after - before)) packets on the wire"
    [ $((after - before)) -ge 300 ]     # 20 * 64 KiB in packets of 4 KiB at most
}

both_up() { [ "$(rdma link | grep -c 'rxe[01]/1 state ACTIVE')" -eq 2 ]; }

# over_verbs COMMAND...: with all data through the devices, which the processes take in turn. On a busy
# host the machine stands still for a while now and then: peers are not lost so soon.
over_verbs() {
    LOCO_FABRIC=verbs LOCO_DEVICE=rxe0,rxe1 LOCO_RDMA_TIMEOUT=${LOCO_RDMA_TIMEOUT:-268ms} "$@"
}
export -f over_verbs

# A machine of two packages with a CPU and a device each, as hwloc reads it.
two_packages() {
    local i
    sets() { printf 'cpuset="%s" complete_cpuset="%s" nodeset="%s" complete_nodeset="%s"' "$1" "$1" "$1" "$1"; }
    echo '<?xml version="1.0" encoding="UTF-8"?>'
    echo '<!DOCTYPE topology SYSTEM "hwloc2.dtd">'
    echo '<topology version="2.0">'
    echo "<object type=\"Machine\" os_index=\"0\" $(sets 0x3) allowed_cpuset=\"0x3\" allowed_nodeset=\"0x3\">"
    for i in 0 1; do
        echo "<object type=\"Package\" os_index=\"$i\" $(sets 0x$((i + 1)))>"
        echo "<object type=\"NUMANode\" os_index=\"$i\" $(sets 0x$((i + 1))) local_memory=\"1073741824\"/>"
        echo "<object type=\"PU\" os_index=\"$i\" $(sets 0x$((i + 1)))/>"
        echo "<object type=\"PCIDev\" pci_busid=\"0000:0$i:00.0\" pci_type=\"0207 [15b3:101b] [15b3:0006] 00\""
        echo " pci_link_speed=\"0.0\"><object type=\"OSDev\" name=\"rxe$i\" osdev_type=\"3\"/></object></object>"
    done
    echo '</object></topology>'
}

# Soft-RoCE devices are nowhere: hwloc is told where.
nearest() {
    local i
    grep -q 'define LOCO_HAVE_HWLOC' "$builddir/config.h" || { echo 'built without hwloc'; return 0; }
    two_packages >/tmp/machine.xml
    export HWLOC_XMLFILE=/tmp/machine.xml HWLOC_THISSYSTEM=1
    for i in 0 1; do
        taskset -c $i "$builddir/tools/loco-info" >/tmp/info || return
        grep 'verbs: rxe.:1 ' /tmp/info
        grep -q "verbs: rxe$i:1 .*would be chosen .*the only one so near" /tmp/info || return
        grep -q "verbs: rxe$((1 - i)):1 .*farther away: at NUMA node $((1 - i))" /tmp/info || return
    done
}
export -f two_packages nearest

# on_ends COMMAND...: for both ends of the wire.
on_ends() {
    local i
    for i in 0 1; do "$@" veth$i || return; done
}

# What the first and the second filter of both ends have counted; then there are none any more.
counted() {
    local i
    for i in 0 1; do tc -s filter show dev veth$i ingress; done | awk '
        /pref/ { pref = $0; sub(/.*pref /, "", pref); sub(/ .*/, "", pref) }
        $1 == "Sent" { n[pref] += $4 }
        END { print n[1] + 0, n[2] + 0 }'
    for i in 0 1; do tc qdisc del dev veth$i ingress; done
}

# What comes in, counted by its class: of class 104, and of others, in RoCE's packets.
count_classes() { # INTERFACE
    local roce='protocol ip u32 match ip dport 4791 0xffff' at="dev $1 parent ffff:"
    tc qdisc add dev "$1" ingress \
        && tc filter add $at prio 1 $roce match ip tos 104 0xff action pass \
        && tc filter add $at prio 2 $roce action pass
}

# What the contract sends is in packets of the class that is asked for; a few, of setting up connections,
# may be of another (on Linux 6.1 none is).
carries_class() {
    local counts
    modprobe -a sch_ingress cls_u32 act_gact && on_ends count_classes || return
    LOCO_RDMA_TRAFFIC_CLASS=${1-104} over_verbs "$builddir/tests/rdma/contract" 2 moves || return
    counts=$(counted)
    echo "packets of the class, of others: $counts"
    set -- $counts
    [ "$1" -gt 100 ] && [ "$2" -lt 20 ]
}

# Read requests that come in, counted by what they ask for: nothing, 8 bytes.
count_reads() { # INTERFACE
    local read='protocol ip u32 match ip dport 4791 0xffff match u8 0x0c 0xff at 28' bytes=52
    local at="dev $1 parent ffff:"
    tc qdisc add dev "$1" ingress \
        && tc filter add $at prio 1 $read match u32 0 0xffffffff at $bytes action pass \
        && tc filter add $at prio 2 $read match u32 8 0xffffffff at $bytes action pass
}

# places_by WHAT: how many reads of nothing and of 8 bytes the contract's case sends, of two processes
# with 6 fences each.
places_by() {
    on_ends count_reads || return
    LOCO_RDMA_PLACE=$1 over_verbs "$builddir/tests/rdma/contract" 2 placed >&2 || return
    counted
}
places_read_what_is_asked_for() {
    modprobe -a sch_ingress cls_u32 act_gact || return
    local by_nothing by_words
    by_nothing=$(places_by read) && by_words=$(places_by read8) || return
    echo "reads of nothing, of 8 bytes: $by_nothing by default, $by_words by read8"
    [ "${by_nothing% *}" -ge 12 ] && [ "${by_words% *}" -eq 0 ] && [ "${by_words#* }" -ge 12 ]
}
export -f on_ends counted count_classes carries_class count_reads places_by places_read_what_is_asked_for

# in_device_memory BYTES|half COMMAND...: over devices that have so much memory of their own, or every other
# process's have, which is taken, but where LOCO_RDMA_DEVICE_MEMORY is 0.
in_device_memory() {
    local bytes=$1 times
    shift
    export TEST_DEVICE_SAYS=/tmp/device_memory.$$
    : >"$TEST_DEVICE_SAYS"
    LOCO_RDMA_DEVICE_MEMORY=${LOCO_RDMA_DEVICE_MEMORY-64K} \
    LD_PRELOAD=$builddir/tests/rdma/.libs/device_memory.so TEST_DEVICE_MEMORY=$bytes \
        over_verbs "$@" || return
    times=$(wc -l <"$TEST_DEVICE_SAYS")
    echo "device memory was taken $times times"
    [ $((times > 0)) -eq $((${LOCO_RDMA_DEVICE_MEMORY-1} > 0)) ]    # set: to 0
}
export -f in_device_memory

# in_device TITLE LIMIT TEST: one of the unit tests with its locks there.
in_device() {
    check_function "test_$3, $1" 600 \
        "in_device_memory $2 '$builddir/tests/unit/test_$3' --verbose=0 -j1 --timeout=500"
}

# Locks in the devices' own memory: all; those of every other process; and none where that is not
# wanted.
part_device_memory() {
    local name
    export TEST_SCALE=${TEST_SCALE:-10}
    for name in ${TESTS:-ticket_lock window window_lock window_acc window_active kvstore}; do
        in_device 'locks in device memory' 262144 "$name"
        in_device 'locks of every other process in device memory' half "$name"
    done
    check_function 'stress: locks in device memory' 900 \
        "in_device_memory 262144 '$builddir/tests/stress/locks'"
    LOCO_RDMA_DEVICE_MEMORY=0 in_device 'no device memory wanted' 262144 ticket_lock
    export LD_PRELOAD="$builddir/tests/rdma/.libs/device_memory.so" TEST_DEVICE_SAYS=/tmp/says \
        LOCO_RDMA_DEVICE_MEMORY=64K
    mpi 2 1 passive
    check_function 'that was in device memory' 20 'grep . /tmp/says'
    mpi 4 2 passive --only exclusive_counter --flavor create
    mpi 4 2 atomic --only tickets --flavor allocate
}

part_pair() {
    check_function 'the nearest device is taken' 60 nearest
    check_function 'packets are of the class that is asked for' 120 carries_class
    check_function 'fences read what is asked for' 240 places_read_what_is_asked_for
    check_function "the contract, 2 processes" 400 "over_verbs '$builddir/tests/rdma/contract' 2"
    check_function "the contract, placed by acknowledgements" 400 \
        "LOCO_RDMA_PLACE=ack over_verbs '$builddir/tests/rdma/contract' 2"
    check_function "the contract, placed by reads of 8 bytes" 400 \
        "LOCO_RDMA_PLACE=read8 over_verbs '$builddir/tests/rdma/contract' 2"
    check_function 'long requests of more pieces than there is room for' 120 \
        "LOCO_RDMA_DEPTH=16 LOCO_RDMA_READ_AHEAD=64K over_verbs '$builddir/tests/rdma/contract' 2 large"
    check_function 'chains of more requests than there is room for' 120 \
        "LOCO_RDMA_DEPTH=16 over_verbs '$builddir/tests/rdma/contract' 2 chains"
    check_function 'a device that takes parts of chains' 300 \
        "export TEST_SCALE=4 LD_PRELOAD='$builddir/tests/rdma/.libs/takes_few.so'; \
         over_verbs '$builddir/tests/rdma/contract' 2"
    check_function 'a device that refuses long writes, and does not say from where on' 120 \
        "export TAKES_FEW=unnamed LD_PRELOAD='$builddir/tests/rdma/.libs/takes_few.so'; \
         over_verbs '$builddir/tests/rdma/contract' 2 unnamed"
    export TEST_SCALE=20
    in_device 'locks in device memory' 262144 ticket_lock
    in_device 'locks of every other process in device memory' half window_lock
}

# overruns COMMAND...: packets that the kernel has dropped meanwhile because its queue was full; what the
# command does is in its status.
overruns() {
    local before status=0
    before=$(dropped)
    "$@" >&2 || status=$?
    echo $(($(dropped) - before))
    return $status
}
dropped() {
    local n=0 here
    while read -r _ here _; do n=$((n + 16#$here)); done </proc/net/softnet_stat
    echo $n
}

# The answer to a long read is one burst, of which soft-RoCE (Linux 6.1) loses what its queue has no room
# for, and at times the reader's data with it: reads are bounded so that this does not happen. That it
# can happen here: without the bound it does.
long_reads_fit() {
    local n
    n=$(overruns over_verbs "$builddir/tests/rdma/contract" 4 large) || return
    echo "$n packets dropped"
    [ "$n" -eq 0 ] || return
    for _ in 1 2 3 4 5; do
        n=$(LOCO_RDMA_READ_AHEAD=inf overruns over_verbs "$builddir/tests/rdma/contract" 4 large)
        echo "$n packets dropped without a bound"
        [ "$n" -eq 0 ] || return 0
    done
    return 1
}
export -f overruns dropped long_reads_fit

part_contract() {
    check_function "the contract, 4 processes" 400 "over_verbs '$builddir/tests/rdma/contract' 4"
    check_function 'long reads do not overrun the network' 300 long_reads_fit
}

# The bounds of what a process has outstanding, and no other; and no bound.
bounds='LOCO_RDMA_READ_AHEAD=inf LOCO_RDMA_OUTSTANDING=auto LOCO_RDMA_OUTSTANDING_BYTES='
no_bounds='LOCO_RDMA_READ_AHEAD=inf LOCO_RDMA_OUTSTANDING=inf LOCO_RDMA_OUTSTANDING_BYTES=inf'
export bounds no_bounds

# reads_at_once ROUNDS SETTING...: what the case says, and how many packets were dropped.
reads_at_once() {
    local rounds=$1 n status=0
    shift
    n=$(AT_ONCE_ROUNDS=$rounds overruns over_verbs env LOCO_LOG=error "$@" \
        "$builddir/tests/rdma/contract" 2 at_once 2>/tmp/at_once) || status=$?
    cat /tmp/at_once
    echo "$n packets dropped"
    [ $status -eq 0 ]
}

# 1024 reads over 16 connections, of 4 and of 64 KiB, ten times.
reads_are_bounded() {
    reads_at_once 10 ${bounds}auto >/tmp/bounded || { cat /tmp/bounded; return 1; }
    cat /tmp/bounded
    grep -q '^0 packets dropped' /tmp/bounded
}

# What would be without: packets dropped, and requests that fail, with their queue pairs.
reads_overrun_without() {
    local i
    for i in 1 2 3 4 5 6 7 8 9 10; do
        reads_at_once 1 $no_bounds >>/tmp/unbounded 2>&1
    done
    grep -E 'dropped|bytes to process' /tmp/unbounded
    awk '/dropped/ { n++; d += $1 > 0; all += $1 } /^not ok/ { bad++ } END {
        print "# without a bound:", n, "runs,", d, "with packets dropped,", all, "of them,", bad, "fail" }' \
        /tmp/unbounded >>/tmp/figures
    grep -q '^[1-9][0-9]* packets dropped' /tmp/unbounded && grep -q 'bytes to process' /tmp/unbounded
}

# least LEN: of the milliseconds of each setting, which are in /tmp/times. The machine stands still now and
# then, so what other times have to say is little.
least() {
    local one
    for one in $sizes; do
        awk -v n="$one" -v len="$1" '$1 == n && $2 == len && (t == "" || $3 < t) { t = $3 }
            END { if (t != "") print n, t }' /tmp/times
    done
}

# By turns: what is chosen by itself is as fast as the best of bounds that are given, nearly. One that
# drops packets is none.
bound_is_good() {
    local i
    sizes='auto 256K 512K 2M 3M'
    for i in 1 2 3; do
        time_bounds 6
        is_among_best 4096 && is_among_best 65536 && break
    done
    for i in 4096 65536; do echo "# reads of $i bytes, ms:" $(least $i); done | tee -a /tmp/figures
    is_among_best 4096 && is_among_best 65536
}
time_bounds() { # ROUNDS
    local round one
    for round in $(seq "$1"); do
        for one in $sizes; do
            reads_at_once 1 $bounds$one >/tmp/timed 2>&1
            grep -q '^0 packets dropped' /tmp/timed || { echo "$one drops packets"; continue; }
            awk -v n="$one" '/ reads of / { print n, $5, $7 }' /tmp/timed >>/tmp/times
        done
    done
}
is_among_best() { # LEN
    least "$1" | awk '$1 == "auto" { own = $2 } best == "" || $2 < best { best = $2 }
        END { exit !(own > 0 && best >= 0.9 * own) }'
}
export -f reads_at_once reads_are_bounded reads_overrun_without least bound_is_good time_bounds is_among_best

part_at_once() {
    check_function 'what is outstanding is bounded, and no packet is dropped' 300 reads_are_bounded
    check_function 'without a bound packets are dropped, and queue pairs fail' 300 reads_overrun_without
    check_function 'the bound is as good as the best that could be given' 700 bound_is_good
    cat /tmp/figures
}

# tries_of MEMBERS MOST [PAUSES]: 16 threads of so many members change one word; swaps for a hundred changes.
tries_of() {
    TRIES_OF=$1 TRIES_MOST=$2 TRIES_PAUSES=${3-} LOCO_RDMA_TIMEOUT=2s over_verbs \
        "$builddir/tests/rdma/contract" 2 tries | tee /tmp/tries
    grep 'for a change' /tmp/tries | sed "s/\$/; threads of $1, pauses: ${3-all}/" >>/tmp/figures
    grep -q '^ok' /tmp/tries
}
# That there is what pauses are for.
tries_collide() { ! tries_of "$1" "$2" none && grep -q "for a change" /tmp/tries; }
export -f tries_of tries_collide

# With a wire that takes long, 16 threads whose tries at one word are in each other's way.
part_tries() {
    check_function 'without pauses most swaps are late' 120 'tries_collide 2 220'
    check_function 'pauses make them few' 120 'tries_of 2 170'
    check_function 'the same, all from over the wire: without' 120 'tries_collide 1 500'
    check_function 'the same, all from over the wire: with pauses' 200 'tries_of 1 300'
    cat /tmp/figures
}

# What each call costs, against the simulation and by the devices' own count.
# An emulated processor keeps who answers from the others for longer: they ask again more often.
part_counts() {
    export TEST_SCALE=${TEST_SCALE:-4}
    check_function 'operations of each call' 900 \
        "cd '$builddir' && srcdir='$srcdir/tests' builddir=. over_verbs sh '$srcdir/tests/simulation/counts'"
}

# The unit tests of channels, whose processes go over the wire.
part_channels() {
    local name
    export TEST_SCALE=${TEST_SCALE:-10}
    for name in ${TESTS:-atomic_var barrier endpoint kvstore linear owned_var queue queue_deaths reduce region \
        ringbuffer rw_lock sst ticket_lock window window_acc window_active window_dynamic window_lock}; do
        check_function "test_$name" 1200 \
            "over_verbs '$builddir/tests/unit/test_$name' --verbose=0 -j1 --timeout=600"
    done
}

# The same with one packet in a hundred lost.
part_channels_loss() {
    lossy
    export TEST_SCALE=${TEST_SCALE:-40}
    beside=4
    part_channels
    settle
    check_function 'packets were lost' 20 has_lost 5
}

# Soft-RoCE counts how often it has tried a message from the last acknowledgement on, not from the last
# packet that arrived: of a burst out of order one or two packets are taken each time. So on wires that
# reorder, messages of one packet go through best, and few at a time.
few_and_short() { export LOCO_RDMA_WRITE_PIECE=4K LOCO_RDMA_READ_AHEAD=64K LOCO_RDMA_DEPTH=32; }

# What can be promised there: not that a request is refused, for the refusal is one packet, after which the
# other side answers no more, and the peer counts as lost.
promised='moves large flood atomics chains chain_broken placed order threads fenced last_words left
    killed death'

# A wire that loses, delays and reorders: the same results. Without its fence message passing through
# two lanes fails there, so the litmus test is one that can.
part_bad_wire() {
    export TEST_SCALE=4 LOCO_RDMA_TIMEOUT=67ms      # after that what is lost is sent again
    local name
    few_and_short
    for name in $promised; do
        check_function "the contract on a bad wire: $name" 300 \
            "over_verbs '$builddir/tests/rdma/contract' 2 $name"
        check_function "the contract on a bad wire, placed by acknowledgements: $name" 300 \
            "LOCO_RDMA_PLACE=ack over_verbs '$builddir/tests/rdma/contract' 2 $name"
    done
    check_function 'a missing fence is seen on a bad wire' 400 \
        "TEST_SCALE=1 over_verbs '$builddir/tests/rdma/contract' 2 unfenced"
}

# Open MPI itself keeps to shared memory and the loopback interface. Of what mpirun loads, a third are
# libraries of hwloc's plugins, for what this machine has not.
export HWLOC_PLUGINS_PATH=/nowhere OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo

# mpi RANKS RANKS_A_NODE PROGRAM [ARGUMENTS...]: an MPI test, whose ranks are on nodes of their own, or so
# many on one.
mpi() {
    export TL_REFUSED_IS_SKIP=1 TL_TIMEOUT_SCALE="${TL_TIMEOUT_SCALE:-10}" RUN_LIMIT="${RUN_LIMIT:-1800}" \
        RANK_COMMAND="sh $srcdir/tests/rdma/on-node" \
        LOCO_DEVICE=rxe0,rxe1 LOCO_RDMA_TIMEOUT="${LOCO_RDMA_TIMEOUT:-268ms}"
    local ranks=$1 together=$2 program=$3
    shift 3
    check "MPI: $program $*, $ranks ranks, $together a node" 3600 env TL_RANKS="$ranks" \
        RANKS_A_NODE="$together" "$builddir/tools/with-loco" "$srcdir/tests/mpi/run.sh" \
        "$builddir/tests/mpi/$program" "$@"
}

# example RANKS RANKS_A_NODE PROGRAM [ARGUMENTS...]: an example, which checks its own result.
example() {
    local ranks=$1 together=$2 program=$3
    shift 3
    case " ${TESTS:-$program} " in *" $program "*) ;; *) return ;; esac
    check "example: $program $*, $ranks ranks, $together a node" 600 env RANKS_A_NODE="$together" \
        LOCO_DEVICE=rxe0,rxe1 LOCO_RDMA_TIMEOUT="${LOCO_RDMA_TIMEOUT:-268ms}" \
        "$builddir/tools/with-loco" mpirun --mca osc loco --oversubscribe -np "$ranks" \
        sh "$srcdir/tests/rdma/on-node" "$builddir/mpi_examples/$program" "$@"
}

# All of them, with 2 and 4 ranks each its own node, and with two ranks a node.
part_examples() {
    local placed flavor store held
    for placed in '2 1' '4 1' '4 2'; do
        example $placed barrier_latency --rounds 2k --warmup 200
        for flavor in allocate dynamic; do
            example $placed wordcount --flavor $flavor --buckets 512 "$srcdir/LICENSE" "$srcdir/README.md"
            example $placed gups --flavor $flavor --size 12
        done
        example $placed gups --flavor create --size 12 --update getput
        example $placed graph_bfs --scale 9 --roots 3
        example $placed bank --flavor create --accounts 1k --windows 10 --ops 500 --threads 2
        for held in array kvstore; do
            example $placed bank --api loco --held-in $held --accounts 200 --windows 10 --ops 500 --threads 2
        done
        for store in loco mpi; do
            example $placed kv_ycsb --store $store --mix a --records 1k --ops 1k --threads 2 --window 4
            example $placed kv_ycsb --store $store --mix d --records 1k --ops 1k --room 1k
        done
        for store in loco tree hash; do
            example $placed smallbank --store $store --accounts 1k --ops 200 --clients 2
            example $placed tatp --store $store --subscribers 100 --ops 200 --clients 2
        done
        example $placed tpcc --items 100 --customers 30 --warehouses 3 --ops 40 --clients 2
        example $placed word_index --check --prefix licens "$srcdir/LICENSE" "$srcdir/docs"
        example $placed task_queue --root 400 --threads 2 --capacity 16
        example $placed power_controller --pace steps --periods 20us,40us --time 2ms
        example $placed power_controller --periods 40us --time 1ms --slowdown 1000
    done
}

# Where packets are lost or many ranks share the wire, what is done meanwhile takes longer: the target is
# away longer, or less done.
progress_options=

# The MPI tests but `spawn`, which part `mpi` runs by itself, and `huge`, which moves gigabytes.
mpi_programs="putget windows passive active atomic batch gets dynamic objects hints errors misuse mistakes
    lengths grids levels threads meetings stats progress_mix many given_back progress accumulate"

# mpi_all RANKS RANKS_A_NODE: those, or the ones in TESTS. A window costs milliseconds here, so there are
# fewer.
mpi_all() {
    local program
    for program in ${TESTS:-$mpi_programs}; do
        case $program in
        progress) mpi "$1" "$2" progress $progress_options ;;
        many) mpi "$1" "$2" many --many 200 --churn 200 ;;
        *) mpi "$1" "$2" "$program" ;;
        esac
    done
}

# Each rank on a node of its own; and of some a case with more ranks.
part_mpi() {
    mpi_all 2 1
    # Spawned processes and their parents have no shared memory for Open MPI's messages.
    OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo mpi 2 1 spawn
    LOCO_RDMA_CACHE=1M mpi 2 1 given_back --only counted --room 4
    LOCO_RDMA_CACHE=0 mpi 2 1 given_back --only counted --room 0
    mpi 4 1 atomic --only tickets --flavor allocate
    mpi 4 2 atomic --only tickets --flavor allocate
    mpi 4 2 putget --only mixed --flavor allocate
    mpi 4 2 passive --only exclusive_counter --flavor create
    mpi 4 2 passive --only message_passing --flavor dynamic
    mpi 4 2 meetings --only two_targets --flavor allocate
}

# The same programs with four ranks, on as many nodes and on two. On the machine's two processors they take
# longer than two ranks, putget four times. In a dynamic window each element of an accumulate is an atomic:
# 16,384 from each of three ranks took more than half of the time for which the target is away.
part_mpi_four() {
    export TL_ONE_OF="${TL_ONE_OF-3}"
    progress_options='--words 16384'
    for ranks_a_node in ${RANKS_A_NODE:-1 2}; do
        mpi_all 4 "$ranks_a_node"
    done
}

# As `mpi`, with one packet in a hundred lost. What a process waits for then is mostly the time after which
# its packet is sent again: programs run beside each other meanwhile.
part_mpi_loss() {
    lossy
    export TL_ONE_OF="${TL_ONE_OF-8}" TL_TIMEOUT_SCALE="${TL_TIMEOUT_SCALE:-40}" RUN_LIMIT=3500
    beside=4 progress_options='--away 20 --words 4096'
    part_mpi
    settle
    check_function 'packets were lost' 20 has_lost 5
}

part_examples_loss() {
    lossy
    beside=4
    part_examples
    settle
    check_function 'packets were lost' 20 has_lost 5
}

# Litmus tests and stress on a wire that is far worse than any that is used: what there is to go wrong
# with order does. A case of the stress tests goes on for longer, since a call takes tens of
# milliseconds, and so may the calls that others' deaths interrupt.
part_hard_wire() {
    local name
    lossy
    export TEST_SCALE=40 CASE_SECONDS=30
    check_function 'a write in one piece does not arrive' 300 \
        "export LOCO_LOG=error LOCO_RDMA_WRITE_PIECE=inf; \
         refuses 'transport retry counter exceeded' over_verbs '$builddir/tests/rdma/contract' 2 large"
    few_and_short
    for name in $promised; do
        check_function "the contract on a hard wire, 2 processes: $name" 300 \
            "over_verbs '$builddir/tests/rdma/contract' 2 $name"
    done
    for name in moves flood atomics order threads fenced last_words death; do   # not always `large`
        check_function "the contract on a hard wire, 4 processes: $name" 300 \
            "over_verbs '$builddir/tests/rdma/contract' 4 $name"
    done
    check_function 'a missing fence is seen on a hard wire' 400 \
        "TEST_SCALE=1 over_verbs '$builddir/tests/rdma/contract' 2 unfenced"
    for name in ${TESTS:-locks values messages queues kvstore deaths}; do
        check_function "stress: $name" 900 "over_verbs '$builddir/tests/stress/$name'"
    done
    check_function 'packets were lost' 20 has_lost 30
}

# MPICH's lists of RMA tests, each rank on a node of its own where that can be; `suite` has had them
# built. What a test that did not pass wrote is shown, for it is gone with the machine.
part_conformance() {
    local keep=$builddir/tests/rdma/mpich file
    check_function 'a shared window of two nodes is refused, and it is said why' 300 \
        "refuses 'a shared window needs members that can map its memory' over_verbs \
         '$builddir/tools/with-loco' mpirun --mca osc loco -np 2 sh '$srcdir/tests/rdma/on-node' \
         '$keep/build/rma/win_shared'"
    TEST_SCALE=${TEST_SCALE:-4} over_verbs "$srcdir/tests/conformance/mpich" --tap --nodes --jobs 1 \
        --build "$builddir" --keep "$keep" --filter "${TESTS:-.}" \
        | tee /tmp/lines | grep --line-buffered -v '^1\.\.'
    for file in $(grep -L -E '^(passed|not run)' "$keep"/results/loco/*.verdict); do
        sed "s|^|# ${file##*/}: |" "${file%.verdict}.out" | tail -n 30
    done
    number=$((number + $(grep -c -E '^(not )?ok ' /tmp/lines)))
    grep -q '^1\.\.' /tmp/lines || echo "not ok $((number += 1)) - not all tests were run"
}

# The second machine's shell is there.
met() { until "$srcdir/tests/rdma/machine-shell" guest2 true; do sleep 1; done; }

# between RANKS PROGRAM [ARGUMENTS...]: an MPI program whose ranks are on both machines, the first half on
# the first; nothing says that data goes through the devices, nor which.
between() {
    local ranks=$1
    shift
    "$builddir/tools/with-loco" mpirun --mca plm_rsh_agent "$srcdir/tests/rdma/machine-shell" \
        --host "guest1:$((ranks / 2)),guest2:$((ranks / 2))" --mca osc loco --mca pml ob1 \
        --mca btl self,vader,tcp --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 \
        -x LD_LIBRARY_PATH -x LOCO_RDMA_TIMEOUT -x TL_ONE_OF -x TL_REFUSED_IS_SKIP \
        -x TL_TIMEOUT_SCALE \
        -np "$ranks" "$@"
}

# loses HOW DOING: rank 0 sees in time that the other machine's rank is gone. mpirun, which has lost a
# process or a daemon, ends as it will.
loses() {
    between 2 --enable-recovery "$builddir/tests/rdma/lost_peer" "$@" >/tmp/lost 2>&1 &
    local mpirun=$! seconds
    for seconds in $(seq 100); do
        grep -q '^lost after\|hangs' /tmp/lost && break
        sleep 1
    done
    cat /tmp/lost
    kill $mpirun
    wait $mpirun
    grep -q '^lost after' /tmp/lost
}

# says WORDS: a program of ranks on both machines ends by itself, and says why it has no data moved.
says() {
    between 2 "$builddir/tests/mpi/putget" --only mixed --flavor allocate >/tmp/said 2>&1
    cat /tmp/said
    grep -q -F -- "$1" /tmp/said && ! grep -q '^PASS' /tmp/said
}

no_device() { "$srcdir/tests/rdma/machine-shell" guest2 rdma link del rxe0; }
device_again() { "$srcdir/tests/rdma/machine-shell" guest2 rdma link add rxe0 type rxe netdev eth0; }

# RoCE's packets alone are dropped: UDP, port 4791.
no_roce() {
    modprobe -a sch_prio cls_u32 act_gact || return
    tc qdisc add dev eth0 root handle 1: prio || return
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 4791 0xffff action drop
}
export -f met between loses says no_device device_again no_roce

# Two machines. Nothing is shared but the wire: messages go by connections of librdmacm.
part_machines() {
    export LOCO_RDMA_TIMEOUT=268ms TL_ONE_OF="${TL_ONE_OF-3}" TL_REFUSED_IS_SKIP=1 TL_TIMEOUT_SCALE=10
    local tests="'$builddir/tests/mpi"

    check_function 'both machines are there' 120 met
    check_function '2 machines: putget, mixed' 300 "between 2 $tests/putget' --only mixed"
    check_function '2 machines: tickets by atomics, 4 ranks' 300 \
        "between 4 $tests/atomic' --only tickets --flavor allocate"
    check_function '2 machines: a counter under exclusive locks, 4 ranks' 300 \
        "between 4 $tests/passive' --only exclusive_counter --flavor create"
    check_function '2 machines: message passing, 4 ranks' 300 \
        "between 4 $tests/passive' --only message_passing --flavor dynamic"
    check_function '2 machines: memory that is given back is not registered any more' 300 \
        "between 2 $tests/given_back'"
}

# What is lost between two machines: a process, a device, the way.
part_machines_lost() {
    export LOCO_RDMA_TIMEOUT=268ms TL_ONE_OF=1 TL_REFUSED_IS_SKIP=1 TL_TIMEOUT_SCALE=10

    check_function 'both machines are there' 120 met
    check_function 'a process of the other machine is killed while we put' 150 'loses killed puts'
    check_function 'a process of the other machine is killed while we wait' 150 'loses killed waits'
    check_function 'a machine without a device' 150 \
        "no_device && says 'moves data by another fabric than this one'"
    device_again
    check_function 'a machine that cannot be called' 200 \
        "no_roce && says 'no RDMA connection to process'"
    tc filter del dev eth0 parent 1:
    check_function 'the other machine is cut off while we wait' 150 'loses cut_off waits'
}

# scale PROCESSES THREADS: everybody writes to everybody; each thread has then two queue pairs of its own,
# as of soft-RoCE, to every other process, which has one that answers each. What a process registers and
# pins: a page for fences to read of, its pool, and buffers of each thread.
scale() {
    local n=$1 t=$2 said
    said=$(over_verbs "$builddir/tests/rdma/scale" "$n" "$t" | grep '^scale|') || return
    echo "$said" | tee -a /tmp/scale
    [ "${said%|*|*}" = "scale|$n|$t|$((4 * n * (n - 1) * t))|$((n * (1 + t)))|$((n * (2 + t)))" ] || return
    [ "${said##*|}" -eq $((16 * 1024 + 4 + 528 * t)) ]
}

# What the numbers of processes and threads cost, as the guide has it.
part_scale() {
    local n
    for n in '2 1' '4 1' '8 1' '16 1' '4 4'; do
        check_function "queue pairs and memory of ${n% *} processes, ${n#* } threads each" 120 "scale $n"
    done
    grep -h '^scale' /tmp/scale | sed 's/^/# /'
}

# refuses WORDS COMMAND...: it fails by itself, and says these words.
refuses() {
    local words=$1 status=0
    shift
    "$@" >/tmp/refused 2>&1 || status=$?
    cat /tmp/refused
    [ $status -ne 0 ] && [ $status -lt 124 ] && grep -q -F -- "$words" /tmp/refused
}

# wire LOSS: both ends lose that part of what they send.
wire() {
    local i
    modprobe sch_netem
    for i in 0 1; do tc qdisc replace dev veth$i root netem loss "$1" || return; done
}

# during SECONDS FUNCTION ARGUMENTS...: the contract's case, with this done to the wire so many seconds
# after its begin.
during() {
    local case=$1 seconds=$2 pid
    shift 2
    over_verbs "$builddir/tests/rdma/contract" 2 "$case" &
    pid=$!
    sleep "$seconds"
    "$@" || { echo "$*: failed"; wait $pid; return 1; }
    wait $pid
}

briefly() { wire 100% && sleep 0.2 && echo "$(lost) packets lost" && [ "$(lost)" -gt 0 ] && wire 0%; }
unplug() { ip link set veth1 down; }
silence() { wire 100%; }
export -f scale refuses wire during briefly unplug silence

# What can be wrong, and that it is said.
part_failures() {
    export LOCO_LOG=error LOCO_RDMA_TIMEOUT=67ms
    local contract="over_verbs '$builddir/tests/rdma/contract' 2 moves"
    check_function 'no such device' 60 \
        "refuses 'no RDMA device can be used (LOCO_DEVICE=mlx5_7)' \
         env LOCO_FABRIC=verbs LOCO_DEVICE=mlx5_7 '$builddir/tests/rdma/contract' 2 moves"
    check_function 'a device without atomics' 60 \
        "export LD_PRELOAD='$builddir/tests/rdma/.libs/no_atomics.so'; \
         refuses 'rxe0:1: it has no atomics' $contract"
    check_function 'an address that the device does not have' 60 \
        "refuses 'rxe0:1: it has no address (GID) with the index 99' \
         env LOCO_RDMA_GID=99 LOCO_FABRIC=verbs '$builddir/tests/rdma/contract' 2 moves"
    check_function 'a partition that the device is not in' 60 \
        "refuses 'rxe0:1: it is not in the partition 0x8001' \
         env LOCO_RDMA_PKEY=0x8001 LOCO_FABRIC=verbs '$builddir/tests/rdma/contract' 2 moves"
    check_function 'its partition, and an address by its index' 60 \
        "export LOCO_RDMA_PKEY=0x7fff LOCO_RDMA_GID=1; $contract"
    check_function 'an address that nobody has' 60 \
        "export LD_PRELOAD='$builddir/tests/rdma/.libs/wrong_gid.so'; \
         refuses 'at 10.99.99.99: Connection timed out' $contract"
    check_function 'memory that may not be locked' 60 \
        "ulimit -l 64; refuses 'raise the limit of locked memory' over_verbs \
         setpriv --bounding-set=-ipc_lock '$builddir/tests/rdma/contract' 2 moves"
    check_function 'an address that is found late' 60 \
        "export LD_PRELOAD='$builddir/tests/rdma/.libs/late_address.so'; $contract"
    check_function 'a wire that is cut for a moment' 120 \
        "LOCO_RDMA_TIMEOUT=2s during held_up 4 briefly"
    check_function 'a wire that is cut' 120 "during cut_off 4 silence"
    wire 0%
    check_function 'an interface that goes down' 120 "during cut_off 4 unplug"
    check_function 'an interface that is down' 60 "refuses 'its link is not up' $contract"
}

# guarded KIND: the program of tests/cases, two nodes, with an end of its own.
guarded() {
    LOCO_DEVICE=rxe0,rxe1 LOCO_RDMA_TIMEOUT=268ms timeout 60 "$builddir/tools/with-loco" mpirun --mca osc loco \
        --oversubscribe -np 2 sh "$srcdir/tests/rdma/on-node" "$builddir/tests/cases/guarded_window" "$1" \
        >/tmp/guarded 2>&1
    local status=$?
    cat /tmp/guarded
    return $status
}
# refused_for WORDS KIND: nobody gets the window, and it is said why.
refused_for() { guarded "$2" && grep -q '^refused' /tmp/guarded && grep -q -F -- "$1" /tmp/guarded; }
served() { guarded "$1" && grep -q '^served' /tmp/guarded; }
export -f guarded refused_for served

# What users met that only a device shows: memory that it may not have, workers that come and go, an address
# that is not found, thread domains that run out.
part_cases() {
    local contract="over_verbs '$builddir/tests/rdma/contract' 2" so="'$builddir/tests/rdma/.libs"
    check_function 'a window of which a part may be read only is refused, and why' 120 \
        "refused_for 'bytes 262144 to 524287 may be read, not written' read"
    check_function 'so is one of which a part may not be accessed' 120 \
        "refused_for 'bytes 262144 to 524287 may not be accessed' none"
    check_function 'what may be read only can be read, and is not written' 120 'served all'
    check_function 'memory that may not be written or not be registered' 120 "$contract protected"
    check_function 'buffers that cannot be registered are copied' 120 "$contract copied"
    check_function 'so they are where no more may be locked' 120 \
        "ulimit -l 17920; over_verbs setpriv --bounding-set=-ipc_lock '$builddir/tests/rdma/contract' 2 copied"
    check_function 'what is refused is told, and all goes on' 300 "TEST_SCALE=10 $contract mended"
    check_function 'workers that come and go leave nothing behind' 300 "over_verbs '$builddir/tests/rdma/elastic' 4"
    check_function 'so do those of other machines' 300 \
        "export LD_PRELOAD=$so/own_kernel.so'; over_verbs '$builddir/tests/rdma/elastic' 4"
    check_function 'strangers that call are refused, and all goes on' 120 \
        "export LD_PRELOAD=$so/own_kernel.so'; over_verbs '$builddir/tests/rdma/callers' 100"
    check_function 'while an address is not found all else goes on' 120 \
        "export LATE_ADDRESS=ends LD_PRELOAD=$so/late_address.so'; $contract strangers"
    check_function 'thread domains that run out are shared, and that is said' 120 \
        "export LOCO_LOG=warn LD_PRELOAD=$so/few_domains.so'; $contract threads >/tmp/domains 2>&1; \
         cat /tmp/domains; grep -q '^ok' /tmp/domains && grep -q 'no thread domain left: .* share 2 in groups' /tmp/domains"
    check_function 'loco-info says how many there are, and what may be outstanding' 60 \
        "export LD_PRELOAD=$so/few_domains.so' LOCO_RDMA_OUTSTANDING=700 LOCO_RDMA_OUTSTANDING_BYTES=auto; \
         '$builddir/tools/loco-info' >/tmp/info; cat /tmp/info; \
         grep -q 'rxe0:1 threads  *2 thread domains of a process' /tmp/info && \
         grep -q 'rxe0:1 outstanding  *at most 700 requests, at most 1048576 bytes' /tmp/info"
}

# ---- pools ----

# at MACHINE COMMAND...: there, which is a device and a name of its own; the processes of one machine are of one kernel.
at() {
    local machine=$1
    shift
    mkdir -p -m 700 "/tmp/m$machine"
    env OWN_KERNEL="m$machine" LD_PRELOAD="$builddir/tests/rdma/.libs/own_kernel.so" LOCO_DEVICE="rxe$((machine - 1))" \
        XDG_RUNTIME_DIR="/tmp/m$machine" "$@"
}
note() { echo "# $*" >>/tmp/figures; }
pools() { local machine=$1; shift; at "$machine" "$builddir/tests/machines/pools" "$@"; }
agent() { local machine=$1 what=$2; shift 2; at "$machine" "$builddir/tools/loco-agent" "$what" --pool p "$@"; }
agents_meet() {
    local i
    for i in 1 2; do
        agent $i start --memory 64M --places 8 --join 10.77.0.1:4001 --port 400$i --secret /tmp/secret --log /tmp/log.$i \
            || { cat /tmp/log.$i; return 1; }
    done
    for i in $(seq 300); do
        agent 1 status --json | grep -q '"reached": true.*"reached": true' && return
        sleep 0.2
    done
    cat /tmp/log.*
    return 1
}
# resources KIND: how many the kernel counts on both devices; of PID: those of that process.
resources() { rdma resource show "$1" | wc -l; }
resources_of() { rdma -d resource show "$1" | grep -c "pid $2 "; }
# What a worker of the second machine puts is there on the first, and it has no device.
put_without_a_device() {
    local pid worker qps mrs result=0
    pools 1 put p s - 20 && pools 2 check p s 20 || { cat /tmp/log.*; return 1; }
    qps=$(resources qp) mrs=$(resources mr)
    pools 2 stay p s 5 >/tmp/stays &
    worker=$!
    until grep -q in /tmp/stays; do sleep 0.1; kill -0 $worker || return; done
    pid=$(sed -n 's/^in //p' /tmp/stays)
    note "queue pairs $qps, then $(resources qp); registrations $mrs, then $(resources mr)"
    [ "$(resources qp)" -eq "$qps" ] && [ "$(resources mr)" -eq "$mrs" ] || result=1
    ! ls -l "/proc/$pid/fd" | grep -q infiniband || result=1
    wait $worker || result=1
    note "$(grep calls /tmp/stays)"
    return $result
}
# The way to compare with: the worker opens the device and connects.
put_with_a_device() {
    local pid worker
    LOCO_PORTS=no pools 2 stay p s 5 >/tmp/stays &
    worker=$!
    until grep -q in /tmp/stays; do sleep 0.1; kill -0 $worker || return; done
    pid=$(sed -n 's/^in //p' /tmp/stays)
    ls -l "/proc/$pid/fd" | grep -q infiniband || return
    wait $worker
    note "$(grep calls /tmp/stays)"
}
# device_calls WAY: how often a worker, from its start to its end with a get between, has asked for a device: it
# opens none, and without that it can make no queue pair, change none, and register nothing.
device_calls() {
    LOCO_PORTS=$1 at 2 strace -f -qq -e trace=open,openat,ioctl,socket -o /tmp/calls "$builddir/tests/machines/pools" \
        first p s 7 >/tmp/first || { cat /tmp/first /tmp/calls; echo no run; }
    grep -c -E '/dev/infiniband|/sys/class/infiniband|ioctl\(.*(RDMA|0x1b)|NETLINK_RDMA' /tmp/calls
}
asks_for_no_device() {
    local by_ports by_device
    by_ports=$(device_calls yes)
    by_device=$(device_calls no)
    note "calls of the kernel that are for a device: $by_ports by ports, $by_device by a device of its own"
    [ "$by_ports" = 0 ] && [ "$by_device" -gt 0 ]
}
# While the other agent is stopped, what it keeps is found and opened.
found_while_stopped() {
    local worker pid before after
    mkfifo /tmp/go
    pools 2 find p s 1000 </tmp/go >/tmp/finds &
    worker=$!
    exec 5>/tmp/go
    until grep -q in /tmp/finds; do sleep 0.1; kill -0 $worker || return; done
    before=$(agent 2 status --json | sed 's/.*"port_requests": \([0-9]*\).*/\1/')
    pid=$(agent 1 status | sed -n 's/.*pid //p' | head -n 1)
    kill -STOP "$pid"
    echo >&5
    wait $worker
    status=$?
    kill -CONT "$pid"
    exec 5>&-
    after=$(agent 2 status --json | sed 's/.*"port_requests": \([0-9]*\).*/\1/')
    note "$(tail -n 1 /tmp/finds), $((after - before)) requests"
    [ $status -eq 0 ] && [ $((after - before)) -le 2010 ]
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
first_get() {
    local i way
    for i in $(seq 9); do
        for way in yes no; do
            LOCO_PORTS=$way pools 2 first p s 7 >/tmp/first || { cat /tmp/first; return 1; }
            sed -n 's/^first \([0-9]*\) us/\1/p' /tmp/first >>/tmp/first.$way
        done
    done
    note "from main to the first get, median of 9: by ports $(median </tmp/first.yes) us, by a device of its own $(median </tmp/first.no) us"
    [ "$(median </tmp/first.yes)" -lt "$(median </tmp/first.no)" ]
}
# The agent is known: what a worker asks it to reach one more of its stores takes no longer than three puts.
opens_another() {
    local i put opened
    pools 1 put p other - 5 || return
    for i in $(seq 9); do pools 2 warm p s other 20 || return; done >/tmp/warm
    put=$(sed 's/^put \([0-9]*\) .*/\1/' /tmp/warm | median)
    opened=$(sed 's/.*opened \([0-9]*\) .*/\1/' /tmp/warm | median)
    note "another store of an agent that is known, median of 9: $opened us, again $(sed 's/.*again \([0-9]*\) .*/\1/' /tmp/warm | median) us; a put $put us"
    [ "$opened" -le $((3 * put)) ]
}
leaves_nothing() {
    local i qps mrs
    qps=$(resources qp) mrs=$(resources mr)
    for i in $(seq 30); do pools 2 visit p s "$i" || return; done
    note "queue pairs $qps, then $(resources qp); registrations $mrs, then $(resources mr)"
    for i in $(seq 50); do agent 2 status --json | grep -q '"clients": 0,.*"leaving": 0,.*"ports": 0,' && break; sleep 0.2; done
    agent 2 status --json | grep -q '"clients": 0,.*"leaving": 0,.*"ports": 0,' && [ "$(resources qp)" -eq "$qps" ] \
        && [ "$(resources mr)" -eq "$mrs" ]
}
# A pool over two machines, whose workers have no device: they go by their agents' queue pairs.
part_ports() {
    export LOCO_PEER_TIMEOUT=60s
    export -f at note pools agent agents_meet resources resources_of put_without_a_device put_with_a_device \
        device_calls asks_for_no_device found_while_stopped median first_get opens_another leaves_nothing
    check_function 'agents of two machines meet over their devices' 120 agents_meet
    check_function 'a worker reaches the other machine without a device' 180 put_without_a_device
    check_function 'a worker may have a device of its own' 180 put_with_a_device
    check_function 'from its start to its end it does not ask the kernel for a device' 240 asks_for_no_device
    check_function 'what the other machine keeps is found a thousand times while its agent is stopped' 240 found_while_stopped
    check_function 'from main to the first get it takes less than with a device' 300 first_get
    check_function 'one more store of an agent that is known is opened within three puts' 240 opens_another
    check_function 'workers come and go, and leave nothing behind' 240 leaves_nothing
    cat /tmp/figures
    for i in 1 2; do agent $i stop >/dev/null; done
    sed 's/^/# /' /tmp/log.* | cut -c -200 | tail -n 20
}

part_smoke() {
    check_function 'both devices are up' 20 both_up
    check_function 'rping from one device to the other' 60 pings
    check_function 'writes cross the wire' 60 crosses_the_wire
}

# Functions are commands of a shell of their own, so that they have a limit, too.
export -f pings crosses_the_wire both_up on_wire sent lost has_lost
check_function() { local name=$1 limit=$2; shift 2; check "$name" "$limit" bash -c "$*"; }

"part_$1"
echo "1..$number"

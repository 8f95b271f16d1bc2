#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Benchmarks that check what they measure: tiny runs, for the results alone. Not how fast anything
# is.
set -u
: "${srcdir:=.}" "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
n=0
failed=0

# status WANTED TITLE WORDS COMMAND...: it ends so, and says these words. 77: it cannot run here, and says why.
status() {
    wanted=$1 title=$2 words=$3
    shift 3
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    n=$((n + 1))
    if [ $got -eq 77 ]; then
        echo "ok $n - $title # SKIP $(tail -n 1 "$work/err")"
    elif [ $got -eq "$wanted" ] && cat "$work/out" "$work/err" | grep -q -e "$words"; then
        echo "ok $n - $title"
    else
        sed 's/^/# /' "$work/out" "$work/err" | tail -n 20
        echo "not ok $n - $title: status $got, not $wanted"
        failed=1
    fi
}


search() {
    "$srcdir/bench/bfs_one_sided" --build "$builddir" --rivals '' --rate-rivals '' --rounds 1 "$@"
}

status 0 "a breadth-first search, checked against a serial one" '^search *3 *[0-9.]*[1-9]' \
    search --gate --parts search --ranks 3 --scale 7 --roots 2
status 1 "a search that lost an accumulate" '"check": "failed"' \
    "$builddir/tools/with-loco" mpirun --mca osc loco -np 2 "$builddir/bench/bfs" --scale 7 \
    --roots 1 --spoil
status 0 "single accumulates on memory of the program" '^create *3 *[0-9.]*[1-9]' \
    search --gate --parts rate --rate-ranks 3 --count 3000 --flavors create
status 0 "the same on attached memory" '^dynamic *2 *[0-9.]*[1-9]' \
    search --gate --parts rate --rate-ranks 2 --count 3000 --flavors dynamic
status 0 "windows made, touched, used and freed" '^3x8192 *3 *loco *[0-9.]*[1-9]' \
    "$srcdir/bench/build_phase" --build "$builddir" --rivals '' --rounds 1 --ranks 3 --sets 3x8192
status 0 "the same on memory that nobody touched" '^3x8192 *2 *loco *[0-9.]*[1-9]' \
    "$srcdir/bench/build_phase" --build "$builddir" --rivals '' --rounds 1 --ranks 2 --sets 3x8192 \
    --untouched
status 0 "accumulates of one element and of many in phases" '^vector ' \
    "$srcdir/bench/acc_phases_compare" --build "$builddir" --rivals sm --rounds 1 --repeat 2 --calls 300
status 2 "no such part" "no such part" search --parts walk
for program in smallbank tatp bank; do
    status 0 "transactions of $program beside other stores" "^$program *loco *[0-9.]*[1-9]" \
        "$srcdir/bench/tx_compare" --build "$builddir" --work $program --rounds 1 --seconds 0.2 \
        --size 1000
done
status 0 "transactions beside those without a log" '^bank-price *unlogged *[0-9.]*[1-9]' \
    "$srcdir/bench/tx_compare" --build "$builddir" --work price --rounds 1 --seconds 0.2 --size 1000
status 0 "a tree beside other stores" '^tree *e *24x100 *tree *[0-9.]*[1-9]' \
    "$srcdir/bench/index_compare" --build "$builddir" --index tree --mixes a,e --rounds 1 \
    --seconds 0.1 --records 1000
status 0 "a tree in virtual time" '^4 clients: [1-9]' \
    "$builddir/bench/index_sim" --clients 4 --keys 500 --time 0.1
status 0 "the same, in place" '^4 clients: [1-9]' \
    "$builddir/bench/index_sim" --clients 4 --keys 500 --time 0.1 --in-place
status 0 "with a log of values" '^4 clients: [1-9]' \
    "$builddir/bench/index_sim" --clients 4 --keys 500 --time 0.1 --mix d --way values
status 0 "a hash table in virtual time" '^4 clients: [1-9]' \
    "$builddir/bench/index_sim" --index hash --clients 4 --keys 500 --time 0.1
status 0 "a table that grows a subtable at a time" '^4 clients: [1-9]' \
    "$builddir/bench/index_sim" --index race --clients 4 --keys 500 --time 0.1 --mix d
status 2 "a table that has no scans" "only a tree has scans" \
    "$builddir/bench/index_sim" --index hash --mix e
status 0 "inserts around a death" '[1-9] cells put right; [1-9][0-9]* keys found, 0 not' \
    "$builddir/bench/index_timeline" --clients 9 --keys 500 --time 13 --kill 3 --way values
status 0 "a client dies that grows a subtable" '[1-9] of them wait for the dead for ever' \
    "$builddir/bench/index_timeline" --index race --clients 6 --keys 4000 --time 12 --kill 1 \
    --growing --race-bits 3 --race-buckets 128
status 0 "figures of indexes" '^c *uniform *[1-9]' \
    "$srcdir/bench/index_figures" --build "$builddir" --figures mixes,looks --clients 4 --looking 4 \
    --keys 500 --time 0.1 --output "$work/indexes"
status 0 "the memory of a tree" 'bytes per key' "$builddir/bench/index_memory" --keys 3000 --updates 3000
status 2 "no such mix" "mixes takes" "$srcdir/bench/index_compare" --build "$builddir" --mixes g
status 0 "commits of SmallBank around a death" '^killed *milliseconds without a commit .*[0-9] % before' \
    "$srcdir/bench/deaths_plot" --build "$builddir" --rounds 2 --output "$work/deaths"
status 0 "what parts of transactions cost, simulated" '^+ chains *[0-9.]*[1-9]' \
    "$srcdir/bench/paper_figures" --build "$builddir" --figures parts --clients 4 --output "$work/figures"
status 0 "commits undone, simulated, where cores are lost" '^1ms  *[0-9.]' \
    "$srcdir/bench/tx_patience" --build "$builddir" --parts simulated --patience 10us --objects 2,8 \
    --clients 6 --among 50 --time 2 --output "$work/patience"
status 0 "commits undone here" '^1ms  *[1-9][0-9]*  *1.000 ' \
    "$srcdir/bench/tx_patience" --build "$builddir" --parts here --ranks 3 --patience 10us --rounds 1 \
    --seconds 0.2 --output "$work/patience"
status 1 "simulated transactions whose changes are lost" 'changes, .* found' \
    "$builddir/bench/tx_sim" --clients 4 --objects 8 --time 1 --lose
status 0 "a bound of what is outstanding, simulated" '^96 threads.* \(9\|10\)[0-9]\.[0-9]* million' \
    "$builddir/bench/rma_sim" --threads 96 --outstanding 32 --time 0.2 \
    --set LOCO_RDMA_OUTSTANDING=1024
status 0 "without it" '^96 threads.* [56][0-9]\.[0-9]* million' \
    "$builddir/bench/rma_sim" --threads 96 --outstanding 32 --time 0.2
status 0 "a hash table whose updates contend, simulated" '^4 threads .* 1\.[0-9]* tries' \
    "$builddir/bench/hash_sim" --threads 4 --keys 1000 --time 0.5
status 1 "a simulated update that is lost" 'updates, .* found' \
    "$builddir/bench/hash_sim" --threads 1 --tasks 1 --keys 100 --time 0.1 --lose
status 0 "workers that connect by their agents, simulated" '^mesh by ports.* heard after .* \(2\|3\)[0-9]\.' \
    "$builddir/bench/connect_sim" --workers 12 --ports
status 0 "the same, each by itself" '^mesh by verbs.* heard after .* [1-9][0-9][0-9][0-9][0-9]\.' \
    "$builddir/bench/connect_sim" --workers 12
status 2 "ports where connections are there" "not of that work" \
    "$builddir/bench/connect_sim" --work look-up --ports
status 2 "no such setup" "not a value" "$builddir/bench/connect_sim" --setup krcor
status 0 "figures of workers that connect" '^on 2 machines, 8 keep the table *[1-9]' \
    "$srcdir/bench/krcore_figures" --build "$builddir" --workers 2,12 --new 8 --time 100 \
    --think-us 2000
status 2 "no such figure of them" "figures" "$srcdir/bench/krcore_figures" --figures 10
status 0 "a simulated multicast, all parts" '^4 members: [1-9]' \
    "$builddir/bench/multicast_sim" --members 4 --messages 600
status 0 "the same without its parts" '^4 members: [1-9]' \
    "$builddir/bench/multicast_sim" --members 4 --messages 200 --without send,receive,deliver,nulls,early
status 0 "the same where members hand on what others send" '^9 members: [1-9]' \
    "$builddir/bench/multicast_sim" --members 9 --senders 3 --messages 300 --direct 1
status 0 "a simulated topic, all levels" '^2 subscribers: [1-9]' sh -c "for level in unordered atomic kept logged; do
    '$builddir/bench/topic_sim' --subscribers 2 --samples 400 --level \$level || exit 1; done"
status 0 "the figure of topics" '^logged, 15 ' \
    "$srcdir/bench/spindle_figures" --build "$builddir" --figures topics --messages 400 --output "$work/spindle"
status 0 "topics of processes" '^median  *logged ' \
    "$builddir/bench/topic_bench" --subscribers 2 --samples 500 --rounds 1 --logs "$work"
status 2 "no such part of multicasts" "not a value" "$builddir/bench/multicast_sim" --without tail
status 0 "figures of a multicast's parts" '^all, 2 ' \
    "$srcdir/bench/spindle_figures" --build "$builddir" --figures batching --members 2 --messages 400 \
    --output "$work/spindle"
status 0 "messages to all in one order" '^2 *all *100 *loco *[0-9.]*[1-9]' \
    "$srcdir/bench/multicast_compare" --build "$builddir" --ways floor,mpi,bcast --members 2,3 \
    --bytes 100,1024 --rounds 1 --seconds 0.02
status 0 "the same between libraries that are there" '^2 *one *100 *loco *[0-9.]*[1-9]' \
    "$srcdir/bench/multicast_compare" --build "$builddir" --ways zmq,zmq-order,iceoryx --members 2 \
    --bytes 100 --rounds 1 --seconds 0.02
status 2 "no such part of transactions" "not a value" "$builddir/bench/tx_sim" --parts log,tail

# Machines are namespaces, which not everybody may make.
apart() {
    program=$1
    shift
    "$srcdir/bench/$program" --build "$builddir" "$@"
}

status 0 "two machines, call by call" '^4 rows.* 0 without a figure' \
    apart machines_compare --quick --rounds 1 --ranks 2 --rivals '' --rows put,get,lock_put,put_1MiB
status 0 "all ranks at work, four on each machine" '^2 rows.* 0 without a figure' \
    apart machines_compare --quick --rounds 1 --ranks 8 --rivals '' --rows fetch_and_op,put_rate
status 0 "a target that computes half a second is not waited for" '^get  *loco  *[^ ]*  *[0-9.]\{1,5\} ' \
    apart machines_compare --quick --rounds 1 --rivals '' --rows get --computing 0.5
status 1 "a component that needs its target" '^get  *pt2pt .* SLOWER ' \
    apart machines_compare --quick --rounds 1 --subject pt2pt --rivals '' --rows get --computing 0.5 --gate
status 0 "examples on two machines are right" '^7 examples: 7 right' \
    apart machines_examples --quick --rounds 1
status 1 "an example that fails" 'bank_mpi .* WRONG ' \
    apart machines_examples --quick --rounds 1 --only bank_mpi --gate --subject nobody
status 0 "processes that do nothing" '^loco  *[0-9.]' \
    apart machines_idle --component loco --machines 2 --seconds 0.2
status 2 "no such row" "no such row: put9" apart machines_compare --rows put9
echo "1..$n"
exit $failed

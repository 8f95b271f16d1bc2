#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: what `taskset -c 1 mpirun` starts stays on CPU 1, as with any other command; or mpirun says
# that it cannot.
# Seen: mpirun binds its ranks without looking at its own mask, so the only rank runs on CPU 0 and
# nothing is said. With `--bind-to none` it stays on CPU 1.
set -eu
cd "$(dirname "$0")/.."
. findings/packages
{ taskset -c 0 true && taskset -c 1 true; } 2>/dev/null \
    || { echo "not looked at: CPUs 0 and 1 are not both ours"; exit 69; }

look() {
    inside 'for bind in "" "--bind-to none"; do
                cpus=$(taskset -c 1 mpirun $bind -np 1 \
                       sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)
                case $cpus in
                1) echo "the rank is on CPU 1" ;;
                "" | *[!0-9,-]*) echo "no rank: $cpus" ;;
                *) echo "the rank is elsewhere" ;;
                esac
            done'
}

install bookworm $bookworm_mpi
still "the rank is elsewhere
the rank is on CPU 1" "$(look)"
install trixie $trixie_mpi
still "the rank is elsewhere
the rank is on CPU 1" "$(look)"
exit $changed

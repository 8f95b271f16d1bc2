#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: an mpirun that was killed does not matter to the next one, which makes folders of its own
# below /tmp or takes over what it finds there.
# Seen: with 4.1.4 it is so. With 5.0.7 an mpirun that has the same process number fails in the
# beginning: "prte_session_dir failed", "Exists". So does a container that runs mpirun, once it was
# stopped in the middle and is started again with the same /tmp: the numbers in there are the same.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

# Each `inside` has a process namespace of its own, as a container has.
look() {
    inside 'mpirun --oversubscribe -np 1 sh -c "touch /root/runs; sleep 100" >/dev/null 2>&1 &
            while [ ! -e /root/runs ]; do sleep 0.1; done; echo $! >/root/number; kill -KILL $!'
    still "$1" "$(inside 'mpirun --oversubscribe -np 1 echo started >/root/said 2>&1 &
                          [ $! = $(cat /root/number) ] && echo "the same number"
                          wait $!; grep -ow -m 1 -e started -e Exists /root/said')"
    still "started" "$(inside 'rm -rf /tmp/*
                               mpirun --oversubscribe -np 1 echo started 2>&1 &
                               wait $!')"
}

install bookworm ${bookworm_mpi% gcc*}
look "the same number
started"
install trixie ${trixie_mpi% gcc*}
look "the same number
Exists"
exit $changed

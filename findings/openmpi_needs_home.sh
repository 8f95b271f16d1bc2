#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: mpicc, which only runs a compiler with more arguments, needs no home directory; or it finds that
# of the user in /etc/passwd where HOME is not set, as in services, containers and cron's like.
# Seen: Open MPI 5.0.7's mpicc ends with status 255 and "Unable to get the user home directory" (so do mpirun
# and each program that calls MPI_Init), though /etc/passwd has one. 4.1.4's works. With HOME set to any
# folder, there or not, both work.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    inside 'unset HOME; mpicc --showme:version >out 2>&1; echo "without HOME: status $?"
            ! grep -q "Unable to get the user home directory" out || echo "it says that it has no home directory"
            HOME=/nowhere mpicc --showme:version >out 2>&1; echo "with HOME=/nowhere: status $?"'
}

install bookworm $bookworm_mpi
still "without HOME: status 0
with HOME=/nowhere: status 0" "$(look)"
install trixie $trixie_mpi
still "without HOME: status 255
it says that it has no home directory
with HOME=/nowhere: status 0" "$(look)"
exit $changed

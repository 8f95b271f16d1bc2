#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: mpirun -x NAME=VALUE gives the ranks that value, whatever NAME is in mpirun's environment.
# Seen: with 4.1.4 it is so. With 5.0.7 it is so for most names, but for a parameter (OMPI_MCA_*)
# the value in mpirun's own environment wins, silently. With none there, that of -x is taken.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    still "$1" "$(inside 'run="mpirun --oversubscribe -np 1 -x OMPI_MCA_btl=self,tcp -x COLOR=red"
        names="env | grep -E ^\(COLOR\|OMPI_MCA_btl\)= | sort"
        echo "not set:"; $run sh -c "$names"
        export OMPI_MCA_btl=self COLOR=blue
        echo "set:"; $run sh -c "$names"' 2>/dev/null)"
}

install bookworm ${bookworm_mpi% gcc*}
look "not set:
COLOR=red
OMPI_MCA_btl=self,tcp
set:
COLOR=red
OMPI_MCA_btl=self,tcp"
install trixie ${trixie_mpi% gcc*}
look "not set:
COLOR=red
OMPI_MCA_btl=self,tcp
set:
COLOR=red
OMPI_MCA_btl=self"
exit $changed

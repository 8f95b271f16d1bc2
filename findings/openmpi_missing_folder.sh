#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: of a list of component folders (mca_base_component_path) those that do not exist are passed over,
# as the shell does with PATH, or are an error that names them.
# Seen, Open MPI 4.1.4: the list ends at the first folder that does not exist. With one before
# SYSTEM_DEFAULT no component of Open MPI is found, and the error is about something else: mpirun calls
# its option -np unknown. 5.0.7 passes over such folders.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    inside 'mpirun -np 1 true >out 2>&1; echo "with no list: status $?"
            OMPI_MCA_mca_base_component_path=/nowhere:SYSTEM_DEFAULT mpirun -np 1 true >out 2>&1
            echo "with a folder that is not there: status $?"
            ! grep -q "unknown option .-np" out || echo "it says: unknown option -np"
            ! grep -q /nowhere out || echo "it names the folder"'
}

install bookworm $bookworm_mpi
still "with no list: status 0
with a folder that is not there: status 1
it says: unknown option -np" "$(look)"
install trixie $trixie_mpi
still "with no list: status 0
with a folder that is not there: status 0" "$(look)"
exit $changed

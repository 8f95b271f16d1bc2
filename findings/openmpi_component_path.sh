#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: where ~/.openmpi/mca-params.conf names folders of components (mca_base_component_path), the ranks
# of a job look there; or they do when mpirun is told to export that setting (-x).
# Seen, Open MPI 5.0.7 as Debian 13 has it: PMIx's own parameter file sets a variable of the same name for
# PMIx's components. mpirun takes it for Open MPI's and hands it to each rank as an environment variable,
# which beats the user's file and -x alike. So no component outside Open MPI's own folder is found under
# mpirun, though ompi_info finds it. In mpirun's own environment, or by --mca, the setting has effect.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

# What the ranks have.
ranks() { inside "$1 -np 1 env | sed -n 's/^OMPI_MCA_mca_base_component_path=//p'"; }

install trixie $trixie_mpi
inside 'mkdir -p comp .openmpi && echo "mca_base_component_path = /root/comp:SYSTEM_DEFAULT" >.openmpi/mca-params.conf'
still "/root/comp:SYSTEM_DEFAULT" "$(inside "ompi_info --all --parsable | sed -n 's/^mca:mca:base:param:mca_base_component_path:value://p' | tr -d '\"'")"
still "/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix" "$(ranks mpirun)"
still "/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix" \
    "$(ranks 'mpirun -x OMPI_MCA_mca_base_component_path=/root/comp:SYSTEM_DEFAULT')"
still "/root/comp:SYSTEM_DEFAULT" "$(ranks 'mpirun --mca mca_base_component_path /root/comp:SYSTEM_DEFAULT')"
exit $changed

# SPDX-License-Identifier: BSD-3-Clause
# A recipe for Spack. Put the folder above this one into a repository of recipes (`spack repo create`), the
# tarball into the folder where spack is run, and `spack install osc-loco`.
import os

from spack.package import *


class OscLoco(AutotoolsPackage):
    """Concurrent objects in network memory (libloco), and with them one-sided communication for Open MPI
    (mpirun --mca osc loco)."""

    manual_download = True
    url = f"file://{os.getcwd()}/osc_loco-0.2.0.tar.gz"

    license("BSD-3-Clause")

    # No checksum stands here: the tarball is made by who installs it (make dist).
    version("0.2.0")

    variant("mpi", default=True, description="The component of Open MPI, and libloco from a communicator")
    variant("verbs", default=True, description="RDMA devices, by rdma-core")
    variant("hwloc", default=True, description="Take the RDMA device that is nearest")

    depends_on("c", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1:5", when="+mpi")
    depends_on("rdma-core", when="+verbs")
    depends_on("hwloc@2:", when="+hwloc")

    def configure_args(self):
        args = ["--without-tests"]
        args += self.with_or_without("mpi")
        args += self.with_or_without("verbs")
        args += self.with_or_without("hwloc")
        if "+mpi" in self.spec:
            # Open MPI has a prefix of its own, which is not written to.
            args.append(f"--with-mca-dir={self.prefix.lib.openmpi}")
        return args

    def setup_run_environment(self, env):
        env.set("LOCO_ROOT", self.prefix)

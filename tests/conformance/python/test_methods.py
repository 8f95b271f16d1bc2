# SPDX-License-Identifier: BSD-3-Clause
"""Run after all others in the same run: is there a method of MPI.Win that no test used?"""
from mpi4py import MPI

from base import Case, FLAVORS, used

# The calls that make windows and keys are not called on a window; what is left out is of some
# flavors only, and the tests of errors call it on the others.
MAKERS = {'Create', 'Allocate', 'Allocate_shared', 'Create_dynamic', 'Create_keyval',
          'Free_keyval', 'f2py'}
NOT_ON = {'dynamic': {'tomemory'}}


class Methods(Case):
    def test_every_method_on_every_flavor(self):
        every = {name for name in dir(MPI.Win) if not name.startswith('_')} - MAKERS
        for flavor in FLAVORS:
            called = {name for kind, name in used if kind == flavor}
            missing = every - called - NOT_ON.get(flavor, set())
            self.equal(sorted(missing), [], 'never used on ' + flavor)

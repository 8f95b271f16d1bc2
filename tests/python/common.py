# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the package loco share: a runtime, made once, and names of channels that are new."""
import itertools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'conformance', 'python'))
from base import RANK, SIZE, WORLD, Case, seconds   # noqa: E402

import loco                                         # noqa: E402

LIMIT = seconds(30)
_numbers = itertools.count()


def name(kind):
    """The same at all ranks, for they run the same tests in the same order."""
    return '%s.%d' % (kind, next(_numbers))


class LocoCase(Case):
    """Each test has a runtime and a barrier; what it makes is closed at its end, by all together."""

    def setUp(self):
        self.rt = loco.Runtime.from_mpi(WORLD)
        self.barrier = loco.Barrier(self.rt, name('barrier'))

    def tearDown(self):
        WORLD.Barrier()
        self.rt.close()

    def ready(self):
        self.rt.wait_ready(LIMIT)

    def meet(self):
        self.barrier.wait(LIMIT)

    def fails(self, wanted, call, *arguments, **more):
        """The call raises that class of exceptions, which is returned."""
        try:
            got = call(*arguments, **more)
        except wanted as why:
            return why
        self.differences.append('%s returned %.100r, wanted %s' % (call, got, wanted))
        return None


__all__ = ['LIMIT', 'RANK', 'SIZE', 'WORLD', 'LocoCase', 'loco', 'name', 'seconds']

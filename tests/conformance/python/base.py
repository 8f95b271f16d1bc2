# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: cases whose ranks agree on their outcome, and windows of each flavor.

A case compares with self.equal and self.raises, which go on after a difference, so that no rank
leaves the others waiting in a collective call; at its end all ranks add their differences up and
pass or fail together. Any other exception ends the whole run.
"""
import functools
import os
import sys
import traceback
import unittest
from array import array

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.rank
SIZE = WORLD.size
FLAVORS = ('allocate', 'shared', 'create', 'dynamic')

used = set()                    # (flavor, name of MPI.Win's that was used), see Win


class Win(MPI.Win):
    """An MPI.Win that notes which of its methods and properties are used."""
    kind = ''                   # its flavor, where Window sets it

    def __new__(cls, win):
        return MPI.Win.__new__(cls, win)

    def __getattribute__(self, name):
        if name != 'kind':
            used.add((self.kind, name))
        return MPI.Win.__getattribute__(self, name)


class Refused(Exception):
    """Some rank's window could not be made."""


def give_up(what):
    sys.stderr.write('rank %d, %s:\n%s' % (RANK, what, traceback.format_exc()))
    sys.stderr.flush()
    WORLD.Abort(3)


def agreeing(method):
    """The test method, whose ranks pass or fail together."""
    @functools.wraps(method)
    def run(self):
        self.differences = []
        try:
            method(self)
        except Refused as why:
            self.differences.append(str(why))
        except unittest.SkipTest:
            raise
        except BaseException:
            give_up(self.id())
        worst = WORLD.gather(self.differences, 0)
        bad = WORLD.allreduce(len(self.differences))
        if bad:
            lines = ['%d differences' % bad]
            for rank, seen in enumerate(worst or []):
                lines += ['rank %d: %s' % (rank, one) for one in seen[:8]]
            raise AssertionError('\n'.join(lines))
    return run


class Case(unittest.TestCase):
    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        for name in dir(cls):
            method = getattr(cls, name)
            if name.startswith('test_') and not hasattr(method, '__wrapped__'):
                setattr(cls, name, agreeing(method))

    def equal(self, got, wanted, what=''):
        if got != wanted:
            self.differences.append('%s: %.300r, wanted %.300r' % (what, got, wanted))

    def true(self, value, what):
        self.equal(bool(value), True, what)

    def raises(self, wanted, call, *args, **more):
        """The call ends with this MPI error class (or one of several), and with none if that is 0."""
        classes = wanted if isinstance(wanted, tuple) else (wanted,)
        got = MPI.SUCCESS
        try:
            call(*args, **more)
        except MPI.Exception as error:
            got = error.Get_error_class()
        if got not in classes:
            self.differences.append('%s: error class %d, wanted %s' % (
                getattr(call, '__name__', call), got, classes))


def each_flavor(*flavors):
    """Makes a class of cases into one class for each flavor of window."""
    def make(cls):
        module = sys.modules[cls.__module__]
        for flavor in flavors or FLAVORS:
            name = '%s_%s' % (cls.__name__, flavor)
            made = type(name, (cls, Case), {'flavor': flavor, '__module__': cls.__module__})
            setattr(module, name, made)
        return cls
    return make


def address(buffer):
    return MPI.Get_address(buffer) if len(buffer) else 0


class Window:
    """A window of one flavor with `size` bytes, all zero, at each rank; `size` may differ by rank.

    win     the MPI window
    local   this rank's memory, a memoryview of bytes
    at(rank, offset)    the displacement of a byte of that rank
    """

    def __init__(self, flavor, size, unit=1, comm=WORLD, info=MPI.INFO_NULL):
        self.flavor, self.comm, self.size, self.memory = flavor, comm, size, None
        self.unit = 1 if flavor == 'dynamic' else unit
        self.win = self._agreed(flavor, lambda: Win(self._make(flavor, size, unit, info)))
        self.win.kind = flavor
        if flavor == 'dynamic':
            self.memory = MPI.Alloc_mem(max(size, 1))
            self.win.Attach(self.memory)
            self.local = memoryview(self.memory).cast('B')[:size]
            bases = comm.allgather(address(self.memory))
        else:
            self.local = memoryview(self.win.tomemory()).cast('B')
            bases = [0] * comm.size
        self.bases = bases
        self.units = comm.allgather(self.unit)
        self.win.Lock(comm.rank, MPI.LOCK_EXCLUSIVE)
        self.local[:] = bytes(len(self.local))
        self.win.Unlock(comm.rank)
        comm.Barrier()

    def _make(self, flavor, size, unit, info):
        if flavor == 'allocate':
            return MPI.Win.Allocate(size, unit, info, self.comm)
        if flavor == 'shared':
            return MPI.Win.Allocate_shared(size, unit, info, self.comm)
        if flavor == 'create':
            self.memory = MPI.Alloc_mem(max(size, 1))
            return MPI.Win.Create(memoryview(self.memory)[:size], unit, info, self.comm)
        return MPI.Win.Create_dynamic(info, self.comm)

    def _agreed(self, flavor, make):
        why = ''
        try:
            win = make()
        except MPI.Exception as error:
            why = 'the %s window is refused: %s' % (flavor, error.Get_error_string())
        reasons = [one for one in self.comm.allgather(why) if one]
        if reasons:
            raise Refused(reasons[0])
        return win

    def at(self, rank, offset=0):
        if self.flavor == 'dynamic':
            return self.bases[rank] + offset
        return offset // self.units[rank]

    def read(self, code='B'):
        """This rank's memory as an array, read in an epoch of its own."""
        self.win.Lock(self.comm.rank, MPI.LOCK_SHARED)
        self.win.Sync()
        found = array(code)
        found.frombytes(self.local)
        self.win.Unlock(self.comm.rank)
        return found

    def write(self, values, offset=0):
        """Sets bytes of this rank's memory, in an epoch of its own."""
        data = values.tobytes() if isinstance(values, array) else bytes(values)
        self.win.Lock(self.comm.rank, MPI.LOCK_EXCLUSIVE)
        self.local[offset:offset + len(data)] = data
        self.win.Sync()
        self.win.Unlock(self.comm.rank)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        if self.flavor == 'dynamic':
            self.comm.Barrier()
            self.win.Detach(self.memory)
        self.local.release()
        self.win.Free()
        if self.memory is not None:
            MPI.Free_mem(self.memory)


def seconds(limit):
    """A time limit of this test suite, stretched on slow machines."""
    return limit * float(os.environ.get('TL_TIMEOUT_SCALE', '1'))

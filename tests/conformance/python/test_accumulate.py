# SPDX-License-Identifier: BSD-3-Clause
"""Accumulate, Get_accumulate, Fetch_and_op, Compare_and_swap beside a serial model."""
from array import array
from functools import reduce

from mpi4py import MPI

import epochs
from base import Case, RANK, SIZE, WORLD, Window, each_flavor

INTEGERS = 'bBhHiIlLqQ'
REALS = 'fd'


def truth(value):
    return 1 if value else 0


# What each operation makes of the target's value and the origin's, and the types it is allowed on.
OPS = [
    ('SUM', MPI.SUM, lambda t, o: t + o, INTEGERS + REALS),
    ('PROD', MPI.PROD, lambda t, o: t * o, INTEGERS + REALS),
    ('MAX', MPI.MAX, max, INTEGERS + REALS),
    ('MIN', MPI.MIN, min, INTEGERS + REALS),
    ('LAND', MPI.LAND, lambda t, o: truth(t) & truth(o), INTEGERS),
    ('LOR', MPI.LOR, lambda t, o: truth(t) | truth(o), INTEGERS),
    ('LXOR', MPI.LXOR, lambda t, o: truth(t) ^ truth(o), INTEGERS),
    ('BAND', MPI.BAND, lambda t, o: t & o, INTEGERS),
    ('BOR', MPI.BOR, lambda t, o: t | o, INTEGERS),
    ('BXOR', MPI.BXOR, lambda t, o: t ^ o, INTEGERS),
    ('REPLACE', MPI.REPLACE, lambda t, o: o, INTEGERS + REALS),
    ('NO_OP', MPI.NO_OP, lambda t, o: t, INTEGERS + REALS),
]
COUNT = 6


def begin(i):
    """What an element is before: small, so that no product of four overflows a signed char."""
    return (i * 5) % 3 + 1


def operand(origin, i):
    return (origin + i) % 3


def typed(code):
    return MPI._typedict[code]


@each_flavor()
class Accumulates:
    def each_op(self, body):
        """Runs body(w, code, name, op, function) on a fresh row of elements, all ranks together."""
        with Window(self.flavor, COUNT * 8, 1) as w:
            for name, op, function, codes in OPS:
                for code in codes:
                    w.write(array(code, [begin(i) for i in range(COUNT)]))
                    WORLD.Barrier()
                    body(w, code, name, op, function)
                    WORLD.Barrier()

    def test_accumulate(self):
        """All ranks at all targets; commutative, so any order gives the same."""
        def body(w, code, name, op, function):
            if name in ('REPLACE', 'NO_OP'):
                return
            mine = array(code, [operand(RANK, i) for i in range(COUNT)])
            epochs.lock_all(w, lambda target: w.win.Accumulate(
                mine, target, (w.at(target), COUNT, typed(code)), op))
            wanted = [reduce(function, [operand(o, i) for o in range(SIZE)], begin(i))
                      for i in range(COUNT)]
            self.equal(list(w.read(code)[:COUNT]), wanted, '%s %s' % (name, code))
        self.each_op(body)

    def test_get_accumulate(self):
        """Each rank at its neighbour: what it gets is what was there before."""
        def body(w, code, name, op, function):
            target = (RANK + 1) % SIZE
            mine = array(code, [operand(RANK, i) for i in range(COUNT)])
            got = array(code, [77] * (COUNT + 1))
            w.win.Lock(target, MPI.LOCK_SHARED)
            w.win.Get_accumulate(mine, [got, COUNT, typed(code)], target,
                                 (w.at(target), COUNT, typed(code)), op)
            w.win.Unlock(target)
            WORLD.Barrier()
            self.equal(list(got), [begin(i) for i in range(COUNT)] + [77],
                       'got by %s %s' % (name, code))
            origin = (RANK - 1) % SIZE
            wanted = [function(begin(i), operand(origin, i)) for i in range(COUNT)]
            self.equal(list(w.read(code)[:COUNT]), wanted, 'left by %s %s' % (name, code))
        self.each_op(body)

    def test_fetch_and_op(self):
        def body(w, code, name, op, function):
            target = (RANK + 1) % SIZE
            size = array(code).itemsize
            mine, got = array(code, [operand(RANK, 0)]), array(code, [77])
            w.win.Lock(target, MPI.LOCK_SHARED)
            w.win.Fetch_and_op([mine, typed(code)], [got, typed(code)], target,
                               w.at(target, size), op)
            w.win.Unlock(target)
            WORLD.Barrier()
            self.equal(got[0], begin(1), 'got by %s %s' % (name, code))
            self.equal(w.read(code)[1], function(begin(1), operand((RANK - 1) % SIZE, 0)),
                       'left by %s %s' % (name, code))
        self.each_op(body)

    def test_compare_and_swap(self):
        with Window(self.flavor, 16) as w:
            target = (RANK + 1) % SIZE
            for code in INTEGERS:
                for right in (True, False):
                    w.write(array(code, [3, 4]))
                    WORLD.Barrier()
                    new, old = array(code, [9]), array(code, [4 if right else 5])
                    got = array(code, [0])
                    w.win.Lock(target, MPI.LOCK_SHARED)
                    w.win.Compare_and_swap([new, typed(code)], [old, typed(code)],
                                           [got, typed(code)], target,
                                           w.at(target, new.itemsize))
                    w.win.Unlock(target)
                    WORLD.Barrier()
                    self.equal(got[0], 4, 'found ' + code)
                    self.equal(list(w.read(code)[:2]), [3, 9 if right else 4], 'left ' + code)
                    WORLD.Barrier()

    def test_exact_under_contention(self):
        """All ranks count at once in one place: each ticket is given once."""
        rounds = 200
        with Window(self.flavor, 64) as w:
            one, got, mine = array('q', [1]), array('q', [0]), []
            w.win.Lock_all()
            for _ in range(rounds):
                w.win.Fetch_and_op(one, got, 0, w.at(0), MPI.SUM)
                w.win.Flush(0)
                mine.append(got[0])
                w.win.Accumulate([array('d', [0.5]), MPI.DOUBLE], 0, (w.at(0, 8), 1, MPI.DOUBLE))
            w.win.Unlock_all()
            self.equal(mine, sorted(set(mine)), 'my tickets grow')
            every = sorted(sum(WORLD.allgather(mine), []))
            self.equal(every, list(range(rounds * SIZE)), 'all tickets')
            if RANK == 0:
                self.equal(w.read('q')[0], rounds * SIZE, 'the counter')
                self.equal(w.read('d')[1], rounds * SIZE * 0.5, 'the sum')

    def test_swap_lock(self):
        """A lock made of Compare_and_swap protects a plain counter."""
        rounds = 20
        with Window(self.flavor, 64) as w:
            free, taken, got = array('q', [0]), array('q', [1]), array('q', [0])
            counter = array('q', [0])
            w.win.Lock_all()
            for _ in range(rounds):
                got[0] = 1
                while got[0] != 0:
                    w.win.Compare_and_swap(taken, free, got, 0, w.at(0))
                    w.win.Flush(0)
                w.win.Get([counter, MPI.INT64_T], 0, (w.at(0, 8), 1, MPI.INT64_T))
                w.win.Flush(0)
                counter[0] += 1
                w.win.Put([counter, MPI.INT64_T], 0, (w.at(0, 8), 1, MPI.INT64_T))
                w.win.Flush(0)
                w.win.Accumulate([free, MPI.INT64_T], 0, (w.at(0), 1, MPI.INT64_T), MPI.REPLACE)
                w.win.Flush(0)
            w.win.Unlock_all()
            WORLD.Barrier()
            if RANK == 0:
                self.equal(list(w.read('q')[:2]), [0, rounds * SIZE], 'lock, counter')

    def test_order_of_one_origin(self):
        """Accumulates of one origin at one place are applied in their order."""
        with Window(self.flavor, 16 * SIZE) as w:
            for target in range(SIZE):
                w.win.Lock(target, MPI.LOCK_SHARED)
                for n in range(1, 40):
                    w.win.Accumulate([array('i', [n, -n]), MPI.INT], target,
                                     (w.at(target, 16 * RANK), 2, MPI.INT), MPI.REPLACE)
                w.win.Unlock(target)
            WORLD.Barrier()
            self.equal(list(w.read('i')), [39, -39, 0, 0] * SIZE, 'the last one stays')


class Pairs(Case):
    """MINLOC and MAXLOC."""

    def test_pairs(self):
        import struct
        kinds = ((MPI.FLOAT_INT, 'fi'), (MPI.DOUBLE_INT, 'di'), (MPI.LONG_INT, 'li'),
                 (MPI.TWOINT, 'ii'), (MPI.SHORT_INT, 'hi'))
        for flavor in ('allocate', 'create'):
            with Window(flavor, 64) as w:
                for pair, form in kinds:
                    for op, choose in ((MPI.MINLOC, min), (MPI.MAXLOC, max)):
                        self.one(w, struct.Struct(form), pair, op, choose)

    def one(self, w, form, pair, op, choose):
        w.write(form.pack(50, 100))
        WORLD.Barrier()
        mine = bytearray(form.pack(48 + RANK, RANK))
        epochs.lock_shared(w, lambda target: w.win.Accumulate(
            [mine, 1, pair], target, (w.at(target), 1, pair), op))
        wanted = choose([(50, 100)] + [(48 + r, r) for r in range(SIZE)],
                        key=lambda x: (x[0], -x[1] if choose is max else x[1]))
        self.equal(form.unpack(bytes(w.read()[:form.size])), wanted, pair.Get_name())
        WORLD.Barrier()

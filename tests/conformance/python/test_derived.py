# SPDX-License-Identifier: BSD-3-Clause
"""Derived datatypes at origin and target, beside a list of where each element lies."""
from array import array

from mpi4py import MPI

import epochs
from base import RANK, SIZE, WORLD, Window, each_flavor

INT = MPI.INT
EXTENT = 64                     # ints that a row of elements may lie in
COUNT = 12                      # elements of each type, in one item or several


def layouts():
    """(name, datatype, items, the places of all elements in ints)"""
    made = [
        ('contiguous', INT.Create_contiguous(4), 3, list(range(12))),
        ('vector', INT.Create_vector(4, 3, 5), 1, [5 * b + i for b in range(4) for i in range(3)]),
        ('backwards', INT.Create_hvector(12, 1, -4).Create_hindexed([1], [44]), 1,
         list(range(11, -1, -1))),
        ('indexed', INT.Create_indexed([1, 4, 2, 5], [40, 3, 0, 10]), 1,
         [40, 3, 4, 5, 6, 0, 1, 10, 11, 12, 13, 14]),
        ('block', INT.Create_indexed_block(2, [9, 0, 3]), 2,
         [9, 10, 0, 1, 3, 4, 20, 21, 11, 12, 14, 15]),
        ('struct', MPI.Datatype.Create_struct([2, 1], [0, 16], [INT, INT])
         .Create_resized(0, 24), 4, [6 * n + p for n in range(4) for p in (0, 1, 4)]),
        ('column', INT.Create_vector(3, 1, 8).Create_resized(0, 4), 4,
         [n + 8 * r for n in range(4) for r in range(3)]),
        ('face', INT.Create_subarray([4, 4, 3], [3, 2, 2], [1, 1, 0]), 1,
         [((x * 4) + y) * 3 + z for x in (1, 2, 3) for y in (1, 2) for z in (0, 1)]),
        ('overlapping extent', INT.Create_contiguous(2).Create_resized(0, 16), 6,
         [4 * n + i for n in range(6) for i in range(2)]),
    ]
    for _, datatype, items, places in made:
        datatype.Commit()
        assert datatype.size * items == 4 * COUNT == 4 * len(places)
    return made


def spread(values, places):
    row = array('i', [-1] * EXTENT)
    for value, place in zip(values, places):
        row[place] = value
    return row


@each_flavor()
class Derived:
    def each_pair(self, body):
        made = layouts()
        with Window(self.flavor, 4 * EXTENT, 4) as w:
            for origin in made:
                for target in made:
                    w.write(array('i', [-1] * EXTENT))
                    WORLD.Barrier()
                    body(w, origin, target, '%s to %s' % (origin[0], target[0]))
                    WORLD.Barrier()
        for _, datatype, _, _ in made:
            datatype.Free()

    def test_put(self):
        def body(w, origin, target, what):
            values = [100 * RANK + n for n in range(COUNT)]
            right = (RANK + 1) % SIZE
            w.win.Lock(right, MPI.LOCK_SHARED)
            w.win.Put([spread(values, origin[3]), origin[2], origin[1]], right,
                      (w.at(right), target[2], target[1]))
            w.win.Unlock(right)
            WORLD.Barrier()
            wanted = spread([100 * ((RANK - 1) % SIZE) + n for n in range(COUNT)], target[3])
            self.equal(w.read('i'), wanted, what)
        self.each_pair(body)

    def test_get(self):
        def body(w, origin, target, what):
            right = (RANK + 1) % SIZE
            w.write(spread([100 * RANK + n for n in range(COUNT)], target[3]))
            got = array('i', [-1] * EXTENT)
            WORLD.Barrier()
            request = None
            w.win.Lock(right, MPI.LOCK_SHARED)
            request = w.win.Rget([got, origin[2], origin[1]], right,
                                 (w.at(right), target[2], target[1]))
            request.Wait()
            w.win.Unlock(right)
            self.equal(got, spread([100 * right + n for n in range(COUNT)], origin[3]), what)
        self.each_pair(body)

    def test_accumulate(self):
        def body(w, origin, target, what):
            w.write(spread(range(COUNT), target[3]))
            WORLD.Barrier()
            mine = spread([RANK + 1] * COUNT, origin[3])
            epochs.lock_all(w, lambda to: w.win.Accumulate(
                [mine, origin[2], origin[1]], to, (w.at(to), target[2], target[1]), MPI.SUM))
            total = SIZE * (SIZE + 1) // 2
            self.equal(w.read('i'), spread([n + total for n in range(COUNT)], target[3]), what)
        self.each_pair(body)

    def test_get_accumulate(self):
        def body(w, origin, target, what):
            right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
            w.write(spread(range(COUNT), target[3]))
            got = array('i', [-1] * EXTENT)
            WORLD.Barrier()
            w.win.Lock(right, MPI.LOCK_SHARED)
            w.win.Get_accumulate([spread([RANK] * COUNT, origin[3]), origin[2], origin[1]],
                                 [got, origin[2], origin[1]], right,
                                 (w.at(right), target[2], target[1]), MPI.SUM)
            w.win.Unlock(right)
            WORLD.Barrier()
            self.equal(got, spread(range(COUNT), origin[3]), 'got, ' + what)
            self.equal(w.read('i'), spread([n + left for n in range(COUNT)], target[3]), what)
        self.each_pair(body)

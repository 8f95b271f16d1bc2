# SPDX-License-Identifier: BSD-3-Clause
"""Put and get: types, lengths, displacements, in every kind of epoch."""
from array import array

from mpi4py import MPI

import epochs
from base import RANK, SIZE, WORLD, Window, each_flavor

CODES = 'bBhHiIlLqQfd'
MOST = 40                       # elements


def value(origin, target, i):
    return (7 * origin + 3 * target + i) % 100


def row(code, origin, target, count):
    return array(code, [value(origin, target, i) for i in range(count)])


@each_flavor()
class Data:
    def in_each_epoch(self, code, count):
        typed, size = MPI._typedict[code], array(code).itemsize
        slot = MOST * size
        with Window(self.flavor, SIZE * slot, size) as w:
            for epoch in epochs.EVERY:
                w.write(bytes(SIZE * slot))
                WORLD.Barrier()
                sent = [row(code, RANK, target, count) for target in range(SIZE)]
                epoch(w, lambda target: w.win.Put(
                    sent[target], target, (w.at(target, RANK * slot), count, typed)))
                wanted = array(code)
                for origin in range(SIZE):
                    wanted.extend(row(code, origin, RANK, count))
                    wanted.extend([0] * (MOST - count))
                what = '%s %s x %d' % (epoch.__name__, code, count)
                self.equal(w.read(code), wanted, 'put, ' + what)
                WORLD.Barrier()
                got = [array(code, [99] * (MOST + 1)) for _ in range(SIZE)]
                epoch(w, lambda target: w.win.Get(
                    [got[target], MOST, typed], target,
                    (w.at(target, ((RANK + 1) % SIZE) * slot), MOST, typed)))
                for target in range(SIZE):
                    wanted = row(code, (RANK + 1) % SIZE, target, count)
                    wanted.extend([0] * (MOST - count) + [99])
                    self.equal(got[target], wanted, 'get, ' + what)
                WORLD.Barrier()

    def test_types(self):
        for code in CODES:
            self.in_each_epoch(code, MOST)

    def test_lengths(self):
        for count in (0, 1, 2, 3, 7, 8, 9, 31):
            self.in_each_epoch('i', count)

    def test_large(self):
        """Megabytes, at odd displacements."""
        count = 3 * 1024 * 1024 + 5
        with Window(self.flavor, count + 8) as w:
            data = bytearray((i * 31 + RANK) % 251 for i in range(1024)) * (count // 1024 + 1)
            del data[count:]
            target = (RANK + 1) % SIZE
            w.win.Lock(target)
            w.win.Put([data, MPI.BYTE], target, (w.at(target, 3), count, MPI.BYTE))
            w.win.Unlock(target)
            back = bytearray(count)
            w.win.Lock(target, MPI.LOCK_SHARED)
            w.win.Get([back, MPI.BYTE], target, (w.at(target, 3), count, MPI.BYTE))
            w.win.Unlock(target)
            self.true(back == data, 'megabytes there and back')
            WORLD.Barrier()
            found = w.read()
            self.equal(list(found[:3]) + list(found[-5:]), [0] * 8, 'bytes around them')
            self.equal(found[3], RANK - 1 if RANK else SIZE - 1, 'the first byte')

    def test_target_forms(self):
        """A displacement alone, a list, a tuple of two, none: what Python programs write."""
        with Window(self.flavor, 80 * SIZE) as w:
            target = (RANK + 1) % SIZE
            base = w.at(target)
            w.win.Lock(target)
            w.win.Put([array('i', [1, 2]), MPI.INT], target, base)
            w.win.Put([array('i', [3]), MPI.INT], target, [base + 8, 1])
            w.win.Put([array('i', [4, 5, 6]), 2, MPI.INT], target, (base + 12, 2, MPI.INT))
            w.win.Put([array('i', [6, 7]), 2, 'i'], target, [base + 20, 2, MPI.INT])
            w.win.Unlock(target)
            WORLD.Barrier()
            self.equal(list(w.read('i')[:8]), [1, 2, 3, 4, 5, 6, 7, 0], 'what was put')

    def test_no_process(self):
        with Window(self.flavor, 64) as w:
            kept = bytearray(b'kept')
            for epoch in (epochs.fence, epochs.lock_all):
                def nowhere(_):
                    w.win.Put(None, MPI.PROC_NULL)
                    w.win.Get(None, MPI.PROC_NULL)
                    w.win.Get([kept, MPI.BYTE], MPI.PROC_NULL)
                    w.win.Accumulate([kept, MPI.BYTE], MPI.PROC_NULL, op=MPI.SUM)
                    w.win.Get_accumulate([kept, MPI.BYTE], [kept, MPI.BYTE], MPI.PROC_NULL)
                epoch(w, nowhere)
            self.equal(kept, bytearray(b'kept'), 'the buffer')
            self.equal(sum(w.read()), 0, 'the memory')

    def test_units(self):
        """Another unit at each rank."""
        with Window(self.flavor, 256, (1, 2, 4, 8)[RANK % 4]) as w:
            for target in range(SIZE):
                w.win.Lock(target, MPI.LOCK_SHARED)
                w.win.Put([array('q', [RANK + 1]), MPI.INT64_T], target,
                          (w.at(target, 8 * RANK), 1, MPI.INT64_T))
                w.win.Unlock(target)
            WORLD.Barrier()
            self.equal(list(w.read('q')[:SIZE]), list(range(1, SIZE + 1)), 'what ranks put')

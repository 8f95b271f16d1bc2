# SPDX-License-Identifier: BSD-3-Clause
"""What Python programs do with windows: numpy arrays and their strides, pickled objects."""
import pickle
import unittest
from array import array

from mpi4py import MPI

from base import RANK, SIZE, WORLD, Window, each_flavor

try:
    import numpy
except ImportError:
    numpy = None


@each_flavor()
class Pickled:
    def test_mailbox(self):
        """Objects of any size go through a mailbox at each rank: length, bytes, then a counter."""
        room = 4096
        with Window(self.flavor, SIZE * room) as w:
            objects = [{'from': RANK, 'to': target, 'list': list(range(target + 1)),
                        'text': 'x' * (RANK * 100)} for target in range(SIZE)]
            w.win.Lock_all()
            for target, thing in enumerate(objects):
                data = pickle.dumps(thing)
                base = w.at(target, RANK * room)
                w.win.Put([data, MPI.BYTE], target, (base + 16, len(data), MPI.BYTE))
                w.win.Put([array('q', [len(data)]), MPI.INT64_T], target,
                          (base, 1, MPI.INT64_T))
                w.win.Flush(target)
                w.win.Accumulate([array('q', [1]), MPI.INT64_T], target,
                                 (base + 8, 1, MPI.INT64_T))
                w.win.Flush(target)
            found, nothing, count = [], array('q', [0]), array('q', [0])
            for origin in range(SIZE):
                base = w.at(RANK, origin * room)
                count[0] = 0
                while count[0] == 0:
                    w.win.Fetch_and_op(nothing, count, RANK, base + 8, MPI.NO_OP)
                    w.win.Flush(RANK)
                w.win.Sync()
                mail = w.local[origin * room:(origin + 1) * room]
                length = mail[:8].cast('q')[0]
                found.append(pickle.loads(mail[16:16 + length]))
                mail.release()
            w.win.Unlock_all()
            for origin, thing in enumerate(found):
                self.equal(thing, {'from': origin, 'to': RANK, 'list': list(range(RANK + 1)),
                                   'text': 'x' * (origin * 100)}, 'mail of rank %d' % origin)


@each_flavor()
@unittest.skipIf(numpy is None, 'no python3-numpy')
class Numpy:
    def array_of(self, w, dtype, shape):
        return numpy.frombuffer(w.local, dtype).reshape(shape)

    def test_types(self):
        """All of numpy's types that MPI has: put, get, and sums."""
        kinds = ['i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f4', 'f8', 'c8', 'c16', 'g', 'G']
        right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        with Window(self.flavor, 10 * 32) as w:
            for kind in kinds:
                row = numpy.arange(10).astype(kind) + numpy.array(RANK).astype(kind)
                got = numpy.zeros(10, kind)
                typed = MPI._typedict[row.dtype.char]
                WORLD.Barrier()
                w.win.Lock(right)
                w.win.Put(row, right, (w.at(right), 10, typed))
                w.win.Flush(right)
                w.win.Accumulate(row, right, (w.at(right), 10, typed), MPI.SUM)
                w.win.Flush(right)
                w.win.Get(got, right, (w.at(right), 10, typed))
                w.win.Unlock(right)
                self.equal(got.tolist(), (row + row).tolist(), 'got ' + kind)
                WORLD.Barrier()
                mine = numpy.frombuffer(w.read().tobytes()[:10 * row.itemsize], row.dtype)
                self.equal(mine.tolist(), [2 * (n + left) for n in range(10)], 'put ' + kind)
                WORLD.Barrier()

    def test_halo(self):
        """A ring of slabs: each puts its edge columns into its neighbours, by fence; the sum of
        what diffuses is that of the same loop over the whole field."""
        rows, columns, turns = 5, 6, 12
        with Window(self.flavor, 8 * rows * (columns + 2), 8) as w:
            def start(column):
                return numpy.arange(rows) * 10.0 + column * column % 7
            field = self.array_of(w, 'd', (rows, columns + 2))
            column = MPI.DOUBLE.Create_vector(rows, 1, columns + 2).Commit()
            unit = 8 if self.flavor == 'dynamic' else 1
            right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
            w.win.Fence(MPI.MODE_NOPRECEDE)
            for c in range(columns):
                field[:, c + 1] = start(RANK * columns + c)
            for _ in range(turns):
                first, last = field[:, 1].copy(), field[:, columns].copy()
                w.win.Fence()
                w.win.Put(first, left, (w.at(left) + unit * (columns + 1), 1, column))
                w.win.Put(last, right, (w.at(right), 1, column))
                w.win.Fence()
                field[:, 1:-1] = (field[:, :-2] + field[:, 1:-1] + field[:, 2:]) / 3
            w.win.Fence(MPI.MODE_NOSUCCEED)
            whole = numpy.array([start(c) for c in range(SIZE * columns)]).T
            for _ in range(turns):
                whole = (numpy.roll(whole, 1, 1) + whole + numpy.roll(whole, -1, 1)) / 3
            mine = whole[:, RANK * columns:(RANK + 1) * columns]
            self.true(numpy.array_equal(field[:, 1:-1], mine), 'the field, to the last bit')
            del field
            column.Free()

    def test_matrix_product(self):
        """C = A B, rows of A and C here, those of B at each rank, fetched by Rget."""
        n = 8
        with Window(self.flavor, 8 * n * n, 8) as w:
            def block(rank, which):
                return numpy.random.RandomState(10 * rank + which).randint(0, 9, (n, n)) * 1.0
            w.write(block(RANK, 1).tobytes())
            WORLD.Barrier()
            got = [numpy.zeros((n, n)) for _ in range(SIZE)]
            w.win.Lock_all()
            requests = [w.win.Rget(got[rank], rank, (w.at(rank), n * n, MPI.DOUBLE))
                        for rank in range(SIZE)]
            MPI.Request.Waitall(requests)
            w.win.Unlock_all()
            mine = sum(block(RANK, 0) @ got[rank] for rank in range(SIZE))
            wanted = block(RANK, 0) @ sum(block(rank, 1) for rank in range(SIZE))
            self.true(numpy.array_equal(mine, wanted), 'the product')

# SPDX-License-Identifier: BSD-3-Clause
"""Key-value stores and arrays of atomic variables from Python."""
import unittest

from common import RANK, SIZE, WORLD, LocoCase, loco, name

try:
    import numpy
except ImportError:
    numpy = None


class KvStores(LocoCase):
    def setUp(self):
        super().setUp()
        self.kv = loco.KvStore(self.rt, name('kv'), value_bytes=8, capacity=100)

    def test_keys(self):
        kv = self.kv
        self.ready()
        kv.insert(RANK, b'value %2d' % RANK)
        self.fails(loco.Exists, kv.insert, RANK, bytes(8))
        self.meet()
        self.equal(sorted(kv), list(range(SIZE)), 'keys')
        self.equal(len(kv), SIZE, 'how many')
        self.equal([kv[i] for i in range(SIZE)], [b'value %2d' % i for i in range(SIZE)], 'values')
        self.equal(kv.get_many([SIZE, 0, 77]), [None, b'value  0', None], 'together')
        self.equal((0 in kv, SIZE in kv, kv.get(SIZE), kv.get(SIZE, 5)), (True, False, None, 5), 'not there')
        self.meet()
        kv[RANK] = bytearray(b'changed!')
        self.meet()
        self.equal(kv[(RANK + 1) % SIZE], b'changed!', 'updated')
        self.meet()
        del kv[RANK]
        self.meet()
        self.equal(list(kv), [], 'removed')
        self.fails(loco.NotFound, kv.__getitem__, RANK)
        self.fails(KeyError, kv.update, RANK, bytes(8))
        self.fails(loco.NotFound, kv.delete, RANK)
        self.equal(kv.stats()['capacity'], 100, 'stats')

    def test_many(self):
        self.ready()
        mine = {SIZE * i + RANK: i.to_bytes(8, 'little') for i in range(60)}
        self.equal(self.kv.insert_many(mine), [], 'all are new')
        self.equal(self.kv.insert_many([(RANK, bytes(8))]), [RANK], 'there already')
        self.fails(loco.Full, self.kv.insert_many,
                   {10000 + 100 * RANK + i: bytes(8) for i in range(60)})
        self.meet()
        self.equal(self.kv.get_many(range(60 * SIZE)), [(i // SIZE).to_bytes(8, 'little') for i in range(60 * SIZE)],
                   'of all')

    def test_compare_set(self):
        self.ready()
        if RANK == 0:
            self.kv.insert(1, bytes(8))
        self.meet()
        for _ in range(20):             # a counter of all
            old = self.kv[1]
            while True:
                try:
                    self.kv.compare_set(1, old, (int.from_bytes(old, 'little') + 1).to_bytes(8, 'little'))
                    break
                except loco.Differs as why:
                    old = why.found
        self.meet()
        self.equal(int.from_bytes(self.kv[1], 'little'), 20 * SIZE, 'count')
        self.fails(loco.NotFound, self.kv.compare_set, 2, bytes(8), bytes(8))

    def test_mistakes(self):
        self.fails(loco.ArgumentError, loco.KvStore, self.rt, name('kv'), 0, 100)
        self.fails(loco.ArgumentError, loco.KvStore, self.rt, name('kv'), 8, 0)
        self.ready()
        self.fails(loco.ArgumentError, self.kv.insert, RANK, b'short')
        self.fails(loco.ArgumentError, self.kv.insert_many, {RANK: b'too long for it'})
        self.fails(ValueError, self.kv.compare_set, RANK, bytes(8), bytes(4))

    @unittest.skipIf(numpy is None, 'no numpy')
    def test_arrays(self):
        kv = loco.KvStore(self.rt, name('kv'), value_bytes=32, capacity=4)
        self.ready()
        kv.insert(RANK, numpy.arange(4) + 10. * RANK)
        self.meet()
        self.equal(numpy.frombuffer(kv[SIZE - 1], 'f8').tolist(), [10. * (SIZE - 1) + i for i in range(4)], 'value')


class AtomicArrays(LocoCase):
    def test_striped(self):
        array = loco.AtomicArray(self.rt, name('array'), 3 * SIZE)
        self.ready()
        self.equal((len(array), array.host_of(SIZE), array.host_of(3 * SIZE - 1)), (3 * SIZE, 0, SIZE - 1), 'where')
        for i in range(3 * SIZE):
            array.fetch_add(i, i)
        self.meet()
        self.equal([array.load(i) for i in range(3 * SIZE)], [SIZE * i for i in range(3 * SIZE)], 'sums')
        self.meet()
        mine = 3 * RANK
        array.store(mine, 5)
        self.equal(array.exchange(mine, 6), 5, 'exchange')
        self.equal(array.compare_swap(mine, 6, 7), 6, 'swapped')
        self.equal(array.fetch_op(mine, loco.Op.BOR, 8), 7, 'or')
        self.equal(array.load(mine), 15, 'value')
        self.equal(array.fetch_op(mine + 1, loco.Op.REPLACE, 0.5, loco.Type.F64) >= 0, True, 'before')
        self.equal(array.fetch_op(mine + 1, loco.Op.NO_OP, 0, loco.Type.F64), 0.5, 'a double')
        self.fails(loco.ArgumentError, array.load, 3 * SIZE)
        self.fails(loco.ArgumentError, array.host_of, 3 * SIZE)
        self.fails(loco.ArgumentError, array.fetch_op, 0, loco.Op.BAND, 0.5, loco.Type.F64)
        self.meet()

    def test_at_one(self):
        array = loco.AtomicArray(self.rt, name('array'), 4, host=SIZE - 1)
        self.ready()
        self.equal([array.host_of(i) for i in range(4)], [SIZE - 1] * 4, 'host')
        self.fails(loco.ArgumentError, loco.AtomicArray, self.rt, name('array'), 4, host=SIZE)

    def test_cached(self):
        var = loco.AtomicVar(self.rt, name('var'))
        self.ready()
        self.equal(var.cached, 0, 'at first')
        if RANK == SIZE - 1:
            var.store(9)
        WORLD.Barrier()
        self.equal(var.cached, 0, 'not yet')
        var.refresh()
        self.equal(var.cached, 9, 'refreshed')


if __name__ == '__main__':
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
"""Stores, transactions, trees and hashes from Python."""
import sys
import threading

from common import RANK, SIZE, WORLD, LocoCase, loco, name


class StoreCase(LocoCase):
    def setUp(self):
        super().setUp()
        self.store = loco.Store(self.rt, name('store'), 4 << 20)
        self.ready()
        self.tx = loco.Tx(self.store)


class Transactions(StoreCase):
    def test_objects(self):
        tx = self.tx
        if RANK == 0:
            with tx.begin():
                made = tx.new(b'first', host=SIZE - 1)
                tx.write(self.store.root(0), made.to_bytes(8, 'little'))
            self.equal(self.store.host_of(made), SIZE - 1, 'host')
        self.meet()
        with tx.begin(relaxed=True):
            made = int.from_bytes(tx.read(self.store.root(0)), 'little')
            self.equal(tx.read(made), b'first', 'value')
            tx.validate()
        self.meet()
        if RANK == SIZE - 1:
            with tx.begin():
                tx.free(made)
        self.meet()
        tx.begin()
        self.fails(loco.NotFound, tx.read, made)
        tx.abort()
        self.fails(IndexError, self.store.root, 1 << 20)
        self.true(self.store.stats()['commits'] >= 1, 'commits')
        self.true(self.store.room(0)['bytes'] >= 4 << 20, 'room')

    def test_all_or_none(self):
        tx, root = self.tx, self.store.root(RANK)
        with tx.begin():
            tx.write(root, 'old')
        try:
            with tx.begin():
                tx.write(root, 'new')
                raise ArithmeticError
        except ArithmeticError:
            pass
        with tx.begin():
            self.equal(tx.read(root), b'old', 'undone')
        self.fails(loco.StateError, tx.write, root, 'outside')
        with tx.begin():
            self.fails(loco.StateError, tx.begin)
            tx.write(root, 'newer')
            tx.commit()
        with tx.begin():
            self.equal(tx.read(root), b'newer', 'committed')
            tx.abort()

    def test_run(self):
        """Transfers by all: each reads and writes both, and is begun again after conflicts."""
        a, b = self.store.root(0), self.store.root(1)
        if RANK == 0:
            with self.tx.begin():
                self.tx.write(a, (10 * SIZE).to_bytes(8, 'little'))
                self.tx.write(b, (0).to_bytes(8, 'little'))
        self.meet()
        calls = []

        def transfer(tx):
            calls.append(1)
            left, right = (int.from_bytes(tx.read(one), 'little') for one in (a, b))
            self.equal(left + right, 10 * SIZE, 'of one instant')
            tx.write(a, (left - 1).to_bytes(8, 'little'))
            tx.write(b, (right + 1).to_bytes(8, 'little'))
            return left
        for _ in range(10):
            self.true(self.tx.run(transfer) > 0, 'what the body returned')
        self.true(len(calls) >= 10, 'calls')
        self.meet()
        with self.tx.begin():
            self.equal(int.from_bytes(self.tx.read(b), 'little'), 10 * SIZE, 'all arrived')

        def fails(tx):
            tx.write(a, b'x' * 8)
            raise ArithmeticError('mine')
        self.meet()
        why = self.fails(ArithmeticError, self.tx.run, fails)
        self.equal(str(why), 'mine', 'the exception itself')
        with self.tx.begin():
            self.equal(int.from_bytes(self.tx.read(a), 'little'), 0, 'undone')

    def test_conflict(self):
        if RANK != 0:
            return
        root, other = self.store.root(0), loco.Tx(self.store)
        with self.tx.begin():
            self.tx.write(root, b'1')
        self.tx.begin()
        self.tx.read(root)
        self.tx.write(root, b'2')
        with other.begin():
            other.write(root, b'3')
        self.fails(loco.Conflict, self.tx.commit)
        with self.tx.begin():
            self.equal(self.tx.read(root), b'3', 'the other one')

    def test_threads(self):
        """A handle is for one thread; each has its own."""
        seen = []

        def work():
            try:
                self.tx.begin()
            except loco.Error as why:
                seen.append(why.status)
            with loco.Tx(self.store) as tx:
                for _ in range(20):
                    loco.Hash(tx).add('sum')
        threads = [threading.Thread(target=work) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.equal(seen, [loco.Status.ERR_STATE] * 2, 'refused')
        self.meet()
        self.equal(int.from_bytes(loco.Hash(self.tx)['sum'], sys.byteorder), 40 * SIZE, 'sum')


class MapCase:
    """The same for both kinds."""

    def test_dictionary(self):
        table = self.make(self.tx)
        table['rank %d' % RANK] = 'value %d' % RANK
        self.meet()
        for rank in range(SIZE):
            self.equal(table['rank %d' % rank], b'value %d' % rank, 'value')
        self.equal(sorted(table), sorted(b'rank %d' % rank for rank in range(SIZE)), 'keys')
        self.equal(sorted(table.values()), sorted(b'value %d' % rank for rank in range(SIZE)), 'values')
        self.true('rank 0' in table and b'rank 0' in table, 'in')
        self.true('nobody' not in table, 'not in')
        self.equal(table.get('nobody'), None, 'get')
        self.equal(table.get('nobody', 7), 7, 'get with a default')
        why = self.fails(KeyError, lambda: table['nobody'])
        self.true(isinstance(why, loco.NotFound) and 'nobody' in str(why), 'text: %s' % why)
        self.meet()
        del table['rank %d' % RANK]
        self.fails(KeyError, table.delete, 'rank %d' % RANK)
        self.meet()
        self.equal(list(table), [], 'all deleted')
        self.true(table.stats()['lookups'] > 0, 'stats')

    def test_changes(self):
        table, key = self.make(self.tx), b'key\0%d\xff' % RANK
        self.fails(loco.NotFound, table.replace, key, 'x')
        table.insert(key, b'')
        self.equal(table[key], b'', 'empty')
        self.fails(loco.Exists, table.insert, key, 'x')
        table.replace(key, bytearray(b'a\0b'))
        self.fails(loco.Differs, table.compare_set, key, 'x', 'y')
        table.compare_set(key, b'a\0b', 'y' * 60000)
        self.equal(table[key], b'y' * 60000, 'long')
        self.fails(loco.ArgumentError, table.put, 'k' * 1025, 'too long')
        self.fails(loco.ArgumentError, table.put, 'k', b'v' * 64001)

    def test_add(self):
        table = self.make(self.tx)
        befores = sum(WORLD.allgather([table.add('count', 2) for _ in range(10)]), [])
        self.equal(sorted(befores), list(range(0, 20 * SIZE, 2)), 'each once')
        self.meet()
        self.equal(int.from_bytes(table['count'], sys.byteorder), 20 * SIZE, 'sum')
        table.put('text %d' % RANK, 'abc')
        self.fails(loco.ArgumentError, table.add, 'text %d' % RANK)

    def test_many(self):
        table = self.make(self.tx)
        mine = {'%d/%d' % (RANK, i): b'%d' % (i * i) for i in range(40)}
        table.put_many(mine)
        table.put_many([('%d/pair' % RANK, 'p')])
        self.equal(table.get_many(list(mine) + ['nobody']), list(mine.values()) + [None], 'get_many')
        self.equal(table.get_many([]), [], 'nothing')
        self.fails(loco.ArgumentError, table.get_many, ['%d/20' % RANK], 2)
        self.meet()
        self.equal(len(list(table.items())), 41 * SIZE, 'all')

    def test_in_a_transaction(self):
        table = self.make(self.tx)
        key = 'key %d' % RANK
        try:
            with self.tx.begin():
                table[key] = '1'
                self.equal(table[key], b'1', 'its own change')
                raise ArithmeticError
        except ArithmeticError:
            pass
        self.equal(table.get(key), None, 'undone')
        self.tx.run(lambda tx: (table.put(key, '2'), table.put(key + 'b', '3')))
        self.equal(table.get_many([key, key + 'b']), [b'2', b'3'], 'both')
        self.fails(loco.StateError, self.tx.run, lambda tx: self.tx.begin())

    def test_closed(self):
        table = self.make(self.tx)
        self.tx.close()
        self.true(table.closed, 'with its Tx')
        self.fails(ValueError, table.get, 'key')


class Hashes(MapCase, StoreCase):
    def make(self, tx):
        return loco.Hash(tx, self.store.root(1))

    def test_mismatch(self):
        self.make(self.tx)
        self.fails(loco.Mismatch, loco.Tree, self.tx, self.store.root(1))


class Trees(MapCase, StoreCase):
    def make(self, tx):
        return loco.Tree(tx, self.store.root(2), leaf_bytes=256)

    def test_order(self):
        tree = self.make(self.tx)
        for i in range(RANK, 1200, SIZE):
            tree['%04d' % i] = '%d' % i
        self.meet()
        keys = [b'%04d' % i for i in range(1200)]
        self.equal(list(tree), keys, 'all')
        self.equal(list(tree.keys(reverse=True)), keys[::-1], 'down')
        self.equal(list(tree.keys('0100', '0800')), keys[100:800], 'from, to')
        self.equal(list(tree.keys('0100', '0800', reverse=True)), keys[100:800][::-1], 'down, from, to')
        self.equal(list(tree.keys(prefix='01')), keys[100:200], 'prefix')
        self.equal(list(tree.keys(b'1199\0')), [], 'behind the last')
        self.equal(next(tree.items('05')), (b'0500', b'500'), 'the first of some')
        self.equal(next(tree.items(end='0500', reverse=True)), (b'0499', b'499'), 'the last of some')
        self.equal(list(tree.items('a', 'b')), [], 'none')
        self.fails(ValueError, tree.items, 'a', prefix='b')
        self.equal(loco.prefix_end(b'a\xff'), b'b', 'the end of a prefix')
        self.equal(loco.prefix_end(b'\xff\xff'), None, 'that has none')

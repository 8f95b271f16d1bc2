# SPDX-License-Identifier: BSD-3-Clause
"""Barriers, locks, queues, regions, variables and groups from Python."""
import array
import threading
import unittest

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco, name

try:
    import numpy
except ImportError:
    numpy = None

NEXT = (RANK + 1) % SIZE
BEFORE = (RANK - 1) % SIZE


class Runtimes(LocoCase):
    def test_ranks(self):
        self.equal((self.rt.rank, self.rt.size), (RANK, SIZE), 'everyone')
        self.equal(len(self.rt.everyone), SIZE, 'size')
        self.true(self.rt.everyone.alive(RANK), 'I live')
        self.fails(loco.ArgumentError, self.rt.everyone.alive, SIZE)

    def test_shared_by_two_opens(self):
        with loco.Runtime.from_mpi(WORLD) as other:
            barrier = loco.Barrier(other, name('barrier'))
            other.wait_ready(LIMIT)
            barrier.wait(LIMIT)
            self.equal(other.size, SIZE, 'everyone')
            WORLD.Barrier()
        self.ready()
        self.meet()

    def test_groups(self):
        backwards = WORLD.Split(0, -RANK)
        group = self.rt.meet(backwards)
        self.equal((group.rank, group.size), (SIZE - 1 - RANK, SIZE), 'backwards')
        first = group.subset([SIZE - 1])
        self.equal((first.rank, first.size), (0 if RANK == 0 else -1, 1), 'subset')
        self.fails(loco.ArgumentError, group.subset, [0, 0])
        var = loco.AtomicVar(self.rt, name('var'), host=SIZE - 1, group=group)
        self.ready()
        var.fetch_add(RANK)
        self.meet()
        self.equal(var.load(), SIZE * (SIZE - 1) // 2, 'sum')
        self.meet()
        backwards.Free()

    def test_mistakes(self):
        first = name('twice')
        loco.Barrier(self.rt, first)
        error = self.fails(loco.ArgumentError, loco.Barrier, self.rt, first)
        self.equal(error.status, loco.Status.ERR_NAME, 'status')
        self.true(error.text in str(error) and first in str(error), 'text: %s' % error)
        self.fails(ValueError, self.rt.wait_ready, -1)
        self.ready()

    def test_closed(self):
        barrier = loco.Barrier(self.rt, name('barrier'))
        self.ready()
        WORLD.Barrier()
        barrier.close()
        barrier.close()
        self.true(barrier.closed, 'closed')
        self.fails(ValueError, barrier.wait)

    def test_not_ready(self):
        if SIZE == 1:
            return
        alone = name('alone')
        if RANK == 0:
            barrier = loco.Barrier(self.rt, alone)
            error = self.fails(loco.Timeout, self.rt.wait_ready, 0.01, alone)
            self.true(isinstance(error, TimeoutError), 'a TimeoutError, too')
            barrier.close()
        WORLD.Barrier()
        self.ready()


class Barriers(LocoCase):
    def test_rounds(self):
        region = loco.Region(self.rt, name('region'), 8)
        self.ready()
        for i in range(20):
            region.write64(NEXT, 0, i)
            self.meet()
            self.equal(region.read64(RANK, 0), i, 'round')
            self.meet()

    def test_timeout(self):
        self.ready()
        if RANK == 0 and SIZE > 1:
            self.fails(loco.Timeout, self.barrier.wait, 0.02)
        WORLD.Barrier()
        self.meet()


class Locks(LocoCase):
    def test_excludes(self):
        lock = loco.TicketLock(self.rt, name('lock'), host=SIZE - 1)
        region = loco.Region(self.rt, name('region'), 8)
        self.ready()
        for _ in range(50):
            with lock:
                region.write64(0, 0, region.read64(0, 0) + 1)
        self.meet()
        self.equal(region.read64(0, 0), 50 * SIZE, 'sum')

    def test_threads(self):
        """Those of one process exclude each other, too, and one that waits leaves others the interpreter."""
        lock = loco.TicketLock(self.rt, name('lock'))
        region = loco.Region(self.rt, name('region'), 8)
        self.ready()

        def work():
            for _ in range(25):
                with lock:
                    region.write64(0, 0, region.read64(0, 0) + 1)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.meet()
        self.equal(region.read64(0, 0), 75 * SIZE, 'sum')

    def test_try(self):
        lock = loco.TicketLock(self.rt, name('lock'))
        self.ready()
        if RANK == 0:
            self.equal(lock.acquire(), True, 'acquire')
            self.fails(loco.StateError, lock.acquire)
        WORLD.Barrier()
        if RANK != 0:
            self.equal(lock.acquire(blocking=False), False, 'try')
            self.equal(lock.acquire(timeout=0.01), False, 'timed')
            self.equal(lock.holder(), 0, 'holder')
            self.fails(loco.StateError, lock.release)
        WORLD.Barrier()
        if RANK == 0:
            lock.release()
            self.equal(lock.acquire(timeout=5), True, 'timed')
            lock.release()
            self.equal(lock.acquire(blocking=False), True, 'try')
            lock.release()
            self.equal(lock.holder(), -1, 'holder')


class Collectives(LocoCase):
    def test_of_arrays(self):
        sums = loco.Collective(self.rt, name('sums'), piece_bytes=64)
        self.ready()
        data = array.array('d', [RANK + i for i in range(100)])
        total = array.array('d', bytes(800))
        sums.allreduce(loco.Op.SUM, data, total)
        self.equal(list(total), [SIZE * (SIZE - 1) / 2 + SIZE * i for i in range(100)], 'sums')
        most = array.array('i', [0])
        sums.reduce(loco.Op.MAX, array.array('i', [-RANK - 1]), most if RANK == 0 else None, root=0)
        self.equal(most[0], -1 if RANK == 0 else 0, 'most')
        text = bytearray(b'hello' if RANK == SIZE - 1 else 5)
        sums.broadcast(text, root=SIZE - 1, timeout=LIMIT)
        self.equal(bytes(text), b'hello', 'broadcast')
        self.fails(loco.ArgumentError, sums.allreduce, loco.Op.BAND, data, total)
        self.fails(ValueError, sums.allreduce, loco.Op.SUM, data, most)
        self.meet()


class Queues(LocoCase):
    def test_all_come_out_once(self):
        queue = loco.Queue(self.rt, name('queue'), 8, 4 * SIZE)
        sums = loco.AtomicVar(self.rt, name('sums'))
        done = loco.AtomicVar(self.rt, name('done'))
        self.ready()

        def consume():
            for entry in queue:
                sums.fetch_add(int.from_bytes(entry, 'little'))
        consumer = threading.Thread(target=consume)
        consumer.start()
        for i in range(100):
            queue.push((100 * RANK + i).to_bytes(8, 'little'))
        if done.fetch_add() == SIZE - 1:
            queue.shutdown()
        consumer.join()
        self.meet()
        total = 100 * SIZE
        self.equal(sums.load(), total * (total - 1) // 2, 'sum')

    def test_forms(self):
        queue = loco.Queue(self.rt, name('queue'), 4, 2, fence=True)
        self.ready()
        if RANK == 0:
            self.equal(queue.try_pop(), None, 'empty')
            self.fails(loco.Timeout, queue.pop, 0.01)
            queue.push('abcd')
            queue.push(b'efgh', timeout=1)
            self.equal(len(queue), 2, 'size')
            self.equal(queue.try_push(bytearray(4)), False, 'full')
            self.fails(loco.Timeout, queue.push, b'ijkl', 0.01)
            self.fails(ValueError, queue.push, b'toolong')
            self.equal(queue.pop(), b'abcd', 'first')
            out = bytearray(4)
            self.true(queue.pop(5, out) is out, 'out is returned')
            self.equal(bytes(out), b'efgh', 'second')
            self.fails(ValueError, queue.try_pop, bytearray(5))
            self.equal(queue.try_push(bytearray(b'mnop')), True, 'room')
            queue.shutdown()
            self.equal(list(queue), [b'mnop'], 'what is left')
            self.fails(loco.Closed, queue.push, b'more')
            self.fails(loco.Closed, queue.pop)


class Regions(LocoCase):
    def test_bytes(self):
        region = loco.Region(self.rt, name('region'), 64)
        self.ready()
        self.equal(len(region), 64, 'length')
        region.write(NEXT, 8, b'from %3d' % RANK)
        region.write(NEXT, 16, bytearray(b'and more'))
        self.meet()
        self.equal(bytes(region.local[8:24]), b'from %3dand more' % BEFORE, 'local')
        self.equal(region.read(NEXT, 8, 8), b'from %3d' % RANK, 'read')
        out = bytearray(16)
        region.read(NEXT, 8, out=out)
        self.equal(bytes(out), b'from %3dand more' % RANK, 'out')
        self.fails(loco.ArgumentError, region.read, 0, 60, 8)
        self.fails(loco.ArgumentError, region.write, SIZE, 0, b'x')
        self.fails(ValueError, region.read, 0, 0, None, b'read-only')
        self.meet()
        self.equal(region.read(NEXT, 0, 0), b'', 'nothing')

    def test_words(self):
        region = loco.Region(self.rt, name('region'), 16)
        self.ready()
        self.equal(region.fetch_add(0, 8, -1) >= 0, True, 'before')
        self.meet()
        self.equal(region.read64(0, 8), 2 ** 64 - SIZE, 'modulo 2**64')
        if RANK == SIZE - 1:
            self.equal(region.compare_swap(0, 0, 0, 7), 0, 'swapped')
            self.equal(region.compare_swap(0, 0, 0, 8), 7, 'not swapped')
        self.meet()
        self.equal(region.read64(0, 0), 7, 'value')
        self.fails(loco.ArgumentError, region.read64, 0, 4)

    @unittest.skipIf(numpy is None, 'no numpy')
    def test_arrays(self):
        region = loco.Region(self.rt, name('region'), 8 * 1000)
        self.ready()
        mine = region.array('f8')
        mine[:] = numpy.arange(1000) + 1000 * RANK
        self.meet()
        got = numpy.empty(10)
        region.read(NEXT, 8 * 5, out=got)
        self.equal(got.tolist(), (numpy.arange(5, 15) + 1000. * NEXT).tolist(), 'read')
        table = numpy.arange(12, dtype='i4').reshape(3, 4)
        self.meet()
        region.write(NEXT, 0, table)
        self.fails(ValueError, region.write, NEXT, 0, table[:, ::2])
        self.meet()
        self.equal(region.array('i4', 0, 12).reshape(3, 4).tolist(), table.tolist(), 'write')
        self.fails(BufferError, region.close)
        self.equal(mine[999], 999. + 1000 * RANK, 'still there')
        del mine
        WORLD.Barrier()
        region.close()
        self.fails(ValueError, region.array)

    @unittest.skipIf(numpy is None, 'no numpy')
    def test_arrays_outlive_their_runtime(self):
        runtime = loco.Runtime.from_mpi(WORLD)
        region = loco.Region(runtime, name('region'), 80)
        runtime.wait_ready(LIMIT)
        mine = region.array('f8')
        mine[:] = RANK
        WORLD.Barrier()
        runtime.close()
        self.true(not runtime.closed and not region.closed, 'kept')
        self.equal(mine.sum(), 10. * RANK, 'the memory')
        del mine
        WORLD.Barrier()
        runtime.close()
        self.true(runtime.closed and region.closed, 'closed')

    def test_of_a_window(self):
        from mpi4py import MPI
        win = MPI.Win.Allocate(64, 1, comm=WORLD)
        region = loco.Region.from_window(self.rt, win)
        self.meet_by_mpi(win)
        region.fetch_add(0, 8, RANK + 1)
        self.meet_by_mpi(win)
        got = bytearray(8)
        win.Lock(0, MPI.LOCK_SHARED)
        win.Get(got, 0, 8)
        win.Unlock(0)
        self.equal(int.from_bytes(got, 'little'), SIZE * (SIZE + 1) // 2, 'through MPI')
        WORLD.Barrier()
        region.close()
        win.Free()

    def meet_by_mpi(self, win):
        self.rt.fence()
        WORLD.Barrier()


class Variables(LocoCase):
    def test_operations(self):
        var = loco.AtomicVar(self.rt, name('var'), host=SIZE - 1)
        self.ready()
        olds = WORLD.allgather([var.fetch_add() for _ in range(10)])
        self.equal(sorted(sum(olds, [])), list(range(10 * SIZE)), 'each number once')
        self.meet()
        if RANK == 0:
            self.equal(var.exchange(5), 10 * SIZE, 'exchange')
            self.equal(var.compare_swap(5, 2 ** 64 - 1), 5, 'swapped')
            self.equal(var.compare_swap(5, 1), 2 ** 64 - 1, 'not swapped')
            var.store(9)
            self.equal(var.load(), 9, 'load')

    def test_blocks(self):
        region = loco.Region(self.rt, name('matrix'), 4 * SIZE)
        self.ready()
        for row in range(SIZE):         # a column of two bytes of each
            region.write_blocks(row, 2 * RANK, bytes([RANK, row]), 2, 2 * SIZE)
        region.write_blocks(0, 2 * SIZE + 2 * RANK, bytes([RANK, 9]), 1, 1)
        self.meet()
        column = region.read_blocks(0, 1, 1, 2, count=SIZE)
        self.equal(column, bytes(SIZE), 'second bytes of rank 0')
        out = bytearray(SIZE)
        self.true(region.read_blocks(0, 2 * SIZE, 1, 2, out=out) is out, 'out')
        self.equal(bytes(out), bytes(range(SIZE)), 'first bytes')
        self.fails(loco.ArgumentError, region.read_blocks, 0, 0, 4 * SIZE, 4 * SIZE, 2)
        self.fails(ValueError, region.write_blocks, 0, 0, bytes(3), 2, 2)
        self.meet()

    def test_typed_operations(self):
        var = loco.AtomicVar(self.rt, name('var'), host=SIZE - 1)
        total = loco.AtomicVar(self.rt, name('total'))
        region = loco.Region(self.rt, name('region'), 16)
        self.ready()
        old = var.fetch_op(loco.Op.BOR, 1 << RANK)
        self.equal(old >> RANK & 1, 0, 'own bit')
        total.fetch_op(loco.Op.SUM, 0.5 * RANK, loco.Type.F64)
        region.fetch_op(0, 8, loco.Op.MIN, -RANK, loco.Type.I64)
        self.meet()
        self.equal(var.load(), 2 ** SIZE - 1, 'all bits')
        self.equal(total.fetch_op(loco.Op.NO_OP, 0, loco.Type.F64), 0.25 * SIZE * (SIZE - 1), 'sum')
        self.equal(region.fetch_op(0, 8, loco.Op.NO_OP, 0, loco.Type.I64), 1 - SIZE, 'least')
        self.fails(loco.ArgumentError, var.fetch_op, loco.Op.BAND, 0.5, loco.Type.F64)
        self.fails(ValueError, var.fetch_op, loco.Op.SUM, 1, loco.Type.I32)
        self.meet()


if __name__ == '__main__':
    unittest.main()

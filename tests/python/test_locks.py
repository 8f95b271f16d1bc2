# SPDX-License-Identifier: BSD-3-Clause
"""Reader-writer locks from Python; ticket locks are in test_channels."""
import unittest

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco, name


class ReaderWriter(LocoCase):
    def test_excludes(self):
        lock = loco.RwLock(self.rt, name('lock'), host=SIZE - 1)
        region = loco.Region(self.rt, name('region'), 16)
        self.ready()
        for i in range(40):
            if (i + RANK) % 4 == 0:
                with lock.exclusive() as held:
                    self.true(held is lock, 'the lock')
                    region.write64(0, 0, region.read64(0, 0) + 1)
                    region.write64(0, 8, region.read64(0, 8) + 1)
            else:
                with lock.shared():
                    self.equal(region.read64(0, 0), region.read64(0, 8), 'both words')
        self.meet()
        self.equal(region.read64(0, 0), 10 * SIZE, 'sum')

    def test_try(self):
        lock = loco.RwLock(self.rt, name('lock'))
        self.ready()
        self.equal(lock.acquire_shared(timeout=LIMIT), True, 'together')
        WORLD.Barrier()
        self.equal(lock.acquire_exclusive(blocking=False), False, 'readers hold it')
        self.equal(lock.acquire_exclusive(timeout=0.01), False, 'still')
        WORLD.Barrier()
        lock.release_shared()
        WORLD.Barrier()
        if RANK == 0:
            self.equal(lock.acquire_exclusive(), True, 'alone')
        WORLD.Barrier()
        self.equal(lock.holder(), 0, 'holder')
        if RANK != 0:
            self.equal(lock.acquire_shared(blocking=False), False, 'a writer holds it')
            self.equal(lock.acquire_shared(timeout=0.01), False, 'still')
            self.fails(loco.StateError, lock.release_exclusive)
        WORLD.Barrier()
        if RANK == 0:
            self.fails(loco.ArgumentError, lock.release_exclusive, loco.Fence.PROCESS, SIZE)
            lock.release_exclusive(loco.Fence.ORDER)
            self.equal(lock.holder(), -1, 'nobody')
            self.fails(loco.StateError, lock.release_shared)

    def test_released_by_what_is_raised(self):
        lock = loco.RwLock(self.rt, name('lock'))
        self.ready()
        for held in (lock.shared, lock.exclusive):
            def fail():
                with held():
                    raise KeyError('mine')
            self.fails(KeyError, fail)
        self.meet()
        self.equal(lock.acquire_exclusive(timeout=LIMIT), True, 'free')
        lock.release_exclusive()

    def test_mistakes(self):
        self.fails(loco.ArgumentError, loco.RwLock, self.rt, name('lock'), host=SIZE)
        self.fails(loco.ArgumentError, loco.RwGroup, self.rt, name('locks'), 0)
        self.ready()


class Groups(LocoCase):
    def test_members(self):
        locks = loco.RwGroup(self.rt, name('locks'), 2 * SIZE)
        sums = loco.Region(self.rt, name('sums'), 16 * SIZE)
        self.ready()
        for i in range(2 * SIZE):
            self.equal(locks.acquire_exclusive(i, timeout=LIMIT), True, 'one')
            sums.write64(0, 8 * i, sums.read64(0, 8 * i) + 1)
            locks.release_exclusive(i)
        self.meet()
        locks.acquire_all()
        self.equal([sums.read64(0, 8 * i) for i in range(2 * SIZE)], [SIZE] * 2 * SIZE, 'sums')
        self.equal(locks.acquire_exclusive(RANK, nested=True, timeout=0.01), False, 'held by all')
        self.equal(locks.acquire_shared(RANK, nested=True, timeout=LIMIT), True, 'shared')
        locks.release_shared(RANK)
        locks.release_all()
        self.meet()
        self.fails(loco.ArgumentError, locks.acquire_shared, 2 * SIZE)
        self.fails(loco.StateError, locks.release_exclusive, 0)


if __name__ == '__main__':
    unittest.main()

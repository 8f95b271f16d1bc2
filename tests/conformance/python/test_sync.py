# SPDX-License-Identifier: BSD-3-Clause
"""Synchronization: fence and its asserts, post/start/complete/wait/test, locks, flushes."""
from array import array

from mpi4py import MPI

from base import RANK, SIZE, WORLD, Window, each_flavor


def put(w, target, slot, value):
    """A long to a slot of the target; the buffer has to live until a flush."""
    data = array('q', [value])
    w.win.Put([data, MPI.INT64_T], target, (w.at(target, 8 * slot), 1, MPI.INT64_T))
    return data


def get(w, target, slot):
    data = array('q', [-1])
    w.win.Get([data, MPI.INT64_T], target, (w.at(target, 8 * slot), 1, MPI.INT64_T))
    return data


@each_flavor()
class Synchronization:
    def window(self):
        return Window(self.flavor, 8 * max(SIZE, 4))

    def test_fence_asserts(self):
        with self.window() as w:
            right = (RANK + 1) % SIZE
            for flags in (0, MPI.MODE_NOSTORE, MPI.MODE_NOSTORE | MPI.MODE_NOPUT, MPI.MODE_NOPUT):
                w.win.Fence(MPI.MODE_NOPRECEDE)
                kept = put(w, right, 0, 10 + flags)
                w.win.Fence()
                got = get(w, right, 0)
                w.win.Fence(flags & ~MPI.MODE_NOSTORE)
                self.equal(got[0], 10 + flags, 'after assert %d' % flags)
                w.win.Fence(MPI.MODE_NOSTORE | MPI.MODE_NOPUT | MPI.MODE_NOSUCCEED)
                del kept

    def test_post_start_rounds(self):
        """A ring: each exposes to its left and accesses its right, with groups of one."""
        with self.window() as w:
            world = w.win.Get_group()
            left, right = world.Incl([(RANK - 1) % SIZE]), world.Incl([(RANK + 1) % SIZE])
            for n in range(25):
                w.win.Post(left)
                w.win.Start(right)
                kept = put(w, (RANK + 1) % SIZE, 1, 1000 * n + RANK)
                w.win.Complete()
                if n % 2:
                    w.win.Wait()
                else:
                    while not w.win.Test():
                        pass
                self.equal(w.read('q')[1], 1000 * n + (RANK - 1) % SIZE, 'turn %d' % n)
                del kept
            for group in (world, left, right):
                group.Free()

    def test_test_is_false_until_complete(self):
        if SIZE < 2:
            with self.window() as w:
                w.win.Post(MPI.GROUP_EMPTY)
                self.true(w.win.Test(), 'Test with an empty group')
                w.win.Start(MPI.GROUP_EMPTY)
                w.win.Complete()
                w.win.Post(MPI.GROUP_EMPTY)
                w.win.Wait()
            return
        with self.window() as w:
            world = w.win.Get_group()
            if RANK == 0:
                group = world.Excl([0])
                w.win.Start(group)
                kept = [put(w, target, 0, 5) for target in range(1, SIZE)]
                WORLD.Barrier()
                w.win.Complete()
                WORLD.Barrier()
                del kept
            else:
                group = world.Incl([0])
                w.win.Post(group, MPI.MODE_NOSTORE)
                self.equal(w.win.Test(), False, 'Test before complete')
                WORLD.Barrier()
                WORLD.Barrier()
                self.equal(w.win.Test(), True, 'Test after complete')
                self.equal(w.read('q')[0], 5, 'what was put')
            group.Free()
            world.Free()

    def test_exclusive_excludes(self):
        """Read, add one, write, under an exclusive lock, by all ranks at all targets."""
        rounds = 25
        with self.window() as w:
            for n in range(rounds * SIZE):
                target = (RANK + n) % SIZE
                w.win.Lock(target, MPI.LOCK_EXCLUSIVE)
                found = get(w, target, 2)
                w.win.Flush(target)
                kept = put(w, target, 2, found[0] + 1)
                w.win.Unlock(target)
                del kept
            WORLD.Barrier()
            self.equal(w.read('q')[2], rounds * SIZE, 'the counter')

    def test_lock_excludes_lock_all(self):
        """lock_all of some and exclusive locks of others: the pair of cells is never seen apart."""
        with self.window() as w:
            for n in range(40):
                if RANK % 2 == 0:
                    w.win.Lock(0, MPI.LOCK_EXCLUSIVE)
                    kept = put(w, 0, 0, 100 * n + RANK)
                    w.win.Flush(0)
                    also = put(w, 0, 1, 100 * n + RANK)
                    w.win.Unlock(0)
                    del kept, also
                else:
                    w.win.Lock_all()
                    first, second = get(w, 0, 0), get(w, 0, 1)
                    w.win.Unlock_all()
                    self.equal(first[0], second[0], 'two cells written under a lock')

    def test_nocheck(self):
        with self.window() as w:
            w.win.Lock(RANK, MPI.LOCK_SHARED, MPI.MODE_NOCHECK)
            kept = put(w, RANK, 0, 3)
            w.win.Unlock(RANK)
            WORLD.Barrier()
            w.win.Lock_all(MPI.MODE_NOCHECK)
            others = put(w, (RANK + 1) % SIZE, 1, RANK)
            w.win.Flush_local((RANK + 1) % SIZE)
            w.win.Unlock_all()
            WORLD.Barrier()
            self.equal(list(w.read('q')[:2]), [3, (RANK - 1) % SIZE], 'what was put')
            group = w.win.Get_group()
            w.win.Post(group, MPI.MODE_NOCHECK | MPI.MODE_NOPUT)
            WORLD.Barrier()
            w.win.Start(group, MPI.MODE_NOCHECK)
            found = get(w, (RANK + 1) % SIZE, 0)
            w.win.Complete()
            w.win.Wait()
            self.equal(found[0], 3, 'read between Start and Complete')
            group.Free()
            del kept, others

    def test_flushes(self):
        """What each flush promises is there: at the target, or in my buffer."""
        right = (RANK + 1) % SIZE
        with self.window() as w:
            w.win.Lock_all()
            for n, flush in enumerate((lambda: w.win.Flush(right), w.win.Flush_all)):
                kept = put(w, right, 0, n + 1)
                flush()
                WORLD.Barrier()
                w.win.Sync()
                self.equal(memoryview(w.local).cast('q')[0], n + 1, 'put and flush %d' % n)
                WORLD.Barrier()
            for n, flush in enumerate((lambda: w.win.Flush_local(right), w.win.Flush_local_all,
                                       lambda: w.win.Flush(right), w.win.Flush_all)):
                found = get(w, right, 0)
                flush()
                self.equal(found[0], 2, 'get and flush %d' % n)
                kept = put(w, right, 1, 50 + n)
                flush()
                kept[0] = -1        # the buffer is ours again
            w.win.Unlock_all()
            WORLD.Barrier()
            self.equal(list(w.read('q')[:2]), [2, 53], 'the memory')

    def test_sync_and_messages(self):
        """A put, flushed, then a message: who has the message sees the put by a plain load."""
        with self.window() as w:
            right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
            w.win.Lock_all()
            for n in range(30):
                kept = put(w, right, 0, n)
                w.win.Flush(right)
                WORLD.sendrecv(n, right, 1, None, left, 1)
                w.win.Sync()
                self.equal(memoryview(w.local).cast('q')[0], n, 'turn %d' % n)
                WORLD.Barrier()
                del kept
            w.win.Unlock_all()

    def test_window_in_turn(self):
        """Fence, post/start and locks follow each other on one window."""
        with self.window() as w:
            group, right = w.win.Get_group(), (RANK + 1) % SIZE
            for n in range(0, 12, 3):
                w.win.Fence(MPI.MODE_NOPRECEDE)
                kept = [put(w, right, 0, n)]
                w.win.Fence(MPI.MODE_NOSUCCEED)
                self.equal(w.read('q')[0], n, 'by fence')
                w.win.Post(group)
                w.win.Start(group)
                kept.append(put(w, right, 0, n + 1))
                w.win.Complete()
                w.win.Wait()
                self.equal(w.read('q')[0], n + 1, 'by post and start')
                WORLD.Barrier()
                w.win.Lock(right)
                kept.append(put(w, right, 0, n + 2))
                w.win.Unlock(right)
                WORLD.Barrier()
                self.equal(w.read('q')[0], n + 2, 'by lock')
                WORLD.Barrier()
            group.Free()

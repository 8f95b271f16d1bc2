# SPDX-License-Identifier: BSD-3-Clause
"""Shared windows: Shared_query, plain loads and stores beside operations."""
from array import array

from mpi4py import MPI

from base import Case, RANK, SIZE, WORLD, Win


class Shared(Case):
    def open(self, size, unit=8, noncontig=None):
        info = MPI.Info.Create()
        if noncontig is not None:
            info.Set('alloc_shared_noncontig', noncontig)
        win = Win(MPI.Win.Allocate_shared(size, unit, info, WORLD))
        info.Free()
        win.kind = 'shared'
        return win

    def test_query(self):
        """Each rank sees the size and unit of each other, and all parts in one piece."""
        for noncontig in (None, 'false', 'true'):
            win = self.open(16 * (RANK + 1), (1, 2, 4, 8)[RANK % 4], noncontig)
            bases = []
            for rank in range(SIZE):
                memory, unit = win.Shared_query(rank)
                self.equal((len(memory), unit), (16 * (rank + 1), (1, 2, 4, 8)[rank % 4]),
                           'rank %d' % rank)
                bases.append(MPI.Get_address(memory))
            if noncontig != 'true':
                wanted = [bases[0] + sum(16 * (r + 1) for r in range(rank))
                          for rank in range(SIZE)]
                self.equal(bases, wanted, 'contiguous parts')
            self.equal(bases[RANK], MPI.Get_address(win.tomemory()), 'my own part')
            win.Free()

    def test_first_with_memory(self):
        """MPI_PROC_NULL asks for the lowest rank that has any."""
        owner = SIZE - 1
        win = self.open(64 if RANK == owner else 0)
        memory, unit = win.Shared_query(MPI.PROC_NULL)
        self.equal((len(memory), unit), (64, 8), 'size, unit')
        if RANK == 0:
            memory[0] = 7
        win.Fence()
        self.equal(memory[0], 7, 'what rank 0 stored')
        win.Free()

    def test_plain_stores(self):
        """Each rank stores into its neighbour's part; a barrier between two syncs shows it."""
        win = self.open(8 * SIZE)
        parts = [memoryview(win.Shared_query(r)[0]).cast('B').cast('q') for r in range(SIZE)]
        win.Lock_all()
        for turn in range(20):
            for rank in range(SIZE):
                parts[rank][RANK] = 100 * turn + RANK
            win.Sync()
            WORLD.Barrier()
            win.Sync()
            self.equal(list(parts[RANK]), [100 * turn + r for r in range(SIZE)],
                       'turn %d' % turn)
            WORLD.Barrier()
        win.Unlock_all()
        for part in parts:
            part.release()
        win.Free()

    def test_stores_and_operations(self):
        """Put, accumulate and plain loads see the same memory."""
        win = self.open(32)
        mine = memoryview(win.tomemory()).cast('B').cast('q')
        mine[:] = array('q', [0, 10, 20, 30])
        right = (RANK + 1) % SIZE
        win.Fence()
        win.Put([array('q', [RANK + 1]), MPI.INT64_T], right, (0, 1, MPI.INT64_T))
        win.Accumulate([array('q', [5]), MPI.INT64_T], right, (1, 1, MPI.INT64_T), MPI.SUM)
        got = array('q', [0])
        win.Get([got, MPI.INT64_T], right, (2, 1, MPI.INT64_T))
        win.Fence()
        self.equal(list(mine), [(RANK - 1) % SIZE + 1, 15, 20, 30], 'the memory')
        self.equal(got[0], 20, 'what was got')
        theirs = memoryview(win.Shared_query(right)[0]).cast('B').cast('q')
        self.equal(list(theirs), [RANK + 1, 15, 20, 30], 'my neighbour by plain loads')
        mine.release()
        theirs.release()
        win.Free()

    def test_node_communicator(self):
        node = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
        win = Win(MPI.Win.Allocate_shared(8, 8, comm=node))
        memoryview(win.tomemory()).cast('B').cast('q')[0] = node.rank
        win.Fence()
        seen = [memoryview(win.Shared_query(r)[0]).cast('B').cast('q')[0]
                for r in range(node.size)]
        self.equal(seen, list(range(node.size)), 'all ranks of the node')
        win.Free()
        node.Free()

# SPDX-License-Identifier: BSD-3-Clause
"""Dynamic windows: regions that are attached and detached while the window is used."""
from array import array

from mpi4py import MPI

from base import Case, RANK, SIZE, WORLD, Win


class Dynamic(Case):
    def open(self):
        return Win(MPI.Win.Create_dynamic(comm=WORLD))

    def put(self, win, target, where, code, values):
        win.Lock(target, MPI.LOCK_SHARED)
        win.Put([array(code, values), MPI._typedict[code]], target,
                (where, len(values), MPI._typedict[code]))
        win.Unlock(target)

    def test_regions_of_many_kinds(self):
        """Bytearrays, arrays and MPI's own memory, all attached at once."""
        regions = [bytearray(40), array('d', [0] * 5), MPI.Alloc_mem(40)]
        regions[2][:] = bytes(40)
        win = self.open()
        for region in regions:
            win.Attach(region)
        places = WORLD.allgather([MPI.Get_address(region) for region in regions])
        right = (RANK + 1) % SIZE
        for n, where in enumerate(places[right]):
            self.put(win, right, where + 8 * n, 'q', [RANK + 10 * n + 1])
        WORLD.Barrier()
        for n, region in enumerate(regions):
            win.Lock(RANK, MPI.LOCK_SHARED)
            found = memoryview(region).cast('B').cast('q').tolist()
            win.Unlock(RANK)
            wanted = [0] * 5
            wanted[n] = (RANK - 1) % SIZE + 10 * n + 1
            self.equal(found, wanted, 'region %d' % n)
        WORLD.Barrier()
        for region in reversed(regions):
            win.Detach(region)
        win.Free()
        MPI.Free_mem(regions[2])

    def test_come_and_go(self):
        """A region is detached and another takes its place, often."""
        win, right = self.open(), (RANK + 1) % SIZE
        for turn in range(40):
            memory = bytearray(8 * (1 + turn % 7))
            win.Attach(memory)
            places = WORLD.allgather((MPI.Get_address(memory), len(memory) // 8))
            where, cells = places[right]
            self.put(win, right, where + 8 * (cells - 1), 'q', [turn + RANK])
            WORLD.Barrier()
            win.Lock(RANK)
            self.equal(memoryview(memory).cast('q')[len(memory) // 8 - 1],
                       turn + (RANK - 1) % SIZE, 'turn %d' % turn)
            win.Unlock(RANK)
            WORLD.Barrier()
            win.Detach(memory)
        win.Free()

    def test_linked_list(self):
        """A list over all ranks, grown at its tail by compare and swap: the standard's example."""
        each = 6
        win, nodes = self.open(), []
        cell = MPI.Alloc_mem(24)            # value, rank of the next, address of the next
        memoryview(cell).cast('B').cast('q')[:] = array('q', [-1, -1, 0])
        win.Attach(cell)
        nodes.append(cell)
        tail = (0, WORLD.bcast(MPI.Get_address(cell), 0))
        head = tail
        win.Lock_all()
        for n in range(each):
            node = MPI.Alloc_mem(24)
            memoryview(node).cast('B').cast('q')[:] = array('q', [100 * RANK + n, -1, 0])
            win.Attach(node)
            nodes.append(node)
            tail = self.append(win, tail, MPI.Get_address(node))
        WORLD.Barrier()
        values = self.walk(win, head)
        win.Unlock_all()
        self.equal(sorted(values), sorted([-1] + [100 * r + n for r in range(SIZE)
                                                  for n in range(each)]), 'the whole list')
        mine = [value for value in values if value >= 0 and value // 100 == RANK]
        self.equal(mine, sorted(mine), 'my own nodes in order')
        WORLD.Barrier()
        for node in nodes:
            win.Detach(node)
            MPI.Free_mem(node)
        win.Free()

    def append(self, win, tail, mine):
        none, me, found = array('q', [-1]), array('q', [RANK]), array('q', [0])
        while True:
            rank, where = tail
            win.Compare_and_swap(me, none, found, rank, where + 8)
            win.Flush(rank)
            if found[0] == -1:
                win.Accumulate([array('q', [mine]), MPI.INT64_T], rank,
                               (where + 16, 1, MPI.INT64_T), MPI.REPLACE)
                win.Flush(rank)
                return RANK, mine
            tail = found[0], self.address_of_next(win, tail)

    def address_of_next(self, win, node):
        """Its writer sets the rank first, the address a moment later."""
        got = array('q', [0])
        while got[0] == 0:
            win.Fetch_and_op(array('q', [0]), got, node[0], node[1] + 16, MPI.NO_OP)
            win.Flush(node[0])
        return got[0]

    def walk(self, win, node):
        values = []
        while node[0] != -1:
            got = array('q', [0, 0, 0])
            win.Get([got, MPI.INT64_T], node[0], (node[1], 3, MPI.INT64_T))
            win.Flush(node[0])
            values.append(got[0])
            node = got[1], got[2]
        return values

    def test_wrong_use(self):
        memory, other = bytearray(64), bytearray(64)
        win = self.open()
        win.Attach(memory)
        places = WORLD.allgather((MPI.Get_address(memory), MPI.Get_address(other)))
        right = (RANK + 1) % SIZE
        value = array('q', [1])
        win.Lock(right, MPI.LOCK_SHARED)
        for wrong in (places[right][1], places[right][0] + 60, 0):
            self.raises(MPI.ERR_RMA_RANGE, win.Put, [value, MPI.INT64_T], right,
                        (wrong, 1, MPI.INT64_T))
            self.raises(MPI.ERR_RMA_RANGE, win.Get, [value, MPI.INT64_T], right,
                        (wrong, 1, MPI.INT64_T))
        win.Unlock(right)
        WORLD.Barrier()
        self.raises(MPI.ERR_RMA_ATTACH, win.Detach, other)
        self.raises(MPI.ERR_RMA_ATTACH, win.Attach, memoryview(memory)[8:16])
        self.equal((sum(memory), sum(other), value[0]), (0, 0, 1), 'nothing is written')
        win.Detach(memory)
        WORLD.Barrier()
        win.Lock(right, MPI.LOCK_SHARED)
        self.raises(MPI.ERR_RMA_RANGE, win.Put, [value, MPI.INT64_T], right,
                    (places[right][0], 1, MPI.INT64_T))
        win.Unlock(right)
        WORLD.Barrier()
        self.equal(sum(memory), 0, 'detached memory')
        win.Free()

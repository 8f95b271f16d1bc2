# SPDX-License-Identifier: BSD-3-Clause
"""Windows as objects: attributes, info, names, groups, keyvals, error handlers, handles."""
from mpi4py import MPI

from base import Case, RANK, SIZE, WORLD, Window, Win, each_flavor

KIND = {'allocate': MPI.WIN_FLAVOR_ALLOCATE, 'shared': MPI.WIN_FLAVOR_SHARED,
        'create': MPI.WIN_FLAVOR_CREATE, 'dynamic': MPI.WIN_FLAVOR_DYNAMIC}


@each_flavor()
class Objects:
    def test_attributes(self):
        with Window(self.flavor, 1024 * (RANK + 1), 8) as w:
            base, size, unit = w.win.attrs
            self.equal(w.win.flavor, KIND[self.flavor], 'flavor')
            self.equal(w.win.Get_attr(MPI.WIN_CREATE_FLAVOR), KIND[self.flavor], 'flavor')
            self.true(w.win.model in (MPI.WIN_UNIFIED, MPI.WIN_SEPARATE), 'a memory model')
            self.equal(w.win.Get_attr(MPI.WIN_MODEL), w.win.model, 'model')
            if self.flavor == 'dynamic':
                self.equal((base, size), (0, 0), 'base and size of a dynamic window')
            else:
                self.equal((size, unit), (1024 * (RANK + 1), 8), 'size, unit')
                self.equal(base, MPI.Get_address(w.win.tomemory()), 'base')
                self.equal(w.win.Get_attr(MPI.WIN_BASE), base, 'WIN_BASE')
                self.equal(w.win.Get_attr(MPI.WIN_SIZE), size, 'WIN_SIZE')
                self.equal(w.win.Get_attr(MPI.WIN_DISP_UNIT), unit, 'WIN_DISP_UNIT')

    def test_no_bytes(self):
        with Window(self.flavor, 0) as w:
            for target in range(SIZE):
                w.win.Lock(target)
                w.win.Put([bytearray(0), 0, MPI.BYTE], target, (w.at(target), 0, MPI.BYTE))
                w.win.Unlock(target)
            self.equal(len(w.local), 0, 'size')

    def test_one_rank_has_memory(self):
        with Window(self.flavor, 64 if RANK == 0 else 0) as w:
            value = bytearray([RANK + 1])
            w.win.Lock(0, MPI.LOCK_SHARED)
            w.win.Put([value, MPI.BYTE], 0, (w.at(0, RANK), 1, MPI.BYTE))
            w.win.Unlock(0)
            WORLD.Barrier()
            if RANK == 0:
                self.equal(list(w.read()[:SIZE]), list(range(1, SIZE + 1)), 'what ranks put')

    def test_group(self):
        with Window(self.flavor, 8) as w:
            group, again, mine = w.win.Get_group(), w.win.group, WORLD.Get_group()
            self.equal(MPI.Group.Compare(group, mine), MPI.IDENT, 'group')
            self.equal(MPI.Group.Compare(again, mine), MPI.IDENT, 'group property')
            for one in (group, again, mine):
                one.Free()

    def test_name(self):
        with Window(self.flavor, 8) as w:
            w.win.Set_name('a window')
            self.equal(w.win.Get_name(), 'a window', 'name')
            w.win.name = 'another'
            self.equal(w.win.name, 'another', 'name property')

    def test_info(self):
        asked = MPI.Info.Create()
        asked.Set('no_locks', 'false')
        asked.Set('accumulate_ordering', 'rar,war,raw,waw')
        asked.Set('some_key_that_nobody_knows', 'some value')
        with Window(self.flavor, 64, info=asked) as w:
            found = w.win.Get_info()
            for key in ('no_locks', 'accumulate_ordering'):
                self.true(found.Get(key) is not None, 'Get_info has ' + key)
            self.equal(found.Get('no_locks'), 'false', 'no_locks')
            found.Free()
            w.win.Set_info(asked)
            w.win.info = asked
            again = w.win.info
            self.true(again.Get_nkeys() > 0, 'info property has keys')
            again.Free()
        asked.Free()

    def test_error_handler(self):
        with Window(self.flavor, 8) as w:
            before = w.win.Get_errhandler()
            for handler in (MPI.ERRORS_ARE_FATAL, MPI.ERRORS_RETURN):
                w.win.Set_errhandler(handler)
                now = w.win.Get_errhandler()
                self.equal(now, handler, 'handler')
                now.Free()
            w.win.Call_errhandler(MPI.ERR_WIN)
            w.win.Set_errhandler(before)
            before.Free()

    def test_keyvals(self):
        copied, deleted = [], []
        key = MPI.Win.Create_keyval(lambda win, k, value: copied.append(value),
                                    lambda win, k, value: deleted.append(value))
        value = ['a value']
        with Window(self.flavor, 8) as w:
            self.equal(w.win.Get_attr(key), None, 'no attribute yet')
            w.win.Set_attr(key, value)
            self.true(w.win.Get_attr(key) is value, 'the attribute')
            w.win.Delete_attr(key)
            self.equal(w.win.Get_attr(key), None, 'deleted attribute')
            w.win.Set_attr(key, 'left for Free')
        self.equal(deleted, [value, 'left for Free'], 'what the delete function saw')
        self.equal(copied, [], 'what the copy function saw')
        MPI.Win.Free_keyval(key)
        Win.Free_keyval(Win.Create_keyval())

    def test_fortran_handle(self):
        with Window(self.flavor, 8) as w:
            self.true(MPI.Win.f2py(w.win.py2f()) == w.win, 'the handle there and back')

    def test_sub_communicators(self):
        half = WORLD.Split(RANK % 2, -RANK)
        one = WORLD.Dup()
        for comm in (half, MPI.COMM_SELF, one):
            with Window(self.flavor, 64, comm=comm) as w:
                value = bytearray([comm.rank + 1])
                for target in range(comm.size):
                    w.win.Lock(target, MPI.LOCK_SHARED)
                    w.win.Put([value, MPI.BYTE], target, (w.at(target, comm.rank), 1, MPI.BYTE))
                    w.win.Unlock(target)
                comm.Barrier()
                self.equal(list(w.read()[:comm.size]), list(range(1, comm.size + 1)), comm.name)
        half.Free()
        one.Free()

    def test_many_at_once(self):
        windows = [Window(self.flavor, 256) for _ in range(30)]
        for i, w in enumerate(windows):
            w.win.Lock_all()
            for target in range(SIZE):
                w.win.Put([bytearray([i]), MPI.BYTE], target, (w.at(target, RANK), 1, MPI.BYTE))
        for w in windows:
            w.win.Unlock_all()
        WORLD.Barrier()
        for i, w in enumerate(windows):
            self.equal(list(w.read()[:SIZE]), [i] * SIZE, 'window %d' % i)
            with w:
                pass


class NoWindow(Case):
    def test_null(self):
        for call in (MPI.WIN_NULL.Free, MPI.WIN_NULL.Get_errhandler, MPI.WIN_NULL.Fence,
                     MPI.WIN_NULL.Lock_all):
            self.raises(MPI.ERR_WIN, call)

    def test_buffers_for_create(self):
        """Memory of several kinds of Python objects, and none."""
        from array import array
        for memory in (bytearray(64), array('d', [0] * 8), MPI.Alloc_mem(64), None):
            win = Win(MPI.Win.Create(memory, 1, MPI.INFO_NULL, WORLD))
            size = 64 if memory is not None else 0
            self.equal(win.attrs[1], size, 'size')
            value = bytearray(b'\1' * size)
            win.Fence()
            win.Put([value, MPI.BYTE], (RANK + 1) % SIZE)
            win.Fence()
            if memory is not None:
                self.equal(bytes(memoryview(memory).cast('B')), bytes(value), 'what was put')
            win.Free()
            if isinstance(memory, MPI.memory):
                MPI.Free_mem(memory)

# SPDX-License-Identifier: BSD-3-Clause
"""Wrong use raises MPI.Exception of the class that the standard names; nothing is written."""
from array import array

from mpi4py import MPI

from base import Case, RANK, SIZE, WORLD, Win, Window, each_flavor

LONG = MPI.INT64_T


@each_flavor()
class Errors:
    def calls(self, w, target, place):
        """Every communication call at one place of the target, and the buffers it may write."""
        one, got = array('q', [1]), array('q', [55])
        spec = (place, 1, LONG)
        return got, [
            (w.win.Put, [one, LONG], target, spec),
            (w.win.Get, [got, LONG], target, spec),
            (w.win.Accumulate, [one, LONG], target, spec, MPI.SUM),
            (w.win.Get_accumulate, [one, LONG], [got, LONG], target, spec, MPI.SUM),
            (w.win.Rput, [one, LONG], target, spec),
            (w.win.Rget, [got, LONG], target, spec),
            (w.win.Raccumulate, [one, LONG], target, spec, MPI.SUM),
            (w.win.Rget_accumulate, [one, LONG], [got, LONG], target, spec, MPI.SUM),
            (w.win.Fetch_and_op, [one, LONG], [got, LONG], target, place, MPI.SUM),
            (w.win.Compare_and_swap, [one, LONG], [one, LONG], [got, LONG], target, place),
        ]

    def all_raise(self, w, wanted, target, place):
        got, calls = self.calls(w, target, place)
        for call in calls:
            self.raises(wanted, *call)
        self.equal(got[0], 55, 'the result buffer')

    def still_works(self, w):
        right = (RANK + 1) % SIZE
        WORLD.Barrier()
        w.win.Lock(right)
        w.win.Put([array('q', [5]), LONG], right, (w.at(right), 1, LONG))
        w.win.Unlock(right)
        WORLD.Barrier()
        self.equal(list(w.read('q')), [5] + [0] * (len(w.local) // 8 - 1), 'nothing else is there')

    def test_outside(self):
        with Window(self.flavor, 64, 8) as w:
            right = (RANK + 1) % SIZE
            beyond = w.at(right, 64)
            w.win.Lock(right, MPI.LOCK_SHARED)
            if self.flavor != 'dynamic':
                self.all_raise(w, (MPI.ERR_DISP, MPI.ERR_RMA_RANGE), right, -1)
            self.all_raise(w, (MPI.ERR_RMA_RANGE, MPI.ERR_DISP), right, beyond)
            self.raises(MPI.ERR_RMA_RANGE, w.win.Put, [array('q', [1] * 9), LONG], right,
                        (w.at(right), 9, LONG))
            w.win.Unlock(right)
            self.still_works(w)

    def test_no_epoch(self):
        with Window(self.flavor, 64, 8) as w:
            right = (RANK + 1) % SIZE
            self.all_raise(w, MPI.ERR_RMA_SYNC, right, w.at(right))
            for call in (w.win.Unlock, w.win.Flush, w.win.Flush_local):
                self.raises(MPI.ERR_RMA_SYNC, call, right)
            for call in (w.win.Unlock_all, w.win.Flush_all, w.win.Flush_local_all,
                         w.win.Complete, w.win.Wait, w.win.Test):
                self.raises(MPI.ERR_RMA_SYNC, call)
            self.still_works(w)

    def test_epochs_mixed_up(self):
        with Window(self.flavor, 64, 8) as w:
            right, group = (RANK + 1) % SIZE, w.win.Get_group()
            w.win.Lock(RANK, MPI.LOCK_SHARED)
            for call, *more in ((w.win.Lock, RANK), (w.win.Lock_all,), (w.win.Unlock_all,),
                                (w.win.Start, group)):
                self.raises(MPI.ERR_RMA_SYNC, call, *more)
            if SIZE > 1:
                self.all_raise(w, MPI.ERR_RMA_SYNC, right, w.at(right))
                self.raises(MPI.ERR_RMA_SYNC, w.win.Unlock, right)
            w.win.Unlock(RANK)
            w.win.Lock_all()
            self.raises(MPI.ERR_RMA_SYNC, w.win.Lock_all)
            self.raises(MPI.ERR_RMA_SYNC, w.win.Lock, right)
            self.raises(MPI.ERR_RMA_SYNC, w.win.Unlock, right)
            w.win.Unlock_all()
            group.Free()
            self.still_works(w)

    def test_requests_in_active_epochs(self):
        """The calls that give requests are for passive epochs alone."""
        with Window(self.flavor, 64, 8) as w:
            right, group = (RANK + 1) % SIZE, w.win.Get_group()
            got, calls = self.calls(w, right, w.at(right))
            by_request = [call for call in calls if call[0].__name__.startswith('R')]
            self.equal(len(by_request), 4, 'calls with requests')
            w.win.Fence(MPI.MODE_NOPRECEDE)
            for call in by_request:
                self.raises(MPI.ERR_RMA_SYNC, *call)
            w.win.Fence(MPI.MODE_NOSUCCEED)
            w.win.Post(group)
            w.win.Start(group)
            for call in by_request:
                self.raises(MPI.ERR_RMA_SYNC, *call)
            w.win.Complete()
            w.win.Wait()
            group.Free()
            self.equal(got[0], 55, 'the result buffer')
            self.still_works(w)

    def test_wrong_rank(self):
        with Window(self.flavor, 64, 8) as w:
            w.win.Lock_all()
            self.all_raise(w, MPI.ERR_RANK, SIZE, w.at(0))
            self.raises(MPI.ERR_RANK, w.win.Flush, SIZE)
            self.raises(MPI.ERR_RANK, w.win.Put, [array('q', [1]), LONG], -7)
            w.win.Unlock_all()
            self.raises(MPI.ERR_RANK, w.win.Lock, SIZE)
            self.still_works(w)

    def test_wrong_arguments(self):
        with Window(self.flavor, 64, 8) as w:
            right = (RANK + 1) % SIZE
            self.raises(MPI.ERR_LOCKTYPE, w.win.Lock, right, 12345)
            self.raises(MPI.ERR_ASSERT, w.win.Lock, right, MPI.LOCK_SHARED, MPI.MODE_NOPUT)
            self.raises(MPI.ERR_ASSERT, w.win.Fence, 1 << 20)
            w.win.Lock(right, MPI.LOCK_SHARED)
            one, got = array('q', [1]), array('q', [55])
            real = array('d', [1])
            self.raises(MPI.ERR_OP, w.win.Accumulate, [real, MPI.DOUBLE], right,
                        (w.at(right), 1, MPI.DOUBLE), MPI.BAND)
            mine = MPI.Op.Create(lambda a, b, t: None)
            self.raises(MPI.ERR_OP, w.win.Accumulate, [one, LONG], right, (w.at(right), 1, LONG),
                        mine)
            mine.Free()
            self.raises((MPI.ERR_TYPE, MPI.ERR_ARG), w.win.Compare_and_swap, [real, MPI.DOUBLE],
                        [real, MPI.DOUBLE], [real, MPI.DOUBLE], right, w.at(right))
            self.raises(MPI.ERR_COUNT, w.win.Get, [got, LONG], right, (w.at(right), -1, LONG))
            w.win.Unlock(right)
            self.equal(got[0], 55, 'the result buffer')
            self.still_works(w)

    def test_wrong_flavor(self):
        memory = bytearray(8)
        with Window(self.flavor, 64, 8) as w:
            if self.flavor != 'dynamic':
                self.raises(MPI.ERR_RMA_FLAVOR, w.win.Attach, memory)
                self.raises(MPI.ERR_RMA_FLAVOR, w.win.Detach, memory)
            if self.flavor != 'shared':
                self.raises(MPI.ERR_RMA_FLAVOR, w.win.Shared_query, 0)
            self.still_works(w)

    def test_free_in_epoch(self):
        """Refused, and the window stays usable."""
        w = Window(self.flavor, 64, 8)
        w.win.Lock_all()
        self.raises(MPI.ERR_RMA_SYNC, w.win.Free)
        w.win.Unlock_all()
        self.still_works(w)
        with w:
            pass


class Creation(Case):
    def test_wrong_arguments(self):
        memory = bytearray(8)
        self.raises(MPI.ERR_DISP, MPI.Win.Create, memory, 0, MPI.INFO_NULL, WORLD)
        self.raises(MPI.ERR_SIZE, MPI.Win.Allocate, -8, 1, MPI.INFO_NULL, WORLD)
        self.raises(MPI.ERR_COMM, MPI.Win.Create_dynamic, MPI.INFO_NULL, MPI.Intracomm())

    def test_no_locks(self):
        info = MPI.Info.Create()
        info.Set('no_locks', 'true')
        win = Win(MPI.Win.Allocate(8, 1, info, WORLD))
        info.Free()
        self.raises(MPI.ERR_RMA_SYNC, win.Lock, 0)
        self.raises(MPI.ERR_RMA_SYNC, win.Lock_all)
        win.Fence()
        win.Put([bytearray([7]), MPI.BYTE], (RANK + 1) % SIZE)
        win.Fence()
        self.equal(win.tomemory()[0], 7, 'fence works')
        win.Free()

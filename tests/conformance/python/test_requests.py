# SPDX-License-Identifier: BSD-3-Clause
"""Rput, Rget, Raccumulate, Rget_accumulate: requests, waited for in several ways."""
from array import array

from mpi4py import MPI

from base import RANK, SIZE, WORLD, Window, each_flavor

MANY = 20


@each_flavor()
class Requests:
    def wait_one_by_one(self, requests):
        for request in requests:
            request.Wait()

    def wait_all(self, requests):
        MPI.Request.Waitall(requests)

    def wait_any(self, requests):
        for _ in requests:
            MPI.Request.Waitany(requests)

    def poll(self, requests):
        while not MPI.Request.Testall(requests):
            pass

    def ask_each(self, requests):
        while requests:
            requests = [request for request in requests if not request.Test()]

    def test_each_wait(self):
        with Window(self.flavor, 8 * MANY * SIZE) as w:
            for wait in (self.wait_one_by_one, self.wait_all, self.wait_any, self.poll,
                         self.ask_each):
                self.round(w, wait)

    def round(self, w, wait):
        what = wait.__name__
        w.write(bytes(len(w.local)))
        WORLD.Barrier()
        w.win.Lock_all()
        place = [[(w.at(target, 8 * (RANK * MANY + i)), 1, MPI.INT64_T) for i in range(MANY)]
                 for target in range(SIZE)]
        cells = [array('q', [100 * RANK + i]) for i in range(MANY)]
        wait([w.win.Rput([cells[i], MPI.INT64_T], target, place[target][i])
              for target in range(SIZE) for i in range(MANY)])
        w.win.Flush_all()
        for i in range(MANY):
            cells[i][0] = 1000
        wait([w.win.Raccumulate([cells[i], MPI.INT64_T], target, place[target][i], MPI.SUM)
              for target in range(SIZE) for i in range(MANY)])
        w.win.Flush_all()
        got = [array('q', [-1]) for _ in range(SIZE * MANY)]
        wait([w.win.Rget([got[target * MANY + i], MPI.INT64_T], target, place[target][i])
              for target in range(SIZE) for i in range(MANY)])
        wanted = [1000 + 100 * RANK + i for i in range(MANY)] * SIZE
        self.equal([g[0] for g in got], wanted, 'Rget, ' + what)
        old = [array('q', [-1]) for _ in range(SIZE * MANY)]
        wait([w.win.Rget_accumulate([cells[i], MPI.INT64_T],
                                    [old[target * MANY + i], MPI.INT64_T], target,
                                    place[target][i], MPI.REPLACE)
              for target in range(SIZE) for i in range(MANY)])
        self.equal([o[0] for o in old], wanted, 'Rget_accumulate, ' + what)
        w.win.Unlock_all()
        WORLD.Barrier()
        self.equal(list(w.read('q')), [1000] * (MANY * SIZE), 'the memory, ' + what)
        WORLD.Barrier()

    def test_no_process(self):
        with Window(self.flavor, 8) as w:
            kept = bytearray(b'kept')
            w.win.Lock_all()
            for request in (w.win.Rput(None, MPI.PROC_NULL), w.win.Rget(None, MPI.PROC_NULL),
                            w.win.Rget([kept, MPI.BYTE], MPI.PROC_NULL),
                            w.win.Raccumulate([kept, MPI.BYTE], MPI.PROC_NULL),
                            w.win.Rget_accumulate([kept, MPI.BYTE], [kept, MPI.BYTE],
                                                  MPI.PROC_NULL)):
                request.Wait()
                self.true(request == MPI.REQUEST_NULL, 'a null request after Wait')
            w.win.Unlock_all()
            self.equal(kept, bytearray(b'kept'), 'the buffer')

    def test_waited_for_after_unlock(self):
        """The epoch ends before the requests are looked at."""
        with Window(self.flavor, 8 * SIZE) as w:
            data = array('q', [RANK + 5])
            requests = []
            for target in range(SIZE):
                w.win.Lock(target, MPI.LOCK_SHARED)
                requests.append(w.win.Rput([data, MPI.INT64_T], target,
                                           (w.at(target, 8 * RANK), 1, MPI.INT64_T)))
                w.win.Unlock(target)
            WORLD.Barrier()
            self.equal(list(w.read('q')), [r + 5 for r in range(SIZE)], 'what was put')
            MPI.Request.Waitall(requests)

    def test_mixed_with_messages(self):
        """One Waitall over window requests and messages."""
        with Window(self.flavor, 8) as w:
            out, came = array('q', [RANK]), array('q', [-1])
            put, got = array('q', [RANK + 7]), array('q', [-1])
            right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
            w.win.Lock_all()
            requests = [WORLD.Irecv([came, MPI.INT64_T], left, 5),
                        w.win.Rput([put, MPI.INT64_T], right, (w.at(right), 1, MPI.INT64_T)),
                        WORLD.Isend([out, MPI.INT64_T], right, 5)]
            statuses = [MPI.Status() for _ in requests]
            MPI.Request.Waitall(requests, statuses)
            w.win.Flush_all()
            WORLD.Barrier()
            w.win.Rget([got, MPI.INT64_T], RANK, (w.at(RANK), 1, MPI.INT64_T)).Wait()
            w.win.Unlock_all()
            self.equal((came[0], got[0]), (left, left + 7), 'the message, the put')

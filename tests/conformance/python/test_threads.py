# SPDX-License-Identifier: BSD-3-Clause
"""MPI_THREAD_MULTIPLE, which mpi4py asks for: several threads of each rank on one window."""
import threading
import traceback
from array import array

from mpi4py import MPI

from base import Case, RANK, SIZE, WORLD, Window, each_flavor, seconds

THREADS = 6
ROUNDS = 60
LONG = MPI.INT64_T


@each_flavor()
class Threads:
    def together(self, work):
        """work(number) in THREADS threads; what goes wrong in one of them is a difference."""
        def run(number):
            try:
                start.wait()
                work(number)
            except Exception:
                self.differences.append('thread %d: %s' % (number, traceback.format_exc()))

        start = threading.Barrier(THREADS)
        threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for n, thread in enumerate(threads):
            thread.join(seconds(60))
            if thread.is_alive():
                raise RuntimeError('thread %d does not end' % n)

    def test_level(self):
        self.equal(MPI.Query_thread(), MPI.THREAD_MULTIPLE, 'thread level')

    def test_tickets(self):
        with Window(self.flavor, 64) as w:
            mine = [[] for _ in range(THREADS)]

            def work(number):
                one, got = array('q', [1]), array('q', [-1])
                for _ in range(ROUNDS):
                    w.win.Fetch_and_op(one, got, 0, w.at(0), MPI.SUM)
                    w.win.Flush(0)
                    mine[number].append(got[0])

            w.win.Lock_all()
            self.together(work)
            w.win.Unlock_all()
            for tickets in mine:
                self.equal(tickets, sorted(tickets), 'the tickets of a thread grow')
            every = sorted(sum(WORLD.allgather(sum(mine, [])), []))
            self.equal(every, list(range(SIZE * THREADS * ROUNDS)), 'all tickets')

    def test_put_get(self):
        """Each thread has a cell at each rank; a flush completes what the thread put."""
        with Window(self.flavor, 8 * SIZE * THREADS) as w:
            def work(number):
                cell = 8 * (RANK * THREADS + number)
                for n in range(ROUNDS):
                    target = (RANK + n) % SIZE
                    value, got = array('q', [1000 * n + number]), array('q', [-1])
                    w.win.Put([value, LONG], target, (w.at(target, cell), 1, LONG))
                    w.win.Flush(target)
                    w.win.Get([got, LONG], target, (w.at(target, cell), 1, LONG))
                    w.win.Flush(target)
                    self.equal(got[0], value[0], 'turn %d of thread %d' % (n, number))

            w.win.Lock_all()
            self.together(work)
            w.win.Unlock_all()
            WORLD.Barrier()

    def test_all_calls_at_once(self):
        """Each thread another kind of call, all on one window."""
        with Window(self.flavor, 8 * SIZE * THREADS) as w:
            def place(target, number):
                return (w.at(target, 8 * (RANK * THREADS + number)), 1, LONG)

            def work(number):
                one, two, got = array('q', [1]), array('q', [0]), array('q', [-1])
                for n in range(ROUNDS):
                    target = (RANK + n) % SIZE
                    spec = place(target, number)
                    if number == 0:
                        w.win.Accumulate([one, LONG], target, spec, MPI.SUM)
                    elif number == 1:
                        w.win.Get_accumulate([one, LONG], [got, LONG], target, spec, MPI.SUM)
                    elif number == 2:
                        w.win.Rget_accumulate([one, LONG], [got, LONG], target, spec,
                                              MPI.SUM).Wait()
                    elif number == 3:
                        w.win.Raccumulate([one, LONG], target, spec, MPI.SUM).Wait()
                    elif number == 4:
                        w.win.Fetch_and_op(one, got, target, spec[0], MPI.SUM)
                    else:
                        got[0] = two[0] = -1
                        while got[0] != two[0] or got[0] < 0:
                            w.win.Fetch_and_op(one, two, target, spec[0], MPI.NO_OP)
                            w.win.Flush_local(target)
                            w.win.Compare_and_swap(array('q', [two[0] + 1]), two, got, target,
                                                   spec[0])
                            w.win.Flush(target)
                    w.win.Flush_local(target)

            w.win.Lock_all()
            self.together(work)
            w.win.Unlock_all()
            WORLD.Barrier()
            wanted = [sum(1 for n in range(ROUNDS) if (origin + n) % SIZE == RANK)
                      for origin in range(SIZE) for _ in range(THREADS)]
            self.equal(list(w.read('q')), wanted, 'all counters')

    def test_a_window_each(self):
        """A window for each thread, locked and unlocked at the same time."""
        windows = [Window(self.flavor, 64) for _ in range(THREADS)]

        def work(number):
            w = windows[number]
            for n in range(ROUNDS):
                target = (RANK + n + number) % SIZE
                w.win.Lock(target, MPI.LOCK_EXCLUSIVE)
                got = array('q', [-1])
                w.win.Get([got, LONG], target, (w.at(target), 1, LONG))
                w.win.Flush(target)
                value = array('q', [got[0] + 1])
                w.win.Put([value, LONG], target, (w.at(target), 1, LONG))
                w.win.Unlock(target)

        self.together(work)
        WORLD.Barrier()
        for w in windows:
            got = WORLD.allreduce(w.read('q')[0])
            self.equal(got, SIZE * ROUNDS, 'all counters of a window')
            with w:
                pass

    def test_locks_of_one_window(self):
        """Threads lock different targets of one window; each lock is one thread's own."""
        with Window(self.flavor, 64) as w:
            own = [threading.Lock() for _ in range(SIZE)]

            def work(number):
                for n in range(ROUNDS):
                    target = (RANK + n + number) % SIZE
                    with own[target]:           # a process may lock a target once at a time
                        w.win.Lock(target, MPI.LOCK_EXCLUSIVE)
                        got = array('q', [-1])
                        w.win.Get([got, LONG], target, (w.at(target), 1, LONG))
                        w.win.Flush(target)
                        value = array('q', [got[0] + 1])
                        w.win.Put([value, LONG], target, (w.at(target), 1, LONG))
                        w.win.Unlock(target)

            self.together(work)
            WORLD.Barrier()
            self.equal(WORLD.allreduce(w.read('q')[0]), SIZE * THREADS * ROUNDS, 'all counters')


class Windows(Case):
    def test_made_by_threads(self):
        """Each thread makes, uses and frees windows of its own, on a communicator of its own."""
        comms = [WORLD.Dup() for _ in range(4)]
        failures = []

        def work(comm, flavor):
            try:
                for n in range(8):
                    with Window(flavor, 64, comm=comm) as w:
                        target = (comm.rank + 1) % comm.size
                        w.win.Lock(target)
                        w.win.Put([array('q', [n + 1]), LONG], target, (w.at(target), 1, LONG))
                        w.win.Unlock(target)
                        comm.Barrier()
                        if w.read('q')[0] != n + 1:
                            failures.append('%s, turn %d' % (flavor, n))
            except Exception:
                failures.append(traceback.format_exc())

        threads = [threading.Thread(target=work, args=(comm, flavor), daemon=True)
                   for comm, flavor in zip(comms, ('allocate', 'shared', 'create', 'dynamic'))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds(60))
            if thread.is_alive():
                raise RuntimeError('a thread does not end')
        self.equal(failures, [], 'what threads found')
        for comm in comms:
            comm.Free()

    def test_flush_of_another_thread(self):
        """One thread puts, then computes; another thread's flush completes the put."""
        with Window('allocate', 64) as w:
            right = (RANK + 1) % SIZE
            value, put, done = array('q', [9]), threading.Event(), threading.Event()

            def work():
                w.win.Put([value, LONG], right, (w.at(right), 1, LONG))
                put.set()
                done.wait()                     # busy with other things

            w.win.Lock_all()
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            put.wait()
            w.win.Flush(right)
            WORLD.Barrier()
            w.win.Sync()
            self.equal(memoryview(w.local).cast('q')[0], 9, 'the put, flushed by another thread')
            done.set()
            thread.join()
            w.win.Unlock_all()

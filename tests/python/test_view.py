# SPDX-License-Identifier: BSD-3-Clause
"""Views from Python; the death of a member is in killed.py."""
import sys
import threading
import unittest

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco, name

LAST = SIZE - 1


class Journal:
    """What a member has applied, and a state to hand on."""

    def __init__(self, entries=()):
        self.entries = list(entries)
        self.views = []
        self.came = threading.Condition()

    def apply(self, messages):
        with self.came:
            self.entries += [(one.sender, one.data) for one in messages]
            self.came.notify_all()

    def changed(self, number, members):
        with self.came:
            self.views.append((number, members))
            self.came.notify_all()

    def save(self):
        return b'\n'.join(b'%d %s' % one for one in self.entries)

    def load(self, state):
        self.entries = [(int(line.split()[0]), line.split(b' ', 1)[1]) for line in state.splitlines()]

    def wait(self, test):
        with self.came:
            return self.came.wait_for(test, LIMIT)


class Views(LocoCase):
    def view(self, journal, **more):
        view = loco.View(self.rt, name('view'), journal.changed, **more)
        return view, view.multicast('log', journal.apply)

    def test_of_all(self):
        journal = Journal()
        view, log = self.view(journal)
        self.ready()
        self.equal(view.members(), (0, list(range(SIZE))), 'view 0')
        for i in range(10):
            number = log.post(b'message %d' % i)
        log.wait_delivered(number)
        self.true(journal.wait(lambda: len(journal.entries) == 10 * SIZE), 'all came')
        orders = WORLD.allgather(journal.entries)
        self.true(all(one == orders[0] for one in orders), 'one order')
        self.equal(journal.views, [], 'view 0 is not told')
        self.fails(loco.Timeout, view.wait, 1, 0.01)
        view.wait(0)

    def test_polled(self):
        view = loco.View(self.rt, name('view'))
        log = view.multicast('log', slots=4, slot_bytes=100, senders=[0], copy=True)
        self.ready()
        if RANK == 0:
            log.post('hello')
        message, = log.next(LIMIT)
        self.equal((message.data, message.sender, view.of(log, message.number)), (b'hello', 0, 0), 'message')
        if RANK != 0:
            self.fails(loco.StateError, log.post, b'not a sender')
        else:
            self.fails(loco.ArgumentError, log.post, bytes(101))
        WORLD.Barrier()
        view.close()
        self.true(log.closed, 'with its view')
        self.fails(ValueError, log.post, b'x')
        self.fails(ValueError, view.members)

    def test_join_and_leave(self):
        if SIZE == 1:
            return
        journal = Journal([(0, b'from before')] if RANK != LAST else [])
        view, log = self.view(journal, outside=[LAST], save=journal.save, load=journal.load, chunk=7)
        self.ready()
        self.equal(view.members(), (0, list(range(LAST))), 'without the last')
        if RANK == 0:
            log.wait_delivered(log.post('first'))
        WORLD.Barrier()
        if RANK == LAST:
            view.join(LIMIT)
        view.wait(1, LIMIT)
        self.equal(view.members(), (1, list(range(SIZE))), 'all')
        if RANK == LAST:
            log.wait_delivered(log.post('second'))
        wanted = [(0, b'from before'), (0, b'first'), (LAST, b'second')]
        self.true(journal.wait(lambda: journal.entries == wanted), 'entries')
        self.equal(journal.entries, wanted, 'entries')
        WORLD.Barrier()
        if RANK == LAST:
            view.leave(LIMIT)
        else:
            view.wait(2, LIMIT)
            self.equal(view.members(), (2, list(range(LAST))), 'gone')
            self.true(journal.wait(lambda: len(journal.views) == 2), 'both were told')
            self.equal(journal.views, [(1, list(range(SIZE))), (2, list(range(LAST)))], 'changes')
        WORLD.Barrier()

    def test_large_state(self):
        if SIZE == 1:
            return
        states = []
        view = loco.View(self.rt, name('view'), outside=[LAST], save=lambda: bytes(range(256)) * 3000,
                         load=states.append)
        view.multicast('log', lambda messages: None)
        self.ready()
        if RANK == LAST:
            view.join(LIMIT)
            self.true(states == [bytes(range(256)) * 3000], 'the state in whole')
        view.wait(1, LIMIT)
        WORLD.Barrier()

    def test_save_raises(self):
        """The program at fault hears of it, and the joining member begins with nothing."""
        if SIZE == 1:
            return
        states, told = [], []

        def save():
            raise ArithmeticError('cannot')
        view = loco.View(self.rt, name('view'), outside=[LAST], save=save, load=states.append)
        view.multicast('log', lambda messages: None)
        before, sys.unraisablehook = sys.unraisablehook, told.append
        try:
            self.ready()
            if RANK == LAST:
                view.join(LIMIT)
                self.equal(states, [b''], 'no state')
            WORLD.Barrier()
        finally:
            sys.unraisablehook = before
        why = None
        try:
            view.wait(1, LIMIT)
        except loco.HandlerError as error:
            why = error
        self.equal(WORLD.allgather(why is not None).count(True), 1, 'the one that saved')
        self.equal([str(one.exc_value) for one in told], ['cannot'] if why is not None else [], 'reported')
        if why is not None:
            self.true(isinstance(why.__cause__, ArithmeticError), 'the cause')
        WORLD.Barrier()

    def test_changed_must_not_wait(self):
        if SIZE == 1:
            return
        raised = []

        def changed(number, members):
            if members:
                try:
                    view.wait(number + 1, LIMIT)
                except loco.Error as why:
                    raised.append(type(why))
        view = loco.View(self.rt, name('view'), changed, outside=[LAST])
        view.multicast('log', lambda messages: None)
        self.ready()
        if RANK == LAST:
            view.join(LIMIT)
        view.wait(1, LIMIT)
        WORLD.Barrier()
        view.close()
        self.equal(raised, [loco.Again], 'in changed')

    def test_mistakes(self):
        self.fails(ValueError, loco.View, self.rt, name('view'), save=lambda: b'')
        self.fails(ValueError, loco.View, self.rt, name('view'), outside=[SIZE])
        self.fails(loco.ArgumentError, loco.View, self.rt, name('view'), multicasts=65)
        view = loco.View(self.rt, name('view'), multicasts=1, majority=True)
        view.multicast('one', lambda messages: None)
        self.fails(loco.Full, view.multicast, 'two')
        self.ready()


if __name__ == '__main__':
    unittest.main()

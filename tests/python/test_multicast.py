# SPDX-License-Identifier: BSD-3-Clause
"""Multicasts from Python."""
import sys
import threading

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco, name

EACH = 30


class Multicasts(LocoCase):
    def same_everywhere(self, seen):
        """All have delivered the same messages in the same order, each once."""
        self.equal(sorted(d[0] for d in seen), sorted(b'%d/%d' % (rank, i) for rank in range(SIZE)
                                                      for i in range(EACH)), 'each once')
        orders = WORLD.allgather(seen)
        self.true(all(one == orders[0] for one in orders), 'one order')
        numbers = [d[2] for d in seen]
        self.equal(numbers, sorted(numbers), 'by their numbers')

    def test_handler(self):
        seen = []
        multicast = loco.Multicast(self.rt, name('mc'), handler=seen.extend, slots=8, slot_bytes=64)
        self.ready()
        for i in range(EACH):
            number = multicast.post('%d/%d' % (RANK, i))
        self.equal(number, EACH, 'number')
        multicast.wait_delivered(number)
        self.true(multicast.is_delivered(number), 'delivered')
        self.meet()
        self.same_everywhere(seen)
        self.true(multicast.stats()['delivered'] >= EACH * SIZE, 'stats')
        self.true(multicast.delivered_by(RANK) > seen[-1].number, 'by me')
        self.fails(loco.ArgumentError, multicast.post, b'x' * 65)

    def test_polled(self):
        multicast = loco.Multicast(self.rt, name('mc'), slots=EACH, slot_bytes=64)
        self.ready()
        for i in range(EACH):
            multicast.post(b'%d/%d' % (RANK, i), wait=False)
        seen = multicast.next(LIMIT)
        for one in multicast.deliveries(LIMIT):
            seen.append(one)
            if len(seen) == EACH * SIZE:
                break
        self.same_everywhere(seen)
        self.equal(multicast.poll(), [], 'no more')
        self.fails(loco.Timeout, multicast.next, 0.01)
        self.equal(list(multicast.deliveries(0.01)), [], 'no more')
        self.equal({d.sender for d in seen}, set(range(SIZE)), 'senders')

    def test_one_sender(self):
        arrived = threading.Event()
        seen = []

        def handler(messages):
            seen.extend(messages)
            if len(seen) == 2:
                arrived.set()
        multicast = loco.Multicast(self.rt, name('mc'), handler, senders=[SIZE - 1], ordered=False, copy=True)
        self.ready()
        if RANK == SIZE - 1:
            multicast.post(b'')
            multicast.post(memoryview(b'two'))
        else:
            self.fails(loco.StateError, multicast.post, b'no')
        self.true(arrived.wait(LIMIT), 'arrived')
        self.equal([d.data for d in seen], [b'', b'two'], 'data')
        self.meet()

    def test_handler_that_raises(self):
        """It is reported when it happens, and by the next call; and later messages come all the same."""
        seen, told = [], []

        def handler(messages):
            for one in messages:
                seen.append(one.data)
                if one.data == b'bad':
                    raise ArithmeticError('cannot')
        multicast = loco.Multicast(self.rt, name('mc'), handler)
        # Before all are ready: the first message may reach this rank's handler while its main thread has
        # not yet returned from ready().
        before, sys.unraisablehook = sys.unraisablehook, told.append
        try:
            self.ready()
            if RANK == 0:
                multicast.wait_delivered(multicast.post(b'bad'))
            self.meet()
            why = self.fails(loco.HandlerError, multicast.poll)
            self.true(isinstance(why.__cause__, ArithmeticError), 'the cause')
            if RANK == 0:
                multicast.wait_delivered(multicast.post(b'good'))
            self.meet()
        finally:
            sys.unraisablehook = before
        self.equal([str(one.exc_value) for one in told], ['cannot'], 'reported')
        self.equal(seen, [b'bad', b'good'], 'goes on')

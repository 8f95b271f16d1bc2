# SPDX-License-Identifier: BSD-3-Clause
"""Topics from Python; the death of a member is in killed.py."""
import os
import shutil
import sys
import tempfile
import threading
import unittest

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco, name

LAST = SIZE - 1


class Subscriber:
    """Notes what it is handed."""

    def __init__(self):
        self.samples, self.events = [], []
        self.came = threading.Condition()

    def handler(self, samples):
        with self.came:
            self.samples += samples
            self.came.notify_all()

    def event(self, event, value):
        with self.came:
            self.events.append((event, value))
            self.came.notify_all()

    def wait(self, test):
        with self.came:
            return self.came.wait_for(test, LIMIT)

    @property
    def data(self):
        return [one.data for one in self.samples]


class Topics(LocoCase):
    def topic(self, subscriber, **more):
        return loco.Topic(self.rt, name('topic'), subscriber.handler, event=subscriber.event, **more)

    def published(self, level, **more):
        """Ten samples of each, handled by all."""
        subscriber = Subscriber()
        topic = self.topic(subscriber, level=level, **more)
        self.ready()
        for i in range(10):
            number = topic.post(b'%d of %d' % (i, RANK))
        topic.wait_delivered(number)
        self.equal(number, 10, 'number')
        self.true(subscriber.wait(lambda: len(subscriber.samples) == 10 * SIZE), 'all came')
        for rank in range(SIZE):
            self.equal([one.data for one in subscriber.samples if one.publisher == rank],
                       [b'%d of %d' % (i, rank) for i in range(10)], 'in the order of rank %d' % rank)
        return topic, subscriber

    def same_order(self, subscriber):
        orders = WORLD.allgather(subscriber.data)
        self.true(all(one == orders[0] for one in orders), 'one order')

    def test_unordered(self):
        self.published(loco.Level.UNORDERED)

    def test_atomic(self):
        _, subscriber = self.published(loco.Level.ATOMIC)
        self.same_order(subscriber)
        self.equal((subscriber.samples[0].kept, subscriber.samples[0].record), (False, 0), 'a new one')

    def test_kept(self):
        """A late subscriber gets the last samples first."""
        subscriber = Subscriber()
        topic = self.topic(subscriber, level=loco.Level.KEPT, history=3, publishers=[0], subscribe=RANK != LAST)
        self.ready()
        if RANK == 0:
            for i in range(8):
                number = topic.post(b'%d' % i)
            topic.wait_delivered(number)
        WORLD.Barrier()
        if RANK == LAST:
            self.equal(subscriber.samples, [], 'none yet')
            topic.subscribe()
            topic.subscribe()
            self.true(subscriber.wait(lambda: (loco.Event.SUBSCRIBED, 3) in subscriber.events), 'the event')
            self.equal([(one.data, one.kept) for one in subscriber.samples],
                       [(b'5', True), (b'6', True), (b'7', True)], 'kept ones')
        WORLD.Barrier()
        if RANK == 0:
            topic.wait_delivered(topic.post(b'new'))
        self.true(subscriber.wait(lambda: b'new' in subscriber.data), 'and the new one')
        self.true(not subscriber.samples[-1].kept, 'which is new')
        if RANK != 0:
            self.fails(loco.StateError, topic.post, b'not a publisher')

    def test_logged(self):
        folder = tempfile.mkdtemp()
        try:
            path = os.path.join(folder, 'log.%d' % RANK)
            topic, subscriber = self.published(loco.Level.LOGGED, log=path)
            written, _ = topic.logged()
            self.equal(written, 10 * SIZE, 'records')
            topic.wait_synced(written, LIMIT)
            self.equal(topic.logged(), (written, written), 'on the disk')
            self.equal([one.record for one in subscriber.samples], list(range(1, written + 1)), 'their numbers')
            self.fails(loco.ArgumentError, topic.wait_synced, written + 1)
            WORLD.Barrier()
            topic.close()
            self.replayed(path, subscriber)
        finally:
            shutil.rmtree(folder)

    def replayed(self, path, subscriber):
        found = []
        loco.replay(self.rt, path, found.extend, first=3)
        self.equal([(one.record, one.data, one.publisher) for one in found],
                   [(one.record, one.data, one.publisher) for one in subscriber.samples[2:]], 'the file')

        def fail(samples):
            found.append(samples)
            raise KeyError('mine')
        found.clear()
        self.fails(KeyError, loco.replay, self.rt, path, fail)
        self.equal(len(found), 1, 'no more calls')
        with open(path + '.other', 'w') as out:
            out.write('not a log\n' * 100)
        self.fails(loco.ArgumentError, loco.replay, self.rt, path + '.other', found.extend)

    def test_deadline(self):
        subscriber = Subscriber()
        self.topic(subscriber, deadline=0.01)
        self.ready()
        self.true(subscriber.wait(lambda: subscriber.events), 'missed')
        self.equal(subscriber.events[:1], [(loco.Event.DEADLINE_MISSED, 1)], 'event')

    def test_a_member_leaves(self):
        if SIZE == 1:
            return
        subscriber = Subscriber()
        topic = self.topic(subscriber, level=loco.Level.ATOMIC)
        self.ready()
        WORLD.Barrier()
        if RANK == LAST:
            topic.close()
        else:
            self.true(subscriber.wait(lambda: (loco.Event.MEMBER_LEFT, LAST) in subscriber.events), 'event')
            topic.wait_delivered(topic.post('still here'))

    def test_offers_less(self):
        if SIZE == 1:
            return
        subscriber = Subscriber()
        topic = self.topic(subscriber, publishers=[0], level=loco.Level.ATOMIC if RANK == 0 else loco.Level.KEPT)
        self.fails(loco.Mismatch, self.rt.wait_ready, LIMIT)
        topic.close()
        WORLD.Barrier()

    def test_handler_raises(self):
        told = []

        def handler(samples):
            raise ArithmeticError('cannot')
        topic = loco.Topic(self.rt, name('topic'), handler, level=loco.Level.ATOMIC)
        before, sys.unraisablehook = sys.unraisablehook, told.append
        try:
            self.ready()
            if RANK == 0:
                topic.wait_delivered(topic.post(b'bad'))
            self.meet()
        finally:
            sys.unraisablehook = before
        why = self.fails(loco.HandlerError, topic.post, b'x')
        self.true(isinstance(why.__cause__, ArithmeticError), 'the cause')
        self.equal([str(one.exc_value) for one in told], ['cannot'], 'reported')
        WORLD.Barrier()

    def test_mistakes(self):
        for more in (dict(level=4), dict(publishers=[SIZE]), dict(log='/nowhere/x', level=loco.Level.ATOMIC),
                     dict(sync=3)):
            self.fails(loco.ArgumentError, loco.Topic, self.rt, name('topic'), **more)
        topic = loco.Topic(self.rt, name('topic'), slot_bytes=16)
        self.ready()
        self.fails(loco.ArgumentError, topic.post, bytes(17))
        self.fails(loco.ArgumentError, topic.wait_delivered, 5)
        self.fails(loco.StateError, topic.subscribe)
        self.fails(loco.StateError, topic.logged)


if __name__ == '__main__':
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
"""Mailboxes, and waiting for one of several queues, from Python."""
import threading
import unittest

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco, name


class Mailboxes(LocoCase):
    def test_all_lengths(self):
        """Short ones, those that the first buffer of receive is too short for, and those that are read directly."""
        if SIZE == 1:
            self.fails(loco.ArgumentError, loco.Mailbox, self.rt, name('box'))
            return
        box = loco.Mailbox(self.rt, name('box'), receiver=SIZE - 1)
        self.ready()
        lengths = (0, 5, 4096, 4097, 20000, 300000)
        if RANK != SIZE - 1:
            for n in lengths:
                box.send(bytes([RANK + 1]) * n, LIMIT)
            self.equal(box.stats()['sent'], len(lengths), 'sent')
            self.fails(loco.StateError, box.receive, 0)
        else:
            found = {}
            for _ in range(len(lengths) * (SIZE - 1)):
                letter = box.receive(LIMIT)
                self.equal(letter.data, bytes([letter.sender + 1]) * len(letter.data), 'contents')
                found.setdefault(letter.sender, []).append(len(letter.data))
            self.equal(found, {rank: list(lengths) for rank in range(SIZE - 1)}, 'in the order of each sender')
            self.equal(box.try_receive(), None, 'empty')
            self.fails(loco.Timeout, box.receive, 0.01)
            self.equal(box.stats()['received'], len(lengths) * (SIZE - 1), 'received')

    def test_full(self):
        if SIZE == 1:
            return
        box = loco.Mailbox(self.rt, name('box'), ring_bytes=512)
        self.ready()
        if RANK == 1:
            sent = 0
            while box.try_send('x' * 100):
                sent += 1
            self.true(0 < sent < 6, 'there was room for %d' % sent)
            self.fails(loco.Timeout, box.send, 'x' * 100, 0.01)
            self.fails(loco.ArgumentError, box.try_send, 'x' * 600)
        WORLD.Barrier()
        if RANK == 0:
            while box.try_receive() is not None:
                pass
            self.fails(loco.ArgumentError, box.send, bytes(600))
            self.equal(box.try_send('to myself'), True, 'room')
            self.equal(box.receive(LIMIT), loco.Letter(b'to myself', 0), 'from oneself')

    def test_other_threads_go_on(self):
        if SIZE == 1:
            return
        box = loco.Mailbox(self.rt, name('box'), receiver=0)
        self.ready()
        got = []
        if RANK == 0:
            waiter = threading.Thread(target=lambda: got.append(box.receive(LIMIT)))
            waiter.start()
        self.meet()             # while that thread waits
        if RANK == 1:
            box.send(b'late')
        if RANK == 0:
            waiter.join()
            self.equal(got, [loco.Letter(b'late', 1)], 'received')

    def test_mistakes(self):
        self.fails(loco.ArgumentError, loco.Mailbox, self.rt, name('box'), receiver=SIZE)
        self.fails(loco.ArgumentError, loco.Mailbox, self.rt, name('box'), ring_bytes=1000)
        self.ready()


class SeveralQueues(LocoCase):
    def test_in_turn(self):
        queues = [loco.Queue(self.rt, name('queue'), 8, 8) for _ in range(3)]
        self.ready()
        if RANK == 0:
            self.fails(loco.Timeout, loco.wait_any, queues, 0.01)
            for queue in queues[1:]:
                queue.push(bytes(8))
            i, seen = -1, []
            for _ in range(4):
                i = loco.wait_any(queues, LIMIT, after=i)
                seen.append(i)
            self.equal(seen, [1, 2, 1, 2], 'each in its turn')
            self.equal([one.try_pop() is not None for one in queues], [False, True, True], 'nothing was taken')
            queues[0].shutdown()
            self.equal(loco.wait_any(queues), 0, 'shut down')
            self.fails(loco.ArgumentError, loco.wait_any, queues, 0, 3)
            self.fails(loco.ArgumentError, loco.wait_any, [], 0)
        self.meet()

    def test_wakes(self):
        queues = [loco.Queue(self.rt, name('queue'), 8, 8) for _ in range(2)]
        self.ready()
        got = []
        if RANK == 0:
            waiter = threading.Thread(target=lambda: got.append(loco.wait_any(queues, LIMIT)))
            waiter.start()
        self.meet()
        if RANK == SIZE - 1:
            queues[1].push(bytes(8))
        if RANK == 0:
            waiter.join()
            self.equal(got, [1], 'which')


if __name__ == '__main__':
    unittest.main()

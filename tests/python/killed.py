# SPDX-License-Identifier: BSD-3-Clause
"""What rank 0 and 1 see of each kind of channel when the last of three ranks is killed.

Started by run, under mpirun --enable-recovery; each survivor prints "rank N: right", or what was wrong. It is no
test_*.py, whose ranks meet by MPI at the end of each test.
"""
import os
import signal
import sys
import time
import traceback

from mpi4py import MPI

import loco

LIMIT = 60
wrong = []


def fails(wanted, call, *arguments, **more):
    try:
        got = call(*arguments, **more)
    except wanted:
        return
    except loco.Error as why:
        got = repr(why)
    wrong.append('%s: %r, wanted %s' % (call.__qualname__, got, wanted.__name__))


def equal(got, wanted, what):
    if got != wanted:
        wrong.append('%s: %r, wanted %r' % (what, got, wanted))


def until(test, what):
    end = time.monotonic() + LIMIT
    while not test():
        if time.monotonic() > end:
            wrong.append('%s: not within %d s' % (what, LIMIT))
            return
        time.sleep(0.01)


def main():
    rt = loco.Runtime.from_mpi(MPI.COMM_WORLD)
    dead, alive = 2, [0, 1]
    pair = rt.everyone.subset(alive)
    meeting = loco.Barrier(rt, 'survivors', group=pair) if rt.rank != dead else None
    barrier = loco.Barrier(rt, 'barrier')
    views, entries, samples, events = [], [], [], []
    view = loco.View(rt, 'view', lambda number, members: views.append(members))
    log = view.multicast('log', entries.extend)
    topic = loco.Topic(rt, 'topic', samples.extend, level=loco.Level.ATOMIC,
                       event=lambda event, value: events.append((event, value)))
    box = loco.Mailbox(rt, 'box', receiver=0)
    lost_box = loco.Mailbox(rt, 'lost box', receiver=dead)
    lock = loco.RwLock(rt, 'lock')
    kv = loco.KvStore(rt, 'kv', value_bytes=8, capacity=10, locks=3)
    queues = [loco.Queue(rt, 'queue %d' % i, 8, 8) for i in range(2)]
    rt.wait_ready(LIMIT)
    kv.insert(3 * rt.rank, b'from %3d' % rt.rank)       # all under the lock of rank 0
    log.post('hello')
    if rt.rank == dead:
        lock.acquire_exclusive()
        box.send(b'last words')
        log.wait_delivered(1)
    barrier.wait(LIMIT)
    if rt.rank == dead:
        os.kill(os.getpid(), signal.SIGKILL)
    survive(rt, dead, alive, view, log, topic, lost_box, lock, kv, queues)
    equal(views, [alive], 'changed')
    until(lambda: (loco.Event.MEMBER_GONE, dead) in events, 'event of the topic')
    until(lambda: len(entries) == 5, 'messages')
    equal(sorted((one.sender, one.data) for one in entries),
          [(0, b'alone'), (0, b'hello'), (1, b'alone'), (1, b'hello'), (2, b'hello')], 'messages')
    until(lambda: len(samples) == 2, 'samples')
    if rt.rank == 0:
        equal(box.receive(LIMIT), loco.Letter(b'last words', dead), 'sent before')
        fails(loco.Timeout, box.receive, 0.01)          # another one still lives
    meeting.wait(LIMIT)
    print('rank %d: %s' % (rt.rank, '; '.join(wrong) or 'right'))
    sys.stdout.flush()
    os._exit(1 if wrong else 0)         # MPI.Finalize would wait for the dead


def survive(rt, dead, alive, view, log, topic, lost_box, lock, kv, queues):
    view.wait(1, LIMIT)
    equal(view.members(), (1, alive), 'the next view')
    equal(rt.everyone.alive(dead), False, 'alive')
    log.wait_delivered(log.post('alone'))
    topic.wait_delivered(topic.post('alone'))
    fails(loco.PeerDead, lost_box.send, b'to nobody')
    fails(loco.PeerDead, lock.acquire_shared, timeout=LIMIT)
    fails(loco.PeerDead, kv.get, 3 * dead)
    equal(kv[3 * (1 - rt.rank)], b'from %3d' % (1 - rt.rank), 'kept by the living')
    if rt.rank == 0:
        fails(loco.Timeout, loco.wait_any, queues, 0.05)    # the other one may still push
        queues[1].push(bytes(8))
        equal(loco.wait_any(queues, LIMIT), 1, 'wait_any')


if __name__ == '__main__':
    try:
        main()
    except BaseException:
        traceback.print_exc()
        os._exit(2)

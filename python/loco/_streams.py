# SPDX-License-Identifier: BSD-3-Clause
"""Queues and mailboxes."""
import ctypes
from collections import namedtuple
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

from ._library import (MAILBOX_RECEIVE, QUEUE_FENCE, Again, Closed, MailboxOptions, MailboxStats, Source, Status,
                       check, fields_of, loco, nanoseconds, result_of, text)
from ._runtime import Channel, Handle


class Queue(Channel):
    """A queue of entries of `entry_bytes` bytes, first in, first out, with `capacity` places.

    With fence=True, who pops an entry sees all that its pusher had written before. A queue is iterable: its
    entries, until it is shut down and empty.
    """
    _kind = 'queue'

    def __init__(self, runtime, name, entry_bytes, capacity, fence=False, group=None, parent=None):
        self.entry_bytes, self.capacity = entry_bytes, capacity
        super().__init__(runtime, name, group, parent, entry_bytes, capacity, QUEUE_FENCE if fence else 0)

    def _entry(self, entry):
        source = Source(entry)
        if source.len != self.entry_bytes:
            raise ValueError('%s: an entry of %d bytes, and it is for %d' % (self._what, source.len,
                                                                             self.entry_bytes))
        return source

    def push(self, entry, timeout=None):
        """Put an entry in, waiting for room, for `timeout` seconds at most."""
        source = self._entry(entry)
        if timeout is None:
            self._call('push', source.address)
        else:
            self._call('push_timed', source.address, nanoseconds(timeout))

    def try_push(self, entry):
        """The same without waiting: whether there was room."""
        source = self._entry(entry)
        try:
            self._call('try_push', source.address)
        except Again:
            return False
        return True

    def pop(self, timeout=None, out=None):
        """Take the first entry out, waiting for one, for `timeout` seconds at most. As bytes; or into the
        buffer `out`, which is returned."""
        if timeout is None:
            return self._popped('pop', out)
        return self._popped('pop_timed', out, nanoseconds(timeout))

    def try_pop(self, out=None):
        """The same without waiting; None where it is empty."""
        try:
            return self._popped('try_pop', out)
        except Again:
            return None

    def _popped(self, function, out, *timeout):
        room = ctypes.create_string_buffer(self.entry_bytes) if out is None else out
        result = result_of(room)
        if result.len != self.entry_bytes:
            raise ValueError('%s: room for %d bytes, and an entry has %d' % (self._what, result.len,
                                                                             self.entry_bytes))
        self._call(function, result.address, *timeout)
        return room.raw if out is None else out

    def shutdown(self):
        """Let nothing more in: later pushes raise Closed, pops once it is empty. By any member."""
        self._call('close')

    def __len__(self):
        """About how many entries are in it."""
        entries = c_uint64()
        self._call('size', byref(entries))
        return entries.value

    def __bool__(self):
        return True

    def __iter__(self):
        while True:
            try:
                entry = self.pop()
            except Closed:
                return
            yield entry


def wait_any(queues, timeout=None, after=-1):
    """Wait until one of several queues of one runtime has an entry or was shut down, for `timeout` seconds at
    most: its index in the list `queues`. The search begins behind index `after`: give the last result, so that no
    queue is always the last. Nothing is taken: queue.try_pop() takes it, unless another one was faster. Timeout;
    PeerDead: all are empty, and all other members are dead; ArgumentError: no queue, or no such index.

        i = -1
        while True:
            i = loco.wait_any(queues, after=i)
            entry = queues[i].try_pop()         # None: another one was faster. Closed: it was shut down
    """
    queues = list(queues)
    which = c_int(after)
    addresses = (c_void_p * len(queues))(*(queue._h for queue in queues))
    check(loco.loco_queue_wait_any(addresses, len(queues), nanoseconds(timeout), byref(which)), 'wait_any')
    return which.value


Letter = namedtuple('Letter', 'data sender')
Letter.__doc__ = """A message of a mailbox: its bytes, and the rank of the sender."""

_ROOM = 4096                    # of the buffer for a message whose length is not known yet


class Mailbox(Channel):
    """Messages of any length from all members to one, of rank `receiver`. All threads may send, and receive.

    ring_bytes  that a sender may have in the mailbox, a power of two (None: 64 KiB)
    straight    messages of that many bytes and more are read directly from the sender's memory, and their sender
                waits for that (None: those that do not fit into the mailbox)

    Messages of one thread come in the order in which it sent them. Pool.mailbox opens one in a pool.
    """
    _kind = 'mailbox'

    def __init__(self, runtime, name, receiver=0, ring_bytes=None, straight=None, group=None, parent=None):
        super().__init__(runtime, name, group, parent, receiver,
                         byref(MailboxOptions(ring_bytes or 0, straight or 0)))

    @classmethod
    def _of_pool(cls, pool, name, receive, options):
        self = cls.__new__(cls)
        address = c_void_p()
        what = 'Mailbox %s of %s' % (name, pool._what)
        check(loco.loco_mailbox_open(pool._h, text(name), options, MAILBOX_RECEIVE if receive else 0,
                                     byref(address)), what)
        Handle.__init__(self, pool, address.value, what)
        self._destroy = 'loco_mailbox_destroy'
        self.runtime, self.name, self.group = pool.runtime, name, None
        return self

    def send(self, data, timeout=None):
        """Send bytes, waiting for room for `timeout` seconds at most: Timeout, and nothing is sent. PeerDead: the
        receiver is dead. ArgumentError: longer than half the mailbox, from the receiver to itself."""
        source = Source(data)
        self._call('send_timed', nanoseconds(timeout), source.address, source.len)

    def try_send(self, data):
        """Send by a copy, without waiting: whether there was room. ArgumentError: longer than half the mailbox."""
        source = Source(data)
        try:
            self._call('try_send', source.address, source.len)
        except Again:
            return False
        return True

    def receive(self, timeout=None):
        """The next message, a Letter, after a wait of `timeout` seconds at most: Timeout. StateError: this is not
        the receiver. PeerDead: there is no message, and all other members are dead."""
        return self._received('receive', nanoseconds(timeout))

    def try_receive(self):
        """The next message, or None where there is none now."""
        try:
            return self._received('try_receive')
        except Again:
            return None

    def _received(self, function, *timeout):
        room, sender, length = _ROOM, c_int(), c_size_t()
        while True:
            buffer = ctypes.create_string_buffer(room)
            status = getattr(loco, 'loco_mailbox_' + function)(self._h, *timeout, buffer, room, byref(sender),
                                                               byref(length))
            if status != Status.ERR_RANGE:
                break
            room = length.value         # it stays; another thread may take it, and this one a longer one
        check(status, self._what)
        return Letter(ctypes.string_at(buffer, length.value), sender.value)

    def stats(self):
        """What this process has done with it, a dictionary: sent, told, full, received, read, lost."""
        stats = MailboxStats()
        loco.loco_mailbox_stats(self._h, byref(stats))
        return fields_of(stats)

# SPDX-License-Identifier: BSD-3-Clause
"""Multicasts."""
import ctypes
from collections import namedtuple
from ctypes import byref, c_int, c_uint64

from ._library import (HANDLER, MULTICAST_COPY, MULTICAST_UNORDERED, Again, MulticastOptions, MulticastStats,
                       PeerDead, Source, Status, Timeout, fields_of, ints, loco, nanoseconds)
from ._library import Delivery as DeliveryInC
from ._runtime import Channel

Delivery = namedtuple('Delivery', 'data sender number')
Delivery.__doc__ = """A message as it is delivered.

data    its bytes, a copy
sender  the rank that sent it
number  its place in the total order; unordered: among its sender's
"""

_AT_ONCE = 128


class HandlerError(Exception):
    """A handler of a multicast has raised the exception that is this one's cause."""


def _copied(message):
    return Delivery(ctypes.string_at(message.data, message.bytes) if message.bytes else b'', message.sender,
                    message.number)


class Multicast(Channel):
    """Messages of some members to all, which all see in one order.

    handler     called as handler(messages), a list of Delivery, in a thread of the library; the last call of
                all has an empty list: a member has died. It must not wait for anything. None: this member
                polls, by next(), poll() or deliveries(), in one thread.
    senders     ranks of the members that send (None: all)
    slots       messages of a sender that may be under way (None: 100)
    slot_bytes  of the largest message (None: 10 KiB)
    ordered     False: delivered on arrival, each sender's in order
    copy        messages are copied out before the handler sees them, and their slots are free

    A handler that raises is reported at once (sys.unraisablehook), and the next call of this object but
    close() raises HandlerError from it; messages that come later still go to the handler.
    """
    _kind = 'multicast'

    def __init__(self, runtime, name, handler=None, group=None, senders=None, slots=None, slot_bytes=None,
                 ordered=True, copy=False, parent=None):
        array, n = ints(senders)
        flags = (0 if ordered else MULTICAST_UNORDERED) | (MULTICAST_COPY if copy else 0)
        self._failed = None
        self._hook = HANDLER() if handler is None else self._guarded(handler)
        self._messages = (DeliveryInC * _AT_ONCE)()
        options = MulticastOptions(array, n, slots or 0, slot_bytes or 0, flags, self._hook, None)
        super().__init__(runtime, name, group, parent, byref(options))

    def _guarded(self, handler):
        @HANDLER
        def hook(_, messages, n):
            try:
                handler([_copied(messages[i]) for i in range(n)])
            except BaseException as why:
                if self._failed is None:
                    self._failed = why
                raise           # ctypes reports it
        return hook

    @property
    def _h(self):
        failed, self._failed = self._failed, None
        if failed is not None:
            raise HandlerError('the handler of %s has raised %r' % (self._what, failed)) from failed
        return super()._h

    def post(self, data, wait=True):
        """A sender: send bytes, once a slot is free; without wait, Again where none is. The message's number
        among this member's, from 1 on."""
        source, number = Source(data), c_uint64()
        self._call('post' if wait else 'try_post', source.address, source.len, byref(number))
        return number.value

    def is_delivered(self, number):
        """A sender: whether every member has delivered this member's messages up to that one."""
        return self._call('is_delivered', number) == Status.OK

    def wait_delivered(self, number):
        """A sender: wait until they have. In the thread that polls: Again where it would wait for that."""
        self._call('wait_delivered', number)

    def poll(self, max=_AT_ONCE):
        """Without a handler: the next messages in order, `max` at most; an empty list: there is none now."""
        try:
            return self._taken('poll', max)
        except Again:
            return []

    def next(self, timeout=None, max=_AT_ONCE):
        """As poll, but wait for a message, for `timeout` seconds at most: Timeout."""
        return self._taken('next', max, nanoseconds(timeout))

    def deliveries(self, timeout=None):
        """Without a handler: an iterator over messages as they come. It ends when none has come for `timeout`
        seconds, or a member has died."""
        while True:
            try:
                messages = self.next(timeout, 1)
            except (Timeout, PeerDead):
                return
            yield from messages

    def _taken(self, function, most, *timeout):
        n = c_int()
        self._call(function, *timeout, self._messages, min(most, _AT_ONCE), byref(n))
        return [_copied(self._messages[i]) for i in range(n.value)]

    def delivered_by(self, rank, sender=0):
        """How far that member has delivered, as far as is known here: all with a number below this one."""
        number = c_uint64()
        self._call('delivered_by', rank, sender, byref(number))
        return number.value

    def stats(self):
        """What this process has done, a dictionary."""
        stats = MulticastStats()
        loco.loco_multicast_stats(self._h, byref(stats))
        return fields_of(stats)


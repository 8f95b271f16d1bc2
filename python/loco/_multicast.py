# SPDX-License-Identifier: BSD-3-Clause
"""Multicasts."""
import ctypes
from collections import namedtuple
from ctypes import byref, c_int, c_uint64, c_void_p

from ._callbacks import Calling
from ._library import (HANDLER, MULTICAST_COPY, MULTICAST_UNORDERED, Again, MulticastOptions, MulticastStats,
                       PeerDead, Source, Status, Timeout, check, fields_of, ints, loco, nanoseconds, text)
from ._library import Delivery as DeliveryInC
from ._runtime import Channel, Handle

Delivery = namedtuple('Delivery', 'data sender number')
Delivery.__doc__ = """A message as it is delivered.

data    its bytes, a copy
sender  the rank that sent it
number  its place in the total order; unordered: among its sender's
"""

_AT_ONCE = 128


def _copied(message):
    return Delivery(ctypes.string_at(message.data, message.bytes) if message.bytes else b'', message.sender,
                    message.number)


class Multicast(Calling, Channel):
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
        options = self._options(handler, senders, slots, slot_bytes,
                                (0 if ordered else MULTICAST_UNORDERED) | (MULTICAST_COPY if copy else 0))
        super().__init__(runtime, name, group, parent, byref(options))

    @classmethod
    def _of_view(cls, view, name, handler, senders, slots, slot_bytes, copy):
        """View.multicast: the view destroys it."""
        self = cls.__new__(cls)
        self._what = 'Multicast %s of %s' % (name, view._what)
        options = self._options(handler, senders, slots, slot_bytes, MULTICAST_COPY if copy else 0)
        address = c_void_p()
        check(loco.loco_view_multicast(view._h, text(name), byref(options), byref(address)), self._what)
        Handle.__init__(self, view, address.value, self._what)
        self.runtime, self.name, self.group = view.runtime, name, view.group
        return self

    def _options(self, handler, senders, slots, slot_bytes, flags):
        array, n = ints(senders)
        self._hook = HANDLER() if handler is None else self._guarded(
            HANDLER, lambda messages, n: handler([_copied(messages[i]) for i in range(n)]))
        self._messages = (DeliveryInC * _AT_ONCE)()
        return MulticastOptions(array, n, slots or 0, slot_bytes or 0, flags, self._hook, None)

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


# SPDX-License-Identifier: BSD-3-Clause
"""Topics: publish and subscribe."""
import ctypes
from collections import namedtuple
from ctypes import byref, c_uint64

from ._callbacks import Calling
from ._library import (TOPIC_EVENT, TOPIC_HANDLER, Event, Level, Source, Sync, TopicOptions, check, ints, loco,
                       nanoseconds, text)
from ._runtime import Channel
from ._view import view_flags


Sample = namedtuple('Sample', 'data publisher kept number record')
Sample.__doc__ = """A sample as a subscriber gets it.

data       its bytes, a copy
publisher  the rank that published it
kept       whether it was kept from before this member subscribed
number     its place in the order, which has gaps; unordered: among its publisher's
record     the number of its record in this member's log file; 0: none
"""


def _samples(handler):
    def handle(samples, n):
        handler([Sample(ctypes.string_at(one.data, one.bytes) if one.bytes else b'', one.publisher,
                        bool(one.kept), one.number, one.record) for one in samples[:n]])
    return handle


class Topic(Calling, Channel):
    """Samples of some members, the publishers, for all that subscribe.

        weather = loco.Topic(rt, 'weather', show, level=loco.Level.KEPT, history=10)
        rt.wait_ready()
        weather.post('rain')

    handler        called as handler(samples), a list of Sample; None: this member does not subscribe
    level          a Level: what a publisher offers, and another member requests
    event          called as event(event, value), an Event and a number; None: nobody is told
    publishers     ranks of the members that publish, the same at all (None: all)
    subscribe      False: the handler is called from subscribe() on
    slots          samples of a publisher that may be under way (None: 100)
    slot_bytes     of the longest sample (None: 10 KiB)
    history        Level.KEPT and above: how many samples are kept (None: as many as history_bytes allow, or 1)
    history_bytes  memory for them (None: as much as they need)
    deadline       seconds between two samples, after which event() is told (None: never)
    log            Level.LOGGED: this member's log file (None: none), for loco.replay and loco-log(1)
    sync           a Sync
    majority       as of a View, whose rules hold when members die

    Both functions are called in a thread of the library, one call at a time, and must not wait. One that raises
    is reported at once (sys.unraisablehook), and the next call of this object but close() raises HandlerError from
    it. Runtime.wait_ready raises Mismatch where a publisher offers less than a subscriber requests.
    """
    _kind = 'topic'

    def __init__(self, runtime, name, handler=None, level=Level.UNORDERED, event=None, publishers=None,
                 subscribe=True, slots=None, slot_bytes=None, history=None, history_bytes=None, deadline=None,
                 log=None, sync=Sync.BATCH, majority=None, group=None, parent=None):
        array, n = ints(publishers)
        self._hooks = (TOPIC_HANDLER() if handler is None else self._guarded(TOPIC_HANDLER, _samples(handler)),
                       TOPIC_EVENT() if event is None else self._guarded(
                           TOPIC_EVENT, lambda which, value: event(Event(which), value)))
        options = TopicOptions(array, n, level, slots or 0, slot_bytes or 0,
                               handler is not None and bool(subscribe), *self._hooks, None, history or 0,
                               history_bytes or 0, 0 if deadline is None else nanoseconds(deadline), text(log),
                               sync, view_flags(majority))
        super().__init__(runtime, name, group, parent, byref(options))

    def post(self, data, wait=True):
        """A publisher: publish a sample, once a slot is free; without wait, Again where none is. Its number among
        this member's, from 1 on. StateError: this member does not publish. ArgumentError: longer than slot_bytes.
        Partitioned, PeerDead: the topic has ended."""
        source, number = Source(data), c_uint64()
        self._call('post' if wait else 'try_post', source.address, source.len, byref(number))
        return number.value

    def wait_delivered(self, number):
        """A publisher: wait until every member has delivered this member's samples up to that one: subscribers have
        handled them, log files have them. ArgumentError: there is no such number yet."""
        self._call('wait_delivered', number)

    def subscribe(self):
        """Let the handler be called, first with the samples that are kept. Does not wait. StateError: this member
        has no handler."""
        self._call('subscribe')

    def logged(self):
        """The numbers of the last record that is in the log file, and of the last that is on the disk; 0: none.
        StateError: there is no log file."""
        written, synced = c_uint64(), c_uint64()
        self._call('logged', byref(written), byref(synced))
        return written.value, synced.value

    def wait_synced(self, record, timeout=None):
        """Wait until that record is on the disk, for `timeout` seconds at most: Timeout."""
        self._call('wait_synced', record, nanoseconds(timeout))


def replay(runtime, path, handler, first=1):
    """Call handler(samples) with all records of a log file from number `first` on, in order. What it raises ends the
    calls, and is raised. The records before a damage are handed out before the Error with ERR_DAMAGED."""
    failed = []
    handle = _samples(handler)

    @TOPIC_HANDLER
    def hook(_, samples, n):
        try:
            if not failed:
                handle(samples, n)
        except BaseException as why:
            failed.append(why)

    status = loco.loco_topic_replay(runtime._h, text(path), first, hook, None)
    if failed:
        raise failed[0]
    check(status, 'replay of %s' % path)

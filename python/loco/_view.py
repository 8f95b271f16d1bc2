# SPDX-License-Identifier: BSD-3-Clause
"""Views: multicasts that continue when members die, leave and join."""
import ctypes
from ctypes import byref, c_int, c_uint64

from ._callbacks import Calling
from ._library import (VIEW_CHANGED, VIEW_LOAD, VIEW_MAJORITY, VIEW_MINORITY, VIEW_SAVE, ViewOptions, loco,
                       nanoseconds)
from ._multicast import Multicast
from ._runtime import Channel


def view_flags(majority):
    """The flags of a view; None stands for the library's choice."""
    return 0 if majority is None else VIEW_MAJORITY if majority else VIEW_MINORITY


class View(Calling, Channel):
    """The members of a group, 64 at most, that are present, which agree on who they are. Its multicasts
    (multicast()) continue when members die, close their runtime, leave or join.

        view = loco.View(rt, 'replicas', changed=lambda number, members: print(members))
        log = view.multicast('log', apply)
        rt.wait_ready()
        log.post('deposit 5')

    changed     called as changed(number, members), the ranks in a list, when a view begins; the last call has an
                empty list: the view has ended for this process. Not called for view 0.
    outside     ranks that are not in view 0, and join() later; the same at all members
    save, load  give a joining member the state that the messages so far have made: save() returns it, as bytes
                or any buffer, at another member, and load(state) gets it, as bytes, before the first message. All
                members have both, or none has any. A joining member gets b'' where save() has raised.
    chunk       bytes of the state that are sent at a time (None: 256 KiB)
    multicasts  that can be made on it, up to 64 (None: 8)
    majority    True: a view continues only with more than half of the members of the one before; False: with
                any; None: as on one machine False, between machines True

    The three functions are called in threads of the library; they may send, but a call that would have to wait
    raises Again there. One that raises is reported at once (sys.unraisablehook), and the next call of this object
    but close() raises HandlerError from it.

    Members in a minority, and those that the others took for dead, get Partitioned from all calls; a view whose
    other members died before it was ready raises PeerDead.
    """
    _kind = 'view'

    def __init__(self, runtime, name, changed=None, outside=(), save=None, load=None, chunk=None, multicasts=None,
                 majority=None, group=None, parent=None):
        if (save is None) != (load is None):
            raise ValueError('save and load: both, or none')
        self._saved = self._loaded = None
        self._hooks = [VIEW_CHANGED() if changed is None else self._guarded(VIEW_CHANGED, _with_list(changed)),
                       VIEW_SAVE() if save is None else self._guarded(VIEW_SAVE, self._saving(save), 0),
                       VIEW_LOAD() if load is None else self._guarded(VIEW_LOAD, self._loading(load))]
        ranks = set(outside)
        size = (runtime.everyone if group is None else group).size
        if not all(0 <= rank < size for rank in ranks):
            raise ValueError('outside: ranks are from 0 to %d' % (size - 1))
        options = ViewOptions(view_flags(majority), multicasts or 0, self._hooks[0], None,
                              sum(1 << rank for rank in ranks), *self._hooks[1:], chunk or 0)
        super().__init__(runtime, name, group, parent, byref(options))

    def _saving(self, save):
        def some(at, chunk, room):
            if at == 0:
                self._saved = None
                self._saved = memoryview(save()).cast('B')
            part = b'' if self._saved is None else bytes(self._saved[at:at + room])
            if not part:
                self._saved = None
            ctypes.memmove(chunk, part, len(part))
            return len(part)
        return some

    def _loading(self, load):
        def some(at, chunk, length):
            if at == 0:
                self._loaded = bytearray()
            self._loaded += ctypes.string_at(chunk, length) if length else b''
            if length == 0:
                state, self._loaded = bytes(self._loaded), None
                load(state)
        return some

    def multicast(self, name, handler=None, senders=None, slots=None, slot_bytes=None, copy=False):
        """A Multicast on this view, of all members of its group, which make the same ones in the same order. It is
        closed with the view. An empty list of messages tells its handler that the view has ended. Full: the view
        has as many as it was made for."""
        made = Multicast._of_view(self, name, handler, senders, slots, slot_bytes, copy)
        self._hooks.append(made._hook)      # called until the view is destroyed
        return made

    def members(self):
        """The number of the current view, and the ranks of its members, a list. After its end for this process, the
        error that ended it."""
        number, n, room = c_uint64(), c_int(), (c_int * 64)()
        self._call('members', byref(number), room, byref(n))
        return number.value, room[:n.value]

    def of(self, multicast, number):
        """The number of the view in which a message of its multicast was delivered; `number`: the Delivery's."""
        return loco.loco_view_of(self._h, multicast._h, number)

    def join(self, timeout=None):
        """Become a member, and wait for that, for `timeout` seconds at most. Timeout: it is asked for, and happens
        later."""
        self._call('join', nanoseconds(timeout))

    def leave(self, timeout=None):
        """Go outside, from where this process can join() again; as that. Others go on."""
        self._call('leave', nanoseconds(timeout))

    def wait(self, number, timeout=None):
        """Wait until the view has that number, or a higher one, for `timeout` seconds at most: Timeout."""
        self._call('wait', number, nanoseconds(timeout))


def _with_list(changed):
    return lambda number, members, n: changed(number, members[:n] if n else [])

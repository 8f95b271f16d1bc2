# SPDX-License-Identifier: BSD-3-Clause
"""Locks."""
import contextlib
from ctypes import byref, c_int

from ._library import ALL_PEERS, Again, Fence, Timeout, nanoseconds
from ._runtime import Channel


class _Lock(Channel):
    """A channel that is acquired."""

    def _acquire(self, timed, attempt, arguments, blocking, timeout):
        """Call one of two functions of the library, `attempt` (None: there is none) without a wait. Whether it
        is held."""
        try:
            if not blocking and attempt is not None:
                self._call(attempt, *arguments)
            else:
                limit = 0 if not blocking else None if timeout == -1 else timeout
                self._call(timed, *arguments, nanoseconds(limit))
        except (Again, Timeout):
            return False
        return True


class TicketLock(_Lock):
    """A fair lock, whose word is in the memory of rank `host`. It belongs to the thread that acquired it.

        with lock:
            ...                 # what was written is visible to whoever holds it next
    """
    _kind = 'ticket_lock'

    def __init__(self, runtime, name, host=0, group=None, parent=None):
        super().__init__(runtime, name, group, parent, host)

    def acquire(self, blocking=True, timeout=None):
        """Hold it, after a wait of `timeout` seconds at most; whether it is held, as of threading.Lock. StateError:
        this thread holds it already. PeerDead: its holder or its host is dead."""
        return self._acquire('acquire_timed', 'try_acquire', (), blocking, timeout)

    def release(self, scope=Fence.PROCESS, peer=ALL_PEERS):
        """Fence, as runtime.fence, then hand it on."""
        self._call('release', scope, peer)

    def holder(self):
        """The rank that holds it at this moment, or -1. Again: it changes hands too fast to tell."""
        rank = c_int()
        self._call('holder', byref(rank))
        return rank.value

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()


class RwLock(_Lock):
    """A lock with many shared holders or an exclusive one, whose word is in the memory of rank `host`. Each acquire
    is a holder of its own, and is released by the same process.

        with lock.shared():
            ...                 # read; others that share the lock read at the same time
        with lock.exclusive():
            ...                 # change
    """
    _kind = 'rw_lock'

    def __init__(self, runtime, name, host=0, group=None, parent=None):
        super().__init__(runtime, name, group, parent, host)

    def acquire_shared(self, blocking=True, timeout=None):
        """Hold it together with others, after a wait of `timeout` seconds at most; whether it is held. PeerDead:
        the exclusive holder, or the host, is dead."""
        return self._acquire('acquire_shared_timed', 'try_shared', (), blocking, timeout)

    def acquire_exclusive(self, blocking=True, timeout=None):
        """The same, alone."""
        return self._acquire('acquire_exclusive_timed', 'try_exclusive', (), blocking, timeout)

    def release_shared(self, scope=Fence.PROCESS, peer=ALL_PEERS):
        """Fence, as runtime.fence, then release it. StateError: this process does not hold it so."""
        self._call('release_shared', scope, peer)

    def release_exclusive(self, scope=Fence.PROCESS, peer=ALL_PEERS):
        """The same of acquire_exclusive."""
        self._call('release_exclusive', scope, peer)

    @contextlib.contextmanager
    def shared(self):
        """For a with statement: acquire_shared, and release_shared at its end."""
        self.acquire_shared()
        try:
            yield self
        finally:
            self.release_shared()

    @contextlib.contextmanager
    def exclusive(self):
        """The same of acquire_exclusive."""
        self.acquire_exclusive()
        try:
            yield self
        finally:
            self.release_exclusive()

    def holder(self):
        """The rank that holds it exclusively at this moment, or -1."""
        rank = c_int()
        self._call('holder', byref(rank))
        return rank.value


class RwGroup(_Lock):
    """`count` such locks, striped over the memory of all members, which can also be acquired shared all at once.
    `nested` of the calls that acquire: this thread already holds another lock of this group. A lock that there is
    not: ArgumentError."""
    _kind = 'rw_group'

    def __init__(self, runtime, name, count, group=None, parent=None):
        super().__init__(runtime, name, group, parent, count)

    def acquire_shared(self, i, nested=False, timeout=None):
        """Hold lock number `i` together with others, after a wait of `timeout` seconds at most; whether it is
        held."""
        return self._acquire('acquire_shared_timed', None, (i, nested), True, timeout)

    def acquire_exclusive(self, i, nested=False, timeout=None):
        """The same, alone."""
        return self._acquire('acquire_exclusive_timed', None, (i, nested), True, timeout)

    def acquire_all(self, nested=False, timeout=None):
        """Hold all locks together with others, at the cost of one."""
        return self._acquire('acquire_all_timed', None, (nested,), True, timeout)

    def release_shared(self, i, scope=Fence.PROCESS, peer=ALL_PEERS):
        """Fence, as runtime.fence, then release what the call of the same ending has acquired."""
        self._call('release_shared', i, scope, peer)

    def release_exclusive(self, i, scope=Fence.PROCESS, peer=ALL_PEERS):
        """The same of acquire_exclusive."""
        self._call('release_exclusive', i, scope, peer)

    def release_all(self, scope=Fence.PROCESS, peer=ALL_PEERS):
        """The same of acquire_all."""
        self._call('release_all', scope, peer)

# SPDX-License-Identifier: BSD-3-Clause
"""Runtimes and groups, and what all handles have in common."""
import atexit
import os
import sys
import traceback
import weakref
from ctypes import byref, c_char_p, c_void_p

from ._library import (ALL_PEERS, LOG, AttachOptions, Exchange, Fence, check, ints, loco, loco_mpi,
                       nanoseconds, text)

_open_runtimes = set()         # kept by being in it: threads of theirs may call handlers


class Handle:
    """An object of the library. close() gives it back; a with statement does that at its end.

    What is made from an object is closed with it, the youngest first. An object that is merely forgotten
    lives until then: other processes may still use it.
    """
    _destroy = None             # name of the function that gives it back

    def __init__(self, owner, address, what):
        self._address = address
        self._what = what
        self._owner = owner
        self._parts = []
        if owner is not None:
            owner._parts.append(self)

    @property
    def _h(self):
        """Its address; an error once it is closed."""
        if self._address is None:
            raise ValueError('%s is closed' % self._what)
        return self._address

    @property
    def closed(self):
        """Whether it was closed."""
        return self._address is None

    def __repr__(self):
        return '<loco.%s%s>' % (self._what, ', closed' if self.closed else '')

    def _close_parts(self):
        for part in reversed(list(self._parts)):
            part.close()

    def _before_destroy(self):
        """What a kind of handle does first."""

    def _give_up_views(self):
        """At the end of the process nobody looks at a region's memory any more."""
        for part in self._parts:
            part._give_up_views()

    def close(self):
        """Give it back to the library; once more does nothing."""
        if self._address is None:
            return
        self._close_parts()
        self._before_destroy()
        address, self._address = self._address, None
        if self._owner is not None:
            self._owner._parts.remove(self)
        if self._destroy is not None:
            getattr(loco, self._destroy)(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _mpi_handle(thing):
    """What a C program has for a communicator or window of mpi4py: in Open MPI a pointer."""
    from mpi4py import MPI
    if 'Open MPI' not in MPI.Get_library_version():
        raise ImportError('libloco_mpi is for Open MPI, and mpi4py uses ' + MPI.Get_library_version())
    return c_void_p.from_address(MPI._addressof(thing)).value


class Runtime(Handle):
    """This process's place in the network memory: Runtime.from_mpi(comm) or Runtime.attach(pool).

    All its methods but close may be called by several threads at a time.
    """
    _destroy = None

    def __init__(self, address, what, close, keep=()):
        super().__init__(None, address, what)
        self._close = close
        self._keep = keep
        self._process = os.getpid()
        self.everyone = Group(self, loco.loco_everyone(address), owned=False)
        _open_runtimes.add(self)

    @classmethod
    def from_mpi(cls, comm):
        """Open the runtime of an MPI program, or take part in the one that is open. Collective over the
        communicator `comm` of mpi4py, whose members, at the first call, become `everyone`. End the use of
        channels by a barrier, then close it, before MPI.Finalize (which mpi4py calls at exit, after what
        is still open here is closed)."""
        mpi = loco_mpi()
        address = c_void_p()
        check(mpi.loco_runtime_open_mpi(_mpi_handle(comm), byref(address)), 'Runtime.from_mpi')
        return cls(address.value, 'Runtime of MPI', mpi.loco_runtime_close_mpi)

    @classmethod
    def attach(cls, pool, log=None, settings=None):
        """Open a runtime for this process alone, to use the pool of that name (loco.Pool).

        log       called as log(level, text) with each line that the library has to say, from any of its
                  threads; it must not call the library. None: lines go to stderr, as those about the agent
                  that attach itself looks for do in any case.
        settings  tunables by name, {'LOCO_SPIN': 50}; stronger than the environment
        """
        options = AttachOptions()
        keep = [pool]
        if log is not None:
            options.log = _log_hook(log)
            keep.append(options.log)
        if settings:
            lines = [('%s=%s' % item).encode() for item in settings.items()]
            options.settings = (c_char_p * (len(lines) + 1))(*lines, None)
            keep += [lines, options.settings]
        address = c_void_p()
        check(loco.loco_runtime_attach(text(pool), byref(options), byref(address)), 'Runtime.attach')
        return cls(address.value, 'Runtime at pool %s' % pool, loco.loco_runtime_close, keep)

    @property
    def rank(self):
        """This process's rank in everyone."""
        return self.everyone.rank

    @property
    def size(self):
        """How many everyone is."""
        return self.everyone.size

    def meet(self, comm):
        """A group of the members of a communicator of mpi4py, in its order. Collective over it."""
        exchange, group = Exchange(), c_void_p()
        check(loco_mpi().loco_exchange_mpi(_mpi_handle(comm), byref(exchange)), 'Runtime.meet')
        check(loco.loco_group_meet(self._h, byref(exchange), byref(group)), 'Runtime.meet')
        return Group(self, group.value)

    def wait_ready(self, timeout=None, below=None):
        """Wait, for `timeout` seconds at most, until every channel that this process has made is made by all
        its members; with `below`, only the channel of that full name and those named below it."""
        if below is None:
            check(loco.loco_runtime_wait_ready(self._h, nanoseconds(timeout)), 'wait_ready')
        else:
            check(loco.loco_runtime_wait_ready_below(self._h, text(below), nanoseconds(timeout)),
                  'wait_ready')

    def fence(self, scope=Fence.PROCESS, peer=ALL_PEERS):
        """After it, the scope's earlier writes to `peer` (a rank of everyone) are placed and visible to all,
        before any later operation of the scope."""
        check(loco.loco_fence(self._h, scope, peer), 'fence')

    def close(self):
        """Close it, and all channels made from it. While arrays that show a region's memory are still there,
        that region and the runtime stay as they are until the end of the process."""
        if self._address is None:
            return
        kept = False
        for part in reversed(list(self._parts)):
            try:
                part.close()
            except BufferError:
                kept = True
        if not kept:
            self._end()

    def _end(self):
        address, self._address = self._address, None
        _open_runtimes.discard(self)
        self._close(address)

    def _at_exit(self):
        self._give_up_views()
        self._close_parts()
        self._end()


def _log_hook(log):
    @LOG
    def hook(_, level, line):
        log(level, line.decode(errors='replace'))       # ctypes reports what it raises
    return hook


@atexit.register
def _close_at_exit():
    """Threads of the library, which may call handlers, end before the interpreter does; and runtimes are
    closed before mpi4py finalizes MPI."""
    for runtime in list(_open_runtimes):
        if runtime._process != os.getpid() or (runtime._close is not loco.loco_runtime_close and _mpi_is_over()):
            continue
        try:
            runtime._at_exit()
        except Exception:
            traceback.print_exc()


def _mpi_is_over():
    module = sys.modules.get('mpi4py.MPI')
    return module is None or module.Is_finalized()


class Group(Handle):
    """An ordered set of processes: runtime.everyone, runtime.meet(comm), or group.subset(ranks)."""

    def __init__(self, runtime, address, owned=True):
        super().__init__(runtime if owned else None, address, 'Group')
        self._destroy = 'loco_group_destroy' if owned else None
        self._runtime = weakref.ref(runtime)

    @property
    def _h(self):
        if self._destroy is None and (self._runtime() is None or self._runtime().closed):
            raise ValueError('the runtime of this group is closed')
        return super()._h

    @property
    def size(self):
        """How many members it has."""
        return loco.loco_group_size(self._h)

    @property
    def rank(self):
        """This process's rank in it, or -1."""
        return loco.loco_group_rank(self._h)

    def subset(self, ranks):
        """The group of these members, in that order. Local."""
        array, n = ints(ranks)
        group = c_void_p()
        check(loco.loco_group_subset(self._h, n, array, byref(group)), 'Group.subset')
        return Group(self._runtime(), group.value)

    def alive(self, rank):
        """Whether that member runs, as far as is known here."""
        status = loco.loco_group_alive(self._h, rank)
        if status == -40:
            return False
        check(status, 'Group.alive')
        return True

    def __len__(self):
        return self.size

    def close(self):
        if self._destroy is not None:
            super().close()


class Channel(Handle):
    """A channel. All members of `group` (None: everyone) make it with the same name and arguments; it is
    usable after runtime.wait_ready(). Its full name is "name", or "parent/name"."""
    _kind = ''                  # what its functions begin with

    def __init__(self, runtime, name, group, parent, *arguments):
        self._destroy = 'loco_%s_destroy' % self._kind
        # The group is copied, but its size and ranks are still of interest.
        self.runtime, self.name = runtime, name
        self.group = runtime.everyone if group is None else group
        address = c_void_p()
        create = getattr(loco, 'loco_%s_create' % self._kind)
        what = '%s %s' % (type(self).__name__, name)
        check(create(runtime._h, text(parent), text(name), self.group._h, *arguments, byref(address)), what)
        super().__init__(runtime, address.value, what)

    def _call(self, function, *arguments):
        """Call loco_KIND_FUNCTION with this channel; its status, which is no error."""
        return check(getattr(loco, 'loco_%s_%s' % (self._kind, function))(self._h, *arguments), self._what)


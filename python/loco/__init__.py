# SPDX-License-Identifier: BSD-3-Clause
"""libloco from Python: concurrent objects in network memory.

    from mpi4py import MPI
    import loco

    with loco.Runtime.from_mpi(MPI.COMM_WORLD) as rt:
        barrier = loco.Barrier(rt, 'barrier')
        lock = loco.TicketLock(rt, 'lock')
        rt.wait_ready()
        with lock:
            ...
        barrier.wait()

A channel is made by all members of its group with the same name and arguments, and is usable after
Runtime.wait_ready. close(), or the runtime's, gives it back; end its use by a barrier before.

Errors are exceptions below loco.Error, with `status` and the library's `text`. Times are seconds, None is
without limit. Data to be written is str (as UTF-8), bytes or any contiguous buffer, arrays of numpy among them.

Threads: calls of the library give up the interpreter's lock while they run, so threads of a process go on while
one of them waits. Channels may be used by all threads at a time, with these exceptions: Barrier.wait and the calls
of a Collective are made by one thread of each process, next and poll of a Multicast by one at a time; a Tx, with
its trees and hashes, is for the thread that made it; a TicketLock is released by the thread that acquired it;
close() runs beside no other call of the same object. Handlers of multicasts are called in a thread of the library, one call at a time. A signal
(Ctrl-C) is handled when the call that waits has returned: give timeouts where that matters.
"""
from ._channels import AtomicVar, Barrier, Collective, Queue, Region, TicketLock
from ._library import (ALL_PEERS, ANY_HOST, Again, ArgumentError, Closed, Conflict, Differs, Error, Exists, Fence,
                       Full, Mismatch, NoMemory, NotFound, Op, Partitioned, PeerDead, StateError, Status, Timeout, Type)
from ._multicast import Delivery, HandlerError, Multicast
from ._runtime import Group, Runtime
from ._store import Hash, Pool, Store, Tree, Tx, prefix_end

__all__ = [
    'ALL_PEERS', 'ANY_HOST', 'Again', 'ArgumentError', 'AtomicVar', 'Barrier', 'Closed', 'Collective',
    'Conflict', 'Delivery',
    'Differs', 'Error', 'Exists', 'Fence', 'Full', 'Group', 'HandlerError', 'Hash', 'Mismatch', 'Multicast',
    'NoMemory', 'NotFound', 'Op', 'Partitioned', 'PeerDead', 'Pool', 'Queue', 'Region', 'Runtime', 'StateError',
    'Status', 'Store', 'TicketLock', 'Timeout', 'Tree', 'Tx', 'Type', 'prefix_end',
]

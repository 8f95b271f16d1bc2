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
close() runs beside no other call of the same object. Handlers of multicasts, views and topics are called in threads
of the library, one call of an object at a time. A signal (Ctrl-C) is handled when the call that waits has returned: give timeouts where that matters.
"""
from ._callbacks import HandlerError
from ._channels import AtomicArray, AtomicVar, Barrier, Collective, Region
from ._kvstore import KvStore
from ._library import (ALL_PEERS, ANY_HOST, Again, ArgumentError, Closed, Conflict, Differs, Error, Event, Exists,
                       Fence, Full, Level, Mismatch, NoMemory, NotFound, Op, Partitioned, PeerDead, StateError, Status,
                       Sync, Timeout, Type)
from ._locks import RwGroup, RwLock, TicketLock
from ._multicast import Delivery, Multicast
from ._runtime import Group, Runtime
from ._store import Hash, Pool, Store, Tree, Tx, prefix_end
from ._streams import Letter, Mailbox, Queue, wait_any
from ._topic import Sample, Topic, replay
from ._view import View

__all__ = [
    'ALL_PEERS', 'ANY_HOST', 'Again', 'ArgumentError', 'AtomicArray', 'AtomicVar', 'Barrier', 'Closed', 'Collective',
    'Conflict', 'Delivery', 'Differs', 'Error', 'Event', 'Exists', 'Fence', 'Full', 'Group', 'HandlerError', 'Hash',
    'KvStore', 'Letter', 'Level', 'Mailbox', 'Mismatch', 'Multicast', 'NoMemory', 'NotFound', 'Op', 'Partitioned',
    'PeerDead', 'Pool', 'Queue', 'Region', 'Runtime', 'RwGroup', 'RwLock', 'Sample', 'StateError', 'Status', 'Store',
    'Sync', 'TicketLock', 'Timeout', 'Topic', 'Tree', 'Tx', 'Type', 'View', 'prefix_end', 'replay', 'wait_any',
]

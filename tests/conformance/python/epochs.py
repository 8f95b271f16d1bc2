# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of epoch, around the same operations."""
from mpi4py import MPI


def fence(w, operate):
    w.win.Fence(MPI.MODE_NOPRECEDE)
    for target in range(w.comm.size):
        operate(target)
    w.win.Fence(MPI.MODE_NOSUCCEED)


def pscw(w, operate):
    group = w.win.Get_group()
    w.win.Post(group)
    w.win.Start(group)
    for target in range(w.comm.size):
        operate(target)
    w.win.Complete()
    w.win.Wait()
    group.Free()


def lock_shared(w, operate):
    for target in range(w.comm.size):
        w.win.Lock(target, MPI.LOCK_SHARED)
        operate(target)
        w.win.Unlock(target)
    w.comm.Barrier()


def lock_exclusive(w, operate):
    for target in range(w.comm.size):
        w.win.Lock(target, MPI.LOCK_EXCLUSIVE)
        operate(target)
        w.win.Unlock(target)
    w.comm.Barrier()


def lock_all(w, operate):
    w.win.Lock_all()
    for target in range(w.comm.size):
        operate(target)
    w.win.Unlock_all()
    w.comm.Barrier()


def flushed(w, operate):
    w.win.Lock_all(MPI.MODE_NOCHECK)
    for target in range(w.comm.size):
        operate(target)
        w.win.Flush(target)
    w.win.Flush_local_all()
    w.win.Unlock_all()
    w.comm.Barrier()


EVERY = (fence, pscw, lock_shared, lock_exclusive, lock_all, flushed)
PASSIVE = (lock_shared, lock_exclusive, lock_all, flushed)

# SPDX-License-Identifier: BSD-3-Clause
"""A program that leaves its windows to the end of Python, as many do: MPI_Finalize finds them.
Prints "done"; its exit status is 0."""
from mpi4py import MPI

comm = MPI.COMM_WORLD
left = [MPI.Win.Allocate(64, comm=comm), MPI.Win.Allocate_shared(64, comm=comm),
        MPI.Win.Create(bytearray(64), comm=comm), MPI.Win.Create_dynamic(comm=comm)]
memory = bytearray(64)
left[3].Attach(memory)
value = bytearray([7])
for win in left[:3]:
    win.Lock_all()
    win.Put([value, MPI.BYTE], (comm.rank + 1) % comm.size)
    win.Unlock_all()
comm.Barrier()
assert left[0].tomemory()[0] == 7
if comm.rank == 0:
    print('done')

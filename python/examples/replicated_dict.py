#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A dictionary of which each rank keeps a copy; the copies stay alike when ranks die and join.

usage: mpirun [--enable-recovery] -np N replicated_dict.py [--changes N] [--kill]

Each rank makes N changes (100): multicasts of a view, which all apply in the same order. The last rank joins late,
and is sent a copy. With --kill rank 0 dies in the middle, for which mpirun needs --enable-recovery; the others go
on. At its end each rank prints the members, how many changes it has applied, and a checksum of its copy, which is
that of the others.
"""
import argparse
import json
import os
import signal
import sys
import threading
import zlib

from mpi4py import MPI

import loco

LIMIT = 60                      # seconds


class ReplicatedDict:
    """Reads are local; changes are sent to all, and applied when they come."""

    def __init__(self, rt, outside):
        self.copy, self.applied, self.done = {}, 0, set()
        self.came = threading.Condition()
        self.present = set(range(rt.size)) - set(outside)
        self.view = loco.View(rt, 'dict', self.changed, outside=outside, save=self.save, load=self.load)
        self.log = self.view.multicast('log', self.apply)

    def __setitem__(self, key, value):
        self.log.post(json.dumps([key, value]))

    def finish(self):
        """This rank has no more changes: all come to know it, after its last one."""
        self.log.wait_delivered(self.log.post(json.dumps(None)))

    # Called in threads of the library.

    def apply(self, messages):
        with self.came:
            for one in messages:
                change = json.loads(one.data)
                if change is None:
                    self.done.add(one.sender)
                else:
                    self.copy[change[0]] = change[1]
                self.applied += 1
            self.came.notify_all()

    def changed(self, number, members):
        with self.came:
            self.present = set(members)
            self.came.notify_all()

    def save(self):
        return json.dumps([self.copy, self.applied, sorted(self.done)]).encode()

    def load(self, state):
        self.copy, self.applied, done = json.loads(state)
        self.done = set(done)

    def wait(self, test):
        with self.came:
            if not self.came.wait_for(test, LIMIT):
                raise TimeoutError('the others are too slow')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--changes', type=int, default=100)
    parser.add_argument('--kill', action='store_true')
    options = parser.parse_args()
    rt = loco.Runtime.from_mpi(MPI.COMM_WORLD)
    last = rt.size - 1
    table = ReplicatedDict(rt, outside=[last] if last > 0 else [])
    rt.wait_ready(LIMIT)
    if rt.rank == last and last > 0:
        table.view.join(LIMIT)
    for i in range(options.changes):
        if options.kill and rt.rank == 0 and i == options.changes // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        table['key %d' % (i % 10)] = 'of rank %d, %d' % (rt.rank, i)
    table.finish()
    # All that will finish have; and after a view without those that do not, nothing comes from them any more.
    finish = set(range(1 if options.kill else 0, rt.size))
    table.wait(lambda: table.done >= finish >= table.present)
    checksum = zlib.crc32(json.dumps(sorted(table.copy.items())).encode())
    print('rank %d: %d messages, %08x' % (rt.rank, table.applied, checksum))
    sys.stdout.flush()
    if options.kill:
        os._exit(0)             # MPI.Finalize would wait for the dead
    MPI.COMM_WORLD.Barrier()
    rt.close()


if __name__ == '__main__':
    main()

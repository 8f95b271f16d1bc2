# SPDX-License-Identifier: BSD-3-Clause
"""Pools from Python: what one program has committed, the next one finds."""
import os
import subprocess
import sys
import unittest

from common import LIMIT, RANK, SIZE, WORLD, LocoCase, loco

AGENT = os.environ.get('LOCO_AGENT', 'loco-agent')

CLIENT = '''
import sys
import loco
lines = []
with loco.Runtime.attach(sys.argv[1], log=lambda level, line: lines.append(line),
                         settings={'LOCO_LOG': 'error'}) as rt:
    with loco.Pool(rt, sys.argv[1]) as pool, pool.store('s') as store, loco.Tx(store) as tx:
        assert pool.alive and 0 <= pool.place < pool.places, (pool.place, pool.places)
        try:
            pool.store('nobody')
        except loco.NotFound:
            assert any('nobody' in line for line in lines), lines
        assert pool.list()['s']['bytes'] == 1 << 20, pool.list()
        tree = loco.Tree(tx)
        tree['client'] = 'was here'
        print(tree['rank 0'].decode())
'''


class Pools(LocoCase):
    def test_outlives_programs(self):
        pool_name = 'python-%d' % WORLD.bcast(os.getpid())
        agent = None
        try:
            if RANK == 0:
                try:
                    agent = subprocess.Popen([AGENT, 'run', '--pool', pool_name, '--memory', '64M'],
                                             stdout=subprocess.PIPE, text=True, env=outside())
                    said = agent.stdout.readline()
                except OSError:
                    said = None
            else:
                said = None
            if not WORLD.bcast(said):
                raise unittest.SkipTest('%s cannot be started' % AGENT)
            self.used(pool_name)
        finally:
            WORLD.Barrier()
            if agent is not None:
                agent.terminate()
                agent.communicate()

    def used(self, pool_name):
        pool = loco.Pool(self.rt, pool_name)
        self.fails(loco.NotFound, pool.store, 'nobody')
        WORLD.Barrier()
        with pool.store('s', bytes=1 << 20) as store, loco.Tx(store) as tx:
            loco.Tree(tx)['rank %d' % RANK] = 'wrote it'
        self.fails(loco.Mismatch, pool.store, 's', bytes=1 << 21)
        WORLD.Barrier()
        if RANK == 0:
            done = subprocess.run([sys.executable, '-c', CLIENT, pool_name], capture_output=True, text=True,
                                  env=outside(), timeout=LIMIT)
            self.equal((done.stdout, done.returncode), ('wrote it\n', 0), done.stderr)
        WORLD.Barrier()
        store = pool.store('s')
        with loco.Tx(store) as tx:
            self.equal(loco.Tree(tx)['client'], b'was here', 'what the client wrote')
            self.equal(len(list(loco.Tree(tx))), SIZE + 1, 'entries')
        WORLD.Barrier()
        self.sent(pool)
        if RANK == 0:
            pool.remove('s')
        WORLD.Barrier()
        self.equal(pool.list(), {}, 'removed')
        pool.close()
        self.true(store.closed, 'with its pool')

    def sent(self, pool):
        """By a mailbox: its messages outlive the sender's handle."""
        if SIZE == 1:
            return
        if RANK == 1:
            with pool.mailbox('m', ring_bytes=1024) as box:
                box.send('to whoever receives', LIMIT)
        WORLD.Barrier()
        if RANK == 0:
            with pool.mailbox('m', receive=True) as box:
                self.equal(box.receive(LIMIT).data, b'to whoever receives', 'message')
            pool.remove('m')
        WORLD.Barrier()

    def test_no_agent(self):
        self.fails(loco.NotFound, loco.Runtime.attach, 'nobody-%d' % os.getpid())


def outside():
    """The environment of a program that is no rank of this job."""
    return {key: value for key, value in os.environ.items() if not key.startswith(('OMPI_', 'PMIX_'))}

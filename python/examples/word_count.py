#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the words of files in a hash table that all ranks share.

usage: mpirun -np 4 python3 word_count.py [--top N] FILE...

The files are cut into blocks of lines. Ranks take blocks in turn, from a counter, count their words in a
dictionary of their own, and add that to the table. Rank 0 prints the N most frequent words (10).
"""
import argparse
import collections
import re
import sys

from mpi4py import MPI

import loco

BLOCK = 64 << 10                # characters of lines that a rank takes at a time


def blocks(files):
    """The files' text, in blocks of whole lines."""
    for name in files:
        with open(name, encoding='utf-8', errors='replace') as text:
            while True:
                lines = text.readlines(BLOCK)
                if not lines:
                    break
                yield ''.join(lines)


def count(files, turn, table):
    """Count the blocks whose turn is this rank's."""
    mine = turn.fetch_add()
    for number, block in enumerate(blocks(files)):
        if number != mine:
            continue
        words = collections.Counter(re.findall('[a-z]+', block.lower()))
        for word, times in words.items():
            table.add(word, times)
        mine = turn.fetch_add()


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument('--top', type=int, default=10)
    options.add_argument('files', nargs='+', metavar='FILE')
    options = options.parse_args()
    with loco.Runtime.from_mpi(MPI.COMM_WORLD) as rt:
        barrier = loco.Barrier(rt, 'barrier')
        turn = loco.AtomicVar(rt, 'turn')
        store = loco.Store(rt, 'words', bytes=16 << 20)
        rt.wait_ready()
        with loco.Tx(store) as tx:
            table = loco.Hash(tx)
            count(options.files, turn, table)
            barrier.wait()
            if rt.rank == 0:
                found = [(int.from_bytes(times, sys.byteorder), word.decode()) for word, times in table.items()]
                for times, word in sorted(found, key=lambda one: (-one[0], one[1]))[:options.top]:
                    print('%8d %s' % (times, word))
        barrier.wait()          # nobody needs this rank's memory any more


if __name__ == '__main__':
    main()

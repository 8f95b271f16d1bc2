#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Keeps notes in a pool, which outlive this program. No MPI.

usage: loco-agent start --pool NAME --memory 64M &
       pool_notes.py NAME                 print all notes
       pool_notes.py NAME TITLE TEXT      keep one
       pool_notes.py NAME TITLE           remove one
"""
import sys

import loco


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__.strip())
    name, note = sys.argv[1], sys.argv[2:]
    with loco.Runtime.attach(name) as rt, loco.Pool(rt, name) as pool:
        store = pool.store('notes', bytes=1 << 20)
        with loco.Tx(store) as tx:
            notes = loco.Tree(tx)
            if len(note) == 2:
                notes[note[0]] = note[1]
            elif note:
                del notes[note[0]]
            else:
                for title, text in notes.items():
                    print('%s: %s' % (title.decode(), text.decode()))


if __name__ == '__main__':
    try:
        main()
    except loco.Error as why:
        sys.exit('pool_notes.py: %s' % why)

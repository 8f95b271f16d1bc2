# SPDX-License-Identifier: BSD-3-Clause
"""What python/loco mirrors of the headers is what a C compiler makes of them; what they leave to the loader."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import RANK, LocoCase, loco
from loco import _library as library

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


def program():
    """A C program that prints a line for each structure, field and number."""
    lines = ['#include <stddef.h>', '#include <stdio.h>', '#include <loco/loco.h>', 'int main(void)', '{']
    for one in library.STRUCTURES:
        lines.append('printf("%%s %%zu\\n", "%s", sizeof(%s));' % (one.c_name, one.c_name))
        for field, _ in one._fields_:
            lines.append('{ %s x; printf("%%s.%%s %%zu %%zu\\n", "%s", "%s", offsetof(%s, %s), '
                         'sizeof(x.%s)); }' % (one.c_name, one.c_name, field, one.c_name, field, field))
    for number in library.NUMBERS:
        lines.append('printf("%%s %%lld\\n", "%s", (long long)%s);' % (number, number))
    return '\n'.join(lines + ['return 0;', '}', ''])


def mirrored():
    lines = []
    for one in library.STRUCTURES:
        lines.append('%s %d' % (one.c_name, ctypes.sizeof(one)))
        for field, _ in one._fields_:
            place = getattr(one, field)
            lines.append('%s.%s %d %d' % (one.c_name, field, place.offset, place.size))
    return lines + ['%s %d' % item for item in library.NUMBERS.items()]


class Layout(LocoCase):
    def test_of_the_headers(self):
        compiler = os.environ.get('CC', 'cc').split()
        if shutil.which(compiler[0]) is None:
            raise unittest.SkipTest('there is no C compiler')
        if RANK != 0:
            return
        with tempfile.TemporaryDirectory() as folder:
            source, made = os.path.join(folder, 'layout.c'), os.path.join(folder, 'layout')
            with open(source, 'w') as out:
                out.write(program())
            subprocess.run(compiler + ['-I', os.path.join(SOURCE, 'include'), '-o', made, source], check=True)
            found = subprocess.run([made], check=True, capture_output=True, text=True).stdout.splitlines()
        for got, wanted in zip(mirrored(), found):
            self.equal(got, wanted, 'python/loco/_library.py')
        self.equal(len(mirrored()), len(found), 'lines')

    def test_knows_all_fields(self):
        """A structure is mirrored whole: its last field ends where it ends, but for its alignment."""
        for one in library.STRUCTURES:
            last = getattr(one, one._fields_[-1][0])
            gap = ctypes.sizeof(one) - last.offset - last.size
            self.true(0 <= gap < ctypes.alignment(one), one.c_name)

    def test_knows_all_statuses(self):
        with open(os.path.join(SOURCE, 'include', 'loco', 'status.h')) as header:
            names = [line.split()[0] for line in header if line.strip().startswith('LOCO_')]
        self.equal(sorted(names), sorted('LOCO_' + one.name for one in loco.Status), 'enum loco_status')

    def test_another_place(self):
        """LOCO_LIBRARY says where the libraries are; a wrong one is told at the import."""
        if RANK != 0:
            return
        folder = os.path.dirname(os.path.abspath(library.loco._name))

        def run(place):
            # Not a rank of this job.
            env = {key: value for key, value in os.environ.items() if not key.startswith(('OMPI_', 'PMIX_'))}
            env.pop('LD_LIBRARY_PATH', None)
            return subprocess.run([sys.executable, '-c', 'import loco._library as l; print(l.loco._name)'],
                                  capture_output=True, text=True, env=dict(env, LOCO_LIBRARY=place))
        right, wrong = run(folder), run('/nowhere')
        self.equal(right.stdout.strip(), os.path.join(folder, 'libloco.so.0'), right.stderr)
        self.true(wrong.returncode != 0 and 'LOCO_LIBRARY is /nowhere' in wrong.stderr, wrong.stderr)

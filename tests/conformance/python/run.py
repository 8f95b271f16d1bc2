#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs unittest modules under mpirun; each rank writes its counts.

usage: run.py [--only TEXT] [--no-skip-mpi] FOLDER MODULE...

--only: tests whose name has TEXT in it; --no-skip-mpi: what mpi4py's tests skip because of the name
and version of the MPI library is run.

Each rank writes "PASSED FAILED SKIPPED" into a file of its own, rank.N in the folder COUNTS, at its end:
a crash or a hang leaves none. Rank 0 alone prints its progress; what failed or was skipped is printed by
each rank that saw it, the same line of several ranks by the lowest.
"""
import argparse
import os
import sys
import time
import unittest

sys.dont_write_bytecode = True


class Result(unittest.TestResult):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
        self.passed = []

    def _say(self, what, test, text=''):
        lines = ''.join('    | %s\n' % line for line in text.strip().splitlines()[-25:])
        sys.stdout.write('%s %s (rank %d)\n%s' % (what, test.id(), self.rank, lines))
        sys.stdout.flush()

    def startTest(self, test):
        super().startTest(test)
        if self.rank == 0 and os.environ.get('VERBOSE'):
            sys.stderr.write('%s %s\n' % (time.strftime('%T'), test.id()))

    def addSuccess(self, test):
        self.passed.append(test.id())

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._say('FAIL', test, str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self._say('FAIL', test, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._say('SKIP', test, reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._say('FAIL', test, 'was expected to fail')


def load(name):
    """The groups of tests of a module; one that skips itself is a test that is skipped."""
    try:
        return unittest.defaultTestLoader.loadTestsFromName(name)
    except unittest.SkipTest as why:
        reason = why

    def skipped():
        raise reason
    skipped.__name__ = name
    return [unittest.FunctionTestCase(skipped)]


def members(group):
    """The tests of a group; a module that fails to load is one test."""
    return group if isinstance(group, unittest.TestSuite) else [group]


def main(arguments):
    options = argparse.ArgumentParser()
    options.add_argument('--only', default='')
    options.add_argument('--no-skip-mpi', action='store_true')
    options.add_argument('folder')
    options.add_argument('modules', nargs='+')
    options = options.parse_args(arguments)
    sys.path.insert(0, options.folder)
    from mpi4py import MPI
    if options.no_skip_mpi:
        import mpiunittest
        mpiunittest.skipMPI = lambda *condition: lambda test: test
    rank = MPI.COMM_WORLD.rank
    result = Result(rank)
    suite = unittest.TestSuite()
    for name in options.modules:
        for group in load(name):
            suite.addTests(test for test in members(group) if options.only in test.id())
    suite.run(result)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    if 'COUNTS' in os.environ:
        with open(os.path.join(os.environ['COUNTS'], 'rank.%d' % rank), 'w') as out:
            out.write('%d %d %d\n' % (len(result.passed), failed, len(result.skipped)))
    if rank == 0:
        print('%d passed, %d failed, %d skipped' % (len(result.passed), failed,
                                                    len(result.skipped)))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

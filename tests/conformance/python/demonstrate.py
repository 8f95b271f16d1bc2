#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs one of mpi4py's demonstrations: demonstrate.py FILE.

What it calls test is run; one that counts and has no test is wrong. Who asks for a number is told
1000, then 0. A Counter is ready when all ranks have made it: that of nxtval-mpi3 zeroes its memory
after its window is there, while others may count already.
"""
import builtins
import importlib.util
import sys

from mpi4py import MPI

answers = iter(['1000', '0'])
builtins.input = lambda *prompt: next(answers)
spec = importlib.util.spec_from_file_location('demonstration', sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if hasattr(module, 'Counter'):
    make = module.Counter.__init__

    def make_and_meet(self, comm, *more):
        make(self, comm, *more)
        comm.Barrier()
    module.Counter.__init__ = make_and_meet
tests = [part for name, part in vars(module).items() if name.startswith('test')]
if hasattr(module, 'Counter') and not tests:
    sys.exit(f'{sys.argv[1]} has no test')
for test in tests:
    test()

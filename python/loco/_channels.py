# SPDX-License-Identifier: BSD-3-Clause
"""Barriers, collectives, regions and variables."""
import ctypes
import weakref
from ctypes import byref, c_double, c_int64, c_uint64, c_void_p

from ._library import (ATOMIC_STRIPED, Blocks, Source, Type, check, loco, loco_mpi, nanoseconds, result_of)
from ._runtime import Channel, Handle, _mpi_handle

_WORD = 1 << 64
_ELEMENTS = {Type.U64: c_uint64, Type.I64: c_int64, Type.F64: c_double}


def _element(type, operand):
    """A word of 8 bytes that has the number; numbers of integer types wrap around."""
    try:
        made = _ELEMENTS[type]
    except KeyError:
        raise ValueError('a word is of Type.U64, I64 or F64, not of %r' % (type,)) from None
    return made(operand)


class Barrier(Channel):
    """A barrier of a group's processes."""
    _kind = 'barrier'

    def __init__(self, runtime, name, group=None, parent=None):
        super().__init__(runtime, name, group, parent)

    def wait(self, timeout=None):
        """Wait until all members have called it as often as this one; one thread of each calls. Writes from
        before are visible to all after it. After Timeout, call it again to wait for the same round."""
        self._call('wait_timed', nanoseconds(timeout))


_FORMATS = {'b': Type.I8, 'h': Type.I16, 'B': Type.U8, 'H': Type.U16, 'f': Type.F32, 'd': Type.F64, '?': Type.BOOL8,
            'Zf': Type.C32, 'Zd': Type.C64}
_INTEGERS = {(4, True): Type.I32, (4, False): Type.U32, (8, True): Type.I64, (8, False): Type.U64}


def _type_of(view):
    """Of the elements of a memoryview."""
    code = view.format.lstrip('@=')
    known = _INTEGERS.get((view.itemsize, code.islower())) if code in ('i', 'I', 'l', 'L', 'q', 'Q') else _FORMATS.get(code)
    if known is None:
        raise ValueError('elements of format %r have no type here' % view.format)
    return known


class Collective(Channel):
    """Broadcasts and reductions of a group. All members make the same calls, in the same order; data are arrays
    (of numpy, or array.array), of the same length and elements at all. One thread of each process calls. After
    Timeout, repeat the call with the same arguments."""
    _kind = 'collective'

    def __init__(self, runtime, name, piece_bytes=0, group=None, parent=None):
        super().__init__(runtime, name, group, parent, piece_bytes)

    def broadcast(self, data, root=0, timeout=None):
        """Copy the bytes of `data` at `root` into `data` of the others."""
        data = result_of(data)
        self._call('broadcast_timed', root, data.address, data.len, nanoseconds(timeout))

    def reduce(self, op, operand, result=None, root=0, timeout=None):
        """Combine the elements of all by an Op into `result` at `root`; the others need none."""
        source = Source(operand)
        to = None if result is None else result_of(result)
        view = memoryview(operand)
        if to is not None and to.len != source.len:
            raise ValueError('the result has %d bytes, the operand %d' % (to.len, source.len))
        if to is None and root == self.group.rank:
            raise ValueError('the root needs a buffer for the result')
        self._call('reduce_timed', root, op, _type_of(view), source.address, to and to.address,
                   source.len // view.itemsize, nanoseconds(timeout))

    def allreduce(self, op, operand, result, timeout=None):
        """The same, with the result at all."""
        source, to = Source(operand), result_of(result)
        view = memoryview(operand)
        if to.len != source.len:
            raise ValueError('the result has %d bytes, the operand %d' % (to.len, source.len))
        self._call('allreduce_timed', op, _type_of(view), source.address, to.address,
                   source.len // view.itemsize, nanoseconds(timeout))


class Region(Channel):
    """Memory with a part of `bytes` bytes at each member, which all read and write by rank and offset."""
    _kind = 'region'

    def __init__(self, runtime, name, bytes, group=None, parent=None):
        super().__init__(runtime, name, group, parent, bytes)
        self._look()

    @classmethod
    def from_window(cls, runtime, win):
        """A region over the memory of a window (MPI.Win) that the loco component serves: close it before the
        window is freed. It has a part for each member of the window, and needs no epoch."""
        self = cls.__new__(cls)
        self._destroy = 'loco_region_destroy'
        self.runtime, self.name, self.group = runtime, 'window', None
        address = c_void_p()
        check(loco_mpi().loco_win_region(_mpi_handle(win), byref(address)), 'Region.from_window')
        Handle.__init__(self, runtime, address.value, 'Region of a window')
        self._look()
        return self

    def _look(self):
        """All that shows this process's part refers to one object, so that close() sees whether there is such."""
        length = loco.loco_region_len(self._h)
        self._part = (ctypes.c_char * length).from_address(loco.loco_region_local(self._h) or 0)

    @property
    def local(self):
        """One's own part, a writable memoryview of bytes: the memory itself. As array()."""
        self._h
        return memoryview(self._part).cast('B')

    def __len__(self):
        return loco.loco_region_len(self._h)

    def array(self, dtype='uint8', offset=0, count=-1):
        """One's own part, from byte `offset` on, as an array of numpy: the memory itself, no copy. The region
        cannot be closed (BufferError) while the array is there. Words that others change while they are
        polled have to be read by read64."""
        import numpy
        return numpy.frombuffer(self.local, dtype, count, offset)

    def _before_destroy(self):
        seen = weakref.ref(self._part)
        self._part = None
        if seen() is not None:
            self._part = seen()
            raise BufferError('%s has arrays that show its memory: delete them before it is closed' % self._what)

    def _give_up_views(self):
        self._before_destroy = lambda: None

    def write(self, rank, offset, source):
        """Copy a buffer (bytes, an array...) to `rank`'s part. When it returns, the buffer may be changed;
        others see what was written after a fence."""
        source = Source(source)
        self._call('write', rank, offset, source.address, source.len)

    def read(self, rank, offset, length=None, out=None):
        """Copy from `rank`'s part: `length` bytes, as bytes; or into the buffer `out`, which is returned."""
        room = ctypes.create_string_buffer(length) if out is None else out
        result = result_of(room)
        self._call('read', rank, offset, result.address, result.len)
        return room.raw if out is None else out

    def write_blocks(self, rank, offset, source, length, stride):
        """Copy a buffer to `rank`'s part in blocks of `length` bytes, the first at `offset`, each `stride` bytes
        after the one before. As write."""
        source = Source(source)
        if length < 1 or source.len % length != 0:
            raise ValueError('%d bytes are no whole blocks of %d' % (source.len, length))
        self._call('write_blocks', rank, offset, source.address,
                   byref(Blocks(source.len // length, length, stride, length)))

    def read_blocks(self, rank, offset, length, stride, count=None, out=None):
        """Copy `count` such blocks from there: as bytes, one behind the other; or as many as fill the buffer
        `out`, which is returned."""
        room = ctypes.create_string_buffer(length * count) if out is None else out
        result = result_of(room)
        if length < 1 or result.len % length != 0:
            raise ValueError('%d bytes are no whole blocks of %d' % (result.len, length))
        self._call('read_blocks', rank, offset, result.address,
                   byref(Blocks(result.len // length, length, stride, length)))
        return room.raw if out is None else out

    def write64(self, rank, offset, value):
        """Write a word of 8 bytes; `offset` is a multiple of 8. As write."""
        self._call('write64', rank, offset, value % _WORD)

    def read64(self, rank, offset):
        """Read a word, never a torn one."""
        return self._word('read64', rank, offset)

    def fetch_add(self, rank, offset, add):
        """Add to a word, atomically, modulo 2**64: its value before."""
        return self._word('fetch_add', rank, offset, add % _WORD)

    def compare_swap(self, rank, offset, expected, desired):
        """Put `desired` in a word's place if it was `expected`, atomically: its value before."""
        return self._word('compare_swap', rank, offset, expected % _WORD, desired % _WORD)

    def fetch_op(self, rank, offset, op, operand, type=Type.U64):
        """Combine a word with `operand` by an Op, atomically: its value before. `type` is Type.U64, I64 or F64,
        and says what the word and the operand are."""
        operand = _element(type, operand)
        old = _element(type, 0)
        self._call('fetch_op', rank, offset, op, type, byref(operand), byref(old))
        return old.value

    def _word(self, function, *arguments):
        value = c_uint64()
        self._call(function, *arguments, byref(value))
        return value.value


class _Atomic(Channel):
    """What one variable and an array of them have in common. `where` is the index of a variable, or nothing."""

    def _operation(self, function, where, *arguments):
        value = c_uint64()
        self._call(function, *where, *arguments, byref(value))
        return value.value

    def _fetch_op(self, where, op, operand, type):
        operand = _element(type, operand)
        old = _element(type, 0)
        self._call('fetch_op', *where, op, type, byref(operand), byref(old))
        return old.value


class AtomicVar(_Atomic):
    """A number from 0 to 2**64 - 1, at first 0, in the memory of rank `host`, that all change atomically."""
    _kind = 'atomic_var'

    def __init__(self, runtime, name, host=0, group=None, parent=None):
        super().__init__(runtime, name, group, parent, host)

    def load(self):
        """Its value."""
        return self._operation('load', ())

    def store(self, value):
        """Give it a value."""
        self._call('store', value % _WORD)

    def fetch_add(self, add=1):
        """Add to it, modulo 2**64: its value before."""
        return self._operation('fetch_add', (), add % _WORD)

    def exchange(self, value):
        """Give it a value: the one before."""
        return self._operation('exchange', (), value % _WORD)

    def compare_swap(self, expected, desired):
        """Give it the value `desired` if it has the value `expected`: the value before."""
        return self._operation('compare_swap', (), expected % _WORD, desired % _WORD)

    def fetch_op(self, op, operand, type=Type.U64):
        """Combine it with `operand` by an Op: the value before. `type` is Type.U64, I64 or F64, and says what its
        8 bytes and the operand are: fetch_op(Op.SUM, 0.5, Type.F64), fetch_op(Op.BOR, 1 << rank). ArgumentError:
        the Op is not defined on the type."""
        return self._fetch_op((), op, operand, type)

    @property
    def cached(self):
        """The value that the last refresh() of this process has found, at first 0. Local."""
        return loco.loco_atomic_var_cached(self._h)

    def refresh(self):
        """Read the value at its host into `cached`."""
        self._call('refresh')


class AtomicArray(_Atomic):
    """`count` such numbers under one name: all in the memory of rank `host`; by default number i in that of rank
    i % size. An index that there is not: ArgumentError."""
    _kind = 'atomic_array'

    def __init__(self, runtime, name, count, host=None, group=None, parent=None):
        super().__init__(runtime, name, group, parent, count, ATOMIC_STRIPED if host is None else host)

    def __len__(self):
        return loco.loco_atomic_array_count(self._h)

    def host_of(self, i):
        """The rank in whose memory number `i` is."""
        return self._call('host', i)

    def load(self, i):
        """The value of number `i`; the calls that follow are those of an AtomicVar, too."""
        return self._operation('load', (i,))

    def store(self, i, value):
        """Give it a value."""
        self._call('store', i, value % _WORD)

    def fetch_add(self, i, add=1):
        """Add to it, modulo 2**64: its value before."""
        return self._operation('fetch_add', (i,), add % _WORD)

    def exchange(self, i, value):
        """Give it a value: the one before."""
        return self._operation('exchange', (i,), value % _WORD)

    def compare_swap(self, i, expected, desired):
        """Give it the value `desired` if it has the value `expected`: the value before."""
        return self._operation('compare_swap', (i,), expected % _WORD, desired % _WORD)

    def fetch_op(self, i, op, operand, type=Type.U64):
        """Combine it with `operand` by an Op: the value before. As AtomicVar.fetch_op."""
        return self._fetch_op((i,), op, operand, type)

# SPDX-License-Identifier: BSD-3-Clause
"""Stores, transactions, trees and hashes, and pools."""
import contextlib
import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

from ._library import (ANY_HOST, BODY, OBJECT_NONE, STORE_VALUE_MAX, STORE_VISIT, TX_RELAXED, VALUE_MAX, VISIT,
                       Bytes, Conflict, Error, HashOptions, HashStats, MailboxOptions, NotFound, Source, Status,
                       StoreOptions, StoreRoom, StoreScavenged, StoreStats, TreeOptions, TreeStats, as_bytes, check,
                       error_of, fields_of, ints, loco, text)
from ._runtime import Channel, Handle
from ._streams import Mailbox

_WORD = 1 << 64
_CHUNK = 256                    # entries that a scan of a tree takes at a time


class Store(Channel):
    """Objects that transactions (Tx) read and change, in the memory of some members.

    bytes    of memory for values at each host
    objects  that there may be at each host (None: bytes / 64)
    roots    objects that are there from the start (None: 64)
    hosts    ranks that keep memory (None: all)
    threads  Tx that a member may have open at a time (None: 8)
    """
    _kind = 'store'

    def __init__(self, runtime, name, bytes, objects=None, roots=None, hosts=None, threads=None, group=None,
                 parent=None):
        array, n = ints(hosts)
        options = StoreOptions(bytes, objects or 0, roots or 0, array, n, threads or 0)
        super().__init__(runtime, name, group, parent, byref(options))

    def root(self, i):
        """Root number `i`, by which a newcomer finds all else."""
        root = loco.loco_store_root(self._h, i)
        if root == OBJECT_NONE:
            raise IndexError('%s has no root %d' % (self._what, i))
        return root

    def host_of(self, object):
        """The rank that keeps an object; -1: it is none of this store."""
        return loco.loco_store_host_of(self._h, object)

    def room(self, rank):
        """How full the host of that rank is, a dictionary: bytes, bytes_taken, objects, objects_taken."""
        room = StoreRoom()
        self._call('room', rank, byref(room))
        return fields_of(room)

    def scavenge(self):
        """Give back what members who have died had; a dictionary of what was found."""
        found = StoreScavenged()
        self._call('scavenge', byref(found))
        return fields_of(found)

    def stats(self):
        """What this process has done with it, a dictionary."""
        stats = StoreStats()
        loco.loco_store_stats(self._h, byref(stats))
        return fields_of(stats)


class _Transaction(contextlib.AbstractContextManager):
    """A transaction that is under way, for a with statement: commits at its end, aborts on an exception."""

    def __init__(self, tx):
        self._tx = tx

    def __exit__(self, kind, *_):
        if not self._tx._under_way:
            return
        if kind is None:
            self._tx.commit()
        else:
            self._tx.abort()


class Tx(Handle):
    """A handle for transactions on a store, for the thread that made it.

        with tx.begin():                    # Conflict where another one was in the way
            tx.write(a, tx.read(b))
        tx.run(lambda tx: transfer(tx, 5))  # begins again after conflicts

    The trees and hashes opened with it take part in its transactions.
    """
    _destroy = 'loco_tx_close'

    def __init__(self, store):
        address = c_void_p()
        check(loco.loco_tx_open(store._h, byref(address)), 'Tx')
        super().__init__(store, address.value, 'Tx of %s' % store._what)
        self.store = store
        self._thread = threading.get_ident()
        self._under_way = False
        self._room = ctypes.create_string_buffer(STORE_VALUE_MAX)

    @property
    def _h(self):
        if self._thread != threading.get_ident():
            raise Error(Status.ERR_STATE, '%s is for the thread that made it' % self._what)
        return super()._h

    def _call(self, function, *arguments):
        return check(getattr(loco, 'loco_tx_' + function)(self._h, *arguments), self._what)

    def begin(self, relaxed=False):
        """Begin a transaction; what it returns is for a with statement, or commit() or abort() end it.
        relaxed: reads need not be of one instant before the commit, which looks at all of them."""
        self._call('begin_as', TX_RELAXED if relaxed else 0)
        self._under_way = True
        return _Transaction(self)

    def commit(self):
        """Make all changes, or none; the transaction is over, whatever it raises."""
        self._under_way = False
        self._call('commit')

    def abort(self):
        """Give the transaction up: nothing was changed. Allowed where none is under way."""
        loco.loco_tx_abort(self._h)
        self._under_way = False

    def validate(self):
        """Conflict, unless all that was read is still so."""
        self._call('validate')

    def run(self, body):
        """Begin, call body(tx), commit; again after conflicts, with growing pauses, until it is committed.
        What the body returned last. Another exception of the body undoes the transaction and is raised. The
        body may be called many times: it must not change anything but through `tx`."""
        outcome = [None, None]

        @BODY
        def call(_, __):
            try:
                outcome[0] = body(self)
            except Conflict:
                return Status.ERR_CONFLICT
            except BaseException as why:
                outcome[1] = why
                return 1
            return Status.OK

        if self._under_way:
            raise Error(Status.ERR_STATE, '%s: a transaction is under way' % self._what)
        self._under_way = True
        try:
            status = loco.loco_tx_run(self._h, call, None)
        finally:
            self._under_way = False
        if outcome[1] is not None:
            raise outcome[1]
        check(status, self._what)
        return outcome[0]

    def read(self, object):
        """The value of an object, as bytes. NotFound: there is no such object now."""
        length = c_size_t()
        self._call('read_some', object, self._room, len(self._room), byref(length))
        return ctypes.string_at(self._room, length.value)

    def write(self, object, value):
        """Give an object a value: str, bytes or a buffer."""
        source = Source(value)
        self._call('write', object, source.address, source.len)

    def new(self, value, host=ANY_HOST):
        """Make an object with that value at a host (a rank): the object, a number."""
        source, made = Source(value), c_uint64()
        self._call('new', host, source.address, source.len, byref(made))
        return made.value

    def free(self, object):
        """Remove an object."""
        self._call('free', object)


class _Map(Handle):
    """What trees and hashes have in common: keys and values are bytes, or str, which is taken as UTF-8, or
    buffers. A call is part of the transaction that is under way in `tx`, or one by itself."""
    _kind = ''

    def __init__(self, tx, root, options, what):
        self._destroy = 'loco_%s_close' % self._kind
        address = c_void_p()
        if root is None:
            root = tx.store.root(0)
        check(getattr(loco, 'loco_%s_open' % self._kind)(tx._h, root, byref(options), byref(address)), what)
        super().__init__(tx, address.value, what)
        self.tx = tx
        self._room = ctypes.create_string_buffer(VALUE_MAX)

    @property
    def _h(self):
        self.tx._h              # the thread, and whether that is closed
        return super()._h

    def _status(self, function, *arguments):
        return getattr(loco, 'loco_%s_%s' % (self._kind, function))(self._h, *arguments)

    def _call(self, function, *arguments):
        return check(self._status(function, *arguments), self._what)

    def get(self, key, default=None):
        """The value of a key, as bytes, or `default`."""
        source, length = Source(key), c_size_t()
        status = self._status('get', Bytes(source.address, source.len), self._room, VALUE_MAX, byref(length))
        if status == Status.ERR_NOT_FOUND:
            return default
        check(status, self._what)
        return ctypes.string_at(self._room, length.value)

    def __getitem__(self, key):
        value = self.get(key)
        if value is None:
            raise NotFound(Status.ERR_NOT_FOUND, '%s, key %r' % (self._what, key))
        return value

    def __contains__(self, key):
        source, length = Source(key), c_size_t()
        status = self._status('get', Bytes(source.address, source.len), self._room, 0,
                              byref(length))
        return status != Status.ERR_NOT_FOUND and check(status, self._what) >= 0

    def _change(self, function, *strings):
        sources = [Source(one) for one in strings]
        return self._call(function, *(Bytes(one.address, one.len) for one in sources))

    def put(self, key, value):
        """Give a key that value, whether it is there or not."""
        self._change('put', key, value)

    def insert(self, key, value):
        """The same for a key that is not there: Exists."""
        self._change('insert', key, value)

    def replace(self, key, value):
        """And for one that is: NotFound."""
        self._change('update', key, value)

    def compare_set(self, key, expected, desired):
        """Give a key the value `desired` if it has the value `expected`: Differs, NotFound."""
        self._change('compare_set', key, expected, desired)

    def delete(self, key):
        """Remove a key: NotFound."""
        self._change('delete', key)

    __setitem__ = put
    __delitem__ = delete

    def add(self, key, by=1):
        """Add to a number, modulo 2**64: a value of 8 bytes, as the processor has it (int.from_bytes(value,
        sys.byteorder)); 0 where the key is not there. The number before."""
        source, before = Source(key), c_uint64()
        self._call('add', Bytes(source.address, source.len), by % _WORD, byref(before))
        return before.value

    def get_many(self, keys, room=1024):
        """The values of many keys at one instant, a list with None for those that are not there. Faster than
        one by one. A value of more than `room` bytes: ArgumentError."""
        sources = [Source(key) for key in keys]
        n = len(sources)
        values = ctypes.create_string_buffer(n * room)
        lens, statuses = (c_size_t * n)(), (c_int * n)()
        array = (Bytes * n)(*((one.address, one.len) for one in sources))
        self._call('get_many', n, array, values, room, lens, statuses)
        result = []
        for i in range(n):
            if statuses[i] == Status.ERR_NOT_FOUND:
                result.append(None)
                continue
            check(statuses[i], self._what)
            if lens[i] > room:
                raise error_of(Status.ERR_SIZE, '%s: a value has %d bytes, and room is %d' % (
                    self._what, lens[i], room))
            result.append(ctypes.string_at(ctypes.addressof(values) + i * room, lens[i]))
        return result

    def put_many(self, items):
        """Give many keys values, of a dictionary or pairs, all at one instant or none."""
        pairs = [(Source(key), Source(value)) for key, value in getattr(items, 'items', lambda: items)()]
        n = len(pairs)
        keys = (Bytes * n)(*((key.address, key.len) for key, _ in pairs))
        values = (Bytes * n)(*((value.address, value.len) for _, value in pairs))
        self._call('put_many', n, keys, values)

    def _scan(self, *arguments):
        """The entries that a scan shows, a list."""
        found, failed = [], []

        @VISIT
        def visit(_, key, value):
            try:
                found.append((as_bytes(key), as_bytes(value)))
            except BaseException as why:        # no memory
                failed.append(why)
                return 1
            return 0

        status = self._status('scan', *arguments, visit, None)
        if failed:
            raise failed[0]
        check(status, self._what)
        return found

    def __iter__(self):
        return self.keys()

    def keys(self, *arguments, **more):
        """The keys, as items has them."""
        return (key for key, _ in self.items(*arguments, **more))

    def values(self, *arguments, **more):
        """The values, as items has them."""
        return (value for _, value in self.items(*arguments, **more))


class Tree(_Map):
    """An ordered map in a store: Tree(tx, root), the root being an object, as store.root(i) (None:
    store.root(0)). It is made where the root has no value.

        tree['apples'] = '12'
        for key, value in tree.items('a', 'b'):
            ...
    """
    _kind = 'tree'

    def __init__(self, tx, root=None, leaf_bytes=0, inner_bytes=0, cached=0):
        super().__init__(tx, root, TreeOptions(leaf_bytes, inner_bytes, cached), 'Tree')

    def items(self, start=None, end=None, reverse=False, prefix=None):
        """The entries from key `start` on and below `end`, or of the keys that begin with `prefix`, in the
        order of keys, or from the last one down. It reads 256 at a time: within a transaction all is of one
        instant, else those of a leaf are."""
        start = None if start is None else bytes(_plain(start))
        end = None if end is None else bytes(_plain(end))
        if prefix is not None:
            if start is not None or end is not None:
                raise ValueError('items: a prefix, or start and end')
            start = bytes(_plain(prefix))
            end = prefix_end(start)
        return self._down(start, end) if reverse else self._up(start, end)

    def _up(self, start, end):
        while True:
            first, last = (_named(start), _named(end))
            found = self._scan(first, last, _CHUNK)
            yield from found
            if len(found) < _CHUNK:
                return
            start = found[-1][0] + b'\0'

    def _down(self, start, end):
        while True:
            found = self._before(end, start)
            yield from found
            if len(found) < _CHUNK:
                return
            end = found[-1][0]

    def _before(self, end, start):
        cursor, found = c_void_p(), []
        key, value = Bytes(), Bytes()
        check(loco.loco_tree_cursor_open(self._h, _named(end), byref(cursor)), self._what)
        try:
            if end is None:
                loco.loco_tree_cursor_seek_last(cursor)
            while len(found) < _CHUNK:
                status = loco.loco_tree_cursor_prev(cursor, byref(key), byref(value))
                if status == Status.ERR_NOT_FOUND:
                    break
                check(status, self._what)
                entry = as_bytes(key), as_bytes(value)
                if start is not None and entry[0] < start:
                    break
                found.append(entry)
        finally:
            loco.loco_tree_cursor_close(cursor)
        return found

    def stats(self):
        """What this handle has done with it, a dictionary."""
        stats = TreeStats()
        loco.loco_tree_stats(self._h, byref(stats))
        return fields_of(stats)


class Hash(_Map):
    """A hash table in a store: as Tree, in no order."""
    _kind = 'hash'

    def __init__(self, tx, root=None, leaf_bytes=0, cached=0):
        super().__init__(tx, root, HashOptions(leaf_bytes, cached), 'Hash')

    def items(self):
        """All entries, read at once, in no order."""
        return iter(self._scan())

    def stats(self):
        """What this handle has done with it, a dictionary."""
        stats = HashStats()
        loco.loco_hash_stats(self._h, byref(stats))
        return fields_of(stats)


def _plain(key):
    return key.encode() if isinstance(key, str) else key


def _named(key):
    """A pointer to a loco_bytes_t, or None; it keeps its bytes."""
    if key is None:
        return None
    source = Source(key)
    named = Bytes(source.address, source.len)
    pointer = ctypes.pointer(named)
    pointer.keep = source
    return pointer


def prefix_end(prefix):
    """The first key behind all that begin with `prefix`; None where there is none."""
    prefix = _plain(prefix).rstrip(b'\xff')
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


class Pool(Handle):
    """A pool of memory that an agent keeps (loco-agent start --pool NAME), with stores by name."""
    _destroy = 'loco_pool_close'

    def __init__(self, runtime, name):
        address = c_void_p()
        check(loco.loco_pool_open(runtime._h, text(name), byref(address)), 'Pool %s' % name)
        super().__init__(runtime, address.value, 'Pool %s' % name)
        self.runtime, self.name = runtime, name

    def store(self, name, bytes=None, objects=None, roots=None, threads=None, host=None):
        """Use the store of that name; it is made if it is not there and `bytes` is given. `host`: the machine
        whose agent makes it (None: this one)."""
        options = None
        if any(one is not None for one in (bytes, objects, roots, threads, host)):
            options = byref(StoreOptions(bytes or 0, objects or 0, roots or 0, None, 0, threads or 0,
                                         text(host)))
        address = c_void_p()
        what = 'Store %s of %s' % (name, self._what)
        check(loco.loco_store_open(self._h, text(name), options, byref(address)), what)
        store = Store.__new__(Store)
        Handle.__init__(store, self, address.value, what)
        store._destroy = 'loco_store_destroy'
        store.runtime, store.name, store.group = self.runtime, name, None
        return store

    def mailbox(self, name, receive=False, ring_bytes=None, host=None):
        """A Mailbox of that name, which is made if it is not there; with `receive`, this process is the one that
        receives, on the machine of the agent that keeps it. `host`: the machine whose agent makes it (None: this
        one). StateError: another process receives."""
        return Mailbox._of_pool(self, name, receive, byref(MailboxOptions(ring_bytes or 0, 0, text(host))))

    def remove(self, name):
        """Remove a store, or a mailbox, and all that is in it."""
        check(loco.loco_pool_remove(self._h, text(name)), '%s: %s' % (self._what, name))

    def list(self):
        """The stores that are there: name, dictionary of bytes, objects, roots, threads."""
        found = {}

        @STORE_VISIT
        def visit(_, name, options):
            made = options.contents
            found[name.decode()] = {'bytes': made.bytes, 'objects': made.objects, 'roots': made.roots,
                                    'threads': made.threads}
            return 0

        check(loco.loco_pool_list(self._h, visit, None), self._what)
        return found

    @property
    def alive(self):
        """Whether its agent runs, as far as is known here."""
        status = loco.loco_pool_alive(self._h)
        return status != Status.ERR_PEER_DEAD and check(status, self._what) >= 0

    @property
    def places(self):
        """How many processes it has room for at a time."""
        return loco.loco_pool_places(self._h)

    @property
    def place(self):
        """The place of this process, from 0."""
        return loco.loco_pool_place(self._h)

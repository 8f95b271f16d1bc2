# SPDX-License-Identifier: BSD-3-Clause
"""Key-value stores."""
import ctypes
from ctypes import byref, c_int, c_uint64

from ._library import (KEY_VISIT, Differs, KvstoreOptions, KvstoreStats, NotFound, Source, Status, check, error_of,
                       fields_of, loco)
from ._runtime import Channel


class KvStore(Channel):
    """A map from numbers, 0 to 2**64 - 1, to values of `value_bytes` bytes, in the memory of all members.

        kv = loco.KvStore(rt, 'votes', value_bytes=8, capacity=1000)
        rt.wait_ready()
        kv.insert(17, bytes(8))
        kv[17] = votes.to_bytes(8, 'little')        # NotFound: it was not inserted

    Values are bytes or buffers of that size, at most 65536: ArgumentError. The member that inserts a value keeps it;
    `capacity` says how many a member can keep.

    locks          that changes of keys take (None: 256)
    tracker_bytes  of each member's ring of messages about keys (None: 16 KiB)

    PeerDead: the value is kept by a dead member, or one holds or hosts the key's lock; others can still be read.
    """
    _kind = 'kvstore'

    def __init__(self, runtime, name, value_bytes, capacity, locks=None, tracker_bytes=None, group=None,
                 parent=None):
        self.value_bytes = value_bytes
        super().__init__(runtime, name, group, parent,
                         byref(KvstoreOptions(value_bytes, capacity, locks or 0, tracker_bytes or 0)))

    def _status(self, function, *arguments):
        return getattr(loco, 'loco_kvstore_' + function)(self._h, *arguments)

    def get(self, key, default=None):
        """The value of a key, as bytes, or `default`. It takes no lock."""
        value = ctypes.create_string_buffer(self.value_bytes)
        status = self._status('get', key, value, self.value_bytes)
        if status == Status.ERR_NOT_FOUND:
            return default
        check(status, self._what)
        return value.raw

    def __getitem__(self, key):
        value = self.get(key)
        if value is None:
            raise NotFound(Status.ERR_NOT_FOUND, '%s, key %r' % (self._what, key))
        return value

    def __contains__(self, key):
        return self.get(key) is not None

    def get_many(self, keys):
        """The values of many keys, a list with None for those that are not there; faster than one by one."""
        keys = (c_uint64 * len(keys))(*keys)
        n, size = len(keys), self.value_bytes
        values, statuses = ctypes.create_string_buffer(n * size), (c_int * n)()
        self._call('get_many', n, keys, values, size, statuses)
        return [values[i * size:(i + 1) * size] if statuses[i] == Status.OK else None for i in range(n)]

    def insert(self, key, value):
        """Give a key that is not there a value: Exists; Full: this member can keep no more."""
        source = Source(value)
        self._call('insert', key, source.address, source.len)

    def insert_many(self, items):
        """Insert many keys, of a dictionary or pairs, with one exchange for 250 of them: a list of those that were
        there already. Full: some of the others are inserted."""
        pairs = list(getattr(items, 'items', lambda: items)())
        n = len(pairs)
        keys, statuses = (c_uint64 * n)(*(key for key, _ in pairs)), (c_int * n)()
        values = [Source(value) for _, value in pairs]
        for one in values:
            if one.len != self.value_bytes:
                raise error_of(Status.ERR_SIZE, '%s: a value of %d bytes, and they have %d' % (
                    self._what, one.len, self.value_bytes))
        whole = b''.join(ctypes.string_at(one.address, one.len) for one in values)
        self._call('insert_many', n, keys, whole, self.value_bytes, statuses)
        return [keys[i] for i in range(n) if statuses[i] == Status.ERR_EXISTS]

    def update(self, key, value):
        """Give a key that is there another value: NotFound."""
        source = Source(value)
        self._call('update', key, source.address, source.len)

    def delete(self, key):
        """Remove a key: NotFound."""
        self._call('delete', key)

    __setitem__ = update
    __delitem__ = delete

    def compare_set(self, key, expected, desired):
        """Give a key the value `desired` if it has the value `expected`. Differs, whose `found` is the value; NotFound.
        """
        old, new = Source(expected), Source(desired)
        if old.len != new.len:
            raise ValueError('%s: values of %d and of %d bytes' % (self._what, old.len, new.len))
        found = ctypes.create_string_buffer(old.len)
        try:
            self._call('compare_set', key, old.address, new.address, old.len, found)
        except Differs as why:
            why.found = found.raw
            raise

    def keys(self):
        """The keys that this member knows, a list in no order: all whose insert had returned."""
        found, failed = [], []

        @KEY_VISIT
        def visit(_, key):
            try:
                found.append(key)
            except BaseException as why:        # no memory
                failed.append(why)
                return 1
            return 0

        status = self._status('iterate', visit, None)
        if failed:
            raise failed[0]
        check(status, self._what)
        return found

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        """How many keys this member knows."""
        return self.stats()['keys']

    def __bool__(self):
        return True

    def stats(self):
        """A dictionary: keys of all, values that are kept here, capacity, index_bytes, value_bytes, retries."""
        stats = KvstoreStats()
        loco.loco_kvstore_stats(self._h, byref(stats))
        return fields_of(stats)

# SPDX-License-Identifier: BSD-3-Clause
"""The two libraries: where they are, the types and functions of their headers, and errors.

The structures here mirror include/loco/*.h. tests/python/layout compares their sizes and offsets, and the
numbers, with what a C compiler makes of the headers.
"""
import ctypes
import enum
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint,
                    c_uint64, c_void_p)

API_VERSION = 0x000200          # of the headers that this file mirrors


class Status(enum.IntEnum):
    """What calls return, as enum loco_status."""
    OK = 0
    IN_PROGRESS = 1
    ERR_ARG = -1
    ERR_RANGE = -2
    ERR_STATE = -3
    ERR_NAME = -4
    ERR_MISMATCH = -5
    ERR_SHARED = -6
    ERR_ATTACH = -7
    ERR_NO_MEMORY = -20
    ERR_SYSTEM = -21
    ERR_UNSUPPORTED = -22
    ERR_TIMEOUT = -23
    ERR_AGAIN = -24
    ERR_DAMAGED = -25
    ERR_NOT_FOUND = -30
    ERR_EXISTS = -31
    ERR_FULL = -32
    ERR_SIZE = -33
    ERR_DIFFERS = -34
    ERR_CONFLICT = -35
    ERR_CLOSED = -39
    ERR_PEER_DEAD = -40
    ERR_PROTOCOL = -41
    ERR_PARTITIONED = -42


class Fence(enum.IntEnum):
    """How far a fence reaches, as enum loco_fence_scope."""
    NONE = 0
    ORDER = 1
    PAIR = 2
    THREAD = 3
    PROCESS = 4


class Op(enum.IntEnum):
    """What combines two elements, as enum loco_op."""
    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    BAND = 4
    BOR = 5
    BXOR = 6
    LAND = 7
    LOR = 8
    LXOR = 9
    MINLOC = 10
    MAXLOC = 11
    REPLACE = 12
    NO_OP = 13


class Type(enum.IntEnum):
    """Of elements: those of enum loco_type that numbers of Python and arrays of numpy have."""
    I8 = 0
    I16 = 1
    I32 = 2
    I64 = 3
    U8 = 4
    U16 = 5
    U32 = 6
    U64 = 7
    F32 = 8
    F64 = 9
    C32 = 11
    C64 = 12
    BOOL8 = 15


class Level(enum.IntEnum):
    """Of a topic, as enum loco_topic_level; each includes the ones before it."""
    UNORDERED = 0               # each publisher's samples in order
    ATOMIC = 1                  # one order for all
    KEPT = 2                    # the last ones are kept for late subscribers
    LOGGED = 3                  # and all appended to a file


class Sync(enum.IntEnum):
    """When a log file is synced to the disk, as enum loco_topic_sync."""
    BATCH = 0
    SECOND = 1
    NEVER = 2


class Event(enum.IntEnum):
    """Of a topic, as enum loco_topic_event, and what the value is."""
    SUBSCRIBED = 0              # the kept samples have been handed out: their number
    DEADLINE_MISSED = 1         # no sample came for the deadline: how often so far
    MEMBER_GONE = 2             # a member has died, or is taken for dead: its rank
    LOG_ENDED = 3               # the log file failed: the number of its last record
    MEMBER_LEFT = 4             # a member has closed the topic, or its runtime: its rank
    ENDED = 5                   # the topic has ended for this member: the status of its calls


FOREVER = -1
ALL_PEERS = -1
ANY_HOST = -1
OBJECT_NONE = 0
VALUE_MAX = 64000               # of trees and hashes
STORE_VALUE_MAX = 65536
QUEUE_FENCE = 1
TX_RELAXED = 1
MULTICAST_UNORDERED = 1
MULTICAST_COPY = 2
ATOMIC_STRIPED = -1
MAILBOX_RECEIVE = 1
VIEW_MINORITY = 1
VIEW_MAJORITY = 2


# ---- errors ----

class Error(Exception):
    """A call of the library failed.

    status  the number that it returned, a Status where that has it
    text    the library's words for it; the cause is in the library's log, which goes to stderr
    """

    def __init__(self, status, what=''):
        try:
            status = Status(status)
        except ValueError:
            pass
        self.status = status
        self.text = loco.loco_strerror(status).decode()
        self.what = what
        super().__init__('%s: %s' % (what, self.text) if what else self.text)

    def __str__(self):
        return self.args[0]

    def __reduce__(self):
        return type(self), (int(self.status), self.what)


class ArgumentError(Error, ValueError):
    """LOCO_ERR_ARG, _RANGE, _SIZE, _NAME: an argument is outside what the call documents."""


class StateError(Error):
    """LOCO_ERR_STATE: not allowed now."""


class Mismatch(Error):
    """LOCO_ERR_MISMATCH: members made a channel of one name differently."""


class NoMemory(Error, MemoryError):
    """LOCO_ERR_NO_MEMORY: less memory is left than was asked for."""


class Timeout(Error, TimeoutError):
    """LOCO_ERR_TIMEOUT: timed out."""


class Again(Error):
    """LOCO_ERR_AGAIN: would have to wait, and was asked not to."""


class NotFound(Error, KeyError):
    """LOCO_ERR_NOT_FOUND: there is no such key, or object."""


class Exists(Error):
    """LOCO_ERR_EXISTS: the key is there already."""


class Full(Error):
    """LOCO_ERR_FULL: no room is left."""


class Differs(Error):
    """LOCO_ERR_DIFFERS: the value is not the one that was expected."""


class Conflict(Error):
    """LOCO_ERR_CONFLICT: another transaction was in the way; nothing was changed."""


class Closed(Error):
    """LOCO_ERR_CLOSED: the queue was shut down, and is empty or lets nothing in."""


class PeerDead(Error):
    """LOCO_ERR_PEER_DEAD: a process that the call needs has ended."""


class Partitioned(Error):
    """LOCO_ERR_PARTITIONED: this process is cut off from most of its view, or was taken for dead by it."""


ERRORS = {
    Status.ERR_ARG: ArgumentError,
    Status.ERR_RANGE: ArgumentError,
    Status.ERR_SIZE: ArgumentError,
    Status.ERR_NAME: ArgumentError,
    Status.ERR_STATE: StateError,
    Status.ERR_MISMATCH: Mismatch,
    Status.ERR_NO_MEMORY: NoMemory,
    Status.ERR_TIMEOUT: Timeout,
    Status.ERR_AGAIN: Again,
    Status.ERR_NOT_FOUND: NotFound,
    Status.ERR_EXISTS: Exists,
    Status.ERR_FULL: Full,
    Status.ERR_DIFFERS: Differs,
    Status.ERR_CONFLICT: Conflict,
    Status.ERR_CLOSED: Closed,
    Status.ERR_PEER_DEAD: PeerDead,
    Status.ERR_PARTITIONED: Partitioned,
}


def error_of(status, what=''):
    """The exception for a status."""
    return ERRORS.get(status, Error)(status, what)


def check(status, what=''):
    """Raise the exception of a negative status; else return it."""
    if status < 0:
        raise error_of(status, what)
    return status


# ---- structures ----

class Bytes(Structure):
    c_name = 'loco_bytes_t'
    _fields_ = [('data', c_void_p), ('len', c_size_t)]


class Blocks(Structure):
    c_name = 'loco_blocks_t'
    _fields_ = [('count', c_size_t), ('len', c_size_t), ('stride', c_int64), ('local_stride', c_int64)]


ALLGATHER = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Exchange(Structure):
    c_name = 'struct loco_exchange'
    _fields_ = [('ctx', c_void_p), ('rank', c_int), ('size', c_int), ('allgather', ALLGATHER)]


class AttachOptions(Structure):
    c_name = 'loco_attach_options_t'
    _fields_ = [('log', LOG), ('log_ctx', c_void_p), ('settings', POINTER(c_char_p))]


class StoreOptions(Structure):
    c_name = 'loco_store_options_t'
    _fields_ = [('bytes', c_uint64), ('objects', c_uint64), ('roots', c_uint64), ('hosts', POINTER(c_int)),
                ('nhosts', c_int), ('threads', c_int), ('host', c_char_p)]


class StoreRoom(Structure):
    c_name = 'loco_store_room_t'
    _fields_ = [(name, c_uint64) for name in ('bytes', 'bytes_taken', 'objects', 'objects_taken')]


class StoreScavenged(Structure):
    c_name = 'loco_store_scavenged_t'
    _fields_ = [(name, c_uint64) for name in ('undone', 'objects', 'blocks', 'bytes', 'cells', 'left')]


class StoreStats(Structure):
    c_name = 'loco_store_stats_t'
    _fields_ = [(name, c_uint64) for name in ('commits', 'single', 'read_only', 'conflicts',
                                              'aborted_by_others', 'helped', 'suspected', 'retries')]


class TreeOptions(Structure):
    c_name = 'loco_tree_options_t'
    _fields_ = [(name, c_size_t) for name in ('leaf_bytes', 'inner_bytes', 'cached')]


class HashOptions(Structure):
    c_name = 'loco_hash_options_t'
    _fields_ = [(name, c_size_t) for name in ('leaf_bytes', 'cached')]


class TreeStats(Structure):
    c_name = 'loco_tree_stats_t'
    _fields_ = [(name, c_uint64) for name in ('lookups', 'stale', 'walked_right', 'ahead', 'splits',
                                              'removed', 'hot')]


class HashStats(Structure):
    c_name = 'loco_hash_stats_t'
    _fields_ = TreeStats._fields_


class Delivery(Structure):
    c_name = 'loco_delivery_t'
    _fields_ = [('data', c_void_p), ('bytes', c_size_t), ('sender', c_int), ('number', c_uint64)]


HANDLER = CFUNCTYPE(None, c_void_p, POINTER(Delivery), c_int)


class MulticastOptions(Structure):
    c_name = 'loco_multicast_options_t'
    _fields_ = [('senders', POINTER(c_int)), ('nsenders', c_int), ('slots', c_int), ('slot_bytes', c_size_t),
                ('flags', c_int), ('handler', HANDLER), ('arg', c_void_p)]


class MulticastStats(Structure):
    c_name = 'loco_multicast_stats_t'
    _fields_ = ([(name, c_uint64) for name in ('sent', 'send_batches', 'nulls', 'null_batches',
                                               'receive_batches', 'delivered', 'deliver_batches', 'pushes',
                                               'full')]
                + [('slowest', c_int), ('slowest_full', c_uint64)])


class MailboxOptions(Structure):
    c_name = 'loco_mailbox_options_t'
    _fields_ = [('ring_bytes', c_size_t), ('straight', c_size_t), ('host', c_char_p)]


class MailboxStats(Structure):
    c_name = 'loco_mailbox_stats_t'
    _fields_ = [(name, c_uint64) for name in ('sent', 'told', 'full', 'received', 'read', 'lost')]


class KvstoreOptions(Structure):
    c_name = 'loco_kvstore_options_t'
    _fields_ = [('value_bytes', c_size_t), ('capacity', c_uint64), ('locks', c_int), ('tracker_bytes', c_size_t)]


class KvstoreStats(Structure):
    c_name = 'loco_kvstore_stats_t'
    _fields_ = [(name, c_uint64) for name in ('keys', 'kept', 'capacity', 'index_bytes', 'value_bytes', 'retries')]


VIEW_CHANGED = CFUNCTYPE(None, c_void_p, c_uint64, POINTER(c_int), c_int)
VIEW_SAVE = CFUNCTYPE(c_size_t, c_void_p, c_uint64, c_void_p, c_size_t)
VIEW_LOAD = CFUNCTYPE(None, c_void_p, c_uint64, c_void_p, c_size_t)


class ViewOptions(Structure):
    c_name = 'loco_view_options_t'
    _fields_ = [('flags', c_int), ('multicasts', c_int), ('changed', VIEW_CHANGED), ('arg', c_void_p),
                ('outside', c_uint64), ('save', VIEW_SAVE), ('load', VIEW_LOAD), ('chunk', c_size_t),
                ('seats', c_int)]


class Sample(Structure):
    c_name = 'loco_sample_t'
    _fields_ = [('data', c_void_p), ('bytes', c_size_t), ('publisher', c_int), ('kept', c_int),
                ('number', c_uint64), ('record', c_uint64)]


TOPIC_HANDLER = CFUNCTYPE(None, c_void_p, POINTER(Sample), c_int)
TOPIC_EVENT = CFUNCTYPE(None, c_void_p, c_int, c_int64)


class TopicOptions(Structure):
    c_name = 'loco_topic_options_t'
    _fields_ = [('publishers', POINTER(c_int)), ('npublishers', c_int), ('level', c_int), ('slots', c_int),
                ('slot_bytes', c_size_t), ('subscribe', c_int), ('handler', TOPIC_HANDLER), ('event', TOPIC_EVENT),
                ('arg', c_void_p), ('history', c_int), ('history_bytes', c_size_t), ('deadline_ns', c_int64),
                ('log', c_char_p), ('sync', c_int), ('view', c_int)]


STRUCTURES = (Bytes, Blocks, Exchange, AttachOptions, StoreOptions, StoreRoom, StoreScavenged, StoreStats,
              TreeOptions, HashOptions, TreeStats, HashStats, Delivery, MulticastOptions, MulticastStats,
              MailboxOptions, MailboxStats, KvstoreOptions, KvstoreStats, ViewOptions, Sample, TopicOptions)

# Numbers of this file, by their names in C.
NUMBERS = {
    'LOCO_API_VERSION': API_VERSION,
    'LOCO_FOREVER': FOREVER,
    'LOCO_ALL_PEERS': ALL_PEERS,
    'LOCO_ANY_HOST': ANY_HOST,
    'LOCO_OBJECT_NONE': OBJECT_NONE,
    'LOCO_TREE_VALUE_MAX': VALUE_MAX,
    'LOCO_HASH_VALUE_MAX': VALUE_MAX,
    'LOCO_STORE_VALUE_MAX': STORE_VALUE_MAX,
    'LOCO_QUEUE_FENCE': QUEUE_FENCE,
    'LOCO_TX_RELAXED': TX_RELAXED,
    'LOCO_MULTICAST_UNORDERED': MULTICAST_UNORDERED,
    'LOCO_MULTICAST_COPY': MULTICAST_COPY,
    'LOCO_ATOMIC_STRIPED': ATOMIC_STRIPED,
    'LOCO_MAILBOX_RECEIVE': MAILBOX_RECEIVE,
    'LOCO_VIEW_MINORITY': VIEW_MINORITY,
    'LOCO_VIEW_MAJORITY': VIEW_MAJORITY,
}
NUMBERS.update(('LOCO_' + one.name, one.value) for one in Status)
NUMBERS.update(('LOCO_OP_' + one.name, one.value) for one in Op)
NUMBERS.update(('LOCO_TYPE_' + one.name, one.value) for one in Type)
NUMBERS.update(('LOCO_ORDER' if one is Fence.ORDER else 'LOCO_FENCE_' + one.name, one.value) for one in Fence)


NUMBERS.update(('LOCO_TOPIC_' + one.name, one.value) for enumeration in (Level, Event) for one in enumeration)
NUMBERS.update(('LOCO_TOPIC_SYNC_' + one.name, one.value) for one in Sync)


def fields_of(structure):
    """The numbers of a structure by their names."""
    return {name: getattr(structure, name) for name, _ in structure._fields_}


# ---- functions: result, name without loco_, arguments ----

VISIT = CFUNCTYPE(c_int, c_void_p, Bytes, Bytes)
KEY_VISIT = CFUNCTYPE(c_int, c_void_p, c_uint64)
BODY = CFUNCTYPE(c_int, c_void_p, c_void_p)
STORE_VISIT = CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(StoreOptions))

_p, _u64, _i64, _out64 = c_void_p, c_uint64, c_int64, POINTER(c_uint64)
_create = [_p, c_char_p, c_char_p, _p]

FUNCTIONS = [
    (c_uint, 'api_version', []),
    (c_char_p, 'strerror', [c_int]),
    (c_int, 'fence', [_p, c_int, c_int]),

    (c_int, 'runtime_attach', [c_char_p, POINTER(AttachOptions), POINTER(_p)]),
    (None, 'runtime_close', [_p]),
    (c_int, 'runtime_wait_ready', [_p, _i64]),
    (c_int, 'runtime_wait_ready_below', [_p, c_char_p, _i64]),

    (_p, 'everyone', [_p]),
    (c_int, 'group_meet', [_p, POINTER(Exchange), POINTER(_p)]),
    (c_int, 'group_subset', [_p, c_int, POINTER(c_int), POINTER(_p)]),
    (None, 'group_destroy', [_p]),
    (c_int, 'group_size', [_p]),
    (c_int, 'group_rank', [_p]),
    (c_int, 'group_alive', [_p, c_int]),

    (c_int, 'barrier_create', _create + [POINTER(_p)]),
    (None, 'barrier_destroy', [_p]),
    (c_int, 'barrier_wait_timed', [_p, _i64]),

    (c_int, 'collective_create', _create + [c_size_t, POINTER(_p)]),
    (None, 'collective_destroy', [_p]),
    (c_int, 'collective_broadcast_timed', [_p, c_int, _p, c_size_t, _i64]),
    (c_int, 'collective_reduce_timed', [_p, c_int, c_int, c_int, _p, _p, c_size_t, _i64]),
    (c_int, 'collective_allreduce_timed', [_p, c_int, c_int, _p, _p, c_size_t, _i64]),

    (c_int, 'ticket_lock_create', _create + [c_int, POINTER(_p)]),
    (None, 'ticket_lock_destroy', [_p]),
    (c_int, 'ticket_lock_acquire_timed', [_p, _i64]),
    (c_int, 'ticket_lock_try_acquire', [_p]),
    (c_int, 'ticket_lock_release', [_p, c_int, c_int]),
    (c_int, 'ticket_lock_holder', [_p, POINTER(c_int)]),

    (c_int, 'rw_lock_create', _create + [c_int, POINTER(_p)]),
    (None, 'rw_lock_destroy', [_p]),
    (c_int, 'rw_lock_acquire_shared_timed', [_p, _i64]),
    (c_int, 'rw_lock_acquire_exclusive_timed', [_p, _i64]),
    (c_int, 'rw_lock_try_shared', [_p]),
    (c_int, 'rw_lock_try_exclusive', [_p]),
    (c_int, 'rw_lock_release_shared', [_p, c_int, c_int]),
    (c_int, 'rw_lock_release_exclusive', [_p, c_int, c_int]),
    (c_int, 'rw_lock_holder', [_p, POINTER(c_int)]),

    (c_int, 'rw_group_create', _create + [c_int, POINTER(_p)]),
    (None, 'rw_group_destroy', [_p]),
    (c_int, 'rw_group_acquire_shared_timed', [_p, c_int, c_bool, _i64]),
    (c_int, 'rw_group_acquire_exclusive_timed', [_p, c_int, c_bool, _i64]),
    (c_int, 'rw_group_acquire_all_timed', [_p, c_bool, _i64]),
    (c_int, 'rw_group_release_shared', [_p, c_int, c_int, c_int]),
    (c_int, 'rw_group_release_exclusive', [_p, c_int, c_int, c_int]),
    (c_int, 'rw_group_release_all', [_p, c_int, c_int]),

    (c_int, 'mailbox_create', _create + [c_int, POINTER(MailboxOptions), POINTER(_p)]),
    (c_int, 'mailbox_open', [_p, c_char_p, POINTER(MailboxOptions), c_int, POINTER(_p)]),
    (None, 'mailbox_destroy', [_p]),
    (c_int, 'mailbox_send_timed', [_p, _i64, _p, c_size_t]),
    (c_int, 'mailbox_try_send', [_p, _p, c_size_t]),
    (c_int, 'mailbox_receive', [_p, _i64, _p, c_size_t, POINTER(c_int), POINTER(c_size_t)]),
    (c_int, 'mailbox_try_receive', [_p, _p, c_size_t, POINTER(c_int), POINTER(c_size_t)]),
    (None, 'mailbox_stats', [_p, POINTER(MailboxStats)]),

    (c_int, 'queue_create', _create + [c_size_t, _u64, c_int, POINTER(_p)]),
    (None, 'queue_destroy', [_p]),
    (c_int, 'queue_push', [_p, _p]),
    (c_int, 'queue_try_push', [_p, _p]),
    (c_int, 'queue_push_timed', [_p, _p, _i64]),
    (c_int, 'queue_pop', [_p, _p]),
    (c_int, 'queue_try_pop', [_p, _p]),
    (c_int, 'queue_pop_timed', [_p, _p, _i64]),
    (c_int, 'queue_wait_any', [POINTER(_p), c_int, _i64, POINTER(c_int)]),
    (c_int, 'queue_close', [_p]),
    (c_int, 'queue_size', [_p, _out64]),

    (c_int, 'region_create', _create + [c_size_t, POINTER(_p)]),
    (None, 'region_destroy', [_p]),
    (_p, 'region_local', [_p]),
    (c_size_t, 'region_len', [_p]),
    (c_int, 'region_write', [_p, c_int, _u64, _p, c_size_t]),
    (c_int, 'region_read', [_p, c_int, _u64, _p, c_size_t]),
    (c_int, 'region_write_blocks', [_p, c_int, _u64, _p, POINTER(Blocks)]),
    (c_int, 'region_read_blocks', [_p, c_int, _u64, _p, POINTER(Blocks)]),
    (c_int, 'region_write64', [_p, c_int, _u64, _u64]),
    (c_int, 'region_read64', [_p, c_int, _u64, _out64]),
    (c_int, 'region_fetch_add', [_p, c_int, _u64, _u64, _out64]),
    (c_int, 'region_compare_swap', [_p, c_int, _u64, _u64, _u64, _out64]),
    (c_int, 'region_fetch_op', [_p, c_int, _u64, c_int, c_int, _p, _p]),

    (c_int, 'atomic_var_create', _create + [c_int, POINTER(_p)]),
    (None, 'atomic_var_destroy', [_p]),
    (c_int, 'atomic_var_load', [_p, _out64]),
    (c_int, 'atomic_var_store', [_p, _u64]),
    (c_int, 'atomic_var_fetch_add', [_p, _u64, _out64]),
    (c_int, 'atomic_var_exchange', [_p, _u64, _out64]),
    (c_int, 'atomic_var_compare_swap', [_p, _u64, _u64, _out64]),
    (c_int, 'atomic_var_fetch_op', [_p, c_int, c_int, _p, _p]),

    (_u64, 'atomic_var_cached', [_p]),
    (c_int, 'atomic_var_refresh', [_p]),

    (c_int, 'atomic_array_create', _create + [_u64, c_int, POINTER(_p)]),
    (None, 'atomic_array_destroy', [_p]),
    (_u64, 'atomic_array_count', [_p]),
    (c_int, 'atomic_array_host', [_p, _u64]),
    (c_int, 'atomic_array_load', [_p, _u64, _out64]),
    (c_int, 'atomic_array_store', [_p, _u64, _u64]),
    (c_int, 'atomic_array_fetch_add', [_p, _u64, _u64, _out64]),
    (c_int, 'atomic_array_exchange', [_p, _u64, _u64, _out64]),
    (c_int, 'atomic_array_compare_swap', [_p, _u64, _u64, _u64, _out64]),
    (c_int, 'atomic_array_fetch_op', [_p, _u64, c_int, c_int, _p, _p]),

    (c_int, 'kvstore_create', _create + [POINTER(KvstoreOptions), POINTER(_p)]),
    (None, 'kvstore_destroy', [_p]),
    (c_int, 'kvstore_get', [_p, _u64, _p, c_size_t]),
    (c_int, 'kvstore_get_many', [_p, c_size_t, _out64, _p, c_size_t, POINTER(c_int)]),
    (c_int, 'kvstore_insert', [_p, _u64, _p, c_size_t]),
    (c_int, 'kvstore_insert_many', [_p, c_size_t, _out64, _p, c_size_t, POINTER(c_int)]),
    (c_int, 'kvstore_update', [_p, _u64, _p, c_size_t]),
    (c_int, 'kvstore_delete', [_p, _u64]),
    (c_int, 'kvstore_compare_set', [_p, _u64, _p, _p, c_size_t, _p]),
    (c_int, 'kvstore_iterate', [_p, KEY_VISIT, _p]),
    (None, 'kvstore_stats', [_p, POINTER(KvstoreStats)]),

    (c_int, 'store_create', _create + [POINTER(StoreOptions), POINTER(_p)]),
    (c_int, 'store_open', [_p, c_char_p, POINTER(StoreOptions), POINTER(_p)]),
    (None, 'store_destroy', [_p]),
    (_u64, 'store_root', [_p, _u64]),
    (c_int, 'store_host_of', [_p, _u64]),
    (c_int, 'store_room', [_p, c_int, POINTER(StoreRoom)]),
    (c_int, 'store_scavenge', [_p, POINTER(StoreScavenged)]),
    (None, 'store_stats', [_p, POINTER(StoreStats)]),

    (c_int, 'tx_open', [_p, POINTER(_p)]),
    (None, 'tx_close', [_p]),
    (c_int, 'tx_begin_as', [_p, c_uint]),
    (c_int, 'tx_read_some', [_p, _u64, _p, c_size_t, POINTER(c_size_t)]),
    (c_int, 'tx_write', [_p, _u64, _p, c_size_t]),
    (c_int, 'tx_new', [_p, c_int, _p, c_size_t, _out64]),
    (c_int, 'tx_free', [_p, _u64]),
    (c_int, 'tx_commit', [_p]),
    (None, 'tx_abort', [_p]),
    (c_int, 'tx_validate', [_p]),
    (c_int, 'tx_run', [_p, BODY, _p]),

    (c_int, 'tree_open', [_p, _u64, POINTER(TreeOptions), POINTER(_p)]),
    (c_int, 'hash_open', [_p, _u64, POINTER(HashOptions), POINTER(_p)]),
    (c_int, 'tree_scan', [_p, POINTER(Bytes), POINTER(Bytes), _u64, VISIT, _p]),
    (c_int, 'hash_scan', [_p, VISIT, _p]),
    (None, 'tree_stats', [_p, POINTER(TreeStats)]),
    (None, 'hash_stats', [_p, POINTER(HashStats)]),
    (c_int, 'tree_cursor_open', [_p, POINTER(Bytes), POINTER(_p)]),
    (None, 'tree_cursor_close', [_p]),
    (None, 'tree_cursor_seek_last', [_p]),
    (c_int, 'tree_cursor_prev', [_p, POINTER(Bytes), POINTER(Bytes)]),

    (c_int, 'multicast_create', _create + [POINTER(MulticastOptions), POINTER(_p)]),
    (None, 'multicast_destroy', [_p]),
    (c_int, 'multicast_post', [_p, _p, c_size_t, _out64]),
    (c_int, 'multicast_try_post', [_p, _p, c_size_t, _out64]),
    (c_int, 'multicast_is_delivered', [_p, _u64]),
    (c_int, 'multicast_wait_delivered', [_p, _u64]),
    (c_int, 'multicast_poll', [_p, POINTER(Delivery), c_int, POINTER(c_int)]),
    (c_int, 'multicast_next', [_p, _i64, POINTER(Delivery), c_int, POINTER(c_int)]),
    (c_int, 'multicast_delivered_by', [_p, c_int, c_int, _out64]),
    (None, 'multicast_stats', [_p, POINTER(MulticastStats)]),

    (c_int, 'view_create', _create + [POINTER(ViewOptions), POINTER(_p)]),
    (None, 'view_destroy', [_p]),
    (c_int, 'view_multicast', [_p, c_char_p, POINTER(MulticastOptions), POINTER(_p)]),
    (c_int, 'view_members', [_p, _out64, POINTER(c_int), POINTER(c_int)]),
    (_u64, 'view_of', [_p, _p, _u64]),
    (c_int, 'view_join', [_p, _i64]),
    (c_int, 'view_leave', [_p, _i64]),
    (c_int, 'view_wait', [_p, _u64, _i64]),

    (c_int, 'topic_create', _create + [POINTER(TopicOptions), POINTER(_p)]),
    (None, 'topic_destroy', [_p]),
    (c_int, 'topic_post', [_p, _p, c_size_t, _out64]),
    (c_int, 'topic_try_post', [_p, _p, c_size_t, _out64]),
    (c_int, 'topic_wait_delivered', [_p, _u64]),
    (c_int, 'topic_subscribe', [_p]),
    (c_int, 'topic_logged', [_p, _out64, _out64]),
    (c_int, 'topic_wait_synced', [_p, _u64, _i64]),
    (c_int, 'topic_replay', [_p, c_char_p, _u64, TOPIC_HANDLER, _p]),

    (c_int, 'pool_open', [_p, c_char_p, POINTER(_p)]),
    (None, 'pool_close', [_p]),
    (c_int, 'pool_alive', [_p]),
    (c_int, 'pool_places', [_p]),
    (c_int, 'pool_place', [_p]),
    (c_int, 'pool_remove', [_p, c_char_p]),
    (c_int, 'pool_list', [_p, STORE_VISIT, _p]),
]
# Trees and hashes have these alike.
for _kind in ('tree', 'hash'):
    FUNCTIONS += [
        (None, _kind + '_close', [_p]),
        (c_int, _kind + '_get', [_p, Bytes, _p, c_size_t, POINTER(c_size_t)]),
        (c_int, _kind + '_put', [_p, Bytes, Bytes]),
        (c_int, _kind + '_insert', [_p, Bytes, Bytes]),
        (c_int, _kind + '_update', [_p, Bytes, Bytes]),
        (c_int, _kind + '_delete', [_p, Bytes]),
        (c_int, _kind + '_compare_set', [_p, Bytes, Bytes, Bytes]),
        (c_int, _kind + '_add', [_p, Bytes, _u64, _out64]),
        (c_int, _kind + '_get_many', [_p, c_size_t, POINTER(Bytes), _p, c_size_t, POINTER(c_size_t),
                                      POINTER(c_int)]),
        (c_int, _kind + '_put_many', [_p, c_size_t, POINTER(Bytes), POINTER(Bytes)]),
    ]
MPI_FUNCTIONS = [
    (c_int, 'runtime_open_mpi', [_p, POINTER(_p)]),
    (None, 'runtime_close_mpi', [_p]),
    (c_int, 'exchange_mpi', [_p, POINTER(Exchange)]),
    (c_int, 'win_region', [_p, POINTER(_p)]),
]


# ---- where the libraries are ----

def _folders():
    """Folders to look in before the loader does: LOCO_LIBRARY's, LD_LIBRARY_PATH's, and those beside an
    installation, which has this file in PREFIX/lib/python3.X/site-packages/loco."""
    chosen = os.environ.get('LOCO_LIBRARY')
    if chosen:
        yield chosen if os.path.isdir(chosen) else os.path.dirname(chosen)
        return
    for folder in os.environ.get('LD_LIBRARY_PATH', '').split(':'):
        if folder:
            yield folder
    folder = os.path.dirname(os.path.abspath(__file__))
    for _ in range(5):
        folder = os.path.dirname(folder)
        yield folder
        yield os.path.join(folder, 'lib')


def _load(name):
    for folder in _folders():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return ctypes.CDLL(path)
    if os.environ.get('LOCO_LIBRARY'):
        raise ImportError('LOCO_LIBRARY is %s, where there is no %s' % (os.environ['LOCO_LIBRARY'], name))
    try:
        return ctypes.CDLL(name)
    except OSError as why:
        raise ImportError('%s (set LOCO_LIBRARY to the folder that has %s, as PREFIX/lib)' % (why, name)) \
            from None


def _declare(library, functions):
    for result, name, arguments in functions:
        function = getattr(library, 'loco_' + name)
        function.restype, function.argtypes = result, arguments


def _load_core():
    library = _load('libloco.so.0')
    library.loco_api_version.restype = c_uint
    found = library.loco_api_version()
    # Before release 1.0 the middle number says what is compatible.
    if found >> 8 != API_VERSION >> 8:
        raise ImportError('this package is for version %d.%d of libloco, and %s is of %d.%d' % (
            API_VERSION >> 16, API_VERSION >> 8 & 255, library._name, found >> 16, found >> 8 & 255))
    _declare(library, FUNCTIONS)
    return library


loco = _load_core()
_mpi = []


def loco_mpi():
    """libloco_mpi, loaded when it is first wanted: programs without MPI need none."""
    if not _mpi:
        library = _load('libloco_mpi.so.0')
        _declare(library, MPI_FUNCTIONS)
        _mpi.append(library)
    return _mpi[0]


# ---- arguments ----

def text(name):
    """A name as the library wants it; None stays NULL."""
    return name.encode() if isinstance(name, str) else name


def nanoseconds(seconds):
    """A timeout: seconds, or None for no limit."""
    if seconds is None:
        return FOREVER
    if seconds < 0:
        raise ValueError('a timeout of %r s: give None for no limit' % (seconds,))
    return int(seconds * 1e9)


def ints(numbers):
    """An array of C ints and its length, of None NULL and 0."""
    if numbers is None:
        return None, 0
    numbers = list(numbers)
    return (c_int * len(numbers))(*numbers), len(numbers)


class Source:
    """The address and length of bytes to be read: str (as UTF-8), bytes, or anything with a contiguous
    buffer, as a numpy array. They are in place as long as this object is."""
    __slots__ = ('keep', 'address', 'len')

    def __init__(self, value):
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            self.keep = c_char_p(value)
            self.address = ctypes.cast(self.keep, c_void_p).value
            self.len = len(value)
            return
        view = memoryview(value)
        if not view.c_contiguous:
            raise ValueError('the buffer is not contiguous: copy it (numpy.ascontiguousarray)')
        self.len = view.nbytes
        if self.len == 0:
            self.keep, self.address = view, None
        elif view.readonly:
            copy = view.tobytes()
            self.keep = c_char_p(copy)
            self.address = ctypes.cast(self.keep, c_void_p).value
        else:
            self.keep = (ctypes.c_char * self.len).from_buffer(view)
            self.address = ctypes.addressof(self.keep)


def result_of(value):
    """The same of a buffer that is to be written to."""
    view = memoryview(value)
    if view.readonly or not view.c_contiguous:
        raise ValueError('the buffer for the result is read-only, or not contiguous')
    return Source(view)


def as_bytes(structure):
    """The bytes that a loco_bytes_t names."""
    return ctypes.string_at(structure.data, structure.len) if structure.len else b''

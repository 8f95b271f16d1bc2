! SPDX-License-Identifier: BSD-3-Clause
!
! libloco from Fortran (2003, with the assumed types of TS 29113, which is a part of 2018). The module is
! compiled with the program, by the compiler of that, as module files differ between compilers:
!
!     mpifort $(pkg-config --variable=includedir loco)/loco/loco.f90 program.f90 $(pkg-config --libs loco-mpi)
!
! Functions have the names of C and return a status: LOCO_OK, or what is negative (loco_strerror has words for
! it). What they do, what is concurrent with what, and their errors are in the manual pages of C, as
! loco_region_read(3). What differs:
!
! * handles are of type(c_ptr);
! * a create has no parent, and names are plain strings: "libB/table" for the table of libB;
! * buffers are arrays of any type, with their length in bytes;
! * keys and values of trees and hashes are strings of any characters, trailing blanks among them;
! * unsigned numbers are integers of the same size: what is above 2**63 - 1 appears negative.
!
! A callback is a procedure with bind(c), given by c_funloc. One that the library calls in a thread of its own,
! as the handler of a multicast, must be recursive or free of saved variables, and do no input or output while
! others do.
module loco
    use, intrinsic :: iso_c_binding
    use mpi_f08, only: MPI_Comm, MPI_Win
    implicit none
    private :: MPI_Comm, MPI_Win

    ! ---- numbers ----

    integer(c_int), parameter :: LOCO_OK = 0, LOCO_IN_PROGRESS = 1, LOCO_ERR_ARG = -1, LOCO_ERR_RANGE = -2, &
        LOCO_ERR_STATE = -3, LOCO_ERR_NAME = -4, LOCO_ERR_MISMATCH = -5, LOCO_ERR_SHARED = -6, &
        LOCO_ERR_ATTACH = -7, LOCO_ERR_NO_MEMORY = -20, LOCO_ERR_SYSTEM = -21, LOCO_ERR_UNSUPPORTED = -22, &
        LOCO_ERR_TIMEOUT = -23, LOCO_ERR_AGAIN = -24, LOCO_ERR_DAMAGED = -25, LOCO_ERR_NOT_FOUND = -30, &
        LOCO_ERR_EXISTS = -31, LOCO_ERR_FULL = -32, LOCO_ERR_SIZE = -33, LOCO_ERR_DIFFERS = -34, &
        LOCO_ERR_CONFLICT = -35, LOCO_ERR_CLOSED = -39, LOCO_ERR_PEER_DEAD = -40, LOCO_ERR_PROTOCOL = -41, &
        LOCO_ERR_PARTITIONED = -42
    integer(c_int), parameter :: LOCO_FENCE_NONE = 0, LOCO_ORDER = 1, LOCO_FENCE_PAIR = 2, LOCO_FENCE_THREAD = 3, &
        LOCO_FENCE_PROCESS = 4
    integer(c_int), parameter :: LOCO_ALL_PEERS = -1, LOCO_ANY_HOST = -1
    integer(c_int), parameter :: LOCO_MULTICAST_ORDERED = 0, LOCO_MULTICAST_UNORDERED = 1, LOCO_MULTICAST_COPY = 2
    integer(c_int), parameter :: LOCO_QUEUE_FENCE = 1
    integer(c_int), parameter :: LOCO_OP_SUM = 0, LOCO_OP_PROD = 1, LOCO_OP_MAX = 2, LOCO_OP_MIN = 3, &
        LOCO_OP_BAND = 4, LOCO_OP_BOR = 5, LOCO_OP_BXOR = 6, LOCO_OP_LAND = 7, LOCO_OP_LOR = 8, LOCO_OP_LXOR = 9, &
        LOCO_OP_REPLACE = 12, LOCO_OP_NO_OP = 13
    integer(c_int), parameter :: LOCO_TYPE_I64 = 3, LOCO_TYPE_U64 = 7, LOCO_TYPE_F64 = 9
    integer(c_int64_t), parameter :: LOCO_FOREVER = -1

    ! ---- structures ----

    type, bind(c) :: loco_store_options
        integer(c_int64_t) :: bytes = 0, objects = 0, roots = 0
        type(c_ptr) :: hosts = c_null_ptr
        integer(c_int) :: nhosts = 0, threads = 0
        type(c_ptr) :: host = c_null_ptr
    end type

    type, bind(c) :: loco_multicast_options
        type(c_ptr) :: senders = c_null_ptr
        integer(c_int) :: nsenders = 0, slots = 0
        integer(c_size_t) :: slot_bytes = 0
        integer(c_int) :: flags = 0
        type(c_funptr) :: handler = c_null_funptr
        type(c_ptr) :: arg = c_null_ptr
    end type

    type, bind(c) :: loco_delivery
        type(c_ptr) :: data
        integer(c_size_t) :: bytes
        integer(c_int) :: sender
        integer(c_int64_t) :: number
    end type

    type, bind(c) :: loco_bytes_t
        type(c_ptr) :: data
        integer(c_size_t) :: len
    end type

    ! ---- callbacks ----

    abstract interface
        ! Of loco_tx_run: LOCO_OK has the transaction committed; another value but LOCO_ERR_CONFLICT, undone.
        integer(c_int) function loco_tx_body(tx, arg) bind(c)
            import
            type(c_ptr), value :: tx, arg
        end function
        ! Of loco_tree_scan and loco_hash_scan: 0 to go on. loco_string makes strings of both.
        integer(c_int) function loco_visit(ctx, key, value) bind(c)
            import
            type(c_ptr), value :: ctx
            type(loco_bytes_t), value :: key, value
        end function
        ! Of a multicast's options; n = 0: it has ended.
        subroutine loco_multicast_handler(arg, messages, n) bind(c)
            import
            type(c_ptr), value :: arg
            integer(c_int), value :: n
            type(loco_delivery), intent(in) :: messages(n)
        end subroutine
    end interface

    ! ---- from MPI: communicators and windows of the module mpi (integers), and of mpi_f08 ----

    interface loco_runtime_open_mpi
        module procedure open_mpi_integer, open_mpi_f08
    end interface
    interface loco_win_region
        module procedure win_region_integer, win_region_f08
    end interface
    interface loco_win_window
        module procedure win_window_integer, win_window_f08
    end interface
    private :: open_mpi_integer, open_mpi_f08, win_region_integer, win_region_f08, win_window_integer, win_window_f08

    ! ---- a message: a string; or an array, and its length in bytes ----

    interface loco_multicast_post
        integer(c_int) function loci_post(m, data, bytes, number) bind(c, name='loco_multicast_post')
            import
            type(c_ptr), value :: m
            type(*), intent(in) :: data(*)
            integer(c_size_t), value :: bytes
            integer(c_int64_t), intent(out) :: number
        end function
        module procedure post_text
    end interface
    private :: post_text

    ! ---- functions of C that are called as they are ----

    interface
        subroutine loco_runtime_close_mpi(rt) bind(c)
            import
            type(c_ptr), value :: rt
        end subroutine
        subroutine loco_runtime_close(rt) bind(c)
            import
            type(c_ptr), value :: rt
        end subroutine
        integer(c_int) function loco_runtime_wait_ready(rt, timeout_ns) bind(c)
            import
            type(c_ptr), value :: rt
            integer(c_int64_t), value :: timeout_ns
        end function
        integer(c_int) function loco_fence(rt, scope, peer) bind(c)
            import
            type(c_ptr), value :: rt
            integer(c_int), value :: scope, peer
        end function

        type(c_ptr) function loco_everyone(rt) bind(c)
            import
            type(c_ptr), value :: rt
        end function
        integer(c_int) function loco_group_size(group) bind(c)
            import
            type(c_ptr), value :: group
        end function
        integer(c_int) function loco_group_rank(group) bind(c)
            import
            type(c_ptr), value :: group
        end function

        subroutine loco_barrier_destroy(barrier) bind(c)
            import
            type(c_ptr), value :: barrier
        end subroutine
        integer(c_int) function loco_barrier_wait(barrier) bind(c)
            import
            type(c_ptr), value :: barrier
        end function

        subroutine loco_ticket_lock_destroy(lock) bind(c)
            import
            type(c_ptr), value :: lock
        end subroutine
        integer(c_int) function loco_ticket_lock_acquire(lock) bind(c)
            import
            type(c_ptr), value :: lock
        end function
        integer(c_int) function loco_ticket_lock_try_acquire(lock) bind(c)
            import
            type(c_ptr), value :: lock
        end function
        integer(c_int) function loco_ticket_lock_release(lock, scope, peer) bind(c)
            import
            type(c_ptr), value :: lock
            integer(c_int), value :: scope, peer
        end function

        ! Entries are arrays of any type, of entry_bytes bytes.
        subroutine loco_queue_destroy(queue) bind(c)
            import
            type(c_ptr), value :: queue
        end subroutine
        integer(c_int) function loco_queue_push(queue, entry) bind(c)
            import
            type(c_ptr), value :: queue
            type(*), intent(in) :: entry(*)
        end function
        integer(c_int) function loco_queue_try_push(queue, entry) bind(c)
            import
            type(c_ptr), value :: queue
            type(*), intent(in) :: entry(*)
        end function
        integer(c_int) function loco_queue_push_timed(queue, entry, timeout_ns) bind(c)
            import
            type(c_ptr), value :: queue
            type(*), intent(in) :: entry(*)
            integer(c_int64_t), value :: timeout_ns
        end function
        integer(c_int) function loco_queue_pop(queue, entry) bind(c)
            import
            type(c_ptr), value :: queue
            type(*), intent(inout) :: entry(*)
        end function
        integer(c_int) function loco_queue_try_pop(queue, entry) bind(c)
            import
            type(c_ptr), value :: queue
            type(*), intent(inout) :: entry(*)
        end function
        integer(c_int) function loco_queue_pop_timed(queue, entry, timeout_ns) bind(c)
            import
            type(c_ptr), value :: queue
            type(*), intent(inout) :: entry(*)
            integer(c_int64_t), value :: timeout_ns
        end function
        integer(c_int) function loco_queue_close(queue) bind(c)
            import
            type(c_ptr), value :: queue
        end function
        integer(c_int) function loco_queue_size(queue, entries) bind(c)
            import
            type(c_ptr), value :: queue
            integer(c_int64_t), intent(out) :: entries
        end function
        ! `which` is an index from 0; before the first call, -1.
        integer(c_int) function loco_queue_wait_any(queues, n, timeout_ns, which) bind(c)
            import
            type(c_ptr), intent(in) :: queues(*)
            integer(c_int), value :: n
            integer(c_int64_t), value :: timeout_ns
            integer(c_int), intent(inout) :: which
        end function

        subroutine loco_atomic_var_destroy(var) bind(c)
            import
            type(c_ptr), value :: var
        end subroutine
        integer(c_int) function loco_atomic_var_load(var, value) bind(c)
            import
            type(c_ptr), value :: var
            integer(c_int64_t), intent(out) :: value
        end function
        integer(c_int) function loco_atomic_var_store(var, value) bind(c)
            import
            type(c_ptr), value :: var
            integer(c_int64_t), value :: value
        end function
        integer(c_int) function loco_atomic_var_fetch_add(var, add, old) bind(c)
            import
            type(c_ptr), value :: var
            integer(c_int64_t), value :: add
            integer(c_int64_t), intent(out) :: old
        end function
        integer(c_int) function loco_atomic_var_exchange(var, value, old) bind(c)
            import
            type(c_ptr), value :: var
            integer(c_int64_t), value :: value
            integer(c_int64_t), intent(out) :: old
        end function
        integer(c_int) function loco_atomic_var_compare_swap(var, expected, desired, old) bind(c)
            import
            type(c_ptr), value :: var
            integer(c_int64_t), value :: expected, desired
            integer(c_int64_t), intent(out) :: old
        end function
        ! The operand and the old value: an integer(c_int64_t) for LOCO_TYPE_I64, a real(c_double) for LOCO_TYPE_F64.
        integer(c_int) function loco_atomic_var_fetch_op(var, op, type, operand, old) bind(c)
            import
            type(c_ptr), value :: var
            integer(c_int), value :: op, type
            type(*), intent(in) :: operand
            type(*), intent(inout) :: old
        end function

        subroutine loco_region_destroy(region) bind(c)
            import
            type(c_ptr), value :: region
        end subroutine
        ! For c_f_pointer.
        type(c_ptr) function loco_region_local(region) bind(c)
            import
            type(c_ptr), value :: region
        end function
        integer(c_size_t) function loco_region_len(region) bind(c)
            import
            type(c_ptr), value :: region
        end function
        integer(c_int) function loco_region_write(region, rank, offset, source, len) bind(c)
            import
            type(c_ptr), value :: region
            integer(c_int), value :: rank
            integer(c_int64_t), value :: offset
            type(*), intent(in) :: source(*)
            integer(c_size_t), value :: len
        end function
        integer(c_int) function loco_region_read(region, rank, offset, result, len) bind(c)
            import
            type(c_ptr), value :: region
            integer(c_int), value :: rank
            integer(c_int64_t), value :: offset
            type(*), intent(inout) :: result(*)
            integer(c_size_t), value :: len
        end function
        integer(c_int) function loco_region_write64(region, rank, offset, value) bind(c)
            import
            type(c_ptr), value :: region
            integer(c_int), value :: rank
            integer(c_int64_t), value :: offset, value
        end function
        integer(c_int) function loco_region_read64(region, rank, offset, value) bind(c)
            import
            type(c_ptr), value :: region
            integer(c_int), value :: rank
            integer(c_int64_t), value :: offset
            integer(c_int64_t), intent(out) :: value
        end function
        integer(c_int) function loco_region_fetch_add(region, rank, offset, add, old) bind(c)
            import
            type(c_ptr), value :: region
            integer(c_int), value :: rank
            integer(c_int64_t), value :: offset, add
            integer(c_int64_t), intent(out) :: old
        end function
        integer(c_int) function loco_region_compare_swap(region, rank, offset, expected, desired, old) bind(c)
            import
            type(c_ptr), value :: region
            integer(c_int), value :: rank
            integer(c_int64_t), value :: offset, expected, desired
            integer(c_int64_t), intent(out) :: old
        end function

        subroutine loco_store_destroy(store) bind(c)
            import
            type(c_ptr), value :: store
        end subroutine
        integer(c_int64_t) function loco_store_root(store, i) bind(c)
            import
            type(c_ptr), value :: store
            integer(c_int64_t), value :: i
        end function
        integer(c_int) function loco_tx_open(store, tx) bind(c)
            import
            type(c_ptr), value :: store
            type(c_ptr), intent(out) :: tx
        end function
        subroutine loco_tx_close(tx) bind(c)
            import
            type(c_ptr), value :: tx
        end subroutine
        integer(c_int) function loco_tx_begin(tx) bind(c)
            import
            type(c_ptr), value :: tx
        end function
        integer(c_int) function loco_tx_read(tx, object, value, len) bind(c)
            import
            type(c_ptr), value :: tx
            integer(c_int64_t), value :: object
            type(*), intent(inout) :: value(*)
            integer(c_size_t), value :: len
        end function
        integer(c_int) function loco_tx_write(tx, object, value, len) bind(c)
            import
            type(c_ptr), value :: tx
            integer(c_int64_t), value :: object
            type(*), intent(in) :: value(*)
            integer(c_size_t), value :: len
        end function
        integer(c_int) function loco_tx_new(tx, host, value, len, object) bind(c)
            import
            type(c_ptr), value :: tx
            integer(c_int), value :: host
            type(*), intent(in) :: value(*)
            integer(c_size_t), value :: len
            integer(c_int64_t), intent(out) :: object
        end function
        integer(c_int) function loco_tx_free(tx, object) bind(c)
            import
            type(c_ptr), value :: tx
            integer(c_int64_t), value :: object
        end function
        integer(c_int) function loco_tx_commit(tx) bind(c)
            import
            type(c_ptr), value :: tx
        end function
        subroutine loco_tx_abort(tx) bind(c)
            import
            type(c_ptr), value :: tx
        end subroutine
        integer(c_int) function loco_tx_validate(tx) bind(c)
            import
            type(c_ptr), value :: tx
        end function
        ! body: c_funloc of a loco_tx_body.
        integer(c_int) function loco_tx_run(tx, body, arg) bind(c)
            import
            type(c_ptr), value :: tx, arg
            type(c_funptr), value :: body
        end function

        subroutine loco_tree_close(tree) bind(c)
            import
            type(c_ptr), value :: tree
        end subroutine
        subroutine loco_hash_close(hash) bind(c)
            import
            type(c_ptr), value :: hash
        end subroutine
        ! visit: c_funloc of a loco_visit.
        integer(c_int) function loco_hash_scan(hash, visit, ctx) bind(c)
            import
            type(c_ptr), value :: hash, ctx
            type(c_funptr), value :: visit
        end function

        subroutine loco_multicast_destroy(m) bind(c)
            import
            type(c_ptr), value :: m
        end subroutine
        integer(c_int) function loco_multicast_wait_delivered(m, number) bind(c)
            import
            type(c_ptr), value :: m
            integer(c_int64_t), value :: number
        end function
        ! The next messages; loco_message makes a string of one, c_f_pointer what it is of its data.
        integer(c_int) function loco_multicast_next(m, timeout_ns, messages, max, n) bind(c)
            import
            type(c_ptr), value :: m
            integer(c_int64_t), value :: timeout_ns
            type(loco_delivery), intent(inout) :: messages(*)
            integer(c_int), value :: max
            integer(c_int), intent(out) :: n
        end function

        subroutine loco_pool_close(pool) bind(c)
            import
            type(c_ptr), value :: pool
        end subroutine
    end interface

    ! ---- functions of C that others below call: for these alone ----
    ! (gfortran warns of private names with a binding label.)

    interface
        type(c_ptr) function loci_strerror(status) bind(c, name='loco_strerror')
            import
            integer(c_int), value :: status
        end function
        integer(c_size_t) function loci_strlen(text) bind(c, name='strlen')
            import
            type(c_ptr), value :: text
        end function
        type(c_ptr) function loci_comm(comm) bind(c, name='MPI_Comm_f2c')
            import
            integer(c_int), value :: comm
        end function
        type(c_ptr) function loci_win(win) bind(c, name='MPI_Win_f2c')
            import
            integer(c_int), value :: win
        end function
        integer(c_int) function loci_open_mpi(comm, rt) bind(c, name='loco_runtime_open_mpi')
            import
            type(c_ptr), value :: comm
            type(c_ptr), intent(out) :: rt
        end function
        integer(c_int) function loci_win_region(win, region) bind(c, name='loco_win_region')
            import
            type(c_ptr), value :: win
            type(c_ptr), intent(out) :: region
        end function
        integer(c_int) function loci_win_window(win, window) bind(c, name='loco_win_window')
            import
            type(c_ptr), value :: win
            type(c_ptr), intent(out) :: window
        end function
        integer(c_int) function loci_attach(pool, options, rt) bind(c, name='loco_runtime_attach')
            import
            character(kind=c_char), intent(in) :: pool(*)
            type(c_ptr), value :: options
            type(c_ptr), intent(out) :: rt
        end function
        integer(c_int) function loci_barrier(rt, parent, name, group, barrier) bind(c, name='loco_barrier_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), intent(out) :: barrier
        end function
        integer(c_int) function loci_ticket_lock(rt, parent, name, group, host, lock) &
                bind(c, name='loco_ticket_lock_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: host
            type(c_ptr), intent(out) :: lock
        end function
        integer(c_int) function loci_queue(rt, parent, name, group, entry_bytes, capacity, flags, queue) &
                bind(c, name='loco_queue_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            integer(c_size_t), value :: entry_bytes
            integer(c_int64_t), value :: capacity
            integer(c_int), value :: flags
            type(c_ptr), intent(out) :: queue
        end function
        integer(c_int) function loci_atomic_var(rt, parent, name, group, host, var) &
                bind(c, name='loco_atomic_var_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: host
            type(c_ptr), intent(out) :: var
        end function
        integer(c_int) function loci_region(rt, parent, name, group, len, region) bind(c, name='loco_region_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            integer(c_size_t), value :: len
            type(c_ptr), intent(out) :: region
        end function
        integer(c_int) function loci_store(rt, parent, name, group, options, store) bind(c, name='loco_store_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            type(loco_store_options), intent(in) :: options
            type(c_ptr), intent(out) :: store
        end function
        integer(c_int) function loci_multicast(rt, parent, name, group, options, m) bind(c, name='loco_multicast_create')
            import
            type(c_ptr), value :: rt, parent, group
            character(kind=c_char), intent(in) :: name(*)
            type(loco_multicast_options), intent(in) :: options
            type(c_ptr), intent(out) :: m
        end function
        integer(c_int) function loci_pool(rt, name, pool) bind(c, name='loco_pool_open')
            import
            type(c_ptr), value :: rt
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), intent(out) :: pool
        end function
        integer(c_int) function loci_store_open(pool, name, options, store) bind(c, name='loco_store_open')
            import
            type(c_ptr), value :: pool
            character(kind=c_char), intent(in) :: name(*)
            type(loco_store_options), intent(in), optional :: options
            type(c_ptr), intent(out) :: store
        end function
        integer(c_int) function loci_tree_open(tx, root, options, tree) bind(c, name='loco_tree_open')
            import
            type(c_ptr), value :: tx, options
            integer(c_int64_t), value :: root
            type(c_ptr), intent(out) :: tree
        end function
        integer(c_int) function loci_hash_open(tx, root, options, hash) bind(c, name='loco_hash_open')
            import
            type(c_ptr), value :: tx, options
            integer(c_int64_t), value :: root
            type(c_ptr), intent(out) :: hash
        end function
        integer(c_int) function loci_tree_get(tree, key, value, room, len) bind(c, name='loco_tree_get')
            import
            type(c_ptr), value :: tree, value
            type(loco_bytes_t), value :: key
            integer(c_size_t), value :: room
            integer(c_size_t), intent(out) :: len
        end function
        integer(c_int) function loci_hash_get(hash, key, value, room, len) bind(c, name='loco_hash_get')
            import
            type(c_ptr), value :: hash, value
            type(loco_bytes_t), value :: key
            integer(c_size_t), value :: room
            integer(c_size_t), intent(out) :: len
        end function
        integer(c_int) function loci_tree_put(tree, key, value) bind(c, name='loco_tree_put')
            import
            type(c_ptr), value :: tree
            type(loco_bytes_t), value :: key, value
        end function
        integer(c_int) function loci_hash_put(hash, key, value) bind(c, name='loco_hash_put')
            import
            type(c_ptr), value :: hash
            type(loco_bytes_t), value :: key, value
        end function
        integer(c_int) function loci_tree_insert(tree, key, value) bind(c, name='loco_tree_insert')
            import
            type(c_ptr), value :: tree
            type(loco_bytes_t), value :: key, value
        end function
        integer(c_int) function loci_hash_insert(hash, key, value) bind(c, name='loco_hash_insert')
            import
            type(c_ptr), value :: hash
            type(loco_bytes_t), value :: key, value
        end function
        integer(c_int) function loci_tree_delete(tree, key) bind(c, name='loco_tree_delete')
            import
            type(c_ptr), value :: tree
            type(loco_bytes_t), value :: key
        end function
        integer(c_int) function loci_hash_delete(hash, key) bind(c, name='loco_hash_delete')
            import
            type(c_ptr), value :: hash
            type(loco_bytes_t), value :: key
        end function
        integer(c_int) function loci_tree_add(tree, key, by, before) bind(c, name='loco_tree_add')
            import
            type(c_ptr), value :: tree
            type(loco_bytes_t), value :: key
            integer(c_int64_t), value :: by
            integer(c_int64_t), intent(out) :: before
        end function
        integer(c_int) function loci_hash_add(hash, key, by, before) bind(c, name='loco_hash_add')
            import
            type(c_ptr), value :: hash
            type(loco_bytes_t), value :: key
            integer(c_int64_t), value :: by
            integer(c_int64_t), intent(out) :: before
        end function
        integer(c_int) function loci_tree_scan(tree, from, to, limit, visit, ctx) bind(c, name='loco_tree_scan')
            import
            type(c_ptr), value :: tree, ctx
            type(loco_bytes_t), intent(in), optional :: from, to
            integer(c_int64_t), value :: limit
            type(c_funptr), value :: visit
        end function
    end interface
    private :: string_at, named

contains

    ! ---- strings ----

    ! The library's words for a status.
    function loco_strerror(status) result(text)
        integer(c_int), intent(in) :: status
        character(:), allocatable :: text

        text = string_at(loci_strerror(status), loci_strlen(loci_strerror(status)))
    end function

    ! A key or a value that a visit is given, as a string.
    function loco_string(bytes) result(text)
        type(loco_bytes_t), intent(in) :: bytes
        character(:), allocatable :: text

        text = string_at(bytes%data, bytes%len)
    end function

    ! The data of a message.
    function loco_message(message) result(text)
        type(loco_delivery), intent(in) :: message
        character(:), allocatable :: text

        text = string_at(message%data, message%bytes)
    end function

    function string_at(data, length) result(text)
        type(c_ptr), intent(in) :: data
        integer(c_size_t), intent(in) :: length
        character(:), allocatable :: text
        character(kind=c_char), pointer :: chars(:)
        integer(c_size_t) :: i

        allocate(character(length) :: text)
        if (length == 0) return
        call c_f_pointer(data, chars, [length])
        do i = 1, length
            text(i:i) = chars(i)
        end do
    end function

    ! The loco_bytes_t of a string, which has to stay where it is.
    function named(text) result(bytes)
        character(*), intent(in), target :: text
        type(loco_bytes_t) :: bytes

        bytes%data = c_loc(text)
        bytes%len = len(text, c_size_t)
    end function

    ! ---- runtimes ----

    integer(c_int) function open_mpi_integer(comm, rt) result(status)
        integer, intent(in) :: comm
        type(c_ptr), intent(out) :: rt

        status = loci_open_mpi(loci_comm(int(comm, c_int)), rt)
    end function

    integer(c_int) function open_mpi_f08(comm, rt) result(status)
        type(MPI_Comm), intent(in) :: comm
        type(c_ptr), intent(out) :: rt

        status = loci_open_mpi(loci_comm(int(comm%MPI_VAL, c_int)), rt)
    end function

    integer(c_int) function loco_runtime_attach(pool, rt) result(status)
        character(*), intent(in) :: pool
        type(c_ptr), intent(out) :: rt

        status = loci_attach(pool//c_null_char, c_null_ptr, rt)
    end function

    ! ---- windows ----

    integer(c_int) function win_region_integer(win, region) result(status)
        integer, intent(in) :: win
        type(c_ptr), intent(out) :: region

        status = loci_win_region(loci_win(int(win, c_int)), region)
    end function

    integer(c_int) function win_region_f08(win, region) result(status)
        type(MPI_Win), intent(in) :: win
        type(c_ptr), intent(out) :: region

        status = loci_win_region(loci_win(int(win%MPI_VAL, c_int)), region)
    end function

    integer(c_int) function win_window_integer(win, window) result(status)
        integer, intent(in) :: win
        type(c_ptr), intent(out) :: window

        status = loci_win_window(loci_win(int(win, c_int)), window)
    end function

    integer(c_int) function win_window_f08(win, window) result(status)
        type(MPI_Win), intent(in) :: win
        type(c_ptr), intent(out) :: window

        status = loci_win_window(loci_win(int(win%MPI_VAL, c_int)), window)
    end function

    ! ---- channels ----

    integer(c_int) function loco_barrier_create(rt, name, group, barrier) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        type(c_ptr), intent(out) :: barrier

        status = loci_barrier(rt, c_null_ptr, name//c_null_char, group, barrier)
    end function

    integer(c_int) function loco_ticket_lock_create(rt, name, group, host, lock) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        integer(c_int), intent(in) :: host
        type(c_ptr), intent(out) :: lock

        status = loci_ticket_lock(rt, c_null_ptr, name//c_null_char, group, host, lock)
    end function

    ! `flags`: 0, or LOCO_QUEUE_FENCE.
    integer(c_int) function loco_queue_create(rt, name, group, entry_bytes, capacity, flags, queue) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: entry_bytes
        integer(c_int64_t), intent(in) :: capacity
        integer(c_int), intent(in) :: flags
        type(c_ptr), intent(out) :: queue

        status = loci_queue(rt, c_null_ptr, name//c_null_char, group, entry_bytes, capacity, flags, queue)
    end function

    integer(c_int) function loco_atomic_var_create(rt, name, group, host, var) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        integer(c_int), intent(in) :: host
        type(c_ptr), intent(out) :: var

        status = loci_atomic_var(rt, c_null_ptr, name//c_null_char, group, host, var)
    end function

    integer(c_int) function loco_region_create(rt, name, group, len, region) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: len
        type(c_ptr), intent(out) :: region

        status = loci_region(rt, c_null_ptr, name//c_null_char, group, len, region)
    end function

    integer(c_int) function loco_store_create(rt, name, group, options, store) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        type(loco_store_options), intent(in) :: options
        type(c_ptr), intent(out) :: store

        status = loci_store(rt, c_null_ptr, name//c_null_char, group, options, store)
    end function

    integer(c_int) function loco_multicast_create(rt, name, group, options, m) result(status)
        type(c_ptr), intent(in) :: rt, group
        character(*), intent(in) :: name
        type(loco_multicast_options), intent(in) :: options
        type(c_ptr), intent(out) :: m

        status = loci_multicast(rt, c_null_ptr, name//c_null_char, group, options, m)
    end function

    integer(c_int) function post_text(m, text, number) result(status)
        type(c_ptr), intent(in) :: m
        character(*), intent(in), target :: text
        integer(c_int64_t), intent(out) :: number
        character(kind=c_char), pointer :: chars(:)

        call c_f_pointer(c_loc(text), chars, [len(text)])
        status = loci_post(m, chars, len(text, c_size_t), number)
    end function

    ! ---- pools ----

    integer(c_int) function loco_pool_open(rt, name, pool) result(status)
        type(c_ptr), intent(in) :: rt
        character(*), intent(in) :: name
        type(c_ptr), intent(out) :: pool

        status = loci_pool(rt, name//c_null_char, pool)
    end function

    integer(c_int) function loco_store_open(pool, name, store, options) result(status)
        type(c_ptr), intent(in) :: pool
        character(*), intent(in) :: name
        type(c_ptr), intent(out) :: store
        type(loco_store_options), intent(in), optional :: options

        status = loci_store_open(pool, name//c_null_char, options, store)
    end function

    ! ---- trees and hashes ----

    integer(c_int) function loco_tree_open(tx, root, tree) result(status)
        type(c_ptr), intent(in) :: tx
        integer(c_int64_t), intent(in) :: root
        type(c_ptr), intent(out) :: tree

        status = loci_tree_open(tx, root, c_null_ptr, tree)
    end function

    integer(c_int) function loco_hash_open(tx, root, hash) result(status)
        type(c_ptr), intent(in) :: tx
        integer(c_int64_t), intent(in) :: root
        type(c_ptr), intent(out) :: hash

        status = loci_hash_open(tx, root, c_null_ptr, hash)
    end function

    ! The value of a key goes to `value`, as much of it as there is room for, and blanks behind it; its size
    ! to `length`.
    integer(c_int) function loco_tree_get(tree, key, value, length) result(status)
        type(c_ptr), intent(in) :: tree
        character(*), intent(in), target :: key
        character(*), intent(inout), target :: value
        integer(c_size_t), intent(out) :: length

        status = loci_tree_get(tree, named(key), c_loc(value), len(value, c_size_t), length)
        if (status == LOCO_OK .and. length < len(value)) value(length + 1:) = ' '
    end function

    integer(c_int) function loco_hash_get(hash, key, value, length) result(status)
        type(c_ptr), intent(in) :: hash
        character(*), intent(in), target :: key
        character(*), intent(inout), target :: value
        integer(c_size_t), intent(out) :: length

        status = loci_hash_get(hash, named(key), c_loc(value), len(value, c_size_t), length)
        if (status == LOCO_OK .and. length < len(value)) value(length + 1:) = ' '
    end function

    integer(c_int) function loco_tree_put(tree, key, value) result(status)
        type(c_ptr), intent(in) :: tree
        character(*), intent(in), target :: key, value

        status = loci_tree_put(tree, named(key), named(value))
    end function

    integer(c_int) function loco_hash_put(hash, key, value) result(status)
        type(c_ptr), intent(in) :: hash
        character(*), intent(in), target :: key, value

        status = loci_hash_put(hash, named(key), named(value))
    end function

    integer(c_int) function loco_tree_insert(tree, key, value) result(status)
        type(c_ptr), intent(in) :: tree
        character(*), intent(in), target :: key, value

        status = loci_tree_insert(tree, named(key), named(value))
    end function

    integer(c_int) function loco_hash_insert(hash, key, value) result(status)
        type(c_ptr), intent(in) :: hash
        character(*), intent(in), target :: key, value

        status = loci_hash_insert(hash, named(key), named(value))
    end function

    integer(c_int) function loco_tree_delete(tree, key) result(status)
        type(c_ptr), intent(in) :: tree
        character(*), intent(in), target :: key

        status = loci_tree_delete(tree, named(key))
    end function

    integer(c_int) function loco_hash_delete(hash, key) result(status)
        type(c_ptr), intent(in) :: hash
        character(*), intent(in), target :: key

        status = loci_hash_delete(hash, named(key))
    end function

    integer(c_int) function loco_tree_add(tree, key, by, before) result(status)
        type(c_ptr), intent(in) :: tree
        character(*), intent(in), target :: key
        integer(c_int64_t), intent(in) :: by
        integer(c_int64_t), intent(out) :: before

        status = loci_tree_add(tree, named(key), by, before)
    end function

    integer(c_int) function loco_hash_add(hash, key, by, before) result(status)
        type(c_ptr), intent(in) :: hash
        character(*), intent(in), target :: key
        integer(c_int64_t), intent(in) :: by
        integer(c_int64_t), intent(out) :: before

        status = loci_hash_add(hash, named(key), by, before)
    end function

    ! Call visit, c_funloc of a loco_visit, for the entries from key `from` on and below `to`, in the order of
    ! their keys; without these for all.
    integer(c_int) function loco_tree_scan(tree, visit, ctx, from, to) result(status)
        type(c_ptr), intent(in) :: tree, ctx
        type(c_funptr), value :: visit
        character(*), intent(in), target, optional :: from, to
        type(loco_bytes_t) :: first, last

        if (present(from)) first = named(from)
        if (present(to)) last = named(to)
        if (present(from) .and. present(to)) then
            status = loci_tree_scan(tree, first, last, 0_c_int64_t, visit, ctx)
        else if (present(from)) then
            status = loci_tree_scan(tree, first, limit=0_c_int64_t, visit=visit, ctx=ctx)
        else if (present(to)) then
            status = loci_tree_scan(tree, to=last, limit=0_c_int64_t, visit=visit, ctx=ctx)
        else
            status = loci_tree_scan(tree, limit=0_c_int64_t, visit=visit, ctx=ctx)
        end if
    end function

end module loco

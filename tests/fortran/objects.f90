! SPDX-License-Identifier: BSD-3-Clause
!
! The module loco at any number of ranks. Ends with 0 and "N checks" if all is as it should be, at each rank.
! With an argument it prints the sizes of structures instead.
module objects
    use loco
    use mpi_f08
    implicit none
    integer :: checks = 0, me, size

contains

    subroutine check(holds, what)
        logical, intent(in) :: holds
        character(*), intent(in) :: what

        checks = checks + 1
        if (holds) return
        write (*, '(a, i0, 2a)') 'rank ', me, ', not so: ', what
        flush (6)
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine

    subroutine must(status, what)
        integer(c_int), intent(in) :: status
        character(*), intent(in) :: what

        call check(status == LOCO_OK, what//': '//loco_strerror(status))
    end subroutine

    subroutine sizes()
        type(loco_store_options) :: store
        type(loco_multicast_options) :: multicast
        type(loco_delivery) :: delivery
        type(loco_bytes_t) :: bytes

        write (*, '(4(i0, 1x))') c_sizeof(store), c_sizeof(multicast), c_sizeof(delivery), c_sizeof(bytes)
    end subroutine

    subroutine regions(rt, all, barrier)
        type(c_ptr), intent(in) :: rt, all, barrier
        type(c_ptr) :: region, lock
        real(c_double) :: values(4), seen(4)
        real(c_double), pointer :: mine(:)
        integer(c_int64_t) :: old
        integer :: i, next

        call must(loco_region_create(rt, 'region', all, 80_c_size_t, region), 'region')
        call must(loco_ticket_lock_create(rt, 'locks/lock', all, 0, lock), 'lock')
        call must(loco_runtime_wait_ready(rt, LOCO_FOREVER), 'ready')
        call check(loco_region_len(region) == 80, 'length')
        next = mod(me + 1, size)
        values = [me + 0.5d0, me + 1.5d0, me + 2.5d0, me + 3.5d0]
        call must(loco_region_write(region, next, 16_c_int64_t, values, 32_c_size_t), 'write')
        call must(loco_barrier_wait(barrier), 'barrier')
        call c_f_pointer(loco_region_local(region), mine, [10])
        call check(abs(mine(3) - (mod(me + size - 1, size) + 0.5d0)) < 1d-9, 'my part')
        call must(loco_region_read(region, next, 16_c_int64_t, seen, 32_c_size_t), 'read')
        call check(all_equal(seen, values), 'what was read')
        call check(loco_region_read(region, next, 64_c_int64_t, seen, 32_c_size_t) == LOCO_ERR_RANGE, 'range')
        do i = 1, 50
            call must(loco_ticket_lock_acquire(lock), 'acquire')
            call must(loco_region_read64(region, 0, 0_c_int64_t, old), 'read64')
            call must(loco_region_write64(region, 0, 0_c_int64_t, old + 1), 'write64')
            call must(loco_ticket_lock_release(lock, LOCO_FENCE_THREAD, LOCO_ALL_PEERS), 'release')
        end do
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_region_read64(region, 0, 0_c_int64_t, old), 'read64')
        call check(old == 50 * size, 'sum')
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_region_fetch_add(region, 0, 0_c_int64_t, 1_c_int64_t, old), 'fetch_add')
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_region_compare_swap(region, 0, 0_c_int64_t, 0_c_int64_t, 1_c_int64_t, old), 'compare_swap')
        call check(old == 51 * size, 'not swapped')
        call must(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS), 'fence')
        call must(loco_barrier_wait(barrier), 'barrier')
        call loco_ticket_lock_destroy(lock)
        call loco_region_destroy(region)
    end subroutine

    ! Work for all, of which each takes a part; numbers of what was done.
    subroutine queues(rt, all, barrier)
        type(c_ptr), intent(in) :: rt, all, barrier
        type(c_ptr) :: queue(2), done, least, total
        integer(c_int64_t) :: old, entries, word(1)
        integer(c_int) :: which
        real(c_double) :: item(2), before
        integer :: i, taken

        call must(loco_queue_create(rt, 'work', all, 16_c_size_t, 100_c_int64_t, LOCO_QUEUE_FENCE, queue(1)), 'queue')
        call must(loco_queue_create(rt, 'idle', all, 8_c_size_t, 4_c_int64_t, 0_c_int, queue(2)), 'queue')
        call must(loco_atomic_var_create(rt, 'done', all, size - 1, done), 'var')
        call must(loco_atomic_var_create(rt, 'least', all, 0, least), 'var')
        call must(loco_atomic_var_create(rt, 'total', all, 0, total), 'var')
        call must(loco_runtime_wait_ready(rt, LOCO_FOREVER), 'ready')
        call check(loco_queue_try_pop(queue(1), item) == LOCO_ERR_AGAIN, 'empty')
        which = -1
        call check(loco_queue_wait_any(queue, 2, 1000_c_int64_t, which) == LOCO_ERR_TIMEOUT, 'all are empty')
        call must(loco_barrier_wait(barrier), 'barrier')
        do i = 1, 10
            item = [real(me, c_double), real(i, c_double)]
            call must(loco_queue_push(queue(1), item), 'push')
        end do
        call must(loco_barrier_wait(barrier), 'barrier')
        if (me == 0) then
            call must(loco_queue_size(queue(1), entries), 'size')
            call check(entries == 10 * size, 'entries')
            call must(loco_queue_wait_any(queue, 2, LOCO_FOREVER, which), 'wait_any')
            call check(which == 0, 'which')
            call must(loco_queue_close(queue(1)), 'close')
        end if
        call must(loco_barrier_wait(barrier), 'barrier')
        taken = 0
        do while (loco_queue_pop(queue(1), item) == LOCO_OK)
            taken = taken + 1
            call must(loco_atomic_var_fetch_op(total, LOCO_OP_SUM, LOCO_TYPE_F64, item(2), before), 'sum')
        end do
        call must(loco_atomic_var_fetch_add(done, int(taken, c_int64_t), old), 'fetch_add')
        call must(loco_atomic_var_fetch_op(least, LOCO_OP_MIN, LOCO_TYPE_I64, int(-me, c_int64_t), old), 'minimum')
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_atomic_var_load(done, old), 'load')
        call check(old == 10 * size, 'each once')
        call must(loco_atomic_var_load(least, old), 'load')
        call check(old == 1 - size, 'least')
        call must(loco_atomic_var_fetch_op(total, LOCO_OP_NO_OP, LOCO_TYPE_F64, 0d0, before), 'read')
        call check(abs(before - 55 * size) < 1d-9, 'sum')
        call check(loco_atomic_var_fetch_op(total, LOCO_OP_BAND, LOCO_TYPE_F64, 0d0, before) == LOCO_ERR_ARG, 'no op')
        call check(loco_queue_push(queue(1), item) == LOCO_ERR_CLOSED, 'closed')
        call must(loco_barrier_wait(barrier), 'barrier')
        if (me == 0) then
            call must(loco_atomic_var_store(done, 5_c_int64_t), 'store')
            call must(loco_atomic_var_exchange(done, 6_c_int64_t, old), 'exchange')
            call must(loco_atomic_var_compare_swap(done, 5_c_int64_t, 7_c_int64_t, old), 'compare_swap')
            call check(old == 6, 'not swapped')
            word = 8
            call must(loco_queue_try_push(queue(2), word), 'try_push')
            call must(loco_queue_push_timed(queue(2), word, 1000_c_int64_t), 'push_timed')
            word = 0
            call must(loco_queue_pop_timed(queue(2), word, LOCO_FOREVER), 'pop_timed')
            call check(word(1) == 8, 'entry')
        end if
        call must(loco_barrier_wait(barrier), 'barrier')
        call loco_atomic_var_destroy(total)
        call loco_atomic_var_destroy(least)
        call loco_atomic_var_destroy(done)
        call loco_queue_destroy(queue(2))
        call loco_queue_destroy(queue(1))
    end subroutine

    logical function all_equal(a, b)
        real(c_double), intent(in) :: a(:), b(:)

        all_equal = all(abs(a - b) < 1d-9)
    end function

    ! A region over a window, whose handle is one of mpi_f08 or an integer.
    subroutine windows(rt)
        type(c_ptr), intent(in) :: rt
        type(MPI_Win) :: win
        type(c_ptr) :: memory, region, window
        integer(c_int64_t) :: old

        call MPI_Win_allocate(8_MPI_ADDRESS_KIND, 1, MPI_INFO_NULL, MPI_COMM_WORLD, memory, win)
        call must(loco_win_window(win, window), 'window')
        call check(c_associated(window), 'window')
        call must(loco_win_region(win, region), 'region of a window')
        call must(loco_region_fetch_add(region, 0, 0_c_int64_t, 2_c_int64_t, old), 'fetch_add')
        call loco_region_destroy(region)
        call MPI_Barrier(MPI_COMM_WORLD)
        call must(loco_win_region(win%MPI_VAL, region), 'region of an integer')
        call must(loco_region_read64(region, 0, 0_c_int64_t, old), 'read64')
        call check(old == 2 * size, 'sum')
        call must(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS), 'fence')
        call MPI_Barrier(MPI_COMM_WORLD)
        call loco_region_destroy(region)
        call MPI_Win_free(win)
    end subroutine

    ! Adds *arg to the number in root 0.
    integer(c_int) function add(tx, arg) bind(c) result(status)
        type(c_ptr), value :: tx, arg
        integer(c_int64_t), pointer :: job(:)
        integer(c_int64_t) :: number(1)

        call c_f_pointer(arg, job, [2])
        status = loco_tx_read(tx, job(1), number, 8_c_size_t)
        if (status /= LOCO_OK) return
        number = number + job(2)
        status = loco_tx_write(tx, job(1), number, 8_c_size_t)
    end function

    subroutine transactions(rt, all, barrier)
        type(c_ptr), intent(in) :: rt, all, barrier
        type(loco_store_options) :: options
        type(c_ptr) :: store, tx
        integer(c_int64_t), target :: job(2)
        integer(c_int64_t) :: number(1), made
        integer :: i

        options%bytes = 1048576
        call must(loco_store_create(rt, 'store', all, options, store), 'store')
        call must(loco_runtime_wait_ready(rt, LOCO_FOREVER), 'ready')
        call must(loco_tx_open(store, tx), 'tx')
        job = [loco_store_root(store, 0_c_int64_t), 3_c_int64_t]
        if (me == 0) then
            number = 0
            call must(loco_tx_begin(tx), 'begin')
            call must(loco_tx_write(tx, job(1), number, 8_c_size_t), 'write')
            call must(loco_tx_commit(tx), 'commit')
        end if
        call must(loco_barrier_wait(barrier), 'barrier')
        do i = 1, 20
            call must(loco_tx_run(tx, c_funloc(add), c_loc(job)), 'run')
        end do
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_tx_begin(tx), 'begin')
        call must(loco_tx_read(tx, job(1), number, 8_c_size_t), 'read')
        call check(number(1) == 60 * size, 'sum')
        call must(loco_tx_validate(tx), 'validate')
        call check(loco_tx_read(tx, job(1), number, 4_c_size_t) == LOCO_ERR_SIZE, 'size')
        call must(loco_tx_new(tx, LOCO_ANY_HOST, number, 8_c_size_t, made), 'new')
        call must(loco_tx_free(tx, made), 'free')
        call loco_tx_abort(tx)
        call check(loco_tx_commit(tx) == LOCO_ERR_STATE, 'state')
        call maps(store, tx, barrier)
        call loco_tx_close(tx)
        call must(loco_barrier_wait(barrier), 'barrier')
        call loco_store_destroy(store)
    end subroutine

    ! Counts entries in *ctx; ends at the key "stop".
    integer(c_int) function visit(ctx, key, value) bind(c) result(status)
        type(c_ptr), value :: ctx
        type(loco_bytes_t), value :: key, value
        integer(c_int), pointer :: n

        call c_f_pointer(ctx, n)
        n = n + 1
        call check(value%len == 0 .or. len(loco_string(value)) == value%len, 'value')
        status = merge(7, 0, loco_string(key) == 'stop')
    end function

    subroutine maps(store, tx, barrier)
        type(c_ptr), intent(in) :: store, tx, barrier
        type(c_ptr) :: tree, hash
        character(10) :: key, value
        integer(c_size_t) :: length
        integer(c_int64_t) :: before
        integer(c_int), target :: n

        call must(loco_tree_open(tx, loco_store_root(store, 1_c_int64_t), tree), 'tree')
        call must(loco_hash_open(tx, loco_store_root(store, 2_c_int64_t), hash), 'hash')
        write (key, '(a, i0)') 'key', me
        call must(loco_tree_put(tree, trim(key), 'in the tree'), 'put')
        call must(loco_hash_insert(hash, trim(key), ''), 'insert')
        call check(loco_hash_insert(hash, trim(key), 'x') == LOCO_ERR_EXISTS, 'exists')
        call must(loco_hash_put(hash, trim(key), 'short'), 'put')
        value = 'xxxxxxxxxx'
        call must(loco_hash_get(hash, trim(key), value, length), 'get')
        call check(value == 'short' .and. length == 5, 'what was got')
        call must(loco_tree_get(tree, trim(key), value, length), 'get')
        call check(value == 'in the tre' .and. length == 11, 'what was got')
        call check(loco_tree_get(tree, 'nobody', value, length) == LOCO_ERR_NOT_FOUND, 'not found')
        call must(loco_tree_add(tree, 'a', 1_c_int64_t, before), 'add')
        call must(loco_hash_add(hash, 'a', 1_c_int64_t, before), 'add')
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_tree_add(tree, 'b', 0_c_int64_t, before), 'add')
        call must(loco_barrier_wait(barrier), 'barrier')
        if (me == 0) call must(loco_tree_insert(tree, 'stop', '5'), 'insert')
        call must(loco_barrier_wait(barrier), 'barrier')
        n = 0
        call check(loco_tree_scan(tree, c_funloc(visit), c_loc(n)) == 7, 'ended by the visit')
        call check(n == size + 3, 'all')
        n = 0
        call must(loco_tree_scan(tree, c_funloc(visit), c_loc(n), 'b', 'stop'), 'from, to')
        call check(n == size + 1, 'from, to')
        n = 0
        call must(loco_tree_scan(tree, c_funloc(visit), c_loc(n), to='b'), 'to')
        call check(n == 1, 'to')
        n = 0
        call check(loco_tree_scan(tree, c_funloc(visit), c_loc(n), from='s') == 7, 'from')
        call check(n == 1, 'from')
        n = 0
        call must(loco_hash_scan(hash, c_funloc(visit), c_loc(n)), 'scan')
        call check(n == size + 1, 'scan')
        call must(loco_barrier_wait(barrier), 'barrier')
        call must(loco_tree_delete(tree, trim(key)), 'delete')
        call must(loco_hash_delete(hash, trim(key)), 'delete')
        call check(loco_hash_delete(hash, trim(key)) == LOCO_ERR_NOT_FOUND, 'deleted')
        call loco_hash_close(hash)
        call loco_tree_close(tree)
    end subroutine

    ! In a thread of the library, one call at a time.
    subroutine handler(arg, messages, n) bind(c)
        type(c_ptr), value :: arg
        integer(c_int), value :: n
        type(loco_delivery), intent(in) :: messages(n)
        integer(c_int64_t), pointer :: numbers(:), sum
        integer :: i

        call c_f_pointer(arg, sum)
        do i = 1, n
            call c_f_pointer(messages(i)%data, numbers, [messages(i)%bytes / 8])
            sum = sum + numbers(1) * numbers(2)
        end do
    end subroutine

    subroutine multicasts(rt, all, barrier)
        type(c_ptr), intent(in) :: rt, all, barrier
        integer(c_int64_t), target :: total
        type(loco_multicast_options) :: options, handling
        type(loco_delivery) :: message(1)
        type(c_ptr) :: m, h
        integer(c_int64_t) :: number
        character(20) :: text
        integer(c_int) :: n
        integer :: i

        total = 0
        options%slots = 16
        handling%handler = c_funloc(handler)
        handling%arg = c_loc(total)
        call must(loco_multicast_create(rt, 'polled', all, options, m), 'multicast')
        call must(loco_multicast_create(rt, 'handled', all, handling, h), 'multicast')
        call must(loco_runtime_wait_ready(rt, LOCO_FOREVER), 'ready')
        do i = 1, 10
            call must(loco_multicast_post(h, [int(i, c_int64_t), 2_c_int64_t], 16_c_size_t, number), 'post')
        end do
        call must(loco_multicast_wait_delivered(h, number), 'delivered')
        call must(loco_barrier_wait(barrier), 'barrier')
        call check(total == 110 * size, 'sum of the handler')
        write (text, '(a, i0)') 'from ', me
        call must(loco_multicast_post(m, trim(text), number), 'post')
        do i = 1, size
            call must(loco_multicast_next(m, LOCO_FOREVER, message, 1, n), 'next')
            write (text, '(a, i0)') 'from ', message(1)%sender
            call check(loco_message(message(1)) == trim(text), 'message')
        end do
        call check(loco_multicast_next(m, 1000_c_int64_t, message, 1, n) == LOCO_ERR_TIMEOUT, 'no more')
        call must(loco_barrier_wait(barrier), 'barrier')
        call loco_multicast_destroy(h)
        call loco_multicast_destroy(m)
    end subroutine
end module

program main
    use objects
    implicit none
    type(c_ptr) :: rt, again, all, barrier

    if (command_argument_count() > 0) then
        call sizes()
        stop
    end if
    call MPI_Init()
    call must(loco_runtime_open_mpi(MPI_COMM_WORLD, rt), 'open')
    call must(loco_runtime_open_mpi(MPI_COMM_WORLD%MPI_VAL, again), 'open by an integer')
    call loco_runtime_close_mpi(again)
    all = loco_everyone(rt)
    me = loco_group_rank(all)
    size = loco_group_size(all)
    call must(loco_barrier_create(rt, 'barrier', all, barrier), 'barrier')
    call check(loco_barrier_create(rt, '', all, again) == LOCO_ERR_NAME, 'a name')
    call regions(rt, all, barrier)
    call queues(rt, all, barrier)
    call windows(rt)
    call transactions(rt, all, barrier)
    call multicasts(rt, all, barrier)
    call loco_barrier_destroy(barrier)
    call loco_runtime_close_mpi(rt)
    call MPI_Finalize()
    if (me == 0) write (*, '(i0, a)') checks, ' checks'
end program

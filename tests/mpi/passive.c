/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passive target: that locks exclude what they have to, that flushes complete what they have to,
 * and the order in which others see it (litmus tests).
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

static long read_long(const struct tl_win *w, size_t at)
{
    long value;

    memcpy(&value, w->base + at, sizeof value);
    return value;
}

static void get_long(struct tl_win *w, int target, size_t at, long *to)
{
    tl_ok(MPI_Get(to, 1, MPI_LONG, target, tl_disp(w, target, at), 1, MPI_LONG, w->win), "get");
    tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
}

static void put_long(struct tl_win *w, int target, size_t at, const long *from)
{
    tl_ok(MPI_Put(from, 1, MPI_LONG, target, tl_disp(w, target, at), 1, MPI_LONG, w->win), "put");
}

/* ---- exclusion ---- */

/* get, add, put under an exclusive lock: the plainest counter, on each rank's part. */
static void exclusive_counter(int flavor)
{
    struct tl_win w;
    long value = -1, reps = tl_rounds(100);

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < reps; i++)
        for (int k = 0; k < w.size; k++) {
            int target = (w.rank * i + k) % w.size;
            tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win), "MPI_Win_lock");
            get_long(&w, target, 8, &value);
            value++;
            put_long(&w, target, 8, &value);
            tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
        }
    tl_barrier();
    tl_local_begin(&w);
    tl_eq(read_long(&w, 8), reps * w.size, "the counter");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* The same counter, without flushes inside: unlock alone completes. Owners store directly. */
static void exclusive_owner(int flavor)
{
    struct tl_win w;
    long value, reps = tl_rounds(200);

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < reps; i++) {
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win), "MPI_Win_lock");
        if (w.rank == 0) {
            value = read_long(&w, 0) + 1;
            memcpy(w.base, &value, sizeof value);
        } else {
            get_long(&w, 0, 0, &value);
            value++;
            put_long(&w, 0, 0, &value);
        }
        tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    }
    tl_barrier();
    tl_local_begin(&w);
    if (w.rank == 0)
        tl_eq(read_long(&w, 0), reps * w.size, "the counter");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* One write that others must not see half: two far apart words get the same value. */
static void write_both(struct tl_win *w, int target, long value)
{
    put_long(w, target, 0, &value);
    tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
    put_long(w, target, 4096, &value);
    tl_ok(MPI_Win_flush_local(target, w->win), "MPI_Win_flush_local"); /* `value` goes away */
}

static void read_both(struct tl_win *w, int target)
{
    long a = -1, b = -2;

    get_long(w, target, 4096, &b);
    get_long(w, target, 0, &a);
    tl_true(a == b, "a reader saw %ld and %ld: a writer was inside", a, b);
}

static void shared_and_exclusive(int flavor)
{
    struct tl_win w;
    uint64_t seed;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4096 + 8, 8))
        return;
    seed = (uint64_t)w.rank;
    for (int i = 0; i < tl_rounds(300); i++) {
        int target = tl_below(&seed, w.size), exclusive = tl_below(&seed, 3) == 0;
        tl_ok(MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w.win),
              "MPI_Win_lock");
        if (exclusive)
            write_both(&w, target, i * 1000 + w.rank);
        else
            read_both(&w, target);
        tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
    }
    tl_win_close(&w);
}

/* Readers hold the lock on all, writers the exclusive lock of one. */
static void lock_all_and_exclusive(int flavor)
{
    struct tl_win w;
    uint64_t seed;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4096 + 8, 8))
        return;
    seed = (uint64_t)w.rank + 5;
    for (int i = 0; i < tl_rounds(200); i++) {
        int target = tl_below(&seed, w.size);
        if (tl_below(&seed, 3) == 0) {
            tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win), "MPI_Win_lock");
            write_both(&w, target, i * 1000 + w.rank);
            tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
        } else {
            tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
            for (int t = 0; t < w.size; t++)
                read_both(&w, (target + t) % w.size);
            tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
        }
    }
    tl_win_close(&w);
}

/* Shared locks do not exclude one another: all ranks are inside at once. */
static void shared_together(int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < 20; i++) {
        int all = i % 2 == w.rank % 2;
        if (all)
            tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
        else
            tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win), "MPI_Win_lock");
        tl_barrier();
        if (all)
            tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
        else
            tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    }
    tl_win_close(&w);
}

/* Exclusive locks of different parts do not exclude one another. */
static void exclusive_apart(int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < 20; i++) {
        int target = (w.rank + i) % w.size;
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win), "MPI_Win_lock");
        tl_barrier();
        tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
    }
    tl_win_close(&w);
}

static void no_check(int flavor)
{
    struct tl_win w;
    long value;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4096, 8))
        return;
    for (int i = 0; i < tl_rounds(50); i++) {
        int turn = i % w.size, target = (i / 2) % w.size;
        if (w.rank == turn) {
            value = i;
            tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, MPI_MODE_NOCHECK, w.win), "lock");
            put_long(&w, target, 0, &value);
            tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
        }
        tl_barrier();
        tl_ok(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win), "MPI_Win_lock_all");
        get_long(&w, target, 0, &value);
        tl_eq(value, i, "what was put under a lock without check");
        tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
        tl_barrier();
    }
    /* and ordinary locks still work */
    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win), "MPI_Win_lock");
    tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    tl_win_close(&w);
}

/* Locks of several targets held at once, given back in another order. */
static void several_locks(int flavor)
{
    struct tl_win w;
    long value, reps = tl_rounds(50);

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < reps; i++) {
        for (int t = 0; t < w.size; t++) /* rising: no deadlock */
            tl_ok(MPI_Win_lock(i % 4 == 3 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, t, 0, w.win),
                  "MPI_Win_lock");
        for (int t = 0; t < w.size && i % 4 != 3; t++) {
            get_long(&w, t, 0, &value);
            value++;
            put_long(&w, t, 0, &value);
        }
        for (int k = 0; k < w.size; k++) {
            int t = i % 2 == 0 ? k : w.size - 1 - k;
            tl_ok(MPI_Win_unlock(t, w.win), "MPI_Win_unlock");
        }
    }
    tl_barrier();
    tl_local_begin(&w);
    tl_eq(read_long(&w, 0), (reps * 3 / 4 + (reps % 4 != 0)) * w.size, "the counter");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* Locks of two windows have nothing to do with each other. */
static void two_windows(int flavor)
{
    struct tl_win a, b;
    long value, reps = tl_rounds(50);

    if (!tl_win_open(&a, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    if (!tl_win_open(&b, flavor, MPI_COMM_WORLD, 64, 8)) {
        tl_win_close(&a);
        return;
    }
    for (int i = 0; i < reps; i++) {
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, a.win), "MPI_Win_lock");
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, b.win), "MPI_Win_lock");
        get_long(&a, 0, 0, &value);
        value++;
        put_long(&b, 0, 0, &value);
        put_long(&a, 0, 0, &value);
        tl_ok(MPI_Win_unlock(0, i % 2 == 0 ? a.win : b.win), "MPI_Win_unlock");
        tl_ok(MPI_Win_unlock(0, i % 2 == 0 ? b.win : a.win), "MPI_Win_unlock");
    }
    tl_barrier();
    tl_local_begin(&a);
    tl_local_begin(&b);
    if (a.rank == 0)
        tl_true(read_long(&a, 0) == reps * a.size && read_long(&b, 0) == reps * a.size,
                "counters %ld, %ld", read_long(&a, 0), read_long(&b, 0));
    tl_local_end(&b);
    tl_local_end(&a);
    tl_win_close(&b);
    tl_win_close(&a);
}

/* ---- flush and sync ---- */

static int do_flush(struct tl_win *w, int kind, int target)
{
    switch (kind) {
    case 0:
        return MPI_Win_flush(target, w->win);
    default:
        return MPI_Win_flush_all(w->win);
    }
}

/* What was put before a flush is there when a message sent behind it arrives. */
static void flush_then_message(int flavor)
{
    struct tl_win w;
    int next, before, word = 0;
    long value;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    next = (w.rank + 1) % w.size;
    before = (w.rank + w.size - 1) % w.size;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (int i = 1; i <= tl_rounds(300); i++) {
        value = i * 1000 + w.rank;
        put_long(&w, next, 8, &value);
        tl_ok(do_flush(&w, i % 2, next), "flush");
        MPI_Sendrecv(&i, 1, MPI_INT, next, 1, &word, 1, MPI_INT, before, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        tl_ok(MPI_Win_sync(w.win), "MPI_Win_sync");
        tl_eq(read_long(&w, 8), i * 1000 + before, "what was put before the flush");
        tl_barrier();
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* After a local flush the origin buffer is free; after any flush a get's data are there. */
static void local_flushes(int flavor)
{
    enum { WORDS = 512 };
    struct tl_win w;
    long buffer[WORDS], back[WORDS];
    int next;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, WORDS * 8, 8))
        return;
    next = (w.rank + 1) % w.size;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (int i = 0; i < tl_rounds(100); i++) {
        size_t half = i % 2 == 0 ? WORDS : 5;
        for (int k = 0; k < WORDS; k++)
            buffer[k] = i * 1000 + k;
        tl_ok(MPI_Put(buffer, (int)half, MPI_LONG, next, tl_disp(&w, next, 0), (int)half, MPI_LONG,
                      w.win), "put");
        tl_ok(i % 3 == 0 ? MPI_Win_flush_local(next, w.win) : MPI_Win_flush_local_all(w.win),
              "local flush");
        memset(buffer, 0xff, sizeof buffer);
        tl_ok(do_flush(&w, i / 2 % 2, next), "flush"); /* orders the put before the get */
        tl_ok(MPI_Get(back, (int)half, MPI_LONG, next, tl_disp(&w, next, 0), (int)half, MPI_LONG,
                      w.win), "get");
        tl_ok(i % 3 == 1 ? MPI_Win_flush_local(next, w.win) : MPI_Win_flush_local_all(w.win),
              "local flush");
        for (size_t k = 0; k < half; k++)
            tl_eq(back[k], i * 1000 + (long)k, "a word put and got");
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* Under a lock of one target its flushes work too, and unlock ends what is left. */
static void flush_under_lock(int flavor)
{
    struct tl_win w;
    long value = 5, got = 0;
    int next = (tl_rank() + 1) % tl_size();

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int type = 0; type < 2; type++) {
        value = 5 + type;
        tl_ok(MPI_Win_lock(type == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, next, 0, w.win),
              "MPI_Win_lock");
        put_long(&w, next, 0, &value);
        tl_ok(MPI_Win_flush(next, w.win), "MPI_Win_flush");
        tl_ok(MPI_Win_flush_local(next, w.win), "MPI_Win_flush_local");
        tl_ok(MPI_Win_flush_all(w.win), "MPI_Win_flush_all");
        tl_ok(MPI_Win_flush_local_all(w.win), "MPI_Win_flush_local_all");
        tl_ok(MPI_Win_sync(w.win), "MPI_Win_sync");
        tl_ok(MPI_Get(&got, 1, MPI_LONG, next, tl_disp(&w, next, 0), 1, MPI_LONG, w.win), "get");
        tl_ok(MPI_Win_unlock(next, w.win), "MPI_Win_unlock");
        tl_eq(got, value, "what was got behind a flush");
        tl_barrier();
    }
    tl_win_close(&w);
}

/* ---- litmus ---- */

static void wait_for_flag(struct tl_win *w, long due, int how)
{
    long seen = 0, ignored = 0;

    while (seen != due && !tl_failed()) {
        if (how == 0) {
            tl_ok(MPI_Win_sync(w->win), "MPI_Win_sync");
            seen = __atomic_load_n((long *)(void *)(w->base + 2048), __ATOMIC_ACQUIRE);
        } else if (how == 1) {
            get_long(w, w->rank, 2048, &seen);
        } else {
            tl_ok(MPI_Fetch_and_op(&ignored, &seen, MPI_LONG, w->rank, tl_disp(w, w->rank, 2048),
                                   MPI_NO_OP, w->win), "MPI_Fetch_and_op");
            tl_ok(MPI_Win_flush(w->rank, w->win), "MPI_Win_flush");
        }
        tl_wait_quietly(0); /* polls, and leaves the CPU to the writer: many ranks, few cores */
        tl_true(seen == due || seen == due - 1, "the flag is %ld before %ld", seen, due);
    }
}

static void send_data(struct tl_win *w, int to, long round, int how)
{
    long block[256];

    for (int k = 0; k < 256; k++)
        block[k] = round * 1000 + k;
    tl_ok(MPI_Put(block, 256, MPI_LONG, to, tl_disp(w, to, 0), 256, MPI_LONG, w->win), "put");
    tl_ok(MPI_Win_flush(to, w->win), "MPI_Win_flush");
    if (how == 2)
        tl_ok(MPI_Accumulate(&round, 1, MPI_LONG, to, tl_disp(w, to, 2048), 1, MPI_LONG,
                             MPI_REPLACE, w->win), "MPI_Accumulate");
    else
        put_long(w, to, 2048, &round);
    tl_ok(MPI_Win_flush(to, w->win), "MPI_Win_flush");
}

/* data, flush, flag; the reader polls the flag in its own memory and then reads the data. */
static void message_passing(int flavor)
{
    struct tl_win w;
    int partner = tl_rank() ^ 1;
    MPI_Request back;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 2048 + 64, 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (long round = 1; round <= 600 && partner < w.size; round++) {
        int how = (int)(round / 200 % 3), token;
        if (w.rank % 2 == 0) {
            send_data(&w, partner, round, how);
            MPI_Recv(&token, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            continue;
        }
        wait_for_flag(&w, round, how);
        tl_ok(MPI_Win_sync(w.win), "MPI_Win_sync");
        for (int k = 0; k < 256; k++)
            tl_eq(read_long(&w, 8 * (size_t)k), round * 1000 + k, "data behind the flag");
        MPI_Isend(&how, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, &back);
        MPI_Wait(&back, MPI_STATUS_IGNORE);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* Each of two writes its own flag, flushes, reads the other's: not both may see nothing. */
static void store_buffer(int flavor)
{
    struct tl_win w;
    int partner = tl_rank() ^ 1;
    long one = 1, seen = 0, theirs = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 512 * 8, 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (int i = 0; i < 400 && partner < w.size; i++) {
        int zero = tl_rank() & ~1; /* both words lie at the pair's first rank */
        size_t mine = (size_t)(i % 200 * 2 + (w.rank & 1)) * 8;
        size_t other = (size_t)(i % 200 * 2 + !(w.rank & 1)) * 8;
        long fresh = one + i / 200;
        MPI_Sendrecv(&one, 1, MPI_LONG, partner, 3, &theirs, 1, MPI_LONG, partner, 3,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        put_long(&w, zero, mine, &fresh);
        tl_ok(MPI_Win_flush(zero, w.win), "MPI_Win_flush");
        get_long(&w, zero, other, &seen);
        MPI_Sendrecv(&seen, 1, MPI_LONG, partner, 4, &theirs, 1, MPI_LONG, partner, 4,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        tl_true(seen == fresh || theirs == fresh, "neither saw the other's put in round %d", i);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* What the holder of a lock stored is seen by the next holder, whoever owns the memory. */
static void handed_on(int flavor)
{
    struct tl_win w;
    long block[128], turn = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * 129, 8))
        return;
    while (turn < 200 && !tl_failed()) {
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win), "MPI_Win_lock");
        get_long(&w, 0, 0, &turn);
        if (turn < 200 && turn % w.size == w.rank) {
            tl_ok(MPI_Get(block, 128, MPI_LONG, 0, tl_disp(&w, 0, 8), 128, MPI_LONG, w.win), "get");
            tl_ok(MPI_Win_flush(0, w.win), "MPI_Win_flush");
            for (int k = 0; k < 128; k++) {
                tl_eq(block[k], turn == 0 ? 0 : turn * 1000 + k, "what the last holder wrote");
                block[k] = (turn + 1) * 1000 + k;
            }
            turn++;
            tl_ok(MPI_Put(block, 128, MPI_LONG, 0, tl_disp(&w, 0, 8), 128, MPI_LONG, w.win), "put");
            put_long(&w, 0, 0, &turn);
        }
        tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"exclusive_counter", exclusive_counter, TL_ALL, 1, 60},
        {"exclusive_owner", exclusive_owner, TL_ALL, 1, 60},
        {"shared_and_exclusive", shared_and_exclusive, TL_ALL, 1, 60},
        {"lock_all_and_exclusive", lock_all_and_exclusive, TL_ALL, 1, 60},
        {"shared_together", shared_together, TL_ALL, 1, 60},
        {"exclusive_apart", exclusive_apart, TL_ALL, 1, 60},
        {"no_check", no_check, TL_ALL, 1, 60},
        {"several_locks", several_locks, TL_ALL, 1, 60},
        {"two_windows", two_windows, TL_ALL, 1, 60},
        {"flush_then_message", flush_then_message, TL_ALL, 1, 60},
        {"local_flushes", local_flushes, TL_ALL, 1, 60},
        {"flush_under_lock", flush_under_lock, TL_ALL, 1, 60},
        {"message_passing", message_passing, TL_ALL, 2, 60},
        {"store_buffer", store_buffer, TL_ALL, 2, 60},
        {"handed_on", handed_on, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "passive", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

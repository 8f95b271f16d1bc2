/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that meet while they hold locks which do not exclude each other, and others that wait
 * in line between them for a lock which excludes both: the line must not keep the two apart for
 * ever, nor those who pass it the line.
 */
#include "testlib.h"

#include <string.h>

enum { TOKEN = 11, MEETING = 12, STOP = 13 };

#define IN_LINE 0.02 /* seconds, after which who waits for a lock has a place in the line */

static void lock(struct tl_win *w, int type, int target)
{
    tl_ok(MPI_Win_lock(type, target, 0, w->win), "MPI_Win_lock");
}

static void unlock(struct tl_win *w, int target)
{
    tl_ok(MPI_Win_unlock(target, w->win), "MPI_Win_unlock");
}

/* ---- two that meet, and the others in line between them ---- */

/* The others have it from rank 0 that it holds its lock; rank 1 waits until they are in line. */
static void tell_others(const struct tl_win *w)
{
    for (int i = 1; i < w->size; i++)
        MPI_Send(NULL, 0, MPI_BYTE, i, TOKEN, MPI_COMM_WORLD);
}

static void await_token(void)
{
    MPI_Recv(NULL, 0, MPI_BYTE, 0, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (tl_rank() == 1)
        tl_wait_quietly(IN_LINE);
}

/* With locks in hand. */
static void meet(void)
{
    int to = tl_rank(), from = -1;

    MPI_Sendrecv(&to, 1, MPI_INT, 1 - to, MEETING, &from, 1, MPI_INT, 1 - to, MEETING,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    tl_eq(from, 1 - to, "who was met");
}

static void add_one(struct tl_win *w, int target)
{
    long value = 0;

    tl_ok(MPI_Get(&value, 1, MPI_LONG, target, tl_disp(w, target, 0), 1, MPI_LONG, w->win), "get");
    tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
    value++;
    tl_ok(MPI_Put(&value, 1, MPI_LONG, target, tl_disp(w, target, 0), 1, MPI_LONG, w->win), "put");
}

/* A writer of this round. */
static void write_once(struct tl_win *w, int target)
{
    lock(w, MPI_LOCK_EXCLUSIVE, target);
    add_one(w, target);
    unlock(w, target);
}

static long first_word(struct tl_win *w)
{
    long value;

    tl_local_begin(w);
    memcpy(&value, w->base, sizeof value);
    tl_local_end(w);
    return value;
}

/* What the two hold while they meet; the others want what excludes it. */
enum way { SHARED, ALL, EXCLUSIVE };

static void take(struct tl_win *w, enum way way)
{
    if (way == ALL)
        tl_ok(MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
    else if (way == SHARED)
        lock(w, MPI_LOCK_SHARED, 0);
    else
        lock(w, MPI_LOCK_EXCLUSIVE, w->rank);
}

static void give_back(struct tl_win *w, enum way way)
{
    if (way == ALL)
        tl_ok(MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
    else
        unlock(w, way == SHARED ? 0 : w->rank);
}

static void wait_in_line(struct tl_win *w, enum way way)
{
    if (way == EXCLUSIVE) {
        take(w, ALL);
        give_back(w, ALL);
    } else {
        write_once(w, 0);
    }
}

static void with_message(int flavor, enum way way)
{
    struct tl_win w;
    int rounds = tl_rounds(3);

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < rounds; i++) {
        if (w.rank > 0)
            await_token();
        if (w.rank > 1) {
            wait_in_line(&w, way);
        } else {
            take(&w, way);
            if (w.rank == 0)
                tell_others(&w);
            meet();
            if (way == EXCLUSIVE)
                add_one(&w, w.rank);
            give_back(&w, way);
        }
        tl_barrier();
    }
    if (way == EXCLUSIVE && w.rank < 2)
        tl_eq(first_word(&w), rounds, "what the two have counted");
    else if (way != EXCLUSIVE && w.rank == 0)
        tl_eq(first_word(&w), (long)rounds * (w.size - 2), "what the others have counted");
    tl_win_close(&w);
}

static void shared_and_message(int flavor)
{
    with_message(flavor, SHARED);
}

static void all_and_message(int flavor)
{
    with_message(flavor, ALL);
}

static void exclusive_and_message(int flavor)
{
    with_message(flavor, EXCLUSIVE);
}

/* ---- two that meet by a second lock ---- */

/* Rank 0 takes `a` and then `b`, rank 1 the other way round, the others one of them exclusive. */
static void crosswise(struct tl_win *a, int a_target, struct tl_win *b, int b_target, int round)
{
    struct tl_win *mine = a->rank == 0 ? a : b, *other = a->rank == 0 ? b : a;
    int my_target = a->rank == 0 ? a_target : b_target;
    int other_target = a->rank == 0 ? b_target : a_target;

    if (a->rank < 2) {
        lock(mine, MPI_LOCK_SHARED, my_target);
        meet();
        if (a->rank == 0)
            tell_others(a);
        else
            await_token();
        tl_wait_quietly(IN_LINE);
        lock(other, MPI_LOCK_SHARED, other_target);
        unlock(other, other_target);
        unlock(mine, my_target);
    } else {
        await_token();
        if ((a->rank + round) % 2 == 0)
            write_once(a, a_target);
        else
            write_once(b, b_target);
    }
    tl_barrier();
}

static void two_targets(int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < tl_rounds(3); i++)
        crosswise(&w, 0, &w, 1, i);
    tl_win_close(&w);
}

static void two_windows(int flavor)
{
    struct tl_win a, b;

    if (!tl_win_open(&a, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    if (!tl_win_open(&b, flavor, MPI_COMM_WORLD, 64, 8)) {
        tl_win_close(&a);
        return;
    }
    for (int i = 0; i < tl_rounds(3); i++)
        crosswise(&a, 0, &b, 0, i);
    tl_win_close(&b);
    tl_win_close(&a);
}

/* ---- and the line moves ---- */

static int stopped(void)
{
    int there = 0;

    MPI_Iprobe(0, STOP, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    return there;
}

/* Seconds after which readers give up, and a writer that they starve is let in. */
#define READ 30.0

/* All but rank 0 hold a lock of their own for good, and take one of rank 0 again and again. */
static void read_until_stopped(struct tl_win *w)
{
    double until = tl_now() + READ * tl_scale();

    lock(w, MPI_LOCK_SHARED, w->rank);
    tl_barrier();
    while (!stopped() && tl_now() < until) {
        lock(w, MPI_LOCK_SHARED, 0);
        tl_compute(0.0003);
        unlock(w, 0);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, STOP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    unlock(w, w->rank);
}

static void writer_among_nested_readers(int flavor)
{
    struct tl_win w;
    double start;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    if (w.rank > 0) {
        read_until_stopped(&w);
    } else {
        tl_barrier();
        tl_wait_quietly(IN_LINE);
        start = tl_now();
        write_once(&w, 0);
        tl_true(tl_now() - start < READ / 2 * tl_scale(), "a writer waited for %.1f s",
                tl_now() - start);
        for (int i = 1; i < w.size; i++)
            MPI_Send(NULL, 0, MPI_BYTE, i, STOP, MPI_COMM_WORLD);
    }
    tl_barrier();
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"shared_and_message", shared_and_message, TL_ALL, 3, 60},
        {"all_and_message", all_and_message, TL_ALL, 3, 60},
        {"exclusive_and_message", exclusive_and_message, TL_ALL, 3, 60},
        {"two_targets", two_targets, TL_ALL, 4, 60},
        {"two_windows", two_windows, TL_ALL, 4, 60},
        {"writer_among_nested_readers", writer_among_nested_readers, TL_ALL, 2, 60},
    };

    return tl_main(argc, argv, "meetings", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

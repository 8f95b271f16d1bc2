/* SPDX-License-Identifier: BSD-3-Clause */

/* An MPI program that loses a rank which runs on another machine. Rank 1 ends all at once, stops,
 * or cuts its machine off; rank 0 must see an error within a bounded time, whatever it does.
 *
 *   lost_peer killed|stopped|cut_off CALL [SECONDS]
 *
 * CALL: puts, gets, adds (with a flush each, all the while), or a wait that only rank 1 could end:
 * waits (a fence), locks (what rank 1 has locked), completes, waits_epoch (for its post, its
 * complete), accumulates (under rank 1's exclusive lock).
 *
 * Rank 0 prints "lost after S s" and ends with status 0 if it was told within SECONDS (40) of rank
 * 1's end, which is 2 s after the begin. */

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1024, BEFORE_S = 2 };

static MPI_Win win;
static MPI_Group other;                 /* of rank 0: rank 1, and the other way round */

/* What rank 0 waits for was not noticed. */
static void hangs(int number)
{
    static const char text[] = "rank 0 hangs: its peer is gone, and it has not noticed\n";

    (void)number;
    if (write(2, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

/* ---- what rank 0 does until it is told ---- */

static int flushed(int rc)
{
    return rc == MPI_SUCCESS ? MPI_Win_flush(1, win) : rc;
}

static int put(void)
{
    long word = 1;

    return flushed(MPI_Put(&word, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win));
}

static int get(void)
{
    long word;

    return flushed(MPI_Get(&word, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win));
}

static int add(void)
{
    long word = 1, old;

    return flushed(MPI_Fetch_and_op(&word, &old, MPI_LONG, 1, 1, MPI_SUM, win));
}

static int fence(void)
{
    return MPI_Win_fence(0, win);
}

static int lock(void)
{
    return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
}

static int complete(void)
{
    int rc = MPI_Win_start(other, 0, win);

    return rc == MPI_SUCCESS ? MPI_Win_complete(win) : rc;
}

static int wait_epoch(void)
{
    int rc = MPI_Win_post(other, 0, win);

    return rc == MPI_SUCCESS ? MPI_Win_wait(win) : rc;
}

/* Of rank 1's window, which has locked it itself. */
static int accumulate(void)
{
    long words[WORDS] = { 1 };
    int rc = MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);

    if (rc == MPI_SUCCESS)
        rc = MPI_Accumulate(words, WORDS, MPI_LONG, 1, 0, WORDS, MPI_LONG, MPI_SUM, win);
    return rc == MPI_SUCCESS ? MPI_Win_unlock(1, win) : rc;
}

static const struct call {
    const char *name;
    int (*fn)(void);
    int all_locked;                     /* rank 0 holds shared locks */
    int locked;                         /* rank 1 holds this rank's exclusive lock; -1: none */
} calls[] = {
    { "puts", put, 1, -1 }, { "gets", get, 1, -1 }, { "adds", add, 1, -1 },
    { "waits", fence, 0, -1 }, { "locks", lock, 0, 0 }, { "completes", complete, 0, -1 },
    { "waits_epoch", wait_epoch, 0, -1 }, { "accumulates", accumulate, 0, 1 },
};
#define CALLS (int)(sizeof calls / sizeof calls[0])

static int lose(const struct call *call, int limit_s)
{
    double begin = MPI_Wtime(), took;
    int rc;

    alarm((unsigned)(BEFORE_S + limit_s));
    do
        rc = call->fn();
    while (rc == MPI_SUCCESS);
    took = MPI_Wtime() - begin;
    printf("lost after %.1f s\n", took);
    fflush(stdout);
    return took > BEFORE_S - 1 ? 0 : 1;
}

/* ---- rank 1 ---- */

static void end(const char *how)
{
    sleep(BEFORE_S);
    if (strcmp(how, "killed") == 0)
        raise(SIGKILL);
    if (strcmp(how, "stopped") == 0)
        raise(SIGSTOP);
    else if (system("ip link set eth0 down") != 0)
        abort();
    for (;;)
        pause();
}

static void set_up(int rank)
{
    MPI_Group all;
    int peer = 1 - rank;
    long *base;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &peer, &other);
    MPI_Group_free(&all);
    MPI_Win_allocate(WORDS * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                     &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(base, 0, WORDS * sizeof *base);
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

int main(int argc, char **argv)
{
    const struct call *call = calls;
    int rank;

    while (argc > 2 && call < calls + CALLS && strcmp(call->name, argv[2]) != 0)
        call++;
    if (argc < 3 || call == calls + CALLS)
        return 2;
    signal(SIGALRM, hangs);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    set_up(rank);
    if (rank == 1 && call->locked >= 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, call->locked, 0, win);
    if (rank == 0 && call->all_locked) {
        MPI_Win_lock_all(0, win);
        call->fn();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        end(argv[1]);
    _exit(lose(call, argc > 3 ? atoi(argv[3]) : 40));   /* MPI has nobody left to finalize with */
}

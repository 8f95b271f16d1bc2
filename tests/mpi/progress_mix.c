/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows used together with messages and collectives. A rank that waits inside a call on a window
 * has to let its messages go on: here others wait for just that.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 20 }; /* longs: far beyond what is sent without the receiver's help */

static int next_rank(void)
{
    return (tl_rank() + 1) % tl_size();
}

static int previous_rank(void)
{
    return (tl_rank() + tl_size() - 1) % tl_size();
}

/* ---- a receive goes on while its rank waits in a call on a window ---- */

struct stall {
    struct tl_win w;
    long *data;
    MPI_Group zero, one;
};

static int stall_open(struct stall *s, int flavor)
{
    MPI_Group all;
    int a = 0, b = 1;

    if (!tl_win_open(&s->w, flavor, MPI_COMM_WORLD, 64, 8))
        return 0;
    s->data = calloc(LARGE, sizeof *s->data);
    for (int i = 0; i < LARGE && s->w.rank == 0; i++)
        s->data[i] = i;
    MPI_Win_get_group(s->w.win, &all);
    MPI_Group_incl(all, 1, &a, &s->zero);
    MPI_Group_incl(all, 1, &b, &s->one);
    MPI_Group_free(&all);
    return 1;
}

static void stall_close(struct stall *s)
{
    MPI_Group_free(&s->zero);
    MPI_Group_free(&s->one);
    free(s->data);
    tl_win_close(&s->w);
}

static void send_large(struct stall *s)
{
    MPI_Send(s->data, LARGE, MPI_LONG, 1, 5, MPI_COMM_WORLD);
}

/* Rank 1 begins to receive, then waits in `wait` for what rank 0 does in `release`. */
static void stalled(struct stall *s, void (*hold)(struct stall *), void (*wait)(struct stall *),
                    void (*release)(struct stall *))
{
    MPI_Request r;

    if (s->w.rank == 0)
        hold(s);
    tl_barrier();
    if (s->w.rank == 0) {
        send_large(s);
        release(s);
    } else if (s->w.rank == 1) {
        MPI_Irecv(s->data, LARGE, MPI_LONG, 0, 5, MPI_COMM_WORLD, &r);
        wait(s);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        for (int i = 0; i < LARGE; i++)
            if (!tl_eq(s->data[i], i, "what was received"))
                break;
        memset(s->data, 0, LARGE * sizeof *s->data);
    }
    tl_barrier();
}

static void nothing(struct stall *s)
{
    (void)s;
}

static void lock_zero(struct stall *s)
{
    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, s->w.win), "lock");
}

static void unlock_zero(struct stall *s)
{
    tl_ok(MPI_Win_unlock(0, s->w.win), "unlock");
}

static void lock_and_unlock(struct stall *s)
{
    lock_zero(s);
    unlock_zero(s);
}

static void lock_all_and_unlock(struct stall *s)
{
    tl_ok(MPI_Win_lock_all(0, s->w.win), "lock_all");
    tl_ok(MPI_Win_unlock_all(s->w.win), "unlock_all");
}

static void start_and_complete(struct stall *s)
{
    tl_ok(MPI_Win_start(s->zero, 0, s->w.win), "start");
    tl_ok(MPI_Win_complete(s->w.win), "complete");
}

static void post_and_wait(struct stall *s)
{
    tl_ok(MPI_Win_post(s->one, 0, s->w.win), "post");
    tl_ok(MPI_Win_wait(s->w.win), "wait");
}

static void post_for_zero_and_wait(struct stall *s)
{
    tl_ok(MPI_Win_post(s->zero, 0, s->w.win), "post");
    tl_ok(MPI_Win_wait(s->w.win), "wait");
}

static void start_one_and_complete(struct stall *s)
{
    tl_ok(MPI_Win_start(s->one, 0, s->w.win), "start");
    tl_ok(MPI_Win_complete(s->w.win), "complete");
}

static void fence_two(struct stall *s)
{
    tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, s->w.win), "fence");
}

static void stalled_in(int flavor, void (*hold)(struct stall *), void (*wait)(struct stall *),
                       void (*release)(struct stall *))
{
    struct stall s;

    if (!stall_open(&s, flavor))
        return;
    for (int turn = 0; turn < 3; turn++)
        stalled(&s, hold, wait, release);
    stall_close(&s);
}

static void stalled_lock(int flavor)
{
    stalled_in(flavor, lock_zero, lock_and_unlock, unlock_zero);
}

static void stalled_lock_all(int flavor)
{
    stalled_in(flavor, lock_zero, lock_all_and_unlock, unlock_zero);
}

static void stalled_start(int flavor)
{
    stalled_in(flavor, nothing, start_and_complete, post_and_wait);
}

static void stalled_wait(int flavor)
{
    stalled_in(flavor, nothing, post_for_zero_and_wait, start_one_and_complete);
}

/* Ranks above 1 must not hold the barrier while others are in the fence: two ranks only. */
static void stalled_fence(int flavor)
{
    MPI_Comm pair;
    struct stall s;
    MPI_Request r;

    MPI_Comm_split(MPI_COMM_WORLD, tl_rank() < 2 ? 0 : MPI_UNDEFINED, tl_rank(), &pair);
    if (pair == MPI_COMM_NULL)
        return;
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    s.data = calloc(LARGE, sizeof *s.data);
    if (tl_win_open(&s.w, flavor, pair, 64, 8)) {
        for (int turn = 0; turn < 3; turn++) {
            if (s.w.rank == 0) {
                send_large(&s);
                fence_two(&s);
            } else {
                MPI_Irecv(s.data, LARGE, MPI_LONG, 0, 5, MPI_COMM_WORLD, &r);
                fence_two(&s);
                MPI_Wait(&r, MPI_STATUS_IGNORE);
            }
        }
        tl_win_close(&s.w);
    }
    free(s.data);
    MPI_Comm_free(&pair);
}

/* ---- everything under way at once ---- */

static void requests_together(int flavor)
{
    enum { N = 3000 };
    struct tl_win w;
    static long out[N], in[N], put[64], got[64];
    long sum;
    int next = next_rank(), before = previous_rank();

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64 * 8, 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "lock_all");
    for (long turn = 0; turn < 100; turn++) {
        MPI_Request r[5];
        long mine = turn + w.rank, due = turn * w.size + (long)w.size * (w.size - 1) / 2;
        for (int i = 0; i < N; i++)
            out[i] = turn * 100 + w.rank;
        for (int i = 0; i < 64; i++)
            put[i] = turn * 1000 + w.rank;
        MPI_Irecv(in, N, MPI_LONG, before, 1, MPI_COMM_WORLD, &r[0]);
        tl_ok(MPI_Rput(put, 64, MPI_LONG, next, tl_disp(&w, next, 0), 64, MPI_LONG, w.win, &r[1]),
              "rput");
        MPI_Isend(out, N, MPI_LONG, next, 1, MPI_COMM_WORLD, &r[2]);
        MPI_Iallreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &r[3]);
        tl_ok(MPI_Rget(got, 1, MPI_LONG, w.rank, tl_disp(&w, w.rank, 63 * 8), 1, MPI_LONG, w.win,
                       &r[4]), "rget");
        MPI_Waitall(5, r, MPI_STATUSES_IGNORE);
        tl_ok(MPI_Win_flush(next, w.win), "flush");
        tl_eq(sum, due, "the sum of MPI_Iallreduce");
        tl_eq(in[N - 1], turn * 100 + before, "what was received");
        tl_barrier();
        tl_ok(MPI_Rget(got, 64, MPI_LONG, w.rank, tl_disp(&w, w.rank, 0), 64, MPI_LONG, w.win,
                       &r[0]), "rget");
        for (int done = 0; !done;)
            MPI_Test(&r[0], &done, MPI_STATUS_IGNORE);
        tl_eq(got[63], turn * 1000 + before, "what was put");
        tl_barrier();
    }
    tl_ok(MPI_Win_unlock_all(w.win), "unlock_all");
    tl_win_close(&w);
}

/* Collectives of all kinds inside and between epochs of all kinds. */
static void collectives_between(int flavor)
{
    struct tl_win w;
    long value, sum, all[64];

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int turn = 0; turn < 100; turn++) {
        enum tl_epoch how = (enum tl_epoch)(turn % TL_EPOCHS);
        int root = turn % w.size;
        tl_epoch_open(&w, how, next_rank(), previous_rank());
        value = turn * 100 + w.rank;
        tl_ok(MPI_Put(&value, 1, MPI_LONG, next_rank(), tl_disp(&w, next_rank(), 8), 1, MPI_LONG,
                      w.win), "put");
        sum = w.rank == root ? turn : -1;
        MPI_Bcast(&sum, 1, MPI_LONG, root, MPI_COMM_WORLD);
        tl_eq(sum, turn, "MPI_Bcast inside an epoch");
        tl_epoch_close(&w, how, next_rank());
        tl_local_begin(&w);
        memcpy(&value, w.base + 8, sizeof value);
        tl_local_end(&w);
        tl_eq(value, turn * 100 + previous_rank(), tl_epoch_name(how));
        if (w.size <= 64) {
            MPI_Allgather(&value, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
            for (int r = 0; r < w.size; r++)
                tl_eq(all[r], turn * 100 + (r + w.size - 1) % w.size, "MPI_Allgather");
        }
    }
    tl_win_close(&w);
}

/* Tasks are drawn with fetch_and_op, results go to rank 0 as messages, in any order. */
static void tasks(int flavor)
{
    enum { TASKS = 400 };
    struct tl_win w;
    static char seen[TASKS];
    long one = 1, task, message[2];
    MPI_Status status;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    memset(seen, 0, sizeof seen);
    tl_ok(MPI_Win_lock_all(0, w.win), "lock_all");
    for (int left = w.rank == 0 ? TASKS : 0; left > 0; left--) {
        MPI_Recv(message, 2, MPI_LONG, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status);
        tl_true(message[0] >= 0 && message[0] < TASKS && !seen[message[0]], "task %ld twice",
                message[0]);
        tl_eq(message[1], message[0] * message[0], "a result");
        if (message[0] >= 0 && message[0] < TASKS)
            seen[message[0]] = 1;
    }
    while (w.rank != 0) {
        tl_ok(MPI_Fetch_and_op(&one, &task, MPI_LONG, 0, tl_disp(&w, 0, 0), MPI_SUM, w.win),
              "fetch_and_op");
        tl_ok(MPI_Win_flush(0, w.win), "flush");
        if (task >= TASKS || tl_failed())
            break;
        message[0] = task;
        message[1] = task * task;
        MPI_Send(message, 2, MPI_LONG, 0, 7, MPI_COMM_WORLD);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "unlock_all");
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"stalled_lock", stalled_lock, TL_ALL, 2, 30},
        {"stalled_lock_all", stalled_lock_all, TL_ALL, 2, 30},
        {"stalled_start", stalled_start, TL_ALL, 2, 30},
        {"stalled_wait", stalled_wait, TL_ALL, 2, 30},
        {"stalled_fence", stalled_fence, TL_ALL, 2, 30},
        {"requests_together", requests_together, TL_ALL, 1, 60},
        {"collectives_between", collectives_between, TL_ALL, 1, 60},
        {"tasks", tasks, TL_ALL, 2, 60},
    };

    return tl_main(argc, argv, "progress_mix", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

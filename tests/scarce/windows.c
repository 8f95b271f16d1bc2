/* SPDX-License-Identifier: BSD-3-Clause */

/* windows KIND|all WHO WHAT [once|ever]: what channels.c does, with windows of MPI: three ranks
 * make one, use it and free it; in round n, the n-th call of our libraries that asks for WHAT fails
 * at rank WHO. It is made at all or by none, calls that fail can be made again, what they say that
 * they have done is done, and nobody waits for ever. */

#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scarce.h"

#define RANKS_MOST 16
#define LONGS 512                   /* of a window's part */
#define SECONDS 40                  /* for a round: more is a hang */
#define ROUNDS_MOST 400
#define SKIP 77

enum { ALLOCATE, SHARED, CREATE, DYNAMIC, KINDS };
static const char *const names[KINDS] = { "allocate", "shared", "create", "dynamic" };

static struct {
    scarce_arm_fn *arm;
    scarce_disarm_fn *disarm;
    int rank, size, who, ever;
    unsigned what;
    /* For the message of a round that hangs. */
    const char *kind, *now;
    long round;
} run;
static long rounds, refused, failed_calls, wrong;

static void say(const char *what, int code)
{
    char text[200];
    int len = snprintf(text, sizeof text, "%s: %s, round %ld, rank %d, in %s (%d)\n", what,
                       run.kind, run.round, run.rank, run.now, code);

    (void)!write(STDOUT_FILENO, text, (size_t)len);
}

static void stuck(int signal_number)
{
    say("HANG", signal_number);
    _exit(9);
}

static void crashed(int signal_number)
{
    say("CRASH", signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void is_wrong(const char *what, int code)
{
    run.now = what;
    say("WRONG", code);
    wrong++;
}

/* Whether all say so. */
static bool all_say(bool mine)
{
    int all = mine;

    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all != 0;
}

/* ---- a window ---- */

struct window {
    MPI_Win win;
    long *base;
    MPI_Aint at[RANKS_MOST];            /* where each rank's part begins, as a target's offset */
    int unit;
};

static long own[LONGS];

static int create(int kind, struct window *w)
{
    const MPI_Aint bytes = sizeof own;
    int status;

    memset(w, 0, sizeof *w);
    w->win = MPI_WIN_NULL;
    w->base = own;
    memset(own, 0, sizeof own);
    switch (kind) {
    case ALLOCATE:
        return MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->base, &w->win);
    case SHARED:
        return MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->base, &w->win);
    case CREATE:
        return MPI_Win_create(own, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win);
    default:
        break;
    }
    status = MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w->win);
    if (status != MPI_SUCCESS)
        return status;
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    MPI_Get_address(own, &w->at[run.rank]);
    return MPI_Win_attach(w->win, own, bytes);
}

/* Makes the call again, with nothing that fails, if it fails. */
#define AGAIN(call)                                                                              \
    do {                                                                                          \
        run.now = #call;                                                                          \
        if ((call) != MPI_SUCCESS) {                                                              \
            failed_calls++;                                                                       \
            run.disarm();                                                                         \
            int again_ = (call);                                                                  \
            if (again_ != MPI_SUCCESS)                                                            \
                is_wrong(#call, again_);                                                          \
        }                                                                                         \
    } while (0)

/* To the next rank's part, in the places of this one. */
static void put_and_get(struct window *w, int to)
{
    const MPI_Aint mine = w->at[to] + 64 * (run.rank + 1) * (MPI_Aint)sizeof(long);
    long strided[12], back[12] = { 0 }, one = 1, old = -1;
    MPI_Request request;
    MPI_Datatype vector;

    for (int i = 0; i < 12; i++)
        strided[i] = 100 * run.round + i;
    MPI_Type_vector(4, 1, 3, MPI_LONG, &vector);
    MPI_Type_commit(&vector);
    AGAIN(MPI_Put(strided, 1, vector, to, mine, 1, vector, w->win));
    AGAIN(MPI_Win_flush(to, w->win));
    AGAIN(MPI_Rget(back, 1, vector, to, mine, 1, vector, w->win, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 12; i += 3)
        if (back[i] != strided[i])
            is_wrong("what was put is not there", (int)back[i]);
    AGAIN(MPI_Accumulate(strided, 12, MPI_LONG, to, mine + 20 * (MPI_Aint)sizeof(long), 12,
                         MPI_LONG, MPI_SUM, w->win));
    AGAIN(MPI_Fetch_and_op(&one, &old, MPI_LONG, to, w->at[to], MPI_SUM, w->win));
    MPI_Type_free(&vector);
}

static void use_passive(struct window *w)
{
    int next = (run.rank + 1) % run.size;

    AGAIN(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->win));
    put_and_get(w, next);
    AGAIN(MPI_Win_unlock(next, w->win));
    AGAIN(MPI_Win_lock_all(0, w->win));
    AGAIN(MPI_Win_unlock_all(w->win));
}

static void use_active(struct window *w)
{
    int next = (run.rank + 1) % run.size, before = (run.rank + run.size - 1) % run.size;
    long value = run.round;
    MPI_Group all, to, from;

    AGAIN(MPI_Win_fence(0, w->win));
    AGAIN(MPI_Put(&value, 1, MPI_LONG, next, w->at[next] + 8 * (MPI_Aint)sizeof(long), 1, MPI_LONG,
                  w->win));
    AGAIN(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    if (w->base[8] != value)
        is_wrong("a fence has not brought it", (int)w->base[8]);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Group_incl(all, 1, &before, &from);
    AGAIN(MPI_Win_post(from, 0, w->win));
    AGAIN(MPI_Win_start(to, 0, w->win));
    AGAIN(MPI_Put(&value, 1, MPI_LONG, next, w->at[next] + 9 * (MPI_Aint)sizeof(long), 1, MPI_LONG,
                  w->win));
    AGAIN(MPI_Win_complete(w->win));
    AGAIN(MPI_Win_wait(w->win));
    if (w->base[9] != value)
        is_wrong("an epoch has not brought it", (int)w->base[9]);
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
}

static void use(struct window *w)
{
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    MPI_Allgather(&w->at[run.rank], 1, MPI_AINT, w->at, 1, MPI_AINT, MPI_COMM_WORLD);
    use_passive(w);
    run.now = "MPI_Barrier";
    MPI_Barrier(MPI_COMM_WORLD);
    if (w->base[0] != 1)
        is_wrong("one rank has added 1", (int)w->base[0]);
    use_active(w);
}

/* ---- rounds ---- */

static void one_round(int kind, bool sound)
{
    struct window w;
    int status;

    run.now = "create";
    status = create(kind, &w);
    if (!all_say(status == MPI_SUCCESS)) {
        refused++;
        if (sound)
            is_wrong("nothing fails, and it cannot be made", status);
        if (kind != DYNAMIC && status == MPI_SUCCESS)
            is_wrong("it is made here alone", status);
    } else {
        use(&w);
    }
    run.now = "detach, free";
    run.disarm();
    if (kind == DYNAMIC && w.win != MPI_WIN_NULL && status == MPI_SUCCESS)
        MPI_Win_detach(w.win, own);
    if (!all_say(w.win != MPI_WIN_NULL) && w.win != MPI_WIN_NULL)
        is_wrong("a window here alone", 0);
    else if (w.win != MPI_WIN_NULL)
        MPI_Win_free(&w.win);
}

static void rounds_of(int kind)
{
    int without = 0;

    run.kind = names[kind];
    for (run.round = 1; without < 2 && run.round < ROUNDS_MOST; run.round++) {
        int fewer;

        alarm(SECONDS);
        MPI_Barrier(MPI_COMM_WORLD);
        if (run.rank == run.who)
            run.arm(run.round, run.ever, run.what);
        one_round(kind, false);
        fewer = run.rank == run.who && run.disarm() < run.round;
        MPI_Bcast(&fewer, 1, MPI_INT, run.who, MPI_COMM_WORLD);
        without = fewer ? without + 1 : 0;
        rounds++;
        if (run.round % 4 == 0) {
            usleep(30000);              /* what could not be mapped is tried again */
            one_round(kind, true);
        }
    }
}

int main(int argc, char **argv)
{
    long all[3];

    run.arm = (scarce_arm_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, SCARCE_ARM);
    run.disarm = (scarce_disarm_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, SCARCE_DISARM);
    if (run.arm == NULL || argc < 4)
        return run.arm == NULL ? SKIP : 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    signal(SIGALRM, stuck);
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    run.who = atoi(argv[2]);
    run.what = scarce_kind_of(argv[3]);
    run.ever = argc > 4 && strcmp(argv[4], "ever") == 0;
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(argv[1], "all") == 0 || strcmp(argv[1], names[kind]) == 0)
            rounds_of(kind);
    alarm(0);
    all[0] = failed_calls;
    all[1] = wrong;
    MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (run.rank == 0)
        printf("%ld rounds, %ld refused by all, %ld calls failed and were made again, 0 hangs, "
               "%ld wrong\n", rounds, refused, all[0], all[1]);
    return all[1] == 0 ? 0 : 1;
}

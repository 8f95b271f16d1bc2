/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time: one-sided calls need nothing of their target's CPU in MPI; nobody starves at a lock; many
 * ranks on few cores get on. The limits are far above what a healthy run takes (they are printed
 * as notes) and far below the time for which the target stays away.
 */
#include "testlib.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that the target makes no MPI call, and within which the others' work has to be done. */
#define AWAY (1.0 * tl_scale())
#define LIMIT (AWAY / 2)
#define TURN 0.5      /* seconds that a fair turn may take */
#define ATTEMPTS 4    /* at a second without a starved rank */

static int promised(void)
{
    if (getenv("TL_NO_PROGRESS") == NULL)
        return 1;
    tl_skip("this component does not promise it");
    return 0;
}

/* ---- the target is away ---- */

static void work_round(struct tl_win *w, int i)
{
    long one = 1, got = 0, compare = -1;
    MPI_Win win = w->win;
    MPI_Aint own = tl_disp(w, 0, 8 * (size_t)(w->rank + 1)), word = tl_disp(w, 0, 0);

    tl_ok(MPI_Win_lock(i % 2 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, win), "lock");
    tl_ok(MPI_Put(&one, 1, MPI_LONG, 0, own, 1, MPI_LONG, win), "put");
    tl_ok(MPI_Win_flush(0, win), "flush");
    tl_ok(MPI_Get(&got, 1, MPI_LONG, 0, own, 1, MPI_LONG, win), "get");
    tl_ok(MPI_Win_flush(0, win), "flush");
    tl_eq(got, 1, "what was put");
    tl_ok(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, word, MPI_SUM, win), "fetch_and_op");
    tl_ok(MPI_Win_flush(0, win), "flush");
    tl_ok(MPI_Get_accumulate(&one, 1, MPI_LONG, &got, 1, MPI_LONG, 0, word, 1, MPI_LONG, MPI_SUM,
                             win), "get_accumulate");
    tl_ok(MPI_Compare_and_swap(&one, &compare, &got, MPI_LONG, 0, word, win), "cas");
    tl_ok(MPI_Win_unlock(0, win), "unlock");
    tl_ok(MPI_Win_lock_all(0, win), "lock_all");
    tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, 0, word, 1, MPI_LONG, MPI_SUM, win), "accumulate");
    tl_ok(MPI_Win_flush_all(win), "flush_all");
    tl_ok(MPI_Win_unlock_all(win), "unlock_all");
}

/* Who needs the target waits for it in every attempt; who only lost the CPU does not. */
static void target_away(int flavor, void (*away)(double))
{
    enum { ROUNDS = 20 };
    struct tl_win w;
    double start, took, worst;
    long sum;
    int attempt = 0;

    if (!promised())
        return;
    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * (size_t)(tl_size() + 1), 8))
        return;
    do {
        attempt++;
        took = 0;
        tl_barrier();
        start = MPI_Wtime();
        if (w.rank == 0) {
            away(AWAY);
        } else {
            for (int i = 0; i < ROUNDS; i++)
                work_round(&w, i);
            took = MPI_Wtime() - start;
        }
        MPI_Allreduce(&took, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        tl_note("slowest rank: %.4f s, target away for %.1f s", worst, AWAY);
    } while (worst >= LIMIT && attempt < ATTEMPTS);
    tl_true(worst < LIMIT, "%d rounds took %.3f s in each of %d attempts, while the target "
            "was away", ROUNDS, worst, attempt);
    tl_local_begin(&w);
    memcpy(&sum, w.base, sizeof sum);
    if (w.rank == 0)
        tl_eq(sum, 3L * ROUNDS * attempt * (w.size - 1), "the sum");
    tl_local_end(&w);
    tl_win_close(&w);
}

static void target_computes(int flavor)
{
    target_away(flavor, tl_compute);
}

static void target_sleeps(int flavor)
{
    target_away(flavor, tl_wait_quietly);
}

/* ---- each call by itself, while the target computes ---- */

#define CALLS 200   /* of each kind */

struct apart {
    MPI_Datatype strided, pairs;    /* of 4 longs */
};

static void put_locked(struct tl_win *w, const struct apart *types, int kind)
{
    long value = 7;

    (void)types;
    tl_ok(MPI_Win_lock(kind, 0, 0, w->win), "lock");
    tl_ok(MPI_Put(&value, 1, MPI_LONG, 0, tl_disp(w, 0, 8 * (size_t)w->rank), 1, MPI_LONG, w->win),
          "put");
    tl_ok(MPI_Win_unlock(0, w->win), "unlock");
}

static void put_exclusive(struct tl_win *w, const struct apart *types)
{
    put_locked(w, types, MPI_LOCK_EXCLUSIVE);
}

static void put_shared(struct tl_win *w, const struct apart *types)
{
    put_locked(w, types, MPI_LOCK_SHARED);
}

static void fetch(struct tl_win *w, const struct apart *types)
{
    long one = 1, got;

    (void)types;
    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win), "lock");
    tl_ok(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, tl_disp(w, 0, 512), MPI_SUM, w->win), "fetch");
    tl_ok(MPI_Win_unlock(0, w->win), "unlock");
}

static void fetch_derived(struct tl_win *w, const struct apart *types)
{
    long one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, got[16];

    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win), "lock");
    tl_ok(MPI_Get_accumulate(one, 1, types->pairs, got, 1, types->strided, 0, tl_disp(w, 0, 640),
                             1, types->strided, MPI_SUM, w->win), "get_accumulate");
    tl_ok(MPI_Win_unlock(0, w->win), "unlock");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The calls of all ranks but the target; returns the worst of any, to all. */
static double time_calls(struct tl_win *w, const struct apart *types, const char *name,
                         void (*call)(struct tl_win *, const struct apart *))
{
    double took[CALLS] = {0}, mine[2], worst[2];

    for (int i = 0; i < CALLS && w->rank != 0; i++) {
        double start = tl_now();
        call(w, types);
        took[i] = tl_now() - start;
    }
    qsort(took, CALLS, sizeof took[0], by_size);
    mine[0] = took[CALLS / 2];
    mine[1] = took[CALLS - 1];
    MPI_Allreduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    tl_note("%s: median %.3f us, worst %.1f us (of the slowest rank)", name, 1e6 * worst[0],
            1e6 * worst[1]);
    return worst[1];
}

static int calls_while_away(struct tl_win *w, const struct apart *types, const char *name,
                            void (*call)(struct tl_win *, const struct apart *), double compute)
{
    int attempt = 0;
    double worst;

    do {
        attempt++;
        tl_barrier();
        if (w->rank == 0)
            tl_compute(compute);
        worst = time_calls(w, types, name, call);
    } while (worst >= compute / 2 && attempt < ATTEMPTS);
    tl_true(worst < compute / 2, "%s took %.3f s in each of %d attempts, beside a target that "
            "computes for %.3f s", name, worst, attempt, compute);
    return attempt;
}

/* `--away 5`: the target computes for 5 s, a quarter for each kind of call. It takes part in
 * nothing: the reduction waits for it at the end. */
static void each_call(int flavor)
{
    double compute = (double)tl_option("--away", 2) / 4;
    struct apart types;
    struct tl_win w;
    long word[2], fetches, sums;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 1024, 8))
        return;
    MPI_Type_vector(4, 1, 3, MPI_LONG, &types.strided);
    MPI_Type_vector(2, 2, 5, MPI_LONG, &types.pairs);
    MPI_Type_commit(&types.strided);
    MPI_Type_commit(&types.pairs);
    calls_while_away(&w, &types, "exclusive lock, put, unlock", put_exclusive, compute);
    calls_while_away(&w, &types, "shared lock, put, unlock", put_shared, compute);
    fetches = calls_while_away(&w, &types, "fetch_and_op", fetch, compute);
    sums = calls_while_away(&w, &types, "get_accumulate, derived types", fetch_derived, compute);
    tl_barrier();
    tl_local_begin(&w);
    memcpy(&word[0], w.base + 512, sizeof word[0]);
    memcpy(&word[1], w.base + 640 + 24, sizeof word[1]);
    if (w.rank == 0) {
        tl_eq(word[0], fetches * CALLS * (w.size - 1), "the sum of fetch_and_op");
        tl_eq(word[1], sums * CALLS * (w.size - 1), "the sum of get_accumulate");
    }
    tl_local_end(&w);
    MPI_Type_free(&types.strided);
    MPI_Type_free(&types.pairs);
    tl_win_close(&w);
}

/* Large and strided transfers from and to a target that sleeps. `--words N`: of so many words. */
static void large_while_away(int flavor)
{
    const int words = (int)tl_option("--words", 65536);
    struct tl_win w;
    MPI_Datatype strided;
    long *data;
    double start, took;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * (size_t)words, 8))
        return;
    data = calloc((size_t)words, sizeof *data);
    MPI_Type_vector(words / 16, 4, 16, MPI_LONG, &strided);
    MPI_Type_commit(&strided);
    tl_barrier();
    start = MPI_Wtime();
    if (w.rank == 0) {
        tl_wait_quietly(AWAY);
    } else {
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win), "lock");
        tl_ok(MPI_Get(data, words, MPI_LONG, 0, tl_disp(&w, 0, 0), words, MPI_LONG, w.win), "get");
        tl_ok(MPI_Accumulate(data, words / 4, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, strided, MPI_SUM,
                             w.win), "accumulate");
        tl_ok(MPI_Win_unlock(0, w.win), "unlock");
        took = MPI_Wtime() - start;
        tl_true(took < LIMIT, "it took %.3f s while the target was away", took);
    }
    MPI_Type_free(&strided);
    free(data);
    tl_win_close(&w);
}

/* start/complete need a post, and nothing else of the target. */
static void posted_then_away(int flavor)
{
    struct tl_win w;
    MPI_Group all, others, zero;
    int first = 0;
    long one = 1;
    double start, took;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    MPI_Win_get_group(w.win, &all);
    MPI_Group_incl(all, 1, &first, &zero);
    MPI_Group_excl(all, 1, &first, &others);
    if (w.rank == 0)
        tl_ok(MPI_Win_post(others, 0, w.win), "MPI_Win_post");
    tl_barrier();
    start = MPI_Wtime();
    if (w.rank == 0) {
        tl_compute(AWAY);
        tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
    } else {
        tl_ok(MPI_Win_start(zero, 0, w.win), "MPI_Win_start");
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG, MPI_SUM, w.win),
              "accumulate");
        tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
        took = MPI_Wtime() - start;
        tl_true(took < LIMIT, "an access epoch took %.3f s while the target was away", took);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&others);
    MPI_Group_free(&zero);
    tl_win_close(&w);
}

/* ---- fairness ---- */

/* A virtual machine may stand still for half of each second, and no lock can help that. So a long
 * turn's time is its part of those milliseconds in which a turn of any rank came to an end: of the
 * second that is one for all. Of a turn beyond what that can excuse, all is counted. */
#define STEPS 4000
#define LONG_TURN 0.05          /* seconds; of longer ones so many are kept */
#define LONG_TURNS 64
#define INEXCUSABLE (4 * TURN)

struct turns {
    double began;                       /* on rank 0, which tells all */
    unsigned char ended[STEPS];         /* a turn, in that millisecond */
    double from[LONG_TURNS], to[LONG_TURNS];
    int n;
    double longest;                     /* of all, by the clock */
};

static int step_of(const struct turns *t, double when)
{
    double step = (when - t->began) * 1000;

    return step < 0 ? 0 : step >= STEPS ? STEPS - 1 : (int)step;
}

static void note_turn(struct turns *t, double from, double to)
{
    t->ended[step_of(t, to)] = 1;
    t->longest = to - from > t->longest ? to - from : t->longest;
    if (to - from > LONG_TURN && t->n < LONG_TURNS) {
        t->from[t->n] = from;
        t->to[t->n++] = to;
    }
}

/* The longest turn of this rank, once `ended` is that of all. */
static double longest_turn(const struct turns *t)
{
    double longest = 0;
    int all = 0;

    for (int k = 0; k < STEPS; k++)
        all += t->ended[k];
    if (all == 0 || t->n == LONG_TURNS || t->longest > INEXCUSABLE)
        return t->longest > TURN ? t->longest : TURN;
    for (int i = 0; i < t->n; i++) {
        int steps = 0;

        for (int k = step_of(t, t->from[i]); k <= step_of(t, t->to[i]); k++)
            steps += t->ended[k];
        longest = (double)steps / all > longest ? (double)steps / all : longest;
    }
    return longest;
}

/* Everyone takes turns for a second; counts of all ranks, and the longest turn of any, on all. */
static double contend(struct tl_win *w, int (*turn)(struct tl_win *), long *counts)
{
    struct turns *t = calloc(1, sizeof *t);
    long mine = 0;
    double now, end, longest[2], worst[2];

    tl_barrier();
    t->began = MPI_Wtime();
    MPI_Bcast(&t->began, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    now = MPI_Wtime();
    end = now + 1.0;
    while (now < end && !tl_failed()) {
        double start = now;
        tl_ok(turn(w), "a turn at the lock");
        mine++;
        now = MPI_Wtime();
        note_turn(t, start, now);
    }
    MPI_Allreduce(MPI_IN_PLACE, t->ended, STEPS, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    longest[0] = longest_turn(t);
    longest[1] = t->longest;
    free(t);
    MPI_Allreduce(longest, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    tl_note("the longest turn of any rank took %.4f s, %.3f s of one without standstills", worst[1],
            worst[0]);
    MPI_Allgather(&mine, 1, MPI_LONG, counts, 1, MPI_LONG, MPI_COMM_WORLD);
    return worst[0];
}

/* Ranks first, first+step, ...: whether the least-served has a part of their mean worth the name.
 * The system's scheduler gives long slices, in which one rank is served again and again. */
static bool served(const long *counts, int first, int step, int size, const char *who)
{
    long least = -1, most = 0, sum = 0;
    int n = 0;

    for (int r = first; r < size; r += step, n++) {
        least = least < 0 || counts[r] < least ? counts[r] : least;
        most = counts[r] > most ? counts[r] : most;
        sum += counts[r];
    }
    if (n == 0)
        return true;
    tl_note("%s: least %ld, most %ld, mean %ld", who, least, most, sum / n);
    return least > 0 && least >= sum / n / 50;
}

static int exclusive_turn(struct tl_win *w)
{
    long value = 0;
    int rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);

    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Get(&value, 1, MPI_LONG, 0, tl_disp(w, 0, 0), 1, MPI_LONG, w->win);
    MPI_Win_flush(0, w->win);
    value++;
    MPI_Put(&value, 1, MPI_LONG, 0, tl_disp(w, 0, 0), 1, MPI_LONG, w->win);
    return MPI_Win_unlock(0, w->win);
}

static int half_lock_all_turn(struct tl_win *w)
{
    int rc;

    if (w->rank % 2 == 0)
        return exclusive_turn(w);
    rc = MPI_Win_lock_all(0, w->win);
    return rc != MPI_SUCCESS ? rc : MPI_Win_unlock_all(w->win);
}

static int half_shared_turn(struct tl_win *w)
{
    int rc;

    if (w->rank % 2 == 0)
        return exclusive_turn(w);
    rc = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
    return rc != MPI_SUCCESS ? rc : MPI_Win_unlock(0, w->win);
}

static void check_counter(struct tl_win *w, long turns)
{
    long value;

    tl_local_begin(w);
    memcpy(&value, w->base, sizeof value);
    if (w->rank == 0)
        tl_eq(value, turns, "the counter behind the lock");
    tl_local_end(w);
}

/* One second of it. All ranks see the same figures. */
static bool fair_second(struct tl_win *w, int (*turn)(struct tl_win *), int step,
                        const char *others, long *counts, long *turns)
{
    bool fair = contend(w, turn, counts) < TURN;

    for (int r = 0; r < w->size; r += step)
        *turns += counts[r];
    fair = served(counts, 0, step, w->size, "exclusive") && fair;
    if (step == 2)
        fair = served(counts, 1, 2, w->size, others) && fair;
    return fair;
}

/* A lock that starves does so in every second; a machine that is busy with something else does
 * not: one fair second of ATTEMPTS is enough. The counter must be right after all of them. */
static void fair(int flavor, int (*turn)(struct tl_win *), int step, const char *others)
{
    bool fair = false;
    struct tl_win w;
    long *counts, turns = 0;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    counts = calloc((size_t)w.size, sizeof *counts);
    for (int i = 0; i < ATTEMPTS && !fair && !tl_failed(); i++)
        fair = fair_second(&w, turn, step, others, counts, &turns);
    tl_true(fair, "somebody was starved in each of %d seconds; see the notes", ATTEMPTS);
    check_counter(&w, turns);
    free(counts);
    tl_win_close(&w);
}

static void fair_exclusive(int flavor)
{
    fair(flavor, exclusive_turn, 1, "");
}

static void fair_lock_all(int flavor)
{
    fair(flavor, half_lock_all_turn, 2, "lock_all");
}

static void fair_shared(int flavor)
{
    fair(flavor, half_shared_turn, 2, "shared");
}

/* Locks, fences and epochs, all ranks on few cores: none takes long, whoever has the CPU. */
static void crowded(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();
    long value;
    double start, took;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * 16, 8))
        return;
    for (int how = 0; how < TL_EPOCHS; how++) {
        tl_barrier();
        start = MPI_Wtime();
        for (int i = 0; i < 50; i++) {
            value = i;
            tl_epoch_open(&w, (enum tl_epoch)how, next, before);
            tl_ok(MPI_Put(&value, 1, MPI_LONG, next, tl_disp(&w, next, 8), 1, MPI_LONG, w.win),
                  "put");
            tl_epoch_close(&w, (enum tl_epoch)how, next);
        }
        took = MPI_Wtime() - start;
        tl_note("50 epochs with %s: %.4f s", tl_epoch_name((enum tl_epoch)how), took);
        tl_true(took < 5 * tl_scale(), "50 epochs with %s took %.3f s",
                tl_epoch_name((enum tl_epoch)how), took);
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"target_computes", target_computes, TL_ALL, 2, 30},
        {"target_sleeps", target_sleeps, TL_ALL, 2, 30},
        {"each_call", each_call, TL_ALL, 2, 60},
        {"large_while_away", large_while_away, TL_ALL, 2, 30},
        {"posted_then_away", posted_then_away, TL_ALL, 2, 30},
        {"fair_exclusive", fair_exclusive, TL_ALL, 2, 30},
        {"fair_lock_all", fair_lock_all, TL_ALL, 2, 30},
        {"fair_shared", fair_shared, TL_ALL, 2, 30},
        {"crowded", crowded, TL_ALL, 2, 60},
    };

    return tl_main(argc, argv, "progress", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: one-sided calls need nothing of their target's CPU in MPI; nobody starves at a lock;
 * many ranks on few cores get on. What counts is what happened before what, not when: on a busy
 * machine anything may take long.
 */
#include "testlib.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Seconds after which a target that has not seen the others' work done calls MPI again: by then
 * they wait for it. */
#define PATIENCE (20.0 * tl_scale())
#define TURN 0.25     /* of a second, that a fair turn may take */
#define ATTEMPTS 8    /* at a second without a starved rank */

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

/* What the target does until it sees that all others are done: it makes no call of MPI. */
typedef void away_fn(double seconds);

/* Another rank's: this one is through with round number `round`. */
static void tell_done(struct tl_win *w, size_t byte)
{
    long one = 1;

    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win), "lock");
    tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(w, 0, byte), 1, MPI_LONG, MPI_SUM, w->win),
          "accumulate");
    tl_ok(MPI_Win_unlock(0, w->win), "unlock");
}

/* The target's: away for `seconds` at least, and until the others have told so often in all. */
static bool away_until(struct tl_win *w, away_fn *away, double seconds, size_t byte, long told)
{
    double start = tl_now(), now = start;
    long seen = 0;

    while (now - start < seconds || (seen < told && now - start < PATIENCE)) {
        away(0.001);
        /* Acquire: what they told of is there. */
        seen = __atomic_load_n((long *)(w->base + byte), __ATOMIC_ACQUIRE);
        now = tl_now();
    }
    tl_note("the target was away for %.3f s", now - start);
    return tl_true(seen == told,
                   "of %ld rounds %ld were done while the target was away, for %.0f s", told, seen,
                   now - start);
}

static void target_away(int flavor, away_fn *away)
{
    enum { ROUNDS = 20 };
    struct tl_win w;
    long sum;
    size_t done;

    if (!promised())
        return;
    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * (size_t)(tl_size() + 2), 8))
        return;
    done = 8 * (size_t)(w.size + 1);
    tl_barrier();
    if (w.rank == 0) {
        away_until(&w, away, 0, done, w.size - 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            work_round(&w, i);
        tell_done(&w, done);
    }
    tl_barrier();
    tl_local_begin(&w);
    memcpy(&sum, w.base, sizeof sum);
    if (w.rank == 0)
        tl_eq(sum, 3L * ROUNDS * (w.size - 1), "the sum");
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

/* The calls of all ranks but the target. */
static void time_calls(struct tl_win *w, const struct apart *types, double *took,
                       void (*call)(struct tl_win *, const struct apart *))
{
    for (int i = 0; i < CALLS; i++) {
        double start = tl_now();
        call(w, types);
        took[i] = tl_now() - start;
    }
    qsort(took, CALLS, sizeof took[0], by_size);
}

#define DONE 1016   /* the word that tells the target */

static void calls_while_away(struct tl_win *w, const struct apart *types, const char *name,
                             void (*call)(struct tl_win *, const struct apart *), double compute,
                             int turn)
{
    double took[CALLS] = {0}, mine[2], worst[2];

    tl_barrier();
    if (w->rank == 0) {
        away_until(w, tl_compute, compute, DONE, (long)turn * (w->size - 1));
    } else {
        time_calls(w, types, took, call);
        tell_done(w, DONE);
    }
    mine[0] = took[CALLS / 2];
    mine[1] = took[CALLS - 1];
    MPI_Allreduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    tl_note("%s: median %.3f us, worst %.1f us (of the slowest rank)", name, 1e6 * worst[0],
            1e6 * worst[1]);
}

/* `--away 5`: the target computes for 5 s at least, a quarter for each kind of call. It takes part
 * in nothing: the reduction waits for it at the end. */
static void each_call(int flavor)
{
    double compute = (double)tl_option("--away", 0) / 4;
    struct apart types;
    struct tl_win w;
    long word[2];

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 1024, 8))
        return;
    MPI_Type_vector(4, 1, 3, MPI_LONG, &types.strided);
    MPI_Type_vector(2, 2, 5, MPI_LONG, &types.pairs);
    MPI_Type_commit(&types.strided);
    MPI_Type_commit(&types.pairs);
    calls_while_away(&w, &types, "exclusive lock, put, unlock", put_exclusive, compute, 1);
    calls_while_away(&w, &types, "shared lock, put, unlock", put_shared, compute, 2);
    calls_while_away(&w, &types, "fetch_and_op", fetch, compute, 3);
    calls_while_away(&w, &types, "get_accumulate, derived types", fetch_derived, compute, 4);
    tl_barrier();
    tl_local_begin(&w);
    memcpy(&word[0], w.base + 512, sizeof word[0]);
    memcpy(&word[1], w.base + 640 + 24, sizeof word[1]);
    if (w.rank == 0) {
        tl_eq(word[0], (long)CALLS * (w.size - 1), "the sum of fetch_and_op");
        tl_eq(word[1], (long)CALLS * (w.size - 1), "the sum of get_accumulate");
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
    const size_t done = 8 * (size_t)words;
    long *data;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, done + 8, 8))
        return;
    data = calloc((size_t)words, sizeof *data);
    MPI_Type_vector(words / 16, 4, 16, MPI_LONG, &strided);
    MPI_Type_commit(&strided);
    tl_barrier();
    if (w.rank == 0) {
        away_until(&w, tl_wait_quietly, 0, done, w.size - 1);
    } else {
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win), "lock");
        tl_ok(MPI_Get(data, words, MPI_LONG, 0, tl_disp(&w, 0, 0), words, MPI_LONG, w.win), "get");
        tl_ok(MPI_Accumulate(data, words / 4, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, strided, MPI_SUM,
                             w.win), "accumulate");
        tl_ok(MPI_Win_unlock(0, w.win), "unlock");
        tell_done(&w, done);
    }
    tl_barrier();
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

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    MPI_Win_get_group(w.win, &all);
    MPI_Group_incl(all, 1, &first, &zero);
    MPI_Group_excl(all, 1, &first, &others);
    if (w.rank == 0)
        tl_ok(MPI_Win_post(others, 0, w.win), "MPI_Win_post");
    tl_barrier();
    if (w.rank == 0) {
        away_until(&w, tl_compute, 0, 0, w.size - 1);
        tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
    } else {
        tl_ok(MPI_Win_start(zero, 0, w.win), "MPI_Win_start");
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG, MPI_SUM, w.win),
              "accumulate");
        tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
    }
    MPI_Group_free(&all);
    MPI_Group_free(&others);
    MPI_Group_free(&zero);
    tl_win_close(&w);
}

/* ---- fairness ---- */

/* A virtual machine may stand still for half of each second, and a rank may wait for a CPU that
 * others have; no lock can help either. So a long turn's time is its part of those milliseconds in
 * which a turn of any rank came to an end: of the second that is one for all. Of that, what the
 * rank waited for a CPU is left out. */
#define STEPS 4000
#define LONG_TURN 0.05          /* seconds; of longer ones so many are kept */
#define LONG_TURNS 64

struct turns {
    double began;                       /* on rank 0, which tells all */
    unsigned char ended[STEPS];         /* a turn, in that millisecond */
    struct long_turn {
        double from, to, queued;
    } turn[LONG_TURNS];
    int n;
    double looked, queued;              /* when last looked: it had waited so long for a CPU */
    double longest;                     /* of all, by the clock */
};

static int step_of(const struct turns *t, double when)
{
    double step = (when - t->began) * 1000;

    return step < 0 ? 0 : step >= STEPS ? STEPS - 1 : (int)step;
}

/* Looks at most once a millisecond, for that is a call of the system. */
static void note_turn(struct turns *t, double from, double to)
{
    double queued = t->queued;

    t->ended[step_of(t, to)] = 1;
    t->longest = to - from > t->longest ? to - from : t->longest;
    if (to - t->looked > 0.001) {
        t->queued = tl_queued();
        t->looked = to;
    }
    if (to - from > LONG_TURN && t->n < LONG_TURNS)
        t->turn[t->n++] = (struct long_turn){ from, to, t->queued - queued };
}

/* Of a second that is one for all. */
static double part_of(const struct turns *t, const struct long_turn *turn, int all)
{
    double running = 1 - turn->queued / (turn->to - turn->from);
    int steps = 0;

    for (int k = step_of(t, turn->from); k <= step_of(t, turn->to); k++)
        steps += t->ended[k];
    return running > 0 ? running * steps / all : 0;
}

/* The longest turn of this rank, once `ended` is that of all. */
static double longest_turn(const struct turns *t)
{
    double longest = 0;
    int all = 0;

    for (int k = 0; k < STEPS; k++)
        all += t->ended[k];
    if (all == 0)
        return t->longest > TURN ? t->longest : TURN;
    for (int i = 0; i < t->n; i++) {
        double part = part_of(t, &t->turn[i], all);

        longest = part > longest ? part : longest;
    }
    return longest;
}

struct score {
    long turns;
    long kept;      /* seconds in which the rank waited for a CPU for most of the time */
};

/* Everyone takes turns for a second; scores of all ranks, and the longest turn of any, on all. */
static double contend(struct tl_win *w, int (*turn)(struct tl_win *), struct score *scores)
{
    struct turns *t = calloc(1, sizeof *t);
    struct score mine = {0, 0};
    double now, end, longest[2], worst[2], queued = tl_queued();

    tl_barrier();
    t->queued = queued;
    t->began = t->looked = MPI_Wtime();
    MPI_Bcast(&t->began, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    now = MPI_Wtime();
    end = now + 1.0;
    while (now < end && !tl_failed()) {
        double start = now;
        tl_ok(turn(w), "a turn at the lock");
        mine.turns++;
        now = MPI_Wtime();
        note_turn(t, start, now);
    }
    mine.kept = tl_queued() - queued > 0.5;
    MPI_Allreduce(MPI_IN_PLACE, t->ended, STEPS, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    longest[0] = longest_turn(t);
    longest[1] = t->longest;
    free(t);
    MPI_Allreduce(longest, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    tl_note("the longest turn of any rank took %.4f s, %.3f s of one without standstills and waits "
            "for a "
            "CPU",
            worst[1], worst[0]);
    MPI_Allgather(&mine, 2, MPI_LONG, scores, 2, MPI_LONG, MPI_COMM_WORLD);
    return worst[0];
}

/* Ranks first, first+step, ...: whether each has had a part of their mean worth the name. The
 * system's scheduler gives long slices, in which one rank is served again and again; and one that
 * it lets wait for a CPU most of the time has had its part with a single turn. */
static bool served(const struct score *scores, int first, int step, int size, const char *who)
{
    long least = -1, most = 0, sum = 0, n = 0;
    bool all = true;

    for (int r = first; r < size; r += step, n++) {
        least = least < 0 || scores[r].turns < least ? scores[r].turns : least;
        most = scores[r].turns > most ? scores[r].turns : most;
        sum += scores[r].turns;
    }
    if (n == 0)
        return true;
    for (int r = first; r < size; r += step)
        all &= scores[r].turns > 0 && (scores[r].kept > 0 || scores[r].turns >= sum / n / 50);
    tl_note("%s: least %ld, most %ld, mean %ld", who, least, most, sum / n);
    return all;
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

/* One second more of it, added to the scores; and whether in it nobody had too long a turn. All
 * ranks see the same figures. */
static void fair_second(struct tl_win *w, int (*turn)(struct tl_win *), struct score *scores,
                        bool *no_long_turn)
{
    struct score *more = calloc((size_t)w->size, sizeof *more);

    *no_long_turn |= contend(w, turn, more) < TURN;
    for (int r = 0; r < w->size; r++) {
        scores[r].turns += more[r].turns;
        scores[r].kept += more[r].kept;
    }
    free(more);
}

static bool all_served(const struct tl_win *w, int step, const char *others,
                       const struct score *scores)
{
    bool fair = served(scores, 0, step, w->size, "exclusive");

    return step == 1 ? fair : served(scores, 1, 2, w->size, others) && fair;
}

/* A lock that starves somebody does so in every second; a machine that is busy with something else
 * does not. So one second without a long turn is enough, and in a few seconds each rank has been
 * served. The counter must be right after all of them. */
static void fair(int flavor, int (*turn)(struct tl_win *), int step, const char *others)
{
    bool no_long_turn = false, served = false;
    struct tl_win w;
    struct score *scores;
    long turns = 0;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    scores = calloc((size_t)w.size, sizeof *scores);
    for (int i = 0; i < ATTEMPTS && !(no_long_turn && served) && !tl_failed(); i++) {
        fair_second(&w, turn, scores, &no_long_turn);
        served = all_served(&w, step, others, scores);
    }
    for (int r = 0; r < w.size; r += step)
        turns += scores[r].turns;
    tl_true(no_long_turn, "somebody waited for long in each of %d seconds; see the notes",
            ATTEMPTS);
    tl_true(served, "somebody was starved, in %d seconds; see the notes", ATTEMPTS);
    check_counter(&w, turns);
    free(scores);
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

/* What 50 rounds of messages take here now, on the slowest rank. */
static double time_messages(int next, int before)
{
    double start = tl_now(), took, worst;

    for (int i = 0; i < 50; i++) {
        MPI_Sendrecv(NULL, 0, MPI_LONG, next, 1, NULL, 0, MPI_LONG, before, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        tl_barrier();
    }
    took = tl_now() - start;
    MPI_Allreduce(&took, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

/* Locks, fences and epochs, all ranks on few cores: none takes long, whoever has the CPU. Messages,
 * which wait for the same processes, tell how long that is on this machine. */
static void crowded(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();
    long value;
    double start, took, limit;

    if (!promised() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * 16, 8))
        return;
    for (int how = 0; how < TL_EPOCHS; how++) {
        limit = 5 * tl_scale() + 20 * time_messages(next, before);
        start = tl_now();
        for (int i = 0; i < 50; i++) {
            value = i;
            tl_epoch_open(&w, (enum tl_epoch)how, next, before);
            tl_ok(MPI_Put(&value, 1, MPI_LONG, next, tl_disp(&w, next, 8), 1, MPI_LONG, w.win),
                  "put");
            tl_epoch_close(&w, (enum tl_epoch)how, next);
        }
        took = tl_now() - start;
        tl_note("50 epochs with %s: %.4f s of at most %.1f", tl_epoch_name((enum tl_epoch)how),
                took, limit);
        tl_true(took < limit, "50 epochs with %s took %.3f s, of at most %.1f",
                tl_epoch_name((enum tl_epoch)how), took, limit);
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"target_computes", target_computes, TL_ALL, 2, 90},
        {"target_sleeps", target_sleeps, TL_ALL, 2, 90},
        {"each_call", each_call, TL_ALL, 2, 60},
        {"large_while_away", large_while_away, TL_ALL, 2, 90},
        {"posted_then_away", posted_then_away, TL_ALL, 2, 90},
        {"fair_exclusive", fair_exclusive, TL_ALL, 2, 90},
        {"fair_lock_all", fair_lock_all, TL_ALL, 2, 90},
        {"fair_shared", fair_shared, TL_ALL, 2, 90},
        {"crowded", crowded, TL_ALL, 2, 300},
    };

    return tl_main(argc, argv, "progress", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

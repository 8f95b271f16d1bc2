/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: eight threads of each process on one window, with all calls at once.
 * A lock belongs to the process: threads share it, or each locks targets of its own.
 */
#include "testlib.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, TURNS = 200, ROOM = 1024 };

/* The helpers of testlib are for one thread: here each thread notes what it saw. */
struct worker {
    struct tl_win *w;
    int id;
    int target;
    char reason[160];
    atomic_int *stage;
    pthread_t thread;
};

static int bad(struct worker *k, int rc, const char *what)
{
    if (rc != MPI_SUCCESS && k->reason[0] == '\0')
        snprintf(k->reason, sizeof k->reason, "thread %d: %s returned %d", k->id, what, rc);
    return rc != MPI_SUCCESS;
}

static void differs(struct worker *k, long got, long due, const char *what)
{
    if (got != due && k->reason[0] == '\0')
        snprintf(k->reason, sizeof k->reason, "thread %d: %s is %ld, wanted %ld", k->id, what, got,
                 due);
}

static int enough(void)
{
    int level;

    MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE)
        return 1;
    tl_skip("MPI_THREAD_MULTIPLE is not there");
    return 0;
}

static void run_threads(struct tl_win *w, void *(*work)(void *), int one_target)
{
    struct worker k[THREADS];
    atomic_int stage;

    memset(k, 0, sizeof k);
    atomic_init(&stage, 0);
    for (int i = 0; i < THREADS; i++) {
        k[i].w = w;
        k[i].id = i;
        k[i].target = one_target >= 0 ? one_target : (w->rank + i) % w->size;
        k[i].stage = &stage;
        if (!tl_true(pthread_create(&k[i].thread, NULL, work, &k[i]) == 0, "pthread_create"))
            exit(1);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(k[i].thread, NULL);
        tl_true(k[i].reason[0] == '\0', "%s", k[i].reason);
    }
}

/* ---- all calls at once, under one lock_all of the process ---- */

/* The thread's own block in the target: nobody else writes there. */
static size_t own_block(const struct worker *k)
{
    return ROOM * (size_t)(1 + k->w->rank * THREADS + k->id);
}

static void block_round(struct worker *k, int turn)
{
    long out[64], in[64];
    MPI_Win win = k->w->win;
    MPI_Aint at = tl_disp(k->w, k->target, own_block(k));
    MPI_Request r;

    for (int i = 0; i < 64; i++)
        out[i] = turn * 1000 + k->id * 100 + i;
    if (turn % 2 == 0) {
        bad(k, MPI_Put(out, 64, MPI_LONG, k->target, at, 64, MPI_LONG, win), "put");
    } else {
        bad(k, MPI_Rput(out, 64, MPI_LONG, k->target, at, 64, MPI_LONG, win, &r), "rput");
        bad(k, MPI_Wait(&r, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    bad(k, turn % 3 == 0 ? MPI_Win_flush_all(win) : MPI_Win_flush(k->target, win), "flush");
    memset(in, 0, sizeof in);
    bad(k, MPI_Rget(in, 64, MPI_LONG, k->target, at, 64, MPI_LONG, win, &r), "rget");
    bad(k, MPI_Wait(&r, MPI_STATUS_IGNORE), "MPI_Wait");
    for (int i = 0; i < 64; i++)
        differs(k, in[i], out[i], "a word put and got");
}

static void add_round(struct worker *k)
{
    long one = 1, got, seen = 0, fresh;
    double half = 0.5;
    MPI_Win win = k->w->win;
    int to = k->target;

    bad(k, MPI_Accumulate(&one, 1, MPI_LONG, to, tl_disp(k->w, to, 0), 1, MPI_LONG, MPI_SUM, win),
        "accumulate");
    bad(k, MPI_Fetch_and_op(&one, &got, MPI_LONG, to, tl_disp(k->w, to, 8), MPI_SUM, win), "fetch");
    bad(k, MPI_Accumulate(&half, 1, MPI_DOUBLE, to, tl_disp(k->w, to, 16), 1, MPI_DOUBLE, MPI_SUM,
                          win), "accumulate");
    do {
        fresh = seen + 1;
        got = seen;
        if (bad(k, MPI_Compare_and_swap(&fresh, &seen, &got, MPI_LONG, to, tl_disp(k->w, to, 24),
                                        win), "cas"))
            return;
        bad(k, MPI_Win_flush_local(to, win), "flush_local");
        if (got == seen)
            return;
        seen = got;
    } while (1);
}

/* Two words apart, by every accumulate that fetches or has a request; what they return rises. */
static void derived_round(struct worker *k, MPI_Datatype apart)
{
    long one[2] = {1, 1}, got[2] = {-1, -1}, again[2] = {-1, -1};
    MPI_Win win = k->w->win;
    MPI_Aint at = tl_disp(k->w, k->target, 64);
    MPI_Request r[2];

    bad(k, MPI_Get_accumulate(one, 2, MPI_LONG, got, 2, MPI_LONG, k->target, at, 1, apart, MPI_SUM,
                              win), "get_accumulate");
    bad(k, MPI_Win_flush_local(k->target, win), "flush_local");
    bad(k, MPI_Raccumulate(one, 2, MPI_LONG, k->target, at, 1, apart, MPI_SUM, win, &r[0]),
        "raccumulate");
    bad(k, MPI_Rget_accumulate(one, 2, MPI_LONG, again, 2, MPI_LONG, k->target, at, 1, apart,
                               MPI_SUM, win, &r[1]), "rget_accumulate");
    bad(k, MPI_Waitall(2, r, MPI_STATUSES_IGNORE), "MPI_Waitall");
    for (int i = 0; i < 2; i++)
        if (again[i] < got[i] + 2 && k->reason[0] == '\0')
            snprintf(k->reason, sizeof k->reason, "thread %d: fetched %ld after %ld", k->id,
                     again[i], got[i]);
    /* Not MPI_Get, which must not meet the others' accumulates. */
    bad(k, MPI_Get_accumulate(NULL, 0, MPI_LONG, got, 2, MPI_LONG, k->target, at, 1, apart,
                              MPI_NO_OP, win), "get_accumulate of nothing");
    bad(k, MPI_Win_flush(k->target, win), "flush");
    if (got[0] < again[0] + 1 && k->reason[0] == '\0')
        snprintf(k->reason, sizeof k->reason, "thread %d: got %ld after %ld", k->id, got[0],
                 again[0]);
}

static void *all_calls_work(void *argument)
{
    struct worker *k = argument;
    MPI_Datatype apart;

    MPI_Type_vector(2, 1, 3, MPI_LONG, &apart);
    MPI_Type_commit(&apart);
    for (int turn = 0; turn < TURNS && k->reason[0] == '\0'; turn++) {
        block_round(k, turn);
        add_round(k);
        derived_round(k, apart);
    }
    MPI_Type_free(&apart);
    return NULL;
}

static void *add_only_work(void *argument)
{
    struct worker *k = argument;

    for (int turn = 0; turn < TURNS && k->reason[0] == '\0'; turn++)
        add_round(k);
    return NULL;
}

static void check_sums(struct tl_win *w, int times)
{
    long word[4];
    double half;

    tl_local_begin(w);
    memcpy(word, w->base, sizeof word);
    memcpy(&half, w->base + 16, sizeof half);
    tl_eq(word[0], times, "the sum of accumulates");
    tl_eq(word[1], times, "the sum of fetch_and_op");
    tl_true(half == 0.5 * times, "the sum of doubles is %g", half);
    tl_eq(word[3], times, "the sum by compare_and_swap");
    tl_local_end(w);
}

static void check_apart(struct tl_win *w, int times)
{
    long word[4];

    tl_local_begin(w);
    memcpy(word, w->base + 64, sizeof word);
    tl_eq(word[0], 3L * times, "the sum of the first word");
    tl_eq(word[3], 3L * times, "the sum of the second word");
    tl_true(word[1] == 0 && word[2] == 0, "a word between was written");
    tl_local_end(w);
}

static size_t room(void)
{
    return ROOM * (size_t)(1 + tl_size() * THREADS);
}

static void all_calls(int flavor)
{
    struct tl_win w;
    int times = 0; /* rank r's thread i acts on rank r + i: how many act on me? */

    if (!enough() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, room(), 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    run_threads(&w, all_calls_work, -1);
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_barrier();
    for (int r = 0; r < w.size; r++)
        for (int i = 0; i < THREADS; i++)
            times += (r + i) % w.size == w.rank ? TURNS : 0;
    check_sums(&w, times);
    check_apart(&w, times);
    tl_win_close(&w);
}

static void one_target(int flavor)
{
    struct tl_win w;

    if (!enough() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, room(), 8))
        return;
    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win), "MPI_Win_lock");
    run_threads(&w, add_only_work, 0);
    tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    tl_barrier();
    check_sums(&w, w.rank == 0 ? w.size * THREADS * TURNS : 0);
    tl_win_close(&w);
}

/* ---- locks: each thread locks targets that no other thread of the process locks ---- */

static void *locks_work(void *argument)
{
    struct worker *k = argument;
    MPI_Win win = k->w->win;

    for (int turn = 0; turn < TURNS && k->reason[0] == '\0'; turn++)
        for (int target = k->id; target < k->w->size; target += THREADS) {
            long value = -1;
            if (bad(k, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win), "lock"))
                return NULL;
            bad(k, MPI_Get(&value, 1, MPI_LONG, target, tl_disp(k->w, target, 0), 1, MPI_LONG, win),
                "get");
            bad(k, MPI_Win_flush(target, win), "flush");
            value++;
            bad(k, MPI_Put(&value, 1, MPI_LONG, target, tl_disp(k->w, target, 0), 1, MPI_LONG, win),
                "put");
            bad(k, MPI_Win_unlock(target, win), "unlock");
        }
    return NULL;
}

static void locks(int flavor)
{
    struct tl_win w;
    long value;

    if (!enough() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    run_threads(&w, locks_work, -1);
    tl_barrier();
    tl_local_begin(&w);
    memcpy(&value, w.base, sizeof value);
    tl_eq(value, (long)TURNS * w.size, "the counter behind the lock");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* ---- a window for each thread, locked at the same time as the others' ---- */

static struct tl_win window_of[THREADS];

static void *own_window_work(void *argument)
{
    struct worker *k = argument;

    k->w = &window_of[k->id];
    for (int turn = 0; turn < TURNS / 4 && k->reason[0] == '\0'; turn++)
        for (int i = 0; i < k->w->size; i++) {
            int to = (k->id + turn + i) % k->w->size;
            long value = -1;
            if (bad(k, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, k->w->win), "lock"))
                return NULL;
            bad(k, MPI_Get(&value, 1, MPI_LONG, to, tl_disp(k->w, to, 0), 1, MPI_LONG, k->w->win),
                "get");
            bad(k, MPI_Win_flush(to, k->w->win), "flush");
            value++;
            bad(k, MPI_Put(&value, 1, MPI_LONG, to, tl_disp(k->w, to, 0), 1, MPI_LONG, k->w->win),
                "put");
            bad(k, MPI_Win_unlock(to, k->w->win), "unlock");
        }
    bad(k, MPI_Win_lock_all(0, k->w->win), "lock_all");
    bad(k, MPI_Win_unlock_all(k->w->win), "unlock_all");
    return NULL;
}

static void own_windows(int flavor)
{
    int made = 0;
    long value;

    while (enough() && made < THREADS
           && tl_win_open(&window_of[made], flavor, MPI_COMM_WORLD, 64, 8))
        made++;
    if (made == THREADS)
        run_threads(&window_of[0], own_window_work, -1);
    tl_barrier();
    for (int i = 0; i < made; i++) {
        tl_local_begin(&window_of[i]);
        memcpy(&value, window_of[i].base, sizeof value);
        tl_eq(value, (long)(TURNS / 4) * window_of[i].size, "the counter of a thread's window");
        tl_local_end(&window_of[i]);
        tl_win_close(&window_of[i]);
    }
}

/* ---- one puts, another flushes ---- */

/* The first thread puts and says so; the second flushes and looks. */
static void *put_and_flush_work(void *argument)
{
    struct worker *k = argument;
    atomic_int *stage = k->stage;
    MPI_Win win = k->w->win;
    long value, got;

    if (k->id > 1)
        return NULL;
    for (int turn = 1; turn <= TURNS && k->reason[0] == '\0'; turn++) {
        MPI_Aint at = tl_disp(k->w, k->target, own_block(k) - ROOM * (size_t)k->id);
        if (k->id == 0) {
            while (atomic_load(stage) != 2 * turn - 2)
                sched_yield();
            value = turn;
            bad(k, MPI_Put(&value, 1, MPI_LONG, k->target, at, 1, MPI_LONG, win), "put");
            atomic_store(stage, 2 * turn - 1);
            continue;
        }
        while (atomic_load(stage) != 2 * turn - 1)
            sched_yield();
        bad(k, MPI_Win_flush(k->target, win), "flush"); /* completes the other thread's put */
        bad(k, MPI_Get(&got, 1, MPI_LONG, k->target, at, 1, MPI_LONG, win), "get");
        bad(k, MPI_Win_flush(k->target, win), "flush");
        differs(k, got, turn, "what the other thread put");
        atomic_store(stage, 2 * turn);
    }
    return NULL;
}

static void put_and_flush(int flavor)
{
    struct tl_win w;

    if (!enough() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, room(), 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    run_threads(&w, put_and_flush_work, (w.rank + 1) % w.size);
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* The first thread gets and says so; the second flushes; then the first has it. */
static void *get_and_flush_work(void *argument)
{
    struct worker *k = argument;
    atomic_int *stage = k->stage;
    MPI_Win win = k->w->win;
    long got;

    if (k->id > 1)
        return NULL;
    for (int turn = 1; turn <= TURNS && k->reason[0] == '\0'; turn++) {
        if (k->id == 1) {
            while (atomic_load(stage) != 2 * turn - 1)
                sched_yield();
            bad(k, turn % 2 == 0 ? MPI_Win_flush_all(win) : MPI_Win_flush(k->target, win), "flush");
            atomic_store(stage, 2 * turn);
            continue;
        }
        got = -1;
        bad(k, MPI_Get(&got, 1, MPI_LONG, k->target, tl_disp(k->w, k->target, 0), 1, MPI_LONG, win),
            "get");
        atomic_store(stage, 2 * turn - 1);
        while (atomic_load(stage) != 2 * turn)
            sched_yield();
        differs(k, got, 4711 + k->target, "what was got when the other thread flushed");
    }
    return NULL;
}

static void get_and_flush(int flavor)
{
    struct tl_win w;
    long value;

    if (!enough() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, room(), 8))
        return;
    value = 4711 + w.rank;
    tl_local_begin(&w);
    memcpy(w.base, &value, sizeof value);
    tl_local_end(&w);
    tl_barrier();
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    run_threads(&w, get_and_flush_work, (w.rank + 1) % w.size);
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* The first thread puts and then computes, with no more calls, until the second has flushed and the
 * target has seen it (at most PATIENCE). `--away 5`: five seconds at least. */
#define PATIENCE 60
static double away, flush_took;

static void compute_until(atomic_int *stage)
{
    double start = tl_now(), now = start;

    while (now - start < away || (atomic_load(stage) != 2 && now - start < PATIENCE)) {
        tl_compute(0.01);
        now = tl_now();
    }
    atomic_fetch_add(stage, 10);
}

static void flush_for_the_other(struct worker *k)
{
    int before = (k->w->rank + k->w->size - 1) % k->w->size;
    double start = tl_now();
    long got;

    bad(k, MPI_Win_flush(k->target, k->w->win), "flush");
    flush_took = tl_now() - start;
    bad(k, MPI_Sendrecv(NULL, 0, MPI_LONG, k->target, 1, NULL, 0, MPI_LONG, before, 1,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Sendrecv");
    bad(k, MPI_Win_sync(k->w->win), "sync");
    memcpy(&got, k->w->base, sizeof got);
    differs(k, got, 4711 + before, "what the neighbour put before it computes");
    differs(k, atomic_fetch_add(k->stage, 1), 1, "whether the other thread still computes");
}

static void *put_and_compute_work(void *argument)
{
    struct worker *k = argument;
    long value = 4711 + k->w->rank;

    if (k->id == 0) {
        bad(k, MPI_Put(&value, 1, MPI_LONG, k->target, tl_disp(k->w, k->target, 0), 1, MPI_LONG,
                       k->w->win), "put");
        atomic_store(k->stage, 1);
        compute_until(k->stage);
    } else if (k->id == 1) {
        while (atomic_load(k->stage) == 0)
            sched_yield();
        flush_for_the_other(k);
    }
    return NULL;
}

static void put_and_compute(int flavor)
{
    struct tl_win w;
    double worst = 0;

    away = (double)tl_option("--away", 0);
    if (!enough() || !tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    run_threads(&w, put_and_compute_work, (w.rank + 1) % w.size);
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    MPI_Reduce(&flush_took, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    tl_note("the flush took at most %.1f us", 1e6 * worst);
    tl_win_close(&w);
}

/* ---- windows made by several threads at once, each on its own communicator ---- */

struct maker {
    MPI_Comm comm;
    int flavor, failed;
    pthread_t thread;
};

static void *make_work(void *argument)
{
    struct maker *m = argument;
    char memory[64] = {0};

    for (int i = 0; i < 30 && !m->failed; i++) {
        MPI_Win win;
        void *base;
        long one = 1;
        int rc = m->flavor == TL_ALLOCATE
                     ? MPI_Win_allocate(64, 8, MPI_INFO_NULL, m->comm, &base, &win)
                     : MPI_Win_create(memory, 64, 8, MPI_INFO_NULL, m->comm, &win);
        if (rc != MPI_SUCCESS) {
            m->failed = 1;
            break;
        }
        m->failed |= MPI_Win_fence(0, win) != MPI_SUCCESS;
        m->failed |= MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
        m->failed |= MPI_Win_fence(MPI_MODE_NOSUCCEED, win) != MPI_SUCCESS;
        m->failed |= MPI_Win_free(&win) != MPI_SUCCESS;
    }
    return NULL;
}

static void made_by_threads(int flavor)
{
    struct maker m[4];
    struct tl_win probe;

    if (!enough() || !tl_win_open(&probe, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < 4; i++) {
        m[i].flavor = flavor;
        m[i].failed = 0;
        MPI_Comm_dup(MPI_COMM_WORLD, &m[i].comm);
        MPI_Comm_set_errhandler(m[i].comm, MPI_ERRORS_RETURN);
    }
    for (int i = 0; i < 4; i++)
        if (pthread_create(&m[i].thread, NULL, make_work, &m[i]) != 0)
            exit(1);
    for (int i = 0; i < 4; i++) {
        pthread_join(m[i].thread, NULL);
        tl_true(!m[i].failed, "a call of thread %d failed", i);
    }
    tl_barrier();
    for (int i = 0; i < 4; i++)
        MPI_Comm_free(&m[i].comm);
    tl_win_close(&probe);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"all_calls", all_calls, TL_ALL, 1, 120},
        {"one_target", one_target, TL_ALL, 1, 120},
        {"locks", locks, TL_ALL, 1, 120},
        {"put_and_flush", put_and_flush, TL_ALL, 1, 120},
        {"get_and_flush", get_and_flush, TL_ALL, 1, 120},
        {"own_windows", own_windows, TL_ALL, 1, 120},
        {"put_and_compute", put_and_compute, TL_ALL, 1, 120},
        {"made_by_threads", made_by_threads, TL_ALLOCATE | TL_CREATE, 1, 120},
    };

    return tl_main(argc, argv, "threads", MPI_THREAD_MULTIPLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

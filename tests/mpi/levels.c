/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread levels below MPI_THREAD_MULTIPLE. `--level serialized`: eight threads call, one at a
 * time; what one opens, another uses and a third closes. `--level funneled` and `--level single`:
 * the main thread calls, while others work on the window's memory.
 */
#include "testlib.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, TURNS = 200, WORDS = 64 };

struct crew;
struct worker {
    struct crew *crew;
    int id;
    pthread_t thread;
};

/* Threads of one process that take turns: the lock is around every call of MPI. */
struct crew {
    struct tl_win w;
    void (*work)(struct crew *crew, int id, int turn);
    pthread_mutex_t lock;
    pthread_cond_t moved;
    pthread_barrier_t barrier;
    int turn;               /* of whom, for those who go round */
    MPI_Request request;
    long value, got;
};

static int level_is(int wanted)
{
    int level;

    MPI_Query_thread(&level);
    if (level >= wanted)
        return 1;
    tl_skip("that thread level is not there");
    return 0;
}

static void *run(void *argument)
{
    struct worker *k = argument;

    for (int turn = 0; turn < TURNS && !tl_failed(); turn++)
        k->crew->work(k->crew, k->id, turn);
    return NULL;
}

static void run_crew(struct crew *crew, void (*work)(struct crew *, int, int))
{
    struct worker k[THREADS];

    crew->work = work;
    crew->turn = 0;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->moved, NULL);
    for (int i = 0; i < THREADS; i++) {
        k[i].crew = crew;
        k[i].id = i;
        if (pthread_create(&k[i].thread, NULL, run, &k[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(k[i].thread, NULL);
    pthread_mutex_destroy(&crew->lock);
    pthread_cond_destroy(&crew->moved);
}

static int crew_open(struct crew *crew, int flavor)
{
    return tl_win_open(&crew->w, flavor, MPI_COMM_WORLD, 8 * WORDS, 8);
}

static long own_word(struct crew *crew, size_t word)
{
    long value;

    tl_local_begin(&crew->w);
    memcpy(&value, crew->w.base + 8 * word, sizeof value);
    tl_local_end(&crew->w);
    return value;
}

/* ---- serialized: a whole epoch in each turn ---- */

static void epoch_turn(struct crew *crew, int id, int turn)
{
    struct tl_win *w = &crew->w;
    int to = (w->rank + id + turn) % w->size;
    long value = 100 * id + turn, got = -1, one = 1;
    MPI_Aint own = tl_disp(w, to, 8 * (size_t)(8 + id)), sum = tl_disp(w, to, 0);

    pthread_mutex_lock(&crew->lock);
    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w->win), "lock");
    tl_ok(MPI_Put(&value, 1, MPI_LONG, to, own, 1, MPI_LONG, w->win), "put");
    tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, to, sum, 1, MPI_LONG, MPI_SUM, w->win), "accumulate");
    tl_ok(MPI_Win_flush(to, w->win), "flush");
    tl_ok(MPI_Get(&got, 1, MPI_LONG, to, own, 1, MPI_LONG, w->win), "get");
    tl_ok(MPI_Win_unlock(to, w->win), "unlock");
    tl_eq(got, value, "what this thread put");
    pthread_mutex_unlock(&crew->lock);
}

static void epochs(int flavor)
{
    struct crew crew;

    if (!level_is(MPI_THREAD_SERIALIZED) || !crew_open(&crew, flavor))
        return;
    run_crew(&crew, epoch_turn);
    tl_barrier();
    tl_eq(own_word(&crew, 0), THREADS * TURNS, "the sum of all threads of all ranks");
    tl_win_close(&crew.w);
}

/* ---- serialized: one epoch goes from thread to thread ---- */

static void relay_step(struct crew *crew, int id, int turn)
{
    struct tl_win *w = &crew->w;
    int to = (w->rank + 1) % w->size;
    MPI_Aint at = tl_disp(w, to, 64), sum = tl_disp(w, to, 72);
    long one = 1;

    switch (id) {
    case 0:
        tl_ok(MPI_Win_lock(turn % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, to, 0, w->win), "lock");
        break;
    case 1:
        crew->value = turn;
        tl_ok(MPI_Put(&crew->value, 1, MPI_LONG, to, at, 1, MPI_LONG, w->win), "put");
        break;
    case 2:
        tl_ok(MPI_Win_flush(to, w->win), "flush of another thread's put");
        break;
    case 3:
        tl_ok(MPI_Rget(&crew->got, 1, MPI_LONG, to, at, 1, MPI_LONG, w->win, &crew->request),
              "rget");
        break;
    case 4:
        tl_ok(MPI_Wait(&crew->request, MPI_STATUS_IGNORE), "wait for another thread's rget");
        tl_eq(crew->got, turn, "what another thread put");
        break;
    case 5:
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, to, sum, 1, MPI_LONG, MPI_SUM, w->win), "acc");
        break;
    case 6:
        tl_ok(MPI_Win_unlock(to, w->win), "unlock of another thread's lock");
        break;
    default:
        tl_ok(MPI_Win_sync(w->win), "sync");
        break;
    }
}

static void relay_turn(struct crew *crew, int id, int turn)
{
    pthread_mutex_lock(&crew->lock);
    while (crew->turn != THREADS * turn + id && !tl_failed())
        pthread_cond_wait(&crew->moved, &crew->lock);
    if (!tl_failed())
        relay_step(crew, id, turn);
    crew->turn++;
    pthread_cond_broadcast(&crew->moved);
    pthread_mutex_unlock(&crew->lock);
}

static void relay(int flavor)
{
    struct crew crew;

    if (!level_is(MPI_THREAD_SERIALIZED) || !crew_open(&crew, flavor))
        return;
    run_crew(&crew, relay_turn);
    tl_barrier();
    tl_eq(own_word(&crew, 9), TURNS, "the sum of the neighbour");
    tl_win_close(&crew.w);
}

/* ---- serialized: collective calls by whichever thread has the turn ---- */

static void fence_step(struct crew *crew, int id, int turn)
{
    struct tl_win *w = &crew->w;
    int to = (w->rank + 1 + turn) % w->size;

    crew->value = 1000 * turn + id;
    tl_ok(MPI_Win_fence(0, w->win), "fence");
    tl_ok(MPI_Put(&crew->value, 1, MPI_LONG, to, tl_disp(w, to, 80), 1, MPI_LONG, w->win), "put");
    tl_ok(MPI_Win_fence(0, w->win), "fence");
    memcpy(&crew->got, w->base + 80, sizeof crew->got);
    tl_eq(crew->got, crew->value, "what the neighbour's thread put");
}

/* All ranks take the same turns; an eighth of them, for there are as many fences. */
static void fence_turn(struct crew *crew, int id, int turn)
{
    pthread_mutex_lock(&crew->lock);
    while (crew->turn != THREADS * turn + id && !tl_failed())
        pthread_cond_wait(&crew->moved, &crew->lock);
    if (!tl_failed() && turn % THREADS == id)
        fence_step(crew, id, turn);
    crew->turn++;
    pthread_cond_broadcast(&crew->moved);
    pthread_mutex_unlock(&crew->lock);
}

static void fences(int flavor)
{
    struct crew crew;

    if (!level_is(MPI_THREAD_SERIALIZED) || !crew_open(&crew, flavor))
        return;
    run_crew(&crew, fence_turn);
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, crew.w.win), "fence");
    tl_win_close(&crew.w);
}

/* ---- funneled: others store to the window between the main thread's epochs ---- */

static void *store_work(void *argument)
{
    struct worker *k = argument;
    struct crew *crew = k->crew;
    long *word = (long *)(void *)crew->w.base;

    for (int turn = 0; turn < TURNS; turn++) {
        word[8 + k->id] = 10 * turn + k->id;
        pthread_barrier_wait(&crew->barrier);   /* stored: the main thread exposes it */
        pthread_barrier_wait(&crew->barrier);   /* the epoch is over */
    }
    return NULL;
}

static void expose(struct crew *crew, int turn)
{
    struct tl_win *w = &crew->w;
    int from = (w->rank + 1) % w->size;
    long got[THREADS] = {0};

    tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOPUT, w->win), "fence");
    tl_ok(MPI_Get(got, THREADS, MPI_LONG, from, tl_disp(w, from, 64), THREADS, MPI_LONG, w->win),
          "get");
    tl_ok(MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED, w->win), "fence");
    for (int i = 0; i < THREADS; i++)
        tl_eq(got[i], 10 * turn + i, "what a thread of the neighbour stored");
}

static void funneled(int flavor)
{
    struct crew crew;
    struct worker k[THREADS];

    if (!level_is(MPI_THREAD_SINGLE) || !crew_open(&crew, flavor))
        return;
    pthread_barrier_init(&crew.barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        k[i].crew = &crew;
        k[i].id = i;
        if (pthread_create(&k[i].thread, NULL, store_work, &k[i]) != 0)
            exit(1);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_barrier_wait(&crew.barrier);
        expose(&crew, turn);
        pthread_barrier_wait(&crew.barrier);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(k[i].thread, NULL);
    pthread_barrier_destroy(&crew.barrier);
    tl_win_close(&crew.w);
}

static int level_of(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--level") == 0)
            return strcmp(argv[i + 1], "serialized") == 0 ? MPI_THREAD_SERIALIZED
                   : strcmp(argv[i + 1], "funneled") == 0 ? MPI_THREAD_FUNNELED
                                                          : MPI_THREAD_SINGLE;
    return MPI_THREAD_SERIALIZED;
}

int main(int argc, char **argv)
{
    static const struct tl_case serialized[] = {
        {"epochs", epochs, TL_ALL, 1, 120},
        {"relay", relay, TL_ALL, 1, 120},
        {"fences", fences, TL_ALL, 1, 120},
        {"funneled", funneled, TL_ALL, 1, 120},
    };
    int level = level_of(argc, argv), skip = level == MPI_THREAD_SERIALIZED ? 0 : 3;

    return tl_main(argc, argv, "levels", level, serialized + skip, 4 - skip);
}

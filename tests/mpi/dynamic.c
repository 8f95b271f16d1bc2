/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dynamic windows: many regions attached and detached while others access them; what is not
 * attached is an error and is not touched.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { REGIONS = 64, WORDS = 32, BYTES = WORDS * 8 };

struct dyn {
    struct tl_win w;
    long *region[REGIONS];
    MPI_Aint *address; /* of all ranks' regions */
    int next, before;
};

static int dyn_open(struct dyn *d, int flavor)
{
    memset(d, 0, sizeof *d);
    if (!tl_win_open(&d->w, flavor, MPI_COMM_WORLD, 0, 1))
        return 0;
    d->next = (d->w.rank + 1) % d->w.size;
    d->before = (d->w.rank + d->w.size - 1) % d->w.size;
    d->address = calloc((size_t)d->w.size * REGIONS, sizeof *d->address);
    return 1;
}

static void tell(struct dyn *d)
{
    MPI_Aint mine[REGIONS] = {0};

    for (int i = 0; i < REGIONS; i++)
        if (d->region[i] != NULL)
            MPI_Get_address(d->region[i], &mine[i]);
    MPI_Allgather(mine, REGIONS, MPI_AINT, d->address, REGIONS, MPI_AINT, MPI_COMM_WORLD);
}

/* Each lies between words that are not attached: allocators may put two blocks side by side. */
static long *region_new(size_t bytes)
{
    long *block = calloc(1, bytes + 2 * sizeof *block);

    return block != NULL ? block + 1 : NULL;
}

static void region_free(long *region)
{
    if (region != NULL)
        free(region - 1);
}

static void attach(struct dyn *d, int i, size_t bytes)
{
    d->region[i] = region_new(bytes);
    tl_ok(MPI_Win_attach(d->w.win, d->region[i], (MPI_Aint)bytes), "MPI_Win_attach");
}

static void detach(struct dyn *d, int i)
{
    tl_ok(MPI_Win_detach(d->w.win, d->region[i]), "MPI_Win_detach");
    region_free(d->region[i]);
    d->region[i] = NULL;
}

static void dyn_close(struct dyn *d)
{
    tl_barrier();
    for (int i = 0; i < REGIONS; i++)
        if (d->region[i] != NULL)
            detach(d, i);
    free(d->address);
    tl_win_close(&d->w);
}

static MPI_Aint at(const struct dyn *d, int rank, int region, int word)
{
    return MPI_Aint_add(d->address[rank * REGIONS + region], 8 * (MPI_Aint)word);
}

static void regions(int flavor)
{
    struct dyn d;
    long value;

    if (!dyn_open(&d, flavor))
        return;
    for (int i = 0; i < REGIONS; i++)
        attach(&d, i, BYTES);
    tell(&d);
    tl_ok(MPI_Win_lock_all(0, d.w.win), "lock_all");
    for (int i = 0; i < REGIONS; i++)
        for (int k = 0; k < WORDS; k += WORDS - 1) {
            value = d.w.rank * 100000 + i * 100 + k;
            tl_ok(MPI_Put(&value, 1, MPI_LONG, d.next, at(&d, d.next, i, k), 1, MPI_LONG,
                          d.w.win), "put");
            tl_ok(MPI_Win_flush_local(d.next, d.w.win), "flush_local");
        }
    tl_ok(MPI_Win_unlock_all(d.w.win), "unlock_all");
    tl_barrier();
    tl_local_begin(&d.w);
    for (int i = 0; i < REGIONS; i++)
        for (int k = 0; k < WORDS; k++)
            tl_eq(d.region[i][k],
                  k % (WORDS - 1) == 0 ? d.before * 100000 + i * 100 + k : 0, "a word of a region");
    tl_local_end(&d.w);
    dyn_close(&d);
}

/* Attached and detached anew in each turn, at changing addresses and sizes. */
static void come_and_go(int flavor)
{
    struct dyn d;
    uint64_t seed = (uint64_t)tl_rank();

    if (!dyn_open(&d, flavor))
        return;
    for (int turn = 0; turn < 100; turn++) {
        long one = 1, value = 0;
        int i = turn % REGIONS, last = 1 + tl_below(&seed, 500);
        MPI_Aint word;
        MPI_Win win = d.w.win;
        if (d.region[i] != NULL)
            detach(&d, i);
        attach(&d, i, 8 * ((size_t)last + 1));
        MPI_Get_address(&d.region[i][last], &word);
        MPI_Sendrecv_replace(&word, 1, MPI_AINT, d.before, 1, d.next, 1, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, d.next, 0, win), "lock");
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, d.next, word, 1, MPI_LONG, MPI_SUM, win), "acc");
        tl_ok(MPI_Win_flush(d.next, win), "flush");
        tl_ok(MPI_Get(&value, 1, MPI_LONG, d.next, word, 1, MPI_LONG, win), "get");
        tl_ok(MPI_Win_unlock(d.next, win), "unlock");
        tl_eq(value, 1, "what was added in a new region");
        tl_barrier();
        tl_local_begin(&d.w);
        tl_eq(d.region[i][last], 1, "the last word of the region");
        tl_local_end(&d.w);
        tl_barrier();
    }
    dyn_close(&d);
}

/* The same memory attached again after it was detached, with other contents. */
static void same_memory_again(int flavor)
{
    struct dyn d;
    long got, words[8] = {0};
    MPI_Aint word;

    if (!dyn_open(&d, flavor))
        return;
    MPI_Get_address(words, &word);
    MPI_Sendrecv_replace(&word, 1, MPI_AINT, d.before, 1, d.next, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    for (long turn = 0; turn < 50; turn++) {
        words[0] = turn * 10 + d.w.rank;
        tl_ok(MPI_Win_attach(d.w.win, words, turn % 2 == 0 ? 64 : 8), "attach");
        tl_barrier();
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, d.next, 0, d.w.win), "lock");
        tl_ok(MPI_Get(&got, 1, MPI_LONG, d.next, word, 1, MPI_LONG, d.w.win), "get");
        tl_ok(MPI_Win_unlock(d.next, d.w.win), "unlock");
        tl_eq(got, turn * 10 + d.next, "what the owner stored");
        tl_barrier();
        tl_ok(MPI_Win_detach(d.w.win, words), "detach");
    }
    dyn_close(&d);
}

static void wrong_access(struct dyn *d, MPI_Aint disp, int count, const char *what)
{
    long data[4] = {-1, -1, -1, -1}, got[4] = {7, 7, 7, 7};
    MPI_Win win = d->w.win;

    tl_class(MPI_Put(data, count, MPI_LONG, d->next, disp, count, MPI_LONG, win), what,
             MPI_ERR_RMA_RANGE);
    tl_class(MPI_Get(got, count, MPI_LONG, d->next, disp, count, MPI_LONG, win), what,
             MPI_ERR_RMA_RANGE);
    tl_class(MPI_Accumulate(data, count, MPI_LONG, d->next, disp, count, MPI_LONG, MPI_SUM, win),
             what, MPI_ERR_RMA_RANGE);
    tl_class(MPI_Fetch_and_op(data, got, MPI_LONG, d->next,
                              disp + 8 * (MPI_Aint)(count - 1), MPI_SUM, win), what,
             MPI_ERR_RMA_RANGE);
    tl_eq(got[0], 7, "the result of a refused access");
}

static void unattached(int flavor)
{
    struct dyn d;
    long *hidden = calloc(WORDS, sizeof *hidden);
    MPI_Aint theirs;

    if (!dyn_open(&d, flavor)) {
        free(hidden);
        return;
    }
    MPI_Get_address(hidden, &theirs);
    MPI_Sendrecv_replace(&theirs, 1, MPI_AINT, d.before, 1, d.next, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    attach(&d, 0, BYTES);
    attach(&d, 1, BYTES);
    tell(&d);
    tl_ok(MPI_Win_lock_all(0, d.w.win), "lock_all");
    wrong_access(&d, theirs, 1, "memory that was never attached");
    wrong_access(&d, 0, 1, "address 0");
    wrong_access(&d, at(&d, d.next, 0, -1), 1, "the word before a region");
    wrong_access(&d, at(&d, d.next, 0, WORDS), 1, "the word behind a region");
    wrong_access(&d, at(&d, d.next, 0, WORDS - 3), 4, "across the end of a region");
    tl_ok(MPI_Win_unlock_all(d.w.win), "unlock_all");
    tl_barrier();
    detach(&d, 1);
    tl_barrier();
    tl_ok(MPI_Win_lock_all(0, d.w.win), "lock_all");
    wrong_access(&d, at(&d, d.next, 1, 0), 1, "a region that was detached");
    tl_ok(MPI_Win_unlock_all(d.w.win), "unlock_all");
    tl_barrier();
    for (int k = 0; k < WORDS; k++)
        tl_true(hidden[k] == 0 && d.region[0][k] == 0, "a refused access wrote");
    dyn_close(&d);
    free(hidden);
}

static void wrong_attach(int flavor)
{
    struct dyn d;
    long words[16] = {0};
    MPI_Win win;

    if (!dyn_open(&d, flavor))
        return;
    win = d.w.win;
    tl_ok(MPI_Win_attach(win, words, 64), "attach");
    tl_class(MPI_Win_attach(win, words, 64), "the same region again", MPI_ERR_RMA_ATTACH);
    tl_class(MPI_Win_attach(win, words + 4, 64), "a region that overlaps", MPI_ERR_RMA_ATTACH);
    tl_class(MPI_Win_attach(win, words + 1, 8), "a region inside", MPI_ERR_RMA_ATTACH);
    tl_ok(MPI_Win_attach(win, words + 8, 64), "a region that touches");
    tl_ok(MPI_Win_detach(win, words), "detach");
    tl_true(MPI_Win_detach(win, words) != MPI_SUCCESS, "detached twice");
    tl_true(MPI_Win_detach(win, words + 9) != MPI_SUCCESS, "detached by another address");
    tl_ok(MPI_Win_detach(win, words + 8), "detach");
    dyn_close(&d);
}

/* A region of no bytes has no part of another, wherever it is. */
static void empty_regions(int flavor)
{
    static const int left[] = {2, 3, 9};
    long words[16] = {0};
    struct dyn d;
    MPI_Win win;

    if (!dyn_open(&d, flavor))
        return;
    win = d.w.win;
    tl_ok(MPI_Win_attach(win, words + 1, 0), "attach of nothing");
    tl_ok(MPI_Win_attach(win, words + 2, 0), "attach of nothing");
    tl_ok(MPI_Win_attach(win, words + 1, 64), "attach around nothing");
    tl_ok(MPI_Win_attach(win, words + 1, 0), "attach of nothing where something begins");
    tl_ok(MPI_Win_attach(win, words + 3, 0), "attach of nothing inside something");
    tl_ok(MPI_Win_attach(win, words + 9, 0), "attach of nothing where something ends");
    tl_class(MPI_Win_attach(win, words + 3, 8), "a region inside", MPI_ERR_RMA_ATTACH);
    for (int i = 0; i < 3; i++)
        tl_ok(MPI_Win_detach(win, words + 1), "detach, once for each attach");
    tl_true(MPI_Win_detach(win, words + 1) != MPI_SUCCESS, "detached once more");
    for (int i = 0; i < 3; i++)
        tl_ok(MPI_Win_detach(win, words + left[i]), "detach of nothing");
    tl_true(MPI_Win_detach(win, words + 2) != MPI_SUCCESS, "detached twice");
    tl_ok(MPI_Win_attach(win, words + 4, 0), "attach of nothing that stays");
    dyn_close(&d);
}

/* Regions that are still attached go with the window. */
static void open_at_free(int flavor)
{
    struct dyn d;

    if (!dyn_open(&d, flavor))
        return;
    for (int i = 0; i < 8; i++)
        attach(&d, i, BYTES);
    tl_barrier();
    tl_ok(MPI_Win_free(&d.w.win), "MPI_Win_free with regions attached");
    for (int i = 0; i < 8; i++)
        region_free(d.region[i]);
    free(d.address);
    free(d.w.block);
    free(d.w.unit);
    free(d.w.address);
}

/* One attaches and detaches other regions while the rest work on one that stays. */
static void while_in_use(int flavor)
{
    struct dyn d;
    long one = 1;

    if (!dyn_open(&d, flavor))
        return;
    attach(&d, 0, BYTES);
    tell(&d);
    if (d.w.rank == 0) {
        for (int turn = 0; turn < 300; turn++) {
            attach(&d, 1 + turn % 7, BYTES * (size_t)(1 + turn % 5));
            if (turn >= 6)
                detach(&d, 1 + (turn - 6) % 7);
        }
    } else {
        for (int turn = 0; turn < 300; turn++) {
            tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, d.w.win), "lock");
            tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, 0, at(&d, 0, 0, 3), 1, MPI_LONG, MPI_SUM,
                                 d.w.win), "accumulate");
            tl_ok(MPI_Win_unlock(0, d.w.win), "unlock");
        }
    }
    tl_barrier();
    tl_local_begin(&d.w);
    if (d.w.rank == 0)
        tl_eq(d.region[0][3], 300L * (d.w.size - 1), "the sum in the region that stayed");
    tl_local_end(&d.w);
    dyn_close(&d);
}

/* Of many regions every other one stays, and is read while its neighbours come and go; these are
 * read when all stand still: what is attached then has the contents of its last attach, what is not
 * is an error. */
enum { MANY = 700, STRIDE = 4 };

struct many {
    struct dyn d;
    long *word;             /* of region i: [STRIDE * i] */
    long turn[MANY];        /* in which it was attached; -1: it is not */
    long *all;              /* the same of all ranks */
    MPI_Aint there;         /* the next rank's words */
    uint64_t seed;
};

static long contents(int rank, int i, long turn)
{
    return (rank + 1) * 1000000L + i * 1000L + turn;
}

static void many_attach(struct many *m, int i, long turn)
{
    m->word[STRIDE * i] = contents(m->d.w.rank, i, turn);
    tl_ok(MPI_Win_attach(m->d.w.win, &m->word[STRIDE * i], 8), "attach");
    m->turn[i] = turn;
}

static void many_read(struct many *m, int i, long turn)
{
    MPI_Aint at = MPI_Aint_add(m->there, 8 * STRIDE * (MPI_Aint)i);
    MPI_Win win = m->d.w.win;
    long got = -1;

    if (turn < 0) {
        tl_class(MPI_Get(&got, 1, MPI_LONG, m->d.next, at, 1, MPI_LONG, win),
                 "get of a region that was detached", MPI_ERR_RMA_RANGE);
        return;
    }
    tl_ok(MPI_Get(&got, 1, MPI_LONG, m->d.next, at, 1, MPI_LONG, win), "get");
    tl_ok(MPI_Win_flush(m->d.next, win), "flush");
    tl_eq(got, contents(m->d.next, i, turn), "what a region holds");
}

static void many_turn(struct many *m, long turn)
{
    for (int k = 0; k < 200; k++) {
        int i = 1 + 2 * tl_below(&m->seed, MANY / 2);

        if (m->turn[i] >= 0) {
            tl_ok(MPI_Win_detach(m->d.w.win, &m->word[STRIDE * i]), "detach");
            m->turn[i] = -1;
        } else {
            many_attach(m, i, turn);
        }
        many_read(m, 2 * tl_below(&m->seed, MANY / 2), 0);
    }
    MPI_Allgather(m->turn, MANY, MPI_LONG, m->all, MANY, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++)
        many_read(m, i, m->all[m->d.next * MANY + i]);
    tl_barrier();
}

static void churn(int flavor)
{
    struct many m = { .seed = (uint64_t)tl_rank() };
    struct dyn *d = &m.d;

    if (!dyn_open(d, flavor))
        return;
    m.word = calloc(MANY * STRIDE, sizeof *m.word);
    m.all = calloc((size_t)d->w.size * MANY, sizeof *m.all);
    MPI_Get_address(m.word, &m.there);
    MPI_Sendrecv_replace(&m.there, 1, MPI_AINT, d->before, 1, d->next, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++)
        many_attach(&m, i * 331 % MANY, 0);
    tl_barrier();
    tl_ok(MPI_Win_lock_all(0, d->w.win), "lock_all");
    for (long turn = 1; turn <= 8; turn++)
        many_turn(&m, turn);
    tl_ok(MPI_Win_unlock_all(d->w.win), "unlock_all");
    dyn_close(d);
    free(m.word);
    free(m.all);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"regions", regions, TL_DYNAMIC, 1, 30},
        {"come_and_go", come_and_go, TL_DYNAMIC, 1, 30},
        {"same_memory_again", same_memory_again, TL_DYNAMIC, 1, 30},
        {"unattached", unattached, TL_DYNAMIC, 1, 30},
        {"wrong_attach", wrong_attach, TL_DYNAMIC, 1, 30},
        {"empty_regions", empty_regions, TL_DYNAMIC, 1, 30},
        {"open_at_free", open_at_free, TL_DYNAMIC, 1, 30},
        {"while_in_use", while_in_use, TL_DYNAMIC, 2, 60},
        {"churn", churn, TL_DYNAMIC, 1, 60},
    };

    return tl_main(argc, argv, "dynamic", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

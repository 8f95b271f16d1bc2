/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small puts between two synchronizations, which a component may gather and send together:
 * all are there when the call that ends them says so, to all targets, in the order that flushes
 * give, and the origin's memory may be used again when a local flush has returned.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

/* Each rank has a part of every target. It keeps a copy of what must be there. */
enum { PART = 4096, LARGEST = 300, PUTS = 400 };

enum ending {
    FLUSH, FLUSH_ALL, LOCAL_THEN_FLUSH, LOCAL_ALL_THEN_UNLOCK_ALL, UNLOCK_ALL, UNLOCK_SHARED,
    UNLOCK_EXCLUSIVE, FENCE, COMPLETE, RPUT_AND_FLUSH, ENDINGS
};
static const char *const ending_names[ENDINGS] = {
    "flush", "flush_all", "flush_local, flush", "flush_local_all, unlock_all", "unlock_all",
    "unlock, shared", "unlock, exclusive", "fence", "complete", "rput, flush"
};

struct parts {
    struct tl_win w;
    unsigned char *copy; /* of this rank's part at each target */
    unsigned char *source; /* as long as one copy; what puts are made from */
    uint64_t random;
};

static int parts_open(struct parts *p, int flavor)
{
    int size = tl_size();

    memset(p, 0, sizeof *p);
    if (!tl_win_open(&p->w, flavor, MPI_COMM_WORLD, (size_t)size * PART, 1))
        return 0;
    p->copy = calloc((size_t)size, PART);
    p->source = calloc((size_t)size, PART);
    p->random = tl_mix(4711, (uint64_t)p->w.rank + 1);
    tl_local_begin(&p->w);
    memset(p->w.base, 0, (size_t)size * PART);
    tl_local_end(&p->w);
    tl_barrier();
    return 1;
}

/* Every rank shows what its parts must hold, and looks at its own memory: in an epoch of lock_all,
 * which nobody else's call ends or sends anything in, or between epochs. */
static void parts_check(struct parts *p, const char *after, int in_epoch)
{
    int size = p->w.size;
    unsigned char *wanted = calloc((size_t)size, PART);

    MPI_Alltoall(p->copy, PART, MPI_BYTE, wanted, PART, MPI_BYTE, MPI_COMM_WORLD);
    if (in_epoch)
        tl_ok(MPI_Win_sync(p->w.win), "MPI_Win_sync");
    else
        tl_local_begin(&p->w);
    for (int r = 0; r < size && !tl_failed(); r++)
        for (int i = 0; i < PART; i++)
            if (p->w.base[r * PART + i] != wanted[r * PART + i]) {
                tl_fail("after %s: byte %d from rank %d is %d, must be %d", after, i, r,
                        p->w.base[r * PART + i], wanted[r * PART + i]);
                break;
            }
    if (!in_epoch)
        tl_local_end(&p->w);
    free(wanted);
    tl_barrier();
}

static void parts_close(struct parts *p)
{
    tl_win_close(&p->w);
    free(p->copy);
    free(p->source);
}

/* Byte `at` of this rank's part at the target. */
static MPI_Aint disp(const struct parts *p, int target, int at)
{
    return tl_disp(&p->w, target, (size_t)(p->w.rank * PART + at));
}

static void put(struct parts *p, int target, int at, int len, const void *from)
{
    tl_ok(MPI_Put(from, len, MPI_BYTE, target, disp(p, target, at), len, MPI_BYTE, p->w.win),
          "MPI_Put");
    memcpy(p->copy + target * PART + at, from, (size_t)len);
}

/* Runs that do not overlap, so that any order is right; the source keeps until they are sent. */
static void put_many(struct parts *p, int first, int step, int with_requests)
{
    int at = 0;

    tl_pattern(p->source, (size_t)p->w.size * PART, tl_random(&p->random));
    for (int k = 0; at < PART && k < PUTS; k++) {
        int len = 1 + tl_below(&p->random, k % 8 == 0 ? LARGEST : 16);

        len = len < PART - at ? len : PART - at;
        for (int target = first; target < p->w.size; target += step) {
            MPI_Request request;
            const unsigned char *from = p->source + target * PART + at;

            if (!with_requests || k % 3 != 0) {
                put(p, target, at, len, from);
                continue;
            }
            tl_ok(MPI_Rput(from, len, MPI_BYTE, target, disp(p, target, at), len, MPI_BYTE,
                           p->w.win, &request), "MPI_Rput");
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            memcpy(p->copy + target * PART + at, from, (size_t)len);
        }
        at += len + tl_below(&p->random, 3);
    }
}

static void flush_each(struct parts *p)
{
    for (int target = 0; target < p->w.size; target++)
        tl_ok(MPI_Win_flush(target, p->w.win), "MPI_Win_flush");
}

static void passive_all(struct parts *p, enum ending how)
{
    tl_ok(MPI_Win_lock_all(0, p->w.win), "MPI_Win_lock_all");
    put_many(p, 0, 1, how == RPUT_AND_FLUSH);
    if (how == LOCAL_THEN_FLUSH)
        for (int target = 0; target < p->w.size; target++)
            tl_ok(MPI_Win_flush_local(target, p->w.win), "MPI_Win_flush_local");
    if (how == LOCAL_ALL_THEN_UNLOCK_ALL)
        tl_ok(MPI_Win_flush_local_all(p->w.win), "MPI_Win_flush_local_all");
    if (how == LOCAL_THEN_FLUSH || how == LOCAL_ALL_THEN_UNLOCK_ALL)
        memset(p->source, 0xee, (size_t)p->w.size * PART);
    if (how == FLUSH || how == LOCAL_THEN_FLUSH || how == RPUT_AND_FLUSH)
        flush_each(p);
    if (how == FLUSH_ALL)
        tl_ok(MPI_Win_flush_all(p->w.win), "MPI_Win_flush_all");
    /* What was flushed is there before the epoch's end. */
    if (how != UNLOCK_ALL && how != LOCAL_ALL_THEN_UNLOCK_ALL)
        parts_check(p, ending_names[how], 1);
    tl_ok(MPI_Win_unlock_all(p->w.win), "MPI_Win_unlock_all");
    tl_barrier();
}

static void passive_one(struct parts *p, int kind)
{
    for (int i = 0; i < p->w.size; i++) {
        int target = (p->w.rank + i) % p->w.size;

        tl_ok(MPI_Win_lock(kind, target, 0, p->w.win), "MPI_Win_lock");
        put_many(p, target, p->w.size, 0);
        tl_ok(MPI_Win_unlock(target, p->w.win), "MPI_Win_unlock");
    }
    tl_barrier();
}

static void active(struct parts *p, enum ending how)
{
    MPI_Group all;

    if (how == FENCE) {
        tl_ok(MPI_Win_fence(0, p->w.win), "MPI_Win_fence");
        put_many(p, 0, 1, 0);
        tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, p->w.win), "MPI_Win_fence");
        return;
    }
    MPI_Win_get_group(p->w.win, &all);
    tl_ok(MPI_Win_post(all, 0, p->w.win), "MPI_Win_post");
    tl_ok(MPI_Win_start(all, 0, p->w.win), "MPI_Win_start");
    put_many(p, 0, 1, 0);
    tl_ok(MPI_Win_complete(p->w.win), "MPI_Win_complete");
    tl_ok(MPI_Win_wait(p->w.win), "MPI_Win_wait");
    MPI_Group_free(&all);
}

static void every_ending(int flavor)
{
    struct parts p;

    if (!parts_open(&p, flavor))
        return;
    for (int round = 0; round < 3; round++)
        for (enum ending how = 0; how < ENDINGS; how++) {
            tl_phase(ending_names[how]);
            if (how == UNLOCK_SHARED || how == UNLOCK_EXCLUSIVE)
                passive_one(&p, how == UNLOCK_SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE);
            else if (how == FENCE || how == COMPLETE)
                active(&p, how);
            else
                passive_all(&p, how);
            parts_check(&p, ending_names[how], 0);
        }
    tl_phase("");
    parts_close(&p);
}

/* Puts that overlap, a flush between: the later one stays, whatever the sizes. */
static void order_across_flushes(int flavor)
{
    struct parts p;

    if (!parts_open(&p, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, p.w.win), "MPI_Win_lock_all");
    for (int k = 0; k < PUTS; k++) {
        int target = tl_below(&p.random, p.w.size);
        int len = 1 + tl_below(&p.random, k % 4 == 0 ? PART : 64);
        int at = tl_below(&p.random, PART - len + 1);

        tl_pattern(p.source, (size_t)len, tl_random(&p.random));
        put(&p, target, at, len, p.source);
        tl_ok(MPI_Win_flush(target, p.w.win), "MPI_Win_flush");
    }
    tl_ok(MPI_Win_unlock_all(p.w.win), "MPI_Win_unlock_all");
    tl_barrier();
    parts_check(&p, "overlapping puts with flushes between", 0);
    parts_close(&p);
}

/* Other operations between the puts, elsewhere in the part: none is lost or sent twice. */
static void among_others(int flavor)
{
    long added[64] = { 0 }, one = 1, old, cells;
    struct parts p;

    if (!parts_open(&p, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, p.w.win), "MPI_Win_lock_all");
    for (int k = 0; k < PUTS && p.w.size <= 64; k++) {
        int target = tl_below(&p.random, p.w.size);
        int at = 8 + k * 8;
        unsigned char back[8];

        tl_pattern(p.source, 8, tl_random(&p.random));
        put(&p, target, at, 8, p.source);
        tl_ok(MPI_Win_flush_local(target, p.w.win), "MPI_Win_flush_local");
        if (k % 5 == 0) {
            tl_ok(MPI_Fetch_and_op(&one, &old, MPI_LONG, target, disp(&p, target, 0), MPI_SUM,
                                   p.w.win), "MPI_Fetch_and_op");
            tl_ok(MPI_Win_flush_local(target, p.w.win), "MPI_Win_flush_local");
            tl_eq(old, added[target]++, "the counter");
        }
        if (k % 7 == 0) {
            tl_ok(MPI_Win_flush(target, p.w.win), "MPI_Win_flush");
            tl_ok(MPI_Get(back, 8, MPI_BYTE, target, disp(&p, target, at), 8, MPI_BYTE, p.w.win),
                  "MPI_Get");
            tl_ok(MPI_Win_flush(target, p.w.win), "MPI_Win_flush");
            tl_true(memcmp(back, p.source, 8) == 0, "put %d is not read back", k);
        }
    }
    tl_ok(MPI_Win_unlock_all(p.w.win), "MPI_Win_unlock_all");
    for (int r = 0; r < p.w.size && p.w.size <= 64; r++) {
        cells = added[r];
        memcpy(p.copy + r * PART, &cells, sizeof cells);
    }
    tl_barrier();
    parts_check(&p, "puts among others", 0);
    parts_close(&p);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"every_ending", every_ending, TL_ALL, 1, 60},
        {"order_across_flushes", order_across_flushes, TL_ALL, 1, 60},
        {"among_others", among_others, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "batch", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many gets between two synchronizations, more than a device or a component may have in flight: all
 * are there when the call that ends them says so, those with a request that nobody has waited for,
 * too, and what they bring is what was there before it.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 65536, LARGEST = 4000, GETS = 700, REQUESTS = 64, TURNS = 3 };

enum ending { BY_EPOCH, BY_FLUSH, BY_FLUSH_ALL, BY_FLUSH_LOCAL, BY_FLUSH_LOCAL_ALL, ENDINGS };
static const char *const ending_names[ENDINGS] = {
    "the epoch", "flush", "flush_all", "flush_local", "flush_local_all"
};

struct part {
    struct tl_win w;
    unsigned char *got, *wanted;
    int bytes; /* of the target's part that were asked for, from its beginning */
    MPI_Request request[REQUESTS];
    int requests;
    uint64_t random;
};

static uint64_t seed(int rank, int turn)
{
    return tl_mix(815, (uint64_t)rank * 1000 + (uint64_t)turn);
}

static int part_open(struct part *p, int flavor)
{
    memset(p, 0, sizeof *p);
    if (!tl_win_open(&p->w, flavor, MPI_COMM_WORLD, PART, 1))
        return 0;
    p->got = malloc(PART);
    p->wanted = malloc(PART);
    p->random = tl_mix(4712, (uint64_t)p->w.rank + 1);
    return 1;
}

static void part_close(struct part *p)
{
    tl_win_close(&p->w);
    free(p->got);
    free(p->wanted);
}

static void part_fill(struct part *p, int turn)
{
    tl_local_begin(&p->w);
    tl_pattern(p->w.base, PART, seed(p->w.rank, turn));
    tl_local_end(&p->w);
}

/* Runs one after the other, short ones mostly; a column now and then; requests, which the standard
 * has in passive epochs only. */
static void get_many(struct part *p, int target, int passive)
{
    MPI_Win win = p->w.win;
    MPI_Datatype column;
    int at = 0;

    MPI_Type_vector(4, 2, 4, MPI_BYTE, &column);
    MPI_Type_commit(&column);
    memset(p->got, 0xee, PART);
    p->requests = 0;
    for (int k = 0; k < tl_rounds(GETS); k++) {
        int len = 1 + tl_below(&p->random, k % 64 == 0 ? LARGEST : 64);
        MPI_Aint disp = tl_disp(&p->w, target, (size_t)at);

        if (k % 50 == 7 && at + 16 <= PART) { /* both halves of 16 bytes, as two columns */
            tl_ok(MPI_Get(p->got + at, 1, column, target, disp, 1, column, win), "MPI_Get");
            tl_ok(MPI_Get(p->got + at + 2, 1, column, target,
                          tl_disp(&p->w, target, (size_t)at + 2), 1, column, win), "MPI_Get");
            at += 16;
            continue;
        }
        len = len < PART - at ? len : PART - at;
        if (passive && k % 9 == 0 && p->requests < REQUESTS)
            tl_ok(MPI_Rget(p->got + at, len, MPI_BYTE, target, disp, len, MPI_BYTE, win,
                           &p->request[p->requests++]), "MPI_Rget");
        else
            tl_ok(MPI_Get(p->got + at, len, MPI_BYTE, target, disp, len, MPI_BYTE, win),
                  "MPI_Get");
        at += len;
    }
    MPI_Type_free(&column);
    p->bytes = at;
}

/* The first byte that is not as the target filled it at that turn; -1: none. */
static int first_wrong(const struct part *p, int target, int turn)
{
    tl_pattern(p->wanted, PART, seed(target, turn));
    memset(p->wanted + p->bytes, 0xee, (size_t)(PART - p->bytes));
    for (int i = 0; i < PART; i++)
        if (p->got[i] != p->wanted[i])
            return i;
    return -1;
}

static void check(const struct part *p, int target, int turn, const char *how, const char *after)
{
    int i = first_wrong(p, target, turn);

    if (i >= 0)
        tl_fail("%s, after %s: byte %d of rank %d is %d, must be %d", how, after, i, target,
                p->got[i], p->wanted[i]);
}

static void end_by(struct part *p, int target, enum ending ending)
{
    switch (ending) {
    case BY_FLUSH: tl_ok(MPI_Win_flush(target, p->w.win), "MPI_Win_flush"); break;
    case BY_FLUSH_ALL: tl_ok(MPI_Win_flush_all(p->w.win), "MPI_Win_flush_all"); break;
    case BY_FLUSH_LOCAL: tl_ok(MPI_Win_flush_local(target, p->w.win), "MPI_Win_flush_local"); break;
    default: tl_ok(MPI_Win_flush_local_all(p->w.win), "MPI_Win_flush_local_all"); break;
    }
}

/* Looked at after a flush, or after the epoch, before the requests are waited for. */
static void get_and_check(struct part *p, enum tl_epoch how, enum ending ending, int target,
                          int origin, int turn)
{
    tl_epoch_open(&p->w, how, target, origin);
    get_many(p, target, tl_epoch_passive(how));
    if (ending != BY_EPOCH) {
        end_by(p, target, ending);
        check(p, target, turn, tl_epoch_name(how), ending_names[ending]);
    }
    tl_epoch_close(&p->w, how, target);
    if (ending == BY_EPOCH)
        check(p, target, turn, tl_epoch_name(how), "its end");
    tl_ok(MPI_Waitall(p->requests, p->request, MPI_STATUSES_IGNORE), "MPI_Waitall");
}

static void every_ending(int flavor)
{
    struct part p;
    int turn = 0;

    if (!part_open(&p, flavor))
        return;
    for (int round = 0; round < tl_rounds(TURNS); round++)
        for (enum tl_epoch how = 0; how < TL_EPOCHS; how++)
            for (enum ending ending = 0; ending < ENDINGS; ending++) {
                int shift = turn % p.w.size;

                if (ending != BY_EPOCH && !tl_epoch_passive(how))
                    continue;
                tl_phase(tl_epoch_name(how));
                part_fill(&p, ++turn);
                tl_barrier();
                get_and_check(&p, how, ending, (p.w.rank + shift) % p.w.size,
                              (p.w.rank + p.w.size - shift) % p.w.size, turn);
                tl_barrier();
            }
    tl_phase("");
    part_close(&p);
}

/* An owner changes its part as soon as it has its lock: nobody who had it before sees that. */
static void before_the_next(int flavor)
{
    int owner = 0, turn = 0;
    struct part p;

    if (!part_open(&p, flavor))
        return;
    part_fill(&p, turn);
    tl_barrier();
    for (int k = 0; k < tl_rounds(40); k++) {
        if (p.w.rank == owner) {
            part_fill(&p, ++turn % 2);
            continue;
        }
        tl_ok(MPI_Win_lock(k % 2 == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, owner, 0, p.w.win),
              "MPI_Win_lock");
        get_many(&p, owner, 1);
        tl_ok(MPI_Win_unlock(owner, p.w.win), "MPI_Win_unlock");
        /* One of the two patterns it is, and that all of it. */
        if (first_wrong(&p, owner, 0) >= 0)
            check(&p, owner, 1, "a lock", "unlock");
        tl_ok(MPI_Waitall(p.requests, p.request, MPI_STATUSES_IGNORE), "MPI_Waitall");
    }
    tl_barrier();
    part_close(&p);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"every_ending", every_ending, TL_ALL, 1, 120},
        {"before_the_next", before_the_next, TL_ALL, 2, 120},
    };

    return tl_main(argc, argv, "gets", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

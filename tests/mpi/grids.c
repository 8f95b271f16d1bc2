/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets between sides of one, two and three levels of distances, each pair of them: runs,
 * columns, faces, many columns, rows that touch, faces of faces; the receiver as long as the sender
 * or with room for more. Where each byte belongs is told by loops of our own.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4, COUNT = 6, MOST_BLOCK = 48, MOST = (ROUNDS + 1) * COUNT * MOST_BLOCK };
enum { SPAN = 16 * 1024 };         /* the most that a shape takes is two thirds of that */

/* A side: elements of a type, and where its bytes are, in the order of its map. */
struct side {
    MPI_Datatype type;
    int count;
    size_t bytes, at[MOST];
};

/* `n` times what the side has so far, each `step` bytes behind the one before. */
static void repeat(struct side *s, size_t n, size_t step)
{
    size_t once = s->bytes;

    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < once; j++)
            s->at[s->bytes++] = s->at[j] + i * step;
}

static void wrap(struct side *s, size_t n, size_t step)
{
    MPI_Datatype inner = s->type;

    MPI_Type_create_hvector((int)n, 1, (MPI_Aint)step, inner, &s->type);
    MPI_Type_free(&inner);
    repeat(s, n, step);
}

static void subarray(struct side *s, const int all[3], const int part[3], size_t block)
{
    const int first[3] = {1, 1, 1};
    MPI_Datatype cell;
    size_t n = 0;

    MPI_Type_contiguous((int)block, MPI_BYTE, &cell);
    MPI_Type_create_subarray(3, all, part, first, MPI_ORDER_C, cell, &s->type);
    MPI_Type_free(&cell);
    for (int z = 1; z <= part[0]; z++)
        for (int y = 1; y <= part[1]; y++)
            for (int x = 1; x <= part[2]; x++)
                for (size_t i = 0; i < block; i++)
                    s->at[n++] = (size_t)((z * all[1] + y) * all[2] + x) * block + i;
    s->bytes = n;
}

enum { RUN, REST, COLUMN, COLUMNS, FACE, SHEET, NESTED, BACKWARDS, CUBE, HALVES, SHAPES };

/* rounds * COUNT blocks of `block` bytes, in that shape; REST is a run that ends in a block. */
static void make(struct side *s, int shape, int rounds, size_t block)
{
    const size_t blocks = (size_t)rounds * COUNT;

    s->count = 1;
    s->bytes = block;
    for (size_t i = 0; i < block; i++)
        s->at[i] = i;
    if (shape != FACE && shape != SHEET)
        MPI_Type_contiguous((int)block, MPI_BYTE, &s->type);
    switch (shape) {
    case RUN: wrap(s, blocks, block); break;
    case REST:
        MPI_Type_free(&s->type);
        s->bytes = 1;
        MPI_Type_contiguous(1, MPI_BYTE, &s->type);
        wrap(s, blocks * block - block / 2 - 1, 1);
        break;
    case COLUMN: wrap(s, blocks, block + 72); break;
    case NESTED:
        wrap(s, COUNT, 3 * block);
        wrap(s, (size_t)rounds, 3 * block * COUNT + 40);
        break;
    case BACKWARDS:         /* the rounds lie one in the other */
        wrap(s, COUNT, (size_t)rounds * block + 8);
        wrap(s, (size_t)rounds, block);
        break;
    case CUBE:
        wrap(s, 2, 2 * block);
        wrap(s, COUNT / 2, 5 * block);
        wrap(s, (size_t)rounds, 20 * block + 8);
        break;
    case HALVES:            /* shorter blocks, where they can be */
        MPI_Type_free(&s->type);
        s->bytes = block % 2 == 0 ? block / 2 : block;
        MPI_Type_contiguous((int)s->bytes, MPI_BYTE, &s->type);
        wrap(s, blocks * block / s->bytes, block + 3);
        break;
    case COLUMNS: {
        MPI_Datatype column;

        wrap(s, COUNT, 5 * block);
        column = s->type;
        MPI_Type_create_resized(column, 0, (MPI_Aint)(33 * block), &s->type);
        MPI_Type_free(&column);
        repeat(s, (size_t)rounds, 33 * block);
        s->count = rounds;
        break;
    }
    case FACE:
        subarray(s, (int[]){rounds + 2, COUNT + 2, 4}, (int[]){rounds, COUNT, 1}, block);
        break;
    case SHEET:             /* its rows are one block each */
        subarray(s, (int[]){rounds + 2, 3, COUNT + 2}, (int[]){rounds, 1, COUNT}, block);
        break;
    }
    MPI_Type_commit(&s->type);
}

static void check(const unsigned char *found, const struct side *side, const unsigned char *data,
                  const struct side *from, size_t bytes, const char *what)
{
    static unsigned char expected[SPAN];

    memset(expected, 0, sizeof expected);
    for (size_t i = 0; i < bytes; i++)
        expected[side->at[i]] = data[from->at[i]];
    tl_true(memcmp(found, expected, sizeof expected) == 0, "%s: wrong bytes", what);
}

/* To the target in shape `there`, and back from it. */
static void there_and_back(struct tl_win *w, const struct side *here, const struct side *there,
                           int target, int origin)
{
    static unsigned char data[SPAN], back[SPAN];
    size_t bytes = here->bytes < there->bytes ? here->bytes : there->bytes;
    int fits = here->bytes <= there->bytes;

    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    memset(back, 0, sizeof back);
    tl_pattern(data, sizeof data, (uint64_t)w->rank);
    tl_barrier();
    tl_epoch_open(w, TL_LOCK_ALL, target, origin);
    if (fits)
        tl_ok(MPI_Put(data, here->count, here->type, target, tl_disp(w, target, 0), there->count,
                      there->type, w->win), "put");
    else    /* the target is shorter: what it has is put by bytes, and got */
        for (size_t i = 0; i < bytes; i++)
            tl_ok(MPI_Put(data + here->at[i], 1, MPI_BYTE, target,
                          tl_disp(w, target, (MPI_Aint)there->at[i]), 1, MPI_BYTE, w->win), "put");
    tl_ok(MPI_Win_flush(target, w->win), "flush");
    if (here->bytes >= there->bytes)
        tl_ok(MPI_Get(back, here->count, here->type, target, tl_disp(w, target, 0), there->count,
                      there->type, w->win), "get");
    tl_epoch_close(w, TL_LOCK_ALL, target);
    tl_barrier();
    if (here->bytes >= there->bytes)
        check(back, here, data, here, bytes, "got");
    tl_pattern(data, sizeof data, (uint64_t)origin);
    tl_local_begin(w);
    check(w->base, there, data, here, bytes, "put");
    tl_local_end(w);
}

static void pairs(int flavor)
{
    static const size_t block[] = {1, 8, 24, MOST_BLOCK};
    static struct side here, there;
    int target = (tl_rank() + 1) % tl_size(), origin = (tl_rank() + tl_size() - 1) % tl_size();
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, SPAN, 1))
        return;
    for (unsigned turn = 0; turn < SHAPES * SHAPES * 4 * 3; turn++) {
        size_t size = block[turn / (SHAPES * SHAPES) % 4];
        unsigned longer = turn / (SHAPES * SHAPES * 4);     /* none, there, here */

        if (!tl_turn(turn))
            continue;
        make(&here, (int)(turn % SHAPES), ROUNDS + (longer == 2), size);
        make(&there, (int)(turn / SHAPES % SHAPES), ROUNDS + (longer == 1), size);
        there_and_back(&w, &here, &there, target, origin);
        MPI_Type_free(&here.type);
        MPI_Type_free(&there.type);
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"pairs", pairs, TL_ALL, 1, 120},
    };

    return tl_main(argc, argv, "grids", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More than 31 bits count: one call that moves over 2 GiB, and places beyond 4 GiB. Rank 1's part
 * is large, the others' are small. A machine with too little memory is told of as a skip.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PART (3 * GIB)
#define MOVED (2 * GIB + 4 * MIB + 24)  /* bytes of one get, and of one accumulate */
#define LEFT_TO_OTHERS (3 * GIB)        /* of what the machine has now */

static size_t available(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long kib = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return (size_t)kib * 1024;
}

/* Agreed by all, since what one takes is missing for another. */
static int there_is(size_t bytes)
{
    int enough = available() >= bytes + LEFT_TO_OTHERS, all;

    MPI_Allreduce(&enough, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        tl_skip("needs %zu GiB of memory, there are %zu GiB", (bytes + LEFT_TO_OTHERS) / GIB,
                available() / GIB);
    return all;
}

struct big {
    MPI_Win win;
    unsigned char *base;
    size_t bytes;
    int mapped;
};

/* Memory of the program's own is only reserved: what is not touched costs nothing. */
static unsigned char *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static int big_open(struct big *b, int flavor, size_t bytes, int unit)
{
    int rc, there, everywhere;

    memset(b, 0, sizeof *b);
    b->bytes = tl_rank() == 1 ? bytes : 4096;
    b->mapped = flavor == TL_CREATE;
    if (b->mapped) {
        b->base = reserve(b->bytes);
        rc = MPI_Win_create(b->base, (MPI_Aint)b->bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &b->win);
    } else {
        rc = MPI_Win_allocate((MPI_Aint)b->bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &b->base,
                              &b->win);
    }
    there = tl_ok(rc, "a large window");
    MPI_Allreduce(&there, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (everywhere)
        MPI_Win_set_errhandler(b->win, MPI_ERRORS_RETURN);
    return everywhere;
}

static void big_close(struct big *b)
{
    tl_barrier();
    tl_ok(MPI_Win_free(&b->win), "MPI_Win_free");
    if (b->mapped)
        munmap(b->base, b->bytes);
}

/* ---- one call, over 2 GiB ---- */

/* One MiB twice, so that any MiB of it is one piece. */
static _Alignas(8) unsigned char pattern[2 * MIB];

static void make_pattern(void)
{
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i % MIB * 7 + i % MIB / 251);
}

/* The same MiB, 3072 times: the origin's elements may lie on one another. */
static void put_all(struct big *b)
{
    MPI_Datatype mib, same;

    MPI_Type_contiguous((int)MIB, MPI_BYTE, &mib);
    MPI_Type_create_hvector((int)(PART / MIB), 1, 0, mib, &same);
    MPI_Type_commit(&mib);
    MPI_Type_commit(&same);
    tl_ok(MPI_Put(pattern, 1, same, 1, 0, (int)(PART / MIB), mib, b->win), "put of 3 GiB");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
    MPI_Type_free(&mib);
    MPI_Type_free(&same);
}

/* 2 GiB and some from an odd place on, into one contiguous buffer. */
static void get_most(struct big *b, unsigned char *to)
{
    MPI_Datatype chunk;
    size_t from = GIB / 2 + 3;

    MPI_Type_contiguous(8, MPI_BYTE, &chunk);
    MPI_Type_commit(&chunk);
    tl_ok(MPI_Get(to, (int)(MOVED / 8), chunk, 1, (MPI_Aint)from, (int)(MOVED / 8), chunk, b->win),
          "get of 2 GiB");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
    for (size_t i = 0; i < MOVED; i += MIB)
        tl_true(memcmp(to + i, pattern + from % MIB, MOVED - i < MIB ? MOVED - i : MIB) == 0,
                "what was got is wrong between byte %zu and the next MiB", i);
    MPI_Type_free(&chunk);
}

static void add_most(struct big *b, unsigned char *from)
{
    size_t words = MOVED / 8;
    long *word = (long *)(void *)from;

    for (size_t i = 0; i < words; i++)
        word[i] = (long)i;
    tl_ok(MPI_Accumulate(word, (int)words, MPI_LONG, 1, 0, (int)words, MPI_LONG, MPI_SUM, b->win),
          "accumulate of 2 GiB");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
}

static void check_sums(const struct big *b)
{
    const long *word = (const long *)(const void *)b->base;
    const long *before = (const long *)(const void *)pattern;

    for (size_t i = 0; i < PART / 8; i++) {
        unsigned long due = (unsigned long)before[i % (MIB / 8)] + (i < MOVED / 8 ? i : 0);
        if ((unsigned long)word[i] != due) {
            tl_fail("word %zu of the part is %ld, wanted %ld", i, word[i], (long)due);
            break;
        }
    }
}

static void one_call(int flavor)
{
    struct big b;
    unsigned char *buffer = NULL;

    make_pattern();
    if (!there_is(PART + MOVED) || !big_open(&b, flavor, PART, 1))
        return;
    tl_ok(MPI_Win_lock_all(0, b.win), "MPI_Win_lock_all");
    if (tl_rank() == 0) {
        buffer = reserve(MOVED);
        put_all(&b);
        get_most(&b, buffer);
        add_most(&b, buffer);
        munmap(buffer, MOVED);
    }
    tl_ok(MPI_Win_unlock_all(b.win), "MPI_Win_unlock_all");
    tl_barrier();
    if (tl_rank() == 1)
        check_sums(&b);
    big_close(&b);
}

/* ---- places beyond 4 GiB ---- */

static void use_far(struct big *b, size_t at, int unit)
{
    long value = 1, got = 0, two[2] = {7, 8}, back[2] = {0, 0};
    MPI_Aint disp = (MPI_Aint)(at / (size_t)unit);
    MPI_Datatype apart;

    /* the second word lies 4 GiB and a little before the first one */
    MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){0, -(MPI_Aint)(4 * GIB + 64)},
                             MPI_LONG, &apart);
    MPI_Type_commit(&apart);
    tl_ok(MPI_Put(&value, 1, MPI_LONG, 1, disp, 1, MPI_LONG, b->win), "put");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
    tl_ok(MPI_Fetch_and_op(&value, &got, MPI_LONG, 1, disp, MPI_SUM, b->win), "fetch_and_op");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
    tl_eq(got, 1, "what was put far away");
    tl_ok(MPI_Put(two, 2, MPI_LONG, 1, disp, 1, apart, b->win), "put of a type of 4 GiB");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
    tl_ok(MPI_Get(back, 2, MPI_LONG, 1, disp, 1, apart, b->win), "get of a type of 4 GiB");
    tl_ok(MPI_Accumulate(two, 2, MPI_LONG, 1, disp, 1, apart, MPI_SUM, b->win), "accumulate");
    tl_ok(MPI_Win_flush(1, b->win), "flush");
    tl_true(back[0] == 7 && back[1] == 8, "%ld and %ld came back from far away", back[0], back[1]);
    tl_class(MPI_Put(&value, 1, MPI_LONG, 1, (MPI_Aint)((5 * GIB) / (size_t)unit), 1, MPI_LONG,
                     b->win), "put behind 5 GiB", MPI_ERR_RMA_RANGE);
    MPI_Type_free(&apart);
}

static long long_at(const struct big *b, size_t at)
{
    long value;

    memcpy(&value, b->base + at, sizeof value);
    return value;
}

/* The first two units reach what lies 4 GiB below as well. */
static void far_with(struct big *b, size_t at, int unit)
{
    long value = 14;
    int reaches = unit < (1 << 30);

    tl_ok(MPI_Win_lock_all(0, b->win), "MPI_Win_lock_all");
    if (tl_rank() == 0 && reaches)
        use_far(b, at, unit);
    else if (tl_rank() == 0)
        tl_ok(MPI_Put(&value, 1, MPI_LONG, 1, (MPI_Aint)(at / (size_t)unit), 1, MPI_LONG, b->win),
              "put at some units of 1 GiB");
    tl_ok(MPI_Win_unlock_all(b->win), "MPI_Win_unlock_all");
    tl_barrier();
    if (tl_rank() != 1)
        return;
    tl_eq(long_at(b, at), 14, "the word far away");
    if (reaches)
        tl_eq(long_at(b, at - 4 * GIB - 64), 16, "the word 4 GiB before it");
}

static void far_away(int flavor)
{
    static const int unit[3] = {1, 4096, 1 << 30};
    size_t part = 5 * GIB;
    struct big b;

    if (!there_is(flavor == TL_CREATE ? 16 * MIB : part))
        return;
    for (int i = 0; i < 3 && !tl_failed(); i++) {
        if (!big_open(&b, flavor, part, unit[i]))
            return;
        far_with(&b, unit[i] < (1 << 30) ? part - 8192 : part - GIB, unit[i]);
        big_close(&b);
    }
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"far_away", far_away, TL_ALLOCATE | TL_CREATE, 2, 120},
        {"one_call", one_call, TL_ALLOCATE | TL_CREATE, 2, 300},
    };

    return tl_main(argc, argv, "huge", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

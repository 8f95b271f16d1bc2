/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What accumulates promise when several ranks, the owner among them, act on the same elements:
 * each element is updated atomically, none is torn, one origin's updates of one place keep their
 * order. All totals are exact, or the case fails.
 */
#include "elems.h"
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 16, TYPES = 20 };

/* Positions in el_types[] of sums worth contending for: 1 to 32 bytes, all kinds. */
static const int summed[TYPES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                  18, 21, 26, 27, 28, 29, 33, 34, 35, 37};

static int repetitions(const struct el_type *el, int size)
{
    if (el->part == 1)
        return tl_rounds(120 / size < 60 ? 120 / size : 60);
    return tl_rounds(60);
}

static void one_of(const struct el_type *el, void *to, int count)
{
    static const unsigned char one[2] = {1, 0}; /* little endian */
    unsigned char *p = to;
    float f = 1;
    double d = 1;
    long double l = 1;
    int part = el->kind == EL_COMPLEX ? el->part / 2 : el->part;

    memset(to, 0, (size_t)count * (size_t)el->extent);
    for (int i = 0; i < count; i++, p += el->extent) {
        if (el->kind != EL_FLOAT && el->kind != EL_COMPLEX)
            memcpy(p, one, 1);
        else if (part == sizeof f)
            memcpy(p, &f, sizeof f);
        else if (part == sizeof d)
            memcpy(p, &d, sizeof d);
        else
            memcpy(p, &l, sizeof l);
        if (el->kind == EL_COMPLEX)
            memcpy(p + part, p, (size_t)part);
    }
}

/* How often the scheme below adds one to element e in `reps` turns of one rank. */
static int added(int e, int reps)
{
    int sum = 0;

    for (int i = 0; i < reps; i++)
        sum += i % 3 == 0 ? 1 : i % 3 == 1 ? e >= 4 && e < 12 : e == i % ELEMENTS;
    return sum;
}

static int add_once(struct tl_win *w, int target, const struct el_type *el, size_t base, int i,
                    const void *ones, void *result)
{
    size_t x = (size_t)el->extent;
    MPI_Datatype t = el->type;

    if (i % 3 == 0)
        return MPI_Accumulate(ones, ELEMENTS, t, target, tl_disp(w, target, base), ELEMENTS, t,
                              MPI_SUM, w->win);
    if (i % 3 == 1)
        return MPI_Get_accumulate(ones, 8, t, result, 8, t, target,
                                  tl_disp(w, target, base + 4 * x), 8, t, MPI_SUM, w->win);
    return MPI_Fetch_and_op(ones, result, t, target,
                            tl_disp(w, target, base + (size_t)(i % ELEMENTS) * x), MPI_SUM,
                            w->win);
}

static void check_sums(struct tl_win *w, const struct el_type *el, size_t base, int reps)
{
    unsigned char due[32], one[32];
    size_t x = (size_t)el->extent;

    one_of(el, one, 1);
    tl_local_begin(w);
    for (int e = 0; e < ELEMENTS; e++) {
        memset(due, 0, sizeof due);
        for (int i = 0; i < added(e, reps) * w->size; i++)
            el_apply(el, EL_SUM, due, one);
        tl_true(el_same(el, w->base + base + (size_t)e * x, due),
                "%s at %zu: element %d does not hold the exact sum", el->name, base, e);
    }
    tl_local_end(w);
}

static void sum_type(struct tl_win *w, const struct el_type *el, size_t base, enum tl_epoch how)
{
    unsigned char ones[32 * ELEMENTS], result[32 * ELEMENTS];
    int reps = repetitions(el, w->size), next = (w->rank + 1) % w->size;

    one_of(el, ones, ELEMENTS);
    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    tl_epoch_open(w, how, next, (w->rank + w->size - 1) % w->size);
    for (int i = 0; i < reps; i++)
        for (int target = 0; target < w->size; target++)
            tl_ok(add_once(w, target, el, base, i, ones, result), el->name);
    tl_epoch_close(w, how, next);
    check_sums(w, el, base, reps);
}

static void sums_with(int flavor, MPI_Info info)
{
    struct tl_win w;

    if (!tl_win_open_info(&w, flavor, MPI_COMM_WORLD, 1024, 1, info))
        return;
    for (int i = 0; i < TYPES; i++) {
        if (!el_present(&el_types[summed[i]]))
            continue;
        sum_type(&w, &el_types[summed[i]], 64, TL_LOCK_ALL);
        sum_type(&w, &el_types[summed[i]], 128, TL_FENCE);
    }
    tl_win_close(&w);
}

static void sums(int flavor)
{
    sums_with(flavor, MPI_INFO_NULL);
}

/* The hints promise something about the program, and change nothing of the results. */
static void sums_with_hints(int flavor)
{
    static const char *const hint[3][2] = {{"accumulate_ops", "same_op"},
                                           {"accumulate_ordering", "none"},
                                           {"loco_accumulate", "bulk"}};

    for (int i = 0; i < 3; i++) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, hint[i][0], hint[i][1]);
        sums_with(flavor, info);
        MPI_Info_free(&info);
    }
}

static void sums_unaligned(int flavor)
{
    static const int pick[5] = {2, 4, 6, 27, 34};
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 1024, 1))
        return;
    for (int i = 0; i < 5; i++)
        for (size_t off = 1; off < 8; off += 2)
            sum_type(&w, &el_types[pick[i]], 64 + off, TL_LOCK_ALL);
    tl_win_close(&w);
}

/* All ranks add long vectors that overlap in part. */
static void long_sums(int flavor)
{
    enum { LENGTH = 3000, ROUNDS = 20 };
    struct tl_win w;
    double *data = malloc(LENGTH * sizeof *data);
    int step = 500;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 8 * LENGTH * 4, 8)) {
        free(data);
        return;
    }
    for (int i = 0; i < LENGTH; i++)
        data[i] = i;
    tl_epoch_open(&w, TL_LOCK_ALL, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
        size_t at = (size_t)(w.rank % 4 * step) * 8;
        tl_ok(MPI_Accumulate(data, LENGTH, MPI_DOUBLE, 0, tl_disp(&w, 0, at), LENGTH, MPI_DOUBLE,
                             MPI_SUM, w.win), "MPI_Accumulate");
    }
    tl_epoch_close(&w, TL_LOCK_ALL, 0);
    tl_local_begin(&w);
    for (int i = 0; i < LENGTH * 4 && w.rank == 0; i++) {
        double due = 0, got;
        for (int r = 0; r < w.size; r++)
            if (i >= r % 4 * step && i < r % 4 * step + LENGTH)
                due += ROUNDS * (double)(i - r % 4 * step);
        memcpy(&got, w.base + (size_t)i * 8, sizeof got);
        tl_true(got == due, "element %d is %g, wanted %g", i, got, due);
    }
    tl_local_end(&w);
    free(data);
    tl_win_close(&w);
}

/* Neighbouring bytes and shorts of one word belong to different ranks. */
static void neighbours(int flavor)
{
    struct tl_win w;
    int reps = tl_rounds(100);
    signed char one = 1;
    short two = 2;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4096, 1))
        return;
    tl_epoch_open(&w, TL_LOCK_ALL, 0, 0);
    for (int i = 0; i < reps; i++) {
        size_t mine = (size_t)w.rank;
        tl_ok(MPI_Accumulate(&one, 1, MPI_SIGNED_CHAR, 0, tl_disp(&w, 0, mine), 1, MPI_SIGNED_CHAR,
                             MPI_SUM, w.win), "char");
        tl_ok(MPI_Accumulate(&two, 1, MPI_SHORT, 0, tl_disp(&w, 0, 1024 + 2 * mine), 1, MPI_SHORT,
                             MPI_SUM, w.win), "short");
    }
    tl_epoch_close(&w, TL_LOCK_ALL, 0);
    tl_local_begin(&w);
    for (int r = 0; r < w.size && w.rank == 0; r++) {
        short got;
        memcpy(&got, w.base + 1024 + 2 * (size_t)r, sizeof got);
        tl_eq((signed char)w.base[r], reps, "a byte beside others");
        tl_eq(got, 2 * reps, "a short beside others");
    }
    tl_local_end(&w);
    tl_win_close(&w);
}

/* ---- tickets ---- */

static int by_value(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return x < y ? -1 : x > y;
}

static long as_long(const struct el_type *el, const void *from)
{
    long v = 0;
    float f;
    double d;

    if (el->kind != EL_FLOAT) {
        memcpy(&v, from, (size_t)el->part);
        return v;
    }
    if (el->part == sizeof f) {
        memcpy(&f, from, sizeof f);
        return (long)f;
    }
    memcpy(&d, from, sizeof d);
    return (long)d;
}

static void check_tickets(const struct el_type *el, const long *mine, int count, int size)
{
    long *all = malloc((size_t)(count * size) * sizeof *all);

    for (int i = 1; i < count; i++)
        tl_true(mine[i] > mine[i - 1], "%s: ticket %ld after %ld", el->name, mine[i],
                mine[i - 1]);
    MPI_Allgather(mine, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD);
    qsort(all, (size_t)(count * size), sizeof *all, by_value);
    for (int i = 0; i < count * size; i++)
        tl_true(all[i] == i, "%s: ticket %d is missing or given twice", el->name, i);
    free(all);
}

static void tickets_of(struct tl_win *w, const struct el_type *el, int target)
{
    enum { COUNT = 200 };
    int count = el->part == 1 ? repetitions(el, w->size) : tl_rounds(COUNT);
    unsigned char one[16], got[16];
    long ticket[COUNT];

    one_of(el, one, 1);
    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    tl_epoch_open(w, TL_LOCK_SHARED, target, target);
    for (int i = 0; i < count; i++) {
        tl_ok(MPI_Fetch_and_op(one, got, el->type, target, tl_disp(w, target, 16), MPI_SUM,
                               w->win), "MPI_Fetch_and_op");
        tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
        ticket[i] = as_long(el, got);
    }
    tl_epoch_close(w, TL_LOCK_SHARED, target);
    check_tickets(el, ticket, count, w->size);
}

static void tickets(int flavor)
{
    static const int pick[8] = {0, 3, 4, 5, 6, 18, 26, 27};
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (int i = 0; i < 8; i++)
        tickets_of(&w, &el_types[pick[i]], i % w.size);
    tl_win_close(&w);
}

/* ---- one word, all calls ---- */

static int swap_increment(struct tl_win *w, const struct el_type *el, int target, MPI_Aint disp)
{
    unsigned char seen[8] = {0}, fresh[8], old[8], one[8];

    one_of(el, one, 1);
    for (int tries = 0; tries < 1000000 && !tl_failed(); tries++) {
        memcpy(fresh, seen, sizeof fresh);
        el_apply(el, EL_SUM, fresh, one);
        tl_ok(MPI_Compare_and_swap(fresh, seen, old, el->type, target, disp, w->win), "cas");
        tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
        if (memcmp(old, seen, (size_t)el->part) == 0)
            return 1;
        memcpy(seen, old, (size_t)el->part);
    }
    return tl_true(0, "compare_and_swap never succeeded");
}

static void mixed_on(struct tl_win *w, const struct el_type *el, int target)
{
    int reps = tl_rounds(el->part == 1 ? 120 / w->size / 4 : 50);
    MPI_Aint disp = tl_disp(w, target, 16);
    unsigned char one[8], got[8], due[8] = {0};

    one_of(el, one, 1);
    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    tl_epoch_open(w, TL_LOCK_ALL, target, target);
    for (int i = 0; i < reps; i++) {
        tl_ok(MPI_Fetch_and_op(one, got, el->type, target, disp, MPI_SUM, w->win), "fetch");
        tl_ok(MPI_Accumulate(one, 1, el->type, target, disp, 1, el->type, MPI_SUM, w->win), "acc");
        tl_ok(MPI_Get_accumulate(one, 1, el->type, got, 1, el->type, target, disp, 1, el->type,
                                 MPI_SUM, w->win), "get_accumulate");
        tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
        swap_increment(w, el, target, disp);
    }
    tl_epoch_close(w, TL_LOCK_ALL, target);
    for (int i = 0; i < 4 * reps * w->size; i++)
        el_apply(el, EL_SUM, due, one);
    tl_local_begin(w);
    tl_true(w->rank != target || el_same(el, w->base + 16, due),
            "%s on rank %d: the count of all increments is wrong", el->name, target);
    tl_local_end(w);
}

static void mixed_calls(int flavor)
{
    static const int pick[8] = {0, 1, 2, 4, 5, 6, 18, 21};
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 4))
        return;
    for (int i = 0; i < 8; i++)
        for (int target = 0; target < w.size; target += w.size > 1 ? w.size - 1 : 1)
            if (el_present(&el_types[pick[i]]))
                mixed_on(&w, &el_types[pick[i]], target);
    tl_win_close(&w);
}

/* A lock made of compare_and_swap and MPI_REPLACE guards a counter that put and get change. */
static void spin_lock(int flavor)
{
    struct tl_win w;
    int free_word = -1, me = tl_rank(), old, reps = tl_rounds(30);
    long count = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    tl_local_begin(&w);
    memcpy(w.base, &free_word, sizeof free_word);
    tl_local_end(&w);
    tl_epoch_open(&w, TL_LOCK_ALL, 0, 0);
    for (int i = 0; i < reps; i++) {
        do {
            MPI_Compare_and_swap(&me, &free_word, &old, MPI_INT, 0, tl_disp(&w, 0, 0), w.win);
            tl_ok(MPI_Win_flush(0, w.win), "MPI_Win_flush");
        } while (old != free_word);
        MPI_Get(&count, 1, MPI_LONG, 0, tl_disp(&w, 0, 8), 1, MPI_LONG, w.win);
        MPI_Win_flush(0, w.win);
        count++;
        MPI_Put(&count, 1, MPI_LONG, 0, tl_disp(&w, 0, 8), 1, MPI_LONG, w.win);
        MPI_Win_flush(0, w.win);
        MPI_Accumulate(&free_word, 1, MPI_INT, 0, tl_disp(&w, 0, 0), 1, MPI_INT, MPI_REPLACE,
                       w.win);
        tl_ok(MPI_Win_flush(0, w.win), "MPI_Win_flush");
    }
    tl_epoch_close(&w, TL_LOCK_ALL, 0);
    tl_local_begin(&w);
    memcpy(&count, w.base + 8, sizeof count);
    tl_true(me != 0 || count == (long)reps * w.size, "the counter is %ld", count);
    tl_local_end(&w);
    tl_win_close(&w);
}

/* ---- no element is ever seen half ---- */

/* Element `v` of a type, from which any half tells the whole. */
static void paint(const struct el_type *el, void *to, int v)
{
    unsigned char *p = to;
    int at = el_index_offset(el);

    memset(to, 0, (size_t)el->extent);
    if (el->kind == EL_COMPLEX || el->kind == EL_FLOAT) {
        one_of(el, to, 1);
        for (int i = 0; i < v; i++) { /* 2^v in both parts */
            unsigned char twice[32];
            memcpy(twice, to, (size_t)el->extent);
            el_apply(el, EL_SUM, to, twice);
        }
    } else if (el_is_pair(el)) {
        el_fill(el, EL_REPLACE, to, 1, (uint64_t)v * 77, 0);
        memcpy(p + at, &v, sizeof v);
    } else {
        memset(to, v, (size_t)el->part);
    }
}

static void look(const struct el_type *el, const void *seen)
{
    unsigned char due[32];

    for (int v = 0; v < 8; v++) {
        paint(el, due, v);
        if (el_same(el, seen, due))
            return;
    }
    tl_fail("%s: an element was seen that nobody wrote", el->name);
}

static void untorn_type(struct tl_win *w, const struct el_type *el, size_t at)
{
    unsigned char fresh[32], seen[32];
    uint64_t state = (uint64_t)w->rank;

    tl_local_begin(w);
    paint(el, w->base + at, 0);
    tl_local_end(w);
    tl_epoch_open(w, TL_LOCK_ALL, 0, 0);
    for (int i = 0; i < 200; i++) {
        paint(el, fresh, tl_below(&state, 8));
        if (i % 2 == 0)
            tl_ok(MPI_Accumulate(fresh, 1, el->type, 0, tl_disp(w, 0, at), 1, el->type,
                                 MPI_REPLACE, w->win), "replace");
        memset(seen, 0, sizeof seen);
        tl_ok(MPI_Get_accumulate(NULL, 0, el->type, seen, 1, el->type, 0, tl_disp(w, 0, at), 1,
                                 el->type, MPI_NO_OP, w->win), "atomic get");
        tl_ok(MPI_Win_flush(0, w->win), "MPI_Win_flush");
        look(el, seen);
    }
    tl_epoch_close(w, TL_LOCK_ALL, 0);
}

static void untorn(int flavor)
{
    static const int pick[13] = {2, 4, 6, 26, 27, 28, 33, 34, 35, 46, 48, 50, 51};
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 256, 1))
        return;
    for (int i = 0; i < 13; i++) {
        untorn_type(&w, &el_types[pick[i]], 64);
        untorn_type(&w, &el_types[pick[i]], 61);
    }
    tl_win_close(&w);
}

/* Fortran's widest, which nothing here calculates with: every bit is moved. */
static void widest_type(struct tl_win *w, MPI_Datatype type, const char *name)
{
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    unsigned char fresh[64], seen[64], due[64];
    int size;

    MPI_Type_size(type, &size);
    memset(fresh, 0xa5 ^ w->rank, sizeof fresh);
    memset(due, 0xa5 ^ before, sizeof due);
    memset(seen, 0, sizeof seen);
    tl_ok(MPI_Win_fence(0, w->win), "MPI_Win_fence");
    tl_ok(MPI_Accumulate(fresh, 2, type, next, tl_disp(w, next, 16), 2, type, MPI_REPLACE, w->win),
          "replace");
    tl_ok(MPI_Win_fence(0, w->win), "MPI_Win_fence");
    tl_ok(MPI_Get_accumulate(NULL, 0, type, seen, 2, type, w->rank, tl_disp(w, w->rank, 16), 2,
                             type, MPI_NO_OP, w->win), "atomic get");
    tl_ok(MPI_Win_fence(0, w->win), "MPI_Win_fence");
    tl_true(memcmp(seen, due, 2 * (size_t)size) == 0, "%s: other bits than were written", name);
    tl_class2(MPI_Accumulate(fresh, 1, type, next, tl_disp(w, next, 16), 1, type, MPI_SUM, w->win),
              "a sum of them", MPI_ERR_OP, MPI_ERR_TYPE);
    tl_ok(MPI_Win_fence(0, w->win), "MPI_Win_fence");
}

static void widest(int flavor)
{
    const MPI_Datatype types[] = {MPI_REAL16, MPI_COMPLEX32};
    static const char *const names[] = {"MPI_REAL16", "MPI_COMPLEX32"};
    struct tl_win w;
    int size;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 128, 1))
        return;
    for (int i = 0; i < 2; i++) {
        if (types[i] != MPI_DATATYPE_NULL && MPI_Type_size(types[i], &size) == MPI_SUCCESS
            && size == 16 << i)
            widest_type(&w, types[i], names[i]);
        else
            tl_note("%s is not to be had", names[i]);
    }
    tl_win_close(&w);
}

/* MAXLOC from all ranks: value and index stay together, the greatest wins. */
static void maxloc(int flavor)
{
    struct {
        double value;
        int index;
    } pair = {0, 0}, seen;
    struct tl_win w;
    int last = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    tl_epoch_open(&w, TL_LOCK_ALL, 0, 0);
    for (int i = 1; i <= 200; i++) {
        pair.index = i * w.size + w.rank;
        pair.value = 3.0 * pair.index;
        tl_ok(MPI_Get_accumulate(&pair, 1, MPI_DOUBLE_INT, &seen, 1, MPI_DOUBLE_INT, 0,
                                 tl_disp(&w, 0, 0), 1, MPI_DOUBLE_INT, MPI_MAXLOC, w.win), "max");
        tl_ok(MPI_Win_flush(0, w.win), "MPI_Win_flush");
        tl_true(seen.value == 3.0 * seen.index, "seen %g with %d", seen.value, seen.index);
        tl_true(seen.index >= last, "the maximum went from %d to %d", last, seen.index);
        last = seen.index;
    }
    tl_epoch_close(&w, TL_LOCK_ALL, 0);
    tl_local_begin(&w);
    memcpy(&seen, w.base, sizeof seen);
    tl_true(w.rank != 0 || seen.index == 200 * w.size + w.size - 1, "ends at %d", seen.index);
    tl_local_end(&w);
    tl_win_close(&w);
}

/* ---- order of one origin's accumulates ---- */

/* Random accumulates of random spans that overlap, without a flush between, against the model. */
static void order_of_one(struct tl_win *w, int target, int *data, int *result, uint64_t seed)
{
    enum { WORDS = 64, STEPS = 300 };
    static const enum el_op ops[4] = {EL_REPLACE, EL_SUM, EL_MAX, EL_NO_OP};
    int (*due)[WORDS] = calloc(STEPS, sizeof *due);
    int model[WORDS] = {0}, first[STEPS], count[STEPS];
    size_t zone = (size_t)w->rank * WORDS * 4;

    for (int i = 0; i < STEPS; i++) {
        enum el_op op = ops[tl_below(&seed, 4)];
        first[i] = tl_below(&seed, WORDS);
        count[i] = 1 + tl_below(&seed, i % 2 == 0 ? 1 : WORDS - first[i]);
        for (int k = 0; k < count[i]; k++) {
            data[i * WORDS + k] = (int)(tl_random(&seed) % 1000);
            due[i][k] = model[first[i] + k];
            el_apply(&el_types[4], op, &model[first[i] + k], &data[i * WORDS + k]);
        }
        tl_ok(MPI_Get_accumulate(&data[i * WORDS], count[i], MPI_INT, &result[i * WORDS], count[i],
                                 MPI_INT, target,
                                 tl_disp(w, target, zone + (size_t)first[i] * 4), count[i],
                                 MPI_INT, el_op_handle(op), w->win), "get_accumulate");
    }
    tl_ok(MPI_Win_flush(target, w->win), "MPI_Win_flush");
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < count[i]; k++)
            tl_true(result[i * WORDS + k] == due[i][k], "step %d saw %d, in order it is %d", i,
                    result[i * WORDS + k], due[i][k]);
    free(due);
}

static void order(int flavor)
{
    struct tl_win w;
    int *data = calloc(64 * 300, sizeof *data), *result = calloc(64 * 300, sizeof *result);

    if (tl_win_open(&w, flavor, MPI_COMM_WORLD, (size_t)tl_size() * 256, 4)) {
        for (int round = 0; round < 4; round++) {
            int target = (w.rank + round) % w.size;
            tl_local_begin(&w);
            memset(w.base, 0, w.bytes);
            tl_local_end(&w);
            tl_epoch_open(&w, TL_LOCK_ALL, target, target);
            order_of_one(&w, target, data, result, tl_mix((uint64_t)round, (uint64_t)w.rank));
            tl_epoch_close(&w, TL_LOCK_ALL, target);
        }
        tl_win_close(&w);
    }
    free(data);
    free(result);
}

/* Plain accumulates, REPLACE by REPLACE, long and short in turn: the last one stays. */
static void last_replace_stays(int flavor)
{
    enum { WORDS = 500 };
    struct tl_win w;
    long value[WORDS], got;
    int next = (tl_rank() + 1) % tl_size();

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, WORDS * 8, 8))
        return;
    for (int round = 0; round < 20; round++) {
        tl_epoch_open(&w, TL_LOCK_ALL, next, next);
        for (int i = 0; i < 50; i++) {
            int n = i % 2 == 0 ? WORDS : 1;
            for (int k = 0; k < n; k++)
                value[k] = round * 100 + i;
            tl_ok(MPI_Accumulate(value, n, MPI_LONG, next,
                                 tl_disp(&w, next, n == 1 ? 8 * 250 : 0), n, MPI_LONG, MPI_REPLACE,
                                 w.win), "replace");
            tl_ok(MPI_Win_flush_local(next, w.win), "flush_local");
        }
        tl_epoch_close(&w, TL_LOCK_ALL, next);
        tl_local_begin(&w);
        for (int k = 0; k < WORDS; k++) {
            memcpy(&got, w.base + 8 * (size_t)k, sizeof got);
            tl_eq(got, round * 100 + (k == 250 ? 49 : 48), "an element after REPLACEs in order");
        }
        tl_local_end(&w);
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"sums", sums, TL_ALL, 1, 60},
        {"sums_with_hints", sums_with_hints, TL_ALL, 1, 120},
        {"sums_unaligned", sums_unaligned, TL_ALL, 1, 60},
        {"long_sums", long_sums, TL_ALL, 1, 60},
        {"neighbours", neighbours, TL_ALL, 1, 60},
        {"tickets", tickets, TL_ALL, 1, 60},
        {"mixed_calls", mixed_calls, TL_ALL, 1, 60},
        {"spin_lock", spin_lock, TL_ALL, 1, 60},
        {"untorn", untorn, TL_ALL, 1, 60},
        {"widest", widest, TL_ALL, 1, 60},
        {"maxloc", maxloc, TL_ALL, 1, 60},
        {"order", order, TL_ALL, 1, 60},
        {"last_replace_stays", last_replace_stays, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "atomic", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * put, get, rput, rget: every pair of layouts at origin and target, in every kind of epoch, all
 * targets, displacement units that differ by rank. After each round the whole window and the whole
 * origin buffer are compared with the model, so that a byte written beside its place shows.
 */
#include "typemap.h"
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT = 6144, MARGIN = 1536, SLOTS = 2 * TM_LAYOUTS, AREA = SLOT * SLOTS };

static const int unit_of_rank[6] = {1, 4, 8, 2, 16, 3};

/* One epoch: all ranks put into the target `shift` ranks on, and get from it. */
struct round {
    enum tl_epoch how;
    int target, origin; /* whom I access, who accesses me */
    int layout;
    uint64_t seed;
    int requests;
    int mixed;
};

struct buffers {
    unsigned char *mine;     /* origin buffer of all slots */
    unsigned char *mine_due; /* what it has to hold in the end */
    unsigned char *window_due;
    unsigned char *theirs; /* my origin's buffer, as the model knows it */
    unsigned char *target; /* my target's window before */
};

static const struct el_type *element(const struct round *r, int slot)
{
    static const int pick[8] = {1, 2, 4, 27, 28, 33, 42, 46};

    return &el_types[pick[((uint64_t)slot + r->seed) % 8]];
}

static void build(const struct round *r, int slot, struct tm *origin, int *ocount,
                  struct tm *target, int *tcount)
{
    const struct el_type *signature[10];
    uint64_t seed = tl_mix(r->seed, (uint64_t)slot);

    if (r->mixed) {
        for (int i = 0; i < 10; i++)
            signature[i] = &el_types[tl_below(&seed, 29)];
        *origin = tm_mixed(r->layout % TM_MIXED, signature, 10, seed);
        *target = tm_mixed(slot % TM_MIXED, signature, 10, seed + 1);
        *ocount = *tcount = 1;
    } else {
        *origin = tm_layout(r->layout, element(r, slot), seed, ocount);
        *target = tm_layout(slot % TM_LAYOUTS, element(r, slot), seed + 1, tcount);
    }
    tm_commit(origin);
    tm_commit(target);
    tl_true(tm_agrees(origin) && tm_agrees(target), "the model and MPI differ on an extent");
}

/* Where a slot's data begin in a window whose displacement unit is `unit`. */
static size_t place(int slot, int unit)
{
    size_t at = (size_t)slot * SLOT + MARGIN + 3;

    return at - at % (size_t)unit;
}

static void model_copy(const struct tm *to_type, unsigned char *to, const struct tm *from_type,
                       const unsigned char *from, size_t elements)
{
    for (size_t k = 0; k < elements; k++) {
        const struct el_type *el = from_type->elem[k % from_type->n].el;
        el_apply(el, EL_REPLACE, to + tm_at(to_type, k), from + tm_at(from_type, k));
    }
}

static int transfer(struct tl_win *w, const struct round *r, int slot, unsigned char *buffer,
                    struct tm *o, int on, struct tm *t, int tn, MPI_Request *request)
{
    MPI_Aint disp = tl_disp(w, r->target, place(slot, w->unit[r->target]));
    int get = slot >= TM_LAYOUTS, to = r->target;

    if (!r->requests && get)
        return MPI_Get(buffer, on, o->type, to, disp, tn, t->type, w->win);
    if (!r->requests)
        return MPI_Put(buffer, on, o->type, to, disp, tn, t->type, w->win);
    if (get)
        return MPI_Rget(buffer, on, o->type, to, disp, tn, t->type, w->win, request);
    return MPI_Rput(buffer, on, o->type, to, disp, tn, t->type, w->win, request);
}

static void one_slot(struct tl_win *w, const struct round *r, int slot, struct buffers *b,
                     MPI_Request *request)
{
    struct tm o, t;
    int on, tn;
    size_t at = (size_t)slot * SLOT + MARGIN, elements;

    build(r, slot, &o, &on, &t, &tn);
    elements = (size_t)on * o.n;
    tl_ok(transfer(w, r, slot, b->mine + at, &o, on, &t, tn, request),
          slot >= TM_LAYOUTS ? "get" : "put");
    if (slot >= TM_LAYOUTS)
        model_copy(&o, b->mine_due + at, &t, b->target + place(slot, w->unit[r->target]),
                   elements);
    else
        model_copy(&t, b->window_due + place(slot, w->unit[w->rank]), &o, b->theirs + at,
                   elements);
    tm_free(&o);
    tm_free(&t);
}

static void prepare(struct tl_win *w, const struct round *r, struct buffers *b)
{
    uint64_t me = (uint64_t)w->rank;

    tl_pattern(b->mine, AREA, tl_mix(r->seed, 1000 + me));
    memcpy(b->mine_due, b->mine, AREA);
    tl_pattern(b->theirs, AREA, tl_mix(r->seed, 1000 + (uint64_t)r->origin));
    tl_pattern(b->target, AREA, tl_mix(r->seed, (uint64_t)r->target));
    tl_local_begin(w);
    tl_pattern(w->base, AREA, tl_mix(r->seed, me));
    memcpy(b->window_due, w->base, AREA);
    tl_local_end(w);
}

static void compare(const struct round *r, const unsigned char *got, const unsigned char *due,
                    const char *where, const char *act)
{
    size_t i = 0;

    if (memcmp(got, due, AREA) == 0)
        return;
    while (got[i] == due[i])
        i++;
    tl_fail("%s, %s, %s wrong at byte %zd of slot %zu: origin layout \"%s\", target layout \"%s\""
            "%s, shift %d",
            tl_epoch_name(r->how), act, where, (ptrdiff_t)(i % SLOT) - MARGIN, i / SLOT,
            r->mixed ? "mixed" : tm_layout_name(r->layout),
            r->mixed ? "mixed" : tm_layout_name((int)(i / SLOT % TM_LAYOUTS)),
            r->requests ? ", with requests" : "",
            (r->target - tl_rank() + tl_size()) % tl_size());
}

static void one_round(struct tl_win *w, const struct round *r, struct buffers *b)
{
    MPI_Request request[SLOTS];

    for (int i = 0; i < SLOTS; i++)
        request[i] = MPI_REQUEST_NULL;
    prepare(w, r, b);
    tl_epoch_open(w, r->how, r->target, r->origin);
    for (int slot = 0; slot < SLOTS; slot++)
        one_slot(w, r, slot, b, &request[slot]);
    if (r->requests) {
        tl_ok(MPI_Waitall(SLOTS, request, MPI_STATUSES_IGNORE), "MPI_Waitall");
        compare(r, b->mine, b->mine_due, "data", "rget");
    }
    tl_epoch_close(w, r->how, r->target);
    compare(r, b->mine, b->mine_due, "origin buffer", "get");
    tl_local_begin(w);
    compare(r, w->base, b->window_due, "window", "put");
    tl_local_end(w);
}

static void buffers_open(struct buffers *b)
{
    b->mine = malloc(AREA);
    b->mine_due = malloc(AREA);
    b->window_due = malloc(AREA);
    b->theirs = malloc(AREA);
    b->target = malloc(AREA);
}

static void buffers_close(struct buffers *b)
{
    free(b->mine);
    free(b->mine_due);
    free(b->window_due);
    free(b->theirs);
    free(b->target);
}

/* Targets: oneself, both neighbours, and the far side. */
static int next_shift(int shift, int size)
{
    if (shift == 0 && size > 1)
        return 1;
    if (shift < size / 2)
        return size / 2;
    if (shift < size - 1)
        return size - 1;
    return size;
}

static void all_layouts(int flavor, int mixed)
{
    struct tl_win w;
    struct buffers b;
    struct round r = {.mixed = mixed};
    int layouts = mixed ? TM_MIXED : TM_LAYOUTS;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, AREA, unit_of_rank[tl_rank() % 6]))
        return;
    buffers_open(&b);
    for (int how = 0; how < TL_EPOCHS; how++)
        for (int shift = 0; shift < w.size; shift = next_shift(shift, w.size))
            for (r.layout = 0; r.layout < layouts; r.layout++) {
                r.how = (enum tl_epoch)how;
                r.target = (w.rank + shift) % w.size;
                r.origin = (w.rank - shift + w.size) % w.size;
                if (!tl_turn((unsigned)++r.seed))
                    continue;
                r.requests = tl_epoch_passive(r.how) && (r.layout + shift) % 2 == 1;
                one_round(&w, &r, &b);
            }
    buffers_close(&b);
    tl_win_close(&w);
}

static void layouts(int flavor)
{
    all_layouts(flavor, 0);
}

static void mixed(int flavor)
{
    all_layouts(flavor, 1);
}

/* ---- contiguous, all sizes ---- */

static int put_then_get(struct tl_win *w, int target, size_t at, size_t bytes, uint64_t seed,
                        unsigned char *buffer)
{
    MPI_Aint disp = tl_disp(w, target, at);
    unsigned char *due = buffer + bytes + 64;

    tl_pattern(due, bytes, seed);
    memcpy(buffer, due, bytes);
    buffer[bytes] = 0x77;
    tl_ok(MPI_Put(buffer, (int)bytes, MPI_BYTE, target, disp, (int)bytes, MPI_BYTE, w->win),
          "put");
    tl_ok(MPI_Win_flush(target, w->win), "flush");
    memset(buffer, 0, bytes);
    tl_ok(MPI_Get(buffer, (int)bytes, MPI_BYTE, target, disp, (int)bytes, MPI_BYTE, w->win),
          "get");
    tl_ok(MPI_Win_flush(target, w->win), "flush");
    return tl_true(memcmp(buffer, due, bytes) == 0 && buffer[bytes] == 0x77,
                   "%zu bytes at %zu of rank %d came back wrong", bytes, at, target);
}

/* The zone of `zone` bytes holds `bytes` of the pattern at `at`, and zeros else. */
static void check_zone(const unsigned char *zone, size_t size, size_t at, size_t bytes,
                       uint64_t seed)
{
    unsigned char *due = calloc(1, size);

    tl_pattern(due + at, bytes, seed);
    tl_true(memcmp(zone, due, size) == 0, "%zu bytes put at %zu: the window is wrong", bytes, at);
    free(due);
}

static void one_size(struct tl_win *w, size_t zone, size_t bytes, int turn)
{
    int shift = turn % w->size;
    int target = (w->rank + shift) % w->size, origin = (w->rank - shift + w->size) % w->size;
    size_t step = (size_t)w->unit[target] * (size_t)(turn % 8 + 1);
    size_t my_step = (size_t)w->unit[w->rank] * (size_t)(turn % 8 + 1);
    unsigned char *buffer;

    if (!tl_turn((unsigned)turn))
        return;
    buffer = malloc(2 * bytes + 128);
    tl_local_begin(w);
    memset(w->base, 0, zone);
    tl_local_end(w);
    tl_epoch_open(w, TL_LOCK_ALL, target, origin);
    put_then_get(w, target, step, bytes, tl_mix(bytes, (uint64_t)w->rank), buffer);
    tl_epoch_close(w, TL_LOCK_ALL, target);
    tl_local_begin(w);
    check_zone(w->base, zone, my_step, bytes, tl_mix(bytes, (uint64_t)origin));
    tl_local_end(w);
    free(buffer);
}

static void sizes_with_unit(int flavor, int unit)
{
    struct tl_win w;
    size_t zone = 4 * 1024;
    int turn = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, zone, unit))
        return;
    for (size_t bytes = 0; bytes < 140; bytes++)
        one_size(&w, zone, bytes, turn++);
    for (size_t power = 256; power <= 2048; power *= 2)
        for (size_t bytes = power - 1; bytes <= power + 1; bytes++)
            one_size(&w, zone, bytes, turn++);
    tl_win_close(&w);
}

static void sizes(int flavor)
{
    sizes_with_unit(flavor, 1);
    if (flavor == TL_DYNAMIC)
        return;
    sizes_with_unit(flavor, 4);
    sizes_with_unit(flavor, 8);
    sizes_with_unit(flavor, unit_of_rank[(tl_rank() + 1) % 6]);
}

static void large(int flavor)
{
    enum { MIB = 1024 * 1024 };
    static const size_t size[] = {4095,    4096,        4097,        65535,      65537, MIB,
                                  MIB - 1, 3 * MIB + 1, 3 * MIB - 7, 3 * MIB};
    struct tl_win w;
    size_t zone = 3 * MIB + 4096;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, zone, unit_of_rank[tl_rank() % 6]))
        return;
    for (int i = 0; i < (int)(sizeof size / sizeof size[0]); i++)
        one_size(&w, zone, size[i], i);
    tl_win_close(&w);
}

/* A long strided transfer: 3 MiB of data in 6 MiB, both ways. */
static void large_strided(int flavor)
{
    enum { BLOCKS = 49152, BLOCK = 64, STRIDE = 128, DATA = BLOCKS * BLOCK };
    struct tl_win w;
    MPI_Datatype strided;
    unsigned char *data, *back;
    int target = (tl_rank() + 1) % tl_size(), origin = (tl_rank() + tl_size() - 1) % tl_size();

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, (size_t)BLOCKS * STRIDE, 1))
        return;
    data = malloc(DATA);
    back = calloc(1, DATA);
    tl_pattern(data, DATA, (uint64_t)w.rank);
    MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &strided);
    MPI_Type_commit(&strided);
    tl_epoch_open(&w, TL_LOCK_ALL, target, origin);
    tl_ok(MPI_Put(data, DATA, MPI_BYTE, target, tl_disp(&w, target, 0), 1, strided, w.win), "put");
    tl_ok(MPI_Win_flush(target, w.win), "flush");
    tl_ok(MPI_Get(back, DATA, MPI_BYTE, target, tl_disp(&w, target, 0), 1, strided, w.win), "get");
    tl_epoch_close(&w, TL_LOCK_ALL, target);
    tl_true(memcmp(data, back, DATA) == 0, "what was got differs from what was put");
    tl_pattern(data, DATA, (uint64_t)origin);
    tl_local_begin(&w);
    for (size_t i = 0; i < BLOCKS; i++) {
        tl_true(memcmp(w.base + i * STRIDE, data + i * BLOCK, BLOCK) == 0, "block %zu wrong", i);
        for (int k = BLOCK; k < STRIDE; k++)
            tl_true(w.base[i * STRIDE + (size_t)k] == 0, "gap behind block %zu written", i);
    }
    tl_local_end(&w);
    MPI_Type_free(&strided);
    free(data);
    free(back);
    tl_win_close(&w);
}

/* ---- vectors to vectors ---- */

enum { VECTOR_BLOCKS = 13, VECTOR_MOST = 48, VECTOR_FAR = 4000 };

/* Blocks of `block` bytes at distances: there, back, and nothing between them. A distance of 0: all
 * are one run. `split`: the other side's blocks are half as long, and twice as many. */
static void try_vectors(struct tl_win *w, int target, int origin, size_t block, size_t near,
                        size_t far, int split)
{
    size_t far_block = split ? block / 2 : block;
    size_t blocks = split ? 2 * VECTOR_BLOCKS : VECTOR_BLOCKS;
    unsigned char *data, *back, *expected = calloc(1, w->bytes);
    MPI_Datatype here, there;

    near = near > 0 ? near : block;
    far = far > 0 ? far : far_block;
    data = malloc(VECTOR_BLOCKS * near);
    back = calloc(VECTOR_BLOCKS, near);
    MPI_Type_vector(VECTOR_BLOCKS, (int)block, (int)near, MPI_BYTE, &here);
    MPI_Type_vector((int)blocks, (int)far_block, (int)far, MPI_BYTE, &there);
    MPI_Type_commit(&here);
    MPI_Type_commit(&there);
    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    MPI_Barrier(MPI_COMM_WORLD);

    tl_pattern(data, VECTOR_BLOCKS * near, (uint64_t)w->rank);
    tl_epoch_open(w, TL_LOCK_ALL, target, origin);
    tl_ok(MPI_Put(data, 1, here, target, tl_disp(w, target, 0), 1, there, w->win), "put");
    tl_ok(MPI_Win_flush(target, w->win), "flush");
    tl_ok(MPI_Get(back, 1, here, target, tl_disp(w, target, 0), 1, there, w->win), "get");
    tl_epoch_close(w, TL_LOCK_ALL, target);
    MPI_Barrier(MPI_COMM_WORLD);

    for (size_t i = 0; i < VECTOR_BLOCKS * near; i++)
        tl_true(back[i] == (i % near < block ? data[i] : 0), "%zu of %zu/%zu/%zu: got %d", i,
                block, near, far, back[i]);
    tl_pattern(data, VECTOR_BLOCKS * near, (uint64_t)origin);
    for (size_t i = 0; i < VECTOR_BLOCKS * block; i++)
        expected[i / far_block * far + i % far_block] = data[i / block * near + i % block];
    tl_local_begin(w);
    tl_true(memcmp(w->base, expected, w->bytes) == 0, "%zu/%zu/%zu: wrong after the put", block,
            near, far);
    tl_local_end(w);
    MPI_Type_free(&here);
    MPI_Type_free(&there);
    free(data);
    free(back);
    free(expected);
}

static void vectors(int flavor)
{
    static const size_t block[] = {1, 2, 4, 8, 16, 24, 32, VECTOR_MOST};
    static const size_t stride[] = {0, VECTOR_MOST + 1, 500, VECTOR_FAR};
    struct tl_win w;
    int target = (tl_rank() + 1) % tl_size(), origin = (tl_rank() + tl_size() - 1) % tl_size();

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 2 * VECTOR_BLOCKS * VECTOR_FAR, 1))
        return;
    for (int b = 0; b < 8; b++)
        for (int s = 0; s < 16; s++)
            try_vectors(&w, target, origin, block[b], stride[s / 4], stride[s % 4],
                        b > 0 && s % 3 == 1);
    tl_win_close(&w);
}

/* ---- nothing to move ---- */

static void try_nothing(struct tl_win *w, int target, int count, MPI_Datatype type, int passive)
{
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Aint disp = target == MPI_PROC_NULL ? 0 : tl_disp(w, target, 0);
    unsigned char b[64];

    memset(b, 0x5a, sizeof b);
    tl_ok(MPI_Put(b, count, type, target, disp, count, type, w->win), "put of nothing");
    tl_ok(MPI_Get(b, count, type, target, disp, count, type, w->win), "get of nothing");
    if (passive) {
        tl_ok(MPI_Rput(b, count, type, target, disp, count, type, w->win, &r[0]), "rput");
        tl_ok(MPI_Rget(b, count, type, target, disp, count, type, w->win, &r[1]), "rget");
        tl_ok(MPI_Waitall(2, r, MPI_STATUSES_IGNORE), "MPI_Waitall");
    }
    for (size_t i = 0; i < sizeof b; i++)
        tl_true(b[i] == 0x5a, "a get of nothing wrote");
}

static void nothing(int flavor)
{
    struct tl_win w;
    MPI_Datatype hollow;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    MPI_Type_contiguous(0, MPI_INT, &hollow);
    MPI_Type_commit(&hollow);
    for (int how = 0; how < TL_EPOCHS; how++) {
        int next = (w.rank + 1) % w.size, before = (w.rank + w.size - 1) % w.size;
        int passive = tl_epoch_passive((enum tl_epoch)how);
        tl_epoch_open(&w, (enum tl_epoch)how, next, before);
        try_nothing(&w, next, 0, MPI_INT, passive);
        try_nothing(&w, next, 3, hollow, passive);
        try_nothing(&w, MPI_PROC_NULL, 4, MPI_INT, passive);
        try_nothing(&w, MPI_PROC_NULL, 0, MPI_INT, passive);
        tl_epoch_close(&w, (enum tl_epoch)how, next);
    }
    tl_local_begin(&w);
    for (size_t i = 0; i < w.bytes; i++)
        tl_true(w.base[i] == 0, "a put of nothing wrote");
    tl_local_end(&w);
    MPI_Type_free(&hollow);
    tl_win_close(&w);
}

/* ---- origins of a special kind ---- */

static void check_ints(struct tl_win *w, int count, const int *due, const char *what)
{
    tl_local_begin(w);
    tl_true(memcmp(w->base, due, (size_t)count * sizeof *due) == 0, "%s: window wrong", what);
    tl_local_end(w);
}

/* The origin's elements may lie on one another (put, accumulate), and anywhere in memory
 * (MPI_BOTTOM). */
static void odd_origins(int flavor)
{
    struct tl_win w;
    MPI_Datatype same, absolute;
    int a[3] = {11, 22, 33}, b[2] = {44, 55};
    int one[2] = {3, 2}, next = (tl_rank() + 1) % tl_size();
    int before = (tl_rank() + tl_size() - 1) % tl_size();
    static const int due[11] = {11, 22, 11, 22, 11, 22, 11, 22, 33, 44, 55};
    static const int sums[11] = {33, 66, 33, 66, 33, 66, 11, 22, 33, 44, 55};
    MPI_Aint at[2];
    MPI_Datatype three;
    int got[6];

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, sizeof due, 4))
        return;
    MPI_Type_create_hvector(3, 2, 0, MPI_INT, &same);
    MPI_Type_commit(&same);
    MPI_Type_contiguous(6, MPI_INT, &three);
    MPI_Type_commit(&three);
    MPI_Get_address(a, &at[0]);
    MPI_Get_address(b, &at[1]);
    MPI_Type_create_hindexed(2, one, at, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    tl_epoch_open(&w, TL_FENCE, next, before);
    tl_ok(MPI_Put(a, 1, same, next, tl_disp(&w, next, 0), 6, MPI_INT, w.win), "put");
    tl_ok(MPI_Put(MPI_BOTTOM, 1, absolute, next, tl_disp(&w, next, 24), 5, MPI_INT, w.win),
          "put from MPI_BOTTOM");
    tl_epoch_close(&w, TL_FENCE, next);
    check_ints(&w, 11, due, "put");
    tl_epoch_open(&w, TL_FENCE, next, before);
    tl_ok(MPI_Accumulate(a, 1, same, next, tl_disp(&w, next, 0), 6, MPI_INT, MPI_SUM, w.win),
          "accumulate");
    tl_ok(MPI_Get_accumulate(a, 1, same, got, 6, MPI_INT, next, tl_disp(&w, next, 0), 1, three,
                             MPI_SUM, w.win), "get_accumulate");
    tl_epoch_close(&w, TL_FENCE, next);
    check_ints(&w, 11, sums, "accumulate");
    for (int i = 0; i < 6; i++)
        tl_eq(got[i], 2 * due[i], "what was fetched");
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    tl_epoch_open(&w, TL_FENCE, next, before);
    tl_ok(MPI_Get(MPI_BOTTOM, 1, absolute, next, tl_disp(&w, next, 24), 5, MPI_INT, w.win),
          "get to MPI_BOTTOM");
    tl_epoch_close(&w, TL_FENCE, next);
    tl_true(a[0] == 11 && a[1] == 22 && a[2] == 33 && b[0] == 44 && b[1] == 55,
            "get to MPI_BOTTOM: %d %d %d, %d %d", a[0], a[1], a[2], b[0], b[1]);
    MPI_Type_free(&same);
    MPI_Type_free(&three);
    MPI_Type_free(&absolute);
    tl_win_close(&w);
}

/* A type and an origin buffer may go as soon as the standard lets them. */
static void early_free(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();
    int due[200];

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, sizeof due, 4))
        return;
    tl_epoch_open(&w, TL_LOCK_ALL, next, before);
    for (int i = 0; i < 100; i++) {
        MPI_Datatype pair;
        int *value = malloc(2 * sizeof *value);
        value[0] = 1000 * w.rank + i;
        value[1] = -value[0];
        MPI_Type_vector(2, 1, 100, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        tl_ok(MPI_Put(value, 2, MPI_INT, next, tl_disp(&w, next, (size_t)i * 4), 1, pair, w.win),
              "put");
        MPI_Type_free(&pair);
        tl_ok(MPI_Win_flush_local(next, w.win), "flush_local");
        value[0] = value[1] = 0;
        free(value);
    }
    tl_epoch_close(&w, TL_LOCK_ALL, next);
    for (int i = 0; i < 100; i++) {
        due[i] = 1000 * before + i;
        due[100 + i] = -due[i];
    }
    check_ints(&w, 200, due, "put with freed types");
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"layouts", layouts, TL_ALL, 1, 120},
        {"mixed", mixed, TL_ALL, 1, 120},
        {"sizes", sizes, TL_ALL, 1, 60},
        {"large", large, TL_ALL, 1, 60},
        {"large_strided", large_strided, TL_ALL, 1, 60},
        {"vectors", vectors, TL_ALL, 1, 60},
        {"nothing", nothing, TL_ALL, 1, 60},
        {"odd_origins", odd_origins, TL_ALL, 1, 60},
        {"early_free", early_free, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "putget", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

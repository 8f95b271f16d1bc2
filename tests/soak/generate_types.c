/* SPDX-License-Identifier: BSD-3-Clause */
/* Random datatypes of a wanted signature. */
#include "generate.h"

#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 12 };

int draw_below(const struct draw *d, int bound)
{
    return tl_below(d->state, bound);
}

bool draw_chance(const struct draw *d, int percent)
{
    return draw_below(d, 100) < percent;
}

static struct type *type_new(const struct draw *d, enum shape shape, int args, const long *arg,
                             const struct type *sub)
{
    struct type *t = arena_get(d->arena, sizeof *t);

    t->shape = shape;
    t->args = args;
    t->arg = arena_get(d->arena, (size_t)args * sizeof *arg + 1);
    if (args > 0)
        memcpy(t->arg, arg, (size_t)args * sizeof *arg);
    if (sub != NULL) {
        t->subs = 1;
        t->sub = arena_get(d->arena, sizeof *t->sub);
        t->sub[0] = sub;
    }
    return t;
}

static const struct type *basic(const struct draw *d, int el)
{
    struct type *t = type_new(d, BASIC, 0, NULL, NULL);

    t->el = el;
    return t;
}

struct buffer plain_buffer(const struct draw *d, int el, int n)
{
    return (struct buffer){n, basic(d, el)};
}

static int divisor(const struct draw *d, int n)
{
    int list[64], count = 0;

    for (int i = 1; i <= n && i <= 64 && count < 64; i++)
        if (n % i == 0)
            list[count++] = i;
    return list[draw_below(d, count)];
}

static void bounds(const struct type *t, long *lb, long *extent)
{
    struct layout l;

    layout_of(&(struct buffer){1, t}, &l);
    *lb = l.lb;
    *extent = l.ub - l.lb;
    layout_free(&l);
}

/* Gaps in bytes: mostly such that elements stay aligned. */
static long gap(const struct draw *d, long extent)
{
    if (draw_chance(d, 15))
        return draw_below(d, 12);
    return draw_below(d, 3) * (extent % 16 == 0 ? 16 : 8);
}

/* Blocks that make k copies, at places with gaps between, in any order. */
struct blocks {
    int n;
    long length[BLOCKS], at[BLOCKS];
};

static struct blocks draw_blocks(const struct draw *d, int k, int equal)
{
    struct blocks b = {.n = 0};
    long place = draw_below(d, 3);

    while (k > 0) {
        int most = b.n == BLOCKS - 1 ? k : equal > 0 ? equal : 1 + draw_below(d, k < 8 ? k : 8);
        b.length[b.n] = most;
        b.at[b.n++] = place;
        place += most + draw_below(d, 3);
        k -= most;
    }
    for (int i = b.n - 1; i > 0 && draw_chance(d, 60); i--) {
        int j = draw_below(d, i + 1);
        long length = b.length[i], at = b.at[i];
        b.length[i] = b.length[j];
        b.at[i] = b.at[j];
        b.length[j] = length;
        b.at[j] = at;
    }
    return b;
}

static const struct type *make_vector(const struct draw *d, int k, const struct type *sub,
                                      bool bytes)
{
    long lb, extent, length = divisor(d, k), arg[3];

    bounds(sub, &lb, &extent);
    arg[0] = k / length;
    arg[1] = length;
    arg[2] = bytes ? length * extent + gap(d, extent) : length + draw_below(d, 3);
    /* Open MPI takes a stride of -1 byte for "as long as one element". */
    if (draw_chance(d, 25) && arg[2] * (bytes ? 1 : extent) != 1)
        arg[2] = -arg[2];
    return type_new(d, bytes ? HVECTOR : VECTOR, 3, arg, sub);
}

static const struct type *make_indexed(const struct draw *d, int k, const struct type *sub,
                                       bool bytes)
{
    struct blocks b = draw_blocks(d, k, 0);
    long arg[2 * BLOCKS + 2], lb, extent, between;
    int n = 0;

    bounds(sub, &lb, &extent);
    between = gap(d, extent);
    for (int i = 0; i < b.n; i++) {
        if (n == 0 && draw_chance(d, 10)) {     /* an empty block */
            arg[n++] = 0;
            arg[n++] = draw_below(d, 20);
        }
        arg[n++] = b.length[i];
        arg[n++] = bytes ? b.at[i] * (extent + between) : b.at[i];
    }
    return type_new(d, bytes ? HINDEXED : INDEXED, n, arg, sub);
}

static const struct type *make_block(const struct draw *d, int k, const struct type *sub,
                                     bool bytes)
{
    int length = divisor(d, k);
    struct blocks b;
    long arg[BLOCKS + 1], lb, extent, between;

    while (k / length > BLOCKS)
        length = k % (2 * length) == 0 ? 2 * length : k;
    b = draw_blocks(d, k, length);
    bounds(sub, &lb, &extent);
    between = gap(d, extent);
    arg[0] = length;
    for (int i = 0; i < b.n; i++)
        arg[i + 1] = bytes ? b.at[i] * (extent + between) : b.at[i];
    return type_new(d, bytes ? HINDEXED_BLOCK : INDEXED_BLOCK, b.n + 1, arg, sub);
}

static const struct type *make_struct(const struct draw *d, int k, const struct type *sub)
{
    struct blocks b = draw_blocks(d, k, 0);
    struct type *t;
    long arg[2 * BLOCKS], lb, extent, between;

    bounds(sub, &lb, &extent);
    between = gap(d, extent);
    for (int i = 0; i < b.n; i++) {
        arg[2 * i] = b.length[i];
        arg[2 * i + 1] = b.at[i] * (extent + between);
    }
    t = type_new(d, STRUCT, 2 * b.n, arg, NULL);
    t->subs = b.n;
    t->sub = arena_get(d->arena, (size_t)b.n * sizeof *t->sub);
    for (int i = 0; i < b.n; i++)
        t->sub[i] = sub;
    return t;
}

static const struct type *make_subarray(const struct draw *d, int k, const struct type *sub)
{
    int dims = 1 + draw_below(d, 3);
    long arg[2 + 9] = {draw_below(d, 2), dims};

    for (int i = 0; i < dims; i++) {
        long part = i == dims - 1 ? k : divisor(d, k), start = draw_below(d, 2);
        k /= (int)part;
        arg[2 + dims + i] = part;
        arg[2 + 2 * dims + i] = start;
        arg[2 + i] = start + part + draw_below(d, 2);
    }
    return type_new(d, SUBARRAY, 2 + 3 * dims, arg, sub);
}

/* Another extent: longer, shifted, or so short that copies lie within one another. */
static const struct type *make_resized(const struct draw *d, int k, const struct type *sub)
{
    long lb, extent, arg[2];
    const long count = k;
    const struct type *inner = k == 1 ? sub : type_new(d, CONTIGUOUS, 1, &count, sub);

    bounds(inner, &lb, &extent);
    arg[0] = draw_chance(d, 40) ? lb - gap(d, extent) : lb;
    arg[1] = extent + gap(d, extent);
    if (draw_chance(d, 8))
        arg[1] = extent / 2;
    else if (draw_chance(d, 5))
        arg[1] = -arg[1];
    return type_new(d, RESIZED, 2, arg, inner);
}

/* MPI may pad what is not aligned, until its extent is; not what says its extent. */
static const struct type *settle(const struct draw *d, const struct type *t)
{
    struct layout l;
    long arg[2];
    bool aligned = true;

    layout_of(&(struct buffer){1, t}, &l);
    for (int i = 0; i < l.n; i++) {
        int extent = el_types[l.spot[i].el].extent, align = extent % 16 == 0 ? 16 : extent;
        aligned &= l.spot[i].at % align == 0 && l.lb % align == 0 && l.ub % align == 0;
    }
    arg[0] = l.lb;
    arg[1] = l.ub - l.lb;
    layout_free(&l);
    return aligned ? t : type_new(d, RESIZED, 2, arg, t);
}

static const struct type *make_shape(const struct draw *d, int k, const struct type *sub,
                                     int shape)
{
    long count = k;

    switch (shape) {
    case 0: return type_new(d, CONTIGUOUS, 1, &count, sub);
    case 1:
    case 2: return make_vector(d, k, sub, false);
    case 3: return make_vector(d, k, sub, true);
    case 4: return make_indexed(d, k, sub, false);
    case 5: return make_indexed(d, k, sub, true);
    case 6: return make_block(d, k, sub, false);
    case 7: return make_block(d, k, sub, true);
    case 8: return make_struct(d, k, sub);
    case 9: return make_subarray(d, k, sub);
    case 10: return make_resized(d, k, sub);
    default:
        return k == 1 ? type_new(d, DUP, 0, NULL, sub) : type_new(d, CONTIGUOUS, 1, &count, sub);
    }
}

static const struct type *make_type(const struct draw *d, int el, int n, int depth)
{
    const struct type *sub;
    int m = depth > 0 ? divisor(d, n) : 1;

    if (n == 1 && (depth == 0 || draw_chance(d, 60)))
        return basic(d, el);
    if (m > 16)
        m = 1;
    sub = depth > 1 && m > 1 ? make_type(d, el, m, depth - 1) : basic(d, el);
    if (sub->shape == BASIC)
        m = 1;
    return settle(d, make_shape(d, n / m, sub, depth == 0 ? 0 : draw_below(d, 12)));
}

struct buffer draw_buffer(const struct draw *d, int el, int n, int depth)
{
    int count = draw_chance(d, 60) ? 1 : n > 0 ? divisor(d, n) : 1;

    if (n == 0)
        return (struct buffer){0, draw_chance(d, 50) ? basic(d, el) : make_type(d, el, 4, 1)};
    if (depth == 0)
        return plain_buffer(d, el, n);
    return (struct buffer){count, make_type(d, el, n / count, depth)};
}

/* The segments at places in random order; empty gaps between them. */
static const struct type *make_mixed(const struct draw *d, int segments, const int *el,
                                     const int *n)
{
    long arg[2 * DRAW_SEGMENTS] = {0}, place = 0;
    int order[DRAW_SEGMENTS];
    struct type *t = type_new(d, STRUCT, 2 * segments, arg, NULL);
    struct layout l;

    t->subs = segments;
    t->sub = arena_get(d->arena, (size_t)segments * sizeof *t->sub);
    for (int i = 0; i < segments; i++) {
        int j = draw_below(d, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < segments; i++) {
        int k = order[i];
        t->sub[k] = make_type(d, el[k], n[k], draw_below(d, 2));
        layout_of(&(struct buffer){1, t->sub[k]}, &l);
        place += gap(d, 8);
        t->arg[2 * k] = 1;
        t->arg[2 * k + 1] = place - l.low;
        place += l.high - l.low;
        layout_free(&l);
    }
    layout_of(&(struct buffer){1, t}, &l);
    arg[0] = l.lb;
    arg[1] = l.ub - l.lb;
    layout_free(&l);
    return type_new(d, RESIZED, 2, arg, t);     /* else MPI may pad it */
}

void draw_mixed(const struct draw *d, struct buffer *side, int sides)
{
    int segments = 2 + draw_below(d, DRAW_SEGMENTS - 1), el[DRAW_SEGMENTS], n[DRAW_SEGMENTS];
    int count = draw_chance(d, 70) ? 1 : 2;

    for (int i = 0; i < segments; i++) {
        el[i] = draw_below(d, el_type_count);
        n[i] = 1 + draw_below(d, 6);
    }
    for (int i = 0; i < sides; i++)
        side[i] = (struct buffer){count, make_mixed(d, segments, el, n)};
}

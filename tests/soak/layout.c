/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes computed without MPI: the elements of a type map, in order. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

struct map {
    struct layout l;
    bool bounded;       /* lb and ub are those of something */
    bool marked;        /* set by RESIZED or SUBARRAY: bounds that are not do not count beside */
    bool overflow;
};

static void map_add(struct map *m, long at, int el)
{
    struct layout *l = &m->l;

    if (l->n == SOAK_ELEMENTS) {
        m->overflow = true;
        return;
    }
    if (l->n == l->room) {
        l->room = l->room == 0 ? 16 : 2 * l->room;
        l->spot = realloc(l->spot, (size_t)l->room * sizeof *l->spot);
    }
    l->spot[l->n++] = (struct spot){at, el};
}

/* One copy of `part` at a place. */
static void map_append(struct map *m, const struct map *part, long at)
{
    for (int i = 0; i < part->l.n && !m->overflow; i++)
        map_add(m, part->l.spot[i].at + at, part->l.spot[i].el);
    if (!part->bounded || (m->marked && !part->marked))
        return;
    if (part->marked && !m->marked)
        m->bounded = false;
    if (!m->bounded || part->l.lb + at < m->l.lb)
        m->l.lb = part->l.lb + at;
    if (!m->bounded || part->l.ub + at > m->l.ub)
        m->l.ub = part->l.ub + at;
    m->bounded = true;
    m->marked = part->marked;
}

static void map_block(struct map *m, const struct map *part, long at, long length)
{
    long extent = part->l.ub - part->l.lb;

    for (long i = 0; i < length && !m->overflow; i++)
        map_append(m, part, at + i * extent);
}

static void map_of(const struct type *t, struct map *m);

static void map_indexed(const struct type *t, struct map *m)
{
    for (int i = 0; i + 1 < t->args; i += 2) {
        struct map sub = {.bounded = false};
        long scale = 1;

        map_of(t->sub[t->shape == STRUCT ? i / 2 : 0], &sub);
        if (t->shape == INDEXED)
            scale = sub.l.ub - sub.l.lb;
        map_block(m, &sub, t->arg[i + 1] * scale, t->arg[i]);
        m->overflow |= sub.overflow;
        free(sub.l.spot);
    }
}

static void map_subarray(const struct type *t, const struct map *sub, struct map *m)
{
    int dims = (int)t->arg[1];
    const long *size = t->arg + 2, *part = size + dims, *start = part + dims;
    long total = 1, whole = sub->l.ub - sub->l.lb, extent = whole;

    for (int d = 0; d < dims; d++) {
        total *= part[d];
        whole *= size[d];
    }
    for (long k = 0; k < total && !m->overflow; k++) {
        long rest = k, at = 0, scale = 1;
        for (int i = 0; i < dims; i++) {    /* the fastest dimension first */
            int d = t->arg[0] == 0 ? dims - 1 - i : i;
            at += (start[d] + rest % part[d]) * scale;
            rest /= part[d];
            scale *= size[d];
        }
        map_append(m, sub, at * extent);
    }
    m->l.lb = 0;
    m->l.ub = whole;
    m->bounded = m->marked = true;
}

static void map_derived(const struct type *t, const struct map *sub, struct map *m)
{
    long extent = sub->l.ub - sub->l.lb;

    switch (t->shape) {
    case CONTIGUOUS:
        map_block(m, sub, 0, t->arg[0]);
        break;
    case VECTOR:
    case HVECTOR:
        for (long i = 0; i < t->arg[0]; i++)
            map_block(m, sub, i * t->arg[2] * (t->shape == VECTOR ? extent : 1), t->arg[1]);
        break;
    case INDEXED_BLOCK:
    case HINDEXED_BLOCK:
        for (int i = 1; i < t->args; i++)
            map_block(m, sub, t->arg[i] * (t->shape == INDEXED_BLOCK ? extent : 1), t->arg[0]);
        break;
    case SUBARRAY:
        map_subarray(t, sub, m);
        break;
    case RESIZED:
        map_append(m, sub, 0);
        m->l.lb = t->arg[0];
        m->l.ub = t->arg[0] + t->arg[1];
        m->bounded = m->marked = true;
        break;
    default:
        map_append(m, sub, 0);
        break;
    }
}

static void map_of(const struct type *t, struct map *m)
{
    struct map sub = {.bounded = false};

    if (t->shape == BASIC) {
        map_add(m, 0, t->el);
        m->l.ub = el_types[t->el].extent;
        m->bounded = true;
        return;
    }
    if (t->shape == INDEXED || t->shape == HINDEXED || t->shape == STRUCT) {
        map_indexed(t, m);
        return;
    }
    map_of(t->sub[0], &sub);
    map_derived(t, &sub, m);
    m->overflow |= sub.overflow;
    free(sub.l.spot);
}

int element_parts(int el, int *at, int *bytes)
{
    const struct el_type *t = &el_types[el];

    at[0] = 0;
    bytes[0] = t->part;
    if (!el_is_pair(t))
        return 1;
    at[1] = el_index_offset(t);
    bytes[1] = t->bytes - at[1];
    return 2;
}

bool element_padding(int el, int byte)
{
    const struct el_type *t = &el_types[el];

    if (t->kind == EL_COMPLEX)
        return t->part == 32 && byte % 16 >= 10;
    return (t->kind == EL_FLOAT || t->kind == EL_PAIR_FLOAT) && t->part == 16 && byte < 16 &&
           byte >= 10;
}

static void find_span(struct layout *l)
{
    for (int i = 0; i < l->n; i++) {
        long at = l->spot[i].at, end = at + el_types[l->spot[i].el].bytes;
        if (i == 0 || at < l->low)
            l->low = at;
        if (i == 0 || end > l->high)
            l->high = end;
    }
}

bool layout_of(const struct buffer *buffer, struct layout *layout)
{
    struct map one = {.bounded = false}, all = {.bounded = false};

    map_of(buffer->type, &one);
    map_block(&all, &one, 0, buffer->count);
    all.overflow |= one.overflow;
    all.l.lb = one.l.lb;
    all.l.ub = one.l.ub;
    free(one.l.spot);
    *layout = all.l;
    find_span(layout);
    return !all.overflow;
}

void layout_free(struct layout *layout)
{
    free(layout->spot);
    layout->spot = NULL;
}

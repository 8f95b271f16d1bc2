/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What came out, beside what had to. Bytes are compared one by one, guards and gaps included, but
 * for fetching accumulates that ran at the same time as others on the same element: there, some
 * order of them all must exist that fits with what each fetched.
 */
#include "model_state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 16 };

/* Accumulates on one element, in list order. */
struct cluster {
    int n;
    const struct access *a[MEMBERS];
    int element[MEMBERS];                   /* its number in each */
    const unsigned char *seen[MEMBERS];     /* what was fetched, or NULL */
    unsigned before[MEMBERS];               /* who has to come before */
};

struct comparison {
    struct model *m;
    const struct outcome **of;              /* by statement; V_FREE is apart */
    char *why;
    size_t room;
    int wrong;
};

static void complain(struct comparison *c, const char *format, ...)
{
    va_list args;

    if (c->wrong++ > 0)
        return;
    va_start(args, format);
    vsnprintf(c->why, c->room, format, args);
    va_end(args);
}

static bool element_same(int el, const unsigned char *a, const unsigned char *b)
{
    int at[2], bytes[2], parts = element_parts(el, at, bytes);

    for (int i = 0; i < parts; i++)
        for (int k = at[i]; k < at[i] + bytes[i]; k++)
            if (a[k] != b[k] && !element_padding(el, k))
                return false;
    return true;
}

static long address(const struct comparison *c, const struct access *a, int element)
{
    (void)c;
    return a->low - a->remote.low + a->remote.spot[element].at;
}

static int element_at(const struct comparison *c, const struct access *a, long at)
{
    for (int k = 0; k < a->remote.n; k++)
        if (address(c, a, k) == at)
            return k;
    return -1;
}

static const unsigned char *fetched(const struct comparison *c, const struct access *a, int k)
{
    const struct outcome *o = c->of[a->statement];

    if (!a->fetches || o == NULL)
        return NULL;
    return o->data + SOAK_GUARD + a->result.spot[k].at - a->result.low;
}

/* Of all that are in the same cluster and touch the element: those that are linked with `mine`
 * through pairs which are not ordered. */
static void keep_linked(const struct model *m, struct cluster *all, const struct access *mine)
{
    bool in[MEMBERS] = {false}, grown = true;
    struct cluster kept = {.n = 0};

    for (int i = 0; i < all->n; i++)
        in[i] = all->a[i] == mine;
    while (grown) {
        grown = false;
        for (int i = 0; i < all->n; i++)
            for (int k = 0; k < all->n; k++)
                if (in[i] && !in[k] &&
                    !model_ordered(m, all->a[i < k ? i : k], all->a[i < k ? k : i]))
                    in[k] = grown = true;
    }
    for (int i = 0; i < all->n; i++)
        if (in[i]) {
            kept.a[kept.n] = all->a[i];
            kept.element[kept.n] = all->element[i];
            kept.seen[kept.n++] = all->seen[i];
        }
    for (int i = 0; i < kept.n; i++)
        for (int k = 0; k < i; k++)
            if (model_ordered(m, kept.a[k], kept.a[i]))
                kept.before[i] |= 1u << k;
    *all = kept;
}

static void find_cluster(const struct comparison *c, int access, int element, struct cluster *out)
{
    const struct model *m = c->m;
    const struct access *a = m->access[access];
    int root = model_cluster(m, access);

    out->n = 0;
    memset(out->before, 0, sizeof out->before);
    for (int i = 0; i < m->accesses && out->n < MEMBERS; i++) {
        const struct access *b = m->access[i];
        int k;
        if (model_cluster(m, i) != root || (k = element_at(c, b, address(c, a, element))) < 0)
            continue;
        out->a[out->n] = b;
        out->element[out->n] = k;
        out->seen[out->n++] = fetched(c, b, k);
    }
    keep_linked(m, out, a);
}

/* The element after a set of members. */
static void value_after(const struct cluster *cl, unsigned set, unsigned char *value)
{
    const struct access *first = cl->a[0];
    size_t extent = (size_t)el_types[first->el].extent;

    memcpy(value, first->before + (size_t)cl->element[0] * extent, extent);
    for (int i = 0; i < cl->n; i++)
        if ((set & (1u << i)) != 0)
            model_apply(cl->a[i], cl->element[i], value);
}

static bool explained(const struct cluster *cl)
{
    unsigned all = (1u << cl->n) - 1;
    unsigned char *reached = calloc((size_t)all + 1, 1);
    bool end;

    reached[0] = 1;
    for (unsigned set = 0; set < all; set++) {
        _Alignas(16) unsigned char value[64];
        if (reached[set] == 0)
            continue;
        value_after(cl, set, value);
        for (int i = 0; i < cl->n; i++)
            if ((set & (1u << i)) == 0 && (cl->before[i] & ~set) == 0 &&
                (cl->seen[i] == NULL || element_same(cl->a[i]->el, cl->seen[i], value)))
                reached[set | (1u << i)] = 1;
    }
    end = reached[all] != 0;
    free(reached);
    return end;
}

static void put_hex(char *to, size_t room, const unsigned char *from, size_t n)
{
    to[0] = '\0';
    for (size_t i = 0; i < n && 2 * i + 3 < room; i++)
        snprintf(to + 2 * i, room - 2 * i, "%02x", from[i]);
}

static void check_cluster(struct comparison *c, struct expected *e, int k)
{
    const struct access *a = c->m->access[e->access];
    struct cluster cl;
    char seen[80];
    size_t bytes = (size_t)el_types[a->el].bytes;

    find_cluster(c, e->access, k, &cl);
    if (cl.n < 2)
        return;
    memset(e->mask + SOAK_GUARD + a->result.spot[k].at - a->result.low, 1, bytes);
    if (explained(&cl))
        return;
    put_hex(seen, sizeof seen, fetched(c, a, k), bytes);
    complain(c,
             "statement %d: element %d fetched %s, which no order of %d concurrent ones explains",
             e->statement + 1, k, seen, cl.n);
}

static void check_bytes(struct comparison *c, const struct expected *e, const struct outcome *o)
{
    char got[40], due[40];

    for (size_t i = 0; i < e->bytes; i++) {
        size_t n = e->bytes - i < 16 ? e->bytes - i : 16;
        if (e->mask[i] != 0 || e->data[i] == o->data[i])
            continue;
        put_hex(got, sizeof got, o->data + i, n);
        put_hex(due, sizeof due, e->data + i, n);
        complain(c, "statement %d%s: byte %ld%s is %s, not %s", e->statement + 1,
                 e->part >= 0 ? ", the window" : "", (long)i - SOAK_GUARD,
                 i < SOAK_GUARD || i >= e->bytes - SOAK_GUARD ? " (guard)" : "", got, due);
        return;
    }
}

static const struct outcome *outcome_of(const struct outcome *list, int n,
                                        const struct expected *e)
{
    for (int i = 0; i < n; i++)
        if (list[i].statement == e->statement && list[i].part == e->part)
            return &list[i];
    return NULL;
}

static void check_one(struct comparison *c, struct expected *e, const struct outcome *o)
{
    if (o == NULL || o->bytes != e->bytes) {
        complain(c, "statement %d left %zu bytes, not %zu", e->statement + 1,
                 o == NULL ? 0 : o->bytes, e->bytes);
        return;
    }
    if (e->access >= 0 &&
        c->m->access[model_cluster(c->m, e->access)]->cluster_size > 1)
        for (int k = 0; k < c->m->access[e->access]->result.n; k++)
            check_cluster(c, e, k);
    check_bytes(c, e, o);
}

int model_compare(struct model *m, const struct outcome *list, int n, char *why, size_t room)
{
    struct comparison c = {.m = m, .why = why, .room = room};

    c.of = calloc((size_t)m->statements + 1, sizeof *c.of);
    for (int i = 0; i < n; i++)
        if (list[i].statement < m->statements)
            c.of[list[i].statement] = &list[i];
    for (int s = 0; s < m->statements; s++)
        for (struct expected *e = m->expected[s]; e != NULL; e = e->next)
            check_one(&c, e, outcome_of(list, n, e));
    free(c.of);
    return c.wrong;
}

const unsigned char *model_expects(const struct model *m, int statement, int part,
                                   const unsigned char **mask, size_t *bytes)
{
    for (const struct expected *e = m->expected[statement]; e != NULL; e = e->next) {
        if (e->part != part || (e->access >= 0 &&
            m->access[model_cluster(m, e->access)]->cluster_size > 1))
            continue;
        *mask = e->mask;
        *bytes = e->bytes;
        return e->data;
    }
    return NULL;
}

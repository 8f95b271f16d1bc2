/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every accumulate call, with every predefined operation on every predefined type it is allowed
 * on, one origin per target: results against the model, bytes beside the elements untouched.
 * What several origins do at once is in atomic.c.
 */
#include "typemap.h"
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum call { ACC, RACC, GET_ACC, RGET_ACC, FETCH, CALLS };

enum { MOST = 1000, GAP = 64, BEYOND = 1 << 16, AREA = 5 << 20 };

static const char *const call_name[CALLS] = {"accumulate", "raccumulate", "get_accumulate",
                                             "rget_accumulate", "fetch_and_op"};

/* One call and where it acts. The same list on all ranks; data differ by rank and place. */
struct act {
    enum call call;
    enum el_op op;
    int count;
    size_t at;
};

struct field {
    struct tl_win w;
    int target, origin;
    uint64_t seed;
    const struct el_type *el;
    unsigned char *data, *result, *due;
};

static uint64_t data_seed(const struct field *f, const struct act *a, int rank)
{
    return tl_mix(tl_mix(f->seed, a->at), (uint64_t)rank + 100);
}

static int issue(struct field *f, const struct act *a, MPI_Request *request)
{
    MPI_Aint disp = tl_disp(&f->w, f->target, a->at);
    MPI_Datatype type = f->el->type;
    MPI_Op op = el_op_handle(a->op);
    const void *data = a->op == EL_NO_OP ? NULL : f->data + a->at;
    void *result = f->result + a->at;
    int n = a->count, dn = data != NULL ? n : 0, to = f->target;

    switch (a->call) {
    case ACC:
        return MPI_Accumulate(f->data + a->at, n, type, to, disp, n, type, op, f->w.win);
    case RACC:
        return MPI_Raccumulate(f->data + a->at, n, type, to, disp, n, type, op, f->w.win, request);
    case GET_ACC:
        return MPI_Get_accumulate(data, dn, type, result, n, type, to, disp, n, type, op,
                                  f->w.win);
    case RGET_ACC:
        return MPI_Rget_accumulate(data, dn, type, result, n, type, to, disp, n, type, op,
                                   f->w.win, request);
    default:
        return MPI_Fetch_and_op(data, result, type, to, disp, op, f->w.win);
    }
}

/* The acts that are worth doing on this type, laid out one behind the other. */
static int plan(const struct el_type *el, int first_op, int passive, struct act *act, int room)
{
    static const int counts[3] = {1, 7, MOST};
    size_t at = GAP, x = (size_t)el->extent;
    int n = 0;

    for (int op = first_op; op < EL_OPS; op++)
        for (int call = 0; call < CALLS && el_allowed(el, (enum el_op)op); call++)
            for (int c = 0; c < (call == FETCH ? 1 : 3); c++) {
                size_t bytes = (size_t)counts[c] * x;
                if (!passive && (call == RACC || call == RGET_ACC))
                    continue;
                if (op == EL_NO_OP && (call == ACC || call == RACC))
                    continue; /* the standard keeps it for calls that fetch */
                if (n == room || at + bytes + GAP > AREA)
                    return n;
                act[n++] = (struct act){(enum call)call, (enum el_op)op, counts[c], at};
                at += (bytes + GAP) / x * x + x;
            }
    return n;
}

static void check_result(const struct field *f, const struct act *a, const unsigned char *before,
                         const char *how)
{
    size_t x = (size_t)f->el->extent;

    if (a->call == ACC || a->call == RACC)
        return;
    for (int i = 0; i < a->count; i++)
        tl_true(el_same(f->el, f->result + a->at + (size_t)i * x, before + (size_t)i * x),
                "%s of %s %s in %s, count %d: result %d wrong", call_name[a->call],
                f->el->name, el_op_name(a->op), how, a->count, i);
}

static void check_window(const struct field *f, const struct act *a, const unsigned char *before,
                         unsigned char *scratch, const char *how)
{
    size_t x = (size_t)f->el->extent;

    el_fill(f->el, a->op, scratch, (size_t)a->count, data_seed(f, a, f->origin), 0);
    memcpy(f->due + a->at, before, (size_t)a->count * x);
    for (int i = 0; i < a->count; i++) {
        unsigned char *due = f->due + a->at + (size_t)i * x;
        unsigned char *got = f->w.base + a->at + (size_t)i * x;
        el_apply(f->el, a->op, due, scratch + (size_t)i * x);
        tl_true(el_same(f->el, got, due), "%s of %s %s in %s, count %d: element %d wrong",
                call_name[a->call], f->el->name, el_op_name(a->op), how, a->count, i);
        memcpy(due, got, x); /* found equal in value; padding is another case's matter */
    }
}

/* What is filled and looked at for one type: up to a good way behind the last act. All of the area
 * is looked at when all types are done: there, too, is what is due. */
static size_t touched(const struct field *f, const struct act *act, int n)
{
    size_t end = act[n - 1].at + (size_t)act[n - 1].count * (size_t)f->el->extent;

    return end + BEYOND < AREA ? end + BEYOND : AREA;
}

static void fill_all(struct field *f, const struct act *act, int n)
{
    size_t bytes = touched(f, act, n);

    memset(f->due, 0x3c, bytes);
    memset(f->result, 0x3c, bytes);
    tl_local_begin(&f->w);
    memset(f->w.base, 0x3c, bytes);
    for (int i = 0; i < n; i++) {
        const struct act *a = &act[i];
        size_t n_el = (size_t)a->count;
        el_fill(f->el, a->op, f->w.base + a->at, n_el, data_seed(f, a, -50 - f->w.rank), 0);
        el_fill(f->el, a->op, f->data + a->at, n_el, data_seed(f, a, f->w.rank), 0);
    }
    tl_local_end(&f->w);
}

static void check_all(struct field *f, const struct act *act, int n, const char *how)
{
    unsigned char *before = malloc((size_t)MOST * 32), *scratch = malloc((size_t)MOST * 32);

    tl_local_begin(&f->w);
    for (int i = 0; i < n; i++) {
        const struct act *a = &act[i];
        el_fill(f->el, a->op, before, (size_t)a->count, data_seed(f, a, -50 - f->target), 0);
        check_result(f, a, before, how);
        el_fill(f->el, a->op, before, (size_t)a->count, data_seed(f, a, -50 - f->w.rank), 0);
        check_window(f, a, before, scratch, how);
    }
    tl_true(tl_failed() || memcmp(f->w.base, f->due, touched(f, act, n)) == 0,
            "%s in %s: bytes beside the elements were written", f->el->name, how);
    tl_local_end(&f->w);
    free(before);
    free(scratch);
}

static void fill_area(struct field *f)
{
    memset(f->due, 0x3c, AREA);
    tl_local_begin(&f->w);
    memset(f->w.base, 0x3c, AREA);
    tl_local_end(&f->w);
}

static void check_area(struct field *f)
{
    tl_local_begin(&f->w);
    tl_true(tl_failed() || memcmp(f->w.base, f->due, AREA) == 0,
            "bytes far behind the elements were written");
    tl_local_end(&f->w);
}

static void one_type(struct field *f, enum tl_epoch how)
{
    enum { ROOM = 256 };
    struct act act[ROOM];
    int n = plan(f->el, 0, tl_epoch_passive(how), act, ROOM), pending = 0;
    MPI_Request request[ROOM];

    f->seed++;
    fill_all(f, act, n);
    tl_epoch_open(&f->w, how, f->target, f->origin);
    for (int i = 0; i < n; i++) {
        request[pending] = MPI_REQUEST_NULL;
        tl_true(issue(f, &act[i], &request[pending]) == MPI_SUCCESS, "%s of %s %s failed",
                call_name[act[i].call], f->el->name, el_op_name(act[i].op));
        pending++;
    }
    tl_ok(MPI_Waitall(pending, request, MPI_STATUSES_IGNORE), "MPI_Waitall");
    tl_epoch_close(&f->w, how, f->target);
    check_all(f, act, n, tl_epoch_name(how));
}

static int field_open(struct field *f, int flavor, int shift)
{
    memset(f, 0, sizeof *f);
    if (!tl_win_open(&f->w, flavor, MPI_COMM_WORLD, AREA, 1))
        return 0;
    f->data = malloc(AREA);
    f->result = malloc(AREA);
    f->due = malloc(AREA);
    f->target = (f->w.rank + shift) % f->w.size;
    f->origin = (f->w.rank + f->w.size - shift % f->w.size) % f->w.size;
    return 1;
}

static void field_close(struct field *f)
{
    free(f->data);
    free(f->result);
    free(f->due);
    tl_win_close(&f->w);
}

static void types_and_ops(int flavor)
{
    struct field f;

    if (!field_open(&f, flavor, 1))
        return;
    fill_area(&f);
    for (int t = 0; t < el_type_count; t++) {
        f.el = &el_types[t];
        if (!el_present(f.el)) {
            tl_note("%s is not there", f.el->name);
            continue;
        }
        if (!tl_turn((unsigned)t))
            continue;
        for (int how = 0; how < TL_EPOCHS; how++)
            if (t % 4 == how || how == TL_LOCK_ALL)
                one_type(&f, (enum tl_epoch)how);
    }
    check_area(&f);
    field_close(&f);
}

static void self(int flavor)
{
    struct field f;

    if (!field_open(&f, flavor, 0))
        return;
    fill_area(&f);
    for (int t = 0; t < el_type_count; t++) {
        f.el = &el_types[t];
        if (el_present(f.el) && tl_turn((unsigned)t))
            one_type(&f, TL_LOCK_EXCLUSIVE);
    }
    check_area(&f);
    field_close(&f);
}

/* ---- integers that are negative if signed, large if unsigned ---- */

static void whole_range(struct field *f, enum el_op op, int count)
{
    size_t x = (size_t)f->el->extent, bytes = (size_t)count * x;
    uint64_t seed = ++f->seed * 8;

    tl_local_begin(&f->w);
    el_fill_high(f->el, f->w.base, (size_t)count, tl_mix(seed, (uint64_t)f->w.rank));
    memcpy(f->due, f->w.base, bytes);
    tl_local_end(&f->w);
    el_fill_high(f->el, f->data, (size_t)count, tl_mix(seed + 1, (uint64_t)f->w.rank));
    tl_epoch_open(&f->w, TL_LOCK_ALL, f->target, f->origin);
    tl_ok(MPI_Accumulate(f->data, count, f->el->type, f->target, tl_disp(&f->w, f->target, 0),
                         count, f->el->type, el_op_handle(op), f->w.win), "MPI_Accumulate");
    tl_epoch_close(&f->w, TL_LOCK_ALL, f->target);
    el_fill_high(f->el, f->data, (size_t)count, tl_mix(seed + 1, (uint64_t)f->origin));
    tl_local_begin(&f->w);
    for (size_t at = 0; at < bytes; at += x) {
        el_apply(f->el, op, f->due + at, f->data + at);
        tl_true(el_same(f->el, f->w.base + at, f->due + at), "%s of %s, count %d: element %zu",
                el_op_name(op), f->el->name, count, at / x);
    }
    tl_local_end(&f->w);
}

static void whole_range_types(int flavor, enum el_op first, enum el_op second, unsigned also)
{
    struct field f;

    if (!field_open(&f, flavor, 1))
        return;
    for (int t = 0; t < el_type_count; t++)
        for (int count = 1; count <= 100; count += 33) {
            f.el = &el_types[t];
            if (!el_present(f.el) || (f.el->kind != EL_UNSIGNED && (f.el->flags & also) == 0))
                continue;
            whole_range(&f, first, count);
            whole_range(&f, second, count);
        }
    field_close(&f);
}

static void order_of_extremes(int flavor)
{
    whole_range_types(flavor, EL_MAX, EL_MIN, EL_ADDRESS | EL_FORTRAN);
}

static void unsigned_wrap(int flavor)
{
    whole_range_types(flavor, EL_SUM, EL_PROD, 0);
}

/* ---- elements that do not lie on a multiple of their size ---- */

static void unaligned_type(struct field *f, size_t off)
{
    struct act act = {GET_ACC, EL_SUM, 5, 128 + off};
    MPI_Request request;

    if (!el_allowed(f->el, EL_SUM))
        act.op = EL_REPLACE;
    for (int call = 0; call < CALLS; call++) {
        act.call = (enum call)call;
        act.count = call == FETCH ? 1 : 5;
        f->seed++;
        fill_all(f, &act, 1);
        tl_epoch_open(&f->w, TL_LOCK_SHARED, f->target, f->origin);
        request = MPI_REQUEST_NULL;
        tl_ok(issue(f, &act, &request), call_name[call]);
        tl_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
        tl_epoch_close(&f->w, TL_LOCK_SHARED, f->target);
        check_all(f, &act, 1, "unaligned");
    }
}

static void unaligned(int flavor)
{
    static const int pick[7] = {2, 4, 8, 27, 28, 34, 46}; /* of 2, 4, 8, 8, 16, 16, 4+4 bytes */
    struct field f;

    if (!field_open(&f, flavor, 1))
        return;
    for (int i = 0; i < 7; i++)
        for (size_t off = 1; off < 8; off += i == 0 ? 2 : 1) {
            f.el = &el_types[pick[i]];
            unaligned_type(&f, off);
        }
    field_close(&f);
}

/* ---- padding ---- */

/* The gap between value and index is no part of the datatype: nothing may write it. */
static void pair_padding(int flavor)
{
    struct tl_win w;
    unsigned char data[32], result[32];
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 32, 1))
        return;
    for (int t = 0; t < el_type_count; t++) {
        const struct el_type *el = &el_types[t];
        int gap = el_index_offset(el) - el->part, tail = el->extent - el->bytes;
        if (!el_is_pair(el) || !el_present(el) || gap + tail == 0)
            continue;
        el_fill(el, EL_REPLACE, data, 1, (uint64_t)t, 0x11);
        memset(result, 0x22, sizeof result);
        tl_local_begin(&w);
        memset(w.base, 0x33, 32);
        tl_local_end(&w);
        tl_epoch_open(&w, TL_LOCK_ALL, next, before);
        tl_ok(MPI_Get_accumulate(data, 1, el->type, result, 1, el->type, next,
                                 tl_disp(&w, next, 0), 1, el->type, MPI_REPLACE, w.win), el->name);
        tl_epoch_close(&w, TL_LOCK_ALL, next);
        tl_local_begin(&w);
        for (int i = 0; i < 32; i++) {
            int padding = i >= el->bytes || (i >= el->part && i < el_index_offset(el));
            tl_true(!padding || w.base[i] == 0x33, "%s: byte %d of the target", el->name, i);
            tl_true(!padding || result[i] == 0x22, "%s: byte %d of the result", el->name, i);
        }
        tl_local_end(&w);
    }
    tl_win_close(&w);
}

/* ---- nothing ---- */

static void nothing(int flavor)
{
    struct field f;
    int zero = 0, got = 5, one = 1;
    MPI_Win win;

    if (!field_open(&f, flavor, 1))
        return;
    win = f.w.win;
    tl_epoch_open(&f.w, TL_LOCK_ALL, f.target, f.origin);
    tl_ok(MPI_Accumulate(&one, 0, MPI_INT, f.target, tl_disp(&f.w, f.target, 0), 0, MPI_INT,
                         MPI_SUM, win), "accumulate of nothing");
    tl_ok(MPI_Get_accumulate(&one, 0, MPI_INT, &got, 0, MPI_INT, f.target,
                             tl_disp(&f.w, f.target, 0), 0, MPI_INT, MPI_SUM, win),
          "get_accumulate of nothing");
    tl_ok(MPI_Accumulate(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win), "acc");
    tl_ok(MPI_Get_accumulate(&one, 1, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT,
                             MPI_SUM, win), "get_accumulate to MPI_PROC_NULL");
    tl_ok(MPI_Fetch_and_op(&one, &got, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win), "fetch_and_op");
    tl_ok(MPI_Compare_and_swap(&one, &zero, &got, MPI_INT, MPI_PROC_NULL, 0, win), "cas");
    tl_epoch_close(&f.w, TL_LOCK_ALL, f.target);
    tl_eq(got, 5, "the result buffer");
    tl_local_begin(&f.w);
    for (size_t i = 0; i < 256; i++)
        tl_true(f.w.base[i] == 0, "an accumulate of nothing wrote");
    tl_local_end(&f.w);
    field_close(&f);
}

/* ---- compare_and_swap ---- */

static void swap_once(struct field *f, size_t at, int match, uint64_t seed)
{
    unsigned char fresh[16], compare[16], result[16], old[16];
    size_t x = (size_t)f->el->extent;

    memset(result, 0x5e, sizeof result);
    tl_pattern(fresh, sizeof fresh, seed);
    tl_pattern(compare, sizeof compare, seed + 1);
    tl_pattern(old, sizeof old, seed + 2);
    if (f->el->kind == EL_LOGICAL) {
        el_fill(f->el, EL_REPLACE, fresh, 1, seed, 0);
        el_fill(f->el, EL_REPLACE, old, 1, seed + 2, 0);
        memcpy(compare, old, x);
        compare[0] ^= 1;
    }
    if (match)
        memcpy(compare, old, x);
    else if (memcmp(compare, old, x) == 0)
        compare[x - 1] ^= 1;
    tl_local_begin(&f->w);
    memset(f->w.base, 0x3c, 256);
    memcpy(f->w.base + at, old, x);
    tl_local_end(&f->w);
    tl_epoch_open(&f->w, TL_LOCK_ALL, f->target, f->origin);
    tl_ok(MPI_Compare_and_swap(fresh, compare, result, f->el->type, f->target,
                               tl_disp(&f->w, f->target, at), f->w.win), f->el->name);
    tl_epoch_close(&f->w, TL_LOCK_ALL, f->target);
    tl_true(memcmp(result, old, x) == 0 && result[x] == 0x5e, "%s: wrong result", f->el->name);
    tl_local_begin(&f->w);
    tl_true(memcmp(f->w.base + at, match ? fresh : old, x) == 0, "%s at %zu, %s: target wrong",
            f->el->name, at, match ? "equal" : "different");
    for (size_t i = 0; i < 256; i++)
        tl_true((i >= at && i < at + x) || f->w.base[i] == 0x3c, "%s: wrote beside", f->el->name);
    tl_local_end(&f->w);
}

static void swap_types(int flavor)
{
    struct field f;

    if (!field_open(&f, flavor, 1))
        return;
    for (int t = 0; t < el_type_count; t++) {
        f.el = &el_types[t];
        if (!el_present(f.el) || !el_swappable(f.el))
            continue;
        for (int i = 0; i < 6; i++) {
            size_t x = (size_t)f.el->extent;
            swap_once(&f, 64 + x * (size_t)i, i % 2, tl_mix((uint64_t)t, (uint64_t)i));
        }
        swap_once(&f, 65, 1, 77 + (uint64_t)t);
        swap_once(&f, 67, 0, 79 + (uint64_t)t);
    }
    field_close(&f);
}

/* ---- derived types ---- */

struct derived {
    struct tm origin, target, result;
    int on, tn, rn;
    enum el_op op;
};

static void derived_build(struct derived *d, const struct el_type *el, int o, int t, int r)
{
    d->origin = tm_layout(o, el, (uint64_t)(o * 100 + t), &d->on);
    d->target = tm_layout(t, el, (uint64_t)(o * 100 + t + 7), &d->tn);
    d->result = tm_layout(r, el, (uint64_t)(o * 100 + t + 9), &d->rn);
    tm_commit(&d->origin);
    tm_commit(&d->target);
    tm_commit(&d->result);
}

static void derived_free(struct derived *d)
{
    tm_free(&d->origin);
    tm_free(&d->target);
    tm_free(&d->result);
}

/* Fills a buffer in which any element may begin at any multiple of the extent. */
static void derived_fill(const struct field *f, enum el_op op, unsigned char *to, size_t bytes,
                         uint64_t seed)
{
    el_fill(f->el, op, to, bytes / (size_t)f->el->extent, seed, 0);
}

static void derived_model(const struct field *f, const struct derived *d, unsigned char *target,
                          const unsigned char *origin, unsigned char *result)
{
    for (size_t k = 0; k < TM_SIGNATURE; k++) {
        unsigned char *t = target + tm_at(&d->target, k);
        if (result != NULL)
            el_apply(f->el, EL_REPLACE, result + tm_at(&d->result, k), t);
        el_apply(f->el, d->op, t, origin + tm_at(&d->origin, k));
    }
}

static void compare_elements(const struct field *f, const unsigned char *got,
                             const unsigned char *due, size_t bytes, const struct derived *d,
                             const char *where, int o, int t)
{
    size_t x = (size_t)f->el->extent;

    for (size_t i = 0; i + x <= bytes; i += x)
        tl_true(el_same(f->el, got + i, due + i),
                "%s of %s, %s: element %zu wrong, origin layout \"%s\", target \"%s\"",
                el_op_name(d->op), f->el->name, where, i / x, tm_layout_name(o),
                tm_layout_name(t));
}

static int derived_issue(struct field *f, struct derived *d, size_t mid, int fetch)
{
    MPI_Aint disp = tl_disp(&f->w, f->target, mid);
    MPI_Op op = el_op_handle(d->op);

    if (!fetch)
        return MPI_Accumulate(f->data + mid, d->on, d->origin.type, f->target, disp, d->tn,
                              d->target.type, op, f->w.win);
    return MPI_Get_accumulate(f->data + mid, d->on, d->origin.type, f->result + mid, d->rn,
                              d->result.type, f->target, disp, d->tn, d->target.type, op,
                              f->w.win);
}

static void derived_pair(struct field *f, int o, int t, enum el_op op, int fetch)
{
    size_t x = (size_t)f->el->extent, zone = 256 * x, mid = 64 * x;
    unsigned char *result_due = malloc(zone), *theirs = malloc(zone);
    struct derived d = {.op = op};
    uint64_t seed = ++f->seed * 16;

    derived_build(&d, f->el, o, t, (o + 2 * t + 5) % TM_LAYOUTS);
    derived_fill(f, op, f->data, zone, tl_mix(seed, (uint64_t)f->w.rank));
    derived_fill(f, op, theirs, zone, tl_mix(seed, (uint64_t)f->origin));
    derived_fill(f, op, f->result, zone, 3);
    derived_fill(f, op, result_due, zone, 3);
    tl_local_begin(&f->w);
    derived_fill(f, op, f->w.base, zone, tl_mix(seed + 1, (uint64_t)f->w.rank));
    tl_local_end(&f->w);
    tl_epoch_open(&f->w, (o + t) % 2 == 0 ? TL_FENCE : TL_LOCK_ALL, f->target, f->origin);
    tl_ok(derived_issue(f, &d, mid, fetch), fetch ? "get_accumulate" : "accumulate");
    tl_epoch_close(&f->w, (o + t) % 2 == 0 ? TL_FENCE : TL_LOCK_ALL, f->target);
    derived_fill(f, op, f->due, zone, tl_mix(seed + 1, (uint64_t)f->target));
    if (fetch)
        derived_model(f, &d, f->due + mid, f->data + mid, result_due + mid);
    compare_elements(f, f->result, result_due, zone, &d, "result", o, t);
    derived_fill(f, op, f->due, zone, tl_mix(seed + 1, (uint64_t)f->w.rank));
    derived_model(f, &d, f->due + mid, theirs + mid, NULL);
    tl_local_begin(&f->w);
    compare_elements(f, f->w.base, f->due, zone, &d, "target", o, t);
    tl_local_end(&f->w);
    derived_free(&d);
    free(result_due);
    free(theirs);
}

static void derived(int flavor)
{
    static const int pick[9] = {1, 2, 4, 8, 27, 28, 34, 40, 50};
    struct field f;
    int turn = 0;

    if (!field_open(&f, flavor, 1))
        return;
    for (int i = 0; i < 9; i++)
        for (int o = 0; o < TM_LAYOUTS; o++)
            for (int t = 0; t < TM_LAYOUTS; t++) {
                enum el_op op = EL_SUM;
                f.el = &el_types[pick[i]];
                if ((o + 3 * t + i) % 3 != 0 && o != t) /* a third of the pairs for each type */
                    continue;
                do
                    op = (enum el_op)(turn++ % EL_OPS);
                while (!el_allowed(f.el, op));
                derived_pair(&f, o, t, op, turn % 3 != 0 || op == EL_NO_OP);
            }
    field_close(&f);
}

/* The last element of a window ends with its last byte, without the padding of a C structure. */
static void one_pair_at_the_end(int flavor, const struct el_type *el)
{
    enum { N = 3 };
    struct tl_win w;
    size_t bytes = (size_t)((N - 1) * el->extent + el->bytes);
    _Alignas(16) unsigned char data[N * 32], first[N * 32], got[N * 32];
    int target, rc;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, bytes, 1))
        return;
    target = (w.rank + 1) % w.size;
    el_fill(el, EL_MAXLOC, first, N, 7, 0);
    el_fill(el, EL_MAXLOC, data, N, 8, 0);
    memset(got, 0, sizeof got);
    tl_local_begin(&w);
    memcpy(w.base, first, bytes);
    tl_local_end(&w);
    tl_barrier();
    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win), "MPI_Win_lock");
    rc = MPI_Get_accumulate(data, N, el->type, got, N, el->type, target, tl_disp(&w, target, 0), N,
                            el->type, MPI_MAXLOC, w.win);
    tl_ok(rc, el->name);
    rc = MPI_Accumulate(data, 1, el->type, target, tl_disp(&w, target, bytes - 4), 1, el->type,
                        MPI_MAXLOC, w.win);
    tl_class(rc, el->name, MPI_ERR_RMA_RANGE);
    tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
    tl_barrier();
    tl_local_begin(&w);
    for (int i = 0; i < N; i++) {
        size_t at = (size_t)(i * el->extent);
        tl_true(el_same(el, got + at, first + at), "%s: element %d fetched", el->name, i);
        el_apply(el, EL_MAXLOC, first + at, data + at);
        tl_true(el_same(el, w.base + at, first + at), "%s: element %d combined", el->name, i);
    }
    tl_local_end(&w);
    tl_win_close(&w);
}

static void pair_at_the_end(int flavor)
{
    for (int i = 0; i < el_type_count; i++)
        if (el_is_pair(&el_types[i]) && el_present(&el_types[i]))
            one_pair_at_the_end(flavor, &el_types[i]);
}

/* MPI_BYTE is MPI_UINT8_T where the standard has no operation for it: programs that ran on other
 * components count on it. Three calls, each of 5 and 3. */
static void octets(int flavor)
{
    static const struct {
        enum el_op op;
        unsigned char result;
    } want[] = {{EL_SUM, 8},  {EL_PROD, 15}, {EL_MAX, 5}, {EL_MIN, 3}, {EL_LAND, 1},
                {EL_LOR, 1}, {EL_LXOR, 0}, {EL_BAND, 1}};
    unsigned char three[2] = {3, 3}, got[2], back[6];
    struct tl_win w;
    int target;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 8, 1))
        return;
    target = (w.rank + 1) % w.size;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const char *name = el_op_name(want[i].op);
        MPI_Op op = el_op_handle(want[i].op);
        tl_local_begin(&w);
        memset(w.base, 5, 8);
        tl_local_end(&w);
        tl_barrier();
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win), "MPI_Win_lock");
        tl_ok(MPI_Fetch_and_op(three, got, MPI_BYTE, target, tl_disp(&w, target, 0), op, w.win),
              name);
        tl_ok(MPI_Accumulate(three, 2, MPI_BYTE, target, tl_disp(&w, target, 1), 2, MPI_BYTE, op,
                             w.win), name);
        tl_ok(MPI_Get_accumulate(three, 2, MPI_BYTE, got, 2, MPI_BYTE, target,
                                 tl_disp(&w, target, 3), 2, MPI_BYTE, op, w.win), name);
        tl_ok(MPI_Get_accumulate(three, 0, MPI_BYTE, got, 0, MPI_BYTE, target,
                                 tl_disp(&w, target, 5), 0, MPI_BYTE, op, w.win), name);
        tl_ok(MPI_Win_flush(target, w.win), "MPI_Win_flush");
        tl_true(got[0] == 5 && got[1] == 5, "%s: fetched %d and %d", name, got[0], got[1]);
        tl_ok(MPI_Get(back, 6, MPI_BYTE, target, tl_disp(&w, target, 0), 6, MPI_BYTE, w.win),
              "MPI_Get");
        tl_ok(MPI_Win_unlock(target, w.win), "MPI_Win_unlock");
        for (int k = 0; k < 6; k++)
            tl_true(back[k] == (k < 5 ? want[i].result : 5), "%s of 5 and 3: byte %d is %d", name,
                    k, back[k]);
        tl_barrier();
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"types_and_ops", types_and_ops, TL_ALL, 1, 120},
        {"self", self, TL_ALL, 1, 120},
        {"order_of_extremes", order_of_extremes, TL_ALL, 1, 60},
        {"unsigned_wrap", unsigned_wrap, TL_ALL, 1, 60},
        {"unaligned", unaligned, TL_ALL, 1, 60},
        {"pair_padding", pair_padding, TL_ALL, 1, 60},
        {"pair_at_the_end", pair_at_the_end, TL_ALL, 1, 60},
        {"nothing", nothing, TL_ALL, 1, 60},
        {"octets", octets, TL_ALL, 1, 60},
        {"swap_types", swap_types, TL_ALL, 1, 60},
        {"derived", derived, TL_ALL, 1, 120},
    };

    return tl_main(argc, argv, "accumulate", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long random program: epochs of random kind, in each of which every rank makes random calls.
 * Every rank knows all seeds and carries out all ranks' calls on a model of all windows; each
 * result and, after each epoch, one's own window is compared.
 *
 * A rank has a slice of its own in every window, half of it cells for put and get (one call per
 * cell and epoch), half of it words for accumulates, which may overlap: one origin's keep their
 * order. Behind the slices lie words to which all add.
 *
 * --seed N (1), --epochs N (300)
 */
#include "elems.h"
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum {
    CELL = 256,
    CELLS = 8,
    WORDS = 256,
    SLICE = CELL * CELLS + WORDS * 8,
    COMMON = 64,
    CALLS = 12
};

enum kind { PUT, GET, ACC, GET_ACC, FETCH, SWAP, ADD, KINDS };

struct call {
    enum kind kind;
    int target;
    size_t at;            /* byte in the target's window */
    int count, stride;    /* put and get: blocks of `length` bytes, every `stride` bytes */
    int length;
    enum el_op op;
    uint64_t seed;
};

struct soak {
    struct tl_win w;
    size_t bytes;
    unsigned char **model; /* of each rank's window */
    uint64_t seed;
    int requests;
};

static const struct el_type *word_type(void)
{
    return &el_types[6]; /* MPI_LONG */
}

static struct call draw(const struct soak *s, uint64_t *r, int origin, int target, int index)
{
    static const enum el_op ops[5] = {EL_SUM, EL_REPLACE, EL_MAX, EL_BXOR, EL_MIN};
    struct call c = {.target = target, .seed = tl_random(r)};
    size_t slice = (size_t)origin * SLICE;

    c.kind = index < CELLS ? (enum kind)tl_below(r, KINDS)
                           : (enum kind)(ACC + tl_below(r, KINDS - ACC));
    c.op = ops[tl_below(r, 5)];
    c.count = 1 + tl_below(r, 12);
    if (c.kind == PUT || c.kind == GET) {
        c.length = 1 + tl_below(r, CELL / c.count);
        c.stride = c.length + tl_below(r, CELL / c.count - c.length + 1);
        c.at = slice + (size_t)index * CELL;
    } else if (c.kind == ADD) {
        c.op = EL_SUM;
        c.count = 1 + tl_below(r, COMMON / 2);
        c.at = (size_t)s->w.size * SLICE + 8 * (size_t)tl_below(r, COMMON - c.count);
    } else {
        c.count = c.kind == FETCH || c.kind == SWAP ? 1 : 1 + tl_below(r, WORDS / 2);
        c.at = slice + CELL * CELLS + 8 * (size_t)tl_below(r, WORDS - c.count);
    }
    return c;
}

static int draw_all(const struct soak *s, int epoch, enum tl_epoch how, int origin, int shift,
                    struct call *calls)
{
    uint64_t r = tl_mix(tl_mix(s->seed, (uint64_t)epoch), (uint64_t)origin);
    int n = tl_below(&r, CALLS + 1);

    for (int i = 0; i < n; i++) {
        int any = how == TL_FENCE || how == TL_LOCK_ALL;
        int target = (origin + (any ? tl_below(&r, s->w.size) : shift)) % s->w.size;
        calls[i] = draw(s, &r, origin, target, i);
    }
    return n;
}

/* The data that a call brings: bytes of a pattern, or small longs. */
static void bring(const struct call *c, unsigned char *data)
{
    if (c->kind == PUT || c->kind == GET)
        tl_pattern(data, (size_t)c->count * (size_t)c->length, c->seed);
    else
        for (int i = 0; i < c->count; i++) {
            long v = (long)(tl_mix(c->seed, (uint64_t)i) % 100000);
            memcpy(data + 8 * i, &v, sizeof v);
        }
}

/* What the swap compares with: what is there, in every other call. */
static long expected_by_swap(const struct call *c, const unsigned char *target)
{
    long v;

    memcpy(&v, target + c->at, sizeof v);
    return c->seed % 2 == 0 ? v : v + 1;
}

/* The call on the model; `result` gets what it would fetch. */
static void model_call(struct soak *s, const struct call *c, unsigned char *result)
{
    unsigned char *t = s->model[c->target] + c->at, data[CELL * 8];
    long compare;

    bring(c, data);
    if (c->kind == PUT || c->kind == GET) {
        for (int i = 0; i < c->count; i++)
            if (c->kind == PUT)
                memcpy(t + i * c->stride, data + i * c->length, (size_t)c->length);
            else
                memcpy(result + i * c->length, t + i * c->stride, (size_t)c->length);
        return;
    }
    memcpy(result, t, 8 * (size_t)c->count);
    if (c->kind == SWAP) {
        compare = expected_by_swap(c, s->model[c->target]);
        if (memcmp(t, &compare, sizeof compare) == 0)
            memcpy(t, data, 8);
        return;
    }
    for (int i = 0; i < c->count; i++)
        el_apply(word_type(), c->op, t + 8 * i, data + 8 * i);
}

struct store {
    unsigned char data[CALLS][CELL * 8], got[CALLS][CELL * 8], due[CALLS][CELL * 8];
    long compare[CALLS];
    MPI_Request request[CALLS];
};

static int real_block(struct soak *s, const struct call *c, struct store *st, int i)
{
    MPI_Datatype blocks;
    int n = c->count * c->length, rc;
    MPI_Aint disp = tl_disp(&s->w, c->target, c->at);
    MPI_Win win = s->w.win;

    MPI_Type_create_hvector(c->count, c->length, c->stride, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    if (c->kind == PUT)
        rc = s->requests ? MPI_Rput(st->data[i], n, MPI_BYTE, c->target, disp, 1, blocks, win,
                                    &st->request[i])
                         : MPI_Put(st->data[i], n, MPI_BYTE, c->target, disp, 1, blocks, win);
    else
        rc = s->requests ? MPI_Rget(st->got[i], n, MPI_BYTE, c->target, disp, 1, blocks, win,
                                    &st->request[i])
                         : MPI_Get(st->got[i], n, MPI_BYTE, c->target, disp, 1, blocks, win);
    MPI_Type_free(&blocks);
    return rc;
}

static int real_call(struct soak *s, const struct call *c, struct store *st, int i)
{
    MPI_Aint disp = tl_disp(&s->w, c->target, c->at);
    MPI_Op op = el_op_handle(c->op);
    MPI_Win win = s->w.win;
    int n = c->count, to = c->target;

    switch (c->kind) {
    case PUT:
    case GET:
        return real_block(s, c, st, i);
    case GET_ACC:
        return MPI_Get_accumulate(st->data[i], n, MPI_LONG, st->got[i], n, MPI_LONG, to, disp, n,
                                  MPI_LONG, op, win);
    case FETCH:
        return MPI_Fetch_and_op(st->data[i], st->got[i], MPI_LONG, to, disp, op, win);
    case SWAP:
        return MPI_Compare_and_swap(st->data[i], &st->compare[i], st->got[i], MPI_LONG, to, disp,
                                    win);
    default:
        return MPI_Accumulate(st->data[i], n, MPI_LONG, to, disp, n, MPI_LONG, op, win);
    }
}

/* One's own calls, for real; the model is run along, which yields what swaps compare with. */
static void real_epoch(struct soak *s, enum tl_epoch how, const struct call *calls, int n,
                       struct store *st)
{
    for (int i = 0; i < n; i++) {
        const struct call *c = &calls[i];
        st->request[i] = MPI_REQUEST_NULL;
        bring(c, st->data[i]);
        if (c->kind == SWAP)
            st->compare[i] = expected_by_swap(c, s->model[c->target]);
        tl_ok(real_call(s, c, st, i), "a call");
        model_call(s, c, st->due[i]);
        if (tl_epoch_passive(how) && c->seed % 7 == 0)
            tl_ok(c->seed % 2 == 0 ? MPI_Win_flush(c->target, s->w.win)
                                   : MPI_Win_flush_local(c->target, s->w.win), "a flush");
    }
    tl_ok(MPI_Waitall(n, st->request, MPI_STATUSES_IGNORE), "MPI_Waitall");
}

static void check_fetched(const struct call *calls, int n, struct store *st, int epoch,
                          enum tl_epoch how)
{
    for (int i = 0; i < n; i++) {
        const struct call *c = &calls[i];
        size_t bytes = c->kind == GET ? (size_t)(c->count * c->length) : 8 * (size_t)c->count;
        if (c->kind == PUT || c->kind == ACC || c->kind == ADD)
            continue;
        tl_true(memcmp(st->got[i], st->due[i], bytes) == 0,
                "epoch %d (%s), call %d of kind %d to rank %d at %zu: wrong result", epoch,
                tl_epoch_name(how), i, (int)c->kind, c->target, c->at);
    }
}

static void check_window(struct soak *s, int epoch, enum tl_epoch how)
{
    const unsigned char *due = s->model[s->w.rank];

    tl_local_begin(&s->w);
    for (size_t i = 0; i < s->bytes; i++)
        if (!tl_true(s->w.base[i] == due[i], "epoch %d (%s): byte %zu of the window is wrong",
                     epoch, tl_epoch_name(how), i))
            break;
    tl_local_end(&s->w);
    MPI_Barrier(s->w.comm);
}

static void one_epoch(struct soak *s, int epoch, struct store *st)
{
    uint64_t r = tl_mix(s->seed, 1000000 + (uint64_t)epoch);
    enum tl_epoch how = (enum tl_epoch)tl_below(&r, TL_EPOCHS);
    int shift = tl_below(&r, s->w.size), n;
    int target = (s->w.rank + shift) % s->w.size;
    int origin = (s->w.rank + s->w.size - shift) % s->w.size;
    struct call calls[CALLS];
    unsigned char ignored[CELL * 8];

    s->requests = tl_epoch_passive(how) && tl_below(&r, 2) == 0;
    tl_epoch_open(&s->w, how, target, origin);
    n = draw_all(s, epoch, how, s->w.rank, shift, calls);
    real_epoch(s, how, calls, n, st);
    tl_epoch_close(&s->w, how, target);
    check_fetched(calls, n, st, epoch, how);
    for (int o = 0; o < s->w.size; o++) {
        if (o == s->w.rank)
            continue;
        n = draw_all(s, epoch, how, o, shift, calls);
        for (int i = 0; i < n; i++)
            model_call(s, &calls[i], ignored);
    }
    check_window(s, epoch, how);
}

static void soak(int flavor)
{
    struct soak s = {.seed = (uint64_t)tl_option("--seed", 1)};
    struct store *st;
    int epochs = (int)tl_option("--epochs", 300);

    s.bytes = (size_t)tl_size() * SLICE + COMMON * 8;
    if (!tl_win_open(&s.w, flavor, MPI_COMM_WORLD, s.bytes, tl_rank() % 2 == 0 ? 1 : 8))
        return;
    st = calloc(1, sizeof *st);
    s.model = calloc((size_t)s.w.size, sizeof *s.model);
    for (int r = 0; r < s.w.size; r++)
        s.model[r] = calloc(1, s.bytes);
    for (int epoch = 0; epoch < epochs; epoch++)
        one_epoch(&s, epoch, st);
    for (int r = 0; r < s.w.size; r++)
        free(s.model[r]);
    free(s.model);
    free(st);
    tl_win_close(&s.w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"soak", soak, TL_ALL, 1, 600},
    };

    return tl_main(argc, argv, "random_ops", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

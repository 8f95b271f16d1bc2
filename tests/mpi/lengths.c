/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sides of unequal lengths: as with messages, what is sent may be shorter than what there is room
 * for. An operand may be shorter than the target, whose rest is not changed and fetched all the
 * same, and a target shorter than the result. What is too long is an error, and changes nothing.
 */
#include "testlib.h"

#include <string.h>

enum { MOST = 5, LONGS = 3 * MOST, BYTES = 8 * LONGS };

enum call { ACC, RACC, GET_ACC, RGET_ACC, PUT, GET, CALLS };

static const char *const call_name[CALLS] = {
    "accumulate", "raccumulate", "get_accumulate", "rget_accumulate", "put", "get",
};

static int has_origin(enum call call)
{
    return call != GET;
}

static int has_result(enum call call)
{
    return call == GET_ACC || call == RGET_ACC || call == GET;
}

/* Elements of the three sides, and how far apart they are; which: dense, or every third. */
struct lengths {
    int origin, target, result;
    int origin_step, target_step, result_step;
};

static MPI_Datatype type_of(int count, int step)
{
    MPI_Datatype type;

    MPI_Type_vector(count, 1, step, MPI_LONG, &type);
    MPI_Type_commit(&type);
    return type;
}

static int do_call(struct tl_win *w, enum call call, const struct lengths *n, MPI_Op op,
                   const long *origin, long *result)
{
    MPI_Datatype o = type_of(n->origin, n->origin_step), t = type_of(n->target, n->target_step);
    MPI_Datatype r = type_of(n->result, n->result_step);
    MPI_Aint at = tl_disp(w, 0, 0);
    MPI_Request request = MPI_REQUEST_NULL;
    int rc;

    switch (call) {
    case ACC: rc = MPI_Accumulate(origin, 1, o, 0, at, 1, t, op, w->win); break;
    case RACC: rc = MPI_Raccumulate(origin, 1, o, 0, at, 1, t, op, w->win, &request); break;
    case GET_ACC:
        rc = MPI_Get_accumulate(origin, 1, o, result, 1, r, 0, at, 1, t, op, w->win);
        break;
    case RGET_ACC:
        rc = MPI_Rget_accumulate(origin, 1, o, result, 1, r, 0, at, 1, t, op, w->win, &request);
        break;
    case PUT: rc = MPI_Put(origin, 1, o, 0, at, 1, t, w->win); break;
    default: rc = MPI_Get(result, 1, r, 0, at, 1, t, w->win); break;
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    tl_ok(MPI_Win_flush(0, w->win), "MPI_Win_flush");
    MPI_Type_free(&o);
    MPI_Type_free(&t);
    MPI_Type_free(&r);
    return rc;
}

/* ---- what it comes to ---- */

static long combine(enum call call, MPI_Op op, long there, long operand)
{
    if (call == PUT || op == MPI_REPLACE)
        return operand;
    return op == MPI_SUM ? there + operand : there;
}

static int fits(enum call call, MPI_Op op, const struct lengths *n)
{
    int counts = has_origin(call) && (call == PUT || op != MPI_NO_OP);

    return (!counts || n->origin <= n->target) && (!has_result(call) || n->target <= n->result);
}

static void one(struct tl_win *w, enum call call, const struct lengths *n, MPI_Op op)
{
    long origin[LONGS], result[LONGS], there[LONGS], now[LONGS];
    int changed = has_origin(call) && (call == PUT || op != MPI_NO_OP) ? n->origin : 0, rc;

    for (int i = 0; i < LONGS; i++) {
        origin[i] = 1000 + i;
        result[i] = -1 - i;
        there[i] = 10 * i;
    }
    tl_ok(MPI_Put(there, LONGS, MPI_LONG, 0, tl_disp(w, 0, 0), LONGS, MPI_LONG, w->win), "put");
    tl_ok(MPI_Win_flush(0, w->win), "MPI_Win_flush");
    rc = do_call(w, call, n, op, origin, result);
    if (!fits(call, op, n))
        tl_class2(rc, call_name[call], MPI_ERR_TRUNCATE, MPI_ERR_ARG);
    else if (!tl_ok(rc, call_name[call]))
        return;
    tl_ok(MPI_Get(now, LONGS, MPI_LONG, 0, tl_disp(w, 0, 0), LONGS, MPI_LONG, w->win), "get");
    tl_ok(MPI_Win_flush(0, w->win), "MPI_Win_flush");
    for (int i = 0; i < LONGS; i++) {
        int t = i % n->target_step == 0 ? i / n->target_step : MOST;
        int r = i % n->result_step == 0 ? i / n->result_step : MOST;
        int hit = fits(call, op, n) && t < changed;
        int got = fits(call, op, n) && has_result(call) && r < n->target;

        tl_true(now[i] == (hit ? combine(call, op, there[i], origin[t * n->origin_step])
                               : there[i]),
                "%s of %d, %d, %d: word %d of the window is %ld", call_name[call], n->origin,
                n->target, n->result, i, now[i]);
        tl_true(result[i] == (got ? there[r * n->target_step] : -1 - i),
                "%s of %d, %d, %d: word %d of the result is %ld", call_name[call], n->origin,
                n->target, n->result, i, result[i]);
    }
}

static void all_ops(struct tl_win *w, const struct lengths *n)
{
    static const MPI_Op op[3] = {MPI_SUM, MPI_REPLACE, MPI_NO_OP};

    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < (call < PUT ? 3 : 1); i++)
            if (op[i] != MPI_NO_OP || has_result((enum call)call))
                one(w, (enum call)call, n, op[i]);
}

static void unequal(int flavor)
{
    static const int length[4] = {0, 1, 2, MOST};
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, BYTES, 8))
        return;
    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win), "MPI_Win_lock");
    for (unsigned turn = 0; turn < 4 * 4 * 4 * 8; turn++) {
        struct lengths n = {
            length[turn % 4], length[turn / 4 % 4], length[turn / 16 % 4],
            (turn & 64) != 0 ? 3 : 1, (turn & 128) != 0 ? 3 : 1, (turn & 256) != 0 ? 3 : 1,
        };

        if (tl_turn(turn))
            all_ops(&w, &n);
    }
    tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    tl_barrier();
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"unequal", unequal, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "lengths", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What loco says of wrong calls: the call, the rank, the window, what is open or out of bounds, and
 * what would be right. With MPI_ERRORS_RETURN that is told with osc_base_verbose 1 only, which this
 * program sets; nothing is told of right calls.
 *
 * "mistakes fatal" makes a mistake with the error handler that ends the job, without
 * osc_base_verbose: tests/machine/mistaken-mpi looks at what it prints.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 512, UNIT = 8 };

/* ---- what goes to stderr meanwhile ---- */

struct capture {
    FILE *file;
    int stderr_before;
};

static int capture_begins(struct capture *c)
{
    c->file = tmpfile();
    if (!tl_true(c->file != NULL, "no temporary file"))
        return 0;
    fflush(stderr);
    c->stderr_before = dup(STDERR_FILENO);
    return tl_true(c->stderr_before >= 0 && dup2(fileno(c->file), STDERR_FILENO) >= 0,
                   "stderr cannot be redirected");
}

static void capture_ends(struct capture *c, char *said, size_t room)
{
    fflush(stderr);
    dup2(c->stderr_before, STDERR_FILENO);
    close(c->stderr_before);
    rewind(c->file);
    said[fread(said, 1, room - 1, c->file)] = '\0';
    fclose(c->file);
}

/* ---- one wrong call ---- */

struct scene {
    struct tl_win w;
    int next;
    struct capture capture;
};

static int scene_open(struct scene *s, int flavor)
{
    if (!tl_win_open(&s->w, flavor, MPI_COMM_WORLD, BYTES, flavor == TL_DYNAMIC ? 1 : UNIT))
        return 0;
    MPI_Win_set_name(s->w.win, "table");
    s->next = (tl_rank() + 1) % tl_size();
    return 1;
}

/* `rc` is of a call behind capture_begins(): it has this class, and what was said has all these. */
static void said(struct scene *s, int rc, int class, const char *call, const char *const *parts)
{
    char text[4096];

    capture_ends(&s->capture, text, sizeof text);
    tl_class(rc, call, class);
    tl_true(strstr(text, "osc loco: ") != NULL && strstr(text, call) != NULL, "%s: said is \"%s\"",
            call, text);
    for (; *parts != NULL; parts++)
        tl_true(strstr(text, *parts) != NULL, "%s: \"%s\" is not in \"%s\"", call, *parts, text);
}

#define WRONG(s, class, name, call, ...) \
    do { \
        if (capture_begins(&(s)->capture)) \
            said((s), (call), (class), (name), (const char *const[]){ __VA_ARGS__, NULL }); \
    } while (0)

static void right(struct scene *s, int rc, const char *call)
{
    char text[4096];

    capture_ends(&s->capture, text, sizeof text);
    tl_ok(rc, call);
    tl_true(text[0] == '\0', "a right %s: said is \"%s\"", call, text);
}

#define RIGHT(s, name, call) \
    do { \
        if (capture_begins(&(s)->capture)) \
            right((s), (call), (name)); \
    } while (0)

static const char *rank_text(int rank)
{
    static char text[64];

    snprintf(text, sizeof text, ", rank %d of window \"table\" (", rank);
    return text;
}

/* ---- cases ---- */

static void outside_epochs(int flavor)
{
    struct scene s;
    long x = 1, y = 2;
    MPI_Request r = MPI_REQUEST_NULL;

    if (!scene_open(&s, flavor))
        return;
    MPI_Win win = s.w.win;
    MPI_Aint disp = tl_disp(&s.w, s.next, 0);
    int sync = MPI_ERR_RMA_SYNC, to = s.next;
    const char *rank = rank_text(s.next), *none = "called with no epoch open";
    const char *lock = "MPI_Win_lock, MPI_Win_lock_all, MPI_Win_start or MPI_Win_fence";

    WRONG(&s, sync, "MPI_Put,", MPI_Put(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win), rank, none,
          lock);
    WRONG(&s, sync, "MPI_Get,", MPI_Get(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win), rank, none);
    WRONG(&s, sync, "MPI_Accumulate,",
          MPI_Accumulate(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, MPI_SUM, win), rank, none);
    WRONG(&s, sync, "MPI_Get_accumulate,",
          MPI_Get_accumulate(&x, 1, MPI_LONG, &y, 1, MPI_LONG, to, disp, 1, MPI_LONG, MPI_SUM, win),
          rank, none);
    WRONG(&s, sync, "MPI_Fetch_and_op,",
          MPI_Fetch_and_op(&x, &y, MPI_LONG, to, disp, MPI_SUM, win), rank, none);
    WRONG(&s, sync, "MPI_Compare_and_swap,",
          MPI_Compare_and_swap(&x, &x, &y, MPI_LONG, to, disp, win), rank, none);
    WRONG(&s, sync, "MPI_Rput,", MPI_Rput(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win, &r), rank,
          none);
    WRONG(&s, sync, "MPI_Rget,", MPI_Rget(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win, &r), rank,
          none);
    WRONG(&s, sync, "MPI_Raccumulate,",
          MPI_Raccumulate(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, MPI_SUM, win, &r), rank, none);
    WRONG(&s, sync, "MPI_Rget_accumulate,",
          MPI_Rget_accumulate(&x, 1, MPI_LONG, &y, 1, MPI_LONG, to, disp, 1, MPI_LONG, MPI_SUM, win,
                              &r), rank, none);
    WRONG(&s, sync, "MPI_Win_flush,", MPI_Win_flush(to, win), rank, none, "MPI_Win_lock_all");
    WRONG(&s, sync, "MPI_Win_flush_local,", MPI_Win_flush_local(to, win), rank, none);
    WRONG(&s, sync, "MPI_Win_flush_all of", MPI_Win_flush_all(win), none);
    WRONG(&s, sync, "MPI_Win_flush_local_all of", MPI_Win_flush_local_all(win), none);
    WRONG(&s, sync, "MPI_Win_unlock,", MPI_Win_unlock(to, win), rank, none);
    WRONG(&s, sync, "MPI_Win_unlock_all of", MPI_Win_unlock_all(win), none);
    WRONG(&s, sync, "MPI_Win_complete of", MPI_Win_complete(win), none, "MPI_Win_start");
    WRONG(&s, sync, "MPI_Win_wait of", MPI_Win_wait(win), none, "MPI_Win_post");
    tl_win_close(&s.w);
}

static void in_other_epochs(int flavor)
{
    struct scene s;
    long x = 1;
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Group empty = MPI_GROUP_EMPTY;

    if (!scene_open(&s, flavor))
        return;
    MPI_Win win = s.w.win;
    MPI_Aint disp = tl_disp(&s.w, s.next, 0);
    int sync = MPI_ERR_RMA_SYNC, to = s.next, me = tl_rank();

    RIGHT(&s, "MPI_Win_lock", MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    RIGHT(&s, "MPI_Put", MPI_Put(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win));
    WRONG(&s, sync, "MPI_Win_lock,", MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win), rank_text(to),
          "an open epoch of MPI_Win_lock of this rank; no access epoch", "MPI_Win_unlock");
    WRONG(&s, sync, "MPI_Win_lock_all of", MPI_Win_lock_all(0, win), "MPI_Win_lock of 1 rank;");
    WRONG(&s, sync, "MPI_Win_fence of", MPI_Win_fence(0, win), "MPI_Win_lock of 1 rank;");
    WRONG(&s, sync, "MPI_Win_free of", MPI_Win_free(&win), "MPI_Win_lock of 1 rank;");
    if (to != me)
        WRONG(&s, sync, "MPI_Win_unlock,", MPI_Win_unlock(me, win), rank_text(me),
              "an open epoch of MPI_Win_lock of 1 other rank;");
    RIGHT(&s, "MPI_Win_unlock", MPI_Win_unlock(to, win));

    RIGHT(&s, "MPI_Win_lock_all", MPI_Win_lock_all(0, win));
    WRONG(&s, sync, "MPI_Win_lock,", MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win),
          "an open epoch of MPI_Win_lock_all;");
    WRONG(&s, sync, "MPI_Win_start of", MPI_Win_start(empty, 0, win), "epoch of MPI_Win_lock_all;");
    RIGHT(&s, "MPI_Win_unlock_all", MPI_Win_unlock_all(win));

    RIGHT(&s, "MPI_Win_post", MPI_Win_post(empty, 0, win));
    RIGHT(&s, "MPI_Win_start", MPI_Win_start(empty, 0, win));
    WRONG(&s, sync, "MPI_Put,", MPI_Put(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win),
          "an open epoch of MPI_Win_start and of MPI_Win_post;", "includes the rank");
    WRONG(&s, sync, "MPI_Win_post of", MPI_Win_post(empty, 0, win), "MPI_Win_wait ends it");
    RIGHT(&s, "MPI_Win_complete", MPI_Win_complete(win));
    RIGHT(&s, "MPI_Win_wait", MPI_Win_wait(win));

    RIGHT(&s, "MPI_Win_fence", MPI_Win_fence(0, win));
    RIGHT(&s, "MPI_Put", MPI_Put(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win));
    WRONG(&s, sync, "MPI_Rput,", MPI_Rput(&x, 1, MPI_LONG, to, disp, 1, MPI_LONG, win, &r),
          "an open epoch of MPI_Win_fence (with operations in it);", "with a request");
    WRONG(&s, sync, "MPI_Win_lock,", MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win),
          "MPI_Win_fence (with operations in it);", "MPI_MODE_NOSUCCEED");
    RIGHT(&s, "MPI_Win_fence", MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    tl_win_close(&s.w);
}

static void out_of_bounds(int flavor)
{
    struct scene s;
    long x = 1, y = 2;
    MPI_Datatype spread;
    char part[80];

    if (!scene_open(&s, flavor))
        return;
    MPI_Win win = s.w.win;
    int range = MPI_ERR_RMA_RANGE, to = s.next, dynamic = flavor == TL_DYNAMIC;
    MPI_Aint end = tl_disp(&s.w, to, BYTES);
    const char *rank = rank_text(to);
    const char *where = dynamic ? "not all of it is attached there"
                                : "that rank's part has 512 bytes";

    MPI_Type_vector(2, 1, 4, MPI_LONG, &spread);
    MPI_Type_set_name(spread, "spread");
    MPI_Type_commit(&spread);
    if (dynamic)
        snprintf(part, sizeof part, "1 of MPI_LONG at displacement %lld, addresses %#llx to %#llx:",
                 (long long)end, (unsigned long long)end, (unsigned long long)end + 7);
    else
        snprintf(part, sizeof part,
                 "1 of MPI_LONG at displacement 64 in units of 8, bytes 512 to 519:");
    RIGHT(&s, "MPI_Win_lock_all", MPI_Win_lock_all(0, win));
    WRONG(&s, range, "MPI_Put,", MPI_Put(&x, 1, MPI_LONG, to, end, 1, MPI_LONG, win), rank, part,
          where);
    WRONG(&s, range, "MPI_Get,", MPI_Get(&x, 1, MPI_LONG, to, end, 1, MPI_LONG, win), rank, part,
          where);
    WRONG(&s, range, "MPI_Accumulate,",
          MPI_Accumulate(&x, 1, MPI_LONG, to, end, 1, MPI_LONG, MPI_SUM, win), rank, part, where);
    WRONG(&s, range, "MPI_Fetch_and_op,",
          MPI_Fetch_and_op(&x, &y, MPI_LONG, to, end, MPI_SUM, win), rank, part, where);
    WRONG(&s, range, "MPI_Compare_and_swap,",
          MPI_Compare_and_swap(&x, &x, &y, MPI_LONG, to, end, win), rank, part, where);
    WRONG(&s, range, "MPI_Get,",
          MPI_Get((long[2]){ 0 }, 2, MPI_LONG, to, tl_disp(&s.w, to, BYTES - 32), 1, spread, win),
          rank, "1 of spread at displacement ", dynamic ? "addresses" : "bytes 480 to 519:", where);
    if (!dynamic)
        WRONG(&s, range, "MPI_Put,",
              MPI_Put(&x, 1, MPI_LONG, to, INT64_MAX / 4, 1, MPI_LONG, win), rank,
              "1 of MPI_LONG at displacement 2305843009213693951 in units of 8: that");
    RIGHT(&s, "MPI_Win_unlock_all", MPI_Win_unlock_all(win));
    MPI_Type_free(&spread);
    tl_win_close(&s.w);
}

static void of_arguments(int flavor)
{
    struct scene s;
    long x[2] = { 1, 2 };
    double d = 1, e = 2;

    if (!scene_open(&s, flavor))
        return;
    MPI_Win win = s.w.win;
    int to = s.next;
    MPI_Aint disp = tl_disp(&s.w, to, 0);
    const char *rank = rank_text(to);

    RIGHT(&s, "MPI_Win_lock_all", MPI_Win_lock_all(0, win));
    WRONG(&s, MPI_ERR_TRUNCATE, "MPI_Put,",
          MPI_Put(x, 2, MPI_LONG, to, disp, 1, MPI_LONG, win), rank, "more is sent");
    WRONG(&s, MPI_ERR_OP, "MPI_Fetch_and_op,",
          MPI_Fetch_and_op(&d, &e, MPI_DOUBLE, to, disp, MPI_BAND, win), rank,
          "the operation MPI_BAND on MPI_DOUBLE");
    WRONG(&s, MPI_ERR_TYPE, "MPI_Compare_and_swap,",
          MPI_Compare_and_swap(&d, &d, &e, MPI_DOUBLE, to, disp, win), rank,
          "does not take MPI_DOUBLE");
    WRONG(&s, MPI_ERR_RANK, "MPI_Win_flush,", MPI_Win_flush(tl_size(), win),
          rank_text(tl_size()), "no such rank");
    RIGHT(&s, "MPI_Win_unlock_all", MPI_Win_unlock_all(win));
    if (flavor == TL_DYNAMIC) {
        WRONG(&s, MPI_ERR_RMA_ATTACH, "MPI_Win_attach of",
              MPI_Win_attach(win, s.w.base, 8), "a part of this memory is attached already");
        WRONG(&s, MPI_ERR_RMA_ATTACH, "MPI_Win_detach of", MPI_Win_detach(win, x),
              "no memory is attached that begins at this address");
    }
    tl_win_close(&s.w);
}

static int fatal(int argc, char **argv)
{
    long x = 1, *base;
    MPI_Win win;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(BYTES, UNIT, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    if (rank == 0)
        MPI_Put(&x, 1, MPI_LONG, 0, BYTES, 1, MPI_LONG, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        { "outside_epochs", outside_epochs, TL_ALL, 1, 0 },
        { "in_other_epochs", in_other_epochs, TL_ALL, 1, 0 },
        { "out_of_bounds", out_of_bounds, TL_ALL, 1, 0 },
        { "of_arguments", of_arguments, TL_ALL, 1, 0 },
    };

    if (argc > 1 && strcmp(argv[1], "fatal") == 0)
        return fatal(argc, argv);
    setenv("OMPI_MCA_osc_base_verbose", "1", 1);
    return tl_main(argc, argv, "mistakes", MPI_THREAD_SINGLE, cases,
                   sizeof cases / sizeof cases[0]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that meet late: spawned ones, merged with their parents, on windows of each flavor,
 * before and after windows of the parents alone. The program spawns itself.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 2 };

/* The same sequence on parents and children: everyone adds to everyone. Returns failures. */
static int work(MPI_Comm all, int flavor)
{
    MPI_Win win;
    long *base = NULL, own[8] = {0}, one = 1;
    int rank, size, rc, wrong = 0;
    MPI_Aint *address, mine;

    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    if (flavor == TL_ALLOCATE)
        rc = MPI_Win_allocate(64, 8, MPI_INFO_NULL, all, &base, &win);
    else if (flavor == TL_SHARED)
        rc = MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, all, &base, &win);
    else if (flavor == TL_CREATE)
        rc = MPI_Win_create(own, 64, 8, MPI_INFO_NULL, all, &win);
    else
        rc = MPI_Win_create_dynamic(MPI_INFO_NULL, all, &win);
    if (rc != MPI_SUCCESS)
        return -1;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (flavor == TL_DYNAMIC)
        wrong += MPI_Win_attach(win, own, sizeof own) != MPI_SUCCESS;
    if (base == NULL)
        base = own;
    memset(base, 0, 64);
    address = calloc((size_t)size, sizeof *address);
    MPI_Get_address(base, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, address, 1, MPI_AINT, all);
    wrong += MPI_Win_lock_all(0, win) != MPI_SUCCESS;
    for (int i = 0; i < 50; i++)
        for (int t = 0; t < size; t++)
            wrong += MPI_Accumulate(&one, 1, MPI_LONG, t, flavor == TL_DYNAMIC ? address[t] : 0, 1,
                                    MPI_LONG, MPI_SUM, win) != MPI_SUCCESS;
    wrong += MPI_Win_unlock_all(win) != MPI_SUCCESS;
    MPI_Barrier(all);
    wrong += MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win) != MPI_SUCCESS;
    wrong += base[0] != 50L * size;
    wrong += MPI_Win_unlock(rank, win) != MPI_SUCCESS;
    MPI_Barrier(all);
    if (flavor == TL_DYNAMIC)
        wrong += MPI_Win_detach(win, own) != MPI_SUCCESS;
    wrong += MPI_Win_free(&win) != MPI_SUCCESS;
    free(address);
    return wrong;
}

/* What a child does: one window of each flavor that its parents name, until they name none. */
static int child_main(MPI_Comm parent)
{
    MPI_Comm all;
    int flavor, wrong, sum;

    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Barrier(all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    for (;;) {
        MPI_Bcast(&flavor, 1, MPI_INT, 0, all);
        if (flavor == 0)
            break;
        wrong = work(all, flavor);
        MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, all);
    }
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* Open MPI 4.1's MPI_Comm_spawn itself hangs now and then (with any component, or none): the
 * phase tells such a hang from one of ours, and run.sh tries again. */
static MPI_Comm spawn(int count)
{
    static char child[] = "--child";
    char *arguments[2] = {child, NULL};
    MPI_Comm between = MPI_COMM_NULL;
    int codes[CHILDREN], rc;

    tl_phase("MPI_Comm_spawn");
    rc = MPI_Comm_spawn(tl_program_path(), arguments, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                        &between, codes);
    tl_ok(rc, "MPI_Comm_spawn");
    if (rc == MPI_SUCCESS)
        tl_barrier();
    tl_phase("");
    return rc == MPI_SUCCESS ? between : MPI_COMM_NULL;
}

static void with_children(int flavor, MPI_Comm all)
{
    int wrong, sum;

    MPI_Bcast(&flavor, 1, MPI_INT, 0, all);
    if (flavor == 0)
        return;
    wrong = work(all, flavor);
    MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, all);
    if (sum < 0 && tl_may_refuse(flavor))
        tl_note("%s window refused", tl_flavor_name(flavor));
    else
        tl_true(sum == 0, "%s: %d wrong calls or sums, of parents and children",
                tl_flavor_name(flavor), sum);
}

static void add_to_first(struct tl_win *w)
{
    long one = 1;

    tl_ok(MPI_Win_lock_all(0, w->win), "lock_all");
    tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(w, 0, 0), 1, MPI_LONG, MPI_SUM, w->win),
          "accumulate");
    tl_ok(MPI_Win_unlock_all(w->win), "unlock_all");
    tl_barrier();
}

/* A window of the parents is open, and used, before and after. */
static void children(int ignored)
{
    struct tl_win w;
    MPI_Comm between, all;
    long sum;

    (void)ignored;
    if (!tl_win_open(&w, TL_ALLOCATE, MPI_COMM_WORLD, 64, 8))
        return;
    add_to_first(&w);
    between = spawn(CHILDREN);
    if (between != MPI_COMM_NULL) {
        tl_phase("MPI_Intercomm_merge");
        MPI_Intercomm_merge(between, 0, &all);
        MPI_Barrier(all);
        tl_phase("");
        MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
        for (int turn = 0; turn < 2; turn++)
            for (int flavor = TL_ALLOCATE; flavor <= TL_DYNAMIC; flavor *= 2)
                with_children(flavor, all);
        with_children(0, all);
        tl_phase("MPI_Comm_disconnect");
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&between);
        tl_phase("");
        /* The children end: what was told them last is nothing to the parents' window. */
        tl_wait_quietly(1);
    }
    add_to_first(&w);
    tl_local_begin(&w);
    memcpy(&sum, w.base, sizeof sum);
    if (w.rank == 0)
        tl_eq(sum, 2L * w.size, "the sum in the parents' window");
    tl_local_end(&w);
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"children", children, 0, 1, 40},
    };
    MPI_Comm parent;

    if (argc > 1 && strcmp(argv[1], "--child") == 0) {
        MPI_Init(&argc, &argv);
        MPI_Comm_get_parent(&parent);
        return parent == MPI_COMM_NULL ? 2 : child_main(parent);
    }
    return tl_main(argc, argv, "spawn", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI's one-sided calls cost on a window whose component does nothing: what of a row of
 * rma_bench is Open MPI's own, whatever the component. The limit in rma_bench has that of calls
 * which can be made to MPI_PROC_NULL alone; flushes, locks and fences cannot.
 *
 * The functions of a window's module are exchanged for an empty one, for as long as is measured, so
 * this is built with Open MPI's own headers. The figure is the least of many short batches: what
 * else runs on the machine can only add to it.
 */
#include "ompi_config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ompi/mca/osc/osc.h"
#include "ompi/win/win.h"

enum { BATCHES = 1000, CALLS = 1000, BYTES = 4096 };

static MPI_Win win;
static uint64_t word = 1, old, found;

/* It takes whatever it is given: a caller of C on the machines that Open MPI runs on clears its
 * arguments away itself. */
static int nothing(void)
{
    return OMPI_SUCCESS;
}

#define EMPTY(module, function)                                                              \
    do {                                                                                     \
        int (*with)(void) = nothing;                                                         \
                                                                                             \
        _Static_assert(sizeof (module)->function == sizeof with, "pointers to functions");   \
        memcpy(&(module)->function, &with, sizeof with);                                     \
    } while (0)

static void empty(ompi_osc_base_module_t *module)
{
    EMPTY(module, osc_put);
    EMPTY(module, osc_get);
    EMPTY(module, osc_accumulate);
    EMPTY(module, osc_fetch_and_op);
    EMPTY(module, osc_compare_and_swap);
    EMPTY(module, osc_flush);
    EMPTY(module, osc_fence);
    EMPTY(module, osc_lock);
    EMPTY(module, osc_unlock);
    EMPTY(module, osc_lock_all);
    EMPTY(module, osc_unlock_all);
}

/* ---- the rows ---- */

#define PUT(target) MPI_Put(&word, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, win)
#define GET(target) MPI_Get(&word, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, win)
#define ADD(target) MPI_Fetch_and_op(&word, &old, MPI_UINT64_T, target, 0, MPI_SUM, win)
#define SWAP(target) MPI_Compare_and_swap(&word, &old, &found, MPI_UINT64_T, target, 0, win)
#define SUM(target) MPI_Accumulate(&word, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, MPI_SUM, win)
#define FLUSH MPI_Win_flush(0, win)
#define LOCK MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)

/* Each row: the call that can be made to MPI_PROC_NULL, if there is one, and all its calls; but of
 * put_rate and get_rate one call, without its part of a flush. */
#define ROWS(WITH_NULL, WITHOUT)                                                        \
    WITH_NULL(put, PUT(MPI_PROC_NULL), { PUT(0); FLUSH; })                              \
    WITH_NULL(get, GET(MPI_PROC_NULL), { GET(0); FLUSH; })                              \
    WITH_NULL(fetch_and_op, ADD(MPI_PROC_NULL), { ADD(0); FLUSH; })                     \
    WITH_NULL(compare_and_swap, SWAP(MPI_PROC_NULL), { SWAP(0); FLUSH; })               \
    WITH_NULL(accumulate, SUM(MPI_PROC_NULL), { SUM(0); FLUSH; })                       \
    WITH_NULL(put_rate, PUT(MPI_PROC_NULL), PUT(0))                                     \
    WITH_NULL(get_rate, GET(MPI_PROC_NULL), GET(0))                                     \
    WITHOUT(lock, { LOCK; MPI_Win_unlock(0, win); })                                    \
    WITHOUT(lock_all, { MPI_Win_lock_all(0, win); MPI_Win_unlock_all(win); })           \
    WITHOUT(fence, MPI_Win_fence(0, win))

#define REPEATED(name, calls)            \
    static void name(void)               \
    {                                    \
        for (int i = 0; i < CALLS; i++)  \
            calls;                       \
    }
#define TWO_LOOPS(name, to_null, calls)  \
    REPEATED(name##_null, to_null)       \
    REPEATED(name##_empty, calls)
#define ONE_LOOP(name, calls) REPEATED(name##_empty, calls)
ROWS(TWO_LOOPS, ONE_LOOP)

#define TWO_FUNCTIONS(name, to_null, calls) { #name, name##_null, name##_empty },
#define ONE_FUNCTION(name, calls) { #name, NULL, name##_empty },
static const struct row {
    const char *name;
    void (*null)(void), (*empty)(void);
} rows[] = { ROWS(TWO_FUNCTIONS, ONE_FUNCTION) };

/* ---- measuring ---- */

/* Nanoseconds of a row's calls, once. */
static double least(void (*calls)(void))
{
    double best = 0;

    for (int batch = 0; batch < BATCHES; batch++) {
        double start = MPI_Wtime(), took;

        calls();
        took = (MPI_Wtime() - start) * 1e9 / CALLS;
        if (batch == 0 || took < best)
            best = took;
    }
    return best;
}

static void measure(bool json)
{
    if (!json)
        printf("%-18s %16s %16s\n", "ns", "to MPI_PROC_NULL", "empty component");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char null[32];

        snprintf(null, sizeof null, json ? "null" : "-");
        if (rows[i].null != NULL)
            snprintf(null, sizeof null, "%.2f", least(rows[i].null));
        printf(json ? "{\"row\": \"%s\", \"null_ns\": %s, \"empty_ns\": %.2f}\n"
                    : "%-18s %16s %16.2f\n", rows[i].name, null, least(rows[i].empty));
    }
}

int main(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    ompi_osc_base_module_t *module, whole;
    void *memory;
    int rank;

    if (argc > 1 && !json) {
        bool help = strcmp(argv[1], "--help") == 0;

        fprintf(help ? stdout : stderr,
                "Usage: mpirun -np 1 empty_calls [--json]\n"
                "Nanoseconds of what a row of rma_bench calls, if the component does nothing.\n");
        return help ? 0 : 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
    module = win->w_osc_module;
    memcpy(&whole, module, sizeof whole);
    MPI_Win_lock_all(0, win);
    empty(module);
    if (rank == 0)
        measure(json);
    memcpy(module, &whole, sizeof whole);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MPI_H
#define LOCI_MPI_H

#include <stdbool.h>

#include <loco/log.h>
#include <loco/mpi.h>

/* What the component asks of libloco_mpi.so beyond <loco/mpi.h>.
 *
 * The component may be unloaded and loaded again, and native channels may outlive it; so what a
 * process has once, its runtime and who uses it, lives in the library, which stays. */

/* What the component gives while it is loaded: tunables for the runtime, an ear for its log, and
 * the channel behind a window of its own, or NULL. */
struct loci_mpi_component {
    char **(*settings)(void);   /* "LOCO_SPIN=50"..., NULL-ended; the list and its texts malloced */
    /* False: nobody has asked Open MPI for such lines. Called by any thread; not after unset. */
    bool (*log)(int level, const char *text);
    loco_window_t *(*window_of)(MPI_Win win);
};
/* NULL: unloaded. */
void loci_mpi_set_component(const struct loci_mpi_component *component);

/* In MPI_Init and MPI_Finalize: begin and end to learn of memory that is given back, for runtimes
 * that register it. */
void loci_mpi_hook_memory(bool on);

/* Whether the process had this library before the component that `address` lies in: then it is not
 * there for the component alone, but a program of the native API has it. */
bool loci_mpi_was_loaded_before(const void *address);

/* Local: the process's runtime, opened if need be with this process alone in loco_everyone().
 * Every success is ended by one loci_mpi_close. */
int loci_mpi_open(loco_runtime_t **rt);
void loci_mpi_close(void);
/* Whether its fabric reaches processes of other machines. */
bool loci_mpi_spans_machines(const loco_runtime_t *rt);

/* Collective: each of the n values becomes the least that any member of `comm` brought (of
 * statuses the worst). Needs no memory, so that being short of it can be told. */
int loci_mpi_agree(MPI_Comm comm, int *values, int n);

/* With MPI_THREAD_SERIALIZED only the thread that is inside a call of MPI may make it progress.
 * The component's blocking calls say when they begin and end. Does nothing at other levels. */
void loci_mpi_enter(void);
void loci_mpi_leave(void);
/* Whether this thread may call into Open MPI now. */
bool loci_mpi_may_call(void);

/* Whether the calling thread, which is in MPI's progress, polls on after it. False between two
 * sleeps of one of the runtime's waits: it then serves nobody soon. */
bool loci_mpi_spins(void);

#endif

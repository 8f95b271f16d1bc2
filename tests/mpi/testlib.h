/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers shared by the MPI-level tests: a table of cases, their verdict agreed by all ranks, a
 * watchdog per case, and windows of the four flavors behind one handle.
 *
 * A case calls tl_fail() and its like on any rank; after it the ranks agree on one verdict, which
 * rank 0 prints as `PASS name`, `FAIL name: reason` or `SKIP name: reason`.
 */
#ifndef LOCO_TESTS_MPI_TESTLIB_H
#define LOCO_TESTS_MPI_TESTLIB_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TL_ALLOCATE = 1,
    TL_SHARED = 2,
    TL_CREATE = 4,
    TL_DYNAMIC = 8,
    TL_ALL = 15
};

struct tl_case {
    const char *name;
    void (*run)(int flavor);
    unsigned flavors; /* run once for each of these; 0: once, with flavor 0 */
    int min_ranks;
    unsigned seconds; /* the watchdog's limit; 0: 60 */
};

/* Runs the cases; returns main()'s exit status. `level` is the thread level asked of MPI. */
int tl_main(int argc, char **argv, const char *program, int level, const struct tl_case *cases,
            int count);
/* The value behind an option of the command line such as "--seed"; `otherwise` if not given. */
long tl_option(const char *option, long otherwise);
const char *tl_program_path(void);
/* Named by the watchdog if the case hangs: what it waits for. "" to end it. */
void tl_phase(const char *doing);

int tl_rank(void);
int tl_size(void);
unsigned tl_scale(void); /* how many times longer things may take here: TL_TIMEOUT_SCALE, or 1 */
/* With TL_ONE_OF=N, for a wire that is too slow for all: of what a test goes through, is it the
 * turn of number `at`? Each Nth has one, others for each case, the same on all ranks. */
int tl_turn(unsigned at);
int tl_rounds(int rounds); /* so many, or an Nth of them, rounded up */
int tl_failed(void);
const char *tl_flavor_name(int flavor);
/* Whether a window of that flavor may be refused, which is then a skip: TL_REFUSED_IS_SKIP names
 * the flavor, or is 1, for a component that is not ours and may refuse any (flavor 0: is it?). */
int tl_may_refuse(int flavor);
/* Whether all ranks run on one machine, as Open MPI sees it: else its core refuses to allocate
 * shared windows, before it looks at anything else. Collective. */
int tl_one_machine(void);

void tl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tl_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Each returns whether the check held. */
int tl_true(int holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tl_ok(int rc, const char *call);
int tl_class(int rc, const char *call, int wanted);
int tl_class2(int rc, const char *call, int wanted, int also);
int tl_eq(long long got, long long wanted, const char *what);

/* Deterministic random numbers: the state is the seed. */
uint64_t tl_random(uint64_t *state);
uint64_t tl_mix(uint64_t a, uint64_t b);
int tl_below(uint64_t *state, int bound);
void tl_pattern(void *to, size_t bytes, uint64_t seed);

void tl_barrier(void);
double tl_now(void); /* seconds, of no MPI call */
double tl_queued(void); /* seconds that the first thread waited for a CPU; 0: not told */
void tl_compute(double seconds); /* uses the CPU, makes no MPI call */
void tl_wait_quietly(double seconds); /* sleeps, makes no MPI call */

/* A window of any flavor. Memory that is ours (create, dynamic) has guard bytes at both ends. */
struct tl_win {
    MPI_Win win;
    MPI_Comm comm;
    int flavor;
    int rank, size;
    unsigned char *base;
    size_t bytes;
    unsigned char *block;
    int *unit;         /* displacement unit of each rank */
    MPI_Aint *address; /* of each rank's base, for a dynamic window */
};

/* Collective over comm. Returns 1 when it is there on all ranks, 0 when the case is to end. */
int tl_win_open(struct tl_win *w, int flavor, MPI_Comm comm, size_t bytes, int unit);
int tl_win_open_info(struct tl_win *w, int flavor, MPI_Comm comm, size_t bytes, int unit,
                     MPI_Info info);
void tl_win_close(struct tl_win *w);
/* The target displacement that names this byte of the target's part. */
MPI_Aint tl_disp(const struct tl_win *w, int target, size_t byte);
/* Exclusive access to one's own part, between epochs. */
void tl_local_begin(struct tl_win *w);
void tl_local_end(struct tl_win *w);

/* The ways to open an access epoch to one target, used alike by all ranks. */
enum tl_epoch {
    TL_FENCE,
    TL_LOCK_ALL,
    TL_LOCK_SHARED,
    TL_LOCK_EXCLUSIVE,
    TL_PSCW,
    TL_EPOCHS
};
const char *tl_epoch_name(enum tl_epoch how);
int tl_epoch_passive(enum tl_epoch how);
/* Collective; `origin` is the rank that has this one as its target. */
void tl_epoch_open(struct tl_win *w, enum tl_epoch how, int target, int origin);
void tl_epoch_close(struct tl_win *w, enum tl_epoch how, int target);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_RUN_H
#define TESTS_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <loco/runtime.h>

#include "weak.h"

/* One test body, several fabrics: forked processes over shm, and threads over the weak fabric. */

enum run_fabric { RUN_SHM, RUN_WEAK };

#define RUN_KILLED (-9)     /* a forked process may end so: by kill(getpid(), SIGKILL) */

/* Run fn(rt, rank, arg) in n processes; 0 if all returned 0. Seed is for RUN_WEAK. With RUN_SHM
 * what fn writes through `arg` stays in its process. */
int run_on(enum run_fabric fabric, int n, uint64_t seed, const char *const *settings, weak_fn *fn,
           void *arg);

/* All members come together: afterwards each may destroy what others used. Threads of one process
 * in turn. */
int run_meet(loco_runtime_t *rt);

/* Counting members, for where one of them is to die: a number, 0 at first, that forked processes
 * share, and the wait until it is n or more: 0, or 1 and a line on stderr after RUN_PATIENCE. */
_Atomic int *run_counter(void);
int run_await(_Atomic int *counter, int n);
/* All members come together, and each knows that all have, so that one may die: on a slow wire its
 * death is heard of before the last that has come. `met` is such a number. */
int run_meet_alive(loco_runtime_t *rt, _Atomic int *met);

/* n threads that run fn(arg, thread); 0 or the first other result. */
typedef int run_thread_fn(void *arg, int thread);
int run_threads(int n, run_thread_fn *fn, void *arg);

/* Nanoseconds for what takes a moment, unless the machine has more to do than it can. */
#define RUN_PATIENCE INT64_C(20000000000)
/* A test's limit: enough for devices that are emulated, on a network that loses packets. */
#ifndef RUN_SECONDS
#define RUN_SECONDS 600
#endif
/* Nanoseconds that something may take: as many, times TEST_SCALE of the environment, by which a
 * build with a sanitizer is slower. */
int64_t run_limit(int64_t ns);
/* Whether something that began at `start`, of run_now(), has taken longer than run_limit(ns). Of
 * what it took, only the part counts for which threads of this process that could run did run: on a
 * busy machine all takes longer. */
bool run_too_long(int64_t start, int64_t ns);

/* Before the runtime opens: put this process on one of TEST_NODES nodes, if the environment says
 * how many, in turn by its rank. */
void run_on_node(int rank);

/* A hook for the log: errors go to stderr with TEST_VERBOSE, else nothing is said. */
void run_log(void *ctx, int level, const char *text);
/* Rounds of a long loop: `normal`, fewer by TEST_SCALE. */
int run_rounds(int normal);
/* Rounds of a test that throws random words at something: FUZZ_ROUNDS of the environment, or as
 * above. */
int run_fuzz_rounds(int normal);
/* Whether a thread of the test may change words while a reader that must cope with it reads them.
 * That is a data race on purpose, which the thread sanitizer reports: under it the answer is no,
 * and a printed line names the `part` of the test that is left out. */
bool run_may_race(const char *part);
/* A random number; *state is not 0. */
uint64_t run_random(uint64_t *state);
/* Whether processes of RUN_SHM share memory: not where the environment gives all data to a
 * device, or to connections between machines. */
bool run_shares(void);
/* Nanoseconds of the monotonic clock. */
int64_t run_now(void);

/* In the body of a weak_fn: leave it with a line on stderr. */
#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)
#define CHECK_EQ(a, b)                                                                            \
    do {                                                                                          \
        long long check_a = (long long)(a), check_b = (long long)(b);                             \
        if (check_a != check_b) {                                                                 \
            fprintf(stderr, "%s:%d: %s is %lld, %s is %lld\n", __FILE__, __LINE__, #a, check_a,   \
                    #b, check_b);                                                                 \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)
#define CHECK_OK(call) CHECK_EQ(call, LOCO_OK)

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MEMBER_H
#define TESTS_MEMBER_H

#include <stdint.h>

#include <loco/runtime.h>
#include <loco/window.h>

#include "run.h"

/* Processes that make windows: run_on() with an exchange, and patterns to fill memory with. */
struct member {
    loco_runtime_t *rt;
    struct loco_exchange exchange;
    int rank, n;
    unsigned seed;                  /* for rand_r; differs by member */
    void *arg;
};

typedef int member_fn(struct member *m);

/* Run fn in n processes, over shm, or in n threads over the weak fabric. 0 if all returned 0.
 * `statuses` (RUN_SHM; n ints, or NULL): as of loco_fork_wait. */
int member_run(enum run_fabric fabric, int n, member_fn *fn, void *arg, int *statuses);
/* The same with another seed than 1 for the weak fabric. */
int member_run_seed(enum run_fabric fabric, int n, uint64_t seed, member_fn *fn, void *arg,
                    int *statuses);

/* The same over each of them, in a test of Criterion's. */
#define ON_EACH_FABRIC(n, fn, arg)                                                              \
    do {                                                                                        \
        cr_assert_eq(member_run(RUN_SHM, n, fn, arg, NULL), 0, "%d members, shm", n);           \
        cr_assert_eq(member_run(RUN_WEAK, n, fn, arg, NULL), 0, "%d members, weak", n);         \
    } while (0)

/* A window of `size` bytes at each member, of this kind. */
int member_window(struct member *m, enum loco_window_kind kind, void *base, size_t size,
                  loco_window_t **win);

/* Calls of one span or element. */
int member_put(loco_window_t *win, int rank, uint64_t offset, const void *from, size_t len);
int member_get(loco_window_t *win, int rank, uint64_t offset, void *to, size_t len);
int member_accumulate(loco_window_t *win, int rank, enum loco_type type, enum loco_op op,
                      uint64_t offset, const void *operand, void *result, size_t n);

#endif

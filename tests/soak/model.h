/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serial model: what each statement does, one after the other, and whether the program is one
 * whose result the MPI standard determines.
 *
 * The listed order is one of many in which the statements may really happen. The model keeps
 * vector clocks over all threads, in which only what the standard promises counts as order, and
 * refuses a statement that conflicts with an earlier one which is not over for certain; that is
 * in the wrong epoch; that could wait for ever in some other order of things. What is left has
 * one result, but for fetching accumulates that run at the same time: of those any result is
 * right that some order of them explains.
 */
#ifndef LOCO_TESTS_SOAK_MODEL_H
#define LOCO_TESTS_SOAK_MODEL_H

#include "program.h"

enum { WHY = 200 };

struct model;

/* Only the head of p is looked at, and has to stay. */
struct model *model_new(const struct program *p);
void model_free(struct model *m);
/* Does the next statement if it is allowed; else says why not, and nothing has changed. */
bool model_step(struct model *m, const struct statement *s, char *why);
/* Is nothing left open? */
bool model_over(const struct model *m, char *why);
long model_operations(const struct model *m);

/* ---- what is open, for a generator ---- */

bool model_window_open(const struct model *m, int win);
bool model_fence_open(const struct model *m, int win);      /* operations may follow */
bool model_locked(const struct model *m, int win, int rank, int target);
bool model_locked_all(const struct model *m, int win, int rank);
bool model_fence_used(const struct model *m, int win);
bool model_posted(const struct model *m, int win, int target, int origin); /* not started */
bool model_started(const struct model *m, int win, int rank);
bool model_exposed(const struct model *m, int win, int rank);
bool model_attached(const struct model *m, int win, int part);
/* Up to `room` requests of a thread's process that nobody has waited for. */
int model_requests(const struct model *m, int rank, int *list, int room);

/* ---- what is right ---- */

/* The bytes that a statement left at a rank: SOAK_GUARD bytes, those that its result touches (the
 * whole part for V_FREE), SOAK_GUARD bytes. Those that it does not write hold SOAK_BLANK. */
enum { SOAK_BLANK = 0xc3 };
struct outcome {
    int statement, part;    /* part: of V_FREE, else -1 */
    size_t bytes;
    const unsigned char *data;
};
/* What has to come out, in the form of an outcome; mask is not 0 where any byte is right. NULL if
 * nothing comes out, or if several things may. */
const unsigned char *model_expects(const struct model *m, int statement, int part,
                                   const unsigned char **mask, size_t *bytes);
/* The number of wrong outcomes; `why` says what is wrong with the first. */
int model_compare(struct model *m, const struct outcome *list, int n, char *why, size_t room);

#endif

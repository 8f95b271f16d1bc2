/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TESTS_SOAK_EXECUTE_H
#define LOCO_TESTS_SOAK_EXECUTE_H

#include "model.h"

/* What one rank saw; malloced. */
struct record {
    int n, room;
    struct outcome *o;
};
void record_free(struct record *r);

/* Told by any thread of any rank, before the job is ended: does not return. */
typedef void fatal_fn(int statement, const char *text);

/* Where the threads of this rank are: number of the statement, for who waits for them. */
struct place {
    int statement[SOAK_THREADS];
};

/* Collective over MPI_COMM_WORLD. Runs one rank's part of the program. */
void execute(const struct program *p, struct record *record, struct place *place,
             fatal_fn *fatal);
/* What is kept between programs. */
void execute_end(void);

/* execute_types.c */
MPI_Datatype datatype_of(const struct type *t);     /* committed */

#endif

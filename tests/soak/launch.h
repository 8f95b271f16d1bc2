/* SPDX-License-Identifier: BSD-3-Clause */
/* One mpirun of `batch`, watched. */
#ifndef LOCO_TESTS_SOAK_LAUNCH_H
#define LOCO_TESTS_SOAK_LAUNCH_H

#include "program.h"

struct job {
    int ranks, threads;
    const char *component;
    bool late_requests, no_cma;     /* ways of loco that are otherwise rare */
    const char *folder;             /* of this run of soak */
    const char *file;               /* programs, or NULL: from seeds */
    uint64_t seed;
    int count;
    int repeat;
    int patience;                   /* seconds without news */
};

enum end { E_FINE, E_WRONG, E_INVALID, E_FATAL, E_CRASHED, E_HUNG };

struct failure {
    int number;                     /* of the program in the job */
    enum end end;
    char why[600];
};

enum { FAILURES = 64 };
struct result {
    int failures;
    struct failure failure[FAILURES];
    int programs;                   /* that were begun */
    long operations, statements;
    bool ended;                     /* all programs were tried */
    char *current;                  /* malloced: the program that ended the job, else NULL */
};

const char *end_name(enum end e);
/* False if the job could not even begin: then `why` of the first failure says it. */
bool launch(const struct job *job, struct result *result);
void result_free(struct result *r);
char *slurp(const char *path);      /* malloced; NULL */

#endif

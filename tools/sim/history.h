/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

/* What clients asked of an object and what they were told, in the order of asking and telling.
 *
 * Stamps count the calls and returns of one history, from 1, so no two are equal and their order is
 * the order in which the functions below were called. That is the real-time order where one OS
 * thread runs all clients, as the simulator does; nothing here is safe with several threads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LOCI_NEVER UINT64_MAX

struct loci_op {
    int client;                 /* loci_history_client() */
    int op;                     /* of the kind of object */
    uint64_t key;               /* which of several objects; or the key of a map */
    uint64_t arg, arg2;
    uint64_t call;              /* stamps */
    uint64_t ret;               /* LOCI_NEVER: the client died, was not told, or the run ended; the
                                   operation may have taken effect, or may yet, or not */
    int status;                 /* outcome of those that may say no: false or true */
    uint64_t result;
};

/* How an operation is shown: %k key, %a arg, %b arg2 in `call`; %s status, %r result, %o result
 * or "none" by status in `ret`, which may be NULL. Ended by a NULL call. */
struct loci_op_form {
    const char *call;           /* "insert(k=%k, v=%a)" */
    const char *ret;            /* "%s" */
};

struct loci_history {
    struct loci_op *ops;        /* in the order of their calls */
    size_t nops, room;
    uint64_t stamp;             /* the latest one given */
    const struct loci_op_form *forms;
};

static inline int loci_history_client(int process, int thread)
{
    return process << 16 | thread;
}

static inline bool loci_op_returned(const struct loci_op *op)
{
    return op->ret != LOCI_NEVER;
}

/* forms: kept, not copied; NULL shows numbers only. Running out of memory here ends the program. */
void loci_history_init(struct loci_history *history, const struct loci_op_form *forms);
void loci_history_fini(struct loci_history *history);
/* Empty again, with its memory. */
void loci_history_clear(struct loci_history *history);

/* Index of the operation, from 0. */
int loci_history_call(struct loci_history *history, int client, int op, uint64_t key, uint64_t arg,
                      uint64_t arg2);
/* Not called where the caller got an error: nobody knows then whether the operation took place. */
void loci_history_return(struct loci_history *history, int index, int status, uint64_t result);

/* "p2.t1 [13..47] insert(k=5, v=12) -> true", without a newline. A return later than `until`, and
 * one that never was, is shown as "?". As snprintf: what would have been written. */
int loci_op_print(char *out, size_t size, const struct loci_op *op,
                  const struct loci_op_form *forms, uint64_t until);
/* All of it, a line each. */
void loci_history_print(FILE *out, const struct loci_history *history);

/* Memory for `want` items or more of `size` bytes; never fails. */
void *loci_history_grow(void *items, size_t *room, size_t want, size_t size);

#endif

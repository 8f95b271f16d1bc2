/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_LINEAR_H
#define SIM_LINEAR_H

/* Is a history linearizable: could each operation have taken effect at one instant between its
 * call and its return, with the outcome that its client was told? (Herlihy & Wing 1990.)
 *
 * Operations of different keys are on different objects, which are checked one by one:
 * linearizability is local (and so is what a map does with one key: Horn & Kroening, "Faster
 * linearizability checking via P-compositionality", FORTE 2015). What never returned may have taken
 * effect at any time after its call, or not at all. How it is done is told in linear_search.c,
 * linear_queue.c and linear_register.c. */

#include "history.h"

enum loci_linear_kind {
    LINEAR_REGISTER,            /* 8 bytes, at first 0 */
    LINEAR_LOCK,                /* of the client that acquired it */
    LINEAR_RWLOCK,
    LINEAR_COUNTER,             /* at first 0 */
    LINEAR_QUEUE,               /* first in, first out; no limit */
    LINEAR_MAP,                 /* one key; all keys at first absent */
    LINEAR_KINDS
};

/* Operation codes, with what their arguments, status and result are. */
enum {
    LINEAR_READ,                /* result */
    LINEAR_WRITE,               /* arg */
    LINEAR_CAS,                 /* arg expected, arg2 desired; result: the old value, which alone
                                   says whether it was done */
    LINEAR_FETCH_ADD,           /* arg; result: the old value */
    LINEAR_EXCHANGE,            /* arg; result: the old value */
};
enum {
    LINEAR_ACQUIRE,             /* exclusive; all that a LINEAR_LOCK knows are the first three */
    LINEAR_RELEASE,
    LINEAR_TRY,                 /* status; false only if it is held */
    LINEAR_ACQUIRE_SHARED,
    LINEAR_RELEASE_SHARED,
    LINEAR_TRY_SHARED,          /* status; false only if it is held exclusive */
};
enum {
    LINEAR_GET,                 /* result */
    LINEAR_ADD,                 /* arg */
    LINEAR_GET_ADD,             /* arg; result: what it was before */
};
enum {
    LINEAR_PUSH,                /* arg; status, where false (it was refused) means no effect */
    LINEAR_POP,                 /* status, result; false: there was nothing */
};
enum {
    LINEAR_INSERT,              /* arg; status: it was absent, and now has this value */
    LINEAR_UPDATE,              /* arg; status: it was there, and now has this value */
    LINEAR_DELETE,              /* status: it was there */
    LINEAR_LOOKUP,              /* status: it is there; result */
    LINEAR_COMPARE_SET,         /* arg expected, arg2 desired, neither 0; status: it had the one and
                                   has the other now; if not, result: the value found, 0: absent */
    LINEAR_PUT,                 /* arg; it has this value, whether it was there or not */
};

/* An object that is not one of these. A state is plain bytes, which are copied and compared; two
 * states that behave alike should be the same bytes, padding too. */
struct loci_linear_spec {
    const char *name;
    const struct loci_op_form *forms;
    const void *param;          /* for init */
    size_t state_size;          /* bytes */
    size_t state_per_op;        /* bytes more for each operation of the history; see used */
    void (*init)(void *state, const void *param);       /* begins as zeros */
    /* The operation takes effect. False, with nothing changed, if what its client was told (if it
     * returned) cannot be told in this state, or if it has to wait in this state. */
    bool (*apply)(void *state, const struct loci_op *op);
    /* All below may be NULL. used: bytes of state that matter, a multiple of 8. */
    size_t (*used)(const void *state);
    /* With its outcome, or with any if it has not returned, it never changes any state. */
    bool (*reads)(const struct loci_op *op);
    /* It can take effect in every state, tells its client nothing of that, and leaves the same
     * state whatever was before. */
    bool (*overwrites)(const struct loci_op *op);
    /* Two of the same outcome, or both without, do the same to every state. loci_linear_same() is
     * the answer where apply does not look at the client. */
    bool (*same)(const struct loci_op *a, const struct loci_op *b);
};

bool loci_linear_same(const struct loci_op *a, const struct loci_op *b);
const struct loci_linear_spec *loci_linear_spec(enum loci_linear_kind kind);
/* How its operations are shown, for loci_history_init(). */
const struct loci_op_form *loci_linear_forms(enum loci_linear_kind kind);

enum {
    LINEAR_OK,
    LINEAR_NOT,
    LINEAR_GAVE_UP,             /* more states than the budget, or than memory */
};

#define LINEAR_REPORT_OPS 32

struct loci_linear_report {
    int verdict;
    uint64_t key;               /* of the object that is not linearizable; or was given up */
    /* LINEAR_NOT: what had been called and returned at this stamp is not linearizable already, and
     * what had at the one before is (of all keys; unless not `smallest`, where it took too long to
     * know). The operations are those that contradict each other, or, if there is no simpler
     * reason: the one that returns with this stamp, and those under way then. */
    uint64_t stamp;
    bool smallest;
    const char *why;
    int nops;
    int ops[LINEAR_REPORT_OPS];
    uint64_t states;            /* that were looked at; 0: a special method did it */
};

/* LINEAR_OK and so on, which is also the report's verdict. The report may not be NULL. */
int loci_linear_check(const struct loci_history *history, enum loci_linear_kind kind,
                      struct loci_linear_report *report);
/* By general search. budget: of states, for all keys; 0: a default. */
int loci_linear_check_spec(const struct loci_history *history, const struct loci_linear_spec *spec,
                           uint64_t budget, struct loci_linear_report *report);
/* What is wrong; nothing for LINEAR_OK. */
void loci_linear_print(FILE *out, const struct loci_history *history,
                       const struct loci_linear_report *report);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SMALLBANK_H
#define TESTS_SMALLBANK_H

/* SmallBank on a store, by a few processes, one of which something happens to at a random moment.
 * The processes have all that is told of it in memory that they share with the parent. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <loco/loco.h>

enum { BANK_PROCESSES = 4, BANK_STAMPS = 1 << 22 };

/* What happens to the victim. */
enum bank_event {
    BANK_KILLED,
    BANK_STOPPED,           /* by SIGSTOP; SIGCONT comes later */
    BANK_LEFT,              /* it makes no more transactions: to compare with */
    BANK_EVENTS
};

/* Of one process. */
struct bank_member {
    int64_t added;          /* by its committed transactions; */
    _Atomic int64_t adding; /* and by the one that it is about to commit */
    uint64_t filled;        /* objects that it made at the end */
    loco_store_stats_t stats;
    _Atomic uint32_t n;
    uint32_t stamp[BANK_STAMPS];        /* when each was committed: ns after the start */
};

struct bank {
    /* By the parent, before. */
    enum bank_event event;
    int victim;
    uint64_t seed;
    /* By the parent, meanwhile; 0: not yet. Nanoseconds of run_now(). */
    _Atomic int64_t start;
    _Atomic int go;         /* and go */
    _Atomic int64_t leave;  /* the victim is to leave at once */
    _Atomic int64_t until;
    /* By the processes. */
    _Atomic int ready, ended, turn;
    int64_t at_first, found;            /* in all accounts */
    uint64_t blocks;        /* of the store, all that may have a value */
    loco_store_scavenged_t first, again;        /* scavenged, and once more */
    struct bank_member member[BANK_PROCESSES];
};

/* A process: 0, or 1 and a line on stderr. arg: the bank. */
int bank_member(const struct loco_bootstrap *boot, void *arg);

/* ---- when transactions were committed ---- */

#define BANK_BIN INT64_C(1000000)       /* ns */
#define BANK_WINDOW INT64_C(100000000)  /* ns, before and after the moment, that are looked at */

/* All times are ns; those of after begin at the moment. Of all but the victim, but for `before`. */
struct bank_times {
    int64_t first_any, first_all;       /* until one, until each had committed something */
    int64_t gap_any[2], gap_one[2];     /* the longest without a commit, of all together, and of
                                           any one of them: before the moment, and after it */
    int empty[2];                       /* bins without a commit */
    uint64_t commits[2];
};

/* Bins around the moment, of many rounds. */
struct bank_line {
    int rounds;
    int empty[2 * BANK_WINDOW / BANK_BIN];
    uint64_t commits[2 * BANK_WINDOW / BANK_BIN];
};

/* `moment`: ns after the start. */
void bank_look(const struct bank *bank, int64_t moment, struct bank_times *times,
               struct bank_line *line);

#endif

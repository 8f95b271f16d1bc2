/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TREES_H
#define TESTS_TREES_H

/* A tree that a few processes change, one of which is killed at a random moment. The processes have
 * all that is told of it in memory that they share with the parent. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <loco/loco.h>

enum { WOOD_PROCESSES = 3, WOOD_KEYS = 200 };

/* A key, which one process alone changes. A value is a number; 0: the key is not there. */
struct wood_key {
    _Atomic uint64_t is, next;          /* after the last call that returned; and after the next */
    _Atomic bool under_way;             /* that one has begun */
};

/* Between two returns, ns. */
struct wood_pause {
    int64_t longest, awake;             /* awake: without what it waited for a CPU */
};

/* Of one process. */
struct wood_member {
    struct wood_key key[WOOD_KEYS];
    uint64_t calls;
    struct wood_pause pause[2];         /* before the moment, and after it */
};

struct wood {
    /* By the parent, before. */
    int victim;
    uint64_t seed;
    /* By the parent, meanwhile; 0: not yet. Nanoseconds of run_now(). */
    _Atomic int go;
    _Atomic int64_t moment, until;
    /* By the processes. */
    _Atomic int ready, ended, looked;
    uint64_t found, objects;            /* keys, and objects, at the end */
    int in_doubt;                       /* 0, or 1: the key that the victim was at; 2: and it is
                                           changed */
    struct wood_member member[WOOD_PROCESSES];
};

/* A process: 0, or 1 and a line on stderr. arg: the wood. */
int wood_member(const struct loco_bootstrap *boot, void *arg);

#endif

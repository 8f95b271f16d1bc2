/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MACHINE_CHANNELS_H
#define TESTS_MACHINE_CHANNELS_H

/* Channels of every kind, for tests that do the same with each: how one is made, used and
 * destroyed. All members make it, and use it as often. */

#include <loco/loco.h>

struct member {
    loco_runtime_t *rt;
    const loco_group_t *all;
    const struct loco_exchange *exchange;
    int me, n;
    unsigned seed;                      /* for rand_r */
};

/* Windows are the last: all members make and end them together. */
#define KINDS 13
#define WINDOW (KINDS - 1)
#define BARRIER 5

extern const struct kind {
    const char *name;
    int (*make)(struct member *m, const char *name, void *made);
    int (*use)(struct member *m, void *made);
    void (*destroy)(void *made);
} kinds[KINDS];

#endif

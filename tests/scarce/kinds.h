/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SCARCE_KINDS_H
#define TESTS_SCARCE_KINDS_H

#include <loco/loco.h>

/* What channels.c makes and uses with calls that fail. All three members run the same. */

#define PATIENCE INT64_C(8000000000)       /* ns, for what others do: more is a hang */

struct member {
    loco_runtime_t *rt;
    const struct loco_exchange *exchange;
    int rank, size;
    char name[32];                          /* new in each round */
};

/* `use` may be called again when it has failed, and has to succeed then. It returns 1 where what it
 * got is wrong. */
struct kind {
    const char *name;
    int (*create)(const struct member *m, void **channel);
    int (*use)(const struct member *m, void *channel);
    void (*destroy)(void *channel);
    bool collective;                        /* create and destroy are */
};

extern const struct kind kinds[];           /* ended by one without a name */

#endif

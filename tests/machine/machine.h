/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MACHINE_H
#define TESTS_MACHINE_H

/* What the tests of machine-level promises share: lines of TAP, and a member's world. */

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/fork.h>

#include "memory/memory.h"
#include "move/rma.h"
#include "wait.h"

#define MEMBERS_MAX 16

/* In a member: leave it with a line on stderr. */
#define NEED(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

struct tap {
    int lines, failures;
};

__attribute__((format(printf, 3, 4)))
static inline bool tap_ok(struct tap *tap, bool ok, const char *fmt, ...)
{
    va_list args;

    printf("%s %d - ", ok ? "ok" : "not ok", ++tap->lines);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    tap->failures += !ok;
    return ok;
}

static inline void tap_skip(struct tap *tap, const char *what, const char *why)
{
    printf("ok %d - %s # SKIP %s\n", ++tap->lines, what, why);
    fflush(stdout);
}

static inline int tap_end(const struct tap *tap)
{
    printf("1..%d\n", tap->lines);
    return tap->failures > 0;
}

/* A member's runtime, its memory of either kind, and how it reaches its peers'. */
struct world {
    loco_runtime_t *rt;
    const struct loco_exchange *exchange;
    int me, n;
    struct loci_mem pool, user;
    unsigned char *memory;              /* of `user` */
    struct loci_mem pools[MEMBERS_MAX], users[MEMBERS_MAX];
};

static inline int together(struct world *w)
{
    unsigned char nothing[1];

    return w->exchange->allgather(w->exchange->ctx, NULL, 0, nothing);
}

static inline int share(struct world *w, const struct loci_mem *mine, struct loci_mem *all)
{
    struct loci_memkey keys[MEMBERS_MAX];
    int status = w->exchange->allgather(w->exchange->ctx, &mine->key, sizeof mine->key, keys);

    /* Without an endpoint or a window: what the fabric has for them stays, also of the dead. */
    loci_peers_use(w->rt, w->rt->everyone->peer, w->n);
    for (int i = 0; status == LOCO_OK && i < w->n; i++) {
        status = loci_mem_import(w->rt, w->rt->everyone->peer[i], &keys[i], &all[i]);
        loci_mem_set_domain(&all[i], loci_domain_of(w->rt->everyone));
    }
    return status;
}

static inline int enter(struct world *w, const struct loco_bootstrap *boot, size_t len)
{
    int status;

    memset(w, 0, sizeof *w);
    w->exchange = &boot->exchange;
    w->me = boot->exchange.rank;
    w->n = boot->exchange.size;
    status = loco_runtime_open(boot, &w->rt);
    if (status != LOCO_OK || len == 0)
        return status;
    w->memory = calloc(1, len);
    if (w->memory == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_alloc(w->rt, len, 0, &w->pool);
    if (status == LOCO_OK)
        status = loci_user_add(w->rt, w->memory, len, &w->user);
    if (status == LOCO_OK)
        status = share(w, &w->pool, w->pools);
    return status == LOCO_OK ? share(w, &w->user, w->users) : status;
}

static inline int leave(struct world *w)
{
    int status = together(w);

    if (w->memory != NULL) {
        loci_user_remove(w->rt, &w->user);
        loci_free(w->rt, &w->pool);
    }
    loco_runtime_close(w->rt);
    free(w->memory);
    return status;
}

#endif

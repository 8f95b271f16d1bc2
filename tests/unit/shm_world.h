/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SHM_WORLD_H
#define TESTS_SHM_WORLD_H

/* Forked processes with memory that they show each other, for the tests of the fabric of one node.
 * Members return 0, or 1 with the line that is not so on stderr; the parent asserts. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <loco/fork.h>

#include "fabric/shm/shm.h"
#include "move/rma.h"
#include "run.h"
#include "wait.h"

/* Members end by _exit, so that the address sanitizer has to be asked for leaks. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define LEAKS() __lsan_do_recoverable_leak_check()
#else
#define LEAKS() 0
#endif

#define LEN ((size_t)1 << 20)
#define NEED(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

/* ---- what members share ---- */

/* How a member's runtime is opened. */
struct setup {
    bool foreign;               /* as if every process had its own pid namespace; */
    bool closed;                /* /proc/PID/fd had nothing for peers */
    const char *settings[4];
    bool own_node;              /* each its own LOCO_NODE */
    loco_log_fn *log;
    void *log_ctx;
};

/* A member's memory, and how its peers reach it. */
struct world {
    loco_runtime_t *rt;
    const struct loco_exchange *exchange;
    int me, n;
    struct loci_mem pool, user;
    unsigned char *memory;                  /* of `user` */
    struct loci_mem pools[8], users[8];     /* by rank */
};

static inline int foreign_open(struct loco_runtime *rt, struct loci_address *mine,
                        struct loci_fabric **fabric)
{
    int status = loci_fabric_shm.open(rt, mine, fabric);

    if (status == LOCO_OK) {
        shm_of(*fabric)->pid_space = (uint64_t)getpid();
        mine->fabric[0] = (uint64_t)getpid();
    }
    return status;
}

/* Keys then name a descriptor that nobody has. */
#define NO_SUCH_FD ((UINT64_C(1) << SHM_KEY_FD_BITS) - 1)

static inline int closed_open(struct loco_runtime *rt, struct loci_address *mine,
                              struct loci_fabric **fabric)
{
    int status = loci_fabric_shm.open(rt, mine, fabric);

    mine->fabric[2] |= NO_SUCH_FD;      /* of the page of offers */
    return status;
}

static inline int open_runtime(const struct loco_bootstrap *boot, const struct setup *setup,
                        loco_runtime_t **rt)
{
    struct loci_fabric_ops ops = loci_fabric_shm;
    static struct loci_fabric_ops kept;
    struct loco_bootstrap own = *boot;
    const char *settings[6] = { setup->settings[0], setup->settings[1], setup->settings[2], NULL };
    char node[32];
    int n = 0;

    if (setup->own_node) {
        while (settings[n] != NULL)
            n++;
        snprintf(node, sizeof node, "LOCO_NODE=n%d", boot->exchange.rank);
        settings[n] = node;
    }
    own.settings = settings;
    own.log = setup->log;
    own.log_ctx = setup->log_ctx;
    if (setup->foreign)
        ops.open = foreign_open;
    if (setup->closed)
        ops.open = closed_open;
    kept = ops;
    return loci_runtime_open(&own, NULL, &kept, rt);
}

static inline int together(struct world *w)
{
    unsigned char nothing[1];

    return w->exchange->allgather(w->exchange->ctx, NULL, 0, nothing);
}

static inline int share(struct world *w, const struct loci_mem *mine, struct loci_mem *all)
{
    struct loci_memkey keys[8];

    NEED(w->exchange->allgather(w->exchange->ctx, &mine->key, sizeof mine->key, keys) == LOCO_OK);
    /* Without an endpoint or a window: what the fabric has for them stays, also of the dead. */
    loci_peers_use(w->rt, w->rt->everyone->peer, w->n);
    for (int i = 0; i < w->n; i++) {
        NEED(loci_mem_import(w->rt, w->rt->everyone->peer[i], &keys[i], &all[i]) == LOCO_OK);
        loci_mem_set_domain(&all[i], loci_domain_of(w->rt->everyone));
    }
    return 0;
}

static inline int enter(struct world *w, const struct loco_bootstrap *boot,
                        const struct setup *setup)
{
    memset(w, 0, sizeof *w);
    w->exchange = &boot->exchange;
    w->me = boot->exchange.rank;
    w->n = boot->exchange.size;
    NEED(open_runtime(boot, setup, &w->rt) == LOCO_OK);
    NEED(loci_alloc(w->rt, LEN, 0, &w->pool) == LOCO_OK);
    w->memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(w->memory != MAP_FAILED);
    NEED(loci_user_add(w->rt, w->memory, LEN, &w->user) == LOCO_OK);
    if (setup->closed)
        w->pool.key.rkey |= NO_SUCH_FD;
    NEED(share(w, &w->pool, w->pools) == 0);
    NEED(share(w, &w->user, w->users) == 0);
    return 0;
}

static inline int leave(struct world *w)
{
    NEED(together(w) == LOCO_OK);
    loci_user_remove(w->rt, &w->user);
    loci_free(w->rt, &w->pool);
    loco_runtime_close(w->rt);
    munmap(w->memory, LEN);
    NEED(LEAKS() == 0);
    return 0;
}

/* Nothing is there any more, nor does anything else get the place: a file that has no bytes. */
static inline int hole(void *at, size_t len)
{
    int fd = memfd_create("hole", MFD_CLOEXEC);

    NEED(fd >= 0);
    NEED(mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
    NEED(close(fd) == 0);
    return 0;
}

/* Run fn in n members: all must return 0. */
static inline void run(int n, loco_fork_fn *fn, const struct setup *setup)
{
    int statuses[8];

    loco_fork_run(n, fn, (void *)setup, statuses);
    for (int i = 0; i < n; i++)
        cr_expect_eq(statuses[i], 0, "member %d ended with %d", i, statuses[i]);
}

static const struct setup plain, foreign = { .foreign = true };
static const struct setup closed = { .closed = true };
static const struct setup never = { .settings = { "LOCO_CMA=never" } };

static inline int count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A log hook, also for tests that bring errors about. */
static _Atomic int dropped;

static inline void count_dropped(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    if (strstr(text, "control message of") != NULL && strstr(text, "dropped") != NULL)
        atomic_fetch_add(&dropped, 1);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the model. */
#ifndef LOCO_TESTS_SOAK_MODEL_STATE_H
#define LOCO_TESTS_SOAK_MODEL_STATE_H

#include "model.h"

#include <stdint.h>

struct clock {
    uint32_t t[SOAK_ACTORS];
};

struct event {
    int actor;              /* -1: has not happened */
    uint32_t time;
};

/* A lock that is or was held, or an exposure epoch, which is in the way of locks. */
struct hold {
    int win, target;        /* target -1: all */
    int rank, actor, statement;
    bool exclusive, exposure, open;
    bool strict;            /* must be ordered with all that conflict: others may wait inside */
    bool contended;         /* is not: must not wait inside */
    struct event begin, end;
};

enum access_class { C_READ, C_WRITE, C_ACC, C_RMW };
enum { OP_CAS = EL_OPS };

struct access {
    int statement, win, part, rank, actor, target;
    enum access_class class;
    bool local, fetches, completing;
    int op, el;
    uint64_t seed, compare;
    uint32_t issued;
    struct clock start, seen;
    struct event done;
    int request;
    long low, high;
    uint8_t *cover;         /* [low, high): 1 + place in its element, 0 where untouched */
    struct layout remote, result;
    unsigned char *before;  /* of accumulates: each element before, in list order */
    int cluster;            /* union-find: another access */
    int cluster_size;
};

struct part {
    unsigned char *data, *tag, *phase, *loose;
    bool attached;
};

enum post_state { POST_NONE, POSTED, POST_STARTED, POST_COMPLETED };

struct win_state {
    bool open;
    bool no_locks, unordered, same_op;      /* info keys */
    bool fence, fence_used;
    int fence_asserts, opened_by;
    struct part part[SOAK_PARTS];
    struct clock exposed_at[SOAK_RANKS];    /* the target's at its last fence or post */
    struct clock view[SOAK_RANKS];          /* what the owner's loads see */
    struct event looked[SOAK_RANKS];        /* when that was last brought up to date */
    struct event fenced[SOAK_RANKS];
    struct event made[SOAK_RANKS];
    bool stored[SOAK_RANKS];                /* by the owner since its last synchronisation */
    int lock[SOAK_RANKS][SOAK_RANKS];       /* of rank, on target: 1 + number of the hold */
    int lock_all[SOAK_RANKS];
    struct event epoch[SOAK_RANKS][SOAK_RANKS];
    uint32_t used[SOAK_ACTORS][SOAK_RANKS]; /* when a thread last did something to a target */
    struct event exposure[SOAK_RANKS];      /* its last post or wait */
    int started[SOAK_RANKS];                /* 1 + statement */
    bool start_group[SOAK_RANKS][SOAK_RANKS];
    int exposed[SOAK_RANKS];                /* 1 + number of the hold */
    int post_asserts[SOAK_RANKS];
    enum post_state post[SOAK_RANKS][SOAK_RANKS];   /* of target, to origin */
    struct clock post_clock[SOAK_RANKS];
    struct clock complete_clock[SOAK_RANKS][SOAK_RANKS];
};

struct expected {
    unsigned char *data, *mask;     /* mask: 0 exact, 1 anything */
    size_t bytes;
    int access;                     /* or -1 */
    int part;
    int statement;
    struct expected *next;
};

struct pending {
    int statement, rank, number;
    int access;                     /* or -1 */
    struct event issued;
    bool waited;
};

struct model {
    const struct program *p;
    struct arena arena;
    struct clock clock[SOAK_ACTORS];
    struct win_state win[SOAK_WINDOWS];
    int statements;
    long operations;
    struct access **access;
    int accesses, access_room;
    struct hold *hold;
    int holds, hold_room;
    struct pending *pending;
    int pendings, pending_room;
    struct expected **expected;     /* of each statement, a list */
    int expected_room;
    char *why;
};

#define ACTOR(rank, thread) ((rank) * SOAK_THREADS + (thread))

/* Says why and is false, so that a check may end with it. */
bool model_refuse(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool clock_has(const struct clock *c, struct event e)
{
    return e.actor >= 0 && c->t[e.actor] >= e.time;
}

static inline void clock_join(struct clock *c, const struct clock *other)
{
    for (int i = 0; i < SOAK_ACTORS; i++)
        if (other->t[i] > c->t[i])
            c->t[i] = other->t[i];
}

static inline struct event model_tick(struct model *m, int actor)
{
    m->clock[actor].t[actor]++;
    return (struct event){actor, m->clock[actor].t[actor]};
}

static inline const struct comm_spec *comm_of_window(const struct model *m, int win)
{
    return &m->p->comm[m->p->window[win].comm];
}

/* model.c */
void model_use(struct model *m, int win, int actor, int target); /* target -1: all */

/* model_data.c */
bool model_data(struct model *m, const struct statement *s);
bool model_attach(struct model *m, const struct statement *s);
bool model_ordered(const struct model *m, const struct access *a, const struct access *b);
int model_cluster(const struct model *m, int access);
void model_expect_part(struct model *m, int win, int part);
/* The k-th element of an accumulate applied. */
void model_apply(const struct access *a, int k, void *to);

/* model_hold.c: locks that cannot wait for each other for ever */
bool model_may_hold(struct model *m, const struct hold *wanted);
int model_hold(struct model *m, const struct hold *wanted);
void model_release(struct model *m, int hold, struct event at);
bool model_may_wait(struct model *m, int rank, int actor); /* actor -1: any of the rank's */
void model_waits(struct model *m, int rank, int actor);

#endif

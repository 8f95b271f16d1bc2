/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VIEW_H
#define LOCI_VIEW_H

/* Shared by the files of this folder. view.c says how a view works. */

#include <pthread.h>

#include <loco/view.h>

#include "move/rma.h"
#include "multicast/multicast_epoch.h"
#include "names/endpoint.h"
#include "threads/worker.h"

#define LOCI_VIEW_MEMBERS LOCI_MC_VIEW_MEMBERS

/* Words of a row, by their index; written by the member whose row it is, and each only grows.
 * Behind them are two pieces of data, for views of even and of odd numbers; they are written before
 * the word that says that they are there. A set of members is a word of bits, by rank. */
enum {
    LOCI_VIEW_SUSPECTED,        /* members that have gone, or are taken for dead; never taken back
                                   */
    LOCI_VIEW_LEFT,             /* those of them that said so themselves */
    LOCI_VIEW_WEDGED,           /* n + 1: wedged in view n */
    LOCI_VIEW_COUNTED,          /* n + 1: and has said what it has, in the data */
    LOCI_VIEW_DECIDED,          /* (n + 1) * 64 + leader: has echoed what that leader proposes for
                                   the end of view n; it is in the data */
    LOCI_VIEW_INSTALLED,        /* n: has begun that view */
    LOCI_VIEW_READY,            /* multicasts of which this member has mapped all memory */
    LOCI_VIEW_WORDS
};

/* Words of a piece of data: members that leave with this view; then for each multicast the first
 * number of the next epoch, and by sender what this member has, and what the leader proposes. */
enum { LOCI_VIEW_REMOVED, LOCI_VIEW_OF_MULTICASTS };

/* A multicast. */
struct loci_view_multicast {
    struct loco_multicast *m;   /* NULL: not made here yet */
    bool open;                  /* it has begun: all had mapped all */
    uint64_t base;              /* of its epoch */
    uint64_t begins[LOCI_VIEW_MEMBERS + 1];     /* the first place of each view */
};

struct loci_view_rule;

struct loco_view {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int size, rank, most;       /* most: multicasts */
    uint64_t row_bytes, data_words;
    bool needs_majority;
    loco_view_changed_t *changed;
    void *changed_arg;
    struct loci_worker *worker;
    _Atomic(struct loci_thread *) self;     /* the same, as the runtime knows it */
    _Atomic bool stops;         /* it is to leave */
    _Atomic uint64_t hinted;    /* members that somebody here suspects */
    _Atomic int waiters;

    /* The view's thread's own. */
    uint64_t own[LOCI_VIEW_WORDS];      /* this process's row */
    uint64_t known;             /* members that were told what is in it */
    uint64_t view;              /* number of the present view, */
    uint64_t members;           /* its members */
    bool cut;                   /* what ends the view is decided */
    bool ended;                 /* it is nothing any more, but that others may not know it yet; */
    bool over;                  /* and the thread ends */
    const struct loci_view_rule *rule;  /* the one that holds */

    uint64_t *copy;             /* of a piece of data */

    _Atomic int multicasts;     /* release: who finds one finds it made */
    pthread_mutex_t lock;       /* what follows */
    struct loci_view_multicast multicast[LOCI_VIEW_MEMBERS];
    uint64_t number, present, gone;     /* view and members, for all threads; gone: as of the last
                                           cut */
    int status;                 /* what has ended it */
};

/* What the view's thread does, one at a time: the first that holds. */
struct loci_view_rule {
    const char *name;
    bool (*holds)(struct loco_view *v);
    void (*act)(struct loco_view *v);
};

static inline uint64_t loci_view_bit(int rank)
{
    return UINT64_C(1) << rank;
}

static inline bool loci_view_has(uint64_t set, int rank)
{
    return (set >> rank & 1) != 0;
}

/* Members that this one waits for. */
static inline uint64_t loci_view_living(const struct loco_view *v)
{
    return v->members & ~v->own[LOCI_VIEW_SUSPECTED];
}

/* Members that said so when they left; in `changed`. */
static inline uint64_t loci_view_left(const struct loco_view *v)
{
    return v->own[LOCI_VIEW_LEFT];
}

static inline int loci_view_multicasts(const struct loco_view *v)
{
    return atomic_load_explicit(&v->multicasts, memory_order_acquire);
}

/* loco_view_create() in two steps: between them multicasts are made, and nothing changes. */
int loci_view_open(loco_runtime_t *rt, const char *parent, const char *name,
                   const loco_group_t *group, const loco_view_options_t *options,
                   loco_view_t **view);
int loci_view_start(struct loco_view *v);

/* ---- view_row.c; by the view's thread ---- */

/* What this process takes to be in that member's row. Its own, and those it has not frozen. */
uint64_t loci_view_see(const struct loco_view *v, int rank, int word);
uint64_t loci_view_see_data(const struct loco_view *v, int rank, uint64_t number, uint64_t at);
/* Change the own row, and tell the others: data first, then that word. */
void loci_view_put_data(struct loco_view *v, uint64_t at, uint64_t value);
void loci_view_tell(struct loco_view *v, int word, uint64_t value);
void loci_view_tell_data(struct loco_view *v, int word, uint64_t value);
/* All of it, to those who are known by now. */
bool loci_view_has_untold(struct loco_view *v);
void loci_view_tell_new(struct loco_view *v);
/* Wake those that this process waits for. */
void loci_view_ring(struct loco_view *v);

/* Where it is in the data: of multicast k, sender i. */
static inline uint64_t loci_view_base_at(const struct loco_view *v, int k)
{
    return LOCI_VIEW_OF_MULTICASTS + (uint64_t)k * (1 + 2 * (uint64_t)v->size);
}

static inline uint64_t loci_view_count_at(const struct loco_view *v, int k, int i)
{
    return loci_view_base_at(v, k) + 1 + (uint64_t)i;
}

static inline uint64_t loci_view_trim_at(const struct loco_view *v, int k, int i)
{
    return loci_view_count_at(v, k, v->size) + (uint64_t)i;
}

/* ---- view_member.c ---- */

/* Of whatever is no change: the first that holds; NULL: none. */
extern const struct loci_view_rule loci_view_rules[];
extern const int loci_view_rule_count;
void loci_view_run(void *view);
/* Whether this thread is the view's. */
bool loci_view_is_self(void *view);
/* All members have mapped the memory of multicast k. */
bool loci_view_all_ready(const struct loco_view *v, int k);
/* It has ended for this process. */
void loci_view_end(struct loco_view *v, int status);
/* Threads that wait for the view look. */
void loci_view_wake(struct loco_view *v);
/* For tests: take that member for dead. Not where all are on one node. */
int loci_view_suspect(struct loco_view *v, int rank);

/* ---- view_change.c ---- */

bool loci_view_is_changing(const struct loco_view *v);
bool loci_view_wedge_holds(struct loco_view *v);
bool loci_view_count_holds(struct loco_view *v);
bool loci_view_propose_holds(struct loco_view *v);
bool loci_view_echo_holds(struct loco_view *v);
bool loci_view_cut_holds(struct loco_view *v);
bool loci_view_install_holds(struct loco_view *v);
void loci_view_wedge(struct loco_view *v);
void loci_view_count(struct loco_view *v);
void loci_view_propose(struct loco_view *v);
void loci_view_echo(struct loco_view *v);
void loci_view_cut(struct loco_view *v);
void loci_view_install(struct loco_view *v);

#endif

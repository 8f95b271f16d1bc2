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
    LOCI_VIEW_ENTERED,          /* n: knows that it is a member of that view, which it has not begun
                                   */
    LOCI_VIEW_READY,            /* multicasts of which this member has mapped all memory */
    LOCI_VIEW_ASKED,            /* how often it has asked to come in, or to go out, in turn */
    LOCI_VIEW_GIVEN,            /* (n << 32) + i: the i-th chunk that it gives in view n is there */
    LOCI_VIEW_TAKEN,            /* the same, of the member that gives to this one: it has that */
    LOCI_VIEW_ENDED,            /* the negated status that has ended the view for this member */
    LOCI_VIEW_SEATED,           /* of a view with seats: ranks that it knows to be taken, all before
                                   that one; their addresses are in its region */
    LOCI_VIEW_MET,              /* and those of which it has mapped all memory */
    LOCI_VIEW_WORDS
};

/* Words of a piece of data. Of the next view: its members; who is dead; those of the members that
 * need the state, and who gives it to them (rank + 1; 0: nobody has it any more); of each rank how
 * often it had asked. Then for each multicast the first number of the next epoch, and by sender
 * what this member has, and what the leader proposes. */
enum { LOCI_VIEW_NEXT, LOCI_VIEW_GONE, LOCI_VIEW_NEEDY, LOCI_VIEW_GIVER, LOCI_VIEW_ASKED_AT };

enum { LOCI_VIEW_ROWS, LOCI_VIEW_STATE };       /* regions */

/* A chunk of state, in the memory of who gives it. */
struct loci_view_chunk {
    uint64_t to, view, at, bytes;   /* for that rank, at that view; where it begins; 0: the end */
};

/* Where a process is. */
enum loci_view_stage {
    LOCI_VIEW_IN,               /* a member */
    LOCI_VIEW_OUT,              /* none */
    LOCI_VIEW_COMING,           /* a member that does not know all multicasts' slots yet; */
    LOCI_VIEW_LOADING           /* and that does, but has not begun: it has no state yet */
};

/* A multicast. */
struct loci_view_multicast {
    struct loco_multicast *m;   /* NULL: not made here yet */
    bool open;                  /* it has begun: all had mapped all */
    uint64_t base;              /* of its epoch */
    uint64_t *begins;           /* the first place of each view, of so many */
    size_t room;
};

struct loci_view_rule;

/* Ranks for processes that come later: view_seats.c. */
struct loci_view_seats {
    bool open;                  /* there are such ranks; else nothing here is used */
    bool late;                  /* this process has one of them */
    int founders;               /* ranks that are not */
    int region;                 /* addresses of those who have a rank */
    _Atomic int taken;          /* so many have; grows under the lock */
    _Atomic uint64_t met;       /* LOCI_VIEW_MET, for other threads */
    uint64_t unread;            /* view's thread: those whose region could not be read */
};

struct loco_view {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int size, rank, most;       /* most: multicasts */
    int flags;                  /* of the options */
    uint64_t row_bytes, data_words;
    uint64_t first;             /* the members of view 0 */
    uint64_t filled;            /* ranks that have a process, as endpoints here know; under the lock
                                   by the view's thread */
    struct loci_view_seats seats;
    size_t chunk;               /* 0: no state is carried */
    loco_view_save_t *save;
    loco_view_load_t *load;
    bool needs_majority;
    loco_view_changed_t *changed;
    void *changed_arg;
    struct loci_worker *worker;
    _Atomic(struct loci_thread *) self;     /* the same, as the runtime knows it */
    _Atomic bool stops;         /* it is to leave */
    _Atomic uint64_t hinted;    /* members that somebody here suspects */
    _Atomic int waiters;
    _Atomic uint64_t asks;      /* what LOCI_VIEW_ASKED is to be */

    /* The view's thread's own. */
    uint64_t own[LOCI_VIEW_WORDS];      /* this process's row */
    uint64_t known;             /* members that were told what is in it */
    uint64_t view;              /* number of the present view, */
    uint64_t members;           /* its members */
    enum loci_view_stage stage;
    bool cut;                   /* what ends the view is decided */
    bool resumes;               /* a view is to begin here, once the state is given to all these: */
    uint64_t giving, given_at;  /* so much of it to this one, the last chunk of it not taken yet, */
    int given_to;
    bool given, given_all;      /* and that was the end */
    uint64_t needy;             /* COMING, LOADING: those that need state, */
    int giver;                  /* and who gives it */
    bool loaded;
    uint64_t loaded_at, looked_at;  /* looked_at: LOCI_VIEW_GIVEN as it was when last looked at */
    unsigned char *taken;       /* the chunk that was taken */
    bool ended;                 /* it is nothing any more, but that others may not know it yet; */
    bool over;                  /* and the thread ends */
    const struct loci_view_rule *rule;  /* the one that holds */

    uint64_t *copy;             /* of a piece of data */

    _Atomic int multicasts;     /* release: who finds one finds it made */
    pthread_mutex_t lock;       /* what follows */
    struct loci_view_multicast multicast[LOCI_VIEW_MEMBERS];
    uint64_t number, present;   /* view and members, for all threads */
    uint64_t gone, out;         /* as of the last cut: who is dead, and who is not in the view */
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

static inline uint64_t loci_view_below(int rank)
{
    return rank == 0 ? 0 : UINT64_MAX >> (LOCI_VIEW_MEMBERS - rank);
}

static inline bool loci_view_has(uint64_t set, int rank)
{
    return (set >> rank & 1) != 0;
}

/* Ranks that have a process, alive or dead. */
static inline uint64_t loci_view_all(const struct loco_view *v)
{
    return v->filled;
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

/* What a member gives to who comes, with the address of each. */
struct loci_view_ticket {
    char magic[8];
    uint32_t version;           /* of addresses */
    uint32_t bytes;
    uint32_t machines;          /* the runtime reaches other machines */
    int32_t seats, founders, rank, taken;
    int32_t flags, multicasts;
    uint64_t outside, chunk;
    uint64_t first, view, members;
    uint64_t gone;              /* ranks that are dead: their addresses are no process's */
    uint64_t connected;         /* those that the member has met */
    char name[LOCI_NAME_MAX];
    struct loci_address address[];      /* of ranks below `taken` */
};

/* What one is made of. Of a late one the group is open, and the options are the ticket's but for
 * the callbacks. */
struct loci_view_plan {
    const char *parent, *name;
    const loco_group_t *group;
    loco_view_options_t options;        /* complete */
    const struct loci_view_ticket *ticket;      /* NULL: not late */
};
int loci_view_make(loco_runtime_t *rt, const struct loci_view_plan *plan, struct loco_view **out);
/* By any thread, until is_so(arg), as of loci_wait(). What `arg` points to begins with the view. */
int loci_view_wait_until(struct loco_view *v, int (*is_so)(void *arg), void *arg,
                         int64_t timeout_ns);
int loci_view_add_multicast(struct loco_view *v, const char *name,
                            const loco_multicast_options_t *options);

/* loco_view_create() in two steps: between them multicasts are made, and nothing changes. */
int loci_view_open(loco_runtime_t *rt, const char *parent, const char *name,
                   const loco_group_t *group, const loco_view_options_t *options,
                   loco_view_t **view);
int loci_view_start(struct loco_view *v);

/* ---- view_seats.c ---- */

/* The region, and the multicast, that seat processes. */
void loci_view_add_seats(struct loco_view *v, struct loci_region_spec *region);
int loci_view_open_seats(struct loco_view *v, const struct loci_view_ticket *ticket);
/* Of ranks below this, the addresses are known; view.lock: more may be. */
int loci_view_taken(const struct loco_view *v);
void loci_view_address(const struct loco_view *v, int rank, struct loci_address *address);
/* The rank of that runtime; -1: it has none. */
int loci_view_rank_of(const struct loco_view *v, const struct loci_address *address);
/* Ranks that had made all that the view has when the ticket was given: founders and members, or
 * the admitting member would have had none to give; and whomever it has met. */
static inline uint64_t loci_view_old(const struct loci_view_ticket *t)
{
    return (loci_view_below(t->founders) | t->members | t->connected) & ~t->gone;
}

/* What a late one begins with. */
void loci_view_start_late(struct loco_view *v, const struct loci_view_ticket *ticket);
/* Of those who would come, the ones that can: all who would be in with them have their memory, and
 * they have theirs. */
uint64_t loci_view_can_come(const struct loco_view *v, uint64_t wished);
/* Those have gone: nothing here waits to be connected to them. Of a late one. */
void loci_view_give_up(struct loco_view *v, uint64_t gone);
/* It has ended for this process, which waits for nobody any more, and seats nobody. */
void loci_view_abandon(struct loco_view *v, int status);
bool loci_view_learn_holds(struct loco_view *v);
bool loci_view_seat_holds(struct loco_view *v);
bool loci_view_meet_holds(struct loco_view *v);
void loci_view_learn(struct loco_view *v);
void loci_view_seat(struct loco_view *v);
void loci_view_meet(struct loco_view *v);

/* ---- view_row.c; by the view's thread ---- */

/* What of that region lies in another member's memory. */
struct loci_mem *loci_view_mem(const struct loco_view *v, int rank, int region);

/* What this process takes to be in that member's row. Its own, and those it has not frozen. */
uint64_t loci_view_see(const struct loco_view *v, int rank, int word);
uint64_t loci_view_see_data(const struct loco_view *v, int rank, uint64_t number, uint64_t at);
/* Change the own row, and tell the others: data first, then that word. */
void loci_view_put_data(struct loco_view *v, uint64_t at, uint64_t value);
void loci_view_tell(struct loco_view *v, int word, uint64_t value);
void loci_view_tell_data(struct loco_view *v, int word, uint64_t value);
/* Of multicast k, how many messages a member had sent when it asked to come, or began the view that
 * it has installed; told before that word is. */
uint64_t loci_view_start_of(const struct loco_view *v, int rank, int k);
void loci_view_tell_starts(struct loco_view *v, int word, uint64_t value);
/* One word, to that member alone. */
void loci_view_tell_one(struct loco_view *v, int rank, int word, uint64_t value);
/* All of it, to those who are known by now. */
bool loci_view_has_untold(struct loco_view *v);
void loci_view_tell_new(struct loco_view *v);
/* Wake those that this process waits for. */
void loci_view_ring(struct loco_view *v);

/* Where it is in the data: of multicast k, sender i. */
static inline uint64_t loci_view_base_at(const struct loco_view *v, int k)
{
    return LOCI_VIEW_ASKED_AT + (uint64_t)v->size + (uint64_t)k * (1 + 2 * (uint64_t)v->size);
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
/* Those who would be members if all wishes were fulfilled. */
uint64_t loci_view_wished(const struct loco_view *v);
bool loci_view_wishes_in(const struct loco_view *v, int rank, uint64_t asked);
/* Threads that wait for the view look. */
void loci_view_wake(struct loco_view *v);
/* For tests: take that member for dead. Not where all are on one node. */
int loci_view_suspect(struct loco_view *v, int rank);

/* ---- view_join.c: who comes, and the state that it gets ---- */

/* What is in the own data is decided, and this process comes with it. */
void loci_view_come(struct loco_view *v);
bool loci_view_has_asked(const struct loco_view *v);
/* The last view that is known of that member; whether what was decided for it is in its row. */
uint64_t loci_view_last(const struct loco_view *v, int rank);
bool loci_view_is_whole(const struct loco_view *v, int rank, uint64_t last);
bool loci_view_ask_holds(struct loco_view *v);
bool loci_view_enter_holds(struct loco_view *v);
bool loci_view_start_holds(struct loco_view *v);
bool loci_view_take_holds(struct loco_view *v);
bool loci_view_begin_holds(struct loco_view *v);
bool loci_view_give_holds(struct loco_view *v);
bool loci_view_resume_holds(struct loco_view *v);
void loci_view_ask(struct loco_view *v);
void loci_view_enter(struct loco_view *v);
void loci_view_start_all(struct loco_view *v);
void loci_view_take(struct loco_view *v);
void loci_view_begin(struct loco_view *v);
void loci_view_give(struct loco_view *v);
void loci_view_resume(struct loco_view *v);

/* ---- view_change.c ---- */

/* In the own data of the view `back` before this one: what is decided. */
uint64_t loci_view_own_data(const struct loco_view *v, uint64_t back, uint64_t at);
/* What a multicast needs to know of the next epoch; under the lock. `starts` has one for each
 * rank. */
struct loci_mc_next loci_view_next(const struct loco_view *v, int k, uint64_t *starts);
/* From `from` on views up to this one begin there. */
bool loci_view_note_place(struct loci_view_multicast *mc, uint64_t from, uint64_t number,
                          uint64_t place);
/* For all threads, and for the program. */
void loci_view_show(struct loco_view *v);

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

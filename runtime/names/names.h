/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_NAMES_H
#define LOCI_NAMES_H

/* Inside of endpoints, for their own files alone: the table of names (names.c), how its entries
 * are made (endpoint.c), waited for (ready.c) and asked for (ask.c), what messages say (control.c)
 * and lead to (endpoint_join.c), when the memory of one that was destroyed is given back
 * (endpoint_leave.c), and what is said of a name that a member does not have (similar.c).
 *
 * All of an entry but its atomics is written under the table's lock, by the thread that makes or
 * destroys it, by threads that wait, and by the service thread. */

#include "control.h"
#include "endpoint.h"

#define LOCI_NAMES_BUCKETS 256          /* at first, and twice as many whenever all are in use */
#define LOCI_NAMES_SPARE 16             /* letters */
#define LOCI_NAMES_PAST 1024            /* at first, */
#define LOCI_NAMES_PAST_MOST (1 << 18)  /* and at most */

struct loci_member {
    uint64_t number;                    /* the endpoint there that we have met: connected to it, or
                                           it differs; 0: none yet */
    uint64_t heard;                     /* the last one there that we took a message from */
    bool joined;                        /* on_join was called */
    bool differs;                       /* from ours */
    bool late;                          /* seats.c: it came when this one was made already */
    bool knows;                         /* it has our keys, and we its: no longer missing; or it
                                           knows that we differ */
    uint64_t told, left, offered;       /* endpoint_leave.c: endpoints there that our keys were
                                           sent to, that uses them no more, that sent us keys */
    bool owed;                          /* we are destroyed, and it has not left */
    bool ask;                           /* chosen to be asked again, while the entry is opening */
    bool sought;                        /* asked for similar names, and has not ended its answer */
};

/* What is left of endpoints that have gone: the youngest one there that was met under this name. A
 * message from that one, or an older, has been overtaken.
 *
 * A fabric delivers a peer's messages in order, so this is a second line of defence, for a fabric
 * that does not. It remembers as many members of endpoints as were ever here at once, four places
 * for each, up to LOCI_NAMES_PAST_MOST places; where two want one place, the later one has it. */
struct loci_past {
    uint64_t key;                       /* hash of name and peer */
    uint64_t number;
};

struct loci_letter {                    /* a message that came while the endpoint was opening */
    struct loci_letter *next;
    int peer;
    struct loci_control message;
};

struct loci_search;                     /* similar.c */

struct loci_entry {
    struct loci_endpoint ep;            /* first: an endpoint is its entry */
    uint64_t number;                    /* in this process's life, from 1 */
    uint64_t hash;                      /* of the name */
    uint64_t members;                   /* hash of the group */
    struct loci_member *member;         /* by rank */
    int busy;                           /* messages being handled: destroy waits */
    bool opening;                       /* joins are being sent: what arrives is kept */
    int owed;                           /* destroyed: members that have not left */
    struct loci_entry *next_leaving;
    bool leaving;                       /* being destroyed: in no list any more */
    bool closed;                        /* seats.c: nobody is seated any more */
    bool uses_peers;                    /* the members: loci_peers_use() */
    bool mismatch;                      /* it fails as soon as... */
    int untold;                         /* ...no member that differs has still to be told */
    bool reached;                       /* this process can reach all members' regions */
    struct loci_list *list;             /* that has it: NULL once it is ready */
    struct loci_entry *before, *after;  /* there */
    int64_t lacked_at;                  /* since when it is the first of a wait; 0: not yet */
    struct loci_search *search;         /* for similar names, from when on that is long */
    bool told;                          /* the log says that members are missing */
    struct loci_letter *letters, **last_letter;
    bool lost_peer;                     /* one has gone while the endpoint was opening */
    char region_name[LOCI_REGIONS_MAX][LOCI_REGION_NAME];
};

struct loci_list {                      /* of entries, oldest first */
    struct loci_entry *first, *last;
    size_t count;
};

/* Each entry is in the list `open` until all its members know it, then in `unreached` until a wait
 * has tried their memory, or in `failed` from when it has failed on: what is ready costs nobody
 * anything who waits for the others. */
struct loci_names {
    pthread_mutex_t lock;
    pthread_cond_t calm;                /* an entry's busy or opening ended */
    struct loci_endpoint **bucket;      /* by hash; a power of two of them */
    size_t buckets;
    size_t count, pairs;                /* names here; their members but ourselves */
    struct loci_list open, unreached, failed;
    _Atomic unsigned settled;           /* grows when an entry changes its list: waits look again */
    struct loci_entry *leaving[LOCI_NAMES_BUCKETS];     /* by number; endpoint_leave.c */
    uint64_t numbers;                   /* given out so far */
    struct loci_past *past;             /* by key; the next of one place replaces it */
    size_t past_room;
    int64_t ask_at;                     /* the first of the peers' times to ask (ask.c) */
    long ask_left;                      /* questions of the round under way */
    struct loci_entry *ask_next;        /* where it goes on in `open`; NULL: at its beginning */
    struct loci_letter spare[LOCI_NAMES_SPARE];         /* for when memory is out */
    unsigned spare_used;                /* a bit each */
};

static inline struct loci_entry *loci_entry_of(struct loci_endpoint *ep)
{
    return (struct loci_entry *)ep;
}

/* ---- names.c ---- */

/* Under the lock; NULL where there is none. */
struct loci_entry *loci_names_find(struct loci_names *names, const char *name);
/* LOCO_ERR_NAME where the name is in use. Else the entry has its number, and is opening. */
int loci_names_enter(struct loci_names *names, struct loci_entry *e);
/* Under the lock, after all that may make it ready or failed: it gets into its list. */
void loci_names_settle(struct loci_names *names, struct loci_entry *e);
/* Returns once nothing is being done for the entry; nothing will be. */
void loci_names_leave(struct loci_names *names, struct loci_entry *e);
/* Under the lock: the youngest endpoint there that one of this name, now gone, has met; 0: none
 * that we remember. */
uint64_t loci_names_past(const struct loci_names *names, const char *name,
                         const struct loci_peer *peer);
uint64_t loci_names_hash_members(const struct loco_group *group);

/* ---- control.c ---- */

void loci_control_describe(const struct loci_entry *e, enum loci_control_type type, uint64_t to,
                           struct loci_control *m);
/* The answer to a message for an endpoint of ours that has gone: nothing is known of it; nobody
 * here uses the keys in it. */
void loci_control_gone(const struct loci_control *asked, struct loci_control *m);
/* Whether the sender's endpoint differs from ours; text says in what, and names both sides. */
bool loci_control_differs(const struct loci_entry *e, int peer, const struct loci_control *m,
                          char *text, size_t len);

/* ---- seats.c ---- */

/* How many members have to connect: not this process, nor those that fill vacant ranks later. */
int loci_entry_expects(struct loci_entry *e);

/* ---- endpoint_join.c ---- */

void loci_entry_fail(struct loci_entry *e, int status);
/* Under the lock: that member is missed no more. */
void loci_entry_knows(struct loci_entry *e, int rank);
/* Send a message that says all it is to say. */
void loci_names_send(struct loco_runtime *rt, int peer, struct loci_control *m);
/* By what its message says where that is so, else by a search; -1: not a member. */
int loci_entry_rank_of(const struct loci_entry *e, int peer, int hint);
/* Under the lock. Handle what came while the entry was opening; then the service thread does. */
void loci_entry_opened(struct loci_names *names, struct loci_entry *e);

/* ---- ask.c ---- */

/* Ask all members of a new endpoint to join, then handle what came in the meantime. */
void loci_entry_open(struct loci_entry *e);
/* Under the table's lock, which is not held all the time. Ask again, where it is time, those that
 * do not answer. */
void loci_names_ask(struct loco_runtime *rt, int64_t now);
/* The same; send a question of this type to the chosen members (`ask`), and handle what comes in
 * the meantime. Another thread may then destroy the entry as soon as the lock is released. */
void loci_entry_ask(struct loci_names *names, struct loci_entry *e, enum loci_control_type type);
/* Under the lock: a message came from that peer. */
void loci_names_heard(struct loci_peer *peer);

/* ---- similar.c ---- */

/* Which of the entries a wait is for. */
typedef bool loci_scope_fn(const void *wait, const struct loci_entry *e);
/* Under the table's lock, which is not held all the time. Somebody waits for entries: say so in
 * the log when it is long that the first of them lacks members. */
void loci_names_tell(struct loco_runtime *rt, loci_scope_fn *in_scope, const void *wait,
                     int64_t now);
/* From the service thread: a peer seeks a name that is not here / has a similar one. */
void loci_names_sought(struct loco_runtime *rt, int peer, const struct loci_control *m);
void loci_names_found(struct loco_runtime *rt, int peer, const struct loci_control *m);
void loci_search_free(struct loci_entry *e);
/* How many changes make one name of the other, at most limit + 1. */
int loci_names_distance(const char *a, const char *b, int limit);

/* ---- endpoint_leave.c ---- */

/* Under the table's lock: it is being destroyed, and is in no list but `leaving` from now on. */
void loci_entry_leave(struct loci_names *names, struct loci_entry *e);
/* Then, without the lock: tell the members. It is freed now, or when the last of them has left. */
void loci_entry_left(struct loci_entry *e);
/* From the service thread: a member has left. */
void loci_names_member_left(struct loco_runtime *rt, int peer, const struct loci_control *m);

/* ---- endpoint.c ---- */

/* This process uses no member's memory any more. */
void loci_entry_let_go(struct loci_entry *e);
void loci_entry_free(struct loci_entry *e);

/* Whether that rank provides region i. */
static inline bool loci_region_from(const struct loci_endpoint_spec *spec, int i, int rank)
{
    int from = spec->region[i].from;

    return from == LOCI_FROM_ALL || from == rank
           || (from == LOCI_FROM_SOME && spec->givers[rank]);
}

#endif

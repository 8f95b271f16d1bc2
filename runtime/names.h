/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_NAMES_H
#define LOCI_NAMES_H

/* Inside of endpoints, for their own files alone: the table of names (names.c), how its entries
 * are made and waited for (endpoint.c), what messages say (control.c) and lead to
 * (endpoint_join.c).
 *
 * All of an entry but its atomics is written under the table's lock, by the thread that makes or
 * destroys it and by the service thread. */

#include "control.h"
#include "endpoint.h"

#define LOCI_NAMES_BUCKETS 256

struct loci_member {
    uint64_t number;                    /* the endpoint there that we are connected to, or 0 */
    bool joined;                        /* on_join was called */
    uint64_t given;                     /* the endpoint there that was sent our keys, or 0 */
    bool heard;                         /* a message has come from there */
};

struct loci_letter {                    /* a message that came while the endpoint was opening */
    struct loci_letter *next;
    int peer;
    bool gone;                          /* no message: the peer has gone */
    struct loci_control message;
};

struct loci_entry {
    struct loci_endpoint ep;            /* first: an endpoint is its entry */
    uint64_t number;                    /* in this process's life, from 1 */
    uint64_t members;                   /* hash of the group */
    struct loci_member *member;         /* by rank */
    int busy;                           /* messages being handled: destroy waits */
    bool opening;                       /* joins are not all sent: what arrives is kept */
    struct loci_letter *letters, **last_letter;
    char region_name[LOCI_REGIONS_MAX][LOCI_REGION_NAME];
};

struct loci_names {
    pthread_mutex_t lock;
    pthread_cond_t calm;                /* an entry's busy went to 0 */
    struct loci_endpoint *bucket[LOCI_NAMES_BUCKETS];
    uint64_t numbers;                   /* given out so far */
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
/* Returns once no message is being handled for the entry; none will be. */
void loci_names_leave(struct loci_names *names, struct loci_entry *e);
uint64_t loci_names_hash_members(const struct loco_group *group);

/* ---- control.c ---- */

void loci_control_describe(const struct loci_entry *e, enum loci_control_type type, uint64_t to,
                           struct loci_control *m);
/* Whether the sender's endpoint differs from ours; text says in what, and names both sides. */
bool loci_control_differs(const struct loci_entry *e, int peer, const struct loci_control *m,
                          char *text, size_t len);

/* ---- endpoint_join.c ---- */

void loci_entry_fail(struct loci_entry *e, int status);
/* Tell all members of a new endpoint, then handle what came in the meantime. */
void loci_entry_open(struct loci_entry *e);

/* Whether that rank provides that region. */
static inline bool loci_region_from(const struct loci_region_spec *region, int rank)
{
    return region->from == LOCI_FROM_ALL || region->from == rank;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_ENDPOINT_H
#define LOCI_ENDPOINT_H

#include "living.h"
#include "memory/memory.h"
#include "runtime.h"

/* Endpoints: this process's part of a channel, found by its name.
 *
 * Making one: its own regions are allocated and it is entered under its name; a join goes to each
 * other member of the group, with the name and what it expects of that member. A member that has
 * an endpoint of that name checks the expectation against its regions and answers with a connect
 * (keys), or with a reject that tells both sides; one that has none ignores the join, and when it
 * makes its endpoint its own join reaches the earlier ones. Whoever gets a connect says so, with
 * its own keys. So each pair connects in either order.
 *
 * Messages may be lost, doubled or reordered: whoever waits for ready sends its joins again, after
 * a tenth of a second and then less and less often, to members that have not answered.
 *
 * An endpoint may be destroyed and made again under its name, by all its members, once it is ready
 * or has failed: messages name the endpoints that they are from and for, so a late one meets
 * nobody, and an endpoint that is connected to a member's earlier one lets the new one wait until
 * it is made again here, too. */

#define LOCI_NAME_MAX 128       /* bytes of a full name with its end: "parent/child" */
#define LOCI_REGION_NAME 32     /* bytes of a region's name with its end */
#define LOCI_REGIONS_MAX 8
#define LOCI_TYPE_NAME 16       /* bytes of a channel's type with its end */
#define LOCI_PROPERTIES_MAX 4
#define LOCI_FROM_ALL (-1)      /* every member provides this region */
#define LOCI_FROM_SOME (-2)     /* the spec's `givers` do */

struct loci_region_spec {
    const char *name;           /* "data": the region's full name is "channel.data" */
    size_t len;                 /* bytes, the same at all who provide it */
    size_t align;               /* 0: a cache line */
    int from;                   /* rank of the only member that provides it, or ALL, SOME */
};

/* A parameter of the channel that must be the same at all members, or fit that of each. */
struct loci_property {
    const char *name;           /* as in the public header: "capacity"; NULL: no more of them */
    uint64_t value;             /* a negative one as its two's complement */
};

/* How that is looked at, at all alike; what is NULL is as of numbers that must be the same: whether
 * two members' values fit, whichever comes first; and what a value is in words, also one that no
 * member should have. */
struct loci_property_look {
    bool (*fits)(uint64_t mine, uint64_t theirs);
    const char *(*words)(uint64_t value);
};

struct loci_endpoint;

struct loci_endpoint_spec {
    const char *parent;         /* full name of the parent channel, or NULL */
    const char *name;
    const char *type;           /* of the channel: "queue"; the same at all, as are properties. */
    struct loci_property property[LOCI_PROPERTIES_MAX];     /* These texts are not copied */
    struct loci_property_look look[LOCI_PROPERTIES_MAX];    /* at each of these */
    const struct loco_group *group;     /* copied; this process is in it */
    bool late;                  /* it came later than others, to an open group (seats.c): members
                                   that go are not missed */
    int nregions;
    struct loci_region_spec region[LOCI_REGIONS_MAX];
    const bool *givers;         /* by rank, at all alike; as long as the endpoint */
    unsigned words;             /* a bit for each region that loci_alloc_in_device is for */
    /* Once each, when member `rank` has joined / its regions are known here: in the service
     * thread, in loci_endpoint_create or in a wait for ready, one at a time. Must not wait for, nor
     * destroy, the endpoint. */
    void (*on_join)(struct loci_endpoint *ep, int rank, void *ctx);
    void (*on_connect)(struct loci_endpoint *ep, int rank, void *ctx);
    /* When `rank` has gone and nothing that it has posted arrives here any more: in any thread,
     * which holds the lock of the names. */
    void (*on_silent)(struct loci_endpoint *ep, int rank, void *ctx);
    /* `rank` has destroyed this endpoint; also where a late one waits for it in vain. By the
     * service thread, which holds the lock of the names. */
    void (*on_absent)(struct loci_endpoint *ep, int rank, void *ctx);
    void *ctx;
};

struct loci_endpoint {
    struct loco_runtime *rt;
    struct loci_endpoint_spec spec;     /* names copied */
    char name[LOCI_NAME_MAX];
    struct loco_group group;            /* a copy: members' peer indices */
    bool hosted;                        /* hosted.h: in no table of names */
    enum loci_domain domain;            /* of the words in all regions; every mem[] has it */
    /* [rank * nregions + region]; own ones at own rank; kind NONE until connected. */
    struct loci_mem *mem;
    _Atomic unsigned char *connected;   /* by rank: its regions are known here */
    _Atomic int missing;                /* members that have not our keys, or we theirs */
    _Atomic int failed;                 /* LOCO_ERR_MISMATCH once rejected */
    struct loci_endpoint *next;
    struct loci_calls *calls;           /* observe/calls.h; NULL: nobody observes */
    struct loci_living living;          /* of the channel that it is the first endpoint of */
};

/* LOCO_ERR_NAME (in use here, empty, too long), LOCO_ERR_ARG, LOCO_ERR_NO_MEMORY. Does not wait:
 * loco_runtime_wait_ready does, or loci_endpoint_ready for one. */
int loci_endpoint_create(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                         struct loci_endpoint **ep);
/* Local, and in any order: this process uses no member's regions any more, and its own are kept
 * until all members have destroyed theirs, or have gone (endpoint_leave.c). */
void loci_endpoint_destroy(struct loci_endpoint *ep);
/* What the runtime destroys, by this call, where the program forgot it: the channel that the
 * endpoint was made for, before any endpoint of its parts is. Said again by a channel that is made
 * of just one other, which is its first part. */
void loci_endpoint_is_of(struct loci_endpoint *ep, void (*destroy)(void *channel), void *channel);
/* ---- seats.c ---- */

/* A group of `size` ranks: the first `n` have these peers, where -1 is a vacant rank, and all
 * behind them are vacant. Processes may be seated in vacant ranks later: of this machine, or of any
 * if the fabric reaches others. LOCO_ERR_NO_MEMORY. */
int loci_group_open(struct loco_runtime *rt, int size, int n, const int *peers,
                    struct loco_group **group);
bool loci_group_is_vacant(const struct loco_group *group, int rank);
/* That process has this rank of an open group from now on, which was vacant: by one thread of an
 * endpoint. All members do so, in any order; who comes makes its endpoint `late`. What does not fit
 * fails there alone. */
void loci_endpoint_seat(struct loci_endpoint *ep, int rank, int peer);
/* Of a late one: that member has gone, or will not connect; it is missed no more. */
void loci_endpoint_give_up(struct loci_endpoint *ep, int rank);
/* Who waits for a late one's members is told that status. Nobody is seated any more: to who is no
 * member it is as if the endpoint had been destroyed. */
void loci_endpoint_abandon(struct loci_endpoint *ep, int status);

/* Wait for one endpoint's members. */
int loci_endpoint_ready(struct loci_endpoint *ep, int64_t timeout_ns);

static inline struct loci_mem *loci_endpoint_mem(struct loci_endpoint *ep, int rank, int region)
{
    return &ep->mem[rank * ep->spec.nregions + region];
}

/* Whether `rank`'s regions are known here: for who does not wait for all to be ready. */
static inline bool loci_endpoint_knows(const struct loci_endpoint *ep, int rank)
{
    /* Acquire: pairs with the release after mem[] was filled in (endpoint_join.c). */
    return atomic_load_explicit(&ep->connected[rank], memory_order_acquire) != 0;
}

/* Life of the table of names, called by runtime.c. */
int loci_names_open(struct loco_runtime *rt);
void loci_names_close(struct loco_runtime *rt);
/* The runtime closes, and has said so: who has not left its endpoints by now need not. */
void loci_names_forget_leaving(struct loco_runtime *rt);
/* A peer has gone: endpoints that miss it will not become ready (called by loci_peer_gone). */
void loci_names_peer_gone(struct loco_runtime *rt, int peer);
/* And nothing that it has posted arrives any more: what it was owed is given back (called by
 * loci_peer_silent). */
void loci_names_left_by(struct loco_runtime *rt, int peer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PORT_CLIENT_H
#define LOCI_PORT_CLIENT_H

/* Ports at a client, for its own files alone. */

#include "port.h"

/* What the agent has granted; filled in before its peer is. One of a peer that is used is not
 * changed. */
struct port_told {
    _Atomic int peer;               /* -1: it is nobody's any more, and is filled in anew */
    uint64_t extent, kind;          /* of the key */
    uint64_t key_base;
    uint64_t base, len;             /* in the memory of the key */
    uint32_t grant;
    _Atomic bool straight;          /* lanes to the peer go by themselves from now on */
};

/* Whose port it is: nobody's, or a lane's. One that was given back may have requests under way. */
struct port_mine {
    bool taken;
    uint16_t epoch;                 /* of the last request that may be under way */
};

struct port_client {
    struct loci_detour detour;
    struct loco_runtime *rt;
    int agent;                      /* index of peer */
    struct loci_port_welcome welcome;
    struct loci_mem slab;
    unsigned char *base;
    pthread_mutex_t lock;           /* of ports, and of who adds to `told` */
    struct port_mine *mine;
    uint32_t opened;
    _Atomic uint64_t rung;          /* the announcement for which the agent was rung last */
    _Atomic bool left;              /* no lane takes a port any more; set under the lock */
    struct port_client *before;     /* that was left before this one came: lanes may refer to it */
    struct port_told told[LOCI_PORT_GRANTS];
    _Atomic uint32_t tolds;
    _Atomic bool mourned;           /* the log has said that the agent is gone, */
    _Atomic bool stuck;             /* or counts as gone, for it does not look */
};

/* A request that is posted, and not told. */
struct port_pending {
    struct loci_slot *slot;         /* NULL: nobody is told */
    enum loci_op_kind kind;
    void *to;                       /* where what came goes: of a read, or an atomic; or NULL */
    uint32_t len, arena;
    uint64_t arena_end;             /* its bytes of the arena, and all before them, are free then */
};

struct port_lane {
    struct loci_lane *lane;
    struct port_client *client;
    uint32_t port;
    struct loci_port_at at;
    uint64_t posted, published, retired;
    uint64_t looked;                /* `posted` when loci_port_move_over() looked last */
    uint64_t arena_from, arena_to;  /* bytes in use, in turn */
    uint32_t grant;                 /* of the last request; NO_GRANT: nothing was posted */
    uint16_t epoch;
    uint64_t turns;                 /* of the agent's, when something last came, */
    int64_t patience, looked_at;    /* for how long none has been seen since; and the last look */
    unsigned looks;
    bool broken, lost;              /* something failed; what was told done is not */
    bool going;                     /* `op` has not been posted whole, */
    uint64_t gone;                  /* but so many bytes of it */
    struct loci_op op;
    struct port_pending pending[];  /* as many as the ring has */
};

#define PORT_NO_GRANT UINT32_MAX

/* client.c: a port for a lane; LOCO_ERR_FULL. And it is free again. */
int loci_port_take(struct port_client *c, struct port_lane *l);
void loci_port_give(struct port_client *c, const struct port_lane *l);
/* The number of a grant that has these bytes, or the nearest: the agent refuses what is not in it.
 * PORT_NO_GRANT: there is none of that memory. */
uint32_t loci_port_grant_of(struct port_client *c, const struct loci_op *op);
/* Whether the agent is there; the first to find that it is not says so. */
bool loci_port_agent_lives(struct port_client *c);

/* lane.c */
int loci_port_lane_open(struct loci_fabric *fabric, struct loci_lane *lane);
void loci_port_lane_close(struct loci_fabric *fabric, struct loci_lane *lane);
int loci_port_lane_mend(struct loci_fabric *fabric, struct loci_lane *lane);
int loci_port_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                   int *posted);
int loci_port_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op);
int loci_port_poll(struct loci_fabric *fabric, struct loci_lane *lane);

#endif

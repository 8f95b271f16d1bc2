/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STRESS_POOLS_H
#define STRESS_POOLS_H

/* A pool under load: between pools.c, which starts processes, kills and counts, and
 * pools_worker.c, which is what they do. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <loco/loco.h>

#define POOLS_WORKERS 3
#define POOLS_KEYS 200000               /* of each worker, at most */
#define POOLS_PLACES 80

/* How far a key is. Only its worker writes it, before and after each call. */
enum pools_key { KEY_NONE, KEY_INSERTING, KEY_THERE, KEY_DELETING, KEY_DELETED };

/* Shared by all processes of the test. */
struct pools_shared {
    char pool[64];
    _Atomic int agent_pid, agent_stops; /* asks it to end */
    loco_agent_stats_t stats;           /* the agent's, as of its last look, */
    _Atomic uint64_t looks;             /* and how often it has */
    _Atomic int stop;                   /* workers are to end */
    _Atomic uint64_t calls[POOLS_WORKERS];
    _Atomic uint64_t failed;            /* calls that returned what they must not */
    _Atomic int last_status;
    _Atomic int agent_peers;            /* processes that it holds a place for, */
    _Atomic int member_peers[POOLS_WORKERS];    /* and those that stay do */
    _Atomic int64_t busy[POOLS_WORKERS];    /* ns of the processor that those calls took */
    _Atomic unsigned char key[POOLS_WORKERS][POOLS_KEYS];
    uint64_t found, lost, back, room;   /* by the checkers */
    _Atomic int told;                   /* a client has heard of the agent's death */
    _Atomic int64_t told_at;
};

/* What processes do; each returns an exit code. */
int pools_agent(struct pools_shared *s);
int pools_work(struct pools_shared *s, int worker);
int pools_stay(struct pools_shared *s, int worker);     /* put the same keys until it is to stop */
int pools_visit(struct pools_shared *s, int number);    /* come, put and get one key, leave */
int pools_check(struct pools_shared *s);
int pools_fill(struct pools_shared *s);                 /* how much room there is */
int pools_wait_for_death(struct pools_shared *s);

#endif

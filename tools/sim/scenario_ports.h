/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_PORTS_H
#define SIM_SCENARIO_PORTS_H

#include "fabric/port/port.h"
#include "memory/memory.h"
#include "scenario_util.h"

/* What the files of the scenario share. Process 0 is the agent, then come the clients, all on one
 * node; the last are targets, on nodes of their own. Each target has one piece of memory:
 *
 *   guard | a part for each thread of each client | a counter of all | forged | guard
 *
 * of which a client is granted what is its own, and the counter for atomics. */

#define PORTS_PROCESSES 8
#define PORTS_THREADS 2
#define PART_BYTES 160          /* written and read, */
#define PART_WORDS 2            /* and two words: added to, swapped */
#define PART (PART_BYTES + 8 * PART_WORDS)
#define GUARD 64
#define GUARD_BYTE 0x5a
#define FORGED_BYTE 0xa5
#define FORGED_BYTES 64         /* written and read by forged requests, */
#define FORGED (FORGED_BYTES + 16)      /* and two words that they add to */

enum client_state { PORTS_ASKS = 1, PORTS_GIVEN, PORTS_LEFT };

struct ports_window {           /* granted */
    uint64_t base, len;
    unsigned may;
    uint32_t grant;
};

enum { WINDOW_PART, WINDOW_COUNTER, WINDOW_FORGED, WINDOW_FORGED_WORDS, WINDOW_GUARD, WINDOWS };

struct ports_client {
    enum client_state state;    /* 0: nothing */
    struct loci_address address;
    struct loci_port_welcome welcome;
    struct ports_window window[PORTS_PROCESSES][WINDOWS];   /* by target */
    int peer, number;           /* the agent's */
};

/* What a thread has written to a target. */
struct ports_model {
    unsigned char bytes[PART_BYTES];
    uint64_t word[PART_WORDS];
    uint64_t counted;           /* additions to the counter that are done; */
    uint64_t unsure;            /* that may be */
    bool broken;                /* it was told of a death: nothing is known any more */
};

struct ports_state {
    struct sim_state common;    /* first */
    int clients, targets;
    struct loci_address address[PORTS_PROCESSES];
    struct loci_memkey key[PORTS_PROCESSES];
    unsigned char *memory[PORTS_PROCESSES];
    bool ready[PORTS_PROCESSES], ended[PORTS_PROCESSES];
    struct ports_client client[PORTS_PROCESSES];
    struct ports_model model[PORTS_PROCESSES][PORTS_THREADS][PORTS_PROCESSES];
    bool forged;                /* some client has been at it */
    int moved;                  /* lanes, from one way to the other */
};

struct ports_user {
    struct sim_run *run;
    struct ports_state *s;
    loco_runtime_t *rt;
    struct sim_seat seat;
    int rank;
    int agent;                  /* index of peer, as the next */
    int target[PORTS_PROCESSES];
    struct loci_mem mem[PORTS_PROCESSES];
    bool moves;                 /* lanes go from port to connection and back meanwhile */
    int working;                /* threads */
    struct loci_thread *thread[PORTS_THREADS];
};

static inline uint64_t ports_part(const struct sim_run *run, int client, int thread)
{
    return GUARD + PART * (uint64_t)((client - 1) * run->threads + thread);
}

static inline uint64_t ports_counter(const struct sim_run *run, const struct ports_state *s)
{
    return ports_part(run, 1 + s->clients, 0);
}

static inline uint64_t ports_forged(const struct sim_run *run, const struct ports_state *s)
{
    return ports_counter(run, s) + 8;
}

static inline uint64_t ports_bytes(const struct sim_run *run, const struct ports_state *s)
{
    return ports_forged(run, s) + FORGED + GUARD;
}

static inline int ports_first_target(const struct ports_state *s)
{
    return 1 + s->clients;
}

/* scenario_ports.c: what a call towards that target came to, where deaths are allowed for:
 * SIM_FINE, SIM_TOLD or SIM_WRONG. */
int ports_check(const struct ports_user *u, int target, int status, const char *call);

/* scenario_ports_use.c: what the threads of a client do. */
int ports_use(struct ports_user *u);

/* scenario_ports_forge.c: a visit that posts anything, past the lane. */
int ports_forge(struct ports_user *u);

#endif

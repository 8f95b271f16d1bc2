/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_MULTICAST_H
#define SIM_SCENARIO_MULTICAST_H

/* The observer of scenario_multicast.c: what each process was given, of each multicast. */

#include <loco/multicast.h>

#include "scenario_util.h"

#define MC_PROCESSES 8
#define MC_GROUPS 2
#define MC_THREADS 8            /* of a process: those that send, the handler, who polls */
#define MC_HANDLER 6            /* whose number the replies of handlers have, */
#define MC_POLLER 7             /* and of who polls */
#define MC_MESSAGES 256
#define MC_WORDS 6              /* of the largest message */

struct mc_entry {
    uint64_t number, word;      /* word: its first, or MC_EMPTY */
    int sender;
    size_t bytes;
};

#define MC_EMPTY UINT64_C(0xe0e0)

/* A multicast, as it was drawn, and what became of it. */
struct mc_group {
    int nsenders, senders[MC_PROCESSES];
    int slots, flags, images;
    size_t slot_bytes;
    uint64_t first;
    bool polled[MC_PROCESSES];                  /* that process has no handler */
    const struct loco_multicast *at[MC_PROCESSES];  /* as that process has it, while it does */
    int sent;                                   /* in all */
    /* By stream: one, or of an unordered one each sender. */
    struct mc_entry log[MC_PROCESSES][MC_MESSAGES];
    int logged[MC_PROCESSES], count[MC_PROCESSES][MC_PROCESSES];     /* [rank][stream] */
    int next[MC_PROCESSES][MC_THREADS];         /* of the log: that message of a thread */
    int delivered[MC_PROCESSES];                /* by rank, in all, */
    int from[MC_PROCESSES][MC_PROCESSES];       /* and [rank][sender's rank] */
};

static inline bool mc_is_ordered(const struct mc_group *g)
{
    return (g->flags & LOCO_MULTICAST_UNORDERED) == 0;
}

void mc_draw(struct mc_group *g, const struct sim_run *run);
/* Index of that rank among the senders, or -1. */
int mc_sender(const struct mc_group *g, int rank);
/* Message `i` of a thread into `words`: its length in bytes. */
size_t mc_make(const struct mc_group *g, int rank, int thread, int i, uint64_t *words);
/* What `rank` was given: looked at, then noted. */
int mc_check(const struct mc_group *g, int rank, const loco_delivery_t *message);
int mc_note(struct mc_group *g, int rank, const loco_delivery_t *message);
/* In order, nobody is given what somebody has not received: if that one stopped, the others could
 * not know whether to deliver it. */
int mc_check_received(const struct mc_group *g, int rank, uint64_t number);
/* All who live have been given message `number` of `rank`. */
int mc_check_stable(const struct mc_group *g, const struct sim_run *run, int rank,
                    uint64_t number);
/* All have been given all. */
int mc_check_end(const struct mc_group *g, const struct sim_run *run);
/* This process has given no numbers but those that its messages and the last message need. */
int mc_check_nulls(const struct mc_group *g, int rank, const loco_multicast_stats_t *stats);

#endif

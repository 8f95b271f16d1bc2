/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_VIEW_H
#define SIM_SCENARIO_VIEW_H

/* The observer of scenario_view.c: what each process was given, in which views. */

#include <loco/view.h>

#include "scenario_multicast.h"
#include "view/view.h"

#define VW_VIEWS 64

struct vw_group {
    struct mc_group g;
    uint64_t view_of[MC_MESSAGES];          /* of each message of the log, the view */
    int sent[MC_PROCESSES];                 /* by rank */
};

/* Who dies, or is taken for dead, and when. */
enum vw_harm {
    VW_AT_ANY_TIME,
    VW_GUESSES,         /* the same, and of those some live */
    VW_STEPS,           /* when somebody is given something, or a view */
    VW_SPLIT,           /* two take each other for dead, and others hear of it late */
    VW_JOINS,           /* as VW_AT_ANY_TIME; and some come later, or go out and come again */
    VW_LATE             /* the same; and some did not exist when the view was made */
};

/* VW_LATE: processes that are admitted, in their order, so that their ranks are their numbers. */
struct vw_late {
    int founders;                           /* processes before these */
    size_t address_bytes[MC_PROCESSES], ticket_bytes[MC_PROCESSES];     /* 0: not there yet */
    _Alignas(8) unsigned char address[MC_PROCESSES][LOCO_ADDRESS_MAX];
    unsigned char ticket[MC_PROCESSES][LOCO_VIEW_TICKET_MAX];
};

struct vw_views {
    enum vw_harm harm;
    uint64_t members[VW_VIEWS];             /* by number: as the first to install it said; 0: nobody
                                               has */
    uint64_t number[MC_PROCESSES];          /* by rank: the last that it installed */
    int sent_last[MC_PROCESSES];            /* threads of it that have sent their last message, */
    bool over[MC_PROCESSES];                /* and wait for nothing any more; */
    bool left[MC_PROCESSES];                /* it leaves, or has, by itself; */
    bool ended[MC_PROCESSES];               /* it was told that its view has ended */
    const struct loco_view *at[MC_PROCESSES];   /* as that process has it, while it does */
    bool outside[MC_PROCESSES];             /* it is no member, or has not begun to be one yet; */
    bool leaving[MC_PROCESSES];             /* it has asked to go out */
    bool ready[MC_PROCESSES];               /* all that it made was ready */
    bool majority;                          /* asked for */
    bool guesses;                           /* somebody may be suspected who lives */
};

/* Whether that process is one of those that go on from view to view. */
static inline bool vw_is_there(const struct vw_views *s, int rank)
{
    return !loci_sim_is_stopped(rank) && !s->left[rank] && !s->ended[rank]
           && (s->at[rank] == NULL || s->at[rank]->status == LOCO_OK);
}

static inline bool vw_goes_on(const struct vw_views *s, int rank)
{
    return vw_is_there(s, rank) && !s->outside[rank];
}

static inline bool vw_has_joins(const struct vw_views *s)
{
    return s->harm == VW_JOINS || s->harm == VW_LATE;
}

/* ---- scenario_view_late.c ---- */

/* A process that is late: it opens its runtime anew, so that nobody has met it, and waits for its
 * ticket. SIM_TOLD: nobody is there to give it one. */
int vw_come(struct vw_late *late, const struct vw_views *s, const struct sim_run *run, int rank,
            loco_runtime_t **rt);
/* What is created is ready; LOCO_ERR_TIMEOUT where nobody is left who could make it so: members
 * that stopped or left before they had heard of this process do not tell it. */
int vw_wait_ready(const struct vw_late *late, const struct vw_views *s, const struct sim_run *run,
                  int rank, loco_runtime_t *rt);
/* By a thread of a member: admit others until all are. The status that ended the view, or
 * LOCO_OK. */
int vw_admit(struct vw_late *late, const struct vw_views *s, const struct sim_run *run, int rank,
             loco_view_t *view);

/* ---- scenario_view_check.c ---- */

/* `rank` is given a message that begins with a word; `handled`: by a handler. */
int vw_note(struct vw_group *p, const struct vw_views *s, int rank, const loco_delivery_t *message,
            uint64_t view, bool handled);
/* It installs a view, and is told of these members. */
int vw_install(struct vw_views *s, const struct sim_run *run, int rank, uint64_t number,
               const int *members, int n);
/* The state of a process, as it is carried: of each group how many messages of the log it was
 * given, and these. */
struct vw_state {
    uint64_t words[MC_GROUPS * (1 + MC_MESSAGES)];
    size_t bytes;
};
void vw_save(struct vw_state *state, const struct vw_group *groups, int ngroups, int rank);
/* It is what `rank` has been given; and is all, and no more, that was given before that view. */
int vw_load(const struct vw_state *state, struct vw_group *groups, int ngroups, int rank);
int vw_check_begin(const struct vw_group *groups, int ngroups, int rank, uint64_t number);
/* Nobody but that process is a member. */
bool vw_is_alone(const struct vw_views *s, const struct sim_run *run, int rank);
/* Members that live have stopped because they are no majority: who is outside is told the same. */
bool vw_is_stopped_for_minority(const struct vw_views *s, const struct sim_run *run, int rank);
/* Its view has ended for it. */
int vw_end(struct vw_views *s, const struct sim_run *run, int rank);
/* All who go on have been given message `number` of `rank`. */
int vw_check_delivered(const struct vw_group *p, const struct vw_views *s,
                       const struct sim_run *run, int rank, uint64_t number);
/* All who go on have been given all that all who go on have sent. */
bool vw_all_given(const struct vw_group *p, const struct vw_views *s, const struct sim_run *run);

#endif

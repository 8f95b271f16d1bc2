/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_VIEW_H
#define SIM_SCENARIO_VIEW_H

/* The observer of scenario_view.c: what each process was given, in which views. */

#include <loco/view.h>

#include "scenario_multicast.h"
#include "view/view.h"

#define VW_VIEWS (MC_PROCESSES + 1)

struct vw_group {
    struct mc_group g;
    uint64_t view_of[MC_MESSAGES];          /* of each message of the log, the view */
    int sent[MC_PROCESSES];                 /* by rank */
};

struct vw_views {
    uint64_t members[VW_VIEWS];             /* by number: as the first to install it said; 0: nobody
                                               has */
    uint64_t number[MC_PROCESSES];          /* by rank: the last that it installed */
    bool over[MC_PROCESSES];                /* it has sent all; */
    bool left[MC_PROCESSES];                /* it leaves, or has, by itself; */
    bool ended[MC_PROCESSES];               /* it was told that its view has ended */
    const struct loco_view *at[MC_PROCESSES];   /* as that process has it, while it does */
    bool ready[MC_PROCESSES];               /* all that it made was ready */
    bool majority;                          /* asked for */
    bool guesses;                           /* somebody may be suspected who lives */
};

/* Whether that process is one of those that go on from view to view. */
static inline bool vw_goes_on(const struct vw_views *s, int rank)
{
    return !loci_sim_is_stopped(rank) && !s->left[rank] && !s->ended[rank]
           && (s->at[rank] == NULL || s->at[rank]->status == LOCO_OK);
}

/* `rank` is given a message that begins with a word; `handled`: by a handler. */
int vw_note(struct vw_group *p, const struct vw_views *s, int rank, const loco_delivery_t *message,
            uint64_t view, bool handled);
/* It installs a view, and is told of these members. */
int vw_install(struct vw_views *s, const struct sim_run *run, int rank, uint64_t number,
               const int *members, int n);
/* Its view has ended for it. */
int vw_end(struct vw_views *s, const struct sim_run *run, int rank);
/* All who go on have been given message `number` of `rank`. */
int vw_check_delivered(const struct vw_group *p, const struct vw_views *s,
                       const struct sim_run *run, int rank, uint64_t number);
/* All who go on have been given all that all who go on have sent. */
bool vw_all_given(const struct vw_group *p, const struct vw_views *s, const struct sim_run *run);

#endif

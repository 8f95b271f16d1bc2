/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MULTICAST_EPOCH_H
#define LOCI_MULTICAST_EPOCH_H

/* Multicasts whose members change: what a view (channels/view/) does with its own. See
 * multicast_epoch.c. All calls are by one thread, that of the view, but where it is said. */

#include <loco/multicast.h>

#define LOCI_MC_VIEW_MEMBERS 64

/* How one is made for a view: ordered, and wedged at first. */
struct loci_mc_of_view {
    void (*news)(void *ctx);        /* by any thread: a member is known, or something is delivered
                                       */
    bool (*is_self)(void *ctx);     /* whether this thread is the view's */
    void *ctx;
    uint64_t base;                  /* numbers begin there, */
    uint64_t gone;                  /* without these ranks, by bits, which are dead; */
    uint64_t out;                   /* these, and those that are outside at first */
    bool late;                      /* this process came late, to an open group */
};

/* The epoch after a cut. */
struct loci_mc_next {
    uint64_t base;                  /* its first number */
    uint64_t gone, out;             /* as of struct loci_mc_of_view */
    uint64_t come;                  /* ranks that were out before, */
    const uint64_t *start;          /* and of each rank, messages that it has sent before */
};

/* Destroy it: by who destroys the view. NULL is allowed. */
void loci_mc_destroy(struct loco_multicast *m);
/* Whether this thread is that of the view, which would wait for itself: false of none. */
bool loci_mc_is_views_thread(const struct loco_multicast *m);
/* All members that are left are known, and their memory is mapped where it can be. */
bool loci_mc_is_mapped(struct loco_multicast *m);
/* Before it is mapped: these ranks have gone, and are not mapped. By who came late. */
void loci_mc_lose(struct loco_multicast *m, uint64_t gone);
/* Whether the memory of that rank is mapped: of one that came when this had been mapped, which is
 * in no epoch yet, it is now. */
bool loci_mc_meet(struct loco_multicast *m, int rank);
/* It will not become ready, unless it is. By who came late. */
void loci_mc_abandon(struct loco_multicast *m, int status);
/* Its rank was vacant when this was made. */
void loci_mc_seat(struct loco_multicast *m, int rank, int peer);
/* From now on this process gives no numbers, and sees none. */
void loci_mc_wedge(struct loco_multicast *m);
/* While it is wedged: how many numbers of each sender, by its index, this process has, all below
 * which it can deliver. */
void loci_mc_given(struct loco_multicast *m, uint64_t *numbers);
/* While it is wedged: of each sender those below `trim` are delivered, and no more before the next
 * epoch. */
void loci_mc_cut(struct loco_multicast *m, const uint64_t *trim, const struct loci_mc_next *next);
/* This process was out, and is in the next epoch. */
void loci_mc_enter(struct loco_multicast *m, const struct loci_mc_next *next);
/* Whether that may be done: who polls is not too far behind. */
bool loci_mc_has_room(const struct loco_multicast *m);
/* Whether the program is done with all before the next epoch: its handler, or who polls has polled
 * again. */
bool loci_mc_has_passed(const struct loco_multicast *m);
/* What was cut of this process's messages is to be sent again. Returns how many are sent. */
uint64_t loci_mc_take_back(struct loco_multicast *m);
/* Whether the handler has been given all of that; without one, true. */
bool loci_mc_is_drained(const struct loco_multicast *m);
/* Begin the epoch. What this process sent and was cut is sent again. */
void loci_mc_resume(struct loco_multicast *m);
/* This process leaves: nothing is given, seen or handled any more. It is destroyed next. */
void loci_mc_stop(struct loco_multicast *m);
/* It has ended for this process, and the handler has returned but for its last call. Or has by
 * itself, or will never begin: a negative status. */
void loci_mc_end(struct loco_multicast *m, int status);
int loci_mc_has_failed(const struct loco_multicast *m);
/* The first place of an epoch that begins with that number. */
uint64_t loci_mc_place(const struct loco_multicast *m, uint64_t base);
int loci_mc_senders(const struct loco_multicast *m);

#endif

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
    uint64_t gone;                  /* without these ranks, by bits */
};

/* Destroy it: by who destroys the view. NULL is allowed. */
void loci_mc_destroy(struct loco_multicast *m);
/* Whether this thread is that of the view, which would wait for itself: false of none. */
bool loci_mc_is_views_thread(const struct loco_multicast *m);
/* All members that are left are known, and their memory is mapped where it can be. */
bool loci_mc_is_mapped(struct loco_multicast *m);
/* From now on this process gives no numbers, and sees none. */
void loci_mc_wedge(struct loco_multicast *m);
/* While it is wedged: how many numbers of each sender, by its index, this process has, all below
 * which it can deliver. */
void loci_mc_given(struct loco_multicast *m, uint64_t *numbers);
/* While it is wedged: of each sender those below `trim` are delivered, and no more before number
 * `base`, with which the next epoch begins, without `gone`. */
void loci_mc_cut(struct loco_multicast *m, const uint64_t *trim, uint64_t base, uint64_t gone);
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

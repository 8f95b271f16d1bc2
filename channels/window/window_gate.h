/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_GATE_H
#define LOCI_WINDOW_GATE_H

/* The gate of a window's locks: exclusive locks cost one atomic while nobody locks all. Of windows
 * that all members have mapped in window_gate.c; of others (_far) in window_gate_far.c. */

#include "window.h"

/* Take a target's lock in mode QUICK. LOCO_ERR_AGAIN: the gate is not open, and nothing is held.
 * LOCO_ERR_PEER_DEAD. */
int loci_gate_enter(struct loco_window *win, int rank, unsigned flags);
int loci_gate_enter_far(struct loco_window *win, int rank, unsigned flags);

/* Take the window's lock in mode ALL, with the gate closed. LOCO_ERR_PEER_DEAD. */
int loci_gate_take_all(struct loco_window *win);
int loci_gate_take_all_far(struct loco_window *win);

/* By a holder of the window's lock in mode PART, which came to a gate that was not open: open it
 * again if that happens often and nobody waits to lock all. A far gate stays closed. */
void loci_gate_reopen(struct loco_window *win);

#endif

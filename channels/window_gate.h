/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_GATE_H
#define LOCI_WINDOW_GATE_H

/* The window's lock for windows that are mapped by all: exclusive locks cost one atomic while
 * nobody locks all; window_gate.c has the protocol. */

#include "window.h"

/* Take a target's lock in mode QUICK. LOCO_ERR_AGAIN: the gate is not open, and nothing is held.
 * LOCO_ERR_PEER_DEAD. */
int loci_gate_enter(struct loco_window *win, int rank, unsigned flags);

/* Take the window's lock in mode ALL, with the gate closed. LOCO_ERR_PEER_DEAD. */
int loci_gate_take_all(struct loco_window *win);

/* By a holder of the window's lock in mode PART, which came to a gate that was not open: open it
 * again if that happens often and nobody waits to lock all. */
void loci_gate_reopen(struct loco_window *win);

#endif

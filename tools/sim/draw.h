/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_DRAW_H
#define SIM_DRAW_H

#include "fabric/sim/sim.h"

/* A run as Chrome's trace-event JSON, which chrome://tracing and ui.perfetto.dev show: a process
 * for each simulated one, with a track for each thread and one for the network. What is done to an
 * operation is a bar from its first event to its last one. A step is drawn as a microsecond, since
 * virtual time stands still for many of them; an event's own time is among its arguments. */
struct sim_draw;

/* NULL: no memory. */
struct sim_draw *sim_draw_begin(FILE *to);
/* For struct loci_sim_config, with the struct sim_draw as its ctx. */
void sim_draw_event(void *draw, const struct loci_sim_event *event);
/* Writes the end, and frees. */
void sim_draw_end(struct sim_draw *draw);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_BROKEN_H
#define SIM_BROKEN_H

#include "scenario.h"

/* Scenarios that are wrong on purpose, to try the explorer itself; neither listed nor explored with
 * `all`. Ended by NULL. */
extern const struct sim_scenario *const sim_broken[];
/* Of transactions, to see what parts of them are for; scenario_store.c. */
extern const struct sim_scenario sim_broken_unlogged, sim_broken_in_place;

#endif

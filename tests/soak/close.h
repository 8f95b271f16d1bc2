/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TESTS_SOAK_CLOSE_H
#define LOCO_TESTS_SOAK_CLOSE_H

#include "model.h"

/* Add the statement if the model allows it. */
bool program_try(struct program *p, struct model *m, const struct statement *s);
/* Add what ends all epochs that are open on window `win`, or on all (-1). */
void program_end_epochs(struct program *p, struct model *m, int win);
/* The same, and free the windows. False if something cannot be ended. */
bool program_close(struct program *p, struct model *m);
void program_wait_requests(struct program *p, struct model *m, int rank, int thread);

#endif

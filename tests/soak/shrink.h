/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TESTS_SOAK_SHRINK_H
#define LOCO_TESTS_SOAK_SHRINK_H

#include "launch.h"

/* A smaller program that fails as well; p is replaced by it. `why` is how it fails. False if p
 * does not fail when it is run again. */
bool shrink(struct program *p, const struct job *like, char *why, size_t room);

/* edit.c: smaller programs. Each is valid, or there is none (false). */
bool edit_keep(const struct program *p, const bool *keep, struct program *out);
bool edit_without_rank(const struct program *p, int rank, struct program *out);
/* The i-th of a list of simplifications; *more is false behind the last. */
bool edit_simpler(const struct program *p, int i, bool *more, struct program *out);
long program_size(const struct program *p);

#endif

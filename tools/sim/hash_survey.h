/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_HASH_SURVEY_H
#define SIM_HASH_SURVEY_H

/* For the scenario of hash tables: its header and those of channels cannot be together. */

#include <loco/hash.h>

#include "tree_survey.h"

/* Look at all leaves from the first on, and at all values that have objects of their own: each leaf
 * has the keys between its fences, and begins where the one before ends; hashes are those of the
 * keys. And at the directory: it has a segment for each hash, and leads to the leaf of each key at
 * once, as far as it can tell leaves apart: all keys have been looked up since the last change.
 * `grows`: nothing was ever removed, so each slot names a leaf at or left of where it begins.
 * LOCO_OK: what is wrong goes to `why`, "" if nothing; `*objects`: of the table. */
int sim_hash_survey(loco_hash_t *hash, bool grows, uint64_t *objects, char why[SIM_TREE_WHY]);

/* Hashes of all tables from now on have zeros but for these bits. */
void sim_hash_mask(uint64_t mask);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_TREE_SURVEY_H
#define SIM_TREE_SURVEY_H

/* For the scenario of trees: its header and those of channels cannot be together. */

#include <loco/tree.h>

#define SIM_TREE_WHY 160

/* Look at all nodes, level by level: each has the keys between its fences, its neighbour begins
 * where it ends, the nodes above name just those that there are, and empty ones have been taken out
 * where that can be (index.h, e); and at all values that have objects of their own. LOCO_OK: what
 * is wrong goes to `why`, "" if nothing; `*objects`: of the tree. */
int sim_tree_survey(loco_tree_t *tree, uint64_t *objects, char why[SIM_TREE_WHY]);

#endif

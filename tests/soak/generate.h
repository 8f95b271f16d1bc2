/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TESTS_SOAK_GENERATE_H
#define LOCO_TESTS_SOAK_GENERATE_H

#include "model.h"

/* A random program for so many ranks, with up to so many threads each, and the model that has run
 * it. The same arguments make the same program. */
struct model *generate(struct program *p, uint64_t seed, int ranks, int threads);

/* generate_types.c: a buffer of n elements of one type; `depth` levels of derived types. */
struct draw {
    struct arena *arena;
    uint64_t *state;
};
int draw_below(const struct draw *d, int bound);
bool draw_chance(const struct draw *d, int percent);
struct buffer draw_buffer(const struct draw *d, int el, int n, int depth);
/* Buffers with one signature of several types. */
enum { DRAW_SIDES = 2, DRAW_SEGMENTS = 4 };
void draw_mixed(const struct draw *d, struct buffer *side, int sides);
struct buffer plain_buffer(const struct draw *d, int el, int n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */

/* In which pieces an operation moves its bytes: aligned words, more of them at a time where there
 * are many. */

#include "config.h"

#include "world.h"

static size_t piece_len(size_t len)
{
    size_t words = (len + 14) / 8, each = (words + SIM_PIECES - 1) / SIM_PIECES;

    return each * 8;
}

/* The first piece ends where the network side is aligned. */
int loci_sim_piece_count(const unsigned char *at, size_t len)
{
    size_t head = (8 - (uintptr_t)at % 8) % 8, each = piece_len(len);

    if (head >= len)
        return len > 0;
    return (head > 0) + (int)((len - head + each - 1) / each);
}

void loci_sim_piece(const struct sim_op *op, int i, size_t *from, size_t *len)
{
    size_t head = (8 - (uintptr_t)op->target % 8) % 8, each = piece_len(op->op.len);
    size_t begin, end;

    if (head > op->op.len)
        head = op->op.len;
    if (head > 0 && i-- == 0) {
        *from = 0;
        *len = head;
        return;
    }
    begin = head + (size_t)i * each;
    end = begin + each < op->op.len ? begin + each : op->op.len;
    *from = begin;
    *len = end - begin;
}

/* One of the pieces that are left, any. */
static int choose_piece(struct sim_world *w, const struct sim_op *op)
{
    uint32_t n = (uint32_t)__builtin_popcount(op->left), skip, left = op->left;

    skip = n == 1 || w->strategy == LOCI_SIM_TIMED ? 0
           : loci_sim_choose(w, n, (uint32_t)(loci_sim_random(w, 0) % n));
    while (skip-- > 0)
        left &= left - 1;
    return __builtin_ctz(left);
}

/* What is moved next: a piece that is left, or, where words are torn, some bytes of one, then the
 * others, in the order of their addresses. */
void loci_sim_next_part(struct sim_world *w, struct sim_op *op, size_t *from, size_t *len)
{
    size_t part = op->part;
    int i = part != 0 ? op->begun : choose_piece(w, op);

    op->left &= ~(UINT32_C(1) << i);
    loci_sim_piece(op, i, from, len);
    *from += part;
    *len -= part;
    op->part = 0;
    if (!w->config->torn_words || *len != 8 || w->strategy == LOCI_SIM_TIMED)
        return;
    op->part = loci_sim_choose(w, 8, (uint32_t)(loci_sim_random(w, 0) % 8));
    if (op->part == 0)
        return;
    op->begun = i;
    op->left |= UINT32_C(1) << i;
    *len = op->part;
}

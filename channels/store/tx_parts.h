/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TX_PARTS_H
#define LOCI_TX_PARTS_H

/* Parts of a transaction that can be left out, to see what each costs. The library has them all:
 * they are constants there. Where LOCO_TX_PARTS is defined, for the simulator and for benchmarks,
 * they are a variable, which is set before the first store is made, and then stays as it is.
 *
 * What is left without the last ones in this order is right, but nobody can put right what a
 * process that dies in a commit leaves:
 *
 *   SINGLE   an object alone is changed by one swap of its cell; else it is owned like several
 *   CHECK    what was only read is looked at again; else a transaction may have read what was
 *            changed meanwhile
 *   LOG      whoever meets an owned cell finds what it is about, and may decide it; else he waits
 *            for its owner
 *   COPY     a value is written to another block, and a swap of the cell installs it; else over
 *            the old one (so of the same length) while the cell is owned, which a plain write
 *            gives back
 *
 * And CHAINS: operations that need not wait for each other are on their way together.
 *
 * One more is there only where COPY is not, as in databases that log values: VALUES. Once its cells
 * are owned, a transaction writes what they are to be to other blocks, its log, and then over the
 * old ones. Where its owner dies, somebody who knows that finishes what is whole in its log, and
 * gives back the other cells; until then whoever meets one of these waits. */

#include <stdbool.h>
#include <stddef.h>

enum loci_tx_part {
    LOCI_TX_COPY = 1, LOCI_TX_LOG = 2, LOCI_TX_CHECK = 4, LOCI_TX_SINGLE = 8, LOCI_TX_CHAINS = 16,
    LOCI_TX_ALL = 31,
    LOCI_TX_VALUES = 32
};

#if defined LOCO_SIM && !defined LOCO_TX_PARTS
#define LOCO_TX_PARTS
#endif

#ifdef LOCO_TX_PARTS
extern unsigned loci_tx_parts;
/* Blocks have room for values of so many bytes at least, so that longer ones can be written over
 * those that are there. */
extern size_t loci_tx_room;
static inline bool loci_tx_has(enum loci_tx_part part)
{
    return (loci_tx_parts & part) != 0;
}
static inline size_t loci_tx_roomy(size_t len)
{
    return len < loci_tx_room ? loci_tx_room : len;
}
#else
static inline bool loci_tx_has(enum loci_tx_part part)
{
    return part != LOCI_TX_VALUES;
}
static inline size_t loci_tx_roomy(size_t len)
{
    return len;
}
#endif

#endif

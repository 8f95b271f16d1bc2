/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_WEAK_H
#define TESTS_WEAK_H

#include <stdbool.h>
#include <stdint.h>

#include <loco/runtime.h>

/* A fabric for tests that is as weak as RDMA may be: several runtimes in one process, a thread
 * each, that cannot map each other's memory.
 *
 *   - A write's source is read some time between its post and its completion.
 *   - A completed write is placed when a later read, atomic or place on its lane passes it, or
 *     some random time later: sooner or later, but rarely at once.
 *   - Writes of one lane are placed in order; lanes have no order among them.
 *   - More than 8 bytes are placed in pieces, which others see.
 *   - Atomics read the word and store the result some time later. Those on one member's memory
 *     exclude each other, and nothing else: neither its CPU's accesses nor anybody's writes.
 *   - Posting is refused now and then (LOCO_ERR_AGAIN).
 *
 * So a fence that is missing shows. Random choices come from the seed; the order of threads does
 * not. */

typedef int weak_fn(loco_runtime_t *rt, int rank, void *arg);

/* Run fn in n threads, each with its own open runtime, and close them when all have returned.
 * Settings as in struct loco_bootstrap. 0 if all returned 0, else the first other value (and a
 * line on stderr for each). */
int weak_run(int n, uint64_t seed, const char *const *settings, weak_fn *fn, void *arg);

/* What befalls control messages: each a percentage of them. */
struct weak_faults {
    unsigned lose;
    unsigned twice;
    unsigned garble;            /* one bit is flipped */
    unsigned delay;             /* stays until another one comes to that process */
    unsigned overtake;          /* arrives before what its own sender sent earlier; without this
                                   senders only overtake each other */
    uint64_t lose_these;        /* bit i: the i-th of the run, from 0 */
    int speed;                  /* of the runtimes' clock; 0 is 1; -1: it stands still */
};

/* The same with faults. */
int weak_run_faulty(int n, uint64_t seed, const struct weak_faults *faults, weak_fn *fn, void *arg);

/* Control messages sent in this run so far. */
int weak_letters(loco_runtime_t *rt);

/* The process of this runtime dies: others are told, its writes in flight are lost. Afterwards it
 * may destroy its channels, and return. */
void weak_die(loco_runtime_t *rt);

/* Operations that a lane takes before posting is refused. */
#define WEAK_LANE_ROOM 24

/* What this process has posted to another one, or will, gets no further (nothing of it is read,
 * placed or executed) until it is let go. */
void weak_hold(loco_runtime_t *rt, int to, bool held);

/* From now on operations of this process on memory that is not there are posted, and refused by
 * the target's device: they fail, and all behind them on their lane is flushed. */
void weak_refuse_later(loco_runtime_t *rt);

/* Lines logged in all runtimes of this run so far that contain `text`. */
int weak_logged(loco_runtime_t *rt, const char *text);

#endif

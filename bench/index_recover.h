/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_INDEX_RECOVER_H
#define BENCH_INDEX_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/tx.h"

/* Of a store with one host, whose transactions have a log of values: the cells that the dead, by
 * rank, own get what they are to have. Adds to *recovered. */
int index_recover(struct loco_store *s, const bool dead[], uint64_t *recovered);

#endif

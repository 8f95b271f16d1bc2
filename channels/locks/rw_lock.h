/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RW_LOCK_H
#define LOCI_RW_LOCK_H

#include <loco/rw_lock.h>

#include "rw_word.h"

/* Where the word of a lock is, and the word itself, where it is mapped here: else NULL. For who
 * watches it from outside. */
const struct loci_mem *loci_rw_lock_mem(const loco_rw_lock_t *lock);
const unsigned char *loci_rw_lock_word(const loco_rw_lock_t *lock);

#endif

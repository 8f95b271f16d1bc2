/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RW_LOCK_H
#define LOCI_RW_LOCK_H

#include <loco/rw_lock.h>

#include "rw_word.h"

/* The word of a lock, at its host, where that is in its memory: else NULL. For who watches it from
 * outside. */
const unsigned char *loci_rw_lock_word(const loco_rw_lock_t *lock);

#endif

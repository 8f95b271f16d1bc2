/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PUBLISHED_H
#define LOCI_PUBLISHED_H

/* A record that one process writes in its own network memory, and everybody reads there, whatever
 * becomes of the writer.
 *
 * Two copies and a version: odd versions have their copy in the first place, even ones in the
 * second, with a checksum of both. The writer fills in the other copy, its checksum, and then the
 * version. So the copy of the current version is never written to: a writer that is stopped or
 * killed at any step leaves the record as it was before, or as it is after, and no reader waits for
 * it. A reader takes version, checksums and copy by one read, in any order; where they do not fit
 * it reads again, which only a writer that has published twice meanwhile can cause. Of another
 * machine it reads no further than the first copy, and all again where the version is even: most
 * records are published once. Version 0: nothing was ever published. */

#include <stddef.h>
#include <stdint.h>

#include "runtime.h"

#define LOCI_PUBLISHED_MOST 512     /* bytes of a record; a multiple of 8, as all lengths */
#define LOCI_PUBLISHED_HEAD 64
#define LOCI_PUBLISHED(len) (LOCI_PUBLISHED_HEAD + 2 * (size_t)(len))

/* The writer's, one thread at a time: at `place`, of LOCI_PUBLISHED(len) bytes. The new version. */
uint64_t loci_publish(unsigned char *place, const void *record, size_t len);

/* Anybody's: the record whose place is `at` bytes into `mem`. LOCO_ERR_NOT_FOUND: there was never
 * one. */
int loci_published_read(struct loco_runtime *rt, struct loci_mem *mem, uint64_t at, void *record,
                        size_t len);
/* The same, and meanwhile the current version in the place `next`. */
int loci_published_read_and(struct loco_runtime *rt, struct loci_mem *mem, uint64_t at,
                            void *record, size_t len, uint64_t next, uint64_t *version);
/* The current version alone: one read of a word. */
int loci_published_version(struct loco_runtime *rt, struct loci_mem *mem, uint64_t at,
                           uint64_t *version);

#endif

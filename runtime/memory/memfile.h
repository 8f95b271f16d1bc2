/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MEMFILE_H
#define LOCI_MEMFILE_H

#include <stdbool.h>
#include <stddef.h>

/* An anonymous memory file of that length, whose length nobody can change any more: who has mapped
 * it never meets its end. Nothing of it is committed. -1 with errno, and no signal; EFBIG: it is
 * more than the limit of files' length (ulimit -f) allows, which the system applies to it, too. */
int loci_memfile(const char *name, size_t len, bool huge);

#endif

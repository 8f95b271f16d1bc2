/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PROTECTION_H
#define LOCI_PROTECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What the program may do with a range of its memory, as the kernel's table of mappings has it. For
 * the message behind a failure: reading the table takes as long as it has lines. */
struct loci_protection {
    bool all_read, all_write;       /* every byte may be read, written */
    bool any_write;                 /* some may be written */
    /* The first stretch that may not be written, from the range's beginning; 0 and 0: none. */
    size_t begin, end;
    bool mapped, readable, shared;  /* of that stretch; shared: MAP_SHARED, of a file */
};

/* False: the table cannot be read, and nothing is said. */
bool loci_protection_of(const void *base, size_t len, struct loci_protection *p);
/* The same from a table in the format of /proc/PID/maps. */
bool loci_protection_read(FILE *table, const void *base, size_t len, struct loci_protection *p);
/* What is the matter with the first stretch: "bytes 4096 to 8191 may be read only". */
void loci_protection_text(const struct loci_protection *p, char *text, size_t size);

#endif

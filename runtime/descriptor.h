/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_DESCRIPTOR_H
#define LOCI_DESCRIPTOR_H

#include "runtime.h"

/* Descriptors are few, and the program's as well as ours. */

/* What of its descriptors a process may have open already when one more is opened that only makes
 * things better. */
enum loci_spare {
    LOCI_SPARE_HALF,            /* half of what it may have */
    LOCI_SPARE_MOST             /* all but an eighth, and 16 at least */
};
/* Whether this one, just opened, leaves the rest to what cannot do without. */
bool loci_descriptor_is_spare(int fd, enum loci_spare most);
/* Connections to other machines are many, so the limit gives way to them while the hard one
 * permits: after a call that opened fd, or could not (-1, errno), it is doubled where less than an
 * eighth is left. Whether that call, which had failed, may succeed now; else errno is kept. */
bool loci_descriptor_make_room(struct loco_runtime *rt, int fd);
/* Right after a call that could not open one, a memory file with its length too: log errno's cause
 * and remedy. Keeps errno. */
void loci_descriptor_missing(struct loco_runtime *rt, const char *what);

#endif

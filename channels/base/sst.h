/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SST_H
#define LOCI_SST_H

#include <loco/sst.h>

/* Whether that rank's memory is known here, so that its row may be pushed there: for who does not
 * wait for the runtime to be ready. */
bool loci_sst_knows(const loco_sst_t *sst, int rank);

#endif

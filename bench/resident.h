/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_RESIDENT_H
#define BENCH_RESIDENT_H

/* What programs have in common that measure the memory of stores. */

#include <stdint.h>

/* Of /proc/self/smaps_rollup, in bytes. Pss: what is shared is divided among those who share. */
uint64_t resident(void);

double seconds(void);

/* The program ends, and says what it was about, unless it is LOCO_OK. */
void must(int status, const char *what);

#endif

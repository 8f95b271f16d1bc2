/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MACHINES_DEATHS_H
#define TESTS_MACHINES_DEATHS_H

#include "../machine/channels.h"

/* deaths_waits.c: to use one of these is to wait for the last member, which does not come. */
#define WAITS 8
extern const struct kind waits[WAITS];

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_JSON_H
#define SIM_JSON_H

#include <stdio.h>

/* A text with its quotes. */
void sim_json_string(FILE *to, const char *text);

#endif

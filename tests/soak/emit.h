/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TESTS_SOAK_EMIT_H
#define LOCO_TESTS_SOAK_EMIT_H

#include "program.h"

/* The program as a C program that needs MPI alone. */
void emit(const struct program *p, FILE *to);

#endif

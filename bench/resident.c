/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <loco/loco.h>

#include "resident.h"

uint64_t resident(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    unsigned long long kib = 0;
    char line[200];

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "Pss: %llu", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib << 10;
}

double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void must(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, loco_strerror(status));
    _Exit(1);
}

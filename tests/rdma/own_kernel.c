/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: each process is told that it runs on a machine of its own, so that the processes
 * of one machine speak over links between machines. With OWN_KERNEL they run on the one of that
 * name. */

#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    static char text[64];

    *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    if (strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
        return real(path, mode);
    if (getenv("OWN_KERNEL") != NULL)
        snprintf(text, sizeof text, "machine %s\n", getenv("OWN_KERNEL"));
    else
        snprintf(text, sizeof text, "machine of process %d\n", (int)getpid());
    return fmemopen(text, strlen(text), "r");
}

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
    FILE *(*real)(const char *, const char *), *own;

    *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    if (strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
        return real(path, mode);
    own = tmpfile();
    if (own != NULL) {
        if (getenv("OWN_KERNEL") != NULL)
            fprintf(own, "machine %s\n", getenv("OWN_KERNEL"));
        else
            fprintf(own, "machine of process %d\n", (int)getpid());
        rewind(own);
    }
    return own;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_HELD_H
#define TESTS_HELD_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "case.h"

/* What this process holds. */
struct held {
    int descriptors;
    int maps;                   /* but those of PMIx, which keeps two for each job it has met */
    int files;                  /* memory files of the library that are mapped, */
    long file_mib;              /* and their MiB */
    long rss_kib;
};

static inline int held_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n - 3;               /* ".", "..", and the folder */
}

static inline struct held held_now(void)
{
    struct held held = { .descriptors = held_descriptors() };
    long pages = 0;
    char line[1024];
    FILE *f = fopen("/proc/self/maps", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        unsigned long from, to;

        held.maps += strstr(line, "/pmix_dstor") == NULL;
        if (strstr(line, "memfd:loco") == NULL || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        held.files++;
        held.file_mib += (long)((to - from) >> 20);
    }
    if (f != NULL)
        fclose(f);
    f = fopen("/proc/self/statm", "r");
    if (f != NULL && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    held.rss_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    return held;
}

static inline void held_tell(const char *when, const struct held *held)
{
    printf("%s: %d descriptors, %d maps, %d memory files of %ld MiB, %ld KiB resident\n", when,
           held->descriptors, held->maps, held->files, held->file_mib, held->rss_kib);
}

/* Not more than before but for `kib` of resident memory. The C library keeps some maps of what its
 * threads have allocated: two of slack. */
static inline bool held_is_as(const struct held *before, const struct held *now, long kib)
{
    return now->descriptors <= before->descriptors && now->maps <= before->maps + 2
           && now->files <= before->files && now->file_mib <= before->file_mib
           && now->rss_kib <= before->rss_kib + kib;
}

/* As above, in time: who has gone is noticed a moment later. */
static inline bool held_becomes(const struct held *before, long kib, struct held *now)
{
    double end = case_now() + case_limit(10);

    for (;;) {
        *now = held_now();
        if (held_is_as(before, now, kib) || case_now() > end)
            return held_is_as(before, now, kib);
        usleep(10000);
    }
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TASKS_H
#define TESTS_TASKS_H

#include <dirent.h>
#include <string.h>
#include <unistd.h>

static inline int tasks_now(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL)
        n += entry->d_name[0] != '.';
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

/* Threads of this process. One that was joined may be listed for a moment still, so it is the
 * smallest number in a while. */
static inline int tasks_count(void)
{
    int least = tasks_now();

    for (int i = 0; i < 10; i++) {
        int n;

        usleep(2000);
        n = tasks_now();
        least = n < least ? n : least;
    }
    return least;
}

#endif

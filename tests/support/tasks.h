/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TASKS_H
#define TESTS_TASKS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether that thread of this process has that name; one that has just ended has none. */
static inline bool task_is(const char *task, const char *name)
{
    char path[300], is[32] = "";
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    fd = open(path, O_RDONLY);
    n = fd < 0 ? 0 : read(fd, is, sizeof is - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 && strncmp(is, name, strlen(name)) == 0 && is[strlen(name)] == '\n';
}

/* Those of that name; NULL: all. */
static inline int tasks_now(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL)
        n += entry->d_name[0] != '.' && (name == NULL || task_is(entry->d_name, name));
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

/* Threads of this process, likewise. One that was joined may be listed for a moment still, so it is
 * the smallest number in a while. */
static inline int tasks_named(const char *name)
{
    int least = tasks_now(name);

    for (int i = 0; i < 10; i++) {
        int n;

        usleep(2000);
        n = tasks_now(name);
        least = n < least ? n : least;
    }
    return least;
}

static inline int tasks_count(void)
{
    return tasks_named(NULL);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: the processes that a program forks are on the machines in turn
 * (tests/machines/machines), the first child on the first one. IN_MACHINES of the environment: on
 * so many of them; all, if it is not set.
 *
 * Only what a test program itself forks goes: neither the processes of its framework, nor those of
 * commands that it runs. */

#include "config.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MACHINES_MAX = 64 };

static bool is_test(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "tests/") != NULL;
}

/* Processes that hold the machines. */
static int holders(long pid[MACHINES_MAX])
{
    const char *at = getenv("MACHINE_PIDS"), *most = getenv("IN_MACHINES");
    int n = 0, limit = most != NULL ? atoi(most) : MACHINES_MAX;
    char *end;

    while (at != NULL && *at != '\0' && n < limit && n < MACHINES_MAX) {
        pid[n] = strtol(at, &end, 10);
        if (end == at)
            break;
        n++;
        at = end;
    }
    return n;
}

static void fail(const char *what)
{
    perror(what);
    _exit(125);
}

static void join(long pid, const char *kind)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/ns/%s", pid, kind);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, 0) != 0)
        fail(path);
    close(fd);
}

/* Mounts are the last, for they change what is at a path. A machine's root is that of its holder,
 * for all of this may run in a tree (chroot). */
static void move_to(long pid)
{
    char here[PATH_MAX], root[64];
    int fd;

    snprintf(root, sizeof root, "/proc/%ld/root", pid);
    fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || getcwd(here, sizeof here) == NULL)
        fail(root);
    join(pid, "net");
    join(pid, "uts");
    join(pid, "mnt");
    if (fchdir(fd) != 0 || chroot(".") != 0 || chdir(here) != 0)
        fail(here);
    close(fd);
}

pid_t fork(void)
{
    static int children;
    const void *caller = __builtin_return_address(0);
    long holder[MACHINES_MAX];
    pid_t (*real)(void), pid;
    int n;

    *(void **)&real = dlsym(RTLD_NEXT, "fork");
    if (!is_test(caller))
        return real();
    n = holders(holder);
    pid = real();
    if (pid == 0 && n > 0)
        move_to(holder[children % n]);
    children += pid > 0;
    return pid;
}

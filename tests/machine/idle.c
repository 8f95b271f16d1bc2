/* SPDX-License-Identifier: BSD-3-Clause */

/* The service thread costs nothing while there is nothing to do: it is not run once in an idle
 * second, with all connections made. */

#include <dirent.h>
#include <unistd.h>

#include "machine.h"

#define MEMBERS 4

/* Nanoseconds on a processor and times put there, of the thread of that name. */
static bool thread_times(const char *name, unsigned long long *ns, unsigned long long *slices)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    bool found = false;

    while (tasks != NULL && !found && (entry = readdir(tasks)) != NULL) {
        char path[300], line[64] = "";
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        f = fopen(path, "re");
        if (f == NULL)
            continue;
        found = fgets(line, sizeof line, f) != NULL
                && strncmp(line, name, strlen(name)) == 0;
        fclose(f);
        if (!found)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        f = fopen(path, "re");
        found = f != NULL && fscanf(f, "%llu %*u %llu", ns, slices) == 2;
        if (f != NULL)
            fclose(f);
        break;
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

static int idles(const struct loco_bootstrap *boot, void *arg)
{
    unsigned long long ns[2] = { 0, 0 }, slices[2] = { 0, 0 };
    struct world w;
    uint64_t old;

    (void)arg;
    NEED(enter(&w, boot, 4096) == LOCO_OK);
    for (int to = 0; to < w.n; to++) {
        NEED(loci_fetch_add(w.rt, &w.pools[to], 0, 1, &old, NULL) == LOCO_OK);
        NEED(loci_write64(w.rt, &w.users[to], 0, 1, NULL) == LOCO_OK);
    }
    NEED(together(&w) == LOCO_OK);
    usleep(200000);
    NEED(thread_times("loco-service", &ns[0], &slices[0]));
    usleep(1000000);
    NEED(thread_times("loco-service", &ns[1], &slices[1]));
    if (w.me == 0)
        printf("# service thread of member 0: %llu ns, %llu times run before; %llu ns, %llu times "
               "in an idle second\n", ns[0], slices[0], ns[1] - ns[0], slices[1] - slices[0]);
    NEED(slices[0] > 0);            /* or we looked at nothing */
    NEED(ns[1] == ns[0] && slices[1] == slices[0]);
    return leave(&w) == LOCO_OK ? 0 : 1;
}

int main(void)
{
    struct tap tap = { 0, 0 };

    tap_ok(&tap, loco_fork_run(MEMBERS, idles, NULL, NULL) == LOCO_OK,
           "no processor time of %d service threads in an idle second", MEMBERS);
    return tap_end(&tap);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory that is not there is refused while the program lives, and the kernel kills nobody.
 *
 * In a control group of 512 MiB, as root: one process asks for too much; several take all that
 * there is in small pieces and touch it, also through each other's mappings; several ask at once
 * for 40 % each of what is left, also where another user keeps them from asking in turn; and one
 * that has memory which it touches later keeps it. Where no
 * control group can be made, only LOCO_MEM_LIMIT is tried, and the lines of the rest say SKIP. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

#define MEMBERS 4
#define NOBODY 65534
#define MiB ((size_t)1 << 20)
#define GROUP_LIMIT (512 * MiB)

/* ---- a control group of our own ---- */

struct group {
    char path[256];
    bool v2;
};

static bool put(const char *dir, const char *file, const char *text)
{
    char path[300];
    int fd;
    bool good;

    snprintf(path, sizeof path, "%s/%s", dir, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

/* A mount of the memory controller, or of version 2. */
static bool find_mount(bool v2, char *mount, size_t len)
{
    char line[4096], point[256];
    FILE *f = fopen("/proc/self/mountinfo", "re");
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        char *dash = strstr(line, " - ");

        found = dash != NULL && sscanf(line, "%*s %*s %*s %*s %255s", point) == 1
                && (v2 ? strncmp(dash, " - cgroup2 ", 11) == 0
                       : strncmp(dash, " - cgroup ", 10) == 0 && strstr(dash, "memory") != NULL);
    }
    if (f != NULL)
        fclose(f);
    if (found)
        snprintf(mount, len, "%s", point);
    return found;
}

/* In a mount namespace of our own, where nothing is mounted: a root without /sys/fs/cgroup. */
static bool make_mount(bool v2, char *mount_point, size_t len)
{
    snprintf(mount_point, len, "/tmp/loco-cgroup.%d", (int)getpid());
    if (mkdir(mount_point, 0700) != 0)
        return false;
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
        && mount("none", mount_point, v2 ? "cgroup2" : "cgroup", 0, v2 ? NULL : "memory") == 0)
        return true;
    rmdir(mount_point);
    return false;
}

static bool make_group(const char *mount, struct group *group)
{
    const char *limit = group->v2 ? "memory.max" : "memory.limit_in_bytes";
    char text[32];

    if (group->v2)
        put(mount, "cgroup.subtree_control", "+memory");
    snprintf(group->path, sizeof group->path, "%.200s/loco-test.%d", mount, (int)getpid());
    if (mkdir(group->path, 0755) != 0)
        return false;
    snprintf(text, sizeof text, "%zu", GROUP_LIMIT);
    if (put(group->path, limit, text)) {
        /* Nothing is swapped out to make room; errors mean that there is no swap to be had. */
        put(group->path, group->v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
            group->v2 ? "0" : text);
        snprintf(text, sizeof text, "%d", (int)getpid());
        if (put(group->path, "cgroup.procs", text))
            return true;
    }
    rmdir(group->path);
    return false;
}

/* This process in a group of its own; where it came from is in `home`. */
static bool enter_group(struct group *group, char *home, size_t len)
{
    char point[256];

    for (int try = 0; try < 4; try++) {
        group->v2 = try % 2;
        if (!(try < 2 ? find_mount(group->v2, point, sizeof point)
                      : make_mount(group->v2, point, sizeof point)))
            continue;
        snprintf(home, len, "%s", point);
        if (make_group(point, group))
            return true;
    }
    return false;
}

/* Times that the kernel killed somebody in the group. */
static long kills(const struct group *group)
{
    char path[300], line[128];
    long count = -1;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", group->path,
             group->v2 ? "memory.events" : "memory.oom_control");
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        sscanf(line, "oom_kill %ld", &count);
    if (f != NULL)
        fclose(f);
    return count;
}

/* ---- members ---- */

/* More than there is, then enough: the program lives. */
static int asks_for_too_much(const struct loco_bootstrap *boot, void *arg)
{
    size_t too_much = *(const size_t *)arg;
    struct loci_mem mem;
    struct world w;

    NEED(enter(&w, boot, 4096) == LOCO_OK);
    for (int i = 0; i < 10; i++) {
        NEED(loci_alloc(w.rt, too_much, 0, &mem) == LOCO_ERR_NO_MEMORY);
        NEED(loci_alloc(w.rt, 4 * MiB, 0, &mem) == LOCO_OK);
        memset(mem.ptr, i, 4 * MiB);
        loci_free(w.rt, &mem);
    }
    return leave(&w) == LOCO_OK ? 0 : 1;
}

/* All that there is, piece by piece, each touched here and by a peer. */
static int takes_all(const struct loco_bootstrap *boot, void *arg)
{
    enum { MOST = 1000 };
    static struct loci_mem mine[MOST];
    struct world w;
    int n = 0, refused = 0, pieces = 0;

    (void)arg;
    NEED(enter(&w, boot, 4096) == LOCO_OK);
    while (refused == 0) {
        struct loci_mem all[MEMBERS];
        int status = LOCO_OK, statuses[MEMBERS];
        unsigned char *peer;

        NEED(n < MOST);
        status = loci_alloc(w.rt, 3 * MiB, 0, &mine[n]);
        NEED(status == LOCO_OK || status == LOCO_ERR_NO_MEMORY);
        NEED(w.exchange->allgather(w.exchange->ctx, &status, sizeof status, statuses) == LOCO_OK);
        for (int i = 0; i < w.n; i++)
            refused += statuses[i] != LOCO_OK;
        if (status == LOCO_OK)
            memset(mine[n++].ptr, 1, 3 * MiB);
        if (refused > 0)
            break;
        NEED(share(&w, &mine[n - 1], all) == LOCO_OK);
        peer = loci_mem_map(w.rt, &all[(w.me + 1) % w.n]);
        NEED(peer != NULL);
        memset(peer, 2, 3 * MiB);
        pieces++;
    }
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0)
        printf("# %d members took %d pieces of 3 MiB each before one was refused\n", w.n, pieces);
    NEED(pieces > 10);
    while (n > 0)
        loci_free(w.rt, &mine[--n]);
    return leave(&w) == LOCO_OK ? 0 : 1;
}

/* All at once 40 % each of what is left: two can have it, and so many must. */
static int asks_at_once(const struct loco_bootstrap *boot, void *arg)
{
    int must_have = *(const int *)arg;
    struct world w;
    struct loci_mem mem;
    int status, statuses[MEMBERS], had = 0;
    size_t left, all[MEMBERS];

    NEED(enter(&w, boot, 4096) == LOCO_OK);
    for (int round = 0; round < 6; round++) {
        had = 0;
        NEED(together(&w) == LOCO_OK);
        left = loci_memory_left(SIZE_MAX, 0, NULL);
        NEED(w.exchange->allgather(w.exchange->ctx, &left, sizeof left, all) == LOCO_OK);
        status = loci_alloc(w.rt, all[0] / 10 * 4, 0, &mem);
        NEED(status == LOCO_OK || status == LOCO_ERR_NO_MEMORY);
        if (status == LOCO_OK)
            memset(mem.ptr, 1, all[0] / 10 * 4);
        NEED(w.exchange->allgather(w.exchange->ctx, &status, sizeof status, statuses) == LOCO_OK);
        for (int i = 0; i < w.n; i++)
            had += statuses[i] == LOCO_OK;
        NEED(had >= must_have && had <= 2);
        if (status == LOCO_OK)
            loci_free(w.rt, &mem);
    }
    if (w.me == 0)
        printf("# of %d members that asked for 40 %% of %zu MiB each, %d had it\n", w.n,
               all[0] / MiB, had);
    return leave(&w) == LOCO_OK ? 0 : 1;
}

/* One has an eighth of what is left and does not touch it yet: the others, who ask for two thirds
 * and a quarter, can have one of the two. Then all is touched. */
static int leaves_what_is_owed(const struct loco_bootstrap *boot, void *arg)
{
    static const size_t percent[] = { 12, 66, 25 };
    size_t left, all[MEMBERS], after, size;
    struct loci_mem mem;
    struct world w;
    int status = LOCO_OK, statuses[MEMBERS];

    (void)arg;
    NEED(enter(&w, boot, 4096) == LOCO_OK);
    left = loci_memory_left(SIZE_MAX, 0, NULL);
    NEED(w.exchange->allgather(w.exchange->ctx, &left, sizeof left, all) == LOCO_OK);
    size = all[0] / 100 * percent[w.me];
    for (int turn = 0; turn < w.n; turn++) {
        if (turn == w.me)
            status = loci_alloc(w.rt, size, 0, &mem);
        after = loci_memory_left(SIZE_MAX, 0, NULL);
        NEED(turn > 0 || w.me > 0 || after > all[0] - size / 2);        /* else it is filled */
        NEED(together(&w) == LOCO_OK);
    }
    NEED(w.exchange->allgather(w.exchange->ctx, &status, sizeof status, statuses) == LOCO_OK);
    NEED(statuses[0] == LOCO_OK && statuses[1] == LOCO_OK && statuses[2] == LOCO_ERR_NO_MEMORY);
    if (status == LOCO_OK)
        memset(mem.ptr, 1, size);
    NEED(together(&w) == LOCO_OK);
    if (status == LOCO_OK)
        loci_free(w.rt, &mem);
    return leave(&w) == LOCO_OK ? 0 : 1;
}

static bool run(int n, loco_fork_fn *fn, void *arg)
{
    int statuses[MEMBERS];

    if (loco_fork_run(n, fn, arg, statuses) == LOCO_OK)
        return true;
    for (int i = 0; i < n; i++)
        printf("# member %d ended with %d\n", i, statuses[i]);
    return false;
}

/* A process of another user that has the lock of this network namespace, or -1. */
static pid_t hold_lock(void)
{
    int tell[2];
    char word = 0;
    pid_t pid;

    if (pipe(tell) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        int fd = open("/proc/self/ns/net", O_RDONLY);

        if (setresuid(NOBODY, NOBODY, NOBODY) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0
            && flock(fd, LOCK_EX) == 0 && write(tell[1], &word, 1) == 1)
            pause();
        _exit(1);
    }
    close(tell[1]);
    if (read(tell[0], &word, 1) != 1)
        pid = -1;
    close(tell[0]);
    return pid;
}

/* The same while another user holds the lock that makes them ask in turn: all may find, too late,
 * that others ask as well. In a network namespace of its own, to which the lock belongs. */
static bool run_out_of_turn(void)
{
    int none = 0, status = 1;
    pid_t pid = fork(), holder;

    if (pid == 0) {
        if (unshare(CLONE_NEWNET) != 0)
            _exit(1);
        holder = hold_lock();
        status = holder > 0 && run(MEMBERS, asks_at_once, &none) ? 0 : 1;
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
        _exit(status);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- */

static void test_in_group(struct tap *tap, const struct group *group)
{
    size_t too_much = 2 * GROUP_LIMIT;
    long before = kills(group);
    int one = 1;

    printf("# in a control group of %zu MiB, version %d: %s\n", GROUP_LIMIT / MiB,
           group->v2 ? 2 : 1, group->path);
    tap_ok(tap, run(1, asks_for_too_much, &too_much), "one process asks for twice its group");
    tap_ok(tap, run(MEMBERS, takes_all, NULL), "%d processes take all, in pieces", MEMBERS);
    tap_ok(tap, run(MEMBERS, asks_at_once, &one), "%d processes ask at once for 40 %% each",
           MEMBERS);
    tap_ok(tap, run(3, leaves_what_is_owed, NULL), "what one has and did not touch yet is left");
    tap_ok(tap, run_out_of_turn(), "%d processes ask at once, while another user has their lock",
           MEMBERS);
    tap_ok(tap, before == kills(group), "the kernel killed nobody (oom_kill %ld)", kills(group));
}

/* The group is removed by a process outside. */
static bool test_groups(struct tap *tap)
{
    struct group group;
    char home[256], text[32];

    if (!enter_group(&group, home, sizeof home))
        return false;
    test_in_group(tap, &group);
    snprintf(text, sizeof text, "%d", (int)getpid());
    put(home, "cgroup.procs", text);
    for (int i = 0; i < 100 && rmdir(group.path) != 0; i++)
        usleep(10000);
    if (strncmp(home, "/tmp/", 5) == 0) {
        umount2(home, MNT_DETACH);
        rmdir(home);
    }
    return true;
}

int main(void)
{
    static const char *const lines[] = {
        "one process asks for twice its group", "processes take all, in pieces",
        "processes ask at once for 40 % each", "what one has and did not touch yet is left",
        "processes ask at once, without their lock",
        "the kernel killed nobody",
    };
    struct tap tap = { 0, 0 };
    size_t too_much = 65 * MiB;

    setenv("LOCO_MEM_LIMIT", "64M", 1);
    tap_ok(&tap, run(2, asks_for_too_much, &too_much), "a process asks for more than "
           "LOCO_MEM_LIMIT");
    setenv("LOCO_MEM_LIMIT", "inf", 1);
    if (IS_SANITIZED) {
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            tap_skip(&tap, lines[i], "sanitizers take several times the memory that is used");
    } else if (!test_groups(&tap)) {
        fprintf(stderr, "memory: NO CONTROL GROUP could be made (it takes root and a memory "
                "controller): only LOCO_MEM_LIMIT was tested\n");
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            tap_skip(&tap, lines[i], "no control group could be made: be root");
    }
    return tap_end(&tap);
}

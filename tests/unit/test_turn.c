/* SPDX-License-Identifier: BSD-3-Clause */

/* Asking for memory in turn: who is waited for, and for how long. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/fork.h>

#include "memory/turn.h"
#include "run.h"
#include "runtime.h"

#define NOBODY 65534
#define NEED(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

/* ---- who holds the lock ---- */

/* Before anything else of the member: its lock is then nobody's but the test's. */
static bool apart(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0;
}

/* A process of that user that takes the lock, and keeps it for so long; 0: until it is killed. */
static pid_t hold(uid_t user, unsigned microseconds)
{
    int tell[2];
    char word = 0;
    pid_t pid;

    if (pipe(tell) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        int fd = open("/proc/self/ns/net", O_RDONLY);

        if (setresuid(user, user, user) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || fd < 0
            || flock(fd, LOCK_EX) != 0 || write(tell[1], &word, 1) != 1)
            _exit(1);
        if (microseconds == 0)
            pause();
        usleep(microseconds);
        _exit(0);
    }
    close(tell[1]);
    if (read(tell[0], &word, 1) != 1)
        pid = -1;
    close(tell[0]);
    return pid;
}

static int lines;

static void count_lines(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    lines += strstr(text, "without the node's lock") != NULL;
}

static int open_runtime(const struct loco_bootstrap *boot, loco_runtime_t **rt)
{
    static const char *const settings[] = { "LOCO_LOG=debug", NULL };
    struct loco_bootstrap own = *boot;

    own.log = count_lines;
    own.settings = settings;
    return loco_runtime_open(&own, rt);
}

static void run_alone(loco_fork_fn *fn)
{
    int status = 1;

    loco_fork_run(1, fn, NULL, &status);
    cr_assert(status == 0, "ended with %d", status);
}

/* ---- */

static int asks_beside_a_stranger(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_turn turn = { 0 };
    loco_runtime_t *rt;
    pid_t pid;
    int64_t start;
    int fd;

    (void)arg;
    NEED(apart());
    NEED(open_runtime(boot, &rt) == LOCO_OK);
    pid = hold(NOBODY, 0);
    NEED(pid > 0);
    start = run_now();
    for (int i = 0; i < 200; i++)
        NEED(loci_turn_take(rt, &turn) == -1);
    NEED(!run_too_long(start, 500000000));
    NEED(lines == 1);
    NEED(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    fd = loci_turn_take(rt, &turn);
    NEED(fd >= 0);
    loci_turn_give(fd);
    loco_runtime_close(rt);
    return 0;
}

Test(turn, waits_for_a_stranger_but_a_moment, .timeout = 60)
{
    if (geteuid() != 0)
        cr_skip("only root can be two users");
    run_alone(asks_beside_a_stranger);
}

/* One that gives it back now and then, each time before we lose patience. */
static int asks_beside_a_busy_stranger(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_turn turn = { 0 };
    loco_runtime_t *rt;
    int64_t waited = 0;

    (void)arg;
    NEED(apart());
    NEED(open_runtime(boot, &rt) == LOCO_OK);
    for (int i = 0; i < 10; i++) {
        pid_t pid = hold(NOBODY, 150000);
        int64_t start = run_now();

        NEED(pid > 0);
        loci_turn_give(loci_turn_take(rt, &turn));
        waited += run_now() - start;
        NEED(waitpid(pid, NULL, 0) == pid);
    }
    NEED(waited < run_limit(1000000000));       /* all that they take is 1.5 s */
    loco_runtime_close(rt);
    return 0;
}

Test(turn, adds_up_what_strangers_take, .timeout = 60)
{
    if (geteuid() != 0)
        cr_skip("only root can be two users");
    run_alone(asks_beside_a_busy_stranger);
}

static int asks_beside_its_own(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_turn turn = { 0 };
    loco_runtime_t *rt;
    int64_t start;
    pid_t pid;
    int fd;

    (void)arg;
    NEED(apart());
    NEED(open_runtime(boot, &rt) == LOCO_OK);
    pid = hold(geteuid(), 1000000);
    NEED(pid > 0);
    start = run_now();
    fd = loci_turn_take(rt, &turn);
    NEED(fd >= 0);
    NEED(run_now() - start > 800000000);
    NEED(lines == 0);
    loci_turn_give(fd);
    NEED(waitpid(pid, NULL, 0) == pid);
    loco_runtime_close(rt);
    return 0;
}

Test(turn, waits_for_a_process_of_this_user, .timeout = 60)
{
    if (geteuid() != 0)
        cr_skip("only root can have a network namespace of its own");
    run_alone(asks_beside_its_own);
}

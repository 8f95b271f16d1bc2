/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory that is handed out before it is filled: what processes tell each other of it, and when it
 * is filled. Each test has a network namespace of its own, to which belongs what they tell. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/fork.h>

#include "fabric/shm/shm.h"
#include "memory/memory.h"
#include "memory/promise.h"
#include "memory/turn.h"
#include "run.h"
#include "runtime.h"

#define PIECE ((size_t)2 << 20)
#define FEW ((size_t)20)            /* pieces, more than an extent begins with, */
#define MANY ((size_t)64)           /* and so many that to fill them one by one takes 6.4 s */
#define NEED(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

static bool apart(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0;
}

static void run_alone(loco_fork_fn *fn)
{
    int status = 1;

    if (geteuid() != 0)
        cr_skip("only root can have a network namespace of its own");
    if (loci_memory_left(SIZE_MAX, 0, NULL) < 8 * MANY * PIECE)
        cr_skip("there is no plenty of memory on this machine");
    loco_fork_run(1, fn, NULL, &status);
    cr_assert(status == 0, "ended with %d", status);
}

static int open_runtime(const struct loco_bootstrap *boot, loco_runtime_t **rt)
{
    struct loco_bootstrap own = *boot;

    own.log = run_log;
    return loco_runtime_open(&own, rt);
}

/* ---- others that owe ---- */

#define NOBODY 65534

/* The last two are deaf, too: another user, and one with this user's rights. */
enum who { ANSWERS, DEAF, STRANGER, STARTED_BY_STRANGER };

/* A process that owes so many pieces until it is called, or, where it is deaf, until it is killed;
 * *answered becomes 1 when it has heard, a little before it owes nothing. */
static pid_t owe(uint64_t pieces, enum who who, _Atomic int *answered)
{
    int tell[2];
    char word = 0;
    pid_t pid;

    if (pipe(tell) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        struct loci_promises p;

        loci_promises_init(&p);
        if (!loci_promises_set(&p, pieces) || (who == STRANGER && setuid(NOBODY) != 0)
            || (who == STARTED_BY_STRANGER && setresuid(NOBODY, 0, 0) != 0)
            || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || write(tell[1], &word, 1) != 1)
            _exit(1);
        while (who != ANSWERS || !loci_promises_are_called(&p))
            usleep(1000);
        usleep(50000);
        atomic_store(answered, 1);
        _exit(loci_promises_set(&p, 0) ? 0 : 1);
    }
    close(tell[1]);
    if (read(tell[0], &word, 1) != 1)
        pid = -1;
    close(tell[0]);
    return pid;
}

static _Atomic int *shared_number(void)
{
    return mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int end(pid_t pid)
{
    kill(pid, SIGKILL);
    return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}

static int tells(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_promises mine;
    _Atomic int *answered = shared_number();
    pid_t first, second;
    int call;

    (void)boot;
    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    loci_promises_init(&mine);
    NEED(loci_promises_of_others(&mine) == 0);
    NEED(loci_promises_set(&mine, 7));
    NEED(loci_promises_of_others(&mine) == 0);
    first = owe(100, DEAF, answered);
    second = owe(30, ANSWERS, answered);
    NEED(first > 0 && second > 0);
    NEED(loci_promises_of_others(&mine) == 130);
    NEED(loci_promises_set(&mine, 3) && loci_promises_set(&mine, 1000));
    NEED(loci_promises_of_others(&mine) == 130);
    NEED(end(first) == 0);
    NEED(loci_promises_of_others(&mine) == 30);
    NEED(!loci_promises_are_called(&mine));
    call = loci_promises_call();
    NEED(call >= 0 && loci_promises_are_called(&mine));
    NEED(waitpid(second, NULL, 0) == second && atomic_load(answered) == 1);
    NEED(loci_promises_of_others(&mine) == 0);
    close(call);
    NEED(!loci_promises_are_called(&mine));
    NEED(loci_promises_set(&mine, 0));
    loci_promises_close(&mine);
    return 0;
}

Test(promise, is_seen_until_it_is_kept_or_its_process_ends, .timeout = 60)
{
    run_alone(tells);
}

/* What could not be told any more changes nothing of what was told before, which is taken back as
 * it is kept. */
static int takes_back(const struct loco_bootstrap *boot, void *arg)
{
    int kept, cannot_lock = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct loci_promises mine, none;

    (void)boot;
    (void)arg;
    NEED(apart() && cannot_lock >= 0);
    loci_promises_init(&mine);
    loci_promises_init(&none);
    NEED(loci_promises_set(&mine, 50));
    kept = atomic_exchange(&mine.fd, cannot_lock);
    NEED(!loci_promises_set(&mine, 60));
    atomic_store(&mine.fd, kept);
    NEED(loci_promises_of_others(&none) == 50 && !loci_promises_set(&mine, 60));
    NEED(loci_promises_set(&mine, 20) && loci_promises_of_others(&none) == 20);
    NEED(loci_promises_set(&mine, 0) && loci_promises_of_others(&none) == 0);
    loci_promises_close(&mine);
    loci_promises_close(&none);
    return 0;
}

Test(promise, is_taken_back_where_no_more_can_be_made, .timeout = 60)
{
    run_alone(takes_back);
}

static void *changes(void *arg)
{
    struct loci_promises *mine = arg;

    for (int i = 0; i < 20000; i++)
        if (!loci_promises_set(mine, i % 2 == 0 ? 1000 : 1))
            return mine;
    return NULL;
}

/* While this process promises more and less, others may seem to owe what it does, but never less
 * than they do. */
static int tells_apart(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *answered = shared_number();
    struct loci_promises mine;
    pthread_t thread;
    void *failed;
    pid_t other;

    (void)boot;
    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    loci_promises_init(&mine);
    other = owe(30, DEAF, answered);
    NEED(other > 0 && loci_promises_set(&mine, 1));
    NEED(pthread_create(&thread, NULL, changes, &mine) == 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t others = loci_promises_of_others(&mine);

        NEED(others >= 30 && others < 30 + 1000);
    }
    NEED(pthread_join(thread, &failed) == 0 && failed == NULL);
    NEED(loci_promises_of_others(&mine) == 30);
    NEED(end(other) == 0);
    loci_promises_close(&mine);
    return 0;
}

Test(promise, of_others_is_told_from_what_this_process_changes, .timeout = 60)
{
    run_alone(tells_apart);
}

/* ---- when memory is filled ---- */

/* Whether all of the range is there, which has an extent of its own. */
static bool is_full(const struct loco_runtime *rt, const struct loci_mem *mem)
{
    const struct loci_extent *extent = rt->extents;
    const struct shm_extent *e;
    struct stat file;

    while (extent->number != mem->key.extent)
        extent = extent->next;
    e = extent->fabric_data;
    return fstat(e->fd, &file) == 0 && (uint64_t)file.st_blocks * 512 >= mem->key.len;
}

/* Whether it is full in the end; *took: how long that was. */
static bool fills(const struct loco_runtime *rt, const struct loci_mem *mem, int64_t *took)
{
    int64_t start = run_now();

    while (!is_full(rt, mem)) {
        if (run_now() - start > run_limit(RUN_PATIENCE))
            return false;
        usleep(5000);
    }
    *took = run_now() - start;
    return true;
}

/* As others see it, without what is told in advance. */
static size_t owed_by(const struct loco_runtime *rt)
{
    struct loci_promises none;

    loci_promises_init(&none);
    return loci_promises_of_others(&none) - atomic_load(&shm_of(rt->fabric)->reserve);
}

/* And then, a while after the last was handed out, nothing is told. */
static int fills_in_the_end(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_promises none;
    struct loci_mem mem;
    loco_runtime_t *rt;
    int64_t took;

    (void)arg;
    loci_promises_init(&none);
    NEED(apart() && open_runtime(boot, &rt) == LOCO_OK);
    NEED(loci_alloc(rt, FEW * PIECE, PIECE, &mem) == LOCO_OK);
    NEED(!is_full(rt, &mem));
    NEED(owed_by(rt) > FEW / 2);
    NEED(fills(rt, &mem, &took));
    for (took = run_now(); loci_promises_of_others(&none) > 0; usleep(1000))
        NEED(run_now() - took < run_limit(RUN_PATIENCE));
    loci_free(rt, &mem);
    /* What was freed is owed no more. */
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_OK);
    NEED(owed_by(rt) > MANY / 2);
    loci_free(rt, &mem);
    NEED(owed_by(rt) < MANY / 4);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, of_memory_is_kept_in_the_end, .timeout = 120)
{
    run_alone(fills_in_the_end);
}

/* Faster than piece by piece. */
static int fills_when_called(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_mem mem;
    loco_runtime_t *rt;
    int64_t took;
    int call;

    (void)arg;
    NEED(apart() && open_runtime(boot, &rt) == LOCO_OK);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_OK);
    NEED(!is_full(rt, &mem));
    call = loci_promises_call();
    NEED(call >= 0 && fills(rt, &mem, &took));
    NEED(took < INT64_C(100000000) * (int64_t)MANY / 2);
    close(call);
    loci_free(rt, &mem);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, is_kept_at_once_when_called, .timeout = 60)
{
    run_alone(fills_when_called);
}

/* From now on, to read the system's table of locks takes as long as one likes: it is a pipe that
 * nobody writes into. What opens that; -1. */
static int hold_up_table(void)
{
    char folder[] = "/tmp/loco-locks.XXXXXX", path[64];
    int held = -1;

    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/locks", folder);
    if (mkfifo(path, 0600) == 0 && mount(path, "/proc/locks", NULL, MS_BIND, NULL) == 0)
        held = open("/proc/locks", O_PATH | O_CLOEXEC);
    unlink(path);
    rmdir(folder);
    return held;
}

/* Who reads it has come to its end, and whoever reads it next does not wait. */
static int let_go_of_table(int held)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/self/fd/%d", held);
    if (umount2("/proc/locks", MNT_DETACH) != 0)
        return -1;
    fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    close(held);
    return fd >= 0 ? close(fd) : -1;
}

static int goes_on(const struct loco_bootstrap *boot, void *arg)
{
    struct shm_look *look;
    struct loci_mem mem;
    loco_runtime_t *rt;
    int64_t took;
    int held;

    (void)arg;
    NEED(apart() && unshare(CLONE_NEWNS) == 0
         && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    NEED(open_runtime(boot, &rt) == LOCO_OK);
    look = &shm_of(rt->fabric)->look;
    NEED(loci_alloc(rt, FEW * PIECE, PIECE, &mem) == LOCO_OK && !is_full(rt, &mem));
    held = hold_up_table();
    NEED(held >= 0);
    /* By the service thread, which tells others each time that it owes less. */
    NEED(fills(rt, &mem, &took));
    NEED(atomic_load(&look->under_way));
    NEED(let_go_of_table(held) == 0);
    for (took = run_now(); atomic_load(&look->under_way); usleep(1000))
        NEED(run_now() - took < run_limit(RUN_PATIENCE));
    loci_free(rt, &mem);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, is_kept_while_the_table_of_locks_is_waited_for, .timeout = 60)
{
    run_alone(goes_on);
}

/* Others owe so much that it is plenty no more: filled at once, and they are not called. */
static int fills_at_once(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *answered = shared_number();
    struct loci_mem mem;
    loco_runtime_t *rt;
    pid_t pid;

    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    pid = owe(loci_memory_left(SIZE_MAX, 0, NULL) / PIECE / 2, ANSWERS, answered);
    NEED(pid > 0 && open_runtime(boot, &rt) == LOCO_OK);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_OK);
    NEED(is_full(rt, &mem) && atomic_load(answered) == 0);
    NEED(end(pid) == 0);
    loci_free(rt, &mem);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, is_not_made_where_others_owe_much, .timeout = 60)
{
    run_alone(fills_at_once);
}

/* A hundred pieces more may be owed: the reserve is a part of them, and not one beside them. */
static int owes_its_share(const struct loco_bootstrap *boot, void *arg)
{
    enum { SHARE = 100, TIMES = 40, EACH = 10 };
    struct loci_mem mem[TIMES];
    _Atomic int *answered = shared_number();
    loco_runtime_t *rt;
    pid_t pid;

    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    pid = owe(loci_memory_left(SIZE_MAX, 0, NULL) / PIECE / 4 - SHARE, DEAF, answered);
    NEED(pid > 0 && open_runtime(boot, &rt) == LOCO_OK);
    for (int i = 0; i < TIMES; i++)
        NEED(loci_alloc(rt, EACH * PIECE, PIECE, &mem[i]) == LOCO_OK);
    NEED(atomic_load(&shm_of(rt->fabric)->pieces_owed) > 0);
    NEED(atomic_load(&shm_of(rt->fabric)->pieces_owed) < 2 * SHARE);    /* what is left changes */
    NEED(end(pid) == 0);
    for (int i = 0; i < TIMES; i++)
        loci_free(rt, &mem[i]);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, is_not_made_beyond_the_reserve, .timeout = 60)
{
    run_alone(owes_its_share);
}

/* Others owe nearly all that is left: it is called in before it is taken from them. */
static int calls_in(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *answered = shared_number();
    struct loci_mem mem;
    loco_runtime_t *rt;
    pid_t pid;

    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    pid = owe(loci_memory_left(SIZE_MAX, 0, NULL) / PIECE * 2, ANSWERS, answered);
    NEED(pid > 0 && open_runtime(boot, &rt) == LOCO_OK);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_OK);
    NEED(atomic_load(answered) == 1);
    NEED(waitpid(pid, NULL, 0) == pid);
    loci_free(rt, &mem);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, of_others_is_called_in_before_it_is_taken, .timeout = 60)
{
    run_alone(calls_in);
}

/* Whose they are is told apart, however often a child has inherited one. */
static int knows_whose(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *answered = shared_number();
    struct loci_promises mine;
    pid_t stranger, own;

    (void)boot;
    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    loci_promises_init(&mine);
    stranger = owe(1000, STRANGER, answered);
    NEED(stranger > 0 && loci_promises_of_others(&mine) == 1000);
    NEED(loci_promises_of_user(&mine) == 0);
    NEED(loci_promises_set(&mine, 7) && loci_promises_of_user(&mine) == 0);
    NEED(end(stranger) == 0);
    stranger = owe(1000, STARTED_BY_STRANGER, answered);
    NEED(stranger > 0 && loci_promises_of_others(&mine) == 1000);
    NEED(loci_promises_of_user(&mine) == 0 && end(stranger) == 0);
    own = owe(30, DEAF, answered);      /* with a descriptor of ours, which is not its own */
    NEED(own > 0 && loci_promises_of_user(&mine) == 30);
    stranger = owe(1000, STRANGER, answered);
    NEED(stranger > 0 && loci_promises_of_user(&mine) >= 30);
    NEED(loci_promises_of_user(&mine) <= 30 + 7);
    NEED(end(own) == 0 && loci_promises_of_user(&mine) == 0);
    NEED(end(stranger) == 0);
    loci_promises_close(&mine);
    return 0;
}

Test(promise, is_known_by_whom_it_was_made, .timeout = 60)
{
    run_alone(knows_whose);
}

/* What a process of this user owes is not taken from it because it does not answer, now or later,
 * nor because strangers do not either. */
static int spares_the_stopped(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *answered = shared_number();
    pid_t own, stranger;
    struct loci_mem mem;
    loco_runtime_t *rt;

    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    NEED(open_runtime(boot, &rt) == LOCO_OK);
    stranger = owe(loci_memory_left(SIZE_MAX, 0, NULL) / PIECE * 2, STRANGER, answered);
    NEED(stranger > 0 && loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_OK);
    loci_free(rt, &mem);
    own = owe(loci_memory_left(SIZE_MAX, 0, NULL) / PIECE * 2, DEAF, answered);
    NEED(own > 0);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_ERR_NO_MEMORY);
    NEED(end(stranger) == 0);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_ERR_NO_MEMORY);
    NEED(end(own) == 0);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem) == LOCO_OK);
    loci_free(rt, &mem);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, of_this_user_is_left_to_it, .timeout = 60)
{
    run_alone(spares_the_stopped);
}

/* A stranger who only pretends costs a second a minute, and nobody's memory. */
static int outwaits(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *answered = shared_number();
    struct loci_mem mem[2];
    loco_runtime_t *rt;
    int64_t start;
    pid_t pid;

    (void)arg;
    NEED(apart() && answered != MAP_FAILED);
    pid = owe(loci_memory_left(SIZE_MAX, 0, NULL) / PIECE * 2, STRANGER, answered);
    NEED(pid > 0);
    start = run_now();
    NEED(open_runtime(boot, &rt) == LOCO_OK);
    NEED(loci_alloc(rt, MANY * PIECE, PIECE, &mem[0]) == LOCO_OK);
    NEED(run_now() - start >= 900000000 && is_full(rt, &mem[0]));
    start = run_now();
    NEED(loci_alloc(rt, PIECE * 2, PIECE, &mem[1]) == LOCO_OK);
    NEED(!run_too_long(start, 500000000));
    NEED(end(pid) == 0);
    loci_free(rt, &mem[1]);
    loci_free(rt, &mem[0]);
    loco_runtime_close(rt);
    return 0;
}

Test(promise, that_is_not_kept_is_not_waited_for_again, .timeout = 60)
{
    run_alone(outwaits);
}

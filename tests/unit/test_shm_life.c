/* SPDX-License-Identifier: BSD-3-Clause */

/* The fabric of one node: deaths and goodbyes. */

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include <loco/barrier.h>

#include "move/asymmetric.h"
#include "shm_world.h"

/* ---- life and death ---- */

static int never_ready(void *arg)
{
    (void)arg;
    return 0;
}

/* Whether it was noticed within a second. */
static bool notices_death(struct world *w, int peer, int *status)
{
    const struct loci_reason why = { .what = "a death", .peer = peer, .timeout_ns = 5000000000 };
    int64_t start = run_now();

    *status = loci_wait(w->rt, &why, never_ready, NULL);
    return !run_too_long(start, 1000000000);
}

/* The last member kills itself in the middle; the others notice, and go on. */
static int outlives(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    uint64_t old, all[8];
    int last, status;

    NEED(enter(&w, boot, arg) == 0);
    last = w.n - 1;
    for (int to = 0; to < w.n; to++)
        NEED(loci_fetch_add(w.rt, &w.pools[to], 0, 1, &old, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    if (w.me == last)
        kill(getpid(), SIGKILL);
    NEED(notices_death(&w, w.pools[last].peer, &status));
    NEED(status == LOCO_ERR_PEER_DEAD);
    NEED(atomic_load(&w.rt->peers[w.pools[last].peer]->state) == LOCI_PEER_DEAD);
    NEED(loci_write64(w.rt, &w.users[last], 0, 1, NULL) == LOCO_ERR_PEER_DEAD);
    /* What was mapped stays: no fault, whoever still uses it. */
    NEED(loci_fetch_add(w.rt, &w.pools[last], 0, 1, &old, NULL) == LOCO_OK);
    for (int to = 0; to < last; to++) {
        NEED(loci_fetch_add(w.rt, &w.pools[to], 0, 1, &old, NULL) == LOCO_OK);
        NEED(loci_write64(w.rt, &w.users[to], 8 * (uint64_t)w.me, 1, NULL) == LOCO_OK);
        NEED(loci_peer_alive(w.rt, w.pools[to].peer));
    }
    NEED(w.exchange->allgather(w.exchange->ctx, &old, sizeof old, all) == LOCO_ERR_PEER_DEAD);
    /* Nobody may free before all have used: a counter takes the barrier's place. */
    for (int to = 0; to < last; to++)
        NEED(loci_fetch_add(w.rt, &w.pools[to], 64, 1, &old, NULL) == LOCO_OK);
    while (loci_load64(w.pool.ptr + 64) < (uint64_t)last)
        sched_yield();
    usleep(50000);
    loco_runtime_close(w.rt);
    return 0;
}

/* A process that tries for that name until it has it, and keeps it. */
static pid_t take_over(const struct shm_peer *p)
{
    pid_t pid = fork();

    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        while (bind(fd, (const struct sockaddr *)&p->name, p->name_len) != 0)
            if (getppid() == 1)
                _exit(1);
        pause();
        _exit(0);
    }
    return pid;
}

/* Where no pidfd tells, and somebody else has the dead one's name at once. */
static int sees_through_a_name(const struct loco_bootstrap *boot, void *arg)
{
    pid_t pid = 0;
    struct world w;
    int status;

    NEED(enter(&w, boot, arg) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0) {
        pid = take_over(loci_peer(w.rt, w.rt->everyone->peer[1])->fabric_data);
        NEED(pid > 0);
        usleep(20000);
    }
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1)
        kill(getpid(), SIGKILL);
    notices_death(&w, w.rt->everyone->peer[1], &status);
    kill(pid, SIGKILL);
    NEED(waitpid(pid, NULL, 0) == pid);
    NEED(status == LOCO_ERR_PEER_DEAD);
    loco_runtime_close(w.rt);
    return 0;
}

Test(shm, who_takes_a_dead_ones_name_is_not_it, .timeout = 60)
{
    static const struct setup silent = { .foreign = true, .log = count_dropped };
    int statuses[2];

    cr_assert_eq(loco_fork_run(2, sees_through_a_name, (void *)&silent, statuses),
                 LOCO_ERR_PEER_DEAD);
    cr_expect_eq(statuses[0], 0);
    cr_expect_eq(statuses[1], -SIGKILL);
}

static void run_with_a_death(int n, const struct setup *setup)
{
    int statuses[8];

    cr_assert_eq(loco_fork_run(n, outlives, (void *)setup, statuses), LOCO_ERR_PEER_DEAD);
    for (int i = 0; i < n - 1; i++)
        cr_expect_eq(statuses[i], 0, "member %d ended with %d", i, statuses[i]);
    cr_expect_eq(statuses[n - 1], -SIGKILL);
}

Test(shm, death_is_noticed)
{
    static const struct setup silent = { .log = count_dropped };

    run_with_a_death(2, &silent);
    run_with_a_death(4, &silent);
}

Test(shm, death_is_noticed_by_the_connection)
{
    static const struct setup silent = { .foreign = true, .log = count_dropped };

    run_with_a_death(2, &silent);
    run_with_a_death(4, &silent);
}

/* The owner is stopped in the middle of a copy for us, then killed. */
static int copies_for_the_dead(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    pid_t pid, helper;
    int64_t start;

    NEED(enter(&w, boot, arg) == 0);
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 1, NULL) == LOCO_OK);
    pid = w.rt->peers[1]->address.pid;
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1) {
        usleep(20000000);
        return 0;
    }
    kill(pid, SIGSTOP);
    usleep(50000);          /* until it has */
    helper = fork();
    if (helper == 0) {
        usleep(100000);
        kill(pid, SIGKILL);
        _exit(0);
    }
    start = loci_now(w.rt);
    NEED(loci_write64(w.rt, &w.users[1], 0, 2, NULL) == LOCO_ERR_PEER_DEAD);
    NEED(loci_now(w.rt) - start > 50000000);
    NEED(loci_now(w.rt) - start < 1100000000);
    waitpid(helper, NULL, 0);
    loco_runtime_close(w.rt);
    return 0;
}

Test(shm, copying_ends_when_the_owner_dies)
{
    static const struct setup silent_never = { .log = count_dropped,
                                               .settings = { "LOCO_CMA=never" } };
    int statuses[2];

    loco_fork_run(2, copies_for_the_dead, (void *)&silent_never, statuses);
    cr_assert_eq(statuses[0], 0);
    cr_assert_eq(statuses[1], -SIGKILL);
}

/* The runtime goes by an exec, or without a goodbye that could be sent; the process lives on.
 * Nobody waits here for the ten seconds to be over. */
static int goes_without_a_word(const struct loco_bootstrap *boot, void *arg)
{
    struct shm_fabric *f;
    struct world w;
    pid_t pid;

    NEED(enter(&w, boot, arg) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1) {
        execlp("sleep", "sleep", "60", NULL);
        return 1;
    }
    f = shm_of(w.rt->fabric);
    pid = w.rt->peers[1]->address.pid;
    for (int64_t start = run_now();
         loci_peer_alive(w.rt, 1) && !run_too_long(start, 5000000000); usleep(10000)) {
        atomic_store(&f->doubt_at, 1);
        loci_shm_timer_soon(f);
    }
    NEED(kill(pid, 0) == 0);
    kill(pid, SIGKILL);
    NEED(atomic_load(&w.rt->peers[1]->state) == LOCI_PEER_DEAD);
    NEED(atomic_load(&f->watched) == 0);
    loco_runtime_close(w.rt);
    return 0;
}

Test(shm, a_runtime_that_goes_without_a_word_is_missed, .timeout = 120)
{
    static const struct setup silent = { .log = count_dropped };
    int statuses[2];

    loco_fork_run(2, goes_without_a_word, (void *)&silent, statuses);
    cr_assert_eq(statuses[0], 0);
    cr_assert_eq(statuses[1], -SIGKILL);
}

static _Atomic int warnings;

static void count_warnings(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)text;
    if (level <= LOCO_LOG_WARN)
        atomic_fetch_add(&warnings, 1);
}

/* Who closes its runtime has left, and nobody warns of it, also when all close at once. */
static int says_goodbye(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    int status;

    NEED(enter(&w, boot, arg) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == w.n - 1) {
        loco_runtime_close(w.rt);
        NEED(together(&w) == LOCO_OK);
        return 0;
    }
    NEED(notices_death(&w, w.pools[w.n - 1].peer, &status));
    NEED(atomic_load(&w.rt->peers[w.pools[w.n - 1].peer]->state) == LOCI_PEER_LEFT);
    NEED(together(&w) == LOCO_OK);
    loco_runtime_close(w.rt);
    NEED(atomic_load(&warnings) == 0);
    return 0;
}

Test(shm, goodbye_is_no_death)
{
    static const struct setup hear = { .log = count_warnings };
    static const struct setup hear_foreign = { .foreign = true, .log = count_warnings };

    for (int i = 0; i < 5; i++) {
        run(4, says_goodbye, &hear);
        run(3, says_goodbye, &hear_foreign);
    }
}

static int greets(loco_runtime_t *rt, int rank, void *arg)
{
    (void)rank;
    (void)arg;
    CHECK_OK(run_meet(rt));
    return 0;
}

/* Members send to each other while some of them have not entered the sender into their table yet:
 * a greeting that comes while they do is neither lost nor looked at by two threads. (The thread
 * sanitizer sees the second; one time in some thousand.) */
Test(shm, greetings_come_before_their_senders_are_known, .timeout = 60)
{
    for (int i = 0; i < run_rounds(150); i++)
        cr_assert_eq(run_on(RUN_SHM, 5, 0, NULL, greets, NULL), 0);
}

/* ---- a runtime that is opened again ---- */

static int make_ready(loco_runtime_t *rt, const struct loco_exchange *exchange,
                      loco_group_t **group)
{
    loco_barrier_t *barrier;
    unsigned char nothing[1];

    NEED(loco_group_meet(rt, exchange, group) == LOCO_OK);
    NEED(loco_barrier_create(rt, NULL, "again", *group, &barrier) == LOCO_OK);
    NEED(loco_runtime_wait_ready(rt, RUN_PATIENCE) == LOCO_OK);
    NEED(loco_barrier_wait(barrier) == LOCO_OK);
    NEED(exchange->allgather(exchange->ctx, NULL, 0, nothing) == LOCO_OK);
    loco_barrier_destroy(barrier);
    return 0;
}

/* Member 0 keeps its runtime; the others close theirs and open new ones, and all meet again. Of
 * the second life nothing is kept, and those of the first are still known by the group that met
 * them: neither is taken for the next one. */
static int comes_back(const struct loco_bootstrap *boot, void *arg)
{
    struct loco_bootstrap alone = *boot;
    loco_runtime_t *rt = NULL;
    loco_group_t *first = NULL, *group;
    unsigned char nothing[1];

    (void)arg;
    alone.exchange.size = 1;
    alone.exchange.rank = 0;
    for (int life = 0; life < 4; life++) {
        if (rt == NULL)
            NEED(loco_runtime_open(&alone, &rt) == LOCO_OK);
        NEED(make_ready(rt, &boot->exchange, &group) == 0);
        if (life == 0 && boot->exchange.rank == 0)
            first = group;
        else
            loco_group_destroy(group);
        if (boot->exchange.rank != 0) {
            loco_runtime_close(rt);
            rt = NULL;
        }
        NEED(boot->exchange.allgather(boot->exchange.ctx, NULL, 0, nothing) == LOCO_OK);
    }
    loco_group_destroy(first);
    loco_runtime_close(rt);
    NEED(LEAKS() == 0);
    return 0;
}

Test(shm, who_opens_a_runtime_again_is_met_again, .timeout = 120)
{
    run(2, comes_back, &plain);
    run(3, comes_back, &plain);
}

/* ---- the runtime's threads ---- */

/* A wait of the last ones that there are is the first that lasts long. */
static void drain(struct loci_fabric *fabric)
{
    struct loco_runtime *rt = shm_of(fabric)->rt;

    atomic_store(&rt->asymmetric, LOCI_ASYMMETRIC_UNTRIED);
    loci_asymmetric_state(rt);
}

/* Other than the caller. */
static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL)
        n += entry->d_name[0] != '.' && atoi(entry->d_name) != (int)gettid();
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

static void *nothing(void *arg)
{
    return arg;
}

static int closes_all(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_fabric_ops ops = loci_fabric_shm;
    struct loco_bootstrap own = *boot;
    loco_runtime_t *rt;
    pthread_t first;
    int before = 0;

    (void)arg;
    /* With the first thread of a process comes the thread sanitizer's own, which stays. One that
     * was joined may be listed for a moment. */
    NEED(pthread_create(&first, NULL, nothing, NULL) == 0 && pthread_join(first, NULL) == 0);
    for (int i = 0; i < 100 && (before = count_threads()) > 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    ops.drain = drain;
    own.log = run_log;
    NEED(loci_runtime_open(&own, NULL, &ops, &rt) == LOCO_OK);
    NEED(atomic_load(&rt->asymmetric) == LOCI_ASYMMETRIC_UNTRIED);
    loco_runtime_close(rt);
    NEED(count_threads() == before);
    return 0;
}

/* Many times: registering takes a while, but not always. */
Test(shm, closes_after_its_last_thread)
{
    for (int i = 0; i < 5; i++)
        run(1, closes_all, &plain);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Stores of a pool that are removed while processes have them open that are stopped, or killed: the
 * memory goes on to other stores as soon as none of them reaches it, and not before; whoever goes
 * on is told. Agents and the removing client are of this process, the others are forked before. */

#include "config.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

#define MIB (UINT64_C(1) << 20)
#define LEASE_MS 200
#define WORKERS_MOST 6
#define WORDS 64
#define PORT (31000 + (int)(getpid() % 5000))

static char folder[64];

static int alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static void open_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/loco-pool.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    setenv("HOME", folder, 1);
    setenv("LOCO_KEY_LEASE", "200ms", 1);
}

static void close_folder(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(pool_lease, .init = open_folder, .fini = close_folder);

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL);
}

static void be_on(const char *machine)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, machine);
    (void)mkdir(path, 0700);
    setenv("XDG_RUNTIME_DIR", path, 1);
}

/* ---- agents, and a client of one ---- */

struct machine {
    loco_runtime_t *rt;
    loco_agent_t *agent;
};

/* `several`: machines, over TCP. */
static void start(struct machine *m, const char *name, int port, bool several)
{
    char node[32], join[32];
    const char *const settings[] = { "LOCO_FABRIC=tcp", "LOCO_TCP_IF=lo", "LOCO_PEER_TIMEOUT=30s",
                                     node, NULL };
    const struct loco_bootstrap boot = {
        .identity = (uint64_t)name[0], .exchange = { .size = 1, .allgather = alone },
        .log = run_log, .settings = several ? settings : NULL, .other_machines = several,
    };
    loco_agent_options_t o = { .pool = "net", .places = 8, .port = port };

    snprintf(node, sizeof node, "LOCO_NODE=%s", name);
    snprintf(join, sizeof join, "127.0.0.1:%d", PORT);
    o.join = several ? join : NULL;
    be_on(name);
    cr_assert_eq(loco_runtime_open(&boot, &m->rt), LOCO_OK);
    cr_assert_eq(loco_agent_start(m->rt, &o, &m->agent), LOCO_OK);
}

static void stop(struct machine *m)
{
    loco_agent_stop(m->agent);
    loco_runtime_close(m->rt);
}

static loco_agent_stats_t stats_of(const struct machine *m)
{
    loco_agent_stats_t stats;

    loco_agent_stats(m->agent, &stats);
    return stats;
}

static bool is_reclaimed(const struct machine *m)
{
    int64_t begun = run_now();

    while (stats_of(m).removed != 0 && run_now() - begun < RUN_PATIENCE)
        pause_ms(1);
    return stats_of(m).removed == 0;
}

struct client {
    loco_runtime_t *rt;
    loco_pool_t *pool;
};

static int come(struct client *c, const char *machine, bool several, const char *more)
{
    char node[32];
    const char *const settings[] = { node, "LOCO_TCP_IF=lo", "LOCO_PEER_TIMEOUT=30s", more, NULL };
    const loco_attach_options_t options = { .log = run_log,
                                            .settings = several ? settings : NULL };
    int status;

    snprintf(node, sizeof node, "LOCO_NODE=%s", machine);
    be_on(machine);
    status = loco_runtime_attach("net", &options, &c->rt);
    return status == LOCO_OK ? loco_pool_open(c->rt, "net", &c->pool) : status;
}

static void leave(struct client *c)
{
    loco_pool_close(c->pool);
    loco_runtime_close(c->rt);
}

static const loco_store_options_t small = { .bytes = MIB, .objects = 4096, .threads = 1,
                                            .roots = 8 };

/* All roots of that store say its number. */
static int fill(loco_store_t *store, uint64_t number)
{
    uint64_t value[WORDS];
    loco_tx_t *tx;
    int status = loco_tx_open(store, &tx);

    for (int i = 0; i < WORDS; i++)
        value[i] = number;
    if (status == LOCO_OK)
        status = loco_tx_begin(tx);
    for (uint64_t i = 0; i < 8 && status == LOCO_OK; i++)
        status = loco_tx_write(tx, loco_store_root(store, i), value, sizeof value);
    if (status == LOCO_OK)
        status = loco_tx_commit(tx);
    if (tx != NULL)
        loco_tx_close(tx);
    return status;
}

/* ---- workers ---- */

struct worker {
    _Atomic int go;                     /* 1: come; 2: leave */
    _Atomic uint64_t done;              /* transactions */
    _Atomic int status;                 /* of the first that was not done; 1: a wrong value */
    _Atomic uint64_t opened;            /* stores */
    int pid;
};

static struct worker *workers;          /* memory that all share */
static int nworkers;

static bool is_told_to(const struct worker *w, int go)
{
    return atomic_load(&w->go) >= go;
}

/* All roots say the store's number, or that and a count. */
static int check(const uint64_t *value, uint64_t number)
{
    for (int i = 0; i < WORDS; i++)
        if (value[i] >> 32 != number >> 32)
            return 1;
    return LOCO_OK;
}

static int one_transaction(struct worker *w, loco_tx_t *tx, loco_store_t *store, uint64_t *number)
{
    uint64_t n = atomic_load(&w->done), value[WORDS];
    loco_object_t root = loco_store_root(store, n % 8);
    int status = loco_tx_begin(tx);

    if (status == LOCO_OK)
        status = loco_tx_read(tx, root, value, sizeof value);
    if (status == LOCO_OK && *number == 0)
        *number = value[0];
    if (status == LOCO_OK)
        status = check(value, *number);
    if (status == LOCO_OK && n % 3 == 0) {
        value[n % WORDS] = (*number >> 32 << 32) | (n & 0xffff);
        status = loco_tx_write(tx, root, value, sizeof value);
    }
    if (status == LOCO_OK)
        status = loco_tx_commit(tx);
    else
        loco_tx_abort(tx);
    return status;
}

/* Use the store until it is told that it has gone. */
static int use(struct worker *w, struct client *c)
{
    loco_store_t *store;
    uint64_t number = 0;
    loco_tx_t *tx = NULL;
    int status = loco_store_open(c->pool, "s", NULL, &store);

    if (status != LOCO_OK)
        return status;
    atomic_fetch_add(&w->opened, 1);
    status = loco_tx_open(store, &tx);
    while ((status == LOCO_OK || status == LOCO_ERR_CONFLICT) && !is_told_to(w, 2)) {
        status = one_transaction(w, tx, store, &number);
        atomic_fetch_add(&w->done, status == LOCO_OK);
        if (status == LOCO_ERR_NOT_FOUND)
            status = LOCO_OK;           /* it is being filled */
    }
    if (status == LOCO_ERR_CONFLICT)
        status = LOCO_OK;
    /* Who was told is told again. */
    if (status == LOCO_ERR_STATE && loco_tx_begin(tx) != LOCO_ERR_STATE)
        status = 2;
    if (tx != NULL)
        loco_tx_close(tx);
    loco_store_destroy(store);
    return status;
}

/* `again`: opens the next store of that name, until it is told to leave. */
static void work(struct worker *w, const char *machine, bool several, const char *more, bool again)
{
    struct client c = { NULL, NULL };
    int status;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!is_told_to(w, 1))
        pause_ms(1);
    status = come(&c, machine, several, more);
    while (status == LOCO_OK && !is_told_to(w, 2)) {
        status = use(w, &c);
        if (status == LOCO_ERR_NOT_FOUND || (again && status == LOCO_ERR_STATE))
            status = LOCO_OK;
        if (status == LOCO_OK)
            pause_ms(1);
    }
    atomic_store(&w->status, status);
    if (c.pool != NULL)
        leave(&c);
    _exit(0);
}

static void fork_workers(int n, const char *machine, bool several, const char *more, bool again)
{
    nworkers = n;
    workers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(workers, MAP_FAILED);
    for (int i = 0; i < n; i++) {
        int pid = fork();

        if (pid == 0)
            work(&workers[i], machine, several, more, again);
        cr_assert_gt(pid, 0);
        workers[i].pid = pid;
    }
}

static void let_in(struct worker *w, uint64_t transactions)
{
    int64_t begun = run_now();
    uint64_t before = atomic_load(&w->done);

    atomic_store(&w->go, 1);
    while (atomic_load(&w->done) < before + transactions && run_now() - begun < RUN_PATIENCE)
        pause_ms(1);
    cr_assert_geq(atomic_load(&w->done), before + transactions, "it came to %d",
                  atomic_load(&w->status));
}

/* Its state in the kernel: of its first thread, which is the last to stop. */
static char state_of(int pid)
{
    char path[64], line[256] = "", *end;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 'X';
    if (fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    fclose(file);
    end = strrchr(line, ')');
    return end == NULL ? 'X' : end[2];
}

static bool comes_to(int pid, const char *states)
{
    int64_t begun = run_now();

    while (strchr(states, state_of(pid)) == NULL && run_now() - begun < RUN_PATIENCE)
        pause_ms(1);
    return strchr(states, state_of(pid)) != NULL;
}

static void stop_worker(const struct worker *w)
{
    cr_assert_eq(kill(w->pid, SIGSTOP), 0);
    cr_assert(comes_to(w->pid, "T"));
}

static int end_of(struct worker *w)
{
    (void)kill(w->pid, SIGCONT);
    cr_assert(comes_to(w->pid, "XZ"), "a worker does not end");
    (void)waitpid(w->pid, NULL, 0);     /* unless somebody else does */
    return atomic_load(&w->status);
}

/* ---- tests ---- */

struct scene {
    struct machine a, b;
    bool several;
    struct client c;
    loco_store_t *store;
};

static void make(struct scene *s, const char *name, uint64_t number)
{
    cr_assert_eq(loco_store_open(s->c.pool, name, &small, &s->store), LOCO_OK);
    cr_assert_eq(fill(s->store, number << 32), LOCO_OK);
}

static void open_scene(struct scene *s, bool several)
{
    s->several = several;
    start(&s->a, "a", PORT, several);
    if (several)
        start(&s->b, "b", PORT + 1, several);
    cr_assert_eq(come(&s->c, "a", several, NULL), LOCO_OK);
    make(s, "s", 1);
}

static void close_scene(struct scene *s)
{
    loco_store_destroy(s->store);
    leave(&s->c);
    if (s->several)
        stop(&s->b);
    stop(&s->a);
}

static void remove_store(struct scene *s)
{
    loco_store_destroy(s->store);
    cr_assert_eq(loco_pool_remove(s->c.pool, "s"), LOCO_OK);
}

/* Each of its values is as it was made: nobody else has written there. */
static void look_at(struct scene *s, uint64_t number)
{
    uint64_t value[WORDS];
    loco_tx_t *tx;

    cr_assert_eq(loco_tx_open(s->store, &tx), LOCO_OK);
    cr_assert_eq(loco_tx_begin(tx), LOCO_OK);
    for (uint64_t i = 0; i < 8; i++) {
        cr_assert_eq(loco_tx_read(tx, loco_store_root(s->store, i), value, sizeof value), LOCO_OK);
        for (int k = 0; k < WORDS; k++)
            cr_assert_eq(value[k], number << 32, "word %d of root %d: %llx", k, (int)i,
                         (unsigned long long)value[k]);
    }
    cr_assert_eq(loco_tx_commit(tx), LOCO_OK);
    loco_tx_close(tx);
}

Test(pool_lease, who_runs_is_told_within_a_lease)
{
    struct scene s;
    int64_t begun;

    fork_workers(1, "a", false, NULL, false);
    open_scene(&s, false);
    let_in(&workers[0], 100);
    remove_store(&s);
    begun = run_now();
    cr_assert(is_reclaimed(&s.a));
    cr_assert_lt(run_now() - begun, run_limit(INT64_C(1000000) * 10 * LEASE_MS));
    cr_assert_eq(end_of(&workers[0]), LOCO_ERR_STATE);
    make(&s, "s", 2);
    close_scene(&s);
}

/* Its memory is mapped: only it can let go of it. */
Test(pool_lease, memory_waits_for_whoever_maps_it_and_is_stopped)
{
    struct scene s;

    fork_workers(1, "a", false, NULL, false);
    open_scene(&s, false);
    let_in(&workers[0], 100);
    stop_worker(&workers[0]);
    remove_store(&s);
    make(&s, "t", 2);
    pause_ms(4 * LEASE_MS);
    cr_assert_eq(stats_of(&s.a).removed, 1);
    cr_assert_eq(end_of(&workers[0]), LOCO_ERR_STATE);
    cr_assert(is_reclaimed(&s.a));
    look_at(&s, 2);
    close_scene(&s);
}

Test(pool_lease, memory_of_who_is_killed_is_given_back)
{
    struct scene s;

    fork_workers(1, "a", false, NULL, false);
    open_scene(&s, false);
    let_in(&workers[0], 100);
    stop_worker(&workers[0]);
    remove_store(&s);
    pause_ms(2 * LEASE_MS);
    cr_assert_eq(stats_of(&s.a).removed, 1);
    cr_assert_eq(kill(workers[0].pid, SIGKILL), 0);
    cr_assert(is_reclaimed(&s.a));
    (void)end_of(&workers[0]);
    make(&s, "s", 2);
    close_scene(&s);
}

/* Of another machine it is kept out: by that agent, which ends its connections, or by its own one,
 * which refuses its requests. Its memory is another store's when it goes on. */
static void stop_far_one(const char *how, int told)
{
    struct scene s;
    int status;

    fork_workers(1, "b", true, how, false);
    open_scene(&s, true);
    let_in(&workers[0], 100);
    stop_worker(&workers[0]);
    remove_store(&s);
    cr_assert(is_reclaimed(&s.a));
    make(&s, "t", 2);
    status = end_of(&workers[0]);
    cr_assert(status == LOCO_ERR_STATE || status == told, "%s", loco_strerror(status));
    look_at(&s, 2);
    close_scene(&s);
}

Test(pool_lease, who_has_connections_of_its_own_is_cut_off)
{
    stop_far_one("LOCO_PORTS=no", LOCO_ERR_PEER_DEAD);
}

Test(pool_lease, who_goes_by_ports_is_refused)
{
    stop_far_one("LOCO_PORTS_LEAVE=inf", LOCO_ERR_STATE);
}

/* For less than a lease: it goes on with what is there. */
Test(pool_lease, who_is_stopped_for_a_moment_goes_on)
{
    struct scene s;

    fork_workers(1, "b", true, "LOCO_PORTS_LEAVE=inf", false);
    open_scene(&s, true);
    let_in(&workers[0], 100);
    for (int i = 0; i < 5; i++) {
        stop_worker(&workers[0]);
        pause_ms(LEASE_MS / 4);
        cr_assert_eq(kill(workers[0].pid, SIGCONT), 0);
        let_in(&workers[0], 10);
    }
    atomic_store(&workers[0].go, 2);
    cr_assert_eq(end_of(&workers[0]), LOCO_OK);
    close_scene(&s);
}

/* ---- many, again and again ---- */

static void harass(unsigned *seed)
{
    struct worker *w = &workers[rand_r(seed) % (unsigned)nworkers];

    if (kill(w->pid, 0) != 0)
        return;
    (void)kill(w->pid, SIGSTOP);
    pause_ms((int)(rand_r(seed) % (3 * LEASE_MS)));
    (void)kill(w->pid, rand_r(seed) % 8 == 0 ? SIGKILL : SIGCONT);
}

static void remove_again_and_again(const char *machine, bool several, const char *how)
{
    unsigned seed = 1;
    struct scene s;

    fork_workers(4, machine, several, how, true);
    open_scene(&s, several);
    for (int i = 0; i < nworkers; i++)
        let_in(&workers[i], 10);
    for (uint64_t n = 2; n < 12; n++) {
        harass(&seed);
        remove_store(&s);
        make(&s, "t", 1000 + n);        /* nobody else opens this one */
        look_at(&s, 1000 + n);
        loco_store_destroy(s.store);
        make(&s, "s", n);
        pause_ms((int)(rand_r(&seed) % LEASE_MS));
        loco_store_destroy(s.store);
        cr_assert_eq(loco_store_open(s.c.pool, "t", NULL, &s.store), LOCO_OK);
        look_at(&s, 1000 + n);
        loco_store_destroy(s.store);
        cr_assert_eq(loco_pool_remove(s.c.pool, "t"), LOCO_OK);
        cr_assert_eq(loco_store_open(s.c.pool, "s", NULL, &s.store), LOCO_OK);
    }
    for (int i = 0; i < nworkers; i++) {
        int status;

        atomic_store(&workers[i].go, 2);
        status = end_of(&workers[i]);
        cr_assert(status == LOCO_OK || status == LOCO_ERR_STATE
                  || (several && status == LOCO_ERR_PEER_DEAD), "worker %d: %d", i, status);
    }
    cr_assert(is_reclaimed(&s.a));
    close_scene(&s);
}

Test(pool_lease, stores_are_removed_under_many_on_one_machine)
{
    remove_again_and_again("a", false, NULL);
}

Test(pool_lease, stores_are_removed_under_many_by_ports)
{
    remove_again_and_again("b", true, "LOCO_PORTS_LEAVE=inf");
}

Test(pool_lease, stores_are_removed_under_many_by_connections)
{
    remove_again_and_again("b", true, "LOCO_PORTS=no");
}

Test(pool_lease, stores_are_removed_under_many_that_move_over)
{
    remove_again_and_again("b", true, "LOCO_PORTS_LEAVE=200");
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Pools: what an agent and its clients say to each other, and what they refuse. Both are runtimes
 * of this process. What happens when processes die is in tests/stress/pools. */

#include "config.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "pool/messages.h"
#include "run.h"

#define MIB (UINT64_C(1) << 20)

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
    setenv("XDG_RUNTIME_DIR", folder, 1);
}

static void close_folder(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/loco/unit.lock", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/loco", folder);
    rmdir(path);
    rmdir(folder);
}

TestSuite(pool, .init = open_folder, .fini = close_folder);

struct pool {
    loco_runtime_t *rt;
    loco_agent_t *agent;
};

static void open_agent(struct pool *p, int places, uint64_t memory)
{
    const struct loco_bootstrap boot = {
        .identity = 7, .exchange = { .size = 1, .allgather = alone }, .log = run_log,
    };
    const loco_agent_options_t options = { .pool = "unit", .places = places, .memory = memory };

    cr_assert_eq(loco_runtime_open(&boot, &p->rt), LOCO_OK);
    cr_assert_eq(loco_agent_start(p->rt, &options, &p->agent), LOCO_OK);
}

static void close_agent(struct pool *p)
{
    loco_agent_stop(p->agent);
    loco_runtime_close(p->rt);
}

struct client {
    loco_runtime_t *rt;
    loco_pool_t *pool;
};

static void come(struct client *c)
{
    const loco_attach_options_t options = { .log = run_log };

    cr_assert_eq(loco_runtime_attach("unit", &options, &c->rt), LOCO_OK);
    cr_assert_eq(loco_pool_open(c->rt, "unit", &c->pool), LOCO_OK);
}

static void leave(struct client *c)
{
    loco_pool_close(c->pool);
    loco_runtime_close(c->rt);
}

static loco_agent_stats_t stats_of(struct pool *p)
{
    loco_agent_stats_t stats;

    loco_agent_stats(p->agent, &stats);
    return stats;
}

/* Until a number of the agent's is that; it changes in threads of the agent. */
#define AWAIT(p, field, value)                                                                     \
    do {                                                                                           \
        int64_t begun = run_now();                                                                 \
        while (stats_of(p).field != (value) && run_now() - begun < RUN_PATIENCE)                   \
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);                             \
        cr_assert_eq(stats_of(p).field, (value));                                                  \
    } while (0)

static const loco_store_options_t small = { .bytes = MIB, .objects = 4096, .threads = 1 };

/* ---- coming and going ---- */

Test(pool, who_comes_has_a_place)
{
    struct client a, b;
    struct pool p;

    open_agent(&p, 2, 0);
    come(&a);
    come(&b);
    cr_assert_eq(loco_pool_places(a.pool), 2);
    cr_assert_neq(loco_pool_place(a.pool), loco_pool_place(b.pool));
    cr_assert_eq(loco_pool_alive(a.pool), LOCO_OK);
    leave(&a);
    AWAIT(&p, leaving, 0);
    come(&a);
    AWAIT(&p, clients, 2);
    leave(&a);
    leave(&b);
    AWAIT(&p, clients, 0);
    cr_assert_eq(stats_of(&p).attached, 3);
    cr_assert_eq(stats_of(&p).died, 0);
    close_agent(&p);
}

Test(pool, no_more_than_there_are_places)
{
    struct client a, b;
    struct pool p;

    open_agent(&p, 1, 0);
    come(&a);
    cr_assert_eq(loco_runtime_attach("unit", &(loco_attach_options_t){ .log = run_log }, &b.rt),
                 LOCO_OK);
    cr_assert_eq(loco_pool_open(b.rt, "unit", &b.pool), LOCO_ERR_FULL);
    loco_runtime_close(b.rt);
    leave(&a);
    close_agent(&p);
}

Test(pool, names_and_agents_that_are_not_there)
{
    const loco_attach_options_t options = { .log = run_log };
    char name[LOCO_POOL_NAME_MAX + 1] = "", path[256];
    loco_agent_t *second;
    loco_runtime_t *rt;
    struct pool p;

    cr_assert_eq(loco_runtime_attach("unit", &options, &rt), LOCO_ERR_NOT_FOUND);
    cr_assert_eq(loco_runtime_attach("", &options, &rt), LOCO_ERR_NAME);
    cr_assert_eq(loco_runtime_attach("a/b", &options, &rt), LOCO_ERR_NAME);
    cr_assert_eq(loco_runtime_attach(".a", &options, &rt), LOCO_ERR_NAME);
    open_agent(&p, 1, 0);
    cr_assert_eq(loco_agent_start(p.rt, &(loco_agent_options_t){ .pool = "unit" }, &second),
                 LOCO_ERR_NAME);
    cr_assert_eq(loco_agent_start(p.rt, &(loco_agent_options_t){ .pool = "x", .places = 1025 },
                                  &second), LOCO_ERR_ARG);
    memset(name, 'a', sizeof name - 1);
    cr_assert_eq(loco_agent_start(p.rt, &(loco_agent_options_t){ .pool = name }, &second),
                 LOCO_ERR_NAME);
    name[LOCO_POOL_NAME_MAX - 1] = '\0';
    cr_assert_eq(loco_agent_start(p.rt, &(loco_agent_options_t){ .pool = name }, &second),
                 LOCO_OK);
    loco_agent_stop(second);
    snprintf(path, sizeof path, "%s/loco/%s.lock", folder, name);
    unlink(path);
    close_agent(&p);
    cr_assert_eq(loco_runtime_attach("unit", &options, &rt), LOCO_ERR_NOT_FOUND);
}

#define CROWD 40
#define CROWD_NS INT64_C(500000000)

/* In a child, which is killed: more connections than the agent has descriptors for. */
static void crowd(int told)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };

    snprintf(name.sun_path, sizeof name.sun_path, "%s/loco/unit.sock", folder);
    for (int i = 0; i < CROWD; i++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)&name, sizeof name) != 0)
            _exit(1);
    }
    (void)!write(told, "x", 1);
    for (;;)
        pause();
}

static int64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* An agent without a descriptor for who comes waits, and costs little; then they may come. */
Test(pool, who_finds_no_descriptor_waits)
{
    struct rlimit limit, few;
    struct client a, b;
    struct pool p;
    int told[2];
    int64_t cost;
    pid_t child;
    char byte;

    open_agent(&p, 4, 0);
    come(&a);
    cr_assert_eq(pipe(told), 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t)told[1] + 4;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    child = fork();
    if (child == 0) {
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        crowd(told[1]);
    }
    cr_assert_eq(read(told[0], &byte, 1), 1);
    cost = cpu_time();
    nanosleep(&(struct timespec){ .tv_nsec = CROWD_NS }, NULL);
    cost = cpu_time() - cost;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_lt(cost, run_limit(CROWD_NS / 4));
    come(&b);
    leave(&b);
    leave(&a);
    close(told[0]);
    close(told[1]);
    close_agent(&p);
}

/* A folder that others may write to could have anybody's socket in it. */
Test(pool, a_folder_of_others_is_refused)
{
    const loco_attach_options_t options = { .log = run_log };
    loco_runtime_t *rt;
    char path[128];
    struct pool p;

    open_agent(&p, 1, 0);
    snprintf(path, sizeof path, "%s/loco", folder);
    cr_assert_eq(chmod(path, 0777), 0);
    cr_assert_eq(loco_runtime_attach("unit", &options, &rt), LOCO_ERR_SYSTEM);
    cr_assert_eq(chmod(path, 0700), 0);
    close_agent(&p);
}

/* ---- stores ---- */

static void write_root(loco_store_t *store, uint64_t value)
{
    loco_tx_t *tx;

    cr_assert_eq(loco_tx_open(store, &tx), LOCO_OK);
    cr_assert_eq(loco_tx_begin(tx), LOCO_OK);
    cr_assert_eq(loco_tx_write(tx, loco_store_root(store, 0), &value, sizeof value), LOCO_OK);
    cr_assert_eq(loco_tx_commit(tx), LOCO_OK);
    loco_tx_close(tx);
}

static uint64_t read_root(loco_store_t *store)
{
    uint64_t value = 0;
    loco_tx_t *tx;

    cr_assert_eq(loco_tx_open(store, &tx), LOCO_OK);
    cr_assert_eq(loco_tx_begin(tx), LOCO_OK);
    cr_assert_eq(loco_tx_read(tx, loco_store_root(store, 0), &value, sizeof value), LOCO_OK);
    cr_assert_eq(loco_tx_commit(tx), LOCO_OK);
    loco_tx_close(tx);
    return value;
}

Test(pool, what_one_writes_the_next_reads)
{
    loco_store_t *store;
    struct client c;
    struct pool p;

    open_agent(&p, 2, 0);
    for (uint64_t i = 0; i < 3; i++) {
        come(&c);
        cr_assert_eq(loco_store_open(c.pool, "s", i == 0 ? &small : NULL, &store), LOCO_OK);
        if (i > 0)
            cr_assert_eq(read_root(store), i - 1);
        write_root(store, i);
        loco_store_destroy(store);
        leave(&c);
    }
    close_agent(&p);
}

Test(pool, what_does_not_fit_is_refused)
{
    loco_store_options_t other = small;
    loco_store_t *store, *again;
    char name[65];
    struct client c;
    struct pool p;

    open_agent(&p, 2, 4 * MIB);
    come(&c);
    memset(name, 'x', 64);
    name[64] = '\0';
    cr_assert_eq(loco_store_open(c.pool, name, &small, &store), LOCO_ERR_NAME);
    cr_assert_eq(loco_store_open(c.pool, "", &small, &store), LOCO_ERR_NAME);
    cr_assert_eq(loco_store_open(c.pool, "s", NULL, &store), LOCO_ERR_NOT_FOUND);
    cr_assert_eq(loco_store_open(c.pool, "s", &small, &store), LOCO_OK);
    cr_assert_eq(loco_store_open(c.pool, "s", NULL, &again), LOCO_ERR_NAME);
    loco_store_destroy(store);
    other.objects = 4097;
    cr_assert_eq(loco_store_open(c.pool, "s", &other, &store), LOCO_ERR_MISMATCH);
    other.bytes = 100;
    cr_assert_eq(loco_store_open(c.pool, "t", &other, &store), LOCO_ERR_ARG);
    other.bytes = 8 * MIB;
    cr_assert_eq(loco_store_open(c.pool, "t", &other, &store), LOCO_ERR_NO_MEMORY);
    cr_assert_eq(stats_of(&p).stores, 1);
    leave(&c);
    close_agent(&p);
}

static int open_small(uint64_t memory, uint64_t *taken)
{
    loco_store_t *store;
    struct client c;
    struct pool p;
    int status;

    open_agent(&p, 8, memory);
    come(&c);
    status = loco_store_open(c.pool, "s", &small, &store);
    *taken = stats_of(&p).memory;
    if (status == LOCO_OK)
        loco_store_destroy(store);
    leave(&c);
    close_agent(&p);
    return status;
}

/* What clients have in it counts as well as its values. */
Test(pool, no_more_is_taken_than_the_agent_was_given)
{
    uint64_t needed, taken;

    cr_assert_eq(open_small(0, &needed), LOCO_OK);
    cr_assert_gt(needed, small.bytes);
    cr_assert_eq(open_small(needed - 1, &taken), LOCO_ERR_NO_MEMORY);
    cr_assert_eq(taken, 0);
    cr_assert_eq(open_small(needed, &taken), LOCO_OK);
    cr_assert_eq(taken, needed);
}

static int count(void *ctx, const char *name, const loco_store_options_t *options)
{
    cr_assert_eq(options->bytes, MIB);
    cr_assert_eq(strlen(name), 2);
    ++*(int *)ctx;
    return 0;
}

Test(pool, stores_are_listed_and_removed)
{
    loco_store_t *store, *other;
    struct client a, b;
    struct pool p;
    loco_tx_t *tx;
    int n = 0;

    open_agent(&p, 4, 0);
    come(&a);
    come(&b);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(loco_store_open(a.pool, (char[]){ 's', (char)('0' + i), '\0' }, &small,
                                     &store), LOCO_OK);
        if (i < 4)
            loco_store_destroy(store);
    }
    write_root(store, 5);
    cr_assert_eq(loco_pool_list(b.pool, count, &n), LOCO_OK);
    cr_assert_eq(n, 5);
    cr_assert_eq(loco_pool_remove(b.pool, "s4"), LOCO_OK);
    cr_assert_eq(loco_pool_remove(b.pool, "s4"), LOCO_ERR_NOT_FOUND);
    n = 0;
    cr_assert_eq(loco_pool_list(b.pool, count, &n), LOCO_OK);
    cr_assert_eq(n, 4);
    /* Who has it open is told so; another one of the name is another store. */
    cr_assert_eq(loco_store_open(b.pool, "s4", &small, &other), LOCO_OK);
    write_root(other, 6);
    AWAIT(&p, removed, 0);
    cr_assert_eq(loco_tx_open(store, &tx), LOCO_ERR_STATE);
    cr_assert_eq(read_root(other), 6);
    loco_store_destroy(other);
    loco_store_destroy(store);
    leave(&a);
    leave(&b);
    AWAIT(&p, removed, 0);
    cr_assert_eq(stats_of(&p).stores, 5);
    close_agent(&p);
}

/* ---- strangers ---- */

static int raw_connection(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(name.sun_path, sizeof name.sun_path, "%s/loco/unit.sock", folder);
    cr_assert_eq(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

/* Whatever comes, its connection is closed, and others go on. */
Test(pool, nonsense_is_refused)
{
    int rounds = run_fuzz_rounds(300);
    uint64_t random = 12345, refused;
    loco_store_t *store;
    struct client c;
    struct pool p;

    open_agent(&p, 4, 0);
    come(&c);
    cr_assert_eq(loco_store_open(c.pool, "s", &small, &store), LOCO_OK);
    for (int i = 0; i < rounds; i++) {
        struct loci_pool_request request;
        unsigned char *bytes = (unsigned char *)&request;
        int fd = raw_connection();
        char answer[4096];

        for (size_t k = 0; k < sizeof request; k++)
            bytes[k] = (unsigned char)run_random(&random);
        if (i % 2 == 0) {
            request.magic = LOCI_POOL_MAGIC;
            request.version = LOCI_POOL_VERSION;
            request.ask = 9 + (uint32_t)i;
        }
        cr_assert_gt(send(fd, &request, i % 3 == 0 ? (size_t)i % sizeof request + 1
                                                   : sizeof request, MSG_NOSIGNAL), 0);
        cr_assert_leq(recv(fd, answer, sizeof answer, 0), 0);
        close(fd);
    }
    refused = stats_of(&p).refused;
    cr_assert_eq(refused, (uint64_t)rounds);
    write_root(store, 1);
    cr_assert_eq(read_root(store), 1);
    loco_store_destroy(store);
    leave(&c);
    close_agent(&p);
}

/* ---- mailboxes ---- */

static const loco_mailbox_options_t letters = { .ring_bytes = 1024 };

static void receive(loco_mailbox_t *box, const char *expected, size_t bytes)
{
    char buffer[4096];
    size_t n = 0;

    cr_assert_eq(loco_mailbox_receive(box, RUN_PATIENCE, buffer, sizeof buffer, NULL, &n),
                 LOCO_OK);
    cr_assert_eq(n, bytes);
    cr_assert_eq(memcmp(buffer, expected, bytes), 0);
}

Test(pool, mailbox_outlives_who_sends_and_who_receives)
{
    static char pieces[3000];
    struct client a, b;
    loco_mailbox_t *to, *from, *other;
    struct pool p;

    memset(pieces, 'x', sizeof pieces);
    open_agent(&p, 2, 0);
    come(&a);
    come(&b);
    cr_assert_eq(loco_mailbox_open(a.pool, "letters", NULL, 0, &to), LOCO_ERR_NOT_FOUND);
    cr_assert_eq(loco_mailbox_open(a.pool, "letters", &letters, 0, &to), LOCO_OK);
    cr_assert_eq(loco_mailbox_open(a.pool, "letters", &letters, 0, &other), LOCO_ERR_NAME);
    cr_assert_eq(loco_mailbox_send(to, "one", 4), LOCO_OK);
    cr_assert_eq(loco_mailbox_send(to, "two", 4), LOCO_OK);
    cr_assert_eq(loco_mailbox_try_send(to, pieces, 1000), LOCO_ERR_RANGE);
    loco_mailbox_destroy(to);
    leave(&a);
    AWAIT(&p, leaving, 0);
    /* Who sent has gone, and another one has its place. */
    come(&a);
    cr_assert_eq(loco_mailbox_open(a.pool, "letters", NULL, 0, &to), LOCO_OK);
    cr_assert_eq(loco_mailbox_send(to, "three", 6), LOCO_OK);
    cr_assert_eq(loco_mailbox_open(b.pool, "letters", NULL, LOCO_MAILBOX_RECEIVE, &from),
                 LOCO_OK);
    receive(from, "one", 4);
    loco_mailbox_destroy(from);
    /* The receiver goes, and comes again. */
    cr_assert_eq(loco_mailbox_open(b.pool, "letters", NULL, LOCO_MAILBOX_RECEIVE, &from),
                 LOCO_OK);
    receive(from, "two", 4);
    receive(from, "three", 6);
    cr_assert_eq(loco_mailbox_try_receive(from, NULL, 0, NULL, NULL), LOCO_ERR_AGAIN);
    cr_assert_eq(loco_mailbox_receive(to, 0, pieces, sizeof pieces, NULL, NULL),
                 LOCO_ERR_STATE);
    /* Nobody takes anything, so there is no room for all pieces. */
    cr_assert_eq(loco_mailbox_send_timed(to, 1000000, pieces, sizeof pieces), LOCO_ERR_TIMEOUT);
    cr_assert_eq(loco_mailbox_try_receive(from, pieces, sizeof pieces, NULL, NULL),
                 LOCO_ERR_AGAIN);
    cr_assert_eq(loco_mailbox_send(to, "four", 5), LOCO_OK);
    receive(from, "four", 5);
    loco_mailbox_destroy(from);
    loco_mailbox_destroy(to);
    leave(&b);
    leave(&a);
    close_agent(&p);
}

Test(pool, mailbox_has_one_receiver)
{
    struct client a, b;
    loco_mailbox_t *first, *second;
    loco_store_t *store;
    struct pool p;

    open_agent(&p, 2, 8 * MIB);
    come(&a);
    come(&b);
    cr_assert_eq(loco_mailbox_open(a.pool, "box", &letters, LOCO_MAILBOX_RECEIVE, &first),
                 LOCO_OK);
    cr_assert_eq(loco_mailbox_open(b.pool, "box", &letters, LOCO_MAILBOX_RECEIVE, &second),
                 LOCO_ERR_STATE);
    cr_assert_eq(loco_mailbox_open(b.pool, "box", &letters, 2, &second), LOCO_ERR_ARG);
    cr_assert_eq(loco_mailbox_open(b.pool, "box",
                                   &(loco_mailbox_options_t){ .ring_bytes = 2048 }, 0, &second),
                 LOCO_ERR_MISMATCH);
    cr_assert_eq(loco_mailbox_open(b.pool, "odd",
                                   &(loco_mailbox_options_t){ .ring_bytes = 1000 }, 0, &second),
                 LOCO_ERR_ARG);
    cr_assert_eq(loco_mailbox_open(b.pool, "large",
                                   &(loco_mailbox_options_t){ .ring_bytes = 8 * MIB }, 0,
                                   &second), LOCO_ERR_NO_MEMORY);
    cr_assert_eq(loco_store_open(b.pool, "box", &small, &store), LOCO_ERR_MISMATCH);
    cr_assert_eq(loco_store_open(b.pool, "store", &small, &store), LOCO_OK);
    loco_store_destroy(store);
    cr_assert_eq(loco_mailbox_open(b.pool, "store", NULL, 0, &second), LOCO_ERR_MISMATCH);
    /* It is closed with the pool, and given away by the agent. */
    leave(&a);
    AWAIT(&p, leaving, 0);
    cr_assert_eq(loco_mailbox_open(b.pool, "box", NULL, LOCO_MAILBOX_RECEIVE, &second), LOCO_OK);
    loco_mailbox_destroy(second);
    cr_assert_eq(loco_pool_remove(b.pool, "box"), LOCO_OK);
    cr_assert_eq(loco_mailbox_open(b.pool, "box", NULL, 0, &second), LOCO_ERR_NOT_FOUND);
    leave(&b);
    close_agent(&p);
}

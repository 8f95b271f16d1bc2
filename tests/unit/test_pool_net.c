/* SPDX-License-Identifier: BSD-3-Clause */

/* Pools over several machines: who may call an agent, and two agents that count as on different
 * machines, with clients of both. All are runtimes of this process; real machines are in
 * tests/machines, and what agents tell each other is simulated. */

#include "config.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "pool/agent.h"
#include "pool/messages.h"
#include "run.h"
#include "runtime.h"

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
    setenv("HOME", folder, 1);
}

static void close_folder(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(pool_net, .init = open_folder, .fini = close_folder);

/* A machine's folder, which clients and agent of it look into. */
static void be_on(const char *machine)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, machine);
    (void)mkdir(path, 0700);
    setenv("XDG_RUNTIME_DIR", path, 1);
}

static loco_runtime_t *open_runtime(const char *machine)
{
    char node[32];
    const char *const settings[] = { "LOCO_FABRIC=tcp", "LOCO_TCP_IF=lo", "LOCO_PEER_TIMEOUT=5s",
                                     node, NULL };
    const struct loco_bootstrap boot = {
        .identity = (uint64_t)machine[0], .exchange = { .size = 1, .allgather = alone },
        .log = run_log, .settings = settings, .other_machines = true,
    };
    loco_runtime_t *rt;

    snprintf(node, sizeof node, "LOCO_NODE=%s", machine);
    be_on(machine);
    cr_assert_eq(loco_runtime_open(&boot, &rt), LOCO_OK);
    return rt;
}

/* ---- the words of a connection that is new ---- */

struct words {
    struct loci_pool_session listener, caller;
    struct loci_pool_greeting greeting;
    struct loci_pool_call call;
    struct loci_pool_answer answer;
};

static void say_all(loco_runtime_t *rt, struct words *w, const uint64_t theirs[2],
                    const uint64_t mine[2])
{
    loci_pool_session(&w->listener, "p", theirs);
    loci_pool_session(&w->caller, "p", mine);
    cr_assert_eq(loci_pool_greet(rt, &w->listener, &w->greeting), LOCO_OK);
    cr_assert_eq(loci_pool_call(rt, &w->caller, &w->greeting, LOCI_POOL_CLIENT, &w->call),
                 LOCO_OK);
}

Test(pool_net, who_knows_the_secret_proves_it)
{
    const uint64_t secret[2] = { 1, 2 }, other[2] = { 1, 3 };
    loco_runtime_t *rt = open_runtime("a");
    struct loci_address address = { .secret = { 5, 6 } };
    struct words w, again;

    say_all(rt, &w, secret, secret);
    cr_assert_eq(loci_pool_hear_call(&w.listener, &w.call, &w.answer), LOCO_OK);
    cr_assert_eq(loci_pool_hear_answer(&w.caller, &w.answer), LOCO_OK);
    loci_pool_mask(&w.caller, false, &address);
    cr_assert_neq(address.secret[0], 5);
    loci_pool_mask(&w.listener, false, &address);
    cr_assert_eq(address.secret[0], 5);
    cr_assert_eq(address.secret[1], 6);
    /* What was said once is of no use in another connection, */
    say_all(rt, &again, secret, secret);
    cr_assert_eq(loci_pool_hear_call(&again.listener, &w.call, &again.answer), LOCO_ERR_MISMATCH);
    cr_assert_eq(loci_pool_hear_answer(&again.caller, &w.answer), LOCO_ERR_MISMATCH);
    /* nor does a client's proof make an agent, */
    say_all(rt, &w, secret, secret);
    w.call.caller = LOCI_POOL_AGENT;
    cr_assert_eq(loci_pool_hear_call(&w.listener, &w.call, &w.answer), LOCO_ERR_MISMATCH);
    /* nor one with another secret, on either side, */
    say_all(rt, &w, secret, other);
    cr_assert_eq(loci_pool_hear_call(&w.listener, &w.call, &w.answer), LOCO_ERR_MISMATCH);
    cr_assert_eq(loci_pool_hear_answer(&w.caller, &w.answer), LOCO_ERR_MISMATCH);
    w.answer.status = LOCO_OK;
    cr_assert_eq(loci_pool_hear_answer(&w.caller, &w.answer), LOCO_ERR_MISMATCH);
    /* nor half of one. */
    say_all(rt, &w, secret, secret);
    w.call.proof[1]++;
    cr_assert_eq(loci_pool_hear_call(&w.listener, &w.call, &w.answer), LOCO_ERR_MISMATCH);
    w.call.magic++;
    cr_assert_eq(loci_pool_hear_call(&w.listener, &w.call, &w.answer), LOCO_ERR_PROTOCOL);
    loco_runtime_close(rt);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

Test(pool_net, the_secret_is_its_users_alone)
{
    loco_runtime_t *rt = open_runtime("a");
    uint64_t made[2], read[2];
    char path[128];
    struct stat st;

    cr_assert_eq(loci_pool_secret(rt, "test", "p", NULL, made), LOCO_OK);
    cr_assert_eq(loci_pool_secret(rt, "test", "p", NULL, read), LOCO_OK);
    cr_assert_eq(memcmp(made, read, sizeof made), 0);
    snprintf(path, sizeof path, "%s/.loco/p.secret", folder);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600);
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(loci_pool_secret(rt, "test", "p", NULL, read), LOCO_ERR_SYSTEM);
    write_file(path, "0123456789abcdef0123456789abcde\n", 0600);
    cr_assert_eq(loci_pool_secret(rt, "test", "p", NULL, read), LOCO_ERR_SYSTEM);
    write_file(path, "0123456789abcdef0123456789abcdeg\n", 0600);
    cr_assert_eq(loci_pool_secret(rt, "test", "p", NULL, read), LOCO_ERR_SYSTEM);
    write_file(path, "0000000000000001000000000000000f\n", 0600);
    cr_assert_eq(loci_pool_secret(rt, "test", "p", NULL, read), LOCO_OK);
    cr_assert(read[0] == 1 && read[1] == 15);
    loco_runtime_close(rt);
}

/* ---- names of machines ---- */

Test(pool_net, a_machine_is_named_as_documented)
{
    static const char *const right[] = { "127.0.0.1", "127.0.0.1:80", "[127.0.0.1]",
                                         "[127.0.0.1]:80", "::1", "[::1]", "[::1]:80" };
    static const char *const wrong[] = { "", ":80", "[]", "[::1", "[::1]80", "[::1]80:", "[::1]:",
                                         "[::1:80", "127.0.0.1:", "127.0.0.1:80x", "127.0.0.1:0",
                                         "127.0.0.1:-1", "127.0.0.1:65536",
                                         "127.0.0.1:4294967376" };
    struct loci_tcp_place place[LOCI_TCP_PLACES];
    loco_runtime_t *rt = open_runtime("a");

    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        cr_assert_gt(loci_pool_resolve(rt, right[i], 80, place), 0, "%s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert_eq(loci_pool_resolve(rt, wrong[i], 80, place), LOCO_ERR_ARG, "%s", wrong[i]);
    loco_runtime_close(rt);
}

/* What `--join` says, at an agent that listens at that place. */
static int join(loco_runtime_t *rt, const char *listens, const char *text, int *fd)
{
    static struct loco_agent a;
    struct loci_pool_session session;

    a = (struct loco_agent){ .rt = rt, .pool = "net", .port = 4001 };
    snprintf(a.join, sizeof a.join, "%s", text);
    cr_assert_eq(loci_pool_resolve(rt, listens, 4001, a.place), 1);
    *fd = 0;
    return loci_agent_dial_join(&a, LOCO_LOG_WARN, &session, fd);
}

Test(pool_net, an_agent_that_joins_its_own_machine_is_the_first)
{
    loco_runtime_t *rt = open_runtime("a");
    int fd;

    cr_expect(join(rt, "192.0.2.1", "192.0.2.1", &fd) == LOCO_OK && fd == -1);
    cr_expect(join(rt, "192.0.2.1", "127.0.0.1", &fd) == LOCO_OK && fd == -1);
    cr_expect(join(rt, "192.0.2.1", "127.0.1.1:4001", &fd) == LOCO_OK && fd == -1);
    cr_expect(join(rt, "192.0.2.1", "[::1]", &fd) == LOCO_OK && fd == -1);
    /* Another one's port, or one that listens there itself. */
    cr_expect_eq(join(rt, "192.0.2.1", "127.0.0.1:1", &fd), LOCO_ERR_PEER_DEAD);
    cr_expect_eq(join(rt, "127.0.0.2:4002", "127.0.0.1:4002", &fd), LOCO_ERR_PEER_DEAD);
    loco_runtime_close(rt);
}

/* ---- agents of two machines ---- */

#define PORT (20000 + (int)(getpid() % 5000) * 2)

static int goers;                       /* option `ports` of agents that are started */

struct machine {
    loco_runtime_t *rt;
    loco_agent_t *agent;
};

static int start(struct machine *m, const char *name, int port, const char *secret)
{
    loco_agent_options_t o = { .pool = "net", .places = 4, .port = port, .secret = secret,
                               .ports = goers };
    char join[32];

    snprintf(join, sizeof join, "127.0.0.1:%d", PORT);
    o.join = join;
    m->rt = open_runtime(name);
    return loco_agent_start(m->rt, &o, &m->agent);
}

static void stop(struct machine *m)
{
    loco_agent_stop(m->agent);
    loco_runtime_close(m->rt);
}

struct client {
    loco_runtime_t *rt;
    loco_pool_t *pool;
};

/* `more`: a setting, or NULL. */
static void come_with(struct client *c, const char *machine, const char *more)
{
    char node[32];
    const char *const settings[] = { "LOCO_TCP_IF=lo", "LOCO_PEER_TIMEOUT=5s", node, more, NULL };
    const loco_attach_options_t options = { .log = run_log, .settings = settings };

    snprintf(node, sizeof node, "LOCO_NODE=%s", machine);
    be_on(machine);
    cr_assert_eq(loco_runtime_attach("net", &options, &c->rt), LOCO_OK);
    cr_assert_eq(loco_pool_open(c->rt, "net", &c->pool), LOCO_OK);
}

static void come(struct client *c, const char *machine)
{
    come_with(c, machine, NULL);
}

static void leave(struct client *c)
{
    loco_pool_close(c->pool);
    loco_runtime_close(c->rt);
}

static const loco_store_options_t small = { .bytes = MIB, .objects = 4096, .threads = 1 };

static uint64_t add_to_root(loco_store_t *store, uint64_t more)
{
    uint64_t value = 0;
    loco_tx_t *tx;
    int status;

    status = loco_tx_open(store, &tx);
    cr_assert_eq(status, LOCO_OK, "%s", loco_strerror(status));
    cr_assert_eq(loco_tx_begin(tx), LOCO_OK);
    status = loco_tx_read(tx, loco_store_root(store, 0), &value, sizeof value);
    cr_assert(status == LOCO_OK || status == LOCO_ERR_NOT_FOUND);
    value += more;
    cr_assert_eq(loco_tx_write(tx, loco_store_root(store, 0), &value, sizeof value), LOCO_OK);
    cr_assert_eq(loco_tx_commit(tx), LOCO_OK);
    loco_tx_close(tx);
    return value;
}

/* The directory of its machine hears of it in time. */
static int open_in_time(struct client *c, const char *name, loco_store_t **store)
{
    int64_t begun = run_now();
    int status;

    while ((status = loco_store_open(c->pool, name, NULL, store)) != LOCO_OK
           && run_now() - begun < RUN_PATIENCE)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return status;
}

static bool becomes_empty(struct machine *m)
{
    int64_t begun = run_now();
    loco_agent_stats_t stats;

    do {
        loco_agent_stats(m->agent, &stats);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    } while ((stats.clients != 0 || stats.leaving != 0) && run_now() - begun < RUN_PATIENCE);
    return stats.clients == 0 && stats.leaving == 0;
}

Test(pool_net, a_store_is_found_from_another_machine)
{
    struct machine a, b;
    struct client near, far;
    loco_store_t *store, *there;

    cr_assert_eq(start(&a, "a", PORT, NULL), LOCO_OK);
    cr_assert_eq(start(&b, "b", PORT + 1, NULL), LOCO_OK);
    come(&near, "a");
    cr_assert_eq(loco_store_open(near.pool, "s", &small, &store), LOCO_OK);
    cr_assert_eq(add_to_root(store, 5), 5);
    come(&far, "b");
    cr_assert_eq(open_in_time(&far, "s", &there), LOCO_OK);
    cr_assert_eq(add_to_root(there, 7), 12);
    cr_assert_eq(add_to_root(store, 1), 13);
    cr_assert_eq(add_to_root(there, 1), 14);
    loco_store_destroy(there);
    loco_store_destroy(store);
    cr_assert_eq(loco_pool_remove(far.pool, "s"), LOCO_OK);
    cr_assert_eq(loco_store_open(near.pool, "s", NULL, &store), LOCO_ERR_NOT_FOUND);
    leave(&far);
    leave(&near);
    cr_assert(becomes_empty(&a));
    cr_assert(becomes_empty(&b));
    stop(&b);
    stop(&a);
}

/* ---- ports ---- */

static loco_agent_stats_t stats_of(const struct machine *m)
{
    loco_agent_stats_t stats;

    loco_agent_stats(m->agent, &stats);
    return stats;
}

/* The peer of that identity in the client's runtime. */
static int peer_of(const struct client *c, const struct machine *m)
{
    return loci_peer_find(c->rt, m->rt->address.identity);
}

static void start_two(struct machine *a, struct machine *b)
{
    cr_assert_eq(start(a, "a", PORT, NULL), LOCO_OK);
    cr_assert_eq(start(b, "b", PORT + 1, NULL), LOCO_OK);
}

Test(pool_net, a_client_goes_by_ports_and_knows_nobody)
{
    struct machine a, b;
    struct client near, far;
    loco_store_t *store, *there;

    start_two(&a, &b);
    come(&near, "a");
    cr_assert_eq(loco_store_open(near.pool, "s", &small, &store), LOCO_OK);
    come(&far, "b");
    for (uint64_t i = 1; i <= 5; i++) {         /* from the second time on without a question */
        cr_assert_eq(open_in_time(&far, "s", &there), LOCO_OK);
        cr_assert_eq(add_to_root(there, 1), i);
        loco_store_destroy(there);
    }
    cr_assert_gt(stats_of(&b).port_requests, 0);
    cr_assert_eq(stats_of(&b).ports, 1);
    cr_assert_eq(stats_of(&b).port_refused, 0);
    cr_assert_eq(stats_of(&a).clients, 2);
    cr_assert(loci_peer_is_noted(far.rt, peer_of(&far, &a)));
    cr_assert(loci_peer_is_noted(a.rt, loci_peer_find(a.rt, far.rt->address.identity)));
    loco_store_destroy(store);
    leave(&far);
    leave(&near);
    cr_assert(becomes_empty(&a));
    cr_assert(becomes_empty(&b));
    cr_assert_eq(stats_of(&b).ports, 0);
    stop(&b);
    stop(&a);
}

/* One has the only ports; with a mailbox, it has connections, too. */
Test(pool_net, who_has_no_ports_connects_and_who_opens_a_mailbox_does)
{
    const loco_mailbox_options_t ring = { .ring_bytes = 4096 };
    struct machine a, b;
    struct client near, far, other;
    loco_mailbox_t *in, *out;
    loco_store_t *store, *there, *too;
    unsigned char letter[16];
    int from;
    size_t bytes;

    goers = 1;
    start_two(&a, &b);
    come(&near, "a");
    cr_assert_eq(loco_store_open(near.pool, "s", &small, &store), LOCO_OK);
    cr_assert_eq(loco_mailbox_open(near.pool, "m", &ring, LOCO_MAILBOX_RECEIVE, &in), LOCO_OK);
    come(&far, "b");
    come(&other, "b");
    cr_assert_eq(open_in_time(&far, "s", &there), LOCO_OK);
    cr_assert_eq(open_in_time(&other, "s", &too), LOCO_OK);
    cr_assert_eq(add_to_root(too, 1), 1);
    cr_assert_eq(add_to_root(there, 1), 2);
    cr_assert(loci_peer_is_noted(far.rt, peer_of(&far, &a)));
    cr_assert(!loci_peer_is_noted(other.rt, peer_of(&other, &a)));
    cr_assert_eq(loco_mailbox_open(far.pool, "m", NULL, 0, &out), LOCO_OK);
    cr_assert(!loci_peer_is_noted(far.rt, peer_of(&far, &a)));
    cr_assert_eq(loco_mailbox_send(out, "hello", 6), LOCO_OK);
    cr_assert_eq(loco_mailbox_receive(in, RUN_PATIENCE, letter, sizeof letter, &from, &bytes),
                 LOCO_OK);
    cr_assert_eq(memcmp(letter, "hello", 6), 0);
    bytes = (size_t)stats_of(&b).port_requests;
    for (uint64_t i = 3; i < 10; i++)
        cr_assert_eq(add_to_root(there, 1), i);
    cr_assert_eq(stats_of(&b).port_requests, bytes, "its lane has moved");
    loco_mailbox_destroy(out);
    loco_mailbox_destroy(in);
    loco_store_destroy(store);
    loco_store_destroy(there);
    loco_store_destroy(too);
    leave(&other);
    leave(&far);
    leave(&near);
    cr_assert(becomes_empty(&a));
    cr_assert(becomes_empty(&b));
    stop(&b);
    stop(&a);
}

/* Nothing is lost meanwhile: the sum says so. */
Test(pool_net, who_goes_on_moves_over)
{
    struct machine a, b;
    struct client near, far, no;
    loco_store_t *store, *there, *too;
    int64_t begun = run_now();
    uint64_t sum = 0, posted;

    start_two(&a, &b);
    come(&near, "a");
    cr_assert_eq(loco_store_open(near.pool, "s", &small, &store), LOCO_OK);
    come_with(&far, "b", "LOCO_PORTS_LEAVE=100");
    come_with(&no, "b", "LOCO_PORTS=no");
    cr_assert_eq(open_in_time(&far, "s", &there), LOCO_OK);
    cr_assert_eq(open_in_time(&no, "s", &too), LOCO_OK);
    cr_assert_eq(stats_of(&b).ports, 1);
    while (loci_peer_is_noted(far.rt, peer_of(&far, &a)) && run_now() - begun < RUN_PATIENCE)
        cr_assert_eq(add_to_root(there, 1), ++sum);
    cr_assert(!loci_peer_is_noted(far.rt, peer_of(&far, &a)));
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(add_to_root(there, 1), ++sum);
        cr_assert_eq(add_to_root(too, 1), ++sum);
    }
    posted = stats_of(&b).port_requests;
    cr_assert_geq(posted, 100);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(add_to_root(there, 1), ++sum);
    cr_assert_eq(stats_of(&b).port_requests, posted);
    loco_store_destroy(store);
    loco_store_destroy(there);
    loco_store_destroy(too);
    leave(&no);
    leave(&far);
    leave(&near);
    cr_assert(becomes_empty(&a));
    cr_assert(becomes_empty(&b));
    stop(&b);
    stop(&a);
}

/* A runtime that stays has ports of the pool that it opens next, and its places at others. */
Test(pool_net, a_pool_is_opened_again_on_the_same_runtime)
{
    struct machine a, b;
    struct client near, far;
    loco_store_t *store, *there;

    start_two(&a, &b);
    come(&near, "a");
    cr_assert_eq(loco_store_open(near.pool, "s", &small, &store), LOCO_OK);
    come(&far, "b");
    for (uint64_t i = 1; i <= 20; i++) {
        cr_assert_eq(open_in_time(&far, "s", &there), LOCO_OK);
        cr_assert_eq(add_to_root(there, 1), i);
        cr_assert_eq(stats_of(&b).ports, 1);
        loco_store_destroy(there);
        loco_pool_close(far.pool);
        cr_assert_eq(loco_pool_open(far.rt, "net", &far.pool), LOCO_OK);
    }
    loco_store_destroy(store);
    leave(&far);
    leave(&near);
    cr_assert(becomes_empty(&a));
    cr_assert(becomes_empty(&b));
    stop(&b);
    stop(&a);
}

/* Its agent has removed it, and made another one, before the other agent can have heard. */
Test(pool_net, a_store_that_was_made_anew_is_the_new_one)
{
    struct machine a, b;
    struct client near, far;
    loco_store_t *store, *there;

    cr_assert_eq(start(&a, "a", PORT, NULL), LOCO_OK);
    cr_assert_eq(start(&b, "b", PORT + 1, NULL), LOCO_OK);
    come(&near, "a");
    come(&far, "b");
    for (uint64_t i = 1; i <= 40; i++) {
        cr_assert_eq(loco_store_open(near.pool, "s", &small, &store), LOCO_OK);
        cr_assert_eq(add_to_root(store, i), i);
        cr_assert_eq(open_in_time(&far, "s", &there), LOCO_OK);
        cr_assert_eq(add_to_root(there, 0), i, "another store's");
        loco_store_destroy(there);
        loco_store_destroy(store);
        cr_assert_eq(loco_pool_remove(near.pool, "s"), LOCO_OK);
    }
    leave(&far);
    leave(&near);
    stop(&b);
    stop(&a);
}

Test(pool_net, an_agent_with_another_secret_is_refused)
{
    struct machine a, b;
    int64_t begun = run_now();
    loco_agent_stats_t stats;
    char path[128];

    snprintf(path, sizeof path, "%s/other", folder);
    write_file(path, "0000000000000001000000000000000f\n", 0600);
    cr_assert_eq(start(&a, "a", PORT, NULL), LOCO_OK);
    cr_assert_eq(start(&b, "b", PORT + 1, path), LOCO_ERR_MISMATCH);
    /* It counts once it has answered. */
    do
        loco_agent_stats(a.agent, &stats);
    while (stats.refused == 0 && run_now() - begun < RUN_PATIENCE);
    cr_assert_eq(stats.refused, 1);
    loco_runtime_close(b.rt);
    stop(&a);
}

/* ---- strangers ---- */

static int raw_connection(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)PORT),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* With another secret, and a question behind the call as if that had been let in. */
Test(pool_net, without_the_secret_nothing_is_answered)
{
    const uint64_t other[2] = { 1, 2 };
    struct loci_pool_session session;
    struct {
        struct loci_pool_call call;
        struct loci_pool_request request;
    } said = { .request = { .magic = LOCI_POOL_MAGIC, .version = LOCI_POOL_VERSION,
                            .ask = LOCI_POOL_HELLO } };
    struct loci_pool_greeting greeting;
    unsigned char answer[4096];
    size_t got = 0;
    struct machine a;
    ssize_t n;
    int fd;

    cr_assert_eq(start(&a, "a", PORT, NULL), LOCO_OK);
    fd = raw_connection();
    cr_assert_eq(recv(fd, &greeting, sizeof greeting, MSG_WAITALL), (ssize_t)sizeof greeting);
    loci_pool_session(&session, "net", other);
    cr_assert_eq(loci_pool_call(a.rt, &session, &greeting, LOCI_POOL_CLIENT, &said.call),
                 LOCO_OK);
    cr_assert_eq(send(fd, &said, sizeof said, MSG_NOSIGNAL), (ssize_t)sizeof said);
    while (got <= sizeof(struct loci_pool_answer)
           && (n = recv(fd, answer, sizeof answer, 0)) > 0)
        got += (size_t)n;
    cr_assert_leq(got, sizeof(struct loci_pool_answer));
    close(fd);
    stop(&a);
}

/* Whatever comes, its connection is closed without a word but the greeting and a refusal. */
Test(pool_net, nonsense_is_refused)
{
    int rounds = run_fuzz_rounds(60);
    uint64_t random = 12345;
    struct machine a;
    struct client c;
    loco_store_t *store;

    cr_assert_eq(start(&a, "a", PORT, NULL), LOCO_OK);
    for (int i = 0; i < rounds; i++) {
        unsigned char bytes[2 * sizeof(struct loci_pool_call)], answer[4096];
        size_t len = 1 + run_random(&random) % sizeof bytes, got = 0;
        int fd = raw_connection();
        ssize_t n;

        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (unsigned char)run_random(&random);
        cr_assert_gt(send(fd, bytes, len, MSG_NOSIGNAL), 0);
        (void)shutdown(fd, SHUT_WR);     /* it may have hung up already */
        while ((n = recv(fd, answer, sizeof answer, 0)) > 0)
            got += (size_t)n;
        cr_assert_leq(got, sizeof(struct loci_pool_greeting) + sizeof(struct loci_pool_answer));
        close(fd);
    }
    come(&c, "a");
    cr_assert_eq(loco_store_open(c.pool, "s", &small, &store), LOCO_OK);
    cr_assert_eq(add_to_root(store, 5), 5);
    loco_store_destroy(store);
    leave(&c);
    stop(&a);
}

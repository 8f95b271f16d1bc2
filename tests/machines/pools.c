/* SPDX-License-Identifier: BSD-3-Clause */

/* A client of a pool over several machines, for the part "pools".
 *
 *     pools put POOL STORE HOST KEYS     puts so many keys into the store's tree and hash, and adds
 *                                        as much to a counter; the store is made at HOST if it is
 *                                        not there, - being this machine
 *     pools check POOL STORE KEYS        they are there, and the next one is not
 *     pools visit POOL STORE KEY         puts a key, gets it and deletes it
 *     pools hold POOL STORE SECONDS      puts one key again and again, says "in" once it has, and
 *                                        how it ended: that should be LOCO_ERR_PEER_DEAD, soon
 *     pools stay POOL STORE SECONDS      puts the same keys again and again, says "in" and its pid
 *                                        once it has one, and how many it could
 *     pools look POOL STORE SECONDS      opens the store by its name and closes it again and again,
 *                                        says "in" once it has, and how often it could
 *     pools find POOL STORE N            the same so often, once it has said "in" and hears of it
 *     pools first POOL STORE KEY         gets a key of the hash, and says how long that took from
 *                                        main() on
 *     pools warm POOL STORE OTHER N      puts N keys, then opens another store that the same agent
 *                                        has and closes it, twice, and says how long each took
 *     pools mail POOL BOX N              sends N messages of mixed lengths to the mailbox
 *     pools letters POOL BOX SENDERS N   receives the messages of so many senders, N each, which
 *                                        are whole and in order; says "in" once it may
 *     pools remove POOL STORE */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

#define SOON INT64_C(10000000000)       /* ns; LOCO_PEER_TIMEOUT is 3 s */
#define BYTES (UINT64_C(16) << 20)
#define OTHERS (UINT64_C(1) << 60)       /* keys of visitors */

struct client {
    loco_runtime_t *rt;
    loco_pool_t *pool;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
    loco_hash_t *hash;
};

static int failed(const char *what, int status)
{
    printf("%s: %s\n", what, loco_strerror(status));
    return 1;
}

static int come(const char *pool, struct client *c)
{
    int status = loco_runtime_attach(pool, NULL, &c->rt);

    return status == LOCO_OK ? loco_pool_open(c->rt, pool, &c->pool) : status;
}

static int use(const char *store, const char *host, bool tree, struct client *c)
{
    const loco_store_options_t how = { .bytes = BYTES, .objects = BYTES / 128, .threads = 1,
                                       .host = host == NULL || strcmp(host, "-") != 0 ? host
                                               : NULL };
    int status = loco_store_open(c->pool, store, host != NULL ? &how : NULL, &c->store);

    if (status == LOCO_OK)
        status = loco_tx_open(c->store, &c->tx);
    if (status == LOCO_OK && tree)
        status = loco_tree_open(c->tx, loco_store_root(c->store, 0), NULL, &c->tree);
    return status != LOCO_OK ? status
           : loco_hash_open(c->tx, loco_store_root(c->store, 1), NULL, &c->hash);
}

static void leave(struct client *c)
{
    if (c->hash != NULL)
        loco_hash_close(c->hash);
    if (c->tree != NULL)
        loco_tree_close(c->tree);
    if (c->tx != NULL)
        loco_tx_close(c->tx);
    loco_store_destroy(c->store);
    loco_pool_close(c->pool);
    if (c->rt != NULL)
        loco_runtime_close(c->rt);
}

/* In the store's third root: begun anew where somebody else was in between. */
static int count(struct client *c, uint64_t more, uint64_t *value)
{
    loco_object_t counter = loco_store_root(c->store, 2);
    int status;

    do {
        *value = 0;
        status = loco_tx_begin(c->tx);
        if (status == LOCO_OK)
            status = loco_tx_read(c->tx, counter, value, sizeof *value);
        status = status == LOCO_ERR_NOT_FOUND ? LOCO_OK : status;
        *value += more;
        if (status == LOCO_OK && more != 0)
            status = loco_tx_write(c->tx, counter, value, sizeof *value);
        status = status == LOCO_OK ? loco_tx_commit(c->tx) : (loco_tx_abort(c->tx), status);
    } while (status == LOCO_ERR_AGAIN);
    return status;
}

static int put(struct client *c, uint64_t n)
{
    unsigned char room[8];
    uint64_t value;
    int status = count(c, n, &value);

    for (uint64_t i = 0; i < n && status == LOCO_OK; i++) {
        status = loco_tree_put(c->tree, loco_key64(i, room), loco_bytes(&i, sizeof i));
        if (status == LOCO_OK)
            status = loco_hash_put(c->hash, loco_key64(i, room), loco_bytes(&i, sizeof i));
    }
    return status == LOCO_OK ? 0 : failed("put", status);
}

static int check(struct client *c, uint64_t n)
{
    unsigned char room[8];
    uint64_t value, wrong = 0;
    size_t len;
    int status = count(c, 0, &value);

    if (status != LOCO_OK)
        return failed("counter", status);
    wrong += value != n;
    for (uint64_t i = 0; i < 2 * n; i++) {
        loco_bytes_t key = loco_key64(i / 2, room);

        status = i % 2 == 0 ? loco_tree_get(c->tree, key, &value, sizeof value, &len)
                 : loco_hash_get(c->hash, key, &value, sizeof value, &len);
        if (status != LOCO_OK && status != LOCO_ERR_NOT_FOUND)
            return failed("get", status);
        wrong += status != LOCO_OK || value != i / 2;
    }
    wrong += loco_tree_get(c->tree, loco_key64(n, room), &value, sizeof value, &len)
             != LOCO_ERR_NOT_FOUND;
    if (wrong > 0)
        printf("%llu of %llu keys, or the counter, are wrong\n", (unsigned long long)wrong,
               (unsigned long long)n);
    return wrong > 0;
}

static int visit(struct client *c, uint64_t i)
{
    unsigned char room[8];
    uint64_t value = 0;
    loco_bytes_t key = loco_key64(OTHERS | i, room);
    size_t len;
    int status = loco_tree_put(c->tree, key, loco_bytes(&i, sizeof i));

    if (status == LOCO_OK)
        status = loco_tree_get(c->tree, key, &value, sizeof value, &len);
    if (status == LOCO_OK && value != i)
        status = LOCO_ERR_DIFFERS;
    if (status == LOCO_OK)
        status = loco_tree_delete(c->tree, key);
    return status == LOCO_OK ? 0 : failed("visit", status);
}

static int hold(struct client *c, uint64_t seconds)
{
    int64_t begun = run_now(), last = begun;
    uint64_t calls = 0;
    int status = visit(c, 7) == 0 ? LOCO_OK : LOCO_ERR_STATE;

    printf("in %d\n", (int)getpid());
    fflush(stdout);
    while (status == LOCO_OK && run_now() - begun < (int64_t)seconds * 1000000000) {
        last = run_now();
        status = visit(c, calls++ % 1000) == 0 ? LOCO_OK : LOCO_ERR_PEER_DEAD;
    }
    printf("told after %.0f ms, %llu calls, by %s\n", (double)(run_now() - last) / 1e6,
           (unsigned long long)calls, loco_strerror(status));
    return status != LOCO_ERR_PEER_DEAD || run_now() - last > SOON;
}

static int stay(struct client *c, uint64_t seconds)
{
    int64_t begun = run_now();
    uint64_t calls = 0;
    int status = LOCO_OK;

    while (status == LOCO_OK && run_now() - begun < (int64_t)seconds * 1000000000) {
        uint64_t i = OTHERS | (OTHERS << 1) | calls % 100;
        unsigned char room[8];

        status = loco_tree_put(c->tree, loco_key64(i, room), loco_bytes(&i, sizeof i));
        if (calls++ == 0) {
            printf("in %d\n", (int)getpid());
            fflush(stdout);
        }
    }
    printf("%llu calls in %llu s, of the processor %.1f us each\n", (unsigned long long)calls,
           (unsigned long long)seconds, (double)clock() * 1e6 / CLOCKS_PER_SEC / (double)calls);
    return status == LOCO_OK ? 0 : failed("stay", status);
}

static int look(struct client *c, const char *store, uint64_t seconds)
{
    int64_t begun = run_now();
    uint64_t times = 0;
    int status;

    do {
        status = loco_store_open(c->pool, store, NULL, &c->store);
        loco_store_destroy(c->store);
        c->store = NULL;
        if (status == LOCO_OK && times++ == 0) {
            printf("in\n");
            fflush(stdout);
        }
    } while (status == LOCO_OK && run_now() - begun < (int64_t)seconds * 1000000000);
    printf("found %llu times, then: %s\n", (unsigned long long)times, loco_strerror(status));
    return status != LOCO_OK;
}

static int find(struct client *c, const char *store, uint64_t times)
{
    int64_t begun = 0;
    int status = LOCO_OK;

    for (uint64_t i = 0; i < times + 1 && status == LOCO_OK; i++) {
        status = loco_store_open(c->pool, store, NULL, &c->store);
        loco_store_destroy(c->store);
        c->store = NULL;
        if (i > 0)
            continue;
        printf("in %d\n", (int)getpid());
        fflush(stdout);
        (void)getchar();
        begun = run_now();
    }
    if (status != LOCO_OK)
        return failed("find", status);
    printf("found %llu times, %.0f us each\n", (unsigned long long)times,
           (double)(run_now() - begun) / 1e3 / (double)times);
    return 0;
}

static int first(struct client *c, uint64_t i, int64_t begun)
{
    unsigned char room[8];
    uint64_t value;
    size_t len;
    int status = loco_hash_get(c->hash, loco_key64(i, room), &value, sizeof value, &len);

    if (status != LOCO_OK)
        return failed("first", status);
    printf("first %lld us\n", (long long)(run_now() - begun) / 1000);
    return value != i;
}

/* Opens that store at an agent that is known. */
static int open_another(struct client *c, const char *store, int64_t *ns)
{
    int64_t begun = run_now();
    loco_store_t *other;
    int status = loco_store_open(c->pool, store, NULL, &other);

    *ns = run_now() - begun;
    if (status == LOCO_OK)
        loco_store_destroy(other);
    return status;
}

static int warm(struct client *c, const char *store, uint64_t n)
{
    unsigned char room[8];
    int64_t put = 0, begun, opened = 0, again = 0;
    int status = LOCO_OK;

    for (uint64_t i = 0; i <= n && status == LOCO_OK; i++) {
        begun = run_now();
        status = loco_hash_put(c->hash, loco_key64(OTHERS | i, room), loco_bytes(&i, sizeof i));
        put += i > 0 ? run_now() - begun : 0;
    }
    if (status == LOCO_OK)
        status = open_another(c, store, &opened);
    if (status == LOCO_OK)
        status = open_another(c, store, &again);
    if (status != LOCO_OK)
        return failed("warm", status);
    printf("put %lld us, opened %lld us, again %lld us\n", (long long)put / 1000 / (long long)n,
           (long long)opened / 1000, (long long)again / 1000);
    return 0;
}

/* ---- mailboxes ---- */

#define LETTER ((size_t)100 << 10)
#define SENDERS 1024                    /* ranks of a pool, at most */

/* A message is its number, and bytes that follow from it; every tenth is long. */
static size_t make(uint64_t i, unsigned char *to)
{
    size_t bytes = i % 10 == 9 ? LETTER - (size_t)(i * 997 % 50000) : 8 + (size_t)(i * 31 % 500);

    memcpy(to, &i, 8);
    for (size_t k = 8; k < bytes; k++)
        to[k] = (unsigned char)(i + k * 7);
    return bytes;
}

static int mail(loco_mailbox_t *box, uint64_t n)
{
    static unsigned char letter[LETTER];

    for (uint64_t i = 0; i < n; i++) {
        int status = loco_mailbox_send_timed(box, SOON, letter, make(i, letter));

        if (status != LOCO_OK)
            return failed("send", status);
    }
    return 0;
}

static int letters(loco_mailbox_t *box, uint64_t senders, uint64_t n)
{
    static unsigned char letter[LETTER], expected[LETTER];
    static uint64_t next[SENDERS + 1];

    printf("in\n");
    fflush(stdout);
    for (uint64_t k = 0; k < senders * n; k++) {
        size_t bytes;
        uint64_t i;
        int from, status = loco_mailbox_receive(box, 3 * SOON, letter, LETTER, &from, &bytes);

        if (status != LOCO_OK)
            return failed("receive", status);
        memcpy(&i, letter, 8);
        if (i != next[from] || make(i, expected) != bytes || memcmp(letter, expected, bytes) != 0) {
            printf("message %llu of %d is wrong, or %llu was to come\n", (unsigned long long)i,
                   from, (unsigned long long)next[from]);
            return 1;
        }
        next[from] = (i + 1) % n;       /* another one may come into its place */
    }
    return 0;
}

static int use_mailbox(struct client *c, const char *name, uint64_t senders, uint64_t n)
{
    const loco_mailbox_options_t options = { .ring_bytes = 16384 };
    loco_mailbox_t *box;
    int result, status = loco_mailbox_open(c->pool, name, &options,
                                           senders > 0 ? LOCO_MAILBOX_RECEIVE : 0, &box);

    if (status != LOCO_OK)
        return failed("opening", status);
    result = senders > 0 ? letters(box, senders, n) : mail(box, n);
    loco_mailbox_destroy(box);
    return result;
}

int main(int argc, char **argv)
{
    const char *what = argc > 3 ? argv[1] : "";
    uint64_t n = argc > 4 ? strtoull(argv[argc - 1], NULL, 10) : 0;
    struct client c = { 0 };
    int64_t begun = run_now();
    int status, result;

    if (argc < 4)
        return 2;
    status = come(argv[2], &c);
    if (status != LOCO_OK) {
        leave(&c);
        return failed("coming", status);
    }
    if (strcmp(what, "remove") == 0) {
        status = loco_pool_remove(c.pool, argv[3]);
        result = status == LOCO_OK ? 0 : failed("removing", status);
        leave(&c);
        return result;
    }
    if (strcmp(what, "mail") == 0 || strcmp(what, "letters") == 0) {
        result = strcmp(what, "mail") == 0 ? use_mailbox(&c, argv[3], 0, n)
                 : use_mailbox(&c, argv[3], argc > 5 ? strtoull(argv[4], NULL, 10) : 1, n);
        leave(&c);
        return result;
    }
    if (strcmp(what, "look") == 0 || strcmp(what, "find") == 0) {
        result = strcmp(what, "look") == 0 ? look(&c, argv[3], n) : find(&c, argv[3], n);
        leave(&c);
        return result;
    }
    status = use(argv[3], strcmp(what, "put") == 0 ? argv[4] : NULL, strcmp(what, "first") != 0,
                 &c);
    if (status != LOCO_OK) {
        result = failed("opening", status);
        leave(&c);
        return result;
    }
    result = strcmp(what, "put") == 0 ? put(&c, n)
             : strcmp(what, "check") == 0 ? check(&c, n)
             : strcmp(what, "visit") == 0 ? visit(&c, n)
             : strcmp(what, "stay") == 0 ? stay(&c, n)
             : strcmp(what, "first") == 0 ? first(&c, n, begun)
             : strcmp(what, "warm") == 0 && argc > 5 ? warm(&c, argv[4], n)
             : strcmp(what, "hold") == 0 ? hold(&c, n) : 2;
    leave(&c);
    return result;
}

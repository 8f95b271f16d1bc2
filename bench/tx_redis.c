/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redis, by its protocol RESP, for SmallBank: a transaction that one command can do is that
 * command, the others are scripts in Lua, called by their hashes. DEPTH of them are outstanding at
 * a time; each is atomic, since the server runs one after the other.
 */
#include "../mpi_examples/smallbank.h"
#include "kv_socket.h"
#include "tx_rivals.h"

#include <inttypes.h>
#include <stdlib.h>

enum { DEPTH = 32, KINDS = 6, HASH = 40, NUMBER_BYTES = 32 };

/* In vain: nil. Else what was added. */
static const char amalgamate[] =
    "local s, c = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) "
    "redis.call('INCRBY', KEYS[3], s + c) "
    "redis.call('SET', KEYS[1], 0) redis.call('SET', KEYS[2], 0) return 0";
static const char send_payment[] =
    "local amount = tonumber(ARGV[1]) "
    "if tonumber(redis.call('GET', KEYS[1])) < amount then return nil end "
    "redis.call('DECRBY', KEYS[1], amount) redis.call('INCRBY', KEYS[2], amount) return 0";
static const char write_check[] =
    "local amount = tonumber(ARGV[1]) "
    "local s, c = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) "
    "if s + c < amount then amount = amount + tonumber(ARGV[2]) end "
    "redis.call('DECRBY', KEYS[2], amount) return -amount";

static const char *const scripts[KINDS] = {
    [AMALGAMATE] = amalgamate, [SEND_PAYMENT] = send_payment, [WRITE_CHECK] = write_check,
};

struct session {
    struct kv_socket *socket;
    char hash[KINDS][HASH + 1];
    int writes;             /* of a body: their replies are taken at its end */
};

static const char letters[] = { [SAVINGS] = 's', [CHECKING] = 'c' };

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    (void)w;
    return (void *)(uintptr_t)o;
}

static void close_store(void *store)
{
    (void)store;
}

/* ---- the protocol ---- */

static void put_head(struct session *c, int parts)
{
    char head[NUMBER_BYTES];

    kv_socket_put(c->socket, head, (size_t)snprintf(head, sizeof(head), "*%d\r\n", parts));
}

static void put_bytes(struct session *c, const char *bytes, size_t length)
{
    char head[NUMBER_BYTES];

    kv_socket_put(c->socket, head, (size_t)snprintf(head, sizeof(head), "$%zu\r\n", length));
    kv_socket_put(c->socket, bytes, length);
    kv_socket_put(c->socket, "\r\n", 2);
}

static void put_text(struct session *c, const char *text)
{
    put_bytes(c, text, strlen(text));
}

static void put_number(struct session *c, int64_t number)
{
    char text[NUMBER_BYTES];

    put_bytes(c, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, number));
}

static void put_key(struct session *c, int table, uint64_t key)
{
    char text[NUMBER_BYTES];

    put_bytes(c, text, (size_t)snprintf(text, sizeof(text), "%c%" PRIu64, letters[table], key));
}

/* A string, which stays until something more is taken; NULL: nil. */
static const char *take_string(struct session *c, size_t *length)
{
    const char *line = kv_socket_take_line(c->socket);

    if (strcmp(line, "$-1") == 0)
        return NULL;
    if (line[0] != '$')
        ex_abort("Redis replies: %s", line);
    *length = (size_t)atol(line + 1);
    return kv_socket_take(c->socket, *length + 2);
}

static void expect(struct session *c, const char *wanted)
{
    const char *line = kv_socket_take_line(c->socket);

    if (strncmp(line, wanted, strlen(wanted)) != 0)
        ex_abort("Redis replies: %s", line);
}

static void *attach(void *store)
{
    const struct tx_options *o = store;
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->socket = kv_socket_open(o->path, DEPTH);
    for (int i = 0; i < KINDS; i++) {
        size_t length = 0;
        const char *hash;

        if (scripts[i] == NULL)
            continue;
        put_head(c, 3);
        put_text(c, "SCRIPT");
        put_text(c, "LOAD");
        put_text(c, scripts[i]);
        hash = take_string(c, &length);
        if (hash == NULL || length != HASH)
            ex_abort("Redis does not take a script");
        memcpy(c->hash[i], hash, HASH);
    }
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    kv_socket_close(c->socket);
    free(c);
}

/* ---- loading and checking, a row at a time ---- */

static uint64_t run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct session *c = session;
    struct tx tx = { &tx_redis, session };

    (void)only_reads;
    tx_call_body(&tx, body, call);
    for (; c->writes > 0; c->writes--)
        expect(c, "+OK");
    return 0;
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct session *c = session;
    const char *text;
    size_t length;

    (void)to_write;
    put_head(c, 2);
    put_text(c, "GET");
    put_key(c, table, key);
    kv_socket_end_request(c->socket);
    text = take_string(c, &length);
    if (text == NULL)
        return TX_NO_ROW;
    *(int64_t *)row = strtoll(text, NULL, 10);
    return TX_DONE;
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct session *c = session;

    put_head(c, 3);
    put_text(c, "SET");
    put_key(c, table, key);
    put_number(c, *(const int64_t *)row);
    kv_socket_end_request(c->socket);
    c->writes++;
    return TX_DONE;
}

/* ---- transactions ---- */

static void put_script(struct session *c, int kind, int keys, int arguments)
{
    put_head(c, 3 + keys + arguments);
    put_text(c, "EVALSHA");
    put_text(c, c->hash[kind]);
    put_number(c, keys);
}

static void put_paying(struct session *c, int table, uint64_t key, int64_t amount)
{
    put_head(c, 3);
    put_text(c, "INCRBY");
    put_key(c, table, key);
    put_number(c, amount);
}

static void ask(struct session *c, const struct tx_call *call)
{
    switch (call->kind) {
    case AMALGAMATE:
        put_script(c, call->kind, 3, 0);
        put_key(c, SAVINGS, call->key[0]);
        put_key(c, CHECKING, call->key[0]);
        put_key(c, CHECKING, call->key[1]);
        break;
    case BALANCE:
        put_head(c, 3);
        put_text(c, "MGET");
        put_key(c, SAVINGS, call->key[0]);
        put_key(c, CHECKING, call->key[0]);
        break;
    case SEND_PAYMENT:
        put_script(c, call->kind, 2, 1);
        put_key(c, CHECKING, call->key[0]);
        put_key(c, CHECKING, call->key[1]);
        put_number(c, PAYMENT);
        break;
    case WRITE_CHECK:
        put_script(c, call->kind, 2, 2);
        put_key(c, SAVINGS, call->key[0]);
        put_key(c, CHECKING, call->key[0]);
        put_number(c, CHECK);
        put_number(c, PENALTY);
        break;
    default:
        put_paying(c, call->kind == TRANSACT_SAVING ? SAVINGS : CHECKING, call->key[0],
                   call->kind == TRANSACT_SAVING ? SAVING : DEPOSIT);
    }
    kv_socket_end_request(c->socket);
}

static void answer(struct session *c, struct tx_call *call)
{
    const char *line;
    size_t length;

    if (call->kind == BALANCE) {
        expect(c, "*2");
        call->wrong = take_string(c, &length) == NULL;
        call->wrong |= take_string(c, &length) == NULL;
        return;
    }
    line = kv_socket_take_line(c->socket);
    call->in_vain = strcmp(line, "$-1") == 0;
    if (line[0] != ':' && !call->in_vain)
        ex_abort("Redis replies: %s", line);
    if (call->kind == WRITE_CHECK)
        call->added[0] = strtoll(line + 1, NULL, 10);
    else if (call->kind == DEPOSIT_CHECKING || call->kind == TRANSACT_SAVING)
        call->added[0] = call->kind == TRANSACT_SAVING ? SAVING : DEPOSIT;
}

static void run_many(void *session, int n, struct tx_call *calls)
{
    struct session *c = session;

    for (int i = 0; i < n; i++)
        ask(c, &calls[i]);
    for (int i = 0; i < n; i++)
        answer(c, &calls[i]);
}

static double seconds_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    if (at == NULL)
        ex_abort("Redis does not say its %s", name);
    return strtod(at + strlen(name), NULL);
}

static double server_cpu(void *session)
{
    struct session *c = session;
    char text[4096];
    const char *reply;
    size_t length = 0;

    put_head(c, 2);
    put_text(c, "INFO");
    put_text(c, "cpu");
    reply = take_string(c, &length);
    if (reply == NULL || length >= sizeof(text))
        ex_abort("Redis does not say its CPU time");
    memcpy(text, reply, length);
    text[length] = '\0';
    return seconds_of(text, "used_cpu_sys:") + seconds_of(text, "used_cpu_user:");
}

const struct tx_backend tx_redis = {
    .name = "redis",
    .text = "a Redis server, scripts, 32 outstanding",
    .path = "its socket",
    .only = "smallbank",
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .run = run,
    .read = read_row,
    .write = write_row,
    .depth = DEPTH,
    .run_many = run_many,
    .server_cpu = server_cpu,
};

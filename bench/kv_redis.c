/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redis, by its protocol RESP: GET, SET, and SETNX for inserts. In the ordered one all keys are in
 * a sorted set besides, by which scans find them: an insert, and a scan with the values of what it
 * finds, is a script.
 */
#include "kv_rivals.h"
#include "kv_socket.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 1000 };    /* entries, by a scan of everything */

struct session {
    struct kv_socket *socket;
    size_t key_bytes, value_bytes;
    bool ordered;
    char key_head[32];     /* what comes before a key in a request, */
    char value_head[32];   /* and before a value */
    char insert[64], scan[64];      /* names of scripts, as arguments */
    unsigned char last[KV_MOST_KEY];
};

static const char insert_script[] =
    "if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then return 0 end "
    "redis.call('ZADD', 'keys', 0, KEYS[1]) return 1";
static const char scan_script[] =
    "local k = redis.call('ZRANGEBYLEX', 'keys', ARGV[2] .. KEYS[1], '+', 'LIMIT', 0, ARGV[1]) "
    "if #k == 0 then return k end local v = redis.call('MGET', unpack(k)) local r = {} "
    "for i = 1, #k do r[2 * i - 1] = k[i] r[2 * i] = v[i] end return r";

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    (void)most;
    (void)all;
    return (void *)(uintptr_t)o;
}

static void close_store(void *store)
{
    (void)store;
}

static void put_text(struct session *c, const char *text)
{
    kv_socket_put(c->socket, text, strlen(text));
}

static void put_key(struct session *c, const struct kv_op *op)
{
    put_text(c, c->key_head);
    kv_socket_put(c->socket, op->name, c->key_bytes);
}

/* The server's name for it. */
static void load(struct session *c, const char *script, char *argument, size_t room)
{
    char head[64];

    snprintf(head, sizeof(head), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n",
             strlen(script));
    put_text(c, head);
    put_text(c, script);
    put_text(c, "\r\n");
    kv_socket_end_request(c->socket);
    if (strcmp(kv_socket_take_line(c->socket), "$40") != 0)
        ex_abort("Redis does not take a script");
    snprintf(argument, room, "$40\r\n%.40s\r\n", (const char *)kv_socket_take(c->socket, 42));
}

static void *attach(void *store, int window)
{
    const struct kv_options *o = store;
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->key_bytes = (size_t)o->key_bytes;
    c->value_bytes = (size_t)o->value_bytes;
    c->ordered = o->backend->ordered;
    snprintf(c->key_head, sizeof(c->key_head), "$%zu\r\n", c->key_bytes);
    snprintf(c->value_head, sizeof(c->value_head), "\r\n$%zu\r\n", c->value_bytes);
    c->socket = kv_socket_open(o->at, window);
    if (c->ordered) {
        load(c, insert_script, c->insert, sizeof(c->insert));
        load(c, scan_script, c->scan, sizeof(c->scan));
    }
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    kv_socket_close(c->socket);
    free(c);
}

static void put_script(struct session *c, const char *script)
{
    put_text(c, script);
    put_text(c, "$1\r\n1\r\n");
}

/* `side`: [ from that key on, ( behind it. */
static void put_scan(struct session *c, const unsigned char *name, uint64_t limit, char side)
{
    char number[32], arguments[96];

    snprintf(number, sizeof(number), "%llu", (unsigned long long)limit);
    snprintf(arguments, sizeof(arguments), "\r\n$%zu\r\n%s\r\n$1\r\n%c", strlen(number), number,
             side);
    put_text(c, "*6\r\n$7\r\nEVALSHA\r\n");
    put_script(c, c->scan);
    put_text(c, c->key_head);
    kv_socket_put(c->socket, name, c->key_bytes);
    put_text(c, arguments);
}

static bool is_bulk(const char *line, size_t bytes)
{
    return line[0] == '$' && (size_t)atol(line + 1) == bytes;
}

/* How many it has found; the last key is in c->last then. */
static long take_scan(struct session *c, struct kv_op *op)
{
    const char *line = kv_socket_take_line(c->socket);
    long parts = line[0] == '*' ? atol(line + 1) : -1;

    if (parts < 0 || parts % 2 != 0)
        ex_abort("Redis replies: %s", line);
    for (long i = 0; i < parts; i += 2) {
        if (!is_bulk(kv_socket_take_line(c->socket), c->key_bytes))
            ex_abort("Redis replies with a key of another size");
        memcpy(c->last, kv_socket_take(c->socket, c->key_bytes + 2), c->key_bytes);
        if (!is_bulk(kv_socket_take_line(c->socket), c->value_bytes))
            ex_abort("Redis replies with a value of another size");
        kv_found(op, c->last, c->key_bytes, kv_socket_take(c->socket, c->value_bytes + 2),
                 c->value_bytes);
    }
    return parts / 2;
}

/* A script has no room for everything at once. Nothing else is outstanding. */
static void scan_all(struct session *c, struct kv_op *op)
{
    const unsigned char *from = op->name;
    long n = AT_ONCE;

    for (char side = '['; n == AT_ONCE; side = '(') {
        put_scan(c, from, AT_ONCE, side);
        put_text(c, "\r\n");
        kv_socket_end_request(c->socket);
        n = take_scan(c, op);
        from = c->last;
    }
}

static void put_write(struct session *c, const struct kv_op *op)
{
    if (op->kind == KV_INSERT && c->ordered) {
        put_text(c, "*5\r\n$7\r\nEVALSHA\r\n");
        put_script(c, c->insert);
    } else {
        put_text(c, op->kind == KV_INSERT ? "*3\r\n$5\r\nSETNX\r\n" : "*3\r\n$3\r\nSET\r\n");
    }
    put_key(c, op);
    put_text(c, c->value_head);
    kv_socket_put(c->socket, op->value, c->value_bytes);
}

static bool start(void *session, struct kv_op *op)
{
    struct session *c = session;

    if (op->kind == KV_SCAN && op->limit == 0) {
        scan_all(c, op);
        return true;
    }
    if (op->kind == KV_SCAN) {
        put_scan(c, op->name, op->limit, '[');
    } else if (op->kind == KV_READ) {
        put_text(c, "*2\r\n$3\r\nGET\r\n");
        put_key(c, op);
    } else {
        put_write(c, op);
    }
    put_text(c, "\r\n");
    kv_socket_end_request(c->socket);
    return false;
}

static void finish(void *session, struct kv_op *op)
{
    struct session *c = session;
    const char *line;

    op->result = KV_DONE;
    if (op->kind == KV_SCAN) {
        take_scan(c, op);
        return;
    }
    line = kv_socket_take_line(c->socket);
    if (op->kind == KV_READ && strcmp(line, "$-1") == 0)
        op->result = KV_MISSING;
    else if (op->kind == KV_READ && is_bulk(line, c->value_bytes))
        memcpy(op->value, kv_socket_take(c->socket, c->value_bytes + 2), c->value_bytes);
    else if (op->kind == KV_INSERT && strcmp(line, ":0") == 0)
        op->result = KV_EXISTS;
    else if (strcmp(line, op->kind == KV_INSERT ? ":1" : "+OK") != 0 || op->kind == KV_READ)
        ex_abort("Redis replies: %s", line);
}

const struct kv_backend kv_redis = {
    .name = "redis",
    .text = "a Redis server",
    .place = "its socket",
    .names = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
    .finish = finish,
};

const struct kv_backend kv_redis_sorted = {
    .name = "redis-sorted",
    .text = "the same, with all keys in a sorted set",
    .place = "its socket",
    .names = true,
    .ordered = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
    .finish = finish,
};

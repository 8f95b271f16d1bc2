/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis, by its protocol RESP: GET, SET, and SETNX for inserts; keys are 8 bytes. */
#include "kv_rivals.h"
#include "kv_socket.h"

#include <stdlib.h>
#include <string.h>

struct session {
    struct kv_socket *socket;
    size_t value_bytes;
    char value_head[32];   /* what comes before a value in a request */
};

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

static void *attach(void *store, int window)
{
    const struct kv_options *o = store;
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->value_bytes = (size_t)o->value_bytes;
    snprintf(c->value_head, sizeof(c->value_head), "\r\n$%zu\r\n", c->value_bytes);
    c->socket = kv_socket_open(o->at, window);
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    kv_socket_close(c->socket);
    free(c);
}

static bool start(void *session, struct kv_op *op)
{
    static const char *const heads[] = {
        [KV_READ] = "*2\r\n$3\r\nGET\r\n$8\r\n",
        [KV_UPDATE] = "*3\r\n$3\r\nSET\r\n$8\r\n",
        [KV_INSERT] = "*3\r\n$5\r\nSETNX\r\n$8\r\n",
    };
    struct session *c = session;

    kv_socket_put(c->socket, heads[op->kind], strlen(heads[op->kind]));
    kv_socket_put(c->socket, &op->key, sizeof(op->key));
    if (op->kind != KV_READ) {
        kv_socket_put(c->socket, c->value_head, strlen(c->value_head));
        kv_socket_put(c->socket, op->value, c->value_bytes);
    }
    kv_socket_put(c->socket, "\r\n", 2);
    kv_socket_end_request(c->socket);
    return false;
}

static void finish(void *session, struct kv_op *op)
{
    struct session *c = session;
    const char *line = kv_socket_take_line(c->socket);

    op->result = KV_DONE;
    if (op->kind == KV_READ && strcmp(line, "$-1") == 0)
        op->result = KV_MISSING;
    else if (op->kind == KV_READ && line[0] == '$' && (size_t)atol(line + 1) == c->value_bytes)
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
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
    .finish = finish,
};

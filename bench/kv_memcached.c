/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached, by its binary protocol: get, set, and add for inserts; keys are 8 bytes. */
#include "kv_rivals.h"
#include "kv_socket.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* The 24 bytes before each request and reply; numbers in network order. */
struct head {
    uint8_t magic, opcode;
    uint16_t key_bytes;
    uint8_t extra_bytes, type;
    uint16_t status;
    uint32_t body_bytes;
    uint32_t opaque;
    uint32_t version[2];
};

_Static_assert(sizeof(struct head) == 24, "as the protocol has it");

enum { REQUEST = 0x80, REPLY = 0x81, GET = 0, SET = 1, ADD = 2, NOT_FOUND = 1, EXISTS = 2 };
enum { GET_EXTRAS = 4, SET_EXTRAS = 8 };

struct session {
    struct kv_socket *socket;
    size_t key_bytes, value_bytes;
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
    c->key_bytes = (size_t)o->key_bytes;
    c->value_bytes = (size_t)o->value_bytes;
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
    static const char no_flags_no_end[SET_EXTRAS];
    static const uint8_t opcodes[] = { [KV_READ] = GET, [KV_UPDATE] = SET, [KV_INSERT] = ADD };
    struct session *c = session;
    size_t extras = op->kind == KV_READ ? 0 : SET_EXTRAS;
    size_t value = op->kind == KV_READ ? 0 : c->value_bytes;
    struct head head = {
        .magic = REQUEST,
        .opcode = opcodes[op->kind],
        .key_bytes = htons((uint16_t)c->key_bytes),
        .extra_bytes = (uint8_t)extras,
        .body_bytes = htonl((uint32_t)(extras + c->key_bytes + value)),
    };

    kv_socket_put(c->socket, &head, sizeof(head));
    kv_socket_put(c->socket, no_flags_no_end, extras);
    kv_socket_put(c->socket, op->name, c->key_bytes);
    kv_socket_put(c->socket, op->value, value);
    kv_socket_end_request(c->socket);
    return false;
}

static void finish(void *session, struct kv_op *op)
{
    struct session *c = session;
    const char *body;
    struct head head;
    size_t length;
    int status;

    memcpy(&head, kv_socket_take(c->socket, sizeof(head)), sizeof(head));
    status = ntohs(head.status);
    length = ntohl(head.body_bytes);
    if (head.magic != REPLY)
        ex_abort("memcached replies with a byte %02x", head.magic);
    body = kv_socket_take(c->socket, length);
    if (status == NOT_FOUND)
        op->result = KV_MISSING;
    else if (status == EXISTS)
        op->result = KV_EXISTS;
    else if (status != 0)
        ex_abort("memcached replies: %.*s", (int)length, body);
    else
        op->result = KV_DONE;
    if (op->kind != KV_READ || status != 0)
        return;
    if (length != GET_EXTRAS + c->value_bytes)
        ex_abort("memcached replies with %zu bytes", length);
    memcpy(op->value, body + GET_EXTRAS, c->value_bytes);
}

const struct kv_backend kv_memcached = {
    .name = "memcached",
    .text = "a memcached server",
    .place = "its socket",
    .names = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
    .finish = finish,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests and replies over a UNIX socket, pipelined. Requests are gathered and sent when half of
 * those that may be outstanding are there, so that the server works on one half while we make the
 * other, or when a reply is wanted that is not here; one read takes all that has come. A failure
 * ends the program.
 */
#ifndef BENCH_KV_SOCKET_H
#define BENCH_KV_SOCKET_H

#include <stddef.h>

struct kv_socket;

struct kv_socket *kv_socket_open(const char *path, int window);
void kv_socket_close(struct kv_socket *s);

/* Appends to the request that is being made. */
void kv_socket_put(struct kv_socket *s, const void *bytes, size_t length);

/* The request is complete. */
void kv_socket_end_request(struct kv_socket *s);

/* The next `length` bytes of the replies; they stay until the next call. */
const void *kv_socket_take(struct kv_socket *s, size_t length);

/* The next line, without its end, as a string; it stays until the next call. */
const char *kv_socket_take_line(struct kv_socket *s);

#endif

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: ZMQ_MAXMSGSIZE limits the messages a socket receives, over each transport. A peer that
# sends a larger one "is disconnected" (zmq_setsockopt(3)); then the socket that had connected
# connects again after 100 ms (ZMQ_RECONNECT_IVL), as after any other loss of a connection.
# Seen, ZeroMQ 4.3.4: a PULL socket that had connected over tcp or ipc does not connect again, and
# neither side is told: it gets nothing more, and PUSH, with no other peer, waits for ever. Where
# PUSH had connected, it comes back. With a limit below 26 bytes not even messages of 1 byte pass,
# for ZeroMQ's own first message counts. Over inproc the limit does nothing.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev libzmq3-dev=4.3.4-6
compile large gcc -lzmq <<'C'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
enum { WAIT_MS = 2000 };
static int64_t limit;
static void *socket_of(void *context, int type)
{
    void *socket = zmq_socket(context, type);
    int wait = WAIT_MS;

    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait, sizeof wait);
    zmq_setsockopt(socket, ZMQ_SNDTIMEO, &wait, sizeof wait);
    if (type == ZMQ_PULL) zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &limit, sizeof limit);
    return socket;
}
static const char *passed(void *push, void *pull, const char *message)
{
    char got[64];

    zmq_send(push, message, strlen(message), 0);
    return zmq_recv(pull, got, sizeof got, 0) < 0 ? "not received" : "received";
}
static void look(void *context, const char *place, int connects)
{
    void *push = socket_of(context, ZMQ_PUSH), *pull = socket_of(context, ZMQ_PULL);

    zmq_bind(connects == ZMQ_PULL ? push : pull, place);
    zmq_connect(connects == ZMQ_PULL ? pull : push, place);
    printf("%.3s, %s connects:", place, connects == ZMQ_PULL ? "PULL" : "PUSH");
    printf(" 1 byte %s,", passed(push, pull, "1"));
    printf(" 30 bytes %s,", passed(push, pull, "123456789012345678901234567890"));
    printf(" 1 byte %s\n", passed(push, pull, "1"));
    fflush(stdout);
}
int main(int argc, char **argv)
{
    void *context = zmq_ctx_new();

    limit = atoi(argv[1]);
    look(context, "inproc://1", ZMQ_PULL);
    look(context, "ipc:///root/1", ZMQ_PULL);
    look(context, "ipc:///root/2", ZMQ_PUSH);
    look(context, "tcp://127.0.0.1:23991", ZMQ_PULL);
    look(context, "tcp://127.0.0.1:23992", ZMQ_PUSH);
    _exit(0);
}
C
still "inp, PULL connects: 1 byte received, 30 bytes received, 1 byte received
ipc, PULL connects: 1 byte received, 30 bytes not received, 1 byte not received
ipc, PUSH connects: 1 byte received, 30 bytes not received, 1 byte received
tcp, PULL connects: 1 byte received, 30 bytes not received, 1 byte not received
tcp, PUSH connects: 1 byte received, 30 bytes not received, 1 byte received" \
    "$(inside './large 26')"
still "inp, PULL connects: 1 byte received, 30 bytes received, 1 byte received
ipc, PULL connects: 1 byte not received, 30 bytes not received, 1 byte not received
ipc, PUSH connects: 1 byte not received, 30 bytes not received, 1 byte not received
tcp, PULL connects: 1 byte not received, 30 bytes not received, 1 byte not received
tcp, PUSH connects: 1 byte not received, 30 bytes not received, 1 byte not received" \
    "$(inside './large 25')"
exit $changed

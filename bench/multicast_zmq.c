/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ZeroMQ, over sockets of the system. PUB from each sender to all others, which have no order among
 * senders; or through a sequencer, rank 0, which publishes what comes to it. A sender that is too
 * fast waits (XPUB_NODROP): nothing is lost. What is one's own is delivered without the library.
 */
#include "multicast_rivals.h"

#ifdef LOCO_HAVE_ZMQ
#include <stdio.h>
#include <zmq.h>

static void *context, *out, *in, *sequencer;    /* sequencer: to it, or at it from others */

static void *make(int type)
{
    void *socket = zmq_socket(context, type);
    int limit = 1000, linger = 0, yes = 1;

    if (socket == NULL)
        rivals_die("zmq_socket: %s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(socket, ZMQ_SNDHWM, &limit, sizeof limit);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &limit, sizeof limit);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    if (type == ZMQ_PUB)
        zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &yes, sizeof yes);
    if (type == ZMQ_SUB)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    return socket;
}

static void join(const struct job *j, void *socket, const char *kind, int rank, bool binds)
{
    char address[300];

    snprintf(address, sizeof address, "ipc://%s/%s%d", j->folder, kind, rank);
    if ((binds ? zmq_bind : zmq_connect)(socket, address) != 0)
        rivals_die("%s: %s", address, zmq_strerror(zmq_errno()));
}

static bool put(struct job *j, void *socket, const void *message)
{
    return zmq_send(socket, message, j->bytes, ZMQ_DONTWAIT) >= 0;
}

static bool get(struct job *j, void *socket, void *message)
{
    return zmq_recv(socket, message, j->bytes, ZMQ_DONTWAIT) >= 0;
}

/* Subscriptions take a while, of which nobody is told: until each has got something of each. */
static void warm_up(struct job *j, int publishers)
{
    unsigned char *message = rivals_memory(1, j->bytes);

    rivals_meet();
    for (int i = 0; i < 100; i++) {
        if (j->rank < publishers)
            put(j, out, message);
        zmq_poll(NULL, 0, 10);
        while (get(j, in, message))
            ;
    }
    rivals_meet();
    zmq_poll(NULL, 0, 100);
    while (get(j, in, message))
        ;
    rivals_meet();
}

static void open_sockets(struct job *j, int publishers)
{
    context = zmq_ctx_new();
    in = make(ZMQ_SUB);
    if (j->rank < publishers) {
        out = make(ZMQ_PUB);
        join(j, out, "pub", j->rank, true);
    }
    rivals_meet();
    for (int rank = 0; rank < publishers; rank++)
        if (rank != j->rank)
            join(j, in, "pub", rank, false);
}

static void open_pub(struct job *j)
{
    open_sockets(j, j->senders);
    warm_up(j, j->senders);
}

static bool send_pub(struct job *j)
{
    if (!put(j, out, j->message))
        return false;
    job_got(j, j->message);
    return true;
}

static bool receive_pub(struct job *j)
{
    static unsigned char message[1 << 20];

    if (!get(j, in, message))
        return false;
    job_got(j, message);
    return true;
}

static void close_sockets(struct job *j)
{
    (void)j;
    zmq_close(in);
    if (out != NULL)
        zmq_close(out);
    if (sequencer != NULL)
        zmq_close(sequencer);
    zmq_ctx_term(context);
    out = in = sequencer = NULL;
}

const struct way way_zmq = {
    .name = "zmq", .text = "ZeroMQ PUB from each sender to all; no order among senders",
    .open = open_pub, .send = send_pub, .receive = receive_pub, .close = close_sockets,
};

static void open_order(struct job *j)
{
    open_sockets(j, 1);
    sequencer = make(j->rank == 0 ? ZMQ_PULL : ZMQ_PUSH);
    join(j, sequencer, "seq", 0, j->rank == 0);
    warm_up(j, 1);
}

static bool send_order(struct job *j)
{
    if (j->rank == 0)
        return send_pub(j);
    return j->sent - j->got_own < j->slots && put(j, sequencer, j->message);
}

static bool receive_order(struct job *j)
{
    static unsigned char message[1 << 20];
    static bool holds;

    if (j->rank != 0)
        return receive_pub(j);
    holds = holds || get(j, sequencer, message);
    if (!holds || !put(j, out, message))
        return false;
    holds = false;
    job_got(j, message);
    return true;
}

const struct way way_zmq_order = {
    .name = "zmq-order", .text = "ZeroMQ PUSH to rank 0, which publishes to all", .ordered = true,
    .open = open_order, .send = send_order, .receive = receive_order, .close = close_sockets,
};
#endif

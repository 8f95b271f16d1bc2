/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TCP_SERVE_H
#define LOCI_TCP_SERVE_H

#include "tcp.h"

/* Under fabric->serving and shm's lock. */

/* A piece of a write, at frame->at; of one that merges whole words. */
void loci_tcp_serve_write(struct tcp_conn *c, const struct tcp_frame *frame, const void *data,
                          size_t len);
/* Any other request. An error ends the connection: it makes no sense. */
int loci_tcp_serve(struct tcp_conn *c, const struct tcp_frame *frame);
/* Writes that were gathered: before the lock is given back. */
void loci_tcp_serve_gathered(struct tcp_conn *c);
/* Under fabric->serving and the connection's lock: queue what is owed, as far as there is room. */
void loci_tcp_queue_answers(struct tcp_conn *c);
/* Under fabric->serving: the peer gets none any more. */
void loci_tcp_forget_owed(struct tcp_conn *c);

#endif

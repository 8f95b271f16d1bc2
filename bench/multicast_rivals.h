/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways of getting the messages of all ranks, or of rank 0, to all: what multicast_rivals runs.
 */
#ifndef BENCH_MULTICAST_RIVALS_H
#define BENCH_MULTICAST_RIVALS_H

#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job {
    int rank, size, senders;
    size_t bytes;               /* at least 8 */
    uint64_t slots;             /* messages of a sender that are under way, at most */
    const char *folder;         /* for sockets: the same at all ranks, and nobody else's */
    unsigned char *message;
    uint64_t sent, got, got_own;
    uint64_t order;             /* a hash of the senders of what came, in turn */
    uint64_t sum;
};

/* A message has come. Its first word is its sender's rank. */
static inline void job_got(struct job *j, const void *message)
{
    const unsigned char *bytes = message;
    uint64_t sender;

    __builtin_memcpy(&sender, bytes, sizeof sender);
    j->sum += sender + bytes[j->bytes - 1];
    j->order = (j->order ^ (sender + 1)) * UINT64_C(0x100000001b3);
    j->got++;
    j->got_own += sender == (uint64_t)j->rank;
}

struct way {
    const char *name, *text;
    bool ordered;               /* all ranks get the same order, which is looked at */
    bool one_thread;            /* a rank then keeps to a core of its own */
    void (*open)(struct job *j);
    bool (*send)(struct job *j);    /* one message; false: not now */
    bool (*receive)(struct job *j); /* whether anything came, or was done for others */
    void (*close)(struct job *j);
    void (*run)(struct job *j, uint64_t count);     /* or NULL: instead of the two */
};

extern const struct way way_floor, way_loco, way_mpi, way_bcast, way_zmq, way_zmq_order,
    way_iceoryx, way_cpg;

/* Ends the program. */
_Noreturn void rivals_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* All ranks have come here. */
void rivals_meet(void);
void *rivals_memory(size_t n, size_t bytes);

#endif

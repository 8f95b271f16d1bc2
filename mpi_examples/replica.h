/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of numbers that all processes of a view have a copy of. Messages change it: each copy
 * applies the same ones in the same order. A process that comes later is sent a copy. Now and then
 * a process asks all others whether their copies are what its own is.
 */
#ifndef MPI_EXAMPLES_REPLICA_H
#define MPI_EXAMPLES_REPLICA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/loco.h>

enum { REPLICA_MEMBERS = 64 };
enum replica_spoil { REPLICA_RIGHT, REPLICA_ORDER, REPLICA_LOST, REPLICA_DOUBLED, REPLICA_STATE };

enum replica_kind {
    REPLICA_SET,        /* key, value */
    REPLICA_ADD,        /* key, value: what is added */
    REPLICA_ASK,        /* value: how many messages its sender has sent before it. Each copy notes
                           what it is now */
    REPLICA_ANSWER,     /* key: after which message of its sender it asked; value: what its copy
                           was then */
    REPLICA_END,        /* its sender changes nothing any more */
};

struct replica_message {
    uint64_t kind, key, value;
};

/* What messages make, and what is sent to whoever comes. */
struct replica_state {
    _Atomic uint64_t applied;                   /* messages */
    uint64_t from[REPLICA_MEMBERS];             /* of these, by sender */
    uint64_t asked[REPLICA_MEMBERS];            /* from[], when that sender asked last, */
    uint64_t noted[REPLICA_MEMBERS];            /* and what the copy was then */
    _Atomic uint64_t ended;                     /* senders, as a set */
    uint64_t keys;
    _Atomic uint64_t value[];
};

struct replica {
    struct replica_state *state;
    size_t state_bytes;
    int rank;
    enum replica_spoil spoil;
    _Atomic uint64_t answers, wrong;
    int64_t copy_began, copy_took;              /* ns */
    _Atomic uint64_t members;                   /* of the present view, as a set; 0: it has ended */
    _Atomic uint64_t view;                      /* its number */
};

/* False: no memory. */
bool replica_open(struct replica *r, uint64_t keys, int members, uint64_t first, int rank,
                  enum replica_spoil spoil);
void replica_close(struct replica *r);

/* This process's copy, in any thread. */
static inline uint64_t replica_get(const struct replica *r, uint64_t key)
{
    return atomic_load_explicit(&r->state->value[key], memory_order_relaxed);
}

/* Callbacks of the view and of its multicast; `arg` is the replica. */
void replica_deliver(void *arg, const loco_delivery_t *messages, int n);
void replica_changed(void *arg, uint64_t number, const int *members, int n);
size_t replica_save(void *arg, uint64_t at, void *chunk, size_t room);
void replica_load(void *arg, uint64_t at, const void *chunk, size_t bytes);

#endif

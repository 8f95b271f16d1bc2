/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_WEAK_WORLD_H
#define TESTS_WEAK_WORLD_H

/* Shared by weak.c (members, their memory, running), weak_lanes.c (operations) and weak_control.c
 * (messages). One lock over the whole world keeps this simple: the runtimes' own code runs in
 * parallel, the fabric's does not. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "runtime.h"
#include "weak.h"

#define WEAK_MEMBERS 16
#define WEAK_EXTENTS 64
#define WEAK_IDENTITY UINT64_C(0x1000)

enum stage { POSTED, READ, SENT, TOLD };

struct pending {
    struct pending *next;
    struct loci_op op;
    enum stage stage;
    uint64_t due;               /* tick */
    unsigned char *target;
    unsigned char *data;        /* of a write, once its source was read */
    size_t placed;              /* bytes of it */
    uint64_t word;              /* a source given by value */
    bool refused;               /* its memory is not there */
};

struct weak_lane {
    struct weak_lane *next;
    struct loci_lane *lane;
    struct loci_fabric *from, *to;
    struct pending *first;
    bool swap_failed;           /* the last atomic that was executed was a swap, and did */
    bool refused;               /* the target's device has refused one: nothing behind it is done */
    bool lost;                  /* writes, by that */
};

/* An atomic that a member's device has begun. */
struct device {
    struct pending *atomic;     /* in stage READ, or NULL */
    uint64_t old;
};

struct letter {
    struct letter *next;
    int from;
    size_t len;
    unsigned char bytes[LOCI_CONTROL_MAX];
};

struct weak_world;

struct loci_fabric {            /* one member */
    struct weak_world *world;
    struct loco_runtime *rt;
    int rank;
    int event;                  /* letters have come */
    struct letter *letters, **last_letter;
    bool closed;                /* under the lock, as the letters are */
    struct { uint32_t number; unsigned char *base; size_t len; } extent[WEAK_EXTENTS];
    struct loci_peer *peer[WEAK_MEMBERS];
    struct device device;
    bool held[WEAK_MEMBERS];    /* what goes to these; under the lock */
    bool refused_later;         /* what has no memory is posted all the same; under the lock */
    _Atomic bool dead;
};

struct weak_world {
    pthread_mutex_t lock;
    pthread_barrier_t meet;
    int size;
    uint64_t random;
    uint64_t tick;
    struct weak_lane *lanes;
    const struct weak_faults *faults;   /* or NULL */
    int letters;                        /* sent */
    int64_t begun;                      /* when, by the system's clock */
    struct loci_fabric member[WEAK_MEMBERS];
    unsigned char gathered[WEAK_MEMBERS][256];
    pthread_mutex_t log_lock;
    char *log;                  /* all lines */
    size_t log_len;
};

/* Chance, by the world's seed. Under the lock. */
uint64_t weak_draw(struct weak_world *world);

/* ---- weak_lanes.c ---- */

int weak_lane_open(struct loci_fabric *f, struct loci_lane *lane);
void weak_lane_close(struct loci_fabric *f, struct loci_lane *lane);
int weak_lane_mend(struct loci_fabric *f, struct loci_lane *lane);
int weak_post(struct loci_fabric *f, struct loci_lane *lane, struct loci_op *ops, int n,
              int *posted);
int weak_poll(struct loci_fabric *f, struct loci_lane *lane);

/* A waiter idles: a random lane or two move on. */
void weak_tick(struct weak_world *world);

/* The second half of the atomic that this device has begun; the first is as long ago as chance
 * would have it. Under the lock. */
void weak_finish_atomic(struct device *device);

/* Takes an operation's memory back. What the device has begun it ends, whatever becomes of the
 * poster (and of its variables). Under the lock: the device is the target's. */
void weak_drop(struct weak_lane *lane, struct pending *p);

/* ---- weak_control.c ---- */

int weak_control_send(struct loci_fabric *f, struct loci_peer *peer, const void *message,
                      size_t len);
/* The service thread's: `ctx` is the member that letters have come for. */
void weak_on_letters(struct loco_runtime *rt, void *ctx, int fd, uint32_t events);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SIM_COST_H
#define LOCI_SIM_COST_H

#include <stdbool.h>
#include <stdint.h>

/* A device keeps the state of `kept` outstanding requests and fetches that of others again: one
 * that it sends takes `ps` more for each that is outstanding beyond that, `most_ps` at most. */
struct loci_sim_misses {
    int64_t kept, ps, most_ps;
};

/* What things take, in nanoseconds unless it says otherwise, for LOCI_SIM_TIMED. Profiles and the
 * sources of their numbers: cost.c. What becomes of them: timed.c. What is left out:
 * docs/loco-sim-model.md. */
struct loci_sim_cost {
    const char *name, *about;

    /* The CPU. */
    int64_t step;               /* an access to memory, mostly in the first-level cache */
    int64_t post;               /* one operation is written into its queue; with `ring` 0, its
                                 * doorbell is rung, too */
    int64_t ring;               /* a chain's doorbell is rung, in a register of the thread's own */
    int64_t ring_shared;        /* the same in one that several threads share, in turn; */
    int64_t ring_each;          /* and so much more for each of these threads */
    int64_t poll;               /* one completion is taken from its queue */

    /* From the CPU to its device, and back. */
    int64_t doorbell;           /* from the doorbell until the device has the operation */
    int64_t fetch;              /* a device reads memory through PCIe: there and back */
    int64_t place;              /* from the target's device into its memory, visible */
    int64_t complete;           /* from the acknowledgement's arrival into the completion queue */
    int64_t inline_max;         /* bytes that come with the doorbell; more are fetched */

    /* The device. Each of these is a queue: an operation waits until those before it are
     * through. */
    int64_t device;             /* operations sent by a device, one each so often; */
    int64_t device_write;       /* writes */
    int64_t device_in;          /* operations served by a device, the same */
    int64_t queue_pair;         /* operations of one queue pair, the same */
    int64_t atomic;             /* atomics served by a device, one after the other */

    int room;                   /* requests that a queue pair takes */
    struct loci_sim_misses read_misses, write_misses;   /* of `device`, by what is outstanding */

    /* The network. A byte takes its time at the sender, and at the receiver where several senders
     * meet. */
    int64_t byte_ps;            /* picoseconds per byte on the wire */
    int64_t header;             /* bytes on the wire besides the payload, for each packet */
    int64_t mtu;                /* payload bytes of a packet at most */
    int64_t wire;               /* one way: both ports, cables, one switch */
    int64_t loopback;           /* one way, where the target is this process */
    int64_t message;            /* a control message until it is handled, one way */
};

/* What it takes until operations can be, in nanoseconds. */
struct loci_sim_setup {
    const char *name, *about;
    int64_t context;            /* a process opens its device; */
    int64_t context_device;     /* those of one device wait for each other for so much of it */
    int64_t pair;               /* a connection, where nobody else makes one; */
    int64_t pair_device;        /* at each end its queue pair takes the device for so long, one
                                 * after the other, both ends at once; */
    int64_t handshake;          /* and they speak to each other: there and back */
    int64_t memory, memory_ps;  /* memory is registered: each time; picoseconds for each byte */
    int64_t handle;             /* a control message, by the service thread, one at a time */
    int64_t call;               /* a system call: a message is sent, memory of another process is
                                 * mapped, somebody who sleeps is woken */
    int64_t wake;               /* until that one runs */
};

/* The same; there is no default. */
extern const struct loci_sim_setup loci_sim_setups[];
const struct loci_sim_setup *loci_sim_setup_named(const char *name);

/* Ended by one without a name. The first is the default. */
extern const struct loci_sim_cost loci_sim_costs[];
const struct loci_sim_cost *loci_sim_cost_named(const char *name);

/* Time on the wire of a message with so many bytes of payload. */
int64_t loci_sim_cost_wire(const struct loci_sim_cost *cost, uint64_t payload);
/* What a request sent takes its device in picoseconds, with so many outstanding, this one among
 * them. */
int64_t loci_sim_cost_device_ps(const struct loci_sim_cost *cost, bool write, int64_t outstanding);
/* What a ring of a register takes that so many threads use. */
int64_t loci_sim_cost_ring(const struct loci_sim_cost *cost, int threads);
/* An operation on an idle network, from its post until its completion is taken: what the times
 * above come to. */
int64_t loci_sim_cost_write(const struct loci_sim_cost *cost, uint64_t len);
int64_t loci_sim_cost_read(const struct loci_sim_cost *cost, uint64_t len);
int64_t loci_sim_cost_atomic(const struct loci_sim_cost *cost);

#endif

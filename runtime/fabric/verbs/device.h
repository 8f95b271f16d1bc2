/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_DEVICE_H
#define LOCI_VERBS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

struct loci_tunables;

/* The ports of this machine's RDMA devices, and which of them a process takes. Nothing is assumed:
 * all is asked of the device. Works, and says why there is nothing, in builds without rdma-core. */

#define LOCI_DEVICE_NAME 64
#define LOCI_DEVICES_MAX 64
#define LOCI_GID_TEXT 48
#define LOCI_NODES_TEXT 32
#define LOCI_DISTANCE_UNKNOWN (~0u)

/* What a process has outstanding over soft-RoCE with LOCO_RDMA_OUTSTANDING_BYTES=auto: a packet
 * goes through a queue of the kernel, which drops what comes beyond 1000 of them
 * (net.core.netdev_max_backlog). */
#define LOCI_SOFT_BYTES ((uint64_t)1 << 20)

struct loci_device_port {
    char device[LOCI_DEVICE_NAME];
    int port;
    char why_not[128];              /* why it is not chosen; empty: it is */
    bool usable;                    /* it could be, and why_not is about one that is better */
    bool chosen;
    char why[128];                  /* it is chosen */
    bool ethernet;                  /* RoCE, else InfiniBand */
    char gid[LOCI_GID_TEXT];        /* as an address; empty: none */
    int gid_index;
    const char *gid_kind;           /* "RoCE v2, IPv4" */
    int gid_rank;                   /* the higher the better */
    unsigned rate;                  /* Mb/s; 0: unknown */
    unsigned distance;              /* from this process (near.h) */
    char nodes[LOCI_NODES_TEXT];    /* NUMA nodes that it is at, "0-1"; empty: unknown */
    unsigned mtu;                   /* bytes */
    unsigned lid;
    unsigned pkey_index, pkey;      /* of the partition: place in the port's table, and key */
    uint8_t service_level, traffic_class;       /* LOCO_RDMA_... */
    uint64_t max_message;           /* bytes */
    int atomics;                    /* 0 none, 1 among the device's own, 2 with the CPU's, too */
    int read_depth;                 /* reads and atomics in flight that a queue pair answers, */
    int ask_depth;                  /* and that it asks for */
    int max_queue_pairs;
    int max_requests;               /* per queue pair */
    uint64_t device_memory;         /* bytes */
    bool thread_domains;
    bool loses_answers;             /* soft-RoCE: see post.c */
};

/* Fill in at most `max` ports, usable or not, and mark the one that LOCO_DEVICE means for this
 * process, whose turn it is (choose.h). Where several can be meant, it is measured how near they
 * are. Returns how many; *why: a static text where there are none. */
int loci_devices_list(struct loci_device_port *list, int max, const struct loci_tunables *wanted,
                      unsigned turn, const char **why);

/* Whether there is one for the process of turn 0: the same answer for all of a node. */
bool loci_devices_usable(const struct loci_tunables *wanted);

/* How many thread domains that device gives out to one process: `most` at most, all of which it is
 * asked for. */
int loci_device_domains(const char *device, int most);

/* A GID as an address. */
void loci_gid_text(const unsigned char gid[16], char text[LOCI_GID_TEXT]);

#endif

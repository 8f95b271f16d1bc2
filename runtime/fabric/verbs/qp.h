/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_QP_H
#define LOCI_VERBS_QP_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "device.h"

/* A device by its name, and the states of a queue pair: what needs nothing of the runtime. The
 * fabric and loco-perf's raw side both use it, so that they are set up alike. */

/* How to reach a queue pair, and what its device does. */
struct loci_qp_place {
    unsigned char gid[16];
    uint32_t qpn, psn;
    uint16_t lid;
    uint8_t mtu;                /* enum ibv_mtu */
    uint8_t ethernet;
    uint32_t read_depth;        /* that it answers */
};

/* NULL: there is none of that name, or errno says why not. */
struct ibv_context *loci_device_open(const char *name);

void loci_qp_fill_place(const struct loci_device_port *port, const union ibv_gid *gid,
                        uint32_t qpn, uint32_t psn, struct loci_qp_place *place);

/* To the next state: 0, or an error number. `psn` is what fill_place was given of this side. */
int loci_qp_to_init(struct ibv_qp *qp, const struct loci_device_port *port, unsigned access);
int loci_qp_to_receive(struct ibv_qp *qp, const struct loci_device_port *port,
                       const struct loci_qp_place *to);
/* The same, asked once for the address: on Ethernet the kernel asks the network who has it, and
 * waits a second for the answer. ETIMEDOUT: there was none; to be tried LOCI_QP_ASKED times. */
int loci_qp_try_to_receive(struct ibv_qp *qp, const struct loci_device_port *port,
                           const struct loci_qp_place *to);
#define LOCI_QP_ASKED 6         /* where packets are lost, one question is not enough */
int loci_qp_to_send(struct ibv_qp *qp, const struct loci_device_port *port, uint32_t psn,
                    const struct loci_qp_place *to, int64_t timeout_ns);
/* 4.096 us times a power of two, as the standard has it: at least what was asked for. */
uint8_t loci_qp_timeout(int64_t timeout_ns);

#endif

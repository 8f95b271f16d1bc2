/* SPDX-License-Identifier: BSD-3-Clause */

/* See qp.h. */

#include "config.h"

#include <errno.h>
#include <string.h>

#include "qp.h"

#define RETRIES 6               /* the most: 7 is for ever on soft-RoCE, for rnr_retry everywhere */

struct ibv_context *loci_device_open(const char *name)
{
    struct ibv_device **all = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;

    for (int i = 0; all != NULL && all[i] != NULL; i++)
        if (context == NULL && strcmp(ibv_get_device_name(all[i]), name) == 0)
            context = ibv_open_device(all[i]);
    if (all != NULL)
        ibv_free_device_list(all);
    return context;
}

static enum ibv_mtu own_mtu(const struct loci_device_port *port)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && (256u << (mtu - IBV_MTU_256)) < port->mtu)
        mtu++;
    return mtu;
}

void loci_qp_fill_place(const struct loci_device_port *port, const union ibv_gid *gid,
                        uint32_t qpn, uint32_t psn, struct loci_qp_place *place)
{
    memset(place, 0, sizeof *place);
    memcpy(place->gid, gid->raw, sizeof place->gid);
    place->qpn = qpn;
    place->psn = psn;
    place->lid = (uint16_t)port->lid;
    place->mtu = (uint8_t)own_mtu(port);
    place->ethernet = port->ethernet;
    place->read_depth = (uint32_t)port->read_depth;
}

int loci_qp_to_init(struct ibv_qp *qp, const struct loci_device_port *port, unsigned access)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = (uint8_t)port->port,
        .pkey_index = (uint16_t)port->pkey_index, .qp_access_flags = access,
    };

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT
                                    | IBV_QP_ACCESS_FLAGS);
}

int loci_qp_try_to_receive(struct ibv_qp *qp, const struct loci_device_port *port,
                           const struct loci_qp_place *to)
{
    const int what = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                     | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = to->mtu < own_mtu(port) ? (enum ibv_mtu)to->mtu : own_mtu(port),
        .dest_qp_num = to->qpn, .rq_psn = to->psn,
        .max_dest_rd_atomic = (uint8_t)(port->read_depth > 255 ? 255 : port->read_depth),
        .min_rnr_timer = 12,
        .ah_attr = { .dlid = to->lid, .sl = port->service_level, .port_num = (uint8_t)port->port },
    };

    if (port->ethernet || to->lid == 0) {
        attr.ah_attr.is_global = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, to->gid, sizeof to->gid);
        attr.ah_attr.grh.sgid_index = (uint8_t)port->gid_index;
        attr.ah_attr.grh.hop_limit = 64;
        attr.ah_attr.grh.traffic_class = port->traffic_class;
    }
    return ibv_modify_qp(qp, &attr, what);
}

int loci_qp_to_receive(struct ibv_qp *qp, const struct loci_device_port *port,
                       const struct loci_qp_place *to)
{
    int error = ETIMEDOUT;

    for (int i = 0; i < LOCI_QP_ASKED && error == ETIMEDOUT; i++)
        error = loci_qp_try_to_receive(qp, port, to);
    return error;
}

uint8_t loci_qp_timeout(int64_t timeout_ns)
{
    uint8_t code = 1;

    while (code < 31 && (INT64_C(4096) << code) < timeout_ns)
        code++;
    return code;
}

int loci_qp_to_send(struct ibv_qp *qp, const struct loci_device_port *port, uint32_t psn,
                    const struct loci_qp_place *to, int64_t timeout_ns)
{
    uint32_t depth = (uint32_t)port->ask_depth;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = loci_qp_timeout(timeout_ns),
        .retry_cnt = RETRIES, .rnr_retry = RETRIES,
    };

    depth = to->read_depth < depth ? to->read_depth : depth;
    attr.max_rd_atomic = (uint8_t)(depth > 255 ? 255 : depth);
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT
                                    | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                                    | IBV_QP_MAX_QP_RD_ATOMIC);
}

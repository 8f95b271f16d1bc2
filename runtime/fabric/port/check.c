/* SPDX-License-Identifier: BSD-3-Clause */

/* What a client may have posted: see port.h. The request is a copy; nothing of it was believed
 * before. */

#include "config.h"

#include "ports.h"

static unsigned needs(enum loci_op_kind kind)
{
    switch (kind) {
    case LOCI_WRITE: return LOCI_PORT_MAY_WRITE;
    case LOCI_READ: return LOCI_PORT_MAY_READ;
    case LOCI_PLACE: return 0;
    default: return LOCI_PORT_MAY_ATOMIC;
    }
}

/* That [at, at + len) is in [base, base + room), of numbers that may be any. */
static bool is_inside(uint64_t at, uint64_t len, uint64_t base, uint64_t room)
{
    return at >= base && len <= room && at - base <= room - len;
}

static int check_bytes(const struct loci_ports *ports, const struct loci_port_request *r)
{
    if (r->len == 0)
        return LOCO_ERR_ARG;
    if (r->arena == LOCI_PORT_NO_ARENA)
        return r->kind == LOCI_WRITE && r->len <= sizeof r->operand ? LOCO_OK : LOCO_ERR_ARG;
    return is_inside(r->arena, r->len, 0, ports->shape.arena) ? LOCO_OK : LOCO_ERR_RANGE;
}

static int check_word(const struct port_grant *g, const struct loci_port_request *r)
{
    if (r->len != sizeof(uint64_t))
        return LOCO_ERR_ARG;
    return (g->mem.key.base + r->offset) % sizeof(uint64_t) == 0 ? LOCO_OK : LOCO_ERR_ARG;
}

static int check_grant(struct port_client *c, const struct loci_port_request *r,
                       struct port_grant **grant)
{
    struct port_grant *g;

    if (port_grant_place(r->grant) >= c->grants)
        return LOCO_ERR_RANGE;
    g = &c->grant[port_grant_place(r->grant)];
    *grant = g;
    if (g->lost)
        return LOCO_ERR_PEER_DEAD;
    if (port_grant_turn(r->grant) != g->turn)
        return port_grant_turn(r->grant) < g->turn ? LOCO_ERR_STATE : LOCO_ERR_RANGE;
    return g->target == NULL ? LOCO_ERR_RANGE : g->may == 0 ? LOCO_ERR_STATE : LOCO_OK;
}

static int check_range(const struct loci_ports *ports, const struct port_grant *g,
                       const struct loci_port_request *r)
{
    int status;

    if ((needs((enum loci_op_kind)r->kind) & ~g->may) != 0)
        return LOCO_ERR_UNSUPPORTED;
    status = r->kind < LOCI_FETCH_ADD ? check_bytes(ports, r) : check_word(g, r);
    if (status != LOCO_OK)
        return status;
    return is_inside(r->offset, r->len, g->base, g->len) ? LOCO_OK : LOCO_ERR_RANGE;
}

int loci_port_check(const struct loci_ports *ports, struct port *port,
                    const struct loci_port_request *r, struct loci_op *op,
                    struct port_grant **grant)
{
    struct port_grant *g = NULL;
    int status;

    if (r->kind > LOCI_PLACE)
        return LOCO_ERR_ARG;
    status = check_grant(port->client, r, &g);
    if (status == LOCO_OK && r->kind != LOCI_PLACE)
        status = check_range(ports, g, r);
    if (status != LOCO_OK)
        return status;
    *grant = g;
    *op = (struct loci_op){ .kind = (enum loci_op_kind)r->kind };
    if (r->kind == LOCI_PLACE)
        return LOCO_OK;
    op->mem = &g->mem;
    op->offset = r->offset;
    op->len = r->len;
    op->operand = r->operand;
    op->compare = r->compare;
    op->by_value = r->arena == LOCI_PORT_NO_ARENA;
    if (!op->by_value && r->kind < LOCI_FETCH_ADD)
        op->local = port->at.arena + r->arena;
    return LOCO_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages from peers: checked here, acted on in endpoint.c. */

#include "config.h"

#include <string.h>

#include "control.h"
#include "service.h"

/* A text that ends inside its field and is not empty. */
static bool is_text(const char *field, size_t len)
{
    return field[0] != '\0' && memchr(field, '\0', len) != NULL;
}

static const char *head_error(const struct loci_control *m, size_t len)
{
    if (m->magic != LOCI_CONTROL_MAGIC)
        return "not a control message";
    if (m->version != LOCI_CONTROL_VERSION)
        return "version of another release";
    if (m->type < LOCI_CONTROL_JOIN || m->type > LOCI_CONTROL_REJECT)
        return "unknown type";
    if (m->nregions > LOCI_REGIONS_MAX || m->len != len || len != loci_control_len(m->nregions))
        return "wrong length";
    if (m->size < 1 || m->size > LOCI_MAX_PEERS || m->rank < 0 || (uint32_t)m->rank >= m->size)
        return "rank outside the group";
    if (m->from == 0 || (m->type == LOCI_CONTROL_JOIN) != (m->to == 0))
        return "no endpoint number";
    if (!is_text(m->name, sizeof m->name))
        return "bad name";
    return NULL;
}

static const char *region_error(const struct loci_control *m, const struct loci_control_region *r)
{
    if (!is_text(r->name, sizeof r->name))
        return "bad region name";
    if (r->from < LOCI_FROM_ALL || r->from >= (int32_t)m->size)
        return "region from outside the group";
    return NULL;
}

int loci_control_parse(const void *message, size_t len, struct loci_control *out,
                       const char **why)
{
    struct loci_control m;

    memset(&m, 0, sizeof m);
    if (len < loci_control_len(0) || len > sizeof m) {
        *why = "wrong length";
        return LOCO_ERR_PROTOCOL;
    }
    memcpy(&m, message, len);
    *why = head_error(&m, len);
    for (unsigned i = 0; *why == NULL && i < m.nregions; i++)
        *why = region_error(&m, &m.region[i]);
    if (*why != NULL)
        return LOCO_ERR_PROTOCOL;
    *out = m;
    return LOCO_OK;
}

void loci_control_receive(struct loco_runtime *rt, int peer, const void *message, size_t len)
{
    struct loci_control m;
    const char *why;

    if (loci_control_parse(message, len, &m, &why) != LOCO_OK) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "control message of %zu bytes from process %llx dropped: %s",
                 len, (unsigned long long)loci_peer(rt, peer)->address.identity, why);
        return;
    }
    loci_names_receive(rt, peer, &m);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages: what they say. Those from peers are checked here, and acted on in
 * endpoint_join.c. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "names.h"
#include "service.h"
#include "wait.h"

/* ---- what arrives ---- */

/* FNV-1a, whose every step is one-to-one in what was before: one byte changed is always seen. */
static uint64_t checksum_of(const struct loci_control *m)
{
    struct loci_control copy = *m;
    const unsigned char *bytes = (const unsigned char *)&copy;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    copy.checksum = 0;
    for (size_t i = 0; i < m->len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void loci_control_seal(struct loci_control *m)
{
    m->checksum = checksum_of(m);
}

/* A text that ends inside its field and is not empty. */
static bool is_text(const char *field, size_t len)
{
    return field[0] != '\0' && memchr(field, '\0', len) != NULL;
}

static bool is_join(unsigned type)
{
    return type == LOCI_CONTROL_JOIN || type == LOCI_CONTROL_SEEK;
}

static const char *head_error(const struct loci_control *m, size_t len)
{
    if (m->magic != LOCI_CONTROL_MAGIC)
        return "not a control message";
    if (m->version != LOCI_CONTROL_VERSION)
        return "version of another release";
    if (m->type < LOCI_CONTROL_JOIN || m->type > LOCI_CONTROL_SIMILAR)
        return "unknown type";
    if (m->nregions > LOCI_REGIONS_MAX || m->len != len || len != loci_control_len(m->nregions))
        return "wrong length";
    if (m->checksum != checksum_of(m))
        return "wrong checksum";
    if (m->size < 1 || m->size > LOCI_MAX_PEERS || m->rank < 0 || (uint32_t)m->rank >= m->size)
        return "rank outside the group";
    if (m->from == 0 || (m->to == 0 && !is_join(m->type)))
        return "no endpoint number";
    if (!is_text(m->name, sizeof m->name))
        return "bad name";
    if (memchr(m->channel, '\0', sizeof m->channel) == NULL)
        return "bad type of channel";
    return NULL;
}

/* A sender gives the key of each region that it provides, where it fits, and no other. */
static const char *key_error(const struct loci_control *m, const struct loci_control_region *r)
{
    const struct loci_memkey *key = &r->key, none = { .kind = LOCI_MEM_NONE };
    bool given = loci_control_has_keys(m->type)
                 && (r->from == LOCI_FROM_ALL || r->from == m->rank
                     || (r->from == LOCI_FROM_SOME && key->kind != LOCI_MEM_NONE));

    if (!given)
        return memcmp(key, &none, sizeof none) == 0 ? NULL : "key of a region not provided";
    if (key->kind != LOCI_MEM_POOL && key->kind != LOCI_MEM_DEVICE)
        return "no key of a region provided";
    if (key->len < r->len || key->len > SIZE_MAX / 2 || key->base > SIZE_MAX / 2)
        return "key of another range";
    return NULL;
}

static const char *region_error(const struct loci_control *m, const struct loci_control_region *r)
{
    if (!is_text(r->name, sizeof r->name))
        return "bad region name";
    if (r->from < LOCI_FROM_SOME || r->from >= (int32_t)m->size)
        return "region from outside the group";
    return key_error(m, r);
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

/* The number is told as that of an endpoint, which is not 0. */
static void rung(struct loco_runtime *rt, const struct loci_control *m)
{
    uint32_t number = (uint32_t)(m->to - 1);

    if (number != 0) {
        loci_ring_poller(rt, rt->bells, number);
        return;
    }
    loci_ring_self(rt);
    loci_inbox_serve(rt);
}

void loci_control_receive(struct loco_runtime *rt, int peer, const void *message, size_t len)
{
    struct loci_control m;
    const char *why;
    uint64_t number;

    if (loci_control_parse(message, len, &m, &why) != LOCO_OK) {
        if ((number = loci_log_seldom(&rt->dropped, loci_now(rt))) > 0)
            LOCI_LOG(rt, LOCO_LOG_ERROR, "control message of %zu bytes from process %llx dropped: "
                     "%s (number %llu since the last such line)", len,
                     (unsigned long long)loci_peer(rt, peer)->address.identity, why,
                     (unsigned long long)number);
        return;
    }
    if (m.type == LOCI_CONTROL_RING)
        rung(rt, &m);
    else
        loci_names_receive(rt, peer, &m);
}

/* ---- what we say ---- */

void loci_control_describe(const struct loci_entry *e, enum loci_control_type type, uint64_t to,
                           struct loci_control *m)
{
    const struct loci_endpoint *ep = &e->ep;

    memset(m, 0, sizeof *m);
    m->magic = LOCI_CONTROL_MAGIC;
    m->version = LOCI_CONTROL_VERSION;
    m->type = (uint16_t)type;
    m->nregions = (uint32_t)ep->spec.nregions;
    m->len = (uint32_t)loci_control_len(m->nregions);
    m->rank = ep->group.rank;
    m->from = e->number;
    m->to = to;
    snprintf(m->channel, sizeof m->channel, "%s", ep->spec.type);
    for (int i = 0; i < LOCI_PROPERTIES_MAX; i++)
        m->property[i] = ep->spec.property[i].value;
    m->members = e->members;
    m->size = (uint32_t)ep->group.size;
    memcpy(m->name, ep->name, sizeof m->name);
    for (int i = 0; i < ep->spec.nregions; i++) {
        struct loci_control_region *r = &m->region[i];

        memcpy(r->name, e->region_name[i], sizeof r->name);
        r->len = ep->spec.region[i].len;
        r->from = ep->spec.region[i].from;
        if (loci_control_has_keys(type))
            r->key = ep->mem[ep->group.rank * ep->spec.nregions + i].key;
    }
}

void loci_control_gone(const struct loci_control *asked, struct loci_control *m)
{
    memset(m, 0, sizeof *m);
    m->magic = LOCI_CONTROL_MAGIC;
    m->version = LOCI_CONTROL_VERSION;
    m->type = loci_control_has_keys(asked->type) ? LOCI_CONTROL_LEAVE : LOCI_CONTROL_GONE;
    m->len = (uint32_t)loci_control_len(0);
    m->rank = asked->rank;
    m->from = asked->to;
    m->to = asked->from;
    m->size = asked->size;
    memcpy(m->name, asked->name, sizeof m->name);
}

int loci_control_ring(struct loco_runtime *rt, int peer, uint32_t number)
{
    struct loci_control m;

    memset(&m, 0, sizeof m);
    m.magic = LOCI_CONTROL_MAGIC;
    m.version = LOCI_CONTROL_VERSION;
    m.type = LOCI_CONTROL_RING;
    m.len = (uint32_t)loci_control_len(0);
    /* Of no endpoint: what the check of all messages wants. */
    m.size = 1;
    m.from = 1;
    m.to = UINT64_C(1) + number;
    memcpy(m.name, "bell", sizeof "bell");
    loci_control_seal(&m);
    return rt->ops->control_send(rt->fabric, loci_peer(rt, peer), &m, m.len);
}

/* ---- do two endpoints fit? ---- */

static bool region_differs(const struct loci_entry *e, const struct loci_control *m, int i,
                           char *text, size_t len)
{
    const struct loci_region_spec *mine = &e->ep.spec.region[i];
    const struct loci_control_region *theirs = &m->region[i];
    int here = e->ep.group.rank;

    if (strcmp(e->region_name[i], theirs->name) != 0)
        snprintf(text, len, "region %d is %s.%s at rank %d (here) and %s.%s at rank %d", i,
                 e->ep.name, e->region_name[i], here, e->ep.name, theirs->name, m->rank);
    else if (mine->len != theirs->len)
        snprintf(text, len, "region %s.%s has %zu bytes at rank %d (here) and %llu bytes at "
                 "rank %d", e->ep.name, theirs->name, mine->len, here,
                 (unsigned long long)theirs->len, m->rank);
    else if (mine->from != theirs->from)
        snprintf(text, len, "region %s.%s comes from rank %d at rank %d (here) and from rank %d "
                 "at rank %d (-1: all, -2: some)", e->ep.name, theirs->name, mine->from, here,
                 theirs->from, m->rank);
    else
        return false;
    return true;
}

static bool property_fits(const struct loci_endpoint_spec *spec, int i, uint64_t theirs)
{
    uint64_t mine = spec->property[i].value;

    return spec->look[i].fits != NULL ? spec->look[i].fits(mine, theirs) : mine == theirs;
}

static void say_property(const struct loci_endpoint_spec *spec, int i, uint64_t theirs, int here,
                         int there, char *text, size_t len)
{
    const struct loci_property *p = &spec->property[i];
    const char *name = p->name != NULL ? p->name : "a property";
    const char *(*words)(uint64_t value) = spec->look[i].words;

    if (words != NULL)
        snprintf(text, len, "%s is %s at rank %d (here) and %s at rank %d", name,
                 words(p->value), here, words(theirs), there);
    else
        snprintf(text, len, "%s is %lld at rank %d (here) and %lld at rank %d", name,
                 (long long)p->value, here, (long long)theirs, there);
}

/* Of two channels of one type the properties have the same names. */
static bool channel_differs(const struct loci_entry *e, const struct loci_control *m, char *text,
                            size_t len)
{
    const struct loci_endpoint_spec *spec = &e->ep.spec;
    int here = e->ep.group.rank;

    if (strcmp(m->channel, spec->type) != 0) {
        snprintf(text, len, "its type is %s at rank %d (here) and %s at rank %d", spec->type, here,
                 m->channel, m->rank);
        return true;
    }
    for (int i = 0; i < LOCI_PROPERTIES_MAX; i++)
        if (!property_fits(spec, i, m->property[i])) {
            say_property(spec, i, m->property[i], here, m->rank, text, len);
            return true;
        }
    return false;
}

bool loci_control_differs(const struct loci_entry *e, int peer, const struct loci_control *m,
                          char *text, size_t len)
{
    const struct loci_endpoint *ep = &e->ep;
    int here = ep->group.rank;

    if (m->size != (uint32_t)ep->group.size)
        snprintf(text, len, "the group has %d members at rank %d (here) and %u at rank %d",
                 ep->group.size, here, m->size, m->rank);
    else if (m->members != e->members || loci_group_peer(&ep->group, m->rank) != peer)
        snprintf(text, len, "the group has other members, or another order, at rank %d (here) "
                 "than at rank %d", here, m->rank);
    else if (channel_differs(e, m, text, len))
        return true;
    else if (m->nregions != (uint32_t)ep->spec.nregions)
        snprintf(text, len, "%d regions at rank %d (here) and %u at rank %d", ep->spec.nregions,
                 here, m->nregions, m->rank);
    else {
        for (int i = 0; i < ep->spec.nregions; i++)
            if (region_differs(e, m, i, text, len))
                return true;
        return false;
    }
    return true;
}

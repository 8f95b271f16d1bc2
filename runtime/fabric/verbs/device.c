/* SPDX-License-Identifier: BSD-3-Clause */

/* Which devices there are, and what they can do. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#ifdef LOCO_HAVE_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>

#include "choose.h"
#include "near.h"
#include "observe/tunables.h"
#include "qp.h"

#define GIDS 1024               /* of all ports; NVIDIA's have 256 each */
#define SOFT_ROCE 0xffffff      /* its vendor */
#define FULL_MEMBER 0x8000      /* bit of a partition's key */

/* ---- what a port can do ---- */

static bool is_ipv4(const unsigned char *gid)
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

    return memcmp(gid, mapped, sizeof mapped) == 0;
}

void loci_gid_text(const unsigned char gid[16], char text[LOCI_GID_TEXT])
{
    if (is_ipv4(gid))
        inet_ntop(AF_INET, gid + 12, text, LOCI_GID_TEXT);
    else
        inet_ntop(AF_INET6, gid, text, LOCI_GID_TEXT);
}

static bool is_link_local(const union ibv_gid *gid)
{
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* RoCE v2 is routed, and IPv4 addresses are those that administrators set up; the first entry of
 * InfiniBand is the port's own. */
static int rank_gid(const struct ibv_gid_entry *e, const char **kind)
{
    if (e->gid_type == IBV_GID_TYPE_IB) {
        *kind = "InfiniBand";
        return e->gid_index == 0 ? 5 : 1;
    }
    if (e->gid_type == IBV_GID_TYPE_ROCE_V1) {
        *kind = "RoCE v1";
        return 1;
    }
    *kind = is_ipv4(e->gid.raw) ? "RoCE v2, IPv4" : "RoCE v2, IPv6";
    return is_ipv4(e->gid.raw) ? 4 : is_link_local(&e->gid) ? 2 : 3;
}

/* The best one, or the one that is wanted. */
static void find_gid(struct ibv_context *context, const struct loci_tunables *wanted,
                     struct loci_device_port *p)
{
    struct ibv_gid_entry entry[GIDS];
    ssize_t n = ibv_query_gid_table(context, entry, GIDS, 0);

    for (ssize_t i = 0; i < n; i++) {
        const char *kind;
        int rank;

        if ((int)entry[i].port_num != p->port
            || (wanted->rdma_gid != LOCI_AUTO && entry[i].gid_index != wanted->rdma_gid))
            continue;
        rank = rank_gid(&entry[i], &kind);
        if (rank <= p->gid_rank)
            continue;
        p->gid_rank = rank;
        p->gid_kind = kind;
        p->gid_index = (int)entry[i].gid_index;
        loci_gid_text(entry[i].gid.raw, p->gid);
    }
}

/* Whether the key at that place is the one that is wanted. */
static bool is_partition(uint16_t key, int64_t wanted)
{
    if (wanted == LOCI_AUTO)
        return (key & FULL_MEMBER) != 0;
    return key != 0 && ((key ^ (uint16_t)wanted) & ~FULL_MEMBER) == 0;
}

/* Of several entries of one partition that of a full member, for two limited ones do not hear each
 * other. RoCE has one partition. False: the port is not in it. */
static bool find_partition(struct ibv_context *context, int entries, int64_t wanted,
                           struct loci_device_port *p)
{
    bool found = false;
    __be16 key;

    for (int i = 0; i < entries; i++) {
        if (ibv_query_pkey(context, (uint8_t)p->port, i, &key) != 0
            || !is_partition(be16toh(key), wanted))
            continue;
        if (!found || (be16toh(key) & FULL_MEMBER) != 0) {
            p->pkey_index = (unsigned)i;
            p->pkey = be16toh(key);
        }
        found = true;
        if ((be16toh(key) & FULL_MEMBER) != 0)
            break;
    }
    return found || wanted == LOCI_AUTO;
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* In Mb/s, of the specification's codes; 0: of none that was known here. */
static unsigned rate(const struct ibv_port_attr *attr)
{
    static const unsigned speed[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000 };
    static const unsigned width[] = { 1, 4, 8, 12, 2 };
    unsigned s = 0, w = 0;

    while (s < sizeof speed / sizeof speed[0] && attr->active_speed != 1u << s)
        s++;
    while (w < sizeof width / sizeof width[0] && attr->active_width != 1u << w)
        w++;
    if (s == sizeof speed / sizeof speed[0] || w == sizeof width / sizeof width[0])
        return 0;
    return speed[s] * width[w];
}

/* What the device says of itself; the first thing that makes it useless here stays in why_not. */
static void describe_device(struct ibv_context *context, struct loci_device_port *p)
{
    struct ibv_device_attr_ex attr;
    struct ibv_td_init_attr none = { 0 };
    struct ibv_td *td;

    memset(&attr, 0, sizeof attr);
    if (ibv_query_device_ex(context, NULL, &attr) != 0) {
        snprintf(p->why_not, sizeof p->why_not, "it cannot be queried: %s", strerror(errno));
        return;
    }
    p->atomics = attr.orig_attr.atomic_cap == IBV_ATOMIC_GLOB ? 2
                 : attr.orig_attr.atomic_cap == IBV_ATOMIC_HCA ? 1 : 0;
    p->read_depth = attr.orig_attr.max_qp_rd_atom;
    p->ask_depth = attr.orig_attr.max_qp_init_rd_atom;
    p->loses_answers = attr.orig_attr.vendor_id == SOFT_ROCE;
    p->max_queue_pairs = attr.orig_attr.max_qp;
    p->max_requests = attr.orig_attr.max_qp_wr;
    p->device_memory = attr.max_dm_size;
    td = ibv_alloc_td(context, &none);
    p->thread_domains = td != NULL;
    if (td != NULL)
        ibv_dealloc_td(td);
    if (p->atomics == 0)
        snprintf(p->why_not, sizeof p->why_not, "it has no atomics");
}

static void describe_port(struct ibv_context *context, const struct loci_tunables *wanted,
                          struct loci_device_port *p)
{
    struct ibv_port_attr attr;
    bool is_member;

    if (ibv_query_port(context, (uint8_t)p->port, &attr) != 0) {
        snprintf(p->why_not, sizeof p->why_not, "the port cannot be queried: %s",
                 strerror(errno));
        return;
    }
    p->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    p->rate = rate(&attr);
    p->mtu = mtu_bytes(attr.active_mtu);
    p->lid = attr.lid;
    p->max_message = attr.max_msg_sz;
    p->service_level = (uint8_t)wanted->rdma_service_level;
    p->traffic_class = (uint8_t)wanted->rdma_traffic_class;
    find_gid(context, wanted, p);
    is_member = find_partition(context, attr.pkey_tbl_len, wanted->rdma_pkey, p);
    if (p->why_not[0] != '\0')
        return;
    if (attr.state != IBV_PORT_ACTIVE)
        snprintf(p->why_not, sizeof p->why_not, "its link is not up (%s)",
                 ibv_port_state_str(attr.state));
    else if (p->gid_rank == 0 && wanted->rdma_gid != LOCI_AUTO)
        snprintf(p->why_not, sizeof p->why_not, "it has no address (GID) with the index %lld "
                 "(LOCO_RDMA_GID)", (long long)wanted->rdma_gid);
    else if (!is_member)
        snprintf(p->why_not, sizeof p->why_not, "it is not in the partition 0x%llx "
                 "(LOCO_RDMA_PKEY)", (unsigned long long)wanted->rdma_pkey);
    else if (p->gid_rank == 0)
        snprintf(p->why_not, sizeof p->why_not, "it has no address (GID): give its network "
                 "interface one");
    else if (p->mtu == 0 || p->max_message == 0)
        snprintf(p->why_not, sizeof p->why_not, "it names no MTU");
    p->usable = p->why_not[0] == '\0';
}

static int ports_of(struct ibv_device *device)
{
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_device_attr attr;
    int n = 1;

    if (context == NULL)
        return 1;
    if (ibv_query_device(context, &attr) == 0)
        n = attr.phys_port_cnt;
    ibv_close_device(context);
    return n;
}

static void describe(struct ibv_device *device, int port, const struct loci_tunables *wanted,
                     struct loci_device_port *p)
{
    struct ibv_context *context;

    memset(p, 0, sizeof *p);
    snprintf(p->device, sizeof p->device, "%s", ibv_get_device_name(device));
    p->port = port;
    p->gid_kind = "";
    p->distance = LOCI_DISTANCE_UNKNOWN;
    context = ibv_open_device(device);
    if (context == NULL) {
        snprintf(p->why_not, sizeof p->why_not, "it cannot be opened: %s", strerror(errno));
        return;
    }
    describe_device(context, p);
    describe_port(context, wanted, p);
    ibv_close_device(context);
}

/* ---- all of them ---- */

static int describe_all(struct loci_device_port *list, int max, const struct loci_tunables *wanted,
                        const char **why)
{
    int devices = 0, n = 0;
    struct ibv_device **all = ibv_get_device_list(&devices);

    *why = "";
    if (all == NULL)
        *why = errno == ENOSYS ? "the kernel has no RDMA support loaded (ib_uverbs)"
                               : "the devices cannot be listed";
    else if (devices == 0)
        *why = "no RDMA device, or its driver is not loaded";
    for (int i = 0; i < devices; i++)
        for (int port = 1, ports = ports_of(all[i]); port <= ports && n < max; port++)
            describe(all[i], port, wanted, &list[n++]);
    if (all != NULL)
        ibv_free_device_list(all);
    return n;
}

int loci_devices_list(struct loci_device_port *list, int max, const struct loci_tunables *wanted,
                      unsigned turn, const char **why)
{
    int n = describe_all(list, max, wanted, why);
    char here[LOCI_NODES_TEXT] = "";

    if (loci_choose_count(list, n, wanted->device, turn) > 1)
        loci_near_measure(list, n, here);
    loci_choose(list, n, wanted->device, turn, here);
    return n;
}

bool loci_devices_usable(const struct loci_tunables *wanted)
{
    struct loci_device_port list[LOCI_DEVICES_MAX];
    const char *why;
    int n = describe_all(list, LOCI_DEVICES_MAX, wanted, &why);

    return loci_choose_count(list, n, wanted->device, 0) > 0;
}

int loci_device_domains(const char *device, int most)
{
    struct ibv_td_init_attr none = { 0 };
    struct ibv_context *context = loci_device_open(device);
    struct ibv_td **all = calloc((size_t)most, sizeof *all);
    int n = 0, count;

    while (context != NULL && all != NULL && n < most
           && (all[n] = ibv_alloc_td(context, &none)) != NULL)
        n++;
    for (count = n; n > 0; n--)
        ibv_dealloc_td(all[n - 1]);
    free(all);
    if (context != NULL)
        ibv_close_device(context);
    return count;
}

#else

int loci_device_domains(const char *device, int most)
{
    (void)device;
    (void)most;
    return 0;
}

int loci_devices_list(struct loci_device_port *list, int max, const struct loci_tunables *wanted,
                      unsigned turn, const char **why)
{
    (void)list;
    (void)max;
    (void)wanted;
    (void)turn;
    *why = "configured --without-verbs";
    return 0;
}

bool loci_devices_usable(const struct loci_tunables *wanted)
{
    (void)wanted;
    return false;
}

#endif

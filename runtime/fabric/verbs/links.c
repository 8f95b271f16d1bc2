/* SPDX-License-Identifier: BSD-3-Clause */

/* Links over an RDMA device: what all of them share, and their life. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "service.h"
#include "links.h"

#define PARKED_MANY 65536

static void drain(struct loci_link *l)
{
    loci_link_drain(l->links->owner);
}

static void no_way(struct loci_link *link)
{
    struct verbs_link *l = (struct verbs_link *)link;
    char at[LOCI_GID_TEXT];

    loci_gid_text((const unsigned char *)link->peer->address.link, at);
    LOCI_LOG(link->links->rt, LOCO_LOG_ERROR, "no RDMA connection to process %016llx (pid %d) at "
             "%s: %s Can its machine be reached (rping), and does a firewall let it?",
             (unsigned long long)link->peer->address.identity, (int)link->peer->address.pid, at,
             l->why[0] != '\0' ? l->why : "it has not called.");
}

static void receive(struct loci_link *l, const void *message, size_t len)
{
    struct verbs_links *links = l->links->owner;

    loci_verbs_receive(links->fabric, l->peer, message, len);
}

const struct loci_link_ops loci_verbs_link_ops = {
    .size = sizeof(struct verbs_link), .connect = loci_verbs_link_connect,
    .disconnect = loci_verbs_link_disconnect, .pump = loci_verbs_link_pump, .drain = drain,
    .no_way = no_way, .receive = receive, .accept = loci_verbs_link_accept,
    .refuse = loci_verbs_link_refuse, .parked_most = PARKED_MANY,
};

/* ---- peers ---- */

/* With the first of them: what all share. */
static int prepare(struct verbs_links *links)
{
    struct loco_runtime *rt = links->fabric->rt;

    if (links->memory != NULL)
        return LOCO_OK;
    if (!loci_link_queues_open(links, links->listener->verbs)) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "nothing to connect machines with on %s: %m%s",
                 links->fabric->port.device, loci_verbs_remedy(errno));
        return LOCO_ERR_SYSTEM;
    }
    return loci_service_watch(rt, links->done->fd, EPOLLIN, loci_link_done_event, links);
}

int loci_verbs_link_add(struct verbs_fabric *f, struct loci_peer *peer, struct loci_link **out)
{
    struct verbs_links *links = f->links;
    int status;

    if (links == NULL || peer->address.link[2] == 0) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "process %016llx runs on another machine, and %s cannot be "
                 "connected to by RDMA: %s", (unsigned long long)peer->address.identity,
                 links == NULL ? "this process" : "it",
                 links == NULL ? f->no_links : "its own log says why (LOCO_LOG=info)");
        return LOCO_ERR_UNSUPPORTED;
    }
    status = prepare(links);
    return status == LOCO_OK ? loci_link_add(&links->links, peer, out) : status;
}

/* ---- life ---- */

static void unwatch(struct verbs_links *links)
{
    if (links->channel != NULL)
        loci_service_unwatch(links->fabric->rt, links->channel->fd);
    if (links->done != NULL)
        loci_service_unwatch(links->fabric->rt, links->done->fd);
}

/* No handler runs any more. */
static void free_links(struct verbs_links *links)
{
    loci_links_fini(&links->links);
    loci_link_connect_close(links);
    loci_link_queues_close(links);
    free(links);
}

static bool watch(struct verbs_links *links)
{
    return loci_links_watch(&links->links) == LOCO_OK
           && loci_service_watch(links->fabric->rt, links->channel->fd, EPOLLIN,
                                 loci_link_connect_event, links) == LOCO_OK;
}

void loci_verbs_links_open(struct verbs_fabric *f, struct loci_address *mine)
{
    struct verbs_links *links = calloc(1, sizeof *links);

    f->no_links = "no memory";
    if (links == NULL)
        return;
    links->fabric = f;
    f->no_links = "no descriptors to watch";
    if (loci_links_init(&links->links, f->rt, &loci_verbs_link_ops, links) != LOCO_OK) {
        free(links);
        return;
    }
    if (loci_link_listen(links, mine, &f->no_links)) {
        f->no_links = "no descriptors to watch";
        if (watch(links)) {
            f->links = links;
            return;
        }
    }
    LOCI_LOG(f->rt, LOCO_LOG_INFO, "processes of other machines cannot be connected to: %s",
             f->no_links);
    memset(mine->link, 0, sizeof mine->link);
    loci_links_stop(&links->links);
    unwatch(links);
    free_links(links);
}

void loci_verbs_links_close(struct verbs_fabric *f)
{
    if (f->links == NULL)
        return;
    loci_links_stop(&f->links->links);
    unwatch(f->links);      /* from here on no handler runs */
    free_links(f->links);
    f->links = NULL;
}

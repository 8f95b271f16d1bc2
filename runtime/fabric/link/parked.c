/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls of processes that this one has not met yet: the others of a group may be ahead. Each has
 * proven that it belongs to the job. */

#include "config.h"

#include <stdlib.h>

#include "wait.h"
#include "link.h"

#define PARKED_NS INT64_C(120000000000)     /* who calls has given up by then, or calls again */

void loci_link_park(struct loci_links *links, uint64_t identity, uint64_t label, void *call)
{
    struct loci_link_parked *p = links->nparked < links->ops->parked_most ? malloc(sizeof *p)
                                 : NULL;

    if (p == NULL) {
        links->ops->refuse(links, call);
        return;
    }
    *p = (struct loci_link_parked){
        .call = call, .identity = identity, .label = label, .since = loci_now(links->rt),
        .next = links->parked,
    };
    links->parked = p;
    links->nparked++;
    loci_links_tick(links);             /* there may be no link yet */
}

/* Its call. */
static void *take_out(struct loci_links *links, struct loci_link_parked **at)
{
    struct loci_link_parked *p = *at;
    void *call = p->call;

    *at = p->next;
    links->nparked--;
    free(p);
    return call;
}

void loci_link_unpark(struct loci_link *l)
{
    struct loci_link_parked **at = &l->links->parked;

    while (*at != NULL && l->state == LINK_NEW) {
        if ((*at)->identity == l->peer->address.identity
            && (*at)->label == l->peer->address.label)
            l->links->ops->accept(l, take_out(l->links, at));
        else
            at = &(*at)->next;
    }
}

void loci_link_unparked(struct loci_links *links, const void *call)
{
    struct loci_link_parked **at = &links->parked;

    while (*at != NULL && (*at)->call != call)
        at = &(*at)->next;
    if (*at != NULL)
        (void)take_out(links, at);
}

void loci_link_tidy_parked(struct loci_links *links)
{
    struct loci_link_parked **at = &links->parked;
    int64_t now = loci_now(links->rt);

    while (*at != NULL) {
        if (now - (*at)->since <= PARKED_NS)
            at = &(*at)->next;
        else
            links->ops->refuse(links, take_out(links, at));
    }
}

void loci_link_refuse_parked(struct loci_links *links)
{
    while (links->parked != NULL)
        links->ops->refuse(links, take_out(links, &links->parked));
}

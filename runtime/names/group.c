/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "observe/mistake.h"
#include "runtime.h"

/* ---- groups by their members' peers ---- */

/* The table's holders. In a list, so that one that outlives the runtime holds nothing of it. */
static void enlist(struct loco_runtime *rt, struct loco_group *g)
{
    g->rt = rt;
    pthread_mutex_lock(&rt->peers_lock);
    g->after = rt->groups;
    if (g->after != NULL)
        g->after->before = g;
    rt->groups = g;
    pthread_mutex_unlock(&rt->peers_lock);
    loci_peers_hold(rt, g->peer, g->size);
}

static void delist(struct loco_group *g)
{
    struct loco_runtime *rt = g->rt;

    if (rt == NULL)
        return;
    pthread_mutex_lock(&rt->peers_lock);
    *(g->before != NULL ? &g->before->after : &rt->groups) = g->after;
    if (g->after != NULL)
        g->after->before = g->before;
    pthread_mutex_unlock(&rt->peers_lock);
    loci_peers_let_go(rt, g->peer, g->size);
}

void loci_groups_close(struct loco_runtime *rt)
{
    for (struct loco_group *g = rt->groups; g != NULL; g = g->after)
        g->rt = NULL;
    rt->groups = NULL;
}

/* Without its members, and not in the list yet. NULL: no memory. */
static struct loco_group *new_group(int size)
{
    struct loco_group *g = calloc(1, sizeof *g);

    if (g == NULL)
        return NULL;
    g->peer = malloc((size_t)(size > 0 ? size : 1) * sizeof g->peer[0]);
    if (g->peer == NULL) {
        free(g);
        return NULL;
    }
    g->size = size;
    g->rank = -1;
    return g;
}

static void set_member(struct loco_group *g, int rank, int peer)
{
    g->peer[rank] = peer;
    if (peer == LOCI_SELF)
        g->rank = rank;
}

int loci_group_of(struct loco_runtime *rt, int size, const int *peers, struct loco_group **group)
{
    struct loco_group *g = new_group(size);

    if (g == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (int i = 0; i < size; i++)
        set_member(g, i, peers[i]);
    enlist(rt, g);
    *group = g;
    return LOCO_OK;
}

/* ---- meeting ----
 *
 * All members come to the same exchanges, whatever one of them lacks: one that came to fewer would
 * leave the others waiting, and its next exchange would meet their last. So a meeting begins with a
 * round that needs no memory but the stack's, in which each says whether it has what the next
 * rounds need, and all that can fail for one alone comes before the last round tells it. */

int loci_exchange_status(const struct loco_exchange *exchange, int status)
{
    signed char mine = (signed char)status, all[LOCI_MAX_PEERS];
    int rc;

    if (exchange->size > LOCI_MAX_PEERS)
        return LOCO_ERR_NO_MEMORY;          /* which all find out alike */
    rc = exchange->allgather(exchange->ctx, &mine, sizeof mine, all);
    for (int i = 0; rc == LOCO_OK && status == LOCO_OK && i < exchange->size; i++)
        status = all[i];
    return status != LOCO_OK ? status : rc;
}

/* What a member needs to meet the others. */
struct meeting {
    struct loci_address *all;               /* by rank; later their statuses */
    struct loco_group *group;               /* not in the list before all have met */
    int met;                                /* members, of which this holds the places */
};

static int prepare(int size, struct meeting *meeting)
{
    meeting->all = calloc((size_t)size, sizeof meeting->all[0]);
    meeting->group = new_group(size);
    meeting->met = 0;
    return meeting->all != NULL && meeting->group != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;
}

static int meet_all(struct loco_runtime *rt, struct meeting *meeting)
{
    int status = LOCO_OK, peer;

    while (status == LOCO_OK && meeting->met < meeting->group->size) {
        status = loci_peer_meet(rt, &meeting->all[meeting->met], &peer);
        if (status == LOCO_OK)
            set_member(meeting->group, meeting->met++, peer);
    }
    return status;
}

/* What all come to: a member that fails alone would leave the others with one that never comes. */
static int agree(struct loco_runtime *rt, const struct loco_exchange *exchange, int status,
                 int *all)
{
    int lost = exchange->allgather(exchange->ctx, &status, sizeof status, all);

    for (int i = 0; lost == LOCO_OK && status == LOCO_OK && i < exchange->size; i++)
        if (all[i] < 0) {
            LOCI_LOG(rt, LOCO_LOG_ERROR, "process %d of %d could not meet the others: %s", i,
                     exchange->size, loco_strerror(all[i]));
            status = all[i];
        }
    return status != LOCO_OK ? status : lost;
}

static int meet(struct loco_runtime *rt, const struct loco_exchange *exchange,
                struct meeting *meeting)
{
    _Static_assert(sizeof meeting->all[0] >= sizeof(int), "statuses find room there");
    int status = exchange->allgather(exchange->ctx, &rt->address, sizeof rt->address,
                                     meeting->all);

    if (status != LOCO_OK)
        return status;
    status = meet_all(rt, meeting);
    return agree(rt, exchange, status, (int *)(void *)meeting->all);
}

int loco_group_meet(loco_runtime_t *rt, const struct loco_exchange *exchange,
                    loco_group_t **group)
{
    struct meeting meeting;
    int status;

    if (exchange->size < 1 || exchange->rank < 0 || exchange->rank >= exchange->size)
        return loci_mistake(rt, LOCO_ERR_ARG, "loco_group_meet", NULL,
                            "rank %d of %d makes no sense", exchange->rank, exchange->size);
    status = loci_exchange_status(exchange, prepare(exchange->size, &meeting));
    if (status == LOCO_OK)
        status = meet(rt, exchange, &meeting);
    free(meeting.all);
    if (status == LOCO_OK)
        enlist(rt, meeting.group);
    if (meeting.group != NULL)
        loci_peers_let_go(rt, meeting.group->peer, meeting.met);
    if (status == LOCO_OK)
        *group = meeting.group;
    else
        loco_group_destroy(meeting.group);
    return status;
}

/* ---- what a group says ---- */

int loci_group_reached(const struct loco_group *group)
{
    for (int i = 0; i < group->size; i++) {
        const struct loci_peer *peer = loci_peer(group->rt, group->peer[i]);

        if (peer->reachable)
            continue;
        LOCI_LOG(
            group->rt, LOCO_LOG_ERROR,
            "member %d (process %016llx, pid %d) cannot be reached "
            "from here: it counts as another node, by LOCO_NODE or its container, and the "
            "fabric is for one node alone: set LOCO_FABRIC=tcp for all, and a LOCO_NODE for each "
            "container, or make channels among processes of one node",
            i, (unsigned long long)peer->address.identity, (int)peer->address.pid);
        return LOCO_ERR_UNSUPPORTED;
    }
    return LOCO_OK;
}

int loco_group_subset(const loco_group_t *group, int n, const int *ranks, loco_group_t **subset)
{
    int *peers, status = LOCO_OK;

    if (group == NULL)
        return loci_null_arg(NULL, "loco_group_subset", NULL, "group");
    if (n < 1 || n > group->size)
        return loci_bad_arg(group->rt, "loco_group_subset", NULL, "n", n, "1 to %d", group->size);
    peers = malloc((size_t)n * sizeof peers[0]);
    if (peers == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (int i = 0; i < n && status == LOCO_OK; i++) {
        status = loci_check_rank(group->rt, "loco_group_subset", NULL, "a rank", ranks[i],
                                 group->size);
        for (int j = 0; j < i && status == LOCO_OK; j++)
            if (ranks[j] == ranks[i])
                status = loci_mistake(group->rt, LOCO_ERR_ARG, "loco_group_subset", NULL,
                                      "rank %d is there twice", ranks[i]);
        if (status == LOCO_OK)
            peers[i] = group->peer[ranks[i]];
    }
    if (status == LOCO_OK)
        status = loci_group_of(group->rt, n, peers, subset);
    free(peers);
    return status;
}

void loco_group_destroy(loco_group_t *group)
{
    if (group == NULL)
        return;
    delist(group);
    free(group->peer);
    free(group);
}

int loco_group_size(const loco_group_t *group)
{
    return group->size;
}

int loci_group_rank_of(const struct loco_group *group, int peer)
{
    for (int rank = 0; rank < group->size; rank++)
        if (loci_group_peer(group, rank) == peer)
            return rank;
    return -1;
}

int loco_group_rank(const loco_group_t *group)
{
    return group->rank;
}

int loco_group_alive(const loco_group_t *group, int rank)
{
    int status = loci_check_rank(group->rt, "loco_group_alive", NULL, "rank", rank, group->size);

    if (status != LOCO_OK)
        return status;
    return loci_peer_alive(group->rt, group->peer[rank]) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

const loco_group_t *loco_everyone(const loco_runtime_t *rt)
{
    return rt->everyone;
}

void loci_group_name_ranks(const struct loco_group *group)
{
    for (int rank = 0; rank < group->size; rank++)
        atomic_store_explicit(&loci_peer(group->rt, group->peer[rank])->rank, rank + 1,
                              memory_order_relaxed);
}

int loci_runtime_set_everyone(struct loco_runtime *rt, struct loco_group *group)
{
    if (group->rank < 0)
        return loci_mistake(rt, LOCO_ERR_ARG, "loco_runtime_open_mpi", NULL,
                            "this process is not in the group");
    loco_group_destroy(rt->everyone);
    rt->everyone = group;
    loci_group_name_ranks(group);
    return LOCO_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The table of names: this process's endpoints, found by their names. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "names.h"

/* ---- hashes and names ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#define HASH_START UINT64_C(0xcbf29ce484222325)

static struct loci_endpoint **bucket_of(struct loci_names *names, const char *name)
{
    return &names->bucket[hash_bytes(HASH_START, name, strlen(name)) % LOCI_NAMES_BUCKETS];
}

uint64_t loci_names_hash_members(const struct loco_group *group)
{
    uint64_t hash = HASH_START;

    for (int i = 0; i < group->size; i++) {
        uint64_t identity = loci_peer(group->rt, group->peer[i])->address.identity;

        hash = hash_bytes(hash, &identity, sizeof identity);
    }
    return hash;
}

struct loci_entry *loci_names_find(struct loci_names *names, const char *name)
{
    struct loci_endpoint *ep = *bucket_of(names, name);

    while (ep != NULL && strcmp(ep->name, name) != 0)
        ep = ep->next;
    return ep == NULL ? NULL : loci_entry_of(ep);
}

/* ---- the past ---- */

static uint64_t past_key(const char *name, int peer)
{
    return hash_bytes(hash_bytes(HASH_START, name, strlen(name)), &peer, sizeof peer);
}

uint64_t loci_names_past(const struct loci_names *names, const char *name, int peer)
{
    uint64_t key = past_key(name, peer);
    const struct loci_past *past = &names->past[key % LOCI_NAMES_PAST];

    return past->key == key ? past->number : 0;
}

/* Only those that knew it: who is still waiting for us will meet our next. */
static void remember(struct loci_names *names, const struct loci_entry *e)
{
    for (int rank = 0; rank < e->ep.group.size; rank++) {
        const struct loci_member *member = &e->member[rank];

        if (member->number != 0 && member->knows) {
            uint64_t key = past_key(e->ep.name, e->ep.group.peer[rank]);

            names->past[key % LOCI_NAMES_PAST] = (struct loci_past){ key, member->number };
        }
    }
}

/* ---- entries ---- */

int loci_names_enter(struct loci_names *names, struct loci_entry *e)
{
    int status = LOCO_ERR_NAME;

    pthread_mutex_lock(&names->lock);
    if (loci_names_find(names, e->ep.name) == NULL) {
        struct loci_endpoint **bucket = bucket_of(names, e->ep.name);

        e->number = ++names->numbers;
        e->opening = true;
        e->last_letter = &e->letters;
        e->ep.next = *bucket;
        *bucket = &e->ep;
        status = LOCO_OK;
    }
    pthread_mutex_unlock(&names->lock);
    if (status != LOCO_OK)
        LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s: the name is in use here", e->ep.name);
    return status;
}

void loci_names_leave(struct loci_names *names, struct loci_entry *e)
{
    struct loci_endpoint **link;

    pthread_mutex_lock(&names->lock);
    for (link = bucket_of(names, e->ep.name); *link != &e->ep; link = &(*link)->next)
        ;
    *link = e->ep.next;
    loci_entry_leave(names, e);         /* at once: members may leave while we wait */
    while (e->busy > 0 || e->opening)
        pthread_cond_wait(&names->calm, &names->lock);
    remember(names, e);
    pthread_mutex_unlock(&names->lock);
}

/* ---- the table's life ---- */

int loci_names_open(struct loco_runtime *rt)
{
    rt->names = calloc(1, sizeof *rt->names);
    if (rt->names == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_init(&rt->names->lock, NULL);
    pthread_cond_init(&rt->names->calm, NULL);
    return LOCO_OK;
}

void loci_names_close(struct loco_runtime *rt)
{
    if (rt->names == NULL)
        return;
    pthread_cond_destroy(&rt->names->calm);
    pthread_mutex_destroy(&rt->names->lock);
    free(rt->names);
    rt->names = NULL;
}

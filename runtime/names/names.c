/* SPDX-License-Identifier: BSD-3-Clause */

/* The table of names: this process's endpoints, found by their names. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "move/bell.h"
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

static uint64_t hash_of(const char *name)
{
    return hash_bytes(HASH_START, name, strlen(name));
}

static struct loci_endpoint **bucket_of(struct loci_names *names, uint64_t hash)
{
    return &names->bucket[hash & (names->buckets - 1)];
}

uint64_t loci_names_hash_members(const struct loco_group *group)
{
    uint64_t hash = HASH_START;

    /* Of an open one members know different parts. */
    for (int i = 0; i < group->size && !group->open; i++) {
        uint64_t identity = loci_peer(group->rt, group->peer[i])->address.identity;

        hash = hash_bytes(hash, &identity, sizeof identity);
    }
    return hash;
}

struct loci_entry *loci_names_find(struct loci_names *names, const char *name)
{
    uint64_t hash = hash_of(name);
    struct loci_endpoint *ep = *bucket_of(names, hash);

    while (ep != NULL && (loci_entry_of(ep)->hash != hash || strcmp(ep->name, name) != 0))
        ep = ep->next;
    return ep == NULL ? NULL : loci_entry_of(ep);
}

/* ---- the past ---- */

/* By who it is, not by its place, which may be another's next. */
static uint64_t past_key(const char *name, const struct loci_peer *peer)
{
    const uint64_t who[] = { peer->address.identity, peer->address.label };

    return hash_bytes(hash_of(name), who, sizeof who);
}

uint64_t loci_names_past(const struct loci_names *names, const char *name,
                         const struct loci_peer *peer)
{
    uint64_t key = past_key(name, peer);
    const struct loci_past *past = &names->past[key & (names->past_room - 1)];

    return past->key == key ? past->number : 0;
}

/* Places for what is here now, before any of it goes. Without memory it stays as it is, and
 * forgets sooner. */
static void make_room_for_past(struct loci_names *names)
{
    size_t room = names->past_room;
    struct loci_past *more;

    while (room < 4 * names->pairs && room < LOCI_NAMES_PAST_MOST)
        room *= 2;
    if (room == names->past_room)
        return;
    more = calloc(room, sizeof *more);
    if (more == NULL)
        return;
    for (size_t i = 0; i < names->past_room; i++)
        if (names->past[i].key != 0)
            more[names->past[i].key & (room - 1)] = names->past[i];
    free(names->past);
    names->past = more;
    names->past_room = room;
}

/* Only those that knew it: who is still waiting for us will meet our next. */
static void remember(struct loci_names *names, const struct loci_entry *e)
{
    for (int rank = 0; rank < e->ep.group.size; rank++) {
        const struct loci_member *member = &e->member[rank];

        if (member->number != 0 && member->knows) {
            uint64_t key = past_key(e->ep.name,
                                    loci_peer(e->ep.rt, loci_group_peer(&e->ep.group, rank)));

            names->past[key & (names->past_room - 1)] = (struct loci_past){ key, member->number };
        }
    }
}

/* ---- lists ---- */

static void take_from_list(struct loci_names *names, struct loci_entry *e)
{
    struct loci_list *list = e->list;

    if (list == NULL)
        return;
    *(e->before != NULL ? &e->before->after : &list->first) = e->after;
    *(e->after != NULL ? &e->after->before : &list->last) = e->before;
    list->count--;
    if (names->ask_next == e)
        names->ask_next = e->after;
    e->list = NULL;
    e->before = e->after = NULL;
}

static void put_last(struct loci_list *list, struct loci_entry *e)
{
    e->list = list;
    e->before = list->last;
    *(list->last != NULL ? &list->last->after : &list->first) = e;
    list->last = e;
    list->count++;
}

void loci_names_settle(struct loci_names *names, struct loci_entry *e)
{
    struct loci_list *list = NULL;

    if (atomic_load_explicit(&e->ep.failed, memory_order_relaxed) != LOCO_OK)
        list = &names->failed;
    else if (atomic_load_explicit(&e->ep.missing, memory_order_relaxed) > 0)
        list = &names->open;
    else if (!e->reached)
        list = &names->unreached;
    if (list == e->list || e->leaving)
        return;
    take_from_list(names, e);
    if (list != NULL)
        put_last(list, e);
    /* Release: pairs with the acquire of a wait's look, which then takes the lock. */
    atomic_fetch_add_explicit(&names->settled, 1, memory_order_release);
    loci_signal(e->ep.rt, LOCI_SELF, LOCI_BELL_READY);
}

/* ---- entries ---- */

/* Without memory chains only become longer. */
static void make_room(struct loci_names *names)
{
    size_t old = names->buckets;
    struct loci_endpoint **fewer = names->bucket, **more;

    if (names->count < old)
        return;
    more = calloc(2 * old, sizeof *more);
    if (more == NULL)
        return;
    names->bucket = more;
    names->buckets = 2 * old;
    for (size_t i = 0; i < old; i++)
        for (struct loci_endpoint *ep = fewer[i], *next; ep != NULL; ep = next) {
            struct loci_endpoint **bucket = bucket_of(names, loci_entry_of(ep)->hash);

            next = ep->next;
            ep->next = *bucket;
            *bucket = ep;
        }
    free(fewer);
}

/* Under the lock. */
static void enter(struct loci_names *names, struct loci_entry *e)
{
    struct loci_endpoint **bucket;

    make_room(names);
    e->hash = hash_of(e->ep.name);
    e->number = ++names->numbers;
    e->opening = true;
    e->last_letter = &e->letters;
    bucket = bucket_of(names, e->hash);
    e->ep.next = *bucket;
    *bucket = &e->ep;
    names->count++;
    names->pairs += (size_t)e->ep.group.size - 1;
    make_room_for_past(names);
    loci_names_settle(names, e);
}

int loci_names_enter(struct loci_names *names, struct loci_entry *e)
{
    int status = LOCO_ERR_NAME;

    pthread_mutex_lock(&names->lock);
    if (loci_names_find(names, e->ep.name) == NULL) {
        enter(names, e);
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
    for (link = bucket_of(names, e->hash); *link != &e->ep; link = &(*link)->next)
        ;
    *link = e->ep.next;
    names->count--;
    names->pairs -= (size_t)e->ep.group.size - 1;
    take_from_list(names, e);
    e->leaving = true;
    atomic_fetch_add_explicit(&names->settled, 1, memory_order_release);
    loci_signal(e->ep.rt, LOCI_SELF, LOCI_BELL_READY);
    loci_entry_leave(names, e);         /* at once: members may leave while we wait */
    while (e->busy > 0 || e->opening)
        pthread_cond_wait(&names->calm, &names->lock);
    remember(names, e);
    pthread_mutex_unlock(&names->lock);
}

/* ---- the table's life ---- */

int loci_names_open(struct loco_runtime *rt)
{
    struct loci_names *names = calloc(1, sizeof *names);

    if (names == NULL)
        return LOCO_ERR_NO_MEMORY;
    names->buckets = LOCI_NAMES_BUCKETS;
    names->past_room = LOCI_NAMES_PAST;
    names->bucket = calloc(names->buckets, sizeof names->bucket[0]);
    names->past = calloc(names->past_room, sizeof names->past[0]);
    if (names->bucket == NULL || names->past == NULL) {
        free(names->bucket);
        free(names->past);
        free(names);
        return LOCO_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&names->lock, NULL);
    pthread_cond_init(&names->calm, NULL);
    rt->names = names;
    return LOCO_OK;
}

void loci_names_close(struct loco_runtime *rt)
{
    struct loci_names *names = rt->names;

    if (names == NULL)
        return;
    pthread_cond_destroy(&names->calm);
    pthread_mutex_destroy(&names->lock);
    free(names->bucket);
    free(names->past);
    free(names);
    rt->names = NULL;
}

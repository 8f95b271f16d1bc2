/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints: the table of names, and how endpoints of one name connect.
 *
 * Who writes what. All of an entry but its atomics is written under the table's lock, by the
 * thread that makes or destroys it and by the service thread. Users of an endpoint read mem[] of
 * a member after its `connected` flag (acquire) or after a wait for ready.
 *
 * For each pair of members A, B, each with one message of a kind to the other:
 *   A's join finds no endpoint at B      dropped; B's own join will come
 *   A's join finds B's                   B answers connect (its keys)
 *   A's connect finds B's, which has     B sends its connect
 *   not sent its keys to A
 *   A's join finds B's differs           B answers reject; both have failed
 *   A's join finds B's connected with    B's is on its way out: dropped; B's next endpoint joins
 *   an earlier endpoint of A
 * A join is the first message of its endpoint. An answer names the endpoint that it is for: what
 * arrives for one that has gone is dropped. A member that dies fails what still misses it.
 *
 * An endpoint misses a member until it has that member's keys and has sent its own; and fails
 * only after its reject was sent. Messages of one pair keep their order, so whoever is ready, or
 * has failed, may destroy its endpoint and make another: nothing is on its way any more that the
 * new one could take for its own. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "endpoint.h"
#include "wait.h"

#define BUCKETS 256

struct member {
    uint64_t number;                    /* the endpoint there that we are connected to, or 0 */
    bool joined;                        /* on_join was called */
    uint64_t given;                     /* the endpoint there that was sent our keys, or 0 */
};

struct letter {                         /* a message that came while the endpoint was opening */
    struct letter *next;
    int peer;
    bool gone;                          /* no message: the peer has gone */
    struct loci_control message;
};

struct entry {
    struct loci_endpoint ep;            /* first: an endpoint is its entry */
    uint64_t number;                    /* in this process's life, from 1 */
    uint64_t members;                   /* hash of the group */
    struct member *member;              /* by rank */
    int busy;                           /* messages being handled: destroy waits */
    bool opening;                       /* joins are not all sent: what arrives is kept */
    struct letter *letters, **last_letter;
    char region_name[LOCI_REGIONS_MAX][LOCI_REGION_NAME];
};

struct loci_names {
    pthread_mutex_t lock;
    pthread_cond_t calm;                /* an entry's busy went to 0 */
    struct loci_endpoint *bucket[BUCKETS];
    uint64_t numbers;                   /* given out so far */
};

static struct entry *entry_of(struct loci_endpoint *ep)
{
    return (struct entry *)ep;
}

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
    return &names->bucket[hash_bytes(HASH_START, name, strlen(name)) % BUCKETS];
}

static uint64_t hash_members(const struct loco_group *group)
{
    uint64_t hash = HASH_START;

    for (int i = 0; i < group->size; i++) {
        uint64_t identity = loci_peer(group->rt, group->peer[i])->address.identity;

        hash = hash_bytes(hash, &identity, sizeof identity);
    }
    return hash;
}

static struct entry *find(struct loci_names *names, const char *name)
{
    struct loci_endpoint *ep = *bucket_of(names, name);

    while (ep != NULL && strcmp(ep->name, name) != 0)
        ep = ep->next;
    return ep == NULL ? NULL : entry_of(ep);
}

/* ---- messages ---- */

static void describe(const struct entry *e, enum loci_control_type type, uint64_t to,
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
    m->signature = ep->spec.signature;
    m->members = e->members;
    m->size = (uint32_t)ep->group.size;
    memcpy(m->name, ep->name, sizeof m->name);
    for (int i = 0; i < ep->spec.nregions; i++) {
        struct loci_control_region *r = &m->region[i];

        memcpy(r->name, e->region_name[i], sizeof r->name);
        r->len = ep->spec.region[i].len;
        r->from = ep->spec.region[i].from;
        if (type == LOCI_CONTROL_CONNECT)
            r->key = ep->mem[ep->group.rank * ep->spec.nregions + i].key;
    }
}

/* A peer that cannot be reached any more is loci_names_peer_gone's business. */
static void send(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    int status = rt->ops->control_send(rt->fabric, loci_peer(rt, peer), m, m->len);

    if (status < 0 && status != LOCO_ERR_PEER_DEAD)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "endpoint %s: no message to process %llx: %s", m->name,
                 (unsigned long long)loci_peer(rt, peer)->address.identity,
                 loco_strerror(status));
}

/* ---- do two endpoints fit? ---- */

static bool region_differs(const struct entry *e, const struct loci_control *m, int i, char *text,
                           size_t len)
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
                 "at rank %d (-1: from all)", e->ep.name, theirs->name, mine->from, here,
                 theirs->from, m->rank);
    else
        return false;
    return true;
}

/* Whether the sender's endpoint differs from ours; text says in what, and names both sides. */
static bool differs(const struct entry *e, int peer, const struct loci_control *m, char *text,
                    size_t len)
{
    const struct loci_endpoint *ep = &e->ep;
    int here = ep->group.rank;

    if (m->size != (uint32_t)ep->group.size)
        snprintf(text, len, "the group has %d members at rank %d (here) and %u at rank %d",
                 ep->group.size, here, m->size, m->rank);
    else if (m->members != e->members || ep->group.peer[m->rank] != peer)
        snprintf(text, len, "the group has other members, or another order, at rank %d (here) "
                 "than at rank %d", here, m->rank);
    else if (m->signature != ep->spec.signature)
        snprintf(text, len, "type or parameters differ between rank %d (here, signature %llx) "
                 "and rank %d (%llx)", here, (unsigned long long)ep->spec.signature, m->rank,
                 (unsigned long long)m->signature);
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

static void fail(struct entry *e, int status)
{
    int none = LOCO_OK;

    /* The first cause is kept. */
    atomic_compare_exchange_strong(&e->ep.failed, &none, status);
}

static void log_mismatch(const struct entry *e, const char *text)
{
    LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s does not fit: %s", e->ep.name, text);
}

/* ---- connecting ---- */

static bool is_connected(const struct entry *e, int rank)
{
    return atomic_load_explicit(&e->ep.connected[rank], memory_order_acquire) != 0;
}

static bool misses(const struct entry *e, int rank)
{
    return !is_connected(e, rank) || e->member[rank].given != e->member[rank].number;
}

static bool provides(const struct loci_region_spec *region, int rank)
{
    return region->from == LOCI_FROM_ALL || region->from == rank;
}

/* The keys of a connect, into mem[] of that rank. */
static int import(struct entry *e, int peer, const struct loci_control *m)
{
    for (int i = 0; i < e->ep.spec.nregions; i++) {
        struct loci_mem *mem = loci_endpoint_mem(&e->ep, m->rank, i);
        int status;

        if (!provides(&e->ep.spec.region[i], m->rank))
            continue;
        if (m->region[i].key.len < e->ep.spec.region[i].len)
            return LOCO_ERR_PROTOCOL;
        status = loci_mem_import(e->ep.rt, peer, &m->region[i].key, mem);
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(mem, e->ep.domain);
    }
    return LOCO_OK;
}

/* What a message leads to; done after the table's lock is released, as sends may block. */
struct reaction {
    enum loci_control_type answer;      /* or 0 */
    bool joined, connected;             /* callbacks to run */
    int fails;                          /* status of the endpoint from then on, or LOCO_OK */
};

/* A member may be met by its join, or, where that came too early, by its connect. */
static void has_joined(struct entry *e, int rank, struct reaction *r)
{
    r->joined = !e->member[rank].joined;
    e->member[rank].joined = true;
}

static void on_join(struct entry *e, int peer, const struct loci_control *m, struct reaction *r)
{
    char text[512];

    if (differs(e, peer, m, text, sizeof text)) {
        log_mismatch(e, text);
        r->answer = LOCI_CONTROL_REJECT;
        r->fails = LOCO_ERR_MISMATCH;
        return;
    }
    r->answer = LOCI_CONTROL_CONNECT;
    has_joined(e, m->rank, r);
}

static void on_connect(struct entry *e, int peer, const struct loci_control *m,
                       struct reaction *r)
{
    char text[512];
    int status;

    if (differs(e, peer, m, text, sizeof text)) {
        log_mismatch(e, text);
        r->fails = LOCO_ERR_MISMATCH;
        return;
    }
    if (is_connected(e, m->rank))
        return;
    status = import(e, peer, m);
    if (status != LOCO_OK) {
        LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s: rank %d sent keys that make no sense",
                 e->ep.name, m->rank);
        r->fails = status;
        return;
    }
    e->member[m->rank].number = m->from;
    /* Release: mem[] before the flag that readers look at. */
    atomic_store_explicit(&e->ep.connected[m->rank], 1, memory_order_release);
    if (e->member[m->rank].given != m->from)
        r->answer = LOCI_CONTROL_CONNECT;
    has_joined(e, m->rank, r);
    r->connected = true;
}

static void on_reject(struct entry *e, int peer, const struct loci_control *m,
                      struct reaction *r)
{
    char text[512];

    if (!differs(e, peer, m, text, sizeof text))
        snprintf(text, sizeof text, "rank %d says so", m->rank);
    log_mismatch(e, text);
    r->fails = LOCO_ERR_MISMATCH;
}

/* An endpoint that an earlier one of the sender is connected to is on its way out; so is one that
 * has failed. Both leave their members to the next of their name. */
static bool is_stale(const struct entry *e, const struct loci_control *m)
{
    if (atomic_load_explicit(&e->ep.failed, memory_order_relaxed) != LOCO_OK)
        return true;
    return m->type == LOCI_CONTROL_JOIN && m->rank < e->ep.group.size && is_connected(e, m->rank)
           && e->member[m->rank].number != m->from;
}

static void react(struct entry *e, int peer, const struct loci_control *m, struct reaction *r)
{
    if (m->type != LOCI_CONTROL_JOIN && m->to != e->number)
        return;
    if (is_stale(e, m))
        return;
    switch (m->type) {
    case LOCI_CONTROL_JOIN:
        on_join(e, peer, m, r);
        break;
    case LOCI_CONTROL_CONNECT:
        on_connect(e, peer, m, r);
        break;
    default:
        on_reject(e, peer, m, r);
        break;
    }
}

/* Under the table's lock, once the answer is on its way. Release: mem[] before the count. */
static void settle(struct entry *e, const struct loci_control *m, const struct reaction *r,
                   bool missed)
{
    if (r->fails != LOCO_OK)
        fail(e, r->fails);
    if (r->answer == LOCI_CONTROL_CONNECT)
        e->member[m->rank].given = m->from;
    if (missed && r->fails == LOCO_OK && !misses(e, m->rank))
        atomic_fetch_sub_explicit(&e->ep.missing, 1, memory_order_release);
}

/* Handle one message; the entry is busy, the table locked (not all the time). */
static void handle(struct loci_names *names, struct entry *e, int peer,
                   const struct loci_control *m)
{
    struct reaction r = { 0 };
    struct loci_control answer;
    bool missed = m->rank < e->ep.group.size && misses(e, m->rank);

    react(e, peer, m, &r);
    if (r.answer != 0)
        describe(e, r.answer, m->from, &answer);
    pthread_mutex_unlock(&names->lock);
    if (r.answer != 0)
        send(e->ep.rt, peer, &answer);
    if (r.joined && e->ep.spec.on_join != NULL)
        e->ep.spec.on_join(&e->ep, m->rank, e->ep.spec.ctx);
    if (r.connected && e->ep.spec.on_connect != NULL)
        e->ep.spec.on_connect(&e->ep, m->rank, e->ep.spec.ctx);
    pthread_mutex_lock(&names->lock);
    settle(e, m, &r, missed);
}

static void peer_gone(struct entry *e, int peer)
{
    for (int rank = 0; rank < e->ep.group.size; rank++)
        if (e->ep.group.peer[rank] == peer && misses(e, rank))
            fail(e, LOCO_ERR_PEER_DEAD);
}

/* `m` NULL: the peer has gone. Its messages from before come first. */
static void keep(struct entry *e, int peer, const struct loci_control *m)
{
    struct letter *letter = calloc(1, sizeof *letter);

    if (letter == NULL) {
        LOCI_LOG(e->ep.rt, LOCO_LOG_ERROR, "endpoint %s: out of memory", e->ep.name);
        fail(e, LOCO_ERR_NO_MEMORY);
        return;
    }
    letter->peer = peer;
    letter->gone = m == NULL;
    if (m != NULL)
        letter->message = *m;
    *e->last_letter = letter;
    e->last_letter = &letter->next;
}

void loci_names_receive(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    struct loci_names *names = rt->names;
    struct entry *e;

    pthread_mutex_lock(&names->lock);
    e = find(names, m->name);
    if (e != NULL && e->opening) {
        keep(e, peer, m);
    } else if (e != NULL) {
        e->busy++;
        handle(names, e, peer, m);
        if (--e->busy == 0)
            pthread_cond_broadcast(&names->calm);
    }
    pthread_mutex_unlock(&names->lock);
}

/* The joins are sent: handle what came in the meantime, then let the service thread do it. */
static void opened(struct loci_names *names, struct entry *e)
{
    pthread_mutex_lock(&names->lock);
    while (e->letters != NULL) {
        struct letter *letter = e->letters;

        e->letters = letter->next;
        if (e->letters == NULL)
            e->last_letter = &e->letters;
        if (letter->gone)
            peer_gone(e, letter->peer);
        else
            handle(names, e, letter->peer, &letter->message);
        free(letter);
    }
    e->opening = false;
    pthread_mutex_unlock(&names->lock);
}

void loci_names_peer_gone(struct loco_runtime *rt, int peer)
{
    struct loci_names *names = rt->names;

    if (names == NULL)
        return;
    pthread_mutex_lock(&names->lock);
    for (int b = 0; b < BUCKETS; b++)
        for (struct loci_endpoint *ep = names->bucket[b]; ep != NULL; ep = ep->next)
            if (entry_of(ep)->opening)
                keep(entry_of(ep), peer, NULL);
            else
                peer_gone(entry_of(ep), peer);
    pthread_mutex_unlock(&names->lock);
}

/* ---- making one ---- */

static int full_name(const struct loci_endpoint_spec *spec, char *name)
{
    int len;

    if (spec->name == NULL || spec->name[0] == '\0'
        || (spec->parent != NULL && spec->parent[0] == '\0'))
        return LOCO_ERR_NAME;
    memset(name, 0, LOCI_NAME_MAX);
    len = snprintf(name, LOCI_NAME_MAX, "%s%s%s", spec->parent == NULL ? "" : spec->parent,
                   spec->parent == NULL ? "" : "/", spec->name);
    return len < LOCI_NAME_MAX ? LOCO_OK : LOCO_ERR_NAME;
}

static int check_spec(const struct loci_endpoint_spec *spec)
{
    if (spec->group == NULL || spec->group->rank < 0 || spec->nregions < 0
        || spec->nregions > LOCI_REGIONS_MAX)
        return LOCO_ERR_ARG;
    for (int i = 0; i < spec->nregions; i++) {
        const struct loci_region_spec *r = &spec->region[i];

        if (r->name == NULL || r->name[0] == '\0' || strlen(r->name) >= LOCI_REGION_NAME)
            return LOCO_ERR_NAME;
        if (r->from < LOCI_FROM_ALL || r->from >= spec->group->size)
            return LOCO_ERR_ARG;
    }
    return LOCO_OK;
}

static void free_entry(struct entry *e)
{
    struct loci_endpoint *ep = &e->ep;

    for (int i = 0; ep->mem != NULL && i < ep->spec.nregions; i++) {
        struct loci_mem *mine = loci_endpoint_mem(ep, ep->group.rank, i);

        if (mine->key.kind != LOCI_MEM_NONE)
            loci_free(ep->rt, mine);
    }
    free(ep->mem);
    free((void *)ep->connected);
    free(ep->group.peer);
    free(e->member);
    free(e);
}

/* Copies of what the caller gave; regions still missing. NULL: out of memory. */
static struct entry *new_entry(struct loco_runtime *rt, const struct loci_endpoint_spec *spec)
{
    size_t size = (size_t)spec->group->size, nregions = (size_t)spec->nregions;
    struct entry *e = calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    e->ep.rt = rt;
    e->ep.spec = *spec;
    e->ep.group = *spec->group;
    e->ep.group.peer = malloc(size * sizeof e->ep.group.peer[0]);
    e->ep.mem = calloc(size * nregions + 1, sizeof e->ep.mem[0]);
    e->ep.connected = calloc(size, sizeof e->ep.connected[0]);
    e->member = calloc(size, sizeof e->member[0]);
    if (e->ep.group.peer == NULL || e->ep.mem == NULL || e->ep.connected == NULL
        || e->member == NULL) {
        free_entry(e);
        return NULL;
    }
    memcpy(e->ep.group.peer, spec->group->peer, size * sizeof e->ep.group.peer[0]);
    for (int i = 0; i < spec->nregions; i++) {
        snprintf(e->region_name[i], LOCI_REGION_NAME, "%s", spec->region[i].name);
        e->ep.spec.region[i].name = e->region_name[i];
    }
    e->members = hash_members(&e->ep.group);
    e->ep.domain = loci_domain_of(&e->ep.group);
    atomic_store_explicit(&e->ep.missing, e->ep.group.size - 1, memory_order_relaxed);
    atomic_store_explicit(&e->ep.connected[e->ep.group.rank], 1, memory_order_relaxed);
    return e;
}

static int alloc_regions(struct entry *e)
{
    struct loci_endpoint *ep = &e->ep;

    for (int i = 0; i < ep->spec.nregions; i++) {
        const struct loci_region_spec *r = &ep->spec.region[i];
        int status;

        if (!provides(r, ep->group.rank))
            continue;
        status = loci_alloc(ep->rt, r->len, r->align, loci_endpoint_mem(ep, ep->group.rank, i));
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(loci_endpoint_mem(ep, ep->group.rank, i), ep->domain);
    }
    return LOCO_OK;
}

static int enter(struct loci_names *names, struct entry *e)
{
    int status = LOCO_ERR_NAME;

    pthread_mutex_lock(&names->lock);
    if (find(names, e->ep.name) == NULL) {
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

/* Entered first, joined after: who dies in between is found by one of peer_gone and this. */
static void join_all(struct entry *e)
{
    struct loco_runtime *rt = e->ep.rt;
    struct loci_control m;

    describe(e, LOCI_CONTROL_JOIN, 0, &m);
    for (int rank = 0; rank < e->ep.group.size; rank++) {
        int peer = e->ep.group.peer[rank];

        if (rank == e->ep.group.rank)
            continue;
        if (!loci_peer_alive(rt, peer))
            fail(e, LOCO_ERR_PEER_DEAD);
        else
            send(rt, peer, &m);
    }
}

int loci_endpoint_create(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                         struct loci_endpoint **ep)
{
    char name[LOCI_NAME_MAX];
    struct entry *e;
    int status = full_name(spec, name);

    if (status == LOCO_OK)
        status = check_spec(spec);
    if (status != LOCO_OK) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "endpoint \"%s\": %s", spec->name ? spec->name : "",
                 loco_strerror(status));
        return status;
    }
    e = new_entry(rt, spec);
    if (e == NULL)
        return LOCO_ERR_NO_MEMORY;
    memcpy(e->ep.name, name, sizeof name);
    e->ep.spec.name = e->ep.name;       /* the caller's strings may go */
    e->ep.spec.parent = NULL;
    status = alloc_regions(e);
    if (status == LOCO_OK)
        status = enter(rt->names, e);
    if (status != LOCO_OK) {
        free_entry(e);
        return status;
    }
    join_all(e);
    opened(rt->names, e);
    *ep = &e->ep;
    return LOCO_OK;
}

void loci_endpoint_destroy(struct loci_endpoint *ep)
{
    struct loci_names *names;
    struct loci_endpoint **link;
    struct entry *e;

    if (ep == NULL)
        return;
    e = entry_of(ep);
    names = ep->rt->names;
    pthread_mutex_lock(&names->lock);
    for (link = bucket_of(names, ep->name); *link != ep; link = &(*link)->next)
        ;
    *link = ep->next;
    while (e->busy > 0)
        pthread_cond_wait(&names->calm, &names->lock);
    pthread_mutex_unlock(&names->lock);
    free_entry(e);
}

/* ---- waiting ---- */

/* 0, 1 or a negative status, as loci_wait wants it. */
static int endpoint_state(struct loci_endpoint *ep)
{
    int failed = atomic_load_explicit(&ep->failed, memory_order_acquire);

    if (failed != LOCO_OK)
        return failed;
    return atomic_load_explicit(&ep->missing, memory_order_acquire) == 0;
}

static int endpoint_is_ready(void *arg)
{
    return endpoint_state(arg);
}

int loci_endpoint_ready(struct loci_endpoint *ep, int64_t timeout_ns)
{
    const struct loci_reason why = { .what = ep->name, .peer = -1, .timeout_ns = timeout_ns };

    return loci_wait(ep->rt, &why, endpoint_is_ready, ep);
}

struct all_ready {
    struct loci_names *names;
    uint64_t last;                      /* endpoints made later are none of this wait's */
};

static int all_are_ready(void *arg)
{
    struct all_ready *wait = arg;
    int state = 1;

    pthread_mutex_lock(&wait->names->lock);
    for (int b = 0; b < BUCKETS && state >= 0; b++)
        for (struct loci_endpoint *ep = wait->names->bucket[b]; ep != NULL; ep = ep->next) {
            int one = entry_of(ep)->number <= wait->last ? endpoint_state(ep) : 1;

            if (one < state)
                state = one;
        }
    pthread_mutex_unlock(&wait->names->lock);
    return state;
}

int loco_runtime_wait_ready(loco_runtime_t *rt, int64_t timeout_ns)
{
    const struct loci_reason why = {
        .what = "participants of endpoints", .peer = -1, .timeout_ns = timeout_ns,
    };
    struct all_ready wait = { rt->names, 0 };

    if (timeout_ns < 0 && timeout_ns != LOCO_FOREVER)
        return LOCO_ERR_ARG;
    pthread_mutex_lock(&rt->names->lock);
    wait.last = rt->names->numbers;
    pthread_mutex_unlock(&rt->names->lock);
    return loci_wait(rt, &why, all_are_ready, &wait);
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

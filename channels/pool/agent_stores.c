/* SPDX-License-Identifier: BSD-3-Clause */

/* What an agent keeps: making, removing and cleaning up, in the errands' thread. See agent.h. */

#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "move/rma.h"
#include "runtime.h"

static int refuse(struct loci_agent_job *job, int status, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct loci_agent_job *job, int status, const char *text, ...)
{
    va_list args;

    va_start(args, text);
    vsnprintf(job->reply.text, sizeof job->reply.text, text, args);
    va_end(args);
    return status;
}

static struct loci_kept *find(struct loco_agent *a, const char *name)
{
    struct loci_kept *k = a->kept;

    while (k != NULL && (k->removed || strcmp(k->name, name) != 0))
        k = k->next;
    return k;
}

/* ---- making ---- */

/* Of all its regions. */
static uint64_t bytes_of(const struct loci_endpoint *ep)
{
    uint64_t all = 0;

    for (int i = 0; i < ep->spec.nregions; i++)
        all += ep->spec.region[i].len;
    return all;
}

static const struct loci_endpoint *endpoint_of(const struct loci_kept *k)
{
    return k->store != NULL ? k->store->ep : k->box->ep;
}

/* Options with defaults put in. What its clients have is much in a small store. */
static bool is_too_much(struct loci_agent_job *job, const loco_store_options_t *o)
{
    struct loco_agent *a = job->agent;
    uint64_t more = loci_store_hosted_bytes(o, a->places + 1), used = atomic_load(&a->bytes);

    if (job->request.kind == LOCI_KEPT_MAILBOX)
        more = loci_mailbox_hosted_bytes(o->bytes, a->places + 1);
    if (a->memory == 0 || (more <= a->memory && used <= a->memory - more))
        return false;
    (void)refuse(job, LOCO_ERR_NO_MEMORY, "it takes %llu bytes, of which %llu are for values; of "
                 "the %llu that the pool's agent was given (its option --memory) %llu are in use",
                 (unsigned long long)more, (unsigned long long)o->bytes,
                 (unsigned long long)a->memory, (unsigned long long)used);
    return true;
}

/* What others have to know to use it. */
static void describe(const struct loco_agent *a, const struct loci_kept *k,
                     const loco_store_options_t *o, struct loci_record *record)
{
    *record = (struct loci_record){
        .members = (uint64_t)a->places + 1, .domain = endpoint_of(k)->domain, .bytes = o->bytes,
        .objects = o->objects, .roots = o->roots, .threads = (uint64_t)o->threads,
        .kind = k->store != NULL ? LOCI_KEPT_STORE : LOCI_KEPT_MAILBOX,
        .lease = k->lease, .lease_version = k->lease_version,
    };
    memcpy(record->name, k->name, sizeof record->name);
    loci_hosted_keys(endpoint_of(k), record->key);
}

/* Of words that processes of other machines change, too. */
static enum loci_domain domain_of(const struct loco_agent *a)
{
    return !a->several ? LOCI_DOMAIN_CPU
           : a->rt->ops->owner_atomics ? LOCI_DOMAIN_OWNER : LOCI_DOMAIN_NIC;
}

static int make_kept(struct loco_agent *a, enum loci_kept_kind kind, const char *name,
                     const loco_store_options_t *o, struct loci_kept *k)
{
    const loco_mailbox_options_t box = { .ring_bytes = o->bytes, .straight = o->bytes };
    struct loco_group group;
    int status = loci_pool_group(a->rt, LOCI_SELF, a->places, -1, &group);

    if (status != LOCO_OK)
        return status;
    snprintf(k->name, sizeof k->name, "%s", name);
    status = kind == LOCI_KEPT_MAILBOX
             ? loci_mailbox_make(a->rt, LOCI_MAILBOX_HOST, NULL, name, &group, -1, &box,
                                 domain_of(a), &k->box)
             : loci_store_make(a->rt, LOCI_STORE_HOST, NULL, name, &group, o, domain_of(a),
                               &k->store);
    free(group.peer);
    if (status != LOCO_OK)
        return status;
    k->bytes = bytes_of(endpoint_of(k));
    return LOCO_OK;
}

/* With defaults put in. */
static int complete(struct loci_agent_job *job, loco_store_options_t *o)
{
    loco_mailbox_options_t box = { .ring_bytes = o->bytes };
    int status;

    if (job->request.kind != LOCI_KEPT_MAILBOX)
        return loci_store_complete(job->agent->rt, job->request.name, job->agent->places + 1, o,
                                   o);
    status = loci_mailbox_complete(job->agent->rt, "loco_mailbox_open", job->request.name, &box,
                                   &box);
    o->bytes = box.ring_bytes;
    return status;
}

/* Nobody finds it yet. */
static int lend(struct loco_agent *a, struct loci_kept *k)
{
    int status = LOCO_OK;

    pthread_mutex_lock(&a->lock);
    if (k->store != NULL)
        status = loci_leases_lend(a->leases, &k->lease, &k->lease_version);
    pthread_mutex_unlock(&a->lock);
    return status;
}

static int make(struct loci_agent_job *job)
{
    struct loco_agent *a = job->agent;
    const struct loci_pool_request *r = &job->request;
    const int agent = 0;
    loco_store_options_t o = { .bytes = r->bytes, .objects = r->objects, .roots = r->roots,
                               .hosts = &agent, .nhosts = 1,
                               .threads = r->threads > 65536 ? 65537 : (int)r->threads };
    struct loci_kept *k;
    int status;

    status = complete(job, &o);
    if (status != LOCO_OK)
        return refuse(job, status, "the options make no sense for a pool of %d places: bytes %llu, "
                      "objects %llu, roots %llu, threads %llu", a->places,
                      (unsigned long long)r->bytes, (unsigned long long)r->objects,
                      (unsigned long long)r->roots, (unsigned long long)r->threads);
    if (is_too_much(job, &o))
        return LOCO_ERR_NO_MEMORY;
    k = calloc(1, sizeof *k);
    if (k == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = make_kept(a, (enum loci_kept_kind)r->kind, r->name, &o, k);
    if (status != LOCO_OK) {
        free(k);
        return refuse(job, status, "the agent cannot make it: %s; its log says more",
                      loco_strerror(status));
    }
    status = lend(a, k);
    if (status != LOCO_OK) {
        loco_store_destroy(k->store);
        free(k);
        return refuse(job, status, "there are as many stores as there may be, with those that were "
                      "removed and that somebody may use still");
    }
    describe(a, k, &o, &job->record);
    k->next = a->kept;
    a->kept = k;
    atomic_fetch_add(&a->stores, 1);
    atomic_fetch_add(&a->bytes, k->bytes);
    return LOCO_OK;
}

/* ---- removing ----
 *
 * A store's memory is given to others when all leases of it are over (lease.h); a mailbox's, when
 * all have left who were in the pool when it was removed. */

/* A mailbox: who has come since the first thread took it out of the directory does not find it. */
static uint64_t *users_now(struct loco_agent *a)
{
    uint64_t *users = calloc((size_t)a->places, sizeof *users);

    for (int i = 0; users != NULL && i < a->places; i++)
        users[i] = a->seat[i].state == LOCI_SEAT_VACANT ? 0 : a->seat[i].number;
    return users;
}

static void send_reclaim(struct loco_agent *a);

static int remove_kept(struct loci_agent_job *job)
{
    struct loco_agent *a = job->agent;
    struct loci_kept *k = find(a, job->request.name);

    if (k == NULL)
        return LOCO_ERR_NOT_FOUND;
    pthread_mutex_lock(&a->lock);
    if (k->store != NULL)
        loci_leases_end(a->leases, k->lease);
    else
        k->users = users_now(a);
    k->removed = k->store != NULL || k->users != NULL;
    pthread_mutex_unlock(&a->lock);
    if (!k->removed)
        return LOCO_ERR_NO_MEMORY;
    atomic_fetch_sub(&a->stores, 1);
    atomic_fetch_add(&a->removed, 1);
    if (k->store != NULL)
        send_reclaim(a);
    return LOCO_OK;
}

/* Under the lock: the other agent has said that no process of its machine reaches the store. */
static bool is_revoked(struct loco_agent *a, uint64_t via, uint64_t lease_version)
{
    struct loci_agent_revoking *r = a->revoking;

    while (r != NULL && (r->via != via || r->lease_version != lease_version))
        r = r->next;
    if (r != NULL)
        return r->state == LOCI_REVOKE_DONE;
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return false;                   /* later */
    *r = (struct loci_agent_revoking){ a->revoking, via, lease_version, LOCI_REVOKE_WANTED };
    a->revoking = r;
    loci_agent_wake(a);
    return false;
}

static void forget_revoking(struct loco_agent *a, uint64_t lease_version)
{
    struct loci_agent_revoking **at = &a->revoking, *r;

    while ((r = *at) != NULL)
        if (r->lease_version == lease_version) {
            *at = r->next;
            free(r);
        } else {
            at = &r->next;
        }
}

struct reclaiming {
    struct loco_agent *agent;
    const struct loci_kept *kept;
};

/* Who goes by ports is kept out by its own agent; who has connections here, by this one. */
static bool is_kept_out(void *ctx, int holder, int peer)
{
    const struct reclaiming *r = ctx;
    struct loco_agent *a = r->agent;

    if (a->seat[holder].via != 0 && loci_peer_is_noted(a->rt, peer))
        return is_revoked(a, a->seat[holder].via, r->kept->lease_version);
    loci_peer_cut(a->rt, peer);
    return false;
}

/* Under the lock. */
static bool all_have_left(const struct loco_agent *a, const struct loci_kept *k)
{
    for (int i = 0; i < a->places; i++)
        if (k->users[i] != 0 && a->seat[i].state != LOCI_SEAT_VACANT
            && a->seat[i].number == k->users[i])
            return false;
    return true;
}

/* Whether nobody can use it any more. */
static bool is_unused(struct loco_agent *a, const struct loci_kept *k)
{
    struct reclaiming r = { a, k };
    bool unused;

    if (!k->removed)
        return false;
    pthread_mutex_lock(&a->lock);
    unused = k->store == NULL ? all_have_left(a, k)
             : loci_leases_reclaim(a->leases, k->lease, is_kept_out, &r) == LOCO_OK;
    if (unused && k->store != NULL)
        forget_revoking(a, k->lease_version);
    pthread_mutex_unlock(&a->lock);
    return unused;
}

static void free_kept(struct loco_agent *a, struct loci_kept *k)
{
    atomic_fetch_sub(&a->bytes, k->bytes);
    loco_store_destroy(k->store);
    loco_mailbox_destroy(k->box);
    free(k->users);
    free(k);
}

static void free_unused(struct loco_agent *a)
{
    struct loci_kept **at = &a->kept, *k;

    while ((k = *at) != NULL) {
        if (!is_unused(a, k)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        atomic_fetch_sub(&a->removed, 1);
        free_kept(a, k);
    }
}

struct reclaim {
    struct loci_errand errand;          /* first */
    struct loco_agent *agent;
};

static bool reclaim_step(struct loci_errand *errand)
{
    struct loco_agent *a = ((struct reclaim *)errand)->agent;
    bool some = false;

    free_unused(a);
    for (const struct loci_kept *k = a->kept; k != NULL; k = k->next)
        some = some || (k->removed && k->store != NULL);
    a->reclaims = some;
    return !some;
}

static void reclaim_end(struct loci_errand *errand)
{
    free(errand);
}

/* Again and again, until all is given back. Without memory for that, with the next errand. */
static void send_reclaim(struct loco_agent *a)
{
    struct reclaim *r = a->reclaims ? NULL : calloc(1, sizeof *r);

    if (r == NULL)
        return;
    a->reclaims = true;
    *r = (struct reclaim){ { .step = reclaim_step, .end = reclaim_end }, a };
    loci_errands_send(&a->errands, &r->errand);
}

void loci_agent_free_stores(struct loco_agent *a)
{
    struct loci_agent_revoking *r;
    struct loci_kept *k;

    while ((r = a->revoking) != NULL) {
        a->revoking = r->next;
        free(r);
    }

    while ((k = a->kept) != NULL) {
        a->kept = k->next;
        free_kept(a, k);
    }
}

/* ---- questions ---- */

static bool job_step(struct loci_errand *errand)
{
    struct loci_agent_job *job = (struct loci_agent_job *)errand;

    job->reply.status = job->request.ask == LOCI_POOL_MAKE ? make(job) : remove_kept(job);
    free_unused(job->agent);
    if (job->reply.status != LOCO_OK && job->reply.text[0] == '\0')
        (void)refuse(job, 0, "%s", loco_strerror(job->reply.status));
    return true;
}

static void job_end(struct loci_errand *errand)
{
    loci_agent_done((struct loci_agent_job *)errand);
}

void loci_agent_send_job(struct loci_agent_job *job)
{
    job->errand = (struct loci_errand){ .step = job_step, .end = job_end };
    loci_errands_send(&job->agent->errands, &job->errand);
}

/* ---- places ---- */

struct left {
    struct loci_errand errand;          /* first */
    struct loco_agent *agent;
    int place, peer;
    bool said;                          /* that it leaves, when all it did was done; or it is of
                                         * this machine, where that is known */
    bool told;
    bool guest;                         /* it came by another agent: */
    enum loci_guest_end end;
    int via;                            /* that is lost; of which this is a user. -1: none */
};

/* All who have left and are not cleaned up after, as far as that is known. */
static void tell_of_all(struct loco_agent *a, loco_store_t *store)
{
    for (int i = 0; i < a->places; i++) {
        struct loci_seat seat;

        pthread_mutex_lock(&a->lock);
        seat = a->seat[i];
        pthread_mutex_unlock(&a->lock);
        /* It stays so: the errand that makes it vacant is of this thread. */
        if (seat.state == LOCI_SEAT_LEFT)
            loci_store_gone(store, i + 1, seat.peer);
    }
}

/* Of one who came by another agent nothing comes any more once that says so, or has gone itself.
 * Then it has gone as well. */
static bool guest_is_over(struct left *left)
{
    struct loco_runtime *rt = left->agent->rt;

    if (left->via >= 0 && (loci_peer_alive(rt, left->via) || !loci_peer_is_silent(rt, left->via)))
        return false;
    if (left->guest)
        loci_peer_say_gone(rt, left->peer, left->end != LOCI_GUEST_SAID);
    return true;
}

/* It has released it, or nothing of it arrives any more. */
static bool lease_is_over(struct loco_agent *a, int place)
{
    int status;

    pthread_mutex_lock(&a->lock);
    status = loci_leases_dismiss(a->leases, place);
    pthread_mutex_unlock(&a->lock);
    return status == LOCO_OK;
}

/* Of a process that closed its connection and lives on, or whose death is not known yet, the stocks
 * are in order, or it is not over yet. */
static bool left_step(struct loci_errand *errand)
{
    struct left *left = (struct left *)errand;
    struct loco_agent *a = left->agent;
    bool cleaned = false;

    /* What it wrote from another machine may come behind the end of its connection. */
    if (!guest_is_over(left))
        return false;
    if (!left->said && loci_peer_alive(a->rt, left->peer))
        return false;
    if (!lease_is_over(a, left->place))
        return false;
    for (struct loci_kept *k = a->kept; k != NULL; k = k->next) {
        int status = LOCO_OK;

        if (k->box != NULL) {
            status = loci_mailbox_vacate(k->box, left->place + 1, left->peer);
        } else if (!k->removed) {
            tell_of_all(a, k->store);
            status = loci_store_vacate(k->store, left->place + 1, left->peer, &cleaned);
        }
        if (status == LOCO_ERR_AGAIN)
            return false;
        if (status != LOCO_OK && !left->told)
            LOCI_LOG(a->rt, LOCO_LOG_ERROR, "pool %s: place %d cannot be cleaned up in store %s, "
                     "and is tried again: %s", a->pool, left->place, k->name,
                     loco_strerror(status));
        left->told = left->told || status != LOCO_OK;
        if (status != LOCO_OK)
            return false;
    }
    atomic_fetch_add(&a->cleaned, cleaned);
    return true;
}

static void left_end(struct loci_errand *errand)
{
    struct left *left = (struct left *)errand;
    struct loco_agent *a = left->agent;

    loci_peers_end_use(a->rt, &left->peer, 1);
    loci_peers_let_go(a->rt, &left->peer, 1);
    if (left->via >= 0)
        loci_peers_end_use(a->rt, &left->via, 1);
    pthread_mutex_lock(&a->lock);
    a->seat[left->place].state = LOCI_SEAT_VACANT;
    pthread_mutex_unlock(&a->lock);
    atomic_fetch_sub(&a->leaving, 1);
    free_unused(a);
    free(left);
}

static int send_left(struct loco_agent *a, const struct left *as)
{
    struct left *left = calloc(1, sizeof *left);

    if (left == NULL)
        return LOCO_ERR_NO_MEMORY;
    *left = *as;
    left->errand = (struct loci_errand){ .step = left_step, .end = left_end };
    left->agent = a;
    left->peer = a->seat[left->place].peer;
    if (left->via >= 0)
        loci_peers_use(a->rt, &left->via, 1);
    loci_errands_send(&a->errands, &left->errand);
    return LOCO_OK;
}

int loci_agent_send_left(struct loco_agent *a, int place, bool said)
{
    return send_left(a, &(struct left){ .place = place, .said = said, .via = -1 });
}

int loci_agent_send_guest_left(struct loco_agent *a, int place, enum loci_guest_end end, int via)
{
    return send_left(a, &(struct left){ .place = place, .said = end == LOCI_GUEST_SAID, .via = via,
                                        .guest = true, .end = end });
}

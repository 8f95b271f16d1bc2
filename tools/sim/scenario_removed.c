/* SPDX-License-Identifier: BSD-3-Clause */

/* Stores that are removed, and whose memory is used for something else as soon as their host is
 * told that it is free, while others have them open: process 0 keeps some stores, removes one after
 * the other, uses the memory for a while itself, and makes another store, where the one before was.
 * The others open what is there, make transactions, and are stopped for longer than a lease now and
 * then. Each value says of which store it is: nobody ever finds one of another store, what the host
 * keeps there is never changed, and whoever has a store open that has gone is told so. */

#include "config.h"

#include "memory/memory.h"
#include "pool/pool_lease.h"
#include "runtime.h"
#include "scenario_util.h"
#include "threads/worker.h"
#include "wait.h"

#define PROCESSES 5
#define STORES 2
#define ROOTS 2
#define WORDS 4                         /* of a value */
#define REMOVALS 4                      /* for each round */
#define VISITS 4
#define CALLS 12                        /* of a visit */
#define PIECES 4                        /* that the host takes of the memory itself */
#define PIECE 8192                      /* bytes */
#define USES 256

struct kept {
    bool there;
    uint64_t use;                       /* in each of its values; from 1 */
    uint32_t record;
    uint64_t version;
    struct loci_memkey key[LOCI_REGIONS_MAX];
    loco_store_t *store;                /* the host's */
};

struct state {
    struct sim_state common;            /* first */
    struct loci_lease_board board;
    struct kept kept[STORES];
    bool ready, over;                   /* the host: it has stores; it removes none any more */
    bool ended[PROCESSES];
    bool withdrawn[USES];               /* by use: it was, */
    bool reclaimed[USES];               /* and its memory is the host's again */
    uint64_t use;
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    int rank;
    struct loci_leases *leases;         /* the host's */
    /* a client's: */
    struct loci_pool_lease lease;
    struct loci_worker *renewer;
    bool closes;
    int64_t still;                      /* stopped until then */
    int64_t held;                       /* the lease, until then, as far as was seen */
    bool late;                          /* it was over for so long that the host may cut it off */
    uint64_t written;
};

static bool is_over(const struct state *s, int rank)
{
    return s->ended[rank] || loci_sim_is_stopped(rank);
}

static int make_store(struct user *u, const char *name, loco_store_t **store)
{
    static const int host = 0;
    int peer[PROCESSES], n = u->run->processes;
    struct loco_group group = { .rt = u->rt, .size = n, .rank = u->rank, .peer = peer };
    loco_store_options_t o = { .bytes = 65536, .objects = 16, .roots = ROOTS, .hosts = &host,
                               .nhosts = 1, .threads = 1 };
    enum loci_domain domain = u->run->one_node ? LOCI_DOMAIN_CPU
                              : u->rt->ops->owner_atomics ? LOCI_DOMAIN_OWNER : LOCI_DOMAIN_NIC;

    for (int i = 0; i < n; i++)
        peer[i] = LOCI_VACANT;
    peer[0] = u->rt->everyone->peer[0];
    peer[u->rank] = LOCI_SELF;
    TRY(u->run, loci_store_complete(u->rt, name, n, &o, &o));
    TRY(u->run, loci_store_make(u->rt, u->rank == 0 ? LOCI_STORE_HOST : LOCI_STORE_USE, NULL, name,
                                &group, &o, domain, store));
    return SIM_FINE;
}

/* ---- the host ---- */

static int fill_roots(struct user *u, loco_store_t *store, uint64_t use)
{
    uint64_t value[WORDS];
    loco_tx_t *tx;
    int status;

    for (int i = 0; i < WORDS; i++)
        value[i] = use << 32;
    TRY(u->run, loco_tx_open(store, &tx));
    status = loco_tx_begin(tx);
    for (uint64_t i = 0; i < ROOTS && status == LOCO_OK; i++)
        status = loco_tx_write(tx, loco_store_root(store, i), value, sizeof value);
    if (status == LOCO_OK)
        status = loco_tx_commit(tx);
    loco_tx_close(tx);
    TRY(u->run, status);
    return SIM_FINE;
}

static int keep(struct user *u, int i)
{
    struct kept *k = &u->s->kept[i];
    struct kept one = { .use = ++u->s->use };

    PASS(make_store(u, i == 0 ? "a" : "b", &one.store));
    loci_hosted_keys(one.store->ep, one.key);
    PASS(fill_roots(u, one.store, one.use));
    TRY(u->run, loci_leases_lend(u->leases, &one.record, &one.version));
    one.there = true;
    *k = one;
    return SIM_FINE;
}

struct reclaim {
    struct user *u;
    uint32_t record;
};

static int is_free(void *arg)
{
    const struct reclaim *r = arg;
    int status = loci_leases_reclaim(r->u->leases, r->record, NULL, NULL);

    return status == LOCO_ERR_AGAIN ? 0 : status == LOCO_OK ? 1 : status;
}

#define PATTERN(word) (UINT64_C(0xa5a5000000000000) + (word))

static int check_piece(struct loci_mem *mem)
{
    const uint64_t *word = (const void *)loci_mem_ptr(mem);

    for (uint64_t i = 0; i < mem->key.len / 8; i++)
        WANT(sim_peek(&word[i]) == PATTERN(i), "memory of a store that is no more was written: "
             "word %d is %llx", (int)i, (unsigned long long)sim_peek(&word[i]));
    return SIM_FINE;
}

/* The host itself keeps something where the store was. */
static int use_memory(struct user *u)
{
    struct loci_mem piece[PIECES];
    int n = 0, result = SIM_FINE;

    while (n < PIECES && loci_alloc(u->rt, PIECE, 0, &piece[n]) == LOCO_OK) {
        for (uint64_t i = 0; i < PIECE / 8; i++)
            ((uint64_t *)(void *)loci_mem_ptr(&piece[n]))[i] = PATTERN(i);
        n++;
    }
    for (uint32_t i = loci_sim_draw(40); i > 0; i--)
        loci_sim_pause();
    for (int i = 0; i < n; i++) {
        if (result == SIM_FINE)
            result = check_piece(&piece[i]);
        loci_free(u->rt, &piece[i]);
    }
    return result;
}

static int remove_one(struct user *u, int i)
{
    const struct loci_reason why = { .what = "holders of a lease", .peer = -1,
                                     .timeout_ns = LOCO_FOREVER, .kind = LOCI_WAIT_SYNC };
    struct kept *k = &u->s->kept[i];
    struct reclaim r = { u, k->record };

    k->there = false;
    loci_leases_end(u->leases, k->record);
    u->s->withdrawn[k->use % USES] = true;
    TRY(u->run, loci_wait(u->rt, &why, is_free, &r));
    u->s->reclaimed[k->use % USES] = true;
    loco_store_destroy(k->store);
    k->store = NULL;
    return use_memory(u);
}

static int others_are_over(void *arg)
{
    const struct user *u = arg;

    for (int i = 1; i < u->run->processes; i++)
        if (!is_over(u->s, i))
            return 0;
    return 1;
}

static int remove_some(struct user *u)
{
    for (int i = 0; i < STORES; i++)
        PASS(keep(u, i));
    u->s->ready = true;
    for (int i = 0; i < u->run->rounds * REMOVALS && !others_are_over(u); i++) {
        int which = (int)loci_sim_draw(STORES);

        for (uint32_t j = loci_sim_draw(200); j > 0; j--)
            loci_sim_pause();
        PASS(remove_one(u, which));
        PASS(keep(u, which));
    }
    return SIM_FINE;
}

static int be_host(struct user *u)
{
    int result;

    TRY(u->run, loci_leases_open(u->rt, STORES + 1, u->run->processes, &u->leases));
    for (int i = 1; i < u->run->processes; i++)
        loci_leases_admit(u->leases, i, u->rt->everyone->peer[i]);
    loci_leases_board(u->leases, &u->s->board);
    result = remove_some(u);
    u->s->over = true;
    return result;
}

/* ---- clients ---- */

static int has_passed(void *arg)
{
    const int64_t *until = arg;

    return loci_sim_time() >= *until;
}

/* Nobody runs it for some leases. */
static void stand_still(struct user *u)
{
    int64_t until = loci_sim_time() + u->rt->tunables.key_lease * (1 + loci_sim_draw(4)) / 2;

    u->still = until;
    sim_wait(u->rt, has_passed, &until);
}

/* Whoever renews in time is not cut off: the last renewal began before what was withdrawn was, two
 * leases ago. */
static bool is_late(const struct user *u)
{
    return u->held != 0 && loci_sim_time() - u->held >= u->rt->tunables.key_lease;
}

static void look_at_lease(struct user *u)
{
    u->late = u->late || is_late(u);
    if (u->lease.lease.until > u->held)
        u->held = u->lease.lease.until;
    u->late = u->late || is_late(u);
}

static void renew(void *arg)
{
    struct user *u = arg;

    while (!u->closes) {
        loci_sim_sleep(u->rt->tunables.key_lease / (3 + loci_sim_draw(40)));
        if (loci_sim_time() < u->still)
            sim_wait(u->rt, has_passed, &u->still);
        (void)loci_pool_lease_renew(&u->lease);
        look_at_lease(u);
    }
}

struct visit {
    struct user *u;
    struct kept kept;                   /* as it was when it was opened */
    int which;
    loco_tx_t *tx;
};

static int check_value(const struct visit *v, const uint64_t *value)
{
    for (int i = 0; i < WORDS; i++)
        WANT(value[i] >> 32 == v->kept.use, "p%d: a value of store %d was found in store %d",
             v->u->rank, (int)(value[i] >> 32), (int)v->kept.use);
    return SIM_FINE;
}

/* What a call on the store came to; SIM_TOLD: it has gone, or its host has. */
static int told(const struct visit *v, int status, const char *call)
{
    const struct kept *now = &v->u->s->kept[v->which];
    struct user *u = v->u;

    look_at_lease(u);
    if (status == LOCO_ERR_STATE) {
        WANT(!now->there || now->use != v->kept.use, "p%d: %s: the store is there, and it is said "
             "to be gone", u->rank, call);
        return SIM_TOLD;
    }
    if (status == LOCO_ERR_PEER_DEAD) {
        WANT(loci_sim_is_stopped(0) || u->run->faults || (u->late && !u->run->one_node),
             "p%d: %s: it is cut off, and has renewed in time", u->rank, call);
        return SIM_TOLD;
    }
    return status == LOCO_OK || status == LOCO_ERR_CONFLICT
           ? SIM_FINE : loci_sim_fail("p%d: %s: %s", u->rank, call, loco_strerror(status));
}

/* Whoever was stopped for a lease finds out that the store has gone before anything is posted. */
static bool must_be_told(const struct visit *v)
{
    int64_t until = v->u->lease.lease.until;

    return v->u->s->withdrawn[v->kept.use % USES] && until != 0 && loci_sim_time() >= until
           && !v->u->run->one_node;
}

typedef int call_fn(struct visit *v, uint64_t *value);

static int one_call(struct visit *v, call_fn *call, const char *name)
{
    uint64_t value[WORDS] = { 0 };
    bool reclaimed = v->u->s->reclaimed[v->kept.use % USES], late = must_be_told(v);
    int status = call(v, value);

    if (status == LOCO_OK && value[0] != 0) {
        PASS(check_value(v, value));
        WANT(!reclaimed, "p%d: %s: a store whose memory is given back is used", v->u->rank, name);
    }
    WANT(status != LOCO_OK || !late, "p%d: %s: it was stopped for a lease, and is not told that "
         "the store was removed", v->u->rank, name);
    return told(v, status, name);
}

static loco_object_t some_root(void)
{
    return loci_object(0, loci_sim_draw(ROOTS));
}

static int read_call(struct visit *v, uint64_t *value)
{
    return loco_tx_read(v->tx, some_root(), value, WORDS * 8);
}

static int write_call(struct visit *v, uint64_t *value)
{
    uint64_t to[WORDS];

    (void)value;
    v->u->written++;
    for (int i = 0; i < WORDS; i++)
        to[i] = v->kept.use << 32 | v->u->written << 8 | (uint64_t)v->u->rank;
    return loco_tx_write(v->tx, some_root(), to, sizeof to);
}

static int new_call(struct visit *v, uint64_t *value)
{
    const uint64_t to[WORDS] = { v->kept.use << 32 };
    loco_object_t object;
    int status = loco_tx_new(v->tx, LOCO_ANY_HOST, to, sizeof to, &object);

    (void)value;
    return status == LOCO_ERR_NO_MEMORY || status == LOCO_ERR_FULL ? LOCO_OK : status;
}

static int commit_call(struct visit *v, uint64_t *value)
{
    (void)value;
    return loco_tx_commit(v->tx);
}

static int begin_call(struct visit *v, uint64_t *value)
{
    (void)value;
    loco_tx_abort(v->tx);
    return loco_tx_begin(v->tx);
}

static int transact(struct visit *v)
{
    PASS(one_call(v, begin_call, "begin"));
    PASS(one_call(v, read_call, "read"));
    if (loci_sim_draw(8) == 0)
        stand_still(v->u);
    if (loci_sim_draw(2) == 0)
        PASS(one_call(v, write_call, "write"));
    if (loci_sim_draw(4) == 0)
        PASS(one_call(v, new_call, "new"));
    return one_call(v, commit_call, "commit");
}

/* Of a store that has gone nothing is used any more, whatever is called. */
static int stay_told(struct visit *v)
{
    for (int i = 0; i < 2; i++) {
        WANT(one_call(v, begin_call, "begin") != SIM_FINE
             || one_call(v, read_call, "read") != SIM_FINE, "p%d: a store that has gone is back",
             v->u->rank);
        loci_sim_sleep(v->u->rt->tunables.key_lease / 4);
    }
    return SIM_TOLD;
}

static int use_store(struct visit *v)
{
    int result = SIM_FINE;

    for (uint32_t i = loci_sim_draw(CALLS); i > 0 && result == SIM_FINE; i--) {
        result = transact(v);
        if (loci_sim_draw(6) == 0)
            stand_still(v->u);
    }
    return result != SIM_TOLD || !loci_peer_alive(v->u->rt, v->u->lease.peer) ? result
           : stay_told(v);
}

/* The store, if it is there still. */
static int open_store(struct visit *v, loco_store_t **store, struct loci_pool_lent *lent)
{
    struct user *u = v->u;
    int status;

    if (!u->lease.held)
        u->held = loci_sim_time() + u->rt->tunables.key_lease;
    PASS(make_store(u, "user", store));
    TRY(u->run, loci_hosted_import((*store)->ep, 0, v->kept.key));
    status = loci_pool_lease_use(&u->lease, *store, v->kept.record, v->kept.version, lent);
    if (status == LOCO_ERR_AGAIN)
        return SIM_TOLD;
    PASS(told(v, status, "use"));
    return told(v, loco_tx_open(*store, &v->tx), "open");
}

static void drop(void *ctx)
{
    loci_pool_lease_drop(ctx);
}

static int visit(struct user *u)
{
    struct visit v = { .u = u, .which = (int)loci_sim_draw(STORES) };
    struct loci_pool_lent lent = { .lease = NULL };
    loco_store_t *store = NULL;
    int result;

    v.kept = u->s->kept[v.which];
    if (!v.kept.there) {
        loci_sim_sleep(u->rt->tunables.key_lease / 4);
        return SIM_FINE;
    }
    result = open_store(&v, &store, &lent);
    if (store != NULL && lent.lease != NULL) {
        store->gone = drop;
        store->gone_ctx = &lent;
    }
    if (result == SIM_FINE)
        result = use_store(&v);
    loco_tx_close(v.tx);
    loco_store_destroy(store);
    return result == SIM_TOLD && loci_peer_alive(u->rt, u->lease.peer) ? SIM_FINE : result;
}

static int is_ready(void *arg)
{
    const struct user *u = arg;

    return u->s->ready || is_over(u->s, 0);
}

static int be_client(struct user *u)
{
    int result = SIM_FINE;

    sim_wait(u->rt, is_ready, u);
    if (!u->s->ready)
        return SIM_TOLD;
    TRY(u->run, loci_pool_lease_open(u->rt, u->rt->everyone->peer[0], &u->s->board, u->rank,
                                     &u->lease));
    TRY(u->run, loci_worker_start(u->rt, "renew", renew, u, &u->renewer));
    for (int i = 0; i < u->run->rounds * VISITS && !u->s->over && result == SIM_FINE; i++)
        result = visit(u);
    u->closes = true;
    loci_worker_join(u->renewer);
    loci_pool_lease_close(&u->lease);
    return result;
}

/* ---- the body ---- */

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank, .lease.peer = -1 };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    result = rank == 0 ? be_host(&u) : be_client(&u);
    s->ended[rank] = true;
    if (rank == 0)
        sim_wait(rt, others_are_over, &u);
    sim_leave(&seat);
    for (int i = 0; i < STORES && rank == 0; i++)
        loco_store_destroy(s->kept[i].store);
    loci_leases_close(u.leases);
    return result == SIM_WRONG ? SIM_WRONG : 0;
}

static int begin(struct sim_run *run)
{
    return run->processes > PROCESSES || run->threads > 1
           ? -1 : sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_KEY_LEASE=2ms", NULL };

extern const struct sim_scenario sim_scenario_removed;
const struct sim_scenario sim_scenario_removed = {
    .name = "removed",
    .about = "stores that are removed while others have them open and are stopped for longer than "
             "a lease: their memory is used for something else, and nobody reaches it any more",
    .processes = 3, .threads = 1, .rounds = 2, .processes_min = 2,
    .settings = settings, .begin = begin, .body = body, .free = sim_state_free,
};

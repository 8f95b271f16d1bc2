/* SPDX-License-Identifier: BSD-3-Clause */

/* See scenario_store.h. All that live have done what they wanted to, and one of them looks: nothing
 * is owned for ever, so that it can read all accounts and change them within a few tries; what the
 * dead had can be used again, and what the living have was given to nobody. */

#include "config.h"

#include "scenario_store.h"

#define TRIES 10
#define PAUSE 20000                     /* ns */
#define FILL_MAX 1024                   /* objects */
#define AT_ONCE 16                      /* of them in one transaction */

struct end {
    struct store_client c;
    bool lost[STORE_SLOTS_MAX];         /* with their host */
    int host;                           /* that is filled */
    int n;                              /* objects that fill it */
    loco_object_t object[FILL_MAX];
    uint64_t number[FILL_MAX];
};

/* ---- the accounts ---- */

static int try_all(struct end *e, bool write)
{
    struct store_client *c = &e->c;

    PASS(store_begin(c, false));
    for (int i = 0; i < c->u->s->slots; i++) {
        int result = e->lost[i] ? SIM_FINE : store_read(c, i);

        if (result == SIM_TOLD)
            e->lost[i] = true;
        PASS(result);
    }
    for (int i = 0; i < c->u->s->slots && write; i++)
        if (!e->lost[i])
            PASS(store_write(c, i, c->view[i].account.balance));
    return store_commit(c);
}

static int all(struct end *e, bool write)
{
    int result = STORE_AGAIN;

    for (int i = 0; i < TRIES + STORE_SLOTS_MAX; i++) {
        result = try_all(e, write);
        if (result == SIM_FINE || result == SIM_WRONG)
            return result;
        store_abort(&e->c);
        loci_sim_sleep(PAUSE);
    }
    return loci_sim_fail("p%d alone cannot %s all objects in %d tries", e->c.u->rank,
                         write ? "write" : "read", TRIES);
}

/* ---- memory ---- */

static int objects_there(const struct store_state *s)
{
    int n = s->slots;

    for (int i = 0; i < s->slots; i++)
        n += s->indirect[i];
    return n;
}

static int scavenge(struct end *e)
{
    struct store_user *u = e->c.u;
    loco_store_scavenged_t found = { 0 };
    int status = LOCO_OK;

    for (int i = 0; i < TRIES; i++) {
        status = loco_store_scavenge(u->store, &found);
        if (status != LOCO_ERR_AGAIN)
            PASS(store_told(&e->c, status, "scavenge"));
        if (status == LOCO_OK && found.left == 0)
            break;
        loci_sim_sleep(PAUSE);
    }
    if (store_host_died(u))
        return SIM_FINE;                /* what it kept is gone */
    WANT(status == LOCO_OK, "scavenge: %s, %d times", loco_strerror(status), TRIES);
    WANT(found.left == 0, "%llu blocks and places stay left, and nobody is in a transaction",
         (unsigned long long)found.left);
    WANT(found.objects == (uint64_t)objects_there(u->s), "%llu objects are there; it should be %d",
         (unsigned long long)found.objects, objects_there(u->s));
    return SIM_FINE;
}

/* Some more objects at the host; STORE_FULL: all of them there were. */
static int add_some(struct end *e)
{
    struct store_client *c = &e->c;
    unsigned char bytes[STORE_VALUE_MAX];
    int n = e->n, status = LOCO_OK;

    TRY(c->u->run, loco_tx_begin_as(c->tx, LOCO_TX_RELAXED));
    while (n < e->n + AT_ONCE && n < FILL_MAX) {
        struct store_value v = store_make(c, 1);
        size_t len = store_encode(c, STORE_ACCOUNT, &v, bytes);

        e->number[n] = v.number;
        status = loco_tx_new(c->tx, e->host, bytes, len, &e->object[n]);
        if (status != LOCO_OK)
            break;
        n++;
    }
    if (status != LOCO_ERR_FULL)
        PASS(store_told(c, status, "new"));
    PASS(store_told(c, loco_tx_commit(c->tx), "commit"));
    e->n = n;
    return status == LOCO_ERR_FULL ? STORE_FULL : SIM_FINE;
}

static int fill(struct end *e)
{
    int result = SIM_FINE;

    e->n = 0;
    while (result == SIM_FINE && e->n < FILL_MAX)
        result = add_some(e);
    return result == STORE_FULL ? SIM_FINE : result;
}

static int look_at(struct end *e, int i)
{
    struct store_client *c = &e->c;
    unsigned char bytes[STORE_VALUE_MAX];
    struct store_value v;
    size_t len;

    PASS(store_told(c, loco_tx_read_some(c->tx, e->object[i], bytes, sizeof bytes, &len), "read"));
    PASS(store_decode(c, STORE_ACCOUNT, bytes, len, len, &v));
    WANT(v.number == e->number[i], "object %d of %d that fill a host has number %llx; it was %llx",
         i, e->n, (unsigned long long)v.number, (unsigned long long)e->number[i]);
    return store_told(c, loco_tx_free(c->tx, e->object[i]), "free");
}

/* What was made is right, and then it is freed. */
static int empty(struct end *e)
{
    struct store_client *c = &e->c;

    for (int i = 0; i < e->n; i += AT_ONCE) {
        TRY(c->u->run, loco_tx_begin_as(c->tx, LOCO_TX_RELAXED));
        for (int k = i; k < e->n && k < i + AT_ONCE; k++)
            PASS(look_at(e, k));
        PASS(store_told(c, loco_tx_commit(c->tx), "commit"));
    }
    return SIM_FINE;
}

/* Objects that fit for sure: all that is not an account's but for a page or two that each other
 * client has begun, and what the accounts' blocks and their copies on the way take. */
static int must_fit(const struct end *e)
{
    const struct store_user *u = e->c.u;
    int clients = 0;
    int pages = (int)(u->s->options.bytes / STORE_PAGE);

    for (int i = 0; i < u->run->processes; i++)
        clients += loci_sim_is_stopped(i) ? 0 : u->run->threads;
    return (pages - 1 - clients) * (int)(STORE_PAGE / STORE_BLOCK_MAX);
}

static int fill_twice(struct end *e)
{
    int first, least = must_fit(e);

    e->host = store_some_host(e->c.u);
    PASS(fill(e));
    first = e->n;
    WANT(first >= least, "host %d has room for %d objects of %zu bytes; it should be %d at least",
         e->host, first, e->c.u->s->len, least);
    PASS(all(e, false));
    PASS(empty(e));
    PASS(fill(e));
    WANT(e->n >= first, "host %d had room for %d objects, and after they are freed for %d",
         e->host, first, e->n);
    return all(e, false);
}

/* Looking is long, so it is not done in each run. */
static int memory(struct end *e)
{
    const struct store_user *u = e->c.u;

    if (!u->s->tight && !sim_any_stopped(u->run) && loci_sim_draw(4) != 0)
        return SIM_FINE;
    PASS(scavenge(e));
    PASS(all(e, false));
    if (!u->s->tight || store_host_died(u))
        return SIM_FINE;
    return fill_twice(e);
}

static int look(struct end *e)
{
    int result;

    PASS(all(e, false));
    PASS(all(e, true));
    PASS(all(e, false));
    if (store_host_died(e->c.u))
        return SIM_FINE;
    result = memory(e);
    /* One that dies meanwhile takes what it keeps. */
    return result == STORE_AGAIN ? loci_sim_fail("a conflict with nobody") : result;
}

int store_end(struct store_user *u)
{
    struct end *e = calloc(1, sizeof *e);
    int result;

    if (e == NULL)
        return loci_sim_fail("no memory for what the scenario records");
    result = u->s->set_up ? store_open(u, 0, &e->c) : SIM_TOLD;
    if (result == SIM_FINE) {
        e->c.made = 32768;              /* numbers that nobody else gives */
        result = look(e);
        if (result != SIM_WRONG)
            loco_tx_close(e->c.tx);
    }
    free(e);
    return result;
}

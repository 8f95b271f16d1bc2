/* SPDX-License-Identifier: BSD-3-Clause */

/* See scenario_store.h. */

#include "config.h"

#include "scenario_store.h"

#define WORDS 3                         /* of a value, that say something */
#define LEAST 32                        /* bytes of a value that has them all */

/* ---- what calls came to ---- */

bool store_host_died(const struct store_user *u)
{
    const loco_store_options_t *o = &u->s->options;

    if (u->s->hosted)                   /* or it is not reached */
        return loci_sim_is_stopped(0)
               || (u->s->agent != 0 && loci_sim_is_stopped(u->s->agent));
    if (u->run->one_node)
        return false;                   /* its memory is there */
    for (int i = 0; i < o->nhosts; i++)
        if (loci_sim_is_stopped(o->hosts[i]))
            return true;
    return o->hosts == NULL && sim_any_stopped(u->run);
}

int store_some_host(const struct store_user *u)
{
    const loco_store_options_t *o = &u->s->options;

    return o->hosts != NULL ? o->hosts[loci_sim_draw((uint32_t)o->nhosts)]
           : (int)loci_sim_draw((uint32_t)u->run->processes);
}

int store_told(const struct store_client *c, int status, const char *call)
{
    switch (status) {
    case LOCO_OK: return SIM_FINE;
    case LOCO_ERR_CONFLICT: return STORE_AGAIN;
    case LOCO_ERR_PEER_DEAD:
        if (c->u->run->faults && store_host_died(c->u))
            return SIM_TOLD;
        break;
    default: break;
    }
    return loci_sim_fail("p%d: %s: %s", c->u->rank, call, loco_strerror(status));
}

int store_open(struct store_user *u, int thread, struct store_client *c)
{
    *c = (struct store_client){ .u = u, .name = loci_history_client(u->rank, thread) };
    return store_told(c, loco_tx_open(u->store, &c->tx), "open");
}

int store_reopen(struct store_client *c)
{
    loco_tx_close(c->tx);
    c->tx = NULL;
    return store_told(c, loco_tx_open(c->u->store, &c->tx), "open again");
}

/* ---- a transaction ---- */

void store_begins(struct store_client *c, bool relaxed)
{
    struct sim_tx_history *h = &c->u->s->history;

    if (c->open)
        sim_tx_ends(h, c->at, SIM_TX_FAILED);
    memset(c->view, 0, sizeof c->view);
    c->relaxed = relaxed;
    c->at = sim_tx_begins(h, c->name, !relaxed);
    c->open = true;
}

int store_begin(struct store_client *c, bool relaxed)
{
    store_begins(c, relaxed);
    return store_told(c, relaxed ? loco_tx_begin_as(c->tx, LOCO_TX_RELAXED)
                         : loco_tx_begin(c->tx), "begin");
}

/* Once all accounts were read, they hold what they always do. */
static int check_sum(const struct store_client *c, const char *when)
{
    const struct store_state *s = c->u->s;
    uint64_t sum = 0;

    for (int i = 0; i < s->slots; i++) {
        if (!c->view[i].has_account)
            return SIM_FINE;
        sum += c->view[i].account.balance;
    }
    WANT(sum == (uint64_t)s->slots * STORE_START,
         "p%d.t%d reads accounts that hold %llu together, %s; it was %d", c->u->rank,
         c->name & 0xffff, (unsigned long long)sum, when, s->slots * STORE_START);
    return SIM_FINE;
}

/* What became of one that has asked to be committed. */
int store_ended(struct store_client *c, int status)
{
    int result = store_told(c, status, "commit");

    c->open = false;
    if (result == SIM_FINE || result == STORE_AGAIN)
        sim_tx_ends(&c->u->s->history, c->at,
                    result == SIM_FINE ? SIM_TX_COMMITTED : SIM_TX_FAILED);
    return result == SIM_FINE ? check_sum(c, "and commits") : result;
}

int store_commit(struct store_client *c)
{
    sim_tx_asks(&c->u->s->history, c->at);
    return store_ended(c, loco_tx_commit(c->tx));
}

/* All reads so far are of this instant. */
int store_validate(struct store_client *c)
{
    PASS(store_told(c, loco_tx_validate(c->tx), "validate"));
    return check_sum(c, "and they are valid");
}

void store_abort(struct store_client *c)
{
    if (c->open)
        sim_tx_ends(&c->u->s->history, c->at, SIM_TX_FAILED);
    c->open = false;
    loco_tx_abort(c->tx);
}

/* ---- values ---- */

struct store_value store_make(struct store_client *c, uint64_t balance)
{
    uint64_t who = (uint64_t)(c->u->rank + 1) << 4 | (uint64_t)(c->name & 0xf);

    return (struct store_value){ .number = who << 16 | ++c->made, .balance = balance };
}

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

static void spell(enum store_kind kind, const struct store_value *v, unsigned char *out, size_t len)
{
    const uint64_t word[WORDS] = { v->number << 16 | v->balance, v->object, v->id };
    uint64_t rest = mixed(word[0] ^ mixed(word[1] ^ mixed(word[2])));

    for (size_t at = 0; at < len; at += 8) {
        size_t i = at / 8, n = len - at < 8 ? len - at : 8;
        bool says = i == 0 || (i < WORDS && kind != STORE_ACCOUNT);
        uint64_t w = says ? word[i] : mixed(rest + i);

        memcpy(out + at, &w, n);
    }
}

static size_t length(const struct store_client *c, enum store_kind kind)
{
    size_t least = kind == STORE_ACCOUNT ? 8 : LEAST;

    if (c->u->s->len != 0)
        return c->u->s->len;
    return loci_sim_draw(3) == 0 ? least
           : least + loci_sim_draw((uint32_t)(STORE_VALUE_MAX - least + 1));
}

size_t store_encode(const struct store_client *c, enum store_kind kind,
                    const struct store_value *v, unsigned char *out)
{
    size_t len = length(c, kind);

    spell(kind, v, out, len);
    return len;
}

/* From the first `have` of `len` bytes. */
int store_decode(const struct store_client *c, enum store_kind kind, const unsigned char *bytes,
                 size_t have, size_t len, struct store_value *v)
{
    unsigned char whole[STORE_VALUE_MAX];
    uint64_t word[WORDS] = { 0 };

    WANT(len >= (kind == STORE_ACCOUNT ? 8 : LEAST) && len <= STORE_VALUE_MAX,
         "p%d reads a value of %zu bytes", c->u->rank, len);
    memcpy(word, bytes, kind == STORE_ACCOUNT ? 8 : sizeof word);
    *v = (struct store_value){ word[0] >> 16, word[0] & 0xffff, word[1], word[2] };
    spell(kind, v, whole, len);
    WANT(memcmp(bytes, whole, have) == 0,
         "p%d reads a torn value of %zu bytes: number %llx, object %llx, id %llx", c->u->rank, len,
         (unsigned long long)v->number, (unsigned long long)v->object,
         (unsigned long long)v->id);
    return SIM_FINE;
}

/* ---- reading ---- */

loco_object_t store_root(const struct store_client *c, int slot)
{
    return loco_store_root(c->u->store, (uint64_t)slot);
}

static uint64_t id_of_root(int slot)
{
    return (uint64_t)slot + 1;
}

static enum store_kind kind_of_root(const struct store_client *c, int slot)
{
    return c->u->s->indirect[slot] ? STORE_NAME : STORE_ACCOUNT;
}

/* One object in one of the ways in which that can be done. *found: there is one. */
static int fetch(struct store_client *c, loco_object_t object, enum store_kind kind,
                 struct store_value *v, bool *found)
{
    unsigned char bytes[STORE_VALUE_MAX];
    size_t len = c->u->s->len, room = loci_sim_draw(3) == 0 ? LEAST : sizeof bytes;
    int status;

    if (len != 0 && loci_sim_draw(2) == 0) {
        room = len;
        status = loco_tx_read(c->tx, object, bytes, len);
    } else {
        status = loco_tx_read_some(c->tx, object, bytes, room, &len);
    }
    *found = status != LOCO_ERR_NOT_FOUND;
    if (!*found)
        return SIM_FINE;
    PASS(store_told(c, status, "read"));
    return store_decode(c, kind, bytes, room < len ? room : len, len, v);
}

/* An account's name led nowhere, or to another one: name and account are not of one instant. */
static int astray(struct store_client *c, int slot)
{
    int result;

    WANT(c->relaxed, "p%d follows slot %d to object %llx, which is not there or another one",
         c->u->rank, slot, (unsigned long long)c->view[slot].root.object);
    result = store_told(c, loco_tx_validate(c->tx), "validate");
    WANT(result != SIM_FINE, "p%d follows slot %d astray, and what it read is valid", c->u->rank,
         slot);
    return result;
}

static int take_root(struct store_client *c, int slot, const struct store_value *v)
{
    struct store_view *view = &c->view[slot];

    c->u->s->set_up = true;
    sim_tx_reads(&c->u->s->history, c->at, id_of_root(slot), v->number);
    view->root = *v;
    view->has_root = true;
    if (c->u->s->indirect[slot])
        return SIM_FINE;
    view->account = *v;
    view->has_account = true;
    return c->relaxed ? SIM_FINE : check_sum(c, "before it commits");
}

static int read_named(struct store_client *c, int slot)
{
    struct store_view *view = &c->view[slot];
    struct store_value v;
    bool found;

    PASS(fetch(c, view->root.object, STORE_NAMED, &v, &found));
    if (!found || v.id != view->root.id)
        return astray(c, slot);
    sim_tx_reads(&c->u->s->history, c->at, v.id, v.number);
    view->account = v;
    view->has_account = true;
    return c->relaxed ? SIM_FINE : check_sum(c, "before it commits");
}

int store_read(struct store_client *c, int slot)
{
    struct store_view *view = &c->view[slot];
    struct store_value v;
    bool found;

    if (!view->has_root) {
        PASS(fetch(c, store_root(c, slot), kind_of_root(c, slot), &v, &found));
        WANT(found || !c->u->s->set_up, "p%d: root %d is not there any more", c->u->rank, slot);
        if (!found)
            return SIM_TOLD;
        PASS(take_root(c, slot, &v));
    }
    return view->has_account ? SIM_FINE : read_named(c, slot);
}

/* All roots by one call, and the accounts that they name by as many more. */
int store_read_many(struct store_client *c)
{
    unsigned char bytes[STORE_SLOTS_MAX * STORE_VALUE_MAX];
    size_t len = c->u->s->len != 0 ? c->u->s->len : LEAST;
    loco_object_t object[STORE_SLOTS_MAX];
    int n = c->u->s->slots, status[STORE_SLOTS_MAX], result;
    struct store_value v;

    for (int i = 0; i < n; i++)
        object[i] = store_root(c, i);
    result = loco_tx_read_many(c->tx, (size_t)n, object, bytes, len, status);
    if (result != LOCO_ERR_SIZE || c->u->s->len != 0)
        PASS(store_told(c, result, "read_many"));
    for (int i = 0; i < n; i++) {
        if (status[i] == LOCO_ERR_SIZE && c->u->s->len == 0)
            continue;
        PASS(store_told(c, status[i], "read_many, of one"));
        PASS(store_decode(c, kind_of_root(c, i), bytes + (size_t)i * len, len, len, &v));
        PASS(take_root(c, i, &v));
    }
    for (int i = 0; i < n; i++)
        PASS(store_read(c, i));
    return SIM_FINE;
}

/* ---- writing ---- */

/* What it has written it reads. */
static int read_back(struct store_client *c, loco_object_t object, const unsigned char *bytes,
                     size_t len)
{
    unsigned char again[STORE_VALUE_MAX];
    size_t is = 0;

    if (loci_sim_draw(3) != 0)
        return SIM_FINE;
    PASS(store_told(c, loco_tx_read_some(c->tx, object, again, sizeof again, &is), "read back"));
    WANT(is == len && memcmp(again, bytes, len) == 0,
         "p%d reads %zu bytes that are not the %zu that it has written", c->u->rank, is, len);
    return SIM_FINE;
}

static int put(struct store_client *c, loco_object_t object, uint64_t id, enum store_kind kind,
               const struct store_value *v)
{
    unsigned char bytes[STORE_VALUE_MAX];
    size_t len = store_encode(c, kind, v, bytes);

    PASS(store_told(c, loco_tx_write(c->tx, object, bytes, len), "write"));
    sim_tx_writes(&c->u->s->history, c->at, id, v->number);
    return read_back(c, object, bytes, len);
}

/* Of a slot that it has read. */
int store_write(struct store_client *c, int slot, uint64_t balance)
{
    struct store_value v = store_make(c, balance);
    const struct store_view *view = &c->view[slot];

    if (!c->u->s->indirect[slot])
        return put(c, store_root(c, slot), id_of_root(slot), STORE_ACCOUNT, &v);
    v.id = view->root.id;
    return put(c, view->root.object, v.id, STORE_NAMED, &v);
}

/* A new object for a slot's account, and the root that names it. */
static int make_named(struct store_client *c, int slot, uint64_t balance)
{
    struct store_value v = store_make(c, balance), name = store_make(c, 0);
    int host = loci_sim_draw(2) == 0 ? LOCO_ANY_HOST : store_some_host(c->u);
    unsigned char bytes[STORE_VALUE_MAX];
    size_t len;

    v.id = name.id = v.number;
    len = store_encode(c, STORE_NAMED, &v, bytes);
    PASS(store_told(c, loco_tx_new(c->tx, host, bytes, len, &name.object), "new"));
    sim_tx_reads(&c->u->s->history, c->at, v.id, 0);
    sim_tx_writes(&c->u->s->history, c->at, v.id, v.number);
    PASS(read_back(c, name.object, bytes, len));
    return put(c, store_root(c, slot), id_of_root(slot), STORE_NAME, &name);
}

/* Another object in place of the one that a slot names, which is removed. */
int store_replace(struct store_client *c, int slot)
{
    const struct store_view *view = &c->view[slot];
    unsigned char byte;
    size_t len;
    int status;

    PASS(store_told(c, loco_tx_free(c->tx, view->root.object), "free"));
    sim_tx_writes(&c->u->s->history, c->at, view->root.id, store_make(c, 0).number);
    status = loco_tx_read_some(c->tx, view->root.object, &byte, 1, &len);
    WANT(status == LOCO_ERR_NOT_FOUND, "p%d reads what it has removed: %s", c->u->rank,
         loco_strerror(status));
    return make_named(c, slot, view->account.balance);
}

/* All accounts, unless they are there already. */
int store_set_up(struct store_client *c)
{
    const struct store_state *s = c->u->s;
    struct store_value v;
    bool found;

    for (int i = 0; i < s->slots; i++) {
        PASS(fetch(c, store_root(c, i), kind_of_root(c, i), &v, &found));
        if (found)
            return take_root(c, i, &v);
        sim_tx_reads(&c->u->s->history, c->at, id_of_root(i), 0);
    }
    for (int i = 0; i < s->slots; i++) {
        v = store_make(c, STORE_START);
        PASS(s->indirect[i] ? make_named(c, i, STORE_START)
             : put(c, store_root(c, i), id_of_root(i), STORE_ACCOUNT, &v));
    }
    return SIM_FINE;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* See scenario_tree.h. */

#include "config.h"

#include "scenario_tree.h"

/* What a call in a transaction comes to, beside SIM_FINE and so on. */
enum { CONFLICT = SIM_TOLD + 1 };

/* ---- keys and values ---- */

/* {place, some more bytes}: of different lengths, and some begin as their neighbours do. */
loco_bytes_t tree_key(const struct tree_state *s, uint64_t number,
                      unsigned char bytes[TREE_KEY_BYTES])
{
    uint64_t place = number < s->plain ? number + TREE_TWINS
                     : number < s->plain + TREE_TWINS ? number - s->plain : number;
    size_t len = 3 + place * 5 % (TREE_KEY_BYTES - 2);

    memset(bytes, 'x', TREE_KEY_BYTES);
    bytes[0] = (unsigned char)('a' + place / 4);
    bytes[1] = 'b';
    bytes[2] = (unsigned char)(place % 4);
    return loco_bytes(bytes, len);
}

bool tree_key_number(const struct tree_state *s, loco_bytes_t key, uint64_t *number)
{
    unsigned char bytes[TREE_KEY_BYTES];

    for (uint64_t i = 0; i < tree_keys(s); i++) {
        loco_bytes_t is = tree_key(s, i, bytes);

        if (is.len == key.len && memcmp(is.data, key.data, key.len) == 0) {
            *number = i;
            return true;
        }
    }
    return false;
}

uint64_t tree_make(struct tree_client *c)
{
    return (uint64_t)(c->name + 1) << 10 | ++c->made;
}

/* Of three values two are in their leaf. */
loco_bytes_t tree_value(uint64_t number, unsigned char bytes[TREE_VALUE_BYTES])
{
    size_t len = 8 + (number % 3 == 0 ? 64 + number * 7 % 120 : number * 3 % 8);

    memset(bytes, (int)(number & 0xff), TREE_VALUE_BYTES);
    memcpy(bytes, &number, sizeof number);
    return loco_bytes(bytes, len);
}

int tree_number(const struct tree_client *c, loco_bytes_t value, uint64_t *number)
{
    unsigned char bytes[TREE_VALUE_BYTES];
    loco_bytes_t whole;

    WANT(value.len >= sizeof *number, "p%d reads a value of %zu bytes", c->u->rank, value.len);
    memcpy(number, value.data, sizeof *number);
    whole = tree_value(*number, bytes);
    WANT(whole.len == value.len && memcmp(whole.data, value.data, value.len) == 0,
         "p%d reads %zu bytes that are not value %llu", c->u->rank, value.len,
         (unsigned long long)*number);
    return SIM_FINE;
}

/* ---- handles ---- */

bool tree_host_died(const struct tree_user *u)
{
    const loco_store_options_t *o = &u->s->options;

    if (u->run->one_node)
        return false;                   /* its memory is there */
    for (int i = 0; i < o->nhosts; i++)
        if (loci_sim_is_stopped(o->hosts[i]))
            return true;
    return o->hosts == NULL && sim_any_stopped(u->run);
}

/* PEER_DEAD is right only where a host has died. */
static int told(const struct tree_client *c, int status, const char *call)
{
    if (status == LOCO_OK)
        return SIM_FINE;
    if (status == LOCO_ERR_PEER_DEAD && c->u->run->faults && tree_host_died(c->u))
        return SIM_TOLD;
    return loci_sim_fail("p%d: %s: %s", c->u->rank, call, loco_strerror(status));
}

int tree_open(struct tree_user *u, int thread, struct tree_client *c)
{
    *c = (struct tree_client){ .u = u, .name = loci_history_client(u->rank, thread) };
    PASS(told(c, loco_tx_open(u->store, &c->tx), "open a handle"));
    return told(c, map_open(c), "open");
}

void tree_close(struct tree_client *c)
{
    map_close(c);
    loco_tx_close(c->tx);
}

/* ---- calls by themselves ---- */

static struct loci_history *history_of(const struct tree_client *c)
{
    return &c->u->s->history;
}

static int called(const struct tree_client *c, int op, uint64_t key, uint64_t arg, uint64_t arg2)
{
    return loci_history_call(history_of(c), c->name, op, key, arg, arg2);
}

/* It has no effect, and nobody was told anything: as a lookup that never returned. */
static void forget(const struct tree_client *c, int at)
{
    history_of(c)->ops[at].op = LINEAR_LOOKUP;
}

static int returned(const struct tree_client *c, int at, int status, int no, uint64_t result,
                    const char *name)
{
    int is;

    if (status == LOCO_OK || status == no) {
        loci_history_return(history_of(c), at, status == LOCO_OK, status == LOCO_OK ? result : 0);
        return SIM_FINE;
    }
    is = told(c, status, name);
    return is == SIM_TOLD ? SIM_FINE : is;
}

int tree_insert(struct tree_client *c, uint64_t key)
{
    unsigned char k[TREE_KEY_BYTES], v[TREE_VALUE_BYTES];
    uint64_t number = tree_make(c);
    int at = called(c, LINEAR_INSERT, key, number, 0);
    int status = map_insert(c, tree_key(c->u->s, key, k), tree_value(number, v));

    return returned(c, at, status, LOCO_ERR_EXISTS, 0, "insert");
}

int tree_put(struct tree_client *c, uint64_t key)
{
    unsigned char k[TREE_KEY_BYTES], v[TREE_VALUE_BYTES];
    uint64_t number = tree_make(c);
    int at = called(c, LINEAR_PUT, key, number, 0);
    int status = map_put(c, tree_key(c->u->s, key, k), tree_value(number, v));

    return returned(c, at, status, LOCO_OK, 0, "put");
}

int tree_update(struct tree_client *c, uint64_t key)
{
    unsigned char k[TREE_KEY_BYTES], v[TREE_VALUE_BYTES];
    uint64_t number = tree_make(c);
    int at = called(c, LINEAR_UPDATE, key, number, 0);
    int status = map_update(c, tree_key(c->u->s, key, k), tree_value(number, v));

    return returned(c, at, status, LOCO_ERR_NOT_FOUND, 0, "update");
}

int tree_delete(struct tree_client *c, uint64_t key)
{
    unsigned char k[TREE_KEY_BYTES];
    int at;

    if (c->u->s->grows)
        return tree_put(c, key);
    at = called(c, LINEAR_DELETE, key, 0, 0);

    return returned(c, at, map_delete(c, tree_key(c->u->s, key, k)),
                    LOCO_ERR_NOT_FOUND, 0, "delete");
}

/* Where the value is another one it is not told which: as if it had not returned. */
int tree_compare_set(struct tree_client *c, uint64_t key)
{
    unsigned char k[TREE_KEY_BYTES], v[TREE_VALUE_BYTES], was[TREE_VALUE_BYTES];
    uint64_t number = tree_make(c), expected = c->seen[key] != 0 ? c->seen[key] : 1;
    int at = called(c, LINEAR_COMPARE_SET, key, expected, number);
    int status = map_compare_set(c, tree_key(c->u->s, key, k), tree_value(expected, was),
                                 tree_value(number, v));

    if (status == LOCO_ERR_DIFFERS) {
        forget(c, at);
        return SIM_FINE;
    }
    return returned(c, at, status, LOCO_ERR_NOT_FOUND, 0, "compare_set");
}

/* A value, in a transaction or not. */
static int fetch(struct tree_client *c, uint64_t key, int *status, uint64_t *number)
{
    unsigned char k[TREE_KEY_BYTES], v[TREE_VALUE_BYTES];
    size_t len = 0;

    *number = 0;
    *status = map_get(c, tree_key(c->u->s, key, k), v, sizeof v, &len);
    if (*status != LOCO_OK)
        return SIM_FINE;
    WANT(len <= sizeof v, "p%d gets a value of %zu bytes", c->u->rank, len);
    PASS(tree_number(c, loco_bytes(v, len), number));
    c->seen[key] = *number;
    return SIM_FINE;
}

int tree_get(struct tree_client *c, uint64_t key)
{
    int at = called(c, LINEAR_LOOKUP, key, 0, 0), status;
    uint64_t number;

    PASS(fetch(c, key, &status, &number));
    return returned(c, at, status, LOCO_ERR_NOT_FOUND, number, "get");
}

/* ---- many keys ---- */

#define MANY 6

/* Some keys, any of them more than once; at least once in a while both twins of a pair. */
static unsigned some_keys(const struct tree_client *c, uint64_t key[MANY], bool twins)
{
    const struct tree_state *s = c->u->s;
    unsigned n = 0, most = 2 + loci_sim_draw(MANY - 1), pair = loci_sim_draw(TREE_TWINS);

    while (twins && n < 2) {
        key[n] = tree_twin(s, pair, n);
        n++;
    }
    while (n < most)
        key[n++] = loci_sim_draw((uint32_t)s->plain);
    return n;
}

int tree_get_many(struct tree_client *c)
{
    unsigned char k[MANY][TREE_KEY_BYTES], v[MANY][TREE_VALUE_BYTES];
    uint64_t key[MANY], number[MANY] = { 0 };
    bool twins = loci_sim_draw(2) == 0;
    unsigned n = some_keys(c, key, twins);
    int at[MANY], statuses[MANY], status;
    loco_bytes_t keys[MANY];
    size_t lens[MANY];

    for (unsigned i = 0; i < n; i++) {
        keys[i] = tree_key(c->u->s, key[i], k[i]);
        at[i] = called(c, LINEAR_LOOKUP, key[i], 0, 0);
    }
    status = map_get_many(c, n, keys, v, sizeof v[0], lens, statuses);
    if (status != LOCO_OK)
        return told(c, status, "get_many") == SIM_WRONG ? SIM_WRONG : SIM_FINE;
    for (unsigned i = 0; i < n; i++) {
        if (statuses[i] == LOCO_OK)
            PASS(tree_number(c, loco_bytes(v[i], lens[i]), &number[i]));
        PASS(returned(c, at[i], statuses[i], LOCO_ERR_NOT_FOUND, number[i], "get_many"));
    }
    WANT(!twins || number[0] == number[1], "p%d gets twins that have values %llu and %llu",
         c->u->rank, (unsigned long long)number[0], (unsigned long long)number[1]);
    return SIM_FINE;
}

/* Keys that differ, or a history would need to know which comes last. */
int tree_put_many(struct tree_client *c)
{
    unsigned char k[MANY][TREE_KEY_BYTES], v[MANY][TREE_VALUE_BYTES];
    uint64_t plain = c->u->s->plain, first = loci_sim_draw((uint32_t)plain);
    unsigned n = 2 + loci_sim_draw(MANY - 1), step = 1 + loci_sim_draw(2);
    loco_bytes_t keys[MANY], values[MANY];
    int at[MANY], status;

    for (unsigned i = 0; i < n; i++) {
        uint64_t number = tree_make(c), key = (first + i * step) % plain;

        keys[i] = tree_key(c->u->s, key, k[i]);
        values[i] = tree_value(number, v[i]);
        at[i] = called(c, LINEAR_PUT, key, number, 0);
    }
    status = map_put_many(c, n, keys, values);
    for (unsigned i = 0; i < n; i++)
        PASS(returned(c, at[i], status, LOCO_OK, 0, "put_many"));
    return SIM_FINE;
}

/* ---- scans ---- */

struct scan {
    struct tree_client *c;
    uint64_t number[TREE_KEYS_MAX];     /* by key; 0: not seen */
    unsigned char last[TREE_KEY_BYTES];
    size_t last_len, n;
    bool back, together;                /* from the end; all of it is of one instant */
};

static int order(loco_bytes_t a, loco_bytes_t b)
{
    int is = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

    return is != 0 ? is : a.len < b.len ? -1 : a.len > b.len;
}

static int visit(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct scan *s = ctx;
    uint64_t number;

    if (!tree_key_number(s->c->u->s, key, &number))
        return loci_sim_fail("p%d scans a key that nobody has inserted", s->c->u->rank);
    if (s->number[number] != 0)
        return loci_sim_fail("p%d scans key %llu twice", s->c->u->rank,
                             (unsigned long long)number);
    if (s->n > 0 && !s->c->u->s->hashed
        && order(loco_bytes(s->last, s->last_len), key) * (s->back ? -1 : 1) >= 0)
        return loci_sim_fail("p%d scans key %llu out of order", s->c->u->rank,
                             (unsigned long long)number);
    if (tree_number(s->c, value, &s->number[number]) != SIM_FINE)
        return SIM_WRONG;
    memcpy(s->last, key.data, key.len);
    s->last_len = key.len;
    s->n++;
    return 0;
}

/* The key at a place in their order; after the last one a key above all. */
static loco_bytes_t key_at(const struct tree_state *s, uint64_t place,
                           unsigned char bytes[TREE_KEY_BYTES])
{
    uint64_t number = place < TREE_TWINS ? s->plain + place
                      : place < s->plain + TREE_TWINS ? place - TREE_TWINS : place;

    if (place < tree_keys(s))
        return tree_key(s, number, bytes);
    bytes[0] = 255;
    return loco_bytes(bytes, 1);
}

/* Whether a scan that ended well has passed over that key. */
static bool has_passed(const struct scan *s, loco_bytes_t key, uint64_t place, uint64_t from,
                       uint64_t to, uint64_t limit)
{
    if (place < from || place >= to)
        return false;
    return limit == 0 || s->n < limit || order(key, loco_bytes(s->last, s->last_len)) <= 0;
}

/* The next entry is the one that was passed, unless others have changed that; then to where it
 * was. */
static int there_and_back(struct scan *s, loco_tree_cursor_t *cursor)
{
    loco_bytes_t key, value, last = loco_bytes(s->last, s->last_len);
    int status = loco_tree_cursor_next(cursor, &key, &value), is;

    if (status == LOCO_ERR_NOT_FOUND)       /* deleted by others; it is behind all now */
        return loco_tree_cursor_seek(cursor, &last);
    if (status != LOCO_OK)
        return status;
    is = order(key, last);
    WANT(is >= 0, "p%d goes forward to a key below the one that it has passed", s->c->u->rank);
    WANT(is == 0 || !s->together, "p%d passes a key, and it is not there", s->c->u->rank);
    return loco_tree_cursor_seek(cursor, &last);
}

static int run_scan(struct scan *s, uint64_t from, uint64_t to, uint64_t limit)
{
    unsigned char a[TREE_KEY_BYTES], b[TREE_KEY_BYTES];
    const struct tree_state *state = s->c->u->s;
    loco_bytes_t first = key_at(state, from, a), last = key_at(state, to, b);

    return map_scan(s->c, from == 0 ? NULL : &first, to == tree_keys(state) ? NULL : &last, limit,
                    visit, s);
}

/* The same from the end to the begin, with a cursor that goes back and forth at times. */
static int run_back(struct scan *s, uint64_t from, uint64_t to)
{
    unsigned char a[TREE_KEY_BYTES], b[TREE_KEY_BYTES];
    const struct tree_state *state = s->c->u->s;
    loco_bytes_t first = key_at(state, from, a), last = key_at(state, to, b), key, value;
    loco_tree_cursor_t *cursor;
    int status = loco_tree_cursor_open(s->c->tree, &last, &cursor);

    s->back = true;
    if (status == LOCO_OK && to == tree_keys(state))
        loco_tree_cursor_seek_last(cursor);
    while (status == LOCO_OK) {
        status = loco_tree_cursor_prev(cursor, &key, &value);
        if (status == LOCO_OK && order(key, first) < 0)
            break;
        if (status == LOCO_OK && visit(s, key, value) != 0)
            status = SIM_WRONG;
        if (status == LOCO_OK && loci_sim_draw(8) == 0)
            status = there_and_back(s, cursor);
    }
    loco_tree_cursor_close(cursor);
    return status == LOCO_ERR_NOT_FOUND ? LOCO_OK : status;
}

/* As many lookups that begin and end together; where the scan has not come to a key, it was not
 * looked up. */
static int record(struct scan *s, const int *at, uint64_t from, uint64_t to, uint64_t limit,
                  bool done)
{
    const struct tree_state *state = s->c->u->s;

    for (uint64_t place = 0; place < tree_keys(state); place++) {
        unsigned char bytes[TREE_KEY_BYTES];
        loco_bytes_t key = key_at(state, place, bytes);
        uint64_t number;

        tree_key_number(state, key, &number);
        if (done && has_passed(s, key, place, from, to, limit))
            loci_history_return(history_of(s->c), at[number], s->number[number] != 0,
                                s->number[number]);
        else
            WANT(!done || s->number[number] == 0, "p%d scans key %llu, which is outside",
                 s->c->u->rank, (unsigned long long)number);
    }
    return SIM_FINE;
}

int tree_scan(struct tree_client *c, uint64_t from, uint64_t to, uint64_t limit)
{
    struct scan s = { .c = c };
    int at[TREE_KEYS_MAX], status;

    for (uint64_t i = 0; i < tree_keys(c->u->s); i++)
        at[i] = called(c, LINEAR_LOOKUP, i, 0, 0);
    status = limit == 0 && c->tree != NULL && loci_sim_draw(3) == 0 ? run_back(&s, from, to)
             : run_scan(&s, from, to, limit);
    if (status == SIM_WRONG)
        return SIM_WRONG;
    PASS(record(&s, at, from, to, limit, status == LOCO_OK));
    return status == LOCO_OK || told(c, status, "scan") == SIM_TOLD ? SIM_FINE : SIM_WRONG;
}

/* ---- transactions ---- */

static int told_tx(const struct tree_client *c, int status, const char *call)
{
    return status == LOCO_ERR_CONFLICT ? CONFLICT : told(c, status, call);
}

/* Calls of a transaction, which have happened if it commits. */
struct changes {
    struct tree_client *c;
    int n;
    struct { int at, status; } call[8];
    uint64_t key[8], number[8];         /* what it has given a key; 0: removed */
    bool relaxed, committed;
};

/* One more, before the transaction begins: what it finds may be as of its begin. */
static void plan(struct changes *x, uint64_t key, uint64_t number)
{
    x->call[x->n].at = called(x->c, number != 0 ? LINEAR_PUT : LINEAR_DELETE, key, number, 0);
    x->key[x->n] = key;
    x->number[x->n++] = number;
}

static int change(struct changes *x, int i)
{
    unsigned char k[TREE_KEY_BYTES], v[TREE_VALUE_BYTES];
    loco_bytes_t key = tree_key(x->c->u->s, x->key[i], k);
    int status = x->number[i] != 0
                 ? map_put(x->c, key, tree_value(x->number[i], v))
                 : map_delete(x->c, key);

    x->call[i].status = status == LOCO_OK;
    return status == LOCO_ERR_NOT_FOUND && x->number[i] == 0 ? SIM_FINE
           : told_tx(x->c, status, "a change");
}

static int change_all(struct changes *x)
{
    for (int i = 0; i < x->n; i++)
        PASS(change(x, i));
    return SIM_FINE;
}

/* What it has written it reads. (A relaxed one may have found a key gone, and find now that another
 * has inserted it.) */
static int read_back(struct changes *x)
{
    for (int i = 0; i < x->n; i++) {
        uint64_t number;
        int status;

        PASS(fetch(x->c, x->key[i], &status, &number));
        if (status != LOCO_OK && status != LOCO_ERR_NOT_FOUND)
            return told_tx(x->c, status, "read back");
        WANT(x->relaxed || number == x->number[i],
             "p%d reads value %llu of key %llu, to which it has given %llu", x->c->u->rank,
             (unsigned long long)number, (unsigned long long)x->key[i],
             (unsigned long long)x->number[i]);
    }
    return SIM_FINE;
}

/* Told of a death by the commit, it does not know. */
static int conclude(struct changes *x, int result)
{
    struct tree_client *c = x->c;
    bool asked = result == SIM_FINE;

    if (asked)
        result = told_tx(c, loco_tx_commit(c->tx), "commit");
    loco_tx_abort(c->tx);
    x->committed = asked && result == SIM_FINE;
    for (int i = 0; i < x->n; i++) {
        if (x->committed)
            loci_history_return(history_of(c), x->call[i].at, x->call[i].status, 0);
        else if (!asked || result == CONFLICT)
            forget(c, x->call[i].at);
    }
    return result == SIM_WRONG ? result : SIM_FINE;
}

static int begin_tx(struct changes *x)
{
    loco_tx_t *tx = x->c->tx;

    x->relaxed = loci_sim_draw(4) == 0;
    return told(x->c, x->relaxed ? loco_tx_begin_as(tx, LOCO_TX_RELAXED) : loco_tx_begin(tx),
                "begin");
}

/* Both were there, or none: at one instant, which may be that of the commit. */
static int check_twins(const struct changes *x)
{
    WANT((x->relaxed && !x->committed) || x->call[0].status == x->call[1].status,
         "p%d removes one of twins, and the other is gone", x->c->u->rank);
    return SIM_FINE;
}

int tree_tx_twins(struct tree_client *c)
{
    struct changes x = { .c = c };
    unsigned pair = loci_sim_draw(TREE_TWINS);
    bool removes = loci_sim_draw(3) == 0 && !c->u->s->grows;
    uint64_t number = removes ? 0 : tree_make(c);
    int result;

    plan(&x, tree_twin(c->u->s, pair, 0), number);
    plan(&x, tree_twin(c->u->s, pair, 1), number);
    PASS(begin_tx(&x));
    result = change_all(&x);
    if (result == SIM_FINE)
        PASS(check_twins(&x));
    if (result == SIM_FINE && loci_sim_draw(2) == 0)
        result = read_back(&x);
    PASS(conclude(&x, result));
    return x.committed ? check_twins(&x) : SIM_FINE;
}

/* Some keys in a row: a leaf may be split, or taken out, and looked at before the commit. */
int tree_tx_many(struct tree_client *c)
{
    struct changes x = { .c = c };
    uint64_t first = loci_sim_draw((uint32_t)c->u->s->plain), n = 2 + loci_sim_draw(5);
    bool removes = loci_sim_draw(2) == 0 && !c->u->s->grows;
    int result;

    for (uint64_t key = first; key < first + n && key < c->u->s->plain; key++)
        plan(&x, key, removes ? 0 : tree_make(c));
    PASS(begin_tx(&x));
    result = change_all(&x);
    if (result == SIM_FINE)
        result = read_back(&x);
    return conclude(&x, result);
}

/* All keys, of one instant. */
static int look(struct tree_client *c, struct scan *s)
{
    const struct tree_state *state = c->u->s;
    int status = c->tree != NULL && loci_sim_draw(3) == 0 ? run_back(s, 0, tree_keys(state))
                 : run_scan(s, 0, tree_keys(state), 0);

    if (status == SIM_WRONG)
        return status;
    PASS(told_tx(c, status, "scan in a transaction"));
    for (unsigned pair = 0; pair < TREE_TWINS; pair++) {
        uint64_t a = s->number[tree_twin(state, pair, 0)], b = s->number[tree_twin(state, pair, 1)];

        WANT(a == b, "p%d scans twins that have values %llu and %llu", c->u->rank,
             (unsigned long long)a, (unsigned long long)b);
    }
    return SIM_FINE;
}

int tree_tx_look(struct tree_client *c)
{
    struct scan s = { .c = c, .together = true };
    int at[TREE_KEYS_MAX], result;

    for (uint64_t i = 0; i < tree_keys(c->u->s); i++)
        at[i] = called(c, LINEAR_LOOKUP, i, 0, 0);
    PASS(told(c, loco_tx_begin(c->tx), "begin"));
    result = look(c, &s);
    if (result == SIM_FINE)
        result = record(&s, at, 0, tree_keys(c->u->s), 0, true);
    loco_tx_abort(c->tx);
    return result == SIM_WRONG ? result : SIM_FINE;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Trees in the order of their keys: cursors and scans.
 *
 * A cursor has a copy of a leaf, as it was at one instant, and goes on at that leaf's high fence,
 * or below its low one. The link there is a hint, as all links are: the leaf that has the fence's
 * place comes next. By then others may have split the copied one, or taken out what follows; its
 * fence is the end of what was seen all the same, so nothing is seen twice or left out.
 *
 * Over a network the leaves that come next are read together: 1, 2, 4... of them, as their parent
 * names them, up to the end of a scan. Where the parent's copy is so old that the link names
 * another leaf, that one is read in place of the parent's first; the parent is read anew the next
 * time. */

#include "config.h"

#include <stdlib.h>

#include "tree.h"

int loci_tree_cursor_init(struct loco_tree_cursor *c, struct loci_index *ix)
{
    *c = (struct loco_tree_cursor){ .ix = ix, .leaf = malloc(sizeof *c->leaf) };
    return c->leaf == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

void loci_tree_cursor_fini(struct loco_tree_cursor *c)
{
    free(c->leaf);
    free(c->apart);
}

int loco_tree_cursor_open(loco_tree_t *tree, const loco_bytes_t *from, loco_tree_cursor_t **out)
{
    struct loco_tree_cursor *c = malloc(sizeof *c);
    int status = c == NULL ? LOCO_ERR_NO_MEMORY : loci_tree_cursor_init(c, &tree->index);

    if (status == LOCO_OK)
        status = loco_tree_cursor_seek(c, from);
    if (status != LOCO_OK) {
        loco_tree_cursor_close(c);
        return status;
    }
    *out = c;
    return LOCO_OK;
}

void loco_tree_cursor_close(loco_tree_cursor_t *c)
{
    if (c == NULL)
        return;
    loci_tree_cursor_fini(c);
    free(c);
}

/* ---- where it is ---- */

static void put_before(struct loco_tree_cursor *c, loco_bytes_t key, loco_object_t right)
{
    if (key.len > 0)
        memmove(c->key, key.data, key.len);
    c->key_len = key.len;
    c->right = right;
    c->last = c->loaded = false;
}

/* What was read ahead for where it was is old. */
static void put_anew(struct loco_tree_cursor *c)
{
    loci_index_ahead_end(c->ix);
    c->ahead = 1;
    c->left = 0;
    c->end = NULL;
}

int loco_tree_cursor_seek(loco_tree_cursor_t *c, const loco_bytes_t *from)
{
    loco_bytes_t key = from == NULL ? loco_bytes(NULL, 0) : *from;
    int status = loci_index_check_key(c->ix, key);

    if (status != LOCO_OK)
        return status;
    put_before(c, key, 0);
    put_anew(c);
    return LOCO_OK;
}

void loco_tree_cursor_seek_last(loco_tree_cursor_t *c)
{
    put_before(c, loco_bytes(NULL, 0), 0);
    c->last = true;
    put_anew(c);
}

/* ---- leaves ---- */

#define AHEAD_MOST 16u
#define ENTRIES 4u              /* of a leaf, at least: of a guess */
#define ENTRIES_USUAL 12u
#define CELLS_MOST 6u           /* that come near together */

/* Leaves that are worth to be read now. */
static unsigned ahead_of(const struct loco_tree_cursor *c)
{
    uint64_t left = c->left == 0 ? AHEAD_MOST : 1 + c->left / ENTRIES;

    return left < c->ahead ? (unsigned)left : c->ahead;
}

/* The leaf of that place, and those next to it, unless they are there already. */
static int read_ahead(struct loco_tree_cursor *c, enum loci_index_how how,
                      const struct loci_place *place)
{
    struct loci_index *ix = c->ix;
    loco_object_t leaves[AHEAD_MOST];
    bool linked = place->toward == LOCI_AT && c->right != 0;
    unsigned n;

    if (linked && loci_index_ahead_find(ix, how, c->right) != NULL)
        return LOCO_OK;
    n = loci_index_name(ix, place, c->end, leaves, ahead_of(c));
    if (n > 0 && linked && leaves[0] != c->right) {
        loci_index_forget(ix, ix->parent);
        leaves[0] = c->right;
    }
    if (n == 0 || loci_index_ahead_find(ix, how, leaves[0]) != NULL
        || !loci_object_is(ix->tx->s, leaves[0]) || !loci_tx_is_far(ix->tx, leaves[0]))
        return LOCO_OK;
    c->ahead = c->ahead * 2 < AHEAD_MOST ? c->ahead * 2 : AHEAD_MOST;
    return n == 1 ? LOCO_OK : loci_index_ahead(ix, how, leaves, n);
}

/* In mapped memory: the leaf of that place, by copies, as if a link had named it. Cells of those
 * that a scan will probably come to are asked for meanwhile. */
static void lead(struct loco_tree_cursor *c, const struct loci_place *place)
{
    uint64_t left = c->left == 0 ? CELLS_MOST : c->left / ENTRIES_USUAL;
    unsigned more = left < CELLS_MOST ? (unsigned)left : CELLS_MOST;

    c->near = 0;
    c->right = loci_index_lead_on(c->ix, place->key, &more);
    if (c->right == 0)
        return;
    c->near = more;
    loci_index_count(c->ix, LOCI_STATS_LOOKUPS, 1);
}

/* The leaf that the link names, if it has that place. */
static int read_right(struct loco_tree_cursor *c, enum loci_index_how how,
                      const struct loci_place *place)
{
    const struct loci_node *leaf = &c->leaf->node;
    int status = loci_index_read_node(c->ix, how, c->right, c->ix->leaf_bytes, c->leaf);

    if (status == LOCO_OK && (leaf->level != 0 || loci_place_side(leaf, place) != 0))
        status = LOCO_ERR_NOT_FOUND;
    return status;
}

/* The leaf of where it is; with `below`, of what comes before that. */
static int load(struct loco_tree_cursor *c, enum loci_index_how how, bool below)
{
    struct loci_index *ix = c->ix;
    const struct loci_place place = {
        c->last ? LOCI_LAST : below ? LOCI_BELOW : LOCI_AT, loco_bytes(c->key, c->key_len),
    };
    int status = loci_index_is_far(ix) ? read_ahead(c, how, &place) : LOCO_OK;
    bool found, linked;

    if (!loci_index_is_far(ix) && place.toward == LOCI_AT && c->right == 0)
        lead(c, &place);
    linked = place.toward == LOCI_AT && c->right != 0;
    if (status == LOCO_OK)
        status = linked ? read_right(c, how, &place) : LOCO_ERR_NOT_FOUND;
    if (status == LOCO_ERR_NOT_FOUND)
        status = loci_index_find_place(ix, how, &place, c->leaf);
    if (status != LOCO_OK)
        return status;
    c->at = c->last ? c->leaf->node.n : loci_node_find(&c->leaf->node, place.key, &found);
    c->loaded = true;
    c->asked = false;
    if (c->near == 0)
        loci_tx_expect_cell(ix->tx, c->leaf->node.right);
    return LOCO_OK;
}

/* In mapped memory: the next leaf comes nearer, where it is wanted; from the middle of this one on
 * if the cell of it has to come first. */
static void ask_right(struct loco_tree_cursor *c)
{
    const struct loci_node *leaf = &c->leaf->node;

    if (c->asked || (c->near == 0 && 2 * c->at < leaf->n)
        || (c->left != 0 && c->left <= leaf->n - c->at))
        return;
    c->asked = true;
    c->near -= c->near > 0;
    if (loci_tx_enter(c->ix->tx) != LOCO_OK)
        return;
    loci_tx_expect(c->ix->tx, leaf->right, c->ix->leaf_bytes);
    (void)loci_tx_leave(c->ix->tx, LOCO_OK);
}

/* ---- entries ---- */

/* A value that other calls on the tree leave alone. */
static void hold_apart(struct loco_tree_cursor *c)
{
    unsigned char *apart = c->apart;

    c->apart = c->ix->apart;
    c->ix->apart = apart;
}

/* A key whose value's object has gone since the leaf was copied. It was deleted meanwhile, but may
 * have been there all the time: one transaction can delete it and put it again. What it has now
 * is its value at a time of this scan, as is that it is not there. */
static int take_anew(struct loco_tree_cursor *c, enum loci_index_how how, loco_bytes_t key,
                     loco_bytes_t *value)
{
    int status = loci_index_get_in(c->ix, how, key, value);

    if (status != LOCO_OK)
        return status;
    if (value->len > sizeof c->again) {
        hold_apart(c);
    } else if (value->len > 0) {
        memcpy(c->again, value->data, value->len);
        value->data = c->again;
    }
    return LOCO_OK;
}

/* Values of this leaf, and of those behind it, with that one; as many as leaves would have. */
static int ask_values(struct loco_tree_cursor *c, enum loci_index_how how, unsigned i, int step)
{
    unsigned most = ENTRIES * c->ahead;

    if (c->left != 0 && c->left < most)
        most = (unsigned)c->left;
    return !loci_index_is_far(c->ix) || most < 2 ? LOCO_OK
           : loci_index_ahead_values_of(c->ix, how, &c->leaf->node, i, step, c->end, most);
}

/* An entry of the copy, and what comes next in steps of that. LOCO_ERR_NOT_FOUND: it is there no
 * more. */
static int take(struct loco_tree_cursor *c, enum loci_index_how how, unsigned i, int step,
                loco_bytes_t *key, loco_bytes_t *value)
{
    const struct loci_node *leaf = &c->leaf->node;
    int status;

    if (!loci_node_entry(leaf, i, key, value))
        return LOCO_OK;
    status = ask_values(c, how, i, step);
    if (status == LOCO_OK)
        status = loci_apart_read(c->ix, how, loci_node_handle(leaf, i), *key, value);
    if (status == LOCO_ERR_NOT_FOUND)
        return take_anew(c, how, *key, value);
    if (status == LOCO_OK)
        hold_apart(c);
    return status;
}

static int next(struct loco_tree_cursor *c, enum loci_index_how how, loco_bytes_t *key,
                loco_bytes_t *value)
{
    for (;;) {
        const struct loci_node *leaf = &c->leaf->node;
        int status = c->loaded ? LOCO_OK : load(c, how, false);

        while (status == LOCO_OK && c->at < leaf->n) {
            ask_right(c);
            status = take(c, how, c->at, 1, key, value);
            c->at += status == LOCO_OK || status == LOCO_ERR_NOT_FOUND;
            if (status != LOCO_ERR_NOT_FOUND)
                return status;
            status = LOCO_OK;
        }
        if (status != LOCO_OK || !loci_node_has_high(leaf))
            return status != LOCO_OK ? status : LOCO_ERR_NOT_FOUND;
        put_before(c, loci_node_high(leaf), leaf->right);
    }
}

static int previous(struct loco_tree_cursor *c, enum loci_index_how how, loco_bytes_t *key,
                    loco_bytes_t *value)
{
    while (c->loaded || c->last || c->key_len > 0) {
        const struct loci_node *leaf = &c->leaf->node;
        int status = c->loaded ? LOCO_OK : load(c, how, true);

        while (status == LOCO_OK && c->at > 0) {
            status = take(c, how, c->at - 1, -1, key, value);
            c->at -= status == LOCO_OK || status == LOCO_ERR_NOT_FOUND;
            if (status != LOCO_ERR_NOT_FOUND)
                return status;
            status = LOCO_OK;
        }
        if (status != LOCO_OK)
            return status;
        put_before(c, loci_node_low(leaf), 0);
    }
    return LOCO_ERR_NOT_FOUND;
}

/* At the begin of a call: what was read ahead stays, if this is no other transaction. */
static int enter(struct loco_tree_cursor *c, enum loci_index_how *how)
{
    int status = loci_index_enter_again(c->ix);

    *how = c->ix->own ? LOCI_INDEX_PEEK : LOCI_INDEX_READ;
    return status;
}

int loco_tree_cursor_next(loco_tree_cursor_t *c, loco_bytes_t *key, loco_bytes_t *value)
{
    enum loci_index_how how;
    int status = loci_tx_enter(c->ix->tx);

    if (status != LOCO_OK)
        return status;
    status = enter(c, &how);
    return loci_tx_leave(c->ix->tx, status != LOCO_OK ? status : next(c, how, key, value));
}

int loco_tree_cursor_prev(loco_tree_cursor_t *c, loco_bytes_t *key, loco_bytes_t *value)
{
    enum loci_index_how how;
    int status = loci_tx_enter(c->ix->tx);

    if (status != LOCO_OK)
        return status;
    status = enter(c, &how);
    return loci_tx_leave(c->ix->tx, status != LOCO_OK ? status : previous(c, how, key, value));
}

/* ---- scans ---- */

struct scan {
    const loco_bytes_t *to;             /* NULL: no end; */
    uint64_t left;                      /* entries, at least 1 */
    loco_tree_visit_fn *visit;
    void *ctx;
    bool done;
};

/* Whether a leaf's keys are all below that one, as its high fence says. */
static bool all_below(const struct loci_node *leaf, const loco_bytes_t *to)
{
    return to == NULL || (loci_node_has_high(leaf)
                          && loci_bytes_compare(loci_node_high(leaf), *to) <= 0);
}

/* The entries of the leaf at hand. What the visitor does with the tree and its transaction does not
 * change the copy; what depends on them, a value that is not in it, is looked at anew. */
static int scan_leaf(struct loco_tree_cursor *c, struct scan *scan)
{
    const struct loci_node *leaf = &c->leaf->node;
    bool below = all_below(leaf, scan->to);
    enum loci_tx_stage stage = c->ix->tx->stage;
    int status = LOCO_OK;

    while (status == LOCO_OK && !scan->done && c->at < leaf->n && c->ix->tx->stage == stage) {
        loco_bytes_t key, value;

        c->left = scan->left == UINT64_MAX ? 0 : scan->left;
        ask_right(c);
        if (loci_node_entry(leaf, c->at, &key, &value))
            return LOCO_OK;
        scan->done = !below && loci_bytes_compare(key, *scan->to) >= 0;
        if (scan->done)
            return LOCO_OK;
        c->at++;
        status = scan->visit(scan->ctx, key, value);
        scan->done = --scan->left == 0;
    }
    return status;
}

/* As scan_leaf(), of one entry, wherever it is. */
static int scan_next(struct loco_tree_cursor *c, struct scan *scan)
{
    loco_bytes_t key, value;
    int status;

    c->left = scan->left == UINT64_MAX ? 0 : scan->left;
    status = loco_tree_cursor_next(c, &key, &value);
    scan->done = status == LOCO_ERR_NOT_FOUND
                 || (status == LOCO_OK && scan->to != NULL
                     && loci_bytes_compare(key, *scan->to) >= 0);
    if (scan->done)
        return LOCO_OK;
    if (status == LOCO_OK)
        status = scan->visit(scan->ctx, key, value);
    scan->done = --scan->left == 0;
    return status;
}

static int scan(struct loco_tree_cursor *c, const loco_bytes_t *to, uint64_t limit,
                loco_tree_visit_fn *visit, void *ctx)
{
    struct scan scan = { to, limit == 0 ? UINT64_MAX : limit, visit, ctx, false };
    int status = LOCO_OK;

    c->ahead = limit == 0 ? 4 : AHEAD_MOST;
    c->end = to;
    while (status == LOCO_OK && !scan.done) {
        status = scan_next(c, &scan);
        if (status == LOCO_OK && !scan.done && c->loaded)
            status = scan_leaf(c, &scan);
    }
    return status;
}

/* One after the other uses the tree's cursor. */
static int scan_from(loco_tree_t *tree, const loco_bytes_t *from, const loco_bytes_t *to,
                     uint64_t limit, loco_tree_visit_fn *visit, void *ctx)
{
    struct loco_tree_cursor *c = &tree->scan;
    bool nested = tree->scanning;
    int status = nested ? loco_tree_cursor_open(tree, from, &c) : loco_tree_cursor_seek(c, from);

    if (status != LOCO_OK)
        return status;
    tree->scanning = true;
    status = scan(c, to, limit, visit, ctx);
    tree->scanning = nested;
    if (nested)
        loco_tree_cursor_close(c);
    return status;
}

int loco_tree_scan(loco_tree_t *tree, const loco_bytes_t *from, const loco_bytes_t *to,
                   uint64_t limit, loco_tree_visit_fn *visit, void *ctx)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_SCAN, 0);

    return loci_call_end(self, scan_from(tree, from, to, limit, visit, ctx));
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Applying a batch. It lies in the origin's memory, which others may write to: each word of a record
 * is loaded once, and what was loaded is checked and used. */

#include "config.h"

#include <string.h>

#include "gather_apply.h"

#define HEADS 512               /* of lists of elements, by the words that they lie in */
#define NODES 640               /* of those lists: one for each word of each element */
#define WORDS(len) ((len) / 8 + 2)      /* that so many bytes lie in, at most */

struct node {
    uint64_t word;              /* address / 8 */
    uint16_t run, next;         /* an element there; index + 1 of the next node, or 0 */
};

struct item {
    uint16_t run;
    uint16_t len;
    enum loco_type type;
    enum loco_op op;
    const unsigned char *operand;
};

/* Some records, in order, and the elements that they are for. */
struct chunk {
    const struct loci_gather_way *way;
    int status;                 /* of the first that was not done */
    int runs, items, nodes;
    size_t bytes;               /* of all elements */
    bool reads;                 /* some record needs what was there */
    struct loci_piece run[LOCI_GATHER_CHUNK];
    uint16_t place[LOCI_GATHER_CHUNK];      /* of its copy in the room */
    int unread[LOCI_GATHER_CHUNK];          /* LOCO_OK, or why it is not in its copy */
    struct item item[LOCI_GATHER_CHUNK];
    uint16_t head[HEADS];       /* index + 1 of a node, or 0 */
    struct node node[NODES];
};
_Static_assert(LOCI_GATHER_ROOM <= UINT16_MAX + 1, "places have 16 bits");

static void clear(struct chunk *c)
{
    c->runs = c->items = c->nodes = 0;
    c->bytes = 0;
    c->reads = false;
    memset(c->head, 0, sizeof c->head);
}

static void note(struct chunk *c, int status)
{
    if (c->status == LOCO_OK)
        c->status = status;
}

/* ---- the elements of a chunk ---- */

static unsigned hash(uint64_t word)
{
    return (unsigned)(word * UINT64_C(0x9e3779b97f4a7c15) >> 55);
}
_Static_assert(HEADS == 1 << (64 - 55), "the hash has as many bits");

enum { NEW = -1, OVERLAPS = -2 };

/* The run of just those bytes; NEW: none has any of them; OVERLAPS. */
static int find_run(const struct chunk *c, uint64_t at, size_t len)
{
    for (uint64_t word = at / 8; word <= (at + len - 1) / 8; word++)
        for (unsigned n = c->head[hash(word)]; n != 0; n = c->node[n - 1].next) {
            const struct node *node = &c->node[n - 1];
            const struct loci_piece *run = &c->run[node->run];

            if (node->word != word)
                continue;
            if (run->at == at && run->len == len)
                return node->run;
            if (at < run->at + run->len && run->at < at + len)
                return OVERLAPS;
        }
    return NEW;
}

static int add_run(struct chunk *c, uint64_t at, size_t len)
{
    for (uint64_t word = at / 8; word <= (at + len - 1) / 8; word++) {
        uint16_t *head = &c->head[hash(word)];

        c->node[c->nodes] = (struct node){ word, (uint16_t)c->runs, *head };
        *head = (uint16_t)++c->nodes;
    }
    c->run[c->runs] = (struct loci_piece){ at, len };
    c->place[c->runs] = (uint16_t)c->bytes;
    c->unread[c->runs] = LOCO_OK;
    c->bytes += len;
    return c->runs++;
}

/* ---- doing it ---- */

static unsigned char *copy_of(const struct chunk *c, int run)
{
    return c->way->room + c->place[run];
}

static int move(const struct chunk *c, enum loci_op_kind kind, int first, int n)
{
    return c->way->move(c->way, kind, &c->run[first], n, copy_of(c, first));
}

/* One that cannot be read cannot be combined, but may be replaced. */
static void read_each(struct chunk *c)
{
    for (int i = 0; i < c->runs; i++)
        c->unread[i] = move(c, LOCI_READ, i, 1);
}

static void combine(struct chunk *c, const struct item *item)
{
    uint64_t operand[LOCI_GATHER_MOST / 8];
    unsigned char *copy = copy_of(c, item->run);

    if (item->op == LOCO_OP_REPLACE) {
        loci_copy_out(copy, item->operand, item->len);
        c->unread[item->run] = LOCO_OK;
    } else if (c->unread[item->run] != LOCO_OK) {
        note(c, c->unread[item->run]);
    } else {
        loci_copy_out(operand, item->operand, item->len);
        loci_reduce_table[item->type][item->op](copy, operand,
                                                item->len / loci_type(item->type)->extent);
    }
}

/* Where one write of all fails, each by itself, which may write again what is there already: the
 * lock is held. */
static void write_all(struct chunk *c)
{
    bool whole = true;

    for (int i = 0; whole && i < c->runs; i++)
        whole = c->unread[i] == LOCO_OK;
    if (whole && move(c, LOCI_WRITE, 0, c->runs) == LOCO_OK)
        return;
    for (int i = 0; i < c->runs; i++) {
        int status = c->unread[i] == LOCO_OK ? move(c, LOCI_WRITE, i, 1) : LOCO_OK;

        if (status != LOCO_OK)
            note(c, status);
    }
}

static void do_chunk(struct chunk *c)
{
    if (c->items == 0)
        return;
    if (c->reads && move(c, LOCI_READ, 0, c->runs) != LOCO_OK)
        read_each(c);
    for (int i = 0; i < c->items; i++)
        combine(c, &c->item[i]);
    write_all(c);
    clear(c);
}

/* ---- records ---- */

static void add(struct chunk *c, uint64_t at, const struct item *item)
{
    int run;

    if (c->items == LOCI_GATHER_CHUNK || c->nodes + (int)WORDS(item->len) > NODES)
        do_chunk(c);
    run = find_run(c, at, item->len);
    if (run == OVERLAPS) {
        do_chunk(c);
        run = NEW;
    }
    if (run == NEW)
        run = add_run(c, at, item->len);
    c->reads = c->reads || item->op != LOCO_OP_REPLACE;
    c->item[c->items] = *item;
    c->item[c->items++].run = (uint16_t)run;
}

/* Whether the words of a record make sense; those behind it are not known if not. */
static bool read_record(const unsigned char *record, size_t left, struct item *item)
{
    uint64_t what = loci_load64(record + 8);
    const struct loci_type *type = loci_type((enum loco_type)(what & 0xff));

    *item = (struct item){
        .type = (enum loco_type)(what & 0xff), .op = (enum loco_op)(what >> 8 & 0xff),
        .len = (uint16_t)(what >> 16), .operand = record + 16,
    };
    return what >> 32 == 0 && item->len > 0 && item->len <= LOCI_GATHER_MOST
           && LOCI_GATHER_RECORD(item->len) <= left && type != NULL && type->plain
           && item->len % type->extent == 0 && item->op != LOCO_OP_NO_OP
           && loci_reduce(item->op, item->type) != NULL;
}

int loci_gather_apply(const struct loci_gather_way *way, const unsigned char *batch)
{
    uint64_t bytes = loci_load64(batch);
    const unsigned char *record = batch + 8;
    size_t left = bytes <= LOCI_GATHER_BATCH - 8 ? bytes : 0;
    struct chunk c;

    c.way = way;
    c.status = left == bytes ? LOCO_OK : LOCO_ERR_PROTOCOL;
    clear(&c);
    while (left > 0) {
        struct item item;
        uint64_t at;
        int status;

        if (left < 16 || !read_record(record, left, &item)) {
            note(&c, LOCO_ERR_PROTOCOL);
            break;
        }
        status = way->locate(way, loci_load64(record), item.len, &at);
        if (status == LOCO_OK)
            add(&c, at, &item);
        else
            note(&c, status);
        record += LOCI_GATHER_RECORD(item.len);
        left -= LOCI_GATHER_RECORD(item.len);
    }
    do_chunk(&c);
    return c.status;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Applying batches. */

#include "config.h"

#include <string.h>

#include "gather_apply.h"
#include "gather_in_place.h"

#ifdef LOCO_SIM
#define HEADS_BITS 3
#else
#define HEADS_BITS 11           /* of the number of a list of elements, by the words they lie in */
#endif
#define HEADS (1 << HEADS_BITS)
#define NODES (LOCI_GATHER_CHUNK * 5 / 2 + (int)WORDS(LOCI_GATHER_MOST)) /* a word of an element */
#define WORDS(len) ((len) / 8 + 2)      /* that so many bytes lie in, at most */

struct node {
    uint64_t word;              /* address / 8 */
    uint16_t run, next;         /* an element there; index + 1 of the next node, or 0 */
};

struct item {
    struct loci_gather_what what;
    const unsigned char *operand;
    uint16_t run;
};

/* Some records, in order, and the elements that they are for. */
struct loci_gather_chunk {
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

static void clear(struct loci_gather_chunk *c)
{
    c->runs = c->items = c->nodes = 0;
    c->bytes = 0;
    c->reads = false;
    memset(c->head, 0, sizeof c->head);
}

static void note(struct loci_gather_chunk *c, int status)
{
    if (c->status == LOCO_OK)
        c->status = status;
}

/* ---- the elements of a chunk ---- */

static unsigned hash(uint64_t word)
{
    return (unsigned)(word * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HEADS_BITS));
}

enum { NEW = -1, OVERLAPS = -2 };

/* The run of just those bytes; NEW: none has any of them; OVERLAPS. */
static int find_run(const struct loci_gather_chunk *c, uint64_t at, size_t len)
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

static int add_run(struct loci_gather_chunk *c, uint64_t at, size_t len)
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

static unsigned char *copy_of(const struct loci_gather_chunk *c, int run)
{
    return c->way->room + c->place[run];
}

static int move(const struct loci_gather_chunk *c, enum loci_op_kind kind, int first, int n)
{
    return c->way->move(c->way, kind, &c->run[first], n, copy_of(c, first));
}

/* One that cannot be read cannot be combined, but may be replaced. */
static void read_each(struct loci_gather_chunk *c)
{
    for (int i = 0; i < c->runs; i++)
        c->unread[i] = move(c, LOCI_READ, i, 1);
}

static void combine(struct loci_gather_chunk *c, const struct item *item)
{
    uint64_t operand[LOCI_GATHER_MOST / 8];
    unsigned char *copy = copy_of(c, item->run);
    size_t len = item->what.len;

    if (item->what.reduce == NULL) {
        loci_copy_out(copy, item->operand, len);
        c->unread[item->run] = LOCO_OK;
    } else if (c->unread[item->run] != LOCO_OK) {
        note(c, c->unread[item->run]);
    } else {
        if (len == 8)
            operand[0] = loci_load64(item->operand);
        else
            loci_copy_out(operand, item->operand, len);
        item->what.reduce(copy, operand, item->what.n);
    }
}

/* Where one write of all fails, each by itself, which may write again what is there already: the
 * lock is held. */
static void write_all(struct loci_gather_chunk *c)
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

static void do_chunk(struct loci_gather_chunk *c)
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

static void add(struct loci_gather_chunk *c, uint64_t at, const struct loci_gather_what *what,
                const unsigned char *operand)
{
    int run;

    if (c->items == LOCI_GATHER_CHUNK || c->nodes + (int)WORDS(what->len) > NODES)
        do_chunk(c);
    run = find_run(c, at, what->len);
    if (run == OVERLAPS) {
        do_chunk(c);
        run = NEW;
    }
    if (run == NEW)
        run = add_run(c, at, what->len);
    c->reads = c->reads || what->reduce != NULL;
    c->item[c->items++] = (struct item){ *what, operand, (uint16_t)run };
}

/* ---- for origins ---- */

int loci_gather_locate_there(const struct loci_gather_way *way, uint64_t offset, size_t len,
                             uint64_t *at)
{
    const struct loco_span span = { NULL, offset, len };

    *at = offset;
    return loci_window_check_spans(way->win, way->rank, &span, 1);
}

void loci_gather_spans(const struct loci_piece *pieces, int n, unsigned char *packed,
                       struct loco_span span[LOCI_GATHER_CHUNK])
{
    for (int i = 0; i < n; i++) {
        span[i] = (struct loco_span){ packed, pieces[i].at, pieces[i].len };
        packed += pieces[i].len;
    }
}

/* ---- batches ---- */

size_t loci_gather_chunk_size(void)
{
    return sizeof(struct loci_gather_chunk);
}

void loci_gather_apply_begin(const struct loci_gather_way *way)
{
    way->chunk->way = way;
    way->chunk->status = LOCO_OK;
    clear(way->chunk);
}

int loci_gather_apply_end(const struct loci_gather_way *way)
{
    do_chunk(way->chunk);
    return way->chunk->status;
}

/* From the first record on; how many bytes of them are done. */
static size_t apply_in_place(const struct loci_gather_way *way, const unsigned char *record,
                             size_t bytes)
{
    struct loci_gather_area area;
    size_t done;

    if (!loci_gather_survey(way, record, bytes, &area))
        return 0;
    do_chunk(way->chunk);
    if (!loci_gather_reach(way, &area))
        return 0;
    done = loci_gather_in_place(&area, record, bytes);
    way->reached(way);
    return done;
}

static void apply_by_chunks(const struct loci_gather_way *way, const unsigned char *record,
                            size_t left)
{
    struct loci_gather_what what = { .word = 0 };

    while (left > 0) {
        uint64_t at;
        int status;

        if (!loci_gather_next(record, left, &what)) {
            note(way->chunk, LOCO_ERR_PROTOCOL);
            break;
        }
        status = way->locate(way, loci_load64(record), what.len, &at);
        if (status == LOCO_OK)
            add(way->chunk, at, &what, record + 16);
        else
            note(way->chunk, status);
        record += LOCI_GATHER_RECORD(what.len);
        left -= LOCI_GATHER_RECORD(what.len);
    }
}

void loci_gather_apply(const struct loci_gather_way *way, const unsigned char *batch)
{
    uint64_t bytes = loci_load64(batch);
    size_t done;

    if (bytes > LOCI_GATHER_BATCH - 8) {
        note(way->chunk, LOCO_ERR_PROTOCOL);
        return;
    }
    done = apply_in_place(way, batch + 8, bytes);
    apply_by_chunks(way, batch + 8 + done, bytes - done);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* What there is at a host, and who has it (store_survey.h). All is read as it comes, while others
 * go on; why it is right all the same is told in store_scavenge.c. */

#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "store_survey.h"

#define PIECE 65536u            /* bytes that are read at once */
#define TRIES 1000              /* of a pool that changes */
#define IN_ORDER INT64_C(100000000)     /* ns that a stock may take to be in order */

/* ---- reading ---- */

static int read_range(struct loci_survey *v, struct loci_mem *mem, uint64_t at, void *to,
                      size_t len)
{
    const unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_read(v->s->rt, mem, at, to, len, NULL);
    loci_copy_out_raced(to, p + at, len);
    return LOCO_OK;
}

static int read_word(struct loci_survey *v, int region, uint64_t at, uint64_t *word)
{
    return loci_read64(v->s->rt, loci_store_mem(v->s, v->host, region), at, word, NULL);
}

static bool has(const unsigned char *bits, uint64_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0;
}

static void set(unsigned char *bits, uint64_t i)
{
    bits[i / 8] |= (unsigned char)(1u << i % 8);
}

int loci_survey_open(struct loci_survey *v, struct loco_store *s, int host)
{
    uint64_t pages = 0, cells = 0;
    int status;

    memset(v, 0, sizeof *v);
    v->s = s;
    v->host = host;
    status = read_word(v, LOCI_STORE_HEAD, LOCI_STORE_NEXT_PAGE, &pages);
    if (status == LOCO_OK)
        status = read_word(v, LOCI_STORE_HEAD, LOCI_STORE_NEXT_CELL, &cells);
    if (status != LOCO_OK)
        return status;
    v->pages = pages < s->pages ? pages : s->pages;
    v->blocks = v->pages * (LOCI_STORE_PAGE / LOCI_STORE_UNIT);
    v->cells = s->roots_here + cells < s->cells ? s->roots_here + cells : s->cells;
    v->has_block = calloc(v->blocks / 8 + 1, 1);
    v->has_cell = calloc(v->cells / 8 + 1, 1);
    return v->has_block == NULL || v->has_cell == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

void loci_survey_close(struct loci_survey *v)
{
    free(v->stray);
    free(v->has_block);
    free(v->has_cell);
}

static int add(struct loci_survey *v, int class, uint64_t number)
{
    if (v->n == v->room) {
        size_t room = v->room == 0 ? 1024 : 2 * v->room;
        struct loci_stray *more = realloc(v->stray, room * sizeof *more);

        if (more == NULL)
            return LOCO_ERR_NO_MEMORY;
        v->stray = more;
        v->room = room;
    }
    v->stray[v->n++] = (struct loci_stray){ .number = number, .class = class };
    return LOCO_OK;
}

/* ---- cells ---- */

/* Up to two blocks that the word of a cell may stand for; 0: none. */
static int blocks_of(struct loci_survey *v, uint64_t cell, uint64_t word, uint64_t *one,
                     uint64_t *other)
{
    loco_object_t object = loci_object(v->host, cell);
    struct loci_owner owner;
    int status = LOCO_OK;

    *other = 0;
    for (unsigned rounds = 0; loci_cell_is_owned(word); loci_wait_round(v->s->rt, &rounds)) {
        status = loci_log_read_owner(v->s, object, word, &owner);
        if (status == LOCO_OK) {
            *one = loci_cell_block(owner.old);
            *other = loci_cell_block(owner.new);
            return LOCO_OK;
        }
        if (status == LOCO_ERR_PEER_DEAD && loci_host_is_lost(v->s, loci_slot_host(
                v->s, loci_cell_slot(word)))) {
            v->unsure = true;       /* either may be what it is */
            *one = 0;
            return LOCO_OK;
        }
        if (status == LOCO_ERR_AGAIN)
            status = loci_cell_load(v->s, object, &word);
        if (status != LOCO_OK)
            return status;
    }
    *one = loci_cell_block(word);
    return status;
}

static int scan_cell(struct loci_survey *v, uint64_t cell, uint64_t word)
{
    uint64_t one, other;
    int status = blocks_of(v, cell, word, &one, &other);

    if (status != LOCO_OK)
        return status;
    if (one != 0 && one <= v->blocks)
        set(v->has_block, one - 1);
    if (other != 0 && other <= v->blocks)
        set(v->has_block, other - 1);
    v->objects += one != 0 || other != 0;
    if (cell < v->s->roots_here || one != 0 || other != 0)
        return LOCO_OK;
    return add(v, LOCI_STORE_CLASSES, cell);
}

static int scan_cells(struct loci_survey *v, uint64_t *piece)
{
    struct loci_mem *mem = loci_store_mem(v->s, v->host, LOCI_STORE_CELLS);

    for (uint64_t cell = 0; cell < v->cells;) {
        uint64_t n = v->cells - cell < PIECE / 8 ? v->cells - cell : PIECE / 8;
        int status = read_range(v, mem, 8 * cell, piece, 8 * n);

        for (uint64_t i = 0; i < n && status == LOCO_OK; i++, cell++)
            status = scan_cell(v, cell, piece[i]);
        if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

/* ---- blocks ---- */

/* Those of a run of pages of one class that no cell names. */
static int scan_run(struct loci_survey *v, uint64_t page, uint64_t n, int class)
{
    uint64_t per_page = LOCI_STORE_PAGE / LOCI_STORE_UNIT;
    uint64_t units = loci_class_bytes(class) / LOCI_STORE_UNIT;
    uint64_t block = 1 + page * per_page, end = 1 + (page + n) * per_page;
    int status = LOCO_OK;

    for (; block + units <= end && status == LOCO_OK; block += units)
        if (!has(v->has_block, block - 1))
            status = add(v, class, block);
    return status;
}

static int scan_pages(struct loci_survey *v, uint64_t *piece)
{
    struct loci_mem *mem = loci_store_mem(v->s, v->host, LOCI_STORE_PAGES);
    uint64_t skip = 0;

    for (uint64_t page = 0; page < v->pages;) {
        uint64_t n = v->pages - page < PIECE / 8 ? v->pages - page : PIECE / 8;
        int status = read_range(v, mem, 8 * page, piece, 8 * n);

        for (uint64_t i = 0; i < n && status == LOCO_OK; i++, page++) {
            uint64_t class = piece[i] & 0xff, run = piece[i] >> 8;

            if (skip > 0)
                skip--;
            else if (class == 0)
                status = add(v, LOCI_STRAY_PAGE, page);
            else if (class <= LOCI_STORE_CLASSES && run >= 1 && run <= v->s->pages - page) {
                status = scan_run(v, page, run, (int)class - 1);
                skip = run - 1;
            }
        }
        if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

int loci_survey_scan(struct loci_survey *v)
{
    uint64_t *piece = malloc(PIECE);
    int status = piece == NULL ? LOCO_ERR_NO_MEMORY : scan_cells(v, piece);

    if (status == LOCO_OK)
        status = scan_pages(v, piece);
    free(piece);
    return status;
}

/* ---- who has what ---- */

static void note_entry(struct loci_survey *v, uint64_t entry)
{
    uint64_t first = loci_stock_first(entry), count = loci_stock_count(entry), step = 1;
    bool cells = loci_stock_kind(entry) == LOCI_STOCK_CELLS;

    if (loci_stock_kind(entry) == LOCI_STOCK_NONE || loci_stock_host(entry) != v->host
        || loci_stock_class(entry) >= LOCI_STORE_CLASSES)
        return;
    if (!cells)
        step = loci_class_bytes(loci_stock_class(entry)) / LOCI_STORE_UNIT;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = first + i * step;

        if (cells && at < v->cells)
            set(v->has_cell, at);
        else if (!cells && at >= 1 && at <= v->blocks)
            set(v->has_block, at - 1);
    }
}

struct reading {
    struct loci_survey *v;
    struct loci_mem *mem;
    uint64_t at;
    struct loci_stock *stock;
    uint64_t asked;             /* the number of the question; 0: not asked yet */
};

/* Of a hosted store. A client that is busy is hardly ever between two turns for as long as it takes
 * to read its stock; so it is asked for a copy, which is of an instant after that. 1: there it is;
 * 0: not yet. */
static int is_shown(struct reading *r)
{
    struct loco_runtime *rt = r->v->s->rt;
    uint64_t copy = r->at + sizeof(struct loci_stock), answer = 0;
    uint64_t ask = r->at + offsetof(struct loci_stock, ask);
    int status;

    /* Not one more than the last answer: the copy for a question that was given up may be made
     * already, and only be about to be told. */
    if (r->asked == 0) {
        status = loci_read64(rt, r->mem, ask, &r->asked, NULL);
        r->asked++;
        return status != LOCO_OK ? status : loci_write64(rt, r->mem, ask, r->asked, NULL);
    }
    status = loci_read64(rt, r->mem, copy, &answer, NULL);
    if (status == LOCO_OK && answer == r->asked)
        status = read_range(r->v, r->mem, copy, r->stock, sizeof *r->stock);
    return status != LOCO_OK ? status : answer == r->asked;
}

/* A stock in order: its turn is even, and the same before and after. */
static int is_in_order(void *arg)
{
    struct reading *r = arg;
    struct loco_runtime *rt = r->v->s->rt;
    uint64_t before, after = 0;
    int status = loci_read64(rt, r->mem, r->at, &before, NULL);

    if (status == LOCO_OK && before % 2 == 0)
        status = read_range(r->v, r->mem, r->at, r->stock, sizeof *r->stock);
    if (status == LOCO_OK)
        status = loci_read64(rt, r->mem, r->at, &after, NULL);
    if (status != LOCO_OK || (before % 2 == 0 && before == after))
        return status != LOCO_OK ? status : 1;
    return r->v->s->hosted ? is_shown(r) : 0;
}

static int read_stock(struct loci_survey *v, int rank, int thread, struct loci_stock *stock)
{
    uint64_t at;
    struct loci_mem *mem = loci_stock_mem(v->s, rank, thread, &at);
    struct reading r = { v, mem, at, stock, 0 };
    const struct loci_reason why = {
        .what = v->s->ep->name, .at = mem, .peer = v->s->ep->group.peer[rank],
        .timeout_ns = IN_ORDER, .what_for = LOCI_FOR_STORE_COUNTS,
    };

    loci_mem_map_soon(v->s->rt, mem);
    return loci_wait(v->s->rt, &why, is_in_order, &r);
}

static int note_stocks(struct loci_survey *v, struct loci_stock *stock)
{
    struct loco_store *s = v->s;

    for (int rank = 0; rank < s->ep->group.size; rank++) {
        if (loci_rank_is_dead(s, rank))
            continue;
        for (int thread = 0; thread < s->threads; thread++) {
            int status = read_stock(v, rank, thread, stock);

            if (status == LOCO_ERR_TIMEOUT || (status != LOCO_OK && loci_rank_is_dead(s, rank))) {
                v->unsure = true;       /* in one transaction for long; or just dead */
                continue;
            }
            if (status != LOCO_OK)
                return status;
            for (unsigned i = 0; i < LOCI_STOCK_ENTRIES; i++)
                note_entry(v, stock->entry[i]);
        }
    }
    return LOCO_OK;
}

/* One walk; LOCO_ERR_AGAIN: the pool has changed meanwhile. */
static int walk_pool(struct loci_survey *v, int list)
{
    bool cells = list == LOCI_STORE_CLASSES;
    uint64_t head = LOCI_STORE_POOLS + 8 * (uint64_t)list, first, last, number;
    uint64_t most = cells ? v->cells : v->blocks;
    int status = read_word(v, LOCI_STORE_HEAD, head, &first);

    number = first & UINT32_MAX;
    for (uint64_t i = 0; number >= 1 && number <= most && i <= most && status == LOCO_OK; i++) {
        uint64_t link, at = cells ? 8 * number
                            : loci_block_at(number) + offsetof(struct loci_block_header, object);

        set(cells ? v->has_cell : v->has_block, number - 1);
        status = read_word(v, cells ? LOCI_STORE_LINKS : LOCI_STORE_BLOCKS, at, &link);
        number = (link & LOCI_IN_POOL) != 0 ? link & UINT32_MAX : 0;
    }
    if (status == LOCO_OK)
        status = read_word(v, LOCI_STORE_HEAD, head, &last);
    return status != LOCO_OK ? status : last == first ? LOCO_OK : LOCO_ERR_AGAIN;
}

static int note_pools(struct loci_survey *v)
{
    for (int list = 0; list <= (int)LOCI_STORE_CLASSES; list++) {
        int status = LOCO_ERR_AGAIN;

        for (unsigned rounds = 0; rounds < TRIES && status == LOCO_ERR_AGAIN;) {
            status = walk_pool(v, list);
            if (status == LOCO_ERR_AGAIN)
                loci_wait_round(v->s->rt, &rounds);
        }
        if (status == LOCO_ERR_AGAIN)
            v->unsure = true;
        else if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

int loci_survey_leave_owned(struct loci_survey *v)
{
    struct loci_stock *stock = malloc(sizeof *stock);
    size_t kept = 0;
    int status = stock == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;

    memset(v->has_block, 0, v->blocks / 8 + 1);
    memset(v->has_cell, 0, v->cells / 8 + 1);
    /* Pools first: who takes something from one has it in his stock after that. */
    if (status == LOCO_OK)
        status = note_pools(v);
    if (status == LOCO_OK)
        status = note_stocks(v, stock);
    free(stock);
    for (size_t i = 0; i < v->n; i++) {
        const struct loci_stray *stray = &v->stray[i];
        bool owned = stray->class < LOCI_STORE_CLASSES ? has(v->has_block, stray->number - 1)
                     : stray->class == LOCI_STORE_CLASSES && has(v->has_cell, stray->number);

        if (!owned)
            v->stray[kept++] = *stray;
    }
    v->n = kept;
    return status;
}

/* ---- looking again ---- */

/* A block is as it was: its stamp is, and no cell names it. *is says so. */
static int look_at_block(struct loci_survey *v, struct loci_stray *stray, bool first, bool *is)
{
    struct loci_block_header header;
    uint64_t one = 0, other = 0, word;
    int status = read_range(v, loci_store_mem(v->s, v->host, LOCI_STORE_BLOCKS),
                            loci_block_at(stray->number), &header, sizeof header);

    if (status == LOCO_OK && loci_object_is(v->s, header.object)
        && loci_object_host(header.object) == v->host) {
        status = loci_cell_load(v->s, header.object, &word);
        if (status == LOCO_OK)
            status = blocks_of(v, loci_object_cell(header.object), word, &one, &other);
    }
    if (status != LOCO_OK)
        return status;
    *is = one != stray->number && other != stray->number
          && (first || header.stamp == stray->mark);
    stray->mark = header.stamp;
    return LOCO_OK;
}

static int look_at_cell(struct loci_survey *v, struct loci_stray *stray, bool first, bool *is)
{
    uint64_t word, link;
    int status = read_word(v, LOCI_STORE_CELLS, 8 * stray->number, &word);

    if (status == LOCO_OK)
        status = read_word(v, LOCI_STORE_LINKS, 8 * (stray->number + 1), &link);
    if (status != LOCO_OK)
        return status;
    *is = !loci_cell_is_owned(word) && loci_cell_block(word) == 0
          && (first || (word == stray->word && link == stray->mark));
    stray->word = word;
    stray->mark = link;
    return LOCO_OK;
}

static int look_at_page(struct loci_survey *v, const struct loci_stray *stray, bool *is)
{
    uint64_t word;
    int status = read_word(v, LOCI_STORE_PAGES, 8 * stray->number, &word);

    *is = status == LOCO_OK && word == 0;
    return status;
}

int loci_survey_look_again(struct loci_survey *v, bool first)
{
    size_t kept = 0;
    int status = LOCO_OK;

    for (size_t i = 0; i < v->n && status == LOCO_OK; i++) {
        struct loci_stray *stray = &v->stray[i];
        bool is = false;

        status = stray->class < (int)LOCI_STORE_CLASSES ? look_at_block(v, stray, first, &is)
                 : stray->class == (int)LOCI_STORE_CLASSES ? look_at_cell(v, stray, first, &is)
                 : look_at_page(v, stray, &is);
        if (is)
            v->stray[kept++] = *stray;
    }
    v->n = kept;
    return status;
}

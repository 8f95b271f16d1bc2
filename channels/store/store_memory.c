/* SPDX-License-Identifier: BSD-3-Clause */

/* Who has which block and which cell. Each is at any time in one of these places, but for moments
 * inside one client's turn:
 *
 *   live      a block that a cell names; a cell that names a block, or is owned, or is a root
 *   a stock   of a client: its array of entries, in its own process's network memory. Whoever's
 *             transaction moves a cell on from a block has that block, and may write to it at
 *             once. So an update takes a block from the stock and brings one back
 *   a pool    of a host, one for each class of blocks and one for cells: stacks, for what a stock
 *             has no room for. A block there links to the next in its second word
 *   fresh     never used: pages and cells from the host's counters on. A page has blocks of one
 *             class, which its first taker writes into the host's table of pages
 *
 * Whose client has died: what it had is in none of these any more, and stays so. That is how it is
 * found (store_scavenge.c): for that, a stock may be read by others, and says by its turn when it
 * is in order; a turn is odd from before the client may come to have something until that is
 * entered.
 *
 * A pool is a stack whose head has a count beside the first block, changed by swaps alone. Its
 * links are read before the swap: where another has taken that block since, the count differs. */

#include "config.h"

#include <stdlib.h>

#include "backoff.h"
#include "observe/observe.h"
#include "store_memory.h"

#define CELL_BATCH 64u
#define LISTS (LOCI_STORE_CLASSES + 1)
#define NUMBER_OF_NONE 65536            /* and a rank: above those of all clients */
#define SPILL (LOCI_STOCK_ENTRIES - 2 * LOCO_TX_WRITES_MAX)     /* above that pools get some */

/* ---- a stock on another machine ---- */

#define ASKED_EVERY 64u                 /* turns between two looks whether anybody asks */

/* If its host dies, whoever uses that is told by the next operation. */
void loci_stock_tell(struct loci_client *c, uint64_t at, uint64_t word)
{
    (void)loci_write64(c->s->rt, c->far, c->far_at + at, word, &c->told);
}

/* What another thread has told is to be there before what this one does. */
void loci_stock_begin_far(struct loci_client *c)
{
    const void *self = loci_self(c->s->rt);

    (void)loco_ack_wait(c->s->rt, &c->told);
    if (c->teller != self)
        (void)loci_fence_peer(c->s->rt, LOCO_FENCE_PROCESS, c->far->peer);
    c->teller = self;
    loci_stock_tell(c, offsetof(struct loci_stock, turn), c->turn);
}

void loci_stock_end_far(struct loci_client *c)
{
    uint64_t ask;

    loci_stock_tell(c, offsetof(struct loci_stock, turn), c->turn);
    if (c->turn / 2 % ASKED_EVERY == 0
        && loci_read64(c->s->rt, c->far, c->far_at + offsetof(struct loci_stock, ask), &ask, NULL)
           == LOCO_OK)
        loci_store64(&c->stock->ask, ask);
}

static int find_far(struct loci_client *c, struct loci_mem *mem, uint64_t at)
{
    int status;

    c->stock = calloc(2, sizeof *c->stock);
    if (c->stock == NULL)
        return LOCO_ERR_NO_MEMORY;
    c->far = mem;
    c->far_at = at;
    status = loci_read(c->s->rt, mem, at, c->stock, 2 * sizeof *c->stock, NULL);
    return status;
}

/* All is there before others have the place. */
static void leave_far(struct loci_client *c)
{
    (void)loco_ack_wait(c->s->rt, &c->told);
    (void)loci_fence_peer(c->s->rt, LOCO_FENCE_PROCESS, c->far->peer);
    free(c->stock);
}

/* The copy, and then the answer that it is there. */
static void show_far(struct loci_client *c, const struct loci_stock *copy)
{
    uint64_t at = c->far_at + sizeof *copy;

    (void)loci_write(c->s->rt, c->far, at + offsetof(struct loci_stock, entry), copy->entry,
                     sizeof copy->entry, &c->told);
    (void)loci_write64(c->s->rt, c->far, at + offsetof(struct loci_stock, turn), copy->turn,
                       &c->told);
    (void)loco_ack_wait(c->s->rt, &c->told);
}

/* ---- lists of a stock ---- */

static void set_entry(struct loci_client *c, unsigned at, uint64_t entry)
{
    loci_store64(&c->stock->entry[at], entry);
    if (c->far != NULL)
        loci_stock_tell(c, offsetof(struct loci_stock, entry) + 8 * (uint64_t)at, entry);
}

static uint16_t *list_of(struct loci_client *c, uint64_t entry)
{
    int class = loci_stock_kind(entry) == LOCI_STOCK_CELLS ? LOCI_STORE_CLASSES
                : loci_stock_class(entry);

    return &c->list[loci_stock_host(entry) * (int)LISTS + class];
}

static void push(uint16_t *list, struct loci_client *c, unsigned at)
{
    c->next[at] = *list;
    *list = (uint16_t)(at + 1);
}

static unsigned pop(uint16_t *list, struct loci_client *c)
{
    unsigned at = *list - 1u;

    *list = c->next[at];
    return at;
}

/* A new entry; there is one, as spilling and the limits of a transaction see to it. */
static unsigned enter(struct loci_client *c, uint64_t entry)
{
    unsigned at = pop(&c->unused, c);

    set_entry(c, at, entry);
    c->in_stock++;
    return at;
}

void loci_stock_put_back(struct loci_client *c, unsigned at)
{
    push(list_of(c, c->stock->entry[at]), c, at);
}

void loci_stock_give(struct loci_client *c, unsigned at)
{
    set_entry(c, at, 0);
    push(&c->unused, c, at);
    c->in_stock--;
}

/* The last of a list's first run, in an entry of its own. */
static unsigned split(struct loci_client *c, uint16_t *list)
{
    unsigned run = *list - 1u;
    uint64_t entry = c->stock->entry[run], count = loci_stock_count(entry);
    int class = loci_stock_class(entry);
    uint64_t step = loci_stock_kind(entry) == LOCI_STOCK_CELLS ? 1
                    : loci_class_bytes(class) / LOCI_STORE_UNIT;
    unsigned at;

    if (count == 1)
        return pop(list, c);
    at = enter(c, loci_stock_entry(loci_stock_kind(entry), class, loci_stock_host(entry), 1,
                                   loci_stock_first(entry) + (count - 1) * step));
    set_entry(c, run, entry - (UINT64_C(1) << 32));
    return at;
}

/* As it is between two turns, after the question was seen: so at an instant after it was asked. Its
 * answer is the question's number, in the place of the turn. */
void loci_stock_show(struct loci_client *c)
{
    struct loci_stock *copy = c->stock + 1;
    uint64_t ask = loci_load64(&c->stock->ask);

    loci_copy_in_raced(copy->entry, c->stock->entry, sizeof copy->entry);
    loci_store64(&copy->turn, ask);
    if (c->far != NULL)
        show_far(c, copy);
    c->answered = ask;
}

/* ---- the pools of hosts ---- */

static uint64_t pool_at(int list)
{
    return LOCI_STORE_POOLS + 8 * (uint64_t)list;
}

/* Where the link is of what has that number in a pool. */
static struct loci_mem *link_of(struct loco_store *s, int host, int list, uint64_t number,
                                uint64_t *at)
{
    if (list == LOCI_STORE_CLASSES) {
        *at = 8 * number;
        return loci_store_mem(s, host, LOCI_STORE_LINKS);
    }
    *at = loci_block_at(number) + offsetof(struct loci_block_header, object);
    return loci_store_mem(s, host, LOCI_STORE_BLOCKS);
}

/* Numbers in pools are 1 and up: of cells one more than that of the cell. */
static uint64_t number_of(uint64_t entry)
{
    return loci_stock_first(entry) + (loci_stock_kind(entry) == LOCI_STOCK_CELLS);
}

/* Beside the next, some of a number that does not soon come again. */
static uint64_t link_word(uint64_t stamp, uint64_t next)
{
    return LOCI_IN_POOL | (stamp * UINT64_C(0x9e3779b97f4a7c15) >> 33) << 32 | next;
}

int loci_pool_push(struct loci_client *c, int host, int list, uint64_t number)
{
    struct loco_store *s = c->s;
    struct loci_mem *head = loci_store_mem(s, host, LOCI_STORE_HEAD);
    uint64_t at, seen, old, stamp = loci_client_stamp(c);
    struct loci_mem *link = link_of(s, host, list, number, &at);
    int status = loci_read64(s->rt, head, pool_at(list), &seen, NULL);
    struct loci_backoff b;

    loci_backoff_begin(&b, s->rt, head);
    while (status == LOCO_OK) {
        loco_ack_t ack = LOCO_ACK_INIT;
        int placed;

        if (list != LOCI_STORE_CLASSES)     /* who still reads the value sees that it goes */
            status = loci_write64(s->rt, link, loci_block_at(number), stamp, &ack);
        if (status == LOCO_OK)
            status = loci_write64(s->rt, link, at, link_word(stamp, seen & UINT32_MAX), &ack);
        if (status == LOCO_OK)
            status = loci_compare_swap(s->rt, head, pool_at(list), seen,
                                       ((seen >> 32) + 1) << 32 | number, &old, &ack);
        placed = loco_ack_wait(s->rt, &ack);
        status = status != LOCO_OK ? status : placed;
        if (status != LOCO_OK || old == seen)
            return status;
        seen = old;
        loci_backoff_pause(&b);
    }
    return status;
}

/* LOCO_ERR_AGAIN: there is nothing in it. */
static int pool_pop(struct loco_store *s, int host, int list, uint64_t *number)
{
    struct loci_mem *head = loci_store_mem(s, host, LOCI_STORE_HEAD);
    uint64_t seen, old, next;
    int status = loci_read64(s->rt, head, pool_at(list), &seen, NULL);
    struct loci_backoff b;

    loci_backoff_begin(&b, s->rt, head);
    while (status == LOCO_OK) {
        uint64_t at, most = list == LOCI_STORE_CLASSES ? s->cells : s->blocks;
        struct loci_mem *link;

        *number = seen & UINT32_MAX;
        if (*number == 0 || *number > most)
            return LOCO_ERR_AGAIN;
        link = link_of(s, host, list, *number, &at);
        status = loci_read64(s->rt, link, at, &next, NULL);
        if (status == LOCO_OK)
            status = loci_compare_swap(s->rt, head, pool_at(list), seen,
                                       ((seen >> 32) + 1) << 32 | (next & UINT32_MAX), &old, NULL);
        if (status != LOCO_OK || old == seen)
            return status;
        seen = old;
        loci_backoff_pause(&b);
    }
    return status;
}

/* The stock is nearly full: half of what is free in it goes to the pools. */
static int spill(struct loci_client *c)
{
    int lists = c->s->nhosts * (int)LISTS;

    for (int i = 0; i < lists && c->in_stock > SPILL / 2; i++)
        while (c->list[i] != 0 && c->in_stock > SPILL / 2) {
            unsigned at = split(c, &c->list[i]);
            int status = loci_pool_push(c, i / (int)LISTS, i % (int)LISTS,
                                   number_of(c->stock->entry[at]));

            if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD)
                return status;
            loci_stock_give(c, at);     /* with a host that has died it is lost */
        }
    return LOCO_OK;
}

/* ---- fresh memory ---- */

/* Up to `n` of a counter that goes to `end`: LOCO_ERR_FULL, or *first and *got. */
static int count_up(struct loco_store *s, int host, uint64_t counter, uint64_t n, uint64_t least,
                    uint64_t end, uint64_t *first, uint64_t *got)
{
    struct loci_mem *head = loci_store_mem(s, host, LOCI_STORE_HEAD);
    uint64_t seen, old;
    int status = loci_read64(s->rt, head, counter, &seen, NULL);
    struct loci_backoff b;

    loci_backoff_begin(&b, s->rt, head);
    while (status == LOCO_OK) {
        *got = seen > end ? 0 : end - seen < n ? end - seen : n;
        if (*got < least)
            return LOCO_ERR_FULL;
        status = loci_compare_swap(s->rt, head, counter, seen, seen + *got, &old, NULL);
        if (status != LOCO_OK || old == seen)
            break;
        seen = old;
        loci_backoff_pause(&b);
    }
    *first = seen;
    return status;
}

/* A word each, written before any cell can name a block there. The first comes last, and says how
 * many they are. */
int loci_pages_say_class(struct loco_store *s, int host, uint64_t page, uint64_t n, int class)
{
    struct loci_mem *mem = loci_store_mem(s, host, LOCI_STORE_PAGES);
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, done;

    for (uint64_t i = n; i-- > 0 && status == LOCO_OK;) {
        uint64_t word = (i == 0 ? n << 8 : 0) | (uint64_t)(class + 1);

        status = loci_write64(s->rt, mem, 8 * (page + i), word, &ack);
        atomic_store_explicit(&s->page_class[host][page + i], (uint8_t)(class + 1),
                              memory_order_relaxed);
    }
    done = loco_ack_wait(s->rt, &ack);
    if (status == LOCO_OK)
        status = done;
    return status != LOCO_OK || loci_mem_ptr(mem) != NULL ? status
           : loci_fence_peer(s->rt, LOCO_FENCE_PAIR, mem->peer);
}

static int fresh_blocks(struct loci_client *c, int host, int class)
{
    struct loco_store *s = c->s;
    uint64_t bytes = loci_class_bytes(class), page, n;
    uint64_t least = (bytes + LOCI_STORE_PAGE - 1) / LOCI_STORE_PAGE, count, first;
    int status = count_up(s, host, LOCI_STORE_NEXT_PAGE, least > s->chunk ? least : s->chunk,
                          least, s->pages, &page, &n);

    if (status == LOCO_OK)
        status = loci_pages_say_class(s, host, page, n, class);
    if (status != LOCO_OK)
        return status;
    first = 1 + page * (LOCI_STORE_PAGE / LOCI_STORE_UNIT);
    for (count = n * LOCI_STORE_PAGE / bytes; count > 0;) {
        uint64_t run = count < LOCI_STOCK_RUN ? count : LOCI_STOCK_RUN;

        loci_stock_put_back(c, enter(c, loci_stock_entry(LOCI_STOCK_BLOCKS, class, host, run,
                                                         first)));
        first += run * bytes / LOCI_STORE_UNIT;
        count -= run;
    }
    return LOCO_OK;
}

static int fresh_cells(struct loci_client *c, int host)
{
    struct loco_store *s = c->s;
    uint64_t batch = s->cells / 256 + 1, first, n;
    int status = count_up(s, host, LOCI_STORE_NEXT_CELL, batch < CELL_BATCH ? batch : CELL_BATCH,
                          1, s->cells - s->roots_here, &first, &n);

    if (status == LOCO_OK)
        loci_stock_put_back(c, enter(c, loci_stock_entry(LOCI_STOCK_CELLS, 0, host, n,
                                                         s->roots_here + first)));
    return status;
}

int loco_store_room(loco_store_t *s, int rank, loco_store_room_t *room)
{
    uint64_t pages, cells;
    int host = rank >= 0 && rank < s->ep->group.size ? s->number[rank] : -1, status;
    struct loci_mem *head;

    if (host < 0)
        return LOCO_ERR_ARG;
    head = loci_store_mem(s, host, LOCI_STORE_HEAD);
    pthread_mutex_lock(&s->lock);       /* as who withdraws it goes by */
    status = atomic_load_explicit(&s->ended, memory_order_relaxed) != 0 ? LOCO_ERR_STATE : LOCO_OK;
    if (status == LOCO_OK)
        status = loci_read64(s->rt, head, LOCI_STORE_NEXT_PAGE, &pages, NULL);
    if (status == LOCO_OK)
        status = loci_read64(s->rt, head, LOCI_STORE_NEXT_CELL, &cells, NULL);
    pthread_mutex_unlock(&s->lock);
    if (status == LOCO_OK)
        *room = (loco_store_room_t){ .bytes = s->pages * LOCI_STORE_PAGE,
                                     .bytes_taken = pages * LOCI_STORE_PAGE, .objects = s->cells,
                                     .objects_taken = s->roots_here + cells };
    return status;
}

/* ---- taking and gaining ---- */

/* Once: whoever fills a store asks for more again and again. */
static void tell_full(struct loco_store *s, int host, bool cells)
{
    unsigned bit = cells ? 2 : 1;
    bool told = (atomic_fetch_or(&s->told_full, bit) & bit) != 0;

    if (told)
        return;
    if (cells)
        LOCI_LOG(s->rt, LOCO_LOG_WARN, "store %s is full: all %llu places for objects at rank %d "
                 "are taken; its option objects makes more", s->ep->name,
                 (unsigned long long)s->cells, s->host[host]);
    else
        LOCI_LOG(s->rt, LOCO_LOG_WARN, "store %s is full: all %llu bytes for values at rank %d are "
                 "taken, and none of the size that is needed are free; its option bytes makes "
                 "more", s->ep->name, (unsigned long long)(s->pages * LOCI_STORE_PAGE),
                 s->host[host]);
}

static int take(struct loci_client *c, int host, int list, unsigned *at)
{
    uint16_t *first = &c->list[host * (int)LISTS + list];
    bool cells = list == LOCI_STORE_CLASSES;
    uint64_t number;
    int status = LOCO_OK;

    if (c->in_stock > SPILL)
        status = spill(c);
    if (status == LOCO_OK && *first == 0) {
        status = pool_pop(c->s, host, list, &number);
        if (status == LOCO_OK)
            loci_stock_put_back(c, enter(c, loci_stock_entry(
                cells ? LOCI_STOCK_CELLS : LOCI_STOCK_BLOCKS, cells ? 0 : list, host, 1,
                cells ? number - 1 : number)));
        else if (status == LOCO_ERR_AGAIN)
            status = cells ? fresh_cells(c, host) : fresh_blocks(c, host, list);
        if (status == LOCO_ERR_FULL)
            tell_full(c->s, host, cells);
    }
    if (status == LOCO_OK)
        *at = split(c, first);
    return status;
}

int loci_block_take(struct loci_client *c, int host, int class, unsigned *at, uint64_t *block)
{
    int status = take(c, host, class, at);

    if (status == LOCO_OK)
        *block = loci_stock_first(c->stock->entry[*at]);
    return status;
}

int loci_cell_take(struct loci_client *c, int host, unsigned *at, uint64_t *cell)
{
    int status = take(c, host, LOCI_STORE_CLASSES, at);

    if (status == LOCO_OK)
        *cell = loci_stock_first(c->stock->entry[*at]);
    return status;
}

/* The class of a block, by its page. */
static int class_of(struct loco_store *s, int host, uint64_t block, int *class)
{
    uint64_t page = loci_block_at(block) / LOCI_STORE_PAGE, word;
    uint8_t known = atomic_load_explicit(&s->page_class[host][page], memory_order_relaxed);
    int status;

    if (known == 0) {
        status = loci_read64(s->rt, loci_store_mem(s, host, LOCI_STORE_PAGES), 8 * page, &word,
                             NULL);
        if (status != LOCO_OK)
            return status;
        known = (uint8_t)word;
        if (known == 0 || known > LOCI_STORE_CLASSES)
            return LOCO_ERR_PROTOCOL;
        atomic_store_explicit(&s->page_class[host][page], known, memory_order_relaxed);
    }
    *class = known - 1;
    return LOCO_OK;
}

static int gain(struct loci_client *c, uint64_t entry)
{
    int status = c->in_stock > SPILL ? spill(c) : LOCO_OK;

    if (status == LOCO_OK)
        loci_stock_put_back(c, enter(c, entry));
    return status;
}

int loci_block_gain(struct loci_client *c, loco_object_t object, uint64_t word)
{
    int host = loci_object_host(object), class;
    uint64_t block = loci_cell_block(word);
    int status = class_of(c->s, host, block, &class);

    return status != LOCO_OK ? status
           : gain(c, loci_stock_entry(LOCI_STOCK_BLOCKS, class, host, 1, block));
}

int loci_cell_gain(struct loci_client *c, loco_object_t object)
{
    return gain(c, loci_stock_entry(LOCI_STOCK_CELLS, 0, loci_object_host(object), 1,
                                    loci_object_cell(object)));
}

/* ---- clients ---- */

/* An entry that this version makes. */
static bool is_entry(const struct loco_store *s, uint64_t entry)
{
    return loci_stock_kind(entry) <= LOCI_STOCK_CELLS && loci_stock_count(entry) > 0
           && loci_stock_host(entry) < s->nhosts
           && loci_stock_class(entry) < (int)LOCI_STORE_CLASSES;
}

/* What the last one in this place has left: it is this client's now. Whoever gave the place away
 * has seen to it that the stock is in order (loci_store_vacate). */
static int inherit(struct loci_client *c)
{
    c->turn = loci_load64(&c->stock->turn);
    c->stamps = loci_load64(&c->stock->stamps);
    c->answered = loci_load64(&c->stock[1].turn);
    if (c->turn % 2 != 0)
        return LOCO_ERR_PROTOCOL;
    for (unsigned at = LOCI_STOCK_ENTRIES; at > 0; at--) {
        uint64_t entry = loci_load64(&c->stock->entry[at - 1]);

        if (loci_stock_kind(entry) == LOCI_STOCK_NONE) {
            push(&c->unused, c, at - 1);
        } else if (!is_entry(c->s, entry)) {
            return LOCO_ERR_PROTOCOL;
        } else {
            push(list_of(c, entry), c, at - 1);
            c->in_stock++;
        }
    }
    return LOCO_OK;
}

/* Its stock: mapped, in this process's memory, or on another machine. */
static int find_stock(struct loci_client *c, int thread)
{
    uint64_t at;
    struct loci_mem *mem = loci_stock_mem(c->s, c->s->ep->group.rank, thread, &at);
    unsigned char *p = c->s->hosted ? loci_mem_map(c->s->rt, mem) : loci_mem_ptr(mem);

    if (p == NULL)
        return !loci_peer_alive(c->s->rt, mem->peer) ? LOCO_ERR_PEER_DEAD
               : c->s->sums ? find_far(c, mem, at) : LOCO_ERR_UNSUPPORTED;
    c->stock = (struct loci_stock *)(void *)(p + at);
    return LOCO_OK;
}

int loci_client_open(struct loco_store *s, int thread, struct loci_client **out)
{
    struct loci_client *c = calloc(1, sizeof *c);
    int rank = s->ep->group.rank, status;

    if (c != NULL) {
        c->status = calloc((size_t)s->nhosts, sizeof *c->status);
        c->knows_status = calloc((size_t)s->nhosts, sizeof *c->knows_status);
        c->list = calloc((size_t)s->nhosts * LISTS, sizeof *c->list);
    }
    if (c == NULL || c->status == NULL || c->knows_status == NULL || c->list == NULL) {
        loci_client_free(c);
        return LOCO_ERR_NO_MEMORY;
    }
    c->s = s;
    c->number = NUMBER_OF_NONE + rank;
    status = LOCO_OK;
    if (thread >= 0) {
        c->number = rank * s->threads + thread;
        status = find_stock(c, thread);
    }
    if (status == LOCO_OK && c->stock != NULL && s->hosted)
        status = inherit(c);
    else
        for (unsigned at = LOCI_STOCK_ENTRIES; at > 0; at--)
            push(&c->unused, c, at - 1);
    if (status != LOCO_OK) {
        loci_client_free(c);
        return status;
    }
    *out = c;
    return LOCO_OK;
}

void loci_client_free(struct loci_client *c)
{
    if (c == NULL)
        return;
    if (c->far != NULL && atomic_load_explicit(&c->s->ended, memory_order_acquire) == 0)
        leave_far(c);
    free(c->status);
    free(c->knows_status);
    free(c->list);
    free(c);
}

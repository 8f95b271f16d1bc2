/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts of many members: what is written to all goes from member to member. Under the lock,
 * but for loci_mc_relay_holds(). See multicast.c for what rows and slots are.
 *
 * Trees. A binomial tree for each root: member r behind it (r = rank - root, around the end) has
 * below it r + 2^j for all 2^j > r that are less than the number of members n. So all trees use the
 * same ways: each member writes to those that are 2^j ranks on, fewer than 1 + log2 n of them,
 * whoever sends. Messages and numbers of a sender go down its tree. What all have received and
 * delivered goes up the tree of rank 0, the least of each member and of those below it, and from
 * there down the same tree. A pass writes once to each of those ways that it has news for, and once
 * up: 2 log2 n at most, but for messages, of which each sender's are a write of their own.
 *
 * Who writes what. Each way has an area at its end, which only the member at its beginning writes:
 * its board, {least RECEIVED, DELIVERED of all}, then {COMMITTED, LAST} of each sender; upwards the
 * least of a part. A copy of a sender's ring is written by the one member that is above in that
 * sender's tree. Boards are written whole; the member at the end looks only at the words whose
 * trees lead that way. Words only grow, as rows do.
 *
 * Why a message is there when its number is seen. By induction down the tree: its sender has it. A
 * member takes COMMITTED of that sender from the one that writes those slots, so what is below it
 * is in its ring; it hands on those slots that hold numbers below it, then the board that says so,
 * in one chain. So the next one has them when it sees that.
 *
 * Reuse. A slot is written again when all have delivered its message. The posts that handed it on
 * read it, so a member does not say that it has delivered what its posts may still read: they are
 * complete first, which takes nobody else. That all have delivered it says the same, as in
 * free_slots(), multicast_pass.c, but not for what the network sends again.
 *
 * Who works. Others wait for what a member hands on, so the poller does it all, also where the
 * program polls: it then only takes what may be delivered, and says what it has delivered.
 *
 * Sleep. A writes to B exactly where B looks at an area of A. So B says to those whose areas it
 * looks at that it sleeps, and A looks at the words of those that it writes to. Between the two it
 * is as without relays (multicast.c): A stores its board, and what goes up, in its own memory,
 * posts them, fences, and looks at B's word there; B writes its word, and reads A's memory behind
 * that on the same lane. Either A finds the word, and rings; or B reads what A has stored, and
 * waits until that has come.
 *   That covers news that is stored. What a member knows and has not stored, nobody rings for: it
 * must not sleep on that. A pass leaves three such things behind, which loci_mc_has_news() names:
 * what it did not even look at, as too much is under way, which is still new in the areas; what is
 * delivered, and read by posts (`holds`); slots to be free again. All wait for completions alone,
 * which every pass looks at, and none for another member. All else that a pass has seen it hands on
 * itself. So news that is at one end of a way comes to the other, and by induction down each tree,
 * and up, to all. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "multicast.h"
#include "observe/log.h"

/* Of a sender, by its index. */
struct cursor {
    uint32_t below;             /* bit j: its tree leads from here to who is 2^j on */
    int above;                  /* the way that it comes by: from who is 2^above before */
    uint64_t number, at;        /* the next to be handed on; the slot of its next message */
    uint64_t from, fresh;       /* messages that this pass hands on: so many, from that slot on */
    uint64_t posted[2], done;   /* numbers before these: of m->posts; complete */
};

struct loci_mc_relay {
    int reach;                  /* 2^reach is the number of members, or more */
    int words, ups;             /* of a board; of what goes up, with which it begins */
    uint32_t below;             /* in the tree of rank 0, */
    int above;                  /* -1: this is its root */
    struct cursor *cursor;
    uint64_t *board, *up;       /* as they are to be, */
    uint64_t *board_told, *up_told;     /* and as they were told */
    _Atomic bool holds;
};

/* ---- ways ---- */

static int on(const struct loco_multicast *m, int j)
{
    return (int)(((unsigned)m->rank + (1u << j)) % (unsigned)m->size);
}

static int before(const struct loco_multicast *m, int j)
{
    return (int)(((unsigned)m->rank + (unsigned)m->size - (1u << j)) % (unsigned)m->size);
}

static int behind(const struct loco_multicast *m, int root)
{
    return m->rank >= root ? m->rank - root : m->rank - root + m->size;
}

static uint32_t ways_below(const struct loco_multicast *m, int root)
{
    int r = behind(m, root);
    uint32_t ways = 0;

    for (int j = 0; j < m->relay->reach; j++)
        if (r < 1 << j && r + (1 << j) < m->size)
            ways |= UINT32_C(1) << j;
    return ways;
}

static int way_above(const struct loco_multicast *m, int root)
{
    int r = behind(m, root), j = -1;

    for (; r > 0; r >>= 1)
        j++;
    return j;
}

/* ---- memory: the own board and what goes up; by way those of others ---- */

static uint64_t both(const struct loci_mc_relay *r)
{
    return loci_mc_bytes(r->words) + loci_mc_bytes(r->ups);
}

static uint64_t board_at(const struct loci_mc_relay *r, int j)
{
    return both(r) + (uint64_t)j * loci_mc_bytes(r->words);
}

static uint64_t up_at(const struct loci_mc_relay *r, int j)
{
    return board_at(r, r->reach) + (uint64_t)j * loci_mc_bytes(r->ups);
}

uint64_t loci_mc_relay_rows(const struct loci_mc_relay *r)
{
    return up_at(r, r->reach);
}

uint64_t loci_mc_relay_image(const struct loci_mc_relay *r)
{
    return both(r);
}

static int word_of(const struct loci_mc_relay *r, int sender)
{
    return r->ups + 2 * sender;
}

/* ---- tables ---- */

static void make_board(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;

    for (int word = 0; word < r->ups; word++)
        r->board[word] = loci_mc_seen(m, m->size, LOCI_MC_RECEIVED + word);
    for (int i = 0; i < m->nsenders; i++)
        for (int word = LOCI_MC_COMMITTED; word <= LOCI_MC_LAST; word++)
            r->board[word_of(r, i) + word] = i == m->mine
                                             ? m->made[word]
                                             : loci_mc_seen(m, m->sender[i].rank, word);
}

/* As all begin. */
static void init(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;

    m->made[LOCI_MC_COMMITTED] = m->made[LOCI_MC_LAST] = m->first;
    make_board(m);
    memcpy(r->up, r->board, (size_t)r->ups * sizeof *r->up);
    memcpy(r->up_told, r->up, (size_t)r->ups * sizeof *r->up);
    memcpy(r->board_told, r->board, (size_t)r->words * sizeof *r->board);
    r->below = ways_below(m, 0);
    r->above = way_above(m, 0);
    for (int i = 0; i < m->nsenders; i++) {
        struct cursor *c = &r->cursor[i];

        c->below = ways_below(m, m->sender[i].rank);
        c->above = way_above(m, m->sender[i].rank);
        c->number = c->posted[0] = c->posted[1] = c->done = m->first;
    }
}

int loci_mc_relay_open(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay = calloc(1, sizeof *r);
    size_t words, ups;

    if (r == NULL)
        return LOCO_ERR_NO_MEMORY;
    while (1 << r->reach < m->size)
        r->reach++;
    r->ups = m->words - LOCI_MC_RECEIVED;
    r->words = r->ups + 2 * m->nsenders;
    words = (size_t)r->words;
    ups = (size_t)r->ups;
    r->cursor = calloc((size_t)m->nsenders, sizeof *r->cursor);
    r->board = calloc(words, sizeof *r->board);
    r->board_told = calloc(words, sizeof *r->board_told);
    r->up = calloc(ups, sizeof *r->up);
    r->up_told = calloc(ups, sizeof *r->up_told);
    if (r->cursor == NULL || r->board == NULL || r->board_told == NULL || r->up == NULL
        || r->up_told == NULL)
        return LOCO_ERR_NO_MEMORY;
    init(m);
    return LOCO_OK;
}

void loci_mc_relay_close(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;

    if (r == NULL)
        return;
    free(r->cursor);
    free(r->board);
    free(r->board_told);
    free(r->up);
    free(r->up_told);
    free(r);
    m->relay = NULL;
}

/* Of a board that comes from 2^j before, the words of the trees that lead here that way. */
static void look_at_board(struct loco_multicast *m, int j)
{
    const struct loci_mc_relay *r = m->relay;
    int area = loci_mc_add_area(m, (struct loci_mc_area){
        .rank = before(m, j), .words = r->words, .theirs = 0, .at = board_at(r, j) });

    for (int word = 0; word < r->ups && r->above == j; word++)
        loci_mc_add_source(m, area, word, m->size, LOCI_MC_RECEIVED + word);
    for (int i = 0; i < m->nsenders; i++)
        for (int word = LOCI_MC_COMMITTED; word <= LOCI_MC_LAST; word++)
            if (r->cursor[i].above == j)
                loci_mc_add_source(m, area, word_of(r, i) + word, m->sender[i].rank, word);
}

static void look_below(struct loco_multicast *m, int j)
{
    const struct loci_mc_relay *r = m->relay;
    int area = loci_mc_add_area(m, (struct loci_mc_area){
        .rank = on(m, j), .words = r->ups, .theirs = loci_mc_bytes(r->words), .at = up_at(r, j) });

    for (int word = 0; word < r->ups; word++)
        loci_mc_add_source(m, area, word, on(m, j), LOCI_MC_RECEIVED + word);
}

void loci_mc_relay_look(struct loco_multicast *m)
{
    const struct loci_mc_relay *r = m->relay;

    for (int j = 0; j < r->reach; j++) {
        look_at_board(m, j);
        loci_mc_add_told(m, on(m, j));
        if ((r->below >> j & 1) != 0)
            look_below(m, j);
    }
    if (r->above >= 0)
        loci_mc_add_told(m, before(m, r->above));
}

/* ---- what is to be told ---- */

/* What this member has delivered that no post of its own may still read; `word`: of DELIVERED. */
static uint64_t released(struct loco_multicast *m, int word)
{
    const struct loci_mc_relay *r = m->relay;
    uint64_t end = m->made[LOCI_MC_DELIVERED + word], senders = (uint64_t)m->nsenders;

    for (int i = 0; i < m->nsenders; i++) {
        const struct cursor *c = &r->cursor[i];
        uint64_t done = loci_mc_is_ordered(m) ? c->done * senders + (uint64_t)i : c->done;

        if (c->below != 0 && i != m->mine && (loci_mc_is_ordered(m) || i == word) && done < end)
            end = done;
    }
    return end;
}

/* The same of those below, too. */
static uint64_t least_below(const struct loco_multicast *m, int word, uint64_t own)
{
    for (int j = 0; j < m->relay->reach; j++) {
        uint64_t seen;

        if ((m->relay->below >> j & 1) == 0)
            continue;
        seen = loci_mc_seen(m, on(m, j), LOCI_MC_RECEIVED + word);
        own = seen < own ? seen : own;
    }
    return own;
}

bool loci_mc_relay_make(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;
    bool holds = false;

    for (int word = 0; word < r->ups; word++) {
        uint64_t own = word == 0 ? m->made[LOCI_MC_RECEIVED] : released(m, word - 1);

        holds = holds || own < m->made[LOCI_MC_RECEIVED + word];
        r->up[word] = least_below(m, word, own);
        if (r->above < 0)
            loci_mc_see(m, m->size, LOCI_MC_RECEIVED + word, r->up[word]);
    }
    atomic_store_explicit(&r->holds, holds, memory_order_relaxed);
    make_board(m);
    return memcmp(r->board, r->board_told, (size_t)r->words * sizeof *r->board) != 0
           || memcmp(r->up, r->up_told, (size_t)r->ups * sizeof *r->up) != 0;
}

bool loci_mc_relay_holds(const struct loco_multicast *m)
{
    return atomic_load_explicit(&m->relay->holds, memory_order_relaxed);
}

/* ---- telling it ---- */

/* Messages of a sender that have come since the last push. Nulls have no slots: the next one has a
 * number that is not the next. */
static int find_fresh(struct loco_multicast *m, int i)
{
    struct cursor *c = &m->relay->cursor[i];
    uint64_t end = m->relay->board[word_of(m->relay, i) + LOCI_MC_COMMITTED], bytes;

    c->from = c->at;
    c->fresh = 0;
    while (c->number < end) {
        const unsigned char *slot = m->sender[i].ring + c->at * m->stride;
        uint64_t number = loci_load64(slot) - 1;

        if (number < c->number || number >= end || !loci_mc_slot_has(slot, number, &bytes))
            break;
        if (bytes > m->slot_bytes) {
            LOCI_LOG(m->rt, LOCO_LOG_ERROR, "multicast %s: a message of rank %d has %llu bytes, "
                     "more than a slot", m->ep->name, m->sender[i].rank,
                     (unsigned long long)bytes);
            return LOCO_ERR_PROTOCOL;
        }
        c->number = number + 1;
        c->at = loci_mc_slot_after(m, c->at);
        c->fresh++;
    }
    c->number = end;
    return LOCO_OK;
}

static int find_all_fresh(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;
    uint64_t committed = atomic_load_explicit(&m->committed, memory_order_relaxed);
    int status = LOCO_OK;

    for (int i = 0; i < m->nsenders && status == LOCO_OK; i++) {
        if (i == m->mine) {
            r->cursor[i].from = (m->posted - m->first) % m->slots;
            r->cursor[i].fresh = committed - m->posted;
        } else if (r->cursor[i].below != 0) {
            status = find_fresh(m, i);
        }
    }
    return status;
}

static bool is_news(const struct loci_mc_relay *r, int word, int n)
{
    return memcmp(&r->board[word], &r->board_told[word], (size_t)n * sizeof *r->board) != 0;
}

static bool has_news_for(const struct loco_multicast *m, int j)
{
    const struct loci_mc_relay *r = m->relay;

    if ((r->below >> j & 1) != 0 && is_news(r, 0, r->ups))
        return true;
    for (int i = 0; i < m->nsenders; i++)
        if ((r->cursor[i].below >> j & 1) != 0 && is_news(r, word_of(r, i), 2))
            return true;
    return false;
}

/* Messages, then the board: who sees COMMITTED sees the slots. */
static int post_on(struct loco_multicast *m, int j, unsigned char *image)
{
    const struct loci_mc_relay *r = m->relay;
    struct loci_mc_chain c = { .theirs = loci_mc_rows(m, on(m, j)) };
    int status = LOCO_OK;

    for (int i = 0; i < m->nsenders && status == LOCO_OK; i++)
        if ((r->cursor[i].below >> j & 1) != 0)
            status = loci_mc_chain_slots(m, &c, i, r->cursor[i].from, r->cursor[i].fresh);
    if (status == LOCO_OK)
        status = loci_mc_chain_words(m, &c, board_at(r, j), image, r->words);
    return status == LOCO_OK ? loci_mc_chain_post(m, &c) : status;
}

static int post_up(struct loco_multicast *m, unsigned char *image)
{
    const struct loci_mc_relay *r = m->relay;
    struct loci_mc_chain c = { .theirs = loci_mc_rows(m, before(m, r->above)) };
    int status = loci_mc_chain_words(m, &c, up_at(r, r->above), image, r->ups);

    return status == LOCO_OK ? loci_mc_chain_post(m, &c) : status;
}

static void store(struct loco_multicast *m, unsigned char *to)
{
    const struct loci_mc_relay *r = m->relay;

    loci_mc_store_words(to, r->board, r->words);
    loci_mc_store_words(to + loci_mc_bytes(r->words), r->up, r->ups);
}

static void note_told(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;

    memcpy(r->board_told, r->board, (size_t)r->words * sizeof *r->board);
    memcpy(r->up_told, r->up, (size_t)r->ups * sizeof *r->up);
    for (int i = 0; i < m->nsenders; i++)
        r->cursor[i].posted[1] = r->cursor[i].number;
}

int loci_mc_relay_push(struct loco_multicast *m)
{
    struct loci_mc_relay *r = m->relay;
    unsigned char *own = loci_mem_ptr(loci_mc_rows(m, m->rank));
    unsigned char *image = own + loci_mc_image_at(m, m->images);
    int status = find_all_fresh(m);

    store(m, own);
    store(m, image);
    for (int j = 0; j < r->reach && status == LOCO_OK; j++)
        if (has_news_for(m, j))
            status = post_on(m, j, image);
    if (status == LOCO_OK && r->above >= 0
        && memcmp(r->up, r->up_told, (size_t)r->ups * sizeof *r->up) != 0)
        status = post_up(m, image + loci_mc_bytes(r->words));
    note_told(m);
    return status;
}

void loci_mc_relay_turn(struct loco_multicast *m)
{
    for (int i = 0; i < m->nsenders; i++) {
        struct cursor *c = &m->relay->cursor[i];

        c->done = c->posted[0];
        c->posted[0] = c->posted[1];
    }
}

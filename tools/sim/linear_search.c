/* SPDX-License-Identifier: BSD-3-Clause */

/* Linearizability of one object's operations, for any specification.
 *
 * The search of Wing & Gong ("Testing and verifying concurrent objects", JPDC 17, 1993) with the
 * two improvements of Lowe ("Testing for linearizability", Concurrency and Computation 29, 2017):
 * just-in-time, and memory of what was seen. Events are taken in order. When an operation returns
 * it has to be linearized; if it is not yet, operations under way are, one after the other, until
 * it is: the only choices. A configuration is the event, the set of operations under way that are
 * linearized, and the object's state; one that was met before leads nowhere. The set is of
 * slots that operations have while they are under way, not of all operations, so that a
 * configuration is small however long the history is.
 *
 * What keeps the number of configurations down:
 *  - An operation that with its outcome changes no state, of any, is linearized as soon as that
 *    outcome is right: no other choice leaves more open.
 *  - Of operations under way that do the same, that which returns first goes first: in a
 *    linearization with another order the two can change places.
 *  - An operation that overwrites the state blindly, and was under way when another such one was
 *    linearized, is covered: it may have come just before that. So it can return without being
 *    linearized, and none needs to be only to be overwritten at once.
 *
 * The latest event that was reached ends the shortest prefix that is wrong, given what operations
 * under way at its end will return later. */

#include <stdlib.h>
#include <string.h>

#include "linear_impl.h"

#define ARENA_WORDS_MAX ((size_t)1 << 26)       /* 512 MiB of configurations */

struct event {
    uint64_t stamp;
    uint32_t op;
    bool returns;
};

/* In the arena: these words, those of the set, those of the state. */
enum { AT_HASH, AT_EVENT, AT_STATE_WORDS, HEADER_WORDS };

struct frame {
    size_t config;              /* where in the arena */
    size_t next;                /* choice: 0 let it return, for it is covered; 1 the operation that
                                   returns; then by slot */
    bool idle;                  /* the latest choice overwrote the state, and nobody looked yet */
};

struct search {
    const struct loci_linear_spec *spec;
    const struct loci_op *ops;
    struct event *events;
    size_t nevents;
    bool *reads, *overwrites;   /* by operation */
    uint32_t *slot;             /* by operation */
    int *open;                  /* by slot: operation under way, or -1 */
    size_t nslots, set_words, state_words;
    /* Where the search is; events before `at` are done. */
    size_t at;
    uint64_t *set;              /* linearized; behind that, covered */
    uint64_t *state;
    bool idle;
    /* Configurations where a choice was to be made: arena, and a hash table of 1 + where. */
    uint64_t *arena;
    size_t arena_used, arena_room;
    size_t *table;
    size_t table_size, nconfigs;
    struct frame *frames;
    size_t nframes, frames_room;
    size_t furthest;            /* event */
};

static bool has(const struct search *s, size_t slot)
{
    return s->set[slot / 64] >> slot % 64 & 1;
}

static bool is_covered(const struct search *s, size_t slot)
{
    return s->set[s->set_words / 2 + slot / 64] >> slot % 64 & 1;
}

static void linearize(struct search *s, size_t slot)
{
    s->set[slot / 64] |= (uint64_t)1 << slot % 64;
    s->set[s->set_words / 2 + slot / 64] &= ~((uint64_t)1 << slot % 64);
}

static void cover(struct search *s, size_t slot)
{
    s->set[s->set_words / 2 + slot / 64] |= (uint64_t)1 << slot % 64;
}

/* The event of its return is over. */
static void leave(struct search *s, size_t slot)
{
    linearize(s, slot);
    s->set[slot / 64] &= ~((uint64_t)1 << slot % 64);
    s->open[slot] = -1;
}

/* ---- set-up ---- */

static int by_stamp(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    return x->stamp < y->stamp ? -1 : x->stamp > y->stamp;
}

static void list_events(struct search *s, size_t nops)
{
    s->events = loci_linear_alloc(2 * nops, sizeof *s->events);
    for (size_t i = 0; i < nops; i++) {
        s->events[s->nevents++] = (struct event){ s->ops[i].call, (uint32_t)i, false };
        if (loci_op_returned(&s->ops[i]))
            s->events[s->nevents++] = (struct event){ s->ops[i].ret, (uint32_t)i, true };
    }
    qsort(s->events, s->nevents, sizeof *s->events, by_stamp);
}

/* The lowest slot that is free, for as long as the operation is under way. */
static void give_slots(struct search *s, size_t nops)
{
    size_t *free_slots = loci_linear_alloc(nops, sizeof *free_slots);
    size_t nfree = 0;

    s->slot = loci_linear_alloc(nops, sizeof *s->slot);
    for (size_t i = 0; i < s->nevents; i++) {
        uint32_t op = s->events[i].op;

        if (s->events[i].returns)
            free_slots[nfree++] = s->slot[op];
        else
            s->slot[op] = (uint32_t)(nfree > 0 ? free_slots[--nfree] : s->nslots++);
    }
    free(free_slots);
}

static void set_up(struct search *s, size_t nops)
{
    list_events(s, nops);
    give_slots(s, nops);
    s->reads = loci_linear_alloc(nops, sizeof *s->reads);
    s->overwrites = loci_linear_alloc(nops, sizeof *s->overwrites);
    for (size_t i = 0; i < nops; i++) {
        s->reads[i] = s->spec->reads != NULL && s->spec->reads(&s->ops[i]);
        s->overwrites[i] = s->spec->overwrites != NULL && s->spec->overwrites(&s->ops[i]);
    }
    s->open = loci_linear_alloc(s->nslots, sizeof *s->open);
    for (size_t i = 0; i < s->nslots; i++)
        s->open[i] = -1;
    s->set_words = 2 * ((s->nslots + 63) / 64);
    s->set = loci_linear_alloc(s->set_words, sizeof *s->set);
    s->state_words = (s->spec->state_size + s->spec->state_per_op * nops + 7) / 8;
    s->state = loci_linear_alloc(s->state_words, sizeof *s->state);
    if (s->spec->init != NULL)
        s->spec->init(s->state, s->spec->param);
    s->table_size = 1024;
    s->table = loci_linear_alloc(s->table_size, sizeof *s->table);
}

static void tear_down(struct search *s)
{
    free(s->events);
    free(s->slot);
    free(s->reads);
    free(s->overwrites);
    free(s->open);
    free(s->set);
    free(s->state);
    free(s->arena);
    free(s->table);
    free(s->frames);
}

/* ---- configurations ---- */

static uint64_t hash_of(const uint64_t *words, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ words[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

static size_t used_words(const struct search *s)
{
    return s->spec->used != NULL ? s->spec->used(s->state) / 8 : s->state_words;
}

static void grow_table(struct search *s)
{
    size_t *old = s->table, size = s->table_size;

    s->table_size *= 2;
    s->table = loci_linear_alloc(s->table_size, sizeof *s->table);
    for (size_t i = 0; i < size; i++) {
        size_t at;

        if (old[i] == 0)
            continue;
        at = s->arena[old[i] - 1 + AT_HASH] & (s->table_size - 1);
        while (s->table[at] != 0)
            at = (at + 1) & (s->table_size - 1);
        s->table[at] = old[i];
    }
    free(old);
}

/* Writes where the search is to the arena's end. */
static size_t write_config(struct search *s, uint64_t *words)
{
    size_t state_words = used_words(s);
    size_t size = HEADER_WORDS + s->set_words + state_words;

    words[AT_EVENT] = s->at;
    words[AT_STATE_WORDS] = state_words;
    memcpy(words + HEADER_WORDS, s->set, s->set_words * 8);
    memcpy(words + HEADER_WORDS + s->set_words, s->state, state_words * 8);
    words[AT_HASH] = hash_of(words + AT_EVENT, size - AT_EVENT);
    return size;
}

/* Where the search is, is where it was before, or becomes a frame. */
static void remember(struct search *s)
{
    size_t most = HEADER_WORDS + s->set_words + s->state_words;
    size_t here = s->arena_used, size, i;
    const uint64_t *words;

    s->arena = loci_history_grow(s->arena, &s->arena_room, here + most, 8);
    size = write_config(s, s->arena + here);
    words = s->arena + here;
    if (2 * s->nconfigs >= s->table_size)
        grow_table(s);
    for (i = words[AT_HASH] & (s->table_size - 1); s->table[i] != 0;
         i = (i + 1) & (s->table_size - 1)) {
        /* The sizes of the states are compared before what they hold. */
        if (memcmp(s->arena + s->table[i] - 1, words, HEADER_WORDS * 8) == 0
            && memcmp(s->arena + s->table[i] - 1, words, size * 8) == 0)
            return;
    }
    s->table[i] = here + 1;
    s->nconfigs++;
    s->arena_used += size;
    s->frames = loci_history_grow(s->frames, &s->frames_room, s->nframes + 1, sizeof *s->frames);
    s->frames[s->nframes++] = (struct frame){ .config = here, .idle = s->idle };
}

static void go_back(struct search *s, const uint64_t *config)
{
    while (s->at > config[AT_EVENT]) {
        const struct event *event = &s->events[--s->at];

        s->open[s->slot[event->op]] = event->returns ? (int)event->op : -1;
    }
    memcpy(s->set, config + HEADER_WORDS, s->set_words * 8);
    memcpy(s->state, config + HEADER_WORDS + s->set_words, config[AT_STATE_WORDS] * 8);
}

/* ---- the search ---- */

/* A read that returned, with an outcome that is right now. */
static void settle_read(struct search *s, uint32_t op)
{
    if (!s->reads[op] || !loci_op_returned(&s->ops[op])
        || !s->spec->apply(s->state, &s->ops[op]))
        return;
    linearize(s, s->slot[op]);
    s->idle = false;
}

/* After `op` was linearized. */
static void cover_others(struct search *s, uint32_t op)
{
    s->idle = s->overwrites[op];
    for (size_t slot = 0; s->overwrites[op] && slot < s->nslots; slot++) {
        int other = s->open[slot];

        if (other >= 0 && !has(s, slot) && s->overwrites[other] && loci_op_returned(&s->ops[other]))
            cover(s, slot);
    }
}

static void settle_reads(struct search *s)
{
    for (size_t slot = 0; slot < s->nslots; slot++)
        if (s->open[slot] >= 0 && !has(s, slot))
            settle_read(s, (uint32_t)s->open[slot]);
}

/* To the next choice, the return of an operation that is not linearized; true: to the end. */
static bool advance(struct search *s)
{
    for (; s->at < s->nevents; s->at++) {
        uint32_t op = s->events[s->at].op, slot = s->slot[op];

        if (!s->events[s->at].returns) {
            s->open[slot] = (int)op;
            settle_read(s, op);
        } else if (has(s, slot)) {
            leave(s, slot);
            s->idle = false;
        } else {
            if (s->at > s->furthest)
                s->furthest = s->at;
            return false;
        }
    }
    return true;
}

/* Is there another that does the same and should go first? */
static bool has_elder_twin(const struct search *s, size_t slot)
{
    const struct loci_op *op = &s->ops[s->open[slot]];

    for (size_t i = 0; s->spec->same != NULL && i < s->nslots; i++) {
        const struct loci_op *other;

        if (i == slot || s->open[i] < 0 || has(s, i))
            continue;
        other = &s->ops[s->open[i]];
        if (loci_op_returned(other) == loci_op_returned(op)
            && (other->ret < op->ret || (other->ret == op->ret && other->call < op->call))
            && s->spec->same(op, other))
            return true;
    }
    return false;
}

static bool choose(struct search *s, const uint64_t *config, size_t slot, bool idle)
{
    const struct loci_op *op;

    if (s->open[slot] < 0 || has(s, slot) || (idle && s->overwrites[s->open[slot]])
        || has_elder_twin(s, slot))
        return false;
    op = &s->ops[s->open[slot]];
    if (!s->spec->apply(s->state, op))
        return false;
    /* One without an outcome that does nothing might as well do it later. */
    if (!loci_op_returned(op) && used_words(s) == config[AT_STATE_WORDS]
        && memcmp(s->state, config + HEADER_WORDS + s->set_words, used_words(s) * 8) == 0)
        return false;
    linearize(s, slot);
    cover_others(s, (uint32_t)s->open[slot]);
    settle_reads(s);
    return true;
}

static bool let_return(struct search *s, size_t slot)
{
    if (!is_covered(s, slot))
        return false;
    leave(s, slot);
    s->at++;
    s->idle = false;
    return true;
}

/* The next choice that is possible at the last frame. */
static bool choose_next(struct search *s)
{
    struct frame *frame = &s->frames[s->nframes - 1];
    const uint64_t *config = s->arena + frame->config;
    size_t first;

    go_back(s, config);
    first = s->slot[s->events[s->at].op];
    while (frame->next < s->nslots + 2) {
        size_t next = frame->next++;

        if (next == 0 ? let_return(s, first)
            : next == 1 ? choose(s, config, first, frame->idle)
            : next - 2 != first && choose(s, config, next - 2, frame->idle))
            return true;
    }
    return false;
}

static int search(struct search *s, uint64_t budget)
{
    if (advance(s))
        return LINEAR_OK;
    remember(s);
    while (s->nframes > 0) {
        if (!choose_next(s)) {
            s->nframes--;
            continue;
        }
        if (advance(s))
            return LINEAR_OK;
        if (s->nconfigs >= budget || s->arena_used >= ARENA_WORDS_MAX)
            return LINEAR_GAVE_UP;
        remember(s);
    }
    return LINEAR_NOT;
}

static void tell(const struct search *s, size_t nops, struct loci_witness *w)
{
    const struct event *end = &s->events[s->furthest];

    loci_contradiction(w, "no order of the operations explains what the first of these returned");
    w->floor = end->stamp;
    loci_witness_add(w, end->op);
    for (size_t i = nops; i-- > 0; )
        if (s->ops[i].call < end->stamp && s->ops[i].ret > end->stamp)
            loci_witness_add(w, i);
}

int loci_linear_search(const struct loci_linear_spec *spec, const struct loci_op *ops, size_t nops,
                       uint64_t *left, struct loci_witness *w)
{
    struct search s = { .spec = spec, .ops = ops };
    int verdict;

    if (*left == 0)
        return LINEAR_GAVE_UP;
    set_up(&s, nops);
    verdict = search(&s, *left);
    *left -= s.nconfigs < *left ? s.nconfigs : *left;
    if (verdict == LINEAR_NOT)
        tell(&s, nops, w);
    tear_down(&s);
    return verdict;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Lanes: what happens to a posted operation, by the rules of sim.h.
 *
 * Lane events are carried out by whichever fiber gives way at that time, so nothing here may step,
 * but what the poster and poller call (post, poll). */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "world.h"

#define POISON 0xd5
#define KEPT_EXTENTS 16
#define KEEP_TOUCHED ((size_t)64 << 10)     /* bytes that are worth clearing */

/* ---- memory ---- */

/* Zeroed memory from run to run: what was hardly touched is cleared, the rest is made anew. */
static _Thread_local struct kept {
    unsigned char *base;
    size_t len;
} kept[KEPT_EXTENTS];
static _Thread_local int kept_count;

void *loci_sim_take_memory(size_t len)
{
    void *base;

    for (int i = 0; i < kept_count; i++)
        if (kept[i].len == len) {
            base = kept[i].base;
            kept[i] = kept[--kept_count];
            return base;
        }
    base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

void loci_sim_give_memory(unsigned char *base, size_t len, size_t touched)
{
    if (kept_count == KEPT_EXTENTS || touched > KEEP_TOUCHED) {
        munmap(base, len);
        return;
    }
    memset(base, 0, touched);
    kept[kept_count++] = (struct kept){ base, len };
}

static void add_span(struct sim_world *w, const void *base, size_t len)
{
    int i = w->span_count;

    if (!w->config->machines)
        return;
    w->spans = realloc(w->spans, (size_t)(i + 1) * sizeof w->spans[0]);
    if (w->spans == NULL)
        abort();
    for (; i > 0 && w->spans[i - 1].base > (uintptr_t)base; i--)
        w->spans[i] = w->spans[i - 1];
    w->spans[i] = (struct sim_span){ (uintptr_t)base, len };
    w->span_count++;
}

bool loci_sim_is_shared(const struct sim_world *w, const void *at)
{
    int from = 0, to = w->span_count;       /* the last that begins there or before is among them */

    while (to - from > 1) {
        int middle = from + (to - from) / 2;

        if (w->spans[middle].base <= (uintptr_t)at)
            from = middle;
        else
            to = middle;
    }
    return to > from && (uintptr_t)at - w->spans[from].base < w->spans[from].len;
}

static unsigned char *add_extent(struct sim_process *p, uint64_t number, size_t len)
{
    struct sim_extent *more;
    void *base = loci_sim_take_memory(len);

    if (base == NULL)
        return NULL;
    more = realloc(p->extents, (size_t)(p->extent_count + 1) * sizeof *more);
    if (more == NULL) {
        loci_sim_give_memory(base, len, 0);
        return NULL;
    }
    p->extents = more;
    more[p->extent_count++] = (struct sim_extent){ .number = number, .base = base, .len = len };
    add_span(p->world, base, len);
    return base;
}

static int extent_create(struct loci_fabric *fabric, struct loci_extent *extent)
{
    struct sim_process *p = sim_process_of(fabric);

    extent->base = add_extent(p, extent->number, extent->len);
    if (extent->base == NULL)
        return LOCO_ERR_NO_MEMORY;
    loci_sim_time_memory(p, extent->len);
    return LOCO_OK;
}

static int extent_grow(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                       size_t to)
{
    (void)fabric;
    (void)extent;
    (void)from;
    (void)to;
    return LOCO_OK;
}

static void extent_destroy(struct loci_fabric *fabric, struct loci_extent *extent)
{
    struct sim_process *p = sim_process_of(fabric);

    for (int i = 0; i < p->extent_count; i++)
        if (p->extents[i].base == extent->base) {
            p->extents[i].gone = true;
            p->extents[i].touched = extent->touched;
        }
    loci_sim_given(extent->base, extent->len);
}

/* In the order in which they are asked for; none is given out again, for runs are short. One in
 * four is refused: a device's memory is at its end at any time. */
static int words_take(struct loci_fabric *fabric, size_t len, struct loci_memkey *key)
{
    struct sim_process *p = sim_process_of(fabric);
    size_t at = p->words_taken, end = at + (len + LOCI_CACHE_LINE - 1) / LOCI_CACHE_LINE
                                           * LOCI_CACHE_LINE;

    if (!p->world->config->device_memory || end > SIM_WORDS
        || loci_sim_random(p->world, 1) % 4 == 0)
        return LOCO_ERR_AGAIN;
    if (at == 0 && add_extent(p, SIM_WORDS_EXTENT, SIM_WORDS) == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->words_taken = end;
    key->extent = SIM_WORDS_EXTENT;
    key->base = at;
    return LOCO_OK;
}

static void words_give(struct loci_fabric *fabric, const struct loci_memkey *key)
{
    const struct sim_process *p = sim_process_of(fabric);

    for (int i = 0; i < p->extent_count; i++)
        if (p->extents[i].number == SIM_WORDS_EXTENT)
            loci_sim_given(p->extents[i].base + key->base, key->len);
}

/* Numbered from 1, and no number is given again, for runs are short. */
static int user_add(struct loci_fabric *fabric, void *base, size_t len, struct loci_memkey *key)
{
    struct sim_process *p = sim_process_of(fabric);
    struct sim_user *more = realloc(p->users, (size_t)(p->user_count + 1) * sizeof *more);

    if (more == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->users = more;
    more[p->user_count++] = (struct sim_user){ (uintptr_t)base, len, true };
    key->extent = (uint32_t)p->user_count;
    add_span(p->world, base, len);
    loci_sim_time_memory(p, len);
    return LOCO_OK;
}

static void user_remove(struct loci_fabric *fabric, const struct loci_memkey *key)
{
    struct sim_process *p = sim_process_of(fabric);

    if (key->extent - 1 < (uint32_t)p->user_count)
        p->users[key->extent - 1].there = false;
}

static bool is_user(const struct sim_process *to, const struct loci_memkey *key)
{
    const struct sim_user *user;

    if (key->extent - 1 >= (uint32_t)to->user_count)
        return false;
    user = &to->users[key->extent - 1];
    return user->there && user->base == key->base && user->len == key->len;
}

static unsigned char *no_map(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    (void)fabric;
    (void)mem;
    return NULL;
}

/* Where a range is; NULL for memory that is not there (any more). */
static unsigned char *resolve(struct sim_process *to, const struct loci_memkey *key,
                              uint64_t offset, size_t len)
{
    if (offset + len > key->len)
        return NULL;
    if (key->kind == LOCI_MEM_USER)
        return is_user(to, key) ? (unsigned char *)(uintptr_t)key->base + offset : NULL;
    for (int i = 0; i < to->extent_count; i++)
        if (!to->extents[i].gone && to->extents[i].number == key->extent
            && key->base + key->len <= to->extents[i].len)
            return to->extents[i].base + key->base + offset;
    return NULL;
}

/* Of an operation on memory that is not there (any more). A key that has outlived the user's memory
 * is told apart: no channel may use one. */
static int not_there(const struct sim_process *to, const struct loci_op *op)
{
    if (to->stopped || to->left)
        return LOCO_ERR_PEER_DEAD;
    return op->mem->key.kind == LOCI_MEM_USER && !is_user(to, &op->mem->key) ? LOCO_ERR_PROTOCOL
                                                                            : LOCO_ERR_RANGE;
}

unsigned char *loci_sim_memory(loco_runtime_t *rt, const struct loci_mem *mine)
{
    return resolve(sim_process_of(rt->fabric), &mine->key, 0, mine->key.len);
}

/* ---- lanes ---- */

/* The first operation that brings something back, on the device's own memory or on other, if it can
 * be executed: those before it are, and what it waits for is placed; else NULL. */
static struct sim_op *executable(const struct sim_lane *lane, bool in_device)
{
    const struct sim_op *device = lane->to->device;
    bool timed = lane->from->world->strategy == LOCI_SIM_TIMED;     /* it has an agenda instead */

    for (struct sim_op *p = lane->first; p != NULL; p = p->next) {
        if (in_device && !p->in_device)
            continue;
        if (p->op.kind == LOCI_WRITE) {
            if (p->left != 0 && !timed)
                return NULL;
            continue;
        }
        if (p->stage >= SIM_EXECUTED)
            continue;
        if (p->stage == SIM_POSTED || p->in_device != in_device)
            return NULL;
        return p->op.kind < LOCI_FETCH_ADD || p->op.kind == LOCI_PLACE || device == NULL
               || device == p ? p : NULL;
    }
    return NULL;
}

/* What can happen next: the first operation that is not sent, the first write that is not placed,
 * the first other that can be executed... */
static void refresh(struct sim_lane *lane)
{
    bool unsent = false, unplaced[2] = { false, false };
    unsigned can = 0;

    if (lane->from->world->strategy == LOCI_SIM_TIMED)      /* it has an agenda instead */
        return;
    for (struct sim_op *p = lane->first; p != NULL; p = p->next) {
        if (p->stage == SIM_POSTED && !unsent) {
            unsent = true;
            can |= SIM_SEND;
        }
        if (p->op.kind == LOCI_WRITE) {
            if (p->left != 0 && p->stage == SIM_SENT && !unplaced[p->in_device])
                can |= SIM_PLACE;
            unplaced[p->in_device] = unplaced[p->in_device] || p->left != 0;
            continue;
        }
        if (p->stage == SIM_EXECUTED)
            can |= SIM_RESPOND;
    }
    if (executable(lane, false) != NULL
        || (lane->to->words_taken != 0 && executable(lane, true) != NULL))
        can |= SIM_EXECUTE;
    lane->can = can;
}

/* A device that is free again may be what others wait for. */
static void refresh_all_to(struct sim_world *w, const struct sim_process *to)
{
    for (int i = 0; i < w->lane_count && w->strategy != LOCI_SIM_TIMED; i++)
        if (w->lanes[i]->to == to)
            refresh(w->lanes[i]);
}

static const char *kind_name(const struct sim_op *op)
{
    static const char *const names[] = {
        [LOCI_WRITE] = "write", [LOCI_READ] = "read", [LOCI_FETCH_ADD] = "fetch_add",
        [LOCI_COMPARE_SWAP] = "compare_swap", [LOCI_PLACE] = "place",
    };

    return op->op.merge != 0 ? "merge" : names[op->op.kind];
}

void loci_sim_op_text(const struct sim_lane *lane, const struct sim_op *op, char *text, size_t len)
{
    char where[128] = "";

    if (op->target == NULL
        || !loci_sim_place_of(lane->from->world, op->target, where, sizeof where))
        snprintf(where, sizeof where, "p%d", lane->to->rank);
    snprintf(text, len, "#%llu %s of %zu bytes by p%d.t%d at %s", (unsigned long long)op->id,
             kind_name(op), op->op.len, lane->from->rank, lane->thread, where);
}

static void trace_op(struct sim_lane *lane, struct sim_op *op, const char *what)
{
    struct sim_world *w = lane->from->world;
    char text[256];

    if (!sim_traced(w))
        return;
    loci_sim_op_text(lane, op, text, sizeof text);
    loci_sim_trace_line(w, lane->from->rank, -1, what, op->id, lane->to->rank, "%s", text);
}

static void race(struct sim_lane *lane, struct sim_op *op)
{
    struct sim_world *w = lane->from->world;
    char text[256];

    loci_sim_op_text(lane, op, text, sizeof text);
    snprintf(w->result->text, sizeof w->result->text,
             "data race: the source of %s was changed before the write was complete", text);
    loci_sim_end(LOCI_SIM_RACE);
}

/* ---- events ---- */

static void send_next(struct sim_lane *lane)
{
    struct sim_op *p = lane->first;

    while (p->stage != SIM_POSTED)
        p = p->next;
    if (p->op.kind == LOCI_WRITE && !p->op.by_value
        && memcmp(p->data, p->op.local, p->op.len) != 0)
        race(lane, p);
    p->stage = SIM_SENT;
    trace_op(lane, p, p->op.kind == LOCI_WRITE ? "source read, complete" : "sent");
    if (p->op.kind == LOCI_WRITE)
        loci_sim_lane_changed(lane);
}

/* One of an operation on the device's own memory and one on other, any; one of them may be NULL. */
static struct sim_op *either(struct sim_world *w, struct sim_op *here, struct sim_op *in_device)
{
    if (here == NULL || in_device == NULL)
        return here != NULL ? here : in_device;
    return loci_sim_choose(w, 2, (uint32_t)(loci_sim_random(w, 0) % 2)) == 0 ? here : in_device;
}

/* By the owner's CPU, in one step. */
static void merge(const struct sim_process *to, uint32_t how, unsigned char *words,
                  const unsigned char *operands, size_t len)
{
    struct sim_world *w = to->world;
    bool done, quiet = w->quiet;
    loci_merge_fn *fn;

    w->quiet = true;            /* whoever runs takes no part in it */
    fn = atomic_load_explicit(&to->rt->merge, memory_order_acquire);
    done = fn != NULL && fn(how, words, operands, len / 8);
    w->quiet = quiet;
    LOCO_ASSERT(done);
    (void)done;
    loci_sim_memory_changed(to);
}

static void place_piece(struct sim_lane *lane)
{
    struct sim_op *first[2] = { NULL, NULL }, *p;
    size_t from, len;

    for (p = lane->first; p != NULL; p = p->next)
        if (p->op.kind == LOCI_WRITE && p->left != 0 && first[p->in_device] == NULL)
            first[p->in_device] = p;
    for (int i = 0; i < 2; i++)         /* of both kinds, one may not be sent yet */
        if (first[i] != NULL && first[1 - i] != NULL && first[i]->stage == SIM_POSTED)
            first[i] = NULL;
    p = either(lane->from->world, first[0], first[1]);
    loci_sim_look_at_op(lane, p);
    loci_sim_next_part(lane->from->world, p, &from, &len);
    if (p->op.merge != 0)
        merge(lane->to, p->op.merge, p->target + from, p->data + from, len);
    else
        memcpy(p->target + from, p->data + from, len);
    loci_sim_memory_changed(lane->to);
    trace_op(lane, p, p->left == 0 ? "placed" : "partly placed");
}

static void execute_atomic(struct sim_lane *lane, struct sim_op *p)
{
    struct sim_world *w = lane->from->world;
    uint64_t word;

    loci_sim_look_at_op(lane, p);
    memcpy(&word, p->target, sizeof word);
    if (p->stage == SIM_SENT)
        p->word = word;
    if (p->stage == SIM_SENT && !w->config->owner_atomics) {
        p->stage = SIM_FETCHED;
        lane->to->device = p;
        refresh_all_to(w, lane->to);
        trace_op(lane, p, "word read");
        return;
    }
    word = p->op.kind == LOCI_FETCH_ADD ? p->word + p->op.operand
           : p->word == p->op.compare ? p->op.operand : p->word;
    if (p->op.kind == LOCI_FETCH_ADD || p->word == p->op.compare)
        memcpy(p->target, &word, sizeof word);
    p->stage = SIM_EXECUTED;
    lane->to->device = NULL;
    loci_sim_memory_changed(lane->to);
    refresh_all_to(w, lane->to);
    trace_op(lane, p, "executed");
}

static void execute_next(struct sim_lane *lane)
{
    struct sim_op *p = executable(lane, false);
    size_t from, len;

    if (lane->to->words_taken != 0)
        p = either(lane->from->world, p, executable(lane, true));
    if (p->op.kind == LOCI_FETCH_ADD || p->op.kind == LOCI_COMPARE_SWAP) {
        execute_atomic(lane, p);
        return;
    }
    if (p->left != 0) {
        loci_sim_look_at_op(lane, p);
        loci_sim_next_part(lane->from->world, p, &from, &len);
        memcpy(p->data + from, p->target + from, len);
    }
    if (p->left == 0)
        p->stage = SIM_EXECUTED;
    trace_op(lane, p, p->left == 0 ? "executed" : "partly read");
}

static void respond(struct sim_lane *lane)
{
    struct sim_op *p = lane->first;

    while (p->stage != SIM_EXECUTED)
        p = p->next;
    if (p->op.kind == LOCI_READ)
        memcpy(p->op.local, p->data, p->op.len);
    else if (p->op.kind != LOCI_PLACE)
        *p->op.result = p->word;
    p->stage = SIM_COMPLETE;
    loci_sim_lane_changed(lane);
    trace_op(lane, p, "complete");
}

void loci_sim_lane_event(struct sim_lane *lane, unsigned what)
{
    switch (what) {
    case SIM_SEND: send_next(lane); break;
    case SIM_PLACE: place_piece(lane); break;
    case SIM_EXECUTE: execute_next(lane); break;
    default: respond(lane); break;
    }
    refresh(lane);
}

/* ---- posting and polling ---- */

static struct sim_op *new_op(struct sim_world *w)
{
    struct sim_op *p = w->free_ops;

    if (p == NULL)
        return calloc(1, sizeof *p);
    w->free_ops = p->next;
    memset(p, 0, sizeof *p);
    return p;
}

static void drop_op(struct sim_world *w, struct sim_op *p)
{
    free(p->data);
    p->next = w->free_ops;
    w->free_ops = p;
}

static bool has_data(const struct loci_op *op)
{
    return op->kind == LOCI_WRITE || op->kind == LOCI_READ;
}

static void count(struct sim_process *p, const struct loci_op *op)
{
    switch (op->kind) {
    case LOCI_WRITE: p->counts.writes++; break;
    case LOCI_READ: p->counts.reads++; break;
    case LOCI_PLACE: p->counts.places++; break;
    default: p->counts.atomics++; break;
    }
    p->counts.bytes += op->len;
}

/* By time, as much as hardware has; else little, so that runs meet a lane without room. */
static int room(const struct sim_world *w)
{
    return w->strategy == LOCI_SIM_TIMED && w->config->cost->room > 0 ? w->config->cost->room
                                                                     : SIM_LANE_ROOM;
}

static int post_one(struct sim_lane *lane, const struct loci_op *op)
{
    struct sim_world *w = lane->from->world;
    unsigned char *target = NULL;
    struct sim_op *p;

    if (op->kind != LOCI_PLACE
        && (target = resolve(lane->to, &op->mem->key, op->offset, op->len)) == NULL)
        return not_there(lane->to, op);
    if (op->kind != LOCI_PLACE && !has_data(op) && ((uintptr_t)target % 8 != 0 || op->len != 8))
        return LOCO_ERR_ARG;    /* no device does that */
    if (lane->depth >= room(w) || !loci_credit_may(lane->lane->thread, op->len))
        return LOCO_ERR_AGAIN;
    p = new_op(w);
    if (p != NULL && has_data(op))
        p->data = malloc(op->len + 1);
    if (p == NULL || (has_data(op) && p->data == NULL))
        return LOCO_ERR_NO_MEMORY;
    p->op = *op;
    p->id = ++w->ops;
    p->in_device = op->kind != LOCI_PLACE && op->mem->key.kind == LOCI_MEM_DEVICE;
    p->target = target;
    p->pieces = has_data(op) ? loci_sim_piece_count(target, op->len) : 0;
    p->left = p->pieces >= 32 ? UINT32_MAX : (UINT32_C(1) << p->pieces) - 1;
    if (op->kind == LOCI_WRITE)
        memcpy(p->data, op->local, op->len);
    else if (op->kind == LOCI_READ)
        memset(op->local, POISON, op->len);
    else if (op->kind != LOCI_PLACE)
        memset(op->result, POISON, sizeof *op->result);
    loci_sim_look_at_op(lane, p);
    *lane->last = p;
    lane->last = &p->next;
    lane->depth++;
    lane->from->nic->outstanding++;
    loci_credit_take(lane->lane->thread, op->len, true);
    count(lane->from, op);
    trace_op(lane, p, "posted");
    return LOCO_IN_PROGRESS;
}

static int post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                int *posted)
{
    struct sim_process *p = sim_process_of(fabric);
    struct sim_lane *l = lane->fabric_data;
    int status = LOCO_OK;

    loci_sim_step(LOCI_SIM_STORE, l, sizeof *l);
    for (*posted = 0; *posted < n; (*posted)++) {
        status = post_one(l, &ops[*posted]);
        if (status < 0)
            break;
        ops[*posted].in_flight = true;
        if (p->world->strategy == LOCI_SIM_TIMED)
            loci_sim_time_op(l);
    }
    if (p->world->strategy == LOCI_SIM_TIMED && *posted > 0)
        loci_sim_time_ring(l, *posted);
    p->counts.rings += *posted > 0;
    refresh(l);
    return status;
}

/* Completions in order; of a peer that is known to be dead, all fail. */
static int poll_one(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct sim_process *from = sim_process_of(fabric);
    struct sim_lane *l = lane->fabric_data;
    struct sim_op **link = &l->first;
    int told = 0;
    bool dead;

    if (l == NULL)
        return 0;       /* it is retired */
    /* The device's own queue says at a glance that there is nothing. */
    if (from->world->strategy == LOCI_SIM_TIMED && l->first == NULL)
        return 0;
    dead = !loci_peer_alive(from->rt, lane->peer->index);
    while (*link != NULL) {
        struct sim_op *p = *link;
        bool done = p->stage == SIM_COMPLETE
                    || (p->op.kind == LOCI_WRITE && p->stage == SIM_SENT);

        if (!p->told && !done && !dead)
            break;
        if (!p->told) {
            p->told = true;
            loci_slot_done(p->op.slot, done ? LOCO_OK : LOCO_ERR_PEER_DEAD);
            told++;
            if (from->world->strategy == LOCI_SIM_TIMED)
                loci_sim_time_cpu(from->world, from->world->config->cost->poll);
            from->nic->outstanding--;
            loci_credit_give(lane->thread, p->op.len, true, false);
        }
        if (p->op.kind == LOCI_WRITE && p->left != 0 && !l->to->stopped && !l->to->left && !dead) {
            link = &p->next;
            continue;
        }
        if (l->to->device == p)
            l->to->device = NULL;
        *link = p->next;
        l->depth--;
        drop_op(from->world, p);
    }
    for (l->last = &l->first; *l->last != NULL; l->last = &(*l->last)->next)
        ;
    refresh(l);
    return told;
}

/* Where credits run short, those of its thread's other lanes, too, as of a device's queue. */
static int poll(struct loci_fabric *fabric, struct loci_lane *lane)
{
    const struct sim_world *w = sim_process_of(fabric)->world;
    int told = poll_one(fabric, lane);

    for (int i = 0; i < w->lane_count && loci_credit_is_short(lane->thread); i++)
        if (w->lanes[i]->lane != NULL && w->lanes[i]->lane->thread == lane->thread
            && w->lanes[i]->lane != lane)
            told += poll_one(fabric, w->lanes[i]->lane);
    return told;
}

/* ---- lives of lanes ---- */

/* A thread's lanes ring the doorbell of its first; threads take registers in turn. */
static struct sim_register *take_register(struct sim_process *p, const struct loci_thread *thread)
{
    const struct sim_world *w = p->world;
    int most = w->config->registers < SIM_REGISTERS ? w->config->registers : SIM_REGISTERS;
    struct sim_register *r;

    for (int i = 0; i < w->lane_count; i++)
        if (w->lanes[i]->from == p && w->lanes[i]->lane != NULL
            && w->lanes[i]->lane->thread == thread)
            return w->lanes[i]->reg;
    r = &p->registers[p->registers_taken++ % most];
    r->threads++;
    return r;
}

/* Its peer takes this process for dead. */
static bool is_cut(const struct sim_lane *lane)
{
    const struct loci_peer *here = lane->to->peers[lane->from->rank];

    return here != NULL && here->address.label == lane->from->rt->address.label
           && atomic_load_explicit(&here->state, memory_order_relaxed) == LOCI_PEER_DEAD;
}

static int lane_open(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct sim_process *p = sim_process_of(fabric);
    struct sim_world *w = p->world;
    struct sim_lane *l;

    if (p->rt->ops->map == no_map || !sim_is_near(p, sim_peer_process(p, lane->peer)))
        loci_sim_time_pair(p, sim_peer_process(p, lane->peer));
    l = calloc(1, sizeof *l);
    if (w->lane_count == w->lane_room) {
        w->lane_room = w->lane_room * 2 + 16;
        w->lanes = realloc(w->lanes, (size_t)w->lane_room * sizeof w->lanes[0]);
        w->actors = realloc(w->actors, (size_t)(w->lane_room + w->fiber_count)
                                       * sizeof w->actors[0]);
    }
    if (l == NULL || w->lanes == NULL || w->actors == NULL)
        return LOCO_ERR_NO_MEMORY;
    l->lane = lane;
    l->from = p;
    l->to = sim_peer_process(p, lane->peer);
    l->thread = w->current->thread;
    if (w->config->registers > 0)
        l->reg = take_register(p, lane->thread);
    l->last = &l->first;
    l->index = w->lane_count;
    l->priority = 1000 + (uint32_t)(loci_sim_random(w, 1) % 1000000);
    w->lanes[w->lane_count++] = l;
    l->cut = is_cut(l);
    lane->fabric_data = l;
    return LOCO_OK;
}

/* Nobody is told of it. */
static void lost(const struct sim_lane *lane, const struct sim_op *p)
{
    struct sim_world *w = lane->from->world;
    bool quiet = w->quiet;

    if (p->told)
        return;
    lane->from->nic->outstanding--;
    if (lane->lane == NULL || lane->from->stopped || lane->from->left)
        return;
    w->quiet = true;            /* no step: the lane's list is in between */
    loci_credit_give(lane->lane->thread, p->op.len, true, false);
    w->quiet = quiet;
}

static void forget(struct sim_lane *lane, bool sent_too)
{
    struct sim_op **link = &lane->first;

    while (*link != NULL) {
        struct sim_op *p = *link;

        if (!sent_too && p->op.kind == LOCI_WRITE && p->stage == SIM_SENT && p->left != 0) {
            lost(lane, p);
            p->told = true;
            link = &p->next;
            continue;
        }
        if (lane->to->device == p)
            lane->to->device = NULL;
        *link = p->next;
        lane->depth--;
        lost(lane, p);
        drop_op(lane->from->world, p);
    }
    lane->last = link;
    refresh(lane);
}

/* What was sent is on its way; the rest goes with the queue pair. */
static void lane_close(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct sim_lane *l = lane->fabric_data;

    (void)fabric;
    forget(l, false);
    l->lane = NULL;
}

void loci_sim_lanes_stop(struct sim_process *p)
{
    struct sim_world *w = p->world;

    for (int i = 0; i < w->lane_count; i++) {
        struct sim_lane *lane = w->lanes[i];

        /* An atomic that its device has begun is finished. */
        if (lane->from == p && lane->to->device != NULL)
            for (struct sim_op *op = lane->first; op != NULL; op = op->next)
                if (lane->to->device == op)
                    execute_atomic(lane, op);
        if (lane->from == p)
            forget(lane, loci_sim_random(w, 1) % 2 == 0);
        else if (lane->to == p)
            refresh(lane);
    }
}

/* One that is alive, and was cut off: its lanes to here end, and it hears that this process has. */
static void cut_off(struct sim_process *here, struct sim_process *there, uint64_t label)
{
    struct sim_world *w = here->world;

    for (int i = 0; i < w->lane_count; i++)
        if (w->lanes[i]->from == there && w->lanes[i]->to == here)
            w->lanes[i]->cut = true;
    loci_sim_send_letter(there, label, here->rank, SIM_DEATH, NULL, 0);
}

/* As a fabric gives up its queue pairs with a peer that has gone: what that one sent and was not
 * placed yet is never placed. */
static void peer_gone(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct sim_process *here = sim_process_of(fabric), *gone = sim_peer_process(here, peer);
    struct sim_world *w = here->world;

    for (int i = 0; i < w->lane_count; i++)
        if (w->lanes[i]->from == gone && w->lanes[i]->to == here && (gone->stopped || gone->left))
            forget(w->lanes[i], true);
    if (!gone->stopped && !gone->left
        && atomic_load_explicit(&peer->unwelcome, memory_order_relaxed) == LOCI_STOPPED_TOO_LONG)
        cut_off(here, gone, peer->address.label);
    loci_peer_silent(here->rt, peer);
}

void loci_sim_lanes_free(struct sim_world *w)
{
    for (int i = 0; i < w->lane_count; i++) {
        w->lanes[i]->lane = NULL;
        forget(w->lanes[i], true);
        free(w->lanes[i]);
    }
    while (w->free_ops != NULL) {
        struct sim_op *p = w->free_ops;

        w->free_ops = p->next;
        free(p);
    }
}

void loci_sim_hazards(struct sim_world *w, const void *at, size_t len)
{
    const unsigned char *begin = at;

    for (int i = 0; i < w->lane_count; i++)
        for (struct sim_op *p = w->lanes[i]->first; p != NULL; p = p->next) {
            char text[256];

            if (p->op.kind != LOCI_WRITE || p->left == 0 || p->stage != SIM_SENT
                || p->target >= begin + len || begin >= p->target + p->op.len)
                continue;
            loci_sim_op_text(w->lanes[i], p, text, sizeof text);
            loci_sim_trace_line(w, w->current->process->rank, w->current->thread,
                                "reads before it is placed", p->id, w->lanes[i]->from->rank,
                                "%s", text);
        }
}

/* ---- one node: everything is mapped, and what the user brought is copied ---- */

static unsigned char *map(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    struct sim_process *p = sim_process_of(fabric);

    loci_sim_time_call(p->world);
    return resolve(sim_peer_process(p, loci_peer(p->rt, mem->peer)), &mem->key, 0,
                   mem->key.len);
}

/* The owner's CPU, though it is not said by which thread of it: one step. */
static void update_here(const struct sim_process *to, const struct loci_op *op, unsigned char *at)
{
    uint64_t word;

    loci_sim_step(LOCI_SIM_RMW, at, sizeof word);
    memcpy(&word, at, sizeof word);
    *op->result = word;
    if (op->kind == LOCI_FETCH_ADD)
        word += op->operand;
    else if (word == op->compare)
        word = op->operand;
    memcpy(at, &word, sizeof word);
    loci_sim_memory_changed(to);
}

static int post_here(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops,
                     int n, int *posted)
{
    struct sim_process *p = sim_process_of(fabric);
    struct sim_process *to = sim_peer_process(p, lane->peer);

    for (*posted = 0; *posted < n; (*posted)++) {
        struct loci_op *op = &ops[*posted];
        unsigned char *at = op->kind == LOCI_PLACE ? NULL
                            : resolve(to, &op->mem->key, op->offset, op->len);

        if (at == NULL && op->kind != LOCI_PLACE)
            return not_there(to, op);
        count(p, op);
        switch (op->kind) {
        case LOCI_WRITE:
            if (op->merge != 0)
                merge(to, op->merge, at, op->local, op->len);
            else
                loci_sim_copy(at, op->local, op->len, 1);
            break;
        case LOCI_READ: loci_sim_copy(op->local, at, op->len, 0); break;
        case LOCI_PLACE: break;
        default:
            if (op->mem->key.kind == LOCI_MEM_USER && op->mem->domain != LOCI_DOMAIN_OWNER)
                return LOCO_ERR_UNSUPPORTED;
            update_here(to, op, at);
        }
    }
    return LOCO_OK;
}

/* ---- several nodes, some with several processes ---- */

static unsigned char *map_near(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    struct sim_process *p = sim_process_of(fabric);

    return sim_is_near(p, sim_peer_process(p, loci_peer(p->rt, mem->peer))) ? map(fabric, mem)
                                                                           : NULL;
}

static int post_near_or_far(struct loci_fabric *fabric, struct loci_lane *lane,
                            struct loci_op *ops, int n, int *posted)
{
    struct sim_process *p = sim_process_of(fabric);

    return sim_is_near(p, sim_peer_process(p, lane->peer))
           ? post_here(fabric, lane, ops, n, posted) : post(fabric, lane, ops, n, posted);
}

void loci_sim_copy(void *to, const void *from, size_t len, int to_network)
{
    struct sim_world *w = loci_sim_world;
    struct sim_op whole = { .op.len = len,
                            .target = to_network ? to : (unsigned char *)(uintptr_t)from };
    int pieces = loci_sim_piece_count(whole.target, len);

    for (int i = 0; i < pieces; i++) {
        size_t at, n;

        loci_sim_piece(&whole, i, &at, &n);
        loci_sim_step(to_network ? LOCI_SIM_STORE : LOCI_SIM_LOAD, whole.target + at, n);
        memcpy((unsigned char *)to + at, (const unsigned char *)from + at, n);
        if (to_network && w != NULL)
            loci_sim_changed(whole.target + at);
    }
}

/* ---- peers and messages: control.c ---- */

int loci_sim_fabric_open(struct loco_runtime *rt, struct loci_address *mine,
                         struct loci_fabric **fabric);
void loci_sim_fabric_close(struct loci_fabric *fabric);
int loci_sim_peer_add(struct loci_fabric *fabric, struct loci_peer *peer);
void loci_sim_peer_remove(struct loci_fabric *fabric, struct loci_peer *peer);
bool loci_sim_peer_forget(struct loci_fabric *fabric, struct loci_peer *peer);
int loci_sim_control_send(struct loci_fabric *fabric, struct loci_peer *peer, const void *message,
                          size_t len);
int loci_sim_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number);
int loci_sim_ring_here(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number);
struct loci_bells *loci_sim_bells(struct loci_fabric *fabric, struct loci_peer *peer);

/* Sometimes, so that elements are copied, too. */
static bool reach(struct loci_fabric *fabric, const struct loci_piece *pieces, int n)
{
    (void)fabric;
    (void)pieces;
    (void)n;
    return loci_sim_draw(2) == 0;
}

const struct loci_fabric_ops loci_fabric_sim = {
    .name = "sim",
    .spans = true,
    .open = loci_sim_fabric_open,
    .close = loci_sim_fabric_close,
    .peer_add = loci_sim_peer_add,
    .peer_remove = loci_sim_peer_remove,
    .peer_forget = loci_sim_peer_forget,
    .peer_gone = peer_gone,
    .extent_create = extent_create,
    .extent_grow = extent_grow,
    .extent_destroy = extent_destroy,
    .user_add = user_add,
    .user_remove = user_remove,
    .words_take = words_take,
    .words_give = words_give,
    .map = no_map,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .post = post,
    .poll = poll,
    .ring = loci_sim_ring,
    .control_send = loci_sim_control_send,
};

const struct loci_fabric_ops loci_fabric_sim_node = {
    .name = "sim",
    .synchronous = true,
    .maps = true,
    .open = loci_sim_fabric_open,
    .close = loci_sim_fabric_close,
    .peer_add = loci_sim_peer_add,
    .peer_remove = loci_sim_peer_remove,
    .peer_forget = loci_sim_peer_forget,
    .extent_create = extent_create,
    .extent_grow = extent_grow,
    .extent_destroy = extent_destroy,
    .user_add = user_add,
    .user_remove = user_remove,
    .map = map,
    .post = post_here,
    .reach = reach,
    .ring = loci_sim_ring_here,
    .bells = loci_sim_bells,
    .control_send = loci_sim_control_send,
};

const struct loci_fabric_ops loci_fabric_sim_owner = {
    .name = "sim",
    .maps = true,
    .spans = true,
    .owner_atomics = true,
    .merges = true,
    .open = loci_sim_fabric_open,
    .close = loci_sim_fabric_close,
    .peer_add = loci_sim_peer_add,
    .peer_remove = loci_sim_peer_remove,
    .peer_forget = loci_sim_peer_forget,
    .peer_gone = peer_gone,
    .extent_create = extent_create,
    .extent_grow = extent_grow,
    .extent_destroy = extent_destroy,
    .user_add = user_add,
    .user_remove = user_remove,
    .map = map_near,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .post = post_near_or_far,
    .poll = poll,
    .ring = loci_sim_ring_here,
    .bells = loci_sim_bells,
    .control_send = loci_sim_control_send,
};

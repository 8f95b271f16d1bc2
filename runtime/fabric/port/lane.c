/* SPDX-License-Identifier: BSD-3-Clause */

/* A lane that is a port: requests into its ring, completions out of it. See port.h. All under the
 * lock of the lane's thread.
 *
 * A write is done when its bytes are in the arena, or in the request; what becomes of it later is
 * told by what is posted behind it. What is longer than a part of the arena goes in pieces, of one
 * operation at a time: post and poll send on what has room. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "observe/observe.h"
#include "wait.h"

#define PIECES 4                /* of an arena at least: one is filled while another goes */

static struct port_client *client_of(struct loci_fabric *fabric)
{
    return (struct port_client *)(void *)fabric;
}

/* ---- lives ---- */

int loci_port_lane_open(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct port_client *c = client_of(fabric);
    struct port_lane *l;
    int status;

    if (!loci_port_agent_lives(c))
        return LOCO_ERR_PEER_DEAD;
    l = calloc(1, sizeof *l + c->welcome.depth * sizeof l->pending[0]);
    if (l == NULL)
        return LOCO_ERR_NO_MEMORY;
    l->lane = lane;
    l->client = c;
    l->grant = PORT_NO_GRANT;
    status = loci_port_take(c, l);
    if (status != LOCO_OK) {
        free(l);
        return status;
    }
    lane->acks_place = lane->synchronous = false;
    lane->fabric_data = l;
    return LOCO_OK;
}

/* ---- what has come ---- */

static struct port_pending *pending_of(struct port_lane *l, uint64_t number)
{
    return &l->pending[number & (l->client->welcome.depth - 1)];
}

static void fail_lane(struct loci_lane *lane, int status)
{
    int none = LOCO_OK;

    atomic_compare_exchange_strong(&lane->failed, &none, status);
}

/* What was posted is told: by the agent, or, with `completion` NULL, since it is gone. */
static void tell(struct port_lane *l, const struct loci_port_completion *completion)
{
    struct port_pending *p = pending_of(l, l->retired);
    uint64_t told = completion != NULL ? loci_load64(&completion->status)
                    : (uint32_t)LOCO_ERR_PEER_DEAD | LOCI_PORT_LOST;
    int status = (int)(uint32_t)told;

    if (status != LOCO_OK) {
        loci_stat(l->client->rt, LOCI_STAT_PORT + LOCI_STATS_PORT_REFUSED, 1);
        l->broken = true;
        l->lost = l->lost || p->kind == LOCI_WRITE || (told & LOCI_PORT_LOST) != 0;
        fail_lane(l->lane, status);     /* also where nobody waits for it */
        if (status == LOCO_ERR_PEER_DEAD)
            loci_peer_say_gone(l->client->rt, l->lane->peer->index, true);
    } else if (p->to != NULL && p->kind == LOCI_READ) {
        loci_copy_out(p->to, l->at.arena + p->arena, p->len);
    } else if (p->to != NULL) {
        uint64_t value = loci_load64(&completion->value);

        memcpy(p->to, &value, sizeof value);
    }
    if (l->arena_from < p->arena_end)
        l->arena_from = p->arena_end;
    l->retired++;
    if (p->slot != NULL)
        loci_slot_done(p->slot, status);
}

/* How many. */
static int retire(struct port_lane *l)
{
    /* Acquire: the count, then the completions and what was read. */
    uint64_t finished = loci_load64(&l->at.words->finished);
    int n = 0;

    for (; l->retired != finished && l->retired != l->posted; n++)
        tell(l, &l->at.completion[l->retired & (l->client->welcome.depth - 1)]);
    return n;
}

/* The agent is gone: nothing more comes. */
static int give_up(struct port_lane *l)
{
    int n = retire(l);

    for (; l->retired != l->posted; n++)
        tell(l, NULL);
    l->broken = true;
    if (l->going) {
        l->going = false;
        loci_slot_done(l->op.slot, LOCO_ERR_PEER_DEAD);
        n++;
    }
    return n;
}

/* ---- requests ---- */

static bool has_room(const struct port_lane *l)
{
    return l->posted - l->retired < l->client->welcome.depth;
}

/* Bytes of the arena that lie together; false: not now. */
static bool take_bytes(struct port_lane *l, uint64_t len, uint32_t *at)
{
    uint64_t size = l->client->welcome.arena, to;

    to = l->arena_to;
    len = (len + 7) / 8 * 8;
    if (to % size + len > size) {
        to += size - to % size;
        if (l->arena_from == l->arena_to)
            l->arena_from = to;
    }
    if (to + len - l->arena_from > size)
        return false;
    *at = (uint32_t)(to % size);
    l->arena_to = to + len;
    return true;
}

static void push(struct port_lane *l, struct loci_port_request *r, struct loci_slot *slot,
                 void *to)
{
    struct port_pending *p = pending_of(l, l->posted);

    r->epoch = l->epoch;
    r->grant = l->client->told[l->grant].grant;
    loci_copy_in(&l->at.request[l->posted & (l->client->welcome.depth - 1)], r, sizeof *r);
    *p = (struct port_pending){ .slot = slot, .kind = (enum loci_op_kind)r->kind, .to = to,
                                .len = r->len, .arena = r->arena, .arena_end = l->arena_to };
    l->posted++;
}

/* For that announcement, unless it was: who finds that it was (acquire) relies on a ring that has
 * been made (release), not on a thread that is about to. */
static void ring(struct port_client *c, uint64_t asleep)
{
    if (asleep == 0 || asleep == atomic_load_explicit(&c->rung, memory_order_acquire))
        return;
    loci_stat(c->rt, LOCI_STAT_PORT + LOCI_STATS_PORT_RINGS, 1);
    (void)loci_ring_for(c->rt, c->agent, c->welcome.number);
    atomic_store_explicit(&c->rung, asleep, memory_order_release);
}

/* Requests, then how many; then whether the agent sleeps, in one order with its announcement. */
static void publish(struct port_lane *l)
{
    struct port_client *c = l->client;

    if (l->published == l->posted)
        return;
    loci_stat(c->rt, LOCI_STAT_PORT + LOCI_STATS_PORT_REQUESTS, l->posted - l->published);
    l->published = l->posted;
    (void)loci_cpu_exchange(&l->at.words->posted, l->posted);
    ring(c, loci_load64_total(&((struct loci_port_header *)(void *)c->base)->asleep));
}

/* One whose bytes lie together, from `done` of the operation on. */
static bool push_bytes(struct port_lane *l, const struct loci_op *op, uint64_t done, uint32_t len,
                       struct loci_slot *slot)
{
    unsigned char *local = (unsigned char *)op->local + done;
    struct loci_port_request r = { .kind = (uint8_t)op->kind, .offset = op->offset + done,
                                   .len = len };

    if (!has_room(l) || !take_bytes(l, len, &r.arena))
        return false;
    if (op->kind == LOCI_WRITE)
        loci_copy_in(l->at.arena + r.arena, local, len);
    push(l, &r, slot, op->kind == LOCI_READ ? local : NULL);
    return true;
}

static uint32_t piece(const struct port_lane *l)
{
    return l->client->welcome.arena / PIECES / 8 * 8;
}

static void go_on(struct port_lane *l)
{
    while (l->going) {
        uint64_t left = l->op.len - l->gone;
        uint32_t len = left < piece(l) ? (uint32_t)left : piece(l);

        if (!push_bytes(l, &l->op, l->gone, len, len == left ? l->op.slot : NULL))
            return;
        l->gone += len;
        l->going = l->gone != l->op.len;
    }
}

static int add_bytes(struct port_lane *l, const struct loci_op *op)
{
    if (op->len <= piece(l)) {
        if (!push_bytes(l, op, 0, (uint32_t)op->len, op->kind == LOCI_READ ? op->slot : NULL))
            return LOCO_ERR_AGAIN;
        return op->kind == LOCI_READ ? LOCO_IN_PROGRESS : LOCO_OK;
    }
    l->op = *op;
    l->gone = 0;
    l->going = true;
    go_on(l);
    return LOCO_IN_PROGRESS;
}

static int add_short_write(struct port_lane *l, const struct loci_op *op)
{
    struct loci_port_request r = { .kind = LOCI_WRITE, .offset = op->offset,
                                   .len = (uint32_t)op->len, .arena = LOCI_PORT_NO_ARENA };

    if (!has_room(l))
        return LOCO_ERR_AGAIN;
    memcpy(&r.operand, op->local, op->len);
    push(l, &r, NULL, NULL);
    return LOCO_OK;
}

static int add_atomic(struct port_lane *l, const struct loci_op *op)
{
    struct loci_port_request r = { .kind = (uint8_t)op->kind, .offset = op->offset,
                                   .len = sizeof(uint64_t), .operand = op->operand,
                                   .compare = op->compare, .arena = LOCI_PORT_NO_ARENA };

    if (!has_room(l))
        return LOCO_ERR_AGAIN;
    push(l, &r, op->slot, op->unwanted ? NULL : op->result);
    return LOCO_IN_PROGRESS;
}

/* Where nothing was posted, nothing is to be placed. */
static int add_place(struct port_lane *l, const struct loci_op *op)
{
    struct loci_port_request r = { .kind = LOCI_PLACE, .arena = LOCI_PORT_NO_ARENA };

    if (l->grant == PORT_NO_GRANT)
        return LOCO_OK;
    if (!has_room(l))
        return LOCO_ERR_AGAIN;
    push(l, &r, op->slot, NULL);
    return LOCO_IN_PROGRESS;
}

static int add(struct port_lane *l, const struct loci_op *op)
{
    uint32_t grant;

    if (l->going)
        return LOCO_ERR_AGAIN;
    if (op->kind == LOCI_PLACE || op->len == 0)
        return op->kind == LOCI_WRITE ? LOCO_OK : add_place(l, op);
    if (op->merge != 0)
        return LOCO_ERR_UNSUPPORTED;
    grant = loci_port_grant_of(l->client, op);
    if (grant == PORT_NO_GRANT)
        return LOCO_ERR_RANGE;
    l->grant = grant;
    if (op->kind == LOCI_FETCH_ADD || op->kind == LOCI_COMPARE_SWAP)
        return add_atomic(l, op);
    return op->kind == LOCI_WRITE && op->len <= sizeof(uint64_t) ? add_short_write(l, op)
                                                                 : add_bytes(l, op);
}

/* ---- for the runtime ---- */

int loci_port_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                   int *posted)
{
    struct port_lane *l = lane->fabric_data;
    int status = LOCO_OK, i;

    *posted = 0;
    if (l == NULL || !loci_port_agent_lives(client_of(fabric))) {
        /* Also who waits for what an earlier post has raised, and only looks at this, is told. */
        fail_lane(lane, LOCO_ERR_PEER_DEAD);
        return LOCO_ERR_PEER_DEAD;
    }
    retire(l);
    go_on(l);
    for (i = 0; i < n; i++) {
        status = add(l, &ops[i]);
        if (status < 0)
            break;
        ops[i].in_flight = status == LOCO_IN_PROGRESS;
    }
    publish(l);
    *posted = i;
    return status;
}

int loci_port_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op)
{
    const struct port_lane *l = lane->fabric_data;
    int posted;

    if (l == NULL || op->len > piece(l))
        return LOCO_ERR_AGAIN;
    return loci_port_post(fabric, lane, op, 1, &posted);
}

#define LOOK_EVERY 16           /* polls that find nothing */
#define LOOK_MOST INT64_C(1000000000)   /* ns: more between two looks is this process's own pause */

/* Something is awaited, and nothing has come: is the agent at work? */
static void look_at_agent(struct port_lane *l)
{
    struct port_client *c = l->client;
    const struct loci_port_header *h = (const struct loci_port_header *)(const void *)c->base;
    int64_t now, limit = c->rt->tunables.peer_timeout;
    uint64_t turns;

    if (limit == LOCI_INFINITE || ++l->looks % LOOK_EVERY != 0)
        return;
    now = loci_now(c->rt);
    turns = atomic_load_explicit(&h->turns, memory_order_relaxed);
    if (turns != l->turns)
        l->patience = 0;
    else
        l->patience += now - l->looked_at < LOOK_MOST ? now - l->looked_at : LOOK_MOST;
    l->turns = turns;
    l->looked_at = now;
    if (l->patience > limit)
        atomic_store_explicit(&c->stuck, true, memory_order_relaxed);
}

int loci_port_poll(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct port_lane *l = lane->fabric_data;
    int n;

    if (l == NULL || (l->posted == l->retired && !l->going))
        return 0;
    if (!loci_port_agent_lives(client_of(fabric)))
        return give_up(l);
    n = retire(l);
    go_on(l);
    publish(l);
    if (n == 0)
        look_at_agent(l);
    return n;
}

/* What was posted is the agent's to finish; nobody is told. */
void loci_port_lane_close(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct port_lane *l = lane->fabric_data;

    if (l == NULL)
        return;
    if (loci_port_agent_lives(client_of(fabric)))
        retire(l);
    give_up(l);
    loci_port_give(l->client, l);
    lane->fabric_data = NULL;
    free(l);
}

static int mend(struct port_lane *l)
{
    retire(l);
    if (l->posted != l->retired || l->going)
        return LOCO_ERR_AGAIN;
    if (l->lost
        && atomic_load_explicit(&l->lane->loss, memory_order_relaxed) != LOCI_LOSS_TOLD)
        return LOCO_ERR_STATE;
    l->epoch++;
    l->broken = l->lost = false;
    return LOCO_OK;
}

int loci_port_lane_mend(struct loci_fabric *fabric, struct loci_lane *lane)
{
    int status = LOCO_ERR_PEER_DEAD;

    loci_lock_take(&lane->thread->lock);
    if (lane->fabric_data != NULL && loci_port_agent_lives(client_of(fabric)))
        status = mend(lane->fabric_data);
    else
        atomic_store_explicit(&lane->failed, status, memory_order_relaxed);
    loci_lock_give(&lane->thread->lock);
    return status;
}

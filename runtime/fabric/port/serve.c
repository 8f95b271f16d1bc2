/* SPDX-License-Identifier: BSD-3-Clause */

/* The poller's turns: requests are taken, checked and posted, and what became of them is told. See
 * port.h. */

#include "config.h"

#include "observe/observe.h"
#include "ports.h"
#include "wait.h"

#define AT_ONCE 16              /* requests of a port in one turn */
#define REST_MOST 256           /* turns that a port rests which posts nothing but bad requests */

/* ---- the lock ---- */

/* Between targets and between ports, so that whoever comes waits for one at most. */
static void let_others(struct loci_ports *ports)
{
    unsigned rounds = 0;

    if (atomic_load_explicit(&ports->waiting, memory_order_relaxed) == 0)
        return;
    pthread_mutex_unlock(&ports->lock);
    while (atomic_load_explicit(&ports->waiting, memory_order_relaxed) > 0)
        loci_wait_round(ports->rt, &rounds);
    pthread_mutex_lock(&ports->lock);
}

/* ---- telling ---- */

static bool is_done(const struct port *p, uint64_t number, uint32_t depth)
{
    uint64_t at = number & (depth - 1);

    return (p->done[at / 64] >> at % 64 & 1) != 0;
}

static void flip_done(struct port *p, uint64_t number, uint32_t depth)
{
    uint64_t at = number & (depth - 1);

    p->done[at / 64] ^= UINT64_C(1) << at % 64;
}

/* Completions are told in the order of the ring. */
static void finish(struct loci_ports *ports, struct port *p, uint64_t number, int status,
                   uint64_t value)
{
    uint32_t depth = ports->shape.depth;
    struct loci_port_completion *c = &p->at.completion[number & (depth - 1)];
    uint64_t before = p->finished;

    if (p->misused)
        return;
    loci_store64(&c->value, value);
    loci_store64(&c->status, (uint32_t)status
                             | (status != LOCO_OK && p->lost ? LOCI_PORT_LOST : 0));
    flip_done(p, number, depth);
    while (p->finished != p->taken && is_done(p, p->finished, depth))
        flip_done(p, p->finished++, depth);
    if (p->finished == before)
        return;
    loci_store64_signalled(ports->rt, &p->at.words->finished, p->finished);
    p->client->news = true;
}

/* What it posts in this epoch is flushed from now on. */
static void fail(struct port *p, int status, bool lost)
{
    p->lost = p->lost || lost;
    if (p->failed == LOCO_OK)
        p->failed = status;
}

/* More than the ring has: nothing that it says is believed any more. */
static void take_away(struct loci_ports *ports, struct port *p, uint64_t posted)
{
    for (uint32_t i = 0; i < ports->shape.depth; i++)
        loci_store64(&p->at.completion[i].status, (uint32_t)LOCO_ERR_PROTOCOL | LOCI_PORT_LOST);
    p->misused = true;
    loci_store64_signalled(ports->rt, &p->at.words->finished, posted);
    p->client->news = true;
    ports->stats.misused++;
}

/* ---- targets ---- */

static void tell(struct loci_ports *ports, const struct port_target *t, struct port_entry *e,
                 int status)
{
    if (status != LOCO_OK)
        fail(e->port, status, e->port->wrote > t->placed);
    e->grant->under_way--;
    ports->stats.failed += status != LOCO_OK;
    finish(ports, e->port, e->number, status, e->value);
}

static void collect(struct loci_ports *ports, struct port_target *t)
{
    while (t->from != t->to) {
        struct port_entry *e = &t->entry[t->from % LOCI_PORT_ROOM_MOST];
        int status;

        /* Pairs with the release of loci_slot_done(): what it brought, then that it is done. */
        if (atomic_load_explicit(&e->slot.seq, memory_order_acquire) != 0)
            return;
        status = atomic_load_explicit(&e->slot.status, memory_order_relaxed);
        if (status == LOCO_OK && e->kind != LOCI_WRITE && e->seq > t->placed)
            t->placed = e->seq;
        t->from++;
        ports->under_way--;
        if (e->port != NULL)
            tell(ports, t, e, status);
    }
}

/* Of the ports that use the target, those fail whose writes may be lost. */
static void fail_unplaced(struct loci_ports *ports, const struct port_target *t, int status)
{
    for (int i = 0; i < ports->clients; i++)
        for (uint32_t j = 0; j < ports->shape.ports; j++) {
            struct port *p = &ports->client[i].port[j];

            if (p->target == t && p->wrote > t->placed)
                fail(p, status, true);
        }
}

/* What is posted there meanwhile waits for the lane to be mended. */
static void look_after_lane(struct loci_ports *ports, struct port_target *t)
{
    int status = atomic_load_explicit(&t->lane->failed, memory_order_relaxed);

    if (status == LOCO_OK)
        return;
    fail_unplaced(ports, t, status);
    t->placed = t->seq;
    if (t->from == t->to)
        status = loci_lane_try_mend(t->lane);
    ports->later = ports->later || status == LOCO_ERR_AGAIN || t->from != t->to;
}

/* Writes are finished when the fabric has them: that does not say that none arrives any more. So
 * where somebody waits for that, the agent posts a place of its own behind them. One that is gone
 * has no memory where they could arrive. */
static void place_awaited(struct loci_ports *ports, struct port_target *t)
{
    struct port_entry *e = &t->entry[t->to % LOCI_PORT_ROOM_MOST];
    struct loci_op op = { .kind = LOCI_PLACE, .slot = &e->slot };
    int status = LOCO_ERR_AGAIN;

    if (!t->awaited || t->lost)
        return;
    if (t->to - t->from < ports->room) {
        *e = (struct port_entry){ .slot.lane = t->lane, .seq = t->seq + 1, .kind = LOCI_PLACE };
        atomic_store_explicit(&e->slot.seq, e->seq, memory_order_relaxed);
        status = loci_lane_try(t->lane, &op);
    }
    t->awaited = status == LOCO_ERR_AGAIN;
    ports->later = ports->later || t->awaited;
    if (status == LOCO_ERR_AGAIN)
        return;
    if (status < 0)
        fail_unplaced(ports, t, status);
    t->seq++;
    if (status != LOCO_IN_PROGRESS) {
        t->placed = t->seq;
        return;
    }
    t->to++;
    ports->under_way++;
}

static int open_lane(struct loci_ports *ports, struct port_target *t)
{
    struct loci_thread *self = loci_self(ports->rt);
    int status = LOCO_ERR_NO_MEMORY;

    if (t->lane == NULL && self != NULL)
        t->lane = loci_lane(self, t->peer, &status);
    return t->lane != NULL ? LOCO_OK : status;
}

static void poll_targets(struct loci_ports *ports)
{
    for (struct port_target *t = ports->targets; t != NULL; t = t->next) {
        if (t->early && !t->lost)
            (void)open_lane(ports, t);  /* if it cannot be now, whoever posts hears why */
        t->early = false;
        if (t->lane == NULL)
            continue;
        if (t->from != t->to) {
            loci_lane_poll(t->lane);
            collect(ports, t);
        }
        look_after_lane(ports, t);
        place_awaited(ports, t);
        if (t->lost)
            fail_unplaced(ports, t, LOCO_ERR_PEER_DEAD);
        let_others(ports);
    }
    loci_port_drop_lost(ports);
}

/* ---- posting ---- */

static struct port_entry *fill_entry(struct port_target *t, struct port *p, struct port_grant *g,
                                     struct loci_op *op)
{
    struct port_entry *e = &t->entry[t->to % LOCI_PORT_ROOM_MOST];

    e->slot = (struct loci_slot){ .lane = t->lane };
    e->port = p;
    e->grant = g;
    e->number = p->taken;
    e->seq = t->seq + 1;
    e->kind = op->kind;
    e->value = op->operand;
    atomic_store_explicit(&e->slot.seq, e->seq, memory_order_relaxed);
    op->slot = &e->slot;
    op->result = &e->value;
    if (op->by_value)
        op->local = &e->value;
    return e;
}

/* It is posted: what the port and its target remember of it. */
static void note_posted(struct loci_ports *ports, struct port_entry *e, int status)
{
    struct port_target *t = e->grant->target;

    t->seq++;
    ports->stats.posted++;
    if (e->kind == LOCI_WRITE)
        e->port->wrote = e->grant->wrote = t->seq;
    e->port->taken++;
    if (status == LOCO_IN_PROGRESS) {
        t->to++;
        e->grant->under_way++;
        ports->under_way++;
        return;
    }
    if (e->kind != LOCI_WRITE)
        t->placed = t->seq;
    finish(ports, e->port, e->number, LOCO_OK, e->value);
}

static void bind(struct port *p, struct port_target *t)
{
    if (p->target != t)
        p->wrote = 0;
    p->target = t;
}

/* LOCO_OK: it is posted, or done; LOCO_ERR_AGAIN: there is no room; or why it is refused. */
static int post(struct loci_ports *ports, struct port *p, const struct loci_port_request *r)
{
    struct port_grant *g;
    struct port_entry *e;
    struct loci_op op;
    int status = loci_port_check(ports, p, r, &op, &g);

    if (status != LOCO_OK) {
        ports->stats.refused++;
        loci_stat(ports->rt, LOCI_STAT_PORT + LOCI_STATS_PORT_SERVED_REFUSED, 1);
        return status;
    }
    status = open_lane(ports, g->target);
    if (status != LOCO_OK)
        return status;
    if (g->target->to - g->target->from >= ports->room)
        return LOCO_ERR_AGAIN;
    bind(p, g->target);
    e = fill_entry(g->target, p, g, &op);
    status = loci_lane_try(g->target->lane, &op);
    if (status < 0) {
        ports->stats.failed += status != LOCO_ERR_AGAIN;
        return status;
    }
    note_posted(ports, e, status);
    return LOCO_OK;
}

/* ---- ports ---- */

enum taken { WAITS, POSTED, REFUSED };

static enum taken take_one(struct loci_ports *ports, struct port *p)
{
    struct loci_port_request r;
    int status;

    loci_copy_once(&r, &p->at.request[p->taken & (ports->shape.depth - 1)], sizeof r);
    if (r.epoch != p->epoch) {
        p->failed = LOCO_OK;
        p->lost = false;
        p->epoch = r.epoch;
    }
    status = p->failed != LOCO_OK ? p->failed : post(ports, p, &r);
    if (status == LOCO_ERR_AGAIN)
        return WAITS;
    if (status == LOCO_OK)
        return POSTED;
    fail(p, status, p->target != NULL && p->wrote > p->target->placed
                    && status == LOCO_ERR_PEER_DEAD);
    finish(ports, p, p->taken++, status, 0);
    return REFUSED;
}

/* A refusal ends its port's turn, and the port rests for some turns, twice as many after each: who
 * posts nothing else takes little time of others'. Turns are long only where others are busy. */
static void note_taken(struct port *p, enum taken last)
{
    if (last == POSTED)
        p->refusals = 0;
    if (last != REFUSED)
        return;
    p->rest = p->refusals < 32 ? UINT32_C(1) << p->refusals : REST_MOST;
    p->rest = p->rest < REST_MOST ? p->rest : REST_MOST;
    p->refusals++;
}

/* How many it took. */
static int serve_port(struct loci_ports *ports, struct port *p)
{
    uint64_t posted = loci_load64(&p->at.words->posted);
    enum taken last = POSTED;
    int n = 0;

    if (p->misused)
        return 0;
    if (p->rest > 0 && p->taken != posted) {
        p->rest--;
        ports->later = true;
        return 0;
    }
    if (posted - p->finished > ports->shape.depth) {
        take_away(ports, p, posted);
        return 1;
    }
    while (last == POSTED && p->taken != posted && n < AT_ONCE) {
        last = take_one(ports, p);
        n += last != WAITS;
    }
    if (n > 0)
        note_taken(p, last);
    ports->later = ports->later || p->taken != posted;
    if (n > 0)
        loci_stat(ports->rt, LOCI_STAT_PORT + LOCI_STATS_PORT_SERVED, (uint64_t)n);
    ports->stats.taken += (uint64_t)n;
    return n;
}

static bool is_here(const struct port_client *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire) == PORT_HERE;
}

/* It may leave meanwhile; its place is another one's only when this thread has freed it. */
static int serve_client(struct loci_ports *ports, struct port_client *c)
{
    uint32_t opened = port_opened(ports, c);
    int n = 0;

    for (uint32_t i = 0; i < opened && is_here(c); i++) {
        n += serve_port(ports, &c->port[(i + ports->turn) % opened]);
        let_others(ports);
    }
    atomic_fetch_add_explicit(&port_header(c)->turns, 1, memory_order_relaxed);
    return n;
}

bool loci_port_is_idle(struct loci_ports *ports, struct port_client *c)
{
    bool idle = true;

    for (uint32_t i = 0; i < ports->shape.ports; i++)
        idle = idle && c->port[i].taken == c->port[i].finished;
    for (uint32_t i = 0; i < c->grants; i++)
        idle = loci_port_is_over(&c->grant[i]) && idle;
    return idle;
}

/* Those that have gone are not taken from any more; what is under way of them uses their arenas. */
static int serve_clients(struct loci_ports *ports)
{
    int n = 0;

    for (int i = 0; i < ports->clients; i++) {
        struct port_client *c = &ports->client[(i + (int)ports->turn) % ports->clients];
        int state = atomic_load_explicit(&c->state, memory_order_acquire);

        if (state == PORT_HERE)
            n += serve_client(ports, c);
        if (state != PORT_LEAVING)
            continue;
        if (loci_port_is_idle(ports, c))
            loci_port_free_client(ports, c);
        else
            ports->later = true;
    }
    return n;
}

/* Those who sleep look again. */
static int tell_clients(struct loci_ports *ports)
{
    int told = 0;

    for (int i = 0; i < ports->clients; i++) {
        struct port_client *c = &ports->client[i];

        if (c->news && atomic_load_explicit(&c->state, memory_order_relaxed) == PORT_HERE)
            loci_signal(ports->rt, c->peer, LOCI_BELL_ACK);
        told += c->news;
        c->news = false;
    }
    return told;
}

enum loci_served loci_port_serve(struct loci_ports *ports)
{
    int some;

    pthread_mutex_lock(&ports->lock);
    ports->later = false;
    atomic_store_explicit(&ports->asked, false, memory_order_relaxed);
    poll_targets(ports);
    some = serve_clients(ports);
    some += tell_clients(ports);
    ports->turn = (ports->turn + 1) & 0xffff;
    pthread_mutex_unlock(&ports->lock);
    return some > 0 ? LOCI_SERVED_SOME
           : ports->later || ports->under_way > 0 ? LOCI_SERVED_LATER : LOCI_SERVED_NOTHING;
}

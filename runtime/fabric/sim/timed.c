/* SPDX-License-Identifier: BSD-3-Clause */

/* TIMED: everything happens at its time by the cost model, and in the order of these times.
 *
 * One heap holds what is going to happen: stages of operations, and fibers that can go on. A fiber
 * runs until it blocks; its clock runs ahead of the world's meanwhile, and what it posts happens
 * at the times of its clock. So it may see its own memory older than it is by that time, which a
 * CPU may, too; it never sees what is yet to come. A fiber that waits is in no heap: it is in its
 * process's list of waiters, looked at when something there changes, so that nothing here costs
 * time for each process or lane that has nothing to do.
 *
 * The way of an operation. `posted`: its queue pair, then its device and the wire take it one after
 * the other. `arrived`: the same at the target. A write is then placed, and acknowledged without
 * waiting for that; another operation is executed when the writes before it are placed, and
 * answered. Times of one lane never fall back, so its operations keep their order. */

#include "config.h"

#include <stdlib.h>

#include "world.h"

#define LONG_SILENCE INT64_C(5000)          /* ns */

enum stage { RUN, LOOK, POSTED, TURN, ARRIVED, PLACED, EXECUTED, COMPLETE };

struct event {
    int64_t at;
    uint64_t number;            /* of events at one time, the one that was said first */
    struct sim_fiber *fiber;    /* RUN, LOOK */
    struct sim_lane *lane;
    uint64_t op;                /* by its number: it may have gone with its queue pair; LOOK: which
                                   of the fiber's waits it is for */
    enum stage stage;
};

struct sim_agenda {
    struct event *event;
    size_t count, room;
    uint64_t numbers;
    bool at_event;              /* the time is the world's, not the running fiber's */
    int64_t looked_until;       /* nothing happens before that: all were told to look again */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- the heap ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void add(struct sim_world *w, struct event event)
{
    struct sim_agenda *a = w->agenda;
    size_t i = a->count++;

    if (i == a->room) {
        a->room = a->room * 2 + 64;
        a->event = realloc(a->event, a->room * sizeof a->event[0]);
        if (a->event == NULL)
            abort();
    }
    event.number = a->numbers++;
    while (i > 0 && is_before(&event, &a->event[(i - 1) / 2])) {
        a->event[i] = a->event[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    a->event[i] = event;
}

static struct event take(struct sim_agenda *a)
{
    struct event first = a->event[0], last = a->event[--a->count];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < a->count) {
        if (child + 1 < a->count && is_before(&a->event[child + 1], &a->event[child]))
            child++;
        if (!is_before(&a->event[child], &last))
            break;
        a->event[i] = a->event[child];
        i = child;
    }
    if (a->count > 0)
        a->event[i] = last;
    return first;
}

void loci_sim_timed_open(struct sim_world *w)
{
    w->agenda = calloc(1, sizeof *w->agenda);
    if (w->agenda == NULL)
        abort();
}

void loci_sim_timed_close(struct sim_world *w)
{
    if (w->agenda != NULL)
        free(w->agenda->event);
    free(w->agenda);
}

/* ---- fibers ---- */

int64_t loci_sim_clock(const struct sim_world *w)
{
    if (w->agenda == NULL || w->agenda->at_event || w->current == NULL)
        return w->time;
    return w->current->clock;
}

static bool has_lost_its_core(const struct sim_fiber *f)
{
    const struct loci_sim_config *c = f->world->config;

    return c->stall > 0 && !f->world->quiet && f->thread >= 0
           && loci_sim_random(f->world, 1) % c->stall_one_in == 0;
}

void loci_sim_timed_run(struct sim_fiber *f, int64_t at)
{
    f->clock = later(f->clock, at);
    if (has_lost_its_core(f))
        f->clock += f->world->config->stall;
    add(f->world, (struct event){ .at = f->clock, .fiber = f, .stage = RUN });
}

void loci_sim_timed_block(struct sim_fiber *f)
{
    if (f->state == SIM_DONE)
        return;
    if (f->state == SIM_ASLEEP) {
        loci_sim_timed_run(f, f->wake);
    } else if (loci_sim_fiber_ready(f)
               || (f->state == SIM_IDLE && f->resumed != f->process->version)) {
        /* What its own polling has changed may be what it waits for. */
        loci_sim_timed_run(f, f->clock);
    } else {
        int64_t look_every = f->world->config->look_every;

        f->next_waiter = f->process->waiters;
        f->process->waiters = f;
        f->blocked++;
        if (f->state == SIM_IDLE && look_every != 0)
            add(f->world, (struct event){ .at = f->clock + look_every, .fiber = f,
                                          .op = f->blocked, .stage = LOOK });
    }
}

void loci_sim_timed_order(struct sim_world *w)
{
    if (w->agenda->count > 0 && w->agenda->event[0].at < w->current->clock)
        loci_sim_block(SIM_READY);
}

void loci_sim_timed_poke(struct sim_process *p, int64_t delay)
{
    int64_t now = loci_sim_clock(p->world) + delay;

    for (struct sim_fiber **link = &p->waiters; *link != NULL;) {
        struct sim_fiber *f = *link;

        if (!loci_sim_fiber_ready(f)) {
            link = &f->next_waiter;
            continue;
        }
        *link = f->next_waiter;
        loci_sim_timed_run(f, now);
    }
}

void loci_sim_lane_changed(const struct sim_lane *lane)
{
    struct sim_process *p = lane->from;

    if (p->world->agenda == NULL || !p->world->config->private_lanes || lane->lane == NULL) {
        sim_changed(p);
        return;
    }
    for (struct sim_fiber **link = &p->waiters; *link != NULL; link = &(*link)->next_waiter) {
        struct sim_fiber *f = *link;

        if (f->context != lane->lane->thread || f->state != SIM_IDLE)
            continue;
        *link = f->next_waiter;
        loci_sim_timed_run(f, loci_sim_clock(p->world));
        return;
    }
}

/* ---- operations ---- */

static bool is_atomic(const struct sim_op *p)
{
    return p->op.kind == LOCI_FETCH_ADD || p->op.kind == LOCI_COMPARE_SWAP;
}

/* What it carries to its target, and back. */
static uint64_t payload_out(const struct sim_op *p)
{
    return p->op.kind == LOCI_WRITE ? p->op.len : is_atomic(p) ? 2 * sizeof(uint64_t) : 0;
}

static uint64_t payload_back(const struct sim_op *p)
{
    return p->op.kind == LOCI_READ ? p->op.len : is_atomic(p) ? sizeof(uint64_t) : 0;
}

static int64_t way(const struct sim_lane *lane, const struct loci_sim_cost *c)
{
    return lane->from == lane->to ? c->loopback : c->wire;
}

static void at_stage(struct sim_lane *lane, const struct sim_op *p, enum stage stage, int64_t at)
{
    add(lane->from->world, (struct event){ .at = at, .lane = lane, .op = p->id, .stage = stage });
}

void loci_sim_time_cpu(struct sim_world *w, int64_t ns)
{
    int percent = w->config->cpu_percent;
    struct sim_fiber *f = w->current;

    if (percent == 0) {
        f->clock += ns;
        return;
    }
    f->part += ns * percent;
    f->clock += f->part / 100;
    f->part %= 100;
}

static void send_at(struct sim_lane *lane, const struct sim_op *p, int64_t at)
{
    if (p->op.kind == LOCI_WRITE
        && p->op.len > (size_t)lane->from->world->config->cost->inline_max)
        at += lane->from->world->config->cost->fetch;
    at = later(at, lane->last_posted);
    lane->last_posted = at;
    at_stage(lane, p, POSTED, at);
}

void loci_sim_time_op(struct sim_lane *lane)
{
    const struct loci_sim_cost *c = lane->from->world->config->cost;
    const struct sim_op *p = (struct sim_op *)(void *)((unsigned char *)lane->last
                                                       - offsetof(struct sim_op, next));

    loci_sim_time_cpu(lane->from->world, c->post);
    if (c->ring == 0)
        send_at(lane, p, lane->from->world->current->clock + c->doorbell);
}

/* Those who share a register take turns, by their clocks: so what comes before goes on first. */
static void wait_for_register(struct sim_lane *lane)
{
    struct sim_world *w = lane->from->world;
    struct sim_fiber *here = w->current;

    loci_sim_block(SIM_READY);
    here->clock = later(here->clock, lane->reg->free_at)
                  + loci_sim_cost_ring(w->config->cost, lane->reg->threads);
    lane->reg->free_at = here->clock;
}

void loci_sim_time_ring(struct sim_lane *lane, int made)
{
    struct sim_world *w = lane->from->world;
    const struct loci_sim_cost *c = w->config->cost;
    uint64_t last = w->ops;

    if (c->ring == 0)
        return;
    if (lane->reg != NULL && lane->reg->threads > 1 && !w->quiet)
        wait_for_register(lane);
    else
        loci_sim_time_cpu(w, c->ring);
    for (const struct sim_op *p = lane->first; p != NULL; p = p->next)
        if (p->id > last - (uint64_t)made && p->id <= last)
            send_at(lane, p, w->current->clock + c->doorbell);
}

/* Whole nanoseconds; what is left of one counts the next time. */
static int64_t device_ns(struct sim_process *from, const struct sim_op *p)
{
    int64_t ps = loci_sim_cost_device_ps(from->world->config->cost, p->op.kind == LOCI_WRITE,
                                         from->nic->outstanding) + from->nic->ps;

    from->nic->ps = ps % 1000;
    return ps / 1000;
}

static void posted(struct sim_lane *lane, const struct sim_op *p)
{
    int64_t turn = later(lane->from->world->time, lane->free_at);

    lane->free_at = turn + lane->from->world->config->cost->queue_pair;
    at_stage(lane, p, TURN, turn);
}

/* Its queue pair lets the device have it. The device serves other queue pairs meanwhile. */
static void has_turn(struct sim_lane *lane, struct sim_op *p)
{
    const struct loci_sim_cost *c = lane->from->world->config->cost;
    int64_t begin = later(lane->from->world->time, lane->from->nic->free);

    lane->from->nic->free = begin + later(device_ns(lane->from, p),
                                         loci_sim_cost_wire(c, payload_out(p)));
    if (p->op.kind != LOCI_WRITE)
        p->stage = SIM_SENT;
    at_stage(lane, p, ARRIVED, lane->from->nic->free + way(lane, c));
}

/* Where nobody else sends to it, the receiving port is as fast as the sending one, and costs
 * nothing more. */
static void arrived(struct sim_lane *lane, const struct sim_op *p)
{
    const struct loci_sim_cost *c = lane->from->world->config->cost;
    int64_t now = lane->from->world->time;
    int64_t in = later(now, lane->to->nic->in_free
                            + later(c->device_in, loci_sim_cost_wire(c, payload_out(p))));
    int64_t done = later(in, lane->last_placed);

    lane->to->nic->in_free = in;
    if (p->op.kind == LOCI_WRITE) {
        lane->last_placed = later(lane->last_placed, in + c->place);
        lane->last_done = later(lane->last_done, in + way(lane, c) + c->complete);
        at_stage(lane, p, PLACED, lane->last_placed);
        at_stage(lane, p, COMPLETE, lane->last_done);
        return;
    }
    /* A device has the fetches of several reads under way, and answers them in order. */
    if (is_atomic(p))
        done = lane->to->nic->atomic_free = later(done, lane->to->nic->atomic_free) + c->atomic;
    else if (p->op.kind == LOCI_READ && p->op.len > 0)
        done += c->fetch;
    done = lane->last_executed = later(done, lane->last_executed);
    at_stage(lane, p, EXECUTED, done);
}

static void executed(struct sim_lane *lane, const struct sim_op *p)
{
    const struct loci_sim_cost *c = lane->from->world->config->cost;
    int64_t sent = later(lane->from->world->time, lane->to->nic->free)
                   + loci_sim_cost_wire(c, payload_back(p));

    while (p->stage < SIM_EXECUTED)
        loci_sim_lane_event(lane, SIM_EXECUTE);
    lane->to->nic->free = sent;
    lane->last_done = later(lane->last_done, sent + way(lane, c) + c->complete);
    at_stage(lane, p, COMPLETE, lane->last_done);
}

static struct sim_op *find(const struct sim_lane *lane, uint64_t id)
{
    struct sim_op *p = lane->first;

    while (p != NULL && p->id != id)
        p = p->next;
    return p;
}

static void happen(const struct event *e)
{
    struct sim_op *p = find(e->lane, e->op);

    if (p == NULL || e->lane->to->stopped || e->lane->cut)
        return;
    switch (e->stage) {
    case POSTED: posted(e->lane, p); break;
    case TURN: has_turn(e->lane, p); break;
    case ARRIVED: arrived(e->lane, p); break;
    case EXECUTED: executed(e->lane, p); break;
    case PLACED:
        while (p->left != 0)
            loci_sim_lane_event(e->lane, SIM_PLACE);
        break;
    default:
        /* A write's source may be read until here. */
        loci_sim_lane_event(e->lane, p->op.kind == LOCI_WRITE ? SIM_SEND : SIM_RESPOND);
        break;
    }
}

static void look_once(const struct event *e)
{
    if (e->fiber->state != SIM_IDLE || e->fiber->blocked != e->op)
        return;
    e->fiber->seen = e->fiber->process->version - 1;
    sim_poke(e->fiber->process, 0);
}

/* Who waits for what is not in its network memory (a clock, a place outside) is told by nobody. */
static void look_again(struct sim_world *w)
{
    w->agenda->at_event = true;
    for (int i = 0; i < w->fiber_count; i++)
        if (w->fibers[i]->state == SIM_IDLE) {
            w->fibers[i]->seen = w->fibers[i]->process->version - 1;
            sim_poke(w->fibers[i]->process, 0);
        }
    w->agenda->at_event = false;
}

struct sim_fiber *loci_sim_timed_next(struct sim_world *w)
{
    struct sim_agenda *a = w->agenda;

    while (a->count > 0) {
        struct event e = take(a);

        if (e.stage == RUN && (e.fiber->process->stopped || e.fiber->state == SIM_DONE))
            continue;
        if (e.at - w->time >= LONG_SILENCE && e.at > a->looked_until) {
            a->looked_until = e.at;
            add(w, e);
            look_again(w);
            continue;
        }
        w->time = later(w->time, e.at);
        if (e.stage == RUN) {
            e.fiber->clock = w->time;
            return e.fiber;
        }
        a->at_event = true;
        if (e.stage == LOOK) {
            look_once(&e);
            a->at_event = false;
            continue;
        }
        w->steps++;
        happen(&e);
        a->at_event = false;
    }
    return NULL;
}

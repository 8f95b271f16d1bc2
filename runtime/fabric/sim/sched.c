/* SPDX-License-Identifier: BSD-3-Clause */

/* The scheduler: who runs next, and when the network moves.
 *
 * There is no fiber of its own: whoever gives way chooses the next actor (a fiber that can run, or
 * what a lane could do), carries out what the network does, and switches. A fiber that has polled
 * in vain is no actor until something in its process changes (its version), so that waiting costs
 * no steps; when nobody can do anything, virtual time moves on and all look again; when that does
 * not help for a long time either, the run is stuck.
 *
 * Every choice is a number below the count of actors, in a list whose first entry is "go on as you
 * are". The choices of a run, as a list, are its schedule: a failure is shrunk by setting numbers
 * to 0. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define STEP_LIMIT 1000000
#define FIRST_JUMP INT64_C(1000)            /* ns, four times as much each time... */
#define LONGEST_JUMP INT64_C(1000000000)    /* ...up to this */
#define BARREN_MOST 600                     /* jumps without effect: stuck */
#define LONGEST_SLICE 3000                  /* steps in a row, by PRIORITY */
#define LONG_RUN 65536                      /* choices, by PRIORITY, after which */
#define ANYBODY 16                          /* one in so many is by chance alone */

enum { FIBER = 0, LANE = 1 };

_Thread_local struct sim_world *loci_sim_world;

uint64_t loci_sim_random(struct sim_world *w, int stream)
{
    uint64_t z = (w->random[stream] += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(struct sim_world *w, uint32_t n)
{
    return (uint32_t)(loci_sim_random(w, 0) % n);
}

/* ---- decisions ---- */

static void remember(struct sim_world *w, uint32_t decision)
{
    if (w->decision_count == w->decision_room) {
        w->decision_room = w->decision_room * 2 + 256;
        w->decisions = realloc(w->decisions, w->decision_room * sizeof w->decisions[0]);
        if (w->decisions == NULL)
            abort();
    }
    w->decisions[w->decision_count++] = decision;
}

uint32_t loci_sim_choose(struct sim_world *w, uint32_t n, uint32_t from_seed)
{
    const struct loci_sim_config *c = w->config;
    uint32_t decision = from_seed;

    if (c->follow) {
        decision = w->decision_next < c->decision_count ? c->decisions[w->decision_next] : 0;
        w->decision_next++;
    }
    decision %= n;
    remember(w, decision);
    return decision;
}

/* How many steps until the next choice; 0: until this fiber must give way. */
static void choose_run(struct sim_world *w)
{
    uint32_t run;

    if (w->strategy == LOCI_SIM_TIMED) {
        w->run_left = 0;
        return;
    }
    run = 1 + below(w, (uint32_t)(2 * w->run_mean));
    w->run_left = loci_sim_choose(w, UINT32_MAX, run);
}

/* ---- actors ---- */

bool loci_sim_fiber_ready(const struct sim_fiber *f)
{
    switch (f->state) {
    case SIM_READY: return true;
    case SIM_IDLE: return f->seen != f->process->version;
    case SIM_MUTEX: return f->mutex->locked == 0;
    case SIM_COND: return f->cond->told != f->told;
    case SIM_JOIN: return f->unjoined == 0;
    case SIM_FUTEX: return f->woken || f->wake <= f->world->time;
    case SIM_MAIL: return f->process->letters != NULL || f->process->closing;
    default: return false;
    }
}

static bool is_actor(const struct sim_world *w, const struct sim_fiber *f, bool poll_again)
{
    if (f->process->stopped)
        return false;
    if (f->state == SIM_ASLEEP)
        return f->wake <= w->time;
    return loci_sim_fiber_ready(f) || (poll_again && f->state == SIM_IDLE);
}

static bool is_slow(struct sim_world *w, int process, int slow)
{
    return process == slow && below(w, 16) != 0;
}

static bool may_move(struct sim_world *w, const struct sim_lane *lane)
{
    return lane->can != 0 && !lane->cut && !lane->to->stopped && !lane->to->left
           && (w->held == NULL || !w->held(w->held_arg, lane->from->rank, lane->to->rank));
}

/* Fibers, from the current one on, then lanes. */
static uint32_t collect(struct sim_world *w, uint32_t *fibers)
{
    const struct loci_sim_faults *faults = &w->config->faults;
    bool poll_again = !w->quiet && loci_sim_random(w, 1) % 16 == 0;
    int first = w->current != NULL ? w->current->index : 0;
    uint32_t n = 0;

    for (int i = 0; i < w->fiber_count; i++) {
        int at = (first + i) % w->fiber_count;
        struct sim_fiber *f = w->fibers[at];

        if (is_actor(w, f, poll_again)
            && (faults->slow_process < 0 || !is_slow(w, f->process->rank, faults->slow_process)))
            w->actors[n++] = FIBER << 24 | (uint32_t)at;
    }
    *fibers = n;
    for (int i = 0; i < w->lane_count; i++) {
        struct sim_lane *lane = w->lanes[i];

        if (may_move(w, lane)
            && (faults->slow_link < 0 || !is_slow(w, lane->to->rank, faults->slow_link)))
            w->actors[n++] = LANE << 24 | (uint32_t)i;
    }
    return n;
}

static uint32_t priority_of(struct sim_world *w, uint32_t actor)
{
    uint32_t at = actor & 0xffffff;

    return actor >> 24 == FIBER ? w->fibers[at]->priority : w->lanes[at]->priority;
}

static void set_priority(struct sim_world *w, uint32_t actor, uint32_t priority)
{
    uint32_t at = actor & 0xffffff;

    if (actor >> 24 == FIBER)
        w->fibers[at]->priority = priority;
    else
        w->lanes[at]->priority = priority;
}

/* The first in priority, which now and then (and after a long time) becomes one of the last. Among
 * these the lowest might be left out for ever, while a few that poll take turns before it: no
 * network, and no operating system, does that. So in a long run now and then anybody is chosen. */
static uint32_t by_priority(struct sim_world *w, uint32_t n)
{
    uint32_t best = 0;

    if (w->choices > LONG_RUN && w->choices % ANYBODY == 0)
        return below(w, n);
    for (uint32_t i = 1; i < n; i++)
        if (priority_of(w, w->actors[i]) > priority_of(w, w->actors[best]))
            best = i;
    if (below(w, 48) == 0 || (w->actors[best] >> 24 == FIBER
        && w->fibers[w->actors[best] & 0xffffff]->slice > LONGEST_SLICE)) {
        if (w->actors[best] >> 24 == FIBER)
            w->fibers[w->actors[best] & 0xffffff]->slice = 0;
        set_priority(w, w->actors[best], below(w, 1000));
    }
    return best;
}

static uint32_t draw_actor(struct sim_world *w, uint32_t n, uint32_t fibers)
{
    uint32_t lanes = n - fibers;

    switch (w->strategy) {
    case LOCI_SIM_PRIORITY:
        return by_priority(w, n);
    case LOCI_SIM_LAZY:
        if (fibers > 0 && (lanes == 0 || below(w, 12) != 0))
            return below(w, fibers);
        break;
    case LOCI_SIM_EAGER:
        if (lanes > 0 && below(w, 8) != 0)
            return fibers + below(w, lanes);
        break;
    default:
        break;
    }
    return below(w, n);
}

/* Which of the things that a lane can do; LAZY does what others see last. */
static unsigned draw_event(struct sim_world *w, const struct sim_lane *lane)
{
    unsigned options[4], n = 0, all = lane->can;

    if (w->strategy == LOCI_SIM_LAZY && (all & (SIM_SEND | SIM_RESPOND)) != 0
        && below(w, 16) != 0)
        all &= SIM_SEND | SIM_RESPOND;
    for (unsigned bit = 1; bit <= SIM_RESPOND; bit <<= 1)
        if ((all & bit) != 0)
            options[n++] = bit;
    return options[loci_sim_choose(w, n, below(w, n))];
}

/* ---- time ---- */

/* Nobody can do anything: false if they never will. */
static bool move_time(struct sim_world *w)
{
    int64_t jump = FIRST_JUMP, first = INT64_MAX;

    for (int i = 0; i < w->fiber_count; i++)
        if ((w->fibers[i]->state == SIM_ASLEEP || w->fibers[i]->state == SIM_FUTEX)
            && !w->fibers[i]->process->stopped
            && w->fibers[i]->wake < first)
            first = w->fibers[i]->wake;
    for (int i = 0; i < w->barren && jump < LONGEST_JUMP; i++)
        jump *= 4;
    jump = jump < LONGEST_JUMP ? jump : LONGEST_JUMP;
    if (first != INT64_MAX && first <= w->time + jump) {
        w->time = first;
        return true;
    }
    if (w->without_effect++ == BARREN_MOST)
        return false;
    w->barren++;
    w->time += jump;
    for (int i = 0; i < w->fiber_count; i++)
        if (w->fibers[i]->state == SIM_IDLE) {
            w->fibers[i]->seen = w->fibers[i]->process->version - 1;
            sim_poke(w->fibers[i]->process, 0);
        }
    return true;
}

/* ---- the choice ---- */

static void go_to(struct sim_world *w, struct sim_fiber *f)
{
    struct sim_fiber *here = w->current;

    f->state = SIM_READY;
    if (f == here)
        return;
    w->hash = (w->hash ^ (uint64_t)(f->index + 1)) * UINT64_C(0x100000001b3);
    w->current = f;
    loci_fiber_switch(&here->fiber, &f->fiber, here->state == SIM_DONE);
}

static void one_event(struct sim_world *w, struct sim_lane *lane)
{
    unsigned what = draw_event(w, lane);

    w->hash = (w->hash ^ (uint64_t)lane->index << 8 ^ what << 4) * UINT64_C(0x100000001b3);
    w->steps++;
    loci_sim_lane_event(lane, what);
}

static void leave_for_good(struct sim_world *w)
{
    struct sim_fiber *here = w->current;

    w->current = NULL;
    loci_fiber_switch(&here->fiber, &w->os, true);
    abort();
}

void loci_sim_end(enum loci_sim_verdict verdict)
{
    struct sim_world *w = loci_sim_world;

    w->over = true;
    w->result->verdict = verdict;
    if (verdict == LOCI_SIM_STUCK || verdict == LOCI_SIM_ENDLESS)
        loci_sim_stuck_text(w);
    leave_for_good(w);
    abort();
}

static void look_at_limit(struct sim_world *w)
{
    uint64_t limit = w->config->step_limit != 0 ? w->config->step_limit : STEP_LIMIT;

    if (w->steps > limit)
        loci_sim_end(LOCI_SIM_ENDLESS);
}

/* TIMED: the event or fiber that is first in time. */
static void run_first_in_time(struct sim_world *w)
{
    struct sim_fiber *next;

    if (w->current->state == SIM_READY)
        loci_sim_timed_run(w->current, w->current->clock);
    else
        loci_sim_timed_block(w->current);
    look_at_limit(w);
    while ((next = loci_sim_timed_next(w)) == NULL)
        if (!move_time(w))
            loci_sim_end(LOCI_SIM_STUCK);
    go_to(w, next);
    w->current->resumed = w->current->process->version;
}

/* A slow process that reads for long changes nothing that others see, and while it is left out time
 * is moved on for them. It goes on all the same, if it is not waiting. */
static void note_slow(struct sim_world *w, const struct sim_fiber *f)
{
    if (f->state == SIM_READY && f->process->rank == w->config->faults.slow_process)
        w->without_effect = 0;
}

/* The current fiber gives way, for good where its state says so. */
static void give_way(struct sim_world *w)
{
    if (w->strategy == LOCI_SIM_TIMED) {
        run_first_in_time(w);
        return;
    }
    for (;;) {
        uint32_t fibers, n = collect(w, &fibers), actor;

        look_at_limit(w);
        if (n == 0) {
            /* The slow ones were left out: ask again. */
            if (w->config->faults.slow_process >= 0 || w->config->faults.slow_link >= 0) {
                if (below(w, 64) != 0)
                    continue;
            }
            if (!move_time(w))
                loci_sim_end(LOCI_SIM_STUCK);
            continue;
        }
        w->choices++;
        w->time += (int64_t)(loci_sim_random(w, 1) & w->time_mask);
        actor = w->actors[w->quiet ? 0 : loci_sim_choose(w, n, draw_actor(w, n, fibers))];
        if (actor >> 24 == LANE) {
            one_event(w, w->lanes[actor & 0xffffff]);
            continue;
        }
        choose_run(w);
        note_slow(w, w->fibers[actor & 0xffffff]);
        go_to(w, w->fibers[actor & 0xffffff]);
        return;
    }
}

void loci_sim_block(enum sim_state state)
{
    struct sim_world *w = loci_sim_world;
    struct sim_fiber *f = w->current;

    loci_sim_drain(f);                  /* nothing stays in a store buffer for long */
    f->state = state;
    f->slice = 0;
    if (state == SIM_IDLE)
        f->seen = f->process->version;
    give_way(w);
}

/* ---- steps ---- */

void loci_sim_step(enum loci_sim_access kind, const void *at, size_t len)
{
    struct sim_world *w = loci_sim_world;
    struct sim_fiber *f;

    if (w == NULL || w->quiet || w->over)
        return;
    f = w->current;
    w->steps++;
    f->slice++;
    f->process->steps++;
    if (f->process->rank == w->config->faults.stop_process
        && f->process->steps == w->config->faults.stop_step) {
        loci_sim_stop(f->process);
        give_way(w);
    }
    if (w->strategy == LOCI_SIM_TIMED)
        loci_sim_time_cpu(w, w->config->cost->step);
    if (kind != LOCI_SIM_LOAD && w->config->machines && loci_sim_is_shared(w, at))
        loci_sim_timed_order(w);
    if (sim_traced(w))
        loci_sim_trace_access(w, kind, at, len);
    if (w->run_left != 0 && --w->run_left == 0)
        give_way(w);
    else if (w->steps % 1024 == 0)
        look_at_limit(w);
    if (kind != LOCI_SIM_LOAD)
        loci_sim_drain(f);
    loci_sim_look_at_access(w, kind, at, len);
}

void loci_sim_changed(const void *at)
{
    struct sim_world *w = loci_sim_world;

    if (w == NULL || w->over || w->current == NULL)
        return;
    if (w->config->machines && !loci_sim_is_shared(w, at))
        sim_changed(w->current->process);
    else
        loci_sim_memory_changed(w->current->process);
}

void loci_sim_memory_changed(const struct sim_process *p)
{
    struct sim_world *w = p->world;

    if (!w->config->one_node && !w->config->owner_atomics) {
        sim_changed(&w->process[p->rank]);
        return;
    }
    for (int i = 0; i < w->count; i++)
        if (sim_is_near(p, &w->process[i]))
            sim_changed(&w->process[i]);
}

/* ---- mutexes and conditions ---- */

void loci_sim_mutex_lock(struct loci_sim_mutex *mutex)
{
    struct sim_world *w = loci_sim_world;

    loci_sim_step(LOCI_SIM_RMW, mutex, sizeof *mutex);
    while (mutex->locked != 0 && w != NULL && !w->over) {
        w->current->mutex = mutex;
        loci_sim_block(SIM_MUTEX);
    }
    mutex->locked = 1;
}

int loci_sim_mutex_trylock(struct loci_sim_mutex *mutex)
{
    loci_sim_step(LOCI_SIM_RMW, mutex, sizeof *mutex);
    if (mutex->locked != 0)
        return EBUSY;
    mutex->locked = 1;
    return 0;
}

void loci_sim_mutex_unlock(struct loci_sim_mutex *mutex)
{
    mutex->locked = 0;
    if (loci_sim_world != NULL && loci_sim_world->current != NULL)
        sim_poke(loci_sim_world->current->process, 0);
    loci_sim_step(LOCI_SIM_STORE, mutex, sizeof *mutex);
}

void loci_sim_cond_wait(struct loci_sim_cond *cond, struct loci_sim_mutex *mutex)
{
    struct sim_world *w = loci_sim_world;

    mutex->locked = 0;
    sim_poke(w->current->process, 0);
    w->current->cond = cond;
    w->current->told = cond->told;
    loci_sim_block(SIM_COND);
    loci_sim_mutex_lock(mutex);
}

void loci_sim_cond_broadcast(struct loci_sim_cond *cond)
{
    cond->told++;
    if (loci_sim_world != NULL && loci_sim_world->current != NULL)
        sim_poke(loci_sim_world->current->process, 0);
}

/* ---- life of fibers ---- */

struct sim_fiber *loci_sim_start(struct sim_process *p, int thread, void (*fn)(void *arg))
{
    struct sim_world *w = p->world;
    struct sim_fiber *f = calloc(1, sizeof *f);

    if (w->fiber_count == w->fiber_room) {
        w->fiber_room = w->fiber_room * 2 + 16;
        w->fibers = realloc(w->fibers, (size_t)w->fiber_room * sizeof w->fibers[0]);
    }
    if (f == NULL || w->fibers == NULL || !loci_fiber_make(&f->fiber, fn, f))
        abort();
    f->world = w;
    f->process = p;
    f->thread = thread;
    f->index = w->fiber_count;
    f->priority = 1000 + (uint32_t)(loci_sim_random(w, 1) % 1000000);
    w->fibers[w->fiber_count++] = f;
    if (w->agenda != NULL)
        loci_sim_timed_run(f, loci_sim_clock(w));
    w->actors = realloc(w->actors, (size_t)(w->fiber_count + w->lane_room)
                                   * sizeof w->actors[0]);
    if (w->actors == NULL)
        abort();
    return f;
}

/* From the OS thread: until the run is over. */
void loci_sim_run_fibers(struct sim_world *w)
{
    w->current = w->agenda != NULL ? loci_sim_timed_next(w) : w->fibers[0];
    loci_fiber_switch(&w->os, &w->current->fiber, false);
}

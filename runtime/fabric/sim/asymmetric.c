/* SPDX-License-Identifier: BSD-3-Clause */

/* Asymmetric fences where memory is simulated. Every other access is sequentially consistent
 * (hooks.h); loci_store_light() is not, as on a CPU with a store buffer: what it stores may stay
 * with its fiber, unseen, past later loads and light stores, which are seen in their order. It is
 * seen by all from the fiber's next other store or atomic on, when it waits, or once another fiber
 * makes all registered processes of the node fence. */

#include "config.h"

#include "move/asymmetric.h"
#include "world.h"

static uint32_t draw(struct sim_world *w, uint32_t n)
{
    return w->quiet || w->over ? 0
           : loci_sim_choose(w, n, (uint32_t)(loci_sim_random(w, 0) % n));
}

/* A process may be refused, and it takes a while to register. */
enum loci_asymmetric loci_asymmetric_state(struct loco_runtime *rt)
{
    struct sim_process *p = rt->host.ctx;
    int state = p->asymmetric;

    if (state == LOCI_ASYMMETRIC_UNTRIED)
        state = draw(p->world, 8) == 7 ? LOCI_ASYMMETRIC_REFUSED : LOCI_ASYMMETRIC_TRYING;
    if (state == LOCI_ASYMMETRIC_TRYING && draw(p->world, 3) < 2)
        state = LOCI_ASYMMETRIC_READY;
    p->asymmetric = state;
    atomic_store_explicit(&rt->asymmetric, state, memory_order_release);
    return (enum loci_asymmetric)state;
}

void loci_asymmetric_close(struct loco_runtime *rt)
{
    (void)rt;
}

/* ---- the store buffer ---- */

void loci_sim_drain(struct sim_fiber *f)
{
    bool changed = false;

    for (int i = 0; i < f->late_count; i++)
        changed = SIM_EXCHANGE(f->late[i].word, f->late[i].value, __ATOMIC_SEQ_CST)
                  != f->late[i].value || changed;
    f->late_count = 0;
    if (changed)
        loci_sim_memory_changed(f->process);
}

void loci_store_light(_Atomic uint64_t *word, uint64_t value)
{
    struct sim_world *w = loci_sim_world;
    struct sim_fiber *f;

    if (w == NULL || w->strategy == LOCI_SIM_TIMED || draw(w, 2) == 0
        || w->current->late_count == SIM_LATE_MAX) {
        atomic_store_explicit(word, value, memory_order_relaxed);
        return;
    }
    f = w->current;
    if (f->late_count == 0)
        loci_sim_step(LOCI_SIM_STORE, word, sizeof *word);
    f->late[f->late_count++] = (struct sim_late){ word, value };
}

bool loci_fence_heavy(struct loco_runtime *rt)
{
    struct sim_process *p = rt->host.ctx;
    struct sim_world *w = p->world;

    if (p->asymmetric == LOCI_ASYMMETRIC_REFUSED)
        return false;
    loci_sim_step(LOCI_SIM_RMW, p, 0);
    for (int i = 0; i < w->fiber_count; i++)
        if (w->fibers[i]->process->asymmetric == LOCI_ASYMMETRIC_READY
            && sim_is_near(p, w->fibers[i]->process))
            loci_sim_drain(w->fibers[i]);
    return true;
}

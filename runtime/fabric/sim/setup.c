/* SPDX-License-Identifier: BSD-3-Clause */

/* TIMED: what has to be done before operations can be, where config.setup says what it costs
 * (cost.h). A device makes contexts and queue pairs one after the other, in the order in which they
 * are asked for; who asks gives way first, so that this is the order of time. */

#include "config.h"

#include "world.h"

/* Nothing while runtimes open and close: that is before and after what is looked at. */
static const struct loci_sim_setup *setup(const struct sim_world *w)
{
    return w->strategy == LOCI_SIM_TIMED && !w->quiet ? w->config->setup : NULL;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void sleep_until(struct sim_world *w, int64_t at)
{
    int64_t now = loci_sim_clock(w);

    if (at > now)
        loci_sim_sleep(at - now);
}

/* When the device has done it. */
static int64_t turn(struct sim_nic *nic, int64_t now, int64_t ns)
{
    nic->makes_free = later(nic->makes_free, now) + ns;
    return nic->makes_free;
}

static void open_context(struct sim_process *p, const struct loci_sim_setup *s)
{
    struct sim_world *w = p->world;

    loci_sim_block(SIM_READY);
    if (p->context_at == 0)
        p->context_at = turn(p->nic, loci_sim_clock(w), s->context_device) + s->context
                        - s->context_device;
    sleep_until(w, p->context_at);
}

/* Each end begins when it has heard of the other; alone, all of it takes `pair`. */
void loci_sim_time_pair(struct sim_process *from, struct sim_process *to)
{
    struct sim_world *w = from->world;
    const struct loci_sim_setup *s = setup(w);
    int64_t half, here, there;

    if (s == NULL)
        return;
    half = s->handshake / 2;
    open_context(from, s);
    here = turn(from->nic, loci_sim_clock(w), s->pair_device);
    sleep_until(w, loci_sim_clock(w) + half);
    there = turn(to->nic, loci_sim_clock(w), s->pair_device);
    sleep_until(w, later(here, there + half) + s->pair - s->pair_device - 2 * half);
}

void loci_sim_time_memory(struct sim_process *p, size_t len)
{
    const struct loci_sim_setup *s = setup(p->world);

    if (s == NULL)
        return;
    if (p->context_at == 0)
        open_context(p, s);             /* which the first memory is part of */
    else
        loci_sim_time_cpu(p->world, s->memory + (int64_t)len * s->memory_ps / 1000);
}

void loci_sim_time_call(struct sim_world *w)
{
    const struct loci_sim_setup *s = setup(w);

    if (s != NULL)
        loci_sim_time_cpu(w, s->call);
}

int64_t loci_sim_time_arrival(const struct sim_world *w)
{
    return setup(w) != NULL ? loci_sim_clock(w) + w->config->cost->message : 0;
}

void loci_sim_time_letter(struct sim_world *w, int64_t arrival)
{
    const struct loci_sim_setup *s = setup(w);

    if (s == NULL)
        return;
    sleep_until(w, arrival);
    loci_sim_time_cpu(w, s->handle);
}

int64_t loci_sim_time_wake(struct sim_world *w)
{
    const struct loci_sim_setup *s = setup(w);

    if (s == NULL)
        return 0;
    loci_sim_time_cpu(w, s->call);
    return s->wake;
}

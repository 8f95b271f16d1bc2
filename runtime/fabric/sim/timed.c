/* SPDX-License-Identifier: BSD-3-Clause */

/* TIMED: when an operation passes its stages, by the cost model. */

#include "config.h"

#include "world.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void loci_sim_time_op(struct sim_lane *lane)
{
    struct sim_world *w = lane->from->world;
    const struct loci_sim_cost *c = w->config->cost;
    struct sim_op *p = (struct sim_op *)(void *)((unsigned char *)lane->last
                                                 - offsetof(struct sim_op, next));
    bool atomic = p->op.kind == LOCI_FETCH_ADD || p->op.kind == LOCI_COMPARE_SWAP;
    int64_t bytes = (int64_t)(c->byte * (double)p->op.len), arrived;

    w->current->clock += c->post;
    lane->from->nic_free = later(lane->from->nic_free, w->current->clock) + c->device
                           + (p->op.kind == LOCI_WRITE ? bytes : 0);
    arrived = lane->from->nic_free + c->wire;
    lane->to->nic_in_free = later(lane->to->nic_in_free, arrived) + c->device_in
                            + (atomic ? c->device_atomic : 0)
                            + (p->op.kind == LOCI_READ ? bytes : 0);
    p->placed_at = later(lane->last_placed, lane->to->nic_in_free + c->place);
    lane->last_placed = p->placed_at;
    p->sent_at = lane->from->nic_free;
    p->done_at = later(lane->last_done, (p->op.kind == LOCI_WRITE ? lane->to->nic_in_free
                                                                  : p->placed_at)
                                        + c->wire + c->complete);
    lane->last_done = p->done_at;
}

/* The next stage of a lane, and when. */
static int64_t next_of(const struct sim_lane *lane, unsigned *what)
{
    int64_t first = INT64_MAX;

    for (const struct sim_op *p = lane->first; p != NULL; p = p->next) {
        int64_t at = INT64_MAX;
        unsigned event = 0;

        if (p->op.kind == LOCI_WRITE) {
            if (p->stage == SIM_POSTED) {
                at = p->sent_at;
                event = SIM_SEND;
            } else if (p->left != 0) {
                at = p->placed_at;
                event = SIM_PLACE;
            }
        } else if (p->stage == SIM_POSTED) {
            at = p->sent_at;
            event = SIM_SEND;
        } else if (p->stage < SIM_EXECUTED) {
            at = p->placed_at;
            event = SIM_EXECUTE;
        } else if (p->stage == SIM_EXECUTED) {
            at = p->done_at;
            event = SIM_RESPOND;
        }
        if (at < first && (lane->can & event) != 0) {
            first = at;
            *what = event;
        }
    }
    return first;
}

int64_t loci_sim_next_event(struct sim_world *w, struct sim_lane **lane)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < w->lane_count; i++) {
        unsigned what;
        int64_t at = w->lanes[i]->can != 0 ? next_of(w->lanes[i], &what) : INT64_MAX;

        if (at < first) {
            first = at;
            *lane = w->lanes[i];
        }
    }
    return first;
}

void loci_sim_timed_event(struct sim_lane *lane)
{
    unsigned what = 0;

    if (next_of(lane, &what) != INT64_MAX)
        loci_sim_lane_event(lane, what);
}

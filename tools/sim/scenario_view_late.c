/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: processes that come late, and who admits them. See scenario_view.c. */

#include "config.h"

#include "scenario_view.h"

#define ROUNDS 20000
#define ROUND_NS INT64_C(100000)
#define READY_NS INT64_C(500000000)

static bool is_gone(const struct vw_views *s, int rank)
{
    return loci_sim_is_stopped(rank) || s->left[rank] || s->ended[rank];
}

/* Somebody is there, or will be, who can admit others. */
static bool is_any_member(const struct vw_late *late, const struct vw_views *s,
                          const struct sim_run *run)
{
    for (int rank = 0; rank < run->processes; rank++)
        if (!is_gone(s, rank) && (rank < late->founders || late->ticket_bytes[rank] != 0))
            return true;
    return false;
}

int vw_come(struct vw_late *late, const struct vw_views *s, const struct sim_run *run, int rank,
            loco_runtime_t **rt)
{
    size_t bytes = LOCO_ADDRESS_MAX;
    int status = loci_sim_again(rt);

    if (status == LOCO_OK)
        status = loco_runtime_address(*rt, late->address[rank], &bytes);
    if (status != LOCO_OK)
        return loci_sim_fail("p%d comes: %s", rank, loco_strerror(status));
    late->address_bytes[rank] = bytes;
    for (int i = 0; i < ROUNDS && late->ticket_bytes[rank] == 0; i++) {
        if (!is_any_member(late, s, run))
            return SIM_TOLD;
        loci_sim_sleep(ROUND_NS);
    }
    return late->ticket_bytes[rank] != 0 ? SIM_FINE : SIM_TOLD;
}

static bool can_be_reached(const struct vw_late *late, const struct vw_views *s,
                           const struct sim_run *run, int rank)
{
    for (int other = 0; other < run->processes; other++)
        if (other != rank
            && (vw_goes_on(s, other) || (other < late->founders && vw_is_there(s, other))))
            return true;
    return false;
}

int vw_wait_ready(const struct vw_late *late, const struct vw_views *s, const struct sim_run *run,
                  int rank, loco_runtime_t *rt)
{
    int status = LOCO_ERR_TIMEOUT;

    for (int i = 0; i < ROUNDS && status == LOCO_ERR_TIMEOUT; i++) {
        bool last = !can_be_reached(late, s, run, rank);

        status = loco_runtime_wait_ready(rt, READY_NS);
        if (last && status == LOCO_ERR_TIMEOUT)
            return status;
    }
    return status == LOCO_ERR_TIMEOUT ? loci_sim_fail("p%d: never ready", rank) : status;
}

/* The next one to be admitted; `processes`: none, nor will be. */
static int next_late(const struct vw_late *late, const struct sim_run *run)
{
    int rank = late->founders;

    while (rank < run->processes && late->ticket_bytes[rank] != 0)
        rank++;
    /* Who has died before it had an address gets no rank, so those behind it would get others. */
    return rank < run->processes && late->address_bytes[rank] == 0 && loci_sim_is_stopped(rank)
           ? run->processes : rank;
}

static int admit_one(struct vw_late *late, int who, loco_view_t *view)
{
    static _Alignas(8) unsigned char ticket[LOCO_VIEW_TICKET_MAX];
    size_t bytes = sizeof ticket;
    int status = loco_view_admit(view, late->address[who], late->address_bytes[who], ticket,
                                 &bytes, ROUND_NS);

    /* Nobody else runs between this and the call's end. */
    if (status == LOCO_OK && late->ticket_bytes[who] == 0) {
        memcpy(late->ticket[who], ticket, bytes);
        late->ticket_bytes[who] = bytes;
    }
    return status;
}

int vw_admit(struct vw_late *late, const struct vw_views *s, const struct sim_run *run, int rank,
             loco_view_t *view)
{
    for (int i = 0; i < ROUNDS && !is_gone(s, rank); i++) {
        int who = next_late(late, run), status = LOCO_OK;

        if (who == run->processes)
            return LOCO_OK;
        if (late->address_bytes[who] != 0 && loci_sim_draw(2) == 0)
            status = admit_one(late, who, view);
        else
            loci_sim_sleep((int64_t)loci_sim_draw(1u << loci_sim_draw(18)));
        if (status != LOCO_OK && status != LOCO_ERR_TIMEOUT)
            return status;
    }
    return LOCO_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The observer of views. See scenario_view.h. */

#include "config.h"

#include "scenario_view.h"

static int count_of(uint64_t set)
{
    return __builtin_popcountll(set);
}

/* No message of a thread is left out, nor comes twice: also not of one who stopped. */
static int check_next(const struct mc_group *g, int rank, const loco_delivery_t *message)
{
    uint64_t word = *(const uint64_t *)message->data;
    int thread = (int)(word >> 32 & 0xffff), i = (int)(word >> 16 & 0xffff);

    WANT(thread < MC_THREADS && g->next[message->sender][thread] == i,
         "p%d is given message %d of thread %d of p%d, and %d is next", rank, i, thread,
         message->sender, g->next[message->sender][thread]);
    return SIM_FINE;
}

int vw_note(struct vw_group *p, const struct vw_views *s, int rank, const loco_delivery_t *message,
            uint64_t view, bool handled)
{
    int at = p->g.count[rank][0];

    WANT(message->bytes > 0, "p%d is given an empty message", rank);
    WANT(view <= s->number[rank] && (!handled || view == s->number[rank]),
         "p%d, in view %llu, is given a message of view %llu", rank,
         (unsigned long long)s->number[rank], (unsigned long long)view);
    if (at == p->g.logged[0]) {
        PASS(check_next(&p->g, rank, message));
        WANT(at == 0 || view >= p->view_of[at - 1], "p%d is given a message of view %llu after one "
             "of view %llu", rank, (unsigned long long)view,
             (unsigned long long)p->view_of[at - 1]);
        p->view_of[at] = view;
    }
    PASS(mc_note(&p->g, rank, message));
    WANT(p->view_of[at] == view, "its %d. message p%d is given in view %llu, others in %llu", at,
         rank, (unsigned long long)view, (unsigned long long)p->view_of[at]);
    return SIM_FINE;
}

/* ---- state ---- */

void vw_save(struct vw_state *state, const struct vw_group *groups, int ngroups, int rank)
{
    size_t n = 0;

    for (int k = 0; k < ngroups; k++) {
        int count = groups[k].g.count[rank][0];

        state->words[n++] = (uint64_t)count;
        for (int i = 0; i < count; i++)
            state->words[n++] = groups[k].g.log[0][i].word;
    }
    state->bytes = 8 * n;
}

int vw_load(const struct vw_state *state, struct vw_group *groups, int ngroups, int rank)
{
    size_t n = 0;

    for (int k = 0; k < ngroups; k++) {
        struct mc_group *g = &groups[k].g;
        int count = (int)state->words[n++];

        WANT(8 * n <= state->bytes && count >= g->count[rank][0] && count <= g->logged[0],
             "p%d is given the state after %d messages, was given %d, and there are %d", rank,
             count, g->count[rank][0], g->logged[0]);
        for (int i = 0; i < count; i++, n++) {
            WANT(8 * n < state->bytes && state->words[n] == g->log[0][i].word,
                 "p%d is given a state whose %d. message is another", rank, i);
            if (i >= g->count[rank][0])
                g->from[rank][g->log[0][i].sender]++;
        }
        g->delivered[rank] += count - g->count[rank][0];
        g->count[rank][0] = count;
    }
    WANT(8 * n == state->bytes, "p%d is given a state of %zu bytes, of which %zu are used", rank,
         state->bytes, 8 * n);
    return SIM_FINE;
}

int vw_check_begin(const struct vw_group *groups, int ngroups, int rank, uint64_t number)
{
    for (int k = 0; k < ngroups; k++) {
        const struct vw_group *p = &groups[k];
        int count = p->g.count[rank][0];

        WANT((count == 0 || p->view_of[count - 1] < number)
             && (count == p->g.logged[0] || p->view_of[count] >= number),
             "p%d begins view %llu with the state after %d messages of group %d, the last of view "
             "%llu", rank, (unsigned long long)number, count, k,
             (unsigned long long)(count == 0 ? 0 : p->view_of[count - 1]));
    }
    return SIM_FINE;
}

bool vw_is_alone(const struct vw_views *s, const struct sim_run *run, int rank)
{
    for (int i = 0; i < run->processes; i++)
        if (i != rank && vw_goes_on(s, i) && s->ready[i])
            return false;
    return true;
}

/* A member of the newest view that is known to anybody. */
bool vw_is_stopped_for_minority(const struct vw_views *s, const struct sim_run *run, int rank)
{
    uint64_t newest = VW_VIEWS - 1;

    while (newest > 0 && s->members[newest] == 0)
        newest--;
    for (int i = 0; i < run->processes; i++)
        if (i != rank && !loci_sim_is_stopped(i) && !s->outside[i] && s->at[i] != NULL
            && (s->members[newest] >> i & 1) != 0 && s->number[i] == newest
            && s->at[i]->status == LOCO_ERR_PARTITIONED)
            return true;
    return false;
}

/* ---- views ---- */

int vw_install(struct vw_views *s, const struct sim_run *run, int rank, uint64_t number,
               const int *members, int n)
{
    uint64_t set = 0, before, left = 0;

    for (int i = 0; i < n; i++)
        set |= UINT64_C(1) << members[i];
    WANT((number == s->number[rank] + 1 || (s->outside[rank] && number > s->number[rank]))
         && number < VW_VIEWS, "p%d is told of view %llu after %llu",
         rank, (unsigned long long)number, (unsigned long long)s->number[rank]);
    /* Who could not make all its multicasts, for a member had died, gives up while it lives. */
    WANT(!s->ended[rank] || !s->ready[rank], "p%d is told of view %llu after its end", rank,
         (unsigned long long)number);
    WANT((set >> rank & 1) != 0 || s->leaving[rank], "p%d is told of view %llu without it", rank,
         (unsigned long long)number);
    before = s->members[number - 1];
    WANT(vw_has_joins(s) || ((set & ~before) == 0 && set != before),
         "view %llu has members %llx, the one before %llx", (unsigned long long)number,
         (unsigned long long)set, (unsigned long long)before);
    WANT(s->members[number] == 0 || s->members[number] == set, "p%d is told that view %llu has "
         "members %llx, others %llx", rank, (unsigned long long)number, (unsigned long long)set,
         (unsigned long long)s->members[number]);
    for (int i = 0; i < run->processes; i++)
        left |= s->left[i] ? UINT64_C(1) << i : 0;
    WANT(!s->majority || vw_has_joins(s)
         || 2 * count_of(set) > count_of(before & (set | ~left)),
         "view %llu has %d members, the one before %d", (unsigned long long)number, count_of(set),
         count_of(before));
    /* When the first is told. */
    for (int i = 0; i < run->processes && !s->guesses && s->members[number] == 0; i++)
        WANT((set >> i & 1) != 0 || (before >> i & 1) == 0 || !vw_goes_on(s, i) || !s->ready[i]
             || s->leaving[i],
             "view %llu is without p%d, which lives", (unsigned long long)number, i);
    s->members[number] = set;
    s->number[rank] = number;
    s->outside[rank] = (set >> rank & 1) == 0;
    s->leaving[rank] = s->leaving[rank] && !s->outside[rank];
    return SIM_FINE;
}

int vw_end(struct vw_views *s, const struct sim_run *run, int rank)
{
    uint64_t number = s->number[rank], living = 0;
    uint64_t members = vw_has_joins(s) && s->at[rank] != NULL ? s->at[rank]->members
                                                                  : s->members[number];

    for (int i = 0; i < run->processes; i++)
        living |= i == rank || (vw_goes_on(s, i) && s->ready[i]) ? UINT64_C(1) << i : 0;
    WANT(s->guesses || (vw_has_joins(s) && (s->outside[rank] || vw_is_alone(s, run, rank)))
         || (s->majority && 2 * count_of(living & members) <= count_of(members)),
         "p%d is cut off, and of members %llx live %llx", rank, (unsigned long long)members,
         (unsigned long long)living);
    s->ended[rank] = true;
    return SIM_FINE;
}

int vw_check_delivered(const struct vw_group *p, const struct vw_views *s,
                       const struct sim_run *run, int rank, uint64_t number)
{
    for (int other = 0; other < run->processes; other++)
        WANT(!vw_goes_on(s, other) || s->leaving[other] || s->guesses
             || (p->g.flags & LOCO_MULTICAST_COPY) != 0
             || p->g.from[other][rank] >= (int)number,
             "message %llu of p%d is said to be delivered, and p%d has been given %d",
             (unsigned long long)number, rank, other, p->g.from[other][rank]);
    return SIM_FINE;
}

bool vw_all_given(const struct vw_group *p, const struct vw_views *s, const struct sim_run *run)
{
    for (int from = 0; from < run->processes; from++) {
        if (vw_is_there(s, from) && !s->over[from])
            return false;
        if (!vw_goes_on(s, from))
            continue;
        for (int to = 0; to < run->processes; to++)
            if (vw_goes_on(s, to) && p->g.from[to][from] != p->sent[from])
                return false;
    }
    return true;
}

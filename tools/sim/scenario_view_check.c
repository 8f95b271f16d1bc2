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

int vw_install(struct vw_views *s, const struct sim_run *run, int rank, uint64_t number,
               const int *members, int n)
{
    uint64_t set = 0, before, left = 0;

    for (int i = 0; i < n; i++)
        set |= UINT64_C(1) << members[i];
    WANT(number == s->number[rank] + 1 && number < VW_VIEWS, "p%d is told of view %llu after %llu",
         rank, (unsigned long long)number, (unsigned long long)s->number[rank]);
    WANT(!s->ended[rank], "p%d is told of view %llu after its end", rank,
         (unsigned long long)number);
    WANT((set >> rank & 1) != 0, "p%d is told of view %llu without it", rank,
         (unsigned long long)number);
    before = number == 1 ? (UINT64_C(1) << run->processes) - 1 : s->members[number - 1];
    WANT((set & ~before) == 0 && set != before, "view %llu has members %llx, the one before %llx",
         (unsigned long long)number, (unsigned long long)set, (unsigned long long)before);
    WANT(s->members[number] == 0 || s->members[number] == set, "p%d is told that view %llu has "
         "members %llx, others %llx", rank, (unsigned long long)number, (unsigned long long)set,
         (unsigned long long)s->members[number]);
    for (int i = 0; i < run->processes; i++)
        left |= s->left[i] ? UINT64_C(1) << i : 0;
    WANT(!s->majority || 2 * count_of(set) > count_of(before & (set | ~left)),
         "view %llu has %d members, the one before %d", (unsigned long long)number, count_of(set),
         count_of(before));
    for (int i = 0; i < run->processes && !s->guesses; i++)
        WANT((set >> i & 1) != 0 || (before >> i & 1) == 0 || !vw_goes_on(s, i) || !s->ready[i],
             "view %llu is without p%d, which lives", (unsigned long long)number, i);
    s->members[number] = set;
    s->number[rank] = number;
    return SIM_FINE;
}

int vw_end(struct vw_views *s, const struct sim_run *run, int rank)
{
    uint64_t number = s->number[rank], living = 0;
    uint64_t members = number == 0 ? (UINT64_C(1) << run->processes) - 1 : s->members[number];

    for (int i = 0; i < run->processes; i++)
        living |= i == rank || (vw_goes_on(s, i) && s->ready[i]) ? UINT64_C(1) << i : 0;
    WANT(s->guesses || (s->majority && 2 * count_of(living & members) <= count_of(members)),
         "p%d is cut off, and of members %llx live %llx", rank, (unsigned long long)members,
         (unsigned long long)living);
    s->ended[rank] = true;
    return SIM_FINE;
}

int vw_check_delivered(const struct vw_group *p, const struct vw_views *s,
                       const struct sim_run *run, int rank, uint64_t number)
{
    for (int other = 0; other < run->processes; other++)
        WANT(!vw_goes_on(s, other) || (p->g.flags & LOCO_MULTICAST_COPY) != 0 || s->guesses
             || p->g.from[other][rank] >= (int)number,
             "message %llu of p%d is said to be delivered, and p%d has been given %d",
             (unsigned long long)number, rank, other, p->g.from[other][rank]);
    return SIM_FINE;
}

bool vw_all_given(const struct vw_group *p, const struct vw_views *s, const struct sim_run *run)
{
    for (int from = 0; from < run->processes; from++) {
        if (!vw_goes_on(s, from))
            continue;
        if (!s->over[from])
            return false;
        for (int to = 0; to < run->processes; to++)
            if (vw_goes_on(s, to) && p->g.from[to][from] != p->sent[from])
                return false;
    }
    return true;
}

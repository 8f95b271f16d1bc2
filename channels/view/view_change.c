/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: from one to the next. See view.c, which argues that it is right. */

#include "config.h"

#include <stdlib.h>

#include "observe/log.h"
#include "view.h"

/* ---- where this process is ---- */

bool loci_view_is_changing(const struct loco_view *v)
{
    return v->own[LOCI_VIEW_WEDGED] == v->view + 1;
}

static bool has_counted(const struct loco_view *v)
{
    return v->own[LOCI_VIEW_COUNTED] == v->view + 1;
}

static uint64_t decided(const struct loco_view *v, int leader)
{
    return (v->view + 1) * LOCI_VIEW_MEMBERS + (uint64_t)leader;
}

/* Whether it is a proposal for the end of the present view. */
static bool is_of_view(const struct loco_view *v, uint64_t word)
{
    return word / LOCI_VIEW_MEMBERS == v->view + 1;
}

/* The lowest of those who live, as this process sees it. */
static int leader(const struct loco_view *v)
{
    return __builtin_ctzll(loci_view_living(v));
}

/* Whether that word is at least so large in the rows of all who live. */
static bool all_have(const struct loco_view *v, int word, uint64_t least)
{
    uint64_t living = loci_view_living(v);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(living, rank) && loci_view_see(v, rank, word) < least)
            return false;
    return true;
}

/* ---- who is to be in ---- */

/* Members that have begun this view: they have the state. Once all who live have counted this is
 * exact, for each has said it before. */
static uint64_t begun(const struct loco_view *v)
{
    uint64_t living = loci_view_living(v), found = 0;

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(living, rank) && loci_view_see(v, rank, LOCI_VIEW_INSTALLED) >= v->view)
            found |= loci_view_bit(rank);
    return found;
}

bool loci_view_wishes_in(const struct loco_view *v, int rank, uint64_t asked)
{
    return (asked & 1) != (v->first >> rank & 1);
}

/* Of those who have the state one stays until another has it. */
uint64_t loci_view_wished(const struct loco_view *v)
{
    uint64_t have = begun(v), found = 0;

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_wishes_in(v, rank, loci_view_see(v, rank, LOCI_VIEW_ASKED)))
            found |= loci_view_bit(rank);
    found &= ~v->own[LOCI_VIEW_SUSPECTED];
    found = loci_view_can_come(v, found);
    return (found & have) == 0 ? found | (have & -have) : found;
}

/* ---- wedge ---- */

/* Whoever has lost an outsider before all was mapped maps without it. */
static bool lacks_outsider(const struct loco_view *v)
{
    bool all_open = true;

    for (int k = 0; k < loci_view_multicasts(v); k++)
        all_open = all_open && v->multicast[k].open;
    return !all_open && (v->own[LOCI_VIEW_SUSPECTED] & ~v->gone) != 0;
}

/* Somebody else has found a reason, which may not come here any more. */
static bool somebody_has_wedged(const struct loco_view *v)
{
    uint64_t living = loci_view_living(v);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(living, rank) && loci_view_see(v, rank, LOCI_VIEW_WEDGED) > v->view)
            return true;
    return false;
}

/* Who is given the state waits for that, as who gives it: unless one of them is, or hears of, a
 * reason not to. */
static bool is_loading(const struct loco_view *v)
{
    return v->stage == LOCI_VIEW_LOADING && !v->loaded
           && (v->own[LOCI_VIEW_SUSPECTED] & v->members) == 0
           && loci_view_see(v, v->giver, LOCI_VIEW_WEDGED) <= v->view;
}

bool loci_view_wedge_holds(struct loco_view *v)
{
    if ((v->stage != LOCI_VIEW_IN && v->stage != LOCI_VIEW_LOADING) || v->resumes
        || loci_view_is_changing(v) || is_loading(v))
        return false;
    return (v->own[LOCI_VIEW_SUSPECTED] & v->members) != 0 || loci_view_wished(v) != v->members
           || somebody_has_wedged(v) || lacks_outsider(v);
}

void loci_view_wedge(struct loco_view *v)
{
    pthread_mutex_lock(&v->lock);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        loci_mc_wedge(v->multicast[k].m);
    pthread_mutex_unlock(&v->lock);
    loci_view_tell(v, LOCI_VIEW_WEDGED, v->view + 1);
}

/* ---- count ---- */

bool loci_view_count_holds(struct loco_view *v)
{
    return loci_view_is_changing(v) && !has_counted(v)
           && all_have(v, LOCI_VIEW_WEDGED, v->view + 1);
}

/* Of a multicast that is not made here yet nothing was given: no member has begun it. */
static void count_multicast(struct loco_view *v, int k)
{
    const struct loci_view_multicast *mc = &v->multicast[k];
    uint64_t given[LOCI_VIEW_MEMBERS];

    for (int i = 0; i < v->size; i++)
        given[i] = mc->base;
    if (mc->m != NULL)
        loci_mc_given(mc->m, given);
    for (int i = 0; i < v->size; i++)
        loci_view_put_data(v, loci_view_count_at(v, k, i), given[i]);
}

void loci_view_count(struct loco_view *v)
{
    pthread_mutex_lock(&v->lock);
    for (int k = 0; k < v->most; k++)
        count_multicast(v, k);
    pthread_mutex_unlock(&v->lock);
    loci_view_tell_data(v, LOCI_VIEW_COUNTED, v->view + 1);
}

/* ---- propose ---- */

/* All who live suspect those before this process. */
static bool all_follow(const struct loco_view *v)
{
    uint64_t living = loci_view_living(v), before = v->members & (loci_view_bit(v->rank) - 1);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(living, rank)
            && (before & ~loci_view_see(v, rank, LOCI_VIEW_SUSPECTED)) != 0)
            return false;
    return true;
}

bool loci_view_propose_holds(struct loco_view *v)
{
    return has_counted(v) && leader(v) == v->rank
           && v->own[LOCI_VIEW_DECIDED] < decided(v, v->rank)
           && all_have(v, LOCI_VIEW_COUNTED, v->view + 1) && all_follow(v);
}

/* The newest of what leaders before this one proposed and somebody who lives has echoed: who, or
 * -1; and what. */
static int newest_echo(const struct loco_view *v, uint64_t *echo)
{
    uint64_t living = loci_view_living(v), most = 0;
    int found = -1;

    for (int rank = 0; rank < v->size; rank++) {
        uint64_t word = loci_view_has(living, rank) ? loci_view_see(v, rank, LOCI_VIEW_DECIDED) : 0;

        if (is_of_view(v, word) && word > most) {
            most = word;
            found = rank;
        }
    }
    *echo = most;
    return found;
}

/* Into the own row, but for what this member has itself. False: not, for that row says something
 * else by now. Then its member has gone on to a view whose data are in the same place, or has
 * echoed another leader: in either case it does not wait for this one. */
static bool copy_decision(struct loco_view *v, int from, uint64_t word)
{
    for (uint64_t at = 0; at < v->data_words; at++)
        v->copy[at] = loci_view_see_data(v, from, v->view, at);
    if (loci_view_see(v, from, LOCI_VIEW_DECIDED) != word)
        return false;
    for (uint64_t at = 0; at < loci_view_base_at(v, 0); at++)
        loci_view_put_data(v, at, v->copy[at]);
    for (int k = 0; k < v->most; k++) {
        uint64_t base = loci_view_base_at(v, k);

        loci_view_put_data(v, base, v->copy[base]);
        for (int i = 0; i < v->size; i++)
            loci_view_put_data(v, loci_view_trim_at(v, k, i), v->copy[loci_view_trim_at(v, k, i)]);
    }
    return true;
}

/* Of sender i what all who live have: none of them lacks any of it. Returns what the one has that
 * has most. */
static uint64_t trim_sender(struct loco_view *v, int k, int i)
{
    uint64_t living = loci_view_living(v), least = UINT64_MAX, most = 0;

    for (int rank = 0; rank < v->size; rank++) {
        uint64_t given;

        if (!loci_view_has(living, rank))
            continue;
        given = loci_view_see_data(v, rank, v->view, loci_view_count_at(v, k, i));
        least = given < least ? given : least;
        most = given > most ? given : most;
    }
    loci_view_put_data(v, loci_view_trim_at(v, k, i), least);
    return most;
}

static void choose_members(struct loco_view *v)
{
    uint64_t next = loci_view_wished(v), have = next & begun(v);

    loci_view_put_data(v, LOCI_VIEW_NEXT, next);
    loci_view_put_data(v, LOCI_VIEW_GONE, v->gone | v->own[LOCI_VIEW_SUSPECTED]);
    loci_view_put_data(v, LOCI_VIEW_NEEDY, next & ~begun(v));
    loci_view_put_data(v, LOCI_VIEW_GIVER, have == 0 ? 0 : (uint64_t)__builtin_ctzll(have) + 1);
    for (int rank = 0; rank < v->size; rank++)
        loci_view_put_data(v, LOCI_VIEW_ASKED_AT + (uint64_t)rank,
                           loci_view_see(v, rank, LOCI_VIEW_ASKED));
}

static void make_decision(struct loco_view *v)
{
    choose_members(v);
    for (int k = 0; k < v->most; k++) {
        uint64_t most = 0;

        for (int i = 0; i < v->size; i++) {
            uint64_t given = trim_sender(v, k, i);

            most = given > most ? given : most;
        }
        loci_view_put_data(v, loci_view_base_at(v, k), most + 1);
    }
}

void loci_view_propose(struct loco_view *v)
{
    uint64_t echo;
    int from = newest_echo(v, &echo);

    if (from < 0)
        make_decision(v);
    else if (from != v->rank && !copy_decision(v, from, echo))
        return;
    loci_view_tell_data(v, LOCI_VIEW_DECIDED, decided(v, v->rank));
}

/* ---- echo ---- */

bool loci_view_echo_holds(struct loco_view *v)
{
    int who = leader(v);

    return has_counted(v) && who != v->rank && v->own[LOCI_VIEW_DECIDED] < decided(v, who)
           && loci_view_see(v, who, LOCI_VIEW_DECIDED) == decided(v, who);
}

void loci_view_echo(struct loco_view *v)
{
    int who = leader(v);

    if (copy_decision(v, who, decided(v, who)))
        loci_view_tell_data(v, LOCI_VIEW_DECIDED, decided(v, who));
}

/* ---- cut ---- */

/* That member has echoed what this one has, or has seen that all have. */
static bool has_echoed(const struct loco_view *v, int rank)
{
    return loci_view_see(v, rank, LOCI_VIEW_DECIDED) == v->own[LOCI_VIEW_DECIDED]
           || loci_view_see(v, rank, LOCI_VIEW_INSTALLED) > v->view;
}

static bool all_have_echoed(const struct loco_view *v)
{
    uint64_t living = loci_view_living(v);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(living, rank) && !has_echoed(v, rank))
            return false;
    return true;
}

uint64_t loci_view_own_data(const struct loco_view *v, uint64_t back, uint64_t at)
{
    return loci_view_see_data(v, v->rank, v->view - back, at);
}

static uint64_t own_data(const struct loco_view *v, uint64_t at)
{
    return loci_view_own_data(v, 0, at);
}

/* What those who come have told before they asked is here. */
static bool knows_who_comes(const struct loco_view *v)
{
    uint64_t come = own_data(v, LOCI_VIEW_NEXT) & ~v->members & ~v->own[LOCI_VIEW_SUSPECTED];

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(come, rank)) {
            uint64_t asked = own_data(v, LOCI_VIEW_ASKED_AT + (uint64_t)rank);

            if (loci_view_see(v, rank, LOCI_VIEW_ASKED) < asked)
                return false;
        }
    return true;
}

static bool has_room(const struct loco_view *v)
{
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (!loci_mc_has_room(v->multicast[k].m))
            return false;
    return true;
}

bool loci_view_cut_holds(struct loco_view *v)
{
    return !v->cut && loci_view_is_changing(v) && is_of_view(v, v->own[LOCI_VIEW_DECIDED])
           && all_have_echoed(v) && knows_who_comes(v) && has_room(v);
}

bool loci_view_note_place(struct loci_view_multicast *mc, uint64_t from, uint64_t number,
                          uint64_t place)
{
    uint64_t *more;

    if (number >= mc->room) {
        more = realloc(mc->begins, 2 * (number + 1) * sizeof *more);
        if (more == NULL)
            return false;
        mc->begins = more;
        mc->room = 2 * (number + 1);
    }
    for (; from <= number; from++)
        mc->begins[from] = place;
    return true;
}

struct loci_mc_next loci_view_next(const struct loco_view *v, int k, uint64_t *starts)
{
    for (int rank = 0; rank < v->size; rank++)
        starts[rank] = loci_view_start_of(v, rank, k);
    return (struct loci_mc_next){ .base = v->multicast[k].base, .out = v->out,
                                  .gone = v->gone | ~loci_view_all(v), .start = starts };
}

static bool cut_multicast(struct loco_view *v, int k, uint64_t come)
{
    struct loci_view_multicast *mc = &v->multicast[k];
    uint64_t trim[LOCI_VIEW_MEMBERS], starts[LOCI_VIEW_MEMBERS];
    struct loci_mc_next next;

    for (int i = 0; i < v->size; i++)
        trim[i] = own_data(v, loci_view_trim_at(v, k, i));
    mc->base = own_data(v, loci_view_base_at(v, k));
    if (mc->m == NULL)
        return true;
    if (!loci_view_note_place(mc, v->view + 1, v->view + 1, loci_mc_place(mc->m, mc->base)))
        return false;
    next = loci_view_next(v, k, starts);
    next.come = come;
    loci_mc_cut(mc->m, trim, &next);
    return true;
}

static void cut_all(struct loco_view *v)
{
    uint64_t next = own_data(v, LOCI_VIEW_NEXT);
    bool cut = true;

    pthread_mutex_lock(&v->lock);
    v->gone |= own_data(v, LOCI_VIEW_GONE);
    v->out = ~next;
    for (int k = 0; k < v->most && cut; k++)
        cut = cut_multicast(v, k, next & ~v->members);
    pthread_mutex_unlock(&v->lock);
    v->cut = true;
    if (!cut)
        loci_view_end(v, LOCO_ERR_NO_MEMORY);
}

/* Without its wish. */
static bool is_removed(const struct loco_view *v)
{
    uint64_t asked = own_data(v, LOCI_VIEW_ASKED_AT + (uint64_t)v->rank);

    return !loci_view_has(own_data(v, LOCI_VIEW_NEXT), v->rank)
           && (asked != v->own[LOCI_VIEW_ASKED] || loci_view_wishes_in(v, v->rank, asked));
}

void loci_view_cut(struct loco_view *v)
{
    if (is_removed(v)) {
        loci_view_tell(v, LOCI_VIEW_SUSPECTED,
                       v->own[LOCI_VIEW_SUSPECTED] | loci_view_bit(v->rank));
    } else if (v->chunk != 0 && own_data(v, LOCI_VIEW_GIVER) == 0) {
        LOCI_LOG(v->rt, LOCO_LOG_ERROR, "view %s: all who had the state of view %llu are gone",
                 v->ep->name, (unsigned long long)v->view);
        loci_view_end(v, LOCO_ERR_PEER_DEAD);
    } else if (v->stage == LOCI_VIEW_LOADING) {
        loci_view_come(v);
    } else {
        cut_all(v);
    }
}

/* ---- install ---- */

/* Who goes out is awaited until it has delivered all: in the next view nobody waits for it before
 * slots are written to again. */
static bool leavers_are_out(const struct loco_view *v)
{
    uint64_t next = own_data(v, LOCI_VIEW_NEXT), gone = own_data(v, LOCI_VIEW_GONE);
    uint64_t leavers = v->members & ~next & ~gone & ~v->own[LOCI_VIEW_SUSPECTED];

    for (int rank = 0; rank < v->size; rank++)
        if (rank != v->rank && loci_view_has(leavers, rank)
            && loci_view_see(v, rank, LOCI_VIEW_INSTALLED) <= v->view)
            return false;
    return true;
}

bool loci_view_install_holds(struct loco_view *v)
{
    bool stays;

    if (!v->cut)
        return false;
    stays = loci_view_has(own_data(v, LOCI_VIEW_NEXT), v->rank);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (!loci_mc_is_drained(v->multicast[k].m)
            || (!stays && !loci_mc_has_passed(v->multicast[k].m)))
            return false;
    return !stays || leavers_are_out(v);
}

static int list_members(const struct loco_view *v, int *members)
{
    int n = 0;

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(v->members, rank))
            members[n++] = rank;
    return n;
}

void loci_view_show(struct loco_view *v)
{
    int members[LOCI_VIEW_MEMBERS], n = list_members(v, members);

    pthread_mutex_lock(&v->lock);
    v->number = v->view;
    v->present = v->members;
    pthread_mutex_unlock(&v->lock);
    LOCI_LOG(v->rt, LOCO_LOG_DEBUG, "view %s: view %llu has %d members", v->ep->name,
             (unsigned long long)v->view, n);
    if (v->changed != NULL)
        v->changed(v->changed_arg, v->view, members, n);
}

/* Said before anything is sent in the view: who comes then knows where that begins. */
void loci_view_install(struct loco_view *v)
{
    v->members = own_data(v, LOCI_VIEW_NEXT);
    v->giver = (int)own_data(v, LOCI_VIEW_GIVER) - 1;
    v->giving = v->chunk != 0 && v->giver == v->rank ? own_data(v, LOCI_VIEW_NEEDY) : 0;
    v->given_to = -1;
    v->view++;
    v->cut = false;
    loci_view_tell_starts(v, LOCI_VIEW_INSTALLED, v->view);
    if (loci_view_has(v->members, v->rank)) {
        v->resumes = true;
        return;
    }
    v->stage = LOCI_VIEW_OUT;
    for (int k = 0; k < loci_view_multicasts(v); k++)
        v->multicast[k].open = false;
    loci_view_show(v);
    loci_view_wake(v);
}

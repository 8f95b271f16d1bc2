/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: from one to the next. See view.c, which argues that it is right. */

#include "config.h"

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

/* ---- wedge ---- */

bool loci_view_wedge_holds(struct loco_view *v)
{
    return !loci_view_is_changing(v) && (v->own[LOCI_VIEW_SUSPECTED] & v->members) != 0;
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
    loci_view_put_data(v, LOCI_VIEW_REMOVED, v->copy[LOCI_VIEW_REMOVED]);
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

static void make_decision(struct loco_view *v)
{
    loci_view_put_data(v, LOCI_VIEW_REMOVED, v->members & v->own[LOCI_VIEW_SUSPECTED]);
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

bool loci_view_cut_holds(struct loco_view *v)
{
    return !v->cut && is_of_view(v, v->own[LOCI_VIEW_DECIDED]) && all_have_echoed(v);
}

static uint64_t own_data(const struct loco_view *v, uint64_t at)
{
    return loci_view_see_data(v, v->rank, v->view, at);
}

static void cut_multicast(struct loco_view *v, int k)
{
    struct loci_view_multicast *mc = &v->multicast[k];
    uint64_t trim[LOCI_VIEW_MEMBERS];

    for (int i = 0; i < v->size; i++)
        trim[i] = own_data(v, loci_view_trim_at(v, k, i));
    mc->base = own_data(v, loci_view_base_at(v, k));
    if (mc->m == NULL)
        return;
    mc->begins[v->view + 1] = loci_mc_place(mc->m, mc->base);
    loci_mc_cut(mc->m, trim, mc->base, v->gone);
}

void loci_view_cut(struct loco_view *v)
{
    uint64_t removed = own_data(v, LOCI_VIEW_REMOVED);

    if (loci_view_has(removed, v->rank)) {
        loci_view_tell(v, LOCI_VIEW_SUSPECTED,
                       v->own[LOCI_VIEW_SUSPECTED] | loci_view_bit(v->rank));
        return;
    }
    pthread_mutex_lock(&v->lock);
    v->gone |= removed;
    for (int k = 0; k < v->most; k++)
        cut_multicast(v, k);
    pthread_mutex_unlock(&v->lock);
    v->cut = true;
}

/* ---- install ---- */

bool loci_view_install_holds(struct loco_view *v)
{
    for (int k = 0; k < loci_view_multicasts(v) && v->cut; k++)
        if (!loci_mc_is_drained(v->multicast[k].m))
            return false;
    return v->cut;
}

static int list_members(const struct loco_view *v, int *members)
{
    int n = 0;

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(v->members, rank))
            members[n++] = rank;
    return n;
}

static void show(struct loco_view *v)
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

/* Those that had not begun may do so in the new view. */
void loci_view_install(struct loco_view *v)
{
    v->members &= ~own_data(v, LOCI_VIEW_REMOVED);
    v->view++;
    v->cut = false;
    show(v);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (v->multicast[k].open)
            loci_mc_resume(v->multicast[k].m);
    loci_view_tell(v, LOCI_VIEW_INSTALLED, v->view);
    loci_view_wake(v);
}

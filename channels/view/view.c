/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: their life, and what programs ask. How they work:
 *
 * Each member has a row of words that only grow, and data that these words say are there
 * (view_row.c). Each view has a thread, which sleeps until somebody rings it; it does what the
 * first rule says that holds (view_member.c), one after the other, and all that a view is has one
 * writer at each member. A change, in the order in which rules come to hold:
 *
 *   suspect  a member has gone, as the runtime says; or another member suspects it. From then on
 *            this one does not look at its row: the row is frozen. Never taken back
 *   wedge    somebody in the view is suspected: multicasts stop to give and to see numbers
 *   count    all who live have wedged: what this member has of each sender is final, and is told
 *   propose  the lowest living member, the leader: who goes, and of each sender the least that
 *            any living one has, the trim. But if a leader before it may have been heard by
 *            anybody, its proposal is taken, the newest that a living member has echoed
 *   echo     the others: the leader's proposal, as their own data
 *   cut      all who live have echoed the same: it is decided. Multicasts deliver up to the trim
 *   install  handlers have been given all that: the next view; what was cut is sent again
 *
 * Living are members of the view that this process does not suspect. "All who live have" means the
 * rows of these, and is looked at again when one is suspected: nobody waits for the dead.
 *
 * One decision a view. Let some member cut by a proposal P of leader L: all that it does not
 * suspect have echoed P. A later leader L' waits until all its living members suspect all before
 * it. A member echoes the proposal of the lowest one that it does not suspect alone, so from then
 * on none of them echoes anything older than what L' proposes. What they have echoed until then L'
 * sees, for each writes that it suspects after it has written its echo, and L' reads these words in
 * the other order. If L' and the one that has cut have a living member in common, that one has
 * echoed P, or what a leader in between has taken over, which is P for the same reason. So L' takes
 * P. They have one in common: on one machine nobody is suspected who lives, and any survivor is
 * one; else both have a majority of the view. With LOCO_VIEW_MINORITY it is the program's wish that
 * they need not. So the first to install decides the view, and all who install it install the same.
 *
 * Nothing delivered is lost. A member delivers what all members have received, or by a trim that is
 * decided. Where acknowledgements are awaited (multicast_epoch.c) all who live have what anybody
 * has delivered, and say so when they count: the trim is not below it. On one node it is delivered
 * when it is seen to be given; there all read the same memory, and count after the last has wedged,
 * or is dead: all count the same, which is all that was ever given.
 *   Nobody delivers by a trim that others may not come to know: if the only ones who know it
 * died, the next leader would make another. So all echo first.
 *
 * Nothing is waited for in vain: of each rule that waits for a member that member's own comes
 * first, or it is suspected. A leader that dies is suspected, and so on, until one is left. A
 * member that lives and is suspected finds that in the rows of others, to which it is told as long
 * as it is reached, and stops. A member of a view that is suspected after the proposal is in the
 * next view, which then ends at once.
 *
 * Rows lag. Who has installed view n + 1 may be counting for its end while another has not cut
 * view n. It has then echoed for n, or is suspected; so its own data for n are whole, and that
 * the other has installed n + 1 (INSTALLED) says that all have echoed. Data of n and n + 1 are in
 * different places. They are in the same for n and n + 2, to which nobody comes whom it waits for
 * while it is in n; a leader that suspects it may: so what is copied counts only if the leader's
 * word is unchanged after that.
 *
 * Multicasts begin when all members have mapped all memory, and said so (READY): so on one node
 * all can read what any could. One that is made at some members only has no numbers in a change,
 * and begins later.
 *
 * Who comes and who goes. A view ends also because a process outside asks to come, or a member to
 * go; view_join.c says how. Who goes takes part in the end of its last view like all others, and
 * the next one begins at the others when it has delivered all: nobody waits for it before slots are
 * written to again. Somebody may have wedged for what another has not seen, and will not see if the
 * one that asked has died: so who sees that a member has wedged does, too.
 *
 * Bells. Who writes a row waits until it is placed, then rings. In a change who is awaited is rung
 * again now and then: a ring may be lost. Deaths ring, and the runtime looks at them by itself. */

#include "config.h"

#include <stdlib.h>

#include "move/bell.h"
#include "multicast/multicast_parts.h"
#include "observe/mistake.h"
#include "threads/poller.h"
#include "view.h"
#include "wait.h"

#define MULTICASTS 8
#define CHUNK ((size_t)256 << 10)
#define CHUNK_MAX ((size_t)1 << 30)
#define LINE 128

static const char call[] = "loco_view_create";

/* ---- making one ---- */

static int check_seats(loco_runtime_t *rt, const char *name, int members, loco_view_options_t *o)
{
    int most = LOCI_VIEW_MEMBERS;

    o->seats = o->seats == 0 ? members : o->seats;
    if (o->seats < members || o->seats > LOCI_VIEW_MEMBERS)
        return loci_bad_arg(rt, call, name, "seats", o->seats, "0, or %d (the size of group) to %d",
                            members, LOCI_VIEW_MEMBERS);
    /* One seats processes. */
    most -= o->seats > members;
    if (o->multicasts < 1 || o->multicasts > most)
        return loci_bad_arg(rt, call, name, "multicasts", o->multicasts, "1 to %d", most);
    return LOCO_OK;
}

static int complete(loco_runtime_t *rt, const char *name, int members, loco_view_options_t *o)
{
    o->multicasts = o->multicasts == 0 ? MULTICASTS : o->multicasts;
    if (members > LOCI_VIEW_MEMBERS)
        return loci_bad_arg(rt, call, name, "the size of group", members, "1 to %d",
                            LOCI_VIEW_MEMBERS);
    if (o->flags != 0 && o->flags != LOCO_VIEW_MINORITY && o->flags != LOCO_VIEW_MAJORITY)
        return loci_bad_arg(rt, call, name, "flags", o->flags, "0, LOCO_VIEW_MINORITY or "
                            "LOCO_VIEW_MAJORITY");
    if ((o->save == NULL) != (o->load == NULL))
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "either both of save and load, or "
                            "neither");
    o->chunk = o->save == NULL ? 0 : o->chunk == 0 ? CHUNK : o->chunk;
    if (o->chunk > CHUNK_MAX)
        return loci_bad_arg(rt, call, name, "chunk", (long long)o->chunk, "at most %zu",
                            CHUNK_MAX);
    o->outside &= UINT64_MAX >> (LOCI_VIEW_MEMBERS - members);
    if (o->outside == UINT64_MAX >> (LOCI_VIEW_MEMBERS - members))
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "outside: all members are; view 0 needs "
                            "one at least");
    return check_seats(rt, name, members, o);
}

/* The view's thread has something to look at. Another member is known: perhaps the last. */
static void news(void *view)
{
    struct loco_view *v = view;

    loci_ring_self(v->rt);
}

static void note_connected(struct loci_endpoint *ep, int rank, void *view)
{
    (void)ep;
    (void)rank;
    news(view);
}

/* It has left. Mostly it has said so; but not to who was connected when it had stopped. */
static void note_absent(struct loci_endpoint *ep, int rank, void *view)
{
    struct loco_view *v = view;

    (void)ep;
    if (!v->seats.open)
        return;
    atomic_fetch_or_explicit(&v->hinted, loci_view_bit(rank), memory_order_relaxed);
    news(v);
}

static void destroy_forgotten(void *view)
{
    loco_view_destroy(view);
}

static int open_rows(struct loco_view *v, const struct loci_view_plan *plan)
{
    const loco_view_options_t *o = &plan->options;
    struct loci_endpoint_spec spec = {
        .parent = plan->parent, .name = plan->name, .group = plan->group, .type = "view",
        .nregions = 1, .late = v->seats.late,
        .property = { { "flags", (uint64_t)o->flags },
                      { "multicasts", (uint64_t)o->multicasts },
                      { "outside", o->outside }, { "chunk", o->chunk } },
        .on_connect = note_connected, .on_absent = note_absent, .ctx = v,
    };
    int status;

    v->data_words = loci_view_base_at(v, v->most);
    v->row_bytes = (8 * (LOCI_VIEW_WORDS + 2 * v->data_words + (uint64_t)v->most) + LINE - 1)
                   / LINE * LINE;
    spec.region[LOCI_VIEW_ROWS] = (struct loci_region_spec){
        "rows", (uint64_t)v->size * v->row_bytes, LINE, LOCI_FROM_ALL };
    if (v->chunk != 0)
        spec.region[spec.nregions++] = (struct loci_region_spec){
            "state", sizeof(struct loci_view_chunk) + v->chunk, LINE, LOCI_FROM_ALL };
    v->seats.region = spec.nregions;
    if (v->seats.open)
        loci_view_add_seats(v, &spec.region[spec.nregions++]);
    status = loci_endpoint_create(v->rt, &spec, &v->ep);
    if (status == LOCO_OK)
        loci_endpoint_is_of(v->ep, destroy_forgotten, v);
    return status;
}

static void take_options(struct loco_view *v, const struct loci_view_plan *plan)
{
    const loco_view_options_t *o = &plan->options;

    v->size = loco_group_size(plan->group);
    v->rank = loco_group_rank(plan->group);
    v->seats.open = plan->group->open;
    v->flags = o->flags;
    v->most = o->multicasts + v->seats.open;
    v->chunk = o->chunk;
    v->save = o->save;
    v->load = o->load;
    v->needs_majority = o->flags == LOCO_VIEW_MAJORITY
                        || (o->flags == 0 && loci_domain_of(plan->group) != LOCI_DOMAIN_CPU);
    v->changed = o->changed;
    v->changed_arg = o->arg;
}

/* All its ranks that are not vacant are there from the beginning. */
static void start_as_founder(struct loco_view *v, const loco_view_options_t *o)
{
    for (int rank = 0; rank < v->size; rank++)
        if (!v->seats.open || !loci_group_is_vacant(&v->ep->group, rank))
            v->filled |= loci_view_bit(rank);
    v->seats.founders = __builtin_popcountll(v->filled);
    v->first = v->members = v->present = v->filled & ~o->outside;
    v->out = ~v->members;
    v->stage = loci_view_has(v->members, v->rank) ? LOCI_VIEW_IN : LOCI_VIEW_OUT;
}

static int open_parts(struct loco_view *v, const struct loci_view_plan *plan)
{
    int status = open_rows(v, plan);

    if (status != LOCO_OK)
        return status;
    v->copy = calloc(v->data_words, sizeof *v->copy);
    v->taken = malloc(sizeof(struct loci_view_chunk) + v->chunk);
    if (v->copy == NULL || v->taken == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (plan->ticket == NULL)
        start_as_founder(v, &plan->options);
    else
        loci_view_start_late(v, plan->ticket);
    return v->seats.open ? loci_view_open_seats(v, plan->ticket) : LOCO_OK;
}

int loci_view_make(loco_runtime_t *rt, const struct loci_view_plan *plan, struct loco_view **out)
{
    struct loco_view *v = calloc(1, sizeof *v);
    int status;

    if (v == NULL)
        return LOCO_ERR_NO_MEMORY;
    v->rt = rt;
    v->seats.late = plan->ticket != NULL;
    take_options(v, plan);
    pthread_mutex_init(&v->lock, NULL);
    status = open_parts(v, plan);
    if (status == LOCO_OK)
        *out = v;
    else
        loco_view_destroy(v);
    return status;
}

/* With vacant ranks behind its members. */
static int make_open(loco_runtime_t *rt, struct loci_view_plan *plan, struct loco_view **out)
{
    const loco_group_t *group = plan->group;
    struct loco_group *open;
    int status = loci_group_open(rt, plan->options.seats, group->size, group->peer, &open);

    if (status != LOCO_OK)
        return status;
    plan->group = open;
    status = loci_view_make(rt, plan, out);
    loco_group_destroy(open);
    return status;
}

int loci_view_open(loco_runtime_t *rt, const char *parent, const char *name,
                   const loco_group_t *group, const loco_view_options_t *options,
                   loco_view_t **out)
{
    struct loci_view_plan plan = { .parent = parent, .name = name, .group = group };
    int status = loci_check_group(rt, call, name, group);

    if (options != NULL)
        plan.options = *options;
    if (status == LOCO_OK)
        status = loci_poller_refuse_self(rt, call, name);
    if (status == LOCO_OK)
        status = complete(rt, name, loco_group_size(group), &plan.options);
    if (status != LOCO_OK)
        return status;
    return plan.options.seats > loco_group_size(group) ? make_open(rt, &plan, out)
           : loci_view_make(rt, &plan, out);
}

int loci_view_start(struct loco_view *v)
{
    return loci_worker_start(v->rt, "loco-view", loci_view_run, v, &v->worker);
}

int loco_view_create(loco_runtime_t *rt, const char *parent, const char *name,
                     const loco_group_t *group, const loco_view_options_t *options,
                     loco_view_t **out)
{
    struct loco_view *v;
    int status = loci_view_open(rt, parent, name, group, options, &v);

    if (status != LOCO_OK)
        return status;
    status = loci_view_start(v);
    if (status == LOCO_OK)
        *out = v;
    else
        loco_view_destroy(v);
    return status;
}

static int refuse_callback(struct loco_view *v)
{
    static const char destroy[] = "loco_view_destroy";

    return loci_view_is_self(v)
           ? loci_mistake(v->rt, LOCO_ERR_STATE, destroy, v->ep->name, "not in `changed`, which it "
                          "would wait for: another thread has to do it")
           : loci_poller_refuse_self(v->rt, destroy, v->ep->name);
}

void loco_view_destroy(loco_view_t *v)
{
    if (v == NULL || (v->ep != NULL && refuse_callback(v) != LOCO_OK))
        return;
    if (v->worker != NULL) {
        atomic_store_explicit(&v->stops, true, memory_order_release);
        loci_ring_self(v->rt);
        loci_worker_join(v->worker);
    }
    for (int k = 0; k < loci_view_multicasts(v); k++) {
        loci_mc_destroy(v->multicast[k].m);
        free(v->multicast[k].begins);
    }
    if (v->ep != NULL)
        loci_endpoint_destroy(v->ep);
    pthread_mutex_destroy(&v->lock);
    free(v->copy);
    free(v->taken);
    free(v);
}

/* ---- multicasts ---- */

/* Under the lock. */
int loci_view_add_multicast(struct loco_view *v, const char *name,
                            const loco_multicast_options_t *options)
{
    int n = loci_view_multicasts(v), status;
    struct loci_view_multicast *mc = &v->multicast[n];
    const struct loci_mc_of_view of_view = {
        .news = news, .is_self = loci_view_is_self, .ctx = v, .base = mc->base, .out = v->out,
        .gone = v->gone | ~loci_view_all(v), .late = v->seats.late,
    };
    const struct loci_multicast_tuning tuning = { .view = &of_view };

    if (v->status != LOCO_OK)
        return v->status;
    /* Its endpoint would wait for those who have gone, and fail, and the view with it. */
    if (v->gone != 0 && !v->seats.late)
        return loci_mistake(v->rt, LOCO_ERR_PEER_DEAD, "loco_view_multicast", name, "a member of "
                            "the view has gone: make all multicasts before");
    if (n == v->most)
        return LOCO_ERR_FULL;
    status = loci_multicast_create(v->rt, v->ep->name, name, &v->ep->group, options, &tuning,
                                   &mc->m);
    if (status != LOCO_OK)
        return status;
    if (!loci_view_note_place(mc, 0, v->number + 1, loci_mc_place(mc->m, mc->base))) {
        loci_mc_destroy(mc->m);
        mc->m = NULL;
        return LOCO_ERR_NO_MEMORY;
    }
    /* They have left, and may live. */
    if (v->seats.late)
        loci_mc_lose(mc->m, v->gone);
    atomic_store_explicit(&v->multicasts, n + 1, memory_order_release);
    return LOCO_OK;
}

int loco_view_multicast(loco_view_t *v, const char *name, const loco_multicast_options_t *options,
                        loco_multicast_t **m)
{
    int status = LOCO_OK;

    if (options != NULL && (options->flags & LOCO_MULTICAST_UNORDERED) != 0)
        return loci_mistake(v->rt, LOCO_ERR_ARG, "loco_view_multicast", name,
                            "a view's multicast has one order for all");
    pthread_mutex_lock(&v->lock);
    status = loci_view_add_multicast(v, name, options);
    if (status == LOCO_OK)
        *m = v->multicast[loci_view_multicasts(v) - 1].m;
    pthread_mutex_unlock(&v->lock);
    if (status == LOCO_OK)
        news(v);
    return status;
}

/* ---- what is told ---- */

int loco_view_members(loco_view_t *v, uint64_t *number, int *members, int *n)
{
    int status, found = 0;

    pthread_mutex_lock(&v->lock);
    status = v->status;
    if (status == LOCO_OK && number != NULL)
        *number = v->number;
    for (int rank = 0; rank < v->size && status == LOCO_OK; rank++)
        if (loci_view_has(v->present, rank)) {
            if (members != NULL)
                members[found] = rank;
            found++;
        }
    if (status == LOCO_OK && n != NULL)
        *n = found;
    pthread_mutex_unlock(&v->lock);
    return status;
}

uint64_t loco_view_of(loco_view_t *v, const loco_multicast_t *m, uint64_t number)
{
    uint64_t view = 0;

    pthread_mutex_lock(&v->lock);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (v->multicast[k].m == m)
            while (view < v->number && number >= v->multicast[k].begins[view + 1])
                view++;
    pthread_mutex_unlock(&v->lock);
    return view;
}

/* Then no view begins before this thread has returned. */
static bool is_in_callback(struct loco_view *v)
{
    return loci_poller_is_self(v->rt) || loci_view_is_self(v);
}

struct view_wait {
    struct loco_view *v;
    uint64_t number;
};

static int has_come(void *arg)
{
    const struct view_wait *wait = arg;
    uint64_t number;
    int status = loco_view_members(wait->v, &number, NULL, NULL);

    if (status != LOCO_OK || number >= wait->number)
        return status != LOCO_OK ? status : 1;
    return is_in_callback(wait->v) ? LOCO_ERR_AGAIN : 0;
}

static void announce(void *arg, int change)
{
    struct loco_view *const *v = arg;

    atomic_fetch_add(&(*v)->waiters, change);
    atomic_thread_fence(memory_order_seq_cst);
}

static int whoever_dies(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

int loci_view_wait_until(struct loco_view *v, int (*is_so)(void *arg), void *arg,
                         int64_t timeout_ns)
{
    const struct loci_reason why = {
        .what = v->ep->name, .peer = -1, .broken = whoever_dies, .timeout_ns = timeout_ns,
        .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_VIEW, .announce = announce,
    };

    return loci_wait(v->rt, &why, is_so, arg);
}

static int is_there(void *arg)
{
    const struct view_wait *wait = arg;
    struct loco_view *v = wait->v;
    bool in;
    int status;

    pthread_mutex_lock(&v->lock);
    status = v->status;
    in = loci_view_has(v->present, v->rank);
    pthread_mutex_unlock(&v->lock);
    if (status != LOCO_OK || in == (wait->number != 0))
        return status != LOCO_OK ? status : 1;
    return is_in_callback(v) ? LOCO_ERR_AGAIN : 0;
}

/* Ask for what is not so. */
static int ask(struct loco_view *v, const char *name, bool in, int64_t timeout_ns)
{
    struct view_wait wait = { v, in };
    int status = loci_check_timeout(v->rt, name, v->ep->name, timeout_ns);

    if (status != LOCO_OK)
        return status;
    pthread_mutex_lock(&v->lock);
    if (loci_view_wishes_in(v, v->rank, atomic_load(&v->asks)) != in)
        atomic_fetch_add(&v->asks, 1);
    pthread_mutex_unlock(&v->lock);
    news(v);
    return loci_view_wait_until(v, is_there, &wait, timeout_ns);
}

int loco_view_join(loco_view_t *v, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(v->ep->calls, LOCI_CALL_JOIN, 0);

    return loci_call_end(self, ask(v, "loco_view_join", true, timeout_ns));
}

int loco_view_leave(loco_view_t *v, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(v->ep->calls, LOCI_CALL_LEAVE, 0);

    return loci_call_end(self, ask(v, "loco_view_leave", false, timeout_ns));
}

static int wait_for_view(loco_view_t *v, uint64_t number, int64_t timeout_ns)
{
    struct view_wait wait = { v, number };
    int status = loci_check_timeout(v->rt, "loco_view_wait", v->ep->name, timeout_ns);

    return status != LOCO_OK ? status : loci_view_wait_until(v, has_come, &wait, timeout_ns);
}

int loco_view_wait(loco_view_t *v, uint64_t number, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(v->ep->calls, LOCI_CALL_WAIT, 0);

    return loci_call_end(self, wait_for_view(v, number, timeout_ns));
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: who comes. See view.c. Processes outside have mapped all memory like all others, and are
 * told all words, and what is decided; they take part in nothing.
 *
 *   ask      who is outside asks to come, a member to go, in turn: so a word that grows says which.
 *            It has told how many messages it had sent. Whoever sees that wedges; the leader then
 *            proposes members that are what all have asked for. Before others cut, they have seen
 *            that who comes has asked as often as the leader saw
 *   enter    who is outside finds that somebody has installed a view of which it is a member, and
 *            says so in its own row: all others who come find it there if the first ones die
 *   start    and that all who live have, but those who come, too: each has told before how many
 *            messages it had sent by then, and has sent none in the view before it had told that.
 *            So it knows where in each ring its first message is. From then on it takes part in
 *            changes, and says what it has like all others: on one node the others deliver without
 *            asking it
 *   give     the member that the leader has chosen does not begin the view before it has given the
 *            state to all who need it, for which it has delivered all of the view before
 *   take     who comes reads a chunk where the giver has it, and says that it has
 *   begin    it has all state, and has passed over what was before: it is a member like any other
 *
 * If the view changes before that, who has not begun has delivered nothing of it; so it needs the
 * state as it is after that view, and begins again: come in the next, with its giver. That one has
 * begun the view. If no such member lives the state is lost, and so is the view. The giver stops to
 * give when somebody dies; if one more wants to come it does not: that one waits. */

#include "config.h"

#include "observe/log.h"
#include "view.h"

/* ---- asking ---- */

static bool is_in(const struct loco_view *v)
{
    return v->stage != LOCI_VIEW_OUT;
}

/* What it has asked for is not so yet. */
bool loci_view_has_asked(const struct loco_view *v)
{
    return loci_view_wishes_in(v, v->rank, v->own[LOCI_VIEW_ASKED]) != is_in(v);
}

static bool is_mapped(const struct loco_view *v)
{
    return __builtin_popcountll(v->own[LOCI_VIEW_READY]) == loci_view_multicasts(v);
}

/* One after the other, and not before it can be fulfilled. */
bool loci_view_ask_holds(struct loco_view *v)
{
    return atomic_load_explicit(&v->asks, memory_order_acquire) != v->own[LOCI_VIEW_ASKED]
           && !loci_view_has_asked(v) && is_mapped(v)
           && (v->stage == LOCI_VIEW_OUT || v->stage == LOCI_VIEW_IN);
}

void loci_view_ask(struct loco_view *v)
{
    if (v->stage == LOCI_VIEW_OUT)
        loci_view_tell_starts(v, LOCI_VIEW_ASKED, v->own[LOCI_VIEW_ASKED] + 1);
    else
        loci_view_tell(v, LOCI_VIEW_ASKED, v->own[LOCI_VIEW_ASKED] + 1);
}

/* ---- coming ---- */

uint64_t loci_view_last(const struct loco_view *v, int rank)
{
    uint64_t installed = loci_view_see(v, rank, LOCI_VIEW_INSTALLED);
    uint64_t entered = loci_view_see(v, rank, LOCI_VIEW_ENTERED);

    return installed > entered ? installed : entered;
}

/* It has not counted for the view after it, whose data are in the same place. */
bool loci_view_is_whole(const struct loco_view *v, int rank, uint64_t last)
{
    return loci_view_last(v, rank) == last
           && loci_view_see(v, rank, LOCI_VIEW_COUNTED) <= last + 1;
}

/* Who knows a view that this process is a member of, and has not heard of; or -1. Also one who is
 * dead by now: what it knew is decided, and others may know it from there. */
static int find_invitation(const struct loco_view *v)
{
    for (int rank = 0; rank < v->size; rank++) {
        uint64_t number;

        number = rank == v->rank ? 0 : loci_view_last(v, rank);
        if (number > v->view && loci_view_is_whole(v, rank, number)
            && loci_view_has(loci_view_see_data(v, rank, number - 1, LOCI_VIEW_NEXT), v->rank))
            return rank;
    }
    return -1;
}

bool loci_view_enter_holds(struct loco_view *v)
{
    return v->stage == LOCI_VIEW_OUT
           && loci_view_wishes_in(v, v->rank, v->own[LOCI_VIEW_ASKED])
           && find_invitation(v) >= 0;
}

/* That member goes no further than to the end of the next view without this one; unless it suspects
 * it, and then this is looked at again. */
void loci_view_enter(struct loco_view *v)
{
    int from = find_invitation(v);
    uint64_t number, asked;

    if (from < 0)
        return;
    number = loci_view_last(v, from);
    for (uint64_t at = 0; at < v->data_words; at++)
        v->copy[at] = loci_view_see_data(v, from, number - 1, at);
    asked = v->copy[LOCI_VIEW_ASKED_AT + v->rank];
    if (!loci_view_is_whole(v, from, number) || asked != v->own[LOCI_VIEW_ASKED])
        return;
    /* Others may not take what is put there for an older view's (loci_view_is_whole). */
    loci_view_tell(v, LOCI_VIEW_COUNTED, number);
    v->view = number - 1;
    for (uint64_t at = 0; at < v->data_words; at++)
        loci_view_put_data(v, at, v->copy[at]);
    loci_view_come(v);
}

void loci_view_come(struct loco_view *v)
{
    loci_view_tell_data(v, LOCI_VIEW_ENTERED, v->view + 1);
    pthread_mutex_lock(&v->lock);
    v->members = loci_view_own_data(v, 0, LOCI_VIEW_NEXT);
    v->gone |= loci_view_own_data(v, 0, LOCI_VIEW_GONE);
    v->out = ~v->members;
    for (int k = 0; k < v->most; k++)
        v->multicast[k].base = loci_view_own_data(v, 0, loci_view_base_at(v, k));
    pthread_mutex_unlock(&v->lock);
    v->needy = loci_view_own_data(v, 0, LOCI_VIEW_NEEDY);
    v->giver = (int)loci_view_own_data(v, 0, LOCI_VIEW_GIVER) - 1;
    v->view++;
    v->stage = LOCI_VIEW_COMING;
}

/* Those who come with this one have told it when they asked, all others when they began. */
static bool knows_start(const struct loco_view *v, int rank)
{
    uint64_t asked;

    if (!loci_view_has(v->needy, rank))
        return loci_view_see(v, rank, LOCI_VIEW_INSTALLED) >= v->view;
    asked = loci_view_own_data(v, 1, LOCI_VIEW_ASKED_AT + (uint64_t)rank);
    return loci_view_see(v, rank, LOCI_VIEW_ASKED) >= asked;
}

bool loci_view_start_holds(struct loco_view *v)
{
    uint64_t living = loci_view_living(v);

    if (v->stage != LOCI_VIEW_COMING)
        return false;
    for (int rank = 0; rank < v->size; rank++)
        if (rank != v->rank && loci_view_has(living, rank) && !knows_start(v, rank))
            return false;
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (!loci_mc_has_room(v->multicast[k].m))
            return false;
    return true;
}

/* The views that it has missed begin where this one does. */
static bool enter_multicast(struct loco_view *v, int k)
{
    struct loci_view_multicast *mc = &v->multicast[k];
    uint64_t starts[LOCI_VIEW_MEMBERS];
    struct loci_mc_next next;

    if (!loci_view_note_place(mc, v->number + 1, v->view, loci_mc_place(mc->m, mc->base)))
        return false;
    next = loci_view_next(v, k, starts);
    next.come = v->members;
    loci_mc_enter(mc->m, &next);
    return true;
}

void loci_view_start_all(struct loco_view *v)
{
    bool entered = true;

    pthread_mutex_lock(&v->lock);
    for (int k = 0; k < loci_view_multicasts(v) && entered; k++)
        entered = enter_multicast(v, k);
    pthread_mutex_unlock(&v->lock);
    v->stage = LOCI_VIEW_LOADING;
    v->loaded = v->chunk == 0;
    v->loaded_at = 0;
    if (!entered)
        loci_view_end(v, LOCO_ERR_NO_MEMORY);
}

/* ---- state ---- */

static struct loci_mem *state(const struct loco_view *v, int rank)
{
    return loci_view_mem(v, rank, LOCI_VIEW_STATE);
}

static bool all_passed(const struct loco_view *v)
{
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (!loci_mc_has_passed(v->multicast[k].m))
            return false;
    return true;
}

static uint64_t to_be_given(const struct loco_view *v)
{
    return v->giving & ~v->own[LOCI_VIEW_SUSPECTED];
}

bool loci_view_resume_holds(struct loco_view *v)
{
    return v->resumes && (to_be_given(v) == 0 || (v->own[LOCI_VIEW_SUSPECTED] & v->members) != 0);
}

void loci_view_resume(struct loco_view *v)
{
    v->resumes = false;
    v->giving = 0;
    loci_view_show(v);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (v->multicast[k].open)
            loci_mc_resume(v->multicast[k].m);
    loci_view_wake(v);
}

/* The last chunk was taken by whom it was for, who may be dead. */
static bool is_taken(const struct loco_view *v, int to)
{
    return to != v->given_to || !v->given
           || loci_view_see(v, to, LOCI_VIEW_TAKEN) == v->own[LOCI_VIEW_GIVEN];
}

bool loci_view_give_holds(struct loco_view *v)
{
    uint64_t to = to_be_given(v);

    return v->resumes && to != 0 && all_passed(v) && is_taken(v, __builtin_ctzll(to));
}

void loci_view_give(struct loco_view *v)
{
    int to = __builtin_ctzll(to_be_given(v));
    unsigned char *at = loci_mem_ptr(state(v, v->rank));
    struct loci_view_chunk chunk = { .to = (uint64_t)to, .view = v->view };
    uint64_t given = v->own[LOCI_VIEW_GIVEN];

    if (to != v->given_to) {
        v->given_to = to;
        v->given_at = 0;
        v->given_all = false;
    }
    v->given = !v->given_all;
    if (v->given_all) {
        v->giving &= ~loci_view_bit(to);
        v->given_to = -1;
        return;
    }
    chunk.at = v->given_at;
    chunk.bytes = v->save(v->changed_arg, v->given_at, at + sizeof chunk, v->chunk);
    loci_copy_in(at, &chunk, sizeof chunk);
    v->given_at += chunk.bytes;
    v->given_all = chunk.bytes == 0;
    given = given >> 32 == v->view ? given + 1 : (v->view << 32) + 1;
    loci_view_tell_one(v, to, LOCI_VIEW_GIVEN, given);
}

static uint64_t given_here(const struct loco_view *v)
{
    return loci_view_see(v, v->giver, LOCI_VIEW_GIVEN);
}

bool loci_view_take_holds(struct loco_view *v)
{
    return v->stage == LOCI_VIEW_LOADING && !v->loaded && !loci_view_is_changing(v)
           && all_passed(v) && !loci_view_has(v->own[LOCI_VIEW_SUSPECTED], v->giver)
           && given_here(v) >> 32 == v->view && given_here(v) != v->looked_at;
}

/* What cannot be read is of who is dead. */
static bool read_chunk(struct loco_view *v, struct loci_view_chunk *chunk)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = loci_read(v->rt, state(v, v->giver), 0, v->taken, sizeof *chunk + v->chunk, &ack);

    if (loco_ack_wait(v->rt, &ack) != LOCO_OK || status != LOCO_OK)
        return false;
    loci_copy_out(chunk, v->taken, sizeof *chunk);
    return chunk->to == (uint64_t)v->rank && chunk->view == v->view && chunk->at == v->loaded_at
           && chunk->bytes <= v->chunk;
}

void loci_view_take(struct loco_view *v)
{
    struct loci_view_chunk chunk;

    v->looked_at = given_here(v);
    if (!read_chunk(v, &chunk))
        return;
    v->load(v->changed_arg, v->loaded_at, v->taken + sizeof chunk, (size_t)chunk.bytes);
    v->loaded_at += chunk.bytes;
    v->loaded = chunk.bytes == 0;
    loci_view_tell_one(v, v->giver, LOCI_VIEW_TAKEN, v->looked_at);
}

/* ---- beginning ---- */

bool loci_view_begin_holds(struct loco_view *v)
{
    return v->stage == LOCI_VIEW_LOADING && v->loaded && !loci_view_is_changing(v)
           && all_passed(v);
}

/* Its multicasts are opened next. */
void loci_view_begin(struct loco_view *v)
{
    v->stage = LOCI_VIEW_IN;
    loci_view_show(v);
    v->view--;                  /* so that who comes with it finds in its row, too, what that is */
    loci_view_tell_data(v, LOCI_VIEW_INSTALLED, v->view + 1);
    v->view++;
    loci_view_wake(v);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Ticket locks.
 *
 * At the host, per lock: the word, a mark for locks that are lost, N slots (a power of two, at
 * least as many as processes); at every process, per lock: a grant word. A process has at most
 * one ticket of a lock at a time (its threads queue here first), so that the slots of outstanding
 * tickets differ.
 *
 *   word        next | serving | sum of names     by fetch-and-add only, but for try
 *   slot        of ticket t: 0, then the name of its owner, or PASSED; whichever comes first; a
 *               name may become LEFT by that name, and that the same name again, or TAKEN
 *   grant       ticket + 1, written by who serves it; reset by its owner before it asks
 *
 * acquire     fetch_add(word, next + 1, names + mine). If serving was the ticket got: held.
 *             Else grant := 0 (own memory), swap(slot, 0 -> name). If the slot had PASSED: held.
 *             Else wait for the grant. Then slot := 0.
 * release     fence; fetch_add(word, serving + 1, names - mine). If a later ticket was out:
 *             swap(its slot, 0 -> PASSED); if it had a name: write that process's grant.
 *
 * Exactly one of the two swaps finds 0, so a turn is passed once: by the mark, or by the grant.
 * The slot's reset is placed before the release (same lane, or fenced when the lock changes
 * threads), and ticket t + N is given out after ticket t was released: a slot is 0 whenever its
 * next owner's neighbours look at it. The reset is a plain store, since both swaps on the slot are
 * done before it and none comes until then (rma.h). The grant is for one ticket, so one of 65536
 * tickets ago is none; it is reset before the swap after which it may come. Fields do not carry:
 * `next` is on top, `serving` is moved by a holder that knows its ticket, the sum never falls
 * below 0.
 *
 * giving up   An owner whose time is over swaps its slot, name -> LEFT | name, and then looks at
 *             the word. If its turn has not come, who passes it the turn will move `serving` after
 *             that, and find LEFT: the ticket stays out, and nobody waits with it. If its turn has
 *             come, the swap LEFT | name -> name tells: done, and the grant is certain to come, so
 *             it is waited for, and held; not done, and the ticket was taken over.
 * coming back A process has one ticket: where one is LEFT it swaps LEFT | name -> name, and is
 *             where it was in the line; or finds it taken over, and draws another.
 * taking over Who passes the turn and finds LEFT swaps LEFT | name -> TAKEN | its own, replaces the
 *             other's name in the sum by its own, resets the slot, and releases that ticket as its
 *             own. Should the swap find the name, the owner has come back, and is granted its turn.
 *             The reset is a swap: the owner's may come at any time. All this costs nobody who
 *             finds a name.
 *
 * Threads of one process that wait with a limit have no place in its queue: they enter when it is
 * empty.
 *
 * If a process stops: before its fetch_add or after its release: nobody cares. With a ticket: the
 * sum and the slots name it, see ticket_state.c. */

#include "config.h"

#include <stdlib.h>

#include "observe/mistake.h"
#include "ticket_lock.h"
#include "wait.h"

#define LOOK_EVERY INT64_C(20000000)    /* ns between looks at the queue once a member is dead */

/* ---- threads of this process ---- */

struct local_wait {
    struct loco_ticket_lock *lock;
    uint32_t number;
};

static int is_local_turn(void *arg)
{
    struct local_wait *wait = arg;

    /* Acquire: pairs with the release in leave(). */
    return atomic_load_explicit(&wait->lock->serving, memory_order_acquire) == wait->number;
}

static int enter(struct loco_ticket_lock *lock)
{
    const struct loci_reason why = {
        .what = "threads of this process at a ticket lock", .peer = -1,
        .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_LOCK, .bell = LOCI_BELL_TICKET,
    };
    struct local_wait wait = {
        lock, atomic_fetch_add_explicit(&lock->next, 1, memory_order_acquire)
    };

    if (is_local_turn(&wait))
        return LOCO_OK;
    return loci_wait(lock->rt, &why, is_local_turn, &wait);
}

static bool try_enter(struct loco_ticket_lock *lock)
{
    uint32_t number = atomic_load_explicit(&lock->serving, memory_order_acquire);

    return atomic_compare_exchange_strong_explicit(&lock->next, &number, number + 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* For a thread that may give up: without a place in the queue. */
static int is_entered(void *arg)
{
    return try_enter(arg);
}

static int enter_until(struct loco_ticket_lock *lock, int64_t deadline)
{
    const struct loci_reason why = {
        .what = "threads of this process at a ticket lock", .peer = -1,
        .timeout_ns = loci_time_left(lock->rt, deadline), .kind = LOCI_WAIT_LOCK,
        .bell = LOCI_BELL_TICKET,
    };
    int status;

    if (deadline == LOCI_NEVER)
        return enter(lock);
    if (try_enter(lock))
        return LOCO_OK;
    atomic_fetch_add_explicit(&lock->without, 1, memory_order_seq_cst);
    status = loci_wait(lock->rt, &why, is_entered, lock);
    atomic_fetch_sub_explicit(&lock->without, 1, memory_order_relaxed);
    return status;
}

static bool others_wait(const struct loco_ticket_lock *lock)
{
    return atomic_load_explicit(&lock->next, memory_order_relaxed)
           != atomic_load_explicit(&lock->serving, memory_order_relaxed) + 1;
}

/* Whoever may sleep for it has counted itself here before it did so there, so the fence that makes
 * a signaller see the bell (bell.c) makes it see this, too; and this is where it is anyway. */
static void leave(struct loco_ticket_lock *lock)
{
    uint32_t number = atomic_load_explicit(&lock->serving, memory_order_relaxed);

    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    atomic_store_explicit(&lock->serving, number + 1, memory_order_release);
    loci_before_signal(lock->rt);
    if (atomic_load_explicit(&lock->next, memory_order_relaxed) != number + 1
        || atomic_load_explicit(&lock->without, memory_order_relaxed) != 0)
        loci_signal(lock->rt, LOCI_SELF, LOCI_BELL_TICKET);
}

/* ---- processes ---- */

struct turn_wait {
    struct loco_ticket_lock *lock;
    const unsigned char *grant;
    unsigned ticket;
    int64_t next_look, still_since;
    uint64_t still;
};

static int is_granted(void *arg)
{
    struct turn_wait *wait = arg;
    struct loco_runtime *rt = wait->lock->rt;
    /* Before the grant: what was granted before a death counts. */
    unsigned deaths = atomic_load_explicit(&rt->deaths, memory_order_acquire);
    int64_t now;

    if (loci_load64(wait->grant) == wait->ticket + 1)
        return 1;
    if (deaths == 0)
        return 0;
    now = loci_now(rt);
    if (now < wait->next_look)
        return 0;
    wait->next_look = now + LOOK_EVERY;
    return loci_ticket_check(wait->lock, wait->ticket, &wait->still_since, &wait->still);
}

static int wait_for_grant(struct loco_ticket_lock *lock, int64_t deadline)
{
    const struct loco_ticket_array *array = lock->array;
    const struct loci_reason why = {
        .what = array->ep->name, .peer = -1, .timeout_ns = loci_time_left(lock->rt, deadline),
        .kind = LOCI_WAIT_LOCK, .what_for = LOCI_FOR_TICKET_LOCK, .bell = LOCI_BELL_TICKET,
    };
    struct loci_mem *mine = loci_endpoint_mem(array->ep, array->ep->group.rank,
                                              LOCI_TICKET_GRANTS);
    struct turn_wait wait = { lock, loci_mem_ptr(mine) + lock->grant, lock->ticket, 0, 0, 0 };

    return loci_wait(lock->rt, &why, is_granted, &wait);
}

/* The slot of our ticket, from `seen` to `desired`; *done: it was so. */
static int swap_slot(struct loco_ticket_lock *lock, uint64_t seen, uint64_t desired, bool *done)
{
    uint64_t old = 0;
    int status = loci_compare_swap(lock->rt, lock->mem, loci_ticket_slot(lock, lock->ticket), seen,
                                   desired, &old, NULL);

    *done = status == LOCO_OK && old == seen;
    return status;
}

/* Our time is over: LOCO_ERR_TIMEOUT, or LOCO_OK where the turn came just then. The word is looked
 * at by an atomic, which has its place among those that move it. */
static int give_up(struct loco_ticket_lock *lock)
{
    uint64_t name = lock->array->name, word;
    bool done;
    int status = swap_slot(lock, name, LOCI_TICKET_LEFT | name, &done);

    if (status == LOCO_OK)
        status = loci_fetch_add(lock->rt, lock->mem, lock->record + LOCI_TICKET_WORD, 0, &word,
                                NULL);
    if (status != LOCO_OK)
        return status;
    if (loci_ticket_serving(word) != lock->ticket) {
        lock->left = true;
        return LOCO_ERR_TIMEOUT;
    }
    status = swap_slot(lock, LOCI_TICKET_LEFT | name, name, &done);
    if (status != LOCO_OK)
        return status;
    return done ? wait_for_grant(lock, LOCI_NEVER) : LOCO_ERR_TIMEOUT;
}

/* Our name is in the slot. */
static int wait_in_line(struct loco_ticket_lock *lock, int64_t deadline)
{
    int status = wait_for_grant(lock, deadline);

    return status == LOCO_ERR_TIMEOUT ? give_up(lock) : status;
}

static int wait_turn(struct loco_ticket_lock *lock, int64_t deadline)
{
    const struct loco_ticket_array *array = lock->array;
    struct loci_mem *mine = loci_endpoint_mem(array->ep, array->ep->group.rank,
                                              LOCI_TICKET_GRANTS);
    uint64_t slot = loci_ticket_slot(lock, lock->ticket), old = 0;
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    if (!lock->back) {
        loci_store64(loci_mem_ptr(mine) + lock->grant, 0);
        status = loci_compare_swap(lock->rt, lock->mem, slot, 0, array->name, &old, NULL);
    }
    lock->back = false;
    if (status == LOCO_OK && old == 0)
        status = wait_in_line(lock, deadline);
    if (status != LOCO_OK)
        return status;
    lock->slot_used = true;
    /* In flight, and placed before the release: nobody needs it earlier. */
    return loci_write64(lock->rt, lock->mem, slot, 0, &ack);
}

static uint64_t ticket_unit(const struct loco_ticket_lock *lock)
{
    return (UINT64_C(1) << LOCI_TICKET_NEXT_SHIFT) + lock->array->name;
}

static bool host_is_dead(const struct loco_ticket_lock *lock)
{
    return atomic_load_explicit(&lock->rt->deaths, memory_order_relaxed) != 0
           && !loci_peer_alive(lock->rt, lock->host);
}

static int draw_ticket(struct loco_ticket_lock *lock, bool *served)
{
    uint64_t old;
    int status = loci_fetch_add(lock->rt, lock->mem, lock->record + LOCI_TICKET_WORD,
                                ticket_unit(lock), &old, NULL);

    if (status != LOCO_OK)
        return status;
    lock->ticket = loci_ticket_next(old);
    *served = loci_ticket_serving(old) == lock->ticket;
    return LOCO_OK;
}

/* To the place in line that was left, if nobody has taken it over. A swap that was flushed behind a
 * refusal was not done: the place is still left. */
static int come_back(struct loco_ticket_lock *lock)
{
    uint64_t name = lock->array->name;
    int status = swap_slot(lock, LOCI_TICKET_LEFT | name, name, &lock->back);

    lock->left = status == LOCO_ERR_RANGE;
    return status;
}

static int take(struct loco_ticket_lock *lock, int64_t deadline)
{
    bool served = false;
    int status = LOCO_OK;

    if (lock->lost != LOCO_OK || host_is_dead(lock))
        return LOCO_ERR_PEER_DEAD;
    if (lock->left) {
        status = come_back(lock);
        if (lock->left)
            return status;
    }
    if (status == LOCO_OK && !lock->back) {
        status = draw_ticket(lock, &served);
        if (status != LOCO_OK)
            return status;
    }
    if (status == LOCO_OK && !served)
        status = wait_turn(lock, deadline);
    if (status == LOCO_ERR_TIMEOUT)
        return status;
    if (status != LOCO_OK) {
        /* Our ticket stays out: no second one may be taken. */
        lock->lost = status;
        return status;
    }
    lock->ours = true;
    lock->handovers = 0;
    return LOCO_OK;
}

/* Move on from our ticket, and our name out. */
static uint64_t release_step(const struct loco_ticket_lock *lock)
{
    uint64_t one = UINT64_C(1) << LOCI_TICKET_SERVING_SHIFT;

    return (lock->ticket == 0xffff ? 0 - one * 0xffff : one) - lock->array->name;
}

/* Nobody waits with this ticket, which is served: it becomes ours, to be released. *found: what its
 * slot has; a plain name where its owner was faster. */
static int take_over(struct loco_ticket_lock *lock, unsigned ticket, uint64_t *found, bool *taken)
{
    uint64_t name = lock->array->name, theirs = *found & ~LOCI_TICKET_LEFT, old;
    uint64_t slot = loci_ticket_slot(lock, ticket);
    int status = loci_compare_swap(lock->rt, lock->mem, slot, *found, LOCI_TICKET_TAKEN | name,
                                   &old, NULL);

    *taken = status == LOCO_OK && old == *found;
    if (status != LOCO_OK || !*taken) {
        *found = old;
        return status;
    }
    lock->ticket = ticket;
    status = loci_fetch_add(lock->rt, lock->mem, lock->record + LOCI_TICKET_WORD, name - theirs,
                            &old, NULL);
    if (status == LOCO_OK)
        status = loci_compare_swap(lock->rt, lock->mem, slot, LOCI_TICKET_TAKEN | name, 0, &old,
                                   NULL);
    return status;
}

static int grant(struct loco_ticket_lock *lock, unsigned ticket, uint64_t name)
{
    struct loco_ticket_array *array = lock->array;
    loco_ack_t ack = LOCO_ACK_INIT;
    struct loci_mem *theirs;
    int status;

    if (name < 1 || name > (uint64_t)array->ep->group.size)
        return LOCO_ERR_PROTOCOL;
    theirs = loci_endpoint_mem(array->ep, (int)name - 1, LOCI_TICKET_GRANTS);
    status = loci_write64_signalled(lock->rt, theirs, lock->grant, (uint64_t)ticket + 1, &ack,
                                    LOCI_BELL_TICKET);
    /* That it died while it waited is for those behind it to find out. */
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* *taken: the ticket was left by its owner, is ours now, and is to be released in its turn. */
static int pass_on(struct loco_ticket_lock *lock, unsigned ticket, bool *taken)
{
    uint64_t name;
    int status = loci_compare_swap(lock->rt, lock->mem, loci_ticket_slot(lock, ticket), 0,
                                   LOCI_TICKET_PASSED, &name, NULL);

    *taken = false;
    if (status != LOCO_OK || name == 0)
        return status;
    if ((name & LOCI_TICKET_LEFT) != 0) {
        status = take_over(lock, ticket, &name, taken);
        if (status != LOCO_OK || *taken)
            return status;
    }
    return grant(lock, ticket, name);
}

static int give(struct loco_ticket_lock *lock)
{
    uint64_t word = lock->record + LOCI_TICKET_WORD;
    int status = LOCO_OK, lost = LOCO_OK;
    bool again = true;

    lock->ours = false;
    lock->slot_used = false;
    while (status == LOCO_OK && again) {
        unsigned next = (lock->ticket + 1) & 0xffff;
        uint64_t step = release_step(lock), old;

        again = false;
        status = loci_fetch_add(lock->rt, lock->mem, word, step, &old, NULL);
        status = loci_add_again(lock->rt, lock->mem, word, step, &old, status, &lost);
        if (status == LOCO_OK && loci_ticket_next(old) != next)
            status = pass_on(lock, next, &again);
    }
    if (status != LOCO_OK)
        lock->lost = status;
    return status != LOCO_OK ? status : lost;
}

/* The fence of a release. Where no atomic to the host follows, or one that orders nothing,
 * LOCO_ORDER must be a real one. The slots are where the word is: a lane's operations on them are
 * in order. */
static int fence(struct loco_ticket_lock *lock, enum loco_fence_scope scope, int peer, bool local)
{
    int status = LOCO_OK;

    if (local && (lock->slot_used || scope == LOCO_ORDER)) {
        status = loci_fence_peer(lock->rt, LOCO_FENCE_PAIR, lock->host);
        lock->slot_used = false;
    } else if (scope == LOCO_ORDER) {
        status = loci_order(lock->rt, lock->mem);
    }
    if (scope != LOCO_FENCE_NONE && scope != LOCO_ORDER) {
        int scoped = loco_fence(lock->rt, scope, peer);

        status = status == LOCO_OK ? scoped : status;
    }
    return status;
}

/* ---- calls ---- */

static int held_already(const struct loco_ticket_lock *lock, const char *call)
{
    return loci_mistake(lock->rt, LOCO_ERR_STATE, call, lock->array->ep->name,
                        "this thread holds it already");
}

static int acquire(loco_ticket_lock_t *lock, const char *call, int64_t deadline)
{
    void *self = loci_self(lock->rt);
    int status;

    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self)
        return held_already(lock, call);
    status = enter_until(lock, deadline);
    if (status != LOCO_OK)
        return status;
    if (!lock->ours) {
        status = take(lock, deadline);
        if (status != LOCO_OK) {
            leave(lock);
            return status;
        }
    }
    atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
    return LOCO_OK;
}

int loco_ticket_lock_acquire(loco_ticket_lock_t *lock)
{
    struct loci_thread *self = loci_call_begin(lock->array->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire(lock, "loco_ticket_lock_acquire", LOCI_NEVER));
}

int loco_ticket_lock_acquire_timed(loco_ticket_lock_t *lock, int64_t timeout_ns)
{
    const char *call = "loco_ticket_lock_acquire_timed";
    int status = loci_check_timeout(lock->rt, call, lock->array->ep->name, timeout_ns);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(lock->array->ep->calls, LOCI_CALL_ACQUIRE, 0);
    return loci_call_end(self, acquire(lock, call, loci_deadline(lock->rt, timeout_ns)));
}

static int try_take(struct loco_ticket_lock *lock)
{
    uint64_t word, old;
    int status;

    if (lock->lost != LOCO_OK || host_is_dead(lock))
        return LOCO_ERR_PEER_DEAD;
    status = loci_read64(lock->rt, lock->mem, lock->record + LOCI_TICKET_WORD, &word, NULL);
    if (status != LOCO_OK)
        return status;
    if (loci_ticket_next(word) != loci_ticket_serving(word))
        return LOCO_ERR_AGAIN;
    status = loci_compare_swap(lock->rt, lock->mem, lock->record + LOCI_TICKET_WORD, word,
                               word + ticket_unit(lock), &old, NULL);
    if (status != LOCO_OK)
        return status;
    if (old != word)
        return LOCO_ERR_AGAIN;
    lock->ticket = loci_ticket_next(word);
    lock->left = false;         /* it was taken over, or the word would not be free */
    lock->ours = true;
    lock->handovers = 0;
    return LOCO_OK;
}

static int try_acquire(loco_ticket_lock_t *lock)
{
    void *self = loci_self(lock->rt);
    int status = LOCO_OK;

    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self)
        return held_already(lock, "loco_ticket_lock_try_acquire");
    if (!try_enter(lock))
        return LOCO_ERR_AGAIN;
    if (!lock->ours)
        status = try_take(lock);
    if (status != LOCO_OK) {
        leave(lock);
        return status;
    }
    atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
    return LOCO_OK;
}

int loco_ticket_lock_try_acquire(loco_ticket_lock_t *lock)
{
    struct loci_thread *self = loci_call_begin(lock->array->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, try_acquire(lock));
}

#define RELEASE "loco_ticket_lock_release"

static int release(loco_ticket_lock_t *lock, enum loco_fence_scope scope, int peer)
{
    bool local;
    int fenced, given = LOCO_OK;
    int status = loci_check_scope(lock->rt, RELEASE, lock->array->ep->name, scope, peer);

    if (status != LOCO_OK)
        return status;
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != loci_self(lock->rt))
        return loci_mistake(lock->rt, LOCO_ERR_STATE, RELEASE, lock->array->ep->name,
                            "this thread does not hold it");
    local = others_wait(lock) && lock->handovers < lock->rt->tunables.lock_handovers;
    fenced = fence(lock, scope, peer, local);
    if (local)
        lock->handovers++;
    else
        given = give(lock);
    leave(lock);
    return fenced != LOCO_OK ? fenced : given;
}

int loco_ticket_lock_release(loco_ticket_lock_t *lock, enum loco_fence_scope scope, int peer)
{
    struct loci_thread *self = loci_call_begin(lock->array->ep->calls, LOCI_CALL_RELEASE, 0);

    return loci_call_end(self, release(lock, scope, peer));
}

/* ---- life ---- */

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

static void set_up(struct loco_ticket_array *array, int first_host, size_t stride)
{
    struct loco_group *group = &array->ep->group;

    array->name = (uint64_t)group->rank + 1;
    for (int i = 0; i < array->count; i++) {
        struct loco_ticket_lock *lock = &array->lock[i];
        int host = (first_host + i) % group->size;

        lock->rt = array->rt;
        lock->array = array;
        lock->mem = loci_endpoint_mem(array->ep, host, LOCI_TICKET_RECORDS);
        lock->host = group->peer[host];
        lock->record = (uint64_t)(i / group->size) * stride;
        lock->grant = (uint64_t)i * sizeof(uint64_t);
    }
}

static int check_arguments(loco_runtime_t *rt, const char *call, const char *name,
                           const loco_group_t *group, int count, int host)
{
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK && group->size > LOCI_TICKET_MEMBERS_MAX)
        status = loci_bad_arg(rt, call, name, "the size of the group", group->size, "1 to %d",
                              LOCI_TICKET_MEMBERS_MAX);
    if (status == LOCO_OK && count < 1)
        status = loci_bad_arg(rt, call, name, "count", count, "at least 1");
    return status != LOCO_OK ? status
           : loci_check_rank(rt, call, name, "host", host, group->size);
}

static void destroy_forgotten(void *array)
{
    loco_ticket_array_destroy(array);
}

static int create(loco_runtime_t *rt, const char *call, const char *parent, const char *name,
                  const loco_group_t *group, int count, int first_host,
                  struct loco_ticket_array **out)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "ticket_lock",
        .property = { { "count", (uint64_t)count }, { "host", (uint64_t)first_host } },
        .nregions = 2, .words = 1u << LOCI_TICKET_RECORDS,
    };
    struct loco_ticket_array *array;
    size_t slots = 1, stride, size;
    int status = check_arguments(rt, call, name, group, count, first_host);

    if (status != LOCO_OK)
        return status;
    size = (size_t)loco_group_size(group);
    while (slots < size)
        slots *= 2;
    stride = round_up(LOCI_TICKET_SLOTS + slots * 8, LOCI_CACHE_LINE);
    spec.region[LOCI_TICKET_RECORDS] = (struct loci_region_spec){
        "records", ((size_t)count + size - 1) / size * stride, 0, LOCI_FROM_ALL
    };
    spec.region[LOCI_TICKET_GRANTS] = (struct loci_region_spec){
        "grants", (size_t)count * sizeof(uint64_t), 0, LOCI_FROM_ALL
    };
    array = calloc(1, sizeof *array);
    if (array != NULL)
        array->lock = calloc((size_t)count, sizeof array->lock[0]);
    if (array == NULL || array->lock == NULL) {
        free(array);
        return LOCO_ERR_NO_MEMORY;
    }
    array->rt = rt;
    array->count = count;
    array->slots = (unsigned)slots;
    status = loci_endpoint_create(rt, &spec, &array->ep);
    if (status != LOCO_OK) {
        free(array->lock);
        free(array);
        return status;
    }
    loci_endpoint_is_of(array->ep, destroy_forgotten, array);
    set_up(array, first_host, stride);
    *out = array;
    return LOCO_OK;
}

int loco_ticket_array_create(loco_runtime_t *rt, const char *parent, const char *name,
                             const loco_group_t *group, int count, loco_ticket_array_t **array)
{
    return create(rt, "loco_ticket_array_create", parent, name, group, count, 0, array);
}

void loco_ticket_array_destroy(loco_ticket_array_t *array)
{
    if (array == NULL)
        return;
    loci_endpoint_destroy(array->ep);
    free(array->lock);
    free(array);
}

loco_ticket_lock_t *loco_ticket_array_at(loco_ticket_array_t *array, int i)
{
    return i < 0 || i >= array->count ? NULL : &array->lock[i];
}

int loco_ticket_lock_create(loco_runtime_t *rt, const char *parent, const char *name,
                            const loco_group_t *group, int host, loco_ticket_lock_t **lock)
{
    struct loco_ticket_array *array;
    int status = create(rt, "loco_ticket_lock_create", parent, name, group, 1, host, &array);

    if (status == LOCO_OK)
        *lock = &array->lock[0];
    return status;
}

void loco_ticket_lock_destroy(loco_ticket_lock_t *lock)
{
    if (lock != NULL)
        loco_ticket_array_destroy(lock->array);
}

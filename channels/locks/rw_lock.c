/* SPDX-License-Identifier: BSD-3-Clause */

/* Reader-writer locks: names, memory and checks around the protocol of rw_word.h. How many
 * holders this process has of each is counted here, so that a release of what is not held is an
 * error and not a broken word. */

#include "config.h"

#include <stdlib.h>

#include "names/endpoint.h"
#include "observe/mistake.h"
#include "rw_lock.h"
#include "rw_pair.h"
#include "wait.h"

/* ORDER is the release's own atomic, in host memory: it is executed there after the writes before
 * it. Of a member's exclusive lock that is the member's word; the group's follows when that is
 * done. */
static int fence_for(struct loco_runtime *rt, const struct loci_rw *rw,
                     enum loco_fence_scope scope, int peer)
{
    if (scope == LOCO_FENCE_NONE)
        return LOCO_OK;
    if (scope == LOCO_ORDER)
        return loci_order(rt, rw->mem);
    return loco_fence(rt, scope, peer);
}

/* One holder less, if there is one. */
static bool take_one(_Atomic int *holders)
{
    int n = atomic_load_explicit(holders, memory_order_relaxed);

    while (n > 0)
        if (atomic_compare_exchange_weak_explicit(holders, &n, n - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* One holder less, for a release that may go on; of a wrong one nothing is done. */
static int may_release(struct loco_runtime *rt, const char *call, const char *name,
                       _Atomic int *holders, enum loco_fence_scope scope, int peer)
{
    int status = loci_check_scope(rt, call, name, scope, peer);

    if (status == LOCO_OK && !take_one(holders))
        status = loci_mistake(rt, LOCO_ERR_STATE, call, name, "this process does not hold it so");
    return status;
}

static int count_one(int status, _Atomic int *holders)
{
    if (status == LOCO_OK)
        atomic_fetch_add_explicit(holders, 1, memory_order_relaxed);
    return status;
}

/* ---- one lock ---- */

struct loco_rw_lock {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    struct loci_rw rw;
    _Atomic uint64_t free_word;         /* struct loci_rw */
    struct loci_rw_tries tries;
    _Atomic int holders[2];             /* of this process, by mode */
};

static void destroy_forgotten(void *lock)
{
    loco_rw_lock_destroy(lock);
}

int loco_rw_lock_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, int host, loco_rw_lock_t **out)
{
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "rw_lock", .property = { { "host", (uint64_t)host } }, .nregions = 1,
        .region = { { "word", sizeof(uint64_t), 0, host } }, .words = 1,
    };
    struct loco_rw_lock *lock;
    int status;

    status = loci_check_group(rt, "loco_rw_lock_create", name, group);
    if (status == LOCO_OK)
        status = loci_check_rank(rt, "loco_rw_lock_create", name, "host", host, group->size);
    if (status != LOCO_OK)
        return status;
    lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return LOCO_ERR_NO_MEMORY;
    lock->rt = rt;
    status = loci_endpoint_create(rt, &spec, &lock->ep);
    if (status != LOCO_OK) {
        free(lock);
        return status;
    }
    loci_endpoint_is_of(lock->ep, destroy_forgotten, lock);
    lock->rw.mem = loci_endpoint_mem(lock->ep, host, 0);
    lock->rw.group = &lock->ep->group;
    lock->rw.what = lock->ep->name;
    lock->rw.what_for = LOCI_FOR_RW_LOCK;
    lock->rw.free_word = &lock->free_word;
    lock->rw.wake = loci_rw_wake_sleepers;
    *out = lock;
    return LOCO_OK;
}

void loco_rw_lock_destroy(loco_rw_lock_t *lock)
{
    if (lock == NULL)
        return;
    loci_endpoint_destroy(lock->ep);
    free(lock);
}

const struct loci_mem *loci_rw_lock_mem(const loco_rw_lock_t *lock)
{
    return lock->rw.mem;
}

const unsigned char *loci_rw_lock_word(const loco_rw_lock_t *lock)
{
    const unsigned char *p = loci_mem_ptr(lock->rw.mem);

    return p == NULL ? NULL : p + lock->rw.offset;
}

int loco_rw_lock_acquire_shared(loco_rw_lock_t *lock)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, count_one(loci_rw_acquire(lock->rt, &lock->rw, LOCI_RW_SHARED, 0),
                                         &lock->holders[LOCI_RW_SHARED]));
}

int loco_rw_lock_acquire_exclusive(loco_rw_lock_t *lock)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, count_one(loci_rw_acquire(lock->rt, &lock->rw, LOCI_RW_EXCLUSIVE,
                                         0), &lock->holders[LOCI_RW_EXCLUSIVE]));
}

static int acquire_timed(loco_rw_lock_t *lock, const char *call, enum loci_rw_mode mode,
                         int64_t timeout_ns)
{
    int status = loci_check_timeout(lock->rt, call, lock->ep->name, timeout_ns);

    if (status != LOCO_OK)
        return status;
    return count_one(loci_rw_acquire_until(lock->rt, &lock->rw, mode, 0,
                                           loci_deadline(lock->rt, timeout_ns)),
                     &lock->holders[mode]);
}

int loco_rw_lock_acquire_shared_timed(loco_rw_lock_t *lock, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_timed(lock, "loco_rw_lock_acquire_shared_timed",
                                             LOCI_RW_SHARED, timeout_ns));
}

int loco_rw_lock_acquire_exclusive_timed(loco_rw_lock_t *lock, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_timed(lock, "loco_rw_lock_acquire_exclusive_timed",
                                             LOCI_RW_EXCLUSIVE, timeout_ns));
}

int loco_rw_lock_try_shared(loco_rw_lock_t *lock)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, count_one(loci_rw_try(lock->rt, &lock->rw, LOCI_RW_SHARED,
                                         &lock->tries), &lock->holders[LOCI_RW_SHARED]));
}

int loco_rw_lock_try_exclusive(loco_rw_lock_t *lock)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, count_one(loci_rw_try(lock->rt, &lock->rw, LOCI_RW_EXCLUSIVE,
                                         &lock->tries), &lock->holders[LOCI_RW_EXCLUSIVE]));
}

static int release(loco_rw_lock_t *lock, enum loci_rw_mode mode, enum loco_fence_scope scope,
                   int peer)
{
    const char *call = mode == LOCI_RW_SHARED ? "loco_rw_lock_release_shared"
                                              : "loco_rw_lock_release_exclusive";
    int fenced, released = may_release(lock->rt, call, lock->ep->name, &lock->holders[mode],
                                       scope, peer);

    if (released != LOCO_OK)
        return released;
    fenced = fence_for(lock->rt, &lock->rw, scope, peer);
    released = loci_rw_release(lock->rt, &lock->rw, mode);
    return fenced != LOCO_OK ? fenced : released;
}

int loco_rw_lock_release_shared(loco_rw_lock_t *lock, enum loco_fence_scope scope, int peer)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_RELEASE, 0);

    return loci_call_end(self, release(lock, LOCI_RW_SHARED, scope, peer));
}

int loco_rw_lock_release_exclusive(loco_rw_lock_t *lock, enum loco_fence_scope scope, int peer)
{
    struct loci_thread *self = loci_call_begin(lock->ep->calls, LOCI_CALL_RELEASE, 0);

    return loci_call_end(self, release(lock, LOCI_RW_EXCLUSIVE, scope, peer));
}

int loco_rw_lock_holder(loco_rw_lock_t *lock, int *rank)
{
    return loci_rw_holder(lock->rt, &lock->rw, rank);
}

/* ---- a group of locks ---- */

struct held {
    _Atomic int holders[2];
    _Atomic uint64_t free_word;
};

struct loco_rw_group {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int count;
    _Atomic int all;                    /* holders of all members in this process, */
    _Atomic int parts;                  /* and of single ones, exclusive */
    struct held *held;                  /* by member */
};

enum { ALL_WORD, MEMBER_WORDS };

static void destroy_forgotten_group(void *locks)
{
    loco_rw_group_destroy(locks);
}

int loco_rw_group_create(loco_runtime_t *rt, const char *parent, const char *name,
                         const loco_group_t *group, int count, loco_rw_group_t **out)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "rw_group", .property = { { "count", (uint64_t)count } }, .nregions = 2,
        .region = { [ALL_WORD] = { "all", sizeof(uint64_t), 0, 0 } },
        .words = 1u << ALL_WORD | 1u << MEMBER_WORDS,
    };
    struct loco_rw_group *locks;
    int status, size;

    status = loci_check_group(rt, "loco_rw_group_create", name, group);
    if (status == LOCO_OK && count < 1)
        status = loci_bad_arg(rt, "loco_rw_group_create", name, "count", count, "at least 1");
    if (status != LOCO_OK)
        return status;
    size = loco_group_size(group);
    spec.region[MEMBER_WORDS] = (struct loci_region_spec){
        "members", ((size_t)count + (size_t)size - 1) / (size_t)size * LOCI_CACHE_LINE, 0,
        LOCI_FROM_ALL
    };
    locks = calloc(1, sizeof *locks);
    if (locks != NULL)
        locks->held = calloc((size_t)count, sizeof locks->held[0]);
    if (locks == NULL || locks->held == NULL) {
        free(locks);
        return LOCO_ERR_NO_MEMORY;
    }
    locks->rt = rt;
    locks->count = count;
    status = loci_endpoint_create(rt, &spec, &locks->ep);
    if (status != LOCO_OK) {
        free(locks->held);
        free(locks);
        return status;
    }
    loci_endpoint_is_of(locks->ep, destroy_forgotten_group, locks);
    *out = locks;
    return LOCO_OK;
}

void loco_rw_group_destroy(loco_rw_group_t *locks)
{
    if (locks == NULL)
        return;
    loci_endpoint_destroy(locks->ep);
    free(locks->held);
    free(locks);
}

static struct loci_rw all_word(loco_rw_group_t *locks)
{
    return (struct loci_rw){ loci_endpoint_mem(locks->ep, 0, ALL_WORD), 0, &locks->ep->group,
                             locks->ep->name, NULL, &locks->parts, loci_rw_wake_sleepers,
                             LOCI_FOR_RW_LOCK };
}

static struct loci_rw member_word(loco_rw_group_t *locks, int member)
{
    int size = locks->ep->group.size;

    return (struct loci_rw){ loci_endpoint_mem(locks->ep, member % size, MEMBER_WORDS),
                             (uint64_t)(member / size) * LOCI_CACHE_LINE, &locks->ep->group,
                             locks->ep->name, &locks->held[member].free_word, NULL,
                             loci_rw_wake_sleepers, LOCI_FOR_RW_LOCK };
}

static int check_member(const loco_rw_group_t *locks, const char *call, int member)
{
    return loci_check_rank(locks->rt, call, locks->ep->name, "member", member, locks->count);
}

static int acquire_shared(loco_rw_group_t *locks, const char *call, int member, bool nested,
                          int64_t timeout_ns)
{
    int status = check_member(locks, call, member);
    struct loci_rw rw;

    if (status == LOCO_OK)
        status = loci_check_timeout(locks->rt, call, locks->ep->name, timeout_ns);
    if (status != LOCO_OK)
        return status;
    rw = member_word(locks, member);
    return count_one(loci_rw_acquire_until(locks->rt, &rw, LOCI_RW_SHARED,
                                           nested ? LOCI_RW_NESTED : 0,
                                           loci_deadline(locks->rt, timeout_ns)),
                     &locks->held[member].holders[LOCI_RW_SHARED]);
}

static int acquire_exclusive(loco_rw_group_t *locks, const char *call, int member, bool nested,
                             int64_t timeout_ns)
{
    int status = check_member(locks, call, member);
    struct loci_rw all, rw;

    if (status == LOCO_OK)
        status = loci_check_timeout(locks->rt, call, locks->ep->name, timeout_ns);
    if (status != LOCO_OK)
        return status;
    all = all_word(locks);
    rw = member_word(locks, member);
    status = loci_rw_pair_acquire_until(locks->rt, &all, &rw, nested ? LOCI_RW_NESTED : 0,
                                        loci_deadline(locks->rt, timeout_ns));
    return count_one(status, &locks->held[member].holders[LOCI_RW_EXCLUSIVE]);
}

static int acquire_all(loco_rw_group_t *locks, const char *call, bool nested, int64_t timeout_ns)
{
    struct loci_rw all = all_word(locks);
    int status = loci_check_timeout(locks->rt, call, locks->ep->name, timeout_ns);

    if (status != LOCO_OK)
        return status;
    return count_one(loci_rw_acquire_until(locks->rt, &all, LOCI_RW_ALL,
                                           nested ? LOCI_RW_NESTED : 0,
                                           loci_deadline(locks->rt, timeout_ns)), &locks->all);
}

int loco_rw_group_acquire_shared(loco_rw_group_t *locks, int member, bool nested)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_shared(locks, "loco_rw_group_acquire_shared", member,
                                              nested, LOCO_FOREVER));
}

int loco_rw_group_acquire_exclusive(loco_rw_group_t *locks, int member, bool nested)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_exclusive(locks, "loco_rw_group_acquire_exclusive", member,
                                                 nested, LOCO_FOREVER));
}

int loco_rw_group_acquire_all(loco_rw_group_t *locks, bool nested)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_all(locks, "loco_rw_group_acquire_all", nested,
                                           LOCO_FOREVER));
}

int loco_rw_group_acquire_shared_timed(loco_rw_group_t *locks, int member, bool nested,
                                       int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_shared(locks, "loco_rw_group_acquire_shared_timed", member,
                                              nested, timeout_ns));
}

int loco_rw_group_acquire_exclusive_timed(loco_rw_group_t *locks, int member, bool nested,
                                          int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_exclusive(locks, "loco_rw_group_acquire_exclusive_timed",
                                                 member, nested, timeout_ns));
}

int loco_rw_group_acquire_all_timed(loco_rw_group_t *locks, bool nested, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_ACQUIRE, 0);

    return loci_call_end(self, acquire_all(locks, "loco_rw_group_acquire_all_timed", nested,
                                           timeout_ns));
}

static int release_shared(loco_rw_group_t *locks, int member, enum loco_fence_scope scope,
                          int peer)
{
    struct loci_rw rw;
    int fenced, released = check_member(locks, "loco_rw_group_release_shared", member);

    if (released == LOCO_OK)
        released = may_release(locks->rt, "loco_rw_group_release_shared", locks->ep->name,
                               &locks->held[member].holders[LOCI_RW_SHARED], scope, peer);
    if (released != LOCO_OK)
        return released;
    rw = member_word(locks, member);
    fenced = fence_for(locks->rt, &rw, scope, peer);
    released = loci_rw_release(locks->rt, &rw, LOCI_RW_SHARED);
    return fenced != LOCO_OK ? fenced : released;
}

int loco_rw_group_release_shared(loco_rw_group_t *locks, int member, enum loco_fence_scope scope,
                                 int peer)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_RELEASE, 0);

    return loci_call_end(self, release_shared(locks, member, scope, peer));
}

static int release_exclusive(loco_rw_group_t *locks, int member, enum loco_fence_scope scope,
                             int peer)
{
    struct loci_rw all, rw;
    int fenced, released = check_member(locks, "loco_rw_group_release_exclusive", member);

    if (released == LOCO_OK)
        released = may_release(locks->rt, "loco_rw_group_release_exclusive", locks->ep->name,
                               &locks->held[member].holders[LOCI_RW_EXCLUSIVE], scope, peer);
    if (released != LOCO_OK)
        return released;
    all = all_word(locks);
    rw = member_word(locks, member);
    fenced = fence_for(locks->rt, &rw, scope, peer);
    released = loci_rw_pair_release(locks->rt, &all, &rw,
                                    scope != LOCO_ORDER || !loci_mem_orders(rw.mem));
    return fenced != LOCO_OK ? fenced : released;
}

int loco_rw_group_release_exclusive(loco_rw_group_t *locks, int member,
                                    enum loco_fence_scope scope, int peer)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_RELEASE, 0);

    return loci_call_end(self, release_exclusive(locks, member, scope, peer));
}

static int release_all(loco_rw_group_t *locks, enum loco_fence_scope scope, int peer)
{
    struct loci_rw all = all_word(locks);
    int fenced, released = may_release(locks->rt, "loco_rw_group_release_all", locks->ep->name,
                                       &locks->all, scope, peer);

    if (released != LOCO_OK)
        return released;
    fenced = fence_for(locks->rt, &all, scope, peer);
    released = loci_rw_release(locks->rt, &all, LOCI_RW_ALL);
    return fenced != LOCO_OK ? fenced : released;
}

int loco_rw_group_release_all(loco_rw_group_t *locks, enum loco_fence_scope scope, int peer)
{
    struct loci_thread *self = loci_call_begin(locks->ep->calls, LOCI_CALL_RELEASE, 0);

    return loci_call_end(self, release_all(locks, scope, peer));
}

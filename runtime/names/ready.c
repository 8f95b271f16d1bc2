/* SPDX-License-Identifier: BSD-3-Clause */

/* Waiting until endpoints are ready: for one, for those below a name, or for all.
 *
 * The last step is this process's own: it maps its members' regions, or sees that it can have them
 * copied. What that takes (descriptors, address space, memory) may be missing, and is better missed
 * here than in the middle of a channel's protocol, where others wait for the next step.
 *
 * A wait looks at the lists of endpoints that are not ready or have failed (names.h), so what is
 * ready costs it nothing. It need not take the table's lock until an endpoint has settled, or it
 * is time to see to those that have not: whoever waits asks again what was not answered (ask.c),
 * and says in the log what it lacks when that lasts (similar.c). */

#include "config.h"

#include <string.h>

#include "move/rma.h"
#include "names.h"
#include "observe/mistake.h"
#include "wait.h"

/* The clock is looked at now and then, at the first look too, so that many short waits do as well
 * as a long one. */
#define SEE_EVERY 64                        /* looks */
#define ASK_AFTER INT64_C(5000000)          /* ns that a wait sleeps at most */
#define TELL_EVERY INT64_C(20000000)        /* ns between looks at how long it lasts */

struct ready_wait {
    struct loco_runtime *rt;
    struct loci_entry *one;             /* for this one alone; or NULL */
    const char *below;                  /* for those below this name; or NULL: for all */
    size_t below_len;
    uint64_t last;                      /* endpoints made later are none of this wait's */
    unsigned looks, settled;
    int64_t told;                       /* when it was last looked at how long it lasts */
};

/* A name is below itself, and so is what is made under it by "/" or, by hand, by ".". */
static bool is_below(const char *name, const char *top, size_t len)
{
    return strncmp(name, top, len) == 0
           && (name[len] == '\0' || name[len] == '/' || name[len] == '.');
}

static bool in_scope(const void *arg, const struct loci_entry *e)
{
    const struct ready_wait *wait = arg;

    if (wait->one != NULL)
        return e == wait->one;
    return e->number <= wait->last
           && (wait->below == NULL || is_below(e->ep.name, wait->below, wait->below_len));
}

/* 0, 1 or a negative status, as loci_wait wants it. Under the lock. */
static int state_of_one(const struct loci_entry *e)
{
    int failed = atomic_load_explicit(&e->ep.failed, memory_order_acquire);

    if (failed != LOCO_OK)
        return failed;
    return e->reached && atomic_load_explicit(&e->ep.missing, memory_order_acquire) == 0;
}

/* Under the lock. */
static int state_of_all(const struct ready_wait *wait)
{
    const struct loci_names *names = wait->rt->names;

    for (const struct loci_entry *e = names->failed.first; e != NULL; e = e->after)
        if (in_scope(wait, e))
            return state_of_one(e);
    for (const struct loci_entry *e = names->open.first; e != NULL; e = e->after)
        if (in_scope(wait, e))
            return 0;
    return 1;
}

static int state_of(const struct ready_wait *wait)
{
    return wait->one != NULL ? state_of_one(wait->one) : state_of_all(wait);
}

/* ---- reaching members ---- */

/* What cannot be mapped here is copied by its owner (only a synchronous fabric does that): one word
 * shows whether it can. */
static int reach(struct loco_runtime *rt, struct loci_mem *mem)
{
    uint64_t unused;

    if (loci_mem_map(rt, mem) != NULL || !rt->ops->synchronous || mem->key.len < sizeof unused)
        return LOCO_OK;
    return loci_read64(rt, mem, 0, &unused, NULL);
}

/* A member that has gone is an error of the calls that need it. */
static int reach_members(struct loci_endpoint *ep)
{
    int mems = ep->group.size * ep->spec.nregions;

    for (int i = 0; i < mems; i++) {
        int status = ep->mem[i].key.kind == LOCI_MEM_NONE ? LOCO_OK : reach(ep->rt, &ep->mem[i]);

        if (status < 0 && status != LOCO_ERR_PEER_DEAD)
            return status;
    }
    return LOCO_OK;
}

/* Under the lock, which is released in between: the entry is busy, and so stays. Returns the next
 * one of the list. */
static struct loci_entry *reach_one(struct loci_names *names, struct loci_entry *e)
{
    struct loci_entry *next;
    int status;

    e->busy++;
    pthread_mutex_unlock(&names->lock);
    status = reach_members(&e->ep);
    pthread_mutex_lock(&names->lock);
    if (status == LOCO_OK)
        e->reached = true;
    else
        loci_entry_fail(e, status);
    next = e->list == &names->unreached ? e->after : names->unreached.first;
    loci_names_settle(names, e);
    if (--e->busy == 0)
        pthread_cond_broadcast(&names->calm);
    return next;
}

/* Under the lock. Of several waits each may try; they come to the same. */
static void reach_all(const struct ready_wait *wait)
{
    struct loci_names *names = wait->rt->names;
    struct loci_entry *e = names->unreached.first;

    while (e != NULL)
        e = in_scope(wait, e) ? reach_one(names, e) : e->after;
}

/* ---- waiting ---- */

/* What settles is signalled; what was not answered is asked for again. */
static int64_t ask_after(void *arg)
{
    (void)arg;
    return ASK_AFTER;
}

/* Under the lock, which is not held all the time. */
static void see_to_missing(struct ready_wait *wait)
{
    int64_t now = loci_now(wait->rt);

    loci_names_ask(wait->rt, now);
    if (wait->looks > 1 && now < wait->told + TELL_EVERY)
        return;
    wait->told = now;
    loci_names_tell(wait->rt, in_scope, wait, now);
}

static int are_ready(void *arg)
{
    struct ready_wait *wait = arg;
    struct loci_names *names = wait->rt->names;
    /* Acquire: pairs with the release where an entry settles (names.c). */
    unsigned settled = atomic_load_explicit(&names->settled, memory_order_acquire);
    bool see_to = wait->looks++ % SEE_EVERY == 0;
    int state;

    if (!see_to && settled == wait->settled)
        return 0;
    wait->settled = settled;
    pthread_mutex_lock(&names->lock);
    reach_all(wait);
    state = state_of(wait);
    if (state == 0 && see_to)
        see_to_missing(wait);
    pthread_mutex_unlock(&names->lock);
    return state;
}

static int wait_ready(struct ready_wait *wait, const char *call, const char *what,
                      int64_t timeout_ns)
{
    const struct loci_reason why = {
        .what = what, .peer = -1, .timeout_ns = timeout_ns, .bell = LOCI_BELL_READY,
        .doze = ask_after,
    };
    struct loci_names *names = wait->rt->names;
    int status = loci_check_timeout(wait->rt, call, NULL, timeout_ns);

    if (status != LOCO_OK)
        return status;
    pthread_mutex_lock(&names->lock);
    wait->last = names->numbers;
    pthread_mutex_unlock(&names->lock);
    return loci_wait(wait->rt, &why, are_ready, wait);
}

int loci_endpoint_ready(struct loci_endpoint *ep, int64_t timeout_ns)
{
    struct ready_wait wait = { .rt = ep->rt, .one = loci_entry_of(ep) };

    return wait_ready(&wait, "loci_endpoint_ready", ep->name, timeout_ns);
}

int loco_runtime_wait_ready(loco_runtime_t *rt, int64_t timeout_ns)
{
    struct ready_wait wait = { .rt = rt };

    return wait_ready(&wait, "loco_runtime_wait_ready", "participants of endpoints", timeout_ns);
}

int loco_runtime_wait_ready_below(loco_runtime_t *rt, const char *name, int64_t timeout_ns)
{
    struct ready_wait wait = { .rt = rt, .below = name };

    if (name == NULL || name[0] == '\0' || strlen(name) >= LOCI_NAME_MAX)
        return loci_mistake(rt, LOCO_ERR_NAME, "loco_runtime_wait_ready_below", NULL,
                            "name is %s", name == NULL ? "NULL" : name[0] == '\0' ? "empty"
                            : "longer than any name");
    wait.below_len = strlen(name);
    return wait_ready(&wait, "loco_runtime_wait_ready_below", name, timeout_ns);
}

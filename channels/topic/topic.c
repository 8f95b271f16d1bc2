/* SPDX-License-Identifier: BSD-3-Clause */

/* Topics: a multicast, and what is done with its messages at each member.
 *
 * All members of the group are members of the multicast, so each is delivered each sample. What a
 * level adds is each member's own affair: it keeps the last samples, appends them to its log, calls
 * its handler or not. So a late subscriber asks nobody: it has the history, and its poller,
 * which delivers, hands it out between two batches (topic_deliver.c). Nobody needs to know who
 * subscribes.
 *
 * The topic's endpoint compares levels: what publishers offer with what subscribers request; and
 * whether there is a view. All else is compared by the endpoints of its parts: the view, whose name
 * is "members", and the multicast, "samples".
 *
 * The multicast is one of a view, so that the topic goes on when members die or leave. Views have
 * no unordered ones, and 64 members at most: other topics have fixed members, and end with one that
 * dies.
 *
 * A topic uses the multicast by its public calls alone. */

#include "config.h"

#include <stdlib.h>

#include "observe/log.h"
#include "observe/mistake.h"
#include "topic.h"
#include "view/view.h"

#define SLOT_BYTES ((size_t)10 << 10)

static const char call[] = "loco_topic_create";

/* ---- levels ---- */

#define PUBLISHES 16u
#define SUBSCRIBES 32u
#define LEVEL(value) ((value) & 15u)

static bool offers(uint64_t publisher, uint64_t subscriber)
{
    return (publisher & PUBLISHES) == 0 || (subscriber & SUBSCRIBES) == 0
           || LEVEL(publisher) >= LEVEL(subscriber);
}

static bool level_fits(uint64_t mine, uint64_t theirs)
{
    return offers(mine, theirs) && offers(theirs, mine);
}

static const char *level_words(uint64_t value)
{
    static const char *const words[4][4] = {
        { "unordered", "atomic", "kept", "logged" },
        { "unordered (offered)", "atomic (offered)", "kept (offered)", "logged (offered)" },
        { "unordered (requested)", "atomic (requested)", "kept (requested)",
          "logged (requested)" },
        { "unordered (offered and requested)", "atomic (offered and requested)",
          "kept (offered and requested)", "logged (offered and requested)" },
    };

    return LEVEL(value) > LOCO_TOPIC_LOGGED || value > (PUBLISHES | SUBSCRIBES | 15u)
           ? "unknown" : words[value >> 4][LEVEL(value)];
}

/* ---- arguments ---- */

static int check_history(const loco_runtime_t *rt, const char *name,
                         const loco_topic_options_t *o)
{
    if (o->history < 0)
        return loci_bad_arg(rt, call, name, "history", o->history, "0 or more");
    if (o->history_bytes > 0 && o->history_bytes < o->slot_bytes + LOCI_TOPIC_ENTRY + 15)
        return loci_bad_arg(rt, call, name, "history_bytes", (long long)o->history_bytes,
                            "0, or at least slot_bytes and %zu more", LOCI_TOPIC_ENTRY + 15);
    if ((o->history > 0 || o->history_bytes > 0) && o->level < LOCO_TOPIC_KEPT)
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "nothing is kept on level %s: history "
                            "is of LOCO_TOPIC_KEPT and LOCO_TOPIC_LOGGED",
                            level_words((uint64_t)o->level));
    return LOCO_OK;
}

static bool has_view(const loco_group_t *group, const loco_topic_options_t *o)
{
    return o->level != LOCO_TOPIC_UNORDERED && loco_group_size(group) <= LOCI_VIEW_MEMBERS;
}

/* Those of the multicast and the view are checked there. */
static int check(const loco_runtime_t *rt, const char *name, const loco_group_t *group,
                 loco_topic_options_t *o)
{
    o->slot_bytes = o->slot_bytes == 0 ? SLOT_BYTES : o->slot_bytes;
    if (o->level < LOCO_TOPIC_UNORDERED || o->level > LOCO_TOPIC_LOGGED)
        return loci_bad_arg(rt, call, name, "level", o->level, "0 to %d (enum loco_topic_level)",
                            LOCO_TOPIC_LOGGED);
    if (o->sync < LOCO_TOPIC_SYNC_BATCH || o->sync > LOCO_TOPIC_SYNC_NEVER)
        return loci_bad_arg(rt, call, name, "sync", o->sync, "0 to %d (enum loco_topic_sync)",
                            LOCO_TOPIC_SYNC_NEVER);
    /* More than there are would be read before the multicast is asked. */
    if (o->publishers != NULL
        && (o->npublishers < 1 || o->npublishers > loco_group_size(group)))
        return loci_bad_arg(rt, call, name, "npublishers", o->npublishers,
                            "1 to %d, the size of the group", loco_group_size(group));
    if (o->deadline_ns < 0)
        return loci_bad_arg(rt, call, name, "deadline_ns", o->deadline_ns, "0 or more");
    if (o->subscribe != 0 && o->handler == NULL)
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "subscribe is %d, and handler is NULL",
                            o->subscribe);
    if (o->log != NULL && o->level != LOCO_TOPIC_LOGGED)
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "nothing is logged on level %s: log is "
                            "of LOCO_TOPIC_LOGGED", level_words((uint64_t)o->level));
    if (o->view != 0 && !has_view(group, o))
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "view is %d, and topics that are "
                            "unordered, or have more than %d members, have no view", o->view,
                            LOCI_VIEW_MEMBERS);
    return check_history(rt, name, o);
}

/* ---- what it is made of ---- */

static bool publishes(const loco_topic_options_t *o, int rank)
{
    for (int i = 0; i < o->npublishers && o->publishers != NULL; i++)
        if (o->publishers[i] == rank)
            return true;
    return o->publishers == NULL;
}

static void destroy_forgotten(void *t)
{
    loco_topic_destroy(t);
}

static int open_endpoint(struct loco_topic *t, const char *parent, const char *name,
                         const loco_group_t *group, const loco_topic_options_t *o)
{
    const bool sends = publishes(o, loco_group_rank(group));
    const bool takes = o->handler != NULL || o->log != NULL;
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group, .type = "topic",
        .property = { { "the level", (uint64_t)o->level | (sends ? PUBLISHES : 0)
                                     | (takes ? SUBSCRIBES : 0) },
                      { "whether it is unordered", o->level == LOCO_TOPIC_UNORDERED } },
        .look = { { level_fits, level_words } },
    };
    int status = loci_endpoint_create(t->rt, &spec, &t->ep);

    if (status == LOCO_OK)
        loci_endpoint_is_of(t->ep, destroy_forgotten, t);
    return status;
}

static int open_history(struct loco_topic *t, const loco_topic_options_t *o)
{
    size_t samples = (size_t)o->history;
    int status;

    if (o->level < LOCO_TOPIC_KEPT)
        return LOCO_OK;
    if (samples == 0 && o->history_bytes == 0)
        samples = 1;
    status = loci_topic_history_open(&t->history, samples, o->history_bytes, o->slot_bytes);
    t->keeps = status == LOCO_OK;
    return status;
}

static int open_multicast(struct loco_topic *t, const loco_group_t *group,
                          const loco_topic_options_t *o)
{
    const loco_multicast_options_t mo = {
        .senders = o->publishers, .nsenders = o->npublishers, .slots = o->slots,
        .slot_bytes = o->slot_bytes,
        .flags = o->level == LOCO_TOPIC_UNORDERED ? LOCO_MULTICAST_UNORDERED : 0,
        .handler = loci_topic_deliver, .arg = t,
    };
    const loco_view_options_t vo = {
        .flags = o->view, .multicasts = 1, .changed = loci_topic_changed, .arg = t,
    };
    int status;

    if (!has_view(group, o))
        return loco_multicast_create(t->rt, t->ep->name, "samples", group, &mo, &t->m);
    t->members = UINT64_MAX >> (LOCI_VIEW_MEMBERS - loco_group_size(group));
    status = loci_view_open(t->rt, t->ep->name, "members", group, &vo, &t->view);
    if (status == LOCO_OK)
        status = loco_view_multicast(t->view, "samples", &mo, &t->m);
    return status == LOCO_OK ? loci_view_start(t->view) : status;
}

/* First what may fail here, so that no member meets a topic that is not to be. The multicast is the
 * last: it may deliver at once, if the other members are there. */
static int open_parts(struct loco_topic *t, const char *parent, const char *name,
                      const loco_group_t *group, const loco_topic_options_t *o)
{
    int status = loci_topic_log_open(t, parent, name, o);

    if (status == LOCO_OK)
        status = open_history(t, o);
    if (status == LOCO_OK)
        status = loci_poller_add(t->rt, &loci_topic_polled_ops, t, &t->polled);
    if (status != LOCO_OK)
        return status;
    loci_polled_begin(t->polled);
    if (t->deadline_ns != 0)
        status = loci_topic_watch_begin(t);
    if (status == LOCO_OK)
        status = open_endpoint(t, parent, name, group, o);
    return status == LOCO_OK ? open_multicast(t, group, o) : status;
}

int loco_topic_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, const loco_topic_options_t *options,
                      loco_topic_t **out)
{
    loco_topic_options_t o = { .publishers = NULL };
    struct loco_topic *t;
    int status = loci_check_group(rt, call, name, group);

    if (options != NULL)
        o = *options;
    if (status == LOCO_OK)
        status = loci_poller_refuse_self(rt, call, name);
    if (status == LOCO_OK)
        status = check(rt, name, group, &o);
    if (status != LOCO_OK)
        return status;
    t = calloc(1, sizeof *t);
    if (t == NULL)
        return LOCO_ERR_NO_MEMORY;
    t->rt = rt;
    t->level = o.level;
    t->handler = o.handler;
    t->event = o.event;
    t->arg = o.arg;
    t->deadline_ns = o.deadline_ns;
    atomic_init(&t->state, o.subscribe != 0 ? LOCI_TOPIC_ON : LOCI_TOPIC_SILENT);
    status = open_parts(t, parent, name, group, &o);
    if (status != LOCO_OK) {
        loco_topic_destroy(t);
        return status;
    }
    *out = t;
    return LOCO_OK;
}

/* The watcher calls the poller, the poller uses all else. */
void loco_topic_destroy(loco_topic_t *t)
{
    if (t == NULL || (t->ep != NULL && loci_poller_refuse_self(t->rt, "loco_topic_destroy",
                                                               t->ep->name) != LOCO_OK))
        return;
    loci_topic_watch_end(t);
    if (t->view != NULL)
        loco_view_destroy(t->view);         /* and its multicast */
    else
        loco_multicast_destroy(t->m);
    loci_poller_remove(t->polled);
    loci_topic_log_close(t->log);
    loci_topic_history_close(&t->history);
    if (t->ep != NULL)
        loci_endpoint_destroy(t->ep);
    free(t);
}

/* ---- publishers ---- */

int loco_topic_reserve(loco_topic_t *t, void **slot)
{
    return loco_multicast_reserve(t->m, slot);
}

int loco_topic_try_reserve(loco_topic_t *t, void **slot)
{
    return loco_multicast_try_reserve(t->m, slot);
}

int loco_topic_publish(loco_topic_t *t, void *slot, size_t bytes, uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(t->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, loco_multicast_send(t->m, slot, bytes, number));
}

int loco_topic_post(loco_topic_t *t, const void *data, size_t bytes, uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(t->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, loco_multicast_post(t->m, data, bytes, number));
}

int loco_topic_try_post(loco_topic_t *t, const void *data, size_t bytes, uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(t->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, loco_multicast_try_post(t->m, data, bytes, number));
}

int loco_topic_wait_delivered(loco_topic_t *t, uint64_t number)
{
    struct loci_thread *self = loci_call_begin(t->ep->calls, LOCI_CALL_WAIT, 0);

    return loci_call_end(self, loco_multicast_wait_delivered(t->m, number));
}

/* ---- subscribers ---- */

int loco_topic_subscribe(loco_topic_t *t)
{
    int silent = LOCI_TOPIC_SILENT;

    if (t->handler == NULL)
        return loci_mistake(t->rt, LOCO_ERR_STATE, "loco_topic_subscribe", t->ep->name,
                            "this member has no handler");
    if (atomic_compare_exchange_strong(&t->state, &silent, LOCI_TOPIC_ASKED))
        loci_polled_call(t->polled);
    return LOCO_OK;
}

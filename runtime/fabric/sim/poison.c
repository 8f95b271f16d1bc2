/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory that was given back, and was not handed out again: whoever touches it ends the run. That
 * is the process itself, by a load or a store; a peer, by what it has posted, whenever that gets
 * there; and on one node a peer by its own pointer. An extent that was given back as a whole stays
 * where it is until the run is over, so that none of these meets what came there later. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "world.h"

struct sim_given {
    const unsigned char *at;
    size_t len;
    int owner;
    char name[96];                      /* "channel.region", or empty */
};

static struct sim_process *owner_of(struct sim_world *w, const unsigned char *at)
{
    for (int i = 0; i < w->count; i++)
        for (int j = 0; j < w->process[i].extent_count; j++) {
            const struct sim_extent *e = &w->process[i].extents[j];

            if (at >= e->base && at < e->base + e->len)
                return &w->process[i];
        }
    return NULL;
}

void loci_sim_named(const char *channel, const char *region)
{
    struct sim_world *w = loci_sim_world;

    if (w != NULL)
        snprintf(w->giving, sizeof w->giving, "%.60s.%.32s", channel, region);
}

void loci_sim_given(const void *at, size_t len)
{
    struct sim_world *w = loci_sim_world;
    struct sim_process *p = w == NULL ? NULL : owner_of(w, at);
    struct sim_given *given;

    /* What peers have of a process that has left they keep. */
    if (p == NULL || p->left)
        return;
    if (w->given_count == w->given_room) {
        w->given_room = w->given_room * 2 + 16;
        w->given = realloc(w->given, (size_t)w->given_room * sizeof w->given[0]);
        if (w->given == NULL)
            abort();
    }
    given = &w->given[w->given_count++];
    *given = (struct sim_given){ .at = at, .len = len, .owner = p->rank };
    memcpy(given->name, w->giving, sizeof given->name);
    w->giving[0] = '\0';
    SIM_TRACE(w, p->rank, w->current == NULL ? -1 : w->current->thread, "gives back", 0, -1,
              "%zu bytes of %s", len, given->name[0] != '\0' ? given->name : "its memory");
}

/* What is handed out lies in what is free, not the other way round: the rest of a range that was
 * given stays given. */
void loci_sim_taken(const void *start, size_t len)
{
    struct sim_world *w = loci_sim_world;
    const unsigned char *at = start;

    for (int i = 0; w != NULL && i < w->given_count; i++) {
        struct sim_given *g = &w->given[i], whole = *g;

        if (g->at >= at + len || at >= g->at + g->len)
            continue;
        *g-- = w->given[--w->given_count];
        i--;
        if (whole.at < at) {
            loci_sim_given(whole.at, (size_t)(at - whole.at));
            memcpy(w->given[w->given_count - 1].name, whole.name, sizeof whole.name);
        }
        if (whole.at + whole.len > at + len) {
            loci_sim_given(at + len, (size_t)(whole.at + whole.len - (at + len)));
            memcpy(w->given[w->given_count - 1].name, whole.name, sizeof whole.name);
        }
    }
}

static const struct sim_given *given_at(const struct sim_world *w, const unsigned char *at,
                                        size_t len)
{
    for (int i = 0; i < w->given_count; i++)
        if (w->given[i].at < at + len && at < w->given[i].at + w->given[i].len)
            return &w->given[i];
    return NULL;
}

/* Says whose it was: "memory that p1 has given back: line.slots+64". */
static void fail(const struct sim_world *w, const struct sim_given *given,
                 const unsigned char *at, const char *who)
{
    (void)w;
    loci_sim_fail("%s: memory that p%d has given back: %s+%zd", who, given->owner,
                  given->name[0] != '\0' ? given->name : "no channel's",
                  (ssize_t)(at - given->at));
}

void loci_sim_look_at_access(struct sim_world *w, enum loci_sim_access kind, const void *at,
                             size_t len)
{
    static const char *const names[] = { "load", "store", "atomic" };
    const struct sim_given *given = w->given_count == 0 ? NULL : given_at(w, at, len);
    char who[64];

    if (given == NULL)
        return;
    snprintf(who, sizeof who, "%s of %zu bytes by p%d.t%d", names[kind], len,
             w->current->process->rank, w->current->thread);
    fail(w, given, at, who);
}

void loci_sim_look_at_op(const struct sim_lane *lane, const struct sim_op *op)
{
    struct sim_world *w = lane->from->world;
    const struct sim_given *given = NULL;
    char who[256];

    /* On a lane that is cut nothing is executed, whoever posts there still. */
    if (op->target != NULL && w->given_count != 0 && !w->quiet && !lane->cut)
        given = given_at(w, op->target, op->op.len);
    if (given == NULL)
        return;
    loci_sim_op_text(lane, op, who, sizeof who);
    fail(w, given, op->target, who);
}

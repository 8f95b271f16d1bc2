/* SPDX-License-Identifier: BSD-3-Clause */

/* What a process holds for a peer, for cases of `contract`. */

#include "config.h"

#include "wait.h"
#include "world.h"
#ifdef LOCO_HAVE_VERBS
#include "fabric/verbs/verbs.h"
#endif

#ifdef LOCO_HAVE_VERBS
static int ends_of(struct verbs_fabric *f, int peer)
{
    const struct verbs_peer *p = loci_peer(f->rt, peer)->device_data;
    const struct verbs_end *end;
    int n = 0;

    pthread_mutex_lock(&f->lock);
    end = peer == LOCI_SELF ? f->own_ends : p != NULL ? p->ends : NULL;
    for (; end != NULL; end = end->next)
        n++;
    pthread_mutex_unlock(&f->lock);
    return n;
}

static int lanes_of(loco_runtime_t *rt, int peer)
{
    int n = 0;

    for (struct loci_thread *t = atomic_load(&rt->threads); t != NULL; t = t->next) {
        struct loci_lane *lane = atomic_load(&t->lanes[peer]);

        if (lane == NULL)
            continue;
        loci_lock_take(&t->lock);
        n += lane->fabric_data != NULL;
        loci_lock_give(&t->lock);
    }
    return n;
}
#endif

int held_of(struct world *w, int peer)
{
#ifdef LOCO_HAVE_VERBS
    if (w->rt->ops == &loci_fabric_verbs || w->rt->ops == &loci_fabric_verbs_and_shm)
        return ends_of(verbs_of(w->rt->fabric), peer) + lanes_of(w->rt, peer);
#endif
    (void)w;
    (void)peer;
    return 0;
}

int ends_held(struct world *w)
{
    int n = 0;

#ifdef LOCO_HAVE_VERBS
    if (w->rt->ops == &loci_fabric_verbs || w->rt->ops == &loci_fabric_verbs_and_shm)
        for (int i = 0; i < w->rt->everyone->size; i++)
            n += ends_of(verbs_of(w->rt->fabric), w->rt->everyone->peer[i]);
#endif
    (void)w;
    return n;
}

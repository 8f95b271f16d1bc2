/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include <string.h>
#include <sys/mman.h>

#include "world.h"

unsigned char pattern(size_t at, int who)
{
    return (unsigned char)(at * 7 + (size_t)who * 31 + (at >> 8));
}

struct loci_mem forge(const struct loci_mem *mem)
{
    struct loci_mem forged = *mem;

    forged.key.device ^= 0x5a00;
    forged.key.extent ^= UINT64_C(1) << 40;     /* what a fabric without a device goes by */
    return forged;
}

bool by_device(const struct world *w)
{
#ifdef LOCO_HAVE_VERBS
    return w->rt->ops == &loci_fabric_verbs || w->rt->ops == &loci_fabric_verbs_and_shm;
#else
    (void)w;
    return false;
#endif
}

int together(struct world *w)
{
    return w->m->exchange.allgather(w->m->exchange.ctx, NULL, 0, NULL);
}

int share(struct world *w, const struct loci_mem *mine, struct loci_mem *all)
{
    struct loci_memkey keys[PEERS];

    CHECK_OK(w->m->exchange.allgather(w->m->exchange.ctx, &mine->key, sizeof mine->key, keys));
    /* Without an endpoint or a window: what the fabric has for them stays, also of the dead. */
    loci_peers_use(w->rt, w->rt->everyone->peer, w->m->n);
    for (int i = 0; i < w->m->n; i++) {
        CHECK_OK(loci_mem_import(w->rt, w->rt->everyone->peer[i], &keys[i], &all[i]));
        loci_mem_set_domain(&all[i], loci_domain_of(w->rt->everyone));
    }
    return 0;
}

int enter(struct world *w, struct member *m, size_t len)
{
    void *memory;

    memset(w, 0, sizeof *w);
    w->rt = m->rt;
    w->m = m;
    w->len = len;
    CHECK_OK(loci_alloc(w->rt, len, 0, &w->pool));
    memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK_OK(loci_user_add(w->rt, memory, len, &w->user));
    CHECK(share(w, &w->pool, w->pools) == 0);
    return share(w, &w->user, w->users);
}

int leave(struct world *w)
{
    CHECK_OK(together(w));
    loci_user_remove(w->rt, &w->user);
    loci_free(w->rt, &w->pool);
    return 0;
}

int next_of(const struct world *w)
{
    return (w->m->rank + 1) % w->m->n;
}

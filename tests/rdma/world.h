/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_RDMA_WORLD_H
#define TESTS_RDMA_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "member.h"
#include "move/rma.h"

/* What the cases of `contract` stand on. */

#define PEERS 8
#define LEN ((size_t)64 << 10)

/* Every member's memory of both kinds, as this one reaches it. */
struct world {
    loco_runtime_t *rt;
    struct member *m;
    struct loci_mem pool, user, pools[PEERS], users[PEERS];
    size_t len;
};

/* Collective: `len` bytes of each kind at each member. */
int enter(struct world *w, struct member *m, size_t len);
int leave(struct world *w);
/* Everybody's memory of that kind, as this member reaches it. */
int share(struct world *w, const struct loci_mem *mine, struct loci_mem *all);
/* All come here. */
int together(struct world *w);
int next_of(const struct world *w);
unsigned char pattern(size_t at, int who);
/* Whether the data go through an RDMA device, to which memory is registered. */
bool by_device(const struct world *w);
/* The same memory, by a key that its owner does not know. */
struct loci_mem forge(const struct loci_mem *mem);

/* at_once.c */
int at_once(struct member *m);

/* chain.c */
int chains(struct member *m);
int chain_broken(struct member *m);
int chain_refused(struct member *m);

/* mended.c */
int mended(struct member *m);
int unnamed(struct member *m);

/* merged.c */
int merged(struct member *m);

/* protected.c */
int guarded(struct member *m);
int copied(struct member *m);

/* placed.c */
int placed(struct member *m);

/* gone.c */
int left(struct member *m);
int killed(struct member *m);

/* held.c: queue pairs of lanes to that peer (an index), and of its ends here. */
int held_of(struct world *w, int peer);
/* Queue pairs of this process that answer others, and itself. */
int ends_held(struct world *w);

/* strangers.c */
int strangers(struct member *m);

/* silent.c */
int silent(struct member *m);

/* tries.c */
int tries(struct member *m);

/* whole.c */
int whole(struct member *m);

#endif

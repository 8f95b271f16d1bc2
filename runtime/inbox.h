/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_INBOX_H
#define LOCI_INBOX_H

/* What channels of peers have left for this process to do if it happens to wait, or to come by.
 *
 * One word of pool memory, the inbox, which peers map. Whoever has left something, where the
 * channel's protocol says, sets the bit of that channel's part in it (release: what was left). Any
 * thread that waits looks at the word in each round, one load where nothing is there, and so does
 * the service thread when it is rung for (loci_control_ring); if there is something it takes all
 * bits and asks the parts that have one of them. Bits are shared by parts
 * whose number is the same modulo 64: those look in vain.
 *
 * Nobody ever needs it: peers do themselves what is not done for them in time. */

#include "move/rma.h"
#include "runtime.h"

/* Of a channel, which keeps it. */
struct loci_inbox_part {
    struct loci_inbox_part *next, **link;   /* of those that have the same bit */
    uint64_t bit;
    /* Do what was left. By one thread at a time, for all parts; it may not wait for peers, and may
     * be the service thread. True: not all can be done now, ask again. */
    bool (*serve)(struct loci_inbox_part *part);
};

void loci_inbox_open(struct loco_runtime *rt);
/* No part is left: its memory may go. The service thread may still come by. */
void loci_inbox_close(struct loco_runtime *rt);
/* Nobody comes by any more. */
void loci_inbox_end(struct loco_runtime *rt);

/* Give the part its bit, and tell peers where it is to be set: before they may know of the part.
 * LOCO_ERR_NO_MEMORY. */
int loci_inbox_prepare(struct loco_runtime *rt, struct loci_inbox_part *part,
                       struct loci_memkey *key);
/* It is asked from now on; it is not any more, and is not being asked. */
void loci_inbox_add(struct loco_runtime *rt, struct loci_inbox_part *part);
void loci_inbox_remove(struct loco_runtime *rt, struct loci_inbox_part *part);

/* For a part that is being asked: memory that nobody else uses meanwhile; NULL: there is none. */
void *loci_inbox_room(struct loco_runtime *rt, size_t len);

/* Whether there was something. loci_inbox_look() is for threads of the program only. The service
 * thread may come while the runtime closes, so it calls loci_inbox_serve(), which takes the lock
 * before it looks. */
int loci_inbox_serve(struct loco_runtime *rt);
static inline int loci_inbox_look(struct loco_runtime *rt)
{
    const unsigned char *word = atomic_load_explicit(&rt->inbox.word, memory_order_acquire);

    if (word == NULL
        || (loci_load64(word) == 0
            && !atomic_load_explicit(&rt->inbox.again, memory_order_relaxed)))
        return 0;
    return loci_inbox_serve(rt);
}

#endif

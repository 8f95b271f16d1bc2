/* SPDX-License-Identifier: BSD-3-Clause */

/* The inbox of this process: which of its channels something was left for. */

#include "config.h"

#include "inbox.h"
#include "memory/memory.h"

#define BITS 64

void loci_inbox_open(struct loco_runtime *rt)
{
    pthread_mutex_init(&rt->inbox.lock, NULL);
}

/* Before its memory goes. */
void loci_inbox_close(struct loco_runtime *rt)
{
    atomic_store_explicit(&rt->inbox.word, NULL, memory_order_relaxed);
    pthread_mutex_destroy(&rt->inbox.lock);
}

int loci_inbox_prepare(struct loco_runtime *rt, struct loci_inbox_part *part,
                       struct loci_memkey *key)
{
    struct loci_inbox *inbox = &rt->inbox;
    int status = LOCO_OK;

    pthread_mutex_lock(&inbox->lock);
    if (atomic_load_explicit(&inbox->word, memory_order_relaxed) == NULL) {
        status = loci_alloc(rt, sizeof(uint64_t), 0, &inbox->mem);
        if (status == LOCO_OK)
            atomic_store_explicit(&inbox->word, loci_mem_ptr(&inbox->mem), memory_order_release);
    }
    if (status == LOCO_OK) {
        part->bit = UINT64_C(1) << inbox->made++ % BITS;
        *key = inbox->mem.key;
    }
    pthread_mutex_unlock(&inbox->lock);
    return status;
}

/* What was left for it until now is looked for, too: its bit may have been taken. */
void loci_inbox_add(struct loco_runtime *rt, struct loci_inbox_part *part)
{
    pthread_mutex_lock(&rt->inbox.lock);
    part->next = rt->inbox.parts;
    rt->inbox.parts = part;
    pthread_mutex_unlock(&rt->inbox.lock);
    loci_cpu_fetch_or(atomic_load_explicit(&rt->inbox.word, memory_order_relaxed), part->bit);
}

void loci_inbox_remove(struct loco_runtime *rt, struct loci_inbox_part *part)
{
    struct loci_inbox_part **link = &rt->inbox.parts;

    pthread_mutex_lock(&rt->inbox.lock);
    while (*link != NULL && *link != part)
        link = &(*link)->next;
    if (*link != NULL)
        *link = part->next;
    pthread_mutex_unlock(&rt->inbox.lock);
}

/* Who asks a part may wait in there for this process alone, and come here again: nothing then. */
int loci_inbox_serve(struct loco_runtime *rt)
{
    struct loci_inbox *inbox = &rt->inbox;
    uint64_t bits, again = 0;

    if (pthread_mutex_trylock(&inbox->lock) != 0)
        return 0;
    /* Acquire: pairs with the origins' release when they set the bits. */
    bits = loci_cpu_exchange(atomic_load_explicit(&inbox->word, memory_order_relaxed), 0)
           | atomic_load_explicit(&inbox->again, memory_order_relaxed);
    for (struct loci_inbox_part *part = inbox->parts; part != NULL; part = part->next)
        if ((bits & part->bit) != 0 && part->serve(part))
            again |= part->bit;
    atomic_store_explicit(&inbox->again, again, memory_order_relaxed);
    pthread_mutex_unlock(&inbox->lock);
    return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The inbox of this process: which of its channels something was left for. */

#include "config.h"

#include <stdlib.h>

#include "inbox.h"
#include "memory/memory.h"

void loci_inbox_open(struct loco_runtime *rt)
{
    pthread_mutex_init(&rt->inbox.lock, NULL);
}

void loci_inbox_close(struct loco_runtime *rt)
{
    pthread_mutex_lock(&rt->inbox.lock);
    atomic_store_explicit(&rt->inbox.word, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&rt->inbox.lock);
}

void loci_inbox_end(struct loco_runtime *rt)
{
    free(rt->inbox.room);
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
        part->bit = UINT64_C(1) << inbox->made++ % LOCI_INBOX_BITS;
        *key = inbox->mem.key;
    }
    pthread_mutex_unlock(&inbox->lock);
    return status;
}

static struct loci_inbox_part **list_of(struct loci_inbox *inbox, uint64_t bits)
{
    return &inbox->parts[__builtin_ctzll(bits)];
}

/* What was left for it until now is looked for, too: its bit may have been taken. */
void loci_inbox_add(struct loco_runtime *rt, struct loci_inbox_part *part)
{
    struct loci_inbox_part **list = list_of(&rt->inbox, part->bit);

    pthread_mutex_lock(&rt->inbox.lock);
    part->next = *list;
    part->link = list;
    if (part->next != NULL)
        part->next->link = &part->next;
    *list = part;
    pthread_mutex_unlock(&rt->inbox.lock);
    loci_cpu_fetch_or(atomic_load_explicit(&rt->inbox.word, memory_order_relaxed), part->bit);
}

void loci_inbox_remove(struct loco_runtime *rt, struct loci_inbox_part *part)
{
    pthread_mutex_lock(&rt->inbox.lock);
    *part->link = part->next;
    if (part->next != NULL)
        part->next->link = part->link;
    pthread_mutex_unlock(&rt->inbox.lock);
}

void *loci_inbox_room(struct loco_runtime *rt, size_t len)
{
    if (rt->inbox.room_len >= len)
        return rt->inbox.room;
    free(rt->inbox.room);
    rt->inbox.room = malloc(len);
    rt->inbox.room_len = rt->inbox.room != NULL ? len : 0;
    return rt->inbox.room;
}

/* Who asks a part may wait in there for this process alone, and come here again: nothing then. */
int loci_inbox_serve(struct loco_runtime *rt)
{
    struct loci_inbox *inbox = &rt->inbox;
    uint64_t bits, again = 0;
    unsigned char *word;

    if (pthread_mutex_trylock(&inbox->lock) != 0)
        return 0;
    word = atomic_load_explicit(&inbox->word, memory_order_relaxed);
    if (word == NULL) {
        pthread_mutex_unlock(&inbox->lock);
        return 0;
    }
    /* Acquire: pairs with the origins' release when they set the bits. */
    bits = loci_cpu_exchange(word, 0)
           | atomic_load_explicit(&inbox->again, memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1)
        for (struct loci_inbox_part *part = *list_of(inbox, bits); part != NULL; part = part->next)
            if (part->serve(part))
                again |= part->bit;
    atomic_store_explicit(&inbox->again, again, memory_order_relaxed);
    pthread_mutex_unlock(&inbox->lock);
    return 1;
}

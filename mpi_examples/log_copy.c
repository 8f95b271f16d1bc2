/* SPDX-License-Identifier: BSD-3-Clause */
#include "log_copy.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"

void log_copy_open(struct log_copy *c, int64_t accounts, int64_t bytes, enum log_spoil spoil)
{
    *c = (struct log_copy){ .spoil = spoil };
    c->balance = ex_memory((size_t)accounts, sizeof(*c->balance));
    for (int64_t i = 0; i < accounts; i++)
        c->balance[i] = LOG_START;
    c->next_serial = ex_memory((size_t)ex_size(), sizeof(*c->next_serial));
    c->held = ex_memory((size_t)bytes, 1);
}

void log_copy_close(struct log_copy *c)
{
    free(c->balance);
    free(c->next_serial);
    free(c->held);
}

static void apply(struct log_copy *c, const void *data, size_t bytes, int sender)
{
    uint64_t applied = atomic_load_explicit(&c->applied, memory_order_relaxed) + 1;
    struct log_entry e;

    memcpy(&e, data, sizeof(e));
    c->misplaced += e.serial != c->next_serial[sender];
    c->next_serial[sender] = e.serial + 1;
    c->hash = ex_hash(ex_hash_word(c->hash, (uint64_t)sender), data, bytes);
    if (c->balance[e.from] >= e.amount) {
        c->balance[e.from] -= e.amount;
        c->balance[e.to] += e.amount + (c->spoil == LOG_AMOUNT);
        c->spoil = c->spoil == LOG_AMOUNT ? LOG_RIGHT : c->spoil;
    } else {
        c->refused++;
    }
    if (applied % LOG_MARK == 0) {
        c->mark[1] = c->mark[0];
        c->mark[0] = c->hash;
    }
    atomic_store_explicit(&c->applied, applied, memory_order_release);
    atomic_fetch_add(&c->ends, e.amount == 0);
}

/* Hold the entry back until the next is applied. True: this one was. */
static bool hold(struct log_copy *c, const loco_delivery_t *m)
{
    if (c->spoil != LOG_ORDER || c->held_bytes > 0)
        return false;
    memcpy(c->held, m->data, m->bytes);
    c->held_bytes = m->bytes;
    c->held_sender = m->sender;
    return true;
}

static void release(struct log_copy *c)
{
    if (c->held_bytes == 0)
        return;
    c->spoil = LOG_RIGHT;
    apply(c, c->held, c->held_bytes, c->held_sender);
    c->held_bytes = 0;
}

/* In a thread of the runtime. */
void log_deliver(void *arg, const loco_delivery_t *messages, int n)
{
    struct log_copy *c = arg;

    if (n == 0)
        atomic_store(&c->died, true);
    for (int i = 0; i < n; i++) {
        if (c->spoil == LOG_LOST) {
            c->spoil = LOG_RIGHT;
            continue;
        }
        if (hold(c, &messages[i]))
            continue;
        apply(c, messages[i].data, messages[i].bytes, messages[i].sender);
        release(c);
    }
}

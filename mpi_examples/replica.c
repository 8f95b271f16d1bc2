/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy, and what messages do to it. Only one of the callbacks runs at a time. */
#include "replica.h"
#include "common.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPOIL_AFTER = 200 };                     /* messages */

bool replica_open(struct replica *r, uint64_t keys, int members, uint64_t first, int rank,
                  enum replica_spoil spoil)
{
    *r = (struct replica){ .rank = rank, .spoil = spoil };
    r->state_bytes = sizeof(*r->state) + keys * sizeof(r->state->value[0]);
    r->state = calloc(1, r->state_bytes);
    if (r->state == NULL || members > REPLICA_MEMBERS)
        return false;
    r->state->keys = keys;
    atomic_store(&r->members, first);
    return true;
}

void replica_close(struct replica *r)
{
    free(r->state);
}

/* ---- messages ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const struct replica *r)
{
    uint64_t hash = atomic_load_explicit(&r->state->applied, memory_order_relaxed);

    for (uint64_t key = 0; key < r->state->keys; key++)
        hash = mix(hash, replica_get(r, key));
    return hash;
}

static void complain(struct replica *r, const char *what, int sender)
{
    fprintf(stderr, "replicated_kv: process %d: %s of process %d, after %" PRIu64 " messages\n",
            r->rank, what, sender, atomic_load(&r->state->applied));
    atomic_fetch_add(&r->wrong, 1);
}

static void set(struct replica *r, uint64_t key, uint64_t value)
{
    atomic_store_explicit(&r->state->value[key], value, memory_order_relaxed);
}

/* All that this sender has sent before is here, each once; and so it will be at all. */
static void note(struct replica *r, int sender, uint64_t sent)
{
    struct replica_state *s = r->state;

    if (s->from[sender] != sent)
        complain(r, "messages are lost or doubled", sender);
    s->asked[sender] = s->from[sender];
    s->noted[sender] = hash_of(r);
}

static void compare(struct replica *r, int sender, uint64_t asked, uint64_t hash)
{
    const struct replica_state *s = r->state;

    if (s->asked[sender] != asked || s->noted[sender] != hash)
        complain(r, "the copy is not that", sender);
    atomic_fetch_add(&r->answers, 1);
}

static void apply(struct replica *r, int sender, const struct replica_message *m)
{
    struct replica_state *s = r->state;

    switch (m->kind) {
    case REPLICA_SET:
        set(r, m->key, m->value);
        break;
    case REPLICA_ADD:
        set(r, m->key, replica_get(r, m->key) + m->value);
        break;
    case REPLICA_ASK:
        note(r, sender, m->value);
        break;
    case REPLICA_ANSWER:
        compare(r, sender, m->key, m->value);
        break;
    default:
        atomic_fetch_or(&s->ended, UINT64_C(1) << sender);
        break;
    }
    s->from[sender]++;
    atomic_fetch_add_explicit(&s->applied, 1, memory_order_release);
}

/* What the check has to notice: of two changes of one number the older one wins, a change is left
 * out, or applied twice. Returns whether this one is not to be applied. */
static bool spoil(struct replica *r, const struct replica_message *m)
{
    if (atomic_load(&r->state->applied) < SPOIL_AFTER)
        return false;
    if (r->spoil == REPLICA_ORDER)
        return m->kind == REPLICA_SET && replica_get(r, m->key) != 0;
    if (r->spoil == REPLICA_STATE || m->kind != REPLICA_ADD || m->value == 0)
        return false;
    if (r->spoil == REPLICA_DOUBLED)
        set(r, m->key, replica_get(r, m->key) + m->value);
    r->spoil = r->spoil == REPLICA_DOUBLED ? REPLICA_RIGHT : r->spoil;
    return r->spoil == REPLICA_LOST;
}

void replica_deliver(void *arg, const loco_delivery_t *messages, int n)
{
    struct replica *r = arg;
    struct replica_message m;

    for (int i = 0; i < n; i++) {
        memcpy(&m, messages[i].data, sizeof(m));
        if (r->spoil != REPLICA_RIGHT && spoil(r, &m)) {
            m.kind = REPLICA_ADD;
            m.value = 0;
        }
        apply(r, messages[i].sender, &m);
    }
}

/* ---- members ---- */

void replica_changed(void *arg, uint64_t number, const int *members, int n)
{
    struct replica *r = arg;
    uint64_t set = 0;

    for (int i = 0; i < n; i++)
        set |= UINT64_C(1) << members[i];
    atomic_store(&r->view, number);
    atomic_store(&r->members, set);
}

size_t replica_save(void *arg, uint64_t at, void *chunk, size_t room)
{
    const struct replica *r = arg;
    size_t left = at < r->state_bytes ? r->state_bytes - at : 0, bytes = left < room ? left : room;

    memcpy(chunk, (const char *)r->state + at, bytes);
    return bytes;
}

/* A state of another size is none of this program's. */
void replica_load(void *arg, uint64_t at, const void *chunk, size_t bytes)
{
    struct replica *r = arg;

    if (bytes > r->state_bytes - at || (bytes == 0 && at != r->state_bytes))
        abort();
    if (at == 0)
        r->copy_began = ex_now();
    memcpy((char *)r->state + at, chunk, bytes);
    r->copy_took = ex_now() - r->copy_began;
    if (bytes == 0 && r->spoil == REPLICA_STATE)
        set(r, r->state->keys - 1, replica_get(r, r->state->keys - 1) + 1);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

void settings_open(struct settings *s, uint64_t names, enum settings_spoil spoil)
{
    *s = (struct settings){ .room = 16, .spoil = spoil };
    while (s->room < 2 * names)
        s->room *= 2;
    s->setting = ex_memory(s->room, sizeof(*s->setting));
    s->held = ex_memory(1, sizeof(struct settings_change) + SETTINGS_NAME + SETTINGS_VALUE);
}

void settings_close(struct settings *s)
{
    free(s->setting);
    free(s->held);
}

/* ---- reading ---- */

/* Where that name is, or would be; NULL: there is no room. A place once used keeps its name, which
 * was written before its counter was not 0 any more: so this needs no lock. */
static struct setting *find(const struct settings *s, const char *name, size_t bytes, bool *is)
{
    uint64_t at = ex_hash(0, name, bytes);

    for (uint64_t i = 0; i < s->room; i++) {
        struct setting *e = &s->setting[(at + i) & (s->room - 1)];

        *is = atomic_load_explicit(&e->counter, memory_order_acquire) != 0;
        if (!*is || (strncmp(e->name, name, bytes) == 0 && e->name[bytes] == '\0'))
            return e;
    }
    return NULL;
}

/* The first look at the counter comes before the words (acquire), the second after them (the
 * fence). If both see the same even number, no word was written in between. */
uint64_t settings_get(const struct settings *s, const char *name, char value[SETTINGS_VALUE + 1])
{
    uint64_t word[SETTINGS_WORDS], before, bytes;
    bool is = false;
    const struct setting *e = find(s, name, strlen(name), &is);

    if (!is)
        return 0;
    do {
        before = atomic_load_explicit(&e->counter, memory_order_acquire);
        bytes = atomic_load_explicit(&e->bytes, memory_order_relaxed);
        for (int i = 0; i < SETTINGS_WORDS && (uint64_t)i * 8 < bytes; i++)
            word[i] = atomic_load_explicit(&e->word[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while (s->spoil != SETTINGS_TORN
             && (before % 2 != 0
                 || atomic_load_explicit(&e->counter, memory_order_relaxed) != before));
    memcpy(value, word, bytes);
    value[bytes] = '\0';
    return before / 2;
}

/* ---- changing: the handler alone ---- */

/* The counter is odd before any word changes (the fence), and even after all have (release).
 * Slowly: so that a reader who does not look at the counter is found out. */
static void write_value(struct setting *e, const char *value, size_t bytes, bool slowly)
{
    uint64_t counter = atomic_load_explicit(&e->counter, memory_order_relaxed);
    uint64_t word[SETTINGS_WORDS] = { 0 };

    memcpy(word, value, bytes);
    atomic_store_explicit(&e->counter, counter + 1, memory_order_release);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&e->bytes, bytes, memory_order_relaxed);
    for (int i = 0; i < SETTINGS_WORDS && (size_t)i * 8 < bytes; i++) {
        if (slowly && i == 1)
            usleep(100);
        atomic_store_explicit(&e->word[i], word[i], memory_order_relaxed);
    }
    atomic_store_explicit(&e->counter, counter + 2, memory_order_release);
}

/* Whether it changed anything: the same at all ranks, as they have the same settings before. */
static bool change(struct settings *s, const struct settings_change *c, const char *name)
{
    bool is;
    struct setting *e = find(s, name, c->name_bytes, &is);
    uint64_t version = e == NULL ? 0 : atomic_load_explicit(&e->counter, memory_order_relaxed) / 2;
    bool late = c->kind == SETTINGS_SET_IF && version != c->version;

    if (late && s->spoil == SETTINGS_WON) {
        s->spoil = SETTINGS_RIGHT;
        late = false;
    }
    if (late) {
        s->refused++;
        return false;
    }
    if (e == NULL) {
        s->full++;
        return false;
    }
    if (version == 0)
        memcpy(e->name, name, c->name_bytes);
    write_value(e, name + c->name_bytes, c->value_bytes, s->spoil == SETTINGS_TORN);
    return true;
}

static void apply(struct settings *s, const void *data, size_t bytes, int sender)
{
    struct settings_change c;
    bool done = true;

    memcpy(&c, data, sizeof(c));
    s->hash = ex_hash(ex_hash_word(s->hash, (uint64_t)sender), data, bytes);
    if (c.kind == SETTINGS_END)
        atomic_fetch_add(&s->ends, 1);
    else
        done = change(s, &c, (const char *)data + sizeof(c));
    atomic_store_explicit(&s->applied, s->applied + 1, memory_order_relaxed);
    if (sender == ex_rank())
        atomic_store(&s->mine_done, done);
}

static void deliver(struct settings *s, const loco_delivery_t *m)
{
    struct settings_change c;

    memcpy(&c, m->data, sizeof(c));
    if (s->spoil == SETTINGS_LOST && c.kind != SETTINGS_END && m->sender != ex_rank()) {
        s->spoil = SETTINGS_RIGHT;
        return;
    }
    if (s->spoil == SETTINGS_ORDER && c.kind != SETTINGS_END && m->sender != ex_rank()) {
        memcpy(s->held, m->data, m->bytes);
        s->held_bytes = m->bytes;
        s->held_sender = m->sender;
        s->spoil = SETTINGS_RIGHT;
        return;
    }
    apply(s, m->data, m->bytes, m->sender);
    if (s->held_bytes > 0) {
        apply(s, s->held, s->held_bytes, s->held_sender);
        s->held_bytes = 0;
    }
}

void settings_deliver(void *arg, const loco_delivery_t *messages, int n)
{
    struct settings *s = arg;

    for (int i = 0; i < n; i++)
        deliver(s, &messages[i]);
    if (n == 0)
        atomic_store(&s->died, true);
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b)
{
    const struct setting *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static size_t sort(const struct settings *s, const struct setting **all)
{
    size_t n = 0;

    for (uint64_t i = 0; i < s->room; i++)
        if (atomic_load(&s->setting[i].counter) != 0)
            all[n++] = &s->setting[i];
    qsort(all, n, sizeof(*all), by_name);
    return n;
}

uint64_t settings_hash(const struct settings *s)
{
    const struct setting **all = ex_memory(s->room, sizeof(*all));
    size_t n = sort(s, all);
    char value[SETTINGS_VALUE + 1];
    uint64_t hash = 0;

    for (size_t i = 0; i < n; i++) {
        hash = ex_hash_word(ex_hash(hash, all[i]->name, strlen(all[i]->name)),
                            settings_get(s, all[i]->name, value));
        hash = ex_hash(hash, value, strlen(value));
    }
    free(all);
    return hash;
}

void settings_print(const struct settings *s)
{
    const struct setting **all = ex_memory(s->room, sizeof(*all));
    size_t n = sort(s, all);
    char value[SETTINGS_VALUE + 1];

    for (size_t i = 0; i < n; i++) {
        settings_get(s, all[i]->name, value);
        printf("%s = %s\n", all[i]->name, value);
    }
    free(all);
}

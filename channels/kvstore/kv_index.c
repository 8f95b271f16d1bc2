/* SPDX-License-Identifier: BSD-3-Clause */

/* See kv_index.h. */

#include "config.h"

#include <stdlib.h>

#include "kv_index.h"
#include "memory/memory.h"
#include "wait.h"

/* ---- life ---- */

int loci_kv_index_open(struct loci_kv_index *index, struct loco_runtime *rt, uint64_t keys_max)
{
    /* A third more, and always an empty one. */
    uint64_t cells = keys_max + keys_max / 3 + 1;

    if (keys_max > SIZE_MAX / 64
        || cells * sizeof index->cell[0] > loci_memory_left(SIZE_MAX, 0, NULL))
        return LOCO_ERR_NO_MEMORY;
    *index = (struct loci_kv_index){ .rt = rt, .cells = cells, .keys_max = keys_max };
    index->cell = calloc(cells, sizeof index->cell[0]);
    if (index->cell == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_init(&index->lock, NULL);
    return LOCO_OK;
}

void loci_kv_index_close(struct loci_kv_index *index)
{
    if (index->cell == NULL)
        return;
    pthread_mutex_destroy(&index->lock);
    free(index->cell);
    index->cell = NULL;
}

size_t loci_kv_index_bytes(const struct loci_kv_index *index)
{
    return index->cells * sizeof index->cell[0];
}

/* ---- lookups ---- */

uint64_t loci_kv_index_find_again(const struct loci_kv_index *index, uint64_t key)
{
    unsigned rounds = 0;
    uint64_t word;

    while (!loci_kv_index_look(index, key, &word))
        loci_wait_round(index->rt, &rounds);
    return word;
}

/* ---- changes, under the mutex ---- */

static uint64_t after(const struct loci_kv_index *index, uint64_t at)
{
    return at + 1 == index->cells ? 0 : at + 1;
}

static uint64_t word_at(const struct loci_kv_index *index, uint64_t at)
{
    return atomic_load_explicit(&index->cell[at].word, memory_order_relaxed);
}

static uint64_t key_at(const struct loci_kv_index *index, uint64_t at)
{
    return atomic_load_explicit(&index->cell[at].key, memory_order_relaxed);
}

/* Release, all three: a reader that sees one of them sees those before, and the odd `moves`. */
static void set_cell(struct loci_kv_index *index, uint64_t at, uint64_t key, uint64_t word)
{
    struct loci_kv_cell *cell = &index->cell[at];

    atomic_store_explicit(&cell->word, 0, memory_order_release);
    atomic_store_explicit(&cell->key, key, memory_order_release);
    atomic_store_explicit(&cell->word, word, memory_order_release);
}

/* The key's cell, or the empty one where it would be. */
static uint64_t cell_of(const struct loci_kv_index *index, uint64_t key)
{
    uint64_t at = loci_kv_home(index, key);

    while (word_at(index, at) != 0 && key_at(index, at) != key)
        at = after(index, at);
    return at;
}

static void count(struct loci_kv_index *index, int64_t change)
{
    uint64_t keys = atomic_load_explicit(&index->keys, memory_order_relaxed);

    atomic_store_explicit(&index->keys, keys + (uint64_t)change, memory_order_relaxed);
}

int loci_kv_index_put(struct loci_kv_index *index, uint64_t key, uint64_t word)
{
    uint64_t at;
    int status = LOCO_OK;

    pthread_mutex_lock(&index->lock);
    at = cell_of(index, key);
    if (word_at(index, at) != 0)
        status = LOCO_ERR_EXISTS;
    else if (atomic_load_explicit(&index->keys, memory_order_relaxed) == index->keys_max)
        status = LOCO_ERR_FULL;
    if (status == LOCO_OK) {
        set_cell(index, at, key, word);
        count(index, 1);
    }
    pthread_mutex_unlock(&index->lock);
    return status;
}

/* May the key of `at` be moved to the gap before it? Not if its home is behind the gap. */
static bool may_move(const struct loci_kv_index *index, uint64_t at, uint64_t gap)
{
    uint64_t home = loci_kv_home(index, key_at(index, at));

    return gap <= at ? home <= gap || home > at : home <= gap && home > at;
}

/* Empty this cell, and move back what must not be behind an empty one. */
static void close_gap(struct loci_kv_index *index, uint64_t gap)
{
    uint64_t at = after(index, gap);

    for (; word_at(index, at) != 0; at = after(index, at)) {
        if (!may_move(index, at, gap))
            continue;
        set_cell(index, gap, key_at(index, at), word_at(index, at));
        gap = at;
    }
    atomic_store_explicit(&index->cell[gap].word, 0, memory_order_release);
}

bool loci_kv_index_remove(struct loci_kv_index *index, uint64_t key, uint64_t word)
{
    uint64_t at, moves;
    bool had;

    pthread_mutex_lock(&index->lock);
    at = cell_of(index, key);
    had = word != 0 && word_at(index, at) == word;
    if (had) {
        moves = atomic_load_explicit(&index->moves, memory_order_relaxed);
        atomic_store_explicit(&index->moves, moves + 1, memory_order_relaxed);
        close_gap(index, at);
        /* Pairs with the acquire at the begin of a lookup. */
        atomic_store_explicit(&index->moves, moves + 2, memory_order_release);
        count(index, -1);
    }
    pthread_mutex_unlock(&index->lock);
    return had;
}

int loci_kv_index_each(struct loci_kv_index *index, int (*visit)(void *ctx, uint64_t key),
                       void *ctx)
{
    int result = 0;

    pthread_mutex_lock(&index->lock);
    for (uint64_t at = 0; at < index->cells && result == 0; at++)
        if (word_at(index, at) != 0)
            result = visit(ctx, key_at(index, at));
    pthread_mutex_unlock(&index->lock);
    return result;
}

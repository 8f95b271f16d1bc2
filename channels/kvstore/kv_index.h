/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_KV_INDEX_H
#define LOCI_KV_INDEX_H

/* The local index of a key-value store: from keys to words that say where the value is. Memory of
 * this process, shared by its threads. Lookups write nothing; changes take a mutex.
 *
 * An open hash table with linear probing, of cells (word, key); a word of 0 is an empty cell. It is
 * made for as many keys as there can be, and never full: at most 3 of 4 cells. A removal closes the
 * gap by moving later cells of its run back, so there are no graves and no rebuilding.
 *
 * Invariant (as writers see it under the mutex): between the home of a key that is there and its
 * cell, no cell is empty.
 *
 *   - No word is ever put twice (that is up to the caller): a word that is the same before and
 *     after the key was read belongs to that key. A cell is changed as word := 0, key, word, with
 *     release, and read as word, key, word, with acquire.
 *   - Only removals make cells empty or move keys. `moves` is odd from before the first of a
 *     removal's changes until after its last one. So a lookup that came to an empty cell, with the
 *     same even `moves` before and after, has seen no gap that was not there: the key was absent.
 *     What a lookup finds needs no such proof, for a moved key is copied before its old cell
 *     changes. */

#include "runtime.h"

struct loci_kv_cell {
    _Atomic uint64_t word, key;
};

struct loci_kv_index {
    struct loco_runtime *rt;
    struct loci_kv_cell *cell;
    uint64_t cells;
    _Atomic uint64_t moves;
    _Atomic uint64_t keys;      /* in it */
    uint64_t keys_max;
    pthread_mutex_t lock;       /* of who changes it */
};

/* For that many keys. LOCO_ERR_NO_MEMORY. */
int loci_kv_index_open(struct loci_kv_index *index, struct loco_runtime *rt, uint64_t keys_max);
void loci_kv_index_close(struct loci_kv_index *index);
/* Bytes of its cells. */
size_t loci_kv_index_bytes(const struct loci_kv_index *index);

/* Add a key with a word that is not 0. LOCO_ERR_EXISTS; LOCO_ERR_FULL. */
int loci_kv_index_put(struct loci_kv_index *index, uint64_t key, uint64_t word);
/* Remove it, if it has this word; whether it had. */
bool loci_kv_index_remove(struct loci_kv_index *index, uint64_t key, uint64_t word);
/* visit(ctx, key) for all keys, under the mutex, until it returns not 0: that, or 0. */
int loci_kv_index_each(struct loci_kv_index *index, int (*visit)(void *ctx, uint64_t key),
                       void *ctx);

/* The finalizer of MurmurHash3 (Appleby): every bit of the key changes every bit of the hash. */
static inline uint64_t loci_kv_hash(uint64_t key)
{
    key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd);
    key = (key ^ key >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ key >> 33;
}

__extension__ typedef unsigned __int128 loci_kv_wide;

/* Where the search for a key begins: its hash as a fraction of the table. */
static inline uint64_t loci_kv_home(const struct loci_kv_index *index, uint64_t key)
{
    return (uint64_t)((loci_kv_wide)loci_kv_hash(key) * index->cells >> 64);
}

/* The cells of a key will be looked at soon. */
static inline void loci_kv_index_soon(const struct loci_kv_index *index, uint64_t key)
{
    __builtin_prefetch(&index->cell[loci_kv_home(index, key)]);
}

/* A lookup that met a removal: again, until it meets none. */
uint64_t loci_kv_index_find_again(const struct loci_kv_index *index, uint64_t key);

/* One pass. False: it was disturbed. Else the key's word, or 0, in *found. */
static inline bool loci_kv_index_look(const struct loci_kv_index *index, uint64_t key,
                                      uint64_t *found)
{
    /* Acquire: what the removal that ended with this number did is seen. */
    uint64_t moves = atomic_load_explicit(&index->moves, memory_order_acquire), word;
    const struct loci_kv_cell *cell = &index->cell[loci_kv_home(index, key)];
    const struct loci_kv_cell *end = &index->cell[index->cells];

    /* Acquire: pairs with set_cell(); and what is loaded after is not loaded before. */
    while ((word = atomic_load_explicit(&cell->word, memory_order_acquire)) != 0) {
        if (atomic_load_explicit(&cell->key, memory_order_acquire) == key) {
            *found = word;
            return atomic_load_explicit(&cell->word, memory_order_relaxed) == word;
        }
        if (++cell == end)
            cell = index->cell;
    }
    *found = 0;
    return moves % 2 == 0
           && atomic_load_explicit(&index->moves, memory_order_relaxed) == moves;
}

/* The word of a key, or 0. */
static inline uint64_t loci_kv_index_find(const struct loci_kv_index *index, uint64_t key)
{
    uint64_t word;

    return loci_kv_index_look(index, key, &word) ? word : loci_kv_index_find_again(index, key);
}

#endif

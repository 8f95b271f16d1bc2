/* SPDX-License-Identifier: BSD-3-Clause */

/* See race_table.h.
 *
 *   directory   a word for each of the first bits of a hash: {lock, bits that its subtable has, its
 *               number}
 *   subtable    buckets of 8 words: {bits and first bits of its hashes, slots...}
 *   slot        0, or {fingerprint 16, block 48}
 *   block       {key, value, stamp, 0}: written before a slot names it, and never again
 *
 * A key has two buckets. A get reads both, and the blocks whose fingerprints fit; an insert swaps
 * a free slot, then reads both again, for another may have inserted the key in the other one: the
 * lower slot stays. Each change looks at the subtable's lock together with its buckets, as whoever
 * grows it may have moved the pair on.
 *
 * Growing: lock the subtable's word of the directory; for each pair whose next bit is 1, two swaps,
 * into the new subtable and out of the old one; then buckets and directory say the new bits. */

#include "config.h"

#include "race_table.h"

#include <stdlib.h>
#include <string.h>

#include "../mpi_examples/kv_workload.h"
#include "fabric/sim/sim.h"
#include "move/rma.h"

enum { DIRECTORY, SUBTABLES, BLOCKS };
enum { SLOTS = 7, BUCKET = 8 * (SLOTS + 1), BLOCK = 32, TOGETHER = 8 };

#define LOCK (UINT64_C(1) << 63)
#define NUMBER UINT64_C(0xffffffff)
#define BLOCK_BITS 48

static uint64_t first_bits(uint64_t hash, unsigned n)
{
    return n == 0 ? 0 : hash >> (64 - n);
}

static unsigned bits_of(uint64_t entry)
{
    return (unsigned)(entry >> 32 & 0xff);
}

static struct loci_mem *mem(const struct race_table *t, int region)
{
    return loci_endpoint_mem(t->ep, t->o.host, region);
}

static uint64_t subtable_bytes(const struct race_table *t)
{
    return (uint64_t)t->o.buckets * BUCKET;
}

/* The first word of the directory is how many subtables there are. */
static uint64_t entry_at(uint64_t i)
{
    return 8 * (1 + i);
}

/* ---- life ---- */

int race_create(loco_runtime_t *rt, const struct race_options *o, int client,
                struct race_table **out)
{
    const loco_group_t *group = loco_everyone(rt);
    struct race_table *t = calloc(1, sizeof *t);
    uint64_t entries = UINT64_C(1) << o->most_bits;
    struct loci_endpoint_spec spec = { .name = "race", .group = group, .type = "race",
                                       .nregions = 3 };
    int status;

    if (t == NULL)
        return LOCO_ERR_NO_MEMORY;
    *t = (struct race_table){ .rt = rt, .o = *o, .client = client };
    t->givers = calloc((size_t)loco_group_size(group), sizeof *t->givers);
    t->directory = calloc(entries, sizeof *t->directory);
    if (t->givers == NULL || t->directory == NULL)
        abort();
    t->givers[o->host] = true;
    spec.givers = t->givers;
    spec.region[DIRECTORY] = (struct loci_region_spec){ "directory", entry_at(entries), 0,
                                                        LOCI_FROM_SOME };
    spec.region[SUBTABLES] = (struct loci_region_spec){ "subtables", entries * subtable_bytes(t), 0,
                                                        LOCI_FROM_SOME };
    spec.region[BLOCKS] = (struct loci_region_spec){
        "blocks", (uint64_t)o->clients * o->blocks * BLOCK, 0, LOCI_FROM_SOME };
    t->next_block = client < 0 ? 0 : (uint64_t)client * o->blocks;
    status = loci_endpoint_create(rt, &spec, &t->ep);
    *out = t;
    return status;
}

void race_destroy(struct race_table *t)
{
    loci_endpoint_destroy(t->ep);
    free(t->directory);
    free(t->givers);
    free(t);
}

static int read_directory(struct race_table *t)
{
    return loci_read(t->rt, mem(t, DIRECTORY), entry_at(0), t->directory,
                     sizeof t->directory[0] << t->o.most_bits, NULL);
}

/* Client 0 makes it, and the others wait for that. */
int race_open(struct race_table *t)
{
    uint64_t tables = UINT64_C(1) << t->o.bits, entries = UINT64_C(1) << t->o.most_bits;
    int status = LOCO_OK;

    for (uint64_t i = 0; i < entries && t->client == 0 && status == LOCO_OK; i++)
        status = loci_write64(t->rt, mem(t, DIRECTORY), entry_at(i),
                              (uint64_t)t->o.bits << 32 | i >> (t->o.most_bits - t->o.bits), NULL);
    for (uint64_t i = 0; i < tables && t->client == 0 && status == LOCO_OK; i++)
        for (unsigned b = 0; b < t->o.buckets && status == LOCO_OK; b++)
            status = loci_write64(t->rt, mem(t, SUBTABLES), i * subtable_bytes(t) + b * BUCKET,
                                  (uint64_t)t->o.bits << 32 | i, NULL);
    if (t->client == 0 && status == LOCO_OK)
        status = loco_fence(t->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
    if (t->client == 0 && status == LOCO_OK)
        status = loci_write64(t->rt, mem(t, DIRECTORY), 0, tables, NULL);
    for (tables = 0; tables == 0 && status == LOCO_OK; loci_sim_sleep(1000))
        status = loci_read64(t->rt, mem(t, DIRECTORY), 0, &tables, NULL);
    return status == LOCO_OK ? read_directory(t) : status;
}

/* ---- where a key is ---- */

struct place {
    uint64_t hash, mark;        /* mark: its fingerprint, where slots have it */
    uint64_t entry;             /* which one of the directory */
    uint64_t at[2];             /* its buckets */
    uint64_t bucket[2][SLOTS + 1];
    uint64_t now;               /* that entry */
};

static void find_place(const struct race_table *t, uint64_t key, struct place *p)
{
    uint64_t table, last = t->o.buckets - 1;

    p->hash = kv_mix64(key ^ UINT64_C(0x5bd1e9955bd1e995));
    p->mark = (p->hash & 0xffff) << BLOCK_BITS;
    p->entry = first_bits(p->hash, t->o.most_bits);
    table = (t->directory[p->entry] & NUMBER) * subtable_bytes(t);
    p->at[0] = table + (p->hash >> 16 & last) * BUCKET;
    p->at[1] = table + (((p->hash >> 16 & last) ^ (1 + (p->hash >> 40) % last)) & last) * BUCKET;
}

static int read_place(struct race_table *t, struct place *p, bool locks)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    for (int i = 0; i < 2 && status == LOCO_OK; i++)
        status = loci_read(t->rt, mem(t, SUBTABLES), p->at[i], p->bucket[i], BUCKET, &ack);
    if (status == LOCO_OK && locks)
        status = loci_read64(t->rt, mem(t, DIRECTORY), entry_at(p->entry), &p->now, &ack);
    return status != LOCO_OK ? status : loco_ack_wait(t->rt, &ack);
}

/* Whether these buckets are not, or no longer, those of the hash. */
static bool is_stale(const struct place *p)
{
    unsigned bits = bits_of(p->bucket[0][0]);

    return (p->bucket[0][0] & NUMBER) != first_bits(p->hash, bits)
           || p->bucket[1][0] != p->bucket[0][0];
}

/* Buckets that are this key's, with no one growing them if `locks`: that is waited for. */
static int settle_place(struct race_table *t, uint64_t key, struct place *p, bool locks)
{
    for (;;) {
        int status;

        find_place(t, key, p);
        status = read_place(t, p, locks);
        if (status != LOCO_OK)
            return status;
        if (!is_stale(p) && (!locks || p->now == t->directory[p->entry]))
            return LOCO_OK;
        if (locks && (p->now & LOCK) != 0)
            loci_sim_sleep(2000);
        status = read_directory(t);
        if (status != LOCO_OK)
            return status;
        for (uint64_t i = 0; i >> t->o.most_bits == 0; i++)
            t->directory[i] &= ~LOCK;
    }
}

struct block {
    uint64_t key, value, pad[2];
};

/* The slot of the key, or none: *slot is 0 then. */
static int find_slot(struct race_table *t, uint64_t key, const struct place *p, uint64_t *slot,
                     uint64_t *at, struct block *block)
{
    struct block found[2 * SLOTS];
    uint64_t slots[2 * SLOTS], ats[2 * SLOTS];
    loco_ack_t ack = LOCO_ACK_INIT;
    int n = 0, status = LOCO_OK;

    *slot = 0;
    for (int i = 0; i < 2 && (i == 0 || p->at[1] != p->at[0]); i++)
        for (int s = 1; s <= SLOTS; s++) {
            uint64_t word = p->bucket[i][s];

            if (word == 0 || (word & ~UINT64_C(0) << BLOCK_BITS) != p->mark)
                continue;
            slots[n] = word;
            ats[n] = p->at[i] + 8 * (uint64_t)s;
            if (status == LOCO_OK)
                status = loci_read(t->rt, mem(t, BLOCKS),
                                   ((word & ((UINT64_C(1) << BLOCK_BITS) - 1)) - 1) * BLOCK,
                                   &found[n], BLOCK, &ack);
            n++;
        }
    if (n > 0 && status == LOCO_OK)
        status = loco_ack_wait(t->rt, &ack);
    for (int i = n - 1; i >= 0 && status == LOCO_OK; i--)
        if (found[i].key == key) {
            *slot = slots[i];
            *at = ats[i];
            *block = found[i];
        }
    return status;
}

/* ---- calls ---- */

int race_get(struct race_table *t, uint64_t key, uint64_t *value)
{
    struct place p;
    struct block block;
    uint64_t slot, at;
    int status = settle_place(t, key, &p, false);

    if (status == LOCO_OK)
        status = find_slot(t, key, &p, &slot, &at, &block);
    if (status == LOCO_OK && slot != 0)
        *value = block.value;
    return status == LOCO_OK && slot == 0 ? LOCO_ERR_NOT_FOUND : status;
}

/* Its image must stay until it is acknowledged. */
static int write_block(struct race_table *t, const struct block *b, uint64_t *word,
                       const struct place *p, loco_ack_t *ack)
{
    uint64_t n = t->next_block++;

    if (n >= (uint64_t)(t->client + 1) * t->o.blocks)
        return LOCO_ERR_FULL;
    *word = p->mark | (n + 1);
    return loci_write(t->rt, mem(t, BLOCKS), n * BLOCK, b, BLOCK, ack);
}

/* A slot from one word to another, behind the block's write on the same lane. */
static int swap(struct race_table *t, uint64_t at, uint64_t from, uint64_t to, loco_ack_t *ack,
                bool *done)
{
    uint64_t old;
    int status = loci_compare_swap(t->rt, mem(t, SUBTABLES), at, from, to, &old, ack);

    if (status == LOCO_OK)
        status = loco_ack_wait(t->rt, ack);
    *done = old == from;
    return status;
}

int race_add(struct race_table *t, uint64_t key, uint64_t by)
{
    for (;;) {
        loco_ack_t ack = LOCO_ACK_INIT;
        uint64_t slot, at, word;
        struct block block;
        struct place p;
        bool done = false;
        int status = settle_place(t, key, &p, true);

        if (status == LOCO_OK)
            status = find_slot(t, key, &p, &slot, &at, &block);
        if (status != LOCO_OK || slot == 0)
            return status != LOCO_OK ? status : LOCO_ERR_NOT_FOUND;
        block.value += by;
        status = write_block(t, &block, &word, &p, &ack);
        if (status == LOCO_OK)
            status = swap(t, at, slot, word, &ack, &done);
        if (status != LOCO_OK || done)
            return status;
        t->next_block--;
    }
}

static uint64_t free_slot(const struct place *p)
{
    int first = 0, used[2] = { 0, 0 };

    for (int i = 0; i < 2; i++)
        for (int s = 1; s <= SLOTS; s++)
            used[i] += p->bucket[i][s] != 0;
    first = used[1] < used[0];
    for (int k = 0; k < 2; k++)
        for (int s = 1; s <= SLOTS; s++)
            if (p->bucket[first ^ k][s] == 0)
                return p->at[first ^ k] + 8 * (uint64_t)s;
    return UINT64_MAX;
}

static int grow(struct race_table *t, const struct place *p);

/* Two have inserted it: the lower slot stays. Somebody began to grow the subtable meanwhile: if he
 * has not moved the pair, he may have passed it already, and it is taken back. (A look-up may have
 * found it before: the table is not linearizable. The paper does not say how its own avoids that.)
 * LOCO_ERR_AGAIN. */
static int look_again(struct race_table *t, uint64_t key, struct place *p, uint64_t word,
                      uint64_t at)
{
    struct block block;
    uint64_t first, first_at;
    bool done;
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = read_place(t, p, true);

    if (status == LOCO_OK && (is_stale(p) || p->now != t->directory[p->entry])) {
        status = swap(t, at, word, 0, &ack, &done);
        return status == LOCO_OK && done ? LOCO_ERR_AGAIN : status;
    }
    if (status == LOCO_OK)
        status = find_slot(t, key, p, &first, &first_at, &block);
    if (status != LOCO_OK || first == 0 || first == word)
        return status;
    status = swap(t, at, word, 0, &ack, &done);
    return status != LOCO_OK ? status : LOCO_ERR_EXISTS;
}

int race_insert(struct race_table *t, uint64_t key, uint64_t value)
{
    for (;;) {
        const struct block new = { .key = key, .value = value };
        loco_ack_t ack = LOCO_ACK_INIT;
        uint64_t slot, at, word;
        struct block block;
        struct place p;
        bool done = false;
        int status = settle_place(t, key, &p, true);

        if (status == LOCO_OK)
            status = find_slot(t, key, &p, &slot, &at, &block);
        if (status != LOCO_OK || slot != 0)
            return status != LOCO_OK ? status : LOCO_ERR_EXISTS;
        at = free_slot(&p);
        if (at == UINT64_MAX) {
            status = grow(t, &p);
            if (status != LOCO_OK)
                return status;
            continue;
        }
        status = write_block(t, &new, &word, &p, &ack);
        if (status == LOCO_OK)
            status = swap(t, at, 0, word, &ack, &done);
        if (status != LOCO_OK)
            return status;
        if (done)
            status = look_again(t, key, &p, word, at);
        if (done && status != LOCO_ERR_AGAIN)
            return status;
        t->next_block--;
    }
}

/* ---- growing ---- */

struct growing {
    struct race_table *t;
    uint64_t from, to;          /* subtables */
    unsigned bits;              /* that it has */
    uint64_t prefix;
};

static int move_slot(struct growing *g, uint64_t at, uint64_t word, uint64_t bucket)
{
    struct race_table *t = g->t;
    uint64_t slot = g->to * subtable_bytes(t) + bucket * BUCKET + at % BUCKET, there = 0;
    int status = LOCO_OK;

    t->stats.moved++;
    while (status == LOCO_OK && word != 0) {
        loco_ack_t ack = LOCO_ACK_INIT;
        uint64_t before, old = word;

        status = loci_compare_swap(t->rt, mem(t, SUBTABLES), slot, there, word, &before, &ack);
        if (status == LOCO_OK)
            status = loci_compare_swap(t->rt, mem(t, SUBTABLES), at, word, 0, &old, &ack);
        if (status == LOCO_OK)
            status = loco_ack_wait(t->rt, &ack);
        if (old == word)
            return status;
        there = word;                   /* updated, or taken back, meanwhile */
        word = old;
    }
    return status != LOCO_OK || there == 0 ? status
           : loci_write64(t->rt, mem(t, SUBTABLES), slot, 0, NULL);
}

/* Whose next bit is 1 goes to the same slot of the new subtable, which nobody knows yet. */
static int move_bucket(struct growing *g, uint64_t bucket)
{
    struct race_table *t = g->t;
    uint64_t at = g->from * subtable_bytes(t) + bucket * BUCKET, words[SLOTS + 1];
    int status = loci_read(t->rt, mem(t, SUBTABLES), at, words, BUCKET, NULL);
    struct block block[SLOTS + 1];
    loco_ack_t ack = LOCO_ACK_INIT;

    for (int s = 1; s <= SLOTS && status == LOCO_OK; s++)
        if (words[s] != 0)
            status = loci_read(t->rt, mem(t, BLOCKS),
                               ((words[s] & ((UINT64_C(1) << BLOCK_BITS) - 1)) - 1) * BLOCK,
                               &block[s], BLOCK, &ack);
    if (status == LOCO_OK)
        status = loco_ack_wait(t->rt, &ack);
    for (int s = 1; s <= SLOTS && status == LOCO_OK; s++) {
        uint64_t hash = words[s] == 0 ? 0
                        : kv_mix64(block[s].key ^ UINT64_C(0x5bd1e9955bd1e995));

        if ((hash << g->bits) >> 63 != 0)
            status = move_slot(g, at + 8 * (uint64_t)s, words[s], bucket);
    }
    return status;
}

static int write_bits(struct growing *g)
{
    struct race_table *t = g->t;
    uint64_t bits = (uint64_t)(g->bits + 1) << 32;
    int status = LOCO_OK;

    for (uint64_t b = 0; b < t->o.buckets && status == LOCO_OK; b++) {
        status = loci_write64(t->rt, mem(t, SUBTABLES), g->to * subtable_bytes(t) + b * BUCKET,
                              bits | g->prefix << 1 | 1, NULL);
        if (status == LOCO_OK)
            status = loci_write64(t->rt, mem(t, SUBTABLES),
                                  g->from * subtable_bytes(t) + b * BUCKET, bits | g->prefix << 1,
                                  NULL);
    }
    return status == LOCO_OK ? loco_fence(t->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS) : status;
}

/* The first entry, which has the lock, last. */
static int write_entries(struct growing *g)
{
    struct race_table *t = g->t;
    unsigned rest = t->o.most_bits - g->bits;
    uint64_t first = g->prefix << rest, n = UINT64_C(1) << rest;
    uint64_t bits = (uint64_t)(g->bits + 1) << 32;
    int status = LOCO_OK;

    for (uint64_t i = n; i-- > 0 && status == LOCO_OK;) {
        uint64_t entry = bits | (i >= n / 2 ? g->to : g->from);

        status = loci_write64(t->rt, mem(t, DIRECTORY), entry_at(first + i), entry, NULL);
        t->directory[first + i] = entry;
    }
    return status == LOCO_OK ? loco_fence(t->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS) : status;
}

/* All entries of a subtable are locked, since each client looks at the one of its key. */
static int lock(struct growing *g, bool *locked)
{
    struct race_table *t = g->t;
    unsigned rest = t->o.most_bits - g->bits;
    uint64_t first = g->prefix << rest, entry = (uint64_t)g->bits << 32 | g->from, old;
    int status = loci_compare_swap(t->rt, mem(t, DIRECTORY), entry_at(first), entry, entry | LOCK,
                                   &old, NULL);

    *locked = status == LOCO_OK && old == entry;
    for (uint64_t i = 1; *locked && i >> rest == 0 && status == LOCO_OK; i++)
        status = loci_write64(t->rt, mem(t, DIRECTORY), entry_at(first + i), entry | LOCK, NULL);
    return status == LOCO_OK ? loco_fence(t->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS) : status;
}

static int grow(struct race_table *t, const struct place *p)
{
    uint64_t entry = t->directory[p->entry];
    struct growing g = { .t = t, .from = entry & NUMBER, .bits = bits_of(entry) };
    int64_t begin = loci_sim_time();
    bool locked;
    int status;

    if (g.bits == t->o.most_bits)
        return LOCO_ERR_FULL;
    g.prefix = first_bits(p->hash, g.bits);
    status = lock(&g, &locked);
    if (status != LOCO_OK || !locked)
        return status;
    t->grows = true;
    status = loci_fetch_add(t->rt, mem(t, DIRECTORY), 0, 1, &g.to, NULL);
    for (uint64_t b = 0; b < t->o.buckets && status == LOCO_OK; b++)
        status = move_bucket(&g, b);
    if (status == LOCO_OK)
        status = write_bits(&g);
    if (status == LOCO_OK)
        status = write_entries(&g);
    t->grows = false;
    t->stats.grown++;
    begin = loci_sim_time() - begin;
    t->stats.longest = begin > t->stats.longest ? begin : t->stats.longest;
    return status;
}

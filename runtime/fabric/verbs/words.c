/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory of the device's own, for the words of locks (DESIGN 4): an atomic on such a word is the
 * device's alone, without two ways through the bus (SMART, section 2; Sherman, SIGMOD 2022).
 *
 * There is little of it, 256 KiB for all processes of a node as a rule, so it is taken in chunks as
 * it is needed, up to LOCO_RDMA_DEVICE_MEMORY; who finds none left has its words in host memory,
 * which the others learn from its keys. Each chunk is one registration. To the device it begins
 * at 0.
 *
 * The CPU sees it through the device only. It is cleared when it is taken, and read back: that ends
 * when what was stored before has arrived, so peers, who are told later, find zeros. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "verbs.h"

#define UNIT ((size_t)64)
#define CHUNK (64 * UNIT)               /* of units, a bit each; larger requests have their own */
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE \
                | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

struct verbs_chunk {
    struct ibv_dm *dm;
    struct ibv_mr *mr;
    size_t len;
    uint64_t used;                      /* units; of a larger one, all at once */
    struct verbs_chunk *next;
};

static uint64_t units(unsigned n)
{
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* ---- chunks ---- */

static void chunk_free(struct verbs_fabric *f, struct verbs_chunk *c)
{
    int error = c->mr != NULL ? ibv_dereg_mr(c->mr) : 0;

    if (error == 0 && c->dm != NULL)
        error = ibv_free_dm(c->dm);
    errno = error;
    if (error != 0)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "memory of %s is not given back: %m", f->port.device);
    free(c);
}

/* NULL: errno says why. */
static struct verbs_chunk *chunk_make(struct verbs_fabric *f, size_t len)
{
    struct ibv_alloc_dm_attr attr = { .length = len, .log_align_req = 6 };
    struct verbs_chunk *c = calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    c->len = len;
    c->dm = ibv_alloc_dm(f->context, &attr);
    if (c->dm != NULL)
        c->mr = ibv_reg_dm_mr(f->pd, c->dm, 0, len, RIGHTS);
    if (c->mr == NULL) {
        int error = errno;

        chunk_free(f, c);
        errno = error;
        return NULL;
    }
    return c;
}

/* Under the lock. NULL: there is no more, or no more may be taken. */
static struct verbs_chunk *chunk_add(struct verbs_fabric *f, size_t needed)
{
    struct verbs_words *w = &f->words;
    size_t wanted = (size_t)f->rt->tunables.rdma_device_memory;
    size_t limit = wanted < f->port.device_memory ? wanted : f->port.device_memory;
    size_t len = needed > CHUNK ? needed : CHUNK;
    struct verbs_chunk *c = NULL;

    if (w->refused || len > limit || w->bytes > limit - len)
        return NULL;
    c = chunk_make(f, len);
    if (c == NULL) {
        /* Others of this node have it: who asked for each window would pay for each. */
        w->refused = len == CHUNK;
        LOCI_LOG(f->rt, LOCO_LOG_INFO, "%s has no memory left for locks, which are in the host's: "
                 "%m", f->port.device);
        return NULL;
    }
    if (w->bytes == 0)
        LOCI_LOG(f->rt, LOCO_LOG_INFO, "locks are in the memory of %s, %zu bytes at most",
                 f->port.device, limit);
    w->bytes += len;
    c->next = w->chunks;
    w->chunks = c;
    return c;
}

/* The first of so many units in a row, or -1. */
static int find_units(const struct verbs_chunk *c, unsigned n)
{
    if (n > 64)
        return c->used == 0 && n * UNIT <= c->len ? 0 : -1;
    for (unsigned at = 0; c->len == CHUNK && at + n <= 64; at++)
        if ((c->used >> at & units(n)) == 0)
            return (int)at;
    return -1;
}

static bool clear(struct verbs_chunk *c, size_t offset, size_t len)
{
    unsigned char zeros[CHUNK] = { 0 }, seen[CHUNK];

    for (size_t at = 0; at < len; at += CHUNK) {
        size_t n = len - at < CHUNK ? len - at : CHUNK;

        if (ibv_memcpy_to_dm(c->dm, offset + at, zeros, n) != 0
            || ibv_memcpy_from_dm(seen, c->dm, offset + at, n) != 0 || memcmp(seen, zeros, n) != 0)
            return false;
    }
    return true;
}

/* ---- words ---- */

/* Under the lock. */
static int take(struct verbs_fabric *f, size_t len, struct loci_memkey *key)
{
    unsigned n = (unsigned)(len / UNIT);
    struct verbs_chunk *c = f->words.chunks;
    int at = -1;

    for (; c != NULL && (at = find_units(c, n)) < 0; c = c->next)
        ;
    if (c == NULL) {
        c = chunk_add(f, len);
        at = 0;
    }
    if (c == NULL)
        return LOCO_ERR_AGAIN;
    /* What cannot be cleared stays taken, so that nobody tries it again. */
    c->used |= c->len == CHUNK ? units(n) << at : UINT64_MAX;
    if (!clear(c, (size_t)at * UNIT, len))
        return LOCO_ERR_AGAIN;
    key->base = (size_t)at * UNIT;
    key->device = VERBS_REGISTERED | c->mr->rkey;
    return LOCO_OK;
}

int loci_verbs_words_take(struct loci_fabric *fabric, size_t len, struct loci_memkey *key)
{
    struct verbs_fabric *f = verbs_of(fabric);
    int status;

    if (len == 0 || len > f->port.device_memory)
        return LOCO_ERR_AGAIN;
    len = (len + UNIT - 1) / UNIT * UNIT;
    pthread_mutex_lock(&f->words.lock);
    status = take(f, len, key);
    pthread_mutex_unlock(&f->words.lock);
    return status;
}

/* Chunks stay: who has made a window makes another. */
void loci_verbs_words_give(struct loci_fabric *fabric, const struct loci_memkey *key)
{
    struct verbs_words *w = &verbs_of(fabric)->words;
    unsigned n = (unsigned)((key->len + UNIT - 1) / UNIT);
    struct verbs_chunk *c;

    pthread_mutex_lock(&w->lock);
    for (c = w->chunks; c != NULL && c->mr->rkey != (uint32_t)key->device; c = c->next)
        ;
    if (c != NULL)
        c->used &= c->len == CHUNK ? ~(units(n) << key->base / UNIT) : 0;
    pthread_mutex_unlock(&w->lock);
}

void loci_verbs_words_close(struct verbs_fabric *f)
{
    while (f->words.chunks != NULL) {
        struct verbs_chunk *c = f->words.chunks;

        f->words.chunks = c->next;
        chunk_free(f, c);
    }
}

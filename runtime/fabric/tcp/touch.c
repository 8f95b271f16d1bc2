/* SPDX-License-Identifier: BSD-3-Clause */

/* This process's memory, as requests of peers touch it.
 *
 * Each piece of a request looks its memory up anew, under shm's lock, which keeps it there until
 * the piece is done: what was given back in the meantime is refused, and never touched. Who does
 * requests takes the lock once for all that one read has brought.
 *
 * Words are whole. Network memory is loaded and stored in aligned units of 8 bytes, each by one
 * access, and in.c brings nothing that ends inside of one unless the write does. So a reader never
 * sees half of a word that was written as one, however the stream was cut. The accesses are release
 * and acquire: a word that somebody sees has all before it behind it.
 *
 * Memory that the program brought may be anything: copies to and from it are the system's, for
 * which a fault is a status (../shm/own.c). An atomic has to be this CPU's. Its page is asked for
 * before, so that what may not be written is a status, too; what a program does to the protection
 * of its window's memory while others access it is beyond that. */

#include "config.h"

#include <string.h>

#include "../shm/own.h"
#include "touch.h"

#define PAGE ((size_t)4096)     /* no page is smaller */

/* ---- words ---- */

/* Others' accesses, for the address sanitizer: what they write late may be nobody's any more, as it
 * may be with a device. */
#define AS_OTHERS __attribute__((no_sanitize("address")))

static size_t bytes_to_word(const void *p, size_t len)
{
    size_t n = (size_t)(-(uintptr_t)p % 8);

    return n < len ? n : len;
}

AS_OTHERS static void move_bytes(unsigned char *to, const unsigned char *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = from[i];
}

AS_OTHERS void loci_tcp_land(unsigned char *to, const unsigned char *from, size_t len)
{
    size_t edge = bytes_to_word(to, len);

    move_bytes(to, from, edge);
    for (to += edge, from += edge, len -= edge; len >= 8; to += 8, from += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, from, 8);
        atomic_store_explicit((_Atomic uint64_t *)(void *)to, word, memory_order_release);
    }
    move_bytes(to, from, len);
}

AS_OTHERS void loci_tcp_lift(unsigned char *to, const unsigned char *from, size_t len)
{
    size_t edge = bytes_to_word(from, len);

    move_bytes(to, from, edge);
    for (to += edge, from += edge, len -= edge; len >= 8; to += 8, from += 8, len -= 8) {
        uint64_t word = atomic_load_explicit((const _Atomic uint64_t *)(const void *)from,
                                             memory_order_acquire);

        memcpy(to, &word, 8);
    }
    move_bytes(to, from, len);
}

AS_OTHERS static uint64_t update(unsigned char *at, bool adds, uint64_t operand, uint64_t compare)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)at;

    if (adds)
        return atomic_fetch_add_explicit(word, operand, memory_order_seq_cst);
    atomic_compare_exchange_strong_explicit(word, &compare, operand, memory_order_seq_cst,
                                            memory_order_seq_cst);
    return compare;
}

/* ---- where it is ---- */

/* Under shm's lock. NULL: this process has no such memory, or not all of it. */
static unsigned char *find(struct shm_fabric *shm, const struct tcp_range *r, size_t len)
{
    if (r->kind == LOCI_MEM_POOL) {
        const struct shm_extent *e = loci_shm_extent(shm, r->extent);

        if (e == NULL || r->at > e->len || len > e->len - r->at)
            return NULL;
        return e->base + r->at;
    }
    if (r->kind == LOCI_MEM_USER) {
        const struct shm_user *u = loci_shm_user(shm, r->extent);

        if (u == NULL || r->at < u->base || r->at - u->base > u->len
            || len > u->len - (r->at - u->base))
            return NULL;
        return (unsigned char *)(uintptr_t)r->at;
    }
    return NULL;
}

/* ---- copies ---- */

/* Between user memory and a packed copy of it, in a file of ours. */
static int touch(struct shm_fabric *shm, bool writes, unsigned char *at, unsigned char *packed,
                 size_t len)
{
    struct shm_own own;

    loci_shm_own_begin(&own, shm, writes, packed);
    loci_shm_own_add(&own, (uintptr_t)at, len);
    return loci_shm_own_end(&own);
}

/* Steps end between words, and the packed bytes lie as theirs do, so that the system need not cut a
 * word either. */
static int touch_through(struct shm_fabric *shm, bool writes, unsigned char *at,
                         unsigned char *bytes, size_t len)
{
    unsigned char *scratch = loci_shm_scratch(shm);
    int status = scratch != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;

    while (status == LOCO_OK && len > 0) {
        size_t odd = (uintptr_t)at % 8, most = SHM_SCRATCH - odd, n = len < most ? len : most;
        unsigned char *packed = scratch + odd;

        if (writes)
            memcpy(packed, bytes, n);
        status = touch(shm, writes, at, packed, n);
        if (!writes && status == LOCO_OK)
            memcpy(bytes, packed, n);
        at += n;
        bytes += n;
        len -= n;
    }
    return status;
}

static int copy(struct shm_fabric *shm, const struct tcp_range *r, bool writes,
                unsigned char *bytes, size_t len)
{
    unsigned char *at = find(shm, r, len);

    if (at == NULL)
        return LOCO_ERR_RANGE;
    if (r->kind == LOCI_MEM_USER)
        return touch_through(shm, writes, at, bytes, len);
    loci_shm_as_another_process(true);
    if (writes)
        loci_tcp_land(at, bytes, len);
    else
        loci_tcp_lift(bytes, at, len);
    loci_shm_as_another_process(false);
    return LOCO_OK;
}

int loci_tcp_own_write(struct shm_fabric *shm, const struct tcp_range *r, const void *from,
                       size_t len)
{
    return copy(shm, r, true, (unsigned char *)from, len);
}

int loci_tcp_own_read(struct shm_fabric *shm, const struct tcp_range *r, void *to, size_t len)
{
    return copy(shm, r, false, to, len);
}

/* ---- short writes ---- */

int loci_tcp_own_gather(struct shm_fabric *shm, struct tcp_gathered *g, const struct tcp_range *r,
                        const void *from, size_t len)
{
    unsigned char *at = find(shm, r, len), *packed = loci_shm_scratch(shm);

    if (at == NULL || packed == NULL)
        return at == NULL ? LOCO_ERR_RANGE : LOCO_ERR_NO_MEMORY;
    if (g->bytes == 0)
        loci_shm_own_begin(&g->own, shm, true, packed);
    memcpy(packed + g->bytes, from, len);
    g->bytes += len;
    loci_shm_own_add(&g->own, (uintptr_t)at, len);
    return LOCO_OK;
}

bool loci_tcp_own_fits(const struct tcp_gathered *g, size_t len)
{
    return len <= SHM_SCRATCH - g->bytes;
}

int loci_tcp_own_gathered(struct tcp_gathered *g)
{
    if (g->bytes == 0)
        return LOCO_OK;
    g->bytes = 0;
    return loci_shm_own_end(&g->own);
}

/* ---- atomics ---- */

int loci_tcp_own_atomic(struct shm_fabric *shm, const struct tcp_range *r, bool adds,
                        uint64_t operand, uint64_t compare, uint64_t *old)
{
    unsigned char *at = find(shm, r, 8);

    if (at == NULL)
        return LOCO_ERR_RANGE;
    if ((uintptr_t)at % 8 != 0)
        return LOCO_ERR_ARG;
    if (r->kind == LOCI_MEM_USER && !loci_shm_is_writable(at))
        return LOCO_ERR_SYSTEM;
    *old = update(at, adds, operand, compare);
    return LOCO_OK;
}

/* Whether all pages of n words may be written: a word of each. */
static bool are_writable(const unsigned char *at, size_t len)
{
    for (size_t done = 0; done < len; done += PAGE - ((uintptr_t)at + done) % PAGE)
        if (!loci_shm_is_writable(at + done))
            return false;
    return true;
}

int loci_tcp_own_merge(struct shm_fabric *shm, const struct tcp_range *r, uint32_t how,
                       const void *from, size_t len)
{
    loci_merge_fn *merge = atomic_load_explicit(&shm->rt->merge, memory_order_acquire);
    unsigned char *at = find(shm, r, len);
    bool done;

    if (at == NULL)
        return LOCO_ERR_RANGE;
    if ((uintptr_t)at % 8 != 0 || merge == NULL)
        return LOCO_ERR_ARG;
    if (r->kind == LOCI_MEM_USER && !are_writable(at, len))
        return LOCO_ERR_SYSTEM;
    loci_shm_as_another_process(true);
    done = merge(how, at, from, len / 8);
    loci_shm_as_another_process(false);
    return done ? LOCO_OK : LOCO_ERR_ARG;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_OWNED_H
#define LOCI_OWNED_H

/* A register of one writer and many readers: what owned_var is, and each row of an SST.
 *
 * Every member has a copy at the same place of its region; the owner's counts. A copy is words of
 * 8 bytes. Plain: the value's words; each is read and written whole, nothing binds them to each
 * other. Checked: a sequence number, the value's words, a checksum over both; a reader that finds
 * a wrong sum met a write in the middle, and tries again. Memory that is all zero is a valid copy
 * of the value zero.
 *
 * Who writes what: the owner's threads, one after the other under `lock`, its own copy and, by
 * pushes, the others'. Pushes of one thread to a reader stay in order on its lane; when another
 * thread pushes, the earlier one's are placed first. The source of a push is the owner's copy, so
 * a store waits until pushes in flight have read it. A reader writes nothing, but that of a
 * register which is only pulled keeps what it pulled in its own copy, under its `lock`.
 *
 * If the owner stops inside a push, a reader's copy stays torn: its retries end with
 * LOCO_ERR_PEER_DEAD. */

#include <pthread.h>

#include "move/rma.h"
#include "names/endpoint.h"

struct loci_owned {
    struct loci_endpoint *ep;
    int region, owner;                  /* owner: rank */
    uint64_t offset;                    /* of a copy, in every member's region */
    size_t words;                       /* of the value */
    bool checked;
    bool rings;                         /* each push signals to who sleeps by LOCI_BELL_SST */
    pthread_mutex_t lock;
    uint64_t seq;                       /* of the value in this process's copy, if it writes it */
    uint64_t zero;                      /* checksum of the value zero */
    uint64_t *pulled;                   /* where a copy that is not mapped is read to */
    struct loci_thread *pusher;         /* whose pushes are in `pushes` */
    loco_ack_t pushes;
    _Atomic uint64_t retries;           /* wrong checksums met by this process */
};

/* Bytes of a copy of so many words. */
static inline size_t loci_owned_size(size_t words, bool checked)
{
    return (checked ? words + 2 : words) * sizeof(uint64_t);
}

/* ep, region, owner, offset, words, checked and rings are set by the caller. */
int loci_owned_open(struct loci_owned *o);
void loci_owned_close(struct loci_owned *o);

/* Owner. Set words [first, first + n) of its copy. Blocks while pushes still read it. */
int loci_owned_store(struct loci_owned *o, size_t first, size_t n, const uint64_t *values);
/* Owner. Write them (checked: all) to the copies of these ranks; NULL: all others. With ack NULL
 * it blocks until posted and read. Not placed. */
int loci_owned_push(struct loci_owned *o, size_t first, size_t n, const int *ranks, int nranks,
                    loco_ack_t *ack);
/* The value's first len bytes from this process's copy. */
int loci_owned_load(struct loci_owned *o, void *value, size_t len);
/* From the owner's copy; `keep`: into this process's, too. */
int loci_owned_pull(struct loci_owned *o, void *value, size_t len, bool keep);

/* This process's copy of a word; plain registers only. */
static inline uint64_t loci_owned_word(const struct loci_owned *o, size_t word)
{
    const struct loci_mem *mine = loci_endpoint_mem(o->ep, o->ep->group.rank, o->region);

    return loci_load64(loci_mem_ptr(mine) + o->offset + word * sizeof(uint64_t));
}

#endif

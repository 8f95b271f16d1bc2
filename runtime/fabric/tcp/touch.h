/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TCP_TOUCH_H
#define LOCI_TCP_TOUCH_H

#include "../shm/own.h"

/* A place in this process's network memory, as a peer's request names it. */
struct tcp_range {
    unsigned kind;          /* enum loci_mem_kind */
    uint64_t extent;        /* number of it, or of user memory */
    uint64_t at;            /* offset in the extent; address of user memory */
};

/* Copies to and from network memory in whole words, where that is aligned. */
void loci_tcp_land(unsigned char *to, const unsigned char *from, size_t len);
void loci_tcp_lift(unsigned char *to, const unsigned char *from, size_t len);

/* All that follows is under shm's lock. LOCO_ERR_RANGE: there is no such memory; LOCO_ERR_SYSTEM:
 * it may not be touched so. What comes before may be done. */
int loci_tcp_own_write(struct shm_fabric *shm, const struct tcp_range *r, const void *from,
                       size_t len);
int loci_tcp_own_read(struct shm_fabric *shm, const struct tcp_range *r, void *to, size_t len);
/* LOCO_ERR_ARG: it is not aligned. */
int loci_tcp_own_atomic(struct shm_fabric *shm, const struct tcp_range *r, bool adds,
                        uint64_t operand, uint64_t compare, uint64_t *old);

/* The words of a write that merges. The same, or nothing is done. */
int loci_tcp_own_merge(struct shm_fabric *shm, const struct tcp_range *r, uint32_t how,
                       const void *from, size_t len);

/* Writes to user memory that are done together: gathered, each checked, and then done, all before
 * the lock is given back or anything else of this is called. bytes 0: there are none. */
struct tcp_gathered {
    struct shm_own own;
    size_t bytes;
};
bool loci_tcp_own_fits(const struct tcp_gathered *g, size_t len);
int loci_tcp_own_gather(struct shm_fabric *shm, struct tcp_gathered *g, const struct tcp_range *r,
                        const void *from, size_t len);
int loci_tcp_own_gathered(struct tcp_gathered *g);

#endif

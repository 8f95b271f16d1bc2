/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SHM_OWN_H
#define LOCI_SHM_OWN_H

#include "shm.h"

/* This process's own memory, touched for its peers: what is not there, or may not be touched so, is
 * a status and no signal; own.c. All under fabric->lock but the last four. */

#define SHM_OWN_SPANS 1024              /* of one system call, which takes no more */
#define SHM_SCRATCH ((size_t)128 << 10) /* bytes */

/* A copy between spans of that memory and bytes that lie packed in a memory file of ours. */
struct shm_own {
    bool writes;                        /* to the spans */
    int fd;
    off_t at;                           /* in the file, of the first span of iov */
    int n, status;
    size_t bytes;                       /* of iov */
    struct iovec iov[SHM_OWN_SPANS];
};

/* `packed` lies in the page of offers, or in the scratch. */
void loci_shm_own_begin(struct shm_own *own, const struct shm_fabric *f, bool writes,
                        const unsigned char *packed);
void loci_shm_own_add(struct shm_own *own, uint64_t at, size_t len);
/* LOCO_OK, or LOCO_ERR_SYSTEM: some of it cannot be touched; what comes before is copied. */
int loci_shm_own_end(struct shm_own *own);

/* Whether a word of this process, at a multiple of 4, may be updated now; without fabric->lock. */
bool loci_shm_is_writable(const void *word);

/* SHM_SCRATCH bytes that may be `packed`, made on first use; NULL: there is no memory. */
unsigned char *loci_shm_scratch(struct shm_fabric *f);
void loci_shm_scratch_close(struct shm_fabric *f);

/* fabric.h's `touch_room`, `touch`, `reach` and `reached`; without fabric->lock. */
unsigned char *loci_shm_touch_room(struct loci_fabric *fabric, size_t len);
int loci_shm_touch(struct loci_fabric *fabric, bool writes, const struct loci_piece *pieces, int n,
                   unsigned char *packed);
bool loci_shm_reach(struct loci_fabric *fabric, const struct loci_piece *pieces, int n);
void loci_shm_reached(struct loci_fabric *fabric);

#endif

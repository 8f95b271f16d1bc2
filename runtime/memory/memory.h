/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MEMORY_H
#define LOCI_MEMORY_H

#include "runtime.h"

/* Own network memory: extents, sub-ranges of them, and what others need to reach them. */

/* A sub-range of `len` bytes, aligned to `align` (a power of two, at most 2 MiB; 0: a cache line),
 * contents zero. `*mine` is its local handle (mine->ptr is set, mine->peer is LOCI_SELF).
 * LOCO_ERR_NO_MEMORY: more than the machine, the control group or LOCO_MEM_LIMIT has left; the
 * log says how much was asked for and how much is left. Thread-safe. len 0 is allowed: ptr is
 * not NULL then, and kind is LOCI_MEM_POOL. */
int loci_alloc(struct loco_runtime *rt, size_t len, size_t align, struct loci_mem *mine);
/* Also of what loci_alloc_in_device gave. */
void loci_free(struct loco_runtime *rt, struct loci_mem *mine);

/* Undo what the program made of `len` bytes at `ptr`, a part of pool memory, own or mapped, that it
 * had a pointer to: protection, and whether its children have them (mprotect, MADV_DONTFORK).
 * Before the memory is freed: for its owner and whoever maps it, the next one to have it. Only
 * whole pages inside the range can have been changed. What the program made of `mine` cannot be
 * undone where it is no longer mapped: it is not used again then. */
void loci_renew(struct loco_runtime *rt, void *ptr, size_t len);
void loci_renew_own(struct loco_runtime *rt, struct loci_mem *mine);

/* What loci_alloc gives, of `len` bytes in the device's own memory, for words of the nic domain
 * that are touched by loci_fetch_add and its like, loci_read64 and loci_write64 alone: that saves
 * each atomic two ways through the bus. ptr is NULL for ever, kind LOCI_MEM_DEVICE; and what is
 * done there places no write (loci_mem_orders). LOCO_ERR_AGAIN: there is none, or none left;
 * loci_alloc has. */
int loci_alloc_in_device(struct loco_runtime *rt, size_t len, struct loci_mem *mine);

/* Memory that the user brought. Nothing is touched or copied. */
int loci_user_add(struct loco_runtime *rt, void *base, size_t len, struct loci_mem *mine);
void loci_user_remove(struct loco_runtime *rt, struct loci_mem *mine);

/* A handle on memory of `peer`, from the key that it sent. Maps nothing yet. LOCO_ERR_PROTOCOL if
 * the key makes no sense. For LOCI_SELF the pointer is set at once. Who has a handle uses its peer
 * (loci_peers_use), as endpoints and windows do, and drops it in the end. */
int loci_mem_import(struct loco_runtime *rt, int peer, const struct loci_memkey *key,
                    struct loci_mem *mem);

/* Map it if it can be mapped (slow, cached in mem->ptr, and in mem->word if it is of a domain of
 * the CPU's atomics); NULL where it cannot. */
unsigned char *loci_mem_map(struct loco_runtime *rt, struct loci_mem *mem);
/* The same for who must not wait for its owner: NULL, too, where it cannot be mapped yet. */
unsigned char *loci_mem_map_soon(struct loco_runtime *rt, struct loci_mem *mem);

/* The handle is not used any more; nothing where it is none, or this process's own. What is mapped
 * stays until the last handle on that extent is dropped, though its owner has freed it or gone. */
void loci_mem_drop(struct loco_runtime *rt, struct loci_mem *mem);

/* The domain of words that this group's members update by atomics. All members find the same. */
enum loci_domain loci_domain_of(const struct loco_group *group);

/* Whether those who have a word of that domain mapped use the CPU's atomics. */
static inline bool loci_domain_is_cpus(enum loci_domain domain)
{
    return domain == LOCI_DOMAIN_CPU || domain == LOCI_DOMAIN_OWNER;
}

/* Say it of a handle: of all handles on one range the same, at all members. Not while others use
 * this handle; loci_alloc, loci_user_add and loci_mem_import have set LOCI_DOMAIN_NONE. */
void loci_mem_set_domain(struct loci_mem *mem, enum loci_domain domain);

/* What one who asks for network memory now may have at most, in bytes: by the machine, the control
 * groups, `limit` (of which this process has `used`) and the limit of address space; budget.c. The
 * least of them is *what, a static text, unless that is NULL. */
size_t loci_memory_left(size_t limit, size_t used, const char **what);
/* The same of what is mapped already. */
size_t loci_memory_to_commit(size_t limit, size_t used);

/* A short-lived buffer of network memory for operands and results, from this thread's pool of
 * fixed-size blocks (4 KiB; larger ones come from loci_alloc). */
struct loci_block;
struct loco_memref {
    struct loci_mem mem;
    size_t len;
    struct loci_block *block;       /* NULL: larger than a block */
};
int loci_memref_get(struct loco_runtime *rt, size_t len, struct loco_memref *ref);
void loci_memref_put(struct loco_runtime *rt, struct loco_memref *ref);

/* Memory of endpoints that were destroyed here, but not yet by others: who asks for more than there
 * is waits for it. */
void loci_memory_is_owed(struct loco_runtime *rt, size_t bytes);
void loci_memory_was_owed(struct loco_runtime *rt, size_t bytes);

/* Lives, called by runtime.c and self.c. */
void loci_memref_close(struct loci_thread *thread);
void loci_memory_close(struct loco_runtime *rt);
/* Once the service thread has ended, which may have had something to free until then. */
void loci_memory_end(struct loco_runtime *rt);

#endif

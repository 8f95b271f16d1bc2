/* SPDX-License-Identifier: BSD-3-Clause */

/* Peers' memory files, mapped here on first use.
 *
 * A mapping counts the handles that have an address in it (users, under the peer's lock). It is
 * kept while there are any, whatever becomes of its owner: who uses what a peer has freed, or has
 * left behind, finds zeros or what was there, and no fault. Without users it stays while it may be
 * wanted again: until its owner has freed the extent (SHM_UNMAP) or has gone. Whoever comes last
 * unmaps it: the service thread, which looks at the users after it has written that, or the last
 * user, who looks at that after the count; both under the lock.
 *
 * The descriptor comes from the owner's /proc/PID/fd, where its number and the file's inode are
 * in the key; the start time tells that the process still is the owner. Where that is forbidden
 * or the pid is not of this namespace, the owner's service thread is asked for it.
 *
 * Who may wait asks with a call of its own (struct shm_call) and maps what it gets. Who may not
 * (loci_shm_map_soon) leaves a mapping without an address in the list, `asked`, with what is needed
 * to tell the file, and asks with call 0; the service thread maps the file when the answer comes,
 * if that mapping is still there. Without an answer the next one asks again. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/memory.h"
#include "offer.h"
#include "service.h"
#include "shm.h"
#include "wait.h"

#define ASK_AGAIN INT64_C(1000000000)   /* ns for which a descriptor is waited for, */
#define ASK_MOST 10                     /* and how often */
#define AGAIN_AFTER INT64_C(20000000)   /* ns that what could not be mapped is left at that */

/* ---- descriptors ---- */

static bool is_file(int fd, uint64_t rkey)
{
    struct stat file;

    return fstat(fd, &file) == 0 && S_ISREG(file.st_mode)
           && (uint64_t)file.st_ino << SHM_KEY_FD_BITS >> SHM_KEY_FD_BITS
              == rkey >> SHM_KEY_FD_BITS;
}

static int fd_from_proc(struct shm_peer *p, uint64_t rkey)
{
    const struct loci_address *owner = &p->peer->address;
    char file[32];
    int fd;

    if (p->fabric->pid_space == 0 || owner->fabric[0] != p->fabric->pid_space)
        return -1;
    snprintf(file, sizeof file, "fd/%llu",
             (unsigned long long)(rkey & ((UINT64_C(1) << SHM_KEY_FD_BITS) - 1)));
    fd = loci_shm_open_of(p, file, O_RDWR | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || is_file(fd, rkey))
        return fd;
    close(fd);
    return -1;
}

static int is_answered(void *arg)
{
    return atomic_load_explicit(&((struct shm_call *)arg)->done, memory_order_acquire);
}

static void enter_call(struct shm_fabric *f, struct shm_call *call)
{
    pthread_mutex_lock(&f->lock);
    call->id = ++f->calls_made;
    call->next = f->calls;
    f->calls = call;
    pthread_mutex_unlock(&f->lock);
}

static void leave_call(struct shm_fabric *f, struct shm_call *call)
{
    struct shm_call **at = &f->calls;

    pthread_mutex_lock(&f->lock);
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&f->lock);
}

static int fd_from_owner(struct shm_peer *p, uint64_t extent)
{
    struct shm_fabric *f = p->fabric;
    const struct loci_reason why = {
        .what = "the descriptor of a peer's memory", .peer = p->peer->index,
        .timeout_ns = ASK_AGAIN,
    };
    int status = LOCO_ERR_TIMEOUT;
    struct shm_call call = { .peer = p, .fd = -1 };
    struct shm_head want = { .type = SHM_WANT_FD, .extent = extent };

    if (loci_service_is_self(f->rt))
        return -1;      /* would wait for itself; somebody else may map it later */
    enter_call(f, &call);
    want.call = call.id;
    /* Question or answer may be lost where memory or descriptors are short. */
    for (int i = 0; i < ASK_MOST && status == LOCO_ERR_TIMEOUT; i++) {
        status = loci_shm_send(p, &want, NULL, 0, -1);
        if (status == LOCO_OK)
            status = loci_wait(f->rt, &why, is_answered, &call);
    }
    leave_call(f, &call);
    return call.fd;
}

/* Under fabric->lock: a duplicate of the descriptor of that extent, or -1. The page of offers is
 * there until no handler runs. */
static int own_fd(struct shm_fabric *f, uint64_t extent)
{
    const struct shm_extent *e = loci_shm_extent(f, extent);
    int fd = e != NULL ? e->fd : extent == SHM_OFFERS_EXTENT ? f->offers_fd : -1;

    return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

void loci_shm_fd_wanted(struct shm_peer *p, const struct shm_head *head)
{
    const struct shm_head here = { .type = SHM_HERE_IS_FD, .extent = head->extent,
                                   .call = head->call };
    struct shm_fabric *f = p->fabric;
    int fd;

    pthread_mutex_lock(&f->lock);
    fd = own_fd(f, head->extent);
    pthread_mutex_unlock(&f->lock);
    /* Who asks waits for an answer: that there is none to be had is one, too. */
    if (loci_shm_send(p, &here, NULL, 0, fd) != LOCO_OK && fd >= 0)
        loci_shm_send(p, &here, NULL, 0, -1);
    if (fd >= 0)
        close(fd);
}

/* ---- mappings ---- */

/* Under peer->lock. */
static struct shm_mapping *mapping_of(struct shm_peer *p, uint64_t extent)
{
    struct shm_mapping *m = p->mappings;

    while (m != NULL && m->extent != extent)
        m = m->next;
    return m;
}

/* Whether it is known includes what could not be mapped a moment ago, and, for who does not wait,
 * what was asked for. */
static unsigned char *find(struct shm_peer *p, const struct loci_memkey *key, bool waits,
                           bool *known)
{
    struct shm_mapping *m;
    unsigned char *ptr = NULL;

    pthread_mutex_lock(&p->lock);
    m = mapping_of(p, key->extent);
    *known = m != NULL && (m->base != NULL || (loci_now(p->fabric->rt) < m->again_at
                                               && !(m->asked && waits)));
    if (m != NULL && m->base != NULL && key->base <= m->len && key->len <= m->len - key->base) {
        ptr = m->base + key->base;
        m->users++;
    }
    pthread_mutex_unlock(&p->lock);
    return ptr;
}

/* Another thread may have been faster: its mapping stays then, and `m` is the caller's again. In
 * the place of what could not be mapped comes what is tried again. */
static struct shm_mapping *enter(struct shm_peer *p, struct shm_mapping *m)
{
    struct shm_mapping **at = &p->mappings, *other;

    pthread_mutex_lock(&p->lock);
    while (*at != NULL && (*at)->extent != m->extent)
        at = &(*at)->next;
    other = *at;
    if (other == NULL || other->base == NULL) {
        m->next = other == NULL ? NULL : other->next;
        *at = m;
    } else {
        other = m;
    }
    pthread_mutex_unlock(&p->lock);
    return other;
}

static void drop(struct shm_mapping *m)
{
    if (m != NULL && m->base != NULL)
        munmap(m->base, m->len);
    free(m);
}

static void tell_unmapped(const struct shm_peer *p, size_t len, int error)
{
    errno = error;
    LOCI_LOG(p->fabric->rt, LOCO_LOG_WARN, "%zu bytes of process %016llx cannot be mapped, it "
             "copies instead: %m", len, (unsigned long long)p->peer->address.identity);
}

static bool map_file(struct shm_peer *p, uint64_t extent, int fd)
{
    const struct shm_head told = { .type = SHM_MAPPED, .extent = extent };
    struct shm_mapping *m = calloc(1, sizeof *m), *other;
    struct stat file;
    bool mapped;
    size_t len;
    int error;

    if (m == NULL || fstat(fd, &file) != 0 || file.st_size <= 0) {
        free(m);
        return false;
    }
    m->extent = extent;
    m->len = len = (size_t)file.st_size;
    m->base = loci_shm_map_aligned(fd, m->len);
    m->again_at = loci_now(p->fabric->rt) + AGAIN_AFTER;
    error = errno;
    mapped = m->base != NULL;
    if (mapped && p->fabric->rt->tunables.huge_pages != LOCI_HUGE_NEVER)
        madvise(m->base, m->len, MADV_HUGEPAGE);
    other = enter(p, m);            /* from here on it may be unmapped */
    if (mapped && other != m && extent != SHM_OFFERS_EXTENT)
        loci_shm_send(p, &told, NULL, 0, -1);       /* (of offers, the owner keeps the page) */
    if (!mapped && (other == NULL || other->asked))     /* the first time */
        tell_unmapped(p, len, error);
    drop(other);
    return true;
}

/* ---- without waiting ---- */

/* Whether the owner is to be asked, now that this is noted. */
static bool note_asked(struct shm_peer *p, const struct loci_memkey *key)
{
    struct shm_mapping *m;
    bool noted = false;

    pthread_mutex_lock(&p->lock);
    m = mapping_of(p, key->extent);
    if (m == NULL && (m = calloc(1, sizeof *m)) != NULL) {
        m->extent = key->extent;
        m->next = p->mappings;
        p->mappings = m;
    }
    if (m != NULL && m->base == NULL) {
        m->asked = noted = true;
        m->rkey = key->rkey;
        m->again_at = loci_now(p->fabric->rt) + ASK_AGAIN;
    }
    pthread_mutex_unlock(&p->lock);
    return noted;
}

static void ask_owner(struct shm_peer *p, const struct loci_memkey *key)
{
    const struct shm_head want = { .type = SHM_WANT_FD, .extent = key->extent };

    if (note_asked(p, key))
        loci_shm_send(p, &want, NULL, 0, -1);
}

/* Service thread: the answer. The mapping may be there by now, or wanted no more. */
static void map_asked(struct shm_peer *p, uint64_t extent, int fd)
{
    const struct shm_mapping *m;
    uint64_t rkey = 0;
    bool asked;

    pthread_mutex_lock(&p->lock);
    m = mapping_of(p, extent);
    asked = m != NULL && m->base == NULL && m->asked;
    if (asked)
        rkey = m->rkey;
    pthread_mutex_unlock(&p->lock);
    if (fd >= 0 && asked && is_file(fd, rkey))
        map_file(p, extent, fd);
}

void loci_shm_fd_here(struct shm_peer *p, const struct shm_head *head, int fd)
{
    struct shm_fabric *f = p->fabric;
    struct shm_call *call;

    if (head->call == 0)
        map_asked(p, head->extent, fd);
    pthread_mutex_lock(&f->lock);
    call = f->calls;
    while (call != NULL && (call->id != head->call || call->peer != p))
        call = call->next;
    if (call != NULL && atomic_load_explicit(&call->done, memory_order_relaxed) == 0) {
        call->fd = fd;
        fd = -1;
        atomic_store_explicit(&call->done, 1, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
    if (fd >= 0)
        close(fd);
}

static unsigned char *map(struct loci_fabric *fabric, const struct loci_mem *mem, bool waits)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_peer *p = loci_peer(f->rt, mem->peer)->fabric_data;
    unsigned char *ptr;
    bool known;
    int fd;

    if (p == NULL || mem->key.kind != LOCI_MEM_POOL)
        return NULL;
    ptr = find(p, &mem->key, waits, &known);
    if (known)
        return ptr;
    fd = fd_from_proc(p, mem->key.rkey);
    if (fd < 0 && waits)
        fd = fd_from_owner(p, mem->key.extent);
    else if (fd < 0)
        ask_owner(p, &mem->key);
    if (fd < 0)
        return NULL;
    if (is_file(fd, mem->key.rkey) && map_file(p, mem->key.extent, fd))
        ptr = find(p, &mem->key, waits, &known);
    close(fd);
    return ptr;
}

unsigned char *loci_shm_map(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    return map(fabric, mem, true);
}

unsigned char *loci_shm_map_soon(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    return map(fabric, mem, false);
}

/* ---- until when ---- */

static bool is_wanted(const struct shm_peer *p, const struct shm_mapping *m)
{
    return m->users > 0 || (!m->freed && loci_peer_alive(p->fabric->rt, p->peer->index));
}

/* Of that extent, or of all (number NULL), those that are not wanted any more. */
static void unmap_unwanted(struct shm_peer *p, const uint64_t *number)
{
    struct shm_mapping **at = &p->mappings, *m, *unwanted = NULL;

    pthread_mutex_lock(&p->lock);
    while ((m = *at) != NULL) {
        if ((number != NULL && m->extent != *number) || is_wanted(p, m)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        m->next = unwanted;
        unwanted = m;
    }
    pthread_mutex_unlock(&p->lock);
    while ((m = unwanted) != NULL) {
        unwanted = m->next;
        drop(m);
    }
}

void loci_shm_unuse(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    struct shm_peer *p = loci_peer(shm_of(fabric)->rt, mem->peer)->fabric_data;
    const uint64_t number = mem->key.extent;
    struct shm_mapping *m;

    pthread_mutex_lock(&p->lock);
    for (m = p->mappings; m != NULL && m->extent != number; m = m->next)
        ;
    if (m != NULL && m->users > 0)
        m->users--;
    pthread_mutex_unlock(&p->lock);
    unmap_unwanted(p, &number);
}

void loci_shm_unmap(struct shm_peer *p, uint64_t number)
{
    pthread_mutex_lock(&p->lock);
    for (struct shm_mapping *m = p->mappings; m != NULL; m = m->next)
        m->freed = m->freed || m->extent == number;
    pthread_mutex_unlock(&p->lock);
    unmap_unwanted(p, &number);
}

void loci_shm_unmap_unused(struct shm_peer *p)
{
    unmap_unwanted(p, NULL);
}

void loci_shm_unmap_all(struct shm_peer *p)
{
    while (p->mappings != NULL) {
        struct shm_mapping *m = p->mappings;

        p->mappings = m->next;
        drop(m);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Copies through the owner's service thread, where the system forbids process_vm_readv/writev, or
 * cannot copy memory of that kind for another process.
 *
 * The requester makes an area of slots per owner and sends its descriptor once. For each request
 * a thread takes a slot, puts the data of a write there, and sends the spans over the control
 * socket. The owner's service thread checks that they lie in memory registered under the number
 * that the request names, copies between them and the slot, writes `status` and `result`, then
 * `done` with release; the requester polls it. Should the owner end meanwhile, the wait ends and
 * the slot is not used again; should the requester end, the owner copies into an area that nobody
 * reads. The owner maps only areas that can not shrink, so that it cannot be made to fault.
 *
 * An owner that lacks a descriptor or address space refuses the area, and all requests that were
 * sent until then have failed: it takes messages in order, and a request without an area for
 * nothing. The next request sends the descriptor again. So the requester keeps that until a request
 * was served. Who writes `told`: UNTOLD or REFUSED -> TELLING, a thread that tells, by compare and
 * swap; TELLING -> TOLD, UNTOLD or REFUSED, the same thread, and TOLD -> REFUSED, the service
 * thread, both under the peer's lock. `refusals` is counted up by the service thread, under the
 * lock and after it has changed `told`: whoever sees a count finds TOLD only if the area was sent
 * again since. So a request that looks at the count, then finds TOLD, was sent behind an area of
 * which the count says when it is refused. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "memory/memfile.h"
#include "move/access.h"
#include "own.h"
#include "service.h"
#include "shm.h"
#include "wait.h"

#define SLOTS 8
#define SLOT_BYTES ((size_t)128 << 10)
#define AREA_BYTES (SLOTS * SLOT_BYTES)

struct slot {
    _Atomic uint32_t done;      /* requester: 0 before the request; owner: 1 after the copy */
    int32_t status;
    uint64_t result;            /* an atomic's old value */
    _Alignas(64) unsigned char data[];
};
#define SLOT_DATA (SLOT_BYTES - offsetof(struct slot, data))
_Static_assert(SLOT_BYTES <= SHM_SCRATCH, "the owner's copy of a slot's data fits");

enum { UNTOLD, TELLING, TOLD, REFUSED };

struct shm_area {
    unsigned char *base;
    _Atomic int fd;                     /* until the owner has it for certain; then -1 */
    _Atomic uint32_t free_slots;        /* a bit each */
    _Atomic int told;                   /* whether the owner was sent the descriptor */
    _Atomic unsigned refusals;          /* of the owner, which could not map it */
};

static struct slot *slot_at(unsigned char *area, uint32_t slot)
{
    return (struct slot *)(void *)(area + slot * SLOT_BYTES);
}

/* ---- requester: the area ---- */

static void free_area(struct shm_area *area)
{
    int fd = atomic_load_explicit(&area->fd, memory_order_relaxed);

    if (area->base != MAP_FAILED)
        munmap(area->base, AREA_BYTES);
    if (fd >= 0)
        close(fd);
    free(area);
}

static struct shm_area *new_area(void)
{
    struct shm_area *area = calloc(1, sizeof *area);
    int fd, error;

    if (area == NULL)
        return NULL;
    fd = loci_memfile("loco-copies", AREA_BYTES, false);
    atomic_init(&area->fd, fd);
    atomic_init(&area->free_slots, (1u << SLOTS) - 1);
    area->base = MAP_FAILED;
    if (fd >= 0)
        area->base = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (area->base != MAP_FAILED)
        return area;
    error = errno;
    free_area(area);
    errno = error;
    return NULL;
}

/* The first thread to come sets the area up. */
static struct shm_area *add_area(struct shm_peer *p)
{
    struct shm_area *area = new_area(), *other;

    if (area == NULL) {
        loci_descriptor_missing(p->fabric->rt, "no memory for copies by a peer");
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    other = p->area;
    if (other == NULL)
        p->area = area;
    pthread_mutex_unlock(&p->lock);
    if (other == NULL)
        return area;
    free_area(area);
    return other;
}

static int tell_area(struct shm_peer *p, struct shm_area *area)
{
    const struct shm_head head = { .type = SHM_AREA, .call = (uintptr_t)area };
    unsigned refusals = atomic_load_explicit(&area->refusals, memory_order_relaxed);
    int fd = atomic_load_explicit(&area->fd, memory_order_relaxed);
    int status = fd >= 0 ? loci_shm_send(p, &head, NULL, 0, fd) : LOCO_ERR_SYSTEM;
    int told = status == LOCO_OK ? TOLD : UNTOLD;

    pthread_mutex_lock(&p->lock);
    if (atomic_load_explicit(&area->refusals, memory_order_relaxed) != refusals)
        told = REFUSED;
    atomic_store_explicit(&area->told, told, memory_order_release);
    pthread_mutex_unlock(&p->lock);
    return status != LOCO_OK ? status : told == REFUSED ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

static int is_not_telling(void *arg)
{
    return atomic_load_explicit(&((struct shm_area *)arg)->told, memory_order_acquire) != TELLING;
}

/* The owner has been sent the area, and has not refused it. */
static int see_told(struct shm_peer *p, struct shm_area *area)
{
    const struct loci_reason why = {
        .what = "another thread to set up copying", .peer = p->peer->index,
        .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_COPY,
    };
    int told = atomic_load_explicit(&area->told, memory_order_acquire);

    while (told != TOLD) {
        int status = LOCO_OK;

        if (told == TELLING)
            status = loci_wait(p->fabric->rt, &why, is_not_telling, area);
        else if (atomic_compare_exchange_strong_explicit(&area->told, &told, TELLING,
                                                         memory_order_acquire,
                                                         memory_order_acquire))
            status = tell_area(p, area);
        if (status != LOCO_OK)
            return status;
        told = atomic_load_explicit(&area->told, memory_order_acquire);
    }
    return LOCO_OK;
}

static int area_of(struct shm_peer *p, struct shm_area **out)
{
    struct shm_area *area;

    pthread_mutex_lock(&p->lock);
    area = p->area;
    pthread_mutex_unlock(&p->lock);
    if (area == NULL)
        area = add_area(p);
    *out = area;
    if (area == NULL)
        return errno == ENOMEM ? LOCO_ERR_NO_MEMORY : LOCO_ERR_SYSTEM;
    return LOCO_OK;
}

/* The owner has it. */
static void drop_descriptor(struct shm_area *area)
{
    int fd = -1;

    if (atomic_load_explicit(&area->fd, memory_order_relaxed) >= 0)
        fd = atomic_exchange_explicit(&area->fd, -1, memory_order_relaxed);
    if (fd >= 0)
        close(fd);
}

/* ---- requester: slots ---- */

static int has_free_slot(void *arg)
{
    struct shm_area *area = arg;

    return atomic_load_explicit(&area->free_slots, memory_order_relaxed) != 0;
}

static int take_slot(struct shm_peer *p, struct shm_area *area, uint32_t *slot)
{
    const struct loci_reason why = {
        .what = "room for a copy", .peer = p->peer->index, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_COPY,
    };
    uint32_t mask = atomic_load_explicit(&area->free_slots, memory_order_relaxed);

    for (;;) {
        if (mask == 0) {
            int status = loci_wait(p->fabric->rt, &why, has_free_slot, area);

            if (status != LOCO_OK)
                return status;
            mask = atomic_load_explicit(&area->free_slots, memory_order_relaxed);
            continue;
        }
        /* Acquire: pairs with the release of who gave the slot back. */
        if (atomic_compare_exchange_weak_explicit(&area->free_slots, &mask, mask & (mask - 1),
                                                  memory_order_acquire, memory_order_relaxed)) {
            *slot = (uint32_t)__builtin_ctz(mask);
            return LOCO_OK;
        }
    }
}

static void give_slot(struct shm_area *area, uint32_t slot)
{
    atomic_fetch_or_explicit(&area->free_slots, 1u << slot, memory_order_release);
}

/* ---- requester: requests ---- */

/* What of a chain goes into one request. */
struct plan {
    const struct loci_op *ops;
    size_t skip;                /* bytes of ops[0] that are done already */
    int done;                   /* ops that are complete with this request */
    size_t part;                /* bytes of the next one that are, then */
};

static bool is_copy(const struct loci_op *op)
{
    return op->kind == LOCI_WRITE || op->kind == LOCI_READ;
}

static bool go_together(const struct loci_op *a, const struct loci_op *b)
{
    return a->kind == b->kind && a->mem->key.kind == b->mem->key.kind
           && a->mem->key.extent == b->mem->key.extent;
}

static void plan_request(struct plan *plan, int n, struct shm_copy *copy)
{
    size_t room = SLOT_DATA;
    const struct loci_op *op = plan->ops;
    size_t from = plan->skip;

    *copy = (struct shm_copy){
        .op = op->kind, .kind = op->mem->key.kind, .number = op->mem->key.extent,
        .operand = op->operand, .compare = op->compare,
    };
    for (plan->done = 0; plan->done < n && copy->nspans < SHM_SPANS; op++, plan->done++) {
        size_t left = op->len - from, len = left < room ? left : room;

        if (!go_together(op, plan->ops) || (plan->done > 0 && !is_copy(op)))
            break;
        copy->span[copy->nspans].at = op->mem->key.base + op->offset + from;
        copy->span[copy->nspans].len = len;
        copy->nspans++;
        room -= len;
        if (len < left) {
            plan->part = from + len;
            break;
        }
        from = 0;
    }
}

/* Between the slot and the local buffers of the planned ops. */
static void move_local(const struct plan *plan, const struct shm_copy *copy, struct slot *slot)
{
    size_t from = plan->skip;
    unsigned char *at = slot->data;

    for (uint32_t i = 0; i < copy->nspans; i++) {
        unsigned char *local = (unsigned char *)plan->ops[i].local + from;
        size_t len = copy->span[i].len;

        if (copy->op == LOCI_WRITE)
            memcpy(at, local, len);
        else
            memcpy(local, at, len);
        at += len;
        from = 0;
    }
}

struct done_wait {
    struct shm_area *area;
    struct slot *slot;
    unsigned refusals;          /* before it was sent */
};

static int is_done(void *arg)
{
    const struct done_wait *wait = arg;

    if (atomic_load_explicit(&wait->slot->done, memory_order_acquire) != 0)
        return 1;
    return atomic_load_explicit(&wait->area->refusals, memory_order_acquire) != wait->refusals
           ? LOCO_ERR_NO_MEMORY : 0;
}

/* LOCO_ERR_NO_MEMORY, or what sending came to: the owner does not come back to the slot. */
static int send_request(struct shm_peer *p, struct done_wait *wait, const struct shm_copy *copy)
{
    const struct shm_head head = { .type = SHM_COPY };
    int status;

    atomic_store_explicit(&wait->slot->done, 0, memory_order_relaxed);
    do {
        wait->refusals = atomic_load_explicit(&wait->area->refusals, memory_order_acquire);
        status = see_told(p, wait->area);
    } while (status == LOCO_OK
             && atomic_load_explicit(&wait->area->refusals, memory_order_acquire)
                != wait->refusals);
    return status != LOCO_OK ? status
           : loci_shm_send(p, &head, copy, offsetof(struct shm_copy, span)
                           + copy->nspans * sizeof copy->span[0], -1);
}

/* `*given_up`: the owner does not touch the slot any more. */
static int request(struct shm_peer *p, struct shm_area *area, const struct shm_copy *copy,
                   struct slot *slot, bool *given_up)
{
    struct done_wait wait = { area, slot, 0 };
    const struct loci_reason why = {
        .what = "a peer's service thread to copy", .peer = p->peer->index,
        .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_COPY,
    };
    int status = send_request(p, &wait, copy);

    *given_up = true;
    if (status != LOCO_OK)
        return status;
    status = loci_wait(p->fabric->rt, &why, is_done, &wait);
    *given_up = status == LOCO_OK || status == LOCO_ERR_NO_MEMORY;
    if (status == LOCO_OK)
        drop_descriptor(area);
    return status;
}

static int copied(struct shm_peer *p, const struct plan *plan, const struct shm_copy *copy,
                  struct slot *slot)
{
    int status = slot->status;

    if (status == LOCO_ERR_SYSTEM) {
        LOCI_LOG(p->fabric->rt, LOCO_LOG_ERROR, "memory of process %016llx is not there, or may "
                 "not be %s: see what its window was made of",
                 (unsigned long long)p->peer->address.identity,
                 copy->op == LOCI_READ ? "read" : "written");
        return status;
    }
    if (status != LOCO_OK) {
        LOCI_LOG(p->fabric->rt, LOCO_LOG_ERROR, "process %016llx does not copy for us: %s",
                 (unsigned long long)p->peer->address.identity, loco_strerror(status));
        return status < 0 ? status : LOCO_ERR_PROTOCOL;
    }
    if (copy->op == LOCI_READ)
        move_local(plan, copy, slot);
    else if (copy->op != LOCI_WRITE)
        *plan->ops[0].result = slot->result;
    return LOCO_OK;
}

/* On user memory of the cpu domain windows take a lock in place of atomics. */
static bool may_be_updated(const struct loci_mem *mem)
{
    return mem->key.kind == LOCI_MEM_POOL || mem->domain == LOCI_DOMAIN_OWNER;
}

int loci_shm_assist(struct shm_peer *p, const struct loci_op *ops, int n, size_t skip, int *done,
                    size_t *part)
{
    struct plan plan = { .ops = ops, .skip = skip };
    struct shm_area *area;
    struct shm_copy copy;
    uint32_t at = 0;
    bool given_up;
    int status;

    if (!is_copy(&ops[0]) && !may_be_updated(ops[0].mem))
        return LOCO_ERR_UNSUPPORTED;
    if (loci_service_is_self(p->fabric->rt))
        return LOCO_ERR_AGAIN;          /* would wait for its own peer's service thread */
    plan_request(&plan, n, &copy);
    status = area_of(p, &area);
    if (status == LOCO_OK)
        status = take_slot(p, area, &at);
    if (status != LOCO_OK)
        return status;
    copy.slot = at;
    if (copy.op == LOCI_WRITE)
        move_local(&plan, &copy, slot_at(area->base, at));
    status = request(p, area, &copy, slot_at(area->base, at), &given_up);
    if (status == LOCO_OK)
        status = copied(p, &plan, &copy, slot_at(area->base, at));
    if (given_up)
        give_slot(area, at);
    if (!given_up || status == LOCO_ERR_NO_MEMORY)
        return status;
    *done = plan.done;
    *part = plan.part;
    return status;
}

void loci_shm_area_refused(struct shm_peer *p, const struct shm_head *head)
{
    struct shm_area *area;

    pthread_mutex_lock(&p->lock);
    area = p->area;
    if (area != NULL && (uintptr_t)area == head->call) {
        if (atomic_load_explicit(&area->told, memory_order_relaxed) == TOLD)
            atomic_store_explicit(&area->told, REFUSED, memory_order_release);
        atomic_fetch_add_explicit(&area->refusals, 1, memory_order_release);
    }
    pthread_mutex_unlock(&p->lock);
    loci_ring_self(p->fabric->rt);
    LOCI_LOG(p->fabric->rt, LOCO_LOG_ERROR, "process %016llx cannot map the memory through which "
             "it would copy for us: are its descriptors or its address space limited (ulimit -n, "
             "ulimit -v)?",
             (unsigned long long)p->peer->address.identity);
}

/* ---- owner ---- */

/* Who asks must not wait for an answer that cannot come. */
static void refuse_area(struct shm_peer *p, const struct shm_head *area)
{
    const struct shm_head head = { .type = SHM_NO_AREA, .call = area->call };

    loci_shm_send(p, &head, NULL, 0, -1);
}

void loci_shm_area_here(struct shm_peer *p, const struct shm_head *head, int fd)
{
    const int seals = F_SEAL_SHRINK;
    struct stat file;
    void *base = MAP_FAILED;

    if (fd < 0) {       /* lost on the way: no descriptor was free */
        refuse_area(p, head);
        return;
    }
    if (p->its_area == NULL && !p->gone && fstat(fd, &file) == 0
        && file.st_size == (off_t)AREA_BYTES && (fcntl(fd, F_GET_SEALS) & seals) == seals
        && fcntl(fd, F_GET_SEALS) >= 0)
        base = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED) {
        p->its_area = base;
    } else {
        LOCI_LOG(p->fabric->rt, LOCO_LOG_ERROR, "process %016llx sent no usable area for copies",
                 (unsigned long long)p->peer->address.identity);
        if (p->its_area == NULL)
            refuse_area(p, head);
    }
    close(fd);
}

/* Under fabric->lock: the memory of a number, and the address of its first byte in spans. */
static unsigned char *registered(struct shm_fabric *f, const struct shm_copy *copy, uint64_t *base,
                                 uint64_t *len)
{
    if (copy->kind == LOCI_MEM_USER) {
        const struct shm_user *u = loci_shm_user(f, copy->number);

        if (u == NULL)
            return NULL;
        *base = u->base;
        *len = u->len;
        return (unsigned char *)(uintptr_t)u->base;
    }
    if (copy->kind == LOCI_MEM_POOL) {
        const struct shm_extent *e = loci_shm_extent(f, copy->number);

        if (e == NULL)
            return NULL;
        *base = 0;
        *len = e->len;
        return e->base;
    }
    return NULL;
}

static bool is_inside(const struct shm_copy *copy, uint64_t base, uint64_t len, size_t *bytes)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < copy->nspans; i++) {
        const struct shm_span *s = &copy->span[i];

        if (s->at < base || s->at - base > len || s->len > len - (s->at - base)
            || s->len > SLOT_DATA - sum)
            return false;
        sum += s->len;
    }
    *bytes = sum;
    return true;
}

static int do_atomic(const struct shm_copy *copy, unsigned char *at, struct slot *slot)
{
    if (copy->nspans != 1 || copy->span[0].len != 8 || (uintptr_t)at % 8 != 0)
        return LOCO_ERR_UNSUPPORTED;
    if (copy->kind == LOCI_MEM_USER && !loci_shm_is_writable(at))
        return LOCO_ERR_SYSTEM;
    slot->result = copy->op == LOCI_FETCH_ADD
                   ? loci_cpu_fetch_add(at, copy->operand)
                   : loci_cpu_compare_swap(at, copy->compare, copy->operand);
    return LOCO_OK;
}

/* This thread writes and reads for other processes, whose order with our threads (barriers and
 * locks in network memory) the thread sanitizer cannot see, as it cannot see their own copies. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHM_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define SHM_TSAN 1
#endif

#ifdef SHM_TSAN
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

void loci_shm_as_another_process(bool begin)
{
    if (begin) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    } else {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
}
#else
void loci_shm_as_another_process(bool begin)
{
    (void)begin;
}
#endif

/* Under fabric->lock. By way of the system, so that a fault is a status (own.c). */
static int do_copy(struct shm_fabric *f, const struct shm_copy *copy, unsigned char *memory,
                   uint64_t base, size_t bytes, struct slot *slot)
{
    unsigned char *packed = loci_shm_scratch(f);
    struct shm_own own;
    int status;

    if (copy->op == LOCI_FETCH_ADD || copy->op == LOCI_COMPARE_SWAP)
        return do_atomic(copy, memory + (copy->nspans > 0 ? copy->span[0].at - base : 0), slot);
    if (copy->op != LOCI_WRITE && copy->op != LOCI_READ)
        return LOCO_ERR_PROTOCOL;
    if (packed == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (copy->op == LOCI_WRITE)
        memcpy(packed, slot->data, bytes);
    loci_shm_own_begin(&own, f, copy->op == LOCI_WRITE, packed);
    for (uint32_t i = 0; i < copy->nspans; i++)
        loci_shm_own_add(&own, (uintptr_t)memory + (copy->span[i].at - base), copy->span[i].len);
    status = loci_shm_own_end(&own);
    if (copy->op == LOCI_READ && status == LOCO_OK)
        memcpy(slot->data, packed, bytes);
    return status;
}

void loci_shm_copy_wanted(struct shm_peer *p, const struct shm_copy *copy)
{
    struct shm_fabric *f = p->fabric;
    uint64_t base = 0, len = 0;
    unsigned char *memory;
    struct slot *slot;
    size_t bytes = 0;
    int status = LOCO_ERR_RANGE;

    if (p->its_area == NULL || copy->slot >= SLOTS) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "process %016llx asks for a copy without an area",
                 (unsigned long long)p->peer->address.identity);
        return;         /* it has been told when its area came */
    }
    slot = slot_at(p->its_area, copy->slot);
    /* The lock keeps the memory registered while it is touched. */
    pthread_mutex_lock(&f->lock);
    memory = registered(f, copy, &base, &len);
    if (memory != NULL && is_inside(copy, base, len, &bytes))
        status = do_copy(f, copy, memory, base, bytes, slot);
    pthread_mutex_unlock(&f->lock);
    slot->status = status;
    atomic_store_explicit(&slot->done, 1, memory_order_release);
}

void loci_shm_area_close(struct shm_peer *p)
{
    if (p->its_area != NULL)
        munmap(p->its_area, AREA_BYTES);
    p->its_area = NULL;
}

void loci_shm_own_area_close(struct shm_peer *p)
{
    if (p->area != NULL)
        free_area(p->area);
    p->area = NULL;
}

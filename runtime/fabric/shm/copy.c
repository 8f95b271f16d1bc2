/* SPDX-License-Identifier: BSD-3-Clause */

/* Posted operations: those on memory that is not mapped. The user's memory is copied with
 * process_vm_readv and _writev, a whole run of the chain at once, what is short in a faster way
 * (peek.c); what the system forbids, or cannot do, the owner's service thread does (assist.c).
 * Whether it is forbidden is tried once per peer. Before that, what is small is offered to the
 * owner, who may be waiting anyway (offer.c), and of what is large the owner may do a part
 * (share.c). */

#include "config.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "memory/memory.h"
#include "move/access.h"
#include "offer.h"
#include "service.h"
#include "shm.h"

#define SPANS 128               /* of one system call; more make it no cheaper */
_Static_assert(SPANS <= IOV_MAX, "a call takes that many");

/* ---- mapped after all ---- */

static int do_mapped(const struct loci_op *op, unsigned char *base)
{
    unsigned char *at = base + op->offset;

    switch (op->kind) {
    case LOCI_WRITE: loci_copy_in(at, op->local, op->len); break;
    case LOCI_READ: loci_copy_out(op->local, at, op->len); break;
    case LOCI_FETCH_ADD: *op->result = loci_cpu_fetch_add(at, op->operand); break;
    case LOCI_COMPARE_SWAP:
        *op->result = loci_cpu_compare_swap(at, op->compare, op->operand);
        break;
    case LOCI_PLACE: break;
    }
    return LOCO_OK;
}

/* ---- process_vm_* ---- */

struct spans {
    struct iovec local[SPANS], remote[SPANS];
    int n;
    size_t bytes;
};

static bool is_user_copy(const struct loci_op *op)
{
    return (op->kind == LOCI_WRITE || op->kind == LOCI_READ)
           && op->mem->key.kind == LOCI_MEM_USER;
}

/* The run of ops[0]'s kind at the start of the chain; its first `skip` bytes are done. */
static int gather(const struct loci_op *ops, int n, size_t skip, struct spans *s)
{
    int i;

    s->n = 0;
    s->bytes = 0;
    for (i = 0; i < n && s->n < SPANS; i++) {
        const struct loci_op *op = &ops[i];
        size_t done = i == 0 ? skip : 0, len = op->len - done;

        if (op->kind != ops[0].kind || !is_user_copy(op))
            break;
        if (len == 0)
            continue;
        s->local[s->n] = (struct iovec){ (unsigned char *)op->local + done, len };
        s->remote[s->n].iov_base = (void *)(uintptr_t)(op->mem->key.base + op->offset + done);
        s->remote[s->n].iov_len = len;
        s->bytes += len;
        s->n++;
    }
    return i;
}

/* Forget the first `bytes` of the spans. */
static void advance(struct spans *s, size_t bytes)
{
    int i = 0;

    s->bytes -= bytes;
    while (i < s->n && bytes >= s->local[i].iov_len)
        bytes -= s->local[i++].iov_len;
    s->n -= i;
    memmove(s->local, s->local + i, (size_t)s->n * sizeof s->local[0]);
    memmove(s->remote, s->remote + i, (size_t)s->n * sizeof s->remote[0]);
    if (s->n > 0 && bytes > 0) {
        s->local[0].iov_base = (unsigned char *)s->local[0].iov_base + bytes;
        s->local[0].iov_len -= bytes;
        s->remote[0].iov_base = (unsigned char *)s->remote[0].iov_base + bytes;
        s->remote[0].iov_len -= bytes;
    }
}

/* 0, or errno; what was copied until then does not matter, it is copied again. */
static int copy_spans(struct shm_peer *p, enum loci_op_kind kind, struct spans *s)
{
    while (s->n > 0) {
        ssize_t got = loci_shm_vm_copy(p, kind == LOCI_WRITE, s->local, s->remote, (size_t)s->n);

        if (got < 0)
            return errno;
        if (got == 0)
            return EFAULT;
        advance(s, (size_t)got);
    }
    return 0;
}

static bool may_try(struct shm_peer *p)
{
    return atomic_load_explicit(&p->cma, memory_order_relaxed) != SHM_CMA_FORBIDDEN;
}

/* What the system says of the process, not of the addresses. */
static bool means_forbidden(int error)
{
    return error == EPERM || error == EACCES || error == ENOSYS || error == EINVAL;
}

/* Why the system did not copy. LOCO_ERR_AGAIN: the owner should: it is forbidden here, or this is
 * memory that the system copies for nobody but its owner; whether it is none at all, the owner
 * says, too. (A process that is being killed loses its memory a little before its pidfd tells: who
 * asks it then hears of its end.) */
static int copy_failed(struct shm_peer *p, int error)
{
    struct loco_runtime *rt = p->fabric->rt;

    if (error == ESRCH)
        return LOCO_ERR_PEER_DEAD;
    if (error == EFAULT && !loci_service_is_self(rt))
        return LOCO_ERR_AGAIN;
    errno = error;
    if (means_forbidden(error)) {
        LOCI_LOG(rt, LOCO_LOG_INFO, "process_vm_readv/writev with process %016llx: %m; its "
                 "service thread copies", (unsigned long long)p->peer->address.identity);
        atomic_store_explicit(&p->cma, SHM_CMA_FORBIDDEN, memory_order_relaxed);
        return LOCO_ERR_AGAIN;
    }
    LOCI_LOG(rt, LOCO_LOG_ERROR, "copying memory of process %016llx: %m",
             (unsigned long long)p->peer->address.identity);
    return LOCO_ERR_SYSTEM;
}

/* One run, which is the common case, without lists. False: it is not done, or not all of it. */
static bool copy_one(struct shm_peer *p, const struct loci_op *op, size_t skip)
{
    const size_t len = op->len - skip;
    const struct iovec local = { (unsigned char *)op->local + skip, len };
    const uint64_t at = op->mem->key.base + op->offset + skip;
    const struct iovec remote = { (void *)(uintptr_t)at, len };
    ssize_t got;

    if (op->kind == LOCI_WRITE ? loci_shm_poke(p, at, local.iov_base, len)
                               : loci_shm_peek(p, at, local.iov_base, len))
        return true;
    got = loci_shm_vm_copy(p, op->kind == LOCI_WRITE, &local, &remote, 1);
    return got >= 0 && (size_t)got == len;
}

/* As many ops as one call takes. Its lists are large: apart from the way of one run. */
static __attribute__((noinline)) int copy_list(struct shm_peer *p, const struct loci_op *ops, int n,
                                               size_t skip, int *done, size_t *part)
{
    struct spans s;
    int taken, error;

    taken = gather(ops, n, skip, &s);
    error = copy_spans(p, ops[0].kind, &s);
    if (error != 0) {
        int status = copy_failed(p, error);

        return status == LOCO_ERR_AGAIN ? loci_shm_assist(p, ops, n, skip, done, part) : status;
    }
    *done = taken;
    *part = 0;
    return LOCO_OK;
}

static int copy_user(struct shm_peer *p, const struct loci_op *ops, int n, size_t skip, int *done,
                     size_t *part)
{
    if (n != 1 || !copy_one(p, &ops[0], skip))
        return copy_list(p, ops, n, skip, done, part);
    *done = 1;
    *part = 0;
    return LOCO_OK;
}

static int copy_now(struct shm_peer *p, enum loci_op_kind kind, struct spans *s)
{
    int error = may_try(p) ? copy_spans(p, kind, s) : 0;

    if (!may_try(p))
        return LOCO_ERR_AGAIN;
    return error == 0 ? LOCO_OK : copy_failed(p, error);
}

int loci_shm_copy_run(struct shm_peer *p, enum loci_op_kind kind, uint64_t at, void *local,
                      size_t len)
{
    struct spans s;

    s.n = 1;
    s.bytes = len;
    s.local[0] = (struct iovec){ local, len };
    s.remote[0] = (struct iovec){ (void *)(uintptr_t)at, len };
    return copy_now(p, kind, &s);
}

int loci_shm_copy_strips(struct shm_peer *p, const struct loci_strided *op)
{
    unsigned char *packed = op->packed;
    int status = LOCO_OK;
    struct spans s;

    s.n = 0;
    s.bytes = 0;
    for (int i = 0; i < op->n; i++) {
        const struct loci_strip *strip = &op->strips[i];
        uint64_t at = strip->at + op->shift;

        for (uint64_t k = 0; status == LOCO_OK && k < strip->blocks; k++) {
            s.local[s.n] = (struct iovec){ packed, strip->len };
            s.remote[s.n++] = (struct iovec){ (void *)(uintptr_t)at, strip->len };
            s.bytes += strip->len;
            packed += strip->len;
            at += (uint64_t)strip->stride;
            if (s.n == SPANS)
                status = copy_now(p, op->kind, &s);     /* which leaves none */
        }
    }
    return status == LOCO_OK && s.n > 0 ? copy_now(p, op->kind, &s) : status;
}

/* A part of a large one, together with the owner of the memory if it happens to be waiting. Where
 * it does not, most are copied whole: pieces take a call of the system each. */
static int share(struct shm_peer *p, const struct loci_op *op, size_t skip, int *done,
                 size_t *part)
{
    static const struct shm_odds odds = { .good = 3, .vain = 1, .most = 3 };
    unsigned by_peer;
    size_t bytes = 0;
    int status;

    if (skip == 0 && !loci_shm_is_promising(&p->share_guess))
        return LOCO_ERR_AGAIN;
    status = loci_shm_share(p, op, skip, &bytes, &by_peer);
    if (status != LOCO_OK)
        return status;
    loci_shm_learn(&p->share_guess, by_peer > 0, &odds);
    *done = skip + bytes == op->len;
    *part = *done ? 0 : skip + bytes;
    return LOCO_OK;
}

/* ---- chains ---- */

/* The first operations of a chain, at least a part of one. */
static int step(struct shm_fabric *f, struct shm_peer *p, const struct loci_op *ops, int n,
                size_t skip, int *done, size_t *part)
{
    unsigned char *base;

    *done = 1;
    *part = 0;
    if (ops[0].kind == LOCI_PLACE)
        return LOCO_OK;
    base = atomic_load_explicit(&ops[0].mem->ptr, memory_order_acquire);
    if (base == NULL && ops[0].mem->key.kind == LOCI_MEM_POOL)
        base = loci_shm_map((struct loci_fabric *)f, ops[0].mem);
    if (base != NULL)
        return do_mapped(&ops[0], base);
    if (p == NULL)
        return LOCO_ERR_UNSUPPORTED;
    if (is_user_copy(&ops[0]) && skip == 0) {
        int status = loci_shm_offer(p, ops, n, done);

        if (status != LOCO_ERR_AGAIN)
            return status;
    }
    if (is_user_copy(&ops[0]) && may_try(p)) {
        int status = share(p, &ops[0], skip, done, part);

        if (status != LOCO_ERR_AGAIN)
            return status;
    }
    if (is_user_copy(&ops[0]) && may_try(p))
        return copy_user(p, ops, n, skip, done, part);
    return loci_shm_assist(p, ops, n, skip, done, part);
}

int loci_shm_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                  int *posted)
{
    struct shm_peer *p = lane->peer->fabric_data;
    size_t part = 0;
    int i = 0;

    *posted = 0;
    while (i < n) {
        int done = 0, status;

        status = step(shm_of(fabric), p, ops + i, n - i, part, &done, &part);
        if (status != LOCO_OK)
            return status;
        i += done;
        *posted = i;
    }
    return LOCO_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: the raw operations of an RDMA device, with nothing of libloco's but the choice of the
 * device and how a queue pair is set up. One queue pair, registered buffers, one completion for all
 * that goes before a flush, and a poll that does not yield: the limit. The device ends that poll,
 * by an error, when the other process is gone. */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "fabric/verbs/device.h"
#include "fabric/verbs/qp.h"
#include "observe/tunables.h"
#include "perf.h"

#define WORDS 4096                          /* bytes; then what others write, then what we read */
#define BYTES (WORDS + 2 * PERF_LARGE)
#define DEPTH 256
#define PSN 1
#define TIMEOUT INT64_C(268000000)          /* ns until a device sends again */

enum { WORD = 0, SWAPPED = 64, TURN = 128, RESULT = 192, SOURCE = 256 };

/* What the other one has to know. */
struct greeting {
    struct loci_qp_place place;
    uint64_t base;
    uint32_t rkey, ready;
};

struct side {
    const struct perf_member *m;
    struct loci_device_port port;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char *memory;
    struct greeting other;
    uint64_t handed;
    uint32_t unsignaled;
};

static int told(const char *what)
{
    fprintf(stderr, "loco-perf: raw: %s: %s\n", what, strerror(errno));
    return 1;
}

/* ---- life ---- */

static int choose(struct side *s)
{
    struct loci_device_port list[LOCI_DEVICES_MAX];
    struct loci_log log = { .level = LOCO_LOG_ERROR, .fn = loci_log_stderr };
    struct loci_tunables wanted;
    const char *why;
    int n;

    if (loci_tunables_load(&wanted, &log) != LOCO_OK)
        return 1;
    n = loci_devices_list(list, LOCI_DEVICES_MAX, &wanted, (unsigned)s->m->rank, &why);
    for (int i = 0; i < n; i++)
        if (list[i].chosen) {
            s->port = list[i];
            return 0;
        }
    fprintf(stderr, "loco-perf: raw: no RDMA device can be used%s%s; see loco-info\n",
            *why == '\0' ? "" : ": ", why);
    return 1;
}

static bool make(struct side *s)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1,
                 .max_inline_data = 64 },
    };

    s->context = loci_device_open(s->port.device);
    s->memory = aligned_alloc(4096, BYTES);
    if (s->context == NULL || s->memory == NULL)
        return false;
    memset(s->memory, 0, BYTES);
    s->pd = ibv_alloc_pd(s->context);
    s->cq = ibv_create_cq(s->context, DEPTH, NULL, NULL, 0);
    if (s->pd == NULL || s->cq == NULL)
        return false;
    s->mr = ibv_reg_mr(s->pd, s->memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ
                       | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    init.send_cq = init.recv_cq = s->cq;
    s->qp = s->mr == NULL ? NULL : ibv_create_qp(s->pd, &init);
    return s->qp != NULL;
}

static bool greet(const struct side *s, struct greeting *mine)
{
    union ibv_gid gid;

    if (ibv_query_gid(s->context, (uint8_t)s->port.port, s->port.gid_index, &gid) != 0)
        return false;
    loci_qp_fill_place(&s->port, &gid, s->qp->qp_num, PSN, &mine->place);
    mine->base = (uintptr_t)s->memory;
    mine->rkey = s->mr->rkey;
    mine->ready = 1;
    return true;
}

static bool connect_qp(struct side *s)
{
    errno = loci_qp_to_init(s->qp, &s->port, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                                             | IBV_ACCESS_REMOTE_ATOMIC);
    if (errno == 0)
        errno = loci_qp_to_receive(s->qp, &s->port, &s->other.place);
    if (errno == 0)
        errno = loci_qp_to_send(s->qp, &s->port, PSN, &s->other.place, TIMEOUT);
    return errno == 0;
}

static void side_close(void *state)
{
    struct side *s = state;

    if (s->qp != NULL)
        ibv_destroy_qp(s->qp);
    if (s->mr != NULL)
        ibv_dereg_mr(s->mr);
    if (s->cq != NULL)
        ibv_destroy_cq(s->cq);
    if (s->pd != NULL)
        ibv_dealloc_pd(s->pd);
    if (s->context != NULL)
        ibv_close_device(s->context);
    free(s->memory);
    free(s);
}

/* Both ends are connected when both have come out of the second allgather. */
static int meet(struct side *s)
{
    const struct loco_exchange *x = &s->m->boot->exchange;
    struct greeting mine = { .ready = 0 }, all[2];
    bool made = make(s) && greet(s, &mine);

    if (!made)
        told(s->port.device);
    if (x->allgather(x->ctx, &mine, sizeof mine, all) != LOCO_OK || !all[0].ready || !all[1].ready)
        return 1;
    s->other = all[1 - s->m->rank];
    made = connect_qp(s);
    if (!made)
        told("connection");
    mine.ready = made;
    return x->allgather(x->ctx, &mine, sizeof mine, all) != LOCO_OK || !all[0].ready
           || !all[1].ready;
}

static int side_open(const struct perf_member *m, void **state)
{
    struct side *s = calloc(1, sizeof *s);

    if (s == NULL)
        return told("memory");
    s->m = m;
    if (choose(s) != 0 || meet(s) != 0) {
        side_close(s);
        return 1;
    }
    *state = s;
    return 0;
}

/* ---- requests ---- */

struct request {
    enum ibv_wr_opcode opcode;
    uint32_t local, remote, len;    /* offsets in either's memory */
    uint64_t operand, compare;
    bool signal;
};

static int post(struct side *s, const struct request *r)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)s->memory + r->local, .length = r->len, .lkey = s->mr->lkey,
    };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = r->len > 0, .opcode = r->opcode,
        .send_flags = (r->signal ? IBV_SEND_SIGNALED : 0)
                      | (r->opcode == IBV_WR_RDMA_WRITE && r->len <= 64 ? IBV_SEND_INLINE : 0),
    }, *bad;

    if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        bool adds = r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

        wr.wr.atomic.remote_addr = s->other.base + r->remote;
        wr.wr.atomic.rkey = s->other.rkey;
        wr.wr.atomic.compare_add = adds ? r->operand : r->compare;
        wr.wr.atomic.swap = r->operand;
    } else {
        wr.wr.rdma.remote_addr = s->other.base + r->remote;
        wr.wr.rdma.rkey = s->other.rkey;
    }
    errno = ibv_post_send(s->qp, &wr, &bad);
    return errno == 0 ? 0 : told("post");
}

static int complete_one(struct side *s)
{
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0)
        ;
    if (n == 1 && wc.status == IBV_WC_SUCCESS)
        return 0;
    fprintf(stderr, "loco-perf: raw: %s\n", n < 0 ? "poll" : ibv_wc_status_str(wc.status));
    return 1;
}

static int ask(struct side *s, struct request r)
{
    r.signal = true;
    return post(s, &r) != 0 || complete_one(s) != 0;
}

/* Writes, and a read of nothing after each `batch` of them. */
static int writes(struct side *s, struct request r, uint64_t n, uint64_t batch)
{
    const struct request place = { .opcode = IBV_WR_RDMA_READ };

    for (uint64_t i = 0; i < n; i += batch) {
        for (uint64_t k = 0; k < batch; k++)
            if (post(s, &r) != 0)
                return 1;
        if (ask(s, place) != 0)
            return 1;
    }
    return 0;
}

static int reads(struct side *s, struct request r, uint64_t n, uint64_t batch)
{
    for (uint64_t i = 0; i < n; i += batch)
        for (uint64_t k = 0; k < batch; k++) {
            r.signal = k + 1 == batch;
            if (post(s, &r) != 0 || (r.signal && complete_one(s) != 0))
                return 1;
        }
    return 0;
}

static int atomics(struct side *s, struct request r, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        r.compare = i;
        r.operand = r.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : i + 1;
        if (ask(s, r) != 0)
            return 1;
    }
    return 0;
}

/* A word goes back and forth, each time by one write. */
static int hand_over(struct side *s, uint64_t n)
{
    _Atomic uint64_t *turn = (_Atomic uint64_t *)(void *)(s->memory + TURN);
    uint64_t *source = (uint64_t *)(void *)(s->memory + SOURCE);
    struct request r = {
        .opcode = IBV_WR_RDMA_WRITE, .local = SOURCE, .remote = TURN, .len = 8,
    };

    for (uint64_t i = 0; i < n; i++, s->handed++) {
        uint64_t mine = 2 * s->handed + (uint64_t)s->m->rank;

        if (perf_wait_turn(turn, mine) != 0)
            return 1;
        *source = mine + 1;
        r.signal = ++s->unsignaled % (DEPTH / 2) == 0;
        if (post(s, &r) != 0 || (r.signal && complete_one(s) != 0))
            return 1;
    }
    return 0;
}

static int side_run(void *state, enum perf_row row, uint64_t n)
{
    struct side *s = state;
    struct request r = { .opcode = IBV_WR_RDMA_WRITE, .local = SOURCE, .remote = WORD, .len = 8 };

    switch (row) {
    case PERF_GET:
        r.opcode = IBV_WR_RDMA_READ;
        r.local = RESULT;
        return reads(s, r, n, 1);
    case PERF_FETCH_ADD:
        r.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        r.local = RESULT;
        return atomics(s, r, n);
    case PERF_COMPARE_SWAP:
        r.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        r.local = RESULT;
        r.remote = SWAPPED;
        return atomics(s, r, n);
    case PERF_PUT_LARGE:
        r.local = WORDS + PERF_LARGE;
        r.remote = WORDS;
        r.len = PERF_LARGE;
        return writes(s, r, n, perf_batch(row));
    case PERF_GET_LARGE:
        r.opcode = IBV_WR_RDMA_READ;
        r.local = WORDS + PERF_LARGE;
        r.remote = WORDS;
        r.len = PERF_LARGE;
        return reads(s, r, n, perf_batch(row));
    case PERF_HAND_OVER: return hand_over(s, n);
    default: return writes(s, r, n, perf_batch(row));
    }
}

const struct perf_side perf_verbs = { side_open, side_run, side_close };

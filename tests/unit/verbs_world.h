/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VERBS_WORLD_H
#define TESTS_VERBS_WORLD_H

/* The fabric of RDMA devices around a device that is not there (fake_verbs.h), for a runtime
 * whose own fabric is the weak one, with one peer on another machine. The test's thread stands in
 * for the service thread: all that comes is given to the fabric by it. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_verbs.h"
#include "fabric/verbs/connect.h"
#include "fabric/verbs/links.h"
#include "names/control.h"
#include "run.h"
#include "wait.h"

struct verbs_world {
    loco_runtime_t *rt;
    struct loci_peer *peer;
    struct fake_device device;
    struct verbs_fabric f;
    struct verbs_links links;
    struct verbs_link *link;
    uint64_t random;

    /* What the peer has got from us last. */
    struct verbs_message asked, answer;
    _Atomic unsigned questions;
    unsigned accepts, refusals, drops, others;
};

/* How many messages: FUZZ_ROUNDS of the environment, or what a test of all has time for. */
static inline int fuzz_rounds(void)
{
    const char *wanted = getenv("FUZZ_ROUNDS");

    return wanted != NULL ? atoi(wanted) : run_rounds(20000);
}

static inline uint64_t fuzz_draw(struct verbs_world *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

/* 0 to n - 1. */
static inline unsigned fuzz_below(struct verbs_world *w, unsigned n)
{
    return (unsigned)(fuzz_draw(w) >> 16) % n;
}

static inline void fuzz_fill(struct verbs_world *w, void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)fuzz_draw(w);
}

/* Some bits flipped, bytes replaced, or words that are just at a limit. */
static inline void fuzz_change(struct verbs_world *w, void *bytes, size_t len)
{
    static const uint32_t limits[] = { 0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 4096, 65536 };
    unsigned char *at = bytes;

    for (unsigned n = fuzz_below(w, 4); n > 0 && len > 4; n--) {
        size_t where = fuzz_draw(w) % (len - 4);

        switch (fuzz_below(w, 3)) {
        case 0: at[where] ^= (unsigned char)(1 << fuzz_below(w, 8)); break;
        case 1: at[where] = (unsigned char)fuzz_draw(w); break;
        default: memcpy(at + where / 4 * 4, &limits[fuzz_below(w, 8)], 4);
        }
    }
}

/* ---- what we send ---- */

static inline void verbs_sent(void *arg, const void *message, size_t len)
{
    struct verbs_world *w = arg;
    const struct loci_link_head *head = message;
    struct verbs_message m;

    if (head->type != LINK_DEVICE || len != sizeof *head + sizeof m) {
        w->others++;
        return;
    }
    memcpy(&m, head + 1, sizeof m);
    if (m.kind == VERBS_CONNECT) {
        w->asked = m;
        atomic_fetch_add(&w->questions, 1);
        return;
    }
    w->drops += m.kind == VERBS_DROP;
    if (m.kind == VERBS_DROP)
        return;
    w->answer = m;
    w->accepts += m.kind == VERBS_ACCEPT;
    w->refusals += m.kind == VERBS_REFUSE;
}

/* As the service thread would, when it is kicked. */
static inline void verbs_pump(struct verbs_world *w)
{
    uint64_t times;

    if (read(w->links.links.kick_fd, &times, sizeof times) < 0)
        return;
    pthread_mutex_lock(&w->links.links.lock);
    w->links.links.to_do = NULL;
    w->link->link.to_do = false;
    pthread_mutex_unlock(&w->links.links.lock);
    do {
        loci_verbs_link_pump(&w->link->link);
        loci_link_drain(&w->links);
    } while (w->link->link.state == LINK_READY && atomic_load(&w->link->link.queued) > 0);
}

/* ---- life ---- */

static inline int verbs_open(struct verbs_world *w, loco_runtime_t *rt, int peer)
{
    struct verbs_fabric *f = &w->f;
    struct verbs_peer *p = calloc(1, sizeof *p);

    memset(w, 0, sizeof *w);
    w->rt = rt;
    w->random = 88172645463325252u;
    w->peer = loci_peer(rt, peer);
    fake_open(&w->device);
    w->device.sent = verbs_sent;
    w->device.arg = w;
    f->rt = rt;
    f->context = &w->device.context;
    f->pd = ibv_alloc_pd(f->context);
    f->domains.context = f->context;
    f->domains.base = f->pd;
    pthread_mutex_init(&f->domains.lock, NULL);
    f->end_cq = ibv_create_cq(f->context, 16, NULL, NULL, 0);
    f->anchor = calloc(1, 64);
    f->anchor_mr = ibv_reg_mr(f->pd, f->anchor, 64, IBV_ACCESS_REMOTE_READ);
    f->port = (struct loci_device_port){
        .device = "fake0", .port = 1, .ethernet = true, .mtu = 1024, .read_depth = 16,
        .ask_depth = 16, .max_requests = 64,
    };
    f->links = &w->links;
    pthread_mutex_init(&f->lock, NULL);
    loci_errands_open(&f->errands, rt, "loco-connect");
    w->links.fabric = f;
    CHECK_OK(loci_links_init(&w->links.links, rt, &loci_verbs_link_ops, &w->links));
    CHECK(p != NULL && loci_link_queues_open(&w->links, f->context));
    p->peer = w->peer;
    w->peer->device_data = p;
    w->peer->address.link[2] = 1;
    CHECK_OK(loci_verbs_link_add(f, w->peer, &p->link));
    w->link = (struct verbs_link *)p->link;
    fake_cm = (struct fake_cm){ .context = f->context };
    return 0;
}

/* All is given back. */
static inline int verbs_close(struct verbs_world *w)
{
    struct verbs_fabric *f = &w->f;
    struct verbs_peer *p = w->peer->device_data;

    loci_errands_close(&f->errands);
    CHECK_EQ(atomic_load(&p->errands), 0);
    loci_verbs_ends_drop(f, w->peer);
    loci_verbs_threads_close(f);
    loci_link_connect_close(&w->links);
    loci_link_ended(&w->link->link, "the test is over");
    CHECK(loci_link_forget(&w->link->link));
    CHECK_EQ(w->links.links.count, 0);
    w->peer->device_data = NULL;
    free(p);
    loci_link_queues_close(&w->links);
    loci_links_fini(&w->links.links);
    ibv_dereg_mr(f->anchor_mr);
    free(f->anchor);
    ibv_destroy_cq(f->end_cq);
    ibv_dealloc_pd(f->pd);
    pthread_mutex_destroy(&f->lock);
    CHECK_EQ(atomic_load(&w->device.queue_pairs), 0);
    CHECK_EQ(atomic_load(&w->device.regions), 0);
    CHECK_EQ(atomic_load(&w->device.queues), 0);
    CHECK_EQ(fake_cm.ids, 0);
    return 0;
}

#endif

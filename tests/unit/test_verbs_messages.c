/* SPDX-License-Identifier: BSD-3-Clause */

/* What another machine's process sends over its link, and in it what its part of the fabric for
 * RDMA devices sends ours, is not as it should be: bits are flipped, lengths are wrong, messages
 * come twice, in another order, or are nobody's. FUZZ_ROUNDS says how many. */

#include "config.h"

#include <criterion/criterion.h>

#include "verbs_world.h"

#define KEPT 16         /* messages that were sent before, to come again */

struct message {
    size_t len;
    unsigned char bytes[LINK_BYTES];
};

struct fuzz {
    struct verbs_world w;
    struct message kept[KEPT];
    int taken, goodbyes;

    /* A thread of ours that opens lanes to the peer, and closes them. */
    pthread_t asker;
    _Atomic bool over;
    _Atomic int opened, failed, other;
};

/* ---- right messages ---- */

static struct loci_qp_place place(struct verbs_world *w)
{
    return (struct loci_qp_place){
        .gid = { [10] = 0xff, [11] = 0xff, [12] = 10 }, .qpn = 2 + fuzz_below(w, 500),
        .psn = fuzz_below(w, 0x1000000), .mtu = IBV_MTU_1024, .ethernet = 1, .read_depth = 16,
    };
}

static size_t device_message(struct verbs_world *w, void *body)
{
    struct verbs_message m = {
        .kind = VERBS_CONNECT + fuzz_below(w, 4), .call = 1 + fuzz_below(w, 4),
        .place = place(w),
    };

    if (m.kind == VERBS_CONNECT && fuzz_below(w, 2) == 0)
        m.replaced = w->answer.place.qpn;
    if (m.kind == VERBS_ACCEPT || m.kind == VERBS_REFUSE)
        m.call = w->asked.call - fuzz_below(w, 2);
    memcpy(body, &m, sizeof m);
    return sizeof m;
}

static size_t ring_message(void *body)
{
    struct loci_control m;

    memset(&m, 0, sizeof m);
    m.magic = LOCI_CONTROL_MAGIC;
    m.version = LOCI_CONTROL_VERSION;
    m.type = LOCI_CONTROL_RING;
    m.len = (uint32_t)loci_control_len(0);
    m.size = m.from = m.to = 1;
    memcpy(m.name, "bell", sizeof "bell");
    loci_control_seal(&m);
    memcpy(body, &m, m.len);
    return m.len;
}

static void compose(struct fuzz *z, enum loci_link_type type, struct message *m)
{
    struct verbs_world *w = &z->w;
    struct loci_link_head head = {
        .magic = LINK_MAGIC, .version = LINK_VERSION, .type = (uint16_t)type,
        .from = w->peer->address.identity,
    };
    unsigned char *body = m->bytes + sizeof head;

    if (type == LINK_DEVICE)
        head.len = (uint32_t)device_message(w, body);
    else if (type == LINK_CONTROL)
        head.len = (uint32_t)ring_message(body);
    memcpy(m->bytes, &head, sizeof head);
    m->len = sizeof head + head.len;
}

/* ---- others ---- */

static void compose_any(struct fuzz *z, struct message *m)
{
    struct verbs_world *w = &z->w;
    unsigned kind = fuzz_below(w, 16);
    struct loci_link_head head;

    if (kind == 0) {                    /* anything */
        m->len = fuzz_below(w, LINK_BYTES + 1);
        fuzz_fill(w, m->bytes, m->len);
        return;
    }
    if (kind < 4) {                     /* what came before */
        *m = z->kept[fuzz_below(w, KEPT)];
        return;
    }
    compose(z, kind < 12 ? LINK_DEVICE : kind < 14 ? LINK_CONTROL : LINK_ALIVE, m);
    if (fuzz_below(w, 256) == 0)
        compose(z, LINK_GOODBYE, m);
    z->kept[fuzz_below(w, KEPT)] = *m;
    if (kind % 4 == 0)
        fuzz_change(w, m->bytes, m->len);
    else if (kind % 4 == 1 && m->len > sizeof head)
        fuzz_change(w, m->bytes + sizeof head, m->len - sizeof head);
    if (fuzz_below(w, 8) != 0)
        return;
    m->len = fuzz_below(w, (unsigned)m->len + 64);      /* cut off, or longer */
    memcpy(&head, m->bytes, sizeof head);
    head.len = (uint32_t)(m->len - sizeof head);
    if (fuzz_below(w, 2) == 0 && m->len >= sizeof head)
        memcpy(m->bytes, &head, sizeof head);           /* and says so */
}

static int deliver(struct fuzz *z, const struct message *m)
{
    struct verbs_world *w = &z->w;
    void *at = fake_receive(&w->device, w->link->id->qp, m->bytes, m->len, LINK_BYTES);

    CHECK(at != NULL);                  /* no buffer is lost */
    loci_link_drain(&w->links);
    fake_looked(at, LINK_BYTES);
    verbs_pump(w);
    if (!loci_peer_alive(w->rt, w->peer->index)) {      /* it has left; another one comes */
        z->goodbyes++;
        loci_verbs_ends_drop(&w->f, w->peer);
        w->link->link.gone = w->link->link.goodbye = false;
        atomic_store(&w->peer->state, LOCI_PEER_ALIVE);
    }
    return 0;
}

static int tell(struct fuzz *z, const struct verbs_message *m)
{
    struct message message;

    compose(z, LINK_DEVICE, &message);
    memcpy(message.bytes + sizeof(struct loci_link_head), m, sizeof *m);
    return deliver(z, &message);
}

/* ---- our own questions ---- */

static void *ask(void *arg)
{
    struct fuzz *z = arg;
    struct loci_lane lane = { .thread = loci_self(z->w.rt), .peer = z->w.peer };

    while (!atomic_load(&z->over)) {
        int status = loci_verbs_lane_open((struct loci_fabric *)&z->w.f, &lane);

        if (status == LOCO_OK)
            loci_verbs_lane_close((struct loci_fabric *)&z->w.f, &lane);
        atomic_fetch_add(status == LOCO_OK ? &z->opened
                         : status == LOCO_ERR_UNSUPPORTED || status == LOCO_ERR_PEER_DEAD
                         ? &z->failed : &z->other, 1);
    }
    lane.thread->fabric_data = NULL;
    return NULL;
}

/* The peer answers as it should. */
static int answer_right(struct fuzz *z)
{
    struct verbs_message m = {
        .kind = VERBS_ACCEPT, .call = z->w.asked.call, .place = place(&z->w), .anchor = 4096,
    };

    return tell(z, &m);
}

/* ---- a right exchange ---- */

static unsigned ends(struct verbs_world *w)
{
    unsigned n;

    pthread_mutex_lock(&w->f.lock);
    n = ((struct verbs_peer *)w->peer->device_data)->nends;
    pthread_mutex_unlock(&w->f.lock);
    return n;
}

static bool comes_true(struct verbs_world *w, const unsigned *count, unsigned least)
{
    int64_t begin = run_now();

    while (*count < least && !run_too_long(begin, RUN_PATIENCE)) {
        usleep(100);
        verbs_pump(w);
    }
    return *count >= least;
}

/* No errand is left from before. */
static int settle(struct fuzz *z)
{
    const struct verbs_peer *p = z->w.peer->device_data;
    int64_t begin = run_now();

    while (atomic_load(&p->errands) > 0 && !run_too_long(begin, RUN_PATIENCE)) {
        usleep(100);
        verbs_pump(&z->w);
    }
    CHECK_EQ(atomic_load(&p->errands), 0);
    verbs_pump(&z->w);
    return 0;
}

/* The peer rings, and in its name somebody else. */
static int rings(struct fuzz *z)
{
    struct verbs_world *w = &z->w;
    uint32_t bell = atomic_load(&w->rt->bells->bell[LOCI_BELL_ANY].rings);
    uint64_t dropped = atomic_load(&w->f.dropped.all);
    struct message message;
    struct loci_link_head head;

    compose(z, LINK_CONTROL, &message);
    memcpy(&head, message.bytes, sizeof head);
    head.from++;
    memcpy(message.bytes, &head, sizeof head);
    CHECK(deliver(z, &message) == 0);
    CHECK_EQ(atomic_load(&w->rt->bells->bell[LOCI_BELL_ANY].rings), bell);
    CHECK_EQ(atomic_load(&w->f.dropped.all), dropped + 1);
    compose(z, LINK_CONTROL, &message);
    CHECK(deliver(z, &message) == 0);
    CHECK(atomic_load(&w->rt->bells->bell[LOCI_BELL_ANY].rings) != bell);
    return 0;
}

/* The peer asks for an end, has it, asks again by the same queue pair, and drops it; then it asks
 * what makes no sense. */
static int exchange(struct fuzz *z)
{
    struct verbs_message m = { .kind = VERBS_CONNECT, .call = 7, .place = place(&z->w) };
    struct verbs_world *w = &z->w;
    unsigned refusals;

    CHECK(settle(z) == 0);
    loci_verbs_ends_drop(&w->f, w->peer);
    for (int i = 0; i < 2; i++) {
        unsigned accepts = w->accepts;

        CHECK(tell(z, &m) == 0);
        CHECK(comes_true(w, &w->accepts, accepts + 1));
        CHECK_EQ(w->answer.call, 7);
        CHECK(w->answer.place.qpn > 1);
        CHECK_EQ(ends(w), 1);
    }
    m.kind = VERBS_DROP;
    CHECK(tell(z, &m) == 0 && settle(z) == 0);
    CHECK_EQ(ends(w), 0);
    m.kind = VERBS_CONNECT;
    m.place.mtu = 99;
    refusals = w->refusals;
    CHECK(tell(z, &m) == 0 && settle(z) == 0);
    CHECK_EQ(w->refusals, refusals + 1);
    return rings(z);
}

static int begin(struct fuzz *z, loco_runtime_t *rt)
{
    CHECK(verbs_open(&z->w, rt, 1) == 0);
    z->w.link->id = fake_id();
    CHECK(rdma_create_qp(z->w.link->id, z->w.links.pd, &(struct ibv_qp_init_attr){
        .send_cq = z->w.links.cq, .recv_cq = z->w.links.cq }) == 0);
    z->w.link->link.state = LINK_READY;
    for (int i = 0; i < KEPT; i++)
        compose(z, LINK_ALIVE, &z->kept[i]);
    CHECK_EQ(pthread_create(&z->asker, NULL, ask, z), 0);
    return 0;
}

static int end(struct fuzz *z)
{
    int64_t begin = run_now();
    int opened = atomic_load(&z->opened);

    /* It is answered, and goes on. */
    while (atomic_load(&z->opened) < opened + 3 && !run_too_long(begin, RUN_PATIENCE)) {
        usleep(1000);
        verbs_pump(&z->w);
        CHECK(answer_right(z) == 0);
    }
    CHECK(atomic_load(&z->opened) >= opened + 3);
    atomic_store(&z->over, true);
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        verbs_pump(&z->w);
        CHECK(answer_right(z) == 0);
    }
    pthread_join(z->asker, NULL);
    CHECK_EQ(atomic_load(&z->other), 0);
    return verbs_close(&z->w);
}

static int fuzz_body(loco_runtime_t *rt, int rank, void *arg)
{
    int rounds = *(int *)arg, lines;
    struct fuzz *z = rank == 0 ? calloc(1, sizeof *z) : NULL;
    int64_t start = loci_now(rt);
    struct message m;

    if (rank != 0)
        return 0;
    CHECK(z != NULL && begin(z, rt) == 0);
    CHECK(exchange(z) == 0);
    for (int i = 0; i < rounds; i++) {
        compose_any(z, &m);
        CHECK(deliver(z, &m) == 0);
        if (i % 4096 == 0)
            CHECK(exchange(z) == 0);
    }
    CHECK(exchange(z) == 0);
    printf("# %d messages: %llu dropped, %u accepts, %u refusals, %d goodbyes; of our own "
           "questions %d accepted, %d refused\n", rounds,
           (unsigned long long)atomic_load(&z->w.f.dropped.all), z->w.accepts, z->w.refusals,
           z->goodbyes, atomic_load(&z->opened), atomic_load(&z->failed));
    CHECK(atomic_load(&z->w.f.dropped.all) > (uint64_t)rounds / 50);
    CHECK(z->w.accepts > (unsigned)rounds / 50);
    lines = weak_logged(rt, "dropped: ");
    CHECK(lines > 0 && lines <= 3 * (2 + (loci_now(rt) - start) / 1000000000));
    CHECK(end(z) == 0);
    free(z);
    return 0;
}

Test(verbs_messages, nothing_that_a_peer_sends_breaks_a_link, .timeout = 3600)
{
    int rounds = fuzz_rounds();

    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, fuzz_body, &rounds), 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The fabric of one node: control messages, and what strangers send. */

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shm_world.h"

/* ---- control messages ---- */

static int sends_much(const struct loco_bootstrap *boot, void *arg)
{
    enum { MANY = 20000 };
    unsigned char message[LOCI_CONTROL_MAX] = { 0 };
    struct world w;
    int peer;

    NEED(enter(&w, boot, arg) == 0);
    peer = w.rt->everyone->peer[1 - w.me];
    for (int i = 0; i < MANY; i++)
        NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, peer), message,
                                     1 + (size_t)i % sizeof message) == LOCO_OK);
    for (int i = 0; i < 20000 && atomic_load(&w.rt->dropped.all) < MANY; i++)
        usleep(1000);
    NEED(atomic_load(&w.rt->dropped.all) == MANY);
    NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, peer), message, 0)
         == LOCO_ERR_ARG);
    NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, peer), message, 4097)
         == LOCO_ERR_ARG);
    return leave(&w);
}

Test(shm, no_control_message_is_lost, .timeout = 60)
{
    static const struct setup counted = { .log = count_dropped };

    run(2, sends_much, &counted);
}

/* A peer that is stopped does not stop us. */
static int sends_to_the_stopped(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char message[LOCI_CONTROL_MAX] = { 0 };
    struct world w;
    int64_t start;

    NEED(enter(&w, boot, arg) == 0);
    if (w.me == 1) {
        NEED(together(&w) == LOCO_OK);
        raise(SIGSTOP);
        return leave(&w);
    }
    NEED(together(&w) == LOCO_OK);
    usleep(50000);
    start = run_now();
    for (int i = 0; i < 1000; i++)
        NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, 1), message, 4096) == LOCO_OK);
    NEED(!run_too_long(start, 2000000000));
    kill(w.rt->peers[1]->address.pid, SIGCONT);
    return leave(&w);
}

Test(shm, a_stopped_peer_stops_nobody)
{
    static const struct setup silent = { .log = count_dropped };

    run(2, sends_to_the_stopped, &silent);
}

/* What peers that are stopped do not take fills the buffer of the socket that it was sent from. On
 * a machine with the usual limits that takes dozens of them; here the buffer is small. */
static int sends_past_the_stopped(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char message[LOCI_CONTROL_MAX] = { 0 };
    struct shm_peer *living;
    const int none = 0;
    unsigned left;
    struct world w;
    int64_t start;

    NEED(enter(&w, boot, arg) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1)
        raise(SIGSTOP);
    if (w.me != 0)
        return leave(&w);
    usleep(50000);
    NEED(setsockopt(shm_of(w.rt->fabric)->socket_fd, SOL_SOCKET, SO_SNDBUF, &none, sizeof none)
         == 0);
    for (int i = 0; i < 20; i++)
        NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, 1), message, 4096) == LOCO_OK);
    living = loci_peer(w.rt, 2)->fabric_data;
    for (int i = 0; i < 20; i++)
        NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, 2), message, 4096) == LOCO_OK);
    start = run_now();
    while (atomic_load(&living->queued) > 0 && !run_too_long(start, 2000000000))
        usleep(1000);
    left = atomic_load(&living->queued);
    kill(w.rt->peers[1]->address.pid, SIGCONT);
    NEED(leave(&w) == 0);
    NEED(left == 0);
    return 0;
}

Test(shm, stopped_peers_leave_room_for_others, .timeout = 60)
{
    static const struct setup silent = { .log = count_dropped };

    run(3, sends_past_the_stopped, &silent);
}

/* Members whose real user is another one than they act for, as in a program with the set-user-ID
 * bit. One that may not be looked at asks for descriptors by messages, too. */
static int acts_for_another_user(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    uint64_t old;

    NEED(seteuid(65534) == 0);
    NEED(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);    /* which that has undone */
    NEED(enter(&w, boot, arg) == 0);
    for (int to = 0; to < w.n; to++) {
        NEED(loci_fetch_add(w.rt, &w.pools[to], 0, 1, &old, NULL) == LOCO_OK);
        NEED(loci_write64(w.rt, &w.users[to], 8 * (uint64_t)w.me, 1, NULL) == LOCO_OK);
    }
    NEED(together(&w) == LOCO_OK);
    NEED(loci_load64(w.pool.ptr) == (uint64_t)w.n);
    NEED(loci_peer_alive(w.rt, 1));
    NEED(seteuid(0) == 0);
    NEED(prctl(PR_SET_DUMPABLE, 1) == 0);
    NEED(atomic_load(&w.rt->dropped.all) == 0);
    return leave(&w);
}

Test(shm, members_are_of_the_user_they_act_for, .timeout = 60)
{
    static const struct setup counted = { .log = count_dropped };

    if (geteuid() != 0)
        cr_skip("only root can act for another user");
    run(3, acts_for_another_user, &counted);
}

/* ---- what strangers send ---- */

static int raw_link(const struct loci_address *to)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "loco.%016llx.%016llx",
                       (unsigned long long)to->identity, (unsigned long long)to->label);

    if (connect(fd, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Messages to that peer that are nearly right, and random ones: of all types but a goodbye, which
 * would be believed. */
static size_t make_message(struct shm_message *m, const struct shm_peer *p, unsigned *seed)
{
    static const uint16_t types[] = {
        1, SHM_CONTROL, SHM_WANT_FD, SHM_HERE_IS_FD, SHM_MAPPED, SHM_UNMAP, SHM_AREA,
        SHM_COPY, SHM_NO_AREA, SHM_DEVICE, 77, 0,
    };
    unsigned char *bytes = (unsigned char *)m;
    size_t len = sizeof m->head + (size_t)rand_r(seed) % (rand_r(seed) % 2 ? 64 : 1500);

    for (size_t i = 0; i < sizeof *m; i++)
        bytes[i] = (unsigned char)(rand_r(seed) % 3 == 0 ? rand_r(seed) : 0);
    m->head = (struct shm_head){
        .magic = SHM_MAGIC, .version = SHM_VERSION,
        .type = types[(size_t)rand_r(seed) % (sizeof types / sizeof types[0])],
        .extent = (uint32_t)rand_r(seed) % 4, .call = (uint64_t)rand_r(seed) % 3,
        .pass = p->pass, .from = p->fabric->rt->address.identity,
        .label = p->fabric->rt->address.label,
        .proof = p->proof + (rand_r(seed) % 8 == 0),
    };
    if (m->head.type == SHM_UNMAP)
        m->head.extent += 1000;     /* of its own extents it would be believed */
    if (m->head.type != SHM_CONTROL && m->head.type != SHM_COPY && rand_r(seed) % 2)
        len = sizeof m->head;
    if (m->head.type == SHM_COPY) {
        m->body.copy.nspans = (uint32_t)rand_r(seed) % (SHM_SPANS + 3);
        m->body.copy.kind = (uint32_t)rand_r(seed) % 4;
        m->body.copy.number = (uint32_t)rand_r(seed) % 3;
        m->body.copy.op = (uint32_t)rand_r(seed) % 6;
        if (rand_r(seed) % 4)
            len = sizeof m->head + offsetof(struct shm_copy, span)
                  + m->body.copy.nspans * sizeof m->body.copy.span[0];
    }
    len = len > sizeof *m ? sizeof *m : len;
    m->head.len = (uint32_t)len;
    if (rand_r(seed) % 5 == 0) {
        size_t at = (size_t)rand_r(seed) % sizeof m->head;

        if (at < 6 || at > 15)      /* so would a goodbye */
            bytes[at] ^= (unsigned char)(1u << rand_r(seed) % 8);
    }
    return rand_r(seed) % 20 == 0 ? (size_t)rand_r(seed) % sizeof *m : len;
}

/* Sometimes a descriptor goes along. */
static void send_message(int fd, const struct shm_message *m, size_t len, int extra)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec part = { (void *)m, len };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    int fds[3] = { extra, extra, extra };

    if (extra >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, sizeof fds);
    }
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* ---- what comes before its sender is known ---- */

static struct loci_address early;       /* of a process that this one meets later */

/* A control message in its name. The service thread takes it while the runtime still opens. */
static int open_and_hear(struct loco_runtime *rt, struct loci_address *mine,
                         struct loci_fabric **fabric)
{
    int status = loci_fabric_shm.open(rt, mine, fabric), fd;
    struct shm_fabric *f = shm_of(*fabric);
    static struct shm_message m;
    int64_t start = run_now();
    size_t parked = 0;

    NEED(status == LOCO_OK && (fd = raw_link(mine)) >= 0);
    early = *mine;
    early.identity++;
    m.head = (struct shm_head){
        .magic = SHM_MAGIC, .version = SHM_VERSION, .type = SHM_CONTROL, .len = sizeof m.head + 48,
        .from = early.identity, .label = early.label,
        .pass = loci_proof(mine->secret, LOCI_PASS, 0, 0),
        .proof = loci_proof(mine->secret, LOCI_MESSAGE, early.identity, early.label),
    };
    send_message(fd, &m, m.head.len, -1);
    close(fd);
    while (parked == 0 && !run_too_long(start, RUN_PATIENCE)) {
        usleep(100);
        pthread_mutex_lock(&f->lock);
        parked = f->parked_bytes;
        pthread_mutex_unlock(&f->lock);
    }
    NEED(parked > 0);
    return LOCO_OK;
}

static int hears_early(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_fabric_ops ops = loci_fabric_shm;
    struct loco_bootstrap own = *boot;
    int64_t start = run_now();
    loco_runtime_t *rt;
    int index;

    (void)arg;
    own.log = count_dropped;
    ops.open = open_and_hear;
    NEED(loci_runtime_open(&own, NULL, &ops, &rt) == LOCO_OK);
    NEED(atomic_load(&rt->dropped.all) == 0);
    NEED(loci_peer_meet(rt, &early, &index) == LOCO_OK);
    /* It is handed on now, and says nothing that a control message could say. */
    while (atomic_load(&rt->dropped.all) == 0 && !run_too_long(start, RUN_PATIENCE))
        usleep(100);
    NEED(atomic_load(&rt->dropped.all) == 1);
    loci_peers_let_go(rt, &index, 1);
    loco_runtime_close(rt);
    return LEAKS();
}

/* In a job nobody knows where to send to before all have entered themselves. The table of peers is
 * there all the same before the service thread looks into it. */
Test(shm, messages_wait_for_the_table_of_peers, .timeout = RUN_SECONDS)
{
    run(1, hears_early, NULL);
}

/* ---- nonsense ---- */

static int talks_nonsense(const struct loco_bootstrap *boot, void *arg)
{
    static struct shm_message m;
    struct world w;
    unsigned seed = 20240229;
    uint64_t old;
    int before, fd = -1, odd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    int rounds = run_fuzz_rounds(20000);

    NEED(enter(&w, boot, arg) == 0);
    /* Everything that is set up once is there before descriptors are counted. */
    NEED(loci_fetch_add(w.rt, &w.pools[1 - w.me], 0, 1, &old, NULL) == LOCO_OK);
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 1, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    usleep(100000);
    before = count_fds();
    NEED(together(&w) == LOCO_OK);
    for (int i = 0; w.me == 1 && i < rounds; i++) {
        if (fd < 0 || i % 500 == 0) {
            close(fd);
            fd = raw_link(&w.rt->peers[1]->address);
            NEED(fd >= 0);
        }
        send_message(fd, &m, make_message(&m, loci_peer(w.rt, 1)->fabric_data, &seed),
                     rand_r(&seed) % 10 == 0 ? odd : -1);
    }
    if (fd >= 0)
        close(fd);
    NEED(together(&w) == LOCO_OK);
    /* Its copies may answer requests that its threads make meanwhile: all must be read. */
    for (int i = 0; i < 5000 && count_fds() > before; i++)
        usleep(1000);
    NEED(count_fds() <= before);
    NEED(together(&w) == LOCO_OK);
    NEED(loci_peer_alive(w.rt, 1));
    NEED(loci_fetch_add(w.rt, &w.pools[1 - w.me], 0, 1, &old, NULL) == LOCO_OK);
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 1, NULL) == LOCO_OK);
    close(odd);
    return leave(&w);
}

Test(shm, nonsense_is_dropped, .timeout = 6000)
{
    static const struct setup silent = { .log = count_dropped };
    static const struct setup silent_never = { .log = count_dropped,
                                               .settings = { "LOCO_CMA=never" } };

    run(2, talks_nonsense, &silent);
    run(2, talks_nonsense, &silent_never);
}

Test(shm, messages_are_checked)
{
    const struct shm_head right = {
        .magic = SHM_MAGIC, .version = SHM_VERSION, .type = SHM_WANT_FD, .len = sizeof right,
        .extent = 1, .call = 1,
    };
    struct shm_message m = { .head = right };
    size_t len = sizeof m.head;

    cr_assert(loci_shm_message_error(&m, len) == NULL);
    cr_assert(loci_shm_message_error(&m, len - 1) != NULL);
    cr_assert(loci_shm_message_error(&m, 3) != NULL);
    m.head.len++;
    cr_assert(loci_shm_message_error(&m, len + 1) != NULL, "body that its type does not have");
    m.head.type = SHM_CONTROL;
    cr_assert(loci_shm_message_error(&m, len + 1) == NULL);
    m.head.magic++;
    cr_assert(loci_shm_message_error(&m, len + 1) != NULL);
    m.head = right;
    m.head.version++;
    cr_assert(loci_shm_message_error(&m, len) != NULL);
    m.head.version = SHM_VERSION;
    m.head.type = SHM_COPY;
    len += offsetof(struct shm_copy, span);
    m.head.len = (uint32_t)len;
    m.body.copy.nspans = 1;
    cr_assert(loci_shm_message_error(&m, len) != NULL);
    m.body.copy.nspans = SHM_SPANS + 1;
    len += (SHM_SPANS + 1) * sizeof m.body.copy.span[0];
    m.head.len = (uint32_t)len;
    cr_assert(loci_shm_message_error(&m, len) != NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The control socket, and who is not of the job: what they send changes nothing, whatever of us is
 * public they know. Each test sends by hand from a member's process, in place of its runtime. */

#include <semaphore.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "service.h"
#include "shm_world.h"

#define NOBODY 65534

/* ---- what a member hears ---- */

/* Messages dropped with a line, and lines. The service thread's, but read by the test. */
static _Atomic unsigned long long told;
static _Atomic int lines;

static void count_told(void *ctx, int level, const char *text)
{
    const char *number = strstr(text, "it is number ");

    (void)ctx;
    (void)level;
    if (number == NULL)
        return;
    atomic_fetch_add(&told, strtoull(number + strlen("it is number "), NULL, 10));
    atomic_fetch_add(&lines, 1);
}

static const struct setup counted = { .log = count_told };

static unsigned long long refused(const struct world *w)
{
    const struct loci_log_seldom *seldom = &shm_of(w->rt->fabric)->dropped;

    return atomic_load(&told) + atomic_load(&seldom->all) - atomic_load(&seldom->told);
}

/* Until member 0 has refused so many, or a second has passed. */
static unsigned long long wait_for_refused(const struct world *w, unsigned long long n)
{
    int64_t start = run_now();

    while (refused(w) < n && !run_too_long(start, 1000000000))
        usleep(1000);
    return refused(w);
}

/* What messages change in a process, and what they cost it. */
struct state {
    int descriptors;
    unsigned mappers;
    size_t parked;
    const void *mappings, *its_area;
    bool alive, goodbye, gone;
    unsigned char memory[64], pool[64];
};

static void look(struct world *w, struct state *s)
{
    struct shm_fabric *f = shm_of(w->rt->fabric);
    struct shm_peer *p = loci_peer(w->rt, w->rt->everyone->peer[1 - w->me])->fabric_data;

    memset(s, 0, sizeof *s);
    s->descriptors = count_fds();
    for (struct shm_extent *e = f->extents; e != NULL; e = e->next)
        s->mappers += e->nmappers;
    s->parked = f->parked_bytes;
    s->mappings = p->mappings;
    s->its_area = p->its_area;
    s->alive = loci_peer_alive(w->rt, w->rt->everyone->peer[1 - w->me]);
    s->goodbye = p->goodbye;
    s->gone = p->gone;
    memcpy(s->memory, w->memory, sizeof s->memory);
    memcpy(s->pool, w->pool.ptr, sizeof s->pool);
}

struct glance {
    struct world *w;
    struct state *seen;
    sem_t done;
};

static void glance(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct glance *g = ctx;
    eventfd_t once;

    (void)rt;
    (void)events;
    (void)!eventfd_read(fd, &once);
    look(g->w, g->seen);
    sem_post(&g->done);
}

/* The service thread looks: most of what messages change is its own, and has no lock. */
static int have_a_look(struct world *w, struct state *s)
{
    struct glance g = { .w = w, .seen = s };
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    NEED(fd >= 0 && sem_init(&g.done, 0, 0) == 0);
    NEED(loci_service_watch(w->rt, fd, EPOLLIN, glance, &g) == LOCO_OK);
    while (sem_wait(&g.done) != 0)
        continue;
    loci_service_unwatch(w->rt, fd);
    sem_destroy(&g.done);
    close(fd);
    return 0;
}

/* ---- what is sent ---- */

static const uint16_t types[] = {
    SHM_CONTROL, SHM_GOODBYE, SHM_WANT_FD, SHM_HERE_IS_FD, SHM_MAPPED, SHM_UNMAP, SHM_AREA,
    SHM_COPY, SHM_NO_AREA, SHM_DEVICE,
};
#define TYPES (sizeof types / sizeof types[0])

/* A message of that type to `p` which would be right if we knew p's secret: in the name of this
 * process, or of one that p has not met. Returns its bytes. */
static size_t make(struct shm_message *m, const struct shm_peer *p, uint16_t type, bool known)
{
    const struct loci_address *me = &p->fabric->rt->address;

    memset(m, 0, sizeof *m);
    m->head = (struct shm_head){
        .magic = SHM_MAGIC, .version = SHM_VERSION, .type = type, .len = sizeof m->head,
        .from = known ? me->identity : me->identity ^ 4711, .label = me->label,
    };
    if (type == SHM_CONTROL || type == SHM_DEVICE)
        m->head.len += 48;
    if (type == SHM_COPY) {
        m->body.copy = (struct shm_copy){
            .op = LOCI_WRITE, .kind = LOCI_MEM_POOL, .nspans = 1, .span[0] = { 0, 64 },
        };
        m->head.len += (uint32_t)offsetof(struct shm_copy, span[1]);
    }
    return m->head.len;
}

static void send_to(const struct shm_peer *p, const struct shm_message *m, size_t len, int extra)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { .bytes = { 0 } };
    struct iovec part = { (void *)m, len };
    struct msghdr message = {
        .msg_name = (void *)&p->name, .msg_namelen = p->name_len, .msg_iov = &part,
        .msg_iovlen = 1,
    };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (extra >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.align = (struct cmsghdr){ CMSG_LEN(sizeof extra), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), &extra, sizeof extra);
    }
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
    close(fd);
}

/* Each type, from who is known and who is not, with a descriptor and without. */
static int send_all(const struct shm_peer *p, uint64_t pass, uint64_t proof)
{
    static struct shm_message m;
    int fd = memfd_create("area", MFD_CLOEXEC), sent = 0;

    NEED(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
    for (size_t i = 0; i < 4 * TYPES; i++) {
        size_t len = make(&m, p, types[i / 4], i % 2 == 0);

        m.head.pass = pass;
        m.head.proof = proof;
        send_to(p, &m, len, i % 4 < 2 ? fd : -1);
        sent++;
    }
    close(fd);
    NEED(sent == 4 * (int)TYPES);
    return 0;
}

/* ---- tests ---- */

/* Member 1 sends by `send`; what member 0 has and is must stay, and it must refuse so many. */
static int stays(const struct loco_bootstrap *boot, const struct setup *setup,
                 int (*send)(const struct shm_peer *p), unsigned long long many)
{
    struct state before, after;
    struct world w;
    uint64_t old;

    NEED(enter(&w, boot, setup) == 0);
    /* Everything that is set up once is there before. */
    NEED(loci_fetch_add(w.rt, &w.pools[1 - w.me], 0, 1, &old, NULL) == LOCO_OK);
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 1, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    usleep(50000);
    NEED(have_a_look(&w, &before) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1)
        NEED(send(loci_peer(w.rt, w.rt->everyone->peer[0])->fabric_data) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0) {
        NEED(wait_for_refused(&w, many) == many);
        usleep(20000);
        NEED(have_a_look(&w, &after) == 0);
        NEED(memcmp(&before, &after, sizeof before) == 0);
        NEED(atomic_load(&lines) <= 1 + (int)(many > 0));
    }
    NEED(together(&w) == LOCO_OK);
    NEED(loci_fetch_add(w.rt, &w.pools[1 - w.me], 0, 1, &old, NULL) == LOCO_OK);
    NEED(loci_peer_alive(w.rt, w.rt->everyone->peer[1 - w.me]));
    return leave(&w);
}

/* Knows the pass, which alone says nothing, and must guess the proof. */
static int guess_proofs(const struct shm_peer *p)
{
    return send_all(p, p->pass, p->proof ^ 1);
}

static int is_asked_without_proof(const struct loco_bootstrap *boot, void *arg)
{
    return stays(boot, arg, guess_proofs, 4 * TYPES);
}

Test(strangers, prove_nothing, .timeout = 60)
{
    run(2, is_asked_without_proof, &counted);
}

/* The proof that is right for another receiver: what who takes over a dead one's name learns. */
static int say_again(const struct shm_peer *p)
{
    const struct loci_address *me = &p->fabric->rt->address, *it = &p->peer->address;

    return send_all(p, p->pass, loci_proof(me->secret, LOCI_MESSAGE, it->identity, it->label));
}

static int is_told_what_others_were(const struct loco_bootstrap *boot, void *arg)
{
    return stays(boot, arg, say_again, 4 * TYPES);
}

Test(strangers, prove_nothing_by_what_others_said, .timeout = 60)
{
    run(2, is_told_what_others_were, &counted);
}

/* Knows all that is public: nothing comes through, however much. */
static int flood(const struct shm_peer *p)
{
    for (int i = 0; i < 2000; i++)
        NEED(send_all(p, p->pass ^ (i % 2 == 0 ? 1 : UINT64_C(1) << 63), p->proof) == 0);
    return 0;
}

static int is_flooded(const struct loco_bootstrap *boot, void *arg)
{
    return stays(boot, arg, flood, 0);
}

Test(strangers, do_not_come_through, .timeout = 60)
{
    run(2, is_flooded, &counted);
}

/* Another user, who has learned everything. */
static int send_as_nobody(const struct shm_peer *p)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setresuid(NOBODY, NOBODY, NOBODY) == 0 ? send_all(p, p->pass, p->proof) : 1);
    NEED(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}

static int is_asked_by_nobody(const struct loco_bootstrap *boot, void *arg)
{
    return stays(boot, arg, send_as_nobody, 4 * TYPES);
}

Test(strangers, of_another_user_are_refused, .timeout = 60)
{
    if (geteuid() != 0)
        cr_skip("only root can be two users");
    run(2, is_asked_by_nobody, &counted);
}

/* A secret goes nowhere but through the exchange: not into the environment, names or messages. */
static int receives_by_hand(const struct loco_bootstrap *boot, void *arg)
{
    static unsigned char bytes[1 << 16];
    const struct loci_address *me;
    struct world w;
    ssize_t n;

    NEED(enter(&w, boot, arg) == 0);
    me = &w.rt->address;
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0)
        loci_service_unwatch(w.rt, shm_of(w.rt->fabric)->socket_fd);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1)
        NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, w.rt->everyone->peer[0]),
                                     bytes, 100) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0) {
        n = recv(shm_of(w.rt->fabric)->socket_fd, bytes, sizeof bytes, 0);
        NEED(n > 100);
        for (int i = 0; i < 2; i++) {
            NEED(memmem(bytes, (size_t)n, &me->secret[i], 8) == NULL);
            NEED(memmem(bytes, (size_t)n, &w.rt->peers[1]->address.secret[i], 8) == NULL);
        }
        NEED(loci_service_watch(w.rt, shm_of(w.rt->fabric)->socket_fd, EPOLLIN, loci_shm_readable,
                                w.rt->fabric) == LOCO_OK);
    }
    return leave(&w);
}

Test(strangers, read_no_secret_in_messages, .timeout = 60)
{
    run(2, receives_by_hand, &counted);
}

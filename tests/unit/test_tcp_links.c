/* SPDX-License-Identifier: BSD-3-Clause */

/* Links over TCP: messages both ways, connections for data, and how the end of a process is seen,
 * whichever way it ends. */

#include "config.h"

#include <sys/prctl.h>

#include "tcp_world.h"

#define LOW 0x1000      /* the identity of who dials */
#define HIGH 0x2000

static struct tcp_member low, high;
static struct loci_peer *to_high, *to_low;

static void meet(const char *const *settings)
{
    tcp_open(&low, LOW, settings);
    tcp_open(&high, HIGH, settings);
    to_high = tcp_meet(&low, &high.rt->address);
    to_low = tcp_meet(&high, &low.rt->address);
    cr_assert(tcp_await_ready(&low, 1), "%s", low.lines);
    cr_assert(tcp_await_ready(&high, 1), "%s", high.lines);
}

static void part(void)
{
    tcp_close(&low);
    tcp_close(&high);
}

/* ---- messages ---- */

struct sender {
    struct loci_peer *to;
    unsigned many;
    int status;
};

static void *send_many(void *arg)
{
    struct sender *s = arg;
    struct tcp_message m;

    for (unsigned i = 0; i < s->many && s->status == LOCO_OK; i++) {
        size_t len = tcp_message(&m, i);

        s->status = loci_link_send(tcp_link_to(s->to), LINK_DEVICE, &m, len);
    }
    return NULL;
}

static void exchange(unsigned many)
{
    struct sender s[2] = { { to_high, many, LOCO_OK }, { to_low, many, LOCO_OK } };
    pthread_t thread[2];

    atomic_store(&low.received, 0);
    atomic_store(&high.received, 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, send_many, &s[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        cr_assert_eq(s[i].status, LOCO_OK);
    }
    cr_assert(tcp_await_count((_Atomic int *)&low.received, (int)many), "%s", low.lines);
    cr_assert(tcp_await_count((_Atomic int *)&high.received, (int)many), "%s", high.lines);
    cr_assert_eq(atomic_load(&low.wrong) + atomic_load(&high.wrong), 0);
}

/* Many more than sockets hold, so each end is held up by the other, and goes on. */
Test(tcp_links, messages_come_whole_and_in_order, .timeout = 300)
{
    meet(NULL);
    exchange((unsigned)run_rounds(5000));
    part();
}

static void small_buffer(struct tcp_member *m, void *to)
{
    int small = 4096, fd = tcp_link_of(tcp_link_to(to))->watch.fd;

    (void)m;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

Test(tcp_links, messages_in_pieces_come_whole, .timeout = 300)
{
    meet(NULL);
    tcp_in_service(&low, small_buffer, to_high);
    tcp_in_service(&high, small_buffer, to_low);
    exchange((unsigned)run_rounds(1000));
    part();
}

Test(tcp_links, a_message_that_is_too_long_is_refused, .timeout = 120)
{
    static char bytes[LOCI_CONTROL_MAX + 1];

    meet(NULL);
    cr_assert_eq(loci_link_send(tcp_link_to(to_high), LINK_DEVICE, bytes, sizeof bytes),
                 LOCO_ERR_ARG);
    part();
}

/* ---- meeting ---- */

/* Who is called may be behind: the call waits, until its caller is met. */
Test(tcp_links, a_call_of_who_is_ahead_waits, .timeout = 120)
{
    int64_t begin;

    tcp_open(&low, LOW, NULL);
    tcp_open(&high, HIGH, NULL);
    to_high = tcp_meet(&low, &high.rt->address);
    usleep(500000);
    cr_assert_eq(tcp_logged(&low, "connected to process"), 0);
    to_low = tcp_meet(&high, &low.rt->address);
    begin = run_now();
    cr_assert(tcp_await_ready(&low, 1), "%s", low.lines);
    cr_assert(tcp_await_ready(&high, 1), "%s", high.lines);
    cr_assert_lt(run_now() - begin, run_limit(8000000000), "by another call");
    exchange(10);
    part();
}

static void count_parked(struct tcp_member *m, void *count)
{
    *(unsigned *)count = m->f.links->nparked;
}

static unsigned parked_at(struct tcp_member *m)
{
    unsigned count = 0;

    tcp_in_service(m, count_parked, &count);
    return count;
}

static bool none_is_parked(void *arg)
{
    return parked_at(arg) == 0;
}

static bool one_is_parked(void *arg)
{
    return parked_at(arg) == 1;
}

/* Who waits like that may end; its call is then nobody's. */
Test(tcp_links, who_ends_before_it_is_met_leaves_nothing, .timeout = 120)
{
    tcp_open(&low, LOW, NULL);
    tcp_open(&high, HIGH, NULL);
    to_high = tcp_meet(&low, &high.rt->address);
    cr_assert(tcp_await(one_is_parked, &high, RUN_PATIENCE));
    tcp_close(&low);
    cr_assert(tcp_await(none_is_parked, &high, RUN_PATIENCE));
    tcp_close(&high);
}

/* A place that leads nowhere, or to somebody else, is passed over. */
Test(tcp_links, places_are_tried_in_turn, .timeout = 120)
{
    static struct tcp_member stranger;
    struct loci_address it;

    tcp_open(&low, LOW, NULL);
    tcp_open(&high, HIGH, NULL);
    tcp_open(&stranger, HIGH, NULL);
    it = high.rt->address;
    it.tcp[2] = it.tcp[0];
    it.tcp[1] = stranger.rt->address.tcp[0];
    it.tcp[0].port = 1;
    to_high = tcp_meet(&low, &it);
    to_low = tcp_meet(&high, &low.rt->address);
    cr_assert(tcp_await_ready(&low, 1), "%s", low.lines);
    cr_assert(tcp_await_ready(&high, 1), "%s", high.lines);
    cr_assert_geq(tcp_logged(&low, "port 1: Connection refused"), 1, "%s", low.lines);
    cr_assert_geq(tcp_logged(&low, "somebody else is there, or it refuses"), 1, "%s", low.lines);
    exchange(10);
    tcp_close(&stranger);
    part();
}

/* Somebody who listens there may say anything; it is not who was called. */
Test(tcp_links, who_answers_is_of_the_job, .timeout = 120)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct loci_address it, other;
    struct loci_hello h;

    cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
    cr_assert_eq(listen(listener, 8), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    tcp_open(&low, LOW, NULL);
    it = other = low.rt->address;
    it.identity = HIGH;
    memset(it.tcp + 1, 0, sizeof it.tcp - sizeof it.tcp[0]);
    loci_tcp_place_of((struct sockaddr *)&a, &it.tcp[0]);
    to_high = tcp_meet(&low, &it);
    for (int kind = 0; kind < 4; kind++) {
        int fd = accept(listener, NULL, NULL);

        cr_assert_eq(recv(fd, &h, sizeof h, MSG_WAITALL), (ssize_t)sizeof h);
        cr_assert(loci_hello_is_sound(&h, LOCI_CALL, &it));
        switch (kind) {
        case 0: break;                                          /* what it has heard */
        case 1: loci_hello_fill(&h, LOCI_ANSWER_DATA, &it, &low.rt->address); break;
        case 2: loci_hello_fill(&h, LOCI_ANSWER, &other, &low.rt->address); break;
        default:
            other = low.rt->address;
            other.secret[1]++;
            loci_hello_fill(&h, LOCI_ANSWER, &it, &other);
        }
        cr_assert_eq(send(fd, &h, sizeof h, MSG_NOSIGNAL), (ssize_t)sizeof h);
        cr_expect(tcp_is_closed(fd, RUN_PATIENCE), "kind %d", kind);
        close(fd);
    }
    cr_assert_eq(tcp_logged(&low, "connected to process"), 0, "%s", low.lines);
    cr_assert_geq(tcp_logged(&low, "somebody else is there, or it refuses"), 3);
    close(listener);
    tcp_close(&low);
}

/* Calls as the next tick finds them when all patience with them is over. */
static void age_calls(struct tcp_member *m)
{
    for (struct tcp_call *c = m->f.dials->calls; c != NULL; c = c->next)
        if (c->until != INT64_MAX)
            c->until = 0;
}

static void age(struct tcp_member *m, void *arg)
{
    (void)arg;
    age_calls(m);
}

/* A caller that is slow to agree has the connection all the same, and nobody is taken for dead. */
Test(tcp_links, who_answers_waits_for_the_caller, .timeout = 120)
{
    const uint64_t agreed = TCP_AGREED;
    struct loci_hello h;
    int fd;

    tcp_open(&high, HIGH, NULL);
    tcp_open(&low, LOW, NULL);
    to_low = tcp_meet(&high, &low.rt->address);
    fd = tcp_call_by_hand(&high.rt->address);
    loci_hello_fill(&h, LOCI_CALL, &low.rt->address, &high.rt->address);
    cr_assert_eq(send(fd, &h, sizeof h, MSG_NOSIGNAL), (ssize_t)sizeof h);
    cr_assert_eq(recv(fd, &h, sizeof h, MSG_WAITALL), (ssize_t)sizeof h);
    cr_assert(loci_hello_is_sound(&h, LOCI_ANSWER, &low.rt->address));
    tcp_in_service(&high, age, NULL);
    usleep(2500000);
    cr_assert_eq(send(fd, &agreed, sizeof agreed, MSG_NOSIGNAL), (ssize_t)sizeof agreed);
    cr_assert(tcp_await_ready(&high, 1), "%s", high.lines);
    close(fd);
    part();
}

struct late {
    int fd;
    struct loci_hello answer;
};

/* This thread does not get to it, until the clock says that it is too late. */
static void answer_late(struct tcp_member *m, void *arg)
{
    const struct late *late = arg;

    age_calls(m);
    usleep(1200000);
    cr_assert_eq(send(late->fd, &late->answer, sizeof late->answer, MSG_NOSIGNAL),
                 (ssize_t)sizeof late->answer);
    usleep(300000);
}

/* What has come is heard before anything is given up. */
Test(tcp_links, who_answers_in_time_is_heard_late, .timeout = 120)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof a;
    struct loci_address it;
    uint64_t agreed = 0;
    struct late late;

    cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
    cr_assert_eq(listen(listener, 8), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    tcp_open(&low, LOW, NULL);
    it = low.rt->address;
    it.identity = HIGH;
    memset(it.tcp + 1, 0, sizeof it.tcp - sizeof it.tcp[0]);
    loci_tcp_place_of((struct sockaddr *)&a, &it.tcp[0]);
    to_high = tcp_meet(&low, &it);
    late.fd = accept(listener, NULL, NULL);
    cr_assert_eq(recv(late.fd, &late.answer, sizeof late.answer, MSG_WAITALL),
                 (ssize_t)sizeof late.answer);
    loci_hello_fill(&late.answer, LOCI_ANSWER, &it, &low.rt->address);
    tcp_in_service(&low, answer_late, &late);
    cr_assert(tcp_await_ready(&low, 1), "%s", low.lines);
    cr_assert_eq(recv(late.fd, &agreed, sizeof agreed, MSG_WAITALL), (ssize_t)sizeof agreed);
    cr_assert_eq(agreed, TCP_AGREED);
    cr_assert_eq(tcp_logged(&low, "it does not answer"), 0, "%s", low.lines);
    close(late.fd);
    close(listener);
    tcp_close(&low);
}

Test(tcp_links, whose_port_is_not_there_has_ended, .timeout = 120)
{
    struct loci_address it;

    tcp_open(&low, LOW, NULL);
    tcp_open(&high, HIGH, NULL);
    it = high.rt->address;
    tcp_close(&high);
    to_high = tcp_meet(&low, &it);
    cr_assert(tcp_await(tcp_is_gone, to_high, 2000000000));
    cr_assert_eq(atomic_load(&to_high->state), LOCI_PEER_DEAD);
    cr_assert_eq(tcp_logged(&low, "is gone: its process has ended"), 1, "%s", low.lines);
    tcp_close(&low);
}

/* ---- connections for data ---- */

static void bytes_go(int from, int to)
{
    char byte = 0;

    for (int i = 0; i < 1000; i++) {
        cr_assert_eq((int)write(from, &(char){ (char)i }, 1), 1);
        for (int64_t begin = run_now(); read(to, &byte, 1) != 1;)
            cr_assert_not(run_too_long(begin, RUN_PATIENCE));
        cr_assert_eq(byte, (char)i);
    }
}

static void data(bool of_low, bool of_high)
{
    meet(NULL);
    if (of_low)
        loci_tcp_dial(&low.f, to_high, LOCI_CALL_DATA);
    if (of_high)
        loci_tcp_dial(&high.f, to_low, LOCI_CALL_DATA);
    cr_assert(tcp_await_count(&low.taken, 1), "%s", low.lines);
    cr_assert(tcp_await_count(&high.taken, 1), "%s", high.lines);
    usleep(200000);
    /* One is enough, but for who asks when it is there. */
    cr_assert_leq(atomic_load(&low.taken), of_low && of_high ? 2 : 1);
    cr_assert_eq(atomic_load(&high.taken), atomic_load(&low.taken));
    bytes_go(atomic_load(&low.fd), atomic_load(&high.fd));
    bytes_go(atomic_load(&high.fd), atomic_load(&low.fd));
    part();
    cr_assert_eq(atomic_load(&low.not_taken) + atomic_load(&high.not_taken), 0);
}

Test(tcp_links, data_has_a_connection_by_who_dials, .timeout = 120)
{
    data(true, false);
}

Test(tcp_links, data_has_a_connection_by_who_asks, .timeout = 120)
{
    data(false, true);
}

Test(tcp_links, data_has_one_connection_by_both, .timeout = 120)
{
    for (int i = 0; i < run_rounds(20); i++)
        data(true, true);
}

/* One that is wanted before the link is there comes with it; and again, once it is over. */
Test(tcp_links, data_waits_for_the_link, .timeout = 120)
{
    tcp_open(&low, LOW, NULL);
    tcp_open(&high, HIGH, NULL);
    to_high = tcp_meet(&low, &high.rt->address);
    loci_tcp_dial(&low.f, to_high, LOCI_CALL_DATA);
    usleep(100000);
    to_low = tcp_meet(&high, &low.rt->address);
    for (int i = 1; i <= 5; i++) {
        cr_assert(tcp_await_count(&low.taken, i), "%s", low.lines);
        cr_assert(tcp_await_count(&high.taken, i), "%s", high.lines);
        bytes_go(atomic_load(&high.fd), atomic_load(&low.fd));
        if (i % 2 == 0)
            loci_tcp_dial(&low.f, to_high, LOCI_CALL_DATA);
        else
            loci_tcp_dial(&high.f, to_low, LOCI_CALL_DATA);
    }
    part();
}

/* ---- ends, in one process ---- */

Test(tcp_links, who_closes_has_left, .timeout = 120)
{
    struct tcp_message m;
    size_t len = tcp_message(&m, 0);

    for (int i = 0; i < run_rounds(30); i++) {
        struct tcp_member *first = i % 2 == 0 ? &low : &high, *last = i % 2 == 0 ? &high : &low;

        meet(NULL);
        cr_assert_eq(loci_link_send(tcp_link_to(i % 2 == 0 ? to_high : to_low), LINK_DEVICE, &m,
                                    len), LOCO_OK);
        /* What is on its way to who closes makes no difference. */
        for (int k = 0; k < i; k++)
            loci_link_send(tcp_link_to(i % 2 == 0 ? to_low : to_high), LINK_ALIVE, NULL, 0);
        tcp_close(first);
        cr_assert(tcp_await(tcp_is_gone, i % 2 == 0 ? to_low : to_high, RUN_PATIENCE));
        cr_assert_eq(atomic_load(&(i % 2 == 0 ? to_low : to_high)->state), LOCI_PEER_LEFT, "%s",
                     last->lines);
        cr_assert_eq(atomic_load(&last->received), 1);
        tcp_close(last);
    }
}

static void cut(struct tcp_member *m, void *to)
{
    (void)m;
    shutdown(tcp_link_of(tcp_link_to(to))->watch.fd, SHUT_RDWR);
}

/* One whose connection fails is dead, since nothing is known of what it has sent. */
Test(tcp_links, a_connection_that_fails_is_a_death, .timeout = 120)
{
    meet(NULL);
    loci_peers_use(low.rt, &to_high->index, 1);     /* or it is forgotten at once */
    tcp_in_service(&high, cut, to_low);
    cr_assert(tcp_await(tcp_is_gone, to_high, 2000000000));
    cr_assert_eq(atomic_load(&to_high->state), LOCI_PEER_DEAD);
    cr_assert(tcp_await(tcp_is_gone, to_low, 2000000000));
    cr_assert_eq(loci_link_send(tcp_link_to(to_high), LINK_ALIVE, NULL, 0), LOCO_ERR_PEER_DEAD);
    loci_peers_end_use(low.rt, &to_high->index, 1);
    part();
}

/* ---- other processes ---- */

/* A child with a runtime of its own, which the one that is given meets; it knows nothing of what
 * this process does with its sockets. */
struct child {
    pid_t pid;
    int talk;
    struct loci_address address;
};

static bool transfer(int fd, void *in, const void *out, size_t len)
{
    bool sent = write(fd, out, len) == (ssize_t)len;

    for (size_t got = 0; sent && got < len;) {
        ssize_t n = read(fd, (char *)in + got, len - got);

        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return sent;
}

/* In the child: it asserts nothing, but ends, which its parent notices. */
static struct loci_peer *meet_parent(int talk, uint64_t identity, const char *const *settings)
{
    struct loci_address parent;
    int index;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (tcp_try_open(&high, identity, settings) != LOCO_OK
        || !transfer(talk, &parent, &high.rt->address, sizeof parent)
        || loci_peer_meet(high.rt, &parent, &index) != LOCO_OK)
        _exit(1);
    return loci_peer(high.rt, index);
}

/* Before this process has a runtime. */
static void begin_child(struct child *c, uint64_t identity, const char *const *settings)
{
    int pair[2];
    char byte;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    c->pid = fork();
    cr_assert_geq(c->pid, 0);
    c->talk = pair[c->pid == 0];
    close(pair[c->pid != 0]);
    if (c->pid != 0)
        return;
    meet_parent(c->talk, identity, settings);
    while (read(c->talk, &byte, 1) == 1)
        ;
    loco_runtime_close(high.rt);
    _exit(0);
}

static struct loci_peer *meet_child(struct child *c)
{
    struct loci_peer *peer;

    cr_assert(transfer(c->talk, &c->address, &low.rt->address, sizeof c->address));
    peer = tcp_meet(&low, &c->address);
    cr_assert(tcp_await_ready(&low, 1), "%s", low.lines);
    return peer;
}

static void end_child(struct child *c, int signal)
{
    int status;

    close(c->talk);
    if (signal != 0)
        kill(c->pid, signal);
    cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
}

static const char *const short_limit[] = { "LOCO_PEER_TIMEOUT=5s", NULL };
static const char *const no_limit[] = { "LOCO_PEER_TIMEOUT=inf", NULL };

Test(tcp_links, who_is_killed_is_dead_at_once, .timeout = 120)
{
    for (int i = 0; i < 2; i++) {
        struct loci_peer *peer;
        struct child c;
        int64_t begin;

        begin_child(&c, i == 0 ? HIGH : LOW - 1, no_limit);
        tcp_open(&low, LOW, no_limit);
        peer = meet_child(&c);
        begin = run_now();
        kill(c.pid, SIGKILL);
        cr_assert(tcp_await(tcp_is_gone, peer, 1000000000));
        printf("# known after %.1f ms\n", (double)(run_now() - begin) / 1e6);
        cr_assert_eq(atomic_load(&peer->state), LOCI_PEER_DEAD);
        cr_assert_eq(tcp_logged(&low, "is gone: its connection has ended"), 1, "%s", low.lines);
        end_child(&c, 0);
        tcp_close(&low);
    }
}

struct heard {
    struct loci_peer *peer;
    int64_t when;
};

static void look_when_heard(struct tcp_member *m, void *arg)
{
    struct heard *h = arg;

    (void)m;
    h->when = tcp_link_of(tcp_link_to(h->peer))->heard;
}

static int64_t when_heard(struct tcp_member *m, struct loci_peer *peer)
{
    struct heard h = { .peer = peer };

    tcp_in_service(m, look_when_heard, &h);
    return h.when;
}

/* Each is heard once a second, whether anybody has something to say or not. */
Test(tcp_links, peers_are_heard_each_second, .timeout = 120)
{
    int64_t begin, silent[2] = { 0, 0 };

    meet(NULL);
    begin = run_now();
    while (run_now() - begin < 6000000000) {
        int64_t now[2] = { run_now() - when_heard(&low, to_high),
                           run_now() - when_heard(&high, to_low) };

        for (int i = 0; i < 2; i++)
            silent[i] = now[i] > silent[i] ? now[i] : silent[i];
        usleep(20000);
    }
    printf("# silent for at most %.2f s and %.2f s\n", (double)silent[0] / 1e9,
           (double)silent[1] / 1e9);
    for (int i = 0; i < 2; i++)
        cr_expect_lt(silent[i], run_limit(1900000000));
    part();
}

/* A sleeper is nobody's death, until the limit, and then at once. */
Test(tcp_links, who_is_silent_for_too_long_is_dead, .timeout = 120)
{
    struct loci_peer *peer;
    int64_t begin, heard;
    struct child c;

    begin_child(&c, HIGH, short_limit);
    tcp_open(&low, LOW, short_limit);
    peer = meet_child(&c);
    kill(c.pid, SIGSTOP);
    usleep(1500000);
    kill(c.pid, SIGCONT);
    usleep(3500000);
    cr_assert_not(tcp_is_gone(peer), "%s", low.lines);
    kill(c.pid, SIGSTOP);
    begin = run_now();
    usleep(100000);
    heard = when_heard(&low, peer);
    cr_assert(tcp_await(tcp_is_gone, peer, 12000000000));
    cr_assert_geq(run_now() - begin, 2000000000);
    cr_expect_geq(run_now() - heard, 5000000000);
    cr_expect_not(run_too_long(heard, 5400000000));
    printf("# known after %.2f s, silent for %.2f s\n", (double)(run_now() - begin) / 1e9,
           (double)(run_now() - heard) / 1e9);
    cr_assert_eq(atomic_load(&peer->state), LOCI_PEER_DEAD);
    cr_assert_eq(tcp_logged(&low, "LOCO_PEER_TIMEOUT"), 1, "%s", low.lines);
    end_child(&c, SIGKILL);
    tcp_close(&low);
}

/* Who was stopped itself takes its own silence for nobody's. */
Test(tcp_links, who_was_stopped_does_not_blame_its_peers, .timeout = 120)
{
    struct loci_address parent;
    struct loci_peer *peer;
    int pair[2], status;
    pid_t pid;
    char alive;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid = fork();
    if (pid == 0) {
        peer = meet_parent(pair[1], HIGH, short_limit);
        (void)!read(pair[1], &alive, 1);
        usleep(1500000);
        alive = !tcp_is_gone(peer);
        (void)!write(pair[1], &alive, 1);
        _exit(0);
    }
    tcp_open(&low, LOW, no_limit);
    cr_assert(transfer(pair[0], &parent, &low.rt->address, sizeof parent));
    peer = tcp_meet(&low, &parent);
    cr_assert(tcp_await_ready(&low, 1));
    kill(pid, SIGSTOP);
    usleep(7500000);
    cr_assert_not(tcp_is_gone(peer), "the limit here is none");
    kill(pid, SIGCONT);
    cr_assert_eq((int)write(pair[0], "x", 1), 1);
    cr_assert_eq((int)read(pair[0], &alive, 1), 1);
    cr_assert_eq(alive, 1);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(pair[0]);
    close(pair[1]);
    tcp_close(&low);
}

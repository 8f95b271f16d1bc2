/* SPDX-License-Identifier: BSD-3-Clause */

/* What comes to a process's port, and over a link, is not as it should be: any bytes, of any
 * length, or what a process of the job would say with some bits that are others, in any pieces.
 * FUZZ_ROUNDS says how many. */

#include "config.h"

#include <dirent.h>
#include <poll.h>

#include "tcp_world.h"

#define ME 0x8000
#define STREAM 65536

static struct tcp_member m;
static uint64_t seed = 88172645463325252u;

static unsigned below(unsigned n)
{
    return (unsigned)(run_random(&seed) >> 33) % n;
}

static void fill(void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)run_random(&seed);
}

/* Some bits flipped, bytes replaced, or words that are just at a limit. */
static void change(void *bytes, size_t len)
{
    static const uint32_t limits[] = { 0, 1, 2, 0x7fffffff, 0xffffffff, 4096, 4097, 65536 };
    unsigned char *at = bytes;

    for (unsigned n = 1 + below(3); n > 0; n--) {
        size_t where = below((unsigned)len);

        switch (below(3)) {
        case 0: at[where] ^= (unsigned char)(1 << below(8)); break;
        case 1: at[where] = (unsigned char)run_random(&seed); break;
        default: memcpy(at + where / 4 * 4, &limits[below(8)], 4);
        }
    }
}

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static bool none_is_left(void *arg)
{
    return descriptors() <= *(int *)arg;
}

/* ---- the other process, by hand ---- */

static struct loci_address it;
static struct loci_peer *peer;
static int listener;

static void listen_by_hand(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
    cr_assert_eq(listen(listener, 1024), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    loci_tcp_place_of((struct sockaddr *)&a, &it.tcp[0]);
}

/* A new one, as if another process had opened its runtime. */
static void meet(uint64_t identity)
{
    struct loci_tcp_place place = it.tcp[0];

    it = m.rt->address;
    memset(it.tcp, 0, sizeof it.tcp);
    it.tcp[0] = place;
    it.identity = identity;
    it.label = run_random(&seed);
    it.secret[0] = run_random(&seed);
    peer = tcp_meet(&m, &it);
}

static void let_go(void)
{
    loci_peers_let_go(m.rt, &peer->index, 1);
}

/* Closed by a reset, or ports would have to rest. */
static void drop(int fd)
{
    const struct linger now = { .l_onoff = 1 };

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/* All of it, within a time: else false. */
static bool get(int fd, void *bytes, size_t len)
{
    int64_t begin = run_now();

    for (size_t got = 0; got < len;) {
        struct pollfd one = { .fd = fd, .events = POLLIN };
        ssize_t n;

        cr_assert_not(run_too_long(begin, RUN_PATIENCE), "no answer");
        if (poll(&one, 1, 100) != 1)
            continue;
        n = recv(fd, (char *)bytes + got, len - got, 0);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

/* ---- first words ---- */

static void await_refused(uint64_t least)
{
    int64_t begin = run_now();

    while (atomic_load(&m.f.links->refused.all) < least) {
        cr_assert_not(run_too_long(begin, RUN_PATIENCE), "nobody is refused");
        usleep(20);
    }
}

struct words {
    size_t len;
    unsigned char bytes[64];
};

/* Whether they are right all the same. */
static bool any_words(struct words *w)
{
    struct loci_hello right, h;

    loci_hello_fill(&right, LOCI_CALL, &it, &m.rt->address);
    loci_hello_fill(&h, below(16) == 0 ? LOCI_PASS + below(6) : LOCI_CALL, &it, &m.rt->address);
    fill(w->bytes, sizeof w->bytes);
    memcpy(w->bytes, &h, sizeof h);
    w->len = sizeof h + (below(4) == 0 ? below(33) : 0);
    switch (below(8)) {
    case 0: fill(w->bytes, sizeof w->bytes); break;
    case 1: w->len = below(sizeof w->bytes + 1); break;
    case 2: break;
    default: change(w->bytes, sizeof h);
    }
    return w->len >= sizeof right && memcmp(w->bytes, &right, sizeof right) == 0;
}

/* Those for data, of who has no link yet, are no stranger's, but nobody's either. */
static bool is_for_data(const struct words *w)
{
    struct loci_hello right;

    loci_hello_fill(&right, LOCI_CALL_DATA, &it, &m.rt->address);
    return w->len >= sizeof right && memcmp(w->bytes, &right, sizeof right) == 0;
}

static bool hello_round(void)
{
    uint64_t refused = atomic_load(&m.f.links->refused.all);
    struct loci_hello answer;
    struct words w;
    bool good = any_words(&w), whole = w.len >= sizeof answer, data = is_for_data(&w), answered;
    int fd = tcp_call_by_hand(&m.rt->address);

    (void)!send(fd, w.bytes, w.len, MSG_NOSIGNAL);
    answered = whole && get(fd, &answer, sizeof answer);
    drop(fd);
    if (answered)
        cr_assert(loci_hello_is_sound(&answer, data ? LOCI_ANSWER_DATA : LOCI_ANSWER, &it));
    if (!data)
        cr_assert_eq(answered, good);
    if (!good && !data)
        await_refused(refused + 1);
    return good;
}

Test(fuzz_tcp, who_calls_is_of_the_job, .timeout = 3600)
{
    int rounds = run_fuzz_rounds(10000), good = 0, before, lines;
    int64_t begin = run_now();

    tcp_open(&m, ME, NULL);
    listen_by_hand();
    before = descriptors();
    meet(1);
    for (int i = 0; i < rounds; i++) {
        good += hello_round();
        if (i % 1000 == 999 || tcp_is_gone(peer)) {     /* or it was waited for too long */
            struct loci_hello h;
            uint64_t agreed = TCP_AGREED;
            int fd = tcp_call_by_hand(&m.rt->address);

            loci_hello_fill(&h, LOCI_CALL, &it, &m.rt->address);
            (void)!send(fd, &h, sizeof h, MSG_NOSIGNAL);
            if (get(fd, &h, sizeof h))
                (void)!send(fd, &agreed, sizeof agreed, MSG_NOSIGNAL);
            drop(fd);
            cr_assert(tcp_await(tcp_is_gone, peer, RUN_PATIENCE));
            let_go();
            meet(1 + below(ME - 1));
        }
    }
    cr_expect(tcp_await(none_is_left, &before, RUN_PATIENCE), "%d of %d", descriptors(), before);
    lines = tcp_logged(&m, "a stranger's call is refused");
    printf("# %d hellos: %d right, %llu refused, %d lines\n", rounds, good,
           (unsigned long long)atomic_load(&m.f.links->refused.all), lines);
    cr_expect_gt(good, rounds / 50);
    cr_expect_leq(lines, 2 + (run_now() - begin) / 1000000000);
    close(listener);
    tcp_close(&m);
}

/* ---- messages ---- */

struct stream {
    unsigned char bytes[STREAM];
    size_t len;
    unsigned right;             /* messages of tests, before anything is wrong */
    bool wrong, goodbye;        /* one is; one says that */
    bool doubtful;              /* one has another length: what comes of it, who knows */
};

static void add(struct stream *s, unsigned type, const void *body, size_t len)
{
    struct loci_link_head head = {
        .magic = LINK_MAGIC, .version = LINK_VERSION, .type = (uint16_t)type,
        .len = (uint32_t)len, .from = it.identity,
    };

    memcpy(s->bytes + s->len, &head, sizeof head);
    if (len > 0)
        memcpy(s->bytes + s->len + sizeof head, body, len);
    s->len += sizeof head + len;
}

/* A question of dial.c's; false: who gets it has to end the link. */
static bool add_question(struct stream *s, bool it_dials)
{
    uint32_t m32[2] = { below(5), below(3) };
    size_t len = below(8) == 0 ? 4 : sizeof m32;

    add(s, LINK_DEVICE, m32, len);
    return len == sizeof m32
           && (it_dials ? m32[0] == 3 : m32[0] == 2 || (m32[0] == 1 && m32[1] == 0));
}

static void add_right(struct stream *s, unsigned *number)
{
    struct tcp_message t;
    size_t len = tcp_message(&t, (*number)++);

    add(s, LINK_DEVICE, &t, len);
    s->right += !s->wrong && !s->doubtful;
}

/* Its head is another, or it is one of no message. */
static void add_wrong(struct stream *s)
{
    struct loci_link_head right, head;
    size_t at = s->len;
    unsigned char bytes[128];
    size_t len = below(sizeof bytes);

    fill(bytes, sizeof bytes);
    add(s, LINK_ALIVE, bytes, len);
    memcpy(&right, s->bytes + at, sizeof right);
    head = right;
    if (below(4) == 0)
        fill(&head, sizeof head);
    else
        change(&head, sizeof head);
    memcpy(s->bytes + at, &head, sizeof head);
    head.pad = right.pad;               /* nobody looks at it */
    if (memcmp(&head, &right, sizeof head) == 0)
        return;
    right.type = head.type;
    if (memcmp(&head, &right, sizeof head) == 0 && head.type >= LINK_CONTROL
        && head.type <= LINK_ALIVE && head.type != LINK_DEVICE) {
        s->goodbye |= head.type == LINK_GOODBYE && !s->wrong && !s->doubtful;
        return;                         /* a control message that makes no sense is dropped */
    }
    right.len = head.len;
    if (memcmp(&head, &right, sizeof head) == 0 && head.len <= LOCI_CONTROL_MAX && head.len != len)
        s->doubtful |= !s->wrong;
    else
        s->wrong |= !s->doubtful;
}

static void compose(struct stream *s, bool it_dials)
{
    unsigned number = 0;

    *s = (struct stream){ .len = 0 };
    /* Nothing comes after a goodbye. */
    for (unsigned n = below(40); n > 0 && !s->goodbye && s->len + 2 * LINK_BYTES < STREAM; n--) {
        switch (below(32)) {
        case 0: add_wrong(s); break;
        case 1: if (!add_question(s, it_dials)) s->wrong |= !s->doubtful; break;
        case 2: add(s, LINK_ALIVE, NULL, 0); break;
        case 3:
            if (below(4) == 0) {
                add(s, LINK_GOODBYE, NULL, 0);
                s->goodbye |= !s->wrong && !s->doubtful;
            }
            break;
        default: add_right(s, &number); break;
        }
    }
}

/* In pieces, as they come over a network. */
static void send_stream(int fd, const struct stream *s)
{
    for (size_t at = 0; at < s->len;) {
        size_t piece = below(3) == 0 ? 1 + below(64) : 1 + below(8192);
        ssize_t n;

        if (piece > s->len - at)
            piece = s->len - at;
        n = send(fd, s->bytes + at, piece, MSG_NOSIGNAL);
        if (n < 0)
            return;             /* it has ended */
        at += (size_t)n;
    }
}

/* The link is made by us; or by the process that we fuzz, whose calls for data we leave alone. */
static int call_it(void)
{
    const uint64_t agreed = TCP_AGREED;
    int fd = tcp_call_by_hand(&m.rt->address);
    struct loci_hello h;

    loci_hello_fill(&h, LOCI_CALL, &it, &m.rt->address);
    cr_assert_eq((size_t)send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
    cr_assert(get(fd, &h, sizeof h));
    cr_assert(loci_hello_is_sound(&h, LOCI_ANSWER, &it));
    cr_assert_eq((size_t)send(fd, &agreed, sizeof agreed, MSG_NOSIGNAL), sizeof agreed);
    return fd;
}

static int be_called(void)
{
    int64_t begin = run_now();
    struct loci_hello h;
    uint64_t agreed;

    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        cr_assert_not(run_too_long(begin, RUN_PATIENCE));
        if (fd < 0) {
            usleep(20);
            continue;
        }
        if (get(fd, &h, sizeof h) && loci_hello_is_sound(&h, LOCI_CALL, &it)) {
            loci_hello_fill(&h, LOCI_ANSWER, &it, &m.rt->address);
            (void)!send(fd, &h, sizeof h, MSG_NOSIGNAL);
            cr_assert(get(fd, &agreed, sizeof agreed));
            cr_assert_eq(agreed, TCP_AGREED);
            return fd;
        }
        drop(fd);               /* of the last one, or for data */
    }
}

static unsigned message_round(struct stream *s)
{
    bool it_dials = below(2) == 0;      /* the one that is by hand */
    int wrong, fd;

    meet(it_dials ? 1 + below(ME - 1) : ME + 1 + below(ME));
    compose(s, it_dials);
    atomic_store(&m.received, 0);
    wrong = atomic_load(&m.wrong_lines);
    fd = it_dials ? call_it() : be_called();
    send_stream(fd, s);
    shutdown(fd, SHUT_WR);
    cr_assert(tcp_await(tcp_is_gone, peer, RUN_PATIENCE));
    if (s->goodbye)
        cr_assert_eq(atomic_load(&peer->state), LOCI_PEER_LEFT);
    cr_assert(tcp_is_closed(fd, RUN_PATIENCE));
    drop(fd);
    if (!s->doubtful) {
        cr_assert_eq(atomic_load(&m.received), s->right);
        cr_assert_eq(atomic_load(&m.wrong_lines) - wrong, s->wrong);
        cr_assert_eq(atomic_load(&m.wrong), 0);
    }
    atomic_store(&m.wrong, 0);
    if (!s->goodbye)
        cr_assert_eq(atomic_load(&peer->state), LOCI_PEER_DEAD);
    let_go();
    return s->right + s->wrong;
}

Test(fuzz_tcp, nothing_that_a_peer_sends_breaks_a_process, .timeout = 3600)
{
    int rounds = run_fuzz_rounds(20000), wrong = 0, links = 0, before;
    static struct stream s;

    tcp_open(&m, ME, NULL);
    listen_by_hand();
    before = descriptors();
    for (int i = 0; i < rounds; links++) {
        i += (int)message_round(&s) + 1;
        wrong += s.wrong;
    }
    cr_expect(tcp_await(none_is_left, &before, RUN_PATIENCE), "%d of %d", descriptors(), before);
    printf("# %d messages over %d links, %d of which ended for a wrong one\n", rounds, links,
           wrong);
    cr_expect_gt(wrong, links / 10);
    cr_expect_lt(wrong, links);
    close(listener);
    tcp_close(&m);
}

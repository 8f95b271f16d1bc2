/* SPDX-License-Identifier: BSD-3-Clause */

/* Where a process listens, and who calls there: strangers come to nothing, whatever they say or do
 * not say, and the process goes on. */

#include "config.h"

#include <sys/resource.h>
#include <sys/time.h>

#include "tcp_world.h"

/* ---- ports ---- */

/* So many ports in a row, probably, that nobody has. */
static unsigned free_ports(unsigned many)
{
    unsigned first = 20000 + (unsigned)getpid() % 2000 * 4;

    for (unsigned i = 0; i < many; i++) {
        struct sockaddr_in a = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)(first + i)),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        };
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        bool taken = bind(fd, (struct sockaddr *)&a, sizeof a) != 0;

        close(fd);
        if (taken) {
            first += i + 1;
            i = (unsigned)-1;
        }
    }
    return first;
}

Test(tcp_ports, of_a_range_one_that_is_free_is_taken, .timeout = 120)
{
    unsigned first = free_ports(2), seen = 0;
    char range[64], line[160];
    const char *settings[] = { range, NULL };
    static struct tcp_member m[3];

    snprintf(range, sizeof range, "LOCO_TCP_PORTS=%u-%u", first, first + 1);
    snprintf(line, sizeof line, "all ports from %u to %u of 127.0.0.1 are in use: LOCO_TCP_PORTS="
             "%u-%u ", first, first + 1, first, first + 1);
    for (int i = 0; i < 2; i++) {
        tcp_open(&m[i], 0x1000, settings);      /* the same identity begins at the same port */
        seen |= 1u << (m[i].rt->address.tcp[0].port - first);
    }
    cr_assert_eq(seen, 3);
    cr_assert_eq(tcp_try_open(&m[2], 0x1000, settings), LOCO_ERR_SYSTEM);
    cr_assert_eq(tcp_logged(&m[2], line), 1, "%s", m[2].lines);
    tcp_close(&m[0]);
    tcp_open(&m[2], 0x1000, settings);
    tcp_close(&m[2]);
    tcp_close(&m[1]);
}

Test(tcp_ports, what_makes_no_sense_is_told, .timeout = 120)
{
    static const char *const wrong[] = {
        "LOCO_TCP_PORTS=1-", "LOCO_TCP_PORTS=9-8", "LOCO_TCP_PORTS=0-8", "LOCO_TCP_PORTS=1-65536",
        "LOCO_TCP_PORTS=8", "LOCO_TCP_PORTS=1-2x", "LOCO_TCP_PORTS= 1-2", "LOCO_TCP_PORTS=-1-2",
    };
    static struct tcp_member m;
    char line[80];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *settings[] = { wrong[i], NULL };

        snprintf(line, sizeof line, "%s: allowed is auto, or FIRST-LAST", wrong[i]);
        cr_expect_eq(tcp_try_open(&m, 1, settings), LOCO_ERR_ARG, "%s", wrong[i]);
        cr_expect_eq(tcp_logged(&m, line), 1, "%s", m.lines);
    }
    cr_expect_eq(tcp_try_open(&m, 1, (const char *[]){ "LOCO_TCP_IF=203.0.113.0/24", NULL }),
                 LOCO_ERR_UNSUPPORTED);
    cr_expect_eq(tcp_logged(&m, "no network interface that is up has an address that LOCO_TCP_IF="
                            "203.0.113.0/24 allows"), 1);
    cr_expect_eq(tcp_try_open(&m, 1, (const char *[]){ "LOCO_TCP_IF=10.0.0.0/99", NULL }),
                 LOCO_ERR_UNSUPPORTED);
    cr_expect_eq(tcp_logged(&m, "LOCO_TCP_IF=10.0.0.0/99: \"10.0.0.0/99\" does not begin"), 1);
}

/* ---- strangers ---- */

/* Who is of the job still comes through: one more link, or the first. */
static void goes_on(struct tcp_member *m, int links)
{
    static struct tcp_member other;
    struct loci_peer *here, *there;

    tcp_open(&other, m->rt->address.identity - 1, NULL);
    here = tcp_meet(m, &other.rt->address);
    there = tcp_meet(&other, &m->rt->address);
    cr_assert(tcp_await_ready(m, links), "%s", m->lines);
    cr_assert(tcp_await_ready(&other, 1), "%s", other.lines);
    cr_assert_not(tcp_is_gone(here));
    cr_assert_not(tcp_is_gone(there));
    tcp_close(&other);
    cr_assert(tcp_await(tcp_is_gone, here, RUN_PATIENCE));
}

/* What a process with that identity says to another, with this secret. */
static struct loci_hello hello(const struct loci_address *to, enum loci_purpose purpose,
                               uint64_t identity, uint64_t secret)
{
    struct loci_address from = { .identity = identity, .label = 7 }, it = *to;
    struct loci_hello h;

    it.secret[0] ^= secret;
    loci_hello_fill(&h, purpose, &from, &it);
    return h;
}

static void say(int fd, const void *bytes, size_t len)
{
    (void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

/* One of the job, with that identity: its link is there. */
static int link_by_hand(struct tcp_member *m, uint64_t identity)
{
    struct loci_address from = m->rt->address;
    const uint64_t agreed = TCP_AGREED;
    struct loci_hello h = hello(&m->rt->address, LOCI_CALL, identity, 0);
    int fd;

    from.identity = identity;
    from.label = h.label;
    tcp_meet(m, &from);
    fd = tcp_call_by_hand(&m->rt->address);
    say(fd, &h, sizeof h);
    cr_assert_eq(recv(fd, &h, sizeof h, MSG_WAITALL), (ssize_t)sizeof h);
    cr_assert(loci_hello_is_sound(&h, LOCI_ANSWER, &from));
    say(fd, &agreed, sizeof agreed);
    cr_assert(tcp_await_ready(m, 1));
    return fd;
}

/* Closed, and without a word. */
static bool is_refused(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK) <= 0 && tcp_is_closed(fd, RUN_PATIENCE);
}

Test(tcp_ports, who_is_not_of_the_job_is_refused_at_once, .timeout = 120)
{
    static struct tcp_member m;
    struct loci_hello h;
    int link;

    tcp_open(&m, 0x1000, NULL);
    link = link_by_hand(&m, 0x800);
    for (int kind = 0; kind < 8; kind++) {
        int fd = tcp_call_by_hand(&m.rt->address);
        int64_t begin = run_now();

        h = hello(&m.rt->address, LOCI_CALL, 0x800, 0);
        switch (kind) {
        case 0: h = hello(&m.rt->address, LOCI_CALL, 0x800, 1); break;      /* another secret */
        case 1: h = hello(&m.rt->address, LOCI_CALL_DATA, 0x800, 1); break;
        case 2: h = hello(&m.rt->address, LOCI_ANSWER, 0x800, 0); break;    /* not for this */
        case 3: h = hello(&m.rt->address, LOCI_CALL, 0x801, 0); h.from--; break;
        case 4: h = hello(&m.rt->address, LOCI_CALL, 0x1800, 0); break;     /* we would call it */
        case 5: memset(&h, 'x', sizeof h); break;
        case 6: h = hello(&m.rt->address, LOCI_CALL_DATA, 0x801, 0); break; /* it has no link */
        default: break;                                                     /* or has one */
        }
        say(fd, &h, sizeof h);
        cr_expect(is_refused(fd), "kind %d", kind);
        cr_expect_lt(run_now() - begin, run_limit(4000000000), "kind %d", kind);
        close(fd);
    }
    cr_assert_eq(atomic_load(&m.f.links->refused.all), 6);
    cr_assert_not(tcp_is_closed(link, 0));
    goes_on(&m, 2);
    close(link);
    tcp_close(&m);
}

Test(tcp_ports, who_says_nothing_has_seconds, .timeout = 120)
{
    static struct tcp_member m;
    int silent, half, late;
    struct loci_hello h;
    int64_t begin;

    tcp_open(&m, 0x1000, NULL);
    begin = run_now();
    silent = tcp_call_by_hand(&m.rt->address);
    half = tcp_call_by_hand(&m.rt->address);
    late = tcp_call_by_hand(&m.rt->address);
    h = hello(&m.rt->address, LOCI_CALL, 0x800, 0);
    say(half, &h, sizeof h / 2);
    /* In pieces it is as good: that one is parked, since nobody has met it. */
    for (size_t i = 0; i < sizeof h; i++) {
        say(late, (const char *)&h + i, 1);
        usleep(1000);
    }
    cr_expect(tcp_is_closed(silent, 10000000000));
    cr_expect_geq(run_now() - begin, 5000000000);
    cr_expect(tcp_is_closed(half, 2000000000));
    cr_expect_not(tcp_is_closed(late, 0));
    goes_on(&m, 1);
    close(silent);
    close(half);
    close(late);
    tcp_close(&m);
}

Test(tcp_ports, of_many_who_say_nothing_the_oldest_go, .timeout = 120)
{
    enum { MANY = 100, KEPT = 64 };
    static struct tcp_member m;
    int fd[MANY], open_still = 0;

    tcp_open(&m, 0x1000, NULL);
    for (int i = 0; i < MANY; i++)
        fd[i] = tcp_call_by_hand(&m.rt->address);
    for (int i = 0; i < MANY - KEPT; i++)
        cr_expect(tcp_is_closed(fd[i], 2000000000), "%d", i);
    for (int i = MANY - KEPT; i < MANY; i++)
        open_still += !tcp_is_closed(fd[i], 0);
    cr_expect_eq(open_still, KEPT);
    goes_on(&m, 1);
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    tcp_close(&m);
}

Test(tcp_ports, many_strangers_are_few_lines, .timeout = 120)
{
    int64_t begin = run_now();
    static struct tcp_member m;
    int many = run_rounds(2000), lines;

    tcp_open(&m, 0x1000, NULL);
    for (int i = 0; i < many; i++) {
        int fd = tcp_call_by_hand(&m.rt->address);

        say(fd, "GET / HTTP/1.0\r\nHost: somewhere\r\n\r\n", 36);
        close(fd);
    }
    goes_on(&m, 1);
    lines = tcp_logged(&m, "a stranger's call is refused");
    cr_expect_geq(lines, 1);
    cr_expect_leq(lines, 2 + (run_now() - begin) / 1000000000);
    tcp_close(&m);
}

/* ---- no descriptors ---- */

static int64_t cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000
           + ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

/* Callers wait, or are refused; nobody spins; and when there are descriptors, all is well. */
Test(tcp_ports, without_descriptors_it_waits, .timeout = 120)
{
    const struct rlimit limit = { 300, 300 };
    static struct tcp_member m;
    int fd[8], taken[4096], n = 0;
    int64_t begin;

    tcp_open(&m, 0x1000, NULL);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (size_t i = 0; i < sizeof fd / sizeof fd[0]; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        cr_assert_geq(fd[i], 0);
    }
    while (n < 4096 && (taken[n] = open("/dev/null", O_RDONLY)) >= 0)
        n++;
    begin = cpu_ns();
    for (size_t i = 0; i < sizeof fd / sizeof fd[0]; i++) {
        struct sockaddr_storage a;
        socklen_t len = loci_tcp_sockaddr(&m.rt->address.tcp[0], &a);

        cr_assert_eq(connect(fd[i], (struct sockaddr *)&a, len), 0);
    }
    cr_expect(tcp_is_closed(fd[0], 5000000000));
    usleep(1500000);
    cr_expect_lt(cpu_ns() - begin, run_limit(700000000), "it spins");
    cr_expect_geq(tcp_logged(&m, "other processes cannot connect to this one: all 300"), 1);
    while (n > 0)
        close(taken[--n]);
    goes_on(&m, 1);
    for (size_t i = 0; i < sizeof fd / sizeof fd[0]; i++)
        close(fd[i]);
    tcp_close(&m);
}

struct pair {
    struct tcp_member low, high;
    int taken[4096], n;
};

/* Two runtimes of a process that may have `soft` descriptors, and has opened them all. */
static struct pair *without_descriptors(rlim_t soft, rlim_t hard)
{
    const struct rlimit limit = { soft, hard };
    static struct pair p;

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    tcp_open(&p.low, 0x1000, NULL);
    tcp_open(&p.high, 0x2000, NULL);
    while (p.n < 4096 && (p.taken[p.n] = open("/dev/null", O_RDONLY)) >= 0)
        p.n++;
    (void)tcp_meet(&p.low, &p.high.rt->address);
    (void)tcp_meet(&p.high, &p.low.rt->address);
    return &p;
}

static void are_connected(struct pair *p)
{
    cr_assert(tcp_await_ready(&p->low, 1), "%s", p->low.lines);
    cr_assert(tcp_await_ready(&p->high, 1), "%s", p->high.lines);
    while (p->n > 0)
        close(p->taken[--p->n]);
    tcp_close(&p->low);
    tcp_close(&p->high);
}

Test(tcp_ports, connections_raise_the_soft_limit, .timeout = 120)
{
    struct pair *p = without_descriptors(300, 1000);
    struct rlimit limit;

    cr_assert(tcp_await_ready(&p->low, 1), "%s", p->low.lines);
    cr_expect_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(limit.rlim_cur, 600);
    cr_expect_eq(limit.rlim_max, 1000);
    cr_expect_eq(tcp_logged(&p->low, "600 descriptors from now on, and not 300")
                 + tcp_logged(&p->high, "600 descriptors from now on, and not 300"), 1);
    are_connected(p);
}

Test(tcp_ports, without_a_descriptor_nobody_is_called, .timeout = 120)
{
    struct pair *p = without_descriptors(300, 300);

    cr_expect(tcp_await_line(&p->low, "no descriptor to connect to other processes with: all 300",
                             1), "%s", p->low.lines);
    for (int i = 0; i < 20; i++)
        close(p->taken[--p->n]);
    are_connected(p);
}

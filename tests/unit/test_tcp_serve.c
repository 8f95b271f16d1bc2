/* SPDX-License-Identifier: BSD-3-Clause */

/* What a process does with what comes over a data connection of the tcp fabric: requests cut
 * anywhere, words that stay whole, refusals by lane, answers that nobody asked for, and random
 * frames, of which none touches what was not shared. The test is the peer, by a pair of sockets; it
 * calls what the service thread calls. FUZZ_ROUNDS says how many frames are random. */

#include "config.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/tcp/serve.h"
#include "fabric/tcp/touch.h"
#include "fabric/tcp/tcp.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "run.h"

#define AREA ((size_t)4096)             /* shared, between two guards of this size */
#define GUARD 0xa5

struct peer {
    loco_runtime_t *rt;
    struct tcp_fabric f;                /* the runtime's shm, and nothing that runs */
    struct tcp_peer its;
    struct tcp_conn c;
    struct tcp_request *pending[TCP_OWED];
    int fd;                             /* the peer's end */
    unsigned char *guarded;
    struct loci_mem user, pool;
};

/* ---- life ---- */

static int alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static void connect_anew(struct peer *p)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &p->c };
    int pair[2];

    if (p->fd >= 0)
        close(p->fd);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    p->fd = pair[0];
    p->c.fd = pair[1];
    p->f.nready = 1;
    atomic_store(&p->c.state, TCP_CONN_READY);
    p->c.left = p->c.nrest = 0;
    p->c.owed_from = p->c.owed_to = 0;
    if (p->c.deferred != NULL)
        memset(p->c.deferred, 0, TCP_LANES * sizeof p->c.deferred[0]);
    cr_assert_eq(epoll_ctl(p->f.epoll_fd, EPOLL_CTL_ADD, pair[1], &event), 0);
}

/* What a channel would do to words that merge. */
#define ADDS_TWICE 7
static bool merge_words(uint32_t how, void *words, const void *operands, size_t n)
{
    uint64_t *to = words, operand;

    for (size_t i = 0; i < n && how == ADDS_TWICE; i++) {
        memcpy(&operand, (const unsigned char *)operands + 8 * i, 8);
        to[i] += 2 * operand;
    }
    return how == ADDS_TWICE;
}

static void open_peer(struct peer *p)
{
    const struct loco_bootstrap boot = {
        .exchange = { NULL, 0, 1, alone }, .identity = 77, .log = run_log,
    };

    memset(p, 0, sizeof *p);
    setenv("LOCO_FABRIC", "shm", 1);
    cr_assert_eq(loco_runtime_open(&boot, &p->rt), LOCO_OK);
    atomic_store(&p->rt->merge, merge_words);
    p->f.rt = p->rt;
    p->f.shm = (struct shm_fabric *)p->rt->fabric;
    p->f.epoll_fd = epoll_create1(0);
    p->f.timer_fd = -1;
    atomic_store(&p->f.ticking, true);  /* there is no service thread that would */
    p->f.in = malloc(TCP_REST + TCP_IN_BYTES);
    p->f.gathered = calloc(1, sizeof *p->f.gathered);
    pthread_mutex_init(&p->f.serving, NULL);
    pthread_mutex_init(&p->f.lock, NULL);
    p->its.fabric = &p->f;
    p->its.peer = loci_peer(p->rt, LOCI_SELF);
    p->c.fabric = &p->f;
    p->c.peer = &p->its;
    p->c.owed = malloc(TCP_OWED * sizeof *p->c.owed);
    p->c.items = malloc(TCP_ITEMS * sizeof *p->c.items);
    p->c.pending = p->pending;
    cr_assert(loci_tcp_bytes_open(&p->c.requests, 1 << 16)
              && loci_tcp_bytes_open(&p->c.answers, 1 << 16));
    pthread_mutex_init(&p->c.lock, NULL);
    p->fd = -1;
    connect_anew(p);
    p->guarded = mmap(NULL, 3 * AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(p->guarded, MAP_FAILED);
    memset(p->guarded, GUARD, 3 * AREA);
    cr_assert_eq(loci_user_add(p->rt, p->guarded + AREA, AREA, &p->user), LOCO_OK);
    cr_assert_eq(loci_alloc(p->rt, AREA, 0, &p->pool), LOCO_OK);
}

static void close_peer(struct peer *p)
{
    for (size_t i = 0; i < AREA; i++)
        cr_assert(p->guarded[i] == GUARD && p->guarded[2 * AREA + i] == GUARD);
    loci_user_remove(p->rt, &p->user);
    loci_free(p->rt, &p->pool);
    munmap(p->guarded, 3 * AREA);
    close(p->fd);
    if (p->c.fd >= 0)
        close(p->c.fd);
    close(p->f.epoll_fd);
    free(p->f.in);
    free(p->f.gathered);
    free(p->c.owed);
    free(p->c.items);
    free(p->c.deferred);
    loci_tcp_bytes_close(&p->c.requests);
    loci_tcp_bytes_close(&p->c.answers);
    loco_runtime_close(p->rt);
}

/* ---- frames ---- */

static struct tcp_frame frame_to(const struct loci_mem *mem, enum tcp_op op, uint64_t offset,
                                 size_t len)
{
    return (struct tcp_frame){
        .op = (uint8_t)op, .kind = (uint8_t)mem->key.kind, .len = (uint32_t)len,
        .extent = mem->key.extent, .at = mem->key.base + offset,
    };
}

static void serve(struct peer *p)
{
    pthread_mutex_lock(&p->f.serving);
    while (loci_tcp_receive(&p->c))
        ;
    pthread_mutex_unlock(&p->f.serving);
}

static void say(struct peer *p, const void *bytes, size_t len)
{
    cr_assert_eq(send(p->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* The next answer; its data go to `data`, which has room. */
static struct tcp_frame hear(struct peer *p, void *data)
{
    struct tcp_frame frame;

    cr_assert_eq(recv(p->fd, &frame, sizeof frame, 0), (ssize_t)sizeof frame);
    if (frame.len > 0)
        cr_assert_eq(recv(p->fd, data, frame.len, MSG_WAITALL), (ssize_t)frame.len);
    return frame;
}

static int status_of(const struct tcp_frame *frame)
{
    return (int)(int64_t)frame->at;
}

/* ---- cut anywhere ---- */

#define STORY_REQUESTS 8
#define STORY_MERGED 5          /* words, from 2048 on; and one before */
#define STORY_ANSWERED (4 * sizeof(struct tcp_frame) + 800)     /* bytes */

/* All kinds of requests, one behind the other; *len is how long. */
static unsigned char *story(struct peer *p, const struct loci_mem *mem, size_t *len)
{
    unsigned char *bytes = malloc(4096), *at = bytes;
    struct tcp_frame f = frame_to(mem, TCP_WRITE, 13, 777);

    (void)p;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    for (size_t i = 0; i < 777; i++)
        *at++ = (unsigned char)(i * 7 + 1);
    f = frame_to(mem, TCP_WORDS, 1024, 8);
    f.a = 40;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    f = frame_to(mem, TCP_ADD, 1024, 8);
    f.a = 2;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    f = frame_to(mem, TCP_MERGE, 2048, 8 * STORY_MERGED);
    f.a = ADDS_TWICE;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    for (uint64_t i = 0; i < STORY_MERGED; i++, at += 8)
        memcpy(at, &(uint64_t){ i + 1 }, 8);
    f = frame_to(mem, TCP_MERGE_WORD, 2048, 8);
    f.a = ADDS_TWICE;
    f.b = 1000;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    f = frame_to(mem, TCP_SWAP, 1024, 8);
    f.a = 99;
    f.b = 42;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    f = frame_to(mem, TCP_READ, 11, 0);
    f.a = 800;
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    f = (struct tcp_frame){ .op = TCP_PLACE };
    memcpy(at, &f, sizeof f);
    at += sizeof f;
    *len = (size_t)(at - bytes);
    return bytes;
}

static void check_story(struct peer *p, const unsigned char *memory)
{
    unsigned char back[1024];
    struct tcp_frame f;
    uint64_t word;

    for (size_t i = 0; i < 777; i++)
        cr_assert_eq(memory[13 + i], (unsigned char)(i * 7 + 1));
    memcpy(&word, memory + 1024, 8);
    cr_assert_eq(word, 99);
    for (uint64_t i = 0; i < STORY_MERGED; i++) {
        memcpy(&word, memory + 2048 + 8 * i, 8);
        cr_assert_eq(word, 2 * (i + 1) + (i == 0 ? 2000 : 0));
    }
    f = hear(p, back);
    cr_assert(f.op == TCP_ANSWER && status_of(&f) == LOCO_OK && f.a == 40);
    f = hear(p, back);
    cr_assert(f.op == TCP_ANSWER && status_of(&f) == LOCO_OK && f.a == 42);
    f = hear(p, back);
    cr_assert(f.op == TCP_ANSWER && status_of(&f) == LOCO_OK && f.len == 800);
    cr_assert_eq(memcmp(back, memory + 11, 800), 0);
    f = hear(p, back);
    cr_assert(f.op == TCP_ANSWER && status_of(&f) == LOCO_OK && f.len == 0);
}

static uint64_t counted(const struct peer *p, enum loci_stats_tcp which)
{
    return loci_stats_get(p->rt->stats, LOCI_STAT_TCP + (int)which);
}

/* How many stories, and their bytes. */
struct told {
    uint64_t stories, bytes;
};

/* Requests count once, however they were cut. */
static void check_counts(const struct peer *p, const struct told *told)
{
    cr_assert_eq(counted(p, LOCI_STATS_TCP_SERVED), told->stories * STORY_REQUESTS);
    cr_assert_eq(counted(p, LOCI_STATS_TCP_BYTES_IN), told->bytes);
    cr_assert_eq(counted(p, LOCI_STATS_TCP_BYTES_OUT), told->stories * STORY_ANSWERED);
}

static void cut_everywhere(struct peer *p, const struct loci_mem *mem, unsigned char *memory,
                           struct told *told)
{
    size_t len;
    unsigned char *bytes = story(p, mem, &len);
    uint64_t random = 5;

    for (size_t cut = 1; cut < len; cut += 3) {
        memset(memory, 0, AREA);
        say(p, bytes, cut);
        serve(p);
        say(p, bytes + cut, len - cut);
        serve(p);
        check_story(p, memory);
        told->stories++;
        told->bytes += len;
    }
    for (int round = 0; round < run_rounds(200); round++) {
        memset(memory, 0, AREA);
        for (size_t at = 0, n; at < len; at += n) {
            n = 1 + (size_t)(run_random(&random) % 40);
            n = n < len - at ? n : len - at;
            say(p, bytes + at, n);
            serve(p);
        }
        check_story(p, memory);
        told->stories++;
        told->bytes += len;
    }
    free(bytes);
}

Test(tcp_serve, requests_may_be_cut_anywhere)
{
    struct told told = { 0, 0 };
    struct peer p;

    open_peer(&p);
    cut_everywhere(&p, &p.user, p.guarded + AREA, &told);
    cut_everywhere(&p, &p.pool, loci_mem_ptr(&p.pool), &told);
    check_counts(&p, &told);
    close_peer(&p);
}

/* Byte by byte, from an odd place: each word of the memory is the old one or the new one. */
Test(tcp_serve, words_are_never_torn)
{
    struct tcp_frame f;
    uint64_t *words;
    struct peer p;

    open_peer(&p);
    words = (uint64_t *)(void *)loci_mem_ptr(&p.pool);
    for (uint64_t round = 1; round < 100; round++) {
        const unsigned char byte = (unsigned char)round;
        uint64_t old = 0, new = round * UINT64_C(0x0101010101010101);

        f = frame_to(&p.pool, TCP_WRITE, 5, 67);
        old = words[1];
        say(&p, &f, sizeof f);
        for (size_t i = 0; i < 67; i++) {
            say(&p, &byte, 1);
            serve(&p);
            for (size_t at = 1; at < 9; at++)
                cr_assert(words[at] == old || words[at] == new, "word %zu is %llx", at,
                          (unsigned long long)words[at]);
        }
        cr_assert_eq(words[8], new);
    }
    close_peer(&p);
}

/* Longer than a piece, and than the room for answers. */
Test(tcp_serve, long_reads_come_in_pieces)
{
    const size_t len = 300000;
    unsigned char *back = malloc(len);
    struct loci_mem mem = { .key.kind = LOCI_MEM_NONE };
    struct tcp_frame f = { .op = TCP_PART };
    struct peer p;
    size_t got = 0;

    open_peer(&p);
    cr_assert_eq(loci_alloc(p.rt, len + 8, 0, &mem), LOCO_OK);
    for (size_t i = 0; i < len + 8; i++)
        loci_mem_ptr(&mem)[i] = (unsigned char)(i * 31 + i / 4099);
    f = frame_to(&mem, TCP_READ, 3, 0);
    f.a = len;
    say(&p, &f, sizeof f);
    f.op = TCP_PART;
    fcntl(p.fd, F_SETFL, 0);
    while (f.op == TCP_PART) {
        serve(&p);
        f = hear(&p, back + got);
        got += f.len;
        cr_assert(got <= len);
    }
    cr_assert(f.op == TCP_ANSWER && status_of(&f) == LOCO_OK);
    cr_assert_eq(got, len);
    cr_assert_eq(memcmp(back, loci_mem_ptr(&mem) + 3, len), 0);
    free(back);
    loci_free(p.rt, &mem);
    close_peer(&p);
}

/* To an odd address: each piece but the last ends with a word there, or its last word would land in
 * two parts. */
Test(tcp_serve, long_writes_are_cut_between_words)
{
    const size_t len = 700001;
    unsigned char *source = malloc(len), *back = malloc(len);
    struct tcp_request request = { .kind = LOCI_WRITE };
    struct tcp_frame f;
    struct peer p;
    size_t got = 0;

    open_peer(&p);
    for (size_t i = 0; i < len; i++)
        source[i] = (unsigned char)(i * 31 + i / 4099);
    f = frame_to(&p.pool, TCP_WRITE, 3, 0);
    loci_tcp_queue_long(&p.c, &f, source, len, &request);
    fcntl(p.fd, F_SETFL, 0);
    while (got < len) {
        cr_assert_eq(loci_tcp_pump(&p.c), LOCO_OK);
        cr_assert_eq(recv(p.fd, &f, sizeof f, MSG_WAITALL), (ssize_t)sizeof f);
        cr_assert(f.op == TCP_WRITE && f.at == p.pool.key.base + 3 + got && f.len <= len - got);
        for (size_t at = 0; at < f.len;) {
            ssize_t n = recv(p.fd, back + got + at, f.len - at, 0);

            cr_assert(n > 0);
            at += (size_t)n;
            cr_assert_eq(loci_tcp_pump(&p.c), LOCO_OK);
        }
        got += f.len;
        cr_assert(got == len || (f.at + f.len) % 8 == 0);
    }
    cr_assert(atomic_load(&request.done) && request.status == LOCO_OK);
    cr_assert_eq(memcmp(source, back, len), 0);
    free(source);
    free(back);
    close_peer(&p);
}

/* How often who sleeps by that bell is rung for what this frame does. */
static uint32_t rings_for(struct peer *p, enum loci_bell_kind kind, struct tcp_frame f)
{
    struct loci_bell *bell = &p->rt->bells->bell[kind];
    uint32_t before = atomic_load(&bell->rings);

    atomic_store(&bell->asleep, 1);
    say(p, &f, sizeof f);
    serve(p);
    loci_tcp_tell_sleepers(&p->f);
    atomic_store(&bell->asleep, 0);
    return atomic_load(&bell->rings) - before;
}

/* By what changes this process's memory, and by answers; not by what asks. */
Test(tcp_serve, who_sleeps_is_rung)
{
    struct tcp_request request = { .kind = LOCI_PLACE };
    unsigned char back[64];
    struct tcp_frame f;
    struct peer p;

    open_peer(&p);
    cr_assert_eq(rings_for(&p, LOCI_BELL_WINDOW, frame_to(&p.pool, TCP_WORDS, 0, 8)), 1);
    cr_assert_eq(rings_for(&p, LOCI_BELL_SST, frame_to(&p.pool, TCP_ADD, 0, 8)), 1);
    f = frame_to(&p.pool, TCP_READ, 0, 0);
    f.a = 8;
    cr_assert_eq(rings_for(&p, LOCI_BELL_SST, f), 0);
    (void)hear(&p, back);
    (void)hear(&p, back);
    p.pending[0] = &request;
    atomic_store(&p.c.pending_to, 1);
    cr_assert_eq(rings_for(&p, LOCI_BELL_ACK, (struct tcp_frame){ .op = TCP_ANSWER }), 1);
    cr_assert(atomic_load(&request.done) && request.status == LOCO_OK);
    close_peer(&p);
}

static bool goes_on(struct peer *p, uint64_t offset, unsigned lane, const char *data)
{
    struct tcp_frame f = frame_to(&p->pool, TCP_WRITE, offset, strlen(data));

    f.lane = (uint16_t)lane;
    return loci_tcp_extend(&p->c, &f, data, strlen(data));
}

/* Writes one behind the other are one frame, unless it may be on its way already, or another lane's
 * comes next. */
Test(tcp_serve, adjoining_writes_travel_together)
{
    char data[64] = "";
    struct tcp_frame f;
    struct peer p;

    open_peer(&p);
    f = frame_to(&p.pool, TCP_WORDS, 3, 8);
    f.lane = 4;
    memcpy(&f.a, "abcdefgh", 8);
    cr_assert(!goes_on(&p, 3, 4, "x"));         /* there is none yet */
    loci_tcp_queue(&p.c, &f, NULL, 0);
    cr_assert(goes_on(&p, 11, 4, "ijkl"));
    cr_assert(!goes_on(&p, 15, 5, "x"));
    cr_assert(!goes_on(&p, 16, 4, "x"));
    cr_assert(!goes_on(&p, 14, 4, "x"));
    cr_assert(goes_on(&p, 15, 4, "mnopqrstuvwxyz"));    /* more than the frame itself holds */
    cr_assert(goes_on(&p, 29, 4, "!"));
    cr_assert_eq(loci_tcp_pump(&p.c), LOCO_OK);
    cr_assert(!goes_on(&p, 30, 4, "x"));
    f = hear(&p, data);
    cr_assert(f.op == TCP_WRITE && f.len == 27 && f.at == p.pool.key.base + 3);
    cr_assert_eq(strcmp(data, "abcdefghijklmnopqrstuvwxyz!"), 0);
    close_peer(&p);
}

/* ---- refusals ---- */

static struct tcp_frame ask(struct peer *p, unsigned lane, struct tcp_frame f)
{
    unsigned char back[64];

    f.lane = (uint16_t)lane;
    say(p, &f, sizeof f);
    serve(p);
    return hear(p, back);
}

/* Both come at once: what is read is what was there before the atomic. */
Test(tcp_serve, atomics_come_behind_reads)
{
    struct tcp_frame f[3];
    uint64_t word = ~UINT64_C(0);
    struct peer p;

    open_peer(&p);
    f[0] = f[2] = frame_to(&p.pool, TCP_READ, 64, 0);
    f[0].a = f[2].a = 8;
    f[1] = frame_to(&p.pool, TCP_ADD, 64, 8);
    f[1].a = 5;
    for (uint64_t round = 0; round < 20; round++) {
        say(&p, f, sizeof f);
        serve(&p);
        hear(&p, &word);
        cr_assert_eq(word, 5 * round);
        cr_assert_eq(hear(&p, NULL).a, 5 * round);
        hear(&p, &word);
        cr_assert_eq(word, 5 * round + 5);
    }
    close_peer(&p);
}

/* Short reads behind a long one come in its order; an atomic there is the peer's mistake, since
 * what it does would be in what is read. */
Test(tcp_serve, reads_behind_a_long_one_wait_for_it)
{
    struct tcp_frame f[2], add;
    struct loci_mem mem = { .key.kind = LOCI_MEM_NONE };
    struct peer p;

    open_peer(&p);
    cr_assert_eq(loci_alloc(p.rt, 2 * TCP_SHORT, 0, &mem), LOCO_OK);
    f[0] = frame_to(&mem, TCP_READ, 0, 0);
    f[0].a = TCP_SHORT + 8;
    f[1] = frame_to(&mem, TCP_READ, 0, 0);
    f[1].a = 8;
    pthread_mutex_lock(&p.f.shm->lock);
    cr_assert_eq(loci_tcp_serve(&p.c, &f[0]), LOCO_OK);
    cr_assert_eq(loci_tcp_serve(&p.c, &f[1]), LOCO_OK);
    add = frame_to(&mem, TCP_ADD, 0, 8);
    add.lane = 1;
    cr_assert_eq(loci_tcp_serve(&p.c, &add), LOCO_OK);      /* of another lane */
    add.lane = 0;
    cr_assert_eq(loci_tcp_serve(&p.c, &add), LOCO_ERR_PROTOCOL);
    pthread_mutex_unlock(&p.f.shm->lock);
    cr_assert(!p.c.owed[0].copied && !p.c.owed[1].copied);
    loci_tcp_forget_owed(&p.c);
    cr_assert_eq(p.c.deferred[0], 0);
    loci_free(p.rt, &mem);
    close_peer(&p);
}

static void refuses_merge(struct peer *p, unsigned lane, uint64_t at, uint32_t how, size_t n)
{
    const struct tcp_frame place = { .op = TCP_PLACE };
    struct tcp_frame f = frame_to(&p->user, TCP_MERGE, at, 8 * n);
    const uint64_t words[2] = { 1, 2 };

    f.lane = (uint16_t)lane;
    f.a = how;
    say(p, &f, sizeof f);
    say(p, words, 8 * n);
    f = ask(p, lane, place);
    cr_assert(status_of(&f) == LOCO_ERR_RANGE && f.b == 1);
}

Test(tcp_serve, what_is_refused_stops_its_lane_alone)
{
    const struct tcp_frame place = { .op = TCP_PLACE }, reset = { .op = TCP_RESET, .lane = 3 };
    struct tcp_frame f, wrong;
    struct peer p;

    open_peer(&p);
    wrong = frame_to(&p.user, TCP_WORDS, AREA - 4, 8);
    wrong.lane = 3;
    say(&p, &wrong, sizeof wrong);
    f = ask(&p, 3, place);
    cr_assert(status_of(&f) == LOCO_ERR_RANGE && f.b == 1);
    f = frame_to(&p.user, TCP_ADD, 0, 8);
    f = ask(&p, 3, f);
    cr_assert(status_of(&f) == LOCO_ERR_RANGE && f.b == 1);
    wrong.at = p.user.key.base;
    say(&p, &wrong, sizeof wrong);      /* right by itself, but behind it */
    f = ask(&p, 4, place);
    cr_assert(status_of(&f) == LOCO_OK && f.b == 0);
    cr_assert_eq(p.guarded[AREA], GUARD);
    say(&p, &reset, sizeof reset);
    f = ask(&p, 3, place);
    cr_assert_eq(status_of(&f), LOCO_OK);
    /* The request itself, not one before it. */
    f = frame_to(&p.user, TCP_ADD, AREA, 8);
    f = ask(&p, 3, f);
    cr_assert(status_of(&f) == LOCO_ERR_RANGE && f.b == 0);
    /* The old number of memory that is gone. */
    f = frame_to(&p.pool, TCP_ADD, 0, 8);
    f.extent += 1000;
    f = ask(&p, 5, f);
    cr_assert_eq(status_of(&f), LOCO_ERR_RANGE);
    f = frame_to(&p.user, TCP_ADD, 4, 8);
    f = ask(&p, 6, f);
    cr_assert_eq(status_of(&f), LOCO_ERR_RANGE);
    /* Words of which one is not shared, and what no channel knows. */
    refuses_merge(&p, 7, AREA - 8, ADDS_TWICE, 2);
    refuses_merge(&p, 8, 0, ADDS_TWICE + 1, 1);
    cr_assert(p.guarded[AREA] == GUARD && p.guarded[2 * AREA - 8] == GUARD);
    close_peer(&p);
}

/* Its page may not be written: the peer is told, and this process lives. */
Test(tcp_serve, memory_that_may_not_be_written_is_a_status)
{
    const struct tcp_frame place = { .op = TCP_PLACE };
    struct tcp_frame f, words;
    struct peer p;

    open_peer(&p);
    words = frame_to(&p.user, TCP_WORDS, 0, 8);
    cr_assert_eq(mprotect(p.guarded + AREA, AREA, PROT_READ), 0);
    f = ask(&p, 1, frame_to(&p.user, TCP_ADD, 0, 8));
    cr_assert_eq(status_of(&f), LOCO_ERR_RANGE);
    words.lane = 2;
    say(&p, &words, sizeof words);
    f = ask(&p, 2, place);
    cr_assert_eq(status_of(&f), LOCO_ERR_RANGE);
    refuses_merge(&p, 3, 0, ADDS_TWICE, 1);
    close_peer(&p);
}

/* ---- what makes no sense ---- */

static void ends_the_connection(struct peer *p, const struct tcp_frame *f)
{
    say(p, f, sizeof *f);
    serve(p);
    cr_assert_eq(p->c.fd, -1, "op %u is taken", f->op);
    connect_anew(p);
}

Test(tcp_serve, what_makes_no_sense_ends_the_connection)
{
    struct tcp_frame f;
    struct peer p;

    open_peer(&p);
    f = (struct tcp_frame){ .op = 0 };
    ends_the_connection(&p, &f);
    f = (struct tcp_frame){ .op = TCP_PLACE, .lane = TCP_LANES };
    ends_the_connection(&p, &f);
    f = frame_to(&p.user, TCP_WRITE, 0, TCP_PIECE + 1);
    ends_the_connection(&p, &f);
    f = frame_to(&p.user, TCP_WORDS, 0, TCP_WORDS_MOST + 1);
    ends_the_connection(&p, &f);
    for (size_t len = 1; len < 24; len += 3) {  /* odd bytes; more than one word in the frame */
        f = frame_to(&p.user, len < 12 ? TCP_MERGE : TCP_MERGE_WORD, 0, len);
        f.a = ADDS_TWICE;
        ends_the_connection(&p, &f);
    }
    f = frame_to(&p.user, TCP_MERGE, 0, 8 * (LOCI_MERGE_WORDS + 1));
    f.a = ADDS_TWICE;
    ends_the_connection(&p, &f);
    f = frame_to(&p.user, TCP_MERGE, 4, 8);
    f.a = ADDS_TWICE;
    ends_the_connection(&p, &f);
    f = frame_to(&p.user, TCP_MERGE_WORD, 0, 8);
    ends_the_connection(&p, &f);        /* it says not how */
    f = (struct tcp_frame){ .op = TCP_ANSWER };
    ends_the_connection(&p, &f);        /* nobody has asked */
    f = (struct tcp_frame){ .op = TCP_ANSWER, .len = 8 };
    ends_the_connection(&p, &f);
    close_peer(&p);
}

/* More than it may ask for at once. */
Test(tcp_serve, who_asks_for_too_much_is_cut_off)
{
    const struct tcp_frame place = { .op = TCP_PLACE };
    struct tcp_frame f;
    struct peer p;

    open_peer(&p);
    f = frame_to(&p.pool, TCP_READ, 0, 0);
    f.a = UINT64_C(1) << 40;
    say(&p, &f, sizeof f);
    serve(&p);
    for (int i = 0; i < 4 * TCP_OWED && p.c.fd >= 0; i++) {
        if (send(p.fd, &place, sizeof place, MSG_NOSIGNAL) < 0)
            break;
        serve(&p);
    }
    cr_assert_eq(p.c.fd, -1);
    close_peer(&p);
}

/* ---- random ---- */

static uint64_t some(uint64_t *random, uint64_t n)
{
    return run_random(random) % n;
}

static bool is_merge(const struct tcp_frame *f)
{
    return f->op == TCP_MERGE || f->op == TCP_MERGE_WORD;
}

/* Most of it right; only user memory is named, since a peer may write in all of an extent. */
static struct tcp_frame random_frame(struct peer *p, uint64_t *random)
{
    struct tcp_frame f = frame_to(&p->user, (enum tcp_op)(1 + some(random, TCP_PART)), 0, 0);

    f.lane = (uint16_t)some(random, TCP_LANES + 2);
    f.at = p->user.key.base - 64 + some(random, AREA + 128);
    f.len = (uint32_t)some(random, f.op == TCP_WRITE ? 200 : 24);
    if (f.op == TCP_ADD || f.op == TCP_SWAP)
        f.len = 8;
    f.a = f.op == TCP_READ ? some(random, 2 * AREA) : run_random(random);
    if (is_merge(&f) && some(random, 8) != 0) {
        f.at &= ~UINT64_C(7);
        f.len = f.op == TCP_MERGE ? 8 * (uint32_t)some(random, 20) : 8;
        f.a = ADDS_TWICE + some(random, 2);
    }
    f.b = run_random(random);
    switch (some(random, 40)) {
    case 0: f.at = run_random(random); break;
    case 1: f.extent = run_random(random); break;
    case 2: f.len = (uint32_t)run_random(random); break;
    case 3: f.kind = (uint8_t)(some(random, 8) == LOCI_MEM_POOL ? 7 : some(random, 8)); break;
    case 4: f.op = (uint8_t)run_random(random); break;
    case 5: f.at = UINT64_MAX - some(random, 64); break;
    default: break;
    }
    if (f.kind == LOCI_MEM_POOL)
        f.kind = LOCI_MEM_DEVICE;
    return f;
}

Test(tcp_serve, random_frames_touch_nothing_else, .timeout = RUN_SECONDS)
{
    unsigned char data[65536];
    uint64_t random = 20261129;
    int rounds = run_fuzz_rounds(60000), ended = 0;
    struct peer p;

    open_peer(&p);
    for (int i = 0; i < rounds; i++) {
        struct tcp_frame f = random_frame(&p, &random);
        size_t len = f.op == TCP_MERGE && some(&random, 4) != 0 ? f.len % 256
                     : f.op == TCP_WRITE || f.op >= TCP_ANSWER ? (size_t)some(&random, 256) : 0;

        for (size_t at = 0; at < len; at += 8)
            memcpy(data + at, &(uint64_t){ run_random(&random) }, 8);
        if (send(p.fd, &f, sizeof f, MSG_NOSIGNAL) > 0 && len > 0)
            (void)!send(p.fd, data, len, MSG_NOSIGNAL);
        serve(&p);
        while (recv(p.fd, data, sizeof data, 0) > 0)
            ;
        if (p.c.fd < 0) {
            ended++;
            connect_anew(&p);
        }
    }
    printf("# %d of %d ended the connection\n", ended, rounds);
    cr_assert(ended > 0 && ended < rounds);
    close_peer(&p);
}

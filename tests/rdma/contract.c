/* SPDX-License-Identifier: BSD-3-Clause */

/* What fabric.h promises, tried between forked processes over whatever fabric the environment says
 * (LOCO_FABRIC, LOCO_DEVICE): over shared memory in every `make check`, over RDMA in the test
 * machine. Speaks TAP.
 *
 * Rounds are fewer by TEST_SCALE of the environment.
 *
 *   contract [PROCESSES [CASE]]      2, and all cases but these:
 *       unfenced     what a missing fence does on a network that loses packets
 *       unnamed      a long write that the device refuses without a word (tests/rdma/takes_few.c)
 *       strangers    what goes on while a peer's address is not found (tests/rdma/late_address.c)
 *       held_up      passes if the network is cut for less than the device tries again
 *       cut_off      passes if it is cut for good, and everybody is told */

#include "config.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wait.h"
#include "world.h"

/* More than soft-RoCE's longest message, unless the wire is slow. */
#define LARGE ((size_t)run_rounds(20 << 20))
#define LIMIT 300                   /* seconds for a case, in emulation */

/* ---- writes and reads ---- */

static const size_t sizes[] = { 1, 3, 8, 64, 65, 220, 221, 512, 513, 4096, 16384, 16385, 40000 };

/* To the next member, and back, at odd addresses on both sides. */
static int move(struct world *w, struct loci_mem *to, unsigned char *theirs)
{
    size_t n = sizeof sizes / sizeof sizes[0];
    unsigned char *mine = malloc(LEN), *back = malloc(LEN);
    int next = next_of(w), before = (w->m->rank + w->m->n - 1) % w->m->n;

    CHECK(mine != NULL && back != NULL);
    for (size_t i = 0; i < n; i++) {
        size_t at = i % 3, len = sizes[i];

        for (size_t j = 0; j < len; j++)
            mine[j] = pattern(j + i, w->m->rank);
        CHECK_OK(loci_write(w->rt, &to[next], at, mine, len, NULL));
        memset(mine, 0xee, len);        /* a write that is complete needs its source no more */
        CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_PAIR, to[next].peer));
        CHECK_OK(together(w));
        for (size_t j = 0; j < len; j++)
            CHECK_EQ(theirs[at + j], pattern(j + i, before));
        memset(back, 0, len);
        CHECK_OK(loci_read(w->rt, &to[next], at, back, len, NULL));
        for (size_t j = 0; j < len; j++)
            CHECK_EQ(back[j], pattern(j + i, w->m->rank));
        CHECK_OK(together(w));
    }
    free(mine);
    free(back);
    return 0;
}

static int moves(struct member *m)
{
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    CHECK(move(&w, w.pools, loci_mem_ptr(&w.pool)) == 0);
    CHECK(move(&w, w.users, loci_mem_ptr(&w.user)) == 0);
    return leave(&w);
}

static int large(struct member *m)
{
    const size_t len = LARGE;
    unsigned char *mine = malloc(len);
    struct world w;
    int before = (m->rank + m->n - 1) % m->n;
    unsigned char *theirs;

    CHECK(enter(&w, m, len) == 0);
    CHECK(mine != NULL);
    theirs = loci_mem_ptr(&w.user);
    for (size_t i = 0; i < len; i++)
        mine[i] = pattern(i, m->rank);
    CHECK_OK(loci_write(w.rt, &w.users[next_of(&w)], 0, mine, len, NULL));
    CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_THREAD, -1));
    CHECK_OK(together(&w));
    for (size_t i = 0; i < len; i++)
        if (theirs[i] != pattern(i, before))
            CHECK_EQ(i, -1);
    memset(mine, 0, len);
    CHECK_OK(loci_read(w.rt, &w.users[next_of(&w)], 0, mine, len, NULL));
    for (size_t i = 0; i < len; i++)
        if (mine[i] != pattern(i, m->rank))
            CHECK_EQ(i, -1);
    free(mine);
    return leave(&w);
}

/* ---- room: far more in flight than there is room for ---- */

#define MANY 3000

static int flood(struct member *m)
{
    static uint64_t values[MANY];
    static unsigned char block[4096];
    struct world w;
    loco_ack_t ack = LOCO_ACK_INIT;
    const uint64_t many = (uint64_t)run_rounds(MANY);
    int next, before;

    CHECK(enter(&w, m, LEN + sizeof values) == 0);
    next = next_of(&w);
    before = (m->rank + m->n - 1) % m->n;
    for (uint64_t i = 0; i < many; i++) {
        CHECK_OK(loci_write64(w.rt, &w.pools[next], i * 8, i << 8 | (uint64_t)m->rank, &ack));
        if (i % 8 == 0) {
            memset(block, (int)i, sizeof block);
            CHECK_OK(loci_write(w.rt, &w.users[next], i / 8 % 16 * sizeof block, block,
                                sizeof block, NULL));
        }
    }
    CHECK_OK(loco_ack_wait(w.rt, &ack));
    CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_PROCESS, -1));
    CHECK_OK(together(&w));
    for (uint64_t i = 0; i < many; i++)
        CHECK_EQ(loci_load64(loci_mem_ptr(&w.pool) + i * 8), i << 8 | (uint64_t)before);
    ack = (loco_ack_t)LOCO_ACK_INIT;
    for (uint64_t i = 0; i < many; i++)
        CHECK_OK(loci_read64(w.rt, &w.pools[next], i * 8, &values[i], &ack));
    CHECK_OK(loco_ack_wait(w.rt, &ack));
    for (uint64_t i = 0; i < many; i++)
        CHECK_EQ(values[i], i << 8 | (uint64_t)m->rank);
    return leave(&w);
}

/* ---- atomics: everybody on one word, its owner too ---- */

#define ADDS run_rounds(400)

static int atomics(struct member *m)
{
    struct world w;
    uint64_t old, last = 0;

    CHECK(enter(&w, m, LEN) == 0);
    for (int i = 0; i < ADDS; i++) {
        CHECK_OK(loci_fetch_add(w.rt, &w.pools[0], 64, 1, &old, NULL));
        CHECK(i == 0 || old > last);
        last = old;
        /* The upper half of another word, by compare and swap. */
        CHECK_OK(loci_read64(w.rt, &w.pools[0], 128, &old, NULL));
        for (uint64_t seen = ~old; seen != old;) {
            uint64_t guess = seen == ~old ? old : seen;

            CHECK_OK(loci_compare_swap(w.rt, &w.pools[0], 128, guess, guess + (1ull << 32), &old,
                                       NULL));
            if (old == guess)
                break;
            seen = ~old;
        }
    }
    CHECK_OK(together(&w));
    CHECK_OK(loci_read64(w.rt, &w.pools[0], 64, &old, NULL));
    CHECK_EQ(old, ADDS * m->n);
    CHECK_OK(loci_read64(w.rt, &w.pools[0], 128, &old, NULL));
    CHECK_EQ(old >> 32, ADDS * m->n);
    return leave(&w);
}

/* ---- order ---- */

#define ROUNDS (uint64_t)run_rounds(100)
#define DATA ((size_t)2048)

static int poll_for(struct world *w, const unsigned char *word, uint64_t value)
{
    unsigned rounds = 0;

    while (loci_load64(word) != value)
        loci_wait_round(w->rt, &rounds);
    return 0;
}

/* Message passing: data to rank 1, a fence of `scope`, a flag to rank 1; who sees the flag sees the
 * data. `by_atomic`: no fence, but the flag is raised by an atomic on the lane of the data,
 * LOCO_ORDER. */
static int pass(struct world *w, enum loco_fence_scope scope, bool by_atomic)
{
    unsigned char *mine = loci_mem_ptr(&w->pool), data[DATA];
    uint64_t old, flag = scope * 100000;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (w->m->rank == 0) {
            memset(data, (int)i, sizeof data);
            CHECK_OK(loci_write(w->rt, &w->pools[1], 4096, data, sizeof data, NULL));
            CHECK_OK(loci_fence_peer(w->rt, scope, w->pools[1].peer));
            if (by_atomic)
                CHECK_OK(loci_fetch_add(w->rt, &w->pools[1], 0, 1, &old, NULL));
            else
                CHECK_OK(loci_write64(w->rt, &w->pools[1], 8, flag + i, NULL));
            poll_for(w, mine + 16, flag + i);
        } else if (w->m->rank == 1) {
            if (by_atomic)
                poll_for(w, mine, i);
            else
                poll_for(w, mine + 8, flag + i);
            for (size_t j = 0; j < DATA; j++)
                CHECK_EQ(mine[4096 + j], (unsigned char)i);
            CHECK_OK(loci_write64(w->rt, &w->pools[0], 16, flag + i, NULL));
        }
    }
    return together(w);
}

/* A read, and an atomic behind it, both on the way: who sees the atomic may change what is read. */
#define READ ((size_t)4 << 20)

static int overtaken(struct member *m)
{
    const uint64_t rounds = (uint64_t)run_rounds(20);
    uint64_t *back = malloc(READ), old, wrong = 0;
    unsigned char *mine;
    struct world w;

    CHECK(enter(&w, m, LEN + READ) == 0);
    CHECK(back != NULL);
    mine = loci_mem_ptr(&w.pool);
    for (uint64_t i = 1; i <= rounds; i++) {
        if (m->rank == 0) {
            loco_ack_t ack = LOCO_ACK_INIT;

            CHECK_OK(loci_read(w.rt, &w.pools[1], LEN, back, READ, &ack));
            CHECK_OK(loci_fetch_add(w.rt, &w.pools[1], 0, 1, &old, &ack));
            CHECK_OK(loco_ack_wait(w.rt, &ack));
            for (size_t j = 0; j < READ / 8; j++)
                wrong += back[j] != i - 1;
            poll_for(&w, mine + 16, i);
        } else if (m->rank == 1) {
            poll_for(&w, mine, i);
            for (size_t j = 0; j < READ; j += 8)
                loci_store64(mine + LEN + j, i);
            CHECK_OK(loci_write64(w.rt, &w.pools[0], 16, i, NULL));
        }
    }
    CHECK_OK(together(&w));
    CHECK_EQ(wrong, 0);
    free(back);
    return leave(&w);
}

static int order(struct member *m)
{
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    CHECK(pass(&w, LOCO_FENCE_PAIR, false) == 0);
    CHECK(pass(&w, LOCO_FENCE_THREAD, false) == 0);
    CHECK(pass(&w, LOCO_FENCE_PROCESS, false) == 0);
    if (loci_domain_of(w.rt->everyone) != LOCI_DOMAIN_CPU)
        CHECK(pass(&w, LOCO_ORDER, true) == 0);
    return leave(&w);
}

/* ---- threads: a lane each, and fences of one for all ---- */

#define THREADS 4
#define EACH 64

struct writer {
    struct world *w;
    _Atomic int written;
};

static int write_some(void *arg, int thread)
{
    struct writer *writer = arg;
    struct world *w = writer->w;

    for (uint64_t i = 0; i < EACH; i++)
        CHECK_OK(loci_write64(w->rt, &w->pools[next_of(w)],
                              ((uint64_t)thread * EACH + i) * 8,
                              1000 * ((uint64_t)w->m->rank + 1) + (uint64_t)thread * EACH + i,
                              NULL));
    atomic_fetch_add(&writer->written, 1);
    return 0;
}

static int threads(struct member *m)
{
    struct world w;
    struct writer writer = { .w = &w };
    int before = (m->rank + m->n - 1) % m->n;

    CHECK(enter(&w, m, LEN) == 0);
    CHECK(run_threads(THREADS, write_some, &writer) == 0);
    CHECK_EQ(writer.written, THREADS);
    CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_PROCESS, -1));
    CHECK_OK(together(&w));
    for (int i = 0; i < THREADS * EACH; i++)
        CHECK_EQ(loci_load64(loci_mem_ptr(&w.pool) + (size_t)i * 8), 1000 * (before + 1) + i);
    return leave(&w);
}

/* ---- litmus: message passing through two lanes ---- */

/* One thread writes data to the other process, and tells a second thread of its own, which fences
 * for the process (or, to see that this is seen, does not) and raises a flag there on its own
 * lane. */
#define LITMUS_DATA ((size_t)16384)     /* several packets, each of which may be lost */
#define LITMUS_ROUNDS (uint64_t)run_rounds(100)

struct litmus {
    struct world *w;
    bool fence;
    _Atomic uint64_t data_written;      /* rounds */
};

static int litmus_thread(void *arg, int thread)
{
    struct litmus *t = arg;
    struct world *w = t->w;
    unsigned char *answer = loci_mem_ptr(&w->pool) + 16, data[LITMUS_DATA];
    unsigned rounds = 0;

    for (uint64_t i = 1; i <= LITMUS_ROUNDS; i++) {
        if (thread == 0) {
            memset(data, (int)i, sizeof data);
            CHECK_OK(loci_write(w->rt, &w->pools[1], 4096, data, sizeof data, NULL));
            atomic_store(&t->data_written, i);
        } else {
            while (atomic_load(&t->data_written) < i)
                loci_wait_round(w->rt, &rounds);
            if (t->fence)
                CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_PROCESS, w->pools[1].peer));
            CHECK_OK(loci_write64(w->rt, &w->pools[1], 8, i, NULL));
        }
        poll_for(w, answer, i);
    }
    return 0;
}

/* At the other process: how often the flag was seen without the data. */
static int litmus_reader(struct world *w, int *early)
{
    unsigned char *mine = loci_mem_ptr(&w->pool);

    for (uint64_t i = 1; i <= LITMUS_ROUNDS; i++) {
        bool all = true;

        poll_for(w, mine + 8, i);
        for (size_t j = 0; j < LITMUS_DATA; j += 64)
            all = all && loci_load64(mine + 4096 + j) == (i & 0xff) * UINT64_C(0x0101010101010101);
        *early += !all;
        /* What is late is waited for, or it would fall into the next round. */
        poll_for(w, mine + 4096 + LITMUS_DATA - 8, (i & 0xff) * UINT64_C(0x0101010101010101));
        CHECK_OK(loci_write64(w->rt, &w->pools[0], 16, i, NULL));
    }
    return 0;
}

static int litmus(struct member *m, bool fence, int *early)
{
    struct world w;
    struct litmus t = { .w = &w, .fence = fence };

    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank == 0)
        CHECK(run_threads(2, litmus_thread, &t) == 0);
    else if (m->rank == 1)
        CHECK(litmus_reader(&w, early) == 0);
    return leave(&w);
}

static int fenced(struct member *m)
{
    int early = 0;

    CHECK(litmus(m, true, &early) == 0);
    CHECK_EQ(early, 0);
    return 0;
}

/* Not one of the cases: it says what is seen of a fence that is missing. Passed if it is seen. */
static int unfenced(struct member *m)
{
    int early = 0;

    CHECK(litmus(m, false, &early) == 0);
    if (m->rank == 1)
        printf("# without the fence the flag came before the data %d times of %d\n", early,
               (int)LITMUS_ROUNDS);
    return m->rank == 1 && early == 0;
}

/* What was written last, with no fence, arrives though the writer closes. */
static int last_words(struct member *m)
{
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    CHECK_OK(together(&w));
    CHECK_OK(loci_write64(w.rt, &w.pools[next_of(&w)], 24, 42, NULL));
    poll_for(&w, loci_mem_ptr(&w.pool) + 24, 42);
    return 0;       /* closes at once, as the others do */
}

/* ---- the last member is killed while the others write to it, read from it, and fence ---- */

#define NOTICED INT64_C(20000000000)    /* ns in which all must have been told */

static int death(struct member *m)
{
    struct world w;
    int victim = m->n - 1, status = LOCO_OK;
    uint64_t value;
    int64_t begin;

    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank == victim) {
        for (int i = 0; i < victim; i++)
            poll_for(&w, loci_mem_ptr(&w.pool) + 8 * (i + 1), 50);
        kill(getpid(), SIGKILL);
    }
    for (uint64_t i = 1; i <= 50; i++)
        CHECK_OK(loci_write64(w.rt, &w.pools[victim], 8 * (uint64_t)(m->rank + 1), i, NULL));
    begin = run_now();
    while (status == LOCO_OK && run_now() - begin < run_limit(NOTICED)) {
        status = loci_read64(w.rt, &w.users[victim], 8, &value, NULL);
        if (status == LOCO_OK)
            status = loci_write64(w.rt, &w.users[victim], 64, value, NULL);
        if (status == LOCO_OK)
            status = loci_fence_peer(w.rt, LOCO_FENCE_PROCESS, -1);
    }
    CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
    return 0;
}

/* ---- the wire: by name only, since somebody else has to cut it ---- */

#define HELD_UP INT64_C(8000000000)     /* ns */

/* Cut for less than the device tries: nobody notices. */
static int held_up(struct member *m)
{
    struct world w;
    int64_t begin;
    uint64_t i = 0, back;

    CHECK(enter(&w, m, LEN) == 0);
    CHECK_OK(together(&w));
    begin = run_now();
    while (run_now() - begin < HELD_UP) {
        i++;
        CHECK_OK(loci_write64(w.rt, &w.pools[next_of(&w)], 8, i, NULL));
        CHECK_OK(loci_read64(w.rt, &w.pools[next_of(&w)], 8, &back, NULL));
        CHECK_EQ(back, i);
    }
    return leave(&w);
}

/* Cut for good: everybody who waits for the other side is told, whatever he waits for. */
enum { BY_WRITE, BY_READ, BY_ATOMIC, BY_WAIT, WAYS };

struct cut {
    struct world *w;
    int status[WAYS];
    int64_t told[WAYS];
    _Atomic int64_t spoke;              /* when the other side was last heard */
};

static int never(void *word)
{
    return loci_load64(word) != 0;
}

static int until_told(struct cut *cut, int way)
{
    struct world *w = cut->w;
    struct loci_mem *to = &w->users[next_of(w)];
    uint64_t value;
    int status;

    if (way == BY_WAIT) {
        const struct loci_reason why = {
            .what = "a word that nobody writes", .peer = to->peer, .timeout_ns = LOCO_FOREVER,
            .kind = LOCI_WAIT_SYNC,
        };

        return loci_wait(w->rt, &why, never, loci_mem_ptr(&w->pool) + 64);
    }
    for (;;) {
        if (way == BY_ATOMIC) {
            status = loci_fetch_add(w->rt, &w->pools[next_of(w)], 128, 1, &value, NULL);
        } else if (way == BY_READ) {
            status = loci_read64(w->rt, to, 8, &value, NULL);
        } else {
            status = loci_write64(w->rt, to, 8, 1, NULL);
            if (status == LOCO_OK)
                status = loci_fence_peer(w->rt, LOCO_FENCE_THREAD, -1);
        }
        if (status != LOCO_OK)
            return status;
        atomic_store(&cut->spoke, run_now());
    }
}

static int cut_thread(void *arg, int way)
{
    struct cut *cut = arg;

    cut->status[way] = until_told(cut, way);
    cut->told[way] = run_now();
    return 0;
}

static int cut_off(struct member *m)
{
    struct world w;
    struct cut cut = { .w = &w };

    CHECK(enter(&w, m, LEN) == 0);
    CHECK(run_threads(WAYS, cut_thread, &cut) == 0);
    for (int way = 0; way < WAYS; way++) {
        CHECK_EQ(cut.status[way], LOCO_ERR_PEER_DEAD);
        printf("# told after %.2f s of silence\n",
               (double)(cut.told[way] - atomic_load(&cut.spoke)) / 1e9);
        CHECK(cut.told[way] - atomic_load(&cut.spoke) < run_limit(NOTICED));
    }
    return 0;
}

/* ---- all of it ---- */

static const struct test_case {
    const char *name;
    member_fn *fn;
    bool named_only, last_is_killed;
} cases[] = {
    { "moves", moves, false, false },
    { "large", large, false, false },
    { "at_once", at_once, false, false },
    { "flood", flood, false, false },
    { "atomics", atomics, false, false },
    { "chains", chains, false, false },
    { "chain_broken", chain_broken, false, false },
    { "chain_refused", chain_refused, false, false },
    { "mended", mended, false, false },
    { "merged", merged, false, false },
    { "protected", guarded, false, false },
    { "copied", copied, false, false },
    { "placed", placed, false, false },
    { "whole", whole, false, false },
    { "order", order, false, false },
    { "overtaken", overtaken, false, false },
    { "threads", threads, false, false },
    { "fenced", fenced, false, false },
    { "last_words", last_words, false, false },
    { "left", left, false, false },
    { "killed", killed, false, true },
    { "death", death, false, true },
    { "silent", silent, false, true },
    { "unfenced", unfenced, true, false },
    { "unnamed", unnamed, true, false },
    { "strangers", strangers, true, false },
    { "held_up", held_up, true, false },
    { "tries", tries, true, false },
    { "cut_off", cut_off, true, false },
};
#define CASES (int)(sizeof cases / sizeof cases[0])

static bool is_passed(const struct test_case *c, int n)
{
    int statuses[PEERS] = { 0 };

    member_run(RUN_SHM, n, c->fn, NULL, statuses);
    for (int i = 0; i < n; i++)
        if (statuses[i] != (c->last_is_killed && i == n - 1 ? RUN_KILLED : 0)) {
            printf("# member %d ended with %d\n", i, statuses[i]);
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2, failed = 0, run = 0;

    if (n < 2 || n > PEERS)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < CASES; i++) {
        int64_t begin = run_now();
        bool passed;

        if (argc > 2 ? strcmp(argv[2], cases[i].name) != 0 : cases[i].named_only)
            continue;
        alarm(LIMIT);
        passed = is_passed(&cases[i], n);
        printf("%sok %d - %s, %d processes\n# %.2f s\n", passed ? "" : "not ", ++run,
               cases[i].name, n, (double)(run_now() - begin) / 1e9);
        failed += !passed;
    }
    printf("1..%d\n", run);
    return failed > 0;
}

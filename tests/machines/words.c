/* SPDX-License-Identifier: BSD-3-Clause */

/* words [LOADS]: 8 aligned bytes are never seen torn, however a stream is cut. Two members write to
 * each other, with writes of odd lengths before and between those of words, which so lie anywhere
 * in what is sent. Words are looked at where they are written, LOADS times by each member
 * (50,000,000) and until enough was written, and read from where their owner stores them meanwhile.
 * All bytes of a value are the same one, so that parts of two values show. Speaks TAP. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "member.h"
#include "move/rma.h"
#include "runtime.h"

enum { MEMBERS = 2, WRITES, LOOKS, THREADS, LIMIT_S = 1000 };

/* Where: odd bytes; words that the other one writes; words that their owner stores. The words lie
 * in blocks. The first and the last of a block are written in parts, and nobody looks at them. */
enum { BLOCK = 64, BLOCKS = 32, WORDS = BLOCK * BLOCKS };
#define ODD_AT ((uint64_t)0)
#define ODD_BYTES ((uint64_t)8192)
#define WRITTEN_AT ODD_BYTES
#define STORED_AT (WRITTEN_AT + WORDS * 8)
#define BYTES (STORED_AT + WORDS * 8)

#define LOADS_A_WRITE 5000      /* no more, or hardly any load would find another value */

#define SAME(byte) (UINT64_C(0x0101010101010101) * (uint64_t)((byte) & 0xff))

struct words {
    loco_runtime_t *rt;
    struct member *m;
    struct loci_mem mine, theirs;
    uint64_t loads, state[THREADS + WRITES];
    uint64_t seen, changed, torn, reads, torn_reads;
    _Atomic uint64_t writes;
    _Atomic int over;
};

static uint64_t loads_wanted = 50000000;

static bool is_whole(uint64_t value)
{
    return value == SAME(value);
}

/* Fewer than 8 bytes, or a few packets' worth; of any length. */
static int write_odd(struct words *w, uint64_t *state)
{
    static const unsigned char zeroes[ODD_BYTES];
    uint64_t most = run_random(state) % 8 == 0 ? 5000 : 8;
    uint64_t len = 1 + run_random(state) % most, at = run_random(state) % (ODD_BYTES - len);

    return loci_write(w->rt, &w->theirs, ODD_AT + at, zeroes, len, NULL);
}

/* The inner words of a block, and some bytes of the words before and behind them; or only some of
 * the inner words. */
static int write_block(struct words *w, uint64_t *state)
{
    unsigned char block[BLOCK * 8];
    uint64_t at = run_random(state) % BLOCKS * BLOCK * 8, first = 1, last = BLOCK - 1;
    uint64_t before = run_random(state) % 8, behind = run_random(state) % 8;

    memset(block, (int)run_random(state), sizeof block);
    if (run_random(state) % 2 == 0) {
        first += run_random(state) % (BLOCK - 3);
        last = first + 1 + run_random(state) % (BLOCK - 1 - first);
        before = behind = 0;
    }
    return loci_write(w->rt, &w->theirs, WRITTEN_AT + at + first * 8 - before, block,
                      (last - first) * 8 + before + behind, NULL);
}

/* One inner word. */
static uint64_t any_word(uint64_t *state)
{
    return run_random(state) % BLOCKS * BLOCK + 1 + run_random(state) % (BLOCK - 2);
}

static int write_word(struct words *w, uint64_t *state)
{
    return loci_write64(w->rt, &w->theirs, WRITTEN_AT + any_word(state) * 8,
                        SAME(run_random(state)), NULL);
}

/* Words that the other one stores: one, or all of a block. */
static int read_words(struct words *w, uint64_t *state)
{
    uint64_t value[BLOCK] = { 0 }, n = run_random(state) % 2 == 0 ? 1 : BLOCK;
    uint64_t at = run_random(state) % BLOCKS * BLOCK;
    int status = loci_read(w->rt, &w->theirs, STORED_AT + at * 8, value, n * 8, NULL);

    for (uint64_t i = 0; status == LOCO_OK && i < n; i++)
        w->torn_reads += !is_whole(value[i]);
    w->reads += n;
    return status;
}

static int writes(struct words *w)
{
    uint64_t *state = &w->state[WRITES];

    while (atomic_load(&w->over) < MEMBERS) {
        CHECK_OK(write_odd(w, state));
        CHECK_OK(write_word(w, state));
        CHECK_OK(write_odd(w, state));
        CHECK_OK(write_block(w, state));
        if (atomic_fetch_add(&w->writes, 1) % 16 == 0)
            CHECK_OK(read_words(w, state));
    }
    return 0;
}

/* The other one's words, block by block; and its own stores in between. */
static int looks(struct words *w)
{
    const unsigned char *at = loci_mem_ptr(&w->mine) + WRITTEN_AT;
    unsigned char *stored = loci_mem_ptr(&w->mine) + STORED_AT;
    static uint64_t last[WORDS];
    uint64_t one = 1, state = w->state[LOOKS];

    while (w->seen < w->loads
           || atomic_load(&w->writes) < (uint64_t)run_rounds((int)(w->loads / LOADS_A_WRITE))) {
        for (uint64_t i = 0; i < WORDS; i++) {
            uint64_t value;

            if (i % BLOCK == 0 || i % BLOCK == BLOCK - 1)
                continue;
            value = loci_load64(at + i * 8);
            w->torn += !is_whole(value);
            w->changed += value != last[i];
            last[i] = value;
            w->seen++;
        }
        for (int i = 0; i < BLOCK; i++)
            loci_store64(stored + run_random(&state) % WORDS * 8, SAME(run_random(&state)));
    }
    /* Both go on writing until both have looked. */
    atomic_fetch_add(&w->over, 1);
    return loci_fetch_add(w->rt, &w->theirs, STORED_AT + WORDS * 8, 1, &one, NULL);
}

/* The word behind all says that the other one has looked. */
static int stops(struct words *w)
{
    while (loci_load64(loci_mem_ptr(&w->mine) + STORED_AT + WORDS * 8) == 0)
        usleep(1000);
    atomic_fetch_add(&w->over, 1);
    return 0;
}

static int part(void *arg, int thread)
{
    return thread == 0 ? writes(arg) : thread == 1 ? looks(arg) : stops(arg);
}

static int member(struct member *m)
{
    struct words w = { .rt = m->rt, .m = m, .loads = loads_wanted };
    struct loci_memkey keys[MEMBERS];
    int other = 1 - m->rank;

    for (size_t i = 0; i < sizeof w.state / sizeof w.state[0]; i++)
        w.state[i] = 88172645463325252u + 977 * i + (uint64_t)m->rank;
    CHECK_OK(loci_alloc(m->rt, BYTES + 8, 0, &w.mine));
    memset(loci_mem_ptr(&w.mine), 0, BYTES + 8);
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &w.mine.key, sizeof w.mine.key, keys));
    loci_peers_use(m->rt, m->rt->everyone->peer, m->n);
    CHECK_OK(loci_mem_import(m->rt, m->rt->everyone->peer[other], &keys[other], &w.theirs));
    loci_mem_set_domain(&w.theirs, loci_domain_of(m->rt->everyone));
    CHECK(run_threads(3, part, &w) == 0);
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, NULL, 0, NULL));
    printf("# member %d: %llu loads, %llu found another value, %llu torn; %llu words read, "
           "%llu torn; wrote %llu words and blocks\n", m->rank, (unsigned long long)w.seen,
           (unsigned long long)w.changed, (unsigned long long)w.torn,
           (unsigned long long)w.reads, (unsigned long long)w.torn_reads,
           (unsigned long long)w.writes);
    CHECK(w.changed > 1000);
    CHECK_EQ(w.torn, 0);
    CHECK_EQ(w.torn_reads, 0);
    loci_free(m->rt, &w.mine);
    return 0;
}

int main(int argc, char **argv)
{
    bool good;

    if (argc > 1)
        loads_wanted = strtoull(argv[1], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(LIMIT_S);
    good = member_run(RUN_SHM, MEMBERS, member, NULL, NULL) == 0;
    printf("%sok 1 - words are whole\n1..1\n", good ? "" : "not ");
    return !good;
}

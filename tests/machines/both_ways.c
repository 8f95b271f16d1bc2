/* SPDX-License-Identifier: BSD-3-Clause */

/* both_ways [MiB]: two processes write so much (1024) to each other at once, in pieces of all
 * sizes, without waiting for anything but room; then both read as much from each other, several
 * long requests at once. Neither direction may wait for the other. What arrives is right. Speaks
 * TAP. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "member.h"
#include "move/rma.h"
#include "runtime.h"

enum { MEMBERS = 2, LIMIT_S = 500, READS = 8 };
#define MIB ((uint64_t)1 << 20)
#define TABLE (32 * MIB)        /* bytes of each member, written round after round */

static uint64_t total = 1024 * MIB;

struct side {
    loco_runtime_t *rt;
    struct member *m;
    struct loci_mem mine, theirs;
    uint64_t *source;
    double took;
};

/* What member `who` writes into word i. */
static uint64_t value_of(uint64_t i, int who)
{
    return i * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)who;
}

static int meet(const struct side *s)
{
    return s->m->exchange.allgather(s->m->exchange.ctx, NULL, 0, NULL);
}

static uint64_t rounds_of(void)
{
    return (total + TABLE - 1) / TABLE;
}

/* The whole table, in pieces of 1 byte to 4 MiB. */
static int write_round(struct side *s, uint64_t *state)
{
    for (uint64_t at = 0, len; at < TABLE; at += len) {
        len = (UINT64_C(1) << run_random(state) % 23) + run_random(state) % 8;
        if (len > TABLE - at)
            len = TABLE - at;
        CHECK_OK(loci_write(s->rt, &s->theirs, at, (unsigned char *)s->source + at, len, NULL));
    }
    return 0;
}

static int write_all(struct side *s)
{
    uint64_t state = 99 + (uint64_t)s->m->rank;
    const unsigned char *mine = loci_mem_ptr(&s->mine);
    int64_t begin = run_now();

    for (uint64_t round = 0; round < rounds_of(); round++)
        CHECK(write_round(s, &state) == 0);
    CHECK_OK(loci_fence_peer(s->rt, LOCO_FENCE_PROCESS, -1));
    s->took = (double)(run_now() - begin) / 1e9;
    CHECK_OK(meet(s));
    for (uint64_t i = 0; i < TABLE / 8; i++)
        CHECK(loci_load64(mine + i * 8) == value_of(i, 1 - s->m->rank));
    return 0;
}

/* What was written to the other one comes back, several long reads at once. */
static int read_all(struct side *s)
{
    uint64_t part = TABLE / READS, state = 99;
    unsigned char *back = malloc(TABLE);
    int64_t begin;

    CHECK(back != NULL);
    CHECK(write_round(s, &state) == 0);
    CHECK_OK(loci_fence_peer(s->rt, LOCO_FENCE_PROCESS, -1));
    CHECK_OK(meet(s));
    begin = run_now();
    for (uint64_t round = 0; round < rounds_of(); round++) {
        loco_ack_t ack = LOCO_ACK_INIT;

        memset(back, 0, TABLE);
        for (uint64_t i = 0; i < READS; i++)
            CHECK_OK(loci_read(s->rt, &s->theirs, i * part, back + i * part, part, &ack));
        CHECK_OK(loco_ack_wait(s->rt, &ack));
        CHECK(memcmp(back, s->source, TABLE) == 0);
    }
    s->took = (double)(run_now() - begin) / 1e9;
    free(back);
    return meet(s);
}

static int member(struct member *m)
{
    struct side s = { .rt = m->rt, .m = m, .source = malloc(TABLE) };
    struct loci_memkey keys[MEMBERS];
    int other = 1 - m->rank;

    CHECK(s.source != NULL);
    for (uint64_t i = 0; i < TABLE / 8; i++)
        s.source[i] = value_of(i, m->rank);
    CHECK_OK(loci_alloc(m->rt, TABLE, 0, &s.mine));
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &s.mine.key, sizeof s.mine.key, keys));
    loci_peers_use(m->rt, m->rt->everyone->peer, m->n);
    CHECK_OK(loci_mem_import(m->rt, m->rt->everyone->peer[other], &keys[other], &s.theirs));
    loci_mem_set_domain(&s.theirs, loci_domain_of(m->rt->everyone));
    CHECK((m->arg == NULL ? write_all : read_all)(&s) == 0);
    printf("# member %d: %.1f s, %.0f MiB/s each way\n", m->rank, s.took,
           (double)(total / MIB) / s.took);
    CHECK_OK(meet(&s));
    loci_free(m->rt, &s.mine);
    free(s.source);
    return 0;
}

static int result(int number, bool good, const char *what)
{
    printf("%sok %d - both %s %llu MiB at once\n", good ? "" : "not ", number, what,
           (unsigned long long)(total / MIB));
    return !good;
}

int main(int argc, char **argv)
{
    int failed, reads = 1;

    if (argc > 1)
        total = strtoull(argv[1], NULL, 10) * MIB;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(LIMIT_S);
    failed = result(1, member_run(RUN_SHM, MEMBERS, member, NULL, NULL) == 0, "write");
    failed += result(2, member_run(RUN_SHM, MEMBERS, member, &reads, NULL) == 0, "read");
    printf("1..2\n");
    return failed > 0;
}

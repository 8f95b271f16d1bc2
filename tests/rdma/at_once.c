/* SPDX-License-Identifier: BSD-3-Clause */

/* Case of `contract`: many threads of one member have many reads of the next one's memory under way
 * at once, of 4 KiB and of 64 KiB: 1024 over 16 connections, AT_ONCE_ROUNDS times (1). Soft-RoCE's
 * queue of packets does not hold the answers; what the process has outstanding is bounded, so that
 * it does not have to. */

#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { THREADS = 16, EACH = 64 };

struct reader {
    struct world *w;
    pthread_barrier_t *begin;
    const unsigned char *expected;
    unsigned char *to;
    size_t len;
    int status;
    bool wrong;
};

static void *read_many(void *arg)
{
    struct reader *r = arg;
    struct world *w = r->w;
    loco_ack_t ack = LOCO_ACK_INIT;
    int done, from = next_of(w);

    pthread_barrier_wait(r->begin);
    for (int i = 0; i < EACH && r->status == LOCO_OK; i++)
        r->status = loci_read(w->rt, &w->pools[from], 0, r->to + (size_t)i * r->len, r->len, &ack);
    done = loco_ack_wait(w->rt, &ack);
    r->status = r->status == LOCO_OK ? done : r->status;
    for (int i = 0; i < EACH && r->status == LOCO_OK; i++)
        r->wrong = r->wrong || memcmp(r->to + (size_t)i * r->len, r->expected, r->len) != 0;
    return NULL;
}

static int read_all(struct world *w, const unsigned char *expected, unsigned char *to, size_t len)
{
    pthread_barrier_t begin;
    pthread_t thread[THREADS];
    struct reader r[THREADS];
    int64_t since;

    pthread_barrier_init(&begin, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        r[i] = (struct reader){ .w = w, .begin = &begin, .len = len,
                                .expected = expected, .to = to + (size_t)i * EACH * len };
        CHECK(pthread_create(&thread[i], NULL, read_many, &r[i]) == 0);
    }
    since = run_now();
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("# %d reads of %zu bytes: %.1f ms\n", THREADS * EACH, len,
           (double)(run_now() - since) / 1e6);
    pthread_barrier_destroy(&begin);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(r[i].status);
        CHECK(!r[i].wrong);
    }
    return 0;
}

int at_once(struct member *m)
{
    static const size_t sizes[] = { 4096, LEN };
    const char *text = getenv("AT_ONCE_ROUNDS");
    int rounds = text != NULL ? atoi(text) : 1;
    unsigned char *to = malloc(THREADS * EACH * LEN), *expected = malloc(LEN), *mine;
    struct world w;

    CHECK(to != NULL && expected != NULL && enter(&w, m, LEN) == 0);
    mine = loci_mem_ptr(&w.pool);
    for (size_t at = 0; at < LEN; at++)
        mine[at] = pattern(at, m->rank), expected[at] = pattern(at, next_of(&w));
    CHECK_OK(together(&w));
    for (int i = 0; i < 2 * rounds; i++) {
        memset(to, 0, THREADS * EACH * sizes[i % 2]);
        if (m->rank == 0)
            CHECK(read_all(&w, expected, to, sizes[i % 2]) == 0);
        CHECK_OK(together(&w));
    }
    free(expected);
    free(to);
    return leave(&w);
}

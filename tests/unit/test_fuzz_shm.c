/* SPDX-License-Identifier: BSD-3-Clause */

/* Random requests in the page where peers offer copies: spans, strips, shared copies and updates,
 * most of them nearly right. The target believes none that leads outside of what it has registered,
 * also while a thread changes the words that it looks at. FUZZ_ROUNDS says how many. */

#include "shm_world.h"

#include <pthread.h>
#include <sched.h>

#include "fabric/shm/offer.h"
#include "move/strip.h"
#include "window/window.h"

#define AREA ((size_t)1 << 16)      /* that is registered, between two guards of this size */
#define GUARD 0xa5
#define ROUNDS 30000
#define LOOK_EVERY 256              /* rounds between looks at the guards */
enum { READY = 2, DONE = 4 };       /* states: offer.c */

struct fuzz {
    struct world w;
    unsigned char *guarded;         /* guard, area, guard */
    struct loci_mem mem;
    uint64_t base, random, label;   /* of the area; the peer's */
    struct shm_slot *slot;
    _Atomic bool stop;
};

static uint64_t below(struct fuzz *z, uint64_t n)
{
    return run_random(&z->random) % n;
}

static int enter_fuzz(struct fuzz *z, const struct loco_bootstrap *boot, uint64_t seed)
{
    struct shm_fabric *f;
    struct loci_peer *peer;

    memset(z, 0, sizeof *z);
    NEED(enter(&z->w, boot, &plain) == 0);
    z->random = seed;
    z->guarded = mmap(NULL, 3 * AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(z->guarded != MAP_FAILED);
    memset(z->guarded, GUARD, 3 * AREA);
    NEED(loci_user_add(z->w.rt, z->guarded + AREA, AREA, &z->mem) == LOCO_OK);
    z->base = (uintptr_t)z->guarded + AREA;
    f = shm_of(z->w.rt->fabric);
    NEED(f->offers != NULL);
    z->slot = (struct shm_slot *)(void *)(f->offers->slots + SHM_SLOT_BYTES);
    peer = loci_peer(z->w.rt, z->w.rt->everyone->peer[1 - z->w.me]);
    z->label = loci_shm_slot_label(&peer->address);
    atomic_store(&z->w.rt->combine, loci_window_combine_offered);
    return 0;
}

static int guards_are_whole(const struct fuzz *z)
{
    for (size_t i = 0; i < AREA; i++)
        NEED(z->guarded[i] == GUARD && z->guarded[2 * AREA + i] == GUARD);
    return 0;
}

static int leave_fuzz(struct fuzz *z)
{
    NEED(guards_are_whole(z) == 0);
    NEED(together(&z->w) == LOCO_OK);
    loci_user_remove(z->w.rt, &z->mem);
    munmap(z->guarded, 3 * AREA);
    return leave(&z->w);
}

/* ---- requests ---- */

/* An address in the area, at its ends, or anywhere. */
static uint64_t some_address(struct fuzz *z)
{
    switch (below(z, 12)) {
    case 0: return z->base - 1 - below(z, 64);
    case 1: return z->base + AREA - below(z, 64);
    case 2: return UINT64_MAX - below(z, 64);
    case 3: return run_random(&z->random);
    case 4: return 0;
    default: return z->base + below(z, AREA - 4096);
    }
}

static uint64_t some_len(struct fuzz *z)
{
    switch (below(z, 16)) {
    case 0: return 0;
    case 1: return run_random(&z->random);
    case 2: return UINT64_MAX - below(z, 64);
    case 3: return AREA - 32 + below(z, 64);
    case 4: return UINT64_C(1) << below(z, 64);
    default: return 1 + below(z, 64);
    }
}

static void put_span(struct fuzz *z, unsigned char *at)
{
    const struct shm_span span = { some_address(z), some_len(z) };

    memcpy(at, &span, sizeof span);
}

static void put_strip(struct fuzz *z, unsigned char *at)
{
    const struct loci_strip strip = {
        .at = some_address(z), .len = some_len(z),
        .stride = below(z, 4) == 0 ? (int64_t)run_random(&z->random) : (int64_t)below(z, 256) - 128,
        .blocks = below(z, 4) == 0 ? some_len(z) : 1 + below(z, 16),
    };

    memcpy(at, &strip, sizeof strip);
}

/* A copy that is shared out, to or from anywhere in the peer's memory that it has kept for it: this
 * process's has the same address there, for it was mapped before the fork. */
static void put_share(struct fuzz *z, unsigned char *at, unsigned char *peers)
{
    const uint64_t local = below(z, 4) == 0 ? some_address(z) : (uintptr_t)peers;
    const uint64_t next = below(z, 3);

    put_span(z, at);
    memcpy(at + sizeof(struct shm_span), &local, sizeof local);
    memcpy(at + sizeof(struct shm_span) + sizeof local, &next, sizeof next);
}

static void make_request(struct fuzz *z, unsigned char *peers)
{
    static const uint16_t ops[] = {
        LOCI_WRITE, LOCI_READ, LOCI_FETCH_ADD, LOCI_COMPARE_SWAP, LOCI_WRITE | SHM_STRIDED,
        LOCI_READ | SHM_STRIDED, SHM_COMBINE | SHM_STRIDED, SHM_COMBINE | SHM_STRIDED, LOCI_PLACE,
        SHM_COMBINE,
    };
    struct shm_slot *s = z->slot;
    unsigned char *at = s->body, *end = s->body + SHM_SLOT_BODY;
    size_t size;

    s->number = below(z, 16) == 0 ? (uint32_t)run_random(&z->random) : z->mem.key.extent;
    s->op = below(z, 16) == 0 ? (uint16_t)run_random(&z->random) : ops[below(z, 10)];
    s->what = below(z, 8) == 0 ? (uint32_t)run_random(&z->random)
              : (uint32_t)(below(z, LOCO_TYPE_COUNT) | below(z, LOCO_OP_COUNT) << 8
                           | below(z, 2) << 16);
    s->nspans = below(z, 16) == 0 ? (uint16_t)run_random(&z->random) : (uint16_t)below(z, 5);
    s->status = 12345;
    size = (s->op & SHM_STRIDED) != 0 ? sizeof(struct loci_strip) : sizeof(struct shm_span);
    if (s->nspans == 0)
        put_share(z, at, peers);
    for (unsigned i = 0; i < s->nspans && (size_t)(end - at) >= size; i++, at += size)
        if (size == sizeof(struct shm_span))
            put_span(z, at);
        else
            put_strip(z, at);
    if (end - at >= 8)
        for (int i = 0; i < 4; i++) {
            uint64_t word = run_random(&z->random);

            memcpy(at + below(z, (uint64_t)(end - at - 7)), &word, sizeof word);
        }
}

/* As if the peer had offered it; done by this thread. */
static int serve(struct fuzz *z)
{
    struct shm_fabric *f = shm_of(z->w.rt->fabric);

    atomic_store(&z->slot->state, z->label | READY);
    atomic_fetch_add(&f->offers->bell, UINT64_C(1) << 4);
    loci_shm_help(z->w.rt->fabric, true);
    /* Or the service thread has taken it, and does not run at the moment. */
    for (int64_t begun = run_now(); atomic_load(&z->slot->state) != (z->label | DONE)
                                    && run_now() - begun < RUN_PATIENCE;) {
        sched_yield();
        loci_shm_help(z->w.rt->fabric, true);
    }
    NEED(atomic_load(&z->slot->state) == (z->label | DONE));
    NEED(z->slot->status <= LOCO_OK);
    return 0;
}

/* Whether what was done was to be done: all of it in the area, and its data in the slot. */
static int check_done(const struct fuzz *z, const unsigned char *body, uint16_t op, unsigned n)
{
    uint64_t bytes = 0, low, high;

    for (unsigned i = 0; i < n; i++) {
        struct loci_strip strip = { .blocks = 1 };
        struct shm_span span;

        if ((op & SHM_STRIDED) != 0) {
            memcpy(&strip, body + i * sizeof strip, sizeof strip);
        } else {
            memcpy(&span, body + i * sizeof span, sizeof span);
            strip.at = span.at;
            strip.len = span.len;
        }
        if ((op & SHM_STRIDED) == 0 && strip.len == 0)
            continue;
        NEED(loci_strip_extent(&strip, &low, &high));
        NEED(low >= z->base && high <= z->base + AREA);
        bytes += strip.len * strip.blocks;
    }
    NEED(bytes <= SHM_SLOT_BODY);
    return 0;
}

static int throw_requests(struct fuzz *z, int rounds, unsigned char *peers, bool quiet)
{
    static unsigned char body[SHM_SLOT_BODY];
    int done = 0;

    for (int i = 0; i < rounds; i++) {
        uint16_t op;
        unsigned n;

        make_request(z, peers);
        op = z->slot->op;
        n = z->slot->nspans;
        if (quiet)
            memcpy(body, z->slot->body, sizeof body);
        NEED(serve(z) == 0);
        done += z->slot->status == LOCO_OK;
        if (quiet && z->slot->status == LOCO_OK)
            NEED(check_done(z, body, op, n) == 0);
        if (i % LOOK_EVERY == 0)
            NEED(guards_are_whole(z) == 0);
    }
    /* Or we tried nothing but what is refused at once. Whoever changes the words leaves few as they
     * should be: 130 of 30,000 where it has a fast core of its own, 500 and more elsewhere. */
    NEED(done > rounds / (quiet ? 100 : 2000));
    return 0;
}

/* A right one, at last. */
static int still_serves(struct fuzz *z)
{
    const struct shm_span span = { z->base + 8, 8 };
    uint64_t value = UINT64_C(0x0123456789abcdef);

    z->slot->number = z->mem.key.extent;
    z->slot->op = LOCI_WRITE;
    z->slot->nspans = 1;
    memcpy(z->slot->body, &span, sizeof span);
    memcpy(z->slot->body + sizeof span, &value, sizeof value);
    NEED(serve(z) == 0 && z->slot->status == LOCO_OK);
    NEED(memcmp(z->guarded + AREA + 8, &value, sizeof value) == 0);
    atomic_store(&z->slot->state, 0);
    return 0;
}

/* ---- with and without a thread that changes the slot meanwhile ---- */

/* Fields and spans, to what could be right as well, for a moment. */
static void *change_words(void *arg)
{
    struct fuzz *z = arg;
    uint64_t random = 4711;

    while (!atomic_load_explicit(&z->stop, memory_order_relaxed)) {
        uint64_t which = run_random(&random) % 8, value = run_random(&random);

        if (which == 0)
            z->slot->nspans = (uint16_t)(value % 3 == 0 ? value : value % 200);
        else if (which == 1)
            z->slot->op ^= (uint16_t)(1u << value % 10);
        else if (which == 2)
            z->slot->what = (uint32_t)value;
        else
            atomic_store_explicit((_Atomic uint64_t *)(void *)(z->slot->body + 8 * (value % 16)),
                                  value % 2 == 0 ? value : z->base + AREA - value % 64,
                                  memory_order_relaxed);
    }
    return NULL;
}

static int fuzzed(const struct loco_bootstrap *boot, void *arg)
{
    int rounds = run_fuzz_rounds(ROUNDS);
    pthread_t changer;
    struct fuzz z;

    NEED(enter_fuzz(&z, boot, UINT64_C(20261129)) == 0);
    if (z.w.me == 0) {
        NEED(throw_requests(&z, rounds, arg, true) == 0);
        if (run_may_race("requests that change while they are served")) {
            NEED(pthread_create(&changer, NULL, change_words, &z) == 0);
            NEED(throw_requests(&z, rounds, arg, false) == 0);
            atomic_store(&z.stop, true);
            pthread_join(changer, NULL);
        }
        NEED(still_serves(&z) == 0);
    }
    return leave_fuzz(&z);
}

Test(fuzz_shm, offers, .timeout = 6000)
{
    unsigned char *peers = mmap(NULL, 2 * AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                -1, 0);
    int statuses[2];

    cr_assert(peers != MAP_FAILED);
    loco_fork_run(2, fuzzed, peers, statuses);
    cr_assert_eq(statuses[0], 0);
    cr_assert_eq(statuses[1], 0);
    munmap(peers, 2 * AREA);
}

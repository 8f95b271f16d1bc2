/* SPDX-License-Identifier: BSD-3-Clause */

/* Offers of small copies to a process that happens to be waiting: between forked processes, where
 * the target polls, does not, or is killed, and origins are. Members return 0, or 1 and a line. */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <loco/fork.h>

#include "fabric/shm/offer.h"
#include "move/rma.h"
#include "run.h"
#include "wait.h"

#define AREA ((size_t)1 << 16)      /* of the target's memory, of each origin */
#define MEMBERS 8
#define TARGET 0

/* In the target's pool memory. */
enum word { LOCK, DONE, WORDS };

/* How the target passes its time. */
enum way { POLLS, SLEEPS, MIXES };

struct world {
    loco_runtime_t *rt;
    const struct loco_exchange *exchange;
    enum way way;
    int me, n;
    unsigned seed;
    struct loci_mem pool, user, pool_of[MEMBERS], user_of[MEMBERS];
    unsigned char *memory;          /* of `user`: an area for each */
};

static int together(struct world *w)
{
    unsigned char nothing[1];

    return w->exchange->allgather(w->exchange->ctx, NULL, 0, nothing);
}

static int share(struct world *w, const struct loci_mem *mine, struct loci_mem *all)
{
    struct loci_memkey keys[MEMBERS];

    CHECK_OK(w->exchange->allgather(w->exchange->ctx, &mine->key, sizeof mine->key, keys));
    /* Without an endpoint or a window: what the fabric has for them stays, also of the dead. */
    loci_peers_use(w->rt, w->rt->everyone->peer, w->n);
    for (int i = 0; i < w->n; i++)
        CHECK_OK(loci_mem_import(w->rt, w->rt->everyone->peer[i], &keys[i], &all[i]));
    return 0;
}

static int enter(struct world *w, const struct loco_bootstrap *boot, enum way way,
                 const char *setting)
{
    const char *const settings[] = { setting, NULL };
    struct loco_bootstrap mine = *boot;
    size_t len = AREA * MEMBERS;

    *w = (struct world){
        .exchange = &boot->exchange, .way = way, .me = boot->exchange.rank,
        .n = boot->exchange.size, .seed = (unsigned)run_now() + (unsigned)boot->exchange.rank,
    };
    mine.settings = settings;
    CHECK_OK(loco_runtime_open(&mine, &w->rt));
    CHECK_OK(loci_alloc(w->rt, 8 * WORDS, 0, &w->pool));
    w->memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(w->memory != MAP_FAILED);
    CHECK_OK(loci_user_add(w->rt, w->memory, len, &w->user));
    CHECK_EQ(share(w, &w->pool, w->pool_of), 0);
    CHECK_EQ(share(w, &w->user, w->user_of), 0);
    CHECK(loci_mem_map(w->rt, &w->pool_of[TARGET]) != NULL);
    return 0;
}

static int leave(struct world *w)
{
    CHECK_OK(together(w));
    loci_user_remove(w->rt, &w->user);
    loci_free(w->rt, &w->pool);
    loco_runtime_close(w->rt);
    munmap(w->memory, AREA * MEMBERS);
    return 0;
}

static unsigned char *word(struct world *w, enum word which)
{
    return loci_mem_ptr(&w->pool_of[TARGET]) + 8 * which;
}

/* The target, until `origins` have said that they are done. */
static void pass_time(struct world *w, uint64_t origins)
{
    unsigned rounds = 0;

    while (loci_load64(word(w, DONE)) < origins) {
        if (w->way == SLEEPS || (w->way == MIXES && rand_r(&w->seed) % 200 == 0))
            usleep(100);
        else
            loci_wait_round(w->rt, &rounds);
    }
}

static struct shm_peer *target_of(struct world *w)
{
    return loci_peer(w->rt, w->user_of[TARGET].peer)->fabric_data;
}

static unsigned slots_in_use(struct world *w)
{
    return loci_shm_offers_in_use(shm_of(w->rt->fabric));
}

/* How many of `tries` offers are taken. */
static int count_taken(struct world *w, int tries)
{
    struct shm_peer *p = target_of(w);
    int taken = 0, done;
    uint64_t value = 0;

    for (int i = 0; i < tries; i++) {
        struct loci_op op = {
            .kind = LOCI_READ, .mem = &w->user_of[TARGET], .offset = AREA * (size_t)w->me,
            .local = &value, .len = sizeof value,
        };

        taken += loci_shm_offer(p, &op, 1, &done) == LOCO_OK;
    }
    return taken;
}

/* A member that fails leaves the others waiting. */
TestSuite(offer, .timeout = RUN_SECONDS);

/* ---- data ---- */

/* Some writes or reads of this member's area at the target, as one chain. */
static int move(struct world *w, enum loci_op_kind kind, size_t offset, unsigned char *local,
                size_t len)
{
    struct loci_op op[4];
    size_t at = 0;
    int n = 1 + rand_r(&w->seed) % 4;

    for (int i = 0; i < n; i++) {
        size_t left = len - at, one = i == n - 1 ? left : (size_t)rand_r(&w->seed) % (left + 1);

        op[i] = (struct loci_op){
            .kind = kind, .mem = &w->user_of[TARGET],
            .offset = AREA * (size_t)w->me + offset + at, .local = local + at, .len = one,
        };
        at += one;
    }
    return loci_post_spans(w->rt, op, n, NULL);
}

/* Writes and reads of all sizes, beside a copy that says what must be there. */
static int write_and_read(struct world *w, int times)
{
    static unsigned char mine[AREA], back[AREA];

    for (int i = 0; i < times; i++) {
        size_t len = (size_t)rand_r(&w->seed) % (i % 2 == 0 ? 64 : 8193);
        size_t offset = (size_t)rand_r(&w->seed) % (AREA - len + 1);

        if (rand_r(&w->seed) % 2 == 0) {
            for (size_t k = 0; k < len; k++)
                mine[offset + k] = (unsigned char)rand_r(&w->seed);
            CHECK_OK(move(w, LOCI_WRITE, offset, mine + offset, len));
        } else {
            CHECK_OK(move(w, LOCI_READ, offset, back, len));
            CHECK(memcmp(back, mine + offset, len) == 0);
        }
    }
    CHECK_OK(move(w, LOCI_READ, 0, back, AREA));
    CHECK(memcmp(back, mine, AREA) == 0);
    return 0;
}

static int data(const struct loco_bootstrap *boot, enum way way)
{
    struct world w;

    CHECK_EQ(enter(&w, boot, way, NULL), 0);
    if (w.me == TARGET) {
        pass_time(&w, (uint64_t)w.n - 1);
        CHECK_EQ(slots_in_use(&w), 0);
        for (size_t i = 0; i < AREA; i++)       /* nobody's */
            CHECK_EQ(w.memory[i], 0);
    } else {
        CHECK_EQ(write_and_read(&w, 600), 0);
        loci_cpu_fetch_add(word(&w, DONE), 1);
    }
    return leave(&w);
}

static int data_polls(const struct loco_bootstrap *boot, void *arg)
{
    (void)arg;
    return data(boot, POLLS);
}

static int data_sleeps(const struct loco_bootstrap *boot, void *arg)
{
    (void)arg;
    return data(boot, SLEEPS);
}

static int data_mixes(const struct loco_bootstrap *boot, void *arg)
{
    (void)arg;
    return data(boot, MIXES);
}

Test(offer, copies_for_a_target_that_polls)
{
    cr_assert_eq(loco_fork_run(4, data_polls, NULL, NULL), LOCO_OK);
}

Test(offer, copies_without_a_target_that_sleeps)
{
    cr_assert_eq(loco_fork_run(4, data_sleeps, NULL, NULL), LOCO_OK);
}

Test(offer, copies_with_a_target_that_does_both)
{
    cr_assert_eq(loco_fork_run(4, data_mixes, NULL, NULL), LOCO_OK);
}

/* ---- once ---- */

static void lock(struct world *w)
{
    unsigned rounds = 0;

    while (loci_cpu_compare_swap(word(w, LOCK), 0, 1) != 0)
        loci_wait_round(w->rt, &rounds);
}

/* Add 1 to a counter, by the target or by a read and a write; every third time by a compare and
 * swap. All under the lock where others add, too. */
static int add(struct world *w, uint64_t offset)
{
    struct loci_mem *mem = &w->user_of[TARGET];
    uint64_t old = 0, seen;
    struct loci_op op = { .kind = LOCI_FETCH_ADD, .mem = mem, .offset = offset, .len = 8,
                          .operand = 1, .result = &seen };
    int status;

    CHECK_OK(loci_read(w->rt, mem, offset, &old, 8, NULL));
    if (rand_r(&w->seed) % 3 == 0) {
        op.kind = LOCI_COMPARE_SWAP;
        op.compare = old;
        op.operand = old + 1;
    }
    status = loci_try_update(w->rt, &op);
    if (status == LOCO_OK) {
        CHECK_EQ(seen, old);
        return 0;
    }
    CHECK_EQ(status, LOCO_ERR_AGAIN);
    old++;
    CHECK_OK(loci_write(w->rt, mem, offset, &old, 8, NULL));
    return 0;
}

#define ADDS 3000

static int once(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    uint64_t sum;

    (void)arg;
    CHECK_EQ(enter(&w, boot, MIXES, NULL), 0);
    if (w.me == TARGET) {
        pass_time(&w, (uint64_t)w.n - 1);
        memcpy(&sum, w.memory, sizeof sum);
        CHECK_EQ(sum, ADDS * (w.n - 1));
        for (int i = 1; i < w.n; i++) {
            memcpy(&sum, w.memory + AREA * (size_t)i, sizeof sum);
            CHECK_EQ(sum, ADDS);
        }
        CHECK_EQ(slots_in_use(&w), 0);
        return leave(&w);
    }
    for (int i = 0; i < ADDS; i++) {
        lock(&w);
        CHECK_EQ(add(&w, 0), 0);
        loci_store64(word(&w, LOCK), 0);
        CHECK_EQ(add(&w, AREA * (uint64_t)w.me), 0);
    }
    loci_cpu_fetch_add(word(&w, DONE), 1);
    return leave(&w);
}

Test(offer, each_is_done_once)
{
    cr_assert_eq(loco_fork_run(4, once, NULL, NULL), LOCO_OK);
}

/* Small words wrap, and their neighbours stay. */
static int words(const struct loco_bootstrap *boot, void *arg)
{
    const size_t sizes[] = { 1, 2, 4, 8 };
    struct world w;
    uint64_t old;

    (void)arg;
    CHECK_EQ(enter(&w, boot, POLLS, NULL), 0);
    if (w.me == TARGET) {
        memset(w.memory, 0xff, 64);
        CHECK_OK(together(&w));
        pass_time(&w, 1);
        for (size_t i = 0; i < 4; i++)
            for (size_t k = 0; k < 16; k++)
                CHECK_EQ(w.memory[16 * i + k], k < sizes[i] ? 0 : 0xff);
        return leave(&w);
    }
    CHECK_OK(together(&w));
    for (size_t i = 0; i < 4; i++) {
        struct loci_op op = { .kind = LOCI_FETCH_ADD, .mem = &w.user_of[TARGET],
                              .offset = 16 * i, .len = sizes[i], .operand = 1, .result = &old };
        int64_t end = run_now() + run_limit(INT64_C(20000000000));

        while (loci_try_update(w.rt, &op) != LOCO_OK)
            CHECK(run_now() < end);
        CHECK_EQ(old, UINT64_MAX >> (64 - 8 * sizes[i]));
    }
    loci_cpu_fetch_add(word(&w, DONE), 1);
    return leave(&w);
}

Test(offer, adds_to_words_of_each_size)
{
    cr_assert_eq(loco_fork_run(2, words, NULL, NULL), LOCO_OK);
}

/* ---- who offers, and to whom ---- */

/* For ever, where none is: the test's time ends. */
static void until_taken(struct world *w, int wanted)
{
    for (int n = 0; n < wanted; n += count_taken(w, 1000))
        usleep(10);
}

static int taken(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;

    (void)arg;
    CHECK_EQ(enter(&w, boot, POLLS, NULL), 0);
    if (w.me == TARGET) {
        pass_time(&w, 1);
        return leave(&w);
    }
    until_taken(&w, 100);
    loci_cpu_fetch_add(word(&w, DONE), 1);
    return leave(&w);
}

Test(offer, is_taken_by_who_polls)
{
    cr_assert_eq(loco_fork_run(2, taken, NULL, NULL), LOCO_OK);
}

static int not_taken(const struct loco_bootstrap *boot, enum way way, const char *setting,
                     unsigned backoff)
{
    struct world w;

    CHECK_EQ(enter(&w, boot, way, setting), 0);
    if (w.me == TARGET) {
        pass_time(&w, 1);
        return leave(&w);
    }
    CHECK_EQ(count_taken(&w, 5000), 0);
    /* Soon it does not try any more, but now and then. */
    CHECK_EQ(atomic_load(&target_of(&w)->offers_guess.backoff), backoff);
    loci_cpu_fetch_add(word(&w, DONE), 1);
    return leave(&w);
}

static int who_sleeps(const struct loco_bootstrap *boot, void *arg)
{
    (void)arg;
    return not_taken(boot, SLEEPS, NULL, 10);
}

static int unwanted(const struct loco_bootstrap *boot, void *arg)
{
    (void)arg;
    return not_taken(boot, POLLS, "LOCO_OFFERS=never", 0);
}

static int unwanted_there(const struct loco_bootstrap *boot, void *arg)
{
    (void)arg;
    return not_taken(boot, POLLS, boot->exchange.rank == TARGET ? "LOCO_OFFERS=never" : NULL, 0);
}

Test(offer, is_not_taken_by_who_sleeps)
{
    cr_assert_eq(loco_fork_run(2, who_sleeps, NULL, NULL), LOCO_OK);
}

Test(offer, is_not_made_where_it_is_turned_off)
{
    cr_assert_eq(loco_fork_run(2, unwanted, NULL, NULL), LOCO_OK);
    cr_assert_eq(loco_fork_run(2, unwanted_there, NULL, NULL), LOCO_OK);
}

/* What is not registered is not touched by the target; the system copies what it may. */
static int removed(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    uint64_t value = 7;
    int done;

    (void)arg;
    CHECK_EQ(enter(&w, boot, POLLS, NULL), 0);
    if (w.me == TARGET) {
        loci_user_remove(w.rt, &w.user);
        CHECK_OK(together(&w));
        pass_time(&w, 1);
        CHECK_EQ(slots_in_use(&w), 0);
        CHECK_EQ(w.memory[0], 0);
        return leave(&w);
    }
    CHECK_OK(together(&w));
    for (int i = 0; i < 2000; i++) {
        struct loci_op op = { .kind = LOCI_WRITE, .mem = &w.user_of[TARGET], .local = &value,
                              .len = sizeof value };

        atomic_store(&target_of(&w)->offers_guess.to_skip, 0);
        CHECK_EQ(loci_shm_offer(target_of(&w), &op, 1, &done), LOCO_ERR_AGAIN);
    }
    loci_cpu_fetch_add(word(&w, DONE), 1);
    return leave(&w);
}

Test(offer, reaches_registered_memory_only)
{
    cr_assert_eq(loco_fork_run(2, removed, NULL, NULL), LOCO_OK);
}

/* Nor what begins or ends outside of it, by reads, writes or additions. */
static int outside(const struct loco_bootstrap *boot, void *arg)
{
    const uint64_t offsets[] = { AREA * MEMBERS - 4, (uint64_t)0 - 4, AREA * MEMBERS };
    struct world w;
    int done;

    (void)arg;
    CHECK_EQ(enter(&w, boot, POLLS, NULL), 0);
    if (w.me == TARGET) {
        pass_time(&w, 1);
        CHECK_EQ(w.memory[0], 0);
        CHECK_EQ(w.memory[AREA * MEMBERS - 4], 0);
        return leave(&w);
    }
    for (int i = 0; i < 3000; i++) {
        uint64_t value = UINT64_MAX, old;
        struct loci_op op = { .kind = LOCI_WRITE, .mem = &w.user_of[TARGET],
                              .offset = offsets[i % 3], .local = &value, .len = sizeof value,
                              .operand = 1, .result = &old };

        if (i % 100 == 0)
            until_taken(&w, 1);         /* the target is there */
        atomic_store(&target_of(&w)->offers_guess.to_skip, 0);
        CHECK_EQ(loci_shm_offer(target_of(&w), &op, 1, &done), LOCO_ERR_AGAIN);
        op.kind = LOCI_READ;
        CHECK_EQ(loci_shm_offer(target_of(&w), &op, 1, &done), LOCO_ERR_AGAIN);
        op.kind = LOCI_FETCH_ADD;
        CHECK_EQ(loci_try_update(w.rt, &op), LOCO_ERR_AGAIN);
    }
    loci_cpu_fetch_add(word(&w, DONE), 1);
    return leave(&w);
}

Test(offer, stays_inside_registered_memory)
{
    cr_assert_eq(loco_fork_run(2, outside, NULL, NULL), LOCO_OK);
}

/* ---- deaths ---- */

#define KILLS 12

static void kill_later(loco_fork_t *job, int rank, unsigned *seed)
{
    usleep(1000 + (unsigned)rand_r(seed) % 20000);
    kill(loco_fork_pid(job, rank), SIGKILL);
}

/* The parent and the members tell each other how far they are. */
struct stage {
    _Atomic int ready;
};

static struct stage *new_stage(void)
{
    struct stage *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert(stage != MAP_FAILED);
    return stage;
}

static void until_ready(struct stage *stage, int n)
{
    while (atomic_load(&stage->ready) < n)
        usleep(100);
}

static int until_target_dies(const struct loco_bootstrap *boot, void *arg)
{
    struct stage *stage = arg;
    unsigned char data[512] = { 0 };
    struct world w;
    int status = LOCO_OK;

    CHECK_EQ(enter(&w, boot, POLLS, NULL), 0);
    atomic_fetch_add(&stage->ready, 1);
    if (w.me == TARGET)
        pass_time(&w, 1);       /* never */
    while (status == LOCO_OK)
        status = loci_read(w.rt, &w.user_of[TARGET], AREA * (uint64_t)w.me, data,
                           1 + (size_t)rand_r(&w.seed) % sizeof data, NULL);
    CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
    loco_runtime_close(w.rt);
    return 0;
}

Test(offer, ends_when_the_target_is_killed)
{
    unsigned seed = (unsigned)run_now();

    for (int i = 0; i < KILLS; i++) {
        struct stage *stage = new_stage();
        loco_fork_t *job;
        int statuses[4];

        cr_assert_eq(loco_fork_start(4, until_target_dies, stage, &job), LOCO_OK);
        until_ready(stage, 4);
        kill_later(job, TARGET, &seed);
        loco_fork_wait(job, statuses);
        for (int k = 1; k < 4; k++)
            cr_assert_eq(statuses[k], 0, "member %d: %d", k, statuses[k]);
        munmap(stage, sizeof *stage);
    }
}

static int all_are_noticed(void *arg)
{
    struct world *w = arg;

    for (int i = 2; i < w->n; i++)
        if (loci_peer_alive(w->rt, w->user_of[i].peer))
            return 0;
    return 1;
}

/* Members from 2 on are killed in the middle of it; 1 goes on until the target has noticed. */
static int until_origins_die(const struct loco_bootstrap *boot, void *arg)
{
    const struct loci_reason why = { .what = "deaths", .peer = -1,
                                     .timeout_ns = LOCO_FOREVER };
    struct stage *stage = arg;
    unsigned char data[512] = { 0 };
    struct world w;

    CHECK_EQ(enter(&w, boot, POLLS, NULL), 0);
    atomic_fetch_add(&stage->ready, 1);
    if (w.me == TARGET) {
        CHECK_OK(loci_wait(w.rt, &why, all_are_noticed, &w));
        loci_cpu_fetch_add(word(&w, DONE), 1);
        pass_time(&w, 2);
        CHECK_EQ(slots_in_use(&w), 0);
    } else {
        while (loci_load64(word(&w, DONE)) == 0 || w.me > 1) {
            /* Always in the middle of an offer. */
            atomic_store(&target_of(&w)->offers_guess.to_skip, 0);
            CHECK_OK(loci_write(w.rt, &w.user_of[TARGET], AREA * (uint64_t)w.me, data,
                                1 + (size_t)rand_r(&w.seed) % sizeof data, NULL));
        }
        loci_cpu_fetch_add(word(&w, DONE), 1);
    }
    loco_runtime_close(w.rt);
    return 0;
}

Test(offer, of_the_killed_blocks_no_slot)
{
    unsigned seed = (unsigned)run_now();

    for (int i = 0; i < KILLS / 2; i++) {
        struct stage *stage = new_stage();
        loco_fork_t *job;
        int statuses[6];

        cr_assert_eq(loco_fork_start(6, until_origins_die, stage, &job), LOCO_OK);
        until_ready(stage, 6);
        for (int k = 2; k < 6; k++)
            kill_later(job, k, &seed);
        loco_fork_wait(job, statuses);
        cr_assert_eq(statuses[0], 0, "target: %d", statuses[0]);
        cr_assert_eq(statuses[1], 0, "origin: %d", statuses[1]);
        munmap(stage, sizeof *stage);
    }
}

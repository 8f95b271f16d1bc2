/* SPDX-License-Identifier: BSD-3-Clause */

/* Strips of the user's memory that the target moves if it happens to be waiting: between forked
 * processes, where it polls, sleeps, is killed, and where origins do not copy. Members return 0,
 * or 1 and a line. */

#include "shm_world.h"

#include <signal.h>

#include "fabric/shm/offer.h"
#include "fabric/shm/own.h"
#include "move/strip.h"

#define AREA ((size_t)1 << 20)      /* of the target's memory */
#define CELL 64                     /* bytes; origins own every second one */
#define ORIGINS 2
#define TARGET 0
#define ROUNDS 400
#define MANY_STRIPS 6

enum way { POLLS, SLEEPS, MIXES, FORBIDDEN };

struct strided {
    struct world w;
    struct loci_mem mem, at_target;
    unsigned char *memory;
    unsigned seed;
    enum way way;
};

static int enter_strided(struct strided *s, const struct loco_bootstrap *boot, enum way way)
{
    struct loci_mem all[8];

    NEED(enter(&s->w, boot, way == FORBIDDEN ? &never : &plain) == 0);
    s->way = way;
    s->seed = (unsigned)run_now() + (unsigned)s->w.me;
    s->memory = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(s->memory != MAP_FAILED);
    NEED(loci_user_add(s->w.rt, s->memory, AREA, &s->mem) == LOCO_OK);
    NEED(share(&s->w, &s->mem, all) == 0);
    s->at_target = all[TARGET];
    NEED(loci_mem_map(s->w.rt, &s->w.pools[TARGET]) != NULL);
    NEED(together(&s->w) == LOCO_OK);
    return 0;
}

static int leave_strided(struct strided *s)
{
    NEED(together(&s->w) == LOCO_OK);
    loci_user_remove(s->w.rt, &s->mem);
    munmap(s->memory, AREA);
    return leave(&s->w);
}

static unsigned char *count_of_done(struct strided *s)
{
    return loci_mem_ptr(&s->w.pools[TARGET]);
}

static void pass_time(struct strided *s, uint64_t origins)
{
    unsigned rounds = 0;

    while (loci_load64(count_of_done(s)) < origins) {
        if (s->way == SLEEPS || (s->way == MIXES && rand_r(&s->seed) % 200 == 0))
            usleep(100);
        else
            loci_wait_round(s->w.rt, &rounds);
    }
}

static unsigned below(struct strided *s, unsigned n)
{
    return (unsigned)rand_r(&s->seed) % n;
}

/* Strips in this origin's cells, forwards or backwards, each in a part of the area of its own;
 * how many bytes. */
static size_t make_strips(struct strided *s, struct loci_strip *strips, int n)
{
    const unsigned cells = AREA / CELL / MANY_STRIPS / ORIGINS;
    size_t bytes = 0;

    for (int i = 0; i < n; i++) {
        unsigned len = 1 + below(s, CELL), step = 1 + below(s, below(s, 2) ? 2 : 200);
        unsigned blocks = 1 + below(s, LOCI_STRIDED_BYTES / MANY_STRIPS / len);
        unsigned first = (unsigned)i * cells, last;

        blocks = blocks < (cells - 1) / step ? blocks : (cells - 1) / step;
        last = first + (blocks - 1) * step;
        strips[i] = (struct loci_strip){
            .at = (uint64_t)first * CELL * ORIGINS, .len = len, .blocks = blocks,
            .stride = (int64_t)step * CELL * ORIGINS,
        };
        if (below(s, 3) == 0) {
            strips[i].at = (uint64_t)last * CELL * ORIGINS;
            strips[i].stride = -strips[i].stride;
        }
        strips[i].at += (uint64_t)(s->w.me - 1) * CELL + below(s, CELL - len + 1);
        bytes += (size_t)len * blocks;
    }
    return bytes;
}

/* Where the origin may not copy, it is not done unless the target does it. */
static int strided(struct strided *s, struct loci_strided *op)
{
    int status = loci_try_strided(s->w.rt, op);
    struct loci_strided again = *op;

    if (status != LOCO_ERR_AGAIN || s->way != FORBIDDEN)
        return status;
    for (int i = 0; i < op->n; i++)
        for (uint64_t k = 0; k < op->strips[i].blocks; k++) {
            uint64_t at = op->strips[i].at + k * (uint64_t)op->strips[i].stride;
            size_t len = op->strips[i].len;

            status = op->kind == LOCI_WRITE
                     ? loci_write(s->w.rt, &s->at_target, at, again.packed, len, NULL)
                     : loci_read(s->w.rt, &s->at_target, at, again.packed, len, NULL);
            if (status != LOCO_OK)
                return status;
            again.packed += len;
        }
    return LOCO_OK;
}

/* Writes and reads beside a copy that says what must be there: also that nobody writes between
 * another's blocks, which are his. */
static int write_and_read(struct strided *s, int rounds)
{
    static unsigned char packed[LOCI_STRIDED_BYTES + 1], model[AREA], back[AREA];

    for (int i = 0; i < rounds; i++) {
        struct loci_strip strips[MANY_STRIPS];
        int n = 1 + (int)below(s, MANY_STRIPS);
        size_t bytes = make_strips(s, strips, n);
        struct loci_strided op = {
            .kind = LOCI_WRITE, .mem = &s->at_target, .strips = strips, .n = n,
            .shift = s->at_target.key.base, .packed = packed, .bytes = bytes,
        };
        unsigned char *end = packed;

        for (size_t k = 0; k < bytes; k++)
            packed[k] = (unsigned char)below(s, 256);
        for (int k = 0; k < n; k++)
            end = loci_strip_copy(&strips[k], model + strips[k].at, end, true);
        NEED((size_t)(end - packed) == bytes);
        NEED(strided(s, &op) == LOCO_OK);
        bytes = make_strips(s, strips, n);
        op.bytes = bytes;
        op.kind = LOCI_READ;
        memset(packed, 0xee, sizeof packed);
        NEED(strided(s, &op) == LOCO_OK);
        NEED(packed[bytes] == 0xee);
        end = packed;
        for (int k = 0; k < n; k++) {
            loci_strip_copy(&strips[k], model + strips[k].at, back, false);
            NEED(memcmp(back, end, strips[k].len * strips[k].blocks) == 0);
            end += strips[k].len * strips[k].blocks;
        }
    }
    NEED(loci_read(s->w.rt, &s->at_target, 0, back, AREA, NULL) == LOCO_OK);
    for (size_t at = (size_t)(s->w.me - 1) * CELL; at < AREA; at += CELL * ORIGINS)
        NEED(memcmp(back + at, model + at, CELL) == 0);
    return 0;
}

static int data(const struct loco_bootstrap *boot, void *arg)
{
    struct strided s;

    NEED(enter_strided(&s, boot, *(enum way *)arg) == 0);
    if (s.w.me == TARGET) {
        pass_time(&s, ORIGINS);
        NEED(loci_shm_offers_in_use(shm_of(s.w.rt->fabric)) == 0);
    } else {
        NEED(write_and_read(&s, s.way == FORBIDDEN ? ROUNDS / 40 : ROUNDS) == 0);
        loci_cpu_fetch_add(count_of_done(&s), 1);
    }
    return leave_strided(&s);
}

TestSuite(strided, .timeout = 300);

static void check_data(enum way way)
{
    cr_assert_eq(loco_fork_run(1 + ORIGINS, data, &way, NULL), LOCO_OK);
}

Test(strided, moves_with_a_target_that_polls)
{
    check_data(POLLS);
}

Test(strided, moves_without_a_target_that_sleeps)
{
    check_data(SLEEPS);
}

Test(strided, moves_with_a_target_that_does_both)
{
    check_data(MIXES);
}

Test(strided, moves_where_the_origin_may_not_copy)
{
    check_data(FORBIDDEN);
}

/* ---- who does it ---- */

/* Whether the target does a column: the origin's guess says so. Or the error. */
static int column_by_target(struct strided *s, enum loci_op_kind kind)
{
    static unsigned char packed[8 * 512];
    const struct loci_strip column = { 0, 8, 1024, 512 };
    struct shm_peer *p = loci_peer(s->w.rt, s->at_target.peer)->fabric_data;
    struct loci_strided op = {
        .kind = kind, .mem = &s->at_target, .strips = &column, .n = 1,
        .shift = s->at_target.key.base, .packed = packed, .bytes = sizeof packed,
    };
    int status;

    atomic_store(&p->strided_guess.to_skip, 0);
    atomic_store(&p->strided_guess.backoff, 3);
    status = loci_try_strided(s->w.rt, &op);
    if (status != LOCO_OK)
        return status;
    return atomic_load(&p->strided_guess.backoff) < 3;
}

/* For ever, where it does none: the test's time ends. */
static int taken(const struct loco_bootstrap *boot, void *arg)
{
    struct strided s;

    (void)arg;
    NEED(enter_strided(&s, boot, POLLS) == 0);
    if (s.w.me == TARGET) {
        pass_time(&s, 1);
        return leave_strided(&s);
    }
    for (int kind = LOCI_WRITE; kind <= LOCI_READ; kind++) {
        int done;

        do {
            done = column_by_target(&s, (enum loci_op_kind)kind);
            NEED(done >= 0);
        } while (done == 0);
    }
    loci_cpu_fetch_add(count_of_done(&s), 1);
    return leave_strided(&s);
}

Test(strided, is_taken_by_who_polls)
{
    cr_assert_eq(loco_fork_run(2, taken, NULL, NULL), LOCO_OK);
}

static int not_taken(const struct loco_bootstrap *boot, void *arg)
{
    struct strided s;

    (void)arg;
    NEED(enter_strided(&s, boot, SLEEPS) == 0);
    if (s.w.me == TARGET) {
        pass_time(&s, 1);
        return leave_strided(&s);
    }
    for (int i = 0; i < 100; i++)
        NEED(column_by_target(&s, LOCI_WRITE) == 0);
    loci_cpu_fetch_add(count_of_done(&s), 1);
    return leave_strided(&s);
}

Test(strided, is_not_taken_by_who_sleeps)
{
    cr_assert_eq(loco_fork_run(2, not_taken, NULL, NULL), LOCO_OK);
}

/* ---- combining ---- */

#define COUNTERS 300            /* words of 8 bytes, two cells apart */
#define ADDITIONS 300

/* Adds words; what = 1: the operands become what was there. */
static bool add_words(uint32_t what, void *target, void *operand, size_t len)
{
    unsigned char *to = target, *from = operand;

    if (what > 1 || len % 8 != 0)
        return false;
    for (size_t i = 0; target != NULL && i < len; i += 8) {
        uint64_t a, b, sum;

        memcpy(&a, to + i, 8);
        memcpy(&b, from + i, 8);
        sum = a + b;
        memcpy(to + i, &sum, 8);
        if (what == 1)
            memcpy(from + i, &a, 8);
    }
    return true;
}

static int add_alone(struct strided *s, const struct loci_strip *strip, unsigned char *operand,
                     unsigned char *old)
{
    for (uint64_t k = 0; k < strip->blocks; k++) {
        uint64_t at = strip->at + k * (uint64_t)strip->stride;
        unsigned char word[8];

        NEED(loci_read(s->w.rt, &s->at_target, at, word, 8, NULL) == LOCO_OK);
        memcpy(old + 8 * k, word, 8);
        add_words(0, word, operand + 8 * k, 8);
        NEED(loci_write(s->w.rt, &s->at_target, at, word, 8, NULL) == LOCO_OK);
    }
    return 0;
}

/* Every addition is done once, by origin or target, under the lock of the second word; old values
 * and what is there at last say so. */
static int additions(struct strided *s)
{
    struct loci_strip strip = { 0, 8, 2 * CELL, COUNTERS };
    static unsigned char operand[8 * COUNTERS], old[8 * COUNTERS];
    struct loci_strided op = {
        .kind = LOCI_WRITE, .mem = &s->at_target, .strips = &strip, .n = 1,
        .shift = s->at_target.key.base, .packed = operand, .bytes = sizeof operand, .what = 1,
        .old = old,
    };
    unsigned char *lock = count_of_done(s) + 64;

    for (uint64_t i = 1; i <= ADDITIONS; i++) {
        uint64_t first;
        int status;

        strip.blocks = i % 3 == 0 ? 1 : COUNTERS;       /* the first word every time */
        op.bytes = 8 * strip.blocks;
        for (uint64_t k = 0; k < strip.blocks; k++)
            memcpy(operand + 8 * k, &(uint64_t){ 1 + (k << 32) }, 8);
        while (loci_cpu_compare_swap(lock, 0, 1) != 0)
            loci_wait_round(s->w.rt, &(unsigned){ 1000000 });
        status = loci_try_combine(s->w.rt, &op);
        if (status == LOCO_ERR_AGAIN)
            status = add_alone(s, &strip, operand, old);
        first = loci_load64(lock + 8);
        loci_store64(lock + 8, first + 1);
        loci_store64(lock, 0);
        NEED(status == LOCO_OK);
        NEED(memcmp(old, &first, 8) == 0);
    }
    return 0;
}

static int combined(const struct loco_bootstrap *boot, void *arg)
{
    const uint64_t all = ADDITIONS * ORIGINS, long_ones = (ADDITIONS - ADDITIONS / 3) * ORIGINS;
    struct strided s;

    NEED(enter_strided(&s, boot, *(enum way *)arg) == 0);
    atomic_store(&s.w.rt->combine, add_words);
    NEED(together(&s.w) == LOCO_OK);
    if (s.w.me == TARGET) {
        pass_time(&s, ORIGINS);
        for (uint64_t k = 0; k < COUNTERS; k++) {
            uint64_t want = k == 0 ? all : long_ones * (1 + (k << 32));

            NEED(memcmp(s.memory + 2 * CELL * k, &want, 8) == 0);
        }
    } else {
        NEED(additions(&s) == 0);
        loci_cpu_fetch_add(count_of_done(&s), 1);
    }
    return leave_strided(&s);
}

Test(strided, combines_once_with_a_target_that_polls)
{
    enum way way = POLLS;

    cr_assert_eq(loco_fork_run(1 + ORIGINS, combined, &way, NULL), LOCO_OK);
}

Test(strided, combines_once_with_a_target_that_does_both)
{
    enum way way = MIXES;

    cr_assert_eq(loco_fork_run(1 + ORIGINS, combined, &way, NULL), LOCO_OK);
}

/* ---- what a peer may ask for ---- */

static int help(struct shm_fabric *f, const struct shm_user *user, struct shm_slot *slot)
{
    const struct shm_wish wish = loci_shm_wish(slot);

    return loci_shm_strided_help(f, user, &wish, slot);
}

Test(strided, stays_inside_registered_memory)
{
    static unsigned char memory[4096], expected[4096];
    const uint64_t at = (uintptr_t)memory + 1024;
    const struct shm_user user = { .base = at, .len = 1024 };
    const struct loci_strip wrong[] = {
        { at - 8, 8, 16, 4 }, { at + 1024, 8, 16, 1 }, { at + 1020, 8, 16, 1 },
        { at, 8, 64, 17 }, { at + 512, 8, -64, 10 }, { at, 8, 1 << 20, UINT64_C(1) << 44 },
        { at, 8, INT64_MAX, 3 }, { at, 8, INT64_MIN, 2 }, { at, UINT64_MAX, 8, 1 },
        { at, UINT64_MAX - 8, 8, 2 }, { at, 8, 0, UINT64_MAX }, { at, 0, 8, 4 },
        { at, 8, 8, 0 }, { 0, 8, 8, 4 }, { UINT64_MAX, 8, 8, 1 }, { at, 512, 0, 100 },
    };
    const struct loci_strip good = { at + 1016, 8, -16, 64 };
    struct shm_fabric f = { .scratch.base = NULL };
    struct shm_slot *slot = (struct shm_slot *)(void *)loci_shm_scratch(&f);

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct loci_strip both[2] = { good, wrong[i] };

        memset(slot->body, 0xff, SHM_SLOT_BODY);
        memcpy(slot->body, both, sizeof both);
        slot->op = LOCI_WRITE | SHM_STRIDED;
        slot->nspans = 2;
        cr_assert_eq(help(&f, &user, slot), LOCO_ERR_RANGE, "%zu", i);
        cr_assert_eq(memcmp(memory, expected, sizeof memory), 0, "%zu", i);
    }
    memset(slot->body, 0xff, SHM_SLOT_BODY);
    memcpy(slot->body, &good, sizeof good);
    slot->nspans = UINT16_MAX;
    cr_assert_eq(help(&f, &user, slot), LOCO_ERR_RANGE);
    slot->nspans = 1;
    slot->op = LOCI_FETCH_ADD | SHM_STRIDED;
    cr_assert_eq(help(&f, &user, slot), LOCO_ERR_PROTOCOL);
    cr_assert_eq(memcmp(memory, expected, sizeof memory), 0);
    slot->op = LOCI_WRITE | SHM_STRIDED;
    cr_assert_eq(help(&f, &user, slot), LOCO_OK);
    cr_assert_eq(memory[1024 + 1016], 0xff);
    cr_assert_eq(memory[1024 + 8], 0xff);
    cr_assert_eq(memory[1024 + 0], 0);
    loci_shm_scratch_close(&f);
}

/* ---- deaths ---- */

static int until_target_dies(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *ready = arg;
    struct strided s;
    int done = 0;

    NEED(enter_strided(&s, boot, POLLS) == 0);
    atomic_fetch_add(ready, 1);
    if (s.w.me == TARGET)
        pass_time(&s, 1);           /* never */
    while (done >= 0)
        done = column_by_target(&s, LOCI_WRITE);
    NEED(done == LOCO_ERR_PEER_DEAD);
    loco_runtime_close(s.w.rt);
    return 0;
}

Test(strided, ends_when_the_target_is_killed)
{
    _Atomic int *ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned seed = (unsigned)run_now();

    cr_assert_neq(ready, MAP_FAILED);
    for (int i = 0; i < 8; i++) {
        loco_fork_t *job;
        int results[2];

        atomic_store(ready, 0);
        cr_assert_eq(loco_fork_start(2, until_target_dies, ready, &job), LOCO_OK);
        while (atomic_load(ready) < 2)
            usleep(100);
        usleep(1000 + (unsigned)rand_r(&seed) % 20000);
        kill(loco_fork_pid(job, TARGET), SIGKILL);
        loco_fork_wait(job, results);
        cr_assert_eq(results[1], 0);
    }
    munmap(ready, sizeof *ready);
}

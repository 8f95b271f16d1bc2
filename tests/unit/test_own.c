/* SPDX-License-Identifier: BSD-3-Clause */

/* User memory that cannot be touched, or that the system copies for nobody but its owner: whoever
 * does the copy, the origin hears of a fault and the target lives; and what only the owner can
 * reach is reached. Members return 0, or 1 and a line. */

#include "shm_world.h"

#include <sys/syscall.h>

#include "fabric/shm/offer.h"
#include "fabric/shm/own.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#define TARGET 0
#define ORIGIN 1
#define PAGE ((size_t)4096)
#define TIMES 400               /* more than offers are left out after some in vain */

/* ---- copies of one's own ---- */

static struct shm_fabric own_fabric;

static int copy(bool writes, const struct shm_span *spans, int n)
{
    struct shm_own own;

    loci_shm_own_begin(&own, &own_fabric, writes, loci_shm_scratch(&own_fabric) + 16);
    for (int i = 0; i < n; i++)
        loci_shm_own_add(&own, spans[i].at, spans[i].len);
    return loci_shm_own_end(&own);
}

static unsigned char *pages(int protection, size_t n)
{
    void *p = mmap(NULL, n * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(p, MAP_FAILED);
    return p;
}

/* Memory that the system copies for its owner alone; NULL: this kernel has none. */
static unsigned char *secret(size_t len)
{
    int fd = (int)syscall(SYS_memfd_secret, 0);
    void *p = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)len) == 0)
        p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return p == MAP_FAILED ? NULL : p;
}

Test(own, copies_many_spans)
{
    enum { MANY = 3 * SHM_OWN_SPANS + 5 };
    unsigned char *memory = pages(PROT_READ | PROT_WRITE, 40 * MANY / PAGE + 1),
                  *packed = loci_shm_scratch(&own_fabric);
    struct shm_span spans[MANY];

    cr_assert(16 + 40 * MANY <= SHM_SCRATCH);
    for (int i = 0; i < MANY; i++)      /* some adjoin, some have no bytes */
        spans[i] = (struct shm_span){ (uintptr_t)memory + 40 * (unsigned)i,
                                      i % 7 == 0 ? 0 : i % 3 == 0 ? 40 : 8 };
    for (size_t i = 0; i < 40 * MANY; i++)
        packed[16 + i] = (unsigned char)(i * 31 + 1);
    cr_assert_eq(copy(true, spans, MANY), LOCO_OK);
    for (size_t i = 0, at = 16; i < MANY; at += spans[i++].len) {
        cr_assert_eq(memcmp(memory + 40 * i, packed + at, spans[i].len), 0, "%zu", i);
        for (size_t k = spans[i].len; k < 40; k++)
            cr_assert_eq(memory[40 * i + k], 0, "%zu", i);
    }
    memset(packed, 0, 16 + 40 * MANY);
    cr_assert_eq(copy(false, spans, MANY), LOCO_OK);
    for (size_t i = 0, at = 16; i < MANY; at += spans[i++].len)
        cr_assert_eq(memcmp(memory + 40 * i, packed + at, spans[i].len), 0, "%zu", i);
    loci_shm_scratch_close(&own_fabric);
}

/* Locks are held around it. */
static void *is_cancelled(void *arg)
{
    const struct shm_span span = { (uintptr_t)arg, 8 };

    pthread_cancel(pthread_self());
    if (copy(true, &span, 1) != LOCO_OK || copy(false, &span, 1) != LOCO_OK)
        return NULL;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return arg;
}

Test(own, a_thread_is_not_cancelled_in_it)
{
    unsigned char *memory = pages(PROT_READ | PROT_WRITE, 1);
    pthread_t thread;
    void *result;

    cr_assert_neq(loci_shm_scratch(&own_fabric), NULL);
    cr_assert_eq(pthread_create(&thread, NULL, is_cancelled, memory), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert_eq(result, memory);
    loci_shm_scratch_close(&own_fabric);
}

Test(own, what_cannot_be_touched_is_a_status)
{
    unsigned char *good = pages(PROT_READ | PROT_WRITE, 2), *bad[3];
    const struct shm_span nothing = { 8, 8 }, kernel = { UINT64_MAX - 4096, 8 };

    bad[0] = pages(PROT_READ, 1);
    bad[1] = pages(PROT_NONE, 1);
    bad[2] = good + PAGE;
    cr_assert_eq(munmap(bad[2], PAGE), 0);
    for (int i = 0; i < 3; i++) {
        const struct shm_span spans[3] = { { (uintptr_t)good, 8 }, { (uintptr_t)bad[i], 8 },
                                           { (uintptr_t)good + 64, 8 } };

        cr_assert_eq(copy(true, spans, 3), LOCO_ERR_SYSTEM, "%d", i);
        cr_assert_eq(copy(true, spans + 1, 1), LOCO_ERR_SYSTEM, "%d", i);
        cr_assert_eq(copy(false, spans, 3), i == 0 ? LOCO_OK : LOCO_ERR_SYSTEM, "%d", i);
    }
    cr_assert_eq(copy(true, &(struct shm_span){ (uintptr_t)good + PAGE - 4, 8 }, 1),
                 LOCO_ERR_SYSTEM);
    cr_assert_eq(copy(true, &nothing, 1), LOCO_ERR_SYSTEM);
    cr_assert_eq(copy(false, &kernel, 1), LOCO_ERR_SYSTEM);
    loci_shm_scratch_close(&own_fabric);
}

/* ---- without a copy ---- */

static bool reach_pieces(const struct loci_piece *pieces, int n)
{
    bool yes = loci_shm_reach((struct loci_fabric *)&own_fabric, pieces, n);

    if (yes)
        loci_shm_reached((struct loci_fabric *)&own_fabric);
    return yes;
}

static bool reach(const unsigned char *page, size_t n)
{
    return reach_pieces(&(struct loci_piece){ (uintptr_t)page, n * PAGE }, 1);
}

/* More than an old kernel is asked for one by one. */
static void reach_many(void)
{
    enum { MANY = 100 };
    unsigned char *memory = pages(PROT_READ | PROT_WRITE, 2 * MANY), there[2 * MANY];
    struct loci_piece pieces[MANY];
    bool yes;

    for (size_t i = 0; i < MANY; i++)
        pieces[i] = (struct loci_piece){ (uintptr_t)memory + 2 * i * PAGE, PAGE };
    yes = reach_pieces(pieces, MANY);
    cr_assert_eq(mincore(memory, 2 * MANY * PAGE, there), 0);
    for (size_t i = 0; i < 2 * MANY; i++)
        cr_assert(!yes || (there[i] & 1) == (i % 2 == 0));
    cr_assert_eq(mprotect(memory + PAGE * MANY, PAGE, PROT_READ), 0);
    cr_assert(!reach_pieces(pieces, MANY));
}

Test(own, only_what_may_be_written_is_reached)
{
    unsigned char *good = pages(PROT_READ | PROT_WRITE, 4), there[4];

    good[0] = 7;
    cr_assert(reach(good, 2));
    cr_assert(good[0] == 7 && good[PAGE] == 0);
    cr_assert_eq(mincore(good, 4 * PAGE, there), 0);
    cr_assert((there[1] & 1) == 1 && (there[2] & 1) == 0);
    cr_assert_eq(mprotect(good + PAGE, PAGE, PROT_READ), 0);
    cr_assert(reach(good, 1) && !reach(good + PAGE, 1) && !reach(good, 4));
    cr_assert_eq(mprotect(good + PAGE, PAGE, PROT_NONE), 0);
    cr_assert(!reach(good + PAGE, 1));
    cr_assert_eq(munmap(good + PAGE, PAGE), 0);
    cr_assert(!reach(good + PAGE, 1) && !reach(good, 3) && reach(good + 2 * PAGE, 2));
    cr_assert(!reach_pieces((const struct loci_piece[]){ { (uintptr_t)good, PAGE },
                                                         { (uintptr_t)good + PAGE, PAGE } }, 2));
    reach_many();
}

Test(own, secret_memory_is_reached)
{
    unsigned char *memory = secret(PAGE);
    const struct shm_span span = { (uintptr_t)memory, 100 };

    if (memory == NULL) {
        fprintf(stderr, "this kernel has no secret memory\n");
        return;
    }
    memset(loci_shm_scratch(&own_fabric), 7, 200);
    cr_assert_eq(copy(true, &span, 1), LOCO_OK);
    cr_assert(memory[0] == 7 && memory[99] == 7 && memory[100] == 0);
    memory[50] = 9;
    cr_assert_eq(copy(false, &span, 1), LOCO_OK);
    cr_assert_eq(loci_shm_scratch(&own_fabric)[16 + 50], 9);
    loci_shm_scratch_close(&own_fabric);
}

/* ---- between processes ---- */

static const struct setup offered = { .settings = { "LOCO_CMA=never" }, .log = count_dropped };
static const struct setup assisted = { .settings = { "LOCO_CMA=never", "LOCO_OFFERS=never" },
                                       .log = count_dropped };
static const struct setup alone = { .settings = { "LOCO_OFFERS=never" }, .log = count_dropped };
static const struct setup all = { .log = count_dropped };

/* The target helps until the origin has said that it is done. */
static void pass_time(struct world *w)
{
    unsigned rounds = 0;

    while (loci_load64(loci_mem_ptr(&w->pool)) == 0)
        loci_wait_round(w->rt, &rounds);
}

static int say_done(struct world *w)
{
    NEED(loci_write64(w->rt, &w->pools[TARGET], 0, 1, NULL) == LOCO_OK);
    return 0;
}

/* Four words: a strip, which goes in a slot of its own. */
static int move_strip(struct world *w, enum loci_op_kind kind, uint64_t at, unsigned char *packed)
{
    struct loci_mem *mem = &w->users[TARGET];
    const struct loci_strip strip = { at, 8, 16, 8 };
    const struct loci_strided op = {
        .kind = kind, .mem = mem, .strips = &strip, .n = 1, .shift = mem->key.base,
        .packed = packed, .bytes = 64,
    };

    return w->rt->ops->strided(w->rt->fabric, loci_peer(w->rt, mem->peer), &op);
}

static int add(struct world *w, uint64_t at, uint64_t *old)
{
    struct loci_op op = {
        .kind = LOCI_FETCH_ADD, .mem = &w->users[TARGET], .offset = at, .len = 8, .operand = 1,
        .result = old,
    };

    return w->rt->ops->update(w->rt->fabric, loci_peer(w->rt, w->users[TARGET].peer), &op);
}

/* The target's first page is for reading, the second is none, and the third is like others. */
static int touch_badly(struct world *w)
{
    static unsigned char bytes[3 * PAGE];
    uint64_t old;

    for (int i = 0; i < TIMES; i++) {
        struct loci_mem *mem = &w->users[TARGET];
        size_t len = i % 2 == 0 ? 8 : PAGE;

        NEED(loci_write(w->rt, mem, 0, bytes, len, NULL) == LOCO_ERR_SYSTEM);
        NEED(loci_write(w->rt, mem, PAGE, bytes, len, NULL) == LOCO_ERR_SYSTEM);
        NEED(loci_read(w->rt, mem, PAGE, bytes, len, NULL) == LOCO_ERR_SYSTEM);
        NEED(loci_read(w->rt, mem, 2 * PAGE - 4, bytes, 8, NULL) == LOCO_ERR_SYSTEM);
        NEED(loci_read(w->rt, mem, 0, bytes, len, NULL) == LOCO_OK && bytes[0] == 5);
        NEED(loci_write(w->rt, mem, 2 * PAGE, bytes, len, NULL) == LOCO_OK);
        NEED(move_strip(w, LOCI_WRITE, 0, bytes) < 0);
        NEED(move_strip(w, LOCI_READ, PAGE, bytes) < 0);
        NEED(add(w, 0, &old) < 0);
        NEED(add(w, PAGE, &old) < 0);
    }
    return say_done(w);
}

static int bad(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    if (w.me == TARGET) {
        memset(w.memory, 5, PAGE);
        NEED(mprotect(w.memory, PAGE, PROT_READ) == 0);
        NEED(hole(w.memory + PAGE, PAGE) == 0);
    }
    NEED(together(&w) == LOCO_OK);
    if (w.me == TARGET)
        pass_time(&w);
    else
        NEED(touch_badly(&w) == 0);
    NEED(w.me != TARGET || (w.memory[0] == 5 && w.memory[PAGE - 1] == 5));
    return leave(&w);
}

TestSuite(own, .timeout = 60);

Test(own, bad_memory_is_an_error_whoever_copies)
{
    run(2, bad, &all);
    run(2, bad, &offered);
    run(2, bad, &assisted);
    run(2, bad, &alone);
}

/* What the target has combined in part is not combined again by its origin. */
static bool add_word(uint32_t what, void *target, void *operand, size_t len)
{
    uint64_t to, by;

    (void)what;
    if (target != NULL) {
        memcpy(&to, target, 8);
        memcpy(&by, operand, 8);
        memcpy(operand, &to, 8);
        to += by;
        memcpy(target, &to, 8);
    }
    return len == 8;
}

static int combine_in_part(struct world *w)
{
    struct loci_mem *mem = &w->users[TARGET];
    const struct loci_strip strips[2] = { { 2 * PAGE, 8, 8, 1 }, { 0, 8, 8, 1 } };
    uint64_t operand[2] = { 1, 1 }, done = 0, word;
    unsigned char old[16];
    const struct loci_strided op = {
        .kind = LOCI_WRITE, .mem = mem, .strips = strips, .n = 2, .shift = mem->key.base,
        .packed = (unsigned char *)operand, .bytes = 16, .old = old,
    };

    for (int i = 0; i < TIMES; i++) {
        int status = w->rt->ops->combine(w->rt->fabric, loci_peer(w->rt, mem->peer), &op);

        NEED(status == LOCO_ERR_AGAIN || status == LOCO_ERR_SYSTEM);
        done += status == LOCO_ERR_SYSTEM;
    }
    NEED(loci_read(w->rt, mem, 2 * PAGE, &word, 8, NULL) == LOCO_OK);
    NEED(word == done);
    return say_done(w);
}

static int combined(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    atomic_store(&w.rt->combine, add_word);
    if (w.me == TARGET)
        NEED(mprotect(w.memory, PAGE, PROT_READ) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == TARGET)
        pass_time(&w);
    else
        NEED(combine_in_part(&w) == 0);
    return leave(&w);
}

Test(own, what_is_combined_in_part_is_over)
{
    run(2, combined, &all);
}

/* Reads and writes of secret memory, of any length, while its owner helps and while it does not. */
static int use_secret(struct world *w, struct loci_mem *mem)
{
    static unsigned char model[LEN], back[LEN];

    for (size_t i = 0; i < TIMES; i++) {
        size_t len = i % 50 == 49 ? LEN : 1 + i * i % 9000, at = i * 7919 % (LEN - len + 1);

        for (size_t k = 0; k < len; k++)
            model[at + k] = (unsigned char)(i + k);
        NEED(loci_write(w->rt, mem, at, model + at, len, NULL) == LOCO_OK);
        NEED(loci_read(w->rt, mem, at, back, len, NULL) == LOCO_OK);
        NEED(memcmp(back, model + at, len) == 0);
    }
    NEED(loci_read(w->rt, mem, 0, back, LEN, NULL) == LOCO_OK);
    NEED(memcmp(back, model, LEN) == 0);
    return say_done(w);
}

static int secrets(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char *memory = secret(LEN);
    struct loci_mem mem, mems[8];
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    NEED(loci_user_add(w.rt, memory, LEN, &mem) == LOCO_OK);
    NEED(share(&w, &mem, mems) == 0);
    if (w.me == ORIGIN)
        NEED(use_secret(&w, &mems[TARGET]) == 0);
    else
        pass_time(&w);
    NEED(together(&w) == LOCO_OK);
    loci_user_remove(w.rt, &mem);
    return leave(&w);
}

Test(own, secret_memory_is_copied_by_its_owner)
{
    if (secret(LEN) == NULL) {
        fprintf(stderr, "this kernel has no secret memory\n");
        return;
    }
    run(2, secrets, &all);
    run(2, secrets, &assisted);
    run(2, secrets, &alone);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* Own network memory: sub-ranges never overlap, begin zeroed, come back, and are refused when
 * there is not enough. One process, the production fabric. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/memfile.h"
#include "memory/memory.h"
#include "move/rma.h"

#define MIB ((size_t)1 << 20)

static int gather_one(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static char said[512];

static void keep_error(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level == LOCO_LOG_ERROR)
        snprintf(said, sizeof said, "%s", text);
}

static loco_runtime_t *open_with(const char *const *settings)
{
    struct loco_bootstrap boot = {
        .identity = 42,
        .exchange = { .rank = 0, .size = 1, .allgather = gather_one },
        .settings = settings, .log = keep_error,
    };
    loco_runtime_t *rt = NULL;

    cr_assert_eq(loco_runtime_open(&boot, &rt), LOCO_OK);
    return rt;
}

static unsigned char *ptr_of(struct loci_mem *mem)
{
    return loci_mem_ptr(mem);
}

static bool is_zero(const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != 0)
            return false;
    return true;
}

Test(memory, is_aligned_and_zeroed_also_when_used_again)
{
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem a, b;
    uint64_t base;

    cr_assert_eq(loci_alloc(rt, 1000, 0, &a), LOCO_OK);
    cr_assert_eq((uintptr_t)ptr_of(&a) % LOCI_CACHE_LINE, 0);
    cr_assert(is_zero(ptr_of(&a), 1000));
    memset(ptr_of(&a), 0xff, 1000);
    base = a.key.base;
    loci_free(rt, &a);
    cr_assert_eq(loci_alloc(rt, 1000, 0, &a), LOCO_OK);
    cr_expect_eq(a.key.base, base, "first fit takes the same range");
    cr_assert(is_zero(ptr_of(&a), 1000));
    cr_assert_eq(loci_alloc(rt, 10, MIB, &b), LOCO_OK);
    cr_assert_eq((uintptr_t)ptr_of(&b) % MIB, 0);
    loci_free(rt, &a);
    loci_free(rt, &b);
    loco_runtime_close(rt);
}

Test(memory, bad_requests_are_refused)
{
    const char *const limit[] = { "LOCO_MEM_LIMIT=64M", NULL };
    loco_runtime_t *rt = open_with(limit);
    struct loci_mem a, b;

    cr_expect_eq(loci_alloc(rt, 8, 3, &a), LOCO_ERR_ARG);
    cr_expect_eq(loci_alloc(rt, 8, 4 * MIB, &a), LOCO_ERR_ARG);
    cr_expect_eq(loci_alloc(rt, SIZE_MAX, 0, &a), LOCO_ERR_NO_MEMORY);
    cr_expect_eq(loci_alloc(rt, 65 * MIB, 0, &a), LOCO_ERR_NO_MEMORY);
    cr_assert_eq(loci_alloc(rt, 40 * MIB, 0, &a), LOCO_OK);
    cr_expect_eq(loci_alloc(rt, 40 * MIB, 0, &b), LOCO_ERR_NO_MEMORY);
    loci_free(rt, &a);
    cr_assert_eq(loci_alloc(rt, 40 * MIB, 0, &b), LOCO_OK, "what came back can be had again");
    memset(ptr_of(&b), 1, 40 * MIB);
    loci_free(rt, &b);
    loco_runtime_close(rt);
}

static size_t mapped_now(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (f == NULL || fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * 4096;
}

/* The first extent would be of 16 MiB. The figure in the log is what can be had. */
Test(memory, little_address_space_is_enough_for_little)
{
    const char *const settings[] = { "LOCO_HUGE_PAGES=never", NULL };
    loco_runtime_t *rt = open_with(settings);
    struct rlimit limit = { .rlim_max = RLIM_INFINITY };
    struct loci_mem a, b;
    size_t mapped = mapped_now(), left = 0;
    const char *leaves;

    if (mapped == 0 || mapped > (size_t)1 << 40)
        cr_skip_test("a sanitizer has all the address space");
    limit.rlim_cur = mapped + 14 * MIB;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_assert_eq(loci_alloc(rt, MIB, 0, &a), LOCO_OK);
    memset(ptr_of(&a), 1, MIB);
    cr_assert_eq(loci_alloc(rt, 100 * MIB, 0, &b), LOCO_ERR_NO_MEMORY);
    leaves = strstr(said, "and the limit of address space (ulimit -v) leaves ");
    cr_assert_not_null(leaves, "%s", said);
    cr_assert_eq(sscanf(strstr(leaves, "leaves "), "leaves %zu", &left), 1);
    cr_assert_gt(left, 0);
    cr_assert_lt(left, 14 * MIB);
    cr_assert_eq(loci_alloc(rt, left, 0, &b), LOCO_OK, "%zu bytes", left);
    memset(ptr_of(&b), 1, left);
    loci_free(rt, &b);
    loci_free(rt, &a);
    loco_runtime_close(rt);
}

/* The pages that lie inside: a program cannot change others without harm to their other owners. */
Test(memory, what_was_protected_is_as_new)
{
    const size_t page = 4096;
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem a, b;
    unsigned char *was;

    cr_assert_eq(loci_alloc(rt, 3 * page, 0, &a), LOCO_OK);
    cr_assert_eq(loci_alloc(rt, 100, 0, &b), LOCO_OK);
    was = ptr_of(&a);
    cr_assert_eq(mprotect(was + page - (uintptr_t)was % page, page, PROT_NONE), 0);
    loci_renew_own(rt, &b);
    loci_renew_own(rt, &a);
    loci_free(rt, &a);
    cr_assert_eq(loci_alloc(rt, 3 * page, 0, &a), LOCO_OK);
    cr_expect_eq(ptr_of(&a), was);
    memset(was, 1, 3 * page);
    cr_assert_eq(mprotect(was + page - (uintptr_t)was % page, page, PROT_READ), 0);
    loci_renew(rt, was, 3 * page);
    memset(was, 1, 3 * page);
    loci_free(rt, &a);
    loci_free(rt, &b);
    loco_runtime_close(rt);
}

Test(memory, what_is_no_longer_mapped_is_not_used_again)
{
    const size_t page = 4096;
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem a, b;
    unsigned char *was;

    cr_assert_eq(loci_alloc(rt, page, page, &a), LOCO_OK);
    was = ptr_of(&a);
    cr_assert_eq(munmap(was, page), 0);
    loci_renew_own(rt, &a);
    loci_free(rt, &a);
    cr_assert_eq(loci_alloc(rt, page, page, &b), LOCO_OK);
    cr_expect_neq(ptr_of(&b), was);
    memset(ptr_of(&b), 1, page);
    loci_free(rt, &b);
    loco_runtime_close(rt);
}

/* Random requests against a model: each live range holds its own pattern. */
#define LIVE 300
Test(memory, ranges_never_overlap, .timeout = 60)
{
    loco_runtime_t *rt = open_with(NULL);
    static struct loci_mem live[LIVE];
    size_t len[LIVE] = { 0 };
    unsigned seed = 7;

    for (int step = 0; step < 60000; step++) {
        int at = rand_r(&seed) % LIVE;

        if (len[at] != 0) {
            for (size_t i = 0; i < len[at]; i += 61)
                cr_assert_eq(ptr_of(&live[at])[i], (unsigned char)(at * 7 + 1));
            loci_free(rt, &live[at]);
            len[at] = 0;
            continue;
        }
        len[at] = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 50 == 0 ? MIB : 3000);
        cr_assert_eq(loci_alloc(rt, len[at], 0, &live[at]), LOCO_OK);
        cr_assert(is_zero(ptr_of(&live[at]), len[at]));
        memset(ptr_of(&live[at]), at * 7 + 1, len[at]);
    }
    for (int at = 0; at < LIVE; at++)
        if (len[at] != 0)
            loci_free(rt, &live[at]);
    cr_expect_eq(rt->extents->used, 0);
    cr_expect_null(rt->extents->next, "emptied extents are given back, but the oldest");
    cr_assert_eq(loci_alloc(rt, rt->extents->len, 0, &live[0]), LOCO_OK);
    cr_expect_eq(live[0].key.extent, rt->extents->number, "neighbours are joined again");
    loci_free(rt, &live[0]);
    loco_runtime_close(rt);
}

/* The same with what is large, which goes back piece by piece: it leaves its neighbours alone, and
 * no more is kept than what is there, but for the pieces that it shares with them. */
Test(memory, large_ranges_go_back_and_leave_the_rest, .timeout = 60)
{
    enum { FEW = 12 };
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem live[FEW];
    size_t len[FEW] = { 0 }, all = 0;
    unsigned seed = 11;

    for (int step = 0; step < 400; step++) {
        int at = rand_r(&seed) % FEW;

        if (len[at] != 0) {
            for (size_t i = 0; i < len[at]; i += 4093)
                cr_assert_eq(ptr_of(&live[at])[i], (unsigned char)(at * 7 + 1));
            cr_assert_eq(ptr_of(&live[at])[len[at] - 1], (unsigned char)(at * 7 + 1));
            loci_free(rt, &live[at]);
            all -= len[at];
            len[at] = 0;
            cr_assert_leq(rt->memory_used, all + 2 * FEW * 2 * MIB + 16 * MIB);
            continue;
        }
        len[at] = 1 + (size_t)rand_r(&seed) % (9 * MIB);
        all += len[at];
        cr_assert_eq(loci_alloc(rt, len[at], 0, &live[at]), LOCO_OK);
        cr_assert(is_zero(ptr_of(&live[at]), len[at]));
        memset(ptr_of(&live[at]), at * 7 + 1, len[at]);
    }
    for (int at = 0; at < FEW; at++)
        if (len[at] != 0)
            loci_free(rt, &live[at]);
    cr_expect_leq(rt->memory_used, 16 * MIB);
    loco_runtime_close(rt);
}

/* Control blocks beside parts of windows: few pages for those who come to all of them. */
Test(memory, what_is_small_is_kept_together)
{
    enum { PAIRS = 50 };
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem large[PAIRS], small[PAIRS];
    uintptr_t first = UINTPTR_MAX, last = 0;

    if (!rt->roomy)
        cr_skip_test("address space is limited, or huge pages are set aside");
    for (int i = 0; i < PAIRS; i++) {
        cr_assert_eq(loci_alloc(rt, 65536, 0, &large[i]), LOCO_OK);
        cr_assert_eq(loci_alloc(rt, 640, 0, &small[i]), LOCO_OK);
        first = (uintptr_t)ptr_of(&small[i]) < first ? (uintptr_t)ptr_of(&small[i]) : first;
        last = (uintptr_t)ptr_of(&small[i]) > last ? (uintptr_t)ptr_of(&small[i]) : last;
    }
    cr_expect_lt(last - first, (size_t)(PAIRS + 8) * 640);
    for (int i = 0; i < PAIRS; i++) {
        loci_free(rt, &large[i]);
        loci_free(rt, &small[i]);
    }
    loco_runtime_close(rt);
}

/* A peer that comes to several large windows maps one extent. */
Test(memory, what_is_large_shares_an_extent)
{
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem large[8];

    if (!rt->roomy)
        cr_skip_test("address space is limited, or huge pages are set aside");
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(loci_alloc(rt, 64 * MIB, 0, &large[i]), LOCO_OK);
        cr_expect_eq(large[i].key.extent, large[0].key.extent);
    }
    for (int i = 0; i < 8; i++)
        loci_free(rt, &large[i]);
    cr_expect_leq(rt->memory_used, 16 * MIB);
    loco_runtime_close(rt);
}

Test(memory, nobody_can_cut_a_file_that_others_have_mapped)
{
    int fd = loci_memfile("test", 8192, false);

    cr_assert(fd >= 0);
    cr_assert_eq(ftruncate(fd, 4096), -1);
    cr_assert_eq(errno, EPERM);
    cr_assert_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192), 0);
    close(fd);
}

Test(memory, a_file_beyond_the_limit_is_an_error_and_no_signal)
{
    const struct rlimit limit = { 65536, 65536 };

    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(loci_memfile("test", 65537, false), -1);
    cr_assert_eq(errno, EFBIG);
}

/* Whatever was made in between: one extent of the least size is all that stays. */
Test(memory, what_is_not_used_is_given_back)
{
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem small, large, medium[3];

    cr_assert_eq(loci_alloc(rt, ((size_t)100 << 20) + 64, 0, &large), LOCO_OK);
    cr_assert_eq(loci_alloc(rt, 64, 0, &small), LOCO_OK);
    loci_free(rt, &large);
    cr_expect_leq(rt->memory_used, (size_t)16 << 20, "what is small is not in the large one");
    loci_free(rt, &small);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(loci_alloc(rt, (size_t)20 << 20, 0, &medium[i]), LOCO_OK);
    for (int i = 0; i < 3; i++)
        loci_free(rt, &medium[i]);
    cr_expect_leq(rt->memory_used, (size_t)16 << 20);
    cr_assert(rt->extents == NULL || rt->extents->next == NULL);
    loco_runtime_close(rt);
}

/* A large object alone is the first extent, and goes, too. */
Test(memory, the_first_extent_is_given_back)
{
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem large;

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(loci_alloc(rt, (size_t)100 << 20, 0, &large), LOCO_OK);
        loci_free(rt, &large);
        cr_expect_null(rt->extents);
        cr_expect_eq(rt->memory_used, 0);
    }
    loco_runtime_close(rt);
}

Test(memory, keys_lead_back_to_own_memory)
{
    loco_runtime_t *rt = open_with(NULL);
    struct loci_mem mine, again;
    struct loci_memkey bad;
    char user[64];

    cr_assert_eq(loci_alloc(rt, 100, 0, &mine), LOCO_OK);
    cr_assert_eq(loci_mem_import(rt, LOCI_SELF, &mine.key, &again), LOCO_OK);
    cr_expect_eq(ptr_of(&again), ptr_of(&mine));
    bad = mine.key;
    bad.kind = 15;
    cr_expect_eq(loci_mem_import(rt, LOCI_SELF, &bad, &again), LOCO_ERR_PROTOCOL);
    bad = mine.key;
    bad.base = SIZE_MAX - 5;
    cr_expect_eq(loci_mem_import(rt, LOCI_SELF, &bad, &again), LOCO_ERR_PROTOCOL);
    bad = mine.key;
    bad.extent = 999;
    cr_expect_eq(loci_mem_import(rt, LOCI_SELF, &bad, &again), LOCO_ERR_PROTOCOL);
    loci_free(rt, &mine);
    cr_assert_eq(loci_user_add(rt, user, sizeof user, &mine), LOCO_OK);
    cr_expect_eq(ptr_of(&mine), (unsigned char *)user);
    loci_user_remove(rt, &mine);
    loco_runtime_close(rt);
}

Test(memory, memrefs_are_reused_and_large_ones_too)
{
    loco_runtime_t *rt = open_with(NULL);
    struct loco_memref a, b, big;

    cr_assert_eq(loci_memref_get(rt, 4096, &a), LOCO_OK);
    cr_assert_eq(loci_memref_get(rt, 1, &b), LOCO_OK);
    cr_assert_neq(ptr_of(&a.mem), ptr_of(&b.mem));
    memset(ptr_of(&a.mem), 1, 4096);
    memset(ptr_of(&b.mem), 2, 4096);
    cr_expect_eq(ptr_of(&a.mem)[4095], 1);
    unsigned char *was = ptr_of(&b.mem);
    loci_memref_put(rt, &b);
    cr_assert_eq(loci_memref_get(rt, 8, &b), LOCO_OK);
    cr_expect_eq(ptr_of(&b.mem), was);
    cr_assert_eq(loci_memref_get(rt, 5 * MIB, &big), LOCO_OK);
    memset(ptr_of(&big.mem), 3, 5 * MIB);
    loci_memref_put(rt, &big);
    loci_memref_put(rt, &a);
    loci_memref_put(rt, &b);
    loco_runtime_close(rt);
}

Test(memory, a_bad_tunable_is_an_error_and_leaks_nothing)
{
    const char *const bad[] = { "LOCO_EXTENT_MIN=banana", NULL };
    struct loco_bootstrap boot = {
        .identity = 1, .exchange = { .size = 1, .allgather = gather_one }, .settings = bad,
    };
    loco_runtime_t *rt = (loco_runtime_t *)&boot;

    cr_assert_eq(loco_runtime_open(&boot, &rt), LOCO_ERR_ARG);
    cr_assert_eq(rt, (loco_runtime_t *)&boot, "outputs are written on success only");
}

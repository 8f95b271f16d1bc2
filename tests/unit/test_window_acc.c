/* SPDX-License-Identifier: BSD-3-Clause */

/* Accumulates and compare_swap: atomic per element with each other, in order from one origin,
 * exact in the bytes they write; in memory of every kind, over both fabrics. */

#include <complex.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "member.h"
#include "window/window.h"

struct setting {
    enum loco_window_kind kind;
    bool bulk, one_thread;
    int rounds;                 /* of the test with threads */
};

static const struct setting settings[] = {
    { LOCO_WINDOW_ALLOCATE, false, false, 0 }, { LOCO_WINDOW_ALLOCATE, true, false, 0 },
    { LOCO_WINDOW_ALLOCATE, false, true, 0 },  { LOCO_WINDOW_CREATE, false, false, 0 },
    { LOCO_WINDOW_CREATE, false, true, 0 },
};

#define IN_EACH_SETTING(n, fn)                                                          \
    do {                                                                                \
        for (size_t s_ = 0; s_ < sizeof settings / sizeof settings[0]; s_++) {          \
            struct setting one_ = settings[s_];                                         \
                                                                                        \
            cr_assert_eq(member_run(RUN_SHM, n, fn, &one_, NULL), 0, "setting %zu", s_); \
            cr_assert_eq(member_run(RUN_WEAK, n, fn, &one_, NULL), 0,                   \
                         "setting %zu, weak", s_);                                      \
        }                                                                               \
    } while (0)

/* A window of zeros; the memory of CREATE is each member's own, also where members are threads. */
static int make(struct member *m, size_t size, loco_window_t **win)
{
    const struct setting *s = m->arg;
    const struct loco_window_spec spec = {
        .kind = s->kind, .size = size,
        .base = s->kind == LOCO_WINDOW_CREATE ? calloc(1, size) : NULL, .bulk_accumulate = s->bulk,
        .one_thread = s->one_thread,
    };

    return loco_window_create(m->rt, &m->exchange, &spec, win);
}

static int drop(struct member *m, loco_window_t *win)
{
    const struct setting *s = m->arg;
    void *base = loco_window_base(win);
    int status = loco_window_destroy(win);

    if (s->kind == LOCO_WINDOW_CREATE)
        free(base);
    return status;
}

/* ---- atomicity ---- */

#define ROUNDS run_rounds(300)

/* Everybody adds 1 to the same elements of rank 0, in every type that can count to n * ROUNDS,
 * one at 8-byte steps and one at an odd address. */
static int sums_body(struct member *m)
{
    static const enum loco_type types[] = {
        LOCO_TYPE_I16, LOCO_TYPE_I32, LOCO_TYPE_I64, LOCO_TYPE_U16, LOCO_TYPE_U32, LOCO_TYPE_U64,
        LOCO_TYPE_F32, LOCO_TYPE_F64, LOCO_TYPE_LONG_DOUBLE, LOCO_TYPE_C32, LOCO_TYPE_C64,
        LOCO_TYPE_C_LONG_DOUBLE,
    };
    enum { TYPES = sizeof types / sizeof types[0], ROOM = 128 };
    unsigned char one[TYPES][32] = { { 0 } }, *base;
    loco_window_t *win;

    *(int16_t *)(void *)one[0] = 1, *(int32_t *)(void *)one[1] = 1;
    *(int64_t *)(void *)one[2] = 1, *(uint16_t *)(void *)one[3] = 1;
    *(uint32_t *)(void *)one[4] = 1, *(uint64_t *)(void *)one[5] = 1;
    memcpy(one[6], &(float){ 1 }, 4), memcpy(one[7], &(double){ 1 }, 8);
    memcpy(one[8], &(long double){ 1 }, 16), memcpy(one[9], &(float complex){ 1 + 1 * I }, 8);
    memcpy(one[10], &(double complex){ 1 + 1 * I }, 16);
    memcpy(one[11], &(long double complex){ 1 + 1 * I }, 32);
    CHECK_OK(make(m, 2 * ROOM * TYPES, &win));
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < ROUNDS; i++) {
        for (int t = 0; t < TYPES; t++) {
            CHECK_OK(member_accumulate(win, 0, types[t], LOCO_OP_SUM, (uint64_t)(2 * t * ROOM),
                                       one[t], NULL, 1));
            CHECK_OK(member_accumulate(win, 0, types[t], LOCO_OP_SUM,
                                       (uint64_t)((2 * t + 1) * ROOM + 1), one[t], NULL, 1));
        }
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    base = loco_window_base(win);
    for (int t = 0; m->rank == 0 && t < TYPES; t++) {
        unsigned char want[32] = { 0 };
        loci_reduce_fn *sum = loci_reduce(LOCO_OP_SUM, types[t]);
        size_t len = types[t] == LOCO_TYPE_LONG_DOUBLE ? 10 : loco_type_extent(types[t]);

        if (types[t] == LOCO_TYPE_C_LONG_DOUBLE)
            len = 10;
        for (int i = 0; i < m->n * ROUNDS; i++)
            sum(want, one[t], 1);
        CHECK(memcmp(base + 2 * t * ROOM, want, len) == 0);
        CHECK(memcmp(base + (2 * t + 1) * ROOM + 1, want, len) == 0);
    }
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, sums_of_all_sizes_lose_nothing, .timeout = RUN_SECONDS)
{
    IN_EACH_SETTING(4, sums_body);
}

/* A window has vectors only until some member does a single element, at another time in each
 * window: nothing is lost where the two meet. */
#define VECTOR 64
#define WINDOWS 40

/* n elements from the k-th on are one more; by each of the ways in, as ranks differ. */
static int add_ones(const struct member *m, loco_window_t *win, uint64_t k, size_t n)
{
    uint64_t ones[VECTOR];
    struct loci_combine sum;

    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    if (m->rank % 3 == 1
        && loci_window_accumulate_run(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, 8 * k, n, ones, NULL)
           == LOCO_OK)
        return LOCO_OK;
    if (m->rank % 3 == 2 && loci_window_combine_open(win, LOCO_TYPE_U64, LOCO_OP_SUM, &sum)
        && loci_window_combine(win, 0, &sum, 8 * k, n, ones))
        return LOCO_OK;
    return member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, 8 * k, ones, NULL, n);
}

static int turns_body(struct member *m)
{
    uint64_t zero = 0, old;

    for (int w = 0; w < WINDOWS; w++) {
        int first = w % m->n == m->rank ? 3 * w : ROUNDS;   /* round of this one's first single */
        loco_window_t *win;
        uint64_t *base;

        CHECK_OK(make(m, 8 * VECTOR, &win));
        CHECK_OK(loco_window_fence(win, 0));
        CHECK_OK(loco_window_lock_all(win, 0));
        for (int i = 0; i < ROUNDS; i++) {
            CHECK_OK(add_ones(m, win, 0, VECTOR));
            for (uint64_t k = 0; i >= first && k < VECTOR; k += 9)
                CHECK_OK(add_ones(m, win, k, 1));
        }
        CHECK_OK(loco_window_compare_swap(win, 0, LOCO_TYPE_U64, 0, &zero, &zero, &old));
        CHECK_OK(loco_window_unlock_all(win));
        CHECK_OK(loco_window_fence(win, 0));
        base = loco_window_base(win);
        for (int k = 0; m->rank == 0 && k < VECTOR; k++) {
            int singles = k % 9 == 0 && 3 * w < ROUNDS ? ROUNDS - 3 * w : 0;

            CHECK_EQ(base[k], (uint64_t)(m->n * ROUNDS + singles));
        }
        CHECK_OK(drop(m, win));
    }
    return 0;
}

Test(window_acc, vectors_and_the_first_single_one, .timeout = RUN_SECONDS)
{
    struct setting one_thread = { LOCO_WINDOW_ALLOCATE, false, true, 0 };
    struct setting threads = { LOCO_WINDOW_ALLOCATE, false, false, 0 };

    cr_assert_eq(member_run(RUN_SHM, 4, turns_body, &one_thread, NULL), 0);
    cr_assert_eq(member_run(RUN_SHM, 4, turns_body, &threads, NULL), 0);
}

/* Bytes: everybody sets its own bit by OR and clears it by XOR; in the end none is set, and each
 * has always seen its own as it left it. */
static int bits_body(struct member *m)
{
    uint8_t mine = (uint8_t)(1u << m->rank), old;
    loco_window_t *win;

    CHECK_OK(make(m, 8, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U8, LOCO_OP_BOR, 3, &mine, &old, 1));
        CHECK_EQ(old & mine, 0);
        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_BYTE, LOCO_OP_NO_OP, 3, NULL, &old, 1));
        CHECK_EQ(old & mine, mine);
        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_BYTE, LOCO_OP_BXOR, 3, &mine, &old, 1));
        CHECK_EQ(old & mine, mine);
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    for (int i = 0; i < 8; i++)
        CHECK_EQ(((uint8_t *)loco_window_base(win))[i], 0);
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, bits_of_one_byte, .timeout = RUN_SECONDS)
{
    IN_EACH_SETTING(8, bits_body);
}

/* A counter by compare_swap in each size; the owner counts too. */
static int counters_body(struct member *m)
{
    static const enum loco_type types[] = {
        LOCO_TYPE_U8, LOCO_TYPE_I16, LOCO_TYPE_LOGICAL32, LOCO_TYPE_U64,
    };
    loco_window_t *win;

    CHECK_OK(make(m, 5 * 8, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < 4 * 50; i++) {
        enum loco_type type = types[i % 4];
        uint64_t offset = 8 * (uint64_t)(i % 4), seen = 0, next, old;
        size_t size = loco_type_extent(type);

        for (;;) {
            next = seen + 1;
            old = 0;
            CHECK_OK(loco_window_compare_swap(win, 0, type, offset, &seen, &next, &old));
            if (memcmp(&old, &seen, size) == 0)
                break;
            seen = old;
        }
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    for (int i = 0; i < 4 && m->rank == 0; i++)
        CHECK_EQ(((uint64_t *)loco_window_base(win))[i], 50 * m->n);
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, compare_swap_counts, .timeout = RUN_SECONDS)
{
    IN_EACH_SETTING(4, counters_body);
}

/* Everybody adds 1 to runs of any length that overlap, and gets what was there: of each element all
 * numbers below its last one, each once. */
static int olds_body(struct member *m)
{
    enum { ELEMENTS = 140, LONGEST = 128 };
    uint64_t one[LONGEST], old[LONGEST], sum[2 * ELEMENTS] = { 0 }, all[2 * ELEMENTS], *base;
    unsigned seed = 1 + (unsigned)m->rank;
    loco_window_t *win;

    for (int k = 0; k < LONGEST; k++)
        one[k] = 1;
    CHECK_OK(make(m, 3 * ELEMENTS * 8, &win));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = i % 4 == 0 ? 1 : 1 + (size_t)rand_r(&seed) % LONGEST;
        size_t at = i % 2 == 0 ? 0 : (size_t)rand_r(&seed) % (ELEMENTS - n + 1);

        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, 8 * at, one, old, n));
        for (size_t k = 0; k < n; k++) {
            sum[2 * (at + k)] += old[k];
            sum[2 * (at + k) + 1] += old[k] * old[k];
        }
    }
    CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, 8 * ELEMENTS, sum, all,
                               2 * ELEMENTS));
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    base = loco_window_base(win);
    for (int e = 0; m->rank == 0 && e < ELEMENTS; e++) {
        uint64_t last = base[e];

        CHECK_EQ(base[ELEMENTS + 2 * e], last * (last - 1) / 2);
        CHECK_EQ(base[ELEMENTS + 2 * e + 1], last * (last - 1) * (2 * last - 1) / 6);
    }
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, each_gets_what_was_there, .timeout = RUN_SECONDS)
{
    IN_EACH_SETTING(4, olds_body);
}

/* Single elements and vectors over them, from several threads of each process. */
struct pack {
    loco_window_t *win;
    int rounds;
    _Atomic int failed;
};

static void *add_thread(void *arg)
{
    struct pack *p = arg;
    double vector[100], one = 1;

    for (int i = 0; i < 100; i++)
        vector[i] = 1;
    for (int i = 0; i < p->rounds; i++) {
        p->failed |= member_accumulate(p->win, 0, LOCO_TYPE_F64, LOCO_OP_SUM, 0, vector, NULL,
                                       100);
        p->failed |= member_accumulate(p->win, 0, LOCO_TYPE_F64, LOCO_OP_SUM,
                                       8 * (uint64_t)(i % 100), &one, NULL, 1);
    }
    return NULL;
}

static int threads_body(struct member *m)
{
    const struct setting *s = m->arg;
    struct pack pack = { .rounds = s->rounds };
    pthread_t thread[3];

    CHECK_OK(make(m, 100 * sizeof(double), &pack.win));
    CHECK_OK(loco_window_lock_all(pack.win, 0));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, add_thread, &pack), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    CHECK_OK(pack.failed);
    CHECK_OK(loco_window_unlock_all(pack.win));
    CHECK_OK(loco_window_fence(pack.win, 0));
    for (int i = 0; i < 100 && m->rank == 0; i++)
        CHECK_EQ(((double *)loco_window_base(pack.win))[i],
                 (pack.rounds + (i < pack.rounds)) * 3 * m->n);
    CHECK_OK(drop(m, pack.win));
    return 0;
}

Test(window_acc, threads_vectors_and_elements_together, .timeout = RUN_SECONDS)
{
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        struct setting one = settings[s];

        one.one_thread = false;
        one.rounds = 100;
        cr_assert_eq(member_run(RUN_SHM, 2, threads_body, &one, NULL), 0, "setting %zu", s);
        one.rounds = run_rounds(10);
        cr_assert_eq(member_run(RUN_WEAK, 2, threads_body, &one, NULL), 0, "setting %zu, weak", s);
    }
}

/* ---- order and exactness ---- */

/* REPLACE by one origin, many times over many spans: the last one stays. */
static int order_body(struct member *m)
{
    enum { N = 300 };
    int target = (m->rank + 1) % m->n;
    struct loco_span spans[N];
    int32_t values[N], old[N];
    loco_window_t *win;

    CHECK_OK(make(m, 8 * N, &win));
    CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0));
    for (int i = 0; i < N; i++)
        spans[i] = (struct loco_span){ NULL, 8 * (uint64_t)i + 4, 4 };
    for (int round = 1; round <= 20; round++) {
        struct loco_accumulate acc = { LOCO_TYPE_I32, LOCO_OP_REPLACE, values, old, spans, N };

        for (int i = 0; i < N; i++)
            values[i] = round * 1000 + i;
        CHECK_OK(loco_window_accumulate(win, target, &acc, NULL));
        for (int i = 0; i < N; i++)
            CHECK_EQ(old[i], round == 1 ? 0 : (round - 1) * 1000 + i);
    }
    CHECK_OK(loco_window_unlock(win, target));
    CHECK_OK(loco_window_fence(win, 0));
    for (int i = 0; i < 2 * N; i++)
        CHECK_EQ(((int32_t *)loco_window_base(win))[i], i % 2 == 0 ? 0 : 20000 + i / 2);
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, one_origin_is_in_order)
{
    IN_EACH_SETTING(2, order_body);
}

/* Pairs with padding: the bytes between and after the members stay as they were. */
static int padding_body(struct member *m)
{
    struct pair {
        int16_t v;
        int i;
    } operand[500], old[500];
    int target = (m->rank + 1) % m->n;
    unsigned char *base;
    loco_window_t *win;

    CHECK_OK(make(m, 500 * sizeof(struct pair), &win));
    base = loco_window_base(win);
    memset(base, 0x11, 500 * sizeof(struct pair));
    CHECK_OK(loco_window_fence(win, 0));
    memset(operand, 0x77, sizeof operand);
    for (int k = 0; k < 500; k++)
        operand[k].v = (int16_t)(k % 2 == 0 ? 0x2222 : 0), operand[k].i = k;
    CHECK_OK(member_accumulate(win, target, LOCO_TYPE_I16_INT, LOCO_OP_MAXLOC, 0, operand, old,
                               500));
    CHECK_OK(loco_window_fence(win, 0));
    for (int k = 0; k < 500; k++) {
        struct pair got;

        memcpy(&got, base + (size_t)k * sizeof got, sizeof got);
        CHECK_EQ(got.v, k % 2 == 0 ? 0x2222 : 0x1111);
        CHECK_EQ(got.i, k % 2 == 0 ? k : 0x11111111);
        CHECK_EQ(base[(size_t)k * sizeof got + 2], 0x11);
        CHECK_EQ(base[(size_t)k * sizeof got + 3], 0x11);
        CHECK_EQ(old[k].v, 0x1111);
        CHECK_EQ(old[k].i, 0x11111111);
    }
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, padding_is_not_written)
{
    IN_EACH_SETTING(2, padding_body);
}

/* Padding is not compared, nor that within a long double. */
static bool same_values(enum loco_type type, const unsigned char *a, const unsigned char *b,
                        size_t n)
{
    const struct loci_type *t = loci_type(type);
    bool wide = type == LOCO_TYPE_LONG_DOUBLE || type == LOCO_TYPE_LONG_DOUBLE_INT
                || type == LOCO_TYPE_C_LONG_DOUBLE;
    size_t len = wide ? 10 : t->value;

    for (size_t k = 0; k < n; k++, a += t->extent, b += t->extent) {
        if (memcmp(a, b, len) != 0 || memcmp(a + t->index, b + t->index, t->index_len) != 0)
            return false;
        if (type == LOCO_TYPE_C_LONG_DOUBLE && memcmp(a + 16, b + 16, len) != 0)
            return false;
    }
    return true;
}

/* Every operation on every type gives what reduce.c gives. */
static int operations_body(struct member *m)
{
    enum { N = 3, BYTES = N * 32 };
    _Alignas(16) unsigned char start[BYTES], operand[BYTES], want[BYTES], got[BYTES];
    int target = (m->rank + 1) % m->n;
    loco_window_t *win;

    CHECK_OK(make(m, BYTES, &win));
    for (int i = 0; i < BYTES; i++)
        start[i] = (unsigned char)(i % 5 == 0 ? 1 : 0), operand[i] = (unsigned char)(i % 3 == 0);
    for (int type = 0; type < LOCO_TYPE_COUNT; type++) {
        size_t len = N * loco_type_extent((enum loco_type)type);

        for (int op = 0; op < LOCO_OP_COUNT; op++) {
            loci_reduce_fn *fn = loci_reduce((enum loco_op)op, (enum loco_type)type);

            if (fn == NULL)
                continue;
            CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, target, 0));
            CHECK_OK(member_put(win, target, 0, start, len));
            memcpy(want, start, len);
            fn(want, operand, N);
            CHECK_OK(member_accumulate(win, target, (enum loco_type)type, (enum loco_op)op, 0,
                                       operand, NULL, N));
            CHECK_OK(member_get(win, target, 0, got, len));
            CHECK(same_values((enum loco_type)type, got, want, N));
            CHECK_OK(loco_window_unlock(win, target));
        }
    }
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(drop(m, win));
    return 0;
}

Test(window_acc, every_operation_on_every_type)
{
    IN_EACH_SETTING(2, operations_body);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Key-value stores under load, with histories that are checked afterwards: each key of a map. In
 * some cases one process is killed in the middle: the others' calls end soon, and they go on.
 * STRESS_SECONDS of the environment: all cases again and again, for so long. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <loco/kvstore.h>

#include "linear.h"
#include "stress.h"

#define SECOND INT64_C(1000000000)
#define CALL_LIMIT (SECOND + SECOND / 2)    /* a second, and something for a busy machine */
#define PROCESSES 8
#define THREADS 2
#define KEYS 48
#define OPS 6000                /* of each thread */
#define WORDS_MAX 40
#define MANY 4

/* What one thread recorded, in memory that all processes share with the one that checks. */
struct log {
    uint64_t n, after_death;
    struct loci_op op[OPS];
};

struct shared {
    _Atomic uint64_t stamp;
    size_t value_bytes;
    int threads, victim;        /* victim: or -1 */
    _Atomic int met;            /* members that are past their meeting */
    int64_t duration;
    struct log log[PROCESSES][THREADS];
};

struct worker {
    struct shared *s;
    struct log *log;
    loco_runtime_t *rt;
    loco_kvstore_t *kv;
    int client;
    unsigned seed;
    uint64_t made, seen[KEYS];
    int64_t until;
    bool wrong;
};

static uint64_t stamp(struct shared *s)
{
    return atomic_fetch_add(&s->stamp, 1) + 1;
}

static struct loci_op *called(struct worker *w, int op, uint64_t key, uint64_t arg, uint64_t arg2)
{
    struct loci_op *o = &w->log->op[w->log->n];

    *o = (struct loci_op){ .client = w->client, .op = op, .key = key, .arg = arg, .arg2 = arg2,
                           .ret = LOCI_NEVER };
    o->call = stamp(w->s);
    w->log->n++;                /* a call that a kill cuts short is one that has not returned */
    return o;
}

static int wrong(struct worker *w, const char *what, int status)
{
    fprintf(stderr, "client %x: %s: %s\n", (unsigned)w->client, what, loco_strerror(status));
    w->wrong = true;
    return 1;
}

/* What came of it; `no`: the status that says so. */
static int returned(struct worker *w, struct loci_op *o, int status, int no, uint64_t result,
                    int64_t start)
{
    uint64_t now = stamp(w->s);

    if (run_too_long(start, CALL_LIMIT))
        return wrong(w, "a call took too long", status);
    if (status == LOCO_ERR_PEER_DEAD && w->s->victim >= 0)
        return 0;
    if (status == LOCO_ERR_FULL && o->op == LINEAR_INSERT) {
        o->op = LINEAR_LOOKUP;          /* no effect, and not told anything of the key */
        return 0;
    }
    if (status != LOCO_OK && status != no)
        return wrong(w, "a call", status);
    o->status = status == LOCO_OK;
    o->result = result;
    o->ret = now;
    if (w->s->victim >= 0 && loco_group_alive(loco_everyone(w->rt), w->s->victim) != LOCO_OK)
        w->log->after_death++;
    return 0;
}

/* ---- values: one number, as often as it goes in ---- */

struct value {
    uint64_t word[WORDS_MAX];
};

static void set(const struct worker *w, struct value *value, uint64_t number)
{
    for (size_t i = 0; i < w->s->value_bytes / 8; i++)
        value->word[i] = number;
}

static uint64_t number_of(struct worker *w, const void *at)
{
    struct value value;

    memcpy(&value, at, w->s->value_bytes);
    for (size_t i = 1; i < w->s->value_bytes / 8; i++)
        if (value.word[i] != value.word[0])
            wrong(w, "a torn value", LOCO_OK);
    return value.word[0];
}

static uint64_t new_value(struct worker *w, struct value *value)
{
    uint64_t number = (uint64_t)(w->client + 1) << 32 | ++w->made;

    set(w, value, number);
    return number;
}

/* ---- calls ---- */

static int change(struct worker *w, uint64_t key, unsigned what)
{
    size_t len = w->s->value_bytes;
    int64_t start = run_now();
    struct value value;
    struct loci_op *o;
    int status;

    if (what < 15) {
        o = called(w, LINEAR_UPDATE, key, new_value(w, &value), 0);
        status = loco_kvstore_update(w->kv, key, &value, len);
        return returned(w, o, status, LOCO_ERR_NOT_FOUND, 0, start);
    }
    if (what < 30) {
        o = called(w, LINEAR_INSERT, key, new_value(w, &value), 0);
        status = loco_kvstore_insert(w->kv, key, &value, len);
        return returned(w, o, status, LOCO_ERR_EXISTS, 0, start);
    }
    o = called(w, LINEAR_DELETE, key, 0, 0);
    return returned(w, o, loco_kvstore_delete(w->kv, key), LOCO_ERR_NOT_FOUND, 0, start);
}

static int compare_set(struct worker *w, uint64_t key)
{
    int64_t start = run_now();
    struct value was, next, found;
    struct loci_op *o;
    int status;

    if (w->seen[key] == 0)
        return 0;
    set(w, &was, w->seen[key]);
    o = called(w, LINEAR_COMPARE_SET, key, w->seen[key], new_value(w, &next));
    status = loco_kvstore_compare_set(w->kv, key, &was, &next, w->s->value_bytes, &found);
    if (status == LOCO_ERR_DIFFERS)
        return returned(w, o, status, LOCO_ERR_DIFFERS, number_of(w, &found), start);
    return returned(w, o, status, LOCO_ERR_NOT_FOUND, 0, start);
}

static int looked_up(struct worker *w, struct loci_op *o, int status, const void *value,
                     int64_t start)
{
    uint64_t number = status == LOCO_OK ? number_of(w, value) : 0;

    if (status == LOCO_OK)
        w->seen[o->key] = number;
    return returned(w, o, status, LOCO_ERR_NOT_FOUND, number, start);
}

static int get(struct worker *w, uint64_t key)
{
    int64_t start = run_now();
    struct loci_op *o = called(w, LINEAR_LOOKUP, key, 0, 0);
    struct value value;
    int status = loco_kvstore_get(w->kv, key, &value, w->s->value_bytes);

    return looked_up(w, o, status, &value, start);
}

static int get_many(struct worker *w, uint64_t key)
{
    size_t len = w->s->value_bytes;
    unsigned char values[MANY * sizeof(struct value)];
    int64_t start = run_now();
    struct loci_op *o[MANY];
    uint64_t keys[MANY];
    int status[MANY];

    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = (key + i) % KEYS;
        o[i] = called(w, LINEAR_LOOKUP, keys[i], 0, 0);
    }
    loco_kvstore_get_many(w->kv, MANY, keys, values, len, status);
    for (uint64_t i = 0; i < MANY; i++)
        if (looked_up(w, o[i], status[i], values + i * len, start) != 0)
            return 1;
    return 0;
}

static int one_call(struct worker *w)
{
    uint64_t key = (uint64_t)rand_r(&w->seed) % KEYS;
    unsigned what = (unsigned)rand_r(&w->seed) % 100;

    if (what < 45)
        return change(w, key, what);
    if (what < 50)
        return compare_set(w, key);
    return what < 55 ? get_many(w, key) : get(w, key);
}

static int work(struct worker *w)
{
    while (!w->wrong && w->log->n + MANY <= OPS && run_now() < w->until)
        one_call(w);
    return w->wrong;
}

/* ---- processes ---- */

struct process {
    struct shared *s;
    loco_runtime_t *rt;
    loco_kvstore_t *kv;
    int rank;
    int64_t until;
};

/* The last thread of the victim is its end, somewhere in the others' work. */
static int thread_main(void *arg, int thread)
{
    struct process *p = arg;
    struct worker w = { .s = p->s, .rt = p->rt, .kv = p->kv, .until = p->until,
                        .client = loci_history_client(p->rank, thread),
                        .seed = (unsigned)(getpid() * 8 + thread) };

    if (thread == p->s->threads) {
        usleep((useconds_t)(5000 + (unsigned)rand_r(&w.seed) % 60000));
        kill(getpid(), SIGKILL);
    }
    w.log = &p->s->log[p->rank][thread];
    return work(&w);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct shared *s = *(struct shared **)arg;
    const loco_kvstore_options_t options = { .value_bytes = s->value_bytes, .capacity = KEYS / 4,
                                             .locks = 7 };
    struct process p = { .s = s, .rt = rt, .rank = rank };
    int result;

    CHECK_OK(loco_kvstore_create(rt, NULL, "kv", loco_everyone(rt), &options, &p.kv));
    CHECK(run_meet_alive(rt, &s->met) == 0);
    p.until = run_now() + s->duration;
    result = run_threads(s->threads + (rank == s->victim), thread_main, &p);
    if (s->victim < 0)
        CHECK_OK(run_meet(rt));
    while (s->victim >= 0 && run_now() < p.until + SECOND)
        usleep(1000);           /* nobody takes its memory away while others work on it */
    loco_kvstore_destroy(p.kv);
    return result;
}

/* ---- cases ---- */

struct kv_case {
    const char *name;
    int processes, threads;
    size_t value_bytes;
    bool death;
};

static int by_call(const void *a, const void *b)
{
    const struct loci_op *x = a, *y = b;

    return x->call < y->call ? -1 : x->call > y->call;
}

/* How many calls there were, or 0 if they contradict each other. */
static uint64_t check(const struct shared *s, const struct kv_case *c)
{
    struct loci_linear_report report;
    struct loci_history h;
    uint64_t n = 0, after = 0;
    int verdict;

    loci_history_init(&h, loci_linear_forms(LINEAR_MAP));
    for (int p = 0; p < c->processes; p++)
        for (int t = 0; t < c->threads; t++) {
            const struct log *log = &s->log[p][t];

            h.ops = loci_history_grow(h.ops, &h.room, n + log->n + 1, sizeof h.ops[0]);
            memcpy(h.ops + n, log->op, log->n * sizeof h.ops[0]);
            n += log->n;
            after += log->after_death;
        }
    qsort(h.ops, n, sizeof h.ops[0], by_call);
    h.nops = n;
    h.stamp = s->stamp;
    verdict = loci_linear_check(&h, LINEAR_MAP, &report);
    if (verdict != LINEAR_OK)
        loci_linear_print(stderr, &h, &report);
    loci_history_fini(&h);
    if (c->death && after == 0)
        fprintf(stderr, "nobody went on after the death\n");
    return verdict == LINEAR_OK && (!c->death || after > 0) ? n : 0;
}

static uint64_t run_case(const struct kv_case *c, int64_t duration)
{
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0);
    uint64_t n = 0;

    if (s == MAP_FAILED)
        abort();
    s->value_bytes = c->value_bytes;
    s->threads = c->threads;
    s->victim = c->death ? (int)(run_now() / 1000 % c->processes) : -1;
    s->duration = duration;
    if (run_on(RUN_SHM, c->processes, 0, NULL, body, &s) == 0)
        n = check(s, c);
    munmap(s, sizeof *s);
    return n;
}

int main(void)
{
    static const struct kv_case cases[] = {
        { "small values", 8, 1, 8, false },
        { "large values", 8, 1, 8 * WORDS_MAX, false },
        { "small values, threads", 4, 2, 8, false },
        { "large values, threads", 4, 2, 8 * WORDS_MAX, false },
        { "small values, one is killed", 8, 1, 8, true },
        { "large values, one is killed", 8, 1, 8 * WORDS_MAX, true },
    };
    const char *asked = getenv("STRESS_SECONDS");
    int64_t seconds = asked == NULL ? 0 : atoi(asked), start = run_now();
    enum { CASES = sizeof cases / sizeof cases[0] };
    uint64_t calls[CASES] = { 0 };
    bool failed[CASES] = { false };
    int status = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    do {
        for (int i = 0; i < CASES; i++) {
            uint64_t n = run_case(&cases[i], stress_duration());

            calls[i] += n;
            failed[i] |= n == 0;
        }
    } while (run_now() - start < seconds * SECOND);
    printf("1..%d\n", CASES);
    for (int i = 0; i < CASES; i++) {
        printf("%sok %d - %s, %d processes: %llu calls\n", failed[i] ? "not " : "", i + 1,
               cases[i].name, cases[i].processes, (unsigned long long)calls[i]);
        status |= failed[i];
    }
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The phases of kv_ycsb: load, run, check.
 *
 * A worker has a ring of as many operations as it may have outstanding. It takes the oldest, waits
 * for it, and starts a new one in its place; so each is started and finished on its own.
 *
 * News. With the distribution `latest` the workers have to know which new records there are. They
 * tell each other through the store: each keeps a record of its own, whose stamp's number says how
 * many of its inserts are done. So a key that a worker asks for has been put in, always, and one
 * that is missing is an error of the store.
 *
 * The check. Each worker plays its tape again and so knows which of its operations wrote a record
 * last. The order of those that are outstanding together is open, but each is done before the one
 * starts that comes a window later (two windows, where it is a read and an update). So a record
 * with a stamp of this worker has to be one of its last writes within a window, and one that this
 * worker has written cannot be as it was loaded.
 *
 * Scans. Their entries have to be in the order of keys, from the record on that was asked for, and
 * values of these keys, of which one in eight is checked. What a scan leaves out between them is
 * seen after the run, when one scan of everything has to find as many records as there are, and
 * each of its values is checked.
 */
#include "kv_ycsb.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    OPS_PER_LOOK = 64,        /* at the clock */
    ENTRIES_PER_CHECK = 8,    /* of a scan in the run: so many to one whose value is checked */
    INSERTS_PER_NEWS = 256,
    OPS_PER_NEWS = 1024,
    MOST_COMPLAINTS = 5,
    BAR = 24,
};

enum role { LOAD, MEASURED, NEWS, CHECK };

/* Where the records of news are: no other index is so large. */
static const uint64_t news_index = UINT64_C(1) << 48;

/* In `last`: this worker has written the record. */
static const uint32_t was_written = UINT32_C(1) << 31;

struct run;

struct worker {
    struct run *run;
    pthread_t thread;
    uint64_t number;            /* of all ranks' */
    struct kv_tape tape;
    void *session;
    struct kv_op *ring;
    unsigned char *values, *names;
    size_t ring_size, at;
    struct ex_progress *progress;
    unsigned char last_name[KV_MOST_KEY];   /* that a scan has found */
    uint64_t words;             /* of what scans have found: so that it is read */

    uint64_t ops;               /* begun in the run */
    uint64_t begun;             /* inserts begun */
    uint64_t *inserted;         /* by each worker, as far as is known */
    uint64_t told;              /* of the own ones */
    uint64_t room;
    uint32_t *last;             /* per record, then per own insert: what the check expects */
    double seconds;
    struct kv_result_set found;
};

struct run {
    const struct kv_options *o;
    void *store;
    uint64_t workers;
    struct kv_zipf zipf;
    uint64_t start;             /* of the phase, nanoseconds; */
    double cpu;                 /* and CPU time that it took */
    unsigned char last_name[KV_MOST_KEY];   /* of the records loaded, in the order of keys */
    uint64_t there;             /* records after the run */
    struct worker *worker;      /* of this rank */
};

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *memory(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (p == NULL)
        ex_abort("no memory for %zu times %zu bytes", count, size);
    return p;
}

static void show(struct worker *w, const char *what, double share, uint64_t ops)
{
    char bar[BAR + 1];
    int full;

    if (w->progress == NULL || !w->progress->shown)
        return;
    share = share < 1 ? share : 1;
    full = (int)(share * BAR);
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)full);
    bar[BAR] = '\0';
    ex_progress_say(w->progress, "%-5s [%s] %3.0f %%  %.2f million by this worker", what, bar,
                    100 * share, (double)ops / 1e6);
}

/* ---- What an operation has found ---- */

static void complain(struct worker *w, const struct kv_op *op, const char *what)
{
    if (w->found.wrong++ < MOST_COMPLAINTS)
        fprintf(stderr, "kv_ycsb: worker %" PRIu64 ": %s: record %" PRIu64 ", key %016" PRIx64
                "\n", w->number, what, op->index, op->key);
}

/* After the run: is the record one that this worker's writes allow? */
static void judge_end(struct worker *w, const struct kv_op *op, struct kv_stamp stamp)
{
    uint64_t records = (uint64_t)w->run->o->records;
    uint64_t window = (uint64_t)w->run->o->window * (w->run->o->mix->other == KV_MODIFY ? 2 : 1);
    uint32_t last = w->last == NULL ? 0
                  : w->last[op->index < records ? op->index
                            : records + (op->index - records) / w->run->workers];

    if (stamp.writer == 0 && last != 0)
        complain(w, op, "what this worker wrote is lost");
    if (stamp.writer == w->number + 1 &&
        (last == 0 || ((last - stamp.number) & KV_NUMBER_MASK) >= window))
        complain(w, op, "an old value is back");
    w->found.checked++;
}

/* What was read has to be a value of that key. */
static void judge_read(struct worker *w, const struct kv_op *op)
{
    const struct kv_options *o = w->run->o;
    struct kv_stamp stamp;

    if (op->result != KV_DONE) {
        /* Workers that have a map each do not see the news of others. */
        if (op->role != NEWS || !o->backend->alone)
            complain(w, op, "a key is missing");
        return;
    }
    if (!kv_value_check(op->value, (size_t)o->value_bytes, op->key, &stamp) ||
        stamp.writer > w->run->workers)
        complain(w, op, "a value that nobody wrote");
    else if (op->role == CHECK)
        judge_end(w, op, stamp);
    else if (op->role == NEWS)
        w->inserted[op->index - news_index] = stamp.number;
}

/* Below 0: the first one is the lower. */
static int order_of(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    uint64_t x, y;

    if (bytes != KV_NUMBER_KEY)
        return memcmp(a, b, bytes);
    kv_key_read(a, bytes, &x);
    kv_key_read(b, bytes, &y);
    return x < y ? -1 : x > y;
}

static bool is_value(const struct worker *w, const void *name, const void *value)
{
    const struct kv_options *o = w->run->o;
    struct kv_stamp stamp;
    uint64_t key;

    return kv_key_read(name, (size_t)o->key_bytes, &key)
           && kv_value_check(value, (size_t)o->value_bytes, key, &stamp)
           && stamp.writer <= w->run->workers;
}

/* Each is looked at, some closely. */
void kv_found(struct kv_op *op, const void *name, size_t name_bytes, const void *value,
              size_t value_bytes)
{
    struct worker *w = op->worker;
    size_t bytes = (size_t)w->run->o->key_bytes;
    uint64_t word;
    bool good = name_bytes == bytes && value_bytes == (size_t)w->run->o->value_bytes;

    if (good) {
        good = op->found == 0 ? op->role == CHECK || order_of(name, op->name, bytes) == 0
                              : order_of(name, op->last, bytes) > 0;
        memcpy(op->last, name, bytes);
        memcpy(&word, value, sizeof(word));
        w->words += word;
    }
    if (good && (op->role == CHECK || op->found % ENTRIES_PER_CHECK == 0))
        good = is_value(w, name, value);
    op->bad += !good;
    op->found++;
}

static void judge_scan(struct worker *w, const struct kv_op *op)
{
    w->found.entries += op->role == MEASURED ? op->found : 0;
    if (op->bad > 0)
        complain(w, op, "a scan finds what nobody wrote, or not in its order");
    else if (op->role == CHECK && op->found != w->run->there)
        complain(w, op, "a scan of all does not find all");
    else if (op->role != CHECK && (op->found == 0 || op->found > op->limit
                                   || (op->found < op->limit
                                       && order_of(op->last, w->run->last_name,
                                                   (size_t)w->run->o->key_bytes) < 0)))
        complain(w, op, "a scan finds too few entries, or too many");
}

/* The read of a modification is a part of it. */
static void count(struct worker *w, const struct kv_op *op)
{
    struct kv_result_set *f = &w->found;
    bool usual = op->kind == w->run->o->mix->usual;

    if (op->modify)
        return;
    if (op->begin != 0)
        kv_histogram_add(usual ? &f->usual_times : &f->other_times, now() - op->begin);
    if (op->role == MEASURED) {
        f->usual += usual;
        f->others += !usual;
        w->inserted[w->number] += op->kind == KV_INSERT;
    }
}

static void judge(struct worker *w, const struct kv_op *op)
{
    count(w, op);
    if (op->kind == KV_SCAN)
        judge_scan(w, op);
    else if (op->kind == KV_READ)
        judge_read(w, op);
    else if (op->result != KV_DONE)
        complain(w, op, op->kind == KV_UPDATE ? "a key is missing"
                                              : "a new key is there already");
}

/* ---- The ring ---- */

static void go(struct worker *w, struct kv_op *op);

static void ended(struct worker *w, struct kv_op *op)
{
    op->busy = false;
    judge(w, op);
    if (!op->modify)
        return;
    op->modify = false;
    op->kind = KV_UPDATE;
    go(w, op);
}

static void go(struct worker *w, struct kv_op *op)
{
    op->busy = true;
    if (op->kind == KV_UPDATE || op->kind == KV_INSERT) {
        struct kv_stamp stamp = { op->role == LOAD ? 0 : (uint32_t)w->number + 1, op->number };

        kv_value_make(op->value, (size_t)w->run->o->value_bytes, op->key, stamp);
    }
    if (w->run->o->backend->start(w->session, op))
        ended(w, op);
}

static struct kv_op *oldest(struct worker *w)
{
    struct kv_op *op = &w->ring[w->at];

    w->at = w->at + 1 == w->ring_size ? 0 : w->at + 1;
    if (op->busy) {
        w->run->o->backend->finish(w->session, op);
        ended(w, op);
    }
    return op;
}

/* The place for a new operation, when the one in it is done: one that is not done yet, a read that
 * has become an update, is passed by. */
static struct kv_op *next_op(struct worker *w)
{
    struct kv_op *op = oldest(w);

    while (op->busy)
        op = oldest(w);
    return op;
}

static void begin(struct worker *w, struct kv_op *op, enum role role, enum kv_kind kind,
                  uint64_t index, uint32_t number)
{
    op->role = role;
    op->modify = kind == KV_MODIFY;
    op->kind = op->modify ? KV_READ : kind;
    op->index = index;
    op->number = number;
    op->key = kv_key(index);
    if (op->name != NULL)
        kv_key_make(op->name, (size_t)w->run->o->key_bytes, op->key);
    if (kind == KV_SCAN) {
        op->found = op->bad = 0;
        op->limit = role == CHECK ? 0 : kv_scan_length(w->number, number);
    }
    go(w, op);
}

static void ring_open(struct worker *w, size_t size)
{
    const struct kv_options *o = w->run->o;
    size_t stride = ((size_t)o->value_bytes + 63) / 64 * 64;

    w->ring_size = size;
    w->at = 0;
    w->ring = memory(size, sizeof(*w->ring));
    w->values = memory(size, stride);
    w->names = memory(size, (size_t)o->key_bytes);
    for (size_t i = 0; i < size; i++) {
        w->ring[i].worker = w;
        w->ring[i].last = w->last_name;
        w->ring[i].value = w->values + i * stride;
        w->ring[i].name = o->backend->names ? w->names + i * (size_t)o->key_bytes : NULL;
    }
    w->session = w->run->o->backend->attach(w->run->store, (int)size);
}

static void ring_drain(struct worker *w)
{
    for (size_t i = 0; i < 2 * w->ring_size; i++)
        oldest(w);
}

static void ring_close(struct worker *w)
{
    w->run->o->backend->detach(w->session);
    free(w->ring);
    free(w->values);
    free(w->names);
}

/* ---- Load ---- */

static void *load(void *arg)
{
    struct worker *w = arg;
    const struct kv_options *o = w->run->o;
    uint64_t step = o->backend->alone ? 1 : w->run->workers;
    uint64_t first = o->backend->alone ? 0 : w->number, n = 0;

    ring_open(w, KV_MOST_WINDOW);
    if (o->distribution == KV_LATEST)
        begin(w, next_op(w), LOAD, KV_INSERT, news_index + w->number, 0);
    for (uint64_t i = first; i < (uint64_t)o->records; i += step) {
        struct kv_op *op = next_op(w);

        op->begin = 0;
        begin(w, op, LOAD, KV_INSERT, i, 0);
        if (++n % OPS_PER_LOOK == 0)
            show(w, "load", (double)i / (double)o->records, n);
    }
    ring_drain(w);
    ring_close(w);
    return NULL;
}

/* ---- Run ---- */

/* Tells how many inserts are done, and asks all others: some of this at each call. */
static void news(struct worker *w)
{
    uint64_t mine = w->inserted[w->number];

    if (mine - w->told >= INSERTS_PER_NEWS) {
        struct kv_op *op = next_op(w);

        op->begin = 0;
        begin(w, op, NEWS, KV_UPDATE, news_index + w->number, (uint32_t)mine);
        w->told = mine;
    }
    if (w->ops % OPS_PER_NEWS != 0)
        return;
    for (uint64_t other = 0; other < w->run->workers; other++) {
        struct kv_op *op;

        if (other == w->number)
            continue;
        op = next_op(w);
        op->begin = 0;
        begin(w, op, NEWS, KV_READ, news_index + other, 0);
    }
}

/* Which operation comes next on the tape. The run and the check, which plays it again, use it; so
 * what it makes of a step that writes depends on the tape and on `begun` alone. */
static enum kv_kind next_step(struct worker *w, uint64_t number, uint64_t *index)
{
    const struct kv_options *o = w->run->o;
    uint32_t step = kv_tape_at(&w->tape, number);
    bool other = (step & KV_STEP_OTHER) != 0;

    *index = step & KV_STEP_VALUE;
    if (other && o->mix->other == KV_INSERT) {
        *index = kv_new_index((uint64_t)o->records, w->run->workers, w->number, w->begun++);
        return KV_INSERT;
    }
    if (o->distribution == KV_LATEST)
        *index = kv_latest_index(*index, w->begun, (uint64_t)o->records, w->run->workers,
                                 w->inserted);
    return other ? o->mix->other : o->mix->usual;
}

static bool over(struct worker *w)
{
    const struct kv_options *o = w->run->o;
    double passed = (double)(now() - w->run->start) / 1e9;

    show(w, "run", o->ops > 0 ? (double)w->ops / (double)o->ops : passed / o->seconds, w->ops);
    /* The steps until the next look may all be inserts. */
    if (o->mix->other == KV_INSERT && w->begun + OPS_PER_LOOK > w->room) {
        w->found.full = 1;
        return true;
    }
    return o->ops == 0 && passed >= o->seconds;
}

static void *run_mix(void *arg)
{
    struct worker *w = arg;
    const struct kv_options *o = w->run->o;
    bool tell = o->distribution == KV_LATEST && o->mix->other == KV_INSERT;
    int64_t until_timed = 1;

    while (o->ops == 0 || w->ops < (uint64_t)o->ops) {
        struct kv_op *op;
        enum kv_kind kind;
        uint64_t index;

        if (w->ops % OPS_PER_LOOK == 0) {
            if (over(w))
                break;
            if (tell)
                news(w);
        }
        op = next_op(w);
        kind = next_step(w, w->ops, &index);
        op->begin = 0;
        if (--until_timed == 0) {
            until_timed = o->sample;
            op->begin = now();
        }
        begin(w, op, MEASURED, kind, index, (uint32_t)w->ops);
        w->ops++;
    }
    ring_drain(w);
    w->seconds = (double)(now() - w->run->start) / 1e9;
    return NULL;
}

/* ---- Check ---- */

static void play_again(struct worker *w)
{
    const struct kv_options *o = w->run->o;
    uint64_t inserts = w->begun, records = (uint64_t)o->records, index;

    w->last = memory((size_t)(records + inserts), sizeof(*w->last));
    w->begun = 0;
    for (uint64_t n = 0; n < w->ops; n++) {
        uint64_t place = records + w->begun;
        enum kv_kind kind = next_step(w, n, &index);

        if (kind != o->mix->usual)
            w->last[kind == KV_INSERT ? place : index] = was_written |
                                                          ((uint32_t)n & KV_NUMBER_MASK);
    }
}

/* One scan of everything. */
static void scan_all(struct worker *w)
{
    struct kv_op *op = next_op(w);

    op->begin = 0;
    op->role = CHECK;
    op->kind = KV_SCAN;
    op->modify = false;
    op->key = op->limit = op->found = op->bad = 0;
    memset(op->name, 0, (size_t)w->run->o->key_bytes);
    go(w, op);
}

static void *check(void *arg)
{
    struct worker *w = arg;
    const struct kv_options *o = w->run->o;
    uint64_t records = (uint64_t)o->records, n = 0;

    if (o->mix->percent < 100)
        play_again(w);
    if (o->backend->ordered && w == w->run->worker)
        scan_all(w);
    for (uint64_t i = 0; i < records + w->begun; i++) {
        uint64_t index = i < records ? i
                       : kv_new_index(records, w->run->workers, w->number, i - records);
        struct kv_op *op;

        if (i < records && (w->last == NULL || w->last[i] == 0) && i % w->run->workers != w->number)
            continue;
        op = next_op(w);
        op->begin = 0;
        begin(w, op, CHECK, KV_READ, index, 0);
        if (++n % OPS_PER_LOOK == 0)
            show(w, "check", (double)i / (double)(records + w->begun), n);
    }
    ring_drain(w);
    free(w->last);
    return NULL;
}

/* ---- The phases ---- */

/* CPU time of the store's server, which rank 0 adds to its own: user and system time are the fields
 * 14 and 15, and the second one may have blanks in it. */
static double server_seconds(int64_t server)
{
    unsigned long user = 0, system = 0;
    char path[64], line[1024];
    size_t bytes = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", server);
    f = fopen(path, "r");
    if (f != NULL) {
        bytes = fread(line, 1, sizeof(line) - 1, f);
        fclose(f);
    }
    line[bytes] = '\0';
    if (strrchr(line, ')') == NULL
        || sscanf(strrchr(line, ')') + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu",
                  &user, &system) != 2)
        ex_abort("no process %" PRId64, server);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double cpu_seconds(const struct kv_options *o)
{
    bool asked = o->server > 0 && ex_rank() == 0;

    return ex_cpu_seconds() + (asked ? server_seconds(o->server) : 0);
}

/* All workers of all ranks; the calling thread is the rank's first. Returns the seconds it took
 * everybody. */
static double phase(struct run *r, void *work(void *))
{
    double cpu = cpu_seconds(r->o);
    int64_t threads = r->o->threads;

    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    r->start = now();
    for (int64_t i = 1; i < threads; i++) {
        if (pthread_create(&r->worker[i].thread, NULL, work, &r->worker[i]) != 0)
            ex_abort("cannot start thread %" PRId64, i);
    }
    work(&r->worker[0]);
    for (int64_t i = 1; i < threads; i++)
        pthread_join(r->worker[i].thread, NULL);
    r->cpu = cpu_seconds(r->o) - cpu;
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    return (double)(now() - r->start) / 1e9;
}

/* The session belongs to the thread that made it, so the run and the check are of one thread. */
static void *open_and_run(void *arg)
{
    struct worker *w = arg;

    ring_open(w, (size_t)w->run->o->window);
    run_mix(w);
    ring_close(w);
    return NULL;
}

static void *open_and_check(void *arg)
{
    struct worker *w = arg;

    ring_open(w, KV_MOST_WINDOW);
    check(w);
    ring_close(w);
    return NULL;
}

static void make_workers(struct run *r, struct ex_progress *progress)
{
    const struct kv_options *o = r->o;
    size_t steps = o->ops > 0 && o->ops < KV_MOST_STEPS ? (size_t)o->ops : KV_MOST_STEPS;

    kv_zipf_init(&r->zipf, (uint64_t)o->records, KV_ZIPF_THETA);
    r->worker = memory((size_t)o->threads, sizeof(*r->worker));
    for (int64_t i = 0; i < o->threads; i++) {
        struct worker *w = &r->worker[i];

        w->run = r;
        w->number = (uint64_t)(ex_rank() * o->threads + i);
        w->progress = w->number == 0 ? progress : NULL;
        w->room = (uint64_t)o->room / r->workers;
        w->inserted = memory((size_t)r->workers, sizeof(*w->inserted));
        if (!kv_tape_make(&w->tape, steps, o->mix, o->distribution, &r->zipf,
                          (uint64_t)o->records, (uint64_t)o->seed * 1000003 + w->number))
            ex_abort("no memory for %zu operations", steps);
    }
}

static void add_up(struct run *r, struct kv_result_set *sum)
{
    uint64_t mine[7] = { 0 }, all[7];
    double seconds = 0;

    for (int64_t i = 0; i < r->o->threads; i++) {
        const struct worker *w = &r->worker[i];

        mine[0] += w->ops;
        mine[1] += w->found.usual;
        mine[2] += w->found.others;
        mine[3] += w->found.checked;
        mine[4] += w->found.wrong;
        mine[5] += w->found.full;
        mine[6] += w->found.entries;
        seconds = w->seconds > seconds ? w->seconds : seconds;
        if (i == 0)
            continue;
        kv_histogram_merge(&r->worker[0].found.usual_times, &w->found.usual_times);
        kv_histogram_merge(&r->worker[0].found.other_times, &w->found.other_times);
    }
    ex_check(MPI_Allreduce(mine, all, 7, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    ex_check(MPI_Allreduce(&seconds, &sum->seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
             "MPI_Allreduce");
    sum->ops = all[0];
    sum->usual = all[1];
    sum->others = all[2];
    sum->checked = all[3];
    sum->wrong = all[4];
    sum->full = all[5];
    sum->entries = all[6];
}

static void add_times(const struct kv_histogram *mine, struct kv_histogram *all)
{
    ex_check(MPI_Reduce(mine->counts, all->counts, KV_HISTOGRAM_BUCKETS, MPI_UINT64_T, MPI_SUM, 0,
                        MPI_COMM_WORLD), "MPI_Reduce");
    ex_check(MPI_Reduce(&mine->most, &all->most, 1, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD),
             "MPI_Reduce");
}

/* Records of the map that this rank sees, news among them. */
static uint64_t records_there(const struct run *r)
{
    uint64_t mine = 0, all = 0, news = r->o->distribution == KV_LATEST;

    for (int64_t i = 0; i < r->o->threads; i++)
        mine += r->worker[i].begun;
    ex_check(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    return (uint64_t)r->o->records
           + (r->o->backend->alone ? mine + news * (uint64_t)r->o->threads
                                   : all + news * r->workers);
}

void kv_measure(const struct kv_options *o, struct kv_result_set *result)
{
    struct run r = { .o = o, .workers = (uint64_t)ex_size() * (uint64_t)o->threads };
    uint64_t loaded = (uint64_t)o->records / (o->backend->alone ? 1 : r.workers) + 1;
    uint64_t each = loaded + (uint64_t)o->room / r.workers + 1;
    struct ex_progress progress;
    double start = MPI_Wtime();
    uint64_t last = 0;

    ex_progress_init(&progress, o->progress);
    make_workers(&r, &progress);
    for (uint64_t i = 0; o->mix->usual == KV_SCAN && i < (uint64_t)o->records; i++)
        last = kv_key(i) > last ? kv_key(i) : last;
    kv_key_make(r.last_name, (size_t)o->key_bytes, last);
    r.store = o->backend->open(o, each * (uint64_t)o->threads, each * r.workers);
    result->open_seconds = MPI_Wtime() - start;
    result->load_seconds = phase(&r, load);
    ex_progress_end(&progress);
    phase(&r, open_and_run);
    ex_progress_end(&progress);
    ex_check(MPI_Allreduce(&r.cpu, &result->cpu_seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    r.there = records_there(&r);
    result->check_seconds = o->check ? phase(&r, open_and_check) : 0;
    ex_progress_end(&progress);

    add_up(&r, result);
    add_times(&r.worker[0].found.usual_times, &result->usual_times);
    add_times(&r.worker[0].found.other_times, &result->other_times);
    o->backend->close(r.store);
    for (int64_t i = 0; i < o->threads; i++) {
        kv_tape_free(&r.worker[i].tape);
        free(r.worker[i].inserted);
    }
    free(r.worker);
}

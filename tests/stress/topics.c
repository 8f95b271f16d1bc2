/* SPDX-License-Identifier: BSD-3-Clause */

/* A logged topic of three processes, made again and again: one publishes as fast as it can, one
 * subscribes at some time, one logs and is killed meanwhile. After each kill all records that it
 * was told to be synced are in its file, each as it was published, none missing before another; the
 * next run goes on with the same file. Whoever subscribed late was given samples without a gap,
 * also after the kill: the topic goes on without the logger.
 * TAP.
 *     topics [--kill N] [--seed N]      so many runs: 200 */

#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"
#include "topic/tlog.h"
#include "topic/tlog_read.h"

enum { PUBLISHER, LATE, LOGGER, MEMBERS, HISTORY = 30, WORDS = 40 };

struct shared {
    _Atomic uint64_t synced;        /* records, as the logger was told */
    _Atomic int logger, late, wrong, over;
    _Atomic uint64_t given, kept;   /* by the late subscriber, in all runs */
};

struct test {
    struct shared *shared;
    char folder[64], path[80];
    uint64_t random, records;
    int run;
    struct loci_log say;
};

struct member {
    struct test *t;
    uint64_t next;                  /* 0: any */
    _Atomic int gone, subscribed;
};

static void hear(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    if (strstr(text, "were not written whole") == NULL)
        fprintf(stderr, "topics: %s\n", text);
}

/* ---- members ---- */

/* Sample i of a run: words that follow from the first. */
static size_t make(int run, uint64_t i, uint64_t *to)
{
    size_t n = 1 + i * 7 % WORDS;

    for (size_t k = 0; k < n; k++)
        to[k] = ((uint64_t)run << 40 | i) + k * UINT64_C(0x9e3779b97f4a7c15);
    return 8 * n;
}

static bool is_right(const void *data, size_t bytes, uint64_t *first)
{
    uint64_t words[WORDS];

    memcpy(first, data, sizeof *first);
    return bytes == make((int)(*first >> 40), *first & 0xffffffffff, words)
           && memcmp(words, data, bytes) == 0;
}

static void take(void *arg, const loco_sample_t *samples, int n)
{
    struct member *m = arg;

    for (int i = 0; i < n; i++) {
        uint64_t first;

        if (!is_right(samples[i].data, samples[i].bytes, &first)
            || (m->next != 0 && first != m->next)
            || samples[i].kept != (atomic_load(&m->subscribed) == 0))
            atomic_fetch_add(&m->t->shared->wrong, 1);
        m->next = first + 1;
    }
    atomic_fetch_add(&m->t->shared->given, (uint64_t)n);
}

static void note(void *arg, enum loco_topic_event event, int64_t value)
{
    struct member *m = arg;

    if (event == LOCO_TOPIC_MEMBER_GONE)
        atomic_store(&m->gone, 1 + (int)value);
    if (event == LOCO_TOPIC_ENDED)
        atomic_fetch_add(&m->t->shared->wrong, 1);
    if (event == LOCO_TOPIC_SUBSCRIBED && value > HISTORY)
        atomic_fetch_add(&m->t->shared->wrong, 1);
    if (event == LOCO_TOPIC_SUBSCRIBED) {
        atomic_fetch_add(&m->t->shared->kept, (uint64_t)value);
        atomic_store(&m->subscribed, 1);
        atomic_store(&m->t->shared->late, 1);
    }
}

/* Until a while after the logger has died. */
static int publish(struct test *t, loco_topic_t *topic)
{
    uint64_t words[WORDS], number;
    int status = LOCO_OK;

    for (uint64_t i = 0; status == LOCO_OK && atomic_load(&t->shared->over) == 0; i++)
        status = loco_topic_post(topic, words, make(t->run, i, words), &number);
    return status != LOCO_OK || loco_topic_wait_delivered(topic, number) != LOCO_OK;
}

static int await_more(const struct test *t, uint64_t samples)
{
    uint64_t given = atomic_load(&t->shared->given);

    for (int64_t begun = run_now(); atomic_load(&t->shared->given) < given + samples;)
        if (run_now() - begun > RUN_PATIENCE)
            return 1;
    return 0;
}

/* Some time after the start it subscribes, some time later it kills the logger. */
static int subscribe(struct test *t, struct member *m, loco_topic_t *topic)
{
    struct timespec rest = { .tv_nsec = (long)(run_random(&t->random) % 6000000) };
    int64_t begun = run_now();

    nanosleep(&rest, NULL);
    if (loco_topic_subscribe(topic) != LOCO_OK)
        return 1;
    while (atomic_load(&m->subscribed) == 0 || atomic_load(&t->shared->synced) == 0)
        if (run_now() - begun > RUN_PATIENCE)
            return 1;
    nanosleep(&rest, NULL);
    kill(atomic_load(&t->shared->logger), SIGKILL);
    while (atomic_load(&m->gone) == 0)
        if (run_now() - begun > 2 * RUN_PATIENCE)
            return 1;
    if (atomic_load(&m->gone) != 1 + LOGGER || await_more(t, 1000) != 0)
        return 1;
    atomic_store(&t->shared->over, 1);
    return 0;
}

static int log_on(struct test *t, loco_topic_t *topic)
{
    uint64_t synced;

    atomic_store(&t->shared->logger, (int)getpid());
    while (loco_topic_logged(topic, NULL, &synced) == LOCO_OK)
        atomic_store(&t->shared->synced, synced);
    return 1;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct test *t = arg;
    static const int publisher[] = { PUBLISHER };
    struct member m = { .t = t };
    loco_topic_options_t o = {
        .publishers = publisher, .npublishers = 1, .level = LOCO_TOPIC_LOGGED,
        .history = HISTORY, .slot_bytes = 8 * WORDS, .event = note, .arg = &m,
    };
    int rank = boot->exchange.rank, result = 1;
    loco_topic_t *topic = NULL;
    loco_runtime_t *rt;

    o.log = rank == LOGGER ? t->path : NULL;
    o.handler = rank == LATE ? take : NULL;
    t->random += (uint64_t)rank;
    if (loco_runtime_open(boot, &rt) != LOCO_OK)
        return 1;
    if (loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &topic) == LOCO_OK
        && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK)
        result = rank == PUBLISHER ? publish(t, topic)
                 : rank == LATE ? subscribe(t, &m, topic) : log_on(t, topic);
    loco_topic_destroy(topic);
    loco_runtime_close(rt);
    return result;
}

/* ---- what is there then ---- */

static int check_file(struct test *t)
{
    struct loci_tlog_reader *r;
    struct loci_tlog_item item;
    uint64_t last = 0, first;
    int wrong = 0;

    if (loci_tlog_reader_open(t->path, &t->say, &r) != LOCO_OK)
        return 1;
    t->records = 0;
    while (loci_tlog_reader_next(r, &item) == LOCO_OK && item.found == LOCI_TLOG_FOUND_RECORD) {
        wrong += !is_right(item.data, item.record.bytes, &first)
                 || (first != last + 1 && (first & 0xffffffffff) != 0);
        last = first;
        t->records++;
    }
    loci_tlog_reader_close(r);
    if (item.found == LOCI_TLOG_FOUND_DAMAGE || t->records < atomic_load(&t->shared->synced))
        wrong++;
    if (wrong != 0)
        fprintf(stderr, "topics: run %d: %d wrong records of %llu, and %llu were synced\n", t->run,
                wrong, (unsigned long long)t->records,
                (unsigned long long)atomic_load(&t->shared->synced));
    return wrong;
}

static int run_once(struct test *t)
{
    int statuses[MEMBERS];

    t->run++;
    t->random = run_random(&t->random) | 1;
    atomic_store(&t->shared->synced, 0);
    atomic_store(&t->shared->over, 0);
    loco_fork_run(MEMBERS, member, t, statuses);
    if (statuses[PUBLISHER] != 0 || statuses[LATE] != 0 || statuses[LOGGER] != -SIGKILL
        || atomic_load(&t->shared->wrong) != 0) {
        fprintf(stderr, "topics: run %d: members ended with %d, %d, %d; %d samples wrong\n", t->run,
                statuses[0], statuses[1], statuses[2], atomic_load(&t->shared->wrong));
        return 1;
    }
    return check_file(t);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = { { "kill", required_argument, NULL, 'k' },
                                           { "seed", required_argument, NULL, 's' },
                                           { NULL, 0, NULL, 0 } };
    static struct test t = { .random = 1 };
    const char *tmp = getenv("TMPDIR");
    int kills = 200, option, failed = 0;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (option == 'k')
            kills = atoi(optarg);
        else if (option == 's')
            t.random = strtoull(optarg, NULL, 10);
        else
            return 2;
    }
    setenv("LOCO_LOG", "error", 0);
    t.say = (struct loci_log){ .fn = hear, .level = LOCO_LOG_WARN };
    t.shared = mmap(NULL, sizeof *t.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    snprintf(t.folder, sizeof t.folder, "%s/loco-topics.XXXXXX",
             tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    if (t.shared == MAP_FAILED || t.random == 0 || mkdtemp(t.folder) == NULL) {
        perror("topics");
        return 2;
    }
    snprintf(t.path, sizeof t.path, "%s/log", t.folder);
    while (t.run < kills && !failed)
        failed = run_once(&t) != 0;
    printf("1..1\n%sok 1 - %d kills of who logs a topic, %llu records; a late subscriber was given "
           "%llu samples, %llu of them kept\n", failed ? "not " : "", t.run,
           (unsigned long long)t.records, (unsigned long long)atomic_load(&t.shared->given),
           (unsigned long long)atomic_load(&t.shared->kept));
    unlink(t.path);
    rmdir(t.folder);
    return failed;
}

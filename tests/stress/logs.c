/* SPDX-License-Identifier: BSD-3-Clause */

/* Log files of topics whose writer is killed while it writes, again and again. After each kill all
 * that it was told to be synced is there, and all that is there is right; what it left of a record
 * is cut off. TAP.
 *
 *     logs [--kill N] [--seed N]        so many kills: 200
 *     logs --write N FILE               no test: a log of N records of text */

#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <loco/status.h>

#include "run.h"
#include "topic/tlog.h"
#include "topic/tlog_read.h"

enum { BATCH = 40, LARGE = 200000, SMALL = 900 };
#define MOST_BYTES ((off_t)16 << 20)   /* then a new file is begun */

struct shared {
    _Atomic uint64_t synced, written;   /* as the writer was told */
    _Atomic int begun;
};

struct test {
    struct shared *shared;
    char folder[64], path[80];
    uint64_t random, torn, records;
    int said;
    struct loci_log say;
};

static void hear(void *ctx, int level, const char *text)
{
    struct test *t = ctx;

    (void)level;
    t->said++;
    if (strstr(text, "were not written whole") == NULL)
        fprintf(stderr, "logs: %s\n", text);
}

/* ---- the writer ---- */

/* Of 0 to some hundred bytes, and now and then one that takes many pages. */
static uint32_t sample(uint64_t number, unsigned char *to)
{
    uint64_t hash = number * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t bytes = (uint32_t)((hash >> 40) % (number % 64 == 7 ? LARGE : SMALL));

    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(hash >> 8 * (i % 7)) ^ (unsigned char)i;
    return bytes;
}

/* Until it is killed. */
static int write_on(struct test *t, enum loci_tlog_sync mode)
{
    static unsigned char data[BATCH][LARGE];
    struct loci_tlog_entry entries[BATCH];
    struct loci_tlog *log;

    if (loci_tlog_open(t->path, "weather", mode, &t->say, &log) != LOCO_OK)
        return 1;
    for (;;) {
        uint64_t next = loci_tlog_written(log) + 1;
        int n = 1 + (int)(run_random(&t->random) % BATCH);

        for (int i = 0; i < n; i++)
            entries[i] = (struct loci_tlog_entry){ data[i], sample(next + (uint64_t)i, data[i]),
                                                   (uint32_t)next, (int64_t)next };
        if (loci_tlog_append(log, entries, n, NULL) != LOCO_OK)
            return 2;
        atomic_store(&t->shared->written, loci_tlog_written(log));
        if (run_random(&t->random) % 8 == 0 && mode != LOCI_TLOG_SYNC_NEVER
            && loci_tlog_wait_synced(log, next, INT64_MAX) != LOCO_OK)
            return 3;
        atomic_store(&t->shared->synced, loci_tlog_synced(log));
        atomic_store(&t->shared->begun, 1);
    }
}

/* ---- what is there then ---- */

static int check_records(const struct test *t, uint64_t *number)
{
    static unsigned char data[LARGE];
    struct loci_tlog_reader *r;
    struct loci_tlog_item item;

    *number = 0;
    if (loci_tlog_reader_open(t->path, &t->say, &r) != LOCO_OK)
        return 1;
    while (loci_tlog_reader_next(r, &item) == LOCO_OK && item.found == LOCI_TLOG_FOUND_RECORD) {
        uint32_t bytes = sample(++*number, data);

        if (item.record.number != *number || item.record.bytes != bytes
            || memcmp(item.data, data, bytes) != 0) {
            fprintf(stderr, "logs: record %llu is wrong\n", (unsigned long long)*number);
            break;
        }
    }
    loci_tlog_reader_close(r);
    return item.found != LOCI_TLOG_FOUND_END;
}

static int look(struct test *t)
{
    uint64_t written = atomic_load(&t->shared->written), there;
    struct loci_tlog *log;
    int wrong;

    t->said = 0;
    if (loci_tlog_open(t->path, "weather", LOCI_TLOG_SYNC_NEVER, &t->say, &log) != LOCO_OK)
        return 1;
    t->torn += t->said > 0;
    there = loci_tlog_written(log);
    loci_tlog_close(log);
    wrong = check_records(t, &there);
    /* A kill takes nothing of what was written, either: that is the system's. */
    if (there < atomic_load(&t->shared->synced) || there < written) {
        fprintf(stderr, "logs: %llu records were written, %llu synced, and %llu are there\n",
                (unsigned long long)written,
                (unsigned long long)atomic_load(&t->shared->synced), (unsigned long long)there);
        wrong = 1;
    }
    t->records = there;
    return wrong;
}

static int kill_once(struct test *t, int which)
{
    enum loci_tlog_sync mode = which % 4 == 3 ? LOCI_TLOG_SYNC_NEVER : LOCI_TLOG_SYNC_BATCH;
    struct timespec rest = { .tv_nsec = (long)(run_random(&t->random) % 8000000) };
    int64_t begun = run_now();
    int status;
    pid_t pid;

    atomic_store(&t->shared->begun, 0);
    pid = fork();
    if (pid == 0)
        _exit(write_on(t, mode));
    if (pid < 0)
        return 1;
    while (atomic_load(&t->shared->begun) == 0 && run_now() - begun < RUN_PATIENCE)
        sched_yield();
    nanosleep(&rest, NULL);
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) {
        fprintf(stderr, "logs: the writer ended by itself, %d\n", status);
        return 1;
    }
    return look(t);
}

static int kill_all(struct test *t, int kills)
{
    for (int i = 0; i < kills; i++) {
        off_t bytes;
        FILE *f;

        if (kill_once(t, i) != 0)
            return i + 1;
        f = fopen(t->path, "r");
        bytes = f != NULL && fseeko(f, 0, SEEK_END) == 0 ? ftello(f) : 0;
        if (f != NULL)
            fclose(f);
        if (bytes > MOST_BYTES) {
            unlink(t->path);
            atomic_store(&t->shared->written, 0);
            atomic_store(&t->shared->synced, 0);
        }
    }
    return 0;
}

/* "sample 1"... */
static int write_text(struct test *t, const char *path, int n)
{
    struct loci_tlog *log;
    char text[32];
    int status = loci_tlog_open(path, "weather", LOCI_TLOG_SYNC_NEVER, &t->say, &log);

    if (status != LOCO_OK)
        return 1;
    for (int i = 1; i <= n && status == LOCO_OK; i++) {
        struct loci_tlog_entry entry = { .data = text, .sender = (uint32_t)i % 3,
                                         .time = i * INT64_C(1000000000) };

        entry.bytes = (uint32_t)snprintf(text, sizeof text, "sample %d\n", i);
        status = loci_tlog_append(log, &entry, 1, NULL);
    }
    loci_tlog_close(log);
    return status != LOCO_OK;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = { { "kill", required_argument, NULL, 'k' },
                                           { "seed", required_argument, NULL, 's' },
                                           { "write", required_argument, NULL, 'w' },
                                           { NULL, 0, NULL, 0 } };
    static struct test t = { .random = 1 };
    const char *tmp = getenv("TMPDIR");
    int kills = 200, records = -1, option, failed;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (option == 'k')
            kills = atoi(optarg);
        else if (option == 's')
            t.random = strtoull(optarg, NULL, 10);
        else if (option == 'w')
            records = atoi(optarg);
        else
            return 2;
    }
    t.say = (struct loci_log){ .fn = hear, .ctx = &t, .level = LOCO_LOG_WARN };
    if (records >= 0)
        return optind == argc - 1 ? write_text(&t, argv[optind], records) : 2;
    t.shared = mmap(NULL, sizeof *t.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    snprintf(t.folder, sizeof t.folder, "%s/loco-logs.XXXXXX",
             tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    if (t.shared == MAP_FAILED || t.random == 0 || mkdtemp(t.folder) == NULL) {
        perror("logs");
        return 2;
    }
    snprintf(t.path, sizeof t.path, "%s/log", t.folder);
    failed = kill_all(&t, kills);
    printf("1..1\n%sok 1 - %d kills of who writes a log; %llu left a part of a record; %llu "
           "records in the last file\n", failed == 0 ? "" : "not ", failed == 0 ? kills : failed,
           (unsigned long long)t.torn, (unsigned long long)t.records);
    unlink(t.path);
    rmdir(t.folder);
    return failed != 0;
}

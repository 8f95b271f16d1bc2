/* SPDX-License-Identifier: BSD-3-Clause */

/* Log files of topics: what is synced. The system calls that sync are this test's: they note how
 * long the file was, may be held, and may fail. So a machine that stops can be tried: of what was
 * not synced, any part is lost. */

#include "tlog_world.h"

#include <errno.h>

#include "run.h"

enum { MOST = 60 };
#define MS INT64_C(1000000)

static _Atomic int64_t durable;     /* bytes */
static _Atomic int syncs, error, held;
static _Atomic bool hold;

static int sync_as_told(int fd)
{
    struct stat stat_;

    /* What is there before: a sync need not cover what is written during it. */
    if (fstat(fd, &stat_) != 0 || !S_ISREG(stat_.st_mode))
        return 0;
    atomic_store(&held, 1);
    while (atomic_load(&hold))
        usleep(100);
    atomic_store(&held, 0);
    atomic_fetch_add(&syncs, 1);
    if (atomic_load(&error) != 0) {
        errno = atomic_load(&error);
        return -1;
    }
    atomic_store(&durable, (int64_t)stat_.st_size);
    return 0;
}

int fdatasync(int fd)
{
    return sync_as_told(fd);
}

int fsync(int fd)
{
    return sync_as_told(fd);
}

static struct loci_tlog *open_log(struct tlog_world *w, enum loci_tlog_sync mode)
{
    struct loci_tlog *log = NULL;

    cr_assert_eq(loci_tlog_open(w->path, "weather", mode, &w->say, &log), LOCO_OK, "%s", w->said);
    return log;
}

/* What is said to be synced is, at all times; and the machine stops at any time. */
Test(tlog_sync, loses_nothing_that_was_synced, .timeout = RUN_SECONDS)
{
    struct tlog_world w;
    uint64_t random = 20261130, synced = 0, waited = 0;

    tlog_enter(&w);
    for (int round = 0; round < run_rounds(300); round++) {
        struct loci_tlog *log = open_log(&w, LOCI_TLOG_SYNC_BATCH);
        struct loci_tlog_item end;
        struct stat stat_;
        int64_t kept;

        cr_assert(loci_tlog_written(log) >= synced, "round %d: %d were synced, %d are there", round,
                  (int)synced, (int)loci_tlog_written(log));
        cr_assert_eq(loci_tlog_synced(log), loci_tlog_written(log));
        for (uint64_t i = run_random(&random) % 20; i > 0; i--) {
            uint64_t next = loci_tlog_written(log) + 1 + run_random(&random) % 10;

            cr_assert_eq(tlog_append(log, next, 5, MOST), LOCO_OK);
            if (run_random(&random) % 4 == 0) {
                cr_assert_eq(loci_tlog_wait_synced(log, next, LOCO_FOREVER), LOCO_OK);
                cr_assert(loci_tlog_synced(log) >= next);
                waited++;
            }
        }
        /* It stops now: what is synced later does not count. */
        synced = loci_tlog_synced(log);
        kept = atomic_load(&durable);
        cr_assert_eq(stat(w.path, &stat_), 0);
        loci_tlog_close(log);
        kept += (int64_t)(run_random(&random) % (uint64_t)(stat_.st_size - kept + 1));
        cr_assert_eq(truncate(w.path, kept), 0);
        if (run_random(&random) % 2 == 0)
            cr_assert_eq(truncate(w.path, stat_.st_size), 0);       /* zeros */
        (void)tlog_count(w.path, &w.say, MOST, &end);
    }
    cr_assert(waited > 0);
    tlog_leave(&w);
}

/* What a killed process wrote is on the disk before it counts as synced. */
Test(tlog_sync, syncs_what_is_there)
{
    struct tlog_world w;
    struct loci_tlog *log;
    struct stat stat_;

    tlog_enter(&w);
    log = open_log(&w, LOCI_TLOG_SYNC_NEVER);
    cr_assert_eq(tlog_append(log, 20, 3, MOST), LOCO_OK);
    loci_tlog_close(log);
    cr_assert_eq(atomic_load(&durable), 0);
    log = open_log(&w, LOCI_TLOG_SYNC_BATCH);
    cr_assert_eq(loci_tlog_synced(log), 20);
    cr_assert_eq(stat(w.path, &stat_), 0);
    cr_assert_eq(atomic_load(&durable), (int64_t)stat_.st_size);
    loci_tlog_close(log);
    tlog_leave(&w);
}

/* While the disk takes its time records are written, and not said to be synced. */
Test(tlog_sync, does_not_wait_for_the_disk)
{
    struct tlog_world w;
    struct loci_tlog *log;
    int64_t start;

    tlog_enter(&w);
    log = open_log(&w, LOCI_TLOG_SYNC_BATCH);
    atomic_store(&hold, true);
    cr_assert_eq(tlog_append(log, 1, 1, MOST), LOCO_OK);
    start = run_now();
    while (atomic_load(&held) == 0)
        cr_assert(!run_too_long(start, RUN_PATIENCE));
    cr_assert_eq(tlog_append(log, 500, 10, MOST), LOCO_OK);
    cr_assert_eq(loci_tlog_written(log), 500);
    cr_assert_eq(loci_tlog_synced(log), 0);
    cr_assert_eq(loci_tlog_wait_synced(log, 1, 5 * MS), LOCO_ERR_TIMEOUT);
    cr_assert_eq(loci_tlog_wait_synced(log, 501, LOCO_FOREVER), LOCO_ERR_ARG);
    atomic_store(&hold, false);
    cr_assert_eq(loci_tlog_wait_synced(log, 500, LOCO_FOREVER), LOCO_OK);
    cr_assert_eq(loci_tlog_synced(log), 500);
    loci_tlog_close(log);
    tlog_leave(&w);
}

/* A sync covers what was written before it began, and no more. */
Test(tlog_sync, counts_from_the_beginning)
{
    struct tlog_world w;
    struct loci_tlog *log;
    int64_t start;
    int before;

    tlog_enter(&w);
    log = open_log(&w, LOCI_TLOG_SYNC_BATCH);
    before = atomic_load(&syncs);
    atomic_store(&hold, true);
    cr_assert_eq(tlog_append(log, 1, 1, MOST), LOCO_OK);
    start = run_now();
    while (atomic_load(&held) == 0)
        cr_assert(!run_too_long(start, RUN_PATIENCE));
    cr_assert_eq(tlog_append(log, 2, 1, MOST), LOCO_OK);
    atomic_store(&hold, false);
    cr_assert_eq(loci_tlog_wait_synced(log, 2, LOCO_FOREVER), LOCO_OK);
    cr_assert(atomic_load(&syncs) - before >= 2);
    loci_tlog_close(log);
    tlog_leave(&w);
}

/* Each second: many batches, few syncs; who waits need not wait for the second to be over; the end
 * syncs. */
Test(tlog_sync, each_second)
{
    struct tlog_world w;
    struct loci_tlog *log;
    int64_t start;
    int before;

    tlog_enter(&w);
    log = open_log(&w, LOCI_TLOG_SYNC_SECOND);
    before = atomic_load(&syncs);
    start = run_now();
    while (run_now() - start < 300 * MS)
        cr_assert_eq(tlog_append(log, loci_tlog_written(log) + 10, 1, MOST), LOCO_OK);
    cr_assert(atomic_load(&syncs) - before <= 1 + (run_now() - start) / (1000 * MS));
    while (loci_tlog_synced(log) == 0) {
        usleep(1000);
        cr_assert(!run_too_long(start, RUN_PATIENCE));
    }
    cr_assert(run_now() - start >= 900 * MS, "after %d ms", (int)((run_now() - start) / MS));
    cr_assert_eq(tlog_append(log, loci_tlog_written(log) + 1, 1, MOST), LOCO_OK);
    start = run_now();
    cr_assert_eq(loci_tlog_wait_synced(log, loci_tlog_written(log), LOCO_FOREVER), LOCO_OK);
    cr_assert(!run_too_long(start, 700 * MS));
    cr_assert_eq(tlog_append(log, loci_tlog_written(log) + 1, 1, MOST), LOCO_OK);
    before = atomic_load(&syncs);
    loci_tlog_close(log);
    cr_assert_eq(atomic_load(&syncs), before + 1);
    tlog_leave(&w);
}

Test(tlog_sync, never)
{
    struct tlog_world w;
    struct loci_tlog *log;

    tlog_enter(&w);
    log = open_log(&w, LOCI_TLOG_SYNC_NEVER);
    cr_assert_eq(tlog_append(log, 50, 3, MOST), LOCO_OK);
    cr_assert_eq(loci_tlog_synced(log), 0);
    cr_assert_eq(loci_tlog_wait_synced(log, 1, LOCO_FOREVER), LOCO_ERR_STATE);
    cr_assert_eq(loci_tlog_wait_synced(log, 0, LOCO_FOREVER), LOCO_OK);
    loci_tlog_close(log);
    cr_assert_eq(atomic_load(&syncs), 0);
    tlog_leave(&w);
}

/* After a sync that failed nothing is promised any more, also not by the next one. */
Test(tlog_sync, ends_when_it_fails)
{
    struct tlog_world w;
    struct loci_tlog *log;
    int64_t start = run_now();

    tlog_enter(&w);
    log = open_log(&w, LOCI_TLOG_SYNC_BATCH);
    cr_assert_eq(tlog_append(log, 3, 3, MOST), LOCO_OK);
    cr_assert_eq(loci_tlog_wait_synced(log, 3, LOCO_FOREVER), LOCO_OK);
    atomic_store(&error, EIO);
    cr_assert_eq(tlog_append(log, 6, 3, MOST), LOCO_OK);
    cr_assert_eq(loci_tlog_wait_synced(log, 6, LOCO_FOREVER), LOCO_ERR_SYSTEM);
    atomic_store(&error, 0);
    cr_assert(strstr(w.said, "cannot be synced: Input/output error; records after number 3 may be "
                     "lost") != NULL, "%s", w.said);
    while (tlog_append(log, loci_tlog_written(log) + 1, 1, MOST) == LOCO_OK)
        cr_assert(!run_too_long(start, RUN_PATIENCE));
    cr_assert_eq(tlog_append(log, loci_tlog_written(log) + 1, 1, MOST), LOCO_ERR_SYSTEM);
    cr_assert_eq(loci_tlog_wait_synced(log, 3, LOCO_FOREVER), LOCO_OK);
    cr_assert_eq(loci_tlog_synced(log), 3);
    loci_tlog_close(log);
    tlog_leave(&w);
}

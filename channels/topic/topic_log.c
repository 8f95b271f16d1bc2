/* SPDX-License-Identifier: BSD-3-Clause */

/* Topics: the log, and what the program asks of it. A simulation has no files, so none of its
 * members can have a log. */

#include "config.h"

#include "observe/mistake.h"
#include "topic.h"

#ifdef LOCO_SIM

int loci_topic_log_open(struct loco_topic *t, const char *parent, const char *name,
                        const loco_topic_options_t *o)
{
    (void)t;
    (void)parent;
    (void)name;
    return o->log == NULL ? LOCO_OK : LOCO_ERR_UNSUPPORTED;
}

void loci_topic_log_close(struct loci_topic_log *log)
{
    (void)log;
}

int loci_topic_log_append(struct loci_topic_log *log, const loco_delivery_t *messages, int n,
                          uint64_t *first)
{
    (void)log;
    (void)messages;
    (void)n;
    *first = 0;
    return LOCO_ERR_UNSUPPORTED;
}

#else

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "observe/log.h"
#include "tlog.h"
#include "tlog_read.h"

struct loci_topic_log {
    struct loci_tlog *file;
    struct loci_tlog_entry entry[LOCI_TOPIC_BATCH];
};

int loci_topic_log_open(struct loco_topic *t, const char *parent, const char *name,
                        const loco_topic_options_t *o)
{
    static const enum loci_tlog_sync sync[] = {
        [LOCO_TOPIC_SYNC_BATCH] = LOCI_TLOG_SYNC_BATCH,
        [LOCO_TOPIC_SYNC_SECOND] = LOCI_TLOG_SYNC_SECOND,
        [LOCO_TOPIC_SYNC_NEVER] = LOCI_TLOG_SYNC_NEVER,
    };
    char full[LOCI_NAME_MAX];
    struct loci_topic_log *log;
    int status;

    if (o->log == NULL)
        return LOCO_OK;
    /* The endpoint, which is not there yet, says what is wrong with a name. */
    if (name == NULL || snprintf(full, sizeof full, "%s%s%s", parent != NULL ? parent : "",
                                 parent != NULL ? "/" : "", name) >= (int)sizeof full)
        return LOCO_ERR_NAME;
    log = calloc(1, sizeof *log);
    if (log == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_tlog_open(o->log, full, sync[o->sync], &t->rt->log, &log->file);
    if (status != LOCO_OK) {
        free(log);
        return status;
    }
    t->log = log;
    return LOCO_OK;
}

void loci_topic_log_close(struct loci_topic_log *log)
{
    if (log == NULL)
        return;
    loci_tlog_close(log->file);
    free(log);
}

static int64_t real_time(void)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int loci_topic_log_append(struct loci_topic_log *log, const loco_delivery_t *messages, int n,
                          uint64_t *first)
{
    int64_t now = real_time();

    for (int i = 0; i < n; i++)
        log->entry[i] = (struct loci_tlog_entry){
            .data = messages[i].data, .bytes = (uint32_t)messages[i].bytes,
            .sender = (uint32_t)messages[i].sender, .time = now,
        };
    *first = loci_tlog_written(log->file) + 1;
    return loci_tlog_append(log->file, log->entry, n, NULL);
}

int loco_topic_logged(const loco_topic_t *t, uint64_t *written, uint64_t *synced)
{
    if (t->log == NULL)
        return LOCO_ERR_STATE;
    if (written != NULL)
        *written = loci_tlog_written(t->log->file);
    if (synced != NULL)
        *synced = loci_tlog_synced(t->log->file);
    return LOCO_OK;
}

/* For a disk, not for a peer: so it is no loci_wait. */
int loco_topic_wait_synced(loco_topic_t *t, uint64_t record, int64_t timeout_ns)
{
    int status = loci_check_timeout(t->rt, "loco_topic_wait_synced", t->ep->name, timeout_ns);

    if (status != LOCO_OK)
        return status;
    if (t->log == NULL)
        return LOCO_ERR_STATE;
    return loci_poller_is_self(t->rt) && loci_tlog_synced(t->log->file) < record
           ? LOCO_ERR_AGAIN : loci_tlog_wait_synced(t->log->file, record, timeout_ns);
}

/* ---- files ---- */

static int read_all(struct loco_runtime *rt, const char *path, struct loci_tlog_reader *r,
                    uint64_t from, loco_topic_handler_t *handler, void *arg)
{
    struct loci_tlog_item item;
    int status;

    while ((status = loci_tlog_reader_next(r, &item)) == LOCO_OK
           && item.found == LOCI_TLOG_FOUND_RECORD) {
        const loco_sample_t sample = {
            .data = item.data, .bytes = item.record.bytes, .publisher = (int)item.record.sender,
            .kept = 1, .number = item.record.number, .record = item.record.number,
        };

        if (item.record.number >= from)
            handler(arg, &sample, 1);
    }
    if (status != LOCO_OK || item.found != LOCI_TLOG_FOUND_DAMAGE)
        return status;
    LOCI_LOG(rt, LOCO_LOG_ERROR, "log %s is damaged from offset %llu on, where record %llu should "
             "be: see loco-log check", path, (unsigned long long)item.from,
             (unsigned long long)item.expected);
    return LOCO_ERR_DAMAGED;
}

int loco_topic_replay(loco_runtime_t *rt, const char *path, uint64_t from,
                      loco_topic_handler_t *handler, void *arg)
{
    struct loci_tlog_reader *r;
    int status;

    if (path == NULL || handler == NULL)
        return loci_null_arg(rt, "loco_topic_replay", path, path == NULL ? "path" : "handler");
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return LOCO_OK;
    status = loci_tlog_reader_open(path, &rt->log, &r);
    if (status == LOCO_ERR_AGAIN)       /* nothing is in it yet */
        return LOCO_OK;
    if (status != LOCO_OK)
        return status;
    status = read_all(rt, path, r, from, handler, arg);
    loci_tlog_reader_close(r);
    return status;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TLOG_SYNC_H
#define LOCI_TLOG_SYNC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/log.h"

enum loci_tlog_sync { LOCI_TLOG_SYNC_BATCH, LOCI_TLOG_SYNC_SECOND, LOCI_TLOG_SYNC_NEVER };

/* Syncs a file, in a thread of its own. The writer says up to which number it has written; this
 * says up to which number all is on the disk. */
struct loci_tlog_syncer {
    enum loci_tlog_sync mode;
    int fd;
    const char *path;
    const struct loci_log *say;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;           /* never held during a sync */
    pthread_cond_t work, progress;
    _Atomic uint64_t done;          /* numbers up to this one are on the disk */
    _Atomic int failed;             /* a status: a write or a sync has failed */
    uint64_t written;               /* under the lock, as what follows */
    int64_t last;                   /* when the last sync began */
    bool hurry, stop;
};

/* All up to `done` is on the disk. LOCO_ERR_SYSTEM: no thread; `say` was told. */
int loci_tlog_syncer_open(struct loci_tlog_syncer *s, enum loci_tlog_sync mode, int fd,
                          const char *path, const struct loci_log *say, uint64_t done);
/* After a last sync. */
void loci_tlog_syncer_close(struct loci_tlog_syncer *s);

void loci_tlog_syncer_wrote(struct loci_tlog_syncer *s, uint64_t number);
/* What was written is not to be relied on: whoever waits, does not any more. */
void loci_tlog_syncer_fail(struct loci_tlog_syncer *s, int status);
int loci_tlog_syncer_wait(struct loci_tlog_syncer *s, uint64_t number, int64_t timeout_ns);

static inline uint64_t loci_tlog_syncer_done(const struct loci_tlog_syncer *s)
{
    /* Acquire: pairs with the release after the sync. */
    return atomic_load_explicit(&s->done, memory_order_acquire);
}

static inline int loci_tlog_syncer_status(const struct loci_tlog_syncer *s)
{
    return atomic_load_explicit(&s->failed, memory_order_acquire);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_LOG_H
#define LOCI_LOG_H

#include <stdatomic.h>
#include <stdint.h>

#include <loco/log.h>

#define LOCI_LOG_LINE 1024      /* longer lines are cut */

/* Where a runtime's lines go. All zero is silent. Written while the runtime opens, before there
 * is a second thread; read-only afterwards. */
struct loci_log {
    loco_log_fn *fn;            /* NULL: nobody listens (yet: loci_tunables_load) */
    void *ctx;
    int level;                  /* enum loco_log_level: this and graver ones */
};

/* A hook that writes to stderr, one write per line so that ranks' lines do not mix. */
void loci_log_stderr(void *ctx, int level, const char *text);

/* "error", "warn"...; never NULL. */
const char *loci_log_level_name(int level);

/* One line. Keeps errno, so %m works and callers may go on using it. */
__attribute__((format(printf, 3, 4)))
void loci_log(const struct loci_log *log, int level, const char *fmt, ...);

/* What others may bring about as often as they like has one line a second at most. All zero at
 * first; any thread's. */
struct loci_log_seldom {
    _Atomic int64_t quiet_until;
    _Atomic uint64_t all, told;     /* how often it has come about; and by the last line */
};
/* At `now`, nanoseconds: 0, be quiet; or how often it has come about since the last line. */
uint64_t loci_log_seldom(struct loci_log_seldom *seldom, int64_t now);

#endif

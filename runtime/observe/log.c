/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "file.h"

#define QUIET_NS INT64_C(1000000000)

const char *loci_log_level_name(int level)
{
    static const char *const names[] = { "none", "error", "warn", "info", "debug" };

    if (level < LOCO_LOG_NONE || level > LOCO_LOG_DEBUG)
        return "?";
    return names[level];
}

void loci_log_stderr(void *ctx, int level, const char *text)
{
    char line[LOCI_LOG_LINE + 64];
    int len = snprintf(line, sizeof line, "loco[%ld] %s: %s\n", (long)getpid(),
                       loci_log_level_name(level), text);

    (void)ctx;
    if (len >= (int)sizeof line) {
        len = sizeof line;
        line[len - 1] = '\n';
    }
    /* If it fails nobody is left to be told. */
    (void)loci_file_write(STDERR_FILENO, line, (size_t)len, -1);
}

void loci_log(const struct loci_log *log, int level, const char *fmt, ...)
{
    char text[LOCI_LOG_LINE];
    int error = errno;
    va_list args;

    if (log->fn == NULL || level > log->level)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log->fn(log->ctx, level, text);
    errno = error;
}

uint64_t loci_log_seldom(struct loci_log_seldom *seldom, int64_t now)
{
    int64_t until = atomic_load_explicit(&seldom->quiet_until, memory_order_relaxed);
    uint64_t all = atomic_fetch_add_explicit(&seldom->all, 1, memory_order_relaxed) + 1;

    /* One of those who come at once. */
    if (now < until
        || !atomic_compare_exchange_strong_explicit(&seldom->quiet_until, &until, now + QUIET_NS,
                                                    memory_order_relaxed, memory_order_relaxed))
        return 0;
    return all - atomic_exchange_explicit(&seldom->told, all, memory_order_relaxed);
}

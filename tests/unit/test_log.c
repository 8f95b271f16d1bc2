/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"

struct heard {
    int lines;
    int level;
    char text[2 * LOCI_LOG_LINE];
};

static void hear(void *ctx, int level, const char *text)
{
    struct heard *heard = ctx;

    heard->lines++;
    heard->level = level;
    snprintf(heard->text, sizeof heard->text, "%s", text);
    errno = 0;
}

Test(log, graver_levels_pass)
{
    struct heard heard = { 0, 0, "" };
    struct loci_log log = { hear, &heard, LOCO_LOG_WARN };

    loci_log(&log, LOCO_LOG_INFO, "not %d", 1);
    cr_assert_eq(heard.lines, 0);
    loci_log(&log, LOCO_LOG_WARN, "this %d", 2);
    cr_assert_eq(heard.lines, 1);
    cr_assert_eq(heard.level, LOCO_LOG_WARN);
    cr_assert_str_eq(heard.text, "this 2");
    loci_log(&log, LOCO_LOG_ERROR, "and this");
    cr_assert_eq(heard.lines, 2);
    log.level = LOCO_LOG_NONE;
    loci_log(&log, LOCO_LOG_ERROR, "not now");
    cr_assert_eq(heard.lines, 2);
}

Test(log, all_zero_is_silent)
{
    struct loci_log log = { NULL, NULL, 0 };

    loci_log(&log, LOCO_LOG_ERROR, "nobody hears this");
}

Test(log, errno_is_printed_and_kept)
{
    struct heard heard = { 0, 0, "" };
    struct loci_log log = { hear, &heard, LOCO_LOG_WARN };

    errno = ENOENT;
    loci_log(&log, LOCO_LOG_ERROR, "open: %m");
    cr_assert_eq(errno, ENOENT);
    cr_assert_str_eq(heard.text, "open: No such file or directory");
}

Test(log, long_lines_are_cut)
{
    struct heard heard = { 0, 0, "" };
    struct loci_log log = { hear, &heard, LOCO_LOG_WARN };
    char longer[3 * LOCI_LOG_LINE];

    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    loci_log(&log, LOCO_LOG_ERROR, "%s", longer);
    cr_assert_eq(strlen(heard.text), LOCI_LOG_LINE - 1);
}

/* What loci_log_stderr wrote, through a pipe in place of stderr. */
static size_t written(int level, const char *text, char *buf, size_t len)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t n;

    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    loci_log_stderr(NULL, level, text);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    n = read(ends[0], buf, len - 1);
    cr_assert(n > 0);
    buf[n] = '\0';
    return (size_t)n;
}

Test(log, stderr_gets_whole_lines)
{
    char buf[4 * LOCI_LOG_LINE], expected[64], longer[2 * LOCI_LOG_LINE];

    written(LOCO_LOG_WARN, "it is late", buf, sizeof buf);
    snprintf(expected, sizeof expected, "loco[%ld] warn: it is late\n", (long)getpid());
    cr_assert_str_eq(buf, expected);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    cr_assert_eq(buf[written(LOCO_LOG_ERROR, longer, buf, sizeof buf) - 1], '\n');
}

Test(log, levels_have_names)
{
    cr_assert_str_eq(loci_log_level_name(LOCO_LOG_NONE), "none");
    cr_assert_str_eq(loci_log_level_name(LOCO_LOG_DEBUG), "debug");
    cr_assert_str_eq(loci_log_level_name(-1), "?");
    cr_assert_str_eq(loci_log_level_name(99), "?");
}

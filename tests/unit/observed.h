/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_OBSERVED_H
#define TEST_OBSERVED_H

/* What tests read of the tables and traces that their processes write. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the processes of a test leave what they wrote. */
struct files {
    char dir[64];
    char stats[128], trace[128], limit[64];
    const char *settings[4];
};

static inline void files_open(struct files *files, const char *limit)
{
    snprintf(files->dir, sizeof files->dir, "/tmp/loco-observe.XXXXXX");
    cr_assert(mkdtemp(files->dir) != NULL);
    snprintf(files->stats, sizeof files->stats, "LOCO_STATS=%s/stats.%%r", files->dir);
    snprintf(files->trace, sizeof files->trace, "LOCO_TRACE=%s/trace.%%r", files->dir);
    snprintf(files->limit, sizeof files->limit, "LOCO_TRACE_LIMIT=%s", limit);
    files->settings[0] = files->stats;
    files->settings[1] = files->trace;
    files->settings[2] = files->limit;
    files->settings[3] = NULL;
}

static inline char *files_read(const struct files *files, const char *kind, int rank)
{
    char path[256], *text;
    long len;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s.%d", files->dir, kind, rank);
    f = fopen(path, "r");
    cr_assert(f != NULL, "%s was not written", path);
    fseek(f, 0, SEEK_END);
    len = ftell(f);
    rewind(f);
    text = malloc((size_t)len + 1);
    cr_assert(text != NULL && fread(text, 1, (size_t)len, f) == (size_t)len);
    text[len] = '\0';
    fclose(f);
    unlink(path);
    return text;
}

static inline void files_close(struct files *files)
{
    cr_assert_eq(rmdir(files->dir), 0, "something else was written to %s", files->dir);
}

/* The first number behind a name that begins its line of the table, or -1. */
static inline long long number_of(const char *table, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = table; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, "\n ");
        if (strncmp(line, name, len) == 0 && line[len] == ' ')
            return atoll(line + len);
    }
    return -1;
}

/* Not by strstr: under a sanitizer each call of it looks at the whole of the text, which are
 * megabytes. */
static inline int count(const char *text, const char *what)
{
    size_t len = strlen(what);
    int n = 0;

    for (const char *p = strchr(text, what[0]); p != NULL; p = strchr(p + 1, what[0]))
        n += strncmp(p, what, len) == 0;
    return n;
}

#endif

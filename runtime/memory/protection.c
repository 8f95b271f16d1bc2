/* SPDX-License-Identifier: BSD-3-Clause */

/* See protection.h. */

#include "config.h"

#include <stdint.h>
#include <string.h>

#include "protection.h"

/* One line of the table, or a hole between two of them. */
struct stretch {
    uintptr_t begin, end;
    bool mapped, read, write, shared;
};

static bool parse(const char *line, struct stretch *s)
{
    unsigned long begin, end;
    char rights[5];

    if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3 || strlen(rights) != 4)
        return false;
    *s = (struct stretch){
        .begin = begin, .end = end, .mapped = true, .read = rights[0] == 'r',
        .write = rights[1] == 'w', .shared = rights[3] == 's',
    };
    return true;
}

static bool is_like_first(const struct loci_protection *p, const struct stretch *s)
{
    return !s->write && p->mapped == s->mapped && p->readable == s->read && p->shared == s->shared;
}

/* The next stretch of the range, which begins `at` bytes into it and ends `end` bytes. */
static void add(struct loci_protection *p, const struct stretch *s, size_t at, size_t end)
{
    p->all_read = p->all_read && s->read;
    p->all_write = p->all_write && s->write;
    p->any_write = p->any_write || s->write;
    if (p->end == 0 && !s->write) {
        p->begin = at;
        p->end = end;
        p->mapped = s->mapped;
        p->readable = s->read;
        p->shared = s->shared;
    } else if (p->end == at && is_like_first(p, s)) {
        p->end = end;
    }
}

bool loci_protection_read(FILE *table, const void *base, size_t len, struct loci_protection *p)
{
    const struct stretch hole = { .mapped = false };
    uintptr_t first = (uintptr_t)base;
    size_t at = 0;
    char line[512];
    bool whole = true, any = false;     /* this line is one from its beginning; there was one */

    *p = (struct loci_protection){ .all_read = true, .all_write = true };
    while (at < len && fgets(line, sizeof line, table) != NULL) {
        bool begins = whole;
        struct stretch s;

        whole = strchr(line, '\n') != NULL;
        if (!begins || !parse(line, &s))
            continue;
        any = true;
        if (s.end <= first + at)
            continue;
        if (s.begin > first + at) {
            size_t end = s.begin - first < len ? s.begin - first : len;

            add(p, &hole, at, end);
            at = end;
        }
        if (at < len) {
            size_t end = s.end - first < len ? s.end - first : len;

            add(p, &s, at, end);
            at = end;
        }
    }
    if (at < len)
        add(p, &hole, at, len);
    return any;
}

bool loci_protection_of(const void *base, size_t len, struct loci_protection *p)
{
    FILE *table = fopen("/proc/self/maps", "re");
    bool read;

    if (table == NULL)
        return false;
    read = loci_protection_read(table, base, len, p);
    fclose(table);
    return read;
}

void loci_protection_text(const struct loci_protection *p, char *text, size_t size)
{
    const char *what = !p->mapped ? "are not mapped"
                       : !p->readable ? "may not be accessed (PROT_NONE)"
                       : p->shared ? "are a file that is mapped to be read (PROT_READ, MAP_SHARED)"
                                   : "may be read, not written (PROT_READ)";

    if (p->end == 0)
        snprintf(text, size, "all bytes may be written");
    else
        snprintf(text, size, "bytes %zu to %zu %s", p->begin, p->end - 1, what);
}

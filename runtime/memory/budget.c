/* SPDX-License-Identifier: BSD-3-Clause */

/* How much memory is left: /proc/meminfo, and the control groups of this process (versions 1 and
 * 2, at all levels that are visible here). */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "budget.h"
#include "memory.h"

#define PATH 1024
#define LINE 4096

/* What is left alone of a machine or a group that we take all of: heaps, and page tables, which
 * each process that maps the memory adds to. */
#define RESERVE_PART 32
#define RESERVE_MIN ((size_t)16 << 20)
#define ALIGN ((size_t)2 << 20)
#define TEXT 8192               /* bytes of a file, and an end: /proc/meminfo has 1,500 */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t minus(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* False, and nothing written, where the parts do not fit. */
static bool join_path(char *path, const char *a, const char *b, const char *c)
{
    size_t len = strlen(a) + strlen(b) + strlen(c);

    if (len >= PATH)
        return false;
    stpcpy(stpcpy(stpcpy(path, a), b), c);
    return true;
}

static size_t reserve_of(size_t total)
{
    size_t part = total / RESERVE_PART;

    return part > RESERVE_MIN ? part : min_size(RESERVE_MIN, total / 4);
}

static FILE *open_below(const char *root, const char *dir, const char *file)
{
    char path[PATH];

    return join_path(path, root, dir, file) ? fopen(path, "re") : NULL;
}

/* ---- the machine ---- */

/* The text of a file of the kernel, read once; false: there is none. */
static bool read_text(FILE *f, char text[TEXT])
{
    size_t len;

    if (f == NULL)
        return false;
    len = fread(text, 1, TEXT - 1, f);
    text[len] = '\0';
    fclose(f);
    return true;
}

/* The number after "name" at the start of a line; `otherwise` where there is none. */
static size_t field_of(const char *text, const char *name, size_t otherwise)
{
    size_t len = strlen(name);

    while (text != NULL && *text != '\0') {
        char *end;
        unsigned long long number;

        if (strncmp(text, name, len) == 0) {
            number = strtoull(text + len, &end, 10);
            return end != text + len ? (size_t)number : otherwise;
        }
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    return otherwise;
}

static size_t kib(size_t value)
{
    return value > LOCI_BUDGET_ENDLESS / 1024 ? LOCI_BUDGET_ENDLESS : value * 1024;
}

size_t loci_budget_machine(const char *root)
{
    size_t available, total;
    char text[TEXT];

    if (!read_text(open_below(root, "/proc", "/meminfo"), text))
        return LOCI_BUDGET_ENDLESS;
    available = kib(field_of(text, "MemAvailable:", LOCI_BUDGET_ENDLESS));
    total = kib(field_of(text, "MemTotal:", 0));
    return available == LOCI_BUDGET_ENDLESS ? available : minus(available, reserve_of(total));
}

size_t loci_budget_huge_pages(const char *root, size_t *page)
{
    size_t count, promised;
    char text[TEXT];

    if (!read_text(open_below(root, "/proc", "/meminfo"), text))
        return 0;
    count = field_of(text, "HugePages_Free:", 0);
    promised = field_of(text, "HugePages_Rsvd:", 0);
    *page = kib(field_of(text, "Hugepagesize:", 2048));
    return minus(count, promised);
}

size_t loci_budget_address_space(const char *root)
{
    unsigned long long pages = 0;
    struct rlimit limit;
    FILE *f;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return LOCI_BUDGET_ENDLESS;
    f = open_below(root, "/proc", "/self/statm");
    if (f != NULL) {
        if (fscanf(f, "%llu", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return minus(limit.rlim_cur, pages * (size_t)sysconf(_SC_PAGESIZE));
}

/* ---- control groups ---- */

/* The files of one version. */
struct hierarchy {
    const char *limit[2];
    const char *usage;
    const char *inactive, *active;      /* of memory.stat: file pages, which can be given up */
};

static const struct hierarchy version1 = {
    { "/memory.limit_in_bytes", NULL },
    "/memory.usage_in_bytes", "total_inactive_file ", "total_active_file "
};
static const struct hierarchy version2 = {
    { "/memory.max", "/memory.high" }, "/memory.current", "inactive_file ", "active_file "
};

/* "max" and what is not there are no limit. */
static size_t number_in(const char *root, const char *group, const char *file)
{
    FILE *f = open_below(root, group, file);
    unsigned long long value;
    int n;

    if (f == NULL)
        return LOCI_BUDGET_ENDLESS;
    n = fscanf(f, "%llu", &value);
    fclose(f);
    return n == 1 ? (size_t)value : LOCI_BUDGET_ENDLESS;
}

/* File pages that the kernel would give up rather than kill: all inactive, half of the active. */
static size_t reclaimable(const char *root, const char *group, const struct hierarchy *h)
{
    char text[TEXT];

    return read_text(open_below(root, group, "/memory.stat"), text)
           ? field_of(text, h->inactive, 0) + field_of(text, h->active, 0) / 2 : 0;
}

static size_t left_in_group(const char *root, const char *group, const struct hierarchy *h)
{
    size_t limit = number_in(root, group, h->limit[0]), usage;

    if (h->limit[1] != NULL)
        limit = min_size(limit, number_in(root, group, h->limit[1]));
    if (limit >= (size_t)1 << 62)       /* version 1 writes "none" as a huge number */
        return LOCI_BUDGET_ENDLESS;
    usage = number_in(root, group, h->usage);
    if (usage == LOCI_BUDGET_ENDLESS)
        usage = 0;
    usage = minus(usage, reclaimable(root, group, h));
    return minus(minus(limit, reserve_of(limit)), usage);
}

/* The group and all above it, up to the mount point. */
static size_t left_in_groups(const char *root, const char *mount, const char *group,
                             const struct hierarchy *h)
{
    size_t left = LOCI_BUDGET_ENDLESS;
    char path[PATH];

    if (!join_path(path, mount, group, ""))
        return left;
    for (;;) {
        char *slash;

        left = min_size(left, left_in_group(root, path, h));
        slash = strrchr(path, '/');
        if (slash == NULL || (size_t)(slash - path) < strlen(mount))
            return left;
        *slash = '\0';
    }
}

/* "memory" among comma-separated words. */
static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = words; (at = strstr(at, word)) != NULL; at += len)
        if ((at == words || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* This process's group: of version 2 the line "0::PATH", of version 1 "N:...memory...:PATH". */
static bool find_group(const char *root, bool v2, char *group)
{
    FILE *f = open_below(root, "/proc", "/self/cgroup");
    bool found = false;
    char line[LINE];

    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        char *controllers = strchr(line, ':'), *path;

        line[strcspn(line, "\n")] = '\0';
        path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL || strlen(path + 1) >= PATH)
            continue;
        *path++ = '\0';
        controllers++;
        found = v2 ? strncmp(line, "0:", 2) == 0 && controllers[0] == '\0'
                   : has_word(controllers, "memory");
        if (found)
            strcpy(group, strcmp(path, "/") == 0 ? "" : path);
    }
    fclose(f);
    return found;
}

/* Where that hierarchy is mounted, and which part of it. A line of mountinfo: numbers, the root
 * of the mount, the mount point, options, then after " - " type, source, super options. */
static bool find_mount(const char *root, bool v2, char *mount, char *part)
{
    FILE *f = open_below(root, "/proc", "/self/mountinfo");
    bool found = false;
    char line[LINE];

    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        char type[32], options[LINE], *dash = strstr(line, " - ");

        if (dash == NULL || sscanf(dash, " - %31s %*s %4095s", type, options) != 2
            || sscanf(line, "%*s %*s %*s %1023s %1023s", part, mount) != 2)
            continue;
        found = v2 ? strcmp(type, "cgroup2") == 0
                   : strcmp(type, "cgroup") == 0 && has_word(options, "memory");
    }
    fclose(f);
    return found;
}

static size_t left_in_hierarchy(const char *root, bool v2)
{
    char group[PATH], mount[PATH], part[PATH];
    const char *below = group;
    size_t len;

    if (!find_group(root, v2, group) || !find_mount(root, v2, mount, part))
        return LOCI_BUDGET_ENDLESS;
    /* In a container the mount may show only a part of the hierarchy: ours, usually. */
    len = strcmp(part, "/") == 0 ? 0 : strlen(part);
    if (strncmp(group, part, len) == 0 && (group[len] == '/' || group[len] == '\0'))
        below = group + len;
    else
        below = "";
    return left_in_groups(root, mount, below, v2 ? &version2 : &version1);
}

size_t loci_budget_cgroups(const char *root)
{
    return min_size(left_in_hierarchy(root, false), left_in_hierarchy(root, true));
}

/* ---- together ---- */

/* Less one huge page: what is mapped is aligned to one, and is first found room for with it. */
static size_t left_to_map(const char *root)
{
    size_t left = loci_budget_address_space(root);

    return left == LOCI_BUDGET_ENDLESS ? left : minus(left, ALIGN);
}

size_t loci_budget_least(const char *root, size_t limit, size_t used, const char **what)
{
    const struct { size_t left; const char *what; } of[] = {
        { minus(limit, used), "LOCO_MEM_LIMIT" },
        { loci_budget_machine(root), "this machine" },
        { loci_budget_cgroups(root), "the control group" },
        { left_to_map(root), "the limit of address space (ulimit -v)" },
    };
    size_t least = 0;

    for (size_t i = 1; i < sizeof of / sizeof of[0]; i++)
        if (of[i].left < of[least].left)
            least = i;
    if (what != NULL)
        *what = of[least].what;
    return of[least].left;
}

size_t loci_budget_to_commit(const char *root, size_t limit, size_t used)
{
    size_t left = minus(limit, used);

    left = min_size(left, loci_budget_machine(root));
    return min_size(left, loci_budget_cgroups(root));
}

size_t loci_memory_left(size_t limit, size_t used, const char **what)
{
    return loci_budget_least("", limit, used, what);
}

size_t loci_memory_to_commit(size_t limit, size_t used)
{
    return loci_budget_to_commit("", limit, used);
}

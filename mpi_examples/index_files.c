/* SPDX-License-Identifier: BSD-3-Clause */
#include "index_files.h"

#include "common.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FILES = INT32_MAX, PIECE = 1 << 24, MOST_MESSAGES = 10 };

static void *more(void *old, size_t bytes)
{
    void *p = realloc(old, bytes);

    if (p == NULL)
        ex_abort("no memory for %zu bytes of the list of files", bytes);
    return p;
}

static bool is_power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

static void add_file(struct index_files *f, size_t *room, const char *path, uint64_t size)
{
    size_t bytes = strlen(path) + 1;

    if (f->count == MOST_FILES)
        ex_abort("more than %d files", MOST_FILES);
    if (f->paths_bytes + bytes > *room) {
        *room = 2 * (f->paths_bytes + bytes);
        f->paths = more(f->paths, *room);
    }
    if (is_power_of_two(f->count))
        f->size = more(f->size, (f->count == 0 ? 1 : 2 * f->count) * sizeof(*f->size));
    memcpy(f->paths + f->paths_bytes, path, bytes);
    f->paths_bytes += bytes;
    f->size[f->count++] = size;
    f->bytes += size;
}

static void say_unreadable(struct index_files *f, const FTSENT *e)
{
    if (f->unreadable++ < MOST_MESSAGES)
        fprintf(stderr, "cannot read %s: %s\n", e->fts_path, strerror(e->fts_errno));
}

/* NULL, or what is wrong with a name of the command line. */
static const char *add_entry(struct index_files *f, size_t *room, const FTSENT *e)
{
    bool given = e->fts_level == FTS_ROOTLEVEL;

    switch (e->fts_info) {
    case FTS_F:
        add_file(f, room, e->fts_path, (uint64_t)e->fts_statp->st_size);
        return NULL;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        if (given)
            return strerror(e->fts_errno);
        say_unreadable(f, e);
        return NULL;
    case FTS_SL:
    case FTS_SLNONE:
        f->links++;
        return given ? "the link leads nowhere" : NULL;
    case FTS_DEFAULT:
        f->special++;
        return given ? "neither a file nor a folder" : NULL;
    default:    /* a folder, before or after what is in it */
        return NULL;
    }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Rank 0. A link of the command line is followed, one in a folder is not: so no file comes twice
 * by a link, and no walk is endless. False: `problem` says why not. */
static bool walk(struct index_files *f, char *const *names, char *problem, size_t room)
{
    FTS *tree = fts_open(names, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    const char *wrong = tree == NULL ? "no memory to walk" : NULL;
    size_t paths_room = 0;
    FTSENT *e;

    while (wrong == NULL && (e = fts_read(tree)) != NULL) {
        wrong = add_entry(f, &paths_room, e);
        if (wrong != NULL)
            snprintf(problem, room, "%s: %s", e->fts_path, wrong);
    }
    if (tree != NULL)
        fts_close(tree);
    return wrong == NULL;
}

static void share(void *data, size_t bytes)
{
    char *at = data;

    for (; bytes > 0; at += PIECE, bytes -= bytes < PIECE ? bytes : PIECE)
        ex_check(MPI_Bcast(at, (int)(bytes < PIECE ? bytes : PIECE), MPI_BYTE, 0, MPI_COMM_WORLD),
                 "MPI_Bcast");
}

static void share_list(struct index_files *f)
{
    uint64_t numbers[] = { f->count, f->bytes, f->paths_bytes, f->links, f->special,
                           f->unreadable };

    share(numbers, sizeof(numbers));
    if (ex_rank() != 0) {
        *f = (struct index_files){ .count = numbers[0], .bytes = numbers[1],
                                   .paths_bytes = (size_t)numbers[2], .links = numbers[3],
                                   .special = numbers[4], .unreadable = numbers[5] };
        f->paths = more(NULL, f->paths_bytes + 1);
        f->size = more(NULL, (f->count + 1) * sizeof(*f->size));
    }
    share(f->paths, f->paths_bytes);
    share(f->size, f->count * sizeof(*f->size));
}

static const uint64_t *sizes;   /* for qsort, whose functions have no argument of their own */

static int largest_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (sizes[x] != sizes[y])
        return sizes[x] > sizes[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void put_in_order(struct index_files *f)
{
    size_t at = 0;

    f->at = more(NULL, (f->count + 1) * sizeof(*f->at));
    f->order = more(NULL, (f->count + 1) * sizeof(*f->order));
    for (uint64_t i = 0; i < f->count; i++) {
        f->at[i] = at;
        at += strlen(f->paths + at) + 1;
        f->order[i] = (uint32_t)i;
    }
    sizes = f->size;
    qsort(f->order, f->count, sizeof(*f->order), largest_first);
}

void index_files_find(struct index_files *f, const char *program, char *const *names)
{
    char problem[4352] = "";
    bool good = true;

    memset(f, 0, sizeof(*f));
    if (ex_rank() == 0)
        good = walk(f, names, problem, sizeof(problem));
    ex_check(MPI_Bcast(&good, 1, MPI_C_BOOL, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (!good)
        ex_usage_error(program, "%s", problem);
    share_list(f);
    put_in_order(f);
}

void index_files_free(struct index_files *f)
{
    free(f->paths);
    free(f->at);
    free(f->size);
    free(f->order);
}

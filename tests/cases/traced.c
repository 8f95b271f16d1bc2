/* SPDX-License-Identifier: BSD-3-Clause */

/* A file of LOCO_TRACE or LOCO_STATS that cannot be had, or that somebody meddles with while it is
 * written: the program does what it does without. Each rank has a folder and a file of its own.
 *
 *     traced VARIABLE TROUBLE [FOLDER] */

#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"

#define PUTS 3000
#define OTHERS "the content of some other file\n"
#define LIMIT 100000            /* bytes that a trace may have, from some moment on, */
#define LITTLE 100              /* and a table */

static char dir[256], file[320], other[320], setting[320];
static const char *trouble;

static int is(const char *what)
{
    return strcmp(trouble, what) == 0;
}

/* ---- before ---- */

static void write_other(void)
{
    FILE *f = fopen(other, "w");

    MUST(f != NULL && fputs(OTHERS, f) >= 0 && fclose(f) == 0);
}

/* Names a file that nobody may make: for root, too, one in a filesystem of the kernel's. */
static void forbid(void)
{
    if (geteuid() == 0)
        snprintf(setting, sizeof setting, "/sys/t.json");
    else
        MUST(chmod(dir, 0500) == 0);
}

static void prepare(const char *variable, const char *folder)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *tmp = getenv("TMPDIR");

    MUST(rank != NULL);
    if (folder != NULL)
        snprintf(dir, sizeof dir, "%s", folder);
    else
        snprintf(dir, sizeof dir, "%s/loco-traced.XXXXXX", tmp != NULL ? tmp : "/tmp");
    MUST(folder != NULL || mkdtemp(dir) != NULL);
    snprintf(file, sizeof file, "%s/t.%s.json", dir, rank);
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(setting, sizeof setting, "%s%s/t.json", dir, is("missing") ? "/none" : "");
    write_other();
    if (is("folder"))
        MUST(mkdir(file, 0700) == 0);
    if (is("link"))
        MUST(symlink(other, file) == 0);
    if (is("second"))
        MUST(link(other, file) == 0);
    if (is("pipe"))
        MUST(mkfifo(file, 0600) == 0);
    if (is("again"))
        MUST(link(other, file) == 0 && unlink(other) == 0);
    if (is("forbidden"))
        forbid();
    MUST(setenv(variable, setting, 1) == 0);
}

/* ---- meanwhile ---- */

/* When something was written already. */
static void meddle(const char *variable)
{
    rlim_t most = strcmp(variable, "LOCO_TRACE") == 0 ? LIMIT : LITTLE;
    const struct rlimit limit = { most, most };
    double until = case_now() + case_limit(20);
    struct stat now = { 0 };

    if (is("limit"))
        MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    if (!is("cut") && !is("removed"))
        return;
    while (stat(file, &now) != 0 || now.st_size < LIMIT) {
        MUST(case_now() < until);
        usleep(1000);
    }
    MUST(is("cut") ? truncate(file, 0) == 0 : unlink(file) == 0);
}

/* Whoever puts finds each value there at once. */
static void puts_and_gets(MPI_Win win, int target, long *cell)
{
    for (long i = 1; i <= PUTS; i++) {
        long back = 0;

        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Put(&i, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
        MPI_Win_flush(target, win);
        MPI_Get(&back, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(target, win);
        MUST(back == i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MUST(*cell == PUTS);
    MPI_Win_unlock(target, win);
}

static void work(const char *variable)
{
    int rank, size;
    long *cell;
    MPI_Win win;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &win);
    puts_and_gets(win, (rank + 1) % size, cell);
    meddle(variable);
    MPI_Barrier(MPI_COMM_WORLD);
    puts_and_gets(win, (rank + 1) % size, cell);
    MPI_Win_free(&win);
}

/* ---- afterwards ---- */

static char *content(const char *name, size_t *len)
{
    char *text = NULL;
    FILE *f = fopen(name, "r");

    *len = 0;
    MUST(f != NULL);
    for (size_t n = 1; n > 0; *len += n) {
        text = realloc(text, *len + 65536);
        MUST(text != NULL);
        n = fread(text + *len, 1, 65535, f);
    }
    text[*len] = '\0';
    fclose(f);
    return text;
}

/* "[", lines "{...},", the last one without its comma, "]": and no zeros among them. */
static void is_whole_trace(void)
{
    size_t len, lines = 0;
    char *text = content(file, &len);

    MUST(strlen(text) == len && strncmp(text, "[\n", 2) == 0);
    for (char *line = text + 2, *end; *line != ']'; line = end + 1, lines++) {
        end = strchr(line, '\n');
        MUST(end != NULL && end > line + 2 && line[0] == '{');
        MUST(end[1] == ']' ? end[-1] == '}' : end[-1] == ',' && end[-2] == '}');
    }
    MUST(strcmp(text + len - 3, "\n]\n") == 0 && lines > 10);
    free(text);
}

static void check(const char *variable)
{
    int kept = is("plain") || is("cut") || is("limit") || is("small") || is("again");
    size_t len;
    char *text;

    if (!is("again")) {
        text = content(other, &len);
        MUST(strcmp(text, OTHERS) == 0);
        free(text);
    }
    if (kept && strcmp(variable, "LOCO_TRACE") == 0)
        is_whole_trace();
    MUST(!is("removed") || access(file, F_OK) != 0);
}

static void tidy(void)
{
    chmod(dir, 0700);
    unlink(other);
    if (unlink(file) != 0)
        rmdir(file);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    MUST(argc >= 3);
    trouble = argv[2];
    prepare(argv[1], argc > 3 ? argv[3] : NULL);
    MPI_Init(&argc, &argv);
    work(argv[1]);
    MPI_Finalize();
    check(argv[1]);
    tidy();
    return 0;
}

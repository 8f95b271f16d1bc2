/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batch DIR [--seed S --count N --threads T | --file F] [--repeat K]: many programs in one MPI
 * job, generated from seeds or read from a file. `soak` starts this and reads what it leaves in
 * DIR:
 *
 *   status    "start I", "ok I OPERATIONS STATEMENTS", "wrong I WHY", "invalid I WHY" of each
 *             program, "fatal I RANK STATEMENT WHY" where the job has ended itself, "end"
 *   current   the text of the program that runs
 *   places    where each thread of each rank is (struct place)
 */
#include "execute.h"
#include "generate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One job: the fatal_fn of a thread can reach nothing else. */
static struct {
    int rank, ranks;
    const char *folder;
    int status;
    int number;                 /* of the program that runs */
    struct place *place;
} job;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...)
{
    char line[600];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    for (int i = 0; i < n; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[n] = '\n';
    if (write(job.status, line, (size_t)n + 1) < 0)
        _exit(4);
}

static void fatal(int statement, const char *text)
{
    tell("fatal %d %d %d %s", job.number, job.rank, statement + 1, text);
    MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

static int open_in_folder(const char *name, int flags)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/%s", job.folder, name);
    fd = open(path, flags, 0600);
    if (fd < 0) {
        fprintf(stderr, "batch: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    return fd;
}

static void open_folder(const char *folder)
{
    int places;
    size_t bytes = SOAK_RANKS * sizeof(struct place);
    struct place *all;

    job.folder = folder;
    job.status = open_in_folder("status", O_WRONLY | O_APPEND | O_CREAT);
    places = open_in_folder("places", O_RDWR | O_CREAT);
    if (ftruncate(places, (off_t)bytes) != 0)
        exit(2);
    all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, places, 0);
    if (all == MAP_FAILED)
        exit(2);
    close(places);
    job.place = &all[job.rank];
}

/* ---- programs from rank 0 to all ---- */

static void save_current(const char *text, size_t bytes)
{
    int fd = open_in_folder("current", O_WRONLY | O_CREAT | O_TRUNC);

    if (write(fd, text, bytes) != (ssize_t)bytes)
        fatal(-1, "cannot write the program down");
    close(fd);
}

static void share(struct program *p, char *text)
{
    char why[300];
    int bytes = text != NULL ? (int)strlen(text) + 1 : 0;

    MPI_Bcast(&bytes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (job.rank != 0)
        text = malloc((size_t)bytes);
    MPI_Bcast(text, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (!program_parse(p, text, why, sizeof why))
        fatal(-1, why);
    if (job.rank != 0)
        free(text);
}

static char *text_of(const struct program *p)
{
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    program_print(p, f);
    fclose(f);
    return text;
}

/* ---- outcomes to rank 0 ---- */

/* head of one outcome in a message */
struct wire {
    int statement, part;
    size_t bytes;
};

static unsigned char *pack(const struct record *r, int *bytes)
{
    size_t total = 0, at = 0;
    unsigned char *packed;

    for (int i = 0; i < r->n; i++)
        total += sizeof(struct wire) + r->o[i].bytes;
    packed = malloc(total + 1);
    for (int i = 0; i < r->n; i++) {
        struct wire w = {r->o[i].statement, r->o[i].part, r->o[i].bytes};
        memcpy(packed + at, &w, sizeof w);
        memcpy(packed + at + sizeof w, r->o[i].data, w.bytes);
        at += sizeof w + w.bytes;
    }
    *bytes = (int)total;
    return packed;
}

static void unpack(struct record *r, const unsigned char *packed, int bytes)
{
    for (int at = 0; at < bytes;) {
        struct wire w;
        memcpy(&w, packed + at, sizeof w);
        if (r->n == r->room) {
            r->room = r->room == 0 ? 64 : 2 * r->room;
            r->o = realloc(r->o, (size_t)r->room * sizeof *r->o);
        }
        r->o[r->n++] = (struct outcome){w.statement, w.part, w.bytes,
                                        packed + at + sizeof w};
        at += (int)(sizeof w + w.bytes);
    }
}

/* At rank 0: all outcomes, in a block that *keep owns. */
static void gather(const struct record *mine, struct record *all, unsigned char **keep)
{
    int bytes, length[SOAK_RANKS], start[SOAK_RANKS], total = 0;
    unsigned char *packed = pack(mine, &bytes);

    MPI_Gather(&bytes, 1, MPI_INT, length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < job.ranks && job.rank == 0; i++) {
        start[i] = total;
        total += length[i];
    }
    *keep = malloc((size_t)total + 1);
    MPI_Gatherv(packed, bytes, MPI_BYTE, *keep, length, start, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(packed);
    if (job.rank == 0)
        unpack(all, *keep, total);
}

/* ---- one program ---- */

static void judge(struct model *m, const struct record *all, int statements)
{
    char why[500];
    int wrong = model_compare(m, all->o, all->n, why, sizeof why);

    if (wrong > 0)
        tell("wrong %d %s (%d wrong)", job.number, why, wrong);
    else
        tell("ok %d %ld %d", job.number, model_operations(m), statements);
}

static struct model *model_of(const struct program *p, char *why)
{
    struct model *m = model_new(p);
    char cause[WHY];

    for (int i = 0; i < p->n; i++)
        if (!model_step(m, &p->s[i], cause)) {
            snprintf(why, 2 * WHY, "line %d: %s", p->s[i].line, cause);
            model_free(m);
            return NULL;
        }
    if (model_over(m, cause))
        return m;
    snprintf(why, 2 * WHY, "%s", cause);
    model_free(m);
    return NULL;
}

/* Rank 0 has the text; all carry it out. */
static void run_text(char *text)
{
    struct program p;
    struct record mine = {0}, all = {0};
    unsigned char *block;

    share(&p, text);
    execute(&p, &mine, job.place, fatal);
    gather(&mine, &all, &block);
    if (job.rank == 0) {
        char why[2 * WHY];
        struct model *m = model_of(&p, why);
        if (m == NULL)
            fatal(-1, why);
        judge(m, &all, p.n);
        model_free(m);
    }
    record_free(&mine);
    free(all.o);
    free(block);
    program_free(&p);
}

static void run_repeatedly(char *text, int repeat)
{
    if (job.rank == 0)
        save_current(text, strlen(text));
    for (int i = 0; i < repeat; i++) {
        if (job.rank == 0)
            tell("start %d", job.number);
        run_text(text);
    }
}

/* What a file holds may be wrong, and so may the generator be; only rank 0 looks, so that it says
 * it once. */
static bool is_valid(const char *text)
{
    struct program p;
    char why[500];
    struct model *m = NULL;
    bool fits = program_parse(&p, text, why, sizeof why);

    if (fits && p.ranks != job.ranks) {
        snprintf(why, sizeof why, "it is for %d ranks", p.ranks);
        fits = false;
    }
    if (fits)
        m = model_of(&p, why);
    if (m == NULL)
        tell("invalid %d %s", job.number, why);
    else
        model_free(m);
    program_free(&p);
    return m != NULL;
}

static void run_seeds(uint64_t seed, int count, int threads, int repeat)
{
    for (int i = 0; i < count; i++) {
        char *text = NULL;
        int go = 1;
        job.number = i;
        if (job.rank == 0) {
            struct program p;
            model_free(generate(&p, seed + (uint64_t)i, job.ranks, threads));
            text = text_of(&p);
            program_free(&p);
            go = is_valid(text);
        }
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (go)
            run_repeatedly(text, repeat);
        free(text);
    }
}

/* ---- programs of a file ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t bytes = 0, n;

    if (f == NULL) {
        fprintf(stderr, "batch: %s: %s\n", path, strerror(errno));
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    do {
        text = realloc(text, bytes + 65536);
        n = fread(text + bytes, 1, 65535, f);
        bytes += n;
    } while (n > 0);
    text[bytes] = '\0';
    fclose(f);
    return text;
}

/* The next program of a text, cut off after its "end"; NULL when there is none. */
static char *cut(char **rest)
{
    char *start = *rest, *end = strstr(start, "\nend\n");

    if (strspn(start, " \n\t") == strlen(start))
        return NULL;
    if (end == NULL) {
        *rest = start + strlen(start);
        return strdup(start);
    }
    *rest = end + 5;
    return strndup(start, (size_t)(*rest - start));
}

static void run_file(const char *path, int repeat)
{
    char *all = job.rank == 0 ? read_file(path) : NULL, *rest = all;

    for (int i = 0;; i++) {
        char *text = job.rank == 0 ? cut(&rest) : NULL;
        int go = text != NULL;
        job.number = i;
        if (go && !is_valid(text))
            go = 2;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (go == 1)
            run_repeatedly(text, repeat);
        free(text);
        if (go == 0)
            break;
    }
    free(all);
}

/* ---- options ---- */

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

int main(int argc, char **argv)
{
    int threads = atoi(option(argc, argv, "--threads", "1")), provided;
    int repeat = atoi(option(argc, argv, "--repeat", "1"));
    const char *file = option(argc, argv, "--file", NULL);

    if (argc < 2) {
        fprintf(stderr, "batch is started by soak\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    open_folder(argv[1]);
    if (job.ranks > SOAK_RANKS || (threads > 1 && provided < MPI_THREAD_MULTIPLE))
        fatal(-1, job.ranks > SOAK_RANKS ? "too many ranks" : "no MPI_THREAD_MULTIPLE");
    if (file != NULL)
        run_file(file, repeat);
    else
        run_seeds(strtoull(option(argc, argv, "--seed", "1"), NULL, 10),
                  atoi(option(argc, argv, "--count", "1")), threads, repeat);
    job.number++;
    execute_end();
    MPI_Finalize();
    if (job.rank == 0)
        tell("end");
    return 0;
}

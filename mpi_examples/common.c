/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CACHE_LINE = 64 };

static const char *const flavor_names[] = {
    [EX_ALLOCATE] = "allocate",
    [EX_CREATE] = "create",
    [EX_DYNAMIC] = "dynamic",
    [EX_SHARED] = "shared",
};

void ex_init(int *argc, char ***argv, int level)
{
    int provided;

    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided < level)
        ex_usage_error((*argv)[0], "this MPI does not offer the thread level that is needed");
}

int ex_rank(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int ex_size(void)
{
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

double ex_cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int ex_finish(int status)
{
    fflush(stdout);
    MPI_Finalize();
    return status;
}

void ex_usage_error(const char *program, const char *format, ...)
{
    if (ex_rank() == 0) {
        va_list args;

        va_start(args, format);
        fprintf(stderr, "%s: ", program);
        vfprintf(stderr, format, args);
        fprintf(stderr, "\nTry '%s --help'.\n", program);
        va_end(args);
    }
    exit(ex_finish(EX_USAGE));
}

void ex_help(const char *text)
{
    if (ex_rank() == 0)
        fputs(text, stdout);
    exit(ex_finish(0));
}

int ex_options(int argc, char **argv, const struct option *names, const char *help,
               ex_option_fn *set, void *options)
{
    int option;

    opterr = ex_rank() == 0;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            ex_help(help);
        if (option == '?')
            ex_usage_error(argv[0], "wrong option");
        if (!set(option, options))
            ex_usage_error(argv[0], "wrong argument: %s", optarg);
    }
    return optind;
}

void ex_only_options(int argc, char **argv, const struct option *names, const char *help,
                     ex_option_fn *set, void *options)
{
    int first = ex_options(argc, argv, names, help, set, options);

    if (first < argc)
        ex_usage_error(argv[0], "unexpected argument: %s", argv[first]);
}

void ex_abort(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "rank %d: %s\n", ex_rank(), text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, EX_WRONG);
    abort();
}

void ex_check(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &length);
    ex_abort("%s: %s", what, text);
}

int64_t ex_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Its high half times the range. */
uint32_t ex_random_below(uint64_t *state, int64_t range)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    x = (x * UINT64_C(0x2545f4914f6cdd1d)) >> 32;
    return (uint32_t)((x * (uint64_t)range) >> 32);
}

void *ex_memory(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);

    if (p == NULL)
        ex_abort("no memory for %zu times %zu bytes", n, bytes);
    return p;
}

uint64_t ex_hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

uint64_t ex_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t word;

    for (; bytes > 0; p += sizeof(word)) {
        size_t n = bytes < sizeof(word) ? bytes : sizeof(word);

        word = 0;
        memcpy(&word, p, n);
        hash = ex_hash_word(hash, word);
        bytes -= n;
    }
    return hash;
}

bool ex_number(const char *text, int64_t least, int64_t most, int64_t *value)
{
    int64_t factor = 1;
    long long number;
    char *end;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || errno != 0)
        return false;
    switch (tolower((unsigned char)*end)) {
    case 'g':
        factor *= 1000; /* fall through */
    case 'm':
        factor *= 1000; /* fall through */
    case 'k':
        factor *= 1000;
        end++;
        break;
    default:
        break;
    }
    if (*end != '\0' || number > INT64_MAX / factor || number < INT64_MIN / factor)
        return false;
    if (number * factor < least || number * factor > most)
        return false;
    *value = number * factor;
    return true;
}

bool ex_real(const char *text, double least, double most, double *value)
{
    char *end;
    double number = strtod(text, &end);

    /* Written so that a NaN is refused too. */
    if (end == text || *end != '\0' || !(number >= least && number <= most))
        return false;
    *value = number;
    return true;
}

bool ex_flavor_parse(const char *text, enum ex_flavor *flavor)
{
    for (int i = EX_ALLOCATE; i <= EX_SHARED; i++) {
        if (strcmp(text, flavor_names[i]) == 0) {
            *flavor = (enum ex_flavor)i;
            return true;
        }
    }
    return false;
}

const char *ex_flavor_name(enum ex_flavor flavor)
{
    return flavor_names[flavor];
}

/* Memory that this program brings itself. */
static void *own_memory(size_t bytes)
{
    size_t rounded = (bytes + CACHE_LINE) / CACHE_LINE * CACHE_LINE;
    void *base = aligned_alloc(CACHE_LINE, rounded);

    if (base == NULL)
        ex_abort("no memory for %zu bytes", bytes);
    return base;
}

static void check_one_node(void)
{
    MPI_Comm node;
    int size;

    ex_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
             "MPI_Comm_split_type");
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    if (size != ex_size())
        ex_abort("--flavor shared needs all ranks on one node");
}

/* Creates the window, and says whether displacements start at 0 or at an address. */
static MPI_Aint create_flavor(struct ex_window *w, size_t bytes)
{
    MPI_Aint size = (MPI_Aint)bytes;
    MPI_Aint address = 0;

    switch (w->flavor) {
    case EX_ALLOCATE:
        ex_check(MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->base, &w->win),
                 "MPI_Win_allocate");
        break;
    case EX_SHARED:
        check_one_node();
        ex_check(MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->base,
                                         &w->win), "MPI_Win_allocate_shared");
        break;
    case EX_CREATE:
        w->base = own_memory(bytes);
        ex_check(MPI_Win_create(w->base, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win),
                 "MPI_Win_create");
        break;
    case EX_DYNAMIC:
        w->base = own_memory(bytes);
        ex_check(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w->win),
                 "MPI_Win_create_dynamic");
        if (bytes > 0)
            ex_check(MPI_Win_attach(w->win, w->base, size), "MPI_Win_attach");
        MPI_Get_address(w->base, &address);
        break;
    }
    return address;
}

void ex_window_create(struct ex_window *w, enum ex_flavor flavor, size_t bytes)
{
    MPI_Aint address;

    memset(w, 0, sizeof(*w));
    w->flavor = flavor;
    w->origin = malloc((size_t)ex_size() * sizeof(*w->origin));
    if (w->origin == NULL)
        ex_abort("no memory for %d displacements", ex_size());
    address = create_flavor(w, bytes);

    /* Plain stores to one's own part of a window belong between a lock and its unlock. */
    ex_check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, ex_rank(), 0, w->win), "MPI_Win_lock");
    if (bytes > 0)
        memset(w->base, 0, bytes);
    ex_check(MPI_Win_unlock(ex_rank(), w->win), "MPI_Win_unlock");

    /* No rank leaves before all are here, so nobody meets memory that is not zeroed yet. */
    ex_check(MPI_Allgather(&address, 1, MPI_AINT, w->origin, 1, MPI_AINT, MPI_COMM_WORLD),
             "MPI_Allgather");
}

void ex_window_free(struct ex_window *w)
{
    bool own = w->flavor == EX_CREATE || w->flavor == EX_DYNAMIC;

    ex_check(MPI_Win_free(&w->win), "MPI_Win_free");
    if (own)
        free(w->base);
    free(w->origin);
    memset(w, 0, sizeof(*w));
}

void ex_progress_init(struct ex_progress *p, bool asked)
{
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->shown = ex_rank() == 0 && (asked || p->terminal);
    p->next = MPI_Wtime() + 0.5;
}

void ex_progress_say(struct ex_progress *p, const char *format, ...)
{
    double now;
    va_list args;

    if (!p->shown)
        return;
    now = MPI_Wtime();
    if (now < p->next)
        return;
    p->next = now + 0.5;
    va_start(args, format);
    fputs(p->terminal ? "\r\033[K" : "", stderr);
    vfprintf(stderr, format, args);
    fputs(p->terminal ? "" : "\n", stderr);
    va_end(args);
    fflush(stderr);
}

void ex_progress_end(struct ex_progress *p)
{
    if (p->shown && p->terminal)
        fputs("\r\033[K", stderr);
}

/* Bytes of the UTF-8 character that starts here, or 0 where none does. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3
                  : s[0] < 0xf5 ? 4 : 0;

    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

void ex_json_string(FILE *to, const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t step;

    fputc('"', to);
    for (size_t i = 0; i < length; i += step) {
        step = utf8_length(s + i, length - i);
        if (step == 0) {
            fputs("\\ufffd", to);
            step = 1;
        } else if (s[i] < 0x20) {
            fprintf(to, "\\u%04x", s[i]);
        } else {
            if (s[i] == '"' || s[i] == '\\')
                fputc('\\', to);
            fwrite(s + i, 1, step, to);
        }
    }
    fputc('"', to);
}

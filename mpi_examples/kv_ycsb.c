/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key-value store under the mixes of YCSB, after section 7.2 of the LOCO paper. Every rank and
 * thread reads, updates and inserts in one store; whatever is read is checked.
 *
 * kv_workload.h says what the operations are, kv_run.c how they are made and checked; the stores
 * are a LOCO channel (kv_loco.c) and a hash table in an MPI window (kv_mpi.c). bench/kv_rivals is
 * the same program with others.
 */
#include "kv_ycsb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N %s [OPTION]...\n"
    "Loads a key-value store over all ranks, and reads and writes it as YCSB's workloads do.\n"
    "\n"
    "  --store NAME     one of the stores below (%s)\n"
    "  --mix a|...|f    a: 50 %% reads, 50 %% updates; b: 95, 5; c: reads; d: 95 %% reads,\n"
    "                   5 %% inserts; e: 95 %% scans of 1 to 100 entries, 5 %% inserts; f: 50 %%\n"
    "                   reads, 50 %% reads with an update of what was read (b)\n"
    "  --dist uniform|zipf|latest  which keys (zipf; mix d: latest)\n"
    "  --records N      keys that are loaded, up to 2000m (1m)\n"
    "  --key-bytes N    size of every key: 8, numbers; or 20 to 250, texts (8)\n"
    "  --value-bytes N  size of every value, 8 to 65536 (100); also --value\n"
    "  --window W       operations outstanding per thread, 1 to 128 (1)\n"
    "  --threads T      threads per rank, 1 to 256 (1)\n"
    "  --seconds S      run so long (1)\n"
    "  --ops N          or: this many operations per thread\n"
    "  --room N         mixes d and e: new keys that there is room for (as many as records)\n"
    "  --sample N       time one of N operations (16)\n"
    "  --flavor " EX_FLAVORS "  mpi: kind of window (allocate)\n"
    "%s"
    "  --seed N         of the random numbers (1)\n"
    "  --no-check       do not look at the records after the run; what is read is always checked\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Stores:\n";

static const char help_end[] =
    "\n"
    "Exit status: 0, 1 if a value is wrong or a call failed, 2 on wrong use.\n";

static const struct { const char *one, *many; } kinds[KV_KINDS] = {
    [KV_READ] = { "read", "reads" },       [KV_UPDATE] = { "update", "updates" },
    [KV_INSERT] = { "insert", "inserts" }, [KV_SCAN] = { "scan", "scans" },
    [KV_MODIFY] = { "modify", "modifies" },
};

static const double percents[] = { 50, 95, 99, 99.9 };

static bool any_has_place(void)
{
    for (size_t i = 0; kv_backends[i] != NULL; i++) {
        if (kv_backends[i]->place != NULL)
            return true;
    }
    return false;
}

static void make_help(const char *program, char *text, size_t room)
{
    const char *name = strrchr(program, '/');
    int at = snprintf(text, room, help, name != NULL ? name + 1 : program,
                      kv_backends[0]->name, any_has_place()
                      ? "  --at PATH        where the store is: a socket, or an empty folder\n"
                        "  --server PID     its server, whose CPU time is counted with the ranks'\n"
                      : "");

    for (size_t i = 0; kv_backends[i] != NULL; i++)
        at += snprintf(text + at, room - (size_t)at, "  %-15s  %s\n",
                       kv_backends[i]->name, kv_backends[i]->text);
    snprintf(text + at, room - (size_t)at, "%s", help_end);
}

static bool parse_store(const char *text, struct kv_options *o)
{
    for (size_t i = 0; kv_backends[i] != NULL; i++) {
        if (strcmp(text, kv_backends[i]->name) == 0) {
            o->backend = kv_backends[i];
            return true;
        }
    }
    return false;
}

static bool parse_mix(const char *text, struct kv_options *o)
{
    o->mix = text[0] != '\0' && text[1] == '\0' ? kv_mix_find(text[0]) : NULL;
    return o->mix != NULL;
}

static bool parse_distribution(const char *text, struct kv_options *o)
{
    for (int i = 0; i < KV_DISTRIBUTIONS; i++) {
        if (strcmp(text, kv_distribution_names[i]) == 0) {
            o->distribution = (enum kv_distribution)i;
            return true;
        }
    }
    return false;
}

static bool parse_one(int c, void *options)
{
    struct kv_options *o = options;

    switch (c) {
    case 'a': return parse_store(optarg, o);
    case 'm': return parse_mix(optarg, o);
    case 'd': return parse_distribution(optarg, o);
    case 'n': return ex_number(optarg, 1, KV_MOST_RECORDS, &o->records);
    case 'K':
        return ex_number(optarg, 1, KV_MOST_KEY, &o->key_bytes)
               && (o->key_bytes == KV_NUMBER_KEY || o->key_bytes >= KV_LEAST_TEXT_KEY);
    case 'v': return ex_number(optarg, KV_LEAST_VALUE, KV_MOST_VALUE, &o->value_bytes);
    case 'w': return ex_number(optarg, 1, KV_MOST_WINDOW, &o->window);
    case 'T': return ex_number(optarg, 1, KV_MOST_THREADS, &o->threads);
    case 's': return ex_real(optarg, 0.001, 1e6, &o->seconds);
    case 'o': return ex_number(optarg, 1, INT64_MAX / 2, &o->ops);
    case 'R': return ex_number(optarg, 0, KV_MOST_RECORDS, &o->room);
    case 'S': return ex_number(optarg, 1, INT64_MAX / 2, &o->sample);
    case 'f': return ex_flavor_parse(optarg, &o->flavor);
    case 'k': o->at = optarg; return any_has_place();
    case 'P': return ex_number(optarg, 1, INT32_MAX, &o->server) && any_has_place();
    case 'r': return ex_number(optarg, 0, INT32_MAX, &o->seed);
    case 'c': o->check = false; return true;
    case 'j': return o->json = true;
    default: return o->progress = true;
    }
}

/* Whether the store can do what is asked for. */
static void check_store(const char *program, const struct kv_options *o)
{
    const struct kv_backend *b = o->backend;

    if (b->one_thread && o->threads > 1)
        ex_usage_error(program, "store %s is for one thread per rank", b->name);
    if (b->one_process && ex_size() > 1)
        ex_usage_error(program, "store %s is for one process: use --threads", b->name);
    if (!b->names && o->key_bytes != KV_NUMBER_KEY)
        ex_usage_error(program, "keys of store %s have %d bytes", b->name, KV_NUMBER_KEY);
    if (!b->ordered && o->mix->usual == KV_SCAN)
        ex_usage_error(program, "store %s has no order, so mix %c is not for it", b->name,
                       o->mix->name);
    if (b->place != NULL && o->at == NULL)
        ex_usage_error(program, "store %s needs --at, %s", b->name, b->place);
}

/* What is known only when all options are. */
static void complete_options(const char *program, struct kv_options *o)
{
    int64_t workers = ex_size() * o->threads;

    if ((int)o->distribution == KV_DISTRIBUTIONS)
        o->distribution = o->mix->distribution;
    if (o->mix->other != KV_INSERT)
        o->room = 0;
    else if (o->room < 0)
        o->room = o->records;
    if (workers > KV_MOST_WRITERS)
        ex_usage_error(program, "%" PRId64 " threads in all; values can name %d of them", workers,
                       KV_MOST_WRITERS);
    if (o->room / workers > (int64_t)KV_NUMBER_MASK)
        ex_usage_error(program, "--room is for %u new keys per thread at most", KV_NUMBER_MASK);
    check_store(program, o);
}

static void parse(int argc, char **argv, struct kv_options *o)
{
    static const struct option names[] = {
        { "store", required_argument, NULL, 'a' },   { "mix", required_argument, NULL, 'm' },
        { "dist", required_argument, NULL, 'd' },    { "records", required_argument, NULL, 'n' },
        { "key-bytes", required_argument, NULL, 'K' },
        { "value-bytes", required_argument, NULL, 'v' },
        { "value", required_argument, NULL, 'v' },   { "window", required_argument, NULL, 'w' },
        { "threads", required_argument, NULL, 'T' }, { "seconds", required_argument, NULL, 's' },
        { "ops", required_argument, NULL, 'o' },     { "room", required_argument, NULL, 'R' },
        { "sample", required_argument, NULL, 'S' },  { "flavor", required_argument, NULL, 'f' },
        { "at", required_argument, NULL, 'k' },      { "server", required_argument, NULL, 'P' },
        { "seed", required_argument, NULL, 'r' },
        { "no-check", no_argument, NULL, 'c' },      { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },      { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    char text[4096];

    *o = (struct kv_options){ .backend = kv_backends[0], .mix = kv_mix_find('b'),
                              .distribution = KV_DISTRIBUTIONS, .records = 1000000, .room = -1,
                              .key_bytes = KV_NUMBER_KEY, .value_bytes = 100, .window = 1,
                              .threads = 1, .seconds = 1, .sample = 16, .seed = 1,
                              .check = true };
    make_help(argv[0], text, sizeof(text));
    ex_only_options(argc, argv, names, text, parse_one, o);
    complete_options(argv[0], o);
}

static void json_times(const char *name, const struct kv_histogram *h)
{
    printf("\"%s\": {\"timed\": %" PRIu64, name, kv_histogram_total(h));
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        printf(", \"p%g_us\": %.3f", percents[i],
               (double)kv_histogram_percentile(h, percents[i]) / 1e3);
    printf(", \"max_us\": %.3f}", (double)h->most / 1e3);
}

static void print_json(const struct kv_options *o, const struct kv_result_set *r, const char *check)
{
    const struct kv_mix *m = o->mix;

    printf("{\"example\": \"kv_ycsb\", \"store\": \"%s\", \"mix\": \"%c\", \"dist\": \"%s\", "
           "\"ranks\": %d, \"threads\": %" PRId64 ", \"window\": %" PRId64 ", \"records\": %" PRId64
           ", \"key\": %" PRId64 ", \"value\": %" PRId64 ", \"open_seconds\": %.6f, "
           "\"load_seconds\": %.6f, \"seconds\": %.6f, \"cpu_seconds\": %.6f, ",
           o->backend->name, m->name, kv_distribution_names[o->distribution], ex_size(),
           o->threads, o->window, o->records, o->key_bytes, o->value_bytes, r->open_seconds,
           r->load_seconds, r->seconds, r->cpu_seconds);
    printf("\"ops\": %" PRIu64 ", \"%s\": %" PRIu64 ", \"%s\": %" PRIu64 ", \"entries\": %" PRIu64
           ", \"rate\": %.1f, \"cpu_rate\": %.1f, ", r->ops, kinds[m->usual].many, r->usual,
           kinds[m->other].many, r->others, r->entries, (double)r->ops / r->seconds,
           (double)r->ops / r->cpu_seconds);
    json_times(kinds[m->usual].one, &r->usual_times);
    printf(", ");
    json_times(kinds[m->other].one, &r->other_times);
    printf(", \"checked\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"check\": \"%s\"}\n", r->checked,
           r->wrong, check);
}

static void table_times(const char *name, const struct kv_histogram *h)
{
    if (kv_histogram_total(h) == 0)
        return;
    printf("  %-12s", name);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        printf(" %10.2f", (double)kv_histogram_percentile(h, percents[i]) / 1e3);
    printf(" %10.2f\n", (double)h->most / 1e3);
}

static void table_head(const struct kv_options *o)
{
    printf("%-14s %s\n", "store", o->backend->name);
    printf("%-14s %c: %s, keys %s\n", "mix", o->mix->name, o->mix->text,
           kv_distribution_names[o->distribution]);
    printf("%-14s %d, of %" PRId64 " thread%s, window %" PRId64 "\n", "ranks", ex_size(),
           o->threads, o->threads > 1 ? "s" : "", o->window);
    printf("%-14s %" PRId64 ", keys of %" PRId64 " bytes, values of %" PRId64 "\n", "records",
           o->records, o->key_bytes, o->value_bytes);
}

static void print_table(const struct kv_options *o, const struct kv_result_set *r,
                        const char *check)
{
    const struct kv_mix *m = o->mix;

    table_head(o);
    printf("%-14s %.3f s, loaded in %.3f s (%.0f per second)\n", "set up in", r->open_seconds,
           r->load_seconds, (double)o->records / r->load_seconds);
    printf("%-14s %" PRIu64 " in %.3f s: %" PRIu64 " %s, %" PRIu64 " %s\n", "made", r->ops,
           r->seconds, r->usual, kinds[m->usual].many, r->others, kinds[m->other].many);
    if (m->usual == KV_SCAN)
        printf("%-14s %" PRIu64 " entries\n", "scanned", r->entries);
    printf("%-14s %.0f per second, %.0f per second of CPU time\n", "rate",
           (double)r->ops / r->seconds, (double)r->ops / r->cpu_seconds);
    printf("%-14s", "microseconds");
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        printf("    p%-6g", percents[i]);
    printf("        max\n");
    table_times(kinds[m->usual].one, &r->usual_times);
    table_times(kinds[m->other].one, &r->other_times);
    printf("%-14s %s", "check", check);
    if (o->check)
        printf(" (%" PRIu64 " records looked at in %.3f s)", r->checked, r->check_seconds);
    printf("\n");
}

static void report(const struct kv_options *o, const struct kv_result_set *r)
{
    const char *check = r->wrong == 0 ? "passed" : "FAILED";

    if (o->json)
        print_json(o, r, check);
    else
        print_table(o, r, check);
    if (r->full > 0)
        fprintf(stderr, "kv_ycsb: %" PRIu64 " of the threads stopped early: no more room for new "
                "keys (--room)\n", r->full);
    if (r->wrong > 0)
        fprintf(stderr, "kv_ycsb: %" PRIu64 " wrong results\n", r->wrong);
}

/* MPI is asked for threads only where they are wanted. Wrong options are found later, when there is
 * a rank 0 to say so. */
static int level_needed(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');

        if (strncmp(argv[i], "--th", 4) != 0)
            continue;
        value = value != NULL ? value + 1 : i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(value, "1") != 0)
            return MPI_THREAD_MULTIPLE;
    }
    return MPI_THREAD_SINGLE;
}

int main(int argc, char **argv)
{
    struct kv_result_set *r;
    struct kv_options o;
    int level, good;

    MPI_Init_thread(&argc, &argv, level_needed(argc, argv), &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    parse(argc, argv, &o);
    if (o.threads > 1 && level < MPI_THREAD_MULTIPLE)
        ex_usage_error(argv[0], "this MPI does not offer MPI_THREAD_MULTIPLE");
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        ex_abort("no memory for the results");
    kv_measure(&o, r);
    good = r->wrong == 0;
    if (ex_rank() == 0)
        report(&o, r);
    free(r);
    return ex_finish(good ? 0 : EX_WRONG);
}

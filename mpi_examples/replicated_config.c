/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings that all ranks have: each reads its own copy, at the cost of a look into memory, and any
 * rank changes them for all, by an atomic multicast. A rank that sets "if it still has the version
 * that I saw" learns from its own copy whether it was the first: all ranks apply the changes in
 * one order, so all come to the same answer, and nobody asks a server or holds a lock.
 *
 * The ranks read settings at random, and now and then they change one, or count one up. A count
 * must end as the number of the times that some rank was told that it had counted; a value that was
 * read must be one that somebody wrote; and all copies must be the same at the end.
 */
#include "common.h"
#include "settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>
#include <loco/mpi.h>

static const char help[] =
    "Usage: mpirun -np N replicated_config [OPTION]...\n"
    "Settings of which each rank has a copy to read, and which any rank changes for all.\n"
    "\n"
    "  --file FILE      rank 0 sets first what is in it: lines \"name = value\", and # comments\n"
    "  --settings N     besides, up to 100000 that are read and changed, (1000)\n"
    "  --counts N       and up to 1000 that are counted up (10)\n"
    "  --changes N      of 1000 operations so many change a setting, (20)\n"
    "  --counting N     and so many count one up (2); the others read\n"
    "  --seconds S      go on so long; 0: only the file (1)\n"
    "  --seed N         of the random numbers (1)\n"
    "  --print          the last rank prints all settings, from its copy\n"
    "  --spoil order|lost|won|torn  the last rank swaps two changes, leaves one out, takes a\n"
    "                   count for its own that was not, or reads without care: the check has to\n"
    "                   notice\n"
    "  --json           print the results as JSON\n"
    "  --help           this text\n"
    "\n"
    "When a rank dies nobody can change settings any more. Each survivor that its launcher lets\n"
    "live has its copy, says how many changes that has, and exits with 1.\n"
    "\n"
    "Exit status: 0, 1 if the copies differ or a call failed, 2 on wrong use.\n";

enum { MESSAGE_BYTES = sizeof(struct settings_change) + SETTINGS_NAME + SETTINGS_VALUE,
       OPS_PER_LOOK = 64, TIMES = 65536, LINE_BYTES = 1024 };

struct options {
    const char *file;
    int64_t settings, counts;
    int64_t changes, counting;
    double seconds;
    int64_t seed;
    enum settings_spoil spoil;
    bool print, json;
};

struct job {
    const struct options *o;
    loco_runtime_t *rt;
    loco_multicast_t *changes;
    struct settings copy;
    uint64_t random;
    uint64_t sent, number;
    uint64_t reads, set, counted, late, torn;
    int64_t *took;                      /* ns, of the last TIMES counts */
    double seconds;
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* ---- changing ---- */

/* Nobody changes settings any more; what this rank has it keeps. */
static _Noreturn void no_more_changes(struct job *j, int status)
{
    while (status == LOCO_ERR_PEER_DEAD && !atomic_load(&j->copy.died))
        usleep(100);
    fprintf(stderr, "rank %d: no more changes: %s; the copy has %" PRIu64 " of them, and hash %016"
            PRIx64 "\n", ex_rank(), loco_strerror(status), atomic_load(&j->copy.applied),
            settings_hash(&j->copy));
    fflush(stderr);
    loco_multicast_destroy(j->changes);
    loco_runtime_close_mpi(j->rt);
    _exit(EX_WRONG);
}

static void post(struct job *j, struct settings_change c, const char *name, const char *value)
{
    unsigned char *slot;
    int status = loco_multicast_reserve(j->changes, (void **)&slot);

    c.name_bytes = (uint32_t)strlen(name);
    c.value_bytes = (uint32_t)strlen(value);
    if (status == LOCO_OK) {
        memcpy(slot, &c, sizeof(c));
        memcpy(slot + sizeof(c), name, c.name_bytes);
        memcpy(slot + sizeof(c) + c.name_bytes, value, c.value_bytes);
        status = loco_multicast_send(j->changes, slot, sizeof(c) + c.name_bytes + c.value_bytes,
                                     &j->number);
    }
    if (status != LOCO_OK)
        no_more_changes(j, status);
    j->sent++;
}

static void set(struct job *j, const char *name, const char *value)
{
    post(j, (struct settings_change){ .kind = SETTINGS_SET }, name, value);
}

/* Whether the setting still had that version when the change came to its turn. */
static bool set_if(struct job *j, const char *name, const char *value, uint64_t version)
{
    int status;

    post(j, (struct settings_change){ .kind = SETTINGS_SET_IF, .version = version }, name, value);
    status = loco_multicast_wait_delivered(j->changes, j->number);
    if (status != LOCO_OK)
        no_more_changes(j, status);
    return atomic_load(&j->copy.mine_done);
}

static void count_up(struct job *j, const char *name)
{
    char value[SETTINGS_VALUE + 1] = "0", next[32];
    int64_t start = ex_now();
    uint64_t version;

    for (;;) {
        version = settings_get(&j->copy, name, value);
        snprintf(next, sizeof(next), "%lld", version == 0 ? 1 : atoll(value) + 1);
        if (set_if(j, name, next, version))
            break;
        j->late++;
    }
    j->took[j->counted++ % TIMES] = ex_now() - start;
}

/* ---- the file ---- */

static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && strchr(" \t\r\n", end[-1]) != NULL)
        *--end = '\0';
    return text + strspn(text, " \t");
}

static void set_line(struct job *j, char *line, int number)
{
    char *name = trim(line), *equals = strchr(name, '='), *value;

    if (*name == '\0' || *name == '#')
        return;
    if (equals == NULL)
        ex_abort("%s, line %d: \"name = value\" was expected", j->o->file, number);
    *equals = '\0';
    name = trim(name);
    value = trim(equals + 1);
    if (*name == '\0' || strlen(name) >= SETTINGS_NAME || strlen(value) > SETTINGS_VALUE)
        ex_abort("%s, line %d: a name has 1 to %d bytes, a value up to %d", j->o->file, number,
                 SETTINGS_NAME - 1, SETTINGS_VALUE);
    set(j, name, value);
}

static void set_file(struct job *j)
{
    FILE *f = fopen(j->o->file, "r");
    char line[LINE_BYTES];

    if (f == NULL)
        ex_abort("%s cannot be read", j->o->file);
    for (int number = 1; fgets(line, sizeof(line), f) != NULL; number++) {
        if (strlen(line) == sizeof(line) - 1)
            ex_abort("%s, line %d: longer than %d bytes", j->o->file, number, LINE_BYTES - 2);
        set_line(j, line, number);
    }
    fclose(f);
}

/* ---- operations ---- */

/* A value that somebody wrote is one number many times: half of another change is seen. */
static void make_value(uint64_t number, char value[SETTINGS_VALUE + 1])
{
    size_t used = 0;

    for (uint64_t i = 0; i < 4 + number % 8; i++)
        used += (size_t)snprintf(value + used, SETTINGS_VALUE + 1 - used, "%" PRIu64 " ", number);
}

static bool is_whole(const char *value)
{
    char *end;
    uint64_t first = strtoull(value, &end, 10), n = 1;

    for (; strcmp(end, " ") != 0 && *end != '\0'; n++)
        if (strtoull(end, &end, 10) != first)
            return false;
    return n == 4 + first % 8;
}

static void read_or_set(struct job *j, bool change)
{
    char name[SETTINGS_NAME], value[SETTINGS_VALUE + 1];

    snprintf(name, sizeof(name), "setting.%u", ex_random_below(&j->random, j->o->settings));
    if (change) {
        make_value(j->random % 1000000, value);
        set(j, name, value);
        j->set++;
    } else {
        if (settings_get(&j->copy, name, value) != 0 && !is_whole(value))
            j->torn++;
        j->reads++;
    }
}

static void operate(struct job *j)
{
    const struct options *o = j->o;
    int64_t start = ex_now(), end = start + (int64_t)(o->seconds * 1e9);
    char name[SETTINGS_NAME];

    for (uint64_t i = 0; o->seconds > 0; i++) {
        int64_t which = ex_random_below(&j->random, 1000);

        if (i % OPS_PER_LOOK == 0 && ex_now() >= end)
            break;
        if (which < o->counting) {
            snprintf(name, sizeof(name), "count.%u", ex_random_below(&j->random, o->counts));
            count_up(j, name);
        } else {
            read_or_set(j, which < o->counting + o->changes);
        }
    }
    j->seconds = (double)(ex_now() - start) / 1e9;
}

/* A rank learns from the changes themselves that they have ended: nobody waits in MPI, which does
 * not notice a death, while some are under way. */
static void run(struct job *j)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    if (ex_rank() == 0 && j->o->file != NULL)
        set_file(j);
    operate(j);
    post(j, (struct settings_change){ .kind = SETTINGS_END }, "", "");
    while (atomic_load(&j->copy.ends) < ex_size()) {
        if (atomic_load(&j->copy.died))
            no_more_changes(j, LOCO_ERR_PEER_DEAD);
        usleep(100);
    }
    check(loco_multicast_wait_delivered(j->changes, j->number), "loco_multicast_wait_delivered");
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

/* ---- checking ---- */

enum { READS, SET, COUNTED, LATE, TORN, SENT, WRONG, NUMBERS };

static uint64_t sum_of_counts(const struct job *j)
{
    char name[SETTINGS_NAME], value[SETTINGS_VALUE + 1];
    uint64_t sum = 0;

    for (int64_t i = 0; i < j->o->counts; i++) {
        snprintf(name, sizeof(name), "count.%" PRId64, i);
        if (settings_get(&j->copy, name, value) != 0)
            sum += strtoull(value, NULL, 10);
    }
    return sum;
}

static void compare(struct job *j, uint64_t all[NUMBERS])
{
    struct settings *s = &j->copy;
    uint64_t mine[3] = { atomic_load(&s->applied), s->hash, settings_hash(s) }, first[3];
    uint64_t numbers[NUMBERS] = { j->reads, j->set, j->counted, j->late, j->torn, j->sent, 0 };

    memcpy(first, mine, sizeof(first));
    ex_check(MPI_Bcast(first, 3, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    ex_check(MPI_Allreduce(numbers, all, NUMBERS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    numbers[WRONG] = memcmp(mine, first, sizeof(mine)) != 0 || mine[0] != all[SENT]
                     || sum_of_counts(j) != all[COUNTED] || j->torn > 0 || s->full > 0;
    if (numbers[WRONG] != 0)
        fprintf(stderr, "replicated_config: rank %d's copy is wrong: %" PRIu64 " changes of %"
                PRIu64 " (%" PRIu64 " without room), %s, %s; counts %" PRIu64 " of %" PRIu64
                "; %" PRIu64 " values read that nobody wrote\n", ex_rank(), mine[0], all[SENT],
                s->full, mine[1] == first[1] ? "in rank 0's order" : "not in rank 0's order",
                mine[2] == first[2] ? "rank 0's settings" : "other settings than rank 0",
                sum_of_counts(j), all[COUNTED], j->torn);
    ex_check(MPI_Allreduce(&numbers[WRONG], &all[WRONG], 1, MPI_UINT64_T, MPI_SUM,
                           MPI_COMM_WORLD), "MPI_Allreduce");
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double microseconds(struct job *j, int percent)
{
    uint64_t n = j->counted < TIMES ? j->counted : TIMES;

    if (n == 0)
        return 0;
    qsort(j->took, n, sizeof(*j->took), by_size);
    return (double)j->took[n * (uint64_t)percent / 100] / 1e3;
}

static void report(struct job *j, const uint64_t all[NUMBERS])
{
    const char *verdict = all[WRONG] == 0 ? "passed" : "FAILED";
    double s = j->seconds > 0 ? j->seconds : 1;

    if (j->o->json) {
        printf("{\"example\": \"replicated_config\", \"ranks\": %d, \"reads\": %" PRIu64
               ", \"set\": %" PRIu64 ", \"counted\": %" PRIu64 ", \"late\": %" PRIu64
               ", \"seconds\": %.6f, \"read_rate\": %.1f, \"change_rate\": %.1f, "
               "\"median_us\": %.3f, \"p99_us\": %.3f, \"hash\": \"%016" PRIx64
               "\", \"check\": \"%s\"}\n", ex_size(), all[READS], all[SET], all[COUNTED],
               all[LATE], j->seconds, (double)all[READS] / s, (double)all[SENT] / s,
               microseconds(j, 50), microseconds(j, 99), settings_hash(&j->copy), verdict);
        return;
    }
    printf("%-14s %d\n", "ranks", ex_size());
    printf("%-14s %.0f per second\n", "reads", (double)all[READS] / s);
    printf("%-14s %.0f per second, at all ranks\n", "changes", (double)all[SENT] / s);
    printf("%-14s %" PRIu64 ", tried again %" PRIu64 " times; median %.1f us, 99 %% within %.1f us "
           "(rank 0)\n", "counted", all[COUNTED], all[LATE], microseconds(j, 50),
           microseconds(j, 99));
    printf("%-14s %s\n", "check", verdict);
}

/* ---- the command line, and the whole ---- */

static bool parse_spoil(const char *text, struct options *o)
{
    static const char *const names[] = { "", "order", "lost", "won", "torn" };

    for (int i = SETTINGS_ORDER; i <= SETTINGS_TORN; i++) {
        if (strcmp(text, names[i]) == 0)
            o->spoil = (enum settings_spoil)i;
    }
    return o->spoil != SETTINGS_RIGHT;
}

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'f': return *(o->file = optarg) != '\0';
    case 'n': return ex_number(optarg, 1, 100000, &o->settings);
    case 'c': return ex_number(optarg, 1, 1000, &o->counts);
    case 'C': return ex_number(optarg, 0, 1000, &o->changes);
    case 'u': return ex_number(optarg, 0, 1000, &o->counting);
    case 's': return ex_real(optarg, 0, 1e6, &o->seconds);
    case 'r': return ex_number(optarg, 0, INT64_MAX, &o->seed);
    case 'x': return parse_spoil(optarg, o);
    case 'p': return o->print = true;
    default: return o->json = true;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "file", required_argument, NULL, 'f' },    { "settings", required_argument, NULL, 'n' },
        { "counts", required_argument, NULL, 'c' },  { "changes", required_argument, NULL, 'C' },
        { "counting", required_argument, NULL, 'u' }, { "seconds", required_argument, NULL, 's' },
        { "seed", required_argument, NULL, 'r' },    { "spoil", required_argument, NULL, 'x' },
        { "print", no_argument, NULL, 'p' },         { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .settings = 1000, .counts = 10, .changes = 20, .counting = 2,
                           .seconds = 1, .seed = 1 };
    ex_only_options(argc, argv, names, help, parse_one, o);
    if (o->changes + o->counting > 1000)
        ex_usage_error(argv[0], "of 1000 operations, %" PRId64 " change and %" PRId64 " count",
                       o->changes, o->counting);
}

static void open_job(struct job *j, const struct options *o)
{
    loco_multicast_options_t how = { .slot_bytes = MESSAGE_BYTES, .handler = settings_deliver,
                                     .arg = &j->copy };

    *j = (struct job){ .o = o };
    settings_open(&j->copy, (uint64_t)(o->settings + o->counts) + 10000,
                  ex_rank() == ex_size() - 1 ? o->spoil : SETTINGS_RIGHT);
    j->took = ex_memory(TIMES, sizeof(*j->took));
    j->random = ((uint64_t)o->seed * 1000003 + (uint64_t)ex_rank() + 1) *
                UINT64_C(0x9e3779b97f4a7c15) | 1;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &j->rt), "loco_runtime_open_mpi");
    check(loco_multicast_create(j->rt, NULL, "changes", loco_everyone(j->rt), &how, &j->changes),
          "loco_multicast_create");
    check(loco_runtime_wait_ready(j->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
}

static void close_job(struct job *j)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_multicast_destroy(j->changes);
    loco_runtime_close_mpi(j->rt);
    settings_close(&j->copy);
    free(j->took);
}

int main(int argc, char **argv)
{
    uint64_t all[NUMBERS];
    struct options o;
    struct job j;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    open_job(&j, &o);
    run(&j);
    compare(&j, all);
    if (ex_rank() == ex_size() - 1 && o.print)
        settings_print(&j.copy);
    fflush(stdout);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    if (ex_rank() == 0 && (!o.print || o.json))
        report(&j, all);
    close_job(&j);
    return ex_finish(all[WRONG] == 0 ? 0 : EX_WRONG);
}

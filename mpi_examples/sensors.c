/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sensors of a plant on topics, one for each level of service.
 *
 *   temperature   kept: rank 0 measures; a display that is switched on late gets the last readings
 *                 first, then each new one
 *   position      unordered: every rank says where its vehicle is; each vehicle's positions come in
 *                 order, and as soon as they are there
 *   alarms        atomic: every rank may raise one; all see all of them in the same order
 *   recorder      logged: every rank's decisions, in a file of the last rank that outlives a crash
 *
 * The last rank is the late display, and has the recorder. All ranks check what they were given.
 */
#include "common.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>
#include <loco/mpi.h>

static const char help[] =
    "Usage: mpirun -np N sensors [OPTION]...\n"
    "Samples of sensors on topics of all four levels; the last rank subscribes late.\n"
    "\n"
    "  --samples N      of each sensor (1000)\n"
    "  --history N      temperatures that are kept for a late subscriber (50)\n"
    "  --pause US       between two samples of a rank (0)\n"
    "  --log FILE       the recorder's file, continued if it is there (sensors.log)\n"
    "  --table FILE     what the late display was given: number, temperature, kept or not\n"
    "  --plot FILE      the same as a picture (PNG), if there is gnuplot; needs --table\n"
    "  --spoil lose|swap  the last rank loses a temperature, or takes two alarms the other way\n"
    "                   round: the check has to notice\n"
    "  --json           print the results as JSON\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0, 1 if something was lost, doubled or out of order, 2 on wrong use.\n";

enum topic { TEMPERATURE, POSITION, ALARMS, RECORDER, TOPICS };
enum spoil { NOTHING, LOSE, SWAP };
static const char *const names[TOPICS] = { "temperature", "position", "alarms", "recorder" };
static const int levels[TOPICS] = { LOCO_TOPIC_KEPT, LOCO_TOPIC_UNORDERED, LOCO_TOPIC_ATOMIC,
                                    LOCO_TOPIC_LOGGED };

struct options {
    int64_t samples, history, pause;
    const char *log, *table, *plot;
    enum spoil spoil;
    bool json;
};

struct sample {
    int64_t number;
    double value;
};

/* What this rank was given of a topic. The poller writes; others read after `given`. */
struct seen {
    struct job *job;
    enum topic topic;
    int64_t *next;              /* by publisher: the number that should come */
    uint64_t hash;              /* of all, in their order */
    uint64_t record;            /* of the last that was logged */
    _Atomic int64_t given, wrong;
    _Atomic int64_t kept;       /* -1: the late display has not been told yet */
};

struct job {
    const struct options *o;
    int rank, size;
    loco_topic_t *t[TOPICS];
    struct seen seen[TOPICS];
    struct sample *shown;       /* of the late display */
    int64_t nshown;
    uint64_t last_alarm;        /* spoilt: is taken after the next one */
    _Atomic bool over;          /* others may have ended */
};

static void need(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* ---- what comes ---- */

static bool is_late(const struct job *job)
{
    return job->size > 1 && job->rank == job->size - 1;
}

/* The first one that a late display is given may be any; then each follows the one before. */
static void check(struct seen *s, const loco_sample_t *sample)
{
    const struct sample *data = sample->data;
    int64_t *next = &s->next[sample->publisher];

    if (*next < 0)
        *next = data->number;
    if (data->number != (*next)++)
        atomic_fetch_add(&s->wrong, 1);
}

static void show(struct job *job, const struct sample *data)
{
    if (job->nshown < job->o->samples)
        job->shown[job->nshown++] = *data;
}

static void add(struct seen *s, uint64_t word)
{
    struct job *job = s->job;

    if (s->topic == ALARMS && job->o->spoil == SWAP && job->rank == job->size - 1
        && atomic_load(&s->given) == 0) {
        job->last_alarm = word;
        return;
    }
    s->hash = ex_hash_word(s->hash, word);
    if (job->last_alarm != 0)
        s->hash = ex_hash_word(s->hash, job->last_alarm);
    job->last_alarm = 0;
}

static void take(void *arg, const loco_sample_t *samples, int n)
{
    struct seen *s = arg;
    struct job *job = s->job;

    for (int i = 0; i < n; i++) {
        const struct sample *data = samples[i].data;
        bool late = s->topic == TEMPERATURE && is_late(job);

        if (late && job->o->spoil == LOSE && data->number == job->o->samples - 2)
            continue;
        check(s, &samples[i]);
        add(s, (uint64_t)(samples[i].publisher + 1) << 40 | (uint64_t)data->number);
        if (late)
            show(job, data);
        s->record = samples[i].record;
        atomic_fetch_add(&s->given, 1);
    }
}

static void note(void *arg, enum loco_topic_event event, int64_t value)
{
    struct seen *s = arg;

    if (event == LOCO_TOPIC_SUBSCRIBED)
        atomic_store(&s->kept, value);
    else if (event == LOCO_TOPIC_LOG_ENDED)
        atomic_fetch_add(&s->wrong, 1);
    else if ((event == LOCO_TOPIC_MEMBER_GONE || event == LOCO_TOPIC_ENDED)
             && !atomic_load(&s->job->over))
        ex_abort("a rank has died");
}

/* ---- making and publishing ---- */

static void open_topic(struct job *job, loco_runtime_t *rt, enum topic which)
{
    static const int first[] = { 0 };
    struct seen *s = &job->seen[which];
    bool late = which == TEMPERATURE && is_late(job);
    const loco_topic_options_t o = {
        .publishers = which == TEMPERATURE ? first : NULL, .npublishers = which == TEMPERATURE,
        .level = levels[which], .slot_bytes = sizeof(struct sample), .handler = take,
        .event = note, .arg = s, .subscribe = !late,
        .history = which == TEMPERATURE ? (int)job->o->history : 0,
        .log = which == RECORDER && job->rank == job->size - 1 ? job->o->log : NULL,
    };

    s->job = job;
    s->topic = which;
    s->next = ex_memory((size_t)job->size, sizeof *s->next);
    for (int i = 0; i < job->size; i++)
        s->next[i] = late ? -1 : 0;
    atomic_init(&s->kept, late ? -1 : 0);
    need(loco_topic_create(rt, NULL, names[which], loco_everyone(rt), &o, &job->t[which]),
         names[which]);
}

static double reading(enum topic which, int rank, int64_t i)
{
    double angle = (double)i / 40;

    return which == TEMPERATURE ? 20 + 5 * sin(angle) + 0.3 * sin(17 * angle) : rank + angle;
}

/* In place: the sample is built where the others read it. */
static uint64_t publish(struct job *job, enum topic which, int64_t i)
{
    struct sample *sample;
    uint64_t number = 0;

    need(loco_topic_reserve(job->t[which], (void **)&sample), "reserve");
    *sample = (struct sample){ i, reading(which, job->rank, i) };
    need(loco_topic_publish(job->t[which], sample, sizeof *sample, &number), "publish");
    return number;
}

static void publish_all(struct job *job)
{
    uint64_t number[TOPICS] = { 0 };

    for (int64_t i = 0; i < job->o->samples; i++) {
        for (enum topic which = 0; which < TOPICS; which++)
            if (which != TEMPERATURE || job->rank == 0)
                number[which] = publish(job, which, i);
        /* The display is switched on when half of the time is over. */
        if (is_late(job) && i == job->o->samples / 2)
            need(loco_topic_subscribe(job->t[TEMPERATURE]), "subscribe");
        if (job->o->pause > 0)
            usleep((useconds_t)job->o->pause);
    }
    for (enum topic which = 0; which < TOPICS; which++)
        if (number[which] > 0)
            need(loco_topic_wait_delivered(job->t[which], number[which]), "delivered");
}

/* ---- the end ---- */

struct replay {
    int64_t records;
};

static void count_record(void *arg, const loco_sample_t *samples, int n)
{
    (void)samples;
    ((struct replay *)arg)->records += n;
}

/* All records of this run are in the file, on the disk. */
static void check_log(struct job *job, loco_runtime_t *rt)
{
    struct seen *s = &job->seen[RECORDER];
    struct replay replay = { 0 };
    uint64_t written = 0;

    if (job->rank != job->size - 1)
        return;
    need(loco_topic_logged(job->t[RECORDER], &written, NULL), "logged");
    need(loco_topic_wait_synced(job->t[RECORDER], written, LOCO_FOREVER), "synced");
    need(loco_topic_replay(rt, job->o->log, 0, count_record, &replay), "replay");
    if (written != s->record || replay.records != (int64_t)written
        || written < (uint64_t)(job->o->samples * job->size))
        atomic_fetch_add(&s->wrong, 1);
}

/* What was lost, doubled or out of order here, of all topics. */
static int64_t count_wrong(const struct job *job)
{
    int64_t wrong = 0;

    for (enum topic which = 0; which < TOPICS; which++) {
        const struct seen *s = &job->seen[which];
        int64_t all = job->o->samples * (which == TEMPERATURE ? 1 : job->size);

        wrong += atomic_load(&s->wrong);
        if (which == TEMPERATURE && is_late(job))
            wrong += s->next[0] != all || atomic_load(&s->kept) > job->o->history;
        else
            wrong += atomic_load(&s->given) != all;
    }
    return wrong;
}

/* The order of what is ordered is the same at all. */
static bool same_order(const struct job *job)
{
    uint64_t mine[2] = { job->seen[ALARMS].hash, job->seen[RECORDER].hash }, first[2];

    memcpy(first, mine, sizeof first);
    ex_check(MPI_Bcast(first, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return memcmp(first, mine, sizeof mine) == 0;
}

static void write_table(const struct job *job)
{
    FILE *f = fopen(job->o->table, "w");

    if (f == NULL)
        ex_abort("%s cannot be written", job->o->table);
    fprintf(f, "number\tcelsius\tkept\n");
    for (int64_t i = 0; i < job->nshown; i++)
        fprintf(f, "%lld\t%.3f\t%d\n", (long long)job->shown[i].number, job->shown[i].value,
                i < atomic_load(&job->seen[TEMPERATURE].kept));
    if (fclose(f) != 0)
        ex_abort("%s cannot be written", job->o->table);
}

static void draw(const struct options *o)
{
    FILE *f = popen("gnuplot", "w");

    if (f == NULL)
        return;
    fprintf(f, "set terminal pngcairo size 900,400\nset output '%s'\nset grid\n"
               "set xlabel 'sample'\nset ylabel 'Celsius'\n"
               "plot '%s' skip 1 using 1:($3 == 1 ? $2 : NaN) title 'kept' pt 7 ps 0.6, "
               "'' skip 1 using 1:($3 == 0 ? $2 : NaN) title 'as it came' with lines\n",
            o->plot, o->table);
    (void)pclose(f);
}

static void report(const struct job *job, int64_t wrong, bool same, double seconds)
{
    int64_t told[3] = { atomic_load(&job->seen[TEMPERATURE].kept), job->nshown, 0 };
    const char *verdict = wrong == 0 && same ? "passed" : "failed";

    if (job->size > 1)
        ex_check(MPI_Bcast(told, 3, MPI_INT64_T, job->size - 1, MPI_COMM_WORLD), "MPI_Bcast");
    if (job->rank != 0)
        return;
    if (job->o->json)
        printf("{\"ranks\": %d, \"samples\": %lld, \"kept\": %lld, \"shown\": %lld, "
               "\"wrong\": %lld, \"seconds\": %.3f, \"check\": \"%s\"}\n", job->size,
               (long long)job->o->samples, (long long)told[0], (long long)told[1],
               (long long)wrong, seconds, verdict);
    else
        printf("%d ranks, %lld samples of each sensor, %.2f s\n"
               "late display: %lld kept temperatures, then %lld as they came\n"
               "order of alarms and recorder: %s at all ranks\ncheck: %s\n", job->size,
               (long long)job->o->samples, seconds, (long long)told[0],
               (long long)(told[1] - told[0]), same ? "the same" : "DIFFERENT", verdict);
}

/* The late display has been told what was kept, and has the last sample. */
static void wait_for_display(struct job *job)
{
    int64_t start = ex_now();

    while (is_late(job) && atomic_load(&job->seen[TEMPERATURE].kept) < 0)
        if (ex_now() - start > INT64_C(60000000000))
            ex_abort("the late display is given nothing");
}

static int run(struct job *job, loco_runtime_t *rt)
{
    int64_t wrong, start;
    int same;

    for (enum topic which = 0; which < TOPICS; which++)
        open_topic(job, rt, which);
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER), "ready");
    start = ex_now();
    publish_all(job);
    wait_for_display(job);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    check_log(job, rt);
    wrong = count_wrong(job);
    same = same_order(job);
    ex_check(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    ex_check(MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD),
             "MPI_Allreduce");
    if (job->rank == job->size - 1 && job->o->table != NULL)
        write_table(job);
    if (job->rank == job->size - 1 && job->o->plot != NULL)
        draw(job->o);
    report(job, wrong, same, (double)(ex_now() - start) / 1e9);
    atomic_store(&job->over, true);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    for (enum topic which = TOPICS; which-- > 0;) {
        loco_topic_destroy(job->t[which]);
        free(job->seen[which].next);
    }
    return wrong == 0 && same ? 0 : EX_WRONG;
}

static bool set(int option, void *options)
{
    struct options *o = options;

    switch (option) {
    case 'n': return ex_number(optarg, 4, 100000000, &o->samples);
    case 'H': return ex_number(optarg, 1, 1000000, &o->history);
    case 'p': return ex_number(optarg, 0, 1000000, &o->pause);
    case 'l': o->log = optarg; return true;
    case 't': o->table = optarg; return true;
    case 'P': o->plot = optarg; return true;
    case 's':
        o->spoil = strcmp(optarg, "lose") == 0 ? LOSE
                   : strcmp(optarg, "swap") == 0 ? SWAP : NOTHING;
        return o->spoil != NOTHING;
    case 'j': return o->json = true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "samples", required_argument, NULL, 'n' }, { "history", required_argument, NULL, 'H' },
        { "pause", required_argument, NULL, 'p' }, { "log", required_argument, NULL, 'l' },
        { "table", required_argument, NULL, 't' }, { "plot", required_argument, NULL, 'P' },
        { "spoil", required_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    struct options o = { .samples = 1000, .history = 50, .log = "sensors.log" };
    struct job job = { .o = &o };
    loco_runtime_t *rt;
    int status;

    ex_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    ex_only_options(argc, argv, options, help, set, &o);
    if (o.plot != NULL && o.table == NULL)
        ex_usage_error("sensors", "--plot needs --table");
    job.rank = ex_rank();
    job.size = ex_size();
    job.shown = ex_memory((size_t)o.samples, sizeof *job.shown);
    need(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt), "runtime");
    status = run(&job, rt);
    loco_runtime_close_mpi(rt);
    free(job.shown);
    return ex_finish(status);
}

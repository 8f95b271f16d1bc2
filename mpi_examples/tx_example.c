/* SPDX-License-Identifier: BSD-3-Clause */
#include "tx_example.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

static const char help[] =
    "Usage: mpirun -np N %s [OPTION]...\n"
    "%s\n"
    "\n"
    "  --store NAME     one of those below (%s)\n"
    "  --%-14s so many, 100 to 100m (100k)\n"
    "%s"
    "  --clients N      threads of each rank, 1 to 64 (1)\n"
    "  --seconds S      run so long (1)\n"
    "  --ops N          or: this many transactions of each client\n"
    "%s"
    "  --seed N         of the random numbers (1)\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Stores:\n";

static const char help_end[] =
    "\n"
    "Exit status: 0, 1 if a row or a sum is wrong or a call failed, 2 on wrong use.\n";

enum { ROWS_AT_ONCE = 32, CALLS_PER_LOOK = 16, PERCENT = 100 };

struct tally {
    int64_t calls[TX_MOST_KINDS], in_vain[TX_MOST_KINDS];
    int64_t again, undone, wrong;
    int64_t added[TX_SUMS];
};

struct job {
    const struct tx_options *o;
    const struct tx_workload *w;
    void *store;
    void *session;              /* the main thread's, which is client 0, too */
    int kind[PERCENT];
    pthread_barrier_t start;
    double started;
    struct ex_progress progress;
};

struct client {
    pthread_t thread;
    struct job *job;
    int64_t number;             /* on this rank */
    uint64_t random;
    int64_t ops;
    struct tally tally;
};

struct result {
    double load_seconds, seconds, cpu_seconds;
    int64_t rows, calls;
    struct tally all;           /* added: what was there at first, too */
    int64_t found[TX_SUMS];
    bool right;
};

/* ---- rows, when nobody else is at them ---- */

/* key: from where to where; argument: how far apart. */
static int load_rows(struct tx *tx, struct tx_call *call)
{
    uint64_t row[(TX_MOST_BYTES + 7) / 8];
    int status = TX_DONE;

    for (uint64_t key = call->key[0]; key < call->key[1] && status == TX_DONE;
         key += (uint64_t)call->argument[0]) {
        if (!call->workload->initial(call->kind, key, row))
            continue;
        call->wrong |= !call->workload->add(call->kind, key, row, call->added);
        status = tx_write(tx, call->kind, key, row);
    }
    return status;
}

static int check_rows(struct tx *tx, struct tx_call *call)
{
    uint64_t row[(TX_MOST_BYTES + 7) / 8];
    int status = TX_DONE;

    for (uint64_t key = call->key[0]; key < call->key[1] && status != TX_AGAIN;
         key += (uint64_t)call->argument[0]) {
        status = tx_read(tx, call->kind, key, row);
        if (status == TX_DONE)
            call->wrong |= !call->workload->add(call->kind, key, row, call->added);
    }
    return status == TX_AGAIN ? TX_AGAIN : TX_DONE;
}

static void add_up(struct tally *t, const struct tx_call *call)
{
    for (int i = 0; i < TX_SUMS; i++)
        t->added[i] += call->added[i];
    t->wrong += call->wrong;
}

/* The rows of a part of a table, some at a time. */
static void each_row_of(struct job *job, const char *what, bool only_reads, tx_body_fn *body,
                        struct tally *t, struct tx_call *call, uint64_t from, uint64_t to)
{
    int rows = job->o->backend->rows_at_once;
    uint64_t step = (uint64_t)call->argument[0] * (uint64_t)(rows > 0 ? rows : ROWS_AT_ONCE);

    for (uint64_t at = from; at < to; at += step) {
        call->key[0] = at;
        call->key[1] = at + step < to ? at + step : to;
        t->again += (int64_t)job->o->backend->run(job->session, only_reads, body, call);
        add_up(t, call);
        ex_progress_say(&job->progress, "%s %s, %.0f %%", what, job->w->table[call->kind].name,
                        100.0 * (double)(at - from) / (double)(to - from));
    }
}

/* This rank's part of all tables, each of its rows: neighbours, or every so many. Returns how many
 * places for rows there are. */
static uint64_t each_row(struct job *job, const char *what, bool only_reads, tx_body_fn *body,
                         struct tally *t)
{
    bool in_order = job->o->backend->in_order;
    uint64_t ranks = (uint64_t)ex_size(), rank = (uint64_t)ex_rank(), all = 0;
    struct tx_call call = { .argument = { in_order ? 1 : ex_size() }, .workload = job->w };

    for (call.kind = 0; call.kind < job->w->tables; call.kind++) {
        uint64_t rows = tx_rows(job->o, &job->w->table[call.kind]);

        if (in_order)
            each_row_of(job, what, only_reads, body, t, &call, rows * rank / ranks,
                        rows * (rank + 1) / ranks);
        else
            each_row_of(job, what, only_reads, body, t, &call, rank, rows);
        all += rows;
    }
    return all;
}

/* ---- the clients ---- */

static bool time_is_up(struct client *c, int64_t made)
{
    double passed = MPI_Wtime() - c->job->started;

    if (c->number == 0)
        ex_progress_say(&c->job->progress, "%.1f s, %.2f million transactions by this client",
                        passed, (double)made / 1e6);
    return c->job->o->ops == 0 && passed >= c->job->o->seconds;
}

static void draw_call(struct client *c, struct tx_call *call)
{
    *call = (struct tx_call){ .kind = c->job->kind[tx_below(&c->random, PERCENT)] };
    c->job->w->draw(c->job->o, &c->random, call);
}

static void count_call(struct tally *t, const struct tx_call *call)
{
    t->calls[call->kind]++;
    t->in_vain[call->kind] += call->in_vain;
    add_up(t, call);
}

static void call_one(struct client *c, void *session)
{
    const struct tx_kind *kind;
    struct tx_call call;

    draw_call(c, &call);
    kind = &c->job->w->kind[call.kind];
    c->tally.again += (int64_t)c->job->o->backend->run(session, kind->only_reads, kind->body,
                                                       &call);
    count_call(&c->tally, &call);
}

static void call_many(struct client *c, void *session, int n)
{
    struct tx_call calls[TX_MOST_DEPTH];

    for (int i = 0; i < n; i++)
        draw_call(c, &calls[i]);
    c->job->o->backend->run_many(session, n, calls);
    for (int i = 0; i < n; i++)
        count_call(&c->tally, &calls[i]);
}

static void call_all(struct client *c, void *session)
{
    const struct tx_options *o = c->job->o;
    int64_t made = 0, looked = -CALLS_PER_LOOK;
    int depth = o->backend->run_many != NULL ? o->backend->depth : 1;

    while (o->ops == 0 || made < o->ops) {
        int n = o->ops == 0 || o->ops - made > depth ? depth : (int)(o->ops - made);

        if (made - looked >= CALLS_PER_LOOK) {
            looked = made;
            if (time_is_up(c, made))
                break;
        }
        if (o->backend->run_many != NULL)
            call_many(c, session, n);
        else
            call_one(c, session);
        made += n;
    }
}

static void *client(void *arg)
{
    struct client *c = arg;
    struct job *job = c->job;
    void *session = c->number == 0 ? job->session : job->o->backend->attach(job->store);

    pthread_barrier_wait(&job->start);
    call_all(c, session);
    if (c->number > 0)
        job->o->backend->detach(session);
    return NULL;
}

static double server_cpu(const struct job *job)
{
    bool asked = ex_rank() == 0 && job->o->backend->server_cpu != NULL;

    return asked ? job->o->backend->server_cpu(job->session) : 0;
}

/* The calling thread is client 0. Nobody's waiting for the others counts as CPU time. */
static void run_clients(struct job *job, struct client *clients, struct result *r)
{
    int64_t n = job->o->clients;
    double server = server_cpu(job), cpu, mine;

    pthread_barrier_init(&job->start, NULL, (unsigned)n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t number = (uint64_t)(ex_rank() * n + i);

        clients[i] = (struct client){ .job = job, .number = i };
        clients[i].random = tx_mix((uint64_t)job->o->seed * 1000003 + number) | 1;
        if (i > 0 && pthread_create(&clients[i].thread, NULL, client, &clients[i]) != 0)
            ex_abort("cannot start client %" PRId64, i);
    }
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    job->started = MPI_Wtime();
    cpu = ex_cpu_seconds();
    client(&clients[0]);
    for (int64_t i = 1; i < n; i++)
        pthread_join(clients[i].thread, NULL);
    mine = ex_cpu_seconds() - cpu;
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    r->seconds = MPI_Wtime() - job->started;
    mine += server_cpu(job) - server;
    ex_check(MPI_Allreduce(&mine, &r->cpu_seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    pthread_barrier_destroy(&job->start);
}

/* ---- results ---- */

static void sum_over_ranks(const int64_t *mine, int64_t *all, int n)
{
    ex_check(MPI_Allreduce(mine, all, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
}

static void merge(struct tally *into, const struct tally *t)
{
    for (int i = 0; i < TX_MOST_KINDS; i++) {
        into->calls[i] += t->calls[i];
        into->in_vain[i] += t->in_vain[i];
    }
    for (int i = 0; i < TX_SUMS; i++)
        into->added[i] += t->added[i];
    into->again += t->again;
    into->wrong += t->wrong;
}

/* `mine`: what this rank loaded, and what its clients did; `found`: its part at the end. */
static void conclude(const struct tx_workload *w, const struct tally *mine,
                     const struct tally *found, struct result *r)
{
    int64_t wrong = mine->wrong + found->wrong;

    sum_over_ranks(mine->calls, r->all.calls, TX_MOST_KINDS);
    sum_over_ranks(mine->in_vain, r->all.in_vain, TX_MOST_KINDS);
    sum_over_ranks(mine->added, r->all.added, TX_SUMS);
    sum_over_ranks(found->added, r->found, TX_SUMS);
    sum_over_ranks(&mine->again, &r->all.again, 1);
    sum_over_ranks(&mine->undone, &r->all.undone, 1);
    sum_over_ranks(&wrong, &r->all.wrong, 1);
    r->right = r->all.wrong == 0;
    for (int i = 0; i < w->sums; i++)
        r->right &= r->found[i] == r->all.added[i];
    for (int i = 0; i < w->kinds; i++)
        r->calls += r->all.calls[i];
}

static int64_t undone_so_far(const struct job *job)
{
    return job->o->backend->undone == NULL ? 0 : job->o->backend->undone(job->store);
}

static void measure(struct job *job, struct client *clients, struct result *r)
{
    struct tally mine = { .again = 0 }, found = { .again = 0 };
    double start;

    ex_progress_init(&job->progress, job->o->progress);
    job->store = job->o->backend->open(job->o, job->w);
    job->session = job->o->backend->attach(job->store);
    start = MPI_Wtime();
    r->rows = (int64_t)each_row(job, "loading", false, load_rows, &mine);
    mine.again = 0;     /* conflicts of loading are not of interest */
    mine.undone = -undone_so_far(job);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    r->load_seconds = MPI_Wtime() - start;
    run_clients(job, clients, r);
    for (int64_t i = 0; i < job->o->clients; i++)
        merge(&mine, &clients[i].tally);
    mine.undone += undone_so_far(job);
    each_row(job, "checking", true, check_rows, &found);
    ex_progress_end(&job->progress);
    conclude(job->w, &mine, &found, r);
    job->o->backend->detach(job->session);
    job->o->backend->close(job->store);
}

static void print_json(const struct job *job, const struct result *r)
{
    const struct tx_options *o = job->o;

    printf("{\"example\": \"%s\", \"store\": \"%s\", \"ranks\": %d, \"clients\": %" PRId64
           ", \"%s\": %" PRId64 ", ", job->w->name, o->backend->name, ex_size(), o->clients,
           job->w->size_name, o->size);
    if (job->w->has_hot)
        printf("\"hot\": %" PRId64 ", ", o->hot);
    printf("\"load_seconds\": %.6f, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
           "\"transactions\": %" PRId64 ", \"again\": %" PRId64 ", \"undone\": %" PRId64
           ", \"rate\": %.1f, \"cpu_rate\": %.1f, \"kinds\": {", r->load_seconds, r->seconds,
           r->cpu_seconds, r->calls, r->all.again, r->all.undone, (double)r->calls / r->seconds,
           (double)r->calls / r->cpu_seconds);
    for (int i = 0; i < job->w->kinds; i++)
        printf("%s\"%s\": {\"made\": %" PRId64 ", \"in_vain\": %" PRId64 "}", i > 0 ? ", " : "",
               job->w->kind[i].name, r->all.calls[i], r->all.in_vain[i]);
    printf("}, \"sums\": {");
    for (int i = 0; i < job->w->sums; i++)
        printf("%s\"%s\": {\"found\": %" PRId64 ", \"expected\": %" PRId64 "}", i > 0 ? ", " : "",
               job->w->sum_name[i], r->found[i], r->all.added[i]);
    printf("}, \"wrong_rows\": %" PRId64 ", \"check\": \"%s\"}\n", r->all.wrong,
           r->right ? "passed" : "FAILED");
}

static void print_table(const struct job *job, const struct result *r)
{
    const struct tx_options *o = job->o;

    printf("%-22s %s\n", "store", o->backend->name);
    printf("%-22s %d, of %" PRId64 " client%s\n", "ranks", ex_size(), o->clients,
           o->clients > 1 ? "s" : "");
    printf("%-22s %" PRId64, job->w->size_name, o->size);
    if (job->w->has_hot)
        printf(", %" PRId64 " hot", o->hot);
    printf(": loaded in %.3f s\n", r->load_seconds);
    for (int i = 0; i < job->w->kinds; i++)
        printf("  %-20s %" PRId64 " (%" PRId64 " in vain)\n", job->w->kind[i].name,
               r->all.calls[i], r->all.in_vain[i]);
    printf("%-22s %" PRId64 " in %.3f s, CPU time %.3f s; begun again %" PRId64 " times, "
           "%" PRId64 " for another had undone it\n", "made",
           r->calls, r->seconds, r->cpu_seconds, r->all.again, r->all.undone);
    printf("%-22s %.0f per second, %.0f per second of CPU time\n", "rate",
           (double)r->calls / r->seconds, (double)r->calls / r->cpu_seconds);
    for (int i = 0; i < job->w->sums; i++)
        printf("sum of %-15s %" PRId64 ", expected %" PRId64 "\n", job->w->sum_name[i],
               r->found[i], r->all.added[i]);
    printf("%-22s %s\n", "check", r->right ? "passed" : "FAILED");
}

static void report(const struct job *job, const struct result *r)
{
    if (job->o->json)
        print_json(job, r);
    else
        print_table(job, r);
    if (r->all.wrong > 0)
        fprintf(stderr, "%s: %" PRId64 " times a row was not what it must be\n", job->w->name,
                r->all.wrong);
    for (int i = 0; i < job->w->sums; i++) {
        if (r->found[i] != r->all.added[i])
            fprintf(stderr, "%s: the sum of %s is %" PRId64 " instead of %" PRId64 "\n",
                    job->w->name, job->w->sum_name[i], r->found[i], r->all.added[i]);
    }
}

/* ---- the command line ---- */

static bool parse_backend(const char *text, struct tx_options *o)
{
    for (size_t i = 0; tx_backends[i] != NULL; i++) {
        if (strcmp(text, tx_backends[i]->name) == 0) {
            o->backend = tx_backends[i];
            return true;
        }
    }
    return false;
}

static bool parse_one(int c, void *options)
{
    struct tx_options *o = options;

    switch (c) {
    case 'a': return parse_backend(optarg, o);
    case 'n': return ex_number(optarg, 100, 100000000, &o->size);
    case 'H': return ex_number(optarg, 2, 100000000, &o->hot);
    case 'c': return ex_number(optarg, 1, TX_MOST_CLIENTS, &o->clients);
    case 's': return ex_real(optarg, 0.001, 1e6, &o->seconds);
    case 'o': return ex_number(optarg, 1, INT64_MAX / 2, &o->ops);
    case 'A': o->path = optarg; return true;
    case 'r': return ex_number(optarg, 0, INT32_MAX, &o->seed);
    case 'j': return o->json = true;
    case 'p': return o->progress = true;
    default: return false;
    }
}

static bool any_at_path(void)
{
    bool any = false;

    for (size_t i = 0; tx_backends[i] != NULL; i++)
        any |= tx_backends[i]->path != NULL;
    return any;
}

static void make_help(const struct tx_workload *w, const char *program, char *text, size_t room)
{
    const char *name = strrchr(program, '/');
    char size[32];
    size_t at;

    snprintf(size, sizeof(size), "%s N", w->size_name);
    at = (size_t)snprintf(text, room, help, name != NULL ? name + 1 : program, w->text,
                          tx_backends[0]->name, size, w->has_hot
                          ? "  --hot N          that nine of ten transactions use (a 25th)\n" : "",
                          any_at_path() ? "  --at PATH        where the store is\n" : "");
    for (size_t i = 0; tx_backends[i] != NULL; i++) {
        const struct tx_backend *b = tx_backends[i];

        if (b->only != NULL && strcmp(b->only, w->name) != 0)
            continue;
        at += (size_t)snprintf(text + at, room - at, "  %-15s  %s%s%s\n", b->name, b->text,
                               b->path != NULL ? "; --at: " : "", b->path != NULL ? b->path : "");
    }
    snprintf(text + at, room - at, "%s", help_end);
}

/* What is known only when all options are. */
static void complete_options(const char *program, const struct tx_workload *w,
                             struct tx_options *o)
{
    const struct tx_backend *b = o->backend;

    if (o->hot == 0)
        o->hot = o->size / 25;
    if (o->hot > o->size)
        ex_usage_error(program, "--hot is for %" PRId64 " of them at most", o->size);
    if (b->only != NULL && strcmp(b->only, w->name) != 0)
        ex_usage_error(program, "store %s is for %s alone", b->name, b->only);
    if (b->one_process && ex_size() > 1)
        ex_usage_error(program, "store %s is for the threads of one process", b->name);
    if (b->path != NULL && o->path == NULL)
        ex_usage_error(program, "store %s needs --at, %s", b->name, b->path);
}

static void parse(int argc, char **argv, const struct tx_workload *w, struct tx_options *o)
{
    /* Last what there is for some alone. */
    struct option names[] = {
        { "store", required_argument, NULL, 'a' },   { w->size_name, required_argument, NULL, 'n' },
        { "clients", required_argument, NULL, 'c' }, { "seconds", required_argument, NULL, 's' },
        { "ops", required_argument, NULL, 'o' },     { "seed", required_argument, NULL, 'r' },
        { "json", no_argument, NULL, 'j' },          { "progress", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
        { NULL, 0, NULL, 0 },                        { NULL, 0, NULL, 0 },
    };
    size_t last = sizeof(names) / sizeof(names[0]) - 3;
    char text[4096];

    if (w->has_hot)
        names[last++] = (struct option){ "hot", required_argument, NULL, 'H' };
    if (any_at_path())
        names[last++] = (struct option){ "at", required_argument, NULL, 'A' };
    *o = (struct tx_options){ .backend = tx_backends[0], .size = 100000, .clients = 1,
                              .seconds = 1, .seed = 1 };
    make_help(w, argv[0], text, sizeof(text));
    ex_only_options(argc, argv, names, text, parse_one, o);
    complete_options(argv[0], w, o);
}

int tx_example(int argc, char **argv, const struct tx_workload *w)
{
    static struct client clients[TX_MOST_CLIENTS];
    struct result r = { .right = false };
    struct job job = { .w = w };
    struct tx_options o;

    /* Whoever waits lets MPI make progress, so any thread may call it. */
    ex_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    parse(argc, argv, w, &o);
    job.o = &o;
    for (int kind = 0, at = 0; kind < w->kinds; kind++) {
        for (int i = 0; i < w->kind[kind].percent; i++)
            job.kind[at++] = kind;
    }
    measure(&job, clients, &r);
    if (ex_rank() == 0)
        report(&job, &r);
    return ex_finish(r.right ? 0 : EX_WRONG);
}

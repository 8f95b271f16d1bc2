/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line, clients and results of tpcc; tpcc.h says what it is. */
#include "tpcc.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

static const char help[] =
    "Usage: mpirun -np N tpcc [OPTION]...\n"
    "Transactions of a wholesaler: NewOrder and Payment of TPC-C, on tables that are trees in a\n"
    "store over all ranks. Each client has a warehouse of its own, as far as there are so many;\n"
    "1 % of its order lines come from another one, and 15 % of its payments are for another one's\n"
    "customer. 1 % of the NewOrders are rolled back. There is no keying and no thinking time, so\n"
    "rates are not results of the benchmark TPC-C.\n"
    "\n"
    "  --warehouses N   (as many as ranks)\n"
    "  --clients N      threads of each rank, 1 to 64 (1)\n"
    "  --seconds S      run so long (5)\n"
    "  --ops N          or: this many transactions of each client\n"
    "  --payment P      percent of the transactions that are Payment, not NewOrder (49)\n"
    "  --items N        in each warehouse's stock, 100 to 100k (100k, as the standard has it)\n"
    "  --customers N    of each of ten districts, 30 to 30k (3000, as the standard has it)\n"
    "  --memory MIB     of the tables, at each rank (by warehouses, and seconds as far as 1 GiB\n"
    "                   is enough); clients end early where orders fill it\n"
    "  --seed N         of the random numbers (1)\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "At the end all ranks look at all rows: the standard's twelve conditions of consistency must\n"
    "hold, and orders, stock and payments be what the clients have done.\n"
    "A process that dies leaves no transaction half done and no lock: see loco_tx(3). But mpirun\n"
    "then ends the other ranks.\n"
    "Exit status: 0, 1 if a condition does not hold or a call failed, 2 on wrong use.\n";

enum { CALLS_PER_LOOK = 16, MIB_MAX = 1 << 18 };

#define GROWTH_MAX (UINT64_C(1) << 30)  /* bytes; more is for who asks for it */

struct job {
    const struct tpcc_options *o;
    struct tpcc t;
    pthread_barrier_t start;
    double started;
    struct ex_progress progress;
};

struct client {
    pthread_t thread;
    struct job *job;
    int64_t number;             /* on this rank */
    struct tpcc_client c;
};

struct result {
    double load_seconds, seconds, cpu_seconds, check_seconds;
    struct tpcc_tally all;
    struct tpcc_found found;
    int64_t wrong;
};

/* ---- clients ---- */

static bool time_is_up(struct client *c, int64_t made)
{
    double passed = MPI_Wtime() - c->job->started;

    if (c->number == 0)
        ex_progress_say(&c->job->progress, "%.1f s, %" PRId64 " transactions by this client",
                        passed, made);
    return c->job->o->ops == 0 && passed >= c->job->o->seconds;
}

static void transact_all(struct client *c)
{
    const struct tpcc_options *o = c->job->o;

    for (int64_t made = 0; o->ops == 0 || made < o->ops; made++) {
        enum tpcc_kind kind = (int64_t)tpcc_between(&c->c, 0, 99) < o->payment ? PAYMENT_TX
                                                                               : NEW_ORDER_TX;

        if (made % CALLS_PER_LOOK == 0 && time_is_up(c, made))
            break;
        if (!tpcc_transact(&c->c, kind))
            break;
    }
}

/* A handle is of one thread, so each opens its own. */
static void *client(void *arg)
{
    struct client *c = arg;
    uint32_t number = 1 + (uint32_t)(ex_rank() * c->job->o->clients + c->number);

    tpcc_open_client(&c->c, &c->job->t, number);
    pthread_barrier_wait(&c->job->start);
    transact_all(c);
    tpcc_close_client(&c->c);
    return NULL;
}

/* The calling thread is client 0. */
static void run_clients(struct job *job, struct client *clients, struct result *r)
{
    int64_t n = job->o->clients;
    double cpu, mine;

    pthread_barrier_init(&job->start, NULL, (unsigned)n);
    for (int64_t i = 0; i < n; i++) {
        clients[i] = (struct client){ .job = job, .number = i };
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
    ex_check(MPI_Allreduce(&mine, &r->cpu_seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    pthread_barrier_destroy(&job->start);
}

static void add_up(struct client *clients, int64_t n, struct tpcc_tally *all)
{
    enum { NUMBERS = sizeof(*all) / sizeof(int64_t) };
    int64_t *sum = (int64_t *)all;

    memset(all, 0, sizeof(*all));
    for (int64_t i = 0; i < n; i++) {
        for (int j = 0; j < NUMBERS; j++)
            sum[j] += ((int64_t *)&clients[i].c.tally)[j];
    }
    ex_check(MPI_Allreduce(MPI_IN_PLACE, sum, NUMBERS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
}

/* ---- the store ---- */

/* A row takes its size and about half as much again; what is entered while it runs comes on top. */
static uint64_t memory_for(const struct tpcc_options *o)
{
    uint64_t of_one = (uint64_t)o->items * 600
                      + (uint64_t)o->customers * DISTRICTS * (1400 + 20 * 100);
    uint64_t ops = o->ops > 0 ? (uint64_t)o->ops : (uint64_t)(o->seconds * 40000);
    uint64_t growth = (uint64_t)o->clients * ops * 2000;
    uint64_t own = ((uint64_t)o->warehouses + (uint64_t)ex_size() - 1) / (uint64_t)ex_size();

    if (o->memory > 0)
        return (uint64_t)o->memory << 20;
    return (UINT64_C(64) << 20) + own * of_one + (uint64_t)o->items * 250
           + (growth < GROWTH_MAX ? growth : GROWTH_MAX);
}

static void open_tables(struct tpcc *t, const struct tpcc_options *o)
{
    loco_store_options_t options = { .roots = TABLES, .threads = (int)o->clients + 1 };

    t->o = o;
    t->memory = memory_for(o);
    options.bytes = t->memory;
    options.objects = t->memory / 256;
    tpcc_check(t, loco_runtime_open_mpi(MPI_COMM_WORLD, &t->rt), "loco_runtime_open_mpi");
    tpcc_check(t, loco_store_create(t->rt, "tpcc", "store", loco_everyone(t->rt), &options,
                                    &t->store), "loco_store_create (less: --memory MIB)");
    tpcc_check(t, loco_runtime_wait_ready(t->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
}

static void close_tables(struct tpcc *t)
{
    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_store_destroy(t->store);
    loco_runtime_close_mpi(t->rt);
}

static void measure(struct job *job, struct client *clients, struct result *r)
{
    struct tpcc_client *main_client = calloc(1, sizeof(*main_client));
    double start = MPI_Wtime();

    if (main_client == NULL)
        ex_abort("no memory for a client");
    ex_progress_init(&job->progress, job->o->progress);
    tpcc_open_client(main_client, &job->t, 0);
    main_client->random ^= tx_mix((uint64_t)ex_rank()) << 1;
    tpcc_load(main_client, &job->progress);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    r->load_seconds = MPI_Wtime() - start;
    run_clients(job, clients, r);
    add_up(clients, job->o->clients, &r->all);
    start = MPI_Wtime();
    ex_progress_say(&job->progress, "checking");
    tpcc_look(main_client, &r->all, &r->found);
    r->check_seconds = MPI_Wtime() - start;
    ex_progress_end(&job->progress);
    r->wrong = r->all.wrong;
    for (int i = 0; i <= CONDITIONS; i++)
        r->wrong += r->found.wrong[i];
    tpcc_close_client(main_client);
    free(main_client);
}

/* ---- results ---- */

static void print_table(const struct job *job, const struct result *r)
{
    const struct tpcc_options *o = job->o;
    const struct tpcc_tally *a = &r->all;
    int64_t made = a->made[NEW_ORDER_TX] + a->made[PAYMENT_TX];

    printf("%-16s %d, of %" PRId64 " client%s, %" PRIu64 " MiB for tables each\n", "ranks",
           ex_size(), o->clients, o->clients > 1 ? "s" : "", job->t.memory >> 20);
    printf("%-16s %" PRId64 " of %" PRId64 " items and %d times %" PRId64
           " customers: loaded in %.3f s\n", "warehouses", o->warehouses, o->items, DISTRICTS,
           o->customers, r->load_seconds);
    printf("%-16s %" PRId64 ", %" PRId64 " rolled back; %" PRId64 " of %" PRId64
           " lines remote\n", "new orders", a->made[NEW_ORDER_TX], a->rolled_back,
           a->remote_lines, a->lines);
    printf("%-16s %" PRId64 ", %" PRId64 " by name; %" PRId64 " remote\n", "payments",
           a->made[PAYMENT_TX], a->by_name, a->remote_payments);
    printf("%-16s %" PRId64 " in %.3f s, CPU time %.3f s; begun again %" PRId64 " times\n", "made",
           made, r->seconds, r->cpu_seconds, a->again);
    printf("%-16s %.0f per second, of which %.0f new orders; %.0f per second of CPU time\n",
           "rate", (double)made / r->seconds, (double)a->made[NEW_ORDER_TX] / r->seconds,
           (double)made / r->cpu_seconds);
    for (int i = 0; i <= CONDITIONS; i++) {
        if (r->found.wrong[i] > 0)
            printf("condition %-6d does not hold, %" PRId64 " times\n", i, r->found.wrong[i]);
    }
    printf("%-16s %s (%.3f s)\n", "check", r->wrong == 0 ? "passed" : "FAILED",
           r->check_seconds);
}

static void print_json(const struct job *job, const struct result *r)
{
    const struct tpcc_options *o = job->o;
    const struct tpcc_tally *a = &r->all;
    int64_t made = a->made[NEW_ORDER_TX] + a->made[PAYMENT_TX];

    printf("{\"example\": \"tpcc\", \"ranks\": %d, \"clients\": %" PRId64 ", \"warehouses\": %"
           PRId64 ", \"items\": %" PRId64 ", \"customers\": %" PRId64 ", \"load_seconds\": %.6f, "
           "\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"check_seconds\": %.6f, ", ex_size(),
           o->clients, o->warehouses, o->items, o->customers, r->load_seconds, r->seconds,
           r->cpu_seconds, r->check_seconds);
    printf("\"transactions\": %" PRId64 ", \"new_orders\": %" PRId64 ", \"rolled_back\": %" PRId64
           ", \"payments\": %" PRId64 ", \"by_name\": %" PRId64 ", \"lines\": %" PRId64
           ", \"remote_lines\": %" PRId64 ", \"remote_payments\": %" PRId64 ", ", made,
           a->made[NEW_ORDER_TX], a->rolled_back, a->made[PAYMENT_TX], a->by_name, a->lines,
           a->remote_lines, a->remote_payments);
    printf("\"again\": %" PRId64 ", \"full\": %" PRId64 ", \"rate\": %.1f, "
           "\"new_order_rate\": %.1f, \"conditions_wrong\": [", a->again, a->full,
           (double)made / r->seconds, (double)a->made[NEW_ORDER_TX] / r->seconds);
    for (int i = 0; i <= CONDITIONS; i++)
        printf("%s%" PRId64, i > 0 ? ", " : "", r->found.wrong[i]);
    printf("], \"wrong\": %" PRId64 ", \"check\": \"%s\"}\n", r->wrong,
           r->wrong == 0 ? "passed" : "FAILED");
}

static void report(const struct job *job, const struct result *r)
{
    (job->o->json ? print_json : print_table)(job, r);
    if (r->all.wrong > 0)
        fprintf(stderr, "tpcc: %" PRId64 " transactions missed a row\n", r->all.wrong);
    if (r->all.full > 0)
        fprintf(stderr, "tpcc: %" PRId64 " clients ended early, for the tables had grown to the "
                "memory that they have: more is --memory MIB (now %" PRIu64 ")\n", r->all.full,
                job->t.memory >> 20);
}

/* ---- the command line ---- */

static bool parse_one(int c, void *options)
{
    struct tpcc_options *o = options;

    switch (c) {
    case 'w': return ex_number(optarg, 1, WAREHOUSES_MOST, &o->warehouses);
    case 'c': return ex_number(optarg, 1, CLIENTS_MOST, &o->clients);
    case 's': return ex_real(optarg, 0.001, 1e6, &o->seconds);
    case 'o': return ex_number(optarg, 1, INT32_MAX, &o->ops);
    case 'P': return ex_number(optarg, 0, 100, &o->payment);
    case 'i': return ex_number(optarg, 100, ITEMS, &o->items);
    case 'C': return ex_number(optarg, 30, 10 * CUSTOMERS, &o->customers);
    case 'm': return ex_number(optarg, 1, MIB_MAX, &o->memory);
    case 'r': return ex_number(optarg, 0, INT32_MAX, &o->seed);
    case 'j': return o->json = true;
    case 'p': return o->progress = true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct tpcc_options *o)
{
    static const struct option names[] = {
        { "warehouses", required_argument, NULL, 'w' }, { "clients", required_argument, NULL, 'c' },
        { "seconds", required_argument, NULL, 's' },    { "ops", required_argument, NULL, 'o' },
        { "payment", required_argument, NULL, 'P' },    { "items", required_argument, NULL, 'i' },
        { "customers", required_argument, NULL, 'C' },  { "memory", required_argument, NULL, 'm' },
        { "seed", required_argument, NULL, 'r' },       { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },         { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    *o = (struct tpcc_options){ .warehouses = ex_size(), .items = ITEMS, .customers = CUSTOMERS,
                                .clients = 1, .seconds = 5, .payment = 49, .seed = 1 };
    ex_only_options(argc, argv, names, help, parse_one, o);
}

int main(int argc, char **argv)
{
    struct client *clients = calloc(CLIENTS_MOST, sizeof(*clients));
    struct result r = { .wrong = 0 };
    struct tpcc_options o;
    struct job job = { .o = &o };

    /* Whoever waits lets MPI make progress, so any thread may call it. */
    ex_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    parse(argc, argv, &o);
    if (clients == NULL)
        ex_abort("no memory for clients");
    open_tables(&job.t, &o);
    measure(&job, clients, &r);
    if (ex_rank() == 0)
        report(&job, &r);
    close_tables(&job.t);
    free(clients);
    return ex_finish(r.wrong == 0 ? 0 : EX_WRONG);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bank whose accounts are spread over all ranks, after section 7.1 of the LOCO paper.
 * Transactions run on every rank and thread at once: each takes the locks of one or two random
 * accounts, in ascending order so that nobody waits in a circle, and changes their balances. At the
 * end the sum of all accounts must be exactly what was there at the beginning plus what was paid
 * in.
 *
 * The accounts and locks are MPI windows (bank_mpi.c) or LOCO channels (bank_loco.c). Or the
 * accounts are objects of a LOCO store, which makes each transaction atomic, without locks
 * (bank_tx.c).
 */
#include "bank.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N bank [OPTION]...\n"
    "Transactions on bank accounts that are spread over all ranks.\n"
    "\n"
    "  --api mpi|loco|tx  MPI windows and their locks, LOCO channels, or objects of a LOCO\n"
    "                   store and its transactions (mpi)\n"
    "  --held-in array|kvstore  loco: atomic variables, or a key-value store (array)\n"
    "  --txn single|transfer  pay into one account, or move money between two (transfer)\n"
    "  --accounts N     accounts over all ranks, up to 1000m (1m)\n"
    "  --windows W      mpi: windows; loco: ticket locks (341)\n"
    "  --seconds S      run so long (1)\n"
    "  --ops N          or: this many transactions per thread\n"
    "  --threads T      threads per rank, 1 to 256 (1)\n"
    "  --flavor " EX_FLAVORS "  mpi: kind of window (allocate)\n"
    "  --seed N         of the random numbers (1)\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0, 1 if money is lost or made or a call failed, 2 on wrong use.\n";

enum { MOST_WINDOWS = 100000, MOST_AMOUNT = 100, OPS_PER_LOOK = 16 };

struct worker {
    pthread_t thread;
    const struct bank_options *o;
    void *bank;
    struct ex_progress *progress; /* NULL for all but one */
    uint64_t random;
    void *session;                /* NULL where the variant has none */
    double start;
    int64_t ops;
    int64_t declined;             /* transfers that the account did not have the money for */
    int64_t paid_in;
};

struct result {
    double open_seconds;
    double seconds;
    double cpu_seconds;
    int64_t ops;
    int64_t declined;
    int64_t paid_in;
    int64_t sum;
    int64_t expected;
    int64_t least;
};

static bool parse_api(const char *text, struct bank_options *o)
{
    o->api = strcmp(text, "loco") == 0 ? &bank_loco : strcmp(text, "tx") == 0 ? &bank_tx
           : &bank_mpi;
    return strcmp(text, o->api->name) == 0;
}

static bool parse_txn(const char *text, struct bank_options *o)
{
    o->transfer = strcmp(text, "transfer") == 0;
    return o->transfer || strcmp(text, "single") == 0;
}

static bool parse_held(const char *text, struct bank_options *o)
{
    o->in_store = strcmp(text, "kvstore") == 0;
    return o->in_store || strcmp(text, "array") == 0;
}

static bool parse_one(int c, void *options)
{
    struct bank_options *o = options;

    switch (c) {
    case 'a': return parse_api(optarg, o);
    case 'k': return parse_held(optarg, o);
    case 't': return parse_txn(optarg, o);
    case 'n': return ex_number(optarg, 1, 1000000000, &o->accounts);
    case 'w': return ex_number(optarg, 1, MOST_WINDOWS, &o->stripes);
    case 's': return ex_real(optarg, 0.001, 1e6, &o->seconds);
    case 'o': return ex_number(optarg, 1, INT64_MAX / 2, &o->ops);
    case 'T': return ex_number(optarg, 1, BANK_MOST_THREADS, &o->threads);
    case 'f': return ex_flavor_parse(optarg, &o->flavor);
    case 'r': return ex_number(optarg, 0, INT64_MAX, &o->seed);
    case 'j': return o->json = true;
    default: return o->progress = true;
    }
}

static void parse(int argc, char **argv, struct bank_options *o)
{
    static const struct option names[] = {
        { "api", required_argument, NULL, 'a' },     { "txn", required_argument, NULL, 't' },
        { "held-in", required_argument, NULL, 'k' },
        { "accounts", required_argument, NULL, 'n' }, { "windows", required_argument, NULL, 'w' },
        { "seconds", required_argument, NULL, 's' }, { "ops", required_argument, NULL, 'o' },
        { "threads", required_argument, NULL, 'T' }, { "flavor", required_argument, NULL, 'f' },
        { "seed", required_argument, NULL, 'r' },    { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },      { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    *o = (struct bank_options){ .api = &bank_mpi, .accounts = 1000000, .stripes = 341,
                                .threads = 1, .seconds = 1, .seed = 1, .transfer = true };
    ex_only_options(argc, argv, names, help, parse_one, o);
    if (o->in_store && o->api != &bank_loco)
        ex_usage_error(argv[0], "--held-in kvstore goes with --api loco");
    if (o->transfer && o->accounts < 2)
        ex_usage_error(argv[0], "a transfer needs two accounts");
}

/* xorshift64*, and its high half times the range. */
static int64_t random_below(struct worker *w, int64_t range)
{
    uint64_t x = w->random;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    w->random = x;
    x = (x * UINT64_C(0x2545f4914f6cdd1d)) >> 32;
    return (int64_t)((x * (uint64_t)range) >> 32);
}

static void single(struct worker *w)
{
    const struct bank_api *api = w->o->api;
    int64_t account = random_below(w, w->o->accounts), amount = 1 + random_below(w, MOST_AMOUNT);
    int64_t lock, balance;

    w->paid_in += amount;
    if (w->session != NULL) {
        api->deposit(w->session, account, amount);
        return;
    }
    lock = api->lock_of(w->bank, account);
    api->lock(w->bank, lock);
    balance = api->read(w->bank, account) + amount;
    api->write(w->bank, account, &balance);
    api->unlock(w->bank, lock);
}

struct account {
    int64_t number;
    int64_t lock;
    int64_t balance;
};

static void read_balance(struct worker *w, struct account *a)
{
    a->balance = w->o->api->read(w->bank, a->number);
}

/* Takes the locks in ascending order, each held before the next is asked for, and reads. */
static void hold(struct worker *w, struct account *low, struct account *high)
{
    const struct bank_api *api = w->o->api;

    api->lock(w->bank, low->lock);
    if (api->lock_is_lazy)
        read_balance(w, low);
    if (high->lock != low->lock)
        api->lock(w->bank, high->lock);
    if (!api->lock_is_lazy)
        read_balance(w, low);
    read_balance(w, high);
}

/* False: there is not enough money in `from`. */
static bool transfer_under_locks(struct worker *w, struct account from, struct account to,
                                 int64_t amount)
{
    const struct bank_api *api = w->o->api;
    bool enough;

    from.lock = api->lock_of(w->bank, from.number);
    to.lock = api->lock_of(w->bank, to.number);
    if (from.lock <= to.lock)
        hold(w, &from, &to);
    else
        hold(w, &to, &from);

    enough = from.balance >= amount;
    if (enough) {
        from.balance -= amount;
        to.balance += amount;
        api->write(w->bank, from.number, &from.balance);
        api->write(w->bank, to.number, &to.balance);
    }
    if (to.lock != from.lock)
        api->unlock(w->bank, to.lock);
    api->unlock(w->bank, from.lock);
    return enough;
}

static void transfer(struct worker *w)
{
    int64_t amount = 1 + random_below(w, MOST_AMOUNT);
    struct account from = { .number = random_below(w, w->o->accounts) };
    struct account to = { .number = random_below(w, w->o->accounts - 1) };
    bool made;

    to.number += to.number >= from.number;
    if (w->session != NULL)
        made = w->o->api->transfer(w->session, from.number, to.number, amount);
    else
        made = transfer_under_locks(w, from, to, amount);
    w->declined += !made;
}

static bool time_is_up(struct worker *w)
{
    double passed = MPI_Wtime() - w->start;

    if (w->progress != NULL)
        ex_progress_say(w->progress, "%.1f s, %.2f million transactions by this thread", passed,
                        (double)w->ops / 1e6);
    return w->o->ops == 0 && passed >= w->o->seconds;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    if (w->o->api->attach != NULL)
        w->session = w->o->api->attach(w->bank);
    while (w->o->ops == 0 || w->ops < w->o->ops) {
        if (w->ops % OPS_PER_LOOK == 0 && time_is_up(w))
            break;
        if (w->o->transfer)
            transfer(w);
        else
            single(w);
        w->ops++;
    }
    if (w->session != NULL)
        w->o->api->detach(w->session);
    return NULL;
}

/* The calling thread is worker 0. */
static void run(const struct bank_options *o, void *bank, struct worker *workers,
                struct result *r)
{
    struct ex_progress progress;
    double start, cpu;

    ex_progress_init(&progress, o->progress);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    start = MPI_Wtime();
    cpu = ex_cpu_seconds();
    for (int64_t i = 0; i < o->threads; i++) {
        int64_t number = ex_rank() * o->threads + i;

        workers[i] = (struct worker){ .o = o, .bank = bank, .start = start };
        workers[i].progress = number == 0 ? &progress : NULL;
        workers[i].random = ((uint64_t)o->seed * 1000003 + (uint64_t)number + 1) *
                            UINT64_C(0x9e3779b97f4a7c15) | 1;
    }
    for (int64_t i = 1; i < o->threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            ex_abort("cannot start thread %" PRId64, i);
    }
    work(&workers[0]);
    for (int64_t i = 1; i < o->threads; i++)
        pthread_join(workers[i].thread, NULL);
    cpu = ex_cpu_seconds() - cpu;
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    ex_progress_end(&progress);
    r->seconds = MPI_Wtime() - start;
    ex_check(MPI_Allreduce(&cpu, &r->cpu_seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
}

static void add_up(const struct bank_options *o, void *bank, const struct worker *workers,
                   struct result *r)
{
    int64_t mine[4] = { 0 }, all[4], least;

    for (int64_t i = 0; i < o->threads; i++) {
        mine[0] += workers[i].ops;
        mine[1] += workers[i].declined;
        mine[2] += workers[i].paid_in;
    }
    o->api->look(bank, &mine[3], &least);
    ex_check(MPI_Allreduce(mine, all, 4, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    ex_check(MPI_Allreduce(&least, &r->least, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD),
             "MPI_Allreduce");
    r->ops = all[0];
    r->declined = all[1];
    r->paid_in = all[2];
    r->sum = all[3];
    r->expected = o->accounts * BANK_START + r->paid_in;
}

static void report(const struct bank_options *o, const struct result *r, bool good)
{
    const char *txn = o->transfer ? "transfer" : "single";
    const char *check = good ? "passed" : "FAILED";
    const char *held = o->api == &bank_tx ? "store" : o->in_store ? "kvstore" : "array";
    bool mpi = o->api == &bank_mpi;
    double rate = (double)r->ops / r->seconds;

    if (o->json) {
        printf("{\"example\": \"bank\", \"api\": \"%s\", \"held_in\": \"%s\", \"txn\": \"%s\", "
               "\"ranks\": %d, \"threads\": %" PRId64 ", \"flavor\": \"%s\", \"accounts\": %" PRId64
               ", \"windows\": %" PRId64 ", \"open_seconds\": %.6f, \"seconds\": %.6f, "
               "\"transactions\": %" PRId64 ", \"declined\": %" PRId64 ", \"rate\": %.1f, "
               "\"cpu_rate\": %.1f, \"sum\": %" PRId64 ", \"expected\": %" PRId64
               ", \"check\": \"%s\"}\n",
               o->api->name, mpi ? "windows" : held, txn, ex_size(), o->threads,
               mpi ? ex_flavor_name(o->flavor) : "none",
               o->accounts, o->stripes, r->open_seconds, r->seconds, r->ops, r->declined, rate,
               (double)r->ops / r->cpu_seconds, r->sum, r->expected, check);
        return;
    }
    printf("%-14s %s, %s %s\n", "api", o->api->name, mpi ? "windows of flavor" : "accounts in",
           mpi ? ex_flavor_name(o->flavor) : held);
    printf("%-14s %s\n", "transactions", txn);
    printf("%-14s %d, of %" PRId64 " thread%s\n", "ranks", ex_size(), o->threads,
           o->threads > 1 ? "s" : "");
    printf("%-14s %" PRId64 "\n", "accounts", o->accounts);
    if (o->api != &bank_tx)
        printf("%-14s %" PRId64 "\n", mpi ? "windows" : "locks", o->stripes);
    printf("%-14s %.3f s\n", "set up in", r->open_seconds);
    printf("%-14s %" PRId64 " in %.3f s (%" PRId64 " declined)\n", "made", r->ops, r->seconds,
           r->declined);
    printf("%-14s %.0f per second, %.0f per second of CPU time\n", "rate", rate,
           (double)r->ops / r->cpu_seconds);
    printf("%-14s %" PRId64 ", expected %" PRId64 ": %s\n", "sum", r->sum, r->expected, check);
}

/* Threads cost MPI something, so it is asked for them only where they are wanted.
 * Wrong options are found later, when there is a rank 0 to say so. */
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
    struct bank_options o;
    struct worker *workers;
    struct result r;
    void *bank;
    double start;
    bool good;
    int level;

    MPI_Init_thread(&argc, &argv, level_needed(argc, argv), &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    parse(argc, argv, &o);
    if (o.threads > 1 && level < MPI_THREAD_MULTIPLE)
        ex_usage_error(argv[0], "this MPI does not offer MPI_THREAD_MULTIPLE");
    workers = calloc((size_t)o.threads, sizeof(*workers));
    if (workers == NULL)
        ex_abort("no memory for %" PRId64 " threads", o.threads);

    start = MPI_Wtime();
    bank = o.api->open(&o);
    r.open_seconds = MPI_Wtime() - start;
    run(&o, bank, workers, &r);
    add_up(&o, bank, workers, &r);
    good = r.sum == r.expected && r.least >= 0;
    if (ex_rank() == 0) {
        report(&o, &r, good);
        if (!good)
            fprintf(stderr, "bank: the sum of all accounts is %" PRId64 " instead of %" PRId64
                    ", the least balance %" PRId64 "\n", r.sum, r.expected, r.least);
    }
    o.api->close(bank);
    free(workers);
    return ex_finish(good ? 0 : EX_WRONG);
}

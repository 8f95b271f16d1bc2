/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bank's journal that all ranks keep: some of them send transfers between accounts, all get all
 * of them in one order by an atomic multicast, and each applies them to its own copy of the
 * accounts. A transfer is refused where the account has not enough, so the copies stay the same
 * only if the order does.
 *
 * A rank learns from the journal itself that it has ended: each sender's last entry says so. So
 * nobody waits in MPI, which does not notice a death, while entries are under way.
 */
#include "common.h"
#include "log_copy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>
#include <loco/mpi.h>

static const char help[] =
    "Usage: mpirun -np N replicated_log [OPTION]...\n"
    "Transfers between accounts, of which each rank has a copy: a journal of one order.\n"
    "\n"
    "  --accounts N     up to 100m; every rank has all of them (1000)\n"
    "  --senders N|all  ranks 0 to N-1 send transfers (all)\n"
    "  --message-bytes N  size of an entry of the journal, 24 to 64k (64)\n"
    "  --slots N        entries of a sender that may be under way (100)\n"
    "  --seconds S      send so long (1)\n"
    "  --ops N          or: this many transfers per sender\n"
    "  --singles N      then rank 0 sends so many, one at a time, for the latency (1000)\n"
    "  --seed N         of the random numbers (1)\n"
    "  --spoil order|lost|amount  the last rank swaps two entries, leaves one out, or pays in\n"
    "                   too much: the check has to notice\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "When a rank dies while entries are sent, the journal ends. Each survivor that its launcher\n"
    "lets live says how many entries it has applied, and how far it knows the others to be, and\n"
    "exits with 1. Copies are then beginnings of one journal, but not of the same length.\n"
    "\n"
    "Exit status: 0, 1 if the copies differ or a call failed, 2 on wrong use.\n";

enum { MOST_AMOUNT = 100, OPS_PER_LOOK = 16, LEAST_BYTES = 24, MOST_BYTES = 65536 };

struct options {
    int64_t accounts;
    int64_t senders;            /* 0: all */
    int64_t bytes;
    int64_t slots;
    double seconds;
    int64_t ops;                /* 0: as long as `seconds` */
    int64_t singles;
    int64_t seed;
    enum log_spoil spoil;
    bool json;
    bool progress;
};

struct job {
    const struct options *o;
    loco_runtime_t *rt;
    loco_multicast_t *journal;
    struct log_copy copy;
    unsigned char *message;
    uint64_t random;
    uint64_t sent;
    uint64_t number;            /* of the last message */
    int senders;
};

struct result {
    double seconds;
    uint64_t entries;           /* that were sent by all */
    uint64_t refused;
    int64_t sum;
    int64_t expected;
    int64_t median;             /* ns; 0 where there were no singles */
    int64_t p99;
    int wrong;                  /* ranks whose copy is not rank 0's, or not what was sent */
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* ---- sending ---- */

/* The journal has ended: say what this rank has, and leave. */
static _Noreturn void journal_ended(struct job *j, int status)
{
    uint64_t applied, below;
    char others[512] = "";
    size_t used = 0;

    /* After the handler's last call the copy stays as it is. */
    while (status == LOCO_ERR_PEER_DEAD && !atomic_load(&j->copy.died))
        usleep(100);
    applied = atomic_load(&j->copy.applied);
    for (int i = 0; i < ex_size() && used < sizeof(others) - 64; i++) {
        if (loco_multicast_delivered_by(j->journal, i, 0, &below) == LOCO_OK)
            used += (size_t)snprintf(others + used, sizeof(others) - used, "%s %d: %" PRIu64,
                                     i > 0 ? "," : "", i, below);
    }
    fprintf(stderr, "rank %d: the journal has ended: %s; applied %" PRIu64 " entries, sent %"
            PRIu64 "; delivered by rank, all below:%s\n"
            "rank %d: hash of the first %" PRIu64 ": %016" PRIx64 ", of %" PRIu64 " before: %016"
            PRIx64 "\n", ex_rank(), loco_strerror(status), applied, j->sent, others, ex_rank(),
            applied / LOG_MARK * LOG_MARK, j->copy.mark[0], (uint64_t)LOG_MARK, j->copy.mark[1]);
    fflush(stderr);
    loco_multicast_destroy(j->journal);
    loco_runtime_close_mpi(j->rt);
    _exit(EX_WRONG);
}

static void post(struct job *j, struct log_entry e)
{
    int status;

    e.serial = j->sent++;
    memcpy(j->message, &e, sizeof(e));
    status = loco_multicast_post(j->journal, j->message, (size_t)j->o->bytes, &j->number);
    if (status != LOCO_OK)
        journal_ended(j, status);
}

static void post_transfer(struct job *j)
{
    struct log_entry e = { .amount = 1 + ex_random_below(&j->random, MOST_AMOUNT) };

    e.from = ex_random_below(&j->random, j->o->accounts);
    e.to = ex_random_below(&j->random, j->o->accounts - 1);
    e.to += e.to >= e.from;
    post(j, e);
}

static void post_end(struct job *j)
{
    post(j, (struct log_entry){ .amount = 0 });
}

static void say(struct job *j, struct ex_progress *progress, int64_t start)
{
    ex_progress_say(progress, "%.1f s, %.2f million entries applied",
                    (double)(ex_now() - start) / 1e9, (double)atomic_load(&j->copy.applied) / 1e6);
}

static void send_transfers(struct job *j, struct ex_progress *progress, int64_t start)
{
    const struct options *o = j->o;

    for (int64_t i = 0; o->ops == 0 || i < o->ops; i++) {
        if (i % OPS_PER_LOOK == 0) {
            say(j, progress, start);
            if (o->ops == 0 && (double)(ex_now() - start) / 1e9 >= o->seconds)
                break;
        }
        post_transfer(j);
    }
    post_end(j);
}

/* Until so many senders have said that they have ended. */
static void await_ends(struct job *j, int ends, struct ex_progress *progress, int64_t start)
{
    while (atomic_load(&j->copy.ends) < ends) {
        if (atomic_load(&j->copy.died))
            journal_ended(j, LOCO_ERR_PEER_DEAD);
        say(j, progress, start);
        usleep(100);
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* One entry at a time, until all have delivered it. */
static void send_singles(struct job *j, struct result *r)
{
    int64_t n = j->o->singles;
    int64_t *took = ex_memory((size_t)n + 1, sizeof(*took));

    for (int64_t i = 0; i < n; i++) {
        int64_t start = ex_now();
        int status;

        post_transfer(j);
        status = loco_multicast_wait_delivered(j->journal, j->number);
        if (status != LOCO_OK)
            journal_ended(j, status);
        took[i] = ex_now() - start;
    }
    post_end(j);
    qsort(took, (size_t)n, sizeof(*took), by_size);
    r->median = n > 0 ? took[n / 2] : 0;
    r->p99 = n > 0 ? took[n * 99 / 100] : 0;
    free(took);
}

static void run(struct job *j, struct result *r)
{
    struct ex_progress progress;
    double mine;
    int64_t start;

    ex_progress_init(&progress, j->o->progress);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    start = ex_now();
    if (ex_rank() < j->senders)
        send_transfers(j, &progress, start);
    await_ends(j, j->senders, &progress, start);
    mine = (double)(ex_now() - start) / 1e9;
    if (ex_rank() == 0)
        send_singles(j, r);
    await_ends(j, j->senders + 1, &progress, start);
    if (j->sent > 0) {
        int status = loco_multicast_wait_delivered(j->journal, j->number);

        if (status != LOCO_OK)
            journal_ended(j, status);
    }
    ex_progress_end(&progress);
    ex_check(MPI_Allreduce(&mine, &r->seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
             "MPI_Allreduce");
}

/* ---- comparing ---- */

/* Nothing is under way any more: what each rank has must be what rank 0 has, and what was sent. */
static void compare(struct job *j, struct result *r)
{
    struct log_copy *c = &j->copy;
    int64_t accounts = j->o->accounts, least = 0;
    uint64_t mine[4] = { atomic_load(&c->applied), c->refused, c->hash, 0 }, first[4];
    int wrong;

    ex_check(MPI_Allreduce(&j->sent, &r->entries, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    r->sum = 0;
    for (int64_t i = 0; i < accounts; i++) {
        r->sum += c->balance[i];
        least = c->balance[i] < least ? c->balance[i] : least;
    }
    mine[3] = ex_hash(0, c->balance, (size_t)accounts * sizeof(*c->balance));
    memcpy(first, mine, sizeof(first));
    ex_check(MPI_Bcast(first, 4, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    r->refused = c->refused;
    r->expected = accounts * LOG_START;
    wrong = memcmp(mine, first, sizeof(mine)) != 0 || mine[0] != r->entries || least < 0
            || r->sum != r->expected || c->misplaced != 0;
    if (wrong)
        fprintf(stderr, "replicated_log: rank %d's copy is wrong: %" PRIu64 " entries of %" PRIu64
                " (%" PRIu64 " not the next of their sender), %s, %s, sum %" PRId64
                " instead of %" PRId64 "\n", ex_rank(), mine[0], r->entries, c->misplaced,
                mine[2] == first[2] ? "in rank 0's order" : "not in rank 0's order",
                mine[3] == first[3] ? "rank 0's balances" : "other balances than rank 0",
                r->sum, r->expected);
    ex_check(MPI_Allreduce(&wrong, &r->wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
}

static void report(const struct job *j, const struct result *r)
{
    const struct options *o = j->o;
    const char *verdict = r->wrong == 0 ? "passed" : "FAILED";
    /* Those of the second part are left out. */
    double sent = (double)(r->entries - (uint64_t)o->singles - 1), rate = sent / r->seconds;

    if (o->json) {
        printf("{\"example\": \"replicated_log\", \"ranks\": %d, \"senders\": %d, \"accounts\": %"
               PRId64 ", \"message_bytes\": %" PRId64 ", \"slots\": %" PRId64
               ", \"entries\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"seconds\": %.6f, "
               "\"rate\": %.1f, \"median_us\": %.3f, \"p99_us\": %.3f, \"sum\": %" PRId64
               ", \"expected\": %" PRId64 ", \"hash\": \"%016" PRIx64 "\", \"check\": \"%s\"}\n",
               ex_size(), j->senders, o->accounts, o->bytes, o->slots, r->entries, r->refused,
               r->seconds, rate, (double)r->median / 1e3, (double)r->p99 / 1e3, r->sum,
               r->expected, j->copy.hash, verdict);
        return;
    }
    printf("%-14s %d, %d of them send\n", "ranks", ex_size(), j->senders);
    printf("%-14s %" PRId64 "\n", "accounts", o->accounts);
    printf("%-14s %" PRIu64 " of %" PRId64 " bytes (%" PRIu64 " transfers refused)\n", "entries",
           r->entries, o->bytes, r->refused);
    printf("%-14s %.0f entries per second, applied by all\n", "rate", rate);
    if (o->singles > 0)
        printf("%-14s median %.1f us, 99 %% within %.1f us, until delivered at all\n",
               "one entry", (double)r->median / 1e3, (double)r->p99 / 1e3);
    printf("%-14s %" PRId64 ", expected %" PRId64 "\n", "sum", r->sum, r->expected);
    printf("%-14s %s\n", "check", verdict);
}

/* ---- the command line, and the whole ---- */

static bool parse_spoil(const char *text, struct options *o)
{
    static const char *const names[] = { "", "order", "lost", "amount" };

    for (int i = LOG_ORDER; i <= LOG_AMOUNT; i++) {
        if (strcmp(text, names[i]) == 0)
            o->spoil = (enum log_spoil)i;
    }
    return o->spoil != LOG_RIGHT;
}

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'n': return ex_number(optarg, 2, 100000000, &o->accounts);
    case 'S':
        o->senders = 0;
        return strcmp(optarg, "all") == 0 || ex_number(optarg, 1, INT32_MAX, &o->senders);
    case 'b': return ex_number(optarg, LEAST_BYTES, MOST_BYTES, &o->bytes);
    case 'l': return ex_number(optarg, 1, 1 << 20, &o->slots);
    case 's': return ex_real(optarg, 0.001, 1e6, &o->seconds);
    case 'o': return ex_number(optarg, 1, INT64_MAX / 2, &o->ops);
    case 'i': return ex_number(optarg, 0, 10000000, &o->singles);
    case 'r': return ex_number(optarg, 0, INT64_MAX, &o->seed);
    case 'x': return parse_spoil(optarg, o);
    case 'j': return o->json = true;
    default: return o->progress = true;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "accounts", required_argument, NULL, 'n' }, { "senders", required_argument, NULL, 'S' },
        { "message-bytes", required_argument, NULL, 'b' },
        { "slots", required_argument, NULL, 'l' },   { "seconds", required_argument, NULL, 's' },
        { "ops", required_argument, NULL, 'o' },     { "singles", required_argument, NULL, 'i' },
        { "seed", required_argument, NULL, 'r' },    { "spoil", required_argument, NULL, 'x' },
        { "json", no_argument, NULL, 'j' },          { "progress", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .accounts = 1000, .bytes = 64, .slots = 100, .seconds = 1,
                           .singles = 1000, .seed = 1 };
    ex_only_options(argc, argv, names, help, parse_one, o);
    if (o->senders > ex_size())
        ex_usage_error(argv[0], "%" PRId64 " senders, but only %d ranks", o->senders, ex_size());
}

static void open_job(struct job *j, const struct options *o)
{
    int *senders = ex_memory((size_t)ex_size(), sizeof(*senders));
    loco_multicast_options_t how = {
        .senders = senders, .slots = (int)o->slots, .slot_bytes = (size_t)o->bytes,
        .handler = log_deliver, .arg = &j->copy,
    };

    *j = (struct job){ .o = o, .senders = o->senders == 0 ? ex_size() : (int)o->senders };
    log_copy_open(&j->copy, o->accounts, o->bytes,
                  ex_rank() == ex_size() - 1 ? o->spoil : LOG_RIGHT);
    j->message = ex_memory((size_t)o->bytes, 1);
    j->random = ((uint64_t)o->seed * 1000003 + (uint64_t)ex_rank() + 1) *
                UINT64_C(0x9e3779b97f4a7c15) | 1;
    memset(j->message, ex_rank() + 1, (size_t)o->bytes);
    for (int i = 0; i < j->senders; i++)
        senders[i] = i;
    how.nsenders = j->senders;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &j->rt), "loco_runtime_open_mpi");
    check(loco_multicast_create(j->rt, NULL, "journal", loco_everyone(j->rt), &how, &j->journal),
          "loco_multicast_create");
    check(loco_runtime_wait_ready(j->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    free(senders);
}

static void close_job(struct job *j)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_multicast_destroy(j->journal);
    loco_runtime_close_mpi(j->rt);
    log_copy_close(&j->copy);
    free(j->message);
}

int main(int argc, char **argv)
{
    struct result r = { .wrong = 0 };
    struct options o;
    struct job j;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    open_job(&j, &o);
    run(&j, &r);
    compare(&j, &r);
    if (ex_rank() == 0)
        report(&j, &r);
    close_job(&j);
    return ex_finish(r.wrong == 0 ? 0 : EX_WRONG);
}

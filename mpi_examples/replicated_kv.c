/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of which each process has a copy. It is read at the cost of a look into memory, and goes
 * on while processes die and others come: the multicast that carries its changes is one of a view.
 *
 * The processes read and change it at random. Some are killed meanwhile, others join and are sent a
 * copy first. Each process asks now and then whether all copies are what its own is, at the same
 * place of the order, and whether all its changes have been applied, each once.
 */
#include "common.h"
#include "replica.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/fork.h>
#include <loco/loco.h>
#include <loco/mpi.h>

static const char help[] =
    "Usage: replicated_kv --fork N [OPTION]...       N processes of this machine, without MPI\n"
    "       mpirun -np N replicated_kv [OPTION]...\n"
    "A table of which each process has a copy; processes are killed and others join meanwhile.\n"
    "\n"
    "  --fork N         processes, 2 to 64\n"
    "  --kill N         the first N are killed, one after the other (0)\n"
    "  --add N          the last N are no members at first, and join one after the other (0)\n"
    "  --keys N         numbers in the table, up to 10m (10k)\n"
    "  --writes N       of 1000 operations so many change the table; the others read (20)\n"
    "  --seconds S      how long (2)\n"
    "  --timeline       the first survivor prints time, members, reads and changes a second, each\n"
    "                   tenth of a second: gnuplot draws it, see README.md\n"
    "  --spoil order|lost|doubled|state  the last process takes the older of two changes, leaves\n"
    "                   some out, applies one twice, or takes a wrong copy when it joins:\n"
    "                   the check has to notice\n"
    "  --json           print the results as JSON\n"
    "  --help           this text\n"
    "\n"
    "With mpirun a killed process may end all others, as the launcher wants it; Open MPI 4.1 lets\n"
    "them live with --enable-recovery.\n"
    "Exit status of each process: 0, 1 if copies differ or a call failed, 2 on wrong use.\n";

/* All look at the whole of their copy when one asks: that should take little of their time. */
enum { ASK_NS_PER_KEY = 100 };

struct options {
    int64_t processes, kills, adds, keys, writes;
    double seconds;
    enum replica_spoil spoil;
    bool forks, timeline, json;
};

struct job {
    const struct options *o;
    int rank, size;
    loco_runtime_t *rt;
    loco_view_t *view;
    loco_multicast_t *changes;
    struct replica copy;
    int64_t start;
    uint64_t random, sent, changed, asked;
    _Atomic uint64_t reads;
    _Atomic bool over;
    int64_t joined_after;               /* ns; 0: it was there */
    int64_t longest;                    /* that a change had to wait to be sent, ns */
};

static _Noreturn void die(const struct job *j, const char *what, int status)
{
    fprintf(stderr, "replicated_kv: process %d: %s: %s\n", j->rank, what, loco_strerror(status));
    _exit(EX_WRONG);
}

static void need(const struct job *j, int status, const char *what)
{
    if (status != LOCO_OK)
        die(j, what, status);
}

/* ---- when who is killed, and when who joins ---- */

static bool comes_later(const struct options *o, int rank)
{
    return rank >= o->processes - o->adds;
}

static int64_t after(const struct job *j, int64_t one_of, int64_t of)
{
    return j->start + (int64_t)(j->o->seconds * 1e9 * (double)(one_of + 1) / (double)(of + 1));
}

static void sleep_until(int64_t then)
{
    int64_t left;

    while ((left = then - ex_now()) > 0)
        usleep(left < 1000000 ? 100 : 1000);
}

static void *be_killed(void *job)
{
    struct job *j = job;

    sleep_until(after(j, j->rank, j->o->kills));
    raise(SIGKILL);
    return NULL;
}

static void join(struct job *j)
{
    int64_t asked;

    sleep_until(after(j, j->rank - (j->o->processes - j->o->adds), j->o->adds));
    asked = ex_now();
    need(j, loco_view_join(j->view, LOCO_FOREVER), "loco_view_join");
    j->joined_after = ex_now() - asked;
}

/* ---- operations ---- */

static uint64_t post(struct job *j, enum replica_kind kind, uint64_t key, uint64_t value)
{
    const struct replica_message m = { kind, key, value };
    int64_t begin = ex_now(), took;
    uint64_t number;

    need(j, loco_multicast_post(j->changes, &m, sizeof(m), &number), "loco_multicast_post");
    took = ex_now() - begin;
    j->longest = took > j->longest ? took : j->longest;
    j->sent++;
    return number;
}

/* The answer is what the own copy was at the question, which is there once that is delivered. */
static void ask(struct job *j)
{
    uint64_t sent = j->sent, number = post(j, REPLICA_ASK, 0, sent);

    need(j, loco_multicast_wait_delivered(j->changes, number), "loco_multicast_wait_delivered");
    post(j, REPLICA_ANSWER, sent, j->copy.state->noted[j->rank]);
    j->asked++;
}

static void operate(struct job *j)
{
    uint64_t key = ex_random_below(&j->random, j->o->keys);

    if (ex_random_below(&j->random, 1000) >= j->o->writes) {
        (void)replica_get(&j->copy, key);
        atomic_fetch_add_explicit(&j->reads, 1, memory_order_relaxed);
        return;
    }
    post(j, key % 2 == 0 ? REPLICA_SET : REPLICA_ADD, key, j->random >> 40);
    j->changed++;
}

/* Until all members have ended; one that has not and dies is none any more. */
static void end(struct job *j)
{
    uint64_t number, members;

    ask(j);
    number = post(j, REPLICA_END, 0, 0);
    need(j, loco_multicast_wait_delivered(j->changes, number), "loco_multicast_wait_delivered");
    while ((members = atomic_load(&j->copy.members)) != 0
           && (members & ~atomic_load(&j->copy.state->ended)) != 0)
        usleep(200);
    if (members == 0)
        die(j, "the view", loco_view_members(j->view, NULL, NULL, NULL));
}

static void work(struct job *j)
{
    int64_t until = j->start + (int64_t)(j->o->seconds * 1e9), now;
    int64_t pause = ASK_NS_PER_KEY * j->o->keys * j->size, next = j->start + pause;

    while ((now = ex_now()) < until) {
        for (int n = 0; n < 64; n++)
            operate(j);
        if (now >= next) {
            ask(j);
            next = now + pause;
        }
    }
    end(j);
}

/* ---- what is printed ---- */

static void *print_timeline(void *job)
{
    struct job *j = job;
    uint64_t reads = 0, applied = 0;

    printf("# seconds members reads/s (of one process) changes/s\n");
    for (int64_t tick = 1; !atomic_load(&j->over); tick++) {
        uint64_t now_reads, now_applied;

        sleep_until(j->start + tick * 100000000);
        now_reads = atomic_load(&j->reads);
        now_applied = atomic_load(&j->copy.state->applied);
        printf("%.1f %d %" PRIu64 " %" PRIu64 "\n", (double)tick / 10,
               __builtin_popcountll(atomic_load(&j->copy.members)), 10 * (now_reads - reads),
               10 * (now_applied - applied));
        reads = now_reads;
        applied = now_applied;
    }
    return NULL;
}

static void report(struct job *j)
{
    const struct replica_state *s = j->copy.state;
    const char *verdict = atomic_load(&j->copy.wrong) == 0 ? "passed" : "FAILED";
    double seconds = (double)(ex_now() - j->start) / 1e9;
    int members = __builtin_popcountll(atomic_load(&j->copy.members));
    uint64_t applied = atomic_load(&s->applied);

    if (j->o->json) {
        printf("{\"example\": \"replicated_kv\", \"processes\": %d, \"killed\": %" PRId64
               ", \"joined\": %" PRId64 ", \"members\": %d, \"views\": %" PRIu64
               ", \"reads\": %" PRIu64 ", \"changes\": %" PRIu64 ", \"comparisons\": %" PRIu64
               ", \"longest_wait_ms\": %.1f, \"seconds\": %.3f, \"check\": \"%s\"}\n", j->size,
               j->o->kills, j->o->adds, members, atomic_load(&j->copy.view) + 1,
               atomic_load(&j->reads), applied, atomic_load(&j->copy.answers),
               (double)j->longest / 1e6, seconds, verdict);
        return;
    }
    printf("%-14s %d, of which %" PRId64 " were killed and %" PRId64 " came later; %" PRIu64
           " views\n", "processes", j->size, j->o->kills, j->o->adds,
           atomic_load(&j->copy.view) + 1);
    printf("%-14s %.0f per second, at this one\n", "reads",
           (double)atomic_load(&j->reads) / seconds);
    printf("%-14s %.0f per second, at all; one waited at most %.1f ms to be sent here\n", "changes",
           (double)applied / seconds, (double)j->longest / 1e6);
    printf("%-14s %" PRIu64 " comparisons of copies: %s\n", "check", atomic_load(&j->copy.answers),
           verdict);
}

/* ---- a process ---- */

static void open_job(struct job *j)
{
    const struct options *o = j->o;
    uint64_t all = UINT64_MAX >> (64 - j->size), outside = 0;
    loco_view_options_t how = { .changed = replica_changed, .arg = &j->copy,
                                .save = replica_save, .load = replica_load };
    const loco_multicast_options_t mine = { .slot_bytes = sizeof(struct replica_message),
                                            .handler = replica_deliver, .arg = &j->copy };

    for (int rank = 0; rank < j->size; rank++)
        if (comes_later(o, rank))
            outside |= UINT64_C(1) << rank;
    how.outside = outside;
    if (!replica_open(&j->copy, (uint64_t)o->keys, j->size, all & ~outside, j->rank,
                      j->rank == j->size - 1 ? o->spoil : REPLICA_RIGHT))
        die(j, "the copy", LOCO_ERR_NO_MEMORY);
    need(j, loco_view_create(j->rt, NULL, "replicas", loco_everyone(j->rt), &how, &j->view),
         "loco_view_create");
    need(j, loco_view_multicast(j->view, "changes", &mine, &j->changes), "loco_view_multicast");
    need(j, loco_runtime_wait_ready(j->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
}

static int use(struct job *j)
{
    const struct options *o = j->o;
    pthread_t killer, printer;
    bool prints = j->rank == o->kills;
    int wrong;

    j->random = (uint64_t)(j->rank + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    open_job(j);
    j->start = ex_now();
    if (j->rank < o->kills && pthread_create(&killer, NULL, be_killed, j) != 0)
        die(j, "a thread", LOCO_ERR_SYSTEM);
    if (prints && o->timeline && pthread_create(&printer, NULL, print_timeline, j) != 0)
        die(j, "a thread", LOCO_ERR_SYSTEM);
    if (comes_later(o, j->rank))
        join(j);
    work(j);
    atomic_store(&j->over, true);
    if (prints && o->timeline)
        pthread_join(printer, NULL);
    if (prints)
        report(j);
    if (j->joined_after != 0 && o->timeline)
        printf("# process %d was a member after %.1f ms; its copy took %.1f ms of that\n", j->rank,
               (double)j->joined_after / 1e6, (double)j->copy.copy_took / 1e6);
    fflush(stdout);
    wrong = atomic_load(&j->copy.wrong) != 0 ? EX_WRONG : 0;
    loco_view_destroy(j->view);
    return wrong;
}

static int forked(const struct loco_bootstrap *boot, void *options)
{
    struct job j = { .o = options, .rank = boot->exchange.rank, .size = boot->exchange.size };
    int wrong;

    need(&j, loco_runtime_open(boot, &j.rt), "loco_runtime_open");
    wrong = use(&j);
    loco_runtime_close(j.rt);
    replica_close(&j.copy);
    return wrong;
}

/* Those who are to be killed are. */
static int fork_all(struct options *o)
{
    int statuses[REPLICA_MEMBERS] = { 0 }, result = 0;

    if (loco_fork_run((int)o->processes, forked, o, statuses) != LOCO_OK && o->kills == 0)
        result = EX_WRONG;
    for (int rank = 0; rank < o->processes; rank++)
        if (statuses[rank] != (rank < o->kills ? -SIGKILL : 0))
            result = EX_WRONG;
    return result;
}

/* MPI_Finalize waits for the dead, or ends all. */
static int with_mpi(const struct options *o)
{
    struct job j = { .o = o, .rank = ex_rank(), .size = ex_size() };
    int wrong;

    need(&j, loco_runtime_open_mpi(MPI_COMM_WORLD, &j.rt), "loco_runtime_open_mpi");
    wrong = use(&j);
    loco_runtime_close_mpi(j.rt);
    replica_close(&j.copy);
    if (o->kills > 0)
        _exit(wrong);
    return ex_finish(wrong);
}

/* ---- the command line ---- */

static bool parse_spoil(const char *text, struct options *o)
{
    static const char *const names[] = { "", "order", "lost", "doubled", "state" };

    for (int i = REPLICA_ORDER; i <= REPLICA_STATE; i++)
        if (strcmp(text, names[i]) == 0)
            o->spoil = (enum replica_spoil)i;
    return o->spoil != REPLICA_RIGHT;
}

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'f': return o->forks = ex_number(optarg, 2, REPLICA_MEMBERS, &o->processes);
    case 'K': return ex_number(optarg, 0, REPLICA_MEMBERS, &o->kills);
    case 'A': return ex_number(optarg, 0, REPLICA_MEMBERS, &o->adds);
    case 'k': return ex_number(optarg, 1, 10000000, &o->keys);
    case 'w': return ex_number(optarg, 0, 1000, &o->writes);
    case 's': return ex_real(optarg, 0.1, 1e6, &o->seconds);
    case 't': return o->timeline = true;
    case 'x': return parse_spoil(optarg, o);
    default: return o->json = true;
    }
}

static const struct option names[] = {
    { "fork", required_argument, NULL, 'f' },    { "kill", required_argument, NULL, 'K' },
    { "add", required_argument, NULL, 'A' },     { "keys", required_argument, NULL, 'k' },
    { "writes", required_argument, NULL, 'w' },  { "seconds", required_argument, NULL, 's' },
    { "timeline", no_argument, NULL, 't' },      { "spoil", required_argument, NULL, 'x' },
    { "json", no_argument, NULL, 'j' },          { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* What is wrong with them, or NULL. */
static const char *mistake(const struct options *o)
{
    return o->processes > REPLICA_MEMBERS ? "a view has at most 64 members"
           : o->kills + o->adds >= o->processes
           ? "at least one process is to be there from the beginning to the end"
           : o->spoil == REPLICA_STATE && o->adds == 0 ? "--spoil state needs --add" : NULL;
}

static _Noreturn void refuse(const char *why)
{
    fprintf(stderr, "replicated_kv: %s\nTry 'replicated_kv --help'.\n", why);
    exit(EX_USAGE);
}

/* Without MPI: processes that have it must not be forked. */
static int forking_main(int argc, char **argv, struct options *o)
{
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (c == '?' || !parse_one(c, o))
            refuse(c == '?' ? "wrong option" : "wrong argument");
    }
    if (optind < argc || mistake(o) != NULL)
        refuse(optind < argc ? "unexpected argument" : mistake(o));
    return fork_all(o);
}

static bool is_forking(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--fork", 6) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    struct options o = { .keys = 10000, .writes = 20, .seconds = 2 };

    if (is_forking(argc, argv))
        return forking_main(argc, argv, &o);
    ex_init(&argc, &argv, MPI_THREAD_FUNNELED);
    ex_only_options(argc, argv, names, help, parse_one, &o);
    o.processes = ex_size();
    if (mistake(&o) != NULL)
        ex_usage_error("replicated_kv", "%s", mistake(&o));
    return with_mpi(&o);
}

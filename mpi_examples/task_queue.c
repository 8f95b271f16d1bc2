/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Irregular work through a queue: how many nodes an unbalanced tree has, after the benchmark UTS
 * (Olivier and others, "UTS: An unbalanced tree search benchmark", LCPC 2006; its binomial trees).
 * A node has --children children with probability --chance, else none, as a hash of the node says;
 * so nobody knows how large a subtree is before it was walked, and no division beforehand is fair.
 *
 * Each worker walks the tree from a stack of its own. While there is room in the queue it gives
 * away the oldest nodes, whose subtrees are the largest; with an empty stack it takes from there.
 * Whoever gives away counts a task more in an atomic variable before, whoever is done with one
 * counts it away. So the count is 0 only when all is done: who finds that closes the queue, and all
 * workers, who wait for an entry, are told.
 */
#include "common.h"

#include <loco/atomic_var.h>
#include <loco/mpi.h>
#include <loco/queue.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N task_queue [OPTION]...\n"
    "Counts the nodes of an unbalanced tree; all ranks work, and share work through a queue.\n"
    "\n"
    "  --root N         children of the root, 1 to 10m (2000)\n"
    "  --children N     of another node that has any, 1 to 100 (4)\n"
    "  --chance P       that it has; children times chance below 1 (0.2475)\n"
    "  --seed N         which tree (1)\n"
    "  --threads N      workers of each rank, 1 to 64 (1)\n"
    "  --capacity N     places of the queue, 1 to 1m (256)\n"
    "  --no-serial      do not count once more in one thread, to compare\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0, 1 if the counts differ or a call failed, 2 on wrong use.\n";

enum {
    TASK_NODES = 8,         /* nodes of an entry, at the most */
    KEEP_NODES = 32,        /* who has more gives away */
    LOOK_EVERY = 64,        /* nodes between looks whether there is room */
    MOST_THREADS = 64
};

struct options {
    int64_t root, children, seed, threads, capacity;
    double chance;
    bool serial, json, progress;
};

struct node {
    uint64_t name;
    uint64_t depth;
};

struct task {
    uint64_t count;
    struct node node[TASK_NODES];
};

/* What was found. */
struct tally {
    uint64_t nodes, leaves, depth;
    uint64_t check;         /* sum of hashes of all names: which nodes they were */
};

struct stack {
    struct node *node;
    size_t first, end, room;        /* first: the oldest */
};

struct job {
    const struct options *o;
    loco_runtime_t *rt;
    loco_queue_t *queue;
    loco_atomic_var_t *tasks;       /* in the queue, or under way */
    struct ex_progress progress;
};

struct worker {
    struct job *job;
    pthread_t thread;
    bool shows;             /* progress */
    struct stack stack;
    struct tally tally;
    uint64_t given, taken;  /* tasks */
};

/* ---- the tree ---- */

/* Steele, Lea and Flood's mixing function ("Fast splittable pseudorandom number generators",
 * OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static struct node root_of(const struct options *o)
{
    return (struct node){ mix((uint64_t)o->seed), 0 };
}

static struct node child_of(struct node parent, uint64_t i)
{
    return (struct node){ mix(parent.name ^ mix(i + 1)), parent.depth + 1 };
}

static uint64_t children_of(const struct options *o, struct node node)
{
    double drawn = (double)(mix(~node.name) >> 11) * 0x1p-53;

    if (node.depth == 0)
        return (uint64_t)o->root;
    return drawn < o->chance ? (uint64_t)o->children : 0;
}

/* ---- walking ---- */

static void put(struct stack *s, struct node node)
{
    if (s->end == s->room) {
        size_t n = s->end - s->first;

        if (s->first > s->room / 2) {
            memmove(s->node, s->node + s->first, n * sizeof(*s->node));
        } else {
            struct node *more = malloc((2 * s->room + 64) * sizeof(*more));

            if (more == NULL)
                ex_abort("no memory for %zu nodes", 2 * s->room + 64);
            if (n > 0)
                memcpy(more, s->node + s->first, n * sizeof(*more));
            free(s->node);
            s->node = more;
            s->room = 2 * s->room + 64;
        }
        s->first = 0;
        s->end = n;
    }
    s->node[s->end++] = node;
}

/* Visit the youngest node: its children take its place. */
static void visit(const struct options *o, struct stack *s, struct tally *t)
{
    struct node node = s->node[--s->end];
    uint64_t n = children_of(o, node);

    t->nodes++;
    t->leaves += n == 0;
    t->depth = node.depth > t->depth ? node.depth : t->depth;
    t->check += mix(node.name + node.depth);
    for (uint64_t i = 0; i < n; i++)
        put(s, child_of(node, i));
}

static void count_serially(const struct options *o, struct tally *t)
{
    struct stack s = { 0 };

    put(&s, root_of(o));
    while (s.end > s.first)
        visit(o, &s, t);
    free(s.node);
}

/* ---- sharing ---- */

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* The task that this worker is at is counted: the count is not 0, whatever becomes of this one. */
static bool give(struct worker *w)
{
    struct stack *s = &w->stack;
    struct task task = { .count = TASK_NODES };
    int status;

    memcpy(task.node, s->node + s->first, sizeof(task.node));
    check(loco_atomic_var_fetch_add(w->job->tasks, 1, NULL), "counting a task");
    status = loco_queue_try_push(w->job->queue, &task);
    if (status == LOCO_ERR_AGAIN) {
        check(loco_atomic_var_fetch_add(w->job->tasks, (uint64_t)-1, NULL), "counting a task");
        return false;
    }
    check(status, "loco_queue_try_push");
    s->first += TASK_NODES;
    w->given++;
    return true;
}

static void walk(struct worker *w)
{
    struct stack *s = &w->stack;

    for (unsigned i = 0; s->end > s->first; i++) {
        visit(w->job->o, s, &w->tally);
        if (i % LOOK_EVERY != 0)
            continue;
        while (s->end - s->first > KEEP_NODES && give(w))
            ;
        if (w->shows)
            ex_progress_say(&w->job->progress, "%.2f million nodes by this rank",
                            (double)w->tally.nodes / 1e6);
    }
}

static void end_task(struct worker *w)
{
    uint64_t before;

    check(loco_atomic_var_fetch_add(w->job->tasks, (uint64_t)-1, &before), "counting a task");
    if (before == 1)
        check(loco_queue_close(w->job->queue), "loco_queue_close");
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct task task;
    int status;

    while ((status = loco_queue_pop(w->job->queue, &task)) == LOCO_OK) {
        w->taken++;
        for (uint64_t i = 0; i < task.count; i++)
            put(&w->stack, task.node[i]);
        walk(w);
        end_task(w);
    }
    if (status != LOCO_ERR_CLOSED)
        check(status, "loco_queue_pop");
    free(w->stack.node);
    return NULL;
}

/* ---- the whole ---- */

static void open_job(struct job *job, const struct options *o)
{
    const loco_group_t *all;

    job->o = o;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &job->rt), "loco_runtime_open_mpi");
    all = loco_everyone(job->rt);
    check(loco_queue_create(job->rt, NULL, "tasks", all, sizeof(struct task),
                            (uint64_t)o->capacity, 0, &job->queue), "loco_queue_create");
    check(loco_atomic_var_create(job->rt, "tasks", "count", all, 0, &job->tasks),
          "loco_atomic_var_create");
    check(loco_runtime_wait_ready(job->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    if (ex_rank() == 0) {
        struct task first = { 1, { root_of(o) } };

        check(loco_atomic_var_store(job->tasks, 1), "counting a task");
        check(loco_queue_push(job->queue, &first), "loco_queue_push");
    }
    ex_progress_init(&job->progress, o->progress);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

static void close_job(struct job *job)
{
    ex_progress_end(&job->progress);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_atomic_var_destroy(job->tasks);
    loco_queue_destroy(job->queue);
    loco_runtime_close_mpi(job->rt);
}

static void run_workers(struct job *job, struct worker *worker)
{
    for (int64_t i = 0; i < job->o->threads; i++)
        worker[i] = (struct worker){ .job = job, .shows = i == 0 };
    for (int64_t i = 1; i < job->o->threads; i++)
        if (pthread_create(&worker[i].thread, NULL, work, &worker[i]) != 0)
            ex_abort("cannot start thread %" PRId64, i);
    work(&worker[0]);
    for (int64_t i = 1; i < job->o->threads; i++)
        pthread_join(worker[i].thread, NULL);
}

struct result {
    struct tally all, serial;
    uint64_t given, taken;
    uint64_t least, most;           /* nodes of a worker */
    double seconds, serial_seconds;
    bool right;
};

static uint64_t reduce(uint64_t mine, MPI_Op op)
{
    uint64_t all = 0;

    ex_check(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, op, MPI_COMM_WORLD), "MPI_Allreduce");
    return all;
}

static void gather(const struct options *o, const struct worker *worker, struct result *r)
{
    struct result mine = { .least = UINT64_MAX };

    for (int64_t i = 0; i < o->threads; i++) {
        const struct worker *w = &worker[i];

        mine.all.nodes += w->tally.nodes;
        mine.all.leaves += w->tally.leaves;
        mine.all.check += w->tally.check;
        mine.all.depth = w->tally.depth > mine.all.depth ? w->tally.depth : mine.all.depth;
        mine.given += w->given;
        mine.taken += w->taken;
        mine.least = w->tally.nodes < mine.least ? w->tally.nodes : mine.least;
        mine.most = w->tally.nodes > mine.most ? w->tally.nodes : mine.most;
    }
    r->all.nodes = reduce(mine.all.nodes, MPI_SUM);
    r->all.leaves = reduce(mine.all.leaves, MPI_SUM);
    r->all.check = reduce(mine.all.check, MPI_SUM);
    r->all.depth = reduce(mine.all.depth, MPI_MAX);
    r->given = reduce(mine.given, MPI_SUM);
    r->taken = reduce(mine.taken, MPI_SUM);
    r->least = reduce(mine.least, MPI_MIN);
    r->most = reduce(mine.most, MPI_MAX);
}

/* The other ranks wait inside MPI meanwhile. */
static void compare(const struct options *o, struct result *r)
{
    int right = 1;

    if (ex_rank() == 0 && o->serial) {
        double start = MPI_Wtime();

        count_serially(o, &r->serial);
        r->serial_seconds = MPI_Wtime() - start;
        right = memcmp(&r->serial, &r->all, sizeof(r->all)) == 0;
    }
    right = right && r->taken == r->given + 1;
    ex_check(MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    r->right = right != 0;
}

static void report(const struct options *o, const struct result *r)
{
    const char *verdict = !r->right ? "FAILED" : o->serial ? "passed" : "not made";
    double rate = (double)r->all.nodes / r->seconds / 1e6;
    double mean = (double)r->all.nodes / (double)(ex_size() * o->threads);

    if (o->json) {
        printf("{\"example\": \"task_queue\", \"ranks\": %d, \"threads\": %" PRId64
               ", \"nodes\": %" PRIu64 ", \"leaves\": %" PRIu64 ", \"depth\": %" PRIu64
               ", \"tasks\": %" PRIu64 ", \"seconds\": %.6f, \"mnodes_per_s\": %.4f, "
               "\"most_of_mean\": %.3f, \"serial_seconds\": %.6f, \"check\": \"%s\"}\n", ex_size(),
               o->threads, r->all.nodes, r->all.leaves, r->all.depth, r->taken, r->seconds, rate,
               (double)r->most / mean, r->serial_seconds, verdict);
        return;
    }
    printf("%-14s %d, of %" PRId64 " thread%s\n", "ranks", ex_size(), o->threads,
           o->threads > 1 ? "s" : "");
    printf("%-14s %" PRIu64 ", %" PRIu64 " of them leaves, %" PRIu64 " deep\n", "nodes",
           r->all.nodes, r->all.leaves, r->all.depth);
    printf("%-14s %" PRIu64 "\n", "tasks", r->taken);
    printf("%-14s %.3f s, %.2f million nodes/s\n", "time", r->seconds, rate);
    printf("%-14s %.2f to %.2f of the mean\n", "workers", (double)r->least / mean,
           (double)r->most / mean);
    if (o->serial)
        printf("%-14s %.3f s\n", "one thread", r->serial_seconds);
    printf("%-14s %s\n", "check", verdict);
    if (!r->right)
        fprintf(stderr, "task_queue: %" PRIu64 " nodes instead of %" PRIu64 "\n", r->all.nodes,
                r->serial.nodes);
}

/* ---- the command line ---- */

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'r': return ex_number(optarg, 1, 10000000, &o->root);
    case 'c': return ex_number(optarg, 1, 100, &o->children);
    case 'P': return ex_real(optarg, 0, 1, &o->chance);
    case 's': return ex_number(optarg, 0, INT64_MAX, &o->seed);
    case 't': return ex_number(optarg, 1, MOST_THREADS, &o->threads);
    case 'q': return ex_number(optarg, 1, 1000000, &o->capacity);
    case 'n': o->serial = false; return true;
    case 'j': o->json = true; return true;
    case 'p': o->progress = true; return true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "root", required_argument, NULL, 'r' },    { "children", required_argument, NULL, 'c' },
        { "chance", required_argument, NULL, 'P' },  { "seed", required_argument, NULL, 's' },
        { "threads", required_argument, NULL, 't' }, { "capacity", required_argument, NULL, 'q' },
        { "no-serial", no_argument, NULL, 'n' },     { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },      { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .root = 2000, .children = 4, .chance = 0.2475, .seed = 1, .threads = 1,
                           .capacity = 256, .serial = true };
    ex_only_options(argc, argv, names, help, parse_one, o);
    if (o->chance * (double)o->children >= 1)
        ex_usage_error(argv[0], "children times chance is %g: the tree has no end",
                       o->chance * (double)o->children);
}

int main(int argc, char **argv)
{
    static struct worker worker[MOST_THREADS];
    struct result r = { .right = false };
    struct options o;
    struct job job;
    double start;

    /* Whoever waits lets MPI make progress, so any thread may call it. */
    ex_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    parse(argc, argv, &o);
    open_job(&job, &o);
    start = MPI_Wtime();
    run_workers(&job, worker);
    r.seconds = MPI_Wtime() - start;
    close_job(&job);
    gather(&o, worker, &r);
    compare(&o, &r);
    if (ex_rank() == 0)
        report(&o, &r);
    return ex_finish(r.right ? 0 : EX_WRONG);
}

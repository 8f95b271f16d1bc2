/* SPDX-License-Identifier: BSD-3-Clause */

/* All threads push different entries in every way, and pop until the queue is closed, which
 * whoever pushes last does. */

#include "config.h"

#include "scenario_queue.h"

#define PATTERN UINT64_C(0x9e3779b97f4a7c15)    /* word i of entry v is v + i * PATTERN */
#define NAP 2000                                /* ns between looks of who must not block... */
#define LONG_NAP 100000000                      /* ...once a process has stopped: time flies then */

struct user {
    struct sim_run *run;
    struct queue_state *s;
    loco_runtime_t *rt;
    loco_queue_t *queue;
    loco_region_t *notes;       /* for queues that fence: the number of each entry */
    int rank, thread;
};

/* Who has stopped is not known any more when the run is over. */
static bool look_for_dead(struct user *u)
{
    for (int i = 0; i < u->run->processes; i++)
        if (loci_sim_is_stopped(i))
            u->s->dead = i;
    return u->s->dead >= 0;
}

/* ---- one call ---- */

/* What it told: the status of a history's return, or an end of the body. */
static int tell(struct user *u, int at, int status, uint64_t result)
{
    struct loci_history *h = &u->s->history;

    if (status == LOCO_OK) {
        loci_history_return(h, at, 1, result);
        return SIM_FINE;
    }
    if (status == LOCO_ERR_AGAIN || status == LOCO_ERR_CLOSED) {
        h->ops[at].arg2 = status == LOCO_ERR_AGAIN ? QUEUE_REFUSED : QUEUE_CLOSED;
        loci_history_return(h, at, 0, 0);
        return SIM_FINE;
    }
    look_for_dead(u);
    WANT(status != LOCO_ERR_PEER_DEAD || !u->run->faults || queue_may_fail(u->run, u->s),
         "a call is told of a death that does not concern it");
    return sim_check(u->run, status, "a call on the queue");
}

static uint64_t number_of(int rank, int thread, int i)
{
    return (uint64_t)((rank * 64 + thread) * QUEUE_PUSHES_MAX + i);
}

static int write_note(struct user *u, uint64_t number)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int at = (int)(number % (uint64_t)u->run->processes);

    if ((u->s->flags & LOCO_QUEUE_FENCE) == 0 || look_for_dead(u))
        return SIM_FINE;
    TRY(u->run, loco_region_write64_ack(u->notes, at, 8 * number, number, &ack));
    return SIM_FINE;
}

static int read_note(struct user *u, uint64_t number)
{
    uint64_t found;
    int at = (int)(number % (uint64_t)u->run->processes);

    if ((u->s->flags & LOCO_QUEUE_FENCE) == 0 || look_for_dead(u))
        return SIM_FINE;
    TRY(u->run, loco_region_read64(u->notes, at, 8 * number, &found));
    WANT(found == number || look_for_dead(u),
         "what was written before entry %llu was pushed is not seen by who popped it",
         (unsigned long long)number);
    return SIM_FINE;
}

/* At once, or within a limit that may be over first: as far as the order is concerned, the same. */
#define LONGEST_LIMIT 20000     /* ns */

static int push_if_soon(struct user *u, const uint64_t *entry)
{
    int status;

    if (loci_sim_draw(2) == 0)
        return loco_queue_try_push(u->queue, entry);
    status = loco_queue_push_timed(u->queue, entry, loci_sim_draw(LONGEST_LIMIT));
    return status == LOCO_ERR_TIMEOUT ? LOCO_ERR_AGAIN : status;
}

static int pop_if_soon(struct user *u, uint64_t *entry)
{
    int status;

    if (loci_sim_draw(2) == 0)
        return loco_queue_try_pop(u->queue, entry);
    status = loco_queue_pop_timed(u->queue, entry, loci_sim_draw(LONGEST_LIMIT));
    return status == LOCO_ERR_TIMEOUT ? LOCO_ERR_AGAIN : status;
}

/* *end: the queue was closed; *refused: it was full. */
static int push(struct user *u, uint64_t number, bool may_block, bool *end, bool *refused)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    uint64_t entry[QUEUE_WORDS_MAX];
    uint32_t how = may_block ? loci_sim_draw(3) : 0;
    int at, status;

    for (size_t i = 0; i < u->s->words; i++)
        entry[i] = number + i * PATTERN;
    PASS(write_note(u, number));
    at = loci_history_call(&u->s->history, loci_history_client(u->rank, u->thread), LINEAR_PUSH,
                           0, number, 0);
    status = how == 0 ? push_if_soon(u, entry)
             : how == 1 ? loco_queue_push(u->queue, entry)
             : loco_queue_push_ack(u->queue, entry, &ack);
    WANT(how == 0 || status != LOCO_ERR_AGAIN, "a push that blocks says that it would");
    PASS(tell(u, at, status, 0));
    *end = status == LOCO_ERR_CLOSED;
    *refused = status == LOCO_ERR_AGAIN;
    status = loco_ack_wait(u->rt, &ack);
    return status == LOCO_ERR_PEER_DEAD && u->run->faults ? SIM_FINE
           : sim_check(u->run, status, "push_ack");
}

static int check_entry(struct user *u, const uint64_t *entry)
{
    for (size_t i = 1; i < u->s->words; i++)
        WANT(entry[i] == entry[0] + i * PATTERN, "word %zu of entry %llu is not its own", i,
             (unsigned long long)entry[0]);
    return SIM_FINE;
}

/* *end: it was closed, and is empty; *nothing: it is empty. */
static int pop(struct user *u, bool may_block, bool *end, bool *nothing)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    uint64_t entry[QUEUE_WORDS_MAX];
    uint32_t how = may_block ? loci_sim_draw(3) : 0;
    int at = loci_history_call(&u->s->history, loci_history_client(u->rank, u->thread),
                               LINEAR_POP, 0, 0, 0);
    int status = how == 0 ? pop_if_soon(u, entry)
                 : how == 1 ? loco_queue_pop(u->queue, entry)
                 : loco_queue_pop_ack(u->queue, entry, &ack);

    WANT(how == 0 || status != LOCO_ERR_AGAIN, "a pop that blocks says that it would");
    *end = status == LOCO_ERR_CLOSED;
    *nothing = status == LOCO_ERR_AGAIN;
    if (status == LOCO_OK)
        status = loco_ack_wait(u->rt, &ack);
    if (how == 2 && status == LOCO_ERR_PEER_DEAD && u->run->faults && look_for_dead(u))
        return SIM_FINE;        /* taken, and lost with its place */
    if (status == LOCO_OK)
        PASS(check_entry(u, entry));
    PASS(tell(u, at, status, entry[0]));
    return status == LOCO_OK ? read_note(u, entry[0]) : SIM_FINE;
}

/* ---- closing ---- */

static int close_it(struct user *u)
{
    struct queue_state *s = u->s;

    if (s->close_called == 0)
        s->close_called = ++s->history.stamp;
    TRY(u->run, loco_queue_close(u->queue));
    if (s->close_returned == 0)
        s->close_returned = ++s->history.stamp;
    return SIM_FINE;
}

static bool may_push_yet(const struct user *u)
{
    for (int i = 0; i < u->run->processes; i++)
        if (u->s->pushing[i] > 0 && !loci_sim_is_stopped(i))
            return true;
    return false;
}

/* ---- the body ---- */

/* A process may stop: then pushes wait only while there are two who pop, and those poll, so that
 * one of them closes the queue in the end. */
static bool is_consumer(const struct user *u, int thread)
{
    return thread == 0 && (u->rank == u->s->consumer || u->rank == u->s->second);
}

static bool pushes_may_block(const struct user *u)
{
    return !u->run->faults || u->s->second >= 0;
}

static int push_some(struct user *u, int thread, int n)
{
    bool end = false, refused, other;

    for (int i = 0; i < n && !end; i++) {
        PASS(push(u, number_of(u->rank, thread, i), pushes_may_block(u), &end, &refused));
        if (u->s->early && i == 1 && loci_sim_draw(4) == 0)
            PASS(close_it(u));
        if (refused || loci_sim_draw(4) == 0)
            PASS(pop(u, false, &other, &refused));
    }
    return SIM_FINE;
}

static int pop_all(struct user *u, int thread)
{
    bool polls = u->run->faults && (is_consumer(u, thread) || u->s->second < 0);
    bool end = false, nothing = false;

    while (!end) {
        PASS(pop(u, !polls, &end, &nothing));
        if (!polls || !nothing)
            continue;
        if (!may_push_yet(u))
            PASS(close_it(u));
        loci_sim_sleep(look_for_dead(u) ? LONG_NAP : NAP);
    }
    return SIM_FINE;
}

static int thread_work(struct user *u, int thread)
{
    int n = is_consumer(u, thread) ? 0 : (int)loci_sim_draw((uint32_t)u->run->rounds + 1);
    int result;
    uint64_t size;

    result = push_some(u, thread, n < QUEUE_PUSHES_MAX ? n : QUEUE_PUSHES_MAX);
    u->s->pushing[u->rank]--;
    PASS(result);
    if (!may_push_yet(u))
        PASS(close_it(u));
    if (loci_sim_draw(4) == 0) {
        TRY(u->run, loco_queue_size(u->queue, &size));
        WANT(size <= u->s->capacity, "%llu entries, with %llu places", (unsigned long long)size,
             (unsigned long long)u->s->capacity);
    }
    return pop_all(u, thread);
}

/* Who is told of a death leaves, so that others may wait for what it would have done. */
static int thread_main(void *arg, int thread)
{
    struct user me = *(const struct user *)arg;
    int result;

    me.thread = thread;
    result = thread_work(&me, thread);
    return result == SIM_TOLD ? sim_first(close_it(&me), SIM_TOLD) : result;
}

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    /* Who is told of a death here takes no part, so nobody may begin to count on it. */
    TRY(u->run, sim_meet(seat));
    return sim_threads(u->rt, u->run->threads, thread_main, u);
}

static void choose(struct queue_state *s, const struct sim_run *run)
{
    static const size_t words[] = { 1, 3, QUEUE_WORDS_MAX };
    uint32_t n = (uint32_t)run->processes;

    if (s->drawn)
        return;
    s->drawn = true;
    s->capacity = loci_sim_draw(4) == 0 ? 10 * n : 1 + loci_sim_draw(2 * n);
    s->words = words[loci_sim_draw(3)];
    s->flags = loci_sim_draw(4) == 0 ? LOCO_QUEUE_FENCE : 0;
    s->consumer = (int)loci_sim_draw(n);
    s->second = run->faults && n > 2 ? (s->consumer + 1) % (int)n : -1;
    s->early = loci_sim_draw(4) == 0;
    for (uint32_t i = 0; i < n; i++)
        s->pushing[i] = run->threads;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct queue_state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *all = loco_everyone(rt);
    int result;

    choose(s, run);
    TRY(run, loco_queue_create(rt, NULL, "queue", all, 8 * s->words, s->capacity, s->flags,
                               &u.queue));
    TRY(run, loco_region_create(rt, NULL, "notes", all,
                                8 * number_of(run->processes, 0, 0), &u.notes));
    result = use(&u, &seat);
    s->pushing[rank] = 0;       /* it may have been told of a death before it began */
    result = sim_part(&seat, result);
    look_for_dead(&u);
    loco_queue_destroy(u.queue);
    loco_region_destroy(u.notes);
    return result;
}

static int begin(struct sim_run *run)
{
    struct queue_state *s;

    if (sim_state_begin(run, sizeof(struct queue_state)) != 0)
        return -1;
    s = run->state;
    s->dead = -1;
    s->pushing = calloc((size_t)run->processes, sizeof s->pushing[0]);
    loci_history_init(&s->history, loci_linear_forms(LINEAR_QUEUE));
    return s->pushing == NULL ? -1 : 0;
}

static int end(struct sim_run *run)
{
    return queue_check(run, run->state);
}

static void drop(struct sim_run *run)
{
    struct queue_state *s = run->state;

    if (s != NULL) {
        free(s->pushing);
        loci_history_fini(&s->history);
    }
    sim_state_free(run);
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_queue_t *queue;

    (void)rank;
    return loco_queue_create(rt, NULL, "queue", loco_everyone(rt), 8, 2 * (uint64_t)processes, 0,
                             &queue) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? queue : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    uint64_t entry = (uint64_t)rank;
    int status = loco_queue_push(channel, &entry);

    (void)rt;
    (void)round;
    return status != LOCO_OK ? status : loco_queue_pop(channel, &entry);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_queue_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_queue;
const struct sim_scenario sim_scenario_queue = {
    .name = "queue",
    .about = "pushes and pops of every form by all, on queues of few places, until it is closed: "
             "linearizable, bounded, nothing lost or torn",
    .processes = 3, .threads = 2, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "6 atomics, 1 write, 1 read per process",
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Each process sends messages to one or two multicasts, from all its threads, where it is a sender:
 * whole ones, slots that are filled and sent in another order, and answers from handlers. Some
 * processes have handlers, some poll. All are given the same messages in the same order, without a
 * gap; messages stay as they are while they are shown; what is said to be delivered has been given
 * to all; nobody gives a null after the last message. */

#include "config.h"

#include "multicast/multicast_parts.h"
#include "scenario_multicast.h"

#define PATIENCE INT64_C(20000000000)       /* ns of virtual time: somebody waits for ever */
#define LONGEST_SLEEP 1000000

struct state {
    struct sim_state common;
    bool drawn;
    int direct;                 /* of more members, some hand on what others send; 0: never here */
    int groups, over;           /* over: threads that do not send any more */
    struct mc_group group[MC_GROUPS];
};

struct user;

/* A process's part in a multicast. */
struct part {
    struct user *u;
    struct mc_group *g;
    loco_multicast_t *m;
    int sent[MC_THREADS];
    int told;                   /* that it has ended */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    int rank;
    struct part part[MC_GROUPS];
    bool closing;               /* nobody answers any more, */
    int answering;              /* but those who are about to */
};

static struct part *any_part(struct user *u)
{
    struct part *p = &u->part[loci_sim_draw((uint32_t)u->s->groups)];

    return mc_sender(p->g, u->rank) < 0 ? NULL : p;
}

static bool has_ended(const struct user *u)
{
    return u->run->faults && sim_any_stopped(u->run);
}

/* ---- what comes ---- */

/* An answer to some message, which nobody answers: sent now or not at all. */
static int answer(struct user *u, int thread, const loco_delivery_t *message)
{
    struct part *p = any_part(u);
    uint64_t words[MC_WORDS];
    size_t bytes;
    int status;

    if (p == NULL || u->closing || message->bytes == 0 || p->sent[thread] >= u->run->rounds
        || (*(const uint64_t *)message->data >> 32 & 0xffff) >= MC_HANDLER
        || loci_sim_draw(2) == 0)
        return SIM_FINE;
    bytes = mc_make(p->g, u->rank, thread, p->sent[thread], words);
    u->answering++;
    status = thread == MC_HANDLER && loci_sim_draw(2) == 0
             ? loco_multicast_post(p->m, words, bytes, NULL)
             : loco_multicast_try_post(p->m, words, bytes, NULL);
    u->answering--;
    if (status == LOCO_ERR_AGAIN)
        return SIM_FINE;
    TRY(u->run, status);
    p->sent[thread]++;
    p->g->sent++;
    return SIM_FINE;
}

/* They are looked at again later: they stay as they are meanwhile. They are noted also if an answer
 * finds that the other multicast has ended: this one goes on until it finds the same. */
static int take(struct part *p, int thread, const loco_delivery_t *messages, int n)
{
    struct user *u = p->u;
    int result = SIM_FINE;

    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < n; i++)
            PASS(mc_check(p->g, u->rank, &messages[i]));
        for (int i = 0; i < n && again == 0; i++)
            PASS(mc_check_received(p->g, u->rank, messages[i].number));
        loci_sim_pause();
        if (again == 0 && loci_sim_draw(6) == 0)
            loci_sim_sleep(3000);
    }
    for (int i = 0; i < n; i++) {
        if (result == SIM_FINE)
            result = answer(u, thread, &messages[i]);
        PASS(mc_note(p->g, u->rank, &messages[i]));
    }
    return result;
}

static void handle(void *arg, const loco_delivery_t *messages, int n)
{
    struct part *p = arg;

    p->told += n == 0;
    if (n == 0 && !has_ended(p->u))
        loci_sim_fail("p%d is told of an end", p->u->rank);
    /* What is wrong has been told, and a death will be to those who send. */
    (void)take(p, MC_HANDLER, messages, n);
}

static int poll(struct part *p, bool wait, int *found)
{
    loco_delivery_t messages[3];
    int n = 0, max = 1 + (int)loci_sim_draw(3);
    int status = wait ? loco_multicast_next(p->m, LOCO_FOREVER, messages, max, &n)
                      : loco_multicast_poll(p->m, messages, max, &n);

    *found = 0;
    if (status == LOCO_ERR_AGAIN && !wait)
        return SIM_FINE;
    TRY(p->u->run, status);
    *found = n;
    return take(p, MC_POLLER, messages, n);
}

/* Once where this process polls: whether anything came. */
static int poll_all(struct user *u, bool *some)
{
    *some = false;
    for (int i = 0; i < u->s->groups; i++) {
        int found = 0;

        if (u->part[i].g->polled[u->rank])
            PASS(poll(&u->part[i], false, &found));
        *some = *some || found > 0;
    }
    return SIM_FINE;
}

/* ---- who sends ---- */

/* It is for this process to poll: thread 0 does. */
static int give_way(struct user *u, int thread)
{
    bool some = false;

    if (thread == 0)
        PASS(poll_all(u, &some));
    if (!some)
        loci_sim_sleep(1000);
    return SIM_FINE;
}

/* Who polls one multicast must not wait for another: that may wait for the others' polling of it,
 * and they for this one's. */
static bool may_wait(const struct user *u, int thread)
{
    for (int i = 0; i < u->s->groups && u->s->groups > 1 && thread == 0; i++)
        if (u->part[i].g->polled[u->rank])
            return false;
    return true;
}

static int post(struct part *p, int thread, const void *words, size_t bytes, uint64_t *number)
{
    return may_wait(p->u, thread) ? loco_multicast_post(p->m, words, bytes, number)
                                  : loco_multicast_try_post(p->m, words, bytes, number);
}

static int reserve(struct part *p, int thread, void **slot)
{
    return may_wait(p->u, thread) ? loco_multicast_reserve(p->m, slot)
                                  : loco_multicast_try_reserve(p->m, slot);
}

static int see_delivered(struct part *p, int thread, uint64_t number)
{
    struct user *u = p->u;
    bool wait = loci_sim_draw(3) == 0 && may_wait(u, thread);
    int status = wait ? loco_multicast_wait_delivered(p->m, number)
                      : loco_multicast_is_delivered(p->m, number);

    while (wait && status == LOCO_ERR_AGAIN) {
        PASS(give_way(u, thread));
        status = loco_multicast_wait_delivered(p->m, number);
    }
    if (status == LOCO_IN_PROGRESS)
        return SIM_FINE;
    TRY(u->run, status);
    return mc_check_stable(p->g, u->run, u->rank, number);
}

static int send_whole(struct part *p, int thread, uint64_t *number)
{
    struct user *u = p->u;
    uint64_t words[MC_WORDS];
    size_t bytes = mc_make(p->g, u->rank, thread, p->sent[thread], words);
    int status;

    while ((status = post(p, thread, words, bytes, number)) == LOCO_ERR_AGAIN)
        PASS(give_way(u, thread));
    TRY(u->run, status);
    p->sent[thread]++;
    p->g->sent++;
    return SIM_FINE;
}

/* Two slots at a time where there are: the one that was reserved later is sent first. */
static int send_slots(struct part *p, int thread, uint64_t *number)
{
    struct user *u = p->u;
    void *slot[2] = { NULL, NULL };
    size_t bytes[2] = { 0, 0 };
    int status, n = 1;

    while ((status = reserve(p, thread, &slot[0])) == LOCO_ERR_AGAIN)
        PASS(give_way(u, thread));
    TRY(u->run, status);
    status = loco_multicast_try_reserve(p->m, &slot[1]);
    if (status != LOCO_ERR_AGAIN) {
        TRY(u->run, status);
        n = 2;
    }
    for (int i = 0; i < n; i++)
        bytes[i] = mc_make(p->g, u->rank, thread, p->sent[thread] + i, slot[i]);
    loci_sim_pause();
    for (int i = n - 1; i >= 0; i--)
        TRY(u->run, loco_multicast_send(p->m, slot[i], bytes[i], n == 1 || i == 1 ? number : NULL));
    p->sent[thread] += n;
    p->g->sent += n;
    return SIM_FINE;
}

static int send(struct user *u, int thread)
{
    struct part *p = any_part(u);
    uint64_t number = 0;

    if (p == NULL)
        return SIM_FINE;
    PASS(loci_sim_draw(2) == 0 ? send_whole(p, thread, &number)
                               : send_slots(p, thread, &number));
    if (loci_sim_draw(3) == 0)
        PASS(see_delivered(p, thread, number));
    return SIM_FINE;
}

/* ---- the end ---- */

static bool all_sent(const struct user *u)
{
    return u->s->over == u->run->processes * u->run->threads;
}

/* Whoever is given something may still answer. */
static bool all_are_given_all(const struct user *u)
{
    for (int i = 0; i < u->s->groups; i++)
        for (int rank = 0; rank < u->run->processes; rank++)
            if (u->s->group[i].delivered[rank] != u->s->group[i].sent)
                return false;
    return true;
}

/* Whether this process polls, and what it has not been given is sure to come. */
static bool has_to_come(const struct user *u, const struct mc_group *g)
{
    return g->polled[u->rank] && g->delivered[u->rank] < g->sent;
}

/* Whether there is something to poll, or nothing will come any more. */
static bool may_go_on(const struct user *u)
{
    if (has_ended(u))
        return true;
    for (int i = 0; i < u->s->groups; i++)
        if (has_to_come(u, &u->s->group[i]))
            return true;
    return all_are_given_all(u) && all_sent(u);
}

/* Outside the network, where no change wakes anybody. */
static int wait_to_go_on(const struct user *u)
{
    int64_t end = loci_sim_time() + PATIENCE, ns = 1000;

    while (!may_go_on(u)) {
        WANT(loci_sim_time() < end, "p%d is not given what was sent", u->rank);
        loci_sim_sleep(ns);
        ns = ns < LONGEST_SLEEP ? 2 * ns : ns;
    }
    return SIM_FINE;
}

/* All is given to all; whoever is missing something is sure to get it. */
static int take_rest(struct user *u)
{
    bool some;

    for (;;) {
        int waits = -1, found;

        PASS(poll_all(u, &some));
        if (some)
            continue;
        for (int i = 0; i < u->s->groups; i++)
            if (has_to_come(u, u->part[i].g))
                waits = i;
        if (waits >= 0 && may_wait(u, 0))
            PASS(poll(&u->part[waits], true, &found));
        else if (waits >= 0)
            loci_sim_sleep(1000);
        if (waits >= 0)
            continue;
        PASS(wait_to_go_on(u));
        if (has_ended(u))
            return SIM_TOLD;
        if (all_are_given_all(u) && all_sent(u))
            return SIM_FINE;
    }
}

static int body_of_thread(void *arg, int thread)
{
    struct user *u = arg;
    bool some;
    int result = SIM_FINE;

    for (int i = 0; i < u->run->rounds && result == SIM_FINE; i++) {
        result = send(u, thread);
        if (thread == 0 && result == SIM_FINE)
            result = poll_all(u, &some);
    }
    u->s->over++;
    return thread == 0 && result == SIM_FINE ? take_rest(u) : result;
}

static int check_nulls(struct user *u, struct sim_seat *seat)
{
    TRY(u->run, sim_meet(seat));
    loci_sim_sleep(20000);
    for (int i = 0; i < u->s->groups; i++) {
        loco_multicast_stats_t stats;

        loco_multicast_stats(u->part[i].m, &stats);
        PASS(mc_check_nulls(u->part[i].g, u->rank, &stats));
    }
    return SIM_FINE;
}

/* ---- a process ---- */

static int make(struct user *u)
{
    static const char *const names[MC_GROUPS] = { "one", "two" };

    for (int i = 0; i < u->s->groups; i++) {
        struct part *p = &u->part[i];
        struct mc_group *g = &u->s->group[i];
        loco_multicast_options_t o = {
            .senders = g->senders, .nsenders = g->nsenders, .slots = g->slots,
            .slot_bytes = g->slot_bytes, .flags = g->flags,
            .handler = g->polled[u->rank] ? NULL : handle, .arg = p,
        };

        const struct loci_multicast_tuning tuning = { .first = g->first, .direct = u->s->direct,
                                                      .images = g->images };

        p->u = u;
        p->g = g;
        TRY(u->run, loci_multicast_create(u->rt, NULL, names[i], loco_everyone(u->rt), &o,
                                          &tuning, &p->m));
        g->at[u->rank] = p->m;
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(make(u));
    PASS(sim_ready(u->run, seat));
    TRY(u->run, sim_meet(seat));
    PASS(sim_threads(u->rt, u->run->threads, body_of_thread, u));
    return check_nulls(u, seat);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->groups = 1 + (loci_sim_draw(3) == 0);
        for (int i = 0; i < s->groups; i++)
            mc_draw(&s->group[i], run);
    }
    result = sim_part(&seat, use(&u, &seat));
    u.closing = true;
    while (u.answering > 0)
        loci_sim_sleep(1000);
    for (int i = s->groups; i-- > 0;) {
        s->group[i].at[rank] = NULL;
        loco_multicast_destroy(u.part[i].m);
    }
    return result;
}

/* ---- the whole ---- */

static int begin_with(struct sim_run *run, unsigned parts, int direct)
{
    struct state *s;

    loci_multicast_parts = parts;
    /* Each thread sends two a round at most, and so do those who answer. */
    if (run->processes > MC_PROCESSES || run->threads > MC_HANDLER
        || run->processes * (2 * run->threads + 2) * run->rounds > MC_MESSAGES)
        return -1;
    if (sim_state_begin(run, sizeof *s) != 0)
        return -1;
    s = run->state;
    s->direct = direct;
    return 0;
}

static int begin(struct sim_run *run)
{
    return begin_with(run, LOCI_MC_ALL, 0);
}

static int begin_single(struct sim_run *run)
{
    return begin_with(run, LOCI_MC_NULLS, 0);
}

static int begin_relay(struct sim_run *run)
{
    return begin_with(run, LOCI_MC_ALL, 1);
}

static int end(struct sim_run *run)
{
    const struct state *s = run->state;

    for (int i = 0; i < s->groups; i++)
        PASS(mc_check_end(&s->group[i], run));
    return SIM_FINE;
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_SLEEP_AFTER=0", NULL };

extern const struct sim_scenario sim_scenario_multicast, sim_scenario_multicast_single,
    sim_scenario_multicast_relay;
const struct sim_scenario sim_scenario_multicast = {
    .name = "multicast",
    .about = "all members are given the same messages in the same order, whatever subset sends; "
             "delivered is what all have been given; no null after the last message",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_multicast_single = {
    .name = "multicast_single",
    .about = "the same without batches: of what benchmarks leave out, only the speed is lost",
    .processes = 3, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin_single, .body = body, .end = end, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_multicast_relay = {
    .name = "multicast_relay",
    .about = "the same where members hand on what others send, as in large groups",
    .processes = 6, .threads = 1, .rounds = 2, .processes_min = 1,
    .settings = settings,
    .begin = begin_relay, .body = body, .end = end, .free = sim_state_free,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Some processes publish samples on one topic, from all their threads; some subscribe from the
 * beginning, some at a time of their own, some never. All who subscribe are given the same samples
 * in the same order. A late subscriber is given just those of the last ones that the topic keeps,
 * then what follows: none is missing, none comes twice. */

#include "config.h"

#include "scenario_util.h"
#include "topic/topic_history.h"

#define PROCESSES 8
#define THREADS 8
#define SAMPLES 256                 /* in all */
#define WORDS 5                     /* of the largest sample */
#define PATIENCE INT64_C(20000000000)
#define LONGEST_SLEEP 1000000
#define DEADLINE INT64_C(5000000)

enum { EARLY, LATE, NEVER };

struct given {
    uint64_t number, word;
    int publisher, kept;
    size_t bytes;
};

struct state {
    struct sim_state common;
    bool drawn;
    int level, view, npublishers, publishers[PROCESSES], slots, history;
    size_t slot_bytes, history_bytes;
    int64_t deadline;
    int subscribes[PROCESSES], round[PROCESSES];    /* when, and after which round */
    bool told[PROCESSES];                           /* of its late subscription */
    int kept[PROCESSES];                            /* as it was told then */
    struct given given[PROCESSES][SAMPLES];
    int n[PROCESSES];
    int published;
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_topic_t *t;
    int rank;
    uint64_t last;              /* number of its last sample */
    bool asked;
};

static bool publishes(const struct state *s, int rank)
{
    for (int i = 0; i < s->npublishers; i++)
        if (s->publishers[i] == rank)
            return true;
    return false;
}

static bool may_end(const struct user *u)
{
    return u->run->faults && sim_any_stopped(u->run);
}

/* Who is no majority is told so by the topic's calls. */
static int check(const struct user *u, int status, const char *call)
{
    return status == LOCO_ERR_PARTITIONED && may_end(u) ? SIM_TOLD
           : sim_check(u->run, status, call);
}

#define TOPIC(u, call) PASS(check(u, call, #call))

/* ---- samples ---- */

static uint64_t word_of(uint64_t first, int k)
{
    return (first + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k;
}

static size_t make(const struct user *u, int thread, int i, uint64_t *words)
{
    int n = 1 + (int)loci_sim_draw((uint32_t)(u->s->slot_bytes / 8));

    words[0] = (uint64_t)u->rank << 48 | (uint64_t)thread << 32 | (uint64_t)i << 16 | (uint64_t)n;
    for (int k = 1; k < n; k++)
        words[k] = word_of(words[0], k);
    return 8 * (size_t)n;
}

static int take_one(struct user *u, const loco_sample_t *sample)
{
    struct state *s = u->s;
    const uint64_t *words = sample->data;

    WANT(sample->bytes >= 8 && sample->bytes == 8 * (words[0] & 0xffff)
         && (int)(words[0] >> 48) == sample->publisher,
         "p%d is given %zu bytes of p%d that begin with %llx", u->rank, sample->bytes,
         sample->publisher, (unsigned long long)words[0]);
    for (size_t k = 1; k < sample->bytes / 8; k++)
        WANT(words[k] == word_of(words[0], (int)k), "p%d reads %llx as word %zu of sample %llx",
             u->rank, (unsigned long long)words[k], k, (unsigned long long)words[0]);
    WANT(s->n[u->rank] < SAMPLES, "p%d is given more than was published", u->rank);
    WANT((sample->kept != 0) == (s->subscribes[u->rank] == LATE && !s->told[u->rank]),
         "p%d is given sample %llx as %skept one", u->rank, (unsigned long long)words[0],
         sample->kept != 0 ? "a " : "no ");
    s->given[u->rank][s->n[u->rank]++] = (struct given){
        .number = sample->number, .word = words[0], .publisher = sample->publisher,
        .kept = sample->kept, .bytes = sample->bytes,
    };
    return SIM_FINE;
}

static void take(void *arg, const loco_sample_t *samples, int n)
{
    struct user *u = arg;

    if (!u->asked && u->s->subscribes[u->rank] != EARLY)
        loci_sim_fail("p%d is given samples, and has not subscribed", u->rank);
    for (int i = 0; i < n; i++)
        if (take_one(u, &samples[i]) != SIM_FINE)
            return;
    loci_sim_pause();
    if (loci_sim_draw(6) == 0)
        loci_sim_sleep(3000);
}

static void note(void *arg, enum loco_topic_event event, int64_t value)
{
    struct user *u = arg;

    if (event == LOCO_TOPIC_SUBSCRIBED) {
        if (u->s->told[u->rank] || value != u->s->n[u->rank])
            loci_sim_fail("p%d is told of %lld kept samples, and was given %d", u->rank,
                          (long long)value, u->s->n[u->rank]);
        u->s->kept[u->rank] = (int)value;
        u->s->told[u->rank] = true;
    } else if ((event == LOCO_TOPIC_MEMBER_GONE || event == LOCO_TOPIC_ENDED) && !may_end(u)) {
        loci_sim_fail("p%d is told of an end", u->rank);
    } else if (event == LOCO_TOPIC_DEADLINE_MISSED && u->s->deadline == 0) {
        loci_sim_fail("p%d has missed a deadline that it has not", u->rank);
    }
}

/* ---- what each does ---- */

static int publish(struct user *u, int thread, int i)
{
    uint64_t words[WORDS], number;
    void *slot;
    size_t bytes;

    if (loci_sim_draw(2) == 0) {
        TOPIC(u, loco_topic_reserve(u->t, &slot));
        bytes = make(u, thread, i, slot);
        loci_sim_pause();
        TOPIC(u, loco_topic_publish(u->t, slot, bytes, &number));
    } else {
        bytes = make(u, thread, i, words);
        TOPIC(u, loco_topic_post(u->t, words, bytes, &number));
    }
    u->last = number > u->last ? number : u->last;
    u->s->published++;
    return SIM_FINE;
}

static int subscribe(struct user *u)
{
    u->asked = true;
    TRY(u->run, loco_topic_subscribe(u->t));
    return SIM_FINE;
}

static int body_of_thread(void *arg, int thread)
{
    struct user *u = arg;

    for (int i = 0; i < u->run->rounds; i++) {
        if (thread == 0 && u->s->subscribes[u->rank] == LATE && u->s->round[u->rank] == i)
            PASS(subscribe(u));
        if (publishes(u->s, u->rank))
            PASS(publish(u, thread, i));
        if (loci_sim_draw(5) == 0)
            loci_sim_sleep(2000);
    }
    return SIM_FINE;
}

/* Outside the network, where no change wakes anybody. */
static int wait_for_subscription(const struct user *u)
{
    int64_t end = loci_sim_time() + PATIENCE, ns = 1000;

    while (u->s->subscribes[u->rank] == LATE && !u->s->told[u->rank]) {
        if (may_end(u))
            return SIM_TOLD;
        WANT(loci_sim_time() < end, "p%d has subscribed, and is not told", u->rank);
        loci_sim_sleep(ns);
        ns = ns < LONGEST_SLEEP ? 2 * ns : ns;
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    const struct state *s = u->s;
    const loco_topic_options_t o = {
        .publishers = s->publishers, .npublishers = s->npublishers, .level = s->level,
        .slots = s->slots, .slot_bytes = s->slot_bytes,
        .subscribe = s->subscribes[u->rank] == EARLY,
        .handler = s->subscribes[u->rank] == NEVER ? NULL : take, .event = note, .arg = u,
        .history = s->history, .history_bytes = s->history_bytes, .deadline_ns = s->deadline,
        .view = s->level == LOCO_TOPIC_UNORDERED ? 0 : s->view,
    };

    TRY(u->run, loco_topic_create(u->rt, NULL, "topic", loco_everyone(u->rt), &o, &u->t));
    PASS(sim_ready(u->run, seat));
    TRY(u->run, sim_meet(seat));
    PASS(sim_threads(u->rt, u->run->threads, body_of_thread, u));
    if (publishes(s, u->rank))
        TOPIC(u, loco_topic_wait_delivered(u->t, u->last));
    PASS(wait_for_subscription(u));
    TRY(u->run, sim_meet(seat));
    return SIM_FINE;
}

static void draw(struct state *s, const struct sim_run *run)
{
    static const int slots[] = { 1, 2, 3, 7 };

    s->level = (int)loci_sim_draw(4);
    while (s->npublishers == 0)
        for (int rank = 0; rank < run->processes; rank++)
            if (loci_sim_draw(2) == 0)
                s->publishers[s->npublishers++] = rank;
    s->slots = slots[loci_sim_draw(4)];
    s->slot_bytes = 8 * (1 + loci_sim_draw(WORDS));
    if (s->level >= LOCO_TOPIC_KEPT && loci_sim_draw(3) != 0)
        s->history = 1 + (int)loci_sim_draw(6);
    if (s->level >= LOCO_TOPIC_KEPT && loci_sim_draw(3) == 0)
        s->history_bytes = s->slot_bytes + LOCI_TOPIC_ENTRY + 16 + loci_sim_draw(300);
    /* Where a process stops time goes by in leaps, and all steps were those of missed deadlines. */
    s->deadline = loci_sim_draw(4) != 0 ? 0 : run->faults ? DEADLINE * 1000 : DEADLINE;
    s->view = (int)loci_sim_draw(3);
    for (int rank = 0; rank < run->processes; rank++) {
        s->subscribes[rank] = rank == 0 ? EARLY : (int)loci_sim_draw(5) % 3;
        s->round[rank] = (int)loci_sim_draw((uint32_t)run->rounds);
    }
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
        draw(s, run);
    }
    result = sim_part(&seat, use(&u, &seat));
    loco_topic_destroy(u.t);
    return result;
}

/* ---- what must be so in the end ---- */

/* How many of the first n that process 0 was given are kept then. */
static int kept_of(const struct state *s, int n)
{
    int most = s->history == 0 && s->history_bytes == 0 ? 1 : s->history, kept = 0;
    size_t used = 0;

    if (s->level < LOCO_TOPIC_KEPT)
        return 0;
    for (; kept < n && (most == 0 || kept < most); kept++) {
        used += (s->given[0][n - 1 - kept].bytes + 15) / 16 * 16 + LOCI_TOPIC_ENTRY;
        if (s->history_bytes != 0 && used > s->history_bytes)
            break;
    }
    return kept;
}

/* Where in what process 0 was given this one's begins; -1: it is ahead of all that. */
static int begin_of(const struct state *s, int rank)
{
    for (int i = 0; i < s->n[0]; i++)
        if (s->given[0][i].word == s->given[rank][0].word)
            return i;
    return -1;
}

static int check_ordered(const struct state *s, const struct sim_run *run, int rank)
{
    int begin = s->n[rank] == 0 ? s->n[0] : begin_of(s, rank);

    if (begin < 0 && run->faults)
        return SIM_FINE;
    WANT(begin >= 0, "p%d is given %llx, and p0 never", rank,
         (unsigned long long)s->given[rank][0].word);
    WANT(begin == 0 || s->subscribes[rank] != EARLY || s->n[rank] == 0,
         "p%d begins with the %d. sample", rank, begin);
    for (int i = 0; i < s->n[rank] && begin + i < s->n[0]; i++)
        WANT(s->given[rank][i].word == s->given[0][begin + i].word
             && s->given[rank][i].number == s->given[0][begin + i].number,
             "p%d is given %llx as its %d., and p0 %llx", rank,
             (unsigned long long)s->given[rank][i].word, i,
             (unsigned long long)s->given[0][begin + i].word);
    if (s->told[rank] && begin + s->kept[rank] <= s->n[0] && s->n[rank] > 0)
        WANT(s->kept[rank] == kept_of(s, begin + s->kept[rank]),
             "p%d is given %d kept samples after the first %d, which should be %d", rank,
             s->kept[rank], begin, kept_of(s, begin + s->kept[rank]));
    if (!run->faults)
        WANT(begin + s->n[rank] == s->n[0], "p%d is given %d samples from the %d. on, of %d", rank,
             s->n[rank], begin, s->n[0]);
    return SIM_FINE;
}

/* Samples of each publisher come without a gap, up to the last one. */
static int check_unordered(const struct state *s, const struct sim_run *run, int rank)
{
    uint64_t next[PROCESSES];
    int count[PROCESSES] = { 0 };

    for (int i = 0; i < s->n[rank]; i++) {
        const struct given *g = &s->given[rank][i];
        int p = g->publisher;

        WANT(count[p] == 0 ? g->number == 0 || s->subscribes[rank] == LATE : g->number == next[p],
             "p%d is given number %llu of p%d as its %d.", rank, (unsigned long long)g->number, p,
             count[p]);
        next[p] = g->number + 1;
        count[p]++;
    }
    for (int p = 0; p < run->processes && !run->faults; p++)
        WANT(count[p] == 0 || next[p] == (uint64_t)(run->threads * run->rounds),
             "p%d is given samples of p%d up to number %llu", rank, p,
             (unsigned long long)next[p]);
    return SIM_FINE;
}

static int end(struct sim_run *run)
{
    const struct state *s = run->state;

    WANT(run->faults || s->n[0] == s->published, "p0 is given %d samples of %d", s->n[0],
         s->published);
    for (int rank = 0; rank < run->processes; rank++) {
        WANT(s->subscribes[rank] != NEVER || s->n[rank] == 0, "p%d is given samples", rank);
        if (s->subscribes[rank] != NEVER)
            PASS(s->level == LOCO_TOPIC_UNORDERED ? check_unordered(s, run, rank)
                                                  : check_ordered(s, run, rank));
    }
    return SIM_FINE;
}

static int begin(struct sim_run *run)
{
    if (run->processes > PROCESSES || run->threads > THREADS
        || run->processes * run->threads * run->rounds > SAMPLES)
        return -1;
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_SLEEP_AFTER=0", NULL };

extern const struct sim_scenario sim_scenario_topic;
const struct sim_scenario sim_scenario_topic = {
    .name = "topic",
    .about = "all subscribers are given the same samples in the same order; a late one the last "
             "ones that are kept, then what follows, without a gap or a double",
    .processes = 3, .threads = 2, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = sim_state_free,
};

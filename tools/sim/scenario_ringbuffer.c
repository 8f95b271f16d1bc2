/* SPDX-License-Identifier: BSD-3-Clause */

/* Process 0 sends messages of mixed sizes, from all its threads; each other process reads all of
 * them, whole and unchanged until it releases them, in the order of every other reader; what is
 * acknowledged has been released by all who live. */

#include "config.h"

#include "scenario_util.h"

#define PROCESSES 8
#define MESSAGES 64             /* that a process keeps the order of */
#define WORDS_MAX 12
#define PATIENCE INT64_C(2000000000)     /* ns: once somebody has stopped, time flies */

struct state {
    struct sim_state common;
    bool drawn;
    int flags, capacity;
    enum { IN_PLACE, ONE_COPIES, ALL_COPY } how[PROCESSES];     /* by which it reads */
    int count[PROCESSES];
    uint64_t read[PROCESSES][MESSAGES];         /* first words */
    int awaits[MESSAGES];               /* sending thread: until all have released so many */
    int released[PROCESSES][MESSAGES];  /* by sending thread: so many, or about to be (IN_PLACE) */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_ringbuffer_t *rb;
    int rank, total;
};

/* ---- messages ---- */

static uint64_t word_of(uint64_t first, int k)
{
    return (first + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k;
}

/* Message i of a thread: as many words as its first says. */
static size_t make(struct user *u, int thread, int i, uint64_t *words)
{
    int most = u->s->capacity / 8;
    int n = 1 + (int)loci_sim_draw((uint32_t)most);

    words[0] = (uint64_t)thread << 32 | (uint64_t)i << 16 | (uint64_t)n;
    for (int k = 1; k < n; k++)
        words[k] = word_of(words[0], k);
    return 8 * (size_t)n;
}

static int check(struct user *u, const uint64_t *words, size_t bytes)
{
    WANT(bytes >= 8 && bytes % 8 == 0 && bytes == 8 * (size_t)(words[0] & 0xffff)
         && (int)(words[0] >> 32) < u->run->threads
         && (int)(words[0] >> 16 & 0xffff) < u->run->rounds,
         "p%d reads %zu bytes that begin with %llx", u->rank, bytes,
         (unsigned long long)words[0]);
    for (size_t k = 1; k < bytes / 8; k++)
        WANT(words[k] == word_of(words[0], (int)k), "p%d reads %llx as word %zu of message %llx",
             u->rank, (unsigned long long)words[k], k, (unsigned long long)words[0]);
    return SIM_FINE;
}

/* ---- the writer ---- */

/* All that live have released message i of this thread. */
static int check_released(struct user *u, int thread, int i)
{
    for (int rank = 1; rank < u->run->processes; rank++)
        WANT(loci_sim_is_stopped(rank) || u->s->how[rank] != IN_PLACE
             || u->s->released[rank][thread] > i,
             "message %d of thread %d is acknowledged, and p%d has released %d of them", i, thread,
             rank, u->s->released[rank][thread]);
    return SIM_FINE;
}

static int acknowledge(struct user *u, int thread, int i, uint64_t number)
{
    int status;

    switch (loci_sim_draw(4)) {
    case 0:
        u->s->awaits[thread] = i + 1;
        status = loco_ringbuffer_wait_acknowledged(u->rb, number);
        u->s->awaits[thread] = 0;
        break;
    case 1: status = loco_ringbuffer_acknowledged(u->rb, number); break;
    default: return SIM_FINE;
    }
    if (status == LOCO_IN_PROGRESS)
        return SIM_FINE;
    /* This of a dead reader is no news of the others. */
    if (status == LOCO_ERR_PEER_DEAD && u->run->faults && sim_any_stopped(u->run))
        status = LOCO_OK;
    TRY(u->run, status);
    return check_released(u, thread, i);
}

static int send_tried(struct user *u, const loco_ringbuffer_part_t *m, uint64_t *number)
{
    for (int i = 0; i < 3; i++) {
        int status = loco_ringbuffer_try_send(u->rb, m->data, m->bytes, number);

        if (status != LOCO_ERR_AGAIN) {
            TRY(u->run, status);
            return SIM_FINE;
        }
        loci_sim_pause();
    }
    TRY(u->run, loco_ringbuffer_send(u->rb, m->data, m->bytes, number));
    return SIM_FINE;
}

static int writer(void *arg, int thread)
{
    struct user *u = arg;
    uint64_t words[3][WORDS_MAX], number = 0;
    loco_ringbuffer_part_t m[3];

    for (int i = 0; i < u->run->rounds;) {
        int n = 1 + (int)loci_sim_draw(3);

        n = n > u->run->rounds - i ? u->run->rounds - i : n;
        for (int k = 0; k < n; k++)
            m[k] = (loco_ringbuffer_part_t){ words[k], make(u, thread, i + k, words[k]) };
        if (n > 1)
            TRY(u->run, loco_ringbuffer_send_many(u->rb, m, n, &number));
        else if (loci_sim_draw(2) == 0)
            PASS(send_tried(u, m, &number));
        else
            TRY(u->run, loco_ringbuffer_send(u->rb, m[0].data, m[0].bytes, &number));
        memset(words, 0xee, sizeof words);      /* the caller's again */
        i += n;
        PASS(acknowledge(u, thread, i - 1, number));
    }
    return SIM_FINE;
}

/* ---- readers ---- */

static void keep(struct user *u, uint64_t first)
{
    struct state *s = u->s;

    if (s->count[u->rank] < MESSAGES)
        s->read[u->rank][s->count[u->rank]] = first;
    s->count[u->rank]++;
    s->released[u->rank][first >> 32]++;
}

static int receive(struct user *u)
{
    bool several = u->s->how[u->rank] == ALL_COPY;
    uint64_t words[WORDS_MAX];
    size_t bytes;
    int status;

    /* Others that receive may take the last one. */
    while (u->s->count[u->rank] < u->total) {
        status = loco_ringbuffer_receive(u->rb, several ? PATIENCE : LOCO_FOREVER, words,
                                         sizeof words, &bytes);
        if (status == LOCO_ERR_TIMEOUT && several)
            continue;
        TRY(u->run, status);
        PASS(check(u, words, bytes));
        keep(u, words[0]);
        return SIM_FINE;
    }
    return SIM_FINE;
}

/* Nothing that a thread of the writer waits for has been released by all: or else, that it has. */
static int nobody_awaits(void *arg)
{
    const struct user *u = arg;

    for (int thread = 0; thread < u->run->threads && !loci_sim_is_stopped(0); thread++) {
        int least = MESSAGES;

        for (int rank = 1; rank < u->run->processes; rank++)
            if (!loci_sim_is_stopped(rank) && u->s->released[rank][thread] < least)
                least = u->s->released[rank][thread];
        if (u->s->awaits[thread] != 0 && least >= u->s->awaits[thread])
            return 0;
    }
    return 1;
}

/* Now and then a reader does nothing for as long as somebody could need it to tell what it has
 * released: nobody does. */
static int rest(struct user *u)
{
    if (loci_sim_draw(3) == 0)
        TRY(u->run, sim_wait(u->rt, nobody_awaits, u));
    return SIM_FINE;
}

/* They stay as they are until they are released. */
static int read_some(struct user *u, const loco_ringbuffer_part_t *m, int n)
{
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < n; i++)
            PASS(check(u, m[i].data, m[i].bytes));
        loci_sim_pause();
        if (loci_sim_draw(4) == 0)
            loci_sim_sleep(3000);
    }
    for (int i = 0; i < n; i++)
        keep(u, *(const uint64_t *)m[i].data);
    TRY(u->run, loco_ringbuffer_release(u->rb, n));
    return rest(u);
}

static int read_in_place(struct user *u)
{
    loco_ringbuffer_part_t m[3] = { { NULL, 0 } };
    int n = 1, which = -1;

    if (loci_sim_draw(2) == 0)
        TRY(u->run, loco_ringbuffer_wait_any(&u->rb, 1, LOCO_FOREVER, &which));
    TRY(u->run, loco_ringbuffer_next(u->rb, LOCO_FOREVER, &m[0].data, &m[0].bytes));
    if (loci_sim_draw(2) == 0)
        TRY(u->run, loco_ringbuffer_peek_many(u->rb, m, 3, &n));
    return read_some(u, m, n);
}

static int reader(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    while (u->s->count[u->rank] < u->total)
        PASS(u->s->how[u->rank] == IN_PLACE ? read_in_place(u) : receive(u));
    return SIM_FINE;
}

/* ---- a process ---- */

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    /* Nobody is missing who would not be dead: they have no way to tell each other. */
    TRY(u->run, sim_meet(seat));
    if (u->rank == 0)
        return sim_threads(u->rt, u->run->threads, writer, u);
    return sim_threads(u->rt, u->s->how[u->rank] == ALL_COPY ? u->run->threads : 1, reader, u);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank,
                      .total = run->threads * run->rounds };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    if (!s->drawn) {
        static const int capacities[] = { 8, 24, 8 * WORDS_MAX };

        s->drawn = true;
        s->flags = loci_sim_draw(2) == 0 ? LOCO_RINGBUFFER_SLEEP : LOCO_RINGBUFFER_AWAKE;
        s->capacity = capacities[loci_sim_draw(3)];
        for (int i = 0; i < PROCESSES; i++)
            s->how[i] = loci_sim_draw(run->threads == 1 ? 2 : 3);
    }
    TRY(run, loco_ringbuffer_create(rt, NULL, "ring", loco_everyone(rt), 0, (size_t)s->capacity,
                                    s->flags, &u.rb));
    result = sim_part(&seat, use(&u, &seat));
    loco_ringbuffer_destroy(u.rb);
    return result;
}

/* ---- the whole ---- */

static int begin(struct sim_run *run)
{
    if (run->processes > PROCESSES || run->threads * run->rounds > MESSAGES)
        return -1;
    return sim_state_begin(run, sizeof(struct state));
}

/* Each message of a thread once, and those of a thread in order, but for the end of who stopped. */
static int check_reader(const struct sim_run *run, const struct state *s, int rank)
{
    int next[MESSAGES] = { 0 };

    for (int i = 0; i < s->count[rank]; i++) {
        int thread = (int)(s->read[rank][i] >> 32), at = (int)(s->read[rank][i] >> 16 & 0xffff);

        WANT(s->how[rank] == ALL_COPY || at == next[thread],
             "p%d reads message %d of thread %d where %d is next", rank, at, thread, next[thread]);
        next[thread]++;
        for (int k = 0; k < i; k++)
            WANT(s->read[rank][k] != s->read[rank][i], "p%d reads message %d of thread %d twice",
                 rank, at, thread);
    }
    WANT(run->faults || s->count[rank] == run->threads * run->rounds,
         "p%d has read %d messages of %d", rank, s->count[rank], run->threads * run->rounds);
    return SIM_FINE;
}

static int end(struct sim_run *run)
{
    const struct state *s = run->state;

    for (int rank = 1; rank < run->processes; rank++) {
        PASS(check_reader(run, s, rank));
        if (s->how[1] == ALL_COPY || s->how[rank] == ALL_COPY)
            continue;
        for (int i = 0; i < s->count[rank] && i < s->count[1]; i++)
            WANT(s->read[rank][i] == s->read[1][i], "p%d and p1 read different messages as their "
                 "number %d", rank, i);
    }
    return SIM_FINE;
}

/* ---- for `scale` ---- */


static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_ringbuffer_t *rb;

    (void)rank;
    (void)processes;
    return loco_ringbuffer_create(rt, NULL, "ring", loco_everyone(rt), 0, 64,
                                  LOCO_RINGBUFFER_AWAKE, &rb) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? rb : NULL;
}

/* One message to all, and all acknowledge it. */
static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    uint64_t number, message = (uint64_t)round;
    int status;

    (void)rt;
    if (rank != 0)
        return loco_ringbuffer_receive(channel, LOCO_FOREVER, &message, sizeof message, NULL);
    status = loco_ringbuffer_send(channel, &message, sizeof message, &number);
    return status != LOCO_OK ? status : loco_ringbuffer_wait_acknowledged(channel, number);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_ringbuffer_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_SLEEP_AFTER=0", NULL };

extern const struct sim_scenario sim_scenario_ringbuffer;
const struct sim_scenario sim_scenario_ringbuffer = {
    .name = "ringbuffer",
    .about = "readers get all messages, once, whole and in one order; they stay until released; "
             "acknowledged is what all have released",
    .processes = 3, .threads = 2, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = sim_state_free,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "3 writes per process from the writer, 1 back, a write and a read to ask",
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* All processes but one send messages, short and long, from all their threads, and that one
 * receives them: each once, whole, those of a thread in order; and all that a sender was told is
 * sent. */

#include "config.h"

#include "scenario_util.h"

#define PROCESSES 8
#define THREADS 64             /* sending threads of a process */
#define WORDS_MAX 100
#define ROOM (8 * WORDS_MAX)
#define RING 512
#define PATIENCE INT64_C(2000000000)     /* ns: once somebody has stopped, time flies */

struct state {
    struct sim_state common;
    bool drawn;
    int receiver;
    size_t straight;
    int sent[PROCESSES][THREADS];      /* by sending thread: calls that have returned LOCO_OK */
    int received[PROCESSES][THREADS];  /* likewise: messages, */
    int finished;                       /* threads of the receiver that have taken all there was */
    uint64_t which[PROCESSES][THREADS];        /* and which: a bit each */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_mailbox_t *box;
    int rank;
};

/* ---- messages ---- */

static uint64_t word_of(uint64_t first, int k)
{
    return (first + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k;
}

/* Message i of a thread: as many words as its first says. */
static size_t make(const struct user *u, int thread, int i, uint64_t *words)
{
    int most = loci_sim_draw(4) == 0 ? WORDS_MAX : 12;
    int n = 1 + (int)loci_sim_draw((uint32_t)most);

    words[0] = (uint64_t)u->rank << 48 | (uint64_t)thread << 32 | (uint64_t)i << 16 | (uint64_t)n;
    for (int k = 1; k < n; k++)
        words[k] = word_of(words[0], k);
    return 8 * (size_t)n;
}

/* It is the next one of its thread. */
static int check(struct user *u, const uint64_t *words, size_t bytes, int from)
{
    int thread = (int)(words[0] >> 32 & 0xffff), i = (int)(words[0] >> 16 & 0xffff);

    WANT(bytes >= 8 && bytes == 8 * (size_t)(words[0] & 0xffff) && from == (int)(words[0] >> 48)
         && from != u->rank && from < u->run->processes && thread < u->run->threads,
         "p%d receives %zu bytes of p%d that begin with %llx", u->rank, bytes, from,
         (unsigned long long)words[0]);
    for (size_t k = 1; k < bytes / 8; k++)
        WANT(words[k] == word_of(words[0], (int)k), "p%d receives %llx as word %zu of message %llx",
             u->rank, (unsigned long long)words[k], k, (unsigned long long)words[0]);
    /* With several threads here another may be about to count the one before. */
    WANT(u->run->threads > 1 || i == u->s->received[from][thread],
         "message %d of p%d is received, and %d is the next", i, from,
         u->s->received[from][thread]);
    WANT((u->s->which[from][thread] >> i & 1) == 0, "message %d of p%d is received twice", i, from);
    u->s->which[from][thread] |= UINT64_C(1) << i;
    u->s->received[from][thread]++;
    return SIM_FINE;
}

/* ---- senders ---- */

/* A short one by a copy that does not wait, if that can be. 1: it is sent. */
static int send_tried(struct user *u, const uint64_t *words, size_t bytes)
{
    for (int i = 0; i < 3 && bytes <= RING / 2 - 16; i++) {
        int status = loco_mailbox_try_send(u->box, words, bytes);

        if (status == LOCO_OK)
            return LOCO_OK;
        if (status != LOCO_ERR_AGAIN)
            return status;
        loci_sim_pause();
    }
    return LOCO_ERR_AGAIN;
}

static int send(struct user *u, int thread, int i)
{
    uint64_t words[WORDS_MAX];
    size_t bytes = make(u, thread, i, words);
    int status = LOCO_ERR_AGAIN;

    if (loci_sim_draw(3) == 0)
        status = send_tried(u, words, bytes);
    if (status == LOCO_ERR_AGAIN)
        status = loco_mailbox_send(u->box, words, bytes);
    TRY(u->run, status);
    u->s->sent[u->rank][thread] = i + 1;
    memset(words, 0xee, sizeof words);      /* the caller's again */
    return SIM_FINE;
}

static int sender(void *arg, int thread)
{
    struct user *u = arg;

    for (int i = 0; i < u->run->rounds; i++) {
        PASS(send(u, thread, i));
        if (loci_sim_draw(6) == 0)
            loci_sim_sleep(3000);
    }
    return SIM_FINE;
}

/* ---- the receiver ---- */

/* What the living send is here. */
static bool is_all(const struct user *u)
{
    for (int rank = 0; rank < u->run->processes; rank++)
        for (int thread = 0; thread < u->run->threads; thread++)
            if (rank != u->rank && !loci_sim_is_stopped(rank)
                && u->s->received[rank][thread] < u->run->rounds)
                return false;
    return true;
}

static int receive(struct user *u, bool *over)
{
    bool patient = u->run->threads == 1 && !u->run->faults;
    uint64_t words[WORDS_MAX];
    size_t bytes = 0, room = loci_sim_draw(4) == 0 ? 8 : ROOM;
    int from = -1, status;

    if (loci_sim_draw(8) == 0)              /* rings fill up */
        loci_sim_sleep(30000);
    if (loci_sim_draw(3) == 0) {
        status = loco_mailbox_try_receive(u->box, words, room, &from, &bytes);
        if (status == LOCO_ERR_AGAIN)
            return SIM_FINE;
    } else {
        status = loco_mailbox_receive(u->box, patient ? LOCO_FOREVER : PATIENCE, words, room,
                                      &from, &bytes);
    }
    if (status == LOCO_ERR_TIMEOUT && !patient)
        return SIM_FINE;
    if (status == LOCO_ERR_RANGE) {         /* it stays */
        WANT(bytes > room, "a message of %zu bytes is too long for %zu", bytes, room);
        return SIM_FINE;
    }
    if (status == LOCO_ERR_PEER_DEAD && u->run->faults && sim_any_stopped(u->run)) {
        *over = true;
        return SIM_FINE;
    }
    TRY(u->run, status);
    return check(u, words, bytes, from);
}

/* Nobody is left who sends, or all have; then once more what those who stopped had sent. */
static int receiver(void *arg, int thread)
{
    struct user *u = arg;
    bool over = false;

    (void)thread;
    while (!over && !is_all(u))
        PASS(receive(u, &over));
    while (u->run->faults && !over) {
        uint64_t words[WORDS_MAX];
        size_t bytes;
        int from, status = loco_mailbox_receive(u->box, PATIENCE, words, sizeof words, &from,
                                                &bytes);

        if (status == LOCO_ERR_TIMEOUT || status == LOCO_ERR_PEER_DEAD)
            break;
        TRY(u->run, status);
        PASS(check(u, words, bytes, from));
    }
    u->s->finished++;
    return SIM_FINE;
}

/* ---- a process ---- */

static int use(struct user *u, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    /* Nobody is missing who would not be dead: they have no way to tell each other. */
    TRY(u->run, sim_meet(seat));
    return sim_threads(u->rt, u->run->threads, u->rank == u->s->receiver ? receiver : sender, u);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    loco_mailbox_options_t options = { .ring_bytes = RING };
    int result;

    if (!s->drawn) {
        static const size_t straight[] = { 64, 200, LOCO_MAILBOX_COPY_ALL };

        s->drawn = true;
        s->straight = straight[loci_sim_draw(3)];
        s->receiver = (int)loci_sim_draw((uint32_t)run->processes);
    }
    options.straight = s->straight;
    TRY(run, loco_mailbox_create(rt, NULL, "box", loco_everyone(rt), s->receiver, &options,
                                 &u.box));
    result = sim_part(&seat, use(&u, &seat));
    loco_mailbox_destroy(u.box);
    return result;
}

/* ---- the whole ---- */

static int begin(struct sim_run *run)
{
    if (run->processes > PROCESSES || run->threads > THREADS
        || run->rounds > 64)
        return -1;
    return sim_state_begin(run, sizeof(struct state));
}

/* What a sender was told is sent was received, whoever has stopped since but the receiver. */
static int end(struct sim_run *run)
{
    const struct state *s = run->state;

    for (int rank = 0; rank < run->processes; rank++)
        for (int thread = 0; thread < run->threads; thread++) {
            WANT(s->finished < run->threads
                 || s->received[rank][thread] >= s->sent[rank][thread],
                 "p%d was told that %d messages of thread %d are sent, and %d were received", rank,
                 s->sent[rank][thread], thread, s->received[rank][thread]);
            WANT(s->received[rank][thread] <= s->sent[rank][thread] + 1,
                 "of thread %d of p%d %d messages were received", thread, rank,
                 s->received[rank][thread]);
        }
    return SIM_FINE;
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_SLEEP_AFTER=0", NULL };

extern const struct sim_scenario sim_scenario_mailbox;
const struct sim_scenario sim_scenario_mailbox = {
    .name = "mailbox",
    .about = "one receives what all others send: each message once, whole, those of a thread in "
             "order; nothing that was sent is lost",
    .processes = 3, .threads = 2, .rounds = 6, .processes_min = 2,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = sim_state_free,
};

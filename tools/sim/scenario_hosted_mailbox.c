/* SPDX-License-Identifier: BSD-3-Clause */

/* A hosted mailbox: process 0 keeps it, and the others come and go. Each comer takes a place that
 * is vacant, sends some messages, short and in pieces, and leaves, or stops somewhere in the
 * middle; most come into a place that somebody has had. On one node process 1 comes and receives,
 * leaves and comes again; else process 0 receives, for who receives has to have the memory mapped.
 * Each message is received once, whole, those of a visit in order; and all that a sender was told
 * is sent, but for what was in pieces when its receiver left. */

#include "config.h"

#include "hosted_mailbox.h"
#include "scenario_util.h"

#define PROCESSES 8
#define PLACES_MOST 3
#define VISITS 8
#define MESSAGES 6              /* of a visit, at most */
#define WORDS_MAX 100
#define RING 512
#define SHORT (RING / 2 - 16)
#define PAUSE 20000             /* ns */
#define LOOK(run) ((run)->faults ? INT64_C(2000000000) : INT64_C(200000))    /* ns: once somebody
                                   has stopped, time flies */

enum place_state { VACANT, TAKEN, LEFT };

struct place {
    enum place_state state;
    int process;
};

struct sent {
    bool told, received, pieces;
};

struct state {
    struct sim_state common;
    bool drawn, ready, over;            /* over: what is there is all that comes */
    bool receives;                      /* somebody does */
    int places, receivers;              /* times that somebody has begun to receive */
    struct place place[PLACES_MOST];
    struct sim_mailbox_key key;
    bool ended[PROCESSES];
    struct sent sent[PROCESSES][VISITS][MESSAGES];
    int last[PROCESSES][VISITS];        /* the last one received */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_mailbox_t *host, *box;
    int rank, place;
};

static const loco_mailbox_options_t options = { .ring_bytes = RING };

static int receiver_of(const struct sim_run *run)
{
    return run->one_node ? 1 : 0;
}

/* ---- messages ---- */

static uint64_t word_of(uint64_t first, int k)
{
    return (first + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k;
}

static size_t make(const struct user *u, int visit, int i, uint64_t *words)
{
    int n = 1 + (int)loci_sim_draw(loci_sim_draw(3) == 0 ? WORDS_MAX : 12);

    words[0] = (uint64_t)u->rank << 48 | (uint64_t)visit << 32 | (uint64_t)i << 16 | (uint64_t)n;
    for (int k = 1; k < n; k++)
        words[k] = word_of(words[0], k);
    return 8 * (size_t)n;
}

static int check(struct user *u, const uint64_t *words, size_t bytes)
{
    int rank = (int)(words[0] >> 48), visit = (int)(words[0] >> 32 & 0xffff);
    int i = (int)(words[0] >> 16 & 0xffff);
    struct sent *sent;

    WANT(bytes >= 8 && bytes == 8 * (size_t)(words[0] & 0xffff) && rank > 0
         && rank < u->run->processes && visit < VISITS && i < MESSAGES,
         "%zu bytes are received that begin with %llx", bytes, (unsigned long long)words[0]);
    for (size_t k = 1; k < bytes / 8; k++)
        WANT(words[k] == word_of(words[0], (int)k), "word %zu of message %llx is %llx", k,
             (unsigned long long)words[0], (unsigned long long)words[k]);
    sent = &u->s->sent[rank][visit][i];
    WANT(!sent->received, "message %llx is received twice", (unsigned long long)words[0]);
    WANT(i >= u->s->last[rank][visit], "message %llx is received behind number %d",
         (unsigned long long)words[0], u->s->last[rank][visit]);
    sent->received = true;
    u->s->last[rank][visit] = i;
    return SIM_FINE;
}

/* ---- places ---- */

/* Who sends leaves one for who receives. */
static int take_place(struct user *u)
{
    int vacant = 0;

    for (int i = 0; i < u->s->places; i++)
        vacant += u->s->place[i].state == VACANT;
    if (vacant < 2 && u->rank != receiver_of(u->run) && !u->s->receives)
        return 0;
    for (int i = 0; i < u->s->places; i++)
        if (u->s->place[i].state == VACANT) {
            u->s->place[i] = (struct place){ TAKEN, u->rank };
            u->place = i;
            return 1;
        }
    return 0;
}

static int may_come(void *arg)
{
    struct user *u = arg;

    return loci_sim_is_stopped(0) || loci_sim_is_stopped(receiver_of(u->run))
           || (u->s->ready && take_place(u));
}

static int come(struct user *u, bool receives)
{
    sim_wait(u->rt, may_come, u);
    if (u->place < 0)
        return SIM_TOLD;                /* the host has stopped, or who receives */
    TRY(u->run, sim_hosted_mailbox_use(u->rt, u->run->one_node, u->s->places, u->place, &options,
                                       &u->s->key, receives, &u->box));
    u->s->receivers += receives;
    u->s->receives = u->s->receives || receives;
    return SIM_FINE;
}

static void go(struct user *u)
{
    if (u->rank == receiver_of(u->run))
        u->s->receives = false;
    loco_mailbox_destroy(u->box);
    u->box = NULL;
    u->s->place[u->place].state = LEFT;
    u->place = -1;
}

/* ---- senders ---- */

static int send(struct user *u, int visit, int i)
{
    uint64_t words[WORDS_MAX];
    size_t bytes = make(u, visit, i, words);
    int status;

    u->s->sent[u->rank][visit][i].pieces = bytes > SHORT;
    while ((status = loco_mailbox_send_timed(u->box, LOOK(u->run), words,
                                             bytes)) == LOCO_ERR_TIMEOUT)
        if (loci_sim_is_stopped(receiver_of(u->run)))
            return SIM_TOLD;
    TRY(u->run, status);
    u->s->sent[u->rank][visit][i].told = true;
    return SIM_FINE;
}

static int sender(struct user *u)
{
    for (int visit = 0; visit < u->run->rounds; visit++) {
        int n = 1 + (int)loci_sim_draw(MESSAGES);

        PASS(come(u, false));
        for (int i = 0; i < n; i++)
            PASS(send(u, visit, i));
        go(u);
    }
    return SIM_FINE;
}

/* ---- the receiver ---- */

static bool all_sent(const struct user *u)
{
    for (int i = 1; i < u->run->processes; i++)
        if (i != receiver_of(u->run) && !u->s->ended[i] && !loci_sim_is_stopped(i))
            return false;
    return true;
}

/* For a while, or until nothing comes any more. */
static int receive_some(struct user *u, int most)
{
    uint64_t words[WORDS_MAX];
    size_t bytes;

    for (int i = 0; i < most || most == 0;) {
        bool over = all_sent(u);
        int status = loco_mailbox_receive(u->box, LOOK(u->run), words, sizeof words, NULL,
                                          &bytes);

        if (status == LOCO_ERR_TIMEOUT && over) {
            u->s->over = true;
            return SIM_FINE;
        }
        if (status == LOCO_ERR_TIMEOUT)
            continue;
        TRY(u->run, status);
        PASS(check(u, words, bytes));
        i++;
    }
    return SIM_FINE;
}

static int receiver(struct user *u)
{
    while (!u->s->over) {
        PASS(come(u, true));
        PASS(receive_some(u, 1 + (int)loci_sim_draw(12)));
        go(u);
    }
    return SIM_FINE;
}

/* ---- the host ---- */

static bool has_gone(const struct user *u, const struct place *p)
{
    return p->state == LEFT
           || (p->state == TAKEN
               && loco_group_alive(loco_everyone(u->rt), p->process) != LOCO_OK);
}

static bool is_over(const struct user *u)
{
    int receiver = receiver_of(u->run);

    return all_sent(u)
           && (u->s->over || loci_sim_is_stopped(receiver) || u->s->ended[receiver]);
}

static int has_work(void *arg)
{
    const struct user *u = arg;

    for (int i = 0; i < u->s->places; i++)
        if (has_gone(u, &u->s->place[i]))
            return 1;
    return is_over(u);
}

static int look_after(struct user *u)
{
    while (!is_over(u)) {
        sim_wait(u->rt, has_work, u);
        for (int i = 0; i < u->s->places; i++)
            if (has_gone(u, &u->s->place[i])
                && sim_hosted_mailbox_vacate(u->host, i, u->s->place[i].process) == LOCO_OK)
                u->s->place[i].state = VACANT;
        loci_sim_sleep(PAUSE);
    }
    return SIM_FINE;
}

/* Where process 0 receives, too: with place 0, which nobody else takes. */
static int serve(void *arg, int thread)
{
    struct user *u = arg;
    struct user r = *u;
    int result;

    if (thread == 0)
        return look_after(u);
    r.place = 0;
    TRY(u->run, sim_hosted_mailbox_use(u->rt, u->run->one_node, u->s->places, 0, &options,
                                       &u->s->key, true, &r.box));
    u->s->receivers++;
    u->s->receives = true;
    result = receive_some(&r, 0);
    loco_mailbox_destroy(r.box);
    return result;
}

static int host(struct user *u)
{
    TRY(u->run, sim_hosted_mailbox_host(u->rt, u->run->one_node, u->s->places, &options,
                                        &u->s->key, &u->host));
    if (!u->run->one_node)
        u->s->place[0] = (struct place){ TAKEN, 0 };
    u->s->ready = true;
    return sim_threads(u->rt, u->run->one_node ? 1 : 2, serve, u);
}

/* ---- the body ---- */

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank, .place = -1 };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->places = 2 + (int)loci_sim_draw(PLACES_MOST - 1);
    }
    result = rank == 0 ? host(&u) : rank == receiver_of(run) ? receiver(&u) : sender(&u);
    s->ended[rank] = true;
    result = sim_part(&seat, result);
    loco_mailbox_destroy(u.box);
    loco_mailbox_destroy(u.host);
    return result;
}

static int begin(struct sim_run *run)
{
    return run->processes > PROCESSES || run->rounds > VISITS
           ? -1 : sim_state_begin(run, sizeof(struct state));
}

/* Where the receiver took all that there was. */
static int end(struct sim_run *run)
{
    const struct state *s = run->state;

    for (int rank = 1; rank < run->processes && s->over; rank++)
        for (int visit = 0; visit < run->rounds; visit++)
            for (int i = 0; i < MESSAGES; i++) {
                const struct sent *sent = &s->sent[rank][visit][i];

                WANT(!sent->told || sent->received || (sent->pieces && s->receivers > 1),
                     "p%d was told that message %d of visit %d is sent, and nobody received it",
                     rank, i, visit);
            }
    return SIM_FINE;
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_hosted_mailbox;
const struct sim_scenario sim_scenario_hosted_mailbox = {
    .name = "hosted_mailbox",
    .about = "a mailbox that one process keeps while others come, take the places of those before "
             "them, and leave or stop: each message is received once, whole and in order",
    .processes = 4, .threads = 1, .rounds = 3, .processes_min = 3,
    .settings = settings,
    .begin = begin, .body = body, .end = end, .free = sim_state_free,
};

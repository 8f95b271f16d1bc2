/* SPDX-License-Identifier: BSD-3-Clause */

/* The owner's threads store numbers, as many words as the value has; readers see no mixture, no
 * past, and what a fence or a pull promises. */

#include "config.h"

#include "scenario_util.h"

#define WORDS_MAX 6

struct state {
    struct sim_state common;
    bool drawn;
    int owner, words;
    enum loco_owned_mode mode;
    bool turn;                  /* an owner's thread is at it: gives its values one order */
    uint64_t begun, stored;     /* stores that have begun, and ended */
    uint64_t pushed[64];        /* by reader: what is visible there */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_owned_var_t *var;
    int rank;
};

static void choose(struct state *s, int n)
{
    static const int words[] = { 1, 2, 3, WORDS_MAX };

    if (s->drawn)
        return;
    s->drawn = true;
    s->owner = (int)loci_sim_draw((uint32_t)n);
    s->words = words[loci_sim_draw(4)];
    s->mode = loci_sim_draw(2) == 0 ? LOCO_OWNED_PUSH : LOCO_OWNED_PULL;
}

/* ---- the owner ---- */

static void visible(struct state *s, int reader, uint64_t number)
{
    if (s->pushed[reader % 64] < number)
        s->pushed[reader % 64] = number;
}

/* By each of the four calls; sometimes with a fence, after which readers must see it. */
static int push(struct user *u, uint64_t number)
{
    struct state *s = u->s;
    int n = u->run->processes, reader = (int)loci_sim_draw((uint32_t)n);
    bool all = loci_sim_draw(2) == 0;
    loco_ack_t ack = LOCO_ACK_INIT;

    switch (loci_sim_draw(3)) {
    case 0:
        TRY(u->run, all ? loco_owned_var_push_all(u->var) : loco_owned_var_push(u->var, reader));
        break;
    case 1:
        TRY(u->run, all ? loco_owned_var_push_all_ack(u->var, &ack)
                        : loco_owned_var_push_ack(u->var, reader, &ack));
        break;
    default:
        all = false;
        TRY(u->run, loco_owned_var_push_some(u->var, &reader, 1));
    }
    if (loci_sim_draw(2) == 0)
        return SIM_FINE;
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    for (int i = 0; i < n; i++)
        if (all || i == reader)
            visible(s, i, number);
    return SIM_FINE;
}

static int write_once(struct user *u)
{
    struct state *s = u->s;
    uint64_t value[WORDS_MAX], number = s->begun + 1;

    for (int i = 0; i < s->words; i++)
        value[i] = number * 1000 + (uint64_t)i;
    s->begun = number;
    TRY(u->run, loco_owned_var_store(u->var, value));
    s->stored = number;
    visible(s, s->owner, number);
    return s->mode == LOCO_OWNED_PUSH ? push(u, number) : SIM_FINE;
}

static int is_nobodys_turn(void *arg)
{
    const struct state *s = arg;

    return !s->turn;
}

static int writer(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++) {
        int result;

        TRY(u->run, sim_wait(u->rt, is_nobodys_turn, u->s));
        u->s->turn = true;
        result = write_once(u);
        u->s->turn = false;
        PASS(result);
    }
    return SIM_FINE;
}

/* ---- readers ---- */

/* The number that a value is of, at least `least`. */
static int check_value(struct user *u, const uint64_t *value, uint64_t least, uint64_t *number)
{
    struct state *s = u->s;

    *number = value[0] / 1000;
    for (int i = 0; i < s->words; i++)
        WANT(value[i] == (*number == 0 ? 0 : *number * 1000 + (uint64_t)i),
             "p%d reads a mixture: word 0 is %llu, word %d is %llu", u->rank,
             (unsigned long long)value[0], i, (unsigned long long)value[i]);
    WANT(*number <= s->begun, "p%d reads value %llu, which was not stored", u->rank,
         (unsigned long long)*number);
    WANT(*number >= least, "p%d reads value %llu, and should see %llu", u->rank,
         (unsigned long long)*number, (unsigned long long)least);
    return SIM_FINE;
}

static int reader(void *arg, int thread)
{
    struct user *u = arg;
    struct state *s = u->s;
    bool kept = s->mode == LOCO_OWNED_PULL;     /* what is pulled becomes the copy here */
    uint64_t value[WORDS_MAX], last = 0, least, number;

    (void)thread;
    for (int i = 0; i < 2 * u->run->rounds; i++) {
        bool pull = loci_sim_draw(4) < (kept ? 3 : 1);

        /* A pull is as new as the call; a load as what was pushed or pulled here. Of a pushed
         * variable a pull reads past the copy here, which may be behind. */
        least = pull ? s->stored : s->pushed[u->rank % 64];
        TRY(u->run, pull ? loco_owned_var_pull(u->var, value)
                         : loco_owned_var_load(u->var, value));
        PASS(check_value(u, value, last > least ? last : least, &number));
        if (!pull || kept)
            last = number;
        if (pull && kept)
            visible(s, u->rank, number);
    }
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    struct state *s = u->s;
    uint64_t value[WORDS_MAX], number;
    int n = u->run->threads;

    PASS(sim_ready(u->run, seat));
    if (u->rank != s->owner)
        WANT(loco_owned_var_store(u->var, value) == LOCO_ERR_STATE, "p%d stores, and is no owner",
             u->rank);
    PASS(sim_threads(u->rt, n, u->rank == s->owner ? writer : reader, u));
    if (u->rank == s->owner && s->mode == LOCO_OWNED_PUSH) {
        TRY(u->run, loco_owned_var_push_all(u->var));
        TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    }
    TRY(u->run, sim_meet(seat));
    TRY(u->run, s->mode == LOCO_OWNED_PUSH ? loco_owned_var_load(u->var, value)
                                           : loco_owned_var_pull(u->var, value));
    return check_value(u, value, s->stored, &number);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    choose(s, run->processes);
    TRY(run, loco_owned_var_create(rt, NULL, "var", loco_everyone(rt), s->owner,
                                   8 * (size_t)s->words, s->mode, &u.var));
    result = sim_part(&seat, use(&u, &seat));
    loco_owned_var_destroy(u.var);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_owned_var;
const struct sim_scenario sim_scenario_owned_var = {
    .name = "owned_var",
    .about = "of 1 to 6 words, pushed or pulled: no mixture of values, none of the past, what was "
             "fenced or stored before a pull is seen",
    .processes = 3, .threads = 2, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

/* SPDX-License-Identifier: BSD-3-Clause */

/* Reads, writes and atomics of words at all processes, with no order but what region.h gives. */

#include "config.h"

#include "scenario_util.h"

#define WORDS 8     /* of a part, before a block per process: 0 the counter, 1 the chain */
#define BLOCK_WORDS 3
#define LEN(n) (8 * (size_t)(WORDS + BLOCK_WORDS * (n)))

struct state {
    struct sim_state common;
    uint64_t added, swapped;    /* by all */
    bool seen_count[4096];      /* old values that fetch_add has returned */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_region_t *region;
    int rank;
    uint64_t last_seen[64];     /* by process: of its first word at its neighbour */
};

static uint64_t block_of(int rank)
{
    return 8 * (uint64_t)(WORDS + BLOCK_WORDS * rank);
}

static int count(struct user *u)
{
    uint64_t old = 0;

    TRY(u->run, loco_region_fetch_add(u->region, 0, 0, 1, &old));
    u->s->added++;
    WANT(old < 4096 && !u->s->seen_count[old], "p%d: fetch_add returns %llu a second time", u->rank,
         (unsigned long long)old);
    u->s->seen_count[old] = true;
    return SIM_FINE;
}

static int swap(struct user *u)
{
    uint64_t seen = 0, old = 0;

    for (;;) {
        TRY(u->run, loco_region_compare_swap(u->region, 0, 8, seen, seen + 1, &old));
        WANT(old <= u->s->swapped + (uint64_t)(u->run->processes * u->run->threads),
             "p%d: compare_swap returns %llu, never stored", u->rank, (unsigned long long)old);
        if (old == seen)
            break;
        seen = old;
    }
    u->s->swapped++;
    return SIM_FINE;
}

/* In one piece, or as blocks of a word from every second one of the source; in either order. */
static int write_words(struct user *u, int at, const uint64_t *block, loco_ack_t *ack)
{
    const loco_blocks_t words = { BLOCK_WORDS, 8, 8, 16 };
    const loco_blocks_t back = { BLOCK_WORDS, 8, -8, -16 };
    const uint64_t last = block_of(u->rank) + 8 * (BLOCK_WORDS - 1);

    switch (loci_sim_draw(3)) {
    case 0:
        return loco_region_write_ack(u->region, at, block_of(u->rank), block, 8 * BLOCK_WORDS,
                                     ack);
    case 1:
        return loco_region_write_blocks_ack(u->region, at, block_of(u->rank), block, &words, ack);
    default:
        return loco_region_write_blocks_ack(u->region, at, last, block + 2 * (BLOCK_WORDS - 1),
                                            &back, ack);
    }
}

/* A block of this process's own at another, whose source is used again once its ack says so; a
 * read of the same thread sees it. */
static int write_block(struct user *u, uint64_t number)
{
    uint64_t block[2 * BLOCK_WORDS], back[BLOCK_WORDS] = { 0 };
    int at = (u->rank + 1) % u->run->processes;
    loco_ack_t ack = LOCO_ACK_INIT;
    int status, counted = SIM_FINE;

    for (int i = 0; i < 2 * BLOCK_WORDS; i++)
        block[i] = number;
    TRY(u->run, write_words(u, at, block, &ack));
    if (loci_sim_draw(2) == 0)
        counted = count(u);
    status = loco_ack_wait(u->rt, &ack);        /* whatever else: the source is in this frame */
    PASS(counted);
    TRY(u->run, status);
    memset(block, 0xee, sizeof block);
    TRY(u->run, loco_region_read(u->region, at, block_of(u->rank), back, sizeof back));
    for (int i = 0; i < BLOCK_WORDS; i++)
        WANT(back[i] == number, "p%d reads back %llu, wrote %llu at p%d", u->rank,
             (unsigned long long)back[i], (unsigned long long)number, at);
    return SIM_FINE;
}

/* Others' blocks only grow, word by word. */
static int read_others(struct user *u)
{
    int n = u->run->processes, of = (int)loci_sim_draw((uint32_t)n), at = (of + 1) % n;
    uint64_t value = 0;

    TRY(u->run, loco_region_read64(u->region, at, block_of(of), &value));
    WANT(value <= (uint64_t)u->run->rounds, "p%d reads %llu, which p%d never wrote", u->rank,
         (unsigned long long)value, of);
    WANT(value >= u->last_seen[of % 64], "p%d reads %llu after %llu at p%d", u->rank,
         (unsigned long long)value, (unsigned long long)u->last_seen[of % 64], at);
    u->last_seen[of % 64] = value;
    return SIM_FINE;
}

static int refused(struct user *u)
{
    uint64_t old, len = LEN(u->run->processes);

    WANT(loco_region_write64(u->region, 0, len - 4, 7) != LOCO_OK, "half a word is written");
    WANT(loco_region_read64(u->region, u->run->processes, 0, &old) == LOCO_ERR_ARG,
         "no such rank is read");
    WANT(loco_region_fetch_add(u->region, 0, len, 1, &old) == LOCO_ERR_RANGE,
         "a word outside is added to");
    return SIM_FINE;
}

/* Words are counted by all threads, blocks written by the first. */
static int thread_main(void *arg, int thread)
{
    struct user *u = arg;

    for (int i = 1; i <= u->run->rounds; i++) {
        if (thread == 0)
            PASS(write_block(u, (uint64_t)i));
        switch (loci_sim_draw(3)) {
        case 0: PASS(count(u)); break;
        case 1: PASS(swap(u)); break;
        default:
            if (thread == 0)
                PASS(read_others(u));
        }
    }
    return SIM_FINE;
}

/* What was told to be added is there; with `exact` nothing else is. */
static int check_totals(struct user *u, bool exact)
{
    uint64_t added = u->s->added, swapped = u->s->swapped, value = 0;

    TRY(u->run, loco_region_read64(u->region, 0, 0, &value));
    WANT(value >= added && (!exact || value == added), "the counter is %llu after %llu additions",
         (unsigned long long)value, (unsigned long long)added);
    TRY(u->run, loco_region_read64(u->region, 0, 8, &value));
    WANT(value >= swapped && (!exact || value == swapped), "the chain is %llu after %llu swaps",
         (unsigned long long)value, (unsigned long long)swapped);
    return SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    int result;

    PASS(sim_ready(u->run, seat));
    PASS(refused(u));
    result = sim_threads(u->rt, u->run->threads, thread_main, u);
    if (result == SIM_FINE)
        result = sim_check(u->run, sim_meet(seat), "meeting");
    if (result == SIM_WRONG)
        return result;
    PASS(check_totals(u, result == SIM_FINE));
    return result;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    TRY(run, loco_region_create(rt, NULL, "region", loco_everyone(rt), LEN(run->processes),
                                &u.region));
    result = sim_part(&seat, use(&u, &seat));
    loco_region_destroy(u.region);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_region;
const struct sim_scenario sim_scenario_region = {
    .name = "region",
    .about = "a thread reads back what it wrote, sources are free after their acks, words only "
             "grow, atomics lose nothing",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};

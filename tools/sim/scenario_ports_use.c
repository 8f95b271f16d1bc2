/* SPDX-License-Identifier: BSD-3-Clause */

/* What a thread does to its part of a target's memory, by way of the agent. Several operations are
 * in flight at once; what they bring is what the thread has written before, in order. Nobody else
 * writes there. */

#include "config.h"

#include "move/rma.h"
#include "scenario_ports.h"
#include "wait.h"

#define SCRIPT 7                /* operations in flight, at most */
#define STEPS 6                 /* of a visit */
#define WORD 8

struct use {
    struct ports_user *u;
    int thread, target;
    struct ports_model *m;
    uint64_t part;              /* where it is in the target's memory */
    loco_ack_t ack;
    int64_t checked;            /* when the last call returned */
    int n;
    struct awaited {            /* what has to come */
        bool is_word, counts;
        uint64_t word, want_word;
        size_t len;
        unsigned char bytes[PART_BYTES], want[PART_BYTES];
    } awaited[SCRIPT];
    bool reads;                 /* nothing is written behind a read that may see it */
    unsigned char source[SCRIPT][PART_BYTES];
};

static struct loci_mem *mem(const struct use *s)
{
    return &s->u->mem[s->target];
}

/* After a refusal a call waits for what is under way, but not for ever: time may pass in leaps. */
static bool is_late(const struct use *s, int status)
{
    return (status == LOCO_ERR_UNSUPPORTED || status == LOCO_ERR_RANGE)
           && loci_sim_time() - s->checked >= loci_grace(s->u->rt);
}

static int checked(struct use *s, int status, const char *call)
{
    int result = is_late(s, status) ? SIM_TOLD : ports_check(s->u, s->target, status, call);

    s->checked = loci_sim_time();

    if (result != SIM_FINE)
        s->m->broken = true;
    return result;
}

/* ---- operations ---- */

static size_t draw_len(void)
{
    static const uint32_t most[] = { 8, 8, 40, PART_BYTES };

    return 1 + loci_sim_draw(most[loci_sim_draw(4)]);
}

static int write_some(struct use *s)
{
    size_t len = draw_len(), at = loci_sim_draw((uint32_t)(PART_BYTES - len + 1));
    unsigned char *source = s->source[s->n];

    for (size_t i = 0; i < len; i++)
        source[i] = (unsigned char)loci_sim_draw(256);
    memcpy(s->m->bytes + at, source, len);
    return checked(s, loci_write(s->u->rt, mem(s), s->part + at, source, len, &s->ack), "write");
}

static int read_some(struct use *s)
{
    struct awaited *a = &s->awaited[s->n];
    size_t len = draw_len(), at = loci_sim_draw((uint32_t)(PART_BYTES - len + 1));

    *a = (struct awaited){ .len = len };
    memcpy(a->want, s->m->bytes + at, len);
    s->reads = true;
    return checked(s, loci_read(s->u->rt, mem(s), s->part + at, a->bytes, len, &s->ack), "read");
}

static int add_to_word(struct use *s)
{
    struct awaited *a = &s->awaited[s->n];
    uint64_t add = 1 + loci_sim_draw(100);

    *a = (struct awaited){ .is_word = true, .want_word = s->m->word[0] };
    s->m->word[0] += add;
    return checked(s, loci_fetch_add(s->u->rt, mem(s), s->part + PART_BYTES, add, &a->word,
                                     &s->ack), "fetch and add");
}

/* Half of them expect what is not there. */
static int swap_word(struct use *s)
{
    struct awaited *a = &s->awaited[s->n];
    uint64_t old = s->m->word[1], expected = old + loci_sim_draw(2), desired = old + 7;

    *a = (struct awaited){ .is_word = true, .want_word = old };
    if (expected == old)
        s->m->word[1] = desired;
    return checked(s, loci_compare_swap(s->u->rt, mem(s), s->part + PART_BYTES + WORD, expected,
                                        desired, &a->word, &s->ack), "compare and swap");
}

static int count_one(struct use *s)
{
    struct awaited *a = &s->awaited[s->n];

    *a = (struct awaited){ .counts = true };
    s->m->unsure++;
    return checked(s, loci_fetch_add(s->u->rt, mem(s), ports_counter(s->u->run, s->u->s), 1,
                                     &a->word, &s->ack), "count");
}

static int one(struct use *s)
{
    switch (loci_sim_draw(6)) {
    case 0: return add_to_word(s);
    case 1: return swap_word(s);
    case 2: return count_one(s);
    case 3: return read_some(s);
    default: return s->reads ? read_some(s) : write_some(s);
    }
}

/* ---- what came ---- */

static int check_one(const struct use *s, const struct awaited *a)
{
    if (a->counts) {
        s->m->counted++;
        s->m->unsure--;
    }
    if (a->is_word)
        WANT(a->word == a->want_word, "p%d.t%d: a word at p%d was %d, and should have been %d",
             s->u->rank, s->thread, s->target, (int)a->word, (int)a->want_word);
    WANT(memcmp(a->bytes, a->want, a->len) == 0, "p%d.t%d: %d bytes read at p%d are not those "
         "that were written", s->u->rank, s->thread, (int)a->len, s->target);
    return SIM_FINE;
}

static int script(struct use *s)
{
    int n = 1 + (int)loci_sim_draw(SCRIPT);

    s->ack = (loco_ack_t)LOCO_ACK_INIT;
    s->reads = false;
    memset(s->awaited, 0, sizeof s->awaited);
    for (s->n = 0; s->n < n; s->n++) {
        int result = one(s);

        if (result != SIM_FINE) {
            (void)loco_ack_wait(s->u->rt, &s->ack);     /* its buffers are this thread's */
            return result;
        }
    }
    PASS(checked(s, loco_ack_wait(s->u->rt, &s->ack), "a wait"));
    for (int i = 0; i < n; i++)
        PASS(check_one(s, &s->awaited[i]));
    return SIM_FINE;
}

/* What is placed is there for whoever looks at the memory. */
static int place(struct use *s)
{
    const unsigned char *there = s->u->s->memory[s->target] + s->part;

    PASS(checked(s, loci_fence_peer(s->u->rt, LOCO_FENCE_PAIR, s->u->target[s->target]), "fence"));
    if (loci_sim_is_stopped(s->target))
        return SIM_FINE;
    WANT(memcmp(there, s->m->bytes, PART_BYTES) == 0,
         "p%d.t%d: what was written is not placed at p%d after a fence", s->u->rank, s->thread,
         s->target);
    return SIM_FINE;
}

/* ---- what is refused ---- */

/* With a write behind it, which must not be done where the one in front was not; then all is told,
 * and the lane goes on. */
static int be_refused(struct use *s)
{
    const uint64_t guard = ports_bytes(s->u->run, s->u->s) - GUARD;
    uint64_t word = loci_sim_draw(1000), at = loci_sim_draw(2) == 0 ? 0 : guard;
    const unsigned char *there = s->u->s->memory[s->target] + s->part;
    int status, second;

    PASS(place(s));
    status = loci_write64(s->u->rt, mem(s), at, word, NULL);
    if (loci_sim_draw(2) == 0)
        (void)loci_write64(s->u->rt, mem(s), s->part, ~word, NULL);
    second = loci_fence_peer(s->u->rt, LOCO_FENCE_PAIR, s->u->target[s->target]);
    if (status == LOCO_ERR_PEER_DEAD || second == LOCO_ERR_PEER_DEAD)
        return checked(s, LOCO_ERR_PEER_DEAD, "a refused write");
    WANT(status != LOCO_OK || second != LOCO_OK, "p%d.t%d wrote to p%d what was not granted",
         s->u->rank, s->thread, s->target);
    WANT(memcmp(there, s->m->bytes, PART_BYTES) == 0,
         "p%d.t%d: a write behind a refused one was done at p%d", s->u->rank, s->thread, s->target);
    return SIM_FINE;
}

/* ---- a visit ---- */

/* What the visit before left under way is placed before this is read. */
static int learn(struct use *s)
{
    unsigned char part[PART];

    PASS(checked(s, loci_read(s->u->rt, mem(s), s->part, part, PART, NULL), "first read"));
    memcpy(s->m->bytes, part, PART_BYTES);
    memcpy(s->m->word, part + PART_BYTES, sizeof s->m->word);
    return SIM_FINE;
}

static int step(struct use *s)
{
    switch (loci_sim_draw(8)) {
    case 0: return s->u->moves ? place(s) : be_refused(s);
    case 1: return place(s);
    default: return script(s);
    }
}

/* Deaths: who is told of a target's goes on with others. */
static int work(struct use *s, bool *known)
{
    struct ports_user *u = s->u;

    s->target = ports_first_target(u->s) + (int)loci_sim_draw((uint32_t)u->s->targets);
    s->m = &u->s->model[u->rank][s->thread][s->target];
    if (s->m->broken)
        return SIM_FINE;
    if (!known[s->target])
        PASS(learn(s));
    known[s->target] = true;
    return step(s);
}

static int one_thread(struct ports_user *u, int thread)
{
    bool known[PORTS_PROCESSES] = { false };
    struct use *s = calloc(1, sizeof *s);
    int result = s != NULL ? SIM_FINE : SIM_WRONG;

    if (s != NULL)
        *s = (struct use){ .u = u, .thread = thread, .part = ports_part(u->run, u->rank, thread) };
    u->thread[thread] = loci_self(u->rt);
    for (int i = 0; i < STEPS && result == SIM_FINE; i++) {
        result = work(s, known);
        if (result == SIM_TOLD && !loci_sim_is_stopped(0))
            result = SIM_FINE;
    }
    free(s);
    return result;
}

/* ---- moving ---- */

/* From the port to a connection of its own, or back. */
static int move_one(const struct ports_user *u)
{
    const struct loci_detour *detour = atomic_load_explicit(&u->rt->detour, memory_order_relaxed);
    int target = ports_first_target(u->s) + (int)loci_sim_draw((uint32_t)u->s->targets);
    struct loci_thread *thread = u->thread[loci_sim_draw((uint32_t)u->run->threads)];
    struct loci_lane *lane;
    bool is_own;
    int status;

    lane = thread != NULL ? atomic_load(&thread->lanes[u->target[target]]) : NULL;
    if (lane == NULL)
        return SIM_FINE;
    is_own = loci_lane_way(lane) == &u->rt->way;
    status = loci_lane_move(lane, is_own ? &detour->way : &u->rt->way);
    WANT(status != LOCO_OK || (loci_lane_way(lane) == &u->rt->way) != is_own,
         "p%d: a lane has moved, and goes where it went", u->rank);
    u->s->moved += status == LOCO_OK;
    return status == LOCO_ERR_STATE || status == LOCO_ERR_PEER_DEAD
           ? SIM_FINE : ports_check(u, target, status, "move");
}

static int move_lanes(const struct ports_user *u)
{
    while (u->working > 0) {
        PASS(move_one(u));
        for (uint32_t i = loci_sim_draw(20); i > 0; i--)
            loci_sim_pause();
    }
    return SIM_FINE;
}

static int thread_of(void *arg, int thread)
{
    struct ports_user *u = arg;
    int result;

    if (thread == u->run->threads)
        return move_lanes(u);
    result = one_thread(u, thread);
    u->working--;
    return result;
}

int ports_use(struct ports_user *u)
{
    u->working = u->run->threads;
    memset(u->thread, 0, sizeof u->thread);
    return sim_threads(u->rt, u->run->threads + u->moves, thread_of, u);
}

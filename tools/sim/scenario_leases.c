/* SPDX-License-Identifier: BSD-3-Clause */

/* Leases of keys: the owner lends pieces of its memory, withdraws them and uses them for something
 * else as soon as it is told that they are free; holders read and write what they hold a lease of,
 * and are stopped for more than a lease now and then, also between their look at the lease and
 * their post. Each word says which use of the piece it is of: nobody ever sees, or leaves, one of
 * another. */

#include "config.h"

#include "fabric/port/lease.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "scenario_util.h"
#include "wait.h"

#define PROCESSES 6
#define PIECES 3
#define WORDS 4
#define LENT 6                  /* uses for each round */
#define TRIES 10                /* of a holder for each round */

struct piece {
    bool lent;
    uint32_t record;
    uint64_t version;
    uint64_t use;               /* in the upper half of each of its words */
};

struct state {
    struct sim_state common;    /* first */
    struct loci_address address[PROCESSES];
    bool known[PROCESSES], ended[PROCESSES];
    struct loci_lease_board board;
    struct loci_memkey key;
    int holder[PROCESSES];
    bool ready, over;           /* the owner: it lends; it lends no more */
    struct piece piece[PIECES];
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    int rank;
    struct loci_mem mem;        /* all pieces */
    /* the owner's: */
    unsigned char *mine;
    struct loci_leases *leases;
    int peer[PROCESSES];
    uint64_t use;
    /* a holder's: */
    int owner;
    struct loci_lease lease;
    bool dirty;                 /* it has written since it settled */
    loco_ack_t ack;             /* a read that may be under way: */
    bool reads;
    uint64_t word, word_use;
    bool late;                  /* it has held the lease for too long: it may be cut off */
};

static uint64_t word_at(int piece, int word)
{
    return 8 * (uint64_t)(piece * WORDS + word);
}

static bool is_over(const struct state *s, int rank)
{
    return s->ended[rank] || loci_sim_is_stopped(rank);
}

/* ---- the owner ---- */

static void fill(const struct user *u, int piece, uint64_t use)
{
    for (int i = 0; i < WORDS; i++)
        loci_store64(u->mine + word_at(piece, i), use << 32);
}

static int check_piece(const struct user *u, int piece, uint64_t use, const char *when)
{
    for (int i = 0; i < WORDS; i++) {
        uint64_t word = loci_load64(u->mine + word_at(piece, i));

        WANT(word >> 32 == use, "piece %d %s: a word of use %d, by p%d, was written in use %d",
             piece, when, (int)(word >> 32), (int)(word & 0xff), (int)use);
    }
    return SIM_FINE;
}

static int lend(struct user *u, int piece)
{
    struct piece *p = &u->s->piece[piece];
    struct piece one = { .lent = true, .use = ++u->use };

    fill(u, piece, one.use);
    TRY(u->run, loci_leases_lend(u->leases, &one.record, &one.version));
    *p = one;
    return SIM_FINE;
}

struct reclaim {
    struct user *u;
    uint32_t record;
};

static int is_free(void *arg)
{
    const struct reclaim *r = arg;
    int status = loci_leases_reclaim(r->u->leases, r->record, NULL, NULL);

    return status == LOCO_ERR_AGAIN ? 0 : status == LOCO_OK ? 1 : status;
}

/* It is something else's then: what is in it stays. */
static int take_back(struct user *u, int piece)
{
    const struct loci_reason why = { .what = "holders of a lease", .peer = -1,
                                     .timeout_ns = LOCO_FOREVER, .kind = LOCI_WAIT_SYNC };
    struct piece *p = &u->s->piece[piece];
    struct reclaim r = { u, p->record };

    p->lent = false;
    loci_leases_end(u->leases, p->record);
    TRY(u->run, loci_wait(u->rt, &why, is_free, &r));
    PASS(check_piece(u, piece, p->use, "when it is given back"));
    fill(u, piece, ++u->use);
    for (uint32_t i = loci_sim_draw(30); i > 0; i--)
        loci_sim_pause();
    return check_piece(u, piece, u->use, "while nobody holds it");
}

static int lend_all(struct user *u)
{
    for (int i = 0; i < PIECES; i++)
        PASS(lend(u, i));
    u->s->ready = true;
    for (int i = 0; i < u->run->rounds * LENT; i++) {
        int piece = (int)loci_sim_draw(PIECES);

        for (uint32_t j = loci_sim_draw(60); j > 0; j--)
            loci_sim_pause();
        PASS(take_back(u, piece));
        PASS(lend(u, piece));
    }
    for (int i = 0; i < PIECES; i++)
        PASS(take_back(u, i));
    return SIM_FINE;
}

static int all_known(void *arg)
{
    const struct user *u = arg;

    for (int i = 1; i < u->run->processes; i++)
        if (!u->s->known[i] && !loci_sim_is_stopped(i))
            return 0;
    return 1;
}

static int others_are_over(void *arg)
{
    const struct user *u = arg;

    for (int i = 1; i < u->run->processes; i++)
        if (!is_over(u->s, i))
            return 0;
    return 1;
}

static int let_in(struct user *u)
{
    for (int i = 1; i < u->run->processes; i++) {
        if (!u->s->known[i])
            continue;
        TRY(u->run, loci_peer_meet(u->rt, &u->s->address[i], &u->peer[i]));
        loci_peers_use(u->rt, &u->peer[i], 1);
        u->s->holder[i] = i - 1;
        loci_leases_admit(u->leases, i - 1, u->peer[i]);
    }
    return SIM_FINE;
}

/* Nothing arrives from anybody any more. */
static int all_dismissed(void *arg)
{
    struct user *u = arg;

    for (int i = 1; i < u->run->processes; i++)
        if (u->peer[i] > 0) {
            if (!u->s->ended[i] && loci_peer_alive(u->rt, u->peer[i]))
                return 0;
            if (loci_leases_dismiss(u->leases, u->s->holder[i]) != LOCO_OK)
                return 0;
            u->peer[i] = 0;
        }
    return 1;
}

static int be_owner(struct user *u)
{
    int result;

    TRY(u->run, loci_leases_open(u->rt, PIECES + 1, u->run->processes - 1, &u->leases));
    TRY(u->run, loci_alloc(u->rt, word_at(PIECES, 0), 0, &u->mem));
    u->mine = loci_mem_ptr(&u->mem);
    loci_leases_board(u->leases, &u->s->board);
    u->s->key = u->mem.key;
    sim_wait(u->rt, all_known, u);
    result = let_in(u);
    if (result == SIM_FINE)
        result = lend_all(u);
    u->s->over = true;
    sim_wait(u->rt, others_are_over, u);
    sim_wait(u->rt, all_dismissed, u);
    loci_leases_close(u->leases);
    loci_free(u->rt, &u->mem);
    return result;
}

/* ---- holders ---- */

/* The owner has died, or it has cut this one off, which takes a stop of its own. */
static int told(const struct user *u, int status, const char *call)
{
    if (status == LOCO_OK)
        return SIM_FINE;
    if (status == LOCO_ERR_PEER_DEAD)
        return SIM_TOLD;
    return loci_sim_fail("p%d: %s: %s", u->rank, call, loco_strerror(status));
}

static int check_word(const struct user *u, uint64_t use, uint64_t word)
{
    WANT(word >> 32 == use, "p%d: a word of use %d was read in use %d", u->rank, (int)(word >> 32),
         (int)use);
    return SIM_FINE;
}

static int finish_read(struct user *u)
{
    int status = u->reads ? loco_ack_wait(u->rt, &u->ack) : LOCO_OK;

    if (status == LOCO_OK && u->reads && check_word(u, u->word_use, u->word) != SIM_FINE)
        status = LOCO_ERR_STATE;
    u->reads = false;
    return status;
}

static int settle(void *arg)
{
    struct user *u = arg;
    int status = finish_read(u);

    if (status == LOCO_OK && u->dirty)
        status = loci_fence_peer(u->rt, LOCO_FENCE_PAIR, u->owner);
    u->dirty = u->dirty && status != LOCO_OK;
    return status;
}

struct stop {
    int64_t until;
};

static int has_passed(void *arg)
{
    const struct stop *s = arg;

    return loci_sim_time() >= s->until;
}

/* Nobody runs it for some leases. */
static void stand_still(struct user *u)
{
    struct stop s = { loci_sim_time() + u->rt->tunables.key_lease * (1 + loci_sim_draw(4)) };

    sim_wait(u->rt, has_passed, &s);
}

/* Until the owner has cut it off, which it does when it needs the memory; else until that ends. */
static int is_told(void *arg)
{
    const struct user *u = arg;

    return !loci_peer_alive(u->rt, u->owner) || is_over(u->s, 0) || u->s->over;
}

static int stand_still_for_ever(struct user *u)
{
    if (u->rt->address.node == u->s->address[0].node)
        return SIM_FINE;        /* it cannot be cut off */
    sim_wait(u->rt, is_told, u);
    u->late = true;
    if (loci_peer_alive(u->rt, u->owner))
        return SIM_FINE;
    WANT(loci_lease_check(&u->lease, 0, 0) == LOCO_ERR_AGAIN
         && loci_lease_renew(&u->lease) == LOCO_ERR_PEER_DEAD,
         "p%d was cut off, and goes on", u->rank);
    return SIM_TOLD;
}

static int begin_read(struct user *u, const struct piece *p, uint64_t at)
{
    PASS(told(u, finish_read(u), "read"));
    u->ack = (loco_ack_t)LOCO_ACK_INIT;
    u->reads = true;
    u->word_use = p->use;
    return told(u, loci_read64(u->rt, &u->mem, at, &u->word, &u->ack), "read");
}

/* It was allowed, some time ago. */
static int use_it(struct user *u, const struct piece *p, int piece)
{
    uint64_t at = word_at(piece, (int)loci_sim_draw(WORDS));

    if (loci_sim_draw(2) == 0)
        return begin_read(u, p, at);
    u->dirty = true;
    return told(u, loci_write64(u->rt, &u->mem, at, p->use << 32 | (uint64_t)u->rank, NULL),
                "write");
}

/* Who has stood still for a lease is told so by the next look. */
static int look(struct user *u, const struct piece *p, int64_t since)
{
    int status = loci_lease_check(&u->lease, p->record, p->version);

    WANT(status != LOCO_OK || loci_sim_time() - since < u->rt->tunables.key_lease,
         "p%d: a lease holds for %lld ns", u->rank, (long long)(loci_sim_time() - since));
    return status;
}

static void note_late(struct user *u, int64_t since)
{
    if (since > 0 && loci_sim_time() - since >= 2 * u->rt->tunables.key_lease)
        u->late = true;
}

/* What was lent before is found, unless it was withdrawn. */
static int renew(struct user *u, const struct piece *p, int piece)
{
    const struct piece *now = &u->s->piece[piece];

    PASS(told(u, loci_lease_renew(&u->lease), "renew"));
    WANT(!p->lent || !now->lent || now->version != p->version
         || loci_lease_has(&u->lease, p->record, p->version),
         "p%d does not find what is lent", u->rank);
    return SIM_FINE;
}

static int one(struct user *u, int64_t *since)
{
    int piece = (int)loci_sim_draw(PIECES);
    struct piece p = u->s->piece[piece];
    int status = look(u, &p, *since);

    note_late(u, *since);
    if (status == LOCO_ERR_AGAIN || (status == LOCO_ERR_STATE && loci_sim_draw(2) == 0)) {
        *since = loci_sim_time();
        return renew(u, &p, piece);
    }
    if (loci_sim_draw(16) == 0)
        stand_still(u);
    if (loci_sim_draw(64) == 0)
        PASS(stand_still_for_ever(u));
    return status == LOCO_OK ? use_it(u, &p, piece) : status == LOCO_ERR_STATE ? SIM_FINE
                                                                               : SIM_WRONG;
}

/* Who has released its lease in time, always, may be away for as long as it likes. */
static int be_away(struct user *u, int64_t *since)
{
    int status;

    PASS(told(u, loci_lease_release(&u->lease), "release"));
    note_late(u, *since);
    stand_still(u);
    *since = loci_sim_time();
    status = loci_lease_renew(&u->lease);
    note_late(u, *since);
    WANT(status != LOCO_ERR_PEER_DEAD || is_over(u->s, 0) || u->s->over || u->late,
         "p%d was cut off, and had released its lease", u->rank);
    return told(u, status, "renew");
}

static int use_all(struct user *u)
{
    int64_t since = 0;

    for (int i = 0; i < u->run->rounds * TRIES && !u->s->over; i++) {
        PASS(one(u, &since));
        if (since > 0 && loci_sim_draw(12) == 0)
            PASS(be_away(u, &since));
    }
    return told(u, loci_lease_release(&u->lease), "release");
}

static int is_ready(void *arg)
{
    const struct user *u = arg;

    return u->s->ready || is_over(u->s, 0);
}

static int be_holder(struct user *u)
{
    int result;

    u->s->known[u->rank] = true;
    sim_wait(u->rt, is_ready, u);
    if (!u->s->ready)
        return SIM_TOLD;
    TRY(u->run, loci_peer_meet(u->rt, &u->s->address[0], &u->owner));
    loci_peers_use(u->rt, &u->owner, 1);
    TRY(u->run, loci_mem_import(u->rt, u->owner, &u->s->key, &u->mem));
    TRY(u->run, loci_lease_init(u->rt, u->owner, &u->s->board, u->s->holder[u->rank], settle, u,
                                &u->lease));
    result = use_all(u);
    loci_lease_fini(&u->lease);
    return result;
}

/* ---- the body ---- */

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    s->address[rank] = rt->address;
    result = rank == 0 ? be_owner(&u) : be_holder(&u);
    s->ended[rank] = true;
    sim_leave(&seat);
    return result == SIM_WRONG ? SIM_WRONG : 0;
}

static int begin(struct sim_run *run)
{
    return run->processes > PROCESSES || run->threads > 1
           ? -1 : sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_KEY_LEASE=100us", NULL };

const struct sim_scenario sim_scenario_leases = {
    .name = "leases",
    .about = "memory that is lent, withdrawn and used for something else, while holders of its "
             "keys stand still for longer than their lease",
    .processes = 3, .threads = 1, .rounds = 2, .processes_min = 2,
    .settings = settings, .begin = begin, .body = body, .free = sim_state_free,
};

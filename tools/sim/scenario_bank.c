/* SPDX-License-Identifier: BSD-3-Clause */

/* The bank of the LOCO paper, section 7.1: accounts are atomic variables, striped over the
 * processes, as are ticket locks that each guard some of them. A transaction takes the locks of its
 * accounts in ascending order, so that nobody waits in a circle. Two channels are composed here: a
 * store to an atomic variable is done at its host when it returns, so the locks are given back
 * without a fence. */

#include "config.h"

#include "scenario_util.h"

enum {
    ACCOUNTS = 4, LOCKS = 3, START = 3,             /* explored */
    SCALE_ACCOUNTS = 1000, SCALE_LOCKS = 341,       /* accounts of each process */
    SCALE_TRANSACTIONS = 16                         /* of a call */
};

struct state {
    struct sim_state common;
    uint64_t balance[ACCOUNTS];     /* what they are, by what is done under the locks */
    bool unsure[ACCOUNTS];          /* who changed it was told of a death */
};

struct bank {
    loco_atomic_array_t *accounts;
    loco_ticket_array_t *locks;
};

struct user {
    struct sim_run *run;
    struct state *s;
    struct bank bank;
    int locks, rank;
};

extern const struct sim_scenario sim_scenario_bank, sim_scenario_bank_single;

static int bank_create(loco_runtime_t *rt, uint64_t accounts, int locks, struct bank *bank)
{
    const loco_group_t *all = loco_everyone(rt);
    int status = loco_atomic_array_create(rt, NULL, "accounts", all, accounts,
                                          LOCO_ATOMIC_STRIPED, &bank->accounts);

    return status != LOCO_OK ? status
           : loco_ticket_array_create(rt, NULL, "locks", all, locks, &bank->locks);
}

static void bank_destroy(struct bank *bank)
{
    loco_ticket_array_destroy(bank->locks);
    loco_atomic_array_destroy(bank->accounts);
}

/* ---- exploration ---- */

static int read_account(struct user *u, int account, uint64_t *balance)
{
    struct state *s = u->s;

    TRY(u->run, loco_atomic_array_load(u->bank.accounts, (uint64_t)account, balance));
    WANT(s->unsure[account] || *balance == s->balance[account],
         "p%d holds the lock of account %d and reads %llu; it is %llu", u->rank, account,
         (unsigned long long)*balance, (unsigned long long)s->balance[account]);
    return SIM_FINE;
}

static int write_account(struct user *u, int account, uint64_t balance)
{
    int status = loco_atomic_array_store(u->bank.accounts, (uint64_t)account, balance);

    u->s->balance[account] = balance;
    u->s->unsure[account] |= status != LOCO_OK;
    return sim_check(u->run, status, "store");
}

static int move(struct user *u, int from, int to)
{
    uint64_t amount = 1 + loci_sim_draw(START), low, high;

    PASS(read_account(u, from, &low));
    PASS(read_account(u, to, &high));
    if (low < amount)
        return SIM_FINE;
    PASS(write_account(u, from, low - amount));
    return write_account(u, to, high + amount);
}

static int release(struct user *u, int lock)
{
    return sim_check(u->run, loco_ticket_lock_release(loco_ticket_array_at(u->bank.locks, lock),
                                                      LOCO_FENCE_NONE, LOCO_ALL_PEERS), "release");
}

static int with_both(struct user *u, int second, int from, int to)
{
    int result;

    if (second >= 0)
        TRY(u->run, loco_ticket_lock_acquire(loco_ticket_array_at(u->bank.locks, second)));
    result = move(u, from, to);
    return second < 0 ? result : sim_first(result, release(u, second));
}

static int one_transfer(struct user *u)
{
    int from = (int)loci_sim_draw(ACCOUNTS), to = (int)loci_sim_draw(ACCOUNTS - 1);
    int a, b, first, second, result;

    to += to >= from;
    a = from % u->locks;
    b = to % u->locks;
    first = a < b ? a : b;
    second = a == b ? -1 : a + b - first;
    TRY(u->run, loco_ticket_lock_acquire(loco_ticket_array_at(u->bank.locks, first)));
    result = with_both(u, second, from, to);
    return sim_first(result, release(u, first));
}

static int transfers(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++)
        PASS(one_transfer(u));
    return SIM_FINE;
}

static int pay_in(struct user *u)
{
    for (int i = 0; i < ACCOUNTS; i++) {
        u->s->balance[i] = START;       /* each says the same */
        if (loco_atomic_array_host(u->bank.accounts, (uint64_t)i) == u->rank)
            TRY(u->run, loco_atomic_array_store(u->bank.accounts, (uint64_t)i, START));
    }
    return SIM_FINE;
}

static int add_up(struct user *u)
{
    uint64_t sum = 0, balance;

    for (int i = 0; i < ACCOUNTS; i++) {
        TRY(u->run, loco_atomic_array_load(u->bank.accounts, (uint64_t)i, &balance));
        if (u->s->unsure[i])
            return SIM_FINE;
        sum += balance;
    }
    WANT(sum == ACCOUNTS * START, "all accounts hold %llu together; it was %d",
         (unsigned long long)sum, ACCOUNTS * START);
    return SIM_FINE;
}

static int use(struct user *u, loco_runtime_t *rt, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    PASS(pay_in(u));
    TRY(u->run, sim_meet(seat));
    PASS(sim_threads(rt, u->run->threads, transfers, u));
    TRY(u->run, sim_meet(seat));
    /* Where a process may stop, it may do so between its two stores. */
    return u->run->faults ? SIM_FINE : add_up(u);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct user u = { .run = run, .s = run->state, .rank = rank };
    struct sim_seat seat = sim_seat(u.s->common.place, rt, rank);
    int result;

    u.locks = run->scenario == &sim_scenario_bank_single ? 1 : LOCKS;
    TRY(run, bank_create(rt, ACCOUNTS, u.locks, &u.bank));
    result = sim_part(&seat, use(&u, rt, &seat));
    bank_destroy(&u.bank);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

/* ---- for `scale` ---- */

static void *scale_open(loco_runtime_t *rt, uint64_t accounts, int locks)
{
    struct bank *bank = calloc(1, sizeof *bank);

    if (bank != NULL && bank_create(rt, accounts, locks, bank) == LOCO_OK
        && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK)
        return bank;
    return NULL;
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    bank_destroy(channel);
    free(channel);
}

static int change(struct bank *bank, uint64_t account, uint64_t by)
{
    uint64_t balance;
    int status = loco_atomic_array_load(bank->accounts, account, &balance);

    return status != LOCO_OK ? status
           : loco_atomic_array_store(bank->accounts, account, balance + by);
}

static int unlock(struct bank *bank, int lock, int status)
{
    int released = loco_ticket_lock_release(loco_ticket_array_at(bank->locks, lock),
                                            LOCO_FENCE_NONE, LOCO_ALL_PEERS);

    return status != LOCO_OK ? status : released;
}

static int under_locks(struct bank *bank, const int *locks, int n, uint64_t from, uint64_t to)
{
    int status;

    if (n == 0) {
        status = change(bank, from, 0 - (uint64_t)1);
        return status != LOCO_OK || to == from ? status : change(bank, to, 1);
    }
    status = loco_ticket_lock_acquire(loco_ticket_array_at(bank->locks, locks[0]));
    if (status == LOCO_OK)
        status = unlock(bank, locks[0], under_locks(bank, locks + 1, n - 1, from, to));
    return status;
}

/* xorshift64*, so that each call has accounts of its own, the same in every run. */
static uint64_t mixed(int rank, int round, int i)
{
    uint64_t x = ((uint64_t)rank * 65537 + (uint64_t)round) * 31 + (uint64_t)i + 1;

    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0x2545f4914f6cdd1d);
    return x ^ x >> 32;
}

static int scale_transfer(loco_runtime_t *rt, void *channel, int rank, int round)
{
    struct bank *bank = channel;
    uint64_t accounts = loco_atomic_array_count(bank->accounts);

    (void)rt;
    for (int i = 0; i < SCALE_TRANSACTIONS; i++) {
        uint64_t from = mixed(rank, round, 2 * i) % accounts;
        uint64_t to = mixed(rank, round, 2 * i + 1) % accounts;
        int a = (int)(from % SCALE_LOCKS), b = (int)(to % SCALE_LOCKS);
        int locks[2] = { a < b ? a : b, a < b ? b : a };
        int status = under_locks(bank, locks, a == b ? 1 : 2, from, to);

        if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

static int scale_single(loco_runtime_t *rt, void *channel, int rank, int round)
{
    (void)rt;
    (void)rank;
    (void)round;
    for (int i = 0; i < SCALE_TRANSACTIONS; i++) {
        int status = under_locks(channel, &(int){ 0 }, 1, 0, 0);

        if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    (void)rank;
    return scale_open(rt, (uint64_t)SCALE_ACCOUNTS * (uint64_t)processes, SCALE_LOCKS);
}

static void *scale_setup_single(loco_runtime_t *rt, int rank, int processes)
{
    (void)rank;
    (void)processes;
    return scale_open(rt, 1, 1);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_HANDOVERS=1", NULL };

const struct sim_scenario sim_scenario_bank = {
    .name = "bank",
    .about = "transfers between accounts under the locks of both: each reads what the last wrote, "
             "and no money is made or lost",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
    .scale_setup = scale_setup, .scale_once = scale_transfer, .scale_done = scale_done,
    .scale_theory = "a call is 16 transfers between random accounts",
};

const struct sim_scenario sim_scenario_bank_single = {
    .name = "bank_single",
    .about = "the same under a single lock; in scale, all change a single account",
    .processes = 3, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
    .scale_setup = scale_setup_single, .scale_once = scale_single, .scale_done = scale_done,
    .scale_theory = "a call is 16 changes of one account under one lock",
};

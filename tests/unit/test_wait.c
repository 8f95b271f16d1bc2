/* SPDX-License-Identifier: BSD-3-Clause */

/* Waiting, with a host of our own: a clock that the test moves, an idle hook that counts. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"
#include "wait.h"

struct fake {
    int64_t now;
    unsigned idles;
    struct loco_runtime *rt;
    int64_t round_ns;           /* of idling */
    int die_at;                 /* the one at which the peer is reported dead */
};

static int64_t fake_now(void *ctx)
{
    return ((struct fake *)ctx)->now;
}

static uint64_t fake_random(void *ctx)
{
    (void)ctx;
    return 5;
}

static void fake_idle(void *ctx, unsigned rounds)
{
    struct fake *f = ctx;

    (void)rounds;
    f->now += f->round_ns;
    f->idles++;
    if (f->die_at != 0 && f->idles == (unsigned)f->die_at) {
        atomic_store(&f->rt->peers[1]->state, LOCI_PEER_DEAD);
        atomic_fetch_add(&f->rt->deaths, 1);
    }
}

/* A runtime that is only good for waiting: two peers, a synchronous fabric. */
static const struct loci_fabric_ops no_ops = { .name = "none", .synchronous = true };
static struct loci_peer self, other;
static struct loci_peer *peers[2] = { &self, &other };

static void set_up(struct loco_runtime *rt, struct fake *f)
{
    memset(rt, 0, sizeof *rt);
    memset(f, 0, sizeof *f);
    memset(&self, 0, sizeof self);
    memset(&other, 0, sizeof other);
    f->now = f->round_ns = 1000;
    f->rt = rt;
    rt->host = (struct loci_host){
        .ctx = f, .now = fake_now, .random = fake_random, .idle = fake_idle,
    };
    rt->ops = &no_ops;
    rt->peers = peers;
    atomic_store(&rt->peer_count, 2);
    rt->bells = &rt->own_bells;
    rt->tunables.spin = 10;
    rt->tunables.nap_after = LOCI_INFINITE;
}

static int count_down(void *arg)
{
    return --*(int *)arg <= 0;
}

static int never(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- a wait that lasts ---- */

static void keep_line(void *ctx, int level, const char *text)
{
    (void)level;
    snprintf(ctx, LOCI_LOG_LINE, "%s", text);
}

/* What it says after a second, once. */
static void last_long(const struct loci_reason *why, char *line)
{
    struct loco_runtime rt;
    struct fake f;

    set_up(&rt, &f);
    other.address.pid = 4711;
    atomic_store(&other.rank, 1 + 3);
    rt.log = (struct loci_log){ keep_line, line, LOCO_LOG_INFO };
    line[0] = '\0';
    cr_assert_eq(loci_wait(&rt, why, never, NULL), LOCO_ERR_TIMEOUT);
}

Test(wait, after_a_second_it_says_for_what_and_at_whom)
{
    const int64_t limit = INT64_C(1100000000);
    const struct loci_mem mem = { .peer = 1 }, own = { .peer = LOCI_SELF };
    struct loci_reason why = { .what = "a lock", .at = &mem, .peer = -1, .timeout_ns = limit };
    char line[LOCI_LOG_LINE];

    last_long(&why, line);
    cr_assert(strstr(line, "for a lock, at process") != NULL, "%s", line);
    cr_assert(strstr(line, "(pid 4711, rank 3)") != NULL, "%s", line);
    why.at = &own;
    last_long(&why, line);
    cr_assert_str_eq(line, "has waited 1 s for a lock");
    why.at = NULL;
    last_long(&why, line);
    cr_assert_str_eq(line, "has waited 1 s for a lock");
    why.what = "work";
    why.what_for = LOCI_FOR_QUEUE_PLACE;
    last_long(&why, line);
    cr_assert_str_eq(line, "has waited 1 s for a free place: queue \"work\" is full");
    why.what = "step";
    why.what_for = LOCI_FOR_BARRIER;
    last_long(&why, line);
    cr_assert_str_eq(line, "has waited 1 s for the others at barrier \"step\"");
    why.peer = 1;
    last_long(&why, line);
    cr_assert(strstr(line, "(pid 4711, rank 3)") != NULL, "%s", line);
    why.timeout_ns = limit / 2;
    last_long(&why, line);
    cr_assert_str_eq(line, "");
}

/* ---- sleeping: a host that says what it was asked ---- */

struct sleeper {
    struct fake f;              /* first */
    int announced, sleeps, look_at;     /* the look that finds something; counts down */
    int64_t longest;
    bool change_bell;           /* between the announcement and the second look */
    struct loci_bell *bell;     /* by which it is to sleep, and to be found asleep; NULL: ANY */
};

static void fake_sleep(void *ctx, _Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    struct sleeper *s = ctx;

    if (s->bell != NULL)
        cr_assert(word == &s->bell->rings && atomic_load(&s->bell->asleep) == 1);
    else
        cr_assert_eq(s->announced, 1);
    s->longest = ns;
    if (atomic_load(word) == seen)
        s->sleeps++;
    s->f.now += 1000;
}

static void count_announced(void *arg, int change)
{
    struct sleeper *s = arg;

    s->announced += change;
    if (change > 0 && s->change_bell)
        loci_ring_self(s->f.rt);
}

static int looks(void *arg)
{
    struct sleeper *s = arg;

    return --s->look_at <= 0;
}

static int fails(void *arg)
{
    (void)arg;
    return LOCO_ERR_STATE;
}

Test(wait, spins_first_then_idles)
{
    struct loco_runtime rt;
    struct fake f;
    const struct loci_reason why = { .what = "test", .peer = -1, .timeout_ns = LOCO_FOREVER };
    int left = 8;

    set_up(&rt, &f);
    cr_assert_eq(loci_wait(&rt, &why, count_down, &left), LOCO_OK);
    cr_assert_eq(f.idles, 0);
    left = 31;
    cr_assert_eq(loci_wait(&rt, &why, count_down, &left), LOCO_OK);
    cr_assert_eq(f.idles, 20);
}

Test(wait, ends_with_the_status_of_the_predicate)
{
    struct loco_runtime rt;
    struct fake f;
    const struct loci_reason why = { .what = "test", .peer = -1, .timeout_ns = LOCO_FOREVER };

    set_up(&rt, &f);
    cr_assert_eq(loci_wait(&rt, &why, fails, NULL), LOCO_ERR_STATE);
}

Test(wait, times_out_and_with_zero_asks_once)
{
    struct loco_runtime rt;
    struct fake f;
    struct loci_reason why = { .what = "test", .peer = -1, .timeout_ns = 1000000 };
    int left = 2;

    set_up(&rt, &f);
    cr_assert_eq(loci_wait(&rt, &why, never, NULL), LOCO_ERR_TIMEOUT);
    cr_assert_geq(f.now, 1000000);
    why.timeout_ns = 0;
    cr_assert_eq(loci_wait(&rt, &why, count_down, &left), LOCO_ERR_TIMEOUT);
    cr_assert_eq(left, 1);
}

/* Others have the core for 3 ms each time that it is given away. */
Test(wait, a_short_one_is_short_on_a_busy_machine)
{
    struct loci_reason why = { .what = "a test", .peer = -1, .timeout_ns = 200000 };
    struct loco_runtime rt;
    struct fake f;

    set_up(&rt, &f);
    f.round_ns = 3000000;
    cr_assert_eq(loci_wait(&rt, &why, never, NULL), LOCO_ERR_TIMEOUT);
    cr_assert_eq(f.idles, 1);
}

Test(wait, ends_when_a_needed_peer_dies_and_only_then, .timeout = 10)
{
    struct loco_runtime rt;
    struct fake f;
    struct loci_reason why = { .what = "test", .peer = 1, .timeout_ns = LOCO_FOREVER };
    int members[2] = { 0, 1 }, left = 50;
    struct loco_group both = { .rt = &rt, .size = 2, .rank = 0, .peer = members };

    set_up(&rt, &f);
    f.die_at = 5;
    cr_assert_eq(loci_wait(&rt, &why, never, NULL), LOCO_ERR_PEER_DEAD);
    cr_assert_eq(f.idles, 5);

    /* It died before this wait began. */
    cr_assert_eq(loci_wait(&rt, &why, never, NULL), LOCO_ERR_PEER_DEAD);
    why.peer = -1;
    why.group = &both;
    cr_assert_eq(loci_wait(&rt, &why, never, NULL), LOCO_ERR_PEER_DEAD);

    /* What was there before the death was noticed counts; others' deaths do not matter. */
    left = 1;
    cr_assert_eq(loci_wait(&rt, &why, count_down, &left), LOCO_OK);
    why.group = NULL;
    why.peer = 0;
    left = 50;
    cr_assert_eq(loci_wait(&rt, &why, count_down, &left), LOCO_OK);
}

Test(wait, sleeps_after_some_time_and_looks_before_it_does, .timeout = 10)
{
    struct loco_runtime rt;
    struct sleeper s = { .look_at = 2 };
    struct loci_reason why = {
        .what = "test", .peer = -1, .timeout_ns = LOCO_FOREVER, .announce = count_announced,
    };

    set_up(&rt, &s.f);
    rt.host.sleep = fake_sleep;
    /* The look after the announcement finds it: no sleep. */
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.sleeps, 0);
    cr_assert_eq(s.announced, 0);
    /* Looks before each sleep and after. */
    s.look_at = 7;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.sleeps, 3);
    cr_assert_eq(s.longest, LOCO_FOREVER);
    /* A bell that rings after the announcement is heard. */
    s.change_bell = true;
    s.look_at = 7;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.sleeps, 3);
    s.change_bell = false;
    /* Not before its time, nor longer than it has. */
    rt.tunables.sleep_after = INT64_C(1000000000);
    s.look_at = 500;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.sleeps, 3);
    rt.tunables.sleep_after = 0;
    why.timeout_ns = 5000;
    s.look_at = 500;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_ERR_TIMEOUT);
    cr_assert(s.longest > 0 && s.longest <= 5000);
    cr_assert_eq(s.announced, 0);
    /* Others have a time of their own. */
    why = (struct loci_reason){ .what = "test", .peer = -1, .timeout_ns = LOCO_FOREVER };
    s.sleeps = 0;
    s.look_at = 500;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.sleeps, 0);
}

static int64_t for_300_ns(void *arg)
{
    (void)arg;
    return 300;
}

static void set_up_bells(struct loco_runtime *rt, struct sleeper *s)
{
    set_up(rt, &s->f);
    rt->host.sleep = fake_sleep;
    rt->tunables.nap_after = 20000;
    s->bell = &rt->bells->bell[LOCI_BELL_QUEUE];
    atomic_store(&rt->asymmetric, LOCI_ASYMMETRIC_READY);
    atomic_store(&self.bells, rt->bells);
    atomic_store(&other.bells, &rt->no_bells);
}

Test(wait, naps_and_then_sleeps_until_it_is_rung, .timeout = 10)
{
    struct loco_runtime rt;
    struct sleeper s = { .look_at = 100 };
    struct loci_mem there = { .peer = LOCI_SELF };
    struct loci_reason why = {
        .what = "test", .peer = -1, .timeout_ns = LOCO_FOREVER, .bell = LOCI_BELL_QUEUE,
    };

    /* At first it naps. */
    set_up_bells(&rt, &s);
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert(s.sleeps > 0);
    cr_assert(s.longest > 0 && s.longest <= LOCI_NAP);
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.longest, LOCO_FOREVER);
    cr_assert_eq(atomic_load(&s.bell->asleep), 0);
    /* A limit of time, and one of its own. */
    why.timeout_ns = 70000;
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_ERR_TIMEOUT);
    cr_assert(s.longest > 0 && s.longest <= 70000);
    why.timeout_ns = LOCO_FOREVER;
    why.doze = for_300_ns;
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(s.longest, 300);
    /* Among the watchers of that memory, while it sleeps. */
    why.watched = &there;
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert_eq(atomic_load(&rt.bells->watchers[LOCI_BELL_QUEUE]), 0);
}

/* Where it might be missed it looks now and then, however long it lasts. */
Test(wait, only_naps_where_not_all_ring, .timeout = 10)
{
    static const struct loci_fabric_ops device = { .name = "none" };
    struct loco_runtime rt;
    struct sleeper s = { .look_at = 800 };
    struct loci_mem there = { .peer = 1 };
    struct loci_reason why = {
        .what = "test", .peer = -1, .timeout_ns = LOCO_FOREVER, .bell = LOCI_BELL_QUEUE,
    };

    set_up_bells(&rt, &s);
    atomic_store(&rt.unheard, true);
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert(s.longest > 0 && s.longest <= LOCI_NAP);
    set_up_bells(&rt, &s);
    rt.ops = &device;
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert(s.longest > 0 && s.longest <= LOCI_NAP);
    set_up_bells(&rt, &s);
    atomic_store(&rt.deaths, 1);
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert(s.longest > 0 && s.longest <= LOCI_NAP);
    set_up_bells(&rt, &s);
    atomic_store(&other.bells, NULL);       /* they cannot be mapped */
    why.watched = &there;
    s.look_at = 800;
    cr_assert_eq(loci_wait(&rt, &why, looks, &s), LOCO_OK);
    cr_assert(s.longest > 0 && s.longest <= LOCI_NAP);
}

static int wakes;

static void count_wake(void *ctx, _Atomic uint32_t *word)
{
    (void)ctx;
    (void)word;
    wakes++;
}

Test(wait, a_signal_rings_who_sleeps_by_that_bell)
{
    struct loco_runtime rt;
    struct loci_bells theirs;
    struct sleeper s;
    int members[2] = { 0, 1 };
    struct loco_group both = { .rt = &rt, .size = 2, .rank = 0, .peer = members };

    set_up_bells(&rt, &s);
    rt.host.wake = count_wake;
    memset(&theirs, 0, sizeof theirs);
    atomic_store(&other.bells, &theirs);
    loci_signal(&rt, 1, LOCI_BELL_SST);
    cr_assert_eq(wakes, 0);
    atomic_store(&theirs.bell[LOCI_BELL_SST].asleep, 1);
    loci_signal(&rt, 1, LOCI_BELL_QUEUE);
    cr_assert_eq(wakes, 0);
    loci_signal(&rt, 1, LOCI_BELL_SST);
    cr_assert_eq(wakes, 1);
    cr_assert_eq(atomic_load(&theirs.bell[LOCI_BELL_SST].rings), 1);
    /* Watchers of this process's memory, wherever they are. */
    loci_signal_watchers(&rt, LOCI_SELF, &both, LOCI_BELL_SST);
    cr_assert_eq(wakes, 1);
    atomic_store(&rt.bells->watchers[LOCI_BELL_SST], 1);
    loci_signal_watchers(&rt, LOCI_SELF, &both, LOCI_BELL_SST);
    cr_assert_eq(wakes, 2);
    loci_ring_self(&rt);
    cr_assert_eq(wakes, 2 + LOCI_BELLS);
}

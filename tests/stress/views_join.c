/* SPDX-License-Identifier: BSD-3-Clause */

/* Eight members of a view, three of which are outside at first, send as fast as they can. Four of
 * them come and go at random moments, with a state of some MiB that save and load carry. One or two
 * are killed: at any moment, or the one that gives the state, or the one that loads it. The state
 * has the log of all messages, so who comes loads what was before its view, and appends what
 * follows. After each round: all survivors have the same log, with the views in which messages were
 * delivered, and a killed member the beginning of that; every message of a survivor is in it, each
 * once and in order; and so is whatever any member was told to be delivered. At each moment: what
 * is loaded goes on where this member went out, and handlers are given messages of the view that
 * `changed` was told last. TAP.
 *
 *     views_join [--rounds N] [--seed N] [--state MIB] [--majority]
 *                                              20 rounds, from seed 0 on; 4 MiB
 *
 * At most one of the four that stay and one of those that come and go are killed: so somebody who
 * has the state lives, and a majority of each view, which members on several machines need.
 *
 * Half as many rounds more (with --majority: only rounds of this kind) have views that need a
 * majority, and lose it while a newcomer loads the state: only that one, one of the four that stay,
 * and perhaps another that comes and goes live on. All views have the four, so these are half of
 * their view at most, and each of their calls has to return LOCO_ERR_PARTITIONED. They are stopped
 * until all others are dead: else a view might first go on without some of these, with a
 * majority. */

#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

enum { MEMBERS = 8, STAY = 4, OUTSIDE = 3, MESSAGES = 20000, LOG = MEMBERS * MESSAGES,
       TIMES = 100000 };
#define MIB ((size_t)1 << 20)

struct entry {
    uint32_t sender, message, view;
};

/* What a member does, for the parent to see also if it is killed. */
struct member {
    _Atomic uint64_t given, sent, told;     /* messages; told: of its own, to be delivered */
    _Atomic uint64_t from[MEMBERS];
    _Atomic uint64_t saves, loads;          /* calls */
    _Atomic int settled, finished;
    _Atomic int loading;
    struct entry log[LOG];
};

struct shared {
    _Atomic int ready, stop, failed;
    _Atomic uint64_t killed;
    _Atomic int times, givers, newcomers;   /* joins; killed while they gave, or loaded */
    _Atomic int cut_off;        /* lost the majority while they loaded */
    struct join {
        int64_t ns;
        uint64_t chunks;        /* that it loaded meanwhile */
    } time[TIMES];
    struct member member[MEMBERS];
};

struct test {
    struct shared *s;
    int round;                  /* the round's seed */
    bool loses;                 /* the majority, in this round */
    size_t filler;              /* words of state beside the log */
    uint64_t random;
    uint64_t stay, outside;     /* sets of members */
    struct join longest;        /* and in which round */
    int longest_round;
    size_t chunk;
};

struct user {
    struct test *t;
    struct shared *s;
    struct member *me;
    int rank;
    bool polls;
    uint64_t number;            /* of the view, as `changed` says */
    uint64_t *filler;
    unsigned char *loaded;      /* state that is not complete yet */
    _Atomic int wrong, ended;
    loco_view_t *view;
    loco_multicast_t *m;
};

/* ---- the state: how many messages; the log; words that messages change ---- */

static void mix(struct user *u, uint64_t at, const struct entry *e)
{
    uint64_t word = (at + 1) * UINT64_C(0x9e3779b97f4a7c15);

    u->filler[word % u->t->filler] ^= word ^ ((uint64_t)e->sender << 32 | e->message);
}

static uint64_t plain(size_t i)
{
    return (i + 7) * UINT64_C(0xd1342543de82ef95);
}

static size_t log_bytes(uint64_t count)
{
    return (size_t)count * sizeof(struct entry);
}

static size_t state_bytes(const struct user *u, uint64_t count)
{
    return sizeof count + log_bytes(count) + 8 * u->t->filler;
}

/* Of a piece of state that begins at `begin`, what belongs into a chunk that begins at `at`. */
static void copy_piece(uint64_t at, unsigned char *chunk, size_t room, uint64_t begin,
                       const void *piece, size_t bytes)
{
    uint64_t from = at > begin ? at : begin;
    uint64_t to = at + room < begin + bytes ? at + room : begin + bytes;

    if (from < to)
        memcpy(chunk + (from - at), (const unsigned char *)piece + (from - begin),
               (size_t)(to - from));
}

static size_t save(void *arg, uint64_t at, void *chunk, size_t room)
{
    struct user *u = arg;
    uint64_t count = u->me->given;
    size_t all = state_bytes(u, count), n = at >= all ? 0 : all - (size_t)at;

    n = n < room ? n : room;
    copy_piece(at, chunk, n, 0, &count, sizeof count);
    copy_piece(at, chunk, n, sizeof count, u->me->log, log_bytes(count));
    copy_piece(at, chunk, n, sizeof count + log_bytes(count), u->filler, 8 * u->t->filler);
    u->me->saves++;
    return n;
}

static int fail(struct user *u, const char *what)
{
    fprintf(stderr, "rank %d, view %llu: %s\n", u->rank, (unsigned long long)u->number, what);
    u->wrong = u->s->failed = 1;
    return 1;
}

/* It goes on where this member has gone out. Who is killed meanwhile has a beginning of it. */
static void take_over(struct user *u, uint64_t bytes)
{
    uint64_t count, before = u->me->given;

    memcpy(&count, u->loaded, sizeof count);
    if (count < before || count > LOG || bytes != state_bytes(u, count)) {
        fail(u, "a state of that size cannot be");
        return;
    }
    if (memcmp(u->me->log, u->loaded + sizeof count, log_bytes(before)) != 0) {
        fail(u, "the state has not what was delivered here before");
        return;
    }
    memcpy(u->me->log + before, u->loaded + sizeof count + log_bytes(before),
           log_bytes(count - before));
    memcpy(u->filler, u->loaded + sizeof count + log_bytes(count), 8 * u->t->filler);
    for (uint64_t i = before; i < count; i++)
        u->me->from[u->me->log[i].sender % MEMBERS]++;
    u->me->given = count;
}

static void load(void *arg, uint64_t at, const void *chunk, size_t bytes)
{
    struct user *u = arg;

    u->me->loads++;
    u->me->loading = bytes > 0;
    if (at + bytes > state_bytes(u, LOG))
        fail(u, "more state than there can be");
    else if (bytes > 0)
        memcpy(u->loaded + at, chunk, bytes);
    else
        take_over(u, at);
}

/* ---- what a member is told ---- */

static void changed(void *arg, uint64_t number, const int *members, int n)
{
    struct user *u = arg;
    uint64_t given = u->me->given;

    (void)members;
    u->ended = n == 0;
    if (n == 0)
        return;
    if (number <= u->number)
        fail(u, "the next view is an older one");
    u->number = number;
    if (!u->polls && given > 0 && u->me->log[given - 1].view >= number)
        fail(u, "messages of a view came before it");
}

static void handle(void *arg, const loco_delivery_t *messages, int n)
{
    struct user *u = arg;

    for (int i = 0; i < n; i++) {
        uint64_t at = u->me->given, message, view;
        struct entry *e = &u->me->log[at];

        if (at == LOG)
            abort();
        memcpy(&message, messages[i].data, sizeof message);
        view = loco_view_of(u->view, u->m, messages[i].number);
        *e = (struct entry){ (uint32_t)messages[i].sender, (uint32_t)message, (uint32_t)view };
        if (!u->polls && view != u->number)
            fail(u, "a message is of another view than the present one");
        mix(u, at, e);
        u->me->given = at + 1;
        u->me->from[e->sender % MEMBERS]++;
    }
}

/* ---- a member ---- */

static int64_t patience(const struct test *t)
{
    return RUN_PATIENCE * (int64_t)(1 + 8 * t->filler / MIB / 16);
}

/* The majority is lost, and that is what a call has returned. */
static bool is_cut_off(const struct user *u, int status)
{
    return u->t->loses && u->s->killed != 0 && status == LOCO_ERR_PARTITIONED;
}

/* All that the survivors have sent is given here. */
static bool has_all(const struct user *u)
{
    for (int i = 0; i < MEMBERS; i++)
        if ((u->s->killed >> i & 1) == 0 && u->me->from[i] != u->s->member[i].sent)
            return false;
    return u->me->settled != 0;
}

static bool all_finished(const struct user *u)
{
    for (int i = 0; i < MEMBERS; i++)
        if ((u->s->killed >> i & 1) == 0 && u->s->member[i].finished == 0)
            return false;
    return true;
}

/* Also after it has finished: others may still go out, and come, for which all are asked. */
static int poll_all(struct user *u)
{
    while (!(u->s->stop == 2 && all_finished(u))) {
        loco_delivery_t messages[16];
        int n, status = loco_multicast_next(u->m, 1000000, messages, 16, &n);

        if (status == LOCO_OK)
            handle(u, messages, n);
        else if (is_cut_off(u, status))
            break;
        else if (status != LOCO_ERR_TIMEOUT && !(u->s->stop == 2 && all_finished(u)))
            return fail(u, loco_strerror(status));
    }
    return 0;
}

/* Counted before it is sent: who is killed in between has sent it or not. */
static int send_all(struct user *u)
{
    char text[64] = "";

    for (uint64_t i = 0; i < MESSAGES && u->s->stop == 0; i++) {
        uint64_t number = 0;
        int status;

        memcpy(text, &i, sizeof i);
        while ((status = loco_multicast_post(u->m, text, 8 + i % 50, &number)) == LOCO_ERR_AGAIN
               && u->s->stop == 0)
            usleep(100);                        /* its poller has to poll first */
        if (status == LOCO_ERR_AGAIN || is_cut_off(u, status))
            break;
        if (status != LOCO_OK)
            return fail(u, loco_strerror(status));
        if (number != i + 1)
            return fail(u, "a message has not the number of its place");
        u->me->sent = number;
        if (loco_multicast_is_delivered(u->m, number - number / 2) == LOCO_OK)
            u->me->told = number - number / 2;
    }
    return 0;
}

static int join(struct user *u)
{
    int64_t start = run_now();
    uint64_t loads = u->me->loads;
    int at, status = loco_view_join(u->view, LOCO_FOREVER);

    at = status != LOCO_OK ? TIMES : atomic_fetch_add(&u->s->times, 1);
    if (at < TIMES)
        u->s->time[at] = (struct join){ run_now() - start, u->me->loads - loads };
    return status;
}

/* In and out: it waits until it is so, or a little, or not at all, and then wishes the contrary. In
 * at last. */
static int come_and_go(struct user *u)
{
    uint64_t random = u->t->random + 77 * (uint64_t)u->rank;
    bool in = (u->t->outside >> u->rank & 1) != 0;      /* the next wish */

    for (; u->s->stop == 0 && (u->t->stay >> u->rank & 1) == 0; in = !in) {
        int64_t ns = run_random(&random) % 4 != 0 ? LOCO_FOREVER
                     : (int64_t)(run_random(&random) % 4) * 500000;
        int status = LOCO_OK;

        usleep((useconds_t)(run_random(&random) % 20000));
        if (in && ns == LOCO_FOREVER)
            status = join(u);
        else if (in)
            status = loco_view_join(u->view, ns);
        else
            status = loco_view_leave(u->view, ns);
        if (is_cut_off(u, status))
            return 0;
        if (status != LOCO_OK && status != LOCO_ERR_TIMEOUT)
            return fail(u, loco_strerror(status));
    }
    if (u->t->loses)
        return 0;
    if (loco_view_join(u->view, LOCO_FOREVER) != LOCO_OK)
        return fail(u, "it does not come at last");
    u->me->settled = 1;
    return 0;
}

static int send_and_wait(struct user *u)
{
    int64_t start;

    if (send_all(u) != 0)
        return 1;
    while (u->s->stop == 0)
        usleep(200);
    atomic_fetch_add(&u->s->ready, 1);          /* its `sent` is final */
    for (start = run_now(); !has_all(u) || u->s->stop < 2;) {
        usleep(200);
        if (u->ended != 0 || run_too_long(start, patience(u->t)))
            return fail(u, u->ended ? "the view has ended" : "it waits for ever for messages");
    }
    u->me->finished = 1;
    return 0;
}

/* Waits that nobody else will end. */
static int send_until_cut_off(struct user *u)
{
    void *slot;
    int status;

    if (send_all(u) != 0)
        return 1;
    status = loco_view_wait(u->view, UINT64_MAX, LOCO_FOREVER);
    if (!is_cut_off(u, status))
        return fail(u, loco_strerror(status));
    status = loco_multicast_reserve(u->m, &slot);
    if (!is_cut_off(u, status))
        return fail(u, "it can still send");
    u->me->finished = 1;
    return 0;
}

static int work(void *arg, int thread)
{
    struct user *u = arg;

    if (thread == 0)
        return u->t->loses ? send_until_cut_off(u) : send_and_wait(u);
    if (thread == 1)
        return come_and_go(u);
    return u->polls ? poll_all(u) : 0;
}

/* What the log's messages have changed in the words, and nothing else, is changed. */
static int check_filler(struct user *u)
{
    for (uint64_t at = 0; at < u->me->given; at++)
        mix(u, at, &u->me->log[at]);
    for (size_t i = 0; i < u->t->filler; i++)
        if (u->filler[i] != plain(i))
            return fail(u, "the state is not what its messages make");
    return u->wrong;
}

static int run_member(struct user *u, loco_runtime_t *rt)
{
    const struct test *t = u->t;
    const loco_view_options_t options = { .changed = changed, .arg = u, .outside = t->outside,
                                          .save = save, .load = load, .chunk = t->chunk,
                                          .flags = t->loses ? LOCO_VIEW_MAJORITY : 0 };
    const loco_multicast_options_t log = { .slots = 1 + t->round % 64, .slot_bytes = 64,
                                           .handler = u->polls ? NULL : handle, .arg = u,
                                           .flags = t->round % 5 == 4 ? LOCO_MULTICAST_COPY : 0 };

    CHECK_OK(loco_view_create(rt, NULL, "view", loco_everyone(rt), &options, &u->view));
    CHECK_OK(loco_view_multicast(u->view, "log", &log, &u->m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    atomic_fetch_add(&t->s->ready, 1);
    if (run_threads(3, work, u) != 0)
        _exit(1);
    while (!t->loses && !all_finished(u))
        usleep(200);
    if (t->round % 2 == 1 && u->rank % 2 == 1)
        loco_view_leave(u->view, 0);            /* it does not hold up the end */
    loco_view_destroy(u->view);
    if (t->loses && u->ended == 0)
        fail(u, "it was not told of the end of the view");
    loco_runtime_close(rt);
    return 0;
}

static int member_body(const struct loco_bootstrap *boot, void *arg)
{
    struct test *t = arg;
    struct user u = { .t = t, .s = t->s, .rank = boot->exchange.rank };
    struct loco_bootstrap mine = *boot;
    loco_runtime_t *rt;
    int result;

    mine.log = run_log;
    u.me = &t->s->member[u.rank];
    u.polls = t->round % 3 == 1 || (t->round % 3 == 2 && u.rank % 2 == 0);
    u.filler = malloc(8 * t->filler);
    u.loaded = malloc(state_bytes(&u, LOG));
    CHECK(u.filler != NULL && u.loaded != NULL);
    for (size_t i = 0; i < t->filler; i++)
        u.filler[i] = plain(i);
    CHECK_OK(loco_runtime_open(&mine, &rt));
    result = run_member(&u, rt);
    if (result == 0)
        result = check_filler(&u);
    free(u.filler);
    free(u.loaded);
    return result;
}

/* ---- the parent ---- */

static int wait_for(const struct test *t, _Atomic int *count, int n)
{
    int64_t start = run_now();

    while (*count < n)
        if (usleep(200), t->s->failed != 0 || run_too_long(start, patience(t)))
            return fprintf(stderr, "%d of %d have come\n", *count, n), 1;
    return 0;
}

static int some_of(struct test *t, uint64_t set)
{
    for (int skip = (int)(run_random(&t->random) % (uint64_t)__builtin_popcountll(set)); skip > 0;
         skip--)
        set &= set - 1;
    return __builtin_ctzll(set);
}

static uint64_t calls(const struct test *t, int rank, bool gives)
{
    return gives ? t->s->member[rank].saves : t->s->member[rank].loads;
}

/* The first one of the set that has given, or loaded, some chunks from now on; -1: none does. */
static int find_busy(struct test *t, uint64_t set, bool gives)
{
    uint64_t before[MEMBERS], chunks = 1 + run_random(&t->random) % 10;
    int64_t start = run_now();

    for (int i = 0; i < MEMBERS; i++)
        before[i] = calls(t, i, gives);
    while (run_now() - start < INT64_C(1000000000)) {
        for (int i = 0; i < MEMBERS; i++)
            if ((set >> i & 1) != 0 && calls(t, i, gives) >= before[i] + chunks)
                return i;
        usleep(20);
    }
    return -1;
}

/* One or two, each of another kind. */
static void kill_some(struct test *t, const loco_fork_t *job)
{
    uint64_t all = (UINT64_C(1) << MEMBERS) - 1, candidates = all;
    int n = 1 + (int)(run_random(&t->random) % 2);

    while (n-- > 0) {
        int how = (int)(run_random(&t->random) % 3), victim = -1;

        usleep((useconds_t)(run_random(&t->random) % 60000));
        if (how > 0)
            victim = find_busy(t, candidates, how == 1);
        t->s->givers += victim >= 0 && how == 1;
        t->s->newcomers += victim >= 0 && how == 2;
        if (victim < 0)
            victim = some_of(t, candidates);
        t->s->killed |= UINT64_C(1) << victim;
        kill(loco_fork_pid(job, victim), SIGKILL);
        candidates &= (t->stay >> victim & 1) != 0 ? ~t->stay : t->stay;
    }
    usleep((useconds_t)(run_random(&t->random) % 60000));
}

/* So that they hear of all deaths at once. */
static int await_state(const loco_fork_t *job, uint64_t set, int signal, int state)
{
    for (int i = 0; i < MEMBERS; i++)
        if ((set >> i & 1) != 0)
            kill(loco_fork_pid(job, i), signal);
    for (int i = 0; i < MEMBERS; i++) {
        siginfo_t info;

        if ((set >> i & 1) != 0
            && waitid(P_PID, (id_t)loco_fork_pid(job, i), &info, state | WNOWAIT) != 0)
            return perror("waitid"), 1;
    }
    return 0;
}

/* Who loads, one that stays, and perhaps one more go on living. */
static int kill_majority(struct test *t, const loco_fork_t *job)
{
    uint64_t all = (UINT64_C(1) << MEMBERS) - 1, survivors;
    int loader;

    usleep((useconds_t)(run_random(&t->random) % 60000));
    loader = find_busy(t, all & ~t->stay, false);
    if (loader < 0)
        loader = some_of(t, all & ~t->stay);
    survivors = UINT64_C(1) << loader | UINT64_C(1) << some_of(t, t->stay);
    if (run_random(&t->random) % 2 == 0)
        survivors |= UINT64_C(1) << some_of(t, all & ~t->stay);
    if (await_state(job, survivors, SIGSTOP, WSTOPPED) != 0)
        return 1;
    t->s->cut_off += t->s->member[loader].loading;
    t->s->killed = all & ~survivors;
    if (await_state(job, t->s->killed, SIGKILL, WEXITED) != 0)
        return 1;
    for (int i = 0; i < MEMBERS; i++)
        if ((survivors >> i & 1) != 0)
            kill(loco_fork_pid(job, i), SIGCONT);
    return 0;
}

/* A survivor's log: each sender's messages in order, without a gap. */
static int check_log(const struct member *m)
{
    uint64_t next[MEMBERS] = { 0 };

    for (uint64_t i = 0; i < m->given; i++) {
        const struct entry *e = &m->log[i];

        if (e->sender >= MEMBERS || e->message != next[e->sender]++
            || (i > 0 && e->view < m->log[i - 1].view))
            return fprintf(stderr, "place %llu: message %u of rank %u, view %u\n",
                           (unsigned long long)i, e->message, e->sender, e->view), 1;
    }
    return 0;
}

/* Where the majority was lost: each log is the beginning of the longest one; whoever stays has all
 * that anybody was told to be delivered. Copies count before they are handed out. */
static int check_cut_off(const struct test *t)
{
    uint64_t stays = t->stay & ~t->s->killed;
    const struct member *one = &t->s->member[0], *stayer;

    CHECK_EQ(__builtin_popcountll(stays), 1);
    stayer = &t->s->member[__builtin_ctzll(stays)];
    for (int i = 1; i < MEMBERS; i++)
        if (t->s->member[i].given > one->given)
            one = &t->s->member[i];
    CHECK_EQ(check_log(one), 0);
    for (int i = 0; i < MEMBERS; i++) {
        const struct member *m = &t->s->member[i];

        CHECK(memcmp(m->log, one->log, log_bytes(m->given)) == 0);
        CHECK(t->round % 5 == 4 || stayer->from[i] >= m->told);
    }
    return 0;
}

static int check_round(const struct test *t)
{
    uint64_t killed = t->s->killed;
    const struct member *one = &t->s->member[__builtin_ctzll(~killed)];

    CHECK_EQ(check_log(one), 0);
    for (int i = 0; i < MEMBERS; i++) {
        const struct member *m = &t->s->member[i];
        bool lives = (killed >> i & 1) == 0;

        CHECK(m->given <= one->given && (!lives || m->given == one->given));
        CHECK(memcmp(m->log, one->log, log_bytes(m->given)) == 0);
        CHECK(!lives || one->from[i] == m->sent);
        CHECK(one->from[i] >= m->told && one->from[i] <= m->sent + 1);
    }
    return 0;
}

static void choose(struct test *t)
{
    t->random = ((uint64_t)t->round + 1) * UINT64_C(0x9e3779b97f4a7c15);
    t->stay = t->outside = 0;
    while (__builtin_popcountll(t->stay) < STAY)
        t->stay |= UINT64_C(1) << run_random(&t->random) % MEMBERS;
    while (__builtin_popcountll(t->outside) < OUTSIDE)
        t->outside |= UINT64_C(1) << run_random(&t->random) % MEMBERS & ~t->stay;
    t->chunk = (size_t)1 << (14 + run_random(&t->random) % 5);
}

static int finish_round(struct test *t, loco_fork_t *job)
{
    int statuses[MEMBERS];

    loco_fork_wait(job, statuses);
    for (int i = 0; i < MEMBERS; i++)
        CHECK_EQ(statuses[i], (t->s->killed >> i & 1) != 0 ? RUN_KILLED : 0);
    return 0;
}

static int start_round(struct test *t, loco_fork_t **job)
{
    memset(t->s->member, 0, sizeof t->s->member);
    t->s->ready = t->s->stop = 0;
    t->s->killed = 0;
    choose(t);
    CHECK_OK(loco_fork_start(MEMBERS, member_body, t, job));
    CHECK_EQ(wait_for(t, &t->s->ready, MEMBERS), 0);
    t->s->ready = 0;
    return 0;
}

static int lose_majority(struct test *t)
{
    loco_fork_t *job;
    int64_t start;

    CHECK_EQ(start_round(t, &job), 0);
    CHECK_EQ(kill_majority(t, job), 0);
    start = run_now();
    for (int i = 0; i < MEMBERS; i++)
        while ((t->s->killed >> i & 1) == 0 && t->s->member[i].finished == 0)
            if (usleep(200), t->s->failed != 0 || run_too_long(start, patience(t)))
                return fprintf(stderr, "rank %d is not told that the view has ended\n", i), 1;
    CHECK_EQ(finish_round(t, job), 0);
    return check_cut_off(t);
}

static int run_round(struct test *t)
{
    loco_fork_t *job;
    int timed = t->s->times;

    CHECK_EQ(start_round(t, &job), 0);
    kill_some(t, job);
    t->s->stop = 1;
    CHECK_EQ(wait_for(t, &t->s->ready, MEMBERS - __builtin_popcountll(t->s->killed)), 0);
    t->s->stop = 2;
    CHECK_EQ(finish_round(t, job), 0);
    for (; timed < t->s->times && timed < TIMES; timed++)
        if (t->s->time[timed].ns > t->longest.ns) {
            t->longest = t->s->time[timed];
            t->longest_round = t->round;
        }
    return check_round(t);
}

static int compare(const void *a, const void *b)
{
    int64_t x = ((const struct join *)a)->ns, y = ((const struct join *)b)->ns;

    return (x > y) - (x < y);
}

/* Of joins that were waited for; there were some. */
static bool tell(struct test *t)
{
    int n = t->s->times < TIMES ? t->s->times : TIMES;

    qsort(t->s->time, (size_t)n, sizeof t->s->time[0], compare);
    if (n > 0)
        printf("# %d joins, ms: median %.2f, 90 %% %.2f, most %.2f (seed %d, %llu chunks); killed "
               "%d who gave the state and %d who loaded it\n", n,
               (double)t->s->time[n / 2].ns / 1e6, (double)t->s->time[n - 1 - n / 10].ns / 1e6,
               (double)t->longest.ns / 1e6, t->longest_round,
               (unsigned long long)t->longest.chunks, t->s->givers, t->s->newcomers);
    return n > 0;
}

/* Returns how many rounds there were; *failed: the last of them has. */
static int run_all(struct test *t, int rounds, int seed, int *failed)
{
    int done = 0;

    for (*failed = 0; done < rounds && *failed == 0; done++) {
        t->round = seed + done;
        *failed = t->loses ? lose_majority(t) : run_round(t);
        if (*failed != 0)
            printf("# this round: --seed %d --rounds 1%s\n", t->round,
                   t->loses ? " --majority" : "");
    }
    return done;
}

static bool come_and_die(struct test *t, int rounds, int seed)
{
    int failed, done = run_all(t, rounds, seed, &failed);
    bool joined = tell(t);

    printf("%sok 1 - %d members come, go and are killed, %d times: all have the same\n",
           failed != 0 ? "not " : "", MEMBERS, done);
    printf("%sok 2 - members came with the state\n", joined ? "" : "not ");
    return failed == 0 && joined;
}

static bool come_and_be_cut_off(struct test *t, int rounds, int seed, int number)
{
    int failed, done;

    t->loses = true;
    done = run_all(t, rounds, seed, &failed);
    printf("# %d newcomers lost the majority while they loaded the state\n", t->s->cut_off);
    printf("%sok %d - a majority is killed, %d times: all others are told\n1..%d\n",
           failed != 0 || done == 0 ? "not " : "", number, done, number);
    return failed == 0 && done > 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "rounds", required_argument, NULL, 'r' }, { "seed", required_argument, NULL, 's' },
        { "state", required_argument, NULL, 'b' }, { "majority", no_argument, NULL, 'm' },
        { NULL, 0, NULL, 0 },
    };
    struct test t = { .filler = 4 * MIB / 8 };
    int rounds = run_rounds(20), seed = 0, option;
    bool only = false, fine;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'r': rounds = atoi(optarg); break;
        case 's': seed = atoi(optarg); break;
        case 'b': t.filler = (size_t)atoi(optarg) * MIB / 8; break;
        case 'm': only = true; break;
        default: return 2;
        }
    if (rounds < 1 || seed < 0 || t.filler < 1 || t.filler > 1024 * MIB / 8)
        return fprintf(stderr, "at least a round, no negative seed, 1 to 1024 MiB of state\n"), 2;
    t.s = mmap(NULL, sizeof *t.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.s == MAP_FAILED)
        return 1;
    fine = only || come_and_die(&t, rounds, seed);
    rounds = !fine ? 0 : only ? rounds : (rounds + 1) / 2;      /* none while members hang */
    fine = come_and_be_cut_off(&t, rounds, seed, only ? 1 : 3) && fine;
    munmap(t.s, sizeof *t.s);
    return !fine;
}

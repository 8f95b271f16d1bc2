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
 *     views_join [--rounds N] [--seed N] [--state MIB]     20 rounds, from seed 0 on; 4 MiB
 *
 * At most one of the four that stay and one of those that come and go are killed: so somebody who
 * has the state lives, and a majority of each view, which members on several machines need. */

#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    struct entry log[LOG];
};

struct shared {
    _Atomic int ready, stop, failed;
    _Atomic uint64_t killed;
    _Atomic int times, givers, newcomers;   /* joins; killed while they gave, or loaded */
    int64_t time[TIMES];
    struct member member[MEMBERS];
};

struct test {
    struct shared *s;
    int round;                  /* the round's seed */
    size_t filler;              /* words of state beside the log */
    uint64_t random;
    uint64_t stay, outside;     /* sets of members */
    int64_t longest;            /* join, and in which round */
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
        if (status == LOCO_ERR_AGAIN)
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
    int at, status = loco_view_join(u->view, LOCO_FOREVER);

    if (status != LOCO_OK)
        return fail(u, loco_strerror(status));
    at = atomic_fetch_add(&u->s->times, 1);
    if (at < TIMES)
        u->s->time[at] = run_now() - start;
    return 0;
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
            status = join(u) != 0 ? LOCO_ERR_STATE : LOCO_OK;
        else if (in)
            status = loco_view_join(u->view, ns);
        else
            status = loco_view_leave(u->view, ns);
        if (status != LOCO_OK && status != LOCO_ERR_TIMEOUT)
            return fail(u, loco_strerror(status));
    }
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

static int work(void *arg, int thread)
{
    struct user *u = arg;

    if (thread == 0)
        return send_and_wait(u);
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
                                          .save = save, .load = load, .chunk = t->chunk };
    const loco_multicast_options_t log = { .slots = 1 + t->round % 64, .slot_bytes = 64,
                                           .handler = u->polls ? NULL : handle, .arg = u,
                                           .flags = t->round % 5 == 4 ? LOCO_MULTICAST_COPY : 0 };

    CHECK_OK(loco_view_create(rt, NULL, "view", loco_everyone(rt), &options, &u->view));
    CHECK_OK(loco_view_multicast(u->view, "log", &log, &u->m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    atomic_fetch_add(&t->s->ready, 1);
    if (run_threads(3, work, u) != 0)
        _exit(1);
    while (!all_finished(u))
        usleep(200);
    if (t->round % 2 == 1 && u->rank % 2 == 1)
        loco_view_leave(u->view, 0);            /* it does not hold up the end */
    loco_view_destroy(u->view);
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

static int run_round(struct test *t)
{
    int statuses[MEMBERS];
    loco_fork_t *job;
    int timed = t->s->times;

    memset(t->s->member, 0, sizeof t->s->member);
    t->s->ready = t->s->stop = 0;
    t->s->killed = 0;
    choose(t);
    CHECK_OK(loco_fork_start(MEMBERS, member_body, t, &job));
    CHECK_EQ(wait_for(t, &t->s->ready, MEMBERS), 0);
    t->s->ready = 0;
    kill_some(t, job);
    t->s->stop = 1;
    CHECK_EQ(wait_for(t, &t->s->ready, MEMBERS - __builtin_popcountll(t->s->killed)), 0);
    t->s->stop = 2;
    loco_fork_wait(job, statuses);
    for (int i = 0; i < MEMBERS; i++)
        CHECK_EQ(statuses[i], (t->s->killed >> i & 1) != 0 ? RUN_KILLED : 0);
    for (; timed < t->s->times && timed < TIMES; timed++)
        if (t->s->time[timed] > t->longest) {
            t->longest = t->s->time[timed];
            t->longest_round = t->round;
        }
    return check_round(t);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Of joins that were waited for; there were some. */
static bool tell(struct test *t)
{
    int n = t->s->times < TIMES ? t->s->times : TIMES;

    qsort(t->s->time, (size_t)n, sizeof t->s->time[0], compare);
    if (n > 0)
        printf("# %d joins, ms: median %.2f, 90 %% %.2f, most %.2f (seed %d); killed %d who gave "
               "the state and %d who loaded it\n", n, (double)t->s->time[n / 2] / 1e6,
               (double)t->s->time[n - 1 - n / 10] / 1e6, (double)t->longest / 1e6,
               t->longest_round, t->s->givers, t->s->newcomers);
    return n > 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "rounds", required_argument, NULL, 'r' }, { "seed", required_argument, NULL, 's' },
        { "state", required_argument, NULL, 'b' }, { NULL, 0, NULL, 0 },
    };
    struct test t = { .filler = 4 * MIB / 8 };
    int rounds = run_rounds(20), seed = 0, done = 0, failed = 0, option;
    bool joined;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'r': rounds = atoi(optarg); break;
        case 's': seed = atoi(optarg); break;
        case 'b': t.filler = (size_t)atoi(optarg) * MIB / 8; break;
        default: return 2;
        }
    if (rounds < 1 || seed < 0 || t.filler < 1 || t.filler > 1024 * MIB / 8)
        return fprintf(stderr, "at least a round, no negative seed, 1 to 1024 MiB of state\n"), 2;
    t.s = mmap(NULL, sizeof *t.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.s == MAP_FAILED)
        return 1;
    for (; done < rounds && failed == 0; done++) {
        t.round = seed + done;
        failed = run_round(&t);
        if (failed != 0)
            printf("# this round: --seed %d --rounds 1\n", t.round);
    }
    joined = tell(&t);
    printf("%sok 1 - %d members come, go and are killed, %d times: all have the same\n",
           failed != 0 ? "not " : "", MEMBERS, done);
    printf("%sok 2 - members came with the state\n1..2\n", joined ? "" : "not ");
    munmap(t.s, sizeof *t.s);
    return failed != 0 || !joined;
}

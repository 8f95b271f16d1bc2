/* SPDX-License-Identifier: BSD-3-Clause */

/* views HOW: five members of a view send without a pause, each on a machine of its own, and then
 * some of them are lost. HOW is
 *
 *   killed    the last one, by SIGKILL      the other four go on
 *   cut       the last one's link is down   so do they; the last one stops
 *   mended    the same, and a second after the others have gone on the link is there again:
 *             nothing changes by that
 *   stopped   the last one, by SIGSTOP, and woken when the others have gone on: it stops
 *   split     the last two reach only each other: three go on, both of them stop
 *   minority  the same with LOCO_VIEW_MINORITY: both parts go on
 *   between   the first and the last do not reach each other: one of them stops, or both do, and
 *             the rest go on
 *   too_many  three are killed at once: the two that are left stop
 *   paused    the last one, by SIGSTOP, for a third of LOCO_PEER_TIMEOUT: all five go on
 *
 * To go on is to be given messages in a view without the lost, within LOCO_PEER_TIMEOUT and a few
 * seconds. Who stops is told LOCO_ERR_PARTITIONED. All that go on together have been given the same
 * messages in the same views, none of their own is missing, and who stopped or was killed has been
 * given the beginning of that. TAP. */

#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <loco/loco.h>

#include "../machine/machine.h"
#include "run.h"

enum { MEMBERS = 5, LAST = MEMBERS - 1, MESSAGES = 20000, LOG = MEMBERS * MESSAGES };
enum how { KILLED, CUT, MENDED, STOPPED, SPLIT, MINORITY, BETWEEN, TOO_MANY, PAUSED, WAYS };
static const char *const ways[WAYS] = { "killed", "cut", "mended", "stopped", "split", "minority",
                                        "between", "too_many", "paused" };

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TIMEOUT (3 * SECOND)            /* LOCO_PEER_TIMEOUT, which main() sets */
#define AFTER (4 * SECOND)              /* and so much later all is over */

struct entry {
    uint32_t sender, message;
    uint64_t view;
};

/* What a member has seen, for the parent to see. */
struct seen {
    _Atomic uint64_t given, sent;
    _Atomic uint64_t present;           /* its view's members, as a set; 0: it has ended */
    _Atomic int status;                 /* what has ended it */
    _Atomic int finished;               /* it sends no more */
    struct entry log[LOG];
};

static struct shared {
    _Atomic int ready, stop, leave;
    struct seen member[MEMBERS];
} *shared;

struct user {
    struct seen *me;
    loco_view_t *view;
    loco_multicast_t *log;
};

static int64_t scaled(int64_t ns)
{
    const char *text = getenv("TEST_SCALE");

    return text == NULL || atof(text) < 1 ? ns : (int64_t)((double)ns * atof(text));
}

/* ---- a member ---- */

static void changed(void *arg, uint64_t number, const int *members, int n)
{
    struct user *u = arg;
    uint64_t present = 0;

    (void)number;
    for (int i = 0; i < n; i++)
        present |= UINT64_C(1) << members[i];
    u->me->present = present;
}

static void handle(void *arg, const loco_delivery_t *messages, int n)
{
    struct user *u = arg;

    for (int i = 0; i < n; i++) {
        uint64_t at = u->me->given;
        struct entry *e = &u->me->log[at];

        if (at == LOG || messages[i].bytes != sizeof e->message)
            abort();
        memcpy(&e->message, messages[i].data, sizeof e->message);
        e->sender = (uint32_t)messages[i].sender;
        e->view = loco_view_of(u->view, u->log, messages[i].number);
        u->me->given = at + 1;
    }
}

/* Not as fast as it can, for what all have been given is kept. */
static int send_all(struct user *u)
{
    int status = LOCO_OK;

    for (uint32_t i = 0; status == LOCO_OK && shared->stop == 0; i++) {
        uint64_t number;

        while ((status = loco_multicast_try_post(u->log, &i, sizeof i, &number)) == LOCO_ERR_AGAIN
               && shared->stop == 0)
            usleep(200);
        if (status == LOCO_OK)
            u->me->sent = i + 1;
        usleep(1000);
    }
    return status == LOCO_ERR_AGAIN ? LOCO_OK : status;
}

static int live(const struct loco_bootstrap *boot, void *arg)
{
    int me = boot->exchange.rank;
    struct user u = { .me = &shared->member[me] };
    loco_runtime_t *rt;

    u.me->present = (UINT64_C(1) << MEMBERS) - 1;
    NEED(loco_runtime_open(boot, &rt) == LOCO_OK);
    NEED(loco_view_create(rt, NULL, "view", loco_everyone(rt), &(loco_view_options_t){
                              .flags = *(const enum how *)arg == MINORITY ? LOCO_VIEW_MINORITY : 0,
                              .changed = changed, .arg = &u }, &u.view) == LOCO_OK);
    NEED(loco_view_multicast(u.view, "log", &(loco_multicast_options_t){
                                 .slots = 16, .slot_bytes = 64, .handler = handle, .arg = &u },
                             &u.log) == LOCO_OK);
    NEED(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
    atomic_fetch_add(&shared->ready, 1);
    u.me->status = send_all(&u);
    u.me->finished = 1;
    while (shared->leave == 0)
        usleep(1000);
    loco_view_destroy(u.view);
    loco_runtime_close(rt);
    return 0;
}

/* ---- the network ---- */

static bool run(const char *command)
{
    int status = system(command);

    if (status != 0)
        printf("# %s: %d\n", command, status);
    return status == 0;
}

/* Or they can again. A packet that has left already arrives. */
static bool part(int a, int b, bool parted)
{
    bool good = true;
    char command[256];

    for (int turn = 0; turn < 2; turn++) {
        int from = turn == 0 ? a : b, to = turn == 0 ? b : a;

        snprintf(command, sizeof command, "on %d sh -c 'ip route %s blackhole 10.91.0.%d/32 && "
                 "{ ip -6 route %s blackhole fd00:91::%d/128 2>/dev/null || :; }'", from + 1,
                 parted ? "add" : "del", to + 1, parted ? "add" : "del", to + 1);
        good = run(command) && good;
    }
    return good;
}

static bool split(bool parted)
{
    bool good = true;

    for (int i = 0; i < 3; i++)
        for (int other = 3; other < MEMBERS; other++)
            good = part(i, other, parted) && good;
    return good;
}

/* Down, a link loses its address of version 6. */
static bool link_of_last(bool up)
{
    return run(!up ? "on 5 ip link set eth0 down"
               : "on 5 sh -c 'ip link set eth0 up; ip addr add fd00:91::5/64 dev eth0 nodad "
               "2>/dev/null; :'");
}

/* ---- the parent ---- */

static uint64_t set_of(int first, int end)
{
    return ((UINT64_C(1) << end) - 1) & ~((UINT64_C(1) << first) - 1);
}

/* That all of `parts`, which are sets of members, are in a view of just this set. */
static bool wait_for(uint64_t parts)
{
    int64_t start = run_now();

    for (int i = 0; i < MEMBERS; i++)
        while ((parts >> i & 1) != 0 && shared->member[i].present != parts)
            if (usleep(1000), run_now() - start > scaled(TIMEOUT + AFTER)) {
                printf("# member %d has the view %#llx, and not %#llx\n", i,
                       (unsigned long long)shared->member[i].present, (unsigned long long)parts);
                return false;
            }
    if (run_now() - start > SECOND / 10)
        printf("# gone on after %.2f s\n", (double)(run_now() - start) / (double)SECOND);
    return true;
}

static bool stops(int member)
{
    int64_t start = run_now();

    while (shared->member[member].finished == 0)
        if (usleep(1000), run_now() - start > scaled(TIMEOUT + AFTER)) {
            printf("# member %d does not stop\n", member);
            return false;
        }
    if (shared->member[member].status == LOCO_ERR_PARTITIONED
        && shared->member[member].present == 0)
        return true;
    printf("# member %d ends with %s, view %#llx\n", member,
           loco_strerror(shared->member[member].status),
           (unsigned long long)shared->member[member].present);
    return false;
}

/* Who of the first and the last suspects the other one first makes that one stop; both may be the
 * first. The set of who goes on. */
static uint64_t whoever_goes_on(void)
{
    int64_t start = run_now();
    uint64_t on = set_of(0, MEMBERS);

    while (shared->member[0].finished == 0 && shared->member[LAST].finished == 0
           && run_now() - start < scaled(TIMEOUT + AFTER))
        usleep(1000);
    usleep(SECOND / 2 / 1000);
    for (int i = 0; i < MEMBERS; i++)
        if (shared->member[i].finished != 0)
            on &= ~(UINT64_C(1) << i);
    return on;
}

/* Something is lost; `on` and `on2` are then the sets that go on. */
static bool lose(enum how how, const loco_fork_t *job, uint64_t on[2])
{
    pid_t last = loco_fork_pid(job, LAST);
    bool good = true;

    on[0] = set_of(0, LAST);
    switch (how) {
    case KILLED:
        kill(last, SIGKILL);
        return wait_for(on[0]);
    case CUT:
    case MENDED:
        good = link_of_last(false) && wait_for(on[0]) && stops(LAST);
        if (how == MENDED)
            good = link_of_last(true) && sleep(1) == 0 && good;
        return good;
    case STOPPED:
        kill(last, SIGSTOP);
        good = wait_for(on[0]);
        kill(last, SIGCONT);
        return stops(LAST) && good;
    case SPLIT:
    case MINORITY:
        on[0] = set_of(0, 3);
        good = split(true) && wait_for(on[0]);
        if (how == MINORITY) {
            on[1] = set_of(3, MEMBERS);
            return wait_for(on[1]) && good;
        }
        return stops(3) && stops(LAST) && good;
    case BETWEEN:
        good = part(0, LAST, true);
        on[0] = whoever_goes_on();
        good = (on[0] | set_of(1, LAST)) == on[0] && wait_for(on[0]) && good;
        for (int i = 0; i < MEMBERS; i += LAST)
            good = ((on[0] >> i & 1) != 0 || stops(i)) && good;
        return good;
    case TOO_MANY:
        on[0] = 0;
        for (int i = 2; i < MEMBERS; i++)
            kill(loco_fork_pid(job, i), SIGKILL);
        return stops(0) && stops(1);
    default:
        on[0] = set_of(0, MEMBERS);
        kill(last, SIGSTOP);
        usleep(TIMEOUT / 3 / 1000);
        kill(last, SIGCONT);
        return sleep(1) == 0 && wait_for(on[0]);
    }
}

static bool mend(enum how how)
{
    switch (how) {
    case CUT:
        return link_of_last(true);
    case SPLIT:
    case MINORITY:
        return split(false);
    case BETWEEN:
        return part(0, LAST, false);
    default:
        return true;
    }
}

/* Each sender's messages in order, without a gap, in views that grow. */
static bool is_whole(int member)
{
    uint32_t next[MEMBERS] = { 0 };
    const struct seen *m = &shared->member[member];

    for (uint64_t i = 0; i < m->given; i++) {
        const struct entry *e = &m->log[i];

        if (e->sender >= MEMBERS || e->message != next[e->sender]++
            || (i > 0 && e->view < m->log[i - 1].view)) {
            printf("# member %d, place %llu: message %u of %u, view %llu\n", member,
                   (unsigned long long)i, e->message, e->sender, (unsigned long long)e->view);
            return false;
        }
    }
    return true;
}

static bool is_beginning(int member, int of)
{
    const struct seen *m = &shared->member[member], *whole = &shared->member[of];

    if (m->given <= whole->given && memcmp(m->log, whole->log, m->given * sizeof m->log[0]) == 0)
        return true;
    printf("# member %d was given %llu messages, which are not the beginning of the %llu of %d\n",
           member, (unsigned long long)m->given, (unsigned long long)whole->given, of);
    return false;
}

/* All that who goes on has sent is given to them all. */
static bool is_given(uint64_t on)
{
    int64_t start = run_now();

    for (int i = 0; i < MEMBERS; i++)
        for (int sender = 0; (on >> i & 1) != 0 && sender < MEMBERS; sender++)
            for (;;) {
                const struct seen *m = &shared->member[i];
                uint64_t n = 0;

                for (uint64_t at = 0; at < m->given; at++)
                    n += m->log[at].sender == (uint32_t)sender;
                if ((on >> sender & 1) == 0 || n == shared->member[sender].sent)
                    break;
                if (usleep(10000), run_now() - start > scaled(5 * SECOND)) {
                    printf("# member %d was given %llu of the %llu messages of %d\n", i,
                           (unsigned long long)n, (unsigned long long)shared->member[sender].sent,
                           sender);
                    return false;
                }
            }
    return true;
}

/* Messages that were given after this. */
static bool goes_on(uint64_t on)
{
    uint64_t before[MEMBERS];
    int64_t start = run_now();

    for (int i = 0; i < MEMBERS; i++)
        before[i] = shared->member[i].given;
    for (int i = 0; i < MEMBERS; i++)
        while ((on >> i & 1) != 0 && shared->member[i].given < before[i] + 100)
            if (usleep(1000), run_now() - start > scaled(5 * SECOND)) {
                printf("# member %d is given no more messages\n", i);
                return false;
            }
    return true;
}

static bool finish(uint64_t on)
{
    int64_t start = run_now();

    for (int i = 0; i < MEMBERS; i++)
        while ((on >> i & 1) != 0 && shared->member[i].finished == 0)
            if (usleep(1000), run_now() - start > scaled(5 * SECOND)) {
                printf("# member %d cannot send\n", i);
                return false;
            }
    return true;
}

static bool agree(enum how how, const uint64_t on[2])
{
    int one = on[0] != 0 ? __builtin_ctzll(on[0]) : 0, two;
    bool good = is_given(on[0]) && is_given(on[1]);

    if (on[0] == 0)
        one = shared->member[0].given > shared->member[1].given ? 0 : 1;
    for (int i = 0; i < MEMBERS; i++) {
        good = is_whole(i) && good;
        if (how == MINORITY && (on[1] >> i & 1) != 0) {
            two = __builtin_ctzll(on[1]);
            good = is_beginning(i, two) && is_beginning(two, i) && good;
        } else if (on[0] != 0 || i < 2) {
            good = is_beginning(i, one) && good;
            good = ((on[0] >> i & 1) == 0 || is_beginning(one, i)) && good;
        }
    }
    return good;
}

static bool ended_well(enum how how, const int *status)
{
    for (int i = 0; i < MEMBERS; i++) {
        bool killed = (how == KILLED && i == LAST) || (how == TOO_MANY && i >= 2);

        if (status[i] != (killed ? -SIGKILL : 0)) {
            printf("# member %d ended with %d\n", i, status[i]);
            return false;
        }
    }
    return true;
}

static bool one_way(enum how how)
{
    int status[MEMBERS] = { 0 };
    uint64_t on[2] = { 0, 0 };
    loco_fork_t *job;
    bool good = true;

    if (loco_fork_start(MEMBERS, live, &how, &job) != LOCO_OK)
        return false;
    for (int64_t start = run_now(); shared->ready < MEMBERS && good; usleep(1000))
        good = run_now() - start < scaled(20 * SECOND);
    usleep(200000);
    good = good && lose(how, job, on) && goes_on(on[0]) && goes_on(on[1]);
    shared->stop = 1;
    good = finish(on[0] | on[1]) && good && agree(how, on);
    good = mend(how) && good;
    shared->leave = 1;
    usleep(300000);
    if (!good)
        for (int i = 0; i < MEMBERS; i++)
            kill(loco_fork_pid(job, i), SIGKILL);
    loco_fork_wait(job, status);
    return good && ended_well(how, status);
}

int main(int argc, char **argv)
{
    struct tap tap = { 0 };
    int how = 0;

    while (how < WAYS && (argc < 2 || strcmp(argv[1], ways[how]) != 0))
        how++;
    if (how == WAYS) {
        fprintf(stderr, "usage: views HOW, one of those in the source's opening comment\n");
        return 2;
    }
    setenv("LOCO_PEER_TIMEOUT", "3s", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    tap_ok(&tap, one_way((enum how)how), "%s", ways[how]);
    return tap_end(&tap);
}

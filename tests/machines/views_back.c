/* SPDX-License-Identifier: BSD-3-Clause */

/* views_back [ROUNDS]: five members of a view send, each on a machine of its own. The last one's
 * link is cut: the other four go on, and it is told LOCO_ERR_PARTITIONED. The link is mended: it
 * opens another runtime, is admitted, is given the state, and sends again. So ROUNDS times (2).
 * Meanwhile nobody stops to send for more than the runtime needs to notice the loss and a second.
 * In the end all five have the same state: how many messages there were, and a hash of all in their
 * order. TAP. */

#include "config.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <loco/loco.h>

#include "../machine/machine.h"
#include "run.h"

enum { MEMBERS = 5, LAST = MEMBERS - 1, ROUNDS = 8, SEATS = MEMBERS + ROUNDS };

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TIMEOUT (3 * SECOND)            /* LOCO_PEER_TIMEOUT, which main() sets */
#define PATIENCE (20 * SECOND)

/* What messages make of it. */
struct state {
    uint64_t given, hash;
    uint32_t next[SEATS];               /* by rank */
};

/* For the parent to see. */
struct seen {
    _Atomic uint64_t given, hash;
    _Atomic uint64_t present;           /* its view's members, as a set; 0: it has ended */
    _Atomic int64_t pause;              /* the longest between two messages that it was given */
    _Atomic int status, wrong, finished;
};

static struct shared {
    _Atomic int ready, stop, leave;
    _Atomic int mended;                 /* rounds in which the last one may come back, */
    _Atomic int back;                   /* and is */
    _Atomic int asks;                   /* it has an address; so many rounds */
    _Atomic int admitted;               /* and a ticket */
    struct seen member[MEMBERS];
    /* As a socket or a file would carry them. */
    size_t address_bytes, ticket_bytes;
    unsigned char address[LOCO_ADDRESS_MAX], ticket[LOCO_VIEW_TICKET_MAX];
} *shared;

struct user {
    struct seen *me;
    int rank;                           /* of the process */
    struct state state, loaded;
    int64_t last;
    loco_view_t *view;
    loco_multicast_t *log;
};

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

static void apply(struct user *u, const loco_delivery_t *message)
{
    struct state *s = &u->state;
    uint32_t i;

    memcpy(&i, message->data, sizeof i);
    u->me->wrong |= message->sender >= SEATS || s->next[message->sender] != i;
    s->next[message->sender % SEATS] = i + 1;
    s->given++;
    s->hash = (s->hash ^ ((uint64_t)message->sender << 32 | i)) * UINT64_C(0x9e3779b97f4a7c15);
}

static void handle(void *arg, const loco_delivery_t *messages, int n)
{
    struct user *u = arg;
    int64_t now = run_now();

    if (n == 0)
        return;
    if (u->last != 0 && now - u->last > u->me->pause)
        u->me->pause = now - u->last;
    u->last = now;
    for (int i = 0; i < n; i++)
        apply(u, &messages[i]);
    u->me->hash = u->state.hash;
    u->me->given = u->state.given;
}

static size_t save(void *arg, uint64_t at, void *chunk, size_t room)
{
    const struct user *u = arg;
    size_t n = sizeof u->state - (size_t)at < room ? sizeof u->state - (size_t)at : room;

    memcpy(chunk, (const unsigned char *)&u->state + at, n);
    return n;
}

static void load(void *arg, uint64_t at, const void *chunk, size_t bytes)
{
    struct user *u = arg;

    if (at + bytes > sizeof u->loaded)
        abort();
    memcpy((unsigned char *)&u->loaded + at, chunk, bytes);
    if (bytes == 0)
        u->state = u->loaded;
}

static void admit(struct user *u)
{
    size_t bytes = sizeof shared->ticket;
    int round = shared->asks;

    if (u->rank != 0 || shared->admitted == round)
        return;
    if (loco_view_admit(u->view, shared->address, shared->address_bytes, shared->ticket, &bytes,
                        LOCO_FOREVER) != LOCO_OK)
        return;
    shared->ticket_bytes = bytes;
    shared->admitted = round;
}

static int send_all(struct user *u)
{
    int status = LOCO_OK;

    for (uint32_t i = 0; status == LOCO_OK && shared->stop == 0; i++) {
        while ((status = loco_multicast_try_post(u->log, &i, sizeof i, NULL)) == LOCO_ERR_AGAIN
               && shared->stop == 0)
            usleep(200);
        usleep(1000);
        admit(u);
    }
    return status == LOCO_ERR_AGAIN ? LOCO_OK : status;
}

static int make_log(struct user *u)
{
    return loco_view_multicast(u->view, "log", &(loco_multicast_options_t){
                                   .slots = 16, .slot_bytes = 64, .handler = handle, .arg = u },
                               &u->log);
}

static int gather_alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

/* With another runtime, and with a ticket from a member. */
static int come_back(struct user *u, const struct loco_bootstrap *boot, loco_runtime_t **rt)
{
    struct loco_bootstrap alone = *boot;
    int round = shared->mended;

    alone.exchange = (struct loco_exchange){ NULL, 0, 1, gather_alone };
    NEED(loco_runtime_open(&alone, rt) == LOCO_OK);
    shared->address_bytes = sizeof shared->address;
    NEED(loco_runtime_address(*rt, shared->address, &shared->address_bytes) == LOCO_OK);
    shared->asks = round;
    while (shared->admitted != round)
        usleep(1000);
    NEED(loco_view_enter(*rt, shared->ticket, shared->ticket_bytes, &(loco_view_options_t){
                             .changed = changed, .arg = u, .save = save, .load = load },
                         &u->view) == LOCO_OK);
    NEED(make_log(u) == LOCO_OK);
    NEED(loco_runtime_wait_ready(*rt, LOCO_FOREVER) == LOCO_OK);
    u->last = 0;
    NEED(loco_view_join(u->view, LOCO_FOREVER) == LOCO_OK);
    shared->back = round;
    return 0;
}

static int live(const struct loco_bootstrap *boot, void *arg)
{
    struct user u = { .rank = boot->exchange.rank };
    loco_runtime_t *rt;

    (void)arg;
    u.me = &shared->member[u.rank];
    NEED(loco_runtime_open(boot, &rt) == LOCO_OK);
    NEED(loco_view_create(rt, NULL, "view", loco_everyone(rt), &(loco_view_options_t){
                              .changed = changed, .arg = &u, .save = save, .load = load,
                              .seats = SEATS }, &u.view) == LOCO_OK);
    NEED(make_log(&u) == LOCO_OK);
    NEED(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
    atomic_fetch_add(&shared->ready, 1);
    for (int round = 1; (u.me->status = send_all(&u)) != LOCO_OK && shared->leave == 0; round++) {
        while (shared->mended < round && shared->leave == 0)
            usleep(1000);
        loco_view_destroy(u.view);
        loco_runtime_close(rt);
        NEED(shared->leave == 0 && come_back(&u, boot, &rt) == 0);
    }
    u.me->finished = 1;
    while (shared->leave == 0)
        usleep(1000);
    loco_view_destroy(u.view);
    loco_runtime_close(rt);
    return 0;
}

/* ---- the parent ---- */

static int64_t scaled(int64_t ns)
{
    const char *text = getenv("TEST_SCALE");

    return text == NULL || atof(text) < 1 ? ns : (int64_t)((double)ns * atof(text));
}

/* Down, a link loses its address of version 6. */
static bool link_of_last(bool up)
{
    return system(!up ? "on 5 ip link set eth0 down"
                  : "on 5 sh -c 'ip link set eth0 up; ip addr add fd00:91::5/64 dev eth0 nodad "
                  "2>/dev/null; :'") == 0;
}

static bool await(const char *what, const _Atomic int *word, int value)
{
    int64_t start = run_now();

    while (*word != value)
        if (usleep(1000), run_now() - start > scaled(PATIENCE)) {
            printf("# not so after %d s: %s\n", (int)(PATIENCE / SECOND), what);
            return false;
        }
    return true;
}

static bool await_view(uint64_t members, int n)
{
    int64_t start = run_now();

    for (int i = 0; i < n; i++)
        while (shared->member[i].present != members)
            if (usleep(1000), run_now() - start > scaled(PATIENCE)) {
                printf("# member %d has the view %#llx, and not %#llx\n", i,
                       (unsigned long long)shared->member[i].present,
                       (unsigned long long)members);
                return false;
            }
    return true;
}

static bool goes_on(int n)
{
    uint64_t before[MEMBERS];
    int64_t start = run_now();

    for (int i = 0; i < n; i++)
        before[i] = shared->member[i].given;
    for (int i = 0; i < n; i++)
        while (shared->member[i].given < before[i] + 100)
            if (usleep(1000), run_now() - start > scaled(PATIENCE)) {
                printf("# member %d is given no more messages\n", i);
                return false;
            }
    return true;
}

static bool one_round(int round)
{
    const uint64_t four = (UINT64_C(1) << LAST) - 1;
    int64_t start;
    bool good;

    good = link_of_last(false) && await_view(four, LAST)
           && await("the last one stops", &shared->member[LAST].status, LOCO_ERR_PARTITIONED)
           && goes_on(LAST);
    if (!link_of_last(true) || !good)
        return false;
    start = run_now();
    shared->mended = round;
    good = await("the last one is back", &shared->back, round)
           && await_view(four | UINT64_C(1) << (LAST + round), MEMBERS);
    printf("# back after %.2f s\n", (double)(run_now() - start) / (double)SECOND);
    return good && goes_on(MEMBERS);
}

static bool are_alike(void)
{
    int64_t start = run_now();
    bool alike;

    do {
        alike = true;
        for (int i = 1; i < MEMBERS; i++)
            alike = alike && shared->member[i].given == shared->member[0].given
                    && shared->member[i].hash == shared->member[0].hash;
    } while (!alike && (usleep(10000), run_now() - start < scaled(PATIENCE)));
    for (int i = 0; i < MEMBERS; i++) {
        const struct seen *m = &shared->member[i];

        printf("# member %d: %llu messages, hash %016llx, longest pause %.2f s%s\n", i,
               (unsigned long long)m->given, (unsigned long long)m->hash,
               (double)m->pause / (double)SECOND, m->wrong ? ", out of order" : "");
        alike = alike && m->wrong == 0
                && (i == LAST || m->pause < scaled(TIMEOUT + 2 * SECOND));
    }
    return alike;
}

static bool all_rounds(int rounds)
{
    int status[MEMBERS] = { 0 };
    loco_fork_t *job;
    bool good;

    if (loco_fork_start(MEMBERS, live, NULL, &job) != LOCO_OK)
        return false;
    good = await("all are ready", &shared->ready, MEMBERS) && goes_on(MEMBERS);
    for (int round = 1; round <= rounds && good; round++)
        good = one_round(round);
    shared->stop = 1;
    for (int i = 0; i < MEMBERS && good; i++)
        good = await("a member has sent all", &shared->member[i].finished, 1);
    good = good && are_alike();
    shared->leave = 1;
    usleep(300000);
    for (int i = 0; i < MEMBERS && !good; i++)
        kill(loco_fork_pid(job, i), SIGKILL);
    return loco_fork_wait(job, status) == LOCO_OK && good;
}

int main(int argc, char **argv)
{
    struct tap tap = { 0 };
    int rounds = argc > 1 ? atoi(argv[1]) : 2;

    if (rounds < 1 || rounds > ROUNDS) {
        fprintf(stderr, "usage: views_back [ROUNDS], 1 to %d\n", ROUNDS);
        return 2;
    }
    setenv("LOCO_PEER_TIMEOUT", "3s", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    tap_ok(&tap, all_rounds(rounds), "cut off and mended %d times", rounds);
    return tap_end(&tap);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* After a death survivors do not kill each other.
 *
 * All members use a channel, without a pause. One of them is killed in the middle of it. Each of
 * the others hears of that by what a call returns, or by a look at the group; then it goes on with
 * its calls for as long as is its share (nothing, 10 or 100 ms), destroys its channel and closes
 * its runtime, whatever the others are at. Whoever goes on so meets members that have destroyed
 * theirs, or closed. Each kind of channel, each member killed, as it may be the host of locks,
 * words and places, and each share for each survivor.
 *
 * survivors [KIND [KILLED [TURN]]]. What goes wrong is a signal, a status that is neither a result
 * nor LOCO_ERR_PEER_DEAD, a report of a sanitizer, or a member that hangs. */

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "channels.h"
#include "machine.h"

#define MOST 4                          /* members */
#define TURNS 3

struct round {
    int kind, members, killed, turn;
};

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void quiet(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void *die_soon(void *ns)
{
    const struct timespec pause = { 0, (long)*(int64_t *)ns };

    nanosleep(&pause, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static bool sees_a_death(const struct member *m)
{
    for (int i = 0; i < m->n; i++)
        if (loco_group_alive(m->all, i) != LOCO_OK)
            return true;
    return false;
}

/* Of the survivors the first goes at once in turn 0, the second 10 ms later. */
static int64_t share_of(const struct round *r, int me)
{
    static const int ms[TURNS] = { 0, 10, 100 };
    int survivor = me - (me > r->killed);

    return ms[(survivor + r->turn) % TURNS] * INT64_C(1000000);
}

static int use(struct member *m, const struct round *r, void *made)
{
    int64_t heard = 0;

    while (heard == 0 || now() - heard < share_of(r, m->me)) {
        int status = kinds[r->kind].use(m, made);

        if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD) {
            fprintf(stderr, "member %d: %s: %s\n", m->me, kinds[r->kind].name,
                    loco_strerror(status));
            return status;
        }
        if (heard == 0 && (status != LOCO_OK || (rand_r(&m->seed) % 16 == 0 && sees_a_death(m))))
            heard = now();
    }
    return LOCO_OK;
}

static int live(const struct loco_bootstrap *boot, void *arg)
{
    const char *const settings[] = { "LOCO_EXTENT_MIN=2M", NULL };
    const struct round *r = arg;
    struct loco_bootstrap mine = *boot;
    struct member m = { .exchange = &boot->exchange, .me = boot->exchange.rank, .n = r->members };
    int64_t life = 1000000 + 1000000 * (int64_t)((r->kind * 7 + r->turn * 3) % 8);
    loco_region_t *before;              /* so that the channel is not in the first extent */
    pthread_t killer;
    void *made;
    int status;

    mine.settings = settings;
    mine.log = quiet;
    m.seed = (unsigned)(m.me + 10 * r->turn);
    NEED(loco_runtime_open(&mine, &m.rt) == LOCO_OK);
    m.all = loco_everyone(m.rt);
    NEED(loco_region_create(m.rt, NULL, "before", m.all, 2 << 20, &before) == LOCO_OK);
    NEED(kinds[r->kind].make(&m, "it", &made) == LOCO_OK);
    NEED(loco_runtime_wait_ready(m.rt, LOCO_FOREVER) == LOCO_OK);
    /* Nobody dies before all are ready. */
    NEED(boot->exchange.allgather(boot->exchange.ctx, NULL, 0, &(unsigned char){ 0 }) == LOCO_OK);
    if (m.me == r->killed)
        NEED(pthread_create(&killer, NULL, die_soon, &life) == 0);
    status = use(&m, r, made);
    kinds[r->kind].destroy(made);
    loco_region_destroy(before);
    loco_runtime_close(m.rt);
    return status != LOCO_OK;
}

/* The one that was killed, and nobody else. */
static bool ended_well(const struct round *r, const int *status)
{
    for (int i = 0; i < r->members; i++)
        if (status[i] != (i == r->killed ? -SIGKILL : 0))
            return false;
    return true;
}

static bool one_round(struct tap *tap, const struct round *r)
{
    int status[MOST] = { 0 };
    bool ok;

    alarm(120);                         /* one that hangs */
    loco_fork_run(r->members, live, (void *)r, status);
    ok = ended_well(r, status);
    if (!ok)
        printf("# %s: of %d members %d was killed, turn %d: exits %d %d %d %d\n",
               kinds[r->kind].name, r->members, r->killed, r->turn, status[0], status[1],
               status[2], status[3]);
    (void)tap;
    return ok;
}

static void one_kind(struct tap *tap, int kind, int killed, int turn)
{
    int rounds = 0, wrong = 0;

    for (struct round r = { .kind = kind, .members = 3 }; r.members <= MOST; r.members++)
        for (r.killed = 0; r.killed < r.members; r.killed++)
            for (r.turn = 0; r.turn < TURNS; r.turn++) {
                if ((killed >= 0 && r.killed != killed) || (turn >= 0 && r.turn != turn))
                    continue;
                rounds++;
                wrong += !one_round(tap, &r);
            }
    tap_ok(tap, wrong == 0, "%s: survivors destroy and close while others go on: %d deaths",
           kinds[kind].name, rounds);
}

int main(int argc, char **argv)
{
    struct tap tap = { 0 };

    for (int kind = 0; kind < KINDS; kind++)
        if (argc < 2 || strcmp(argv[1], kinds[kind].name) == 0)
            one_kind(&tap, kind, argc > 2 ? atoi(argv[2]) : -1, argc > 3 ? atoi(argv[3]) : -1);
    return tap_end(&tap);
}

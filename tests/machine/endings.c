/* SPDX-License-Identifier: BSD-3-Clause */

/* Channels of every kind end in any order, at any distance in time, and nobody meets memory that is
 * no more.
 *
 * In each round every member makes the same channels, each in an order of its own; all use them,
 * and meet; then each destroys them in an order of its own, with pauses, and goes on to the next
 * round, which has the same names, without a look at the others. In the last round one member
 * leaves early: it closes its runtime with channels that it has not destroyed, and the others still
 * use theirs.
 *
 * endings [SECONDS [SEED]]. What goes wrong is a signal, a status, a report of a sanitizer, or a
 * member that hangs. */

#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "channels.h"
#include "machine.h"

#define MEMBERS 3
#define ROUNDS 4
#define CHANNELS (2 * KINDS)            /* each kind twice */

/* A status that is right for who may have lost a member. */
static int but_for_who_left(int status)
{
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

static bool is_window(int channel)
{
    return channel % KINDS == WINDOW;
}

/* ---- rounds ---- */

static void shuffle(struct member *m, int *order)
{
    for (int i = 0; i < CHANNELS; i++)
        order[i] = i;
    for (int i = CHANNELS - 1; i > 0; i--) {
        int j = (int)(rand_r(&m->seed) % (unsigned)(i + 1)), was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
}

static void pause_at_times(struct member *m)
{
    if (rand_r(&m->seed) % 8 == 0)
        usleep(rand_r(&m->seed) % 4000);
}

static int make_all(struct member *m, void **made)
{
    int order[CHANNELS], status = LOCO_OK;
    char name[32];

    shuffle(m, order);
    for (int i = 0; i < 2 * CHANNELS && status == LOCO_OK; i++) {
        int at = order[i % CHANNELS];

        if (is_window(at) != (i >= CHANNELS))
            continue;
        snprintf(name, sizeof name, "%s%d", kinds[at % KINDS].name, at / KINDS);
        /* All make windows, and end them, in one order. */
        at = is_window(at) ? KINDS - 1 + (made[KINDS - 1] != NULL ? KINDS : 0) : at;
        status = kinds[at % KINDS].make(m, name, &made[at]);
        pause_at_times(m);
    }
    return status == LOCO_OK ? loco_runtime_wait_ready(m->rt, LOCO_FOREVER) : status;
}

static int use_all(struct member *m, void **made, int (*verdict)(int status))
{
    for (int i = 0; i < CHANNELS; i++) {
        int status = kinds[i % KINDS].use(m, made[i]);

        if (verdict != NULL)
            status = verdict(status);
        if (status != LOCO_OK) {
            fprintf(stderr, "member %d: %s: %s\n", m->me, kinds[i % KINDS].name,
                    loco_strerror(status));
            return status;
        }
    }
    return LOCO_OK;
}

/* `most`: so many of them, of those that are not windows. */
static void destroy_all(struct member *m, void **made, int most)
{
    int order[CHANNELS];

    for (int i = KINDS - 1; i < CHANNELS && most == CHANNELS; i += KINDS)
        kinds[WINDOW].destroy(made[i]);
    shuffle(m, order);
    for (int i = 0; i < most; i++) {
        if (is_window(order[i]))
            continue;
        pause_at_times(m);
        kinds[order[i] % KINDS].destroy(made[order[i]]);
    }
}

static void quiet(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* ---- members ---- */

static int live(const struct loco_bootstrap *boot, void *arg)
{
    const char *const settings[] = { "LOCO_EXTENT_MIN=2M", NULL };
    struct loco_bootstrap mine = *boot;
    struct member m = {
        .exchange = &boot->exchange, .me = boot->exchange.rank, .n = MEMBERS,
        .seed = *(unsigned *)arg * MEMBERS + (unsigned)boot->exchange.rank,
    };
    int leaver = (int)(*(unsigned *)arg % MEMBERS);
    void *made[CHANNELS];

    mine.settings = settings;
    mine.log = quiet;                   /* what is forgotten is said */
    NEED(loco_runtime_open(&mine, &m.rt) == LOCO_OK);
    m.all = loco_everyone(m.rt);
    for (int round = 0; round < ROUNDS; round++) {
        memset(made, 0, sizeof made);
        NEED(make_all(&m, made) == LOCO_OK);
        NEED(use_all(&m, made, NULL) == LOCO_OK);
        NEED(kinds[BARRIER].use(&m, made[BARRIER]) == LOCO_OK);
        if (round + 1 < ROUNDS)
            destroy_all(&m, made, CHANNELS);
    }
    if (m.me != leaver) {
        pause_at_times(&m);
        NEED(use_all(&m, made, but_for_who_left) == LOCO_OK);
    }
    destroy_all(&m, made, (int)(rand_r(&m.seed) % (CHANNELS - 1)));
    pause_at_times(&m);
    loco_runtime_close(m.rt);
    return 0;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    double end = now() + (argc > 1 ? atof(argv[1]) : 6);
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1, first = seed;
    int statuses[MEMBERS] = { 0 };
    struct tap tap = { 0 };
    bool ok = true;

    do {
        alarm(120);                     /* one that hangs */
        ok = loco_fork_run(MEMBERS, live, &seed, statuses) == LOCO_OK;
    } while (ok && ++seed != 0 && now() < end && argc <= 2);
    tap_ok(&tap, ok, "channels of every kind end in any order, seeds %u to %u: exits %d %d %d",
           first, ok ? seed - 1 : seed, statuses[0], statuses[1], statuses[2]);
    return tap_end(&tap);
}

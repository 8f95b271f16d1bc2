/* SPDX-License-Identifier: BSD-3-Clause */

/* gone_memory killed|left [window]: two members with a region of 64 MiB each, or a window, and a
 * barrier. One of them goes. Who stays finds its memory for as long as it has the region; with the
 * region both parts are given back, while the barrier, and the group of everyone, are there still.
 * (A window is left by all at once: its member has to be killed.) */

#include <signal.h>
#include <string.h>

#include <loco/fork.h>
#include <loco/loco.h>
#include <loco/window.h>

#include "held.h"

#define MIB 64
#define AT ((size_t)(MIB - 1) << 20)

struct channels {
    loco_barrier_t *barrier;
    loco_region_t *region;
    loco_window_t *window;      /* in its place, or NULL */
};

static void make_large(loco_runtime_t *rt, const struct loco_exchange *exchange, bool window,
                       struct channels *c)
{
    const size_t bytes = (size_t)MIB << 20;
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_ALLOCATE, .size = bytes, .disp_unit = 1,
    };

    if (window)
        MUST(loco_window_create(rt, exchange, &spec, &c->window) == LOCO_OK);
    else
        MUST(loco_region_create(rt, NULL, "large", loco_everyone(rt), bytes, &c->region)
             == LOCO_OK);
    MUST(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
}

static int read_large(const struct channels *c, int rank, uint64_t *word)
{
    struct loco_span get = { word, AT, sizeof *word };
    int status;

    if (c->window == NULL)
        return loco_region_read64(c->region, rank, AT, word);
    status = loco_window_lock(c->window, LOCO_LOCK_SHARED, rank, 0);
    if (status != LOCO_OK)
        return status;
    status = loco_window_get(c->window, rank, &get, 1, NULL);
    return status == LOCO_OK ? loco_window_unlock(c->window, rank) : status;
}

static void destroy_large(struct channels *c)
{
    loco_region_destroy(c->region);
    if (c->window != NULL)      /* who stays hears that the other has gone */
        (void)loco_window_destroy(c->window);
}

static void go(loco_runtime_t *rt, struct channels *c, bool killed)
{
    if (killed)
        kill(getpid(), SIGKILL);
    destroy_large(c);
    loco_barrier_destroy(c->barrier);
    loco_runtime_close(rt);
}

static void stay(loco_runtime_t *rt, struct channels *c, const struct held *before)
{
    const loco_group_t *all = loco_everyone(rt);
    struct held now;
    uint64_t word;

    while (loco_group_alive(all, 1) == LOCO_OK)
        usleep(1000);
    usleep(300000);
    now = held_now();
    held_tell("the other has gone", &now);
    if (c->window == NULL)
        loco_region_read64(c->region, 1, AT, &word);    /* an error, what was there or zero */
    destroy_large(c);
    now = held_now();
    for (double end = case_now() + case_limit(10); now.file_mib > before->file_mib + 16;) {
        MUST(case_now() < end);
        usleep(1000);
        now = held_now();
    }
    held_tell("the region is destroyed", &now);
    MUST(now.descriptors <= before->descriptors + 1);
    loco_barrier_destroy(c->barrier);
    loco_runtime_close(rt);
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    char *const *args = arg;
    const bool killed = strcmp(args[1], "killed") == 0;
    struct channels c = { .window = NULL };
    loco_runtime_t *rt;
    struct held before, now;
    uint64_t word;

    MUST(loco_runtime_open(boot, &rt) == LOCO_OK);
    MUST(loco_barrier_create(rt, NULL, "all", loco_everyone(rt), &c.barrier) == LOCO_OK);
    MUST(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
    MUST(loco_barrier_wait(c.barrier) == LOCO_OK);
    before = held_now();
    make_large(rt, &boot->exchange, args[2] != NULL, &c);
    MUST(read_large(&c, 1 - boot->exchange.rank, &word) == LOCO_OK);
    now = held_now();
    MUST(now.file_mib >= before.file_mib + 2 * MIB);
    MUST(loco_barrier_wait(c.barrier) == LOCO_OK);
    if (boot->exchange.rank == 1)
        go(rt, &c, killed);
    else
        stay(rt, &c, &before);
    return 0;
}

int main(int argc, char **argv)
{
    int statuses[2];

    MUST(argc >= 2);
    loco_fork_run(2, member, argv, statuses);
    MUST(statuses[0] == 0 && statuses[1] == (strcmp(argv[1], "killed") == 0 ? -SIGKILL : 0));
    return 0;
}

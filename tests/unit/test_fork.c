/* SPDX-License-Identifier: BSD-3-Clause */

/* Forked members and their exchange. Members return 0, or the line that is not so is on stderr. */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/fork.h>

#define NEED(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

static void run(int n, loco_fork_fn *fn)
{
    int statuses[8];

    loco_fork_run(n, fn, NULL, statuses);
    for (int i = 0; i < n; i++)
        cr_expect_eq(statuses[i], 0, "member %d ended with %d", i, statuses[i]);
}

static int exchanges(const struct loco_bootstrap *boot, void *arg)
{
    const struct loco_exchange *x = &boot->exchange;
    static const size_t lens[] = { 0, 1, 8, 4095, 4096, 4097, 30000 };
    unsigned char *mine = malloc(30000), *all = malloc(30000 * 8);

    (void)arg;
    NEED(mine != NULL && all != NULL);
    for (int round = 0; round < 100; round++) {
        size_t len = lens[round % 7];

        memset(mine, x->rank + round, len);
        NEED(x->allgather(x->ctx, mine, len, all) == LOCO_OK);
        for (size_t i = 0; i < len * (size_t)x->size; i++)
            NEED(all[i] == (unsigned char)((int)(i / len) + round));
    }
    free(mine);
    free(all);
    return 0;
}

Test(fork, allgather_of_any_size)
{
    run(1, exchanges);
    run(8, exchanges);
}

static int ends_early(const struct loco_bootstrap *boot, void *arg)
{
    const struct loco_exchange *x = &boot->exchange;
    int all[8], way = *(int *)arg;

    NEED(x->allgather(x->ctx, &way, sizeof way, all) == LOCO_OK);
    if (x->rank == 0 && way == 0)
        kill(getpid(), SIGKILL);
    if (x->rank == 0)
        return 3;
    NEED(x->allgather(x->ctx, &way, sizeof way, all) == LOCO_ERR_PEER_DEAD);
    return 0;
}

Test(fork, allgather_ends_when_a_member_does, .timeout = 20)
{
    int statuses[4];

    for (int way = 0; way < 2; way++) {
        cr_assert_eq(loco_fork_run(4, ends_early, &way, statuses), LOCO_ERR_PEER_DEAD);
        cr_assert_eq(statuses[0], way == 0 ? -SIGKILL : 3);
        for (int i = 1; i < 4; i++)
            cr_assert_eq(statuses[i], 0);
    }
}

static int sleeps(const struct loco_bootstrap *boot, void *arg)
{
    (void)boot;
    (void)arg;
    sleep(30);
    return 0;
}

Test(fork, members_can_be_killed, .timeout = 20)
{
    loco_fork_t *job;
    int statuses[3];

    cr_assert_eq(loco_fork_start(0, sleeps, NULL, &job), LOCO_ERR_ARG);
    cr_assert_eq(loco_fork_start(3, sleeps, NULL, &job), LOCO_OK);
    cr_assert_eq(loco_fork_pid(job, 3), -1);
    cr_assert_eq(loco_fork_pid(job, -1), -1);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kill(loco_fork_pid(job, i), i == 1 ? SIGTERM : SIGKILL), 0);
    cr_assert_eq(loco_fork_wait(job, statuses), LOCO_ERR_PEER_DEAD);
    cr_assert_eq(statuses[0], -SIGKILL);
    cr_assert_eq(statuses[1], -SIGTERM);
    cr_assert_eq(statuses[2], -SIGKILL);
}

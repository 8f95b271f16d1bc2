/* SPDX-License-Identifier: BSD-3-Clause */

/* descriptors peers: how many descriptors a member has open grows with its peers; the default
 * limit, 1,024, has to do for 900 of them. descriptors few N: N members make channels and use them
 * under whatever limit this process was started with. All succeed, or all end with an error; the
 * row of `table` says that none hangs. descriptors killed N: the same, and then each opens files
 * until it has no descriptor left, and the last one is killed: the others hear of it, what they
 * wait for ends, and a channel that they make then is had by all of them or an error. */

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "case.h"

#define MOST 64

static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The fewest in a tenth of a second: one may be open for a moment, to map a peer's memory. */
static int kept_descriptors(void)
{
    int fewest = open_descriptors();

    for (int i = 0; i < 20; i++) {
        int now;

        usleep(5000);
        now = open_descriptors();
        fewest = now < fewest ? now : fewest;
    }
    return fewest;
}

/* A word at each member, and a barrier: both need all peers. */
static int use_channels(loco_runtime_t *rt)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_barrier_t *barrier = NULL;
    loco_region_t *region = NULL;
    int status = loco_barrier_create(rt, NULL, "meeting", all, &barrier);

    if (status == LOCO_OK)
        status = loco_region_create(rt, NULL, "words", all, 4096, &region);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    for (int to = 0; status == LOCO_OK && to < loco_group_size(all); to++)
        status = loco_region_write64(region, to, 8 * (uint64_t)loco_group_rank(all), 1);
    if (status == LOCO_OK)
        status = loco_barrier_wait(barrier);
    if (status != LOCO_OK)      /* and the process ends: the others are not to wait for it */
        return status;
    loco_region_destroy(region);
    loco_barrier_destroy(barrier);
    return LOCO_OK;
}

/* Returns 0, or 1 with an error. */
static int meet(const struct loco_bootstrap *boot, void *arg)
{
    loco_runtime_t *rt;
    int status = loco_runtime_open(boot, &rt);

    (void)arg;
    if (status == LOCO_OK)
        status = use_channels(rt);
    if (status != LOCO_OK)
        return 1;
    loco_runtime_close(rt);
    return 0;
}

/* Returns how many descriptors its runtime has, all peers known and used. */
static int count(const struct loco_bootstrap *boot, void *arg)
{
    int before = open_descriptors(), n;
    loco_runtime_t *rt;

    (void)arg;
    if (loco_runtime_open(boot, &rt) != LOCO_OK || use_channels(rt) != LOCO_OK)
        return 255;
    n = kept_descriptors() - before;
    loco_runtime_close(rt);
    return n;
}

static int most_of(int members)
{
    int statuses[MOST], most = 0;

    (void)loco_fork_run(members, count, NULL, statuses);
    for (int i = 0; i < members; i++) {
        MUST(statuses[i] >= 0 && statuses[i] < 255);
        most = statuses[i] > most ? statuses[i] : most;
    }
    return most;
}

static void peers(void)
{
    int two = most_of(2), n, many = 0;

    for (n = 4; n <= 32; n *= 2) {
        many = most_of(n);
        printf("%d members: %d descriptors; 2: %d\n", n, many, two);
        MUST(many - two <= n - 2);
    }
    MUST(two + (900 - 2) * (double)(many - two) / (n / 2 - 2) < 1024 - 64);
}

/* What waits for the dead ends; one more channel, of the survivors, fails or serves. */
static int survive(loco_runtime_t *rt, loco_barrier_t *barrier)
{
    int ranks[MOST], n = loco_group_size(loco_everyone(rt)) - 1, status;
    loco_group_t *rest = NULL;
    loco_region_t *region = NULL;
    uint64_t word;
    double start = case_now();

    MUST(loco_barrier_wait(barrier) == LOCO_ERR_PEER_DEAD);
    MUST(case_now() - start < case_limit(10));
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    MUST(loco_group_subset(loco_everyone(rt), n, ranks, &rest) == LOCO_OK);
    status = loco_region_create(rt, NULL, "rest", rest, 4096, &region);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready_below(rt, "rest", INT64_C(20000000000));
    MUST(status != LOCO_ERR_TIMEOUT);
    if (status == LOCO_OK)
        MUST(loco_region_read64(region, 0, 0, &word) == LOCO_OK);
    loco_region_destroy(region);
    loco_group_destroy(rest);
    return 0;
}

static int outlive(const struct loco_bootstrap *boot, void *arg)
{
    loco_barrier_t *barrier = NULL;
    loco_runtime_t *rt;
    int status = loco_runtime_open(boot, &rt), last = boot->exchange.size - 1;

    (void)arg;
    if (status == LOCO_OK)
        status = loco_barrier_create(rt, NULL, "all", loco_everyone(rt), &barrier);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status != LOCO_OK)
        return 1;
    MUST(loco_barrier_wait(barrier) == LOCO_OK);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    if (boot->exchange.rank == last) {
        usleep(100000);                 /* the others are in their wait */
        raise(SIGKILL);
    }
    status = survive(rt, barrier);
    loco_barrier_destroy(barrier);
    loco_runtime_close(rt);
    return status;
}

static void killed(int members)
{
    int statuses[MOST];

    MUST(members > 1 && members <= MOST);
    (void)loco_fork_run(members, outlive, NULL, statuses);
    for (int i = 0; i < members - 1; i++)
        MUST(statuses[i] == statuses[0] && (statuses[i] == 0 || statuses[i] == 1));
    MUST(statuses[members - 1] == (statuses[0] == 0 ? -SIGKILL : 1));
    printf("%d members: %s\n", members, statuses[0] == 0 ? "fine" : "an error in all");
}

/* The limit is the members' alone: this process has what it needs. */
static void few(int members)
{
    int statuses[MOST];

    MUST(members > 0 && members <= MOST);
    (void)loco_fork_run(members, meet, NULL, statuses);
    for (int i = 0; i < members; i++)
        MUST(statuses[i] == statuses[0] && (statuses[i] == 0 || statuses[i] == 1));
    printf("%d members: %s\n", members, statuses[0] == 0 ? "fine" : "an error in all");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peers") == 0)
        peers();
    else if (argc == 3 && strcmp(argv[1], "few") == 0)
        few(atoi(argv[2]));
    else if (argc == 3 && strcmp(argv[1], "killed") == 0)
        killed(atoi(argv[2]));
    else
        return 2;
    return 0;
}

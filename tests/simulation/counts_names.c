/* SPDX-License-Identifier: BSD-3-Clause */
/* What making many channels at once costs: 2, 4 and 8 forked processes make N channels and wait for
 * all of them. A line for each number of processes and of channels, of control messages for each
 * channel and each other process, in hundredths:
 *
 *     names|PROCESSES|CHANNELS|MESSAGES
 *
 * Three connect a pair from either side; the counts script says how many more there may be. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "runtime.h"

#define MOST 8

/* What the processes share. */
struct seen {
    int channels;
    unsigned long long messages[MOST];
};

static int make_all(loco_runtime_t *rt, int n, loco_atomic_var_t **var)
{
    int status = LOCO_OK;
    char name[16];

    for (int i = 0; i < n && status == LOCO_OK; i++) {
        snprintf(name, sizeof name, "n%d", i);
        status = loco_atomic_var_create(rt, NULL, name, loco_everyone(rt), 0, &var[i]);
    }
    return status == LOCO_OK ? loco_runtime_wait_ready(rt, LOCO_FOREVER) : status;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    const struct loco_exchange *exchange = &boot->exchange;
    struct seen *seen = arg;
    loco_atomic_var_t **var = calloc((size_t)seen->channels, sizeof *var);
    unsigned char all[MOST];
    loco_runtime_t *rt;
    int status = loco_runtime_open(boot, &rt);

    if (var == NULL || status != LOCO_OK)
        return 1;
    status = make_all(rt, seen->channels, var);
    exchange->allgather(exchange->ctx, "", 1, all);     /* all answers are sent */
    seen->messages[exchange->rank] = LOCI_COUNTED(rt->counters.messages);
    exchange->allgather(exchange->ctx, "", 1, all);
    for (int i = 0; i < seen->channels; i++)
        loco_atomic_var_destroy(var[i]);
    free(var);
    loco_runtime_close(rt);
    if (status != LOCO_OK)
        printf("# rank %d: %s\n", exchange->rank, loco_strerror(status));
    return status != LOCO_OK;
}

int main(void)
{
    static const int channels[] = { 100, 1000, 3000 };
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (seen == MAP_FAILED)
        return 1;
    for (int n = 2; n <= MOST; n *= 2)
        for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
            unsigned long long messages = 0;

            memset(seen, 0, sizeof *seen);
            seen->channels = channels[i];
            if (loco_fork_run(n, member, seen, NULL) != LOCO_OK)
                return 1;
            for (int k = 0; k < n; k++)
                messages += seen->messages[k];
            printf("names|%d|%d|%llu\n", n, channels[i],
                   100 * messages / (unsigned long long)(n * (n - 1) * channels[i]));
        }
    return 0;
}

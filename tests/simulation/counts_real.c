/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of counts_calls.c in forked processes over the fabric that the environment says; a
 * line for each, which begins with the fabric's name.
 *
 * Over RDMA the devices count, too. A request and its answer are a packet each: all calls move less
 * than the smallest MTU. */
#include "config.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "counts.h"

static void meet(struct counts_member *m)
{
    m->exchange->allgather(m->exchange->ctx, NULL, 0, (unsigned char[1]){ 0 });
}

#define SENT "/sys/class/infiniband/*/ports/*/hw_counters/sent_pkts"     /* soft-RoCE's */

static unsigned long long sent_now(void)
{
    unsigned long long sum = 0, sent;
    glob_t found;

    if (glob(SENT, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");

        if (file != NULL && fscanf(file, "%llu", &sent) == 1)
            sum += sent;
        if (file != NULL)
            fclose(file);
    }
    globfree(&found);
    return sum;
}

/* Answers take their time: until none has come for a while. */
static unsigned long long packets(void)
{
    const struct timespec pause = { 0, 50000000 };
    unsigned long long sent = sent_now(), before;

    do {
        before = sent;
        nanosleep(&pause, NULL);
        sent = sent_now();
    } while (sent != before);
    return sent;
}

static bool over_rdma(void)
{
    const char *fabric = getenv("LOCO_FABRIC");

    return fabric != NULL && strcmp(fabric, "verbs") == 0;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct counts_member m = { .rank = boot->exchange.rank, .meet = meet,
                               .packets = over_rdma() ? packets : NULL,
                               .exchange = &boot->exchange };
    int result;

    m.row = (struct counts_row *)arg + m.rank * COUNTS_ROWS;
    if (loco_runtime_open(boot, &m.rt) != LOCO_OK)
        return 1;
    result = counts_calls(&m);
    loco_runtime_close(m.rt);
    return result;
}

int main(void)
{
    size_t len = sizeof(struct counts_row) * COUNTS_PROCESSES * COUNTS_ROWS;
    const char *fabric = over_rdma() ? "verbs" : "shm";
    struct counts_row *rows = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                   -1, 0);

    if (rows == MAP_FAILED || loco_fork_run(COUNTS_PROCESSES, member, rows, NULL) != LOCO_OK)
        return 1;
    for (int i = 0; i < COUNTS_PROCESSES * COUNTS_ROWS; i++)
        if (rows[i].name != NULL)
            printf("%s|%s|%d|%llu|%llu|%llu|%llu|%llu\n", fabric, rows[i].name, i / COUNTS_ROWS,
                   rows[i].n[COUNTS_WRITES], rows[i].n[COUNTS_READS], rows[i].n[COUNTS_ATOMICS],
                   rows[i].n[COUNTS_OWN_ATOMICS], rows[i].n[COUNTS_PLACES]);
    for (int i = 0; i < COUNTS_PROCESSES * COUNTS_ROWS; i++)
        if (rows[i].name != NULL)
            printf("%s waits|%s|%d|%llu\n", fabric, rows[i].name, i / COUNTS_ROWS, rows[i].waits);
    for (int i = 0; i < COUNTS_ROWS && over_rdma(); i++)
        if (rows[i].name != NULL)
            printf("packets|%s|%llu\n", rows[i].name, rows[i].packets);
    return 0;
}

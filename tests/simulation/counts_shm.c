/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of counts.c in forked processes over shared memory; a line for each. */
#include "config.h"

#include <stdio.h>
#include <sys/mman.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "counts.h"

static void meet(struct counts_member *m)
{
    m->exchange->allgather(m->exchange->ctx, NULL, 0, (unsigned char[1]){ 0 });
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct counts_member m = { .rank = boot->exchange.rank, .meet = meet,
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
    struct counts_row *rows = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                   -1, 0);

    if (rows == MAP_FAILED || loco_fork_run(COUNTS_PROCESSES, member, rows, NULL) != LOCO_OK)
        return 1;
    for (int i = 0; i < COUNTS_PROCESSES * COUNTS_ROWS; i++)
        if (rows[i].name != NULL)
            printf("shm|%s|%d|%llu|%llu|%llu|%llu|%llu\n", rows[i].name, i / COUNTS_ROWS,
                   rows[i].n[COUNTS_WRITES], rows[i].n[COUNTS_READS], rows[i].n[COUNTS_ATOMICS],
                   rows[i].n[COUNTS_OWN_ATOMICS], rows[i].n[COUNTS_PLACES]);
    return 0;
}

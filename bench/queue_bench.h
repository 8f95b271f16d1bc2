/* SPDX-License-Identifier: BSD-3-Clause */
/* The queues of queue_bench. */
#ifndef BENCH_QUEUE_BENCH_H
#define BENCH_QUEUE_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct queue_api {
    const char *name;
    void *(*make)(uint64_t capacity);       /* collective */
    void (*put)(void *q, uint64_t value);   /* waits for room */
    uint64_t (*take)(void *q);              /* waits for an entry */
    void (*free)(void *q);
    int threads_max;                        /* of a process */
    bool ranks;                             /* several processes may use it */
};

_Noreturn void queue_die(const char *what);
/* Spin some times, then yield. */
void queue_relax(unsigned *tries);

/* queue_mpi.c */
void *queue_mpi_make(uint64_t capacity);
void queue_mpi_put(void *q, uint64_t value);
uint64_t queue_mpi_take(void *q);
void queue_mpi_free(void *q);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MPI_MEMORY_H
#define LOCI_MPI_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime.h"

struct loci_mpi_watcher {
    loci_released_fn *released;
    void *arg;
};

/* Part of the process's state; zero at first. Changed by who opens and closes the runtime. */
struct loci_mpi_memory {
    bool is_open;
    struct loci_mpi_watcher last;
    _Atomic(const struct loci_mpi_watcher *) watcher;   /* &last, or nobody */
    _Atomic unsigned inside;                            /* threads that tell it */
};

/* While MPI_Init runs: where memory may be registered with RDMA devices, learn when it goes. */
void loci_mpi_memory_open(struct loci_mpi_memory *m);
/* Unless somebody still watches. */
void loci_mpi_memory_close(struct loci_mpi_memory *m);
/* loci_host.watch_memory; ctx is struct loci_mpi_memory. */
int loci_mpi_memory_watch(void *ctx, loci_released_fn *fn, void *arg);

#endif
